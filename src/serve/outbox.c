/*
 * outbox - see the header. Sleep and wake happen under the lock, so that a wake can't slip in between "nothing there"
 * and "asleep".
 */
#include "serve/outbox.h"

#include <string.h>

#include "base/lock.h"

void cairn_outbox_init(cairn_outbox *box, const cairn_mem *mem, size_t bytes_max)
{
    memset(box, 0, sizeof *box);
    cairn_lock_init(&box->lock);
    cairn_buf_init(&box->bytes, mem, bytes_max);
}

void cairn_outbox_release(cairn_outbox *box)
{
    cairn_buf_release(&box->bytes);
    (void)pthread_mutex_destroy(&box->lock);
}

static void lock(cairn_outbox *box)
{
    cairn_lock(&box->lock);
}

static void unlock(cairn_outbox *box)
{
    cairn_unlock(&box->lock);
}

static void wake_locked(cairn_outbox *box)
{
    if (!box->sleeping)
        return;
    box->sleeping = false;
    if (box->wake != NULL)
        box->wake(box->reader);
}

cairn_status cairn_outbox_put(cairn_outbox *box, cairn_buf *from)
{
    lock(box);
    cairn_status status = box->cancelled ? CAIRN_CANCELLED : CAIRN_OK;
    if (status == CAIRN_OK && from->len_bytes > 0)
        status = cairn_buf_append(&box->bytes, from->bytes, from->len_bytes);
    if (status == CAIRN_OK) {
        box->started = true;
        wake_locked(box);
    }
    unlock(box);
    cairn_buf_reset(from);
    return status;
}

void cairn_outbox_end(cairn_outbox *box)
{
    lock(box);
    box->started = true;
    box->ended = true;
    wake_locked(box);
    unlock(box);
}

void cairn_outbox_fail(cairn_outbox *box, const cairn_api_error *error)
{
    lock(box);
    if (box->started || box->cancelled) {
        box->cancelled = true;
    } else {
        box->error = *error;
        box->started = true;
    }
    box->ended = true;
    wake_locked(box);
    unlock(box);
}

bool cairn_outbox_is_full(cairn_outbox *box)
{
    lock(box);
    bool full = box->bytes.len_bytes >= CAIRN_OUTBOX_HIGH_BYTES && !box->cancelled;
    unlock(box);
    return full;
}

bool cairn_outbox_is_started(cairn_outbox *box)
{
    lock(box);
    bool started = box->started;
    unlock(box);
    return started;
}

bool cairn_outbox_is_cancelled(cairn_outbox *box)
{
    lock(box);
    bool cancelled = box->cancelled;
    unlock(box);
    return cancelled;
}

bool cairn_outbox_is_ended(cairn_outbox *box)
{
    lock(box);
    bool ended = box->ended;
    unlock(box);
    return ended;
}

uint64_t cairn_outbox_taken_ns(cairn_outbox *box)
{
    lock(box);
    uint64_t taken_ns = box->taken_ns;
    unlock(box);
    return taken_ns;
}

static void sleep_locked(cairn_outbox *box, void (*sleep)(void *reader))
{
    box->sleeping = true;
    if (sleep != NULL)
        sleep(box->reader);
}

cairn_outbox_state cairn_outbox_wait(cairn_outbox *box, bool whole, void (*sleep)(void *reader),
                                     size_t *ret_bytes)
{
    lock(box);
    *ret_bytes = box->bytes.len_bytes;
    cairn_outbox_state state = CAIRN_OUTBOX_READY;
    if (box->cancelled) {
        state = CAIRN_OUTBOX_CANCELLED;
    } else if (box->error.http != 0) {
        state = CAIRN_OUTBOX_FAILED;
    } else if (!box->started || (whole && !box->ended)) {
        sleep_locked(box, sleep);
        state = CAIRN_OUTBOX_SLEEP;
    }
    unlock(box);
    return state;
}

cairn_outbox_state cairn_outbox_take(cairn_outbox *box, char *out, size_t room_bytes, size_t *ret_bytes,
                                     void (*sleep)(void *reader))
{
    cairn_outbox_state state = CAIRN_OUTBOX_BYTES;
    bool drained = false;
    *ret_bytes = 0;
    lock(box);
    if (box->cancelled) {
        state = CAIRN_OUTBOX_CANCELLED;
    } else if (box->bytes.len_bytes > 0 && room_bytes > 0) {
        bool was_full = box->bytes.len_bytes >= CAIRN_OUTBOX_HIGH_BYTES;
        size_t n = box->bytes.len_bytes < room_bytes ? box->bytes.len_bytes : room_bytes;
        memcpy(out, box->bytes.bytes, n);
        cairn_buf_consume(&box->bytes, n);
        *ret_bytes = n;
        if (box->taken_ns == 0 && box->clock != NULL)
            box->taken_ns = cairn_clock_now_ns(box->clock);
        drained = was_full && box->bytes.len_bytes < CAIRN_OUTBOX_HIGH_BYTES;
    } else if (box->ended) {
        state = CAIRN_OUTBOX_END;
    } else {
        sleep_locked(box, sleep);
        state = CAIRN_OUTBOX_SLEEP;
    }
    unlock(box);
    if (drained && box->drained != NULL)
        box->drained(box->writer);
    return state;
}

bool cairn_outbox_cancel(cairn_outbox *box)
{
    lock(box);
    bool early = !box->ended && !box->cancelled;
    box->cancelled = true;
    wake_locked(box);
    unlock(box);
    return early;
}
