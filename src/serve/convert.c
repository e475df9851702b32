/*
 * convert - see the header.
 */
#include "serve/convert.h"

#include <string.h>

#include "serve/json_answer.h"

enum { REASONING_BYTES_MAX = 64 * 1024 * 1024 };

void cairn_convert_init(cairn_convert *c, cairn_api_error *error)
{
    memset(c, 0, sizeof *c);
    c->error = error;
    c->messages = json_array();
    cairn_buf_init(&c->reasoning, cairn_mem_default(), REASONING_BYTES_MAX);
}

void cairn_convert_release(cairn_convert *c)
{
    json_decref(c->messages);
    json_decref(c->parts);
    json_decref(c->calls);
    cairn_buf_release(&c->reasoning);
}

bool cairn_convert_failed(const cairn_convert *c)
{
    return c->error->http != 0;
}

void cairn_convert_nomem(cairn_convert *c)
{
    cairn_api_error_set(c->error, 503, "unavailable_error", NULL, "out of memory");
}

void cairn_convert_push(cairn_convert *c, json_t *message)
{
    if (json_array_append_new(c->messages, message) != 0)
        cairn_convert_nomem(c);
}

json_t *cairn_convert_part(json_t *text, const json_t *from)
{
    json_t *part = json_pack("{s:s, s:O}", "type", "text", "text", text);
    json_t *mark = json_object_get(from, "cache_control");
    if (part != NULL && mark != NULL && !json_is_null(mark) &&
        json_object_set(part, "cache_control", mark) != 0) {
        json_decref(part);
        return NULL;
    }
    return part;
}

void cairn_convert_say(cairn_convert *c, json_t *part)
{
    c->assistant_open = true;
    if (c->parts == NULL)
        c->parts = json_array();
    if (json_array_append_new(c->parts, part) != 0)
        cairn_convert_nomem(c);
}

void cairn_convert_think(cairn_convert *c, const char *text)
{
    c->assistant_open = true;
    cairn_status status = CAIRN_OK;
    if (c->reasoning.len_bytes > 0 && text[0] != '\0')
        status = cairn_buf_append_str(&c->reasoning, "\n\n");
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(&c->reasoning, text);
    if (status != CAIRN_OK)
        cairn_convert_nomem(c);
}

void cairn_convert_call(cairn_convert *c, const char *id, const char *name, const char *arguments)
{
    c->assistant_open = true;
    if (c->calls == NULL)
        c->calls = json_array();
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name",
                             name, "arguments", arguments);
    if (json_array_append_new(c->calls, call) != 0)
        cairn_convert_nomem(c);
}

void cairn_convert_flush(cairn_convert *c)
{
    if (!c->assistant_open)
        return;
    json_t *content = c->parts != NULL ? json_incref(c->parts) : json_string("");
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    if (message != NULL && c->reasoning.len_bytes > 0) {
        json_object_set_new(message, "reasoning_content",
                            cairn_json_string(cairn_buf_str(&c->reasoning), c->reasoning.len_bytes));
    }
    if (message != NULL && c->calls != NULL)
        json_object_set(message, "tool_calls", c->calls);
    if (message != NULL && c->mark != NULL)
        json_object_set(message, "cache_control", c->mark);
    json_decref(c->parts);
    json_decref(c->calls);
    c->parts = c->calls = NULL;
    c->mark = NULL;
    c->assistant_open = false;
    cairn_buf_reset(&c->reasoning);
    cairn_convert_push(c, message);
}

void cairn_convert_extras(json_t *body, const json_t *request)
{
    static const char *const fields[] = {"cairn",
                                         "cache_salt",
                                         "cache_prompt",
                                         "seed",
                                         "min_p",
                                         "typical_p",
                                         "repeat_penalty",
                                         "repetition_penalty",
                                         "repeat_last_n",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "logit_bias",
                                         "ignore_eos",
                                         "id_slot",
                                         "prompt_cache_key",
                                         "metadata",
                                         "user",
                                         "grammar",
                                         "chat_template_kwargs",
                                         "enable_thinking",
                                         "temperature",
                                         "top_p",
                                         "stream"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_t *value = json_object_get(request, fields[i]);
        if (value != NULL)
            json_object_set(body, fields[i], value);
    }
}

cairn_status cairn_convert_dump(const json_t *value, cairn_buf *out)
{
    return cairn_json_write(out, json_incref((json_t *)value));
}
