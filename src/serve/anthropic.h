/*
 * anthropic - the Messages API: requests become chat completions, answers become messages and their events.
 *
 *   {"system":..,"messages":[{"role":"user","content":[tool_result, text]}],"tools":[..]}
 *        --> {"messages":[system, tool, user],"tools":[..]}     (cairn_anthropic_to_chat)
 *   deltas --> message_start, content_block_start/delta/stop ..., message_delta, message_stop   (cairn_anthropic_shape)
 *
 * Owner    as said at each function
 * Thread   any; one shape belongs to one answer
 * See      docs/api.md (Messages)
 * Test     tests/serve/test_anthropic.c
 */
#ifndef CAIRN_ANTHROPIC_H
#define CAIRN_ANTHROPIC_H

#include <jansson.h>

#include "serve/api_error.h"
#include "serve/shape.h"

/*
 * Bring a request into chat completions' form.
 *
 *   request  [in]  a body of /v1/messages, or with `count` of /v1/messages/count_tokens (which has no max_tokens)
 *
 * After    the caller's; NULL with an error that names the field as the client wrote it
 * Cost     O(request); values are shared, arguments of calls are written out
 */
CAIRN_MUST_CHECK json_t *cairn_anthropic_to_chat(const json_t *request, bool count, cairn_api_error *error);

/*
 * How a message looks. Sets all of *ret_shape, whose ctx is the caller's (shape.free).
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_anthropic_shape(cairn_answer_shape *ret_shape);

#endif
