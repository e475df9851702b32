/*
 * value - what things cost, and what a stored state is expected to save.
 *
 * Costs are fitted to what the events measure: a batch of n tokens from p to q takes
 * c + a*n + b*(q*q - p*p), a snapshot and a restore are means, rows move at a rate. c is what a cut costs: one more call,
 * the same work for fewer tokens.
 *
 * The gain of a state at c, with p the state before it on its path and e the one after:
 *
 *   gain(c) = chance(next request parts in [c, e)) * (time to read from p to c)
 *
 *   path   0 ----- p ------------ c ----------- e ------- tip
 *                                 |== chance ===|
 *                  |-- reading ---|
 *
 * The chance of a message is spread over it: most at its start (that is where edits fall), the rest
 * evenly, and a small part over the whole path by length. How soon a next request comes at all is
 * another factor, 1 / age, applied when things are compared (cairn_value_density).
 *
 * Units    ns; positions in tokens
 * See      docs/internals/core.md
 */
#ifndef CAIRN_CORE_VALUE_H
#define CAIRN_CORE_VALUE_H

#include "core/core.h"
#include "core/divergence.h"
#include "core/path.h"

typedef struct cairn_costs {
    double call_ns;                       /* c: one more decode                                     */
    double read_ns_token, read_ns_token2; /* a, b                                                   */
    double take_ns, restore_ns, move_ns_byte;
    uint32_t batch_tokens; /* the longest: a long reading has a call for each                       */
    /* Sums over the batches seen, fading; x: (end^2 - begin^2) / n, y: time / n, each weighted by n. */
    double s_cc, s_ca, s_cb, s_aa, s_ab, s_bb, t_c, t_a, t_b;
    double guess_c, guess_a, guess_b; /* what the fit leans to while it has seen little             */
} cairn_costs;

void cairn_costs_init(cairn_costs *costs, const cairn_core_options *options);

/* Time to read tokens [begin, end) of a path. */
double cairn_costs_read(const cairn_costs *costs, uint32_t begin, uint32_t end);

/* Is a cut at `end` for a state there, used with this chance instead of the one at `begin`, worth a call more and a snapshot? */
bool cairn_costs_pays(const cairn_costs *costs, double chance, uint32_t begin, uint32_t end);

/* Take in a measurement. */
void cairn_costs_saw_read(cairn_costs *costs, uint32_t begin, uint32_t end, uint64_t cost_ns);
void cairn_costs_saw_take(cairn_costs *costs, uint64_t cost_ns);
void cairn_costs_saw_move(cairn_costs *costs, uint64_t bytes, uint64_t cost_ns);
void cairn_costs_saw_restore(cairn_costs *costs, uint64_t bytes, uint64_t cost_ns);

/*
 * Pauses of all traffic. While nothing at all is asked, nothing is learned about any one path: a pause counts as a few
 * seconds in every age.
 */
typedef struct cairn_pauses {
    struct {
        uint64_t end_ns, excess_ns; /* what of it doesn't count                                     */
    } items[16]; /* a ring; the newest is items[(count - 1) % 16]                                   */
    uint32_t count;
} cairn_pauses;

/* An event came at `now_ns`, the last one before at `last_ns`. */
void cairn_value_pause(cairn_pauses *pauses, uint64_t last_ns, uint64_t now_ns);

/* Age of what was used then, in ns, without pauses. */
uint64_t cairn_value_age(const cairn_core *core, uint64_t used_ns);

/* Arrays for walks along one path; reused, grown from the core's mem. */
typedef struct cairn_path_scratch {
    uint32_t *nodes;
    uint32_t room_nodes;
    uint32_t *marks;
    double *mass; /* chance of parting before each mark                                             */
    uint32_t room_marks;
    uint32_t count_nodes, count_marks;
} cairn_path_scratch;

/* The node in which the most recent request below `node` ended. */
uint32_t cairn_value_tip(const cairn_tree *tree, uint32_t node);

/* Give back the arrays. */
void cairn_path_scratch_release(cairn_path_scratch *scratch, const cairn_mem *mem);

/*
 * Collect the nodes from the root to `tip` and their marks into the scratch.
 *
 * After    false: no memory, the scratch is empty
 */
bool cairn_path_collect(cairn_core *core, uint32_t tip);

/*
 * Compute the gains (and the right to be thinned) of all states on the path that leads to `tip`, and
 * of the marks' weights. States that more recent paths share are left to those.
 *
 * After    false: no memory; the states stay dirty with their old gains
 */
bool cairn_value_refresh(cairn_core *core, uint32_t tip);

/* The gain of a state, fresh. */
double cairn_value_gain(cairn_core *core, uint32_t state);

/*
 * What a state saves when it goes together with all states between it and `before`, the last resume point
 * that would be left. More than the sum of gains, each of which supposes that its neighbours stay.
 */
double cairn_value_with_others(cairn_core *core, uint32_t state, uint32_t before);

/*
 * How likely it is, per second, that the path through `node`, last used then, is taken up: relative to a path of usual
 * pace that was used just now.
 */
double cairn_value_soon(const cairn_core *core, uint32_t node, uint64_t used_ns);

/*
 * A state whose path is in a slot is worth this many times another of the same density: it needs no rows of the budget,
 * its conversation is the one that goes on most surely, and if it does not, the state goes with its slot's rows.
 * How much more is a choice between many conversations (less is better for a fleet) and one (docs/results/tuning.md).
 */
#define CAIRN_LIVE_WORTH 2.5
/* ... and a state that the client pinned: it goes last. */
#define CAIRN_PINNED_WORTH 1e6

/* What is told to divergence.h of a path that goes through this edge. */
static inline uint32_t cairn_value_turns(const cairn_node *node)
{
    return node->superseded ? CAIRN_TURNS_SUPERSEDED : node->turns;
}

/* Chance that the path through this edge is taken up again. */
double cairn_value_goes_on(const cairn_core *core, uint32_t node);

/* gain per byte, by recency and the turns of the node's path: what is compared. */
double cairn_value_density(const cairn_core *core, uint32_t node, double gain_ns, uint64_t used_ns,
                           uint64_t bytes);

/* The states whose gains depend on what is at `node`'s `position` are to be computed again. */
void cairn_value_dirty(cairn_core *core, uint32_t node);

#endif
