/*
 * log - one line an event, levels, one writer.
 *
 * The program makes one log and hands it to those who decide what is worth saying (cache and above; libraries below
 * don't log). Lines of several threads don't mix. The time comes from the clock that the log was given, so that a
 * virtual clock gives repeatable logs.
 *
 *   CAIRN_LOG(log, INFO, "request", CAIRN_FIELD_UINT("prompt", 3841), CAIRN_FIELD_STR("tier", "ram"));
 *
 * Thread   any, with one lock around the write
 */
#ifndef CAIRN_BASE_LOG_H
#define CAIRN_BASE_LOG_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/field.h"
#include "cairn/mem.h"

typedef enum cairn_log_level {
    CAIRN_LOG_LEVEL_DEBUG,
    CAIRN_LOG_LEVEL_INFO,
    CAIRN_LOG_LEVEL_WARN,
    CAIRN_LOG_LEVEL_ERROR,
    CAIRN_LOG_LEVEL_OFF
} cairn_log_level;

#define CAIRN_LOG_LINE_BYTES 4096

typedef struct cairn_log {
    /* Takes one whole line, newline included. Called with the lock held. Must not call the log. */
    void (*write)(void *ctx, const char *line, size_t len_bytes);
    void *ctx;
    const cairn_clock *clock; /* NULL: lines carry no time */
    cairn_field_format format;
    atomic_int level; /* lines below it are dropped */
    pthread_mutex_t lock;
} cairn_log;

/* Set up. `clock` may be NULL; `write` as above. The struct must not move afterwards. */
void cairn_log_init(cairn_log *log, cairn_log_level level, cairn_field_format format,
                    const cairn_clock *clock, void (*write)(void *ctx, const char *line, size_t len_bytes),
                    void *ctx);

/* Free the lock. */
void cairn_log_release(cairn_log *log);

/* A write function for cairn_log_init: ctx is a file descriptor cast by (void *)(intptr_t)fd; errors are ignored. */
void cairn_log_write_fd(void *ctx, const char *line, size_t len_bytes);

/* Would a line of this level be written? `log` may be NULL: then no. */
bool cairn_log_wants(const cairn_log *log, cairn_log_level level);

/* Change the level while running. */
void cairn_log_set_level(cairn_log *log, cairn_log_level level);

/* Write one line with cairn_field[count]. `log` may be NULL: then nothing happens. */
void cairn_log_event(cairn_log *log, cairn_log_level level, const char *event, const cairn_field *fields,
                     size_t count);

/* Write an error as a line: status, where, detail, offset. */
void cairn_log_error(cairn_log *log, cairn_log_level level, const char *event, const cairn_error *error);

/* "debug", "info", "warn", "error", "off" to the level. Errors: CAIRN_INVALID. */
CAIRN_MUST_CHECK cairn_status cairn_log_level_parse(const char *text, cairn_log_level *ret_level);

/* The level's name. */
const char *cairn_log_level_name(cairn_log_level level);

#define CAIRN_LOG(log, level, event, ...)                                              \
    do {                                                                               \
        if (cairn_log_wants((log), CAIRN_LOG_LEVEL_##level)) {                         \
            const cairn_field cairn_log_fields[] = {__VA_ARGS__};                      \
            cairn_log_event((log), CAIRN_LOG_LEVEL_##level, (event), cairn_log_fields, \
                            sizeof cairn_log_fields / sizeof cairn_log_fields[0]);     \
        }                                                                              \
    } while (0)

#endif
