/*
 * clock - what time it is, as a table; the system's or a virtual one.
 *
 * Only those who act read a clock. The core never does: time is passed in as a number, so that a replayed trace
 * gives the same plans.
 *
 * Units    now: ns since an arbitrary start, never going back. wall: ms since 1970-01-01 UTC, may jump
 * Thread   system: any. virtual: advance from one thread, read from any
 */
#ifndef CAIRN_BASE_CLOCK_H
#define CAIRN_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct cairn_clock cairn_clock;

struct cairn_clock {
    uint64_t (*now_ns)(void *ctx);
    int64_t (*wall_ms)(void *ctx);
    void *ctx;
};

/* The machine's clock. Never NULL; lives for ever. */
const cairn_clock *cairn_clock_system(void);

/* Monotonic nanoseconds. */
uint64_t cairn_clock_now_ns(const cairn_clock *clock);

/* Milliseconds since 1970 UTC. */
int64_t cairn_clock_wall_ms(const cairn_clock *clock);

/* Seconds since 1970 UTC. */
int64_t cairn_clock_wall_seconds(const cairn_clock *clock);

/* A clock that moves only when told to. Both times move together. */
typedef struct cairn_clock_virtual {
    cairn_clock clock; /* give this to the thing under test */
    atomic_uint_fast64_t elapsed_ns;
    int64_t wall_start_ms;
} cairn_clock_virtual;

/* Set up at now = 0 and the given wall time. The struct must not move afterwards. */
void cairn_clock_virtual_init(cairn_clock_virtual *clock, int64_t wall_start_ms);

/* Let time pass. */
void cairn_clock_virtual_advance(cairn_clock_virtual *clock, uint64_t by_ns);

#define CAIRN_CLOCK_TEXT 25 /* "2026-01-31T23:59:59.123Z" and NUL */

/* RFC 3339 text in UTC with milliseconds. Years 0 to 9999; others print as "0000-00-00T00:00:00.000Z". */
void cairn_clock_print(int64_t wall_ms, char text[CAIRN_CLOCK_TEXT]);

#endif
