/*
 * generation - the routes that make the model write: a body becomes a job, and the job goes to the scheduler.
 *
 * All of this runs on the connection's thread, several at once: parsing, rendering, tokenizing. What is wrong with a
 * request is found here, before it waits in the queue.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "engine/llama_load.h"
#include "serve/json_answer.h"
#include "serve/json_fields.h"
#include "serve/marks.h"
#include "serve/normalize.h"
#include "serve/serve_inside.h"
#include "serve/tokens.h"

enum { PENALTY_TOKENS_MAX = 4096, AS_PROMPT = CAIRN_TOKENS_ADD_SPECIAL | CAIRN_TOKENS_PARSE_SPECIAL };

/* --- the prompt -------------------------------------------------------------------------------------------------- */

/* What the conversation begins with: its messages up to the first one of the user. */
static int64_t template_time(cairn_serve *serve, const cairn_job *job)
{
    int64_t now_s = cairn_clock_wall_seconds(serve->options.clock);
    if (job->params.now_s >= 0)
        return job->params.now_s;
    if (!cairn_chat_get_caps(serve->options.chat)->uses_clock)
        return now_s;
    cairn_buf head;
    cairn_buf_init(&head, job->mem, SIZE_MAX / 4);
    const json_t *messages = json_object_get(job->json, "messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i);
        if (cairn_json_write(&head, json_incref(message)) != CAIRN_OK)
            break;
        const char *role = json_string_value(json_object_get(message, "role"));
        if (role != NULL && strcmp(role, "user") == 0)
            break;
    }
    now_s =
        cairn_clock_table_get(serve->clocks, &job->prompt.space, cairn_buf_str(&head), head.len_bytes, now_s);
    cairn_buf_release(&head);
    return now_s;
}

/* The bridge's complaint names the field first: "messages[3].role: unknown role". */
void cairn_render_error(cairn_api_error *error, const cairn_error *cause)
{
    if (cause->status != CAIRN_INVALID && cause->status != CAIRN_LIMIT) {
        cairn_api_error_from(error, cause);
        return;
    }
    char param[sizeof error->param] = "";
    size_t n = strcspn(cause->detail, ": ");
    if (cause->detail[n] == ':' && n > 0 && n < sizeof param)
        memcpy(param, cause->detail, n);
    cairn_api_error_bad(error, param, "%s",
                        cause->detail[0] != '\0' ? cause->detail : "The request can't be rendered.");
}

/* Special tokens whose text the parser needs. */
static cairn_status find_visible(cairn_serve *serve, cairn_job *job)
{
    const cairn_chat_texts *preserved = &job->chat_prompt->preserved;
    if (preserved->count == 0)
        return CAIRN_OK;
    job->visible = cairn_mem_array(job->mem, preserved->count, sizeof *job->visible);
    if (job->visible == NULL)
        return CAIRN_NOMEM;
    job->count_visible = (uint32_t)preserved->count;
    for (uint32_t i = 0; i < job->count_visible; i++) {
        cairn_token token;
        uint32_t count = 0;
        cairn_status status =
            cairn_llama_tokenize(serve->options.vocab, preserved->items[i], strlen(preserved->items[i]),
                                 false, true, &token, 1, &count);
        job->visible[i] = status == CAIRN_OK && count == 1 ? token : CAIRN_TOKEN_NONE;
    }
    return CAIRN_OK;
}

/* The boundaries of the prompt, and those of the client's marks inside messages, as positions. */
static cairn_status find_boundaries(cairn_serve *serve, cairn_job *job)
{
    cairn_chat_prompt view = *job->chat_prompt;
    cairn_chat_boundary *list = NULL;
    size_t count = 0, room = 0;
    cairn_status status = cairn_marks_add(job->mem, json_object_get(job->json, "messages"), job->chat_prompt,
                                          &list, &count, &room);
    if (status == CAIRN_OK && job->recall.text != NULL) {
        cairn_recall_boundaries(&job->recall, list, count);
        view.text = job->recall.text;
        view.text_bytes = job->recall.text_bytes;
    }
    if (status == CAIRN_OK && count > 0) {
        view.boundaries = list;
        view.count_boundaries = count;
        job->boundaries = cairn_mem_array(job->mem, count, sizeof *job->boundaries);
        status = job->boundaries == NULL ? CAIRN_NOMEM : CAIRN_OK;
        if (status == CAIRN_OK) {
            job->room_boundaries = (uint32_t)count;
            status = cairn_tokens_boundaries(job->mem, serve->options.vocab, &view, &job->tokens,
                                             job->boundaries, &job->prompt.count_boundaries);
        }
    }
    cairn_mem_array_release(job->mem, list, room, sizeof *list);
    return status;
}

static void check_messages(const cairn_job *job, cairn_api_error *error)
{
    const json_t *messages = NULL;
    cairn_json_array(job->json, "messages", &messages, error);
    if (messages == NULL) {
        cairn_api_error_bad(error, "messages", "messages is missing.");
    } else if (json_array_size(messages) == 0) {
        cairn_api_error_bad(error, "messages", "messages is empty; at least one message is needed.");
    }
}

static bool may_recall(const cairn_serve *serve, const cairn_job *job)
{
    int resume = job->params.resume >= 0 ? job->params.resume : (int)serve->options.resume;
    return resume == CAIRN_RESUME_FAST && serve->options.answers_bytes_max > 0;
}

/* Prompt text and tokens of a chat request, whose body is char[text_bytes]. */
static void render_chat(cairn_serve *serve, cairn_job *job, const char *text, size_t text_bytes,
                        cairn_api_error *error)
{
    cairn_chat_options options = {.now_s = template_time(serve, job),
                                  .thinking_off = serve->options.thinking_off,
                                  .kwargs_json = serve->options.template_kwargs_json,
                                  .request_bytes_max = SIZE_MAX / 2}; /* the body was limited when it came */
    cairn_error cause = {0};
    cairn_recall_init(&job->recall, job->mem, may_recall(serve, job) ? serve->answers : NULL);
    cairn_status status =
        cairn_recall_find(&job->recall, &job->prompt.space, json_object_get(job->json, "messages"));
    if (status != CAIRN_OK)
        job->recall.answers = NULL;
    const cairn_recall_source source = {.vocab = serve->options.vocab,
                                        .chat = serve->options.chat,
                                        .options = &options,
                                        .request = job->json,
                                        .body = text,
                                        .body_bytes = text_bytes};
    if (cairn_recall_render(&job->recall, &source, &job->chat_prompt, &job->tokens, &cause) != CAIRN_OK) {
        cairn_render_error(error, &cause);
        return;
    }
    cairn_recall_notes(&job->recall, &job->notes);
    const cairn_chat_prompt *p = job->chat_prompt;
    status = find_boundaries(serve, job);
    if (status == CAIRN_OK)
        status = find_visible(serve, job);
    job->count_client_stops = job->params.count_stops;
    for (size_t i = 0; i < p->stops.count && job->params.count_stops < CAIRN_STOPS_MAX; i++) {
        size_t len = strlen(p->stops.items[i]);
        if (len > 0)
            job->params.stops[job->params.count_stops++] = (cairn_stop_text){p->stops.items[i], len};
    }
    if (status != CAIRN_OK) {
        (void)cairn_error_set(&cause, status, "generation/render", "the prompt could not be tokenized");
        cairn_api_error_from(error, &cause);
    }
}

/* Volatile text at the head: said in the log, and with --normalize not in the prompt. */
static void look_at_head(cairn_serve *serve, cairn_job *job, bool *ret_changed)
{
    job->notes = cairn_normalize(job->json, serve->options.normalize, ret_changed);
    for (size_t i = 0; i < json_array_size(job->notes); i++) {
        const json_t *note = json_array_get(job->notes, i);
        CAIRN_LOG(serve->options.log, INFO, "volatile", CAIRN_FIELD_UINT("id", job->id),
                  CAIRN_FIELD_STR("rule", json_string_value(json_object_get(note, "rule"))),
                  CAIRN_FIELD_INT("message", json_integer_value(json_object_get(note, "message"))),
                  CAIRN_FIELD_INT("part", json_integer_value(json_object_get(note, "part"))),
                  CAIRN_FIELD_INT("byte", json_integer_value(json_object_get(note, "byte"))),
                  CAIRN_FIELD_STR("done", json_string_value(json_object_get(note, "done"))));
    }
}

/* A chat request's prompt. The body is the client's own bytes, unless it was changed on the way. */
static void prepare_chat(cairn_serve *serve, cairn_job *job, const cairn_http_request *request,
                         bool converted, cairn_api_error *error)
{
    bool changed = false;
    check_messages(job, error);
    if (error->http != 0)
        return;
    look_at_head(serve, job, &changed);
    if (!converted && !changed) {
        render_chat(serve, job, request->body, request->body_bytes, error);
        return;
    }
    cairn_buf text;
    cairn_buf_init(&text, job->mem, SIZE_MAX / 4);
    if (cairn_json_write(&text, json_incref(job->json)) == CAIRN_OK) {
        render_chat(serve, job, cairn_buf_str(&text), text.len_bytes, error);
    } else {
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    }
    cairn_buf_release(&text);
}

static void take_token_ids(cairn_serve *serve, cairn_job *job, const json_t *list, cairn_api_error *error)
{
    uint32_t vocab_size = cairn_llama_vocab_size(serve->options.vocab),
             count = (uint32_t)json_array_size(list);
    job->tokens.items = cairn_mem_array(job->mem, count, sizeof *job->tokens.items);
    if (job->tokens.items == NULL) {
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
        return;
    }
    job->tokens.count = count;
    for (uint32_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= (json_int_t)vocab_size) {
            cairn_api_error_bad(error, "prompt", "prompt[%u] must be a token id between 0 and %u.", i,
                                vocab_size - 1);
            return;
        }
        job->tokens.items[i] = (cairn_token)id;
    }
}

/* prompt: a text, a list of token ids, or a list with one text. */
static void read_prompt(cairn_serve *serve, cairn_job *job, cairn_api_error *error)
{
    const json_t *prompt = json_object_get(job->json, "prompt");
    if (json_is_array(prompt) && json_array_size(prompt) == 1 &&
        (json_is_string(json_array_get(prompt, 0)) || json_is_array(json_array_get(prompt, 0))))
        prompt = json_array_get(prompt, 0);
    if (prompt == NULL || json_is_null(prompt)) {
        cairn_api_error_bad(error, "prompt", "prompt is missing.");
    } else if (json_is_string(prompt)) {
        const char *text = json_string_value(prompt);
        size_t len = json_string_length(prompt);
        if (cairn_tokens_of(job->mem, serve->options.vocab, text, len, AS_PROMPT, &job->tokens) != CAIRN_OK) {
            cairn_api_error_set(error, 503, "unavailable_error", NULL, "The prompt could not be tokenized.");
        } else if (job->tokens.count == 0) {
            cairn_api_error_bad(error, "prompt", "prompt is empty.");
        }
        job->echo_bytes = job->params.echo ? len : 0;
        job->echo = job->params.echo ? cairn_mem_dup(job->mem, text, len) : NULL;
    } else if (json_is_array(prompt) && json_array_size(prompt) > 0 &&
               json_is_integer(json_array_get(prompt, 0))) {
        take_token_ids(serve, job, prompt, error);
    } else if (json_is_array(prompt) && json_array_size(prompt) > 1) {
        cairn_api_error_bad(error, "prompt",
                            "prompt must be one text or one list of token ids: this server answers one "
                            "prompt a request.");
    } else {
        cairn_api_error_bad(error, "prompt",
                            "prompt must be a string or a list of token ids, and not empty.");
    }
}

static void finish_prompt(cairn_serve *serve, cairn_job *job, cairn_api_error *error)
{
    uint32_t context = serve->options.engine->info.slot_tokens_max;
    if (error->http == 0 && job->tokens.count >= context) {
        cairn_api_error_context(error, job->surface == CAIRN_SURFACE_CHAT ? "messages" : "prompt",
                                job->tokens.count, context);
    }
    if (error->http != 0)
        return;
    int64_t room = (int64_t)context - job->tokens.count;
    if (job->params.answer_tokens_max < 0 || job->params.answer_tokens_max > room)
        job->params.answer_tokens_max = room;
    job->prompt.tokens = job->tokens.items;
    job->prompt.count = job->tokens.count;
    job->prompt.boundaries = job->boundaries;
    job->prompt.mode =
        job->params.resume >= 0 ? (cairn_resume_mode)job->params.resume : serve->options.resume;
    job->prompt.no_store = job->params.no_store;
    job->prompt.pin = job->params.pin;
    job->prompt.answer_tokens_max = (uint32_t)job->params.answer_tokens_max;
}

/* --- sampler and answer ------------------------------------------------------------------------------------------ */

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

static uint32_t seed_of(cairn_serve *serve, const cairn_job *job)
{
    if (job->params.seed != CAIRN_PARAMS_SEED_RANDOM)
        return (uint32_t)cairn_hash_mix((uint64_t)job->params.seed);
    return (uint32_t)cairn_hash_mix(serve->id_salt ^ job->id);
}

static void make_sampler(cairn_serve *serve, cairn_job *job, cairn_api_error *error)
{
    enum { BIAS_ROOM = 2 * CAIRN_PARAMS_BIAS_MAX };
    const cairn_params *p = &job->params;
    cairn_sampler_bias *bias = cairn_mem_array(job->mem, BIAS_ROOM, sizeof *bias);
    if (bias == NULL) {
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
        return;
    }
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
    settings.seed = seed_of(serve, job);
    settings.ignore_eos = p->ignore_eos;
    settings.bias = bias;
    settings.count_bias = resolve_bias(serve, p, bias, BIAS_ROOM, error);
    settings.prompt = job->chat_prompt;
    settings.grammar = job->chat_prompt == NULL ? p->grammar : NULL;
    cairn_error cause = {0};
    cairn_status status = CAIRN_OK;
    if (error->http == 0)
        status = cairn_sampler_new(serve->options.vocab->model, &settings, &job->sampler, &cause);
    cairn_mem_array_release(job->mem, bias, BIAS_ROOM, sizeof *bias);
    bool penalties = p->repeat_penalty != 1.0 || p->presence_penalty != 0 || p->frequency_penalty != 0;
    uint32_t from = job->tokens.count > PENALTY_TOKENS_MAX ? job->tokens.count - PENALTY_TOKENS_MAX : 0;
    for (uint32_t i = from; penalties && job->sampler != NULL && i < job->tokens.count && status == CAIRN_OK;
         i++)
        status = cairn_sampler_accept(job->sampler, job->tokens.items[i], false, &cause);
    if (status != CAIRN_OK)
        cairn_render_error(error, &cause);
}

/* With --script: what will be answered. */
static void find_scripted(cairn_serve *serve, cairn_job *job, cairn_api_error *error)
{
    if (serve->options.script == NULL)
        return;
    const cairn_chat_options options = {.thinking_off = serve->options.thinking_off,
                                        .kwargs_json = serve->options.template_kwargs_json};
    const cairn_script_source source = {.vocab = serve->options.vocab,
                                        .chat = serve->options.chat,
                                        .options = &options,
                                        .request = job->json,
                                        .is_chat = job->chat_prompt != NULL};
    cairn_script_answer(serve->options.script, job->mem, &source, &job->script, error);
    job->scripted = true;
}

static void make_answer(cairn_serve *serve, cairn_job *job, cairn_api_error *error)
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
                                    .echo = job->echo,
                                    .echo_bytes = job->echo_bytes,
                                    .shape = job->shape.end != NULL ? &job->shape : NULL,
                                    .count_client_stops = job->count_client_stops,
                                    .notes = job->notes,
                                    .excerpt = &job->excerpt,
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
    cairn_error cause = {0};
    if (cairn_answer_new(job->mem, &options, &job->answer, &cause) != CAIRN_OK)
        cairn_api_error_from(error, &cause);
}

/* --- routes ------------------------------------------------------------------------------------------------------ */

static void release_job(void *job)
{
    cairn_job_unref(job);
}

static void job_gone(void *job)
{
    cairn_job *j = job;
    if (j->outbox.writer != NULL)
        cairn_scheduler_nudge(j->outbox.writer);
}

/* A job with its prompt; `converted` NULL: the body is as the surface has it. NULL with an error. */
static cairn_job *prepare(cairn_serve *serve, const cairn_http_request *request, cairn_surface surface,
                          cairn_converted *converted, cairn_api_error *error)
{
    cairn_job *job =
        cairn_job_new(serve->options.mem, atomic_fetch_add(&serve->next_id, 1) + 1, CAIRN_OUTBOX_BYTES_MAX);
    if (job == NULL) {
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
        if (converted != NULL) {
            converted->shape.free(converted->shape.ctx);
            json_decref(converted->body);
        }
        return NULL;
    }
    job->surface = surface;
    if (converted != NULL) {
        job->json = converted->body;
        job->shape = converted->shape;
    } else {
        job->json = cairn_json_parse(request->body, request->body_bytes, error);
    }
    if (job->json != NULL)
        cairn_params_read(&job->params, job->json, error);
    if (error->http == 0 &&
        (cairn_keys_namespace(serve->keys, request->authorization, job->params.cache_salt,
                              &job->prompt.space) != CAIRN_OK ||
         cairn_keys_namespace(serve->keys, request->authorization, NULL, &job->owner) != CAIRN_OK))
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    if (error->http == 0) {
        if (surface == CAIRN_SURFACE_CHAT) {
            prepare_chat(serve, job, request, converted != NULL, error);
        } else {
            read_prompt(serve, job, error);
        }
    }
    if (error->http == 0)
        return job;
    cairn_job_unref(job);
    return NULL;
}

static void generate(cairn_serve *serve, const cairn_http_request *request, cairn_surface surface,
                     cairn_converted *converted, cairn_http_reply *reply)
{
    cairn_api_error *error = &reply->error;
    cairn_job *job = prepare(serve, request, surface, converted, error);
    if (job == NULL)
        return;
    finish_prompt(serve, job, error);
    if (error->http == 0)
        make_sampler(serve, job, error);
    if (error->http == 0)
        find_scripted(serve, job, error);
    if (error->http == 0)
        make_answer(serve, job, error);
    if (error->http == 0)
        cairn_scheduler_submit(serve->scheduler, job, error);
    if (error->http != 0) {
        cairn_job_unref(job);
        return;
    }
    reply->outbox = &job->outbox;
    reply->stream = job->params.stream;
    reply->job = job;
    reply->release = release_job;
    reply->gone = job_gone;
}

void cairn_generate_converted(cairn_serve *serve, const cairn_http_request *request,
                              cairn_converted *converted, cairn_http_reply *reply)
{
    generate(serve, request, CAIRN_SURFACE_CHAT, converted, reply);
}

void cairn_count_converted(cairn_serve *serve, const cairn_http_request *request, cairn_converted *converted,
                           uint32_t *ret_tokens, cairn_api_error *error)
{
    cairn_job *job = prepare(serve, request, CAIRN_SURFACE_CHAT, converted, error);
    if (job == NULL)
        return;
    *ret_tokens = job->tokens.count;
    cairn_job_unref(job);
}

void cairn_route_chat(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    generate(serve, request, CAIRN_SURFACE_CHAT, NULL, reply);
}

void cairn_route_completions(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    generate(serve, request, CAIRN_SURFACE_TEXT, NULL, reply);
}

void cairn_route_completion(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    generate(serve, request, CAIRN_SURFACE_LLAMA, NULL, reply);
}
