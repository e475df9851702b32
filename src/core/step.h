/*
 * step - the handlers of the core's events, and what they share. One handler an event, by its name.
 *
 * A handler checks that the event fits the state before it changes anything (CAIRN_INVALID otherwise),
 * starts the list, then calls the rooms.
 */
#ifndef CAIRN_CORE_STEP_H
#define CAIRN_CORE_STEP_H

#include "core/core_state.h"

/* The living request and its slot, or NULL. */
cairn_request *cairn_step_request(const cairn_core *core, cairn_request_id id, uint32_t *ret_slot);

/* The event is valid: its list begins with what was due to be dropped. */
void cairn_step_start_list(cairn_core *core);

/* The list becomes the request's own, so that later reports can name its items by index. */
cairn_status cairn_step_keep_list(cairn_core *core, cairn_request *request);

/* Look up, choose, explain, list. For the request itself and again after failures. */
void cairn_step_plan(cairn_core *core, cairn_request *request, uint32_t slot, const uint32_t *floors);

/* What was being written for this request will not be reported any more. */
void cairn_step_abandon(cairn_core *core, cairn_request *request);

/* step_request.c */
cairn_status cairn_on_request(cairn_core *core, const cairn_event *event, cairn_error *reterr);
cairn_status cairn_on_resumed(cairn_core *core, const cairn_event *event, cairn_error *reterr);
cairn_status cairn_on_read(cairn_core *core, const cairn_event *event, cairn_error *reterr);
cairn_status cairn_on_answered(cairn_core *core, const cairn_event *event, cairn_error *reterr);
cairn_status cairn_on_finish(cairn_core *core, const cairn_event *event, cairn_error *reterr);

/* step_report.c */
cairn_status cairn_on_stored(cairn_core *core, const cairn_event *event, cairn_error *reterr);
cairn_status cairn_on_failed(cairn_core *core, const cairn_event *event, cairn_error *reterr);
cairn_status cairn_on_lost(cairn_core *core, const cairn_event *event, cairn_error *reterr);
cairn_status cairn_on_slot_lost(cairn_core *core, const cairn_event *event, cairn_error *reterr);
cairn_status cairn_on_budget(cairn_core *core, const cairn_event *event);
cairn_status cairn_on_forget(cairn_core *core, const cairn_event *event);

#endif
