/*
 * bytes - integers as bytes at rest: little-endian, whatever the machine is.
 *
 * One place for what every stored format does: read and write an integer at an address of any alignment.
 *
 * Owner    nothing is allocated
 * Thread   any
 * Cost     one load or store on a little-endian machine: compilers know these loops
 * Test     tests/base/test_bytes.c
 */
#ifndef CAIRN_BASE_BYTES_H
#define CAIRN_BASE_BYTES_H

#include <stdint.h>

/* Write `value` to uint8_t[2]. */
static inline void cairn_put16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

/* Write `value` to uint8_t[4]. */
static inline void cairn_put32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

/* Write `value` to uint8_t[8]. */
static inline void cairn_put64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

/* Read uint8_t[2]. */
static inline uint16_t cairn_get16(const uint8_t *in)
{
    return (uint16_t)(in[0] | in[1] << 8);
}

/* Read uint8_t[4]. */
static inline uint32_t cairn_get32(const uint8_t *in)
{
    uint32_t value = 0;
    for (int i = 3; i >= 0; i--) {
        value = value << 8 | in[i];
    }
    return value;
}

/* Read uint8_t[8]. */
static inline uint64_t cairn_get64(const uint8_t *in)
{
    return (uint64_t)cairn_get32(in + 4) << 32 | cairn_get32(in);
}

#endif
