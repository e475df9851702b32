/*
 * path_verify - the invariants of the tree, checked the slow way. See path.h; for tests and simulation.
 */
#include "core/path.h"

static cairn_status wrong(cairn_error *reterr, const char *what, uint32_t item)
{
    return cairn_error_set(reterr, CAIRN_INVALID, "path/verify", "%s (item %u)", what, item);
}

#define CHECK(condition, item)                        \
    do {                                              \
        if (!(condition)) {                           \
            return wrong(reterr, #condition, (item)); \
        }                                             \
    } while (0)

static cairn_status verify_marks(const cairn_tree *tree, uint32_t index, uint32_t *states,
                                 cairn_error *reterr)
{
    const cairn_node *node = cairn_node_at(tree, index);
    uint32_t before = CAIRN_NONE;
    for (uint32_t m = node->mark_first; m != CAIRN_NONE; m = cairn_mark_at(tree, m)->next) {
        const cairn_mark *mark = cairn_mark_at(tree, m);
        CHECK(mark->prev == before, m);
        CHECK(before == CAIRN_NONE || cairn_mark_at(tree, before)->position < mark->position, m);
        CHECK(mark->position <= node->end && (mark->position > node->begin || node->parent == CAIRN_NONE), m);
        if (mark->state != CAIRN_NONE) {
            const cairn_state *state = cairn_state_at(tree, mark->state);
            CHECK(state->alive && state->node == index && state->mark == m, mark->state);
            CHECK(state->position == mark->position, mark->state);
            ++*states;
        }
        before = m;
    }
    CHECK(node->mark_last == before, index);
    return CAIRN_OK;
}

static cairn_status verify_covers(const cairn_tree *tree, uint32_t index, uint32_t *covers,
                                  cairn_error *reterr)
{
    const cairn_node *node = cairn_node_at(tree, index);
    uint32_t before = CAIRN_NONE;
    for (uint32_t c = node->cover_first; c != CAIRN_NONE; c = cairn_cover_at(tree, c)->next) {
        const cairn_cover *cover = cairn_cover_at(tree, c);
        CHECK(cover->prev == before && cover->node == index, c);
        CHECK(cover->begin < cover->end && node->begin <= cover->begin && cover->end <= node->end, c);
        CHECK(before == CAIRN_NONE || cairn_cover_at(tree, before)->end <= cover->begin, c);
        const cairn_segment *segment = cairn_segment_at(tree, cover->segment);
        CHECK(segment->alive && segment->begin <= cover->begin && cover->end <= segment->end, c);
        uint32_t found = segment->cover_first;
        while (found != CAIRN_NONE && found != c) {
            found = cairn_cover_at(tree, found)->segment_next;
        }
        CHECK(found == c, c);
        ++*covers;
        before = c;
    }
    CHECK(node->cover_last == before, index);
    return CAIRN_OK;
}

static cairn_status verify_children(const cairn_tree *tree, uint32_t index, cairn_error *reterr)
{
    const cairn_node *node = cairn_node_at(tree, index);
    uint32_t before = CAIRN_NONE;
    bool recent = node->child_first == CAIRN_NONE && node->child_recent == CAIRN_NONE;
    for (uint32_t i = node->child_first; i != CAIRN_NONE; i = cairn_node_at(tree, i)->sibling_next) {
        const cairn_node *child = cairn_node_at(tree, i);
        CHECK(child->alive && child->parent == index && child->sibling_prev == before, i);
        CHECK(child->begin == node->end && child->end > child->begin && child->space == node->space, i);
        CHECK(cairn_tree_child(tree, index, cairn_tree_tokens(tree, child)[0]) == i, i);
        recent = recent || node->child_recent == i;
        before = i;
    }
    CHECK(recent, index);
    return CAIRN_OK;
}

static cairn_status verify_node(const cairn_tree *tree, uint32_t index, cairn_error *reterr)
{
    const cairn_node *node = cairn_node_at(tree, index);
    uint32_t states = 0;
    uint32_t covers = 0;
    uint32_t cursors = 0;
    cairn_status status = verify_marks(tree, index, &states, reterr);
    status = status == CAIRN_OK ? verify_covers(tree, index, &covers, reterr) : status;
    status = status == CAIRN_OK ? verify_children(tree, index, reterr) : status;
    if (status != CAIRN_OK) {
        return status;
    }
    for (uint32_t i = 0; i < tree->count_cursors; i++) {
        if (tree->cursors[i].node == index) {
            uint32_t position = tree->cursors[i].position;
            CHECK(position <= node->end && (position > node->begin || node->parent == CAIRN_NONE), index);
            cursors++;
        }
    }
    for (uint32_t i = node->child_first; i != CAIRN_NONE; i = cairn_node_at(tree, i)->sibling_next) {
        states += cairn_node_at(tree, i)->count_states;
        covers += cairn_node_at(tree, i)->count_covers;
        cursors += cairn_node_at(tree, i)->count_cursors;
    }
    CHECK(states == node->count_states, index);
    CHECK(covers == node->count_covers, index);
    CHECK(cursors == node->count_cursors, index);
    if (node->parent == CAIRN_NONE) {
        CHECK(node->begin == 0 && node->end == 0, index);
        CHECK(cairn_space_at(tree, node->space)->root == index, index);
    } else {
        const cairn_tokens *buffer = cairn_pool_at(&tree->buffers, node->buffer);
        CHECK(buffer->uses > 0 && node->offset + (node->end - node->begin) <= buffer->count, index);
        CHECK(buffer->count <= buffer->room, index);
    }
    return CAIRN_OK;
}

static cairn_status verify_uses(const cairn_tree *tree, cairn_error *reterr)
{
    uint32_t before = CAIRN_NONE;
    uint32_t count = 0;
    uint64_t tokens = 0;
    for (uint32_t i = tree->oldest; i != CAIRN_NONE; i = cairn_node_at(tree, i)->newer) {
        const cairn_node *node = cairn_node_at(tree, i);
        CHECK(node->alive && node->older == before, i);
        tokens += node->end - node->begin;
        before = i;
        count++;
        CHECK(count <= tree->nodes.count, i);
    }
    CHECK(tree->newest == before && count == tree->nodes.count, before);
    CHECK(tokens == tree->count_tokens, 0);
    uint32_t uses = 0;
    for (uint32_t i = 0; i < tree->buffers.high; i++) {
        uses += ((const cairn_tokens *)cairn_pool_at(&tree->buffers, i))->tokens != NULL
                    ? ((const cairn_tokens *)cairn_pool_at(&tree->buffers, i))->uses
                    : 0;
    }
    CHECK(uses + tree->spaces.count == tree->nodes.count, uses);
    return CAIRN_OK;
}

cairn_status cairn_tree_verify(const cairn_tree *tree, cairn_error *reterr)
{
    cairn_status status = verify_uses(tree, reterr);
    uint32_t states = 0;
    for (uint32_t i = 0; i < tree->nodes.high && status == CAIRN_OK; i++) {
        if (cairn_node_at(tree, i)->alive) {
            status = verify_node(tree, i, reterr);
            states += cairn_node_at(tree, i)->parent == CAIRN_NONE ? cairn_node_at(tree, i)->count_states : 0;
        }
    }
    uint32_t attached = 0;
    for (uint32_t i = 0; i < tree->states.high && status == CAIRN_OK; i++) {
        const cairn_state *state = cairn_state_at(tree, i);
        attached += state->alive && state->node != CAIRN_NONE ? 1 : 0;
    }
    for (uint32_t i = 0; i < tree->segments.high && status == CAIRN_OK; i++) {
        const cairn_segment *segment = cairn_segment_at(tree, i);
        if (!segment->alive) {
            continue;
        }
        uint32_t covers = 0;
        for (uint32_t c = segment->cover_first; c != CAIRN_NONE; c = cairn_cover_at(tree, c)->segment_next) {
            CHECK(cairn_cover_at(tree, c)->segment == i, i);
            covers++;
        }
        CHECK(covers == segment->count_covers, i);
        uint32_t runs = segment->lineage.count;
        CHECK(runs > 0 && segment->lineage.runs[runs - 1].rows_end == segment->end, i);
    }
    if (status == CAIRN_OK) {
        CHECK(attached == states, states);
    }
    return status;
}
