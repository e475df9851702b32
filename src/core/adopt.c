/*
 * adopt - see adopt.h.
 */
#include "core/adopt.h"

#include "core/drop.h"
#include "core/eviction.h"
#include "core/plan.h"

static cairn_status check_event(const cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    const cairn_prompt *prompt = event->prompt;
    bool fine = prompt != NULL && prompt->tokens != NULL && event->adopts != NULL && event->count > 0;
    for (uint32_t i = 0; fine && i < event->count; i++) {
        const cairn_adopt *item = &event->adopts[i];
        uint32_t rows_end = item->begin;
        fine = item->bytes > 0 && item->end <= prompt->count && item->end < core->options.slot_tokens_max &&
               (item->rows ? item->begin < item->end && item->stored_end >= item->end : item->end > 0);
        for (uint32_t j = 0; fine && j < item->count_runs; j++) {
            fine = item->runs[j].rows_end > rows_end && item->runs[j].cut >= item->runs[j].rows_end;
            rows_end = item->runs[j].rows_end;
        }
        fine = fine && (!item->rows || rows_end == item->stored_end);
    }
    return fine ? CAIRN_OK
                : cairn_error_set(reterr, CAIRN_INVALID, "core/adopt", "no prompt, or ranges that can't be");
}

/* Bring the path of tokens [0, end) into the tree, held by the visitor's cursor. */
static bool path_visit(cairn_core *core, const cairn_prompt *prompt, uint32_t space, uint32_t end)
{
    cairn_tree *tree = &core->tree;
    uint32_t visitor = core->options.slots;
    uint32_t node = CAIRN_NONE;
    uint32_t root = cairn_space_at(tree, space)->root;
    uint32_t known = cairn_tree_match(tree, root, prompt->tokens, end, &node);
    cairn_tree_cursor_set(tree, visitor, known > 0 ? node : root, known);
    for (uint32_t i = 0; i < CAIRN_EVICT_TRIES; i++) {
        uint32_t at = tree->cursors[visitor].position;
        if (at == end ||
            cairn_tree_extend(tree, visitor, prompt->tokens + at, end - at, end - at) == CAIRN_OK) {
            return true;
        }
        if (!cairn_evict_leaf(core)) {
            return false;
        }
    }
    return false;
}

static bool has_state(const cairn_core *core, uint32_t tip, uint32_t position)
{
    uint32_t mark = cairn_tree_mark((cairn_tree *)&core->tree, cairn_tree_edge(&core->tree, tip, position),
                                    position, false);
    return mark != CAIRN_NONE && cairn_mark_at(&core->tree, mark)->state != CAIRN_NONE;
}

/* Are rows [0, end) of the path stored, being written, or live somewhere? */
static bool rows_whole(const cairn_core *core, uint32_t tip, uint32_t end)
{
    for (uint32_t n = cairn_tree_edge(&core->tree, tip, end); n != CAIRN_NONE;
         n = cairn_node_at(&core->tree, n)->parent) {
        uint32_t begin = cairn_node_at(&core->tree, n)->begin;
        if (cairn_tree_missing(&core->tree, n, begin, end) != end) {
            return false;
        }
        end = begin;
    }
    return true;
}

static bool emit_fetch(cairn_core *core, uint32_t index, const cairn_adopt *item, cairn_blob_id blob)
{
    return cairn_core_emit(core, (cairn_action){.kind = CAIRN_ACTION_FETCH,
                                                .slot = CAIRN_SLOT_ANY,
                                                .blob = blob,
                                                .begin = item->begin,
                                                .end = item->end,
                                                .use_begin = index,
                                                .bytes = item->bytes});
}

/* Hang rows that memory lacks on the path. False: no room; true also when there was nothing to do. */
static bool adopt_rows(cairn_core *core, uint32_t tip, const cairn_adopt *item, uint32_t index)
{
    cairn_tree *tree = &core->tree;
    uint32_t segment = cairn_tree_segment_add(tree, cairn_tree_edge(&core->tree, tip, item->end), item->begin,
                                              item->end, false);
    if (segment == CAIRN_NONE) {
        return false;
    }
    cairn_segment *added = cairn_segment_at(tree, segment);
    if (added->count_covers == 0) { /* all of it is here already */
        cairn_tree_segment_remove(tree, segment);
        return true;
    }
    bool fine = cairn_ledger_reserve(&core->ledger, item->bytes);
    if (!fine) {
        cairn_tree_segment_remove(tree, segment);
        return false;
    }
    for (uint32_t i = 0; i < item->count_runs && fine; i++) {
        cairn_run run = item->runs[i];
        bool last = run.rows_end >= item->end;
        run.rows_end = last ? item->end : run.rows_end;
        fine = cairn_lineage_add(&added->lineage, tree->mem, tree->ledger, run);
        if (last) {
            break;
        }
    }
    if (fine) {
        added->blob = cairn_blob_make(core, segment, true);
        added->bytes = item->bytes;
        added->stored_end = item->stored_end;
        added->fetching = true;
        added->used_ns = added->created_ns = core->now_ns;
        fine = emit_fetch(core, index, item, added->blob);
    }
    if (!fine) {
        cairn_tree_segment_remove(tree, segment);
        cairn_ledger_unreserve(&core->ledger, item->bytes);
    }
    return fine;
}

/* Hang a state on the path. Its rows are there. */
static bool adopt_state(cairn_core *core, uint32_t tip, const cairn_adopt *item, uint32_t index)
{
    cairn_tree *tree = &core->tree;
    if (!rows_whole(core, tip, item->end) || !cairn_ledger_reserve(&core->ledger, item->bytes)) {
        return false;
    }
    uint32_t node = cairn_tree_edge(&core->tree, tip, item->end);
    uint32_t state = cairn_tree_state_add(tree, node, item->end);
    if (state == CAIRN_NONE) {
        cairn_ledger_unreserve(&core->ledger, item->bytes);
        return false;
    }
    cairn_state *added = cairn_state_at(tree, state);
    added->blob = cairn_blob_make(core, state, false);
    added->bytes = item->bytes;
    added->digest = item->digest;
    added->decoded = item->decoded;
    added->kept = true;
    added->used_ns = added->created_ns = core->now_ns;
    cairn_mark *mark = cairn_mark_at(tree, added->mark);
    mark->kinds |= item->boundary.kinds;
    mark->role = item->boundary.role;
    mark->message = item->boundary.message;
    cairn_value_dirty(core, node);
    if (!emit_fetch(core, index, item, added->blob)) {
        cairn_tree_state_remove(tree, state);
        cairn_ledger_unreserve(&core->ledger, item->bytes);
        return false;
    }
    return true;
}

/* The state would be wanted and there is no room for it: remembered, as the reason of a shorter resume. */
static void leave_tomb(cairn_core *core, uint32_t tip, uint32_t position, uint64_t bytes)
{
    uint32_t mark = cairn_tree_mark(&core->tree, cairn_tree_edge(&core->tree, tip, position), position, true);
    if (mark != CAIRN_NONE && cairn_mark_at(&core->tree, mark)->state == CAIRN_NONE) {
        cairn_mark_at(&core->tree, mark)->tomb = CAIRN_REASON_NO_ROOM;
        cairn_mark_at(&core->tree, mark)->tomb_bytes = bytes;
    }
}

/* Rows first, then states, so that a state's rows are there (or on their way) when it is hung up. */
static void adopt_path(cairn_core *core, const cairn_event *event, uint32_t tip, uint32_t deepest)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < event->count; i++) {
        bytes += event->adopts[i].bytes;
    }
    double gain = cairn_costs_read(&core->costs, 0, deepest);
    double density = cairn_value_density(core, tip, gain, core->now_ns, bytes);
    if (!cairn_evict_for(core, bytes, density)) {
        leave_tomb(core, tip, deepest, bytes);
        return;
    }
    for (uint32_t i = 0; i < event->count; i++) {
        const cairn_adopt *item = &event->adopts[i];
        if (item->rows && !adopt_rows(core, tip, item, i)) {
            return; /* the rows so far serve nobody, and go when room is needed */
        }
    }
    for (uint32_t i = 0; i < event->count; i++) {
        const cairn_adopt *item = &event->adopts[i];
        if (!item->rows && !has_state(core, tip, item->end)) {
            (void)adopt_state(core, tip, item, i);
        }
    }
}

cairn_status cairn_adopt_all(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    cairn_status status = check_event(core, event, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_drop_doomed(core);
    uint32_t space = cairn_evict_index_ready(core, event->count)
                         ? cairn_tree_space(&core->tree, &event->prompt->space, true)
                         : CAIRN_NONE;
    if (space == CAIRN_NONE) {
        return CAIRN_OK; /* no room in the index: nothing is fetched */
    }
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < event->count; i++) {
        deepest = event->adopts[i].end > deepest ? event->adopts[i].end : deepest;
    }
    bool there = path_visit(core, event->prompt, space, deepest);
    /* The visitor leaves before anything is judged: its rows are in no slot. Nothing from here on removes an edge. */
    uint32_t tip = core->tree.cursors[core->options.slots].node;
    cairn_tree_cursor_set(&core->tree, core->options.slots, CAIRN_NONE, 0);
    if (there) {
        adopt_path(core, event, tip, deepest);
    }
    return CAIRN_OK;
}
