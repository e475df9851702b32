/*
 * clock - the only file below serve that asks the system for the time.
 */
#include "base/clock.h"

#include <string.h>
#include <time.h>

#include "cairn/status.h"

static uint64_t system_now_ns(void *ctx)
{
    (void)ctx;
    struct timespec time;
    int code = clock_gettime(CLOCK_MONOTONIC, &time);
    CAIRN_ASSERT(code == 0);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static int64_t system_wall_ms(void *ctx)
{
    (void)ctx;
    struct timespec time;
    int code = clock_gettime(CLOCK_REALTIME, &time);
    CAIRN_ASSERT(code == 0);
    return (int64_t)time.tv_sec * 1000 + (int64_t)time.tv_nsec / 1000000;
}

const cairn_clock *cairn_clock_system(void)
{
    static const cairn_clock clock = {.now_ns = system_now_ns, .wall_ms = system_wall_ms, .ctx = NULL};
    return &clock;
}

uint64_t cairn_clock_now_ns(const cairn_clock *clock)
{
    return clock->now_ns(clock->ctx);
}

int64_t cairn_clock_wall_ms(const cairn_clock *clock)
{
    return clock->wall_ms(clock->ctx);
}

int64_t cairn_clock_wall_seconds(const cairn_clock *clock)
{
    int64_t ms = cairn_clock_wall_ms(clock);
    return ms >= 0 ? ms / 1000 : (ms - 999) / 1000;
}

static uint64_t virtual_now_ns(void *ctx)
{
    cairn_clock_virtual *clock = ctx;
    return atomic_load(&clock->elapsed_ns);
}

static int64_t virtual_wall_ms(void *ctx)
{
    cairn_clock_virtual *clock = ctx;
    return clock->wall_start_ms + (int64_t)(atomic_load(&clock->elapsed_ns) / 1000000);
}

void cairn_clock_virtual_init(cairn_clock_virtual *clock, int64_t wall_start_ms)
{
    clock->clock = (cairn_clock){.now_ns = virtual_now_ns, .wall_ms = virtual_wall_ms, .ctx = clock};
    atomic_init(&clock->elapsed_ns, 0);
    clock->wall_start_ms = wall_start_ms;
}

void cairn_clock_virtual_advance(cairn_clock_virtual *clock, uint64_t by_ns)
{
    atomic_fetch_add(&clock->elapsed_ns, by_ns);
}

static void put_digits(char *text, unsigned digits, int64_t value)
{
    for (unsigned i = digits; i > 0; i--) {
        text[i - 1] = (char)('0' + value % 10);
        value /= 10;
    }
}

void cairn_clock_print(int64_t wall_ms, char text[CAIRN_CLOCK_TEXT])
{
    memcpy(text, "0000-00-00T00:00:00.000Z", CAIRN_CLOCK_TEXT);
    int64_t ms = wall_ms % 1000;
    ms = ms < 0 ? ms + 1000 : ms;
    time_t seconds = (time_t)(wall_ms / 1000 - (wall_ms % 1000 < 0));
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || parts.tm_year < -1900 || parts.tm_year > 9999 - 1900) {
        return;
    }
    put_digits(text, 4, parts.tm_year + 1900);
    put_digits(text + 5, 2, parts.tm_mon + 1);
    put_digits(text + 8, 2, parts.tm_mday);
    put_digits(text + 11, 2, parts.tm_hour);
    put_digits(text + 14, 2, parts.tm_min);
    put_digits(text + 17, 2, parts.tm_sec);
    put_digits(text + 20, 3, ms);
}
