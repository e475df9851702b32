/*
 * json_answer - see the header. The only file that turns jansson values into bytes.
 */
#include "serve/json_answer.h"

#include <string.h>

#include "serve/utf8.h"

enum { WRITE_FLAGS = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) };

cairn_status cairn_json_write(cairn_buf *buf, json_t *value)
{
    if (value == NULL)
        return CAIRN_NOMEM;
    size_t size = json_dumpb(value, NULL, 0, WRITE_FLAGS);
    cairn_status status = size == 0 ? CAIRN_INTERNAL : cairn_buf_reserve(buf, size);
    if (status == CAIRN_OK) {
        (void)json_dumpb(value, (char *)buf->bytes + buf->len_bytes, size, WRITE_FLAGS);
        buf->len_bytes += size;
        buf->bytes[buf->len_bytes] = 0;
    }
    json_decref(value);
    return status;
}

cairn_status cairn_sse_write(cairn_buf *buf, const char *name, json_t *value)
{
    size_t begin = buf->len_bytes;
    cairn_status status = CAIRN_OK;
    if (name != NULL)
        status = cairn_buf_printf(buf, "event: %s\n", name);
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(buf, "data: ");
    if (status == CAIRN_OK) {
        status = cairn_json_write(buf, value);
    } else {
        json_decref(value);
    }
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(buf, "\n\n");
    if (status != CAIRN_OK && buf->bytes != NULL) {
        buf->len_bytes = begin;
        buf->bytes[begin] = 0;
    }
    return status;
}

cairn_status cairn_sse_done(cairn_buf *buf)
{
    return cairn_buf_append_str(buf, "data: [DONE]\n\n");
}

json_t *cairn_json_string(const char *text, size_t len_bytes)
{
    if (cairn_utf8_valid(text, len_bytes) == len_bytes)
        return json_stringn(text, len_bytes);
    size_t size = cairn_utf8_repair(text, len_bytes, NULL);
    char *copy = cairn_mem_alloc(cairn_mem_default(), size);
    if (copy == NULL)
        return NULL;
    (void)cairn_utf8_repair(text, len_bytes, copy);
    json_t *value = json_stringn(copy, size);
    cairn_mem_release(cairn_mem_default(), copy, size);
    return value;
}

static const char *anthropic_type(const cairn_api_error *error)
{
    switch (error->http) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return error->http >= 500 ? "api_error" : "invalid_request_error";
    }
}

/* Clients of this API know that they must shorten their history by the words of the message. */
static json_t *anthropic_error(const cairn_api_error *error)
{
    json_t *inner = json_pack("{s:s}", "type", anthropic_type(error));
    if (error->context_tokens != 0) {
        json_object_set_new(inner, "message",
                            json_sprintf("prompt is too long: %u tokens > %u maximum", error->prompt_tokens,
                                         error->context_tokens));
    } else {
        json_object_set_new(inner, "message", cairn_json_string(error->message, strlen(error->message)));
    }
    if (error->code != NULL && strcmp(error->code, "thread_unsupported_request") == 0) {
        json_object_set_new(
            inner, "details",
            json_pack("{s:s, s:[s]}", "error_code", error->code, "unsupported", error->param));
    }
    return json_pack("{s:s, s:o, s:n}", "type", "error", "error", inner, "request_id");
}

json_t *cairn_json_error(const cairn_api_error *error)
{
    if (error->anthropic)
        return anthropic_error(error);
    json_t *inner = json_object();
    json_object_set_new(inner, "message", cairn_json_string(error->message, strlen(error->message)));
    json_object_set_new(inner, "type", json_string(error->type != NULL ? error->type : "server_error"));
    json_object_set_new(inner, "param",
                        error->param[0] != '\0' ? cairn_json_string(error->param, strlen(error->param))
                                                : json_null());
    json_object_set_new(inner, "code", error->code != NULL ? json_string(error->code) : json_null());
    if (error->context_tokens != 0) {
        json_object_set_new(inner, "n_prompt_tokens", json_integer(error->prompt_tokens));
        json_object_set_new(inner, "n_ctx", json_integer(error->context_tokens));
    }
    return json_pack("{s:o}", "error", inner);
}
