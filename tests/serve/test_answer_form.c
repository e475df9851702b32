/*
 * What clients change without changing anything has one form; what they really change has another.
 */
#include "serve/convert_support.h"
#include "test_support.h"

#include "serve/answer_form.h"

static cairn_buf forms[2];

static const char *form_of(size_t i, const char *message)
{
    json_t *value = json_loads(message, JSON_ALLOW_NUL, NULL);
    if (value == NULL)
        fail_msg("not JSON: %s", message);
    cairn_buf_release(&forms[i]);
    cairn_buf_init(&forms[i], cairn_mem_default(), 1 << 20);
    assert_ok(cairn_answer_form(value, &forms[i]));
    json_decref(value);
    return cairn_buf_str(&forms[i]);
}

static void same(const char *a, const char *b)
{
    assert_string_equal(form_of(0, a), form_of(1, b));
}

static void different(const char *a, const char *b)
{
    assert_string_not_equal(form_of(0, a), form_of(1, b));
}

/* A message with one call; the arguments as they stand in the JSON, a string in quotes or an object. */
#define CALL_OF(tool, arguments)                                                                    \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\"," \
    "\"function\":{\"name\":\"" tool "\",\"arguments\":" arguments "}}]}"
#define CALL(arguments) CALL_OF("f", arguments)

static void arguments_serialised_anew_are_the_same(void **state)
{
    (void)state;
    same(CALL("\"{\\\"a\\\": 1, \\\"b\\\": [1, {\\\"c\\\" : null}]}\""),
         CALL("\"{\\\"a\\\":1,\\\"b\\\":[1,{\\\"c\\\":null}]}\""));
    same(CALL("\"{\\\"a\\\": 1}\""), CALL("\"\\n {\\n  \\\"a\\\": 1\\n}\\n\""));
    same(CALL("\"{\\\"a\\\": 1}\""), CALL("{\"a\": 1}")); /* the object itself */
    same(CALL("\"\""), CALL("\"{}\""));
    same(CALL("null"), CALL("\"{}\""));
}

static void keys_in_another_order_are_the_same_and_items_are_not(void **state)
{
    (void)state;
    same(CALL("{\"a\":1,\"b\":{\"d\":1,\"c\":2}}"), CALL("{\"b\":{\"c\":2,\"d\":1},\"a\":1}"));
    different(CALL("{\"a\":[1,2]}"), CALL("{\"a\":[2,1]}"));
}

static void numbers_of_equal_value_are_the_same(void **state)
{
    (void)state;
    same(CALL("{\"a\":1.0}"), CALL("{\"a\":1}"));
    same(CALL("{\"a\":1e3}"), CALL("{\"a\":1000}"));
    same(CALL("{\"a\":-0.0}"), CALL("{\"a\":0}"));
    same(CALL("{\"a\":[0.50, 2.0]}"), CALL("{\"a\":[0.5,2]}"));
    different(CALL("{\"a\":1}"), CALL("{\"a\":1.5}"));
    different(CALL("{\"a\":1}"), CALL("{\"a\":\"1\"}"));
    different(CALL("{\"a\":0}"), CALL("{\"a\":false}"));
    different(CALL("{\"a\":0.1}"), CALL("{\"a\":0.10000000000000002}"));
    /* beyond what a client in JavaScript can hold, digits are lost: a real change */
    different(CALL("{\"a\":9007199254740993}"), CALL("{\"a\":9007199254740992}"));
    different(CALL("\"{\\\"a\\\":12345678901234567890}\""), CALL("\"{\\\"a\\\":12345678901234567000}\""));
}

static void escapes_are_the_same_as_their_characters(void **state)
{
    (void)state;
    same(CALL("\"{\\\"a\\\":\\\"\\\\u00e9 \\\\u4f60 \\\\/\\\"}\""),
         CALL("\"{\\\"a\\\":\\\"\xc3\xa9 \xe4\xbd\xa0 /\\\"}\""));
    same(CALL("\"{\\\"a\\\":\\\"\\\\ud83d\\\\udc4b\\\"}\""),
         CALL("\"{\\\"a\\\":\\\"\xf0\x9f\x91\x8b\\\"}\""));
    different(CALL("{\"a\":\"x\\ny\"}"), CALL("{\"a\":\"x y\"}"));
    different(CALL("{\"a\":\"x\"}"), CALL("{\"a\":\"x \"}")); /* white space inside an argument counts */
}

static void a_default_that_a_known_client_adds_is_the_same(void **state)
{
    (void)state;
    same(CALL_OF("Edit", "{\"file\":\"a\",\"old\":\"x\"}"),
         CALL_OF("Edit", "{\"replace_all\":false,\"file\":\"a\",\"old\":\"x\"}"));
    different(CALL_OF("Edit", "{\"file\":\"a\"}"), CALL_OF("Edit", "{\"replace_all\":true,\"file\":\"a\"}"));
    different(CALL_OF("Edit", "{\"file\":\"a\"}"), CALL_OF("Edit", "{\"replace_all\":0,\"file\":\"a\"}"));
    different(CALL_OF("Write", "{\"file\":\"a\"}"),
              CALL_OF("Write", "{\"replace_all\":false,\"file\":\"a\"}"));
    different(CALL_OF("Edit", "{\"a\":{}}"), CALL_OF("Edit", "{\"a\":{\"replace_all\":false}}"));
}

static void arguments_that_are_no_json_are_compared_as_they_stand(void **state)
{
    (void)state;
    same(CALL("\"{\\\"a\\\": \""), CALL("\"{\\\"a\\\": \""));
    different(CALL("\"{\\\"a\\\": \""), CALL("\"{\\\"a\\\":\""));
    different(CALL("\"{\\\"a\\\": \""), CALL("\"{}\""));
}

static void content_has_one_form(void **state)
{
    (void)state;
    same("{\"role\":\"assistant\",\"content\":null}", "{\"role\":\"assistant\",\"content\":\"\"}");
    same("{\"role\":\"assistant\"}", "{\"role\":\"assistant\",\"content\":\" \\n\"}");
    same("{\"role\":\"assistant\",\"content\":\"Hi.\\n\\n\"}",
         "{\"role\":\"assistant\",\"content\":\"Hi.\"}");
    same("{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Hi.\",\"cache_control\":{}}]}",
         "{\"role\":\"assistant\",\"content\":\"Hi.\",\"name\":\"x\"}");
    same("{\"role\":\"developer\",\"content\":\"a\"}", "{\"role\":\"system\",\"content\":\"a\"}");
    different("{\"role\":\"assistant\",\"content\":\"Hi.\"}",
              "{\"role\":\"assistant\",\"content\":\" Hi.\"}");
    different("{\"role\":\"assistant\",\"content\":\"Hi.\"}", "{\"role\":\"user\",\"content\":\"Hi.\"}");
    different("{\"role\":\"assistant\",\"content\":\"Hi.\"}", "{\"role\":\"assistant\",\"content\":\"Hi\"}");
    different("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"a\"}}]}",
              "{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"b\"}}]}");
}

static void calls_are_counted_named_and_in_order(void **state)
{
    (void)state;
    const char *ab =
        "{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"a\",\"arguments\":\"{}\"}}"
        ",{\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}]}";
    const char *ba =
        "{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}"
        ",{\"function\":{\"name\":\"a\",\"arguments\":\"{}\"}}]}";
    different(ab, ba);
    different(CALL("{}"), "{\"role\":\"assistant\",\"content\":null}");
    different(CALL_OF("f", "{}"), CALL_OF("g", "{}"));
}

static bool fits(const char *theirs, const char *own)
{
    json_t *a = test_json(theirs), *b = test_json(own);
    bool result = cairn_answer_reasoning_fits(a, b);
    json_decref(a);
    json_decref(b);
    return result;
}

static void reasoning_may_be_left_out_and_not_changed(void **state)
{
    (void)state;
    assert_true(fits("{}", "{'reasoning_content':'why'}"));
    assert_true(fits("{'reasoning_content':''}", "{'reasoning_content':'why'}"));
    assert_true(fits("{'reasoning_content':'\\nwhy\\n'}", "{'reasoning_content':'why'}"));
    assert_true(fits("{'reasoning':'why'}", "{'reasoning_content':'why'}"));
    assert_true(fits("{}", "{}"));
    assert_false(fits("{'reasoning_content':'wh'}", "{'reasoning_content':'why'}"));
    assert_false(fits("{'reasoning_content':'why'}", "{}"));
}

static void an_answer_put_back_says_the_same_in_its_own_words(void **state)
{
    (void)state;
    json_t *message = json_loads("{\"role\":\"assistant\",\"content\":\"\",\"name\":\"n\",\"tool_calls\":[{"
                                 "\"id\":\"theirs\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                                 "\"arguments\":\"{\\\"b\\\":2,\\\"a\\\":1}\"}}]}",
                                 0, NULL);
    json_t *answer = json_loads("{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"why\","
                                "\"tool_calls\":[{\"id\":\"own\",\"function\":{\"name\":\"f\","
                                "\"arguments\":\"{\\\"a\\\": 1, \\\"b\\\": 2}\"}}]}",
                                0, NULL);
    bool changed = false;
    test_same(cairn_answer_put_back(message, answer, &changed),
              "{'role':'assistant','content':null,'name':'n','reasoning_content':'why','tool_calls':[{'id':"
              "'theirs','type':'function','function':{'name':'f','arguments':'{\\'a\\': 1, \\'b\\': 2}'}}]}");
    assert_true(changed);
    json_t *again = cairn_answer_put_back(answer, answer, &changed);
    assert_false(changed);
    json_decref(again);
    json_decref(answer);
    json_decref(message);
}

static void ids_count_only_when_every_call_has_one(void **state)
{
    (void)state;
    json_t *both = test_json("{'tool_calls':[{'id':'a'},{'id':'b'}]}");
    json_t *one = test_json("{'tool_calls':[{'id':'a'},{'id':''}]}");
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 10);
    assert_ok(cairn_answer_call_ids(one, &out));
    assert_int_equal(out.len_bytes, 0);
    assert_ok(cairn_answer_call_ids(both, &out));
    assert_string_equal(cairn_buf_str(&out), "a\nb\n");
    cairn_buf_release(&out);
    json_decref(one);
    json_decref(both);
}

static int set_up(void **state)
{
    (void)state;
    cairn_buf_init(&forms[0], cairn_mem_default(), 1 << 20);
    cairn_buf_init(&forms[1], cairn_mem_default(), 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cairn_buf_release(&forms[0]);
    cairn_buf_release(&forms[1]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_serialised_anew_are_the_same),
        cmocka_unit_test(keys_in_another_order_are_the_same_and_items_are_not),
        cmocka_unit_test(numbers_of_equal_value_are_the_same),
        cmocka_unit_test(escapes_are_the_same_as_their_characters),
        cmocka_unit_test(a_default_that_a_known_client_adds_is_the_same),
        cmocka_unit_test(arguments_that_are_no_json_are_compared_as_they_stand),
        cmocka_unit_test(content_has_one_form),
        cmocka_unit_test(calls_are_counted_named_and_in_order),
        cmocka_unit_test(reasoning_may_be_left_out_and_not_changed),
        cmocka_unit_test(an_answer_put_back_says_the_same_in_its_own_words),
        cmocka_unit_test(ids_count_only_when_every_call_has_one),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
