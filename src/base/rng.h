/*
 * rng - random numbers that are the same everywhere for the same seed. For tests, simulation and synthetic models.
 *
 * xoshiro256**, seeded by splitmix64. Not for secrets. The gaussian uses only +, -, *, / and sqrt, which IEEE 754
 * defines to the last bit, so that a synthetic model file is the same on every machine.
 *
 * Thread   one at a time; give each thread its own, with another stream number
 * Source   D. Blackman, S. Vigna: Scrambled linear pseudorandom number generators (2018)
 */
#ifndef CAIRN_BASE_RNG_H
#define CAIRN_BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cairn_rng {
    uint64_t state[4];
    double spare_gaussian;
    bool has_spare;
} cairn_rng;

/* Seed it; every seed is good. */
void cairn_rng_init(cairn_rng *rng, uint64_t seed);

/* Seed it with a seed and a stream number: streams of one seed are unrelated. */
void cairn_rng_init_stream(cairn_rng *rng, uint64_t seed, uint64_t stream);

/* 64 random bits. */
uint64_t cairn_rng_u64(cairn_rng *rng);

/* Uniform in [0, bound), without bias; 0 when bound is 0. */
uint64_t cairn_rng_below(cairn_rng *rng, uint64_t bound);

/* Uniform in [low, high]; low <= high. */
int64_t cairn_rng_range(cairn_rng *rng, int64_t low, int64_t high);

/* Uniform in [0, 1). */
double cairn_rng_unit(cairn_rng *rng);

/* True with chance p. */
bool cairn_rng_chance(cairn_rng *rng, double p);

/* Normal with mean 0 and deviation 1. */
double cairn_rng_gaussian(cairn_rng *rng);

/* Fill float[count] with gaussians of this deviation. */
void cairn_rng_gaussian_fill(cairn_rng *rng, float *values, size_t count, float deviation);

/* Exponential with this mean: times between arrivals. */
double cairn_rng_exponential(cairn_rng *rng, double mean);

/* Shuffle item[count] of item_bytes each. */
void cairn_rng_shuffle(cairn_rng *rng, void *items, size_t count, size_t item_bytes);

#endif
