/*
 * choices - see the header.
 */
#include "serve/choices.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "engine/llama_load.h"
#include "serve/json_answer.h"

enum { PENALTY_TOKENS_MAX = 4096, BIAS_ROOM = 2 * CAIRN_PARAMS_BIAS_MAX };

static const uint64_t NEXT_CHOICE = UINT64_C(0x9e3779b97f4a7c15);

/* logit_bias by text stands for each token of the text. */
static size_t resolve_bias(cairn_serve *serve, const cairn_params *p, cairn_sampler_bias *out, size_t room,
                           cairn_api_error *error)
{
    uint32_t vocab_size = cairn_llama_vocab_size(serve->options.vocab);
    size_t n = 0;
    for (uint32_t i = 0; i < p->count_bias && n < room; i++) {
        if (p->bias[i].text == NULL) {
            if ((uint32_t)p->bias[i].token >= vocab_size) {
                cairn_api_error_bad(error, "logit_bias",
                                    "logit_bias names token %d; the vocabulary ends at %u.", p->bias[i].token,
                                    vocab_size - 1);
            }
            out[n++] = (cairn_sampler_bias){p->bias[i].token, p->bias[i].bias};
            continue;
        }
        cairn_token tokens[64];
        uint32_t count = 0;
        if (cairn_llama_tokenize(serve->options.vocab, p->bias[i].text, strlen(p->bias[i].text), false, false,
                                 tokens, 64, &count) != CAIRN_OK) {
            cairn_api_error_bad(error, "logit_bias", "A text in logit_bias is too long.");
        } else {
            for (uint32_t k = 0; k < count && n < room; k++)
                out[n++] = (cairn_sampler_bias){tokens[k], p->bias[i].bias};
        }
    }
    return n;
}

/* Choices of one request differ, and the same request gives the same choices. */
static uint32_t seed_of(cairn_serve *serve, const cairn_job *job, uint32_t index)
{
    uint64_t seed =
        job->params.seed != CAIRN_PARAMS_SEED_RANDOM ? (uint64_t)job->params.seed : serve->id_salt ^ job->id;
    return (uint32_t)cairn_hash_mix(seed + index * NEXT_CHOICE);
}

static void make_sampler(cairn_serve *serve, cairn_job *job, const cairn_sampler_settings *settings,
                         const cairn_tokens *prompt, cairn_sampler **ret_sampler, cairn_api_error *error)
{
    const cairn_params *p = &job->params;
    cairn_error cause = {0};
    cairn_status status = cairn_sampler_new(serve->options.vocab->model, settings, ret_sampler, &cause);
    bool penalties = p->repeat_penalty != 1.0 || p->presence_penalty != 0 || p->frequency_penalty != 0;
    uint32_t from = prompt->count > PENALTY_TOKENS_MAX ? prompt->count - PENALTY_TOKENS_MAX : 0;
    for (uint32_t i = from; penalties && i < prompt->count && status == CAIRN_OK; i++)
        status = cairn_sampler_accept(*ret_sampler, prompt->items[i], false, &cause);
    if (status != CAIRN_OK)
        cairn_render_error(error, &cause);
}

static cairn_sampler_settings settings_of(const cairn_job *job)
{
    const cairn_params *p = &job->params;
    cairn_sampler_settings settings = cairn_sampler_settings_default();
    settings.temperature = (float)p->temperature;
    settings.top_k = (int32_t)p->top_k;
    settings.top_p = (float)p->top_p;
    settings.min_p = (float)p->min_p;
    settings.typical_p = (float)p->typical_p;
    settings.repeat_penalty = (float)p->repeat_penalty;
    settings.repeat_last_n = (int32_t)p->repeat_last_n;
    settings.presence_penalty = (float)p->presence_penalty;
    settings.frequency_penalty = (float)p->frequency_penalty;
    settings.ignore_eos = p->ignore_eos;
    settings.prompt = job->chat_prompt;
    settings.grammar = job->chat_prompt == NULL ? p->grammar : NULL;
    return settings;
}

/* What llama.cpp's own completion says of the request. */
static void describe_request(cairn_job *job)
{
    const json_t *prompt = json_object_get(job->json, "prompt");
    if (job->surface != CAIRN_SURFACE_LLAMA || job->extras != NULL)
        return;
    job->extras = json_pack("{s:o}", "generation_settings", cairn_params_json(&job->params));
    if (json_is_string(prompt))
        json_object_set(job->extras, "prompt", (json_t *)(uintptr_t)prompt);
}

/* What all answers of the request have in common. */
static cairn_answer_options options_of(cairn_serve *serve, cairn_job *job)
{
    static const char *const prefixes[] = {"chatcmpl-", "cmpl-", "cmpl-"};
    cairn_answer_options options = {.surface = job->surface,
                                    .stream = job->params.stream,
                                    .include_usage = job->params.include_usage,
                                    .explain = job->params.explain,
                                    .model = serve->options.model_name,
                                    .fingerprint = cairn_llama_build(),
                                    .created_s = cairn_clock_wall_seconds(serve->options.clock),
                                    .stops = job->params.stops,
                                    .count_stops = job->params.count_stops,
                                    .shape = job->shape.end != NULL ? &job->shape : NULL,
                                    .count_client_stops = job->count_client_stops,
                                    .notes = job->notes,
                                    .excerpt = &job->excerpt,
                                    .logprobs = job->params.logprobs,
                                    .return_tokens = job->params.return_tokens,
                                    .extras = job->extras,
                                    .sum = job->count_choices > 1 ? &job->sum : NULL,
                                    .text_bytes_max = CAIRN_ANSWER_TEXT_BYTES_MAX};
    for (uint32_t i = 0; i < job->prompt.count_boundaries; i++) {
        if ((job->boundaries[i].kinds & CAIRN_BOUNDARY_MARK) != 0)
            options.mark_position = job->boundaries[i].position;
    }
    (void)snprintf(options.id, sizeof options.id, "%s%016llx",
                   options.shape != NULL ? job->shape.id_prefix : prefixes[job->surface],
                   (unsigned long long)cairn_hash_mix(serve->id_salt + job->id));
    if (job->chat_prompt != NULL) {
        options.format = job->chat_prompt->format;
        options.format_bytes = job->chat_prompt->format_bytes;
    }
    return options;
}

static void make_choice(cairn_serve *serve, cairn_job *job, uint32_t index, cairn_sampler_settings *settings,
                        cairn_answer_options *options, cairn_api_error *error)
{
    cairn_job_choice *choice = &job->choices[index];
    uint32_t each = (uint32_t)job->params.choices;
    choice->text = index / each;
    const cairn_job_text *text = job->count_texts > 0 ? &job->texts[choice->text] : NULL;
    settings->seed = seed_of(serve, job, index);
    make_sampler(serve, job, settings, text != NULL ? &text->tokens : &job->tokens, &choice->sampler, error);
    options->index = index;
    options->same_prompt = index % each != 0;
    options->echo = text != NULL ? text->echo : NULL;
    options->echo_bytes = text != NULL ? text->echo_bytes : 0;
    cairn_error cause = {0};
    if (error->http == 0 && cairn_answer_new(job->mem, options, &choice->answer, &cause) != CAIRN_OK)
        cairn_api_error_from(error, &cause);
}

/*
 * Equal greedy requests at the same time are to give one answer. Exact ones do by themselves; one without memory for it,
 * or with several prompts, goes alone.
 */
static void join_equal(cairn_serve *serve, cairn_job *job, const cairn_sampler_settings *settings)
{
    cairn_digest key;
    bool equal = settings->temperature <= 0 && job->prompt.mode != CAIRN_RESUME_EXACT && !job->scripted &&
                 job->count_texts <= 1;
    if (equal && cairn_unison_key(job->mem, &job->prompt, settings, &key) == CAIRN_OK)
        job->unison = cairn_unison_join(&serve->unisons, &key);
}

/* The list of answers is there: fill it, and go on to the first. */
static void make_choices(cairn_serve *serve, cairn_job *job, cairn_sampler_bias *bias, cairn_api_error *error)
{
    describe_request(job);
    cairn_sampler_settings settings = settings_of(job);
    cairn_answer_options options = options_of(serve, job);
    settings.bias = bias;
    settings.count_bias = resolve_bias(serve, &job->params, bias, BIAS_ROOM, error);
    for (uint32_t i = 0; i < job->count_choices && error->http == 0; i++)
        make_choice(serve, job, i, &settings, &options, error);
    if (error->http == 0 && cairn_job_next(job))
        join_equal(serve, job, &settings);
}

void cairn_choices_make(cairn_serve *serve, cairn_job *job, cairn_api_error *error)
{
    uint32_t count = (job->count_texts > 0 ? job->count_texts : 1) * (uint32_t)job->params.choices;
    if (count > CAIRN_PARAMS_CHOICES_MAX) {
        cairn_api_error_bad(error, "n", "%u prompts with n = %d are more than %d answers.", job->count_texts,
                            (int)job->params.choices, (int)CAIRN_PARAMS_CHOICES_MAX);
        return;
    }
    job->choices = cairn_mem_array(job->mem, count, sizeof *job->choices);
    cairn_sampler_bias *bias = cairn_mem_array(job->mem, BIAS_ROOM, sizeof *bias);
    if (job->choices == NULL || bias == NULL) {
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    } else {
        job->count_choices = job->sum.count = count;
        make_choices(serve, job, bias, error);
    }
    if (job->choices != NULL && job->count_choices == 0) {
        cairn_mem_array_release(job->mem, job->choices, count, sizeof *job->choices);
        job->choices = NULL;
    }
    cairn_mem_array_release(job->mem, bias, BIAS_ROOM, sizeof *bias);
}
