/*
 * synth_vocab - a vocabulary for a synthetic model: taken from a vocabulary-only GGUF file, cut or filled up.
 *
 * A byte-pair vocabulary is cut by keeping its first merges: they were learned in order of frequency, and each one
 * joins two pieces that single bytes or earlier merges made, so any number of first merges is a complete tokenizer.
 * All special, control and single-byte tokens stay. Placeholders ("[PAD151646]") get the special tokens' names that the
 * architecture's chat template uses; those left over are dropped (or, when filling up, marked unused).
 *
 *   file    ! " # ... a b c ...  | merged tokens, frequent first         | specials | placeholders
 *   cut     ! " # ... a b c ...  | the results of the first merges       | specials
 *
 * Owner    the caller owns the vocabulary; texts are borrowed from the file's metadata, which it holds
 * Thread   any; no shared state
 * See      docs/internals/synth.md
 */
#ifndef CAIRN_ENGINE_SYNTH_VOCAB_H
#define CAIRN_ENGINE_SYNTH_VOCAB_H

#include <stdint.h>

#include "cairn/mem.h"
#include "cairn/status.h"
#include "engine/synth_arch.h"

struct gguf_context;

enum { CAIRN_SYNTH_FILLER_BYTES = 24 };

typedef struct cairn_synth_vocab {
    cairn_mem *mem;
    struct gguf_context *file; /* what the texts point into */
    uint32_t tokens_room;      /* tokens that the arrays have room for */
    uint32_t tokens_count;
    const char **tokens; /* const char *[tokens_count] */
    int32_t *types;      /* int32_t[tokens_count], enum llama_token_type */
    uint32_t merges_room;
    uint32_t merges_count;
    const char **merges; /* const char *[merges_count] */
    char *fillers;       /* texts of unused tokens: char[tokens_room][CAIRN_SYNTH_FILLER_BYTES] */
} cairn_synth_vocab;

/*
 * Read the vocabulary at `path` and fit it to the size of an architecture.
 *
 * After    CAIRN_OK: release it with cairn_synth_vocab_release. Otherwise *ret_vocab needs no release.
 * Errors   CAIRN_NOTFOUND, CAIRN_IO  the file can't be opened
 *          CAIRN_CORRUPT  it is not a GGUF file with a byte-pair vocabulary
 *          CAIRN_NOMEM
 * Test     tests/engine/test_synth.c
 */
CAIRN_MUST_CHECK cairn_status cairn_synth_vocab_init(cairn_synth_vocab *ret_vocab, cairn_mem *mem,
                                                     const char *path, const cairn_synth_arch *arch,
                                                     const cairn_synth_size *size, cairn_error *reterr);

void cairn_synth_vocab_release(cairn_synth_vocab *vocab);

/* The id of the token with that text, or UINT32_MAX. Cost: a linear search. */
uint32_t cairn_synth_vocab_find(const cairn_synth_vocab *vocab, const char *text);

/* Write the tokenizer's keys into `kv`. */
void cairn_synth_vocab_metadata(const cairn_synth_vocab *vocab, const cairn_synth_arch *arch,
                                struct gguf_context *kv);

/*
 * How strongly each token's row of the embedding (or output head) is drawn, relative to an ordinary token: nearly 0 for
 * unused and control tokens, so that they are improbable, and more than 1 for the tokens that end an answer, so that
 * answers end after some tens of tokens.
 *
 *   factors  [out]  float[vocab->tokens_count]
 */
void cairn_synth_vocab_factors(const cairn_synth_vocab *vocab, const cairn_synth_arch *arch, float *factors);

#endif
