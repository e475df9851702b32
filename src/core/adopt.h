/*
 * adopt - blobs that another tier holds for a prompt's path become known, and are fetched into memory.
 *
 * All blobs of one event belong together: a state and the rows below it that memory lacks. Room is made
 * for all of them or for none; what memory has already is left out. They hang on the tree as "being
 * written" until each FETCH is reported, so nothing serves before its bytes are there.
 *
 * Thread   the core's
 */
#ifndef CAIRN_CORE_ADOPT_H
#define CAIRN_CORE_ADOPT_H

#include "core/core_state.h"

/* Carry out CAIRN_EVENT_ADOPT: the FETCHes are in the list, or none is. */
CAIRN_MUST_CHECK cairn_status cairn_adopt_all(cairn_core *core, const cairn_event *event,
                                              cairn_error *reterr);

#endif
