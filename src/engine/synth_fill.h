/*
 * synth_fill - random weights, tensor by tensor, that depend on the seed, the tensor's name and the element alone.
 *
 * A weight is a pure function of (seed, name, index): rows can be made in any order, in any number of pieces and on
 * any number of threads, and the file comes out the same. Normal deviates are sums of uniform integers, so that no
 * mathematical library takes part in them; the few exponentials of decay parameters are computed in double and
 * rounded to float.
 *
 * Units    rows and elements of a tensor as ggml counts them: dims[0] is the length of a row
 * Owner    nothing is allocated here; the caller brings the buffers
 * Thread   any; no state
 * See      synth_arch.h for who uses which kind
 */
#ifndef CAIRN_ENGINE_SYNTH_FILL_H
#define CAIRN_ENGINE_SYNTH_FILL_H

#include <stdint.h>

/* How the elements of a tensor are drawn. `a` and `b` are its two numbers. */
typedef enum cairn_synth_fill {
    /* normal, deviation a / sqrt(row length): a = 1 keeps the variance of what is multiplied */
    CAIRN_SYNTH_MATRIX = 0,
    /* normal around a with deviation b */
    CAIRN_SYNTH_NORMAL,
    /* uniform in [a, b) */
    CAIRN_SYNTH_UNIFORM,
    /* spread evenly over log [|a|, |b|], with the sign of a: decays */
    CAIRN_SYNTH_LOG_SPREAD,
    /* x with softplus(x) spread evenly over log [a, b]: time steps of gated recurrences */
    CAIRN_SYNTH_SOFTPLUS_INV,
    /* -(1, 2, .. row length) * a in each row: the diagonal A of Mamba */
    CAIRN_SYNTH_STATE_RAMP,
    /* normal with deviation a, times the row's factor: embeddings and output heads */
    CAIRN_SYNTH_ROWS
} cairn_synth_fill;

/* One tensor to be filled. */
typedef struct cairn_synth_tensor {
    uint64_t key;       /* cairn_synth_key(seed, name) */
    int64_t row_length; /* dims[0] */
    int64_t rows;       /* dims[1] * dims[2] * dims[3] */
    cairn_synth_fill fill;
    double a, b;
    const float *row_factors; /* float[rows] for CAIRN_SYNTH_ROWS (NULL: 1), borrowed */
} cairn_synth_tensor;

/* The key of one tensor of one file: every element's random bits come from it. */
uint64_t cairn_synth_key(uint64_t seed, const char *name);

/*
 * Make rows [begin, begin + count).
 *
 *   values  [out]  float[count * tensor->row_length]
 *
 * Cost     about 2 ns an element for the normal kinds
 * Test     tests/engine/test_synth.c
 */
void cairn_synth_rows(const cairn_synth_tensor *tensor, int64_t begin, int64_t count, float *values);

#endif
