/* Small records of a namespace: they come back, to their namespace alone, whole or not at all, and stay within bounds. */
#include "base/io_faulty.h"
#include "base/io_memory.h"
#include "base/rng.h"
#include "store/note_log.h"
#include "test_support.h"

static const cairn_namespace space_a = {{1}}, space_b = {{2}};

static cairn_note_log *log_open(cairn_io *io, const uint8_t *key, uint64_t file_max, uint64_t all_max)
{
    cairn_note_log_options options = {
        .dir = "/store", .key = key, .file_bytes_max = file_max, .bytes_max = all_max};
    cairn_note_log *log = NULL;
    assert_ok(cairn_note_log_new(cairn_mem_default(), io, &options, &log, NULL));
    return log;
}

typedef struct notes {
    uint32_t numbers[4096];
    uint32_t count;
} notes;

/* A note is its number and as many bytes as the number says, all derived from it. */
static size_t note_make(uint32_t number, uint8_t *out)
{
    size_t count = 4 + number % 300;
    for (size_t i = 0; i < count; i++) {
        out[i] = (uint8_t)(i < 4 ? number >> (8 * i) : number * 7 + i);
    }
    return count;
}

static void note_seen(void *ctx, const uint8_t *note, size_t count)
{
    notes *list = ctx;
    uint8_t expected[512];
    uint32_t number = note[0] | (uint32_t)note[1] << 8 | (uint32_t)note[2] << 16;
    assert_int_equal(count, note_make(number, expected));
    assert_memory_equal(note, expected, count);
    list->numbers[list->count++] = number;
}

static cairn_status add(cairn_note_log *log, const cairn_namespace *space, uint32_t number)
{
    uint8_t note[512];
    return cairn_note_log_add(log, space, note, note_make(number, note), NULL);
}

static uint32_t seen(cairn_note_log *log, const cairn_namespace *space, notes *list)
{
    list->count = 0;
    uint64_t given = cairn_note_log_each(log, space, note_seen, list);
    assert_int_equal(given, list->count);
    return list->count;
}

static void records_come_back_in_order_after_a_restart_and_a_loss_of_power(void **state)
{
    (void)state;
    static notes list;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    for (uint32_t run = 0; run < 3; run++) {
        cairn_note_log *log = log_open(io, NULL, 1 << 20, 1 << 22);
        assert_int_equal(seen(log, &space_a, &list), run * 20);
        for (uint32_t i = 0; i < 20; i++) {
            assert_ok(add(log, &space_a, run * 20 + i));
        }
        assert_int_equal(seen(log, &space_a, &list), (run + 1) * 20);
        assert_int_equal(seen(log, &space_b, &list), 0);
        cairn_note_log_free(log);
        assert_ok(cairn_io_memory_power_loss(memory, run));
    }
    cairn_note_log *log = log_open(io, NULL, 1 << 20, 1 << 22);
    assert_int_equal(seen(log, &space_a, &list), 60);
    bool there[60] = {false};
    for (uint32_t i = 0; i < 60; i++) {
        assert_true(list.numbers[i] < 60 && !there[list.numbers[i]]);
        there[list.numbers[i]] = true;
    }
    cairn_note_log_forget(log, &space_a);
    assert_int_equal(seen(log, &space_a, &list), 0);
    cairn_note_log_free(log);
    cairn_io_memory_free(memory);
}

static bool holds(void *ctx, const char *name)
{
    cairn_buf *path = ctx;
    cairn_buf_reset(path);
    assert_ok(cairn_buf_printf(path, "/store/answers/%s", name));
    return true;
}

/* Neither another namespace nor another key opens a file, and the file shows nothing of what is in it. */
static void records_are_sealed_for_their_namespace_and_key(void **state)
{
    (void)state;
    static notes list;
    const uint8_t key[32] = {1}, other[32] = {2};
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_note_log *log = log_open(io, key, 1 << 20, 1 << 22);
    assert_ok(add(log, &space_a, 299));
    cairn_note_log_free(log);
    const uint8_t *const keys[] = {other, NULL};
    for (int i = 0; i < 2; i++) {
        log = log_open(io, keys[i], 1 << 20, 1 << 22);
        assert_int_equal(seen(log, &space_a, &list), 0);
        cairn_note_log_free(log);
    }
    cairn_buf path, file;
    cairn_buf_init(&path, cairn_mem_default(), 4096);
    cairn_buf_init(&file, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_io_list(io, "/store/answers", holds, &path, NULL));
    assert_ok(cairn_io_read_file(io, cairn_buf_str(&path), &file, NULL));
    uint8_t note[512];
    size_t count = note_make(299, note);
    for (size_t at = 0; at + 8 <= file.len_bytes; at++) {
        assert_true(memcmp(file.bytes + at, note + count - 8, 8) != 0);
    }
    cairn_buf_release(&file);
    cairn_buf_release(&path);
    log = log_open(io, key, 1 << 20, 1 << 22);
    assert_int_equal(seen(log, &space_a, &list), 1);
    cairn_note_log_free(log);
    cairn_io_memory_free(memory);
}

/* A file cut anywhere, or with any byte changed, gives the records before that place and no wrong one. */
static void damage_costs_the_records_behind_it_and_no_others(void **state)
{
    (void)state;
    static notes list;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_note_log *log = log_open(io, NULL, 1 << 20, 1 << 22);
    for (uint32_t i = 0; i < 5; i++) {
        assert_ok(add(log, &space_a, i * 3));
    }
    cairn_buf path, whole;
    cairn_buf_init(&path, cairn_mem_default(), 4096);
    cairn_buf_init(&whole, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_io_list(io, "/store/answers", holds, &path, NULL));
    assert_ok(cairn_io_read_file(io, cairn_buf_str(&path), &whole, NULL));
    uint32_t most = 0;
    for (size_t at = 0; at < whole.len_bytes; at++) {
        assert_ok(cairn_io_write_file(io, cairn_buf_str(&path), whole.bytes, at, NULL));
        uint32_t count = seen(log, &space_a, &list);
        assert_true(count >= most && count < 5);
        most = count;
        whole.bytes[at] ^= 16;
        assert_ok(cairn_io_write_file(io, cairn_buf_str(&path), whole.bytes, whole.len_bytes, NULL));
        whole.bytes[at] ^= 16;
        assert_true(seen(log, &space_a, &list) < 5);
    }
    cairn_buf_release(&whole);
    cairn_buf_release(&path);
    cairn_note_log_free(log);
    cairn_io_memory_free(memory);
}

typedef struct summing {
    cairn_io *io;
    uint64_t bytes;
    uint32_t files;
} summing;

static bool sum_one(void *ctx, const char *name)
{
    summing *sum = ctx;
    char path[256];
    cairn_io_stat stat = {0};
    (void)snprintf(path, sizeof path, "/store/answers/%.200s", name);
    assert_ok(cairn_io_stat_path(sum->io, path, &stat, NULL));
    sum->bytes += stat.size_bytes;
    sum->files++;
    return true;
}

static void sum_bytes(cairn_io *io, uint64_t *ret_bytes, uint32_t *ret_files)
{
    summing sum = {.io = io};
    assert_ok(cairn_io_list(io, "/store/answers", sum_one, &sum, NULL));
    *ret_bytes = sum.bytes;
    *ret_files = sum.files;
}

static void files_stay_within_their_bounds_and_the_newest_records_stay(void **state)
{
    (void)state;
    static notes list;
    enum { FILE_MAX = 8192, ALL_MAX = 40000 };
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_note_log *log = log_open(io, NULL, FILE_MAX, ALL_MAX);
    uint64_t bytes = 0;
    uint32_t files = 0;
    for (uint32_t i = 0; i < 500; i++) {
        assert_ok(add(log, &space_a, i));
        sum_bytes(io, &bytes, &files);
        assert_true(bytes <= FILE_MAX);
    }
    uint32_t count = seen(log, &space_a, &list);
    assert_true(count > 10);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(list.numbers[i], 500 - count + i);
    }
    cairn_note_log_free(log);
    for (uint8_t n = 10; n < 40; n++) { /* many namespaces, each in a run of its own */
        const cairn_namespace space = {{n}};
        log = log_open(io, NULL, FILE_MAX, ALL_MAX);
        for (uint32_t i = 0; i < 12; i++) {
            assert_ok(add(log, &space, i));
        }
        cairn_note_log_free(log);
        sum_bytes(io, &bytes, &files);
        assert_true(bytes <= ALL_MAX + FILE_MAX);
    }
    cairn_io_memory_free(memory);
}

/* A namespace's files of many runs become few, and nothing is lost by that. */
static void restarts_do_not_leave_more_and_more_files(void **state)
{
    (void)state;
    static notes list;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_clock_virtual clock;
    cairn_clock_virtual_init(&clock, cairn_clock_wall_ms(cairn_clock_system()) + 2 * 86400000);
    uint64_t bytes = 0;
    uint32_t files = 0;
    for (uint32_t run = 0; run < 30; run++) {
        cairn_note_log_options options = {
            .dir = "/store", .file_bytes_max = 1 << 20, .bytes_max = 1 << 22, .clock = &clock.clock};
        cairn_note_log *log = NULL;
        assert_ok(cairn_note_log_new(cairn_mem_default(), io, &options, &log, NULL));
        assert_int_equal(seen(log, &space_a, &list), run);
        assert_ok(add(log, &space_a, run));
        cairn_note_log_free(log);
        sum_bytes(io, &bytes, &files);
        assert_true(files <= 6);
    }
    cairn_io_memory_free(memory);
}

/* A server of many users has thousands of files: forgetting and the limit reach all of them. */
static void thousands_of_files_are_all_counted_and_all_forgotten(void **state)
{
    (void)state;
    enum { FILES = 1500, FILE_BYTES = 1000 };
    static uint8_t bytes[FILE_BYTES];
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    uint64_t sum = 0;
    uint32_t files = 0;
    assert_ok(cairn_io_mkdir_all(io, "/store/answers", NULL));
    for (uint32_t i = 0; i < FILES; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "/store/answers/%032x.%016x", i, 7u);
        assert_ok(cairn_io_write_file(io, path, bytes, sizeof bytes, NULL));
    }
    cairn_note_log *log = log_open(io, NULL, 1 << 20, 100 * FILE_BYTES);
    assert_ok(add(log, &space_a, 1)); /* a file more: now the oldest go */
    sum_bytes(io, &sum, &files);
    assert_true(sum <= 102 * FILE_BYTES && files <= 101);
    cairn_note_log_free(log);
    log = log_open(io, NULL, 1 << 20, 1 << 22);
    for (uint32_t i = 0; i < FILES; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "/store/answers/%032x.%016x", i, 8u);
        assert_ok(cairn_io_write_file(io, path, bytes, sizeof bytes, NULL));
    }
    cairn_note_log_forget(log, NULL);
    sum_bytes(io, &sum, &files);
    assert_int_equal(files, 0);
    cairn_note_log_free(log);
    cairn_io_memory_free(memory);
}

/* Whatever call fails: an add says so or is there, and nothing else is lost. */
static void any_failing_call_loses_at_most_the_record_in_hand(void **state)
{
    (void)state;
    static notes list;
    const cairn_io_fault faults[] = {CAIRN_IO_FAULT_FAIL, CAIRN_IO_FAULT_TORN, CAIRN_IO_FAULT_STOP};
    uint64_t tried = 0;
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        for (uint64_t at = 1;; at++) {
            cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
            cairn_io_faulty faulty;
            cairn_io_faulty_init(&faulty, cairn_io_memory_io(memory), faults[f], at);
            cairn_note_log *log = log_open(cairn_io_faulty_io(&faulty), NULL, 1 << 20, 1 << 22);
            bool sure[6];
            for (uint32_t i = 0; i < 6; i++) {
                sure[i] = add(log, &space_a, i) == CAIRN_OK;
            }
            cairn_note_log_free(log);
            uint64_t hits = faulty.hits;
            cairn_io_faulty_release(&faulty);
            assert_ok(cairn_io_memory_power_loss(memory, at));
            log = log_open(cairn_io_memory_io(memory), NULL, 1 << 20, 1 << 22);
            uint32_t count = seen(log, &space_a, &list);
            for (uint32_t i = 0; i < 6; i++) {
                bool found = false;
                for (uint32_t k = 0; k < count; k++) {
                    found = found || list.numbers[k] == i;
                }
                assert_true(found || !sure[i]);
            }
            cairn_note_log_free(log);
            cairn_io_memory_free(memory);
            if (hits == 0) {
                break;
            }
            tried++;
        }
    }
    assert_true(tried > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back_in_order_after_a_restart_and_a_loss_of_power),
        cmocka_unit_test(records_are_sealed_for_their_namespace_and_key),
        cmocka_unit_test(damage_costs_the_records_behind_it_and_no_others),
        cmocka_unit_test(files_stay_within_their_bounds_and_the_newest_records_stay),
        cmocka_unit_test(restarts_do_not_leave_more_and_more_files),
        cmocka_unit_test(thousands_of_files_are_all_counted_and_all_forgotten),
        cmocka_unit_test(any_failing_call_loses_at_most_the_record_in_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
