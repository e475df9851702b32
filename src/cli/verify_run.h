/*
 * verify_run - one prompt through a cache, with all logits kept: what `cairn verify` compares.
 *
 * Units    tokens
 * Owner    a trace is the caller's: init, any number of runs, release
 * Thread   the main thread, which owns engine and cache
 */
#ifndef CAIRN_CLI_VERIFY_RUN_H
#define CAIRN_CLI_VERIFY_RUN_H

#include "cairn/cairn.h"

/* Logits of the last prompt token and of each answer token, and the answer. */
typedef struct cairn_verify_trace {
    uint32_t vocab_size, answer_tokens;
    float *logits;       /* float[answer_tokens + 1][vocab_size]                                      */
    cairn_token *answer; /* cairn_token[answer_tokens], greedy                                        */
    cairn_record record;
} cairn_verify_trace;

CAIRN_MUST_CHECK cairn_status cairn_verify_trace_init(cairn_verify_trace *trace, uint32_t vocab_size,
                                                      uint32_t answer_tokens);
void cairn_verify_trace_release(cairn_verify_trace *trace);

/*
 * Read the prompt and write answer_tokens tokens.
 *
 *   force  [in]   tokens to write instead of the greedy ones, so that two runs stay comparable after a difference;
 *                 cairn_token[answer_tokens]; NULL: greedy
 *
 * After    the request has ended; trace->answer holds the largest logits' tokens, also with `force`
 */
CAIRN_MUST_CHECK cairn_status cairn_verify_run(cairn_cache *cache, const cairn_prompt *prompt,
                                               const cairn_token *force, cairn_verify_trace *trace,
                                               cairn_error *reterr);

typedef struct cairn_verify_difference {
    bool equal;       /* every logit, bit for bit                                                     */
    bool greedy;      /* the largest logits are the same tokens                                       */
    double largest;   /* largest absolute difference                                                  */
    double magnitude; /* largest absolute logit of `a`                                                */
    double kl; /* largest Kullback-Leibler divergence of a token's distribution, a against b, in nats */
} cairn_verify_difference;

/* Compare all logits. Both traces have the same shape. */
cairn_verify_difference cairn_verify_compare(const cairn_verify_trace *a, const cairn_verify_trace *b);

#endif
