/*
 * tier - a place where blobs rest, as a table of functions: memory, a disk, a shared store.
 *
 * A blob is bytes under a number. A tier knows nothing of tokens, states or rows. What it answers is whole
 * or absent: bytes that fail their check are CAIRN_CORRUPT, never returned.
 *
 * Units    bytes
 * Owner    who opened the tier closes it; buffers are the caller's and borrowed for the call
 * Thread   as each tier says
 * Errors   a tier that is slow, full or gone fails single calls; the caller treats that as a miss
 * See      tier_ram.h
 */
#ifndef CAIRN_STORE_TIER_H
#define CAIRN_STORE_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "cairn/status.h"

enum { CAIRN_TIER_PIECE_BYTES = 4 << 20, CAIRN_TIER_CHECK_BYTES = 16 };

typedef uint64_t cairn_tier_id; /* names one blob of one tier; 0 is none */

typedef struct cairn_tier cairn_tier;

typedef struct cairn_tier_stats {
    uint64_t blobs;      /* that can be had                                                */
    uint64_t blob_bytes; /* contents, those still read though dropped included             */
    uint64_t held_bytes; /* contents, reservations and the tier's own tables               */
    uint64_t puts, gets, drops;
    uint64_t refused; /* puts that did not fit                                          */
    uint64_t damaged; /* gets whose bytes failed the check                              */
} cairn_tier_stats;

typedef struct cairn_tier_ops {
    const char *name; /* "ram"; constant */
    /*
     * Keep a copy of uint8_t[size] as `id`, which must be new.
     * Errors  CAIRN_NOSPACE (a cap), CAIRN_NOMEM, CAIRN_IO, CAIRN_EXISTS
     */
    cairn_status (*put)(cairn_tier *tier, cairn_tier_id id, const uint8_t *bytes, uint64_t size,
                        cairn_error *reterr);
    /*
     * Copy the blob to out, uint8_t[room]; *ret_size is its size.
     * Errors  CAIRN_NOTFOUND, CAIRN_CORRUPT, CAIRN_LIMIT (room too small), CAIRN_IO, CAIRN_TIMEOUT
     */
    cairn_status (*get)(cairn_tier *tier, cairn_tier_id id, uint8_t *out, uint64_t room, uint64_t *ret_size,
                        cairn_error *reterr);
    /* Is it here, as far as is known without reading it? ret_size may be NULL. */
    bool (*has)(const cairn_tier *tier, cairn_tier_id id, uint64_t *ret_size);
    /* Forget it. One that is absent is no error. */
    void (*drop)(cairn_tier *tier, cairn_tier_id id);
    void (*stats)(const cairn_tier *tier, cairn_tier_stats *ret_stats);
    /* Check every invariant and every blob's bytes, slowly. */
    cairn_status (*verify)(const cairn_tier *tier, cairn_error *reterr);
    /* Give everything back. What a lasting tier holds stays where it is. */
    void (*close)(cairn_tier *tier);
} cairn_tier_ops;

/* The head of every tier; a tier's own struct begins with it. */
struct cairn_tier {
    const cairn_tier_ops *ops;
};

#endif
