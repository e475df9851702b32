/*
 * core_play - one random world on the driver; see core_play.c.
 */
#ifndef CAIRN_TESTS_CORE_PLAY_H
#define CAIRN_TESTS_CORE_PLAY_H

#include "core_driver.h"

typedef struct core_totals {
    uint64_t prompt, read, least;
    uint64_t reasons[CAIRN_REASON_COUNT];
} core_totals;

/* Play world `number` of a seed and add to the totals. Gives the core's digest. */
uint64_t core_play(uint64_t seed, uint64_t number, core_totals *totals);

/* The same with dice from uint8_t[count]. */
uint64_t core_play_bytes(const uint8_t *bytes, size_t count, core_totals *totals);

#endif
