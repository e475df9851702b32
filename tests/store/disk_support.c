/*
 * disk_support - see the header.
 */
#include "disk_support.h"

const cairn_namespace space_a = {{1}}, space_b = {{2}};
cairn_token path_one[SUPPORT_TOKENS_MAX], path_two[SUPPORT_TOKENS_MAX];

int support_paths(void **state)
{
    (void)state;
    support_tokens(1, 700, path_one, SUPPORT_TOKENS_MAX);
    support_tokens(2, 700, path_two, SUPPORT_TOKENS_MAX);
    return 0;
}

void support_tokens(uint64_t path, uint32_t shared, cairn_token *tokens, uint32_t count)
{
    cairn_rng common, own;
    cairn_rng_init_stream(&common, 77, 0);
    cairn_rng_init_stream(&own, 77, path + 1);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t a = cairn_rng_below(&common, 50000), b = cairn_rng_below(&own, 50000);
        tokens[i] = (cairn_token)(i < shared ? a : b);
    }
}

cairn_blob_meta support_meta(cairn_disk *disk, const cairn_namespace *space, cairn_blob_kind kind,
                             const cairn_token *tokens, uint32_t begin, uint32_t end, uint64_t payload_bytes)
{
    cairn_blob_meta meta = {
        .space = *space, .kind = kind, .begin = begin, .end = end, .payload_bytes = payload_bytes};
    uint32_t base = cairn_blob_base(kind, begin, end);
    cairn_path_root root;
    assert_ok(cairn_disk_root(disk, space, &root, NULL));
    assert_ok(cairn_path_digests(&root, tokens, end, &begin, 1, &meta.path_begin, NULL));
    assert_ok(cairn_path_digests(&root, tokens, end, &end, 1, &meta.path_end, NULL));
    assert_ok(cairn_path_digests(&root, tokens, end, &base, 1, &meta.path_base, NULL));
    meta.boundary.position = end;
    meta.count_runs = kind == CAIRN_BLOB_ROWS ? 1 : 0;
    return meta;
}

void support_payload(const cairn_blob_meta *meta, uint8_t *payload)
{
    cairn_rng rng;
    cairn_rng_init_stream(&rng, meta->begin * 100000ull + meta->end, meta->path_end.bytes[0]);
    for (uint64_t i = 0; i < meta->payload_bytes; i++) {
        payload[i] = (uint8_t)cairn_rng_u64(&rng);
    }
}

cairn_status support_put(cairn_disk *disk, const cairn_namespace *space, cairn_blob_kind kind,
                         const cairn_token *tokens, uint32_t begin, uint32_t end, uint64_t payload_bytes,
                         double value, char name[CAIRN_BLOB_NAME_BYTES])
{
    cairn_blob_meta meta = support_meta(disk, space, kind, tokens, begin, end, payload_bytes);
    uint8_t(*marks)[CAIRN_BLOB_MARK_BYTES] = NULL;
    if (kind == CAIRN_BLOB_ROWS) {
        marks = calloc(end - begin, sizeof *marks);
        assert_non_null(marks);
        cairn_path_root root;
        assert_ok(cairn_disk_root(disk, space, &root, NULL));
        assert_ok(cairn_path_marks(&root, tokens, begin, end, marks, NULL));
    }
    uint8_t *payload = malloc(payload_bytes);
    assert_non_null(payload);
    support_payload(&meta, payload);
    cairn_error error = {0};
    cairn_blob_run run = {.rows_end = end, .cut = end + 7, .digest = 99};
    cairn_status status = cairn_disk_put(disk, &meta, (const uint8_t(*)[CAIRN_BLOB_MARK_BYTES])marks, &run,
                                         payload, value, name, &error);
    free(payload);
    free(marks);
    return status;
}

cairn_status support_get(cairn_disk *disk, const cairn_disk_row *row)
{
    uint8_t *out = malloc(row->meta.payload_bytes), *expected = malloc(row->meta.payload_bytes);
    assert_non_null(out);
    assert_non_null(expected);
    cairn_status status = cairn_disk_get(disk, row->name, &row->meta, out, NULL, NULL);
    if (status == CAIRN_OK) {
        support_payload(&row->meta, expected);
        assert_memory_equal(out, expected, row->meta.payload_bytes);
    }
    free(out);
    free(expected);
    return status;
}

cairn_status support_open(cairn_io *io, uint64_t bytes_max, const uint8_t *key, const cairn_clock *clock,
                          cairn_disk **ret_disk)
{
    cairn_disk_options options = {
        .dir = "/store", .bytes_max = bytes_max, .key = key, .index_in_memory = true, .clock = clock};
    memset(options.fingerprint, 0x5a, sizeof options.fingerprint);
    cairn_status status = cairn_disk_open(cairn_mem_default(), io, &options, ret_disk, NULL);
    if (status == CAIRN_OK) {
        status = cairn_disk_scan(*ret_disk, true, NULL);
        if (status != CAIRN_OK) {
            cairn_disk_close(*ret_disk);
        }
    }
    return status;
}

uint32_t support_find(cairn_disk *disk, const cairn_namespace *space, const cairn_token *tokens,
                      uint32_t count, cairn_disk_found *found, uint32_t max)
{
    uint32_t count_found = 0;
    assert_ok(cairn_disk_find(disk, space, tokens, count, found, max, &count_found, NULL));
    return count_found;
}

shelf shelf_new(uint64_t room_bytes)
{
    shelf s = {.memory = cairn_io_memory_new(cairn_mem_default(), room_bytes)};
    s.io = cairn_io_memory_io(s.memory);
    return s;
}

void shelf_free(shelf *s)
{
    if (s->disk != NULL) {
        shelf_close(s);
    }
    cairn_io_memory_free(s->memory);
}

void shelf_open(shelf *s, uint64_t bytes_max)
{
    assert_ok(support_open(s->io, bytes_max, NULL, NULL, &s->disk));
}

void shelf_close(shelf *s)
{
    cairn_disk_close(s->disk);
    s->disk = NULL;
}

cairn_status shelf_try_state(shelf *s, uint32_t end, uint64_t payload_bytes, double value)
{
    return support_put(s->disk, &space_a, CAIRN_BLOB_STATE, path_one, end, end, payload_bytes, value,
                       s->name);
}

void shelf_put_state(shelf *s, uint32_t end, uint64_t payload_bytes, double value)
{
    assert_ok(shelf_try_state(s, end, payload_bytes, value));
}

void shelf_put_rows(shelf *s, uint32_t begin, uint32_t end, uint64_t payload_bytes)
{
    assert_ok(
        support_put(s->disk, &space_a, CAIRN_BLOB_ROWS, path_one, begin, end, payload_bytes, 1, s->name));
}

uint32_t shelf_find(shelf *s, const cairn_token *tokens, uint32_t count)
{
    return support_find(s->disk, &space_a, tokens, count, s->found, sizeof s->found / sizeof *s->found);
}

cairn_disk_stats shelf_stats(shelf *s)
{
    cairn_disk_stats stats;
    cairn_disk_stats_get(s->disk, &stats);
    return stats;
}

static bool count_name(void *ctx, const char *name)
{
    (void)name;
    ++*(uint32_t *)ctx;
    return true;
}

uint32_t support_names(cairn_io *io, const char *folder)
{
    uint32_t count = 0;
    cairn_status status = cairn_io_list(io, folder, count_name, &count, NULL);
    assert_true(status == CAIRN_OK || status == CAIRN_NOTFOUND);
    return count;
}
