/*
 * llama_inside - what the files of the llama engine share; nobody else includes it.
 *
 * Thread   as engine_llama.h
 */
#ifndef CAIRN_ENGINE_LLAMA_INSIDE_H
#define CAIRN_ENGINE_LLAMA_INSIDE_H

#include <stdatomic.h>

#include "engine/engine_llama.h"
#include "engine/llama_rows.h"
#include "llama.h"

enum { LLAMA_SEQ_LIVE = 0, LLAMA_SEQ_SCRATCH = 1, LLAMA_SEQS = 2 };

/* How a slot's contents are split into rows and state. */
typedef enum llama_split {
    LLAMA_SPLIT_ROWS_ONLY = 0, /* plain attention: rows, no state                       */
    LLAMA_SPLIT_CELL = 1,      /* hybrid: rows, and the recurrent cell as state         */
    LLAMA_SPLIT_CELL_ONLY = 2, /* recurrent: no rows                                    */
    LLAMA_SPLIT_WINDOW = 3,    /* full layers' rows, and the window's rows as state     */
    LLAMA_SPLIT_WHOLE = 4      /* everything is state; rows are counted, not moved      */
} llama_split;

typedef struct llama_slot {
    struct llama_context *context;
    llama_memory_t memory;
    llama_seq_id live; /* the slot's sequence in its context */
    bool staged;       /* shared context: the rows are still in the carrier, and not in the slot */
    uint32_t length;
    uint32_t window_low;  /* windows: rows before this one may be gone                    */
    uint32_t window_base; /* windows: the length at which their cells were last in order  */
    bool state_set;       /* the next decode may begin                                  */
    bool hollow;          /* LLAMA_SPLIT_WHOLE: rows are promised, the state brings them */
    bool broken;          /* only reset helps, and it clears the cells' contents, too   */
    bool used;            /* something was put in since the last reset */
} llama_slot;

typedef struct llama_answer {
    uint32_t slot, first, count; /* first: of the piece's tokens in its context's last batch */
    cairn_logits logits;
    bool nan;
} llama_answer;

typedef struct llama_engine {
    cairn_engine head;
    cairn_mem *mem;
    cairn_llama_options options;
    struct llama_model *model;
    llama_split split;
    uint32_t window_tokens;
    uint32_t slots_room;   /* of the arrays below; options.slots of them are used */
    llama_slot *slots;     /* llama_slot[slots]          */
    llama_answer *answers; /* llama_answer[slots]        */
    uint32_t answers_used;
    uint32_t batch_room;                /* of the next five       */
    llama_token *tokens;                /* llama_token[batch]     */
    llama_pos *positions;               /* llama_pos[batch]       */
    int32_t *seq_counts;                /* int32_t[batch], all 1  */
    llama_seq_id **seq_ids;             /* llama_seq_id *[batch]  */
    int8_t *wanted;                     /* int8_t[batch]          */
    struct llama_context_params params; /* of a slot's own context                       */
    struct llama_context *shared;       /* of all slots (see llama_share.h); NULL: each has its own */
    llama_slot carrier;                 /* shared: a context through which rows move     */
    llama_slot *carried;                /* whose rows the carrier has; NULL: nobody's    */
    uint32_t carried_rows;              /* ... and how many of them still are the slot's */
    llama_rows_shape rows;
    uint8_t *hollow_state; /* the partial state of an empty sequence: sets "no cell" */
    uint64_t hollow_bytes;
    uint8_t *sound_state; /* a state without NaN, of a few tokens; NULL where there are no cells */
    uint64_t sound_bytes;
    uint8_t *settle_buffer; /* uint8_t[settle_bytes]: a window on its way out and back in; NULL: no need */
    uint64_t settle_bytes;
    uint64_t cell_bytes; /* size of a state where it is fixed; else 0 */
    void *threads_pool, *threads_pool_batch;
    atomic_bool interrupted;
    uint64_t tokens_decoded, tokens_discarded;
    char build_text[256];
} llama_engine;

static inline llama_engine *llama_engine_of(cairn_engine *engine)
{
    return (llama_engine *)(void *)engine;
}

/*
 * Empty a slot. libllama starts a new sequence from what its recurrent cell held, times 0: that is not 0 where there is
 * NaN. So a sound state is put there first. A broken slot has all its cells' contents cleared, rows too.
 */
void cairn_llama_slot_reset(llama_engine *e, llama_slot *slot);

/*
 * Take the recurrent cell out of a sequence, leaving rows alone. Nothing to do where there is none.
 * Errors  CAIRN_ENGINE libllama refused its own empty state
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_slot_detach(llama_engine *e, llama_slot *slot, llama_seq_id seq,
                                                      cairn_error *reterr);

/* Forget what a slot holds, without touching libllama. */
void cairn_llama_slot_forget(llama_slot *slot);

/* The context of slots[index], or one for the carrier. */
CAIRN_MUST_CHECK cairn_status cairn_llama_make_context(llama_engine *e, llama_slot *slot, uint32_t index,
                                                       cairn_error *reterr);

/* Room for batches of `count` tokens. */
CAIRN_MUST_CHECK cairn_status cairn_llama_make_batch(llama_engine *e, uint32_t count, cairn_error *reterr);

/* `status` with libllama's own last message. */
cairn_status cairn_llama_refused(cairn_error *reterr, cairn_status status, const char *where);

/*
 * States become whole sequences, rows become a count. All slots are emptied; info and the fingerprint change.
 * Errors  those of cairn_llama_fingerprint, CAIRN_ENGINE
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_use_whole_states(llama_engine *e, cairn_error *reterr);

/* Free everything; a half-made engine and NULL are allowed. */
void cairn_llama_unmake(llama_engine *e);

extern const cairn_engine_ops cairn_llama_engine_ops;

#endif
