/*
 * The llama engine keeps the promises of cairn/engine.h, on the tiny qwen35 model: bit for bit against cold runs, also
 * after random histories; and bad input and failures leave what the table says. With `shared` as argument all that is
 * asked of slots that share one context.
 */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "base/mem_test.h"
#include "contract/contract_support.h"
#include "engine/engine_llama.h"
#include "engine/engine_support.h"
#include "test_support.h"

enum { TOKENS = 320, BATCH = 64, COLD = 2, CONTEXT = 512 };

typedef struct rig {
    cairn_engine *engine;
    uint32_t vocab;
    cairn_token tokens[TOKENS];
} rig;

static rig rigged; /* three slots; slot COLD is for cold runs */
static bool in_one_context;

static cairn_llama_options usual_options(void)
{
    cairn_llama_options o;
    cairn_llama_defaults(&o);
    o.model.path = contract_model_path("qwen35", "tiny");
    o.slots = 3;
    o.slot_tokens_max = CONTEXT;
    o.batch_tokens_max = BATCH;
    o.threads = 1;
    o.shared = o.model.no_repack = in_one_context;
    return o;
}

static cairn_engine *start(const cairn_llama_options *options)
{
    cairn_engine *engine = NULL;
    cairn_error error;
    if (cairn_llama_new(options, cairn_mem_default(), &engine, &error) != CAIRN_OK)
        fail_msg("%s: %s", error.where, error.detail);
    return engine;
}

static int set_up(void **state)
{
    (void)state;
    cairn_llama_log_set(quiet, NULL);
    cairn_llama_options o = usual_options();
    rigged.engine = start(&o);
    rigged.vocab = rigged.engine->info.vocab_size;
    for (uint32_t i = 0; i < TOKENS; i++)
        rigged.tokens[i] = (cairn_token)((i * 7919u + i * i * 31u + 7u) % rigged.vocab);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rigged.engine->ops->free(rigged.engine);
    return 0;
}

static cairn_status decode(cairn_engine *engine, uint32_t slot, const cairn_token *tokens, uint32_t count)
{
    cairn_piece piece = {slot, engine->ops->length(engine, slot), tokens, count, CAIRN_LOGITS_LAST, true};
    return engine->ops->decode(engine, &piece, 1, NULL);
}

/* Read tokens up to `end` with cuts at multiples of BATCH; logits of the last one, borrowed. */
static const float *read_to(cairn_engine *engine, uint32_t slot, const cairn_token *tokens, uint32_t end)
{
    return read_cut(engine, slot, tokens, end, BATCH, true);
}

/* float[vocab], malloc'ed: reading cold to `end`, cut at `at` too. */
static float *cold(cairn_engine *engine, const cairn_token *tokens, uint32_t at, uint32_t end)
{
    float *kept = malloc(engine->info.vocab_size * sizeof *kept);
    engine->ops->reset(engine, COLD);
    if (at > 0)
        read_to(engine, COLD, tokens, at);
    memcpy(kept, read_to(engine, COLD, tokens, end), engine->info.vocab_size * sizeof *kept);
    return kept;
}

static bool same(cairn_engine *engine, const float *a, const float *b)
{
    return memcmp(a, b, engine->info.vocab_size * sizeof *a) == 0;
}

/* --- facts ------------------------------------------------------------------------------------------- */

static void facts_of_a_hybrid_model(void **unused)
{
    (void)unused;
    const cairn_engine_info *info = &rigged.engine->info;
    assert_string_equal(info->name, "llama");
    assert_non_null(strstr(info->build, "libllama"));
    assert_int_equal(info->slots, 3);
    assert_int_equal(info->slot_tokens_max, CONTEXT);
    assert_int_equal(info->batch_tokens_max, BATCH);
    assert_int_equal(info->trim, CAIRN_TRIM_NEVER);
    assert_true(info->rows_move);
    assert_true(info->state_bytes_max > 0 && info->row_bytes > 0);
    assert_false(info->exact); /* until the check has proved it */
}

static void fingerprints_follow_model_and_settings(void **unused)
{
    (void)unused;
    cairn_llama_options o = usual_options();
    cairn_engine *again = start(&o);
    assert_memory_equal(again->info.fingerprint, rigged.engine->info.fingerprint, CAIRN_FINGERPRINT_BYTES);
    again->ops->free(again);
    for (int i = 0; i < 4; i++) {
        char copy[1024];
        o = usual_options();
        o.slots = 1;
        if (i == 0)
            o.type_k = "q8_0";
        else if (i == 1)
            o.batch_tokens_max = 32;
        else if (i == 2)
            o.slot_tokens_max = 256;
        else { /* one byte of one weight */
            snprintf(copy, sizeof copy, "%s.other.%ld", o.model.path, (long)getpid());
            FILE *from = fopen(o.model.path, "rb"), *to = fopen(copy, "w+b");
            assert_non_null(from);
            assert_non_null(to);
            char block[4096];
            for (size_t n; (n = fread(block, 1, sizeof block, from)) > 0;)
                assert_int_equal(fwrite(block, 1, n, to), n);
            fclose(from);
            fseek(to, -100, SEEK_END);
            int byte = fgetc(to);
            fseek(to, -100, SEEK_END);
            fputc(byte ^ 0x55, to);
            fclose(to);
            o.model.path = copy;
        }
        cairn_engine *other = start(&o);
        assert_memory_not_equal(other->info.fingerprint, rigged.engine->info.fingerprint,
                                CAIRN_FINGERPRINT_BYTES);
        other->ops->free(other);
        if (i == 3)
            remove(copy);
    }
}

/* --- exactness ----------------------------------------------------------------------------------------- */

static void a_resume_in_place_and_elsewhere_equals_cold(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    static const uint32_t places[] = {1, 2, 63, 64, 65, 127, 128, 200};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint32_t at = places[i], part = at / 2;
        float *right = cold(e, rigged.tokens, at, TOKENS);
        e->ops->reset(e, 0);
        e->ops->reset(e, 1);
        read_to(e, 0, rigged.tokens, at);
        bytes state = take_state(e, 0);
        read_to(e, 0, rigged.tokens + 1, TOKENS - 1); /* other tokens than rigged.tokens has there */
        assert_int_equal(e->ops->can_trim(e, 0, at), false);
        assert_ok(e->ops->trim(e, 0, at, NULL));
        assert_int_equal(e->ops->state_size(e, 0), 0);
        assert_status(decode(e, 0, rigged.tokens + at, 1), CAIRN_ENGINE); /* rows without a state */
        assert_ok(put_state(e, 0, at, state));
        bytes rows_a = part > 0 ? take_rows(e, 0, 0, part) : (bytes){0}, rows_b = take_rows(e, 0, part, at);
        assert_true(same(e, right, read_to(e, 0, rigged.tokens, TOKENS)));
        if (part > 0)
            assert_ok(put_rows(e, 1, 0, part, rows_a));
        assert_ok(put_rows(e, 1, part, at, rows_b));
        assert_ok(put_state(e, 1, at, state));
        assert_true(same(e, right, read_to(e, 1, rigged.tokens, TOKENS)));
        free(state.at);
        free(rows_a.at);
        free(rows_b.at);
        free(right);
    }
}

static void a_part_of_exported_rows_can_be_used(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    float *right = cold(e, rigged.tokens, 150, TOKENS);
    e->ops->reset(e, 0);
    read_to(e, 0, rigged.tokens, 150);
    bytes state = take_state(e, 0);
    read_to(e, 0, rigged.tokens, 200);
    bytes rows = take_rows(e, 0, 40, 200);
    /* the slot has [0, 90); rows [90, 150) come out of [40, 200) */
    assert_ok(e->ops->trim(e, 0, 90, NULL));
    assert_ok(e->ops->rows_import(e, 0, 40, 200, 90, 150, rows.at, rows.size, NULL));
    assert_int_equal(e->ops->length(e, 0), 150);
    assert_ok(put_state(e, 0, 150, state));
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, TOKENS)));
    free(state.at);
    free(rows.at);
    free(right);
}

static void a_state_of_other_tokens_changes_the_answer(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    float *right = cold(e, rigged.tokens, 100, 130), most = 0;
    e->ops->reset(e, 1);
    read_to(e, 1, rigged.tokens + 3, 100);
    bytes wrong = take_state(e, 1);
    e->ops->reset(e, 0);
    read_to(e, 0, rigged.tokens, 100);
    assert_ok(put_state(e, 0, 100, wrong));
    const float *now = read_to(e, 0, rigged.tokens, 130);
    for (uint32_t i = 0; i < rigged.vocab; i++) {
        float d = right[i] > now[i] ? right[i] - now[i] : now[i] - right[i];
        most = d > most ? d : most;
    }
    contract_control("engine", most, 0);
    free(wrong.at);
    free(right);
}

static float distance(const float *a, const float *b)
{
    float most = 0;
    for (uint32_t i = 0; i < rigged.vocab; i++)
        most = fabsf(a[i] - b[i]) > most ? fabsf(a[i] - b[i]) : most;
    return most;
}

/* In one context they are computed at once: right, but not bit for bit. */
static void several_slots_in_one_decode_equal_one_at_a_time(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    float *a = cold(e, rigged.tokens, 0, 40), *b = cold(e, rigged.tokens + 9, 0, 7);
    e->ops->reset(e, 0);
    e->ops->reset(e, 1);
    cairn_piece pieces[2] = {{0, 0, rigged.tokens, 40, CAIRN_LOGITS_LAST, false},
                             {1, 0, rigged.tokens + 9, 7, CAIRN_LOGITS_ALL, false}};
    assert_ok(e->ops->decode(e, pieces, 2, NULL));
    assert_int_equal(e->info.batch_alone, in_one_context);
    if (in_one_context) {
        assert_true(distance(a, e->ops->logits(e, 0, 39)) < 0.1f);
        assert_true(distance(b, e->ops->logits(e, 1, 6)) < 0.1f);
    } else {
        assert_true(same(e, a, e->ops->logits(e, 0, 39)));
        assert_true(same(e, b, e->ops->logits(e, 1, 6)));
    }
    assert_non_null(e->ops->logits(e, 1, 0));
    assert_null(e->ops->logits(e, 0, 0));
    assert_null(e->ops->logits(e, 2, 0));
    assert_null(e->ops->logits(e, 1, 7));
    free(a);
    free(b);
}

static void whole_states_are_exact_too(void **unused)
{
    (void)unused;
    cairn_llama_options o = usual_options();
    o.whole_states = true;
    cairn_engine *e = start(&o);
    float *right = cold(e, rigged.tokens, 100, TOKENS);
    assert_int_equal(e->ops->rows_size(e, 0, 100).bytes, 0);
    read_to(e, 0, rigged.tokens, 100);
    bytes state = take_state(e, 0), rows = take_rows(e, 0, 0, 100);
    read_to(e, 0, rigged.tokens, 200);
    assert_ok(e->ops->trim(e, 0, 100, NULL));
    assert_status(decode(e, 0, rigged.tokens, 1), CAIRN_ENGINE);
    assert_ok(put_state(e, 0, 100, state));
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, TOKENS)));
    assert_ok(put_rows(e, 1, 0, 100, rows));
    assert_ok(put_state(e, 1, 100, state));
    assert_true(same(e, right, read_to(e, 1, rigged.tokens, TOKENS)));
    free(state.at);
    free(rows.at);
    free(right);
    e->ops->free(e);
}

/* --- random histories ---------------------------------------------------------------------------------- */

enum { KEPT = 6, LENGTH = 160, GRID = 32, STEPS = 60 };

/* A conversation that was read before: its tokens, and what was kept of it at multiples of GRID. */
typedef struct known {
    cairn_token tokens[LENGTH];
    uint32_t length;
    uint32_t parts; /* states and rows of [i * GRID, (i + 1) * GRID) */
    bytes states[LENGTH / GRID], rows[LENGTH / GRID];
} known;

static uint64_t random_state;

static uint32_t below(uint32_t bound)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t x = random_state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) % bound);
}

static void forget(known *k)
{
    for (uint32_t i = 0; i < k->parts; i++) {
        free(k->states[i].at);
        free(k->rows[i].at);
    }
    memset(k, 0, sizeof *k);
}

/* Read to `length` in pieces that end at multiples of GRID, keeping states and rows. */
static void read_and_keep(cairn_engine *e, uint32_t slot, known *k, uint32_t length)
{
    for (uint32_t at = e->ops->length(e, slot); at < length; at = e->ops->length(e, slot)) {
        uint32_t next = (at / GRID + 1) * GRID < length ? (at / GRID + 1) * GRID : length;
        assert_ok(decode(e, slot, k->tokens + at, next - at));
        if (next % GRID == 0 && k->parts == next / GRID - 1) {
            k->states[k->parts] = take_state(e, slot);
            k->rows[k->parts] = take_rows(e, slot, next - GRID, next);
            k->parts++;
        }
    }
}

static bytes copy_of(bytes b)
{
    bytes copy = {malloc(b.size), b.size};
    memcpy(copy.at, b.at, b.size);
    return copy;
}

/* A new conversation that shares a beginning with `old`; what was kept of that is shared, too. */
static void edit(known *new, const known *old)
{
    uint32_t same_tokens = old->length ? below(old->length) : 0;
    memset(new, 0, sizeof *new);
    new->length = 2 + below(LENGTH - 2);
    for (uint32_t i = 0; i < new->length; i++)
        new->tokens[i] = i < same_tokens ? old->tokens[i] : (cairn_token)below(rigged.vocab);
    while (new->parts < old->parts && (new->parts + 1) * GRID <= same_tokens &&
           (new->parts + 1) * GRID < new->length) {
        new->states[new->parts] = copy_of(old->states[new->parts]);
        new->rows[new->parts] = copy_of(old->rows[new->parts]);
        new->parts++;
    }
}

/* Fill the slot up to part `parts` of k: what it holds already (`held` tokens of k's path) stays, or all is moved in. */
static void restore(cairn_engine *e, uint32_t slot, const known *k, uint32_t held)
{
    uint32_t parts = k->parts, at = held / GRID < parts ? held / GRID : parts;
    if (parts == 0 || below(4) == 0) {
        e->ops->reset(e, slot);
        at = 0;
    } else
        assert_ok(e->ops->trim(e, slot, at * GRID, NULL));
    for (uint32_t i = at; i < parts; i++)
        assert_ok(put_rows(e, slot, i * GRID, (i + 1) * GRID, k->rows[i]));
    if (parts > 0)
        assert_ok(put_state(e, slot, parts * GRID, k->states[parts - 1]));
}

/* What else happens to a slot: answers decoded one by one, a wrong state, an interrupt. */
static void disturb(cairn_engine *e, uint32_t slot)
{
    uint32_t what = below(4);
    if (what == 0)
        for (uint32_t i = 0; i < 5; i++) {
            cairn_token token = (cairn_token)below(rigged.vocab);
            assert_ok(decode(e, slot, &token, 1));
        }
    if (what == 1) {
        uint8_t junk[16] = {0};
        assert_status(e->ops->state_set(e, slot, e->ops->length(e, slot), junk, sizeof junk, NULL),
                      CAIRN_CORRUPT);
        assert_int_equal(e->ops->length(e, slot), 0);
    }
    if (what == 2) {
        uint32_t length = e->ops->length(e, slot);
        e->ops->interrupt(e);
        assert_status(decode(e, slot, rigged.tokens, 40), CAIRN_CANCELLED);
        e->ops->resume_work(e);
        assert_int_equal(e->ops->length(e, slot), length);
    }
}

static void random_histories_equal_cold_runs(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    static known kept[KEPT], now;
    static cairn_token live[2][CONTEXT];
    uint32_t hits = 0;
    random_state = cairn_test_seed("random_histories_equal_cold_runs", 7);
    e->ops->reset(e, 0);
    e->ops->reset(e, 1);
    uint32_t step = 0; /* as many more as it takes, whatever the seed, until enough of them resume */
    for (; step < STEPS || (hits <= STEPS / 4 && step < 4 * STEPS); step++) {
        uint32_t slot = below(2), into = below(KEPT), held = 0;
        edit(&now, &kept[below(KEPT)]);
        while (held < e->ops->length(e, slot) && held < now.length && live[slot][held] == now.tokens[held])
            held++;
        hits += now.parts > 0;
        restore(e, slot, &now, held);
        read_and_keep(e, slot, &now, now.length);
        uint32_t last = (now.length - 1) % GRID;
        float *answer = malloc(rigged.vocab * sizeof *answer);
        memcpy(answer, e->ops->logits(e, 0, last), rigged.vocab * sizeof *answer);
        e->ops->reset(e, COLD);
        known again = {.length = now.length};
        memcpy(again.tokens, now.tokens, sizeof now.tokens);
        again.parts = LENGTH; /* keep nothing */
        read_and_keep(e, COLD, &again, now.length);
        if (!same(e, answer, e->ops->logits(e, 0, last)))
            fail_msg("step %u: %u tokens, %u of them resumed, differ from a cold run", step, now.length,
                     now.parts * GRID);
        free(answer);
        memcpy(live[slot], now.tokens, sizeof now.tokens);
        for (uint32_t i = now.length; i < CONTEXT; i++)
            live[slot][i] = -1; /* whatever is decoded behind is not part of the path */
        disturb(e, slot);
        forget(&kept[into]);
        kept[into] = now;
    }
    printf("%u of %u requests resumed\n", hits, step);
    assert_true(hits > STEPS / 4);
    for (uint32_t i = 0; i < KEPT; i++)
        forget(&kept[i]);
}

/* --- failures ------------------------------------------------------------------------------------------ */

static void wrong_calls_change_nothing(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    cairn_token outside = (cairn_token)rigged.vocab;
    e->ops->reset(e, 0);
    float *right = cold(e, rigged.tokens, 10, 20);
    read_to(e, 0, rigged.tokens, 10);
    cairn_piece pieces[2] = {{0, 9, rigged.tokens, 1, CAIRN_LOGITS_LAST, false},
                             {0, 10, rigged.tokens, 1, CAIRN_LOGITS_LAST, false}};
    assert_status(e->ops->decode(e, pieces, 1, NULL), CAIRN_INVALID);
    pieces[0] = pieces[1];
    assert_status(e->ops->decode(e, pieces, 2, NULL), CAIRN_INVALID);
    assert_status(e->ops->decode(e, pieces, 0, NULL), CAIRN_INVALID);
    assert_status(decode(e, 0, &outside, 1), CAIRN_INVALID);
    outside = -1;
    assert_status(decode(e, 0, &outside, 1), CAIRN_INVALID);
    pieces[0] = (cairn_piece){9, 0, rigged.tokens, 1, CAIRN_LOGITS_LAST, false};
    assert_status(e->ops->decode(e, pieces, 1, NULL), CAIRN_INVALID);
    pieces[0] = (cairn_piece){0, 10, rigged.tokens, BATCH + 1, CAIRN_LOGITS_LAST, false};
    assert_status(e->ops->decode(e, pieces, 1, NULL), CAIRN_INVALID);
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, 20)));
    free(right);
}

static void a_slot_holds_exactly_its_tokens(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    static cairn_token many[CONTEXT + 1];
    for (uint32_t i = 0; i <= CONTEXT; i++)
        many[i] = (cairn_token)(i % rigged.vocab);
    e->ops->reset(e, 0);
    read_to(e, 0, many, CONTEXT);
    cairn_error error;
    cairn_piece piece = {0, CONTEXT, many, 1, CAIRN_LOGITS_LAST, true};
    assert_status(e->ops->decode(e, &piece, 1, &error), CAIRN_LIMIT);
    assert_non_null(strstr(error.detail, "513"));
    assert_int_equal(e->ops->length(e, 0), CONTEXT);
    bytes rows = take_rows(e, 0, 0, CONTEXT), state = take_state(e, 0);
    e->ops->reset(e, 0);
    assert_ok(put_rows(e, 0, 0, CONTEXT, rows)); /* a full slot can be put back */
    assert_ok(put_state(e, 0, CONTEXT, state));
    free(rows.at);
    free(state.at);
    e->ops->reset(e, 0);
}

static void a_state_of_another_length_or_size_is_refused(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    float *right = cold(e, rigged.tokens, 0, 30);
    e->ops->reset(e, 0);
    read_to(e, 0, rigged.tokens, 30);
    bytes state = take_state(e, 0);
    read_to(e, 0, rigged.tokens, 40);
    assert_ok(e->ops->trim(e, 0, 31, NULL));
    assert_status(put_state(e, 0, 31, state), CAIRN_CORRUPT);
    assert_int_equal(e->ops->length(e, 0), 0);
    read_to(e, 0, rigged.tokens, 30);
    state.size--;
    assert_status(put_state(e, 0, 30, state), CAIRN_CORRUPT);
    state.size++;
    read_to(e, 0, rigged.tokens, 30);
    state.at[0] ^= 1; /* libllama's own mark */
    assert_status(put_state(e, 0, 30, state), CAIRN_CORRUPT);
    assert_int_equal(e->ops->length(e, 0), 0);
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, 30)));
    free(state.at);
    free(right);
}

static void damaged_rows_are_refused_and_the_slot_is_empty(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    float *right = cold(e, rigged.tokens, 0, 30);
    e->ops->reset(e, 0);
    read_to(e, 0, rigged.tokens, 30);
    bytes rows = take_rows(e, 0, 0, 30);
    e->ops->reset(e, 0);
    rows.size--;
    assert_status(put_rows(e, 0, 0, 30, rows), CAIRN_CORRUPT);
    rows.size++;
    rows.at[0] ^= 1;
    assert_status(put_rows(e, 0, 0, 30, rows), CAIRN_CORRUPT);
    assert_int_equal(e->ops->length(e, 0), 0);
    assert_status(put_rows(e, 0, 5, 35, rows), CAIRN_INVALID);
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, 30)));
    free(rows.at);
    free(right);
}

/* NaN in a cell: the request fails, and after a reset nothing is left of it. */
static void nan_is_an_error_and_leaves_no_trace(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    cairn_error error;
    float *right = cold(e, rigged.tokens, 100, 150);
    e->ops->reset(e, 0);
    read_to(e, 0, rigged.tokens, 100);
    bytes state = take_state(e, 0), poisoned = copy_of(state);
    memset(poisoned.at + poisoned.size - 256, 0xff, 256); /* the end of the last layer's cell */
    assert_ok(put_state(e, 0, 100, poisoned));
    cairn_piece piece = {0, 100, rigged.tokens + 100, 20, CAIRN_LOGITS_LAST, true};
    assert_status(e->ops->decode(e, &piece, 1, &error), CAIRN_ENGINE);
    assert_non_null(strstr(error.detail, "NaN"));
    assert_status(decode(e, 0, rigged.tokens, 1), CAIRN_ENGINE); /* until reset */
    e->ops->reset(e, 0);
    read_to(e, 0, rigged.tokens, 100);
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, 150)));
    free(state.at);
    free(poisoned.at);
    free(right);
}

/* NaN that nobody saw: some kernels swallow it, and libllama starts new sequences from what the cell held, times 0. */
static void nan_that_was_never_noticed_does_not_reach_the_next_sequence(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    float *right = cold(e, rigged.tokens, 0, 50);
    e->ops->reset(e, 0);
    read_to(e, 0, rigged.tokens, 100);
    bytes poisoned = take_state(e, 0);
    memset(poisoned.at + poisoned.size - 256, 0xff, 256);
    assert_ok(put_state(e, 0, 100, poisoned));
    e->ops->reset(e, 0);
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, 50)));
    assert_ok(e->ops->trim(e, 0, 0, NULL));
    read_to(e, 0, rigged.tokens, 100);
    assert_ok(put_state(e, 0, 100, poisoned));
    assert_ok(e->ops->trim(e, 0, 0, NULL)); /* the other way to empty a slot */
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, 50)));
    free(poisoned.at);
    free(right);
}

static void *interrupt_soon(void *engine)
{
    cairn_engine *e = engine;
    e->ops->interrupt(e);
    return NULL;
}

static void an_interrupt_from_another_thread_keeps_the_rows_before(void **unused)
{
    (void)unused;
    cairn_engine *e = rigged.engine;
    float *right = cold(e, rigged.tokens, 64, 130);
    e->ops->reset(e, 0);
    e->ops->reset(e, 1);
    read_to(e, 0, rigged.tokens, 64);
    bytes state = take_state(e, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, e), 0);
    cairn_status status = CAIRN_OK;
    while (status == CAIRN_OK) { /* until it is noticed, wherever that is */
        e->ops->trim(e, 0, 64, NULL);
        assert_ok(put_state(e, 0, 64, state));
        cairn_piece pieces[2] = {{0, 64, rigged.tokens + 64, 64, CAIRN_LOGITS_NONE, false},
                                 {1, 0, rigged.tokens, 64, CAIRN_LOGITS_NONE, false}};
        e->ops->reset(e, 1);
        status = e->ops->decode(e, pieces, 2, NULL);
    }
    pthread_join(thread, NULL);
    assert_status(status, CAIRN_CANCELLED);
    assert_int_equal(e->ops->length(e, 0), 64);
    assert_int_equal(e->ops->length(e, 1), 0);
    e->ops->resume_work(e);
    assert_ok(put_state(e, 0, 64, state));
    assert_true(same(e, right, read_to(e, 0, rigged.tokens, 130)));
    free(state.at);
    free(right);
}

/* --- making one ---------------------------------------------------------------------------------------- */

static void expect_refused(const cairn_llama_options *options, cairn_status status, const char *word)
{
    cairn_engine *engine = NULL;
    cairn_error error;
    assert_status(cairn_llama_new(options, cairn_mem_default(), &engine, &error), status);
    assert_null(engine);
    if (!strstr(error.detail, word))
        fail_msg("\"%s\" does not mention \"%s\"", error.detail, word);
}

/* A model file of these bytes. Under a name of this process's own: the program runs twice, with and without `shared`. */
static void expect_file_refused(const void *content, size_t size, cairn_status status, const char *word)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/models/refused.%ld.gguf", CAIRN_BUILD_DIR, (long)getpid());
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, size, file), size);
    fclose(file);
    cairn_llama_options o = usual_options();
    o.model.path = path;
    expect_refused(&o, status, word);
    remove(path);
}

static void bad_model_files_are_explained(void **unused)
{
    (void)unused;
    /* no tensors, and one key: general.architecture */
    static const char foreign[] =
        "GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0general.architecture"
        "\x08\0\0\0\x07\0\0\0\0\0\0\0zeppeli";
    cairn_llama_options o = usual_options();
    o.model.path = CAIRN_BUILD_DIR "/models/nowhere.gguf";
    expect_refused(&o, CAIRN_NOTFOUND, "nowhere.gguf");
    o.model.path = CAIRN_BUILD_DIR "/models";
    expect_refused(&o, CAIRN_INVALID, "folder");
    expect_file_refused("# a page\n", 9, CAIRN_CORRUPT, "not a GGUF");
    expect_file_refused("", 0, CAIRN_CORRUPT, "not a GGUF");
    expect_file_refused(foreign, sizeof foreign - 1, CAIRN_UNSUPPORTED, "zeppeli");
    static char part[200000];
    FILE *file = fopen(contract_model_path("qwen35", "tiny"), "rb");
    assert_int_equal(fread(part, 1, sizeof part, file), sizeof part);
    fclose(file);
    expect_file_refused(part, sizeof part, CAIRN_CORRUPT, "damaged or cut short");
    expect_file_refused(part, 40, CAIRN_CORRUPT, "damaged or cut short");
}

static bool stop_at_once(void *ctx, float part)
{
    (void)ctx;
    (void)part;
    return false;
}

static void bad_options_are_explained(void **unused)
{
    (void)unused;
    cairn_llama_options o = usual_options();
    o.type_k = "q9";
    expect_refused(&o, CAIRN_INVALID, "q9");
    o = usual_options();
    o.slots = 2000;
    expect_refused(&o, CAIRN_INVALID, "slots");
    o = usual_options();
    o.type_v = "q8_0";
    o.flash = CAIRN_LLAMA_FLASH_OFF;
    expect_refused(&o, CAIRN_INVALID, "flash");
    o = usual_options();
    o.model.progress = stop_at_once;
    expect_refused(&o, CAIRN_CANCELLED, "stopped");
}

static void no_memory_at_any_allocation_is_an_error(void **unused)
{
    (void)unused;
    cairn_llama_options o = usual_options();
    o.slots = 1;
    o.slot_tokens_max = 256;
    for (uint64_t nth = 1; nth < 100; nth++) {
        cairn_mem_test heap;
        cairn_engine *engine = NULL;
        cairn_mem_test_init(&heap, nth);
        cairn_status status = cairn_llama_new(&o, &heap.mem, &engine, NULL);
        if (status == CAIRN_OK)
            engine->ops->free(engine);
        else
            assert_status(status, CAIRN_NOMEM);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
        if (status == CAIRN_OK)
            return;
    }
    fail_msg("never enough memory");
}

int main(int argc, char **argv)
{
    in_one_context = argc > 1 && strcmp(argv[1], "shared") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_of_a_hybrid_model),
        cmocka_unit_test(fingerprints_follow_model_and_settings),
        cmocka_unit_test(a_resume_in_place_and_elsewhere_equals_cold),
        cmocka_unit_test(a_part_of_exported_rows_can_be_used),
        cmocka_unit_test(a_state_of_other_tokens_changes_the_answer),
        cmocka_unit_test(several_slots_in_one_decode_equal_one_at_a_time),
        cmocka_unit_test(whole_states_are_exact_too),
        cmocka_unit_test(random_histories_equal_cold_runs),
        cmocka_unit_test(wrong_calls_change_nothing),
        cmocka_unit_test(a_slot_holds_exactly_its_tokens),
        cmocka_unit_test(a_state_of_another_length_or_size_is_refused),
        cmocka_unit_test(damaged_rows_are_refused_and_the_slot_is_empty),
        cmocka_unit_test(nan_is_an_error_and_leaves_no_trace),
        cmocka_unit_test(nan_that_was_never_noticed_does_not_reach_the_next_sequence),
        cmocka_unit_test(an_interrupt_from_another_thread_keeps_the_rows_before),
        cmocka_unit_test(bad_model_files_are_explained),
        cmocka_unit_test(bad_options_are_explained),
        cmocka_unit_test(no_memory_at_any_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
