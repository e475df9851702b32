/*
 * path_hang - marks, states, segments and covers on the edges of the tree; see path.h.
 */
#include "core/path.h"
#include "core/path_internal.h"

static void count_up(cairn_tree *tree, uint32_t node, int change, bool states)
{
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        cairn_node *item = cairn_node_at(tree, i);
        uint32_t *count = states ? &item->count_states : &item->count_covers;
        CAIRN_ASSERT(change > 0 || *count >= (uint32_t)-change);
        *count += (uint32_t)change;
    }
}

void cairn_tree_count_states(cairn_tree *tree, uint32_t node, int change)
{
    count_up(tree, node, change, true);
}

void cairn_tree_count_covers(cairn_tree *tree, uint32_t node, int change)
{
    count_up(tree, node, change, false);
}

/* --- marks and states -------------------------------------------------------------------------------- */

uint32_t cairn_tree_mark(cairn_tree *tree, uint32_t node, uint32_t position, bool make)
{
    cairn_node *item = cairn_node_at(tree, node);
    uint32_t after = CAIRN_NONE;
    uint32_t before = item->mark_last;
    while (before != CAIRN_NONE && cairn_mark_at(tree, before)->position > position) {
        after = before;
        before = cairn_mark_at(tree, before)->prev;
    }
    if (before != CAIRN_NONE && cairn_mark_at(tree, before)->position == position) {
        return before;
    }
    uint32_t mark = make ? cairn_pool_take(&tree->marks) : CAIRN_NONE;
    if (mark == CAIRN_NONE) {
        return CAIRN_NONE;
    }
    cairn_mark *fresh = cairn_mark_at(tree, mark);
    fresh->position = position;
    fresh->state = CAIRN_NONE;
    fresh->prev = before;
    fresh->next = after;
    if (before != CAIRN_NONE) {
        cairn_mark_at(tree, before)->next = mark;
    } else {
        item->mark_first = mark;
    }
    if (after != CAIRN_NONE) {
        cairn_mark_at(tree, after)->prev = mark;
    } else {
        item->mark_last = mark;
    }
    return mark;
}

uint32_t cairn_tree_state_add(cairn_tree *tree, uint32_t node, uint32_t position)
{
    if (!cairn_pool_reserve(&tree->states, 1)) {
        return CAIRN_NONE;
    }
    uint32_t mark = cairn_tree_mark(tree, node, position, true);
    if (mark == CAIRN_NONE || !CAIRN_EXPECT(cairn_mark_at(tree, mark)->state == CAIRN_NONE)) {
        return CAIRN_NONE;
    }
    uint32_t state = cairn_pool_take(&tree->states);
    CAIRN_ASSERT(state != CAIRN_NONE); /* reserved */
    cairn_state *item = cairn_state_at(tree, state);
    item->alive = item->pending = item->dirty = true;
    item->node = node;
    item->mark = mark;
    item->position = position;
    cairn_mark_at(tree, mark)->state = state;
    cairn_mark_at(tree, mark)->tomb = 0;
    cairn_tree_count_states(tree, node, 1);
    return state;
}

void cairn_tree_state_detach(cairn_tree *tree, uint32_t state)
{
    cairn_state *item = cairn_state_at(tree, state);
    if (item->node != CAIRN_NONE) {
        cairn_mark_at(tree, item->mark)->state = CAIRN_NONE;
        cairn_tree_count_states(tree, item->node, -1);
        item->node = item->mark = CAIRN_NONE;
    }
}

void cairn_tree_state_remove(cairn_tree *tree, uint32_t state)
{
    cairn_tree_state_detach(tree, state);
    cairn_pool_give(&tree->states, state);
}

/* --- covers and segments ------------------------------------------------------------------------------- */

/* Put a new cover between two neighbours of the node's list. */
static uint32_t cover_put(cairn_tree *tree, uint32_t node, uint32_t before, uint32_t begin, uint32_t end)
{
    uint32_t cover = cairn_pool_take(&tree->covers);
    CAIRN_ASSERT(cover != CAIRN_NONE); /* reserved */
    cairn_node *item = cairn_node_at(tree, node);
    cairn_cover *fresh = cairn_cover_at(tree, cover);
    fresh->node = node;
    fresh->begin = begin;
    fresh->end = end;
    fresh->segment = fresh->segment_next = CAIRN_NONE;
    fresh->prev = before;
    fresh->next = before != CAIRN_NONE ? cairn_cover_at(tree, before)->next : item->cover_first;
    if (before != CAIRN_NONE) {
        cairn_cover_at(tree, before)->next = cover;
    } else {
        item->cover_first = cover;
    }
    if (fresh->next != CAIRN_NONE) {
        cairn_cover_at(tree, fresh->next)->prev = cover;
    } else {
        item->cover_last = cover;
    }
    return cover;
}

static void cover_join_segment(cairn_tree *tree, uint32_t cover, uint32_t segment)
{
    cairn_cover *item = cairn_cover_at(tree, cover);
    cairn_segment *owner = cairn_segment_at(tree, segment);
    item->segment = segment;
    item->segment_next = owner->cover_first;
    owner->cover_first = cover;
    owner->count_covers++;
}

static void node_list_remove(cairn_tree *tree, uint32_t cover)
{
    const cairn_cover *item = cairn_cover_at(tree, cover);
    cairn_node *node = cairn_node_at(tree, item->node);
    if (item->prev != CAIRN_NONE) {
        cairn_cover_at(tree, item->prev)->next = item->next;
    } else {
        node->cover_first = item->next;
    }
    if (item->next != CAIRN_NONE) {
        cairn_cover_at(tree, item->next)->prev = item->prev;
    } else {
        node->cover_last = item->prev;
    }
}

void cairn_tree_cover_remove(cairn_tree *tree, uint32_t cover)
{
    cairn_cover *item = cairn_cover_at(tree, cover);
    cairn_segment *segment = cairn_segment_at(tree, item->segment);
    uint32_t *link = &segment->cover_first;
    while (*link != cover) {
        link = &cairn_cover_at(tree, *link)->segment_next;
    }
    *link = item->segment_next;
    segment->count_covers--;
    if (segment->count_covers == 0 && !segment->bare) {
        segment->bare = true;
        segment->bare_next = tree->bare_first;
        tree->bare_first = item->segment;
    }
    node_list_remove(tree, cover);
    cairn_tree_count_covers(tree, item->node, -1);
    cairn_pool_give(&tree->covers, cover);
}

/* Make [begin, end) of the edge free of covers. At most one cover is cut in two (reserved). */
static void covers_clip(cairn_tree *tree, uint32_t node, uint32_t begin, uint32_t end)
{
    uint32_t next;
    for (uint32_t i = cairn_node_at(tree, node)->cover_first; i != CAIRN_NONE; i = next) {
        cairn_cover *item = cairn_cover_at(tree, i);
        next = item->next;
        if (item->end <= begin || item->begin >= end) {
            continue;
        }
        if (item->begin < begin && item->end > end) {
            uint32_t rest = cover_put(tree, node, i, end, item->end);
            cover_join_segment(tree, rest, item->segment);
            cairn_tree_count_covers(tree, node, 1);
            item->end = begin;
        } else if (item->begin < begin) {
            item->end = begin;
        } else if (item->end > end) {
            item->begin = end;
        } else {
            cairn_tree_cover_remove(tree, i);
        }
    }
}

/* Covers for the segment in the gaps of [begin, end) of this edge. */
static bool cover_gaps(cairn_tree *tree, uint32_t node, uint32_t segment, uint32_t begin, uint32_t end)
{
    uint32_t before = CAIRN_NONE;
    uint32_t next = cairn_node_at(tree, node)->cover_first;
    while (begin < end) {
        while (next != CAIRN_NONE && cairn_cover_at(tree, next)->end <= begin) {
            before = next;
            next = cairn_cover_at(tree, next)->next;
        }
        uint32_t stop = next != CAIRN_NONE && cairn_cover_at(tree, next)->begin < end
                            ? cairn_cover_at(tree, next)->begin
                            : end;
        if (begin < stop) {
            if (!cairn_pool_reserve(&tree->covers, 1)) {
                return false;
            }
            uint32_t cover = cover_put(tree, node, before, begin, stop);
            cover_join_segment(tree, cover, segment);
            cairn_tree_count_covers(tree, node, 1);
            before = cover;
        }
        begin = next != CAIRN_NONE && stop < end ? cairn_cover_at(tree, next)->end : stop;
    }
    return true;
}

uint32_t cairn_tree_segment_add(cairn_tree *tree, uint32_t node, uint32_t begin, uint32_t end, bool clip)
{
    uint32_t depth = 2;
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        depth++;
        if (cairn_node_at(tree, i)->begin <= begin) {
            break;
        }
    }
    if (!cairn_pool_reserve(&tree->covers, depth * 2)) {
        return CAIRN_NONE;
    }
    uint32_t segment = cairn_pool_take(&tree->segments);
    if (segment == CAIRN_NONE) {
        return CAIRN_NONE;
    }
    cairn_segment *item = cairn_segment_at(tree, segment);
    item->alive = item->pending = true;
    item->begin = begin;
    item->end = end;
    item->cover_first = CAIRN_NONE;
    for (uint32_t i = node; i != CAIRN_NONE && end > begin; i = cairn_node_at(tree, i)->parent) {
        uint32_t edge_begin = cairn_node_at(tree, i)->begin;
        uint32_t from = begin > edge_begin ? begin : edge_begin;
        if (from >= end) {
            continue;
        }
        if (clip) {
            covers_clip(tree, i, from, end);
        }
        if (!cover_gaps(tree, i, segment, from, end)) {
            cairn_tree_segment_remove(tree, segment);
            return CAIRN_NONE;
        }
        end = from;
    }
    return segment;
}

/* The cover of this edge that begins exactly at `position`, or CAIRN_NONE. */
static uint32_t cover_from(const cairn_tree *tree, uint32_t node, uint32_t position)
{
    uint32_t i = cairn_node_at(tree, node)->cover_first;
    while (i != CAIRN_NONE && cairn_cover_at(tree, i)->begin < position) {
        i = cairn_cover_at(tree, i)->next;
    }
    return i != CAIRN_NONE && cairn_cover_at(tree, i)->begin == position ? i : CAIRN_NONE;
}

uint32_t cairn_tree_heir(const cairn_tree *tree, const cairn_cover *cover)
{
    uint32_t node = cover->node;
    uint32_t end = cover->end;
    while (node !=
           CAIRN_NONE) { /* down along the segment's own covers: branches may leave anywhere on the way */
        bool inside = end < cairn_node_at(tree, node)->end;
        uint32_t child = inside ? node : cairn_node_at(tree, node)->child_first;
        uint32_t onward = CAIRN_NONE;
        for (; child != CAIRN_NONE; child = inside ? CAIRN_NONE : cairn_node_at(tree, child)->sibling_next) {
            uint32_t next = cover_from(tree, child, end);
            if (next == CAIRN_NONE) {
                continue;
            }
            uint32_t other = cairn_cover_at(tree, next)->segment;
            const cairn_segment *segment = cairn_segment_at(tree, other);
            if (other == cover->segment) {
                onward = next;
            } else if (segment->begin <= cover->begin && !segment->doomed && !segment->chosen) {
                return other;
            }
        }
        node = onward != CAIRN_NONE ? cairn_cover_at(tree, onward)->node : CAIRN_NONE;
        end = onward != CAIRN_NONE ? cairn_cover_at(tree, onward)->end : 0;
    }
    return CAIRN_NONE;
}

void cairn_tree_inherit(cairn_tree *tree, const cairn_cover *gone)
{
    uint32_t heir = cairn_tree_heir(tree, gone);
    if (heir != CAIRN_NONE) {
        (void)cover_gaps(tree, gone->node, heir, gone->begin, gone->end);
    }
}

uint32_t cairn_tree_bare(cairn_tree *tree)
{
    while (tree->bare_first != CAIRN_NONE) {
        uint32_t first = tree->bare_first;
        cairn_segment *item = cairn_segment_at(tree, first);
        tree->bare_first = item->bare_next;
        item->bare = false;
        if (item->count_covers == 0) {
            return first;
        }
    }
    return CAIRN_NONE;
}

static void bare_unlink(cairn_tree *tree, uint32_t segment)
{
    uint32_t *link = &tree->bare_first;
    while (*link != segment) {
        link = &cairn_segment_at(tree, *link)->bare_next;
    }
    *link = cairn_segment_at(tree, segment)->bare_next;
    cairn_segment_at(tree, segment)->bare = false;
}

void cairn_tree_segment_remove(cairn_tree *tree, uint32_t segment)
{
    cairn_segment *item = cairn_segment_at(tree, segment);
    while (item->cover_first != CAIRN_NONE) {
        cairn_tree_cover_remove(tree, item->cover_first);
    }
    if (item->bare) {
        bare_unlink(tree, segment);
    }
    cairn_lineage_release(&item->lineage, tree->mem, tree->ledger);
    cairn_pool_give(&tree->segments, segment);
}

uint32_t cairn_tree_missing(const cairn_tree *tree, uint32_t node, uint32_t begin, uint32_t end)
{
    uint32_t at = begin;
    for (uint32_t i = cairn_node_at(tree, node)->cover_first; i != CAIRN_NONE && at < end;
         i = cairn_cover_at(tree, i)->next) {
        const cairn_cover *cover = cairn_cover_at(tree, i);
        if (cover->end <= at) {
            continue;
        }
        if (cover->begin > at && !cairn_tree_live(tree, node, cover->begin)) {
            break;
        }
        at = cover->end;
    }
    if (at >= end || cairn_tree_live(tree, node, end)) {
        return end;
    }
    if (!cairn_tree_live(tree, node, at + 1)) {
        return at;
    }
    for (uint32_t i = 0; i < tree->count_cursors; i++) { /* the longest slot on this edge */
        if (tree->cursors[i].node == node && tree->cursors[i].position > at) {
            at = tree->cursors[i].position;
        }
    }
    return cairn_tree_missing(tree, node, at, end);
}

uint32_t cairn_tree_top_cover(const cairn_tree *tree, const cairn_segment *segment, uint32_t from)
{
    uint32_t top = CAIRN_NONE;
    for (uint32_t i = segment->cover_first; i != CAIRN_NONE; i = cairn_cover_at(tree, i)->segment_next) {
        uint32_t begin = cairn_cover_at(tree, i)->begin;
        top = begin >= from && (top == CAIRN_NONE || begin < cairn_cover_at(tree, top)->begin) ? i : top;
    }
    return top;
}

/* --- for splits, joins and leaves ------------------------------------------------------------------------ */

void cairn_tree_hang_split(cairn_tree *tree, uint32_t node, uint32_t upper, uint32_t position)
{
    cairn_node *item = cairn_node_at(tree, node);
    cairn_node *above = cairn_node_at(tree, upper);
    while (item->mark_first != CAIRN_NONE && cairn_mark_at(tree, item->mark_first)->position <= position) {
        uint32_t mark = item->mark_first;
        cairn_mark *moved = cairn_mark_at(tree, mark);
        item->mark_first = moved->next;
        if (moved->next != CAIRN_NONE) {
            cairn_mark_at(tree, moved->next)->prev = CAIRN_NONE;
        } else {
            item->mark_last = CAIRN_NONE;
        }
        moved->prev = above->mark_last;
        moved->next = CAIRN_NONE;
        if (above->mark_last != CAIRN_NONE) {
            cairn_mark_at(tree, above->mark_last)->next = mark;
        } else {
            above->mark_first = mark;
        }
        above->mark_last = mark;
        if (moved->state != CAIRN_NONE) {
            cairn_state_at(tree, moved->state)->node = upper;
            item->count_states--; /* `upper` was given the sum of both already */
        }
    }
    while (item->cover_first != CAIRN_NONE && cairn_cover_at(tree, item->cover_first)->begin < position) {
        uint32_t cover = item->cover_first;
        if (cairn_cover_at(tree, cover)->end > position) { /* cut in two: the lower part is new */
            uint32_t rest = cover_put(tree, node, cover, position, cairn_cover_at(tree, cover)->end);
            cover_join_segment(tree, rest, cairn_cover_at(tree, cover)->segment);
            cairn_cover_at(tree, cover)->end = position;
            cairn_tree_count_covers(tree, node, 1);
        }
        node_list_remove(tree, cover);
        item->count_covers--;
        cairn_cover *moved = cairn_cover_at(tree, cover);
        moved->node = upper;
        moved->prev = above->cover_last;
        moved->next = CAIRN_NONE;
        if (above->cover_last != CAIRN_NONE) {
            cairn_cover_at(tree, above->cover_last)->next = cover;
        } else {
            above->cover_first = cover;
        }
        above->cover_last = cover;
    }
}

void cairn_tree_hang_join(cairn_tree *tree, uint32_t node, uint32_t upper)
{
    cairn_node *item = cairn_node_at(tree, node);
    cairn_node *above = cairn_node_at(tree, upper);
    for (uint32_t i = above->mark_first; i != CAIRN_NONE; i = cairn_mark_at(tree, i)->next) {
        if (cairn_mark_at(tree, i)->state != CAIRN_NONE) {
            cairn_state_at(tree, cairn_mark_at(tree, i)->state)->node = node;
        }
    }
    if (above->mark_last != CAIRN_NONE) {
        cairn_mark_at(tree, above->mark_last)->next = item->mark_first;
        if (item->mark_first != CAIRN_NONE) {
            cairn_mark_at(tree, item->mark_first)->prev = above->mark_last;
        } else {
            item->mark_last = above->mark_last;
        }
        item->mark_first = above->mark_first;
    }
    for (uint32_t i = above->cover_first; i != CAIRN_NONE; i = cairn_cover_at(tree, i)->next) {
        cairn_cover_at(tree, i)->node = node;
    }
    if (above->cover_last != CAIRN_NONE) {
        cairn_cover_at(tree, above->cover_last)->next = item->cover_first;
        if (item->cover_first != CAIRN_NONE) {
            cairn_cover_at(tree, item->cover_first)->prev = above->cover_last;
        } else {
            item->cover_last = above->cover_last;
        }
        item->cover_first = above->cover_first;
    }
}

void cairn_tree_hang_clear(cairn_tree *tree, uint32_t node)
{
    cairn_node *item = cairn_node_at(tree, node);
    while (item->mark_first != CAIRN_NONE) {
        uint32_t mark = item->mark_first;
        CAIRN_ASSERT(cairn_mark_at(tree, mark)->state == CAIRN_NONE);
        item->mark_first = cairn_mark_at(tree, mark)->next;
        cairn_pool_give(&tree->marks, mark);
    }
    item->mark_last = CAIRN_NONE;
}
