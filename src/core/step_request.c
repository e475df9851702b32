/*
 * step_request - a request's own events: REQUEST, RESUMED, READ, ANSWERED, FINISH. See core.h for the order.
 */
#include <math.h>

#include "core/boundary.h"
#include "core/divergence.h"
#include "core/drop.h"
#include "core/eviction.h"
#include "core/learning.h"
#include "core/lookup.h"
#include "core/placement.h"
#include "core/plan.h"
#include "core/resume.h"
#include "core/step.h"

/* --- pieces of steps ------------------------------------------------------------------------------------------ */

/* Keep a part of the index free, so that saving and taking have room for their items. */
static void index_clear(cairn_core *core)
{
    uint64_t spare = core->ledger.index_bytes_max / 16, most = core->ledger.index_bytes_max - spare;
    while (core->ledger.index_bytes > most && cairn_ledger_index_loose(&core->ledger) > spare &&
           cairn_evict_leaf(core)) {
    }
}

/* Walk the slot's path on over tokens that the engine has decoded. */
static void commit(cairn_core *core, cairn_request *request, uint32_t slot, const cairn_token *tokens,
                   uint32_t count, uint32_t capacity)
{
    cairn_slot *item = &core->slots[slot];
    cairn_cursor *cursor = &core->tree.cursors[slot];
    uint32_t end = cursor->position + count;
    if (!request->keep || cursor->node == CAIRN_NONE) {
        request->keep = false;
        item->dirty = true;
        item->state_set = false;
        return;
    }
    bool fine = cairn_evict_index_ready(core, 0);
    for (uint32_t tries = 0; fine && tries < CAIRN_EVICT_TRIES; tries++) {
        uint32_t done = count - (end - cursor->position);
        if (cairn_tree_extend(&core->tree, slot, tokens + done, count - done,
                              capacity > done ? capacity - done : 0) == CAIRN_OK) {
            break;
        }
        fine = cairn_evict_leaf(core);
    }
    cairn_run run = {.rows_end = cursor->position, .cut = end, .digest = item->digest};
    fine = fine && cursor->position == end;
    if (run.rows_end > end - count) {
        fine = cairn_lineage_add(&item->lineage, core->mem, &core->ledger, run) && fine;
    }
    if (!fine) { /* the tree is full: the slot's rest stays unknown */
        request->keep = false;
        item->dirty = true;
        item->state_set = false;
        uint32_t known = item->lineage.count > 0 ? item->lineage.runs[item->lineage.count - 1].rows_end : 0;
        if (known < cursor->position) {
            cairn_plan_slot_cut(core, slot, known, CAIRN_REASON_NO_ROOM);
        }
    }
}

/* The next READ, or READY. */
static void emit_next(cairn_core *core, cairn_request *request, uint32_t slot)
{
    cairn_action action = {.slot = slot, .request = request->id, .begin = request->position};
    if (request->position >= request->prompt->count) {
        action.kind = CAIRN_ACTION_READY;
        action.end = request->position;
        request->phase = CAIRN_PHASE_ANSWERING;
        request->answer_state = request->position;
    } else {
        action.kind = CAIRN_ACTION_READ;
        action.end = cairn_placement_cut(core, request);
    }
    (void)cairn_core_emit(core, action);
}

/* What was being written for this request will not be reported any more. */
void cairn_step_abandon(cairn_core *core, cairn_request *request)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t i = 0; i < tree->states.high && request->count_pending > 0; i++) {
        cairn_state *state = cairn_state_at(tree, i);
        if (state->alive && state->pending && state->owner == request->id) {
            (void)cairn_core_emit(core, (cairn_action){.kind = CAIRN_ACTION_DROP, .blob = state->blob});
            cairn_ledger_unreserve(&core->ledger, state->bytes);
            state->pending = false;
            state->bytes = 0;
            request->count_pending--;
            cairn_drop_state(core, i, CAIRN_REASON_NEVER_TAKEN);
        }
    }
    for (uint32_t i = 0; i < tree->segments.high && request->count_pending > 0; i++) {
        cairn_segment *segment = cairn_segment_at(tree, i);
        if (segment->alive && segment->pending && segment->owner == request->id) {
            (void)cairn_core_emit(core, (cairn_action){.kind = CAIRN_ACTION_DROP, .blob = segment->blob});
            cairn_ledger_unreserve(&core->ledger, segment->bytes);
            cairn_ledger_buffer_release(&core->ledger);
            segment->pending = false;
            segment->bytes = 0;
            request->count_pending--;
            cairn_drop_segment(core, i, CAIRN_REASON_ROWS_GONE);
        }
    }
    request->count_pending = 0;
}

/* --- REQUEST ------------------------------------------------------------------------------------------------- */

static cairn_status check_prompt(const cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    const cairn_prompt *prompt = event->prompt;
    uint32_t slot;
    if (event->request == 0 || prompt == NULL || prompt->count == 0 || prompt->tokens == NULL ||
        (prompt->count_boundaries > 0 && prompt->boundaries == NULL) ||
        cairn_step_request(core, event->request, &slot) != NULL ||
        (event->slot != CAIRN_SLOT_ANY && event->slot >= core->options.slots)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/request",
                               "no such slot, no prompt, or the id lives");
    }
    for (uint32_t i = 0; i < prompt->count_boundaries; i++) {
        if (prompt->boundaries[i].position > prompt->count ||
            (i > 0 && prompt->boundaries[i].position < prompt->boundaries[i - 1].position)) {
            return cairn_error_set_at(reterr, CAIRN_INVALID, i, "core/request",
                                      "boundary past the end or not ascending");
        }
    }
    if (prompt->count > core->options.slot_tokens_max - 1) {
        return cairn_error_set(reterr, CAIRN_LIMIT, "core/request", "%u tokens, room for %u", prompt->count,
                               core->options.slot_tokens_max - 1);
    }
    return CAIRN_OK;
}

/* Look up, choose, explain, list. Used for the request itself and again after failures. */
void cairn_step_plan(cairn_core *core, cairn_request *request, uint32_t slot, const uint32_t *floors)
{
    const cairn_prompt *prompt = request->prompt;
    cairn_choice choice = {.slot = slot, .state = CAIRN_NONE};
    bool found = cairn_lookup_fill(core, prompt, request);
    if (request->count_failures > CAIRN_AVOID_MAX) {
        core->lookup.count_candidates = core->lookup.count_pieces = 0;
        core->lookup.limit = 0;
    }
    cairn_request_id id = request->id;
    request->id = 0; /* its own slot counts as idle */
    if (found) {
        (void)cairn_resume_choose(core, prompt, slot, floors, &choice);
    }
    request->id = id;
    cairn_resume_explain(core, prompt, &choice, floors, &request->decision);
    if (request->avoid_reason != CAIRN_REASON_NONE && request->decision.reason == CAIRN_REASON_NEVER_TAKEN) {
        request->decision.reason = request->avoid_reason;
    }
    request->boundary = 0;
    request->floor =
        floors != NULL && core->options.trim == CAIRN_TRIM_WINDOW ? floors[choice.slot] : UINT32_MAX;
    request->phase = CAIRN_PHASE_PREPARING;
    if (request->space != CAIRN_NONE &&
        core->lookup.root == CAIRN_NONE) { /* nothing looked up (off) or no memory */
        core->lookup.root = request->keep ? cairn_space_at(&core->tree, request->space)->root : CAIRN_NONE;
    }
    request->live = choice.live;
    cairn_placement_prepare(core, request);
    cairn_plan_resume(core, request, &choice);
    if (choice.live && prompt->mode == CAIRN_RESUME_FAST) {
        cairn_placement_reached(core, request,
                                choice.slot); /* the end of the last answer: no cut is needed */
    }
    emit_next(core, request, choice.slot);
}

/* The pace of a conversation that goes on now: its last gaps, the newest counting half. */
static uint32_t pace_of(const cairn_core *core, uint32_t node)
{
    const uint64_t least_ms = 1000;
    const uint64_t most_ms = 3600000;
    const cairn_node *known = cairn_node_at(&core->tree, node);
    uint64_t gap_ms = cairn_value_age(core, known->used_ns) / 1000000;
    gap_ms = gap_ms < least_ms ? least_ms : gap_ms > most_ms ? most_ms : gap_ms;
    return (uint32_t)(known->pace_ms != 0 ? (known->pace_ms + gap_ms) / 2 : gap_ms);
}

/*
 * Note it on the path. Edges that other conversations share have the pace of the one that used them last, as their time of
 * use is that one's, too.
 */
static void pace_set(cairn_core *core, const cairn_request *request, uint32_t node)
{
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        cairn_node_at(&core->tree, i)->pace_ms = request->pace_ms;
    }
}

cairn_status cairn_on_request(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    cairn_status status = check_prompt(core, event, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    const cairn_prompt *prompt = event->prompt;
    bool idle = false;
    for (uint32_t i = 0; i < core->options.slots; i++) {
        idle = idle || (core->requests[i].id == 0 && (event->slot == CAIRN_SLOT_ANY || event->slot == i));
    }
    if (!idle) {
        return cairn_error_set(reterr, CAIRN_BUSY, "core/request", "no idle slot");
    }
    cairn_step_start_list(core);
    index_clear(core);
    bool keep = !prompt->no_store && prompt->mode != CAIRN_RESUME_OFF && cairn_evict_index_ready(core, 0);
    uint32_t space = cairn_tree_space(&core->tree, &prompt->space, keep);
    if (keep && space == CAIRN_NONE) {
        keep = false;
    }
    if (space != CAIRN_NONE && cairn_space_at(&core->tree, space)->counts == NULL) {
        cairn_learning_recall(core, space);
    }
    cairn_choice choice = {.slot = CAIRN_NONE, .state = CAIRN_NONE};
    (void)cairn_lookup_fill(core, prompt, NULL); /* no memory: nothing is known, and all of it is read */
    if (!cairn_resume_choose(core, prompt, event->slot, event->trim_floors, &choice)) {
        return cairn_error_set(reterr, CAIRN_BUSY, "core/request", "no idle slot");
    }
    cairn_request *request = &core->requests[choice.slot];
    cairn_action *list = request->list;
    uint32_t room_list = request->room_list;
    cairn_pin *pins = request->pins;
    uint32_t room_pins = request->room_pins;
    *request = (cairn_request){.id = event->request,
                               .prompt = prompt,
                               .space = space,
                               .keep = keep,
                               .list = list,
                               .room_list = room_list,
                               .pins = pins,
                               .room_pins = room_pins};
    core->count_requests++;
    request->shared_end = cairn_learning_shared_end(prompt);
    if (core->lookup.node != CAIRN_NONE && core->lookup.divergence >= request->shared_end) {
        request->turns = cairn_node_at(&core->tree, core->lookup.node)->turns;
        request->pace_ms = pace_of(core, core->lookup.node);
    }
    cairn_learning_parted(core, request);
    cairn_step_plan(core, request, choice.slot, event->trim_floors);
    return cairn_step_keep_list(core, request);
}

/* --- progress -------------------------------------------------------------------------------------------------- */

static uint64_t loaded_bytes(const cairn_core *core, const cairn_request *request)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < request->count_list; i++) {
        if (request->list[i].kind == CAIRN_ACTION_LOAD_ROWS) {
            rows += request->list[i].use_end - request->list[i].use_begin;
        }
    }
    return rows * core->options.row_bytes;
}

cairn_status cairn_on_resumed(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = cairn_step_request(core, event->request, &slot);
    if (request == NULL || request->phase != CAIRN_PHASE_PREPARING) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/resumed", "no such preparation");
    }
    cairn_plan_unpin(core, request);
    core->slots[slot].settling = false;
    request->phase = CAIRN_PHASE_READING;
    bool restored = false;
    for (uint32_t i = 0; i < request->count_list; i++) {
        restored = restored || request->list[i].kind == CAIRN_ACTION_RESTORE;
    }
    if (restored && event->cost_ns > 0) {
        cairn_costs_saw_restore(&core->costs, loaded_bytes(core, request), event->cost_ns);
    }
    if (request->keep && core->tree.cursors[slot].node != CAIRN_NONE) {
        cairn_tree_touch(&core->tree, core->tree.cursors[slot].node, event->now_ns,
                         cairn_boundary_messages(request->prompt), false);
        cairn_placement_marks(core, request, slot, 0, request->position);
    }
    return CAIRN_OK;
}

static void touch_states(cairn_core *core, uint32_t node, bool pin)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        for (uint32_t m = cairn_node_at(tree, i)->mark_first; m != CAIRN_NONE;
             m = cairn_mark_at(tree, m)->next) {
            if (cairn_mark_at(tree, m)->state != CAIRN_NONE) {
                cairn_state *state = cairn_state_at(tree, cairn_mark_at(tree, m)->state);
                state->used_ns = core->now_ns;
                state->anchor_pin |= pin && (cairn_mark_at(tree, m)->kinds & CAIRN_BOUNDARY_SYSTEM_END) != 0;
            }
        }
        for (uint32_t c = cairn_node_at(tree, i)->cover_first; c != CAIRN_NONE;
             c = cairn_cover_at(tree, c)->next) {
            cairn_segment_at(tree, cairn_cover_at(tree, c)->segment)->used_ns = core->now_ns;
        }
    }
}

cairn_status cairn_on_read(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = cairn_step_request(core, event->request, &slot);
    const cairn_action *last =
        request != NULL && request->count_list > 0 ? &request->list[request->count_list - 1] : NULL;
    if (last == NULL || request->phase != CAIRN_PHASE_READING || last->kind != CAIRN_ACTION_READ ||
        event->position <= request->position || event->position > last->end) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/read", "nothing was to be read up to there");
    }
    cairn_step_start_list(core);
    uint32_t begin = request->position;
    cairn_slot *item = &core->slots[slot];
    item->digest = cairn_lineage_step(item->digest, event->position);
    item->decoded = item->decoded && item->digest == 0;
    item->state_set = true;
    cairn_costs_saw_read(&core->costs, begin, event->position, event->cost_ns);
    request->position = event->position;
    commit(core, request, slot, request->prompt->tokens + begin, event->position - begin,
           request->prompt->count - begin);
    if (request->keep) {
        cairn_node *node = cairn_node_at(&core->tree, core->tree.cursors[slot].node);
        node->turns = node->turns > request->turns ? node->turns : request->turns;
        pace_set(core, request, core->tree.cursors[slot].node);
        cairn_tree_touch(&core->tree, core->tree.cursors[slot].node, event->now_ns,
                         cairn_boundary_messages(request->prompt), false);
        cairn_placement_marks(core, request, slot, begin, event->position);
        cairn_placement_reached(core, request, slot);
    }
    emit_next(core, request, slot);
    return cairn_step_keep_list(core, request);
}

cairn_status cairn_on_answered(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = cairn_step_request(core, event->request, &slot);
    if (request == NULL || request->phase != CAIRN_PHASE_ANSWERING ||
        (event->count > 0 && event->tokens == NULL) ||
        event->count > core->options.slot_tokens_max - request->position) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/answered", "no answer is due, or it is too long");
    }
    cairn_step_start_list(core);
    if (event->count == 0) {
        return cairn_step_keep_list(core, request);
    }
    cairn_slot *item = &core->slots[slot];
    item->digest = 0;
    item->decoded = true;
    item->state_set = true;
    request->position += event->count;
    commit(core, request, slot, event->tokens, event->count, event->count + 64);
    if (request->keep) {
        cairn_placement_answered(core, request, slot, event->tokens, event->count);
    }
    return cairn_step_keep_list(core, request);
}

cairn_status cairn_on_finish(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = cairn_step_request(core, event->request, &slot);
    if (request == NULL) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/finish", "no such request");
    }
    cairn_tree *tree = &core->tree;
    cairn_plan_unpin(core, request);
    cairn_step_start_list(core);
    cairn_step_abandon(core, request);
    bool unknown = core->slots[slot].settling && !request->live;
    core->slots[slot].settling = false;
    if (unknown) { /* ended while it was prepared: who knows what the slot holds */
        cairn_plan_slot_cut(core, slot, 0, CAIRN_REASON_ROWS_GONE);
        core->slots[slot].dirty = true;
    }
    core->slots[slot].used_ns = event->now_ns;
    uint32_t node = tree->cursors[slot].node;
    if (request->keep && node != CAIRN_NONE && tree->cursors[slot].position > 0) {
        uint32_t position = tree->cursors[slot].position;
        if (request->phase == CAIRN_PHASE_ANSWERING && position > request->prompt->count) {
            uint32_t m = cairn_tree_mark(tree, node, position, true);
            if (m != CAIRN_NONE) {
                cairn_mark_at(tree, m)->kinds |= CAIRN_BOUNDARY_ANSWER_END;
                cairn_mark_at(tree, m)->message = cairn_boundary_messages(request->prompt);
                cairn_mark_at(tree, m)->role = CAIRN_ROLE_ASSISTANT;
            }
        }
        cairn_tree_touch(tree, node, event->now_ns, cairn_boundary_messages(request->prompt), true);
        cairn_node_at(tree, node)->habit = request->habit;
        cairn_tree_trim_room(tree, node);
        cairn_learning_left(core, request, node);
        touch_states(core, node, request->prompt->pin);
        cairn_value_dirty(core, node);
    }
    request->id = 0;
    request->prompt = NULL;
    request->count_list = 0;
    return CAIRN_OK;
}
