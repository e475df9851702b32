/* The disk tier: what is found on a path, budgets, faults and losses of power. Damaged files: test_disk_damage. */
#include "base/io_faulty.h"
#include "disk_support.h"

static void state_is_found_only_by_a_prompt_that_has_its_whole_path(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    shelf_open(&s, 1 << 24);
    shelf_put_state(&s, 900, 5000, 1.0);
    shelf_put_state(&s, 700, 5000, 1.0);
    assert_int_equal(shelf_find(&s, path_one, 1000), 2);
    assert_int_equal(shelf_find(&s, path_one, 899), 1);
    assert_int_equal(shelf_find(&s, path_two, 1000), 1);
    assert_int_equal(s.found[0].row.meta.end, 700);
    assert_ok(support_get(s.disk, &s.found[0].row));
    assert_int_equal(shelf_find(&s, path_two, 699), 0);
    assert_int_equal(support_find(s.disk, &space_b, path_one, 1000, s.found, 64), 0);
    shelf_free(&s);
}

static void rows_serve_a_prompt_up_to_the_token_at_which_it_leaves_them(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    shelf_open(&s, 1 << 24);
    shelf_put_rows(&s, 300, 1500, 100000);
    assert_int_equal(shelf_find(&s, path_one, 2000), 1);
    assert_int_equal(s.found[0].use_end, 1500);
    assert_int_equal(shelf_find(&s, path_two, 2000), 1);
    assert_int_equal(s.found[0].use_end, 700);
    assert_int_equal(shelf_find(&s, path_one, 412), 1);
    assert_int_equal(s.found[0].use_end, 412);
    assert_int_equal(shelf_find(&s, path_one, 300), 0);
    shelf_put_rows(&s, 1500, 1501, 10);
    assert_int_equal(shelf_find(&s, path_two, 2000), 1);
    shelf_free(&s);
}

static void everything_is_found_again_after_opening_anew(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    shelf_open(&s, 1 << 26);
    for (uint32_t at = 100; at <= 3000; at += 100) {
        shelf_put_state(&s, at, 4096, 1.0);
        shelf_put_rows(&s, at - 100, at, 9 << 10);
    }
    shelf_close(&s);
    assert_ok(cairn_io_memory_power_loss(s.memory, 1));
    shelf_open(&s, 1 << 26);
    uint32_t count = shelf_find(&s, path_one, 4000);
    assert_int_equal(count, 60);
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(support_get(s.disk, &s.found[i].row));
    }
    shelf_free(&s);
}

static void budget_holds_and_the_least_valuable_goes_first(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    char first[CAIRN_BLOB_NAME_BYTES];
    shelf_open(&s, 100000);
    assert_ok(support_put(s.disk, &space_a, CAIRN_BLOB_STATE, path_one, 100, 100, 20000, 0.5, first));
    cairn_disk_pin(s.disk, first);
    for (uint32_t at = 200; at <= 1000; at += 100) {
        shelf_put_state(&s, at, 20000, at);
        cairn_disk_stats stats = shelf_stats(&s);
        assert_true(stats.file_bytes <= 100000);
    }
    assert_int_equal(shelf_find(&s, path_one, 2000), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(s.found[i].row.meta.end == 100 || s.found[i].row.meta.end >= 800);
    }
    assert_status(shelf_try_state(&s, 50, 20000, 0.1), CAIRN_NOSPACE);
    assert_status(shelf_try_state(&s, 51, 200000, 1e9), CAIRN_NOSPACE);
    cairn_disk_unpin(s.disk, first);
    shelf_put_state(&s, 60, 20000, 1.0);
    assert_int_equal(shelf_find(&s, path_one, 100), 1);
    assert_int_equal(s.found[0].row.meta.end, 60);
    shelf_free(&s);
}

static void smaller_budget_holds_from_the_first_look_on(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    shelf_open(&s, 1 << 24);
    for (uint32_t at = 100; at <= 800; at += 100) {
        shelf_put_state(&s, at, 20000, at);
    }
    shelf_close(&s);
    shelf_open(&s, 60000);
    cairn_disk_stats stats = shelf_stats(&s);
    assert_true(stats.file_bytes <= 60000 && stats.blobs == 2 && stats.evicted == 6);
    shelf_free(&s);
}

static void bytes_written_in_a_day_are_bounded(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    cairn_clock_virtual clock;
    cairn_clock_virtual_init(&clock, 1700000000000);
    cairn_disk_options options = {.dir = "/store",
                                  .bytes_max = 1 << 26,
                                  .written_day_bytes = 60000,
                                  .index_in_memory = true,
                                  .clock = &clock.clock};
    assert_ok(cairn_disk_open(cairn_mem_default(), s.io, &options, &s.disk, NULL));
    shelf_put_state(&s, 100, 20000, 1);
    shelf_put_state(&s, 200, 20000, 1);
    shelf_put_state(&s, 200, 20000, 1); /* there already */
    assert_status(shelf_try_state(&s, 300, 20000, 1), CAIRN_LIMIT);
    cairn_clock_virtual_advance(&clock, 86400ull * 1000000000);
    shelf_put_state(&s, 300, 20000, 1);
    shelf_free(&s);
}

static void clock_that_was_ahead_does_not_fill_the_store_for_good(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    cairn_clock_virtual ahead, now;
    cairn_clock_virtual_init(&ahead, 1900000000000);
    cairn_clock_virtual_init(&now, 1700000000000);
    assert_ok(support_open(s.io, 100000, NULL, &ahead.clock, &s.disk));
    for (uint32_t at = 100; at <= 400; at += 100) {
        shelf_put_state(&s, at, 20000, 1);
    }
    shelf_close(&s);
    assert_ok(support_open(s.io, 100000, NULL, &now.clock, &s.disk));
    assert_int_equal(shelf_find(&s, path_one, 1000), 4);
    shelf_put_state(&s, 500, 20000, 1);
    assert_int_equal(shelf_find(&s, path_one, 1000), 4);
    shelf_free(&s);
}

static void namespace_is_forgotten_alone(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    shelf_open(&s, 1 << 26);
    for (uint32_t at = 1; at <= 100; at++) {
        shelf_put_state(&s, at, 100, 1);
    }
    assert_ok(support_put(s.disk, &space_b, CAIRN_BLOB_STATE, path_one, 10, 10, 100, 1, s.name));
    assert_ok(cairn_disk_forget(s.disk, &space_a, NULL));
    assert_int_equal(shelf_find(&s, path_one, 200), 0);
    assert_int_equal(support_find(s.disk, &space_b, path_one, 200, s.found, 64), 1);
    shelf_free(&s);
}

/* Write a few blobs through a table that goes wrong, then see that each is whole or absent. */
static uint64_t write_with_fault(cairn_io_fault fault, uint64_t at, uint64_t seed, bool power_loss)
{
    shelf s = shelf_new(1 << 24);
    cairn_io_faulty faulty;
    cairn_io_faulty_init(&faulty, s.io, fault, at);
    bool durable[3] = {false};
    const uint32_t ends[3] = {300, 500, 900};
    if (support_open(cairn_io_faulty_io(&faulty), 1 << 24, NULL, NULL, &s.disk) == CAIRN_OK) {
        for (int i = 0; i < 3; i++) {
            cairn_blob_kind kind = i == 1 ? CAIRN_BLOB_ROWS : CAIRN_BLOB_STATE;
            uint32_t begin = kind == CAIRN_BLOB_ROWS ? ends[i] - 100 : ends[i];
            durable[i] =
                support_put(s.disk, &space_a, kind, path_one, begin, ends[i], 30000, 1, s.name) == CAIRN_OK;
        }
        shelf_close(&s);
    }
    uint64_t hits = faulty.hits;
    cairn_io_faulty_release(&faulty);
    if (power_loss) {
        assert_ok(cairn_io_memory_power_loss(s.memory, seed));
    }
    shelf_open(&s, 1 << 24);
    uint32_t count = shelf_find(&s, path_one, 2000);
    bool there[3] = {false};
    for (uint32_t i = 0; i < count; i++) {
        cairn_status status = support_get(s.disk, &s.found[i].row);
        for (int k = 0; k < 3; k++) {
            there[k] = there[k] || (status == CAIRN_OK && s.found[i].row.meta.end == ends[k]);
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
    shelf_free(&s);
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
    shelf s = shelf_new(1 << 24);
    shelf_open(&s, 1 << 24);
    assert_ok(cairn_io_rename(s.io, "/store", "/gone", NULL));
    shelf_put_state(&s, 300, 700, 1);
    assert_int_equal(shelf_find(&s, path_one, 1000), 1);
    assert_ok(support_get(s.disk, &s.found[0].row));
    assert_ok(cairn_io_rename(s.io, "/store", "/gone2", NULL));
    assert_status(support_get(s.disk, &s.found[0].row), CAIRN_NOTFOUND);
    assert_int_equal(shelf_find(&s, path_one, 1000), 0);
    shelf_free(&s);
}

static void secret_of_the_namespaces_is_written_again_when_it_is_gone(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    const uint8_t secret[CAIRN_DISK_KEY_BYTES] = {3, 1, 4};
    cairn_disk_options options = {
        .dir = "/store", .bytes_max = 1 << 24, .secret = secret, .index_in_memory = true};
    cairn_buf bytes;
    cairn_buf_init(&bytes, cairn_mem_default(), 4096);
    assert_ok(cairn_disk_open(cairn_mem_default(), s.io, &options, &s.disk, NULL));
    assert_ok(cairn_disk_scan(s.disk, false, NULL));
    assert_ok(cairn_io_rename(s.io, "/store", "/gone", NULL));
    shelf_put_state(&s, 300, 700, 1);
    assert_ok(cairn_io_read_file(s.io, "/store/namespace.key", &bytes, NULL));
    assert_int_equal(bytes.len_bytes, sizeof secret);
    assert_memory_equal(bytes.bytes, secret, sizeof secret);
    assert_ok(cairn_io_unlink(s.io, "/store/namespace.key", NULL));
    assert_ok(cairn_disk_scan(s.disk, false, NULL));
    assert_ok(cairn_io_stat_path(s.io, "/store/namespace.key", &(cairn_io_stat){0}, NULL));
    assert_ok(cairn_io_write_file(s.io, "/store/namespace.key", "another", 7, NULL));
    assert_ok(cairn_disk_scan(s.disk, false, NULL)); /* somebody else's is left alone */
    cairn_buf_reset(&bytes);
    assert_ok(cairn_io_read_file(s.io, "/store/namespace.key", &bytes, NULL));
    assert_int_equal(bytes.len_bytes, 7);
    cairn_buf_release(&bytes);
    shelf_free(&s);
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
    shelf s = shelf_new(1 << 24);
    thawed = *s.io;
    s.io->open = frozen_open;
    s.io->mkdir = frozen_mkdir;
    for (int with_blobs = 1; with_blobs >= 0; with_blobs--) {
        frozen = false;
        if (with_blobs) {
            shelf_open(&s, 1 << 24);
            shelf_put_state(&s, 300, 700, 1);
            shelf_close(&s);
            assert_ok(cairn_io_rmdir(s.io, "/store/tmp", NULL)); /* so that something has to be made */
        } else {
            assert_ok(cairn_io_rename(s.io, "/store", "/elsewhere", NULL));
        }
        frozen = true;
        cairn_error error = {0};
        shelf_open(&s, 1 << 24);
        assert_status(cairn_disk_trouble(s.disk, &error), CAIRN_IO);
        assert_status(error.status, CAIRN_IO);
        assert_int_equal(shelf_find(&s, path_one, 1000), with_blobs);
        if (with_blobs) {
            assert_ok(support_get(s.disk, &s.found[0].row));
        }
        assert_status(shelf_try_state(&s, 400, 700, 1), CAIRN_IO);
        frozen = false;
        shelf_put_state(&s, 400, 700, 1);
        assert_int_equal(shelf_find(&s, path_one, 1000), with_blobs + 1);
        shelf_close(&s);
    }
    shelf_free(&s);
}

static void full_disk_is_said_and_the_rest_stays(void **state)
{
    (void)state;
    shelf s = shelf_new(50000);
    shelf_open(&s, 1 << 24);
    shelf_put_state(&s, 300, 20000, 1);
    assert_status(shelf_try_state(&s, 400, 40000, 1), CAIRN_NOSPACE);
    assert_int_equal(shelf_find(&s, path_one, 1000), 1);
    assert_ok(support_get(s.disk, &s.found[0].row));
    shelf_put_state(&s, 500, 9000, 1);
    shelf_free(&s);
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
