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

uint8_t cairn_divergence_habit(cairn_class class, uint32_t distance)
{
    if (class == CAIRN_CLASS_TIP) {
        return CAIRN_HABIT_TIP;
    }
    return distance < CAIRN_DISTANCES_EXACT ? (uint8_t)(CAIRN_HABIT_DISTANCE + distance) : CAIRN_HABIT_NONE;
}

/* [0]: conversations of such a habit that went on, [1]: of them those that parted in the same way. */
static uint32_t habit_at(uint8_t habit)
{
    return CAIRN_DIVERGENCE_HABIT + (habit == CAIRN_HABIT_TIP ? 0 : 2);
}

void cairn_divergence_habit_count(float *counts, uint8_t habit, bool same)
{
    const float keep = 127.0f / 128.0f;
    if (habit != CAIRN_HABIT_NONE) {
        float *kept = counts + habit_at(habit);
        kept[0] = kept[0] * keep + 1.0f;
        kept[1] = kept[1] * keep + (same ? 1.0f : 0.0f);
    }
}

/* Of all that parted, those that did at the start of a message at this distance. */
static double exact_chance(const float *counts, uint32_t distance)
{
    double sum = (double)counts[CAIRN_DIVERGENCE_SUM];
    return sum > 0 ? (double)counts[CAIRN_DIVERGENCE_EXACT + distance] / sum : 0;
}

/* How far that is believed beside the classes and buckets. */
static double exact_part(const float *counts)
{
    double sum = (double)counts[CAIRN_DIVERGENCE_SUM];
    return sum / (sum + (double)prior_weight) * 0.7;
}

cairn_outlook cairn_divergence_outlook(const float *counts, uint8_t habit)
{
    const double weight = 1; /* request: one that parts as the one before says much */
    const double usual = 0.25;
    cairn_outlook outlook = {.counts = counts, .habit = habit};
    if (counts == NULL || habit == CAIRN_HABIT_NONE) {
        return outlook;
    }
    bool tip = habit == CAIRN_HABIT_TIP;
    /* So many part in this way whatever they did before. */
    double anyway = tip ? (double)cairn_divergence_chance(counts, CAIRN_CLASS_TIP, 0)
                        : exact_part(counts) * exact_chance(counts, habit - CAIRN_HABIT_DISTANCE);
    const float *kept = counts + habit_at(habit);
    double same = ((double)kept[1] + (tip ? anyway : usual) * weight) / ((double)kept[0] + weight);
    outlook.weight = same > anyway ? (same - anyway) / (1 - anyway) : 0;
    return outlook;
}

/* The namespace's chance, or what the habit says. */
static double expect(const cairn_outlook *outlook, double chance, bool usual)
{
    return chance + outlook->weight * ((usual ? 1 : 0) - chance);
}

double cairn_divergence_tip(const cairn_outlook *outlook)
{
    return expect(outlook, (double)cairn_divergence_chance(outlook->counts, CAIRN_CLASS_TIP, 0),
                  outlook->habit == CAIRN_HABIT_TIP);
}

double cairn_divergence_message(const cairn_outlook *outlook, cairn_class class, uint32_t distance,
                                uint32_t share)
{
    const float *counts = outlook->counts;
    double chance = (double)cairn_divergence_chance(counts, class, cairn_divergence_bucket(distance)) / share;
    if (counts == NULL || distance >= CAIRN_DISTANCES_EXACT) {
        return expect(outlook, chance, false);
    }
    double exact = exact_chance(counts, distance);
    chance += exact > chance ? exact_part(counts) * (exact - chance) : 0;
    return expect(outlook, chance, outlook->habit == CAIRN_HABIT_DISTANCE + distance);
}

/* By the namespace's counts: chance that the next request parts nearer to the end than this bucket, or at the end. */
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

double cairn_divergence_lasting(const cairn_outlook *outlook, cairn_class class, uint32_t distance)
{
    static const uint8_t share[CAIRN_DISTANCES] = {1, 1, 1, 1, 1, 2, 4, 12};
    const double lives_on = 0.9; /* a turn: the budget may take it, the conversation may end */
    const float *counts = outlook->counts;
    double chance = 0;
    double stands = 1;
    uint32_t known = CAIRN_DISTANCES;
    double nearer = 0;
    for (uint32_t turn = 0; turn < CAIRN_DISTANCES_EXACT / 2 && stands > 0.05; turn++, distance += 2) {
        uint32_t bucket = cairn_divergence_bucket(distance);
        nearer = bucket != known ? nearer_than(counts, bucket) : nearer;
        known = bucket;
        chance += stands * cairn_divergence_message(outlook, class, distance, share[bucket]);
        stands *= lives_on * expect(outlook, nearer, outlook->habit < CAIRN_HABIT_DISTANCE + distance);
    }
    /* Any message may be edited, until a namespace has shown where its own are. */
    const double edited = 0.07;
    double weight = (double)prior_weight;
    double sum = counts != NULL ? (double)counts[CAIRN_DIVERGENCE_SUM] : 0;
    double least = expect(outlook, edited * weight / (weight + sum), false);
    chance = chance > least ? chance : least;
    return chance < 1 ? chance : 1;
}

double cairn_divergence_unforeseen(const cairn_outlook *outlook)
{
    const double usual = 0.15;
    if (outlook->counts == NULL) {
        return 1;
    }
    double weight = (double)prior_weight;
    double part = ((double)outlook->counts[CAIRN_DIVERGENCE_INSIDE] + usual * weight) /
                  ((double)outlook->counts[CAIRN_DIVERGENCE_SUM] + weight);
    return expect(outlook, part < usual ? part / usual : 1, false);
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
