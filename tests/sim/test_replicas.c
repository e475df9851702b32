/* Fleets: what a shared store changes, on traffic small enough to know the answer. */
#include "sim/generate.h"
#include "sim/replicas.h"
#include "sim_support.h"

#define BUDGET (UINT64_C(1) << 30)

static cairn_replay_result run(const cairn_workload *w, cairn_fleet *fleet)
{
    cairn_replay_result result;
    cairn_error error = {0};
    assert_ok(cairn_replicas_replay(cairn_mem_default(), w, cairn_profile_list(&(uint32_t){0}), BUDGET, fleet,
                                    &result, &error));
    return result;
}

/* One long conversation of ten turns. */
static void talk_make(cairn_workload *w)
{
    static cairn_token tokens[12000];
    uint32_t starts[12] = {500};
    cairn_workload_init(w, cairn_mem_default(), "talk");
    sim_fill(tokens, 12000, 3);
    for (uint32_t turn = 0; turn < 10; turn++) {
        starts[turn + 1] = 1500 + 1000 * turn;
        sim_add(w, 0, tokens, 2000 + 1000 * turn, 50, starts);
    }
}

static void one_replica_is_cairn_itself(void **state)
{
    (void)state;
    cairn_workload w;
    cairn_fleet fleet = {.replicas = 1};
    cairn_replay_result alone, fleet_of_one;
    talk_make(&w);
    cairn_replay_options options = {.policy = &cairn_policy_cairn,
                                    .workload = &w,
                                    .profile = cairn_profile_list(&(uint32_t){0}),
                                    .budget_bytes = BUDGET,
                                    .slots = 1};
    assert_ok(cairn_replay(cairn_mem_default(), &options, &alone, NULL));
    fleet_of_one = run(&w, &fleet);
    assert_int_equal(alone.digest, fleet_of_one.digest);
    assert_int_equal(alone.tokens_read, fleet_of_one.tokens_read);
    cairn_workload_release(&w);
}

static void store_makes_dice_nearly_as_good_as_one_server(void **state)
{
    (void)state;
    cairn_workload w;
    talk_make(&w);
    cairn_fleet one = {.replicas = 1}, dice = {.replicas = 8, .seed = 5},
                store = {.replicas = 8, .seed = 5, .bytes_second = 1e10, .trip_ns = 1e5};
    cairn_replay_result alone = run(&w, &one), apart = run(&w, &dice), together = run(&w, &store);
    assert_true(apart.tokens_read > 2 * alone.tokens_read);
    assert_true(together.tokens_read < alone.tokens_read + alone.tokens_read / 2);
    assert_true(store.fetches > 4 && store.fetched_tokens > 10000);
    assert_true(together.read_ns < apart.read_ns);
    cairn_workload_release(&w);
}

static void store_that_is_too_slow_is_left_alone(void **state)
{
    (void)state;
    cairn_workload w;
    talk_make(&w);
    cairn_fleet dice = {.replicas = 8, .seed = 5}, slow = {.replicas = 8, .seed = 5, .bytes_second = 1000};
    cairn_replay_result apart = run(&w, &dice), same = run(&w, &slow);
    assert_int_equal(apart.digest, same.digest);
    assert_true(slow.fetches == 0 && slow.dearer > 0);
    cairn_workload_release(&w);
}

/* On random traffic, too, nobody reads less than is possible: the replay itself checks that. */
static void random_traffic_is_never_resumed_too_far(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init_stream(&rng, cairn_test_seed("random_traffic", 11), 0);
    for (int i = 0; i < 10; i++) {
        cairn_workload w;
        cairn_workload_init(&w, cairn_mem_default(), "random");
        sim_random(&w, &rng, 60, 3000);
        cairn_fleet store = {.replicas = 4, .seed = (uint64_t)i, .bytes_second = 1e11};
        (void)run(&w, &store);
        cairn_workload_release(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_replica_is_cairn_itself),
        cmocka_unit_test(store_makes_dice_nearly_as_good_as_one_server),
        cmocka_unit_test(store_that_is_too_slow_is_left_alone),
        cmocka_unit_test(random_traffic_is_never_resumed_too_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
