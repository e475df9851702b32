/*
 * cache_batch - the pieces of one step: decoded together, and what happens when that fails.
 *
 * A decode that carries several requests and fails says nothing about who was at fault, and may have cost
 * all of them their state. So each goes on alone: those whose slot is whole at once, the others after they
 * resumed again (their prompt from the nearest state, their answer token by token, so that the bits are the
 * same). Only one that fails alone has failed.
 */
#include "cache/cache_internal.h"

#include <string.h>

static void piece_of(const cairn_request *request, cairn_piece *ret_piece)
{
    if (request->phase == CAIRN_PHASE_READ) {
        const cairn_action *read = &request->todo[request->todo_next].action;
        uint32_t pace = request->cache->pace_tokens, end = read->end;
        if (pace > 0 && !request->exact && end - read->begin > pace) {
            end = read->begin + pace;
        }
        bool last = end == request->prompt.count;
        *ret_piece = (cairn_piece){.slot = request->slot,
                                   .begin = read->begin,
                                   .tokens = request->prompt.tokens + read->begin,
                                   .count = end - read->begin,
                                   .logits = last ? CAIRN_LOGITS_LAST : CAIRN_LOGITS_NONE,
                                   .settle = true};
    } else {
        *ret_piece = (cairn_piece){.slot = request->slot,
                                   .begin = request->length,
                                   .tokens = &request->answer[request->answer_next],
                                   .count = 1,
                                   .logits = CAIRN_LOGITS_LAST};
    }
}

/*
 * Where the engine is exact only alone, states that are read in one decode with others would not be those of
 * a cold run. States of answers serve no exact request in any case.
 */
static bool wants_alone(const cairn_request *request)
{
    bool kept = request->phase == CAIRN_PHASE_READ && request->prompt.mode != CAIRN_RESUME_OFF;
    return request->alone || (request->cache->engine->info.batch_alone && (kept || request->exact));
}

const float *cairn_request_logits_row(const cairn_request *request)
{
    const cairn_cache *cache = request->cache;
    if (!request->logits_there) {
        return NULL;
    }
    if (request->logits_decode == 0) {
        return request->logits_kept;
    }
    return request->logits_decode == cache->decodes
               ? cache->engine->ops->logits(cache->engine, request->logits_piece, request->logits_index)
               : NULL;
}

/* The engine's logits are good until its next decode: keep a copy where this step has one to come. */
static cairn_status keep_logits(cairn_request *request, cairn_error *reterr)
{
    const float *row = cairn_request_logits_row(request);
    if (row == NULL) {
        return CAIRN_OK;
    }
    if (request->logits_kept == NULL) {
        request->logits_kept = cairn_mem_array(request->mem, request->vocab_size, sizeof(float));
    }
    if (request->logits_kept == NULL) {
        request->logits_there = false;
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache/batch: logits", "%u floats", request->vocab_size);
    }
    memcpy(request->logits_kept, row, request->vocab_size * sizeof(float));
    request->logits_decode = 0;
    return CAIRN_OK;
}

static cairn_status after_piece(cairn_request *request, const cairn_piece *piece, uint64_t cost_ns,
                                uint64_t share_ns, cairn_error *reterr)
{
    cairn_event event = {.request = request->id, .slot = request->slot, .cost_ns = share_ns};
    request->length = piece->begin + piece->count;
    if (request->phase == CAIRN_PHASE_READ) {
        cairn_record_read(request, piece->begin, request->length, cost_ns);
        event.kind = CAIRN_EVENT_READ;
        event.position = request->length;
        if (request->cache->keeper != NULL) {
            cairn_keeper_saw_read(request->cache->keeper, piece->count, share_ns);
        }
        if (request->cache->sharer != NULL) {
            cairn_sharer_saw_read(request->cache->sharer, piece->count, share_ns);
        }
    } else {
        request->answer_next++;
        cairn_record_answered(request, cost_ns);
        event.kind = CAIRN_EVENT_ANSWERED;
        event.tokens = piece->tokens;
        event.count = 1;
    }
    const cairn_action *actions;
    uint32_t count;
    cairn_status status = cairn_cache_tell(request->cache, &event, &actions, &count, reterr);
    if (status == CAIRN_OK) {
        status = cairn_request_take_list(request, actions, count, reterr);
    }
    if (status == CAIRN_OK) {
        status = cairn_request_advance(request, CAIRN_EXTENT_ALL, reterr);
    }
    cairn_record_decision(request);
    return status;
}

/* Is everything before the piece still there, state included? A slot that must be reset is. */
static bool whole_after_failure(cairn_cache *cache, const cairn_piece *piece, cairn_status status,
                                uint32_t *ret_length)
{
    cairn_engine *engine = cache->engine;
    bool refused = status == CAIRN_LIMIT || status == CAIRN_INVALID;
    if (!refused && status != CAIRN_NOMEM && status != CAIRN_CANCELLED) {
        engine->ops->reset(engine, piece->slot);
    }
    uint32_t length = engine->ops->length(engine, piece->slot);
    if (length > piece->begin) { /* against the contract: nothing in the slot can be trusted */
        engine->ops->reset(engine, piece->slot);
        length = 0;
    }
    *ret_length = length;
    if (length != piece->begin) {
        return false;
    }
    return length == 0 || engine->info.trim == CAIRN_TRIM_ANYWHERE ||
           engine->ops->state_size(engine, piece->slot) > 0;
}

cairn_status cairn_request_fail(cairn_request *request, const cairn_error *error, cairn_error *reterr)
{
    request->phase = CAIRN_PHASE_FAILED;
    request->error = *error;
    request->logits_there = false;
    if (reterr != NULL) {
        *reterr = *error;
    }
    return error->status;
}

/* Plan the request anew in its own slot; the core knows what is left there. */
static cairn_status recover(cairn_request *request, const cairn_error *cause, cairn_error *reterr)
{
    bool cancelled = cause->status == CAIRN_CANCELLED;
    if (!cancelled && request->recoveries >= CAIRN_CACHE_RECOVERIES_MAX) {
        return cairn_request_fail(request, cause, reterr);
    }
    request->recoveries += !cancelled;
    request->cancels += cancelled;
    request->alone = request->alone || !cancelled;
    cairn_error error;
    if (cairn_request_plan(request, request->slot, &error) != CAIRN_OK) {
        return cairn_request_fail(request, &error, reterr);
    }
    return CAIRN_OK;
}

static cairn_status decode_failed(cairn_cache *cache, uint32_t first, uint32_t count,
                                  const cairn_error *cause, cairn_error *reterr);

/* Decode pieces [first, first + count) of cache->pieces in one call. `keep`: other decodes follow. */
static cairn_status decode_group(cairn_cache *cache, uint32_t first, uint32_t count, bool keep,
                                 cairn_error *reterr)
{
    cairn_engine *engine = cache->engine;
    const cairn_piece *pieces = &cache->pieces[first];
    cairn_error error = {0};
    uint64_t begin_ns = cairn_cache_now_ns(cache);
    cache->decodes++;
    cairn_status status = engine->ops->decode(engine, pieces, count, &error);
    uint64_t cost_ns = cairn_cache_now_ns(cache) - begin_ns;
    if (status != CAIRN_OK) {
        error.status = status; /* whatever the engine wrote there */
        return decode_failed(cache, first, count, &error, reterr);
    }
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < count; i++) {
        tokens += pieces[i].count;
    }
    for (uint32_t i = 0; i < count; i++) {
        cairn_request *request = cache->owners[first + i];
        request->logits_there = pieces[i].logits == CAIRN_LOGITS_LAST;
        request->logits_piece = i;
        request->logits_index = pieces[i].count - 1;
        request->logits_decode = cache->decodes;
        if (request->phase == CAIRN_PHASE_READ && request->logits_there) {
            request->record.decoded_ns = begin_ns + cost_ns;
        }
        cairn_status one =
            after_piece(request, &pieces[i], cost_ns, cost_ns * pieces[i].count / tokens, &error);
        if (one == CAIRN_OK && keep) {
            one = keep_logits(request, &error);
        }
        if (one != CAIRN_OK) {
            status = cairn_request_fail(request, &error, reterr);
        }
    }
    return status;
}

static cairn_status decode_failed(cairn_cache *cache, uint32_t first, uint32_t count,
                                  const cairn_error *cause, cairn_error *reterr)
{
    cairn_status worst = CAIRN_OK;
    bool cancelled = cause->status == CAIRN_CANCELLED;
    /* First what is lost, of all of them: a new plan may want rows of any slot. */
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t length;
        cache->owners[i]->lost = !whole_after_failure(cache, &cache->pieces[i], cause->status, &length);
        if (cache->owners[i]->lost) {
            cairn_cache_slot_lost(cache->owners[i], length);
        }
    }
    for (uint32_t i = first; i < first + count; i++) {
        cairn_request *request = cache->owners[i];
        cairn_status status = CAIRN_OK;
        if (count == 1 && !cancelled) {
            status = cairn_request_fail(request, cause, reterr);
        } else if (request->lost) {
            status = recover(request, cause, reterr);
        } else if (!cancelled) {
            status = decode_group(cache, i, 1, true, reterr);
        }
        worst = status != CAIRN_OK ? status : worst;
    }
    if (worst == CAIRN_OK && cancelled) {
        return cairn_error_set(reterr, CAIRN_CANCELLED, "cache/batch: decode", "interrupted");
    }
    return worst;
}

cairn_status cairn_cache_decode(cairn_cache *cache, uint32_t count, cairn_error *reterr)
{
    /* Those that decode alone come first, the shared rest last. */
    uint32_t alone = 0;
    for (uint32_t pass = 0, n = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            if (wants_alone(cache->step[i]) == (pass == 0)) {
                cache->owners[n] = cache->step[i];
                piece_of(cache->step[i], &cache->pieces[n++]);
            }
        }
        alone = pass == 0 ? n : alone;
    }
    cairn_status worst = CAIRN_OK;
    for (uint32_t i = 0; i < alone; i++) {
        cairn_status status = decode_group(cache, i, 1, i + 1 < count, reterr);
        worst = status != CAIRN_OK ? status : worst;
    }
    if (alone < count) {
        cairn_status status = decode_group(cache, alone, count - alone, false, reterr);
        worst = status != CAIRN_OK ? status : worst;
    }
    return worst;
}
