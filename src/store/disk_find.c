/*
 * disk_find - which blobs lie on a prompt's path. Part of tier_disk.h.
 *
 * The index is asked once for each base, a position every 256 tokens. What it gives is proved by the digests of the whole
 * path; where a prompt leaves rows in the middle, by bisection over the marks in the file's header.
 *
 * It must not read what a blob holds, nor change anything.
 */
#include <string.h>

#include "store/tier_disk_internal.h"

cairn_status cairn_disk_faces_get(const cairn_disk *disk, const cairn_namespace *space,
                                  cairn_disk_faces *ret_faces, cairn_error *reterr)
{
    return cairn_blob_space(space, disk->encrypted ? disk->key : NULL, &ret_faces->shown, &ret_faces->root,
                            reterr);
}

cairn_status cairn_disk_root(cairn_disk *disk, const cairn_namespace *space, cairn_path_root *ret_root,
                             cairn_error *reterr)
{
    cairn_disk_faces faces;
    cairn_status status = cairn_disk_faces_get(disk, space, &faces, reterr);
    if (status == CAIRN_OK) {
        *ret_root = faces.root;
    }
    return status;
}

bool cairn_disk_row_sound(const cairn_disk_row *row)
{
    cairn_blob_layout layout;
    return cairn_blob_layout_get(&row->meta, &layout, NULL) == CAIRN_OK &&
           layout.file_bytes == row->file_bytes;
}

/* Rows that the index gives for the bases of one prompt. */
typedef struct find_gather {
    cairn_disk_found *found;
    uint32_t max, count;
    uint32_t tokens;
} find_gather;

static bool find_note(void *ctx, const cairn_disk_row *row)
{
    find_gather *gather = ctx;
    bool inside = row->meta.kind == CAIRN_BLOB_STATE ? row->meta.end <= gather->tokens
                                                     : row->meta.begin < gather->tokens;
    if (inside && cairn_disk_row_sound(row)) {
        gather->found[gather->count].row = *row;
        gather->found[gather->count++].use_end = 0;
    }
    return gather->count < gather->max;
}

static cairn_status find_gather_all(cairn_disk *disk, const cairn_disk_faces *space,
                                    const cairn_token *tokens, uint32_t count, find_gather *gather,
                                    cairn_error *reterr)
{
    uint32_t bases = count / CAIRN_BLOB_BASE_TOKENS + 1;
    uint32_t *at = cairn_mem_array(disk->mem, bases, sizeof *at);
    cairn_path_digest *digests = cairn_mem_array(disk->mem, bases, sizeof *digests);
    cairn_status status = CAIRN_NOMEM;
    if (at == NULL || digests == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/disk: find", NULL);
        goto out;
    }
    for (uint32_t i = 0; i < bases; i++) {
        at[i] = i * CAIRN_BLOB_BASE_TOKENS;
    }
    status = cairn_path_digests(&space->root, tokens, count, at, bases, digests, reterr);
    cairn_disk_count(disk, &disk->stats.lookups, bases);
    for (uint32_t i = 0; i < bases && status == CAIRN_OK && gather->count < gather->max; i++) {
        status = cairn_disk_index_find(disk->index, &space->shown, disk->fingerprint, &digests[i], find_note,
                                       gather, reterr);
    }
out:
    cairn_mem_array_release(disk->mem, digests, bases, sizeof *digests);
    cairn_mem_array_release(disk->mem, at, bases, sizeof *at);
    return status;
}

static cairn_status digest_at(const cairn_disk_faces *space, const cairn_token *tokens, uint32_t position,
                              cairn_path_digest *ret_digest)
{
    return cairn_path_digests(&space->root, tokens, position, &position, 1, ret_digest, NULL);
}

/* How far do rows serve a prompt that leaves them in the middle? By bisection over the file's marks. */
static uint32_t rows_use_end(cairn_disk *disk, const cairn_disk_faces *space, const cairn_token *tokens,
                             uint32_t count, const cairn_disk_row *row)
{
    char path[DISK_PATH_BYTES];
    cairn_file *file = NULL;
    cairn_disk_header header = {0};
    uint32_t low = row->meta.begin; /* agrees */
    if (!cairn_disk_blob_path(disk, row->name, path) ||
        cairn_io_open(disk->io, path, CAIRN_IO_READ, &file, NULL) != CAIRN_OK) {
        return low;
    }
    if (cairn_disk_header_load(disk->mem, file, &header, NULL) == CAIRN_OK) {
        bool same = header.meta.begin == row->meta.begin && header.meta.end == row->meta.end;
        uint32_t high = count < row->meta.end - 1 ? count : row->meta.end - 1;
        while (same && low < high) { /* else another file stands in its place: reading it will say so */
            uint32_t middle = high - (high - low) / 2;
            cairn_path_digest digest;
            if (digest_at(space, tokens, middle, &digest) != CAIRN_OK) {
                break;
            }
            const uint8_t *mark =
                cairn_blob_header_mark(header.bytes, &header.layout, middle - row->meta.begin - 1);
            if (memcmp(mark, digest.bytes, CAIRN_BLOB_MARK_BYTES) == 0) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        cairn_disk_header_release(disk->mem, &header);
    }
    cairn_io_discard(file);
    return low;
}

/* Does this row belong to the prompt, and how far? 0: no. */
static uint32_t row_use_end(cairn_disk *disk, const cairn_disk_faces *space, const cairn_token *tokens,
                            uint32_t count, const cairn_disk_row *row)
{
    cairn_path_digest digest;
    const cairn_blob_meta *meta = &row->meta;
    if (meta->kind == CAIRN_BLOB_ROWS && (digest_at(space, tokens, meta->begin, &digest) != CAIRN_OK ||
                                          !cairn_path_digest_equal(&digest, &meta->path_begin))) {
        return 0;
    }
    if (meta->end <= count && digest_at(space, tokens, meta->end, &digest) == CAIRN_OK &&
        cairn_path_digest_equal(&digest, &meta->path_end)) {
        return meta->end;
    }
    if (meta->kind == CAIRN_BLOB_STATE || meta->end - meta->begin < 2) {
        return 0;
    }
    uint32_t end = rows_use_end(disk, space, tokens, count, row);
    return end > meta->begin ? end : 0;
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one blob
cairn_status cairn_disk_find(cairn_disk *disk, const cairn_namespace *space, const cairn_token *tokens,
                             uint32_t count, cairn_disk_found *ret_found, uint32_t max, uint32_t *ret_count,
                             cairn_error *reterr)
{
    find_gather gather = {.found = ret_found, .max = max, .tokens = count};
    cairn_disk_faces faces;
    cairn_status status = cairn_disk_faces_get(disk, space, &faces, reterr);
    if (status == CAIRN_OK && max != 0) {
        status = find_gather_all(disk, &faces, tokens, count, &gather, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < gather.count; i++) {
        uint32_t use_end = row_use_end(disk, &faces, tokens, count, &ret_found[i].row);
        if (use_end != 0) {
            ret_found[kept].row = ret_found[i].row;
            ret_found[kept++].use_end = use_end;
        }
    }
    *ret_count = kept;
    return CAIRN_OK;
}
