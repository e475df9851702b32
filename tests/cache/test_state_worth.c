/* Which states are worth their bytes on disk and in a shared store. */
#include "cache/state_worth.h"
#include "cairn/cairn.h"
#include "test_support.h"

static void what_anchors_a_conversation_is_worth_it_whatever_it_saves(void **state)
{
    (void)state;
    const uint16_t anchors[] = {CAIRN_BOUNDARY_SYSTEM_END, CAIRN_BOUNDARY_LAST_USER, CAIRN_BOUNDARY_OPENER,
                                CAIRN_BOUNDARY_MARK, CAIRN_BOUNDARY_BRANCH};
    for (size_t i = 0; i < sizeof anchors / sizeof anchors[0]; i++) {
        for (int last = 0; last < 2; last++) {
            assert_true(cairn_state_anchors(anchors[i], last));
            assert_true(cairn_state_anchors(anchors[i] | CAIRN_BOUNDARY_MESSAGE_START, last));
            assert_true(cairn_state_worth(anchors[i], 0, last));
        }
    }
    assert_false(cairn_state_anchors(0, true) || cairn_state_anchors(CAIRN_BOUNDARY_MESSAGE_START, true));
}

static void end_of_an_answer_anchors_only_where_nothing_is_known_to_follow(void **state)
{
    (void)state;
    assert_true(cairn_state_anchors(CAIRN_BOUNDARY_ANSWER_END, true));
    assert_false(cairn_state_anchors(CAIRN_BOUNDARY_ANSWER_END, false));
    assert_true(cairn_state_worth(CAIRN_BOUNDARY_ANSWER_END, 0, true));
    assert_false(cairn_state_worth(CAIRN_BOUNDARY_ANSWER_END, 99.9, false));
}

static void other_state_is_worth_it_from_a_tenth_of_a_second_on(void **state)
{
    (void)state;
    const uint16_t kinds[] = {0, CAIRN_BOUNDARY_MESSAGE_START, CAIRN_BOUNDARY_ANSWER_END};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_false(cairn_state_worth(kinds[i], 99.9, false));
        assert_true(cairn_state_worth(kinds[i], 100.0, false));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_anchors_a_conversation_is_worth_it_whatever_it_saves),
        cmocka_unit_test(end_of_an_answer_anchors_only_where_nothing_is_known_to_follow),
        cmocka_unit_test(other_state_is_worth_it_from_a_tenth_of_a_second_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
