/*
 * The replica engine keeps its header's promises. It is the yardstick of every other test, so the
 * first thing checked here is that it notices: each kind of wrong restore must change the answer.
 * Trims, faults and random histories: test_replica_contract.c.
 */
#include "replica_support.h"

/* --- it answers like a pure function of the tokens --------------------------------------------------- */

static void any_cutting_gives_the_cold_answer(void **unused)
{
    (void)unused;
    for (int trim = CAIRN_TRIM_ANYWHERE; trim <= CAIRN_TRIM_NEVER; trim++) {
        rig r = prepared();
        r.options.trim = (cairn_trim)trim;
        start(&r);
        for (uint32_t batch = 1; batch <= 64; batch += 7) {
            reset(&r, 0);
            read_to(&r, 0, r.tokens, TOKENS, batch);
            uint32_t last = (TOKENS - 1) % batch + 1;
            assert_int_equal(pure_last(&r, last), cold(&r, TOKENS));
        }
        assert_int_equal(violations(&r), 0);
        stop(&r);
    }
}

static void the_largest_logit_is_the_greedy_token(void **unused)
{
    (void)unused;
    rig r = started();
    cairn_piece piece = {0, 0, r.tokens, 64, CAIRN_LOGITS_ALL, false};
    assert_int_equal(r.engine->ops->decode(r.engine, &piece, 1, NULL), CAIRN_OK);
    for (uint32_t i = 0; i < 64; i++) {
        const float *logits = r.engine->ops->logits(r.engine, 0, i);
        assert_non_null(logits);
        int best = 0;
        for (int v = 1; v < VOCAB; v++)
            if (logits[v] > logits[best])
                best = v;
        cairn_token greedy;
        assert_int_equal(best, cairn_replica_greedy(r.engine, 0, i));
        cairn_replica_cold(&r.options, r.tokens, i + 1, &greedy);
        assert_int_equal(best, greedy);
    }
    assert_null(r.engine->ops->logits(r.engine, 0, 64));
    assert_null(r.engine->ops->logits(r.engine, 1, 0));
    stop(&r);
}

static void logits_that_were_not_asked_for_are_not_there(void **unused)
{
    (void)unused;
    rig r = started();
    cairn_piece piece = {0, 0, r.tokens, 8, CAIRN_LOGITS_LAST, false};
    assert_int_equal(r.engine->ops->decode(r.engine, &piece, 1, NULL), CAIRN_OK);
    assert_null(r.engine->ops->logits(r.engine, 0, 6));
    assert_non_null(r.engine->ops->logits(r.engine, 0, 7));
    piece = (cairn_piece){0, 8, r.tokens, 8, CAIRN_LOGITS_NONE, false};
    assert_int_equal(r.engine->ops->decode(r.engine, &piece, 1, NULL), CAIRN_OK);
    assert_null(r.engine->ops->logits(r.engine, 0, 7));
    stop(&r);
}

static void every_token_and_its_place_matter(void **unused)
{
    (void)unused;
    rig r = started();
    uint64_t right = cold(&r, 32);
    for (uint32_t i = 0; i < 32; i++) {
        cairn_token was = r.tokens[i];
        r.tokens[i] = (was + 1) % VOCAB;
        assert_int_not_equal(cold(&r, 32), right);
        r.tokens[i] = was;
    }
    cairn_token swap = r.tokens[3];
    r.tokens[3] = r.tokens[4];
    r.tokens[4] = swap;
    assert_int_not_equal(cold(&r, 32), right);
    stop(&r);
}

/* --- restores: the right one is unseen, every wrong one shows ------------------------------------------ */

static void a_resume_equals_reading_again(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64], rows[TOKENS * 16];
    read_and_take(&r, 0, 100, state, rows);
    read_to(&r, 0, r.tokens, TOKENS, 64);
    /* in place */
    trim_to(&r, 0, 100);
    set_state(&r, 0, 100, state);
    expect_cold_answer(&r, 0, 100);
    /* in another slot, rows joined from two parts, used twice */
    for (int again = 0; again < 2; again++) {
        reset(&r, 1);
        put_rows(&r, 1, 0, 37, rows);
        put_rows(&r, 1, 37, 100, rows + 37 * 16);
        set_state(&r, 1, 100, state);
        expect_cold_answer(&r, 1, 100);
    }
    assert_int_equal(violations(&r), 0);
    stop(&r);
}

static void a_part_of_the_exported_rows_can_be_used(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64], rows[TOKENS * 16];
    read_to(&r, 0, r.tokens, 90, 64);
    take_state(&r, 0, state);
    read_to(&r, 0, r.tokens, 150, 64);
    take_rows(&r, 0, 40, 150, rows);
    trim_to(&r, 0, 60);
    assert_int_equal(r.engine->ops->rows_import(r.engine, 0, 40, 150, 60, 90, rows, (uint64_t)110 * 16, NULL),
                     CAIRN_OK);
    assert_int_equal(r.engine->ops->length(r.engine, 0), 90);
    set_state(&r, 0, 90, state);
    expect_cold_answer(&r, 0, 90);
    stop(&r);
}

static void the_state_of_another_position_shows(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64];
    read_to(&r, 0, r.tokens, 99, 64);
    take_state(&r, 0, state);
    read_to(&r, 0, r.tokens, 120, 64);
    trim_to(&r, 0, 100);
    set_state(&r, 0, 100, state);
    expect_another_answer(&r, 0, 100);
    /* and it stays wrong */
    expect_another_answer(&r, 0, 101);
    stop(&r);
}

static void the_state_of_other_tokens_shows(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64];
    read_to(&r, 1, r.tokens + 1, 100, 64);
    take_state(&r, 1, state);
    read_to(&r, 0, r.tokens, 100, 64);
    trim_to(&r, 0, 100);
    set_state(&r, 0, 100, state);
    expect_another_answer(&r, 0, 100);
    stop(&r);
}

static void the_state_of_another_model_shows(void **unused)
{
    (void)unused;
    rig r = started(), other = prepared();
    other.options.seed = 2;
    start(&other);
    uint8_t state[64];
    read_to(&other, 0, r.tokens, 100, 64);
    take_state(&other, 0, state);
    read_to(&r, 0, r.tokens, 100, 64);
    set_state(&r, 0, 100, state);
    expect_another_answer(&r, 0, 100);
    assert_memory_not_equal(r.engine->info.fingerprint, other.engine->info.fingerprint,
                            CAIRN_FINGERPRINT_BYTES);
    stop(&r);
    stop(&other);
}

static void every_byte_of_a_state_matters(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.state_bytes = 99;
    start(&r);
    uint8_t state[99];
    read_to(&r, 0, r.tokens, 100, 64);
    take_state(&r, 0, state);
    uint64_t right = cold(&r, 101);
    for (uint32_t i = 0; i < sizeof state; i++) {
        state[i] ^= 0x10;
        reset(&r, 0);
        read_to(&r, 0, r.tokens, 100, 64);
        cairn_status status = try_set_state(&r, 0, 100, state);
        if (status == CAIRN_OK)
            assert_int_not_equal(probe(&r, 0, 100), right);
        else
            assert_int_equal(status, CAIRN_CORRUPT);
        state[i] ^= 0x10;
    }
    stop(&r);
}

static void every_byte_of_a_row_matters(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.row_bytes = 37;
    start(&r);
    uint8_t state[64], rows[8 * 37];
    read_and_take(&r, 0, 8, state, rows);
    uint64_t right = cold(&r, 9);
    for (uint32_t i = 0; i < sizeof rows; i++) {
        rows[i] ^= 0x01;
        restore(&r, 0, 8, state, rows);
        assert_int_not_equal(probe(&r, 0, 8), right);
        rows[i] ^= 0x01;
    }
    restore(&r, 0, 8, state, rows);
    assert_int_equal(probe(&r, 0, 8), right);
    stop(&r);
}

static void swapped_rows_show(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64], rows[50 * 16], row[16];
    read_and_take(&r, 0, 50, state, rows);
    memcpy(row, rows + 20 * 16, 16);
    memcpy(rows + 20 * 16, rows + 21 * 16, 16);
    memcpy(rows + 21 * 16, row, 16);
    restore(&r, 0, 50, state, rows);
    expect_another_answer(&r, 0, 50);
    stop(&r);
}

/* Rows of the old branch behind the state of the new one: what a forgotten trim would leave. */
static void stale_rows_show(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64], rows[100 * 16];
    cairn_token old[100];
    memcpy(old, r.tokens, sizeof old);
    old[60] = (old[60] + 1) % VOCAB;
    read_to(&r, 1, old, 100, 64);
    take_rows(&r, 1, 0, 100, rows);
    read_to(&r, 0, r.tokens, 100, 64);
    take_state(&r, 0, state);
    restore(&r, 0, 100, state, rows);
    expect_another_answer(&r, 0, 100);
    stop(&r);
}

static void a_missing_row_shows(void **unused)
{
    (void)unused;
    rig r = started();
    uint8_t state[64];
    read_to(&r, 0, r.tokens, 100, 64);
    take_state(&r, 0, state);
    trim_to(&r, 0, 99);
    set_state(&r, 0, 99, state);
    expect_another_answer(&r, 0, 100);
    stop(&r);
}

/* --- where cuts show --------------------------------------------------------------------------------- */

static void cuts_show_in_the_low_bits_only_when_asked_for(void **unused)
{
    (void)unused;
    for (int sensitive = 0; sensitive < 2; sensitive++) {
        rig r = prepared();
        r.options.cut_sensitive = sensitive == 1;
        start(&r);
        read_to(&r, 0, r.tokens, 128, 64);
        uint64_t whole = cairn_replica_digest(r.engine, 0, 63);
        read_to(&r, 1, r.tokens, 100, 64);
        read_to(&r, 1, r.tokens, 128, 64);
        uint64_t cut = cairn_replica_digest(r.engine, 0, 27);
        assert_int_equal(cairn_replica_pure(r.engine, 0, 27), cold(&r, 128));
        assert_int_equal(whole == cut, !sensitive);
        /* the same cut again is the same bits */
        reset(&r, 0);
        read_to(&r, 0, r.tokens, 100, 64);
        read_to(&r, 0, r.tokens, 128, 64);
        assert_int_equal(cairn_replica_digest(r.engine, 0, 27), cut);
        stop(&r);
    }
}

static void a_resume_at_a_cut_equals_a_cold_run_with_that_cut(void **unused)
{
    (void)unused;
    for (int trim = CAIRN_TRIM_ANYWHERE; trim <= CAIRN_TRIM_NEVER; trim++) {
        rig r = prepared();
        r.options.cut_sensitive = true;
        r.options.trim = (cairn_trim)trim;
        start(&r);
        uint8_t state[64], rows[100 * 16];
        read_to(&r, 0, r.tokens, 100, 64);
        if (trim != CAIRN_TRIM_ANYWHERE)
            take_state(&r, 0, state);
        take_rows(&r, 0, 0, 100, rows);
        read_to(&r, 0, r.tokens, 160, 64);
        uint64_t right = cairn_replica_digest(r.engine, 0, 31);
        put_rows(&r, 1, 0, 100, rows);
        if (trim != CAIRN_TRIM_ANYWHERE)
            set_state(&r, 1, 100, state);
        read_to(&r, 1, r.tokens, 160, 64);
        assert_int_equal(cairn_replica_digest(r.engine, 0, 31), right);
        /* token by token differs in the low bits, and only there */
        reset(&r, 1);
        read_to(&r, 1, r.tokens, 100, 64);
        read_to(&r, 1, r.tokens, 160, 1);
        assert_int_not_equal(cairn_replica_digest(r.engine, 0, 0), right);
        assert_int_equal(pure(&r), cold(&r, 160));
        stop(&r);
    }
}

static void the_low_bits_are_small_and_keep_the_greedy_token(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.cut_sensitive = true;
    start(&r);
    float whole[VOCAB];
    read_to(&r, 0, r.tokens, 64, 64);
    memcpy(whole, r.engine->ops->logits(r.engine, 0, 63), sizeof whole);
    cairn_token greedy = cairn_replica_greedy(r.engine, 0, 63);
    read_to(&r, 1, r.tokens, 64, 9);
    const float *cut = r.engine->ops->logits(r.engine, 0, 0);
    float most = 0;
    for (int i = 0; i < VOCAB; i++) {
        float difference = whole[i] > cut[i] ? whole[i] - cut[i] : cut[i] - whole[i];
        most = difference > most ? difference : most;
    }
    assert_true(most > 0 && most < 1.0f / 4096.0f);
    assert_int_equal(cairn_replica_greedy(r.engine, 0, 0), greedy);
    stop(&r);
}

static uint32_t largest(rig *r, uint32_t index)
{
    const float *row = r->engine->ops->logits(r->engine, 0, index);
    uint32_t best = 0;
    for (uint32_t i = 1; i < VOCAB; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

static void near_ties_let_a_cut_choose_between_two_tokens(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.cut_sensitive = r.options.near_ties = true;
    start(&r);
    uint32_t others = 0;
    for (uint32_t cut = 1; cut < 64; cut++) {
        reset(&r, 0);
        read_to(&r, 0, r.tokens, cut, 64);
        assert_int_equal(decode(&r, 0, r.tokens + cut, 64 - cut), CAIRN_OK);
        uint32_t greedy = (uint32_t)cairn_replica_greedy(r.engine, 0, 63 - cut), best = largest(&r, 63 - cut);
        assert_true(best == greedy || best == (greedy + 1) % VOCAB);
        others += best != greedy;
    }
    assert_true(others > 10 && others < 53);
    stop(&r);
}

static void sharing_a_decode_shows_when_asked_for(void **unused)
{
    (void)unused;
    rig r = prepared();
    r.options.cut_sensitive = r.options.batch_sensitive = true;
    start(&r);
    assert_true(r.engine->info.batch_alone);
    read_to(&r, 0, r.tokens, 64, 64);
    uint64_t alone = cairn_replica_digest(r.engine, 0, 63);
    reset(&r, 0);
    cairn_piece pieces[2] = {{0, 0, r.tokens, 64, CAIRN_LOGITS_LAST, false},
                             {1, 0, r.tokens, 5, CAIRN_LOGITS_LAST, false}};
    assert_int_equal(r.engine->ops->decode(r.engine, pieces, 2, NULL), CAIRN_OK);
    assert_int_not_equal(cairn_replica_digest(r.engine, 0, 63), alone);
    assert_int_equal(cairn_replica_pure(r.engine, 0, 63), cold(&r, 64));
    assert_int_equal(cairn_replica_pure(r.engine, 1, 4), cold(&r, 5));
    stop(&r);
}

/* As llama's engine does: what the slot had from the block's beginning on is the block's afterwards. */
static void the_head_of_a_block_replaces_the_rows_of_the_slot(void **unused)
{
    (void)unused;
    for (uint32_t whole = 0; whole < 2; whole++) {
        rig r = prepared();
        r.options.trim = CAIRN_TRIM_ANYWHERE;
        r.options.state_bytes = 0;
        r.options.cut_sensitive = true;
        start(&r);
        uint8_t bytes[100 * 16];
        read_to(&r, 0, r.tokens, 100, 50);
        take_rows(&r, 0, 0, 100, bytes);
        read_to(&r, 1, r.tokens, 50, 10);
        if (whole == 1) {
            assert_int_equal(
                r.engine->ops->rows_import(r.engine, 1, 0, 100, 50, 100, bytes, sizeof bytes, NULL),
                CAIRN_OK);
        } else {
            put_rows(&r, 1, 50, 100, bytes + 50 * 16);
        }
        uint64_t digests[2];
        for (uint32_t slot = 0; slot < 2; slot++) {
            expect_cold_answer(&r, slot, 100);
            digests[slot] = cairn_replica_digest(r.engine, 0, 0);
        }
        assert_true((digests[0] == digests[1]) == (whole == 1));
        assert_int_equal(violations(&r), 0);
        stop(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cutting_gives_the_cold_answer),
        cmocka_unit_test(the_largest_logit_is_the_greedy_token),
        cmocka_unit_test(logits_that_were_not_asked_for_are_not_there),
        cmocka_unit_test(every_token_and_its_place_matter),
        cmocka_unit_test(a_resume_equals_reading_again),
        cmocka_unit_test(a_part_of_the_exported_rows_can_be_used),
        cmocka_unit_test(the_state_of_another_position_shows),
        cmocka_unit_test(the_state_of_other_tokens_shows),
        cmocka_unit_test(the_state_of_another_model_shows),
        cmocka_unit_test(every_byte_of_a_state_matters),
        cmocka_unit_test(every_byte_of_a_row_matters),
        cmocka_unit_test(swapped_rows_show),
        cmocka_unit_test(stale_rows_show),
        cmocka_unit_test(a_missing_row_shows),
        cmocka_unit_test(cuts_show_in_the_low_bits_only_when_asked_for),
        cmocka_unit_test(a_resume_at_a_cut_equals_a_cold_run_with_that_cut),
        cmocka_unit_test(the_low_bits_are_small_and_keep_the_greedy_token),
        cmocka_unit_test(near_ties_let_a_cut_choose_between_two_tokens),
        cmocka_unit_test(sharing_a_decode_shows_when_asked_for),
        cmocka_unit_test(the_head_of_a_block_replaces_the_rows_of_the_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
