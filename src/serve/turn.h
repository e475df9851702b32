/*
 * turn - what the scheduler does with one request: begin, look after a step, end. Everything here runs on the
 * scheduler's thread.
 *
 * See      scheduler.h
 */
#ifndef CAIRN_TURN_H
#define CAIRN_TURN_H

#include "serve/scheduler.h"

typedef enum cairn_turn {
    CAIRN_TURN_GOES_ON = 0,
    CAIRN_TURN_WAITS = 1, /* no slot now; try again after another request has ended                    */
    CAIRN_TURN_OVER = 2   /* it has ended, well or not; the client knows                               */
} cairn_turn;

/* Plan it and take a slot. */
cairn_turn cairn_turn_begin(const cairn_scheduler_options *options, cairn_job *job);

/*
 * The cache has done a step for it: sample and hand out, or fail, or nothing yet. A request with several answers goes on
 * with the next one in the slot that has become free; WAITS when there is none after all.
 */
cairn_turn cairn_turn_after_step(const cairn_scheduler_options *options, cairn_job *job);

/* Look at the reader: sets work.paused_ns. true: it has been too slow for too long. */
bool cairn_turn_is_stalled(const cairn_scheduler_options *options, cairn_job *job);

/* End it in any phase; the record goes to the answer, the log, the metrics and the history. */
void cairn_turn_end(const cairn_scheduler_options *options, cairn_job *job, cairn_ending ending,
                    cairn_finish finish);

/* It was cancelled, or the server stops, before it had a slot. */
void cairn_turn_abandon(const cairn_scheduler_options *options, cairn_job *job);

#endif
