/*
 * test_core_paths - 100,000 paths in one tree: all are found again, nothing breaks, the index stays in its cap.
 */
#include "core_driver.h"

enum { PATHS = 100000, SHARED = 20, TOKENS = 60 };

static void words_of(uint32_t path, cairn_token *out)
{
    talk_words(1, out, SHARED);
    talk_words(1000 + path, out + SHARED, TOKENS - SHARED);
}

static void a_hundred_thousand_paths_are_found_again(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    o.ram_bytes_max = UINT64_C(1) << 30;
    o.index_bytes_max = UINT64_C(256) << 20;
    o.state_bytes_max = 0; /* the tree alone: the test's own slots look for blobs one by one */
    o.rows_move = false;
    o.slots = 1;
    driver d;
    driver_init(&d, &o, cairn_test_seed("a_hundred_thousand_paths_are_found_again", 6));
    d.verify = false;
    static talk_prompt p;
    static cairn_token tokens[TOKENS];
    cairn_token answer[1] = {5};
    for (uint32_t i = 0; i < PATHS; i++) {
        words_of(i, tokens);
        talk_plain(tokens, TOKENS, CAIRN_RESUME_FAST, &p);
        (void)driver_ask(&d, &p.prompt, answer, 1);
    }
    cairn_core_stats stats;
    cairn_core_stats_get(d.core, &stats);
    assert_true(stats.nodes >= PATHS);
    assert_true(stats.tokens >= (uint64_t)PATHS * (TOKENS - SHARED) / 2); /* some share a few words more */
    assert_true(stats.index_bytes <= o.index_bytes_max);
    assert_ok(cairn_core_verify(d.core, NULL));
    for (uint32_t i = 0; i < PATHS; i++) {
        words_of(i, tokens);
        talk_plain(tokens, TOKENS, CAIRN_RESUME_FAST, &p);
        cairn_decision decision;
        assert_ok(cairn_core_probe(d.core, &p.prompt, d.now_ns, &decision, NULL));
        assert_int_equal(decision.divergence, TOKENS);
    }
    driver_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_paths_are_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
