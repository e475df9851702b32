/*
 * tokens - a prompt's text becomes tokens, and its boundaries positions in them.
 *
 * The text is tokenized in one go, special tokens parsed, so that the tokens are those that every server of the
 * llama.cpp family would make; a boundary that falls inside a token goes down to its start.
 *
 * Owner    arrays are the caller's: cairn_mem_array_release with the count that was returned
 * Thread   any
 */
#ifndef CAIRN_SERVE_TOKENS_H
#define CAIRN_SERVE_TOKENS_H

#include "cairn/mem.h"
#include "chat/bridge.h"
#include "engine/llama_vocab.h"

/*
 * All tokens of a text.
 *
 *   ret_tokens [out]  cairn_token[*ret_count]; NULL when there are none
 *
 * Errors   CAIRN_NOMEM, CAIRN_INVALID
 */
CAIRN_MUST_CHECK cairn_status cairn_tokens_of(const cairn_mem *mem, const cairn_llama_vocab *vocab,
                                              const char *text, size_t len_bytes, bool add_special,
                                              bool parse_special, cairn_token **ret_tokens,
                                              uint32_t *ret_count);

/*
 * Positions of a rendered prompt's boundaries.
 *
 *   out        [out]  cairn_boundary[prompt->count_boundaries]
 *   ret_count  [out]  0 when the tokens can't be laid over the text: boundaries are hints, never needed
 *
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_tokens_boundaries(const cairn_mem *mem, const cairn_llama_vocab *vocab,
                                                      const cairn_chat_prompt *prompt,
                                                      const cairn_token *tokens, uint32_t count,
                                                      cairn_boundary *out, uint32_t *ret_count);

#endif
