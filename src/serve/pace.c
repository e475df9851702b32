/*
 * pace - see the header.
 */
#include "serve/pace.h"

#include <string.h>

/* Of a round alone: what pieces may take beside the answers' tokens. With those it is 2, a third below the limit. */
static const double piece_share = 1.0;
/* How far one round moves a measured cost. */
static const double follow_alone = 0.125, follow_read = 0.5;

void cairn_pace_init(cairn_pace *pace, uint32_t batch_tokens)
{
    memset(pace, 0, sizeof *pace);
    pace->batch_tokens = batch_tokens;
    pace->tokens = batch_tokens < CAIRN_PACE_TOKENS_FIRST ? batch_tokens : CAIRN_PACE_TOKENS_FIRST;
}

static uint32_t place_of(uint32_t answering)
{
    return answering < CAIRN_PACE_ANSWERS ? answering : CAIRN_PACE_ANSWERS;
}

/* A round of so many answers alone; where that was not seen yet, as the nearest number of answers has it. 0: nothing seen. */
static double alone_ns(const cairn_pace *pace, uint32_t answering)
{
    uint32_t place = place_of(answering);
    for (uint32_t far = 0; far <= CAIRN_PACE_ANSWERS; far++) {
        if (place > far && pace->alone_ns[place - far] > 0)
            return pace->alone_ns[place - far]; /* of fewer: too short rather than too long */
        if (place + far <= CAIRN_PACE_ANSWERS && pace->alone_ns[place + far] > 0)
            return pace->alone_ns[place + far] * place / (place + far);
    }
    return 0;
}

static void follow(double *value, double seen, double part)
{
    *value = *value > 0 ? *value + (seen - *value) * part : seen;
}

void cairn_pace_note(cairn_pace *pace, const cairn_pace_round *round)
{
    if (round->answering == 0)
        return;
    if (round->reading == 0) {
        follow(&pace->alone_ns[place_of(round->answering)], (double)round->round_ns, follow_alone);
        return;
    }
    double alone = alone_ns(pace, round->answering), piece = (double)round->round_ns - alone;
    if (alone <= 0 || round->read_tokens == 0)
        return;
    double floor_ns = alone / (double)(4 * pace->batch_tokens); /* noise can make a piece look free */
    double token = piece / (double)round->read_tokens;
    follow(&pace->read_ns, token > floor_ns ? token : floor_ns, follow_read);
    double tokens = piece_share * alone / pace->read_ns / round->reading;
    if (tokens > 2.0 * pace->tokens) /* a piece that is much larger may cost more than the small ones tell */
        tokens = 2.0 * pace->tokens;
    uint32_t least = pace->batch_tokens < CAIRN_PACE_TOKENS_MIN ? pace->batch_tokens : CAIRN_PACE_TOKENS_MIN;
    pace->tokens = tokens < least                ? least
                   : tokens > pace->batch_tokens ? pace->batch_tokens
                                                 : (uint32_t)tokens;
}
