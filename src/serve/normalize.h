/*
 * normalize - text at a prompt's head that changes while the conversation does not: found, and taken out on request.
 *
 * Some clients put a line into their system text that differs from session to session, or from minute to minute. All
 * that stands behind it is then read again. The rules are few, named, and listed in docs/api.md:
 *
 *   claude-billing   a line "x-anthropic-billing-header: ..." that begins a system message's text part.
 *                    Taken out: dropped; it tells the model nothing
 *   clock            a line of the system text that holds a time of day ("Current time: 2026-11-29 18:21").
 *                    Taken out: moved to the end of the last user message, as a <system-reminder>, so that the model
 *                    still knows the time and only the newest message changes with it
 *
 * Without `apply` nothing is changed: the prompt is the client's.
 *
 * Units    indices of messages and parts; bytes in the part
 * Thread   any; the body belongs to the caller
 * Test     tests/serve/test_normalize.c
 */
#ifndef CAIRN_NORMALIZE_H
#define CAIRN_NORMALIZE_H

#include <jansson.h>
#include <stdbool.h>

enum { CAIRN_NORMALIZE_NOTES_MAX = 16 };

/*
 * Look at the leading system messages of a chat request.
 *
 *   body         [in]   {"messages":[..]}; changed in place with `apply`
 *   ret_changed  [out]  was it?
 *
 * After    NULL when there is nothing to say; else the caller's: [{"rule":"claude-billing","message":0,"part":0,
 *          "byte":0,"bytes":81,"done":"reported" | "dropped" | "moved"}]
 * Cost     O(bytes of the leading system messages)
 */
json_t *cairn_normalize(json_t *body, bool apply, bool *ret_changed);

#endif
