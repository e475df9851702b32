/*
 * llama_vocab - a model's words: text to tokens and back, special tokens, and what the model file says about itself.
 *
 * Units    text in bytes (UTF-8, but any bytes pass); counts in tokens
 * Owner    a cairn_llama_vocab is a view; it lives as long as its model. Texts it returns do, too
 * Thread   any number at once: nothing here changes the model
 * Errors   CAIRN_LIMIT when the caller's room is too small: *ret_count then says how much is needed
 */
#ifndef CAIRN_ENGINE_LLAMA_VOCAB_H
#define CAIRN_ENGINE_LLAMA_VOCAB_H

#include <stddef.h>

#include "cairn/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct llama_model;

enum { CAIRN_TOKEN_NONE = -1, CAIRN_PIECE_BYTES_MAX = 256 };

typedef struct cairn_llama_vocab {
    const struct llama_model *model;
    const void *vocab; /* struct llama_vocab */
} cairn_llama_vocab;

void cairn_llama_vocab_init(cairn_llama_vocab *vocab, const struct llama_model *model);

/* How many token ids there are: 0 <= id < size. */
uint32_t cairn_llama_vocab_size(const cairn_llama_vocab *vocab);

/*
 * Text to tokens.
 *
 *   text           [in]   uint8_t[len_bytes]; NUL bytes are text
 *   add_special    [in]   put the model's own begin and end tokens around it, where it has such
 *   parse_special  [in]   read "<|im_start|>" as the token, not as its letters. Never for text from outside
 *   tokens         [out]  cairn_token[room]; NULL is allowed with room 0
 *
 * After    CAIRN_OK: tokens[0, *ret_count). CAIRN_LIMIT: *ret_count is the room that is needed
 * Errors   CAIRN_LIMIT, CAIRN_INVALID (longer than 1 GiB)
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_tokenize(const cairn_llama_vocab *vocab, const char *text,
                                                   size_t len_bytes, bool add_special, bool parse_special,
                                                   cairn_token *tokens, uint32_t room, uint32_t *ret_count);

/*
 * Tokens to text, spaces and special tokens as they stand (unparse_special: special ones are written out).
 *
 *   text  [out]  char[room], not terminated; NULL is allowed with room 0
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_detokenize(const cairn_llama_vocab *vocab,
                                                     const cairn_token *tokens, uint32_t count,
                                                     bool unparse_special, char *text, uint32_t room,
                                                     uint32_t *ret_bytes);

/*
 * The bytes of one token; they may be a part of a character. char[CAIRN_PIECE_BYTES_MAX] is enough for ordinary
 * vocabularies; CAIRN_LIMIT says how much when it is not. Not terminated. CAIRN_INVALID: no such token.
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_piece(const cairn_llama_vocab *vocab, cairn_token token,
                                                bool special, char *text, uint32_t room, uint32_t *ret_bytes);

/* Does this token end an answer? */
bool cairn_llama_is_eog(const cairn_llama_vocab *vocab, cairn_token token);
/* Is it a control token, never shown as text? */
bool cairn_llama_is_control(const cairn_llama_vocab *vocab, cairn_token token);

/* Special tokens; CAIRN_TOKEN_NONE where the model has none. */
cairn_token cairn_llama_bos(const cairn_llama_vocab *vocab);
cairn_token cairn_llama_eos(const cairn_llama_vocab *vocab);
cairn_token cairn_llama_eot(const cairn_llama_vocab *vocab);
/* Tokens that a text with a gap is put together with; CAIRN_TOKEN_NONE where the model has none. */
typedef struct cairn_llama_fim {
    cairn_token prefix, suffix, middle; /* all three, or there is no filling in                          */
    cairn_token repository, file;       /* before other files                                            */
} cairn_llama_fim;
cairn_llama_fim cairn_llama_fim_get(const cairn_llama_vocab *vocab);
/* Does the model want its begin token in front of every prompt? */
bool cairn_llama_adds_bos(const cairn_llama_vocab *vocab);
bool cairn_llama_adds_eos(const cairn_llama_vocab *vocab);

/* The chat template in the model file; NULL when it has none. `name`: NULL for the usual one. */
const char *cairn_llama_chat_template(const cairn_llama_vocab *vocab, const char *name);

/* "qwen35 0.8B Q8_0", "qwen35 66.0M Q8_0": architecture, parameters, type of the weights; cut to room. Gives text. */
const char *cairn_llama_describe(const cairn_llama_vocab *vocab, char *text, size_t room);

/* The model file's value of a key ("general.name") as text, cut to room. false: no such key. */
bool cairn_llama_meta(const cairn_llama_vocab *vocab, const char *key, char *text, size_t room);

typedef struct cairn_llama_facts {
    uint64_t parameters;
    uint64_t weight_bytes;
    uint32_t train_tokens; /* context length it was trained for; 0: not said */
    uint32_t layers;
    uint32_t embedding;
    uint32_t window_tokens; /* of sliding-window layers; 0: none */
    bool recurrent;         /* recurrent layers only         */
    bool hybrid;            /* recurrent and attention       */
} cairn_llama_facts;

void cairn_llama_facts_get(const cairn_llama_vocab *vocab, cairn_llama_facts *ret_facts);

#ifdef __cplusplus
}
#endif
#endif
