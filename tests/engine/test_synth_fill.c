/* synth_fill: weights depend on seed, name and element alone, and have the moments their kind promises. */
#include "engine/synth_fill.h"

#include <math.h>

#include "test_support.h"

enum { ROW = 96, ROWS = 50 };

static cairn_synth_tensor tensor_of(cairn_synth_fill fill, double a, double b)
{
    return (cairn_synth_tensor){.key = cairn_synth_key(1, "blk.0.some.weight"),
                                .row_length = ROW,
                                .rows = ROWS,
                                .fill = fill,
                                .a = a,
                                .b = b};
}

static void moments(const float *values, size_t count, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    *mean = sum / (double)count;
    *deviation = sqrt(squares / (double)count - *mean * *mean);
}

static void rows_are_the_same_in_any_pieces(void **state)
{
    (void)state;
    static const cairn_synth_fill kinds[] = {CAIRN_SYNTH_MATRIX,     CAIRN_SYNTH_NORMAL,
                                             CAIRN_SYNTH_UNIFORM,    CAIRN_SYNTH_LOG_SPREAD,
                                             CAIRN_SYNTH_STATE_RAMP, CAIRN_SYNTH_ROWS};
    static float whole[ROWS * ROW], pieces[ROWS * ROW];
    const uint64_t seed = cairn_test_seed("rows_are_the_same_in_any_pieces", 11);

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const cairn_synth_tensor tensor = tensor_of(kinds[k], 0.5, 2.0);
        uint64_t random = seed;
        cairn_synth_rows(&tensor, 0, ROWS, whole);
        memset(pieces, 0, sizeof(pieces));
        for (int64_t row = 0; row < ROWS;) {
            random = random * UINT64_C(6364136223846793005) + 1;
            int64_t count = (int64_t)(random >> 33) % 7 + 1;
            count = row + count > ROWS ? ROWS - row : count;
            cairn_synth_rows(&tensor, row, count, pieces + row * ROW);
            row += count;
        }
        assert_memory_equal(whole, pieces, sizeof(whole));
    }
}

static void matrix_keeps_the_variance_of_its_input(void **state)
{
    (void)state;
    static float values[ROWS * ROW];
    const cairn_synth_tensor tensor = tensor_of(CAIRN_SYNTH_MATRIX, 1.0, 0);
    double mean, deviation;

    cairn_synth_rows(&tensor, 0, ROWS, values);
    moments(values, ROWS * ROW, &mean, &deviation);
    assert_true(fabs(mean) < 0.01);
    assert_true(fabs(deviation * sqrt(ROW) - 1.0) < 0.05);
}

static void rows_take_their_factor(void **state)
{
    (void)state;
    static float values[ROWS * ROW];
    float factors[ROWS];
    cairn_synth_tensor tensor = tensor_of(CAIRN_SYNTH_ROWS, 1.0, 0);
    double mean, ordinary, quiet;

    for (size_t i = 0; i < ROWS; i++)
        factors[i] = i < ROWS / 2 ? 1.0f : 0.01f;
    tensor.row_factors = factors;
    cairn_synth_rows(&tensor, 0, ROWS, values);
    moments(values, ROWS / 2 * ROW, &mean, &ordinary);
    moments(values + ROWS / 2 * ROW, ROWS / 2 * ROW, &mean, &quiet);
    assert_true(fabs(ordinary - 1.0) < 0.1);
    assert_true(fabs(quiet - 0.01) < 0.001);
}

static void decays_cover_their_range_evenly(void **state)
{
    (void)state;
    float values[16];
    cairn_synth_tensor tensor = tensor_of(CAIRN_SYNTH_LOG_SPREAD, -0.01, -10.0);
    size_t per_decade[3] = {0};

    for (int64_t length = 1; length <= 16; length++) { /* strides must work for any count */
        tensor.row_length = length;
        tensor.rows = 1;
        cairn_synth_rows(&tensor, 0, 1, values);
        for (int64_t i = 0; i < length; i++)
            assert_true(values[i] <= -0.01f && values[i] >= -10.0f);
    }
    tensor.row_length = 15;
    cairn_synth_rows(&tensor, 0, 1, values);
    for (int i = 0; i < 15; i++)
        per_decade[(int)floor(log10(-(double)values[i]) + 2.0)]++;
    assert_int_equal(per_decade[0], 5);
    assert_int_equal(per_decade[1], 5);
    assert_int_equal(per_decade[2], 5);
}

static void time_steps_come_back_through_softplus(void **state)
{
    (void)state;
    float values[32];
    cairn_synth_tensor tensor = tensor_of(CAIRN_SYNTH_SOFTPLUS_INV, 0.001, 0.1);

    tensor.row_length = 32;
    tensor.rows = 1;
    cairn_synth_rows(&tensor, 0, 1, values);
    for (int i = 0; i < 32; i++) {
        const double step = log1p(exp((double)values[i]));
        assert_true(step > 0.00099 && step < 0.101);
    }
}

static void seed_and_name_change_everything(void **state)
{
    (void)state;
    assert_true(cairn_synth_key(1, "a") != cairn_synth_key(2, "a"));
    assert_true(cairn_synth_key(1, "a") != cairn_synth_key(1, "b"));
    assert_true(cairn_synth_key(0, "") != cairn_synth_key(1, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_same_in_any_pieces),
        cmocka_unit_test(matrix_keeps_the_variance_of_its_input),
        cmocka_unit_test(rows_take_their_factor),
        cmocka_unit_test(decays_cover_their_range_evenly),
        cmocka_unit_test(time_steps_come_back_through_softplus),
        cmocka_unit_test(seed_and_name_change_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
