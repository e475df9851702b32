/*
 * tier_file - see the header.
 */
#include "store/tier_file.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { DIR_BYTES = 2048, PATH_BYTES = DIR_BYTES + CAIRN_KV_KEY_BYTES + 32, FOLDERS = 256, AGES = 256 };

#define SECOND_NS   UINT64_C(1000000000)
#define SWEEP_NS    (60 * SECOND_NS)
#define BYTES_MAX   (UINT64_C(20) << 30)
#define LEFTOVER_MS INT64_C(3600000) /* a temporary file this old belongs to nobody                      */

static const char where_file[] = "store/file";

typedef struct file_kv {
    cairn_kv kv;
    const cairn_mem *mem;
    cairn_io *io;
    char dir[DIR_BYTES];
    uint64_t bytes_max;
    uint64_t swept_ns; /* 0: never                                                                       */
    bool made;         /* the directory and tmp/ are there                                               */
} file_kv;

/* DIR/3f/3f5a...c0.h */
static void path_of(const file_kv *files, const char *key, char path[PATH_BYTES])
{
    int length = snprintf(path, PATH_BYTES, "%s/%.2s/%s", files->dir, key, key);
    char *slash = length > 0 ? strrchr(path, '/') : NULL;
    if (slash != NULL) {
        *slash = '.'; /* the one inside the key */
    }
}

static cairn_status dir_make(file_kv *files, cairn_error *reterr)
{
    char path[PATH_BYTES];
    if (files->made) {
        return CAIRN_OK;
    }
    (void)snprintf(path, sizeof path, "%s/tmp", files->dir);
    cairn_status status = cairn_io_mkdir_all(files->io, path, reterr);
    files->made = status == CAIRN_OK;
    return status;
}

/* --- one value ------------------------------------------------------------------------------------------------ */

static cairn_status value_get(file_kv *files, cairn_kv_item *item, cairn_error *reterr)
{
    char path[PATH_BYTES];
    cairn_file *file = NULL;
    cairn_io_stat stat = {0};
    path_of(files, item->key, path);
    item->status = cairn_io_open(files->io, path, CAIRN_IO_READ, &file, reterr);
    if (item->status == CAIRN_OK) {
        item->status = cairn_io_file_stat(file, &stat, reterr);
    }
    if (item->status == CAIRN_OK && stat.size_bytes > item->room_bytes) {
        item->status = CAIRN_LIMIT;
    } else if (item->status == CAIRN_OK) {
        item->size_bytes = stat.size_bytes;
        item->status = cairn_io_pread(file, item->bytes, stat.size_bytes, 0, reterr);
    }
    cairn_io_discard(file);
    if (item->status == CAIRN_CORRUPT) { /* cut short meanwhile: what there is fails its check */
        item->size_bytes = 0;
        item->status = CAIRN_OK;
    }
    return item->status == CAIRN_NOTFOUND || item->status == CAIRN_LIMIT ? CAIRN_OK : item->status;
}

static cairn_status value_write(file_kv *files, const cairn_kv_item *item, const char *temporary,
                                const char *path, cairn_error *reterr)
{
    cairn_file *file = NULL;
    cairn_status status = cairn_io_open(files->io, temporary,
                                        CAIRN_IO_WRITE | CAIRN_IO_CREATE | CAIRN_IO_TRUNCATE, &file, reterr);
    if (status == CAIRN_OK) {
        status = cairn_io_pwrite(file, item->bytes, item->size_bytes, 0, reterr);
        cairn_status closed = cairn_io_close(file, status == CAIRN_OK ? reterr : NULL);
        status = status == CAIRN_OK ? closed : status;
    }
    if (status == CAIRN_OK) {
        status = cairn_io_rename(files->io, temporary, path, NULL);
        if (status == CAIRN_NOTFOUND) { /* its folder is new */
            char folder[PATH_BYTES];
            (void)snprintf(folder, sizeof folder, "%s/%.2s", files->dir, item->key);
            (void)!cairn_io_mkdir(files->io, folder, NULL);
            status = cairn_io_rename(files->io, temporary, path, reterr);
        }
    }
    if (status != CAIRN_OK) {
        (void)!cairn_io_unlink(files->io, temporary, NULL);
    }
    return status;
}

static cairn_status value_put(file_kv *files, cairn_kv_item *item, cairn_error *reterr)
{
    char path[PATH_BYTES], temporary[PATH_BYTES];
    uint64_t number = 0;
    if (RAND_bytes((uint8_t *)&number, sizeof number) != 1) {
        return cairn_error_set(reterr, CAIRN_IO, where_file, "no random bytes");
    }
    path_of(files, item->key, path);
    (void)snprintf(temporary, sizeof temporary, "%s/tmp/%016llx", files->dir, (unsigned long long)number);
    item->status = value_write(files, item, temporary, path, reterr);
    if (item->status == CAIRN_NOTFOUND) { /* the directory was removed while it was used */
        files->made = false;
        item->status = dir_make(files, reterr);
        item->status =
            item->status == CAIRN_OK ? value_write(files, item, temporary, path, reterr) : item->status;
    }
    return item->status == CAIRN_NOSPACE ? CAIRN_OK : item->status;
}

static cairn_status value_exists(file_kv *files, cairn_kv_item *item, cairn_error *reterr)
{
    char path[PATH_BYTES];
    cairn_io_stat stat;
    path_of(files, item->key, path);
    item->status = cairn_io_stat_path(files->io, path, &stat, reterr);
    return item->status == CAIRN_NOTFOUND ? CAIRN_OK : item->status;
}

static cairn_status value_drop(file_kv *files, cairn_kv_item *item, cairn_error *reterr)
{
    char path[PATH_BYTES];
    path_of(files, item->key, path);
    item->status = cairn_io_unlink(files->io, path, reterr);
    item->status = item->status == CAIRN_NOTFOUND ? CAIRN_OK : item->status;
    return item->status;
}

/* --- sweeping ------------------------------------------------------------------------------------------------- */

/* One walk over all values: sums by age, or removes what is older than `limit_ms`. */
typedef struct sweep {
    file_kv *files;
    const char *folder;
    int64_t now_ms, ttl_ms, limit_ms;
    bool removes;
    uint64_t bytes[AGES]; /* of values whose age is in that part of ttl_ms                                */
} sweep;

static bool sweep_one(void *ctx, const char *name)
{
    sweep *s = ctx;
    char path[PATH_BYTES];
    cairn_io_stat stat;
    int length = snprintf(path, sizeof path, "%s/%s/%s", s->files->dir, s->folder, name);
    if (name[0] == '.' || length >= (int)sizeof path ||
        cairn_io_stat_path(s->files->io, path, &stat, NULL) != CAIRN_OK || stat.kind != CAIRN_IO_KIND_FILE) {
        return true;
    }
    int64_t age_ms = s->now_ms - stat.modified_ms; /* below 0: another host's clock is ahead */
    age_ms = age_ms < 0 ? 0 : age_ms;
    if (s->removes && age_ms > s->limit_ms) {
        (void)!cairn_io_unlink(s->files->io, path, NULL);
    } else if (!s->removes) {
        int64_t part = age_ms * AGES / (s->ttl_ms + 1);
        s->bytes[part < AGES ? part : AGES - 1] += stat.size_bytes;
    }
    return true;
}

static cairn_status sweep_walk(sweep *s, cairn_error *reterr)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < FOLDERS; i++) {
        char folder[3] = {digits[i / 16], digits[i % 16], '\0'};
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s/%s", s->files->dir, folder);
        s->folder = folder;
        cairn_status status = cairn_io_list(s->files->io, path, sweep_one, s, reterr);
        if (status != CAIRN_OK && status != CAIRN_NOTFOUND) {
            return status;
        }
    }
    return CAIRN_OK;
}

cairn_status cairn_file_store_sweep(cairn_kv *kv, uint32_t ttl_s, cairn_error *reterr)
{
    file_kv *files = (file_kv *)kv;
    sweep s = {
        .files = files, .now_ms = cairn_clock_wall_ms(cairn_clock_system()), .ttl_ms = (int64_t)ttl_s * 1000};
    cairn_status status = sweep_walk(&s, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    uint64_t sum = 0;
    s.limit_ms = s.ttl_ms;
    for (int i = 0; i < AGES; i++) {
        sum += s.bytes[i];
        if (sum > files->bytes_max) { /* so old, and it would be too much */
            s.limit_ms = s.ttl_ms * i / AGES;
            break;
        }
    }
    s.removes = true;
    status = sweep_walk(&s, reterr);
    s.folder = "tmp";
    s.limit_ms = LEFTOVER_MS;
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/tmp", files->dir);
    return status == CAIRN_OK ? cairn_io_list(files->io, path, sweep_one, &s, reterr) : status;
}

/* --- the table ------------------------------------------------------------------------------------------------ */

typedef cairn_status (*value_fn)(file_kv *files, cairn_kv_item *item, cairn_error *reterr);

static cairn_status each(cairn_kv *kv, value_fn one, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                         cairn_error *reterr)
{
    for (uint32_t i = 0; i < count; i++) {
        items[i].status = CAIRN_CANCELLED;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (cairn_clock_now_ns(cairn_clock_system()) > until_ns || atomic_load(&kv->stop)) {
            return cairn_error_set(reterr, CAIRN_TIMEOUT, where_file, "the directory is slow");
        }
        cairn_status status = one((file_kv *)kv, &items[i], reterr);
        if (status != CAIRN_OK) {
            return status;
        }
    }
    return CAIRN_OK;
}

static cairn_status file_get(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                             cairn_error *reterr)
{
    return each(kv, value_get, items, count, until_ns, reterr);
}

static cairn_status file_put(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint32_t ttl_s,
                             uint64_t until_ns, cairn_error *reterr)
{
    file_kv *files = (file_kv *)kv;
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_status status = dir_make(files, reterr);
    if (status == CAIRN_OK && (files->swept_ns == 0 || now_ns - files->swept_ns > SWEEP_NS)) {
        files->swept_ns = now_ns;
        status = cairn_file_store_sweep(kv, ttl_s, reterr);
    }
    return status == CAIRN_OK ? each(kv, value_put, items, count, until_ns, reterr) : status;
}

static cairn_status file_exists(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                                cairn_error *reterr)
{
    return each(kv, value_exists, items, count, until_ns, reterr);
}

static cairn_status file_drop(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                              cairn_error *reterr)
{
    return each(kv, value_drop, items, count, until_ns, reterr);
}

static void file_close(cairn_kv *kv)
{
    file_kv *files = (file_kv *)kv;
    cairn_mem_release(files->mem, files, sizeof *files);
}

static const cairn_kv_ops file_ops = {.name = "file",
                                      .keys_max = 256,
                                      .get = file_get,
                                      .put = file_put,
                                      .exists = file_exists,
                                      .drop = file_drop,
                                      .close = file_close};

cairn_status cairn_file_store_open(const cairn_mem *mem, cairn_io *io, const cairn_file_options *options,
                                   cairn_kv **ret_kv, cairn_error *reterr)
{
    file_kv *files = cairn_mem_zalloc(mem, sizeof *files);
    if (files == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where_file, NULL);
    }
    files->kv.ops = &file_ops;
    files->mem = mem;
    files->io = io;
    files->bytes_max = options->bytes_max != 0 ? options->bytes_max : BYTES_MAX;
    if (snprintf(files->dir, sizeof files->dir, "%s", options->dir) >= (int)sizeof files->dir) {
        file_close(&files->kv);
        return cairn_error_set(reterr, CAIRN_INVALID, where_file, "the directory's name is too long");
    }
    *ret_kv = &files->kv;
    return CAIRN_OK;
}
