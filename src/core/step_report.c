/*
 * step_report - what the conductor reports: STORED, FAILED, LOST, SLOT_LOST, BUDGET, FORGET.
 */
#include <string.h>

#include "core/boundary.h"
#include "core/counts.h"
#include "core/divergence.h"
#include "core/drop.h"
#include "core/eviction.h"
#include "core/learning.h"
#include "core/lookup.h"
#include "core/placement.h"
#include "core/plan.h"
#include "core/resume.h"
#include "core/step.h"

/* --- reports ----------------------------------------------------------------------------------------------------- */

typedef struct named {
    cairn_state *state;
    cairn_segment *segment;
    uint32_t index;
} named;

static named find_blob(const cairn_core *core, cairn_blob_id blob)
{
    named found = {.index = (uint32_t)(blob & 0xffffff)};
    bool rows = (blob >> 24 & 1) != 0;
    if (blob == 0) {
        return found;
    }
    if (rows && found.index < core->tree.segments.high) {
        cairn_segment *segment = cairn_segment_at(&core->tree, found.index);
        found.segment = segment->alive && segment->blob == blob ? segment : NULL;
    } else if (!rows && found.index < core->tree.states.high) {
        cairn_state *state = cairn_state_at(&core->tree, found.index);
        found.state = state->alive && state->blob == blob ? state : NULL;
    }
    return found;
}

/* The blob that a STORED or FAILED speaks of. */
static cairn_blob_id reported_blob(const cairn_event *event, const cairn_request *request)
{
    if (event->blob != 0) {
        return event->blob;
    }
    return request != NULL && event->action < request->count_list ? request->list[event->action].blob : 0;
}

cairn_status cairn_on_stored(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = cairn_step_request(core, event->request, &slot);
    named found = find_blob(core, reported_blob(event, request));
    bool rows = found.segment != NULL;
    if (!(rows ? found.segment->pending : found.state != NULL && found.state->pending)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/stored", "nothing of that name is being written");
    }
    uint64_t reserved = rows ? found.segment->bytes : found.state->bytes;
    if (event->bytes == 0 ||
        (event->bytes > reserved && !cairn_ledger_fits(&core->ledger, event->bytes - reserved))) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/stored", "more bytes than there is room for");
    }
    cairn_ledger_settle(&core->ledger, reserved, event->bytes, rows);
    uint64_t owner = rows ? found.segment->owner : found.state->owner;
    if (rows) {
        if (!found.segment->fetching) {
            cairn_ledger_buffer_release(&core->ledger);
            cairn_costs_saw_move(&core->costs, event->bytes, event->cost_ns);
        }
        found.segment->fetching = false;
        found.segment->bytes = event->bytes;
        found.segment->pending = false;
        found.segment->owner = 0;
    } else {
        found.state->bytes = event->bytes;
        found.state->pending = false;
        found.state->owner = 0;
        if (event->cost_ns > 0) {
            cairn_costs_saw_take(&core->costs, event->cost_ns);
        }
    }
    cairn_request *of = cairn_step_request(core, owner, &slot);
    if (of != NULL && of->count_pending > 0) {
        of->count_pending--;
    }
    return CAIRN_OK;
}

/* Why a blob that was to come from elsewhere did not; `otherwise` for what never was. */
static cairn_reason stored_tomb(cairn_status status, cairn_reason otherwise)
{
    switch (status) {
    case CAIRN_CORRUPT:
        return CAIRN_REASON_DAMAGED;
    case CAIRN_FOREIGN:
    case CAIRN_UNSUPPORTED: /* another version of the format */
        return CAIRN_REASON_FOREIGN;
    case CAIRN_LOCKED:
        return CAIRN_REASON_KEY;
    case CAIRN_IO:
    case CAIRN_TIMEOUT:
        return CAIRN_REASON_UNREADABLE;
    case CAIRN_NOTFOUND:
        return CAIRN_REASON_EVICTED;
    default:
        return otherwise;
    }
}

/* A TAKE, SAVE_ROWS or FETCH did not work: it never was. */
static void write_failed(cairn_core *core, named found, cairn_status status)
{
    uint32_t slot;
    uint64_t owner = found.segment != NULL ? found.segment->owner : found.state->owner;
    cairn_request *of = cairn_step_request(core, owner, &slot);
    if (of != NULL && of->count_pending > 0) {
        of->count_pending--;
    }
    if (found.segment != NULL) {
        cairn_ledger_unreserve(&core->ledger, found.segment->bytes);
        if (!found.segment->fetching) {
            cairn_ledger_buffer_release(&core->ledger);
        }
        found.segment->fetching = false;
        found.segment->bytes = 0;
        found.segment->pending = false;
        cairn_drop_segment(core, found.index, stored_tomb(status, CAIRN_REASON_ROWS_GONE));
    } else {
        cairn_ledger_unreserve(&core->ledger, found.state->bytes);
        found.state->bytes = 0;
        found.state->pending = false;
        cairn_drop_state(core, found.index, stored_tomb(status, CAIRN_REASON_NEVER_TAKEN));
    }
}

static cairn_reason tomb_of(cairn_status status)
{
    switch (status) {
    case CAIRN_CORRUPT:
        return CAIRN_REASON_DAMAGED;
    case CAIRN_FOREIGN:
        return CAIRN_REASON_FOREIGN;
    case CAIRN_NOTFOUND:
        return CAIRN_REASON_EVICTED;
    default:
        return CAIRN_REASON_ENGINE;
    }
}

/* The blob is of no use to anybody (damaged, foreign, gone), or only to this request (refused). */
static void blame(cairn_core *core, cairn_request *request, cairn_blob_id blob, cairn_status status)
{
    named found = find_blob(core, blob);
    cairn_reason reason = tomb_of(status);
    request->avoid_reason = reason;
    if (reason != CAIRN_REASON_ENGINE && found.state != NULL) {
        cairn_drop_state(core, found.index, reason);
    } else if (reason != CAIRN_REASON_ENGINE && found.segment != NULL) {
        cairn_drop_segment(core, found.index, reason);
    } else if (blob != 0 && request->count_avoid < CAIRN_AVOID_MAX) {
        request->avoid[request->count_avoid++] = blob;
    } else {
        request->count_failures = CAIRN_AVOID_MAX + 1;
    }
}

cairn_status cairn_on_failed(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = cairn_step_request(core, event->request, &slot);
    named found = find_blob(core, reported_blob(event, request));
    bool writing =
        found.segment != NULL ? found.segment->pending : found.state != NULL && found.state->pending;
    bool listed = request != NULL && event->action < request->count_list;
    cairn_action_kind kind = listed ? request->list[event->action].kind : CAIRN_ACTION_DROP;
    if (writing && (event->blob != 0 || kind == CAIRN_ACTION_TAKE || kind == CAIRN_ACTION_SAVE_ROWS)) {
        core->deferring = true; /* DROPs that follow from it come with the next list */
        write_failed(core, found, event->status);
        return CAIRN_OK;
    }
    if (!listed || kind == CAIRN_ACTION_DROP || kind == CAIRN_ACTION_READY || kind == CAIRN_ACTION_TAKE ||
        kind == CAIRN_ACTION_SAVE_ROWS || request->phase == CAIRN_PHASE_ANSWERING) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/failed", "no such action could fail");
    }
    cairn_blob_id blob = request->list[event->action].blob;
    cairn_step_start_list(core);
    request->count_failures++;
    cairn_plan_unpin(core, request);
    cairn_step_abandon(core, request);
    cairn_plan_slot_cut(core, slot, 0, CAIRN_REASON_ROWS_GONE);
    if (blob != 0) {
        blame(core, request, blob, event->status);
    }
    core->slots[slot].dirty = true;
    cairn_step_plan(core, request, slot, NULL);
    return cairn_step_keep_list(core, request);
}

cairn_status cairn_on_lost(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    named found = find_blob(core, event->blob);
    if ((found.state == NULL || found.state->pending) && (found.segment == NULL || found.segment->pending)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/lost", "no such blob");
    }
    cairn_reason reason = event->status == CAIRN_OK ? CAIRN_REASON_EVICTED : tomb_of(event->status);
    cairn_step_start_list(core);
    found = find_blob(core, event->blob);
    if (found.state != NULL) {
        cairn_ledger_release(&core->ledger, found.state->bytes, false);
        found.state->bytes = 0;
        cairn_drop_state(core, found.index, reason);
    } else if (found.segment != NULL) {
        cairn_ledger_release(&core->ledger, found.segment->bytes, true);
        found.segment->bytes = 0;
        cairn_drop_segment(core, found.index, reason);
    }
    return CAIRN_OK;
}

cairn_status cairn_on_slot_lost(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    if (event->slot >= core->options.slots) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/slot lost", "no such slot");
    }
    cairn_step_start_list(core);
    cairn_plan_slot_cut(core, event->slot, event->position, CAIRN_REASON_ROWS_GONE);
    core->slots[event->slot].dirty = core->tree.cursors[event->slot].position != event->position;
    if (core->requests[event->slot].id != 0) { /* what it does from here on is not known any more */
        core->requests[event->slot].keep = false;
    }
    return CAIRN_OK;
}

cairn_status cairn_on_budget(cairn_core *core, const cairn_event *event)
{
    cairn_step_start_list(core);
    core->ledger.bytes_max = event->bytes;
    core->ledger.index_bytes_max = core->options.index_bytes_max != 0
                                       ? core->options.index_bytes_max
                                       : cairn_ledger_index_share(event->bytes);
    core->options.ram_bytes_max = event->bytes;
    cairn_evict_over(core);
    return CAIRN_OK;
}

/* --- FORGET ------------------------------------------------------------------------------------------------------ */

static void forget_space(cairn_core *core, uint32_t space)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t i = 0; i < core->options.slots; i++) {
        uint32_t node = tree->cursors[i].node;
        if (node != CAIRN_NONE && cairn_node_at(tree, node)->space == space) {
            core->requests[i].keep = false; /* a living request goes on, and leaves nothing */
            core->slots[i].dirty = true;
            core->slots[i].state_set = false;
            cairn_lineage_trim(&core->slots[i].lineage, 0);
            cairn_tree_cursor_set(tree, i, CAIRN_NONE, 0);
        }
    }
    cairn_drop_all(core, cairn_space_at(tree, space)->root);
    cairn_learning_forget(core, space);
}

cairn_status cairn_on_forget(cairn_core *core, const cairn_event *event)
{
    cairn_step_start_list(core);
    if (event->all) {
        cairn_counts_release(core);
    } else {
        cairn_counts_forget(core, &event->space);
    }
    for (uint32_t i = 0; i < core->tree.spaces.high; i++) {
        const cairn_space *space = cairn_space_at(&core->tree, i);
        if (space->alive && (event->all || memcmp(&space->name, &event->space, sizeof event->space) == 0)) {
            forget_space(core, i);
        }
    }
    return CAIRN_OK;
}
