/*
 * replay - one rule, one traffic, one budget: requests in order on a virtual clock.
 *
 * A request starts when it arrives or when the one before it has been read, whichever is later. Its time to first
 * token is what its own work takes: putting back, saving what is displaced, states taken on the way, reading. Waiting
 * for other requests is not in it, and answers take no time on this clock: neither depends on the rule.
 *
 * Units    tokens; bytes; ns of virtual time
 * Thread   any; a replay belongs to one
 */
#ifndef CAIRN_SIM_REPLAY_H
#define CAIRN_SIM_REPLAY_H

#include "policy.h"

typedef struct cairn_replay_result {
    const char *policy;
    const char *workload;
    const char *profile;
    bool recorded, fleet;
    uint64_t budget_bytes;
    uint64_t requests;
    uint64_t tokens_prompt; /* of all requests                                                      */
    uint64_t tokens_read;
    uint64_t tokens_least; /* what a perfect cache reads                                           */
    uint64_t ttft_p50_ns, ttft_p95_ns;
    uint64_t read_ns; /* time to first token, summed                                          */
    uint64_t held_end, held_peak;
    uint64_t snapshots;
    uint64_t snapshot_ns; /* what taking them cost                                                */
    uint64_t moved_bytes; /* restored and saved                                                   */
    uint64_t digest;      /* of every decision: equal runs have equal digests                     */
} cairn_replay_result;

/* What one request did; for those who want to look closer. */
typedef void (*cairn_replay_watch)(void *ctx, const cairn_policy_view *view,
                                   const cairn_policy_outcome *outcome);

typedef struct cairn_replay_options {
    const cairn_policy *policy;
    const cairn_workload *workload;
    const cairn_profile *profile;
    uint64_t budget_bytes;
    uint32_t slots; /* 0: what the workload is meant for                                            */
    cairn_replay_watch watch; /* NULL: none                                                         */
    void *watch_ctx;
} cairn_replay_options;

/*
 * Replay all requests from an empty cache.
 * Errors  CAIRN_NOMEM; CAIRN_INTERNAL when a rule reused more than is possible, held more than its budget, or the
 *         core broke a promise (the detail says which)
 */
CAIRN_MUST_CHECK cairn_status cairn_replay(const cairn_mem *mem, const cairn_replay_options *options,
                                           cairn_replay_result *ret_result, cairn_error *reterr);

/* tokens_read / tokens_least; 1 - read / prompt; that over the perfect cache's; all 0 when undefined. */
double cairn_replay_waste(const cairn_replay_result *result);
double cairn_replay_hit_rate(const cairn_replay_result *result);
double cairn_replay_of_perfect(const cairn_replay_result *result);

/* Bytes that a whole traffic would take: all its different rows, and one state a session. */
uint64_t cairn_replay_whole_bytes(const cairn_workload *w, const cairn_profile *profile);

#endif
