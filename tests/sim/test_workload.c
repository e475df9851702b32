/* The tree that holds traffic: paths come back as they went in, and common prefixes are right. */
#include "sim_support.h"

#include "sim/draft.h"

static void requests_come_back_token_for_token(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("requests_come_back_token_for_token", 11));
    for (int round = 0; round < 20; round++) {
        enum { COUNT = 40, LONGEST = 60 };
        static cairn_token all[COUNT][LONGEST];
        uint32_t lengths[COUNT];
        cairn_workload w;
        cairn_workload_init(&w, cairn_mem_default(), "random");
        for (uint32_t i = 0; i < COUNT; i++) {
            lengths[i] = 1 + (uint32_t)cairn_rng_below(&rng, LONGEST);
            for (uint32_t k = 0; k < lengths[i]; k++) {
                /* Few different tokens, so that paths share beginnings. */
                all[i][k] = (cairn_token)cairn_rng_below(&rng, 2);
            }
            uint32_t answer = (uint32_t)cairn_rng_below(&rng, lengths[i]);
            sim_add(&w, 0, all[i], lengths[i] - answer, answer, NULL);
            assert_ok(cairn_workload_verify(&w, NULL));
        }
        for (uint32_t i = 0; i < COUNT; i++) {
            cairn_token back[LONGEST];
            cairn_workload_tokens(&w, i, back);
            assert_memory_equal(back, all[i], lengths[i] * sizeof back[0]);
            for (uint32_t k = 0; k < COUNT; k++) {
                uint32_t same = 0;
                while (same < lengths[i] && same < lengths[k] && all[i][same] == all[k][same]) {
                    same++;
                }
                assert_int_equal(
                    cairn_workload_common(&w, w.requests[i].node_answer, w.requests[k].node_answer), same);
            }
        }
        cairn_workload_release(&w);
    }
}

static void namespaces_share_nothing(void **state)
{
    (void)state;
    cairn_workload w;
    cairn_workload_init(&w, cairn_mem_default(), "two");
    const cairn_token tokens[4] = {1, 2, 3, 4};
    for (uint32_t space = 0; space < 2; space++) {
        cairn_workload_entry entry = {.space = space, .tokens = tokens, .prompt_tokens = 4};
        assert_ok(cairn_workload_add(&w, &entry, NULL));
    }
    assert_int_equal(cairn_workload_common(&w, w.requests[0].node_prompt, w.requests[1].node_prompt), 0);
    assert_int_equal(w.count_tokens, 8);
    cairn_workload_release(&w);
}

static void bad_entries_are_refused_and_change_nothing(void **state)
{
    (void)state;
    cairn_workload w;
    cairn_workload_init(&w, cairn_mem_default(), "bad");
    const cairn_token tokens[4] = {1, 2, 3, 4};
    const cairn_boundary behind[] = {{.position = 5}};
    const cairn_boundary falling[] = {{.position = 3}, {.position = 2}};
    cairn_workload_entry entry = {.tokens = tokens, .prompt_tokens = 0};
    assert_status(cairn_workload_add(&w, &entry, NULL), CAIRN_INVALID);
    entry.prompt_tokens = 4;
    entry.boundaries = behind;
    entry.count_boundaries = 1;
    assert_status(cairn_workload_add(&w, &entry, NULL), CAIRN_INVALID);
    entry.boundaries = falling;
    entry.count_boundaries = 2;
    assert_status(cairn_workload_add(&w, &entry, NULL), CAIRN_INVALID);
    assert_int_equal(w.count_requests, 0);
    assert_int_equal(w.count_nodes, 0);
    cairn_workload_release(&w);
}

static void equal_texts_give_equal_tokens_wherever_they_stand(void **state)
{
    (void)state;
    cairn_draft draft;
    cairn_draft_init(&draft, cairn_mem_default());
    cairn_draft_str(&draft, "The quick fox, 12345 times.\n\n  Then: end");
    /* The| quick| fox|,| |123|45| times|.|\n\n| | Then|:| end */
    assert_int_equal(draft.count, 14);
    uint32_t first = draft.count;
    cairn_draft_mark(&draft, "<|im_start|>");
    cairn_draft_str(&draft, "The quick fox, 12345 times.\n\n  Then: end");
    assert_memory_equal(draft.tokens, draft.tokens + first + 1, first * sizeof *draft.tokens);
    assert_int_not_equal(draft.tokens[0], draft.tokens[1]);
    cairn_draft_release(&draft);
}

static void a_draft_marks_what_a_prompt_means(void **state)
{
    (void)state;
    cairn_draft draft;
    cairn_draft_init(&draft, cairn_mem_default());
    cairn_draft_message(&draft, CAIRN_ROLE_SYSTEM, 1, 10);
    cairn_draft_system_end(&draft);
    cairn_draft_message(&draft, CAIRN_ROLE_USER, 2, 10);
    cairn_draft_open(&draft, CAIRN_ROLE_ASSISTANT);
    cairn_draft_think_open(&draft);
    cairn_draft_fill(&draft, 3, 5);
    cairn_draft_think_close(&draft);
    cairn_draft_close(&draft);
    uint32_t last_user = draft.count;
    cairn_draft_message(&draft, CAIRN_ROLE_USER, 4, 10);
    uint32_t opener = draft.count;
    cairn_draft_opener(&draft);
    cairn_draft_fill(&draft, 5, 7);
    cairn_workload_entry entry;
    assert_ok(cairn_draft_finish(&draft, &entry, NULL));
    assert_int_equal(entry.answer_tokens, 7);
    assert_int_equal(entry.prompt_tokens, opener + 3);
    assert_int_equal(entry.count_boundaries, 6);
    const cairn_boundary *b = entry.boundaries;
    assert_int_equal(b[0].position, 0);
    assert_int_equal(b[1].kinds, CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_SYSTEM_END);
    assert_int_equal(b[1].role, CAIRN_ROLE_USER);
    assert_int_equal(b[3].kinds, CAIRN_BOUNDARY_THINK_START);
    assert_int_equal(b[4].position, last_user);
    assert_true((b[4].kinds & CAIRN_BOUNDARY_LAST_USER) != 0);
    assert_int_equal(b[5].kinds, CAIRN_BOUNDARY_OPENER);
    assert_int_equal(b[5].message, 4);
    cairn_draft_release(&draft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_back_token_for_token),
        cmocka_unit_test(namespaces_share_nothing),
        cmocka_unit_test(bad_entries_are_refused_and_change_nothing),
        cmocka_unit_test(equal_texts_give_equal_tokens_wherever_they_stand),
        cmocka_unit_test(a_draft_marks_what_a_prompt_means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
