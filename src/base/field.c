/*
 * field - prints pairs into a fixed room. A pair that doesn't fit is taken away whole, and a mark is left.
 */
#include "base/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cairn/status.h"

typedef struct sink {
    char *line;
    size_t len;
    size_t room; /* what pairs may use; the end mark has its own */
    bool full;
} sink;

static void put(sink *out, const char *bytes, size_t len)
{
    if (out->full || len > out->room - out->len) {
        out->full = true;
        return;
    }
    memcpy(out->line + out->len, bytes, len);
    out->len += len;
}

static void put_str(sink *out, const char *text)
{
    put(out, text, strlen(text));
}

/* The length of the valid UTF-8 character at `text`, or 0. The NUL ends every character early, so nothing is
 * read behind it. */
static size_t utf8_length(const unsigned char *text)
{
    unsigned char c = text[0];
    if (c < 0x80) {
        return 1;
    }
    size_t len = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xc2 && c <= 0xdf ? 2 : 0;
    for (size_t i = 1; i < len; i++) {
        if ((text[i] & 0xc0u) != 0x80u) {
            return 0;
        }
    }
    bool overlong = (c == 0xe0 && text[1] < 0xa0) || (c == 0xf0 && text[1] < 0x90);
    bool surrogate = c == 0xed && text[1] > 0x9f;
    bool beyond = c == 0xf4 && text[1] > 0x8f;
    return len == 0 || overlong || surrogate || beyond ? 0 : len;
}

static void put_quoted(sink *out, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    put(out, "\"", 1);
    while (*c != '\0' && !out->full) {
        size_t len = utf8_length(c);
        char escape[8];
        if (len == 0) {
            put_str(out, "\xef\xbf\xbd");
            len = 1;
        } else if (*c == '"' || *c == '\\') {
            escape[0] = '\\';
            escape[1] = (char)*c;
            put(out, escape, 2);
        } else if (*c == '\n') {
            put_str(out, "\\n");
        } else if (*c < 0x20 || *c == 0x7f) {
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*c);
            put_str(out, escape);
        } else {
            put(out, (const char *)c, len);
        }
        c += len;
    }
    put(out, "\"", 1);
}

/* A value that needs no quotes in text: not empty, printable, without blank, quote, equals sign or backslash. */
static bool is_plain(const char *text)
{
    if (text[0] == '\0') {
        return false;
    }
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c <= ' ' || *c >= 0x7f || *c == '"' || *c == '=' || *c == '\\') {
            return false;
        }
    }
    return true;
}

static void put_real(sink *out, double value, bool json)
{
    char text[40];
    if (!isfinite(value)) {
        put_str(out, json ? "null" : isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    (void)snprintf(text, sizeof text, "%.6g", value);
    /* A locale may have set another point. */
    char *comma = strchr(text, ',');
    if (comma != NULL) {
        *comma = '.';
    }
    put_str(out, text);
}

static void put_value(sink *out, const cairn_field *field, bool json)
{
    char text[32];
    switch (field->kind) {
    case CAIRN_FIELD_KIND_STR:
        if (field->value.str == NULL) {
            put_str(out, json ? "null" : "-");
        } else if (!json && is_plain(field->value.str)) {
            put_str(out, field->value.str);
        } else {
            put_quoted(out, field->value.str);
        }
        break;
    case CAIRN_FIELD_KIND_INT:
        (void)snprintf(text, sizeof text, "%" PRId64, field->value.i);
        put_str(out, text);
        break;
    case CAIRN_FIELD_KIND_UINT:
        (void)snprintf(text, sizeof text, "%" PRIu64, field->value.u);
        put_str(out, text);
        break;
    case CAIRN_FIELD_KIND_REAL:
        put_real(out, field->value.real, json);
        break;
    case CAIRN_FIELD_KIND_BOOL:
        put_str(out, field->value.yes ? "true" : "false");
        break;
    case CAIRN_FIELD_KIND_HEX:
        (void)snprintf(text, sizeof text, json ? "\"%016" PRIx64 "\"" : "%016" PRIx64, field->value.u);
        put_str(out, text);
        break;
    }
}

static void put_pair(sink *out, const char *key, const cairn_field *field, bool json, bool first)
{
    size_t before = out->len;
    if (json) {
        put_str(out, first ? "" : ",");
        put_quoted(out, key);
        put(out, ":", 1);
    } else {
        put_str(out, first ? "" : " ");
        put_str(out, key);
        put(out, "=", 1);
    }
    put_value(out, field, json);
    if (out->full) {
        out->len = before;
    }
}

static bool head_part(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Gives whether anything was printed. */
static bool put_head(sink *out, const cairn_field_head *head, bool json)
{
    const char *keys[] = {"time", "level", "event"};
    const char *values[] = {head->time, head->level, head->event};
    bool first = true;
    for (size_t i = 0; i < 3; i++) {
        if (!head_part(values[i])) {
            continue;
        }
        if (json) {
            const cairn_field field = CAIRN_FIELD_STR(keys[i], values[i]);
            put_pair(out, keys[i], &field, true, first);
        } else {
            put_str(out, first ? "" : " ");
            put_str(out, values[i]);
        }
        first = false;
    }
    return !first;
}

size_t cairn_field_print(cairn_field_format format, const cairn_field_head *head, const cairn_field *fields,
                         size_t count, char *line, size_t room_bytes)
{
    static const char json_cut[] = ",\"cut\":true}\n";
    CAIRN_ASSERT(room_bytes >= 256);
    bool json = format == CAIRN_FIELD_FORMAT_JSON;
    sink out = {.line = line, .len = 0, .room = room_bytes - sizeof json_cut, .full = false};
    if (json) {
        put(&out, "{", 1);
    }
    bool any = put_head(&out, head, json);
    for (size_t i = 0; i < count && !out.full; i++) {
        put_pair(&out, fields[i].key, &fields[i], json, !any);
        any = any || !out.full;
    }
    const char *end = json ? "}\n" : "\n";
    if (out.full) {
        end = json ? (any ? json_cut : json_cut + 1) : (any ? " cut=true\n" : "cut=true\n");
    }
    size_t end_len = strlen(end);
    CAIRN_ASSERT(out.len + end_len < room_bytes);
    memcpy(line + out.len, end, end_len + 1);
    return out.len + end_len;
}
