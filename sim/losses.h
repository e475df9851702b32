/*
 * losses - where a rule reads more than it had to, request by request, and why.
 *
 * A request loses the tokens between where it resumed and its divergence. Each loss is told with the place where the request
 * parted (the message, how far inside it), how often a request had parted there before, and the reason that the rule gives
 * (cairn's alone give one). The sums at the end are by cause:
 *
 *   first    no request had parted there, and no boundary is within NEAR tokens: nothing announced the place
 *   start    no request had parted there, but it is where a message (or the answer, or the tools) begins
 *   again    a request had parted there before
 *
 * Below them: how many states were taken, and how many of these served a request. What a slot goes on from is neither.
 *
 * Units    tokens
 * Thread   one
 */
#ifndef CAIRN_SIM_LOSSES_H
#define CAIRN_SIM_LOSSES_H

#include "base/buf.h"
#include "replay.h"

enum { CAIRN_LOSS_CAUSES = 3, CAIRN_LOSS_REASONS = 32 };

typedef struct cairn_losses {
    const cairn_mem *mem;
    const cairn_workload *w;
    uint32_t *parted; /* uint32_t[w->count_nodes + 1]: requests that parted at the end of each node   */
    cairn_buf *out;   /* a line for each loss of at least `least`, or NULL                            */
    uint32_t least;
    uint64_t tokens[CAIRN_LOSS_CAUSES][CAIRN_LOSS_REASONS];
    uint64_t requests[CAIRN_LOSS_CAUSES][CAIRN_LOSS_REASONS];
    uint64_t taken, used; /* states                                                                   */
    bool failed; /* no memory for the lines: they are not complete                                    */
} cairn_losses;

/* Ready for one replay of `w`. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_losses_init(cairn_losses *losses, const cairn_mem *mem,
                                                const cairn_workload *w, cairn_buf *out, uint32_t least);
void cairn_losses_release(cairn_losses *losses);

/* A cairn_replay_watch; ctx is the cairn_losses. */
void cairn_losses_watch(void *ctx, const cairn_policy_view *view, const cairn_policy_outcome *outcome);

/* Append the sums as a table. */
CAIRN_MUST_CHECK cairn_status cairn_losses_sums(const cairn_losses *losses, cairn_buf *out);

#endif
