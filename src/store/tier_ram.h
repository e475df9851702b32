/*
 * tier_ram - blobs in memory, under the ceiling of a heap.
 *
 * The engine writes into the store's own memory and reads from it: a blob is reserved at its largest
 * size, filled in place, and settled at its real size, so that nothing is copied twice.
 *
 *   reserve(id, room) --> filling --settle(id, size)--> settled --pin--> read in place --unpin-->
 *                            |                             |
 *                            +------------- drop ----------+--> gone (when pinned: at the last unpin)
 *
 * A digest takes longer than the copy itself, so it is not made while somebody waits: tending, in idle
 * moments, makes it for new blobs and compares it once a round for the others. A damaged blob is never given
 * out again. Bytes that leave for a place where they outlive this process are compared once more on the way
 * (cairn_tier_ram_pin_unread).
 *
 * Units    bytes
 * Owner    the tier owns all bytes; pointers are borrowed until settle, or until unpin
 * Thread   one thread at a time
 * Caveats  a pinned blob that was dropped is still counted until its last unpin
 * See      store/heap.h, docs/internals/cache.md
 */
#ifndef CAIRN_STORE_TIER_RAM_H
#define CAIRN_STORE_TIER_RAM_H

#include "store/heap.h"
#include "store/tier.h"

typedef struct cairn_tier_ram cairn_tier_ram;

/*
 * An empty tier.
 *
 *   heap   [in]  counts and limits all that the tier holds; borrowed, outlives it
 *
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_tier_ram_new(cairn_heap *heap, cairn_tier_ram **ret_ram,
                                                 cairn_error *reterr);

/* Drop everything. No blob may be pinned. NULL is allowed. */
void cairn_tier_ram_free(cairn_tier_ram *ram);

/* The same tier as a table; closing it frees the tier. */
cairn_tier *cairn_tier_ram_as_tier(cairn_tier_ram *ram);

/*
 * An upper bound of what a blob reserved with room_bytes adds to the heap beyond its bytes, before and
 * after it is settled: its entry, its share of the table whenever that grows or shrinks, and whole pages.
 */
uint64_t cairn_tier_ram_overhead(const cairn_tier_ram *ram, uint64_t room_bytes);

/* The sum of what settle gave for the blobs that are here: not those being filled, nor those dropped while read. O(n). */
uint64_t cairn_tier_ram_held(const cairn_tier_ram *ram);

/* What the tier's own tables take, entries included. */
uint64_t cairn_tier_ram_table_bytes(const cairn_tier_ram *ram);

/*
 * Make room for a blob that is about to be filled.
 *
 *   id          [in]   new, not 0
 *   room_bytes  [in]   > 0; counted from now on
 *   ret_bytes   [out]  uint8_t[room_bytes], not set; borrowed until settle or drop
 *
 * Errors   CAIRN_NOSPACE (the heap's ceiling), CAIRN_NOMEM, CAIRN_EXISTS
 * Cost     O(1)
 */
CAIRN_MUST_CHECK cairn_status cairn_tier_ram_reserve(cairn_tier_ram *ram, cairn_tier_id id,
                                                     uint64_t room_bytes, uint8_t **ret_bytes,
                                                     cairn_error *reterr);

/*
 * The reserved blob is filled: its first size_bytes (> 0) are the blob, the rest is given back.
 *
 * After    the blob can be pinned. Gives the bytes now held for it, entry and table share included:
 *          at most size_bytes + cairn_tier_ram_overhead(room_bytes)
 * Cost     O(1)
 */
uint64_t cairn_tier_ram_settle(cairn_tier_ram *ram, cairn_tier_id id, uint64_t size_bytes);
/* The same where who filled the blob has made its digest: cairn_tier_ram_digest. */
uint64_t cairn_tier_ram_settle_as(cairn_tier_ram *ram, cairn_tier_id id, uint64_t size_bytes,
                                  uint64_t digest);

/*
 * Borrow a settled blob's bytes: uint8_t[*ret_size], until the matching unpin.
 *
 * Errors   CAIRN_NOTFOUND; CAIRN_CORRUPT: found damaged (not pinned then; it stays until it is dropped)
 * Cost     O(1)
 */
CAIRN_MUST_CHECK cairn_status cairn_tier_ram_pin(cairn_tier_ram *ram, cairn_tier_id id,
                                                 const uint8_t **ret_bytes, uint64_t *ret_size,
                                                 cairn_error *reterr);
/*
 * The same with the digest, for who reads the bytes, on any thread, with cairn_tier_ram_digest.
 * Cost     O(1); O(size) where it isn't made yet
 */
CAIRN_MUST_CHECK cairn_status cairn_tier_ram_pin_unread(cairn_tier_ram *ram, cairn_tier_id id,
                                                        const uint8_t **ret_bytes, uint64_t *ret_size,
                                                        uint64_t *ret_digest, cairn_error *reterr);
void cairn_tier_ram_unpin(cairn_tier_ram *ram, cairn_tier_id id);

/*
 * One blob's digest is made, or compared if it was not in this round. Gives false when none is left.
 *
 *   round  [in]  1 or more, never less than before
 *
 * Cost     O(size) of that blob
 */
bool cairn_tier_ram_tend(cairn_tier_ram *ram, uint64_t round);

/* The digest of a blob; a pure function. */
uint64_t cairn_tier_ram_digest(const uint8_t *bytes, uint64_t size_bytes);
/*
 * The same from what a tier that reads blobs has at hand: begin with 0, and add the check (XXH3-128, low half first) of
 * each piece of CAIRN_TIER_PIECE_BYTES.
 */
uint64_t cairn_tier_digest_add(uint64_t digest, const uint8_t check[CAIRN_TIER_CHECK_BYTES]);

/* Forget a blob, settled or not; absent is fine. The number may not be used again while it is pinned. */
void cairn_tier_ram_drop(cairn_tier_ram *ram, cairn_tier_id id);

/* Is a settled blob of this number there, and how large is it? */
bool cairn_tier_ram_has(const cairn_tier_ram *ram, cairn_tier_id id, uint64_t *ret_size);
/* The numbers of settled blobs: fill ids[0, min(room, count)); gives the count. For tools and tests. */
uint64_t cairn_tier_ram_list(const cairn_tier_ram *ram, cairn_tier_id *ids, uint64_t room);
void cairn_tier_ram_stats_get(const cairn_tier_ram *ram, cairn_tier_stats *ret_stats);

/* Check sums, table and digests of all settled blobs, slowly. CAIRN_CORRUPT or CAIRN_INVALID otherwise. */
CAIRN_MUST_CHECK cairn_status cairn_tier_ram_verify(const cairn_tier_ram *ram, cairn_error *reterr);

#endif
