/*
 * What two texts at a divergence suggest; who may see whose record; which path leads to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "serve/excerpt.h"
#include "serve/history.h"
#include "serve/routes.h"

static void hint_is(const char *before, const char *known, const char *given, uint8_t role,
                    const char *expected)
{
    const char *hint = cairn_excerpt_hint(before, known, given, role);
    if (expected == NULL) {
        assert_null(hint);
    } else {
        assert_non_null(hint);
        assert_non_null(strstr(hint, expected));
    }
}

static void habits_of_clients_are_recognised(void **state)
{
    (void)state;
    hint_is("The current date is ", "Monday 12", "2 Feb", CAIRN_ROLE_SYSTEM, "date or time");
    hint_is("Session id: ", "4711 and", "4812 and", CAIRN_ROLE_SYSTEM, "number that changes");
    hint_is("<tools>\n{\"name\":", "\"a\"", "\"b\"", CAIRN_ROLE_SYSTEM, "list of tools");
    hint_is("...", "some words  here", "some words here", CAIRN_ROLE_USER, "blanks");
    hint_is("...", "<think>\nbecause", "The answer", CAIRN_ROLE_ASSISTANT, "Reasoning");
    hint_is("...", "{\"a\": 1}", "{\"a\":1}", CAIRN_ROLE_ASSISTANT, "written anew");
    hint_is("...", "long result", "[cleared]", CAIRN_ROLE_TOOL, "tool result");
}

static void edits_of_people_and_other_conversations_get_no_hint(void **state)
{
    (void)state;
    hint_is("...", "And what is next?", "And who is next?", CAIRN_ROLE_USER, NULL);
    hint_is("<|im_start|>", "user", "system", CAIRN_ROLE_NONE, NULL);
    hint_is("...", "An answer", "Another one", CAIRN_ROLE_ASSISTANT, NULL);
}

static void an_excerpt_is_in_the_record_only_when_it_is_there(void **state)
{
    (void)state;
    cairn_record record = {.divergence_role = CAIRN_ROLE_USER};
    cairn_excerpt excerpt = {.position = 7};
    json_t *none = cairn_excerpt_json(&excerpt, &record);
    assert_int_equal(json_object_size(none), 0);
    json_decref(none);
    excerpt.there = true;
    memcpy(excerpt.known, "ab\xc3", 4); /* a character that was cut */
    json_t *some = cairn_record_noted_json(&record, NULL, &excerpt);
    const json_t *texts = json_object_get(some, "excerpt");
    assert_int_equal(json_integer_value(json_object_get(texts, "position")), 7);
    assert_string_equal(json_string_value(json_object_get(texts, "known")), "ab\xef\xbf\xbd");
    json_decref(some);
}

static void a_record_says_how_much_memory_would_have_helped(void **state)
{
    (void)state;
    cairn_record record = {
        .reason = CAIRN_REASON_EVICTED, .reason_position = 9700, .reason_bytes = 96u << 20};
    json_t *value = cairn_record_json(&record);
    assert_string_equal(json_string_value(json_object_get(json_object_get(value, "reason"), "help")),
                        "With 96 MiB more memory (--cache-ram) 9700 tokens would have been reused.");
    json_decref(value);
    record.reason_bytes = 0;
    value = cairn_record_json(&record);
    assert_null(json_object_get(json_object_get(value, "reason"), "help"));
    json_decref(value);
}

static void an_owner_sees_own_records_only(void **state)
{
    (void)state;
    static cairn_history history;
    cairn_history_init(&history);
    for (uint64_t id = 1; id <= CAIRN_HISTORY_MAX + 10; id++) {
        cairn_history_entry entry = {.id = id, .owner = {.bytes = {(uint8_t)(id % 2)}}};
        cairn_history_add(&history, &entry);
    }
    cairn_namespace odd = {.bytes = {1}};
    uint64_t since = 0;
    json_t *all = cairn_history_json(&history, NULL, NULL), *own = cairn_history_json(&history, &odd, &since);
    assert_int_equal(json_array_size(json_object_get(all, "requests")), CAIRN_HISTORY_MAX);
    assert_int_equal(json_array_size(json_object_get(own, "requests")), CAIRN_HISTORY_MAX / 2);
    json_decref(all);
    json_decref(own);
    cairn_history_entry news = {.id = 1001, .owner = odd};
    cairn_history_add(&history, &news);
    own = cairn_history_json(&history, &odd, &since);
    assert_int_equal(json_array_size(json_object_get(own, "requests")), 1);
    json_decref(own);
    static cairn_history_entry entry;
    assert_false(cairn_history_get(&history, NULL, 1, &entry)); /* too old */
    assert_false(cairn_history_get(&history, &odd, 100, &entry));
    assert_true(cairn_history_get(&history, &odd, 101, &entry));
    json_t *found = cairn_history_entry_json(&entry);
    assert_int_equal(json_integer_value(json_object_get(found, "id")), 101);
    json_decref(found);
    cairn_history_release(&history);
}

static void one_record_has_a_path_of_its_own(void **state)
{
    (void)state;
    const char *const good[] = {"/cairn/requests/1", "/cairn/requests/x"};
    for (size_t i = 0; i < 2; i++) {
        cairn_api_error error = {0};
        const cairn_route *route = cairn_routes_find("GET", good[i], &error);
        assert_non_null(route);
        assert_ptr_equal(route->fn, cairn_route_one_request);
        assert_false(route->open);
    }
    const char *const bad[] = {"/cairn/requests/1/2", "/cairn/requestsx", "/x"};
    for (size_t i = 0; i < 3; i++) {
        cairn_api_error error = {0};
        assert_null(cairn_routes_find("GET", bad[i], &error));
        assert_int_equal(error.http, 404);
    }
    cairn_api_error error = {0};
    assert_ptr_equal(cairn_routes_find("GET", "/cairn/requests/", &error)->fn, cairn_route_requests);
    assert_ptr_equal(cairn_routes_find("GET", "/", &error)->fn, cairn_route_page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(habits_of_clients_are_recognised),
        cmocka_unit_test(edits_of_people_and_other_conversations_get_no_hint),
        cmocka_unit_test(an_excerpt_is_in_the_record_only_when_it_is_there),
        cmocka_unit_test(a_record_says_how_much_memory_would_have_helped),
        cmocka_unit_test(an_owner_sees_own_records_only),
        cmocka_unit_test(one_record_has_a_path_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
