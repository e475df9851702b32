/*
 * cache_disk_look - what the disk holds of one namespace, as a forest of pieces of paths.
 *
 *   [0, 512) -- [512, 1024) -- [1024, 1300)        files of rows, each where the one before it ends
 *           \-- [512, 700)                         two files that begin alike may share tokens
 *
 * Files that follow each other without a branch become one piece. One that begins inside of another hangs on the root. A state is shown on a piece where that can be told from
 * the index alone: where a file ends, near its beginning, or where there is only one file that it could belong to.
 */
#include <stdlib.h>
#include <string.h>

#include "cache/cache_internal.h"

enum { ROWS_MAX = 32768, STATES_SHOWN = 16 };

#define NO_ROW    UINT32_MAX
#define SECOND_NS UINT64_C(1000000000)

typedef struct look_row {
    cairn_path_digest begin_digest, end_digest, base_digest;
    uint32_t begin, end;
    uint64_t file_bytes, used_s;
    uint32_t first_child, next; /* rows: those that begin where it ends; NO_ROW: none              */
    uint32_t first_state;       /* rows: states shown on it, linked by `next`                        */
    bool is_child;
} look_row;

typedef struct look {
    const cairn_mem *mem;
    look_row *rows, *states; /* look_row[room] each, by begin                                       */
    uint32_t count_rows, count_states, room;
    uint64_t used_s; /* when any of them was used last                                              */
} look;

static bool gather(void *ctx, const cairn_disk_row *row)
{
    look *l = ctx;
    bool state = row->meta.kind == CAIRN_BLOB_STATE;
    uint32_t *count = state ? &l->count_states : &l->count_rows;
    if (*count < l->room) {
        (state ? l->states : l->rows)[(*count)++] = (look_row){.begin_digest = row->meta.path_begin,
                                                               .end_digest = row->meta.path_end,
                                                               .base_digest = row->meta.path_base,
                                                               .begin = row->meta.begin,
                                                               .end = row->meta.end,
                                                               .file_bytes = row->file_bytes,
                                                               .used_s = row->used_s,
                                                               .first_child = NO_ROW,
                                                               .first_state = NO_ROW,
                                                               .next = NO_ROW};
    }
    return l->count_rows < l->room || l->count_states < l->room;
}

static bool same(const cairn_path_digest *a, const cairn_path_digest *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static int by_begin(const void *left, const void *right)
{
    const look_row *a = left, *b = right;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    int order = memcmp(a->begin_digest.bytes, b->begin_digest.bytes, sizeof a->begin_digest.bytes);
    return order != 0 ? order : memcmp(a->end_digest.bytes, b->end_digest.bytes, sizeof a->end_digest.bytes);
}

/* The first row that begins at `begin` or later. */
static uint32_t first_from(const look *l, uint32_t begin)
{
    uint32_t low = 0, high = l->count_rows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (l->rows[middle].begin < begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Whoever uses a file has passed all before it: what it hangs on was used then, too. */
static void link_rows(look *l)
{
    for (uint32_t i = l->count_rows; i-- > 0;) {
        look_row *row = &l->rows[i];
        for (uint32_t k = first_from(l, row->end); k < l->count_rows && l->rows[k].begin == row->end; k++) {
            look_row *child = &l->rows[k];
            if (!child->is_child && same(&child->begin_digest, &row->end_digest)) {
                child->is_child = true;
                child->next = row->first_child;
                row->first_child = k;
                row->used_s = child->used_s > row->used_s ? child->used_s : row->used_s;
            }
        }
        l->used_s = row->used_s > l->used_s ? row->used_s : l->used_s;
    }
}

/* The row that surely holds the state's place; NO_ROW: it can't be told. */
static uint32_t owner_of(const look *l, const look_row *state)
{
    uint32_t block = CAIRN_KEEPER_BLOCK_TOKENS, only = NO_ROW, candidates = 0;
    uint32_t base = cairn_blob_base(CAIRN_BLOB_STATE, state->begin, state->end);
    for (uint32_t i = first_from(l, state->end > block ? state->end - block : 0);
         i < l->count_rows && l->rows[i].begin < state->end; i++) {
        const look_row *row = &l->rows[i];
        if (row->end < state->end) {
            continue;
        }
        if ((row->end == state->end && same(&row->end_digest, &state->end_digest)) ||
            (row->begin == base && same(&row->begin_digest, &state->base_digest))) {
            return i;
        }
        only = i;
        candidates++;
    }
    return candidates == 1 ? only : NO_ROW;
}

static void give_states(look *l)
{
    for (uint32_t i = l->count_states; i-- > 0;) {
        uint32_t owner = owner_of(l, &l->states[i]);
        if (owner != NO_ROW) {
            l->states[i].next = l->rows[owner].first_state;
            l->rows[owner].first_state = i;
        }
    }
}

/* From row `i` on as long as exactly one follows. Gives the last. */
static uint32_t chain_end(const look *l, uint32_t i)
{
    for (;;) {
        uint32_t child = l->rows[i].first_child;
        if (child == NO_ROW || l->rows[child].next != NO_ROW) {
            return i;
        }
        i = child;
    }
}

static void add_states(const look *l, uint32_t row, cairn_cache_node *node)
{
    for (uint32_t i = l->rows[row].first_state; i != NO_ROW; i = l->states[i].next) {
        if (node->count_states < STATES_SHOWN) {
            node->states[node->count_states] = l->states[i].end;
        }
        node->count_states++;
        node->state_bytes += l->states[i].file_bytes;
    }
}

/* The piece that begins with row `i`. */
static cairn_cache_node piece_of(const look *l, uint32_t i, uint32_t last, uint32_t depth)
{
    cairn_cache_node node = {
        .depth = depth, .begin = l->rows[i].begin, .end = l->rows[last].end, .slot = UINT32_MAX};
    for (;;) {
        node.row_bytes += l->rows[i].file_bytes;
        if (l->rows[i].used_s * SECOND_NS > node.used_ns) {
            node.used_ns = l->rows[i].used_s * SECOND_NS;
        }
        add_states(l, i, &node);
        if (i == last) {
            break;
        }
        i = l->rows[i].first_child;
    }
    node.rows_covered = node.end - node.begin;
    return node;
}

typedef struct visit_item {
    uint32_t row, depth;
} visit_item;

static cairn_status visit_all(const look *l, bool (*visit)(void *ctx, const cairn_cache_node *node),
                              void *ctx)
{
    visit_item *stack = cairn_mem_array(l->mem, l->count_rows + 1, sizeof *stack);
    if (stack == NULL) {
        return CAIRN_NOMEM;
    }
    cairn_cache_node root = {.slot = UINT32_MAX, .used_ns = l->used_s * SECOND_NS};
    bool more = visit(ctx, &root);
    for (uint32_t i = 0; i < l->count_rows && more; i++) {
        uint32_t depth = 0;
        if (!l->rows[i].is_child) {
            stack[depth++] = (visit_item){i, 1};
        }
        while (depth > 0 && more) {
            visit_item item = stack[--depth];
            uint32_t last = chain_end(l, item.row);
            cairn_cache_node node = piece_of(l, item.row, last, item.depth);
            more = visit(ctx, &node);
            for (uint32_t child = l->rows[last].first_child; child != NO_ROW; child = l->rows[child].next) {
                stack[depth++] = (visit_item){child, item.depth + 1};
            }
        }
    }
    cairn_mem_array_release(l->mem, stack, l->count_rows + 1, sizeof *stack);
    return CAIRN_OK;
}

uint32_t cairn_cache_disk_writes(const cairn_cache *cache, const cairn_namespace *space, uint64_t since_ns,
                                 cairn_span *out, uint32_t room)
{
    return cache->keeper != NULL ? cairn_keeper_writes(cache->keeper, space, since_ns, out, room) : 0;
}

cairn_status cairn_cache_disk_walk(const cairn_cache *cache, const cairn_namespace *space,
                                   bool (*visit)(void *ctx, const cairn_cache_node *node), void *ctx,
                                   cairn_error *reterr)
{
    cairn_disk *disk = cache->keeper != NULL ? cairn_keeper_disk(cache->keeper) : NULL;
    if (disk == NULL) {
        return CAIRN_OK;
    }
    cairn_disk_stats stats;
    cairn_disk_stats_get(disk, &stats);
    look l = {.mem = cache->mem, .room = stats.blobs < ROWS_MAX ? (uint32_t)stats.blobs : ROWS_MAX};
    l.rows = cairn_mem_array(l.mem, l.room, sizeof *l.rows);
    l.states = cairn_mem_array(l.mem, l.room, sizeof *l.states);
    cairn_status status = CAIRN_OK;
    if (l.rows == NULL || l.states == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "cache/disk_look", NULL);
    }
    if (status == CAIRN_OK) {
        status = cairn_disk_each_of(disk, space, gather, &l, reterr);
    }
    if (status == CAIRN_OK) {
        qsort(l.rows, l.count_rows, sizeof *l.rows, by_begin);
        qsort(l.states, l.count_states, sizeof *l.states, by_begin);
        link_rows(&l);
        give_states(&l);
        status = visit_all(&l, visit, ctx);
    }
    cairn_mem_array_release(l.mem, l.states, l.room, sizeof *l.states);
    cairn_mem_array_release(l.mem, l.rows, l.room, sizeof *l.rows);
    return status;
}
