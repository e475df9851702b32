/*
 * state_worth - which states are worth their bytes outside of memory: on disk, in a store that servers share.
 *
 * One rule for both tiers, and for states of slots as for those that memory holds of paths that left their slots. Memory itself
 * asks the core, which knows what else it holds.
 *
 * Thread   any; pure functions
 */
#ifndef CAIRN_CACHE_STATE_WORTH_H
#define CAIRN_CACHE_STATE_WORTH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Does a state at such a boundary (kinds, CAIRN_BOUNDARY_*) anchor a conversation? It is then worth its bytes whatever it is
 * expected to save: an edit of any kind resumes from one of them.
 *
 *   last  [in]  as far as is known the path ends there. The end of an answer is an anchor only then: the conversation goes on
 *               from it. Once it has gone on the next one takes its place, and only its saving counts
 */
bool cairn_state_anchors(uint16_t kinds, bool last);

/* The same, or it is expected to save a tenth of a second and more. */
bool cairn_state_worth(uint16_t kinds, double saving_ms, bool last);

#endif
