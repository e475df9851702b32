/*
 * optimum - the offline best. Places are where requests part: a chosen place elsewhere could be moved down to the next
 * of them without loss.
 */
#include "optimum.h"

#include <stdlib.h>
#include <string.h>

#define NONE CAIRN_WORKLOAD_NONE

static const char *const where = "sim/optimum";

/* A request: it parts at `depth`, and the slot would serve it to `free_to`. */
typedef struct opt_demand {
    uint32_t place, free_to;
} opt_demand;

typedef struct opt_place {
    uint32_t node, depth; /* a position of the tree                                       */
    uint32_t parent;      /* nearest place above, NONE                                    */
    uint32_t level;       /* places above it                                              */
    uint32_t size;        /* places in its subtree, itself included                       */
    uint32_t demands_begin, demands_end;
    uint32_t kids_begin, kids_end; /* in `kids`                                           */
    uint64_t *best; /* uint64_t[level + 1][size + 1]: by nearest chosen (0: none, i: the i-th above), by j */
} opt_place;

typedef struct optimum {
    const cairn_mem *mem;
    const cairn_workload *w;
    opt_place *places;
    uint32_t count_places, room;
    opt_demand *demands; /* by place */
    uint32_t count_demands;
    uint32_t *kids;
    uint64_t least; /* tokens that any choice reads */
} optimum;

static void optimum_release(optimum *o)
{
    for (uint32_t i = 0; o->places != NULL && i < o->count_places; i++) {
        opt_place *place = &o->places[i];
        cairn_mem_array_release(o->mem, place->best, (size_t)(place->level + 1) * (place->size + 1),
                                sizeof *place->best);
    }
    cairn_mem_array_release(o->mem, o->places, o->room, sizeof *o->places);
    cairn_mem_array_release(o->mem, o->demands, o->room, sizeof *o->demands);
    cairn_mem_array_release(o->mem, o->kids, o->room, sizeof *o->kids);
}

typedef struct raw_demand {
    uint32_t node, depth, free_to;
} raw_demand;

static int by_depth(const void *a, const void *b)
{
    const raw_demand *x = a;
    const raw_demand *y = b;
    if (x->depth != y->depth) {
        return x->depth < y->depth ? -1 : 1;
    }
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    return x->free_to < y->free_to ? -1 : x->free_to > y->free_to;
}

/* Where each request parts from what came before it. */
static uint32_t collect(const cairn_workload *w, uint8_t *seen, raw_demand *out, uint64_t *ret_least)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->count_requests; i++) {
        const cairn_workload_request *r = &w->requests[i];
        uint32_t node = r->node_prompt;
        while (w->nodes[node].parent != NONE && !seen[node]) {
            node = w->nodes[node].parent;
        }
        uint32_t depth = w->nodes[node].end;
        depth = depth < r->prompt_tokens ? depth : r->prompt_tokens - 1;
        while (w->nodes[node].parent != NONE && w->nodes[node].begin >= depth) {
            node = w->nodes[node].parent;
        }
        *ret_least += r->prompt_tokens - depth;
        uint32_t free_to = 0;
        if (i > 0) {
            const cairn_workload_request *before = &w->requests[i - 1];
            uint32_t length = before->prompt_tokens + before->answer_tokens;
            if (length < r->prompt_tokens &&
                cairn_workload_common(w, r->node_prompt, before->node_answer) == length) {
                free_to = length;
            }
        }
        if (depth > free_to) {
            out[count++] = (raw_demand){.node = node, .depth = depth, .free_to = free_to};
        }
        for (node = r->node_answer; w->nodes[node].parent != NONE && !seen[node];
             node = w->nodes[node].parent) {
            seen[node] = 1;
        }
    }
    return count;
}

/* Is position `depth` of the path to `node` on the path to `below`? */
static bool above(const cairn_workload *w, uint32_t node, uint32_t depth, uint32_t below)
{
    return cairn_workload_common(w, node, below) >= depth;
}

static void join(optimum *o)
{
    for (uint32_t i = 0; i < o->count_places; i++) {
        opt_place *place = &o->places[i];
        place->parent = NONE;
        place->size = 1;
        for (uint32_t k = i; k-- > 0;) { /* ascending depth: the last that fits is the nearest */
            const opt_place *up = &o->places[k];
            if (up->depth < place->depth && above(o->w, up->node, up->depth, place->node)) {
                place->parent = k;
                place->level = up->level + 1;
                break;
            }
        }
    }
    for (uint32_t i = o->count_places; i-- > 0;) {
        if (o->places[i].parent != NONE) {
            o->places[o->places[i].parent].size += o->places[i].size;
        }
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < o->count_places; i++) {
        o->places[i].kids_begin = at;
        for (uint32_t k = i + 1; k < o->count_places; k++) {
            if (o->places[k].parent == i) {
                o->kids[at++] = k;
            }
        }
        o->places[i].kids_end = at;
    }
}

static cairn_status optimum_init(optimum *o, const cairn_workload *w, cairn_error *reterr)
{
    memset(o, 0, sizeof *o);
    o->mem = w->mem;
    o->w = w;
    o->room = w->count_requests + 1;
    uint8_t *seen = cairn_mem_array(w->mem, w->count_nodes + 1, 1);
    raw_demand *raw = cairn_mem_array(w->mem, o->room, sizeof *raw);
    o->places = cairn_mem_array(w->mem, o->room, sizeof *o->places);
    o->demands = cairn_mem_array(w->mem, o->room, sizeof *o->demands);
    o->kids = cairn_mem_array(w->mem, o->room, sizeof *o->kids);
    cairn_status status = CAIRN_OK;
    if (seen == NULL || raw == NULL || o->places == NULL || o->demands == NULL || o->kids == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
        goto out;
    }
    uint32_t count = collect(w, seen, raw, &o->least);
    qsort(raw, count, sizeof *raw, by_depth);
    for (uint32_t i = 0; i < count; i++) {
        opt_place *last = o->count_places > 0 ? &o->places[o->count_places - 1] : NULL;
        if (last == NULL || last->node != raw[i].node || last->depth != raw[i].depth) {
            last = &o->places[o->count_places++];
            *last = (opt_place){.node = raw[i].node, .depth = raw[i].depth, .demands_begin = i};
        }
        last->demands_end = i + 1;
        o->demands[o->count_demands++] =
            (opt_demand){.place = o->count_places - 1, .free_to = raw[i].free_to};
    }
    join(o);
out:
    cairn_mem_array_release(w->mem, seen, w->count_nodes + 1, 1);
    cairn_mem_array_release(w->mem, raw, o->room, sizeof *raw);
    return status;
}

/* Tokens read again by the requests that part at `place` when they resume at `from`. */
static uint64_t own_cost(const optimum *o, const opt_place *place, uint32_t from)
{
    uint64_t sum = 0;
    for (uint32_t i = place->demands_begin; i < place->demands_end; i++) {
        uint32_t at = o->demands[i].free_to > from ? o->demands[i].free_to : from;
        sum += at < place->depth ? place->depth - at : 0;
    }
    return sum;
}

static uint64_t *best_of(const opt_place *place, uint32_t chosen)
{
    return place->best + (size_t)chosen * (place->size + 1);
}

/*
 * Sum the children's tables under one nearest chosen place into sums[0 .. size - 1]; scratch has the same room.
 * `chosen` counts places from the root: 0 none, i the i-th on the way down (level + 1: this place itself).
 */
static void merge_kids(const optimum *o, const opt_place *place, uint32_t chosen, uint64_t *sums,
                       uint64_t *scratch)
{
    uint32_t have = 0;
    sums[0] = 0;
    for (uint32_t i = place->kids_begin; i < place->kids_end; i++) {
        const opt_place *kid = &o->places[o->kids[i]];
        const uint64_t *table = best_of(kid, chosen);
        for (uint32_t j = 0; j <= have + kid->size; j++) {
            scratch[j] = UINT64_MAX;
        }
        for (uint32_t a = 0; a <= have; a++) {
            for (uint32_t b = 0; b <= kid->size; b++) {
                uint64_t sum = sums[a] + table[b];
                scratch[a + b] = sum < scratch[a + b] ? sum : scratch[a + b];
            }
        }
        have += kid->size;
        memcpy(sums, scratch, ((size_t)have + 1) * sizeof *sums);
    }
}

static cairn_status solve(optimum *o, uint64_t *sums, uint64_t *scratch, uint32_t *way)
{
    /* Descending index is descending depth: children come before their parents. */
    for (uint32_t i = o->count_places; i-- > 0;) {
        opt_place *place = &o->places[i];
        place->best =
            cairn_mem_array(o->mem, (size_t)(place->level + 1) * (place->size + 1), sizeof *place->best);
        if (place->best == NULL) {
            return CAIRN_NOMEM;
        }
        uint32_t up = place->parent;
        for (uint32_t level = place->level; level > 0; level--) {
            way[level] = o->places[up].depth;
            up = o->places[up].parent;
        }
        way[0] = 0;
        for (uint32_t chosen = 0; chosen <= place->level; chosen++) {
            uint64_t *table = best_of(place, chosen);
            merge_kids(o, place, chosen, sums, scratch);
            uint64_t own = own_cost(o, place, way[chosen]);
            for (uint32_t j = 0; j < place->size; j++) {
                table[j] = own + sums[j];
            }
            table[place->size] = table[place->size - 1];
            merge_kids(o, place, place->level + 1, sums, scratch);
            for (uint32_t j = 1; j <= place->size; j++) {
                table[j] = sums[j - 1] < table[j] ? sums[j - 1] : table[j];
                table[j] = table[j - 1] < table[j] ? table[j - 1] : table[j];
            }
        }
    }
    return CAIRN_OK;
}

cairn_status cairn_optimum(const cairn_workload *w, const uint32_t *counts, uint32_t count,
                           uint64_t *ret_read, cairn_error *reterr)
{
    optimum o;
    cairn_status status = optimum_init(&o, w, reterr);
    size_t room = (size_t)o.count_places + 2;
    uint64_t *sums = cairn_mem_array(w->mem, room, sizeof *sums);
    uint64_t *scratch = cairn_mem_array(w->mem, room, sizeof *scratch);
    uint32_t *way = cairn_mem_array(w->mem, room, sizeof *way);
    if (status == CAIRN_OK && (sums == NULL || scratch == NULL || way == NULL)) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    if (status == CAIRN_OK && solve(&o, sums, scratch, way) != CAIRN_OK) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    if (status == CAIRN_OK) {
        /* The roots' tables join like the children of a place that holds nothing. */
        uint32_t have = 0;
        sums[0] = 0;
        for (uint32_t i = 0; i < o.count_places; i++) {
            const opt_place *place = &o.places[i];
            if (place->parent != NONE) {
                continue;
            }
            for (uint32_t j = 0; j <= have + place->size; j++) {
                scratch[j] = UINT64_MAX;
            }
            for (uint32_t a = 0; a <= have; a++) {
                for (uint32_t b = 0; b <= place->size; b++) {
                    uint64_t sum = sums[a] + best_of(place, 0)[b];
                    scratch[a + b] = sum < scratch[a + b] ? sum : scratch[a + b];
                }
            }
            have += place->size;
            memcpy(sums, scratch, ((size_t)have + 1) * sizeof *sums);
        }
        for (uint32_t i = 0; i < count; i++) {
            ret_read[i] = o.least + sums[counts[i] < have ? counts[i] : have];
        }
    }
    cairn_mem_array_release(w->mem, sums, room, sizeof *sums);
    cairn_mem_array_release(w->mem, scratch, room, sizeof *scratch);
    cairn_mem_array_release(w->mem, way, room, sizeof *way);
    optimum_release(&o);
    return status;
}

cairn_status cairn_optimum_brute(const cairn_workload *w, uint32_t k, uint64_t *ret_read, cairn_error *reterr)
{
    optimum o;
    cairn_status status = optimum_init(&o, w, reterr);
    uint64_t best = UINT64_MAX;
    if (status == CAIRN_OK && o.count_places > 20) {
        status = cairn_error_set(reterr, CAIRN_LIMIT, where, "%u places", o.count_places);
    }
    for (uint32_t choice = 0; status == CAIRN_OK && choice < 1u << o.count_places; choice++) {
        uint32_t chosen = 0;
        for (uint32_t bits = choice; bits != 0; bits &= bits - 1) {
            chosen++;
        }
        if (chosen > k) {
            continue;
        }
        uint64_t sum = 0;
        for (uint32_t i = 0; i < o.count_places; i++) {
            uint32_t from = 0;
            for (uint32_t up = i; up != NONE && from == 0; up = o.places[up].parent) {
                from = (choice >> up & 1) != 0 ? o.places[up].depth : 0;
            }
            sum += own_cost(&o, &o.places[i], from);
        }
        best = sum < best ? sum : best;
    }
    *ret_read = o.least + best;
    optimum_release(&o);
    return status;
}
