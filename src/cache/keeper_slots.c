/*
 * keeper_slots - what a slot holds, piece by piece, into jobs: blocks of rows, then states.
 *
 * The engine's thread copies rows and live states out of the engine; everything else of a job is a pinned blob and the
 * path's tokens.
 *
 *   idle slot     | block | block | block | rest |* states, the one at its end too
 *   active slot   | block | block | block | ...   * states that are stored, no more than one for FRONT_S of reading
 */
#include <stdio.h>
#include <string.h>

#include "cache/keeper_internal.h"
#include "cache/state_worth.h"

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
    keeper->copies++;
    job->slot = slot;
    job->blob = 0;
    job->covered = false;
    job->bytes = job->payload;
    memcpy(job->name, name, sizeof job->name);
    cairn_keeper_start(keeper, job);
}

/* Does the path in hand, of `length` tokens, go through `path` at `position`? */
static bool path_passes(cairn_keeper *keeper, uint32_t length, uint32_t position,
                        const cairn_path_digest *path)
{
    cairn_path_digest now;
    return position <= length &&
           cairn_path_digests(&keeper->root, keeper->tokens, length, &position, 1, &now, NULL) == CAIRN_OK &&
           cairn_path_digest_equal(&now, path);
}

/* When this last block continues the one that was kept last, that one's file can go. */
static void tail_replace(cairn_keeper *keeper, keeper_slot *kept, keeper_job *job, const char *name)
{
    const cairn_blob_meta *meta = &job->meta;
    job->replaces[0] = '\0';
    bool partial = kept->tail_end % CAIRN_KEEPER_BLOCK_TOKENS != 0;
    if (partial && kept->tail_end > meta->begin && kept->tail_end < meta->end &&
        path_passes(keeper, meta->end, kept->tail_end, &kept->tail_path)) {
        memcpy(job->replaces, kept->tail_name, sizeof job->replaces);
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
    if (cairn_mover_rows_size(engine, begin, end).buffer_bytes > keeper->payload_room ||
        cairn_mover_rows_export(engine, slot, begin, end, job->payload, keeper->payload_room,
                                &job->meta.payload_bytes) != CAIRN_OK) {
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
    bool grows = keeper->cache->active[slot] != NULL;
    uint32_t rest = grows ? 0 : CAIRN_KEEPER_BLOCK_TOKENS - 1;
    uint32_t blocks = (path->length + rest) / CAIRN_KEEPER_BLOCK_TOKENS;
    while (keeper->cache->engine->info.rows_move && kept->next_block < blocks) {
        if (block_keep(keeper, slot, path, kept->next_block++, job)) {
            return true;
        }
    }
    kept->rows_done = !grows;
    return false;
}

/* Was so much read since the last state that is kept that this one, whose rows were handed over, is to be, too? */
static bool front_wanted(cairn_keeper *keeper, uint32_t slot, const cairn_core_slot_path *path,
                         const cairn_core_path_state *state)
{
    const keeper_slot *kept = &keeper->slots[slot];
    if (keeper->cache->engine->info.rows_move &&
        state->position / CAIRN_KEEPER_BLOCK_TOKENS > kept->next_block) {
        return false;
    }
    bool on_path = path_passes(keeper, path->length, kept->front_end, &kept->front_path);
    uint32_t since = on_path ? kept->front_end : 0;
    return state->position > since &&
           (state->position - since) * keeper->read_ns_token >= KEEPER_FRONT_S * 1e9;
}

/* The job's state is kept. One that is only a front takes the place of the front before; a wanted one stays. */
static void front_move(cairn_keeper *keeper, uint32_t slot, const cairn_core_slot_path *path, keeper_job *job,
                       const char *front_name)
{
    keeper_slot *kept = &keeper->slots[slot];
    bool on_path = path_passes(keeper, path->length, kept->front_end, &kept->front_path);
    if (on_path && kept->front_end >= job->meta.end) {
        if (kept->front_end == job->meta.end && front_name[0] == '\0') {
            kept->front_name[0] = '\0'; /* it has become worth its bytes: nothing takes its place */
        }
        return;
    }
    if (on_path) {
        memcpy(job->replaces, kept->front_name, sizeof job->replaces);
    }
    kept->front_end = job->meta.end;
    kept->front_path = job->meta.path_end;
    (void)snprintf(kept->front_name, sizeof kept->front_name, "%s", front_name);
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

/* Lend the job the state's bytes as memory has them. */
static bool state_lent(cairn_keeper *keeper, const cairn_core_path_state *state, keeper_job *job)
{
    if (cairn_tier_ram_pin_unread(keeper->cache->ram, state->blob, &job->bytes, &job->meta.payload_bytes,
                                  &job->digest, NULL) != CAIRN_OK) {
        return false;
    }
    job->blob = state->blob;
    job->covered = false;
    job->value = (state->saving_ms + 1.0) / (double)job->meta.payload_bytes;
    return true;
}

static bool states_keep(cairn_keeper *keeper, uint32_t slot, const cairn_core_slot_path *path,
                        keeper_job *job)
{
    cairn_core_path_state states[KEEPER_STATES_MAX];
    bool grows = keeper->cache->active[slot] != NULL;
    uint32_t count = cairn_core_slot_states(keeper->cache->core, slot, states, KEEPER_STATES_MAX);
    count = count < KEEPER_STATES_MAX ? count : KEEPER_STATES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        char name[CAIRN_BLOB_NAME_BYTES];
        bool wanted = cairn_state_worth(states[i].boundary.kinds, states[i].saving_ms, false) ||
                      (!grows && i < 2); /* the deepest of an idle slot: it goes on from there */
        if (!wanted && !(grows && front_wanted(keeper, slot, path, &states[i]))) {
            continue;
        }
        bool missing = state_missing(keeper, path, &states[i], job, name);
        if (missing && !state_lent(keeper, &states[i], job)) {
            continue;
        }
        front_move(keeper, slot, path, job, wanted ? "" : name);
        if (!missing) {
            continue;
        }
        job->slot = slot;
        memcpy(job->name, name, sizeof job->name);
        cairn_keeper_start(keeper, job);
        return true;
    }
    return false;
}

bool cairn_keeper_slot_keep(cairn_keeper *keeper, uint32_t slot, keeper_job *job)
{
    cairn_core_slot_path path;
    if (!path_load(keeper, slot, &path)) {
        return false;
    }
    bool grows = keeper->cache->active[slot] != NULL;
    bool rows_left = !keeper->slots[slot].rows_done;
    bool used = grows ? states_keep(keeper, slot, &path, job) || rows_keep(keeper, slot, &path, job)
                      : (rows_left && rows_keep(keeper, slot, &path, job)) ||
                            live_keep(keeper, slot, &path, job) || states_keep(keeper, slot, &path, job);
    if (!used) {
        keeper->slots[slot].looked_end = path.length;
    }
    return used;
}
