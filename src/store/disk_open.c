/*
 * disk_open - the directory of a disk tier: opened, made where it isn't there, and made again when it was removed. Part of
 * tier_disk.h.
 *
 * It must not know what a blob is.
 */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "store/tier_disk_internal.h"

#include "base/lock.h"

enum { INDEX_TABLES_MAX = 64 };

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

cairn_status cairn_disk_folder_make(cairn_disk *disk, const char *folder, cairn_error *reterr)
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

cairn_status cairn_disk_folders_make(cairn_disk *disk, cairn_error *reterr)
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
        status = cairn_disk_folder_make(disk, "tmp", reterr);
    }
    if (status == CAIRN_OK) {
        status = cairn_disk_folder_make(disk, "bad", reterr);
    }
    return status;
}

void cairn_disk_secret_keep(cairn_disk *disk)
{
    char path[DISK_PATH_BYTES];
    cairn_io_stat stat;
    if (disk->has_secret && !disk->read_only && cairn_disk_path(disk, "namespace.key", NULL, path) &&
        cairn_io_stat_path(disk->io, path, &stat, NULL) == CAIRN_NOTFOUND) {
        (void)!cairn_io_write_file(disk->io, path, disk->secret, sizeof disk->secret, NULL);
    }
}

/* Make the directory ready. What stands in the way now may be gone later, unless it is a file. */
static cairn_status directory_prepare(cairn_disk *disk, cairn_error *reterr)
{
    cairn_io_stat stat;
    cairn_status status = cairn_disk_folders_make(disk, &disk->trouble);
    if (status == CAIRN_OK) {
        disk->trouble = (cairn_error){0};
        return status;
    }
    bool a_file =
        cairn_io_stat_path(disk->io, disk->dir, &stat, NULL) == CAIRN_OK && stat.kind != CAIRN_IO_KIND_FOLDER;
    if (!a_file && status != CAIRN_NOMEM && status != CAIRN_INVALID) {
        return CAIRN_OK;
    }
    if (reterr != NULL) {
        *reterr = disk->trouble;
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
    if (options->secret != NULL) {
        memcpy(disk->secret, options->secret, sizeof disk->secret);
        disk->has_secret = true;
    }
    cairn_lock_init(&disk->lock);
    cairn_status status = CAIRN_NOMEM;
    disk->dir = cairn_mem_str_dup(mem, options->dir);
    disk->pins = cairn_mem_array(mem, CAIRN_DISK_PINS_MAX, sizeof *disk->pins);
    if (disk->dir == NULL || disk->pins == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/disk: open", NULL);
        goto failed;
    }
    status = disk->read_only ? CAIRN_OK : directory_prepare(disk, reterr);
    if (status != CAIRN_OK) {
        goto failed;
    }
    bool renewed = false;
    status = index_open(disk, options->index_in_memory || options->read_only, &renewed, reterr);
    if (status != CAIRN_OK) {
        goto failed;
    }
    (void)!cairn_disk_day_add(disk, cairn_disk_now_s(disk), 0, NULL);
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

cairn_status cairn_disk_trouble(const cairn_disk *disk, cairn_error *reterr)
{
    if (disk->trouble.status != CAIRN_OK && reterr != NULL) {
        *reterr = disk->trouble;
    }
    return disk->trouble.status;
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
    OPENSSL_cleanse(disk->secret, sizeof disk->secret);
    (void)pthread_mutex_destroy(&disk->lock);
    cairn_mem_release(disk->mem, disk, sizeof *disk);
}
