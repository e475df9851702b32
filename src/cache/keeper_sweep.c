/*
 * keeper_sweep - what memory holds of paths that no slot holds any more: displaced before the keeper came to them.
 *
 * A blob of memory is written as it is, pinned while the writer reads it. Whether the disk has it already, rows perhaps in
 * other pieces (blocks of the time when a slot held them), the writer finds out.
 */
#include <string.h>

#include "cache/keeper_internal.h"
#include "cache/state_worth.h"

static bool rows_described(cairn_keeper *keeper, uint32_t item, keeper_job *job)
{
    cairn_run runs[CAIRN_KEEPER_BLOCK_TOKENS];
    uint32_t count = cairn_core_stored_runs(keeper->cache->core, item, runs, CAIRN_KEEPER_BLOCK_TOKENS);
    if (count == 0 || count > CAIRN_KEEPER_BLOCK_TOKENS || runs[count - 1].rows_end != job->meta.end) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        job->runs[i] =
            (cairn_blob_run){.rows_end = runs[i].rows_end, .cut = runs[i].cut, .digest = runs[i].digest};
        job->meta.provenance = runs[i].digest == 0 ? 1 : job->meta.provenance;
    }
    job->meta.count_runs = count;
    job->meta.cut_digest = runs[count - 1].digest;
    return true;
}

/* Of a path that left its slots it is not known whether it went on: an answer's end may be where it will. */
static bool worth_it(const cairn_core_stored *stored)
{
    return stored->rows || cairn_state_worth(stored->boundary.kinds, stored->saving_ms, true);
}

/* Describe the blob. False: it isn't for the disk. */
static bool described(cairn_keeper *keeper, uint32_t item, const cairn_core_stored *stored, keeper_job *job)
{
    if (stored->end > keeper->tokens_room || !worth_it(stored)) {
        return false;
    }
    job->meta = (cairn_blob_meta){.space = stored->space,
                                  .kind = stored->rows ? CAIRN_BLOB_ROWS : CAIRN_BLOB_STATE,
                                  .provenance = stored->decoded ? 1 : 0,
                                  .begin = stored->begin,
                                  .end = stored->end,
                                  .cut_digest = stored->digest,
                                  .boundary = stored->boundary};
    cairn_core_stored_tokens(keeper->cache->core, item, keeper->tokens);
    return !stored->rows || rows_described(keeper, item, job);
}

/* Lend the job the blob's bytes as memory has them. */
static bool lent(cairn_keeper *keeper, uint32_t item, const cairn_core_stored *stored, keeper_job *job)
{
    if (cairn_tier_ram_pin_unread(keeper->cache->ram, stored->blob, &job->bytes, &job->meta.payload_bytes,
                                  &job->digest, NULL) != CAIRN_OK) {
        return false;
    }
    double tokens = stored->rows ? stored->end - stored->begin : CAIRN_KEEPER_BLOCK_TOKENS;
    job->value = keeper->read_ns_token * 1e-6 * tokens / (double)job->meta.payload_bytes;
    job->name[0] = job->replaces[0] = '\0';
    job->covered = stored->rows;
    job->slot = KEEPER_NO_SLOT;
    job->item = item;
    job->blob = stored->blob;
    return true;
}

bool cairn_keeper_sweep(cairn_keeper *keeper, keeper_job *job)
{
    cairn_cache *cache = keeper->cache;
    for (uint32_t i = 0; i < KEEPER_SWEEP_AT_ONCE; i++) {
        cairn_core_stored stored;
        uint32_t item = cairn_core_stored_next(cache->core, keeper->sweep, &stored);
        keeper->sweep = item;
        if (item == 0) {
            keeper->sweeping = false;
            return false;
        }
        if (described(keeper, item, &stored, job) && lent(keeper, item, &stored, job)) {
            cairn_keeper_start(keeper, job);
            cairn_core_stored_kept(cache->core, item, stored.blob, true);
            return true;
        }
        if (worth_it(&stored)) { /* a state may become worth it */
            cairn_core_stored_kept(cache->core, item, stored.blob, true);
        }
    }
    return true;
}
