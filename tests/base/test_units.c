/* Sizes and numbers as text: base/units. */
#include "test_support.h"

#include "base/units.h"

static void parses_to(const char *text, uint64_t whole, uint64_t expected)
{
    uint64_t bytes = 1;
    cairn_error error;
    if (cairn_units_parse_bytes(text, whole, &bytes, &error) != CAIRN_OK) {
        fail_msg("\"%s\": %s", text, error.detail);
    }
    assert_true(bytes == expected);
}

static void sizes_are_read(void **state)
{
    (void)state;
    parses_to("0", 0, 0);
    parses_to("4096", 0, 4096);
    parses_to("4096B", 0, 4096);
    parses_to("512M", 0, UINT64_C(512) << 20);
    parses_to("512MiB", 0, UINT64_C(512) << 20);
    parses_to("512mb", 0, 512000000);
    parses_to("2GiB", 0, UINT64_C(2) << 30);
    parses_to(" 1.5 g", 0, UINT64_C(3) << 29);
    parses_to("0.25T", 0, UINT64_C(1) << 38);
    parses_to("10%", 1000, 100);
    parses_to("12.5 %", 1000, 125);
    parses_to("100%", UINT64_MAX / 100000 * 100000, UINT64_MAX / 100000 * 100000);
    parses_to("18446744073709551615", 0, UINT64_MAX);
    parses_to("16777215T", 0, UINT64_C(16777215) << 40);
}

static void bad_sizes_are_refused_with_the_text(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         " ",
                         "M",
                         "-1",
                         "1..5G",
                         "1.G",
                         "1.2345G",
                         "0.5",
                         "12Q",
                         "12MiBs",
                         "101%",
                         "100.1%",
                         "5%%",
                         "1e9",
                         "0x10",
                         "1 G G",
                         "18446744073709551616",
                         "16777216T",
                         "+1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 77;
        cairn_error error;
        assert_status(cairn_units_parse_bytes(bad[i], 1000, &bytes, &error), CAIRN_INVALID);
        assert_non_null(strstr(error.detail, bad[i]));
        assert_int_equal(bytes, 77);
    }
    uint64_t bytes;
    cairn_error error;
    assert_status(cairn_units_parse_bytes("10%", 0, &bytes, &error), CAIRN_INVALID);
    assert_non_null(strstr(error.detail, "percentage"));
}

static void whole_numbers_keep_their_range(void **state)
{
    (void)state;
    int64_t value = 0;
    assert_ok(cairn_units_parse_int("8080", 1, 65535, &value, NULL));
    assert_int_equal(value, 8080);
    assert_ok(cairn_units_parse_int("-9223372036854775808", INT64_MIN, INT64_MAX, &value, NULL));
    assert_true(value == INT64_MIN);
    cairn_error error;
    assert_status(cairn_units_parse_int("65536", 1, 65535, &value, &error), CAIRN_INVALID);
    assert_string_equal(error.detail, "\"65536\" is not between 1 and 65535");
    assert_status(cairn_units_parse_int("99999999999999999999", INT64_MIN, INT64_MAX, &value, NULL),
                  CAIRN_INVALID);
    const char *bad[] = {"", "-", "1x", " 1", "1 ", "0x1", "1.0", "--1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(cairn_units_parse_int(bad[i], 0, 10, &value, NULL), CAIRN_INVALID);
    }
}

static void real_numbers_keep_their_range(void **state)
{
    (void)state;
    double value = 0;
    assert_ok(cairn_units_parse_real("0.75", 0, 2, &value, NULL));
    assert_true(value == 0.75);
    assert_ok(cairn_units_parse_real("-1.5e-1", -1, 2, &value, NULL));
    assert_true(value == -0.15);
    assert_ok(cairn_units_parse_real(".5", 0, 1, &value, NULL));
    const char *bad[] = {"", ".", "nan", "inf", "0x1p3", "1e", "1e+", "1,5", "3", "1.2.3", "1e999", " 1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(cairn_units_parse_real(bad[i], 0, 2, &value, NULL), CAIRN_INVALID);
    }
}

static void prints_bytes(uint64_t bytes, const char *expected)
{
    char text[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes(bytes, text);
    assert_string_equal(text, expected);
}

static void sizes_are_printed_short(void **state)
{
    (void)state;
    prints_bytes(0, "0 B");
    prints_bytes(999, "999 B");
    prints_bytes(1000, "0.98 KiB");
    prints_bytes(1024, "1 KiB");
    prints_bytes(UINT64_C(96) << 20, "96 MiB");
    prints_bytes(UINT64_C(3) << 29, "1.5 GiB");
    prints_bytes(20200000, "19.3 MiB");
    prints_bytes((UINT64_C(1000) << 20) - 1, "0.98 GiB");
    prints_bytes(UINT64_MAX, "16 EiB");
}

static void prints_duration(uint64_t ns, const char *expected)
{
    char text[CAIRN_UNITS_TEXT];
    cairn_units_print_duration(ns, text);
    assert_string_equal(text, expected);
}

static void durations_are_printed_short(void **state)
{
    (void)state;
    prints_duration(0, "0 us");
    prints_duration(640000, "640 us");
    prints_duration(12300000, "12.3 ms");
    prints_duration(456000000, "456 ms");
    prints_duration(4560000000, "4.56 s");
    prints_duration(51100000000, "51.1 s");
    prints_duration(162600000000, "2 min 43 s");
    prints_duration(UINT64_MAX, "307445734 min 34 s");
}

static void counts_are_grouped(void **state)
{
    (void)state;
    char text[CAIRN_UNITS_TEXT];
    cairn_units_print_count(0, text);
    assert_string_equal(text, "0");
    cairn_units_print_count(999, text);
    assert_string_equal(text, "999");
    cairn_units_print_count(10839, text);
    assert_string_equal(text, "10,839");
    cairn_units_print_count(UINT64_MAX, text);
    assert_string_equal(text, "18,446,744,073,709,551,615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(bad_sizes_are_refused_with_the_text),
        cmocka_unit_test(whole_numbers_keep_their_range),
        cmocka_unit_test(real_numbers_keep_their_range),
        cmocka_unit_test(sizes_are_printed_short),
        cmocka_unit_test(durations_are_printed_short),
        cmocka_unit_test(counts_are_grouped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
