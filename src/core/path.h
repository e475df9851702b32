/*
 * path - the tree of token paths, and what hangs on it.
 *
 * One radix tree for each namespace. An edge holds its tokens; two paths share their edges up to the
 * token where they part, where an edge is split. On an edge hang, each in ascending order:
 *
 *   marks    positions that mean something: boundaries, states, what became of a state (tombstone)
 *   covers   ranges of the edge whose rows are stored in a segment
 *   cursors  one for each slot: the path that it holds
 *
 *   root ──[0, 4096) system ──┬──[4096, 9000) conversation A      <- cursor of slot 0 at 9000
 *           marks 512.. 4096  │    cover: rows [4096, 9000) are in segment 7
 *           cover: segment 7  └──[4096, 5200) conversation B      <- cursor of slot 1 at 5200
 *
 * A segment's rows belong to the path it was saved from; when an edge is split its cover is split too,
 * and both parts name the same segment, whose bytes count once. Every position of a range belongs to
 * the edge with begin < position <= end; position 0 belongs to the root.
 *
 * The tree knows no values and takes no decisions: it never drops a leaf by itself.
 *
 * Units    positions in tokens from the namespace's root; items are named by index, CAIRN_NONE is none
 * Owner    the tree owns its items and a copy of the tokens, all counted as index bytes in the ledger
 * Thread   the core's
 * Errors   growth that the ledger or the allocator refuses gives CAIRN_NOMEM and a tree that is valid
 * See      docs/internals/core.md, tests/core/test_path.c (against a naive list of paths)
 */
#ifndef CAIRN_CORE_PATH_H
#define CAIRN_CORE_PATH_H

#include "cairn/prompt.h"
#include "core/lineage.h"
#include "core/pool.h"
#include "core/reason.h"

typedef struct cairn_node {
    uint32_t parent; /* first member: see pool.h. CAIRN_NONE for a root                             */
    uint32_t child_first, sibling_next, sibling_prev;
    uint32_t child_recent; /* the child that a request passed through last                          */
    uint32_t begin, end;   /* the edge holds tokens [begin, end); roots: 0, 0                       */
    uint32_t buffer, offset;
    uint32_t mark_first, mark_last;
    uint32_t cover_first, cover_last;
    uint32_t older, newer; /* list of all nodes by last use; a node is never older than its children */
    uint32_t space;
    uint32_t count_cursors, count_states, count_covers; /* in this node and all below               */
    uint32_t messages;                                  /* of the last prompt that ended here or below */
    uint32_t turns;                                     /* requests that passed, saturating         */
    uint32_t pace_ms; /* usual time until this conversation goes on; 0: not known                   */
    bool alive;
    uint8_t habit;   /* how the last request that ended here parted: see divergence.h                */
    bool superseded; /* the conversation went on from before this edge, on another one              */
    uint64_t used_ns;
} cairn_node;

typedef struct cairn_mark {
    uint32_t prev; /* first member: see pool.h */
    uint32_t next;
    uint32_t position, message;
    uint32_t state;
    uint16_t kinds; /* CAIRN_BOUNDARY_*                                                             */
    uint8_t role;
    uint8_t tomb;        /* cairn_reason: why the state that was here is not; 0: none was           */
    float weight;        /* chance that the next request parts from the path in this message        */
    float hits;          /* requests that parted exactly here, decayed                              */
    uint64_t tomb_bytes; /* what would have kept it                                                 */
} cairn_mark;

/* A recurrent state that is stored, or (pending) being written. */
typedef struct cairn_state {
    uint32_t node; /* first member: see pool.h */
    uint32_t mark;
    uint32_t position;
    uint32_t pins; /* preparations that name it                                                     */
    bool alive, pending, decoded, dirty, chosen, spacing_ok, anchor_pin, doomed;
    bool kept; /* another tier has it, too                                                          */
    uint64_t blob;
    uint64_t bytes;
    uint64_t owner; /* request whose list takes it, while pending                                   */
    uint64_t digest;
    uint64_t used_ns, created_ns;
    double chance;  /* that the next request on its path parts between it and the next state        */
    double gain_ns; /* expected saving of the next request on its path, without recency             */
} cairn_state;

/* Rows [begin, end) of one path, stored or (pending) being written. */
typedef struct cairn_segment {
    uint32_t cover_first; /* first member: see pool.h. Its covers, shallowest last                  */
    uint32_t count_covers;
    uint32_t begin, end;
    uint32_t pins;
    uint32_t stored_end; /* where the blob's rows end, when past `end`; 0: at `end`                     */
    bool alive, pending, chosen, doomed;
    bool kept; /* another tier has it, too                                                    */
    bool bare; /* in the tree's list of segments that lost their last cover                   */
    uint32_t bare_next;
    bool fetching; /* pending from another tier: no transfer buffer is held for it                   */
    uint64_t blob;
    uint64_t bytes;
    uint64_t owner;
    uint64_t used_ns, created_ns;
    cairn_lineage lineage; /* runs of rows [begin, end)                                             */
} cairn_segment;

typedef struct cairn_cover {
    uint32_t prev; /* first member: see pool.h. In the node */
    uint32_t next;
    uint32_t node, segment;
    uint32_t segment_next;
    uint32_t begin, end;
} cairn_cover;

typedef struct cairn_tokens {
    uint32_t uses; /* first member: see pool.h. Nodes that read it */
    uint32_t count, room;
    cairn_token *tokens;
} cairn_tokens;

typedef struct cairn_cursor {
    uint32_t node; /* CAIRN_NONE: the slot's path is not known                                      */
    uint32_t position;
} cairn_cursor;

typedef struct cairn_space {
    uint32_t root; /* first member: see pool.h */
    bool alive;
    cairn_namespace name;
    float *counts; /* divergence counts, or NULL; see divergence.h                                  */
    struct cairn_signposts *posts; /* there when `counts` is; see signpost.h                        */
} cairn_space;

typedef struct cairn_tree {
    const cairn_mem *mem;
    cairn_ledger *ledger;
    cairn_pool nodes, marks, states, segments, covers, buffers, spaces;
    uint32_t *table; /* children by (parent, first token); open addressing                          */
    uint32_t table_room, table_count;
    uint32_t oldest, newest;
    uint32_t bare_first; /* segments that lost their last cover since cairn_tree_bare                 */
    uint64_t count_tokens;
    cairn_cursor *cursors; /* cairn_cursor[count_cursors], one a slot                               */
    uint32_t count_cursors;
} cairn_tree;

static inline cairn_node *cairn_node_at(const cairn_tree *tree, uint32_t node)
{
    return cairn_pool_at(&tree->nodes, node);
}
static inline cairn_mark *cairn_mark_at(const cairn_tree *tree, uint32_t mark)
{
    return cairn_pool_at(&tree->marks, mark);
}
static inline cairn_state *cairn_state_at(const cairn_tree *tree, uint32_t state)
{
    return cairn_pool_at(&tree->states, state);
}
static inline cairn_segment *cairn_segment_at(const cairn_tree *tree, uint32_t segment)
{
    return cairn_pool_at(&tree->segments, segment);
}
static inline cairn_cover *cairn_cover_at(const cairn_tree *tree, uint32_t cover)
{
    return cairn_pool_at(&tree->covers, cover);
}
static inline cairn_space *cairn_space_at(const cairn_tree *tree, uint32_t space)
{
    return cairn_pool_at(&tree->spaces, space);
}

/*
 * The walk over `top` and all below it, parents first: the node after `at`, which is its first child if `inside` and it
 * has one, else the next that is not below it. CAIRN_NONE at the end.
 *
 *   depth  [inout]  NULL, or the number of edges between `top` and `at`, which becomes that of the node given
 */
static inline uint32_t cairn_tree_next(const cairn_tree *tree, uint32_t top, uint32_t at, bool inside,
                                       uint32_t *depth)
{
    uint32_t child = inside ? cairn_node_at(tree, at)->child_first : CAIRN_NONE;
    uint32_t levels = 0;
    if (child != CAIRN_NONE) {
        if (depth != NULL) {
            ++*depth;
        }
        return child;
    }
    while (at != top && cairn_node_at(tree, at)->sibling_next == CAIRN_NONE) {
        at = cairn_node_at(tree, at)->parent;
        levels++;
    }
    if (depth != NULL) {
        *depth -= levels;
    }
    return at == top ? CAIRN_NONE : cairn_node_at(tree, at)->sibling_next;
}

/* An empty tree with `slots` cursors at none. */
CAIRN_MUST_CHECK cairn_status cairn_tree_init(cairn_tree *tree, const cairn_mem *mem, cairn_ledger *ledger,
                                              uint32_t slots);
void cairn_tree_release(cairn_tree *tree);

/* The namespace's index, or CAIRN_NONE. `make`: add it when it is missing (CAIRN_NONE: no room). */
uint32_t cairn_tree_space(cairn_tree *tree, const cairn_namespace *name, bool make);

/*
 * How far do tokens[0, count) follow a known path?
 *
 *   ret_node  [out]  the edge that the position belongs to (the root for 0)
 *
 * Gives    the number of tokens
 * Cost     O(count) at the speed of memcmp, plus O(1) for each edge
 */
uint32_t cairn_tree_match(const cairn_tree *tree, uint32_t root, const cairn_token *tokens, uint32_t count,
                          uint32_t *ret_node);

/* The child of `node` whose edge begins with `token`, or CAIRN_NONE. */
uint32_t cairn_tree_child(const cairn_tree *tree, uint32_t node, cairn_token token);

/* The edge's tokens: cairn_token[end - begin], borrowed until the tree changes. */
const cairn_token *cairn_tree_tokens(const cairn_tree *tree, const cairn_node *node);

/* The edge that `position` belongs to on the path that ends in `node`. */
uint32_t cairn_tree_edge(const cairn_tree *tree, uint32_t node, uint32_t position);

/* How far do the paths of this match and of the slot's cursor run together? 0 when in other namespaces. */
uint32_t cairn_tree_common(const cairn_tree *tree, uint32_t slot, uint32_t node, uint32_t position);

/* Put a slot's cursor: on an edge (begin < position <= end, or a root at 0), or at none. */
void cairn_tree_cursor_set(cairn_tree *tree, uint32_t slot, uint32_t node, uint32_t position);

/*
 * Walk a slot's cursor on over tokens[0, count), adding to the tree what is new.
 *
 *   capacity [in]  tokens that are likely to follow in all, for the first allocation
 *
 * Errors   CAIRN_NOMEM: the cursor stands as far as was possible
 */
CAIRN_MUST_CHECK cairn_status cairn_tree_extend(cairn_tree *tree, uint32_t slot, const cairn_token *tokens,
                                                uint32_t count, uint32_t capacity);

/* A request used the path up to this node: all of it becomes the newest. */
void cairn_tree_touch(cairn_tree *tree, uint32_t node, uint64_t now_ns, uint32_t messages, bool turn);

/* The mark at exactly `position` of `node`'s edge; `make`: add it when missing. CAIRN_NONE: no (no room). */
uint32_t cairn_tree_mark(cairn_tree *tree, uint32_t node, uint32_t position, bool make);

/* Hang a new state (pending) at a position. CAIRN_NONE: no room. The mark has no state yet. */
uint32_t cairn_tree_state_add(cairn_tree *tree, uint32_t node, uint32_t position);
void cairn_tree_state_remove(cairn_tree *tree, uint32_t state);

/* Take a state off its path; its item stays until it is removed. */
void cairn_tree_state_detach(cairn_tree *tree, uint32_t state);

/*
 * Hang a new segment (pending) over rows [begin, end) of the path that ends in `node`: `end` belongs to
 * that edge. Where other covers are in the way they are clipped (`clip`) or left, and the new one
 * covers the gaps only. Segments that lose their last cover stay, with count_covers 0.
 */
uint32_t cairn_tree_segment_add(cairn_tree *tree, uint32_t node, uint32_t begin, uint32_t end, bool clip);
void cairn_tree_segment_remove(cairn_tree *tree, uint32_t segment);

/* The next segment that lost its last cover since it was asked for last; CAIRN_NONE: no more. */
uint32_t cairn_tree_bare(cairn_tree *tree);

/* Take one cover off its node and its segment. */
void cairn_tree_cover_remove(cairn_tree *tree, uint32_t cover);

/* The segment's shallowest cover at or past `from`, or CAIRN_NONE. */
uint32_t cairn_tree_top_cover(const cairn_tree *tree, const cairn_segment *segment, uint32_t from);

/*
 * Another segment that holds the rows of this cover: one that goes on where the cover ends, on this edge or below it,
 * and began before. Two branches that begin with the same few tokens each save them. CAIRN_NONE: nobody does.
 *
 * Cost     O(children of the edge)
 */
uint32_t cairn_tree_heir(const cairn_tree *tree, const cairn_cover *cover);

/* A cover was removed: its rows belong to the heir from now on, if there is one. */
void cairn_tree_inherit(cairn_tree *tree, const cairn_cover *gone);

/* Is the row before `position` of `node`'s edge (position in (begin, end]) in some slot, by its cursor? */
bool cairn_tree_live(const cairn_tree *tree, uint32_t node, uint32_t position);

/* First row of [begin, end) of this edge that neither a segment nor a slot holds; `end` if none. */
uint32_t cairn_tree_missing(const cairn_tree *tree, uint32_t node, uint32_t begin, uint32_t end);

/*
 * Remove a namespace of whose paths nothing is left: its root is empty (cairn_tree_empty). What was learned of
 * it went before (learning.h).
 */
void cairn_tree_space_remove(cairn_tree *tree, uint32_t space);

/* Has the node no children, states, covers or cursors? */
bool cairn_tree_empty(const cairn_tree *tree, uint32_t node);

/* Can the leaf go? It is empty, and not a root. */
bool cairn_tree_leaf_free(const cairn_tree *tree, uint32_t node);

/* Remove such a leaf, and join its parent to an only child where their tokens lie side by side. */
void cairn_tree_leaf_remove(cairn_tree *tree, uint32_t node);

/* Give back tokens that were allocated ahead for this leaf. */
void cairn_tree_trim_room(cairn_tree *tree, uint32_t node);

/* Every invariant of the tree; `detail` in the error. */
CAIRN_MUST_CHECK cairn_status cairn_tree_verify(const cairn_tree *tree, cairn_error *reterr);

#endif
