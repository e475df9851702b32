/*
 * The memory of answers: what is found, what never is, and that its bytes stay under the limit.
 */
#include "test_support.h"

#include "serve/answers.h"

static const cairn_namespace spaces[2] = {{.bytes = {1}}, {.bytes = {2}}};
static cairn_answers *answers;

static void open_with(uint64_t bytes_max)
{
    assert_ok(cairn_answers_new(cairn_mem_default(), bytes_max, &answers));
}

static cairn_hash128 talk(const char *user)
{
    cairn_hash128 conversation = {0, 0};
    json_t *message = json_pack("{s:s, s:s}", "role", "user", "content", user);
    assert_ok(cairn_answers_follow(cairn_mem_default(), &conversation, message));
    json_decref(message);
    return conversation;
}

static void keep(const cairn_namespace *space, const char *user, const char *message, uint32_t tokens,
                 cairn_token first)
{
    cairn_token *list = calloc(tokens, sizeof *list);
    assert_non_null(list);
    list[0] = first;
    cairn_answer_kept kept = {
        .origin = {.text = cairn_hash_bytes(user, strlen(user)), .text_bytes = strlen(user)},
        .message = message,
        .message_bytes = strlen(message),
        .tokens = list,
        .count_tokens = tokens};
    cairn_answers_keep(answers, space, talk(user), &kept);
    free(list);
}

/* The first token of what is found; 0: nothing. */
static cairn_token find(const cairn_namespace *space, const char *user, const char *message)
{
    json_t *value = json_loads(message, 0, NULL);
    assert_non_null(value);
    cairn_hash128 conversation = talk(user);
    assert_ok(cairn_answers_follow(cairn_mem_default(), &conversation, value));
    const cairn_answer_kept *kept = cairn_answers_find(answers, space, conversation, value);
    cairn_token first = kept != NULL ? kept->tokens[0] : 0;
    cairn_answers_unref(answers, kept);
    json_decref(value);
    return first;
}

#define TEXT "{\"role\":\"assistant\",\"content\":\"Hello.\"}"
#define CALL(id)                                                             \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"" id \
    "\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}]}"
#define CALL_OTHERWISE(id, value)                                            \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"" id \
    "\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":" value "}\"}}]}"

static void an_answer_is_found_by_its_conversation(void **state)
{
    (void)state;
    open_with(1 << 20);
    keep(&spaces[0], "hi", TEXT, 3, 7);
    assert_int_equal(find(&spaces[0], "hi", TEXT), 7);
    assert_int_equal(find(&spaces[0], "hi", "{\"role\":\"assistant\",\"content\":\"Hello.\\n\"}"), 7);
    assert_int_equal(find(&spaces[0], "ho", TEXT), 0);
    assert_int_equal(find(&spaces[0], "hi", "{\"role\":\"assistant\",\"content\":\"Hello!\"}"), 0);
    cairn_answers_free(answers);
}

static void a_call_is_found_by_its_id_and_only_if_it_says_the_same(void **state)
{
    (void)state;
    open_with(1 << 20);
    keep(&spaces[0], "hi", CALL("one"), 3, 7);
    assert_int_equal(find(&spaces[0], "hi", CALL_OTHERWISE("one", "1")), 7);
    assert_int_equal(find(&spaces[0], "another conversation", CALL_OTHERWISE("one", "1")), 7);
    assert_int_equal(find(&spaces[0], "hi", CALL_OTHERWISE("two", "1")), 7); /* by its conversation */
    assert_int_equal(find(&spaces[0], "another conversation", CALL_OTHERWISE("two", "1")), 0);
    assert_int_equal(find(&spaces[0], "hi", CALL_OTHERWISE("one", "2")), 0);
    cairn_answers_free(answers);
}

static void namespaces_are_walls(void **state)
{
    (void)state;
    open_with(1 << 20);
    keep(&spaces[0], "hi", CALL("one"), 3, 7);
    assert_int_equal(find(&spaces[1], "hi", CALL("one")), 0);
    keep(&spaces[1], "hi", CALL("one"), 3, 8);
    assert_int_equal(find(&spaces[0], "hi", CALL("one")), 7);
    assert_int_equal(find(&spaces[1], "hi", CALL("one")), 8);
    cairn_answers_free(answers);
}

static void the_same_answer_again_replaces_the_first(void **state)
{
    (void)state;
    open_with(1 << 20);
    keep(&spaces[0], "hi", TEXT, 3, 7);
    keep(&spaces[0], "hi", TEXT, 4, 9);
    cairn_answers_stats stats;
    cairn_answers_stats_get(answers, &stats);
    assert_int_equal(stats.kept, 1);
    assert_int_equal(find(&spaces[0], "hi", TEXT), 9);
    cairn_answers_free(answers);
}

static void the_least_recently_used_goes_first_and_bytes_stay_under_the_limit(void **state)
{
    (void)state;
    enum { LIMIT = 40000 };
    open_with(LIMIT);
    char user[32];
    cairn_answers_stats stats;
    keep(&spaces[0], "used", TEXT, 100, 5);
    for (int i = 0; i < 400; i++) {
        snprintf(user, sizeof user, "user %d", i);
        keep(&spaces[i % 2], user, TEXT, 100 + (uint32_t)(i * 37 % 500), 7);
        json_t *value = json_loads(TEXT, 0, NULL);
        cairn_hash128 conversation = talk("used");
        assert_ok(cairn_answers_follow(cairn_mem_default(), &conversation, value));
        const cairn_answer_kept *kept = cairn_answers_find(answers, &spaces[0], conversation, value);
        assert_non_null(kept);
        cairn_answers_touch(answers, kept);
        cairn_answers_unref(answers, kept);
        json_decref(value);
        cairn_answers_stats_get(answers, &stats);
        assert_true(stats.bytes <= LIMIT);
    }
    assert_true(stats.evicted > 300);
    assert_int_equal(find(&spaces[0], "used", TEXT), 5);
    assert_int_equal(find(&spaces[0], "user 0", TEXT), 0);
    assert_int_equal(find(&spaces[1], "user 399", TEXT), 7);
    cairn_answers_free(answers);
}

static void what_is_larger_than_the_limit_is_not_kept(void **state)
{
    (void)state;
    open_with(8000);
    keep(&spaces[0], "hi", TEXT, 5000, 7);
    assert_int_equal(find(&spaces[0], "hi", TEXT), 0);
    keep(&spaces[0], "hi", "not JSON", 5, 7);
    cairn_answers_stats stats;
    cairn_answers_stats_get(answers, &stats);
    assert_int_equal(stats.kept, 0);
    cairn_answers_free(answers);
    open_with(0);
    keep(&spaces[0], "hi", TEXT, 5, 7);
    assert_int_equal(find(&spaces[0], "hi", TEXT), 0);
    cairn_answers_free(answers);
}

static void an_answer_in_use_outlives_its_eviction_and_still_counts(void **state)
{
    (void)state;
    open_with(9000);
    keep(&spaces[0], "hi", TEXT, 1000, 7);
    json_t *value = json_loads(TEXT, 0, NULL);
    cairn_hash128 conversation = talk("hi");
    assert_ok(cairn_answers_follow(cairn_mem_default(), &conversation, value));
    const cairn_answer_kept *kept = cairn_answers_find(answers, &spaces[0], conversation, value);
    assert_non_null(kept);
    keep(&spaces[0], "ho", TEXT, 1500, 8); /* no room beside the one that is held */
    cairn_answers_stats stats;
    cairn_answers_stats_get(answers, &stats);
    assert_int_equal(stats.kept, 0);
    assert_true(stats.bytes <= 9000 && stats.bytes > 4000);
    assert_int_equal(kept->tokens[0], 7);
    cairn_answers_touch(answers, kept); /* it is gone: nothing to move */
    cairn_answers_unref(answers, kept);
    keep(&spaces[0], "ho", TEXT, 1500, 8);
    assert_int_equal(find(&spaces[0], "ho", TEXT), 8);
    json_decref(value);
    cairn_answers_free(answers);
}

static void a_namespace_is_forgotten_and_others_are_not(void **state)
{
    (void)state;
    open_with(1 << 20);
    cairn_answers_stats before, stats;
    cairn_answers_stats_get(answers, &before);
    keep(&spaces[0], "a", TEXT, 3, 5);
    keep(&spaces[0], "b", CALL("x"), 3, 6);
    keep(&spaces[1], "a", TEXT, 3, 7);
    cairn_answers_forget(answers, &spaces[0]);
    assert_int_equal(find(&spaces[0], "a", TEXT), 0);
    assert_int_equal(find(&spaces[0], "b", CALL("x")), 0);
    assert_int_equal(find(&spaces[1], "a", TEXT), 7);
    cairn_answers_stats_get(answers, &stats);
    assert_int_equal(stats.kept, 1);
    cairn_answers_forget(answers, NULL);
    assert_int_equal(find(&spaces[1], "a", TEXT), 0);
    cairn_answers_stats_get(answers, &stats);
    assert_int_equal(stats.kept, 0);
    assert_int_equal(stats.bytes, before.bytes);
    cairn_answers_free(answers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_found_by_its_conversation),
        cmocka_unit_test(a_call_is_found_by_its_id_and_only_if_it_says_the_same),
        cmocka_unit_test(namespaces_are_walls),
        cmocka_unit_test(the_same_answer_again_replaces_the_first),
        cmocka_unit_test(the_least_recently_used_goes_first_and_bytes_stay_under_the_limit),
        cmocka_unit_test(what_is_larger_than_the_limit_is_not_kept),
        cmocka_unit_test(a_namespace_is_forgotten_and_others_are_not),
        cmocka_unit_test(an_answer_in_use_outlives_its_eviction_and_still_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
