/*
 * api_error - what a client is told when its request can't be served, in the shape of the API that it speaks.
 *
 *   OpenAI     {"error":{"message":"...","type":"invalid_request_error","param":"messages","code":null}}
 *   Anthropic  {"type":"error","error":{"type":"invalid_request_error","message":"..."},"request_id":null}
 *
 * One value travels from the place that found the mistake to the place that writes the answer. The first mistake wins:
 * every setter leaves an error that is set already alone, so that a validator can check all fields in a row.
 *
 * Owner    a value: it owns nothing and may be copied
 * Thread   any
 * See      docs/api.md (errors)
 */
#ifndef CAIRN_API_ERROR_H
#define CAIRN_API_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "cairn/status.h"

typedef struct cairn_api_error {
    int http;         /* status code of the answer; 0: no error                                */
    const char *type; /* a constant: "invalid_request_error"                                   */
    const char *code; /* a constant: "context_length_exceeded"; NULL: null                      */
    char param[96];   /* the field: "messages[2].role"; "": null                               */
    char message[512];
    char allow[48];          /* for 405: the methods that exist; "": none                         */
    uint32_t retry_after_s;  /* for 429 and 503; 0: none                                        */
    uint32_t prompt_tokens;  /* for context_length_exceeded: what was asked for ...              */
    uint32_t context_tokens; /* ... and what there is; 0: left out                              */
    bool close;              /* the connection can't be trusted any more                         */
    bool anthropic;          /* written in Anthropic's shape                                     */
} cairn_api_error;

/* Set a mistake of the client: 400, invalid_request_error. `param` NULL or "" for none. */
void cairn_api_error_bad(cairn_api_error *error, const char *param, const char *format, ...)
    CAIRN_PRINTF(3, 4);

/* Set any error. `type` and `code` are constants; `code` may be NULL. */
void cairn_api_error_set(cairn_api_error *error, int http, const char *type, const char *code,
                         const char *format, ...) CAIRN_PRINTF(5, 6);

/* The prompt is longer than the context: the text and code by which clients know to shorten their history. */
void cairn_api_error_context(cairn_api_error *error, const char *param, uint32_t prompt_tokens,
                             uint32_t context_tokens);

/* Do clients of this path expect errors in Anthropic's shape? */
bool cairn_api_error_is_anthropic(const char *path);

/* Set from a library's error: its HTTP mapping, a type that fits, the detail as message. */
void cairn_api_error_from(cairn_api_error *error, const cairn_error *cause);

#endif
