/* The replay: the same run twice is the same, the core keeps its promises, and its reads are those of the engine. */
#include "sim_support.h"

#include "sim/generate.h"

static cairn_replay_result replay(const char *policy, const cairn_workload *w, const cairn_profile *profile,
                                  uint64_t budget)
{
    cairn_replay_options options = {
        .policy = cairn_policy_get(policy), .workload = w, .profile = profile, .budget_bytes = budget};
    cairn_replay_result result;
    cairn_error error = {0};
    assert_non_null(options.policy);
    if (cairn_replay(cairn_mem_default(), &options, &result, &error) != CAIRN_OK) {
        char text[400];
        cairn_error_print(&error, text, sizeof text);
        fail_msg("%s on %s: %s", policy, w->name, text);
    }
    return result;
}

static void the_same_trace_gives_the_same_digest(void **state)
{
    (void)state;
    const char *const names[] = {"regenerate", "side-requests", "five-observations"};
    uint32_t count = 0;
    const cairn_policy *const *list = cairn_policy_list(&count);
    const cairn_profile *profile = cairn_profile_get("qwen3.5-35b-a3b");
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        cairn_workload w;
        assert_ok(cairn_scenario_make(cairn_scenario_get(names[n]), cairn_mem_default(), 4, &w, NULL));
        for (uint32_t i = 0; i < count; i++) {
            uint64_t budget = 16 * profile->state_bytes;
            cairn_replay_result a = replay(list[i]->name, &w, profile, budget);
            cairn_replay_result b = replay(list[i]->name, &w, profile, budget);
            assert_true(a.digest == b.digest);
            assert_memory_equal(&a, &b, sizeof a);
        }
        cairn_workload_release(&w);
    }
}

static void the_core_keeps_its_promises_in_every_scenario_and_profile(void **state)
{
    (void)state;
    uint32_t count = 0;
    uint32_t profiles = 0;
    const cairn_scenario *list = cairn_scenario_list(&count);
    const cairn_profile *profile = cairn_profile_list(&profiles);
    for (uint32_t i = 0; i < count; i++) {
        cairn_workload w;
        assert_ok(cairn_scenario_make(&list[i], cairn_mem_default(), 7, &w, NULL));
        for (uint32_t p = 0; !w.fleet && p < profiles; p++) {
            uint64_t unit = profile[p].state_bytes > 0 ? profile[p].state_bytes : (uint64_t)64 << 20;
            (void)replay("cairn", &w, &profile[p], 5 * unit);
            (void)replay("cairn-exact", &w, &profile[p], 20 * unit);
        }
        cairn_workload_release(&w);
    }
}

static void more_budget_never_hurts_much(void **state)
{
    (void)state;
    const cairn_profile *profile = cairn_profile_get("qwen3.5-35b-a3b");
    cairn_workload w;
    assert_ok(cairn_scenario_make(cairn_scenario_get("regenerate"), cairn_mem_default(), 1, &w, NULL));
    cairn_replay_result small = replay("cairn", &w, profile, 4 * profile->state_bytes);
    cairn_replay_result large = replay("cairn", &w, profile, 128 * profile->state_bytes);
    assert_true(large.tokens_read <= small.tokens_read);
    assert_true(cairn_replay_waste(&large) >= 1);
    cairn_workload_release(&w);
}

static void pure_attention_needs_no_state(void **state)
{
    (void)state;
    const cairn_profile *profile = cairn_profile_get("qwen3-8b");
    cairn_workload w;
    assert_ok(cairn_scenario_make(cairn_scenario_get("reviewer"), cairn_mem_default(), 1, &w, NULL));
    cairn_replay_result perfect = replay("perfect", &w, profile, 1u << 30);
    cairn_replay_result core = replay("cairn", &w, profile, 1u << 30);
    assert_int_equal(core.tokens_read, perfect.tokens_read);
    assert_int_equal(core.snapshots, 0);
    cairn_workload_release(&w);
}

static void figures_are_computed_from_the_sums(void **state)
{
    (void)state;
    cairn_replay_result r = {.tokens_prompt = 1000, .tokens_read = 300, .tokens_least = 200};
    assert_true(cairn_replay_waste(&r) > 1.4999 && cairn_replay_waste(&r) < 1.5001);
    assert_true(cairn_replay_hit_rate(&r) > 0.6999 && cairn_replay_hit_rate(&r) < 0.7001);
    assert_true(cairn_replay_of_perfect(&r) > 0.8749 && cairn_replay_of_perfect(&r) < 0.8751);
}

static void states_and_rows_have_their_computed_sizes(void **state)
{
    (void)state;
    assert_int_equal(cairn_profile_get("qwen3.5-0.8b")->state_bytes, 20201472);
    assert_int_equal(cairn_profile_get("qwen3.5-35b-a3b")->state_bytes, 65863680);
    assert_int_equal(cairn_profile_get("qwen3.5-35b-a3b")->row_bytes, 20480);
    assert_int_equal(cairn_profile_get("qwen3-8b")->row_bytes, 147456);
    assert_null(cairn_profile_get("none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_trace_gives_the_same_digest),
        cmocka_unit_test(the_core_keeps_its_promises_in_every_scenario_and_profile),
        cmocka_unit_test(more_budget_never_hurts_much),
        cmocka_unit_test(pure_attention_needs_no_state),
        cmocka_unit_test(figures_are_computed_from_the_sums),
        cmocka_unit_test(states_and_rows_have_their_computed_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
