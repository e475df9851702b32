/*
 * divergence - see divergence.h.
 */
#include "core/divergence.h"

static const uint16_t prior[CAIRN_CLASS_COUNT][CAIRN_DISTANCES] = {
#include "core/divergence_prior.inc"
};

uint32_t cairn_divergence_bucket(uint32_t distance)
{
    static const uint8_t small[] = {0, 1, 2, 3, 4, 4, 5, 5, 5};
    if (distance < sizeof small) {
        return small[distance];
    }
    return distance <= 16 ? 6 : 7;
}

const char *cairn_divergence_bucket_word(uint32_t bucket)
{
    static const char *const words[CAIRN_DISTANCES] = {"0", "1", "2", "3", "4-5", "6-8", "9-16", "17+"};
    return bucket < CAIRN_DISTANCES ? words[bucket] : "unknown";
}

static float prior_sum(void)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < CAIRN_CLASS_COUNT; i++) {
        for (uint32_t j = 0; j < CAIRN_DISTANCES; j++) {
            sum += prior[i][j];
        }
    }
    return (float)sum;
}

float cairn_divergence_prior(cairn_class class, uint32_t bucket)
{
    return (float)prior[class][bucket] / prior_sum();
}

float cairn_divergence_chance(const float *counts, cairn_class class, uint32_t bucket)
{
    /* The prior weighs as much as this many counted requests. */
    const float weight = 16.0f;
    float base = cairn_divergence_prior(class, bucket);
    if (counts == NULL) {
        return base;
    }
    float seen = counts[(uint32_t) class * CAIRN_DISTANCES + bucket];
    return (base * weight + seen) / (weight + counts[CAIRN_DIVERGENCE_COUNTS - 1]);
}

void cairn_divergence_count(float *counts, cairn_class class, uint32_t bucket)
{
    const float keep = 255.0f / 256.0f;
    for (uint32_t i = 0; i < CAIRN_DIVERGENCE_COUNTS; i++) {
        counts[i] *= keep;
    }
    counts[(uint32_t) class * CAIRN_DISTANCES + bucket] += 1.0f;
    counts[CAIRN_DIVERGENCE_COUNTS - 1] += 1.0f;
}
