/*
 * log - formats on the caller's stack, writes under one lock.
 */
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

void cairn_log_init(cairn_log *log, cairn_log_level level, cairn_field_format format,
                    const cairn_clock *clock, void (*write)(void *ctx, const char *line, size_t len_bytes),
                    void *ctx)
{
    log->write = write;
    log->ctx = ctx;
    log->clock = clock;
    log->format = format;
    atomic_init(&log->level, (int)level);
    pthread_mutex_init(&log->lock, NULL);
}

void cairn_log_release(cairn_log *log)
{
    pthread_mutex_destroy(&log->lock);
}

void cairn_log_write_fd(void *ctx, const char *line, size_t len_bytes)
{
    int fd = (int)(intptr_t)ctx;
    size_t done = 0;
    while (done < len_bytes) {
        ssize_t wrote = write(fd, line + done, len_bytes - done);
        if (wrote > 0) {
            done += (size_t)wrote;
        } else if (wrote == 0 || errno != EINTR) {
            return; /* there is nowhere to say it */
        }
    }
}

bool cairn_log_wants(const cairn_log *log, cairn_log_level level)
{
    return log != NULL && level != CAIRN_LOG_LEVEL_OFF &&
           (int)level >= atomic_load_explicit(&log->level, memory_order_relaxed);
}

void cairn_log_set_level(cairn_log *log, cairn_log_level level)
{
    atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

void cairn_log_event(cairn_log *log, cairn_log_level level, const char *event, const cairn_field *fields,
                     size_t count)
{
    if (!cairn_log_wants(log, level)) {
        return;
    }
    char line[CAIRN_LOG_LINE_BYTES];
    char time[CAIRN_CLOCK_TEXT] = "";
    /* Under the lock from here: lines stand in the order of their times. */
    pthread_mutex_lock(&log->lock);
    if (log->clock != NULL) {
        cairn_clock_print(cairn_clock_wall_ms(log->clock), time);
    }
    const cairn_field_head head = {.time = time, .level = cairn_log_level_name(level), .event = event};
    size_t len = cairn_field_print(log->format, &head, fields, count, line, sizeof line);
    log->write(log->ctx, line, len);
    pthread_mutex_unlock(&log->lock);
}

void cairn_log_error(cairn_log *log, cairn_log_level level, const char *event, const cairn_error *error)
{
    if (!cairn_log_wants(log, level)) {
        return;
    }
    const cairn_field fields[] = {
        CAIRN_FIELD_STR("status", cairn_status_name(error->status)),
        CAIRN_FIELD_STR("where", error->where),
        CAIRN_FIELD_STR("message", cairn_status_message(error->status)),
        CAIRN_FIELD_STR("detail", error->detail),
        CAIRN_FIELD_UINT("offset", error->offset_bytes),
    };
    size_t count = sizeof fields / sizeof fields[0];
    cairn_log_event(log, level, event, fields, error->offset_bytes == CAIRN_OFFSET_NONE ? count - 1 : count);
}

cairn_status cairn_log_level_parse(const char *text, cairn_log_level *ret_level)
{
    for (size_t i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *ret_level = (cairn_log_level)i;
            return CAIRN_OK;
        }
    }
    return CAIRN_INVALID;
}

const char *cairn_log_level_name(cairn_log_level level)
{
    size_t i = (size_t)level;
    return i < sizeof level_names / sizeof level_names[0] ? level_names[i] : "?";
}
