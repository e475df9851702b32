/*
 * pool - see pool.h. Chunk k < 10 holds 8 << k items, later ones 4,096 each; the first ten hold 8,184.
 */
#include "core/pool.h"

#include <string.h>

static uint32_t chunk_items(uint32_t chunk)
{
    return chunk < CAIRN_POOL_GROWING ? (uint32_t)CAIRN_POOL_FIRST << chunk : (uint32_t)CAIRN_POOL_LAST;
}

void cairn_pool_init(cairn_pool *pool, const cairn_mem *mem, cairn_ledger *ledger, size_t item_bytes)
{
    *pool = (cairn_pool){0};
    pool->mem = mem;
    pool->ledger = ledger;
    pool->item_bytes = item_bytes;
    pool->free_head = CAIRN_NONE;
}

void cairn_pool_release(cairn_pool *pool)
{
    for (uint32_t i = 0; i < pool->count_chunks; i++) {
        size_t bytes = chunk_items(i) * pool->item_bytes;
        cairn_mem_release(pool->mem, pool->chunks[i], bytes);
        cairn_ledger_pool_shrink(pool->ledger, bytes);
    }
    cairn_mem_array_release(pool->mem, pool->chunks, pool->room_chunks, sizeof(void *));
    cairn_ledger_pool_shrink(pool->ledger, pool->room_chunks * sizeof(void *));
    cairn_pool_init(pool, pool->mem, pool->ledger, pool->item_bytes);
}

static bool grow_table(cairn_pool *pool)
{
    if (pool->count_chunks < pool->room_chunks) {
        return true;
    }
    uint32_t room = pool->room_chunks == 0 ? 4 : pool->room_chunks * 2;
    if (!cairn_ledger_pool_grow(pool->ledger, room * sizeof(void *))) {
        return false;
    }
    void **chunks = cairn_mem_array(pool->mem, room, sizeof(void *));
    if (chunks == NULL) {
        cairn_ledger_pool_shrink(pool->ledger, room * sizeof(void *));
        return false;
    }
    if (pool->chunks != NULL) {
        memcpy(chunks, pool->chunks, pool->count_chunks * sizeof(void *));
    }
    cairn_mem_array_release(pool->mem, pool->chunks, pool->room_chunks, sizeof(void *));
    cairn_ledger_pool_shrink(pool->ledger, pool->room_chunks * sizeof(void *));
    pool->chunks = chunks;
    pool->room_chunks = room;
    return true;
}

static bool grow(cairn_pool *pool)
{
    if (!grow_table(pool)) {
        return false;
    }
    uint32_t items = chunk_items(pool->count_chunks);
    size_t bytes = items * pool->item_bytes;
    if (pool->room > CAIRN_NONE - 1 - items || !cairn_ledger_pool_grow(pool->ledger, bytes)) {
        return false;
    }
    void *chunk = cairn_mem_zalloc(pool->mem, bytes);
    if (chunk == NULL) {
        cairn_ledger_pool_shrink(pool->ledger, bytes);
        return false;
    }
    pool->chunks[pool->count_chunks++] = chunk;
    pool->room += items;
    return true;
}

bool cairn_pool_reserve(cairn_pool *pool, uint32_t count)
{
    while (pool->room - pool->count < count) {
        if (!grow(pool)) {
            return false;
        }
    }
    return true;
}

uint32_t cairn_pool_take(cairn_pool *pool)
{
    if (!cairn_pool_reserve(pool, 1)) {
        return CAIRN_NONE;
    }
    uint32_t index = pool->free_head;
    if (index != CAIRN_NONE) {
        memcpy(&pool->free_head, cairn_pool_at(pool, index), sizeof(uint32_t));
    } else {
        index = pool->high++;
    }
    memset(cairn_pool_at(pool, index), 0, pool->item_bytes);
    pool->count++;
    return index;
}

void cairn_pool_give(cairn_pool *pool, uint32_t index)
{
    void *item = cairn_pool_at(pool, index);
    memset(item, 0, pool->item_bytes);
    memcpy(item, &pool->free_head, sizeof(uint32_t));
    pool->free_head = index;
    CAIRN_ASSERT(pool->count > 0);
    pool->count--;
}
