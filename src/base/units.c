/*
 * units - reads numbers strictly: all of the text must be understood, and nothing is rounded silently.
 */
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 40 /* characters of a bad text that a message repeats */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    return text;
}

static bool letter_is(char c, char lower)
{
    return c == lower || c == (char)(lower - 'a' + 'A');
}

/* The unit at the end of a size. False when it is none. */
static bool read_unit(const char *text, uint64_t *ret_scale)
{
    static const char letters[] = "kmgt";
    uint64_t binary = 1;
    uint64_t decimal = 1;
    for (size_t i = 0; letters[i] != '\0'; i++) {
        binary *= 1024;
        decimal *= 1000;
        if (!letter_is(text[0], letters[i])) {
            continue;
        }
        bool plain = text[1] == '\0';
        bool with_ib = letter_is(text[1], 'i') && letter_is(text[2], 'b') && text[3] == '\0';
        bool with_b = letter_is(text[1], 'b') && text[2] == '\0';
        *ret_scale = with_b ? decimal : binary;
        return plain || with_ib || with_b;
    }
    *ret_scale = 1;
    return text[0] == '\0' || (letter_is(text[0], 'b') && text[1] == '\0');
}

/* "123" or "1.5", moving *text behind it: whole part, and thousandths of the rest. */
static bool read_decimal(const char **text, uint64_t *ret_whole, uint64_t *ret_thousandths)
{
    const char *c = *text;
    if (!is_digit(*c)) {
        return false;
    }
    uint64_t whole = 0;
    for (; is_digit(*c); c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (whole > (UINT64_MAX - digit) / 10) {
            return false;
        }
        whole = whole * 10 + digit;
    }
    uint64_t thousandths = 0;
    if (*c == '.') {
        c++;
        if (!is_digit(*c)) {
            return false;
        }
        uint64_t place = 100;
        for (; is_digit(*c); c++) {
            if (place == 0 && *c != '0') {
                return false; /* more than three digits: say so instead of rounding */
            }
            thousandths += place * (uint64_t)(*c - '0');
            place /= 10;
        }
    }
    *text = c;
    *ret_whole = whole;
    *ret_thousandths = thousandths;
    return true;
}

static cairn_status parse_percent(const char *text, uint64_t whole, uint64_t thousandths,
                                  uint64_t whole_bytes, uint64_t *ret_bytes, cairn_error *reterr)
{
    if (whole_bytes == 0) {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: size",
                               "\"%.*s\": a percentage makes no sense here, give bytes", SHOWN_MAX, text);
    }
    if (whole > 100 || (whole == 100 && thousandths > 0)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: size", "\"%.*s\" is more than 100 %%",
                               SHOWN_MAX, text);
    }
    uint64_t parts = whole * 1000 + thousandths; /* of 100,000 */
    *ret_bytes = whole_bytes / 100000 * parts + whole_bytes % 100000 * parts / 100000;
    return CAIRN_OK;
}

cairn_status cairn_units_parse_bytes(const char *text, uint64_t whole_bytes, uint64_t *ret_bytes,
                                     cairn_error *reterr)
{
    const char *rest = skip_blanks(text);
    uint64_t whole;
    uint64_t thousandths;
    if (!read_decimal(&rest, &whole, &thousandths)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: size",
                               "\"%.*s\" is not a size; examples: 4096, 512M, 2GiB, 10%%", SHOWN_MAX, text);
    }
    rest = skip_blanks(rest);
    if (rest[0] == '%' && rest[1] == '\0') {
        return parse_percent(text, whole, thousandths, whole_bytes, ret_bytes, reterr);
    }
    uint64_t scale;
    if (!read_unit(rest, &scale)) {
        return cairn_error_set(
            reterr, CAIRN_INVALID, "units: size",
            "\"%.*s\" has an unknown unit; known: K M G T, with or without iB or B, and %%", SHOWN_MAX, text);
    }
    if (scale == 1 && thousandths != 0) {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: size", "\"%.*s\" is a part of a byte",
                               SHOWN_MAX, text);
    }
    uint64_t part = scale * thousandths / 1000;
    if (whole > (UINT64_MAX - part) / scale) {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: size", "\"%.*s\" is too large", SHOWN_MAX,
                               text);
    }
    *ret_bytes = whole * scale + part;
    return CAIRN_OK;
}

cairn_status cairn_units_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret_value,
                                   cairn_error *reterr)
{
    const char *first = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    char *end = NULL;
    errno = 0;
    long long value = is_digit(first[0]) ? strtoll(text, &end, 10) : 0;
    if (end == NULL || *end != '\0') {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: number", "\"%.*s\" is not a whole number",
                               SHOWN_MAX, text);
    }
    if (errno == ERANGE || value < min || value > max) {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: number",
                               "\"%.*s\" is not between %" PRId64 " and %" PRId64, SHOWN_MAX, text, min, max);
    }
    *ret_value = (int64_t)value;
    return CAIRN_OK;
}

/* Digits, at most one point, an optional exponent: what strtod would read in the C locale, without its extras. */
static bool is_real_text(const char *text)
{
    const char *c = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    size_t digits = 0;
    size_t points = 0;
    for (; is_digit(*c) || *c == '.'; c++) {
        digits += *c != '.';
        points += *c == '.';
    }
    if (digits == 0 || points > 1) {
        return false;
    }
    if (letter_is(*c, 'e')) {
        c += c[1] == '-' || c[1] == '+' ? 2 : 1;
        if (!is_digit(*c)) {
            return false;
        }
        while (is_digit(*c)) {
            c++;
        }
    }
    return *c == '\0';
}

cairn_status cairn_units_parse_real(const char *text, double min, double max, double *ret_value,
                                    cairn_error *reterr)
{
    if (!is_real_text(text)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: number", "\"%.*s\" is not a number", SHOWN_MAX,
                               text);
    }
    char *end = NULL;
    double value = strtod(text, &end);
    char with_comma[64];
    char *point = NULL;
    if (*end != '\0' && strlen(text) < sizeof with_comma) {
        /* The locale's point is another one. */
        memcpy(with_comma, text, strlen(text) + 1);
        point = strchr(with_comma, '.');
        if (point != NULL) {
            *point = ',';
            value = strtod(with_comma, &end);
        }
    }
    if (*end != '\0' || !isfinite(value) || value < min || value > max) {
        return cairn_error_set(reterr, CAIRN_INVALID, "units: number", "\"%.*s\" is not between %g and %g",
                               SHOWN_MAX, text, min, max);
    }
    *ret_value = value;
    return CAIRN_OK;
}

void cairn_units_print_bytes(uint64_t bytes, char text[CAIRN_UNITS_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double value = (double)bytes;
    /* 999.5 and more would print as four digits. */
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    bool whole = value == floor(value) || value >= 99.95;
    int decimals = unit == 0 || whole ? 0 : value >= 9.995 ? 1 : 2;
    (void)snprintf(text, CAIRN_UNITS_TEXT, "%.*f %s", decimals, value, units[unit]);
    /* 1.50 GiB reads better as 1.5 GiB. */
    char *blank = strchr(text, ' ');
    if (decimals == 2 && blank != NULL && blank[-1] == '0') {
        memmove(blank - 1, blank, strlen(blank) + 1);
    }
}

void cairn_units_print_duration(uint64_t duration_ns, char text[CAIRN_UNITS_TEXT])
{
    double us = (double)duration_ns / 1e3;
    if (us < 999.5) {
        (void)snprintf(text, CAIRN_UNITS_TEXT, "%.0f us", us);
    } else if (us < 999.5e3) {
        (void)snprintf(text, CAIRN_UNITS_TEXT, "%.*f ms", us < 9.995e3 ? 2 : us < 99.95e3 ? 1 : 0, us / 1e3);
    } else if (us < 119.5e6) {
        (void)snprintf(text, CAIRN_UNITS_TEXT, "%.*f s", us < 9.995e6 ? 2 : 1, us / 1e6);
    } else {
        uint64_t seconds =
            duration_ns / UINT64_C(1000000000) + (duration_ns % UINT64_C(1000000000) >= 500000000);
        (void)snprintf(text, CAIRN_UNITS_TEXT, "%" PRIu64 " min %" PRIu64 " s", seconds / 60, seconds % 60);
    }
}

void cairn_units_print_count(uint64_t count, char text[CAIRN_UNITS_TEXT])
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, count);
    size_t out = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            text[out++] = ',';
        }
        text[out++] = digits[i];
    }
    text[out] = '\0';
}
