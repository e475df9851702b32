/*
 * lock - a mutex is locked, or the program stops: it fails only by our own mistake.
 *
 * Thread   any
 */
#ifndef CAIRN_BASE_LOCK_H
#define CAIRN_BASE_LOCK_H

#include <pthread.h>

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

#endif
