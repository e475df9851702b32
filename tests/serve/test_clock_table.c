/*
 * The template's clock stands still within a conversation.
 */
#include "test_support.h"

#include "serve/clock_table.h"

static const cairn_namespace one = {{1}}, two = {{2}};

static void a_conversation_keeps_its_time(void **state)
{
    (void)state;
    cairn_clock_table *table = NULL;
    assert_ok(cairn_clock_table_new(cairn_mem_default(), 64, &table));
    assert_int_equal(cairn_clock_table_get(table, &one, "hello", 5, 7300), 7200);
    assert_int_equal(cairn_clock_table_get(table, &one, "hello", 5, 99999), 7200);
    assert_int_equal(cairn_clock_table_get(table, &one, "other", 5, 99999), 97200);
    cairn_clock_table_free(table);
}

static void namespaces_have_clocks_of_their_own(void **state)
{
    (void)state;
    cairn_clock_table *table = NULL;
    assert_ok(cairn_clock_table_new(cairn_mem_default(), 64, &table));
    assert_int_equal(cairn_clock_table_get(table, &one, "hello", 5, 3600), 3600);
    assert_int_equal(cairn_clock_table_get(table, &two, "hello", 5, 7200), 7200);
    cairn_clock_table_free(table);
}

static void the_table_is_bounded_and_forgets_the_least_used(void **state)
{
    (void)state;
    cairn_clock_table *table = NULL;
    assert_ok(cairn_clock_table_new(cairn_mem_default(), 8, &table)); /* one set of eight */
    assert_int_equal(cairn_clock_table_get(table, &one, "keep", 4, 3600), 3600);
    for (uint32_t i = 0; i < 1000; i++) {
        (void)cairn_clock_table_get(table, &one, &i, sizeof i, 7200);
        assert_int_equal(cairn_clock_table_get(table, &one, "keep", 4, 36000), 3600);
    }
    for (uint32_t i = 0; i < 8; i++)
        (void)cairn_clock_table_get(table, &two, &i, sizeof i, 7200);
    assert_int_equal(cairn_clock_table_get(table, &one, "keep", 4, 36000), 36000);
    cairn_clock_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_keeps_its_time),
        cmocka_unit_test(namespaces_have_clocks_of_their_own),
        cmocka_unit_test(the_table_is_bounded_and_forgets_the_least_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
