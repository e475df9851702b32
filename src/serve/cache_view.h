/*
 * cache_view - a picture of the cache for people: numbers of the tiers and the tree of known paths of one namespace.
 *
 *   scheduler's thread: fill (copies, quick)  ->  another thread: print (JSON)
 *
 * The tree is walked up to CAIRN_CACHE_VIEW_NODES nodes. Of those, the CAIRN_CACHE_VIEW_SHOWN used last are printed; the
 * others are counted in `more` of the nearest ancestor that is printed.
 *
 * Units    tokens, bytes, ms
 * Owner    the caller: init, any number of fills, release
 * Thread   one at a time; fill: the thread that owns the cache
 * See      docs/api.md (GET /cairn/cache)
 */
#ifndef CAIRN_CACHE_VIEW_H
#define CAIRN_CACHE_VIEW_H

#include "base/buf.h"
#include "cairn/cairn.h"

enum { CAIRN_CACHE_VIEW_NODES = 32768, CAIRN_CACHE_VIEW_SHOWN = 2000 };

typedef struct cairn_cache_view {
    const cairn_mem *mem;
    cairn_namespace space;
    cairn_cache_node *nodes; /* cairn_cache_node[room]                                              */
    uint32_t count, room;
    bool cut;    /* there are more nodes                                                               */
    bool failed; /* no memory for the nodes                                                         */
    uint64_t now_ns;
    cairn_cache_stats stats;
    cairn_cache_disk_stats disk;
    cairn_cache_shared_stats shared;
} cairn_cache_view;

void cairn_cache_view_init(cairn_cache_view *view, const cairn_mem *mem, const cairn_namespace *space);
void cairn_cache_view_release(cairn_cache_view *view);

/* Copy what is there now. No memory: without the tree, and `failed`. */
void cairn_cache_view_fill(cairn_cache_view *view, const cairn_cache *cache);

/* Nodes alone: what the disk holds. On any thread. Errors as cairn_cache_disk_walk. */
CAIRN_MUST_CHECK cairn_status cairn_cache_view_fill_disk(cairn_cache_view *view, const cairn_cache *cache,
                                                         int64_t now_ms, cairn_error *reterr);

/* Append {"tree":..} alone. Errors: CAIRN_NOMEM, CAIRN_LIMIT. */
CAIRN_MUST_CHECK cairn_status cairn_cache_view_print_tree(const cairn_cache_view *view, cairn_buf *out);

/*
 * Append {"bytes":..,"held":..,"since_start":..,"disk":..,"shared":..,"tree":{"nodes":[..],"total":..,"cut":..}}.
 *
 *   counts  [in]  with what is counted over all namespaces ("held", "since_start")
 *
 * Errors   CAIRN_NOMEM, CAIRN_LIMIT
 */
CAIRN_MUST_CHECK cairn_status cairn_cache_view_print(const cairn_cache_view *view, bool counts,
                                                     cairn_buf *out);

#endif
