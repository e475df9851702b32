/*
 * policy_entries - two rules that keep whole prompts as entries of one list, the least recently used going first.
 *
 *   SwiftLM   states at the anchor (end of the system text) and at turn starts at least 2,048 behind the last state or
 *             the resume point; at most 4 an entry: anchor and newest stay, of the others the one closest to a
 *             neighbour goes. A new entry inherits the states up to its resume point from the one it resumed. How many
 *             entries there are is not described: as many as the budget holds, one replaced only by what extends it.
 *   LRU       a state at the end of the prompt and one at the end of the answer. Nothing else.
 *
 * Both: the rows of an entry that a slot holds are free; a slot is taken from the entry that was used longest ago.
 */
#include "policy_copies.h"

enum { ENTRIES_MAX = 2048, SWIFT_POINTS = 4, SWIFT_GAP = 2048 };

typedef struct entry_policy {
    cairn_policy_setup setup;
    bool swift;
    cairn_copy *entries; /* cairn_copy[count] */
    uint32_t count;
    uint64_t uses;
    uint64_t peak;
} entry_policy;

static void entries_free(void *self)
{
    entry_policy *p = self;
    if (p == NULL) {
        return;
    }
    const cairn_mem *mem = p->setup.mem;
    cairn_mem_array_release(mem, p->entries, ENTRIES_MAX, sizeof *p->entries);
    cairn_mem_release(mem, p, sizeof *p);
}

static cairn_status entries_new(const cairn_policy_setup *setup, bool swift, void **ret_self,
                                cairn_error *reterr)
{
    entry_policy *p = cairn_mem_zalloc(setup->mem, sizeof *p);
    if (p != NULL) {
        p->setup = *setup;
        p->swift = swift;
        p->entries = cairn_mem_array(setup->mem, ENTRIES_MAX, sizeof *p->entries);
    }
    if (p == NULL || p->entries == NULL) {
        entries_free(p);
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/policy_entries", NULL);
    }
    *ret_self = p;
    return CAIRN_OK;
}

static uint64_t entry_bytes(const entry_policy *p, const cairn_copy *entry)
{
    /* In a slot the rows and the state at the end are the engine's own. */
    bool live = entry->slot >= 0;
    return cairn_copy_state_bytes(p->setup.profile, entry, !live) +
           (live ? 0 : cairn_copy_row_bytes(p->setup.profile, entry));
}

static uint64_t held_bytes(const entry_policy *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        sum += entry_bytes(p, &p->entries[i]);
    }
    return sum;
}

static uint32_t oldest(const entry_policy *p, bool live)
{
    uint32_t found = CAIRN_WORKLOAD_NONE;
    for (uint32_t i = 0; i < p->count; i++) {
        bool fits = (p->entries[i].slot >= 0) == live;
        if (fits && (found == CAIRN_WORKLOAD_NONE || p->entries[i].used < p->entries[found].used)) {
            found = i;
        }
    }
    return found;
}

static void entry_remove(entry_policy *p, uint32_t index)
{
    p->entries[index] = p->entries[--p->count];
}

/* Drop old entries until the cap holds; what is in slots goes last, state by state. */
static void shrink(entry_policy *p)
{
    while (held_bytes(p) > p->setup.budget_bytes) {
        uint32_t victim = oldest(p, false);
        if (victim != CAIRN_WORKLOAD_NONE) {
            entry_remove(p, victim);
            continue;
        }
        for (uint32_t i = 0; i < p->count; i++) {
            if (p->entries[i].count > 0) {
                cairn_copy_drop(&p->entries[i], 0);
                break;
            }
        }
    }
}

/* A slot for a new entry: a free one, or that of the entry used longest ago, whose rows then cost. */
static int slot_take(entry_policy *p, cairn_policy_outcome *out)
{
    for (int slot = 0; slot < (int)p->setup.slots; slot++) {
        bool taken = false;
        for (uint32_t i = 0; i < p->count; i++) {
            taken = taken || p->entries[i].slot == slot;
        }
        if (!taken) {
            return slot;
        }
    }
    cairn_copy *old = &p->entries[oldest(p, true)];
    int slot = old->slot;
    old->slot = -1;
    out->saved_bytes += cairn_copy_row_bytes(p->setup.profile, old) + p->setup.profile->state_bytes;
    return slot;
}

static void swift_points(const cairn_policy_view *view, cairn_copy *entry, uint32_t from,
                         cairn_policy_outcome *out)
{
    uint32_t last = entry->count > 0 ? entry->points[entry->count - 1] : 0;
    last = from > last ? from : last;
    bool anchored = entry->count > 0;
    for (uint32_t i = 0; i < view->request->count_boundaries; i++) {
        const cairn_boundary *b = &view->boundaries[i];
        bool anchor = (b->kinds & CAIRN_BOUNDARY_SYSTEM_END) != 0 && !anchored;
        bool turn = (b->kinds & CAIRN_BOUNDARY_MESSAGE_START) != 0 && b->role == CAIRN_ROLE_USER;
        if (b->position <= from || b->position == 0 ||
            !(anchor || (turn && b->position - last >= SWIFT_GAP))) {
            continue;
        }
        anchored = true;
        last = b->position;
        cairn_copy_add(entry, b->position, view->index);
        out->snapshots++;
        if (entry->count > SWIFT_POINTS) {
            cairn_copy_drop(entry, cairn_thin_nearest(entry->points, entry->count));
        }
    }
}

/* The entry that serves most; the one in a slot when two serve alike. */
static uint32_t best_entry(const entry_policy *p, const cairn_policy_view *view, uint32_t *ret_reused)
{
    uint32_t found = CAIRN_WORKLOAD_NONE;
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t common = cairn_copy_common(p->setup.w, view, &p->entries[i]);
        uint32_t serves = cairn_copy_serves(p->setup.profile, view, &p->entries[i], common);
        if (serves > most || (serves == most && serves > 0 && p->entries[i].slot >= 0)) {
            most = serves;
            found = i;
        }
    }
    *ret_reused = most;
    return found;
}

/* Entries that the new one contains are dropped: they would never be chosen again. */
static void drop_contained(entry_policy *p, const cairn_policy_view *view)
{
    uint32_t length = view->request->prompt_tokens + view->request->answer_tokens;
    for (uint32_t i = p->count; i-- > 0;) {
        cairn_copy *e = &p->entries[i];
        if (e->length <= length &&
            cairn_workload_common(p->setup.w, view->request->node_answer, e->node) >= e->length) {
            entry_remove(p, i);
        }
    }
}

static cairn_status entries_request(void *self, const cairn_policy_view *view,
                                    cairn_policy_outcome *ret_outcome, cairn_error *reterr)
{
    entry_policy *p = self;
    (void)reterr;
    cairn_policy_outcome out = {0};
    uint32_t from = best_entry(p, view, &out.reused);
    cairn_copy entry = {.node = view->request->node_answer,
                        .length = view->request->prompt_tokens + view->request->answer_tokens,
                        .used = ++p->uses,
                        .slot = -1};
    if (from != CAIRN_WORKLOAD_NONE) {
        cairn_copy *old = &p->entries[from];
        if (old->slot < 0) {
            out.restored_bytes = out.reused * p->setup.profile->row_bytes + p->setup.profile->state_bytes;
        } else if (out.reused < old->length) {
            out.restored_bytes = p->setup.profile->state_bytes;
        }
        bool replaces = old->length == out.reused;
        if (p->swift) {
            for (uint32_t i = 0; i < old->count && old->points[i] <= out.reused; i++) {
                cairn_copy_add(&entry, old->points[i], old->tasks[i]);
            }
        }
        if (replaces) {
            entry.slot = old->slot;
            entry_remove(p, from);
        }
    }
    if (p->setup.profile->state_bytes > 0 && p->swift) {
        swift_points(view, &entry, out.reused, &out);
    } else if (p->setup.profile->state_bytes > 0) {
        cairn_copy_add(&entry, view->request->prompt_tokens, view->index);
        out.snapshots++;
    }
    drop_contained(p, view);
    if (p->count == ENTRIES_MAX) {
        uint32_t victim = oldest(p, false);
        entry_remove(p, victim != CAIRN_WORKLOAD_NONE ? victim : 0);
    }
    if (entry.slot < 0) {
        entry.slot = slot_take(p, &out);
    }
    p->entries[p->count++] = entry;
    shrink(p);
    out.batches = cairn_policy_batches(p->setup.profile, out.reused, view->request->prompt_tokens,
                                       p->swift ? out.snapshots : 0);
    out.held_bytes = held_bytes(p);
    p->peak = out.held_bytes > p->peak ? out.held_bytes : p->peak;
    out.held_peak = p->peak;
    *ret_outcome = out;
    return CAIRN_OK;
}

static cairn_status swift_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return entries_new(setup, true, ret_self, reterr);
}

static cairn_status lru_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return entries_new(setup, false, ret_self, reterr);
}

const cairn_policy cairn_policy_swiftlm = {
    .name = "swiftlm",
    .about = "SwiftLM: anchor, turn starts 2,048 apart, 4 an entry, closest to a neighbour goes; entries by "
             "recency assumed",
    .make = swift_make,
    .request = entries_request,
    .free = entries_free,
};

const cairn_policy cairn_policy_lru = {
    .name = "lru",
    .about = "whole prompts with a state at the prompt's end and one at the answer's end, least recently "
             "used first",
    .make = lru_make,
    .request = entries_request,
    .free = entries_free,
};
