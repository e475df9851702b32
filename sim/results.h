/*
 * results - everything that the results page is made of, measured once. For results.c and results_text.c only.
 */
#ifndef CAIRN_SIM_RESULTS_H
#define CAIRN_SIM_RESULTS_H

#include "report.h"
#include "simulate.h"

enum {
    CAIRN_RESULTS_BUDGETS = 5,
    CAIRN_RESULTS_PARTS = 4,
    CAIRN_RESULTS_COUNTS = 5,
    CAIRN_RESULTS_TRAFFIC_MAX = 64,
    CAIRN_RESULTS_POLICIES_MAX = 16,
    CAIRN_RESULTS_PROFILES_MAX = 8
};

extern const uint32_t cairn_results_states[CAIRN_RESULTS_BUDGETS];
extern const double cairn_results_parts[CAIRN_RESULTS_PARTS];
extern const uint32_t cairn_results_counts[CAIRN_RESULTS_COUNTS];
/* Index of the budget that the goals speak of: 64 states. */
enum { CAIRN_RESULTS_GOAL = 3 };

typedef struct cairn_results_optimum {
    const cairn_workload *w;
    uint64_t best[CAIRN_RESULTS_COUNTS];   /* tokens read with the best so many states              */
    uint64_t online[CAIRN_RESULTS_COUNTS]; /* tokens that cairn's rule read holding so many         */
    uint64_t least;
} cairn_results_optimum;

typedef struct cairn_results {
    const cairn_mem *mem;
    uint64_t seed;
    const char *command;
    const cairn_profile *profile;
    const cairn_policy *const *policies;
    uint32_t count_policies;
    const cairn_workload *single[CAIRN_RESULTS_TRAFFIC_MAX]; /* recorded first                      */
    uint32_t count_single;
    const cairn_workload *fleet; /* NULL: not asked for                                             */
    /* [budget][traffic][policy] */
    cairn_replay_result grid[CAIRN_RESULTS_BUDGETS][CAIRN_RESULTS_TRAFFIC_MAX][CAIRN_RESULTS_POLICIES_MAX];
    cairn_replay_result fleets[CAIRN_RESULTS_PARTS][CAIRN_RESULTS_POLICIES_MAX];
    cairn_results_optimum optimum[CAIRN_RESULTS_TRAFFIC_MAX];
    uint32_t count_optimum;
    /* All single-user traffic at 64 states of each profile, joined: [profile][policy] */
    cairn_replay_result profiles[CAIRN_RESULTS_PROFILES_MAX][CAIRN_RESULTS_POLICIES_MAX];
    uint32_t count_profiles;
} cairn_results;

/* Index of a policy in results->policies; count_policies when it is not there. */
uint32_t cairn_results_policy(const cairn_results *results, const char *name);

/* All single-user traffic (or only what clients sent, or only what was generated) under one budget and policy. */
typedef enum cairn_results_part {
    CAIRN_RESULTS_ALL,
    CAIRN_RESULTS_RECORDED,
    CAIRN_RESULTS_GENERATED
} cairn_results_part;
cairn_replay_result cairn_results_join(const cairn_results *results, uint32_t budget, uint32_t policy,
                                       cairn_results_part part);

/* The page as Markdown. */
CAIRN_MUST_CHECK cairn_status cairn_results_page(const cairn_results *results, cairn_buf *out);

#endif
