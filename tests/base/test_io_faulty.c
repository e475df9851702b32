/* Calls that go wrong on purpose: base/io_faulty. */
#include "test_support.h"

#include <errno.h>

#include "base/io_faulty.h"
#include "base/io_memory.h"

typedef struct bench {
    cairn_io_memory *disk;
    cairn_io_faulty faulty;
    cairn_io *io;
} bench;

static void bench_init(bench *b, cairn_io_fault fault, uint64_t at)
{
    b->disk = cairn_io_memory_new(cairn_mem_default(), 1 << 20);
    assert_non_null(b->disk);
    cairn_io_faulty_init(&b->faulty, cairn_io_memory_io(b->disk), fault, at);
    b->io = cairn_io_faulty_io(&b->faulty);
}

static void bench_release(bench *b)
{
    cairn_io_faulty_release(&b->faulty);
    cairn_io_memory_free(b->disk);
}

static void without_fault_everything_passes(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, CAIRN_IO_FAULT_NONE, 1);
    assert_ok(cairn_io_mkdir_all(b.io, "/d/e", NULL));
    assert_ok(cairn_io_write_file(b.io, "/d/e/a", "12345", 5, NULL));
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 10);
    assert_ok(cairn_io_read_file(b.io, "/d/e/a", &buf, NULL));
    assert_string_equal(cairn_buf_str(&buf), "12345");
    assert_int_equal(b.faulty.hits, 0);
    cairn_buf_release(&buf);
    bench_release(&b);
}

static void every_call_of_write_file_can_fail(void **state)
{
    (void)state;
    uint64_t n = 1;
    for (;; n++) {
        bench b;
        bench_init(&b, CAIRN_IO_FAULT_FAIL, n);
        b.faulty.os_errno = ENOSPC;
        cairn_error error;
        cairn_status status = cairn_io_write_file(b.io, "/a", "12345", 5, &error);
        bool hit = b.faulty.hits > 0;
        if (hit) {
            assert_status(status, CAIRN_NOSPACE);
            assert_int_equal(error.os_errno, ENOSPC);
            /* No temporary file is left behind. */
            cairn_io_stat stat;
            assert_status(cairn_io_stat_path(cairn_io_memory_io(b.disk), "/a.tmp", &stat, NULL),
                          CAIRN_NOTFOUND);
        } else {
            assert_ok(status);
        }
        bench_release(&b);
        if (!hit) {
            break;
        }
    }
    assert_int_equal(n, 7); /* open, write, sync, close, rename, sync of the folder; and then none failed */
}

static void short_calls_are_continued(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        bench b;
        bench_init(&b, CAIRN_IO_FAULT_SHORT, n);
        assert_ok(cairn_io_write_file(b.io, "/a", "0123456789", 10, NULL));
        cairn_buf buf;
        cairn_buf_init(&buf, cairn_mem_default(), 10);
        assert_ok(cairn_io_read_file(b.io, "/a", &buf, NULL));
        assert_string_equal(cairn_buf_str(&buf), "0123456789");
        assert_int_equal(b.faulty.hits, n <= 2);
        cairn_buf_release(&buf);
        bench_release(&b);
    }
}

static void torn_write_leaves_half_and_fails(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, CAIRN_IO_FAULT_TORN, 1);
    cairn_file *file = NULL;
    assert_ok(cairn_io_open(b.io, "/a", CAIRN_IO_READ | CAIRN_IO_WRITE | CAIRN_IO_CREATE, &file, NULL));
    assert_status(cairn_io_pwrite(file, "0123456789", 10, 0, NULL), CAIRN_IO);
    cairn_io_stat stat;
    assert_ok(cairn_io_file_stat(file, &stat, NULL));
    assert_int_equal(stat.size_bytes, 5);
    assert_ok(cairn_io_close(file, NULL));
    bench_release(&b);
}

static void flipped_read_differs_in_one_bit(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, CAIRN_IO_FAULT_FLIP, 2);
    assert_ok(cairn_io_write_file(b.io, "/a", "0123456789", 10, NULL));
    cairn_file *file = NULL;
    assert_ok(cairn_io_open(b.io, "/a", CAIRN_IO_READ, &file, NULL));
    for (int i = 0; i < 3; i++) {
        char text[10];
        assert_ok(cairn_io_pread(file, text, 10, 0, NULL));
        unsigned bits = 0;
        for (size_t j = 0; j < 10; j++) {
            bits += (unsigned)__builtin_popcount((unsigned)(text[j] ^ "0123456789"[j]));
        }
        assert_int_equal(bits, i == 1);
    }
    assert_ok(cairn_io_close(file, NULL));
    bench_release(&b);
}

static void after_stop_nothing_works(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, CAIRN_IO_FAULT_STOP, 2);
    assert_ok(cairn_io_mkdir(b.io, "/d", NULL));
    assert_status(cairn_io_mkdir(b.io, "/e", NULL), CAIRN_IO);
    assert_status(cairn_io_mkdir(b.io, "/f", NULL), CAIRN_IO);
    cairn_io_stat stat;
    cairn_io_space space;
    assert_status(cairn_io_stat_path(b.io, "/d", &stat, NULL), CAIRN_IO);
    assert_status(cairn_io_space_at(b.io, "/d", &space, NULL), CAIRN_IO);
    assert_int_equal(b.faulty.hits, 4);
    assert_ok(cairn_io_stat_path(cairn_io_memory_io(b.disk), "/d", &stat, NULL));
    bench_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_fault_everything_passes),
        cmocka_unit_test(every_call_of_write_file_can_fail),
        cmocka_unit_test(short_calls_are_continued),
        cmocka_unit_test(torn_write_leaves_half_and_fails),
        cmocka_unit_test(flipped_read_differs_in_one_bit),
        cmocka_unit_test(after_stop_nothing_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
