/*
 * bench_engine - how fast the llama engine gives out and takes back what a cache keeps.
 *
 *   bench_engine MODEL [TOKENS [THREADS]]
 *
 * Reads TOKENS (16,384) tokens into one slot and prints CSV lines: taking and restoring a state against a memcpy of
 * as many bytes, by libllama alone and as the cache does it (its place in memory included); rows out and in against the
 * same; and switching between two conversations on one slot against reading one of them again. Each figure is a median;
 * its lowest and highest value follow. At last, what a call costs by its size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cache/mover.h"
#include "cairn/mem.h"
#include "engine/engine_llama.h"

enum { ROUNDS = 15, CALL_ROUNDS = 5, CALL_TOKENS_MAX = 4096, BATCH = 512 };

typedef struct bench {
    cairn_engine *engine;
    uint32_t tokens;
    cairn_token *paths[2];
    uint8_t *state[2], *rows[2], *copy;
    uint64_t state_bytes, rows_bytes[2], rows_room;
    double read_ms;
} bench;

static void must(cairn_status status, const cairn_error *error, const char *what)
{
    if (status == CAIRN_OK)
        return;
    (void)fprintf(stderr, "bench_engine: %s: %s %s\n", what, cairn_status_message(status), error->detail);
    exit(1);
}

static double now_ms(void)
{
    return (double)cairn_clock_now_ns(cairn_clock_system()) * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* One CSV line: group, what, median, unit, lowest, highest. */
static void print_some(const char *what, double *values, size_t count, const char *unit)
{
    qsort(values, count, sizeof values[0], by_value);
    (void)printf("engine,%s,%.4f,%s,%.4f,%.4f\n", what, values[count / 2], unit, values[0],
                 values[count - 1]);
}

static void print_line(const char *what, double *values, const char *unit)
{
    print_some(what, values, ROUNDS, unit);
}

static uint8_t *room(uint64_t bytes)
{
    uint8_t *got = cairn_mem_alloc(cairn_mem_default(), (size_t)bytes);
    cairn_error none = {0};
    must(got == NULL ? CAIRN_NOMEM : CAIRN_OK, &none, "memory");
    memset(got, 1, (size_t)bytes); /* the pages are there before anything is timed */
    return got;
}

/* Read a whole path into slot 0. */
static void read_path(bench *b, const cairn_token *tokens)
{
    cairn_error error = {0};
    b->engine->ops->reset(b->engine, 0);
    for (uint32_t at = 0; at < b->tokens; at += BATCH) {
        uint32_t count = b->tokens - at < BATCH ? b->tokens - at : BATCH;
        cairn_piece piece = {.slot = 0,
                             .begin = at,
                             .tokens = tokens + at,
                             .count = count,
                             .logits = at + count == b->tokens ? CAIRN_LOGITS_LAST : CAIRN_LOGITS_NONE};
        must(b->engine->ops->decode(b->engine, &piece, 1, &error), &error, "decode");
    }
}

static void save(bench *b, int which)
{
    cairn_error error = {0};
    if (b->state_bytes > 0)
        must(b->engine->ops->state_get(b->engine, 0, b->state[which], b->state_bytes, &error), &error,
             "state_get");
    if (b->rows_room > 0)
        must(b->engine->ops->rows_export(b->engine, 0, 0, b->tokens, b->rows[which], b->rows_room,
                                         &b->rows_bytes[which], &error),
             &error, "rows_export");
}

static void restore(bench *b, int which)
{
    cairn_error error = {0};
    b->engine->ops->reset(b->engine, 0);
    if (b->rows_room > 0)
        must(b->engine->ops->rows_import(b->engine, 0, 0, b->tokens, 0, b->tokens, b->rows[which],
                                         b->rows_bytes[which], &error),
             &error, "rows_import");
    if (b->state_bytes > 0)
        must(b->engine->ops->state_set(b->engine, 0, b->tokens, b->state[which], b->state_bytes, &error),
             &error, "state_set");
}

static void open_engine(bench *b, const char *path, uint32_t tokens, uint32_t threads)
{
    cairn_llama_options options;
    cairn_error error = {0};
    cairn_llama_defaults(&options);
    options.model.path = path;
    options.slot_tokens_max = tokens + 64;
    options.batch_tokens_max = BATCH;
    options.threads = threads;
    must(cairn_llama_new(&options, cairn_mem_default(), &b->engine, &error), &error, "the model");
    b->engine->info.rows_move = true;
    b->tokens = tokens;
    cairn_rng rng;
    cairn_rng_init(&rng, 1);
    for (int which = 0; which < 2; which++) {
        b->paths[which] = cairn_mem_array(cairn_mem_default(), tokens, sizeof(cairn_token));
        for (uint32_t i = 0; i < tokens; i++)
            b->paths[which][i] = (cairn_token)cairn_rng_below(&rng, b->engine->info.vocab_size - 1);
    }
}

static void time_reading(bench *b)
{
    double begin = now_ms();
    read_path(b, b->paths[0]);
    b->read_ms = now_ms() - begin;
    (void)printf("engine,reading %u tokens,%.1f,ms,%.1f,%.1f\n", b->tokens, b->read_ms, b->read_ms,
                 b->read_ms);
    b->state_bytes = b->engine->ops->state_size(b->engine, 0);
    b->rows_room = b->engine->ops->rows_size(b->engine, 0, b->tokens).buffer_bytes;
    uint64_t most = b->state_bytes > b->rows_room ? b->state_bytes : b->rows_room;
    for (int which = 0; which < 2; which++) {
        b->state[which] = room(b->state_bytes + 1);
        b->rows[which] = room(b->rows_room + 1);
    }
    b->copy = room(most + 1);
}

/* State out and in, each beside a memcpy of as many bytes, in turn. */
static void time_state(bench *b)
{
    double take[ROUNDS], put[ROUNDS], copy[ROUNDS], take_ratio[ROUNDS], put_ratio[ROUNDS];
    cairn_error error = {0};
    if (b->state_bytes == 0)
        return;
    double gb = (double)b->state_bytes * 1e-9;
    for (int i = -1; i < ROUNDS; i++) {
        double t0 = now_ms();
        memcpy(b->copy, b->state[1], (size_t)b->state_bytes);
        double t1 = now_ms();
        must(b->engine->ops->state_get(b->engine, 0, b->state[0], b->state_bytes, &error), &error,
             "state_get");
        double t2 = now_ms();
        must(b->engine->ops->state_set(b->engine, 0, b->tokens, b->state[0], b->state_bytes, &error), &error,
             "state_set");
        double t3 = now_ms();
        if (i < 0)
            continue;
        copy[i] = gb / (t1 - t0) * 1e3;
        take[i] = gb / (t2 - t1) * 1e3;
        put[i] = gb / (t3 - t2) * 1e3;
        take_ratio[i] = take[i] / copy[i];
        put_ratio[i] = put[i] / copy[i];
    }
    (void)printf("engine,a state's size,%.3f,MB,,\n", gb * 1e3);
    print_line("memcpy of a state", copy, "GB/s");
    print_line("taking a state", take, "GB/s");
    print_line("restoring a state", put, "GB/s");
    print_line("state out by libllama alone / memcpy", take_ratio, "ratio");
    print_line("state in by libllama alone / memcpy", put_ratio, "ratio");
}

/* The same as the cache does it: into a place of its own in memory, the oldest of three dropped; and out of it. */
static void time_kept(bench *b)
{
    double take[ROUNDS], put[ROUNDS];
    cairn_error error = {0};
    cairn_heap heap;
    cairn_mover mover = {.engine = b->engine};
    if (b->state_bytes == 0)
        return;
    cairn_heap_init(&heap, cairn_mem_default(), UINT64_C(1) << 40, 0);
    cairn_heap_spare(&heap, b->state_bytes, 2);
    must(cairn_tier_ram_new(&heap, &mover.ram, &error), &error, "a tier");
    while (cairn_heap_warm(&heap)) {
    }
    for (int i = -2; i < ROUNDS; i++) {
        cairn_mover_state state = {.length = b->tokens, .blob = (cairn_tier_id)(i + 10)};
        cairn_moved moved;
        double t0 = now_ms();
        memcpy(b->copy, b->state[1], (size_t)b->state_bytes);
        double t1 = now_ms();
        cairn_tier_ram_drop(mover.ram, state.blob - 3);
        must(cairn_mover_take(&mover, &state, UINT64_MAX, &moved, &error), &error, "take");
        double t2 = now_ms();
        must(cairn_mover_restore(&mover, &state, &moved, &error), &error, "restore");
        double t3 = now_ms();
        if (i < 0)
            continue;
        take[i] = (t1 - t0) / (t2 - t1);
        put[i] = (t1 - t0) / (t3 - t2);
    }
    print_line("taking a state / memcpy", take, "ratio");
    print_line("restoring a state / memcpy", put, "ratio");
    cairn_tier_ram_free(mover.ram);
    cairn_heap_release(&heap);
}

/* Rows out, and in again after a reset, beside a memcpy of as many bytes; then the state, and all of it together. */
static void time_rows(bench *b)
{
    double out[ROUNDS], in[ROUNDS], copy[ROUNDS], reset[ROUNDS], both[ROUNDS];
    cairn_error error = {0};
    if (b->rows_room == 0)
        return;
    save(b, 0);
    double gb = (double)b->rows_bytes[0] * 1e-9;
    for (int i = -1; i < ROUNDS; i++) {
        double t0 = now_ms();
        memcpy(b->copy, b->rows[1], (size_t)b->rows_bytes[0]);
        double t1 = now_ms();
        must(b->engine->ops->rows_export(b->engine, 0, 0, b->tokens, b->rows[0], b->rows_room,
                                         &b->rows_bytes[0], &error),
             &error, "rows_export");
        double t2 = now_ms();
        b->engine->ops->reset(b->engine, 0);
        double t3 = now_ms();
        must(b->engine->ops->rows_import(b->engine, 0, 0, b->tokens, 0, b->tokens, b->rows[0],
                                         b->rows_bytes[0], &error),
             &error, "rows_import");
        double t4 = now_ms();
        must(b->engine->ops->state_set(b->engine, 0, b->tokens, b->state[0], b->state_bytes, &error), &error,
             "state_set");
        double t5 = now_ms();
        if (i < 0)
            continue;
        copy[i] = gb / (t1 - t0) * 1e3;
        out[i] = gb / (t2 - t1) * 1e3;
        reset[i] = t3 - t2;
        in[i] = gb / (t4 - t3) * 1e3;
        both[i] = t5 - t1;
    }
    (void)printf("engine,rows of %u tokens,%.3f,MB,,\n", b->tokens, gb * 1e3);
    print_line("memcpy of the rows", copy, "GB/s");
    print_line("rows out", out, "GB/s");
    print_line("emptying the slot", reset, "ms");
    print_line("rows in", in, "GB/s");
    print_line("rows out and all in again", both, "ms");
}

/* One slot, two conversations: save one whole, put the other back whole. */
static void time_switching(bench *b)
{
    double ms[ROUNDS], ratio[ROUNDS];
    read_path(b, b->paths[1]);
    save(b, 1);
    restore(b, 0);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_ms();
        save(b, i % 2);
        restore(b, (i + 1) % 2);
        ms[i] = now_ms() - begin;
        ratio[i] = b->read_ms / ms[i];
    }
    print_line("switching to another conversation", ms, "ms");
    print_line("reading again / switching", ratio, "ratio");
}

/* What a call costs by its size, behind some thousand tokens: what a cut of the reading has to be worth. */
static void time_calls(bench *b)
{
    static const uint32_t sizes[] = {1, 8, 32, 48, 63, 64, 96, 128, 256, 512};
    cairn_error error = {0};
    uint32_t whole = b->tokens;
    b->tokens = (whole < CALL_TOKENS_MAX ? whole : CALL_TOKENS_MAX) - BATCH;
    read_path(b, b->paths[0]);
    if (b->state_bytes > 0)
        must(b->engine->ops->state_get(b->engine, 0, b->state[0], b->state_bytes, &error), &error, "state");
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        double ms[CALL_ROUNDS];
        char what[64];
        cairn_piece piece = {.begin = b->tokens, .tokens = b->paths[0] + b->tokens, .count = sizes[k]};
        for (int i = -1; i < CALL_ROUNDS; i++) {
            double begin = now_ms();
            must(b->engine->ops->decode(b->engine, &piece, 1, &error), &error, "decode");
            ms[i < 0 ? 0 : i] = now_ms() - begin;
            must(b->engine->ops->trim(b->engine, 0, b->tokens, &error), &error, "trim");
            if (b->state_bytes > 0)
                must(b->engine->ops->state_set(b->engine, 0, b->tokens, b->state[0], b->state_bytes, &error),
                     &error, "state");
        }
        (void)snprintf(what, sizeof what, "a call of %u tokens at %u", sizes[k], b->tokens);
        print_some(what, ms, CALL_ROUNDS, "ms");
    }
    b->tokens = whole;
}

int main(int argc, char **argv)
{
    static bench b;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_engine MODEL [TOKENS [THREADS]]\n");
        return 2;
    }
    uint32_t tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 16384;
    open_engine(&b, argv[1], tokens < 1024 ? 1024 : tokens,
                argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0);
    time_reading(&b);
    time_state(&b);
    time_kept(&b);
    time_rows(&b);
    time_switching(&b);
    time_calls(&b);
    b.engine->ops->free(b.engine);
    return 0;
}
