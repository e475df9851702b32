/*
 * What the engine relies on in libllama's states, one test a sentence, on the tiny qwen35 model.
 *
 * Relies llama.h@v0.4.0. When an upgrade breaks one of these, its name says what no longer holds; src/engine then has
 * to change before the upgrade is taken.
 */
#include "contract/contract_support.h"
#include "engine/llama_load.h"
#include "test_support.h"

enum { PATH = 300, AT = 150, CUT = 128, PARTIAL = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY };

static struct llama_model *model;
static llama_token path[PATH], other[PATH];

static int set_up(void **state)
{
    (void)state;
    model = contract_model();
    contract_tokens(model, 1, path, PATH);
    contract_tokens(model, 2, other, PATH);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    llama_model_free(model);
    return 0;
}

/* The cold answer after path[0, end), cut at multiples of CUT and at `at`. The caller frees. */
static float *cold_answer(uint32_t at, uint32_t end)
{
    struct llama_context *context = contract_context(model, 1, true);
    contract_read_cut(context, 0, path, 0, at, CUT);
    float *kept = contract_keep(context, contract_read_cut(context, 0, path, at, end, CUT));
    llama_free(context);
    return kept;
}

/* Cut sequence 0, which is on `path` and longer, to `at`, as the engine does: state first, rows after. */
static void resume(struct llama_context *context, contract_state state, uint32_t at)
{
    contract_set(context, 0, state, PARTIAL);
    assert_true(llama_memory_seq_rm(llama_get_memory(context), 0, (llama_pos)at, -1));
}

/* How far a state of other tokens moves the answer at the same place. */
static float wrong_distance(const float *right, uint32_t at, uint32_t end)
{
    struct llama_context *context = contract_context(model, 1, true);
    contract_read_cut(context, 0, other, 0, at, CUT);
    contract_state wrong = contract_take(context, 0, PARTIAL);
    llama_memory_clear(llama_get_memory(context), true);
    contract_read_cut(context, 0, path, 0, at, CUT);
    contract_set(context, 0, wrong, PARTIAL);
    float distance = contract_distance(context, right, contract_read_cut(context, 0, path, at, end, CUT));
    free(wrong.bytes);
    llama_free(context);
    return distance;
}

static void a_partial_state_is_the_recurrent_state_alone(void **unused)
{
    (void)unused;
    struct llama_context *context = contract_context(model, 1, true);
    contract_read(context, 0, path, 0, 3);
    size_t partial = llama_state_seq_get_size_ext(context, 0, PARTIAL),
           full = llama_state_seq_get_size_ext(context, 0, 0);
    contract_read(context, 0, path, 3, 100);
    /* its size does not depend on the length; the rows are what grows */
    assert_int_equal(llama_state_seq_get_size_ext(context, 0, PARTIAL), partial);
    assert_true(llama_state_seq_get_size_ext(context, 0, 0) > full);
    assert_true(partial < full);
    llama_free(context);
}

static void a_state_set_on_the_live_sequence_and_rows_removed_equals_cold(void **unused)
{
    (void)unused;
    float *right = cold_answer(AT, PATH);
    struct llama_context *context = contract_context(model, 1, true);
    contract_read_cut(context, 0, path, 0, AT, CUT);
    contract_state state = contract_take(context, 0, PARTIAL);
    contract_read_cut(context, 0, other, AT, PATH, CUT); /* another branch first */
    resume(context, state, AT);
    const float *now = contract_read_cut(context, 0, path, AT, PATH, CUT);
    assert_true(contract_same(context, right, now));
    contract_control("in place", wrong_distance(right, AT, PATH), contract_distance(context, right, now));
    free(state.bytes);
    free(right);
    llama_free(context);
}

/* The engine takes the cell off first, by an empty state, then removes rows, then sets the state. */
static void an_empty_partial_state_takes_the_cell_and_leaves_the_rows(void **unused)
{
    (void)unused;
    float *right = cold_answer(AT, PATH);
    struct llama_context *context = contract_context(model, 2, true);
    llama_memory_t memory = llama_get_memory(context);
    contract_state hollow = contract_take(context, 0, PARTIAL);
    contract_read_cut(context, 0, path, 0, AT, CUT);
    contract_state state = contract_take(context, 0, PARTIAL);
    contract_read_cut(context, 0, other, AT, PATH, CUT);
    assert_true(hollow.size < state.size);
    assert_false(llama_memory_seq_rm(memory, 0, AT, -1)); /* with a cell it can't be cut */
    contract_set(context, 0, hollow, PARTIAL);
    assert_true(llama_memory_seq_rm(memory, 0, AT, -1));
    contract_set(context, 0, state, PARTIAL);
    assert_int_equal(llama_memory_seq_pos_max(memory, 0), AT - 1);
    assert_true(contract_same(context, right, contract_read_cut(context, 0, path, AT, PATH, CUT)));
    free(hollow.bytes);
    free(state.bytes);
    free(right);
    llama_free(context);
}

static void another_sequence_number_and_a_split_cache_are_equal(void **unused)
{
    (void)unused;
    float *right = cold_answer(AT, PATH);
    for (int unified = 0; unified < 2; unified++) {
        struct llama_context *context = contract_context(model, 3, unified == 1);
        for (llama_seq_id seq = 0; seq < 3; seq++) {
            llama_memory_clear(llama_get_memory(context), true);
            contract_read_cut(context, seq, path, 0, AT, CUT);
            const float *now = contract_read_cut(context, seq, path, AT, PATH, CUT);
            assert_true(contract_same(context, right, now));
        }
        llama_free(context);
    }
    free(right);
}

static void a_full_state_restored_in_another_context_is_equal(void **unused)
{
    (void)unused;
    float *right = cold_answer(AT, PATH);
    struct llama_context *from = contract_context(model, 2, true), *to = contract_context(model, 2, true);
    contract_read_cut(from, 0, path, 0, AT, CUT);
    contract_state state = contract_take(from, 0, 0);
    contract_read_cut(to, 0, other, 0, 50, CUT);
    contract_set(to, 0, state, 0);
    const float *now = contract_read_cut(to, 0, path, AT, PATH, CUT);
    assert_true(contract_same(to, right, now));
    contract_control("another context", wrong_distance(right, AT, PATH), contract_distance(to, right, now));
    free(state.bytes);
    free(right);
    llama_free(from);
    llama_free(to);
}

static void a_resume_anywhere_equals_a_cold_run_with_the_same_cuts(void **unused)
{
    (void)unused;
    static const uint32_t places[] = {1,   2,   3,   15,  31,  63,  64,  65,  95, 100,
                                      127, 128, 129, 161, 200, 255, 256, 257, 299};
    float noise = 0, control = 1e30f;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint32_t at = places[i], end = at + 70 < PATH ? at + 70 : PATH;
        float *right = cold_answer(at, end);
        struct llama_context *context = contract_context(model, 1, true);
        contract_read_cut(context, 0, path, 0, at, CUT);
        contract_state state = contract_take(context, 0, PARTIAL);
        if (at < PATH)
            contract_read_cut(context, 0, other, at, PATH, CUT);
        resume(context, state, at);
        const float *now = contract_read_cut(context, 0, path, at, end, CUT);
        if (!contract_same(context, right, now))
            fail_msg("a resume at %u differs by %g", at, (double)contract_distance(context, right, now));
        float distance = contract_distance(context, right, now), wrong = wrong_distance(right, at, end);
        noise = distance > noise ? distance : noise;
        control = wrong < control ? wrong : control;
        free(state.bytes);
        free(right);
        llama_free(context);
    }
    contract_control("resume anywhere, the weakest of 19", control, noise);
}

static void other_cuts_may_differ_and_are_reported(void **unused)
{
    (void)unused;
    static const uint32_t cuts[][2] = {{64, 37}, {64, 1}, {64, 63}, {128, 100}, {128, 64}, {32, 16}};
    float *control = cold_answer(AT, PATH);
    float clear = wrong_distance(control, AT, PATH);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct llama_context *context = contract_context(model, 1, true);
        float *whole = contract_keep(context, contract_read(context, 0, path, 0, cuts[i][0]));
        llama_memory_clear(llama_get_memory(context), true);
        contract_read(context, 0, path, 0, cuts[i][1]);
        float distance =
            contract_distance(context, whole, contract_read(context, 0, path, cuts[i][1], cuts[i][0]));
        printf("%u+%u in place of %u: logits differ by %g\n", cuts[i][1], cuts[i][0] - cuts[i][1], cuts[i][0],
               (double)distance);
        assert_true(distance < clear); /* another cut is noise, not another answer */
        free(whole);
        llama_free(context);
    }
    free(control);
}

static void token_by_token_differs_from_prefill_and_is_reported(void **unused)
{
    (void)unused;
    float *right = cold_answer(AT, PATH);
    float clear = wrong_distance(right, AT, PATH);
    struct llama_context *context = contract_context(model, 1, true);
    contract_read_cut(context, 0, path, 0, AT, CUT);
    const float *now = contract_read_cut(context, 0, path, AT, PATH, 1);
    float distance = contract_distance(context, right, now);
    printf("%u tokens decoded one by one: logits differ by %g (a wrong state: %g)\n", PATH - AT,
           (double)distance, (double)clear);
    assert_true(distance < clear);
    free(right);
    llama_free(context);
}

static void reading_twice_and_after_other_contents_is_equal(void **unused)
{
    (void)unused;
    float *right = cold_answer(AT, PATH);
    struct llama_context *context = contract_context(model, 2, true);
    for (int i = 0; i < 3; i++) {
        contract_read_cut(context, 0, other, 0, PATH, 17);
        llama_memory_clear(llama_get_memory(context), false); /* contents of cells stay, masked */
        contract_read_cut(context, 0, path, 0, AT, CUT);
        assert_true(contract_same(context, right, contract_read_cut(context, 0, path, AT, PATH, CUT)));
        llama_memory_clear(llama_get_memory(context), false);
    }
    free(right);
    llama_free(context);
}

/* Why cairn_llama_slot_reset puts a sound state first. */
static void a_sound_state_set_and_cleared_cures_a_cell_of_nan(void **unused)
{
    (void)unused;
    float *right = cold_answer(AT, PATH);
    struct llama_context *context = contract_context(model, 1, true);
    llama_memory_t memory = llama_get_memory(context);
    contract_read(context, 0, path, 0, 4);
    contract_state sound = contract_take(context, 0, PARTIAL), poisoned = contract_take(context, 0, PARTIAL);
    memset(poisoned.bytes + poisoned.size - 256, 0xff, 256);
    contract_set(context, 0, poisoned, PARTIAL);
    llama_memory_clear(memory, false);
    const float *now = contract_read_cut(context, 0, path, 0, AT, CUT);
    printf("after NaN in a cell and a clear without contents, a new sequence is %s\n",
           now[0] == now[0] ? "sound" : "NaN");
    llama_memory_clear(memory, true);
    contract_set(context, 0, poisoned, PARTIAL);
    llama_memory_clear(memory, false);
    contract_set(context, 0, sound, PARTIAL);
    llama_memory_clear(memory, false);
    contract_read_cut(context, 0, path, 0, AT, CUT);
    assert_true(contract_same(context, right, contract_read_cut(context, 0, path, AT, PATH, CUT)));
    free(sound.bytes);
    free(poisoned.bytes);
    free(right);
    llama_free(context);
}

static bool stop_now(void *data)
{
    return *(bool *)data;
}

static void an_aborted_decode_returns_2_and_leaves_the_rows_before(void **unused)
{
    (void)unused;
    float *right = cold_answer(AT, PATH);
    bool stop = false;
    struct llama_context *context = contract_context(model, 1, true);
    contract_state hollow = contract_take(context, 0, PARTIAL);
    llama_set_abort_callback(context, stop_now, &stop);
    contract_read_cut(context, 0, path, 0, AT, CUT);
    contract_state state = contract_take(context, 0, PARTIAL);
    stop = true;
    cairn_llama_log_set(NULL, NULL); /* libllama calls it an error */
    struct llama_batch batch = llama_batch_get_one(other, 64);
    assert_int_equal(llama_decode(context, batch), 2);
    stop = false;
    contract_set(context, 0, hollow, PARTIAL);
    assert_true(llama_memory_seq_rm(llama_get_memory(context), 0, AT, -1));
    contract_set(context, 0, state, PARTIAL);
    assert_true(contract_same(context, right, contract_read_cut(context, 0, path, AT, PATH, CUT)));
    free(hollow.bytes);
    free(state.bytes);
    free(right);
    llama_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partial_state_is_the_recurrent_state_alone),
        cmocka_unit_test(a_state_set_on_the_live_sequence_and_rows_removed_equals_cold),
        cmocka_unit_test(an_empty_partial_state_takes_the_cell_and_leaves_the_rows),
        cmocka_unit_test(another_sequence_number_and_a_split_cache_are_equal),
        cmocka_unit_test(a_full_state_restored_in_another_context_is_equal),
        cmocka_unit_test(a_resume_anywhere_equals_a_cold_run_with_the_same_cuts),
        cmocka_unit_test(other_cuts_may_differ_and_are_reported),
        cmocka_unit_test(token_by_token_differs_from_prefill_and_is_reported),
        cmocka_unit_test(reading_twice_and_after_other_contents_is_equal),
        cmocka_unit_test(a_sound_state_set_and_cleared_cures_a_cell_of_nan),
        cmocka_unit_test(an_aborted_decode_returns_2_and_leaves_the_rows_before),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
