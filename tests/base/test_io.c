/* The same promises on the machine's files and on files in memory: base/io, io_posix, io_memory. */
#include "test_support.h"

#include <unistd.h>

#include "base/io_memory.h"
#include "base/mem_test.h"

typedef struct place {
    cairn_io *io;
    cairn_io_memory *memory;
    char root[200];
} place;

static const char *at(const place *p, const char *name)
{
    static char paths[4][300];
    static size_t next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, 300, "%s/%s", p->root, name);
    return path;
}

static bool remove_one(void *ctx, const char *name)
{
    const place *p = ctx;
    if (cairn_io_unlink(p->io, at(p, name), NULL) != CAIRN_OK) {
        place below = *p;
        (void)snprintf(below.root, sizeof below.root, "%.150s/%.40s", p->root, name);
        assert_ok(cairn_io_list(p->io, below.root, remove_one, &below, NULL));
        assert_ok(cairn_io_rmdir(p->io, below.root, NULL));
    }
    return true;
}

static int posix_setup(void **state)
{
    place *p = calloc(1, sizeof *p);
    p->io = cairn_io_posix();
    (void)snprintf(p->root, sizeof p->root, "%s/test_io.XXXXXX", CAIRN_BUILD_DIR);
    *state = p;
    return mkdtemp(p->root) != NULL ? 0 : -1;
}

static int memory_setup(void **state)
{
    place *p = calloc(1, sizeof *p);
    p->memory = cairn_io_memory_new(cairn_mem_default(), 1 << 20);
    p->io = cairn_io_memory_io(p->memory);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    place *p = *state;
    if (p->memory != NULL) {
        cairn_io_memory_free(p->memory);
    } else {
        assert_ok(cairn_io_list(p->io, p->root, remove_one, p, NULL));
        assert_ok(cairn_io_rmdir(p->io, p->root, NULL));
    }
    free(p);
    return 0;
}

static cairn_file *open_new(const place *p, const char *name)
{
    cairn_file *file = NULL;
    assert_ok(
        cairn_io_open(p->io, at(p, name), CAIRN_IO_READ | CAIRN_IO_WRITE | CAIRN_IO_CREATE, &file, NULL));
    return file;
}

static void what_was_written_is_read(void **state)
{
    const place *p = *state;
    cairn_file *file = open_new(p, "a");
    assert_ok(cairn_io_write(file, "hello ", 6, NULL));
    assert_ok(cairn_io_write(file, "world", 5, NULL));
    assert_ok(cairn_io_pwrite(file, "W", 1, 6, NULL));
    char text[20] = "";
    assert_ok(cairn_io_pread(file, text, 11, 0, NULL));
    assert_memory_equal(text, "hello World", 11);
    cairn_error error;
    assert_status(cairn_io_pread(file, text, 12, 0, &error), CAIRN_CORRUPT);
    assert_int_equal(error.offset_bytes, 11);
    file->offset_bytes = 6;
    size_t got = 0;
    assert_ok(cairn_io_read(file, text, sizeof text, &got, NULL));
    assert_int_equal(got, 5);
    assert_ok(cairn_io_read(file, text, sizeof text, &got, NULL));
    assert_int_equal(got, 0);
    cairn_io_stat stat;
    assert_ok(cairn_io_file_stat(file, &stat, NULL));
    assert_int_equal(stat.size_bytes, 11);
    assert_int_equal(stat.kind, CAIRN_IO_KIND_FILE);
    assert_ok(cairn_io_file_sync(file, NULL));
    assert_ok(cairn_io_close(file, NULL));
    assert_ok(cairn_io_close(NULL, NULL));
}

static void writing_beyond_the_end_leaves_zeros(void **state)
{
    const place *p = *state;
    cairn_file *file = open_new(p, "a");
    assert_ok(cairn_io_pwrite(file, "x", 1, 5, NULL));
    char text[6];
    assert_ok(cairn_io_pread(file, text, 6, 0, NULL));
    assert_memory_equal(text, "\0\0\0\0\0x", 6);
    assert_ok(cairn_io_truncate(file, 2, NULL));
    assert_ok(cairn_io_truncate(file, 6, NULL));
    assert_ok(cairn_io_pread(file, text, 6, 0, NULL));
    assert_memory_equal(text, "\0\0\0\0\0\0", 6);
    assert_ok(cairn_io_close(file, NULL));
}

static void open_flags_do_what_they_say(void **state)
{
    const place *p = *state;
    cairn_file *file = NULL;
    assert_status(cairn_io_open(p->io, at(p, "a"), CAIRN_IO_READ, &file, NULL), CAIRN_NOTFOUND);
    file = open_new(p, "a");
    assert_ok(cairn_io_write(file, "1234", 4, NULL));
    assert_ok(cairn_io_close(file, NULL));
    unsigned exclusive = CAIRN_IO_WRITE | CAIRN_IO_CREATE | CAIRN_IO_EXCLUSIVE;
    assert_status(cairn_io_open(p->io, at(p, "a"), exclusive, &file, NULL), CAIRN_EXISTS);
    assert_ok(cairn_io_open(p->io, at(p, "a"), CAIRN_IO_READ, &file, NULL));
    assert_status(cairn_io_pwrite(file, "x", 1, 0, NULL), CAIRN_IO);
    assert_ok(cairn_io_close(file, NULL));
    assert_ok(cairn_io_open(p->io, at(p, "a"), CAIRN_IO_WRITE | CAIRN_IO_TRUNCATE, &file, NULL));
    cairn_io_stat stat;
    assert_ok(cairn_io_file_stat(file, &stat, NULL));
    assert_int_equal(stat.size_bytes, 0);
    char byte;
    assert_status(cairn_io_pread(file, &byte, 1, 0, NULL), CAIRN_IO);
    assert_ok(cairn_io_close(file, NULL));
}

static void rename_replaces_and_unlink_removes(void **state)
{
    const place *p = *state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 100);
    assert_ok(cairn_io_write_file(p->io, at(p, "old"), "old", 3, NULL));
    assert_ok(cairn_io_write_file(p->io, at(p, "new"), "new", 3, NULL));
    assert_ok(cairn_io_rename(p->io, at(p, "new"), at(p, "old"), NULL));
    assert_ok(cairn_io_read_file(p->io, at(p, "old"), &buf, NULL));
    assert_string_equal(cairn_buf_str(&buf), "new");
    assert_status(cairn_io_rename(p->io, at(p, "new"), at(p, "old"), NULL), CAIRN_NOTFOUND);
    assert_ok(cairn_io_unlink(p->io, at(p, "old"), NULL));
    assert_status(cairn_io_unlink(p->io, at(p, "old"), NULL), CAIRN_NOTFOUND);
    cairn_buf_release(&buf);
}

static void unlinked_file_stays_readable_while_open(void **state)
{
    const place *p = *state;
    cairn_file *file = open_new(p, "a");
    assert_ok(cairn_io_write(file, "kept", 4, NULL));
    assert_ok(cairn_io_unlink(p->io, at(p, "a"), NULL));
    char text[4];
    assert_ok(cairn_io_pread(file, text, 4, 0, NULL));
    assert_memory_equal(text, "kept", 4);
    assert_ok(cairn_io_close(file, NULL));
}

static bool count_name(void *ctx, const char *name)
{
    assert_true(strcmp(name, "a") == 0 || strcmp(name, "b") == 0 || strcmp(name, "d") == 0);
    (*(size_t *)ctx)++;
    return true;
}

static void folders_are_made_listed_and_removed(void **state)
{
    const place *p = *state;
    assert_ok(cairn_io_mkdir_all(p->io, at(p, "x/y/z"), NULL));
    assert_ok(cairn_io_mkdir_all(p->io, at(p, "x/y/z/"), NULL));
    assert_status(cairn_io_mkdir(p->io, at(p, "x"), NULL), CAIRN_EXISTS);
    assert_status(cairn_io_mkdir(p->io, at(p, "no/such"), NULL), CAIRN_NOTFOUND);
    assert_ok(cairn_io_write_file(p->io, at(p, "x/a"), "", 0, NULL));
    assert_ok(cairn_io_write_file(p->io, at(p, "x/b"), "1", 1, NULL));
    assert_ok(cairn_io_rename(p->io, at(p, "x/y"), at(p, "x/d"), NULL));
    size_t count = 0;
    assert_ok(cairn_io_list(p->io, at(p, "x"), count_name, &count, NULL));
    assert_int_equal(count, 3);
    assert_status(cairn_io_rmdir(p->io, at(p, "x"), NULL), CAIRN_IO);
    assert_status(cairn_io_mkdir_all(p->io, at(p, "x/a/b"), NULL), CAIRN_EXISTS);
    assert_status(cairn_io_unlink(p->io, at(p, "x/d"), NULL), CAIRN_IO);
    cairn_io_stat stat;
    assert_ok(cairn_io_stat_path(p->io, at(p, "x/d/z"), &stat, NULL));
    assert_int_equal(stat.kind, CAIRN_IO_KIND_FOLDER);
    assert_status(cairn_io_stat_path(p->io, at(p, "x/y"), &stat, NULL), CAIRN_NOTFOUND);
    assert_ok(cairn_io_rmdir(p->io, at(p, "x/d/z"), NULL));
    assert_ok(cairn_io_rmdir(p->io, at(p, "x/d"), NULL));
    assert_ok(cairn_io_dir_sync(p->io, at(p, "x"), NULL));
    assert_status(cairn_io_dir_sync(p->io, at(p, "y"), NULL), CAIRN_NOTFOUND);
}

static void lock_excludes_the_second(void **state)
{
    const place *p = *state;
    cairn_file *first = open_new(p, "lock");
    cairn_file *second = open_new(p, "lock");
    assert_ok(cairn_io_file_lock(first, NULL));
    assert_ok(cairn_io_file_lock(first, NULL));
    assert_status(cairn_io_file_lock(second, NULL), CAIRN_BUSY);
    assert_ok(cairn_io_close(first, NULL));
    assert_ok(cairn_io_file_lock(second, NULL));
    assert_ok(cairn_io_close(second, NULL));
}

static void space_is_told(void **state)
{
    const place *p = *state;
    cairn_io_space space;
    assert_ok(cairn_io_space_at(p->io, at(p, ""), &space, NULL));
    assert_true(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
}

static void too_large_file_is_not_read(void **state)
{
    const place *p = *state;
    assert_ok(cairn_io_write_file(p->io, at(p, "a"), "12345", 5, NULL));
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 6);
    assert_ok(cairn_buf_append_str(&buf, "ab"));
    assert_status(cairn_io_read_file(p->io, at(p, "a"), &buf, NULL), CAIRN_LIMIT);
    assert_string_equal(cairn_buf_str(&buf), "ab");
    cairn_buf_consume(&buf, 1);
    assert_ok(cairn_io_read_file(p->io, at(p, "a"), &buf, NULL));
    assert_string_equal(cairn_buf_str(&buf), "b12345");
    cairn_buf_release(&buf);
}

static void full_disk_writes_what_fits(void **state)
{
    (void)state;
    cairn_io_memory *disk = cairn_io_memory_new(cairn_mem_default(), 10);
    cairn_io *io = cairn_io_memory_io(disk);
    cairn_file *file = NULL;
    assert_ok(cairn_io_open(io, "/a", CAIRN_IO_WRITE | CAIRN_IO_CREATE, &file, NULL));
    assert_status(cairn_io_pwrite(file, "0123456789abc", 13, 0, NULL), CAIRN_NOSPACE);
    assert_int_equal(cairn_io_memory_used_bytes(disk), 10);
    assert_ok(cairn_io_truncate(file, 4, NULL));
    assert_status(cairn_io_truncate(file, 11, NULL), CAIRN_NOSPACE);
    assert_ok(cairn_io_pwrite(file, "xy", 2, 8, NULL));
    assert_int_equal(cairn_io_memory_used_bytes(disk), 10);
    assert_ok(cairn_io_close(file, NULL));
    assert_ok(cairn_io_unlink(io, "/a", NULL));
    cairn_io_memory_free(disk);
}

/* Uses most of the table; the first failure ends it. */
static cairn_status use_disk(cairn_io *io)
{
    cairn_file *file = NULL;
    cairn_status status = cairn_io_mkdir(io, "/d", NULL);
    status = status == CAIRN_OK ? cairn_io_write_file(io, "/d/a", "12345", 5, NULL) : status;
    status = status == CAIRN_OK ? cairn_io_rename(io, "/d/a", "/b", NULL) : status;
    status = status == CAIRN_OK ? cairn_io_open(io, "/b", CAIRN_IO_WRITE, &file, NULL) : status;
    status = status == CAIRN_OK ? cairn_io_pwrite(file, "67890", 5, 5, NULL) : status;
    status = status == CAIRN_OK ? cairn_io_truncate(file, 100, NULL) : status;
    cairn_io_discard(file);
    return status == CAIRN_OK ? cairn_io_unlink(io, "/b", NULL) : status;
}

static void memory_disk_survives_failing_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        cairn_mem_test heap;
        cairn_mem_test_init(&heap, n);
        cairn_io_memory *disk = cairn_io_memory_new(&heap.mem, 1 << 20);
        if (disk != NULL) {
            cairn_status status = use_disk(cairn_io_memory_io(disk));
            cairn_status loss = cairn_io_memory_power_loss(disk, n);
            assert_true(heap.fails == 0 ? status == CAIRN_OK && loss == CAIRN_OK
                                        : status == CAIRN_NOMEM || loss == CAIRN_NOMEM);
        }
        cairn_io_memory_free(disk);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
        if (heap.fails == 0) {
            assert_true(n > 10);
            break;
        }
    }
}

#define BOTH(test)                                            \
    {#test " (posix)", test, posix_setup, teardown, NULL},    \
    {                                                         \
#test " (memory)", test, memory_setup, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(what_was_written_is_read),
        BOTH(writing_beyond_the_end_leaves_zeros),
        BOTH(open_flags_do_what_they_say),
        BOTH(rename_replaces_and_unlink_removes),
        BOTH(unlinked_file_stays_readable_while_open),
        BOTH(folders_are_made_listed_and_removed),
        BOTH(lock_excludes_the_second),
        BOTH(space_is_told),
        BOTH(too_large_file_is_not_read),
        cmocka_unit_test(full_disk_writes_what_fits),
        cmocka_unit_test(memory_disk_survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
