/*
 * json_answer - JSON going out: values become text in a buffer, SSE events, and error objects.
 *
 * jansson builds a value; this file writes it with one set of flags (compact, order kept, 15 digits) and gives the
 * value back. A value that could not be built (NULL: no memory) gives CAIRN_NOMEM here, so that builders need no checks
 * of their own.
 *
 * Owner    every function that takes a `json_t *` here takes it over, success or not
 * Thread   any
 */
#ifndef CAIRN_JSON_ANSWER_H
#define CAIRN_JSON_ANSWER_H

#include <jansson.h>

#include "base/buf.h"
#include "serve/api_error.h"

/* Append the value as text. Errors: CAIRN_NOMEM, CAIRN_LIMIT. */
CAIRN_MUST_CHECK cairn_status cairn_json_write(cairn_buf *buf, json_t *value);

/*
 * Append one server-sent event: "data: {...}\n\n", with "event: name\n" before it when name is not NULL.
 * Whole or not at all. Errors: CAIRN_NOMEM, CAIRN_LIMIT.
 */
CAIRN_MUST_CHECK cairn_status cairn_sse_write(cairn_buf *buf, const char *name, json_t *value);

/* Append "data: [DONE]\n\n". */
CAIRN_MUST_CHECK cairn_status cairn_sse_done(cairn_buf *buf);

/* A string value of any bytes: what is not UTF-8 becomes U+FFFD. NULL when there is no memory. */
json_t *cairn_json_string(const char *text, size_t len_bytes);

/* The error in its API's shape: OpenAI's, or Anthropic's when error->anthropic is set. */
json_t *cairn_json_error(const cairn_api_error *error);

#endif
