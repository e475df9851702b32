/*
 * replies - responses that a later request may continue by their id (previous_response_id).
 *
 * What is kept of a response is its conversation as text: all messages up to and with the answer. Bounded in bytes and
 * count; the oldest go first, and a client that names one of those is told that it is not found. Nothing is written to
 * disk. Namespaces are walls: another namespace's id is not found either.
 *
 * Owner    copies in, copies out
 * Thread   any; one lock
 * Test     tests/serve/test_replies.c
 */
#ifndef CAIRN_REPLIES_H
#define CAIRN_REPLIES_H

#include <stddef.h>

#include "base/buf.h"
#include "cairn/prompt.h"

enum { CAIRN_REPLY_ID_BYTES_MAX = 63 };

typedef struct cairn_replies cairn_replies;

/*
 *   count_max, bytes_max  [in]  of all together; a text over a quarter of bytes_max is not kept
 */
CAIRN_MUST_CHECK cairn_status cairn_replies_new(const cairn_mem *mem, size_t count_max, size_t bytes_max,
                                                cairn_replies **ret_replies);
/* NULL is allowed. */
void cairn_replies_free(cairn_replies *replies);

/* Forget a namespace's replies, or all when `space` is NULL. */
void cairn_replies_forget(cairn_replies *replies, const cairn_namespace *space);

/*
 * Keep a conversation, char[len_bytes], under an id. One that can't be kept is left out: the id will not be found.
 */
void cairn_replies_put(cairn_replies *replies, const cairn_namespace *space, const char *id, const char *text,
                       size_t len_bytes);

/*
 * Append the conversation to `out`.
 * Errors   CAIRN_NOTFOUND, CAIRN_NOMEM, CAIRN_LIMIT
 */
CAIRN_MUST_CHECK cairn_status cairn_replies_get(cairn_replies *replies, const cairn_namespace *space,
                                                const char *id, cairn_buf *out);

#endif
