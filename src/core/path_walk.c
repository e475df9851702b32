/*
 * path_walk - cursors, and how far tokens follow a known path; see path.h.
 */
#include <string.h>

#include "core/path_internal.h"

/* --- cursors ---------------------------------------------------------------------------------------------- */

static void count_cursors(cairn_tree *tree, uint32_t node, bool add)
{
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        cairn_node *item = cairn_node_at(tree, i);
        CAIRN_ASSERT(add || item->count_cursors > 0);
        item->count_cursors += add ? 1u : UINT32_MAX;
    }
}

void cairn_tree_cursor_set(cairn_tree *tree, uint32_t slot, uint32_t node, uint32_t position)
{
    cairn_cursor *cursor = &tree->cursors[slot];
    if (node != cursor->node) {
        if (node != CAIRN_NONE) {
            count_cursors(tree, node, true);
        }
        if (cursor->node != CAIRN_NONE) {
            count_cursors(tree, cursor->node, false);
        }
    }
    cursor->node = node;
    cursor->position = node != CAIRN_NONE ? position : 0;
}

bool cairn_tree_live(const cairn_tree *tree, uint32_t node, uint32_t position)
{
    const cairn_node *item = cairn_node_at(tree, node);
    if (item->count_cursors == 0) {
        return false;
    }
    uint32_t here = 0;
    for (uint32_t i = 0; i < tree->count_cursors; i++) {
        if (tree->cursors[i].node == node) {
            here++;
            if (tree->cursors[i].position >= position) {
                return true;
            }
        }
    }
    return here < item->count_cursors;
}

uint32_t cairn_tree_edge(const cairn_tree *tree, uint32_t node, uint32_t position)
{
    while (cairn_node_at(tree, node)->begin >= position && cairn_node_at(tree, node)->parent != CAIRN_NONE) {
        node = cairn_node_at(tree, node)->parent;
    }
    return node;
}

uint32_t cairn_tree_common(const cairn_tree *tree, uint32_t slot, uint32_t node, uint32_t position)
{
    const cairn_cursor *cursor = &tree->cursors[slot];
    if (cursor->node == CAIRN_NONE) {
        return 0;
    }
    uint32_t a = cursor->node;
    uint32_t b = node;
    uint32_t length = cursor->position;
    while (a != b) {
        cairn_node *first = cairn_node_at(tree, a);
        cairn_node *second = cairn_node_at(tree, b);
        if (first->begin > second->begin || (first->begin == second->begin && first->parent == b)) {
            a = first->parent;
        } else if (second->begin > first->begin || second->parent == a) {
            b = second->parent;
        } else { /* two children of one node, or two roots */
            a = first->parent;
            b = second->parent;
        }
        if (a == CAIRN_NONE || b == CAIRN_NONE) {
            return 0;
        }
    }
    uint32_t end = cairn_node_at(tree, a)->end;
    length = length < end ? length : end;
    return length < position ? length : position;
}

/* --- matching ------------------------------------------------------------------------------- */

uint32_t cairn_tree_common_prefix(const cairn_token *a, const cairn_token *b, uint32_t count)
{
    enum { BLOCK = 256 };
    uint32_t at = 0;
    while (count - at >= BLOCK && memcmp(a + at, b + at, BLOCK * sizeof(cairn_token)) == 0) {
        at += BLOCK;
    }
    while (at < count && a[at] == b[at]) {
        at++;
    }
    return at;
}

uint32_t cairn_tree_match(const cairn_tree *tree, uint32_t root, const cairn_token *tokens, uint32_t count,
                          uint32_t *ret_node)
{
    uint32_t node = root;
    uint32_t position = 0;
    while (position < count) {
        uint32_t child = cairn_tree_child(tree, node, tokens[position]);
        if (child == CAIRN_NONE) {
            break;
        }
        const cairn_node *item = cairn_node_at(tree, child);
        uint32_t length = item->end - item->begin;
        length = length < count - position ? length : count - position;
        position += cairn_tree_common_prefix(cairn_tree_tokens(tree, item), tokens + position, length);
        node = child;
        if (position < item->end) {
            break;
        }
    }
    *ret_node = node;
    return position;
}
