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

/* Append an action to the list of this step. False: no memory (and the step knows). */
bool cairn_core_emit(cairn_core *core, cairn_action action);

/*
 * Make `bytes` fit under the cap by dropping what is worth less than `density`.
 *
 * After    true: the DROPs are in the list and `bytes` fit. false: nothing was dropped
 */
bool cairn_evict_for(cairn_core *core, uint64_t bytes, double density);

/* Drop, whatever it is worth, until the sum is under the cap again, or nothing can go. */
void cairn_evict_over(cairn_core *core);

/* Make room in the index: drop the least recently used path ends. False: nothing can go. */
bool cairn_evict_leaf(cairn_core *core);

/* Drop one state or one segment (and what is stranded by it); `tomb` stays as the reason. */
void cairn_drop_state(cairn_core *core, uint32_t state, cairn_reason tomb);
void cairn_drop_segment(cairn_core *core, uint32_t segment, cairn_reason tomb);

/*
 * Rows [begin, end) of `node`'s path may have lost their last holder: drop every state and all rows
 * that are built on rows which nobody has any more.
 */
void cairn_drop_stranded(cairn_core *core, uint32_t node, uint32_t begin, uint32_t end, cairn_reason tomb);

/* Drop segments whose covers were all taken over by better ones. */
void cairn_drop_uncovered(cairn_core *core);

/* Drop everything of a namespace, tokens and all; no cursor is in it. The root stays. */
void cairn_drop_all(cairn_core *core, uint32_t root);

/* Drop what is doomed and free to go. */
void cairn_drop_doomed(cairn_core *core);

#endif
