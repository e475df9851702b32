/*
 * fuzz_text_prompt - any bytes as the body of a completion (first byte '0') or of an infill ('1'): it is refused with the
 * field, or becomes prompts whose tokens are the vocabulary's, with their echo.
 */
#include <stdint.h>
#include <stdio.h>

#include "../chat/vocab_support.h"
#include "serve/json_fields.h"
#include "serve/text_prompt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct llama_model *model;
static cairn_llama_vocab vocab;

static void open_once(void)
{
    if (model != NULL)
        return;
    model = test_vocabulary_open();
    cairn_llama_vocab_init(&vocab, model);
}

static void check_prompts(const cairn_job *job)
{
    CAIRN_ASSERT(job->count_texts > 0 && job->count_texts <= CAIRN_TEXT_PROMPTS_MAX);
    for (uint32_t i = 0; i < job->count_texts; i++) {
        const cairn_job_text *text = &job->texts[i];
        CAIRN_ASSERT(text->tokens.count > 0);
        for (uint32_t k = 0; k < text->tokens.count; k++) {
            CAIRN_ASSERT(text->tokens.items[k] >= 0 &&
                         (uint32_t)text->tokens.items[k] < cairn_llama_vocab_size(&vocab));
        }
        CAIRN_ASSERT((text->echo == NULL) == (text->echo_bytes == 0));
        CAIRN_ASSERT(job->params.echo || text->echo == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cairn_api_error error = {0};
    if (size == 0 || size > 1 << 16)
        return 0;
    open_once();
    cairn_job *job = cairn_job_new(cairn_mem_default(), 1, 1 << 16);
    CAIRN_ASSERT(job != NULL);
    job->json = cairn_json_parse((const char *)data + 1, size - 1, &error);
    if (job->json != NULL)
        cairn_params_read(&job->params, job->json, &error);
    if (error.http == 0 && data[0] == '1') {
        cairn_infill_read(&vocab, job, &error);
    } else if (error.http == 0) {
        cairn_text_prompts_read(&vocab, job, &error);
    }
    if (error.http == 0) {
        check_prompts(job);
    } else {
        CAIRN_ASSERT(error.http == 400 && error.message[0] != '\0');
    }
    cairn_job_unref(job);
    return 0;
}
