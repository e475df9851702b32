/*
 * tier_shared_internal - what tier_shared.c, shared_put.c and shared_get.c share. Nobody else includes it.
 */
#ifndef CAIRN_STORE_TIER_SHARED_INTERNAL_H
#define CAIRN_STORE_TIER_SHARED_INTERNAL_H

#include <pthread.h>

#include "store/tier_shared.h"

enum { SHARED_PIECES_AT_ONCE = 4 };

struct cairn_shared {
    const cairn_mem *mem;
    cairn_kv *kv[CAIRN_SHARED_SIDES]; /* each side has connections of its own                            */
    uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES];
    uint8_t key[32];
    bool encrypted;
    uint32_t ttl_s;
    pthread_mutex_t lock; /* over what follows                                                           */
    uint64_t retry_ns;    /* while stats.broken: not before                                              */
    double speed;         /* bytes per ns, as measured last; 0: never                                    */
    uint64_t speed_ns;    /* when that was                                                               */
    cairn_shared_stats stats;
};

/* The store's key, or NULL. */
const uint8_t *cairn_shared_key(const cairn_shared *shared);

/* May the store be asked now? CAIRN_BUSY: not yet. What came of it is then told to leave. */
CAIRN_MUST_CHECK cairn_status cairn_shared_enter(cairn_shared *shared, cairn_error *reterr);
void cairn_shared_leave(cairn_shared *shared, cairn_shared_side side, cairn_status status,
                        const cairn_error *error);

/* Count something: a counter of stats. trouble also keeps the error. */
void cairn_shared_count(cairn_shared *shared, uint64_t *counter, uint64_t by);
void cairn_shared_trouble(cairn_shared *shared, uint64_t *counter, const cairn_error *error);

/* bytes came in cost_ns: a whole blob, or only the beginning of one. */
void cairn_shared_loaded(cairn_shared *shared, uint64_t bytes, uint64_t cost_ns, bool whole);

#endif
