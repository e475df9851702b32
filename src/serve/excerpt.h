/*
 * excerpt - the texts at a divergence, side by side, and what they suggest about the client.
 *
 *   before   "...<|im_start|>system\nToday is "       the same on both sides
 *   known    "Monday, 09:14"                          how a known conversation goes on
 *   given    "Monday, 09:15"                          how this prompt goes on
 *   hint     "The system prompt holds a date or time that changes: ..."
 *
 * Texts are cut to a few words. They are kept in memory with the record and never logged; the server doesn't take
 * them with no_excerpts.
 *
 * Owner    a plain struct
 * Thread   take: the thread that owns the cache, before the request begins; the rest: any
 * See      docs/guide-agents.md
 */
#ifndef CAIRN_EXCERPT_H
#define CAIRN_EXCERPT_H

#include <jansson.h>

#include "cairn/cairn.h"
#include "engine/llama_vocab.h"

enum { CAIRN_EXCERPT_TOKENS = 24, CAIRN_EXCERPT_BYTES = 320 };

typedef struct cairn_excerpt {
    bool there;        /* something known goes on where the prompt parts from it                      */
    uint32_t position; /* where                                                                       */
    char before[CAIRN_EXCERPT_BYTES], known[CAIRN_EXCERPT_BYTES], given[CAIRN_EXCERPT_BYTES];
} cairn_excerpt;

/* Look at where the prompt parts from what is known. Nothing known: `there` stays false. */
void cairn_excerpt_take(cairn_excerpt *excerpt, const cairn_cache *cache, const cairn_llama_vocab *vocab,
                        const cairn_prompt *prompt);

/* A prompt: cairn_token[count]. */
typedef struct cairn_excerpt_side {
    const cairn_token *tokens;
    uint32_t count;
} cairn_excerpt_side;

/* The texts where two prompts part, after `position` tokens. */
void cairn_excerpt_sides(cairn_excerpt *excerpt, const cairn_llama_vocab *vocab,
                         const cairn_excerpt_side *known, const cairn_excerpt_side *given, uint32_t position);

/*
 * What the two texts suggest, in plain words; NULL: nothing.
 *
 *   role  [in]  cairn_role of the message that the divergence falls into
 */
const char *cairn_excerpt_hint(const char *before, const char *known, const char *given, uint8_t role);

/* {"excerpt":{"before":..,"known":..,"given":..},"hint":..}, either only where it is there; the caller's. */
json_t *cairn_excerpt_json(const cairn_excerpt *excerpt, const cairn_record *record);

#endif
