/* Generated traffic: the same for a seed, different for another, and of the shape that its name says. */
#include "sim_support.h"

#include "sim/generate.h"

static void make(const char *name, uint64_t seed, cairn_workload *w)
{
    const cairn_scenario *scenario = cairn_scenario_get(name);
    assert_non_null(scenario);
    assert_ok(cairn_scenario_make(scenario, cairn_mem_default(), seed, w, NULL));
    assert_ok(cairn_workload_verify(w, NULL));
}

static void the_same_seed_gives_the_same_traffic(void **state)
{
    (void)state;
    uint32_t count = 0;
    const cairn_scenario *list = cairn_scenario_list(&count);
    assert_true(count >= 13);
    for (uint32_t i = 0; i < count; i++) {
        cairn_workload a;
        cairn_workload b;
        cairn_workload c;
        make(list[i].name, 1, &a);
        make(list[i].name, 1, &b);
        make(list[i].name, 2, &c);
        assert_true(cairn_workload_digest(&a) == cairn_workload_digest(&b));
        assert_true(cairn_workload_digest(&a) != cairn_workload_digest(&c));
        for (uint32_t k = 1; k < a.count_requests; k++) {
            assert_true(a.requests[k].time_ns >= a.requests[k - 1].time_ns);
        }
        cairn_workload_release(&a);
        cairn_workload_release(&b);
        cairn_workload_release(&c);
    }
    assert_null(cairn_scenario_get("no such thing"));
}

static uint32_t shared(const cairn_workload *w, uint32_t a, uint32_t b)
{
    return cairn_workload_common(w, w->requests[a].node_prompt, w->requests[b].node_prompt);
}

static void published_shapes_have_their_published_lengths(void **state)
{
    (void)state;
    cairn_workload w;
    make("reviewer", 1, &w);
    assert_int_equal(w.count_requests, 2);
    assert_int_equal(w.requests[0].prompt_tokens, 6273);
    cairn_workload_release(&w);
    make("two-long-turns", 1, &w);
    assert_int_equal(w.requests[0].prompt_tokens, 15266);
    uint32_t parts = shared(&w, 0, 1);
    assert_true(parts > 11000 && parts < 12500);
    cairn_workload_release(&w);
}

/* Request t + 1 keeps the task's round and the actions of rounds 1 .. t - 6, and parts at an observation. */
static void five_observations_part_five_rounds_back(void **state)
{
    (void)state;
    cairn_workload w;
    make("five-observations", 3, &w);
    uint32_t checked = 0;
    uint32_t round = 0;
    for (uint32_t i = 1; i < w.count_requests; i++) {
        round = w.requests[i].session == w.requests[i - 1].session ? round + 1 : 0;
        if (round < 8) {
            continue;
        }
        uint32_t parts = shared(&w, i - 1, i);
        const cairn_workload_request *before = &w.requests[i - 1];
        uint32_t starts_after = 0;
        bool at_start = false;
        for (uint32_t k = 0; k < before->count_boundaries; k++) {
            const cairn_boundary *b = &w.boundaries[before->boundaries_begin + k];
            bool start = (b->kinds & CAIRN_BOUNDARY_MESSAGE_START) != 0;
            /* The frame's first tokens differ by role, so the parting is just behind the message's start. */
            at_start = at_start || (start && b->role == CAIRN_ROLE_TOOL && b->position <= parts &&
                                    parts <= b->position + 3);
            starts_after += start && b->position > parts ? 1 : 0;
        }
        assert_true(at_start);
        assert_int_equal(starts_after, 8); /* four observations and their actions follow it */
        checked++;
    }
    assert_true(checked > 20);
    cairn_workload_release(&w);
}

static void the_clock_parts_at_the_end_of_the_system_text(void **state)
{
    (void)state;
    cairn_workload w;
    make("clock", 1, &w);
    for (uint32_t i = 1; i < w.count_requests; i++) {
        assert_int_equal(shared(&w, i - 1, i), 8003);
    }
    cairn_workload_release(&w);
}

static void the_fleet_is_a_thousand_sessions_up_to_32k(void **state)
{
    (void)state;
    cairn_workload w;
    make("fleet", 1, &w);
    assert_int_equal(w.count_sessions, 1000);
    assert_true(w.fleet);
    assert_true(w.tokens_longest > 16000 && w.tokens_longest <= 40000);
    assert_true(w.count_requests > 5000);
    cairn_workload_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_traffic),
        cmocka_unit_test(published_shapes_have_their_published_lengths),
        cmocka_unit_test(five_observations_part_five_rounds_back),
        cmocka_unit_test(the_clock_parts_at_the_end_of_the_system_text),
        cmocka_unit_test(the_fleet_is_a_thousand_sessions_up_to_32k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
