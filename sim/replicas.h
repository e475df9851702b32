/*
 * replicas - a fleet: several servers behind a balancer, each with cairn's own core, with a shared store and without.
 *
 * Each replica is one instance of policy_cairn with the whole budget to itself. The balancer throws dice, or remembers
 * which session went where. With a store, a replica that ended a request publishes resume points on its path: at the
 * end of system and tools, at the last user message, before the assistant opener, at the client's marks and at the
 * answer's end. A request on another replica resumes from the deepest of them on its path, when fetching the state and
 * the rows beyond its own resume point takes less time than reading.
 *
 *   simplified: the store forgets nothing and has all of it when the next request comes; the replica's own core plans as
 *   if it had read what was fetched
 *
 * Units    tokens; bytes; ns of virtual time
 * Owner    a fleet is borrowed by its replay
 * Thread   one
 */
#ifndef CAIRN_SIM_REPLICAS_H
#define CAIRN_SIM_REPLICAS_H

#include "replay.h"

enum { CAIRN_REPLICAS_MAX = 64 };

typedef struct cairn_fleet {
    uint32_t replicas;   /* 1 to CAIRN_REPLICAS_MAX                                                      */
    bool sticky;         /* the balancer sends a session where it was before                            */
    double bytes_second; /* of the store; 0: there is none                                              */
    double trip_ns;      /* of one round trip to it                                                     */
    uint64_t seed;       /* of the balancer's dice                                                      */
    /* Counted by the replay. */
    uint64_t fetches, fetched_tokens, dearer;
} cairn_fleet;

/*
 * Replay traffic through a fleet; budget and slots are those of each replica.
 * Errors  as cairn_replay
 */
CAIRN_MUST_CHECK cairn_status cairn_replicas_replay(const cairn_mem *mem, const cairn_workload *w,
                                                    const cairn_profile *profile, uint64_t budget_bytes,
                                                    cairn_fleet *fleet, cairn_replay_result *ret_result,
                                                    cairn_error *reterr);

#endif
