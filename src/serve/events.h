/*
 * events - what is going on, for those who watch: server-sent events for the page, and single pictures of the cache.
 *
 *   GET /cairn/events   event: hello     what doesn't change
 *                       event: state     slots, queue, tiers: when they changed, at most every TICK_MS
 *                       event: requests  records of requests that ended
 *                       event: cache     the tree: when it may have changed, at most every TREE_MS
 *   GET /cairn/cache    one picture, then the answer ends
 *
 * One thread serves all watchers. It asks the scheduler for a copy of the tree (the cache belongs to that thread) and
 * makes JSON of it here. A watcher that reads slowly misses events, never the newest state. Nobody watches: the
 * thread sleeps and the scheduler is not asked.
 *
 * A watcher sees its own API key's requests and slots only; without keys there is one owner, who sees all.
 *
 * Units    ms
 * Owner    borrows the server's parts, which must outlive it
 * Thread   any; one lock
 * See      docs/api.md
 */
#ifndef CAIRN_EVENTS_H
#define CAIRN_EVENTS_H

#include "serve/http.h"
#include "serve/scheduler.h"

enum {
    CAIRN_EVENTS_WATCHERS_MAX = 32,
    CAIRN_EVENTS_TICK_MS = 250,
    CAIRN_EVENTS_TREE_MS = 1000,
    CAIRN_EVENTS_PING_MS = 10000
};

typedef struct cairn_events cairn_events;

typedef struct cairn_events_options {
    const cairn_mem *mem;
    cairn_scheduler *scheduler;
    cairn_metrics *metrics;
    cairn_history *history;
    const cairn_clock *clock;
    const char *model_name;
    uint32_t slot_tokens_max;
    bool keyed; /* API keys are configured: watchers are walled off from each other                 */
} cairn_events_options;

/* Start the thread. Errors: CAIRN_NOMEM, CAIRN_IO. */
CAIRN_MUST_CHECK cairn_status cairn_events_start(const cairn_events_options *options,
                                                 cairn_events **ret_events, cairn_error *reterr);
/*
 * Answer a request with events, or with one picture of the cache and no more (`once`).
 *
 *   owner  [in]  the caller's namespace, without a salt
 *
 * Errors   503 when too many watch already, or when there is no memory
 */
void cairn_events_watch(cairn_events *events, const cairn_namespace *owner, bool once,
                        cairn_http_reply *reply);
/* End all answers and the thread; the scheduler has stopped before. Watchers that are still read are freed later. */
void cairn_events_stop(cairn_events *events);
/* After cairn_http_stop. NULL is allowed. */
void cairn_events_free(cairn_events *events);

#endif
