/*
 * ledger - every byte of the memory tier, counted before it exists.
 *
 *   ram_bytes_max  >=  held (stored states and rows)
 *                    + reserved (blobs that are being written)
 *                    + buffer (what one export of rows needs beyond the rows)
 *                    + index (tree, tokens, histories), itself at most index_bytes_max
 *
 * Nothing is allocated or asked for before its bytes are in here, so the sum is the peak, not an
 * average. A new cap may be below the sum: `over` says by how much, and the core drops until it is 0.
 *
 * Units    bytes
 * Thread   the core's
 */
#ifndef CAIRN_CORE_LEDGER_H
#define CAIRN_CORE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cairn_ledger {
    uint64_t bytes_max;
    uint64_t index_bytes_max;
    uint64_t held_state_bytes;
    uint64_t held_row_bytes;
    uint64_t reserved_bytes;
    uint64_t buffer_bytes; /* reserved for transfers now                                           */
    uint32_t buffer_users; /* transfers that share it: they run one after another                  */
    uint64_t index_bytes;
    uint64_t pool_bytes;      /* of them: in pools, which don't shrink                             */
    uint64_t dropping_bytes;  /* released in this step, but not freed before its list is carried out   */
    uint64_t reserving_bytes; /* reserved in this step, to be allocated when its list is carried out   */
    uint64_t peak_bytes;
} cairn_ledger;

/* The index's usual share of a cap: an eighth, of small caps up to a half. */
uint64_t cairn_ledger_index_share(uint64_t bytes_max);

/* An empty ledger under a cap; index_bytes_max 0: the usual share. */
void cairn_ledger_init(cairn_ledger *ledger, uint64_t bytes_max, uint64_t index_bytes_max);

/* The sum of everything. */
uint64_t cairn_ledger_sum(const cairn_ledger *ledger);

/* Would `bytes` more still be under the cap? */
bool cairn_ledger_fits(const cairn_ledger *ledger, uint64_t bytes);

/* Bytes by which the sum is above the cap (after the cap was lowered). */
uint64_t cairn_ledger_over(const cairn_ledger *ledger);

/* Kept free of blobs, so that the index can grow within a step. */
uint64_t cairn_ledger_headroom(const cairn_ledger *ledger);

/* A new step: what was dropped in the last one is free by now. */
void cairn_ledger_step(cairn_ledger *ledger);

/* Count `bytes` for a blob that will be written. False, and nothing counted, when they don't fit. */
bool cairn_ledger_reserve(cairn_ledger *ledger, uint64_t bytes);

/* The blob is not written after all. */
void cairn_ledger_unreserve(cairn_ledger *ledger, uint64_t bytes);

/* The blob is written: `reserved` becomes `held` bytes of states or rows. */
void cairn_ledger_settle(cairn_ledger *ledger, uint64_t reserved, uint64_t held, bool rows);

/* A held blob is dropped. */
void cairn_ledger_release(cairn_ledger *ledger, uint64_t held, bool rows);

/* One more (one less) transfer of rows needs the buffer of `bytes`. */
bool cairn_ledger_buffer_hold(cairn_ledger *ledger, uint64_t bytes);
void cairn_ledger_buffer_release(cairn_ledger *ledger);

/* The tree grows, at once, while what this step drops is still there (shrinks). False when the index or the
 * sum would pass its cap. */
bool cairn_ledger_index_grow(cairn_ledger *ledger, uint64_t bytes);
void cairn_ledger_index_shrink(cairn_ledger *ledger, uint64_t bytes);

/*
 * The same for a pool, whose chunks stay when its items go. Three quarters of the index at most: a crowd of tiny paths must
 * leave room for the tokens of long ones.
 */
bool cairn_ledger_pool_grow(cairn_ledger *ledger, uint64_t bytes);
void cairn_ledger_pool_shrink(cairn_ledger *ledger, uint64_t bytes);

/* Bytes of the index that come back when paths are dropped. */
uint64_t cairn_ledger_index_loose(const cairn_ledger *ledger);

#endif
