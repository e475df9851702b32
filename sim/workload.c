/*
 * workload - the tree that holds all requests of some traffic. Adding splits an edge where a new path leaves it; the
 * lower part keeps its number, so that a request's end nodes stay right for ever.
 */
#include "workload.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static cairn_status grow(const cairn_mem *mem, void **items, uint64_t *room, uint64_t need, size_t item_bytes)
{
    if (need <= *room) {
        return CAIRN_OK;
    }
    uint64_t more = *room < 64 ? 64 : *room + *room / 2;
    if (more < need) {
        more = need;
    }
    void *bigger = cairn_mem_array_resize(mem, *items, (size_t)*room, (size_t)more, item_bytes);
    if (bigger == NULL) {
        return CAIRN_NOMEM;
    }
    *items = bigger;
    *room = more;
    return CAIRN_OK;
}

static cairn_status grow32(const cairn_mem *mem, void **items, uint32_t *room, uint64_t need,
                           size_t item_bytes)
{
    uint64_t wide = *room;
    if (need >= CAIRN_WORKLOAD_NONE) {
        return CAIRN_LIMIT;
    }
    cairn_status status = grow(mem, items, &wide, need, item_bytes);
    *room = wide < CAIRN_WORKLOAD_NONE ? (uint32_t)wide : *room;
    return status;
}

void cairn_workload_init(cairn_workload *w, const cairn_mem *mem, const char *name)
{
    memset(w, 0, sizeof *w);
    w->mem = mem;
    w->slots = 1;
    (void)snprintf(w->name, sizeof w->name, "%s", name);
}

void cairn_workload_release(cairn_workload *w)
{
    if (w->mem == NULL) {
        return;
    }
    cairn_mem_array_release(w->mem, w->tokens, (size_t)w->room_tokens, sizeof *w->tokens);
    cairn_mem_array_release(w->mem, w->nodes, w->room_nodes, sizeof *w->nodes);
    cairn_mem_array_release(w->mem, w->requests, w->room_requests, sizeof *w->requests);
    cairn_mem_array_release(w->mem, w->boundaries, w->room_boundaries, sizeof *w->boundaries);
    cairn_mem_array_release(w->mem, w->space_roots, w->room_spaces, sizeof *w->space_roots);
    memset(w, 0, sizeof *w);
}

/* Room for everything that adding one request can need, so that nothing fails half way. */
static cairn_status reserve(cairn_workload *w, const cairn_workload_entry *entry)
{
    uint64_t count = (uint64_t)entry->prompt_tokens + entry->answer_tokens;
    uint64_t spaces = entry->space >= w->count_spaces ? (uint64_t)entry->space + 1 : w->count_spaces;
    cairn_status status =
        grow(w->mem, (void **)&w->tokens, &w->room_tokens, w->count_tokens + count, sizeof *w->tokens);
    if (status == CAIRN_OK) {
        uint64_t need = w->count_nodes + 5 + (spaces - w->count_spaces);
        status = grow32(w->mem, (void **)&w->nodes, &w->room_nodes, need, sizeof *w->nodes);
    }
    if (status == CAIRN_OK) {
        status = grow32(w->mem, (void **)&w->requests, &w->room_requests, (uint64_t)w->count_requests + 1,
                        sizeof *w->requests);
    }
    if (status == CAIRN_OK) {
        status = grow32(w->mem, (void **)&w->boundaries, &w->room_boundaries,
                        (uint64_t)w->count_boundaries + entry->count_boundaries, sizeof *w->boundaries);
    }
    if (status == CAIRN_OK) {
        status = grow32(w->mem, (void **)&w->space_roots, &w->room_spaces, spaces, sizeof *w->space_roots);
    }
    return status;
}

static uint32_t node_new(cairn_workload *w, uint32_t parent, uint32_t begin, uint32_t end,
                         uint64_t tokens_begin)
{
    uint32_t node = w->count_nodes++;
    w->nodes[node] = (cairn_workload_node){.parent = parent,
                                           .child = CAIRN_WORKLOAD_NONE,
                                           .sibling = CAIRN_WORKLOAD_NONE,
                                           .begin = begin,
                                           .end = end,
                                           .tokens_begin = tokens_begin};
    return node;
}

/* Put a new node above `node`, covering its first part up to position `at`. Returns the new one. */
static uint32_t split(cairn_workload *w, uint32_t node, uint32_t at)
{
    cairn_workload_node *low = &w->nodes[node];
    uint32_t parent = low->parent;
    uint32_t high = node_new(w, parent, low->begin, at, low->tokens_begin);
    low = &w->nodes[node];
    w->nodes[high].sibling = low->sibling;
    w->nodes[high].child = node;
    uint32_t *link = &w->nodes[parent].child;
    while (*link != node) {
        link = &w->nodes[*link].sibling;
    }
    *link = high;
    low->tokens_begin += at - low->begin;
    low->begin = at;
    low->parent = high;
    low->sibling = CAIRN_WORKLOAD_NONE;
    return high;
}

static uint32_t child_with(const cairn_workload *w, uint32_t node, cairn_token token)
{
    uint32_t child = w->nodes[node].child;
    while (child != CAIRN_WORKLOAD_NONE && w->tokens[w->nodes[child].tokens_begin] != token) {
        child = w->nodes[child].sibling;
    }
    return child;
}

/* Extend the tree so that a node ends at position `end` of `tokens`, starting below `node`. Returns that node. */
static uint32_t insert(cairn_workload *w, uint32_t node, const cairn_token *tokens, uint32_t end)
{
    uint32_t at = w->nodes[node].end;
    while (at < end) {
        uint32_t child = child_with(w, node, tokens[at]);
        if (child == CAIRN_WORKLOAD_NONE) {
            memcpy(w->tokens + w->count_tokens, tokens + at, (size_t)(end - at) * sizeof *tokens);
            child = node_new(w, node, at, end, w->count_tokens);
            w->count_tokens += end - at;
            w->nodes[child].sibling = w->nodes[node].child;
            w->nodes[node].child = child;
            return child;
        }
        const cairn_workload_node *edge = &w->nodes[child];
        const cairn_token *known = w->tokens + edge->tokens_begin;
        uint32_t limit = (edge->end < end ? edge->end : end) - edge->begin;
        uint32_t same = 1;
        while (same < limit && known[same] == tokens[at + same]) {
            same++;
        }
        at += same;
        node = at < edge->end ? split(w, child, at) : child;
    }
    return node;
}

static cairn_status entry_check(const cairn_workload_entry *entry, cairn_error *reterr)
{
    const char *where = "sim/workload: add";
    if (entry->prompt_tokens == 0) {
        return cairn_error_set(reterr, CAIRN_INVALID, where, "the prompt has no tokens");
    }
    if ((uint64_t)entry->prompt_tokens + entry->answer_tokens > INT32_MAX) {
        return cairn_error_set(reterr, CAIRN_INVALID, where, "the prompt is too long");
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < entry->count_boundaries; i++) {
        uint32_t position = entry->boundaries[i].position;
        if (position < last || position > entry->prompt_tokens) {
            return cairn_error_set(reterr, CAIRN_INVALID, where, "boundary %u at token %u is %s", i, position,
                                   position < last ? "before the one in front of it" : "behind the prompt");
        }
        last = position;
    }
    return CAIRN_OK;
}

cairn_status cairn_workload_add(cairn_workload *w, const cairn_workload_entry *entry, cairn_error *reterr)
{
    cairn_status status = entry_check(entry, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = reserve(w, entry);
    if (status != CAIRN_OK) {
        return cairn_error_set(reterr, status, "sim/workload: add", NULL);
    }
    while (w->count_spaces <= entry->space) {
        w->space_roots[w->count_spaces++] = node_new(w, CAIRN_WORKLOAD_NONE, 0, 0, 0);
    }
    cairn_workload_request *request = &w->requests[w->count_requests++];
    memset(request, 0, sizeof *request);
    request->time_ns = entry->time_ns;
    request->session = entry->session;
    request->space = entry->space;
    request->prompt_tokens = entry->prompt_tokens;
    request->answer_tokens = entry->answer_tokens;
    request->no_store = entry->no_store;
    request->has_reused = entry->has_reused;
    request->reused = entry->reused;
    uint32_t total = entry->prompt_tokens + entry->answer_tokens;
    request->node_prompt = insert(w, w->space_roots[entry->space], entry->tokens, entry->prompt_tokens);
    request->node_answer = insert(w, request->node_prompt, entry->tokens, total);
    request->boundaries_begin = w->count_boundaries;
    request->count_boundaries = entry->count_boundaries;
    if (entry->count_boundaries > 0) {
        memcpy(w->boundaries + w->count_boundaries, entry->boundaries,
               entry->count_boundaries * sizeof *entry->boundaries);
        w->count_boundaries += entry->count_boundaries;
    }
    (void)snprintf(request->kind, sizeof request->kind, "%s", entry->kind != NULL ? entry->kind : "main");
    if (entry->session >= w->count_sessions) {
        w->count_sessions = entry->session + 1;
    }
    if (total > w->tokens_longest) {
        w->tokens_longest = total;
    }
    return CAIRN_OK;
}

void cairn_workload_sort(cairn_workload *w)
{
    /* Recorded requests stand nearly in order already. */
    for (uint32_t i = 1; i < w->count_requests; i++) {
        cairn_workload_request moved = w->requests[i];
        uint32_t at = i;
        for (; at > 0 && w->requests[at - 1].time_ns > moved.time_ns; at--) {
            w->requests[at] = w->requests[at - 1];
        }
        w->requests[at] = moved;
    }
}

void cairn_workload_tokens(const cairn_workload *w, uint32_t index, cairn_token *out)
{
    uint32_t node = w->requests[index].node_answer;
    while (w->nodes[node].parent != CAIRN_WORKLOAD_NONE) {
        const cairn_workload_node *edge = &w->nodes[node];
        memcpy(out + edge->begin, w->tokens + edge->tokens_begin,
               (size_t)(edge->end - edge->begin) * sizeof *out);
        node = edge->parent;
    }
}

uint32_t cairn_workload_path(const cairn_workload *w, uint32_t index, uint32_t *out, uint32_t max,
                             uint32_t *ret_prompt)
{
    const cairn_workload_request *request = &w->requests[index];
    uint32_t count = 0;
    uint32_t answer = 0;
    for (uint32_t node = request->node_answer; w->nodes[node].parent != CAIRN_WORKLOAD_NONE;
         node = w->nodes[node].parent) {
        if (w->nodes[node].begin >= request->prompt_tokens) {
            answer++;
        }
        count++;
    }
    *ret_prompt = count - answer;
    if (count <= max) {
        uint32_t at = count;
        for (uint32_t node = request->node_answer; w->nodes[node].parent != CAIRN_WORKLOAD_NONE;
             node = w->nodes[node].parent) {
            out[--at] = node;
        }
    }
    return count;
}

uint32_t cairn_workload_common(const cairn_workload *w, uint32_t node_a, uint32_t node_b)
{
    while (node_a != node_b) {
        /* The deeper one can't be the common node; roots of two namespaces have nothing above them. */
        uint32_t *deeper = w->nodes[node_a].end >= w->nodes[node_b].end ? &node_a : &node_b;
        if (w->nodes[*deeper].parent == CAIRN_WORKLOAD_NONE) {
            return 0;
        }
        *deeper = w->nodes[*deeper].parent;
    }
    return w->nodes[node_a].end;
}

uint64_t cairn_workload_prompt_tokens(const cairn_workload *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->count_requests; i++) {
        sum += w->requests[i].prompt_tokens;
    }
    return sum;
}

uint64_t cairn_workload_digest(const cairn_workload *w)
{
    uint64_t digest = cairn_hash_mix(w->count_requests);
    for (uint32_t i = 0; i < w->count_requests; i++) {
        const cairn_workload_request *r = &w->requests[i];
        uint64_t numbers[6] = {r->time_ns,       r->session,       r->space,
                               r->prompt_tokens, r->answer_tokens, r->count_boundaries};
        digest = cairn_hash_bytes64(numbers, sizeof numbers, digest);
        for (uint32_t node = r->node_answer; w->nodes[node].parent != CAIRN_WORKLOAD_NONE;
             node = w->nodes[node].parent) {
            const cairn_workload_node *edge = &w->nodes[node];
            digest = cairn_hash_bytes64(w->tokens + edge->tokens_begin,
                                        (size_t)(edge->end - edge->begin) * sizeof *w->tokens, digest);
        }
        for (uint32_t k = 0; k < r->count_boundaries; k++) {
            const cairn_boundary *b = &w->boundaries[r->boundaries_begin + k];
            uint32_t parts[4] = {b->position, b->message, b->kinds, b->role};
            digest = cairn_hash_bytes64(parts, sizeof parts, digest);
        }
    }
    return digest;
}

cairn_status cairn_workload_verify(const cairn_workload *w, cairn_error *reterr)
{
    const char *where = "sim/workload: verify";
    for (uint32_t i = 0; i < w->count_nodes; i++) {
        const cairn_workload_node *node = &w->nodes[i];
        if (node->parent == CAIRN_WORKLOAD_NONE) {
            if (node->end != 0) {
                return cairn_error_set(reterr, CAIRN_INVALID, where, "root %u has tokens", i);
            }
        } else if (node->begin != w->nodes[node->parent].end || node->end <= node->begin) {
            return cairn_error_set(reterr, CAIRN_INVALID, where, "edge %u does not follow its parent", i);
        }
        for (uint32_t a = node->child; a != CAIRN_WORKLOAD_NONE; a = w->nodes[a].sibling) {
            if (w->nodes[a].parent != i) {
                return cairn_error_set(reterr, CAIRN_INVALID, where, "child %u of %u denies it", a, i);
            }
            cairn_token token = w->tokens[w->nodes[a].tokens_begin];
            if (child_with(w, i, token) != a) {
                return cairn_error_set(reterr, CAIRN_INVALID, where, "two children of %u begin alike", i);
            }
        }
    }
    for (uint32_t i = 0; i < w->count_requests; i++) {
        const cairn_workload_request *r = &w->requests[i];
        if (w->nodes[r->node_prompt].end != r->prompt_tokens ||
            w->nodes[r->node_answer].end != r->prompt_tokens + r->answer_tokens) {
            return cairn_error_set(reterr, CAIRN_INVALID, where, "request %u ends elsewhere", i);
        }
    }
    return CAIRN_OK;
}
