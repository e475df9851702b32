/*
 * resume - which resume points there are for a prompt, and which is the cheapest.
 *
 * A resume at n needs the state and all rows [0, n) of one path. Rows may be live in the slot that is
 * used, stored in segments, or live in another slot (a donor: exported first). For each idle slot and
 * each resume point the whole time is estimated:
 *
 *   saving what the slot holds and would lose + rows to load + restore + reading the rest
 *
 * and the least wins: a restore that is dearer than reading is not done.
 *
 * In exact mode only cuts that this prompt's own cold reading would make count, and only states and
 * rows that were read with exactly these cuts (see lineage.h).
 *
 * Thread   the core's
 */
#ifndef CAIRN_CORE_RESUME_H
#define CAIRN_CORE_RESUME_H

#include "core/core_state.h"

/*
 * Choose slot and resume point.
 *
 *   slot    [in]   CAIRN_SLOT_ANY: any idle one
 *   floors  [in]   uint32_t[slots] or NULL, see core.h
 *
 * After   false: no idle slot
 */
bool cairn_resume_choose(const cairn_core *core, const cairn_prompt *prompt, uint32_t slot,
                         const uint32_t *floors, cairn_choice *ret_choice);

/* Fill in the decision's numbers and its reason; what it says of states that were taken stays. */
void cairn_resume_explain(const cairn_core *core, const cairn_prompt *prompt, const cairn_choice *choice,
                          const uint32_t *floors, cairn_decision *decision);

#endif
