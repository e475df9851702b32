/*
 * disk_scan - make the index agree with the directory. The other half of tier_disk.h.
 *
 * A folder whose modification time is what it was when it was last scanned holds the same names. The time is noted
 * only when it lies some seconds back, so that a file that comes in within the clock's grain is not missed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/tier_disk_internal.h"

enum {
    QUIET_MS = 3000,
    NAMES_AT_FIRST = 256,
    SWEEP_AT_ONCE = 128,
    SWEEP_NAME_BYTES = 160,
    TMP_AGE_MAX_S = 3600
};

/* The folder of damaged files: at most so many, and this part of the budget. */
enum { BAD_FILES_MAX = 64, BAD_PART = 16 };

typedef struct name_list {
    const cairn_mem *mem;
    char (*names)[CAIRN_BLOB_NAME_BYTES];
    uint32_t count, room;
    bool failed;
} name_list;

static bool list_add(name_list *list, const char *name)
{
    if (list->count == list->room) {
        uint32_t room = list->room == 0 ? NAMES_AT_FIRST : list->room * 2;
        void *names = cairn_mem_array_resize(list->mem, list->names, list->room, room, sizeof *list->names);
        if (names == NULL) {
            list->failed = true;
            return false;
        }
        list->names = names;
        list->room = room;
    }
    memcpy(list->names[list->count++], name, CAIRN_BLOB_NAME_BYTES);
    return true;
}

static void list_release(name_list *list)
{
    cairn_mem_array_release(list->mem, list->names, list->room, sizeof *list->names);
}

static bool list_file(void *ctx, const char *file)
{
    char name[CAIRN_BLOB_NAME_BYTES];
    return !cairn_blob_file_parse(file, name) || list_add(ctx, name);
}

static bool list_row(void *ctx, const cairn_disk_row *row)
{
    return list_add(ctx, row->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void list_sort(name_list *list)
{
    if (list->count != 0) {
        qsort(list->names, list->count, sizeof *list->names, by_name);
    }
}

static bool list_has(const name_list *list, const char *name)
{
    return list->count != 0 && bsearch(name, list->names, list->count, sizeof *list->names, by_name) != NULL;
}

/* Take a file into the index, or set it aside. *ret_later: it can't be read now. */
static cairn_status adopt(cairn_disk *disk, const char *name, bool *ret_later, cairn_error *reterr)
{
    char path[DISK_PATH_BYTES];
    cairn_file *file = NULL;
    cairn_disk_header header = {0};
    if (!cairn_disk_blob_path(disk, name, path)) {
        return CAIRN_OK;
    }
    cairn_status status = cairn_io_open(disk->io, path, CAIRN_IO_READ, &file, NULL);
    if (status == CAIRN_OK) {
        status = cairn_disk_header_load(disk->mem, file, &header, reterr);
        cairn_io_discard(file);
    }
    if (status == CAIRN_NOTFOUND || status == CAIRN_NOMEM) { /* gone again */
        return status == CAIRN_NOTFOUND ? CAIRN_OK : status;
    }
    if (status == CAIRN_IO ||
        status == CAIRN_TIMEOUT) { /* no row, no harm; and no reason to skip the others */
        *ret_later = true;
        return CAIRN_OK;
    }
    if (status != CAIRN_OK) {
        cairn_disk_set_aside(disk, name, status);
        return CAIRN_OK;
    }
    cairn_disk_row row = {
        .meta = header.meta, .file_bytes = header.layout.file_bytes, .used_s = header.meta.created_s};
    cairn_disk_header_release(disk->mem, &header);
    cairn_blob_name(&row.meta, row.name);
    if (strcmp(row.name, name) != 0) {
        cairn_disk_set_aside(disk, name, CAIRN_CORRUPT);
        return CAIRN_OK;
    }
    /* Its value is not in the file: a middling one, until it is used. */
    row.value = cairn_disk_rank(1e-6, row.used_s);
    return cairn_disk_index_put(disk->index, &row, reterr);
}

static cairn_status folder_scan(cairn_disk *disk, const char *folder, const char *path, bool *ret_later,
                                cairn_error *reterr)
{
    name_list files = {.mem = disk->mem}, rows = {.mem = disk->mem};
    cairn_status status = cairn_io_list(disk->io, path, list_file, &files, reterr);
    if (status == CAIRN_OK) {
        status = cairn_disk_index_names(disk->index, folder, list_row, &rows, reterr);
    }
    if (status == CAIRN_OK && (files.failed || rows.failed)) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/disk: scan", NULL);
    }
    if (status == CAIRN_OK) {
        list_sort(&files);
        list_sort(&rows);
        status = cairn_disk_index_batch(disk->index, true, reterr);
    }
    if (status == CAIRN_OK) {
        for (uint32_t i = 0; i < files.count && status == CAIRN_OK; i++) {
            status =
                list_has(&rows, files.names[i]) ? CAIRN_OK : adopt(disk, files.names[i], ret_later, reterr);
        }
        for (uint32_t i = 0; i < rows.count && status == CAIRN_OK; i++) {
            status = list_has(&files, rows.names[i])
                         ? CAIRN_OK
                         : cairn_disk_index_drop(disk->index, rows.names[i], reterr);
        }
        cairn_status end = cairn_disk_index_batch(disk->index, false, status == CAIRN_OK ? reterr : NULL);
        status = status == CAIRN_OK ? end : status;
    }
    list_release(&rows);
    list_release(&files);
    return status;
}

cairn_status cairn_disk_scan(cairn_disk *disk, bool all, cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    cairn_disk_secret_keep(disk);
    for (int i = 0; i < DISK_FOLDERS && status == CAIRN_OK; i++) {
        char folder[3], path[DISK_PATH_BYTES];
        cairn_io_stat stat;
        int64_t known_ms = -1;
        (void)snprintf(folder, sizeof folder, "%02x", (unsigned)i);
        if (!cairn_disk_path(disk, folder, NULL, path)) {
            return cairn_error_set(reterr, CAIRN_INVALID, "store/disk: scan",
                                   "the directory's name is too long");
        }
        cairn_status seen = cairn_io_stat_path(disk->io, path, &stat, NULL);
        if (seen == CAIRN_OK) {
            status = cairn_disk_index_folder(disk->index, folder, &known_ms, reterr);
        } else if (seen != CAIRN_NOTFOUND) {
            continue; /* can't be looked at now: its rows stay, and opening their files will tell */
        }
        if (status != CAIRN_OK || (seen == CAIRN_OK && !all && known_ms == stat.modified_ms)) {
            continue;
        }
        if (seen == CAIRN_NOTFOUND) {
            name_list rows = {.mem = disk->mem};
            status = cairn_disk_index_names(disk->index, folder, list_row, &rows, reterr);
            for (uint32_t k = 0; k < rows.count && status == CAIRN_OK; k++) {
                status = cairn_disk_index_drop(disk->index, rows.names[k], reterr);
            }
            list_release(&rows);
            continue;
        }
        bool later = false, quiet = stat.modified_ms + QUIET_MS < cairn_clock_wall_ms(disk->clock);
        status = folder_scan(disk, folder, path, &later, reterr);
        if (status == CAIRN_OK && (quiet || later)) {
            status = cairn_disk_index_folder_set(disk->index, folder, later ? -1 : stat.modified_ms, reterr);
        }
    }
    if (status == CAIRN_OK) {
        cairn_disk_room_trim(disk);
    }
    return status;
}

/* --- leftovers ---------------------------------------------------------------------------------------------- */

typedef struct sweep {
    char names[SWEEP_AT_ONCE][SWEEP_NAME_BYTES];
    uint32_t count;
} sweep;

static bool sweep_note(void *ctx, const char *name)
{
    sweep *list = ctx;
    if (strlen(name) < SWEEP_NAME_BYTES) {
        (void)snprintf(list->names[list->count++], SWEEP_NAME_BYTES, "%s", name);
    }
    return list->count < SWEEP_AT_ONCE;
}

static bool sweep_list(cairn_disk *disk, const char *folder, sweep *ret_list)
{
    char path[DISK_PATH_BYTES];
    ret_list->count = 0;
    return cairn_disk_path(disk, folder, NULL, path) &&
           cairn_io_list(disk->io, path, sweep_note, ret_list, NULL) == CAIRN_OK;
}

void cairn_disk_tmp_clean(cairn_disk *disk)
{
    char ours[16], path[DISK_PATH_BYTES];
    int length = snprintf(ours, sizeof ours, "%d.", disk->table);
    sweep list;
    if (!sweep_list(disk, "tmp", &list)) {
        return;
    }
    for (uint32_t i = 0; i < list.count; i++) {
        cairn_io_stat stat;
        if (!cairn_disk_path(disk, "tmp", list.names[i], path) ||
            cairn_io_stat_path(disk->io, path, &stat, NULL) != CAIRN_OK) {
            continue;
        }
        bool old = (uint64_t)(stat.modified_ms / 1000) + TMP_AGE_MAX_S < cairn_disk_now_s(disk);
        if (old || (disk->table >= 0 && strncmp(list.names[i], ours, (size_t)length) == 0)) {
            (void)!cairn_io_unlink(disk->io, path, NULL);
        }
    }
}

void cairn_disk_bad_trim(cairn_disk *disk)
{
    sweep list;
    char path[DISK_PATH_BYTES], oldest[DISK_PATH_BYTES];
    for (uint32_t round = 0; round < SWEEP_AT_ONCE && sweep_list(disk, "bad", &list); round++) {
        uint64_t bytes = 0;
        int64_t oldest_ms = INT64_MAX;
        for (uint32_t i = 0; i < list.count; i++) {
            cairn_io_stat stat;
            if (!cairn_disk_path(disk, "bad", list.names[i], path) ||
                cairn_io_stat_path(disk->io, path, &stat, NULL) != CAIRN_OK) {
                continue;
            }
            bytes += stat.size_bytes;
            if (stat.modified_ms < oldest_ms) {
                oldest_ms = stat.modified_ms;
                memcpy(oldest, path, sizeof oldest);
            }
        }
        bool fits = list.count <= BAD_FILES_MAX && bytes <= disk->bytes_max / BAD_PART;
        if (fits || oldest_ms == INT64_MAX || cairn_io_unlink(disk->io, oldest, NULL) != CAIRN_OK) {
            return;
        }
    }
}
