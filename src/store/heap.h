/*
 * heap - one ceiling over everything that a cache holds in memory, counted before it is allocated.
 *
 *   ram_bytes_max  +------------------------------------------------------------+
 *                  | tables (index, entries) | blobs: settled | reserved ...    |
 *                  +------------------------------------------------------------+
 *                    through `mem`             through cairn_heap_alloc
 *
 * Blobs are refused when the sum of all would pass the ceiling. Tables are counted but not refused: they
 * are small, their owners have limits of their own, and losing an index entry would orphan its blob.
 *
 * A large blob has pages of its own (mmap), so that shrinking and freeing it give memory back at once; a
 * small one comes from the ordinary allocator. Fresh pages cost more than the copy that fills them, so a few
 * blocks of one size, that of a state, stay with the heap when they are freed, and are made ahead in idle
 * moments. They are counted, and are the first to go when something else needs the room.
 *
 * Units    bytes, as asked for (a page-backed block counts whole pages)
 * Owner    the caller owns the struct; `under` is borrowed and outlives it
 * Thread   one thread at a time
 * See      docs/internals/cache.md
 */
#ifndef CAIRN_STORE_HEAP_H
#define CAIRN_STORE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "cairn/mem.h"

enum {
    CAIRN_HEAP_MAP_BYTES_MIN = 1 << 20, /* blocks from here on have pages of their own */
    CAIRN_HEAP_SPARES_MAX = 4
};

typedef struct cairn_heap {
    cairn_mem mem; /* a table that counts here; give its address to what must be counted */
    cairn_mem *under;
    uint64_t bytes_max;
    uint64_t bytes; /* held now: tables and blocks */
    uint64_t bytes_peak;
    uint64_t block_bytes; /* of `bytes`, those in blocks */
    uint64_t spare_bytes; /* of `bytes`, those in spares */
    uint64_t refusals;    /* blocks that did not fit */
    uint64_t map_bytes_min;
    uint64_t page_bytes;
    uint64_t spare_room_bytes; /* of each spare; 0: none are kept */
    uint32_t count_spares, count_spares_max;
    uint8_t *spares[CAIRN_HEAP_SPARES_MAX]; /* uint8_t[spare_room_bytes] each, their pages written before */
} cairn_heap;

/* Bytes of one blob. The caller owns it; empty when bytes is NULL. */
typedef struct cairn_block {
    uint8_t *bytes;
    uint64_t room_bytes; /* what is counted for it */
    bool mapped;
} cairn_block;

/*
 * Set up an empty heap.
 *
 *   under          [in]  where memory comes from; borrowed
 *   bytes_max      [in]  the ceiling
 *   map_bytes_min  [in]  0: CAIRN_HEAP_MAP_BYTES_MIN; UINT64_MAX: everything from `under` (for fault tests)
 */
void cairn_heap_init(cairn_heap *heap, cairn_mem *under, uint64_t bytes_max, uint64_t map_bytes_min);

/* Let the spares go and check that everything was given back. */
void cairn_heap_release(cairn_heap *heap);

/* Another ceiling. What is held beyond it stays, but for spares. */
void cairn_heap_limit(cairn_heap *heap, uint64_t bytes_max);

/*
 * Keep up to `count` (at most CAIRN_HEAP_SPARES_MAX) spares for blocks of size_bytes from now on. Blocks
 * without pages of their own need none.
 */
void cairn_heap_spare(cairn_heap *heap, uint64_t size_bytes, uint32_t count);

/* Make one spare ahead, if one is missing and fits. Gives true when it did. Cost: its pages are written. */
bool cairn_heap_warm(cairn_heap *heap);

/* What a block of size_bytes would be counted as. */
uint64_t cairn_heap_room(const cairn_heap *heap, uint64_t size_bytes);

/*
 * A block of at least size_bytes (> 0); its bytes are not set.
 *
 * Errors   CAIRN_NOSPACE  the ceiling; CAIRN_NOMEM  the machine
 * Cost     O(1); pages are faulted in when they are written
 */
CAIRN_MUST_CHECK cairn_status cairn_heap_alloc(cairn_heap *heap, uint64_t size_bytes, cairn_block *ret_block,
                                               cairn_error *reterr);

/*
 * Give back what lies beyond size_bytes (0 < size_bytes <= room_bytes). Can't fail: where the heap won't
 * shrink a block it stays as large as it was, and counted so.
 */
void cairn_heap_shrink(cairn_heap *heap, cairn_block *block, uint64_t size_bytes);

/* Give all of it back; an empty block is allowed. The block is empty then. */
void cairn_heap_free(cairn_heap *heap, cairn_block *block);

#endif
