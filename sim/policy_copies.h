/*
 * policy_copies - what rules share that keep whole prompts: a copy is one path up to some length, with a state at its
 * end and states at positions inside it. For policy_*.c only.
 *
 * Units    tokens
 * Thread   one at a time
 */
#ifndef CAIRN_SIM_POLICY_COPIES_H
#define CAIRN_SIM_POLICY_COPIES_H

#include "policy.h"

enum { CAIRN_COPY_POINTS_MAX = 160 };

typedef struct cairn_copy {
    uint32_t node;   /* the path leads to this node                                                 */
    uint32_t length; /* tokens held, from the path's start; 0: empty                                */
    uint32_t points[CAIRN_COPY_POINTS_MAX]; /* positions of states, ascending                       */
    uint64_t tasks[CAIRN_COPY_POINTS_MAX];  /* request that took each                               */
    uint32_t count;
    uint64_t used; /* counter of the last use                                                       */
    int slot;      /* >= 0: it is what this slot holds                                              */
} cairn_copy;

/* Common prefix of a prompt and a copy. */
uint32_t cairn_copy_common(const cairn_workload *w, const cairn_policy_view *view, const cairn_copy *copy);

/*
 * How much of a prompt a copy serves when `common` tokens agree: all of the copy when the prompt extends it, else up
 * to its newest state; without states (pure attention) all that agrees.
 */
uint32_t cairn_copy_serves(const cairn_profile *profile, const cairn_policy_view *view,
                           const cairn_copy *copy, uint32_t common);

/* Forget the states behind `position`. */
void cairn_copy_cut(cairn_copy *copy, uint32_t position);
/* Take point `index` out. */
void cairn_copy_drop(cairn_copy *copy, uint32_t index);
/* Add a state behind all others (one at the same place replaces it); there must be room. */
void cairn_copy_add(cairn_copy *copy, uint32_t position, uint64_t task);

/* Bytes of its states (the end's included when `with_end`), and of its rows. */
uint64_t cairn_copy_state_bytes(const cairn_profile *profile, const cairn_copy *copy, bool with_end);
uint64_t cairn_copy_row_bytes(const cairn_profile *profile, const cairn_copy *copy);

/*
 * ik_llama's and SwiftLM's thinning, on plain positions so that they can be tested: the index of the point to give up.
 *
 *   product  the inner point with the smallest product of the gaps beside it; first and last stay
 *   nearest  the inner point that is closest to a neighbour; first (the anchor) and last stay
 *
 * count >= 3
 */
uint32_t cairn_thin_product(const uint32_t *points, uint32_t count);
uint32_t cairn_thin_nearest(const uint32_t *points, uint32_t count);

#endif
