/*
 * core - events in, lists out; see core.h. Each event checks that it fits the state before it changes
 * anything, then calls the rooms. Probing, walking and verifying are in core_look.c.
 */
#include "core/core.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "core/adopt.h"
#include "core/boundary.h"
#include "core/divergence.h"
#include "core/eviction.h"
#include "core/placement.h"
#include "core/plan.h"
#include "core/resume.h"

/* Every list has room for LIST_LEAST from the start, and the last few are kept for what must be said. */
enum { LIST_LEAST = 64, LIST_KEPT = 4 };

/* --- making ---------------------------------------------------------------------------------------------- */

static bool lists_new(cairn_core *core)
{
    core->actions = cairn_mem_array(core->mem, LIST_LEAST, sizeof(cairn_action));
    core->room_actions = core->actions != NULL ? LIST_LEAST : 0;
    bool fine = core->actions != NULL;
    for (uint32_t i = 0; i < core->options.slots && fine; i++) {
        core->slots[i].dirty = true; /* what the engine holds at first is not known */
        core->requests[i].list = cairn_mem_array(core->mem, LIST_LEAST, sizeof(cairn_action));
        fine = core->requests[i].list != NULL;
        core->requests[i].room_list = fine ? LIST_LEAST : 0;
    }
    return fine;
}

cairn_status cairn_core_new(cairn_mem *mem, const cairn_core_options *options, cairn_core **ret_core,
                            cairn_error *reterr)
{
    if (options->slots == 0 || options->slot_tokens_max < 2 || options->batch_tokens_max == 0 ||
        options->slots >= (1u << 16)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/new",
                               "slots, slot_tokens_max or batch_tokens_max");
    }
    cairn_core *core = cairn_mem_zalloc(mem, sizeof *core);
    if (core == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "core/new", NULL);
    }
    core->mem = mem;
    core->options = cairn_boundary_options(options);
    core->digest = CAIRN_HASH_CHAIN_SEED;
    cairn_ledger_init(&core->ledger, options->ram_bytes_max, options->index_bytes_max);
    cairn_costs_init(&core->costs, options);
    core->slots = cairn_mem_array(mem, options->slots, sizeof *core->slots);
    core->requests = cairn_mem_array(mem, options->slots, sizeof *core->requests);
    core->lookup.common = cairn_mem_array(mem, options->slots, sizeof *core->lookup.common);
    cairn_status status =
        cairn_tree_init(&core->tree, mem, &core->ledger, options->slots + 1); /* and a visitor: adopt.c */
    if (status != CAIRN_OK || core->slots == NULL || core->requests == NULL || core->lookup.common == NULL) {
        cairn_core_free(core);
        return cairn_error_set(reterr, CAIRN_NOMEM, "core/new", NULL);
    }
    bool lists = lists_new(core);
    if (!lists) {
        cairn_core_free(core);
        return cairn_error_set(reterr, CAIRN_NOMEM, "core/new", NULL);
    }
    *ret_core = core;
    return CAIRN_OK;
}

void cairn_core_free(cairn_core *core)
{
    if (core == NULL) {
        return;
    }
    cairn_mem *mem = core->mem;
    uint32_t slots = core->options.slots;
    for (uint32_t i = 0; i < slots; i++) {
        if (core->slots != NULL) {
            cairn_lineage_release(&core->slots[i].lineage, mem, &core->ledger);
        }
        if (core->requests != NULL) {
            cairn_mem_array_release(mem, core->requests[i].list, core->requests[i].room_list,
                                    sizeof(cairn_action));
            cairn_mem_array_release(mem, core->requests[i].pins, core->requests[i].room_pins,
                                    sizeof(cairn_pin));
        }
    }
    for (uint32_t i = 0; i < core->tree.spaces.high; i++) {
        cairn_mem_array_release(mem, cairn_space_at(&core->tree, i)->counts, CAIRN_DIVERGENCE_COUNTS,
                                sizeof(float));
    }
    cairn_lookup_release(core, &core->lookup);
    cairn_path_scratch_release(&core->scratch, mem);
    cairn_tree_release(&core->tree);
    cairn_mem_array_release(mem, core->slots, slots, sizeof *core->slots);
    cairn_mem_array_release(mem, core->requests, slots, sizeof *core->requests);
    cairn_mem_array_release(mem, core->actions, core->room_actions, sizeof(cairn_action));
    cairn_mem_release(mem, core, sizeof *core);
}

/* --- lists ------------------------------------------------------------------------------------------------- */

bool cairn_core_emit(cairn_core *core, cairn_action action)
{
    bool must = action.kind == CAIRN_ACTION_RESET || action.kind == CAIRN_ACTION_READ ||
                action.kind == CAIRN_ACTION_READY;
    if (core->count_actions + LIST_KEPT >= core->room_actions) {
        uint32_t more = core->room_actions + core->room_actions / 2 + LIST_LEAST;
        void *fresh =
            cairn_mem_array_resize(core->mem, core->actions, core->room_actions, more, sizeof(cairn_action));
        if (fresh == NULL) {
            if (!must) {
                return false;
            }
        } else {
            core->actions = fresh;
            core->room_actions = more;
        }
    }
    CAIRN_ASSERT(core->count_actions < core->room_actions);
    core->actions[core->count_actions++] = action;
    return true;
}

static void digest_actions(cairn_core *core, const cairn_action *list)
{
    for (uint32_t i = 0; i < core->count_actions; i++) {
        const cairn_action *a = &list[i];
        const uint64_t words[] = {
            (uint64_t)a->kind << 32 | a->slot,         a->request, a->blob, (uint64_t)a->begin << 32 | a->end,
            (uint64_t)a->use_begin << 32 | a->use_end, a->bytes};
        for (unsigned j = 0; j < sizeof words / sizeof words[0]; j++) {
            core->digest = cairn_hash_mix(core->digest ^ words[j]) + j;
        }
    }
}

static cairn_request *find_request(const cairn_core *core, cairn_request_id id, uint32_t *ret_slot)
{
    *ret_slot = 0;
    for (uint32_t i = 0; i < core->options.slots && id != 0; i++) {
        if (core->requests[i].id == id) {
            *ret_slot = i;
            return &core->requests[i];
        }
    }
    return NULL;
}

/* The list becomes the request's own, so that later reports can name its items by index. */
static cairn_status keep_list(cairn_core *core, cairn_request *request)
{
    cairn_action *list = request->list;
    uint32_t room = request->room_list;
    request->list = core->actions;
    request->room_list = core->room_actions;
    request->count_list = core->count_actions;
    core->returned = request->list;
    core->actions = list;
    core->room_actions = room;
    return CAIRN_OK;
}

/* The event is valid: its list begins with what was due to be dropped. */
static void start_list(cairn_core *core)
{
    cairn_drop_doomed(core);
    (void)cairn_evict_for(core, 0, INFINITY); /* room for the index */
}

/* --- pieces of steps ------------------------------------------------------------------------------------------ */

/* Free items in every pool, so that what follows needs no room in the middle. False: no more knowledge. */
static bool index_ready(cairn_core *core)
{
    enum { SPARE = 4 };
    cairn_tree *tree = &core->tree;
    for (uint32_t tries = 0; tries < 4096; tries++) {
        if (cairn_pool_reserve(&tree->nodes, SPARE) && cairn_pool_reserve(&tree->marks, SPARE) &&
            cairn_pool_reserve(&tree->covers, SPARE) && cairn_pool_reserve(&tree->states, SPARE) &&
            cairn_pool_reserve(&tree->segments, SPARE) && cairn_pool_reserve(&tree->buffers, SPARE)) {
            return true;
        }
        if (!cairn_evict_leaf(core)) {
            return false;
        }
    }
    return false;
}

/* Keep a part of the index free, so that saving and taking have room for their items. */
static void index_clear(cairn_core *core)
{
    uint64_t most = core->ledger.index_bytes_max - core->ledger.index_bytes_max / 16;
    while (core->ledger.index_bytes > most && cairn_evict_leaf(core)) {
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
    bool fine = index_ready(core);
    for (uint32_t tries = 0; fine && tries < 4096; tries++) {
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
static void abandon_pending(cairn_core *core, cairn_request *request)
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
        find_request(core, event->request, &slot) != NULL ||
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
static void plan_request(cairn_core *core, cairn_request *request, uint32_t slot, const uint32_t *floors)
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
    uint32_t taken = request->decision.states_taken;
    uint32_t skipped = request->decision.states_skipped;
    cairn_resume_explain(core, prompt, &choice, request, floors, &request->decision);
    if (request->avoid_reason != CAIRN_REASON_NONE && request->decision.reason == CAIRN_REASON_NEVER_TAKEN) {
        request->decision.reason = request->avoid_reason;
    }
    request->decision.states_taken = taken;
    request->decision.states_skipped = skipped;
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
    emit_next(core, request, choice.slot);
}

static cairn_status on_request(cairn_core *core, const cairn_event *event, cairn_error *reterr)
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
    start_list(core);
    index_clear(core);
    bool keep = !prompt->no_store && prompt->mode != CAIRN_RESUME_OFF && index_ready(core);
    uint32_t space = cairn_tree_space(&core->tree, &prompt->space, keep);
    if (keep && space == CAIRN_NONE) {
        keep = false;
    }
    cairn_choice choice = {.slot = CAIRN_NONE, .state = CAIRN_NONE};
    bool found = cairn_lookup_fill(core, prompt, NULL);
    if (!cairn_resume_choose(core, prompt, event->slot, event->trim_floors, &choice)) {
        return cairn_error_set(reterr, CAIRN_BUSY, "core/request", "no idle slot");
    }
    (void)found;
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
    request->shared_end = cairn_placement_shared_end(prompt);
    if (core->lookup.node != CAIRN_NONE && core->lookup.divergence >= request->shared_end) {
        request->turns = cairn_node_at(&core->tree, core->lookup.node)->turns;
    }
    cairn_placement_learn(core, request);
    plan_request(core, request, choice.slot, event->trim_floors);
    return keep_list(core, request);
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

static cairn_status on_resumed(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = find_request(core, event->request, &slot);
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

static void touch_states(cairn_core *core, uint32_t node)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        for (uint32_t m = cairn_node_at(tree, i)->mark_first; m != CAIRN_NONE;
             m = cairn_mark_at(tree, m)->next) {
            if (cairn_mark_at(tree, m)->state != CAIRN_NONE) {
                cairn_state_at(tree, cairn_mark_at(tree, m)->state)->used_ns = core->now_ns;
            }
        }
        for (uint32_t c = cairn_node_at(tree, i)->cover_first; c != CAIRN_NONE;
             c = cairn_cover_at(tree, c)->next) {
            cairn_segment_at(tree, cairn_cover_at(tree, c)->segment)->used_ns = core->now_ns;
        }
    }
}

static cairn_status on_read(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = find_request(core, event->request, &slot);
    const cairn_action *last =
        request != NULL && request->count_list > 0 ? &request->list[request->count_list - 1] : NULL;
    if (last == NULL || request->phase != CAIRN_PHASE_READING || last->kind != CAIRN_ACTION_READ ||
        event->position <= request->position || event->position > last->end) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/read", "nothing was to be read up to there");
    }
    start_list(core);
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
        cairn_tree_touch(&core->tree, core->tree.cursors[slot].node, event->now_ns,
                         cairn_boundary_messages(request->prompt), false);
        cairn_placement_marks(core, request, slot, begin, event->position);
        cairn_placement_reached(core, request, slot);
    }
    emit_next(core, request, slot);
    return keep_list(core, request);
}

static cairn_status on_answered(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = find_request(core, event->request, &slot);
    if (request == NULL || request->phase != CAIRN_PHASE_ANSWERING ||
        (event->count > 0 && event->tokens == NULL) ||
        event->count > core->options.slot_tokens_max - request->position) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/answered", "no answer is due, or it is too long");
    }
    start_list(core);
    if (event->count == 0) {
        return keep_list(core, request);
    }
    cairn_slot *item = &core->slots[slot];
    item->digest = 0;
    item->decoded = true;
    item->state_set = true;
    request->position += event->count;
    commit(core, request, slot, event->tokens, event->count, event->count + 64);
    if (request->keep) {
        cairn_placement_answered(core, request, slot);
    }
    return keep_list(core, request);
}

static cairn_status on_finish(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = find_request(core, event->request, &slot);
    if (request == NULL) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/finish", "no such request");
    }
    cairn_tree *tree = &core->tree;
    cairn_plan_unpin(core, request);
    start_list(core);
    abandon_pending(core, request);
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
        cairn_tree_trim_room(tree, node);
        cairn_placement_left(core, request, node);
        touch_states(core, node);
        cairn_value_dirty(core, node);
    }
    request->id = 0;
    request->prompt = NULL;
    request->count_list = 0;
    return CAIRN_OK;
}

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

static cairn_status on_stored(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = find_request(core, event->request, &slot);
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
    cairn_request *of = find_request(core, owner, &slot);
    if (of != NULL && of->count_pending > 0) {
        of->count_pending--;
    }
    return CAIRN_OK;
}

/* A TAKE or SAVE_ROWS did not work: it never was. */
static void write_failed(cairn_core *core, named found)
{
    uint32_t slot;
    uint64_t owner = found.segment != NULL ? found.segment->owner : found.state->owner;
    cairn_request *of = find_request(core, owner, &slot);
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
        cairn_drop_segment(core, found.index, CAIRN_REASON_ROWS_GONE);
    } else {
        cairn_ledger_unreserve(&core->ledger, found.state->bytes);
        found.state->bytes = 0;
        found.state->pending = false;
        cairn_drop_state(core, found.index, CAIRN_REASON_NEVER_TAKEN);
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

static cairn_status on_failed(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    uint32_t slot;
    cairn_request *request = find_request(core, event->request, &slot);
    named found = find_blob(core, reported_blob(event, request));
    bool writing =
        found.segment != NULL ? found.segment->pending : found.state != NULL && found.state->pending;
    bool listed = request != NULL && event->action < request->count_list;
    cairn_action_kind kind = listed ? request->list[event->action].kind : CAIRN_ACTION_DROP;
    if (writing && (event->blob != 0 || kind == CAIRN_ACTION_TAKE || kind == CAIRN_ACTION_SAVE_ROWS)) {
        core->deferring = true; /* DROPs that follow from it come with the next list */
        write_failed(core, found);
        return CAIRN_OK;
    }
    if (!listed || kind == CAIRN_ACTION_DROP || kind == CAIRN_ACTION_READY || kind == CAIRN_ACTION_TAKE ||
        kind == CAIRN_ACTION_SAVE_ROWS || request->phase == CAIRN_PHASE_ANSWERING) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/failed", "no such action could fail");
    }
    cairn_blob_id blob = request->list[event->action].blob;
    start_list(core);
    request->count_failures++;
    cairn_plan_unpin(core, request);
    abandon_pending(core, request);
    cairn_plan_slot_cut(core, slot, 0, CAIRN_REASON_ROWS_GONE);
    if (blob != 0) {
        blame(core, request, blob, event->status);
    }
    core->slots[slot].dirty = true;
    plan_request(core, request, slot, NULL);
    return keep_list(core, request);
}

static cairn_status on_lost(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    named found = find_blob(core, event->blob);
    if ((found.state == NULL || found.state->pending) && (found.segment == NULL || found.segment->pending)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/lost", "no such blob");
    }
    cairn_reason reason = event->status == CAIRN_OK ? CAIRN_REASON_EVICTED : tomb_of(event->status);
    start_list(core);
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

static cairn_status on_slot_lost(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    if (event->slot >= core->options.slots) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/slot lost", "no such slot");
    }
    start_list(core);
    cairn_plan_slot_cut(core, event->slot, event->position, CAIRN_REASON_ROWS_GONE);
    core->slots[event->slot].dirty = core->tree.cursors[event->slot].position != event->position;
    if (core->requests[event->slot].id != 0) { /* what it does from here on is not known any more */
        core->requests[event->slot].keep = false;
    }
    return CAIRN_OK;
}

static cairn_status on_budget(cairn_core *core, const cairn_event *event)
{
    start_list(core);
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
    cairn_mem_array_release(core->mem, cairn_space_at(tree, space)->counts, CAIRN_DIVERGENCE_COUNTS,
                            sizeof(float));
    if (cairn_space_at(tree, space)->counts != NULL) {
        cairn_ledger_index_shrink(&core->ledger, CAIRN_DIVERGENCE_COUNTS * sizeof(float));
        cairn_space_at(tree, space)->counts = NULL;
    }
}

static cairn_status on_forget(cairn_core *core, const cairn_event *event)
{
    start_list(core);
    for (uint32_t i = 0; i < core->tree.spaces.high; i++) {
        const cairn_space *space = cairn_space_at(&core->tree, i);
        if (space->alive && (event->all || memcmp(&space->name, &event->space, sizeof event->space) == 0)) {
            forget_space(core, i);
        }
    }
    return CAIRN_OK;
}

/* --- the step ------------------------------------------------------------------------------------------------------ */

static cairn_status dispatch(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    switch (event->kind) {
    case CAIRN_EVENT_REQUEST:
        return on_request(core, event, reterr);
    case CAIRN_EVENT_RESUMED:
        return on_resumed(core, event, reterr);
    case CAIRN_EVENT_READ:
        return on_read(core, event, reterr);
    case CAIRN_EVENT_ANSWERED:
        return on_answered(core, event, reterr);
    case CAIRN_EVENT_FINISH:
        return on_finish(core, event, reterr);
    case CAIRN_EVENT_STORED:
        return on_stored(core, event, reterr);
    case CAIRN_EVENT_FAILED:
        return on_failed(core, event, reterr);
    case CAIRN_EVENT_LOST:
        return on_lost(core, event, reterr);
    case CAIRN_EVENT_SLOT_LOST:
        return on_slot_lost(core, event, reterr);
    case CAIRN_EVENT_BUDGET:
        return on_budget(core, event);
    case CAIRN_EVENT_FORGET:
        return on_forget(core, event);
    case CAIRN_EVENT_ADOPT:
        return cairn_adopt_all(core, event, reterr);
    }
    return cairn_error_set(reterr, CAIRN_INVALID, "core/step", "no such event");
}

cairn_status cairn_core_step(cairn_core *core, const cairn_event *event, const cairn_action **ret_actions,
                             uint32_t *ret_count, cairn_error *reterr)
{
    *ret_actions = NULL;
    *ret_count = 0;
    core->count_actions = 0;
    core->now_ns = event->now_ns > core->now_ns ? event->now_ns : core->now_ns;
    core->returned = NULL;
    cairn_ledger_step(&core->ledger);
    core->deferring = event->kind == CAIRN_EVENT_STORED || event->kind == CAIRN_EVENT_RESUMED;
    cairn_status status = dispatch(core, event, reterr);
    *ret_actions = core->returned != NULL ? core->returned : core->actions;
    *ret_count = core->count_actions;
    digest_actions(core, *ret_actions);
    return status;
}

const cairn_decision *cairn_core_decision(const cairn_core *core, cairn_request_id request)
{
    uint32_t slot;
    const cairn_request *found = find_request(core, request, &slot);
    return found != NULL ? &found->decision : NULL;
}

uint64_t cairn_core_digest(const cairn_core *core)
{
    return core->digest;
}
