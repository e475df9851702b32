/*
 * cache_request - a request's life: begin, step, push, end. What a step does lies in the other files.
 */
#include "cache/cache_internal.h"

#include <string.h>

static void request_release(cairn_request *request)
{
    if (request->todo != request->few) {
        cairn_mem_array_release(request->mem, request->todo, request->todo_room, sizeof *request->todo);
    }
    cairn_mem_array_release(request->mem, request->answer, request->answer_room, sizeof *request->answer);
    cairn_mem_array_release(request->mem, request->logits_kept, request->vocab_size, sizeof(float));
    cairn_mem_release(request->mem, request, sizeof *request);
}

/* --- begin and end ---------------------------------------------------------------------------------------- */

static cairn_status check_prompt(const cairn_prompt *prompt, cairn_error *reterr)
{
    if (prompt->count == 0 || prompt->tokens == NULL) {
        return cairn_error_set(reterr, CAIRN_INVALID, "cache: begin", "the prompt is empty");
    }
    uint32_t before = 0;
    for (uint32_t i = 0; i < prompt->count_boundaries; i++) {
        uint32_t position = prompt->boundaries[i].position;
        if (position < before || position > prompt->count) {
            return cairn_error_set(reterr, CAIRN_INVALID, "cache: begin", "boundary %u lies at %u", i,
                                   position);
        }
        before = position;
    }
    return CAIRN_OK;
}

/* What this plan set in motion is over: the slot holds what the engine says, nothing more is to come. */
static void finish(cairn_request *request, cairn_ending ending)
{
    cairn_cache *cache = request->cache;
    if (request->id == 0) {
        return;
    }
    cairn_record_decision(request);
    if (request->touched) {
        /* Stopped between dropping what the slot held and setting its state. */
        cache->engine->ops->reset(cache->engine, request->slot);
        cairn_cache_slot_lost(request, 0);
    }
    cairn_event event = {
        .kind = CAIRN_EVENT_FINISH, .request = request->id, .slot = request->slot, .ending = ending};
    cairn_status status = cairn_cache_tell_drops(cache, &event, NULL);
    (void)CAIRN_EXPECT(status == CAIRN_OK);
    request->states_taken_before = request->record.states_taken;
    request->states_skipped_before = request->record.states_skipped;
    request->todo_count = request->todo_next = 0;
    request->touched = request->resumed = false;
    request->resume_ns = 0;
    request->id = 0;
    cache->active[request->slot] = NULL;
    if (cache->keeper != NULL) {
        cairn_keeper_saw_read(cache->keeper, request->record.read, request->record.read_ns);
        cairn_keeper_note(cache->keeper, request->slot);
    }
    if (cache->sharer != NULL) {
        cairn_sharer_note(cache->sharer, request->slot);
    }
}

/* The shortest length to which the slot can be cut now without a state; UINT32_MAX: it can't be cut. */
static uint32_t trim_floor(cairn_engine *engine, uint32_t slot)
{
    uint32_t high = engine->ops->length(engine, slot);
    uint32_t low = 0;
    if (high == 0 || !engine->ops->can_trim(engine, slot, high)) {
        return UINT32_MAX;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (middle > 0 && engine->ops->can_trim(engine, slot, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return high;
}

static const uint32_t *trim_floors(cairn_cache *cache)
{
    for (uint32_t slot = 0; cache->floors != NULL && slot < cache->engine->info.slots; slot++) {
        cache->floors[slot] = cache->active[slot] == NULL ? trim_floor(cache->engine, slot) : UINT32_MAX;
    }
    return cache->floors;
}

cairn_status cairn_request_plan(cairn_request *request, uint32_t slot, cairn_error *reterr)
{
    cairn_cache *cache = request->cache;
    finish(request, CAIRN_END_STOPPED);
    cairn_event event = {.kind = CAIRN_EVENT_REQUEST,
                         .request = ++cache->last_id,
                         .prompt = &request->prompt,
                         .slot = slot,
                         .trim_floors = trim_floors(cache)};
    const cairn_action *actions;
    uint32_t count;
    uint64_t begin_ns = cairn_cache_now_ns(cache);
    cairn_status status = cairn_cache_tell(cache, &event, &actions, &count, reterr);
    cairn_timeline_ended(request, CAIRN_SPAN_LOOKUP, cairn_cache_now_ns(cache) - begin_ns, 0);
    const cairn_decision *decision = cairn_core_decision(cache->core, event.request);
    if (decision == NULL) {
        return status != CAIRN_OK ? status : cairn_error_set(reterr, CAIRN_NOMEM, "cache: begin", NULL);
    }
    CAIRN_ASSERT(decision->slot < cache->engine->info.slots && cache->active[decision->slot] == NULL);
    request->id = event.request;
    request->slot = decision->slot;
    request->length = 0;
    request->answer_next = 0;
    request->logits_there = false;
    request->phase = CAIRN_PHASE_RESTORE;
    cache->active[request->slot] = request;
    if (cache->keeper != NULL) {
        cairn_keeper_note(cache->keeper, request->slot);
    }
    if (cache->sharer != NULL) {
        cairn_sharer_note(cache->sharer, request->slot);
    }
    cairn_record_decision(request);
    if (status == CAIRN_OK) {
        status = cairn_request_take_list(request, actions, count, reterr);
    }
    return status == CAIRN_OK ? cairn_request_advance(request, CAIRN_EXTENT_SAVES, reterr) : status;
}

/* Requests that fetch from disk have no slot yet, but one of the idle ones is theirs. */
static cairn_status slot_awaits(const cairn_cache *cache, cairn_error *reterr)
{
    uint32_t idle = 0;
    for (uint32_t slot = 0; slot < cache->engine->info.slots; slot++) {
        idle += cache->active[slot] == NULL ? 1 : 0;
    }
    return idle > cache->fetching ? CAIRN_OK
                                  : cairn_error_set(reterr, CAIRN_BUSY, "cache: begin", "no slot is free");
}

/* The request's own plan, counted once. */
static cairn_status plan_first(cairn_request *request, cairn_error *reterr)
{
    cairn_status status = cairn_request_plan(request, CAIRN_SLOT_ANY, reterr);
    if (status == CAIRN_OK) {
        cairn_cache_stats *totals = &request->cache->totals;
        totals->requests++;
        totals->tokens_prompt += request->record.prompt_tokens;
        totals->tokens_least += request->record.least;
    }
    return status;
}

cairn_status cairn_cache_begin(cairn_cache *cache, const cairn_prompt *prompt, cairn_request **ret_request,
                               cairn_error *reterr)
{
    cairn_status status = check_prompt(prompt, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_request *request = cairn_mem_zalloc(cache->mem, sizeof *request);
    if (request == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache: begin", NULL);
    }
    request->cache = cache;
    request->mem = cache->mem;
    request->vocab_size = cache->engine->info.vocab_size;
    request->prompt = *prompt;
    request->exact = prompt->mode == CAIRN_RESUME_EXACT;
    if (cache->options.off) {
        request->prompt.mode = CAIRN_RESUME_OFF;
    }
    request->todo = request->few;
    request->todo_room = CAIRN_CACHE_ACTIONS_MIN;
    if (cache->sharer != NULL) { /* one of the idle slots will be another's */
        cairn_sharer_rush(cache->sharer);
    }
    status = slot_awaits(cache, reterr);
    if (status == CAIRN_OK && !cairn_request_seek(request) && !cairn_request_share(request)) {
        status = plan_first(request, reterr);
    }
    if (status != CAIRN_OK) {
        finish(request, CAIRN_END_BROKEN);
        request_release(request);
        return status;
    }
    *ret_request = request;
    return CAIRN_OK;
}

void cairn_cache_end(cairn_cache *cache, cairn_request *request, cairn_ending ending)
{
    CAIRN_ASSERT(request->cache == cache);
    if (request->phase == CAIRN_PHASE_ENDED) {
        return;
    }
    cairn_request_fetch_end(request);
    cairn_request_share_end(request);
    finish(request, ending);
    cache->totals.states_taken += request->record.states_taken;
    cache->totals.states_skipped += request->record.states_skipped;
    cairn_counts_keep(cache);
    request->phase = CAIRN_PHASE_ENDED;
    request->logits_there = false;
}

void cairn_request_free(cairn_request *request)
{
    if (request == NULL) {
        return;
    }
    CAIRN_ASSERT(request->phase == CAIRN_PHASE_ENDED);
    request_release(request);
}

/* --- step ------------------------------------------------------------------------------------------------- */

/* Does one of them decode in this step? Then it is not made to wait for a disk. */
static bool one_decodes(cairn_request *const *requests, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (requests[i]->phase == CAIRN_PHASE_READ || requests[i]->phase == CAIRN_PHASE_DECODE) {
            return true;
        }
    }
    return false;
}

/* One transfer; where there was none to do, the request reads in this step already. `wait`: for the disk. */
static cairn_status restore_step(cairn_request *request, bool wait, bool *ret_reads, cairn_error *reterr)
{
    cairn_error error;
    uint64_t moved_bytes = request->record.moved_bytes;
    if (request->fetches || request->shares) {
        *ret_reads = false;
        bool more = request->fetches ? cairn_request_fetch(request, wait) || cairn_request_share(request)
                                     : cairn_request_share_step(request, wait);
        cairn_status planned = more ? CAIRN_OK : plan_first(request, &error);
        return planned == CAIRN_OK ? CAIRN_OK : cairn_request_fail(request, &error, reterr);
    }
    cairn_status status = cairn_request_advance(request, CAIRN_EXTENT_ONE, &error);
    *ret_reads = request->phase == CAIRN_PHASE_READ && request->record.moved_bytes == moved_bytes;
    return status == CAIRN_OK ? CAIRN_OK : cairn_request_fail(request, &error, reterr);
}

cairn_status cairn_cache_step(cairn_cache *cache, cairn_request *const *requests, uint32_t count,
                              cairn_error *reterr)
{
    cairn_status worst = CAIRN_OK;
    uint32_t decoding = 0;
    bool wait = !one_decodes(requests, count);
    cache->steps++;
    if (cache->keeper != NULL) { /* what the step before gave is with the clients now */
        cairn_keeper_behind(cache->keeper);
    }
    if (cache->sharer != NULL) {
        cairn_sharer_behind(cache->sharer);
    }
    for (uint32_t i = 0; i < count; i++) {
        cairn_request *request = requests[i];
        if (request->cache != cache || request->step_seen == cache->steps) {
            continue;
        }
        request->step_seen = cache->steps;
        bool decodes = request->phase == CAIRN_PHASE_READ || request->phase == CAIRN_PHASE_DECODE;
        if (request->phase == CAIRN_PHASE_RESTORE) {
            cairn_status status = restore_step(request, wait, &decodes, reterr);
            worst = status != CAIRN_OK ? status : worst;
        }
        if (decodes) {
            cache->step[decoding++] = request;
        }
    }
    if (decoding > 0) {
        cairn_status status = cairn_cache_decode(cache, decoding, reterr);
        worst = status != CAIRN_OK ? status : worst;
    }
    return worst;
}

/* --- the request ------------------------------------------------------------------------------------------ */

cairn_phase cairn_request_phase(const cairn_request *request)
{
    return request->phase;
}

const float *cairn_request_logits(const cairn_request *request)
{
    return request->phase == CAIRN_PHASE_READY ? cairn_request_logits_row(request) : NULL;
}

static cairn_status answer_room(cairn_request *request, cairn_error *reterr)
{
    if (request->answer_count < request->answer_room) {
        return CAIRN_OK;
    }
    uint32_t room = request->answer_room == 0 ? 64 : request->answer_room * 2;
    cairn_token *grown = cairn_mem_array_resize(request->mem, request->answer, request->answer_room, room,
                                                sizeof *request->answer);
    if (grown == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache: push", "%u tokens", room);
    }
    request->answer = grown;
    request->answer_room = room;
    return CAIRN_OK;
}

cairn_status cairn_request_push(cairn_request *request, cairn_token token)
{
    if (request->phase != CAIRN_PHASE_READY) {
        return cairn_error_set(&request->error, CAIRN_INVALID, "cache: push", "the request isn't ready");
    }
    if (request->length >= request->cache->engine->info.slot_tokens_max) {
        return cairn_error_set(&request->error, CAIRN_LIMIT, "cache: push", "the slot is full at %u tokens",
                               request->length);
    }
    cairn_status status = answer_room(request, &request->error);
    if (status == CAIRN_OK) {
        request->answer[request->answer_count++] = token;
        request->phase = CAIRN_PHASE_DECODE;
    }
    return status;
}

const cairn_record *cairn_request_record(const cairn_request *request)
{
    return &request->record;
}

const cairn_error *cairn_request_error(const cairn_request *request)
{
    return &request->error;
}
