/*
 * sharer_load - a request's blobs on their way in: each gets its room in memory at once, is filled by one of the receivers, and is
 * told to the core when it has come.
 *
 *   blobs   s  r  r  r  r  r  r ...      s: the state, r: rows, in the order in which they are used
 *              '---- AHEAD ----'         handed over and not taken yet
 *
 * Nobody waits for a receiver. A request that goes while some of its blobs are being filled leaves them behind: their room
 * stays theirs, and counted, until they are done; then what came whole is kept.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "cache/sharer_internal.h"

/* A load is done, or was never begun: what came is memory's, and the load is free. */
static cairn_status load_take(cairn_sharer *sharer, sharer_load *load)
{
    cairn_status status = load->status;
    bool fine = status == CAIRN_OK;
    uint64_t held = fine ? cairn_tier_ram_settle(sharer->cache->ram, load->blob, load->bytes) : 0;
    if (fine) {
        cairn_sharer_learn(sharer, load->name);
    }
    bool late =
        status == CAIRN_TIMEOUT || status == CAIRN_BUSY; /* nothing is known to be wrong with the blob */
    cairn_cache_fetched(sharer->cache, load->blob, late ? CAIRN_CANCELLED : status, held);
    cairn_lock(&sharer->lock);
    sharer->stats.fetched += fine ? 1 : 0;
    sharer->stats.fetched_bytes += fine ? load->bytes : 0;
    sharer->stats.fetch_failures += fine || status == CAIRN_CANCELLED ? 0 : 1;
    load->left = false;
    load->phase = SHARER_FREE;
    cairn_unlock(&sharer->lock);
    return status;
}

/* A free load; NULL: all are in use. */
static sharer_load *load_free(cairn_sharer *sharer)
{
    sharer_load *found = NULL;
    cairn_lock(&sharer->lock);
    for (int i = 0; i < SHARER_LOADS && found == NULL; i++) {
        found = sharer->loads[i].phase == SHARER_FREE ? &sharer->loads[i] : NULL;
    }
    cairn_unlock(&sharer->lock);
    return found;
}

/* One that is done: of this ask's, or, when it is NULL, one that was left behind. */
static sharer_load *load_done(cairn_sharer *sharer, const sharer_ask *ask)
{
    sharer_load *found = NULL;
    cairn_lock(&sharer->lock);
    for (int i = 0; i < SHARER_LOADS && found == NULL; i++) {
        sharer_load *load = &sharer->loads[i];
        bool wanted = ask != NULL ? !load->left && load->ask == ask : load->left;
        found = load->phase == SHARER_DONE && wanted ? load : NULL;
    }
    cairn_unlock(&sharer->lock);
    return found;
}

cairn_status cairn_sharer_loads_start(cairn_sharer *sharer, cairn_share *share)
{
    sharer_load *load;
    while (share->next < share->count && share->waiting < SHARER_AHEAD &&
           (load = load_free(sharer)) != NULL) {
        uint32_t i = share->next++;
        if (share->blobs[i] == 0) {
            continue;
        }
        const sharer_ask *ask = share->ask;
        load->ask = share->ask;
        load->head = i;
        load->until_ns = share->until_ns;
        load->blob = share->blobs[i];
        load->bytes = ask->heads[i].meta.payload_bytes;
        load->name = cairn_blob_name_number(ask->point.parts[ask->head_parts[i]].name);
        share->blobs[i] = 0; /* it is the load's now */
        load->status = cairn_tier_ram_reserve(sharer->cache->ram, load->blob, load->bytes, &load->out, NULL);
        if (load->status != CAIRN_OK) {
            return load_take(sharer, load);
        }
        share->waiting++;
        cairn_lock(&sharer->lock);
        load->order = ++sharer->orders;
        load->phase = SHARER_READY;
        share->ask->running++;
        cairn_cond_signal(&sharer->wake_receiver);
        cairn_unlock(&sharer->lock);
    }
    return CAIRN_OK;
}

cairn_status cairn_sharer_loads_take(cairn_sharer *sharer, cairn_share *share, uint64_t *ret_bytes)
{
    sharer_load *load;
    while ((load = load_done(sharer, share->ask)) != NULL) {
        uint64_t bytes = load->bytes;
        share->waiting--;
        cairn_status status = load_take(sharer, load);
        if (status != CAIRN_OK) {
            return status;
        }
        *ret_bytes += bytes;
    }
    return CAIRN_OK;
}

void cairn_sharer_loads_settle(cairn_sharer *sharer)
{
    sharer_load *load;
    while ((load = load_done(sharer, NULL)) != NULL) {
        (void)!load_take(sharer, load);
    }
}

void cairn_sharer_loads_leave(cairn_sharer *sharer, cairn_share *share)
{
    for (uint32_t i = 0; i < share->count && share->blobs != NULL; i++) {
        if (share->blobs[i] != 0) {
            cairn_cache_fetched(sharer->cache, share->blobs[i], CAIRN_CANCELLED, 0);
        }
    }
    cairn_lock(&sharer->lock);
    for (int i = 0; i < SHARER_LOADS; i++) {
        sharer_load *load = &sharer->loads[i];
        if (load->phase == SHARER_FREE || load->left || load->ask != share->ask) {
            continue;
        }
        load->left = true;
        if (load->phase == SHARER_READY) {
            load->status = CAIRN_CANCELLED;
            load->phase = SHARER_DONE;
            share->ask->running--;
        }
    }
    cairn_unlock(&sharer->lock);
    cairn_sharer_loads_settle(sharer);
}

bool cairn_sharer_loads_left(cairn_sharer *sharer)
{
    bool left = false;
    cairn_lock(&sharer->lock);
    for (int i = 0; i < SHARER_LOADS; i++) {
        left = left || sharer->loads[i].left;
    }
    cairn_unlock(&sharer->lock);
    return left;
}
