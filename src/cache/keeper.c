/*
 * keeper - what is to be looked at and when; its making and its end. Pieces of slots are handed over by keeper_slots.c,
 * blobs of memory by keeper_sweep.c, and written by keeper_writer.c; the way back is keeper_fetch.c.
 */
#include "cache/keeper.h"

#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/machine.h"
#include "cache/keeper_internal.h"

#define DUE_NS UINT64_C(20000000) /* when idle work is worth another look while the writer writes */

/* What the disk is taken to cost until it was measured: 500 MB/s. */
#define GUESS_FETCH_NS_BYTE 2.0

enum { SAW_TOKENS_MIN = 64 };

/* --- making ----------------------------------------------------------------------------------------------- */

uint64_t cairn_keeper_buffer_bytes(cairn_engine *engine)
{
    uint64_t tokens = (KEEPER_JOBS + 1) * (uint64_t)engine->info.slot_tokens_max * sizeof(cairn_token) +
                      KEEPER_JOBS * (uint64_t)engine->info.slot_tokens_max * CAIRN_BLOB_MARK_BYTES;
    return sizeof(cairn_keeper) +
           KEEPER_JOBS * cairn_cache_blob_bytes_max(engine, CAIRN_KEEPER_BLOCK_TOKENS) + tokens +
           (CAIRN_KEEPER_FOUND_MAX + KEEPER_COVERED_MAX) * sizeof(cairn_disk_found) +
           KEEPER_KNOWN * sizeof(uint64_t);
}

static bool buffers_new(cairn_keeper *keeper, uint32_t slots)
{
    keeper->digests_room = keeper->tokens_room / CAIRN_KEEPER_BLOCK_TOKENS + 2;
    keeper->slots = cairn_mem_array(keeper->mem, slots, sizeof *keeper->slots);
    keeper->tokens = cairn_mem_array(keeper->mem, keeper->tokens_room, sizeof *keeper->tokens);
    keeper->positions = cairn_mem_array(keeper->mem, keeper->digests_room, sizeof *keeper->positions);
    keeper->digests = cairn_mem_array(keeper->mem, keeper->digests_room, sizeof *keeper->digests);
    keeper->found = cairn_mem_array(keeper->mem, CAIRN_KEEPER_FOUND_MAX, sizeof *keeper->found);
    keeper->covered = cairn_mem_array(keeper->mem, KEEPER_COVERED_MAX, sizeof *keeper->covered);
    keeper->known = cairn_mem_array(keeper->mem, KEEPER_KNOWN, sizeof *keeper->known);
    bool fine = keeper->slots != NULL && keeper->tokens != NULL && keeper->positions != NULL &&
                keeper->digests != NULL && keeper->found != NULL && keeper->covered != NULL &&
                keeper->known != NULL;
    for (int i = 0; i < KEEPER_JOBS && fine; i++) {
        keeper->jobs[i].tokens = cairn_mem_array(keeper->mem, keeper->tokens_room, sizeof(cairn_token));
        keeper->jobs[i].payload = cairn_mem_alloc(keeper->mem, keeper->payload_room);
        keeper->jobs[i].marks =
            cairn_mem_array(keeper->mem, keeper->tokens_room, sizeof *keeper->jobs[i].marks);
        fine = keeper->jobs[i].tokens != NULL && keeper->jobs[i].payload != NULL &&
               keeper->jobs[i].marks != NULL;
    }
    return fine;
}

cairn_status cairn_keeper_new(cairn_cache *cache, const cairn_cache_disk *options, cairn_keeper **ret_keeper,
                              cairn_error *reterr)
{
    cairn_mem *mem = &cache->heap.mem;
    cairn_keeper *keeper = cairn_mem_zalloc(mem, sizeof *keeper);
    if (keeper == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache/keeper: new", NULL);
    }
    keeper->cache = cache;
    keeper->mem = mem;
    keeper->tokens_room = cache->engine->info.slot_tokens_max;
    keeper->payload_room = cairn_cache_blob_bytes_max(cache->engine, CAIRN_KEEPER_BLOCK_TOKENS);
    keeper->read_ns_token = 1e6;
    keeper->fetch_ns_byte = GUESS_FETCH_NS_BYTE;
    cairn_lock_init(&keeper->lock);
    cairn_cond_init(&keeper->wake);
    cairn_cond_init(&keeper->done);
    cairn_status status = CAIRN_OK;
    if (!buffers_new(keeper, cache->engine->info.slots)) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "cache/keeper: new", NULL);
    }
    if (status == CAIRN_OK) {
        cairn_disk_options disk = {.dir = options->dir,
                                   .bytes_max = options->bytes_max,
                                   .written_day_bytes = options->written_day_bytes,
                                   .key = options->key,
                                   .secret = options->secret,
                                   .index_in_memory = options->io != NULL};
        memcpy(disk.fingerprint, cache->engine->info.fingerprint, sizeof disk.fingerprint);
        cairn_io *io = options->io != NULL ? options->io : cairn_io_posix();
        status = cairn_disk_open(cairn_mem_default(), io, &disk, &keeper->disk, reterr);
    }
    if (status == CAIRN_OK && cairn_disk_trouble(keeper->disk, &keeper->last_error) != CAIRN_OK) {
        keeper->failures = 1; /* told once, as any; writing is tried all the same */
    }
    if (status == CAIRN_OK) {
        unsigned others = cairn_machine_processors() - 1;
        status = cairn_read_pool_new(cairn_mem_default(),
                                     others < KEEPER_READERS_MAX ? others : KEEPER_READERS_MAX, &keeper->pool,
                                     reterr);
    }
    if (status == CAIRN_OK &&
        options->io != NULL) { /* no index survives there: look now, not beside the first requests */
        keeper->scanned = cairn_disk_scan(keeper->disk, true, NULL) == CAIRN_OK;
    }
    if (status == CAIRN_OK) {
        keeper->writer_runs = pthread_create(&keeper->writer, NULL, cairn_keeper_writer, keeper) == 0;
        if (!keeper->writer_runs) {
            status = cairn_error_set(reterr, CAIRN_NOMEM, "cache/keeper: new", "no thread");
        }
    }
    if (status != CAIRN_OK) {
        cairn_keeper_free(keeper);
        return status;
    }
    *ret_keeper = keeper;
    return CAIRN_OK;
}

void cairn_keeper_free(cairn_keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    if (keeper->writer_runs) {
        cairn_lock(&keeper->lock);
        keeper->stop = true;
        cairn_cond_broadcast(&keeper->wake);
        cairn_unlock(&keeper->lock);
        cairn_join(keeper->writer);
    }
    for (int i = 0; i < KEEPER_JOBS; i++) {
        cairn_keeper_job_free(keeper, &keeper->jobs[i]);
    }
    cairn_mem_release(cairn_mem_default(), keeper->page, keeper->page_bytes);
    cairn_read_pool_free(keeper->pool);
    cairn_disk_close(keeper->disk);
    for (int i = 0; i < KEEPER_JOBS; i++) {
        cairn_mem_array_release(keeper->mem, keeper->jobs[i].tokens, keeper->tokens_room,
                                sizeof(cairn_token));
        cairn_mem_release(keeper->mem, keeper->jobs[i].payload, keeper->payload_room);
        cairn_mem_array_release(keeper->mem, keeper->jobs[i].marks, keeper->tokens_room,
                                sizeof *keeper->jobs[i].marks);
    }
    cairn_mem_array_release(keeper->mem, keeper->known, KEEPER_KNOWN, sizeof *keeper->known);
    cairn_mem_array_release(keeper->mem, keeper->covered, KEEPER_COVERED_MAX, sizeof *keeper->covered);
    cairn_mem_array_release(keeper->mem, keeper->found, CAIRN_KEEPER_FOUND_MAX, sizeof *keeper->found);
    cairn_mem_array_release(keeper->mem, keeper->digests, keeper->digests_room, sizeof *keeper->digests);
    cairn_mem_array_release(keeper->mem, keeper->positions, keeper->digests_room, sizeof *keeper->positions);
    cairn_mem_array_release(keeper->mem, keeper->tokens, keeper->tokens_room, sizeof *keeper->tokens);
    cairn_mem_array_release(keeper->mem, keeper->slots, keeper->cache->engine->info.slots,
                            sizeof *keeper->slots);
    (void)pthread_cond_destroy(&keeper->done);
    (void)pthread_cond_destroy(&keeper->wake);
    (void)pthread_mutex_destroy(&keeper->lock);
    cairn_mem_release(keeper->mem, keeper, sizeof *keeper);
}

/* --- work ------------------------------------------------------------------------------------------------- */

void cairn_keeper_note(cairn_keeper *keeper, uint32_t slot)
{
    keeper->slots[slot].noted = true;
    keeper->slots[slot].next_block = 0;
    keeper->slots[slot].rows_done = false;
    keeper->slots[slot].looked_end = 0;
    keeper->sweeping = true;
    keeper->sweep = 0;
}

void cairn_keeper_look_again(cairn_keeper *keeper)
{
    memset(keeper->known, 0, KEEPER_KNOWN * sizeof *keeper->known);
    for (uint32_t slot = 0; slot < keeper->cache->engine->info.slots; slot++) {
        keeper->slots[slot] = (keeper_slot){0};
        cairn_keeper_note(keeper, slot);
    }
}

void cairn_keeper_saw_read(cairn_keeper *keeper, uint32_t tokens, uint64_t cost_ns)
{
    if (tokens >= SAW_TOKENS_MIN && cost_ns > 0) {
        keeper->read_ns_token += ((double)cost_ns / tokens - keeper->read_ns_token) / 4;
    }
}

/* Is there more of a slot that a request uses than when it was looked at last? */
static bool grown(const cairn_keeper *keeper, uint32_t slot)
{
    const keeper_slot *kept = &keeper->slots[slot];
    cairn_core_slot_path path;
    return cairn_core_slot_path_get(keeper->cache->core, slot, &path) &&
           (path.length < kept->looked_end || path.length >= kept->looked_end + KEEPER_GROWN_TOKENS);
}

bool cairn_keeper_work(cairn_keeper *keeper)
{
    uint32_t slots = keeper->cache->engine->info.slots;
    cairn_keeper_settle(keeper);
    for (uint32_t slot = 0; slot < slots; slot++) {
        keeper_slot *kept = &keeper->slots[slot];
        bool active = keeper->cache->active[slot] != NULL;
        if (!kept->noted || (active && !grown(keeper, slot))) {
            continue;
        }
        keeper_job *job = cairn_keeper_job_take(keeper);
        if (job == NULL) {
            return false;
        }
        if (cairn_keeper_slot_keep(keeper, slot, job)) {
            return true;
        }
        kept->noted = active;
    }
    if (!keeper->sweeping) {
        return false;
    }
    keeper_job *job = cairn_keeper_job_take(keeper);
    return job != NULL && cairn_keeper_sweep(keeper, job);
}

/* Does somebody wait for the next token of an answer? */
static bool answering(const cairn_cache *cache)
{
    for (uint32_t slot = 0; slot < cache->engine->info.slots; slot++) {
        const cairn_request *request = cache->active[slot];
        if (request != NULL &&
            (request->phase == CAIRN_PHASE_READY || request->phase == CAIRN_PHASE_DECODE)) {
            return true;
        }
    }
    return false;
}

void cairn_keeper_behind(cairn_keeper *keeper)
{
    cairn_cache *cache = keeper->cache;
    uint64_t begin_ns = cairn_cache_now_ns(cache);
    if (begin_ns < keeper->behind_ns) {
        return;
    }
    keeper->behind = true;
    uint64_t copies = keeper->copies;
    while (cairn_keeper_work(keeper) && keeper->copies == copies) {
    }
    keeper->behind = false;
    uint64_t cost_ns = cairn_cache_now_ns(cache) - begin_ns;
    keeper->behind_ns =
        begin_ns + cost_ns * (uint64_t)(answering(cache) ? KEEPER_PART_ANSWERING : KEEPER_PART_READING);
}

bool cairn_keeper_noted(const cairn_keeper *keeper)
{
    for (uint32_t slot = 0; slot < keeper->cache->engine->info.slots; slot++) {
        if (keeper->slots[slot].noted) {
            return true;
        }
    }
    return keeper->sweeping;
}

void cairn_keeper_forget(cairn_keeper *keeper, const cairn_namespace *space)
{
    /* What is on its way there must not arrive afterwards. */
    cairn_lock(&keeper->lock);
    for (int i = 0; i < KEEPER_JOBS; i++) {
        keeper_job *job = &keeper->jobs[i];
        job->phase = job->phase == JOB_READY ? JOB_FAILED : job->phase;
        while (job->phase == JOB_WRITING) {
            cairn_cond_wait(&keeper->done, &keeper->lock);
        }
    }
    cairn_unlock(&keeper->lock);
    (void)!cairn_disk_forget(keeper->disk, space, NULL);
    /* Other namespaces' paths are looked at again; of this one the core knows nothing any more. */
    cairn_keeper_look_again(keeper);
}

bool cairn_keeper_locked(cairn_keeper *keeper)
{
    cairn_lock(&keeper->lock);
    bool locked = keeper->locked;
    cairn_unlock(&keeper->lock);
    return locked;
}

cairn_disk *cairn_keeper_disk(const cairn_keeper *keeper)
{
    return keeper->disk;
}

void cairn_keeper_stats_get(cairn_keeper *keeper, cairn_cache_disk_stats *ret_stats)
{
    cairn_disk_stats disk;
    cairn_disk_stats_get(keeper->disk, &disk);
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    bool noted = cairn_keeper_noted(keeper);
    cairn_lock(&keeper->lock);
    *ret_stats = (cairn_cache_disk_stats){.blobs = disk.blobs,
                                          .states = disk.states,
                                          .bytes = disk.file_bytes,
                                          .bytes_max = disk.bytes_max,
                                          .written_today_bytes = disk.written_today_bytes,
                                          .written_day_bytes = disk.written_day_bytes,
                                          .kept = keeper->kept,
                                          .fetched = keeper->fetched,
                                          .fetched_bytes = keeper->fetched_bytes,
                                          .fetch_failures = keeper->fetch_failures,
                                          .set_aside = disk.set_aside,
                                          .evicted = disk.evicted,
                                          .failures = keeper->failures,
                                          .last_error = keeper->last_error,
                                          .waiting = noted || !cairn_keeper_jobs_idle(keeper)};
    if (ret_stats->waiting) {
        uint64_t rest_ns = keeper->retry_ns > now_ns ? keeper->retry_ns - now_ns : 0;
        ret_stats->due_ns = rest_ns > DUE_NS ? rest_ns : DUE_NS;
    }
    cairn_unlock(&keeper->lock);
}
