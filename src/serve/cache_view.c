/*
 * cache_view - see the header.
 */
#include "serve/cache_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "serve/disk_watch.h"
#include "serve/json_answer.h"
#include "serve/shared_watch.h"

enum { DEPTH_MAX = 4096 };

void cairn_cache_view_init(cairn_cache_view *view, const cairn_mem *mem, const cairn_namespace *space)
{
    memset(view, 0, sizeof *view);
    view->mem = mem;
    view->space = *space;
}

void cairn_cache_view_release(cairn_cache_view *view)
{
    cairn_mem_array_release(view->mem, view->nodes, view->room, sizeof *view->nodes);
    view->nodes = NULL;
    view->count = view->room = 0;
}

/* --- filling ----------------------------------------------------------------------------------------------------- */

static bool take_node(void *ctx, const cairn_cache_node *node)
{
    cairn_cache_view *view = ctx;
    if (view->count == CAIRN_CACHE_VIEW_NODES) {
        view->cut = true;
        return false;
    }
    if (view->count == view->room) {
        uint32_t room = view->room == 0 ? 256 : view->room * 2;
        cairn_cache_node *nodes =
            cairn_mem_array_resize(view->mem, view->nodes, view->room, room, sizeof *view->nodes);
        if (nodes == NULL) {
            view->failed = true;
            return false;
        }
        view->nodes = nodes;
        view->room = room;
    }
    view->nodes[view->count++] = *node;
    return true;
}

void cairn_cache_view_fill(cairn_cache_view *view, const cairn_cache *cache)
{
    view->count = 0;
    view->cut = view->failed = false;
    view->now_ns = cairn_cache_clock_ns(cache);
    cairn_cache_stats_get(cache, &view->stats);
    cairn_cache_disk_stats_get(cache, &view->disk);
    cairn_cache_shared_stats_get(cache, &view->shared);
    cairn_cache_walk(cache, &view->space, take_node, view);
}

cairn_status cairn_cache_view_fill_disk(cairn_cache_view *view, const cairn_cache *cache, int64_t now_ms,
                                        cairn_error *reterr)
{
    view->count = 0;
    view->cut = view->failed = false;
    view->now_ns = now_ms > 0 ? (uint64_t)now_ms * 1000000u : 0;
    return cairn_cache_disk_walk(cache, &view->space, take_node, view, reterr);
}

/* --- choosing ---------------------------------------------------------------------------------------------------- */

typedef struct rank {
    uint64_t used_ns;
    uint32_t index;
} rank;

/* Newest first; a parent stands before its children. */
static int newer_first(const void *left, const void *right)
{
    const rank *a = left, *b = right;
    if (a->used_ns != b->used_ns)
        return a->used_ns > b->used_ns ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* What was left out below a node. */
typedef struct rest {
    bool shown;
    uint32_t nodes, states;
    uint64_t tokens;
} rest;

/* Of those that may be shown, all whose ancestors are shown, too; the others are counted at the nearest that is. */
static void hang(const cairn_cache_view *view, rest *rests, uint32_t path[DEPTH_MAX])
{
    uint32_t depth = 0; /* the present node's ancestors are shown up to there; path[d]: the one at depth d */
    path[0] = 0;
    for (uint32_t i = 1; i < view->count; i++) {
        const cairn_cache_node *node = &view->nodes[i];
        uint32_t above = node->depth > 0 ? node->depth - 1 : 0;
        depth = above < depth ? above : depth;
        if (rests[i].shown && depth == above && above + 1 < DEPTH_MAX) {
            depth = above + 1;
            path[depth] = i;
            continue;
        }
        rest *r = &rests[path[depth]];
        rests[i].shown = false;
        r->nodes++;
        r->tokens += node->end - node->begin;
        r->states += node->count_states;
    }
}

static cairn_status choose(const cairn_cache_view *view, rest *rests)
{
    if (view->count <= CAIRN_CACHE_VIEW_SHOWN) {
        for (uint32_t i = 0; i < view->count; i++)
            rests[i].shown = true;
        return CAIRN_OK;
    }
    rank *ranks = cairn_mem_array(view->mem, view->count, sizeof *ranks);
    uint32_t *path = cairn_mem_array(view->mem, DEPTH_MAX, sizeof *path);
    cairn_status status = ranks == NULL || path == NULL ? CAIRN_NOMEM : CAIRN_OK;
    if (status == CAIRN_OK) {
        for (uint32_t i = 0; i < view->count; i++) /* the root first: everything hangs on it */
            ranks[i] = (rank){i > 0 ? view->nodes[i].used_ns : UINT64_MAX, i};
        qsort(ranks, view->count, sizeof *ranks, newer_first);
        for (uint32_t i = 0; i < CAIRN_CACHE_VIEW_SHOWN; i++)
            rests[ranks[i].index].shown = true;
        hang(view, rests, path);
    }
    cairn_mem_array_release(view->mem, ranks, view->count, sizeof *ranks);
    cairn_mem_array_release(view->mem, path, DEPTH_MAX, sizeof *path);
    return status;
}

/* --- printing ---------------------------------------------------------------------------------------------------- */

static cairn_status print_node(const cairn_cache_view *view, const cairn_cache_node *node, const rest *left,
                               cairn_buf *out)
{
    uint64_t idle_ns = view->now_ns > node->used_ns ? view->now_ns - node->used_ns : 0;
    cairn_status status =
        cairn_buf_printf(out,
                         "{\"depth\":%" PRIu32 ",\"begin\":%" PRIu32 ",\"end\":%" PRIu32 ",\"rows\":%" PRIu32
                         ",\"row_bytes\":%" PRIu64 ",\"state_bytes\":%" PRIu64 ",\"idle_ms\":%" PRIu64,
                         node->depth, node->begin, node->end, node->rows_covered, node->row_bytes,
                         node->state_bytes, idle_ns / 1000000);
    if (status == CAIRN_OK && node->slot != UINT32_MAX)
        status = cairn_buf_printf(out, ",\"slot\":%" PRIu32, node->slot);
    if (status == CAIRN_OK && node->count_states > 0) {
        status = cairn_buf_printf(out, ",\"count_states\":%" PRIu32 ",\"states\":[", node->count_states);
        for (uint32_t i = 0; i < node->count_states && i < 16 && status == CAIRN_OK; i++) {
            status = cairn_buf_printf(out, "%s[%" PRIu32 ",%.3f]", i > 0 ? "," : "", node->states[i],
                                      (double)node->states_ms[i]);
        }
        if (status == CAIRN_OK)
            status = cairn_buf_append_str(out, "]");
    }
    if (status == CAIRN_OK && left->nodes > 0) {
        status = cairn_buf_printf(
            out, ",\"more\":{\"nodes\":%" PRIu32 ",\"tokens\":%" PRIu64 ",\"states\":%" PRIu32 "}",
            left->nodes, left->tokens, left->states);
    }
    return status == CAIRN_OK ? cairn_buf_append_str(out, "}") : status;
}

static cairn_status print_tree(const cairn_cache_view *view, cairn_buf *out)
{
    rest *rests = cairn_mem_array(view->mem, view->count + 1, sizeof *rests);
    if (rests == NULL)
        return CAIRN_NOMEM;
    cairn_status status = choose(view, rests);
    bool first = true;
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(out, "\"tree\":{\"nodes\":[");
    for (uint32_t i = 0; i < view->count && status == CAIRN_OK; i++) {
        if (!rests[i].shown)
            continue;
        if (!first)
            status = cairn_buf_append_str(out, ",");
        first = false;
        if (status == CAIRN_OK)
            status = print_node(view, &view->nodes[i], &rests[i], out);
    }
    cairn_mem_array_release(view->mem, rests, view->count + 1, sizeof *rests);
    if (status != CAIRN_OK)
        return status;
    return cairn_buf_printf(out, "],\"total\":%" PRIu32 ",\"cut\":%s}", view->count,
                            view->cut || view->failed ? "true" : "false");
}

cairn_status cairn_cache_view_print_tree(const cairn_cache_view *view, cairn_buf *out)
{
    cairn_status status = cairn_buf_append_str(out, "{");
    if (status == CAIRN_OK)
        status = print_tree(view, out);
    return status == CAIRN_OK ? cairn_buf_append_str(out, "}") : status;
}

static cairn_status print_counts(const cairn_cache_stats *c, cairn_buf *out)
{
    cairn_status status =
        cairn_buf_printf(out,
                         "\"held\":{\"states\":%" PRIu64 ",\"segments\":%" PRIu64 ",\"namespaces\":%" PRIu64
                         ",\"paths\":%" PRIu64 ",\"tokens\":%" PRIu64 "},",
                         c->states, c->segments, c->namespaces, c->paths, c->tokens_known);
    if (status != CAIRN_OK)
        return status;
    return cairn_buf_printf(
        out,
        "\"since_start\":{\"requests\":%" PRIu64 ",\"tokens_prompt\":%" PRIu64 ",\"tokens_read\":%" PRIu64
        ",\"tokens_least\":%" PRIu64 ",\"tokens_answer\":%" PRIu64 ",\"states_taken\":%" PRIu64
        ",\"states_skipped\":%" PRIu64 ",\"states_dropped\":%" PRIu64 ",\"restores\":%" PRIu64
        ",\"restores_failed\":%" PRIu64 "},",
        c->requests, c->tokens_prompt, c->tokens_read, c->tokens_least, c->tokens_answer, c->states_taken,
        c->states_skipped, c->states_dropped, c->restores, c->restores_failed);
}

cairn_status cairn_cache_view_print(const cairn_cache_view *view, bool counts, cairn_buf *out)
{
    const cairn_cache_stats *c = &view->stats;
    cairn_status status = cairn_buf_printf(
        out,
        "{\"bytes\":{\"now\":%" PRIu64 ",\"peak\":%" PRIu64 ",\"limit\":%" PRIu64 ",\"index\":%" PRIu64
        ",\"states\":%" PRIu64 ",\"rows\":%" PRIu64 "},",
        c->ram_bytes, c->ram_bytes_peak, c->ram_bytes_max, c->index_bytes, c->state_bytes, c->row_bytes);
    if (status == CAIRN_OK && counts)
        status = print_counts(c, out);
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(out, "\"disk\":");
    if (status == CAIRN_OK)
        status = cairn_json_write(out, cairn_disk_watch_json(&view->disk));
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(out, ",\"shared\":");
    if (status == CAIRN_OK)
        status = cairn_json_write(out, cairn_shared_watch_json(&view->shared));
    if (status == CAIRN_OK)
        status = cairn_buf_append_str(out, ",");
    if (status == CAIRN_OK)
        status = print_tree(view, out);
    return status == CAIRN_OK ? cairn_buf_append_str(out, "}") : status;
}
