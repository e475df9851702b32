/*
 * keeper - the way out: from the slots to the disk. The way back is keeper_fetch.c.
 *
 * The engine's thread copies one block of rows or one state into a job's buffer; the writer makes digests and marks
 * and writes the file. Two buffers: one is filled while the other is written.
 */
#include "cache/keeper.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "cache/keeper_internal.h"

#define SECOND_NS UINT64_C(1000000000)
#define DUE_NS    UINT64_C(20000000) /* when idle work is worth another look while the writer writes */

enum { PAUSE_S = 10, PAUSE_DAY_S = 600, STATE_SAVING_MS = 100, SAW_TOKENS_MIN = 64 };

/* --- the writer ------------------------------------------------------------------------------------------- */

static cairn_status job_digests(cairn_keeper *keeper, keeper_job *job, cairn_error *reterr)
{
    cairn_blob_meta *meta = &job->meta;
    cairn_path_root root;
    uint32_t at[3] = {cairn_blob_base(meta->kind, meta->begin, meta->end), meta->begin, meta->end};
    cairn_path_digest digests[3];
    cairn_status status = cairn_disk_root(keeper->disk, &meta->space, &root, reterr);
    if (status == CAIRN_OK) {
        status = cairn_path_digests(&root, job->tokens, meta->end, at, 3, digests, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    meta->path_base = digests[0];
    meta->path_begin = digests[1];
    meta->path_end = digests[2];
    if (meta->kind == CAIRN_BLOB_ROWS) {
        status = cairn_path_marks(&root, job->tokens, meta->begin, meta->end, job->marks, reterr);
    }
    return status;
}

static void job_write(cairn_keeper *keeper, keeper_job *job)
{
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_error error = {0};
    bool rows = job->meta.kind == CAIRN_BLOB_ROWS, again = false;
    cairn_status status = job_digests(keeper, job, &error);
    if (status == CAIRN_OK) {
        status = cairn_disk_put(keeper->disk, &job->meta,
                                rows ? (const uint8_t(*)[CAIRN_BLOB_MARK_BYTES])job->marks : NULL,
                                rows ? job->runs : NULL, job->bytes, job->value, name, &error);
    }
    if (status == CAIRN_OK && job->replaces[0] != '\0' && strcmp(job->replaces, name) != 0) {
        (void)!cairn_disk_drop(keeper->disk, job->replaces, NULL);
    }
    (void)pthread_mutex_lock(&keeper->lock);
    if (status == CAIRN_OK) {
        keeper->kept++;
    } else if (!cairn_disk_declined(&error)) {
        keeper->failures++;
        keeper->last_error = error;
        keeper->pause_ns = (status == CAIRN_LIMIT ? PAUSE_DAY_S : PAUSE_S) * SECOND_NS;
        again = true;
    }
    job->phase = again ? JOB_FAILED : JOB_DONE;
    (void)pthread_cond_broadcast(&keeper->done);
    (void)pthread_mutex_unlock(&keeper->lock);
}

static keeper_job *job_in(cairn_keeper *keeper, job_phase phase)
{
    for (int i = 0; i < KEEPER_JOBS; i++) {
        if (keeper->jobs[i].phase == phase) {
            return &keeper->jobs[i];
        }
    }
    return NULL;
}

/* Wait for a job. Now and then the directory is looked at: what another server wrote there is found, too. The lock is
   held. */
static void rest(cairn_keeper *keeper)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += KEEPER_RESCAN_S;
    if (pthread_cond_timedwait(&keeper->wake, &keeper->lock, &until) == ETIMEDOUT && !keeper->stop) {
        (void)pthread_mutex_unlock(&keeper->lock);
        (void)!cairn_disk_scan(keeper->disk, false, NULL);
        (void)pthread_mutex_lock(&keeper->lock);
    }
}

/* Files of another key, or none, are misses one by one; the operator is told once, after the first look. */
static void key_check(cairn_keeper *keeper)
{
    cairn_error error = {0};
    if (cairn_disk_key_check(keeper->disk, &error) == CAIRN_FOREIGN) {
        (void)pthread_mutex_lock(&keeper->lock);
        keeper->failures++;
        keeper->last_error = error;
        (void)pthread_mutex_unlock(&keeper->lock);
    }
}

static void *writer_main(void *ctx)
{
    cairn_keeper *keeper = ctx;
    if (!keeper->scanned) { /* set before this thread began */
        (void)!cairn_disk_scan(keeper->disk, false, NULL);
    }
    key_check(keeper);
    (void)pthread_mutex_lock(&keeper->lock);
    for (;;) {
        keeper_job *job = job_in(keeper, JOB_READY);
        if (keeper->stop) {
            break;
        }
        if (job == NULL) {
            rest(keeper);
            continue;
        }
        job->phase = JOB_WRITING;
        (void)pthread_mutex_unlock(&keeper->lock);
        job_write(keeper, job);
        (void)pthread_mutex_lock(&keeper->lock);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

/* --- making ----------------------------------------------------------------------------------------------- */

static uint64_t payload_room(cairn_engine *engine)
{
    uint64_t rows = 0;
    if (engine->info.rows_move) {
        rows = engine->ops->rows_size(engine, 0, CAIRN_KEEPER_BLOCK_TOKENS).buffer_bytes;
    }
    return rows > engine->info.state_bytes_max ? rows : engine->info.state_bytes_max;
}

uint64_t cairn_keeper_buffer_bytes(cairn_engine *engine)
{
    uint64_t tokens = (KEEPER_JOBS + 1) * (uint64_t)engine->info.slot_tokens_max * sizeof(cairn_token) +
                      KEEPER_JOBS * (uint64_t)engine->info.slot_tokens_max * CAIRN_BLOB_MARK_BYTES;
    return sizeof(cairn_keeper) + KEEPER_JOBS * payload_room(engine) + tokens +
           CAIRN_KEEPER_FOUND_MAX * sizeof(cairn_disk_found);
}

static bool buffers_new(cairn_keeper *keeper, uint32_t slots)
{
    keeper->digests_room = keeper->tokens_room / CAIRN_KEEPER_BLOCK_TOKENS + 2;
    keeper->slots = cairn_mem_array(keeper->mem, slots, sizeof *keeper->slots);
    keeper->tokens = cairn_mem_array(keeper->mem, keeper->tokens_room, sizeof *keeper->tokens);
    keeper->positions = cairn_mem_array(keeper->mem, keeper->digests_room, sizeof *keeper->positions);
    keeper->digests = cairn_mem_array(keeper->mem, keeper->digests_room, sizeof *keeper->digests);
    keeper->found = cairn_mem_array(keeper->mem, CAIRN_KEEPER_FOUND_MAX, sizeof *keeper->found);
    bool fine = keeper->slots != NULL && keeper->tokens != NULL && keeper->positions != NULL &&
                keeper->digests != NULL && keeper->found != NULL;
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
    keeper->payload_room = payload_room(cache->engine);
    keeper->read_ns_token = 1e6;
    (void)pthread_mutex_init(&keeper->lock, NULL);
    (void)pthread_cond_init(&keeper->wake, NULL);
    (void)pthread_cond_init(&keeper->done, NULL);
    cairn_status status = CAIRN_OK;
    if (!buffers_new(keeper, cache->engine->info.slots)) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "cache/keeper: new", NULL);
    }
    if (status == CAIRN_OK) {
        cairn_disk_options disk = {.dir = options->dir,
                                   .bytes_max = options->bytes_max,
                                   .written_day_bytes = options->written_day_bytes,
                                   .key = options->key,
                                   .index_in_memory = options->io != NULL};
        memcpy(disk.fingerprint, cache->engine->info.fingerprint, sizeof disk.fingerprint);
        cairn_io *io = options->io != NULL ? options->io : cairn_io_posix();
        status = cairn_disk_open(cairn_mem_default(), io, &disk, &keeper->disk, reterr);
    }
    if (status == CAIRN_OK &&
        options->io != NULL) { /* no index survives there: look now, not beside the first requests */
        keeper->scanned = cairn_disk_scan(keeper->disk, true, NULL) == CAIRN_OK;
    }
    if (status == CAIRN_OK) {
        keeper->writer_runs = pthread_create(&keeper->writer, NULL, writer_main, keeper) == 0;
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

/* Nothing is borrowed for it any more. The engine's thread, with the lock or after the writer. */
static void job_free(cairn_keeper *keeper, keeper_job *job)
{
    if (job->blob != 0) {
        cairn_tier_ram_unpin(keeper->cache->ram, job->blob);
        job->blob = 0;
    }
    job->phase = JOB_FREE;
}

void cairn_keeper_free(cairn_keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    if (keeper->writer_runs) {
        (void)pthread_mutex_lock(&keeper->lock);
        keeper->stop = true;
        (void)pthread_cond_broadcast(&keeper->wake);
        (void)pthread_mutex_unlock(&keeper->lock);
        (void)pthread_join(keeper->writer, NULL);
    }
    for (int i = 0; i < KEEPER_JOBS; i++) {
        job_free(keeper, &keeper->jobs[i]);
    }
    cairn_disk_close(keeper->disk);
    for (int i = 0; i < KEEPER_JOBS; i++) {
        cairn_mem_array_release(keeper->mem, keeper->jobs[i].tokens, keeper->tokens_room,
                                sizeof(cairn_token));
        cairn_mem_release(keeper->mem, keeper->jobs[i].payload, keeper->payload_room);
        cairn_mem_array_release(keeper->mem, keeper->jobs[i].marks, keeper->tokens_room,
                                sizeof *keeper->jobs[i].marks);
    }
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

/* --- what a slot holds ------------------------------------------------------------------------------------ */

void cairn_keeper_note(cairn_keeper *keeper, uint32_t slot)
{
    keeper->slots[slot].noted = true;
    keeper->slots[slot].next_block = 0;
    keeper->slots[slot].rows_done = false;
    keeper->sweeping = true;
    keeper->sweep = 0;
}

void cairn_keeper_saw_read(cairn_keeper *keeper, uint32_t tokens, uint64_t cost_ns)
{
    if (tokens >= SAW_TOKENS_MIN && cost_ns > 0) {
        keeper->read_ns_token += ((double)cost_ns / tokens - keeper->read_ns_token) / 4;
    }
}

/* The slot's path: tokens, and digests at the blocks' borders and at its end. False: nothing to keep. */
static bool path_load(cairn_keeper *keeper, uint32_t slot, cairn_core_slot_path *path)
{
    cairn_cache *cache = keeper->cache;
    if (!cairn_core_slot_path_get(cache->core, slot, path) || path->length > keeper->tokens_room ||
        cache->engine->ops->length(cache->engine, slot) != path->length) {
        return false;
    }
    cairn_core_slot_tokens(cache->core, slot, keeper->tokens);
    uint32_t blocks = (path->length + CAIRN_KEEPER_BLOCK_TOKENS - 1) / CAIRN_KEEPER_BLOCK_TOKENS;
    for (uint32_t i = 0; i < blocks; i++) {
        keeper->positions[i] = i * CAIRN_KEEPER_BLOCK_TOKENS;
    }
    keeper->positions[blocks] = path->length;
    return cairn_disk_root(keeper->disk, &path->space, &keeper->root, NULL) == CAIRN_OK &&
           cairn_path_digests(&keeper->root, keeper->tokens, path->length, keeper->positions, blocks + 1,
                              keeper->digests, NULL) == CAIRN_OK;
}

static uint8_t rows_provenance(const cairn_blob_run *runs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (runs[i].digest == 0) {
            return 1;
        }
    }
    return 0;
}

/* The runs of a block, as the file holds them. False: more than there is room for. */
static bool block_runs(cairn_keeper *keeper, uint32_t slot, uint32_t begin, uint32_t end, keeper_job *job,
                       uint32_t *ret_count)
{
    cairn_run runs[CAIRN_KEEPER_BLOCK_TOKENS];
    uint32_t count =
        cairn_core_slot_runs(keeper->cache->core, slot, begin, end, runs, CAIRN_KEEPER_BLOCK_TOKENS);
    for (uint32_t i = 0; i < count && i < CAIRN_KEEPER_BLOCK_TOKENS; i++) {
        job->runs[i] =
            (cairn_blob_run){.rows_end = runs[i].rows_end, .cut = runs[i].cut, .digest = runs[i].digest};
    }
    *ret_count = count;
    return count > 0 && count <= CAIRN_KEEPER_BLOCK_TOKENS;
}

void cairn_keeper_start(cairn_keeper *keeper, const char *name, keeper_job *job)
{
    memcpy(job->name, name, sizeof job->name);
    memcpy(job->tokens, keeper->tokens, (size_t)job->meta.end * sizeof *job->tokens);
    (void)pthread_mutex_lock(&keeper->lock);
    job->phase = JOB_READY;
    (void)pthread_cond_signal(&keeper->wake);
    (void)pthread_mutex_unlock(&keeper->lock);
}

/* The job's payload is what the slot gave. */
static void job_start(cairn_keeper *keeper, uint32_t slot, const char *name, keeper_job *job)
{
    job->slot = slot;
    job->blob = 0;
    job->bytes = job->payload;
    cairn_keeper_start(keeper, name, job);
}

bool cairn_keeper_has(cairn_keeper *keeper, const cairn_blob_meta *meta, char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    bool kept = cairn_disk_has(keeper->disk, meta, ret_name);
    (void)pthread_mutex_lock(&keeper->lock);
    for (int i = 0; i < KEEPER_JOBS && !kept; i++) {
        const keeper_job *job = &keeper->jobs[i];
        kept = (job->phase == JOB_READY || job->phase == JOB_WRITING) && strcmp(job->name, ret_name) == 0;
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    return kept;
}

/* When this last block continues the one that was kept last, that one's file can go. */
static void tail_replace(cairn_keeper *keeper, keeper_slot *kept, keeper_job *job, const char *name)
{
    const cairn_blob_meta *meta = &job->meta;
    job->replaces[0] = '\0';
    bool partial = kept->tail_end % CAIRN_KEEPER_BLOCK_TOKENS != 0;
    if (partial && kept->tail_end > meta->begin && kept->tail_end < meta->end) {
        cairn_path_digest then;
        if (cairn_path_digests(&keeper->root, keeper->tokens, meta->end, &kept->tail_end, 1, &then, NULL) ==
                CAIRN_OK &&
            cairn_path_digest_equal(&then, &kept->tail_path)) {
            memcpy(job->replaces, kept->tail_name, sizeof job->replaces);
        }
    }
    kept->tail_end = meta->end;
    kept->tail_path = meta->path_end;
    memcpy(kept->tail_name, name, sizeof kept->tail_name);
}

/* Hand one block over. True: the job was used; false: it is on disk already, or can't be. */
static bool block_keep(cairn_keeper *keeper, uint32_t slot, const cairn_core_slot_path *path, uint32_t block,
                       keeper_job *job)
{
    cairn_engine *engine = keeper->cache->engine;
    uint32_t begin = block * CAIRN_KEEPER_BLOCK_TOKENS;
    uint32_t end =
        begin + CAIRN_KEEPER_BLOCK_TOKENS < path->length ? begin + CAIRN_KEEPER_BLOCK_TOKENS : path->length;
    uint32_t count_runs = 0;
    char name[CAIRN_BLOB_NAME_BYTES];
    if (!block_runs(keeper, slot, begin, end, job, &count_runs)) {
        return false;
    }
    job->meta = (cairn_blob_meta){.space = path->space,
                                  .kind = CAIRN_BLOB_ROWS,
                                  .provenance = rows_provenance(job->runs, count_runs),
                                  .begin = begin,
                                  .end = end,
                                  .count_runs = count_runs,
                                  .cut_digest = job->runs[count_runs - 1].digest,
                                  .path_begin = keeper->digests[block],
                                  .path_end = keeper->digests[block + 1]};
    if (cairn_keeper_has(keeper, &job->meta, name)) {
        return false;
    }
    cairn_rows_size size = engine->ops->rows_size(engine, begin, end);
    if (size.buffer_bytes == 0 || size.buffer_bytes > keeper->payload_room ||
        engine->ops->rows_export(engine, slot, begin, end, job->payload, keeper->payload_room,
                                 &job->meta.payload_bytes, NULL) != CAIRN_OK ||
        job->meta.payload_bytes == 0) {
        return false;
    }
    job->value = keeper->read_ns_token * 1e-6 * (end - begin) / (double)job->meta.payload_bytes;
    job->replaces[0] = '\0';
    if (end == path->length) {
        tail_replace(keeper, &keeper->slots[slot], job, name);
    }
    job_start(keeper, slot, name, job);
    return true;
}

static bool rows_keep(cairn_keeper *keeper, uint32_t slot, const cairn_core_slot_path *path, keeper_job *job)
{
    keeper_slot *kept = &keeper->slots[slot];
    uint32_t blocks = (path->length + CAIRN_KEEPER_BLOCK_TOKENS - 1) / CAIRN_KEEPER_BLOCK_TOKENS;
    while (keeper->cache->engine->info.rows_move && kept->next_block < blocks) {
        if (block_keep(keeper, slot, path, kept->next_block++, job)) {
            return true;
        }
    }
    kept->rows_done = true;
    return false;
}

/* Is it worth its bytes on disk? What anchors a conversation is, whatever it is expected to save. */
static bool state_wanted(const cairn_core_path_state *state, uint32_t index)
{
    const uint16_t always = CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_LAST_USER | CAIRN_BOUNDARY_OPENER |
                            CAIRN_BOUNDARY_MARK | CAIRN_BOUNDARY_BRANCH;
    return index < 2 || (state->boundary.kinds & always) != 0 || state->saving_ms >= STATE_SAVING_MS;
}

/* Describe a state for the disk, and say whether it is to be written. */
static bool state_missing(cairn_keeper *keeper, const cairn_core_slot_path *path,
                          const cairn_core_path_state *state, keeper_job *job,
                          char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    job->meta = (cairn_blob_meta){.space = path->space,
                                  .kind = CAIRN_BLOB_STATE,
                                  .provenance = state->decoded ? 1 : 0,
                                  .begin = state->position,
                                  .end = state->position,
                                  .cut_digest = state->digest,
                                  .boundary = state->boundary};
    if (cairn_path_digests(&keeper->root, keeper->tokens, path->length, &state->position, 1,
                           &job->meta.path_end, NULL) != CAIRN_OK) {
        return false;
    }
    job->meta.path_begin = job->meta.path_end;
    job->replaces[0] = '\0';
    return !cairn_keeper_has(keeper, &job->meta, ret_name);
}

/* The state that only the slot has: at its end. */
static bool live_keep(cairn_keeper *keeper, uint32_t slot, const cairn_core_slot_path *path, keeper_job *job)
{
    cairn_engine *engine = keeper->cache->engine;
    cairn_core_path_state live = {.position = path->length, .decoded = path->decoded, .digest = path->digest};
    live.boundary = (cairn_boundary){
        .position = path->length, .kinds = CAIRN_BOUNDARY_ANSWER_END, .role = CAIRN_ROLE_ASSISTANT};
    char name[CAIRN_BLOB_NAME_BYTES];
    uint64_t size = path->state_set ? engine->ops->state_size(engine, slot) : 0;
    if (size == 0 || size > keeper->payload_room || !state_missing(keeper, path, &live, job, name) ||
        engine->ops->state_get(engine, slot, job->payload, size, NULL) != CAIRN_OK) {
        return false;
    }
    job->meta.payload_bytes = size;
    job->value = keeper->read_ns_token * 1e-6 * CAIRN_KEEPER_BLOCK_TOKENS / (double)size;
    job_start(keeper, slot, name, job);
    return true;
}

static bool states_keep(cairn_keeper *keeper, uint32_t slot, const cairn_core_slot_path *path,
                        keeper_job *job)
{
    cairn_cache *cache = keeper->cache;
    cairn_core_path_state states[KEEPER_STATES_MAX];
    uint32_t count = cairn_core_slot_states(cache->core, slot, states, KEEPER_STATES_MAX);
    count = count < KEEPER_STATES_MAX ? count : KEEPER_STATES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *bytes;
        uint64_t size;
        char name[CAIRN_BLOB_NAME_BYTES];
        if (!state_wanted(&states[i], i) || !state_missing(keeper, path, &states[i], job, name) ||
            cairn_tier_ram_pin(cache->ram, states[i].blob, &bytes, &size, NULL) != CAIRN_OK) {
            continue;
        }
        bool fits = size <= keeper->payload_room;
        if (fits) {
            memcpy(job->payload, bytes, size);
        }
        cairn_tier_ram_unpin(cache->ram, states[i].blob);
        if (fits) {
            job->meta.payload_bytes = size;
            job->value = (states[i].saving_ms + 1.0) / (double)size;
            job_start(keeper, slot, name, job);
            return true;
        }
    }
    return false;
}

/* --- work ------------------------------------------------------------------------------------------------- */

/* What failed is looked at again, after a rest. The lock is held. */
static void job_again(cairn_keeper *keeper, const keeper_job *job)
{
    if (job->slot == KEEPER_NO_SLOT) {
        cairn_core_stored_kept(keeper->cache->core, job->item, job->blob, false);
        keeper->sweeping = true;
        keeper->sweep = 0;
    } else {
        keeper->slots[job->slot].tail_end = 0; /* it may not be there to be replaced */
        cairn_keeper_note(keeper, job->slot);
    }
}

void cairn_keeper_settle(cairn_keeper *keeper)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    (void)pthread_mutex_lock(&keeper->lock);
    for (int i = 0; i < KEEPER_JOBS; i++) {
        keeper_job *job = &keeper->jobs[i];
        if (job->phase == JOB_FAILED) {
            job_again(keeper, job);
        }
        if (job->phase == JOB_FAILED || job->phase == JOB_DONE) {
            job_free(keeper, job);
        }
    }
    if (keeper->pause_ns != 0) {
        keeper->retry_ns = now_ns + keeper->pause_ns;
        keeper->pause_ns = 0;
    }
    (void)pthread_mutex_unlock(&keeper->lock);
}

/* A job that may be filled; NULL: both are in use, or the disk is given a rest after a failure. */
static keeper_job *job_take(cairn_keeper *keeper)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    (void)pthread_mutex_lock(&keeper->lock);
    keeper_job *job = now_ns >= keeper->retry_ns ? job_in(keeper, JOB_FREE) : NULL;
    (void)pthread_mutex_unlock(&keeper->lock);
    return job;
}

bool cairn_keeper_work(cairn_keeper *keeper)
{
    uint32_t slots = keeper->cache->engine->info.slots;
    cairn_keeper_settle(keeper);
    for (uint32_t slot = 0; slot < slots; slot++) {
        keeper_slot *kept = &keeper->slots[slot];
        if (!kept->noted || keeper->cache->active[slot] != NULL) {
            continue;
        }
        keeper_job *job = job_take(keeper);
        if (job == NULL) {
            return false;
        }
        cairn_core_slot_path path;
        if (path_load(keeper, slot, &path)) {
            if (!kept->rows_done && rows_keep(keeper, slot, &path, job)) {
                return true;
            }
            if (live_keep(keeper, slot, &path, job) || states_keep(keeper, slot, &path, job)) {
                return true;
            }
        }
        kept->noted = false;
    }
    if (!keeper->sweeping) {
        return false;
    }
    keeper_job *job = job_take(keeper);
    return job != NULL && cairn_keeper_sweep(keeper, job);
}

/* The writer has something to do. The lock is held. */
static bool writer_busy(cairn_keeper *keeper)
{
    return job_in(keeper, JOB_READY) != NULL || job_in(keeper, JOB_WRITING) != NULL;
}

/* ... and nothing is to be looked at by the engine's thread. The lock is held. */
static bool jobs_idle(cairn_keeper *keeper)
{
    return !writer_busy(keeper) && job_in(keeper, JOB_DONE) == NULL && job_in(keeper, JOB_FAILED) == NULL;
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

bool cairn_keeper_writing(cairn_keeper *keeper)
{
    (void)pthread_mutex_lock(&keeper->lock);
    bool writing = !jobs_idle(keeper);
    (void)pthread_mutex_unlock(&keeper->lock);
    return writing;
}

void cairn_keeper_wait(cairn_keeper *keeper, uint64_t until_ns)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    if (now_ns >= until_ns) {
        return;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    uint64_t left_ns = until_ns - now_ns + (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(left_ns / SECOND_NS);
    until.tv_nsec = (long)(left_ns % SECOND_NS);
    (void)pthread_mutex_lock(&keeper->lock);
    if (writer_busy(keeper)) {
        (void)pthread_cond_timedwait(&keeper->done, &keeper->lock, &until);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
}

void cairn_keeper_forget(cairn_keeper *keeper, const cairn_namespace *space)
{
    /* What is on its way there must not arrive afterwards. */
    (void)pthread_mutex_lock(&keeper->lock);
    for (int i = 0; i < KEEPER_JOBS; i++) {
        keeper_job *job = &keeper->jobs[i];
        job->phase = job->phase == JOB_READY ? JOB_FAILED : job->phase;
        while (job->phase == JOB_WRITING) {
            (void)pthread_cond_wait(&keeper->done, &keeper->lock);
        }
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    (void)!cairn_disk_forget(keeper->disk, space, NULL);
    /* Other namespaces' paths are looked at again; of this one the core knows nothing any more. */
    for (uint32_t slot = 0; slot < keeper->cache->engine->info.slots; slot++) {
        keeper->slots[slot] = (keeper_slot){0};
        cairn_keeper_note(keeper, slot);
    }
}

void cairn_keeper_stats_get(cairn_keeper *keeper, cairn_cache_disk_stats *ret_stats)
{
    cairn_disk_stats disk;
    cairn_disk_stats_get(keeper->disk, &disk);
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    bool noted = cairn_keeper_noted(keeper);
    (void)pthread_mutex_lock(&keeper->lock);
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
                                          .waiting = noted || !jobs_idle(keeper)};
    if (ret_stats->waiting) {
        uint64_t rest_ns = keeper->retry_ns > now_ns ? keeper->retry_ns - now_ns : 0;
        ret_stats->due_ns = rest_ns > DUE_NS ? rest_ns : DUE_NS;
    }
    (void)pthread_mutex_unlock(&keeper->lock);
}
