/*
 * sharer - see the header. Here: its life, what it counts, and what it knows to be in the store.
 */
#include "cache/sharer.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "cache/sharer_internal.h"

#define SECOND_NS UINT64_C(1000000000)

enum { DUE_MS = 20, TTL_S = 86400, DEADLINE_MS = 250 };

/* --- known ---------------------------------------------------------------------------------------------------- */

static uint64_t seconds_now(void)
{
    return cairn_clock_now_ns(cairn_clock_system()) / SECOND_NS;
}

sharer_knows cairn_sharer_knows(const cairn_sharer *sharer, uint64_t name)
{
    const sharer_known *known = &sharer->known[name % SHARER_KNOWN];
    if (known->name != name) {
        return SHARER_UNKNOWN;
    }
    return seconds_now() - known->since_s < sharer->ttl_s / 2 ? SHARER_KNOWN_NOW : SHARER_KNOWN_OLD;
}

void cairn_sharer_learn(cairn_sharer *sharer, uint64_t name)
{
    sharer->known[name % SHARER_KNOWN] = (sharer_known){.name = name, .since_s = seconds_now()};
}

/* --- counting ------------------------------------------------------------------------------------------------- */

void cairn_sharer_count(cairn_sharer *sharer, uint64_t *counter, uint64_t by)
{
    cairn_lock(&sharer->lock);
    *counter += by;
    cairn_unlock(&sharer->lock);
}

void cairn_sharer_saw_read(cairn_sharer *sharer, uint32_t tokens, uint64_t cost_ns)
{
    if (tokens >= SHARER_GAIN_TOKENS && cost_ns > 0) {
        sharer->read_ns_token += ((double)cost_ns / tokens - sharer->read_ns_token) / 4;
    }
}

void cairn_sharer_stats_get(cairn_sharer *sharer, cairn_cache_shared_stats *ret_stats)
{
    cairn_shared_stats store;
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_shared_stats_get(sharer->shared, &store);
    bool waits =
        cairn_sharer_noted(sharer) || cairn_sharer_sending(sharer) || cairn_sharer_loads_left(sharer);
    cairn_lock(&sharer->lock);
    *ret_stats = sharer->stats;
    cairn_unlock(&sharer->lock);
    ret_stats->on = true;
    ret_stats->works = store.broken == 0;
    ret_stats->sent = store.puts;
    ret_stats->sent_bytes = store.put_bytes;
    ret_stats->sent_points = store.points_put;
    ret_stats->known = store.puts_known;
    ret_stats->failures = store.failures;
    ret_stats->timeouts = store.timeouts;
    ret_stats->damaged = store.damaged;
    ret_stats->full = store.full;
    ret_stats->spared = store.refused_while_open;
    ret_stats->bytes_second = cairn_shared_speed(sharer->shared) * 1e9;
    ret_stats->last_error = store.last_error;
    ret_stats->waiting = waits;
    if (waits) {
        uint64_t rest_ns = sharer->retry_ns > now_ns ? sharer->retry_ns - now_ns : 0;
        ret_stats->due_ns = rest_ns > DUE_MS * UINT64_C(1000000) ? rest_ns : DUE_MS * UINT64_C(1000000);
    }
}

/* --- life ----------------------------------------------------------------------------------------------------- */

/* Parts of the longest point: a state, and the blocks before it. */
static uint32_t parts_room(const cairn_engine *engine)
{
    uint32_t blocks = engine->info.slot_tokens_max / CAIRN_SHARER_BLOCK_TOKENS + 2;
    return blocks + 1 < CAIRN_SHARED_PARTS_MAX ? blocks + 1 : CAIRN_SHARED_PARTS_MAX;
}

uint64_t cairn_sharer_buffer_bytes(cairn_engine *engine, bool encrypted)
{
    uint64_t parts = parts_room(engine);
    uint64_t ask = sizeof(sharer_ask) +
                   parts * (sizeof(cairn_shared_part) + sizeof(uint32_t) + sizeof(cairn_shared_head));
    uint64_t blob = cairn_cache_blob_bytes_max(engine, CAIRN_SHARER_BLOCK_TOKENS);
    return sizeof(cairn_sharer) + SHARER_JOBS * blob + (encrypted ? cairn_shared_room_bytes(blob) : 0) +
           (SHARER_JOBS + 1) * (uint64_t)engine->info.slot_tokens_max * sizeof(cairn_token) +
           SHARER_OUT * parts * sizeof(cairn_shared_part) + SHARER_KNOWN * sizeof(sharer_known) +
           (engine->info.slots + SHARER_ASKS_MORE) * ask;
}

static bool buffers_new(cairn_sharer *sharer)
{
    cairn_mem *mem = sharer->mem;
    sharer->digests_room = sharer->tokens_room / CAIRN_SHARER_BLOCK_TOKENS + 2;
    sharer->slot = cairn_mem_array(mem, sharer->slots, sizeof *sharer->slot);
    sharer->tokens = cairn_mem_array(mem, sharer->tokens_room, sizeof *sharer->tokens);
    sharer->positions = cairn_mem_array(mem, sharer->digests_room, sizeof *sharer->positions);
    sharer->digests = cairn_mem_array(mem, sharer->digests_room, sizeof *sharer->digests);
    sharer->known = cairn_mem_array(mem, SHARER_KNOWN, sizeof *sharer->known);
    sharer->asks = cairn_mem_array(mem, sharer->count_asks, sizeof *sharer->asks);
    bool fine = sharer->slot != NULL && sharer->tokens != NULL && sharer->positions != NULL &&
                sharer->digests != NULL && sharer->known != NULL && sharer->asks != NULL;
    for (int i = 0; i < SHARER_OUT && fine; i++) {
        sharer_job *job = &sharer->jobs[i];
        job->point.parts = cairn_mem_array(mem, sharer->parts_room, sizeof *job->point.parts);
        fine = job->point.parts != NULL;
        if (i < SHARER_JOBS && fine) {
            job->tokens = cairn_mem_array(mem, sharer->tokens_room, sizeof *job->tokens);
            job->payload = cairn_mem_alloc(mem, sharer->payload_room);
            job->marks = cairn_mem_array(mem, CAIRN_SHARER_BLOCK_TOKENS, sizeof *job->marks);
            fine = job->tokens != NULL && job->payload != NULL && job->marks != NULL;
        }
    }
    for (uint32_t i = 0; i < sharer->count_asks && fine; i++) {
        sharer_ask *ask = &sharer->asks[i];
        ask->point.parts = cairn_mem_array(mem, sharer->parts_room, sizeof *ask->point.parts);
        ask->head_parts = cairn_mem_array(mem, sharer->parts_room, sizeof *ask->head_parts);
        ask->heads = cairn_mem_array(mem, sharer->parts_room, sizeof *ask->heads);
        fine = ask->point.parts != NULL && ask->head_parts != NULL && ask->heads != NULL;
    }
    return fine;
}

static void buffers_release(cairn_sharer *sharer)
{
    cairn_mem *mem = sharer->mem;
    for (uint32_t i = 0; i < sharer->count_asks && sharer->asks != NULL; i++) {
        sharer_ask *ask = &sharer->asks[i];
        cairn_mem_array_release(mem, ask->point.parts, sharer->parts_room, sizeof *ask->point.parts);
        cairn_mem_array_release(mem, ask->head_parts, sharer->parts_room, sizeof *ask->head_parts);
        cairn_mem_array_release(mem, ask->heads, sharer->parts_room, sizeof *ask->heads);
    }
    for (int i = 0; i < SHARER_OUT; i++) {
        sharer_job *job = &sharer->jobs[i];
        cairn_mem_array_release(mem, job->point.parts, sharer->parts_room, sizeof *job->point.parts);
        cairn_mem_array_release(mem, job->marks, CAIRN_SHARER_BLOCK_TOKENS, sizeof *job->marks);
        cairn_mem_release(mem, job->payload, sharer->payload_room);
        cairn_mem_array_release(mem, job->tokens, sharer->tokens_room, sizeof *job->tokens);
    }
    cairn_mem_array_release(mem, sharer->asks, sharer->count_asks, sizeof *sharer->asks);
    cairn_mem_array_release(mem, sharer->known, SHARER_KNOWN, sizeof *sharer->known);
    cairn_mem_array_release(mem, sharer->digests, sharer->digests_room, sizeof *sharer->digests);
    cairn_mem_array_release(mem, sharer->positions, sharer->digests_room, sizeof *sharer->positions);
    cairn_mem_array_release(mem, sharer->tokens, sharer->tokens_room, sizeof *sharer->tokens);
    cairn_mem_array_release(mem, sharer->slot, sharer->slots, sizeof *sharer->slot);
}

void cairn_sharer_signals_block(void)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static cairn_status start(cairn_sharer *sharer, const cairn_cache_shared *options, cairn_error *reterr)
{
    cairn_shared_options store = {.url = options->url,
                                  .key = options->key,
                                  .ttl_s = sharer->ttl_s,
                                  .bytes_max = options->bytes_max,
                                  .s3_id = options->s3_id,
                                  .s3_secret = options->s3_secret,
                                  .s3_token = options->s3_token,
                                  .s3_region = options->s3_region,
                                  .room_mem = sharer->mem,
                                  .blob_bytes_max = sharer->payload_room};
    memcpy(store.fingerprint, sharer->cache->engine->info.fingerprint, sizeof store.fingerprint);
    cairn_status status = cairn_shared_open(cairn_mem_default(), &store, &sharer->shared, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    sharer->sender_runs = pthread_create(&sharer->sender, NULL, cairn_sharer_sender, sharer) == 0;
    for (uint32_t i = 0; i < CAIRN_SHARED_READERS; i++) {
        sharer_receiver *receiver = &sharer->receivers[i];
        receiver->sharer = sharer;
        receiver->reader = cairn_shared_reader_get(sharer->shared, i);
        receiver->runs = pthread_create(&receiver->thread, NULL, cairn_sharer_receiver, receiver) == 0;
    }
    return sharer->sender_runs && sharer->receivers[0].runs
               ? CAIRN_OK
               : cairn_error_set(reterr, CAIRN_NOMEM, "cache/sharer: new", "no thread");
}

cairn_status cairn_sharer_new(cairn_cache *cache, const cairn_cache_shared *options,
                              cairn_sharer **ret_sharer, cairn_error *reterr)
{
    cairn_mem *mem = &cache->heap.mem;
    cairn_sharer *sharer = cairn_mem_zalloc(mem, sizeof *sharer);
    if (sharer == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache/sharer: new", NULL);
    }
    sharer->cache = cache;
    sharer->mem = mem;
    sharer->slots = cache->engine->info.slots;
    sharer->count_asks = sharer->slots + SHARER_ASKS_MORE;
    sharer->tokens_room = cache->engine->info.slot_tokens_max;
    sharer->payload_room = cairn_cache_blob_bytes_max(cache->engine, CAIRN_SHARER_BLOCK_TOKENS);
    sharer->parts_room = parts_room(cache->engine);
    sharer->read_ns_token = 1e6;
    sharer->ttl_s = options->ttl_s != 0 ? options->ttl_s : TTL_S;
    sharer->deadline_ns = options->deadline_ns != 0 ? options->deadline_ns : DEADLINE_MS * UINT64_C(1000000);
    cairn_lock_init(&sharer->lock);
    cairn_cond_init(&sharer->wake_sender);
    cairn_cond_init(&sharer->wake_receiver);
    cairn_cond_init(&sharer->done);
    cairn_status status = buffers_new(sharer)
                              ? start(sharer, options, reterr)
                              : cairn_error_set(reterr, CAIRN_NOMEM, "cache/sharer: new", NULL);
    if (status != CAIRN_OK) {
        cairn_sharer_free(sharer);
        return status;
    }
    *ret_sharer = sharer;
    return CAIRN_OK;
}

void cairn_sharer_free(cairn_sharer *sharer)
{
    if (sharer == NULL) {
        return;
    }
    if (sharer->shared != NULL) {
        cairn_shared_stop(sharer->shared);
    }
    cairn_lock(&sharer->lock);
    sharer->stop = true;
    cairn_cond_broadcast(&sharer->wake_sender);
    cairn_cond_broadcast(&sharer->wake_receiver);
    cairn_unlock(&sharer->lock);
    if (sharer->sender_runs) {
        cairn_join(sharer->sender);
    }
    for (int i = 0; i < CAIRN_SHARED_READERS; i++) {
        if (sharer->receivers[i].runs) {
            cairn_join(sharer->receivers[i].thread);
        }
    }
    for (uint32_t i = 0; i < sharer->count_asks && sharer->asks != NULL && sharer->shared != NULL; i++) {
        cairn_sharer_ask_clear(sharer, &sharer->asks[i]);
    }
    cairn_shared_close(sharer->shared);
    buffers_release(sharer);
    (void)pthread_cond_destroy(&sharer->done);
    (void)pthread_cond_destroy(&sharer->wake_receiver);
    (void)pthread_cond_destroy(&sharer->wake_sender);
    (void)pthread_mutex_destroy(&sharer->lock);
    cairn_mem_release(sharer->mem, sharer, sizeof *sharer);
}

/* --- waiting -------------------------------------------------------------------------------------------------- */

void cairn_sharer_wait(cairn_sharer *sharer, uint64_t until_ns)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    if (now_ns >= until_ns) {
        return;
    }
    cairn_lock(&sharer->lock);
    bool comes = sharer->count_forgets > 0; /* something that was handed over and is not done */
    for (int i = 0; i < SHARER_OUT; i++) {
        comes = comes || sharer->jobs[i].phase == SHARER_READY || sharer->jobs[i].phase == SHARER_RUNNING;
    }
    for (uint32_t i = 0; i < sharer->count_asks; i++) {
        comes = comes || sharer->asks[i].phase == SHARER_READY || sharer->asks[i].phase == SHARER_RUNNING;
    }
    bool came = false;
    for (int i = 0; i < SHARER_LOADS; i++) {
        comes = comes || sharer->loads[i].phase == SHARER_READY || sharer->loads[i].phase == SHARER_RUNNING;
        came = came || sharer->loads[i].phase == SHARER_DONE;
    }
    if (comes && !came) {
        (void)cairn_cond_wait_for(&sharer->done, &sharer->lock, until_ns - now_ns);
    }
    cairn_unlock(&sharer->lock);
}

void cairn_sharer_forget(cairn_sharer *sharer, const cairn_namespace *space)
{
    cairn_lock(&sharer->lock);
    for (int i = 0; i < SHARER_OUT; i++) {
        sharer->jobs[i].phase = sharer->jobs[i].phase == SHARER_READY ? SHARER_FREE : sharer->jobs[i].phase;
    }
    if (space != NULL && sharer->count_forgets < SHARER_FORGETS) {
        sharer->forgets[sharer->count_forgets++] = *space;
        cairn_cond_signal(&sharer->wake_sender);
    } else if (space != NULL) {
        sharer->stats.dropped++;
    }
    cairn_unlock(&sharer->lock);
    memset(sharer->known, 0, SHARER_KNOWN * sizeof *sharer->known);
    for (uint32_t slot = 0; slot < sharer->slots;
         slot++) { /* what waited of other namespaces is handed over again */
        cairn_sharer_note(sharer, slot);
    }
}
