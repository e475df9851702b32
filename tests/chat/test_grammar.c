/*
 * Grammars that clients send, and those that the chat library makes of tools and schemas: what is wrong is told with its
 * place, what would never come to an end is refused at once, and what the library takes is taken.
 */
#include "chat_support.h"

#include "chat/sampler_bridge.h"
#include "vocab_support.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static struct llama_model *model;

static int open_vocabulary(void **state)
{
    (void)state;
    model = test_vocabulary_open();
    return 0;
}

static int close_vocabulary(void **state)
{
    (void)state;
    llama_model_free(model);
    return 0;
}

static cairn_status try_grammar(const char *grammar, const cairn_chat_prompt *prompt, cairn_sampler **ret,
                                cairn_error *error)
{
    cairn_sampler_settings settings = cairn_sampler_settings_default();
    settings.temperature = 0;
    settings.grammar = grammar;
    settings.prompt = prompt;
    *ret = NULL;
    return cairn_sampler_new(model, &settings, ret, error);
}

static void taken(const char *grammar)
{
    cairn_sampler *sampler;
    cairn_error error = {0};
    if (try_grammar(grammar, NULL, &sampler, &error) != CAIRN_OK)
        fail_msg("%.200s\n%s", grammar, error.detail);
    cairn_sampler_free(sampler);
}

static void refused(const char *grammar, const char *detail)
{
    cairn_sampler *sampler;
    cairn_error error = {0};
    if (try_grammar(grammar, NULL, &sampler, &error) != CAIRN_INVALID)
        fail_msg("taken: %.200s", grammar);
    assert_null(sampler);
    if (strstr(error.detail, detail) == NULL)
        fail_msg("%.200s\nwanted %s\ngot    %s", grammar, detail, error.detail);
}

static void grammars_of_all_kinds_are_taken(void **state)
{
    (void)state;
    static const char *const grammars[] = {
        "root ::= \"a\"",
        "# comment\n\nroot ::= # here too\n  \"a\" | \"b\" # and here\n",
        "root ::= item (\",\" item)*\r\nitem ::= [a-z]+\r\n",
        "root ::= ( \"a\"\n  | \"b\"\n)\n",
        "root ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4})",
        "root ::= [a-] [\\]\\[\\-] [\\u00e9\\U0001F600] \"\xC3\xA9\" .",
        "root ::= \"a\"{2} \"b\"{2,} \"c\"{0,3} \"d\"{ 1 , 2 } \"e\"{0}",
        "root ::= \"\" \"a\" | ",
        "root ::= x y\nx ::= \"a\"? \"b\"?\ny ::= (x \"c\")*\n",
        "root ::= <|im_start|> !<|im_end|>* <|im_end|> <[5]> !<[6]>",
        "root ::= a\na ::= \"x\" a | \"\"\na ::= \"y\"\n", /* the second one counts */
        "root ::= list\nlist ::= \"-\" [^\\n]* \"\\n\" list?\n",
        "root ::= (space \"a\"?)*\nspace ::= \" \"?\n", /* can be empty, and nothing stands behind */
        "root ::= (\"a\"{10}){20} (\"b\"{1,40}){1,40}",
    };
    for (size_t i = 0; i < COUNT(grammars); i++)
        taken(grammars[i]);
}

static void each_mistake_is_told_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *detail;
    } cases[] = {
        {"root = \"a\"", "grammar: line 1, column 6: ::= was expected, not \"= \"a\"\""},
        {"root ::= (", "line 1, column 11: \")\" was expected, not the end"},
        {"root ::= \"a", "line 1, column 12: the text ends inside of quotes"},
        {"root ::= [a", "line 1, column 12: the text ends inside of quotes or brackets"},
        {"x ::= \"a\"", "grammar: it has no rule named root"},
        {"root ::= a\na ::= b c\nc ::= \"c\"", "line 2, column 7: there is no rule named b"},
        {"root ::= a\n::= b", "line 2, column 1: the name of a rule was expected, not \"::= b\""},
        {"root ::= a )", "line 1, column 12: a symbol, \"|\" or the end of the line was expected, not \")\""},
        {"root ::= *", "line 1, column 10: there is nothing to be repeated"},
        {"root ::= \"\"+", "there is nothing to be repeated"},
        {"root ::= \"a\"{", "a number was expected, not the end"},
        {"root ::= \"a\"{,5}", "a number was expected, not \",5}\""},
        {"root ::= \"a\"{5", "\"}\" was expected"},
        {"root ::= \"a\"{5,3}", "line 1, column 13: a repetition's most is less than its least"},
        {"root ::= \"a\"{2000}", "it repeats more than 2000 times"},
        {"root ::= (\"a\"{0,50} \"b\"){50}", "it repeats more than 2000 times"},
        {"root ::= \"a\"{99999999999999999999}", "the number is too large"},
        {"root ::= \"\\q\"", "an escape can be"},
        {"root ::= \"\\u12\"", "4 hexadecimal digits was expected"},
        {"root ::= <no such token>", "\"<no such token>\" is not a token of this model"},
        {"root ::= <think", "> was expected, not the end"},
        {"root ::= ! \"a\"", "a token, as in <think>, was expected"},
        {"root ::= \"\xC3\xA9\" \xC3\xA9",
         "column 14: a symbol, \"|\" or the end of the line was expected, not \"\xC3\xA9\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        refused(cases[i].grammar, cases[i].detail);
}

/* Each of these took the library for ever, all memory or the stack. */
static void what_would_never_end_is_refused(void **state)
{
    (void)state;
    refused("root ::= root \"a\" | \"b\"", "the rule root can begin with itself");
    refused("root ::= a\na ::= b? a \"x\" | \"y\"\nb ::= \"b\"", "the rule a can begin with itself");
    /* empty by way of another rule, which the library does not see */
    refused("root ::= a\na ::= b a \"x\" | \"y\"\nb ::= c\nc ::= \"c\" |",
            "the rule a can begin with itself");
    refused("root ::= (e \"a\"? root \"b\")? \ne ::= f\nf ::= |\"f\"", "can begin with itself");

    test_text text = {0};
    test_text_add(&text, "root ::= r0\n");
    for (int i = 0; i < 64; i++)
        test_text_add(&text, "r%d ::= r%d | r%d\n", i, i + 1, i + 1);
    test_text_add(&text, "r64 ::= \"a\"\n");
    refused(text.text, "can begin in too many ways");
    free(text.text);

    text = (test_text){0};
    test_text_add(&text, "root ::= r0\n");
    for (int i = 0; i < 100000; i++)
        test_text_add(&text, "r%d ::= r%d\n", i, i + 1);
    test_text_add(&text, "r100000 ::= \"a\"\n");
    refused(text.text, "through too many rules");
    free(text.text);

    text = (test_text){0};
    test_text_add(&text, "root ::= ");
    for (int i = 0; i < 1000000; i++)
        test_text_add(&text, "(");
    refused(text.text, "groups are nested deeper than");
    free(text.text);

    text = (test_text){0};
    test_text_add(&text, "root ::= \"");
    for (int i = 0; i < 100000; i++)
        test_text_add(&text, "aaaaaaaaaa");
    test_text_add(&text, "\"{1500}");
    refused(text.text, "with all its repetitions it is larger than");
    free(text.text);

    text = (test_text){0};
    test_text_add(&text, "root ::= \"a\"");
    for (int i = 0; i < 20000; i++)
        test_text_add(&text, " | \"%d\"", i);
    refused(text.text, "the rule root can begin with more than 5000 texts");
    free(text.text);

    text = (test_text){0};
    test_text_add(&text, "root ::=");
    for (int i = 0; i < 2000; i++)
        test_text_add(&text, " \"a\"{0,1999}");
    refused(text.text, "with all its repetitions it is larger than");
    free(text.text);
}

static void what_schemas_become_is_taken(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":1000},\"b\":{\"type\":"
        "[\"integer\","
        "\"null\"]},\"c\":{\"type\":\"array\",\"items\":{\"type\":\"number\"},\"minItems\":2,\"maxItems\":50}"
        "},"
        "\"required\":[\"a\"]}",
        "{\"anyOf\":[{\"const\":1},{\"enum\":[\"x\",null,{\"y\":2}]},{\"type\":\"boolean\"}]}",
        "{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#\"}}}",
        ("{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"l\":{\"$ref\":\"#/$defs/n\"}}}},"
         "\"$ref\":\"#/$defs/n\"}"),
        "{\"type\":\"string\",\"pattern\":\"^[a-z]{2,4}(-[0-9]+)?$\"}",
        "{\"type\":\"string\",\"format\":\"date-time\"}",
        "{\"type\":\"integer\",\"minimum\":-17,\"maximum\":123456789}",
        ("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
         "\"properties\":{\"a-b\":{\"type\":\"null\"}}}"),
        "{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"null\"}}},{\"required\":[\"a\"]}]}",
    };
    for (size_t i = 0; i < COUNT(schemas); i++) {
        char *grammar = NULL;
        cairn_error error = {0};
        cairn_status status = cairn_chat_schema_to_grammar(schemas[i], strlen(schemas[i]), &grammar, &error);
        if (strstr(schemas[i], "\"#\"") != NULL) { /* not known to the library */
            assert_int_equal(status, CAIRN_INVALID);
            continue;
        }
        if (status != CAIRN_OK)
            fail_msg("%s\n%s", schemas[i], error.detail);
        taken(grammar);
        cairn_chat_string_free(grammar);
    }
}

static void what_every_template_makes_of_tools_and_schemas_is_taken(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"x\":{\"type\":\"string\"},\"y\":{\"type\":\"array\",\"items\":{\"type\":"
        "\"integer\"}}},"
        "\"required\":[\"x\"]}}},{\"type\":\"function\",\"function\":{\"name\":\"b\"}}]",
        "\"tool_choice\":\"required\"",
        "\"tool_choice\":\"required\",\"parallel_tool_calls\":false",
        "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"b\"}}",
    };
    size_t count = 0, without = 0;
    char **names = test_template_names(&count);
    for (size_t i = 0; i < count; i++) {
        cairn_chat *chat = test_open_template(names[i]);
        for (size_t k = 0; k < COUNT(fields); k++) {
            test_text request = {0};
            test_text_add(&request, "{%s%s%s,\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}",
                          fields[0], k > 0 ? "," : "", k > 0 ? fields[k] : "");
            cairn_chat_prompt *prompt = NULL;
            cairn_sampler *sampler;
            cairn_error error = {0};
            if (cairn_chat_render(chat, request.text, request.size, NULL, &prompt, &error) != CAIRN_OK) {
                assert_non_null(strstr(error.detail, "refuses this conversation"));
                without++; /* a template that can't do with such tools */
                free(request.text);
                continue;
            }
            if (try_grammar(NULL, prompt, &sampler, &error) != CAIRN_OK)
                fail_msg("%s: %s\n%s", names[i], error.detail, prompt->grammar);
            cairn_sampler_free(sampler);
            cairn_chat_prompt_free(prompt);
            free(request.text);
        }
        cairn_chat_close(chat);
    }
    assert_true(without <= COUNT(fields));
    test_free_names(names, count);
}

/* How much of `text` the grammar allows as an answer's beginning, in tokens of it; SIZE_MAX: all. */
static size_t allowed(const cairn_chat_prompt *prompt, const char *text)
{
    cairn_sampler *sampler;
    cairn_error error = {0};
    llama_token tokens[64];
    assert_int_equal(try_grammar(NULL, prompt, &sampler, &error), CAIRN_OK);
    int n = llama_tokenize(llama_model_get_vocab(model), text, (int)strlen(text), tokens, 64, false, true);
    assert_true(n > 0);
    size_t good = SIZE_MAX;
    for (int i = 0; i < n && good == SIZE_MAX; i++) {
        if (cairn_sampler_accept(sampler, tokens[i], true, &error) != CAIRN_OK)
            good = (size_t)i;
    }
    cairn_sampler_free(sampler);
    return good;
}

static void nothing_but_reasoning_stands_before_a_call_that_must_be_made(void **state)
{
    (void)state;
    static const struct {
        const char *name, *fields, *call;
    } cases[] = {
        {"Qwen3.5-4B", "\"chat_template_kwargs\":{\"enable_thinking\":false}",
         "<tool_call>\n<function=look>\n<parameter=at>\nhere\n</parameter>\n</function>\n</tool_call>"},
        {"Qwen3.5-4B", "\"chat_template_kwargs\":{\"enable_thinking\":true}",
         "I think "
         "so.\n</think>\n\n<tool_call>\n<function=look>\n<parameter=at>\nhere\n</parameter>\n</function>\n"
         "</tool_call>"},
        {"Qwen-Qwen2.5-7B-Instruct", "\"n\":1",
         "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"here\"}}\n</tool_call>"},
    };
    static const char *const choices[] = {"\"required\"",
                                          "{\"type\":\"function\",\"function\":{\"name\":\"look\"}}"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        cairn_chat *chat = test_open_template(cases[i].name);
        for (size_t k = 0; k < COUNT(choices); k++) {
            test_text request = {0};
            test_text_add(
                &request,
                "{%s,\"tool_choice\":%s,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\","
                "\"parameters\":{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"string\"}},"
                "\"required\":"
                "[\"at\"]}}}],\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}",
                cases[i].fields, choices[k]);
            cairn_chat_prompt *prompt = test_render(chat, request.text);
            assert_false(prompt->grammar_lazy);
            size_t good = allowed(prompt, cases[i].call);
            if (good != SIZE_MAX)
                fail_msg("%s: refused at token %zu\n%s", cases[i].name, good, prompt->grammar);
            const char *end = strstr(cases[i].call, "</think>");
            test_text said = {0};
            test_text_add(&said, "%.*sWell, then.", end != NULL ? (int)(end - cases[i].call) + 10 : 0,
                          cases[i].call);
            assert_int_not_equal(allowed(prompt, said.text), SIZE_MAX);
            free(said.text);
            cairn_chat_prompt_free(prompt);
            free(request.text);
        }
        cairn_chat_close(chat);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars_of_all_kinds_are_taken),
        cmocka_unit_test(each_mistake_is_told_with_its_place),
        cmocka_unit_test(what_would_never_end_is_refused),
        cmocka_unit_test(what_schemas_become_is_taken),
        cmocka_unit_test(what_every_template_makes_of_tools_and_schemas_is_taken),
        cmocka_unit_test(nothing_but_reasoning_stands_before_a_call_that_must_be_made),
    };
    return cmocka_run_group_tests(tests, open_vocabulary, close_vocabulary);
}
