/*
 * resume - see resume.h.
 */
#include "core/resume.h"

#include "core/boundary.h"
#include "core/lookup.h"
#include "core/value.h"

/* --- choosing ------------------------------------------------------------------------------------------------ */

/* Rows from `keep` on without a gap: up to where? And how many of [keep, until) come from a donor? */
static uint32_t rows_reach(const cairn_lookup *look, uint32_t keep, uint32_t until, uint32_t self,
                           uint32_t *ret_donated)
{
    uint32_t at = keep;
    uint32_t donated = 0;
    for (uint32_t i = 0; i < look->count_pieces && at < until; i++) {
        const cairn_piece_rows *piece = &look->pieces[i];
        if (piece->end <= at) {
            continue;
        }
        if (piece->begin > at || (piece->segment == CAIRN_NONE && piece->donor == self)) {
            break;
        }
        uint32_t end = piece->end < until ? piece->end : until;
        donated += piece->segment == CAIRN_NONE ? end - at : 0;
        at = end;
    }
    *ret_donated = donated;
    return at;
}

/* Time to save what the slot would lose. */
static double displace_ns(const cairn_core *core, uint32_t slot, uint32_t keep)
{
    const cairn_cursor *cursor = &core->tree.cursors[slot];
    if (cursor->node == CAIRN_NONE || cursor->position <= keep) {
        return 0;
    }
    double lost = (double)(cursor->position - keep);
    double save = lost * (double)core->options.row_bytes * core->costs.move_ns_byte;
    double again = cairn_costs_read(&core->costs, keep, cursor->position);
    save += core->slots[slot].state_set ? core->costs.take_ns : 0;
    double loss = core->options.rows_move && save < again ? save : again;
    /* Memory may lose it again: what is likely to be wanted soon stays. */
    double goes_on = cairn_value_goes_on(core, cursor->node);
    return loss + cairn_value_soon(core, cursor->node, core->slots[slot].used_ns) * goes_on * again;
}

/* What the client hints at decides between slots that are nearly equal, and never against a measured difference. */
static const double HINTED = 0.98;

typedef struct trial {
    const cairn_core *core;
    const cairn_prompt *prompt;
    uint32_t slot;
    uint32_t common; /* rows of the slot that could stay                                            */
    uint64_t used_ns;
} trial;

static void weigh(const trial *t, cairn_choice choice, double work_ns, cairn_choice *best)
{
    choice.slot = t->slot;
    choice.cost_ns = work_ns + cairn_costs_read(&t->core->costs, choice.resume, t->prompt->count) +
                     (choice.live ? 0 : displace_ns(t->core, t->slot, choice.keep));
    choice.cost_ns *= t->prompt->slot_hint == t->slot + 1 ? HINTED : 1;
    bool better = best->slot == CAIRN_NONE || choice.cost_ns < best->cost_ns ||
                  (choice.cost_ns == best->cost_ns && choice.slot != best->slot &&
                   t->used_ns < t->core->slots[best->slot].used_ns);
    if (better) {
        *best = choice;
    }
}

static double load_ns(const cairn_core *core, uint32_t loaded, uint32_t donated)
{
    return ((double)loaded + (double)donated) * (double)core->options.row_bytes * core->costs.move_ns_byte;
}

/* Every stored state that this slot could be given. */
static void try_states(const trial *t, cairn_choice *best)
{
    const cairn_lookup *look = &t->core->lookup;
    uint32_t reach = 0;
    uint32_t donated = 0;
    uint32_t from = CAIRN_NONE;
    for (uint32_t i = 0; i < look->count_candidates; i++) {
        const cairn_candidate *item = &look->candidates[i];
        if (item->refusal != CAIRN_REASON_NONE) {
            continue;
        }
        uint32_t keep = t->common < item->position ? t->common : item->position;
        if (keep < item->position && from != keep) { /* the same for all positions past `common` */
            reach = rows_reach(look, keep, look->limit, t->slot, &donated);
            from = keep;
        }
        uint32_t loaded = item->position - keep;
        if (loaded > 0 && reach < item->position) {
            continue;
        }
        uint32_t given = 0;
        if (loaded > 0 && donated > 0) {
            (void)rows_reach(look, keep, item->position, t->slot, &given);
        }
        double work = t->core->costs.restore_ns + load_ns(t->core, loaded, given);
        weigh(t, (cairn_choice){.resume = item->position, .keep = keep, .state = item->state}, work, best);
    }
}

/* Plain attention: any position does, in exact mode any canonical cut. */
static void try_rows(const trial *t, cairn_choice *best)
{
    const cairn_lookup *look = &t->core->lookup;
    uint32_t donated;
    uint32_t keep = t->common < look->limit ? t->common : look->limit;
    uint32_t reach = rows_reach(look, keep, look->limit, t->slot, &donated);
    const uint32_t ends[] = {keep, reach};
    for (unsigned i = 0; i < 2; i++) {
        uint32_t end = ends[i];
        if (t->prompt->mode == CAIRN_RESUME_EXACT) {
            end = cairn_lookup_canon_before(look, end);
        }
        uint32_t kept = keep < end ? keep : end;
        uint32_t given = 0;
        (void)rows_reach(look, kept, end, t->slot, &given);
        if (end > 0) {
            weigh(t, (cairn_choice){.resume = end, .keep = kept, .state = CAIRN_NONE},
                  load_ns(t->core, end - kept, given), best);
        }
    }
}

static void try_slot(const cairn_core *core, const cairn_prompt *prompt, uint32_t index,
                     const uint32_t *floors, cairn_choice *best)
{
    const cairn_lookup *look = &core->lookup;
    const cairn_slot *slot = &core->slots[index];
    const cairn_cursor *cursor = &core->tree.cursors[index];
    bool exact = prompt->mode == CAIRN_RESUME_EXACT;
    uint32_t common = look->common[index] < look->limit ? look->common[index] : look->limit;
    if (exact) {
        common = cairn_lookup_canonical(look, &slot->lineage, 0, common);
    }
    trial t = {.core = core, .prompt = prompt, .slot = index, .common = common, .used_ns = slot->used_ns};
    weigh(&t, (cairn_choice){.state = CAIRN_NONE}, 0, best);
    if (look->limit == 0) {
        return;
    }
    bool whole = cursor->node != CAIRN_NONE && cursor->position > 0 && cursor->position == common;
    if (whole && slot->state_set && !slot->dirty) {
        const cairn_run *own = exact ? cairn_lookup_canon(look, common) : NULL;
        if (!exact || (own != NULL && own->cut == common && own->digest == slot->digest)) {
            weigh(&t, (cairn_choice){.resume = common, .keep = common, .state = CAIRN_NONE, .live = true}, 0,
                  best);
        }
    }
    if (core->options.trim == CAIRN_TRIM_ANYWHERE) {
        try_rows(&t, best);
    } else {
        try_states(&t, best);
        if (!exact && floors != NULL && common > 0 && common >= floors[index] &&
            core->options.trim == CAIRN_TRIM_WINDOW) {
            weigh(&t, (cairn_choice){.resume = common, .keep = common, .state = CAIRN_NONE}, 0, best);
        }
    }
}

bool cairn_resume_choose(const cairn_core *core, const cairn_prompt *prompt, uint32_t slot,
                         const uint32_t *floors, cairn_choice *ret_choice)
{
    cairn_choice best = {.slot = CAIRN_NONE, .state = CAIRN_NONE};
    for (uint32_t i = 0; i < core->options.slots; i++) {
        if ((slot == CAIRN_SLOT_ANY || slot == i) && core->requests[i].id == 0) {
            try_slot(core, prompt, i, floors, &best);
        }
    }
    *ret_choice = best;
    return best.slot != CAIRN_NONE;
}

/* --- explaining ------------------------------------------------------------------------------------------------ */

/* The furthest stored state past the resume point, and why it was not used. */
static cairn_reason why_not_state(const cairn_core *core, bool exact, const cairn_choice *choice,
                                  uint32_t *ret_position, uint64_t *ret_bytes)
{
    const cairn_lookup *look = &core->lookup;
    for (uint32_t i = look->count_candidates; i > 0; i--) {
        const cairn_candidate *item = &look->candidates[i - 1];
        if (item->position <= choice->resume) {
            break;
        }
        *ret_position = item->position;
        *ret_bytes = 0;
        if (item->refusal != CAIRN_REASON_NONE) {
            return item->refusal;
        }
        uint32_t donated;
        uint32_t keep = look->common[choice->slot];
        if (exact) {
            keep = cairn_lookup_canonical(look, &core->slots[choice->slot].lineage, 0, keep);
        }
        keep = keep < item->position ? keep : item->position;
        uint32_t reach = rows_reach(look, keep, item->position, choice->slot, &donated);
        return reach < item->position ? CAIRN_REASON_ROWS_GONE : CAIRN_REASON_DEARER;
    }
    return CAIRN_REASON_NONE;
}

/* The furthest tombstone past `from`. */
static cairn_reason why_tomb(const cairn_core *core, uint32_t from, uint32_t *ret_position,
                             uint64_t *ret_bytes)
{
    const cairn_lookup *look = &core->lookup;
    for (uint32_t i = look->count_nodes; i > 0; i--) {
        const cairn_node *node = cairn_node_at(&core->tree, look->nodes[i - 1]);
        for (uint32_t m = node->mark_last; m != CAIRN_NONE; m = cairn_mark_at(&core->tree, m)->prev) {
            const cairn_mark *mark = cairn_mark_at(&core->tree, m);
            if (mark->position <= from) {
                return CAIRN_REASON_NONE;
            }
            if (mark->position <= look->limit && mark->tomb != 0 && mark->state == CAIRN_NONE) {
                *ret_position = mark->position;
                *ret_bytes = mark->tomb == CAIRN_REASON_THINNED || mark->tomb == CAIRN_REASON_EVICTED ||
                                     mark->tomb == CAIRN_REASON_NO_ROOM
                                 ? mark->tomb_bytes
                                 : 0;
                return (cairn_reason)mark->tomb;
            }
        }
    }
    return CAIRN_REASON_NONE;
}

static void explain_reason(const cairn_core *core, const cairn_prompt *prompt, const cairn_choice *choice,
                           const uint32_t *floors, cairn_decision *d)
{
    const cairn_lookup *look = &core->lookup;
    uint32_t best_position = look->limit;
    if (prompt->mode == CAIRN_RESUME_OFF) {
        d->reason = CAIRN_REASON_OFF;
        return;
    }
    if (look->pending > look->limit && look->pending > choice->resume) {
        d->reason = CAIRN_REASON_PENDING;
        d->reason_position = look->pending < prompt->count - 1 ? look->pending : prompt->count - 1;
        return;
    }
    if (look->divergence == 0) {
        d->reason = prompt->count > 1 ? CAIRN_REASON_NEW : CAIRN_REASON_NONE;
        return;
    }
    if (prompt->mode == CAIRN_RESUME_EXACT) { /* no cache could do better than the last canonical cut */
        best_position = cairn_lookup_canon_before(look, look->limit);
    }
    if (choice->resume >= best_position) {
        d->reason = CAIRN_REASON_NONE;
        return;
    }
    uint32_t state_position = 0;
    uint32_t tomb_position = 0;
    uint64_t bytes = 0;
    uint64_t tomb_bytes = 0;
    cairn_reason state =
        why_not_state(core, prompt->mode == CAIRN_RESUME_EXACT, choice, &state_position, &bytes);
    cairn_reason tomb = why_tomb(core, choice->resume, &tomb_position, &tomb_bytes);
    d->reason = CAIRN_REASON_NEVER_TAKEN;
    d->reason_position = best_position;
    if (tomb != CAIRN_REASON_NONE && tomb_position >= state_position) {
        d->reason = tomb;
        d->reason_position = tomb_position;
        d->reason_bytes = tomb_bytes;
    } else if (state != CAIRN_REASON_NONE) {
        d->reason = state;
        d->reason_position = state_position;
        d->reason_bytes = bytes;
    } else if (core->options.trim == CAIRN_TRIM_WINDOW && floors != NULL &&
               look->common[choice->slot] > choice->resume &&
               look->common[choice->slot] < floors[choice->slot]) {
        d->reason = CAIRN_REASON_GATE;
        d->reason_position = look->common[choice->slot];
    }
}

void cairn_resume_explain(const cairn_core *core, const cairn_prompt *prompt, const cairn_choice *choice,
                          const uint32_t *floors, cairn_decision *decision)
{
    const cairn_lookup *look = &core->lookup;
    cairn_decision d = {.slot = choice->slot,
                        .prompt_tokens = prompt->count,
                        .states_taken = decision->states_taken,
                        .states_skipped = decision->states_skipped};
    d.divergence = look->divergence;
    d.least = prompt->count > look->divergence ? prompt->count - look->divergence : 1;
    d.resume = choice->resume;
    if (choice->resume > 0) {
        bool moved = choice->state != CAIRN_NONE || choice->keep < choice->resume;
        d.source = moved ? CAIRN_SOURCE_RAM : CAIRN_SOURCE_SLOT;
    }
    if (choice->state != CAIRN_NONE) {
        uint64_t created = cairn_state_at(&core->tree, choice->state)->created_ns;
        d.state_age_ns = core->now_ns > created ? core->now_ns - created : 0;
    }
    cairn_boundary message = cairn_boundary_message_of(prompt, look->divergence);
    d.divergence_message = message.message;
    d.divergence_role = message.role;
    explain_reason(core, prompt, choice, floors, &d);
    *decision = d;
}
