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

/* Tokens on the heap. */
typedef struct cairn_tokens {
    cairn_token *items; /* cairn_token[count]; NULL when there are none */
    uint32_t count;
} cairn_tokens;

/* Give them back. */
void cairn_tokens_release(const cairn_mem *mem, cairn_tokens *tokens);

enum {
    CAIRN_TOKENS_ADD_SPECIAL = 1u << 0,  /* the model's begin and end tokens around it                  */
    CAIRN_TOKENS_PARSE_SPECIAL = 1u << 1 /* "<|im_start|>" is the token, not its letters                */
};

/*
 * All tokens of a text. flags are CAIRN_TOKENS_* or-ed.
 * Errors   CAIRN_NOMEM, CAIRN_INVALID; *ret_tokens is then empty
 */
CAIRN_MUST_CHECK cairn_status cairn_tokens_of(const cairn_mem *mem, const cairn_llama_vocab *vocab,
                                              const char *text, size_t len_bytes, unsigned flags,
                                              cairn_tokens *ret_tokens);

/*
 * Positions of a rendered prompt's boundaries. A place inside a long assistant opener where a longer conversation
 * will part has both THINK_START and OPENER.
 *
 *   out        [out]  cairn_boundary[prompt->count_boundaries]
 *   ret_count  [out]  0 when the tokens can't be laid over the text: boundaries are hints, never needed
 *
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_tokens_boundaries(const cairn_mem *mem, const cairn_llama_vocab *vocab,
                                                      const cairn_chat_prompt *prompt,
                                                      const cairn_tokens *tokens, cairn_boundary *out,
                                                      uint32_t *ret_count);

#endif
