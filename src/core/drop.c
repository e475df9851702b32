/*
 * drop - see drop.h.
 */
#include "core/drop.h"

#include "core/value.h"

/* Can it go now, with a DROP in this list? */
static bool goes_now(cairn_core *core, uint32_t pins, bool pending, uint64_t bytes, uint64_t blob)
{
    if (pins > 0 || pending) {
        return false;
    }
    return bytes == 0 || (!core->deferring &&
                          cairn_core_emit(core, (cairn_action){.kind = CAIRN_ACTION_DROP, .blob = blob}));
}

static void set_tomb(cairn_core *core, const cairn_state *state, cairn_reason tomb)
{
    if (state->node == CAIRN_NONE) {
        return;
    }
    cairn_mark *mark = cairn_mark_at(&core->tree, state->mark);
    mark->tomb = (uint8_t)tomb;
    mark->tomb_bytes =
        core->ledger.bytes_max + (state->bytes > 0 ? state->bytes : core->options.state_bytes_max);
}

void cairn_drop_state(cairn_core *core, uint32_t state, cairn_reason tomb)
{
    cairn_state *item = cairn_state_at(&core->tree, state);
    if (item->node != CAIRN_NONE) {
        set_tomb(core, item, tomb);
        cairn_value_dirty(core, item->node);
    }
    if (!goes_now(core, item->pins, item->pending, item->bytes, item->blob)) {
        core->count_doomed++;
        item->doomed = true;
        return;
    }
    if (item->bytes > 0) {
        cairn_ledger_release(&core->ledger, item->bytes, false);
        core->drops_states++;
    }
    cairn_tree_state_remove(&core->tree, state);
}

/* Free a segment's bytes and its item; its covers are gone or go now, without looking at who needs them. */
static void segment_free(cairn_core *core, uint32_t segment)
{
    cairn_segment *item = cairn_segment_at(&core->tree, segment);
    if (!goes_now(core, item->pins, item->pending, item->bytes, item->blob)) {
        core->count_doomed++;
        item->doomed = true;
        while (item->cover_first != CAIRN_NONE) {
            cairn_tree_cover_remove(&core->tree, item->cover_first);
        }
        return;
    }
    if (item->bytes > 0) {
        cairn_ledger_release(&core->ledger, item->bytes, true);
        core->drops_segments++;
    }
    cairn_tree_segment_remove(&core->tree, segment);
}

/* Covers at or past `from` on this edge go; segments that lose the last one go with it. */
static void strip_covers(cairn_core *core, uint32_t node, uint32_t from)
{
    cairn_tree *tree = &core->tree;
    for (;;) {
        uint32_t cover = cairn_node_at(tree, node)->cover_last;
        if (cover == CAIRN_NONE || cairn_cover_at(tree, cover)->begin < from) {
            return;
        }
        uint32_t segment = cairn_cover_at(tree, cover)->segment;
        cairn_tree_cover_remove(tree, cover);
        if (cairn_segment_at(tree, segment)->count_covers == 0) {
            segment_free(core, segment);
        }
    }
}

static void strip_states(cairn_core *core, uint32_t node, uint32_t past, cairn_reason tomb)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t m = cairn_node_at(tree, node)->mark_last; m != CAIRN_NONE;
         m = cairn_mark_at(tree, m)->prev) {
        const cairn_mark *mark = cairn_mark_at(tree, m);
        if (mark->position <= past) {
            return;
        }
        if (mark->state != CAIRN_NONE && !cairn_state_at(tree, mark->state)->doomed) {
            cairn_drop_state(core, mark->state, tomb);
        }
    }
}

void cairn_drop_edge(cairn_core *core, uint32_t node, uint32_t from, cairn_reason tomb)
{
    strip_states(core, node, from, tomb);
    strip_covers(core, node, from);
}

/* Row `from` of this edge is nowhere: what is built on it, here and below, goes. */
static void drop_below(cairn_core *core, uint32_t node, uint32_t from, cairn_reason tomb)
{
    for (uint32_t at = node; at != CAIRN_NONE;) {
        const cairn_node *item = cairn_node_at(&core->tree, at);
        bool bears = item->count_states > 0 || item->count_covers > 0; /* it or what is below */
        if (bears) {
            cairn_drop_edge(core, at, from, tomb);
        }
        at = cairn_tree_next(&core->tree, node, at, bears, NULL);
    }
}

void cairn_drop_stranded(cairn_core *core, uint32_t node, uint32_t begin, uint32_t end, cairn_reason tomb)
{
    uint32_t lost_node = CAIRN_NONE;
    uint32_t lost = end;
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        const cairn_node *item = cairn_node_at(&core->tree, i);
        uint32_t from = item->begin > begin ? item->begin : begin;
        uint32_t to = item->end < end ? item->end : end;
        if (item->end <= begin) {
            break;
        }
        uint32_t missing = from < to ? cairn_tree_missing(&core->tree, i, from, to) : to;
        if (missing < to) {
            lost = missing;
            lost_node = i;
        }
    }
    if (lost_node != CAIRN_NONE) {
        drop_below(core, lost_node, lost, tomb);
    }
}

void cairn_drop_segment(cairn_core *core, uint32_t segment, cairn_reason tomb)
{
    cairn_tree *tree = &core->tree;
    cairn_segment *item = cairn_segment_at(tree, segment);
    /* Where its covers were: the nodes stay valid, dropping removes none. The topmost gap takes all below it. */
    while (item->cover_first != CAIRN_NONE) {
        uint32_t top = cairn_tree_top_cover(tree, item, 0);
        cairn_cover gone = *cairn_cover_at(tree, top);
        cairn_tree_cover_remove(tree, top);
        bool last = item->count_covers == 0;
        if (last) {
            segment_free(core, segment);
        }
        cairn_tree_inherit(tree, &gone);
        cairn_drop_stranded(core, gone.node, gone.begin, gone.end, tomb);
        if (last || !item->alive || item->count_covers == 0) {
            return;
        }
    }
    segment_free(core, segment);
}

void cairn_drop_uncovered(cairn_core *core)
{
    for (uint32_t i = cairn_tree_bare(&core->tree); i != CAIRN_NONE; i = cairn_tree_bare(&core->tree)) {
        if (!cairn_segment_at(&core->tree, i)->doomed) {
            segment_free(core, i);
        }
    }
}

void cairn_drop_doomed(cairn_core *core)
{
    cairn_tree *tree = &core->tree;
    if (core->count_doomed == 0) {
        return;
    }
    core->count_doomed = 0;
    for (uint32_t i = 0; i < tree->states.high; i++) {
        const cairn_state *state = cairn_state_at(tree, i);
        if (state->alive && state->doomed) {
            if (state->pins > 0 || state->pending) {
                core->count_doomed++;
            } else {
                cairn_drop_state(core, i,
                                 (cairn_reason)(state->node != CAIRN_NONE
                                                    ? cairn_mark_at(tree, state->mark)->tomb
                                                    : (uint8_t)CAIRN_REASON_EVICTED));
            }
        }
    }
    for (uint32_t i = 0; i < tree->segments.high; i++) {
        const cairn_segment *segment = cairn_segment_at(tree, i);
        if (segment->alive && segment->doomed) {
            if (segment->pins > 0 || segment->pending) {
                core->count_doomed++;
            } else {
                segment_free(core, i);
            }
        }
    }
}

/* What is doomed and can't go yet leaves the tree: its paths are forgotten. */
static void detach_states(cairn_core *core, uint32_t node)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t m = cairn_node_at(tree, node)->mark_first; m != CAIRN_NONE;
         m = cairn_mark_at(tree, m)->next) {
        uint32_t state = cairn_mark_at(tree, m)->state;
        if (state != CAIRN_NONE) {
            cairn_tree_state_detach(tree, state);
        }
    }
}

void cairn_drop_all(cairn_core *core, uint32_t root)
{
    cairn_tree *tree = &core->tree;
    drop_below(core, root, 0, CAIRN_REASON_EVICTED);
    for (;;) {
        uint32_t at = root;
        while (cairn_node_at(tree, at)->child_first != CAIRN_NONE) {
            at = cairn_node_at(tree, at)->child_first;
        }
        detach_states(core, at);
        if (at == root) {
            return;
        }
        cairn_tree_leaf_remove(tree, at);
    }
}
