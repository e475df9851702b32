/*
 * outbox - an answer's bytes on their way from the engine's thread to a connection's thread.
 *
 *   engine thread --put--> [ bytes, at most bytes_max ] --take--> connection thread --> socket
 *                  <-full?-                             <--wake--
 *
 * The connection sleeps while there is nothing to take; a put, an end and a cancel wake it. It is also where the two
 * sides learn of each other's end: the writer's (ended, or failed before the first byte) and the reader's (cancelled).
 *
 * A slow reader is bounded in memory: above the high mark `full` is true and the writer pauses; put refuses what would
 * pass bytes_max.
 *
 * Units    bytes
 * Owner    lives inside a job, which both sides hold by reference
 * Thread   any; one lock
 */
#ifndef CAIRN_OUTBOX_H
#define CAIRN_OUTBOX_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/clock.h"
#include "serve/api_error.h"

enum { CAIRN_OUTBOX_HIGH_BYTES = 64 * 1024 };

typedef struct cairn_outbox {
    pthread_mutex_t lock;
    const cairn_clock *clock; /* tells taken_ns; NULL: nobody asks                                      */
    uint64_t taken_ns;        /* when the reader took the first bytes; 0: not yet                       */
    cairn_buf bytes;
    bool started;               /* something may be sent: the answer's headers are decided                 */
    bool ended;                 /* no more bytes will come                                                 */
    bool cancelled;             /* nobody will take them                                                   */
    bool sleeping;              /* the reader waits for `wake`                                             */
    cairn_api_error error;      /* error.http != 0: the answer failed before it started                    */
    void (*wake)(void *reader); /* called with the lock held, once for each sleep                          */
    void *reader;
    void (*drained)(void *writer); /* called without the lock, when `full` ends                         */
    void *writer;
} cairn_outbox;

typedef enum cairn_outbox_state {
    CAIRN_OUTBOX_BYTES,     /* some were taken                                                        */
    CAIRN_OUTBOX_SLEEP,     /* none now: the reader was put to sleep                                  */
    CAIRN_OUTBOX_END,       /* none, and none will come                                               */
    CAIRN_OUTBOX_CANCELLED, /* give up the connection                                                 */
    CAIRN_OUTBOX_READY,     /* (wait) an answer can begin                                             */
    CAIRN_OUTBOX_FAILED     /* (wait) it failed before it began: see `error`                          */
} cairn_outbox_state;

void cairn_outbox_init(cairn_outbox *box, const cairn_mem *mem, size_t bytes_max);
void cairn_outbox_release(cairn_outbox *box);

/* --- writer ---------------------------------------------------------------------------------------------------- */

/* Give all of `from` to the reader and empty it. Errors: CAIRN_LIMIT (slow reader), CAIRN_CANCELLED, CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_outbox_put(cairn_outbox *box, cairn_buf *from);
/* No more will come. */
void cairn_outbox_end(cairn_outbox *box);
/* It failed. Before the start the reader sees the error; later it sees a broken answer (CANCELLED). */
void cairn_outbox_fail(cairn_outbox *box, const cairn_api_error *error);
bool cairn_outbox_is_full(cairn_outbox *box);
bool cairn_outbox_is_started(cairn_outbox *box);
bool cairn_outbox_is_cancelled(cairn_outbox *box);
/* All of it was given, or it failed. */
bool cairn_outbox_is_ended(cairn_outbox *box);
/* When the reader took the first bytes, by the box's clock; 0: not yet, or it has no clock. */
uint64_t cairn_outbox_taken_ns(cairn_outbox *box);

/* --- reader ---------------------------------------------------------------------------------------------------- */

/*
 * May the answer begin? READY, FAILED, CANCELLED or SLEEP.
 *
 *   whole      [in]   not before all of it is there
 *   sleep      [in]   called with the lock held when the result is SLEEP: it suspends the connection
 *   ret_bytes  [out]  bytes that wait to be taken, when READY
 */
cairn_outbox_state cairn_outbox_wait(cairn_outbox *box, bool whole, void (*sleep)(void *reader),
                                     size_t *ret_bytes);

/* Take up to room_bytes. BYTES, SLEEP, END or CANCELLED. */
cairn_outbox_state cairn_outbox_take(cairn_outbox *box, char *out, size_t room_bytes, size_t *ret_bytes,
                                     void (*sleep)(void *reader));

/* --- either, or a watcher --------------------------------------------------------------------------------------- */

/* The reader is gone or must go; wakes it. false: the answer had ended or was cancelled before. */
bool cairn_outbox_cancel(cairn_outbox *box);

#endif
