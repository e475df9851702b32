/*
 * keeper_sweep - what memory holds of paths that no slot holds any more: displaced before the keeper came to them.
 *
 * A blob of memory is written as it is, pinned while the writer reads it. Rows that the disk has in other pieces
 * (blocks of the time when a slot held them) are not written again.
 */
#include <string.h>

#include "cache/keeper_internal.h"

enum { STATE_SAVING_MS = 100 };

/* Do blobs on disk cover rows [begin, end) of the path in hand? */
static bool rows_covered(cairn_keeper *keeper, const cairn_core_stored *stored)
{
    uint32_t count = 0, at = stored->begin;
    if (cairn_disk_find(keeper->disk, &stored->space, keeper->tokens, stored->end, keeper->found,
                        CAIRN_KEEPER_FOUND_MAX, &count, NULL) != CAIRN_OK) {
        return false;
    }
    for (uint32_t before = at + 1; at != before && at < stored->end;) {
        before = at;
        for (uint32_t i = 0; i < count; i++) {
            const cairn_disk_found *item = &keeper->found[i];
            if (item->row.meta.kind == CAIRN_BLOB_ROWS && item->row.meta.begin <= at && item->use_end > at) {
                at = item->use_end;
            }
        }
    }
    return at >= stored->end;
}

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

static bool state_worth_it(const cairn_core_stored *stored)
{
    const uint16_t always = CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_LAST_USER | CAIRN_BOUNDARY_OPENER |
                            CAIRN_BOUNDARY_ANSWER_END | CAIRN_BOUNDARY_MARK | CAIRN_BOUNDARY_BRANCH;
    return (stored->boundary.kinds & always) != 0 || stored->saving_ms >= STATE_SAVING_MS;
}

/* Describe the blob. False: it isn't for the disk, or there already. */
static bool described(cairn_keeper *keeper, uint32_t item, const cairn_core_stored *stored, keeper_job *job,
                      char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    uint32_t at[2] = {stored->begin, stored->end};
    cairn_path_digest digests[2];
    if (stored->end > keeper->tokens_room || (!stored->rows && !state_worth_it(stored))) {
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
    if (cairn_disk_root(keeper->disk, &stored->space, &keeper->root, NULL) != CAIRN_OK ||
        cairn_path_digests(&keeper->root, keeper->tokens, stored->end, at, 2, digests, NULL) != CAIRN_OK) {
        return false;
    }
    job->meta.path_begin = digests[0];
    job->meta.path_end = digests[1];
    return (!stored->rows || rows_described(keeper, item, job)) &&
           !cairn_keeper_has(keeper, &job->meta, ret_name) && !(stored->rows && rows_covered(keeper, stored));
}

bool cairn_keeper_sweep(cairn_keeper *keeper, keeper_job *job)
{
    cairn_cache *cache = keeper->cache;
    for (uint32_t i = 0; i < KEEPER_SWEEP_AT_ONCE; i++) {
        cairn_core_stored stored;
        char name[CAIRN_BLOB_NAME_BYTES];
        uint32_t item = cairn_core_stored_next(cache->core, keeper->sweep, &stored);
        keeper->sweep = item;
        if (item == 0) {
            keeper->sweeping = false;
            return false;
        }
        bool wanted = described(keeper, item, &stored, job, name);
        if (wanted && cairn_tier_ram_pin(cache->ram, stored.blob, &job->bytes, &job->meta.payload_bytes,
                                         NULL) == CAIRN_OK) {
            double tokens = stored.rows ? stored.end - stored.begin : CAIRN_KEEPER_BLOCK_TOKENS;
            job->value = keeper->read_ns_token * 1e-6 * tokens / (double)job->meta.payload_bytes;
            job->replaces[0] = '\0';
            job->slot = KEEPER_NO_SLOT;
            job->item = item;
            job->blob = stored.blob;
            cairn_keeper_start(keeper, name, job);
            cairn_core_stored_kept(cache->core, item, stored.blob, true);
            return true;
        }
        if (stored.rows || state_worth_it(&stored)) { /* a state may become worth it */
            cairn_core_stored_kept(cache->core, item, stored.blob, true);
        }
    }
    return true;
}
