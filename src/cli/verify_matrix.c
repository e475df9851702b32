/*
 * verify_matrix - see the header.
 */
#include "cli/verify_matrix.h"

#include <stdio.h>
#include <string.h>

#include "cli/term.h"
#include "engine/llama_check.h"

typedef struct setting {
    const char *name;
    const char *type_k, *type_v;
    cairn_llama_flash flash;
    uint32_t batch, ubatch;
    bool swa_full;
    bool no_repack; /* where CPUs have AMX slots share a context only then */
} setting;

static const setting settings[] = {
    {"as usual, batches of 128", NULL, NULL, CAIRN_LLAMA_FLASH_AUTO, 128, 0, false, false},
    {"batches of 512", NULL, NULL, CAIRN_LLAMA_FLASH_AUTO, 512, 0, false, false},
    {"batches of 128, computed by 32", NULL, NULL, CAIRN_LLAMA_FLASH_AUTO, 128, 32, false, false},
    {"batches of 32", NULL, NULL, CAIRN_LLAMA_FLASH_AUTO, 32, 0, false, false},
    {"flash attention on", NULL, NULL, CAIRN_LLAMA_FLASH_ON, 128, 0, false, false},
    {"flash attention off", NULL, NULL, CAIRN_LLAMA_FLASH_OFF, 128, 0, false, false},
    {"keys q8_0", "q8_0", NULL, CAIRN_LLAMA_FLASH_AUTO, 128, 0, false, false},
    {"keys and values q8_0", "q8_0", "q8_0", CAIRN_LLAMA_FLASH_ON, 128, 0, false, false},
    {"full-size windows", NULL, NULL, CAIRN_LLAMA_FLASH_AUTO, 128, 0, true, false},
    {"weights as in the file", NULL, NULL, CAIRN_LLAMA_FLASH_AUTO, 128, 0, false, true},
};

static cairn_status compare(cairn_engine_open *open, uint32_t tokens, uint32_t answer, bool require_exact,
                            cairn_verify_summary *ret_summary, cairn_error *reterr)
{
    cairn_verify_bench *bench = cairn_mem_zalloc(cairn_mem_default(), sizeof *bench);
    if (bench == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "verify/matrix", NULL);
    cairn_status status = cairn_verify_bench_init(bench, open, tokens, answer, require_exact, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_cases(bench, CAIRN_RESUME_EXACT, true, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_cases(bench, CAIRN_RESUME_FAST, true, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_edges(bench, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_beside(bench, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_noise(bench, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_control(bench, reterr);
    cairn_verify_summarize(bench, ret_summary);
    cairn_verify_bench_release(bench);
    cairn_mem_release(cairn_mem_default(), bench, sizeof *bench);
    return status;
}

static cairn_status run_row(const cairn_llama_options *options, const setting *s, uint32_t tokens,
                            uint32_t answer, bool require_exact, cairn_verify_matrix_row *row,
                            cairn_error *reterr)
{
    cairn_engine_open open = {0};
    cairn_check check;
    cairn_error refusal = {0};
    cairn_llama_options o = *options;
    o.type_k = s->type_k;
    o.type_v = s->type_v;
    o.flash = s->flash;
    o.batch_tokens_max = s->batch;
    o.ubatch_tokens_max = s->ubatch;
    o.swa_full = s->swa_full;
    o.model.no_repack = o.model.no_repack || s->no_repack;
    row->name = s->name;
    cairn_status status = cairn_llama_new(&o, cairn_mem_default(), &open.engine, &refusal);
    if (status != CAIRN_OK) {
        row->refused = true;
        (void)snprintf(row->why, sizeof row->why, "%s", refusal.detail);
        return status == CAIRN_NOMEM ? cairn_error_set(reterr, status, "verify/matrix", "%s", refusal.detail)
                                     : CAIRN_OK;
    }
    cairn_llama_vocab_init(&open.vocab, cairn_llama_model_get(open.engine));
    status = cairn_llama_check(open.engine, cairn_mem_default(), &check, reterr);
    if (status == CAIRN_OK) {
        row->usable = open.proved = check.usable;
        row->claimed = open.exact = check.exact;
        (void)snprintf(row->why, sizeof row->why, "%s", check.reason);
        status = compare(&open, tokens, answer, require_exact, &row->summary, reterr);
    }
    open.engine->ops->free(open.engine);
    return status;
}

cairn_status cairn_verify_matrix_run(const cairn_llama_options *options, uint32_t tokens, uint32_t answer,
                                     bool require_exact,
                                     cairn_verify_matrix_row rows[CAIRN_VERIFY_MATRIX_MAX], size_t *ret_count,
                                     cairn_error *reterr)
{
    size_t count = sizeof settings / sizeof settings[0];
    CAIRN_ASSERT(count <= CAIRN_VERIFY_MATRIX_MAX);
    cairn_status status = CAIRN_OK;
    *ret_count = 0;
    for (size_t i = 0; i < count && status == CAIRN_OK; i++) {
        memset(&rows[i], 0, sizeof rows[i]);
        cairn_term_progress("verify: %s", settings[i].name);
        status = run_row(options, &settings[i], tokens, answer, require_exact, &rows[i], reterr);
        *ret_count = i + 1;
    }
    cairn_term_progress("%s", "");
    return status;
}
