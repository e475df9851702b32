/*
 * tier_shared_internal - what tier_shared.c, shared_put.c and shared_get.c share. Nobody else includes it.
 */
#ifndef CAIRN_STORE_TIER_SHARED_INTERNAL_H
#define CAIRN_STORE_TIER_SHARED_INTERNAL_H

#include <pthread.h>

#include "store/tier_shared.h"

/* Pieces of one blob on their way together. Encrypted ones need a room each beside their place: fewer. */
enum { SHARED_PIECES_AT_ONCE = 4, SHARED_SEALED_IN = 1, SHARED_SEALED_OUT = 2 };

struct cairn_shared_reader {
    cairn_shared *shared;
    cairn_kv *kv;
    uint8_t *sealed; /* uint8_t[SHARED_SEALED_IN][piece_room]; NULL: not encrypted                        */
};

struct cairn_shared {
    const cairn_mem *mem;
    cairn_shared_reader readers[CAIRN_SHARED_READERS];
    cairn_kv *writer;
    uint8_t
        *sealed; /* uint8_t[SHARED_SEALED_OUT][piece_room], the writing side's; NULL: not encrypted      */
    const cairn_mem *room_mem;
    uint64_t piece_room;
    uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES];
    uint8_t key[32];
    bool encrypted;
    uint32_t ttl_s;
    pthread_mutex_t lock; /* over what follows                                                           */
    uint64_t retry_ns;    /* while stats.broken: not before                                              */
    double speed;         /* bytes per ns, as measured last; 0: never                                    */
    uint64_t speed_ns;    /* when that was                                                               */
    double trip_ns;       /* a question and a short answer, as measured last                             */
    uint32_t loading;     /* loads under way                                                             */
    uint64_t busy_now_ns; /* until when busy_ns is counted                                               */
    double busy_ns;       /* time in which loads were under way, divided by their number                 */
    cairn_shared_stats stats;
};

/* The store's key, or NULL. */
const uint8_t *cairn_shared_key(const cairn_shared *shared);

/*
 * May the store be asked now? CAIRN_BUSY: not yet. What came of it is then told to leave, with what enter gave: failures of
 * calls that were under way together are one reason to leave the store alone, not several.
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_enter(cairn_shared *shared, uint64_t *ret_entry,
                                                 cairn_error *reterr);
void cairn_shared_leave(cairn_shared *shared, const cairn_kv *kv, uint64_t entry, cairn_status status,
                        const cairn_error *error);

/* Count something: a counter of stats. trouble also keeps the error. */
void cairn_shared_count(cairn_shared *shared, uint64_t *counter, uint64_t by);
void cairn_shared_trouble(cairn_shared *shared, uint64_t *counter, const cairn_error *error);

/* A short answer took so long. */
void cairn_shared_saw_trip(cairn_shared *shared, uint64_t cost_ns);

/*
 * One load is measured. Several share the line: each is charged the time in which it was under way, divided by how many were,
 * so that the charges of all add up to the time that passed.
 */
typedef struct cairn_shared_meter {
    uint64_t begin_ns;
    double busy_ns;
} cairn_shared_meter;
void cairn_shared_load_begin(cairn_shared *shared, cairn_shared_meter *ret_meter);
/* So many bytes came: a whole blob, or only the beginning of one. */
void cairn_shared_load_end(cairn_shared *shared, const cairn_shared_meter *meter, uint64_t bytes, bool whole);

#endif
