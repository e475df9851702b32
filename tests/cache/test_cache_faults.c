/*
 * One failure, still an answer: in a fixed script every allocation and every engine call fails once, in turn.
 * And: who is at fault for a decode that carried several requests.
 */
#include "cache_support.h"

static uint32_t common_seed;

/* Two conversations by turns in one slot, an edit, a regenerate, a cancel. Answers are compared where there are any. */
static void script(world *w, bool *ret_failed)
{
    static outcome o;
    static uint64_t bits[ANSWER_MAX + 1];
    for (uint32_t i = 0; i < 7; i++) {
        talk t = {0};
        talk_add(&t, CAIRN_ROLE_SYSTEM, 1 + common_seed, 70);
        talk_add(&t, CAIRN_ROLE_USER, 2 + i % 2, 60);
        talk_add(&t, CAIRN_ROLE_ASSISTANT, 4, 20);
        talk_add(&t, CAIRN_ROLE_USER, 5 + i / 4, 40);
        rendered r;
        render(&r, &t, i % 3 == 2 ? CAIRN_RESUME_EXACT : CAIRN_RESUME_FAST);
        cairn_request *request = NULL;
        cairn_status status = cairn_cache_begin(w->cache, &r.prompt, &request, NULL);
        memset(&o, 0, sizeof o);
        bool ready = false;
        while (status == CAIRN_OK && o.count_answer < 6) {
            status = cairn_cache_step(w->cache, &request, 1, NULL);
            world_check(w);
            ready = cairn_request_phase(request) == CAIRN_PHASE_READY;
            if (status == CAIRN_OK && ready) {
                const float *logits = cairn_request_logits(request);
                o.bits[o.count_answer] = logits_bits(logits, w->replica.vocab_size);
                o.answer[o.count_answer] = logits_greedy(logits, w->replica.vocab_size);
                status = cairn_request_push(request, o.answer[o.count_answer++]);
            }
            status = status == CAIRN_CANCELLED ? CAIRN_OK : status; /* it goes on */
        }
        *ret_failed = *ret_failed || status != CAIRN_OK;
        if (request != NULL) {
            cairn_cache_end(w->cache, request, status == CAIRN_OK ? CAIRN_END_DONE : CAIRN_END_BROKEN);
            cairn_request_free(request);
        }
        world_check(w);
        if (o.count_answer > 0) {
            cold_bits(w, &r.prompt, o.answer, o.count_answer - 1, bits, NULL);
            assert_memory_equal(bits, o.bits, o.count_answer * sizeof bits[0]);
        }
        rendered_release(&r);
        talk_release(&t);
    }
}

static void open_small(world *w, uint64_t ram_bytes_max)
{
    world_init(w);
    w->replica.batch_tokens_max = 32;
    w->replica.slot_tokens_max = 400;
    w->options.ram_bytes_max = ram_bytes_max;
    world_open(w);
}

static void every_failing_allocation_costs_time_not_correctness(void **state)
{
    (void)state;
    static const uint64_t caps[] = {1 << 20, 20000};
    for (int c = 0; c < 2; c++) {
        uint64_t failed_requests = 0;
        uint64_t n = 1;
        for (;; n++) {
            world w;
            open_small(&w, caps[c]);
            w.memory.fail_at = w.memory.calls + n;
            bool failed = false;
            script(&w, &failed);
            failed_requests += failed;
            bool used = w.memory.fails > 0;
            world_close(&w);
            if (!used) {
                break;
            }
        }
        assert_true(n > 10);
        print_message("%llu allocations, %llu of them failed a request\n", (unsigned long long)n,
                      (unsigned long long)failed_requests);
    }
    /* Making a cache fails cleanly, too. */
    world w;
    open_small(&w, 1 << 20);
    for (uint64_t n = 1;; n++) {
        cairn_cache *cache = NULL;
        cairn_mem_test memory;
        cairn_mem_test_init(&memory, n);
        cairn_status status = cairn_cache_new(&memory.mem, w.engine, &w.options, &cache, NULL);
        if (status == CAIRN_OK) {
            cairn_cache_free(cache);
        } else {
            assert_status(status, CAIRN_NOMEM);
        }
        assert_int_equal(cairn_mem_test_leaked(&memory), 0);
        cairn_mem_test_release(&memory);
        if (memory.fails == 0) {
            break;
        }
    }
    world_close(&w);
}

/* From the n-th allocation on nothing is given any more. */
static void running_out_of_memory_for_good_costs_no_answer_that_began(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 200; n += 3) {
        world w;
        open_small(&w, 1 << 20);
        w.memory.fail_at = w.memory.calls + n;
        w.memory.fail_after = true;
        bool failed = false;
        script(&w, &failed);
        world_close(&w);
    }
}

static void every_failing_engine_call_costs_time_not_correctness(void **state)
{
    (void)state;
    static const cairn_status statuses[] = {CAIRN_ENGINE, CAIRN_NOMEM, CAIRN_CORRUPT, CAIRN_CANCELLED};
    static const cairn_trim trims[] = {CAIRN_TRIM_NEVER, CAIRN_TRIM_WINDOW, CAIRN_TRIM_ANYWHERE};
    for (int t = 0; t < 3; t++) {
        for (int call = 0; call < CAIRN_REPLICA_CALLS; call++) {
            for (size_t s = 0; s < sizeof statuses / sizeof statuses[0]; s++) {
                for (uint64_t n = 1; n < 300; n = n < 20 ? n + 1 : n + 7) {
                    world w;
                    world_init(&w);
                    w.replica.trim = trims[t];
                    w.replica.state_bytes = trims[t] == CAIRN_TRIM_ANYWHERE ? 0 : 64;
                    w.replica.batch_tokens_max = 32;
                    w.replica.slot_tokens_max = 400;
                    world_open(&w);
                    cairn_replica_fail(w.engine, (cairn_replica_call)call, n, statuses[s]);
                    bool failed = false;
                    script(&w, &failed);
                    bool happened = cairn_replica_counters_get(w.engine)->failures[call] > 0;
                    /* Only a decode may fail a request, and not when it was an interrupt. */
                    assert_true(!failed || (call == CAIRN_REPLICA_DECODE && statuses[s] != CAIRN_CANCELLED));
                    assert_true(failed || !happened || call != CAIRN_REPLICA_DECODE ||
                                statuses[s] == CAIRN_CANCELLED);
                    world_close(&w);
                    if (!happened) {
                        break;
                    }
                }
            }
        }
    }
}

enum { GROUP = 3 };

typedef struct group {
    rendered r[GROUP];
    cairn_request *requests[GROUP];
    outcome *outcomes;
} group;

static void group_begin(world *w, group *g, cairn_resume_mode mode)
{
    g->outcomes = test_calloc(GROUP, sizeof *g->outcomes);
    for (uint64_t i = 0; i < GROUP; i++) {
        talk t = {0};
        talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 100);
        talk_add(&t, CAIRN_ROLE_USER, 10 + i, 150);
        render(&g->r[i], &t, mode);
        assert_ok(cairn_cache_begin(w->cache, &g->r[i].prompt, &g->requests[i], NULL));
        talk_release(&t);
    }
}

/* One step for all; those that are ready say the next token, up to `count`. Gives how many are still at work. */
static uint32_t group_step(world *w, group *g, uint32_t count, cairn_status *ret_status)
{
    uint32_t working = 0;
    *ret_status = cairn_cache_step(w->cache, g->requests, GROUP, NULL);
    world_check(w);
    for (uint32_t i = 0; i < GROUP; i++) {
        outcome *o = &g->outcomes[i];
        cairn_phase phase = cairn_request_phase(g->requests[i]);
        if (phase == CAIRN_PHASE_READY && o->count_answer < count) {
            const float *logits = cairn_request_logits(g->requests[i]);
            o->bits[o->count_answer] = logits_bits(logits, w->replica.vocab_size);
            o->answer[o->count_answer] = logits_greedy(logits, w->replica.vocab_size);
            assert_ok(cairn_request_push(g->requests[i], o->answer[o->count_answer++]));
        }
        working += phase != CAIRN_PHASE_FAILED && o->count_answer < count;
    }
    return working;
}

static void group_end(world *w, group *g)
{
    static uint64_t bits[ANSWER_MAX + 1];
    for (uint32_t i = 0; i < GROUP; i++) {
        outcome *o = &g->outcomes[i];
        cairn_cache_end(w->cache, g->requests[i], CAIRN_END_STOPPED);
        const cairn_record *record = cairn_request_record(g->requests[i]);
        if (o->count_answer > 0) {
            assert_int_equal(record->resume + record->read, g->r[i].prompt.count);
            cold_bits(w, &g->r[i].prompt, o->answer, o->count_answer - 1, bits, NULL);
            assert_memory_equal(bits, o->bits, o->count_answer * sizeof bits[0]);
        }
        cairn_request_free(g->requests[i]);
        rendered_release(&g->r[i]);
    }
    test_free(g->outcomes);
}

static void open_group(world *w, cairn_trim trim, bool cut_sensitive)
{
    world_init(w);
    w->replica.slots = GROUP;
    w->replica.batch_tokens_max = 64;
    w->replica.slot_tokens_max = 1000;
    w->replica.trim = trim;
    w->replica.state_bytes = trim == CAIRN_TRIM_ANYWHERE ? 0 : 64;
    w->replica.cut_sensitive = cut_sensitive;
    world_open(w);
}

/* A shared decode that fails once fails nobody: each goes on by itself, with the same bits. */
static void failing_shared_decode_fails_nobody_who_is_well(void **state)
{
    (void)state;
    static const cairn_status statuses[] = {CAIRN_ENGINE, CAIRN_NOMEM, CAIRN_CANCELLED};
    static const cairn_trim trims[] = {CAIRN_TRIM_NEVER, CAIRN_TRIM_WINDOW, CAIRN_TRIM_ANYWHERE};
    for (int t = 0; t < 3; t++) {
        for (int s = 0; s < 3; s++) {
            for (uint64_t n = 1; n <= 14; n++) {
                world w;
                group g;
                open_group(&w, trims[t], true);
                group_begin(&w, &g, CAIRN_RESUME_EXACT);
                cairn_replica_fail(w.engine, CAIRN_REPLICA_DECODE, n, statuses[s]);
                cairn_status status = CAIRN_OK;
                while (group_step(&w, &g, 12, &status) > 0) {
                    assert_true(status == CAIRN_OK || statuses[s] == CAIRN_CANCELLED);
                }
                assert_int_equal(cairn_replica_counters_get(w.engine)->failures[CAIRN_REPLICA_DECODE], 1);
                for (uint32_t i = 0; i < GROUP; i++) {
                    assert_int_equal(g.outcomes[i].count_answer, 12);
                }
                group_end(&w, &g);
                world_close(&w);
            }
        }
    }
}

/* A slot that can't grow: the request in it fails, the others don't. */
static void only_the_culprit_fails(void **state)
{
    (void)state;
    world w;
    group g;
    world_init(&w);
    w.replica.slots = GROUP;
    w.replica.batch_tokens_max = 64;
    w.replica.slot_tokens_max = 1000;
    w.replica.vocab_size = 64;
    world_open(&w);
    group_begin(&w, &g, CAIRN_RESUME_FAST);
    g.r[1].tokens[200] = 9999; /* no such token: this engine refuses it */
    cairn_status status = CAIRN_OK;
    bool told = false;
    while (group_step(&w, &g, 8, &status) > 0) {
        told = told || status != CAIRN_OK;
    }
    assert_true(told);
    assert_int_equal(cairn_request_phase(g.requests[1]), CAIRN_PHASE_FAILED);
    assert_int_equal(cairn_request_error(g.requests[1])->status, CAIRN_INVALID);
    assert_int_equal(g.outcomes[0].count_answer, 8);
    assert_int_equal(g.outcomes[2].count_answer, 8);
    assert_int_equal(g.outcomes[1].count_answer, 0);
    group_end(&w, &g);
    cairn_replica_counters_clear(w.engine); /* the foreign token counts as a violation */
    world_close(&w);
}

/* Interrupted for long: nothing fails, and it goes on when the engine does. */
static void interrupt_costs_time_only(void **state)
{
    (void)state;
    world w;
    group g;
    open_group(&w, CAIRN_TRIM_NEVER, true);
    group_begin(&w, &g, CAIRN_RESUME_EXACT);
    cairn_status status = CAIRN_OK;
    for (int round = 0; round < 60; round++) {
        if (round == 3 || round == 9 || round == 25) {
            w.engine->ops->interrupt(w.engine);
            for (int i = 0; i < 4; i++) {
                (void)group_step(&w, &g, 10, &status);
                assert_true(status == CAIRN_OK || status == CAIRN_CANCELLED);
            }
            w.engine->ops->resume_work(w.engine);
        }
        (void)group_step(&w, &g, 10, &status);
        assert_ok(status);
    }
    for (uint32_t i = 0; i < GROUP; i++) {
        assert_int_equal(g.outcomes[i].count_answer, 10);
    }
    group_end(&w, &g);
    world_close(&w);
}

static void misuse_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    world w;
    open_small(&w, 1 << 20);
    cairn_request *request = NULL;
    cairn_request *second = NULL;
    cairn_token tokens[400] = {0};
    cairn_boundary boundaries[2] = {{.position = 5}, {.position = 4}};
    cairn_prompt prompt = {.tokens = tokens, .count = 0};
    assert_status(cairn_cache_begin(w.cache, &prompt, &request, NULL), CAIRN_INVALID);
    prompt.count = 400;
    assert_status(cairn_cache_begin(w.cache, &prompt, &request, NULL), CAIRN_LIMIT);
    prompt.count = 10;
    prompt.boundaries = boundaries;
    prompt.count_boundaries = 2;
    assert_status(cairn_cache_begin(w.cache, &prompt, &request, NULL), CAIRN_INVALID);
    prompt.count_boundaries = 0;
    assert_null(request);
    assert_ok(cairn_cache_begin(w.cache, &prompt, &request, NULL));
    assert_status(cairn_cache_begin(w.cache, &prompt, &second, NULL), CAIRN_BUSY);
    assert_null(second);
    assert_status(cairn_request_push(request, 1), CAIRN_INVALID);
    assert_null(cairn_request_logits(request));
    cairn_request *twice[2] = {request, request};
    assert_ok(cairn_cache_step(w.cache, twice, 2, NULL)); /* counts once */
    assert_int_equal(cairn_request_phase(request),
                     CAIRN_PHASE_READ); /* a prompt without an opener has a cut */
    assert_ok(cairn_cache_step(w.cache, twice, 2, NULL));
    assert_int_equal(cairn_request_phase(request), CAIRN_PHASE_READY);
    assert_ok(cairn_cache_step(w.cache, &request, 1, NULL)); /* nothing to do: nothing happens */
    assert_non_null(cairn_request_logits(request));
    uint32_t pushed = 0;
    while (cairn_request_push(request, 3) == CAIRN_OK) {
        assert_ok(cairn_cache_step(w.cache, &request, 1, NULL));
        pushed++;
    }
    assert_int_equal(cairn_request_error(request)->status, CAIRN_LIMIT);
    assert_int_equal(pushed, 390);
    cairn_cache_end(w.cache, request, CAIRN_END_DONE);
    cairn_cache_end(w.cache, request, CAIRN_END_DONE);
    assert_ok(cairn_cache_step(w.cache, &request, 1, NULL));
    assert_int_equal(cairn_request_phase(request), CAIRN_PHASE_ENDED);
    cairn_request_free(request);
    cairn_request_free(NULL);
    cairn_cache_free(NULL);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misuse_is_refused_and_changes_nothing),
        cmocka_unit_test(failing_shared_decode_fails_nobody_who_is_well),
        cmocka_unit_test(only_the_culprit_fails),
        cmocka_unit_test(interrupt_costs_time_only),
        cmocka_unit_test(every_failing_allocation_costs_time_not_correctness),
        cmocka_unit_test(running_out_of_memory_for_good_costs_no_answer_that_began),
        cmocka_unit_test(every_failing_engine_call_costs_time_not_correctness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
