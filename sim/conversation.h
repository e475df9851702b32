/*
 * conversation - what the generators write: a system text and a list of messages that grows, is edited and is cut.
 *
 * A text is a seed and a length (draft.h): equal seeds share their beginning, so an edit is a second seed from some
 * token on. cairn_talk_ask renders everything as one request and appends the answer to the messages, as a client does.
 *
 * Units    tokens, frames not counted; ns
 * Owner    the caller owns both structs
 * Errors   the first failure is kept in gen->status; later calls do nothing
 */
#ifndef CAIRN_SIM_CONVERSATION_H
#define CAIRN_SIM_CONVERSATION_H

#include "base/rng.h"
#include "draft.h"

enum { CAIRN_TALK_MESSAGES_MAX = 256 };

typedef struct cairn_talk_text {
    uint64_t seed;
    uint32_t count;
    uint64_t edit_seed; /* tokens from edit_at on are those of this seed; 0: no edit */
    uint32_t edit_at;
} cairn_talk_text;

typedef struct cairn_talk_message {
    cairn_role role;
    cairn_talk_text text;
    cairn_talk_text think; /* count 0: none */
} cairn_talk_message;

typedef struct cairn_talk {
    uint32_t session, space;
    cairn_talk_text system; /* count 0: no system message */
    cairn_talk_text clock;  /* last words of the system message; count 0: none */
    cairn_talk_message messages[CAIRN_TALK_MESSAGES_MAX];
    uint32_t count;
} cairn_talk;

typedef struct cairn_gen {
    cairn_workload *w;
    cairn_draft draft;
    cairn_rng rng;
    uint64_t seed; /* every text's seed is made from it */
    uint64_t next_text;
    uint64_t now_ns;
    cairn_status status;
    cairn_error *reterr;
} cairn_gen;

/* Start writing into `w`. */
void cairn_gen_init(cairn_gen *gen, cairn_workload *w, uint64_t seed, cairn_error *reterr);
/* Release what it holds; the first failure, or CAIRN_OK. */
cairn_status cairn_gen_finish(cairn_gen *gen);

/* A text that nothing else shares. */
cairn_talk_text cairn_gen_text(cairn_gen *gen, uint32_t count);
/* base + exp(gaussian(mu, sigma)), at most max: how long people's and models' texts are. */
uint32_t cairn_gen_length(cairn_gen *gen, uint32_t base, double mu, double sigma, uint32_t max);
/* Let time pass: exponential with this mean. */
void cairn_gen_wait(cairn_gen *gen, double mean_seconds);

/* Set up an empty talk with a system text. */
void cairn_talk_init(cairn_talk *talk, uint32_t session, cairn_talk_text system);
/* Append a message; returns it for later edits. The talk must have room (CAIRN_ASSERT). */
cairn_talk_message *cairn_talk_say(cairn_talk *talk, cairn_role role, cairn_talk_text text);
/* Take messages [begin, end) out. */
void cairn_talk_cut(cairn_talk *talk, uint32_t begin, uint32_t end);
/* Drop the reasoning of all messages, as templates do at a new user message. */
void cairn_talk_forget_thinking(cairn_talk *talk);
/* Tokens of the request that would be sent now. */
uint32_t cairn_talk_tokens(const cairn_talk *talk);

/*
 * Send it: one request at gen->now_ns, whose answer has `think` and `text`. When `keep`, the answer becomes the last
 * message.
 */
void cairn_talk_ask(cairn_gen *gen, cairn_talk *talk, const char *kind, cairn_talk_text think,
                    cairn_talk_text text, bool keep);

#endif
