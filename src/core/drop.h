/*
 * drop - a state, rows, or what is built on rows that nobody has any more: off the tree, off the ledger, into the list.
 *
 * What should go but is pinned or being written is doomed: it serves nobody any more and is dropped when it can be.
 * Dropping removes no node of the tree.
 *
 * Thread   the core's
 * See      eviction.h, which chooses what goes
 */
#ifndef CAIRN_CORE_DROP_H
#define CAIRN_CORE_DROP_H

#include "core/core_state.h"

/* Drop one state or one segment (and what is stranded by it); `tomb` stays as the reason. */
void cairn_drop_state(cairn_core *core, uint32_t state, cairn_reason tomb);
void cairn_drop_segment(cairn_core *core, uint32_t segment, cairn_reason tomb);

/*
 * Rows [begin, end) of `node`'s path may have lost their last holder: drop every state and all rows
 * that are built on rows which nobody has any more.
 */
void cairn_drop_stranded(cairn_core *core, uint32_t node, uint32_t begin, uint32_t end, cairn_reason tomb);

/* Drop what hangs on this edge past `from`, and segments that end with it. */
void cairn_drop_edge(cairn_core *core, uint32_t node, uint32_t from, cairn_reason tomb);

/* Drop segments whose covers were all taken over by better ones. */
void cairn_drop_uncovered(cairn_core *core);

/* Drop everything of a namespace, tokens and all; no cursor is in it. The root stays. */
void cairn_drop_all(cairn_core *core, uint32_t root);

/* Drop what is doomed and free to go. */
void cairn_drop_doomed(cairn_core *core);

#endif
