/*
 * pace - how large a piece of a prompt may be while answers are written beside it.
 *
 *   round      [ piece of a prompt | a token of each answer ]      time between two tokens of an answer
 *   alone                          [ a token of each answer ]      the same without prompts
 *
 * The promise is a round of at most CAIRN_PACE_LIMIT times one alone, so the aim is lower: rounds differ. What a token of a
 * prompt costs is taken from the pieces that were read, and depends on their size: small ones cost more a token, so the
 * next size follows from the last one's cost, and settles within a few rounds.
 *
 * Units    ns, tokens
 * Owner    the caller's struct
 * Thread   one
 * Caveats  not in exact mode, where cuts decide about bits: there a round is as long as a batch takes (-b)
 * Test     tests/serve/test_pace.c
 */
#ifndef CAIRN_PACE_H
#define CAIRN_PACE_H

#include <stdint.h>

enum {
    CAIRN_PACE_LIMIT = 3,
    CAIRN_PACE_TOKENS_MIN = 2,
    CAIRN_PACE_TOKENS_FIRST = 16,
    CAIRN_PACE_ANSWERS = 16
};

typedef struct cairn_pace {
    uint32_t batch_tokens; /* the largest piece                                                     */
    uint32_t tokens;       /* the next piece, of each prompt                                        */
    double alone_ns[CAIRN_PACE_ANSWERS +
                    1]; /* rounds of so many answers without prompts; the last: or more; 0: not seen */
    double read_ns;     /* of one token of a prompt in pieces of the present size; 0: not seen      */
} cairn_pace;

void cairn_pace_init(cairn_pace *pace, uint32_t batch_tokens);

/* What one round was: `reading` prompts, of which `read_tokens` were read, and `answering` answers. */
typedef struct cairn_pace_round {
    uint64_t round_ns;
    uint32_t reading, answering;
    uint64_t read_tokens;
} cairn_pace_round;

/* Take a round into account; sets pace->tokens. */
void cairn_pace_note(cairn_pace *pace, const cairn_pace_round *round);

#endif
