/*
 * responses - OpenAI's Responses API, as far as clients of a local server need it.
 *
 *   {"instructions":..,"input":[message, reasoning, function_call, function_call_output],"tools":[..]}
 *        --> {"messages":[system, user, assistant with tool_calls, tool],"tools":[..]}   (cairn_responses_to_chat)
 *   deltas --> response.created, response.output_item.added, ..., response.completed     (cairn_responses_shape)
 *
 * Tools of a namespace get a flat name ("space__name") for the model, and their own again in the answer.
 *
 * Owner    as said at each function
 * Thread   any; one shape belongs to one answer
 * See      docs/api.md (Responses)
 * Test     tests/serve/test_responses.c
 */
#ifndef CAIRN_RESPONSES_H
#define CAIRN_RESPONSES_H

#include <jansson.h>

#include "serve/api_error.h"
#include "serve/replies.h"
#include "serve/shape.h"

/* A request in chat completions' form, and what the answer needs to know of it. All values are the caller's. */
typedef struct cairn_responses_request {
    json_t *chat;
    json_t *
        tool_names; /* {"space__name":{"name":"name","namespace":"space"}}, {"x":{"name":"x","custom":true}} */
    json_t *echo;   /* the request's fields that an answer repeats                                        */
    size_t
        count_instructions; /* leading messages of `chat` that later requests don't take over              */
} cairn_responses_request;

/*
 * Bring a request into chat completions' form.
 *
 *   request   [in]   a body of /v1/responses
 *   previous  [in]   the messages of the response that is continued, a JSON array; NULL: none
 *
 * After    true: *ret_request is set, to be given back with cairn_responses_release. false: an error that names the
 *          field as the client wrote it, and nothing to give back
 */
CAIRN_MUST_CHECK bool cairn_responses_to_chat(const json_t *request, const json_t *previous,
                                              cairn_responses_request *ret_request, cairn_api_error *error);
void cairn_responses_release(cairn_responses_request *request);

/* Where an answer is kept for previous_response_id. */
typedef struct cairn_responses_keep {
    cairn_replies
        *replies; /* NULL: not kept (store: false)                                                  */
    cairn_namespace space;
} cairn_responses_keep;

/*
 * How a response looks. Takes what it needs of `request` by reference; sets all of *ret_shape, whose ctx is the caller's.
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_responses_shape(const cairn_responses_request *request,
                                                    const cairn_responses_keep *keep,
                                                    cairn_answer_shape *ret_shape);

#endif
