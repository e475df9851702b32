/*
 * llama_rows - attention rows of a range of positions, out of a slot and back in.
 *
 * libllama moves whole sequences only. So a range is first given to the scratch sequence (only marks on cells change),
 * whose full state then is the rows of that range, followed by what is not rows:
 *
 *   full state of scratch   [ head | rows of full-attention layers | recurrent or window part ]
 *
 * A hybrid's recurrent part is taken off the scratch sequence before, and what stays is a constant that tells "no
 * cell"; it is left at the end, so that the bytes can be read back as they are. A window part has no fixed size; it is
 * cut off, and "no cells" is put in its place when the rows go back in. Rows from 0 on go right into the live sequence,
 * which has none then; others through scratch again.
 *
 * Units    positions in tokens, sizes in bytes
 * Thread   as engine_llama.h
 * Relies   llama.h@v0.4.0: in a unified cache llama_memory_seq_cp copies no data and takes any range; a full state is
 *          the attention part followed by the rest; restored cells go to the first free ones, in order
 * Test     tests/contract/test_llama_rows.c
 */
#ifndef CAIRN_ENGINE_LLAMA_ROWS_H
#define CAIRN_ENGINE_LLAMA_ROWS_H

#include "cairn/engine.h"

struct llama_engine;
struct llama_slot;

/* Sizes, measured once: bytes(n rows) = base + n * row. */
typedef struct llama_rows_shape {
    uint64_t base_bytes;
    uint64_t row_bytes;
    uint64_t tail_bytes_max; /* what an export writes beyond them */
} llama_rows_shape;

/*
 * Measure the shape on slot 0, which holds a few tokens.
 * Errors  CAIRN_UNSUPPORTED the sizes are not linear: rows can't be moved
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_rows_measure(struct llama_engine *e, cairn_error *reterr);

/* As ops->rows_size, rows_export and rows_import. */
cairn_rows_size cairn_llama_rows_size(const struct llama_engine *e, uint32_t begin, uint32_t end);
CAIRN_MUST_CHECK cairn_status cairn_llama_rows_export(struct llama_engine *e, struct llama_slot *slot,
                                                      uint32_t begin, uint32_t end, uint8_t *out,
                                                      uint64_t out_size, uint64_t *ret_size,
                                                      cairn_error *reterr);
/* After an error the slot is not usable as it is: the caller resets it. */
CAIRN_MUST_CHECK cairn_status cairn_llama_rows_import(struct llama_engine *e, struct llama_slot *slot,
                                                      uint32_t begin, uint32_t begin_use, uint32_t use_end,
                                                      const uint8_t *bytes, uint64_t size,
                                                      cairn_error *reterr);

#endif
