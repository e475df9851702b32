/*
 * cache_disk - where the disk tier touches requests: before one is planned, and when there is nothing else to do.
 * What is kept and how is the keeper's.
 */
#include "base/clock.h"
#include "cache/cache_internal.h"

#define ROUND_NS UINT64_C(600000000000) /* blobs in memory are compared with their digests once in so long */

enum { WAIT_NS = 50000000 };

bool cairn_request_seek(cairn_request *request)
{
    cairn_cache *cache = request->cache;
    cairn_decision decision;
    if (cache->keeper == NULL || request->prompt.mode == CAIRN_RESUME_OFF ||
        cairn_core_probe(cache->core, &request->prompt, cairn_cache_now_ns(cache), &decision, NULL) !=
            CAIRN_OK) {
        return false;
    }
    uint64_t begin_ns = cairn_cache_now_ns(cache);
    cairn_keeper_seek(cache->keeper, &request->prompt, decision.resume, &request->fetch);
    request->record.restore_ns += cairn_cache_now_ns(cache) - begin_ns;
    if (request->fetch.count == 0) {
        return false;
    }
    request->record.prompt_tokens = decision.prompt_tokens;
    request->record.divergence = decision.divergence;
    request->record.least = decision.least;
    request->fetches = true;
    request->phase = CAIRN_PHASE_RESTORE;
    cache->fetching++;
    return true;
}

bool cairn_request_fetch(cairn_request *request, bool wait)
{
    cairn_cache *cache = request->cache;
    uint64_t begin_ns = cairn_cache_now_ns(cache);
    uint64_t bytes = 0;
    bool more = cairn_keeper_fetch(cache->keeper, &request->fetch, wait, &bytes);
    request->from_disk = request->from_disk || bytes > 0;
    cairn_record_restored(request, bytes, cairn_cache_now_ns(cache) - begin_ns);
    if (!more) {
        cairn_request_fetch_end(request);
    }
    return more;
}

void cairn_request_fetch_end(cairn_request *request)
{
    if (request->fetches) {
        cairn_keeper_fetch_end(request->cache->keeper, &request->fetch);
        request->fetches = false;
        request->cache->fetching--;
    }
}

bool cairn_cache_idle(cairn_cache *cache)
{
    uint64_t round = 1 + cairn_cache_now_ns(cache) / ROUND_NS;
    if (cairn_tier_ram_tend(cache->ram, round) || cairn_heap_warm(&cache->heap)) {
        return true;
    }
    bool keeps = cache->keeper != NULL && cairn_keeper_work(cache->keeper);
    bool shares = cache->sharer != NULL && cairn_sharer_work(cache->sharer);
    return keeps || shares;
}

/* Hand over and wait until the store has everything, or rests after a failure, or time is up. */
static bool flush_shared(cairn_cache *cache, uint64_t until_ns)
{
    const cairn_clock *clock = cairn_clock_system();
    for (uint64_t now_ns = 0; (now_ns = cairn_clock_now_ns(clock)) < until_ns;) {
        if (cairn_sharer_work(cache->sharer)) {
            continue;
        }
        if (!cairn_sharer_sending(cache->sharer)) {
            return !cairn_sharer_noted(cache->sharer);
        }
        cairn_sharer_wait(cache->sharer, now_ns + WAIT_NS < until_ns ? now_ns + WAIT_NS : until_ns);
    }
    return false;
}

static bool flush_disk(cairn_cache *cache, uint64_t until_ns)
{
    const cairn_clock *clock = cairn_clock_system();
    cairn_counts_write(cache);
    for (uint64_t now_ns = 0; (now_ns = cairn_clock_now_ns(clock)) < until_ns;) {
        if (cairn_keeper_work(cache->keeper)) {
            continue;
        }
        if (!cairn_keeper_writing(cache->keeper)) {
            return !cairn_keeper_noted(cache->keeper); /* noted still: the disk rests after a failure */
        }
        cairn_keeper_wait(cache->keeper, now_ns + WAIT_NS < until_ns ? now_ns + WAIT_NS : until_ns);
    }
    return false;
}

/* The disk first: it is nearer, and what it has survives. */
bool cairn_cache_flush(cairn_cache *cache, uint64_t timeout_ns)
{
    uint64_t until_ns = cairn_clock_now_ns(cairn_clock_system()) + timeout_ns;
    bool kept = cache->keeper == NULL || flush_disk(cache, until_ns);
    bool shared = cache->sharer == NULL || flush_shared(cache, until_ns);
    return kept && shared;
}

void cairn_cache_disk_stats_get(const cairn_cache *cache, cairn_cache_disk_stats *ret_stats)
{
    *ret_stats = (cairn_cache_disk_stats){.last_error = cache->keeper_error};
    if (cache->keeper != NULL) {
        cairn_keeper_stats_get(cache->keeper, ret_stats);
    }
}
