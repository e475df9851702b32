/*
 * tier_disk - see the header. Here: blobs in and out. The directory is opened and made by disk_open; files are written and read by
 * disk_file, found by disk_find, given room by disk_room, listed by disk_scan, remembered by disk_index.
 *
 * It must not know tokens beyond their digests, nor why a blob is worth keeping: its value is a number that is given.
 */
#include "store/tier_disk.h"

#include <math.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "store/tier_disk_internal.h"

enum { FORGET_AT_ONCE = 64 };

bool cairn_disk_path(const cairn_disk *disk, const char *folder, const char *name,
                     char ret_path[DISK_PATH_BYTES])
{
    int length = snprintf(ret_path, DISK_PATH_BYTES, "%s%s%s%s%s", disk->dir, folder != NULL ? "/" : "",
                          folder != NULL ? folder : "", name != NULL ? "/" : "", name != NULL ? name : "");
    return length > 0 && length < DISK_PATH_BYTES;
}

bool cairn_disk_blob_path(const cairn_disk *disk, const char *name, char ret_path[DISK_PATH_BYTES])
{
    int length = snprintf(ret_path, DISK_PATH_BYTES, "%s/%.2s/%s.blob", disk->dir, name, name);
    return length > 0 && length < DISK_PATH_BYTES;
}

double cairn_disk_rank(double value, uint64_t used_s)
{
    double size = value > 1e-30 ? log2(value) : -100.0;
    return size + (double)used_s / DISK_DAY_S;
}

uint64_t cairn_disk_now_s(const cairn_disk *disk)
{
    int64_t now = cairn_clock_wall_seconds(disk->clock);
    return now < 0 ? 0 : (uint64_t)now;
}

void cairn_disk_count(cairn_disk *disk, uint64_t *counter, uint64_t by)
{
    cairn_lock(&disk->lock);
    *counter += by;
    cairn_unlock(&disk->lock);
}

void cairn_disk_set_aside(cairn_disk *disk, const char *name, cairn_status why)
{
    (void)!cairn_disk_index_drop(disk->index, name, NULL);
    if (disk->read_only) {
        return;
    }
    char file[128], from[DISK_PATH_BYTES], to[DISK_PATH_BYTES];
    (void)snprintf(file, sizeof file, "%s.%s", name, cairn_status_name(why));
    if (cairn_disk_blob_path(disk, name, from) && cairn_disk_path(disk, "bad", file, to) &&
        cairn_io_rename(disk->io, from, to, NULL) == CAIRN_OK) {
        cairn_disk_count(disk, &disk->stats.set_aside, 1);
        cairn_disk_bad_trim(disk);
    }
}

/* Do two descriptions name the same blob? */
static bool meta_same(const cairn_blob_meta *a, const cairn_blob_meta *b)
{
    return a->kind == b->kind && a->begin == b->begin && a->end == b->end &&
           a->payload_bytes == b->payload_bytes && a->provenance == b->provenance &&
           a->cut_digest == b->cut_digest &&
           memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0 &&
           memcmp(a->space.bytes, b->space.bytes, sizeof a->space.bytes) == 0 &&
           cairn_path_digest_equal(&a->path_begin, &b->path_begin) &&
           cairn_path_digest_equal(&a->path_end, &b->path_end);
}

/* Read a file, checking all of it; `expected` may be NULL. */
static cairn_status blob_read(cairn_disk *disk, const char *name, const cairn_blob_meta *expected,
                              uint8_t *out, uint64_t *ret_digest, cairn_error *reterr)
{
    char path[DISK_PATH_BYTES];
    cairn_file *file = NULL;
    cairn_disk_header header = {0};
    if (!cairn_disk_blob_path(disk, name, path)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/disk: get", "the directory's name is too long");
    }
    cairn_status status = cairn_io_open(disk->io, path, CAIRN_IO_READ, &file, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = cairn_disk_header_load(disk->mem, file, &header, reterr);
    if (status == CAIRN_OK) {
        char named[CAIRN_BLOB_NAME_BYTES];
        cairn_blob_name(&header.meta, named);
        if (strcmp(named, name) != 0) {
            status = cairn_error_set(reterr, CAIRN_CORRUPT, "store/disk: get", "the file holds another blob");
        } else if (expected != NULL && !meta_same(expected, &header.meta)) {
            status = cairn_error_set(reterr, CAIRN_FOREIGN, "store/disk: get",
                                     "the file is not what the index says");
        } else {
            status = cairn_disk_payload_read(disk->mem, file, &header, disk->encrypted ? disk->key : NULL,
                                             out, ret_digest, reterr);
        }
        cairn_disk_header_release(disk->mem, &header);
    }
    cairn_io_discard(file);
    return status;
}

cairn_status cairn_disk_get(cairn_disk *disk, const char *name, const cairn_blob_meta *meta, uint8_t *out,
                            uint64_t *ret_digest, cairn_error *reterr)
{
    cairn_error error = {0};
    cairn_status status = blob_read(disk, name, meta, out, ret_digest, &error);
    cairn_disk_count(disk, status == CAIRN_OK ? &disk->stats.gets : &disk->stats.hits_failed, 1);
    if (status == CAIRN_CORRUPT || status == CAIRN_UNSUPPORTED) {
        cairn_disk_set_aside(disk, name, status);
    } else if (status != CAIRN_OK && status != CAIRN_NOMEM) {
        const char folder[3] = {name[0], name[1], '\0'};
        (void)!cairn_disk_index_drop(disk->index, name, NULL);
        (void)!cairn_disk_index_folder_set(disk->index, folder, -1, NULL); /* the next scan looks again */
    }
    if (status != CAIRN_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* Give a whole file its name. That the old name is gone and the new one there is what a rename is for: an answer was lost then. */
static cairn_status file_rename(cairn_disk *disk, const char *from, const char *to, cairn_error *reterr)
{
    cairn_io_stat stat;
    cairn_status status = cairn_io_rename(disk->io, from, to, reterr);
    bool done = status == CAIRN_NOTFOUND && cairn_io_stat_path(disk->io, to, &stat, NULL) == CAIRN_OK;
    return done ? CAIRN_OK : status;
}

/* Write under a temporary name, then rename; false names in `reterr` why not. */
// NOLINTNEXTLINE(readability-function-size): what belongs to one blob
static cairn_status file_place(cairn_disk *disk, const char *name, const cairn_blob_meta *meta,
                               const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES], const cairn_blob_run *runs,
                               const uint8_t *payload, cairn_error *reterr)
{
    uint64_t random = 0;
    char tmp_name[128], tmp[DISK_PATH_BYTES], folder_name[3] = {name[0], name[1], '\0'},
                                              folder[DISK_PATH_BYTES], path[DISK_PATH_BYTES];
    if (RAND_bytes((unsigned char *)&random, sizeof random) != 1) {
        return cairn_error_set(reterr, CAIRN_IO, "store/disk: put", "no random numbers");
    }
    (void)snprintf(tmp_name, sizeof tmp_name, "%d.%s.%016llx", disk->table, name, (unsigned long long)random);
    if (!cairn_disk_path(disk, "tmp", tmp_name, tmp) || !cairn_disk_path(disk, folder_name, NULL, folder) ||
        !cairn_disk_blob_path(disk, name, path)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/disk: put", "the directory's name is too long");
    }
    cairn_file *file = NULL;
    /* The name is nobody else's; and where a request may be sent twice the second must not find the first in its way. */
    unsigned flags = CAIRN_IO_WRITE | CAIRN_IO_CREATE | CAIRN_IO_TRUNCATE;
    cairn_status status = cairn_io_open(disk->io, tmp, flags, &file, reterr);
    if (status == CAIRN_NOTFOUND &&
        cairn_disk_folders_make(disk, NULL) == CAIRN_OK) { /* removed while running: made again */
        cairn_disk_secret_keep(disk);
        status = cairn_io_open(disk->io, tmp, flags, &file, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    status = cairn_disk_file_write(disk->mem, file, meta, marks, runs, payload,
                                   disk->encrypted ? disk->key : NULL, reterr);
    if (status == CAIRN_OK) {
        status = cairn_io_close(file, reterr);
    } else {
        cairn_io_discard(file);
    }
    if (status == CAIRN_OK) {
        status = cairn_disk_folder_make(disk, folder_name, reterr);
    }
    if (status == CAIRN_OK) {
        status = file_rename(disk, tmp, path, reterr);
    }
    if (status == CAIRN_OK) {
        status = cairn_io_dir_sync(disk->io, folder, reterr);
    } else {
        (void)!cairn_io_unlink(disk->io, tmp, NULL);
        if (cairn_disk_path(disk, "tmp", NULL, path)) {
            (void)!cairn_io_dir_sync(disk->io, path, NULL); /* a full disk gets its bytes back now */
        }
    }
    return status;
}

/* Complete what the caller left to us. */
static cairn_status meta_complete(cairn_disk *disk, cairn_blob_meta *meta, uint64_t now_s,
                                  cairn_error *reterr)
{
    cairn_disk_faces faces;
    cairn_status status = cairn_disk_faces_get(disk, &meta->space, &faces, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    meta->space = faces.shown;
    memcpy(meta->fingerprint, disk->fingerprint, sizeof meta->fingerprint);
    meta->created_s = now_s;
    meta->flags = disk->encrypted ? CAIRN_BLOB_ENCRYPTED : 0;
    memset(meta->nonce, 0, sizeof meta->nonce);
    if (disk->encrypted && RAND_bytes(meta->nonce, sizeof meta->nonce) != 1) {
        return cairn_error_set(reterr, CAIRN_IO, "store/disk: put", "no random numbers");
    }
    return CAIRN_OK;
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one blob
cairn_status cairn_disk_put(cairn_disk *disk, const cairn_blob_meta *meta,
                            const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES], const cairn_blob_run *runs,
                            const uint8_t *payload, double value, char ret_name[CAIRN_BLOB_NAME_BYTES],
                            cairn_error *reterr)
{
    if (disk->read_only) {
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, "store/disk: put", "opened for reading only");
    }
    uint64_t now_s = cairn_disk_now_s(disk);
    cairn_disk_row row = {.meta = *meta, .used_s = now_s, .value = cairn_disk_rank(value, now_s)};
    cairn_blob_layout layout;
    bool has = false;
    cairn_status status = meta_complete(disk, &row.meta, now_s, reterr);
    if (status == CAIRN_OK) {
        status = cairn_blob_layout_get(&row.meta, &layout, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_blob_name(&row.meta, row.name);
    row.file_bytes = layout.file_bytes;
    status = cairn_disk_index_has(disk->index, row.name, &has, reterr);
    if (status == CAIRN_OK && has) {
        cairn_disk_use(disk, row.name, value);
        memcpy(ret_name, row.name, sizeof row.name);
        return CAIRN_OK;
    }
    if (status == CAIRN_OK) {
        status = cairn_disk_day_allows(disk, now_s, layout.file_bytes, reterr);
    }
    if (status == CAIRN_OK) {
        status = cairn_disk_room_make(disk, layout.file_bytes, row.value, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    status = file_place(disk, row.name, &row.meta, marks, runs, payload, reterr);
    if (status == CAIRN_OK) {
        status = cairn_disk_index_put(disk->index, &row, reterr);
        (void)!cairn_disk_day_add(disk, now_s, layout.file_bytes, NULL);
        cairn_disk_count(disk, &disk->stats.puts, 1);
    }
    cairn_disk_room_release(disk, layout.file_bytes);
    if (status == CAIRN_OK) {
        memcpy(ret_name, row.name, sizeof row.name);
    }
    return status;
}

static bool key_note(void *ctx, const cairn_disk_row *row)
{
    memcpy(ctx, row->name, CAIRN_BLOB_NAME_BYTES);
    return false;
}

cairn_status cairn_disk_key_check(cairn_disk *disk, cairn_error *reterr)
{
    char name[CAIRN_BLOB_NAME_BYTES] = "";
    cairn_status status = cairn_disk_index_each(disk->index, true, key_note, name, reterr);
    if (status != CAIRN_OK || name[0] == '\0') {
        return status;
    }
    return blob_read(disk, name, NULL, NULL, NULL, reterr);
}

cairn_status cairn_disk_name(cairn_disk *disk, const cairn_blob_meta *meta,
                             char ret_name[CAIRN_BLOB_NAME_BYTES], cairn_error *reterr)
{
    cairn_blob_meta named = *meta;
    cairn_disk_faces faces;
    cairn_status status = cairn_disk_faces_get(disk, &meta->space, &faces, reterr);
    if (status == CAIRN_OK) {
        named.space = faces.shown;
        memcpy(named.fingerprint, disk->fingerprint, sizeof named.fingerprint);
        cairn_blob_name(&named, ret_name);
    }
    return status;
}

bool cairn_disk_has(cairn_disk *disk, const cairn_blob_meta *meta, char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    bool has = false;
    return cairn_disk_name(disk, meta, ret_name, NULL) == CAIRN_OK &&
           cairn_disk_index_has(disk->index, ret_name, &has, NULL) == CAIRN_OK && has;
}

cairn_status cairn_disk_runs(cairn_disk *disk, const char *name, const cairn_blob_meta *meta,
                             cairn_blob_run *ret_runs, cairn_error *reterr)
{
    char path[DISK_PATH_BYTES];
    cairn_file *file = NULL;
    cairn_disk_header header = {0};
    if (!cairn_disk_blob_path(disk, name, path)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/disk: runs", "the directory's name is too long");
    }
    cairn_status status = cairn_io_open(disk->io, path, CAIRN_IO_READ, &file, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = cairn_disk_header_load(disk->mem, file, &header, reterr);
    cairn_io_discard(file);
    if (status != CAIRN_OK) {
        return status;
    }
    if (meta_same(meta, &header.meta) && header.layout.count_runs == meta->count_runs) {
        for (uint32_t i = 0; i < meta->count_runs; i++) {
            ret_runs[i] = cairn_blob_header_run(header.bytes, &header.layout, i);
        }
    } else {
        status =
            cairn_error_set(reterr, CAIRN_FOREIGN, "store/disk: runs", "the file is not what the index says");
    }
    cairn_disk_header_release(disk->mem, &header);
    return status;
}

cairn_status cairn_disk_drop(cairn_disk *disk, const char *name, cairn_error *reterr)
{
    char path[DISK_PATH_BYTES];
    if (disk->read_only || !cairn_disk_blob_path(disk, name, path)) {
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, "store/disk: drop", "opened for reading only");
    }
    cairn_error error = {0};
    cairn_status status = cairn_io_unlink(disk->io, path, &error);
    if (status != CAIRN_OK && status != CAIRN_NOTFOUND) {
        if (reterr != NULL) {
            *reterr = error;
        }
        return status;
    }
    return cairn_disk_index_drop(disk->index, name, reterr);
}

void cairn_disk_use(cairn_disk *disk, const char *name, double value)
{
    uint64_t now_s = cairn_disk_now_s(disk);
    (void)!cairn_disk_index_use(disk->index, name, now_s, cairn_disk_rank(value, now_s), NULL);
}

typedef struct forget_gather {
    const cairn_namespace *space;
    char names[FORGET_AT_ONCE][CAIRN_BLOB_NAME_BYTES];
    uint32_t count;
} forget_gather;

static bool forget_note(void *ctx, const cairn_disk_row *row)
{
    forget_gather *gather = ctx;
    if (gather->space == NULL ||
        memcmp(row->meta.space.bytes, gather->space->bytes, CAIRN_NAMESPACE_BYTES) == 0) {
        memcpy(gather->names[gather->count++], row->name, CAIRN_BLOB_NAME_BYTES);
    }
    return gather->count < FORGET_AT_ONCE;
}

cairn_status cairn_disk_forget(cairn_disk *disk, const cairn_namespace *space, cairn_error *reterr)
{
    cairn_disk_faces faces;
    if (space == NULL) {
        return cairn_disk_forget_shown(disk, NULL, reterr);
    }
    cairn_status status = cairn_disk_faces_get(disk, space, &faces, reterr);
    return status == CAIRN_OK ? cairn_disk_forget_shown(disk, &faces.shown, reterr) : status;
}

cairn_status cairn_disk_forget_shown(cairn_disk *disk, const cairn_namespace *shown, cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    forget_gather gather = {.space = shown};
    do {
        gather.count = 0;
        status = cairn_disk_index_each(disk->index, true, forget_note, &gather, reterr);
        for (uint32_t i = 0; i < gather.count && status == CAIRN_OK; i++) {
            status = cairn_disk_drop(disk, gather.names[i], reterr);
        }
    } while (gather.count != 0 && status == CAIRN_OK);
    return status;
}

cairn_status cairn_disk_each(cairn_disk *disk, cairn_disk_row_fn each, void *ctx, cairn_error *reterr)
{
    return cairn_disk_index_each(disk->index, true, each, ctx, reterr);
}

cairn_status cairn_disk_verify(cairn_disk *disk, const char *name, cairn_error *reterr)
{
    return blob_read(disk, name, NULL, NULL, NULL, reterr);
}

void cairn_disk_stats_get(cairn_disk *disk, cairn_disk_stats *ret_stats)
{
    cairn_disk_total total;
    cairn_disk_index_total(disk->index, &total);
    cairn_lock(&disk->lock);
    *ret_stats = disk->stats;
    cairn_unlock(&disk->lock);
    ret_stats->blobs = total.blobs;
    ret_stats->states = total.states;
    ret_stats->file_bytes = total.file_bytes;
    ret_stats->bytes_max = disk->bytes_max;
    ret_stats->written_today_bytes = cairn_disk_day_bytes(disk);
    ret_stats->written_day_bytes = disk->written_day_bytes;
}
