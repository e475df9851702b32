/*
 * Marks inside a message become boundaries where the marked text ends.
 */
#include "test_support.h"

#include "serve/marks.h"

static const char text[] =
    "<sys>First part, long enough.Second part, long as well.<user>First part, long enough.<go>";

static const cairn_chat_boundary found[] = {
    {.offset_bytes = 55, .message = 1, .kinds = CAIRN_BOUNDARY_MESSAGE_START, .role = CAIRN_ROLE_USER},
    {.offset_bytes = 85, .message = 2, .kinds = CAIRN_BOUNDARY_OPENER, .role = CAIRN_ROLE_ASSISTANT},
};

static const cairn_chat_prompt prompt = {
    .text = text, .text_bytes = sizeof text - 1, .boundaries = found, .count_boundaries = 2};

static size_t run(const char *messages_text, cairn_chat_boundary *out)
{
    json_t *messages = json_loads(messages_text, 0, NULL);
    assert_non_null(messages);
    cairn_chat_boundary *list = NULL;
    size_t count = 0, room = 0;
    assert_ok(cairn_marks_add(cairn_mem_default(), messages, &prompt, &list, &count, &room));
    assert_true(count <= 8 && count <= room);
    memcpy(out, list, count * sizeof *list);
    cairn_mem_array_release(cairn_mem_default(), list, room, sizeof *list);
    json_decref(messages);
    return count;
}

static void a_mark_stands_where_its_text_ends(void **state)
{
    (void)state;
    cairn_chat_boundary out[8];
    size_t count = run("[{\"content\":[{\"text\":\"First part, long enough.\\n\",\"cache_control\":{}},"
                       "{\"text\":\"Second part, long as well.\"}]}]",
                       out);
    assert_int_equal(count, 3);
    assert_int_equal(out[0].offset_bytes, 29);
    assert_int_equal(out[0].kinds, CAIRN_BOUNDARY_MARK);
    assert_int_equal(out[1].offset_bytes, 55);
    assert_int_equal(out[2].offset_bytes, 85);
}

static void a_mark_is_searched_in_its_own_message(void **state)
{
    (void)state;
    cairn_chat_boundary out[8];
    size_t count =
        run("[{\"content\":\"x\"},{\"content\":[{\"text\":\"First part, long enough.\",\"cache_control\":{}},"
            "{\"text\":\"tail\"}]}]",
            out);
    assert_int_equal(count, 2); /* it ends where the opener begins: one boundary with both kinds */
    assert_int_equal(out[1].offset_bytes, 85);
    assert_int_equal(out[1].kinds, CAIRN_BOUNDARY_OPENER | CAIRN_BOUNDARY_MARK);
}

static void what_is_not_found_or_too_short_gives_no_boundary(void **state)
{
    (void)state;
    cairn_chat_boundary out[8];
    static const char *const lists[] = {
        "[{\"content\":[{\"text\":\"Elsewhere, long enough.\",\"cache_control\":{}},{\"text\":\"t\"}]}]",
        "[{\"content\":[{\"text\":\"part\",\"cache_control\":{}},{\"text\":\"t\"}]}]",
        "[{\"content\":[{\"text\":\"First part, long enough.\",\"cache_control\":null},{\"text\":\"t\"}]}]",
        "[{\"content\":[{\"text\":7,\"cache_control\":{}},{\"text\":\"t\"}]}]",
        "[{\"content\":[{\"text\":\"Second part, long as well.\",\"cache_control\":{}}]}]", /* the bridge's */
        "[{\"content\":[null,1]},null,7]",
        "{}",
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        assert_int_equal(run(lists[i], out), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_stands_where_its_text_ends),
        cmocka_unit_test(a_mark_is_searched_in_its_own_message),
        cmocka_unit_test(what_is_not_found_or_too_short_gives_no_boundary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
