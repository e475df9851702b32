/*
 * lookup - what is known of a prompt: how far its path goes, which states and rows are on it, who has them.
 *
 * In exact mode only cuts that this prompt's own cold reading would make count, and only states and rows that were read
 * with exactly these cuts (see lineage.h).
 *
 * Owner    the arrays are the core's, reused from request to request
 * Thread   the core's
 * Cost     O(tokens of the prompt + what is on its path)
 */
#ifndef CAIRN_CORE_LOOKUP_H
#define CAIRN_CORE_LOOKUP_H

#include "core/core_state.h"

/* Give back the arrays. */
void cairn_lookup_release(cairn_core *core, cairn_lookup *lookup);

/*
 * Find everything about a prompt; changes nothing but the lookup's arrays.
 *
 *   request  [in]  the request, for what it avoids; or NULL
 *
 * After    false: no memory; the lookup says that nothing is known
 */
bool cairn_lookup_fill(cairn_core *core, const cairn_prompt *prompt, const cairn_request *request);

/* The edge that `position` of the looked-up path belongs to. */
uint32_t cairn_lookup_node(const cairn_core *core, uint32_t position);

/* First canonical cut at or past `position`; NULL: past what was collected (exact mode). */
const cairn_run *cairn_lookup_canon(const cairn_lookup *look, uint32_t position);

/* The last canonical cut at or before `position`, as far as they were collected; 0: none. */
uint32_t cairn_lookup_canon_before(const cairn_lookup *look, uint32_t position);

/* How far, from `begin` up to `end`, were rows of this lineage made by the prompt's own canonical batches? */
uint32_t cairn_lookup_canonical(const cairn_lookup *look, const cairn_lineage *lineage, uint32_t begin,
                                uint32_t end);

#endif
