/*
 * tier_ram - a table of entries by number over the blocks of a heap. Knows numbers and bytes, not meaning.
 *
 *   buckets  [ 0 ][ 1 ] ... [ 2^k - 1 ]     power of two; between 1/4 and all of it used, 16 at least
 *              |
 *            entry -> entry                 each owns one block of the heap
 */
#include "store/tier_ram.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

enum { BUCKETS_MIN = 16 };

typedef struct entry {
    struct entry *next;
    cairn_tier_id id;
    cairn_block block;
    uint64_t size_bytes; /* of the contents; 0 while they are being filled */
    uint64_t digest;
    uint64_t round; /* of tending: when the digest was made or compared last; 0: there is none yet */
    uint32_t pins;
    bool dropped; /* gone for everybody but those who pinned it */
    bool damaged; /* the digest differed */
} entry;

/* At the moment of doubling each entry has 8 bytes of the old array and 16 of the new; at halving, when a
 * quarter is used, 32 and 16. */
enum { BUCKET_BYTES_ENTRY = 48 };

struct cairn_tier_ram {
    cairn_tier tier;
    cairn_heap *heap;
    entry **buckets;
    uint64_t count_buckets;
    uint64_t count_entries;
    uint64_t count_dropped; /* of them: gone for all but those who pinned them */
    uint64_t blob_bytes;
    uint64_t puts, gets, drops, refused, damaged;
    uint64_t round;         /* the newest round of tending */
    uint64_t tended_bucket; /* where it goes on */
    bool tended;            /* nothing is left to do in that round */
};

static const cairn_tier_ops ram_ops;

static uint64_t fold(uint64_t digest, uint64_t low, uint64_t high)
{
    return cairn_hash_mix(cairn_hash_mix(digest ^ low) ^ high);
}

uint64_t cairn_tier_digest_add(uint64_t digest, const uint8_t check[CAIRN_TIER_CHECK_BYTES])
{
    return fold(digest, cairn_get64(check), cairn_get64(check + 8));
}

uint64_t cairn_tier_ram_digest(const uint8_t *bytes, uint64_t size_bytes)
{
    uint64_t digest = 0;
    for (uint64_t at = 0; at < size_bytes; at += CAIRN_TIER_PIECE_BYTES) {
        uint64_t count = size_bytes - at < CAIRN_TIER_PIECE_BYTES ? size_bytes - at : CAIRN_TIER_PIECE_BYTES;
        cairn_hash128 hash = cairn_hash_bytes(bytes + at, (size_t)count);
        digest = fold(digest, hash.low, hash.high);
    }
    return digest;
}

static void make_digest(const cairn_tier_ram *ram, entry *item)
{
    item->digest = cairn_tier_ram_digest(item->block.bytes, item->size_bytes);
    item->round = ram->round;
}

/* Make the digest where there is none yet, else compare it. False: both were done in this round. */
static bool tend(cairn_tier_ram *ram, entry *item)
{
    if (item->size_bytes == 0 || item->dropped || item->damaged || item->round == ram->round) {
        return false;
    }
    if (item->round == 0) {
        make_digest(ram, item);
        return true;
    }
    item->round = ram->round;
    item->damaged = cairn_tier_ram_digest(item->block.bytes, item->size_bytes) != item->digest;
    ram->damaged += item->damaged;
    return true;
}

bool cairn_tier_ram_tend(cairn_tier_ram *ram, uint64_t round)
{
    CAIRN_ASSERT(round >= ram->round);
    ram->tended = ram->tended && round == ram->round;
    ram->round = round;
    for (uint64_t i = 0; !ram->tended && i < ram->count_buckets; i++) {
        uint64_t bucket = (ram->tended_bucket + i) & (ram->count_buckets - 1);
        for (entry *item = ram->buckets[bucket]; item != NULL; item = item->next) {
            if (tend(ram, item)) {
                ram->tended_bucket = bucket;
                return true;
            }
        }
    }
    ram->tended = true;
    return false;
}

static entry **find_link(const cairn_tier_ram *ram, cairn_tier_id id)
{
    entry **link = &ram->buckets[cairn_hash_mix(id) & (ram->count_buckets - 1)];
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

/* Blobs that others may see: settled and not dropped. */
static entry *find_settled(const cairn_tier_ram *ram, cairn_tier_id id)
{
    entry *found = *find_link(ram, id);
    return found != NULL && found->size_bytes > 0 && !found->dropped ? found : NULL;
}

/* Failing to grow or shrink is harmless: chains get longer, or the array stays large. */
static void rehash(cairn_tier_ram *ram, uint64_t count_buckets)
{
    entry **fresh = cairn_mem_array(&ram->heap->mem, (size_t)count_buckets, sizeof(entry *));
    if (fresh == NULL) {
        return;
    }
    for (uint64_t i = 0; i < ram->count_buckets; i++) {
        while (ram->buckets[i] != NULL) {
            entry *moved = ram->buckets[i];
            ram->buckets[i] = moved->next;
            entry **link = &fresh[cairn_hash_mix(moved->id) & (count_buckets - 1)];
            moved->next = *link;
            *link = moved;
        }
    }
    cairn_mem_array_release(&ram->heap->mem, ram->buckets, (size_t)ram->count_buckets, sizeof(entry *));
    ram->buckets = fresh;
    ram->count_buckets = count_buckets;
}

static void remove_entry(cairn_tier_ram *ram, entry **link)
{
    entry *gone = *link;
    *link = gone->next;
    ram->blob_bytes -= gone->size_bytes;
    ram->count_dropped -= gone->dropped ? 1 : 0;
    cairn_heap_free(ram->heap, &gone->block);
    cairn_mem_release(&ram->heap->mem, gone, sizeof *gone);
    ram->count_entries--;
    if (ram->count_buckets > BUCKETS_MIN && ram->count_entries < ram->count_buckets / 4) {
        rehash(ram, ram->count_buckets / 2);
    }
}

cairn_status cairn_tier_ram_new(cairn_heap *heap, cairn_tier_ram **ret_ram, cairn_error *reterr)
{
    cairn_tier_ram *ram = cairn_mem_zalloc(&heap->mem, sizeof *ram);
    if (ram == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/ram: new", NULL);
    }
    ram->buckets = cairn_mem_array(&heap->mem, BUCKETS_MIN, sizeof(entry *));
    if (ram->buckets == NULL) {
        cairn_mem_release(&heap->mem, ram, sizeof *ram);
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/ram: new", NULL);
    }
    ram->tier.ops = &ram_ops;
    ram->heap = heap;
    ram->count_buckets = BUCKETS_MIN;
    ram->round = 1;
    *ret_ram = ram;
    return CAIRN_OK;
}

void cairn_tier_ram_free(cairn_tier_ram *ram)
{
    if (ram == NULL) {
        return;
    }
    cairn_heap *heap = ram->heap;
    for (uint64_t i = 0; i < ram->count_buckets; i++) {
        while (ram->buckets[i] != NULL) {
            entry *gone = ram->buckets[i];
            CAIRN_ASSERT(gone->pins == 0);
            ram->buckets[i] = gone->next;
            cairn_heap_free(heap, &gone->block);
            cairn_mem_release(&heap->mem, gone, sizeof *gone);
        }
    }
    cairn_mem_array_release(&heap->mem, ram->buckets, (size_t)ram->count_buckets, sizeof(entry *));
    cairn_mem_release(&heap->mem, ram, sizeof *ram);
}

cairn_tier *cairn_tier_ram_as_tier(cairn_tier_ram *ram)
{
    return &ram->tier;
}

uint64_t cairn_tier_ram_overhead(const cairn_tier_ram *ram, uint64_t room_bytes)
{
    bool mapped = room_bytes >= ram->heap->map_bytes_min;
    return sizeof(entry) + BUCKET_BYTES_ENTRY + (mapped ? ram->heap->page_bytes - 1 : 0);
}

uint64_t cairn_tier_ram_held(const cairn_tier_ram *ram)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < ram->count_buckets; i++) {
        for (const entry *item = ram->buckets[i]; item != NULL; item = item->next) {
            bool settled = item->size_bytes > 0 && !item->dropped;
            bytes += settled ? item->block.room_bytes + sizeof(entry) + BUCKET_BYTES_ENTRY : 0;
        }
    }
    return bytes;
}

uint64_t cairn_tier_ram_table_bytes(const cairn_tier_ram *ram)
{
    return sizeof *ram + ram->count_entries * sizeof(entry) + ram->count_buckets * sizeof(entry *);
}

cairn_status cairn_tier_ram_reserve(cairn_tier_ram *ram, cairn_tier_id id, uint64_t room_bytes,
                                    uint8_t **ret_bytes, cairn_error *reterr)
{
    CAIRN_ASSERT(id != 0 && room_bytes > 0);
    if (*find_link(ram, id) != NULL) {
        return cairn_error_set(reterr, CAIRN_EXISTS, "store/ram: reserve", "blob %llu",
                               (unsigned long long)id);
    }
    cairn_block block;
    cairn_status status = cairn_heap_alloc(ram->heap, room_bytes, &block, reterr);
    if (status != CAIRN_OK) {
        ram->refused++;
        return status;
    }
    entry *fresh = cairn_mem_zalloc(&ram->heap->mem, sizeof *fresh);
    if (fresh == NULL) {
        cairn_heap_free(ram->heap, &block);
        ram->refused++;
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/ram: reserve", NULL);
    }
    if (ram->count_entries >= ram->count_buckets) {
        rehash(ram, ram->count_buckets * 2);
    }
    entry **link = find_link(ram, id);
    CAIRN_ASSERT(*link == NULL);
    *fresh = (entry){.id = id, .block = block};
    *link = fresh;
    ram->count_entries++;
    *ret_bytes = block.bytes;
    return CAIRN_OK;
}

static uint64_t settle(cairn_tier_ram *ram, entry *filled, uint64_t size_bytes)
{
    CAIRN_ASSERT(filled != NULL && filled->size_bytes == 0);
    CAIRN_ASSERT(size_bytes > 0 && size_bytes <= filled->block.room_bytes);
    cairn_heap_shrink(ram->heap, &filled->block, size_bytes);
    filled->size_bytes = size_bytes;
    ram->blob_bytes += size_bytes;
    ram->puts++;
    ram->tended = false;
    return filled->block.room_bytes + sizeof(entry) + BUCKET_BYTES_ENTRY;
}

uint64_t cairn_tier_ram_settle(cairn_tier_ram *ram, cairn_tier_id id, uint64_t size_bytes)
{
    return settle(ram, *find_link(ram, id), size_bytes);
}

uint64_t cairn_tier_ram_settle_as(cairn_tier_ram *ram, cairn_tier_id id, uint64_t size_bytes, uint64_t digest)
{
    entry *filled = *find_link(ram, id);
    uint64_t held_bytes = settle(ram, filled, size_bytes);
    filled->digest = digest;
    filled->round = ram->round;
    return held_bytes;
}

cairn_status cairn_tier_ram_pin_unread(cairn_tier_ram *ram, cairn_tier_id id, const uint8_t **ret_bytes,
                                       uint64_t *ret_size, uint64_t *ret_digest, cairn_error *reterr)
{
    entry *found = find_settled(ram, id);
    if (found == NULL) {
        return cairn_error_set(reterr, CAIRN_NOTFOUND, "store/ram: pin", "blob %llu", (unsigned long long)id);
    }
    if (found->damaged) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, "store/ram: pin", "blob %llu of %llu bytes",
                               (unsigned long long)id, (unsigned long long)found->size_bytes);
    }
    if (ret_digest != NULL && found->round == 0) {
        make_digest(ram, found);
    }
    found->pins++;
    ram->gets++;
    *ret_bytes = found->block.bytes;
    *ret_size = found->size_bytes;
    if (ret_digest != NULL) {
        *ret_digest = found->digest;
    }
    return CAIRN_OK;
}

cairn_status cairn_tier_ram_pin(cairn_tier_ram *ram, cairn_tier_id id, const uint8_t **ret_bytes,
                                uint64_t *ret_size, cairn_error *reterr)
{
    return cairn_tier_ram_pin_unread(ram, id, ret_bytes, ret_size, NULL, reterr);
}

void cairn_tier_ram_unpin(cairn_tier_ram *ram, cairn_tier_id id)
{
    entry **link = find_link(ram, id);
    CAIRN_ASSERT(*link != NULL && (*link)->pins > 0);
    (*link)->pins--;
    if ((*link)->dropped && (*link)->pins == 0) {
        remove_entry(ram, link);
    }
}

void cairn_tier_ram_drop(cairn_tier_ram *ram, cairn_tier_id id)
{
    entry **link = find_link(ram, id);
    if (*link == NULL || (*link)->dropped) {
        return;
    }
    ram->drops++;
    if ((*link)->pins > 0) {
        (*link)->dropped = true;
        ram->count_dropped++;
        return;
    }
    remove_entry(ram, link);
}

bool cairn_tier_ram_has(const cairn_tier_ram *ram, cairn_tier_id id, uint64_t *ret_size)
{
    const entry *found = find_settled(ram, id);
    if (found != NULL && ret_size != NULL) {
        *ret_size = found->size_bytes;
    }
    return found != NULL;
}

uint64_t cairn_tier_ram_list(const cairn_tier_ram *ram, cairn_tier_id *ids, uint64_t room)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < ram->count_buckets; i++) {
        for (const entry *item = ram->buckets[i]; item != NULL; item = item->next) {
            bool settled = item->size_bytes > 0 && !item->dropped;
            if (settled && count < room) {
                ids[count] = item->id;
            }
            count += settled;
        }
    }
    return count;
}

void cairn_tier_ram_stats_get(const cairn_tier_ram *ram, cairn_tier_stats *ret_stats)
{
    *ret_stats = (cairn_tier_stats){.blobs = ram->count_entries - ram->count_dropped,
                                    .blob_bytes = ram->blob_bytes,
                                    .held_bytes = ram->heap->block_bytes + cairn_tier_ram_table_bytes(ram),
                                    .puts = ram->puts,
                                    .gets = ram->gets,
                                    .drops = ram->drops,
                                    .refused = ram->refused,
                                    .damaged = ram->damaged};
}

static cairn_status verify_entry(const entry *item, cairn_error *reterr)
{
    if (item->size_bytes > item->block.room_bytes || item->block.bytes == NULL) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/ram: verify", "blob %llu has no room",
                               (unsigned long long)item->id);
    }
    if (item->dropped && item->pins == 0) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/ram: verify", "dropped blob %llu is still here",
                               (unsigned long long)item->id);
    }
    if (item->size_bytes > 0 && item->round > 0 &&
        cairn_tier_ram_digest(item->block.bytes, item->size_bytes) != item->digest) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, "store/ram: verify", "blob %llu",
                               (unsigned long long)item->id);
    }
    return CAIRN_OK;
}

cairn_status cairn_tier_ram_verify(const cairn_tier_ram *ram, cairn_error *reterr)
{
    uint64_t count = 0;
    uint64_t blob_bytes = 0;
    uint64_t room_bytes = 0;
    for (uint64_t i = 0; i < ram->count_buckets; i++) {
        for (const entry *item = ram->buckets[i]; item != NULL; item = item->next) {
            if ((cairn_hash_mix(item->id) & (ram->count_buckets - 1)) != i) {
                return cairn_error_set(reterr, CAIRN_INVALID, "store/ram: verify", "blob %llu is misplaced",
                                       (unsigned long long)item->id);
            }
            cairn_status status = verify_entry(item, reterr);
            if (status != CAIRN_OK) {
                return status;
            }
            count++;
            blob_bytes += item->size_bytes;
            room_bytes += item->block.room_bytes;
        }
    }
    if (count != ram->count_entries || blob_bytes != ram->blob_bytes ||
        room_bytes != ram->heap->block_bytes) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/ram: verify", "sums differ from the entries");
    }
    return CAIRN_OK;
}

/* --- the same as a table ---------------------------------------------------------------------------------- */

static cairn_status ops_put(cairn_tier *tier, cairn_tier_id id, const uint8_t *bytes, uint64_t size,
                            cairn_error *reterr)
{
    cairn_tier_ram *ram = (cairn_tier_ram *)tier;
    if (id == 0 || size == 0) {
        return cairn_error_set(reterr, CAIRN_INVALID, "store/ram: put", NULL);
    }
    uint8_t *room = NULL;
    cairn_status status = cairn_tier_ram_reserve(ram, id, size, &room, reterr);
    if (status == CAIRN_OK) {
        CAIRN_ASSERT(room != NULL);
        memcpy(room, bytes, (size_t)size);
        (void)cairn_tier_ram_settle(ram, id, size);
    }
    return status;
}

static cairn_status ops_get(cairn_tier *tier, cairn_tier_id id, uint8_t *out, uint64_t room,
                            uint64_t *ret_size, cairn_error *reterr)
{
    cairn_tier_ram *ram = (cairn_tier_ram *)tier;
    const uint8_t *bytes = NULL;
    uint64_t size = 0;
    cairn_status status = cairn_tier_ram_pin(ram, id, &bytes, &size, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    if (size > room) {
        status = cairn_error_set(reterr, CAIRN_LIMIT, "store/ram: get", "%llu bytes into %llu",
                                 (unsigned long long)size, (unsigned long long)room);
    } else {
        CAIRN_ASSERT(bytes != NULL);
        memcpy(out, bytes, (size_t)size);
        *ret_size = size;
    }
    cairn_tier_ram_unpin(ram, id);
    return status;
}

static bool ops_has(const cairn_tier *tier, cairn_tier_id id, uint64_t *ret_size)
{
    return cairn_tier_ram_has((const cairn_tier_ram *)tier, id, ret_size);
}

static void ops_drop(cairn_tier *tier, cairn_tier_id id)
{
    cairn_tier_ram_drop((cairn_tier_ram *)tier, id);
}

static void ops_stats(const cairn_tier *tier, cairn_tier_stats *ret_stats)
{
    cairn_tier_ram_stats_get((const cairn_tier_ram *)tier, ret_stats);
}

static cairn_status ops_verify(const cairn_tier *tier, cairn_error *reterr)
{
    return cairn_tier_ram_verify((const cairn_tier_ram *)tier, reterr);
}

static void ops_close(cairn_tier *tier)
{
    cairn_tier_ram_free((cairn_tier_ram *)tier);
}

static const cairn_tier_ops ram_ops = {.name = "ram",
                                       .put = ops_put,
                                       .get = ops_get,
                                       .has = ops_has,
                                       .drop = ops_drop,
                                       .stats = ops_stats,
                                       .verify = ops_verify,
                                       .close = ops_close};
