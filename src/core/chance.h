/*
 * chance - where the next request parts from the one that is being read: what a state at a place of its prompt is worth.
 *
 * divergence.h knows classes and distances; here they are those of a prompt's boundaries. value.c does the same for a path
 * that is known to its end.
 *
 *   prompt   0 ---- before -------- place --------- next ---- reach
 *                                   |== chance ===============|      a state at the place serves these
 *
 * Units    positions in tokens, distances in messages from the prompt's end
 * Thread   the core's; changes nothing
 */
#ifndef CAIRN_CORE_CHANCE_H
#define CAIRN_CORE_CHANCE_H

#include "core/core_state.h"
#include "core/divergence.h"

/* What is expected after this request. */
cairn_outlook cairn_chance_outlook(const cairn_core *core, const cairn_request *request);

/* Chance that requests part where this message starts, now or later. */
double cairn_chance_start(const cairn_request *request, const cairn_outlook *outlook, cairn_boundary at);

/* Where the request stands, and what is around. */
typedef struct cairn_chance_place {
    uint32_t mark;   /* its mark, or CAIRN_NONE                                                      */
    uint32_t before; /* position of the state before it                                              */
    uint32_t next;   /* where the next state could be                                                */
    cairn_boundary means;
} cairn_chance_place;

/* Chance that the next request parts where a state at the request's position would serve. */
double cairn_chance_at(const cairn_core *core, const cairn_request *request, const cairn_outlook *outlook,
                       const cairn_chance_place *place);

/* Chance that the next request goes on at the end of the path to `node`. */
double cairn_chance_tip(const cairn_core *core, uint32_t node);

#endif
