/*
 * responses_answer - an answer as a response with output items, or as the events that make one.
 *
 * One item is open at a time: reasoning, message or a call. A delta of another kind closes it and opens the next. A
 * whole response goes the same way at its end, without events, so that both have the same items.
 */
#include <stdio.h>
#include <string.h>

#include "serve/json_answer.h"
#include "serve/responses.h"

typedef enum kind { NOTHING = 0, REASONING, MESSAGE, CALL } kind;

typedef struct response {
    const cairn_mem *mem;
    json_t *tool_names, *echo;
    cairn_responses_keep keep;
    cairn_buf history; /* the conversation as text, without its closing bracket; empty: not kept         */
    json_int_t sequence;
    /* the open item */
    kind open;
    json_int_t call; /* the tool call that it is                                                    */
    cairn_buf text;  /* its text, or arguments                                                      */
    char item_id[64];
    char call_id[96], name[128];
    json_t *output; /* items that are complete                                                        */
} response;

/* --- events ------------------------------------------------------------------------------------------------------ */

/* Write {"type":name, "sequence_number":n, ...value}; `out` NULL: no events are wanted. Takes `value` over. */
static cairn_status event(response *r, cairn_buf *out, const char *name, json_t *value)
{
    if (out == NULL) {
        json_decref(value);
        return CAIRN_OK;
    }
    json_t *whole = json_pack("{s:s, s:I}", "type", name, "sequence_number", r->sequence++);
    if (whole == NULL || value == NULL || json_object_update(whole, value) != 0) {
        json_decref(whole);
        whole = NULL;
    }
    json_decref(value);
    return cairn_sse_write(out, name, whole);
}

static json_int_t output_index(const response *r)
{
    return (json_int_t)json_array_size(r->output);
}

/* {"item_id":..,"output_index":..,"<part>_index":0, "<field>":text} */
static json_t *piece(const response *r, const char *part, const char *field, json_t *text)
{
    json_t *value =
        json_pack("{s:s, s:I, s:o}", "item_id", r->item_id, "output_index", output_index(r), field, text);
    if (value != NULL && part != NULL)
        json_object_set_new(value, part, json_integer(0));
    return value;
}

/* --- items ------------------------------------------------------------------------------------------------------- */

static json_t *own_text(const response *r)
{
    return cairn_json_string(cairn_buf_str(&r->text), r->text.len_bytes);
}

static const json_t *known_tool(const response *r)
{
    return json_object_get(r->tool_names, r->name);
}

static bool is_custom(const response *r)
{
    return r->open == CALL && json_is_true(json_object_get(known_tool(r), "custom"));
}

static json_t *text_part(json_t *text)
{
    return json_pack("{s:s, s:o, s:[]}", "type", "output_text", "text", text, "annotations");
}

/* What the model wrote as {"input":"..."} is free text for the client; takes `text` over. */
static json_t *custom_input(json_t *text)
{
    json_t *arguments = json_loads(json_string_value(text), 0, NULL);
    json_t *inner = json_object_get(arguments, "input");
    if (json_is_string(inner)) {
        json_decref(text);
        text = json_incref(inner);
    }
    json_decref(arguments);
    return text;
}

static json_t *call_item(const response *r, const char *status, json_t *text)
{
    const json_t *known = known_tool(r), *name = json_object_get(known, "name"),
                 *space = json_object_get(known, "namespace");
    bool custom = is_custom(r);
    if (custom)
        text = custom_input(text);
    json_t *item =
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", custom ? "custom_tool_call" : "function_call", "id",
                  r->item_id, "call_id", r->call_id, "name",
                  json_is_string(name) ? json_string_value(name) : r->name, "status", status);
    if (item != NULL && space != NULL)
        json_object_set(item, "namespace", (json_t *)space);
    if (item != NULL)
        json_object_set(item, custom ? "input" : "arguments", text);
    json_decref(text);
    return item;
}

/* The open item as it is now; `done` false: as it is at its start. */
static json_t *item_json(const response *r, bool done)
{
    json_t *text = done ? own_text(r) : json_string("");
    const char *status = done ? "completed" : "in_progress";
    if (r->open == CALL)
        return call_item(r, status, text);
    json_t *item, *list = json_array();
    if (r->open == REASONING) {
        json_t *part = json_pack("{s:s, s:o}", "type", "summary_text", "text", text);
        if (done)
            json_array_append(list, part);
        json_decref(part);
        item = json_pack("{s:s, s:s, s:o, s:s}", "type", "reasoning", "id", r->item_id, "summary", list,
                         "status", status);
        const json_t *include = json_object_get(r->echo, "include");
        for (size_t i = 0; i < json_array_size(include); i++) {
            const char *wanted = json_string_value(json_array_get(include, i));
            if (wanted != NULL && strcmp(wanted, "reasoning.encrypted_content") == 0 && item != NULL)
                json_object_set_new(item, "encrypted_content", json_string("Y2Fpcm4="));
        }
        return item;
    }
    json_t *part = text_part(text);
    if (done)
        json_array_append(list, part);
    json_decref(part);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", r->item_id, "status", status,
                     "role", "assistant", "content", list);
}

/* The events between the last delta and the item's own end. */
static cairn_status close_parts(response *r, cairn_buf *out)
{
    cairn_status status = CAIRN_OK;
    if (r->open == REASONING) {
        status = event(r, out, "response.reasoning_summary_text.done",
                       piece(r, "summary_index", "text", own_text(r)));
        if (status == CAIRN_OK) {
            status = event(r, out, "response.reasoning_summary_part.done",
                           piece(r, "summary_index", "part",
                                 json_pack("{s:s, s:o}", "type", "summary_text", "text", own_text(r))));
        }
    } else if (r->open == MESSAGE) {
        status = event(r, out, "response.output_text.done", piece(r, "content_index", "text", own_text(r)));
        if (status == CAIRN_OK) {
            status = event(r, out, "response.content_part.done",
                           piece(r, "content_index", "part", text_part(own_text(r))));
        }
    } else if (is_custom(r)) { /* its text is known when the arguments are whole */
        json_t *text = custom_input(own_text(r));
        status = event(r, out, "response.custom_tool_call_input.delta",
                       piece(r, NULL, "delta", json_incref(text)));
        if (status == CAIRN_OK) {
            status = event(r, out, "response.custom_tool_call_input.done",
                           piece(r, NULL, "input", json_incref(text)));
        }
        json_decref(text);
    } else {
        json_t *value = piece(r, NULL, "arguments", own_text(r));
        json_object_set_new(value, "name", json_string(r->name));
        status = event(r, out, "response.function_call_arguments.done", value);
    }
    return status;
}

static cairn_status close_item(response *r, cairn_buf *out)
{
    if (r->open == NOTHING)
        return CAIRN_OK;
    cairn_status status = out != NULL ? close_parts(r, out) : CAIRN_OK;
    json_t *item = item_json(r, true);
    if (status == CAIRN_OK) {
        status = event(r, out, "response.output_item.done",
                       json_pack("{s:I, s:O}", "output_index", output_index(r), "item", item));
    }
    if (json_array_append_new(r->output, item) != 0)
        status = CAIRN_NOMEM;
    r->open = NOTHING;
    return status;
}

static cairn_status open_item(response *r, kind next, const char *prefix, const char *answer_id,
                              cairn_buf *out)
{
    cairn_status status = close_item(r, out);
    if (status != CAIRN_OK)
        return status;
    const char *number = strchr(answer_id, '_');
    (void)snprintf(r->item_id, sizeof r->item_id, "%s_%s_%u", prefix, number != NULL ? number + 1 : answer_id,
                   (unsigned)output_index(r));
    r->open = next;
    cairn_buf_reset(&r->text);
    status = event(r, out, "response.output_item.added",
                   json_pack("{s:I, s:o}", "output_index", output_index(r), "item", item_json(r, false)));
    if (status == CAIRN_OK && next == REASONING) {
        status = event(
            r, out, "response.reasoning_summary_part.added",
            piece(r, "summary_index", "part", json_pack("{s:s, s:s}", "type", "summary_text", "text", "")));
    }
    if (status == CAIRN_OK && next == MESSAGE) {
        status = event(r, out, "response.content_part.added",
                       piece(r, "content_index", "part", text_part(json_string(""))));
    }
    return status;
}

static cairn_status add(response *r, const char *name, const char *part, const json_t *text, cairn_buf *out)
{
    if (json_string_length(text) == 0)
        return CAIRN_OK;
    cairn_status status = cairn_buf_append(&r->text, json_string_value(text), json_string_length(text));
    if (status != CAIRN_OK || is_custom(r))
        return status;
    return event(r, out, name, piece(r, part, "delta", json_incref((json_t *)text)));
}

static cairn_status add_call(response *r, const char *answer_id, const json_t *call, size_t position,
                             cairn_buf *out)
{
    const json_t *function = json_object_get(call, "function"), *given = json_object_get(call, "index");
    const char *name = json_string_value(json_object_get(function, "name")),
               *id = json_string_value(json_object_get(call, "id"));
    json_int_t index = given != NULL ? json_integer_value(given) : (json_int_t)position;
    cairn_status status = CAIRN_OK;
    if (r->open != CALL || index != r->call) {
        status = close_item(r, out);
        r->call = index;
        (void)snprintf(r->call_id, sizeof r->call_id, "%s", id != NULL ? id : "");
        (void)snprintf(r->name, sizeof r->name, "%s", name != NULL ? name : "");
        if (status == CAIRN_OK)
            status = open_item(r, CALL, "fc", answer_id, out);
    }
    if (status == CAIRN_OK) {
        status = add(r, "response.function_call_arguments.delta", NULL,
                     json_object_get(function, "arguments"), out);
    }
    return status;
}

/* A delta in chat completions' form; also a whole message, which has the same fields. */
static cairn_status take(response *r, const char *answer_id, const json_t *delta, cairn_buf *out)
{
    const json_t *reasoning = json_object_get(delta, "reasoning_content"),
                 *content = json_object_get(delta, "content"), *calls = json_object_get(delta, "tool_calls");
    cairn_status status = CAIRN_OK;
    if (json_string_length(reasoning) > 0) {
        if (r->open != REASONING)
            status = open_item(r, REASONING, "rs", answer_id, out);
        if (status == CAIRN_OK)
            status = add(r, "response.reasoning_summary_text.delta", "summary_index", reasoning, out);
    }
    if (status == CAIRN_OK && json_string_length(content) > 0) {
        if (r->open != MESSAGE)
            status = open_item(r, MESSAGE, "msg", answer_id, out);
        if (status == CAIRN_OK)
            status = add(r, "response.output_text.delta", "content_index", content, out);
    }
    for (size_t i = 0; i < json_array_size(calls) && status == CAIRN_OK; i++)
        status = add_call(r, answer_id, json_array_get(calls, i), i, out);
    return status;
}

/* --- the response ------------------------------------------------------------------------------------------------ */

static json_t *usage_json(const cairn_record *record, const cairn_shape_end *end)
{
    json_int_t prompt = record->prompt_tokens, answer = end->times->answer_tokens;
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", prompt, "input_tokens_details",
                     "cached_tokens", (json_int_t)record->resume, "output_tokens", answer,
                     "output_tokens_details", "reasoning_tokens", (json_int_t)end->reasoning_tokens,
                     "total_tokens", prompt + answer);
}

/* Everything but usage; the request's fields are repeated, as the API does. */
static json_t *response_json(const response *r, const cairn_shape_answer *answer, const char *status)
{
    json_t *value = json_pack(
        "{s:s, s:s, s:I, s:s, s:n, s:n, s:n, s:n, s:b, s:[], s:s, s:b, s:n, s:{}, s:n}", "id", answer->id,
        "object", "response", "created_at", (json_int_t)answer->created_s, "status", status, "error",
        "incomplete_details", "instructions", "previous_response_id", "parallel_tool_calls", 1, "tools",
        "tool_choice", "auto", "store", r->keep.replies != NULL, "max_output_tokens", "metadata", "usage");
    json_object_update(value, r->echo);
    json_object_del(value, "include");
    json_object_set_new(value, "model", cairn_json_string(answer->model, strlen(answer->model)));
    json_object_set(value, "output", r->output);
    return value;
}

static cairn_status begin(void *ctx, const cairn_shape_answer *answer, cairn_buf *out)
{
    response *r = ctx;
    static const char *const names[] = {"response.created", "response.in_progress"};
    cairn_status status = CAIRN_OK;
    for (size_t i = 0; i < 2 && status == CAIRN_OK; i++) {
        status =
            event(r, out, names[i], json_pack("{s:o}", "response", response_json(r, answer, "in_progress")));
    }
    return status;
}

static cairn_status delta(void *ctx, const cairn_shape_answer *answer, const json_t *value, cairn_buf *out)
{
    return take(ctx, answer->id, value, out);
}

/* The response can be asked for by its id, and the conversation with this answer be continued. */
static void keep(response *r, const cairn_shape_answer *answer, const json_t *message, json_t *value)
{
    if (r->keep.replies == NULL || r->history.len_bytes == 0)
        return;
    cairn_buf told;
    cairn_buf_init(&told, r->mem, SIZE_MAX / 4);
    json_t *copy = json_copy((json_t *)message);
    if (json_is_null(json_object_get(copy, "content")))
        json_object_set_new(copy, "content", json_string(""));
    cairn_status status = cairn_json_write(&told, json_incref(value));
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(&r->history, ",");
    if (status == CAIRN_OK) {
        status = cairn_json_write(&r->history, copy);
    } else {
        json_decref(copy);
    }
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(&r->history, "]");
    if (status == CAIRN_OK) {
        const cairn_reply reply = {.conversation = cairn_buf_str(&r->history),
                                   .conversation_bytes = r->history.len_bytes,
                                   .response = cairn_buf_str(&told),
                                   .response_bytes = told.len_bytes};
        cairn_replies_put(r->keep.replies, &r->keep.space, answer->id, &reply);
    }
    cairn_buf_release(&told);
}

static cairn_status end(void *ctx, const cairn_shape_answer *answer, const cairn_shape_end *end,
                        cairn_buf *out)
{
    response *r = ctx;
    cairn_buf *events = answer->stream ? out : NULL;
    cairn_status status = answer->stream ? CAIRN_OK : take(r, answer->id, end->message, NULL);
    if (status == CAIRN_OK)
        status = close_item(r, events);
    bool whole = end->finish != CAIRN_FINISH_LENGTH;
    json_t *value = response_json(r, answer, whole ? "completed" : "incomplete");
    if (!whole)
        json_object_set_new(value, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    json_object_set_new(value, "usage", usage_json(answer->record, end));
    json_object_set_new(value, "timings", cairn_timings_json(answer->record, end->times));
    if (answer->explain) {
        json_object_set_new(value, "cairn",
                            cairn_record_noted_json(answer->record, answer->notes, answer->excerpt));
    }
    if (status != CAIRN_OK) {
        json_decref(value);
        return status;
    }
    keep(r, answer, end->message, value);
    if (!answer->stream)
        return cairn_json_write(out, value);
    return event(r, out, whole ? "response.completed" : "response.incomplete",
                 json_pack("{s:o}", "response", value));
}

static cairn_status fail(void *ctx, const cairn_shape_answer *answer, const cairn_api_error *error,
                         cairn_buf *out)
{
    response *r = ctx;
    json_t *value = response_json(r, answer, "failed");
    json_t *message = cairn_json_string(error->message, strlen(error->message));
    json_object_set_new(value, "error",
                        json_pack("{s:s, s:o}", "code",
                                  error->http == 503 ? "server_is_overloaded" : "server_error", "message",
                                  message));
    return event(r, out, "response.failed", json_pack("{s:o}", "response", value));
}

static void release(void *ctx)
{
    response *r = ctx;
    if (r == NULL)
        return;
    json_decref(r->tool_names);
    json_decref(r->echo);
    json_decref(r->output);
    cairn_buf_release(&r->text);
    cairn_buf_release(&r->history);
    cairn_mem_release(r->mem, r, sizeof *r);
}

/* The messages that a later request takes over, as text, on the connection's thread: it may be long. */
static cairn_status write_history(response *r, const cairn_responses_request *request)
{
    json_t *messages = json_copy(json_object_get(request->chat, "messages"));
    for (size_t i = 0; i < request->count_instructions; i++)
        json_array_remove(messages, 0);
    bool any = json_array_size(messages) > 0;
    cairn_status status = cairn_json_write(&r->history, messages);
    if (status == CAIRN_OK && any) {
        r->history.len_bytes--; /* the bracket: the answer comes before it */
    } else {
        cairn_buf_reset(&r->history);
    }
    return status;
}

cairn_status cairn_responses_shape(const cairn_responses_request *request,
                                   const cairn_responses_keep *keep_in, cairn_answer_shape *ret_shape)
{
    const cairn_mem *mem = cairn_mem_default();
    response *r = cairn_mem_zalloc(mem, sizeof *r);
    if (r == NULL)
        return CAIRN_NOMEM;
    r->mem = mem;
    r->tool_names = json_incref(request->tool_names);
    r->echo = json_incref(request->echo);
    r->keep = *keep_in;
    r->output = json_array();
    cairn_buf_init(&r->text, mem, SIZE_MAX / 4);
    cairn_buf_init(&r->history, mem, SIZE_MAX / 4);
    cairn_status status = r->keep.replies != NULL ? write_history(r, request) : CAIRN_OK;
    if (status != CAIRN_OK) {
        release(r);
        return status;
    }
    *ret_shape = (cairn_answer_shape){.id_prefix = "resp_",
                                      .call_prefix = "call_",
                                      .begin = begin,
                                      .delta = delta,
                                      .end = end,
                                      .fail = fail,
                                      .free = release,
                                      .ctx = r};
    return CAIRN_OK;
}
