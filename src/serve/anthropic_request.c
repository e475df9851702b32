/*
 * anthropic_request - a Messages request becomes one of chat completions.
 *
 * The one place that knows what content blocks exist. What a model without vision can't be given is refused with its
 * place; what has no meaning here (betas, metadata, context management) is let through unread.
 */
#include <stdio.h>
#include <string.h>

#include "serve/anthropic.h"
#include "serve/convert.h"
#include "serve/json_fields.h"

typedef struct place {
    size_t message, block;
    const char *inside; /* ".content[2]" of a tool result; "" otherwise */
} place;

static void refuse(cairn_convert *c, const place *at, const char *field, const char *text)
{
    char path[96];
    (void)snprintf(path, sizeof path, "messages[%zu].content[%zu]%s%s", at->message, at->block, at->inside,
                   field);
    cairn_api_error_bad(c->error, path, "%s: %s", path, text);
}

static const char *text_at(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return text != NULL ? text : "";
}

/* --- blocks ------------------------------------------------------------------------------------------------------ */

static bool is_media(const char *type)
{
    return strcmp(type, "image") == 0 || strcmp(type, "document") == 0 || strcmp(type, "audio") == 0 ||
           strcmp(type, "video") == 0;
}

/* A block that is text, or can be said as text. NULL: it is not, and the error is set. */
static json_t *text_part(cairn_convert *c, const json_t *block, const char *type, const place *at)
{
    json_t *text = json_object_get(block, "text"), *source = json_object_get(block, "source"), *part = NULL;
    if (strcmp(type, "text") == 0) {
        if (json_is_string(text)) {
            part = cairn_convert_part(text, block);
        } else {
            refuse(c, at, ".text", "must be a string.");
        }
    } else if (strcmp(type, "tool_reference") == 0) {
        /* the client puts the tool itself into `tools` */
        json_t *said = json_sprintf("Tool loaded: %s", text_at(block, "tool_name"));
        part = cairn_convert_part(said, block);
        json_decref(said);
    } else if (strcmp(type, "document") == 0 && strcmp(text_at(source, "type"), "text") == 0 &&
               json_is_string(json_object_get(source, "data"))) {
        part = cairn_convert_part(json_object_get(source, "data"), block);
    } else if (is_media(type)) {
        char said[96];
        (void)snprintf(said, sizeof said, "\"%.16s\" is not supported: this server takes text only.", type);
        refuse(c, at, ".type", said);
    } else {
        char said[160];
        (void)snprintf(said, sizeof said,
                       "\"%.40s\" is not known here; text, thinking, tool_use and tool_result are.", type);
        refuse(c, at, ".type", said);
    }
    if (part == NULL && !cairn_convert_failed(c))
        cairn_convert_nomem(c);
    return part;
}

/* The type of a block that must be an object; NULL with an error. */
static const char *type_of(cairn_convert *c, const json_t *block, const place *at)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    if (!json_is_object(block)) {
        refuse(c, at, "", "must be an object.");
    } else if (type == NULL) {
        refuse(c, at, ".type", "is missing or no string.");
    }
    return cairn_convert_failed(c) ? NULL : type;
}

/* What a tool gave: a string, or parts. A new value. */
static json_t *result_content(cairn_convert *c, json_t *content, const place *at)
{
    if (content == NULL || json_is_null(content))
        return json_string("");
    if (json_is_string(content))
        return json_incref(content);
    if (!json_is_array(content)) {
        refuse(c, at, ".content", "must be a string or a list of blocks.");
        return NULL;
    }
    json_t *parts = json_array();
    for (size_t i = 0; i < json_array_size(content) && !cairn_convert_failed(c); i++) {
        char inside[32];
        (void)snprintf(inside, sizeof inside, ".content[%zu]", i);
        place deeper = {.message = at->message, .block = at->block, .inside = inside};
        const json_t *block = json_array_get(content, i);
        const char *type = type_of(c, block, &deeper);
        if (type != NULL)
            json_array_append_new(parts, text_part(c, block, type, &deeper));
    }
    if (json_array_size(parts) == 0 && !cairn_convert_failed(c)) {
        json_decref(parts);
        return json_string("");
    }
    return parts;
}

static void tool_result(cairn_convert *c, const json_t *block, const place *at)
{
    const json_t *id = json_object_get(block, "tool_use_id"), *mark = json_object_get(block, "cache_control");
    if (!json_is_string(id)) {
        refuse(c, at, ".tool_use_id", "is missing or no string.");
        return;
    }
    json_t *content = result_content(c, json_object_get(block, "content"), at);
    if (cairn_convert_failed(c)) {
        json_decref(content);
        return;
    }
    json_t *message = json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", json_string_value(id),
                                "content", content);
    if (message != NULL && mark != NULL && !json_is_null(mark))
        json_object_set(message, "cache_control", (json_t *)mark);
    cairn_convert_push(c, message);
}

static void tool_use(cairn_convert *c, const json_t *block, const place *at)
{
    const json_t *name = json_object_get(block, "name"), *input = json_object_get(block, "input");
    json_t *mark = json_object_get(block, "cache_control");
    if (!json_is_string(name) || !json_is_string(json_object_get(block, "id"))) {
        refuse(c, at, "", "a tool_use needs an id and a name, both strings.");
        return;
    }
    if (input != NULL && !json_is_object(input) && !json_is_null(input)) {
        refuse(c, at, ".input", "must be an object.");
        return;
    }
    cairn_buf arguments;
    cairn_buf_init(&arguments, cairn_mem_default(), SIZE_MAX / 4);
    if (!json_is_object(input) || cairn_convert_dump(input, &arguments) == CAIRN_OK) {
        cairn_convert_call(c, text_at(block, "id"), json_string_value(name),
                           json_is_object(input) ? cairn_buf_str(&arguments) : "{}");
    } else {
        cairn_convert_nomem(c);
    }
    cairn_buf_release(&arguments);
    if (mark != NULL && !json_is_null(mark))
        c->mark = mark;
}

/* --- messages ---------------------------------------------------------------------------------------------------- */

static void assistant_block(cairn_convert *c, const json_t *block, const char *type, const place *at)
{
    if (strcmp(type, "tool_use") == 0) {
        tool_use(c, block, at);
    } else if (strcmp(type, "thinking") == 0) {
        cairn_convert_think(c, text_at(block, "thinking"));
    } else if (strcmp(type, "redacted_thinking") != 0) { /* nobody here can read it */
        cairn_convert_say(c, text_part(c, block, type, at));
    }
}

/* Text parts of a user's or system's message, gathered until a tool result comes between. */
static void flush_parts(cairn_convert *c, const char *role, json_t **parts)
{
    if (json_array_size(*parts) > 0)
        cairn_convert_push(c, json_pack("{s:s, s:O}", "role", role, "content", *parts));
    json_decref(*parts);
    *parts = json_array();
}

static void blocks(cairn_convert *c, const char *role, const json_t *content, size_t message)
{
    bool assistant = strcmp(role, "assistant") == 0;
    json_t *parts = json_array();
    for (size_t i = 0; i < json_array_size(content) && !cairn_convert_failed(c); i++) {
        const json_t *block = json_array_get(content, i);
        place at = {.message = message, .block = i, .inside = ""};
        const char *type = type_of(c, block, &at);
        if (type == NULL)
            break;
        if (assistant) {
            assistant_block(c, block, type, &at);
        } else if (strcmp(type, "tool_result") == 0) {
            flush_parts(c, role, &parts);
            tool_result(c, block, &at);
        } else if (strcmp(type, "tool_use") == 0 || strcmp(type, "thinking") == 0) {
            refuse(c, &at, ".type", "only an assistant's message can have it.");
        } else {
            json_t *part = text_part(c, block, type, &at);
            if (part != NULL && json_array_append_new(parts, part) != 0)
                cairn_convert_nomem(c);
        }
    }
    if (assistant && json_array_size(content) == 0)
        cairn_convert_think(c, "");
    if (!cairn_convert_failed(c))
        flush_parts(c, role, &parts);
    json_decref(parts);
    cairn_convert_flush(c);
}

static void messages(cairn_convert *c, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && !cairn_convert_failed(c); i++) {
        const json_t *message = json_array_get(list, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        json_t *content = json_object_get(message, "content");
        char path[64];
        if (role == NULL ||
            (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0)) {
            (void)snprintf(path, sizeof path, "messages[%zu].role", i);
            cairn_api_error_bad(c->error, path, "%s: must be \"user\", \"assistant\" or \"system\".", path);
        } else if (json_is_string(content)) {
            cairn_convert_push(c, json_pack("{s:s, s:O}", "role", role, "content", content));
        } else if (json_is_array(content)) {
            blocks(c, role, content, i);
        } else {
            (void)snprintf(path, sizeof path, "messages[%zu].content", i);
            cairn_api_error_bad(c->error, path, "%s: must be a string or a list of blocks.", path);
        }
    }
}

static void system_text(cairn_convert *c, json_t *text)
{
    if (text == NULL || json_is_null(text))
        return;
    if (json_is_string(text)) {
        cairn_convert_push(c, json_pack("{s:s, s:O}", "role", "system", "content", text));
        return;
    }
    if (!json_is_array(text)) {
        cairn_api_error_bad(c->error, "system", "system: must be a string or a list of text blocks.");
        return;
    }
    json_t *parts = json_array();
    for (size_t i = 0; i < json_array_size(text) && !cairn_convert_failed(c); i++) {
        const json_t *block = json_array_get(text, i);
        char path[32];
        (void)snprintf(path, sizeof path, "system[%zu]", i);
        if (strcmp(text_at(block, "type"), "text") != 0 || !json_is_string(json_object_get(block, "text"))) {
            cairn_api_error_bad(c->error, path, "%s: must be a text block.", path);
        } else if (json_array_append_new(parts, cairn_convert_part(json_object_get(block, "text"), block)) !=
                   0) {
            cairn_convert_nomem(c);
        }
    }
    if (json_array_size(parts) > 0 && !cairn_convert_failed(c))
        cairn_convert_push(c, json_pack("{s:s, s:O}", "role", "system", "content", parts));
    json_decref(parts);
}

/* --- tools ------------------------------------------------------------------------------------------------------- */

/* Tools that Anthropic's own servers run: the model is not told of them here. */
static bool runs_elsewhere(const char *type)
{
    static const char *const prefixes[] = {"web_search", "web_fetch", "code_execution", "tool_search",
                                           "mcp_toolset"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(type, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

static void tool(cairn_convert *c, json_t *out, const json_t *item, size_t index)
{
    json_t *name = json_object_get(item, "name"), *schema = json_object_get(item, "input_schema"),
           *description = json_object_get(item, "description"),
           *mark = json_object_get(item, "cache_control");
    const char *type = text_at(item, "type");
    char path[48];
    if (runs_elsewhere(type))
        return;
    (void)snprintf(path, sizeof path, "tools[%zu]", index);
    if (!json_is_string(name)) {
        cairn_api_error_bad(c->error, path, "%s.name: is missing or no string.", path);
        return;
    }
    if (!json_is_object(schema)) {
        bool own = type[0] != '\0' && strcmp(type, "custom") != 0;
        cairn_api_error_bad(c->error, path, "%s: %s", path,
                            own ? "tools of this type have no meaning here; give a tool with an input_schema."
                                : "input_schema is missing or no object.");
        return;
    }
    json_t *function = json_pack("{s:O, s:O}", "name", name, "parameters", schema);
    if (function != NULL && json_is_string(description))
        json_object_set(function, "description", description);
    json_t *value = json_pack("{s:s, s:o}", "type", "function", "function", function);
    if (value != NULL && mark != NULL && !json_is_null(mark))
        json_object_set(value, "cache_control", mark);
    if (json_array_append_new(out, value) != 0)
        cairn_convert_nomem(c);
}

static void tool_choice(cairn_convert *c, json_t *body, const json_t *choice)
{
    const char *type = text_at(choice, "type");
    if (choice == NULL || json_is_null(choice))
        return;
    if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0) {
        json_object_set_new(body, "tool_choice", json_string(type));
    } else if (strcmp(type, "any") == 0) {
        json_object_set_new(body, "tool_choice", json_string("required"));
    } else if (strcmp(type, "tool") == 0) {
        json_object_set_new(
            body, "tool_choice",
            json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", text_at(choice, "name")));
    } else {
        cairn_api_error_bad(c->error, "tool_choice",
                            "tool_choice.type: must be \"auto\", \"any\", \"tool\" or \"none\".");
    }
    if (json_is_true(json_object_get(choice, "disable_parallel_tool_use")))
        json_object_set_new(body, "parallel_tool_calls", json_false());
}

static void tools(cairn_convert *c, json_t *body, const json_t *request)
{
    const json_t *list = NULL;
    cairn_json_array(request, "tools", &list, c->error);
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(list) && !cairn_convert_failed(c); i++)
        tool(c, out, json_array_get(list, i), i);
    if (json_array_size(out) > 0)
        json_object_set(body, "tools", out);
    json_decref(out);
    tool_choice(c, body, json_object_get(request, "tool_choice"));
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */

/* Levels that templates know are low, medium and high. */
static const char *effort_word(const char *effort)
{
    if (strcmp(effort, "xhigh") == 0 || strcmp(effort, "max") == 0)
        return "high";
    return strcmp(effort, "minimal") == 0 ? "low" : effort;
}

/* Without `thinking` there is none, as this API has it. */
static void thinking(cairn_convert *c, json_t *body, const json_t *request)
{
    const json_t *value = NULL, *config = NULL;
    cairn_json_object(request, "thinking", &value, c->error);
    cairn_json_object(request, "output_config", &config, c->error);
    const char *type = value != NULL ? text_at(value, "type") : "disabled";
    const char *effort = text_at(config, "effort");
    bool off = strcmp(type, "disabled") == 0;
    if (!off && strcmp(type, "enabled") != 0 && strcmp(type, "adaptive") != 0) {
        cairn_api_error_bad(c->error, "thinking.type",
                            "thinking.type: must be \"enabled\", \"adaptive\" or \"disabled\".");
    }
    if (json_object_get(body, "enable_thinking") == NULL)
        json_object_set_new(body, "enable_thinking", json_boolean(!off));
    if (effort[0] != '\0' && !off)
        json_object_set_new(body, "reasoning_effort", json_string(effort_word(effort)));
    const json_t *format = json_object_get(config, "format");
    if (format == NULL || json_is_null(format))
        format = json_object_get(request, "output_format");
    if (strcmp(text_at(format, "type"), "json_schema") == 0) {
        json_object_set_new(body, "response_format",
                            json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema",
                                      json_object_get(format, "schema")));
    }
}

static void limits(cairn_convert *c, json_t *body, const json_t *request, bool count)
{
    int64_t tokens = -1, top_k = -1;
    const json_t *stops = NULL;
    cairn_json_integer(request, "max_tokens", 0, INT32_MAX, &tokens, c->error);
    cairn_json_integer(request, "top_k", 0, INT32_MAX, &top_k, c->error);
    cairn_json_array(request, "stop_sequences", &stops, c->error);
    if (tokens < 0 && !count)
        cairn_api_error_bad(c->error, "max_tokens", "max_tokens: is missing.");
    if (tokens >= 0)
        json_object_set_new(body, "max_tokens", json_integer(tokens));
    if (top_k >= 0)
        json_object_set_new(body, "top_k", json_integer(top_k));
    for (size_t i = 0; i < json_array_size(stops); i++) {
        if (!json_is_string(json_array_get(stops, i)))
            cairn_api_error_bad(c->error, "stop_sequences", "stop_sequences[%zu]: must be a string.", i);
    }
    if (json_array_size(stops) > 0)
        json_object_set(body, "stop", (json_t *)stops);
}

bool cairn_anthropic_omits_thinking(const json_t *request)
{
    return strcmp(text_at(json_object_get(request, "thinking"), "display"), "omitted") == 0;
}

json_t *cairn_anthropic_to_chat(const json_t *request, cairn_anthropic_use use, cairn_api_error *error)
{
    const json_t *list = NULL, *thread = json_object_get(request, "thread");
    cairn_convert c;
    cairn_convert_init(&c, error);
    json_t *body = json_object();
    if (thread != NULL && !json_is_null(thread)) {
        cairn_api_error_bad(error, "thread",
                            "thread: this server keeps no threads; send the whole conversation.");
        error->code = "thread_unsupported_request";
    }
    cairn_json_array(request, "messages", &list, error);
    if (json_array_size(list) == 0 && use != CAIRN_ANTHROPIC_WARM) {
        cairn_api_error_bad(error, "messages",
                            "messages: is missing or empty; at least one message is needed.");
    }
    cairn_convert_extras(body, request);
    limits(&c, body, request, use != CAIRN_ANTHROPIC_ANSWER);
    thinking(&c, body, request);
    tools(&c, body, request);
    system_text(&c, json_object_get(request, "system"));
    messages(&c, list);
    if (json_object_set(body, "messages", c.messages) != 0)
        cairn_convert_nomem(&c);
    cairn_convert_release(&c);
    if (error->http != 0) {
        json_decref(body);
        return NULL;
    }
    return body;
}
