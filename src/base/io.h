/*
 * io - files as a table, so that the same code runs on the disk, in memory and with faults.
 *
 *   posix    the machine's files
 *   memory   files in memory that can lose power: what was not synced may be lost, torn or out of order
 *   faulty   another table, whose n-th call fails, is cut short, lies about a sync, flips a bit, or stops everything
 *
 * The promise of every table, and no more than it: after file_sync returned CAIRN_OK the file's bytes survive a loss
 * of power, and after dir_sync the names in that folder do. A rename is all or nothing.
 *
 * Units    bytes; times in ms since 1970 UTC
 * Owner    the table is borrowed and must outlive its files; a file is owned by who opened it
 * Thread   posix: any, one thread per file at a time. memory and faulty: any, with one lock
 * Caveats  paths are C strings with '/'; "." and ".." are not interpreted by the memory table
 * Errors   CAIRN_NOTFOUND, CAIRN_EXISTS, CAIRN_NOSPACE, CAIRN_BUSY (locked elsewhere), CAIRN_NOMEM, CAIRN_IO
 */
#ifndef CAIRN_BASE_IO_H
#define CAIRN_BASE_IO_H

#include "base/buf.h"
#include "cairn/mem.h"

#define CAIRN_IO_PATH_MAX 4096 /* characters of a path, NUL included */

typedef struct cairn_io cairn_io;
typedef struct cairn_file cairn_file;

enum {
    CAIRN_IO_READ = 1u << 0,
    CAIRN_IO_WRITE = 1u << 1,
    CAIRN_IO_CREATE = 1u << 2,    /* make it when it is not there (mode 0600) */
    CAIRN_IO_EXCLUSIVE = 1u << 3, /* with CREATE: CAIRN_EXISTS when it is there */
    CAIRN_IO_TRUNCATE = 1u << 4   /* empty it */
};

typedef enum cairn_io_kind { CAIRN_IO_KIND_FILE, CAIRN_IO_KIND_FOLDER, CAIRN_IO_KIND_OTHER } cairn_io_kind;

typedef struct cairn_io_stat {
    cairn_io_kind kind;
    uint64_t size_bytes;
    int64_t modified_ms;
} cairn_io_stat;

typedef struct cairn_io_space {
    uint64_t total_bytes;
    uint64_t free_bytes; /* for a process without privileges */
} cairn_io_space;

/* Called for each name in a folder, in no order. Return false to stop. */
typedef bool (*cairn_io_list_fn)(void *ctx, const char *name);

/* The table. `self` is the table itself: implementations put it first in their struct. */
struct cairn_io {
    cairn_status (*open)(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                         cairn_error *reterr);
    /* Always frees the file; the status may tell of a late write error. */
    cairn_status (*close)(cairn_file *file, cairn_error *reterr);
    /* May read fewer bytes than asked for; 0 only at the end of the file (or when len_bytes is 0). */
    cairn_status (*pread)(cairn_file *file, void *bytes, size_t len_bytes, uint64_t offset_bytes,
                          size_t *ret_bytes, cairn_error *reterr);
    /* May write fewer bytes than asked for, but at least one (or none when len_bytes is 0). */
    cairn_status (*pwrite)(cairn_file *file, const void *bytes, size_t len_bytes, uint64_t offset_bytes,
                           size_t *ret_bytes, cairn_error *reterr);
    cairn_status (*truncate)(cairn_file *file, uint64_t size_bytes, cairn_error *reterr);
    cairn_status (*file_sync)(cairn_file *file, cairn_error *reterr);
    cairn_status (*file_stat)(cairn_file *file, cairn_io_stat *ret_stat, cairn_error *reterr);
    /* An exclusive lock, held until close or the end of the process. Never waits: CAIRN_BUSY. */
    cairn_status (*file_lock)(cairn_file *file, cairn_error *reterr);
    /* Replaces `to` when it is there. */
    cairn_status (*rename)(cairn_io *self, const char *from, const char *to, cairn_error *reterr);
    cairn_status (*unlink)(cairn_io *self, const char *path, cairn_error *reterr);
    cairn_status (*mkdir)(cairn_io *self, const char *path, cairn_error *reterr);
    cairn_status (*rmdir)(cairn_io *self, const char *path, cairn_error *reterr);
    cairn_status (*dir_sync)(cairn_io *self, const char *path, cairn_error *reterr);
    cairn_status (*list)(cairn_io *self, const char *path, cairn_io_list_fn each, void *ctx,
                         cairn_error *reterr);
    cairn_status (*stat)(cairn_io *self, const char *path, cairn_io_stat *ret_stat, cairn_error *reterr);
    cairn_status (*space)(cairn_io *self, const char *path, cairn_io_space *ret_space, cairn_error *reterr);
};

/* What every open file begins with; implementations extend it. */
struct cairn_file {
    cairn_io *io;
    uint64_t offset_bytes; /* where cairn_io_read and cairn_io_write go on */
};

/* Open a file; flags are CAIRN_IO_*. */
CAIRN_MUST_CHECK cairn_status cairn_io_open(cairn_io *io, const char *path, unsigned flags,
                                            cairn_file **ret_file, cairn_error *reterr);

/* Close; NULL is allowed. The file is gone in any case. */
CAIRN_MUST_CHECK cairn_status cairn_io_close(cairn_file *file, cairn_error *reterr);

/* Close without asking how it went: after reading, or when an earlier error is reported already. NULL is allowed. */
void cairn_io_discard(cairn_file *file);

/* Read exactly uint8_t[len_bytes] at an offset. Errors: CAIRN_CORRUPT the file ends before. */
CAIRN_MUST_CHECK cairn_status cairn_io_pread(cairn_file *file, void *bytes, size_t len_bytes,
                                             uint64_t offset_bytes, cairn_error *reterr);

/* Write exactly uint8_t[len_bytes] at an offset. */
CAIRN_MUST_CHECK cairn_status cairn_io_pwrite(cairn_file *file, const void *bytes, size_t len_bytes,
                                              uint64_t offset_bytes, cairn_error *reterr);

/* Read up to len_bytes at the file's own offset and move it on; fewer only at the end of the file. */
CAIRN_MUST_CHECK cairn_status cairn_io_read(cairn_file *file, void *bytes, size_t len_bytes,
                                            size_t *ret_bytes, cairn_error *reterr);

/* Write exactly len_bytes at the file's own offset and move it on. */
CAIRN_MUST_CHECK cairn_status cairn_io_write(cairn_file *file, const void *bytes, size_t len_bytes,
                                             cairn_error *reterr);

/* The rest of the table, as functions. */
CAIRN_MUST_CHECK cairn_status cairn_io_truncate(cairn_file *file, uint64_t size_bytes, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_file_sync(cairn_file *file, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_file_stat(cairn_file *file, cairn_io_stat *ret_stat,
                                                 cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_file_lock(cairn_file *file, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_rename(cairn_io *io, const char *from, const char *to,
                                              cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_unlink(cairn_io *io, const char *path, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_mkdir(cairn_io *io, const char *path, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_rmdir(cairn_io *io, const char *path, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_dir_sync(cairn_io *io, const char *path, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_list(cairn_io *io, const char *path, cairn_io_list_fn each, void *ctx,
                                            cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_stat_path(cairn_io *io, const char *path, cairn_io_stat *ret_stat,
                                                 cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_io_space_at(cairn_io *io, const char *path, cairn_io_space *ret_space,
                                                cairn_error *reterr);

/* Make a folder and those above it; those that are there already are fine. */
CAIRN_MUST_CHECK cairn_status cairn_io_mkdir_all(cairn_io *io, const char *path, cairn_error *reterr);

/* Append a whole file to `buf`. Errors: CAIRN_LIMIT larger than the buffer may be; the buffer is then unchanged. */
CAIRN_MUST_CHECK cairn_status cairn_io_read_file(cairn_io *io, const char *path, cairn_buf *buf,
                                                 cairn_error *reterr);

/*
 * Write a file whole or not at all: temporary name beside it, write, sync, rename, sync of the folder.
 *
 * After    CAIRN_OK: it survives a loss of power. Otherwise what `path` named before is still there, or (when only
 *          the last sync failed) either the old or the new one. The temporary file is removed when possible.
 */
CAIRN_MUST_CHECK cairn_status cairn_io_write_file(cairn_io *io, const char *path, const void *bytes,
                                                  size_t len_bytes, cairn_error *reterr);

/* The machine's files. Never NULL; lives for ever. Files are allocated with cairn_mem_default. */
cairn_io *cairn_io_posix(void);

#endif
