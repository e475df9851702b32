/*
 * signpost - the last few tokens before places where requests parted, so that a like place is known in a new text.
 *
 * A branch point helps the path that it is on. But what makes requests part is often a text that stands in many paths: the
 * last line of a client's preamble, after which the user's own words begin; the field of a tool call behind which an answer
 * comes back changed. So the CAIRN_SIGNPOST_TOKENS tokens before each divergence are remembered by their hash, with how
 * often requests parted behind them and how often they were passed. Where they come again, a cut may be worth its price
 * before anything has parted there.
 *
 *   ... "the date is today ." | fix the bug            tokens before | : hash, parted 3, passed 4
 *
 * Only a place is guessed, never a match: a wrong guess costs a cut and a state. Exact mode doesn't use them, because its
 * cuts depend on the prompt alone.
 *
 * Owner    a namespace's; counted as index bytes
 * Cost     O(1) a token that is walked
 */
#ifndef CAIRN_CORE_SIGNPOST_H
#define CAIRN_CORE_SIGNPOST_H

#include "cairn/engine.h"

enum { CAIRN_SIGNPOST_TOKENS = 8, CAIRN_SIGNPOSTS = 64 };

typedef struct cairn_signpost {
    uint64_t hash;
    float parted, passed; /* decayed                                                                */
} cairn_signpost;

/* What was learned in one namespace. All zero: nothing. */
typedef struct cairn_signposts {
    uint64_t filter[4]; /* a bit for the low byte of each hash                                      */
    uint32_t count;
    cairn_signpost items[CAIRN_SIGNPOSTS];
} cairn_signposts;

/* The last tokens of a walk. All zero: none yet. */
typedef struct cairn_signpost_walk {
    cairn_token last[CAIRN_SIGNPOST_TOKENS]; /* a ring                                               */
    uint64_t hash;
    uint32_t count; /* tokens walked                                                                */
} cairn_signpost_walk;

/* Walk one token on. Gives the signpost that ends with it, or NULL. */
cairn_signpost *cairn_signpost_step(cairn_signposts *posts, cairn_signpost_walk *walk, cairn_token token);

/* A walk that has come to `position` of these tokens. */
void cairn_signpost_start(cairn_signpost_walk *walk, const cairn_token *tokens, uint32_t position);

/* A request parted at `position` (at least CAIRN_SIGNPOST_TOKENS) of these tokens. */
void cairn_signpost_parted(cairn_signposts *posts, const cairn_token *tokens, uint32_t position);

/* Chance that a request parts here; never sure, as the place is only like another. */
double cairn_signpost_chance(const cairn_signpost *post);

#endif
