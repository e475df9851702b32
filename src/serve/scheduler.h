/*
 * scheduler - one thread that owns the engine and the cache, and works on several requests in turns.
 *
 *   submit -> [ queue, at most queue_max ] -> slots -> one round after another:
 *               drop what was cancelled · admit · one step of the cache for all (a piece of each prompt that is read,
 *               a token of each answer that is written) · sample · hand text out
 *
 * Fair: every round moves each admitted request forward by one unit, and in the queue owners take turns (job_queue.h).
 * A cancelled request is dropped before the next round, so within one batch, and what it read stays in the cache.
 * A reader that is slow makes its own request pause (memory stays bounded); after CAIRN_SCHEDULER_STALL_S without
 * any progress the request is cancelled, so that it doesn't keep its slot for ever.
 *
 * Requests that need what a running one is about to read (sub-agents with one cold prompt in front) wait for it, at most
 * CAIRN_SCHEDULER_JOIN_S, and then resume behind it; others go ahead of them meanwhile.
 * While answers are written, prompts beside them are read in pieces so small that the time between two tokens of an
 * answer stays within 3 times of what it is without (see pace.h; not in exact mode, where cuts decide about bits).
 *
 * Units    ns
 * Owner    borrows cache, vocabulary, log, metrics; they must outlive it
 * Thread   submit, gone, counts: any. The engine and the cache belong to the scheduler's thread between start and stop
 * See      docs/ARCHITECTURE.md
 */
#ifndef CAIRN_SCHEDULER_H
#define CAIRN_SCHEDULER_H

#include "base/clock.h"
#include "base/log.h"
#include "engine/llama_vocab.h"
#include "serve/history.h"
#include "serve/job.h"
#include "serve/metrics.h"
#include "serve/recorder.h"

enum { CAIRN_SCHEDULER_STALL_S = 60, CAIRN_SCHEDULER_PING_S = 10, CAIRN_SLOTS_MAX = 256 };
enum { CAIRN_SCHEDULER_JOIN_S = 60, CAIRN_SCHEDULER_JOIN_TOKENS = 64 };

typedef struct cairn_scheduler cairn_scheduler;

typedef struct cairn_scheduler_options {
    const cairn_mem *mem;
    cairn_cache *cache;
    const cairn_llama_vocab *vocab;
    cairn_log *log;
    cairn_metrics *metrics;
    cairn_history *history;
    const cairn_clock *clock;
    uint32_t slots;
    uint32_t slot_tokens_max;
    uint32_t batch_tokens; /* of the engine                                                         */
    uint32_t queue_max;
    uint64_t request_ns;      /* a request that takes longer is ended; 0: however long it takes             */
    uint64_t *sessions;       /* uint64_t[CAIRN_SLOTS_MAX]: who used each slot last; the scheduler's thread */
    bool no_excerpts;         /* records hold no text of prompts                                            */
    cairn_recorder *recorder; /* --trace; NULL: nothing is recorded                                   */
    uint64_t flush_ns; /* after the last request: how long what is on its way to disk may take          */
    /* Called while a long prompt is read, on the scheduler's thread; NULL: not. */
    void (*progress)(void *ctx, uint64_t job, uint32_t done_tokens, uint32_t prompt_tokens);
    void *progress_ctx;
} cairn_scheduler_options;

/* Start the thread. Errors: CAIRN_NOMEM, CAIRN_IO. */
CAIRN_MUST_CHECK cairn_status cairn_scheduler_start(const cairn_scheduler_options *options,
                                                    cairn_scheduler **ret_scheduler, cairn_error *reterr);

/*
 * Take the request in. The scheduler holds a reference until it has ended.
 * Errors  429 with Retry-After when the queue is full and nobody gives way; 503 when the server is stopping
 */
void cairn_scheduler_submit(cairn_scheduler *scheduler, cairn_job *job, cairn_api_error *error);

/* A question to the cache, which only the scheduler's thread may ask. Belongs to the asker, until it is answered. */
typedef struct cairn_scheduler_ask {
    /* Called between two rounds, on the scheduler's thread; keep it short. cache NULL: the server stops. */
    void (*answer)(struct cairn_scheduler_ask *ask, cairn_cache *cache);
    struct cairn_scheduler_ask *next;
} cairn_scheduler_ask;

/* Ask soon. `answer` is called once; on the caller's thread, and with NULL, when the scheduler has ended. */
void cairn_scheduler_ask_cache(cairn_scheduler *scheduler, cairn_scheduler_ask *ask);

/* Somebody cancelled a job, or a full outbox was drained: look again soon. */
void cairn_scheduler_nudge(cairn_scheduler *scheduler);

/* Waiting and active requests now. One whose answer has been given is neither. */
void cairn_scheduler_counts(cairn_scheduler *scheduler, uint32_t *ret_queued, uint32_t *ret_active);

/* One active request, as it was after the last round. One whose answer has been given is not listed any more. */
typedef struct cairn_scheduler_slot {
    uint64_t job;
    cairn_namespace owner; /* see cairn_job.owner                                                   */
    uint32_t slot, prompt_tokens, reused_tokens, done_tokens, answer_tokens;
    uint64_t begun_ns, first_ns; /* slot taken; first token of the answer, 0: not yet               */
} cairn_scheduler_slot;

/* Fill slots[0, count); gives count, at most CAIRN_SLOTS_MAX. */
uint32_t cairn_scheduler_list(cairn_scheduler *scheduler, cairn_scheduler_slot slots[CAIRN_SLOTS_MAX]);

/*
 * Stop: refuse new requests, let those that are there finish for at most drain_ns, cancel the rest, end the thread.
 */
void cairn_scheduler_stop(cairn_scheduler *scheduler, uint64_t drain_ns);
/* After stop. NULL is allowed. */
void cairn_scheduler_free(cairn_scheduler *scheduler);

#endif
