/*
 * simulate - the command `cairn simulate`: traffic in, a table, JSON, a plot or the results page out.
 *
 *   cairn simulate [TRACE...] [--scenario NAME,...|all] [--policy NAME,...|all] [--budget SIZE,...]
 *                  [--model-profile NAME] [--slots N] [--seed N] [--json] [--plot FILE.svg] [--report FOLDER]
 *                  [--losses N]
 *
 * A budget is a size (512M, 8G), a number of the profile's states (64states), or a part of what the whole traffic would
 * take (10%). Without --budget: 8 to 128 states, and 1.25 to 10 % for a fleet.
 *
 * Thread   one
 */
#ifndef CAIRN_SIM_SIMULATE_H
#define CAIRN_SIM_SIMULATE_H

#include <stdio.h>

#include "replay.h"

/*
 * Run the command.
 *
 *   argv  [in]   argv[0] is the command's own name ("simulate"), arguments follow
 *   out   [in]   results; `err` takes messages
 *
 * After    the exit code: 0; 1 something failed; 2 bad arguments or input (nothing was replayed)
 */
int cairn_simulate_main(int argc, char *const *argv, FILE *out, FILE *err);

/* A budget before the traffic is known. */
typedef enum cairn_budget_kind {
    CAIRN_BUDGET_BYTES,
    CAIRN_BUDGET_STATES,
    CAIRN_BUDGET_PART
} cairn_budget_kind;

typedef struct cairn_budget {
    cairn_budget_kind kind;
    double value; /* bytes, states, or a part in [0, 1] */
} cairn_budget;

/* "64states", "10%", "4G". Errors: CAIRN_INVALID; the detail says what is wrong. */
CAIRN_MUST_CHECK cairn_status cairn_budget_parse(const char *text, cairn_budget *ret_budget,
                                                 cairn_error *reterr);
/* The budget's bytes for this traffic and profile. */
uint64_t cairn_budget_bytes(const cairn_budget *budget, const cairn_workload *w,
                            const cairn_profile *profile);

/*
 * Write the results page (policies.md, policies.svg) of a list of traffic into an existing folder.
 *
 *   command  [in]  the command line that a reader repeats
 *
 * Errors  CAIRN_IO, CAIRN_NOMEM, what a replay can give
 * Cost    under a minute for all traffic
 */
CAIRN_MUST_CHECK cairn_status cairn_results_write(const cairn_mem *mem, const cairn_workload *workloads,
                                                  uint32_t count, uint64_t seed, const char *command,
                                                  const char *folder, FILE *progress, cairn_error *reterr);

#endif
