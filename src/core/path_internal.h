/*
 * path_internal - what the files of the path tree share: splitting, and the lists on a node.
 */
#ifndef CAIRN_CORE_PATH_INTERNAL_H
#define CAIRN_CORE_PATH_INTERNAL_H

#include "core/path.h"

/* Reserve what one split needs, so that it cannot fail half way. */
CAIRN_MUST_CHECK bool cairn_tree_split_reserve(cairn_tree *tree);

/* Split the edge of `node` at begin < position < end; gives the new upper part. `node` stays the lower part. */
uint32_t cairn_tree_split(cairn_tree *tree, uint32_t node, uint32_t position);

/* Length of the common prefix of a[0, count) and b[0, count): by blocks, then by tokens. */
uint32_t cairn_tree_common_prefix(const cairn_token *a, const cairn_token *b, uint32_t count);

/* Move what hangs on `node` up to `position` to `upper` (a fresh node). Split only. */
void cairn_tree_hang_split(cairn_tree *tree, uint32_t node, uint32_t upper, uint32_t position);

/* Put what hangs on `upper` in front of what hangs on `node`. Join only. */
void cairn_tree_hang_join(cairn_tree *tree, uint32_t node, uint32_t upper);

/* Free a node's marks (which have no states any more). */
void cairn_tree_hang_clear(cairn_tree *tree, uint32_t node);

/* Add to a count of the node and of all above. */
void cairn_tree_count_states(cairn_tree *tree, uint32_t node, int change);
void cairn_tree_count_covers(cairn_tree *tree, uint32_t node, int change);

#endif
