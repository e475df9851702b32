/*
 * disk_watch - what the server says about the cache's disk: a trouble once when it begins and once when it ends, the
 * numbers for metrics and pages, and the last writing before the program ends.
 *
 * Thread   look, flush: the scheduler's; json: any
 */
#ifndef CAIRN_DISK_WATCH_H
#define CAIRN_DISK_WATCH_H

#include <jansson.h>

#include "serve/scheduler.h"

typedef struct cairn_disk_watch {
    uint64_t kept, failures; /* as they were seen last                                                   */
    bool failing;            /* told, and not yet over                                                   */
} cairn_disk_watch;

/* Log a change of state, hand the numbers to the metrics. Gives ns until idle work is due again; 0: it is not. */
uint64_t cairn_disk_watch_look(cairn_disk_watch *watch, const cairn_scheduler_options *options);
/* Write what is worth it, for at most options->flush_ns, and say whether that was all. */
void cairn_disk_watch_flush(cairn_disk_watch *watch, const cairn_scheduler_options *options);
/* The tier for GET /cairn/cache; all 0 when there is none. The caller owns it. */
json_t *cairn_disk_watch_json(const cairn_cache_disk_stats *stats);

#endif
