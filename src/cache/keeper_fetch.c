/*
 * keeper_fetch - the way back: from the disk into memory, for a prompt that is about to be planned.
 *
 * One state is chosen, the deepest whose rows the disk holds without a gap. The core is told of it and of the rows
 * (ADOPT), answers with what memory lacks and has room for (FETCH), and then plans as if they had always been there.
 * Whether a blob belongs to the prompt was proved by digests of its whole path; whether it may serve an exact request
 * the core decides by its cuts, as for any other.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "cache/keeper_internal.h"

enum { GAIN_TOKENS_MIN = 64, FETCH_MAX = 512 };

/* --- choosing --------------------------------------------------------------------------------------------- */

static int deepest_first(const void *a, const void *b)
{
    const cairn_disk_found *x = a;
    const cairn_disk_found *y = b;
    if (x->use_end != y->use_end) {
        return x->use_end > y->use_end ? -1 : 1;
    }
    return strcmp(x->row.name, y->row.name);
}

/* May this state serve the prompt at all? */
static bool state_serves(const cairn_keeper *keeper, const cairn_prompt *prompt,
                         const cairn_disk_found *state)
{
    const cairn_blob_meta *meta = &state->row.meta;
    if (meta->kind != CAIRN_BLOB_STATE || meta->end >= prompt->count) {
        return false;
    }
    return prompt->mode != CAIRN_RESUME_EXACT ||
           (meta->provenance == 0 && meta->cut_digest != 0 &&
            meta->cut_digest == cairn_core_cut_digest(keeper->cache->core, prompt, meta->end));
}

/* Of two blobs that reach equally far: the one read as a prompt serves exact requests, too; the smaller loads faster. */
static bool rows_better(const cairn_disk_found *a, const cairn_disk_found *b)
{
    if (a->row.meta.provenance != b->row.meta.provenance) {
        return a->row.meta.provenance < b->row.meta.provenance;
    }
    return a->row.meta.payload_bytes < b->row.meta.payload_bytes;
}

/* The rows that go on at `at` and reach furthest. */
static const cairn_disk_found *rows_from(const cairn_keeper *keeper, uint32_t count, uint32_t at,
                                         uint32_t end)
{
    const cairn_disk_found *best = NULL;
    uint32_t best_reach = 0;
    for (uint32_t i = 0; i < count; i++) {
        const cairn_disk_found *item = &keeper->found[i];
        if (item->row.meta.kind != CAIRN_BLOB_ROWS || item->row.meta.begin > at || item->use_end <= at) {
            continue;
        }
        uint32_t reach = item->use_end < end ? item->use_end : end;
        if (best == NULL || reach > best_reach || (reach == best_reach && rows_better(item, best))) {
            best = item;
            best_reach = reach;
        }
    }
    return best;
}

/* Chain rows over [0, end). False: there is a gap, or no memory. */
static bool rows_chain(cairn_keeper *keeper, uint32_t count, uint32_t end, cairn_fetch *fetch)
{
    uint32_t at = 0;
    fetch->count = 1; /* after the state */
    while (at < end) {
        const cairn_disk_found *rows = rows_from(keeper, count, at, end);
        if (rows == NULL || fetch->count == fetch->room) {
            return false;
        }
        cairn_disk_found *item = &fetch->found[fetch->count++];
        *item = *rows;
        item->use_end = rows->use_end < end ? rows->use_end : end;
        at = item->use_end;
    }
    return true;
}

static bool fetch_room(cairn_keeper *keeper, cairn_fetch *fetch, uint32_t count)
{
    fetch->room = (count < FETCH_MAX ? count : FETCH_MAX) + 1;
    fetch->found = cairn_mem_array(keeper->mem, fetch->room, sizeof *fetch->found);
    fetch->blobs = cairn_mem_array(keeper->mem, fetch->room, sizeof *fetch->blobs);
    fetch->reads = cairn_mem_array(keeper->mem, fetch->room, sizeof *fetch->reads);
    return fetch->found != NULL && fetch->blobs != NULL && fetch->reads != NULL;
}

/* Would reading the tokens take less time than fetching what stands for them? */
static bool dearer(const cairn_keeper *keeper, const cairn_fetch *fetch, uint32_t resume)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < fetch->count; i++) {
        bytes += fetch->found[i].row.meta.payload_bytes;
    }
    double saved_ns = keeper->read_ns_token * (fetch->found[0].row.meta.end - resume);
    return (double)bytes * keeper->fetch_ns_byte > saved_ns;
}

/* Fill the fetch with the best state and its rows. False: nothing worth it. */
static bool choose(cairn_keeper *keeper, const cairn_prompt *prompt, uint32_t count, uint32_t resume,
                   cairn_fetch *fetch)
{
    bool rows = keeper->cache->engine->info.rows_move;
    if (!fetch_room(keeper, fetch, count)) {
        return false;
    }
    qsort(keeper->found, count, sizeof *keeper->found, deepest_first);
    for (uint32_t i = 0; i < count && keeper->found[i].use_end >= resume + GAIN_TOKENS_MIN; i++) {
        if (!state_serves(keeper, prompt, &keeper->found[i])) {
            continue;
        }
        fetch->found[0] = keeper->found[i];
        fetch->count = 1;
        bool whole = !rows || rows_chain(keeper, count, keeper->found[i].row.meta.end, fetch);
        if (whole) {
            return !dearer(keeper, fetch, resume);
        }
    }
    return false;
}

/* --- telling the core ------------------------------------------------------------------------------------- */

/* The runs of a file's rows in the core's form; one of unknown batches where they can't be had. */
static bool adopt_runs(cairn_keeper *keeper, const cairn_disk_found *item, cairn_adopt *adopt,
                       cairn_run **ret_runs)
{
    uint32_t count = item->row.meta.count_runs > 0 ? item->row.meta.count_runs : 1;
    cairn_run *runs = cairn_mem_array(keeper->mem, count, sizeof *runs);
    cairn_blob_run *stored = cairn_mem_array(keeper->mem, count, sizeof *stored);
    bool fine = runs != NULL && stored != NULL;
    if (fine && item->row.meta.count_runs > 0) {
        fine = cairn_disk_runs(keeper->disk, item->row.name, &item->row.meta, stored, NULL) == CAIRN_OK;
    } else if (fine) {
        stored[0] = (cairn_blob_run){.rows_end = item->row.meta.end, .cut = item->row.meta.end};
    }
    for (uint32_t i = 0; i < count && fine; i++) {
        runs[i] =
            (cairn_run){.rows_end = stored[i].rows_end, .cut = stored[i].cut, .digest = stored[i].digest};
    }
    cairn_mem_array_release(keeper->mem, stored, count, sizeof *stored);
    adopt->runs = runs;
    adopt->count_runs = count;
    *ret_runs = runs;
    return fine;
}

static void adopt(cairn_keeper *keeper, const cairn_prompt *prompt, cairn_fetch *fetch)
{
    cairn_adopt *adopts = cairn_mem_array(keeper->mem, fetch->count, sizeof *adopts);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    cairn_run **runs = cairn_mem_array(keeper->mem, fetch->count, sizeof *runs);
    bool fine = adopts != NULL && runs != NULL;
    for (uint32_t i = 0; i < fetch->count && fine; i++) {
        const cairn_disk_found *item = &fetch->found[i];
        const cairn_blob_meta *meta = &item->row.meta;
        uint64_t bytes =
            meta->payload_bytes + cairn_tier_ram_overhead(keeper->cache->ram, meta->payload_bytes);
        adopts[i] = (cairn_adopt){.rows = meta->kind == CAIRN_BLOB_ROWS,
                                  .decoded = meta->provenance != 0,
                                  .begin = meta->begin,
                                  .end = item->use_end,
                                  .stored_end = meta->end,
                                  .bytes = bytes,
                                  .digest = meta->cut_digest,
                                  .boundary = meta->boundary};
        fine = !adopts[i].rows || adopt_runs(keeper, item, &adopts[i], &runs[i]);
    }
    if (fine) {
        cairn_cache_adopt(keeper->cache, prompt, adopts, fetch->count, fetch->blobs);
    }
    for (uint32_t i = 0; i < fetch->count && adopts != NULL && runs != NULL; i++) {
        cairn_mem_array_release(keeper->mem, runs[i], adopts[i].count_runs, sizeof **runs);
    }
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    cairn_mem_array_release(keeper->mem, runs, fetch->count, sizeof *runs);
    cairn_mem_array_release(keeper->mem, adopts, fetch->count, sizeof *adopts);
}

void cairn_keeper_seek(cairn_keeper *keeper, const cairn_prompt *prompt, uint32_t resume,
                       cairn_fetch *ret_fetch)
{
    uint32_t count = 0;
    *ret_fetch = (cairn_fetch){0};
    cairn_keeper_settle(keeper); /* what it had pinned and was dropped gives its room back */
    if (prompt->mode == CAIRN_RESUME_OFF || prompt->count <= resume + GAIN_TOKENS_MIN ||
        cairn_disk_find(keeper->disk, &prompt->space, prompt->tokens, prompt->count, keeper->found,
                        CAIRN_KEEPER_FOUND_MAX, &count, NULL) != CAIRN_OK ||
        count == 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        cairn_keeper_know(keeper, keeper->found[i].row.name);
    }
    bool some = false, chosen = choose(keeper, prompt, count, resume, ret_fetch);
    if (chosen) {
        adopt(keeper, prompt, ret_fetch);
    }
    for (uint32_t i = 0; chosen && i < ret_fetch->count; i++) {
        if (ret_fetch->blobs[i] != 0) {
            cairn_disk_pin(keeper->disk, ret_fetch->found[i].row.name); /* not evicted before it was read */
            some = true;
        }
    }
    if (some) {
        return;
    }
    ret_fetch->count = 0; /* nothing to fetch: the lists go at once */
    cairn_keeper_fetch_end(keeper, ret_fetch);
}

/* --- fetching --------------------------------------------------------------------------------------------- */

static cairn_status get_blob(const cairn_read *read, uint64_t *ret_digest)
{
    const cairn_disk_found *item = read->blob;
    return cairn_disk_get(read->source, item->row.name, &item->row.meta, read->out, ret_digest, NULL);
}

/* Make room for blobs that are wanted, in their order, and hand them to the readers. */
static void start_more(cairn_keeper *keeper, cairn_fetch *fetch)
{
    while (fetch->started < fetch->count && fetch->started < fetch->next + KEEPER_READ_AHEAD) {
        uint32_t i = fetch->started++;
        const cairn_disk_found *item = &fetch->found[i];
        cairn_read *read = &fetch->reads[i];
        if (fetch->blobs[i] == 0) {
            continue;
        }
        *read = (cairn_read){
            .get = get_blob, .source = keeper->disk, .blob = item, .out_bytes = item->row.meta.payload_bytes};
        read->status =
            cairn_tier_ram_reserve(keeper->cache->ram, fetch->blobs[i], read->out_bytes, &read->out, NULL);
        if (read->status == CAIRN_OK) {
            cairn_read_start(keeper->pool, read);
        } else {
            read->get = NULL; /* it never began: its phase is nobody's */
        }
    }
}

/* The read of blob `i` is over, or never began: the core is told. */
static void take(cairn_keeper *keeper, cairn_fetch *fetch, uint32_t i, uint64_t *ret_bytes)
{
    const cairn_read *read = &fetch->reads[i];
    const char *name = fetch->found[i].row.name;
    bool fine = read->status == CAIRN_OK;
    cairn_disk_unpin(keeper->disk, name);
    uint64_t held =
        fine ? cairn_tier_ram_settle_as(keeper->cache->ram, fetch->blobs[i], read->out_bytes, read->digest)
             : 0;
    cairn_cache_fetched(keeper->cache, fetch->blobs[i], read->status, held);
    if (fine) {
        *ret_bytes += read->out_bytes;
        double ns_byte = (double)read->took_ns / (double)read->out_bytes;
        keeper->fetch_ns_byte += (ns_byte - keeper->fetch_ns_byte) / 8;
        cairn_disk_use(keeper->disk, name,
                       keeper->read_ns_token * 1e-6 * CAIRN_KEEPER_BLOCK_TOKENS / (double)read->out_bytes);
    }
    cairn_lock(&keeper->lock);
    keeper->fetched += fine ? 1 : 0;
    keeper->fetch_failures += fine || read->status == CAIRN_CANCELLED ? 0 : 1;
    keeper->fetched_bytes += fine ? read->out_bytes : 0;
    cairn_unlock(&keeper->lock);
}

bool cairn_keeper_fetch(cairn_keeper *keeper, cairn_fetch *fetch, bool wait, uint64_t *ret_bytes)
{
    while (fetch->next < fetch->count && fetch->blobs[fetch->next] == 0) {
        fetch->next++;
    }
    if (fetch->next == fetch->count) {
        return false;
    }
    start_more(keeper, fetch);
    cairn_read *read = &fetch->reads[fetch->next];
    bool begun = read->get != NULL;
    if (begun && wait) {
        cairn_read_help(keeper->pool, read);
    }
    if (!begun || cairn_read_done(keeper->pool, read)) {
        take(keeper, fetch, fetch->next++, ret_bytes);
    }
    return true;
}

void cairn_keeper_fetch_end(cairn_keeper *keeper, cairn_fetch *fetch)
{
    uint64_t bytes = 0;
    for (; fetch->next < fetch->count; fetch->next++) {
        cairn_read *read = &fetch->reads[fetch->next];
        if (fetch->blobs[fetch->next] == 0) {
            continue;
        }
        if (fetch->next >= fetch->started) {
            read->status = CAIRN_CANCELLED;
        } else if (read->get != NULL) {
            cairn_read_cancel(keeper->pool, read);
        }
        take(keeper, fetch, fetch->next, &bytes); /* what came in whole is kept */
    }
    cairn_mem_array_release(keeper->mem, fetch->found, fetch->room, sizeof *fetch->found);
    cairn_mem_array_release(keeper->mem, fetch->blobs, fetch->room, sizeof *fetch->blobs);
    cairn_mem_array_release(keeper->mem, fetch->reads, fetch->room, sizeof *fetch->reads);
    *fetch = (cairn_fetch){0};
}
