/*
 * field - typed key=value pairs and their text: what one log line and one trace line are made of.
 *
 *   text   name key=value key="with spaces"
 *   JSON   {"event":"name","key":1,"key2":"with spaces"}
 *
 * A value is escaped so that a line stays a line and valid UTF-8 whatever is in it: bytes that are not UTF-8 are
 * shown as U+FFFD. A line that would pass its room is cut at a pair and marked with cut=true.
 *
 * Owner    texts are borrowed for the call
 * Thread   any
 */
#ifndef CAIRN_BASE_FIELD_H
#define CAIRN_BASE_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cairn_field_kind {
    CAIRN_FIELD_KIND_STR,
    CAIRN_FIELD_KIND_INT,
    CAIRN_FIELD_KIND_UINT,
    CAIRN_FIELD_KIND_REAL,
    CAIRN_FIELD_KIND_BOOL,
    CAIRN_FIELD_KIND_HEX
} cairn_field_kind;

typedef struct cairn_field {
    const char *key; /* a constant: letters, digits, '_' and '.' */
    cairn_field_kind kind;
    union {
        const char *str; /* NULL is shown as null in JSON and as - in text */
        int64_t i;
        uint64_t u;
        double real;
        bool yes;
    } value;
} cairn_field;

#define CAIRN_FIELD_STR(k, v)                                      \
    {                                                              \
        .key = (k), .kind = CAIRN_FIELD_KIND_STR, .value.str = (v) \
    }
#define CAIRN_FIELD_INT(k, v)                                             \
    {                                                                     \
        .key = (k), .kind = CAIRN_FIELD_KIND_INT, .value.i = (int64_t)(v) \
    }
#define CAIRN_FIELD_UINT(k, v)                                              \
    {                                                                       \
        .key = (k), .kind = CAIRN_FIELD_KIND_UINT, .value.u = (uint64_t)(v) \
    }
#define CAIRN_FIELD_REAL(k, v)                                               \
    {                                                                        \
        .key = (k), .kind = CAIRN_FIELD_KIND_REAL, .value.real = (double)(v) \
    }
#define CAIRN_FIELD_BOOL(k, v)                                      \
    {                                                               \
        .key = (k), .kind = CAIRN_FIELD_KIND_BOOL, .value.yes = (v) \
    }
/* 16 hexadecimal digits: hashes, request ids. In JSON a string. */
#define CAIRN_FIELD_HEX(k, v)                                              \
    {                                                                      \
        .key = (k), .kind = CAIRN_FIELD_KIND_HEX, .value.u = (uint64_t)(v) \
    }

typedef enum cairn_field_format { CAIRN_FIELD_FORMAT_TEXT, CAIRN_FIELD_FORMAT_JSON } cairn_field_format;

/* What a line begins with; NULL or empty parts are left out. */
typedef struct cairn_field_head {
    const char *time;  /* "2026-01-31T23:59:59.123Z" */
    const char *level; /* "info" */
    const char *event; /* "request": a constant word */
} cairn_field_head;

/*
 * Print one line, with newline and NUL, into char[room_bytes].
 *
 *   room_bytes  [in]  at least 256
 *
 * After    the length without the NUL; always < room_bytes
 */
size_t cairn_field_print(cairn_field_format format, const cairn_field_head *head, const cairn_field *fields,
                         size_t count, char *line, size_t room_bytes);

#endif
