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
 * earlier position.
 */
enum {
    CAIRN_DIVERGENCE_SUM = CAIRN_CLASS_COUNT * CAIRN_DISTANCES,
    CAIRN_DIVERGENCE_INSIDE,
    CAIRN_DIVERGENCE_EXACT,
    CAIRN_DIVERGENCE_LEFT = CAIRN_DIVERGENCE_EXACT + CAIRN_DISTANCES_EXACT,
    CAIRN_DIVERGENCE_AGAIN = CAIRN_DIVERGENCE_LEFT + 4,
    CAIRN_DIVERGENCE_COUNTS = CAIRN_DIVERGENCE_AGAIN + 4
};

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

/*
 * Chance that the next request parts in this one message.
 *
 *   share  [in]  how many messages of the path have this class and bucket, at least 1
 */
double cairn_divergence_message(const float *counts, cairn_class class, uint32_t distance, uint32_t share);

/*
 * Chance that any later request parts at the start of this message while its path stands: with each turn it is two messages
 * further from the end, unless a request parts before it and the message is read again.
 */
double cairn_divergence_lasting(const float *counts, cairn_class class, uint32_t distance);

/* What part of all divergences falls where no message begins, beside the usual part: 1 as usual, 0 never. */
double cairn_divergence_unforeseen(const float *counts);

/* A request parted there; `inside`: past the message's start. Older counts fade: each new one takes 1/256 from all. */
void cairn_divergence_count(float *counts, cairn_class class, uint32_t distance, bool inside);

/* A request left a path (`again`: took one up) that `turns` requests went along. */
void cairn_divergence_turn(float *counts, uint32_t turns, bool again);

/* Chance that a path which `turns` requests went along is taken up again. */
double cairn_divergence_goes_on(const float *counts, uint32_t turns);

#endif
