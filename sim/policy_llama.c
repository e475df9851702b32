/*
 * policy_llama - two servers that keep a list of states beside each slot and whole-prompt copies in memory.
 *
 *   llama.cpp v0.4.0   states at the start of the last user message, at user starts more than min-step behind the last
 *                      state, and 4 + ubatch and 4 tokens before the prompt's end; at most 32 a slot. Full: first one
 *                      of another task closer than min-step to the one before it, else the oldest. After a restore all
 *                      states behind it are erased. Whole prompts go to memory when a slot changes hands (less than
 *                      half of it is kept) and come back when at least a quarter of one is kept and it fits better than
 *                      the slot; a hit is moved out, prompts contained in another are dropped, the oldest goes first.
 *   ik_llama.cpp       a state every 512 tokens of prompt and answer, one 5 before the prompt's end and one at the
 *                      answer's end, at least 64 apart, at most 32. Full: the inner one with the smallest product of
 *                      gaps. Copies in memory as above (its description names none; without them it would only lose).
 *
 * The states of the slots are paid first; copies get what the budget leaves.
 */
#include <stdlib.h>

#include "policy_copies.h"

enum { COPIES_MAX = 512, USER_STARTS_MAX = 512, UBATCH_TOKENS = 512, NEAR_END = 4 };
enum { IK_INTERVAL = 512, IK_GAP_MIN = 64, IK_NEAR_END = 5 };

typedef struct llama_rule {
    uint32_t points_max;
    uint32_t min_step;
    bool ik;
} llama_rule;

typedef struct llama_policy {
    cairn_policy_setup setup;
    llama_rule rule;
    uint32_t points_max; /* the rule's, or less when the budget is smaller */
    cairn_copy *slots;   /* cairn_copy[setup.slots]                        */
    cairn_copy *ram;     /* cairn_copy[count_ram], oldest first            */
    uint32_t count_ram;
    uint64_t uses;
    uint64_t peak;
} llama_policy;

static void llama_free(void *self)
{
    llama_policy *p = self;
    if (p == NULL) {
        return;
    }
    const cairn_mem *mem = p->setup.mem;
    cairn_mem_array_release(mem, p->slots, p->setup.slots, sizeof *p->slots);
    cairn_mem_array_release(mem, p->ram, COPIES_MAX, sizeof *p->ram);
    cairn_mem_release(mem, p, sizeof *p);
}

static cairn_status llama_new(const cairn_policy_setup *setup, llama_rule rule, void **ret_self,
                              cairn_error *reterr)
{
    llama_policy *p = cairn_mem_zalloc(setup->mem, sizeof *p);
    if (p == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/policy_llama", NULL);
    }
    p->setup = *setup;
    p->rule = rule;
    p->slots = cairn_mem_array(setup->mem, setup->slots, sizeof *p->slots);
    p->ram = cairn_mem_array(setup->mem, COPIES_MAX, sizeof *p->ram);
    if (p->slots == NULL || p->ram == NULL) {
        llama_free(p);
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/policy_llama", NULL);
    }
    p->points_max = rule.points_max;
    if (setup->profile->state_bytes == 0) {
        p->points_max = 0;
    } else if (setup->budget_bytes / setup->profile->state_bytes / setup->slots < p->points_max) {
        p->points_max = (uint32_t)(setup->budget_bytes / setup->profile->state_bytes / setup->slots);
    }
    *ret_self = p;
    return CAIRN_OK;
}

/* A copy in memory: its rows, the state at its end, and its list of states. */
static uint64_t ram_bytes(const llama_policy *p, const cairn_copy *copy)
{
    return cairn_copy_row_bytes(p->setup.profile, copy) +
           cairn_copy_state_bytes(p->setup.profile, copy, true);
}

static uint64_t held_bytes(const llama_policy *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->setup.slots; i++) {
        sum += cairn_copy_state_bytes(p->setup.profile, &p->slots[i], false);
    }
    for (uint32_t i = 0; i < p->count_ram; i++) {
        sum += ram_bytes(p, &p->ram[i]);
    }
    return sum;
}

static void ram_remove(llama_policy *p, uint32_t index)
{
    for (uint32_t i = index; i + 1 < p->count_ram; i++) {
        p->ram[i] = p->ram[i + 1];
    }
    p->count_ram--;
}

/* The oldest copies go until `more` bytes fit; false when they never will. */
static bool ram_make_room(llama_policy *p, uint64_t more)
{
    while (p->count_ram > 0 && (held_bytes(p) + more > p->setup.budget_bytes || p->count_ram == COPIES_MAX)) {
        ram_remove(p, 0);
    }
    return held_bytes(p) + more <= p->setup.budget_bytes;
}

static bool contains(const cairn_workload *w, const cairn_copy *whole, const cairn_copy *part)
{
    return part->length <= whole->length && cairn_workload_common(w, whole->node, part->node) >= part->length;
}

static void ram_save(llama_policy *p, cairn_copy *slot, cairn_policy_outcome *out)
{
    for (uint32_t i = 0; i < p->count_ram; i++) {
        if (contains(p->setup.w, &p->ram[i], slot)) {
            return;
        }
    }
    for (uint32_t i = p->count_ram; i-- > 0;) {
        if (contains(p->setup.w, slot, &p->ram[i])) {
            ram_remove(p, i);
        }
    }
    /* The slot's own states move with it, so only rows and the end's state are new bytes. */
    uint64_t more = cairn_copy_row_bytes(p->setup.profile, slot) + p->setup.profile->state_bytes;
    if (!ram_make_room(p, more)) {
        return;
    }
    p->ram[p->count_ram++] = *slot;
    slot->count = 0;
    out->saved_bytes += more;
}

/* Put the best copy into the slot when it keeps more of itself and of the prompt than the slot does. */
static void ram_load(llama_policy *p, const cairn_policy_view *view, cairn_copy *slot,
                     cairn_policy_outcome *out)
{
    uint32_t common = cairn_copy_common(p->setup.w, view, slot);
    double keep = slot->length > 0 ? (double)common / slot->length : 0;
    uint32_t likeness = common;
    int best = -1;
    for (uint32_t i = 0; i < p->count_ram; i++) {
        uint32_t same = cairn_copy_common(p->setup.w, view, &p->ram[i]);
        double kept = (double)same / p->ram[i].length;
        if (kept >= 0.25 && kept > keep && same > likeness) {
            keep = kept;
            likeness = same;
            best = (int)i;
        }
    }
    if (best >= 0) {
        *slot = p->ram[best];
        ram_remove(p, (uint32_t)best);
        out->restored_bytes += cairn_copy_row_bytes(p->setup.profile, slot) + p->setup.profile->state_bytes;
    }
}

static cairn_copy *slot_for(llama_policy *p, const cairn_policy_view *view)
{
    cairn_copy *best = NULL;
    uint32_t most = view->request->prompt_tokens / 10;
    for (uint32_t i = 0; i < p->setup.slots; i++) {
        uint32_t common = cairn_copy_common(p->setup.w, view, &p->slots[i]);
        if (common > most) {
            most = common;
            best = &p->slots[i];
        }
    }
    for (uint32_t i = 0; best == NULL && i < p->setup.slots; i++) {
        best = p->slots[i].length == 0 ? &p->slots[i] : NULL;
    }
    if (best == NULL) {
        best = &p->slots[0];
        for (uint32_t i = 1; i < p->setup.slots; i++) {
            best = p->slots[i].used < best->used ? &p->slots[i] : best;
        }
    }
    return best;
}

static void list_full(llama_policy *p, cairn_copy *slot, uint64_t task)
{
    if (p->rule.ik) {
        cairn_copy_drop(slot, slot->count >= 3 ? cairn_thin_product(slot->points, slot->count) : 0);
        return;
    }
    for (uint32_t i = 1; i < slot->count; i++) {
        if (slot->tasks[i] != task && slot->points[i] - slot->points[i - 1] < p->rule.min_step) {
            cairn_copy_drop(slot, i);
            return;
        }
    }
    cairn_copy_drop(slot, 0);
}

static void take(llama_policy *p, cairn_copy *slot, uint32_t position, uint64_t task, bool late,
                 cairn_policy_outcome *out)
{
    if (p->points_max == 0 || position == 0) {
        return;
    }
    bool again = slot->count > 0 && slot->points[slot->count - 1] == position;
    if (!again && slot->count >= p->points_max) {
        list_full(p, slot, task);
    }
    if (!again) {
        (void)ram_make_room(p, p->setup.profile->state_bytes);
    }
    cairn_copy_add(slot, position, task);
    out->snapshots++;
    out->snapshots_late += late ? 1 : 0;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* llama.cpp: where states may be taken, ascending; those that must be far from the last one are marked. */
static uint32_t read_llama(llama_policy *p, cairn_copy *slot, const cairn_policy_view *view, uint32_t from,
                           cairn_policy_outcome *out)
{
    uint32_t places[USER_STARTS_MAX + 3];
    uint32_t count = 0;
    uint32_t prompt = view->request->prompt_tokens;
    uint32_t last_user = 0;
    for (uint32_t i = 0; i < view->request->count_boundaries && count < USER_STARTS_MAX; i++) {
        const cairn_boundary *b = &view->boundaries[i];
        bool user = (b->kinds & CAIRN_BOUNDARY_MESSAGE_START) != 0 && b->role == CAIRN_ROLE_USER;
        if (user) {
            places[count++] = b->position;
        }
        if ((b->kinds & CAIRN_BOUNDARY_LAST_USER) != 0) {
            last_user = b->position;
        }
    }
    uint32_t far_end = prompt > NEAR_END + UBATCH_TOKENS ? prompt - (NEAR_END + UBATCH_TOKENS) : 0;
    uint32_t near_end = prompt > NEAR_END ? prompt - NEAR_END : 0;
    places[count++] = far_end;
    places[count++] = near_end;
    qsort(places, count, sizeof *places, by_value);
    uint32_t before = out->snapshots;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = places[i];
        if (at <= from || at >= prompt || (i > 0 && at == places[i - 1])) {
            continue;
        }
        bool always = at == last_user || at == far_end || at == near_end;
        uint32_t last = slot->count > 0 ? slot->points[slot->count - 1] : 0;
        if (always || slot->count == 0 || at - last > p->rule.min_step) {
            take(p, slot, at, view->index, false, out);
        }
    }
    return out->snapshots - before;
}

static void take_apart(llama_policy *p, cairn_copy *slot, uint32_t at, uint64_t task, bool late,
                       cairn_policy_outcome *out)
{
    uint32_t last = slot->count > 0 ? slot->points[slot->count - 1] : 0;
    if (at >= last + IK_GAP_MIN) {
        take(p, slot, at, task, late, out);
    }
}

static uint32_t read_ik(llama_policy *p, cairn_copy *slot, const cairn_policy_view *view, uint32_t from,
                        cairn_policy_outcome *out)
{
    uint32_t prompt = view->request->prompt_tokens;
    uint32_t near_end = prompt > IK_NEAR_END ? prompt - IK_NEAR_END : 0;
    uint32_t cuts = 0;
    for (uint32_t at = from + IK_INTERVAL; at < near_end; at += IK_INTERVAL) {
        take_apart(p, slot, at, view->index, false, out);
    }
    if (near_end > from) {
        uint32_t before = out->snapshots;
        take_apart(p, slot, near_end, view->index, false, out);
        cuts = out->snapshots - before;
    }
    uint32_t end = prompt + view->request->answer_tokens;
    for (uint32_t at = prompt + IK_INTERVAL; at < end; at += IK_INTERVAL) {
        take_apart(p, slot, at, view->index, true, out);
    }
    take_apart(p, slot, end, view->index, true, out);
    return cuts;
}

static cairn_status llama_request(void *self, const cairn_policy_view *view,
                                  cairn_policy_outcome *ret_outcome, cairn_error *reterr)
{
    llama_policy *p = self;
    (void)reterr;
    cairn_policy_outcome out = {0};
    cairn_copy *slot = slot_for(p, view);
    uint32_t common = cairn_copy_common(p->setup.w, view, slot);
    if (slot->length > 0 && common < slot->length / 2) {
        ram_save(p, slot, &out);
    }
    if (slot->length == 0 || common < slot->length / 2) {
        ram_load(p, view, slot, &out);
    }
    common = cairn_copy_common(p->setup.w, view, slot);
    out.reused = cairn_copy_serves(p->setup.profile, view, slot, common);
    if (out.reused > 0 && out.reused < slot->length && p->setup.profile->state_bytes > 0) {
        out.restored_bytes += p->setup.profile->state_bytes;
    }
    cairn_copy_cut(slot, out.reused);
    slot->node = view->request->node_answer;
    slot->length = view->request->prompt_tokens + view->request->answer_tokens;
    slot->used = ++p->uses;
    uint32_t cuts =
        p->rule.ik ? read_ik(p, slot, view, out.reused, &out) : read_llama(p, slot, view, out.reused, &out);
    out.batches = cairn_policy_batches(p->setup.profile, out.reused, view->request->prompt_tokens, cuts);
    out.held_bytes = held_bytes(p);
    p->peak = out.held_bytes > p->peak ? out.held_bytes : p->peak;
    out.held_peak = p->peak;
    *ret_outcome = out;
    return CAIRN_OK;
}

static cairn_status llama_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return llama_new(setup, (llama_rule){.points_max = 32, .min_step = 8192}, ret_self, reterr);
}

static cairn_status llama_tuned_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return llama_new(setup, (llama_rule){.points_max = 128, .min_step = 256}, ret_self, reterr);
}

static cairn_status ik_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return llama_new(setup, (llama_rule){.points_max = 32, .ik = true}, ret_self, reterr);
}

const cairn_policy cairn_policy_llama = {
    .name = "llama.cpp",
    .about = "llama.cpp v0.4.0: last user start, user starts 8,192 apart, near the end; 32 a slot; whole "
             "prompts in memory",
    .make = llama_make,
    .request = llama_request,
    .free = llama_free,
};

const cairn_policy cairn_policy_llama_tuned = {
    .name = "llama.cpp-tuned",
    .about = "the same with user starts 256 apart and 128 states a slot",
    .make = llama_tuned_make,
    .request = llama_request,
    .free = llama_free,
};

const cairn_policy cairn_policy_ik = {
    .name = "ik_llama",
    .about =
        "ik_llama.cpp: every 512 tokens, 32 a slot, smallest product of gaps goes; copies in memory assumed",
    .make = ik_make,
    .request = llama_request,
    .free = llama_free,
};
