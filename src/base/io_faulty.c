/*
 * io_faulty - passes every call on, but one. Counts only calls of the kind that its fault can strike.
 */
#include "base/io_faulty.h"

#include <errno.h>
#include <string.h>

typedef enum call_kind { CALL_READ, CALL_WRITE, CALL_SYNC, CALL_OTHER } call_kind;

typedef struct faulty_file {
    cairn_file base;
    cairn_file *inner;
} faulty_file;

static cairn_file *inner_of(cairn_file *file)
{
    return ((faulty_file *)file)->inner;
}

static bool can_strike(cairn_io_fault fault, call_kind kind)
{
    switch (fault) {
    case CAIRN_IO_FAULT_NONE:
        return false;
    case CAIRN_IO_FAULT_FAIL:
    case CAIRN_IO_FAULT_STOP:
        return true;
    case CAIRN_IO_FAULT_SHORT:
        return kind == CALL_READ || kind == CALL_WRITE;
    case CAIRN_IO_FAULT_TORN:
        return kind == CALL_WRITE;
    case CAIRN_IO_FAULT_LOST_SYNC:
        return kind == CALL_SYNC;
    case CAIRN_IO_FAULT_FLIP:
        return kind == CALL_READ;
    }
    return false;
}

/* Count this call; is it the one (or, for STOP, behind it)? */
static bool strikes(cairn_io *self, call_kind kind)
{
    cairn_io_faulty *faulty = (cairn_io_faulty *)self;
    if (!can_strike(faulty->fault, kind)) {
        return false;
    }
    uint64_t call = atomic_fetch_add(&faulty->calls, 1) + 1;
    bool hit = call == faulty->at || (faulty->fault == CAIRN_IO_FAULT_STOP && call > faulty->at);
    if (hit) {
        atomic_fetch_add(&faulty->hits, 1);
    }
    return hit;
}

static cairn_status failure(cairn_io *self, const char *where, cairn_error *reterr)
{
    return cairn_error_set_os(reterr, ((cairn_io_faulty *)self)->os_errno, where, "on purpose");
}

static cairn_io *table_of(cairn_io *self)
{
    return ((cairn_io_faulty *)self)->inner;
}

static cairn_io_fault fault_of(cairn_io *self)
{
    return ((cairn_io_faulty *)self)->fault;
}

static cairn_status faulty_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                                cairn_error *reterr)
{
    if (strikes(self, CALL_OTHER)) {
        return failure(self, "io/open", reterr);
    }
    faulty_file *file = cairn_mem_zalloc(cairn_mem_default(), sizeof *file);
    if (file == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "io/open", "%s", path);
    }
    cairn_status status = cairn_io_open(table_of(self), path, flags, &file->inner, reterr);
    if (status != CAIRN_OK) {
        cairn_mem_release(cairn_mem_default(), file, sizeof *file);
        return status;
    }
    file->base.io = self;
    *ret_file = &file->base;
    return CAIRN_OK;
}

static cairn_status faulty_close(cairn_file *base, cairn_error *reterr)
{
    bool hit = strikes(base->io, CALL_OTHER);
    cairn_io *self = base->io;
    cairn_status status = cairn_io_close(inner_of(base), reterr);
    cairn_mem_release(cairn_mem_default(), base, sizeof(faulty_file));
    return hit ? failure(self, "io/close", reterr) : status;
}

static cairn_status faulty_pread(cairn_file *base, void *bytes, size_t len_bytes, uint64_t offset_bytes,
                                 size_t *ret_bytes, cairn_error *reterr)
{
    cairn_io *self = base->io;
    bool hit = strikes(self, CALL_READ);
    cairn_io_fault fault = fault_of(self);
    if (hit && fault != CAIRN_IO_FAULT_SHORT && fault != CAIRN_IO_FAULT_FLIP) {
        return failure(self, "io/pread", reterr);
    }
    if (hit && fault == CAIRN_IO_FAULT_SHORT && len_bytes > 1) {
        len_bytes /= 2;
    }
    cairn_file *inner = inner_of(base);
    cairn_status status = inner->io->pread(inner, bytes, len_bytes, offset_bytes, ret_bytes, reterr);
    if (hit && fault == CAIRN_IO_FAULT_FLIP && status == CAIRN_OK && *ret_bytes > 0) {
        ((uint8_t *)bytes)[*ret_bytes / 2] ^= 0x10u;
    }
    return status;
}

static cairn_status faulty_pwrite(cairn_file *base, const void *bytes, size_t len_bytes,
                                  uint64_t offset_bytes, size_t *ret_bytes, cairn_error *reterr)
{
    cairn_io *self = base->io;
    bool hit = strikes(self, CALL_WRITE);
    cairn_io_fault fault = fault_of(self);
    cairn_file *inner = inner_of(base);
    if (hit && fault == CAIRN_IO_FAULT_TORN && len_bytes > 1) {
        cairn_status ignored = cairn_io_pwrite(inner, bytes, len_bytes / 2, offset_bytes, NULL);
        (void)ignored;
    }
    if (hit && fault != CAIRN_IO_FAULT_SHORT) {
        return failure(self, "io/pwrite", reterr);
    }
    if (hit && len_bytes > 1) {
        len_bytes /= 2;
    }
    return inner->io->pwrite(inner, bytes, len_bytes, offset_bytes, ret_bytes, reterr);
}

static cairn_status faulty_truncate(cairn_file *base, uint64_t size_bytes, cairn_error *reterr)
{
    return strikes(base->io, CALL_OTHER) ? failure(base->io, "io/truncate", reterr)
                                         : cairn_io_truncate(inner_of(base), size_bytes, reterr);
}

static cairn_status faulty_file_sync(cairn_file *base, cairn_error *reterr)
{
    if (strikes(base->io, CALL_SYNC)) {
        return fault_of(base->io) == CAIRN_IO_FAULT_LOST_SYNC ? CAIRN_OK
                                                              : failure(base->io, "io/file_sync", reterr);
    }
    return cairn_io_file_sync(inner_of(base), reterr);
}

static cairn_status faulty_file_stat(cairn_file *base, cairn_io_stat *ret_stat, cairn_error *reterr)
{
    return strikes(base->io, CALL_OTHER) ? failure(base->io, "io/file_stat", reterr)
                                         : cairn_io_file_stat(inner_of(base), ret_stat, reterr);
}

static cairn_status faulty_file_lock(cairn_file *base, cairn_error *reterr)
{
    return strikes(base->io, CALL_OTHER) ? failure(base->io, "io/file_lock", reterr)
                                         : cairn_io_file_lock(inner_of(base), reterr);
}

static cairn_status faulty_rename(cairn_io *self, const char *from, const char *to, cairn_error *reterr)
{
    return strikes(self, CALL_OTHER) ? failure(self, "io/rename", reterr)
                                     : cairn_io_rename(table_of(self), from, to, reterr);
}

static cairn_status faulty_unlink(cairn_io *self, const char *path, cairn_error *reterr)
{
    return strikes(self, CALL_OTHER) ? failure(self, "io/unlink", reterr)
                                     : cairn_io_unlink(table_of(self), path, reterr);
}

static cairn_status faulty_mkdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    return strikes(self, CALL_OTHER) ? failure(self, "io/mkdir", reterr)
                                     : cairn_io_mkdir(table_of(self), path, reterr);
}

static cairn_status faulty_rmdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    return strikes(self, CALL_OTHER) ? failure(self, "io/rmdir", reterr)
                                     : cairn_io_rmdir(table_of(self), path, reterr);
}

static cairn_status faulty_dir_sync(cairn_io *self, const char *path, cairn_error *reterr)
{
    if (strikes(self, CALL_SYNC)) {
        return fault_of(self) == CAIRN_IO_FAULT_LOST_SYNC ? CAIRN_OK : failure(self, "io/dir_sync", reterr);
    }
    return cairn_io_dir_sync(table_of(self), path, reterr);
}

static cairn_status faulty_list(cairn_io *self, const char *path, cairn_io_list_fn each, void *ctx,
                                cairn_error *reterr)
{
    return strikes(self, CALL_OTHER) ? failure(self, "io/list", reterr)
                                     : cairn_io_list(table_of(self), path, each, ctx, reterr);
}

static cairn_status faulty_stat(cairn_io *self, const char *path, cairn_io_stat *ret_stat,
                                cairn_error *reterr)
{
    return strikes(self, CALL_OTHER) ? failure(self, "io/stat", reterr)
                                     : cairn_io_stat_path(table_of(self), path, ret_stat, reterr);
}

static cairn_status faulty_space(cairn_io *self, const char *path, cairn_io_space *ret_space,
                                 cairn_error *reterr)
{
    return strikes(self, CALL_OTHER) ? failure(self, "io/space", reterr)
                                     : cairn_io_space_at(table_of(self), path, ret_space, reterr);
}

void cairn_io_faulty_init(cairn_io_faulty *faulty, cairn_io *inner, cairn_io_fault fault, uint64_t at)
{
    faulty->io = (cairn_io){.open = faulty_open,
                            .close = faulty_close,
                            .pread = faulty_pread,
                            .pwrite = faulty_pwrite,
                            .truncate = faulty_truncate,
                            .file_sync = faulty_file_sync,
                            .file_stat = faulty_file_stat,
                            .file_lock = faulty_file_lock,
                            .rename = faulty_rename,
                            .unlink = faulty_unlink,
                            .mkdir = faulty_mkdir,
                            .rmdir = faulty_rmdir,
                            .dir_sync = faulty_dir_sync,
                            .list = faulty_list,
                            .stat = faulty_stat,
                            .space = faulty_space};
    faulty->inner = inner;
    faulty->fault = fault;
    faulty->at = at;
    faulty->os_errno = EIO;
    atomic_init(&faulty->calls, 0);
    atomic_init(&faulty->hits, 0);
}

cairn_io *cairn_io_faulty_io(cairn_io_faulty *faulty)
{
    return &faulty->io;
}

void cairn_io_faulty_release(cairn_io_faulty *faulty)
{
    faulty->inner = NULL;
}
