/*
 * sharer_send - the sender's thread: jobs to the store, in the order in which they were handed over.
 */
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "cache/sharer_internal.h"

#define SECOND_NS UINT64_C(1000000000)

enum { SEND_S = 10, SEND_BYTES_SECOND = 4 << 20 }; /* a blob may take so long, and so much for its size    */

static cairn_status blob_send(cairn_sharer *sharer, sharer_job *job, uint64_t until_ns)
{
    bool rows = job->meta.kind == CAIRN_BLOB_ROWS;
    cairn_status status = CAIRN_OK;
    if (rows) {
        status =
            cairn_path_marks(&job->space.root, job->tokens, job->meta.begin, job->meta.end, job->marks, NULL);
    }
    return status == CAIRN_OK
               ? cairn_shared_put(sharer->shared, &job->space, &job->meta,
                                  rows ? (const uint8_t(*)[CAIRN_BLOB_MARK_BYTES])job->marks : NULL,
                                  rows ? job->runs : NULL, job->payload, job->anew, until_ns, NULL)
               : status;
}

static cairn_status job_send(cairn_sharer *sharer, sharer_job *job)
{
    uint64_t until_ns = cairn_clock_now_ns(cairn_clock_system()) + SEND_S * SECOND_NS;
    if (job->is_point && sharer->failed >= job->since) {
        return CAIRN_CANCELLED; /* a part of it didn't arrive */
    }
    if (job->is_point) {
        return cairn_shared_point_put(sharer->shared, &job->space, &job->point, until_ns, NULL);
    }
    until_ns += job->meta.payload_bytes / SEND_BYTES_SECOND * SECOND_NS;
    return blob_send(sharer, job, until_ns);
}

/* The job that was handed over first. The lock is held. */
static sharer_job *job_next(cairn_sharer *sharer)
{
    sharer_job *next = NULL;
    for (int i = 0; i < SHARER_OUT; i++) {
        sharer_job *job = &sharer->jobs[i];
        if (job->phase == SHARER_READY && (next == NULL || job->order < next->order)) {
            next = job;
        }
    }
    return next;
}

/* Forget one namespace in the store. False: the store doesn't take it now. The lock is held, but not meanwhile. */
static bool forget_one(cairn_sharer *sharer)
{
    cairn_shared_space space;
    cairn_namespace first = sharer->forgets[0];
    cairn_unlock(&sharer->lock);
    uint64_t until_ns = cairn_clock_now_ns(cairn_clock_system()) + SEND_S * SECOND_NS;
    cairn_status status = cairn_shared_space_get(sharer->shared, &first, &space, NULL);
    if (status == CAIRN_OK) {
        status = cairn_shared_forget(sharer->shared, &space, until_ns, NULL);
    }
    cairn_lock(&sharer->lock);
    if (status == CAIRN_OK) {
        sharer->count_forgets--;
        memmove(&sharer->forgets[0], &sharer->forgets[1], sharer->count_forgets * sizeof sharer->forgets[0]);
        cairn_cond_broadcast(&sharer->done);
    }
    return status == CAIRN_OK;
}

/* Until something is handed over; what is still to be forgotten is tried again each second. The lock is held. */
static void sleep_until_wanted(cairn_sharer *sharer)
{
    if (sharer->count_forgets > 0) {
        (void)cairn_cond_wait_for(&sharer->wake_sender, &sharer->lock, SECOND_NS);
    } else {
        cairn_cond_wait(&sharer->wake_sender, &sharer->lock);
    }
}

void *cairn_sharer_sender(void *ctx)
{
    cairn_sharer *sharer = ctx;
    cairn_sharer_signals_block();
    cairn_lock(&sharer->lock);
    while (!sharer->stop) {
        if (sharer->count_forgets > 0 && forget_one(sharer)) {
            continue;
        }
        sharer_job *job = job_next(sharer);
        if (job == NULL) {
            sleep_until_wanted(sharer);
            continue;
        }
        job->phase = SHARER_RUNNING;
        cairn_unlock(&sharer->lock);
        cairn_status status = job_send(sharer, job);
        cairn_lock(&sharer->lock);
        job->status = status;
        sharer->failed = status != CAIRN_OK ? job->order : sharer->failed;
        job->phase = SHARER_DONE;
        cairn_cond_broadcast(&sharer->done);
    }
    cairn_unlock(&sharer->lock);
    return NULL;
}
