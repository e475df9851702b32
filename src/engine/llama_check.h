/*
 * llama_check - an engine proves itself before a cache relies on it.
 *
 * On a few dozen tokens: a path A is read cold, then its answer is asked for again after a trim in place, after its
 * rows went out in two parts and back in, in another slot, and read anew. All must agree bit for bit. And the state
 * of another path B, put in A's place on purpose, must change the answer clearly, or nothing was proved.
 *
 *   cold     A A A A | t t t t       the answer
 *   trimmed  A A A A | t t t t       = ?
 *   moved    A A+A A | t t t t       = ?     rows out, rows in, joined
 *   elsewhere, again                 = ?
 *   together A A A A | t t t t       about = ?     the last token in one decode with another slot's
 *   control  A A A A | t t t t       must differ: rows of A, state of B
 *
 * Units    tokens; logit differences as they come
 * Thread   as the engine
 * Caveats  all slots used are empty afterwards
 */
#ifndef CAIRN_ENGINE_LLAMA_CHECK_H
#define CAIRN_ENGINE_LLAMA_CHECK_H

#include "cairn/engine.h"
#include "cairn/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How one way back compares with the cold answer. */
typedef struct cairn_check_way {
    bool tried;
    bool done;      /* the engine did not refuse                     */
    bool same;      /* bit for bit                                   */
    float distance; /* largest difference of two logits              */
} cairn_check_way;

typedef struct cairn_check {
    bool usable;       /* what is put back gives right answers: a cache may be used                      */
    bool exact;        /* ... bit for bit                                                                */
    bool rows_move;    /* ... also when rows were moved                                                  */
    bool whole_states; /* only whole sequences could be put back: states are large                       */
    cairn_check_way again;     /* read anew                                                              */
    cairn_check_way trimmed;   /* cut in place, its state set                                            */
    cairn_check_way moved;     /* rows out and in                                                        */
    cairn_check_way elsewhere; /* in another slot                                                        */
    cairn_check_way together;  /* beside another slot: right, and bit for bit unless info.batch_alone    */
    cairn_check_way control;   /* the wrong state: must not be the same                                  */
    uint32_t tokens;           /* decoded for all this                                                   */
    char reason[240]; /* in plain words, why not usable, not exact or not moving; "" when all is well */
} cairn_check;

/*
 * Check any engine through its table. Changes nothing in engine->info.
 *
 * After    CAIRN_OK: *ret_check says what was found, good or bad.
 * Errors   CAIRN_NOMEM; CAIRN_ENGINE: not even reading cold works
 * Cost     about 130 tokens
 */
CAIRN_MUST_CHECK cairn_status cairn_check_run(cairn_engine *engine, cairn_mem *mem, cairn_check *ret_check,
                                              cairn_error *reterr);

/*
 * Check a llama engine and set info.exact and info.rows_move to what was proved. Where its states fail as parts, whole
 * states are tried (info.trim, state_bytes_max and row_bytes then change). Where slots share a context and anything
 * fails, each gets one of its own first (info.batch_alone then changes).
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_check(cairn_engine *engine, cairn_mem *mem, cairn_check *ret_check,
                                                cairn_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
