/*
 * tier_disk - see the header. Files are written and read by disk_file, listed by disk_scan, remembered by disk_index.
 *
 * It must not know tokens beyond their digests, nor why a blob is worth keeping: its value is a number that is given.
 */
#include "store/tier_disk.h"

#include <math.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#include "store/tier_disk_internal.h"

/* Where a put says no by itself. */
static const char put_where[] = "store/disk: budget";

enum { INDEX_TABLES_MAX = 64, EVICT_AT_ONCE = 64, DAY_S = 86400 };

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

bool cairn_disk_name_parse(const char *file, char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    size_t digits = strspn(file, "0123456789abcdef");
    if (digits != CAIRN_BLOB_NAME_BYTES - 1 || strcmp(file + digits, ".blob") != 0) {
        return false;
    }
    memcpy(ret_name, file, digits);
    ret_name[digits] = '\0';
    return true;
}

double cairn_disk_rank(double value, uint64_t used_s)
{
    double size = value > 1e-30 ? log2(value) : -100.0;
    return size + (double)used_s / DAY_S;
}

uint64_t cairn_disk_now_s(const cairn_disk *disk)
{
    int64_t now = cairn_clock_wall_seconds(disk->clock);
    return now < 0 ? 0 : (uint64_t)now;
}

static void stats_add(cairn_disk *disk, uint64_t *counter, uint64_t by)
{
    (void)pthread_mutex_lock(&disk->lock);
    *counter += by;
    (void)pthread_mutex_unlock(&disk->lock);
}

/* Open the first table that no other process has. */
static cairn_status index_open(cairn_disk *disk, bool in_memory, bool *ret_renewed, cairn_error *reterr)
{
    disk->table = -1;
    if (in_memory) {
        return cairn_disk_index_open(disk->mem, NULL, &disk->index, ret_renewed, reterr);
    }
    cairn_status status = CAIRN_BUSY;
    for (int i = 0; i < INDEX_TABLES_MAX && status == CAIRN_BUSY; i++) {
        char name[32], path[DISK_PATH_BYTES];
        (void)snprintf(name, sizeof name, "index.%d.db", i);
        if (!cairn_disk_path(disk, name, NULL, path)) {
            return cairn_error_set(reterr, CAIRN_INVALID, "store/disk: open",
                                   "the directory's name is too long");
        }
        status = cairn_disk_index_open(disk->mem, path, &disk->index, ret_renewed, reterr);
        disk->table = status == CAIRN_OK ? i : -1;
    }
    if (status != CAIRN_OK &&
        status != CAIRN_NOMEM) { /* no SQLite here (read-only, full): do without its file */
        status = cairn_disk_index_open(disk->mem, NULL, &disk->index, ret_renewed, reterr);
    }
    return status;
}

/* Make one folder whose parent is there, and make its name durable. One that is there already costs one call. */
static cairn_status folder_make(cairn_disk *disk, const char *folder, cairn_error *reterr)
{
    char path[DISK_PATH_BYTES];
    if (!cairn_disk_path(disk, folder, NULL, path)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/disk: folder",
                               "the directory's name is too long");
    }
    cairn_error error = {0};
    cairn_status status = cairn_io_mkdir(disk->io, path, &error);
    if (status == CAIRN_OK) {
        status = cairn_io_dir_sync(disk->io, disk->dir, &error);
    } else if (status == CAIRN_EXISTS) {
        status = CAIRN_OK;
    }
    if (status != CAIRN_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* The folder that holds DIR: "." when it has no other. */
static void parent_of(const char *dir, char ret_parent[DISK_PATH_BYTES])
{
    (void)snprintf(ret_parent, DISK_PATH_BYTES, "%s", dir);
    char *slash = strrchr(ret_parent, '/');
    if (slash == NULL) {
        (void)snprintf(ret_parent, DISK_PATH_BYTES, ".");
    } else {
        slash[slash == ret_parent ? 1 : 0] = '\0';
    }
}

static cairn_status folders_make(cairn_disk *disk, cairn_error *reterr)
{
    char parent[DISK_PATH_BYTES];
    parent_of(disk->dir, parent);
    cairn_io_stat stat;
    bool new = cairn_io_stat_path(disk->io, disk->dir, &stat, NULL) != CAIRN_OK;
    cairn_status status = new ? cairn_io_mkdir_all(disk->io, disk->dir, reterr) : CAIRN_OK;
    if (status == CAIRN_OK && new) {
        status = cairn_io_dir_sync(disk->io, parent, reterr);
    }
    if (status == CAIRN_OK) {
        status = folder_make(disk, "tmp", reterr);
    }
    if (status == CAIRN_OK) {
        status = folder_make(disk, "bad", reterr);
    }
    return status;
}

cairn_status cairn_disk_open(const cairn_mem *mem, cairn_io *io, const cairn_disk_options *options,
                             cairn_disk **ret_disk, cairn_error *reterr)
{
    cairn_disk *disk = cairn_mem_zalloc(mem, sizeof *disk);
    if (disk == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/disk: open", NULL);
    }
    disk->mem = mem;
    disk->io = io;
    disk->clock = options->clock != NULL ? options->clock : cairn_clock_system();
    disk->bytes_max = options->bytes_max;
    disk->written_day_bytes = options->written_day_bytes;
    disk->read_only = options->read_only;
    memcpy(disk->fingerprint, options->fingerprint, sizeof disk->fingerprint);
    if (options->key != NULL) {
        memcpy(disk->key, options->key, sizeof disk->key);
        disk->encrypted = true;
    }
    (void)pthread_mutex_init(&disk->lock, NULL);
    cairn_status status = CAIRN_NOMEM;
    disk->dir = cairn_mem_str_dup(mem, options->dir);
    disk->pins = cairn_mem_array(mem, CAIRN_DISK_PINS_MAX, sizeof *disk->pins);
    if (disk->dir == NULL || disk->pins == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/disk: open", NULL);
        goto failed;
    }
    status = disk->read_only ? CAIRN_OK : folders_make(disk, reterr);
    if (status != CAIRN_OK) {
        goto failed;
    }
    bool renewed = false;
    status = index_open(disk, options->index_in_memory || options->read_only, &renewed, reterr);
    if (status != CAIRN_OK) {
        goto failed;
    }
    if (!disk->read_only) {
        cairn_disk_tmp_clean(disk);
        cairn_disk_bad_trim(disk);
    }
    *ret_disk = disk;
    return CAIRN_OK;
failed:
    cairn_disk_close(disk);
    return status;
}

void cairn_disk_close(cairn_disk *disk)
{
    if (disk == NULL) {
        return;
    }
    cairn_disk_index_close(disk->index);
    cairn_mem_array_release(disk->mem, disk->pins, CAIRN_DISK_PINS_MAX, sizeof *disk->pins);
    cairn_mem_str_release(disk->mem, disk->dir);
    OPENSSL_cleanse(disk->key, sizeof disk->key);
    (void)pthread_mutex_destroy(&disk->lock);
    cairn_mem_release(disk->mem, disk, sizeof *disk);
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
    if (inside) {
        gather->found[gather->count].row = *row;
        gather->found[gather->count++].use_end = 0;
    }
    return gather->count < gather->max;
}

/* A namespace as files show it, and the root of its path digests. */
typedef struct disk_space {
    cairn_namespace shown;
    cairn_path_root root;
} disk_space;

static cairn_status space_faces(const cairn_disk *disk, const cairn_namespace *space, disk_space *ret_faces,
                                cairn_error *reterr)
{
    return cairn_blob_space(space, disk->encrypted ? disk->key : NULL, &ret_faces->shown, &ret_faces->root,
                            reterr);
}

cairn_status cairn_disk_root(cairn_disk *disk, const cairn_namespace *space, cairn_path_root *ret_root,
                             cairn_error *reterr)
{
    disk_space faces;
    cairn_status status = space_faces(disk, space, &faces, reterr);
    if (status == CAIRN_OK) {
        *ret_root = faces.root;
    }
    return status;
}

static cairn_status find_gather_all(cairn_disk *disk, const disk_space *space, const cairn_token *tokens,
                                    uint32_t count, find_gather *gather, cairn_error *reterr)
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
    for (uint32_t i = 0; i < bases && status == CAIRN_OK && gather->count < gather->max; i++) {
        status = cairn_disk_index_find(disk->index, &space->shown, disk->fingerprint, &digests[i], find_note,
                                       gather, reterr);
    }
out:
    cairn_mem_array_release(disk->mem, digests, bases, sizeof *digests);
    cairn_mem_array_release(disk->mem, at, bases, sizeof *at);
    return status;
}

static cairn_status digest_at(const disk_space *space, const cairn_token *tokens, uint32_t position,
                              cairn_path_digest *ret_digest)
{
    return cairn_path_digests(&space->root, tokens, position, &position, 1, ret_digest, NULL);
}

/* How far do rows serve a prompt that leaves them in the middle? By bisection over the file's marks. */
static uint32_t rows_use_end(cairn_disk *disk, const disk_space *space, const cairn_token *tokens,
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
        uint32_t high = count < row->meta.end - 1 ? count : row->meta.end - 1;
        while (low < high) {
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
static uint32_t row_use_end(cairn_disk *disk, const disk_space *space, const cairn_token *tokens,
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
    disk_space faces;
    cairn_status status = space_faces(disk, space, &faces, reterr);
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
        stats_add(disk, &disk->stats.set_aside, 1);
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
                              uint8_t *out, cairn_error *reterr)
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
                                             out, reterr);
        }
        cairn_disk_header_release(disk->mem, &header);
    }
    cairn_io_discard(file);
    return status;
}

cairn_status cairn_disk_get(cairn_disk *disk, const char *name, const cairn_blob_meta *meta, uint8_t *out,
                            cairn_error *reterr)
{
    cairn_error error = {0};
    cairn_status status = blob_read(disk, name, meta, out, &error);
    stats_add(disk, status == CAIRN_OK ? &disk->stats.gets : &disk->stats.hits_failed, 1);
    if (status == CAIRN_CORRUPT || status == CAIRN_UNSUPPORTED) {
        cairn_disk_set_aside(disk, name, status);
    } else if (status != CAIRN_OK && status != CAIRN_NOMEM) {
        (void)!cairn_disk_index_drop(disk->index, name, NULL);
    }
    if (status != CAIRN_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

static bool pinned(cairn_disk *disk, const char *name)
{
    bool found = false;
    (void)pthread_mutex_lock(&disk->lock);
    for (uint32_t i = 0; i < disk->count_pins && !found; i++) {
        found = strcmp(disk->pins[i], name) == 0;
    }
    (void)pthread_mutex_unlock(&disk->lock);
    return found;
}

/* The least valuable blobs, enough to make room. */
typedef struct evict_gather {
    cairn_disk *disk;
    double below; /* only those ranked lower than this */
    uint64_t wanted_bytes, gathered_bytes;
    char names[EVICT_AT_ONCE][CAIRN_BLOB_NAME_BYTES];
    uint32_t count;
} evict_gather;

static bool evict_note(void *ctx, const cairn_disk_row *row)
{
    evict_gather *gather = ctx;
    if (row->value >= gather->below) {
        return false;
    }
    if (!pinned(gather->disk, row->name)) {
        memcpy(gather->names[gather->count++], row->name, CAIRN_BLOB_NAME_BYTES);
        gather->gathered_bytes += row->file_bytes;
    }
    return gather->count < EVICT_AT_ONCE && gather->gathered_bytes < gather->wanted_bytes;
}

/* Bytes above the cap if `more` came in; reserves `more` when there are none. */
static uint64_t reserve(cairn_disk *disk, uint64_t more)
{
    cairn_disk_total total;
    cairn_disk_index_total(disk->index, &total);
    (void)pthread_mutex_lock(&disk->lock);
    uint64_t sum = total.file_bytes + disk->reserved_bytes + more;
    uint64_t over = sum > disk->bytes_max ? sum - disk->bytes_max : 0;
    if (over == 0) {
        disk->reserved_bytes += more;
    }
    (void)pthread_mutex_unlock(&disk->lock);
    return over;
}

static void unreserve(cairn_disk *disk, uint64_t bytes)
{
    (void)pthread_mutex_lock(&disk->lock);
    CAIRN_ASSERT(disk->reserved_bytes >= bytes);
    disk->reserved_bytes -= bytes;
    (void)pthread_mutex_unlock(&disk->lock);
}

/* Make room for a file under the cap by removing what is worth less than it. */
static cairn_status make_room(cairn_disk *disk, uint64_t file_bytes, double rank, cairn_error *reterr)
{
    if (file_bytes > disk->bytes_max) {
        return cairn_error_set(reterr, CAIRN_NOSPACE, put_where, "larger than the whole budget");
    }
    uint64_t over = 0;
    while ((over = reserve(disk, file_bytes)) != 0) {
        evict_gather gather = {.disk = disk, .below = rank, .wanted_bytes = over};
        cairn_status status = cairn_disk_index_each(disk->index, false, evict_note, &gather, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        uint64_t from_the_future = 0;
        if (gather.count == 0) { /* perhaps a clock that was ahead made them worth so much */
            status = cairn_disk_index_clock(disk->index, cairn_disk_now_s(disk), &from_the_future, reterr);
            if (status != CAIRN_OK) {
                return status;
            }
        }
        if (gather.count == 0 && from_the_future == 0) {
            return cairn_error_set(reterr, CAIRN_NOSPACE, put_where, "what is there is worth more");
        }
        for (uint32_t i = 0; i < gather.count; i++) {
            status = cairn_disk_drop(disk, gather.names[i], reterr);
            if (status != CAIRN_OK) {
                return status;
            }
        }
        stats_add(disk, &disk->stats.evicted, gather.count);
    }
    return CAIRN_OK;
}

static cairn_status day_allows(cairn_disk *disk, uint64_t now_s, uint64_t file_bytes, cairn_error *reterr)
{
    uint64_t written = 0;
    cairn_status status = cairn_disk_index_written(disk->index, now_s / DAY_S, &written, reterr);
    if (status == CAIRN_OK && disk->written_day_bytes != 0 &&
        written + file_bytes > disk->written_day_bytes) {
        status = cairn_error_set(reterr, CAIRN_LIMIT, "store/disk: put", "today's %llu bytes are used up",
                                 (unsigned long long)disk->written_day_bytes);
    }
    return status;
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
    unsigned flags = CAIRN_IO_WRITE | CAIRN_IO_CREATE | CAIRN_IO_EXCLUSIVE;
    cairn_status status = cairn_io_open(disk->io, tmp, flags, &file, reterr);
    if (status == CAIRN_NOTFOUND &&
        folders_make(disk, NULL) == CAIRN_OK) { /* removed while running: made again */
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
        status = folder_make(disk, folder_name, reterr);
    }
    if (status == CAIRN_OK) {
        status = cairn_io_rename(disk->io, tmp, path, reterr);
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
    disk_space faces;
    cairn_status status = space_faces(disk, &meta->space, &faces, reterr);
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
        status = day_allows(disk, now_s, layout.file_bytes, reterr);
    }
    if (status == CAIRN_OK) {
        status = make_room(disk, layout.file_bytes, row.value, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    status = file_place(disk, row.name, &row.meta, marks, runs, payload, reterr);
    if (status == CAIRN_OK) {
        status = cairn_disk_index_put(disk->index, &row, reterr);
        (void)!cairn_disk_index_written_add(disk->index, now_s / DAY_S, layout.file_bytes, NULL);
        stats_add(disk, &disk->stats.puts, 1);
    }
    unreserve(disk, layout.file_bytes);
    if (status == CAIRN_OK) {
        memcpy(ret_name, row.name, sizeof row.name);
    }
    return status;
}

bool cairn_disk_declined(const cairn_error *error)
{
    return error->status == CAIRN_NOSPACE && error->where != NULL && strcmp(error->where, put_where) == 0;
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
    return blob_read(disk, name, NULL, NULL, reterr);
}

bool cairn_disk_has(cairn_disk *disk, const cairn_blob_meta *meta, char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    cairn_blob_meta named = *meta;
    disk_space faces;
    if (space_faces(disk, &meta->space, &faces, NULL) != CAIRN_OK) {
        return false;
    }
    named.space = faces.shown;
    memcpy(named.fingerprint, disk->fingerprint, sizeof named.fingerprint);
    cairn_blob_name(&named, ret_name);
    bool has = false;
    return cairn_disk_index_has(disk->index, ret_name, &has, NULL) == CAIRN_OK && has;
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

void cairn_disk_pin(cairn_disk *disk, const char *name)
{
    (void)pthread_mutex_lock(&disk->lock);
    if (disk->count_pins < CAIRN_DISK_PINS_MAX) {
        (void)snprintf(disk->pins[disk->count_pins++], CAIRN_BLOB_NAME_BYTES, "%s", name);
    }
    (void)pthread_mutex_unlock(&disk->lock);
}

void cairn_disk_unpin(cairn_disk *disk, const char *name)
{
    (void)pthread_mutex_lock(&disk->lock);
    for (uint32_t i = 0; i < disk->count_pins; i++) {
        if (strcmp(disk->pins[i], name) == 0) {
            memcpy(disk->pins[i], disk->pins[--disk->count_pins], CAIRN_BLOB_NAME_BYTES);
            break;
        }
    }
    (void)pthread_mutex_unlock(&disk->lock);
}

void cairn_disk_use(cairn_disk *disk, const char *name, double value)
{
    uint64_t now_s = cairn_disk_now_s(disk);
    (void)!cairn_disk_index_use(disk->index, name, now_s, cairn_disk_rank(value, now_s), NULL);
}

typedef struct forget_gather {
    const cairn_namespace *space;
    char names[EVICT_AT_ONCE][CAIRN_BLOB_NAME_BYTES];
    uint32_t count;
} forget_gather;

static bool forget_note(void *ctx, const cairn_disk_row *row)
{
    forget_gather *gather = ctx;
    if (gather->space == NULL ||
        memcmp(row->meta.space.bytes, gather->space->bytes, CAIRN_NAMESPACE_BYTES) == 0) {
        memcpy(gather->names[gather->count++], row->name, CAIRN_BLOB_NAME_BYTES);
    }
    return gather->count < EVICT_AT_ONCE;
}

cairn_status cairn_disk_forget(cairn_disk *disk, const cairn_namespace *space, cairn_error *reterr)
{
    disk_space faces;
    if (space == NULL) {
        return cairn_disk_forget_shown(disk, NULL, reterr);
    }
    cairn_status status = space_faces(disk, space, &faces, reterr);
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
    return blob_read(disk, name, NULL, NULL, reterr);
}

void cairn_disk_stats_get(cairn_disk *disk, cairn_disk_stats *ret_stats)
{
    cairn_disk_total total;
    cairn_disk_index_total(disk->index, &total);
    uint64_t written = 0;
    (void)!cairn_disk_index_written(disk->index, cairn_disk_now_s(disk) / DAY_S, &written, NULL);
    (void)pthread_mutex_lock(&disk->lock);
    *ret_stats = disk->stats;
    (void)pthread_mutex_unlock(&disk->lock);
    ret_stats->blobs = total.blobs;
    ret_stats->states = total.states;
    ret_stats->file_bytes = total.file_bytes;
    ret_stats->bytes_max = disk->bytes_max;
    ret_stats->written_today_bytes = written;
    ret_stats->written_day_bytes = disk->written_day_bytes;
}
