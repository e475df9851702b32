/*
 * replies - responses that a later request may continue (previous_response_id) or ask for by their id.
 *
 * Two texts are kept of a response: its conversation, all messages up to and with the answer, and the response as the
 * client was told it. Bounded in bytes and count; the oldest go first, and a client that names one of those is told that it
 * is not found. Nothing is written to disk. Namespaces are walls: another namespace's id is not found either.
 *
 * Owner    copies in, copies out
 * Thread   any; one lock
 * Test     tests/serve/test_replies.c
 */
#ifndef CAIRN_REPLIES_H
#define CAIRN_REPLIES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "cairn/prompt.h"

enum { CAIRN_REPLY_ID_BYTES_MAX = 63 };

typedef struct cairn_replies cairn_replies;

typedef struct cairn_replies_stats {
    uint64_t kept, bytes, bytes_max;
    uint64_t evicted; /* ever                                                                          */
} cairn_replies_stats;

/*
 *   count_max, bytes_max  [in]  of all together; one over a quarter of bytes_max is not kept, so that 0 keeps none
 */
CAIRN_MUST_CHECK cairn_status cairn_replies_new(const cairn_mem *mem, size_t count_max, size_t bytes_max,
                                                cairn_replies **ret_replies);
/* NULL is allowed. */
void cairn_replies_free(cairn_replies *replies);

/* What is kept of one; texts are char[.._bytes], borrowed for the call. */
typedef struct cairn_reply {
    const char *conversation; /* a JSON array of messages                                            */
    size_t conversation_bytes;
    const char *response; /* a JSON object                                                           */
    size_t response_bytes;
} cairn_reply;

typedef enum cairn_reply_part { CAIRN_REPLY_CONVERSATION = 0, CAIRN_REPLY_RESPONSE = 1 } cairn_reply_part;

/* Forget a namespace's replies, or all when `space` is NULL. */
void cairn_replies_forget(cairn_replies *replies, const cairn_namespace *space);

/*
 * Keep both texts under an id. One that can't be kept is left out: the id will not be found.
 */
void cairn_replies_put(cairn_replies *replies, const cairn_namespace *space, const char *id,
                       const cairn_reply *reply);

/*
 * Append one of the texts to `out`.
 * Errors   CAIRN_NOTFOUND, CAIRN_NOMEM, CAIRN_LIMIT
 */
CAIRN_MUST_CHECK cairn_status cairn_replies_get(cairn_replies *replies, const cairn_namespace *space,
                                                const char *id, cairn_reply_part part, cairn_buf *out);

/* Forget one. false: it is not there. */
bool cairn_replies_remove(cairn_replies *replies, const cairn_namespace *space, const char *id);

void cairn_replies_stats_get(cairn_replies *replies, cairn_replies_stats *ret_stats);

#endif
