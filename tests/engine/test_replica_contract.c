/*
 * The replica engine as cairn/engine.h has it: when a slot may be cut, what each failure leaves, what breaks the contract; and
 * random histories of it all.
 */
#include "replica_support.h"

/* --- the gate ---------------------------------------------------------------------------------------- */

static void plain_attention_trims_anywhere(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.trim = CAIRN_TRIM_ANYWHERE;
    r.options.state_bytes = 0;
    start(&r);
    read_to(&r, 0, r.tokens, TOKENS, 64);
    assert_int_equal(r.engine->ops->state_size(r.engine, 0), 0);
    for (uint32_t n = TOKENS - 1; n > 0; n -= 11) {
        assert_true(can_trim(&r, 0, n));
        trim_to(&r, 0, n);
        expect_cold_answer(&r, 0, n);
        if (n < 11)
            break;
    }
    assert_int_equal(violations(&r), 0);
    stop(&r);
}

static void a_window_trims_while_nothing_needed_was_overwritten(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.trim = CAIRN_TRIM_WINDOW;
    r.options.window_tokens = 50;
    r.options.batch_tokens_max = 20; /* the ring holds 70 */
    start(&r);
    read_to(&r, 0, r.tokens, 70, 20);
    assert_true(can_trim(&r, 0, 1));
    read_to(&r, 0, r.tokens, 160, 20); /* rows before 90 are gone */
    assert_true(can_trim(&r, 0, 140));
    assert_false(can_trim(&r, 0, 139));
    assert_true(can_trim(&r, 0, 0));
    trim_to(&r, 0, 145);
    expect_cold_answer(&r, 0, 145);
    /* past the gate the state must follow */
    trim_to(&r, 0, 100);
    assert_int_equal(decode(&r, 0, r.tokens + 100, 1), CAIRN_ENGINE);
    assert_int_equal(violations(&r), 1);
    stop(&r);
}

static void a_window_resumes_from_its_own_state(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.trim = CAIRN_TRIM_WINDOW;
    r.options.window_tokens = 50;
    r.options.batch_tokens_max = 20;
    start(&r);
    uint8_t state[64];
    read_to(&r, 0, r.tokens, 80, 20);
    take_state(&r, 0, state);
    read_to(&r, 0, r.tokens, 180, 20);
    assert_false(can_trim(&r, 0, 80));
    trim_to(&r, 0, 80);
    set_state(&r, 0, 80, state);
    assert_false(can_trim(&r, 0, 79)); /* only [30, 80) came back */
    expect_cold_answer(&r, 0, 80);
    assert_int_equal(violations(&r), 0);
    stop(&r);
}

static void recurrent_slots_never_trim_without_a_state(void **unused)
{
    (void)unused;
    rig r = started();
    read_to(&r, 0, r.tokens, 100, 64);
    assert_true(can_trim(&r, 0, 100));
    assert_true(can_trim(&r, 0, 0));
    assert_false(can_trim(&r, 0, 99));
    assert_false(can_trim(&r, 0, 101));
    trim_to(&r, 0, 100);
    expect_cold_answer(&r, 0, 100); /* same length: the state stays */
    trim_to(&r, 0, 50);
    assert_int_equal(r.engine->ops->state_size(r.engine, 0), 0);
    assert_int_equal(decode(&r, 0, r.tokens + 50, 1), CAIRN_ENGINE);
    trim_to(&r, 0, 0);
    expect_cold_answer(&r, 0, 0);
    stop(&r);
}

/* --- faults ------------------------------------------------------------------------------------------ */

static void the_nth_call_of_each_kind_fails(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64], rows[64 * 16];
    cairn_replica_fail(r.engine, CAIRN_REPLICA_DECODE, 3, CAIRN_ENGINE);
    assert_int_equal(decode(&r, 0, r.tokens, 64), CAIRN_OK);
    take_state(&r, 0, state);
    take_rows(&r, 0, 0, 64, rows);
    assert_int_equal(decode(&r, 0, r.tokens + 64, 1), CAIRN_OK);
    assert_int_equal(decode(&r, 0, r.tokens + 65, 1), CAIRN_ENGINE);
    assert_int_equal(cairn_replica_counters_get(r.engine)->failures[CAIRN_REPLICA_DECODE], 1);
    assert_int_equal(cairn_replica_counters_get(r.engine)->tokens_decoded, 65);
    /* broken until reset */
    assert_int_equal(decode(&r, 0, r.tokens, 1), CAIRN_ENGINE);
    reset(&r, 0);
    read_to(&r, 0, r.tokens, 64, 64);

    cairn_replica_fail(r.engine, CAIRN_REPLICA_STATE_SIZE, 1, CAIRN_ENGINE);
    assert_int_equal(r.engine->ops->state_size(r.engine, 0), 0);
    cairn_replica_fail(r.engine, CAIRN_REPLICA_STATE_GET, 1, CAIRN_ENGINE);
    assert_int_equal(r.engine->ops->state_get(r.engine, 0, state, 64, NULL), CAIRN_ENGINE);
    cairn_replica_fail(r.engine, CAIRN_REPLICA_ROWS_EXPORT, 1, CAIRN_ENGINE);
    assert_int_equal(try_take_rows(&r, 0, 0, 64, rows), CAIRN_ENGINE);
    expect_cold_answer(&r, 0, 64); /* reading out failed: the slot did not */

    cairn_replica_fail(r.engine, CAIRN_REPLICA_ROWS_IMPORT, 1, CAIRN_NOMEM);
    assert_int_equal(try_put_rows(&r, 1, 0, 64, rows), CAIRN_NOMEM);
    assert_int_equal(r.engine->ops->length(r.engine, 1), 0);
    cairn_replica_fail(r.engine, CAIRN_REPLICA_STATE_SET, 1, CAIRN_CORRUPT);
    put_rows(&r, 1, 0, 64, rows);
    assert_int_equal(try_set_state(&r, 1, 64, state), CAIRN_CORRUPT);
    assert_int_equal(r.engine->ops->length(r.engine, 1), 0);
    cairn_replica_fail(r.engine, CAIRN_REPLICA_TRIM, 1, CAIRN_ENGINE);
    assert_int_equal(r.engine->ops->trim(r.engine, 0, 3, NULL), CAIRN_ENGINE);
    assert_int_equal(r.engine->ops->length(r.engine, 0), 0);
    cairn_replica_refuse_trim(r.engine, true);
    read_to(&r, 0, r.tokens, 64, 64);
    assert_int_equal(r.engine->ops->trim(r.engine, 0, 3, NULL), CAIRN_ENGINE);
    stop(&r);
}

static void a_cancelled_decode_keeps_the_rows_before_it(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64];
    read_to(&r, 0, r.tokens, 64, 64);
    take_state(&r, 0, state);
    r.engine->ops->interrupt(r.engine);
    assert_int_equal(decode(&r, 0, r.tokens + 64, 10), CAIRN_CANCELLED);
    assert_int_equal(decode(&r, 1, r.tokens, 10), CAIRN_CANCELLED); /* sticky */
    r.engine->ops->resume_work(r.engine);
    assert_int_equal(cairn_replica_counters_get(r.engine)->tokens_decoded, 64);
    assert_int_equal(cairn_replica_counters_get(r.engine)->tokens_discarded, 20);
    assert_int_equal(r.engine->ops->length(r.engine, 0), 64);
    set_state(&r, 0, 64, state);
    expect_cold_answer(&r, 0, 64);
    expect_cold_answer(&r, 1, 0); /* an empty slot needs no state */
    assert_int_equal(violations(&r), 0);
    stop(&r);
}

static void running_out_of_room_harms_nothing(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.room_tokens_max = 100;
    r.options.slot_tokens_max = 90;
    start(&r);
    uint8_t state[64];
    read_to(&r, 0, r.tokens, 64, 64);
    take_state(&r, 0, state);
    read_to(&r, 1, r.tokens, 30, 64);
    assert_int_equal(decode(&r, 0, r.tokens + 64, 10), CAIRN_NOMEM);
    set_state(&r, 0, 64, state);
    assert_int_equal(decode(&r, 0, r.tokens + 64, 27), CAIRN_LIMIT);
    expect_cold_answer(&r, 0, 64);
    expect_cold_answer(&r, 1, 30);
    assert_int_equal(violations(&r), 0);
    stop(&r);
}

static void breaking_the_contract_is_counted(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64];
    cairn_piece piece = {0, 5, r.tokens, 1, CAIRN_LOGITS_LAST, false};
    assert_int_equal(r.engine->ops->decode(r.engine, &piece, 1, NULL), CAIRN_INVALID);
    piece = (cairn_piece){0, 0, r.tokens, 65, CAIRN_LOGITS_LAST, false};
    assert_int_equal(r.engine->ops->decode(r.engine, &piece, 1, NULL), CAIRN_INVALID);
    piece = (cairn_piece){7, 0, r.tokens, 1, CAIRN_LOGITS_LAST, false};
    assert_int_equal(r.engine->ops->decode(r.engine, &piece, 1, NULL), CAIRN_INVALID);
    cairn_token outside = VOCAB;
    piece = (cairn_piece){0, 0, &outside, 1, CAIRN_LOGITS_LAST, false};
    assert_int_equal(r.engine->ops->decode(r.engine, &piece, 1, NULL), CAIRN_INVALID);
    cairn_piece twice[2] = {{0, 0, r.tokens, 1, CAIRN_LOGITS_LAST, false},
                            {0, 0, r.tokens, 1, CAIRN_LOGITS_LAST, false}};
    assert_int_equal(r.engine->ops->decode(r.engine, twice, 2, NULL), CAIRN_INVALID);
    assert_int_equal(r.engine->ops->state_get(r.engine, 0, state, 64, NULL), CAIRN_ENGINE);
    assert_int_equal(try_set_state(&r, 0, 5, state), CAIRN_INVALID);
    assert_int_equal(r.engine->ops->trim(r.engine, 0, 5, NULL), CAIRN_INVALID);
    assert_int_equal(violations(&r), 8);
    stop(&r);
}

static void time_passes_as_configured(void **unused)
{
    (void)unused;
    uint64_t clock_ns = 0;
    rig r = prepared();
    r.options.clock_ns = &clock_ns;
    r.options.state_bytes = 2048;
    r.options.cost =
        (cairn_replica_cost){.decode_call_ns = 1000, .token_ns = 10, .state_call_ns = 100, .state_kib_ns = 7};
    start(&r);
    uint8_t state[2048];
    assert_int_equal(decode(&r, 0, r.tokens, 64), CAIRN_OK);
    assert_int_equal(clock_ns, 1640);
    take_state(&r, 0, state);
    assert_int_equal(clock_ns, 1640 + 114);
    stop(&r);
}

static void the_light_engine_checks_states_and_lengths(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.light = true;
    r.options.slot_tokens_max = 1000000;
    start(&r);
    uint8_t state[64], wrong[64], rows[100 * 16];
    read_to(&r, 0, r.tokens, 50, 64);
    take_state(&r, 0, wrong);
    read_and_take(&r, 0, 100, state, rows);
    put_rows(&r, 1, 0, 100, rows);
    set_state(&r, 1, 100, state);
    expect_cold_answer(&r, 1, 100);
    trim_to(&r, 1, 100);
    set_state(&r, 1, 100, wrong);
    expect_another_answer(&r, 1, 100);
    stop(&r);
}

static void bad_options_are_refused(void **unused)
{
    (void)unused;
    cairn_engine *engine = NULL;
    for (int i = 0; i < 7; i++) {
        cairn_replica_options o;
        cairn_error error;
        cairn_replica_defaults(&o);
        if (i == 0)
            o.slots = 0;
        else if (i == 1)
            o.vocab_size = 1;
        else if (i == 2)
            o.state_bytes = 31;
        else if (i == 3)
            o.row_bytes = 15;
        else if (i == 4)
            o.batch_tokens_max = 0;
        else if (i == 5)
            o.trim = CAIRN_TRIM_WINDOW, o.window_tokens = 0;
        else
            o.trim = CAIRN_TRIM_ANYWHERE, o.light = true;
        assert_int_equal(cairn_replica_new(&o, cairn_mem_default(), &engine, &error), CAIRN_INVALID);
        assert_null(engine);
    }
}

/* --- random histories against the reference ------------------------------------------------------------ */

typedef struct saved {
    uint32_t length;
    uint8_t state[64];
    uint8_t rows[512 * 16];
    cairn_token tokens[512];
} saved;

/* Two slots walk through random edits, restores and moves; every answer equals the reference. */
static void random_histories_give_cold_answers(void **unused)
{
    (void)unused;
    uint64_t random = cairn_test_seed("random_histories", 20240917);
    static saved kept[8];
    static cairn_token path[2][512];
    rig r = started();
    memset(kept, 0, sizeof kept);
    for (int step = 0; step < 20000; step++) {
        uint32_t slot = (uint32_t)(next_random(&random) % 2), choice = (uint32_t)(next_random(&random) % 4);
        saved *k = &kept[next_random(&random) % 8];
        uint32_t length = r.engine->ops->length(r.engine, slot);
        if (choice == 0 && length > 0) {
            k->length = length;
            take_state(&r, slot, k->state);
            take_rows(&r, slot, 0, length, k->rows);
            memcpy(k->tokens, path[slot], sizeof path[slot]);
        } else if (choice == 1 && k->length > 0) {
            uint32_t shared = 0; /* keep what the slot has in common, import the rest */
            while (shared < length && shared < k->length && path[slot][shared] == k->tokens[shared])
                shared++;
            trim_to(&r, slot, shared);
            if (shared < k->length)
                assert_int_equal(r.engine->ops->rows_import(r.engine, slot, 0, k->length, shared, k->length,
                                                            k->rows, (uint64_t)k->length * 16, NULL),
                                 CAIRN_OK);
            set_state(&r, slot, k->length, k->state);
            memcpy(path[slot], k->tokens, sizeof path[slot]);
        } else {
            uint32_t count = 1 + (uint32_t)(next_random(&random) % 40);
            if (length + count > 500) {
                reset(&r, slot);
                length = 0;
            }
            for (uint32_t i = 0; i < count; i++)
                path[slot][length + i] = (cairn_token)(next_random(&random) % 3);
            assert_int_equal(decode(&r, slot, path[slot] + length, count), CAIRN_OK);
            if (pure_last(&r, count) != cairn_replica_cold(&r.options, path[slot], length + count, NULL))
                fail_msg("wrong answer at step %d", step);
        }
    }
    assert_int_equal(violations(&r), 0);
    stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_attention_trims_anywhere),
        cmocka_unit_test(a_window_trims_while_nothing_needed_was_overwritten),
        cmocka_unit_test(a_window_resumes_from_its_own_state),
        cmocka_unit_test(recurrent_slots_never_trim_without_a_state),
        cmocka_unit_test(the_nth_call_of_each_kind_fails),
        cmocka_unit_test(a_cancelled_decode_keeps_the_rows_before_it),
        cmocka_unit_test(running_out_of_room_harms_nothing),
        cmocka_unit_test(breaking_the_contract_is_counted),
        cmocka_unit_test(time_passes_as_configured),
        cmocka_unit_test(the_light_engine_checks_states_and_lengths),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(random_histories_give_cold_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
