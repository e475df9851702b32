/*
 * io - the functions over the table: full reads and writes, whole files, folders above folders.
 */
#include "base/io.h"

#include <stdio.h>
#include <string.h>

cairn_status cairn_io_open(cairn_io *io, const char *path, unsigned flags, cairn_file **ret_file,
                           cairn_error *reterr)
{
    cairn_file *file = NULL;
    cairn_status status = io->open(io, path, flags, &file, reterr);
    if (status == CAIRN_OK) {
        CAIRN_ASSERT(file != NULL && file->io == io);
        file->offset_bytes = 0;
        *ret_file = file;
    }
    return status;
}

cairn_status cairn_io_close(cairn_file *file, cairn_error *reterr)
{
    return file != NULL ? file->io->close(file, reterr) : CAIRN_OK;
}

void cairn_io_discard(cairn_file *file)
{
    cairn_status ignored = cairn_io_close(file, NULL);
    (void)ignored;
}

/* Read len_bytes, or up to the end of the file. */
static cairn_status read_up_to(cairn_file *file, uint8_t *to, size_t len_bytes, uint64_t offset_bytes,
                               size_t *ret_done, cairn_error *reterr)
{
    size_t done = 0, got = 1;
    while (done < len_bytes && got > 0) {
        cairn_status status =
            file->io->pread(file, to + done, len_bytes - done, offset_bytes + done, &got, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        CAIRN_ASSERT(got <= len_bytes - done);
        done += got;
    }
    *ret_done = done;
    return CAIRN_OK;
}

cairn_status cairn_io_pread(cairn_file *file, void *bytes, size_t len_bytes, uint64_t offset_bytes,
                            cairn_error *reterr)
{
    size_t done = 0;
    cairn_status status = read_up_to(file, bytes, len_bytes, offset_bytes, &done, reterr);
    if (status == CAIRN_OK && done < len_bytes) {
        return cairn_error_set_at(reterr, CAIRN_CORRUPT, offset_bytes + done, "io/pread",
                                  "the file ends %zu bytes too early", len_bytes - done);
    }
    return status;
}

cairn_status cairn_io_pwrite(cairn_file *file, const void *bytes, size_t len_bytes, uint64_t offset_bytes,
                             cairn_error *reterr)
{
    const uint8_t *from = bytes;
    size_t done = 0;
    while (done < len_bytes) {
        size_t wrote = 0;
        cairn_status status =
            file->io->pwrite(file, from + done, len_bytes - done, offset_bytes + done, &wrote, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        CAIRN_ASSERT(wrote > 0 && wrote <= len_bytes - done);
        done += wrote;
    }
    return CAIRN_OK;
}

cairn_status cairn_io_read(cairn_file *file, void *bytes, size_t len_bytes, size_t *ret_bytes,
                           cairn_error *reterr)
{
    size_t done = 0;
    cairn_status status = read_up_to(file, bytes, len_bytes, file->offset_bytes, &done, reterr);
    if (status == CAIRN_OK) {
        file->offset_bytes += done;
        *ret_bytes = done;
    }
    return status;
}

cairn_status cairn_io_write(cairn_file *file, const void *bytes, size_t len_bytes, cairn_error *reterr)
{
    cairn_status status = cairn_io_pwrite(file, bytes, len_bytes, file->offset_bytes, reterr);
    if (status == CAIRN_OK) {
        file->offset_bytes += len_bytes;
    }
    return status;
}

cairn_status cairn_io_truncate(cairn_file *file, uint64_t size_bytes, cairn_error *reterr)
{
    return file->io->truncate(file, size_bytes, reterr);
}

cairn_status cairn_io_file_sync(cairn_file *file, cairn_error *reterr)
{
    return file->io->file_sync(file, reterr);
}

cairn_status cairn_io_file_stat(cairn_file *file, cairn_io_stat *ret_stat, cairn_error *reterr)
{
    return file->io->file_stat(file, ret_stat, reterr);
}

cairn_status cairn_io_file_lock(cairn_file *file, cairn_error *reterr)
{
    return file->io->file_lock(file, reterr);
}

cairn_status cairn_io_rename(cairn_io *io, const char *from, const char *to, cairn_error *reterr)
{
    return io->rename(io, from, to, reterr);
}

cairn_status cairn_io_unlink(cairn_io *io, const char *path, cairn_error *reterr)
{
    return io->unlink(io, path, reterr);
}

cairn_status cairn_io_mkdir(cairn_io *io, const char *path, cairn_error *reterr)
{
    return io->mkdir(io, path, reterr);
}

cairn_status cairn_io_rmdir(cairn_io *io, const char *path, cairn_error *reterr)
{
    return io->rmdir(io, path, reterr);
}

cairn_status cairn_io_dir_sync(cairn_io *io, const char *path, cairn_error *reterr)
{
    return io->dir_sync(io, path, reterr);
}

cairn_status cairn_io_list(cairn_io *io, const char *path, cairn_io_list_fn each, void *ctx,
                           cairn_error *reterr)
{
    return io->list(io, path, each, ctx, reterr);
}

cairn_status cairn_io_stat_path(cairn_io *io, const char *path, cairn_io_stat *ret_stat, cairn_error *reterr)
{
    return io->stat(io, path, ret_stat, reterr);
}

cairn_status cairn_io_space_at(cairn_io *io, const char *path, cairn_io_space *ret_space, cairn_error *reterr)
{
    return io->space(io, path, ret_space, reterr);
}

/* Copies the first `len` characters of a path. Errors: CAIRN_LIMIT. */
static cairn_status path_copy(char *to, size_t room, const char *path, size_t len, cairn_error *reterr)
{
    if (len >= room) {
        return cairn_error_set(reterr, CAIRN_LIMIT, "io: path", "a path of more than %zu characters",
                               room - 1);
    }
    memcpy(to, path, len);
    to[len] = '\0';
    return CAIRN_OK;
}

/* The length of the path of the folder that holds `path`; 0: the current folder. "/" for names right below it. */
static size_t parent_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return 0;
    }
    return slash == path ? 1 : (size_t)(slash - path);
}

/* Makes one folder if it isn't there. A name that is there but no folder is an error. */
static cairn_status mkdir_one(cairn_io *io, const char *path, cairn_error *reterr)
{
    cairn_io_stat stat;
    if (io->stat(io, path, &stat, NULL) == CAIRN_OK && stat.kind == CAIRN_IO_KIND_FOLDER) {
        return CAIRN_OK;
    }
    cairn_error error;
    cairn_status status = io->mkdir(io, path, &error);
    if (status == CAIRN_EXISTS && io->stat(io, path, &stat, NULL) == CAIRN_OK &&
        stat.kind == CAIRN_IO_KIND_FOLDER) {
        return CAIRN_OK; /* somebody else was quicker */
    }
    if (status != CAIRN_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

cairn_status cairn_io_mkdir_all(cairn_io *io, const char *path, cairn_error *reterr)
{
    char part[CAIRN_IO_PATH_MAX];
    size_t len = strlen(path);
    for (size_t end = 1; end <= len; end++) {
        bool at_end = path[end] == '/' || path[end] == '\0';
        if (!at_end || path[end - 1] == '/') {
            continue;
        }
        cairn_status status = path_copy(part, sizeof part, path, end, reterr);
        if (status == CAIRN_OK) {
            status = mkdir_one(io, part, reterr);
        }
        if (status != CAIRN_OK) {
            return status;
        }
    }
    return CAIRN_OK;
}

cairn_status cairn_io_read_file(cairn_io *io, const char *path, cairn_buf *buf, cairn_error *reterr)
{
    cairn_file *file = NULL;
    cairn_status status = cairn_io_open(io, path, CAIRN_IO_READ, &file, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    size_t before = buf->len_bytes;
    cairn_io_stat stat;
    status = cairn_io_file_stat(file, &stat, reterr);
    if (status != CAIRN_OK) {
        goto out;
    }
    if (stat.size_bytes > buf->bytes_max - before) {
        status =
            cairn_error_set(reterr, CAIRN_LIMIT, "io/read_file", "%llu bytes are more than the %zu allowed",
                            (unsigned long long)stat.size_bytes, buf->bytes_max - before);
        goto out;
    }
    status = cairn_buf_reserve(buf, (size_t)stat.size_bytes);
    if (status != CAIRN_OK) {
        status = cairn_error_set(reterr, status, "io/read_file", "no room for %llu bytes",
                                 (unsigned long long)stat.size_bytes);
        goto out;
    }
    if (stat.size_bytes > 0) {
        status = cairn_io_pread(file, buf->bytes + before, (size_t)stat.size_bytes, 0, reterr);
    }
    if (status == CAIRN_OK) {
        buf->len_bytes = before + (size_t)stat.size_bytes;
    }
    if (buf->bytes != NULL) {
        buf->bytes[buf->len_bytes] = 0;
    }
out:
    cairn_io_discard(file);
    return status;
}

/* The temporary file's steps, up to and with the sync. */
static cairn_status write_and_sync(cairn_io *io, const char *path, const void *bytes, size_t len_bytes,
                                   cairn_error *reterr)
{
    cairn_file *file = NULL;
    cairn_status status =
        cairn_io_open(io, path, CAIRN_IO_WRITE | CAIRN_IO_CREATE | CAIRN_IO_TRUNCATE, &file, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = cairn_io_pwrite(file, bytes, len_bytes, 0, reterr);
    if (status == CAIRN_OK) {
        status = cairn_io_file_sync(file, reterr);
    }
    if (status != CAIRN_OK) {
        cairn_io_discard(file);
        return status;
    }
    return cairn_io_close(file, reterr);
}

cairn_status cairn_io_write_file(cairn_io *io, const char *path, const void *bytes, size_t len_bytes,
                                 cairn_error *reterr)
{
    static const char suffix[] = ".tmp";
    char temporary[CAIRN_IO_PATH_MAX];
    char folder[CAIRN_IO_PATH_MAX];
    cairn_status status = path_copy(temporary, sizeof temporary - sizeof suffix, path, strlen(path), reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    memcpy(temporary + strlen(temporary), suffix, sizeof suffix);
    size_t folder_len = parent_length(path);
    status = folder_len > 0 ? path_copy(folder, sizeof folder, path, folder_len, reterr)
                            : path_copy(folder, sizeof folder, ".", 1, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = write_and_sync(io, temporary, bytes, len_bytes, reterr);
    if (status == CAIRN_OK) {
        status = cairn_io_rename(io, temporary, path, reterr);
    }
    if (status != CAIRN_OK) {
        cairn_status ignored = cairn_io_unlink(io, temporary, NULL);
        (void)ignored;
        return status;
    }
    return cairn_io_dir_sync(io, folder, reterr);
}
