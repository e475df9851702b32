/*
 * Characters are not cut in two, and bytes that are no text are replaced.
 */
#include "test_support.h"

#include "serve/utf8.h"

static void a_cut_character_is_held_back(void **state)
{
    (void)state;
    const char *text = "a\xe2\x82\xac"; /* a, euro sign */
    assert_int_equal(cairn_utf8_whole(text, 1), 1);
    assert_int_equal(cairn_utf8_whole(text, 2), 1);
    assert_int_equal(cairn_utf8_whole(text, 3), 1);
    assert_int_equal(cairn_utf8_whole(text, 4), 4);
    assert_int_equal(cairn_utf8_whole("\xf0\x9f\x98", 3), 0);
    assert_int_equal(cairn_utf8_whole("", 0), 0);
}

static void bytes_that_can_not_become_a_character_are_not_waited_for(void **state)
{
    (void)state;
    assert_int_equal(cairn_utf8_whole("a\x80", 2), 2);
    assert_int_equal(cairn_utf8_whole("a\xc0", 2), 2);
    assert_int_equal(cairn_utf8_whole("a\xe2x", 3), 3);
    assert_int_equal(cairn_utf8_whole("\xed\xa0", 2), 2); /* a surrogate */
}

static void overlong_and_surrogates_are_invalid(void **state)
{
    (void)state;
    assert_int_equal(cairn_utf8_valid("\xc0\xaf", 2), 0);
    assert_int_equal(cairn_utf8_valid("\xe0\x80\xaf", 3), 0);
    assert_int_equal(cairn_utf8_valid("\xed\xa0\x80", 3), 0);
    assert_int_equal(cairn_utf8_valid("\xf4\x90\x80\x80", 4), 0);
    assert_int_equal(cairn_utf8_valid("\xf4\x8f\xbf\xbf", 4), 4);
    assert_int_equal(cairn_utf8_valid("ok\xff", 3), 2);
}

static void repair_replaces_each_bad_byte(void **state)
{
    (void)state;
    char out[32];
    size_t n = cairn_utf8_repair("a\xff\xe2z", 4, out);
    assert_int_equal(n, 8);
    assert_memory_equal(out, "a\xef\xbf\xbd\xef\xbf\xbdz", n);
    assert_int_equal(cairn_utf8_repair("a\xff\xe2z", 4, NULL), n);
}

static void repaired_bytes_of_any_kind_are_valid(void **state)
{
    (void)state;
    uint64_t random = cairn_test_seed("utf8", 7);
    for (int round = 0; round < 20000; round++) {
        char in[16], out[48];
        for (size_t i = 0; i < sizeof in; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            in[i] = (char)(random >> 50);
        }
        size_t n = cairn_utf8_repair(in, sizeof in, out);
        assert_true(n <= sizeof out);
        assert_int_equal(cairn_utf8_valid(out, n), n);
        assert_true(cairn_utf8_whole(in, sizeof in) + 3 >= sizeof in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_character_is_held_back),
        cmocka_unit_test(bytes_that_can_not_become_a_character_are_not_waited_for),
        cmocka_unit_test(overlong_and_surrogates_are_invalid),
        cmocka_unit_test(repair_replaces_each_bad_byte),
        cmocka_unit_test(repaired_bytes_of_any_kind_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
