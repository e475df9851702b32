/*
 * The laws of docs/ARCHITECTURE.md, each as a test with its name, on the exact replica engine: a wrong
 * state, a stale row or a foreign path changes the logits, always. Random work is in test_cache_model.c.
 */
#include "cache_support.h"

static void talk_usual(talk *t, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    talk_add(t, CAIRN_ROLE_SYSTEM, seed, 600);
    talk_add(t, CAIRN_ROLE_USER, seed + 1, 300);
    talk_add(t, CAIRN_ROLE_ASSISTANT, seed + 2, 120);
    talk_add(t, CAIRN_ROLE_USER, seed + 3, 400);
    talk_add(t, CAIRN_ROLE_ASSISTANT, seed + 4, 80);
    talk_add(t, CAIRN_ROLE_USER, seed + 5, 250);
}

static void ask_talk(world *w, const talk *t, cairn_resume_mode mode, uint32_t count_answer, outcome *o)
{
    rendered r;
    render(&r, t, mode);
    ask_and_compare(w, &r, count_answer, o);
    rendered_release(&r);
}

/* Law 1. A state is used only where every token before it is equal: never by position or likeness. */
static void whole_path(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    world_open(&w);
    talk t;
    talk_usual(&t, 100);
    outcome o;
    ask_talk(&w, &t, CAIRN_RESUME_FAST, 8, &o);
    assert_int_equal(o.record.resume, 0);
    rendered r;
    render(&r, &t, CAIRN_RESUME_FAST);
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("whole_path", 7));
    for (int i = 0; i < 60; i++) {
        /* One token changed anywhere: nothing behind it may serve, whatever lies at equal positions. */
        uint32_t at = (uint32_t)cairn_rng_below(&rng, r.prompt.count);
        cairn_token saved = r.tokens[at];
        /* Another one each time: the place may come a second time, and what stood there then is known. */
        r.tokens[at] = (cairn_token)(((uint32_t)saved + 1 + (uint32_t)i) % w.replica.vocab_size);
        ask_and_compare(&w, &r, 2, &o);
        assert_true(o.record.resume <= at);
        r.tokens[at] = saved;
        ask_and_compare(&w, &r, 2, &o);
        assert_true(o.record.read >= 1);
    }
    /* Prompts that end exactly at, or one off, a saved state. */
    for (uint32_t i = 0; i < t.count; i++) {
        for (uint32_t off = 0; off < 3; off++) {
            rendered s;
            render_plain(&s, r.tokens, r.ends[i] + off - 1, CAIRN_RESUME_FAST);
            ask_and_compare(&w, &s, 1, &o);
            assert_true(o.record.read >= 1);
            rendered_release(&s);
        }
    }
    rendered_release(&r);
    talk_release(&t);
    world_close(&w);
}

/* Law 2. What resumes has the state and all rows; where one is missing neither is used. */
static void both_or_neither(void **state)
{
    (void)state;
    for (int rows_move = 0; rows_move < 2; rows_move++) {
        world w;
        world_init(&w);
        w.replica.rows_move = rows_move != 0;
        w.replica.slots = 2;
        world_open(&w);
        talk a;
        talk b;
        talk_usual(&a, 100);
        talk_usual(&b, 200);
        b.messages[0].seed = 100; /* the same system prompt */
        outcome o;
        for (int round = 0; round < 4; round++) {
            ask_talk(&w, &a, CAIRN_RESUME_FAST, 4, &o);
            /* Displace what the slots hold. */
            for (uint64_t other = 0; other < 3; other++) {
                talk c;
                talk_usual(&c, 1000 + 10 * other + 100 * (uint64_t)round);
                ask_talk(&w, &c, CAIRN_RESUME_FAST, 4, &o);
                talk_release(&c);
            }
            ask_talk(&w, &b, CAIRN_RESUME_FAST, 4, &o);
            if (rows_move && round > 0) {
                assert_true(o.record.resume > 600);
            }
        }
        if (!rows_move) {
            cairn_cache_stats stats;
            cairn_cache_stats_get(w.cache, &stats);
            assert_int_equal(stats.segments, 0);
        }
        talk_release(&a);
        talk_release(&b);
        world_close(&w);
    }
}

/* Law 3. A, then A edited, then A again: A's own states are still there, and the edit's too. */
static void edits_destroy_nothing(void **state)
{
    (void)state;
    for (int mode = CAIRN_RESUME_FAST; mode <= CAIRN_RESUME_EXACT; mode++) {
        world w;
        world_init(&w);
        world_open(&w);
        talk a;
        talk_usual(&a, 100);
        outcome o;
        ask_talk(&w, &a, (cairn_resume_mode)mode, 16, &o);
        uint32_t prompt_a = o.record.prompt_tokens;
        for (uint32_t edited = 5; edited < 6; edited--) {
            talk b;
            talk_copy(&b, &a);
            b.messages[edited].seed += 5000;
            ask_talk(&w, &b, (cairn_resume_mode)mode, 16, &o);
            ask_talk(&w, &a, (cairn_resume_mode)mode, 16, &o);
            assert_int_equal(o.record.divergence, prompt_a);
            assert_true(o.record.read <= OPENER_TOKENS + FRAME_TOKENS);
            ask_talk(&w, &b, (cairn_resume_mode)mode, 16, &o);
            assert_true(o.record.read <= OPENER_TOKENS + FRAME_TOKENS);
            talk_release(&b);
        }
        talk_release(&a);
        world_close(&w);
    }
}

/* Idle moments make the digests; more of them, later, find what was damaged. */
static void rest(world *w)
{
    w->clock_ns += UINT64_C(1000000000000);
    while (cairn_cache_idle(w->cache)) {
    }
}

static void damage_all_blobs(world *w)
{
    rest(w);
    cairn_tier_id ids[1000];
    uint64_t count = cairn_tier_ram_list(w->cache->ram, ids, 1000);
    assert_true(count > 4 && count <= 1000);
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *bytes;
        uint64_t size;
        assert_ok(cairn_tier_ram_pin(w->cache->ram, ids[i], &bytes, &size, NULL));
        ((uint8_t *)(uintptr_t)bytes)[size / 2] ^= 4;
        cairn_tier_ram_unpin(w->cache->ram, ids[i]);
    }
    rest(w);
}

/* Law 4. Every fault of the engine's transfers, and damaged bytes: the answer equals the cold one. */
static void doubt_is_a_miss(void **state)
{
    (void)state;
    static const cairn_replica_call calls[] = {CAIRN_REPLICA_STATE_SIZE,  CAIRN_REPLICA_STATE_GET,
                                               CAIRN_REPLICA_STATE_SET,   CAIRN_REPLICA_ROWS_EXPORT,
                                               CAIRN_REPLICA_ROWS_IMPORT, CAIRN_REPLICA_TRIM,
                                               CAIRN_REPLICA_CAN_TRIM};
    static const cairn_status statuses[] = {CAIRN_ENGINE, CAIRN_CORRUPT, CAIRN_NOMEM};
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        for (size_t s = 0; s < sizeof statuses / sizeof statuses[0]; s++) {
            world w;
            world_init(&w);
            w.replica.trim = calls[c] == CAIRN_REPLICA_CAN_TRIM ? CAIRN_TRIM_WINDOW : CAIRN_TRIM_NEVER;
            world_open(&w);
            talk a;
            talk b;
            talk_usual(&a, 100);
            talk_usual(&b, 200);
            outcome o;
            uint64_t failures = 0;
            for (uint64_t nth = 1; nth <= 6; nth++) {
                a.messages[5].seed++;
                cairn_replica_fail(w.engine, calls[c], nth, statuses[s]);
                ask_talk(&w, &a, CAIRN_RESUME_FAST, 4, &o);
                ask_talk(&w, &b, CAIRN_RESUME_FAST, 4, &o);
                failures = cairn_replica_counters_get(w.engine)->failures[calls[c]];
                cairn_replica_fail(w.engine, calls[c], 0, CAIRN_OK);
            }
            assert_true(failures > 0 || calls[c] == CAIRN_REPLICA_CAN_TRIM);
            talk_release(&a);
            talk_release(&b);
            world_close(&w);
        }
    }
    world w;
    world_init(&w);
    world_open(&w);
    talk a;
    talk b;
    talk_usual(&a, 100);
    talk_usual(&b, 200);
    outcome o;
    ask_talk(&w, &a, CAIRN_RESUME_FAST, 4, &o);
    ask_talk(&w, &b, CAIRN_RESUME_FAST, 4, &o);
    damage_all_blobs(&w);
    rendered r;
    render(&r, &a, CAIRN_RESUME_FAST);
    outcome again;
    w.damaged = true;
    ask_and_compare(&w, &r, 4, &again);
    assert_int_equal(again.record.resume, 0);
    assert_int_equal(again.record.reason, CAIRN_REASON_DAMAGED);
    w.damaged = false;
    ask_and_compare(&w, &r, 4, &again); /* the damaged ones were replaced */
    assert_true(again.record.resume > 0);
    rendered_release(&r);
    talk_release(&a);
    talk_release(&b);
    world_close(&w);
}

/* Law 5. A stored state serves any number of requests, and different ones. */
static void using_is_not_consuming(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    world_open(&w);
    talk t;
    talk_usual(&t, 100);
    outcome o;
    ask_talk(&w, &t, CAIRN_RESUME_FAST, 4, &o);
    uint32_t least = UINT32_MAX;
    for (uint64_t i = 0; i < 20; i++) {
        t.messages[5].seed = 7000 + i;
        ask_talk(&w, &t, CAIRN_RESUME_FAST, 4, &o);
        assert_true(o.record.resume > 1400);
        least = o.record.resume < least ? o.record.resume : least;
    }
    for (int i = 0; i < 20; i++) {
        ask_talk(&w, &t, CAIRN_RESUME_FAST, 4, &o);
        assert_true(o.record.read <= OPENER_TOKENS + FRAME_TOKENS);
    }
    talk_release(&t);
    world_close(&w);
}

/* Law 6. Under any cap, tables and peaks included: world_check compares at every step. */
static void count_first(void **state)
{
    (void)state;
    static const uint64_t caps[] = {0, 1, 1000, 10000, 30000, 60000, 100000, 200000, 400000, 1000000};
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        world w;
        world_init(&w);
        w.options.ram_bytes_max = caps[i];
        world_open(&w);
        outcome o;
        for (uint64_t round = 0; round < 12; round++) {
            talk t;
            talk_usual(&t, 100 + 1000 * (round % 5));
            t.messages[5].seed += round;
            ask_talk(&w, &t, CAIRN_RESUME_FAST, 8, &o);
            talk_release(&t);
        }
        /* What the allocator saw is what was counted, plus requests and the cache's own struct. */
        assert_true(w.memory.peak_bytes <= w.cap_bytes + 65536);
        cairn_cache_stats stats;
        cairn_cache_stats_get(w.cache, &stats);
        assert_int_equal(stats.ram_bytes_max, caps[i]);
        assert_true(stats.ram_bytes <= stats.ram_bytes_peak);
        world_close(&w);
    }
}

/* Law 7. Stopped after any number of steps, a request leaves behind what it read. */
static void work_done_is_kept(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 24; steps++) {
        world w;
        world_init(&w);
        w.replica.batch_tokens_max = 128;
        world_open(&w);
        talk t;
        talk_usual(&t, 100);
        rendered r;
        render(&r, &t, CAIRN_RESUME_FAST);
        cairn_request *request;
        assert_ok(cairn_cache_begin(w.cache, &r.prompt, &request, NULL));
        for (uint32_t i = 0; i < steps && cairn_request_phase(request) != CAIRN_PHASE_READY; i++) {
            assert_ok(cairn_cache_step(w.cache, &request, 1, NULL));
        }
        cairn_cache_end(w.cache, request, CAIRN_END_STOPPED);
        world_check(&w);
        uint32_t reached = cairn_request_record(request)->resume + cairn_request_record(request)->read;
        cairn_request_free(request);
        outcome o;
        ask_and_compare(&w, &r, 4, &o);
        assert_true(o.record.resume >= reached || reached == r.prompt.count);
        assert_true(o.record.read <= r.prompt.count - reached + OPENER_TOKENS + FRAME_TOKENS);
        rendered_release(&r);
        talk_release(&t);
        world_close(&w);
    }
}

/* The same where another conversation must be put away and an old one put back: at every step of that. */
static void work_done_is_kept_while_slots_are_switched(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 30; steps++) {
        world w;
        world_init(&w);
        w.replica.batch_tokens_max = 128;
        world_open(&w);
        talk a;
        talk b;
        talk_usual(&a, 100);
        talk_usual(&b, 200);
        outcome o;
        ask_talk(&w, &a, CAIRN_RESUME_FAST, 8, &o);
        ask_talk(&w, &b, CAIRN_RESUME_FAST, 8, &o);
        rendered r;
        render(&r, &a, CAIRN_RESUME_FAST);
        cairn_request *request;
        assert_ok(cairn_cache_begin(w.cache, &r.prompt, &request, NULL));
        for (uint32_t i = 0; i < steps && cairn_request_phase(request) != CAIRN_PHASE_READY; i++) {
            assert_ok(cairn_cache_step(w.cache, &request, 1, NULL));
            world_check(&w);
        }
        cairn_cache_end(w.cache, request, CAIRN_END_STOPPED);
        world_check(&w);
        cairn_request_free(request);
        ask_talk(&w, &b, CAIRN_RESUME_FAST, 8, &o);
        assert_true(o.record.read <= OPENER_TOKENS + FRAME_TOKENS);
        ask_talk(&w, &a, CAIRN_RESUME_FAST, 8, &o);
        assert_true(o.record.read <= OPENER_TOKENS + FRAME_TOKENS);
        rendered_release(&r);
        talk_release(&a);
        talk_release(&b);
        world_close(&w);
    }
}

/* Law 8. Time passes, slots are used by others, many conversations take turns: nothing is lost. */
static void nothing_is_forgotten_by_idling(void **state)
{
    (void)state;
    for (uint32_t slots = 1; slots <= 3; slots++) {
        world w;
        world_init(&w);
        w.replica.slots = slots;
        world_open(&w);
        enum { TALKS = 6 };
        static talk talks[TALKS];
        static outcome o;
        for (uint64_t i = 0; i < TALKS; i++) {
            talk_usual(&talks[i], 1000 * (i + 1));
            talks[i].messages[0].seed = 5; /* one system prompt for all */
        }
        for (int round = 0; round < 4; round++) {
            for (uint32_t i = 0; i < TALKS; i++) {
                uint32_t before = o.record.prompt_tokens;
                turn(&w, &talks[i], CAIRN_RESUME_FAST, 24, &o);
                if (round > 0) {
                    /* All but the new user message, its frame, and the answer's end mark. */
                    assert_true(o.record.read <= 60 + 2 * FRAME_TOKENS + OPENER_TOKENS);
                }
                (void)before;
                talk_add(&talks[i], CAIRN_ROLE_USER, 90000 + 100 * (uint64_t)round + i, 50);
                w.clock_ns += UINT64_C(3600) * 1000000000; /* an hour */
            }
        }
        for (uint32_t i = 0; i < TALKS; i++) {
            talk_release(&talks[i]);
        }
        world_close(&w);
    }
}

/* Law 9. On an engine with real last bits, exact answers equal a cold run's, bit for bit. */
static void cache_cannot_be_seen_in_the_answer(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.replica.cut_sensitive = true;
    world_open(&w);
    talk t;
    talk_usual(&t, 100);
    outcome o;
    uint64_t resumed = 0;
    for (int round = 0; round < 6; round++) {
        turn(&w, &t, CAIRN_RESUME_EXACT, 16, &o); /* compares all bits */
        resumed += o.record.resume;
        talk_add(&t, CAIRN_ROLE_USER, 500 + (uint64_t)round, 90);
        talk edited;
        talk_copy(&edited, &t);
        edited.messages[3].seed += 77 + (uint64_t)round;
        ask_talk(&w, &edited, CAIRN_RESUME_EXACT, 8, &o);
        resumed += o.record.resume;
        talk_release(&edited);
    }
    assert_true(resumed > 6 * 900);
    talk_release(&t);
    world_close(&w);
}

/* The control: on that engine, states of answers do change the last bits, and fast mode uses them. */
static void fast_mode_differs_from_cold_in_provenance_only(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.replica.cut_sensitive = true;
    world_open(&w);
    talk t;
    talk_usual(&t, 100);
    rendered r;
    static outcome o;
    static uint64_t bits[ANSWER_MAX + 1];
    static cairn_token greedy[ANSWER_MAX + 1];
    uint32_t different = 0;
    for (int round = 0; round < 6; round++) {
        render(&r, &t, CAIRN_RESUME_FAST);
        ask(&w, &r, 16, &o);
        cold_bits(&w, &r.prompt, o.answer, 16, bits, greedy);
        for (uint32_t i = 0; i < 16; i++) {
            assert_int_equal(o.answer[i], greedy[i]);
            different += bits[i] != o.bits[i];
        }
        talk_add_answer(&t, o.answer, 16);
        talk_add(&t, CAIRN_ROLE_USER, 500 + (uint64_t)round, 90);
        rendered_release(&r);
    }
    assert_true(different > 0);
    talk_release(&t);
    world_close(&w);
}

/* Law 10. The record's count is the engine's, whatever the plan was. (ask compares it for every request.) */
static void reported_is_decoded(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    world_open(&w);
    talk t;
    talk_usual(&t, 100);
    outcome o;
    uint64_t read = 0;
    uint64_t answers = 0;
    for (uint64_t i = 0; i < 10; i++) {
        t.messages[1 + i % 5].seed += i;
        ask_talk(&w, &t, CAIRN_RESUME_FAST, (uint32_t)i, &o);
        read += o.record.read;
        answers += i;
        assert_int_equal(o.record.least, o.record.prompt_tokens - o.record.divergence > 0
                                             ? o.record.prompt_tokens - o.record.divergence
                                             : 1);
    }
    assert_int_equal(read + answers, world_decoded(&w));
    cairn_cache_stats stats;
    cairn_cache_stats_get(w.cache, &stats);
    assert_int_equal(stats.tokens_read, read);
    assert_int_equal(stats.tokens_answer, answers);
    assert_int_equal(stats.requests, 10);
    talk_release(&t);
    world_close(&w);
}

/* Law 11. The same prompt in another namespace: no token, no count, no time in common. */
static void namespaces_are_walls(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.replica.slots = 2;
    world_open(&w);
    talk t;
    talk_usual(&t, 100);
    rendered r;
    render(&r, &t, CAIRN_RESUME_FAST);
    outcome first;
    outcome other;
    r.prompt.space.bytes[0] = 1;
    ask_and_compare(&w, &r, 4, &first);
    uint64_t before_ns = w.clock_ns;
    ask_and_compare(&w, &r, 4, &first);
    assert_true(first.record.resume > 1500);
    before_ns = w.clock_ns;
    r.prompt.space.bytes[0] = 2;
    ask_and_compare(&w, &r, 4, &other);
    assert_int_equal(other.record.resume, 0);
    assert_int_equal(other.record.divergence, 0);
    assert_int_equal(other.record.reason, CAIRN_REASON_NEW);
    uint64_t equal_ns = w.clock_ns - before_ns;
    /* A prompt that nobody knows takes as long. */
    talk_usual(&t, 900);
    rendered s;
    render(&s, &t, CAIRN_RESUME_FAST);
    s.prompt.space.bytes[0] = 3;
    before_ns = w.clock_ns;
    ask_and_compare(&w, &s, 4, &other);
    uint64_t unknown_ns = w.clock_ns - before_ns;
    assert_true(equal_ns <= unknown_ns + 20000000 && unknown_ns <= equal_ns + 20000000);
    /* Forgetting one namespace leaves the other. */
    r.prompt.space.bytes[0] = 1;
    assert_ok(cairn_cache_forget(w.cache, &s.prompt.space, NULL));
    ask_and_compare(&w, &r, 4, &first);
    assert_true(first.record.resume > 1500);
    assert_ok(cairn_cache_forget(w.cache, &r.prompt.space, NULL));
    ask_and_compare(&w, &r, 4, &first);
    assert_int_equal(first.record.resume, 0);
    assert_ok(cairn_cache_forget(w.cache, NULL, NULL));
    cairn_cache_stats stats;
    cairn_cache_stats_get(w.cache, &stats);
    assert_int_equal(stats.states + stats.segments, 0);
    rendered_release(&r);
    rendered_release(&s);
    talk_release(&t);
    world_close(&w);
}

/* Law 12. After any divergence, with room for everything: at most a grid step beyond least. */
static void bounded_waste(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    world_open(&w);
    talk t;
    talk_usual(&t, 100);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 50, 40);
    talk_add(&t, CAIRN_ROLE_USER, 51, 5000);
    rendered r;
    render(&r, &t, CAIRN_RESUME_FAST);
    outcome o;
    ask_and_compare(&w, &r, 2, &o);
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("bounded_waste", 11));
    for (int i = 0; i < 40; i++) {
        uint32_t at = (uint32_t)cairn_rng_below(&rng, r.prompt.count);
        cairn_token saved = r.tokens[at];
        r.tokens[at] = 11;
        ask_and_compare(&w, &r, 0, &o);
        assert_true(o.record.read - o.record.least <= 512);
        r.tokens[at] = saved;
    }
    rendered_release(&r);
    talk_release(&t);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_path),
        cmocka_unit_test(both_or_neither),
        cmocka_unit_test(edits_destroy_nothing),
        cmocka_unit_test(doubt_is_a_miss),
        cmocka_unit_test(using_is_not_consuming),
        cmocka_unit_test(count_first),
        cmocka_unit_test(work_done_is_kept),
        cmocka_unit_test(work_done_is_kept_while_slots_are_switched),
        cmocka_unit_test(nothing_is_forgotten_by_idling),
        cmocka_unit_test(cache_cannot_be_seen_in_the_answer),
        cmocka_unit_test(fast_mode_differs_from_cold_in_provenance_only),
        cmocka_unit_test(reported_is_decoded),
        cmocka_unit_test(namespaces_are_walls),
        cmocka_unit_test(bounded_waste),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
