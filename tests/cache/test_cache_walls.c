/*
 * Namespaces are walls, counted: a prompt that another namespace has costs its reader exactly what one costs that nobody has, in
 * every kind of work. So no clock can tell them apart. And what the store shows of a prompt is its length.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/io_memory.h"
#include "cache/keeper_internal.h"
#include "cache_support.h"

#define SECOND_NS UINT64_C(1000000000)

static cairn_io sane;
static pthread_t engine_thread;
static atomic_uint_fast64_t opens, reads, stats_asked; /* of the engine's thread; the writer's looks, too */

static cairn_status counting_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                                  cairn_error *reterr)
{
    opens += pthread_equal(pthread_self(), engine_thread) ? 1 : 0;
    return sane.open(self, path, flags, ret_file, reterr);
}

static cairn_status counting_pread(cairn_file *file, void *bytes, size_t len_bytes, uint64_t offset_bytes,
                                   size_t *ret_bytes, cairn_error *reterr)
{
    reads += pthread_equal(pthread_self(), engine_thread) ? 1 : 0;
    return sane.pread(file, bytes, len_bytes, offset_bytes, ret_bytes, reterr);
}

static cairn_status counting_stat(cairn_io *self, const char *path, cairn_io_stat *ret_stat,
                                  cairn_error *reterr)
{
    stats_asked += pthread_equal(pthread_self(), engine_thread) ? 1 : 0;
    return sane.stat(self, path, ret_stat, reterr);
}

typedef struct work {
    uint64_t opens, reads, stats, lookups, allocations, steps, virtual_ns;
    uint64_t engine[CAIRN_REPLICA_CALLS];
    uint64_t decoded, states_bytes, rows_bytes;
    cairn_record record;
} work;

static void talk_of(talk *t, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    talk_add(t, CAIRN_ROLE_SYSTEM, seed, 900);
    talk_add(t, CAIRN_ROLE_USER, seed + 1, 1400);
}

/* Namespace 1 has a conversation, in `warm` memory and slots or only on disk; then `space` asks for the one of `seed`. */
static void second_asks(bool warm, uint8_t space, uint64_t seed, work *ret_work)
{
    world w;
    talk t;
    rendered r;
    outcome o;
    world_init(&w);
    w.replica.slots = 2;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 64u << 20);
    assert_non_null(memory);
    cairn_io *io = cairn_io_memory_io(memory);
    sane = *io;
    io->open = counting_open;
    io->pread = counting_pread;
    io->stat = counting_stat;
    engine_thread = pthread_self();
    cairn_cache_disk disk = {.dir = "/store", .bytes_max = 32u << 20, .io = io};
    w.options.disk = &disk;
    world_open(&w);
    talk_of(&t, 1);
    render(&r, &t, CAIRN_RESUME_FAST);
    r.prompt.space.bytes[0] = 1;
    ask(&w, &r, 10, &o);
    assert_true(cairn_cache_flush(w.cache, 60 * SECOND_NS));
    if (!warm) {
        world_close(&w);
        w.options.disk = &disk;
        world_open(&w);
    }
    rendered_release(&r);
    talk_release(&t);

    talk_of(&t, seed);
    render(&r, &t, CAIRN_RESUME_FAST);
    r.prompt.space.bytes[0] = space;
    cairn_disk_stats before, after;
    cairn_disk_stats_get(w.cache->keeper->disk, &before);
    const cairn_replica_counters calls = *cairn_replica_counters_get(w.engine);
    uint64_t allocations = w.memory.calls, begin_ns = w.clock_ns;
    atomic_store(&opens, 0);
    atomic_store(&reads, 0);
    atomic_store(&stats_asked, 0);
    w.cache->keeper->behind_ns =
        UINT64_MAX; /* when it writes is the writer's thread's affair, not the prompt's */
    ask(&w, &r, 10, &o);
    cairn_disk_stats_get(w.cache->keeper->disk, &after);
    const cairn_replica_counters *now = cairn_replica_counters_get(w.engine);
    *ret_work = (work){.opens = opens,
                       .reads = reads,
                       .stats = stats_asked,
                       .lookups = after.lookups - before.lookups,
                       .allocations = w.memory.calls - allocations,
                       .steps = o.steps,
                       .virtual_ns = w.clock_ns - begin_ns,
                       .decoded = now->tokens_decoded - calls.tokens_decoded,
                       .states_bytes = now->state_bytes_out - calls.state_bytes_out,
                       .rows_bytes = now->row_bytes_in - calls.row_bytes_in,
                       .record = o.record};
    for (int i = 0; i < CAIRN_REPLICA_CALLS; i++) {
        ret_work->engine[i] = now->calls[i] - calls.calls[i];
    }
    rendered_release(&r);
    talk_release(&t);
    world_close(&w);
    cairn_io_memory_free(memory);
}

static void prompt_that_another_namespace_has_costs_what_an_unknown_one_costs(void **state)
{
    (void)state;
    for (int warm = 0; warm < 2; warm++) {
        work equal, other, own;
        second_asks(warm != 0, 2, 1, &equal);
        second_asks(warm != 0, 2, 500, &other);
        second_asks(warm != 0, 1, 1, &own); /* what is counted would show a hit */
        assert_true(own.record.resume > 2000 && own.virtual_ns < equal.virtual_ns);
        assert_true(own.allocations != equal.allocations && own.decoded != equal.decoded);
        assert_int_equal(equal.record.prompt_tokens, other.record.prompt_tokens);
        assert_int_equal(equal.record.resume, 0);
        assert_int_equal(equal.record.divergence, 0);
        assert_int_equal(equal.record.reason, other.record.reason);
        assert_int_equal(equal.record.read_ns, other.record.read_ns);
        assert_int_equal(equal.record.restore_ns, other.record.restore_ns);
        memset(&equal.record, 0, sizeof equal.record);
        memset(&other.record, 0, sizeof other.record);
        assert_true(equal.lookups > 0 && equal.decoded > 2000);
        assert_int_equal(equal.opens, other.opens);
        assert_int_equal(equal.allocations, other.allocations);
        assert_memory_equal(&equal, &other, sizeof equal);
    }
}

/* --- what the store shows ------------------------------------------------------------------------------------ */

typedef struct shown {
    uint64_t sizes[64];
    char names[64][CAIRN_BLOB_NAME_BYTES];
    int count;
} shown;

static bool note(void *ctx, const cairn_disk_row *row)
{
    shown *list = ctx;
    list->sizes[list->count] = row->file_bytes;
    memcpy(list->names[list->count++], row->name, CAIRN_BLOB_NAME_BYTES);
    return list->count < 64;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* Keep one conversation and list its files; none of their headers may hold three tokens of it in a row. */
static void keep_and_show(uint64_t seed, uint8_t space, shown *ret_shown)
{
    world w;
    talk t;
    rendered r;
    outcome o;
    world_init(&w);
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 64u << 20);
    cairn_cache_disk disk = {.dir = "/store", .bytes_max = 32u << 20, .io = cairn_io_memory_io(memory)};
    w.options.disk = &disk;
    world_open(&w);
    talk_of(&t, seed);
    render(&r, &t, CAIRN_RESUME_FAST);
    r.prompt.space.bytes[0] = space;
    ask(&w, &r, 1, &o);
    assert_true(cairn_cache_flush(w.cache, 60 * SECOND_NS));
    ret_shown->count = 0;
    assert_ok(cairn_disk_each(w.cache->keeper->disk, note, ret_shown, NULL));
    for (int i = 0; i < ret_shown->count; i++) {
        char path[256];
        cairn_buf file;
        cairn_buf_init(&file, cairn_mem_default(), 1 << 24);
        (void)snprintf(path, sizeof path, "/store/%.2s/%.64s.blob", ret_shown->names[i], ret_shown->names[i]);
        assert_ok(cairn_io_read_file(cairn_io_memory_io(memory), path, &file, NULL));
        size_t header = file.len_bytes < 8192 ? file.len_bytes : 8192;
        for (uint32_t k = 0; k + 3 <= r.prompt.count; k += 97) {
            for (size_t at = 0; at + 12 <= header && at < CAIRN_BLOB_ALIGN_BYTES; at += 4) {
                assert_true(memcmp(file.bytes + at, r.prompt.tokens + k, 12) != 0);
            }
        }
        cairn_buf_release(&file);
    }
    qsort(ret_shown->sizes, (size_t)ret_shown->count, sizeof ret_shown->sizes[0], by_size);
    rendered_release(&r);
    talk_release(&t);
    world_close(&w);
    cairn_io_memory_free(memory);
}

static void names_and_sizes_tell_the_length_of_a_prompt_and_no_more(void **state)
{
    (void)state;
    static shown one, two, three;
    keep_and_show(1, 1, &one);   /* a prompt */
    keep_and_show(500, 1, &two); /* another of its length */
    keep_and_show(1, 2, &three); /* the first, of another namespace */
    assert_true(one.count > 4);
    assert_int_equal(one.count, two.count);
    assert_int_equal(one.count, three.count);
    assert_memory_equal(one.sizes, two.sizes, (size_t)one.count * sizeof one.sizes[0]);
    assert_memory_equal(one.sizes, three.sizes, (size_t)one.count * sizeof one.sizes[0]);
    for (int i = 0; i < one.count; i++) {
        for (int k = 0; k < three.count; k++) { /* equal prompts have no name in common */
            assert_string_not_equal(one.names[i], three.names[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_that_another_namespace_has_costs_what_an_unknown_one_costs),
        cmocka_unit_test(names_and_sizes_tell_the_length_of_a_prompt_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
