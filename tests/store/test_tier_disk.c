/* The disk tier: what is found on a path, budgets, faults and losses of power. Damaged files: test_disk_damage. */
#include "base/io_faulty.h"
#include "disk_support.h"

static const cairn_namespace space_a = {{1}}, space_b = {{2}};

static void state_is_found_only_by_a_prompt_that_has_its_whole_path(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_disk *disk = NULL;
    cairn_disk_found found[8];
    char name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 24, NULL, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 900, 900, 5000, 1.0, name));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 700, 700, 5000, 1.0, name));
    assert_int_equal(support_find(disk, &space_a, path_one, 1000, found, 8), 2);
    assert_int_equal(support_find(disk, &space_a, path_one, 899, found, 8), 1);
    assert_int_equal(support_find(disk, &space_a, path_two, 1000, found, 8), 1);
    assert_int_equal(found[0].row.meta.end, 700);
    assert_ok(support_get(disk, &found[0].row));
    assert_int_equal(support_find(disk, &space_a, path_two, 699, found, 8), 0);
    assert_int_equal(support_find(disk, &space_b, path_one, 1000, found, 8), 0);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void rows_serve_a_prompt_up_to_the_token_at_which_it_leaves_them(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_disk *disk = NULL;
    cairn_disk_found found[8];
    char name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 24, NULL, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_ROWS, path_one, 300, 1500, 100000, 1.0, name));
    assert_int_equal(support_find(disk, &space_a, path_one, 2000, found, 8), 1);
    assert_int_equal(found[0].use_end, 1500);
    assert_int_equal(support_find(disk, &space_a, path_two, 2000, found, 8), 1);
    assert_int_equal(found[0].use_end, 700);
    assert_int_equal(support_find(disk, &space_a, path_one, 412, found, 8), 1);
    assert_int_equal(found[0].use_end, 412);
    assert_int_equal(support_find(disk, &space_a, path_one, 300, found, 8), 0);
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_ROWS, path_one, 1500, 1501, 10, 1.0, name));
    assert_int_equal(support_find(disk, &space_a, path_two, 2000, found, 8), 1);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void everything_is_found_again_after_opening_anew(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_disk *disk = NULL;
    cairn_disk_found found[64];
    char name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 26, NULL, NULL, &disk));
    for (uint32_t at = 100; at <= 3000; at += 100) {
        assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, at, at, 4096, 1.0, name));
        assert_ok(support_put(disk, &space_a, CAIRN_BLOB_ROWS, path_one, at - 100, at, 9 << 10, 1.0, name));
    }
    cairn_disk_close(disk);
    assert_ok(cairn_io_memory_power_loss(memory, 1));
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 26, NULL, NULL, &disk));
    uint32_t count = support_find(disk, &space_a, path_one, 4000, found, 64);
    assert_int_equal(count, 60);
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(support_get(disk, &found[i].row));
    }
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void budget_holds_and_the_least_valuable_goes_first(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_disk *disk = NULL;
    cairn_disk_found found[16];
    cairn_disk_stats stats;
    char first[CAIRN_BLOB_NAME_BYTES], name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(support_open(cairn_io_memory_io(memory), 100000, NULL, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 100, 100, 20000, 0.5, first));
    cairn_disk_pin(disk, first);
    for (uint32_t at = 200; at <= 1000; at += 100) {
        assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, at, at, 20000, at, name));
        cairn_disk_stats_get(disk, &stats);
        assert_true(stats.file_bytes <= 100000);
    }
    assert_int_equal(support_find(disk, &space_a, path_one, 2000, found, 16), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(found[i].row.meta.end == 100 || found[i].row.meta.end >= 800);
    }
    assert_status(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 50, 50, 20000, 0.1, name),
                  CAIRN_NOSPACE);
    assert_status(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 51, 51, 200000, 1e9, name),
                  CAIRN_NOSPACE);
    cairn_disk_unpin(disk, first);
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 60, 60, 20000, 1.0, name));
    assert_int_equal(support_find(disk, &space_a, path_one, 100, found, 16), 1);
    assert_int_equal(found[0].row.meta.end, 60);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void smaller_budget_holds_from_the_first_look_on(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_disk *disk = NULL;
    cairn_disk_stats stats;
    char name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 24, NULL, NULL, &disk));
    for (uint32_t at = 100; at <= 800; at += 100) {
        assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, at, at, 20000, at, name));
    }
    cairn_disk_close(disk);
    assert_ok(support_open(cairn_io_memory_io(memory), 60000, NULL, NULL, &disk));
    cairn_disk_stats_get(disk, &stats);
    assert_true(stats.file_bytes <= 60000 && stats.blobs == 2 && stats.evicted == 6);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void bytes_written_in_a_day_are_bounded(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_clock_virtual clock;
    cairn_clock_virtual_init(&clock, 1700000000000);
    cairn_disk_options options = {.dir = "/store",
                                  .bytes_max = 1 << 26,
                                  .written_day_bytes = 60000,
                                  .index_in_memory = true,
                                  .clock = &clock.clock};
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(cairn_disk_open(cairn_mem_default(), cairn_io_memory_io(memory), &options, &disk, NULL));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 100, 100, 20000, 1, name));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 200, 200, 20000, 1, name));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 200, 200, 20000, 1,
                          name)); /* there already */
    assert_status(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 20000, 1, name),
                  CAIRN_LIMIT);
    cairn_clock_virtual_advance(&clock, 86400ull * 1000000000);
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 20000, 1, name));
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void clock_that_was_ahead_does_not_fill_the_store_for_good(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_clock_virtual ahead, now;
    cairn_clock_virtual_init(&ahead, 1900000000000);
    cairn_clock_virtual_init(&now, 1700000000000);
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_disk_found found[8];
    assert_ok(support_open(cairn_io_memory_io(memory), 100000, NULL, &ahead.clock, &disk));
    for (uint32_t at = 100; at <= 400; at += 100) {
        assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, at, at, 20000, 1, name));
    }
    cairn_disk_close(disk);
    assert_ok(support_open(cairn_io_memory_io(memory), 100000, NULL, &now.clock, &disk));
    assert_int_equal(support_find(disk, &space_a, path_one, 1000, found, 8), 4);
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 500, 500, 20000, 1, name));
    assert_int_equal(support_find(disk, &space_a, path_one, 1000, found, 8), 4);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void namespace_is_forgotten_alone(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_disk *disk = NULL;
    cairn_disk_found found[8];
    char name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 26, NULL, NULL, &disk));
    for (uint32_t at = 1; at <= 100; at++) {
        assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, at, at, 100, 1, name));
    }
    assert_ok(support_put(disk, &space_b, CAIRN_BLOB_STATE, path_one, 10, 10, 100, 1, name));
    assert_ok(cairn_disk_forget(disk, &space_a, NULL));
    assert_int_equal(support_find(disk, &space_a, path_one, 200, found, 8), 0);
    assert_int_equal(support_find(disk, &space_b, path_one, 200, found, 8), 1);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

/* Write a few blobs through a table that goes wrong, then see that each is whole or absent. */
static uint64_t write_with_fault(cairn_io_fault fault, uint64_t at, uint64_t seed, bool power_loss)
{
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io_faulty faulty;
    cairn_io_faulty_init(&faulty, cairn_io_memory_io(memory), fault, at);
    cairn_disk *disk = NULL;
    bool durable[3] = {false};
    const uint32_t ends[3] = {300, 500, 900};
    if (support_open(cairn_io_faulty_io(&faulty), 1 << 24, NULL, NULL, &disk) == CAIRN_OK) {
        for (int i = 0; i < 3; i++) {
            char name[CAIRN_BLOB_NAME_BYTES];
            cairn_blob_kind kind = i == 1 ? CAIRN_BLOB_ROWS : CAIRN_BLOB_STATE;
            uint32_t begin = kind == CAIRN_BLOB_ROWS ? ends[i] - 100 : ends[i];
            durable[i] =
                support_put(disk, &space_a, kind, path_one, begin, ends[i], 30000, 1, name) == CAIRN_OK;
        }
        cairn_disk_close(disk);
    }
    uint64_t hits = faulty.hits;
    cairn_io_faulty_release(&faulty);
    if (power_loss) {
        assert_ok(cairn_io_memory_power_loss(memory, seed));
    }
    cairn_disk_found found[8];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 24, NULL, NULL, &disk));
    uint32_t count = support_find(disk, &space_a, path_one, 2000, found, 8);
    bool there[3] = {false};
    for (uint32_t i = 0; i < count; i++) {
        cairn_status status = support_get(disk, &found[i].row);
        for (int k = 0; k < 3; k++) {
            there[k] = there[k] || (status == CAIRN_OK && found[i].row.meta.end == ends[k]);
        }
        if (fault != CAIRN_IO_FAULT_LOST_SYNC) {
            assert_ok(status); /* an honest disk leaves nothing torn under a final name */
        }
    }
    for (int k = 0; k < 3; k++) {
        if (fault != CAIRN_IO_FAULT_LOST_SYNC) {
            assert_true(there[k] || !durable[k]);
        }
    }
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
    return hits;
}

static void blob_is_whole_or_absent_whichever_call_goes_wrong(void **state)
{
    (void)state;
    const cairn_io_fault faults[] = {CAIRN_IO_FAULT_FAIL, CAIRN_IO_FAULT_SHORT, CAIRN_IO_FAULT_TORN,
                                     CAIRN_IO_FAULT_LOST_SYNC, CAIRN_IO_FAULT_STOP};
    uint64_t tried = 0;
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        for (uint64_t at = 1; write_with_fault(faults[f], at, 0, false) != 0; at++) {
            tried++;
        }
    }
    assert_true(tried > 100);
}

static void blob_is_whole_or_absent_wherever_power_is_lost(void **state)
{
    (void)state;
    uint64_t seed = cairn_test_seed("power", 1);
    uint64_t tried = 0;
    for (uint64_t round = 0; round < 8; round++) {
        for (uint64_t at = 1; write_with_fault(CAIRN_IO_FAULT_STOP, at, seed + round, true) != 0; at++) {
            tried++;
        }
        for (uint64_t at = 1; write_with_fault(CAIRN_IO_FAULT_LOST_SYNC, at, seed + round, true) != 0; at++) {
            tried++;
        }
    }
    assert_true(tried > 300);
}

static void directory_removed_while_running_is_made_again(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_disk_found found[4];
    assert_ok(support_open(io, 1 << 24, NULL, NULL, &disk));
    assert_ok(cairn_io_rename(io, "/store", "/gone", NULL));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700, 1, name));
    assert_int_equal(support_find(disk, &space_a, path_one, 1000, found, 4), 1);
    assert_ok(support_get(disk, &found[0].row));
    assert_ok(cairn_io_rename(io, "/store", "/gone2", NULL));
    assert_status(support_get(disk, &found[0].row), CAIRN_NOTFOUND);
    assert_int_equal(support_find(disk, &space_a, path_one, 1000, found, 4), 0);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void secret_of_the_namespaces_is_written_again_when_it_is_gone(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    const uint8_t secret[CAIRN_DISK_KEY_BYTES] = {3, 1, 4};
    cairn_disk_options options = {
        .dir = "/store", .bytes_max = 1 << 24, .secret = secret, .index_in_memory = true};
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_buf bytes;
    cairn_buf_init(&bytes, cairn_mem_default(), 4096);
    assert_ok(cairn_disk_open(cairn_mem_default(), io, &options, &disk, NULL));
    assert_ok(cairn_disk_scan(disk, false, NULL));
    assert_ok(cairn_io_rename(io, "/store", "/gone", NULL));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700, 1, name));
    assert_ok(cairn_io_read_file(io, "/store/namespace.key", &bytes, NULL));
    assert_int_equal(bytes.len_bytes, sizeof secret);
    assert_memory_equal(bytes.bytes, secret, sizeof secret);
    assert_ok(cairn_io_unlink(io, "/store/namespace.key", NULL));
    assert_ok(cairn_disk_scan(disk, false, NULL));
    assert_ok(cairn_io_stat_path(io, "/store/namespace.key", &(cairn_io_stat){0}, NULL));
    assert_ok(cairn_io_write_file(io, "/store/namespace.key", "another", 7, NULL));
    assert_ok(cairn_disk_scan(disk, false, NULL)); /* somebody else's is left alone */
    cairn_buf_reset(&bytes);
    assert_ok(cairn_io_read_file(io, "/store/namespace.key", &bytes, NULL));
    assert_int_equal(bytes.len_bytes, 7);
    cairn_buf_release(&bytes);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

/* As a read-only file system is: nothing can be made or written while `frozen`. */
static bool frozen;
static cairn_io thawed;

static cairn_status frozen_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                                cairn_error *reterr)
{
    return frozen && (flags & CAIRN_IO_WRITE) != 0
               ? cairn_error_set(reterr, CAIRN_IO, "frozen", "read-only file system")
               : thawed.open(self, path, flags, ret_file, reterr);
}

static cairn_status frozen_mkdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    return frozen ? cairn_error_set(reterr, CAIRN_IO, "frozen", "read-only file system")
                  : thawed.mkdir(self, path, reterr);
}

static void directory_that_is_read_only_at_the_start_is_read_and_written_when_it_can_be(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_disk_found found[4];
    thawed = *io;
    io->open = frozen_open;
    io->mkdir = frozen_mkdir;
    for (int with_blobs = 1; with_blobs >= 0; with_blobs--) {
        frozen = false;
        if (with_blobs) {
            assert_ok(support_open(io, 1 << 24, NULL, NULL, &disk));
            assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700, 1, name));
            cairn_disk_close(disk);
            assert_ok(cairn_io_rmdir(io, "/store/tmp", NULL)); /* so that something has to be made */
        } else {
            assert_ok(cairn_io_rename(io, "/store", "/elsewhere", NULL));
        }
        frozen = true;
        cairn_error error = {0};
        assert_ok(support_open(io, 1 << 24, NULL, NULL, &disk));
        assert_status(cairn_disk_trouble(disk, &error), CAIRN_IO);
        assert_status(error.status, CAIRN_IO);
        assert_int_equal(support_find(disk, &space_a, path_one, 1000, found, 4), with_blobs);
        if (with_blobs) {
            assert_ok(support_get(disk, &found[0].row));
        }
        assert_status(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 400, 400, 700, 1, name),
                      CAIRN_IO);
        frozen = false;
        assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 400, 400, 700, 1, name));
        assert_int_equal(support_find(disk, &space_a, path_one, 1000, found, 4), with_blobs + 1);
        cairn_disk_close(disk);
    }
    cairn_io_memory_free(memory);
}

static void full_disk_is_said_and_the_rest_stays(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 50000);
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_disk_found found[4];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 24, NULL, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 20000, 1, name));
    assert_status(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 400, 400, 40000, 1, name),
                  CAIRN_NOSPACE);
    assert_int_equal(support_find(disk, &space_a, path_one, 1000, found, 4), 1);
    assert_ok(support_get(disk, &found[0].row));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 500, 500, 9000, 1, name));
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void only_the_file_of_a_blob_has_its_name(void **state)
{
    (void)state;
    static const char digits[] = "00000000000000ff23456789abcdef0123456789abcdef0123456789abcdef01";
    char file[100], name[CAIRN_BLOB_NAME_BYTES];
    (void)snprintf(file, sizeof file, "%s.blob", digits);
    assert_true(cairn_blob_file_parse(file, name));
    assert_string_equal(name, digits);
    assert_int_equal(cairn_blob_name_number(name), 0xff);
    assert_int_equal(cairn_blob_name_number("0000000000000000"), 1);
    static const struct {
        const char *before, *after;
        int digits;
    } others[] = {{"", ".blob", 63}, {"", "0.blob", 64}, {"", ".blob.tmp", 64}, {"", ".bloB", 64},
                  {"", "", 64},      {"X", ".blob", 63}, {".nfs", "", 8}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        (void)snprintf(file, sizeof file, "%s%.*s%s", others[i].before, others[i].digits, digits,
                       others[i].after);
        assert_false(cairn_blob_file_parse(file, name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_file_of_a_blob_has_its_name),
        cmocka_unit_test(state_is_found_only_by_a_prompt_that_has_its_whole_path),
        cmocka_unit_test(rows_serve_a_prompt_up_to_the_token_at_which_it_leaves_them),
        cmocka_unit_test(everything_is_found_again_after_opening_anew),
        cmocka_unit_test(budget_holds_and_the_least_valuable_goes_first),
        cmocka_unit_test(smaller_budget_holds_from_the_first_look_on),
        cmocka_unit_test(bytes_written_in_a_day_are_bounded),
        cmocka_unit_test(clock_that_was_ahead_does_not_fill_the_store_for_good),
        cmocka_unit_test(namespace_is_forgotten_alone),
        cmocka_unit_test(blob_is_whole_or_absent_whichever_call_goes_wrong),
        cmocka_unit_test(blob_is_whole_or_absent_wherever_power_is_lost),
        cmocka_unit_test(directory_removed_while_running_is_made_again),
        cmocka_unit_test(full_disk_is_said_and_the_rest_stays),
        cmocka_unit_test(secret_of_the_namespaces_is_written_again_when_it_is_gone),
        cmocka_unit_test(directory_that_is_read_only_at_the_start_is_read_and_written_when_it_can_be),
    };
    return cmocka_run_group_tests(tests, support_paths, NULL);
}
