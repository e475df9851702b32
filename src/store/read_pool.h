/*
 * read_pool - reads blobs from a tier that takes its time: several at once, beside the thread that wants them.
 *
 *   engine's thread   start, start, start, ...          done? done? help -------> take what came
 *   readers                    | get + digest | get + digest |
 *
 * Who waits may help: it then reads one itself, so that a pool without a single thread works, too.
 *
 * Units    bytes, ns
 * Owner    a cairn_read is the caller's, and may not move from start until it is done or cancelled
 * Thread   any
 * Errors   a read that failed says so in its status; the pool itself cannot fail
 * Cost     two calls of a lock for each read
 * Test     tests/store/test_read_pool.c
 */
#ifndef CAIRN_STORE_READ_POOL_H
#define CAIRN_STORE_READ_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "cairn/mem.h"
#include "cairn/status.h"

enum { CAIRN_READ_THREADS_MAX = 8 };

typedef struct cairn_read_pool cairn_read_pool;
typedef struct cairn_read cairn_read;

/* Fills read->out with read->out_bytes checked bytes; gives their cairn_tier_ram_digest. Called from any thread. */
typedef cairn_status (*cairn_read_fn)(const cairn_read *read, uint64_t *ret_digest);

typedef enum cairn_read_phase {
    CAIRN_READ_NEW = 0, /* not started */
    CAIRN_READ_WAITS,
    CAIRN_READ_RUNS,
    CAIRN_READ_DONE
} cairn_read_phase;

/* One blob to be read. */
struct cairn_read {
    cairn_read_fn get;
    void *source;     /* the tier, for get                                                        */
    const void *blob; /* which one, for get                                                       */
    uint8_t *out;     /* uint8_t[out_bytes]                                                       */
    uint64_t out_bytes;

    cairn_read_phase phase; /* the pool's, as all that follows, until it is done                        */
    cairn_status status;
    uint64_t digest; /* after CAIRN_OK: cairn_tier_ram_digest of out                             */
    uint64_t took_ns;
    cairn_read *next;
};

/*
 * Make a pool. Where threads can't be had it has fewer, or none.
 *
 *   threads  [in]  at most CAIRN_READ_THREADS_MAX
 *
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_read_pool_new(const cairn_mem *mem, unsigned threads,
                                                  cairn_read_pool **ret_pool, cairn_error *reterr);
/* Nothing may be waiting or running. NULL is allowed. */
void cairn_read_pool_free(cairn_read_pool *pool);

/* Put a read, whose first five fields are set, behind the others. */
void cairn_read_start(cairn_read_pool *pool, cairn_read *read);

/* Is it done? Never waits. */
bool cairn_read_done(cairn_read_pool *pool, const cairn_read *read);

/* Bring it to its end: by reading one that waits, and by waiting where it runs elsewhere. */
void cairn_read_help(cairn_read_pool *pool, cairn_read *read);

/* Take it back: one that waits is done at once with CAIRN_CANCELLED; one that runs is waited for. */
void cairn_read_cancel(cairn_read_pool *pool, cairn_read *read);

#endif
