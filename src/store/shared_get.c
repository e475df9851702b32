/*
 * shared_get - the way in: which points are there, one of them, its heads, and the bytes of blobs. Everything that comes
 * from the store is checked before it is believed.
 */
#include <string.h>

#include "base/clock.h"
#include "store/blob_seal.h"
#include "store/tier_shared_internal.h"

static const char where_get[] = "store/shared: get";

enum {
    POINT_BYTES_MAX = CAIRN_SHARED_POINT_FIXED_BYTES + CAIRN_SHARED_PARTS_MAX * CAIRN_SHARED_PART_BYTES +
                      CAIRN_SHARED_TAG_BYTES
};

/* Ask for values. Each item's status says how it went when CAIRN_OK came back. */
static cairn_status batch_get(cairn_shared_reader *reader, cairn_kv_item *items, uint32_t count,
                              uint64_t until_ns, cairn_error *reterr)
{
    cairn_error error = {0};
    cairn_kv *kv = reader->kv;
    uint64_t entry = 0;
    cairn_status status = cairn_shared_enter(reader->shared, &entry, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = kv->ops->get(kv, items, count, until_ns, &error);
    cairn_shared_leave(reader->shared, kv, entry, status, &error);
    if (status != CAIRN_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

void cairn_shared_point_drop(cairn_shared_reader *reader, const char *key, uint64_t until_ns)
{
    cairn_error error = {0};
    cairn_kv *kv = reader->kv;
    uint64_t entry = 0;
    cairn_kv_item item = {0};
    memcpy(item.key, key, sizeof item.key);
    if (cairn_shared_enter(reader->shared, &entry, NULL) == CAIRN_OK) {
        cairn_shared_leave(reader->shared, kv, entry, kv->ops->drop(kv, &item, 1, until_ns, &error), &error);
    }
}

/* What is wrong is of no use to anybody: away with it. */
static cairn_status damaged(cairn_shared_reader *reader, const char *key, uint64_t until_ns, const char *what,
                            cairn_error *reterr)
{
    cairn_error error = {0};
    (void)cairn_error_set(&error, CAIRN_CORRUPT, where_get, "%s", what);
    cairn_shared_trouble(reader->shared, &reader->shared->stats.damaged, &error);
    cairn_shared_point_drop(reader, key, until_ns);
    if (reterr != NULL) {
        *reterr = error;
    }
    return CAIRN_CORRUPT;
}

cairn_status cairn_shared_ask(cairn_shared_reader *reader, const char (*keys)[CAIRN_KV_KEY_BYTES],
                              uint32_t count, uint64_t until_ns, bool *ret_there, cairn_error *reterr)
{
    cairn_shared *shared = reader->shared;
    cairn_kv *kv = reader->kv;
    uint64_t entry = 0;
    cairn_error error = {0};
    cairn_kv_item *items = cairn_mem_array(shared->mem, count, sizeof *items);
    if (items == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where_get, NULL);
    }
    cairn_status status = cairn_shared_enter(shared, &entry, reterr);
    if (status != CAIRN_OK) {
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) {
        memcpy(items[i].key, keys[i], sizeof items[i].key);
    }
    status = kv->ops->exists(kv, items, count, until_ns, &error);
    cairn_shared_leave(shared, kv, entry, status, &error);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++) {
        ret_there[i] = items[i].status == CAIRN_OK;
    }
    if (status == CAIRN_OK) {
        cairn_shared_count(shared, &shared->stats.asks, 1);
    } else if (reterr != NULL) {
        *reterr = error;
    }
out:
    cairn_mem_array_release(shared->mem, items, count, sizeof *items);
    return status;
}

/* Older than the store was told to keep things? A clock that is behind makes nothing old. */
static bool too_old(const cairn_shared *shared, uint64_t created_s)
{
    int64_t now_s = cairn_clock_wall_seconds(cairn_clock_system());
    return now_s > 0 && (uint64_t)now_s > created_s && (uint64_t)now_s - created_s > shared->ttl_s;
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one question
cairn_status cairn_shared_point_get(cairn_shared_reader *reader, const cairn_shared_space *space,
                                    const char *key, uint32_t parts_room, uint64_t until_ns,
                                    cairn_shared_point *ret_point, cairn_error *reterr)
{
    cairn_shared *shared = reader->shared;
    cairn_kv_item item = {.room_bytes = POINT_BYTES_MAX};
    cairn_error error = {0};
    uint64_t begin_ns = cairn_clock_now_ns(cairn_clock_system());
    memcpy(item.key, key, sizeof item.key);
    item.bytes = cairn_mem_alloc(shared->mem, POINT_BYTES_MAX);
    cairn_status status = item.bytes != NULL ? batch_get(reader, &item, 1, until_ns, reterr)
                                             : cairn_error_set(reterr, CAIRN_NOMEM, where_get, NULL);
    if (status != CAIRN_OK) {
        goto out;
    }
    cairn_shared_saw_trip(shared, cairn_clock_now_ns(cairn_clock_system()) - begin_ns);
    status = item.status;
    if (status == CAIRN_OK) {
        status = cairn_shared_point_read(space, cairn_shared_key(shared), item.bytes, item.size_bytes,
                                         parts_room, ret_point, &error);
    }
    if (status == CAIRN_CORRUPT || status == CAIRN_LIMIT) {
        status = damaged(reader, key, until_ns, "a point that fails its check", reterr);
    } else if (status == CAIRN_OK && too_old(shared, ret_point->created_s)) {
        status = cairn_error_set(reterr, CAIRN_NOTFOUND, where_get, "too old");
    } else if (status == CAIRN_OK) {
        cairn_shared_count(shared, &shared->stats.points, 1);
    } else if (reterr != NULL) {
        *reterr = error;
    }
out:
    cairn_mem_release(shared->mem, item.bytes, POINT_BYTES_MAX);
    return status;
}

cairn_status cairn_shared_forgotten(cairn_shared_reader *reader, const cairn_shared_space *space,
                                    uint64_t until_ns, uint64_t *ret_forgotten_s, cairn_error *reterr)
{
    uint8_t bytes[CAIRN_SHARED_MARKER_BYTES];
    cairn_kv_item item = {.bytes = bytes, .room_bytes = sizeof bytes};
    cairn_status status = cairn_shared_marker_key(space, item.key);
    if (status == CAIRN_OK) {
        status = batch_get(reader, &item, 1, until_ns, reterr);
    }
    if (status != CAIRN_OK || item.status == CAIRN_NOTFOUND) {
        return status != CAIRN_OK ? status : CAIRN_NOTFOUND;
    }
    if (item.status != CAIRN_OK || cairn_shared_marker_read(space, cairn_shared_key(reader->shared), bytes,
                                                            item.size_bytes, ret_forgotten_s) != CAIRN_OK) {
        *ret_forgotten_s = UINT64_MAX;
    }
    return CAIRN_OK;
}

/* --- heads ---------------------------------------------------------------------------------------------------- */

/* Is this the head that the part's name speaks of? */
static cairn_status head_check(cairn_shared *shared, const cairn_shared_space *space,
                               const cairn_shared_part *part, cairn_shared_head *head, uint64_t count,
                               cairn_error *reterr)
{
    char name[CAIRN_BLOB_NAME_BYTES];
    if (count < CAIRN_BLOB_FIXED_BYTES + CAIRN_SHARED_TAG_BYTES ||
        !cairn_shared_tag_fits(cairn_shared_key(shared), head->bytes, count)) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, where_get, "a head that fails its check");
    }
    cairn_status status =
        cairn_blob_header_read(head->bytes, CAIRN_BLOB_SIZE_UNKNOWN, &head->meta, &head->layout, reterr);
    if (status == CAIRN_OK && count != head->layout.header_bytes + CAIRN_SHARED_TAG_BYTES) {
        status = cairn_error_set(reterr, CAIRN_CORRUPT, where_get, "a head of another length");
    }
    if (status == CAIRN_OK) {
        status = cairn_blob_header_check(head->bytes, &head->layout, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_blob_name(&head->meta, name);
    bool sealed = (head->meta.flags & CAIRN_BLOB_ENCRYPTED) != 0;
    bool same = strcmp(name, part->name) == 0 && head->meta.begin == part->begin &&
                head->meta.end == part->end && sealed == shared->encrypted &&
                memcmp(head->meta.space.bytes, space->shown.bytes, CAIRN_NAMESPACE_BYTES) == 0 &&
                memcmp(head->meta.fingerprint, space->fingerprint, CAIRN_FINGERPRINT_BYTES) == 0;
    return same ? CAIRN_OK : cairn_error_set(reterr, CAIRN_CORRUPT, where_get, "a head of another blob");
}

void cairn_shared_heads_release(cairn_shared *shared, cairn_shared_head *heads, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        cairn_mem_release(shared->mem, heads[i].bytes, heads[i].room);
        heads[i].bytes = NULL;
    }
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one question
static cairn_status heads_take(cairn_shared_reader *reader, const cairn_shared_space *space,
                               const cairn_shared_part *parts, uint32_t count, const cairn_kv_item *items,
                               uint64_t until_ns, cairn_shared_head *heads, cairn_error *reterr)
{
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].status == CAIRN_NOTFOUND) {
            return cairn_error_set(reterr, CAIRN_NOTFOUND, where_get, "the store forgot a part of it");
        }
        cairn_error error = {0};
        if (items[i].status != CAIRN_OK || head_check(reader->shared, space, &parts[i], &heads[i],
                                                      items[i].size_bytes, &error) != CAIRN_OK) {
            return damaged(reader, items[i].key, until_ns,
                           error.detail[0] != '\0' ? error.detail : "a head that is too long", reterr);
        }
    }
    return CAIRN_OK;
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one question
cairn_status cairn_shared_heads_get(cairn_shared_reader *reader, const cairn_shared_space *space,
                                    const cairn_shared_part *parts, uint32_t count, uint64_t until_ns,
                                    cairn_shared_head *ret_heads, cairn_error *reterr)
{
    cairn_shared *shared = reader->shared;
    cairn_kv_item *items = cairn_mem_array(shared->mem, count, sizeof *items);
    memset(ret_heads, 0, count * sizeof *ret_heads);
    if (items == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where_get, NULL);
    }
    bool fine = true;
    for (uint32_t i = 0; i < count && fine; i++) {
        cairn_shared_head_key(parts[i].name, items[i].key);
        ret_heads[i].room = cairn_shared_head_room(&parts[i]);
        ret_heads[i].bytes = cairn_mem_alloc(shared->mem, ret_heads[i].room);
        items[i].bytes = ret_heads[i].bytes;
        items[i].room_bytes = ret_heads[i].room;
        fine = items[i].bytes != NULL;
    }
    cairn_status status = fine ? batch_get(reader, items, count, until_ns, reterr)
                               : cairn_error_set(reterr, CAIRN_NOMEM, where_get, NULL);
    if (status == CAIRN_OK) {
        status = heads_take(reader, space, parts, count, items, until_ns, ret_heads, reterr);
    }
    if (status == CAIRN_OK) {
        cairn_shared_count(shared, &shared->stats.heads, count);
    } else {
        cairn_shared_heads_release(shared, ret_heads, count);
    }
    cairn_mem_array_release(shared->mem, items, count, sizeof *items);
    return status;
}

/* --- bytes ---------------------------------------------------------------------------------------------------- */

/* Everything that reading one blob needs. */
typedef struct load_work {
    cairn_shared_reader *reader;
    const cairn_shared_head *head;
    cairn_seal seal;
    char name[CAIRN_BLOB_NAME_BYTES];
} load_work;

/* One piece has come: check it, and put it where it belongs. */
static cairn_status piece_take(load_work *work, uint32_t index, const cairn_kv_item *item, uint8_t *out,
                               cairn_error *reterr)
{
    const cairn_shared_head *head = work->head;
    uint32_t stored = cairn_blob_piece_bytes(&head->meta, &head->layout, index);
    uint8_t check[16];
    if (item->status == CAIRN_NOTFOUND) {
        return cairn_error_set(reterr, CAIRN_NOTFOUND, where_get, "the store forgot a piece");
    }
    if (item->status == CAIRN_OK && item->size_bytes == stored) {
        cairn_blob_check(item->bytes, stored, check);
        if (memcmp(check, cairn_blob_header_piece_check(head->bytes, &head->layout, index), sizeof check) ==
                0 &&
            (work->reader->sealed == NULL ||
             cairn_seal_open_piece(&work->seal, index, item->bytes, stored - CAIRN_BLOB_TAG_BYTES,
                                   out + (uint64_t)index * CAIRN_BLOB_PIECE_BYTES))) {
            return CAIRN_OK;
        }
    }
    return CAIRN_CORRUPT;
}

/* A few pieces at once. */
static cairn_status pieces_get(load_work *work, uint32_t begin, uint32_t count, uint64_t until_ns,
                               uint8_t *out, cairn_error *reterr)
{
    const cairn_shared_head *head = work->head;
    cairn_kv_item items[SHARED_PIECES_AT_ONCE];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = begin + i;
        items[i] = (cairn_kv_item){.room_bytes = cairn_blob_piece_bytes(&head->meta, &head->layout, index)};
        items[i].bytes = work->reader->sealed != NULL
                             ? work->reader->sealed + i * work->reader->shared->piece_room
                             : out + (uint64_t)index * CAIRN_BLOB_PIECE_BYTES;
        cairn_shared_piece_key(work->name, index,
                               cairn_blob_header_piece_check(head->bytes, &head->layout, index),
                               items[i].key);
    }
    cairn_status status = batch_get(work->reader, items, count, until_ns, reterr);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++) {
        status = piece_take(work, begin + i, &items[i], out, reterr);
        if (status == CAIRN_CORRUPT) {
            char key[CAIRN_KV_KEY_BYTES]; /* without its head nobody asks for it again */
            cairn_shared_head_key(work->name, key);
            status = damaged(work->reader, key, until_ns, "a piece that fails its check", reterr);
        }
    }
    return status;
}

/* All pieces, a few at once. Gives how many came whole. */
static uint32_t pieces_load(load_work *work, uint64_t until_ns, uint8_t *out, cairn_status *ret_status,
                            cairn_error *reterr)
{
    uint32_t done = 0, pieces = work->head->layout.count_pieces;
    uint32_t most = work->reader->sealed != NULL ? SHARED_SEALED_IN : SHARED_PIECES_AT_ONCE;
    while (done < pieces && *ret_status == CAIRN_OK) {
        uint32_t count = pieces - done < most ? pieces - done : most;
        *ret_status = pieces_get(work, done, count, until_ns, out, reterr);
        done += *ret_status == CAIRN_OK ? count : 0;
    }
    return done;
}

cairn_status cairn_shared_load(cairn_shared_reader *reader, const cairn_shared_head *head, uint64_t until_ns,
                               uint8_t *out, cairn_error *reterr)
{
    cairn_shared *shared = reader->shared;
    load_work work = {.reader = reader, .head = head};
    cairn_shared_meter meter;
    cairn_status status = CAIRN_OK;
    cairn_shared_load_begin(shared, &meter);
    cairn_blob_name(&head->meta, work.name);
    if (shared->encrypted && cairn_blob_piece_bytes(&head->meta, &head->layout, 0) > shared->piece_room) {
        status = cairn_error_set(reterr, CAIRN_LIMIT, where_get, "larger than was said at open");
    } else if (shared->encrypted &&
               cairn_seal_init(&work.seal, shared->key, head->meta.nonce, head->bytes) != CAIRN_OK) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where_get, NULL);
    }
    uint32_t done = pieces_load(&work, until_ns, out, &status, reterr);
    uint64_t bytes = status == CAIRN_OK ? head->meta.payload_bytes : (uint64_t)done * CAIRN_BLOB_PIECE_BYTES;
    if (status == CAIRN_TIMEOUT && bytes == 0) {
        bytes = 1; /* it was slower than could be measured */
    }
    cairn_shared_load_end(shared, &meter, bytes, status == CAIRN_OK);
    cairn_seal_release(&work.seal);
    return status;
}
