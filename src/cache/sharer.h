/*
 * sharer - the cache's side of a store that several servers share: what was read here goes there, and what another
 * has read comes from there, before a prompt is planned.
 *
 *   out   a slot's path in blocks of rows, then its states, then a point for each state --> sender thread --> store
 *   in    a prompt comes --> which of its points are there? --> ADOPT --> FETCH --> the core plans with them
 *                            (receiver thread: ask, heads)                (receiver thread: bytes)
 *
 * The engine's thread never waits for the store: it hands over copies and asks whether something has come. A request
 * that the store is asked for waits until the answer or the deadline, whichever is first; then for the bytes at
 * most as long as reading would take. Both ways are bounded: out by buffers, in by room that the core gave.
 *
 * Units    tokens, bytes, ns
 * Owner    belongs to its cache; the shared tier is the sharer's
 * Thread   the engine's thread calls; threads of the sharer's own talk to the store: one sends, a few receive
 * Errors   none reaches a request: what can't be had is read. The last is told by stats_get
 * See      store/tier_shared.h, docs/format/shared.md
 */
#ifndef CAIRN_CACHE_SHARER_H
#define CAIRN_CACHE_SHARER_H

#include "cairn/cairn.h"
#include "core/core.h"

enum { CAIRN_SHARER_BLOCK_TOKENS = 512 };

typedef struct cairn_sharer cairn_sharer;

/* One request's business with the store. All 0: none. */
typedef struct cairn_share {
    struct sharer_ask *ask; /* NULL: nothing is under way                                              */
    cairn_blob_id
        *blobs; /* cairn_blob_id[count]: what the core calls the blobs; 0: not wanted, or handed over */
    uint32_t count, next;     /* next: the first that was not handed to the receivers                    */
    uint32_t waiting;         /* handed over and not yet taken                                           */
    uint64_t until_ns;        /* later it is not waited for                                              */
    bool fetching;            /* the answer has come; its blobs are on their way                          */
    cairn_reason reason;      /* why nothing came although there may have been something                   */
    uint32_t reason_position; /* which position that is; 0: not known                                    */
} cairn_share;

/*
 * Start the threads; the store is not asked for anything yet.
 *
 *   cache  [in]  borrowed; its tier and engine are there already
 *
 * Errors   as cairn_shared_open; CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_sharer_new(cairn_cache *cache, const cairn_cache_shared *options,
                                               cairn_sharer **ret_sharer, cairn_error *reterr);
/* What is under way is given up; what waits is not sent. NULL is allowed. */
void cairn_sharer_free(cairn_sharer *sharer);

/* What its buffers take. */
uint64_t cairn_sharer_buffer_bytes(cairn_engine *engine, bool encrypted);

/* The slot's path is another, or may have grown: look at it. */
void cairn_sharer_note(cairn_sharer *sharer, uint32_t slot);
/* Hand over as much as there is room for: before a slot becomes another request's. */
void cairn_sharer_rush(cairn_sharer *sharer);
/* What reading cost. */
void cairn_sharer_saw_read(cairn_sharer *sharer, uint32_t tokens, uint64_t cost_ns);

/*
 * Do one bounded piece of work: hand one block, state or point to the sender.
 * Gives    true: there is more to do now; false: all is handed over, or the sender has its hands full
 */
bool cairn_sharer_work(cairn_sharer *sharer);
/* The same beside requests: at most a tenth of the time goes into it. */
void cairn_sharer_behind(cairn_sharer *sharer);

/* Is there a slot that was not looked at to its end? Is the sender busy? */
bool cairn_sharer_noted(const cairn_sharer *sharer);
bool cairn_sharer_sending(cairn_sharer *sharer);
/* Wait until one of the threads has finished something, at most until then (ns of the system's clock). */
void cairn_sharer_wait(cairn_sharer *sharer, uint64_t until_ns);

/*
 * Ask the store what it has of this prompt beyond `resume`.
 *
 *   prompt  [in]  its tokens are borrowed until the share has ended
 *
 * Gives    true: the share is under way, and cairn_sharer_step is to be called; false: nothing to be had
 */
bool cairn_sharer_seek(cairn_sharer *sharer, const cairn_prompt *prompt, uint32_t resume,
                       cairn_share *ret_share);

/*
 * See what has come. With `wait` a moment is waited for it.
 *
 *   ret_bytes [inout]  bytes that were taken into memory are added
 *
 * Gives    true: more is to come; false: the request can be planned
 */
bool cairn_sharer_step(cairn_sharer *sharer, const cairn_prompt *prompt, cairn_share *share, bool wait,
                       uint64_t *ret_bytes);

/* Give up what has not come. */
void cairn_sharer_end(cairn_sharer *sharer, cairn_share *share);

/*
 * Forget a namespace in the store, for all of its servers: soon, the sender does it. NULL: only what is known here of the
 * store; what others share is theirs.
 */
void cairn_sharer_forget(cairn_sharer *sharer, const cairn_namespace *space);

void cairn_sharer_stats_get(cairn_sharer *sharer, cairn_cache_shared_stats *ret_stats);

#endif
