/*
 * Stop texts in a stream: never shown, not even in part, wherever the stream is cut.
 */
#include "test_support.h"

#include "serve/stops.h"

static const cairn_stop_text time_stop[] = {{"time", 4}};

static void a_possible_beginning_is_held_back(void **state)
{
    (void)state;
    cairn_stops_result r = cairn_stops_find(time_stop, 1, "Once upon a ti", 14, 0, false);
    assert_int_equal(r.safe_bytes, 12);
    assert_int_equal(r.found, -1);
}

static void a_beginning_that_was_none_is_shown(void **state)
{
    (void)state;
    cairn_stops_result r = cairn_stops_find(time_stop, 1, "Once upon a tide", 16, 12, false);
    assert_int_equal(r.safe_bytes, 16);
    assert_int_equal(r.found, -1);
}

static void a_whole_stop_ends_the_text_before_it(void **state)
{
    (void)state;
    cairn_stops_result r = cairn_stops_find(time_stop, 1, "Once upon a time there", 22, 12, false);
    assert_int_equal(r.safe_bytes, 12);
    assert_int_equal(r.found, 0);
}

static void at_the_end_nothing_is_held_back(void **state)
{
    (void)state;
    cairn_stops_result r = cairn_stops_find(time_stop, 1, "a ti", 4, 0, true);
    assert_int_equal(r.safe_bytes, 4);
    assert_int_equal(r.found, -1);
}

static void without_stops_all_is_safe(void **state)
{
    (void)state;
    cairn_stops_result r = cairn_stops_find(NULL, 0, "abc", 3, 0, false);
    assert_int_equal(r.safe_bytes, 3);
}

static void a_short_stop_inside_a_held_one_is_found(void **state)
{
    (void)state;
    const cairn_stop_text stops[] = {{"abcd", 4}, {"c", 1}};
    cairn_stops_result r = cairn_stops_find(stops, 2, "xabc", 4, 0, false);
    assert_int_equal(r.found, 1);
    assert_int_equal(r.safe_bytes, 3);
}

/* What is shown when the text comes in pieces of random lengths; gives the shown length. */
static size_t feed(const cairn_stop_text *stops, size_t count, const char *text, size_t len, uint64_t *random,
                   int *found)
{
    size_t given = 0, shown = 0;
    while (given < len) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        given += 1 + (size_t)((*random >> 33) % 5);
        given = given < len ? given : len;
        cairn_stops_result r = cairn_stops_find(stops, count, text, given, shown, given == len);
        assert_true(r.safe_bytes >= shown);
        shown = r.safe_bytes;
        *found = r.found;
        if (r.found >= 0)
            break;
    }
    return shown;
}

static void cutting_the_stream_anywhere_shows_the_same(void **state)
{
    (void)state;
    uint64_t random = cairn_test_seed("stops", 1);
    const cairn_stop_text stops[] = {{"ab", 2}, {"bab", 3}, {"ccc", 3}};
    for (int round = 0; round < 20000; round++) {
        char text[24];
        for (size_t i = 0; i < sizeof text; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[i] = (char)('a' + (random >> 40) % 4);
        }
        /* The naive answer: the first position at which a stop is complete first, by its end. */
        size_t end_best = SIZE_MAX, begin_best = sizeof text;
        for (size_t i = 0; i < 3; i++) {
            for (size_t at = 0; at + stops[i].len_bytes <= sizeof text; at++) {
                size_t end = at + stops[i].len_bytes;
                if (memcmp(text + at, stops[i].bytes, stops[i].len_bytes) == 0 &&
                    (end < end_best || (end == end_best && at < begin_best))) {
                    end_best = end;
                    begin_best = at;
                }
            }
        }
        int found = -1;
        size_t shown = feed(stops, 3, text, sizeof text, &random, &found);
        assert_int_equal(found >= 0, end_best != SIZE_MAX);
        /* Pieces longer than a character may complete two stops at once; then the earlier begin counts. */
        assert_true(shown <= begin_best);
        for (size_t i = 0; i < 3; i++) {
            for (size_t at = 0; at + stops[i].len_bytes <= shown; at++)
                assert_memory_not_equal(text + at, stops[i].bytes, stops[i].len_bytes);
        }
        if (found < 0)
            assert_int_equal(shown, sizeof text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_possible_beginning_is_held_back),
        cmocka_unit_test(a_beginning_that_was_none_is_shown),
        cmocka_unit_test(a_whole_stop_ends_the_text_before_it),
        cmocka_unit_test(at_the_end_nothing_is_held_back),
        cmocka_unit_test(without_stops_all_is_safe),
        cmocka_unit_test(a_short_stop_inside_a_held_one_is_found),
        cmocka_unit_test(cutting_the_stream_anywhere_shows_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
