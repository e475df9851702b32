/*
 * What a client sends is bounded before the chat library works on it: depth, size, keys, arguments, schemas. Grammars:
 * test_grammar.c.
 */
#include "chat_support.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TOOL(name)   "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static void hostile_depth_and_size_are_refused(void **state)
{
    (void)state;
    test_text deep = {0};
    test_text_add(&deep, "{\"messages\":");
    for (int i = 0; i < 200000; i++) {
        test_text_add(&deep, "[");
    }
    test_refused(qwen, deep.text, CAIRN_INVALID, "body: nested deeper than 128 levels, at byte 139");
    free(deep.text);

    cairn_chat_options options = {.request_bytes_max = 10, .messages_max = 1, .tools_max = 1};
    cairn_chat_prompt *prompt = NULL;
    cairn_error error = {0};
    const char *request =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"},{\"role\":\"user\",\"content\":\"U\"}]}";
    assert_int_equal(cairn_chat_render(qwen, request, strlen(request), &options, &prompt, &error),
                     CAIRN_LIMIT);
    assert_non_null(strstr(error.detail, "bytes; at most 10 are taken"));
    options.request_bytes_max = 0;
    assert_int_equal(cairn_chat_render(qwen, request, strlen(request), &options, &prompt, &error),
                     CAIRN_LIMIT);
    assert_string_equal(error.detail, "messages: 2 of them; at most 1 are taken");
    request =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}],\"tools\":[" TOOL("a") "," TOOL("b") "]}";
    assert_int_equal(cairn_chat_render(qwen, request, strlen(request), &options, &prompt, &error),
                     CAIRN_LIMIT);
    assert_string_equal(error.detail, "tools: 2 of them; at most 1 are taken");
    assert_null(prompt);
}

/* Many keys in one object: the library's parser compares each with all before it. */
static void wide_objects_are_refused_at_once(void **state)
{
    (void)state;
    test_text wide = {0};
    test_text_add(&wide, "{\"x\":{");
    for (int i = 0; i < 1000000; i++) {
        test_text_add(&wide, "%s\"k%d\":0", i > 0 ? "," : "", i);
    }
    test_text_add(&wide, "},\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}");
    test_refused(qwen, wide.text, CAIRN_INVALID, "body: too many keys in its objects, at byte ");
    free(wide.text);
}

/* The template parses arguments: they are bounded like the body. */
static void hostile_arguments_are_refused(void **state)
{
    (void)state;
    test_text body = {0};
    test_text_add(
        &body,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"},{\"role\":\"assistant\",\"content\":null,"
        "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"");
    test_text_add(&body, "{\\\"a\\\":");
    for (int i = 0; i < 200000; i++) {
        test_text_add(&body, "[");
    }
    for (int i = 0; i < 200000; i++) {
        test_text_add(&body, "]");
    }
    test_text_add(&body, "}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"R\"}]}");
    test_refused(qwen, body.text, CAIRN_INVALID,
                 "messages[1].tool_calls[0].function.arguments: nested deeper than 128 levels, at byte ");
    free(body.text);
}

/* Each of these took the library for ever, or the stack. */
static void hostile_schemas_are_refused_at_once(void **state)
{
    (void)state;
    test_text names = {0}, twice = {0}, chain = {0}, copies = {0}, bogus = {0};
    test_text_add(&names, "{\"type\":\"object\",\"additionalProperties\":true,\"properties\":{\"");
    for (int i = 0; i < 100000; i++) {
        test_text_add(&names, "aaaaaaaaaa");
    }
    test_text_add(&names, "\":{}}}");
    for (int i = 0; i < 30; i++) {
        test_text_add(&twice, "{\"type\":[\"object\",\"object\"],\"properties\":{\"a\":");
    }
    test_text_add(&twice, "{}");
    for (int i = 0; i < 30; i++) {
        test_text_add(&twice, "}}");
    }
    test_text_add(&chain, "{\"$ref\":\"#/d/0\",\"d\":{");
    test_text_add(&copies, "{\"anyOf\":[");
    for (int i = 0; i < 3000; i++) {
        test_text_add(&chain, "%s\"%d\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/d/%d\"}}",
                      i > 0 ? "," : "", i, i + 1);
        test_text_add(&copies, "%s{\"$ref\":\"#/d/%d\"}", i > 0 ? "," : "", i);
    }
    test_text_add(&chain, ",\"3000\":{}}}");
    test_text_add(&copies, "],\"d\":[");
    for (int i = 0; i < 3000; i++) {
        test_text_add(&copies, "%s{}", i > 0 ? "," : "");
    }
    test_text_add(&copies, "]}");
    test_text_add(&bogus, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 2000; i++) {
        test_text_add(&bogus, "%s\"p%d\":{}", i > 0 ? "," : "", i);
    }
    test_text_add(&bogus, "},\"required\":[");
    for (int i = 0; i < 2000; i++) {
        test_text_add(&bogus, "%s\"q%d\"", i > 0 ? "," : "", i);
    }
    test_text_add(&bogus, "]}");
    const struct {
        const char *schema, *detail;
    } cases[] = {
        {"{\"type\":\"string\",\"minLength\":5,\"maxLength\":3}", "minLength is more than maxLength"},
        {"{\"items\":{},\"minItems\":5,\"maxItems\":3}", "minItems is more than maxItems"},
        {"{\"allOf\":[{\"$ref\":\"#/d/a\"}],\"d\":{\"a\":{\"$ref\":\"#/d/a\"}}}", "leads to itself"},
        {"{\"allOf\":[{\"$ref\":\"#/d/a\"}],\"d\":{\"a\":{\"$ref\":\"#/d/b\"},\"b\":{\"$ref\":\"#/d/a\"}}}",
         "leads to itself"},
        {names.text, "a name is longer than 256 bytes"},
        {twice.text, "more than 100000 values"},
        {chain.text, "more than 1000 references"},
        {copies.text, "more than 1000 references"},
        {bogus.text, "too many optional properties"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        test_text request = {0};
        test_text_add(&request, "{\"json_schema\":%s,\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}",
                      cases[i].schema);
        test_refused(qwen, request.text, CAIRN_INVALID, cases[i].detail);
        free(request.text);
    }
    free(names.text);
    free(twice.text);
    free(chain.text);
    free(copies.text);
    free(bogus.text);
}

/* Each is small enough, together they are not. */
static void schemas_of_a_request_are_added_up(void **state)
{
    (void)state;
    test_text tools = {0};
    test_text_add(&tools, "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}],\"tools\":[");
    for (int i = 0; i < 40; i++) {
        test_text_add(
            &tools,
            "%s{\"type\":\"function\",\"function\":{\"name\":\"f%d\",\"parameters\":{\"type\":\"object\","
            "\"properties\":{",
            i > 0 ? "," : "", i);
        for (int k = 0; k < 100; k++) {
            test_text_add(&tools, "%s\"p%d\":{}", k > 0 ? "," : "", k);
        }
        test_text_add(&tools, "}}}}");
    }
    test_text_add(&tools, "]}");
    test_refused(qwen, tools.text, CAIRN_INVALID,
                 "tools[27].function.parameters: too many optional properties");
    free(tools.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_depth_and_size_are_refused),
        cmocka_unit_test(wide_objects_are_refused_at_once),
        cmocka_unit_test(hostile_arguments_are_refused),
        cmocka_unit_test(hostile_schemas_are_refused_at_once),
        cmocka_unit_test(schemas_of_a_request_are_added_up),
    };
    return cmocka_run_group_tests(tests, open_qwen, close_qwen);
}
