/* Files that are not as they were written: each kind of damage is a miss, and no harm to the others. */
#include "base/io_faulty.h"
#include "disk_support.h"
#include "store/tier_disk_internal.h"

/* The path of the only blob file, in /store/ab/. */
static void blob_path(const char *name, char path[256])
{
    (void)snprintf(path, 256, "/store/%.2s/%s.blob", name, name);
}

static cairn_buf read_whole(cairn_io *io, const char *path)
{
    cairn_buf whole;
    cairn_buf_init(&whole, cairn_mem_default(), 1 << 26);
    assert_ok(cairn_io_read_file(io, path, &whole, NULL));
    return whole;
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
    shelf s = shelf_new(1 << 26);
    char path[256];
    shelf_open(&s, 1 << 26);
    shelf_put_rows(&s, 300, 400, 700);
    shelf_close(&s);
    blob_path(s.name, path);
    cairn_buf whole = read_whole(s.io, path);
    uint64_t misses = 0;
    for (uint64_t at = 0; at < whole.len_bytes; at++) {
        whole.bytes[at] ^= (uint8_t)(1u << (at % 8));
        rewrite(s.io, path, whole.bytes, whole.len_bytes);
        whole.bytes[at] ^= (uint8_t)(1u << (at % 8));
        shelf_open(&s, 1 << 26);
        uint32_t count = shelf_find(&s, path_one, 1000);
        for (uint32_t i = 0; i < count; i++) {
            cairn_status status = support_get(s.disk, &s.found[i].row); /* wrong bytes would fail inside */
            misses += status != CAIRN_OK;
        }
        misses += count == 0;
        /* Padding between header and pieces is the only part that nothing covers, and nothing reads. */
        shelf_close(&s);
    }
    uint64_t padding = 4096 - (256 + 8 * 99 + 16 * 3);
    assert_int_equal(misses, whole.len_bytes - padding);
    cairn_buf_release(&whole);
    shelf_free(&s);
}

static void file_cut_at_any_length_is_a_miss(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    char path[256];
    shelf_open(&s, 1 << 26);
    shelf_put_state(&s, 300, 700, 1);
    shelf_close(&s);
    blob_path(s.name, path);
    cairn_buf whole = read_whole(s.io, path);
    for (uint64_t length = 0; length < whole.len_bytes; length++) {
        rewrite(s.io, path, whole.bytes, length);
        shelf_open(&s, 1 << 26);
        assert_int_equal(shelf_find(&s, path_one, 1000), 0);
        cairn_disk_stats stats = shelf_stats(&s);
        assert_int_equal(stats.set_aside, 1);
        shelf_close(&s);
    }
    cairn_buf_release(&whole);
    shelf_free(&s);
}

static void other_model_build_or_setting_is_neither_found_nor_harmed(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    shelf_open(&s, 1 << 26);
    shelf_put_state(&s, 300, 700, 1);
    shelf_close(&s);
    cairn_disk_options options = {.dir = "/store", .bytes_max = 1 << 26, .index_in_memory = true};
    assert_ok(cairn_disk_open(cairn_mem_default(), s.io, &options, &s.disk, NULL));
    assert_ok(cairn_disk_scan(s.disk, true, NULL));
    assert_int_equal(shelf_find(&s, path_one, 1000), 0);
    shelf_close(&s);
    shelf_open(&s, 1 << 26);
    assert_int_equal(shelf_find(&s, path_one, 1000), 1);
    assert_ok(support_get(s.disk, &s.found[0].row));
    shelf_free(&s);
}

static void encrypted_blob_needs_its_key_and_shows_nothing(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    uint8_t key[CAIRN_DISK_KEY_BYTES] = {9}, wrong[CAIRN_DISK_KEY_BYTES] = {8};
    char path[256];
    uint64_t bytes = CAIRN_BLOB_PIECE_BYTES + 1000; /* two pieces */
    assert_ok(support_open(s.io, 1 << 26, key, NULL, &s.disk));
    shelf_put_state(&s, 300, bytes, 1);
    assert_int_equal(shelf_find(&s, path_one, 1000), 1);
    assert_ok(support_get(s.disk, &s.found[0].row));
    shelf_close(&s);

    blob_path(s.name, path);
    cairn_buf whole = read_whole(s.io, path);
    uint8_t *payload = malloc(bytes);
    assert_non_null(payload);
    support_payload(&s.found[0].row.meta, payload);
    for (size_t at = 0; at + 16 <= whole.len_bytes; at++) {
        assert_true(memcmp(whole.bytes + at, payload, 16) != 0);
    }
    free(payload);
    cairn_buf_release(&whole);

    const uint8_t *others[] = {wrong, NULL};
    for (int i = 0; i < 2; i++) {
        assert_ok(support_open(s.io, 1 << 26, others[i], NULL, &s.disk));
        cairn_disk_found none[4];
        assert_int_equal(support_find(s.disk, &space_a, path_one, 1000, none, 4), 0);
        assert_status(support_get(s.disk, &s.found[0].row), CAIRN_LOCKED);
        assert_ok(cairn_disk_scan(s.disk, false, NULL)); /* it was forgotten, not harmed */
        assert_status(cairn_disk_key_check(s.disk, NULL), CAIRN_LOCKED);
        shelf_close(&s);
    }
    assert_ok(support_open(s.io, 1 << 26, key, NULL, &s.disk));
    assert_int_equal(shelf_find(&s, path_one, 1000), 1);
    assert_ok(support_get(s.disk, &s.found[0].row));
    shelf_free(&s);
}

static void folder_of_damaged_files_stays_small(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 26);
    char names[100][CAIRN_BLOB_NAME_BYTES], path[256];
    shelf_open(&s, 1 << 25);
    for (uint32_t i = 0; i < 100; i++) {
        assert_ok(
            support_put(s.disk, &space_a, CAIRN_BLOB_STATE, path_one, 100 + i, 100 + i, 20000, 1, names[i]));
    }
    shelf_close(&s);
    for (uint32_t i = 0; i < 100; i++) {
        (void)snprintf(path, sizeof path, "/store/%.2s/%.64s.blob", names[i], names[i]);
        cairn_file *file = NULL;
        assert_ok(cairn_io_open(s.io, path, CAIRN_IO_WRITE, &file, NULL));
        assert_ok(cairn_io_pwrite(file, "x", 1, 40, NULL));
        assert_ok(cairn_io_close(file, NULL));
    }
    shelf_open(&s, 1 << 25);
    cairn_disk_stats stats = shelf_stats(&s);
    assert_int_equal(stats.set_aside, 100);
    assert_int_equal(stats.blobs, 0);
    assert_int_equal(support_names(s.io, "/store/bad"), 64);
    shelf_free(&s);
}

static void bit_flipped_while_reading_is_a_miss(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    shelf_open(&s, 1 << 24);
    shelf_put_rows(&s, 300, 500, 9000);
    shelf_close(&s);
    uint64_t hits = 1;
    for (uint64_t at = 1; hits != 0; at++) {
        cairn_io_faulty faulty;
        cairn_io_faulty_init(&faulty, s.io, CAIRN_IO_FAULT_FLIP, at);
        cairn_disk_options options = {
            .dir = "/store", .bytes_max = 1 << 24, .index_in_memory = true, .read_only = true};
        memset(options.fingerprint, 0x5a, sizeof options.fingerprint);
        assert_ok(cairn_disk_open(cairn_mem_default(), cairn_io_faulty_io(&faulty), &options, &s.disk, NULL));
        assert_ok(cairn_disk_scan(s.disk, true, NULL));
        uint32_t count = shelf_find(&s, path_two, 2000);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(s.found[i].use_end,
                             500); /* never beyond the 700 shared, nor short of the truth when read well */
            (void)support_get(s.disk, &s.found[i].row); /* wrong bytes would fail inside */
        }
        shelf_close(&s);
        hits = faulty.hits;
        cairn_io_faulty_release(&faulty);
    }
    shelf_free(&s);
}

/* As EACCES, a stale handle or a bad sector look from here: reads fail while `blind`. */
static bool blind;
static cairn_io seeing;

static cairn_status blind_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                               cairn_error *reterr)
{
    return blind && flags == CAIRN_IO_READ ? cairn_error_set(reterr, CAIRN_IO, "blind", "permission denied")
                                           : seeing.open(self, path, flags, ret_file, reterr);
}

static void file_that_can_not_be_read_for_a_while_is_found_again(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    seeing = *s.io;
    s.io->open = blind_open;
    shelf_open(&s, 1 << 24);
    shelf_put_state(&s, 300, 700, 1);
    assert_int_equal(shelf_find(&s, path_one, 1000), 1);
    blind = true;
    assert_status(support_get(s.disk, &s.found[0].row), CAIRN_IO);
    assert_ok(cairn_disk_scan(s.disk, false, NULL));
    assert_int_equal(shelf_find(&s, path_one, 1000), 0);
    blind = false;
    assert_ok(cairn_disk_scan(s.disk, false, NULL)); /* what the writer does every few seconds */
    assert_int_equal(shelf_find(&s, path_one, 1000), 1);
    assert_ok(support_get(s.disk, &s.found[0].row));
    shelf_free(&s);
}

/* A copy under a wrong name, and a blob twice: neither is served for the other. */
static void duplicate_under_another_name_is_set_aside(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    char other[CAIRN_BLOB_NAME_BYTES], from[256], to[256];
    shelf_open(&s, 1 << 24);
    shelf_put_state(&s, 300, 700, 1);
    blob_path(s.name, from);
    cairn_buf whole = read_whole(s.io, from);
    memcpy(other, s.name, sizeof other);
    other[63] = other[63] == '0' ? '1' : '0';
    blob_path(other, to);
    rewrite(s.io, to, whole.bytes, whole.len_bytes);
    assert_ok(cairn_disk_scan(s.disk, true, NULL));
    cairn_disk_stats stats = shelf_stats(&s);
    assert_int_equal(stats.set_aside, 1);
    assert_int_equal(stats.blobs, 1);
    assert_int_equal(shelf_find(&s, path_one, 1000), 1);
    assert_string_equal(s.found[0].row.name, s.name);
    assert_ok(support_get(s.disk, &s.found[0].row));
    assert_int_equal(cairn_io_stat_path(s.io, to, &(cairn_io_stat){0}, NULL), CAIRN_NOTFOUND);
    cairn_buf_release(&whole);
    shelf_free(&s);
}

/* Versions 0 and 2 in the field, the rest as it should be, checks included. */
static void older_and_newer_formats_are_set_aside_unread(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    char path[256], aside[256];
    for (uint8_t version = 0; version <= 2; version += 2) {
        shelf_open(&s, 1 << 24);
        shelf_put_state(&s, 300, 700, 1);
        shelf_close(&s);
        blob_path(s.name, path);
        cairn_buf whole = read_whole(s.io, path);
        whole.bytes[8] = version;
        cairn_blob_check(whole.bytes, 256 + 16,
                         whole.bytes + 256 + 16); /* one piece: the header's own check */
        rewrite(s.io, path, whole.bytes, whole.len_bytes);
        shelf_open(&s, 1 << 24);
        cairn_disk_stats stats = shelf_stats(&s);
        assert_int_equal(stats.set_aside, 1);
        assert_int_equal(shelf_find(&s, path_one, 1000), 0);
        (void)snprintf(aside, sizeof aside, "/store/bad/%.64s.%s", s.name,
                       cairn_status_name(CAIRN_UNSUPPORTED));
        assert_ok(cairn_io_stat_path(s.io, aside, &(cairn_io_stat){0}, NULL));
        cairn_buf_release(&whole);
        shelf_close(&s);
    }
    shelf_free(&s);
}

/* A whole blob, of fewer rows, in the place of another: whoever leaves those in the middle doesn't look past its end. */
static void file_of_fewer_rows_in_the_place_of_another_is_a_miss(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    char path[256];
    shelf_open(&s, 1 << 24);
    shelf_put_rows(&s, 300, 310, 700);
    blob_path(s.name, path);
    cairn_buf fewer = read_whole(s.io, path);
    char kept[CAIRN_BLOB_NAME_BYTES];
    memcpy(kept, s.name, sizeof kept);
    shelf_put_rows(&s, 300, 500, 9000);
    blob_path(s.name, path);
    assert_int_equal(shelf_find(&s, path_one, 450), 2);
    rewrite(s.io, path, fewer.bytes, fewer.len_bytes);
    assert_int_equal(shelf_find(&s, path_one, 450), 1);
    assert_string_equal(s.found[0].row.name, kept);
    assert_int_equal(s.found[0].use_end, 310);
    cairn_buf_release(&fewer);
    shelf_free(&s);
}

static bool row_count(void *ctx, const cairn_disk_row *row)
{
    (void)row;
    ++*(uint32_t *)ctx;
    return true;
}

/* The index is a file without checks: what it says of a blob that no file can have is not believed. */
static void row_of_the_index_that_no_file_can_have_is_a_miss(void **state)
{
    (void)state;
    shelf s = shelf_new(1 << 24);
    shelf_open(&s, 1 << 24);
    shelf_put_state(&s, 300, 700, 1);
    shelf_put_rows(&s, 256, 300, 9000);
    assert_int_equal(shelf_find(&s, path_one, 1000), 2);
    cairn_disk_row rows[2] = {s.found[0].row, s.found[1].row};
    for (int damage = 0; damage < 6; damage++) {
        for (int i = 0; i < 2; i++) {
            cairn_disk_row row = rows[i];
            uint64_t *payload = &row.meta.payload_bytes;
            *payload = damage == 0 ? 0 : damage == 1 ? UINT64_C(1) << 60 : *payload;
            row.meta.count_runs = damage == 2 ? UINT32_C(1) << 30 : row.meta.count_runs;
            row.meta.begin = damage == 3 ? row.meta.end + 1 : row.meta.begin;
            *payload += damage == 4 ? 1 : 0;
            row.meta.kind = damage == 5 ? (cairn_blob_kind)(row.meta.kind | 4) : row.meta.kind;
            assert_ok(cairn_disk_index_put(s.disk->index, &row, NULL));
        }
        uint32_t count = 0;
        assert_int_equal(shelf_find(&s, path_one, 1000), 0);
        assert_ok(cairn_disk_each_of(s.disk, &space_a, row_count, &count, NULL));
        assert_int_equal(count, 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(cairn_disk_index_put(s.disk->index, &rows[i], NULL));
    }
    assert_int_equal(shelf_find(&s, path_one, 1000), 2);
    shelf_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flipped_bit_anywhere_is_a_miss_and_the_file_is_set_aside),
        cmocka_unit_test(file_cut_at_any_length_is_a_miss),
        cmocka_unit_test(other_model_build_or_setting_is_neither_found_nor_harmed),
        cmocka_unit_test(encrypted_blob_needs_its_key_and_shows_nothing),
        cmocka_unit_test(folder_of_damaged_files_stays_small),
        cmocka_unit_test(bit_flipped_while_reading_is_a_miss),
        cmocka_unit_test(file_that_can_not_be_read_for_a_while_is_found_again),
        cmocka_unit_test(duplicate_under_another_name_is_set_aside),
        cmocka_unit_test(file_of_fewer_rows_in_the_place_of_another_is_a_miss),
        cmocka_unit_test(row_of_the_index_that_no_file_can_have_is_a_miss),
        cmocka_unit_test(older_and_newer_formats_are_set_aside_unread),
    };
    return cmocka_run_group_tests(tests, support_paths, NULL);
}
