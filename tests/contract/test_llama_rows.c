/*
 * What the engine relies on when it moves rows, one test a sentence, on the tiny qwen35 model.
 *
 * Relies llama.h@v0.4.0, unified K/V cache. See src/engine/llama_rows.h for how these are put together.
 */
#include "contract/contract_support.h"
#include "engine/llama_load.h"
#include "test_support.h"

enum {
    PATH = 300,
    AT = 150,
    CUT = 128,
    FORK = 100,
    PARTIAL = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY,
    LIVE = 0,
    SCRATCH = 1
};

static struct llama_model *model;
static llama_token path[PATH], other[PATH];

static int set_up(void **state)
{
    (void)state;
    model = contract_model();
    contract_tokens(model, 1, path, PATH);
    contract_tokens(model, 2, other, PATH);
    memcpy(other, path, FORK * sizeof *path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    llama_model_free(model);
    return 0;
}

static float *cold_answer(const llama_token *tokens, uint32_t at, uint32_t end)
{
    struct llama_context *context = contract_context(model, 1, true);
    contract_read_cut(context, LIVE, tokens, 0, at, CUT);
    float *kept = contract_keep(context, contract_read_cut(context, LIVE, tokens, at, end, CUT));
    llama_free(context);
    return kept;
}

/* Rows [begin, end) of the live sequence, with or without the recurrent part behind them. */
static contract_state rows_out(struct llama_context *context, contract_state hollow, uint32_t begin,
                               uint32_t end, bool with_cell)
{
    llama_memory_t memory = llama_get_memory(context);
    llama_memory_seq_cp(memory, LIVE, SCRATCH, (llama_pos)begin, (llama_pos)end);
    if (!with_cell)
        contract_set(context, SCRATCH, hollow, PARTIAL);
    contract_state rows = contract_take(context, SCRATCH, 0);
    assert_true(llama_memory_seq_rm(memory, SCRATCH, -1, -1));
    return rows;
}

static void rows_in(struct llama_context *context, contract_state rows, uint32_t begin, uint32_t end)
{
    llama_memory_t memory = llama_get_memory(context);
    contract_set(context, SCRATCH, rows, 0);
    llama_memory_seq_cp(memory, SCRATCH, LIVE, (llama_pos)begin, (llama_pos)end);
    assert_true(llama_memory_seq_rm(memory, SCRATCH, -1, -1));
}

static void rows_of_a_range_joined_again_are_equal(void **unused)
{
    (void)unused;
    static const uint32_t joins[] = {1, 2, 63, 64, 100, 148, 149};
    float *right = cold_answer(path, AT, PATH);
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        struct llama_context *context = contract_context(model, 2, true);
        contract_state hollow = contract_take(context, LIVE, PARTIAL);
        contract_read_cut(context, LIVE, path, 0, AT, CUT);
        contract_state state = contract_take(context, LIVE, PARTIAL);
        contract_state a = rows_out(context, hollow, 0, joins[i], false);
        contract_state b = rows_out(context, hollow, joins[i], AT, false);
        llama_memory_clear(llama_get_memory(context), true);
        rows_in(context, a, 0, joins[i]);
        rows_in(context, b, joins[i], AT);
        contract_set(context, LIVE, state, PARTIAL);
        assert_true(contract_same(context, right, contract_read_cut(context, LIVE, path, AT, PATH, CUT)));
        free(hollow.bytes);
        free(state.bytes);
        free(a.bytes);
        free(b.bytes);
        llama_free(context);
    }
    free(right);
}

/* Without the way through scratch, also where only a part of the block is wanted. */
static void rows_from_0_on_go_right_into_an_empty_sequence(void **unused)
{
    (void)unused;
    static const uint32_t ends[] = {AT, AT + 1, PATH};
    float *right = cold_answer(path, AT, PATH);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct llama_context *context = contract_context(model, 2, true);
        llama_memory_t memory = llama_get_memory(context);
        contract_state hollow = contract_take(context, LIVE, PARTIAL);
        contract_read_cut(context, LIVE, path, 0, AT, CUT);
        contract_state state = contract_take(context, LIVE, PARTIAL);
        contract_read_cut(context, LIVE, path, AT, PATH, CUT);
        contract_state rows = rows_out(context, hollow, 0, ends[i], false);
        llama_memory_clear(memory, false);
        contract_set(context, LIVE, rows, 0);
        assert_true(llama_memory_seq_rm(memory, LIVE, AT, -1));
        contract_set(context, LIVE, state, PARTIAL);
        assert_true(contract_same(context, right, contract_read_cut(context, LIVE, path, AT, PATH, CUT)));
        free(hollow.bytes);
        free(state.bytes);
        free(rows.bytes);
        llama_free(context);
    }
    free(right);
}

/* Rows of another path under the right state: the control of the tests above. */
static void wrong_rows_change_the_answer(void **unused)
{
    (void)unused;
    float *right = cold_answer(path, AT, PATH);
    struct llama_context *context = contract_context(model, 2, true);
    contract_state hollow = contract_take(context, LIVE, PARTIAL);
    contract_read_cut(context, LIVE, path, 0, AT, CUT);
    contract_state state = contract_take(context, LIVE, PARTIAL);
    llama_memory_clear(llama_get_memory(context), true);
    contract_read_cut(context, LIVE, other, 0, AT, CUT);
    contract_state wrong = rows_out(context, hollow, 0, AT, false);
    llama_memory_clear(llama_get_memory(context), true);
    rows_in(context, wrong, 0, AT);
    contract_set(context, LIVE, state, PARTIAL);
    const float *now = contract_read_cut(context, LIVE, path, AT, PATH, CUT);
    contract_control("50 wrong rows of 150", contract_distance(context, right, now), 0);
    free(hollow.bytes);
    free(state.bytes);
    free(wrong.bytes);
    free(right);
    llama_free(context);
}

static void the_recurrent_part_behind_rows_has_the_partial_size(void **unused)
{
    (void)unused;
    struct llama_context *context = contract_context(model, 2, true);
    contract_state hollow = contract_take(context, LIVE, PARTIAL);
    contract_read_cut(context, LIVE, path, 0, AT, CUT);
    size_t partial = llama_state_seq_get_size_ext(context, LIVE, PARTIAL);
    contract_state with = rows_out(context, hollow, 10, 50, true),
                   without = rows_out(context, hollow, 10, 50, false);
    assert_int_equal(with.size - partial, without.size - hollow.size);
    assert_memory_equal(with.bytes, without.bytes, without.size - hollow.size);
    free(with.bytes);
    free(without.bytes);
    free(hollow.bytes);
    llama_free(context);
}

static void sizes_of_rows_are_linear(void **unused)
{
    (void)unused;
    struct llama_context *context = contract_context(model, 2, true);
    contract_state hollow = contract_take(context, LIVE, PARTIAL);
    contract_read_cut(context, LIVE, path, 0, AT, CUT);
    contract_state one = rows_out(context, hollow, 0, 1, false), two = rows_out(context, hollow, 5, 7, false);
    contract_state many = rows_out(context, hollow, 3, 146, false);
    size_t row = two.size - one.size;
    assert_int_equal(many.size, one.size + 142 * row);
    free(one.bytes);
    free(two.bytes);
    free(many.bytes);
    free(hollow.bytes);
    llama_free(context);
}

static void taking_rows_out_leaves_the_live_sequence_alone(void **unused)
{
    (void)unused;
    float *right = cold_answer(path, AT, PATH);
    struct llama_context *context = contract_context(model, 2, true);
    contract_state hollow = contract_take(context, LIVE, PARTIAL);
    contract_read_cut(context, LIVE, path, 0, AT, CUT);
    for (uint32_t i = 0; i < 5; i++) {
        contract_state rows = rows_out(context, hollow, i * 10, AT - i, i % 2 == 0);
        free(rows.bytes);
    }
    assert_true(contract_same(context, right, contract_read_cut(context, LIVE, path, AT, PATH, CUT)));
    free(hollow.bytes);
    free(right);
    llama_free(context);
}

/* What one context per slot is for: docs/decisions/0002-one-context-per-slot.md */
static void a_branch_in_the_same_cache_is_equal_once_the_old_one_is_removed(void **unused)
{
    (void)unused;
    float *right = cold_answer(other, FORK, PATH);
    struct llama_context *context = contract_context(model, 2, true);
    llama_memory_t memory = llama_get_memory(context);
    contract_read_cut(context, LIVE, path, 0, FORK, CUT);
    contract_state state = contract_take(context, LIVE, PARTIAL);
    contract_read_cut(context, LIVE, path, FORK, PATH, CUT);
    /* the branch beside the old one: right, but its cells come after the old one's */
    llama_memory_seq_cp(memory, LIVE, SCRATCH, 0, FORK);
    contract_set(context, SCRATCH, state, PARTIAL);
    const float *beside = contract_read_cut(context, SCRATCH, other, FORK, PATH, CUT);
    float noise = contract_distance(context, right, beside);
    printf("a branch beside the old one: logits differ by %g\n", (double)noise);
    assert_true(noise < 1.0f);
    assert_true(llama_memory_seq_rm(memory, SCRATCH, -1, -1));
    /* the branch in its place */
    llama_memory_seq_cp(memory, LIVE, SCRATCH, 0, FORK);
    assert_true(llama_memory_seq_rm(memory, LIVE, -1, -1));
    contract_set(context, SCRATCH, state, PARTIAL);
    assert_true(contract_same(context, right, contract_read_cut(context, SCRATCH, other, FORK, PATH, CUT)));
    free(state.bytes);
    free(right);
    llama_free(context);
}

static void bytes_that_end_too_early_are_refused(void **unused)
{
    (void)unused;
    struct llama_context *context = contract_context(model, 2, true);
    contract_state hollow = contract_take(context, LIVE, PARTIAL);
    contract_read_cut(context, LIVE, path, 0, AT, CUT);
    contract_state rows = rows_out(context, hollow, 0, AT, false),
                   state = contract_take(context, LIVE, PARTIAL);
    cairn_llama_log_set(NULL, NULL);
    assert_int_equal(llama_state_seq_set_data_ext(context, rows.bytes, rows.size / 2, SCRATCH, 0), 0);
    assert_int_equal(llama_state_seq_set_data_ext(context, state.bytes, state.size / 2, LIVE, PARTIAL), 0);
    assert_int_equal(llama_state_seq_set_data_ext(context, state.bytes, 3, LIVE, PARTIAL), 0);
    free(rows.bytes);
    free(state.bytes);
    free(hollow.bytes);
    llama_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_range_joined_again_are_equal),
        cmocka_unit_test(rows_from_0_on_go_right_into_an_empty_sequence),
        cmocka_unit_test(wrong_rows_change_the_answer),
        cmocka_unit_test(the_recurrent_part_behind_rows_has_the_partial_size),
        cmocka_unit_test(sizes_of_rows_are_linear),
        cmocka_unit_test(taking_rows_out_leaves_the_live_sequence_alone),
        cmocka_unit_test(a_branch_in_the_same_cache_is_equal_once_the_old_one_is_removed),
        cmocka_unit_test(bytes_that_end_too_early_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
