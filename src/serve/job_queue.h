/*
 * job_queue - requests that wait for a slot, fair between those who sent them.
 *
 *   owner A   a1 a2 a3 a4 a5          taken in the order   a1 b1 a2 b2 a3 ...
 *   owner B         b1 b2
 *
 * Owners take turns: the next one is taken from the owner whose last turn is longest ago; an owner's own requests keep their
 * order. Where the queue is full, the newest request of whoever waits with most gives way to one of an owner who waits with
 * clearly fewer: so a flood of one client neither delays another's request by more than one turn nor keeps it out. Without
 * API keys all requests have one owner, and it is first come, first served.
 *
 * Owner    holds jobs for the scheduler, and takes over and hands out its reference
 * Thread   none of its own: the scheduler's lock guards it
 * Cost     a take looks at each waiting request
 */
#ifndef CAIRN_JOB_QUEUE_H
#define CAIRN_JOB_QUEUE_H

#include "serve/job.h"

/* Of how many owners the last turn is remembered; whose turn is forgotten is treated as a new one. */
enum { CAIRN_JOB_QUEUE_OWNERS = 64 };

typedef struct cairn_job_queue {
    cairn_job *first, *last;
    uint32_t count;
    uint64_t turn; /* number of the last turn */
    struct {
        cairn_namespace owner;
        uint64_t turn; /* 0: free */
    } turns[CAIRN_JOB_QUEUE_OWNERS];
} cairn_job_queue;

/* The struct starts as zeros. */
void cairn_job_queue_push(cairn_job_queue *queue, cairn_job *job);
/* Back to the front: it could not be begun yet. */
void cairn_job_queue_push_front(cairn_job_queue *queue, cairn_job *job);
/* Whose turn it is; NULL when nobody waits. */
cairn_job *cairn_job_queue_take(cairn_job_queue *queue);
/* What was taken was begun: that was its owner's turn. */
void cairn_job_queue_begun(cairn_job_queue *queue, const cairn_job *job);

/*
 * The queue is full and `job` comes: who gives way? The newest of the owner with most, if that owner waits with at least two
 * more than job's; it is taken out. NULL: nobody.
 */
cairn_job *cairn_job_queue_make_way(cairn_job_queue *queue, const cairn_job *job);

/* Take out all for which leaves(ctx, job); gives them as a list by `next`, NULL: none. */
cairn_job *cairn_job_queue_sweep(cairn_job_queue *queue, bool (*leaves)(void *ctx, cairn_job *job),
                                 void *ctx);

#endif
