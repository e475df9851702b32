/*
 * network_view - see the header.
 */
#include "store/network_view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "test_support.h"

enum { PATH_BYTES = 256 };

struct network_seen {
    char path[PATH_BYTES];
    cairn_status status;
    cairn_io_stat stat;
    bool listed;
    char (*names)[PATH_BYTES];
    uint32_t count, room;
};

struct network_file {
    cairn_file base;
    cairn_file *inner;
    char path[PATH_BYTES];
    bool silly; /* removed by this host: to be removed when it is closed                                  */
};

static network_view *view_of(cairn_io *self)
{
    return (network_view *)self;
}

static void path_copy(char to[PATH_BYTES], const char *path)
{
    assert_true(snprintf(to, PATH_BYTES, "%s", path) < PATH_BYTES);
}

/* --- what a folder was ------------------------------------------------------------------------------------------ */

static void seen_free(network_seen *seen)
{
    test_free(seen->names);
    test_free(seen);
}

static bool seen_note(void *ctx, const char *name)
{
    network_seen *seen = ctx;
    if (seen->count < seen->room) {
        path_copy(seen->names[seen->count], name);
    }
    seen->count++;
    return true;
}

/* A folder as this host knows it; looked at now when it isn't known. */
static network_seen *seen_get(network_view *view, const char *path)
{
    for (uint32_t i = 0; i < view->count_seen; i++) {
        if (strcmp(view->seen[i]->path, path) == 0) {
            view->lagged++;
            return view->seen[i];
        }
    }
    network_seen *seen = test_malloc(sizeof *seen);
    memset(seen, 0, sizeof *seen);
    path_copy(seen->path, path);
    seen->status = view->files->stat(view->files, path, &seen->stat, NULL);
    seen->stat.modified_ms -= seen->stat.modified_ms % view->tick_ms;
    if (seen->status == CAIRN_OK && seen->stat.kind == CAIRN_IO_KIND_FOLDER) {
        assert_ok(view->files->list(view->files, path, seen_note, seen, NULL));
        seen->room = seen->count;
        seen->count = 0;
        seen->names = test_malloc((seen->room + 1) * sizeof *seen->names);
        assert_ok(view->files->list(view->files, path, seen_note, seen, NULL));
    }
    assert_true(view->count_seen < NETWORK_SEEN_MAX);
    view->seen[view->count_seen++] = seen;
    return seen;
}

static void seen_drop(network_view *view, const char *path)
{
    for (uint32_t i = 0; i < view->count_seen; i++) {
        if (strcmp(view->seen[i]->path, path) == 0) {
            seen_free(view->seen[i]);
            view->seen[i] = view->seen[--view->count_seen];
            return;
        }
    }
}

/* This host changes a name: of its folder it knows nothing old any more. */
static void changes(network_view *view, const char *path)
{
    char folder[PATH_BYTES];
    path_copy(folder, path);
    seen_drop(view, path);
    char *slash = strrchr(folder, '/');
    assert_non_null(slash);
    slash[slash == folder ? 1 : 0] = '\0';
    seen_drop(view, folder);
}

void network_view_refresh(network_view *view)
{
    while (view->count_seen > 0) {
        seen_free(view->seen[--view->count_seen]);
    }
}

static cairn_status view_stat(cairn_io *self, const char *path, cairn_io_stat *ret_stat, cairn_error *reterr)
{
    network_view *view = view_of(self);
    cairn_status status = view->files->stat(view->files, path, ret_stat, reterr);
    if (status == CAIRN_OK && ret_stat->kind != CAIRN_IO_KIND_FOLDER) {
        return status;
    }
    const network_seen *seen = seen_get(view, path);
    *ret_stat = seen->stat;
    status = seen->status;
    if (!view->lags) {
        seen_drop(view, path);
    }
    return status != CAIRN_OK ? cairn_error_set(reterr, status, "view/stat", "%s", path) : CAIRN_OK;
}

static cairn_status view_list(cairn_io *self, const char *path, cairn_io_list_fn each, void *ctx,
                              cairn_error *reterr)
{
    network_view *view = view_of(self);
    const network_seen *seen = seen_get(view, path);
    cairn_status status = seen->status;
    for (uint32_t i = 0; i < seen->count && each(ctx, seen->names[i]); i++) {
    }
    if (!view->lags) {
        seen_drop(view, path);
    }
    return status != CAIRN_OK ? cairn_error_set(reterr, status, "view/list", "%s", path) : CAIRN_OK;
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static cairn_io *inner_io(cairn_file *file)
{
    return view_of(file->io)->files;
}

static cairn_file *inner_of(cairn_file *file)
{
    return ((network_file *)file)->inner;
}

static bool loses_answer(network_view *view)
{
    bool loses = ++view->changed == view->lose_at;
    view->lost += loses ? 1 : 0;
    return loses;
}

static cairn_status view_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                              cairn_error *reterr)
{
    network_view *view = view_of(self);
    cairn_file *inner = NULL;
    cairn_status status = view->files->open(view->files, path, flags, &inner, reterr);
    if (status == CAIRN_OK && (flags & CAIRN_IO_CREATE) != 0) {
        changes(view, path);
        if (loses_answer(view)) {
            cairn_io_discard(inner);
            status = view->files->open(view->files, path, flags, &inner, reterr);
        }
    }
    if (status != CAIRN_OK) {
        return status;
    }
    network_file *file = test_malloc(sizeof *file);
    *file = (network_file){.base = {.io = self}, .inner = inner};
    path_copy(file->path, path);
    uint32_t at = 0;
    while (at < NETWORK_OPEN_MAX && view->open[at] != NULL) {
        at++;
    }
    assert_true(at < NETWORK_OPEN_MAX);
    view->open[at] = file;
    *ret_file = &file->base;
    return CAIRN_OK;
}

static cairn_status view_close(cairn_file *file, cairn_error *reterr)
{
    network_view *view = view_of(file->io);
    network_file *closed = (network_file *)file;
    cairn_status status = view->files->close(closed->inner, reterr);
    for (uint32_t i = 0; i < NETWORK_OPEN_MAX; i++) {
        view->open[i] = view->open[i] == closed ? NULL : view->open[i];
    }
    if (closed->silly) {
        changes(view, closed->path);
        (void)!view->files->unlink(view->files, closed->path, NULL);
    }
    test_free(closed);
    return status;
}

/* Is it there no more, removed by the other host? */
static bool is_stale(cairn_file *file, cairn_error *reterr)
{
    cairn_io_stat stat;
    network_view *view = view_of(file->io);
    if (view->files->stat(view->files, ((network_file *)file)->path, &stat, NULL) == CAIRN_OK) {
        return false;
    }
    view->stale++;
    (void)cairn_error_set_os(reterr, ESTALE, "view", NULL);
    return true;
}

static cairn_status view_pread(cairn_file *file, void *bytes, size_t len_bytes, uint64_t offset_bytes,
                               size_t *ret_bytes, cairn_error *reterr)
{
    network_view *view = view_of(file->io);
    if (++view->reads == view->remove_at) {
        assert_ok(view->files->unlink(view->files, ((network_file *)file)->path, NULL));
    }
    return is_stale(file, reterr)
               ? CAIRN_IO
               : inner_io(file)->pread(inner_of(file), bytes, len_bytes, offset_bytes, ret_bytes, reterr);
}

static cairn_status view_pwrite(cairn_file *file, const void *bytes, size_t len_bytes, uint64_t offset_bytes,
                                size_t *ret_bytes, cairn_error *reterr)
{
    return is_stale(file, reterr)
               ? CAIRN_IO
               : inner_io(file)->pwrite(inner_of(file), bytes, len_bytes, offset_bytes, ret_bytes, reterr);
}

static cairn_status view_truncate(cairn_file *file, uint64_t size_bytes, cairn_error *reterr)
{
    return inner_io(file)->truncate(inner_of(file), size_bytes, reterr);
}

static cairn_status view_file_sync(cairn_file *file, cairn_error *reterr)
{
    return is_stale(file, reterr) ? CAIRN_IO : inner_io(file)->file_sync(inner_of(file), reterr);
}

static cairn_status view_file_stat(cairn_file *file, cairn_io_stat *ret_stat, cairn_error *reterr)
{
    return is_stale(file, reterr) ? CAIRN_IO : inner_io(file)->file_stat(inner_of(file), ret_stat, reterr);
}

static cairn_status view_file_lock(cairn_file *file, cairn_error *reterr)
{
    (void)file;
    return cairn_error_set_os(reterr, ENOLCK, "view/lock", NULL);
}

/* --- names ------------------------------------------------------------------------------------------------------ */

/* What this host has open at `path` goes on under another name. */
static bool keep_open_ones(network_view *view, const char *path)
{
    for (uint32_t i = 0; i < NETWORK_OPEN_MAX; i++) {
        network_file *file = view->open[i];
        if (file == NULL || strcmp(file->path, path) != 0) {
            continue;
        }
        char kept[PATH_BYTES];
        path_copy(kept, path);
        char *slash = strrchr(kept, '/');
        (void)snprintf(slash + 1, PATH_BYTES - (size_t)(slash + 1 - kept), ".nfs%08x", ++view->silly);
        assert_ok(view->files->rename(view->files, path, kept, NULL));
        path_copy(file->path, kept);
        file->silly = true;
        return true;
    }
    return false;
}

static cairn_status view_rename(cairn_io *self, const char *from, const char *to, cairn_error *reterr)
{
    network_view *view = view_of(self);
    (void)keep_open_ones(view, to);
    cairn_status status = view->files->rename(view->files, from, to, reterr);
    if (status == CAIRN_OK && loses_answer(view)) {
        status = view->files->rename(view->files, from, to, reterr);
    }
    changes(view, from);
    changes(view, to);
    return status;
}

static cairn_status view_unlink(cairn_io *self, const char *path, cairn_error *reterr)
{
    network_view *view = view_of(self);
    changes(view, path);
    if (keep_open_ones(view, path)) {
        return CAIRN_OK;
    }
    cairn_status status = view->files->unlink(view->files, path, reterr);
    if (status == CAIRN_OK && loses_answer(view)) {
        status = view->files->unlink(view->files, path, reterr);
    }
    return status;
}

static cairn_status view_mkdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    network_view *view = view_of(self);
    changes(view, path);
    cairn_status status = view->files->mkdir(view->files, path, reterr);
    if (status == CAIRN_OK && loses_answer(view)) {
        status = view->files->mkdir(view->files, path, reterr);
    }
    return status;
}

static cairn_status view_rmdir(cairn_io *self, const char *path, cairn_error *reterr)
{
    changes(view_of(self), path);
    return view_of(self)->files->rmdir(view_of(self)->files, path, reterr);
}

static cairn_status view_dir_sync(cairn_io *self, const char *path, cairn_error *reterr)
{
    return view_of(self)->files->dir_sync(view_of(self)->files, path, reterr);
}

static cairn_status view_space(cairn_io *self, const char *path, cairn_io_space *ret_space,
                               cairn_error *reterr)
{
    return view_of(self)->files->space(view_of(self)->files, path, ret_space, reterr);
}

void network_view_init(network_view *view, cairn_io *files, int64_t tick_ms)
{
    *view = (network_view){.io = {.open = view_open,
                                  .close = view_close,
                                  .pread = view_pread,
                                  .pwrite = view_pwrite,
                                  .truncate = view_truncate,
                                  .file_sync = view_file_sync,
                                  .file_stat = view_file_stat,
                                  .file_lock = view_file_lock,
                                  .rename = view_rename,
                                  .unlink = view_unlink,
                                  .mkdir = view_mkdir,
                                  .rmdir = view_rmdir,
                                  .dir_sync = view_dir_sync,
                                  .list = view_list,
                                  .stat = view_stat,
                                  .space = view_space},
                           .files = files,
                           .tick_ms = tick_ms};
}

void network_view_release(network_view *view)
{
    for (uint32_t i = 0; i < NETWORK_OPEN_MAX; i++) {
        assert_null(view->open[i]);
    }
    network_view_refresh(view);
}
