/*
 * blob_format - see the header. It must not know files, tiers or threads.
 */
#include "store/blob_format.h"

#include <assert.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

static const uint8_t blob_magic[8] = {0x43, 0x41, 0x49, 0x52, 0x4e, 0x0d, 0x0a, 0x1a};

/* Offsets of docs/format/blob.md. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_HEADER_BYTES = 12,
    AT_FINGERPRINT = 16,
    AT_SPACE = 48,
    AT_KIND = 64,
    AT_PROVENANCE = 65,
    AT_FLAGS = 66,
    AT_BEGIN = 68,
    AT_END = 72,
    AT_PIECE_BYTES = 76,
    AT_COUNT_PIECES = 80,
    AT_COUNT_MARKS = 84,
    AT_PAYLOAD_BYTES = 88,
    AT_CUT_DIGEST = 96,
    AT_COUNT_RUNS = 104,
    AT_MESSAGE = 108,
    AT_CREATED_S = 112,
    AT_PATH_BEGIN = 120,
    AT_PATH_END = 136,
    AT_NONCE = 152,
    AT_BOUNDARY_KINDS = 164,
    AT_BOUNDARY_ROLE = 166,
    AT_PATH_BASE = 168,
    AT_ZERO = 184
};

enum { CHECK_BYTES = 16, RUN_BYTES = 16 };

static_assert(AT_SPACE == AT_FINGERPRINT + CAIRN_FINGERPRINT_BYTES, "fingerprint field");
static_assert(AT_KIND == AT_SPACE + CAIRN_NAMESPACE_BYTES, "space field");
static_assert(AT_PATH_END == AT_PATH_BEGIN + CAIRN_PATH_DIGEST_BYTES, "path field");
static_assert(AT_ZERO == AT_PATH_BASE + CAIRN_PATH_DIGEST_BYTES, "base field");
static_assert(sizeof(cairn_path_digest) == CAIRN_PATH_DIGEST_BYTES, "digests are read in place");

void cairn_blob_check(const void *bytes, size_t count, uint8_t ret_check[16])
{
    cairn_hash128 hash = cairn_hash_bytes(bytes, count);
    cairn_put64(ret_check, hash.low);
    cairn_put64(ret_check + 8, hash.high);
}

static uint64_t marks_bytes(const cairn_blob_layout *layout)
{
    return (uint64_t)CAIRN_BLOB_MARK_BYTES * layout->count_marks;
}

/* Marks and runs: what stands before the piece checks. */
static uint64_t tables_bytes(const cairn_blob_layout *layout)
{
    return marks_bytes(layout) + (uint64_t)RUN_BYTES * layout->count_runs;
}

static uint64_t tag_bytes(const cairn_blob_meta *meta)
{
    return (meta->flags & CAIRN_BLOB_ENCRYPTED) != 0 ? CAIRN_BLOB_TAG_BYTES : 0;
}

cairn_status cairn_blob_layout_get(const cairn_blob_meta *meta, cairn_blob_layout *ret_layout,
                                   cairn_error *reterr)
{
    if (meta->kind != CAIRN_BLOB_STATE && meta->kind != CAIRN_BLOB_ROWS) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/blob: kind", "%d", (int)meta->kind);
    }
    bool ordered = meta->kind == CAIRN_BLOB_STATE ? meta->begin == meta->end : meta->begin < meta->end;
    uint32_t runs_max = meta->kind == CAIRN_BLOB_ROWS ? meta->end - meta->begin : 0;
    if (!ordered || meta->end > INT32_MAX || meta->count_runs > runs_max) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/blob: range", "[%u, %u)", meta->begin,
                               meta->end);
    }
    uint64_t pieces = (meta->payload_bytes + CAIRN_BLOB_PIECE_BYTES - 1) / CAIRN_BLOB_PIECE_BYTES;
    if (meta->payload_bytes == 0 || meta->payload_bytes > UINT64_MAX / 4 || pieces > (1u << 20)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/blob: size", "%llu bytes",
                               (unsigned long long)meta->payload_bytes);
    }
    cairn_blob_layout layout = {0};
    layout.count_pieces = (uint32_t)pieces;
    layout.count_marks = meta->kind == CAIRN_BLOB_ROWS ? meta->end - meta->begin - 1 : 0;
    layout.count_runs = meta->count_runs;
    uint64_t header = CAIRN_BLOB_FIXED_BYTES + tables_bytes(&layout) + CHECK_BYTES * (pieces + 1);
    CAIRN_ASSERT(header < UINT32_MAX);
    layout.header_bytes = (uint32_t)header;
    layout.data_begin =
        (header + CAIRN_BLOB_ALIGN_BYTES - 1) / CAIRN_BLOB_ALIGN_BYTES * CAIRN_BLOB_ALIGN_BYTES;
    layout.file_bytes = layout.data_begin + meta->payload_bytes + pieces * tag_bytes(meta);
    *ret_layout = layout;
    return CAIRN_OK;
}

uint32_t cairn_blob_piece_bytes(const cairn_blob_meta *meta, const cairn_blob_layout *layout, uint32_t index)
{
    CAIRN_ASSERT(index < layout->count_pieces);
    uint64_t before = (uint64_t)index * CAIRN_BLOB_PIECE_BYTES;
    uint64_t left = meta->payload_bytes - before;
    uint64_t plain = left < CAIRN_BLOB_PIECE_BYTES ? left : CAIRN_BLOB_PIECE_BYTES;
    return (uint32_t)(plain + tag_bytes(meta));
}

uint64_t cairn_blob_piece_begin(const cairn_blob_meta *meta, const cairn_blob_layout *layout, uint32_t index)
{
    CAIRN_ASSERT(index < layout->count_pieces);
    return layout->data_begin + index * (CAIRN_BLOB_PIECE_BYTES + tag_bytes(meta));
}

void cairn_blob_header_write(const cairn_blob_meta *meta, const cairn_blob_layout *layout,
                             const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES], const cairn_blob_run *runs,
                             const uint8_t (*checks)[16], uint8_t *out)
{
    memset(out, 0, layout->data_begin);
    memcpy(out + AT_MAGIC, blob_magic, sizeof blob_magic);
    cairn_put32(out + AT_VERSION, CAIRN_BLOB_VERSION);
    cairn_put32(out + AT_HEADER_BYTES, layout->header_bytes);
    memcpy(out + AT_FINGERPRINT, meta->fingerprint, CAIRN_FINGERPRINT_BYTES);
    memcpy(out + AT_SPACE, meta->space.bytes, CAIRN_NAMESPACE_BYTES);
    out[AT_KIND] = (uint8_t)meta->kind;
    out[AT_PROVENANCE] = meta->provenance;
    cairn_put16(out + AT_FLAGS, meta->flags);
    cairn_put32(out + AT_BEGIN, meta->begin);
    cairn_put32(out + AT_END, meta->end);
    cairn_put32(out + AT_PIECE_BYTES, CAIRN_BLOB_PIECE_BYTES);
    cairn_put32(out + AT_COUNT_PIECES, layout->count_pieces);
    cairn_put32(out + AT_COUNT_MARKS, layout->count_marks);
    cairn_put64(out + AT_PAYLOAD_BYTES, meta->payload_bytes);
    cairn_put64(out + AT_CUT_DIGEST, meta->cut_digest);
    cairn_put32(out + AT_COUNT_RUNS, meta->count_runs);
    cairn_put32(out + AT_MESSAGE, meta->boundary.message);
    cairn_put64(out + AT_CREATED_S, meta->created_s);
    memcpy(out + AT_PATH_BEGIN, meta->path_begin.bytes, CAIRN_PATH_DIGEST_BYTES);
    memcpy(out + AT_PATH_END, meta->path_end.bytes, CAIRN_PATH_DIGEST_BYTES);
    memcpy(out + AT_PATH_BASE, meta->path_base.bytes, CAIRN_PATH_DIGEST_BYTES);
    memcpy(out + AT_NONCE, meta->nonce, sizeof meta->nonce);
    cairn_put16(out + AT_BOUNDARY_KINDS, meta->boundary.kinds);
    out[AT_BOUNDARY_ROLE] = meta->boundary.role;
    uint8_t *tables = out + CAIRN_BLOB_FIXED_BYTES;
    if (layout->count_marks != 0) {
        memcpy(tables, marks, marks_bytes(layout));
    }
    uint8_t *run = tables + marks_bytes(layout);
    for (uint32_t i = 0; i < layout->count_runs; i++, run += RUN_BYTES) {
        cairn_put32(run, runs[i].rows_end);
        cairn_put32(run + 4, runs[i].cut);
        cairn_put64(run + 8, runs[i].digest);
    }
    memcpy(run, checks, CHECK_BYTES * (size_t)layout->count_pieces);
    uint32_t checked = layout->header_bytes - CHECK_BYTES;
    cairn_blob_check(out, checked, out + checked);
}

static cairn_status corrupt_at(cairn_error *reterr, uint64_t offset, const char *what)
{
    return cairn_error_set_at(reterr, CAIRN_CORRUPT, offset, "store/blob: header", "%s", what);
}

static void meta_read(const uint8_t *bytes, cairn_blob_meta *meta)
{
    memset(meta, 0, sizeof *meta);
    memcpy(meta->fingerprint, bytes + AT_FINGERPRINT, CAIRN_FINGERPRINT_BYTES);
    memcpy(meta->space.bytes, bytes + AT_SPACE, CAIRN_NAMESPACE_BYTES);
    meta->kind = (cairn_blob_kind)bytes[AT_KIND];
    meta->provenance = bytes[AT_PROVENANCE];
    meta->flags = cairn_get16(bytes + AT_FLAGS);
    meta->begin = cairn_get32(bytes + AT_BEGIN);
    meta->end = cairn_get32(bytes + AT_END);
    meta->payload_bytes = cairn_get64(bytes + AT_PAYLOAD_BYTES);
    meta->cut_digest = cairn_get64(bytes + AT_CUT_DIGEST);
    meta->count_runs = cairn_get32(bytes + AT_COUNT_RUNS);
    meta->created_s = cairn_get64(bytes + AT_CREATED_S);
    memcpy(meta->path_begin.bytes, bytes + AT_PATH_BEGIN, CAIRN_PATH_DIGEST_BYTES);
    memcpy(meta->path_end.bytes, bytes + AT_PATH_END, CAIRN_PATH_DIGEST_BYTES);
    memcpy(meta->path_base.bytes, bytes + AT_PATH_BASE, CAIRN_PATH_DIGEST_BYTES);
    memcpy(meta->nonce, bytes + AT_NONCE, sizeof meta->nonce);
    meta->boundary.position = meta->end;
    meta->boundary.message = cairn_get32(bytes + AT_MESSAGE);
    meta->boundary.kinds = cairn_get16(bytes + AT_BOUNDARY_KINDS);
    meta->boundary.role = bytes[AT_BOUNDARY_ROLE];
}

cairn_status cairn_blob_header_read(const uint8_t *bytes, uint64_t file_bytes, cairn_blob_meta *ret_meta,
                                    cairn_blob_layout *ret_layout, cairn_error *reterr)
{
    if (file_bytes < CAIRN_BLOB_FIXED_BYTES) {
        return corrupt_at(reterr, file_bytes, "shorter than a header");
    }
    if (memcmp(bytes + AT_MAGIC, blob_magic, sizeof blob_magic) != 0) {
        return corrupt_at(reterr, AT_MAGIC, "not a blob file");
    }
    uint32_t version = cairn_get32(bytes + AT_VERSION);
    if (version != CAIRN_BLOB_VERSION) {
        return cairn_error_set_at(reterr, CAIRN_UNSUPPORTED, AT_VERSION, "store/blob: header",
                                  "format version %u, this build reads %d", version, CAIRN_BLOB_VERSION);
    }
    cairn_blob_meta meta;
    meta_read(bytes, &meta);
    if (meta.provenance > 1 || (meta.flags & ~CAIRN_BLOB_ENCRYPTED) != 0) {
        return corrupt_at(reterr, AT_PROVENANCE, "unknown provenance or flags");
    }
    cairn_blob_layout layout = {0};
    cairn_error range = {0};
    if (cairn_blob_layout_get(&meta, &layout, &range) != CAIRN_OK) {
        return corrupt_at(reterr, AT_KIND, "kind, range or size out of bounds");
    }
    if (cairn_get32(bytes + AT_PIECE_BYTES) != CAIRN_BLOB_PIECE_BYTES ||
        cairn_get32(bytes + AT_COUNT_PIECES) != layout.count_pieces ||
        cairn_get32(bytes + AT_COUNT_MARKS) != layout.count_marks ||
        cairn_get32(bytes + AT_HEADER_BYTES) != layout.header_bytes) {
        return corrupt_at(reterr, AT_PIECE_BYTES, "counts don't agree");
    }
    for (int i = AT_BOUNDARY_ROLE + 1; i < CAIRN_BLOB_FIXED_BYTES; i++) {
        bool reserved = i < AT_PATH_BASE || i >= AT_ZERO;
        if (reserved && bytes[i] != 0) {
            return corrupt_at(reterr, (uint64_t)i, "reserved bytes are not zero");
        }
    }
    if (file_bytes != CAIRN_BLOB_SIZE_UNKNOWN && file_bytes != layout.file_bytes) {
        return corrupt_at(reterr, file_bytes,
                          file_bytes < layout.file_bytes ? "the file is cut short" : "the file is too long");
    }
    *ret_meta = meta;
    *ret_layout = layout;
    return CAIRN_OK;
}

cairn_status cairn_blob_header_check(const uint8_t *bytes, const cairn_blob_layout *layout,
                                     cairn_error *reterr)
{
    uint8_t check[CHECK_BYTES];
    uint32_t checked = layout->header_bytes - CHECK_BYTES;
    cairn_blob_check(bytes, checked, check);
    if (memcmp(check, bytes + checked, sizeof check) != 0) {
        return corrupt_at(reterr, checked, "the header's check differs");
    }
    return CAIRN_OK;
}

const uint8_t *cairn_blob_header_mark(const uint8_t *bytes, const cairn_blob_layout *layout, uint32_t index)
{
    CAIRN_ASSERT(index < layout->count_marks);
    return bytes + CAIRN_BLOB_FIXED_BYTES + (size_t)CAIRN_BLOB_MARK_BYTES * index;
}

cairn_blob_run cairn_blob_header_run(const uint8_t *bytes, const cairn_blob_layout *layout, uint32_t index)
{
    CAIRN_ASSERT(index < layout->count_runs);
    const uint8_t *run = bytes + CAIRN_BLOB_FIXED_BYTES + marks_bytes(layout) + (size_t)RUN_BYTES * index;
    return (cairn_blob_run){
        .rows_end = cairn_get32(run), .cut = cairn_get32(run + 4), .digest = cairn_get64(run + 8)};
}

const uint8_t *cairn_blob_header_piece_check(const uint8_t *bytes, const cairn_blob_layout *layout,
                                             uint32_t index)
{
    CAIRN_ASSERT(index < layout->count_pieces);
    return bytes + CAIRN_BLOB_FIXED_BYTES + tables_bytes(layout) + CHECK_BYTES * (size_t)index;
}

uint32_t cairn_blob_base(cairn_blob_kind kind, uint32_t begin, uint32_t end)
{
    uint32_t position = kind == CAIRN_BLOB_ROWS ? begin : end;
    return position - position % CAIRN_BLOB_BASE_TOKENS;
}

void cairn_blob_name(const cairn_blob_meta *meta, char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    uint8_t identity[CAIRN_FINGERPRINT_BYTES + CAIRN_NAMESPACE_BYTES + 2 + 4 + 4 + 8 +
                     2 * CAIRN_PATH_DIGEST_BYTES];
    uint8_t *at = identity;
    memcpy(at, meta->fingerprint, CAIRN_FINGERPRINT_BYTES);
    at += CAIRN_FINGERPRINT_BYTES;
    memcpy(at, meta->space.bytes, CAIRN_NAMESPACE_BYTES);
    at += CAIRN_NAMESPACE_BYTES;
    *at++ = (uint8_t)meta->kind;
    *at++ = meta->provenance;
    cairn_put32(at, meta->begin);
    cairn_put32(at + 4, meta->end);
    cairn_put64(at + 8, meta->cut_digest);
    at += 16;
    memcpy(at, meta->path_begin.bytes, CAIRN_PATH_DIGEST_BYTES);
    memcpy(at + CAIRN_PATH_DIGEST_BYTES, meta->path_end.bytes, CAIRN_PATH_DIGEST_BYTES);
    CAIRN_ASSERT(at + (size_t)2 * CAIRN_PATH_DIGEST_BYTES == identity + sizeof identity);

    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned digest_bytes = 0;
    CAIRN_ASSERT(EVP_Digest(identity, sizeof identity, digest, &digest_bytes, EVP_sha256(), NULL) == 1);
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < 32; i++) {
        ret_name[(size_t)2 * i] = digits[digest[i] >> 4];
        ret_name[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_name[64] = '\0';
}

bool cairn_blob_file_parse(const char *file, char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    size_t digits = strspn(file, "0123456789abcdef");
    if (digits != CAIRN_BLOB_NAME_BYTES - 1 || strcmp(file + digits, ".blob") != 0) {
        return false;
    }
    memcpy(ret_name, file, digits);
    ret_name[digits] = '\0';
    return true;
}

uint64_t cairn_blob_name_number(const char *name)
{
    uint64_t number = 0;
    for (int i = 0; i < 16; i++) {
        number = number << 4 | (uint64_t)(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
    }
    return number != 0 ? number : 1;
}

/* Feed tokens [begin, end) as little-endian 32-bit integers. */
static bool feed_tokens(EVP_MD_CTX *context, const cairn_token *tokens, uint32_t begin, uint32_t end)
{
    uint8_t chunk[1024];
    while (begin < end) {
        uint32_t count = end - begin < sizeof chunk / 4 ? end - begin : (uint32_t)(sizeof chunk / 4);
        for (uint32_t i = 0; i < count; i++) {
            cairn_put32(chunk + (size_t)4 * i, (uint32_t)tokens[begin + i]);
        }
        if (EVP_DigestUpdate(context, chunk, 4 * (size_t)count) != 1) {
            return false;
        }
        begin += count;
    }
    return true;
}

cairn_status cairn_blob_space(const cairn_namespace *space, const uint8_t *key, cairn_namespace *ret_shown,
                              cairn_path_root *ret_root, cairn_error *reterr)
{
    static const uint8_t shown_label[8] = {'b', 'l', 'o', 'b', 'n', 'a', 'm', 'e'};
    static const uint8_t root_label[8] = {'p', 'a', 't', 'h', 'r', 'o', 'o', 't'};
    static const uint8_t no_key[32];
    uint8_t text[8 + CAIRN_NAMESPACE_BYTES];
    cairn_digest shown, root;
    memcpy(text + 8, space->bytes, CAIRN_NAMESPACE_BYTES);
    memcpy(text, shown_label, 8);
    cairn_status status =
        cairn_digest_keyed(key != NULL ? key : no_key, sizeof no_key, text, sizeof text, &shown);
    memcpy(text, root_label, 8);
    if (status == CAIRN_OK) {
        status = cairn_digest_keyed(key != NULL ? key : no_key, sizeof no_key, text, sizeof text, &root);
    }
    if (status != CAIRN_OK) {
        return cairn_error_set(reterr, status, "store/blob: space", NULL);
    }
    memcpy(ret_shown->bytes, shown.bytes, sizeof ret_shown->bytes);
    memcpy(ret_root->bytes, root.bytes, sizeof ret_root->bytes);
    return CAIRN_OK;
}

// NOLINTNEXTLINE(readability-function-size): what a path is, and where digests are wanted
cairn_status cairn_path_digests(const cairn_path_root *root, const cairn_token *tokens, uint32_t count,
                                const uint32_t *at, uint32_t count_at, cairn_path_digest *ret_digests,
                                cairn_error *reterr)
{
    static const char where[] = "store/blob: path digest";
    cairn_status status = CAIRN_NOMEM;
    EVP_MD_CTX *running = EVP_MD_CTX_new();
    EVP_MD_CTX *copy = EVP_MD_CTX_new();
    if (running == NULL || copy == NULL || EVP_DigestInit_ex(running, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(running, root->bytes, sizeof root->bytes) != 1) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
        goto out;
    }
    uint32_t done = 0;
    for (uint32_t i = 0; i < count_at; i++) {
        if (at[i] < done || at[i] > count) {
            status = cairn_error_set(reterr, CAIRN_INVALID, where, "position %u of %u tokens", at[i], count);
            goto out;
        }
        uint8_t digest[EVP_MAX_MD_SIZE];
        if (!feed_tokens(running, tokens, done, at[i]) || EVP_MD_CTX_copy_ex(copy, running) != 1 ||
            EVP_DigestFinal_ex(copy, digest, NULL) != 1) {
            status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
            goto out;
        }
        done = at[i];
        memcpy(ret_digests[i].bytes, digest, CAIRN_PATH_DIGEST_BYTES);
    }
    status = CAIRN_OK;
out:
    EVP_MD_CTX_free(copy);
    EVP_MD_CTX_free(running);
    return status;
}

cairn_status cairn_path_marks(const cairn_path_root *root, const cairn_token *tokens, uint32_t begin,
                              uint32_t end, uint8_t (*ret_marks)[CAIRN_BLOB_MARK_BYTES], cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    EVP_MD_CTX *running = EVP_MD_CTX_new();
    EVP_MD_CTX *copy = EVP_MD_CTX_new();
    bool ok = running != NULL && copy != NULL && EVP_DigestInit_ex(running, EVP_sha256(), NULL) == 1 &&
              EVP_DigestUpdate(running, root->bytes, sizeof root->bytes) == 1 &&
              feed_tokens(running, tokens, 0, begin);
    for (uint32_t position = begin + 1; ok && position < end; position++) {
        uint8_t digest[EVP_MAX_MD_SIZE];
        ok = feed_tokens(running, tokens, position - 1, position) && EVP_MD_CTX_copy_ex(copy, running) == 1 &&
             EVP_DigestFinal_ex(copy, digest, NULL) == 1;
        if (ok) {
            memcpy(ret_marks[position - begin - 1], digest, CAIRN_BLOB_MARK_BYTES);
        }
    }
    if (!ok) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/blob: marks", NULL);
    }
    EVP_MD_CTX_free(copy);
    EVP_MD_CTX_free(running);
    return status;
}
