/*
 * engine_llama - the engine table over libllama: one model, one context per slot.
 *
 * Each slot is a llama_context of its own with two sequences in one unified K/V cache: the live one and a scratch
 * one, through which rows are moved. So a slot's cells stay alone and in order, and equal batches give equal bits
 * whatever happened before (docs/decisions/0002-one-context-per-slot.md).
 *
 *   context of slot k    seq 0  live     t0 t1 ... t(n-1)    K/V cells 0 .. n-1, one recurrent cell
 *                        seq 1  scratch  empty except inside rows_export and rows_import
 *
 * What a state is depends on the model, as found at start:
 *   recurrent, hybrid   the recurrent cell alone (partial state); fixed size
 *   sliding windows     the window's rows at n (partial state)
 *   plain attention     none
 *   mixtures whose partial state is everything (hybrids with windows): the whole sequence; rows then are 0 bytes
 *
 * Units    tokens, bytes
 * Owner    free through ops->free, which frees the contexts and the model
 * Thread   one at a time; interrupt and resume_work from any
 * Caveats  a decode of several pieces runs them one after the other. rows_import may put rows [begin, begin_use) anew
 *          from the bytes. State bytes mean nothing to another fingerprint: they are libllama's own, checked by size
 *          and position only, so the store's checksums must have passed before
 * See      include/cairn/engine.h, llama_check.h (run it before you trust it)
 */
#ifndef CAIRN_ENGINE_LLAMA_H
#define CAIRN_ENGINE_LLAMA_H

#include "cairn/engine.h"
#include "cairn/mem.h"
#include "engine/llama_load.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cairn_llama_flash {
    CAIRN_LLAMA_FLASH_AUTO = -1,
    CAIRN_LLAMA_FLASH_OFF = 0,
    CAIRN_LLAMA_FLASH_ON = 1
} cairn_llama_flash;

typedef struct cairn_llama_options {
    cairn_llama_model_options model;
    uint32_t slots;             /* contexts; 0: as many as memory_bytes_max has room for, at most 8      */
    uint64_t memory_bytes_max;  /* for weights and slots, buffers too; 0: no limit (then 1 slot for 0)   */
    uint32_t slot_tokens_max;   /* 0: what the model was trained for, at most 32,768                     */
    uint32_t batch_tokens_max;  /* 0: 512                                                                */
    uint32_t ubatch_tokens_max; /* computed at once inside a batch; 0: the batch                         */
    uint32_t logits_rows_max;   /* rows of logits one decode can give; 0: a batch, within 64 MB          */
    uint32_t threads;           /* for decoding one token; 0: the cores this process may use             */
    uint32_t threads_batch;     /* for reading; 0: as threads                                            */
    const char *type_k;         /* "f16", "q8_0", ... (cairn_llama_kv_types); NULL: f16                  */
    const char *type_v;
    cairn_llama_flash flash;
    bool
        shared; /* slots in one context, so that several answers' tokens are computed at once (decision 0010) */
    bool swa_full;     /* sliding-window layers keep all rows                                           */
    bool whole_states; /* states are whole sequences even where parts would do: what the check falls to */
} cairn_llama_options;

/* mmap, all layers on GPUs where there are any, one slot, everything else 0. The path must be set. */
void cairn_llama_defaults(cairn_llama_options *ret_options);

/* Names for type_k and type_v, separated by ", ". A constant. */
const char *cairn_llama_kv_types(void);

/*
 * Load a model and make an engine of it.
 *
 *   mem  [in]  for cairn's own structures; libllama allocates weights, K/V and buffers itself
 *
 * After    CAIRN_OK: info is final except exact and rows_move, which llama_check proves or denies.
 * Errors   as cairn_llama_model_load; CAIRN_INVALID (options; the detail says which); CAIRN_NOMEM (no room for
 *          a context; the detail says of how many; or more than memory_bytes_max, with both numbers, before
 *          weights are loaded); CAIRN_UNSUPPORTED (an encoder or diffusion model)
 * Cost     loading, and a decode of four tokens
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_new(const cairn_llama_options *options, cairn_mem *mem,
                                              cairn_engine **ret_engine, cairn_error *reterr);

/* The model, for llama_vocab and the chat bridge; lives as long as the engine. */
struct llama_model *cairn_llama_model_get(cairn_engine *engine);

/* Bytes that libllama holds for this engine now: weights, K/V and recurrent cells of all slots, computing. */
typedef struct cairn_llama_memory {
    uint64_t weight_bytes;
    uint64_t slot_bytes;   /* K/V and recurrent cells, of all slots, as sizes of states tell */
    uint64_t row_bytes;    /* ... of these: K/V                                              */
    uint64_t cell_bytes;   /* ... recurrent cells or windows                                 */
    uint64_t buffer_bytes; /* for computing, and for rows on their way                   */
} cairn_llama_memory;

void cairn_llama_memory_get(cairn_engine *engine, cairn_llama_memory *ret_memory);

/* Tokens decoded by successful decodes, and tokens of decodes that failed or were interrupted. */
void cairn_llama_counts_get(const cairn_engine *engine, uint64_t *ret_decoded, uint64_t *ret_discarded);

#ifdef __cplusplus
}
#endif
#endif
