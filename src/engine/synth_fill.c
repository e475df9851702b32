/*
 * synth_fill - see the header. Every element is one call of a 64-bit mixing function on key + index; there is no
 * generator whose state would have to be carried from row to row.
 */
#include "engine/synth_fill.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x;
}

static uint64_t bits_at(uint64_t key, uint64_t index)
{
    return mix(key + index * UINT64_C(0x9e3779b97f4a7c15));
}

/* Uniform in [0, 1), exact in binary. */
static double uniform_at(uint64_t key, uint64_t index)
{
    return (double)(bits_at(key, index) >> 11) * 0x1p-53;
}

/*
 * Nearly normal, mean 0, deviation 1, within +-3.47: the sum of four uniform 16-bit integers, whose deviation is
 * 65536 / sqrt(3). A bounded tail suits weights.
 */
static float normal_at(uint64_t key, uint64_t index)
{
    const uint64_t bits = bits_at(key, index);
    const int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) +
                        (int32_t)(bits >> 32 & 0xffff) + (int32_t)(bits >> 48) - 131070;
    return (float)sum * 2.6428997e-5f;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * Element `index` of `count` values spread evenly over log [low, high], one value a stratum. Neighbours get distant
 * strata (a stride that shares no factor with the count) and the key turns the whole wheel.
 */
static double log_spread(uint64_t key, uint64_t index, uint64_t count, double low, double high)
{
    uint64_t stride = count / 2 + 1;
    while (common_divisor(stride, count) != 1)
        stride++;
    const uint64_t stratum = (index * stride + bits_at(key, UINT64_MAX) % count) % count;
    const double at = ((double)stratum + uniform_at(key, index)) / (double)count;
    return exp(log(low) + at * (log(high) - log(low)));
}

uint64_t cairn_synth_key(uint64_t seed, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *p = name; *p != '\0'; p++)
        hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    return mix(hash ^ mix(seed + UINT64_C(0x9e3779b97f4a7c15)));
}

/* The kinds that are cheap enough to be drawn one by one. */
static double element(const cairn_synth_tensor *tensor, int64_t row, int64_t column)
{
    const uint64_t index = (uint64_t)(row * tensor->row_length + column);
    const uint64_t count = (uint64_t)(tensor->rows * tensor->row_length);
    double spread;

    switch (tensor->fill) {
    case CAIRN_SYNTH_UNIFORM:
        return tensor->a + (tensor->b - tensor->a) * uniform_at(tensor->key, index);
    case CAIRN_SYNTH_LOG_SPREAD:
        spread = log_spread(tensor->key, index, count, fabs(tensor->a), fabs(tensor->b));
        return tensor->a < 0 ? -spread : spread;
    case CAIRN_SYNTH_SOFTPLUS_INV:
        return log(expm1(log_spread(tensor->key, index, count, tensor->a, tensor->b)));
    case CAIRN_SYNTH_STATE_RAMP:
        return -tensor->a * (double)(column + 1);
    case CAIRN_SYNTH_MATRIX:
    case CAIRN_SYNTH_NORMAL:
    case CAIRN_SYNTH_ROWS:
        break;
    }
    return 0.0;
}

void cairn_synth_rows(const cairn_synth_tensor *tensor, int64_t begin, int64_t count, float *values)
{
    const int64_t length = tensor->row_length;
    const bool normal = tensor->fill == CAIRN_SYNTH_MATRIX || tensor->fill == CAIRN_SYNTH_NORMAL ||
                        tensor->fill == CAIRN_SYNTH_ROWS;
    const float mean = tensor->fill == CAIRN_SYNTH_NORMAL ? (float)tensor->a : 0.0f;
    float deviation = (float)tensor->a;

    if (tensor->fill == CAIRN_SYNTH_MATRIX)
        deviation = (float)(tensor->a / sqrt((double)length));
    if (tensor->fill == CAIRN_SYNTH_NORMAL)
        deviation = (float)tensor->b;
    for (int64_t row = begin; row < begin + count; row++, values += length) {
        float scale = deviation;
        if (tensor->fill == CAIRN_SYNTH_ROWS && tensor->row_factors != NULL)
            scale *= tensor->row_factors[row];
        for (int64_t column = 0; column < length; column++) {
            values[column] = normal ? mean + scale * normal_at(tensor->key, (uint64_t)(row * length + column))
                                    : (float)element(tensor, row, column);
        }
    }
}
