/*
 * verify_cases - what `cairn verify` compares on one engine: resumed conversations with cold runs, and the controls.
 *
 *   A   system | user | answer | user | answer | user          read first, with its answer
 *   E_k A cut at k, then other tokens                          resumes from a checkpoint at or before k
 *   B   A, then other tokens; then A again with a tail         branch and back
 *   S   A with a tail, while slot 0 is busy                    restore into another slot
 *   C   A, its answer, then a user message                     exact: may not use what was written token by token
 *   M   A's beginning, ending around a batch's edge            the last piece of a prompt is 1, 2 .. tokens long
 *   N   A cold, and cold again with other cuts                 the noise floor: what no cache is to blame for
 *   G   the gate: a cut that it allows is exact; after one that it forbids nothing can be decoded without a state
 *   D   A's answer, each token in one decode with one of another slot
 *   X   A's rows with the state of other tokens                must differ, or nothing was proved
 *
 * Units    tokens
 * Owner    the caller owns bench and engine; results live in the bench
 * Thread   the main thread, which owns the engine
 */
#ifndef CAIRN_CLI_VERIFY_CASES_H
#define CAIRN_CLI_VERIFY_CASES_H

#include "base/rng.h"
#include "cairn/cairn.h"
#include "cli/engine_open.h"
#include "cli/verify_run.h"

enum { CAIRN_VERIFY_MESSAGES = 6, CAIRN_VERIFY_CASES_MAX = 48, CAIRN_VERIFY_TAIL = 24 };

typedef enum cairn_verify_kind {
    CAIRN_VERIFY_COMPARED = 0, /* resumed against cold                                               */
    CAIRN_VERIFY_NOISE = 1,    /* cold against cold with other cuts                                  */
    CAIRN_VERIFY_CONTROL = 2   /* a wrong state: must differ                                         */
} cairn_verify_kind;

typedef struct cairn_verify_result {
    char name[32];
    cairn_resume_mode mode;
    cairn_verify_kind kind;
    cairn_record record;
    cairn_verify_difference difference;
    bool passed;
} cairn_verify_result;

typedef struct cairn_verify_bench {
    cairn_engine_open *open;
    cairn_rng rng;
    cairn_token *tokens; /* cairn_token[room]: prompt A, and room behind it                           */
    cairn_token *other;  /* cairn_token[room]: the prompt of the case at hand                         */
    uint32_t room, length;
    cairn_boundary boundaries[CAIRN_VERIFY_MESSAGES + 1];
    cairn_verify_trace cold, warm, first;
    bool require_exact; /* what differs fails also where the engine doesn't claim to be exact         */
    cairn_verify_result results[CAIRN_VERIFY_CASES_MAX];
    size_t count;
} cairn_verify_bench;

/* What the gate said about cuts at three places of a slot with a prompt and a short answer. */
typedef struct cairn_verify_gate {
    bool answer, middle; /* may be cut: back to the prompt's end; to the middle of the prompt          */
} cairn_verify_gate;

/* What a list of results comes to. */
typedef struct cairn_verify_summary {
    bool passed;          /* all of them, and at least one request was resumed                        */
    size_t exact, equal;  /* comparisons in exact mode, and those that were equal bit for bit         */
    size_t resumed;       /* comparisons in which something was resumed                               */
    double exact_largest; /* largest difference in exact mode                                         */
    double fast_largest, fast_kl;
    double noise_largest, noise_kl;
    double control; /* the smallest difference that a wrong state made                             */
} cairn_verify_summary;

/*
 * Make prompts and room for them.
 *
 *   tokens  [in]  length of A; the engine's slots hold tokens + 2 * answer + 16 * CAIRN_VERIFY_TAIL
 *
 * Errors   CAIRN_NOMEM; release in any case
 */
CAIRN_MUST_CHECK cairn_status cairn_verify_bench_init(cairn_verify_bench *bench, cairn_engine_open *open,
                                                      uint32_t tokens, uint32_t answer, bool require_exact,
                                                      cairn_error *reterr);
void cairn_verify_bench_release(cairn_verify_bench *bench);

/* Run cases and add results. Errors: those of the engine. `few`: edits alone. */
CAIRN_MUST_CHECK cairn_status cairn_verify_cases(cairn_verify_bench *bench, cairn_resume_mode mode, bool few,
                                                 cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_verify_edges(cairn_verify_bench *bench, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_verify_noise(cairn_verify_bench *bench, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_verify_gate_check(cairn_verify_bench *bench, cairn_verify_gate *ret_gate,
                                                      cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_verify_beside(cairn_verify_bench *bench, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_verify_control(cairn_verify_bench *bench, cairn_error *reterr);

/* What all rows say together. */
void cairn_verify_summarize(const cairn_verify_bench *bench, cairn_verify_summary *ret_summary);

/* A token that is no control token and ends no answer. */
cairn_token cairn_verify_token(const cairn_llama_vocab *vocab, uint32_t vocab_size, cairn_rng *rng);

#endif
