/* Integers as stored bytes: the order, every bit, any address. */
#include <string.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "test_support.h"

static void low_byte_comes_first(void **state)
{
    (void)state;
    uint8_t bytes[8];
    const uint8_t expected[8] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    cairn_put64(bytes, UINT64_C(0x1122334455667788));
    assert_memory_equal(bytes, expected, 8);
    cairn_put32(bytes, UINT32_C(0x55667788));
    assert_memory_equal(bytes, expected, 4);
    cairn_put16(bytes, 0x7788);
    assert_memory_equal(bytes, expected, 2);
    assert_int_equal(cairn_get16(expected), 0x7788);
    assert_int_equal(cairn_get32(expected), 0x55667788);
    assert_true(cairn_get64(expected) == UINT64_C(0x1122334455667788));
}

static void every_value_comes_back_from_any_address(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("bytes", 1));
    for (int i = 0; i < 5000; i++) {
        uint8_t bytes[24];
        memset(bytes, 0xa5, sizeof bytes);
        uint8_t *at = bytes + 8 + i % 8;
        uint64_t value = i < 64 ? UINT64_C(1) << i : cairn_rng_u64(&rng);
        cairn_put64(at, value);
        assert_true(cairn_get64(at) == value);
        assert_int_equal(at[-1], 0xa5);
        assert_int_equal(at[8], 0xa5);
        cairn_put32(at, (uint32_t)value);
        assert_true(cairn_get32(at) == (uint32_t)value);
        assert_int_equal(at[4], (uint8_t)(value >> 32));
        cairn_put16(at, (uint16_t)value);
        assert_true(cairn_get16(at) == (uint16_t)value);
        assert_int_equal(at[2], (uint8_t)(value >> 16));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_byte_comes_first),
        cmocka_unit_test(every_value_comes_back_from_any_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
