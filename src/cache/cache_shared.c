/*
 * cache_shared - where the shared tier touches requests: after memory and disk were looked at, before one is planned.
 * What is asked for, sent and fetched is the sharer's.
 */
#include "cache/cache_internal.h"

bool cairn_request_share(cairn_request *request)
{
    cairn_cache *cache = request->cache;
    cairn_decision decision;
    if (cache->sharer == NULL || request->prompt.mode == CAIRN_RESUME_OFF ||
        cairn_core_probe(cache->core, &request->prompt, cairn_cache_now_ns(cache), &decision, NULL) !=
            CAIRN_OK ||
        !cairn_sharer_seek(cache->sharer, &request->prompt, decision.resume, &request->share)) {
        return false;
    }
    request->record.prompt_tokens = decision.prompt_tokens;
    request->record.divergence = decision.divergence;
    request->record.least = decision.least;
    request->shares = true;
    request->share_ns = cairn_cache_now_ns(cache);
    request->phase = CAIRN_PHASE_RESTORE;
    cache->fetching++;
    return true;
}

bool cairn_request_share_step(cairn_request *request, bool wait)
{
    uint64_t bytes = 0;
    bool more = cairn_sharer_step(request->cache->sharer, &request->prompt, &request->share, wait, &bytes);
    request->from_shared = request->from_shared || bytes > 0;
    cairn_record_restored(request, bytes, 0);
    if (!more) {
        request->shared_reason = request->share.reason;
        request->shared_position = request->share.reason_position;
        cairn_request_share_end(request);
    }
    return more;
}

void cairn_request_share_end(cairn_request *request)
{
    if (request->shares) {
        cairn_sharer_end(request->cache->sharer, &request->share);
        /* All of the waiting counts: the request did nothing else meanwhile. */
        cairn_record_restored(request, 0, cairn_cache_now_ns(request->cache) - request->share_ns);
        request->shares = false;
        request->cache->fetching--;
    }
}

void cairn_cache_shared_stats_get(const cairn_cache *cache, cairn_cache_shared_stats *ret_stats)
{
    *ret_stats = (cairn_cache_shared_stats){.last_error = cache->sharer_error};
    if (cache->sharer != NULL) {
        cairn_sharer_stats_get(cache->sharer, ret_stats);
    }
}
