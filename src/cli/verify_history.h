/*
 * verify_history - random histories: whatever a cache has been through, its exact answers are those of a cold run.
 *
 * A few conversations live side by side on a cache that is far too small for them. Each step continues, edits, branches
 * or repeats one of them, or begins a new one; some requests are cancelled on the way, some run beside another one that
 * keeps a slot busy, some are fast and leave states from written answers behind, and the budget shrinks and grows.
 * Every exact answer's logits are compared with those of a second engine that has just been emptied.
 *
 * Units    tokens
 * Thread   the main thread, which owns both engines
 */
#ifndef CAIRN_CLI_VERIFY_HISTORY_H
#define CAIRN_CLI_VERIFY_HISTORY_H

#include "cli/engine_open.h"

typedef struct cairn_verify_history_options {
    uint32_t requests;
    uint64_t seed;
    uint32_t tokens_max; /* longest conversation; the engines' slots hold it and an answer           */
} cairn_verify_history_options;

enum { CAIRN_VERIFY_HISTORY_ANSWER = 2 };

typedef struct cairn_verify_history {
    uint32_t requests, compared, equal, resumed, cancelled, beside, fast;
    uint32_t continued, edited, branched, repeated, begun, budgets;
    uint64_t tokens_prompt, tokens_resumed, states_dropped;
    double largest;        /* difference of two logits                                              */
    uint32_t differs_step; /* the first step that differed; UINT32_MAX: none                         */
    char differs[128];     /* what it was                                                           */
} cairn_verify_history;

/*
 * Run it.
 *
 *   warm, cold  [in]  two engines of one model and the same settings; cold needs one slot, warm has two or more
 *
 * After    CAIRN_OK: *ret_history says what was found, differences included
 * Errors   those of the engines
 */
CAIRN_MUST_CHECK cairn_status cairn_verify_history_run(cairn_engine_open *warm, cairn_engine_open *cold,
                                                       const cairn_verify_history_options *options,
                                                       cairn_verify_history *ret_history,
                                                       cairn_error *reterr);

#endif
