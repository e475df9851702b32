/*
 * cache - the conductor: asks the core, then moves bytes and tokens. See include/cairn/cairn.h.
 *
 * Every fact goes to the core as an event and every decision comes back as an action, so that the same
 * events give the same actions wherever they come from. The conductor decides nothing about what to keep.
 */
#include "cache/cache_internal.h"

#include <string.h>

#include "base/clock.h"

/* First guesses, good until a few reads were measured: 1,000 tokens a second, memory copied at 4 GB/s. */
#define GUESS_READ_NS_TOKEN 1e6
#define GUESS_MOVE_NS_BYTE  0.25

enum {
    WORK_BYTES_USUAL = 256 << 10, /* of a cap of 4 MiB and more, for the core's working arrays */
    SPARE_BYTES_MAX = 64 << 20,   /* of states made ahead                                      */
    SPARE_SHARE = 16              /* of the cap                                                */
};

/* --- plumbing --------------------------------------------------------------------------------------------- */

uint64_t cairn_cache_now_ns(const cairn_cache *cache)
{
    return cache->options.now_ns != NULL ? cache->options.now_ns(cache->options.now_ctx)
                                         : cairn_clock_now_ns(cairn_clock_system());
}

/* What the core may plan with: the cap without our tables and its working arrays. */
static uint64_t core_cap(const cairn_cache *cache)
{
    uint64_t apart = cache->fixed_bytes + cache->work_bytes_max;
    return cache->options.ram_bytes_max > apart ? cache->options.ram_bytes_max - apart : 0;
}

/*
 * The core's working arrays (lists, lookups) grow with the longest path; they are memory, too. When they
 * outgrow what was set apart for them, more is set apart, and the core makes room.
 */
static void set_work_apart(cairn_cache *cache)
{
    cairn_core_stats stats;
    cairn_core_stats_get(cache->core, &stats);
    uint64_t tables = cache->heap.bytes - cache->heap.block_bytes - cache->heap.spare_bytes;
    uint64_t others = cache->own_bytes + cairn_tier_ram_table_bytes(cache->ram) + stats.index_bytes;
    uint64_t work = tables > others ? tables - others : 0;
    if (work <= cache->work_bytes_max) {
        return;
    }
    cache->work_bytes_max = work + work / 4;
    cairn_event event = {.kind = CAIRN_EVENT_BUDGET, .bytes = core_cap(cache)};
    cairn_status status = cairn_cache_tell_drops(cache, &event, NULL);
    (void)CAIRN_EXPECT(status == CAIRN_OK);
}

cairn_status cairn_cache_tell(cairn_cache *cache, cairn_event *event, const cairn_action **ret_actions,
                              uint32_t *ret_count, cairn_error *reterr)
{
    if (event->kind != CAIRN_EVENT_BUDGET) {
        set_work_apart(cache);
    }
    event->now_ns = cairn_cache_now_ns(cache);
    *ret_actions = NULL;
    *ret_count = 0;
    cairn_status status = cairn_core_step(cache->core, event, ret_actions, ret_count, reterr);
    if (cache->sink.event != NULL) {
        cache->sink.event(cache->sink.ctx, event, status, *ret_actions, *ret_count);
    }
    if (status != CAIRN_OK) { /* out of memory in the middle: what it dropped is dropped all the same */
        cairn_cache_drop(cache, *ret_actions, *ret_count);
        *ret_count = 0;
    }
    return status;
}

void cairn_cache_drop(cairn_cache *cache, const cairn_action *actions, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (actions[i].kind == CAIRN_ACTION_DROP) {
            cairn_tier_ram_drop(cache->ram, actions[i].blob);
        }
    }
}

void cairn_cache_sink_set(cairn_cache *cache, const cairn_cache_sink *sink)
{
    cache->sink = *sink;
}

cairn_status cairn_cache_tell_drops(cairn_cache *cache, cairn_event *event, cairn_error *reterr)
{
    const cairn_action *actions;
    uint32_t count;
    cairn_status status = cairn_cache_tell(cache, event, &actions, &count, reterr);
    cairn_cache_drop(cache, actions, count);
    return status;
}

void cairn_cache_slot_lost(cairn_request *request, uint32_t length)
{
    cairn_event event = {
        .kind = CAIRN_EVENT_SLOT_LOST, .request = request->id, .slot = request->slot, .position = length};
    cairn_status status = cairn_cache_tell_drops(request->cache, &event, NULL);
    (void)CAIRN_EXPECT(status == CAIRN_OK);
}

/* --- the cache -------------------------------------------------------------------------------------------- */

/* The most that an export writes beyond count * row_bytes, as far as sizes of all magnitudes tell. */
static uint64_t rows_extra_bytes(cairn_engine *engine)
{
    const cairn_engine_info *info = &engine->info;
    uint64_t extra = 0;
    for (uint32_t count = 1; info->rows_move;
         count = count < info->slot_tokens_max / 2 ? count * 2 : info->slot_tokens_max) {
        cairn_rows_size size = cairn_mover_rows_size(engine, 0, count);
        uint64_t expected = count * info->row_bytes;
        if (size.buffer_bytes > expected && size.buffer_bytes - expected > extra) {
            extra = size.buffer_bytes - expected;
        }
        if (count == info->slot_tokens_max) {
            break;
        }
    }
    return extra;
}

static void core_options(const cairn_cache *cache, cairn_core_options *ret_options)
{
    const cairn_engine_info *info = &cache->engine->info;
    const cairn_cache_options *options = &cache->options;
    uint64_t rows_bytes_max = info->slot_tokens_max * info->row_bytes;
    *ret_options = (cairn_core_options){
        .ram_bytes_max = core_cap(cache),
        .slots = info->slots,
        .slot_tokens_max = info->slot_tokens_max,
        .batch_tokens_max = info->batch_tokens_max,
        .grid_tokens = options->grid_tokens,
        .cut_tokens_min = options->cut_tokens_min,
        .trim = info->trim,
        .rows_move = info->rows_move,
        .row_bytes =
            info->row_bytes > 0 ? info->row_bytes : 1, /* a plan for rows of no bytes is still to be one */
        .read_ns_token = GUESS_READ_NS_TOKEN,
        .take_ns = (double)info->state_bytes_max * GUESS_MOVE_NS_BYTE,
        .restore_ns = (double)info->state_bytes_max * GUESS_MOVE_NS_BYTE,
        .move_ns_byte = GUESS_MOVE_NS_BYTE,
    };
    if (info->state_bytes_max > 0) {
        ret_options->state_bytes_max =
            info->state_bytes_max + cairn_tier_ram_overhead(cache->ram, info->state_bytes_max);
    }
    if (info->rows_move) {
        uint64_t extra = rows_extra_bytes(cache->engine);
        ret_options->rows_extra_bytes = extra + cairn_tier_ram_overhead(cache->ram, rows_bytes_max + extra);
    }
}

static cairn_status check_engine(const cairn_engine *engine, cairn_error *reterr)
{
    const cairn_engine_info *info = &engine->info;
    if (info->slots == 0 || info->slot_tokens_max == 0 || info->batch_tokens_max == 0 ||
        info->vocab_size == 0) {
        return cairn_error_set(reterr, CAIRN_INVALID, "cache: new",
                               "the engine has no slots, room or vocabulary");
    }
    return CAIRN_OK;
}

/* States made ahead, so that taking one costs its copy and no fresh pages. */
static void keep_spares(cairn_cache *cache)
{
    uint64_t state_bytes = cache->engine->info.state_bytes_max;
    uint64_t bytes = cache->options.off ? 0 : cache->options.ram_bytes_max / SPARE_SHARE;
    if (state_bytes > 0 && state_bytes <= bytes) {
        uint64_t most = bytes < SPARE_BYTES_MAX ? bytes : SPARE_BYTES_MAX;
        uint64_t count = most / state_bytes;
        cairn_heap_spare(&cache->heap, state_bytes,
                         count == 0                      ? 1
                         : count < CAIRN_HEAP_SPARES_MAX ? (uint32_t)count
                                                         : CAIRN_HEAP_SPARES_MAX);
    }
}

/* The disk tier, where one is asked for and can be had; else why not is kept. */
static void keeper_open(cairn_cache *cache)
{
    const cairn_cache_disk *disk = cache->options.disk;
    cache->options.disk = NULL; /* was borrowed for this call */
    if (disk == NULL || cache->options.off) {
        return;
    }
    uint64_t buffers = cairn_keeper_buffer_bytes(cache->engine);
    cairn_status status = CAIRN_OK;
    if (buffers > cache->options.ram_bytes_max / 2) {
        status = cairn_error_set(&cache->keeper_error, CAIRN_NOSPACE, "cache: disk",
                                 "its buffers need %llu MiB, more than half of the memory for the cache",
                                 (unsigned long long)(buffers >> 20));
    }
    if (status == CAIRN_OK) {
        status = cairn_keeper_new(cache, disk, &cache->keeper, &cache->keeper_error);
    }
    if (status == CAIRN_OK) {
        cairn_counts_open(cache, disk);
    } /* else the cache goes on without */
}

/* The shared tier, likewise. */
static cairn_status sharer_open(cairn_cache *cache, cairn_error *reterr)
{
    const cairn_cache_shared *shared = cache->options.shared;
    cache->options.shared = NULL; /* was borrowed for this call */
    if (shared == NULL || cache->options.off) {
        return CAIRN_OK;
    }
    uint64_t buffers = cairn_sharer_buffer_bytes(cache->engine, shared->key != NULL);
    if (buffers > cache->options.ram_bytes_max / 2) {
        (void)cairn_error_set(&cache->sharer_error, CAIRN_NOSPACE, "cache: shared",
                              "its buffers need %llu MiB, more than half of the memory for the cache",
                              (unsigned long long)(buffers >> 20));
        return CAIRN_OK; /* the cache goes on without */
    }
    cairn_status status = cairn_sharer_new(cache, shared, &cache->sharer, &cache->sharer_error);
    if (status != CAIRN_INVALID && status != CAIRN_UNSUPPORTED) {
        return CAIRN_OK; /* without it, if need be */
    }
    if (reterr != NULL) { /* no such store can be meant: that is the caller's mistake */
        *reterr = cache->sharer_error;
    }
    return status;
}

static cairn_status build(cairn_cache *cache, cairn_error *reterr)
{
    uint32_t slots = cache->engine->info.slots;
    cairn_status status = cairn_tier_ram_new(&cache->heap, &cache->ram, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    cache->mover = (cairn_mover){.engine = cache->engine, .ram = cache->ram};
    // NOLINTBEGIN(bugprone-sizeof-expression): arrays of pointers
    cache->active = cairn_mem_array(&cache->heap.mem, slots, sizeof *cache->active);
    cache->pieces = cairn_mem_array(&cache->heap.mem, slots, sizeof *cache->pieces);
    cache->owners = cairn_mem_array(&cache->heap.mem, slots, sizeof *cache->owners);
    cache->step = cairn_mem_array(&cache->heap.mem, slots, sizeof *cache->step);
    // NOLINTEND(bugprone-sizeof-expression)
    if (cache->engine->info.trim == CAIRN_TRIM_WINDOW) {
        cache->floors = cairn_mem_array(&cache->heap.mem, slots, sizeof *cache->floors);
        if (cache->floors == NULL) {
            return cairn_error_set(reterr, CAIRN_NOMEM, "cache: new", NULL);
        }
    }
    if (cache->active == NULL || cache->pieces == NULL || cache->owners == NULL || cache->step == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache: new", NULL);
    }
    keeper_open(cache);
    status = sharer_open(cache, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    cache->own_bytes = cache->heap.bytes - cairn_tier_ram_table_bytes(cache->ram);
    cache->fixed_bytes = cache->heap.bytes;
    uint64_t sixteenth = cache->options.ram_bytes_max / 16;
    cache->work_bytes_max = sixteenth < WORK_BYTES_USUAL ? sixteenth : WORK_BYTES_USUAL;
    core_options(cache, &cache->core_options);
    keep_spares(cache);
    status = cairn_core_new(&cache->heap.mem, &cache->core_options, &cache->core, reterr);
    if (status == CAIRN_OK) {
        cairn_counts_read(cache);
    }
    return status;
}

cairn_status cairn_cache_new(cairn_mem *mem, cairn_engine *engine, const cairn_cache_options *options,
                             cairn_cache **ret_cache, cairn_error *reterr)
{
    cairn_status status = check_engine(engine, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_cache *cache = cairn_mem_zalloc(mem, sizeof *cache);
    if (cache == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cache: new", NULL);
    }
    cache->mem = mem;
    cache->engine = engine;
    cache->options = *options;
    cairn_heap_init(&cache->heap, mem, options->ram_bytes_max, options->map_bytes_min);
    status = build(cache, reterr);
    if (status != CAIRN_OK) {
        cairn_cache_free(cache);
        return status;
    }
    *ret_cache = cache;
    return CAIRN_OK;
}

void cairn_cache_free(cairn_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    uint32_t slots = cache->engine->info.slots;
    for (uint32_t i = 0; cache->active != NULL && i < slots; i++) {
        CAIRN_ASSERT(cache->active[i] == NULL);
    }
    cairn_sharer_free(cache->sharer);
    cairn_keeper_free(cache->keeper);
    cairn_core_free(cache->core);
    cairn_tier_ram_free(cache->ram);
    // NOLINTBEGIN(bugprone-sizeof-expression): arrays of pointers
    cairn_mem_array_release(&cache->heap.mem, cache->active, slots, sizeof *cache->active);
    cairn_mem_array_release(&cache->heap.mem, cache->pieces, slots, sizeof *cache->pieces);
    cairn_mem_array_release(&cache->heap.mem, cache->owners, slots, sizeof *cache->owners);
    cairn_mem_array_release(&cache->heap.mem, cache->step, slots, sizeof *cache->step);
    // NOLINTEND(bugprone-sizeof-expression)
    cairn_mem_array_release(&cache->heap.mem, cache->floors, slots, sizeof *cache->floors);
    cairn_heap_release(&cache->heap);
    cairn_mem_release(cache->mem, cache, sizeof *cache);
}

void cairn_cache_stats_get(const cairn_cache *cache, cairn_cache_stats *ret_stats)
{
    cairn_core_stats core;
    cairn_core_stats_get(cache->core, &core);
    *ret_stats = cache->totals;
    ret_stats->ram_bytes = cache->heap.bytes;
    ret_stats->ram_bytes_peak = cache->heap.bytes_peak;
    ret_stats->ram_bytes_max = cache->heap.bytes_max;
    ret_stats->index_bytes = core.index_bytes;
    ret_stats->states = core.states;
    ret_stats->state_bytes = core.state_bytes;
    ret_stats->segments = core.segments;
    ret_stats->row_bytes = core.row_bytes;
    ret_stats->namespaces = core.namespaces;
    ret_stats->paths = core.nodes;
    ret_stats->tokens_known = core.tokens;
    ret_stats->states_dropped = core.drops_states;
}

cairn_status cairn_cache_forget(cairn_cache *cache, const cairn_namespace *space, cairn_error *reterr)
{
    cairn_event event = {.kind = CAIRN_EVENT_FORGET, .all = space == NULL};
    if (space != NULL) {
        event.space = *space;
    }
    if (cache->keeper != NULL) {
        cairn_keeper_forget(cache->keeper, space);
    }
    if (cache->sharer != NULL) {
        cairn_sharer_forget(cache->sharer, space);
    }
    cairn_status status = cairn_cache_tell_drops(cache, &event, reterr);
    cairn_counts_forgotten(cache);
    return status;
}

cairn_status cairn_cache_budget(cairn_cache *cache, uint64_t ram_bytes_max, cairn_error *reterr)
{
    uint64_t before = cache->options.ram_bytes_max;
    cache->options.ram_bytes_max = ram_bytes_max;
    cairn_event event = {.kind = CAIRN_EVENT_BUDGET, .bytes = core_cap(cache)};
    cairn_status status = cairn_cache_tell_drops(cache, &event, reterr);
    if (status != CAIRN_OK) {
        cache->options.ram_bytes_max = before;
        return status;
    }
    cairn_heap_limit(&cache->heap, ram_bytes_max);
    return CAIRN_OK;
}

static cairn_status verify_request(const cairn_cache *cache, uint32_t slot, cairn_error *reterr)
{
    const cairn_request *request = cache->active[slot];
    bool decodes =
        request != NULL && (request->phase == CAIRN_PHASE_READ || request->phase == CAIRN_PHASE_READY ||
                            request->phase == CAIRN_PHASE_DECODE);
    if (request != NULL && (request->slot != slot || request->cache != cache)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "cache: verify", "slot %u has a foreign request", slot);
    }
    if (decodes && cache->engine->ops->length(cache->engine, slot) != request->length) {
        return cairn_error_set(reterr, CAIRN_INVALID, "cache: verify", "slot %u isn't at %u", slot,
                               request->length);
    }
    const cairn_record *record = request != NULL ? &request->record : NULL;
    if (decodes && request->phase != CAIRN_PHASE_READ &&
        record->resume + record->read != record->prompt_tokens) {
        return cairn_error_set(reterr, CAIRN_INVALID, "cache: verify", "%u resumed and %u read of %u",
                               record->resume, record->read, record->prompt_tokens);
    }
    return CAIRN_OK;
}

cairn_status cairn_cache_verify(const cairn_cache *cache, cairn_error *reterr)
{
    cairn_status status = cairn_core_verify(cache->core, reterr);
    if (status == CAIRN_OK) {
        status = cairn_tier_ram_verify(cache->ram, reterr);
    }
    for (uint32_t slot = 0; status == CAIRN_OK && slot < cache->engine->info.slots; slot++) {
        status = verify_request(cache, slot, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_core_stats core;
    cairn_tier_stats ram;
    cairn_core_stats_get(cache->core, &core);
    cairn_tier_ram_stats_get(cache->ram, &ram);
    /* States and segments that could not be written may wait for their removal: those have no blob. */
    if (ram.blobs > core.states + core.segments) {
        return cairn_error_set(reterr, CAIRN_INVALID, "cache: verify",
                               "%llu states, %llu segments, %llu blobs", (unsigned long long)core.states,
                               (unsigned long long)core.segments, (unsigned long long)ram.blobs);
    }
    uint64_t counted = core.state_bytes + core.row_bytes;
    if (counted != cairn_tier_ram_held(cache->ram)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "cache: verify",
                               "the core counts %llu bytes, the tier %llu", (unsigned long long)counted,
                               (unsigned long long)cairn_tier_ram_held(cache->ram));
    }
    return CAIRN_OK;
}

const char *cairn_version(void)
{
    return "0.1.0";
}
