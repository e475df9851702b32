/*
 * bench_core - how long the core takes for one prompt among many, and what its index weighs.
 *
 * Prints one CSV line a case: the time of CAIRN_EVENT_REQUEST (lookup and plan) for a 128 k-token prompt that
 * parts from a known path near its end, among 10,000 cached paths, the median of 101; and the index's bytes
 * a token, with one path of a million tokens, and with the 10,000 paths. Then what it takes to choose and drop one blob
 * in a full cache of 10,000 and of 50,000 states.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "core/core.h"

enum { LONG = 131072, PATHS = 10000, PATH_TOKENS = 1200, MILLION = 1000000, BATCH = 512, ROUNDS = 101 };

static void check(bool fine, const char *what)
{
    if (!fine) {
        (void)fprintf(stderr, "bench_core: %s\n", what);
        exit(1);
    }
}

static const cairn_action *step(cairn_core *core, cairn_event event, uint32_t *ret_count)
{
    const cairn_action *list;
    check(cairn_core_step(core, &event, &list, ret_count, NULL) == CAIRN_OK, "an event was refused");
    return list;
}

/* Report what a list asks to store as stored. */
static void store(cairn_core *core, const cairn_action *list, uint32_t count)
{
    cairn_event stored[64];
    uint32_t events = 0;
    for (uint32_t i = 0; i < count && events < 64; i++) {
        if (list[i].kind == CAIRN_ACTION_TAKE || list[i].kind == CAIRN_ACTION_SAVE_ROWS) {
            stored[events++] = (cairn_event){
                .kind = CAIRN_EVENT_STORED, .blob = list[i].blob, .bytes = list[i].bytes, .cost_ns = 1000};
        }
    }
    for (uint32_t i = 0; i < events; i++) {
        (void)step(core, stored[i], &count);
    }
}

static void ask(cairn_core *core, const cairn_prompt *prompt, cairn_request_id id, uint64_t now_ns)
{
    uint32_t count;
    const cairn_action *list = step(core,
                                    (cairn_event){.kind = CAIRN_EVENT_REQUEST,
                                                  .request = id,
                                                  .prompt = prompt,
                                                  .slot = CAIRN_SLOT_ANY,
                                                  .now_ns = now_ns},
                                    &count);
    uint32_t end = list[count - 1].end;
    bool ready = list[count - 1].kind == CAIRN_ACTION_READY;
    store(core, list, count);
    (void)step(core, (cairn_event){.kind = CAIRN_EVENT_RESUMED, .request = id}, &count);
    while (!ready) {
        list = step(core,
                    (cairn_event){.kind = CAIRN_EVENT_READ,
                                  .request = id,
                                  .position = end,
                                  .cost_ns = 1000000,
                                  .now_ns = now_ns},
                    &count);
        end = list[count - 1].end;
        ready = list[count - 1].kind == CAIRN_ACTION_READY;
        store(core, list, count);
    }
    (void)step(core, (cairn_event){.kind = CAIRN_EVENT_FINISH, .request = id, .now_ns = now_ns}, &count);
}

static cairn_core_options options(uint32_t slot_tokens_max)
{
    return (cairn_core_options){.ram_bytes_max = UINT64_C(64) << 30,
                                .slots = 1,
                                .slot_tokens_max = slot_tokens_max,
                                .batch_tokens_max = BATCH,
                                .trim = CAIRN_TRIM_NEVER,
                                .rows_move = true,
                                .state_bytes_max = 1 << 16,
                                .row_bytes = 1000,
                                .read_ns_token = 1e6,
                                .take_ns = 1e5,
                                .restore_ns = 1e5,
                                .move_ns_byte = 0.001};
}

static cairn_core *make(uint32_t slot_tokens_max)
{
    cairn_core_options o = options(slot_tokens_max);
    cairn_core *core;
    check(cairn_core_new(cairn_mem_default(), &o, &core, NULL) == CAIRN_OK, "no core");
    return core;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void words(cairn_rng *rng, cairn_token *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = (cairn_token)cairn_rng_below(rng, 150000);
    }
}

static void bench_lookup(void)
{
    static cairn_token tokens[LONG + 64];
    cairn_rng rng;
    cairn_rng_init(&rng, 1);
    cairn_core *core = make(LONG + 1024);
    cairn_request_id id = 0;
    words(&rng, tokens, PATH_TOKENS);
    for (uint32_t i = 0; i < PATHS; i++) { /* they share a beginning */
        words(&rng, tokens + 200, PATH_TOKENS - 200);
        cairn_prompt prompt = {.tokens = tokens, .count = PATH_TOKENS};
        id++;
        ask(core, &prompt, id, id * 1000000);
    }
    words(&rng, tokens, LONG);
    cairn_prompt prompt = {.tokens = tokens, .count = LONG};
    id++;
    ask(core, &prompt, id, id * 1000000);
    uint64_t times[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        tokens[LONG - 700] = (cairn_token)(200000 + i);
        uint32_t count;
        id++;
        uint64_t begin = cairn_clock_now_ns(cairn_clock_system());
        const cairn_action *list = step(core,
                                        (cairn_event){.kind = CAIRN_EVENT_REQUEST,
                                                      .request = id,
                                                      .prompt = &prompt,
                                                      .slot = CAIRN_SLOT_ANY,
                                                      .now_ns = id * 1000000},
                                        &count);
        times[i] = cairn_clock_now_ns(cairn_clock_system()) - begin;
        store(core, list, count);
        (void)step(core, (cairn_event){.kind = CAIRN_EVENT_RESUMED, .request = id}, &count);
        (void)step(core, (cairn_event){.kind = CAIRN_EVENT_FINISH, .request = id, .now_ns = id * 1000000},
                   &count);
    }
    qsort(times, ROUNDS, sizeof times[0], by_value);
    cairn_core_stats stats;
    cairn_core_stats_get(core, &stats);
    (void)printf("core,lookup and plan of %u tokens among %u paths,%.3f,ms\n", LONG, PATHS,
                 (double)times[ROUNDS / 2] * 1e-6);
    (void)printf("core,index with %llu tokens in %u paths,%.2f,bytes a token\n",
                 (unsigned long long)stats.tokens, PATHS, (double)stats.index_bytes / (double)stats.tokens);
    cairn_core_free(core);
}

static void bench_index(void)
{
    cairn_token *tokens = cairn_mem_array(cairn_mem_default(), MILLION, sizeof *tokens);
    check(tokens != NULL, "no memory");
    cairn_rng rng;
    cairn_rng_init(&rng, 2);
    words(&rng, tokens, MILLION);
    cairn_core *core = make(MILLION + 1024);
    cairn_prompt prompt = {.tokens = tokens, .count = MILLION};
    ask(core, &prompt, 1, 1);
    cairn_core_stats stats;
    cairn_core_stats_get(core, &stats);
    (void)printf("core,index with one path of %u tokens and %llu states,%.2f,bytes a token\n", MILLION,
                 (unsigned long long)stats.states, (double)stats.index_bytes / (double)stats.tokens);
    cairn_core_free(core);
    cairn_mem_array_release(cairn_mem_default(), tokens, MILLION, sizeof *tokens);
}

/* A full cache of about `states` states: what one more costs, with the choice of what goes for it. */
static void bench_drop(uint32_t states)
{
    enum { PROMPT = 2048, ROUND = 24 };
    static cairn_token tokens[PROMPT];
    cairn_rng rng;
    cairn_rng_init(&rng, 3);
    cairn_core_options o = options(PROMPT + 64);
    o.ram_bytes_max = (uint64_t)states * (o.state_bytes_max + 8192);
    o.row_bytes = 4;
    cairn_core *core;
    check(cairn_core_new(cairn_mem_default(), &o, &core, NULL) == CAIRN_OK, "no core");
    words(&rng, tokens, PROMPT);
    cairn_core_stats stats = {0};
    cairn_request_id id = 0;
    while (stats.drops_states == 0 && id < states) {
        words(&rng, tokens + 200, PROMPT - 200);
        cairn_prompt prompt = {.tokens = tokens, .count = PROMPT};
        id++;
        ask(core, &prompt, id, id * 1000000000);
        cairn_core_stats_get(core, &stats);
    }
    uint64_t before = stats.drops_states + stats.drops_segments;
    uint64_t begin = cairn_clock_now_ns(cairn_clock_system());
    for (uint32_t i = 0; i < ROUND; i++) {
        words(&rng, tokens + 200, PROMPT - 200);
        cairn_prompt prompt = {.tokens = tokens, .count = PROMPT};
        id++;
        ask(core, &prompt, id, id * 1000000000);
    }
    double ns = (double)(cairn_clock_now_ns(cairn_clock_system()) - begin);
    cairn_core_stats_get(core, &stats);
    uint64_t drops = stats.drops_states + stats.drops_segments - before;
    (void)printf("core,one drop among %llu states and %llu segments (%llu drops),%.3f,ms\n",
                 (unsigned long long)stats.states, (unsigned long long)stats.segments,
                 (unsigned long long)drops, drops > 0 ? ns * 1e-6 / (double)drops : 0);
    cairn_core_free(core);
}

int main(void)
{
    bench_lookup();
    bench_index();
    bench_drop(10000);
    bench_drop(50000);
    return 0;
}
