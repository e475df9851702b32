/*
 * eviction - what to drop for what.
 *
 * Candidates are single states, and rows that nothing deeper is built on (with the states that need
 * them). The least expected saving per byte goes first, and nothing goes for something worth less.
 * Within one path a state may be thinned only where the gap that it leaves stays under
 * max(512, 2 n / k) tokens (law 12); rows of a cold path take all of its states along.
 *
 * Everything that an unfinished preparation names is pinned. What should go but is pinned or being
 * written is doomed: it serves nobody any more and is dropped when it can be.
 *
 * Thread   the core's
 * See      value.h, ledger.h
 */
#ifndef CAIRN_CORE_EVICTION_H
#define CAIRN_CORE_EVICTION_H

#include "core/core_state.h"

/*
 * Make `bytes` fit under the cap by dropping what is worth less than `density`.
 *
 * After    true: the DROPs are in the list and `bytes` fit. false: nothing was dropped
 */
bool cairn_evict_for(cairn_core *core, uint64_t bytes, double density);

/* Drop, whatever it is worth, until the sum is under the cap again, or nothing can go. */
void cairn_evict_over(cairn_core *core);

/* Make room in the index: drop the least recently used path end, or a namespace that has none. False: nothing can go. */
bool cairn_evict_leaf(cairn_core *core);

/* How often room in the index is made for one step before it is given up. */
enum { CAIRN_EVICT_TRIES = 4096 };

/*
 * Have free items in every pool, at the cost of path ends, so that what follows needs no room in the middle.
 *
 *   more  [in]  blobs that are to be hung up beside the usual few
 *
 * After    false: no room; nothing more can be known
 */
bool cairn_evict_index_ready(cairn_core *core, uint32_t more);

#endif
