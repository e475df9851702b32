/*
 * eviction - see eviction.h. Choosing happens in two steps: first mark victims until enough bytes are
 * found (their neighbours' values change as if they were gone), then drop them all or none.
 */
#include "core/eviction.h"

#include <math.h>

#include "core/drop.h"
#include "core/learning.h"
#include "core/placement.h"

/* --- choosing ------------------------------------------------------------------------------------------------ */

typedef struct victim {
    uint32_t index;
    bool rows;
    double density;
    uint64_t bytes;
} victim;

static bool state_may_go(const cairn_state *state)
{
    return state->alive && !state->pending && !state->doomed && !state->chosen && state->pins == 0;
}

/*
 * Is anything stored deeper than this segment on the paths that it covers? Then it is not the end of its rows.
 *
 *   ret_cover  [out]  the first cover that nobody would inherit; CAIRN_NONE: all would go on
 */
static bool segment_is_last(const cairn_tree *tree, const cairn_segment *segment, uint32_t *ret_cover)
{
    uint32_t left = segment->count_covers;
    uint32_t top = cairn_tree_top_cover(tree, segment, 0);
    while (top != CAIRN_NONE && cairn_tree_heir(tree, cairn_cover_at(tree, top)) != CAIRN_NONE) {
        top = cairn_tree_top_cover(tree, segment, cairn_cover_at(tree, top)->end);
        left--;
    }
    *ret_cover = top;
    if (top == CAIRN_NONE) {
        return true;
    }
    uint32_t below = cairn_node_at(tree, cairn_cover_at(tree, top)->node)->count_covers;
    for (uint32_t i = cairn_cover_at(tree, top)->prev; i != CAIRN_NONE; i = cairn_cover_at(tree, i)->prev) {
        below--;
    }
    return below == left;
}

typedef struct needing {
    double gain_ns;
    uint64_t bytes;
    uint64_t used_ns;
    uint32_t before; /* the last resume point that would be left                                    */
    bool pinned;
} needing;

/* Sum up the states on one edge past `from` that live in no slot. */
static void add_states(cairn_core *core, uint32_t node, uint32_t from, needing *sum)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t m = cairn_node_at(tree, node)->mark_last; m != CAIRN_NONE;
         m = cairn_mark_at(tree, m)->prev) {
        const cairn_mark *mark = cairn_mark_at(tree, m);
        if (mark->position <= from) {
            return;
        }
        if (mark->state == CAIRN_NONE || cairn_tree_live(tree, node, mark->position)) {
            continue;
        }
        const cairn_state *state = cairn_state_at(tree, mark->state);
        if (state->pending || state->pins > 0) {
            sum->pinned = true;
        }
        if (!state->chosen && !state->doomed) {
            sum->gain_ns += cairn_value_with_others(core, mark->state, sum->before);
            sum->bytes += state->bytes;
            sum->used_ns = state->used_ns > sum->used_ns ? state->used_ns : sum->used_ns;
        }
    }
}

static needing states_needing(cairn_core *core, uint32_t node, uint32_t from)
{
    cairn_tree *tree = &core->tree;
    needing sum = {.before = cairn_placement_before(core, node, from + 1)};
    for (uint32_t at = node; at != CAIRN_NONE;) {
        bool bears = cairn_node_at(tree, at)->count_states > 0; /* it or what is below */
        if (bears) {
            add_states(core, at, from, &sum);
        }
        at = cairn_tree_next(tree, node, at, bears, NULL);
    }
    return sum;
}

/* Rows alone, where they need no states: chance that the next request parts past them, times their reading. */
static double rows_gain(cairn_core *core, const cairn_cover *cover, const cairn_segment *segment)
{
    cairn_tree *tree = &core->tree;
    double chance = 0.3;
    for (uint32_t m = cairn_node_at(tree, cover->node)->mark_last; m != CAIRN_NONE;
         m = cairn_mark_at(tree, m)->prev) {
        if (cairn_mark_at(tree, m)->position < segment->begin) {
            break;
        }
        chance += cairn_mark_at(tree, m)->weight;
    }
    return chance * cairn_costs_read(&core->costs, segment->begin, segment->end);
}

static void consider_state(cairn_core *core, uint32_t index, victim *best)
{
    const cairn_state *state = cairn_state_at(&core->tree, index);
    double gain = cairn_value_gain(core, index);
    if (!state->spacing_ok) {
        return;
    }
    double density = cairn_value_density(core, state->node, gain, state->used_ns, state->bytes);
    const cairn_mark *mark = cairn_mark_at(&core->tree, state->mark);
    if (cairn_tree_live(&core->tree, state->node, state->position) && (mark->kinds != 0 || mark->hits > 0)) {
        density *= CAIRN_LIVE_WORTH;
    }
    density = state->anchor_pin ? density * CAIRN_PINNED_WORTH : density;
    if (density < best->density) {
        *best = (victim){.index = index, .rows = false, .density = density, .bytes = state->bytes};
    }
}

static void consider_segment(cairn_core *core, uint32_t index, victim *best)
{
    const cairn_tree *tree = &core->tree;
    const cairn_segment *segment = cairn_segment_at(tree, index);
    uint32_t cover;
    if (!segment->alive || segment->pending || segment->doomed || segment->chosen || segment->pins > 0 ||
        segment->count_covers == 0 || !segment_is_last(tree, segment, &cover)) {
        return;
    }
    if (cover == CAIRN_NONE) { /* others hold all of its rows */
        if (0 < best->density) {
            *best = (victim){.index = index, .rows = true, .density = 0, .bytes = segment->bytes};
        }
        return;
    }
    const cairn_cover *top = cairn_cover_at(tree, cover);
    needing sum = {.used_ns = segment->used_ns};
    if (core->options.trim == CAIRN_TRIM_ANYWHERE) {
        sum.gain_ns = rows_gain(core, top, segment);
    } else {
        sum = states_needing(core, top->node, top->begin);
    }
    if (sum.pinned) {
        return;
    }
    uint64_t bytes = segment->bytes + sum.bytes;
    double density = cairn_value_density(core, top->node, sum.gain_ns, sum.used_ns, bytes);
    if (density < best->density) {
        *best = (victim){.index = index, .rows = true, .density = density, .bytes = bytes};
    }
}

static void consider(cairn_core *core, uint32_t index, bool rows, victim *best)
{
    if (rows) {
        consider_segment(core, index, best);
    } else if (state_may_go(cairn_state_at(&core->tree, index))) {
        consider_state(core, index, best);
    }
}

/* Put a candidate into the list, where it belongs to the least valuable: the most valuable of them is items[0]. */
static void list_add(const cairn_core *core, cairn_short_list *list, const victim *item)
{
    const uint32_t room = sizeof list->items / sizeof list->items[0];
    uint32_t at = list->count;
    uint64_t blob = item->rows ? cairn_segment_at(&core->tree, item->index)->blob
                               : cairn_state_at(&core->tree, item->index)->blob;
    if (list->count < room) {
        list->count++;
        while (at > 0 && list->items[(at - 1) / 2].density < item->density) {
            list->items[at] = list->items[(at - 1) / 2];
            at = (at - 1) / 2;
        }
    } else {
        list->limit = list->limit < item->density ? list->limit : item->density;
        if (item->density >= list->items[0].density) {
            return;
        }
        list->limit = list->items[0].density;
        for (at = 0;;) {
            uint32_t child = 2 * at + 1;
            child += child + 1 < room && list->items[child + 1].density > list->items[child].density ? 1 : 0;
            if (child >= room || list->items[child].density <= item->density) {
                break;
            }
            list->items[at] = list->items[child];
            at = child;
        }
    }
    list->items[at].index = item->index;
    list->items[at].rows = item->rows;
    list->items[at].blob = blob;
    list->items[at].density = item->density;
}

/* Look at every blob. */
static void list_make(cairn_core *core)
{
    cairn_short_list *list = &core->short_list;
    *list = (cairn_short_list){.limit = INFINITY, .made_ns = core->now_ns};
    for (uint32_t rows = 0; rows < 2; rows++) {
        uint32_t high = rows == 1 ? core->tree.segments.high : core->tree.states.high;
        for (uint32_t i = 0; i < high; i++) {
            victim item = {.index = CAIRN_NONE, .density = INFINITY};
            consider(core, i, rows == 1, &item);
            if (item.index != CAIRN_NONE) {
                list_add(core, list, &item);
            }
        }
    }
}

static victim list_best(cairn_core *core)
{
    const cairn_short_list *list = &core->short_list;
    victim best = {.index = CAIRN_NONE, .density = INFINITY};
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t index = list->items[i].index;
        bool rows = list->items[i].rows;
        bool same = rows ? cairn_segment_at(&core->tree, index)->alive &&
                               cairn_segment_at(&core->tree, index)->blob == list->items[i].blob
                         : cairn_state_at(&core->tree, index)->alive &&
                               cairn_state_at(&core->tree, index)->blob == list->items[i].blob;
        if (same) {
            consider(core, index, rows, &best);
        }
    }
    return best;
}

/*
 * What is worth least. Among some thousands of blobs all are looked at, each time. Among more, the least valuable are
 * listed, weighed again at each use, and serve for ten seconds, or until one that is not listed was worth less.
 */
static victim find_victim(cairn_core *core)
{
    enum { MANY = 4096 };
    const uint64_t lasts_ns = UINT64_C(10000000000);
    victim best = {.index = CAIRN_NONE, .density = INFINITY};
    if (core->tree.states.high + core->tree.segments.high > MANY) {
        cairn_short_list *list = &core->short_list;
        if (list->count > 0 && core->now_ns - list->made_ns < lasts_ns) {
            best = list_best(core);
            if (best.index != CAIRN_NONE && best.density <= list->limit) {
                return best;
            }
        }
        list_make(core);
        return list_best(core);
    }
    for (uint32_t i = 0; i < core->tree.states.high; i++) {
        consider(core, i, false, &best);
    }
    for (uint32_t i = 0; i < core->tree.segments.high; i++) {
        consider(core, i, true, &best);
    }
    return best;
}

/* Mark the states that go with a chosen segment, so that they are not counted twice. */
static void choose_segment(cairn_core *core, uint32_t segment, bool chosen)
{
    cairn_tree *tree = &core->tree;
    cairn_segment_at(tree, segment)->chosen = chosen;
    uint32_t cover;
    (void)segment_is_last(tree, cairn_segment_at(tree, segment), &cover);
    if (cover == CAIRN_NONE) {
        return;
    }
    uint32_t from = cairn_cover_at(tree, cover)->begin;
    uint32_t node = cairn_cover_at(tree, cover)->node;
    cairn_value_dirty(core, node);
    for (uint32_t i = 0; i < tree->states.high; i++) {
        cairn_state *state = cairn_state_at(tree, i);
        if (!state->alive || state->node == CAIRN_NONE || state->position <= from ||
            state->chosen == chosen) {
            continue;
        }
        uint32_t above = state->node;
        while (above != CAIRN_NONE && above != node) {
            above = cairn_node_at(tree, above)->parent;
        }
        if (above == node && !cairn_tree_live(tree, state->node, state->position)) {
            state->chosen = chosen;
            cairn_value_dirty(core, state->node);
        }
    }
}

static void choose(cairn_core *core, const victim *pick, bool chosen)
{
    if (pick->rows) {
        choose_segment(core, pick->index, chosen);
    } else {
        cairn_state_at(&core->tree, pick->index)->chosen = chosen;
        cairn_value_dirty(core, cairn_state_at(&core->tree, pick->index)->node);
    }
}

static void drop_chosen(cairn_core *core, cairn_reason state_tomb)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t i = 0; i < tree->segments.high; i++) {
        cairn_segment *segment = cairn_segment_at(tree, i);
        if (segment->alive && segment->chosen) {
            segment->chosen = false;
            cairn_drop_segment(core, i, CAIRN_REASON_EVICTED);
        }
    }
    for (uint32_t i = 0; i < tree->states.high; i++) {
        cairn_state *state = cairn_state_at(tree, i);
        if (state->alive && state->chosen) {
            state->chosen = false;
            cairn_drop_state(core, i, state_tomb);
        }
    }
}

static void clear_chosen(cairn_core *core)
{
    cairn_tree *tree = &core->tree;
    for (uint32_t i = 0; i < tree->segments.high; i++) {
        cairn_segment_at(tree, i)->chosen = false;
    }
    for (uint32_t i = 0; i < tree->states.high; i++) {
        cairn_state *state = cairn_state_at(tree, i);
        if (state->alive && state->chosen) {
            state->chosen = false;
            cairn_value_dirty(core, state->node);
        }
    }
}

bool cairn_evict_for(cairn_core *core, uint64_t bytes, double density)
{
    uint64_t headroom = cairn_ledger_headroom(&core->ledger);
    if (cairn_ledger_fits(&core->ledger, bytes + headroom)) {
        return true;
    }
    /* Half of it may be in use by the index: else every few tokens of index would cost a whole state more. */
    bytes += headroom / 2;
    uint64_t cap = core->ledger.bytes_max;
    uint64_t sum = cairn_ledger_sum(&core->ledger);
    uint64_t fixed = core->ledger.reserved_bytes + core->ledger.buffer_bytes + core->ledger.index_bytes;
    if (bytes > cap || fixed > cap - bytes) {
        return false; /* nothing that could be dropped would be enough */
    }
    uint64_t found = 0;
    while (found == 0 || sum - found > cap - bytes) {
        victim pick = find_victim(core);
        if (pick.index == CAIRN_NONE || pick.density >= density || pick.bytes > sum - found) {
            clear_chosen(core);
            return false;
        }
        choose(core, &pick, true);
        found += pick.bytes;
    }
    drop_chosen(core, CAIRN_REASON_THINNED);
    return CAIRN_EXPECT(cairn_ledger_fits(&core->ledger, bytes));
}

void cairn_evict_over(cairn_core *core)
{
    while (core->ledger.index_bytes > core->ledger.index_bytes_max && cairn_evict_leaf(core)) {
    }
    while (cairn_ledger_over(&core->ledger) > 0) {
        victim pick = find_victim(core);
        if (pick.index == CAIRN_NONE) {
            if (!cairn_evict_leaf(core)) {
                return;
            }
        } else if (pick.rows) {
            cairn_drop_segment(core, pick.index, CAIRN_REASON_EVICTED);
        } else {
            cairn_drop_state(core, pick.index, CAIRN_REASON_EVICTED);
        }
    }
}

/* --- the index ----------------------------------------------------------------------------------------------- */

/* Drop all blobs that hang on this leaf. False: some can't go now. */
static bool leaf_clear(cairn_core *core, uint32_t node)
{
    cairn_tree *tree = &core->tree;
    cairn_drop_edge(core, node, 0, CAIRN_REASON_EVICTED);
    return cairn_tree_leaf_free(tree, node);
}

/* Is this the root of a namespace of which nothing is left, and nobody about to read in it? */
static bool space_free(const cairn_core *core, uint32_t node)
{
    const cairn_node *root = cairn_node_at(&core->tree, node);
    bool needed = root->parent != CAIRN_NONE || !cairn_tree_empty(&core->tree, node);
    for (uint32_t i = 0; i < core->options.slots && !needed; i++) {
        needed = core->requests[i].id != 0 && core->requests[i].space == root->space;
    }
    return !needed;
}

bool cairn_evict_leaf(cairn_core *core)
{
    enum { LOOK = 64 };
    cairn_tree *tree = &core->tree;
    uint32_t fallback = CAIRN_NONE;
    uint32_t looked = 0;
    for (uint32_t i = tree->oldest; i != CAIRN_NONE; i = cairn_node_at(tree, i)->newer) {
        const cairn_node *node = cairn_node_at(tree, i);
        if (cairn_tree_leaf_free(tree, i)) {
            cairn_tree_leaf_remove(tree, i);
            return true;
        }
        if (space_free(core, i)) {
            uint32_t space = node->space;
            cairn_learning_forget(core, space);
            cairn_tree_space_remove(tree, space);
            return true;
        }
        bool leaf = node->parent != CAIRN_NONE && node->child_first == CAIRN_NONE && node->count_cursors == 0;
        if (leaf && fallback == CAIRN_NONE) {
            fallback = i;
        }
        if (++looked >= LOOK && fallback != CAIRN_NONE) {
            break;
        }
    }
    if (fallback != CAIRN_NONE && leaf_clear(core, fallback)) {
        cairn_tree_leaf_remove(tree, fallback);
        return true;
    }
    return false;
}

bool cairn_evict_index_ready(cairn_core *core, uint32_t more)
{
    enum { SPARE = 4 };
    cairn_tree *tree = &core->tree;
    for (uint32_t tries = 0; tries < CAIRN_EVICT_TRIES; tries++) {
        if (cairn_pool_reserve(&tree->nodes, SPARE + more) &&
            cairn_pool_reserve(&tree->marks, SPARE + more) &&
            cairn_pool_reserve(&tree->covers, SPARE + 2 * more) &&
            cairn_pool_reserve(&tree->states, SPARE + more) &&
            cairn_pool_reserve(&tree->segments, SPARE + more) &&
            cairn_pool_reserve(&tree->buffers, SPARE + more)) {
            return true;
        }
        if (!cairn_evict_leaf(core)) {
            return false;
        }
    }
    return false;
}
