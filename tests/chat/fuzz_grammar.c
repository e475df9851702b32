/*
 * fuzz_grammar - any text as the grammar of a request: it is refused with a reason, or the library takes it, too, and a few
 * tokens are chosen by it. What is refused for its size or its circles is so before the library sees it.
 */
#include <stdlib.h>

#include "cairn/status.h"
#include "chat/sampler_bridge.h"
#include "chat_support.h"
#include "vocab_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_BYTES_MAX = 4096, TOKENS = 3 };

static struct llama_model *model;
static uint32_t n_vocab;
static float *logits;

static void open_once(void)
{
    if (model != NULL)
        return;
    model = test_vocabulary_open();
    n_vocab = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    logits = calloc(n_vocab, sizeof *logits);
    CAIRN_ASSERT(logits != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_BYTES_MAX + 1];
    cairn_sampler_settings settings = cairn_sampler_settings_default();
    cairn_sampler *sampler = NULL;
    cairn_error error = {0};
    if (size == 0 || size > TEXT_BYTES_MAX)
        return 0;
    open_once();
    memcpy(text, data, size);
    text[size] = '\0';
    settings.temperature = 0;
    settings.grammar = text;
    cairn_status status = cairn_sampler_new(model, &settings, &sampler, &error);
    if (status != CAIRN_OK) {
        CAIRN_ASSERT(status == CAIRN_INVALID && strncmp(error.detail, "grammar: ", 9) == 0);
        /* taken here and not there */
        CAIRN_ASSERT(
            strcmp(error.detail, "grammar: can't be used by this build of libllama; its log says why") != 0);
        return 0;
    }
    for (int i = 0; i < TOKENS; i++) {
        cairn_token token = -1;
        logits[(size_t)(data[(size_t)i % size] * 131u) % n_vocab] += 1.0f;
        if (cairn_sampler_sample(sampler, logits, &token, &error) != CAIRN_OK)
            break; /* a dead end is an error, too */
        CAIRN_ASSERT(token >= 0 && (uint32_t)token < n_vocab);
        if (cairn_sampler_accept(sampler, token, true, &error) != CAIRN_OK)
            break;
    }
    cairn_sampler_free(sampler);
    return 0;
}
