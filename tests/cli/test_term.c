/*
 * Tables for people.
 */
#include "test_support.h"

#include "cli/term.h"

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    (void)state;
    static cairn_term_table table;
    char text[256] = "";
    cairn_term_head(&table, (const char *const[]){"name", ">tokens", "verdict"}, 3);
    cairn_term_row(&table);
    cairn_term_cell(&table, 0, "edit at %d", 12);
    cairn_term_cell(&table, 1, "%d", 7);
    cairn_term_cell(&table, 2, "%s", "equal");
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    cairn_term_print(&table, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "name        tokens  verdict\n"
                              "edit at 12       7  equal\n");
}

static void rows_beyond_the_last_do_not_harm(void **state)
{
    (void)state;
    static cairn_term_table table;
    for (int i = 0; i < CAIRN_TERM_ROWS_MAX + 5; i++) {
        cairn_term_row(&table);
        cairn_term_cell(&table, 0, "%d", i);
    }
    assert_int_equal(table.rows, CAIRN_TERM_ROWS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(rows_beyond_the_last_do_not_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
