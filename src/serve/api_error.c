/*
 * api_error - the constructors of client errors. Knows nothing of HTTP libraries and JSON libraries; json_answer.c
 * writes the value out.
 */
#include "serve/api_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void put_message(cairn_api_error *error, const char *format, va_list args) CAIRN_PRINTF(2, 0);
static void put_message(cairn_api_error *error, const char *format, va_list args)
{
    (void)vsnprintf(error->message, sizeof error->message, format, args);
}

static void put_param(cairn_api_error *error, const char *param)
{
    (void)snprintf(error->param, sizeof error->param, "%s", param != NULL ? param : "");
}

void cairn_api_error_bad(cairn_api_error *error, const char *param, const char *format, ...)
{
    if (error->http != 0)
        return;
    error->http = 400;
    error->type = "invalid_request_error";
    error->code = NULL;
    put_param(error, param);
    va_list args;
    va_start(args, format);
    put_message(error, format, args);
    va_end(args);
}

void cairn_api_error_set(cairn_api_error *error, int http, const char *type, const char *code,
                         const char *format, ...)
{
    if (error->http != 0)
        return;
    error->http = http;
    error->type = type;
    error->code = code;
    va_list args;
    va_start(args, format);
    put_message(error, format, args);
    va_end(args);
}

void cairn_api_error_context(cairn_api_error *error, const char *param, uint32_t prompt_tokens,
                             uint32_t context_tokens)
{
    if (error->http != 0)
        return;
    cairn_api_error_set(error, 400, "invalid_request_error", "context_length_exceeded",
                        "This model's maximum context length is %u tokens, but the prompt has %u tokens. "
                        "Shorten the conversation, or start the server with a larger context (-c).",
                        context_tokens, prompt_tokens);
    put_param(error, param);
    error->prompt_tokens = prompt_tokens;
    error->context_tokens = context_tokens;
}

void cairn_api_error_from(cairn_api_error *error, const cairn_error *cause)
{
    int http = cairn_status_http(cause->status);
    const char *type = http == 503   ? "unavailable_error"
                       : http >= 500 ? "server_error"
                                     : "invalid_request_error";
    cairn_api_error_set(error, http, type, NULL, "%s%s%s", cairn_status_message(cause->status),
                        cause->detail[0] != '\0' ? ": " : "", cause->detail);
}

bool cairn_api_error_is_anthropic(const char *path)
{
    static const char root[] = "/v1/messages";
    size_t n = sizeof root - 1;
    return strncmp(path, root, n) == 0 && (path[n] == '\0' || path[n] == '/');
}
