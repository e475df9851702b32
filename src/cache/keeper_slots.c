/*
 * keeper_slots - what a slot holds, piece by piece, into jobs: blocks of rows, then states.
 *
 * The engine's thread copies rows out of the engine; everything else of a job is pointers and a path's tokens.
 */
#include <string.h>

#include "cache/keeper_internal.h"

enum { STATE_SAVING_MS = 100 };

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

/* The job's payload is what the slot gave. */
static void job_start(cairn_keeper *keeper, uint32_t slot, const char *name, keeper_job *job)
{
    job->slot = slot;
    job->blob = 0;
    job->bytes = job->payload;
    cairn_keeper_start(keeper, name, job);
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

bool cairn_keeper_slot_keep(cairn_keeper *keeper, uint32_t slot, keeper_job *job)
{
    cairn_core_slot_path path;
    if (!path_load(keeper, slot, &path)) {
        return false;
    }
    return (!keeper->slots[slot].rows_done && rows_keep(keeper, slot, &path, job)) ||
           live_keep(keeper, slot, &path, job) || states_keep(keeper, slot, &path, job);
}
