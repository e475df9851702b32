/*
 * generate - traffic made by rule: each scenario is a shape of use that once went wrong somewhere.
 *
 * The lengths are ours; the shapes come from public reports on other servers and from what real clients were seen to
 * send. A scenario is a function of its seed alone: the same seed gives the same traffic, token for token.
 *
 * Units    tokens; ns
 * Thread   any; a workload is filled by one
 */
#ifndef CAIRN_SIM_GENERATE_H
#define CAIRN_SIM_GENERATE_H

#include "workload.h"

typedef struct cairn_scenario {
    const char *name;
    const char *about; /* one line for people */
    cairn_status (*make)(cairn_workload *w, uint64_t seed, cairn_error *reterr);
} cairn_scenario;

/* The scenarios, in the order in which reports show them; const cairn_scenario[*ret_count]. */
const cairn_scenario *cairn_scenario_list(uint32_t *ret_count);

/* By name; NULL when there is none. */
const cairn_scenario *cairn_scenario_get(const char *name);

/*
 * Make the traffic of one scenario. `w` is initialised by this call; release it in any case.
 * Errors  CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_scenario_make(const cairn_scenario *scenario, const cairn_mem *mem,
                                                  uint64_t seed, cairn_workload *w, cairn_error *reterr);

#endif
