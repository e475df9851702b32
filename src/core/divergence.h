/*
 * divergence - where the next request parts from this one: a prior, and counts.
 *
 * Each request that continues or edits a known path parts from it in some message. That message is
 * told by the class of its start and its distance, in messages, from the end of the earlier path. A
 * table holds the chance of each (class, distance). It begins as the built-in prior (made from
 * recorded traffic by sim/) and is moved by the decayed counts of each namespace.
 *
 * Several messages can have the same class and distance bucket: they share its chance evenly.
 *
 * Owner    counts belong to the namespace and are counted as index bytes
 * Cost     O(1)
 */
#ifndef CAIRN_CORE_DIVERGENCE_H
#define CAIRN_CORE_DIVERGENCE_H

#include "core/boundary.h"

enum { CAIRN_DISTANCES = 8, CAIRN_DISTANCES_EXACT = 32 };

/*
 * One namespace's table, float[CAIRN_DIVERGENCE_COUNTS]: the counts by class and bucket, their sum; those inside a
 * message, not near its start; those at a message's start by the exact distance (an agent that keeps the last five tool
 * results parts at one distance, each time); then for paths that 1, 2, 3 and more requests went along, and for superseded
 * ones: how often one was left, how often taken up again. A path is superseded when its own conversation went on from an
 * earlier position. Then for habits (below), at the end of the path and at a distance: how often a conversation that had
 * one went on, how often it parted in the same way.
 */
enum {
    CAIRN_DIVERGENCE_SUM = CAIRN_CLASS_COUNT * CAIRN_DISTANCES,
    CAIRN_DIVERGENCE_INSIDE,
    CAIRN_DIVERGENCE_EXACT,
    CAIRN_DIVERGENCE_LEFT = CAIRN_DIVERGENCE_EXACT + CAIRN_DISTANCES_EXACT,
    CAIRN_DIVERGENCE_AGAIN = CAIRN_DIVERGENCE_LEFT + 4,
    CAIRN_DIVERGENCE_HABIT = CAIRN_DIVERGENCE_AGAIN + 4,
    CAIRN_DIVERGENCE_COUNTS = CAIRN_DIVERGENCE_HABIT + 4
};

/*
 * Where a conversation's request parted from the one before: at its end, or at the start of a message (the habit is then
 * CAIRN_HABIT_DISTANCE + its distance). What a client does at one turn it tends to do at the next.
 */
enum { CAIRN_HABIT_NONE, CAIRN_HABIT_TIP, CAIRN_HABIT_DISTANCE };

/* What is expected of the next request on a path. */
typedef struct cairn_outlook {
    const float *counts; /* of the namespace, or NULL                                                  */
    uint8_t habit;       /* of the conversation                                                        */
    double weight;       /* chance that the habit decides; else the namespace's counts do              */
} cairn_outlook;

/* In place of a number of requests: the path is superseded. */
#define CAIRN_TURNS_SUPERSEDED UINT32_MAX

/* 0, 1, 2, 3, 4-5, 6-8, 9-16, 17 and more. */
uint32_t cairn_divergence_bucket(uint32_t distance);

/* "4-5"; constant. */
const char *cairn_divergence_bucket_word(uint32_t bucket);

/* The built-in chance. Its sum over all classes and buckets is 1. */
float cairn_divergence_prior(cairn_class class, uint32_t bucket);

/* Chance of (class, bucket) after these counts (NULL: none yet). */
float cairn_divergence_chance(const float *counts, cairn_class class, uint32_t bucket);

/* The habit of a conversation that parted there, not inside a message. */
uint8_t cairn_divergence_habit(cairn_class class, uint32_t distance);

/* A conversation of this habit went on, in the same way or not. */
void cairn_divergence_habit_count(float *counts, uint8_t habit, bool same);

/* counts: of the namespace, or NULL. Its habits say more than its other counts do, or they weigh nothing. */
cairn_outlook cairn_divergence_outlook(const float *counts, uint8_t habit);

/* Chance that the next request goes on at the end of the path. */
double cairn_divergence_tip(const cairn_outlook *outlook);

/*
 * Chance that the next request parts in this one message.
 *
 *   share  [in]  how many messages of the path have this class and bucket, at least 1
 */
double cairn_divergence_message(const cairn_outlook *outlook, cairn_class class, uint32_t distance,
                                uint32_t share);

/*
 * Chance that any later request parts at the start of this message while its path stands: with each turn it is two messages
 * further from the end, unless a request parts before it and the message is read again.
 */
double cairn_divergence_lasting(const cairn_outlook *outlook, cairn_class class, uint32_t distance);

/* What part of divergences falls where no message begins, beside the usual part: 1 as usual, 0 never. */
double cairn_divergence_unforeseen(const cairn_outlook *outlook);

/* A request parted there; `inside`: past the message's start. Older counts fade: each new one takes 1/256 from all. */
void cairn_divergence_count(float *counts, cairn_class class, uint32_t distance, bool inside);

/* A request left a path (`again`: took one up) that `turns` requests went along. */
void cairn_divergence_turn(float *counts, uint32_t turns, bool again);

/* Chance that a path which `turns` requests went along is taken up again. */
double cairn_divergence_goes_on(const float *counts, uint32_t turns);

#endif
