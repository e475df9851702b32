/*
 * placement - where the reading is cut, and at which cuts a state is taken.
 *
 * Cuts are the canonical ones (core.h). In fast mode those at message starts are left out where a call more costs
 * more than a state there may save, and others are added: where this prompt parts from what was known, so that the third
 * request is served to the token; near the end of a prompt that has no opener, so that a repeat is; where the client marks;
 * and where texts end behind which requests part.
 *
 * At a cut a state is free of extra batches. It is taken when
 *
 *   chance(next request parts between here and the next cut) * (time to read from the state before)
 *       is more than a state has to be worth (chance.h),
 *
 * or when taking costs little beside the reading since the state before (an insurance that bounds the
 * waste of an unforeseen divergence).
 *
 * Thread   the core's
 */
#ifndef CAIRN_CORE_PLACEMENT_H
#define CAIRN_CORE_PLACEMENT_H

#include "core/core_state.h"

/* Where this request's extra cuts are; the lookup is the request's. */
void cairn_placement_prepare(cairn_core *core, cairn_request *request);

/* End of the next READ from request->position. */
uint32_t cairn_placement_cut(cairn_core *core, cairn_request *request);

/* The request reached a cut: take a state when it is worth it. */
void cairn_placement_reached(cairn_core *core, cairn_request *request, uint32_t slot);

/* The same while the answer grows: these are its last tokens. No cut is needed there, each token is a batch. */
void cairn_placement_answered(cairn_core *core, cairn_request *request, uint32_t slot,
                              const cairn_token *tokens, uint32_t count);

/* Bring the marks of the slot's path in (from, to] in line with the prompt's boundaries. */
void cairn_placement_marks(cairn_core *core, const cairn_request *request, uint32_t slot, uint32_t from,
                           uint32_t to);

/* Position of the last state before `position` on the path that ends in `node`; 0: none. */
uint32_t cairn_placement_before(const cairn_core *core, uint32_t node, uint32_t position);

/* Where a segment that begins at `begin` should end: at the anchor, or after `tokens`, or at `end`. */
uint32_t cairn_placement_segment_end(const cairn_core *core, uint32_t node, uint32_t begin, uint32_t end,
                                     uint32_t tokens);

#endif
