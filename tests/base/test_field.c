/* Lines of key=value pairs: base/field. */
#include "test_support.h"

#include <math.h>

#include "base/field.h"
#include "base/rng.h"

static const cairn_field_head plain = {.time = NULL, .level = NULL, .event = "e"};

static void line_equals(cairn_field_format format, const cairn_field *fields, size_t count,
                        const char *expected)
{
    char line[512];
    size_t len = cairn_field_print(format, &plain, fields, count, line, sizeof line);
    assert_int_equal(len, strlen(line));
    assert_string_equal(line, expected);
}

static void every_kind_prints_in_both_formats(void **state)
{
    (void)state;
    const cairn_field fields[] = {
        CAIRN_FIELD_STR("s", "plain"), CAIRN_FIELD_STR("t", "two words"), CAIRN_FIELD_STR("none", NULL),
        CAIRN_FIELD_INT("i", -5),      CAIRN_FIELD_UINT("u", UINT64_MAX), CAIRN_FIELD_REAL("r", 1.5),
        CAIRN_FIELD_BOOL("b", true),   CAIRN_FIELD_HEX("h", 0xabc),       CAIRN_FIELD_REAL("n", NAN),
    };
    size_t count = sizeof fields / sizeof fields[0];
    line_equals(CAIRN_FIELD_FORMAT_TEXT, fields, count,
                "e s=plain t=\"two words\" none=- i=-5 u=18446744073709551615 r=1.5 b=true "
                "h=0000000000000abc n=nan\n");
    line_equals(CAIRN_FIELD_FORMAT_JSON, fields, count,
                "{\"event\":\"e\",\"s\":\"plain\",\"t\":\"two "
                "words\",\"none\":null,\"i\":-5,\"u\":18446744073709551615,"
                "\"r\":1.5,\"b\":true,\"h\":\"0000000000000abc\",\"n\":null}\n");
}

static void hostile_values_stay_on_one_line(void **state)
{
    (void)state;
    const cairn_field fields[] = {CAIRN_FIELD_STR("a", "x\ny\"z\\\t\x7f"), CAIRN_FIELD_STR("b", ""),
                                  CAIRN_FIELD_STR("c", "a=b"), CAIRN_FIELD_STR("d", "\xc3\xa4\xff\xc3")};
    line_equals(
        CAIRN_FIELD_FORMAT_TEXT, fields, 4,
        "e a=\"x\\ny\\\"z\\\\\\u0009\\u007f\" b=\"\" c=\"a=b\" d=\"\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\"\n");
    line_equals(CAIRN_FIELD_FORMAT_JSON, fields, 2,
                "{\"event\":\"e\",\"a\":\"x\\ny\\\"z\\\\\\u0009\\u007f\",\"b\":\"\"}\n");
}

static void bad_utf8_is_replaced(void **state)
{
    (void)state;
    /* Overlong, surrogate, beyond the last character, and cut: each byte becomes one replacement. */
    const char *bad[] = {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                         "\xe2\x82", "\xe0\x80\x80", "\xf0\x80\x80\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char expected[100] = "e v=\"";
        for (size_t j = 0; j < strlen(bad[i]); j++) {
            memcpy(expected + strlen(expected), "\xef\xbf\xbd", 4);
        }
        memcpy(expected + strlen(expected), "\"\n", 3);
        const cairn_field field = CAIRN_FIELD_STR("v", bad[i]);
        line_equals(CAIRN_FIELD_FORMAT_TEXT, &field, 1, expected);
    }
    const cairn_field good = CAIRN_FIELD_STR("v", "\xe2\x82\xac\xf0\x9f\x97\xbf");
    line_equals(CAIRN_FIELD_FORMAT_TEXT, &good, 1, "e v=\"\xe2\x82\xac\xf0\x9f\x97\xbf\"\n");
}

static void too_long_line_is_cut_at_a_pair(void **state)
{
    (void)state;
    char value[300];
    memset(value, 'v', sizeof value);
    value[299] = '\0';
    const cairn_field fields[] = {CAIRN_FIELD_INT("kept", 1), CAIRN_FIELD_STR("long", value),
                                  CAIRN_FIELD_INT("after", 2)};
    char line[256];
    size_t len = cairn_field_print(CAIRN_FIELD_FORMAT_TEXT, &plain, fields, 3, line, sizeof line);
    assert_string_equal(line, "e kept=1 cut=true\n");
    assert_int_equal(len, strlen(line));
    (void)cairn_field_print(CAIRN_FIELD_FORMAT_JSON, &plain, fields, 3, line, sizeof line);
    assert_string_equal(line, "{\"event\":\"e\",\"kept\":1,\"cut\":true}\n");
}

static void head_parts_may_be_missing(void **state)
{
    (void)state;
    char line[256];
    const cairn_field_head none = {.time = "", .level = NULL, .event = NULL};
    const cairn_field field = CAIRN_FIELD_INT("a", 1);
    (void)cairn_field_print(CAIRN_FIELD_FORMAT_TEXT, &none, &field, 1, line, sizeof line);
    assert_string_equal(line, "a=1\n");
    (void)cairn_field_print(CAIRN_FIELD_FORMAT_JSON, &none, NULL, 0, line, sizeof line);
    assert_string_equal(line, "{}\n");
    const cairn_field_head all = {.time = "T", .level = "info", .event = "e"};
    (void)cairn_field_print(CAIRN_FIELD_FORMAT_JSON, &all, NULL, 0, line, sizeof line);
    assert_string_equal(line, "{\"time\":\"T\",\"level\":\"info\",\"event\":\"e\"}\n");
}

static void random_bytes_give_one_clean_line(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("random_bytes_give_one_clean_line", 11));
    for (int round = 0; round < 3000; round++) {
        char value[200];
        size_t len = (size_t)cairn_rng_below(&rng, sizeof value);
        for (size_t i = 0; i < len; i++) {
            value[i] = (char)cairn_rng_range(&rng, 1, 255);
        }
        value[len] = '\0';
        const cairn_field field = CAIRN_FIELD_STR("v", value);
        char line[300];
        memset(line, 1, sizeof line);
        cairn_field_format format = round % 2 == 0 ? CAIRN_FIELD_FORMAT_TEXT : CAIRN_FIELD_FORMAT_JSON;
        size_t line_len = cairn_field_print(format, &plain, &field, 1, line, sizeof line);
        assert_true(line_len < sizeof line && strlen(line) == line_len);
        assert_ptr_equal(strchr(line, '\n'), line + line_len - 1);
        for (size_t i = 0; i + 1 < line_len; i++) {
            assert_true((unsigned char)line[i] >= 0x20);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_prints_in_both_formats),
        cmocka_unit_test(hostile_values_stay_on_one_line),
        cmocka_unit_test(bad_utf8_is_replaced),
        cmocka_unit_test(too_long_line_is_cut_at_a_pair),
        cmocka_unit_test(head_parts_may_be_missing),
        cmocka_unit_test(random_bytes_give_one_clean_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
