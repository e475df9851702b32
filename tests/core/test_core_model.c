/*
 * test_core_model - random worlds: every promise of core.h is checked after every event. The argument is the
 * number of worlds; CAIRN_WORLD=n plays one.
 */
#include "core_play.h"

static core_totals totals;
static uint64_t count_worlds = 300;

static void every_promise_holds_in_random_worlds(void **state)
{
    (void)state;
    uint64_t seed = cairn_test_seed("core_model", 1);
    const char *only = getenv("CAIRN_WORLD");
    for (uint64_t i = 0; i < count_worlds; i++) {
        if (only == NULL || strtoull(only, NULL, 0) == i) {
            if (getenv("CAIRN_VERBOSE") != NULL) {
                printf("world %llu\n", (unsigned long long)i);
                (void)fflush(stdout);
            }
            (void)core_play(seed, i, &totals);
        }
    }
    printf("prompt %llu, read %llu, least %llu tokens\n", (unsigned long long)totals.prompt,
           (unsigned long long)totals.read, (unsigned long long)totals.least);
    for (uint32_t i = 0; i < CAIRN_REASON_COUNT; i++) {
        printf("  %-12s %llu\n", cairn_reason_word((cairn_reason)i), (unsigned long long)totals.reasons[i]);
    }
    if (only == NULL && count_worlds >= 100) {
        assert_true(totals.read < totals.prompt);
    }
}

static void same_trace_same_plan(void **state)
{
    (void)state;
    uint64_t seed = cairn_test_seed("same_trace", 2);
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t first = core_play(seed, i, &totals);
        assert_true(first == core_play(seed, i, &totals));
    }
}

int main(int argc, char **argv)
{
    count_worlds = argc > 1 ? strtoull(argv[1], NULL, 0) : count_worlds;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promise_holds_in_random_worlds),
        cmocka_unit_test(same_trace_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
