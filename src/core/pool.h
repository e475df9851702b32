/*
 * pool - items of one size, named by index, in chunks that never move.
 *
 * Chunks double from 8 items up to 4,096, so a small cache costs little and a large one grows without
 * copying. An item's first four bytes belong to the pool while it is free; items are zeroed when
 * given out. Every chunk is in the ledger before it is allocated.
 *
 * Units    indices are 0-based; CAIRN_NONE is none
 * Owner    the pool owns its chunks; pointers stay valid until the item is given back
 */
#ifndef CAIRN_CORE_POOL_H
#define CAIRN_CORE_POOL_H

#include <stddef.h>

#include "cairn/mem.h"
#include "core/ledger.h"

#define CAIRN_NONE UINT32_MAX

typedef struct cairn_pool {
    const cairn_mem *mem;
    cairn_ledger *ledger;
    size_t item_bytes;
    void **chunks;
    uint32_t count_chunks, room_chunks;
    uint32_t high;      /* items [0, high) were given out at least once                             */
    uint32_t room;      /* items that the chunks hold                                               */
    uint32_t free_head; /* most recently given back, or CAIRN_NONE                                  */
    uint32_t count;     /* items in use                                                             */
} cairn_pool;

/* An empty pool; nothing is allocated. item_bytes >= 4, a multiple of the item's alignment. */
void cairn_pool_init(cairn_pool *pool, const cairn_mem *mem, cairn_ledger *ledger, size_t item_bytes);
void cairn_pool_release(cairn_pool *pool);

/* Make sure that the next `count` calls of cairn_pool_take succeed. */
CAIRN_MUST_CHECK bool cairn_pool_reserve(cairn_pool *pool, uint32_t count);

/* A zeroed item; CAIRN_NONE when there is no room. */
CAIRN_MUST_CHECK uint32_t cairn_pool_take(cairn_pool *pool);
void cairn_pool_give(cairn_pool *pool, uint32_t index);

/* Items of the first chunk, growing chunks, items in those, items of a later chunk. */
enum {
    CAIRN_POOL_FIRST = 8,
    CAIRN_POOL_GROWING = 10,
    CAIRN_POOL_GROWING_ITEMS = 8184,
    CAIRN_POOL_LAST = 4096
};

/* The item; index < high. Inline: every step of every walk is one of these. */
static inline void *cairn_pool_at(const cairn_pool *pool, uint32_t index)
{
    CAIRN_ASSERT(index < pool->high);
    if (index >= CAIRN_POOL_GROWING_ITEMS) {
        uint32_t past = index - CAIRN_POOL_GROWING_ITEMS;
        return (uint8_t *)pool->chunks[CAIRN_POOL_GROWING + past / CAIRN_POOL_LAST] +
               (size_t)(past % CAIRN_POOL_LAST) * pool->item_bytes;
    }
    uint32_t chunk = 31u - (uint32_t)__builtin_clz(index / CAIRN_POOL_FIRST + 1);
    uint32_t first = CAIRN_POOL_FIRST * ((1u << chunk) - 1);
    return (uint8_t *)pool->chunks[chunk] + (size_t)(index - first) * pool->item_bytes;
}

#endif
