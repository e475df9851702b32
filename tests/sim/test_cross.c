/*
 * The simulator drives the core on a model of slots; the server drives it through the conductor and an engine. Given
 * the same traffic and costs, both must reuse the same number of tokens of every prompt, and the engine must decode
 * exactly the rest.
 */
#include "sim_support.h"

#include "base/hash.h"
#include "cairn/cairn.h"
#include "engine/engine_replica.h"
#include "sim/generate.h"

enum { STATE_BYTES = 4096, ROW_BYTES = 16, BATCH = 512, REQUESTS_MAX = 512, VOCABULARY = 65536 };

/* What src/cache guesses before it has measured anything, and what the engine below then costs. */
static const cairn_profile profile = {.name = "cross",
                                      .source = "",
                                      .speed = "",
                                      .state_bytes = STATE_BYTES,
                                      .row_bytes = ROW_BYTES,
                                      .batch_tokens = BATCH,
                                      .read_ns_token = 1e6,
                                      .move_ns_byte = 0.25};

typedef struct reuse {
    uint32_t tokens[REQUESTS_MAX];
    uint32_t count;
} reuse;

static void watch(void *ctx, const cairn_policy_view *view, const cairn_policy_outcome *outcome)
{
    reuse *r = ctx;
    (void)view;
    assert_true(r->count < REQUESTS_MAX);
    r->tokens[r->count++] = outcome->reused;
}

static void simulate(const cairn_workload *w, uint64_t budget, reuse *ret)
{
    cairn_replay_options options = {.policy = cairn_policy_get("cairn"),
                                    .workload = w,
                                    .profile = &profile,
                                    .budget_bytes = budget,
                                    .watch = watch,
                                    .watch_ctx = ret};
    cairn_replay_result result;
    ret->count = 0;
    assert_ok(cairn_replay(cairn_mem_default(), &options, &result, NULL));
}

static uint64_t virtual_ns(void *ctx)
{
    return *(const uint64_t *)ctx;
}

static void one_request(cairn_cache *cache, const cairn_prompt *prompt, const cairn_token *answer,
                        uint32_t count, reuse *ret)
{
    cairn_request *request = NULL;
    cairn_error error = {0};
    assert_ok(cairn_cache_begin(cache, prompt, &request, &error));
    while (cairn_request_phase(request) < CAIRN_PHASE_READY) {
        assert_ok(cairn_cache_step(cache, &request, 1, &error));
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(cairn_request_push(request, answer[i]));
        assert_ok(cairn_cache_step(cache, &request, 1, &error));
    }
    cairn_cache_end(cache, request, CAIRN_END_DONE);
    const cairn_record *record = cairn_request_record(request);
    assert_int_equal(record->read, record->prompt_tokens - record->resume);
    ret->tokens[ret->count++] = record->resume;
    cairn_request_free(request);
}

static void serve(const cairn_workload *w, uint64_t budget, reuse *ret)
{
    uint64_t clock_ns = 0;
    cairn_replica_options options;
    cairn_replica_defaults(&options);
    options.slots = w->slots;
    options.slot_tokens_max = w->tokens_longest + 64;
    options.batch_tokens_max = BATCH;
    options.vocab_size = VOCABULARY;
    options.logits_rows_max = 1;
    options.state_bytes = STATE_BYTES;
    options.row_bytes = ROW_BYTES;
    options.trim = CAIRN_TRIM_NEVER;
    options.rows_move = true;
    options.light = true;
    options.cost = (cairn_replica_cost){.token_ns = 1000000, .state_kib_ns = 256, .rows_kib_ns = 256};
    options.clock_ns = &clock_ns;
    cairn_engine *engine = NULL;
    assert_ok(cairn_replica_new(&options, cairn_mem_default(), &engine, NULL));
    cairn_cache_options cache_options = {.ram_bytes_max = budget, .now_ns = virtual_ns, .now_ctx = &clock_ns};
    cairn_cache *cache = NULL;
    assert_ok(cairn_cache_new(cairn_mem_default(), engine, &cache_options, &cache, NULL));
    cairn_token *tokens = calloc(w->tokens_longest, sizeof *tokens);
    assert_non_null(tokens);
    ret->count = 0;
    for (uint32_t i = 0; i < w->count_requests; i++) {
        const cairn_workload_request *r = &w->requests[i];
        cairn_workload_tokens(w, i, tokens);
        clock_ns = r->time_ns > clock_ns ? r->time_ns : clock_ns;
        cairn_prompt prompt = {.tokens = tokens,
                               .count = r->prompt_tokens,
                               .boundaries = w->boundaries + r->boundaries_begin,
                               .count_boundaries = r->count_boundaries,
                               .mode = CAIRN_RESUME_FAST};
        one_request(cache, &prompt, tokens + r->prompt_tokens, r->answer_tokens, ret);
    }
    assert_ok(cairn_cache_verify(cache, NULL));
    assert_int_equal(cairn_replica_counters_get(engine)->violations, 0);
    cairn_cache_free(cache);
    engine->ops->free(engine);
    free(tokens);
}

/* The same traffic with token ids that the engine's vocabulary has. */
static void make(const char *name, cairn_workload *ret)
{
    cairn_workload w;
    assert_ok(cairn_scenario_make(cairn_scenario_get(name), cairn_mem_default(), 1, &w, NULL));
    cairn_workload_init(ret, cairn_mem_default(), name);
    cairn_token *tokens = calloc(w.tokens_longest, sizeof *tokens);
    assert_non_null(tokens);
    for (uint32_t i = 0; i < w.count_requests; i++) {
        const cairn_workload_request *r = &w.requests[i];
        cairn_workload_tokens(&w, i, tokens);
        for (uint32_t k = 0; k < r->prompt_tokens + r->answer_tokens; k++) {
            tokens[k] %= VOCABULARY;
        }
        cairn_workload_entry entry = {.time_ns = r->time_ns,
                                      .session = r->session,
                                      .tokens = tokens,
                                      .prompt_tokens = r->prompt_tokens,
                                      .answer_tokens = r->answer_tokens,
                                      .boundaries = w.boundaries + r->boundaries_begin,
                                      .count_boundaries = r->count_boundaries};
        assert_ok(cairn_workload_add(ret, &entry, NULL));
    }
    free(tokens);
    cairn_workload_release(&w);
}

static void the_simulator_reuses_what_the_server_reuses(void **state)
{
    (void)state;
    const char *const names[] = {"three-requests", "two-long-turns", "regenerate", "side-requests",
                                 "round-robin"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cairn_workload w;
        make(names[i], &w);
        static reuse simulated;
        static reuse served;
        /* Enough for everything: what a small cap drops depends on overheads that the model leaves out. */
        simulate(&w, (uint64_t)1 << 30, &simulated);
        serve(&w, (uint64_t)1 << 30, &served);
        assert_int_equal(simulated.count, served.count);
        for (uint32_t k = 0; k < served.count; k++) {
            if (simulated.tokens[k] != served.tokens[k]) {
                fail_msg("%s, request %u: %u simulated, %u served", names[i], k, simulated.tokens[k],
                         served.tokens[k]);
            }
        }
        cairn_workload_release(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_simulator_reuses_what_the_server_reuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
