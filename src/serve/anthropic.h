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

typedef enum cairn_anthropic_use {
    CAIRN_ANTHROPIC_ANSWER = 0, /* /v1/messages                                                         */
    CAIRN_ANTHROPIC_COUNT = 1,  /* /v1/messages/count_tokens: without max_tokens                        */
    CAIRN_ANTHROPIC_WARM = 2    /* /cairn/warm: the same, and there may be no message                   */
} cairn_anthropic_use;

/*
 * Bring a request into chat completions' form.
 *
 *   request  [in]  a body of /v1/messages; what it may lack depends on its use
 *
 * After    the caller's; NULL with an error that names the field as the client wrote it
 * Cost     O(request); values are shared, arguments of calls are written out
 */
CAIRN_MUST_CHECK json_t *cairn_anthropic_to_chat(const json_t *request, cairn_anthropic_use use,
                                                 cairn_api_error *error);

/* Does the client want thinking blocks without their text (thinking.display "omitted")? */
bool cairn_anthropic_omits_thinking(const json_t *request);

/*
 * How a message looks. Sets all of *ret_shape, whose ctx is the caller's (shape.free).
 *
 *   omit_thinking  [in]  thinking blocks have a signature and no text
 *
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_anthropic_shape(bool omit_thinking, cairn_answer_shape *ret_shape);

#endif
