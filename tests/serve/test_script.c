/*
 * A script is read line by line, and what is wrong with it is said with the line's number.
 */
#include "test_support.h"

#include "base/mem_test.h"
#include "serve/script.h"

static const char good[] =
    "# a comment, and an empty line\n"
    "\n"
    "{\"when\": {\"last\": \"list\", \"tools\": true, \"turn\": 0}, \"answer\": {\"text\": "
    "\"a\", \"calls\": [{\"name\": \"ls\", \"arguments\": {\"n\": 1}}]}, \"times\": 2}\r\n"
    "  {\"answer\": {\"raw\": \"b\"}}";

static void lines_are_counted_and_comments_are_not(void **state)
{
    (void)state;
    cairn_script *script = NULL;
    assert_ok(cairn_script_new(cairn_mem_default(), good, strlen(good), &script, NULL));
    assert_int_equal(cairn_script_count(script), 2);
    cairn_script_free(script);
    cairn_script_free(NULL);
}

static void refused(const char *text, const char *detail)
{
    cairn_script *script = NULL;
    cairn_error error = {0};
    assert_status(cairn_script_new(cairn_mem_default(), text, strlen(text), &script, &error), CAIRN_INVALID);
    assert_null(script);
    if (strstr(error.detail, detail) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", detail, error.detail);
}

static void mistakes_are_told_with_the_line_and_the_field(void **state)
{
    (void)state;
    refused("", "no line");
    refused("# nothing\n\n", "no line");
    refused("{\"answer\": {\"text\": \"a\"}}\n{\"answer\": ", "line 2 is not a JSON object");
    refused("[1]", "line 1 is not a JSON object");
    refused("{\"when\": {}}", "line 1: answer is missing");
    refused("{\"answer\": {\"text\": 3}}", "line 1: text is missing, unknown or of a wrong type");
    refused("{\"answer\": {\"txt\": \"a\"}}", "line 1: txt");
    refused("{\"when\": {\"lst\": \"a\"}, \"answer\": {}}", "line 1: lst");
    refused("{\"when\": {\"turn\": -1}, \"answer\": {}}", "line 1: turn");
    refused("\n{\"answer\": {\"calls\": [{\"arguments\": {}}]}}", "line 2: calls");
    refused("{\"answer\": {\"calls\": [{\"name\": \"a\", \"arguments\": \"{}\"}]}}", "line 1: calls");
    refused("{\"answer\": {\"text\": \"a\", \"text\": \"b\"}}", "duplicate");
    refused("{\"answer\": {}, \"times\": \"2\"}", "line 1: times");
}

static void too_many_lines_are_refused(void **state)
{
    (void)state;
    size_t size = CAIRN_SCRIPT_LINES_MAX + 1u;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '\n', size);
    cairn_script *script = NULL;
    assert_status(cairn_script_new(cairn_mem_default(), text, size, &script, NULL), CAIRN_LIMIT);
    free(text);
}

static void without_memory_there_is_none_and_nothing_leaks(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        cairn_mem_test heap;
        cairn_mem_test_init(&heap, n);
        cairn_script *script = NULL;
        cairn_status status = cairn_script_new(&heap.mem, good, strlen(good), &script, NULL);
        assert_true(status == CAIRN_OK || status == CAIRN_NOMEM);
        cairn_script_free(script);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
        if (heap.fails == 0)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_counted_and_comments_are_not),
        cmocka_unit_test(mistakes_are_told_with_the_line_and_the_field),
        cmocka_unit_test(too_many_lines_are_refused),
        cmocka_unit_test(without_memory_there_is_none_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
