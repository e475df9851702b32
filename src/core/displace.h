/*
 * displace - saving what a slot is about to lose: the rows that its states need, and the live state.
 *
 * Rows are saved up to the deepest position that is worth its room, from the tip upwards in a few attempts; what another
 * segment or slot holds already is not saved again. What is saved goes before what frees it in the list, so the room is
 * made first (count first).
 *
 * Thread   the core's
 */
#ifndef CAIRN_CORE_DISPLACE_H
#define CAIRN_CORE_DISPLACE_H

#include "core/core_state.h"

/* Save what is worth it of what the slot would lose when it is cut to `keep`. */
void cairn_displace(cairn_core *core, cairn_request *request, uint32_t slot, uint32_t keep);

/*
 * Emit the saving of rows [begin, end) of the slot as one segment. The room was made before.
 *
 *   clip  [in]  take the covers of other segments of these rows
 *
 * After   its index; CAIRN_NONE: no room or no memory, nothing was emitted
 */
uint32_t cairn_displace_segment(cairn_core *core, cairn_request *request, uint32_t slot, uint32_t begin,
                                uint32_t end, bool clip);

#endif
