/*
 * cache_actions - carries a request's list of actions out, one by one, and tells the core how each went.
 *
 *   [ DROP TAKE SAVE_ROWS | RESET TRIM LOAD_ROWS RESTORE | READ ... READY ]
 *     make room, save       resume                         cache_batch.c
 *
 * Saves are done before any other event reaches the core: they may read from a slot that is not the
 * request's own, and what is in it must still be what the core knows. Loads touch the own slot and bytes
 * that nobody drops, so other requests may work in between.
 *
 * A save that fails costs the saved state only. A resume that fails empties the slot, and the core gives
 * another list, that resumes nearer to the start or reads everything.
 */
#include "cache/cache_internal.h"

enum { RESUME_FAILURES_MAX = 1000 }; /* more than any core can have states to try */

/* Does an action before `end` still read from this blob? */
static bool named_before(const cairn_action *actions, uint32_t end, cairn_blob_id blob)
{
    for (uint32_t i = 0; i < end; i++) {
        bool reads = actions[i].kind == CAIRN_ACTION_LOAD_ROWS || actions[i].kind == CAIRN_ACTION_RESTORE;
        if (reads && actions[i].blob == blob) {
            return true;
        }
    }
    return false;
}

static bool drop_now(const cairn_action *actions, uint32_t i)
{
    return actions[i].kind == CAIRN_ACTION_DROP && !named_before(actions, i, actions[i].blob);
}

static cairn_status todo_room(cairn_request *request, uint32_t count, cairn_error *reterr)
{
    if (count <= request->todo_room) {
        return CAIRN_OK;
    }
    cairn_todo *fresh = cairn_mem_array(request->mem, count, sizeof *fresh);
    if (fresh == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache/actions: list", "%u actions", count);
    }
    if (request->todo != request->few) {
        cairn_mem_array_release(request->mem, request->todo, request->todo_room, sizeof *fresh);
    }
    request->todo = fresh;
    request->todo_room = count;
    return CAIRN_OK;
}

/* Drops are done before anything else: the core counts their bytes as free already, for every request. */
cairn_status cairn_request_take_list(cairn_request *request, const cairn_action *actions, uint32_t count,
                                     cairn_error *reterr)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (drop_now(actions, i)) {
            cairn_tier_ram_drop(request->cache->ram, actions[i].blob);
        } else {
            left++;
        }
    }
    request->todo_count = request->todo_next = 0;
    cairn_status status = todo_room(request, left, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!drop_now(actions, i)) {
            request->todo[request->todo_count++] = (cairn_todo){.action = actions[i], .index = i};
        }
    }
    return CAIRN_OK;
}

static cairn_status run_save(cairn_request *request, const cairn_todo *todo, cairn_error *reterr)
{
    cairn_cache *cache = request->cache;
    const cairn_action *action = &todo->action;
    cairn_moved moved = {0};
    cairn_status status;
    uint64_t begin_ns = cairn_cache_now_ns(cache);
    if (action->kind == CAIRN_ACTION_TAKE) {
        cairn_mover_state state = {.slot = action->slot, .length = action->begin, .blob = action->blob};
        status = cairn_mover_take(&cache->mover, &state, action->bytes, &moved, NULL);
    } else {
        cairn_mover_rows rows = {
            .slot = action->slot, .blob = action->blob, .begin = action->begin, .end = action->end};
        /* Beyond the rows themselves the core holds one buffer, which exports use one after another. */
        uint64_t bytes_max = action->bytes + cache->core_options.rows_extra_bytes;
        status = cairn_mover_save_rows(&cache->mover, &rows, bytes_max, &moved, NULL);
    }
    uint64_t cost_ns = cairn_cache_now_ns(cache) - begin_ns;
    cairn_record_saved(request, moved.bytes, cost_ns);

    cairn_event event = {.kind = CAIRN_EVENT_STORED,
                         .request = request->id,
                         .slot = action->slot,
                         .action = todo->index,
                         .blob = action->blob,
                         .bytes = moved.held_bytes,
                         .cost_ns = cost_ns};
    if (status == CAIRN_OK) {
        status = cairn_cache_tell_drops(cache, &event, NULL);
    }
    if (status != CAIRN_OK) { /* also when it turned out larger than there is room for */
        cairn_tier_ram_drop(cache->ram, action->blob);
        event.kind = CAIRN_EVENT_FAILED;
        event.bytes = 0;
        event.status = status == CAIRN_INVALID ? CAIRN_NOSPACE : status;
        return cairn_cache_tell_drops(cache, &event, reterr);
    }
    return CAIRN_OK;
}

/* Will this list set a state after the trim? If not, the trim must be exact by itself. */
static bool restore_follows(const cairn_request *request)
{
    for (uint32_t i = request->todo_next; i < request->todo_count; i++) {
        if (request->todo[i].action.kind == CAIRN_ACTION_RESTORE) {
            return true;
        }
    }
    return false;
}

static cairn_status trim(cairn_request *request, const cairn_action *action, cairn_error *reterr)
{
    cairn_engine *engine = request->cache->engine;
    if (engine->ops->length(engine, action->slot) < action->begin) {
        return cairn_error_set(reterr, CAIRN_INTERNAL, "cache/actions: trim", "slot %u is shorter than %u",
                               action->slot, action->begin);
    }
    if (!restore_follows(request) && !engine->ops->can_trim(engine, action->slot, action->begin)) {
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, "cache/actions: trim", "not exact at %u",
                               action->begin);
    }
    return engine->ops->trim(engine, action->slot, action->begin, reterr);
}

static cairn_status resume_action(cairn_request *request, const cairn_action *action, cairn_moved *ret_moved)
{
    cairn_cache *cache = request->cache;
    switch (action->kind) {
    case CAIRN_ACTION_RESET:
        cache->engine->ops->reset(cache->engine, action->slot);
        return CAIRN_OK;
    case CAIRN_ACTION_TRIM:
        return trim(request, action, NULL);
    case CAIRN_ACTION_LOAD_ROWS: {
        cairn_mover_rows rows = {.slot = action->slot,
                                 .blob = action->blob,
                                 .begin = action->begin,
                                 .end = action->end,
                                 .use_begin = action->use_begin,
                                 .use_end = action->use_end};
        return cairn_mover_load_rows(&cache->mover, &rows, ret_moved, NULL);
    }
    case CAIRN_ACTION_RESTORE: {
        cairn_mover_state state = {.slot = action->slot, .length = action->begin, .blob = action->blob};
        return cairn_mover_restore(&cache->mover, &state, ret_moved, NULL);
    }
    default:
        return CAIRN_INTERNAL; /* not one that resumes: stopped by the caller */
    }
}

static cairn_status run_resume(cairn_request *request, const cairn_todo *todo, cairn_error *reterr)
{
    cairn_cache *cache = request->cache;
    const cairn_action *action = &todo->action;
    cairn_moved moved = {0};
    request->touched = true;
    uint64_t begin_ns = cairn_cache_now_ns(cache);
    cairn_status status = resume_action(request, action, &moved);
    uint64_t cost_ns = cairn_cache_now_ns(cache) - begin_ns;
    request->resume_ns += cost_ns;
    cairn_record_restored(request, moved.bytes, cost_ns);
    cache->totals.restores += status == CAIRN_OK && action->kind == CAIRN_ACTION_RESTORE;
    if (status == CAIRN_OK) {
        return CAIRN_OK;
    }
    cache->totals.restores_failed++;
    /* Whatever the failure left: from here on the slot is empty, for the engine and for the core. */
    cache->engine->ops->reset(cache->engine, action->slot);
    if (!CAIRN_EXPECT(++request->failures <= RESUME_FAILURES_MAX)) {
        return cairn_error_set(reterr, CAIRN_INTERNAL, "cache/actions: resume", "no plan works");
    }
    cairn_event event = {.kind = CAIRN_EVENT_FAILED,
                         .request = request->id,
                         .slot = action->slot,
                         .action = todo->index,
                         .status = status,
                         .cost_ns = cost_ns};
    const cairn_action *actions;
    uint32_t count;
    status = cairn_cache_tell(cache, &event, &actions, &count, reterr);
    return status == CAIRN_OK ? cairn_request_take_list(request, actions, count, reterr) : status;
}

/* The plan to resume was carried out: reading may begin. */
static cairn_status resumed(cairn_request *request, const cairn_action *read, cairn_error *reterr)
{
    cairn_cache *cache = request->cache;
    if (!CAIRN_EXPECT(cache->engine->ops->length(cache->engine, request->slot) == read->begin)) {
        return cairn_error_set(reterr, CAIRN_INTERNAL, "cache/actions: resumed", "slot %u isn't at %u",
                               request->slot, read->begin);
    }
    cairn_event event = {.kind = CAIRN_EVENT_RESUMED,
                         .request = request->id,
                         .slot = request->slot,
                         .position = read->begin,
                         .cost_ns = request->resume_ns};
    cairn_status status = cairn_cache_tell_drops(cache, &event, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    request->resumed = true;
    request->touched = false;
    request->length = read->begin;
    cairn_record_decision(request);
    return CAIRN_OK;
}

/* The list stops here: what does the request wait for? */
static cairn_status arrive(cairn_request *request, cairn_error *reterr)
{
    if (request->todo_next < request->todo_count &&
        request->todo[request->todo_next].action.kind == CAIRN_ACTION_READ) {
        cairn_action read = request->todo[request->todo_next].action;
        cairn_status status = request->resumed ? CAIRN_OK : resumed(request, &read, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        if (!CAIRN_EXPECT(read.begin == request->length && read.begin < read.end &&
                          read.end <= request->prompt.count)) {
            return cairn_error_set(reterr, CAIRN_INTERNAL, "cache/actions: read", "[%u, %u) at %u",
                                   read.begin, read.end, request->length);
        }
        request->phase = CAIRN_PHASE_READ;
        return CAIRN_OK;
    }
    if (!request->resumed || request->length < request->prompt.count) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache/actions: list", "the core had no room for it");
    }
    request->phase = request->answer_next < request->answer_count ? CAIRN_PHASE_DECODE : CAIRN_PHASE_READY;
    return CAIRN_OK;
}

cairn_status cairn_request_advance(cairn_request *request, cairn_extent extent, cairn_error *reterr)
{
    bool moved = false;
    while (request->todo_next < request->todo_count) {
        cairn_todo todo = request->todo[request->todo_next];
        cairn_action_kind kind = todo.action.kind;
        bool saves = kind == CAIRN_ACTION_TAKE || kind == CAIRN_ACTION_SAVE_ROWS;
        bool loads = kind == CAIRN_ACTION_LOAD_ROWS || kind == CAIRN_ACTION_RESTORE;
        bool resumes = loads || kind == CAIRN_ACTION_RESET || kind == CAIRN_ACTION_TRIM;
        if (kind == CAIRN_ACTION_READ) {
            break;
        }
        if ((extent == CAIRN_EXTENT_SAVES && resumes) || (extent == CAIRN_EXTENT_ONE && loads && moved)) {
            return CAIRN_OK;
        }
        moved = moved || loads;
        request->todo_next++;
        cairn_status status = CAIRN_OK;
        if (kind == CAIRN_ACTION_DROP) {
            cairn_tier_ram_drop(request->cache->ram, todo.action.blob);
        } else if (saves) {
            status = run_save(request, &todo, reterr);
        } else if (resumes) {
            status = run_resume(request, &todo, reterr);
        }
        if (status != CAIRN_OK) {
            return status;
        }
    }
    return arrive(request, reterr);
}
