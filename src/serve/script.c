/*
 * script - see the header. Lines are parsed once; a line's `times` is the only thing that changes.
 */
#include "serve/script.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { LINE_FLAGS = JSON_REJECT_DUPLICATES, BODY_BYTES_MAX = 64 * 1024 * 1024 };

typedef struct line {
    json_t *json;
    const json_t *when, *answer; /* borrowed from json                                              */
    atomic_int left;             /* how often it may still answer; negative: always                  */
} line;

struct cairn_script {
    const cairn_mem *mem;
    line *lines; /* line[room], the first `count` in use */
    size_t count, room;
};

/* --- reading ----------------------------------------------------------------------------------------------------- */

static bool is_kind(const json_t *value, char kind)
{
    switch (kind) {
    case 's':
        return json_is_string(value);
    case 'b':
        return json_is_boolean(value);
    case 'i':
        return json_is_integer(value) && json_integer_value(value) >= 0;
    case 'a':
        return json_is_array(value);
    default:
        return json_is_object(value);
    }
}

/* Every field of `object` must be one of `fields` ("sname": a string called name); NULL: fine, else what is wrong. */
static const char *check_fields(json_t *object, const char *const *fields, size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(fields[i] + 1, key) != 0)
            i++;
        if (i == count)
            return key;
        if (!is_kind(value, fields[i][0]))
            return key;
    }
    return NULL;
}

static const char *check_calls(const json_t *calls)
{
    static const char *const fields[] = {"sname", "oarguments"};
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_array_get(calls, i);
        if (!json_is_object(call) || check_fields(call, fields, 2) != NULL ||
            json_object_get(call, "name") == NULL)
            return "calls";
    }
    return NULL;
}

/* NULL, or the name of the field that is unknown or of another type. */
static const char *check_line(json_t *json)
{
    static const char *const top[] = {"owhen", "oanswer", "itimes"};
    static const char *const when[] = {"slast", "srole", "ssystem", "sany", "stool", "btools", "iturn"};
    static const char *const answer[] = {"stext", "sreasoning", "acalls", "sraw"};
    const char *wrong = check_fields(json, top, 3);
    if (wrong == NULL && json_object_get(json, "answer") == NULL)
        wrong = "answer";
    if (wrong == NULL && json_object_get(json, "when") != NULL)
        wrong = check_fields(json_object_get(json, "when"), when, 7);
    if (wrong == NULL)
        wrong = check_fields(json_object_get(json, "answer"), answer, 4);
    if (wrong == NULL)
        wrong = check_calls(json_object_get(json_object_get(json, "answer"), "calls"));
    return wrong;
}

static cairn_status add_line(cairn_script *script, const char *text, size_t len, unsigned number,
                             cairn_error *reterr)
{
    json_error_t problem;
    json_t *json = json_loadb(text, len, LINE_FLAGS, &problem);
    if (!json_is_object(json)) {
        json_decref(json);
        return cairn_error_set(reterr, CAIRN_INVALID, "script", "line %u is not a JSON object: %s", number,
                               json == NULL ? problem.text : "another value");
    }
    const char *wrong = check_line(json);
    if (wrong != NULL) {
        cairn_status status =
            cairn_error_set(reterr, CAIRN_INVALID, "script",
                            "line %u: %s is missing, unknown or of a wrong type", number, wrong);
        json_decref(json);
        return status;
    }
    const json_t *times = json_object_get(json, "times");
    line *l = &script->lines[script->count++];
    l->json = json;
    l->when = json_object_get(json, "when");
    l->answer = json_object_get(json, "answer");
    atomic_init(&l->left, times != NULL ? (int)json_integer_value(times) : -1);
    return CAIRN_OK;
}

static size_t count_lines(const char *text, size_t len)
{
    size_t count = 1;
    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n';
    return count;
}

cairn_status cairn_script_new(const cairn_mem *mem, const char *text, size_t len_bytes,
                              cairn_script **ret_script, cairn_error *reterr)
{
    size_t room = count_lines(text, len_bytes);
    if (room > CAIRN_SCRIPT_LINES_MAX)
        return cairn_error_set(reterr, CAIRN_LIMIT, "script", "more than %d lines", CAIRN_SCRIPT_LINES_MAX);
    cairn_script *script = cairn_mem_zalloc(mem, sizeof *script);
    if (script == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "script", NULL);
    script->mem = mem;
    script->lines = cairn_mem_array(mem, room, sizeof *script->lines);
    script->room = script->lines != NULL ? room : 0;
    cairn_status status =
        script->lines != NULL ? CAIRN_OK : cairn_error_set(reterr, CAIRN_NOMEM, "script", NULL);
    unsigned number = 0;
    for (size_t at = 0; at < len_bytes && status == CAIRN_OK;) {
        const char *newline = memchr(text + at, '\n', len_bytes - at);
        size_t end = newline != NULL ? (size_t)(newline - text) : len_bytes, begin = at;
        while (begin < end && (text[begin] == ' ' || text[begin] == '\t' || text[begin] == '\r'))
            begin++;
        number++;
        if (begin < end && text[begin] != '#')
            status = add_line(script, text + begin, end - begin, number, reterr);
        at = end + 1;
    }
    if (status == CAIRN_OK && script->count == 0)
        status = cairn_error_set(reterr, CAIRN_INVALID, "script", "it has no line");
    if (status != CAIRN_OK) {
        cairn_script_free(script);
        return status;
    }
    *ret_script = script;
    return CAIRN_OK;
}

void cairn_script_free(cairn_script *script)
{
    if (script == NULL)
        return;
    for (size_t i = 0; i < script->count; i++)
        json_decref(script->lines[i].json);
    cairn_mem_array_release(script->mem, script->lines, script->room, sizeof *script->lines);
    cairn_mem_release(script->mem, script, sizeof *script);
}

size_t cairn_script_count(const cairn_script *script)
{
    return script->count;
}

/* --- conditions -------------------------------------------------------------------------------------------------- */

static const char *text_at(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return text != NULL ? text : "";
}

/* Does one of the message's texts hold `part`? */
static bool message_holds(const json_t *message, const char *part)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_string(content))
        return strstr(json_string_value(content), part) != NULL;
    for (size_t i = 0; i < json_array_size(content); i++) {
        if (strstr(text_at(json_array_get(content, i), "text"), part) != NULL)
            return true;
    }
    return false;
}

static bool is_system(const json_t *message)
{
    const char *role = text_at(message, "role");
    return strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
}

/* One that is a system message, or any. */
static bool some_message_holds(const json_t *messages, bool system_only, const char *part)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        if ((!system_only || is_system(message)) && message_holds(message, part))
            return true;
    }
    return false;
}

static bool offers_tool(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        if (strcmp(text_at(json_object_get(json_array_get(tools, i), "function"), "name"), name) == 0)
            return true;
    }
    return false;
}

static json_int_t count_answers(const json_t *messages)
{
    json_int_t count = 0;
    for (size_t i = 0; i < json_array_size(messages); i++)
        count += strcmp(text_at(json_array_get(messages, i), "role"), "assistant") == 0;
    return count;
}

/* A completion has its prompt in place of messages. */
static bool completion_holds(const json_t *request, const json_t *when)
{
    const char *prompt = text_at(request, "prompt"), *key;
    json_t *value;
    json_object_foreach((json_t *)when, key, value)
    {
        bool text = strcmp(key, "last") == 0 || strcmp(key, "any") == 0;
        if (!text || strstr(prompt, json_string_value(value)) == NULL)
            return false;
    }
    return true;
}

/* The last one that is not the system's: some clients put reminders behind what the user said. */
static const json_t *last_message(const json_t *messages)
{
    size_t i = json_array_size(messages);
    while (i > 1 && is_system(json_array_get(messages, i - 1)))
        i--;
    return i > 0 ? json_array_get(messages, i - 1) : NULL;
}

static bool condition_holds(const json_t *request, const char *key, const json_t *value)
{
    const json_t *messages = json_object_get(request, "messages"), *tools = json_object_get(request, "tools");
    const json_t *last = last_message(messages);
    if (strcmp(key, "last") == 0)
        return message_holds(last, json_string_value(value));
    if (strcmp(key, "role") == 0)
        return strcmp(text_at(last, "role"), json_string_value(value)) == 0;
    if (strcmp(key, "system") == 0)
        return some_message_holds(messages, true, json_string_value(value));
    if (strcmp(key, "any") == 0)
        return some_message_holds(messages, false, json_string_value(value));
    if (strcmp(key, "tool") == 0)
        return offers_tool(tools, json_string_value(value));
    if (strcmp(key, "tools") == 0)
        return (json_array_size(tools) > 0) == json_is_true(value);
    return count_answers(messages) == json_integer_value(value); /* turn */
}

static bool line_holds(const line *l, const cairn_script_source *source)
{
    const char *key;
    json_t *value;
    if (!source->is_chat)
        return completion_holds(source->request, l->when);
    json_object_foreach((json_t *)l->when, key, value)
    {
        if (!condition_holds(source->request, key, value))
            return false;
    }
    return true;
}

/* May it answer once more? Counts the answer. */
static bool take_turn(line *l)
{
    int left = atomic_load(&l->left);
    while (left > 0 && !atomic_compare_exchange_weak(&l->left, &left, left - 1))
        continue;
    return left != 0;
}

/* --- tokens ------------------------------------------------------------------------------------------------------ */

/*
 * A call's arguments as models write them: spaced. `plain`: true, false and null as texts, for templates that print what
 * is no text in Python's spelling, which their own parser doesn't read.
 */
static char *arguments_text(const json_t *call, bool plain)
{
    json_t *copy = json_deep_copy(json_object_get(call, "arguments"));
    if (copy == NULL)
        copy = json_object();
    const char *key;
    json_t *value;
    json_object_foreach(copy, key, value)
    {
        if (plain && (json_is_boolean(value) || json_is_null(value)))
            json_object_set_new(copy, key,
                                json_string(json_is_true(value)    ? "true"
                                            : json_is_false(value) ? "false"
                                                                   : "null"));
    }
    char *text = json_dumps(copy, 0);
    json_decref(copy);
    return text;
}

/* {"role":"assistant",...} */
static json_t *message_of(const json_t *answer, bool plain)
{
    json_t *message = json_pack("{s:s, s:s}", "role", "assistant", "content", text_at(answer, "text"));
    const json_t *reasoning = json_object_get(answer, "reasoning"), *calls = json_object_get(answer, "calls");
    if (reasoning != NULL)
        json_object_set(message, "reasoning_content", (json_t *)reasoning);
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        char *arguments = arguments_text(call, plain), id[32];
        (void)snprintf(id, sizeof id, "call_%zu", i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function",
                                              "function", "name", text_at(call, "name"), "arguments",
                                              arguments != NULL ? arguments : "{}"));
        free(arguments);
    }
    if (json_array_size(list) > 0)
        json_object_set(message, "tool_calls", list);
    json_decref(list);
    return message;
}

/* Does the parsed message hold these calls? */
static bool same_calls(const json_t *calls, const json_t *parsed)
{
    if (json_array_size(calls) != json_array_size(parsed))
        return false;
    bool same = true;
    for (size_t i = 0; i < json_array_size(calls) && same; i++) {
        const json_t *call = json_array_get(calls, i);
        const json_t *function = json_object_get(json_array_get(parsed, i), "function");
        json_t *given = json_deep_copy(json_object_get(call, "arguments"));
        json_t *got = json_loads(text_at(function, "arguments"), 0, NULL);
        if (given == NULL)
            given = json_object();
        same = strcmp(text_at(call, "name"), text_at(function, "name")) == 0 && json_equal(given, got);
        json_decref(given);
        json_decref(got);
    }
    return same;
}

/* Does the parser read the calls back out of what the template wrote? */
static bool reads_back(const cairn_chat_prompt *before, const char *text, size_t len, const json_t *calls)
{
    cairn_chat_stream_options options = {.whole = true};
    cairn_chat_stream *stream = NULL;
    cairn_chat_text message = {0};
    json_t *parsed = NULL;
    cairn_error error;
    if (cairn_chat_stream_new(before->format, before->format_bytes, &options, &stream, &error) != CAIRN_OK)
        return false;
    if (cairn_chat_stream_feed(stream, text, len, NULL, &error) == CAIRN_OK &&
        cairn_chat_stream_finish(stream, NULL, &message, &error) == CAIRN_OK)
        parsed = json_loadb(message.text, message.bytes, 0, NULL);
    bool same = same_calls(calls, json_object_get(parsed, "tool_calls"));
    json_decref(parsed);
    cairn_chat_stream_free(stream);
    return same;
}

static cairn_chat_prompt *render(const cairn_script_source *source, json_t *body, cairn_error *reterr)
{
    cairn_chat_prompt *prompt = NULL;
    char *text = json_dumps(body, JSON_COMPACT);
    if (text == NULL) {
        (void)cairn_error_set(reterr, CAIRN_NOMEM, "script", NULL);
        return NULL;
    }
    if (cairn_chat_render(source->chat, text, strlen(text), source->options, &prompt, reterr) != CAIRN_OK)
        prompt = NULL;
    free(text);
    return prompt;
}

/* The request with one message of the user, and what decides about the opener. */
static json_t *small_body(const json_t *request)
{
    static const char *const kept[] = {"tools", "chat_template_kwargs", "reasoning_effort",
                                       "reasoning_format", "parallel_tool_calls"};
    json_t *body = json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", ".");
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        json_t *value = json_object_get(request, kept[i]);
        if (value != NULL)
            json_object_set(body, kept[i], value);
    }
    return body;
}

/* What the template writes behind its opener for this answer; false: not `before` and something behind it. */
static bool write_behind(const cairn_script_source *source, json_t *body, const cairn_chat_prompt *before,
                         json_t *message, cairn_buf *out, cairn_error *reterr)
{
    json_array_append_new(json_object_get(body, "messages"), message);
    cairn_chat_prompt *whole = render(source, body, reterr);
    json_array_remove(json_object_get(body, "messages"), 1);
    cairn_buf_reset(out);
    bool behind = whole != NULL && whole->text_bytes >= before->text_bytes &&
                  memcmp(whole->text, before->text, before->text_bytes) == 0;
    if (behind && cairn_buf_append(out, whole->text + before->text_bytes,
                                   whole->text_bytes - before->text_bytes) != CAIRN_OK)
        (void)cairn_error_set(reterr, CAIRN_NOMEM, "script", NULL);
    cairn_chat_prompt_free(whole);
    return behind;
}

/* The answer in the template's syntax, so that the parser reads its calls back. */
static void write_answer(const cairn_script_source *source, const json_t *answer, cairn_buf *out,
                         cairn_error *reterr)
{
    const json_t *calls = json_object_get(answer, "calls");
    json_t *body = small_body(source->request);
    cairn_chat_prompt *before = render(source, body, reterr);
    json_object_set_new(body, "add_generation_prompt", json_false());
    bool good = false, behind = before != NULL;
    for (int plain = 0; plain < 2 && behind && !good && reterr->status == CAIRN_OK; plain++) {
        behind = write_behind(source, body, before, message_of(answer, plain == 1), out, reterr);
        good = behind &&
               (json_array_size(calls) == 0 || reads_back(before, cairn_buf_str(out), out->len_bytes, calls));
    }
    if (!good && reterr->status == CAIRN_OK) {
        (void)cairn_error_set(
            reterr, CAIRN_INVALID, "script",
            "The template does not write this answer so that it can be read back; the script "
            "must give it as \"raw\".");
    }
    cairn_chat_prompt_free(before);
    json_decref(body);
}

static void make_tokens(const cairn_mem *mem, const cairn_script_source *source, const json_t *answer,
                        cairn_tokens *ret_tokens, cairn_api_error *error)
{
    cairn_error cause = {0};
    cairn_buf text;
    cairn_buf_init(&text, mem, BODY_BYTES_MAX);
    const json_t *raw = json_object_get(answer, "raw");
    if (raw != NULL || !source->is_chat) {
        if (cairn_buf_append_str(&text, raw != NULL ? json_string_value(raw) : text_at(answer, "text")) !=
            CAIRN_OK)
            (void)cairn_error_set(&cause, CAIRN_NOMEM, "script", NULL);
    } else {
        write_answer(source, answer, &text, &cause);
    }
    cairn_status status = cause.status;
    if (status == CAIRN_OK)
        status = cairn_tokens_of(mem, source->vocab, cairn_buf_str(&text), text.len_bytes,
                                 CAIRN_TOKENS_PARSE_SPECIAL, ret_tokens);
    if (status != CAIRN_OK && cause.status == CAIRN_OK)
        (void)cairn_error_set(&cause, status, "script", "the script's answer could not be tokenized");
    if (status == CAIRN_INVALID) {
        cairn_api_error_bad(error, NULL, "%s", cause.detail);
    } else if (status != CAIRN_OK) {
        cairn_api_error_from(error, &cause);
    }
    cairn_buf_release(&text);
}

void cairn_script_answer(cairn_script *script, const cairn_mem *mem, const cairn_script_source *source,
                         cairn_tokens *ret_tokens, cairn_api_error *error)
{
    for (size_t i = 0; i < script->count; i++) {
        line *l = &script->lines[i];
        if (line_holds(l, source) && take_turn(l)) {
            make_tokens(mem, source, l->answer, ret_tokens, error);
            return;
        }
    }
    cairn_api_error_bad(
        error, NULL, "This server answers from a script (--script), and no line of it answers this request.");
}
