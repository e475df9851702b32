/*
 * logprobs - how probable the tokens of an answer were, in the forms that clients know.
 *
 *   logits, token --entry--> {"id":9707,"token":"Hello","bytes":[72,..],"logprob":-0.1,"top_logprobs":[{..},..]}
 *   entries --chat--> {"content":[..],"refusal":null}
 *           --text--> {"tokens":[..],"token_logprobs":[..],"top_logprobs":[{..}],"text_offset":[..]}
 *
 * The probabilities are those at temperature 1, before any sampling step.
 *
 * Owner    values are the caller's; NULL when there is no memory
 * Thread   any
 * Test     tests/serve/test_logprobs.c, tests/e2e/choices.test.mjs
 */
#ifndef CAIRN_LOGPROBS_H
#define CAIRN_LOGPROBS_H

#include <jansson.h>

#include "engine/llama_vocab.h"

enum { CAIRN_LOGPROBS_TOP_MAX = 20 };

/*
 * One token.
 *
 *   logits  [in]  float[cairn_llama_vocab_size(vocab)], from which it was chosen
 *   top     [in]  how many others are listed, most probable first; at most CAIRN_LOGPROBS_TOP_MAX
 *
 * Cost     O(vocabulary)
 */
json_t *cairn_logprobs_entry(const cairn_llama_vocab *vocab, const float *logits, cairn_token token,
                             uint32_t top);

/* `entries`, a list of the above, as chat completions have it. Shares them. */
json_t *cairn_logprobs_chat(json_t *entries);

/*
 * The same as completions have it.
 *
 *   offset  [in]  where the first token begins in the choice's text, in characters
 */
json_t *cairn_logprobs_text(const json_t *entries, size_t offset);

/* Characters of a text, as text_offset counts them: char[len_bytes], UTF-8. */
size_t cairn_logprobs_characters(const char *text, size_t len_bytes);

#endif
