/* The offline optimum: equal to trying every choice, and what a person would choose in small cases. */
#include "sim_support.h"

#include "sim/optimum.h"

static uint64_t best(const cairn_workload *w, uint32_t k)
{
    uint64_t read = 0;
    assert_ok(cairn_optimum(w, &k, 1, &read, NULL));
    return read;
}

static void the_program_equals_brute_force(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("the_program_equals_brute_force", 5));
    for (int round = 0; round < 150; round++) {
        cairn_workload w;
        cairn_workload_init(&w, cairn_mem_default(), "random");
        sim_random(&w, &rng, 3 + (uint32_t)cairn_rng_below(&rng, 9), 80);
        uint64_t last = UINT64_MAX;
        for (uint32_t k = 0; k <= 6; k++) {
            uint64_t brute = 0;
            assert_ok(cairn_optimum_brute(&w, k, &brute, NULL));
            assert_true(best(&w, k) == brute);
            assert_true(brute <= last);
            last = brute;
        }
        cairn_workload_release(&w);
    }
}

static void one_state_goes_where_most_is_saved(void **state)
{
    (void)state;
    cairn_workload w;
    cairn_workload_init(&w, cairn_mem_default(), "small");
    cairn_token a[100];
    sim_fill(a, 100, 1);
    sim_add(&w, 0, a, 100, 0, NULL);
    /* Two part at 40, one at 90: with one state 40 saves 80 + 40, 90 saves 90 once. */
    const uint32_t parts[3] = {40, 40, 90};
    for (uint32_t i = 0; i < 3; i++) {
        cairn_token b[100];
        sim_fill(b, 100, (cairn_token)(10 + i));
        memcpy(b, a, parts[i] * sizeof b[0]);
        sim_add(&w, 0, b, 100, 0, NULL);
    }
    assert_int_equal(best(&w, 0), 400);
    assert_int_equal(best(&w, 1), 400 - 120);
    assert_int_equal(best(&w, 2), 400 - 170);
    assert_int_equal(best(&w, 9), 400 - 170);
    cairn_workload_release(&w);
}

static void what_the_slot_holds_needs_no_state(void **state)
{
    (void)state;
    cairn_workload w;
    cairn_workload_init(&w, cairn_mem_default(), "append");
    cairn_token a[300];
    sim_fill(a, 300, 1);
    for (uint32_t n = 100; n <= 300; n += 100) {
        sim_add(&w, 0, a, n, 0, NULL);
    }
    assert_int_equal(best(&w, 0), 300);
    cairn_workload_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_equals_brute_force),
        cmocka_unit_test(one_state_goes_where_most_is_saved),
        cmocka_unit_test(what_the_slot_holds_needs_no_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
