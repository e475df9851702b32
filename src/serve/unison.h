/*
 * unison - equal greedy requests that are there at the same time give one answer.
 *
 *   key      all that chooses the tokens: namespace, prompt, sampling fields, grammar
 *   chosen   t0 t1 t2 t3
 *                  ^     ^
 *                  B     A    A is the first to come to place 4: it chooses by its own logits, and notes t4
 *                             B is at 2: it takes t2
 *
 * In fast mode the last bits of logits depend on where a prompt was cut and on who else was in a decode, so at a near tie of
 * two tokens equal requests would go different ways. Here whoever comes to a place first chooses for all. Each still
 * decodes every token in its own slot, ends by its own limits and stops, and has a record of its own. Nobody leads:
 * when one is stopped the others go on.
 *
 * Owner    the list belongs to the caller and outlives all that joined; each of them leaves once
 * Thread   join and leave: any. get and note: one thread for all, the scheduler's
 * Cost     a SHA-256 of the prompt's tokens for the key; 4 bytes a token of answer
 * See      docs/decisions/0011-equal-greedy-requests.md
 */
#ifndef CAIRN_UNISON_H
#define CAIRN_UNISON_H

#include <pthread.h>

#include "base/hash.h"
#include "cairn/prompt.h"
#include "chat/sampler_bridge.h"

typedef struct cairn_unison cairn_unison;

/* The answers that are being written. */
typedef struct cairn_unisons {
    const cairn_mem *mem;
    uint32_t answer_tokens_max; /* of one answer: further tokens are chosen by each on its own         */
    pthread_mutex_t lock;
    cairn_unison *first; /* guarded by the lock                                                    */
} cairn_unisons;

void cairn_unisons_init(cairn_unisons *list, const cairn_mem *mem, uint32_t answer_tokens_max);
/* All have left. */
void cairn_unisons_release(cairn_unisons *list);

/*
 * What chooses the tokens of a greedy answer. Equal keys: equal answers, but for the last bits of logits.
 *
 *   settings [in]  temperature <= 0
 *
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_unison_key(const cairn_mem *mem, const cairn_prompt *prompt,
                                               const cairn_sampler_settings *settings, cairn_digest *ret_key);

/* Join those with the same key, or be the first. NULL: no memory; the request then chooses by itself. */
cairn_unison *cairn_unison_join(cairn_unisons *list, const cairn_digest *key);
/* The last one takes what was chosen along. NULL is allowed. */
void cairn_unison_leave(cairn_unison *unison);

/* Was token `index` of the answer chosen already? NULL: it never was. */
bool cairn_unison_get(const cairn_unison *unison, uint32_t index, cairn_token *ret_token);
/* Token `index` is chosen, for all. Without memory it stays one request's own choice, and so do those behind it. */
void cairn_unison_note(cairn_unison *unison, uint32_t index, cairn_token token);

#endif
