/*
 * params - see the header. One function for each group of fields; each records only the first mistake.
 */
#include "serve/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/json_fields.h"
#include "serve/logprobs.h"

void cairn_params_init(cairn_params *p)
{
    memset(p, 0, sizeof *p);
    p->temperature = 0.8;
    p->top_p = 0.95;
    p->min_p = 0.05;
    p->typical_p = 1.0;
    p->top_k = 40;
    p->repeat_penalty = 1.0;
    p->repeat_last_n = 64;
    p->seed = CAIRN_PARAMS_SEED_RANDOM;
    p->answer_tokens_max = -1;
    p->resume = -1;
    p->now_s = -1;
    p->choices = 1;
    p->slot = -1;
}

/* A mistake that has just been found lies inside this object: its field gets the whole path. */
static void put_inside(cairn_api_error *e, const char *object)
{
    char path[sizeof e->param];
    if (e->http == 0)
        return;
    (void)snprintf(path, sizeof path, "%.20s.%.60s", object, e->param);
    memcpy(e->param, path, sizeof path);
}

static void read_inside(cairn_api_error *e, const char *name, const json_t *object, const char *field,
                        bool *ret_value)
{
    bool before = e->http != 0;
    cairn_json_boolean(object, field, ret_value, e);
    if (!before)
        put_inside(e, name);
}

static void read_sampling(cairn_params *p, const json_t *r, cairn_api_error *e)
{
    cairn_json_number(r, "temperature", 0, 100, &p->temperature, e);
    cairn_json_number(r, "top_p", 0, 1, &p->top_p, e);
    cairn_json_number(r, "min_p", 0, 1, &p->min_p, e);
    cairn_json_number(r, "typical_p", 0, 1, &p->typical_p, e);
    cairn_json_integer(r, "top_k", -1, INT32_MAX, &p->top_k, e);
    if (p->top_k < 0)
        p->top_k = 0;
    cairn_json_number(r, "repetition_penalty", 0.01, 100, &p->repeat_penalty, e);
    cairn_json_number(r, "repeat_penalty", 0.01, 100, &p->repeat_penalty, e);
    cairn_json_integer(r, "repeat_last_n", -1, 1 << 20, &p->repeat_last_n, e);
    cairn_json_number(r, "presence_penalty", -100, 100, &p->presence_penalty, e);
    cairn_json_number(r, "frequency_penalty", -100, 100, &p->frequency_penalty, e);
    /* Clients send seeds of 64 bits and -1 for a random one; what counts is that the same gives the same. */
    cairn_json_integer(r, "seed", INT64_MIN, INT64_MAX, &p->seed, e);
    cairn_json_boolean(r, "ignore_eos", &p->ignore_eos, e);
}

static void add_bias(cairn_params *p, int64_t token, const char *text, const json_t *value, const char *field,
                     cairn_api_error *e)
{
    if (p->count_bias == CAIRN_PARAMS_BIAS_MAX) {
        cairn_api_error_bad(e, field, "logit_bias has more than %d entries.", (int)CAIRN_PARAMS_BIAS_MAX);
        return;
    }
    cairn_params_bias *bias = &p->bias[p->count_bias];
    if (json_is_number(value) && fabs(json_number_value(value)) <= 1e6) {
        bias->bias = (float)json_number_value(value);
    } else if (json_is_false(value)) {
        bias->bias = -INFINITY;
    } else {
        cairn_api_error_bad(e, field, "%s must be a number (or false: never).", field);
        return;
    }
    bias->token = (cairn_token)token;
    bias->text = text;
    p->count_bias++;
}

/* OpenAI: {"1234": -100}. llama.cpp: [[1234, -100], ["text", 1.5], [1234, false]]. */
static void read_bias(cairn_params *p, const json_t *r, cairn_api_error *e)
{
    json_t *value = json_object_get(r, "logit_bias");
    if (value == NULL || json_is_null(value))
        return;
    char field[64];
    if (json_is_object(value)) {
        const char *key;
        json_t *item;
        json_object_foreach(value, key, item)
        {
            char *end = NULL;
            long token = strtol(key, &end, 10);
            (void)snprintf(field, sizeof field, "logit_bias.%.24s", key);
            bool is_token = end != key && *end == '\0' && token >= 0 && token <= INT32_MAX;
            add_bias(p, is_token ? token : -1, is_token ? NULL : key, item, field, e);
        }
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            const json_t *pair = json_array_get(value, i);
            const json_t *first = json_array_get(pair, 0);
            (void)snprintf(field, sizeof field, "logit_bias[%zu]", i);
            bool is_token = json_is_integer(first) && json_integer_value(first) >= 0 &&
                            json_integer_value(first) <= INT32_MAX;
            if (json_array_size(pair) != 2 || (!is_token && !json_is_string(first))) {
                cairn_api_error_bad(e, field, "%s must be [token or text, number].", field);
                return;
            }
            add_bias(p, is_token ? json_integer_value(first) : -1, is_token ? NULL : json_string_value(first),
                     json_array_get(pair, 1), field, e);
        }
    } else {
        cairn_api_error_bad(e, "logit_bias", "logit_bias must be an object or an array, not %s.",
                            cairn_json_type_name(value));
    }
}

static void add_stop(cairn_params *p, const json_t *text, const char *field, cairn_api_error *e)
{
    if (!json_is_string(text)) {
        cairn_api_error_bad(e, field, "%s must be a string, not %s.", field, cairn_json_type_name(text));
        return;
    }
    size_t len = json_string_length(text);
    if (len == 0)
        return; /* clients send "" for none */
    if (len > CAIRN_STOP_BYTES_MAX || p->count_stops == CAIRN_STOPS_MAX) {
        cairn_api_error_bad(e, field, "At most %d stop texts of at most %d bytes are possible.",
                            (int)CAIRN_STOPS_MAX, (int)CAIRN_STOP_BYTES_MAX);
        return;
    }
    p->stops[p->count_stops++] = (cairn_stop_text){json_string_value(text), len};
}

static void read_stops(cairn_params *p, const json_t *r, cairn_api_error *e)
{
    const json_t *stop = json_object_get(r, "stop");
    if (stop == NULL || json_is_null(stop))
        return;
    if (!json_is_array(stop)) {
        add_stop(p, stop, "stop", e);
        return;
    }
    for (size_t i = 0; i < json_array_size(stop); i++) {
        char field[32];
        (void)snprintf(field, sizeof field, "stop[%zu]", i);
        add_stop(p, json_array_get(stop, i), field, e);
    }
}

static void read_shape(cairn_params *p, const json_t *r, cairn_api_error *e)
{
    int64_t best_of = 1;
    const json_t *options = NULL;
    bool cache_prompt = true;
    cairn_json_boolean(r, "stream", &p->stream, e);
    cairn_json_object(r, "stream_options", &options, e);
    if (options != NULL)
        read_inside(e, "stream_options", options, "include_usage", &p->include_usage);
    cairn_json_boolean(r, "echo", &p->echo, e);
    cairn_json_integer(r, "n", 1, CAIRN_PARAMS_CHOICES_MAX, &p->choices, e);
    cairn_json_integer(r, "best_of", 1, p->choices, &best_of, e);
    cairn_json_boolean(r, "return_tokens", &p->return_tokens, e);
    cairn_json_integer(r, "id_slot", -1, INT32_MAX, &p->slot, e);
    cairn_json_integer(r, "n_predict", -2, INT32_MAX, &p->answer_tokens_max, e);
    cairn_json_integer(r, "max_tokens", -1, INT32_MAX, &p->answer_tokens_max, e);
    cairn_json_integer(r, "max_completion_tokens", -1, INT32_MAX, &p->answer_tokens_max, e);
    if (p->answer_tokens_max < -1)
        p->answer_tokens_max = -1;
    cairn_json_boolean(r, "cache_prompt", &cache_prompt, e);
    p->cache_off = !cache_prompt;
    cairn_json_text(r, "grammar", &p->grammar, e);
}

/* Chat: logprobs true and top_logprobs. Completions: logprobs, a number. llama.cpp: n_probs. */
static void read_logprobs(cairn_params *p, const json_t *r, cairn_api_error *e)
{
    const json_t *logprobs = json_object_get(r, "logprobs");
    int64_t count = 0, probs = 0, top = -1;
    if (json_is_integer(logprobs)) {
        cairn_json_integer(r, "logprobs", 0, CAIRN_LOGPROBS_TOP_MAX, &count, e);
        p->logprobs = true;
    } else {
        cairn_json_boolean(r, "logprobs", &p->logprobs, e);
    }
    cairn_json_integer(r, "n_probs", 0, CAIRN_LOGPROBS_TOP_MAX, &probs, e);
    cairn_json_integer(r, "top_logprobs", 0, CAIRN_LOGPROBS_TOP_MAX, &top, e);
    if (top > 0 && !p->logprobs)
        cairn_api_error_bad(e, "top_logprobs", "top_logprobs needs logprobs: true.");
    if (p->logprobs && p->echo) {
        cairn_api_error_bad(e, "logprobs",
                            "logprobs can't be had together with echo: how probable the prompt's own tokens "
                            "are is not known where they are not read again. Send one of the two.");
    }
    p->logprobs = p->logprobs || probs > 0;
    p->top_logprobs = top >= 0 ? top : count > probs ? count : probs;
}

static void read_cairn(cairn_params *p, const json_t *r, cairn_api_error *e)
{
    const json_t *own = NULL;
    const char *resume = NULL;
    cairn_json_object(r, "cairn", &own, e);
    cairn_json_text(r, "cache_salt", &p->cache_salt, e);
    if (own == NULL)
        return;
    read_inside(e, "cairn", own, "explain", &p->explain);
    read_inside(e, "cairn", own, "no_store", &p->no_store);
    read_inside(e, "cairn", own, "pin", &p->pin);
    bool before = e->http != 0;
    cairn_json_text(own, "cache_salt", &p->cache_salt, e);
    cairn_json_integer(own, "now", 0, INT64_C(253402300799), &p->now_s, e);
    cairn_json_text(own, "resume", &resume, e);
    if (!before)
        put_inside(e, "cairn");
    if (resume == NULL)
        return;
    if (strcmp(resume, "fast") == 0) {
        p->resume = CAIRN_RESUME_FAST;
    } else if (strcmp(resume, "exact") == 0) {
        p->resume = CAIRN_RESUME_EXACT;
    } else if (strcmp(resume, "off") == 0) {
        p->resume = CAIRN_RESUME_OFF;
    } else {
        cairn_api_error_bad(e, "cairn.resume", "cairn.resume must be \"fast\", \"exact\" or \"off\".");
    }
}

void cairn_params_read(cairn_params *p, const json_t *request, cairn_api_error *error)
{
    read_sampling(p, request, error);
    read_bias(p, request, error);
    read_stops(p, request, error);
    read_shape(p, request, error);
    read_logprobs(p, request, error);
    read_cairn(p, request, error);
    if (p->cache_off && p->resume < 0)
        p->resume = CAIRN_RESUME_OFF;
}

json_t *cairn_params_json(const cairn_params *p)
{
    json_t *stops = json_array();
    for (uint32_t i = 0; i < p->count_stops; i++)
        json_array_append_new(stops, json_stringn(p->stops[i].bytes, p->stops[i].len_bytes));
    json_t *value = json_pack(
        "{s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:b, s:b, s:I, s:I, s:I, s:o, s:s}", "seed",
        (json_int_t)p->seed, "temperature", p->temperature, "top_k", (json_int_t)p->top_k, "top_p", p->top_p,
        "min_p", p->min_p, "typical_p", p->typical_p, "repeat_penalty", p->repeat_penalty, "repeat_last_n",
        (json_int_t)p->repeat_last_n, "presence_penalty", p->presence_penalty, "frequency_penalty",
        p->frequency_penalty, "ignore_eos", (int)p->ignore_eos, "stream", (int)p->stream, "n_predict",
        (json_int_t)p->answer_tokens_max, "max_tokens", (json_int_t)p->answer_tokens_max, "n_probs",
        p->logprobs ? (json_int_t)p->top_logprobs : 0, "stop", stops, "grammar",
        p->grammar != NULL ? p->grammar : "");
    json_object_set_new(
        value, "samplers",
        json_pack("[s, s, s, s, s, s]", "penalties", "top_k", "typ_p", "top_p", "min_p", "temperature"));
    return value;
}
