/*
 * kv - values under keys in a store that is reached over a network, as a table of functions.
 *
 * The smallest thing that Redis, an object store and a plain HTTP store have in common: put a value, get it back, ask
 * whether it is there. A value is at most a few MiB; what is larger is cut into pieces above this table.
 *
 *   key   "3f5a...c0/h": an id, a slash, a part. Parts of one id lie together where a store knows such a thing
 *
 * A call takes a batch, so that a driver can have many values under way at once, and a moment at which it gives up.
 *
 * Units    bytes; ns of the system's monotonic clock; seconds
 * Owner    items and their buffers are the caller's, borrowed for the call
 * Thread   one at a time for each cairn_kv: a thread that wants to ask beside another opens its own
 * Errors   CAIRN_OK: each item's status says how it went. Anything else: the store can't be reached, is too slow
 *          (CAIRN_TIMEOUT), refuses (CAIRN_INVALID) or talks nonsense (CAIRN_CORRUPT): items without an answer have
 *          CAIRN_CANCELLED
 */
#ifndef CAIRN_STORE_KV_H
#define CAIRN_STORE_KV_H

#include <stdatomic.h>
#include <stdint.h>

#include "cairn/mem.h"

enum { CAIRN_KV_KEY_BYTES = 128, CAIRN_KV_BATCH_MAX = 4096 };

typedef struct cairn_kv_item {
    char key[CAIRN_KV_KEY_BYTES];
    uint8_t *bytes;      /* get: room; put: the value; exists: NULL                                      */
    uint64_t size_bytes; /* put: of the value. get, after: of the value                                  */
    uint64_t room_bytes; /* get: more than this is CAIRN_LIMIT                                           */
    cairn_status
        status;         /* get, exists: CAIRN_OK, CAIRN_NOTFOUND. put: CAIRN_OK, CAIRN_NOSPACE, CAIRN_IO    */
    uint32_t driver[2]; /* the driver's own, during a call                                              */
} cairn_kv_item;

typedef struct cairn_kv cairn_kv;

typedef struct cairn_kv_ops {
    const char *name;  /* "redis"; constant */
    uint32_t keys_max; /* asked for in one round trip without making it much longer                       */
    /* Read values into their rooms. */
    cairn_status (*get)(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                        cairn_error *reterr);
    /* Write values, to be forgotten after ttl_s seconds where the store can do that. */
    cairn_status (*put)(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint32_t ttl_s, uint64_t until_ns,
                        cairn_error *reterr);
    /* Are they there? */
    cairn_status (*exists)(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                           cairn_error *reterr);
    /* Remove them; one that isn't there is fine. */
    cairn_status (*drop)(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                         cairn_error *reterr);
    /* Hang up and give everything back. */
    void (*close)(cairn_kv *kv);
} cairn_kv_ops;

/* The head of every driver; a driver's own struct begins with it. */
struct cairn_kv {
    const cairn_kv_ops *ops;
    atomic_bool stop;    /* set by another thread: a call that is under way ends soon, with CAIRN_TIMEOUT  */
    uint64_t reconnects; /* to stores that may lose all they have when they restart                       */
};

#endif
