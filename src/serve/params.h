/*
 * params - the fields of a generation request that are not messages: sampling, limits, stops, and cairn's own.
 *
 * OpenAI's and llama.cpp's names are read side by side. Unknown fields are accepted and ignored; known ones with a
 * wrong type or an impossible value are refused with the field's name. Where two names mean the same, the newer one
 * wins (max_completion_tokens, max_tokens, n_predict; repeat_penalty).
 *
 * Owner    texts are borrowed from the request's JSON
 * Thread   any
 * See      docs/api.md (request fields)
 */
#ifndef CAIRN_PARAMS_H
#define CAIRN_PARAMS_H

#include <jansson.h>

#include "cairn/prompt.h"
#include "serve/api_error.h"
#include "serve/stops.h"

enum { CAIRN_PARAMS_BIAS_MAX = 1024, CAIRN_PARAMS_SEED_RANDOM = -1, CAIRN_PARAMS_CHOICES_MAX = 128 };

typedef struct cairn_params_bias {
    cairn_token token; /* -1: `text` stands for one or more tokens                                 */
    const char *text;  /* NULL: `token` is set                                                      */
    float bias;        /* -INFINITY: never                                                          */
} cairn_params_bias;

typedef struct cairn_params {
    /* sampling; the values of an absent field are the defaults that cairn_params_init sets */
    double temperature, top_p, min_p, typical_p;
    int64_t top_k; /* 0: all                                                                       */
    double repeat_penalty, presence_penalty, frequency_penalty;
    int64_t repeat_last_n;
    int64_t seed; /* CAIRN_PARAMS_SEED_RANDOM: another each time                                   */
    bool ignore_eos;
    cairn_params_bias bias[CAIRN_PARAMS_BIAS_MAX];
    uint32_t count_bias;
    const char *grammar; /* GBNF of the request, /completion and /v1/completions only; NULL: none    */
    /* limits and stops */
    int64_t answer_tokens_max; /* -1: until the context is full                                    */
    cairn_stop_text stops[CAIRN_STOPS_MAX];
    uint32_t count_stops;
    /* shape */
    bool stream, include_usage, echo;
    bool return_tokens;   /* (llama.cpp) the answer's token ids, too                                 */
    int64_t choices;      /* for each prompt: `n`                                                      */
    bool logprobs;        /* tell how probable the tokens were                                       */
    int64_t top_logprobs; /* and the most probable ones in their place: how many                      */
    int64_t slot;         /* id_slot, a hint; -1: any                                                 */
    /* cairn's own */
    bool explain, no_store, pin, cache_off;
    const char *cache_salt; /* NULL: none                                                           */
    int resume;             /* cairn_resume_mode; -1: the server's                                  */
    int64_t now_s;          /* the template's clock; -1: fixed at the conversation's first sight    */
} cairn_params;

void cairn_params_init(cairn_params *params);

/*
 * Read all fields of a request object.
 * Errors  in `error`, 400 with the field's name
 */
void cairn_params_read(cairn_params *params, const json_t *request, cairn_api_error *error);

/* The same as llama.cpp's clients know them: `generation_settings`, and `params` in /props. NULL: no memory. */
json_t *cairn_params_json(const cairn_params *params);

#endif
