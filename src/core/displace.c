/*
 * displace - see displace.h.
 */
#include "core/displace.h"

#include "core/chance.h"
#include "core/drop.h"
#include "core/eviction.h"
#include "core/placement.h"
#include "core/plan.h"

enum { SEGMENT_TOKENS = 4096, ATTEMPTS = 6 };

uint32_t cairn_displace_segment(cairn_core *core, cairn_request *request, uint32_t slot, uint32_t begin,
                                uint32_t end, bool clip)
{
    cairn_tree *tree = &core->tree;
    uint64_t bytes = (uint64_t)(end - begin) * core->options.row_bytes;
    if (!cairn_ledger_buffer_hold(&core->ledger, core->options.rows_extra_bytes)) {
        return CAIRN_NONE;
    }
    if (!cairn_ledger_reserve(&core->ledger, bytes)) {
        cairn_ledger_buffer_release(&core->ledger);
        return CAIRN_NONE;
    }
    uint32_t node = cairn_tree_edge(tree, tree->cursors[slot].node, end);
    uint32_t index = cairn_tree_segment_add(tree, node, begin, end, clip);
    cairn_segment *item = index != CAIRN_NONE ? cairn_segment_at(tree, index) : NULL;
    bool fine = item != NULL && cairn_lineage_copy(&item->lineage, tree->mem, tree->ledger,
                                                   &core->slots[slot].lineage, begin, end);
    if (fine) {
        item->blob = cairn_blob_make(core, index, true);
        item->bytes = bytes;
        item->owner = request->id;
        item->used_ns = item->created_ns = core->now_ns;
        cairn_action action = {.kind = CAIRN_ACTION_SAVE_ROWS,
                               .slot = slot,
                               .request = request->id,
                               .blob = item->blob,
                               .begin = begin,
                               .end = end,
                               .bytes = bytes};
        fine = cairn_core_emit(core, action);
    }
    if (!fine) {
        if (item != NULL) {
            cairn_tree_segment_remove(tree, index);
        }
        cairn_ledger_unreserve(&core->ledger, bytes);
        cairn_ledger_buffer_release(&core->ledger);
        cairn_drop_uncovered(core);
        return CAIRN_NONE;
    }
    request->count_pending++;
    if (item->count_covers == 0) { /* another is being written for these rows: this one serves one load */
        item->doomed = true;
        core->count_doomed++;
    }
    if (clip) {
        cairn_drop_uncovered(core);
    }
    return index;
}

/* --- what a slot would lose --------------------------------------------------------------------------------- */

typedef struct gap {
    uint32_t begin, end;
} gap;

typedef struct loss {
    uint32_t slot;
    uint32_t node, position; /* the slot's cursor before                                            */
    uint32_t keep;
    bool exact; /* rows of this slot are worth more than rows of mixed readings                     */
    gap gaps[64];
    uint32_t count_gaps;
    uint64_t row_tokens;
} loss;

/*
 * Does most of this segment lie outside the path to `node`? Then it was saved for a branch that left early, and would
 * be kept whole for a few rows: what this path needs of it is saved again, while the slot has it.
 */
static bool mostly_elsewhere(const cairn_core *core, uint32_t node, uint32_t segment)
{
    const cairn_tree *tree = &core->tree;
    const cairn_segment *item = cairn_segment_at(tree, segment);
    uint32_t here = 0;
    for (uint32_t i = node; i != CAIRN_NONE && cairn_node_at(tree, i)->end > item->begin;
         i = cairn_node_at(tree, i)->parent) {
        for (uint32_t c = item->cover_first; c != CAIRN_NONE; c = cairn_cover_at(tree, c)->segment_next) {
            const cairn_cover *cover = cairn_cover_at(tree, c);
            here += cover->node == i ? cover->end - cover->begin : 0;
        }
    }
    return here < (item->end - item->begin) / 2;
}

/* Were rows [at, end) of this segment made by the same batches as the slot's own? */
static bool same_reading(const cairn_core *core, const loss *lost, const cairn_segment *segment, uint32_t at,
                         uint32_t end)
{
    const cairn_lineage *own = &core->slots[lost->slot].lineage;
    uint32_t mine = cairn_lineage_find(own, at);
    uint32_t theirs = cairn_lineage_find(&segment->lineage, at);
    while (at < end && at < lost->position && mine < own->count && theirs < segment->lineage.count) {
        const cairn_run *a = &own->runs[mine];
        const cairn_run *b = &segment->lineage.runs[theirs];
        if (a->digest != 0 && (a->digest != b->digest || a->cut != b->cut)) {
            return false;
        }
        at = a->rows_end < b->rows_end ? a->rows_end : b->rows_end;
        mine += a->rows_end <= at ? 1 : 0;
        theirs += b->rows_end <= at ? 1 : 0;
    }
    return true;
}

/*
 * Is this stored row as good as the slot's own? `below`: the segment that serves right behind it, which holds rows
 * before its first cover where a branch took that over; CAIRN_NONE: none.
 */
static bool cover_serves(const cairn_core *core, const loss *lost, const cairn_cover *cover, uint32_t below)
{
    const cairn_segment *segment = cairn_segment_at(&core->tree, cover->segment);
    const cairn_segment *behind = below != CAIRN_NONE ? cairn_segment_at(&core->tree, below) : NULL;
    if (behind != NULL && behind->begin <= cover->begin &&
        (!lost->exact || same_reading(core, lost, behind, cover->begin, cover->end))) {
        return true;
    }
    if (segment->doomed) {
        return false;
    }
    return lost->exact ? same_reading(core, lost, segment, cover->begin, cover->end)
                       : !mostly_elsewhere(core, lost->node, cover->segment);
}

static bool add_gap(loss *lost, uint32_t begin, uint32_t end)
{
    if (begin >= end) {
        return true;
    }
    if (lost->count_gaps > 0 &&
        lost->gaps[lost->count_gaps - 1].begin == end) { /* goes on above an edge's begin */
        lost->gaps[lost->count_gaps - 1].begin = begin;
        lost->row_tokens += end - begin;
        return true;
    }
    if (lost->count_gaps == sizeof lost->gaps / sizeof lost->gaps[0]) {
        return false;
    }
    lost->gaps[lost->count_gaps++] = (gap){begin, end};
    lost->row_tokens += end - begin;
    return true;
}

/* In exact mode a segment begins where a batch did: else it would depend on another's rows of the same batch. */
static void whole_batches(const cairn_core *core, loss *lost)
{
    const cairn_lineage *own = &core->slots[lost->slot].lineage;
    for (uint32_t i = 0; i < lost->count_gaps; i++) {
        gap *item = &lost->gaps[i];
        uint32_t at = cairn_lineage_find(own, item->begin);
        uint32_t begin = at > 0 && at < own->count ? own->runs[at - 1].rows_end : 0;
        uint32_t above = i + 1 < lost->count_gaps ? lost->gaps[i + 1].end : 0;
        begin = begin > above ? begin : above;
        if (at < own->count && own->runs[at].digest != 0 && begin < item->begin) {
            lost->row_tokens += item->begin - begin;
            item->begin = begin;
        }
    }
}

/* Rows [keep, need) of the slot that nobody else holds: found from the tip upwards. */
static void find_gaps(const cairn_core *core, loss *lost, uint32_t need)
{
    lost->count_gaps = 0;
    lost->row_tokens = 0;
    uint32_t below = CAIRN_NONE;
    for (uint32_t i = lost->node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        const cairn_node *node = cairn_node_at(&core->tree, i);
        if (node->end <= lost->keep) {
            return;
        }
        uint32_t from = node->begin > lost->keep ? node->begin : lost->keep;
        uint32_t to = node->end < need ? node->end : need;
        for (uint32_t c = node->cover_last; c != CAIRN_NONE && from < to;
             c = cairn_cover_at(&core->tree, c)->prev) {
            const cairn_cover *cover = cairn_cover_at(&core->tree, c);
            if (cover->begin >= to ||
                !cover_serves(core, lost, cover, cover->end >= to ? below : CAIRN_NONE)) {
                continue;
            }
            const cairn_segment *held = below != CAIRN_NONE ? cairn_segment_at(&core->tree, below) : NULL;
            below = held != NULL && cover->end >= to && held->begin <= cover->begin ? below : cover->segment;
            if (!add_gap(lost, cover->end > from ? cover->end : from, to)) {
                return;
            }
            to = cover->begin < to ? cover->begin : to;
        }
        if (from < to) {
            below = CAIRN_NONE;
            if (!add_gap(lost, from, to)) {
                return;
            }
        }
    }
}

/* The furthest position of the slot's path, at most `from`, that a state (here or on a branch) needs rows up to. */
static uint32_t needed(const cairn_core *core, const loss *lost, uint32_t from)
{
    const cairn_tree *tree = &core->tree;
    uint32_t below = CAIRN_NONE;
    for (uint32_t i = lost->node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        const cairn_node *node = cairn_node_at(tree, i);
        if (node->end <= lost->keep) {
            return 0;
        }
        uint32_t own = 0;
        for (uint32_t m = node->mark_first; m != CAIRN_NONE; m = cairn_mark_at(tree, m)->next) {
            own += cairn_mark_at(tree, m)->state != CAIRN_NONE ? 1 : 0;
        }
        uint32_t inside = below != CAIRN_NONE ? cairn_node_at(tree, below)->count_states : 0;
        if (node->end <= from && node->count_states > own + inside) {
            return node->end; /* another branch stands on this edge's end */
        }
        const cairn_mark *last = node->mark_last != CAIRN_NONE ? cairn_mark_at(tree, node->mark_last) : NULL;
        if (below == CAIRN_NONE && from >= lost->position &&
            (node->count_states > own || (last != NULL && last->position > lost->position && own > 0))) {
            return lost->position; /* the path goes on past the slot's end */
        }
        for (uint32_t m = node->mark_last; m != CAIRN_NONE; m = cairn_mark_at(tree, m)->prev) {
            const cairn_mark *mark = cairn_mark_at(tree, m);
            if (mark->state != CAIRN_NONE && mark->position <= from && mark->position > lost->keep &&
                !cairn_state_at(tree, mark->state)->doomed) {
                return mark->position;
            }
        }
        below = i;
    }
    return 0;
}

/* What the states in (keep, need] of the slot's path save together, beside what stays. */
static double gain_up_to(cairn_core *core, const loss *lost, uint32_t need)
{
    const cairn_tree *tree = &core->tree;
    uint32_t before = cairn_placement_before(core, lost->node, lost->keep + 1);
    double gain = 0;
    for (uint32_t i = lost->node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        if (cairn_node_at(tree, i)->end <= lost->keep) {
            break;
        }
        for (uint32_t m = cairn_node_at(tree, i)->mark_last; m != CAIRN_NONE;
             m = cairn_mark_at(tree, m)->prev) {
            const cairn_mark *mark = cairn_mark_at(tree, m);
            if (mark->state != CAIRN_NONE && mark->position <= need && mark->position > lost->keep) {
                gain += cairn_value_with_others(core, mark->state, before);
            }
        }
    }
    return gain;
}

/*
 * In exact mode the rows of one batch stay in one segment: else its first rows, whose tokens other paths share, would be
 * a segment of their own, which these paths' readings of the same tokens would replace.
 */
static uint32_t batch_end(const cairn_core *core, const loss *lost, uint32_t begin, uint32_t stop,
                          uint32_t end)
{
    const cairn_lineage *own = &core->slots[lost->slot].lineage;
    uint32_t at = cairn_lineage_find(own, stop - 1);
    if (stop >= end || at >= own->count || own->runs[at].rows_end == stop) {
        return stop;
    }
    uint32_t before = at > 0 ? own->runs[at - 1].rows_end : 0;
    uint32_t after = own->runs[at].rows_end;
    return before > begin ? before : after < end ? after : end;
}

static void save_gaps(cairn_core *core, cairn_request *request, const loss *lost)
{
    for (uint32_t i = lost->count_gaps; i > 0; i--) { /* they were found from the tip upwards */
        uint32_t begin = lost->gaps[i - 1].begin;
        while (begin < lost->gaps[i - 1].end) {
            uint32_t end = lost->gaps[i - 1].end;
            uint32_t stop = cairn_placement_segment_end(core, lost->node, begin, end, SEGMENT_TOKENS);
            stop = lost->exact ? batch_end(core, lost, begin, stop, end) : stop;
            if (cairn_displace_segment(core, request, lost->slot, begin, stop, true) == CAIRN_NONE) {
                return;
            }
            begin = stop;
        }
    }
}

/* Segments that hold rows [keep, need) of the path being saved must not make room for its other rows. */
static void shield(cairn_core *core, const loss *lost, uint32_t need, bool on)
{
    for (uint32_t i = lost->node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        const cairn_node *node = cairn_node_at(&core->tree, i);
        if (node->end <= lost->keep) {
            return;
        }
        for (uint32_t c = node->cover_first; c != CAIRN_NONE; c = cairn_cover_at(&core->tree, c)->next) {
            const cairn_cover *cover = cairn_cover_at(&core->tree, c);
            if (cover->begin < need && cover->end > lost->keep) {
                cairn_segment *segment = cairn_segment_at(&core->tree, cover->segment);
                segment->pins = on ? segment->pins + 1 : segment->pins - 1;
            }
        }
    }
}

/* What its conversation left behind is saved only when such paths are taken up again here. */
static double returns(const cairn_core *core, uint32_t node)
{
    return cairn_node_at(&core->tree, node)->superseded ? cairn_value_goes_on(core, node) : 1;
}

/* Save rows up to `need` (and the live state, when `live_ns` > 0). False: not worth the room, nothing done. */
static bool save_up_to(cairn_core *core, cairn_request *request, loss *lost, uint32_t need, double live_ns)
{
    find_gaps(core, lost, need);
    if (lost->exact) {
        whole_batches(core, lost);
    }
    uint64_t rows = lost->row_tokens * core->options.row_bytes;
    uint64_t state = live_ns > 0 ? core->options.state_bytes_max : 0;
    uint64_t buffer =
        lost->row_tokens > 0 && core->ledger.buffer_users == 0 ? core->options.rows_extra_bytes : 0;
    if (rows + state == 0) {
        return true;
    }
    bool rows_only = core->options.trim == CAIRN_TRIM_ANYWHERE;
    double gain = gain_up_to(core, lost, need);
    if (live_ns > 0) {
        uint32_t before = cairn_placement_before(core, lost->node, lost->keep + 1);
        gain += cairn_chance_tip(core, lost->node) * cairn_costs_read(&core->costs, before, lost->position);
    }
    gain += rows_only ? 0.5 * cairn_costs_read(&core->costs, lost->keep, need) : 0;
    double move_ns = (double)rows * core->costs.move_ns_byte + (live_ns > 0 ? core->costs.take_ns : 0);
    double density =
        cairn_value_density(core, lost->node, gain, core->slots[lost->slot].used_ns, rows + state);
    if (move_ns > gain * returns(core, lost->node) * 4) {
        return false;
    }
    shield(core, lost, need, true);
    bool fits = cairn_evict_for(core, rows + state + buffer, density);
    shield(core, lost, need, false);
    if (!fits) {
        return false;
    }
    if (live_ns > 0) {
        (void)cairn_plan_take(core, lost->slot, request, 0);
    }
    save_gaps(core, request, lost);
    return true;
}

static double live_gain(cairn_core *core, const loss *lost)
{
    const cairn_slot *slot = &core->slots[lost->slot];
    uint32_t mark = cairn_tree_mark(&core->tree, lost->node, lost->position, false);
    bool there = mark != CAIRN_NONE && cairn_mark_at(&core->tree, mark)->state != CAIRN_NONE;
    if (!slot->state_set || slot->dirty || lost->position == 0 || there ||
        core->options.state_bytes_max == 0 || core->options.trim == CAIRN_TRIM_ANYWHERE ||
        (slot->exact && slot->digest == 0)) {
        return 0;
    }
    uint32_t before = cairn_placement_before(core, lost->node, lost->position);
    double saved = cairn_costs_read(&core->costs, before, lost->position);
    double gain = cairn_chance_tip(core, lost->node) * returns(core, lost->node) * saved;
    return gain > core->costs.take_ns ? gain : 0;
}

void cairn_displace(cairn_core *core, cairn_request *request, uint32_t slot, uint32_t keep)
{
    cairn_cursor at = core->tree.cursors[slot];
    loss whole = {.slot = slot,
                  .node = at.node,
                  .position = at.position,
                  .keep = keep,
                  .exact = core->slots[slot].exact};
    loss *lost = &whole;
    if (lost->node == CAIRN_NONE || lost->position == 0) {
        return;
    }
    double live = live_gain(core, lost);
    if (lost->position <= lost->keep || !core->options.rows_move) {
        if (live > 0 && (lost->position <= lost->keep)) { /* its rows stay; only the state goes */
            (void)save_up_to(core, request, lost, lost->keep, live);
        }
        return;
    }
    bool rows_only = core->options.trim == CAIRN_TRIM_ANYWHERE;
    uint32_t need = rows_only || live > 0 ? lost->position : needed(core, lost, lost->position);
    for (uint32_t i = 0; i < ATTEMPTS && need > lost->keep; i++) {
        if (save_up_to(core, request, lost, need, need == lost->position ? live : 0)) {
            return;
        }
        uint32_t next = rows_only ? lost->keep + (need - lost->keep) / 2 : needed(core, lost, need - 1);
        if (!rows_only && i >= ATTEMPTS / 2) { /* then in larger steps */
            uint32_t half = lost->keep + (need - lost->keep) / 2;
            next = needed(core, lost, half < next ? half : next);
        }
        need = next;
    }
}
