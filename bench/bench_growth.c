/*
 * bench_growth - how time, memory and lookup grow with the length of a conversation and with how many are kept.
 *
 * The engine is the replica, which computes nothing, so that the times are cairn's own, and lengths and counts go
 * beyond what a machine could read through a model. Only the cache is told of an engine that takes 0.3 ms a token. Prints CSV lines `growth,SERIES,X,Y,UNIT`:
 *
 *   length   one conversation of X tokens, 1 k to 128 k: reading it, planning an edit near its end, memory
 *   count    X conversations of 1,200 tokens that share a beginning, 1 to 10,000: the same for one more
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cairn/cairn.h"
#include "engine/engine_replica.h"

enum {
    LENGTH_MAX = 131072,
    COUNT_MAX = 10000,
    PATH_TOKENS = 1200,
    SHARED_TOKENS = 200,
    MESSAGE_TOKENS = 400,
    VOCAB = 32000,
    ROUNDS = 31,
    COLD_ROUNDS = 5
};

typedef struct world {
    cairn_engine *engine;
    cairn_cache *cache;
    cairn_rng rng;
    uint64_t engine_ns; /* what the engine would have taken; only the cache sees it */
} world;

static void must(cairn_status status, const cairn_error *error, const char *what)
{
    if (status == CAIRN_OK)
        return;
    (void)fprintf(stderr, "bench_growth: %s: %s %s\n", what, cairn_status_message(status), error->detail);
    exit(1);
}

static uint64_t now_ns(void)
{
    return cairn_clock_now_ns(cairn_clock_system());
}

/* The time as the cache sees it: with an engine that takes its time. */
static uint64_t cache_now_ns(void *ctx)
{
    const world *w = ctx;
    return now_ns() + w->engine_ns;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void open_world(world *w)
{
    cairn_replica_options replica;
    cairn_replica_defaults(&replica);
    replica.slots = 1;
    replica.slot_tokens_max = LENGTH_MAX + 1024;
    replica.batch_tokens_max = 512;
    replica.vocab_size = VOCAB;
    replica.logits_rows_max = 1;
    replica.trim = CAIRN_TRIM_NEVER;
    replica.state_bytes = 256;
    replica.row_bytes = 16;
    replica.light = true;
    replica.rows_move = true;
    replica.cost = (cairn_replica_cost){.token_ns = 300000, .state_call_ns = 1000000};
    replica.clock_ns = &w->engine_ns;
    w->engine_ns = 0;
    cairn_error error = {0};
    must(cairn_replica_new(&replica, cairn_mem_default(), &w->engine, &error), &error, "engine");
    cairn_cache_options options = {.ram_bytes_max = UINT64_C(4) << 30, .now_ns = cache_now_ns, .now_ctx = w};
    must(cairn_cache_new(cairn_mem_default(), w->engine, &options, &w->cache, &error), &error, "cache");
    cairn_rng_init(&w->rng, 7);
}

static void close_world(world *w)
{
    cairn_cache_free(w->cache);
    w->engine->ops->free(w->engine);
}

static void words(world *w, cairn_token *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (cairn_token)cairn_rng_below(&w->rng, VOCAB);
}

/* A prompt whose messages have MESSAGE_TOKENS tokens each; `boundaries` has room for them. */
static cairn_prompt prompt_of(const cairn_token *tokens, uint32_t count, cairn_boundary *boundaries)
{
    uint32_t used = 0;
    for (uint32_t at = 0; at < count; at += MESSAGE_TOKENS) {
        boundaries[used++] =
            (cairn_boundary){.position = at,
                             .message = at / MESSAGE_TOKENS,
                             .kinds = CAIRN_BOUNDARY_MESSAGE_START,
                             .role = (uint8_t)(at == 0                          ? CAIRN_ROLE_SYSTEM
                                               : (at / MESSAGE_TOKENS) % 2 == 1 ? CAIRN_ROLE_USER
                                                                                : CAIRN_ROLE_ASSISTANT)};
    }
    return (cairn_prompt){
        .tokens = tokens, .count = count, .boundaries = boundaries, .count_boundaries = used};
}

/* Read a prompt to its end. Gives the time of planning alone, and of all of it; returns the tokens read. */
static uint32_t ask(world *w, const cairn_prompt *prompt, uint64_t *ret_plan_ns, uint64_t *ret_all_ns)
{
    cairn_request *request;
    cairn_error error = {0};
    uint64_t begin = now_ns();
    must(cairn_cache_begin(w->cache, prompt, &request, &error), &error, "begin");
    *ret_plan_ns = now_ns() - begin;
    while (cairn_request_phase(request) != CAIRN_PHASE_READY)
        must(cairn_cache_step(w->cache, &request, 1, &error), &error, "step");
    cairn_cache_end(w->cache, request, CAIRN_END_DONE);
    *ret_all_ns = now_ns() - begin;
    uint32_t read = cairn_request_record(request)->read;
    cairn_request_free(request);
    return read;
}

static void print_line(const char *group, const char *series, uint32_t x, double y, const char *unit)
{
    (void)printf("growth,%s: %s,%u,%.5f,%s\n", group, series, x, y, unit);
}

/* Ask for prompts that differ from the last one near the end; the medians. */
static void ask_edits(world *w, cairn_token *tokens, uint32_t count, cairn_boundary *boundaries,
                      const char *group, uint32_t x)
{
    uint64_t plan[ROUNDS], all[ROUNDS], read[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        words(w, tokens + count - 300, 300);
        cairn_prompt prompt = prompt_of(tokens, count, boundaries);
        read[i] = ask(w, &prompt, &plan[i], &all[i]);
    }
    qsort(plan, ROUNDS, sizeof plan[0], by_value);
    qsort(all, ROUNDS, sizeof all[0], by_value);
    qsort(read, ROUNDS, sizeof read[0], by_value);
    print_line(group, "lookup and plan of an edit", x, (double)plan[ROUNDS / 2] * 1e-6, "ms");
    print_line(group, "serving the edit", x, (double)all[ROUNDS / 2] * 1e-6, "ms");
    print_line(group, "tokens read for an edit of 300", x, (double)read[ROUNDS / 2], "tokens");
}

static void grow_length(cairn_token *tokens, cairn_boundary *boundaries)
{
    for (uint32_t length = 1024; length <= LENGTH_MAX; length *= 2) {
        world w;
        uint64_t plan_ns, cold_ns[COLD_ROUNDS];
        for (uint32_t i = 0; i < COLD_ROUNDS; i++) {
            open_world(&w);
            words(&w, tokens, length);
            cairn_prompt prompt = prompt_of(tokens, length, boundaries);
            (void)ask(&w, &prompt, &plan_ns, &cold_ns[i]);
            if (i + 1 < COLD_ROUNDS)
                close_world(&w);
        }
        qsort(cold_ns, COLD_ROUNDS, sizeof cold_ns[0], by_value);
        print_line("length", "reading it cold", length, (double)cold_ns[COLD_ROUNDS / 2] * 1e-6, "ms");
        cairn_cache_stats stats;
        cairn_cache_stats_get(w.cache, &stats);
        print_line("length", "index", length, (double)stats.index_bytes / 1048576.0, "MiB");
        print_line("length", "states kept", length, (double)stats.states, "states");
        ask_edits(&w, tokens, length, boundaries, "length", length);
        close_world(&w);
    }
}

static void grow_count(cairn_token *tokens, cairn_boundary *boundaries)
{
    world w;
    open_world(&w);
    words(&w, tokens, SHARED_TOKENS);
    uint32_t next = 1, step = 0;
    for (uint32_t i = 1; i <= COUNT_MAX; i++) {
        uint64_t plan_ns, all_ns;
        words(&w, tokens + SHARED_TOKENS, PATH_TOKENS - SHARED_TOKENS);
        cairn_prompt prompt = prompt_of(tokens, PATH_TOKENS, boundaries);
        (void)ask(&w, &prompt, &plan_ns, &all_ns);
        if (i != next)
            continue;
        static const uint32_t steps[] = {3, 10, 30, 100, 300, 1000, 3000, 10000};
        next = step < sizeof steps / sizeof steps[0] ? steps[step++] : COUNT_MAX + 1;
        cairn_cache_stats stats;
        cairn_cache_stats_get(w.cache, &stats);
        print_line("count", "index", i, (double)stats.index_bytes / 1048576.0, "MiB");
        print_line("count", "all of the cache", i, (double)stats.ram_bytes / 1048576.0, "MiB");
        print_line("count", "index a token", i, (double)stats.index_bytes / (double)stats.tokens_known,
                   "bytes");
        ask_edits(&w, tokens, PATH_TOKENS, boundaries, "count", i);
    }
    close_world(&w);
}

int main(void)
{
    static cairn_token tokens[LENGTH_MAX];
    static cairn_boundary boundaries[LENGTH_MAX / MESSAGE_TOKENS + 1];
    grow_length(tokens, boundaries);
    grow_count(tokens, boundaries);
    return 0;
}
