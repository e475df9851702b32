/*
 * cache_support - a cache over a replica engine with a virtual clock, conversations, and the cold run that
 * every answer is compared with.
 *
 * A world has two engines with the same weights: one with the cache under test, one that is read cold (a
 * cache that is off: the same cuts, nothing kept). After every step of the first, all invariants are checked.
 */
#ifndef CAIRN_TESTS_CACHE_SUPPORT_H
#define CAIRN_TESTS_CACHE_SUPPORT_H

#include "base/mem_test.h"
#include "base/rng.h"
#include "cache/cache_internal.h"
#include "cairn/cairn.h"
#include "engine/engine_replica.h"
#include "test_support.h"

/* --- conversations ---------------------------------------------------------------------------------------- */

enum { TALK_MESSAGES_MAX = 256, FRAME_TOKENS = 4, OPENER_TOKENS = 3 };

typedef struct message {
    cairn_role role;
    uint64_t seed;       /* words; two messages with equal seeds have equal words                       */
    uint32_t count;      /* words                                                                       */
    cairn_token *answer; /* when not NULL the words are these: cairn_token[count], owned                */
    bool mark;           /* the client marks its end                                                    */
} message;

typedef struct talk {
    uint32_t count;
    message messages[TALK_MESSAGES_MAX];
} talk;

void talk_release(talk *t);
void talk_copy(talk *to, const talk *from);
void talk_add(talk *t, cairn_role role, uint64_t seed, uint32_t count);
void talk_add_answer(talk *t, const cairn_token *tokens, uint32_t count);
/* Cut it to its first `count` messages. */
void talk_cut(talk *t, uint32_t count);
void talk_remove(talk *t, uint32_t index);
/* One of four messages and some 3,000 tokens; its words follow from the seed. */
void talk_long(talk *t, uint64_t seed);

/* A prompt with its own tokens and boundaries. */
typedef struct rendered {
    cairn_prompt prompt;
    cairn_token *tokens;
    cairn_boundary *boundaries;
    uint32_t ends[TALK_MESSAGES_MAX]; /* end(message i), closing mark included                           */
} rendered;

/* Frame every message and add the assistant's opener. */
void render(rendered *r, const talk *t, cairn_resume_mode mode);
/* A prompt of plain tokens, without boundaries. */
void render_plain(rendered *r, const cairn_token *tokens, uint32_t count, cairn_resume_mode mode);
void rendered_release(rendered *r);
/* Longest common prefix of two token arrays. */
uint32_t common(const cairn_token *a, uint32_t count_a, const cairn_token *b, uint32_t count_b);

/* --- worlds ----------------------------------------------------------------------------------------------- */

typedef struct world {
    cairn_mem_test memory;
    cairn_replica_options replica;
    cairn_cache_options options;
    cairn_engine *engine;
    cairn_cache *cache;
    uint64_t clock_ns;
    uint64_t cap_bytes; /* the largest that was ever allowed: options.ram_bytes_max or the fixed part    */
    cairn_engine *cold_engine;
    cairn_cache *cold;
    uint32_t check_every; /* all invariants at every n-th step */
    bool damaged; /* blobs were damaged on purpose: verify would say so                                  */
} world;

/* Set replica and options to usual values; change them before world_open. */
void world_init(world *w);
void world_open(world *w);
/* Check that nothing leaked and that the engine's contract was kept. */
void world_close(world *w);
/* Every invariant, the ceiling included. */
void world_check(world *w);
void world_budget(world *w, uint64_t ram_bytes_max);
uint64_t world_decoded(const world *w);

enum { ANSWER_MAX = 4096 };

/* What one request gave. */
typedef struct outcome {
    cairn_record record;
    uint32_t steps;
    uint32_t count_answer;
    cairn_token answer[ANSWER_MAX];
    uint64_t bits[ANSWER_MAX + 1]; /* of the logits after the prompt and after each token                */
    uint64_t decoded;              /* tokens that the engine decoded meanwhile                           */
} outcome;

uint64_t logits_bits(const float *logits, uint32_t vocab_size);
cairn_token logits_greedy(const float *logits, uint32_t vocab_size);

/* Run a request to its end with `count_answer` greedy tokens. It must not fail. */
void ask(world *w, const rendered *r, uint32_t count_answer, outcome *ret_outcome);
/* The same, and compare with the cold run, bit for bit. */
void ask_and_compare(world *w, const rendered *r, uint32_t count_answer, outcome *ret_outcome);
/* The bits of a cold run that is given these tokens as answer. */
void cold_bits(world *w, const cairn_prompt *prompt, const cairn_token *answer, uint32_t count_answer,
               uint64_t *ret_bits, cairn_token *ret_greedy);
/* Run up to `steps` steps of a request, then stop it. Gives the tokens of the prompt that were read. */
uint32_t ask_and_stop(world *w, const rendered *r, uint32_t steps);

/* ask_and_compare with the talk as it stands, and add the answer to it. */
void turn(world *w, talk *t, cairn_resume_mode mode, uint32_t count_answer, outcome *ret_outcome);

#endif
