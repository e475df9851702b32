/*
 * request_rows - each request of a replay by itself, beside what was recorded: `cairn simulate --requests`.
 *
 * Units    tokens; seconds since the start of the traffic
 * Thread   any; rows belong to one
 */
#ifndef CAIRN_SIM_REQUEST_ROWS_H
#define CAIRN_SIM_REQUEST_ROWS_H

#include "base/buf.h"
#include "replay.h"

typedef struct cairn_request_rows {
    cairn_buf *out; /* borrowed                                                                      */
    bool json;      /* {"requests":[..]} instead of a table                                          */
    const char *workload, *policy; /* of the replay that comes; borrowed                              */
    uint64_t count;
    uint64_t differ;     /* requests that reused another number of tokens than was recorded               */
    cairn_status status; /* the first failure of `out`                                                */
} cairn_request_rows;

/* The replay's watch; ctx is the rows. */
void cairn_request_rows_watch(void *ctx, const cairn_policy_view *view, const cairn_policy_outcome *outcome);

/* After the last replay. Errors: CAIRN_NOMEM, CAIRN_LIMIT, now or earlier. */
CAIRN_MUST_CHECK cairn_status cairn_request_rows_end(cairn_request_rows *rows);

#endif
