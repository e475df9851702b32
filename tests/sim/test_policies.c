/* Other servers' rules, on the integer cases that were published about them or follow from their descriptions. */
#include "sim_support.h"

#include "sim/generate.h"
#include "sim/policy_copies.h"

enum { SEEN_MAX = 64 };

typedef struct seen {
    uint32_t reused[SEEN_MAX];
    uint32_t snapshots[SEEN_MAX];
    uint32_t count;
} seen;

static void watch(void *ctx, const cairn_policy_view *view, const cairn_policy_outcome *outcome)
{
    seen *s = ctx;
    assert_int_equal(view->index, s->count);
    assert_true(s->count < SEEN_MAX);
    s->reused[s->count] = outcome->reused;
    s->snapshots[s->count++] = outcome->snapshots;
}

/* A state is worth 100 rows; nothing else matters here. */
static const cairn_profile plain = {.name = "plain",
                                    .source = "",
                                    .speed = "",
                                    .state_bytes = 1000,
                                    .row_bytes = 10,
                                    .batch_tokens = 512,
                                    .read_ns_token = 1000,
                                    .move_ns_byte = 0.1,
                                    .take_ns = 10};

static seen replay(const char *policy, const cairn_workload *w, uint64_t budget)
{
    seen s = {.count = 0};
    cairn_replay_options options = {.policy = cairn_policy_get(policy),
                                    .workload = w,
                                    .profile = &plain,
                                    .budget_bytes = budget,
                                    .watch = watch,
                                    .watch_ctx = &s};
    cairn_replay_result result;
    cairn_error error = {0};
    assert_non_null(options.policy);
    assert_ok(cairn_replay(cairn_mem_default(), &options, &result, &error));
    return s;
}

static void thin(const uint32_t *from, uint32_t count, uint32_t keep,
                 uint32_t (*rule)(const uint32_t *, uint32_t), const uint32_t *expected)
{
    uint32_t points[16];
    memcpy(points, from, count * sizeof *points);
    while (count > keep) {
        uint32_t out = rule(points, count);
        assert_true(out > 0 && out + 1 < count);
        memmove(points + out, points + out + 1, (count - out - 1) * sizeof *points);
        count--;
    }
    assert_memory_equal(points, expected, keep * sizeof *points);
}

static void swiftlm_thins_to_the_anchor_the_newest_and_the_spread(void **state)
{
    (void)state;
    const uint32_t points[] = {100, 2000, 2100, 4500, 7000, 9500};
    const uint32_t expected[] = {100, 4500, 7000, 9500};
    thin(points, 6, 4, cairn_thin_nearest, expected);
}

static void ik_llama_gives_up_the_smallest_product_of_gaps(void **state)
{
    (void)state;
    /* Products: 200: 100 x 300, 500: 300 x 100, 600: 100 x 1400, 2000: 1400 x 1000. */
    const uint32_t points[] = {100, 200, 500, 600, 2000, 3000};
    const uint32_t expected[] = {100, 500, 600, 2000, 3000};
    thin(points, 6, 5, cairn_thin_product, expected);
    const uint32_t cluster[] = {0, 5000, 5040, 5080, 5120, 16000};
    const uint32_t spread[] = {0, 5120, 16000};
    thin(cluster, 6, 3, cairn_thin_product, spread);
}

static seen scenario(const char *name, const char *policy, cairn_workload *w)
{
    assert_ok(cairn_scenario_make(cairn_scenario_get(name), cairn_mem_default(), 1, w, NULL));
    return replay(policy, w, 1 << 30);
}

static void swiftlm_reuses_3148_of_6273(void **state)
{
    (void)state;
    cairn_workload w;
    seen s = scenario("reviewer", "swiftlm", &w);
    assert_int_equal(w.requests[1].prompt_tokens, 6273);
    assert_int_equal(s.reused[1], 3148);
    cairn_workload_release(&w);
}

static void swiftlm_reuses_716_of_15266(void **state)
{
    (void)state;
    cairn_workload w;
    seen s = scenario("two-long-turns", "swiftlm", &w);
    assert_int_equal(w.requests[1].prompt_tokens, 15266);
    assert_int_equal(s.reused[1], 716);
    cairn_workload_release(&w);
}

/* A path of `length`, then one that parts from it at `at` and is a little longer. */
static void edit(cairn_workload *w, uint32_t length, uint32_t at, const uint32_t *starts)
{
    static cairn_token tokens[60000];
    cairn_workload_init(w, cairn_mem_default(), "edit");
    sim_fill(tokens, length, 1);
    sim_add(w, 0, tokens, length - 10, 10, starts);
    sim_fill(tokens, length + 50, 2);
    sim_fill(tokens, at, 1);
    sim_add(w, 0, tokens, length + 50, 0, NULL);
}

static void llama_cpp_resumes_at_the_last_user_message_or_near_the_end(void **state)
{
    (void)state;
    const uint32_t starts[] = {100, 4000, 9000, 0};
    cairn_workload w;
    edit(&w, 10000, 9500, starts);
    /* 9,990 of prompt: near the end are 9,474 and 9,986. */
    assert_int_equal(replay("llama.cpp", &w, 1 << 20).reused[1], 9474);
    cairn_workload_release(&w);
    edit(&w, 10000, 9200, starts);
    assert_int_equal(replay("llama.cpp", &w, 1 << 20).reused[1], 9000);
    cairn_workload_release(&w);
    /* 4,000 is less than 8,192 behind the state at 100; tuned it is far enough. */
    edit(&w, 10000, 5000, starts);
    assert_int_equal(replay("llama.cpp", &w, 1 << 20).reused[1], 100);
    assert_int_equal(replay("llama.cpp-tuned", &w, 1 << 20).reused[1], 4000);
    cairn_workload_release(&w);
}

static void llama_cpp_forgets_the_states_behind_an_edit(void **state)
{
    (void)state;
    static cairn_token tokens[6000];
    const uint32_t starts[] = {100, 4000, 0};
    cairn_workload w;
    cairn_workload_init(&w, cairn_mem_default(), "aba");
    for (int i = 0; i < 3; i++) {
        /* A, B (parts at 3,000), A: more than half is kept, so nothing went to memory. */
        sim_fill(tokens, 5000, i == 1 ? 2 : 1);
        sim_fill(tokens, 3000, 1);
        sim_add(&w, 0, tokens, 5000, 0, starts);
    }
    seen s = replay("llama.cpp", &w, 1 << 20);
    assert_int_equal(s.reused[1], 100);
    assert_int_equal(s.reused[2], 100);
    cairn_workload_release(&w);
}

/* `count` sessions, one request each: the first `shared` tokens are the same, and what follows is its own. */
static void sharers(cairn_workload *w, uint32_t count, uint32_t shared, uint32_t prompt, uint32_t answer)
{
    static cairn_token tokens[30000];
    cairn_workload_init(w, cairn_mem_default(), "sharers");
    for (uint32_t i = 0; i < count; i++) {
        sim_fill(tokens, prompt + answer, 10 + (cairn_token)i);
        sim_fill(tokens, shared, 1);
        sim_add(w, i, tokens, prompt, answer, NULL);
    }
}

static void the_grid_restores_at_multiples_of_8192_and_learns_the_branch(void **state)
{
    (void)state;
    cairn_workload w;
    sharers(&w, 3, 20000, 25000, 0);
    seen s = replay("grid-8192", &w, 1 << 30);
    assert_int_equal(s.reused[1], 16384);
    assert_int_equal(s.reused[2], 20000);
    cairn_workload_release(&w);
}

static void marconi_pays_from_the_third_sharer(void **state)
{
    (void)state;
    cairn_workload w;
    sharers(&w, 4, 2000, 2900, 100);
    const char *const names[] = {"marconi", "marconi-recency"};
    for (int k = 0; k < 2; k++) {
        seen s = replay(names[k], &w, 1 << 30);
        assert_int_equal(s.reused[1], 0);
        assert_int_equal(s.reused[2], 2000);
        assert_int_equal(s.reused[3], 2000);
        for (uint32_t i = 0; i < s.count; i++) {
            assert_true(s.snapshots[i] <= 2);
        }
    }
    cairn_workload_release(&w);
}

static void lru_serves_only_what_extends_a_whole_prompt(void **state)
{
    (void)state;
    static cairn_token tokens[3000];
    cairn_workload w;
    cairn_workload_init(&w, cairn_mem_default(), "lru");
    sim_fill(tokens, 3000, 1);
    sim_add(&w, 0, tokens, 1000, 100, NULL);
    sim_add(&w, 0, tokens, 1500, 0, NULL); /* extends prompt and answer */
    tokens[1050] = 7;
    sim_add(&w, 0, tokens, 1600, 0, NULL); /* parts inside the answer: the prompt's end serves */
    tokens[500] = 7;
    sim_add(&w, 0, tokens, 1600, 0, NULL); /* parts inside the prompt: nothing does */
    seen s = replay("lru", &w, 1 << 30);
    assert_int_equal(s.reused[1], 1100);
    assert_int_equal(s.reused[2], 0); /* the first entry was contained in the second, whose end is at 1,500 */
    assert_int_equal(s.reused[3], 0);
    cairn_workload_release(&w);
}

static void no_rule_beats_the_perfect_cache_or_passes_its_budget(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("no_rule_beats_the_perfect_cache_or_passes_its_budget", 9));
    for (int round = 0; round < 30; round++) {
        cairn_workload w;
        cairn_workload_init(&w, cairn_mem_default(), "random");
        sim_random(&w, &rng, 60, 4000);
        w.slots = 1 + (uint32_t)cairn_rng_below(&rng, 3);
        uint64_t budget = cairn_rng_below(&rng, 60000);
        uint32_t count = 0;
        const cairn_policy *const *list = cairn_policy_list(&count);
        cairn_replay_result perfect = {0};
        for (uint32_t i = 0; i < count; i++) {
            cairn_replay_options options = {
                .policy = list[i], .workload = &w, .profile = &plain, .budget_bytes = budget};
            cairn_replay_result result;
            cairn_error error = {0};
            /* The replay itself refuses more reuse than is possible and more bytes than the budget. */
            if (cairn_replay(cairn_mem_default(), &options, &result, &error) != CAIRN_OK) {
                char text[400];
                cairn_error_print(&error, text, sizeof text);
                fail_msg("%s: %s", list[i]->name, text);
            }
            perfect = i == 0 ? result : perfect;
            assert_int_equal(result.requests, 60);
            assert_true(result.tokens_read >= perfect.tokens_read);
            assert_int_equal(result.tokens_least, perfect.tokens_read);
            assert_true(result.held_peak <= budget);
        }
        cairn_workload_release(&w);
    }
}

static void a_budget_of_nothing_works(void **state)
{
    (void)state;
    cairn_workload w;
    assert_ok(cairn_scenario_make(cairn_scenario_get("regenerate"), cairn_mem_default(), 1, &w, NULL));
    uint32_t count = 0;
    const cairn_policy *const *list = cairn_policy_list(&count);
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t budget = 0; budget < 2000; budget += 999) {
            cairn_replay_options options = {
                .policy = list[i], .workload = &w, .profile = &plain, .budget_bytes = budget};
            cairn_replay_result result;
            cairn_error error = {0};
            if (cairn_replay(cairn_mem_default(), &options, &result, &error) != CAIRN_OK) {
                char text[400];
                cairn_error_print(&error, text, sizeof text);
                fail_msg("%s: %s", list[i]->name, text);
            }
        }
    }
    cairn_workload_release(&w);
}

/* Conversations whose first messages share their frame read it in batches of their own, and each keeps its own rows. */
static void exact_mode_comes_near_its_perfect_cache(void **state)
{
    (void)state;
    const char *const names[] = {"round-robin", "clock", "document", "regenerate", "side-requests"};
    const cairn_profile *profile = cairn_profile_get("qwen3.5-35b-a3b");
    for (unsigned run = 0; run < 4 * sizeof names / sizeof names[0]; run++) {
        unsigned i = run / 4;
        cairn_workload w;
        assert_ok(
            cairn_scenario_make(cairn_scenario_get(names[i]), cairn_mem_default(), 1 + run % 4, &w, NULL));
        cairn_replay_result result[2];
        for (unsigned k = 0; k < 2; k++) {
            cairn_replay_options options = {.policy =
                                                cairn_policy_get(k == 0 ? "perfect-exact" : "cairn-exact"),
                                            .workload = &w,
                                            .profile = profile,
                                            .budget_bytes = 64 * profile->state_bytes};
            assert_ok(cairn_replay(cairn_mem_default(), &options, &result[k], NULL));
        }
        if (result[1].tokens_read > result[0].tokens_read + result[0].tokens_read / 20) {
            fail_msg("%s, seed %u: %llu tokens read, the perfect cache of exact mode reads %llu", names[i],
                     1 + run % 4, (unsigned long long)result[1].tokens_read,
                     (unsigned long long)result[0].tokens_read);
        }
        assert_true(result[1].tokens_read >= result[0].tokens_read);
        cairn_workload_release(&w);
    }
}

/* Each turn parts where the one before did: at most two states a request, for 95 % of what a perfect cache reuses. */
static void five_observations_need_two_states_a_request(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        cairn_workload w;
        assert_ok(cairn_scenario_make(cairn_scenario_get("five-observations"), cairn_mem_default(), seed, &w,
                                      NULL));
        const cairn_profile *profile = cairn_profile_get("qwen3.5-35b-a3b");
        cairn_replay_options options = {.policy = cairn_policy_get("cairn"),
                                        .workload = &w,
                                        .profile = profile,
                                        .budget_bytes = 64 * profile->state_bytes};
        cairn_replay_result result;
        assert_ok(cairn_replay(cairn_mem_default(), &options, &result, NULL));
        assert_true(result.snapshots <= 2 * result.requests);
        assert_true(cairn_replay_of_perfect(&result) >= 0.95);
        cairn_workload_release(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swiftlm_thins_to_the_anchor_the_newest_and_the_spread),
        cmocka_unit_test(ik_llama_gives_up_the_smallest_product_of_gaps),
        cmocka_unit_test(swiftlm_reuses_3148_of_6273),
        cmocka_unit_test(swiftlm_reuses_716_of_15266),
        cmocka_unit_test(llama_cpp_resumes_at_the_last_user_message_or_near_the_end),
        cmocka_unit_test(llama_cpp_forgets_the_states_behind_an_edit),
        cmocka_unit_test(the_grid_restores_at_multiples_of_8192_and_learns_the_branch),
        cmocka_unit_test(marconi_pays_from_the_third_sharer),
        cmocka_unit_test(lru_serves_only_what_extends_a_whole_prompt),
        cmocka_unit_test(no_rule_beats_the_perfect_cache_or_passes_its_budget),
        cmocka_unit_test(a_budget_of_nothing_works),
        cmocka_unit_test(exact_mode_comes_near_its_perfect_cache),
        cmocka_unit_test(five_observations_need_two_states_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
