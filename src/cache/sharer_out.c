/*
 * sharer_out - what a slot holds, piece by piece, into the sender's jobs: blocks of rows, states, then points.
 *
 *   | block | block | block | rest |        blocks begin at multiples of BLOCK, so that the same path gives the same
 *   *       *                     *         blobs whichever server read it
 *   point   point                 point     written when the state and all blocks before it are known to be there
 *
 * The engine's thread copies; everything that takes time besides is the sender's.
 */
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "cache/sharer_internal.h"
#include "cache/state_worth.h"

#define SECOND_NS UINT64_C(1000000000)

enum { REST_S = 1, REST_BUSY_S = 5, REST_FULL_S = 30 };

/* What came of one attempt to hand something over. */
typedef enum out_result {
    OUT_STARTED, /* a job was used                                                                       */
    OUT_THERE,   /* it is in the store, or on its way, or can't be sent                                  */
    OUT_BUSY,    /* no job is free                                                                       */
    OUT_LACKS    /* point: a part of it is not there                                                     */
} out_result;

/* --- jobs ----------------------------------------------------------------------------------------------------- */

void cairn_sharer_note(cairn_sharer *sharer, uint32_t slot)
{
    sharer->slot[slot].noted = true;
    sharer->slot[slot].next_block = 0;
    sharer->slot[slot].looked_end = 0;
}

void cairn_sharer_settle(cairn_sharer *sharer)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_shared_stats store;
    cairn_sharer_loads_settle(sharer);
    cairn_shared_stats_get(sharer->shared, &store);
    if (store.reconnects != sharer->reconnects) { /* a store that restarted may have nothing any more */
        sharer->reconnects = store.reconnects;
        memset(sharer->known, 0, SHARER_KNOWN * sizeof *sharer->known);
        for (uint32_t slot = 0; slot < sharer->slots; slot++) {
            cairn_sharer_note(sharer, slot);
        }
    }
    for (int i = 0; i < SHARER_OUT; i++) {
        sharer_job *job = &sharer->jobs[i];
        cairn_lock(&sharer->lock);
        bool done = job->phase == SHARER_DONE;
        job->phase = done ? SHARER_FREE : job->phase;
        cairn_unlock(&sharer->lock);
        if (!done) {
            continue;
        }
        if (job->status == CAIRN_OK) {
            cairn_sharer_learn(sharer, job->name);
        } else { /* looked at again after a rest */
            sharer->retry_ns = now_ns + (job->status == CAIRN_NOSPACE ? REST_FULL_S
                                         : job->status == CAIRN_BUSY  ? REST_BUSY_S
                                                                      : REST_S) *
                                            SECOND_NS;
            cairn_sharer_note(sharer, job->slot);
        }
    }
}

/* A job that may be filled, of the kind wanted; NULL: all are in use, or the store is given a rest. */
static sharer_job *job_take(cairn_sharer *sharer, bool point)
{
    sharer_job *found = NULL;
    if (cairn_clock_now_ns(cairn_clock_system()) < sharer->retry_ns) {
        return NULL;
    }
    cairn_lock(&sharer->lock);
    for (int i = point ? SHARER_JOBS : 0; i < (point ? SHARER_OUT : SHARER_JOBS) && found == NULL; i++) {
        found = sharer->jobs[i].phase == SHARER_FREE ? &sharer->jobs[i] : NULL;
    }
    cairn_unlock(&sharer->lock);
    return found;
}

/* The order of the job that carries this name; 0: none does. */
static uint64_t on_its_way(cairn_sharer *sharer, uint64_t name)
{
    uint64_t order = 0;
    cairn_lock(&sharer->lock);
    for (int i = 0; i < SHARER_OUT && order == 0; i++) {
        bool carries = sharer->jobs[i].phase != SHARER_FREE && sharer->jobs[i].name == name;
        order = carries ? sharer->jobs[i].order : 0;
    }
    cairn_unlock(&sharer->lock);
    return order;
}

static void job_start(cairn_sharer *sharer, uint32_t slot, uint64_t name, sharer_job *job)
{
    job->slot = slot;
    job->name = name;
    job->anew = cairn_sharer_knows(sharer, name) == SHARER_KNOWN_OLD;
    job->space = sharer->space;
    cairn_lock(&sharer->lock);
    job->order = ++sharer->orders;
    job->phase = SHARER_READY;
    cairn_cond_signal(&sharer->wake_sender);
    cairn_unlock(&sharer->lock);
}

/* --- the path in hand ----------------------------------------------------------------------------------------- */

/* Blocks that cover so many tokens. */
static uint32_t blocks_of(uint32_t tokens)
{
    return (tokens + CAIRN_SHARER_BLOCK_TOKENS - 1) / CAIRN_SHARER_BLOCK_TOKENS;
}

/* The slot's path: tokens, and digests at the blocks' borders and at its end. False: nothing to share. */
static bool path_load(cairn_sharer *sharer, uint32_t slot, cairn_core_slot_path *path)
{
    cairn_cache *cache = sharer->cache;
    if (!cairn_core_slot_path_get(cache->core, slot, path) || path->length > sharer->tokens_room ||
        cache->engine->ops->length(cache->engine, slot) != path->length) {
        return false;
    }
    cairn_core_slot_tokens(cache->core, slot, sharer->tokens);
    uint32_t blocks = blocks_of(path->length);
    for (uint32_t i = 0; i < blocks; i++) {
        sharer->positions[i] = i * CAIRN_SHARER_BLOCK_TOKENS;
    }
    sharer->positions[blocks] = path->length;
    return cairn_shared_space_get(sharer->shared, &path->space, &sharer->space, NULL) == CAIRN_OK &&
           cairn_path_digests(&sharer->space.root, sharer->tokens, path->length, sharer->positions,
                              blocks + 1, sharer->digests, NULL) == CAIRN_OK;
}

/* Digest of the path in hand at one position. */
static bool digest_at(cairn_sharer *sharer, uint32_t position, cairn_path_digest *ret_digest)
{
    return cairn_path_digests(&sharer->space.root, sharer->tokens, position, &position, 1, ret_digest,
                              NULL) == CAIRN_OK;
}

/* What the slot held when it was looked at last was not handed over to its end, and is gone now: counted. */
static void path_remember(cairn_sharer *sharer, uint32_t slot, uint32_t length)
{
    sharer_slot *kept = &sharer->slot[slot];
    cairn_path_digest now;
    if (kept->seen_end > 0 && (kept->seen_end > length || !digest_at(sharer, kept->seen_end, &now) ||
                               !cairn_path_digest_equal(&now, &kept->seen_path))) {
        cairn_sharer_count(sharer, &sharer->stats.dropped, 1);
    }
    kept->seen_end = length;
    kept->seen_path = sharer->digests[blocks_of(length)];
}

/* --- rows ----------------------------------------------------------------------------------------------------- */

/* Describe a block of the slot's rows, without its bytes. False: it can't be. */
static bool block_describe(cairn_sharer *sharer, uint32_t slot, const cairn_core_slot_path *path,
                           uint32_t block, cairn_blob_run *runs, cairn_blob_meta *ret_meta)
{
    cairn_run found[CAIRN_SHARER_BLOCK_TOKENS];
    uint32_t begin = block * CAIRN_SHARER_BLOCK_TOKENS, end = sharer->positions[block + 1];
    uint32_t count =
        cairn_core_slot_runs(sharer->cache->core, slot, begin, end, found, CAIRN_SHARER_BLOCK_TOKENS);
    if (count == 0 || count > CAIRN_SHARER_BLOCK_TOKENS) {
        return false;
    }
    *ret_meta = (cairn_blob_meta){.space = path->space,
                                  .kind = CAIRN_BLOB_ROWS,
                                  .begin = begin,
                                  .end = end,
                                  .count_runs = count,
                                  .cut_digest = found[count - 1].digest,
                                  .path_begin = sharer->digests[block],
                                  .path_end = sharer->digests[block + 1],
                                  .path_base = sharer->digests[block]};
    for (uint32_t i = 0; i < count; i++) {
        ret_meta->provenance = found[i].digest == 0 ? 1 : ret_meta->provenance;
        if (runs != NULL) {
            runs[i] = (cairn_blob_run){
                .rows_end = found[i].rows_end, .cut = found[i].cut, .digest = found[i].digest};
        }
    }
    return true;
}

static uint64_t blob_name(const cairn_sharer *sharer, const cairn_blob_meta *meta,
                          cairn_shared_part *ret_part)
{
    cairn_shared_part_of(&sharer->space, meta, ret_part);
    return cairn_blob_name_number(ret_part->name);
}

static out_result block_out(cairn_sharer *sharer, uint32_t slot, const cairn_core_slot_path *path,
                            uint32_t block)
{
    cairn_engine *engine = sharer->cache->engine;
    cairn_shared_part part;
    cairn_blob_meta meta;
    cairn_blob_run runs[CAIRN_SHARER_BLOCK_TOKENS];
    if (!block_describe(sharer, slot, path, block, runs, &meta)) {
        return OUT_THERE;
    }
    uint64_t name = blob_name(sharer, &meta, &part);
    if (cairn_sharer_knows(sharer, name) == SHARER_KNOWN_NOW || on_its_way(sharer, name) != 0) {
        return OUT_THERE;
    }
    sharer_job *job = job_take(sharer, false);
    if (job == NULL) {
        return OUT_BUSY;
    }
    if (cairn_mover_rows_size(engine, meta.begin, meta.end).buffer_bytes > sharer->payload_room ||
        cairn_mover_rows_export(engine, slot, meta.begin, meta.end, job->payload, sharer->payload_room,
                                &meta.payload_bytes) != CAIRN_OK) {
        return OUT_THERE;
    }
    job->is_point = false;
    job->meta = meta;
    memcpy(job->runs, runs, meta.count_runs * sizeof *runs);
    memcpy(job->tokens, sharer->tokens, (size_t)meta.end * sizeof *job->tokens);
    job_start(sharer, slot, name, job);
    return OUT_STARTED;
}

/* --- states --------------------------------------------------------------------------------------------------- */

/*
 * The states worth sharing, deepest first, the one that only the slot has among them. While it grows, those alone that
 * mark something: the deepest is soon another.
 */
static uint32_t states_list(cairn_sharer *sharer, uint32_t slot, const cairn_core_slot_path *path, bool grows,
                            cairn_core_path_state *states)
{
    cairn_core_path_state all[SHARER_STATES_MAX];
    uint32_t count = 0, stored = cairn_core_slot_states(sharer->cache->core, slot, all, SHARER_STATES_MAX);
    stored = stored < SHARER_STATES_MAX ? stored : SHARER_STATES_MAX;
    if (!grows && path->state_set && (stored == 0 || all[0].position < path->length)) {
        states[count++] = (cairn_core_path_state){.position = path->length,
                                                  .decoded = path->decoded,
                                                  .digest = path->digest,
                                                  .boundary = {.position = path->length,
                                                               .kinds = CAIRN_BOUNDARY_ANSWER_END,
                                                               .role = CAIRN_ROLE_ASSISTANT}};
    }
    for (uint32_t i = 0; i < stored && count < SHARER_STATES_MAX; i++) {
        uint16_t kinds = all[i].boundary.kinds;
        if (grows ? cairn_state_anchors(kinds, false)
                  : i < 2 || cairn_state_worth(kinds, all[i].saving_ms, false)) {
            states[count++] = all[i];
        }
    }
    return count;
}

static bool state_describe(cairn_sharer *sharer, const cairn_core_slot_path *path,
                           const cairn_core_path_state *state, cairn_blob_meta *ret_meta)
{
    uint32_t base = cairn_blob_base(CAIRN_BLOB_STATE, state->position, state->position);
    *ret_meta = (cairn_blob_meta){.space = path->space,
                                  .kind = CAIRN_BLOB_STATE,
                                  .provenance = state->decoded ? 1 : 0,
                                  .begin = state->position,
                                  .end = state->position,
                                  .cut_digest = state->digest,
                                  .boundary = state->boundary};
    bool fine = digest_at(sharer, state->position, &ret_meta->path_end) &&
                digest_at(sharer, base, &ret_meta->path_base);
    ret_meta->path_begin = ret_meta->path_end;
    return fine;
}

/* Copy the state's bytes: from memory, or from the slot when only that has it. */
static bool state_copy(cairn_sharer *sharer, uint32_t slot, const cairn_core_path_state *state,
                       sharer_job *job)
{
    cairn_cache *cache = sharer->cache;
    const uint8_t *bytes;
    uint64_t size = 0;
    if (state->blob == 0) {
        size = cache->engine->ops->state_size(cache->engine, slot);
        job->meta.payload_bytes = size;
        return size > 0 && size <= sharer->payload_room &&
               cache->engine->ops->state_get(cache->engine, slot, job->payload, size, NULL) == CAIRN_OK;
    }
    if (cairn_tier_ram_pin(cache->ram, state->blob, &bytes, &size, NULL) != CAIRN_OK) {
        return false;
    }
    bool fits = size <= sharer->payload_room;
    if (fits) {
        memcpy(job->payload, bytes, size);
        job->meta.payload_bytes = size;
    }
    cairn_tier_ram_unpin(cache->ram, state->blob);
    return fits;
}

static out_result state_out(cairn_sharer *sharer, uint32_t slot, const cairn_core_slot_path *path,
                            const cairn_core_path_state *state)
{
    cairn_shared_part part;
    cairn_blob_meta meta;
    if (!state_describe(sharer, path, state, &meta)) {
        return OUT_THERE;
    }
    uint64_t name = blob_name(sharer, &meta, &part);
    if (cairn_sharer_knows(sharer, name) == SHARER_KNOWN_NOW || on_its_way(sharer, name) != 0) {
        return OUT_THERE;
    }
    sharer_job *job = job_take(sharer, false);
    if (job == NULL) {
        return OUT_BUSY;
    }
    job->meta = meta;
    job->is_point = false;
    if (!state_copy(sharer, slot, state, job)) {
        return OUT_THERE;
    }
    job_start(sharer, slot, name, job);
    return OUT_STARTED;
}

/* --- points --------------------------------------------------------------------------------------------------- */

/* Is a part in the store, or on its way there? Then the point may follow it; ret_since becomes its order. */
static bool part_comes(cairn_sharer *sharer, uint64_t name, uint64_t *ret_since)
{
    uint64_t order =
        cairn_sharer_knows(sharer, name) == SHARER_KNOWN_NOW ? UINT64_MAX : on_its_way(sharer, name);
    *ret_since = order != 0 && order < *ret_since ? order : *ret_since;
    return order != 0;
}

/*
 * Fill the job's point with its parts. False: one of them is neither there nor on its way. Numbers of bytes are asked from
 * the engine: they are the same wherever a blob was made.
 */
static bool point_fill(cairn_sharer *sharer, uint32_t slot, const cairn_core_slot_path *path,
                       const cairn_core_path_state *state, uint64_t state_bytes, sharer_job *job)
{
    cairn_engine *engine = sharer->cache->engine;
    cairn_shared_point *point = &job->point;
    cairn_blob_meta meta;
    if (!state_describe(sharer, path, state, &meta)) {
        return false;
    }
    meta.payload_bytes = state_bytes;
    cairn_shared_part *parts = point->parts;
    *point = (cairn_shared_point){.path = meta.path_end,
                                  .position = state->position,
                                  .provenance = meta.provenance,
                                  .cut_digest = meta.cut_digest,
                                  .count_parts = 1,
                                  .parts = parts};
    job->since = UINT64_MAX;
    bool comes = part_comes(sharer, blob_name(sharer, &meta, &parts[0]), &job->since);
    uint32_t blocks = engine->info.rows_move ? blocks_of(state->position) : 0;
    for (uint32_t block = 0; block < blocks && comes; block++) {
        if (point->count_parts == sharer->parts_room ||
            !block_describe(sharer, slot, path, block, NULL, &meta)) {
            return false;
        }
        meta.payload_bytes = cairn_mover_rows_size(engine, meta.begin, meta.end).bytes;
        comes = part_comes(sharer, blob_name(sharer, &meta, &parts[point->count_parts++]), &job->since);
    }
    return comes;
}

static out_result point_out(cairn_sharer *sharer, uint32_t slot, const cairn_core_slot_path *path,
                            const cairn_core_path_state *state)
{
    cairn_path_digest digest;
    char key[CAIRN_KV_KEY_BYTES];
    uint64_t bytes = 0;
    if (!digest_at(sharer, state->position, &digest) ||
        cairn_shared_point_key(&sharer->space, &digest, state->position, state->decoded ? 1 : 0, key) !=
            CAIRN_OK) {
        return OUT_THERE;
    }
    uint64_t name = cairn_blob_name_number(key);
    if (cairn_sharer_knows(sharer, name) == SHARER_KNOWN_NOW || on_its_way(sharer, name) != 0) {
        return OUT_THERE;
    }
    if (state->blob == 0) {
        bytes = sharer->cache->engine->ops->state_size(sharer->cache->engine, slot);
    } else if (!cairn_tier_ram_has(sharer->cache->ram, state->blob, &bytes)) {
        return OUT_THERE;
    }
    sharer_job *job = job_take(sharer, true);
    if (job == NULL) {
        return OUT_BUSY;
    }
    if (!point_fill(sharer, slot, path, state, bytes, job)) {
        return OUT_LACKS;
    }
    job->is_point = true;
    job_start(sharer, slot, name, job);
    return OUT_STARTED;
}

/* --- work ----------------------------------------------------------------------------------------------------- */

/* The slot's rows in whole blocks, of an idle one the rest, too. */
static out_result rows_out(cairn_sharer *sharer, uint32_t slot, const cairn_core_slot_path *path, bool grows)
{
    sharer_slot *kept = &sharer->slot[slot];
    uint32_t blocks = grows ? path->length / CAIRN_SHARER_BLOCK_TOKENS : blocks_of(path->length);
    while (sharer->cache->engine->info.rows_move && kept->next_block < blocks) {
        out_result result = block_out(sharer, slot, path, kept->next_block);
        kept->next_block += result != OUT_BUSY ? 1 : 0;
        if (result == OUT_STARTED || result == OUT_BUSY) {
            return result;
        }
    }
    return OUT_THERE;
}

/* The next piece of what a slot holds. OUT_THERE: all of it is in the store, or on its way. */
static out_result slot_out(cairn_sharer *sharer, uint32_t slot)
{
    cairn_core_slot_path path;
    cairn_core_path_state states[SHARER_STATES_MAX];
    bool grows = sharer->cache->active[slot] != NULL;
    if (!path_load(sharer, slot, &path)) {
        sharer->slot[slot].seen_end = 0;
        return OUT_THERE;
    }
    if (!grows) {
        path_remember(sharer, slot, path.length);
    }
    out_result result = rows_out(sharer, slot, &path, grows);
    uint32_t count = states_list(sharer, slot, &path, grows, states);
    for (uint32_t i = 0; i < count && result != OUT_STARTED && result != OUT_BUSY; i++) {
        result = state_out(sharer, slot, &path, &states[i]);
    }
    uint32_t whole = path.length / CAIRN_SHARER_BLOCK_TOKENS; /* blocks that won't change while it grows */
    for (uint32_t i = 0; i < count && result != OUT_STARTED && result != OUT_BUSY; i++) {
        if (!grows || blocks_of(states[i].position) <= whole) {
            result = point_out(sharer, slot, &path, &states[i]);
        }
    }
    if (result != OUT_STARTED && result != OUT_BUSY) {
        sharer->slot[slot].looked_end = path.length;
        sharer->slot[slot].seen_end = 0; /* handed over to its end */
        return OUT_THERE;
    }
    return result;
}

/* Is there something to hand over? An active slot is looked at when it has a block more. */
static bool slot_wanted(const cairn_sharer *sharer, uint32_t slot)
{
    cairn_cache *cache = sharer->cache;
    if (cache->active[slot] == NULL) {
        return sharer->slot[slot].noted;
    }
    uint32_t length = cache->engine->ops->length(cache->engine, slot);
    return length >= sharer->slot[slot].looked_end + CAIRN_SHARER_BLOCK_TOKENS;
}

bool cairn_sharer_work(cairn_sharer *sharer)
{
    cairn_sharer_settle(sharer);
    for (uint32_t slot = 0; slot < sharer->slots; slot++) {
        if (!slot_wanted(sharer, slot)) {
            continue;
        }
        out_result result = slot_out(sharer, slot);
        if (result != OUT_THERE) {
            return result == OUT_STARTED;
        }
        sharer->slot[slot].noted = false;
    }
    return false;
}

/* Hand over so many pieces at most, and rest accordingly. */
static void work_and_rest(cairn_sharer *sharer, uint32_t pieces)
{
    uint64_t begin_ns = cairn_cache_now_ns(sharer->cache);
    while (pieces > 0 && cairn_sharer_work(sharer)) {
        pieces--;
    }
    uint64_t cost_ns = cairn_cache_now_ns(sharer->cache) - begin_ns;
    sharer->behind_ns = begin_ns + cost_ns * SHARER_PART_BESIDE;
}

void cairn_sharer_behind(cairn_sharer *sharer)
{
    if (cairn_cache_now_ns(sharer->cache) >= sharer->behind_ns) {
        work_and_rest(sharer, 1);
    }
}

void cairn_sharer_rush(cairn_sharer *sharer)
{
    work_and_rest(sharer, SHARER_OUT);
}

bool cairn_sharer_noted(const cairn_sharer *sharer)
{
    for (uint32_t slot = 0; slot < sharer->slots; slot++) {
        if (sharer->slot[slot].noted) {
            return true;
        }
    }
    return false;
}

bool cairn_sharer_sending(cairn_sharer *sharer)
{
    bool sending;
    cairn_lock(&sharer->lock);
    sending = sharer->count_forgets > 0;
    for (int i = 0; i < SHARER_OUT; i++) {
        sending = sending || sharer->jobs[i].phase != SHARER_FREE;
    }
    cairn_unlock(&sharer->lock);
    return sending;
}
