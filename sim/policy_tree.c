/*
 * policy_tree - two rules on a radix tree whose edges hold rows and whose nodes may hold a state.
 *
 *   grid      ollama's: a state every 8,192 tokens, one 4 tokens before the prompt's end, one at the branch point when
 *             more of the prompt matches than can be restored, one at the end of the generation. Over the cap goes,
 *             among nodes with at most one child and never on a live path, the oldest, then the deepest, then the
 *             largest.
 *   Marconi   at most two states a request: at the branch point found before reading (it pays from the third sharer
 *             on) and at the end of the output. Over the cap goes the node with at most one child that has the lowest
 *             sum of recency and weight x computation saved per byte, both scaled to [0, 1] over the candidates. The
 *             weight, which its authors tune on the traffic, is fixed: 1, or 0 for the variant by recency alone.
 *
 * The end state of a path that is still in a slot is the engine's own; it is saved when the path leaves the slot.
 */
#include <stdlib.h>

#include "policy.h"

#define NONE CAIRN_WORKLOAD_NONE
enum { GRID_TOKENS = 8192, GRID_NEAR_END = 4 };

typedef struct tree_rule {
    bool marconi;
    double weight;
} tree_rule;

/* What the rule holds of a workload node. */
typedef struct tree_node {
    uint32_t held_end; /* rows [begin, held_end) are held; 0: none */
    uint32_t children; /* children that hold rows                  */
    uint32_t live;     /* slots whose path runs through            */
    uint32_t state;    /* first of its states, deepest first       */
    uint32_t listed;   /* index in `held`, NONE                    */
    uint64_t used_ns;
} tree_node;

typedef struct tree_state {
    uint32_t node, position, next;
    uint64_t used_ns;
} tree_state;

typedef struct tree_victim {
    double score;
    uint32_t node, state; /* state NONE: the node's tail */
    uint32_t depth;
    uint64_t bytes;
} tree_victim;

typedef struct tree_policy {
    cairn_policy_setup setup;
    tree_rule rule;
    tree_node *nodes;
    uint32_t *held; /* nodes that hold rows: uint32_t[count_held] */
    uint32_t count_held;
    tree_state *states; /* tree_state[room_states]; free ones are chained */
    uint32_t room_states, free_state;
    uint32_t *slots; /* node at which the slot's path ends, NONE: empty */
    uint64_t *slots_used;
    tree_victim *victims;
    uint64_t count_states, row_tokens; /* rows outside the slots */
    uint64_t uses, peak;
} tree_policy;

static void tree_free(void *self)
{
    tree_policy *p = self;
    if (p == NULL) {
        return;
    }
    const cairn_mem *mem = p->setup.mem;
    uint32_t nodes = p->setup.w->count_nodes;
    cairn_mem_array_release(mem, p->nodes, nodes, sizeof *p->nodes);
    cairn_mem_array_release(mem, p->held, nodes, sizeof *p->held);
    cairn_mem_array_release(mem, p->states, p->room_states, sizeof *p->states);
    cairn_mem_array_release(mem, p->victims, (size_t)nodes + p->room_states, sizeof *p->victims);
    cairn_mem_array_release(mem, p->slots, p->setup.slots, sizeof *p->slots);
    cairn_mem_array_release(mem, p->slots_used, p->setup.slots, sizeof *p->slots_used);
    cairn_mem_release(mem, p, sizeof *p);
}

static cairn_status tree_new(const cairn_policy_setup *setup, tree_rule rule, void **ret_self,
                             cairn_error *reterr)
{
    tree_policy *p = cairn_mem_zalloc(setup->mem, sizeof *p);
    if (p == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/policy_tree", NULL);
    }
    p->setup = *setup;
    p->rule = rule;
    /* No request holds more states than this: each of its own, and all grid points of all tokens. */
    uint64_t room = 4 * (uint64_t)setup->w->count_requests + setup->w->count_tokens / GRID_TOKENS + 64;
    p->room_states = room < NONE ? (uint32_t)room : NONE - 1;
    p->nodes = cairn_mem_array(setup->mem, setup->w->count_nodes, sizeof *p->nodes);
    p->held = cairn_mem_array(setup->mem, setup->w->count_nodes, sizeof *p->held);
    p->states = cairn_mem_array(setup->mem, p->room_states, sizeof *p->states);
    p->victims =
        cairn_mem_array(setup->mem, (size_t)setup->w->count_nodes + p->room_states, sizeof *p->victims);
    p->slots = cairn_mem_array(setup->mem, setup->slots, sizeof *p->slots);
    p->slots_used = cairn_mem_array(setup->mem, setup->slots, sizeof *p->slots_used);
    if (p->nodes == NULL || p->held == NULL || p->states == NULL || p->victims == NULL || p->slots == NULL ||
        p->slots_used == NULL) {
        tree_free(p);
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/policy_tree", NULL);
    }
    for (uint32_t i = 0; i < setup->w->count_nodes; i++) {
        p->nodes[i].state = NONE;
        p->nodes[i].listed = NONE;
    }
    for (uint32_t i = 0; i < p->room_states; i++) {
        p->states[i].next = i + 1 < p->room_states ? i + 1 : NONE;
    }
    for (uint32_t i = 0; i < setup->slots; i++) {
        p->slots[i] = NONE;
    }
    *ret_self = p;
    return CAIRN_OK;
}

static uint64_t held_bytes(const tree_policy *p)
{
    return p->row_tokens * p->setup.profile->row_bytes + p->count_states * p->setup.profile->state_bytes;
}

static uint32_t held_tokens(const tree_policy *p, uint32_t node)
{
    uint32_t end = p->nodes[node].held_end;
    return end > 0 ? end - p->setup.w->nodes[node].begin : 0;
}

/* Change how many rows of a node are held, keeping the counts. */
static void hold(tree_policy *p, uint32_t node, uint32_t held_end)
{
    tree_node *n = &p->nodes[node];
    uint32_t parent = p->setup.w->nodes[node].parent;
    uint32_t before = held_tokens(p, node);
    bool was = n->held_end > 0;
    n->held_end = held_end;
    uint32_t after = held_tokens(p, node);
    if (n->live == 0) {
        p->row_tokens = p->row_tokens + after - before;
    }
    if (!was && held_end > 0) {
        n->listed = p->count_held;
        p->held[p->count_held++] = node;
        p->nodes[parent].children++;
    } else if (was && held_end == 0) {
        uint32_t last = p->held[--p->count_held];
        p->held[n->listed] = last;
        p->nodes[last].listed = n->listed;
        n->listed = NONE;
        p->nodes[parent].children--;
    }
}

static void live_add(tree_policy *p, uint32_t node, bool add)
{
    for (; p->setup.w->nodes[node].parent != NONE; node = p->setup.w->nodes[node].parent) {
        tree_node *n = &p->nodes[node];
        uint32_t tokens = held_tokens(p, node);
        if (add && n->live++ == 0) {
            p->row_tokens -= tokens;
        } else if (!add && --n->live == 0) {
            p->row_tokens += tokens;
        }
    }
}

static void state_drop(tree_policy *p, uint32_t state)
{
    uint32_t *link = &p->nodes[p->states[state].node].state;
    while (*link != state) {
        link = &p->states[*link].next;
    }
    *link = p->states[state].next;
    p->states[state].next = p->free_state;
    p->free_state = state;
    p->count_states--;
}

/* Take a state at this place of the node; false when it is there already. */
static bool state_add(tree_policy *p, uint32_t node, uint32_t position, uint64_t now_ns)
{
    uint32_t *link = &p->nodes[node].state;
    while (*link != NONE && p->states[*link].position > position) {
        link = &p->states[*link].next;
    }
    if (*link != NONE && p->states[*link].position == position) {
        p->states[*link].used_ns = now_ns;
        return false;
    }
    uint32_t state = p->free_state;
    CAIRN_ASSERT(state != NONE);
    p->free_state = p->states[state].next;
    p->states[state] = (tree_state){.node = node, .position = position, .next = *link, .used_ns = now_ns};
    *link = state;
    p->count_states++;
    return true;
}

/* --- giving up ---------------------------------------------------------------------------------------------------- */

/* The tail of a leaf: from its deepest state that is not its end, or its beginning. */
static uint32_t tail_begin(const tree_policy *p, uint32_t node)
{
    const tree_node *n = &p->nodes[node];
    for (uint32_t s = n->state; s != NONE; s = p->states[s].next) {
        if (p->states[s].position < n->held_end) {
            return p->states[s].position;
        }
    }
    return p->setup.w->nodes[node].begin;
}

static double saved_ns(const tree_policy *p, uint32_t begin, uint32_t end)
{
    return cairn_profile_read_ns(p->setup.profile, begin, end, 0);
}

/* Where the state or node above this one ends: what a state saves is counted from there. */
static uint32_t place_above(const tree_policy *p, uint32_t state)
{
    uint32_t below = p->states[state].next;
    return below != NONE ? p->states[below].position : p->setup.w->nodes[p->states[state].node].begin;
}

static uint32_t gather(tree_policy *p, uint64_t now_ns)
{
    const cairn_profile *profile = p->setup.profile;
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->count_held; i++) {
        uint32_t node = p->held[i];
        const tree_node *n = &p->nodes[node];
        if (n->live > 0) {
            continue;
        }
        if (n->children == 0) {
            uint32_t begin = tail_begin(p, node);
            bool with_state = n->state != NONE && p->states[n->state].position == n->held_end;
            uint64_t bytes =
                (n->held_end - begin) * profile->row_bytes + (with_state ? profile->state_bytes : 0);
            double age = (double)(now_ns - n->used_ns) / 1e9 + 1;
            p->victims[count++] = (tree_victim){
                .node = node,
                .state = NONE,
                .depth = n->held_end,
                .bytes = bytes,
                .score = p->rule.marconi ? 1 / age : -age,
            };
        }
        for (uint32_t s = n->state; s != NONE; s = p->states[s].next) {
            const tree_state *state = &p->states[s];
            bool at_end = state->position == n->held_end;
            if (at_end && n->children != 1) {
                continue; /* a leaf's own end, or a branching */
            }
            double age = (double)(now_ns - state->used_ns) / 1e9 + 1;
            p->victims[count++] = (tree_victim){
                .node = node,
                .state = s,
                .depth = state->position,
                .bytes = profile->state_bytes,
                .score = p->rule.marconi ? 1 / age : -age,
            };
        }
    }
    return count;
}

/* Marconi: recency and computation per byte, each scaled over the candidates. */
static void score_marconi(tree_policy *p, uint32_t count)
{
    double low[2] = {0, 0};
    double high[2] = {0, 0};
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            tree_victim *v = &p->victims[i];
            uint32_t from = v->state != NONE ? place_above(p, v->state) : tail_begin(p, v->node);
            double parts[2] = {v->score, saved_ns(p, from, v->depth) / ((double)v->bytes + 1)};
            if (pass == 1) {
                double sum = 0;
                for (int k = 0; k < 2; k++) {
                    double span = high[k] - low[k];
                    double scaled = span > 0 ? (parts[k] - low[k]) / span : 0;
                    sum += k == 0 ? scaled : p->rule.weight * scaled;
                }
                v->score = sum;
                continue;
            }
            for (int k = 0; k < 2; k++) {
                low[k] = i == 0 || parts[k] < low[k] ? parts[k] : low[k];
                high[k] = i == 0 || parts[k] > high[k] ? parts[k] : high[k];
            }
        }
    }
}

static int by_score(const void *a, const void *b)
{
    const tree_victim *x = a;
    const tree_victim *y = b;
    if (x->score != y->score) {
        return x->score < y->score ? -1 : 1;
    }
    if (x->depth != y->depth) {
        return x->depth > y->depth ? -1 : 1;
    }
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return x->node < y->node ? -1 : x->node > y->node;
}

static void give_up(tree_policy *p, const tree_victim *v)
{
    if (v->state != NONE) {
        state_drop(p, v->state);
        return;
    }
    uint32_t begin = tail_begin(p, v->node);
    tree_node *n = &p->nodes[v->node];
    if (n->state != NONE && p->states[n->state].position > begin) {
        state_drop(p, n->state);
    }
    hold(p, v->node, begin > p->setup.w->nodes[v->node].begin ? begin : 0);
}

/* Only live paths are left: their oldest states go. False when there is nothing to give. */
static bool give_up_live(tree_policy *p)
{
    uint32_t oldest = NONE;
    for (uint32_t i = 0; i < p->count_held; i++) {
        for (uint32_t s = p->nodes[p->held[i]].state; s != NONE; s = p->states[s].next) {
            oldest = oldest == NONE || p->states[s].used_ns < p->states[oldest].used_ns ||
                             (p->states[s].used_ns == p->states[oldest].used_ns &&
                              p->states[s].position < p->states[oldest].position)
                         ? s
                         : oldest;
        }
    }
    if (oldest != NONE) {
        state_drop(p, oldest);
    }
    return oldest != NONE;
}

static void shrink(tree_policy *p, uint64_t now_ns)
{
    while (held_bytes(p) > p->setup.budget_bytes) {
        uint32_t count = gather(p, now_ns);
        if (count == 0) {
            if (!give_up_live(p)) {
                return;
            }
            continue;
        }
        if (p->rule.marconi) {
            score_marconi(p, count);
        }
        qsort(p->victims, count, sizeof *p->victims, by_score);
        for (uint32_t i = 0; i < count && held_bytes(p) > p->setup.budget_bytes; i++) {
            const tree_victim *v = &p->victims[i];
            /* An earlier victim of this round may have changed the node: look again next round. */
            bool same = v->state == NONE
                            ? p->nodes[v->node].held_end == v->depth
                            : p->states[v->state].node == v->node && p->states[v->state].position == v->depth;
            if (!same) {
                break;
            }
            give_up(p, v);
        }
    }
}

/* --- one request -------------------------------------------------------------------------------------------------- */

/* How many of the prompt's tokens have rows here. */
static uint32_t match(const tree_policy *p, const cairn_policy_view *view)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < view->count_prompt; i++) {
        const tree_node *n = &p->nodes[view->path[i]];
        if (n->held_end == 0) {
            break;
        }
        length = n->held_end;
        if (length < p->setup.w->nodes[view->path[i]].end) {
            break;
        }
    }
    return length;
}

/* The deepest state at or before `limit`, or NONE. */
static uint32_t find_state(const tree_policy *p, const cairn_policy_view *view, uint32_t limit)
{
    if (limit == 0) {
        return NONE;
    }
    for (uint32_t i = cairn_policy_node_at(p->setup.w, view, limit) + 1; i-- > 0;) {
        for (uint32_t s = p->nodes[view->path[i]].state; s != NONE; s = p->states[s].next) {
            if (p->states[s].position <= limit) {
                return s;
            }
        }
    }
    return NONE;
}

/* The slot whose whole path the prompt extends, or the one used longest ago. */
static uint32_t slot_for(const tree_policy *p, const cairn_policy_view *view, bool *ret_extends)
{
    uint32_t best = 0;
    uint32_t longest = 0;
    *ret_extends = false;
    for (uint32_t i = 0; i < p->setup.slots; i++) {
        if (p->slots[i] == NONE) {
            continue;
        }
        uint32_t end = p->setup.w->nodes[p->slots[i]].end;
        if (end < view->request->prompt_tokens && end > longest &&
            cairn_workload_common(p->setup.w, view->request->node_prompt, p->slots[i]) == end) {
            longest = end;
            best = i;
            *ret_extends = true;
        }
    }
    for (uint32_t i = 0; !*ret_extends && i < p->setup.slots; i++) {
        if (p->slots[i] == NONE || (p->slots[best] != NONE && p->slots_used[i] < p->slots_used[best])) {
            best = i;
        }
    }
    return best;
}

/* Save what leaves the slot: rows that the new path does not share, and the state at its end. */
static void displace(tree_policy *p, uint32_t slot, uint32_t kept, uint64_t now_ns, cairn_policy_outcome *out)
{
    uint32_t node = p->slots[slot];
    if (node == NONE) {
        return;
    }
    if (p->setup.w->nodes[node].end > kept) {
        out->saved_bytes += (p->setup.w->nodes[node].end - kept) * p->setup.profile->row_bytes;
        if (p->setup.profile->state_bytes > 0 && p->nodes[node].held_end == p->setup.w->nodes[node].end) {
            out->saved_bytes += state_add(p, node, p->setup.w->nodes[node].end, p->nodes[node].used_ns)
                                    ? p->setup.profile->state_bytes
                                    : 0;
            out->snapshots++;
        }
    }
    live_add(p, node, false);
    p->slots[slot] = NONE;
    (void)now_ns;
}

static bool take(tree_policy *p, const cairn_policy_view *view, uint32_t position, cairn_policy_outcome *out)
{
    uint32_t node = view->path[cairn_policy_node_at(p->setup.w, view, position)];
    if (position <= out->reused || position >= view->request->prompt_tokens ||
        !state_add(p, node, position, view->now_ns)) {
        return false;
    }
    out->snapshots++;
    return true;
}

static uint32_t take_all(tree_policy *p, const cairn_policy_view *view, uint32_t matched,
                         cairn_policy_outcome *out)
{
    uint32_t prompt = view->request->prompt_tokens;
    uint32_t cuts = 0;
    if (p->setup.profile->state_bytes == 0) {
        return 0;
    }
    if (matched > out->reused) {
        cuts += take(p, view, matched < prompt ? matched : prompt - 1, out) ? 1 : 0;
    }
    if (p->rule.marconi) {
        return cuts;
    }
    for (uint32_t at = GRID_TOKENS; at < prompt; at += GRID_TOKENS) {
        (void)(at > out->reused && take(p, view, at, out)); /* a batch ends there anyway */
    }
    if (prompt > GRID_NEAR_END && take(p, view, prompt - GRID_NEAR_END, out)) {
        cuts++;
    }
    return cuts;
}

/* Marconi refreshes only what was used, ollama's rule the whole path. */
static void touch(tree_policy *p, const cairn_policy_view *view, uint32_t resumed)
{
    for (uint32_t i = 0; i < view->count_path; i++) {
        tree_node *n = &p->nodes[view->path[i]];
        if (!p->rule.marconi || i + 1 == view->count_path || n->used_ns == 0) {
            n->used_ns = view->now_ns;
        }
        for (uint32_t s = n->state; s != NONE && !p->rule.marconi; s = p->states[s].next) {
            p->states[s].used_ns =
                p->states[s].position <= view->request->prompt_tokens ? view->now_ns : p->states[s].used_ns;
        }
    }
    if (resumed != NONE) {
        p->states[resumed].used_ns = view->now_ns;
        p->nodes[p->states[resumed].node].used_ns = view->now_ns;
    }
}

static cairn_status tree_request(void *self, const cairn_policy_view *view, cairn_policy_outcome *ret_outcome,
                                 cairn_error *reterr)
{
    tree_policy *p = self;
    const cairn_profile *profile = p->setup.profile;
    cairn_policy_outcome out = {0};
    (void)reterr;
    uint32_t prompt = view->request->prompt_tokens;
    uint32_t matched = match(p, view);
    uint32_t limit = matched < prompt - 1 ? matched : prompt - 1;
    uint32_t state = profile->state_bytes > 0 ? find_state(p, view, limit) : NONE;
    out.reused = profile->state_bytes == 0 ? limit : state != NONE ? p->states[state].position : 0;
    bool extends = false;
    uint32_t slot = slot_for(p, view, &extends);
    uint32_t kept = 0;
    if (p->slots[slot] != NONE) {
        kept = cairn_workload_common(p->setup.w, view->request->node_prompt, p->slots[slot]);
    }
    if (extends && kept >= out.reused) {
        out.reused = kept;
        state = NONE;
    } else {
        uint32_t in_slot = kept < out.reused ? kept : out.reused;
        out.restored_bytes =
            (out.reused - in_slot) * profile->row_bytes + (state != NONE ? profile->state_bytes : 0);
    }
    displace(p, slot, kept, view->now_ns, &out);
    for (uint32_t i = 0; i < view->count_path; i++) {
        hold(p, view->path[i], p->setup.w->nodes[view->path[i]].end);
    }
    live_add(p, view->request->node_answer, true);
    p->slots[slot] = view->request->node_answer;
    p->slots_used[slot] = ++p->uses;
    uint32_t cuts = take_all(p, view, matched, &out);
    touch(p, view, state);
    shrink(p, view->now_ns);
    out.batches = cairn_policy_batches(profile, out.reused, prompt, cuts);
    out.held_bytes = held_bytes(p);
    p->peak = out.held_bytes > p->peak ? out.held_bytes : p->peak;
    out.held_peak = p->peak;
    *ret_outcome = out;
    return CAIRN_OK;
}

static cairn_status grid_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return tree_new(setup, (tree_rule){.marconi = false}, ret_self, reterr);
}

static cairn_status marconi_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return tree_new(setup, (tree_rule){.marconi = true, .weight = 1}, ret_self, reterr);
}

static cairn_status recency_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return tree_new(setup, (tree_rule){.marconi = true, .weight = 0}, ret_self, reterr);
}

const cairn_policy cairn_policy_grid = {
    .name = "grid-8192",
    .about = "ollama's: every 8,192 tokens, 4 before the end, branch points, end of generation",
    .make = grid_make,
    .request = tree_request,
    .free = tree_free,
};

const cairn_policy cairn_policy_marconi = {
    .name = "marconi",
    .about = "Marconi: branch points and ends of outputs; recency + computation per byte, weight 1",
    .make = marconi_make,
    .request = tree_request,
    .free = tree_free,
};

const cairn_policy cairn_policy_marconi_recency = {
    .name = "marconi-recency",
    .about = "Marconi with weight 0: recency alone",
    .make = recency_make,
    .request = tree_request,
    .free = tree_free,
};
