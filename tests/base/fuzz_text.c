/*
 * fuzz_text - any text: reading it as a size, a number or a digest never goes wrong, and printing it in a line gives
 * one clean line.
 */
#include <stdint.h>
#include <string.h>

#include "base/field.h"
#include "base/hash.h"
#include "base/units.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(cairn_field_format format, const char *text)
{
    char line[512];
    const cairn_field_head head = {.time = NULL, .level = NULL, .event = "e"};
    const cairn_field fields[] = {CAIRN_FIELD_STR("v", text), CAIRN_FIELD_INT("after", 1)};
    size_t len = cairn_field_print(format, &head, fields, 2, line, sizeof line);
    CAIRN_ASSERT(len > 0 && len < sizeof line && strlen(line) == len);
    CAIRN_ASSERT(strchr(line, '\n') == line + len - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1024];
    size_t len = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, len);
    text[len] = '\0';

    uint64_t bytes = 0;
    cairn_error error;
    if (cairn_units_parse_bytes(text, 1000, &bytes, &error) != CAIRN_OK) {
        CAIRN_ASSERT(bytes == 0 && error.status == CAIRN_INVALID && error.detail[0] != '\0');
    } else if (strchr(text, '%') != NULL) {
        CAIRN_ASSERT(bytes <= 1000);
    }
    char printed[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes(bytes, printed);
    int64_t whole = 0;
    if (cairn_units_parse_int(text, -5, 5, &whole, NULL) == CAIRN_OK) {
        CAIRN_ASSERT(whole >= -5 && whole <= 5);
    }
    double real = 0;
    if (cairn_units_parse_real(text, -1, 1, &real, NULL) == CAIRN_OK) {
        CAIRN_ASSERT(real >= -1 && real <= 1);
    }
    cairn_digest digest;
    if (cairn_digest_parse(text, &digest) == CAIRN_OK) {
        CAIRN_ASSERT(strlen(text) == CAIRN_DIGEST_HEX - 1);
    }
    check_line(CAIRN_FIELD_FORMAT_TEXT, text);
    check_line(CAIRN_FIELD_FORMAT_JSON, text);
    return 0;
}
