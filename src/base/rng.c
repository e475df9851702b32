/*
 * rng - xoshiro256** and what is drawn from it, without the mathematics library where results must be the same
 * everywhere. Contraction of a * b + c is switched off for the whole build (-ffp-contract=off) for the same reason.
 */
#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "cairn/status.h"

static uint64_t splitmix(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void cairn_rng_init(cairn_rng *rng, uint64_t seed)
{
    cairn_rng_init_stream(rng, seed, 0);
}

void cairn_rng_init_stream(cairn_rng *rng, uint64_t seed, uint64_t stream)
{
    /* The stream number goes through the mixer first: neighbouring seeds and streams must not meet. */
    uint64_t state = stream;
    state = stream == 0 ? seed : seed ^ splitmix(&state);
    for (size_t i = 0; i < 4; i++) {
        rng->state[i] = splitmix(&state);
    }
    rng->spare_gaussian = 0;
    rng->has_spare = false;
}

static uint64_t rotate_left(uint64_t x, unsigned by)
{
    return (x << by) | (x >> (64 - by));
}

uint64_t cairn_rng_u64(cairn_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t cairn_rng_below(cairn_rng *rng, uint64_t bound)
{
    if (bound == 0) {
        return 0;
    }
    /* Draws under 2^64 mod bound would make the small remainders likelier. */
    uint64_t unfair = (0 - bound) % bound;
    uint64_t draw;
    do {
        draw = cairn_rng_u64(rng);
    } while (draw < unfair);
    return draw % bound;
}

int64_t cairn_rng_range(cairn_rng *rng, int64_t low, int64_t high)
{
    CAIRN_ASSERT(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    uint64_t draw = span == UINT64_MAX ? cairn_rng_u64(rng) : cairn_rng_below(rng, span + 1);
    return (int64_t)((uint64_t)low + draw);
}

double cairn_rng_unit(cairn_rng *rng)
{
    return (double)(cairn_rng_u64(rng) >> 11) * 0x1p-53;
}

bool cairn_rng_chance(cairn_rng *rng, double p)
{
    return cairn_rng_unit(rng) < p;
}

/* Natural logarithm of x in (0, 1], to about 1e-13, by + - * / only: ln m = 2 atanh((m - 1) / (m + 1)). */
static double portable_log(double x)
{
    int exponent = 0;
    double m = x;
    while (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1);
    double q = s * s;
    double sum = 0;
    for (int k = 15; k >= 1; k -= 2) {
        sum = sum * q + 1.0 / k;
    }
    return 2 * s * sum + exponent * 0.69314718055994531;
}

double cairn_rng_gaussian(cairn_rng *rng)
{
    if (rng->has_spare) {
        rng->has_spare = false;
        return rng->spare_gaussian;
    }
    /* The polar method: a point in the unit disc gives two independent values. */
    double u;
    double v;
    double r;
    do {
        u = 2 * cairn_rng_unit(rng) - 1;
        v = 2 * cairn_rng_unit(rng) - 1;
        r = u * u + v * v;
    } while (r >= 1 || r == 0);
    double scale = sqrt(-2 * portable_log(r) / r);
    rng->spare_gaussian = v * scale;
    rng->has_spare = true;
    return u * scale;
}

void cairn_rng_gaussian_fill(cairn_rng *rng, float *values, size_t count, float deviation)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(cairn_rng_gaussian(rng) * (double)deviation);
    }
}

double cairn_rng_exponential(cairn_rng *rng, double mean)
{
    return -mean * portable_log(1 - cairn_rng_unit(rng));
}

void cairn_rng_shuffle(cairn_rng *rng, void *items, size_t count, size_t item_bytes)
{
    unsigned char *base = items;
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)cairn_rng_below(rng, i);
        unsigned char *a = base + (i - 1) * item_bytes;
        unsigned char *b = base + j * item_bytes;
        for (size_t k = 0; a != b && k < item_bytes; k++) {
            unsigned char swap = a[k];
            a[k] = b[k];
            b[k] = swap;
        }
    }
}
