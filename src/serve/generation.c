/*
 * generation - the routes that make the model write: a body becomes a job, and the job goes to the scheduler.
 *
 * All of this runs on the connection's thread, several at once: parsing, rendering, tokenizing. What is wrong with a
 * request is found here, before it waits in the queue.
 */
#include <string.h>

#include "base/hash.h"
#include "serve/answer_form.h"
#include "serve/choices.h"
#include "serve/json_answer.h"
#include "serve/json_fields.h"
#include "serve/marks.h"
#include "serve/normalize.h"
#include "serve/serve_inside.h"
#include "serve/text_prompt.h"
#include "serve/tokens.h"

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

/* Does each prompt fit into the context? Then the job can begin with the first. */
static void finish_prompt(cairn_serve *serve, cairn_job *job, cairn_api_error *error)
{
    uint32_t context = serve->options.engine->info.slot_tokens_max;
    bool chat = job->surface == CAIRN_SURFACE_CHAT;
    if (job->tokens.count >= context)
        cairn_api_error_context(error, chat ? "messages" : "prompt", job->tokens.count, context);
    for (uint32_t i = 0; i < job->count_texts; i++) {
        if (job->texts[i].tokens.count >= context)
            cairn_api_error_context(error, "prompt", job->texts[i].tokens.count, context);
    }
    job->context_tokens = context;
    job->answer_tokens_asked = job->params.answer_tokens_max;
    job->prompt.boundaries = job->boundaries;
    job->prompt.mode =
        job->params.resume >= 0 ? (cairn_resume_mode)job->params.resume : serve->options.resume;
    job->prompt.no_store = job->params.no_store;
    job->prompt.pin = job->params.pin;
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

/* Of completions: a schema stands for its grammar; a grammar beside it counts, as in llama-server. */
static void read_schema(cairn_job *job, cairn_api_error *error)
{
    const json_t *schema = json_object_get(job->json, "json_schema");
    bool absent = schema == NULL || json_is_null(schema);
    if (absent || (job->params.grammar != NULL && job->params.grammar[0] != '\0'))
        return;
    if (!json_is_object(schema)) {
        cairn_api_error_bad(error, "json_schema", "json_schema must be an object, not %s.",
                            cairn_json_type_name(schema));
        return;
    }
    cairn_error cause = {0};
    cairn_buf text;
    cairn_buf_init(&text, job->mem, SIZE_MAX / 4);
    cairn_status status = cairn_answer_request(schema, &text);
    if (status == CAIRN_OK) {
        status =
            cairn_chat_schema_to_grammar(cairn_buf_str(&text), text.len_bytes, &job->schema_grammar, &cause);
    } else {
        (void)cairn_error_set(&cause, status, "generation/schema", NULL);
    }
    if (status == CAIRN_OK) {
        job->params.grammar = job->schema_grammar;
    } else {
        cairn_render_error(error, &cause);
    }
    cairn_buf_release(&text);
}

/* What kind of request it is. */
typedef struct request_kind {
    cairn_surface surface;
    bool infill;
    cairn_converted *converted; /* NULL: the body is as the surface has it                             */
} request_kind;

/* --- reading without answering ----------------------------------------------------------------------------------- */

static bool has_user(const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
        if (role != NULL && strcmp(role, "user") == 0)
            return true;
    }
    return false;
}

/* Templates want a user's message. Gives true when one was put there, to be cut off again. */
static bool add_user(cairn_job *job, cairn_api_error *error)
{
    json_t *messages = json_object_get(job->json, "messages");
    if (!json_is_array(messages) || has_user(messages))
        return false;
    json_t *copy = json_copy(messages);
    if (json_array_append_new(copy, json_pack("{s:s, s:s}", "role", "user", "content", "-")) != 0 ||
        json_object_set(job->json, "messages", copy) != 0)
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    json_decref(copy);
    return true;
}

/* The prompt ends where the user's message begins. A template that doesn't tell where keeps all of it. */
static void cut_user(cairn_job *job, cairn_api_error *error)
{
    uint32_t position = 0, kept = 0;
    for (uint32_t i = 0; i < job->prompt.count_boundaries; i++) {
        if ((job->boundaries[i].kinds & CAIRN_BOUNDARY_LAST_USER) != 0)
            position = job->boundaries[i].position;
    }
    if (position == 0) {
        bool empty = json_array_size(json_object_get(job->json, "messages")) < 2;
        if (empty)
            cairn_api_error_bad(error, "messages", "There is nothing to read: no message, and no tools.");
        return;
    }
    while (kept < job->prompt.count_boundaries && job->boundaries[kept].position <= position)
        kept++;
    job->prompt.count_boundaries = kept;
    cairn_token *items = cairn_mem_array_resize(job->mem, job->tokens.items, job->tokens.count, position,
                                                sizeof *job->tokens.items);
    if (items != NULL)
        job->tokens = (cairn_tokens){.items = items, .count = position};
}

static void prepare_warm(cairn_serve *serve, cairn_job *job, const cairn_http_request *request,
                         cairn_api_error *error)
{
    job->params.answer_tokens_max = 0;
    job->params.choices = 1;
    job->params.stream = job->params.logprobs = job->params.return_tokens = job->params.echo = false;
    if (job->surface == CAIRN_SURFACE_TEXT) {
        cairn_text_prompts_read(serve->options.vocab, job, error);
        if (error->http == 0 && job->count_texts > 1)
            cairn_api_error_bad(error, "prompt", "prompt must be one prompt: they are read one a request.");
        return;
    }
    bool added = add_user(job, error);
    prepare_chat(serve, job, request, true, error);
    if (added && error->http == 0)
        cut_user(job, error);
}

/* Whom the client says it speaks for. It helps to choose a slot and is never needed: the prompt is the key. */
static uint64_t session_of(const cairn_http_request *request, const cairn_job *job)
{
    const char *text = json_string_value(json_object_get(job->json, "prompt_cache_key"));
    if (text == NULL)
        text = request->session;
    if (text == NULL)
        text = json_string_value(json_object_get(json_object_get(job->json, "metadata"), "user_id"));
    if (text == NULL)
        text = json_string_value(json_object_get(job->json, "user"));
    if (text == NULL || text[0] == '\0')
        return 0;
    uint64_t seed = cairn_hash_bytes64(&job->prompt.space, sizeof job->prompt.space, 1);
    return cairn_hash_bytes64(text, strlen(text), seed) | 1;
}

/* The job's fields, its namespace and its prompt. */
static void read_request(cairn_serve *serve, const cairn_http_request *request, cairn_job *job,
                         const request_kind *kind, cairn_api_error *error)
{
    if (job->json != NULL)
        cairn_params_read(&job->params, job->json, error);
    if (error->http == 0 &&
        (cairn_keys_namespace(serve->keys, request->authorization, job->params.cache_salt,
                              &job->prompt.space) != CAIRN_OK ||
         cairn_keys_namespace(serve->keys, request->authorization, NULL, &job->owner) != CAIRN_OK))
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    if (error->http != 0)
        return;
    job->session = session_of(request, job);
    if (kind->converted != NULL && kind->converted->warm) {
        prepare_warm(serve, job, request, error);
    } else if (kind->surface == CAIRN_SURFACE_CHAT) {
        prepare_chat(serve, job, request, kind->converted != NULL, error);
    } else if (kind->infill) {
        cairn_infill_read(serve->options.vocab, job, error);
    } else {
        cairn_text_prompts_read(serve->options.vocab, job, error);
    }
    if (error->http == 0 && job->surface != CAIRN_SURFACE_CHAT &&
        !(kind->converted != NULL && kind->converted->warm))
        read_schema(job, error);
}

/* A job with its prompt. NULL with an error. */
static cairn_job *prepare(cairn_serve *serve, const cairn_http_request *request, const request_kind *kind,
                          cairn_api_error *error)
{
    cairn_converted *converted = kind->converted;
    cairn_job *job =
        cairn_job_new(serve->options.mem, atomic_fetch_add(&serve->next_id, 1) + 1, CAIRN_OUTBOX_BYTES_MAX);
    if (job == NULL) {
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
        if (converted != NULL) {
            if (converted->shape.free != NULL)
                converted->shape.free(converted->shape.ctx);
            json_decref(converted->body);
        }
        return NULL;
    }
    job->surface = kind->surface;
    if (converted != NULL) {
        job->json = converted->body;
        job->shape = converted->shape;
    } else {
        job->json = cairn_json_parse(request->body, request->body_bytes, error);
    }
    read_request(serve, request, job, kind, error);
    if (error->http == 0)
        return job;
    cairn_job_unref(job);
    return NULL;
}

static void generate(cairn_serve *serve, const cairn_http_request *request, const request_kind *kind,
                     cairn_http_reply *reply)
{
    cairn_api_error *error = &reply->error;
    cairn_job *job = prepare(serve, request, kind, error);
    if (job == NULL)
        return;
    finish_prompt(serve, job, error);
    if (error->http == 0)
        find_scripted(serve, job, error);
    if (error->http == 0)
        cairn_choices_make(serve, job, error);
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
    const request_kind kind = {.surface = converted->text ? CAIRN_SURFACE_TEXT : CAIRN_SURFACE_CHAT,
                               .converted = converted};
    generate(serve, request, &kind, reply);
}

void cairn_count_converted(cairn_serve *serve, const cairn_http_request *request, cairn_converted *converted,
                           uint32_t *ret_tokens, cairn_api_error *error)
{
    const request_kind kind = {.surface = CAIRN_SURFACE_CHAT, .converted = converted};
    cairn_job *job = prepare(serve, request, &kind, error);
    if (job == NULL)
        return;
    *ret_tokens = job->tokens.count;
    cairn_job_unref(job);
}

void cairn_route_chat(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    generate(serve, request, &(request_kind){.surface = CAIRN_SURFACE_CHAT}, reply);
}

void cairn_route_completions(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    generate(serve, request, &(request_kind){.surface = CAIRN_SURFACE_TEXT}, reply);
}

void cairn_route_completion(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    generate(serve, request, &(request_kind){.surface = CAIRN_SURFACE_LLAMA}, reply);
}

void cairn_route_infill(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    generate(serve, request, &(request_kind){.surface = CAIRN_SURFACE_LLAMA, .infill = true}, reply);
}
