/*
 * The disk tier under the conductor: what was read before a restart is resumed after it, exactly; and whatever the
 * disk does costs time only.
 */
#include "base/io_faulty.h"
#include "base/io_memory.h"
#include "cache_support.h"

#define SECOND_NS UINT64_C(1000000000)

typedef struct disk_world {
    world w;
    cairn_cache_disk disk;
    cairn_io_memory *memory;
} disk_world;

static void disk_init(disk_world *d)
{
    world_init(&d->w);
    d->memory = cairn_io_memory_new(cairn_mem_default(), 256u << 20);
    assert_non_null(d->memory);
    d->disk =
        (cairn_cache_disk){.dir = "/store", .bytes_max = 128u << 20, .io = cairn_io_memory_io(d->memory)};
    d->w.replica.cut_sensitive = true;
}

static void disk_open(disk_world *d)
{
    d->w.options.disk = &d->disk;
    world_open(&d->w);
    assert_non_null(d->w.cache->keeper);
}

static void restart(disk_world *d, bool flush)
{
    if (flush) {
        assert_true(cairn_cache_flush(d->w.cache, 60 * SECOND_NS));
    }
    world_close(&d->w);
    disk_open(d);
}

static void disk_end(disk_world *d)
{
    world_close(&d->w);
    cairn_io_memory_free(d->memory);
}

static void talk_usual(talk *t, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    talk_add(t, CAIRN_ROLE_SYSTEM, seed, 900);
    talk_add(t, CAIRN_ROLE_USER, seed + 1, 700);
    talk_add(t, CAIRN_ROLE_ASSISTANT, seed + 2, 120);
    talk_add(t, CAIRN_ROLE_USER, seed + 3, 1400);
}

static void conversation_is_resumed_after_a_restart(void **state)
{
    (void)state;
    for (int mode = CAIRN_RESUME_FAST; mode <= CAIRN_RESUME_EXACT; mode++) {
        disk_world d;
        disk_init(&d);
        d.w.replica.cut_sensitive = mode == CAIRN_RESUME_EXACT;
        disk_open(&d);
        talk t;
        talk_usual(&t, 1);
        outcome o;
        turn(&d.w, &t, (cairn_resume_mode)mode, 20, &o);
        uint32_t before = o.record.prompt_tokens;
        restart(&d, true);
        talk_add(&t, CAIRN_ROLE_USER, 9, 100);
        turn(&d.w, &t, (cairn_resume_mode)mode, 20, &o); /* compares with a cold run, bit for bit */
        assert_int_equal(o.record.source, CAIRN_SOURCE_DISK);
        assert_true(o.record.resume + 8 >= before);
        cairn_cache_disk_stats stats;
        cairn_cache_disk_stats_get(d.w.cache, &stats);
        assert_true(stats.fetched > 0 && stats.fetch_failures == 0 && stats.failures == 0);

        restart(&d, true);
        talk_cut(&t, 3);
        talk_add(&t, CAIRN_ROLE_USER, 77, 300); /* the last message edited */
        turn(&d.w, &t, (cairn_resume_mode)mode, 5, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_DISK);
        assert_true(o.record.resume > 1500);
        talk_release(&t);
        disk_end(&d);
    }
}

static void what_was_not_flushed_is_read_again_and_right(void **state)
{
    (void)state;
    disk_world d;
    disk_init(&d);
    disk_open(&d);
    talk t;
    talk_usual(&t, 1);
    outcome o;
    turn(&d.w, &t, CAIRN_RESUME_EXACT, 20, &o);
    (void)cairn_cache_idle(d.w.cache);
    restart(&d, false);
    assert_ok(cairn_io_memory_power_loss(d.memory, 5));
    world_close(&d.w);
    disk_open(&d);
    turn(&d.w, &t, CAIRN_RESUME_EXACT, 20, &o);
    talk_release(&t);
    disk_end(&d);
}

static void namespaces_are_walls_on_disk_too(void **state)
{
    (void)state;
    disk_world d;
    disk_init(&d);
    disk_open(&d);
    talk t;
    talk_usual(&t, 1);
    rendered r;
    outcome o;
    render(&r, &t, CAIRN_RESUME_EXACT);
    r.prompt.space.bytes[3] = 1;
    ask_and_compare(&d.w, &r, 3, &o);
    restart(&d, true);
    r.prompt.space.bytes[3] = 2;
    ask_and_compare(&d.w, &r, 3, &o);
    assert_int_equal(o.record.resume, 0);
    assert_int_equal(o.record.divergence, 0);
    cairn_namespace space = {{0, 0, 0, 1}};
    assert_ok(cairn_cache_forget(d.w.cache, &space, NULL));
    restart(&d, true);
    r.prompt.space.bytes[3] = 1;
    ask_and_compare(&d.w, &r, 3, &o);
    assert_int_equal(o.record.resume, 0);
    rendered_release(&r);
    talk_release(&t);
    disk_end(&d);
}

static void other_weights_never_use_it(void **state)
{
    (void)state;
    disk_world d;
    disk_init(&d);
    disk_open(&d);
    talk t;
    talk_usual(&t, 1);
    rendered r;
    outcome o;
    render(&r, &t, CAIRN_RESUME_FAST);
    d.w.replica.cut_sensitive = false;
    ask(&d.w, &r, 3, &o);
    assert_true(cairn_cache_flush(d.w.cache, 60 * SECOND_NS));
    world_close(&d.w);
    d.w.replica.seed++;
    disk_open(&d);
    ask_and_compare(&d.w, &r, 3, &o);
    assert_int_equal(o.record.resume, 0);
    rendered_release(&r);
    talk_release(&t);
    disk_end(&d);
}

static void cancelled_while_fetching_leaves_no_trace(void **state)
{
    (void)state;
    disk_world d;
    disk_init(&d);
    disk_open(&d);
    talk t;
    talk_usual(&t, 1);
    outcome o;
    turn(&d.w, &t, CAIRN_RESUME_EXACT, 20, &o);
    talk_add(&t, CAIRN_ROLE_USER, 9, 100);
    for (uint32_t steps = 0; steps < 12; steps++) {
        restart(&d, true);
        rendered r;
        render(&r, &t, CAIRN_RESUME_EXACT);
        (void)ask_and_stop(&d.w, &r, steps);
        world_check(&d.w);
        ask_and_compare(&d.w, &r, 2, &o);
        assert_true(o.record.resume > 2500);
        rendered_release(&r);
    }
    talk_release(&t);
    disk_end(&d);
}

/* Conversations with edits, restarts in between, budgets of all sizes: exact answers equal a cold run's. */
static void random_restarts_give_exact_answers(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("random_restarts", 3));
    uint64_t from_disk = 0;
    for (int round = 0; round < 6; round++) {
        disk_world d;
        disk_init(&d);
        d.w.replica.slots = 1 + (uint32_t)cairn_rng_below(&rng, 2);
        d.w.options.ram_bytes_max = UINT64_C(6) << (19 + cairn_rng_below(&rng, 4));
        d.disk.bytes_max = UINT64_C(1) << (18 + cairn_rng_below(&rng, 8));
        d.w.check_every = 3;
        disk_open(&d);
        talk talks[3];
        for (uint32_t i = 0; i < 3; i++) {
            talk_usual(&talks[i], 10 * i + (uint64_t)round);
        }
        for (int i = 0; i < 25; i++) {
            talk *t = &talks[cairn_rng_below(&rng, 3)];
            outcome o;
            if (cairn_rng_chance(&rng, 0.25)) {
                talk_cut(t, 1 + (uint32_t)cairn_rng_below(&rng, t->count));
            }
            talk_add(t, CAIRN_ROLE_USER, cairn_rng_u64(&rng), 20 + (uint32_t)cairn_rng_below(&rng, 500));
            bool exact = cairn_rng_chance(&rng, 0.7);
            d.w.replica.cut_sensitive = true;
            if (exact) {
                turn(&d.w, t, CAIRN_RESUME_EXACT, (uint32_t)cairn_rng_below(&rng, 30), &o);
            } else {
                rendered r;
                render(&r, t, CAIRN_RESUME_FAST);
                ask(&d.w, &r, 5, &o);
                rendered_release(&r);
            }
            from_disk += o.record.source == CAIRN_SOURCE_DISK ? 1 : 0;
            for (uint64_t k = cairn_rng_below(&rng, 4); k > 0; k--) {
                (void)cairn_cache_idle(d.w.cache);
            }
            if (cairn_rng_chance(&rng, 0.3)) {
                restart(&d, cairn_rng_chance(&rng, 0.5) && d.disk.bytes_max >= 1u << 24);
            }
        }
        for (uint32_t i = 0; i < 3; i++) {
            talk_release(&talks[i]);
        }
        disk_end(&d);
    }
    assert_true(from_disk > 3);
}

/* Every call to the disk goes wrong in turn: the answer is the cold one. */
static void disk_that_fails_costs_time_only(void **state)
{
    (void)state;
    const cairn_io_fault faults[] = {CAIRN_IO_FAULT_FAIL, CAIRN_IO_FAULT_TORN, CAIRN_IO_FAULT_FLIP,
                                     CAIRN_IO_FAULT_STOP};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        for (uint64_t at = 1;; at += 1 + at / 6) {
            disk_world d;
            disk_init(&d);
            cairn_io_faulty faulty;
            cairn_io_faulty_init(&faulty, cairn_io_memory_io(d.memory), faults[f], at);
            d.disk.io = cairn_io_faulty_io(&faulty);
            d.w.options.disk = &d.disk;
            d.w.check_every = 4;
            talk t;
            talk_usual(&t, 1);
            outcome o;
            for (int i = 0; i < 2; i++) {
                d.w.options.disk = &d.disk;
                world_open(&d.w); /* also without a disk, when it can't be opened */
                turn(&d.w, &t, CAIRN_RESUME_EXACT, 4, &o);
                (void)cairn_cache_flush(d.w.cache, 60 * SECOND_NS);
                world_close(&d.w);
                talk_add(&t, CAIRN_ROLE_USER, 9, 30);
            }
            uint64_t hits = faulty.hits;
            cairn_io_faulty_release(&faulty);
            talk_release(&t);
            cairn_io_memory_free(d.memory);
            if (hits == 0) {
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation_is_resumed_after_a_restart),
        cmocka_unit_test(what_was_not_flushed_is_read_again_and_right),
        cmocka_unit_test(namespaces_are_walls_on_disk_too),
        cmocka_unit_test(other_weights_never_use_it),
        cmocka_unit_test(cancelled_while_fetching_leaves_no_trace),
        cmocka_unit_test(random_restarts_give_exact_answers),
        cmocka_unit_test(disk_that_fails_costs_time_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
