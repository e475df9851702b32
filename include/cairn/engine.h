/*
 * engine - what an inference engine provides so that libcairn can resume its sequences.
 *
 * libcairn never computes a token. It decides what to keep and what to put back, and asks an
 * engine to do it through this table of functions. An engine has a fixed number of slots. A slot
 * is one live token sequence: its rows (attention keys and values, one row per token, which can be
 * dropped from the end) and its state (what recurrent layers carry: it exists only for the slot's
 * present length).
 *
 *   slot   t0 t1 t2 ... t(n-1)            length n
 *   rows   r0 r1 r2 ... r(n-1)            may be trimmed, exported and imported by ranges
 *   state                     S(n)        may be read out at n, and set back at the same n
 *
 * A resume at n is: rows [0, n) in the slot, then S(n) set. Both or neither.
 *
 * Units    positions and lengths in tokens; sizes in bytes; time is measured by the caller
 * Owner    whoever made the engine owns it, and frees it after the cache that uses it. Bytes and tokens
 *          that are passed in are borrowed for the call
 * Thread   one thread at a time, the one that owns the cache; `interrupt` and `resume_work`: any
 * Errors   a failing call leaves other slots unharmed; each call says what it leaves in its own slot.
 *          After CAIRN_ENGINE the caller resets the slot before it uses it again
 * Cost     state_get, state_set, rows_export and rows_import are timed by the cache; where they take
 *          longer than reading, it reads. length, can_trim, state_size and rows_size are asked often:
 *          keep them O(1)
 * See      docs/embedding.md, examples/embed.c (the smallest engine),
 *          src/engine/engine_replica.h (the exact engine for tests), src/engine/engine_llama.h (libllama)
 */
#ifndef CAIRN_ENGINE_H
#define CAIRN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t cairn_token;

enum { CAIRN_FINGERPRINT_BYTES = 32 };

/* How a slot of this engine may be shortened without a saved state: the strictest of its layers. */
typedef enum cairn_trim {
    CAIRN_TRIM_ANYWHERE = 0, /* plain attention: any shorter length is exact                        */
    CAIRN_TRIM_WINDOW = 1,   /* sliding windows: exact while nothing needed was overwritten         */
    CAIRN_TRIM_NEVER = 2     /* recurrent: only together with a state saved at exactly that length  */
} cairn_trim;

/* Facts that do not change while the engine lives. Sizes of 0 mean "none". */
typedef struct cairn_engine_info {
    const char *name;  /* "llama", "replica"; constant, lives as long as the engine       */
    const char *build; /* what computes: "libllama 0.4.0 (abc123), CPU"; lives as long    */
    uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES]; /* digest of all that state and row bytes depend on */
    uint32_t slots;            /* number of slots, 1 to 65,535                                    */
    uint32_t slot_tokens_max;  /* longest sequence of one slot, >= 2                              */
    uint32_t batch_tokens_max; /* most tokens of one slot in one decode; reading is cut by it     */
    uint32_t vocab_size;       /* floats in one row of logits                                     */
    cairn_trim trim;
    bool rows_move;           /* rows can be moved, or take no bytes; else only slots are resumed    */
    bool exact;               /* equal batches give equal bits: proved by the engine, not hoped   */
    bool batch_alone;         /* `exact` holds only while a decode carries one slot              */
    uint64_t state_bytes_max; /* upper bound of a state's size at any length; 0: has no states   */
    uint64_t row_bytes;       /* stored bytes of one row on average; rows_size gives the exact   */
} cairn_engine_info;

typedef enum cairn_logits {
    CAIRN_LOGITS_NONE = 0,
    CAIRN_LOGITS_LAST = 1, /* of the piece's last token                                             */
    CAIRN_LOGITS_ALL = 2   /* of every token of the piece                                           */
} cairn_logits;

/* Tokens of one slot inside one decode. They extend the slot: its length must be `begin`. */
typedef struct cairn_piece {
    uint32_t slot;
    uint32_t begin;            /* position of tokens[0]                                             */
    const cairn_token *tokens; /* cairn_token[count], borrowed for the call                         */
    uint32_t count;            /* 1 <= count <= batch_tokens_max                                    */
    cairn_logits logits;
    bool settle; /* the prompt is cut behind this piece: leave the slot as setting its state would, so that */
                 /* it goes on with the same bits whether it was read or put back. Only engines with       */
                 /* windows need it: their rows are put back in another order than they were read          */
} cairn_piece;

typedef struct cairn_rows_size {
    uint64_t bytes;        /* what the exported rows will occupy                                    */
    uint64_t buffer_bytes; /* what rows_export needs as room, >= bytes: some engines write a tail     */
                           /* that is cut off afterwards                                            */
} cairn_rows_size;

typedef struct cairn_engine cairn_engine;

typedef struct cairn_engine_ops {
    /*
     * Read tokens: each piece's tokens are decoded and become rows and state of its slot.
     *
     *   pieces [in]  cairn_piece[count_pieces], at most one piece a slot
     *
     * After   CAIRN_OK: every slot is longer by its piece; logits are ready until the next decode.
     *         Otherwise (CAIRN_CANCELLED: `interrupt` was honoured; or an error): each slot named in
     *         `pieces` either still has its rows [0, begin) and its state is unset (length() ==
     *         begin), or it is empty (length() == 0). Ask length() and restore or reset.
     * Errors  CAIRN_LIMIT (longer than slot_tokens_max), CAIRN_ENGINE, CAIRN_NOMEM, CAIRN_CANCELLED
     */
    cairn_status (*decode)(cairn_engine *engine, const cairn_piece *pieces, uint32_t count_pieces,
                           cairn_error *reterr);
    /*
     * Logits of the last decode: float[vocab_size] of token `index` of piece `piece`, both counted from 0;
     * NULL if none were asked for. Borrowed until the next decode.
     */
    const float *(*logits)(cairn_engine *engine, uint32_t piece, uint32_t index);
    /* Tokens in the slot now. Cannot fail. */
    uint32_t (*length)(cairn_engine *engine, uint32_t slot);
    /* The exactness gate: may `slot` be cut to `length` now, without a state, and stay exact? */
    bool (*can_trim)(cairn_engine *engine, uint32_t slot, uint32_t length);
    /*
     * Drop rows [length, end). On CAIRN_TRIM_NEVER engines the state is then unset (unless length
     * equals the slot's length): state_set at `length` must follow before the next decode. The same
     * holds on windows where can_trim said no. To 0 is the same as reset.
     * Errors  CAIRN_ENGINE: refused; the slot is empty
     */
    cairn_status (*trim)(cairn_engine *engine, uint32_t slot, uint32_t length, cairn_error *reterr);
    /* Empty the slot. Cannot fail. */
    void (*reset)(cairn_engine *engine, uint32_t slot);
    /*
     * The state at the slot's present length. state_size gives its exact bytes, at most state_bytes_max;
     * 0 where there is none: in an engine without states, in an empty slot, and while the state is unset
     * (after a decode that failed, a trim or rows_import). By that the cache tells whether a slot can go
     * on as it is. state_get writes them and changes nothing.
     *
     *   out  [out]  uint8_t[size], size as state_size gave it
     *
     * Errors  CAIRN_ENGINE: refused; the slot is as it was
     */
    uint64_t (*state_size)(cairn_engine *engine, uint32_t slot);
    cairn_status (*state_get)(cairn_engine *engine, uint32_t slot, uint8_t *out, uint64_t size,
                              cairn_error *reterr);
    /*
     * Set the state that was saved at exactly `length` tokens of this path. The slot holds rows
     * [0, length) and no more.
     *
     *   bytes  [in]  uint8_t[size], as state_get of an engine with this fingerprint wrote them
     *
     * Errors  CAIRN_CORRUPT: not a state of this engine. CAIRN_ENGINE: refused. The slot is then empty
     */
    cairn_status (*state_set)(cairn_engine *engine, uint32_t slot, uint32_t length, const uint8_t *bytes,
                              uint64_t size, cairn_error *reterr);
    /*
     * Rows [begin, end) of the slot as bytes. rows_size is pure arithmetic and may be asked for any
     * range, begin < end; it is the same in every slot and process of this fingerprint. {0, 0} when the
     * state holds everything: such rows are only counted, rows_export is not called for them, and
     * rows_import is given no bytes. rows_export doesn't change the slot.
     *
     *   out       [out]  uint8_t[out_size], out_size at least buffer_bytes of rows_size
     *   ret_size  [out]  bytes that are the rows, 0 < *ret_size <= out_size
     *
     * Errors  CAIRN_ENGINE, CAIRN_NOMEM, CAIRN_UNSUPPORTED: the slot is as it was
     */
    cairn_rows_size (*rows_size)(cairn_engine *engine, uint32_t begin, uint32_t end);
    cairn_status (*rows_export)(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                uint8_t *out, uint64_t out_size, uint64_t *ret_size, cairn_error *reterr);
    /*
     * Append rows [begin_use, use_end) to the slot, whose length must be `begin_use`, out of bytes that
     * hold rows [begin, end): begin <= begin_use < use_end <= end. Rows [begin, begin_use) are the
     * same path's, and the engine may put them anew from the bytes: where other batches made those,
     * the slot's rows from `begin` on are no longer the ones that it had, bit for bit. The state is
     * then unset: a state_set must follow before the next decode (not on CAIRN_TRIM_ANYWHERE engines).
     *
     *   bytes  [in]  uint8_t[size], as rows_export of an engine with this fingerprint wrote them
     *
     * Errors  CAIRN_CORRUPT: not rows of this engine. CAIRN_ENGINE, CAIRN_NOMEM: refused. The slot is then
     *         empty
     */
    cairn_status (*rows_import)(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                uint32_t begin_use, uint32_t use_end, const uint8_t *bytes, uint64_t size,
                                cairn_error *reterr);
    /*
     * Ask a running decode to stop as soon as it can, and each later one; it holds until `resume_work`. They
     * are for the program, not for the cache, which calls neither. Any thread; may do nothing where a decode
     * is short.
     */
    void (*interrupt)(cairn_engine *engine);
    void (*resume_work)(cairn_engine *engine);
    /* Free the engine. Called by its owner, never by the cache. */
    void (*free)(cairn_engine *engine);
} cairn_engine_ops;

/* What every engine begins with: your own struct has it as its first member. */
struct cairn_engine {
    const cairn_engine_ops *ops;
    cairn_engine_info info;
};

#ifdef __cplusplus
}
#endif
#endif
