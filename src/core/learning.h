/*
 * learning - what each request teaches: where requests part, whether conversations go on, which texts announce it.
 *
 * The counts (divergence.h) and signposts (signpost.h) of a namespace are made when its first request teaches something.
 *
 * Thread   the core's
 * Errors   no room: nothing is learned, the prior stays
 */
#ifndef CAIRN_CORE_LEARNING_H
#define CAIRN_CORE_LEARNING_H

#include "core/core_state.h"

/* Up to here a prompt has what many conversations share; past it, it is one conversation's own. */
uint32_t cairn_learning_shared_end(const cairn_prompt *prompt);

/* A namespace is used: what was learned of it before (cairn_core_counts_load) counts from now on. */
void cairn_learning_recall(cairn_core *core, uint32_t space);

/* Count where this request parted from what was known, and note its habit; the lookup is the request's. */
void cairn_learning_parted(cairn_core *core, cairn_request *request);

/* A request ended on this path. */
void cairn_learning_left(cairn_core *core, const cairn_request *request, uint32_t node);

/* Forget what was learned of a namespace. */
void cairn_learning_forget(cairn_core *core, uint32_t space);

#endif
