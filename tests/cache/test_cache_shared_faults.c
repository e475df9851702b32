/*
 * Whatever the store does costs time only: it is down, silent, full, forgetful, emptied, wrong, or cut off in the middle. The
 * answers are the cold ones.
 */
#include "base/clock.h"
#include "shared_support.h"

static void store_that_is_down_costs_time_only_and_is_used_when_it_comes(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_init(&p, NULL);
    server_kill(&p.store);
    pair_open(&p);
    talk_long(&p.t, 1);
    turn(&p.a.w, &p.t, CAIRN_RESUME_EXACT, 10, &o);
    assert_false(cairn_cache_flush(p.a.w.cache, SECOND_NS / 5));
    cairn_cache_shared_stats stats = shared_stats(&p.a);
    assert_true(stats.failures > 0 && !stats.works && stats.waiting && stats.due_ns > 0);
    assert_status(stats.last_error.status, CAIRN_IO);
    server_start(&p.store);
    /* Left alone for a while, then asked again: nobody has to do anything. */
    while (!cairn_cache_flush(p.a.w.cache, 5 * SECOND_NS)) {
    }
    assert_true(shared_stats(&p.a).works);
    talk_add(&p.t, CAIRN_ROLE_USER, 9, 100);
    assert_int_equal(pair_other_asks(&p, &o), CAIRN_SOURCE_SHARED);
    pair_close(&p);
}

static void store_that_does_not_answer_is_waited_for_until_the_deadline(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_init(&p, NULL);
    p.b.shared.deadline_ns = SECOND_NS / 20;
    pair_open(&p);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    server_freeze(&p.store, true);
    assert_int_equal(pair_other_asks(&p, &o), CAIRN_SOURCE_NONE);
    cairn_cache_shared_stats stats = shared_stats(&p.b);
    assert_true(stats.asked == 1 && stats.found == 0 && (stats.timeouts == 1 || stats.late == 1));
    assert_int_equal(o.record.reason, CAIRN_REASON_LATE);
    /* Soon after that it isn't even asked. */
    talk other;
    talk_long(&other, 50);
    turn(&p.b.w, &other, CAIRN_RESUME_EXACT, 5, &o);
    assert_int_equal(o.record.source, CAIRN_SOURCE_NONE);
    talk_release(&other);
    server_freeze(&p.store, false);
    pair_close(&p);
}

static void store_that_is_full_keeps_what_it_has(void **state)
{
    (void)state;
    const char *const more[] = {"--maxmemory", "2mb", "--maxmemory-policy", "noeviction", NULL};
    pair p;
    outcome o;
    pair_init(&p, more);
    p.a.w.replica.state_bytes = p.b.w.replica.state_bytes = 1 << 20;
    pair_open(&p);
    talk_long(&p.t, 1);
    turn(&p.a.w, &p.t, CAIRN_RESUME_EXACT, 10, &o);
    assert_false(cairn_cache_flush(p.a.w.cache, SECOND_NS));
    cairn_cache_shared_stats stats = shared_stats(&p.a);
    assert_true(stats.full > 0 && stats.works);
    talk_add(&p.t, CAIRN_ROLE_USER, 9, 100);
    (void)pair_other_asks(&p, &o);
    pair_close(&p);
}

static void store_that_forgets_parts_is_a_miss(void **state)
{
    (void)state;
    const char *const more[] = {"--maxmemory", "6mb", "--maxmemory-policy", "allkeys-random", NULL};
    pair p;
    outcome o;
    pair_init(&p, more);
    p.a.w.replica.state_bytes = p.b.w.replica.state_bytes = 1 << 20;
    pair_open(&p);
    memset(&p.t, 0, sizeof p.t);
    talk_add(&p.t, CAIRN_ROLE_SYSTEM, 5, 600);
    for (uint32_t i = 0; i < 8; i++) {
        talk_add(&p.t, CAIRN_ROLE_USER, 60 + i, 300);
        shared_world *s = i % 2 == 0 ? &p.a : &p.b;
        turn(&s->w, &p.t, CAIRN_RESUME_EXACT, 5, &o);
        (void)cairn_cache_flush(s->w.cache, SECOND_NS / 2);
    }
    pair_close(&p);
}

static void store_that_restarted_empty_is_filled_again(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_start(&p, CAIRN_RESUME_EXACT);
    uint64_t sent = shared_stats(&p.a).sent;
    server_kill(&p.store);
    server_start(&p.store);
    assert_int_equal(pair_other_asks(&p, &o), CAIRN_SOURCE_NONE);
    talk_cut(&p.t, 4); /* b's own answer goes */
    talk_add(&p.t, CAIRN_ROLE_USER, 9, 300);
    redis_do(&p.store, "FLUSHALL"); /* whatever b has sent */
    turn(&p.a.w, &p.t, CAIRN_RESUME_EXACT, 5, &o);
    shared_send_all(&p.a);
    /* The first blob told a that the store was started anew: what follows was sent again, rows from the first on. */
    assert_true(shared_stats(&p.a).sent > sent + 3);
    pair_close(&p);
}

/* Each value in turn is damaged: a bit of it, its end, or all of it. */
static void damaged_value_is_a_miss_whichever_it_is(void **state)
{
    (void)state;
    server store;
    redis_start(&store, NULL);
    shared_world a;
    shared_init(&a, &store);
    shared_open(&a);
    talk t;
    outcome o;
    talk_long(&t, 1);
    turn(&a.w, &t, CAIRN_RESUME_EXACT, 10, &o);
    shared_send_all(&a);
    talk_add(&t, CAIRN_ROLE_USER, 9, 100);
    redis_names names;
    redis_names_get(&store, &names);
    assert_true(names.count > 15);
    uint32_t hits = 0, misses = 0;
    redis_value *values = test_malloc(names.count * sizeof *values);
    for (uint32_t i = 0; i < names.count; i++) {
        values[i] = redis_value_get(&store, names.keys[i]);
    }
    for (uint32_t i = 0; i < names.count; i++) {
        redis_do(&store, "FLUSHALL"); /* what is damaged is removed by who finds it: all as it was */
        for (uint32_t j = 0; j < names.count; j++) {
            redis_value_set(&store, names.keys[j], &values[j]);
        }
        redis_value damaged = {.bytes = test_malloc(values[i].count), .count = values[i].count};
        memcpy(damaged.bytes, values[i].bytes, values[i].count);
        damaged.bytes[damaged.count * 2 / 3] ^= (uint8_t)(i % 3 == 0 ? 1 : 0);
        damaged.count = i % 3 == 1 ? damaged.count - 1 : i % 3 == 2 ? 0 : damaged.count;
        redis_value_set(&store, names.keys[i], &damaged);
        shared_world b;
        shared_init(&b, &store);
        shared_open(&b);
        talk copy;
        talk_copy(&copy, &t);
        turn(&b.w, &copy, CAIRN_RESUME_EXACT, 5, &o); /* compares with the cold run */
        hits += o.record.source == CAIRN_SOURCE_SHARED ? 1 : 0;
        misses += o.record.source == CAIRN_SOURCE_NONE ? 1 : 0;
        talk_release(&copy);
        world_close(&b.w);
        test_free(damaged.bytes);
    }
    for (uint32_t i = 0; i < names.count; i++) {
        redis_value_release(&values[i]);
    }
    test_free(values);
    assert_true(hits > 0 && misses > 0);
    redis_names_release(&names);
    talk_release(&t);
    world_close(&a.w);
    server_end(&store);
}

/* The line is cut after so many bytes, in the middle of what the other server fetches. */
static void line_that_is_cut_in_the_middle_costs_time_only(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_init(&p, NULL);
    shared_open(&p.a);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    uint32_t whole = 0;
    for (uint64_t bytes = 1; whole < 2; bytes = bytes * 3 + 7) {
        proxy line;
        proxy_start(&line, p.store.port, bytes);
        shared_world b;
        shared_init(&b, &p.store);
        (void)snprintf(b.url, sizeof b.url, "redis://127.0.0.1:%d", line.port);
        shared_open(&b);
        talk copy;
        talk_copy(&copy, &p.t);
        turn(&b.w, &copy, CAIRN_RESUME_EXACT, 5, &o);
        whole += o.record.source == CAIRN_SOURCE_SHARED ? 1 : 0;
        assert_true(bytes < (1u << 30));
        talk_release(&copy);
        world_close(&b.w);
        proxy_end(&line);
    }
    shared_open(&p.b);
    pair_close(&p);
}

/* Three servers, random conversations with edits, a balancer that throws dice, and a store that has its moods. */
static void random_fleets_give_exact_answers(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init_stream(&rng, cairn_test_seed("random_fleets", 7), 0);
    server store;
    redis_start(&store, NULL);
    shared_world fleet[3];
    talk talks[3];
    uint32_t shared = 0;
    memset(talks, 0, sizeof talks);
    for (int i = 0; i < 3; i++) {
        shared_init(&fleet[i], &store);
        fleet[i].w.check_every = 8;
        shared_open(&fleet[i]);
        talk_add(&talks[i], CAIRN_ROLE_SYSTEM, 3, 700);
    }
    for (uint32_t turns = 0; turns < 60; turns++) {
        shared_world *s = &fleet[cairn_rng_below(&rng, 3)];
        talk *t = &talks[cairn_rng_below(&rng, 3)];
        uint64_t die = cairn_rng_below(&rng, 12);
        outcome o;
        if (die == 0) {
            redis_do(&store, "FLUSHALL");
        } else if (die == 1) {
            server_kill(&store);
            server_start(&store);
        } else if (die <= 4 && t->count > 3) {
            talk_cut(t, 1 + (uint32_t)cairn_rng_below(&rng, t->count - 1));
        }
        talk_add(t, CAIRN_ROLE_USER, cairn_rng_u64(&rng), 50 + (uint32_t)cairn_rng_below(&rng, 500));
        turn(&s->w, t, CAIRN_RESUME_EXACT, (uint32_t)cairn_rng_below(&rng, 12), &o);
        shared += o.record.source == CAIRN_SOURCE_SHARED ? 1 : 0;
        if (cairn_rng_below(&rng, 4) != 0) {
            (void)cairn_cache_flush(s->w.cache, 20 * SECOND_NS);
        }
        if (t->count > 24) {
            talk_cut(t, 1);
        }
    }
    assert_true(shared > 0);
    for (int i = 0; i < 3; i++) {
        talk_release(&talks[i]);
        world_close(&fleet[i].w);
    }
    server_end(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_that_is_down_costs_time_only_and_is_used_when_it_comes),
        cmocka_unit_test(store_that_does_not_answer_is_waited_for_until_the_deadline),
        cmocka_unit_test(store_that_is_full_keeps_what_it_has),
        cmocka_unit_test(store_that_forgets_parts_is_a_miss),
        cmocka_unit_test(store_that_restarted_empty_is_filled_again),
        cmocka_unit_test(damaged_value_is_a_miss_whichever_it_is),
        cmocka_unit_test(line_that_is_cut_in_the_middle_costs_time_only),
        cmocka_unit_test(random_fleets_give_exact_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
