/*
 * warm_routes - POST /cairn/warm: a prompt is read and kept, and nothing is answered.
 *
 *   {"messages":[system]}        --> reads up to where the first user message will begin
 *   {"messages":[system, user]}  --> reads all of it
 *
 * Bodies are those of the four APIs; /cairn/warm tells them apart by their fields, /cairn/warm/NAME is told.
 */
#include <string.h>

#include "serve/anthropic.h"
#include "serve/json_answer.h"
#include "serve/json_fields.h"
#include "serve/serve_inside.h"

/* --- the answer -------------------------------------------------------------------------------------------------- */

static cairn_status end(void *ctx, const cairn_shape_answer *answer, const cairn_shape_end *end,
                        cairn_buf *out)
{
    (void)ctx;
    const cairn_record *r = answer->record;
    json_t *value =
        json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:o}", "object", "cairn.warm", "prompt_tokens",
                  (json_int_t)r->prompt_tokens, "cached_tokens", (json_int_t)r->resume, "read_tokens",
                  (json_int_t)r->read, "model", cairn_json_string(answer->model, strlen(answer->model)),
                  "timings", cairn_timings_json(r, end->times), "cairn",
                  cairn_record_noted_json(r, answer->notes, answer->excerpt));
    return cairn_json_write(out, value);
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static const cairn_answer_shape shape = {
    .id_prefix = "warm_", .call_prefix = "call_", .end = end, .free = nothing};

/* --- the body ---------------------------------------------------------------------------------------------------- */

typedef enum api { CHAT, TEXT, MESSAGES, RESPONSES, UNKNOWN, NOTHING } api;

static api api_of(const char *path, const json_t *body)
{
    static const char root[] = "/cairn/warm/";
    if (strncmp(path, root, sizeof root - 1) == 0 && path[sizeof root - 1] != '\0') {
        static const char *const names[] = {"chat", "completions", "messages", "responses"};
        for (int i = CHAT; i < UNKNOWN; i++) {
            if (strcmp(path + sizeof root - 1, names[i]) == 0)
                return (api)i;
        }
        return UNKNOWN;
    }
    if (json_object_get(body, "messages") != NULL)
        return json_object_get(body, "system") != NULL ? MESSAGES : CHAT;
    if (json_object_get(body, "prompt") != NULL)
        return TEXT;
    if (json_object_get(body, "system") != NULL)
        return MESSAGES;
    bool response = json_object_get(body, "input") != NULL || json_object_get(body, "instructions") != NULL ||
                    json_object_get(body, "previous_response_id") != NULL;
    return response ? RESPONSES : NOTHING;
}

/* Responses wants an input; warming may do with the instructions. */
static json_t *with_input(json_t *body)
{
    json_t *copy = json_copy(body);
    if (json_object_get(body, "input") == NULL && json_object_get(body, "instructions") != NULL)
        json_object_set_new(copy, "input", json_array());
    return copy;
}

static json_t *to_chat(cairn_serve *serve, const cairn_http_request *request, json_t *body, api from,
                       cairn_api_error *error)
{
    json_t *chat = NULL, *whole;
    cairn_namespace space;
    cairn_responses_request made;
    switch (from) {
    case MESSAGES:
        chat = cairn_anthropic_to_chat(body, CAIRN_ANTHROPIC_WARM, error);
        return chat;
    case RESPONSES:
        whole = with_input(body);
        if (cairn_read_namespace(serve, request, body, &space, error) &&
            cairn_read_response(serve, whole, &space, &made, error)) {
            chat = json_incref(made.chat);
            cairn_responses_release(&made);
        }
        json_decref(whole);
        return chat;
    case UNKNOWN:
        cairn_api_error_set(
            error, 404, "not_found_error", "not_found",
            "There is no %.100s here; /cairn/warm/chat, /completions, /messages and /responses "
            "are.",
            request->path);
        return NULL;
    case NOTHING:
        cairn_api_error_bad(error, "messages",
                            "There is nothing to read: messages, system, prompt, input or instructions are "
                            "missing.");
        return NULL;
    default:
        return json_incref(body);
    }
}

void cairn_route_warm(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    json_t *body = cairn_json_parse(request->body, request->body_bytes, &reply->error);
    if (body == NULL)
        return;
    api from = api_of(request->path, body);
    cairn_converted converted = {.shape = shape, .text = from == TEXT, .warm = true};
    converted.body = to_chat(serve, request, body, from, &reply->error);
    if (converted.body != NULL)
        cairn_generate_converted(serve, request, &converted, reply);
    json_decref(body);
    if (from == RESPONSES && strcmp(reply->error.param, "messages") == 0)
        memcpy(reply->error.param, "input", sizeof "input");
}
