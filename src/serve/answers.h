/*
 * answers - the answers that were generated, so that they are known when a client sends them back.
 *
 *   end of an answer:  keep(namespace, conversation, message, tokens)
 *   next request:      find(namespace, conversation, message) -> message and tokens as they were generated
 *
 * An answer is found by its call ids, else by the conversation that it ended: a hash over the forms (answer_form.h) of
 * all messages up to it. Then its form must be the message's, byte for byte. Whether its tokens may stand in a prompt
 * is decided by recall.h; this module only remembers.
 *
 * Bounded: what is kept, index included, stays under a byte limit; what was not used for the longest time goes first.
 * Never crosses namespaces.
 *
 * Units    bytes, tokens
 * Owner    what is found is borrowed by reference: cairn_answers_unref gives it back
 * Thread   any; one lock
 * See      docs/internals/answers.md
 * Test     tests/serve/test_answers.c
 */
#ifndef CAIRN_ANSWERS_H
#define CAIRN_ANSWERS_H

#include <jansson.h>

#include "base/hash.h"
#include "cairn/prompt.h"

typedef struct cairn_answers cairn_answers;
typedef struct cairn_answers_log cairn_answers_log;

/* The prompt that an answer was generated from: text as rendered, tokens as read. */
typedef struct cairn_answer_origin {
    cairn_hash128 text; /* cairn_hash_bytes of the text                                                */
    size_t text_bytes;
    uint64_t chain; /* cairn_hash_chain_tokens of the tokens                                          */
    uint32_t count_tokens;
} cairn_answer_origin;

/* Fixed once it is kept. */
typedef struct cairn_answer_kept {
    cairn_answer_origin origin;
    const char *message; /* char[message_bytes], JSON: what the client was given                       */
    size_t message_bytes;
    const cairn_token *tokens; /* cairn_token[count_tokens], without the token that ended it             */
    uint32_t count_tokens;
} cairn_answer_kept;

typedef struct cairn_answers_stats {
    uint64_t kept, bytes, bytes_max;
    uint64_t evicted; /* ever                                                                          */
} cairn_answers_stats;

/*
 *   bytes_max  [in]  0: nothing is kept
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_answers_new(const cairn_mem *mem, uint64_t bytes_max,
                                                cairn_answers **ret_answers);
/* NULL is allowed. Nothing found may be held any more. */
void cairn_answers_free(cairn_answers *answers);

/* From now on answers are kept on disk, too, and those of former runs are known. `log` outlives the answers. */
void cairn_answers_attach(cairn_answers *answers, cairn_answers_log *log);

/*
 * The conversation after one more message, starting from zero.
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_answers_follow(const cairn_mem *mem, cairn_hash128 *conversation,
                                                   const json_t *message);

/*
 * Remember an answer; one with the same namespace, conversation and origin is replaced. What can't be kept (no
 * memory, larger than the limit, not JSON) is not.
 *
 *   conversation  [in]  up to the answer, without it
 */
void cairn_answers_keep(cairn_answers *answers, const cairn_namespace *space, cairn_hash128 conversation,
                        const cairn_answer_kept *answer);

/*
 * The answer that `message` is, and that was kept last; NULL: none is known.
 *
 *   conversation  [in]  up to and with the message
 */
const cairn_answer_kept *cairn_answers_find(cairn_answers *answers, const cairn_namespace *space,
                                            cairn_hash128 conversation, const json_t *message);
void cairn_answers_unref(cairn_answers *answers, const cairn_answer_kept *answer);
/* It was put in place: it goes last now. */
void cairn_answers_touch(cairn_answers *answers, const cairn_answer_kept *answer);

/* Forget a namespace's answers, or all when `space` is NULL. Those that a request holds stay until it gives them back. */
void cairn_answers_forget(cairn_answers *answers, const cairn_namespace *space);

void cairn_answers_stats_get(cairn_answers *answers, cairn_answers_stats *ret_stats);

#endif
