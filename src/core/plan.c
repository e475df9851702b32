/*
 * plan - see plan.h.
 */
#include "core/plan.h"

#include "core/displace.h"
#include "core/drop.h"
#include "core/eviction.h"
#include "core/lookup.h"
#include "core/placement.h"
#include "core/resume.h"

/* --- pins ---------------------------------------------------------------------------------------------- */

static bool pin(cairn_core *core, cairn_request *request, uint32_t index, bool rows)
{
    if (request->count_pins == request->room_pins) {
        uint32_t room = request->room_pins * 2 + 16;
        void *fresh =
            cairn_mem_array_resize(core->mem, request->pins, request->room_pins, room, sizeof *request->pins);
        if (fresh == NULL) {
            return false;
        }
        request->pins = fresh;
        request->room_pins = room;
    }
    request->pins[request->count_pins++] = (cairn_pin){.index = index, .rows = rows};
    if (rows) {
        cairn_segment_at(&core->tree, index)->pins++;
    } else {
        cairn_state_at(&core->tree, index)->pins++;
    }
    return true;
}

void cairn_plan_unpin(cairn_core *core, cairn_request *request)
{
    for (uint32_t i = 0; i < request->count_pins; i++) {
        const cairn_pin *item = &request->pins[i];
        uint32_t *pins = item->rows ? &cairn_segment_at(&core->tree, item->index)->pins
                                    : &cairn_state_at(&core->tree, item->index)->pins;
        CAIRN_ASSERT(*pins > 0);
        --*pins;
    }
    request->count_pins = 0;
}

/* --- taking ---------------------------------------------------------------------------------- */

bool cairn_plan_take(cairn_core *core, uint32_t slot, cairn_request *request, double density)
{
    cairn_tree *tree = &core->tree;
    cairn_cursor at = tree->cursors[slot];
    uint64_t bytes = core->options.state_bytes_max;
    if (!cairn_evict_for(core, bytes, density) || !cairn_ledger_reserve(&core->ledger, bytes)) {
        return false;
    }
    uint32_t state = cairn_tree_state_add(tree, at.node, at.position);
    if (state == CAIRN_NONE) {
        cairn_ledger_unreserve(&core->ledger, bytes);
        return false;
    }
    cairn_state *item = cairn_state_at(tree, state);
    item->blob = cairn_blob_make(core, state, false);
    item->bytes = bytes;
    item->owner = request->id;
    item->digest = core->slots[slot].digest;
    item->decoded = core->slots[slot].decoded;
    item->used_ns = item->created_ns = core->now_ns;
    request->count_pending++;
    cairn_value_dirty(core, at.node);
    cairn_action action = {.kind = CAIRN_ACTION_TAKE,
                           .slot = slot,
                           .request = request->id,
                           .blob = item->blob,
                           .begin = at.position,
                           .end = at.position,
                           .bytes = bytes};
    if (!cairn_core_emit(core, action)) {
        request->count_pending--;
        cairn_ledger_unreserve(&core->ledger, bytes);
        cairn_tree_state_remove(tree, state);
        return false;
    }
    return true;
}

/* --- the slot's new contents --------------------------------------------------------------------------------- */

void cairn_plan_slot_cut(cairn_core *core, uint32_t slot, uint32_t length, cairn_reason tomb)
{
    cairn_tree *tree = &core->tree;
    cairn_cursor old = tree->cursors[slot];
    core->slots[slot].state_set = false;
    core->slots[slot].digest = 0;
    if (old.node == CAIRN_NONE || length >= old.position) {
        return;
    }
    cairn_tree_cursor_set(tree, slot, cairn_tree_edge(tree, old.node, length), length);
    cairn_lineage_trim(&core->slots[slot].lineage, length);
    cairn_drop_stranded(core, old.node, length, old.position, tomb);
    cairn_value_dirty(core, old.node);
}

/*
 * The slot's cursor goes to the resume point, and what only its old rows kept usable is dropped: before the
 * actions that can fail, as the rest of a list is not carried out after one that did.
 */
static void move_cursor(cairn_core *core, const cairn_choice *choice, const cairn_cursor *lost)
{
    const cairn_lookup *look = &core->lookup;
    cairn_reason tomb = core->options.rows_move ? CAIRN_REASON_NO_ROOM : CAIRN_REASON_ROWS_GONE;
    uint32_t node = choice->resume > 0 ? cairn_lookup_node(core, choice->resume) : look->root;
    cairn_tree_cursor_set(&core->tree, choice->slot, node, node != CAIRN_NONE ? choice->resume : 0);
    if (lost->node != CAIRN_NONE) {
        if (lost->position > choice->keep) {
            cairn_drop_stranded(core, lost->node, choice->keep, lost->position, tomb);
        }
        cairn_value_dirty(core, lost->node);
    }
}

/* What the slot's live state will be. */
static void settle_slot(cairn_core *core, const cairn_request *request, const cairn_choice *choice)
{
    cairn_slot *slot = &core->slots[choice->slot];
    slot->dirty = false;
    slot->settling = true;
    slot->exact = request->prompt->mode == CAIRN_RESUME_EXACT;
    if (choice->live) {
        return;
    }
    if (core->lookup.root == CAIRN_NONE) { /* nothing of this request may be kept: its path stays unknown */
        slot->state_set = false;
        slot->digest = CAIRN_LINEAGE_SEED;
        slot->decoded = false;
        return;
    }
    const cairn_state *state =
        choice->state != CAIRN_NONE ? cairn_state_at(&core->tree, choice->state) : NULL;
    slot->state_set = state != NULL || core->options.trim == CAIRN_TRIM_ANYWHERE || choice->resume == 0 ||
                      request->floor <= choice->resume;
    slot->decoded = state != NULL && state->decoded;
    uint64_t digest = CAIRN_LINEAGE_SEED;
    if (choice->resume > 0) {
        uint32_t runs = slot->lineage.count;
        digest = state != NULL ? state->digest : runs > 0 ? slot->lineage.runs[runs - 1].digest : 0;
    }
    slot->digest = cairn_lineage_whole(&slot->lineage, choice->resume, digest) ? digest : 0;
    slot->decoded = slot->decoded || (slot->digest == 0 && state == NULL);
}

/* Were rows [begin, end) of both made by the same batches? */
static bool same_batches(const cairn_lineage *a, const cairn_lineage *b, uint32_t begin, uint32_t end)
{
    uint32_t i = cairn_lineage_find(a, begin), j = cairn_lineage_find(b, begin);
    while (begin < end && i < a->count && j < b->count) {
        const cairn_run *x = &a->runs[i], *y = &b->runs[j];
        if (x->cut != y->cut || x->digest != y->digest) {
            return false;
        }
        begin = x->rows_end < y->rows_end ? x->rows_end : y->rows_end;
        i += x->rows_end <= begin ? 1 : 0;
        j += y->rows_end <= begin ? 1 : 0;
    }
    return begin >= end;
}

/*
 * An engine may put a block in from its beginning and replace rows before `at` that the slot has (llama_rows.c says why).
 * Where these are of other batches, nobody may take the slot's rows there for what they were.
 */
static bool head_comes_along(cairn_core *core, cairn_slot *slot, const cairn_segment *segment, uint32_t at)
{
    if (segment->begin >= at || same_batches(&slot->lineage, &segment->lineage, segment->begin, at)) {
        return true;
    }
    cairn_lineage_trim(&slot->lineage, segment->begin);
    cairn_run unknown = {.rows_end = at, .cut = at, .digest = 0};
    return cairn_lineage_add(&slot->lineage, core->mem, &core->ledger, unknown);
}

/* Rows from the lookup's pieces onto [keep, resume). False: something did not work out; resume elsewhere. */
static bool load_rows(cairn_core *core, cairn_request *request, const cairn_choice *choice)
{
    cairn_slot *slot = &core->slots[choice->slot];
    uint32_t at = choice->keep;
    for (uint32_t i = 0; i < core->lookup.count_pieces && at < choice->resume; i++) {
        const cairn_piece_rows *piece = &core->lookup.pieces[i];
        if (piece->end <= at) {
            continue;
        }
        uint32_t end = piece->end < choice->resume ? piece->end : choice->resume;
        const cairn_segment *segment =
            piece->segment != CAIRN_NONE ? cairn_segment_at(&core->tree, piece->segment) : NULL;
        if (segment == NULL || piece->begin > at) {
            return false;
        }
        if (!head_comes_along(core, slot, segment, at) ||
            !cairn_lineage_copy(&slot->lineage, core->mem, &core->ledger, &segment->lineage, at, end)) {
            return false;
        }
        cairn_action action = {.kind = CAIRN_ACTION_LOAD_ROWS,
                               .slot = choice->slot,
                               .request = request->id,
                               .blob = segment->blob,
                               .begin = segment->begin,
                               .end = segment->stored_end != 0 ? segment->stored_end : segment->end,
                               .use_begin = at,
                               .use_end = end};
        if (!cairn_core_emit(core, action)) {
            return false;
        }
        at = end;
    }
    return at >= choice->resume;
}

/* Export what only other slots hold; the pieces then name the new segments. */
static bool save_donated(cairn_core *core, cairn_request *request, const cairn_choice *choice)
{
    cairn_lookup *look = &core->lookup;
    for (uint32_t i = 0; i < look->count_pieces; i++) {
        cairn_piece_rows *piece = &look->pieces[i];
        uint32_t begin = piece->begin > choice->keep ? piece->begin : choice->keep;
        uint32_t end = piece->end < choice->resume ? piece->end : choice->resume;
        if (piece->segment != CAIRN_NONE || begin >= end) {
            continue;
        }
        uint64_t bytes = (uint64_t)(end - begin) * core->options.row_bytes;
        uint64_t buffer = core->ledger.buffer_users == 0 ? core->options.rows_extra_bytes : 0;
        double gain = cairn_costs_read(&core->costs, 0, choice->resume);
        if (!cairn_evict_for(core, bytes + buffer,
                             cairn_value_density(core, look->node, gain, core->now_ns, bytes))) {
            return false;
        }
        bool clip = request->prompt->mode == CAIRN_RESUME_EXACT;
        uint32_t segment = cairn_displace_segment(core, request, piece->donor, begin, end, clip);
        if (segment == CAIRN_NONE || !pin(core, request, segment, true)) {
            return false;
        }
        *piece = (cairn_piece_rows){segment, begin, end, CAIRN_NONE};
    }
    return true;
}

static bool pin_choice(cairn_core *core, cairn_request *request, const cairn_choice *choice)
{
    const cairn_lookup *look = &core->lookup;
    if (choice->state != CAIRN_NONE && !pin(core, request, choice->state, false)) {
        return false;
    }
    for (uint32_t i = 0; i < look->count_pieces; i++) {
        const cairn_piece_rows *piece = &look->pieces[i];
        if (piece->segment != CAIRN_NONE && piece->end > choice->keep && piece->begin < choice->resume &&
            !pin(core, request, piece->segment, true)) {
            return false;
        }
    }
    return true;
}

static void simple(cairn_core *core, const cairn_request *request, cairn_action_kind kind, uint32_t slot,
                   uint32_t begin)
{
    cairn_action action = {.kind = kind, .slot = slot, .request = request->id, .begin = begin, .end = begin};
    (void)cairn_core_emit(core, action);
}

/* The list from RESET or TRIM to RESTORE. False: rows could not be brought together. */
static bool prepare(cairn_core *core, cairn_request *request, const cairn_choice *choice,
                    const cairn_cursor *lost)
{
    cairn_slot *slot = &core->slots[choice->slot];
    bool longer = slot->dirty || (lost->node != CAIRN_NONE && lost->position > choice->keep);
    if (choice->keep == 0) {
        cairn_lineage_trim(&slot->lineage, 0);
        simple(core, request, CAIRN_ACTION_RESET, choice->slot, 0);
    } else {
        cairn_lineage_trim(&slot->lineage, choice->keep);
        if (longer) {
            simple(core, request, CAIRN_ACTION_TRIM, choice->slot, choice->keep);
        }
    }
    if (!load_rows(core, request, choice)) {
        return false;
    }
    if (choice->state != CAIRN_NONE) {
        cairn_action action = {.kind = CAIRN_ACTION_RESTORE,
                               .slot = choice->slot,
                               .request = request->id,
                               .blob = cairn_state_at(&core->tree, choice->state)->blob,
                               .begin = choice->resume,
                               .end = choice->resume};
        return cairn_core_emit(core, action);
    }
    return true;
}

void cairn_plan_resume(cairn_core *core, cairn_request *request, const cairn_choice *choice)
{
    cairn_choice now = *choice;
    cairn_cursor lost = core->tree.cursors[choice->slot]; /* the path that the slot leaves */
    bool fine = true;
    if (!now.live) {
        fine = pin_choice(core, request, &now);
        cairn_displace(core, request, choice->slot, choice->keep);
        fine = fine && save_donated(core, request, &now);
    }
    if (fine) {
        move_cursor(core, &now, &lost);
    }
    uint32_t before = core->count_actions;
    if (!fine || (!now.live && !prepare(core, request, &now, &lost))) {
        core->count_actions = before; /* read it all instead */
        if (fine && now.resume > now.keep) {
            lost = (cairn_cursor){.node = cairn_lookup_node(core, now.resume), .position = now.resume};
        }
        now = (cairn_choice){.slot = choice->slot, .state = CAIRN_NONE};
        request->decision.reason = CAIRN_REASON_NO_ROOM;
        request->decision.reason_position = choice->resume;
        request->decision.resume = 0;
        request->decision.source = CAIRN_SOURCE_NONE;
        cairn_lineage_trim(&core->slots[now.slot].lineage, 0);
        move_cursor(core, &now, &lost);
        simple(core, request, CAIRN_ACTION_RESET, now.slot, 0);
    }
    settle_slot(core, request, &now);
    request->position = now.resume;
}
