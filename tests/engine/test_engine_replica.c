/*
 * The replica engine keeps its header's promises. It is the yardstick of every other test, so the
 * first thing checked here is that it notices: each kind of wrong restore must change the answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_replica.h"

enum { TOKENS = 200, VOCAB = 256 };

typedef struct rig {
    cairn_replica_options options; /* of the engine, once it is started */
    cairn_engine *engine;
    cairn_token tokens[4096];
} rig;

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Random tokens and the default options, which a test may change before it starts the engine. */
static rig prepared(void)
{
    rig r = {.engine = NULL};
    uint64_t random = 42;
    cairn_replica_defaults(&r.options);
    for (size_t i = 0; i < sizeof r.tokens / sizeof *r.tokens; i++)
        r.tokens[i] = (cairn_token)(next_random(&random) % VOCAB);
    return r;
}

static void start(rig *r)
{
    assert_int_equal(cairn_replica_new(&r->options, cairn_mem_default(), &r->engine, NULL), CAIRN_OK);
}

static rig started(void)
{
    rig r = prepared();
    start(&r);
    return r;
}

static void stop(rig *r)
{
    r->engine->ops->free(r->engine);
    r->engine = NULL;
}

static cairn_status decode(rig *r, uint32_t slot, const cairn_token *tokens, uint32_t count)
{
    cairn_piece piece = {slot, r->engine->ops->length(r->engine, slot), tokens, count, CAIRN_LOGITS_LAST,
                         false};
    return r->engine->ops->decode(r->engine, &piece, 1, NULL);
}

/* Read tokens [length, end) in batches that end at multiples of `batch`. */
static void read_to(rig *r, uint32_t slot, const cairn_token *tokens, uint32_t end, uint32_t batch)
{
    for (uint32_t at = r->engine->ops->length(r->engine, slot); at < end;) {
        uint32_t next = (at / batch + 1) * batch;
        next = next < end ? next : end;
        assert_int_equal(decode(r, slot, tokens + at, next - at), CAIRN_OK);
        at = next;
    }
}

static uint64_t pure(rig *r)
{
    return cairn_replica_pure(r->engine, 0, 0);
}

static uint64_t pure_last(rig *r, uint32_t count)
{
    return cairn_replica_pure(r->engine, 0, count - 1);
}

static uint64_t cold(rig *r, uint32_t count)
{
    return cairn_replica_cold(&r->options, r->tokens, count, NULL);
}

/* The answer after one more token. */
static uint64_t probe(rig *r, uint32_t slot, uint32_t position)
{
    assert_int_equal(decode(r, slot, r->tokens + position, 1), CAIRN_OK);
    return pure(r);
}

static void take_state(rig *r, uint32_t slot, uint8_t *out)
{
    uint64_t size = r->engine->ops->state_size(r->engine, slot);
    assert_int_equal(size, r->options.state_bytes);
    assert_int_equal(r->engine->ops->state_get(r->engine, slot, out, size, NULL), CAIRN_OK);
}

static cairn_status try_set_state(rig *r, uint32_t slot, uint32_t length, const uint8_t *bytes)
{
    return r->engine->ops->state_set(r->engine, slot, length, bytes, r->options.state_bytes, NULL);
}

static void set_state(rig *r, uint32_t slot, uint32_t length, const uint8_t *bytes)
{
    assert_int_equal(try_set_state(r, slot, length, bytes), CAIRN_OK);
}

static cairn_status try_take_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, uint8_t *out)
{
    uint64_t size = 0;
    cairn_rows_size need = r->engine->ops->rows_size(r->engine, begin, end);
    cairn_status status =
        r->engine->ops->rows_export(r->engine, slot, begin, end, out, need.buffer_bytes, &size, NULL);
    if (status == CAIRN_OK)
        assert_int_equal(size, need.bytes);
    return status;
}

static void take_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, uint8_t *out)
{
    assert_int_equal(try_take_rows(r, slot, begin, end, out), CAIRN_OK);
}

static cairn_status try_put_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, const uint8_t *bytes)
{
    uint64_t size = r->engine->ops->rows_size(r->engine, begin, end).bytes;
    return r->engine->ops->rows_import(r->engine, slot, begin, end, begin, end, bytes, size, NULL);
}

static void put_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, const uint8_t *bytes)
{
    assert_int_equal(try_put_rows(r, slot, begin, end, bytes), CAIRN_OK);
}

static void trim_to(rig *r, uint32_t slot, uint32_t length)
{
    assert_int_equal(r->engine->ops->trim(r->engine, slot, length, NULL), CAIRN_OK);
}

static bool can_trim(rig *r, uint32_t slot, uint32_t length)
{
    return r->engine->ops->can_trim(r->engine, slot, length);
}

static void reset(rig *r, uint32_t slot)
{
    r->engine->ops->reset(r->engine, slot);
}

/* Read `length` tokens and take what a resume there needs. */
static void read_and_take(rig *r, uint32_t slot, uint32_t length, uint8_t *state, uint8_t *rows)
{
    read_to(r, slot, r->tokens, length, 64);
    take_state(r, slot, state);
    take_rows(r, slot, 0, length, rows);
}

/* An empty slot gets the rows [0, length) and the state behind them. */
static void restore(rig *r, uint32_t slot, uint32_t length, const uint8_t *state, const uint8_t *rows)
{
    reset(r, slot);
    put_rows(r, slot, 0, length, rows);
    set_state(r, slot, length, state);
}

/* One more token gives the answer of a cold run. */
static void expect_cold_answer(rig *r, uint32_t slot, uint32_t position)
{
    assert_int_equal(probe(r, slot, position), cold(r, position + 1));
}

/* One more token gives another answer than a cold run: what was put into the slot was wrong, and it shows. */
static void expect_another_answer(rig *r, uint32_t slot, uint32_t position)
{
    assert_int_not_equal(probe(r, slot, position), cold(r, position + 1));
}

static uint64_t violations(const rig *r)
{
    return cairn_replica_counters_get(r->engine)->violations;
}

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

static uint64_t seed_of_run(void)
{
    const char *text = getenv("CAIRN_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 20240917u;
    printf("CAIRN_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* Two slots walk through random edits, restores and moves; every answer equals the reference. */
static void random_histories_give_cold_answers(void **unused)
{
    (void)unused;
    uint64_t random = seed_of_run();
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
