/*
 * llama_share - one context for all slots, so that tokens of several answers are computed at once.
 *
 * Each slot is a sequence of the shared context with a part of the K/V cache of its own ("split", in libllama's words a
 * stream), where its cells lie alone and in order. So a piece that is decoded alone has the bits that it would have in
 * a context of its own; only pieces that share a decode differ in the last bits (info.batch_alone).
 *
 *   shared context    stream 0 | t t t t t t       |      slot 0
 *                     stream 1 | t t t             |      slot 1
 *   carrier context   live     | t t t             |      a copy of one slot's rows, or rows on their way in
 *                     scratch  |                   |
 *
 * libllama gives ranges of rows only within one stream. So rows move through the carrier, which is made as a slot's own
 * context is (see llama_rows.h): out, the slot's rows are copied to the carrier once and ranges taken from there, until
 * the slot changes; in, ranges are joined in the carrier, which goes to the slot as a whole before it is used.
 *
 * A sequence's state in the shared context differs from one in the carrier by the counts of the streams, all but one of
 * which are 0; they are put in and taken out, and checked:
 *
 *   carrier   [ head | 1 | count rows ... | tail ]
 *   shared    [ head | N | 0 .. 0 | count rows ... | 0 .. 0 | tail ]
 *
 * Units    tokens, bytes
 * Thread   as engine_llama.h
 * Caveats  moving costs a copy of the whole slot, with memory for it meanwhile. Windows and whole states are not shared:
 *          the layout of their cells is settled by means that need a context of their own
 *          libllama v0.4.0 multiplies wrongly with weights in its AMX layout when a decode has tokens of several sequences
 *          and the model's graph has a dimension for them (all but the first get other weights, or the process ends):
 *          so on CPUs with AMX slots are shared only where weights are not repacked (no_repack)
 *          sequences share a computation only where their numbers are next to each other; others follow
 * Relies   llama.h@v0.4.0: the layout above, which the check at start tries; no row is interpreted
 * See      docs/decisions/0010-slots-in-one-context.md
 * Test     tests/engine/test_llama_share.c, and tests/engine/test_engine_llama.c with `shared`
 */
#ifndef CAIRN_ENGINE_LLAMA_SHARE_H
#define CAIRN_ENGINE_LLAMA_SHARE_H

#include "cairn/engine.h"

struct llama_engine;
struct llama_slot;

enum { CAIRN_LLAMA_SHARE_SLOTS_MAX = 64 };

/* Asked for, and possible with so many slots of this model? */
bool cairn_llama_share_wanted(const struct llama_engine *e, uint32_t slots);

struct llama_context_params;
/* How the context for so many slots is made. */
void cairn_llama_share_params(const struct llama_engine *e, uint32_t slots,
                              struct llama_context_params *ret_params);

/*
 * Move from one slot's context, which becomes the carrier, to one context for all slots. All slots are empty after.
 * Errors  CAIRN_NOMEM, CAIRN_INVALID: as for a slot's context; nothing has changed then
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_share_make(struct llama_engine *e, cairn_error *reterr);

/* Back to a context for each slot; all are empty after. Errors: as for a slot's context. Nothing to do unless shared. */
CAIRN_MUST_CHECK cairn_status cairn_llama_share_leave(struct llama_engine *e, cairn_error *reterr);

/* cairn_llama_slot_reset of a slot of the shared context. Without memory to clean up behind NaN the slot stays broken. */
void cairn_llama_share_reset(struct llama_engine *e, struct llama_slot *slot);

/* --- rows; all do nothing for a slot with a context of its own ----------------------------------------- */

/* *ret_from: where rows [0, length) of the slot can be taken from by ranges. */
CAIRN_MUST_CHECK cairn_status cairn_llama_share_carry(struct llama_engine *e, struct llama_slot *slot,
                                                      uint32_t length, struct llama_slot **ret_from,
                                                      cairn_error *reterr);

/* *ret_into: where rows can be put behind the slot's `length`, which is all it has. `staged`: they were. */
CAIRN_MUST_CHECK cairn_status cairn_llama_share_stage(struct llama_engine *e, struct llama_slot *slot,
                                                      uint32_t length, struct llama_slot **ret_into,
                                                      cairn_error *reterr);
void cairn_llama_share_staged(struct llama_engine *e, struct llama_slot *slot, uint32_t length);

/* Rows that were staged go into the slot. Errors: CAIRN_NOMEM (they are still staged), CAIRN_ENGINE. */
CAIRN_MUST_CHECK cairn_status cairn_llama_share_unload(struct llama_engine *e, struct llama_slot *slot,
                                                       cairn_error *reterr);

/* Rows from `length` on are no longer what they were. */
void cairn_llama_share_changed(struct llama_engine *e, const struct llama_slot *slot, uint32_t length);

#endif
