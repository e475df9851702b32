/*
 * sharer_receive - the receivers' threads: what the store has of a prompt, and the bytes that were then chosen.
 *
 *   ask    which points are there? --> the deepest that may serve --> would reading be faster? --> heads of its blobs
 *   load   one blob's pieces into its room in memory
 *
 * Each does one thing at a time over connections of its own. Over a long line as many blobs are under way as there are receivers:
 * it is filled although each blob waits for a round trip. Questions go before bytes: they are short, and a request waits for each.
 */
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "cache/sharer_internal.h"

void cairn_sharer_ask_clear(cairn_sharer *sharer, sharer_ask *ask)
{
    cairn_shared_heads_release(sharer->shared, ask->heads, ask->count_heads);
    ask->count_heads = 0;
    ask->left = false;
    ask->dearer = false;
}

/*
 * What is to be fetched of the point: its state, and the rows beyond what memory has. 0: a part is larger than any that a server
 * of this kind makes.
 */
static uint64_t parts_choose(const cairn_sharer *sharer, sharer_ask *ask, cairn_shared_part *parts)
{
    uint64_t bytes = 0;
    ask->count_heads = 0;
    for (uint32_t i = 0; i < ask->point.count_parts; i++) {
        const cairn_shared_part *part = &ask->point.parts[i];
        if (i > 0 && part->end <= ask->resume) {
            continue;
        }
        if (part->payload_bytes > sharer->payload_room ||
            part->end - part->begin > CAIRN_SHARER_BLOCK_TOKENS) {
            return 0;
        }
        ask->head_parts[ask->count_heads] = i;
        parts[ask->count_heads++] = *part;
        bytes += part->payload_bytes;
    }
    return bytes;
}

/* Get the heads of a point that serves. CAIRN_NOTFOUND: not worth it, or a part of it is gone. */
static cairn_status point_take(const sharer_receiver *receiver, sharer_ask *ask, cairn_error *reterr)
{
    cairn_sharer *sharer = receiver->sharer;
    const sharer_candidate *candidate = &ask->candidates[ask->found];
    cairn_shared_part *parts = cairn_mem_array(cairn_mem_default(), ask->point.count_parts, sizeof *parts);
    if (parts == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache/sharer: ask", NULL);
    }
    uint64_t bytes = parts_choose(sharer, ask, parts);
    uint32_t count = ask->count_heads;
    ask->expected_ns = cairn_shared_expected_ns(sharer->shared, bytes, count);
    ask->dearer = (double)ask->expected_ns > ask->read_ns_token * (candidate->position - ask->resume);
    cairn_status status = bytes > 0 ? CAIRN_NOTFOUND : CAIRN_CORRUPT;
    ask->count_heads = 0; /* none is held yet */
    if (!ask->dearer && bytes > 0) {
        status = cairn_shared_heads_get(receiver->reader, &ask->space, parts, count, ask->until_ns,
                                        ask->heads, reterr);
        ask->count_heads = status == CAIRN_OK ? count : 0;
    }
    if (status != CAIRN_OK && !ask->dearer && (status == CAIRN_NOTFOUND || status == CAIRN_CORRUPT)) {
        cairn_shared_point_drop(receiver->reader, ask->keys[ask->found], ask->until_ns);
    }
    cairn_mem_array_release(cairn_mem_default(), parts, ask->point.count_parts, sizeof *parts);
    return status;
}

/* Is the point what was asked for? */
static bool point_serves(const sharer_ask *ask, const sharer_candidate *candidate)
{
    return ask->point.position == candidate->position && ask->point.provenance == candidate->provenance &&
           cairn_path_digest_equal(&ask->point.path, &candidate->path) &&
           (candidate->cut_digest == 0 || candidate->cut_digest == ask->point.cut_digest);
}

/* Was it written before its namespace was forgotten, as far as clocks agree? */
static bool point_forgotten(const cairn_shared_point *point, uint64_t forgotten_s)
{
    return forgotten_s > 0 && point->created_s < UINT64_MAX - SHARER_MARGIN_S &&
           (forgotten_s > UINT64_MAX - SHARER_MARGIN_S || point->created_s <= forgotten_s + SHARER_MARGIN_S);
}

static cairn_status ask_store(const sharer_receiver *receiver, sharer_ask *ask, cairn_error *reterr)
{
    bool there[SHARER_KEYS_MAX + 1];
    uint64_t forgotten_s = 0;
    cairn_status status = cairn_shared_ask(receiver->reader, (const char(*)[CAIRN_KV_KEY_BYTES])ask->keys,
                                           ask->count + 1, ask->until_ns, there, reterr);
    uint32_t tries = 0;
    if (status == CAIRN_OK && there[ask->count]) {
        status = cairn_shared_forgotten(receiver->reader, &ask->space, ask->until_ns, &forgotten_s, reterr);
    }
    for (uint32_t i = 0; i < ask->count && status == CAIRN_OK && tries < SHARER_TRIES; i++) {
        if (!there[i]) {
            continue;
        }
        tries++;
        cairn_status got =
            cairn_shared_point_get(receiver->reader, &ask->space, ask->keys[i], receiver->sharer->parts_room,
                                   ask->until_ns, &ask->point, reterr);
        if (got == CAIRN_OK && point_serves(ask, &ask->candidates[i]) &&
            !point_forgotten(&ask->point, forgotten_s)) {
            ask->found = i;
            got = point_take(receiver, ask, reterr);
            if (got == CAIRN_OK || ask->dearer) { /* a nearer one has fewer bytes, and saves less */
                return got;
            }
        }
        status = got == CAIRN_TIMEOUT || got == CAIRN_BUSY || got == CAIRN_IO ? got : status;
    }
    return status == CAIRN_OK ? CAIRN_NOTFOUND : status;
}

/* The first question that waits. The lock is held. */
static sharer_ask *ask_next(cairn_sharer *sharer)
{
    for (uint32_t i = 0; i < sharer->count_asks; i++) {
        if (sharer->asks[i].phase == SHARER_READY) {
            return &sharer->asks[i];
        }
    }
    return NULL;
}

/* The load that was handed over first, when one more may be under way. The lock is held. */
static sharer_load *load_next(cairn_sharer *sharer)
{
    sharer_load *next = NULL;
    uint32_t running = 0;
    for (int i = 0; i < SHARER_LOADS; i++) {
        sharer_load *load = &sharer->loads[i];
        running += load->phase == SHARER_RUNNING ? 1 : 0;
        if (load->phase == SHARER_READY && (next == NULL || load->order < next->order)) {
            next = load;
        }
    }
    return next != NULL && running < cairn_shared_at_once(sharer->shared, next->bytes) ? next : NULL;
}

/* The request has gone, and nobody works on its question. The lock is held. */
static void ask_free_if_left(cairn_sharer *sharer, sharer_ask *ask)
{
    if (ask->left && ask->running == 0) {
        cairn_sharer_ask_clear(sharer, ask);
        ask->phase = SHARER_FREE;
    }
}

static void ask_work(const sharer_receiver *receiver, sharer_ask *ask)
{
    cairn_sharer *sharer = receiver->sharer;
    ask->phase = SHARER_RUNNING;
    cairn_unlock(&sharer->lock);
    cairn_status status = ask_store(receiver, ask, NULL);
    cairn_lock(&sharer->lock);
    ask->status = status;
    ask->phase = SHARER_DONE;
    ask_free_if_left(sharer, ask);
}

static void load_work(const sharer_receiver *receiver, sharer_load *load)
{
    cairn_sharer *sharer = receiver->sharer;
    sharer_ask *ask = load->ask;
    load->phase = SHARER_RUNNING;
    cairn_unlock(&sharer->lock);
    cairn_status status = CAIRN_CANCELLED; /* too late to begin: that is not the store's fault */
    if (cairn_clock_now_ns(cairn_clock_system()) < load->until_ns) {
        status =
            cairn_shared_load(receiver->reader, &ask->heads[load->head], load->until_ns, load->out, NULL);
    }
    if (status == CAIRN_NOTFOUND || status == CAIRN_CORRUPT) { /* what is incomplete serves nobody */
        cairn_shared_point_drop(receiver->reader, ask->keys[ask->found], load->until_ns);
    }
    cairn_lock(&sharer->lock);
    load->status = status;
    load->phase = SHARER_DONE;
    ask->running--;
    ask_free_if_left(sharer, ask);
}

void *cairn_sharer_receiver(void *ctx)
{
    const sharer_receiver *receiver = ctx;
    cairn_sharer *sharer = receiver->sharer;
    cairn_sharer_signals_block();
    cairn_lock(&sharer->lock);
    while (!sharer->stop) {
        sharer_ask *ask = ask_next(sharer);
        sharer_load *load = ask == NULL ? load_next(sharer) : NULL;
        if (ask != NULL) {
            ask_work(receiver, ask);
        } else if (load != NULL) {
            load_work(receiver, load);
        } else {
            cairn_cond_wait(&sharer->wake_receiver, &sharer->lock);
            continue;
        }
        cairn_cond_broadcast(&sharer->done);
        cairn_cond_broadcast(&sharer->wake_receiver); /* what was measured may let more go at once */
    }
    cairn_unlock(&sharer->lock);
    return NULL;
}
