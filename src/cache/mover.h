/*
 * mover - moves bytes between the engine's slots and the memory tier, in place: nothing is copied twice.
 *
 * Decides nothing: what to move comes from the core's actions. Every call either does the whole move or
 * nothing that is kept.
 *
 * An engine whose state holds everything has rows of no bytes. They are kept as one byte, in every tier: that they are
 * there is what has to be known of them.
 *
 * Units    tokens, bytes
 * Owner    engine and tier are borrowed
 * Thread   the thread that owns the engine
 * Errors   CAIRN_NOSPACE   larger than `bytes_max`, or the ceiling is reached
 *          CAIRN_NOTFOUND, CAIRN_CORRUPT   of the tier: the blob isn't there, or fails its check
 *          CAIRN_UNSUPPORTED   the slot has no state at this length
 *          others as the engine gives them; what they leave in the slot is stated in cairn/engine.h
 */
#ifndef CAIRN_CACHE_MOVER_H
#define CAIRN_CACHE_MOVER_H

#include "cairn/engine.h"
#include "store/tier_ram.h"

typedef struct cairn_mover {
    cairn_engine *engine;
    cairn_tier_ram *ram;
} cairn_mover;

/* What a move did. */
typedef struct cairn_moved {
    uint64_t bytes;      /* copied */
    uint64_t held_bytes; /* saves: what the tier holds for the blob now */
} cairn_moved;

/* The state of `slot` at `length`, and its blob. */
typedef struct cairn_mover_state {
    uint32_t slot;
    uint32_t length;
    cairn_tier_id blob;
} cairn_mover_state;

/* Save the state of the slot, whose length it is, as the blob; at most bytes_max may be held for it. */
CAIRN_MUST_CHECK cairn_status cairn_mover_take(const cairn_mover *mover, const cairn_mover_state *state,
                                               uint64_t bytes_max, cairn_moved *ret_moved,
                                               cairn_error *reterr);

/* Set the state of the slot at that length from the blob. */
CAIRN_MUST_CHECK cairn_status cairn_mover_restore(const cairn_mover *mover, const cairn_mover_state *state,
                                                  cairn_moved *ret_moved, cairn_error *reterr);

/* Bytes of rows [begin, end) as a tier has them: as cairn/engine.h, but never 0. */
cairn_rows_size cairn_mover_rows_size(cairn_engine *engine, uint32_t begin, uint32_t end);

/* Rows [begin, end) of a slot, as a tier has them. As rows_export of cairn/engine.h. */
CAIRN_MUST_CHECK cairn_status cairn_mover_rows_export(cairn_engine *engine, uint32_t slot, uint32_t begin,
                                                      uint32_t end, uint8_t *out, uint64_t out_size,
                                                      uint64_t *ret_size);

typedef struct cairn_mover_rows {
    uint32_t slot;
    cairn_tier_id blob;
    uint32_t begin, end;         /* what the blob holds, or shall hold */
    uint32_t use_begin, use_end; /* what is loaded of it */
} cairn_mover_rows;

/* Save rows [begin, end) as `blob`; at most bytes_max may be held for it while it is being written. */
CAIRN_MUST_CHECK cairn_status cairn_mover_save_rows(const cairn_mover *mover, const cairn_mover_rows *rows,
                                                    uint64_t bytes_max, cairn_moved *ret_moved,
                                                    cairn_error *reterr);

/* Append rows [use_begin, use_end) of the blob to the slot. */
CAIRN_MUST_CHECK cairn_status cairn_mover_load_rows(const cairn_mover *mover, const cairn_mover_rows *rows,
                                                    cairn_moved *ret_moved, cairn_error *reterr);

#endif
