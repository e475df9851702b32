/*
 * Responses are found by id in their namespace, until newer ones take their room.
 */
#include "test_support.h"

#include "base/mem_test.h"
#include "serve/replies.h"

static const cairn_namespace one = {{1}}, two = {{2}};

static void put(cairn_replies *replies, const cairn_namespace *space, const char *id, const char *text,
                size_t len)
{
    const cairn_reply reply = {.conversation = text, .conversation_bytes = len};
    cairn_replies_put(replies, space, id, &reply);
}

static bool holds(cairn_replies *replies, const cairn_namespace *space, const char *id, const char *expected)
{
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 4096);
    cairn_status status = cairn_replies_get(replies, space, id, CAIRN_REPLY_CONVERSATION, &out);
    bool same = status == CAIRN_OK && strcmp(cairn_buf_str(&out), expected) == 0;
    assert_true(same || status == CAIRN_NOTFOUND);
    cairn_buf_release(&out);
    return same;
}

static void a_reply_is_found_in_its_namespace_only(void **state)
{
    (void)state;
    cairn_replies *replies = NULL;
    assert_ok(cairn_replies_new(cairn_mem_default(), 4, 4096, &replies));
    put(replies, &one, "resp_1", "first", 5);
    assert_true(holds(replies, &one, "resp_1", "first"));
    assert_true(holds(replies, &one, "resp_1", "first")); /* using is not consuming */
    assert_false(holds(replies, &two, "resp_1", "first"));
    assert_false(holds(replies, &one, "resp_2", "first"));
    cairn_replies_free(replies);
}

static void the_oldest_goes_when_the_count_or_the_bytes_are_reached(void **state)
{
    (void)state;
    cairn_replies *replies = NULL;
    char text[64] = {0}, id[16];
    memset(text, 'x', sizeof text - 1);
    assert_ok(cairn_replies_new(cairn_mem_default(), 3, 400, &replies));
    for (int i = 0; i < 5; i++) {
        (void)snprintf(id, sizeof id, "r%d", i);
        put(replies, &one, id, text, sizeof text - 1);
    }
    assert_false(holds(replies, &one, "r1", text));
    assert_true(holds(replies, &one, "r2", text) && holds(replies, &one, "r4", text));
    char wide[100];
    memset(wide, 'y', sizeof wide);
    for (int i = 0; i < 4; i++)
        put(replies, &two, "w", wide, sizeof wide);
    assert_false(holds(replies, &one, "r4", text));
    cairn_replies_stats stats;
    cairn_replies_stats_get(replies, &stats);
    assert_int_equal(stats.kept, 3);
    assert_int_equal(stats.bytes, 300);
    assert_int_equal(stats.bytes_max, 400);
    assert_int_equal(stats.evicted, 6);
    put(replies, &one, "big", wide, 101); /* over a quarter: not kept, nothing lost */
    assert_false(holds(replies, &one, "big", "y"));
    cairn_replies_free(replies);
}

static void with_no_memory_none_is_kept(void **state)
{
    (void)state;
    cairn_replies *replies = NULL;
    assert_ok(cairn_replies_new(cairn_mem_default(), 4, 0, &replies));
    put(replies, &one, "resp_1", "first", 5);
    assert_false(holds(replies, &one, "resp_1", "first"));
    cairn_replies_free(replies);
}

static void a_namespace_is_forgotten_and_the_others_stay_in_their_order(void **state)
{
    (void)state;
    cairn_replies *replies = NULL;
    char id[16];
    assert_ok(cairn_replies_new(cairn_mem_default(), 6, 400, &replies));
    for (int i = 0; i < 8; i++) { /* the ring has turned: 2 to 7 are there */
        (void)snprintf(id, sizeof id, "r%d", i);
        put(replies, i % 2 == 0 ? &one : &two, id, id, strlen(id));
    }
    cairn_replies_forget(replies, &one);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(id, sizeof id, "r%d", i);
        assert_false(holds(replies, &one, id, id));
        assert_true(holds(replies, &two, id, id) == (i % 2 == 1 && i > 1));
    }
    for (int i = 8; i < 12; i++) { /* room for three more; the fourth takes the place of the oldest */
        (void)snprintf(id, sizeof id, "r%d", i);
        put(replies, &one, id, id, strlen(id));
    }
    assert_false(holds(replies, &two, "r3", "r3"));
    assert_true(holds(replies, &two, "r5", "r5") && holds(replies, &one, "r11", "r11"));
    cairn_replies_forget(replies, NULL);
    assert_false(holds(replies, &two, "r5", "r5") || holds(replies, &one, "r11", "r11"));
    cairn_replies_free(replies);
}

static void both_texts_are_kept_and_one_reply_can_be_removed(void **state)
{
    (void)state;
    cairn_replies *replies = NULL;
    const cairn_reply reply = {
        .conversation = "[1,2]", .conversation_bytes = 5, .response = "{\"a\":3}", .response_bytes = 7};
    assert_ok(cairn_replies_new(cairn_mem_default(), 4, 4096, &replies));
    cairn_replies_put(replies, &one, "a", &reply);
    put(replies, &one, "b", "last", 4);
    assert_true(holds(replies, &one, "a", "[1,2]"));
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 4096);
    assert_ok(cairn_replies_get(replies, &one, "a", CAIRN_REPLY_RESPONSE, &out));
    assert_string_equal(cairn_buf_str(&out), "{\"a\":3}");
    cairn_buf_release(&out);
    assert_false(cairn_replies_remove(replies, &two, "a")); /* another namespace's */
    assert_true(cairn_replies_remove(replies, &one, "a"));
    assert_false(cairn_replies_remove(replies, &one, "a") || holds(replies, &one, "a", "[1,2]"));
    assert_true(holds(replies, &one, "b", "last"));
    cairn_replies_free(replies);
}

static void no_memory_means_not_kept(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 3); /* the third: the first text */
    cairn_replies *replies = NULL;
    assert_ok(cairn_replies_new(&heap.mem, 4, 4096, &replies));
    put(replies, &one, "resp_1", "first", 5);
    assert_false(holds(replies, &one, "resp_1", "first"));
    put(replies, &one, "resp_2", "second", 6);
    assert_true(holds(replies, &one, "resp_2", "second"));
    cairn_replies_free(replies);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    cairn_mem_test_release(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_is_found_in_its_namespace_only),
        cmocka_unit_test(the_oldest_goes_when_the_count_or_the_bytes_are_reached),
        cmocka_unit_test(with_no_memory_none_is_kept),
        cmocka_unit_test(a_namespace_is_forgotten_and_the_others_stay_in_their_order),
        cmocka_unit_test(both_texts_are_kept_and_one_reply_can_be_removed),
        cmocka_unit_test(no_memory_means_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
