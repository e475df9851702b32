/*
 * Same trace, same plan: the events of a run, given to another core, lead to the same actions, byte for byte.
 */
#include "cache_support.h"

typedef struct kept_event {
    cairn_event event;
    cairn_prompt prompt;
    cairn_token tokens[4];
    uint32_t floors[4];
    cairn_status status;
    uint64_t digest;
} kept_event;

enum { EVENTS_MAX = 200000 };

typedef struct tape {
    cairn_cache *cache;
    uint32_t count;
    kept_event *events;
} tape;

static void *copy(const void *bytes, size_t size)
{
    void *to = test_malloc(size + 1);
    if (size > 0) {
        memcpy(to, bytes, size);
    }
    return to;
}

static void keep(void *ctx, const cairn_event *event, cairn_status status, const cairn_action *actions,
                 uint32_t count)
{
    tape *t = ctx;
    (void)actions;
    (void)count;
    assert_true(t->count < EVENTS_MAX);
    kept_event *k = &t->events[t->count++];
    *k = (kept_event){.event = *event, .status = status, .digest = cairn_core_digest(t->cache->core)};
    if (event->prompt != NULL) {
        k->prompt = *event->prompt;
        k->prompt.tokens = copy(event->prompt->tokens, event->prompt->count * sizeof(cairn_token));
        k->prompt.boundaries =
            copy(event->prompt->boundaries, event->prompt->count_boundaries * sizeof(cairn_boundary));
    }
    for (uint32_t i = 0; event->trim_floors != NULL && i < t->cache->engine->info.slots; i++) {
        k->floors[i] = event->trim_floors[i];
    }
    assert_true(event->count <= 4);
    memcpy(k->tokens, event->tokens != NULL ? event->tokens : k->tokens, event->count * sizeof(cairn_token));
}

static void record_run(world *w, cairn_rng *rng)
{
    static outcome o;
    for (uint64_t i = 0; i < 60; i++) {
        talk t = {0};
        talk_add(&t, CAIRN_ROLE_SYSTEM, 1 + cairn_rng_below(rng, 3), 200);
        for (uint64_t m = 0; m <= i % 7; m++) {
            talk_add(&t, m % 2 ? CAIRN_ROLE_ASSISTANT : CAIRN_ROLE_USER,
                     10 + m + 100 * cairn_rng_below(rng, 2), 90);
        }
        rendered r;
        render(&r, &t, i % 3 == 0 ? CAIRN_RESUME_EXACT : CAIRN_RESUME_FAST);
        if (i % 9 == 8) {
            (void)ask_and_stop(w, &r, 3);
        } else {
            cairn_replica_fail(w->engine, (cairn_replica_call)(1 + cairn_rng_below(rng, 5)), 2, CAIRN_ENGINE);
            ask(w, &r, 3, &o);
        }
        if (i == 40) {
            assert_ok(cairn_cache_budget(w->cache, 60000, NULL));
        }
        rendered_release(&r);
        talk_release(&t);
    }
}

static void replay(uint64_t seed, cairn_trim trim)
{
    cairn_rng rng;
    cairn_rng_init(&rng, seed);
    world w;
    world_init(&w);
    w.replica.trim = trim;
    w.replica.state_bytes = trim == CAIRN_TRIM_ANYWHERE ? 0 : 64;
    w.replica.slots = 2;
    w.replica.batch_tokens_max = 64;
    w.options.ram_bytes_max = 200000;
    world_open(&w);
    tape t = {.cache = w.cache, .events = test_calloc(EVENTS_MAX, sizeof *t.events)};
    cairn_cache_sink sink = {.event = keep, .ctx = &t};
    cairn_cache_sink_set(w.cache, &sink);
    record_run(&w, &rng);

    cairn_core *core;
    assert_ok(cairn_core_new(cairn_mem_default(), &w.cache->core_options, &core, NULL));
    for (uint32_t i = 0; i < t.count; i++) {
        kept_event *k = &t.events[i];
        const cairn_action *actions;
        uint32_t count;
        k->event.prompt = k->event.prompt != NULL ? &k->prompt : NULL;
        k->event.tokens = k->event.tokens != NULL ? k->tokens : NULL;
        k->event.trim_floors = k->event.trim_floors != NULL ? k->floors : NULL;
        assert_status(cairn_core_step(core, &k->event, &actions, &count, NULL), k->status);
        assert_int_equal(cairn_core_digest(core), k->digest);
    }
    assert_true(t.count > 600);
    cairn_core_free(core);
    for (uint32_t i = 0; i < t.count; i++) {
        test_free((void *)(uintptr_t)t.events[i].prompt.tokens);
        test_free((void *)(uintptr_t)t.events[i].prompt.boundaries);
    }
    test_free(t.events);
    world_close(&w);
}

static void same_trace_same_plan(void **state)
{
    (void)state;
    uint64_t seed = cairn_test_seed("same_trace", 3);
    replay(seed, CAIRN_TRIM_NEVER);
    replay(seed, CAIRN_TRIM_WINDOW);
    replay(seed, CAIRN_TRIM_ANYWHERE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_trace_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
