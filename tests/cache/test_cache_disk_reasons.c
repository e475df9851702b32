/*
 * What is wrong with a stored file is a miss that says what: each fault of a blob, from the disk to the request's record.
 * The answer is the cold one in every case.
 */
#include <sched.h>
#include <stdatomic.h>

#include "base/io_memory.h"
#include "cache/keeper_internal.h"
#include "cache_support.h"

#define SECOND_NS UINT64_C(1000000000)

static const uint8_t key_one[CAIRN_DISK_KEY_BYTES] = {1}, key_two[CAIRN_DISK_KEY_BYTES] = {2};

typedef struct fault_world {
    world w;
    cairn_cache_disk disk;
    cairn_io_memory *memory;
    talk t;
} fault_world;

/* A conversation is on disk, and the server is down. */
static void prepare(fault_world *f, const uint8_t *key)
{
    outcome o;
    memset(f, 0, sizeof *f);
    world_init(&f->w);
    f->memory = cairn_io_memory_new(cairn_mem_default(), 64u << 20);
    assert_non_null(f->memory);
    f->disk = (cairn_cache_disk){
        .dir = "/store", .bytes_max = 32u << 20, .io = cairn_io_memory_io(f->memory), .key = key};
    f->w.options.disk = &f->disk;
    world_open(&f->w);
    talk_add(&f->t, CAIRN_ROLE_SYSTEM, 1, 900);
    talk_add(&f->t, CAIRN_ROLE_USER, 2, 1400);
    turn(&f->w, &f->t, CAIRN_RESUME_FAST, 10, &o);
    assert_true(cairn_cache_flush(f->w.cache, 60 * SECOND_NS));
    world_close(&f->w);
    talk_add(&f->t, CAIRN_ROLE_USER, 9, 50);
}

/* The server comes up; `spoil` is done; the conversation goes on. Gives its record. */
static cairn_record go_on(fault_world *f, const uint8_t *key, void (*spoil)(cairn_io *io, const char *path))
{
    outcome o;
    f->disk.key = key;
    f->w.options.disk = &f->disk;
    world_open(&f->w);
    for (int i = 0; spoil != NULL && i < 256; i++) {
        char folder[32];
        (void)snprintf(folder, sizeof folder, "/store/%02x", (unsigned)i);
        spoil(f->disk.io, folder);
    }
    cairn_keeper *keeper = f->w.cache->keeper;
    (void)pthread_mutex_lock(&keeper->lock); /* the writer's first look is over */
    while (keeper->scanned_ns == 0) {
        (void)pthread_mutex_unlock(&keeper->lock);
        (void)sched_yield();
        (void)pthread_mutex_lock(&keeper->lock);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    turn(&f->w, &f->t, CAIRN_RESUME_FAST, 5, &o); /* compares with a cold run, bit for bit */
    world_close(&f->w);
    return o.record;
}

static void end(fault_world *f)
{
    talk_release(&f->t);
    cairn_io_memory_free(f->memory);
}

typedef struct files {
    char names[64][128];
    int count;
} files;

static bool note(void *ctx, const char *name)
{
    files *list = ctx;
    (void)snprintf(list->names[list->count++], sizeof list->names[0], "%.120s", name);
    return list->count < 64;
}

static void each_file(cairn_io *io, const char *folder, void (*fn)(cairn_io *io, const char *path))
{
    files list = {.count = 0};
    if (cairn_io_list(io, folder, note, &list, NULL) != CAIRN_OK) {
        return;
    }
    for (int i = 0; i < list.count; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/%s", folder, list.names[i]);
        fn(io, path);
    }
}

static void flip_last_byte(cairn_io *io, const char *path)
{
    cairn_io_stat stat;
    cairn_file *file = NULL;
    uint8_t byte = 0;
    assert_ok(cairn_io_stat_path(io, path, &stat, NULL));
    assert_ok(cairn_io_open(io, path, CAIRN_IO_READ | CAIRN_IO_WRITE, &file, NULL));
    assert_ok(cairn_io_pread(file, &byte, 1, stat.size_bytes - 1, NULL));
    byte ^= 4;
    assert_ok(cairn_io_pwrite(file, &byte, 1, stat.size_bytes - 1, NULL));
    assert_ok(cairn_io_close(file, NULL));
}

static void remove_file(cairn_io *io, const char *path)
{
    assert_ok(cairn_io_unlink(io, path, NULL));
}

static void damage(cairn_io *io, const char *folder)
{
    each_file(io, folder, flip_last_byte);
}

static void take_away(cairn_io *io, const char *folder)
{
    each_file(io, folder, remove_file);
}

static void whole_file_is_resumed_from(void **state)
{
    (void)state;
    fault_world f;
    prepare(&f, NULL);
    cairn_record record = go_on(&f, NULL, NULL);
    assert_int_equal(record.source, CAIRN_SOURCE_DISK);
    assert_true(record.resume > 2000);
    end(&f);
}

static void damaged_file_is_a_miss_that_says_damaged(void **state)
{
    (void)state;
    fault_world f;
    prepare(&f, NULL);
    cairn_record record = go_on(&f, NULL, damage);
    assert_int_equal(record.resume, 0);
    assert_int_equal(record.reason, CAIRN_REASON_DAMAGED);
    end(&f);
}

static void removed_file_is_a_miss_that_says_evicted(void **state)
{
    (void)state;
    fault_world f;
    prepare(&f, NULL);
    cairn_record record = go_on(&f, NULL, take_away);
    assert_int_equal(record.resume, 0);
    assert_true(record.reason == CAIRN_REASON_EVICTED || record.reason == CAIRN_REASON_NEW);
    end(&f);
}

/* --- a file that can't be read ------------------------------------------------------------------------------- */

static cairn_io sane;
static atomic_bool refuses;

static cairn_status refusing_pread(cairn_file *file, void *bytes, size_t len_bytes, uint64_t offset_bytes,
                                   size_t *ret_bytes, cairn_error *reterr)
{
    if (refuses && offset_bytes >= CAIRN_BLOB_ALIGN_BYTES) { /* a bad sector in what it holds */
        return cairn_error_set(reterr, CAIRN_IO, "test", "input/output error");
    }
    return sane.pread(file, bytes, len_bytes, offset_bytes, ret_bytes, reterr);
}

static void refuse(cairn_io *io, const char *folder)
{
    (void)io;
    (void)folder;
    refuses = true;
}

static void unreadable_file_is_a_miss_that_says_so_and_is_used_when_it_can_be_read(void **state)
{
    (void)state;
    fault_world f;
    prepare(&f, NULL);
    cairn_io *io = cairn_io_memory_io(f.memory);
    sane = *io;
    io->pread = refusing_pread;
    cairn_record record = go_on(&f, NULL, refuse);
    assert_int_equal(record.resume, 0);
    assert_int_equal(record.reason, CAIRN_REASON_UNREADABLE);
    refuses = false;
    record = go_on(&f, NULL, NULL);
    assert_int_equal(record.source, CAIRN_SOURCE_DISK);
    assert_true(record.resume > 2000);
    end(&f);
}

/* --- keys ---------------------------------------------------------------------------------------------------- */

static void file_of_another_key_is_a_miss_that_says_key(void **state)
{
    (void)state;
    const uint8_t *const before[] = {key_one, key_one, NULL}, *const after[] = {key_two, NULL, key_one};
    for (int i = 0; i < 3; i++) {
        fault_world f;
        prepare(&f, before[i]);
        cairn_record record = go_on(&f, after[i], NULL);
        assert_int_equal(record.resume, 0);
        assert_int_equal(record.reason, CAIRN_REASON_KEY);
        record = go_on(&f, before[i], NULL); /* nothing was harmed */
        assert_true(record.resume > 2000);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file_is_resumed_from),
        cmocka_unit_test(damaged_file_is_a_miss_that_says_damaged),
        cmocka_unit_test(removed_file_is_a_miss_that_says_evicted),
        cmocka_unit_test(unreadable_file_is_a_miss_that_says_so_and_is_used_when_it_can_be_read),
        cmocka_unit_test(file_of_another_key_is_a_miss_that_says_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
