/*
 * trace_client - what a client sent becomes tokens: a request body of any of the three APIs is rendered as a chat
 * template would, system text first, then tools, then messages.
 *
 * Only what a template prints counts: ids, signatures, encrypted items, cache_control and parameters don't. Tool
 * arguments and reasoning are taken as the client sent them, so a reply that came back changed parts from the one
 * that was generated, as it does in front of a real server without a map of its answers.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trace_read.h"

#define DUMP_FLAGS ((size_t)(JSON_COMPACT | JSON_ENCODE_ANY))

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void put_text(cairn_draft *draft, const json_t *string)
{
    if (json_is_string(string)) {
        cairn_draft_text(draft, json_string_value(string), json_string_length(string));
    }
}

static void put_json(cairn_trace_read *read, const json_t *value)
{
    char *text = json_dumps(value, DUMP_FLAGS);
    if (text == NULL) {
        read->draft.status = CAIRN_NOMEM;
        return;
    }
    cairn_draft_str(&read->draft, text);
    free(text);
}

/* The text of one part of a message, whatever its type is called. */
static void put_part(cairn_trace_read *read, const json_t *part)
{
    const json_t *text = json_object_get(part, "text");
    if (json_is_string(part)) {
        put_text(&read->draft, part);
    } else if (json_is_string(text)) {
        put_text(&read->draft, text);
    } else {
        put_json(read, part);
    }
    if (json_object_get(part, "cache_control") != NULL) {
        cairn_draft_boundary(&read->draft, CAIRN_BOUNDARY_MARK);
    }
}

/* Content: a text, null, or a list of parts. */
static void put_content(cairn_trace_read *read, const json_t *content)
{
    if (json_is_array(content)) {
        for (size_t i = 0; i < json_array_size(content); i++) {
            put_part(read, json_array_get(content, i));
        }
    } else {
        put_text(&read->draft, content);
    }
}

static void put_reasoning(cairn_draft *draft, const char *text)
{
    cairn_draft_think_open(draft);
    cairn_draft_str(draft, text);
    cairn_draft_think_close(draft);
}

/* `arguments`: a string as it is, anything else as JSON. */
static void put_call(cairn_trace_read *read, const char *name, const json_t *arguments)
{
    cairn_draft *draft = &read->draft;
    cairn_draft_mark(draft, "<tool_call>");
    cairn_draft_str(draft, "\n{\"name\": \"");
    cairn_draft_str(draft, name != NULL ? name : "");
    cairn_draft_str(draft, "\", \"arguments\": ");
    if (json_is_string(arguments)) {
        put_text(draft, arguments);
    } else if (arguments != NULL) {
        put_json(read, arguments);
    }
    cairn_draft_str(draft, "}\n");
    cairn_draft_mark(draft, "</tool_call>");
}

static cairn_role role_of(const char *name)
{
    if (name == NULL) {
        return CAIRN_ROLE_NONE;
    }
    if (strcmp(name, "system") == 0 || strcmp(name, "developer") == 0) {
        return CAIRN_ROLE_SYSTEM;
    }
    if (strcmp(name, "user") == 0) {
        return CAIRN_ROLE_USER;
    }
    if (strcmp(name, "assistant") == 0) {
        return CAIRN_ROLE_ASSISTANT;
    }
    return strcmp(name, "tool") == 0 || strcmp(name, "function") == 0 ? CAIRN_ROLE_TOOL : CAIRN_ROLE_NONE;
}

/* How many messages at the front belong to the system text. */
static size_t system_messages(const json_t *messages)
{
    size_t n = 0;
    while (n < json_array_size(messages) &&
           role_of(text_of(json_array_get(messages, n), "role")) == CAIRN_ROLE_SYSTEM) {
        n++;
    }
    return n;
}

/* The system message: `system`, then the first `count` messages, then the tools. */
static void put_head(cairn_trace_read *read, const json_t *system, const json_t *messages, size_t count,
                     const json_t *tools)
{
    cairn_draft *draft = &read->draft;
    bool texts = (json_is_string(system) && json_string_length(system) > 0) || json_array_size(system) > 0;
    if (!texts && count == 0 && json_array_size(tools) == 0) {
        return;
    }
    cairn_draft_open(draft, CAIRN_ROLE_SYSTEM);
    put_content(read, system);
    for (size_t i = 0; i < count; i++) {
        if (texts || i > 0) {
            cairn_draft_str(draft, "\n\n");
        }
        put_content(read, json_object_get(json_array_get(messages, i), "content"));
    }
    if (json_array_size(tools) > 0) {
        cairn_draft_str(draft, "\n\n# Tools\n\n");
        cairn_draft_mark(draft, "<tools>");
        for (size_t i = 0; i < json_array_size(tools); i++) {
            cairn_draft_str(draft, "\n");
            put_json(read, json_array_get(tools, i));
        }
        cairn_draft_mark(draft, "</tools>");
    }
    cairn_draft_close(draft);
    cairn_draft_system_end(draft);
}

/* --- chat/completions ----------------------------------------------------------------------------------------- */

static const char *chat_reasoning(const json_t *message)
{
    const char *text = text_of(message, "reasoning_content");
    return text != NULL ? text : text_of(message, "reasoning");
}

static void put_chat_assistant(cairn_trace_read *read, const json_t *message)
{
    const char *reasoning = chat_reasoning(message);
    if (reasoning != NULL && reasoning[0] != '\0') {
        put_reasoning(&read->draft, reasoning);
    }
    put_content(read, json_object_get(message, "content"));
    const json_t *calls = json_object_get(message, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        put_call(read, text_of(function, "name"), json_object_get(function, "arguments"));
    }
}

static cairn_status render_chat(cairn_trace_read *read, const json_t *body)
{
    const json_t *messages = json_object_get(body, "messages");
    size_t first = system_messages(messages);
    put_head(read, NULL, messages, first, json_object_get(body, "tools"));
    for (size_t i = first; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        cairn_role role = role_of(text_of(message, "role"));
        if (role == CAIRN_ROLE_NONE) {
            return cairn_trace_refuse(read, "message %zu has no known role", i);
        }
        cairn_draft_open(&read->draft, role);
        if (role == CAIRN_ROLE_ASSISTANT) {
            put_chat_assistant(read, message);
        } else {
            put_content(read, json_object_get(message, "content"));
        }
        cairn_draft_close(&read->draft);
    }
    return CAIRN_OK;
}

/* --- messages ---------------------------------------------------------------------------------------------------- */

static void put_anthropic_assistant(cairn_trace_read *read, const json_t *content)
{
    if (!json_is_array(content)) {
        put_content(read, content);
        return;
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = text_of(part, "type");
        if (type != NULL && strcmp(type, "thinking") == 0) {
            const char *text = text_of(part, "thinking");
            put_reasoning(&read->draft, text != NULL ? text : "");
        } else if (type != NULL && strcmp(type, "tool_use") == 0) {
            put_call(read, text_of(part, "name"), json_object_get(part, "input"));
        } else {
            put_part(read, part);
        }
    }
}

/* Tool results inside a user message are messages of their own; the texts between them stay together. */
static void put_anthropic_user(cairn_trace_read *read, cairn_role role, const json_t *content)
{
    cairn_draft *draft = &read->draft;
    bool open = false;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = text_of(part, "type");
        bool result = type != NULL && strcmp(type, "tool_result") == 0;
        if (open && result) {
            cairn_draft_close(draft);
            open = false;
        }
        if (result) {
            cairn_draft_open(draft, CAIRN_ROLE_TOOL);
            put_content(read, json_object_get(part, "content"));
            if (json_object_get(part, "cache_control") != NULL) {
                cairn_draft_boundary(draft, CAIRN_BOUNDARY_MARK);
            }
            cairn_draft_close(draft);
            continue;
        }
        if (!open) {
            cairn_draft_open(draft, role);
            open = true;
        }
        put_part(read, part);
    }
    if (open) {
        cairn_draft_close(draft);
    }
}

static cairn_status render_anthropic(cairn_trace_read *read, const json_t *body)
{
    const json_t *messages = json_object_get(body, "messages");
    put_head(read, json_object_get(body, "system"), NULL, 0, json_object_get(body, "tools"));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        const json_t *content = json_object_get(message, "content");
        cairn_role role = role_of(text_of(message, "role"));
        if (role == CAIRN_ROLE_NONE) {
            return cairn_trace_refuse(read, "message %zu has no known role", i);
        }
        if (role != CAIRN_ROLE_ASSISTANT && json_is_array(content)) {
            put_anthropic_user(read, role, content);
            continue;
        }
        cairn_draft_open(&read->draft, role);
        if (role == CAIRN_ROLE_ASSISTANT) {
            put_anthropic_assistant(read, content);
        } else {
            put_content(read, content);
        }
        cairn_draft_close(&read->draft);
    }
    return CAIRN_OK;
}

/* --- responses --------------------------------------------------------------------------------------------------- */

static bool is_type(const json_t *item, const char *type)
{
    const char *have = text_of(item, "type");
    return have != NULL && strcmp(have, type) == 0;
}

/* Is this item part of an assistant's message? */
static bool of_assistant(const json_t *item)
{
    return is_type(item, "reasoning") || is_type(item, "function_call") ||
           role_of(text_of(item, "role")) == CAIRN_ROLE_ASSISTANT;
}

static void put_item(cairn_trace_read *read, const json_t *item)
{
    if (is_type(item, "reasoning")) {
        cairn_draft_think_open(&read->draft);
        put_content(read, json_object_get(item, "summary"));
        put_content(read, json_object_get(item, "content"));
        cairn_draft_think_close(&read->draft);
    } else if (is_type(item, "function_call")) {
        put_call(read, text_of(item, "name"), json_object_get(item, "arguments"));
    } else {
        put_content(read, json_object_get(item, "content"));
    }
}

/* Items that follow each other and belong to the assistant are one message. */
static cairn_status put_items(cairn_trace_read *read, const json_t *items, size_t first)
{
    cairn_draft *draft = &read->draft;
    bool open = false;
    for (size_t i = first; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        bool assistant = of_assistant(item);
        if (open && !assistant) {
            cairn_draft_close(draft);
            open = false;
        }
        if (assistant && !open) {
            cairn_draft_open(draft, CAIRN_ROLE_ASSISTANT);
            open = true;
        }
        if (assistant) {
            put_item(read, item);
            continue;
        }
        if (is_type(item, "function_call_output")) {
            cairn_draft_open(draft, CAIRN_ROLE_TOOL);
            put_content(read, json_object_get(item, "output"));
        } else {
            cairn_role role = role_of(text_of(item, "role"));
            if (role == CAIRN_ROLE_NONE) {
                return cairn_trace_refuse(read, "item %zu has no known role", i);
            }
            cairn_draft_open(draft, role);
            put_content(read, json_object_get(item, "content"));
        }
        cairn_draft_close(draft);
    }
    if (open) {
        cairn_draft_close(draft);
    }
    return CAIRN_OK;
}

/*
 * The items that a request continues, and its own. A previous_response_id that was not seen before names the last
 * response of the session, as the trace does not hold the ids of responses. The result is a new reference.
 */
static cairn_status response_items(cairn_trace_read *read, const json_t *body, const char *session,
                                   json_t **ret)
{
    const char *previous = text_of(body, "previous_response_id");
    json_t *items = NULL;
    if (previous != NULL) {
        cairn_trace_name *known = cairn_trace_name_of(read, &read->responses, previous);
        cairn_trace_name *open = cairn_trace_name_of(read, &read->open, session);
        if (known == NULL || open == NULL) {
            return CAIRN_NOMEM;
        }
        if (known->history == NULL && open->history != NULL) {
            known->history = json_incref(open->history);
        }
        items = json_copy(known->history);
    }
    if (items == NULL) {
        items = json_array();
    }
    json_t *input = json_object_get(body, "input");
    int failed = items == NULL ? -1 : 0;
    if (failed == 0 && json_is_string(input)) {
        failed = json_array_append_new(
            items, json_pack("{s:s, s:s, s:O}", "type", "message", "role", "user", "content", input));
    } else if (failed == 0) {
        failed = json_array_extend(items, input);
    }
    if (failed != 0) {
        json_decref(items);
        return CAIRN_NOMEM;
    }
    *ret = items;
    return CAIRN_OK;
}

static cairn_status render_responses(cairn_trace_read *read, const json_t *line, const json_t *body,
                                     const char *session)
{
    json_t *items = NULL;
    cairn_status status = response_items(read, body, session, &items);
    if (status != CAIRN_OK) {
        return status;
    }
    size_t first = system_messages(items);
    put_head(read, json_object_get(body, "instructions"), items, first, json_object_get(body, "tools"));
    status = put_items(read, items, first);
    cairn_trace_name *open = cairn_trace_name_of(read, &read->open, session);
    json_t *resp = json_object_get(line, "resp");
    if (open == NULL || (json_is_array(resp) && json_array_extend(items, resp) != 0)) {
        json_decref(items);
        return CAIRN_NOMEM;
    }
    json_decref(open->history);
    open->history = items;
    return status;
}

/* --- one line -------------------------------------------------------------------------------------------------- */

typedef enum client_api { API_CHAT, API_ANTHROPIC, API_RESPONSES } client_api;

static cairn_status api_of(cairn_trace_read *read, const json_t *line, client_api *ret_api)
{
    const char *path = text_of(line, "path");
    if (path == NULL) {
        return cairn_trace_refuse(read, "no \"path\"");
    }
    if (strstr(path, "/chat/completions") != NULL) {
        *ret_api = API_CHAT;
    } else if (strstr(path, "/messages") != NULL) {
        *ret_api = API_ANTHROPIC;
    } else if (strstr(path, "/responses") != NULL) {
        *ret_api = API_RESPONSES;
    } else {
        return cairn_trace_refuse(read, "\"path\" names no known API: %.60s", path);
    }
    const json_t *body = json_object_get(line, "body");
    const json_t *input = json_object_get(body, *ret_api == API_RESPONSES ? "input" : "messages");
    if (!json_is_array(input) && !(*ret_api == API_RESPONSES && json_is_string(input))) {
        return cairn_trace_refuse(read, "the body has no list \"%s\"",
                                  *ret_api == API_RESPONSES ? "input" : "messages");
    }
    return CAIRN_OK;
}

static void put_answer(cairn_trace_read *read, client_api api, const json_t *line)
{
    const json_t *resp = json_object_get(line, "resp");
    cairn_draft *draft = &read->draft;
    cairn_draft_opener(draft);
    if (resp == NULL) {
        return;
    }
    if (api == API_CHAT) {
        put_chat_assistant(read, resp);
    } else if (api == API_ANTHROPIC) {
        put_anthropic_assistant(read, json_object_get(resp, "content"));
    } else {
        for (size_t i = 0; i < json_array_size(resp); i++) {
            put_item(read, json_array_get(resp, i));
        }
    }
    cairn_draft_mark(draft, "<|im_end|>");
    if (json_is_true(json_object_get(line, "aborted"))) {
        /* The client went away in the middle. */
        draft->count = draft->prompt_tokens + (draft->count - draft->prompt_tokens) / 2;
    }
}

static cairn_status session_of(cairn_trace_read *read, const json_t *line, const char *session, uint32_t *ret)
{
    char text[160];
    (void)snprintf(text, sizeof text, "%.120s#%lld", session,
                   (long long)json_integer_value(json_object_get(line, "thread")));
    const cairn_trace_name *name = cairn_trace_name_of(read, &read->sessions, text);
    if (name == NULL) {
        return CAIRN_NOMEM;
    }
    *ret = name->number;
    return CAIRN_OK;
}

cairn_status cairn_trace_client_line(cairn_trace_read *read, const json_t *line, cairn_error *reterr)
{
    const json_t *body = json_object_get(line, "body");
    const json_t *t = json_object_get(line, "t");
    const char *session = text_of(line, "session");
    const char *kind = text_of(line, "kind");
    client_api api = API_CHAT;
    if (!json_is_object(body)) {
        return cairn_trace_refuse(read, "\"body\" is not an object");
    }
    double seconds = json_number_value(t);
    if (!json_is_number(t) || !isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        return cairn_trace_refuse(read, "\"t\" is not a time in seconds");
    }
    cairn_status status = api_of(read, line, &api);
    if (status != CAIRN_OK) {
        return status;
    }
    const json_t *code = json_object_get(line, "status");
    if ((code != NULL && json_integer_value(code) != 200) || (kind != NULL && strcmp(kind, "count") == 0)) {
        return CAIRN_OK; /* a server would not have read it */
    }
    session = session != NULL ? session : "";
    cairn_draft_clear(&read->draft);
    if (api == API_CHAT) {
        status = render_chat(read, body);
    } else if (api == API_ANTHROPIC) {
        status = render_anthropic(read, body);
    } else {
        status = render_responses(read, line, body, session);
    }
    cairn_workload_entry entry = {0};
    uint32_t number = 0;
    if (status == CAIRN_OK) {
        put_answer(read, api, line);
        status = session_of(read, line, session, &number);
    }
    if (status != CAIRN_OK) {
        return status == CAIRN_INVALID ? status : cairn_error_set(reterr, status, "sim/trace_client", NULL);
    }
    status = cairn_draft_finish(&read->draft, &entry, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    entry.time_ns = (uint64_t)(seconds * 1e9);
    entry.session = number;
    entry.kind = kind;
    return cairn_workload_add(read->w, &entry, reterr);
}
