/*
 * optimum - the best places for k states when the whole traffic is known in advance, by dynamic programming.
 *
 * Each request parts from everything before it at some place of the tree; it reads from the nearest chosen place above
 * to there. A chosen place is held for the whole traffic. The optimum is exact over such choices:
 *
 *   f(v, a, j) = least tokens read again by the requests that part in v's subtree, when a is the nearest chosen place
 *                above v and j places are chosen in the subtree
 *
 * What a slot holds costs nothing, as for every rule: a request that extends the path of the request before it reads
 * only what is new (one slot).
 *
 * Units    tokens
 * Thread   any
 * Cost     O(places x depth x k) with k cut to the subtree's size
 */
#ifndef CAIRN_SIM_OPTIMUM_H
#define CAIRN_SIM_OPTIMUM_H

#include "workload.h"

/*
 *   counts   [in]   uint32_t[count]: numbers of states
 *   ret_read [out]  uint64_t[count]: all prompt tokens read with the best so many places
 *
 * Errors  CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_optimum(const cairn_workload *w, const uint32_t *counts, uint32_t count,
                                            uint64_t *ret_read, cairn_error *reterr);

/* The same by trying every choice: for tests with few places. CAIRN_LIMIT: more than 20 places. */
CAIRN_MUST_CHECK cairn_status cairn_optimum_brute(const cairn_workload *w, uint32_t k, uint64_t *ret_read,
                                                  cairn_error *reterr);

#endif
