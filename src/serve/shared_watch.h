/*
 * shared_watch - what the server says about the store that it shares with others: a trouble once when it begins and once
 * when it ends, the numbers for metrics and pages.
 *
 * Thread   look: the scheduler's; json: any
 */
#ifndef CAIRN_SHARED_WATCH_H
#define CAIRN_SHARED_WATCH_H

#include <jansson.h>

#include "serve/scheduler.h"

typedef struct cairn_shared_watch {
    uint64_t failures, damaged, full; /* as they were seen last                                          */
    uint64_t worked;                  /* what had gone well then                                         */
    bool failing;                     /* told, and not yet over                                          */
} cairn_shared_watch;

/* Log a change of state, hand the numbers to the metrics. Gives ns until idle work is due again; 0: it is not. */
uint64_t cairn_shared_watch_look(cairn_shared_watch *watch, const cairn_scheduler_options *options);

/* The tier for GET /cairn/cache. The caller owns it. */
json_t *cairn_shared_watch_json(const cairn_cache_shared_stats *stats);

#endif
