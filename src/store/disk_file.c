/*
 * disk_file - see the header.
 */
#include "store/disk_file.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "store/blob_seal.h"
#include "store/tier_ram.h"

/* Read in parts that stay in the processor's own cache until they are hashed. */
enum { PART_BYTES = 256 << 10 };

static_assert((int)CAIRN_TIER_PIECE_BYTES == (int)CAIRN_BLOB_PIECE_BYTES,
              "checks of pieces make the digest in memory, too");

cairn_status cairn_disk_header_load(const cairn_mem *mem, cairn_file *file, cairn_disk_header *ret_header,
                                    cairn_error *reterr)
{
    cairn_disk_header header = {0};
    cairn_io_stat stat = {0};
    uint8_t fixed[CAIRN_BLOB_FIXED_BYTES] = {0};
    cairn_status status = file->io->file_stat(file, &stat, reterr);
    if (status == CAIRN_OK && stat.size_bytes >= sizeof fixed) {
        status = cairn_io_pread(file, fixed, sizeof fixed, 0, reterr);
    }
    if (status == CAIRN_OK) {
        status = cairn_blob_header_read(fixed, stat.size_bytes, &header.meta, &header.layout, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    header.room = header.layout.header_bytes;
    header.bytes = cairn_mem_alloc(mem, header.room);
    if (header.bytes == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/disk_file: header", NULL);
    }
    status = cairn_io_pread(file, header.bytes, header.room, 0, reterr);
    if (status == CAIRN_OK) {
        status = cairn_blob_header_check(header.bytes, &header.layout, reterr);
    }
    if (status == CAIRN_OK && memcmp(fixed, header.bytes, sizeof fixed) != 0) {
        status = cairn_error_set(reterr, CAIRN_CORRUPT, "store/disk_file: header", "two reads of it differ");
    }
    if (status != CAIRN_OK) {
        cairn_disk_header_release(mem, &header);
        return status;
    }
    *ret_header = header;
    return CAIRN_OK;
}

void cairn_disk_header_release(const cairn_mem *mem, cairn_disk_header *header)
{
    cairn_mem_release(mem, header->bytes, header->room);
    header->bytes = NULL;
}

/* Read one stored piece into `to`, and test its check. */
static cairn_status piece_load(cairn_file *file, const cairn_disk_header *header, uint32_t index,
                               cairn_hash_stream *hash, uint8_t *to, cairn_error *reterr)
{
    uint32_t stored = cairn_blob_piece_bytes(&header->meta, &header->layout, index);
    uint64_t begin = cairn_blob_piece_begin(&header->meta, &header->layout, index);
    cairn_hash_stream_reset(hash);
    for (uint32_t at = 0; at < stored; at += PART_BYTES) {
        uint32_t part = stored - at < PART_BYTES ? stored - at : PART_BYTES;
        cairn_status status = cairn_io_pread(file, to + at, part, begin + at, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        cairn_hash_stream_update(hash, to + at, part);
    }
    uint8_t check[CAIRN_TIER_CHECK_BYTES];
    cairn_hash128 sum = cairn_hash_stream_value(hash);
    cairn_put64(check, sum.low);
    cairn_put64(check + 8, sum.high);
    if (memcmp(check, cairn_blob_header_piece_check(header->bytes, &header->layout, index), sizeof check) !=
        0) {
        return cairn_error_set_at(reterr, CAIRN_CORRUPT, begin, "store/disk_file: piece", "piece %u of %u",
                                  index, header->layout.count_pieces);
    }
    return CAIRN_OK;
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one blob
cairn_status cairn_disk_payload_read(const cairn_mem *mem, cairn_file *file, const cairn_disk_header *header,
                                     const uint8_t *key, uint8_t *out, uint64_t *ret_digest,
                                     cairn_error *reterr)
{
    static const char where[] = "store/disk_file: read";
    bool sealed = (header->meta.flags & CAIRN_BLOB_ENCRYPTED) != 0;
    if (sealed != (key != NULL)) {
        return cairn_error_set(reterr, CAIRN_LOCKED, where,
                               sealed ? "encrypted, and there is no key" : "not encrypted");
    }
    size_t room = (size_t)CAIRN_BLOB_PIECE_BYTES + CAIRN_BLOB_TAG_BYTES;
    uint8_t *piece = NULL;
    uint64_t digest = 0;
    cairn_seal cipher = {0};
    cairn_status status = CAIRN_OK;
    cairn_hash_stream *hash = cairn_hash_stream_new(mem);
    if (sealed || out == NULL) {
        piece = cairn_mem_alloc(mem, room);
    }
    if (hash == NULL || ((sealed || out == NULL) && piece == NULL) ||
        (sealed && cairn_seal_init(&cipher, key, header->meta.nonce, header->bytes) != CAIRN_OK)) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
        goto out;
    }
    for (uint32_t i = 0; i < header->layout.count_pieces; i++) {
        uint8_t *to = out != NULL ? out + (uint64_t)i * CAIRN_BLOB_PIECE_BYTES : piece;
        status = piece_load(file, header, i, hash, sealed ? piece : to, reterr);
        if (status != CAIRN_OK) {
            goto out;
        }
        const uint8_t *check = cairn_blob_header_piece_check(header->bytes, &header->layout, i);
        uint8_t check_plain[CAIRN_TIER_CHECK_BYTES];
        if (sealed) {
            uint32_t plain = cairn_blob_piece_bytes(&header->meta, &header->layout, i) - CAIRN_BLOB_TAG_BYTES;
            if (!cairn_seal_open_piece(&cipher, i, piece, plain, to)) {
                status = cairn_error_set(reterr, CAIRN_LOCKED, where, "another key, or changed on purpose");
                goto out;
            }
            cairn_blob_check(to, plain, check_plain);
            check = check_plain;
        }
        digest = cairn_tier_digest_add(digest, check);
    }
    if (ret_digest != NULL) {
        *ret_digest = digest;
    }
out:
    cairn_hash_stream_free(hash);
    cairn_seal_release(&cipher);
    cairn_mem_release(mem, piece, room);
    return status;
}

cairn_status cairn_disk_stored_check(const cairn_mem *mem, cairn_file *file, const cairn_disk_header *header,
                                     cairn_error *reterr)
{
    size_t room = (size_t)CAIRN_BLOB_PIECE_BYTES + CAIRN_BLOB_TAG_BYTES;
    uint8_t *piece = cairn_mem_alloc(mem, room);
    cairn_hash_stream *hash = cairn_hash_stream_new(mem);
    cairn_status status = CAIRN_OK;
    if (piece == NULL || hash == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/disk_file: check", NULL);
    }
    for (uint32_t i = 0; i < header->layout.count_pieces && status == CAIRN_OK; i++) {
        status = piece_load(file, header, i, hash, piece, reterr);
    }
    cairn_hash_stream_free(hash);
    cairn_mem_release(mem, piece, room);
    return status;
}

/* Write the pieces and note their checks. */
// NOLINTNEXTLINE(readability-function-size): what belongs to one blob
static cairn_status pieces_write(cairn_file *file, const cairn_blob_meta *meta,
                                 const cairn_blob_layout *layout, const uint8_t *payload, cairn_seal *cipher,
                                 uint8_t *sealed, uint8_t (*checks)[16], cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 0; i < layout->count_pieces && status == CAIRN_OK; i++) {
        const uint8_t *stored = payload + (uint64_t)i * CAIRN_BLOB_PIECE_BYTES;
        uint32_t count = cairn_blob_piece_bytes(meta, layout, i);
        if (cipher != NULL) {
            if (!cairn_seal_close_piece(cipher, i, stored, count - CAIRN_BLOB_TAG_BYTES, sealed)) {
                return cairn_error_set(reterr, CAIRN_NOMEM, "store/disk_file: encrypt", NULL);
            }
            stored = sealed;
        }
        cairn_blob_check(stored, count, checks[i]);
        status = cairn_io_pwrite(file, stored, count, cairn_blob_piece_begin(meta, layout, i), reterr);
    }
    return status;
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one blob
cairn_status cairn_disk_file_write(const cairn_mem *mem, cairn_file *file, const cairn_blob_meta *meta,
                                   const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES], const cairn_blob_run *runs,
                                   const uint8_t *payload, const uint8_t *key, cairn_error *reterr)
{
    cairn_blob_layout layout;
    cairn_status status = cairn_blob_layout_get(meta, &layout, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    CAIRN_ASSERT((key != NULL) == ((meta->flags & CAIRN_BLOB_ENCRYPTED) != 0));
    size_t room = (size_t)CAIRN_BLOB_PIECE_BYTES + CAIRN_BLOB_TAG_BYTES;
    cairn_seal cipher = {0};
    uint8_t *sealed = key != NULL ? cairn_mem_alloc(mem, room) : NULL;
    uint8_t *header = cairn_mem_alloc(mem, layout.data_begin);
    uint8_t(*checks)[16] = cairn_mem_array(mem, layout.count_pieces, sizeof *checks);
    if (header == NULL || checks == NULL || (key != NULL && sealed == NULL)) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/disk_file: write", NULL);
        goto out;
    }
    /* The fixed part is associated data of the pieces, and doesn't depend on their checks. */
    cairn_blob_header_write(meta, &layout, marks, runs, (const uint8_t(*)[16])checks, header);
    if (key != NULL && cairn_seal_init(&cipher, key, meta->nonce, header) != CAIRN_OK) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/disk_file: write", NULL);
        goto out;
    }
    status = pieces_write(file, meta, &layout, payload, key != NULL ? &cipher : NULL, sealed, checks, reterr);
    if (status == CAIRN_OK) {
        cairn_blob_header_write(meta, &layout, marks, runs, (const uint8_t(*)[16])checks, header);
        status = cairn_io_pwrite(file, header, layout.data_begin, 0, reterr);
    }
    if (status == CAIRN_OK) {
        status = cairn_io_file_sync(file, reterr);
    }
out:
    cairn_seal_release(&cipher);
    cairn_mem_array_release(mem, checks, layout.count_pieces, sizeof *checks);
    cairn_mem_release(mem, header, layout.data_begin);
    cairn_mem_release(mem, sealed, room);
    return status;
}
