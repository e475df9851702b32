/* Random numbers: base/rng. */
#include "test_support.h"

#include <math.h>

#include "base/rng.h"

static void values_never_change(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, 42);
    assert_true(cairn_rng_u64(&rng) == UINT64_C(0x15780b2e0c2ec716));
    assert_true(cairn_rng_u64(&rng) == UINT64_C(0x6104d9866d113a7e));
    /* To the last bit, on every machine and compiler: model files depend on it. */
    cairn_rng_init(&rng, 42);
    double sum = 0;
    for (int i = 0; i < 1000; i++) {
        sum += cairn_rng_gaussian(&rng);
    }
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    assert_true(bits == UINT64_C(0x4042f9f037d3c1ea));
}

static void streams_and_seeds_differ(void **state)
{
    (void)state;
    uint64_t seen[64];
    size_t count = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        for (uint64_t stream = 0; stream < 8; stream++) {
            cairn_rng rng;
            cairn_rng_init_stream(&rng, seed, stream);
            uint64_t first = cairn_rng_u64(&rng);
            for (size_t i = 0; i < count; i++) {
                assert_true(seen[i] != first);
            }
            seen[count++] = first;
        }
    }
}

static void below_and_range_stay_inside_and_reach_all(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("below_and_range_stay_inside_and_reach_all", 3));
    unsigned hits[7] = {0};
    for (int i = 0; i < 7000; i++) {
        uint64_t value = cairn_rng_below(&rng, 7);
        assert_true(value < 7);
        hits[value]++;
        int64_t ranged = cairn_rng_range(&rng, -2, 2);
        assert_true(ranged >= -2 && ranged <= 2);
    }
    for (size_t i = 0; i < 7; i++) {
        assert_true(hits[i] > 800 && hits[i] < 1200); /* 1000 expected, deviation 29 */
    }
    assert_int_equal(cairn_rng_below(&rng, 0), 0);
    assert_int_equal(cairn_rng_below(&rng, 1), 0);
    assert_int_equal(cairn_rng_range(&rng, 5, 5), 5);
    (void)cairn_rng_range(&rng, INT64_MIN, INT64_MAX);
}

static void gaussian_has_the_right_moments(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("gaussian_has_the_right_moments", 5));
    enum { COUNT = 200000 };
    double sum = 0;
    double squares = 0;
    double fourths = 0;
    int within = 0;
    for (int i = 0; i < COUNT; i++) {
        double value = cairn_rng_gaussian(&rng);
        sum += value;
        squares += value * value;
        fourths += value * value * value * value;
        within += fabs(value) < 1;
    }
    /* Six deviations each. */
    assert_true(fabs(sum / COUNT) < 0.0135);
    assert_true(fabs(squares / COUNT - 1) < 0.019);
    assert_true(fabs(fourths / COUNT - 3) < 0.14);
    assert_true(fabs((double)within / COUNT - 0.6826895) < 0.0063);
}

static void own_logarithm_agrees_with_the_library(void **state)
{
    (void)state;
    /* Seen through the exponential, which is -mean * ln(1 - unit). */
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("own_logarithm_agrees_with_the_library", 7));
    for (int i = 0; i < 100000; i++) {
        cairn_rng same = rng;
        double unit = cairn_rng_unit(&same);
        double value = cairn_rng_exponential(&rng, 1);
        assert_true(fabs(value + log(1 - unit)) <= 1e-12 * (1 + value));
    }
}

static void fill_scales_and_shuffle_keeps_all(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, 9);
    float values[100];
    cairn_rng_gaussian_fill(&rng, values, 100, 0.0f);
    for (size_t i = 0; i < 100; i++) {
        assert_true(values[i] == 0.0f);
    }
    uint16_t items[50];
    for (uint16_t i = 0; i < 50; i++) {
        items[i] = i;
    }
    cairn_rng_shuffle(&rng, items, 50, sizeof items[0]);
    uint64_t seen = 0;
    unsigned in_place = 0;
    for (uint16_t i = 0; i < 50; i++) {
        seen |= UINT64_C(1) << items[i];
        in_place += items[i] == i;
    }
    assert_true(seen == (UINT64_C(1) << 50) - 1);
    assert_true(in_place < 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_never_change),
        cmocka_unit_test(streams_and_seeds_differ),
        cmocka_unit_test(below_and_range_stay_inside_and_reach_all),
        cmocka_unit_test(gaussian_has_the_right_moments),
        cmocka_unit_test(own_logarithm_agrees_with_the_library),
        cmocka_unit_test(fill_scales_and_shuffle_keeps_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
