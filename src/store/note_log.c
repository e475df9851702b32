/*
 * note_log - see the header. It must not know what a record says.
 */
#include "store/note_log.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/lock.h"
#include "store/blob_seal.h"

enum {
    VERSION = 1,
    HEADER_BYTES = CAIRN_BLOB_FIXED_BYTES,
    AT_VERSION = 8,
    AT_SPACE = 16,
    CHECK_BYTES = 16,
    HEAD_BYTES = 8 + CAIRN_SEAL_NONCE_BYTES, /* length, zero, nonce */
    EXTRA_BYTES = HEAD_BYTES + CAIRN_BLOB_TAG_BYTES + CHECK_BYTES,
    SPACE_DIGITS = 2 * CAIRN_NAMESPACE_BYTES,
    NAME_BYTES = 64,
    PATH_BYTES = 1200,
    FILES_AT_FIRST = 64,
    MERGE_FILES = 4,   /* a namespace's files beyond so many are put into one ... */
    MERGE_AGE_S = 3600 /* ... when nobody has written to them for so long */
};

static const uint8_t note_magic[8] = {0x43, 0x41, 0x49, 0x52, 0x4e, 0x0d, 0x0a, 0x1b};

struct cairn_note_log {
    const cairn_mem *mem;
    cairn_io *io;
    const cairn_clock *clock;
    char dir[1024], folder[1024];
    char run[17]; /* of this process: the end of its files' names */
    uint8_t key[CAIRN_SEAL_KEY_BYTES];
    bool has_key;
    uint64_t file_bytes_max, bytes_max;
    pthread_mutex_t lock; /* over the files, and: */
    bool folder_lasts;    /* the folder is there, durably */
};

/* One namespace: what its files are called, and what seals its records. */
typedef struct note_space {
    char shown[SPACE_DIGITS + 1];
    uint8_t header[HEADER_BYTES];
    uint8_t key[CAIRN_SEAL_KEY_BYTES];
} note_space;

/* One file of the folder. */
typedef struct note_file {
    char name[NAME_BYTES];
    int64_t modified_ms;
    uint64_t bytes;
} note_file;

typedef struct note_files {
    const cairn_mem *mem;
    note_file *items; /* note_file[room] */
    uint32_t count, room;
    bool failed;       /* no memory for more of them */
    const char *shown; /* only files that begin so; NULL: all */
} note_files;

/* --- names and keys ---------------------------------------------------------------------------------------------- */

static cairn_status space_of(const cairn_note_log *log, const cairn_namespace *space, note_space *ret_space)
{
    static const uint8_t no_key[CAIRN_SEAL_KEY_BYTES],
        key_label[8] = {'n', 'o', 't', 'e', 's', 'k', 'e', 'y'};
    uint8_t text[8 + CAIRN_NAMESPACE_BYTES];
    cairn_namespace shown;
    cairn_path_root root;
    cairn_digest key;
    cairn_status status = cairn_blob_space(space, log->has_key ? log->key : NULL, &shown, &root, NULL);
    memcpy(text, key_label, sizeof key_label);
    memcpy(text + 8, space->bytes, CAIRN_NAMESPACE_BYTES);
    if (status == CAIRN_OK) {
        status = cairn_digest_keyed(log->has_key ? log->key : no_key, sizeof no_key, text, sizeof text, &key);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    for (size_t i = 0; i < CAIRN_NAMESPACE_BYTES; i++) {
        (void)snprintf(ret_space->shown + 2 * i, 3, "%02x", shown.bytes[i]);
    }
    memset(ret_space->header, 0, HEADER_BYTES);
    memcpy(ret_space->header, note_magic, sizeof note_magic);
    cairn_put32(ret_space->header + AT_VERSION, VERSION);
    memcpy(ret_space->header + AT_SPACE, shown.bytes, sizeof shown.bytes);
    memcpy(ret_space->key, key.bytes, sizeof ret_space->key);
    return CAIRN_OK;
}

/* What a file of this namespace may have grown to, and more. */
static size_t file_room(const cairn_note_log *log)
{
    return (size_t)(2 * log->file_bytes_max) + (size_t)2 * CAIRN_NOTE_BYTES_MAX;
}

static void path_of(const cairn_note_log *log, const char *name, char ret_path[PATH_BYTES])
{
    (void)snprintf(ret_path, PATH_BYTES, "%s/%s", log->folder, name);
}

static void own_path(const cairn_note_log *log, const note_space *space, char ret_path[PATH_BYTES])
{
    (void)snprintf(ret_path, PATH_BYTES, "%s/%s.%s", log->folder, space->shown, log->run);
}

/* --- records ----------------------------------------------------------------------------------------------------- */

static void check_of(const uint8_t *bytes, size_t count, uint8_t check[CHECK_BYTES])
{
    cairn_blob_check(bytes, count, check);
}

/* Append a sealed record to `out`. */
static cairn_status record_write(const note_space *space, const void *note, size_t count, cairn_buf *out,
                                 cairn_error *reterr)
{
    static const char where[] = "store/notes: seal";
    size_t begin = out->len_bytes;
    cairn_status status = cairn_buf_reserve(out, count + EXTRA_BYTES);
    if (status != CAIRN_OK) {
        return cairn_error_set(reterr, status, where, NULL);
    }
    uint8_t *to = out->bytes + begin;
    out->len_bytes += count + EXTRA_BYTES;
    cairn_put32(to, (uint32_t)count);
    cairn_put32(to + 4, 0);
    cairn_seal seal = {0};
    bool fine = RAND_bytes(to + 8, CAIRN_SEAL_NONCE_BYTES) == 1 &&
                cairn_seal_init(&seal, space->key, to + 8, space->header) == CAIRN_OK &&
                cairn_seal_close_piece(&seal, 0, note, (uint32_t)count, to + HEAD_BYTES);
    cairn_seal_release(&seal);
    if (!fine) {
        out->len_bytes = begin;
        return cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    size_t body = HEAD_BYTES + count + CAIRN_BLOB_TAG_BYTES;
    check_of(to, body, to + body);
    return CAIRN_OK;
}

/* Bytes of the record at `bytes`; 0: there is no whole one. */
static size_t record_bytes(const uint8_t *bytes, size_t room)
{
    uint32_t count = room >= EXTRA_BYTES ? cairn_get32(bytes) : 0;
    uint8_t check[CHECK_BYTES];
    if (count == 0 || count > CAIRN_NOTE_BYTES_MAX || room < count + (size_t)EXTRA_BYTES) {
        return 0;
    }
    size_t body = HEAD_BYTES + count + CAIRN_BLOB_TAG_BYTES;
    check_of(bytes, body, check);
    return memcmp(check, bytes + body, CHECK_BYTES) == 0 ? body + CHECK_BYTES : 0;
}

static bool header_fits(const note_space *space, const cairn_buf *file)
{
    return file->len_bytes >= HEADER_BYTES && memcmp(file->bytes, space->header, HEADER_BYTES) == 0;
}

/* How much of a file is whole records. */
static size_t whole_bytes(const note_space *space, const cairn_buf *file)
{
    size_t at = header_fits(space, file) ? HEADER_BYTES : 0;
    for (size_t bytes = at; at != 0 && bytes != 0; at += bytes) {
        bytes = record_bytes(file->bytes + at, file->len_bytes - at);
    }
    return at;
}

/* Give each record of a file. */
static uint64_t file_each(const cairn_note_log *log, const note_space *space, const cairn_buf *file,
                          cairn_note_fn each, void *ctx)
{
    uint64_t given = 0;
    size_t whole = whole_bytes(space, file);
    for (size_t at = HEADER_BYTES, bytes = 0; at < whole; at += bytes) {
        const uint8_t *record = file->bytes + at;
        uint32_t count = cairn_get32(record);
        bytes = count + (size_t)EXTRA_BYTES;
        uint8_t *note = cairn_mem_alloc(log->mem, count);
        cairn_seal seal = {0};
        if (note != NULL && cairn_seal_init(&seal, space->key, record + 8, space->header) == CAIRN_OK &&
            cairn_seal_open_piece(&seal, 0, record + HEAD_BYTES, count, note)) {
            each(ctx, note, count);
            given++;
        }
        cairn_seal_release(&seal);
        cairn_mem_release(log->mem, note, count);
    }
    return given;
}

/* --- files ------------------------------------------------------------------------------------------------------- */

static bool note_name(void *ctx, const char *name)
{
    note_files *files = ctx;
    size_t length = strlen(name);
    if (length >= NAME_BYTES || (files->shown != NULL && strncmp(name, files->shown, SPACE_DIGITS) != 0)) {
        return true;
    }
    if (files->count == files->room) {
        uint32_t room = files->room == 0 ? FILES_AT_FIRST : files->room * 2;
        note_file *items =
            cairn_mem_array_resize(files->mem, files->items, files->room, room, sizeof *files->items);
        files->failed = items == NULL;
        if (items == NULL) {
            return false;
        }
        files->items = items;
        files->room = room;
    }
    memcpy(files->items[files->count++].name, name, length + 1);
    return files->count < CAIRN_NOTE_FILES_MAX;
}

static int by_age(const void *a, const void *b)
{
    const note_file *x = a;
    const note_file *y = b;
    return x->modified_ms < y->modified_ms   ? -1
           : x->modified_ms > y->modified_ms ? 1
                                             : strcmp(x->name, y->name);
}

/* List files, oldest first. Release with files_release. */
static bool files_list(const cairn_note_log *log, const char *shown, note_files *ret_files)
{
    *ret_files = (note_files){.mem = log->mem, .shown = shown};
    if (cairn_io_list(log->io, log->folder, note_name, ret_files, NULL) != CAIRN_OK || ret_files->failed) {
        return false;
    }
    for (uint32_t i = 0; i < ret_files->count; i++) {
        char path[PATH_BYTES];
        cairn_io_stat stat = {0};
        path_of(log, ret_files->items[i].name, path);
        if (cairn_io_stat_path(log->io, path, &stat, NULL) == CAIRN_OK) {
            ret_files->items[i].modified_ms = stat.modified_ms;
            ret_files->items[i].bytes = stat.size_bytes;
        }
    }
    if (ret_files->count > 0) {
        qsort(ret_files->items, ret_files->count, sizeof *ret_files->items, by_age);
    }
    return true;
}

static void files_release(const cairn_note_log *log, note_files *files)
{
    cairn_mem_array_release(log->mem, files->items, files->room, sizeof *files->items);
}

/* The oldest files go until the rest is below the limit. */
static void files_trim(const cairn_note_log *log)
{
    note_files files;
    uint64_t sum = 0;
    bool listed = files_list(log, NULL, &files);
    for (uint32_t i = 0; listed && i < files.count; i++) {
        sum += files.items[i].bytes;
    }
    for (uint32_t i = 0; listed && i < files.count && sum > log->bytes_max; i++) {
        char path[PATH_BYTES];
        path_of(log, files.items[i].name, path);
        if (strstr(files.items[i].name, log->run) == NULL &&
            cairn_io_unlink(log->io, path, NULL) == CAIRN_OK) {
            sum -= files.items[i].bytes;
        }
    }
    files_release(log, &files);
}

/* Make the folder, and its name durable; that of DIR, too, when it had to be made again. */
static cairn_status folder_make(const cairn_note_log *log, cairn_error *reterr)
{
    char parent[sizeof log->dir];
    (void)snprintf(parent, sizeof parent, "%s", log->dir);
    char *slash = strrchr(parent, '/');
    (void)snprintf(slash != NULL ? slash + (slash == parent ? 1 : 0) : parent, 2, "%s",
                   slash != NULL ? "" : ".");
    cairn_status status = cairn_io_mkdir_all(log->io, log->folder, reterr);
    if (status == CAIRN_OK) {
        status = cairn_io_dir_sync(log->io, log->dir, reterr);
    }
    return status == CAIRN_OK ? cairn_io_dir_sync(log->io, parent, reterr) : status;
}

/* Write the header of a new file, whose name is to last. */
static cairn_status file_begin(cairn_note_log *log, const note_space *space, const char *path,
                               cairn_file **ret_file, cairn_error *reterr)
{
    unsigned flags = CAIRN_IO_READ | CAIRN_IO_WRITE | CAIRN_IO_CREATE;
    cairn_status status = CAIRN_NOTFOUND;
    if (log->folder_lasts) {
        status = cairn_io_open(log->io, path, flags, ret_file, reterr);
    }
    if (status == CAIRN_NOTFOUND) { /* the first of all, or the directory was removed */
        status = folder_make(log, reterr);
        log->folder_lasts = status == CAIRN_OK;
        if (status == CAIRN_OK) {
            status = cairn_io_open(log->io, path, flags, ret_file, reterr);
        }
    }
    if (status != CAIRN_OK) {
        return status;
    }
    status = cairn_io_pwrite(*ret_file, space->header, HEADER_BYTES, 0, reterr);
    if (status == CAIRN_OK) {
        status = cairn_io_dir_sync(log->io, log->folder, reterr);
    }
    if (status != CAIRN_OK) {
        cairn_io_discard(*ret_file);
        *ret_file = NULL;
        (void)!cairn_io_unlink(log->io, path, NULL); /* or the next one would take it as begun */
    }
    return status;
}

/* Open the own file for appending. */
static cairn_status file_open(cairn_note_log *log, const note_space *space, const char *path,
                              cairn_file **ret_file, uint64_t *ret_size, cairn_error *reterr)
{
    cairn_io_stat stat = {0};
    cairn_error error = {0};
    cairn_status status = cairn_io_open(log->io, path, CAIRN_IO_READ | CAIRN_IO_WRITE, ret_file, &error);
    if (status == CAIRN_OK) {
        status = cairn_io_file_stat(*ret_file, &stat, &error);
        if (status == CAIRN_OK && stat.size_bytes >= HEADER_BYTES) {
            *ret_size = stat.size_bytes;
            return CAIRN_OK;
        }
        cairn_io_discard(*ret_file);
        *ret_file = NULL;
    }
    if (status != CAIRN_OK && status != CAIRN_NOTFOUND) {
        if (reterr != NULL) {
            *reterr = error;
        }
        return status;
    }
    files_trim(log);
    *ret_size = HEADER_BYTES;
    return file_begin(log, space, path, ret_file, reterr);
}

/* Only the newer half of the own file's records stays. */
static cairn_status file_halve(const cairn_note_log *log, const note_space *space, const char *path,
                               cairn_error *reterr)
{
    cairn_buf file;
    cairn_buf_init(&file, log->mem, file_room(log));
    cairn_status status = cairn_io_read_file(log->io, path, &file, reterr);
    if (status == CAIRN_OK) {
        size_t whole = whole_bytes(space, &file), at = whole > 0 ? HEADER_BYTES : 0;
        while (at < whole && whole - at > log->file_bytes_max / 2) {
            at += cairn_get32(file.bytes + at) + (size_t)EXTRA_BYTES;
        }
        if (at >= HEADER_BYTES) {
            memcpy(file.bytes + at - HEADER_BYTES, space->header, HEADER_BYTES);
            status = cairn_io_write_file(log->io, path, file.bytes + at - HEADER_BYTES,
                                         whole - at + HEADER_BYTES, reterr);
        }
    }
    cairn_buf_release(&file);
    return status;
}

/* Put records at the own file's end, durably; after a failure it is cut back. */
static cairn_status append(cairn_note_log *log, const note_space *space, const cairn_buf *records,
                           cairn_error *reterr)
{
    char path[PATH_BYTES];
    cairn_file *file = NULL;
    uint64_t size = 0;
    own_path(log, space, path);
    cairn_status status = file_open(log, space, path, &file, &size, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = cairn_io_pwrite(file, records->bytes, records->len_bytes, size, reterr);
    if (status == CAIRN_OK) {
        status = cairn_io_file_sync(file, reterr);
    }
    if (status != CAIRN_OK) {
        (void)!cairn_io_truncate(file, size, NULL);
        cairn_io_discard(file);
        return status;
    }
    status = cairn_io_close(file, reterr);
    if (status == CAIRN_OK && size + records->len_bytes > log->file_bytes_max) {
        status = file_halve(log, space, path, reterr);
    }
    return status;
}

/* --- the log ----------------------------------------------------------------------------------------------------- */

cairn_status cairn_note_log_new(const cairn_mem *mem, cairn_io *io, const cairn_note_log_options *options,
                                cairn_note_log **ret_log, cairn_error *reterr)
{
    cairn_note_log *log = cairn_mem_zalloc(mem, sizeof *log);
    uint64_t run = 0;
    if (log == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/notes: new", NULL);
    }
    int length = snprintf(log->folder, sizeof log->folder, "%s/" CAIRN_NOTE_FOLDER, options->dir);
    (void)snprintf(log->dir, sizeof log->dir, "%s", options->dir);
    if (length < 0 || (size_t)length >= sizeof log->folder ||
        RAND_bytes((unsigned char *)&run, sizeof run) != 1) {
        cairn_mem_release(mem, log, sizeof *log);
        return cairn_error_set(reterr, CAIRN_INVALID, "store/notes: new", "the directory's name is too long");
    }
    (void)snprintf(log->run, sizeof log->run, "%016llx", (unsigned long long)run);
    log->mem = mem;
    log->io = io;
    log->clock = options->clock != NULL ? options->clock : cairn_clock_system();
    log->file_bytes_max = options->file_bytes_max;
    log->bytes_max = options->bytes_max;
    log->has_key = options->key != NULL;
    if (log->has_key) {
        memcpy(log->key, options->key, sizeof log->key);
    }
    cairn_lock_init(&log->lock);
    *ret_log = log;
    return CAIRN_OK;
}

void cairn_note_log_free(cairn_note_log *log)
{
    if (log == NULL) {
        return;
    }
    OPENSSL_cleanse(log->key, sizeof log->key);
    (void)pthread_mutex_destroy(&log->lock);
    cairn_mem_release(log->mem, log, sizeof *log);
}

cairn_status cairn_note_log_add(cairn_note_log *log, const cairn_namespace *space, const void *note,
                                size_t count, cairn_error *reterr)
{
    if (count == 0 || count > CAIRN_NOTE_BYTES_MAX || count + EXTRA_BYTES > log->file_bytes_max / 2) {
        return cairn_error_set(reterr, CAIRN_LIMIT, "store/notes: add", "%zu bytes", count);
    }
    note_space names;
    cairn_buf record;
    cairn_buf_init(&record, log->mem, count + EXTRA_BYTES);
    cairn_status status = space_of(log, space, &names);
    if (status == CAIRN_OK) {
        status = record_write(&names, note, count, &record, reterr);
    }
    if (status == CAIRN_OK) {
        cairn_lock(&log->lock);
        status = append(log, &names, &record, reterr);
        cairn_unlock(&log->lock);
    }
    OPENSSL_cleanse(&names, sizeof names);
    cairn_buf_release(&record);
    return status;
}

/* Put the records of old files into the own one, and remove them: restarts don't leave more and more files. */
static void merge(cairn_note_log *log, const note_space *space, const note_files *files)
{
    int64_t old_ms = cairn_clock_wall_ms(log->clock) - (int64_t)MERGE_AGE_S * 1000;
    for (uint32_t i = 0; i + MERGE_FILES < files->count; i++) {
        char path[PATH_BYTES];
        cairn_buf file;
        const note_file *item = &files->items[i];
        if (item->modified_ms > old_ms || strstr(item->name, log->run) != NULL) {
            continue;
        }
        path_of(log, item->name, path);
        cairn_buf_init(&file, log->mem, file_room(log));
        size_t whole =
            cairn_io_read_file(log->io, path, &file, NULL) == CAIRN_OK ? whole_bytes(space, &file) : 0;
        bool moved = whole <= HEADER_BYTES; /* nothing in it that could be had */
        if (!moved) {
            memmove(file.bytes, file.bytes + HEADER_BYTES, whole - HEADER_BYTES);
            file.len_bytes = whole - HEADER_BYTES;
            moved = append(log, space, &file, NULL) == CAIRN_OK;
        }
        if (moved) {
            (void)!cairn_io_unlink(log->io, path, NULL);
        }
        cairn_buf_release(&file);
    }
}

uint64_t cairn_note_log_each(cairn_note_log *log, const cairn_namespace *space, cairn_note_fn each, void *ctx)
{
    note_space names;
    note_files files;
    uint64_t given = 0;
    if (space_of(log, space, &names) != CAIRN_OK) {
        return 0;
    }
    cairn_lock(&log->lock);
    bool listed = files_list(log, names.shown, &files);
    for (uint32_t i = 0; listed && i < files.count; i++) {
        char path[PATH_BYTES];
        cairn_buf file;
        path_of(log, files.items[i].name, path);
        cairn_buf_init(&file, log->mem, file_room(log));
        if (cairn_io_read_file(log->io, path, &file, NULL) == CAIRN_OK) {
            given += file_each(log, &names, &file, each, ctx);
        }
        cairn_buf_release(&file);
    }
    if (listed && files.count > MERGE_FILES) {
        merge(log, &names, &files);
    }
    files_release(log, &files);
    cairn_unlock(&log->lock);
    OPENSSL_cleanse(&names, sizeof names);
    return given;
}

void cairn_note_log_forget(cairn_note_log *log, const cairn_namespace *space)
{
    note_space names;
    note_files files;
    if (space != NULL && space_of(log, space, &names) != CAIRN_OK) {
        return;
    }
    cairn_lock(&log->lock);
    bool listed = files_list(log, space != NULL ? names.shown : NULL, &files);
    for (uint32_t i = 0; listed && i < files.count; i++) {
        char path[PATH_BYTES];
        path_of(log, files.items[i].name, path);
        (void)!cairn_io_unlink(log->io, path, NULL);
    }
    files_release(log, &files);
    cairn_unlock(&log->lock);
    OPENSSL_cleanse(&names, sizeof names);
}
