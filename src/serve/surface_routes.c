/*
 * surface_routes - the routes of Anthropic's Messages API and OpenAI's Responses API.
 *
 * A body is parsed, brought into chat completions' form, and goes the way of those. See anthropic.h and responses.h.
 */
#include <string.h>

#include "serve/anthropic.h"
#include "serve/json_answer.h"
#include "serve/json_fields.h"
#include "serve/responses.h"
#include "serve/serve_inside.h"

static void no_memory(cairn_api_error *error)
{
    cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
}

/* --- Messages ---------------------------------------------------------------------------------------------------- */

/* The body in chat completions' form, and how its answer looks. */
static bool read_messages(const cairn_http_request *request, cairn_anthropic_use use,
                          cairn_converted *ret_converted, cairn_api_error *error)
{
    json_t *body = cairn_json_parse(request->body, request->body_bytes, error);
    if (body == NULL)
        return false;
    ret_converted->body = cairn_anthropic_to_chat(body, use, error);
    bool omit = cairn_anthropic_omits_thinking(body);
    json_decref(body);
    if (ret_converted->body == NULL)
        return false;
    if (cairn_anthropic_shape(omit, &ret_converted->shape) == CAIRN_OK)
        return true;
    json_decref(ret_converted->body);
    no_memory(error);
    return false;
}

void cairn_route_messages(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_converted converted = {0};
    if (read_messages(request, CAIRN_ANTHROPIC_ANSWER, &converted, &reply->error))
        cairn_generate_converted(serve, request, &converted, reply);
}

void cairn_route_count_tokens(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_converted converted = {0};
    uint32_t tokens = 0;
    if (!read_messages(request, CAIRN_ANTHROPIC_COUNT, &converted, &reply->error))
        return;
    cairn_count_converted(serve, request, &converted, &tokens, &reply->error);
    if (reply->error.http == 0)
        cairn_reply_json(reply, json_pack("{s:I}", "input_tokens", (json_int_t)tokens));
}

/* --- Responses --------------------------------------------------------------------------------------------------- */

/* The messages of the response that is continued: a new array; NULL: none is named, or an error. */
static json_t *find_previous(cairn_serve *serve, const json_t *body, const cairn_namespace *space,
                             cairn_api_error *error)
{
    const char *id = NULL;
    cairn_json_text(body, "previous_response_id", &id, error);
    if (id == NULL)
        return NULL;
    cairn_buf text;
    cairn_buf_init(&text, serve->options.mem, SIZE_MAX / 4);
    cairn_status status = cairn_replies_get(serve->replies, space, id, CAIRN_REPLY_CONVERSATION, &text);
    json_t *list = status == CAIRN_OK ? json_loadb(cairn_buf_str(&text), text.len_bytes, 0, NULL) : NULL;
    if (status == CAIRN_NOTFOUND) {
        cairn_api_error_bad(
            error, "previous_response_id",
            "Previous response with id '%.64s' not found. This server keeps the newest ones only, "
            "in memory; send the whole conversation instead.",
            id);
        error->code = "previous_response_not_found";
    } else if (list == NULL) {
        no_memory(error);
    }
    cairn_buf_release(&text);
    return list;
}

bool cairn_read_response(cairn_serve *serve, const json_t *body, const cairn_namespace *space,
                         cairn_responses_request *ret_request, cairn_api_error *error)
{
    json_t *previous = find_previous(serve, body, space, error);
    bool good = error->http == 0 && cairn_responses_to_chat(body, previous, ret_request, error);
    json_decref(previous);
    return good;
}

bool cairn_read_namespace(cairn_serve *serve, const cairn_http_request *request, const json_t *body,
                          cairn_namespace *ret_space, cairn_api_error *error)
{
    const char *salt = NULL;
    cairn_json_text(body, "cache_salt", &salt, error);
    cairn_json_text(json_object_get(body, "cairn"), "cache_salt", &salt, error);
    if (error->http == 0 &&
        cairn_keys_namespace(serve->keys, request->authorization, salt, ret_space) != CAIRN_OK)
        no_memory(error);
    return error->http == 0;
}

/* The field of a mistake, as this API calls it. */
static void name_input(cairn_api_error *error)
{
    if (strcmp(error->param, "messages") == 0)
        memcpy(error->param, "input", sizeof "input");
}

static void answer_response(cairn_serve *serve, const cairn_http_request *request, const json_t *body,
                            const cairn_namespace *space, cairn_http_reply *reply)
{
    cairn_responses_request made;
    cairn_responses_keep keep = {.space = *space};
    bool store = true;
    cairn_json_boolean(body, "store", &store, &reply->error);
    if (cairn_read_response(serve, body, space, &made, &reply->error)) {
        cairn_converted converted = {.body = json_incref(made.chat)};
        keep.replies = store ? serve->replies : NULL;
        if (cairn_responses_shape(&made, &keep, &converted.shape) == CAIRN_OK) {
            cairn_generate_converted(serve, request, &converted, reply);
        } else {
            json_decref(converted.body);
            no_memory(&reply->error);
        }
        cairn_responses_release(&made);
    }
    name_input(&reply->error);
}

void cairn_route_responses(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    json_t *body = cairn_json_parse(request->body, request->body_bytes, &reply->error);
    cairn_namespace space;
    if (body != NULL && cairn_read_namespace(serve, request, body, &space, &reply->error))
        answer_response(serve, request, body, &space, reply);
    json_decref(body);
}

void cairn_route_response_tokens(cairn_serve *serve, const cairn_http_request *request,
                                 cairn_http_reply *reply)
{
    cairn_api_error *error = &reply->error;
    json_t *body = cairn_json_parse(request->body, request->body_bytes, error);
    cairn_namespace space;
    cairn_responses_request made;
    uint32_t tokens = 0;
    if (body != NULL && cairn_read_namespace(serve, request, body, &space, error) &&
        cairn_read_response(serve, body, &space, &made, error)) {
        cairn_converted converted = {.body = json_incref(made.chat)};
        cairn_responses_release(&made);
        cairn_count_converted(serve, request, &converted, &tokens, error);
        if (error->http == 0) {
            cairn_reply_json(reply, json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens",
                                              (json_int_t)tokens));
        }
    }
    name_input(error);
    json_decref(body);
}

/* --- Embeddings -------------------------------------------------------------------------------------------------- */

void cairn_route_embeddings(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    cairn_api_error_set(
        &reply->error, 400, "invalid_request_error", "embeddings_unsupported",
        "This server gives no embeddings: %.64s is run as a model that writes text. Ask a server "
        "for an embedding model.",
        serve->options.model_name);
    memcpy(reply->error.param, "model", sizeof "model");
}

/* --- HEAD -------------------------------------------------------------------------------------------------------- */

void cairn_route_head(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)serve;
    (void)request;
    reply->status = 200;
}
