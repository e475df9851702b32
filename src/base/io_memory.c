/*
 * io_memory - the table of a disk in memory. See the header for what it promises, and io_memory_disk.h for its inside.
 */
#include "base/io_memory.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/io_memory_disk.h"

typedef struct memory_file {
    cairn_file base;
    cairn_disk_node *target; /* holds a reference */
    uint64_t generation;
    unsigned flags;
} memory_file;

static cairn_io_memory *disk_of(cairn_io *self)
{
    return (cairn_io_memory *)self;
}

typedef struct place {
    cairn_disk_node *folder;
    cairn_disk_node *target; /* NULL: the name is free */
    char name[CAIRN_DISK_NAME_BYTES];
} place;

/* Walk a path. The root itself has name "" and target root. */
static cairn_status find_place(cairn_io_memory *disk, const char *path, place *ret_place, const char *where,
                               cairn_error *reterr)
{
    place at = {.folder = disk->root, .target = disk->root, .name = ""};
    *ret_place = at;
    const char *rest = path;
    for (;;) {
        rest += strspn(rest, "/");
        size_t len = strcspn(rest, "/");
        if (len == 0) {
            break;
        }
        if (!(len == 1 && rest[0] == '.')) {
            if (at.target == NULL) {
                return cairn_error_set_os(reterr, ENOENT, where, "%s", path);
            }
            if (at.target->kind != CAIRN_IO_KIND_FOLDER) {
                return cairn_error_set_os(reterr, ENOTDIR, where, "%s", path);
            }
            if (len >= CAIRN_DISK_NAME_BYTES) {
                return cairn_error_set_os(reterr, ENAMETOOLONG, where, "%s", path);
            }
            at.folder = at.target;
            memcpy(at.name, rest, len);
            at.name[len] = '\0';
            at.target = cairn_disk_names_get(&at.folder->now, at.name);
        }
        rest += len;
    }
    *ret_place = at;
    return CAIRN_OK;
}

/* As find_place, but something must be there. */
static cairn_status find_node(cairn_io_memory *disk, const char *path, place *ret_place, const char *where,
                              cairn_error *reterr)
{
    cairn_status status = find_place(disk, path, ret_place, where, reterr);
    if (status == CAIRN_OK && ret_place->target == NULL) {
        status = cairn_error_set_os(reterr, ENOENT, where, "%s", path);
    }
    return status;
}

static cairn_disk_edit edit_of(const place *at, cairn_disk_node *target)
{
    cairn_disk_edit made = {.folder = at->folder, .target = target, .name = ""};
    memcpy(made.name, at->name, sizeof made.name);
    return made;
}

/* Make a file or folder at a free place. */
static cairn_status make_node(cairn_io_memory *disk, place *at, cairn_io_kind kind, const char *where,
                              cairn_error *reterr)
{
    cairn_disk_node *made = cairn_disk_node_new(disk, kind);
    if (made == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where, "%s", at->name);
    }
    const cairn_disk_edit step = edit_of(at, made);
    bool done = cairn_disk_change_do(disk, &step, 1);
    cairn_disk_node_unref(disk, made); /* the name holds it now, if there is one */
    if (!done) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where, "%s", at->name);
    }
    at->target = made;
    return CAIRN_OK;
}

static cairn_status set_size(cairn_io_memory *disk, cairn_disk_node *file, uint64_t size, const char *where,
                             cairn_error *reterr)
{
    if (size > file->content.len && size - file->content.len > disk->bytes_max - disk->used_bytes) {
        return cairn_error_set_os(reterr, ENOSPC, where, NULL);
    }
    cairn_disk_step *step = cairn_mem_zalloc(disk->mem, sizeof *step);
    if (step == NULL || !cairn_disk_bytes_reserve(disk->mem, &file->content, (size_t)size)) {
        cairn_mem_release(disk->mem, step, sizeof *step);
        return cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    step->truncates = true;
    step->offset = size;
    cairn_disk_step_append(file, step);
    disk->used_bytes += size;
    disk->used_bytes -= file->content.len;
    cairn_disk_bytes_resize(&file->content, (size_t)size);
    file->modified_ms = ++disk->ticks;
    return CAIRN_OK;
}

static cairn_status open_locked(cairn_io_memory *disk, const char *path, unsigned flags, place *at,
                                cairn_error *reterr)
{
    cairn_status status = find_place(disk, path, at, "io/open", reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    if (at->target == NULL) {
        if ((flags & CAIRN_IO_CREATE) == 0) {
            return cairn_error_set_os(reterr, ENOENT, "io/open", "%s", path);
        }
        return make_node(disk, at, CAIRN_IO_KIND_FILE, "io/open", reterr);
    }
    if ((flags & CAIRN_IO_CREATE) != 0 && (flags & CAIRN_IO_EXCLUSIVE) != 0) {
        return cairn_error_set_os(reterr, EEXIST, "io/open", "%s", path);
    }
    if (at->target->kind != CAIRN_IO_KIND_FILE) {
        return cairn_error_set_os(reterr, EISDIR, "io/open", "%s", path);
    }
    bool empties = (flags & CAIRN_IO_TRUNCATE) != 0 && at->target->content.len > 0;
    return empties ? set_size(disk, at->target, 0, "io/open", reterr) : CAIRN_OK;
}

static cairn_status memory_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                                cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(self);
    memory_file *file = cairn_mem_zalloc(disk->mem, sizeof *file);
    if (file == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "io/open", "%s", path);
    }
    pthread_mutex_lock(&disk->lock);
    place at;
    cairn_status status = open_locked(disk, path, flags, &at, reterr);
    if (status == CAIRN_OK) {
        CAIRN_ASSERT(at.target != NULL);
        file->base.io = self;
        file->target = at.target;
        file->target->refs++;
        file->generation = disk->generation;
        file->flags = flags;
        *ret_file = &file->base;
    } else {
        cairn_mem_release(disk->mem, file, sizeof *file);
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status memory_close(cairn_file *base, cairn_error *reterr)
{
    (void)reterr;
    memory_file *file = (memory_file *)base;
    cairn_io_memory *disk = disk_of(base->io);
    pthread_mutex_lock(&disk->lock);
    if (file->target->lock_owner == file) {
        file->target->lock_owner = NULL;
    }
    cairn_disk_node_unref(disk, file->target);
    cairn_mem_release(disk->mem, file, sizeof *file);
    pthread_mutex_unlock(&disk->lock);
    return CAIRN_OK;
}

/* With the lock held: may this file still be used, and for this? */
static cairn_status check_file(const memory_file *file, unsigned need, const char *where, cairn_error *reterr)
{
    if (file->generation != disk_of(file->base.io)->generation) {
        return cairn_error_set_os(reterr, EIO, where, "opened before the loss of power");
    }
    return (file->flags & need) == need ? CAIRN_OK : cairn_error_set_os(reterr, EBADF, where, NULL);
}

static cairn_status memory_pread(cairn_file *base, void *to, size_t len_bytes, uint64_t offset_bytes,
                                 size_t *ret_bytes, cairn_error *reterr)
{
    memory_file *file = (memory_file *)base;
    cairn_io_memory *disk = disk_of(base->io);
    pthread_mutex_lock(&disk->lock);
    cairn_status status = check_file(file, CAIRN_IO_READ, "io/pread", reterr);
    if (status == CAIRN_OK) {
        const cairn_disk_bytes *content = &file->target->content;
        size_t left = offset_bytes < content->len ? content->len - (size_t)offset_bytes : 0;
        size_t len = len_bytes < left ? len_bytes : left;
        if (len > 0) {
            memcpy(to, content->data + offset_bytes, len);
        }
        *ret_bytes = len;
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status write_locked(memory_file *handle, const void *from, size_t len, uint64_t offset,
                                 size_t *ret_bytes, cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(handle->base.io);
    cairn_disk_node *file = handle->target;
    uint64_t room = disk->bytes_max - disk->used_bytes + file->content.len; /* how long the file may become */
    if (len > 0 && offset >= room) {
        return cairn_error_set_os(reterr, offset >= (UINT64_C(1) << 62) ? EFBIG : ENOSPC, "io/pwrite", NULL);
    }
    if (len > room - offset) {
        len = (size_t)(room - offset); /* the disk is full in the middle: a short write */
    }
    uint64_t end = offset + len;
    cairn_disk_step *step = cairn_mem_zalloc(disk->mem, sizeof *step + len);
    if (step == NULL ||
        (end > file->content.len && !cairn_disk_bytes_reserve(disk->mem, &file->content, (size_t)end))) {
        if (step != NULL) {
            cairn_mem_release(disk->mem, step, sizeof *step + len);
        }
        return cairn_error_set(reterr, CAIRN_NOMEM, "io/pwrite", NULL);
    }
    step->offset = offset;
    step->len = len;
    if (len > 0) {
        memcpy(step->data, from, len);
    }
    cairn_disk_step_append(file, step);
    disk->used_bytes += len > 0 && end > file->content.len ? end - file->content.len : 0;
    cairn_disk_bytes_put(&file->content, offset, from, len);
    file->modified_ms = ++disk->ticks;
    *ret_bytes = len;
    return CAIRN_OK;
}

static cairn_status memory_pwrite(cairn_file *base, const void *from, size_t len_bytes, uint64_t offset_bytes,
                                  size_t *ret_bytes, cairn_error *reterr)
{
    memory_file *file = (memory_file *)base;
    cairn_io_memory *disk = disk_of(base->io);
    pthread_mutex_lock(&disk->lock);
    cairn_status status = check_file(file, CAIRN_IO_WRITE, "io/pwrite", reterr);
    if (status == CAIRN_OK) {
        status = write_locked(file, from, len_bytes, offset_bytes, ret_bytes, reterr);
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status memory_truncate(cairn_file *base, uint64_t size_bytes, cairn_error *reterr)
{
    memory_file *file = (memory_file *)base;
    cairn_io_memory *disk = disk_of(base->io);
    pthread_mutex_lock(&disk->lock);
    cairn_status status = check_file(file, CAIRN_IO_WRITE, "io/truncate", reterr);
    if (status == CAIRN_OK) {
        status = set_size(disk, file->target, size_bytes, "io/truncate", reterr);
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status memory_file_sync(cairn_file *base, cairn_error *reterr)
{
    memory_file *file = (memory_file *)base;
    cairn_io_memory *disk = disk_of(base->io);
    pthread_mutex_lock(&disk->lock);
    cairn_status status = check_file(file, 0, "io/file_sync", reterr);
    if (status == CAIRN_OK) {
        if (cairn_disk_bytes_copy(disk->mem, &file->target->settled, &file->target->content)) {
            cairn_disk_steps_clear(disk->mem, file->target);
        } else {
            status = cairn_error_set(reterr, CAIRN_NOMEM, "io/file_sync", NULL);
        }
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static void fill_stat(const cairn_disk_node *target, cairn_io_stat *ret_stat)
{
    *ret_stat = (cairn_io_stat){
        .kind = target->kind, .size_bytes = target->content.len, .modified_ms = target->modified_ms};
}

static cairn_status memory_file_stat(cairn_file *base, cairn_io_stat *ret_stat, cairn_error *reterr)
{
    memory_file *file = (memory_file *)base;
    cairn_io_memory *disk = disk_of(base->io);
    pthread_mutex_lock(&disk->lock);
    cairn_status status = check_file(file, 0, "io/file_stat", reterr);
    if (status == CAIRN_OK) {
        fill_stat(file->target, ret_stat);
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status memory_file_lock(cairn_file *base, cairn_error *reterr)
{
    memory_file *file = (memory_file *)base;
    cairn_io_memory *disk = disk_of(base->io);
    pthread_mutex_lock(&disk->lock);
    cairn_status status = check_file(file, 0, "io/file_lock", reterr);
    if (status == CAIRN_OK) {
        const void *owner = file->target->lock_owner;
        if (owner != NULL && owner != file) {
            status = cairn_error_set(reterr, CAIRN_BUSY, "io/file_lock", "another process holds the lock");
        } else {
            file->target->lock_owner = file;
        }
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

/* Is `inner` the folder itself or somewhere below it? */
static bool is_below(const cairn_disk_node *folder, const cairn_disk_node *inner)
{
    if (folder == inner) {
        return true;
    }
    for (size_t i = 0; i < folder->now.count; i++) {
        if (is_below(folder->now.items[i].target, inner)) {
            return true;
        }
    }
    return false;
}

static cairn_status rename_locked(cairn_io_memory *disk, const char *from, const char *to,
                                  cairn_error *reterr)
{
    place source;
    place goal;
    cairn_status status = find_node(disk, from, &source, "io/rename", reterr);
    if (status == CAIRN_OK) {
        status = find_place(disk, to, &goal, "io/rename", reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    int os_errno = 0;
    if (source.target == goal.target) {
        return CAIRN_OK;
    }
    if (source.target == disk->root || is_below(source.target, goal.folder)) {
        os_errno = EINVAL;
    } else if (goal.target != NULL && goal.target->kind != source.target->kind) {
        os_errno = goal.target->kind == CAIRN_IO_KIND_FOLDER ? EISDIR : ENOTDIR;
    } else if (goal.target != NULL && goal.target->now.count > 0) {
        os_errno = ENOTEMPTY;
    }
    if (os_errno != 0) {
        return cairn_error_set_os(reterr, os_errno, "io/rename", "%s to %s", from, to);
    }
    const cairn_disk_edit edits[2] = {edit_of(&source, NULL), edit_of(&goal, source.target)};
    return cairn_disk_change_do(disk, edits, 2) ? CAIRN_OK
                                                : cairn_error_set(reterr, CAIRN_NOMEM, "io/rename", NULL);
}

static cairn_status memory_rename(cairn_io *self, const char *from, const char *to, cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(self);
    pthread_mutex_lock(&disk->lock);
    cairn_status status = rename_locked(disk, from, to, reterr);
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status remove_name(cairn_io *self, const char *path, cairn_io_kind kind, const char *where,
                                cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(self);
    pthread_mutex_lock(&disk->lock);
    place at;
    cairn_status status = find_node(disk, path, &at, where, reterr);
    if (status == CAIRN_OK) {
        int os_errno = 0;
        if (at.target->kind != kind) {
            os_errno = kind == CAIRN_IO_KIND_FILE ? EISDIR : ENOTDIR;
        } else if (at.target == disk->root || at.target->now.count > 0) {
            os_errno = at.target == disk->root ? EBUSY : ENOTEMPTY;
        }
        const cairn_disk_edit step = edit_of(&at, NULL);
        if (os_errno != 0) {
            status = cairn_error_set_os(reterr, os_errno, where, "%s", path);
        } else if (!cairn_disk_change_do(disk, &step, 1)) {
            status = cairn_error_set(reterr, CAIRN_NOMEM, where, "%s", path);
        }
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status memory_unlink(cairn_io *self, const char *path, cairn_error *reterr)
{
    return remove_name(self, path, CAIRN_IO_KIND_FILE, "io/unlink", reterr);
}

static cairn_status memory_rmdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    return remove_name(self, path, CAIRN_IO_KIND_FOLDER, "io/rmdir", reterr);
}

static cairn_status memory_mkdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(self);
    pthread_mutex_lock(&disk->lock);
    place at;
    cairn_status status = find_place(disk, path, &at, "io/mkdir", reterr);
    if (status == CAIRN_OK) {
        status = at.target != NULL ? cairn_error_set_os(reterr, EEXIST, "io/mkdir", "%s", path)
                                   : make_node(disk, &at, CAIRN_IO_KIND_FOLDER, "io/mkdir", reterr);
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

/* Choose, from the newest change to the oldest, those that touch `folder` or a folder that a chosen one touches. */
static void choose_for_sync(cairn_io_memory *disk, const cairn_disk_node *folder)
{
    for (cairn_disk_change *step = disk->last; step != NULL; step = step->previous) {
        step->chosen = cairn_disk_change_touches(step, folder);
        for (cairn_disk_change *later = step->next; later != NULL && !step->chosen; later = later->next) {
            step->chosen = later->chosen &&
                           (cairn_disk_change_touches(step, later->edits[0].folder) ||
                            (later->count > 1 && cairn_disk_change_touches(step, later->edits[1].folder)));
        }
    }
}

static cairn_status memory_dir_sync(cairn_io *self, const char *path, cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(self);
    pthread_mutex_lock(&disk->lock);
    place at;
    cairn_status status = find_node(disk, path, &at, "io/dir_sync", reterr);
    if (status == CAIRN_OK && at.target->kind != CAIRN_IO_KIND_FOLDER) {
        status = cairn_error_set_os(reterr, ENOTDIR, "io/dir_sync", "%s", path);
    }
    if (status == CAIRN_OK) {
        choose_for_sync(disk, at.target);
        for (cairn_disk_change *step = disk->first; step != NULL && status == CAIRN_OK;) {
            cairn_disk_change *next = step->next;
            if (step->chosen && !cairn_disk_change_reserve_safe(disk, step)) {
                status = cairn_error_set(reterr, CAIRN_NOMEM, "io/dir_sync", "%s", path);
            } else if (step->chosen) {
                cairn_disk_change_settle(disk, step);
                cairn_disk_change_remove(disk, step);
            }
            step = next;
        }
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status memory_list(cairn_io *self, const char *path, cairn_io_list_fn each, void *ctx,
                                cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(self);
    pthread_mutex_lock(&disk->lock);
    place at;
    cairn_disk_entry *copy = NULL;
    size_t count = 0;
    cairn_status status = find_node(disk, path, &at, "io/list", reterr);
    if (status == CAIRN_OK && at.target->kind != CAIRN_IO_KIND_FOLDER) {
        status = cairn_error_set_os(reterr, ENOTDIR, "io/list", "%s", path);
    }
    if (status == CAIRN_OK) {
        count = at.target->now.count;
        copy = cairn_mem_array(disk->mem, count, sizeof *copy);
        if (copy == NULL) {
            status = cairn_error_set(reterr, CAIRN_NOMEM, "io/list", "%s", path);
        } else if (count > 0) {
            memcpy(copy, at.target->now.items, count * sizeof *copy);
        }
    }
    pthread_mutex_unlock(&disk->lock);
    /* Without the lock: the callee may use the disk. */
    for (size_t i = 0; copy != NULL && i < count && each(ctx, copy[i].name); i++) {
    }
    cairn_mem_array_release(disk->mem, copy, count, sizeof *copy);
    return status;
}

static cairn_status memory_stat(cairn_io *self, const char *path, cairn_io_stat *ret_stat,
                                cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(self);
    pthread_mutex_lock(&disk->lock);
    place at;
    cairn_status status = find_node(disk, path, &at, "io/stat", reterr);
    if (status == CAIRN_OK) {
        fill_stat(at.target, ret_stat);
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static cairn_status memory_space(cairn_io *self, const char *path, cairn_io_space *ret_space,
                                 cairn_error *reterr)
{
    cairn_io_memory *disk = disk_of(self);
    pthread_mutex_lock(&disk->lock);
    place at;
    cairn_status status = find_node(disk, path, &at, "io/space", reterr);
    if (status == CAIRN_OK) {
        ret_space->total_bytes = disk->bytes_max;
        ret_space->free_bytes = disk->bytes_max - disk->used_bytes;
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

cairn_io_memory *cairn_io_memory_new(const cairn_mem *mem, uint64_t bytes_max)
{
    cairn_io_memory *disk = cairn_mem_zalloc(mem, sizeof *disk);
    if (disk == NULL) {
        return NULL;
    }
    disk->io = (cairn_io){.open = memory_open,
                          .close = memory_close,
                          .pread = memory_pread,
                          .pwrite = memory_pwrite,
                          .truncate = memory_truncate,
                          .file_sync = memory_file_sync,
                          .file_stat = memory_file_stat,
                          .file_lock = memory_file_lock,
                          .rename = memory_rename,
                          .unlink = memory_unlink,
                          .mkdir = memory_mkdir,
                          .rmdir = memory_rmdir,
                          .dir_sync = memory_dir_sync,
                          .list = memory_list,
                          .stat = memory_stat,
                          .space = memory_space};
    disk->mem = mem;
    disk->bytes_max = bytes_max < (UINT64_C(1) << 62) ? bytes_max : UINT64_C(1) << 62;
    disk->root = cairn_disk_node_new(disk, CAIRN_IO_KIND_FOLDER);
    if (disk->root == NULL) {
        cairn_mem_release(mem, disk, sizeof *disk);
        return NULL;
    }
    pthread_mutex_init(&disk->lock, NULL);
    return disk;
}

void cairn_io_memory_free(cairn_io_memory *disk)
{
    if (disk == NULL) {
        return;
    }
    while (disk->first != NULL) {
        cairn_disk_change_remove(disk, disk->first);
    }
    cairn_disk_node_unref(disk, disk->root);
    /* What is left is held by files that were never closed. */
    while (disk->nodes != NULL) {
        disk->nodes->refs = 1;
        cairn_disk_node_unref(disk, disk->nodes);
    }
    pthread_mutex_destroy(&disk->lock);
    cairn_mem_release(disk->mem, disk, sizeof *disk);
}

cairn_io *cairn_io_memory_io(cairn_io_memory *disk)
{
    return &disk->io;
}

uint64_t cairn_io_memory_used_bytes(cairn_io_memory *disk)
{
    pthread_mutex_lock(&disk->lock);
    uint64_t used = disk->used_bytes;
    pthread_mutex_unlock(&disk->lock);
    return used;
}
