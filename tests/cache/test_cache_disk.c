/*
 * The disk tier under the conductor: what was read before a restart is resumed after it, exactly; and whatever the
 * disk does costs time only.
 */
#include <stdatomic.h>

#include "base/io_faulty.h"
#include "base/io_memory.h"
#include "cache/keeper_internal.h"
#include "cache_support.h"

#define SECOND_NS UINT64_C(1000000000)

typedef struct disk_world {
    world w;
    cairn_cache_disk disk;
    cairn_io_memory *memory;
    talk t; /* a long one, for tests that need no more */
} disk_world;

static void disk_init(disk_world *d)
{
    world_init(&d->w);
    d->memory = cairn_io_memory_new(cairn_mem_default(), 256u << 20);
    assert_non_null(d->memory);
    d->disk =
        (cairn_cache_disk){.dir = "/store", .bytes_max = 128u << 20, .io = cairn_io_memory_io(d->memory)};
    d->w.replica.cut_sensitive = true;
    talk_long(&d->t, 1);
}

static void disk_open(disk_world *d)
{
    d->w.options.disk = &d->disk;
    world_open(&d->w);
    assert_non_null(d->w.cache->keeper);
}

/* Both, with nothing changed. */
static void disk_start(disk_world *d)
{
    disk_init(d);
    disk_open(d);
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
    talk_release(&d->t);
    world_close(&d->w);
    cairn_io_memory_free(d->memory);
}

static void conversation_is_resumed_after_a_restart(void **state)
{
    (void)state;
    for (int mode = CAIRN_RESUME_FAST; mode <= CAIRN_RESUME_EXACT; mode++) {
        disk_world d;
        disk_init(&d);
        d.w.replica.cut_sensitive = mode == CAIRN_RESUME_EXACT;
        disk_open(&d);
        outcome o;
        turn(&d.w, &d.t, (cairn_resume_mode)mode, 20, &o);
        uint32_t before = o.record.prompt_tokens;
        restart(&d, true);
        talk_add(&d.t, CAIRN_ROLE_USER, 9, 100);
        turn(&d.w, &d.t, (cairn_resume_mode)mode, 20, &o); /* compares with a cold run, bit for bit */
        assert_int_equal(o.record.source, CAIRN_SOURCE_DISK);
        assert_true(o.record.resume + 8 >= before);
        cairn_cache_disk_stats stats;
        cairn_cache_disk_stats_get(d.w.cache, &stats);
        assert_true(stats.fetched > 0 && stats.fetch_failures == 0 && stats.failures == 0);

        restart(&d, true);
        talk_cut(&d.t, 3);
        talk_add(&d.t, CAIRN_ROLE_USER, 77, 300); /* the last message edited */
        turn(&d.w, &d.t, (cairn_resume_mode)mode, 5, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_DISK);
        assert_true(o.record.resume > 1500);
        disk_end(&d);
    }
}

static void what_was_not_flushed_is_read_again_and_right(void **state)
{
    (void)state;
    disk_world d;
    disk_start(&d);
    outcome o;
    turn(&d.w, &d.t, CAIRN_RESUME_EXACT, 20, &o);
    (void)cairn_cache_idle(d.w.cache);
    restart(&d, false);
    assert_ok(cairn_io_memory_power_loss(d.memory, 5));
    world_close(&d.w);
    disk_open(&d);
    turn(&d.w, &d.t, CAIRN_RESUME_EXACT, 20, &o);
    disk_end(&d);
}

/* Three conversations on one slot, no idle moment between them: at the end all of them are on disk. */
static void conversation_that_lost_its_slot_is_kept_too(void **state)
{
    (void)state;
    disk_world d;
    disk_init(&d);
    d.w.replica.slots = 1;
    disk_open(&d);
    talk talks[3];
    outcome o;
    uint32_t prompts[3];
    for (uint32_t i = 0; i < 3; i++) {
        talk_long(&talks[i], 10 * i + 1);
        turn(&d.w, &talks[i], CAIRN_RESUME_EXACT, 20, &o);
        prompts[i] = o.record.prompt_tokens;
    }
    restart(&d, true);
    cairn_cache_disk_stats stats;
    cairn_cache_disk_stats_get(d.w.cache, &stats);
    uint64_t bytes = stats.bytes, full = 0;
    for (uint32_t i = 0; i < 3; i++) {
        talk_add(&talks[i], CAIRN_ROLE_USER, 9, 100);
        turn(&d.w, &talks[i], CAIRN_RESUME_EXACT, 20, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_DISK);
        assert_true(o.record.resume + 8 >= prompts[i]);
        full += (uint64_t)o.record.prompt_tokens * d.w.engine->info.row_bytes;
        talk_release(&talks[i]);
    }
    /* What came from there is not written again in other pieces, beyond the blocks that went on. */
    assert_true(cairn_cache_flush(d.w.cache, 60 * SECOND_NS));
    cairn_cache_disk_stats_get(d.w.cache, &stats);
    printf("%llu bytes, then %llu, rows of the paths %llu\n", (unsigned long long)bytes,
           (unsigned long long)stats.bytes, (unsigned long long)full);
    disk_end(&d);
}

/* Another process's view: a second cache over the same files. */
static void two_servers_share_a_directory(void **state)
{
    (void)state;
    disk_world a, b;
    disk_init(&a);
    disk_open(&a);
    disk_init(&b);
    cairn_io_memory *own = b.memory;
    b.disk.io = a.disk.io;
    disk_open(&b);
    talk t;
    talk_long(&t, 1);
    outcome o;
    for (int i = 0; i < 4; i++) {
        disk_world *here = i % 2 == 0 ? &a : &b;
        turn(&here->w, &t, CAIRN_RESUME_EXACT, 20, &o);
        assert_true(i == 0 || o.record.source == CAIRN_SOURCE_DISK);
        assert_true(cairn_cache_flush(here->w.cache, 60 * SECOND_NS));
        disk_world *there = i % 2 == 0 ? &b : &a; /* what its writer does every few seconds */
        assert_ok(cairn_disk_scan(there->w.cache->keeper->disk, false, NULL));
        talk_add(&t, CAIRN_ROLE_USER, 50 + (uint64_t)i, 200);
    }
    /* One of them removes everything: a miss for the other, which has it in its index still. */
    assert_ok(cairn_cache_forget(b.w.cache, NULL, NULL));
    world_close(&a.w);
    disk_open(&a);
    turn(&a.w, &t, CAIRN_RESUME_EXACT, 5, &o);
    talk_release(&t);
    world_close(&b.w);
    cairn_io_memory_free(own);
    disk_end(&a);
}

/* --- a disk whose state changes while it is used ----------------------------------------------------------- */

/* The table's own functions, and what everything that would change something gives; CAIRN_OK: it works. */
static cairn_io sane;
static atomic_int mood;

static bool moody(cairn_error *reterr)
{
    cairn_status status = (cairn_status)atomic_load(&mood);
    return status != CAIRN_OK && cairn_error_set(reterr, status, "moody", NULL) != CAIRN_OK;
}

static cairn_status moody_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                               cairn_error *reterr)
{
    return (flags & CAIRN_IO_WRITE) != 0 && moody(reterr) ? (cairn_status)atomic_load(&mood)
                                                          : sane.open(self, path, flags, ret_file, reterr);
}

static cairn_status moody_rename(cairn_io *self, const char *from, const char *to, cairn_error *reterr)
{
    return moody(reterr) ? (cairn_status)atomic_load(&mood) : sane.rename(self, from, to, reterr);
}

static cairn_status moody_unlink(cairn_io *self, const char *path, cairn_error *reterr)
{
    return moody(reterr) ? (cairn_status)atomic_load(&mood) : sane.unlink(self, path, reterr);
}

static cairn_status moody_mkdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    return moody(reterr) ? (cairn_status)atomic_load(&mood) : sane.mkdir(self, path, reterr);
}

static void moody_make(cairn_io *io)
{
    sane = *io;
    io->open = moody_open;
    io->rename = moody_rename;
    io->unlink = moody_unlink;
    io->mkdir = moody_mkdir;
}

/* Full, then read-only, while conversations go on: answers are right, and it is all there once the disk works again. */
static void disk_that_is_full_for_a_while_is_used_again(void **state)
{
    (void)state;
    const cairn_status moods[] = {CAIRN_NOSPACE, CAIRN_IO};
    for (int m = 0; m < 2; m++) {
        disk_world d;
        disk_init(&d);
        moody_make(cairn_io_memory_io(d.memory));
        disk_open(&d);
        outcome o;
        atomic_store(&mood, (int)moods[m]);
        turn(&d.w, &d.t, CAIRN_RESUME_EXACT, 20, &o);
        assert_false(cairn_cache_flush(d.w.cache, SECOND_NS / 5));
        cairn_cache_disk_stats stats;
        cairn_cache_disk_stats_get(d.w.cache, &stats);
        assert_true(stats.failures > 0 && stats.waiting && stats.due_ns > 0);
        assert_status(stats.last_error.status, moods[m]);
        talk_add(&d.t, CAIRN_ROLE_USER, 8, 300);
        turn(&d.w, &d.t, CAIRN_RESUME_EXACT, 20, &o);
        atomic_store(&mood, CAIRN_OK);
        d.w.cache->keeper->retry_ns = 0; /* the rest after a failure is over */
        assert_true(cairn_cache_flush(d.w.cache, 60 * SECOND_NS));
        uint32_t before = o.record.prompt_tokens;
        restart(&d, true);
        talk_add(&d.t, CAIRN_ROLE_USER, 9, 100);
        turn(&d.w, &d.t, CAIRN_RESUME_EXACT, 20, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_DISK);
        assert_true(o.record.resume + 8 >= before);
        disk_end(&d);
    }
}

static void namespaces_are_walls_on_disk_too(void **state)
{
    (void)state;
    disk_world d;
    disk_start(&d);
    rendered r;
    outcome o;
    render(&r, &d.t, CAIRN_RESUME_EXACT);
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
    disk_end(&d);
}

static void other_weights_never_use_it(void **state)
{
    (void)state;
    disk_world d;
    disk_start(&d);
    rendered r;
    outcome o;
    render(&r, &d.t, CAIRN_RESUME_FAST);
    d.w.replica.cut_sensitive = false;
    ask(&d.w, &r, 3, &o);
    assert_true(cairn_cache_flush(d.w.cache, 60 * SECOND_NS));
    world_close(&d.w);
    d.w.replica.seed++;
    disk_open(&d);
    ask_and_compare(&d.w, &r, 3, &o);
    assert_int_equal(o.record.resume, 0);
    rendered_release(&r);
    disk_end(&d);
}

static void cancelled_while_fetching_leaves_no_trace(void **state)
{
    (void)state;
    disk_world d;
    disk_start(&d);
    outcome o;
    turn(&d.w, &d.t, CAIRN_RESUME_EXACT, 20, &o);
    talk_add(&d.t, CAIRN_ROLE_USER, 9, 100);
    for (uint32_t steps = 0; steps < 12; steps++) {
        restart(&d, true);
        rendered r;
        render(&r, &d.t, CAIRN_RESUME_EXACT);
        (void)ask_and_stop(&d.w, &r, steps);
        world_check(&d.w);
        ask_and_compare(&d.w, &r, 2, &o);
        assert_true(o.record.resume > 2500);
        rendered_release(&r);
    }
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
            talk_long(&talks[i], 10 * i + (uint64_t)round);
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
                bool kept = cairn_rng_chance(&rng, 0.5), all = d.disk.bytes_max >= 1u << 24;
                if (kept && !all) { /* as much as there is room for */
                    (void)cairn_cache_flush(d.w.cache, 60 * SECOND_NS);
                }
                restart(&d, kept && all);
            }
        }
        for (uint32_t i = 0; i < 3; i++) {
            talk_release(&talks[i]);
        }
        disk_end(&d);
    }
    printf("%llu requests resumed from disk\n", (unsigned long long)from_disk);
    assert_true(from_disk > 0);
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
            outcome o;
            for (int i = 0; i < 2; i++) {
                d.w.options.disk = &d.disk;
                world_open(&d.w); /* also without a disk, when it can't be opened */
                turn(&d.w, &d.t, CAIRN_RESUME_EXACT, 4, &o);
                (void)cairn_cache_flush(d.w.cache, 60 * SECOND_NS);
                world_close(&d.w);
                talk_add(&d.t, CAIRN_ROLE_USER, 9, 30);
            }
            uint64_t hits = faulty.hits;
            cairn_io_faulty_release(&faulty);
            talk_release(&d.t);
            cairn_io_memory_free(d.memory);
            if (hits == 0) {
                break;
            }
        }
    }
}

/* The conversation goes back and parts, again and again: something to learn from. */
static void part_often(disk_world *d, uint64_t times)
{
    outcome o;
    for (uint64_t i = 0; i < times; i++) {
        talk_cut(&d->t, 3);
        talk_add(&d->t, CAIRN_ROLE_USER, 50 + i, 200);
        turn(&d->w, &d->t, CAIRN_RESUME_FAST, 5, &o);
    }
}

static void learned_counts_outlive_a_restart_and_damaged_ones_are_set_aside(void **state)
{
    (void)state;
    disk_world d;
    disk_init(&d);
    d.w.replica.cut_sensitive = false;
    disk_open(&d);
    outcome o;
    part_often(&d, 6);
    static uint8_t before[1 << 14];
    static uint8_t after[1 << 14];
    size_t len_bytes = cairn_core_counts_save(d.w.cache->core, before, sizeof before);
    assert_true(len_bytes <= sizeof before);
    restart(&d, true);
    assert_int_equal(cairn_core_counts_save(d.w.cache->core, after, sizeof after), len_bytes);
    assert_memory_equal(after, before, len_bytes);

    assert_true(cairn_cache_flush(d.w.cache, 60 * SECOND_NS));
    world_close(&d.w);
    after[len_bytes / 2] ^= 1;
    assert_ok(cairn_io_write_file(d.disk.io, "/store/counts", after, len_bytes, NULL));
    disk_open(&d);
    cairn_io_stat stat;
    assert_int_equal(cairn_io_stat_path(d.disk.io, "/store/counts", &stat, NULL), CAIRN_NOTFOUND);
    assert_ok(cairn_io_stat_path(d.disk.io, "/store/bad/counts", &stat, NULL));
    turn(&d.w, &d.t, CAIRN_RESUME_FAST, 5, &o);
    assert_true(cairn_core_counts_save(d.w.cache->core, after, sizeof after) <= sizeof after);
    disk_end(&d);
}

/* Also where nothing is asked between the start, the forgetting and the end. */
static void forgotten_namespace_leaves_no_counts_behind(void **state)
{
    (void)state;
    disk_world d;
    disk_init(&d);
    d.w.replica.cut_sensitive = false;
    disk_open(&d);
    size_t empty = cairn_core_counts_save(d.w.cache->core, NULL, 0);
    part_often(&d, 4);
    restart(&d, true);
    assert_true(cairn_core_counts_save(d.w.cache->core, NULL, 0) > empty);
    const cairn_namespace own = {{0}};
    assert_ok(cairn_cache_forget(d.w.cache, &own, NULL));
    restart(&d, true);
    assert_int_equal(cairn_core_counts_save(d.w.cache->core, NULL, 0), empty);
    disk_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation_is_resumed_after_a_restart),
        cmocka_unit_test(learned_counts_outlive_a_restart_and_damaged_ones_are_set_aside),
        cmocka_unit_test(forgotten_namespace_leaves_no_counts_behind),
        cmocka_unit_test(what_was_not_flushed_is_read_again_and_right),
        cmocka_unit_test(conversation_that_lost_its_slot_is_kept_too),
        cmocka_unit_test(two_servers_share_a_directory),
        cmocka_unit_test(disk_that_is_full_for_a_while_is_used_again),
        cmocka_unit_test(namespaces_are_walls_on_disk_too),
        cmocka_unit_test(other_weights_never_use_it),
        cmocka_unit_test(cancelled_while_fetching_leaves_no_trace),
        cmocka_unit_test(random_restarts_give_exact_answers),
        cmocka_unit_test(disk_that_fails_costs_time_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
