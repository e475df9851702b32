/*
 * Entries of tokens become what completions and chat completions show.
 */
#include "test_support.h"

#include <string.h>

#include "serve/logprobs.h"

static const char entries_text[] =
    "[{\"id\":1,\"token\":\"a\",\"bytes\":[97],\"logprob\":-1.5,\"top_logprobs\":[{\"id\":1,\"token\":\"a\","
    "\"logprob\":-1.5},{\"id\":7,\"token\":\"a\",\"logprob\":-2.5},{\"id\":2,\"token\":\"b\",\"logprob\":-3}]"
    "},"
    "{\"id\":3,\"token\":\"\xef\xbf\xbd\",\"bytes\":[226,130],\"logprob\":-2,\"top_logprobs\":[]},"
    "{\"id\":4,\"token\":\"\xef\xbf\xbd\",\"bytes\":[172],\"logprob\":-2,\"top_logprobs\":[]},"
    "{\"id\":5,\"token\":\"xyz\",\"bytes\":[120,121,122],\"logprob\":-2,\"top_logprobs\":[]},"
    "{\"id\":6,\"token\":\"!\",\"bytes\":[33],\"logprob\":-9999,\"top_logprobs\":[]}]";

static void offsets_count_characters_however_tokens_cut_them(void **state)
{
    (void)state;
    json_t *entries = json_loads(entries_text, 0, NULL), *value = cairn_logprobs_text(entries, 10);
    static const json_int_t expected[] = {10, 11, 12, 12, 15};
    json_t *offsets = json_object_get(value, "text_offset");
    assert_int_equal(json_array_size(offsets), 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(json_integer_value(json_array_get(offsets, i)), expected[i]);
    assert_int_equal(json_array_size(json_object_get(value, "tokens")), 5);
    json_decref(value);
    json_decref(entries);
}

static void the_more_probable_of_two_tokens_with_one_text_is_told(void **state)
{
    (void)state;
    json_t *entries = json_loads(entries_text, 0, NULL), *value = cairn_logprobs_text(entries, 0);
    json_t *top = json_array_get(json_object_get(value, "top_logprobs"), 0);
    assert_int_equal(json_object_size(top), 2);
    assert_true(json_number_value(json_object_get(top, "a")) > -2);
    assert_true(json_number_value(json_object_get(top, "b")) < -2);
    json_decref(value);
    json_decref(entries);
}

static void chat_has_the_entries_as_they_are(void **state)
{
    (void)state;
    json_t *entries = json_loads(entries_text, 0, NULL), *value = cairn_logprobs_chat(entries);
    assert_true(json_equal(json_object_get(value, "content"), entries));
    assert_true(json_is_null(json_object_get(value, "refusal")));
    json_decref(value);
    json_decref(entries);
}

static void characters_are_counted_by_their_first_bytes(void **state)
{
    (void)state;
    static const char text[] = "Gr\xc3\xbc\xc3\x9f \xe2\x82\xac";
    assert_int_equal(cairn_logprobs_characters(text, sizeof text - 1), 6);
    assert_int_equal(cairn_logprobs_characters("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_count_characters_however_tokens_cut_them),
        cmocka_unit_test(the_more_probable_of_two_tokens_with_one_text_is_told),
        cmocka_unit_test(chat_has_the_entries_as_they_are),
        cmocka_unit_test(characters_are_counted_by_their_first_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
