/*
 * test_support - cmocka with the headers it needs, and the seed of random tests.
 *
 * Random tests take their seed from cairn_test_seed, which prints it first and obeys the variable CAIRN_SEED.
 */
#ifndef CAIRN_TEST_SUPPORT_H
#define CAIRN_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cairn/status.h"

/* The seed of a random test: CAIRN_SEED when set, else `usual`. Prints it, so that a failure can be repeated. */
static inline uint64_t cairn_test_seed(const char *test, uint64_t usual)
{
    const char *text = getenv("CAIRN_SEED");
    uint64_t seed = text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : usual;
    printf("%s: CAIRN_SEED=%llu\n", test, (unsigned long long)seed);
    return seed;
}

/* Fails the test with the status's name when it is not `expected`. */
#define assert_status(expression, expected) \
    assert_string_equal(cairn_status_name(expression), cairn_status_name(expected))

/* Fails the test with the status's name when it is not CAIRN_OK. */
#define assert_ok(expression) assert_status(expression, CAIRN_OK)

#endif
