/*
 * cairn - a prompt cache for engines whose sequences can't be rewound.
 *
 * You have an engine (cairn/engine.h) and prompts (cairn/prompt.h). libcairn reads a prompt through
 * the engine, keeping states at chosen positions, and resumes the next prompt from the newest state
 * whose whole path is a prefix of it. You drive it in small steps, so that several requests can
 * share the engine and any of them can be stopped between two steps.
 *
 *   cairn_request *r;
 *   cairn_cache_begin(cache, &prompt, &r, &err);            plan; nothing was decoded yet
 *   while (cairn_request_phase(r) != CAIRN_PHASE_READY)     restore, then read batch by batch
 *       cairn_cache_step(cache, &r, 1, &err);
 *   for (;;) {
 *       token = sample(cairn_request_logits(r));            your sampler
 *       if (done(token)) break;
 *       cairn_request_push(r, token);
 *       cairn_cache_step(cache, &r, 1, &err);               decodes it; logits are ready again
 *   }
 *   cairn_cache_end(cache, r, CAIRN_END_DONE);              its slot is free, its path is kept
 *   use(cairn_request_record(r));                           what was reused and why not more
 *   cairn_request_free(r);
 *
 * Units    tokens, bytes, ns
 * Owner    the cache borrows the engine and the clock, which must outlive it
 * Thread   all calls on one thread: the one that owns the engine
 * Errors   a failing restore falls back to a nearer state or to reading: never an error to you.
 *          Only a failing decode, a prompt too long and a missing slot are
 * See      docs/ARCHITECTURE.md, docs/embedding.md
 */
#ifndef CAIRN_CAIRN_H
#define CAIRN_CAIRN_H

#include "cairn/engine.h"
#include "cairn/mem.h"
#include "cairn/prompt.h"
#include "cairn/record.h"
#include "cairn/status.h"
#include "cairn/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_cache cairn_cache;
typedef struct cairn_request cairn_request;

/* A directory that keeps what memory forgets: over restarts, crashes and a small ram_bytes_max. */
typedef struct cairn_cache_disk {
    const char *dir;            /* made when it is not there; several processes may share it            */
    uint64_t bytes_max;         /* of all files                                                         */
    uint64_t written_day_bytes; /* written in a day; 0: no limit                                        */
    const uint8_t *key;         /* uint8_t[32]: encrypt what is written; NULL: don't. Copied            */
    const uint8_t *secret;      /* uint8_t[32] to keep as dir/namespace.key when it is gone; NULL: none */
    void *io;                   /* a file table (src/base/io.h) for tests; NULL: the machine's files    */
} cairn_cache_disk;

/* A store that several servers share, so that each resumes what another has read. */
typedef struct cairn_cache_shared {
    const char *url;      /* redis://, http://, https://, s3://, file://: src/store/tier_shared.h         */
    const uint8_t *key;   /* uint8_t[32]: encrypt what is stored; NULL: don't. Copied                    */
    uint32_t ttl_s;       /* how long what is stored is good for; 0: a day                               */
    uint64_t deadline_ns; /* how long a request waits for the store's answer, and for its bytes beyond   */
                          /* four times what they should take; 0: a quarter of a second                 */
    uint64_t bytes_max;   /* file:// only: of the whole directory; 0: 20 GiB                             */
    const char *s3_id, *s3_secret, *s3_token, *s3_region; /* NULL: not given                           */
} cairn_cache_shared;

typedef struct cairn_cache_options {
    uint64_t ram_bytes_max;        /* cap over everything the cache holds in memory, peaks included      */
    uint32_t grid_tokens;          /* 0: the engine's batch size                                         */
    uint32_t cut_tokens_min;       /* 0: 64                                                              */
    bool off;                      /* keep nothing, resume nothing; reading is cut the same way          */
    uint64_t map_bytes_min;        /* saved blocks from here on get pages of their own; 0: 1 MiB         */
    uint64_t (*now_ns)(void *ctx); /* monotonic; NULL: the system's                                 */
    void *now_ctx;
    const cairn_cache_disk *disk;     /* borrowed for the call; NULL: keep nothing on disk             */
    const cairn_cache_shared *shared; /* borrowed for the call; NULL: share nothing                    */
} cairn_cache_options;

typedef enum cairn_phase {
    CAIRN_PHASE_RESTORE = 0, /* saving what is displaced, putting back what is resumed              */
    CAIRN_PHASE_READ = 1,    /* decoding the prompt                                                 */
    CAIRN_PHASE_READY = 2,   /* logits of the last token are ready; push a token                    */
    CAIRN_PHASE_DECODE = 3,  /* a pushed token waits for the next step                              */
    CAIRN_PHASE_FAILED = 4,  /* the engine failed; end it with CAIRN_END_BROKEN                       */
    CAIRN_PHASE_ENDED = 5
} cairn_phase;

typedef struct cairn_cache_stats {
    uint64_t ram_bytes, ram_bytes_peak, ram_bytes_max;
    uint64_t index_bytes, states, state_bytes, segments, row_bytes;
    uint64_t namespaces, paths, tokens_known;
    uint64_t requests, tokens_prompt, tokens_read, tokens_least, tokens_answer;
    uint64_t states_taken, states_skipped, states_dropped, restores, restores_failed;
} cairn_cache_stats;

/* The disk tier. All 0 when there is none. */
typedef struct cairn_cache_disk_stats {
    uint64_t blobs, states, bytes, bytes_max;
    uint64_t written_today_bytes, written_day_bytes;
    uint64_t kept, fetched, fetched_bytes, fetch_failures, set_aside, evicted;
    uint64_t failures;      /* writes that did not work; the server goes on without them                */
    cairn_error last_error; /* of the last of them                                                      */
    bool waiting;           /* something is on its way to disk, or the disk is given a rest             */
    uint64_t due_ns;        /* when cairn_cache_idle is to be called again: ns from now; 0: no need     */
} cairn_cache_disk_stats;

/* The shared tier. All 0 when there is none. */
typedef struct cairn_cache_shared_stats {
    bool on, works;        /* works: its last use did                                        */
    uint64_t asked, found; /* requests it was asked for; those it had something for          */
    uint64_t dearer, late; /* reading was faster; it took too long                           */
    uint64_t fetched, fetched_bytes, fetch_failures; /* blobs that came; that did not                     */
    uint64_t sent, sent_bytes, sent_points, known;   /* known: it had them already                        */
    uint64_t dropped; /* paths that were gone before all of them was sent               */
    uint64_t failures, timeouts, damaged, full, spared; /* spared: not asked, soon after a failure         */
    double bytes_second; /* what it gives, as measured                                     */
    cairn_error last_error;
    bool waiting;    /* something is to be sent                                                          */
    uint64_t due_ns; /* when cairn_cache_idle is to be called again: ns from now; 0: no need             */
} cairn_cache_shared_stats;

/*
 * Make a cache over an engine. Where the disk's directory can't be used the cache is made without it:
 * cairn_cache_disk_stats_get then tells why in last_error.
 *
 * Errors  CAIRN_INVALID (options), CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_new(cairn_mem *mem, cairn_engine *engine,
                                              const cairn_cache_options *options, cairn_cache **ret_cache,
                                              cairn_error *reterr);
/* Every request must have been ended. Slots are left as they are. NULL is allowed. */
void cairn_cache_free(cairn_cache *cache);

/*
 * Plan a request and take a slot for it.
 *
 *   prompt [in]  tokens and boundaries are borrowed until cairn_cache_end
 *
 * After   CAIRN_OK: *ret_request is in phase RESTORE or READ; nothing was decoded.
 * Errors  CAIRN_BUSY (no free slot: try again after an end), CAIRN_LIMIT (longer than a slot),
 *         CAIRN_INVALID, CAIRN_NOMEM
 * Cost    O(prompt->count) and a tree walk; see bench/core
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_begin(cairn_cache *cache, const cairn_prompt *prompt,
                                                cairn_request **ret_request, cairn_error *reterr);
/*
 * Do one bounded unit of work for each request: a transfer, or one decode for all those that read
 * or answer. Requests in READY, FAILED and ENDED are skipped.
 * After   a request whose decode failed is in phase FAILED; others are not affected.
 *         One that only shared a decode with a failing one goes on by itself
 * Errors  that of a request that failed (cairn_request_error tells which and why); CAIRN_CANCELLED when
 *         the engine was interrupted: then no request failed, the next steps go on with them
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_step(cairn_cache *cache, cairn_request *const *requests,
                                               uint32_t count, cairn_error *reterr);
/* End it in any phase. What was read stays known; the slot is free for others. Can't fail. */
void cairn_cache_end(cairn_cache *cache, cairn_request *request, cairn_ending ending);

/*
 * Work that may wait, a small piece of it: checks what rests in memory, makes room ahead for states, hands what the
 * slots hold to the disk's writer. Call it when there is nothing else to do. Gives true while there is more to do at
 * once.
 */
bool cairn_cache_idle(cairn_cache *cache);
/* The same until all is on disk or `timeout_ns` has passed: before the program ends. Gives true when all is. */
bool cairn_cache_flush(cairn_cache *cache, uint64_t timeout_ns);
/* How the disk tier does, and the shared one. */
void cairn_cache_disk_stats_get(const cairn_cache *cache, cairn_cache_disk_stats *ret_stats);
void cairn_cache_shared_stats_get(const cairn_cache *cache, cairn_cache_shared_stats *ret_stats);

/* Where the request is now. */
cairn_phase cairn_request_phase(const cairn_request *request);
/* float[vocab_size] after the last decoded token; borrowed until the next step of the cache. */
const float *cairn_request_logits(const cairn_request *request);
/*
 * The next token of the answer, decoded by the next step. Phase READY only.
 * Errors  CAIRN_INVALID (phase), CAIRN_LIMIT (the slot is full: end the answer)
 */
CAIRN_MUST_CHECK cairn_status cairn_request_push(cairn_request *request, cairn_token token);
/* Valid from begin until free; times and counts grow until the end. */
const cairn_record *cairn_request_record(const cairn_request *request);
/* What was done for it and when; as long as the record. */
const cairn_timeline *cairn_request_timeline(const cairn_request *request);
const cairn_error *cairn_request_error(const cairn_request *request);
/* After cairn_cache_end. NULL is allowed. */
void cairn_request_free(cairn_request *request);

void cairn_cache_stats_get(const cairn_cache *cache, cairn_cache_stats *ret_stats);

/* A piece of the tree of known paths: tokens [begin, end) after those of its parent. */
typedef struct cairn_cache_node {
    uint32_t depth; /* 0: the root, [0, 0)                                                   */
    uint32_t begin, end;
    uint32_t count_states; /* saved states on it                                                    */
    uint32_t states[16];   /* positions of (at most 16 of) them                                     */
    float states_ms[16];   /* what each is expected to save the next request                        */
    uint64_t state_bytes, row_bytes;
    uint32_t rows_covered; /* tokens whose rows are in memory or in a slot                          */
    uint32_t slot;         /* the slot whose path ends here; UINT32_MAX: none                       */
    uint64_t used_ns;      /* when a request last passed                                            */
} cairn_cache_node;

/*
 * Walk one namespace's tree, parents before children. `visit` gives false to stop.
 * Cost     O(nodes), changes nothing; `visit` must not call the cache
 */
void cairn_cache_walk(const cairn_cache *cache, const cairn_namespace *space,
                      bool (*visit)(void *ctx, const cairn_cache_node *node), void *ctx);

/*
 * The same for what the disk tier holds of a namespace, whether it is in memory too or not. Nodes are pieces of paths as
 * files hold them: those that part may begin with the same tokens. Bytes are those of files, `used_ns` counts from 1970, and
 * what states save isn't known (0).
 *
 * Thread   any, while the cache lives: nothing of the cache but the disk's index is looked at
 * Errors   CAIRN_NOMEM, CAIRN_IO
 * Cost     O(files), of all namespaces
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_disk_walk(const cairn_cache *cache, const cairn_namespace *space,
                                                    bool (*visit)(void *ctx, const cairn_cache_node *node),
                                                    void *ctx, cairn_error *reterr);

/*
 * When was something of this namespace written to disk? Fills out[0, room), oldest first, and gives the count. The last 256
 * writes of all namespaces are remembered.
 *
 *   since_ns [in]  by the system's monotonic clock: only writes that began then or later
 *
 * Thread   any, while the cache lives
 */
uint32_t cairn_cache_disk_writes(const cairn_cache *cache, const cairn_namespace *space, uint64_t since_ns,
                                 cairn_span *out, uint32_t room);

/*
 * How does the known path go on where this prompt parts from it? Fills out[0, room) and gives the count; 0: nothing
 * known goes on there.
 *
 *   ret_position [out]  where it parts
 */
uint32_t cairn_cache_beside(const cairn_cache *cache, const cairn_prompt *prompt, uint32_t *ret_position,
                            cairn_token *out, uint32_t room);

/*
 * Would this prompt, begun now, read tokens that a running request is about to read, too? Gives how many: 0 when there
 * is nothing to wait for. Once the other has read them, the prompt resumes behind them. Changes nothing.
 * Cost    that of planning a request
 */
uint32_t cairn_cache_awaits(cairn_cache *cache, const cairn_prompt *prompt);

/*
 * From the next step on, prompts are read in pieces of at most `piece_tokens` tokens; 0: in whole batches. So that
 * answers beside a long prompt keep flowing. Exact requests are not affected: where they are cut decides their bits.
 */
void cairn_cache_pace(cairn_cache *cache, uint32_t piece_tokens);

/* Now, by the cache's clock: what `used_ns` is compared with. */
uint64_t cairn_cache_clock_ns(const cairn_cache *cache);

/* Forget one namespace, or everything when space is NULL. Active requests keep what they use. */
CAIRN_MUST_CHECK cairn_status cairn_cache_forget(cairn_cache *cache, const cairn_namespace *space,
                                                 cairn_error *reterr);
/* Change the cap of memory; what no longer fits is dropped now. Active requests keep what they use. */
CAIRN_MUST_CHECK cairn_status cairn_cache_budget(cairn_cache *cache, uint64_t ram_bytes_max,
                                                 cairn_error *reterr);
/* Check every invariant, slowly; for tests. */
CAIRN_MUST_CHECK cairn_status cairn_cache_verify(const cairn_cache *cache, cairn_error *reterr);

/* "0.1.0" */
const char *cairn_version(void);

#ifdef __cplusplus
}
#endif
#endif
