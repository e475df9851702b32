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

/* The prior weighs as much as this many counted requests. */
static const float prior_weight = 16.0f;

float cairn_divergence_chance(const float *counts, cairn_class class, uint32_t bucket)
{
    float base = cairn_divergence_prior(class, bucket);
    if (counts == NULL) {
        return base;
    }
    float seen = counts[(uint32_t) class * CAIRN_DISTANCES + bucket];
    return (base * prior_weight + seen) / (prior_weight + counts[CAIRN_DIVERGENCE_SUM]);
}

double cairn_divergence_message(const float *counts, cairn_class class, uint32_t distance, uint32_t share)
{
    double chance = (double)cairn_divergence_chance(counts, class, cairn_divergence_bucket(distance)) / share;
    if (counts == NULL || distance >= CAIRN_DISTANCES_EXACT) {
        return chance;
    }
    double sum = (double)counts[CAIRN_DIVERGENCE_SUM];
    double known = sum / (sum + (double)prior_weight) * 0.7;
    double exact = sum > 0 ? (double)counts[CAIRN_DIVERGENCE_EXACT + distance] / sum : 0;
    return exact > chance ? chance + known * (exact - chance) : chance;
}

/* Chance that the next request parts nearer to the end than this bucket, or at the end. */
static double nearer_than(const float *counts, uint32_t bucket)
{
    double sum = (double)cairn_divergence_chance(counts, CAIRN_CLASS_TIP, 0);
    for (uint32_t class = 0; class < CAIRN_CLASS_TIP; class ++) {
        for (uint32_t b = 0; b < bucket; b++) {
            sum += (double)cairn_divergence_chance(counts, (cairn_class) class, b);
        }
    }
    return sum;
}

double cairn_divergence_lasting(const float *counts, cairn_class class, uint32_t distance)
{
    static const uint8_t share[CAIRN_DISTANCES] = {1, 1, 1, 1, 1, 2, 4, 12};
    const double lives_on = 0.9; /* a turn: the budget may take it, the conversation may end */
    double chance = 0;
    double stands = 1;
    uint32_t known = CAIRN_DISTANCES;
    double nearer = 0;
    for (uint32_t turn = 0; turn < CAIRN_DISTANCES_EXACT / 2 && stands > 0.05; turn++, distance += 2) {
        uint32_t bucket = cairn_divergence_bucket(distance);
        nearer = bucket != known ? nearer_than(counts, bucket) : nearer;
        known = bucket;
        chance += stands * cairn_divergence_message(counts, class, distance, share[bucket]);
        stands *= nearer * lives_on;
    }
    /* Any message may be edited, until a namespace has shown where its own are. */
    const double edited = 0.07;
    double weight = (double)prior_weight;
    double least =
        counts != NULL ? edited * weight / (weight + (double)counts[CAIRN_DIVERGENCE_SUM]) : edited;
    chance = chance > least ? chance : least;
    return chance < 1 ? chance : 1;
}

double cairn_divergence_unforeseen(const float *counts)
{
    const double usual = 0.15;
    if (counts == NULL) {
        return 1;
    }
    double weight = (double)prior_weight;
    double part = ((double)counts[CAIRN_DIVERGENCE_INSIDE] + usual * weight) /
                  ((double)counts[CAIRN_DIVERGENCE_SUM] + weight);
    return part < usual ? part / usual : 1;
}

void cairn_divergence_count(float *counts, cairn_class class, uint32_t distance, bool inside)
{
    const float keep = 255.0f / 256.0f;
    for (uint32_t i = 0; i < CAIRN_DIVERGENCE_LEFT; i++) {
        counts[i] *= keep;
    }
    counts[(uint32_t) class * CAIRN_DISTANCES + cairn_divergence_bucket(distance)] += 1.0f;
    counts[CAIRN_DIVERGENCE_SUM] += 1.0f;
    if (inside) {
        counts[CAIRN_DIVERGENCE_INSIDE] += 1.0f;
    } else if (class != CAIRN_CLASS_TIP && distance < CAIRN_DISTANCES_EXACT) {
        counts[CAIRN_DIVERGENCE_EXACT + distance] += 1.0f;
    }
}

static uint32_t turn_bucket(uint32_t turns)
{
    return turns == CAIRN_TURNS_SUPERSEDED ? 3 : turns <= 1 ? 0 : turns == 2 ? 1 : 2;
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
    static const double usual[] = {0.35, 0.6, 0.85, 0.2};
    const double weight = 4;
    uint32_t bucket = turn_bucket(turns);
    double left = counts != NULL ? (double)counts[CAIRN_DIVERGENCE_LEFT + bucket] : 0;
    double again = counts != NULL ? (double)counts[CAIRN_DIVERGENCE_AGAIN + bucket] : 0;
    double chance = (again + usual[bucket] * weight) / (left + weight);
    return chance < 0.02 ? 0.02 : chance > 0.98 ? 0.98 : chance;
}
