/*
 * engine_replica - an exact engine for tests, fuzzing and simulation: no weights, only hashes.
 *
 * The state after n tokens is a hash chain over the path, every row is a hash of the path that led
 * to it, and logits are a function of the state and of every row. So whatever is put back wrongly
 * (a state of another position or path, a stale, swapped or missing row, one flipped byte) changes
 * the logits of that token and of all later ones, always. That replaces a numerical tolerance.
 *
 *   chain(i+1) = h(chain(i), token(i), i, rows(i))       what a recurrent layer would carry
 *   row(i)     = h(chain(i+1), i)                        what an attention layer would append
 *   rows(i+1)  = h(rows(i), row(i))                      kept per position, rebuilt by an import
 *   logits(n)  = f(chain(n), rows(n))                    vocab_size floats, made when asked for
 *
 * Plain attention (CAIRN_TRIM_ANYWHERE) has no chain: rows carry everything. Exported bytes are the
 * hash followed by a filler made from it; an import reads every byte back, so each of them matters.
 *
 * With `cut_sensitive` each hash has a second, low part that depends on where decodes were cut and
 * on tokens decoded one at a time (a real engine's last bits). The low part changes logits by less
 * than 2^-12 and never the greedy token, but with `near_ties`: `cairn_replica_pure` tells whether the answer is right,
 * `cairn_replica_digest` whether it is right bit for bit.
 *
 * Units    tokens, bytes; ns of virtual time
 * Owner    the caller frees the engine through its ops; options are copied; `clock_ns` is borrowed
 * Thread   one at a time; `interrupt` and `resume_work` from any thread
 * Cost     decode O(tokens) at a few ns a token, no allocation; logits O(vocab_size) when asked for
 * See      include/cairn/engine.h, tests/engine/test_engine_replica.c, test_replica_contract.c
 */
#ifndef CAIRN_ENGINE_REPLICA_H
#define CAIRN_ENGINE_REPLICA_H

#include "cairn/engine.h"
#include "cairn/mem.h"

/* Virtual time that calls add to *clock_ns. All zero: free. */
typedef struct cairn_replica_cost {
    uint64_t decode_call_ns;
    uint64_t token_ns;         /* per token decoded                                               */
    uint64_t token_kilopos_ns; /* per token and 1,024 tokens before it (the quadratic term)       */
    uint64_t state_call_ns;    /* state_get, state_set                                            */
    uint64_t state_kib_ns;     /* per 1,024 bytes of state moved                                  */
    uint64_t rows_call_ns;     /* rows_export, rows_import, trim                                  */
    uint64_t rows_kib_ns;      /* per 1,024 bytes of rows moved                                   */
} cairn_replica_cost;

typedef struct cairn_replica_options {
    uint32_t slots; /* >= 1                                                            */
    uint32_t slot_tokens_max;
    uint32_t batch_tokens_max;
    uint32_t vocab_size; /* >= 2                                                            */
    uint64_t seed;       /* stands for the weights; part of the fingerprint                 */
    cairn_trim trim;
    uint32_t window_tokens;   /* CAIRN_TRIM_WINDOW: the window; the ring holds it + a batch      */
    uint32_t state_bytes;     /* >= 32, or 0 (only where trim is CAIRN_TRIM_ANYWHERE)            */
    uint32_t row_bytes;       /* >= 16                                                           */
    uint32_t tail_bytes;      /* rows_export writes so much more, to be cut off (libllama does)  */
    uint32_t logits_rows_max; /* rows of logits kept at once; 0: slots * batch_tokens_max        */
    uint64_t room_tokens_max; /* tokens of all slots together; 0: no such limit (CAIRN_NOMEM)    */
    bool rows_move;
    bool cut_sensitive;
    bool batch_sensitive; /* with cut_sensitive: sharing a decode also changes the low part  */
    bool near_ties;       /* with cut_sensitive: two tokens are best but for the low part         */
    bool light;           /* for simulation, CAIRN_TRIM_NEVER only: rows are counted, not    */
                          /* hashed; states still are a chain. Memory per slot is constant   */
    cairn_replica_cost cost;
    uint64_t *clock_ns; /* NULL: time is not kept                                          */
} cairn_replica_options;

typedef enum cairn_replica_call {
    CAIRN_REPLICA_DECODE = 0,
    CAIRN_REPLICA_STATE_SIZE, /* answers 0 when it fails                                            */
    CAIRN_REPLICA_STATE_GET,
    CAIRN_REPLICA_STATE_SET,
    CAIRN_REPLICA_ROWS_EXPORT,
    CAIRN_REPLICA_ROWS_IMPORT,
    CAIRN_REPLICA_TRIM,
    CAIRN_REPLICA_CAN_TRIM, /* answers false when it fails                                          */
    CAIRN_REPLICA_CALLS
} cairn_replica_call;

/* What the engine was asked to do since it was made (or since counters_clear). */
typedef struct cairn_replica_counters {
    uint64_t calls[CAIRN_REPLICA_CALLS];
    uint64_t failures[CAIRN_REPLICA_CALLS];
    uint64_t tokens_decoded;   /* of decodes that returned CAIRN_OK: what "reported is decoded" means */
    uint64_t tokens_discarded; /* worked on by decodes that then failed or were interrupted          */
    uint64_t pieces;
    uint64_t pieces_of_one; /* pieces of one token                                               */
    uint64_t state_bytes_out, state_bytes_in;
    uint64_t row_bytes_out, row_bytes_in;
    uint64_t resets;
    uint64_t violations; /* calls that broke the contract: a test expects 0                         */
} cairn_replica_counters;

/* Options for tests: 2 slots of 4,096 tokens, batches of 64, 256 tokens, hybrid, 64-byte states. */
void cairn_replica_defaults(cairn_replica_options *ret_options);

/*
 * Make an engine.
 *
 *   mem  [in]  borrowed until the engine is freed
 *
 * After    CAIRN_OK: *ret_engine is the caller's; free with (*ret_engine)->ops->free.
 * Errors   CAIRN_INVALID (options out of range), CAIRN_NOMEM
 * Cost     slots * slot_tokens_max * 48 bytes (not with `light`) and logits_rows_max * vocab_size
 *          floats are allocated here, nothing later
 */
CAIRN_MUST_CHECK cairn_status cairn_replica_new(const cairn_replica_options *options, cairn_mem *mem,
                                                cairn_engine **ret_engine, cairn_error *reterr);

/* The `nth` call of this kind from now on fails with `status` (1: the very next). 0 disarms. */
void cairn_replica_fail(cairn_engine *engine, cairn_replica_call call, uint64_t nth, cairn_status status);

/* Refuse every trim without a state from now on (can_trim false, trim fails), or stop doing so. */
void cairn_replica_refuse_trim(cairn_engine *engine, bool refuse);

const cairn_replica_counters *cairn_replica_counters_get(const cairn_engine *engine);
void cairn_replica_counters_clear(cairn_engine *engine);

/*
 * The answer in the last decode's logits row, as numbers that are quick to compare. `piece` and
 * `index` as in ops->logits; the row must have been asked for.
 *
 * greedy   the token with the largest logit, in O(1)
 * pure     depends on the tokens of the path alone; equal to cairn_replica_cold of that path
 * digest   also depends on cuts (with cut_sensitive): equal if and only if all logits are equal
 */
cairn_token cairn_replica_greedy(const cairn_engine *engine, uint32_t piece, uint32_t index);
uint64_t cairn_replica_pure(const cairn_engine *engine, uint32_t piece, uint32_t index);
uint64_t cairn_replica_digest(const cairn_engine *engine, uint32_t piece, uint32_t index);

/*
 * The reference: `pure` after reading tokens[0, count) cold, computed without an engine. Also the
 * greedy token there. `count` >= 1.
 */
uint64_t cairn_replica_cold(const cairn_replica_options *options, const cairn_token *tokens, uint32_t count,
                            cairn_token *ret_greedy);

#endif
