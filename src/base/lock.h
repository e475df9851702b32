/*
 * lock - mutexes, conditions and threads to be joined: it works, or the program stops, as it fails only by our own mistake.
 *
 * Thread   any
 */
#ifndef CAIRN_BASE_LOCK_H
#define CAIRN_BASE_LOCK_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "cairn/status.h"

/* Set up. */
static inline void cairn_lock_init(pthread_mutex_t *mutex)
{
    int code = pthread_mutex_init(mutex, NULL);
    CAIRN_ASSERT(code == 0);
}

/* Wait for the mutex and take it. */
static inline void cairn_lock(pthread_mutex_t *mutex)
{
    int code = pthread_mutex_lock(mutex);
    CAIRN_ASSERT(code == 0);
}

/* Give it back. */
static inline void cairn_unlock(pthread_mutex_t *mutex)
{
    int code = pthread_mutex_unlock(mutex);
    CAIRN_ASSERT(code == 0);
}

/* Set up a condition. Its times are those of the monotonic clock: setting the machine's clock wakes nobody early or late. */
static inline void cairn_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t attr;
    int code = pthread_condattr_init(&attr);
    CAIRN_ASSERT(code == 0);
    code = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    CAIRN_ASSERT(code == 0);
    code = pthread_cond_init(condition, &attr);
    CAIRN_ASSERT(code == 0);
    (void)pthread_condattr_destroy(&attr);
}

/* Give the mutex back until somebody signals, then take it again. It may come back without a signal, too. */
static inline void cairn_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    int code = pthread_cond_wait(condition, mutex);
    CAIRN_ASSERT(code == 0);
}

/* The same for at most so many ns, a day at the most. Gives false when they have passed. */
static inline bool cairn_cond_wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t most_ns)
{
    const uint64_t day_ns = UINT64_C(86400000000000);
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (most_ns < day_ns ? most_ns : day_ns) + (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    int code = pthread_cond_timedwait(condition, mutex, &until);
    CAIRN_ASSERT(code == 0 || code == ETIMEDOUT);
    return code == 0;
}

/* One of those who wait goes on. */
static inline void cairn_cond_signal(pthread_cond_t *condition)
{
    int code = pthread_cond_signal(condition);
    CAIRN_ASSERT(code == 0);
}

/* All of them do. */
static inline void cairn_cond_broadcast(pthread_cond_t *condition)
{
    int code = pthread_cond_broadcast(condition);
    CAIRN_ASSERT(code == 0);
}

/* Wait for a thread's end. */
static inline void cairn_join(pthread_t thread)
{
    int code = pthread_join(thread, NULL);
    CAIRN_ASSERT(code == 0);
}

#endif
