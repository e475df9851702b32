/*
 * counts - learned counts that were loaded and wait for their namespace; see cairn_core_counts_save in core.h.
 *
 * Owner    the core; counted as index bytes
 * Thread   the core's
 */
#ifndef CAIRN_CORE_COUNTS_H
#define CAIRN_CORE_COUNTS_H

#include "core/core.h"

/* Give the records back. */
void cairn_counts_release(cairn_core *core);

/* Were counts of this namespace loaded? Then copy them: float[CAIRN_DIVERGENCE_COUNTS], or NULL. */
bool cairn_counts_known(const cairn_core *core, const cairn_namespace *space, float *counts);

/* This namespace's record is not to be used or written again. */
void cairn_counts_forget(cairn_core *core, const cairn_namespace *space);

#endif
