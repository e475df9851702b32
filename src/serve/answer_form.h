/*
 * answer_form - what a message says, in one way of writing it.
 *
 * Clients send an answer back in their own words: arguments serialised anew, keys in another order, a default added,
 * white space at the end gone, content null or "". The form is the same text for all of these, and another text as soon
 * as something was really changed:
 *
 *   {"role":"assistant","content":"","tool_calls":[{.. "arguments":"{\"a\": 1.0, \"b\": \"\\u00e9\"}"}]}
 *   {"role":"assistant","content":null,"tool_calls":[{.. "arguments":"{\"b\":\"é\",\"a\":1}"}]}     the same form
 *
 * Equal          key order, JSON white space, escapes, 1 and 1.0 (numbers of equal value), "" and {} as arguments,
 *                content null, "" or absent, a string or a list of text parts, white space at the end of the content, a
 *                default that a known client adds (see the table in answer_form.c)
 * Not in it      call ids, `name`, cache_control, and reasoning, which cairn_answer_reasoning_fits looks at
 * Different      anything else: another value, another order of calls, white space at the front
 *
 * Owner    what is appended belongs to the buffer's owner
 * Thread   any
 * See      docs/internals/answers.md
 * Test     tests/serve/test_answer_form.c
 */
#ifndef CAIRN_ANSWER_FORM_H
#define CAIRN_ANSWER_FORM_H

#include <jansson.h>

#include "base/buf.h"

/*
 * Append the form of a message of a chat completion.
 * Errors  CAIRN_NOMEM, CAIRN_LIMIT; the buffer is then as it was
 * Cost    O(bytes of the message)
 */
CAIRN_MUST_CHECK cairn_status cairn_answer_form(const json_t *message, cairn_buf *out);

/* Append the ids of a message's calls, one a line; nothing when it has none or one of them has no id. */
CAIRN_MUST_CHECK cairn_status cairn_answer_call_ids(const json_t *message, cairn_buf *out);

/* The reasoning that came back is the answer's own, up to white space around it, or was left out. */
bool cairn_answer_reasoning_fits(const json_t *message, const json_t *answer);

/*
 * The message as the client sent it, with what it says written as in `answer`: content, arguments, reasoning. Call ids
 * and other fields stay. Both have the same form.
 *
 *   ret_changed  [out]  does it differ from the client's?
 *
 * After    the caller's; NULL when there is no memory
 */
json_t *cairn_answer_put_back(const json_t *message, const json_t *answer, bool *ret_changed);

/* Append a request's text, with all digits of its numbers: rendered, it is the request. */
CAIRN_MUST_CHECK cairn_status cairn_answer_request(const json_t *request, cairn_buf *out);

#endif
