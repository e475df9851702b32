/*
 * cairn - a prompt cache for engines whose sequences can't be rewound.
 *
 * You have an engine (cairn/engine.h) and prompts (cairn/prompt.h). libcairn reads a prompt through the engine, keeps
 * states at chosen positions, and resumes the next prompt from the newest state whose whole path is a prefix of it.
 * You drive it in small steps, so that several requests can share the engine and each can be stopped between two steps.
 *
 *   cairn_request *r;
 *   cairn_cache_begin(cache, &prompt, &r, &err);            plans; nothing is decoded yet
 *   while (cairn_request_phase(r) != CAIRN_PHASE_READY)     restores, then reads batch by batch
 *       if (cairn_cache_step(cache, &r, 1, &err) != CAIRN_OK) break;
 *   while (cairn_request_phase(r) == CAIRN_PHASE_READY) {
 *       token = sample(cairn_request_logits(r));            your sampler
 *       if (done(token)) break;
 *       if (cairn_request_push(r, token) != CAIRN_OK) break;
 *       if (cairn_cache_step(cache, &r, 1, &err) != CAIRN_OK) break;      decodes it; logits are ready again
 *   }
 *   cairn_cache_end(cache, r, CAIRN_END_DONE);              or _STOPPED, _BROKEN: its slot is free, its path is kept
 *   use(cairn_request_record(r));                           what was reused, and why not more
 *   cairn_request_free(r);
 *
 * Units    tokens, bytes, ns
 * Owner    the cache borrows the engine, the allocator and the clock: they must outlive it
 * Thread   one thread for all calls on a cache and its requests: the one that owns the engine. Exceptions say so
 * Errors   a restore that fails falls back to a nearer state, or to reading: you never see it. You see a decode that
 *          failed, a prompt that is too long, a missing slot, and too little memory for the request itself
 * See      docs/embedding.md, examples/embed.c, docs/ARCHITECTURE.md
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

/* A directory for what memory forgets: it survives restarts, crashes and a small ram_bytes_max. */
typedef struct cairn_cache_disk {
    const char *dir;            /* made if it is not there; several processes may share it              */
    uint64_t bytes_max;         /* of all files                                                         */
    uint64_t written_day_bytes; /* most bytes written in a day (UTC); 0: no limit                       */
    const uint8_t *key;         /* uint8_t[32]: encrypt what is written; NULL: don't. Copied            */
    const uint8_t *secret;      /* uint8_t[32], written to dir/namespace.key if that is gone; NULL: none */
    void *io;                   /* a file table (src/base/io.h) for tests; NULL: the machine's files    */
} cairn_cache_disk;

/* A store that several servers share, so that each resumes what another has read. Texts are borrowed for the call. */
typedef struct cairn_cache_shared {
    const char *url;      /* redis://, http://, https://, s3://, file://: docs/guide-operators.md         */
    const uint8_t *key;   /* uint8_t[32]: encrypt what is stored; NULL: don't. Copied                    */
    uint32_t ttl_s;       /* how long what is stored is good for; 0: a day                               */
    uint64_t deadline_ns; /* how long a request waits for the store's answer; for bytes, that much more   */
                          /* than four times what they should take. 0: a quarter of a second            */
    uint64_t bytes_max;   /* file:// only: of the whole directory; 0: 20 GiB                             */
    const char *s3_id, *s3_secret, *s3_token, *s3_region; /* NULL: not given                           */
} cairn_cache_shared;

typedef struct cairn_cache_options {
    uint64_t ram_bytes_max;        /* cap over everything the cache holds in memory, peaks included      */
    uint32_t grid_tokens;          /* reading is cut at multiples of this; 0: the engine's batch size    */
    uint32_t cut_tokens_min;       /* other cuts are at least this far apart; 0: 64                      */
    bool off;                      /* keep nothing, resume nothing; reading is cut the same way          */
    uint64_t map_bytes_min;        /* saved blocks of this size and more get their own pages; 0: 1 MiB   */
    uint64_t (*now_ns)(void *ctx); /* monotonic; NULL: the system's                                      */
    void *now_ctx;
    const cairn_cache_disk *disk;     /* borrowed for the call; NULL: keep nothing on disk             */
    const cairn_cache_shared *shared; /* borrowed for the call; NULL: share nothing                    */
} cairn_cache_options;

/* Where a request is. Only cairn_cache_step, cairn_request_push and cairn_cache_end change it. */
typedef enum cairn_phase {
    CAIRN_PHASE_RESTORE = 0, /* saving what is displaced, putting back what is resumed: step            */
    CAIRN_PHASE_READ = 1,    /* decoding the prompt: step                                               */
    CAIRN_PHASE_READY = 2,   /* logits of the last token are ready: sample and push, or end             */
    CAIRN_PHASE_DECODE = 3,  /* a pushed token waits to be decoded: step                                */
    CAIRN_PHASE_FAILED = 4,  /* the engine failed: end it with CAIRN_END_BROKEN                         */
    CAIRN_PHASE_ENDED = 5    /* its record can still be read: free it                                   */
} cairn_phase;

/* What the cache holds now (the first three lines), and sums since it was made. */
typedef struct cairn_cache_stats {
    uint64_t ram_bytes, ram_bytes_peak, ram_bytes_max;              /* all memory, against its cap   */
    uint64_t index_bytes, states, state_bytes, segments, row_bytes; /* what it is made of            */
    uint64_t namespaces, paths, tokens_known;                       /* the tree; paths: its nodes    */
    uint64_t requests, tokens_prompt, tokens_read, tokens_least, tokens_answer;
    uint64_t states_taken, states_skipped, states_dropped, restores, restores_failed;
} cairn_cache_stats;

/* The disk tier. All 0 when there is none. */
typedef struct cairn_cache_disk_stats {
    uint64_t blobs, states, bytes, bytes_max;
    uint64_t written_today_bytes, written_day_bytes;
    uint64_t kept, fetched, fetched_bytes, fetch_failures, set_aside, evicted;
    uint64_t failures;      /* writes that failed; the cache goes on without them                       */
    cairn_error last_error; /* of the last one                                                          */
    bool waiting;           /* something is on its way to disk, or the disk rests after a failure       */
    uint64_t due_ns;        /* call cairn_cache_idle again in so many ns; 0: no need                    */
} cairn_cache_disk_stats;

/* The shared tier. All 0 when there is none. */
typedef struct cairn_cache_shared_stats {
    bool on, works;        /* works: its last use succeeded                                              */
    uint64_t asked, found; /* requests it was asked about; those it had something for                    */
    uint64_t dearer, late; /* not fetched: reading was faster; the answer took too long                  */
    uint64_t fetched, fetched_bytes, fetch_failures;    /* blobs that came, and that did not                */
    uint64_t sent, sent_bytes, sent_points, known;      /* known: blobs that the store already had          */
    uint64_t dropped;                                   /* paths that were gone before they were sent       */
    uint64_t failures, timeouts, damaged, full, spared; /* spared: not asked, soon after a failure       */
    double bytes_second;                                /* measured speed of fetching                    */
    cairn_error last_error;
    bool waiting;    /* something is to be sent                                                          */
    uint64_t due_ns; /* call cairn_cache_idle again in so many ns; 0: no need                            */
} cairn_cache_shared_stats;

/*
 * Make a cache over an engine.
 *
 *   mem      [in]   where memory comes from; outlives the cache
 *   engine   [in]   outlives the cache; nobody else may use its slots meanwhile
 *   options  [in]   copied
 *
 * After    CAIRN_OK: *ret_cache is yours, until cairn_cache_free. If the disk's directory or the shared store can't
 *          be used, the cache works without; last_error in their stats says why
 * Errors   CAIRN_INVALID (the engine's facts, or the store's URL), CAIRN_UNSUPPORTED (a store that this build can't
 *          reach), CAIRN_NOMEM
 * Cost     opens the directory, reads its small files, starts the tiers' threads
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_new(cairn_mem *mem, cairn_engine *engine,
                                              const cairn_cache_options *options, cairn_cache **ret_cache,
                                              cairn_error *reterr);
/*
 * Free a cache whose requests have all been ended. The engine's slots stay as they are. Call cairn_cache_flush before:
 * what is not on disk yet is lost otherwise. NULL is allowed.
 */
void cairn_cache_free(cairn_cache *cache);

/*
 * Plan a request and take a slot for it.
 *
 *   prompt       [in]   the struct is copied; its tokens and boundaries are borrowed until cairn_cache_end
 *   ret_request  [out]  yours: cairn_cache_end, then cairn_request_free
 *
 * After    CAIRN_OK: the request is in phase RESTORE or READ. Nothing was decoded. States and rows that the slot would
 *          lose and that are worth keeping were saved.
 * Errors   CAIRN_BUSY (no slot is free: try again after an end), CAIRN_LIMIT (longer than a slot), CAIRN_INVALID (no
 *          tokens, boundaries out of order), CAIRN_NOMEM
 * Cost     O(prompt->count) for the lookup, which compares tokens; and the copy of what is saved. See docs/results/bench.md
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_begin(cairn_cache *cache, const cairn_prompt *prompt,
                                                cairn_request **ret_request, cairn_error *reterr);
/*
 * Do one bounded unit of work for each request: one transfer for those in RESTORE, and one decode for all that read or
 * answer together. Requests in READY, FAILED and ENDED are passed over.
 *
 *   requests  [in]  cairn_request *[count], of this cache
 *
 * After    a request whose own decode failed is in phase FAILED. One that only shared a decode with it goes on by itself
 * Errors   that of a request that failed (cairn_request_error says which and why). CAIRN_CANCELLED: the engine was
 *          interrupted; no request failed, and the next steps go on with them
 * Cost     one batch of the engine at most, or one copy of a state or of a stretch of rows
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_step(cairn_cache *cache, cairn_request *const *requests,
                                               uint32_t count, cairn_error *reterr);
/*
 * End a request, in any phase, also to cancel it. What was read stays known, and its slot is free for others. Can't
 * fail; a second call does nothing. The prompt's tokens may be freed afterwards.
 */
void cairn_cache_end(cairn_cache *cache, cairn_request *request, cairn_ending ending);

/*
 * Do a small piece of the work that can wait: check what rests in memory, make room for states ahead of time, hand what
 * the slots hold to the disk's writer and to the shared store. Call it when there is nothing else to do.
 *
 * After    true: there is more to do now. false: nothing is left, or not before due_ns of the tiers' stats
 * Cost     one piece: a state or a block of rows copied, or a blob checked
 */
bool cairn_cache_idle(cairn_cache *cache);
/*
 * Do all of it, before the program ends: until everything is on disk and in the shared store, or `timeout_ns` has passed.
 *
 * After    true: everything is there. false: time was up, or a tier fails
 */
bool cairn_cache_flush(cairn_cache *cache, uint64_t timeout_ns);

/* Where the request is now. */
cairn_phase cairn_request_phase(const cairn_request *request);
/*
 * Logits after the last decoded token: float[vocab_size], borrowed until the next step of the cache. NULL unless the
 * request is READY.
 */
const float *cairn_request_logits(const cairn_request *request);
/*
 * Give the next token of the answer; the next step decodes it. READY becomes DECODE.
 *
 * Errors   CAIRN_INVALID (not READY), CAIRN_LIMIT (the slot is full: end the answer), CAIRN_NOMEM. The phase stays
 */
CAIRN_MUST_CHECK cairn_status cairn_request_push(cairn_request *request, cairn_token token);
/* What was reused and why not more. Valid from begin until free; times and counts grow until the end. */
const cairn_record *cairn_request_record(const cairn_request *request);
/* What was done for it, and when. Valid as long as the record. */
const cairn_timeline *cairn_request_timeline(const cairn_request *request);
/* Why it failed, or why its last push was refused. Valid as long as the record; status is CAIRN_OK while nothing has. */
const cairn_error *cairn_request_error(const cairn_request *request);
/* After cairn_cache_end. NULL is allowed. */
void cairn_request_free(cairn_request *request);

/* Sizes and counts of the cache, of its disk tier and of its shared tier. Cost: copies of a few numbers. */
void cairn_cache_stats_get(const cairn_cache *cache, cairn_cache_stats *ret_stats);
void cairn_cache_disk_stats_get(const cairn_cache *cache, cairn_cache_disk_stats *ret_stats);
void cairn_cache_shared_stats_get(const cairn_cache *cache, cairn_cache_shared_stats *ret_stats);

/* A piece of the tree of known paths: tokens [begin, end), after those of its parent. */
typedef struct cairn_cache_node {
    uint32_t depth; /* 0: the root, [0, 0)                                                   */
    uint32_t begin, end;
    uint32_t count_states; /* saved states on it                                                    */
    uint32_t states[16];   /* positions of the first 16 of them                                     */
    float states_ms[16];   /* what each is expected to save the next request                        */
    uint64_t state_bytes, row_bytes;
    uint32_t rows_covered; /* tokens whose rows are in memory or in a slot                          */
    uint32_t slot;         /* the slot whose path ends here; UINT32_MAX: none                       */
    uint64_t used_ns;      /* when a request last passed, by cairn_cache_clock_ns                   */
} cairn_cache_node;

/*
 * Walk one namespace's tree, parents before children. Changes nothing.
 *
 *   visit  [in]  gives false to stop; must not call the cache; the node is borrowed for the call
 *
 * Cost     O(nodes)
 */
void cairn_cache_walk(const cairn_cache *cache, const cairn_namespace *space,
                      bool (*visit)(void *ctx, const cairn_cache_node *node), void *ctx);

/*
 * The same for what the disk tier holds of a namespace, whether or not it is in memory, too. A node is a piece of a path
 * as files hold it; two that part may begin with the same tokens. Bytes are those of files, used_ns counts from 1970, and
 * what a state saves is not known (0).
 *
 * Thread   any, while the cache lives: only the disk's index is read
 * Errors   CAIRN_NOMEM, CAIRN_IO
 * Cost     O(files of all namespaces)
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_disk_walk(const cairn_cache *cache, const cairn_namespace *space,
                                                    bool (*visit)(void *ctx, const cairn_cache_node *node),
                                                    void *ctx, cairn_error *reterr);

/*
 * When was something of this namespace written to disk? Fills out[0, room), oldest first, and gives the count. The last
 * 256 writes of all namespaces are remembered.
 *
 *   since_ns  [in]  by the system's monotonic clock: only writes that began at that time or later
 *
 * Thread   any, while the cache lives
 */
uint32_t cairn_cache_disk_writes(const cairn_cache *cache, const cairn_namespace *space, uint64_t since_ns,
                                 cairn_span *out, uint32_t room);

/*
 * Where a prompt parts from what is known: how does the known path go on there? Fills out[0, room) and gives the count;
 * 0: nothing known goes on there. Changes nothing.
 *
 *   ret_position  [out]  where it parts
 *
 * Cost     O(prompt->count)
 */
uint32_t cairn_cache_beside(const cairn_cache *cache, const cairn_prompt *prompt, uint32_t *ret_position,
                            cairn_token *out, uint32_t room);

/*
 * How many tokens would this prompt, begun now, read that a running request is about to read as well? 0: there is
 * nothing to wait for. Otherwise, once the other has read them, this prompt resumes behind them. Changes nothing.
 *
 * Cost     that of planning a request
 */
uint32_t cairn_cache_awaits(cairn_cache *cache, const cairn_prompt *prompt);

/*
 * From the next step on, read prompts in pieces of at most `piece_tokens`, so that answers beside a long prompt keep
 * flowing. 0: in whole batches. Exact requests are not affected, since their cuts decide their bits.
 */
void cairn_cache_pace(cairn_cache *cache, uint32_t piece_tokens);

/* Now, by the cache's clock: what used_ns and the times of timelines are compared with. */
uint64_t cairn_cache_clock_ns(const cairn_cache *cache);

/*
 * Forget one namespace, in all tiers; NULL: everything. Running requests keep what they use and leave nothing behind.
 *
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_forget(cairn_cache *cache, const cairn_namespace *space,
                                                 cairn_error *reterr);
/*
 * Change ram_bytes_max. What no longer fits is dropped now; running requests keep what they use.
 *
 * Errors   CAIRN_NOMEM: the cap is as before
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_budget(cairn_cache *cache, uint64_t ram_bytes_max,
                                                 cairn_error *reterr);
/*
 * Check every invariant, slowly; for tests.
 *
 * Errors   CAIRN_INVALID: the detail says what is wrong
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_verify(const cairn_cache *cache, cairn_error *reterr);

/* "0.1.0"; constant. */
const char *cairn_version(void);

#ifdef __cplusplus
}
#endif
#endif
