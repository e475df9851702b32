/*
 * path - nodes, tokens and children of the tree; see path.h. Cursors and matching are in path_walk.c, what hangs on the
 * nodes in path_hang.c, the invariants in path_verify.c.
 *
 * A split keeps the node's index for the lower part, so that children need no new parent, and makes a
 * new node for the upper part; both read the same token buffer. Children are found by a hash of
 * (parent, first token) in one table for the whole tree.
 */
#include "core/path.h"

#include <string.h>

#include "base/hash.h"
#include "core/path_internal.h"

static cairn_tokens *buffer_at(const cairn_tree *tree, uint32_t buffer)
{
    return cairn_pool_at(&tree->buffers, buffer);
}

const cairn_token *cairn_tree_tokens(const cairn_tree *tree, const cairn_node *node)
{
    return node->end == node->begin ? NULL : buffer_at(tree, node->buffer)->tokens + node->offset;
}

/* --- children ------------------------------------------------------------------------------------ */

static uint32_t hash_child(uint32_t parent, cairn_token token)
{
    return (uint32_t)cairn_hash_mix(((uint64_t)parent << 32) ^ (uint32_t)token);
}

static cairn_token first_token(const cairn_tree *tree, const cairn_node *node)
{
    return cairn_tree_tokens(tree, node)[0];
}

uint32_t cairn_tree_child(const cairn_tree *tree, uint32_t node, cairn_token token)
{
    if (tree->table_room == 0) {
        return CAIRN_NONE;
    }
    uint32_t mask = tree->table_room - 1;
    for (uint32_t i = hash_child(node, token) & mask; tree->table[i] != CAIRN_NONE; i = (i + 1) & mask) {
        const cairn_node *child = cairn_node_at(tree, tree->table[i]);
        if (child->parent == node && first_token(tree, child) == token) {
            return tree->table[i];
        }
    }
    return CAIRN_NONE;
}

static void table_put(const cairn_tree *tree, uint32_t *table, uint32_t room, uint32_t node)
{
    const cairn_node *item = cairn_node_at(tree, node);
    uint32_t i = hash_child(item->parent, first_token(tree, item)) & (room - 1);
    while (table[i] != CAIRN_NONE) {
        i = (i + 1) & (room - 1);
    }
    table[i] = node;
}

/* Room for one more child; the table stays at most two thirds full. */
static bool table_reserve(cairn_tree *tree)
{
    if ((tree->table_count + 1) * UINT64_C(3) <= tree->table_room * UINT64_C(2)) {
        return true;
    }
    uint32_t room = tree->table_room == 0 ? 16 : tree->table_room * 2;
    size_t bytes = room * sizeof(uint32_t);
    if (!cairn_ledger_index_grow(tree->ledger, bytes)) {
        return false;
    }
    uint32_t *table = cairn_mem_array(tree->mem, room, sizeof(uint32_t));
    if (table == NULL) {
        cairn_ledger_index_shrink(tree->ledger, bytes);
        return false;
    }
    memset(table, 0xff, bytes);
    for (uint32_t i = 0; i < tree->table_room; i++) {
        if (tree->table[i] != CAIRN_NONE) {
            table_put(tree, table, room, tree->table[i]);
        }
    }
    cairn_mem_array_release(tree->mem, tree->table, tree->table_room, sizeof(uint32_t));
    cairn_ledger_index_shrink(tree->ledger, tree->table_room * sizeof(uint32_t));
    tree->table = table;
    tree->table_room = room;
    return true;
}

static uint32_t table_slot(const cairn_tree *tree, uint32_t node)
{
    const cairn_node *item = cairn_node_at(tree, node);
    uint32_t i = hash_child(item->parent, first_token(tree, item)) & (tree->table_room - 1);
    while (tree->table[i] != node) {
        CAIRN_ASSERT(tree->table[i] != CAIRN_NONE);
        i = (i + 1) & (tree->table_room - 1);
    }
    return i;
}

/* Open addressing without tombstones: later entries of the run move back into the hole. */
static void table_remove(cairn_tree *tree, uint32_t node)
{
    uint32_t mask = tree->table_room - 1;
    uint32_t hole = table_slot(tree, node);
    for (uint32_t i = (hole + 1) & mask; tree->table[i] != CAIRN_NONE; i = (i + 1) & mask) {
        const cairn_node *item = cairn_node_at(tree, tree->table[i]);
        uint32_t home = hash_child(item->parent, first_token(tree, item)) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            tree->table[hole] = tree->table[i];
            hole = i;
        }
    }
    tree->table[hole] = CAIRN_NONE;
    tree->table_count--;
}

static void child_link(cairn_tree *tree, uint32_t parent, uint32_t node)
{
    cairn_node *item = cairn_node_at(tree, node);
    cairn_node *above = cairn_node_at(tree, parent);
    item->parent = parent;
    item->sibling_prev = CAIRN_NONE;
    item->sibling_next = above->child_first;
    if (above->child_first != CAIRN_NONE) {
        cairn_node_at(tree, above->child_first)->sibling_prev = node;
    }
    above->child_first = node;
    table_put(tree, tree->table, tree->table_room, node);
    tree->table_count++;
}

static void child_unlink(cairn_tree *tree, uint32_t node)
{
    cairn_node *item = cairn_node_at(tree, node);
    cairn_node *above = cairn_node_at(tree, item->parent);
    table_remove(tree, node);
    if (item->sibling_prev != CAIRN_NONE) {
        cairn_node_at(tree, item->sibling_prev)->sibling_next = item->sibling_next;
    } else {
        above->child_first = item->sibling_next;
    }
    if (item->sibling_next != CAIRN_NONE) {
        cairn_node_at(tree, item->sibling_next)->sibling_prev = item->sibling_prev;
    }
    if (above->child_recent == node) {
        above->child_recent = above->child_first;
    }
}

/* --- nodes, by last use ------------------------------------------------------------------------------ */

static void use_unlink(cairn_tree *tree, uint32_t node)
{
    const cairn_node *item = cairn_node_at(tree, node);
    if (item->older != CAIRN_NONE) {
        cairn_node_at(tree, item->older)->newer = item->newer;
    } else {
        tree->oldest = item->newer;
    }
    if (item->newer != CAIRN_NONE) {
        cairn_node_at(tree, item->newer)->older = item->older;
    } else {
        tree->newest = item->older;
    }
}

/* Put `node` just after `older` in the list (CAIRN_NONE: as the oldest). */
static void use_link(cairn_tree *tree, uint32_t node, uint32_t older)
{
    cairn_node *item = cairn_node_at(tree, node);
    item->older = older;
    item->newer = older != CAIRN_NONE ? cairn_node_at(tree, older)->newer : tree->oldest;
    if (older != CAIRN_NONE) {
        cairn_node_at(tree, older)->newer = node;
    } else {
        tree->oldest = node;
    }
    if (item->newer != CAIRN_NONE) {
        cairn_node_at(tree, item->newer)->older = node;
    } else {
        tree->newest = node;
    }
}

static uint32_t node_new(cairn_tree *tree, uint32_t space)
{
    uint32_t node = cairn_pool_take(&tree->nodes);
    if (node == CAIRN_NONE) {
        return CAIRN_NONE;
    }
    cairn_node *item = cairn_node_at(tree, node);
    item->parent = CAIRN_NONE;
    item->child_first = item->sibling_next = item->sibling_prev = item->child_recent = CAIRN_NONE;
    item->buffer = CAIRN_NONE;
    item->mark_first = item->mark_last = item->cover_first = item->cover_last = CAIRN_NONE;
    item->space = space;
    item->alive = true;
    return node;
}

void cairn_tree_touch(cairn_tree *tree, uint32_t node, uint64_t now_ns, uint32_t messages, bool turn)
{
    uint32_t below = CAIRN_NONE;
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        cairn_node *item = cairn_node_at(tree, i);
        use_unlink(tree, i);
        use_link(tree, i, tree->newest);
        item->used_ns = now_ns;
        item->messages = messages;
        item->turns += turn && item->turns < UINT32_MAX ? 1 : 0;
        item->superseded = false;
        item->child_recent = below != CAIRN_NONE ? below : item->child_recent;
        below = i;
    }
}

/* --- tokens ---------------------------------------------------------------------------------------------- */

static bool buffer_resize(cairn_tree *tree, uint32_t buffer, uint32_t room)
{
    cairn_tokens *item = buffer_at(tree, buffer);
    if (room == item->room) {
        return true;
    }
    size_t bytes = room * sizeof(cairn_token);
    size_t old_bytes = item->room * sizeof(cairn_token);
    if (!cairn_ledger_index_grow(tree->ledger, bytes)) { /* while it moves both exist */
        return false;
    }
    void *tokens = cairn_mem_resize(tree->mem, item->tokens, old_bytes, bytes);
    if (tokens == NULL) {
        cairn_ledger_index_shrink(tree->ledger, bytes);
        return false;
    }
    cairn_ledger_index_shrink(tree->ledger, old_bytes);
    item->tokens = tokens;
    item->room = room;
    return true;
}

static uint32_t buffer_new(cairn_tree *tree, uint32_t room)
{
    uint32_t buffer = cairn_pool_take(&tree->buffers);
    if (buffer != CAIRN_NONE && !buffer_resize(tree, buffer, room)) {
        cairn_pool_give(&tree->buffers, buffer);
        return CAIRN_NONE;
    }
    return buffer;
}

static void buffer_free(cairn_tree *tree, uint32_t buffer)
{
    cairn_tokens *item = buffer_at(tree, buffer);
    cairn_mem_release(tree->mem, item->tokens, item->room * sizeof(cairn_token));
    cairn_ledger_index_shrink(tree->ledger, item->room * sizeof(cairn_token));
    cairn_pool_give(&tree->buffers, buffer);
}

void cairn_tree_trim_room(cairn_tree *tree, uint32_t node)
{
    const cairn_node *item = cairn_node_at(tree, node);
    if (item->buffer != CAIRN_NONE) {
        const cairn_tokens *tokens = buffer_at(tree, item->buffer);
        if (tokens->count < tokens->room && tokens->count > 0) {
            (void)buffer_resize(tree, item->buffer, tokens->count); /* failing keeps the room, no more */
        }
    }
}

/* --- splitting and joining ------------------------------------------------------------------------------- */

bool cairn_tree_split_reserve(cairn_tree *tree)
{
    return cairn_pool_reserve(&tree->nodes, 2) && cairn_pool_reserve(&tree->covers, 2) && table_reserve(tree);
}

uint32_t cairn_tree_split(cairn_tree *tree, uint32_t node, uint32_t position)
{
    cairn_node *item = cairn_node_at(tree, node);
    CAIRN_ASSERT(item->begin < position && position < item->end);
    uint32_t upper = node_new(tree, item->space);
    CAIRN_ASSERT(upper != CAIRN_NONE); /* reserved */
    cairn_node *above = cairn_node_at(tree, upper);
    uint32_t parent = item->parent;
    bool recent = cairn_node_at(tree, parent)->child_recent == node;
    child_unlink(tree, node);
    above->begin = item->begin;
    above->end = position;
    above->buffer = item->buffer;
    above->offset = item->offset;
    above->messages = item->messages;
    above->turns = item->turns;
    above->pace_ms = item->pace_ms;
    above->superseded = item->superseded;
    above->used_ns = item->used_ns;
    above->count_cursors = item->count_cursors;
    above->count_states = item->count_states;
    above->count_covers = item->count_covers;
    buffer_at(tree, item->buffer)->uses++;
    item->offset += position - item->begin;
    item->begin = position;
    use_link(tree, upper, node);
    child_link(tree, parent, upper);
    child_link(tree, upper, node);
    above->child_recent = node;
    if (recent) {
        cairn_node_at(tree, parent)->child_recent = upper;
    }
    for (uint32_t i = 0; i < tree->count_cursors; i++) {
        cairn_cursor *cursor = &tree->cursors[i];
        if (cursor->node == node && cursor->position <= position) {
            cursor->node = upper;
            item->count_cursors--;
        }
    }
    cairn_tree_hang_split(tree, node, upper, position);
    return upper;
}

/* A node with one child continues in it: make them one where their tokens are side by side. */
static void join(cairn_tree *tree, uint32_t upper)
{
    cairn_node *above = cairn_node_at(tree, upper);
    uint32_t node = above->child_first;
    if (above->parent == CAIRN_NONE || node == CAIRN_NONE ||
        cairn_node_at(tree, node)->sibling_next != CAIRN_NONE) {
        return;
    }
    cairn_node *item = cairn_node_at(tree, node);
    if (item->buffer != above->buffer || above->offset + (above->end - above->begin) != item->offset) {
        return;
    }
    uint32_t parent = above->parent;
    bool recent = cairn_node_at(tree, parent)->child_recent == upper;
    child_unlink(tree, node);
    child_unlink(tree, upper);
    use_unlink(tree, upper);
    for (uint32_t i = 0; i < tree->count_cursors; i++) {
        if (tree->cursors[i].node == upper) {
            tree->cursors[i].node = node;
        }
    }
    item->begin = above->begin;
    item->offset = above->offset;
    item->count_cursors = above->count_cursors;
    item->count_states = above->count_states;
    item->count_covers = above->count_covers;
    buffer_at(tree, item->buffer)->uses--;
    child_link(tree, parent, node);
    cairn_tree_hang_join(tree, node, upper);
    if (recent) {
        cairn_node_at(tree, parent)->child_recent = node;
    }
    cairn_pool_give(&tree->nodes, upper);
}

bool cairn_tree_empty(const cairn_tree *tree, uint32_t node)
{
    const cairn_node *item = cairn_node_at(tree, node);
    return item->child_first == CAIRN_NONE && item->count_states == 0 && item->count_covers == 0 &&
           item->count_cursors == 0;
}

bool cairn_tree_leaf_free(const cairn_tree *tree, uint32_t node)
{
    return cairn_node_at(tree, node)->parent != CAIRN_NONE && cairn_tree_empty(tree, node);
}

void cairn_tree_leaf_remove(cairn_tree *tree, uint32_t node)
{
    CAIRN_ASSERT(cairn_tree_leaf_free(tree, node));
    cairn_node *item = cairn_node_at(tree, node);
    uint32_t parent = item->parent;
    uint32_t buffer = item->buffer;
    tree->count_tokens -= item->end - item->begin;
    cairn_tree_hang_clear(tree, node);
    child_unlink(tree, node);
    use_unlink(tree, node);
    cairn_tokens *tokens = buffer_at(tree, buffer);
    uint32_t offset = item->offset;
    bool tail = offset + (item->end - item->begin) == tokens->count;
    cairn_pool_give(&tree->nodes, node);
    if (--tokens->uses == 0) {
        buffer_free(tree, buffer);
    } else if (tail) {
        tokens->count = offset;
        (void)buffer_resize(tree, buffer, offset); /* failing keeps the room, no more */
    }
    if (cairn_node_at(tree, parent)->parent != CAIRN_NONE) {
        join(tree, parent);
    }
}

/* --- extending ----------------------------------------------------------------------------------------------- */

/* A new leaf under `parent` with these tokens. */
static uint32_t leaf_new(cairn_tree *tree, uint32_t parent, const cairn_token *tokens, uint32_t count,
                         uint32_t room)
{
    if (!table_reserve(tree) || !cairn_pool_reserve(&tree->nodes, 1)) {
        return CAIRN_NONE;
    }
    uint32_t buffer = buffer_new(tree, room > count ? room : count);
    if (buffer == CAIRN_NONE && room > count) {
        buffer = buffer_new(tree, count);
    }
    if (buffer == CAIRN_NONE) {
        return CAIRN_NONE;
    }
    uint32_t node = node_new(tree, cairn_node_at(tree, parent)->space);
    CAIRN_ASSERT(node != CAIRN_NONE); /* reserved */
    cairn_node *item = cairn_node_at(tree, node);
    const cairn_node *above = cairn_node_at(tree, parent);
    memcpy(buffer_at(tree, buffer)->tokens, tokens, count * sizeof(cairn_token));
    buffer_at(tree, buffer)->count = count;
    buffer_at(tree, buffer)->uses = 1;
    item->begin = above->end;
    item->end = above->end + count;
    item->buffer = buffer;
    item->used_ns = above->used_ns;
    item->messages = above->messages;
    use_link(tree, node, above->older); /* a child is never newer than its parent */
    child_link(tree, parent, node);
    cairn_node_at(tree, parent)->child_recent = node;
    tree->count_tokens += count;
    return node;
}

/* A leaf that ends where its buffer ends grows in place. */
static bool leaf_grow(cairn_tree *tree, uint32_t node, const cairn_token *tokens, uint32_t count,
                      uint32_t capacity)
{
    cairn_node *item = cairn_node_at(tree, node);
    cairn_tokens *buffer = buffer_at(tree, item->buffer);
    if (buffer->room - buffer->count < count) {
        uint32_t more = capacity > count ? capacity : count;
        if (!buffer_resize(tree, item->buffer, buffer->count + more) &&
            !(more > count && buffer_resize(tree, item->buffer, buffer->count + count))) {
            return false;
        }
    }
    memcpy(buffer->tokens + buffer->count, tokens, count * sizeof(cairn_token));
    buffer->count += count;
    item->end += count;
    tree->count_tokens += count;
    return true;
}

static bool leaf_grows(const cairn_tree *tree, const cairn_node *item)
{
    return item->child_first == CAIRN_NONE && item->buffer != CAIRN_NONE &&
           item->offset + (item->end - item->begin) == buffer_at(tree, item->buffer)->count;
}

cairn_status cairn_tree_extend(cairn_tree *tree, uint32_t slot, const cairn_token *tokens, uint32_t count,
                               uint32_t capacity)
{
    CAIRN_ASSERT(tree->cursors[slot].node != CAIRN_NONE);
    while (count > 0) {
        uint32_t node = tree->cursors[slot].node;
        uint32_t position = tree->cursors[slot].position;
        cairn_node *item = cairn_node_at(tree, node);
        uint32_t step;
        if (position < item->end) {
            uint32_t length = item->end - position < count ? item->end - position : count;
            step = cairn_tree_common_prefix(cairn_tree_tokens(tree, item) + (position - item->begin), tokens,
                                            length);
            if (step == 0) {
                if (!cairn_tree_split_reserve(tree)) {
                    return CAIRN_NOMEM;
                }
                (void)cairn_tree_split(tree, node, position); /* moves the cursor to the upper part's end */
                continue;
            }
        } else {
            uint32_t child = cairn_tree_child(tree, node, tokens[0]);
            if (child == CAIRN_NONE && leaf_grows(tree, item)) {
                if (!leaf_grow(tree, node, tokens, count, capacity)) {
                    return CAIRN_NOMEM;
                }
                cairn_tree_cursor_set(tree, slot, node, position + count);
                return CAIRN_OK;
            }
            if (child == CAIRN_NONE) {
                child = leaf_new(tree, node, tokens, count, capacity);
                if (child == CAIRN_NONE) {
                    return CAIRN_NOMEM;
                }
            }
            node = child;
            step = 1; /* the first token is equal; the loop compares the rest */
        }
        cairn_tree_cursor_set(tree, slot, node, position + step);
        tokens += step;
        count -= step;
        capacity = capacity > step ? capacity - step : 0;
    }
    return CAIRN_OK;
}

/* --- the tree as a whole ----------------------------------------------------------------------------------- */

cairn_status cairn_tree_init(cairn_tree *tree, const cairn_mem *mem, cairn_ledger *ledger, uint32_t slots)
{
    *tree = (cairn_tree){0};
    tree->mem = mem;
    tree->ledger = ledger;
    tree->oldest = tree->newest = tree->bare_first = CAIRN_NONE;
    cairn_pool_init(&tree->nodes, mem, ledger, sizeof(cairn_node));
    cairn_pool_init(&tree->marks, mem, ledger, sizeof(cairn_mark));
    cairn_pool_init(&tree->states, mem, ledger, sizeof(cairn_state));
    cairn_pool_init(&tree->segments, mem, ledger, sizeof(cairn_segment));
    cairn_pool_init(&tree->covers, mem, ledger, sizeof(cairn_cover));
    cairn_pool_init(&tree->buffers, mem, ledger, sizeof(cairn_tokens));
    cairn_pool_init(&tree->spaces, mem, ledger, sizeof(cairn_space));
    tree->cursors = cairn_mem_array(mem, slots, sizeof(cairn_cursor));
    if (tree->cursors == NULL) {
        return CAIRN_NOMEM;
    }
    tree->count_cursors = slots;
    for (uint32_t i = 0; i < slots; i++) {
        tree->cursors[i].node = CAIRN_NONE;
    }
    return CAIRN_OK;
}

void cairn_tree_release(cairn_tree *tree)
{
    if (tree->mem == NULL) {
        return;
    }
    for (uint32_t i = 0; i < tree->buffers.high; i++) {
        if (buffer_at(tree, i)->tokens != NULL) {
            buffer_free(tree, i);
        }
    }
    for (uint32_t i = 0; i < tree->segments.high; i++) {
        if (cairn_segment_at(tree, i)->alive) {
            cairn_lineage_release(&cairn_segment_at(tree, i)->lineage, tree->mem, tree->ledger);
        }
    }
    cairn_pool_release(&tree->nodes);
    cairn_pool_release(&tree->marks);
    cairn_pool_release(&tree->states);
    cairn_pool_release(&tree->segments);
    cairn_pool_release(&tree->covers);
    cairn_pool_release(&tree->buffers);
    cairn_pool_release(&tree->spaces);
    cairn_mem_array_release(tree->mem, tree->table, tree->table_room, sizeof(uint32_t));
    cairn_ledger_index_shrink(tree->ledger, tree->table_room * sizeof(uint32_t));
    cairn_mem_array_release(tree->mem, tree->cursors, tree->count_cursors, sizeof(cairn_cursor));
    *tree = (cairn_tree){0};
}

uint32_t cairn_tree_space(cairn_tree *tree, const cairn_namespace *name, bool make)
{
    for (uint32_t i = 0; i < tree->spaces.high; i++) {
        const cairn_space *space = cairn_space_at(tree, i);
        if (space->alive && memcmp(&space->name, name, sizeof *name) == 0) {
            return i;
        }
    }
    if (!make || !cairn_pool_reserve(&tree->nodes, 1)) {
        return CAIRN_NONE;
    }
    uint32_t index = cairn_pool_take(&tree->spaces);
    if (index == CAIRN_NONE) {
        return CAIRN_NONE;
    }
    uint32_t root = node_new(tree, index);
    CAIRN_ASSERT(root != CAIRN_NONE); /* reserved */
    use_link(tree, root, tree->newest);
    cairn_space *space = cairn_space_at(tree, index);
    space->alive = true;
    space->name = *name;
    space->root = root;
    return index;
}

void cairn_tree_space_remove(cairn_tree *tree, uint32_t space)
{
    const cairn_space *item = cairn_space_at(tree, space);
    uint32_t root = item->root;
    CAIRN_ASSERT(item->counts == NULL && item->posts == NULL);
    CAIRN_ASSERT(cairn_tree_empty(tree, root));
    cairn_tree_hang_clear(tree, root);
    use_unlink(tree, root);
    cairn_pool_give(&tree->nodes, root);
    cairn_pool_give(&tree->spaces, space);
}
