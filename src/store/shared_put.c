/*
 * shared_put - a blob goes out: its pieces, a few at once, then its head. Then a point, once all it names is there.
 */
#include <openssl/rand.h>
#include <string.h>

#include "base/clock.h"
#include "store/blob_seal.h"
#include "store/tier_shared_internal.h"

static const char where_put[] = "store/shared: put";

/* Everything that writing one blob needs. */
typedef struct put_work {
    cairn_shared *shared;
    cairn_blob_meta meta;
    cairn_blob_layout layout;
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_seal seal;
    uint8_t (*checks)[16]; /* uint8_t[count_pieces][16]                                                  */
    uint8_t *head;         /* uint8_t[header_bytes rounded up, and a tag]                                */
    uint64_t head_room;
} put_work;

/* Ask the store to take a batch. CAIRN_OK: it has all of it. */
static cairn_status batch_put(cairn_shared *shared, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                              cairn_error *reterr)
{
    cairn_error error = {0};
    cairn_kv *kv = shared->writer;
    uint64_t entry = 0;
    cairn_status status = cairn_shared_enter(shared, &entry, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = kv->ops->put(kv, items, count, shared->ttl_s, until_ns, &error);
    cairn_shared_leave(shared, kv, entry, status, &error);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++) {
        if (items[i].status != CAIRN_OK) {
            status = cairn_error_set(&error, items[i].status, where_put,
                                     items[i].status == CAIRN_NOSPACE ? "the store is full" : "refused");
            cairn_shared_trouble(shared, &shared->stats.full, &error);
        }
    }
    if (status != CAIRN_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

static cairn_status work_init(put_work *work, cairn_error *reterr)
{
    cairn_shared *shared = work->shared;
    cairn_status status = cairn_blob_layout_get(&work->meta, &work->layout, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_blob_name(&work->meta, work->name);
    work->head_room = work->layout.data_begin + CAIRN_SHARED_TAG_BYTES;
    work->head = cairn_mem_alloc(shared->mem, work->head_room);
    work->checks = cairn_mem_array(shared->mem, work->layout.count_pieces, sizeof *work->checks);
    if (work->head == NULL || work->checks == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where_put, NULL);
    }
    return !shared->encrypted || cairn_blob_piece_bytes(&work->meta, &work->layout, 0) <= shared->piece_room
               ? CAIRN_OK
               : cairn_error_set(reterr, CAIRN_LIMIT, where_put, "larger than was said at open");
}

static void work_release(put_work *work)
{
    const cairn_mem *mem = work->shared->mem;
    cairn_seal_release(&work->seal);
    cairn_mem_array_release(mem, work->checks, work->layout.count_pieces, sizeof *work->checks);
    cairn_mem_release(mem, work->head, work->head_room);
}

/* One piece as it is stored; `slot` is its place among those on their way. */
static bool piece_make(put_work *work, const uint8_t *payload, uint32_t index, uint32_t slot,
                       cairn_kv_item *item)
{
    const uint8_t *plain = payload + (uint64_t)index * CAIRN_BLOB_PIECE_BYTES;
    uint32_t count = cairn_blob_piece_bytes(&work->meta, &work->layout, index);
    *item = (cairn_kv_item){.bytes = (uint8_t *)plain, .size_bytes = count};
    if (work->shared->sealed != NULL) {
        item->bytes = work->shared->sealed + slot * work->shared->piece_room;
        if (!cairn_seal_close_piece(&work->seal, index, plain, count - CAIRN_BLOB_TAG_BYTES, item->bytes)) {
            return false;
        }
    }
    cairn_blob_check(item->bytes, count, work->checks[index]);
    cairn_shared_piece_key(work->name, index, work->checks[index], item->key);
    return true;
}

static cairn_status pieces_put(put_work *work, const uint8_t *payload, uint64_t until_ns, cairn_error *reterr)
{
    cairn_kv_item items[SHARED_PIECES_AT_ONCE];
    uint32_t most = work->shared->sealed != NULL ? SHARED_SEALED_OUT : SHARED_PIECES_AT_ONCE;
    for (uint32_t done = 0; done < work->layout.count_pieces;) {
        uint32_t count = work->layout.count_pieces - done;
        count = count < most ? count : most;
        for (uint32_t i = 0; i < count; i++) {
            if (!piece_make(work, payload, done + i, i, &items[i])) {
                return cairn_error_set(reterr, CAIRN_NOMEM, where_put, "encryption");
            }
        }
        cairn_status status = batch_put(work->shared, items, count, until_ns, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        done += count;
    }
    return CAIRN_OK;
}

/* Is the blob's head there already? A store that can't say has none. */
static bool head_there(put_work *work, uint64_t until_ns)
{
    cairn_shared *shared = work->shared;
    cairn_kv *kv = shared->writer;
    uint64_t entry = 0;
    cairn_kv_item item = {.status = CAIRN_NOTFOUND};
    cairn_error error = {0};
    cairn_shared_head_key(work->name, item.key);
    if (cairn_shared_enter(shared, &entry, NULL) != CAIRN_OK) {
        return false;
    }
    cairn_status status = kv->ops->exists(kv, &item, 1, until_ns, &error);
    cairn_shared_leave(shared, kv, entry, status, &error);
    return status == CAIRN_OK && item.status == CAIRN_OK;
}

static cairn_status head_put(put_work *work, const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES],
                             const cairn_blob_run *runs, uint64_t until_ns, cairn_error *reterr)
{
    uint32_t count = work->layout.header_bytes;
    cairn_kv_item item = {.bytes = work->head, .size_bytes = count + CAIRN_SHARED_TAG_BYTES};
    cairn_blob_header_write(&work->meta, &work->layout, marks, runs, (const uint8_t(*)[16])work->checks,
                            work->head);
    cairn_status status =
        cairn_shared_tag(cairn_shared_key(work->shared), work->head, count, work->head + count);
    if (status != CAIRN_OK) {
        return cairn_error_set(reterr, status, where_put, NULL);
    }
    cairn_shared_head_key(work->name, item.key);
    return batch_put(work->shared, &item, 1, until_ns, reterr);
}

/* Fill in what a writer adds. */
static cairn_status meta_complete(cairn_shared *shared, const cairn_shared_space *space,
                                  cairn_blob_meta *meta, cairn_error *reterr)
{
    memcpy(meta->fingerprint, space->fingerprint, sizeof meta->fingerprint);
    meta->space = space->shown;
    meta->flags = shared->encrypted ? CAIRN_BLOB_ENCRYPTED : 0;
    int64_t now_s = cairn_clock_wall_seconds(cairn_clock_system());
    meta->created_s = now_s > 0 ? (uint64_t)now_s : 0;
    memset(meta->nonce, 0, sizeof meta->nonce);
    return !shared->encrypted || RAND_bytes(meta->nonce, (int)sizeof meta->nonce) == 1
               ? CAIRN_OK
               : cairn_error_set(reterr, CAIRN_IO, where_put, "no random bytes");
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one blob
cairn_status cairn_shared_put(cairn_shared *shared, const cairn_shared_space *space,
                              const cairn_blob_meta *meta, const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES],
                              const cairn_blob_run *runs, const uint8_t *payload, bool anew,
                              uint64_t until_ns, cairn_error *reterr)
{
    put_work work = {.shared = shared, .meta = *meta};
    cairn_status status = meta_complete(shared, space, &work.meta, reterr);
    if (status == CAIRN_OK) {
        status = work_init(&work, reterr);
    }
    if (status == CAIRN_OK && !anew && head_there(&work, until_ns)) {
        cairn_shared_count(shared, &shared->stats.puts_known, 1);
        goto out;
    }
    if (status == CAIRN_OK && shared->encrypted) {
        /* The fixed part is associated data of the pieces, and doesn't depend on their checks. */
        memset(work.checks, 0, (size_t)work.layout.count_pieces * sizeof *work.checks);
        cairn_blob_header_write(&work.meta, &work.layout, marks, runs, (const uint8_t(*)[16])work.checks,
                                work.head);
        status = cairn_seal_init(&work.seal, shared->key, work.meta.nonce, work.head);
    }
    if (status == CAIRN_OK) {
        status = pieces_put(&work, payload, until_ns, reterr);
    }
    if (status == CAIRN_OK) {
        status = head_put(&work, marks, runs, until_ns, reterr);
    }
    if (status == CAIRN_OK) {
        cairn_shared_count(shared, &shared->stats.puts, 1);
        cairn_shared_count(shared, &shared->stats.put_bytes, meta->payload_bytes);
    }
out:
    work_release(&work);
    return status;
}

cairn_status cairn_shared_forget(cairn_shared *shared, const cairn_shared_space *space, uint64_t until_ns,
                                 cairn_error *reterr)
{
    uint8_t bytes[CAIRN_SHARED_MARKER_BYTES];
    cairn_kv_item item = {.bytes = bytes, .size_bytes = sizeof bytes};
    int64_t now_s = cairn_clock_wall_seconds(cairn_clock_system());
    cairn_status status =
        cairn_shared_marker_write(space, cairn_shared_key(shared), now_s > 0 ? (uint64_t)now_s : 0, bytes);
    if (status == CAIRN_OK) {
        status = cairn_shared_marker_key(space, item.key);
    }
    return status == CAIRN_OK ? batch_put(shared, &item, 1, until_ns, reterr)
                              : cairn_error_set(reterr, status, where_put, NULL);
}

cairn_status cairn_shared_point_put(cairn_shared *shared, const cairn_shared_space *space,
                                    const cairn_shared_point *point, uint64_t until_ns, cairn_error *reterr)
{
    size_t count = cairn_shared_point_bytes(point->count_parts);
    cairn_shared_point dated = *point;
    int64_t now_s = cairn_clock_wall_seconds(cairn_clock_system());
    dated.created_s = now_s > 0 ? (uint64_t)now_s : 0;
    cairn_kv_item item = {.bytes = cairn_mem_alloc(shared->mem, count), .size_bytes = count};
    if (item.bytes == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where_put, NULL);
    }
    cairn_status status = cairn_shared_point_write(space, cairn_shared_key(shared), &dated, item.bytes);
    if (status == CAIRN_OK) {
        status = cairn_shared_point_key(space, &point->path, point->position, point->provenance, item.key);
    }
    if (status == CAIRN_OK) {
        status = batch_put(shared, &item, 1, until_ns, reterr);
    }
    if (status == CAIRN_OK) {
        cairn_shared_count(shared, &shared->stats.points_put, 1);
    }
    cairn_mem_release(shared->mem, item.bytes, count);
    return status;
}
