/*
 * status - names, messages and HTTP numbers from the one list; filling of errors; assertions.
 *
 * Knows nothing of what failed. The only code under src/ below cli that writes to stderr is the assertion, right
 * before it stops the program.
 */
#include "cairn/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t expect_failures;

const char *cairn_status_name(cairn_status status)
{
    switch (status) {
#define NAME(name, code, http, message) \
    case CAIRN_##name:                  \
        return #name;
        CAIRN_STATUS_MAP(NAME)
#undef NAME
    }
    return "UNKNOWN";
}

const char *cairn_status_message(cairn_status status)
{
    switch (status) {
#define MESSAGE(name, code, http, message) \
    case CAIRN_##name:                     \
        return message;
        CAIRN_STATUS_MAP(MESSAGE)
#undef MESSAGE
    }
    return "unknown status";
}

int cairn_status_http(cairn_status status)
{
    switch (status) {
#define HTTP(name, code, http, message) \
    case CAIRN_##name:                  \
        return http;
        CAIRN_STATUS_MAP(HTTP)
#undef HTTP
    }
    return 500;
}

/* A text that was cut may end inside a UTF-8 character: take the incomplete one away. */
static void trim_cut_character(char *text)
{
    size_t len = strlen(text);
    size_t back = 0;
    while (back < 3 && back < len && ((unsigned char)text[len - 1 - back] & 0xc0u) == 0x80u) {
        back++;
    }
    if (back >= len) {
        return;
    }
    unsigned char lead = (unsigned char)text[len - 1 - back];
    size_t need = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    if (need > back) {
        text[len - 1 - back] = '\0';
    }
}

CAIRN_PRINTF(2, 0)
static void fill_detail(cairn_error *error, const char *format, va_list args)
{
    error->detail[0] = '\0';
    if (format == NULL) {
        return;
    }
    int len = vsnprintf(error->detail, sizeof error->detail, format, args);
    if (len < 0) {
        error->detail[0] = '\0';
    } else if ((size_t)len >= sizeof error->detail) {
        trim_cut_character(error->detail);
    }
}

/* All of an error but what the system said and the place in the input. errno is left alone. */
CAIRN_PRINTF(4, 0)
static void fill(cairn_error *error, cairn_status status, const char *where, const char *format, va_list args)
{
    int saved = errno;
    fill_detail(error, format, args);
    error->status = status;
    error->os_errno = 0;
    error->where = where != NULL ? where : "";
    error->offset_bytes = CAIRN_OFFSET_NONE;
    errno = saved;
}

cairn_status cairn_error_set(cairn_error *reterr, cairn_status status, const char *where, const char *format,
                             ...)
{
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        fill(reterr, status, where, format, args);
        va_end(args);
    }
    return status;
}

cairn_status cairn_error_set_at(cairn_error *reterr, cairn_status status, uint64_t offset_bytes,
                                const char *where, const char *format, ...)
{
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        fill(reterr, status, where, format, args);
        va_end(args);
        reterr->offset_bytes = offset_bytes;
    }
    return status;
}

static cairn_status status_from_errno(int os_errno)
{
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
        return CAIRN_NOSPACE;
    case ENOENT:
        return CAIRN_NOTFOUND;
    case EEXIST:
        return CAIRN_EXISTS;
    case ENOMEM:
        return CAIRN_NOMEM;
    default:
        return CAIRN_IO;
    }
}

cairn_status cairn_error_set_os(cairn_error *reterr, int os_errno, const char *where, const char *format, ...)
{
    cairn_status status = status_from_errno(os_errno);
    if (reterr == NULL) {
        return status;
    }
    va_list args;
    va_start(args, format);
    fill(reterr, status, where, format, args);
    va_end(args);
    reterr->os_errno = os_errno;

    char reason[96];
    if (strerror_r(os_errno, reason, sizeof reason) != 0) {
        (void)snprintf(reason, sizeof reason, "error %d", os_errno);
    }
    size_t used = strlen(reterr->detail);
    int len =
        snprintf(reterr->detail + used, sizeof reterr->detail - used, "%s%s", used > 0 ? ": " : "", reason);
    if (len < 0 || (size_t)len >= sizeof reterr->detail - used) {
        trim_cut_character(reterr->detail);
    }
    return status;
}

void cairn_error_print(const cairn_error *error, char *text, unsigned room_bytes)
{
    if (room_bytes == 0) {
        return;
    }
    char place[40] = "";
    if (error->offset_bytes != CAIRN_OFFSET_NONE) {
        (void)snprintf(place, sizeof place, " (at byte %llu)", (unsigned long long)error->offset_bytes);
    }
    const char *where = error->where != NULL ? error->where : "";
    int len = snprintf(text, room_bytes, "%s%s%s%s%s%s", where, where[0] != '\0' ? ": " : "",
                       cairn_status_message(error->status), error->detail[0] != '\0' ? ": " : "",
                       error->detail, place);
    if (len < 0) {
        text[0] = '\0';
    } else if ((unsigned)len >= room_bytes) {
        trim_cut_character(text);
    }
}

void cairn_assert_failed(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "cairn: %s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

bool cairn_expect_failed(const char *file, int line, const char *condition, bool aborts)
{
    atomic_fetch_add_explicit(&expect_failures, 1, memory_order_relaxed);
    if (aborts) {
        (void)fprintf(stderr, "cairn: %s:%d: expectation failed: %s\n", file, line, condition);
        abort();
    }
    return false;
}

uint64_t cairn_expect_failures(void)
{
    return atomic_load_explicit(&expect_failures, memory_order_relaxed);
}
