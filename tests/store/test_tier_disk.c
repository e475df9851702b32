/* The disk tier: what is found on a path, budgets, damage, faults and losses of power. */
#include "base/io_faulty.h"
#include "disk_support.h"
#include "store/disk_file.h"

static const cairn_namespace space_a = {{1}}, space_b = {{2}};
static cairn_token path_one[SUPPORT_TOKENS_MAX], path_two[SUPPORT_TOKENS_MAX];

static int make_paths(void **state)
{
    (void)state;
    support_tokens(1, 700, path_one, SUPPORT_TOKENS_MAX);
    support_tokens(2, 700, path_two, SUPPORT_TOKENS_MAX);
    return 0;
}

static uint32_t find(cairn_disk *disk, const cairn_namespace *space, const cairn_token *tokens,
                     uint32_t count, cairn_disk_found *found, uint32_t max)
{
    uint32_t count_found = 0;
    assert_ok(cairn_disk_find(disk, space, tokens, count, found, max, &count_found, NULL));
    return count_found;
}

static bool count_name(void *ctx, const char *name)
{
    (void)name;
    ++*(uint32_t *)ctx;
    return true;
}

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
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 8), 2);
    assert_int_equal(find(disk, &space_a, path_one, 899, found, 8), 1);
    assert_int_equal(find(disk, &space_a, path_two, 1000, found, 8), 1);
    assert_int_equal(found[0].row.meta.end, 700);
    assert_ok(support_get(disk, &found[0].row));
    assert_int_equal(find(disk, &space_a, path_two, 699, found, 8), 0);
    assert_int_equal(find(disk, &space_b, path_one, 1000, found, 8), 0);
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
    assert_int_equal(find(disk, &space_a, path_one, 2000, found, 8), 1);
    assert_int_equal(found[0].use_end, 1500);
    assert_int_equal(find(disk, &space_a, path_two, 2000, found, 8), 1);
    assert_int_equal(found[0].use_end, 700);
    assert_int_equal(find(disk, &space_a, path_one, 412, found, 8), 1);
    assert_int_equal(found[0].use_end, 412);
    assert_int_equal(find(disk, &space_a, path_one, 300, found, 8), 0);
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_ROWS, path_one, 1500, 1501, 10, 1.0, name));
    assert_int_equal(find(disk, &space_a, path_two, 2000, found, 8), 1);
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
    uint32_t count = find(disk, &space_a, path_one, 4000, found, 64);
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
    assert_int_equal(find(disk, &space_a, path_one, 2000, found, 16), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(found[i].row.meta.end == 100 || found[i].row.meta.end >= 800);
    }
    assert_status(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 50, 50, 20000, 0.1, name),
                  CAIRN_NOSPACE);
    assert_status(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 51, 51, 200000, 1e9, name),
                  CAIRN_NOSPACE);
    cairn_disk_unpin(disk, first);
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 60, 60, 20000, 1.0, name));
    assert_int_equal(find(disk, &space_a, path_one, 100, found, 16), 1);
    assert_int_equal(found[0].row.meta.end, 60);
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
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 8), 4);
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 500, 500, 20000, 1, name));
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 8), 4);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void folder_of_damaged_files_stays_small(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_disk *disk = NULL;
    char names[100][CAIRN_BLOB_NAME_BYTES], path[256];
    assert_ok(support_open(io, 1 << 25, NULL, NULL, &disk));
    for (uint32_t i = 0; i < 100; i++) {
        assert_ok(
            support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 100 + i, 100 + i, 20000, 1, names[i]));
    }
    cairn_disk_close(disk);
    for (uint32_t i = 0; i < 100; i++) {
        (void)snprintf(path, sizeof path, "/store/%.2s/%.64s.blob", names[i], names[i]);
        cairn_file *file = NULL;
        assert_ok(cairn_io_open(io, path, CAIRN_IO_WRITE, &file, NULL));
        assert_ok(cairn_io_pwrite(file, "x", 1, 40, NULL));
        assert_ok(cairn_io_close(file, NULL));
    }
    cairn_disk_stats stats;
    uint32_t left = 0;
    assert_ok(support_open(io, 1 << 25, NULL, NULL, &disk));
    cairn_disk_stats_get(disk, &stats);
    assert_int_equal(stats.set_aside, 100);
    assert_int_equal(stats.blobs, 0);
    assert_ok(cairn_io_list(io, "/store/bad", count_name, &left, NULL));
    assert_int_equal(left, 64);
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
    assert_int_equal(find(disk, &space_a, path_one, 200, found, 8), 0);
    assert_int_equal(find(disk, &space_b, path_one, 200, found, 8), 1);
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

/* The path of the only blob file, in /store/ab/. */
static void blob_path(const char *name, char path[256])
{
    (void)snprintf(path, 256, "/store/%.2s/%s.blob", name, name);
}

static void rewrite(cairn_io *io, const char *path, const uint8_t *bytes, uint64_t count)
{
    cairn_file *file = NULL;
    assert_ok(cairn_io_open(io, path, CAIRN_IO_WRITE | CAIRN_IO_CREATE | CAIRN_IO_TRUNCATE, &file, NULL));
    assert_ok(cairn_io_pwrite(file, bytes, count, 0, NULL));
    assert_ok(cairn_io_close(file, NULL));
}

static void flipped_bit_anywhere_is_a_miss_and_the_file_is_set_aside(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES], path[256];
    assert_ok(support_open(io, 1 << 26, NULL, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_ROWS, path_one, 300, 400, 700, 1, name));
    cairn_disk_close(disk);
    blob_path(name, path);
    cairn_buf whole;
    cairn_buf_init(&whole, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_io_read_file(io, path, &whole, NULL));
    uint64_t misses = 0;
    for (uint64_t at = 0; at < whole.len_bytes; at++) {
        whole.bytes[at] ^= (uint8_t)(1u << (at % 8));
        rewrite(io, path, whole.bytes, whole.len_bytes);
        whole.bytes[at] ^= (uint8_t)(1u << (at % 8));
        assert_ok(support_open(io, 1 << 26, NULL, NULL, &disk));
        cairn_disk_found found[4];
        uint32_t count = find(disk, &space_a, path_one, 1000, found, 4);
        for (uint32_t i = 0; i < count; i++) {
            cairn_status status = support_get(disk, &found[i].row); /* wrong bytes would fail inside */
            misses += status != CAIRN_OK;
        }
        misses += count == 0;
        /* Padding between header and pieces is the only part that nothing covers, and nothing reads. */
        cairn_disk_close(disk);
    }
    uint64_t padding = 4096 - (256 + 8 * 99 + 16 * 3);
    assert_int_equal(misses, whole.len_bytes - padding);
    cairn_buf_release(&whole);
    cairn_io_memory_free(memory);
}

static void file_cut_at_any_length_is_a_miss(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_io *io = cairn_io_memory_io(memory);
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES], path[256];
    assert_ok(support_open(io, 1 << 26, NULL, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700, 1, name));
    cairn_disk_close(disk);
    blob_path(name, path);
    cairn_buf whole;
    cairn_buf_init(&whole, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_io_read_file(io, path, &whole, NULL));
    for (uint64_t length = 0; length < whole.len_bytes; length += 13) {
        rewrite(io, path, whole.bytes, length);
        cairn_disk_found found[4];
        cairn_disk_stats stats;
        assert_ok(support_open(io, 1 << 26, NULL, NULL, &disk));
        assert_int_equal(find(disk, &space_a, path_one, 1000, found, 4), 0);
        cairn_disk_stats_get(disk, &stats);
        assert_int_equal(stats.set_aside, 1);
        cairn_disk_close(disk);
    }
    cairn_buf_release(&whole);
    cairn_io_memory_free(memory);
}

static void other_model_build_or_setting_is_neither_found_nor_harmed(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_disk *disk = NULL;
    cairn_disk_found found[4];
    char name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 26, NULL, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700, 1, name));
    cairn_disk_close(disk);
    cairn_disk_options options = {.dir = "/store", .bytes_max = 1 << 26, .index_in_memory = true};
    assert_ok(cairn_disk_open(cairn_mem_default(), cairn_io_memory_io(memory), &options, &disk, NULL));
    assert_ok(cairn_disk_scan(disk, true, NULL));
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 4), 0);
    cairn_disk_close(disk);
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 26, NULL, NULL, &disk));
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 4), 1);
    assert_ok(support_get(disk, &found[0].row));
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

static void encrypted_blob_needs_its_key_and_shows_nothing(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26);
    cairn_io *io = cairn_io_memory_io(memory);
    uint8_t key[CAIRN_DISK_KEY_BYTES] = {9}, wrong[CAIRN_DISK_KEY_BYTES] = {8};
    cairn_disk *disk = NULL;
    cairn_disk_found found[4];
    char name[CAIRN_BLOB_NAME_BYTES], path[256];
    uint64_t bytes = CAIRN_BLOB_PIECE_BYTES + 1000; /* two pieces */
    assert_ok(support_open(io, 1 << 26, key, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, bytes, 1, name));
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 4), 1);
    assert_ok(support_get(disk, &found[0].row));
    cairn_disk_close(disk);

    blob_path(name, path);
    cairn_buf whole;
    cairn_buf_init(&whole, cairn_mem_default(), 1 << 26);
    assert_ok(cairn_io_read_file(io, path, &whole, NULL));
    uint8_t *payload = malloc(bytes);
    assert_non_null(payload);
    support_payload(&found[0].row.meta, payload);
    for (size_t at = 0; at + 16 <= whole.len_bytes; at++) {
        assert_true(memcmp(whole.bytes + at, payload, 16) != 0);
    }
    free(payload);
    cairn_buf_release(&whole);

    const uint8_t *others[] = {wrong, NULL};
    for (int i = 0; i < 2; i++) {
        assert_ok(support_open(io, 1 << 26, others[i], NULL, &disk));
        cairn_disk_found none[4];
        assert_int_equal(find(disk, &space_a, path_one, 1000, none, 4), 0);
        assert_status(support_get(disk, &found[0].row), CAIRN_FOREIGN);
        assert_ok(cairn_disk_scan(disk, true, NULL)); /* it was forgotten, not harmed */
        assert_status(cairn_disk_key_check(disk, NULL), CAIRN_FOREIGN);
        cairn_disk_close(disk);
    }
    assert_ok(support_open(io, 1 << 26, key, NULL, &disk));
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 4), 1);
    assert_ok(support_get(disk, &found[0].row));
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
    uint32_t count = find(disk, &space_a, path_one, 2000, found, 8);
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

static void bit_flipped_while_reading_is_a_miss(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_disk *disk = NULL;
    char name[CAIRN_BLOB_NAME_BYTES];
    assert_ok(support_open(cairn_io_memory_io(memory), 1 << 24, NULL, NULL, &disk));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_ROWS, path_one, 300, 500, 9000, 1, name));
    cairn_disk_close(disk);
    uint64_t hits = 1;
    for (uint64_t at = 1; hits != 0; at++) {
        cairn_io_faulty faulty;
        cairn_io_faulty_init(&faulty, cairn_io_memory_io(memory), CAIRN_IO_FAULT_FLIP, at);
        cairn_disk_options options = {
            .dir = "/store", .bytes_max = 1 << 24, .index_in_memory = true, .read_only = true};
        memset(options.fingerprint, 0x5a, sizeof options.fingerprint);
        assert_ok(cairn_disk_open(cairn_mem_default(), cairn_io_faulty_io(&faulty), &options, &disk, NULL));
        assert_ok(cairn_disk_scan(disk, true, NULL));
        cairn_disk_found found[4];
        uint32_t count = find(disk, &space_a, path_two, 2000, found, 4);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(found[i].use_end,
                             500); /* never beyond the 700 shared, nor short of the truth when read well */
            (void)support_get(disk, &found[i].row); /* wrong bytes would fail inside */
        }
        cairn_disk_close(disk);
        hits = faulty.hits;
        cairn_io_faulty_release(&faulty);
    }
    cairn_io_memory_free(memory);
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
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 4), 1);
    assert_ok(support_get(disk, &found[0].row));
    assert_ok(cairn_io_rename(io, "/store", "/gone2", NULL));
    assert_status(support_get(disk, &found[0].row), CAIRN_NOTFOUND);
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 4), 0);
    cairn_disk_close(disk);
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
    assert_int_equal(find(disk, &space_a, path_one, 1000, found, 4), 1);
    assert_ok(support_get(disk, &found[0].row));
    assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, 500, 500, 9000, 1, name));
    cairn_disk_close(disk);
    cairn_io_memory_free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_is_found_only_by_a_prompt_that_has_its_whole_path),
        cmocka_unit_test(rows_serve_a_prompt_up_to_the_token_at_which_it_leaves_them),
        cmocka_unit_test(everything_is_found_again_after_opening_anew),
        cmocka_unit_test(budget_holds_and_the_least_valuable_goes_first),
        cmocka_unit_test(bytes_written_in_a_day_are_bounded),
        cmocka_unit_test(clock_that_was_ahead_does_not_fill_the_store_for_good),
        cmocka_unit_test(folder_of_damaged_files_stays_small),
        cmocka_unit_test(namespace_is_forgotten_alone),
        cmocka_unit_test(flipped_bit_anywhere_is_a_miss_and_the_file_is_set_aside),
        cmocka_unit_test(file_cut_at_any_length_is_a_miss),
        cmocka_unit_test(other_model_build_or_setting_is_neither_found_nor_harmed),
        cmocka_unit_test(encrypted_blob_needs_its_key_and_shows_nothing),
        cmocka_unit_test(blob_is_whole_or_absent_whichever_call_goes_wrong),
        cmocka_unit_test(blob_is_whole_or_absent_wherever_power_is_lost),
        cmocka_unit_test(bit_flipped_while_reading_is_a_miss),
        cmocka_unit_test(directory_removed_while_running_is_made_again),
        cmocka_unit_test(full_disk_is_said_and_the_rest_stays),
    };
    return cmocka_run_group_tests(tests, make_paths, NULL);
}
