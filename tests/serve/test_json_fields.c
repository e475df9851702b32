/*
 * A client's JSON: every mistake gets a place, and nothing hostile costs much.
 */
#include "test_support.h"

#include "serve/json_fields.h"

static json_t *parse(const char *text, cairn_api_error *error)
{
    memset(error, 0, sizeof *error);
    return cairn_json_parse(text, strlen(text), error);
}

static void malformed_json_names_line_and_column(void **state)
{
    (void)state;
    cairn_api_error error;
    assert_null(parse("{\n  \"a\": 1,\n  \"b\" 2\n}", &error));
    assert_int_equal(error.http, 400);
    assert_non_null(strstr(error.message, "line 3, column"));
}

static void only_an_object_is_a_request(void **state)
{
    (void)state;
    cairn_api_error error;
    assert_null(parse("[1,2]", &error));
    assert_non_null(strstr(error.message, "not an array"));
    assert_null(parse("", &error));
    assert_non_null(strstr(error.message, "empty"));
    assert_null(parse("{} trailing", &error));
    assert_int_equal(error.http, 400);
}

static void deep_nesting_is_refused_before_parsing(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    char *text = malloc(DEPTH + 8);
    assert_non_null(text);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '[', DEPTH);
    cairn_api_error error = {0};
    assert_null(cairn_json_parse(text, DEPTH + 5, &error));
    assert_non_null(strstr(error.message, "nested more than 128"));
    free(text);
    /* Brackets inside strings are text. */
    json_t *value = parse("{\"a\":\"[[[[\\\"[[\"}", &error);
    assert_non_null(value);
    json_decref(value);
}

static void huge_numbers_are_taken_as_numbers(void **state)
{
    (void)state;
    cairn_api_error error;
    json_t *value = parse("{\"seed\":18446744073709551615,\"temperature\":0.5}", &error);
    assert_non_null(value);
    double temperature = 0;
    cairn_json_number(value, "temperature", 0, 2, &temperature, &error);
    assert_int_equal(error.http, 0);
    assert_true(temperature == 0.5);
    json_decref(value);
}

static void wrong_types_name_the_field(void **state)
{
    (void)state;
    cairn_api_error error;
    json_t *value =
        parse("{\"temperature\":\"hot\",\"stream\":1,\"top_k\":1.5,\"seed\":3.0,\"n\":null}", &error);
    assert_non_null(value);
    double number = 7;
    cairn_json_number(value, "temperature", 0, 2, &number, &error);
    assert_string_equal(error.param, "temperature");
    assert_non_null(strstr(error.message, "must be a number, not a string"));
    assert_true(number == 7);
    /* The first mistake stays. */
    bool flag = false;
    cairn_json_boolean(value, "stream", &flag, &error);
    assert_string_equal(error.param, "temperature");
    memset(&error, 0, sizeof error);
    cairn_json_boolean(value, "stream", &flag, &error);
    assert_string_equal(error.param, "stream");
    memset(&error, 0, sizeof error);
    int64_t whole = 4;
    cairn_json_integer(value, "top_k", 0, 100, &whole, &error);
    assert_string_equal(error.param, "top_k");
    memset(&error, 0, sizeof error);
    cairn_json_integer(value, "seed", 0, 100, &whole, &error);
    assert_int_equal(error.http, 0);
    assert_int_equal(whole, 3);
    cairn_json_integer(value, "n", 0, 100, &whole, &error);
    cairn_json_integer(value, "absent", 0, 100, &whole, &error);
    assert_int_equal(error.http, 0);
    assert_int_equal(whole, 3);
    json_decref(value);
}

static void values_out_of_range_name_the_range(void **state)
{
    (void)state;
    cairn_api_error error;
    json_t *value = parse("{\"top_p\":1.5,\"max_tokens\":-7,\"big\":1e300}", &error);
    double number = 0;
    cairn_json_number(value, "top_p", 0, 1, &number, &error);
    assert_non_null(strstr(error.message, "between 0 and 1"));
    memset(&error, 0, sizeof error);
    int64_t whole = 0;
    cairn_json_integer(value, "max_tokens", -1, 100, &whole, &error);
    assert_non_null(strstr(error.message, "between -1 and 100"));
    memset(&error, 0, sizeof error);
    cairn_json_integer(value, "big", INT64_MIN, INT64_MAX, &whole, &error);
    assert_int_equal(error.http, 400);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_json_names_line_and_column),
        cmocka_unit_test(only_an_object_is_a_request),
        cmocka_unit_test(deep_nesting_is_refused_before_parsing),
        cmocka_unit_test(huge_numbers_are_taken_as_numbers),
        cmocka_unit_test(wrong_types_name_the_field),
        cmocka_unit_test(values_out_of_range_name_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
