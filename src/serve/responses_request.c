/*
 * responses_request - a Responses request becomes one of chat completions.
 *
 * Items of the assistant (reasoning, message, calls) that follow each other become one message. Ids of items are not
 * looked at: clients make new ones in each process.
 */
#include <stdio.h>
#include <string.h>

#include "serve/convert.h"
#include "serve/json_fields.h"
#include "serve/responses.h"

static const char *text_at(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return text != NULL ? text : "";
}

static bool is_set(const json_t *value)
{
    return value != NULL && !json_is_null(value);
}

static void refuse(cairn_convert *c, size_t item, const char *field, const char *text)
{
    char path[96];
    (void)snprintf(path, sizeof path, "input[%zu]%s", item, field);
    cairn_api_error_bad(c->error, path, "%s: %s", path, text);
}

/* The model's name of a tool in a namespace. */
static json_t *flat_name(const char *space, const char *name)
{
    return space[0] != '\0' ? json_sprintf("%s__%s", space, name) : json_string(name);
}

/* --- input ------------------------------------------------------------------------------------------------------- */

/* Text parts of `content`, a string or a list: a new array, or NULL with an error. */
static json_t *text_parts(cairn_convert *c, json_t *content, size_t item, const char *field)
{
    json_t *parts = json_array();
    if (json_is_string(content)) {
        json_array_append_new(parts, cairn_convert_part(content, NULL));
        return parts;
    }
    if (is_set(content) && !json_is_array(content))
        refuse(c, item, field, "must be a string or a list of parts.");
    for (size_t i = 0; i < json_array_size(content) && !cairn_convert_failed(c); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = text_at(part, "type");
        json_t *text = json_object_get(part, strcmp(type, "refusal") == 0 ? "refusal" : "text");
        char path[64], said[96];
        (void)snprintf(path, sizeof path, "%s[%zu]", field, i);
        (void)snprintf(said, sizeof said, "\"%.40s\" is not supported: this server takes text only.", type);
        bool known = strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0 ||
                     strcmp(type, "text") == 0 || strcmp(type, "refusal") == 0 ||
                     strcmp(type, "summary_text") == 0 || strcmp(type, "reasoning_text") == 0;
        if (!known) {
            refuse(c, item, path, said);
        } else if (!json_is_string(text)) {
            refuse(c, item, path, "its text is missing or no string.");
        } else if (json_array_append_new(parts, cairn_convert_part(text, part)) != 0) {
            cairn_convert_nomem(c);
        }
    }
    if (!cairn_convert_failed(c))
        return parts;
    json_decref(parts);
    return NULL;
}

static void message(cairn_convert *c, const json_t *item, size_t index)
{
    const char *role = text_at(item, "role");
    bool assistant = strcmp(role, "assistant") == 0;
    if (!assistant && strcmp(role, "user") != 0 && strcmp(role, "system") != 0 &&
        strcmp(role, "developer") != 0) {
        refuse(c, index, ".role", "must be \"user\", \"assistant\", \"system\" or \"developer\".");
        return;
    }
    json_t *parts = text_parts(c, json_object_get(item, "content"), index, ".content");
    if (parts == NULL)
        return;
    if (assistant) {
        if (c->calls != NULL || c->parts != NULL)
            cairn_convert_flush(c);
        for (size_t i = 0; i < json_array_size(parts); i++)
            cairn_convert_say(c, json_incref(json_array_get(parts, i)));
        json_decref(parts);
        return;
    }
    cairn_convert_flush(c);
    if (json_array_size(parts) == 0)
        json_array_append_new(parts, json_pack("{s:s, s:s}", "type", "text", "text", ""));
    cairn_convert_push(c, json_pack("{s:s, s:o}", "role", role, "content", parts));
}

/* A reasoning item: its text if it has any, else its summary. Encrypted text is another server's and is not read. */
static void reasoning(cairn_convert *c, const json_t *item, size_t index)
{
    json_t *content = json_object_get(item, "content");
    bool has_text = json_array_size(content) > 0;
    json_t *parts = text_parts(c, has_text ? content : json_object_get(item, "summary"), index,
                               has_text ? ".content" : ".summary");
    if (parts == NULL)
        return;
    if (c->calls != NULL || c->parts != NULL)
        cairn_convert_flush(c);
    for (size_t i = 0; i < json_array_size(parts); i++)
        cairn_convert_think(c, text_at(json_array_get(parts, i), "text"));
    json_decref(parts);
}

static void call(cairn_convert *c, const json_t *item, size_t index, bool custom)
{
    const char *name = text_at(item, "name"), *id = text_at(item, "call_id");
    if (name[0] == '\0' || id[0] == '\0') {
        refuse(c, index, "", "a call needs a name and a call_id, both strings.");
        return;
    }
    json_t *flat = flat_name(text_at(item, "namespace"), name);
    cairn_buf arguments;
    cairn_buf_init(&arguments, cairn_mem_default(), SIZE_MAX / 4);
    json_t *input = custom ? json_pack("{s:s}", "input", text_at(item, "input")) : NULL;
    if (flat == NULL || (custom && cairn_convert_dump(input, &arguments) != CAIRN_OK)) {
        cairn_convert_nomem(c);
    } else {
        cairn_convert_call(c, id, json_string_value(flat),
                           custom ? cairn_buf_str(&arguments) : text_at(item, "arguments"));
    }
    cairn_buf_release(&arguments);
    json_decref(input);
    json_decref(flat);
}

static void call_output(cairn_convert *c, const json_t *item, size_t index)
{
    const char *id = text_at(item, "call_id");
    if (id[0] == '\0') {
        refuse(c, index, ".call_id", "is missing or no string.");
        return;
    }
    json_t *parts = text_parts(c, json_object_get(item, "output"), index, ".output");
    if (parts == NULL)
        return;
    cairn_convert_flush(c);
    if (json_array_size(parts) == 0)
        json_array_append_new(parts, json_pack("{s:s, s:s}", "type", "text", "text", ""));
    cairn_convert_push(c, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id, "content", parts));
}

static void item(cairn_convert *c, const json_t *value, size_t index)
{
    const char *type = text_at(value, "type");
    if (!json_is_object(value)) {
        refuse(c, index, "", "must be an object.");
    } else if (strcmp(type, "message") == 0 || (type[0] == '\0' && is_set(json_object_get(value, "role")))) {
        message(c, value, index);
    } else if (strcmp(type, "reasoning") == 0) {
        reasoning(c, value, index);
    } else if (strcmp(type, "function_call") == 0) {
        call(c, value, index, false);
    } else if (strcmp(type, "custom_tool_call") == 0) {
        call(c, value, index, true);
    } else if (strcmp(type, "function_call_output") == 0 || strcmp(type, "custom_tool_call_output") == 0) {
        call_output(c, value, index);
    } else if (strcmp(type, "web_search_call") !=
               0) { /* what another server did: its findings are in the text */
        char said[112];
        (void)snprintf(said, sizeof said, "items of type \"%.40s\" are not supported by this server.", type);
        refuse(c, index, ".type", said);
    }
}

static void input(cairn_convert *c, json_t *value)
{
    if (json_is_string(value)) {
        cairn_convert_push(c, json_pack("{s:s, s:O}", "role", "user", "content", value));
        return;
    }
    if (!json_is_array(value)) {
        cairn_api_error_bad(c->error, "input", "input: must be a string or a list of items.");
        return;
    }
    for (size_t i = 0; i < json_array_size(value) && !cairn_convert_failed(c); i++)
        item(c, json_array_get(value, i), i);
    cairn_convert_flush(c);
}

/* --- tools ------------------------------------------------------------------------------------------------------- */

typedef struct toolbox {
    json_t *list;  /* in chat completions' form                                                        */
    json_t *names; /* what the answer calls them                                                       */
} toolbox;

/* `parameters` and `known` are taken over. */
static void add_tool(cairn_convert *c, const toolbox *box, const json_t *flat, const json_t *from,
                     json_t *parameters, json_t *known)
{
    const char *name = json_string_value(flat);
    json_t *description = json_object_get(from, "description");
    if (name == NULL || json_object_get(box->names, name) != NULL) {
        cairn_api_error_bad(c->error, "tools", "tools: two of them have the name \"%.64s\".",
                            name != NULL ? name : "");
        json_decref(parameters);
        json_decref(known);
        return;
    }
    json_t *function = json_pack("{s:s, s:o}", "name", name, "parameters", parameters);
    if (function != NULL && json_is_string(description))
        json_object_set(function, "description", description);
    if (json_array_append_new(box->list, json_pack("{s:s, s:o}", "type", "function", "function", function)) !=
            0 ||
        json_object_set_new(box->names, name, known) != 0)
        cairn_convert_nomem(c);
}

static void add_function(cairn_convert *c, const toolbox *box, const char *space, const json_t *tool)
{
    const char *name = text_at(tool, "name");
    json_t *parameters = json_object_get(tool, "parameters");
    if (name[0] == '\0') {
        cairn_api_error_bad(c->error, "tools", "tools: a function has no name.");
        return;
    }
    json_t *flat = flat_name(space, name), *known = json_pack("{s:s}", "name", name);
    if (space[0] != '\0')
        json_object_set_new(known, "namespace", json_string(space));
    add_tool(c, box, flat, tool, json_is_object(parameters) ? json_incref(parameters) : json_object(), known);
    json_decref(flat);
}

/* A tool that takes free text: for the model, a function with one string. */
static void add_custom(cairn_convert *c, const toolbox *box, const json_t *tool)
{
    const char *name = text_at(tool, "name");
    json_t *schema = json_pack("{s:s, s:{s:{s:s}}, s:[s]}", "type", "object", "properties", "input", "type",
                               "string", "required", "input");
    json_t *flat = json_string(name), *known = json_pack("{s:s, s:b}", "name", name, "custom", 1);
    add_tool(c, box, flat, tool, schema, known);
    json_decref(flat);
}

/* Tools that OpenAI's own servers run (web search and others) are left out: the model is not told of them. */
static void tools(cairn_convert *c, const toolbox *box, const json_t *request)
{
    const json_t *list = NULL;
    cairn_json_array(request, "tools", &list, c->error);
    for (size_t i = 0; i < json_array_size(list) && !cairn_convert_failed(c); i++) {
        const json_t *tool = json_array_get(list, i), *inner = json_object_get(tool, "tools");
        const char *type = text_at(tool, "type");
        if (strcmp(type, "function") == 0) {
            add_function(c, box, "", tool);
        } else if (strcmp(type, "custom") == 0) {
            add_custom(c, box, tool);
        }
        for (size_t k = 0; strcmp(type, "namespace") == 0 && k < json_array_size(inner); k++)
            add_function(c, box, text_at(tool, "name"), json_array_get(inner, k));
    }
}

static void tool_choice(cairn_convert *c, json_t *body, json_t *choice)
{
    const char *type = text_at(choice, "type");
    if (json_is_string(choice)) {
        json_object_set(body, "tool_choice", choice);
    } else if (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0) {
        json_t *flat = flat_name(text_at(choice, "namespace"), text_at(choice, "name"));
        json_object_set_new(body, "tool_choice",
                            json_pack("{s:s, s:{s:o}}", "type", "function", "function", "name", flat));
    } else if (strcmp(type, "allowed_tools") == 0) {
        json_object_set_new(
            body, "tool_choice",
            json_string(strcmp(text_at(choice, "mode"), "required") == 0 ? "required" : "auto"));
    } else if (is_set(choice)) {
        cairn_api_error_bad(c->error, "tool_choice",
                            "tool_choice: must be \"auto\", \"none\", \"required\" or name a function.");
    }
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */

static void format(cairn_convert *c, json_t *body, const json_t *request)
{
    const json_t *text = NULL, *format = NULL;
    cairn_json_object(request, "text", &text, c->error);
    if (text != NULL)
        cairn_json_object(text, "format", &format, c->error);
    const char *type = text_at(format, "type");
    if (strcmp(type, "json_object") == 0) {
        json_object_set_new(body, "response_format", json_pack("{s:s}", "type", type));
    } else if (strcmp(type, "json_schema") == 0 && json_is_object(json_object_get(format, "schema"))) {
        json_object_set_new(body, "response_format",
                            json_pack("{s:s, s:{s:O}}", "type", type, "json_schema", "schema",
                                      json_object_get(format, "schema")));
    } else if (format != NULL && strcmp(type, "text") != 0) {
        cairn_api_error_bad(
            c->error, "text.format",
            "text.format: must be \"text\", \"json_object\", or \"json_schema\" with a schema.");
    }
}

static void limits(cairn_convert *c, json_t *body, const json_t *request)
{
    int64_t tokens = -1;
    const json_t *reasoning = NULL;
    json_t *parallel = json_object_get(request, "parallel_tool_calls");
    cairn_json_integer(request, "max_output_tokens", 1, INT32_MAX, &tokens, c->error);
    cairn_json_object(request, "reasoning", &reasoning, c->error);
    if (tokens > 0)
        json_object_set_new(body, "max_tokens", json_integer(tokens));
    const char *effort = text_at(reasoning, "effort");
    const char *word = strcmp(effort, "minimal") == 0 ? "low"
                       : strcmp(effort, "xhigh") == 0 ? "high"
                                                      : effort;
    if (word[0] != '\0')
        json_object_set_new(body, "reasoning_effort", json_string(word));
    if (json_is_boolean(parallel))
        json_object_set(body, "parallel_tool_calls", parallel);
}

/* Fields that name something kept elsewhere: without it the model would answer to half of a conversation. */
static void refuse_kept(cairn_api_error *error, const json_t *request)
{
    if (is_set(json_object_get(request, "conversation")))
        cairn_api_error_bad(error, "conversation",
                            "conversation: this server keeps no conversations; send the whole one, or use "
                            "previous_response_id.");
    if (is_set(json_object_get(request, "prompt")))
        cairn_api_error_bad(error, "prompt",
                            "prompt: this server keeps no prompts; send instructions and input.");
    if (json_is_true(json_object_get(request, "background")))
        cairn_api_error_bad(error, "background",
                            "background: this server answers while the request is open; leave it out.");
}

static json_t *echo_of(const json_t *request)
{
    static const char *const fields[] = {"instructions",
                                         "max_output_tokens",
                                         "metadata",
                                         "parallel_tool_calls",
                                         "previous_response_id",
                                         "reasoning",
                                         "store",
                                         "temperature",
                                         "text",
                                         "tool_choice",
                                         "tools",
                                         "top_p",
                                         "truncation",
                                         "include"};
    json_t *echo = json_object();
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_t *value = json_object_get(request, fields[i]);
        if (is_set(value))
            json_object_set(echo, fields[i], value);
    }
    return echo;
}

bool cairn_responses_to_chat(const json_t *request, const json_t *previous,
                             cairn_responses_request *ret_request, cairn_api_error *error)
{
    cairn_convert c;
    cairn_convert_init(&c, error);
    json_t *body = json_object(), *instructions = json_object_get(request, "instructions");
    toolbox box = {.list = json_array(), .names = json_object()};
    cairn_convert_extras(body, request);
    refuse_kept(error, request);
    limits(&c, body, request);
    format(&c, body, request);
    tools(&c, &box, request);
    if (json_array_size(box.list) > 0) {
        json_object_set(body, "tools", box.list);
        tool_choice(&c, body, json_object_get(request, "tool_choice"));
    }
    if (json_is_string(instructions)) {
        cairn_convert_push(&c, json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    } else if (is_set(instructions)) {
        cairn_api_error_bad(error, "instructions", "instructions: must be a string.");
    }
    size_t count_instructions = json_array_size(c.messages);
    if (previous != NULL && json_array_extend(c.messages, (json_t *)previous) != 0)
        cairn_convert_nomem(&c);
    input(&c, json_object_get(request, "input"));
    if (error->http == 0 && json_array_size(c.messages) == 0)
        cairn_api_error_bad(error, "input", "input: is empty; at least one message is needed.");
    if (json_object_set(body, "messages", c.messages) != 0)
        cairn_convert_nomem(&c);
    cairn_convert_release(&c);
    json_decref(box.list);
    cairn_responses_request made = {.chat = body,
                                    .tool_names = box.names,
                                    .echo = echo_of(request),
                                    .count_instructions = count_instructions};
    if (error->http != 0) {
        cairn_responses_release(&made);
        return false;
    }
    *ret_request = made;
    return true;
}

void cairn_responses_release(cairn_responses_request *request)
{
    json_decref(request->chat);
    json_decref(request->tool_names);
    json_decref(request->echo);
}
