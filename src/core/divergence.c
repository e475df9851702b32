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
    return (base * weight + seen) / (weight + counts[CAIRN_DIVERGENCE_SUM]);
}

void cairn_divergence_count(float *counts, cairn_class class, uint32_t bucket)
{
    const float keep = 255.0f / 256.0f;
    for (uint32_t i = 0; i <= CAIRN_DIVERGENCE_SUM; i++) {
        counts[i] *= keep;
    }
    counts[(uint32_t) class * CAIRN_DISTANCES + bucket] += 1.0f;
    counts[CAIRN_DIVERGENCE_SUM] += 1.0f;
}

static uint32_t turn_bucket(uint32_t turns)
{
    return turns <= 1 ? 0 : turns == 2 ? 1 : 2;
}

void cairn_divergence_turn(float *counts, uint32_t turns, bool again)
{
    const float keep = 127.0f / 128.0f;
    uint32_t bucket = turn_bucket(turns);
    if (!again) { /* both fade together, so that their ratio stays a chance */
        counts[CAIRN_DIVERGENCE_LEFT + bucket] *= keep;
        counts[CAIRN_DIVERGENCE_AGAIN + bucket] *= keep;
    }
    counts[(again ? CAIRN_DIVERGENCE_AGAIN : CAIRN_DIVERGENCE_LEFT) + bucket] += 1.0f;
}

double cairn_divergence_goes_on(const float *counts, uint32_t turns)
{
    static const double usual[] = {0.35, 0.6, 0.85};
    const double weight = 4;
    uint32_t bucket = turn_bucket(turns);
    double left = counts != NULL ? (double)counts[CAIRN_DIVERGENCE_LEFT + bucket] : 0;
    double again = counts != NULL ? (double)counts[CAIRN_DIVERGENCE_AGAIN + bucket] : 0;
    double chance = (again + usual[bucket] * weight) / (left + weight);
    return chance < 0.02 ? 0.02 : chance > 0.98 ? 0.98 : chance;
}
