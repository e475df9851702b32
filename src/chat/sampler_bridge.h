/*
 * sampler_bridge - from logits to the next token, with llama.cpp's samplers and grammars.
 *
 *   logits --bias, penalties--> --temperature <= 0--> the largest
 *                               --else--> top_k, typical_p, top_p, min_p, temperature, draw
 *   The token is checked against the grammar; only one that does not fit costs a second pass with the grammar first.
 *
 * Takes any float[n_vocab], not a llama_context: so it works with every engine. Without grammar, bias and penalties
 * a temperature of 0 is a plain search for the largest logit, the lowest id among equals.
 *
 * Units    tokens
 * Owner    a sampler belongs to the caller; the model must outlive it
 * Thread   one thread at a time for each sampler
 * Errors   CAIRN_INVALID with the field's name in detail; no exception leaves
 * Caveats  the candidates' buffer (12 bytes a vocabulary entry) is made at the first use that needs it
 */
#ifndef CAIRN_CHAT_SAMPLER_BRIDGE_H
#define CAIRN_CHAT_SAMPLER_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/engine.h"
#include "cairn/status.h"
#include "chat/bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_sampler cairn_sampler;

typedef struct cairn_sampler_bias {
    cairn_token token;
    float bias; /* added to the logit; -INFINITY forbids */
} cairn_sampler_bias;

/* Fields as OpenAI and llama-server name them. Start from cairn_sampler_settings_default(). */
typedef struct cairn_sampler_settings {
    float temperature;       /* <= 0: greedy */
    int32_t top_k;           /* <= 0: all */
    float top_p;             /* 1: off */
    float min_p;             /* 0: off */
    float typical_p;         /* 1: off */
    float repeat_penalty;    /* 1: off; > 0 */
    int32_t repeat_last_n;   /* tokens that the penalties look at; 0: none; -1: 4,096 */
    float presence_penalty;  /* 0: off */
    float frequency_penalty; /* 0: off */
    /* the same seed and logits give the same tokens; choose one where none was given */
    uint32_t seed;
    bool ignore_eos;                /* never end */
    const cairn_sampler_bias *bias; /* cairn_sampler_bias[count_bias], borrowed for the call */
    size_t count_bias;
    const cairn_chat_prompt
        /* grammar, triggers, opener and thinking tags; NULL: none. Borrowed for the call */
        *prompt;
    const char *grammar; /* without a prompt: GBNF; NULL: none */
} cairn_sampler_settings;

/* llama-server's defaults: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, penalties off. */
cairn_sampler_settings cairn_sampler_settings_default(void);

/*
 *   model  [in]  const struct llama_model *; must outlive the sampler
 *
 * Errors   CAIRN_INVALID  a field out of range, a bias for no token; a grammar that does not parse (with line and column),
 *                         or that the library would not come to an end with
 */
CAIRN_MUST_CHECK cairn_status cairn_sampler_new(const void *model, const cairn_sampler_settings *settings,
                                                cairn_sampler **ret_sampler, cairn_error *reterr);
void cairn_sampler_free(cairn_sampler *sampler);

/*
 * Choose the next token. Changes nothing but the random state: accept() makes it part of the history.
 *
 *   logits [in]  float[n_vocab of the model]
 *
 * Errors   CAIRN_ENGINE  no token is possible: all logits are -INFINITY or not numbers, or the grammar is at a dead end
 * Cost     greedy: one pass. Else O(n_vocab); a grammar that rejects adds one more pass with the grammar
 */
CAIRN_MUST_CHECK cairn_status cairn_sampler_sample(cairn_sampler *sampler, const float *logits,
                                                   cairn_token *ret_token, cairn_error *reterr);
/*
 * A token was generated (or, with generated false, was in the prompt: then only the penalties see it).
 *
 * Errors   CAIRN_INVALID  the grammar does not allow it
 */
CAIRN_MUST_CHECK cairn_status cairn_sampler_accept(cairn_sampler *sampler, cairn_token token, bool generated,
                                                   cairn_error *reterr);
/* Is a temperature of 0, without anything else, in effect? Then sample() is cairn_sampler_argmax. */
bool cairn_sampler_is_greedy(const cairn_sampler *sampler);

/* The largest of float[count], the lowest index among equals; not-a-numbers are passed over. Pure. */
uint32_t cairn_sampler_argmax(const float *logits, uint32_t count);

typedef struct cairn_sampler_logprob {
    cairn_token token;
    /* natural logarithm of the probability at temperature 1, before any sampling step */
    float logprob;
} cairn_sampler_logprob;

/*
 * The `count` most probable tokens, most probable first (lowest id among equals), and one token's own value. Pure.
 *
 *   out [out]  cairn_sampler_logprob[count]; count <= count_logits
 *
 * Cost     O(count_logits * log count)
 */
void cairn_sampler_logprobs(const float *logits, uint32_t count_logits, cairn_token token, float *ret_logprob,
                            cairn_sampler_logprob *out, uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
