/*
 * cache_adopt - blobs that come from another tier: told to the core before they are fetched, and again when they have come or
 * failed. The same for the disk and for the store that servers share.
 *
 *   ADOPT (all that was found) --> FETCH (what memory lacks and has room for) --> each: STORED or FAILED
 */
#include "cache/cache_internal.h"

void cairn_cache_adopt(cairn_cache *cache, const cairn_prompt *prompt, const cairn_adopt *adopts,
                       uint32_t count, cairn_blob_id *ret_blobs)
{
    cairn_event event = {.kind = CAIRN_EVENT_ADOPT, .prompt = prompt, .adopts = adopts, .count = count};
    const cairn_action *actions;
    uint32_t count_actions = 0;
    if (cairn_cache_tell(cache, &event, &actions, &count_actions, NULL) != CAIRN_OK) {
        return;
    }
    cairn_cache_drop(cache, actions, count_actions);
    for (uint32_t i = 0; i < count_actions; i++) {
        if (actions[i].kind == CAIRN_ACTION_FETCH && CAIRN_EXPECT(actions[i].use_begin < count)) {
            ret_blobs[actions[i].use_begin] = actions[i].blob;
        }
    }
}

void cairn_cache_fetched(cairn_cache *cache, cairn_blob_id blob, cairn_status status, uint64_t held_bytes)
{
    cairn_event event = {.kind = status == CAIRN_OK ? CAIRN_EVENT_STORED : CAIRN_EVENT_FAILED,
                         .blob = blob,
                         .bytes = held_bytes,
                         .status = status};
    if (status != CAIRN_OK) {
        cairn_tier_ram_drop(cache->ram, blob);
    }
    if (cairn_cache_tell_drops(cache, &event, NULL) != CAIRN_OK && status == CAIRN_OK) {
        cairn_cache_fetched(cache, blob, CAIRN_NOSPACE, 0);
    }
}

uint64_t cairn_cache_blob_bytes_max(cairn_engine *engine, uint32_t block_tokens)
{
    uint64_t rows = engine->info.rows_move ? cairn_mover_rows_size(engine, 0, block_tokens).buffer_bytes : 0;
    return rows > engine->info.state_bytes_max ? rows : engine->info.state_bytes_max;
}
