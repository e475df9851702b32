/*
 * plan - a chosen resume as a list of actions, and the saving of what it displaces.
 *
 * The order in the list is: DROPs that make room, TAKE and SAVE_ROWS of what the slot would lose, SAVE_ROWS
 * from other slots for rows that only they have, then RESET or TRIM, LOAD_ROWS, RESTORE. What the list
 * names is pinned until RESUMED. The core's picture of the slot is at once the one after the list.
 *
 * Thread   the core's
 */
#ifndef CAIRN_CORE_PLAN_H
#define CAIRN_CORE_PLAN_H

#include "core/core_state.h"

/* Emit everything before the first READ; the lookup is the one the choice was made from. */
void cairn_plan_resume(cairn_core *core, cairn_request *request, const cairn_choice *choice);

/* Let go of what the request's preparation named. */
void cairn_plan_unpin(cairn_core *core, cairn_request *request);

/* The slot is empty now: forget its path, and drop what only its rows kept usable. */
void cairn_plan_slot_cut(cairn_core *core, uint32_t slot, uint32_t length, cairn_reason tomb);

/*
 * Reserve and emit a TAKE of the slot's live state at its cursor. What is worth less than `density` is
 * dropped for it. False: no room or no memory; nothing was emitted.
 */
bool cairn_plan_take(cairn_core *core, uint32_t slot, cairn_request *request, double density);

#endif
