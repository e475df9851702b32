/*
 * The three requests that cairn comes from, on libllama with the tiny synthetic model: a conversation, the
 * same with its third user message edited, the same with its system prompt edited. In exact mode all
 * answers equal those of a cache that is off, token for token and bit for bit.
 */
#include <sys/stat.h>

#include "cache_support.h"
#include "engine/engine_llama.h"
#include "engine/llama_check.h"
#include "engine/synth.h"

enum { REQUESTS = 5, GREEDY = 16 };

static const char *model_path(void)
{
    static char path[1024];
    struct stat st;
    cairn_error error;
    (void)mkdir(CAIRN_BUILD_DIR "/models", 0777);
    (void)snprintf(path, sizeof path, "%s/models/qwen35-tiny.gguf", CAIRN_BUILD_DIR);
    cairn_synth_options options = {.arch = "qwen35", .size = "tiny", .seed = 1};
    if (stat(path, &st) != 0 && cairn_synth_write(&options, path, NULL, NULL, &error) != CAIRN_OK) {
        fail_msg("can't make %s: %s", path, error.detail);
    }
    return path;
}

static void quiet(void *ctx, cairn_llama_level level, const char *text)
{
    (void)ctx;
    if (level >= CAIRN_LLAMA_ERROR) {
        (void)fputs(text, stderr);
    }
}

static cairn_engine *engine_new(cairn_check *ret_check)
{
    cairn_llama_options options;
    cairn_engine *engine;
    cairn_error error;
    cairn_llama_defaults(&options);
    options.threads = 1; /* two wait for each other where other work is on the cores */
    options.model.path = model_path();
    options.slots = 2;
    options.slot_tokens_max = 1024;
    options.batch_tokens_max = 128;
    options.logits_rows_max = 8;
    cairn_llama_log_set(quiet, NULL);
    if (cairn_llama_new(&options, cairn_mem_default(), &engine, &error) != CAIRN_OK ||
        cairn_llama_check(engine, cairn_mem_default(), ret_check, &error) != CAIRN_OK) {
        fail_msg("engine: %s", error.detail);
    }
    return engine;
}

/* 0 plain, 1 third user message edited, 2 system edited, 3 plain again, 4 plain with a turn more. */
static void talk_of(talk *t, int request, const cairn_token *answer)
{
    memset(t, 0, sizeof *t);
    talk_add(t, CAIRN_ROLE_SYSTEM, request == 2 ? 11 : 1, 140);
    talk_add(t, CAIRN_ROLE_USER, 2, 130);
    talk_add(t, CAIRN_ROLE_ASSISTANT, 3, 40);
    talk_add(t, CAIRN_ROLE_USER, 4, 130);
    talk_add(t, CAIRN_ROLE_ASSISTANT, 5, 40);
    talk_add(t, CAIRN_ROLE_USER, request == 1 ? 66 : 6, 130);
    if (request == 4) {
        talk_add_answer(t, answer, GREEDY);
        talk_add(t, CAIRN_ROLE_USER, 7, 60);
    }
}

typedef struct answers {
    cairn_token tokens[REQUESTS][GREEDY];
    uint64_t bits[REQUESTS][GREEDY + 1];
    cairn_record records[REQUESTS];
} answers;

static void run(cairn_engine *engine, bool off, cairn_resume_mode mode, answers *ret_answers)
{
    cairn_cache_options options = {.ram_bytes_max = 256u << 20, .off = off};
    cairn_cache *cache;
    uint32_t vocab_size = engine->info.vocab_size;
    assert_ok(cairn_cache_new(cairn_mem_default(), engine, &options, &cache, NULL));
    for (int i = 0; i < REQUESTS; i++) {
        talk t;
        rendered r;
        cairn_request *request;
        talk_of(&t, i, ret_answers->tokens[3]);
        render(&r, &t, mode);
        assert_ok(cairn_cache_begin(cache, &r.prompt, &request, NULL));
        for (uint32_t n = 0;;) {
            while (cairn_request_phase(request) != CAIRN_PHASE_READY) {
                assert_ok(cairn_cache_step(cache, &request, 1, NULL));
            }
            const float *logits = cairn_request_logits(request);
            ret_answers->bits[i][n] = logits_bits(logits, vocab_size);
            if (n == GREEDY) {
                break;
            }
            ret_answers->tokens[i][n] = logits_greedy(logits, vocab_size);
            assert_ok(cairn_request_push(request, ret_answers->tokens[i][n++]));
        }
        cairn_cache_end(cache, request, CAIRN_END_DONE);
        assert_ok(cairn_cache_verify(cache, NULL));
        ret_answers->records[i] = *cairn_request_record(request);
        cairn_request_free(request);
        rendered_release(&r);
        talk_release(&t);
    }
    cairn_cache_free(cache);
    for (uint32_t slot = 0; slot < engine->info.slots; slot++) {
        engine->ops->reset(engine, slot);
    }
}

static void three_requests_answer_as_a_fresh_run_does(void **state)
{
    (void)state;
    static answers cold;
    static answers exact;
    static answers fast;
    cairn_check check;
    cairn_engine *engine = engine_new(&check);
    assert_true(check.usable);
    run(engine, true, CAIRN_RESUME_EXACT, &cold);
    run(engine, false, CAIRN_RESUME_EXACT, &exact);
    run(engine, false, CAIRN_RESUME_FAST, &fast);
    for (int i = 0; i < REQUESTS; i++) {
        const cairn_record *record = &exact.records[i];
        print_message("request %d: %u tokens, %u known, exact resumed %u, fast %u\n", i + 1,
                      record->prompt_tokens, record->divergence, record->resume, fast.records[i].resume);
        assert_int_equal(cold.records[i].resume, 0);
    }
    if (check.exact) {
        assert_memory_equal(exact.tokens, cold.tokens, sizeof cold.tokens);
        assert_memory_equal(exact.bits, cold.bits, sizeof cold.bits);
    }
    /* Nothing of the others' states may serve the one whose system prompt was edited. */
    assert_true(exact.records[2].resume <= OPENER_TOKENS);
    static const int resumed[] = {1, 3, 4};
    for (int i = 0; i < 3; i++) {
        const cairn_record *record = &fast.records[resumed[i]];
        assert_true(record->read - record->least <
                    64); /* nearer to the last cut a cut costs more than it saves */
        record = &exact.records[resumed[i]];
        assert_true(record->read <= record->least + 128 + GREEDY);
    }
    engine->ops->free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_requests_answer_as_a_fresh_run_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
