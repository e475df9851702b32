/*
 * job_queue - see the header. A plain list; the owners' turns are a small table in which the oldest entry is replaced.
 */
#include "serve/job_queue.h"

#include <string.h>

static bool same_owner(const cairn_namespace *a, const cairn_namespace *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

void cairn_job_queue_push(cairn_job_queue *queue, cairn_job *job)
{
    job->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = job;
    } else {
        queue->first = job;
    }
    queue->last = job;
    queue->count++;
}

void cairn_job_queue_push_front(cairn_job_queue *queue, cairn_job *job)
{
    job->next = queue->first;
    queue->first = job;
    if (queue->last == NULL)
        queue->last = job;
    queue->count++;
}

/* Take out the one behind `before` (NULL: the first). */
static cairn_job *take_behind(cairn_job_queue *queue, cairn_job *before)
{
    cairn_job **link = before != NULL ? &before->next : &queue->first, *job = *link;
    *link = job->next;
    if (queue->last == job)
        queue->last = before;
    job->next = NULL;
    queue->count--;
    return job;
}

/* The number of the owner's last turn; 0: none that is remembered. */
static uint64_t last_turn(const cairn_job_queue *queue, const cairn_namespace *owner)
{
    for (size_t i = 0; i < CAIRN_JOB_QUEUE_OWNERS; i++) {
        if (queue->turns[i].turn != 0 && same_owner(&queue->turns[i].owner, owner))
            return queue->turns[i].turn;
    }
    return 0;
}

cairn_job *cairn_job_queue_take(cairn_job_queue *queue)
{
    cairn_job *best_before = NULL, *before = NULL;
    uint64_t best = UINT64_MAX;
    if (queue->first == NULL)
        return NULL;
    for (cairn_job *job = queue->first; job != NULL && best > 0; before = job, job = job->next) {
        uint64_t turn = last_turn(queue, &job->owner);
        if (turn < best) {
            best = turn;
            best_before = before;
        }
    }
    return take_behind(queue, best_before);
}

void cairn_job_queue_begun(cairn_job_queue *queue, const cairn_job *job)
{
    size_t at = 0;
    for (size_t i = 0; i < CAIRN_JOB_QUEUE_OWNERS; i++) {
        if (queue->turns[i].turn != 0 && same_owner(&queue->turns[i].owner, &job->owner)) {
            at = i;
            break;
        }
        if (queue->turns[i].turn < queue->turns[at].turn)
            at = i;
    }
    queue->turns[at].owner = job->owner;
    queue->turns[at].turn = ++queue->turn;
}

static uint32_t count_of(const cairn_job_queue *queue, const cairn_namespace *owner)
{
    uint32_t count = 0;
    for (const cairn_job *job = queue->first; job != NULL; job = job->next)
        count += same_owner(&job->owner, owner) ? 1 : 0;
    return count;
}

cairn_job *cairn_job_queue_make_way(cairn_job_queue *queue, const cairn_job *job)
{
    uint32_t own = count_of(queue, &job->owner), most = 0;
    const cairn_namespace *greedy = NULL;
    for (const cairn_job *each = queue->first; each != NULL && most <= queue->count / 2; each = each->next) {
        uint32_t count = count_of(queue, &each->owner);
        if (count > most) {
            most = count;
            greedy = &each->owner;
        }
    }
    if (greedy == NULL || most < own + 2)
        return NULL;
    cairn_job *before = NULL, *newest_before = NULL;
    bool found = false;
    for (cairn_job *each = queue->first; each != NULL; before = each, each = each->next) {
        if (!same_owner(&each->owner, greedy) || each->choice > 1)
            continue; /* behind the first of several answers it has begun to speak */
        newest_before = before;
        found = true;
    }
    return found ? take_behind(queue, newest_before) : NULL;
}

cairn_job *cairn_job_queue_sweep(cairn_job_queue *queue, bool (*leaves)(void *ctx, cairn_job *job), void *ctx)
{
    cairn_job *gone = NULL, *before = NULL;
    for (cairn_job *job = queue->first; job != NULL;) {
        cairn_job *next = job->next;
        if (leaves(ctx, job)) {
            (void)take_behind(queue, before);
            job->next = gone;
            gone = job;
        } else {
            before = job;
        }
        job = next;
    }
    return gone;
}
