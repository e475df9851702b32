/*
 * io_posix - the machine's files. The only file that includes fcntl.h.
 *
 * Locks are flock's: they belong to the open file, so two opens in one process exclude each other, too.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/io.h"

/* Linux moves at most this much in one call; asking for less keeps every count in range. */
#define CALL_BYTES_MAX ((size_t)1 << 30)

typedef struct posix_file {
    cairn_file base;
    int fd;
} posix_file;

static cairn_status posix_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                               cairn_error *reterr)
{
    int os_flags = O_CLOEXEC;
    bool reads = (flags & CAIRN_IO_READ) != 0;
    bool writes = (flags & CAIRN_IO_WRITE) != 0;
    os_flags |= reads && writes ? O_RDWR : writes ? O_WRONLY : O_RDONLY;
    os_flags |= (flags & CAIRN_IO_CREATE) != 0 ? O_CREAT : 0;
    os_flags |= (flags & CAIRN_IO_EXCLUSIVE) != 0 ? O_EXCL : 0;
    os_flags |= (flags & CAIRN_IO_TRUNCATE) != 0 ? O_TRUNC : 0;
    posix_file *file = cairn_mem_zalloc(cairn_mem_default(), sizeof *file);
    if (file == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "io/open", "%s", path);
    }
    do {
        file->fd = open(path, os_flags, 0600);
    } while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0) {
        cairn_status status = cairn_error_set_os(reterr, errno, "io/open", "%s", path);
        cairn_mem_release(cairn_mem_default(), file, sizeof *file);
        return status;
    }
    file->base.io = self;
    *ret_file = &file->base;
    return CAIRN_OK;
}

static cairn_status posix_close(cairn_file *base, cairn_error *reterr)
{
    posix_file *file = (posix_file *)base;
    /* After EINTR the descriptor is closed on Linux: never try again. */
    int code = close(file->fd);
    int os_errno = errno;
    cairn_mem_release(cairn_mem_default(), file, sizeof *file);
    return code == 0 || os_errno == EINTR ? CAIRN_OK : cairn_error_set_os(reterr, os_errno, "io/close", NULL);
}

static cairn_status posix_pread(cairn_file *base, void *bytes, size_t len_bytes, uint64_t offset_bytes,
                                size_t *ret_bytes, cairn_error *reterr)
{
    posix_file *file = (posix_file *)base;
    ssize_t got;
    do {
        got = pread(file->fd, bytes, len_bytes < CALL_BYTES_MAX ? len_bytes : CALL_BYTES_MAX,
                    (off_t)offset_bytes);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return cairn_error_set_os(reterr, errno, "io/pread", NULL);
    }
    *ret_bytes = (size_t)got;
    return CAIRN_OK;
}

static cairn_status posix_pwrite(cairn_file *base, const void *bytes, size_t len_bytes, uint64_t offset_bytes,
                                 size_t *ret_bytes, cairn_error *reterr)
{
    posix_file *file = (posix_file *)base;
    ssize_t wrote;
    do {
        wrote = pwrite(file->fd, bytes, len_bytes < CALL_BYTES_MAX ? len_bytes : CALL_BYTES_MAX,
                       (off_t)offset_bytes);
    } while (wrote < 0 && errno == EINTR);
    if (wrote < 0) {
        return cairn_error_set_os(reterr, errno, "io/pwrite", NULL);
    }
    if (wrote == 0 && len_bytes > 0) {
        return cairn_error_set(reterr, CAIRN_IO, "io/pwrite", "the system wrote nothing");
    }
    *ret_bytes = (size_t)wrote;
    return CAIRN_OK;
}

static cairn_status posix_truncate(cairn_file *base, uint64_t size_bytes, cairn_error *reterr)
{
    posix_file *file = (posix_file *)base;
    int code;
    do {
        code = ftruncate(file->fd, (off_t)size_bytes);
    } while (code != 0 && errno == EINTR);
    return code == 0 ? CAIRN_OK : cairn_error_set_os(reterr, errno, "io/truncate", NULL);
}

static cairn_status sync_fd(int fd, const char *where, cairn_error *reterr)
{
    /* Never try again after an error other than EINTR: the kernel may have dropped the pages that failed. */
    int code;
    do {
        code = fsync(fd);
    } while (code != 0 && errno == EINTR);
    return code == 0 ? CAIRN_OK : cairn_error_set_os(reterr, errno, where, NULL);
}

static cairn_status posix_file_sync(cairn_file *base, cairn_error *reterr)
{
    return sync_fd(((posix_file *)base)->fd, "io/file_sync", reterr);
}

static void fill_stat(const struct stat *from, cairn_io_stat *to)
{
    to->kind = S_ISREG(from->st_mode)   ? CAIRN_IO_KIND_FILE
               : S_ISDIR(from->st_mode) ? CAIRN_IO_KIND_FOLDER
                                        : CAIRN_IO_KIND_OTHER;
    to->size_bytes = (uint64_t)from->st_size;
    to->modified_ms = (int64_t)from->st_mtim.tv_sec * 1000 + (int64_t)from->st_mtim.tv_nsec / 1000000;
}

static cairn_status posix_file_stat(cairn_file *base, cairn_io_stat *ret_stat, cairn_error *reterr)
{
    struct stat info;
    if (fstat(((posix_file *)base)->fd, &info) != 0) {
        return cairn_error_set_os(reterr, errno, "io/file_stat", NULL);
    }
    fill_stat(&info, ret_stat);
    return CAIRN_OK;
}

static cairn_status posix_file_lock(cairn_file *base, cairn_error *reterr)
{
    int code;
    do {
        code = flock(((posix_file *)base)->fd, LOCK_EX | LOCK_NB);
    } while (code != 0 && errno == EINTR);
    if (code != 0 && errno == EWOULDBLOCK) {
        return cairn_error_set(reterr, CAIRN_BUSY, "io/file_lock", "another process holds the lock");
    }
    return code == 0 ? CAIRN_OK : cairn_error_set_os(reterr, errno, "io/file_lock", NULL);
}

static cairn_status posix_rename(cairn_io *self, const char *from, const char *to, cairn_error *reterr)
{
    (void)self;
    return rename(from, to) == 0 ? CAIRN_OK
                                 : cairn_error_set_os(reterr, errno, "io/rename", "%s to %s", from, to);
}

static cairn_status posix_unlink(cairn_io *self, const char *path, cairn_error *reterr)
{
    (void)self;
    return unlink(path) == 0 ? CAIRN_OK : cairn_error_set_os(reterr, errno, "io/unlink", "%s", path);
}

static cairn_status posix_mkdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    (void)self;
    return mkdir(path, 0700) == 0 ? CAIRN_OK : cairn_error_set_os(reterr, errno, "io/mkdir", "%s", path);
}

static cairn_status posix_rmdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    (void)self;
    return rmdir(path) == 0 ? CAIRN_OK : cairn_error_set_os(reterr, errno, "io/rmdir", "%s", path);
}

static cairn_status posix_dir_sync(cairn_io *self, const char *path, cairn_error *reterr)
{
    (void)self;
    int fd;
    do {
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return cairn_error_set_os(reterr, errno, "io/dir_sync", "%s", path);
    }
    cairn_error error = {0};
    cairn_status status = sync_fd(fd, "io/dir_sync", &error);
    (void)close(fd);
    if (status != CAIRN_OK && (error.os_errno == EINVAL || error.os_errno == ENOTSUP)) {
        return CAIRN_OK; /* some network file systems have no such thing: a name is safe when the call came back */
    }
    if (status != CAIRN_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

static cairn_status posix_list(cairn_io *self, const char *path, cairn_io_list_fn each, void *ctx,
                               cairn_error *reterr)
{
    (void)self;
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return cairn_error_set_os(reterr, errno, "io/list", "%s", path);
    }
    cairn_status status = CAIRN_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL) {
            status = errno == 0 ? CAIRN_OK : cairn_error_set_os(reterr, errno, "io/list", "%s", path);
            break;
        }
        bool self_or_parent = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (!self_or_parent && !each(ctx, entry->d_name)) {
            break;
        }
    }
    (void)closedir(folder);
    return status;
}

static cairn_status posix_stat(cairn_io *self, const char *path, cairn_io_stat *ret_stat, cairn_error *reterr)
{
    (void)self;
    struct stat info;
    if (stat(path, &info) != 0) {
        return cairn_error_set_os(reterr, errno, "io/stat", "%s", path);
    }
    fill_stat(&info, ret_stat);
    return CAIRN_OK;
}

static cairn_status posix_space(cairn_io *self, const char *path, cairn_io_space *ret_space,
                                cairn_error *reterr)
{
    (void)self;
    struct statvfs info;
    int code;
    do {
        code = statvfs(path, &info);
    } while (code != 0 && errno == EINTR);
    if (code != 0) {
        return cairn_error_set_os(reterr, errno, "io/space", "%s", path);
    }
    ret_space->total_bytes = (uint64_t)info.f_blocks * info.f_frsize;
    ret_space->free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return CAIRN_OK;
}

cairn_io *cairn_io_posix(void)
{
    static cairn_io table = {.open = posix_open,
                             .close = posix_close,
                             .pread = posix_pread,
                             .pwrite = posix_pwrite,
                             .truncate = posix_truncate,
                             .file_sync = posix_file_sync,
                             .file_stat = posix_file_stat,
                             .file_lock = posix_file_lock,
                             .rename = posix_rename,
                             .unlink = posix_unlink,
                             .mkdir = posix_mkdir,
                             .rmdir = posix_rmdir,
                             .dir_sync = posix_dir_sync,
                             .list = posix_list,
                             .stat = posix_stat,
                             .space = posix_space};
    return &table;
}
