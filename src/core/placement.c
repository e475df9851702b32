/*
 * placement - see placement.h.
 */
#include "core/placement.h"

#include <math.h>
#include <string.h>

#include "core/boundary.h"
#include "core/chance.h"
#include "core/counts.h"
#include "core/divergence.h"
#include "core/drop.h"
#include "core/eviction.h"
#include "core/lookup.h"
#include "core/plan.h"

/* Cuts nearer than this to one before are not worth a batch. */
enum { NEAR = 8 };

/* Share of the reading time that may be spent on states against unforeseen divergences. */
static const double insurance = 0.02;

/* A state has to save so many times what taking it costs: room is made for it, and other tiers write it. */
static const double worth = 1.3;

/* A message's chance is learned from few requests: a cut at its start is made if it pays with so many times that. */
static const double doubt = 4;

/* --- cuts ------------------------------------------------------------------------------------------------ */

static bool takes_states(const cairn_core *core, const cairn_request *request)
{
    return request->keep && core->options.state_bytes_max > 0 && core->options.trim != CAIRN_TRIM_ANYWHERE;
}

/* Where a repeat of this prompt is to resume: before the last opener, or a few tokens from the end; 0: nowhere. */
static uint32_t tail_of(const cairn_prompt *prompt)
{
    for (uint32_t i = prompt->count_boundaries; i > 0; i--) {
        if ((prompt->boundaries[i - 1].kinds & CAIRN_BOUNDARY_OPENER) != 0) {
            return prompt->boundaries[i - 1].position;
        }
    }
    return prompt->count > NEAR ? prompt->count - 4 : 0;
}

void cairn_placement_prepare(cairn_core *core, cairn_request *request)
{
    const cairn_prompt *prompt = request->prompt;
    const cairn_lookup *look = &core->lookup;
    request->branch = request->tail = request->post = request->walked = 0;
    if (prompt->mode == CAIRN_RESUME_OFF || !request->keep) {
        return;
    }
    if (look->limit > 0 && look->node != CAIRN_NONE) {
        const cairn_node *node = cairn_node_at(&core->tree, look->node);
        bool goes_on = look->divergence < node->end || node->child_first != CAIRN_NONE;
        bool repeat = look->divergence >= prompt->count - 1;
        /* Exact mode comes nearest to the divergence at the last canonical cut before it. */
        uint32_t place =
            prompt->mode == CAIRN_RESUME_EXACT ? cairn_lookup_canon_before(look, look->limit) : look->limit;
        request->branch = goes_on || repeat ? place : 0;
    }
    if (prompt->mode == CAIRN_RESUME_EXACT) {
        return;
    }
    request->tail = tail_of(prompt);
}

/* Would a repeat that resumes at `position` read more than NEAR tokens? */
static bool tail_due(const cairn_request *request, uint32_t position)
{
    return request->tail > position && request->prompt->count - position > NEAR;
}

static uint32_t nearer(uint32_t position, uint32_t extra, uint32_t cut, uint32_t least)
{
    return extra > position && extra < cut && extra - position >= least ? extra : cut;
}

/* A protected place shortly behind an ordinary message start would be too near for a cut of its own: cut there. */
static uint32_t prefer_protected(const cairn_core *core, const cairn_prompt *prompt, uint32_t position,
                                 uint32_t cut)
{
    uint16_t kinds = cairn_boundary_at(prompt, cut).kinds;
    /* The same for an opener of which answered turns keep the beginning only: they part behind it. */
    const uint16_t more = CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_LAST_USER | CAIRN_BOUNDARY_MARK;
    bool opens = (kinds & CAIRN_BOUNDARY_OPENER) != 0 && (kinds & more) == 0;
    if (cut >= prompt->count || (cairn_boundary_protected(kinds) && !opens)) {
        return cut;
    }
    for (uint32_t i = cairn_boundary_after(prompt, cut); i < prompt->count_boundaries; i++) {
        uint32_t place = prompt->boundaries[i].position;
        if (place - cut >= core->options.cut_tokens_min ||
            place - position > core->options.batch_tokens_max) {
            break;
        }
        if (cairn_boundary_protected(prompt->boundaries[i].kinds) &&
            (!opens || (prompt->boundaries[i].kinds & CAIRN_BOUNDARY_THINK_START) != 0)) {
            return place;
        }
    }
    return cut;
}

/*
 * A message that starts too near to the last cut for a canonical one: cut there where that pays. 0: nowhere before `cut`.
 */
static uint32_t near_start(const cairn_core *core, const cairn_request *request, uint32_t cut)
{
    const cairn_prompt *prompt = request->prompt;
    uint32_t node = core->tree.cursors[request->decision.slot].node;
    if (node == CAIRN_NONE || request->space == CAIRN_NONE || !takes_states(core, request)) {
        return 0;
    }
    cairn_outlook outlook = cairn_chance_outlook(core, request);
    uint32_t before = cairn_placement_before(core, node, request->position + 1);
    for (uint32_t i = cairn_boundary_after(prompt, request->position + NEAR - 1);
         i < prompt->count_boundaries; i++) {
        cairn_boundary at = cairn_boundary_at(prompt, prompt->boundaries[i].position);
        if (at.position >= cut) {
            return 0;
        }
        double chance = cairn_boundary_message(at.kinds) ? cairn_chance_start(request, &outlook, at) : 0;
        if (cairn_costs_pays(&core->costs, chance, before, at.position)) {
            return at.position;
        }
    }
    return 0;
}

/* The client's next mark; 0: none. Only a fast plan may cut there: exact cuts depend on the messages alone. */
static uint32_t next_mark(const cairn_prompt *prompt, uint32_t position)
{
    for (uint32_t i = cairn_boundary_after(prompt, position); i < prompt->count_boundaries; i++) {
        if ((prompt->boundaries[i].kinds & CAIRN_BOUNDARY_MARK) != 0) {
            return prompt->boundaries[i].position;
        }
    }
    return 0;
}

/*
 * The first place in (position, end] where a text ends behind which requests part, and a cut pays. Each token is looked at
 * once; what is passed is counted.
 */
static void find_post(cairn_core *core, cairn_request *request, uint32_t end)
{
    const cairn_tree *tree = &core->tree;
    cairn_signposts *posts =
        request->space != CAIRN_NONE ? cairn_space_at(tree, request->space)->posts : NULL;
    if (posts == NULL || !takes_states(core, request)) {
        return;
    }
    if (request->walked < request->position) {
        cairn_signpost_start(&request->walk, request->prompt->tokens, request->position);
        request->walked = request->position;
    }
    uint32_t node = core->tree.cursors[request->decision.slot].node;
    uint32_t before = node != CAIRN_NONE ? cairn_placement_before(core, node, request->position + 1) : 0;
    while (request->post <= request->position && request->walked < end) {
        cairn_signpost *post =
            cairn_signpost_step(posts, &request->walk, request->prompt->tokens[request->walked++]);
        if (post == NULL) {
            continue;
        }
        double chance = cairn_signpost_chance(post);
        post->passed += 1.0f;
        if (cairn_costs_pays(&core->costs, chance, before, request->walked)) {
            request->post = request->walked;
            request->post_chance = chance;
        }
    }
}

/*
 * The canonical cut, or one behind it: a message's start is a cut only where that pays. Each is a call more, and where few
 * tokens take as long as many, that is a lot.
 */
static uint32_t paying_cut(const cairn_core *core, const cairn_request *request, uint32_t cut)
{
    const cairn_prompt *prompt = request->prompt;
    uint32_t node = core->tree.cursors[request->decision.slot].node;
    if (node == CAIRN_NONE || request->space == CAIRN_NONE || !takes_states(core, request)) {
        return cut;
    }
    cairn_outlook outlook = cairn_chance_outlook(core, request);
    uint32_t before = cairn_placement_before(core, node, request->position + 1);
    for (;;) {
        cairn_boundary at = cairn_boundary_at(prompt, cut);
        if (cut >= prompt->count || !cairn_boundary_message(at.kinds) || cairn_boundary_protected(at.kinds)) {
            return cut;
        }
        double chance = doubt * cairn_chance_start(request, &outlook, at);
        if (cairn_costs_pays(&core->costs, chance, before, cut)) {
            return cut;
        }
        uint32_t next = cairn_boundary_cut_past(&core->options, prompt, request->position, cut);
        if (next <= cut) {
            return cut; /* the batch or the grid ends here */
        }
        cut = next;
    }
}

uint32_t cairn_placement_cut(cairn_core *core, cairn_request *request)
{
    uint32_t cut = cairn_boundary_cut(&core->options, request->prompt, request->position, &request->boundary);
    if (request->prompt->mode == CAIRN_RESUME_FAST) {
        cut = paying_cut(core, request, cut);
        cut = prefer_protected(core, request->prompt, request->position, cut);
        uint32_t least = request->position == 0 ? 1 : NEAR;
        cut = nearer(request->position, near_start(core, request, cut), cut, least);
        cut = nearer(request->position, request->tail, cut, tail_due(request, request->position) ? 1 : NEAR);
        cut = nearer(request->position, request->branch, cut, least);
        find_post(core, request, cut);
        cut = nearer(request->position, request->post, cut, least);
        cut = nearer(request->position, next_mark(request->prompt, request->position), cut, least);
    }
    return cut;
}

/* --- marks ------------------------------------------------------------------------------------------------- */

static const uint16_t own_kinds = CAIRN_BOUNDARY_BRANCH | CAIRN_BOUNDARY_ANSWER_END;

static void marks_of_node(cairn_core *core, const cairn_prompt *prompt, uint32_t node, uint32_t from,
                          uint32_t to)
{
    cairn_tree *tree = &core->tree;
    uint32_t begin = cairn_node_at(tree, node)->begin;
    uint32_t end = cairn_node_at(tree, node)->end;
    from = from > begin ? from : begin;
    to = to < end ? to : end;
    for (uint32_t m = cairn_node_at(tree, node)->mark_first; m != CAIRN_NONE;
         m = cairn_mark_at(tree, m)->next) {
        cairn_mark *mark = cairn_mark_at(tree, m);
        if (mark->position > from && mark->position <= to) {
            mark->kinds &= (uint16_t) ~(CAIRN_BOUNDARY_LAST_USER | CAIRN_BOUNDARY_OPENER);
        }
    }
    uint32_t hint = cairn_node_at(tree, node)->mark_first;
    for (uint32_t i = cairn_boundary_after(prompt, from); i < prompt->count_boundaries; i++) {
        uint32_t position = prompt->boundaries[i].position;
        if (position > to) {
            return;
        }
        while (hint != CAIRN_NONE && cairn_mark_at(tree, hint)->position < position) {
            hint = cairn_mark_at(tree, hint)->next;
        }
        bool there = hint != CAIRN_NONE && cairn_mark_at(tree, hint)->position == position;
        uint32_t m = there ? hint : cairn_tree_mark(tree, node, position, true);
        if (m == CAIRN_NONE) {
            return;
        }
        cairn_boundary sum = cairn_boundary_at(prompt, position);
        cairn_mark *mark = cairn_mark_at(tree, m);
        mark->kinds = (uint16_t)((mark->kinds & own_kinds) | sum.kinds);
        mark->role = sum.role;
        mark->message = sum.message;
    }
}

void cairn_placement_marks(cairn_core *core, const cairn_request *request, uint32_t slot, uint32_t from,
                           uint32_t to)
{
    for (uint32_t i = core->tree.cursors[slot].node; i != CAIRN_NONE;
         i = cairn_node_at(&core->tree, i)->parent) {
        if (cairn_node_at(&core->tree, i)->end <= from) {
            return;
        }
        marks_of_node(core, request->prompt, i, from, to);
    }
}

/* --- taking ------------------------------------------------------------------------------------------------------ */

uint32_t cairn_placement_before(const cairn_core *core, uint32_t node, uint32_t position)
{
    const cairn_tree *tree = &core->tree;
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        if (cairn_node_at(tree, i)->count_states == 0) {
            continue;
        }
        for (uint32_t m = cairn_node_at(tree, i)->mark_last; m != CAIRN_NONE;
             m = cairn_mark_at(tree, m)->prev) {
            const cairn_mark *mark = cairn_mark_at(tree, m);
            if (mark->position < position && mark->state != CAIRN_NONE &&
                !cairn_state_at(tree, mark->state)->doomed) {
                return mark->position;
            }
        }
    }
    return 0;
}

static void note_tomb(cairn_core *core, uint32_t node, uint32_t position, cairn_reason reason)
{
    uint32_t m = cairn_tree_mark(&core->tree, node, position, true);
    if (m != CAIRN_NONE && cairn_mark_at(&core->tree, m)->state == CAIRN_NONE) {
        cairn_mark_at(&core->tree, m)->tomb = (uint8_t)reason;
        cairn_mark_at(&core->tree, m)->tomb_bytes = core->ledger.bytes_max + core->options.state_bytes_max;
    }
}

/* Is there a state here already that is as good? One of other cuts gives way to an exact one. */
static bool there_already(cairn_core *core, const cairn_request *request, uint32_t slot, uint32_t mark)
{
    uint32_t state = mark != CAIRN_NONE ? cairn_mark_at(&core->tree, mark)->state : CAIRN_NONE;
    if (state == CAIRN_NONE) {
        return false;
    }
    const cairn_state *item = cairn_state_at(&core->tree, state);
    if (request->prompt->mode != CAIRN_RESUME_EXACT || item->digest == core->slots[slot].digest ||
        item->pins > 0 || item->pending || item->doomed) {
        return true;
    }
    cairn_drop_state(core, state, CAIRN_REASON_CUTS);
    return false;
}

/* States on the path that ends in `node`. */
static uint32_t held_on_path(const cairn_core *core, uint32_t node)
{
    uint32_t held = 0;
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        for (uint32_t m = cairn_node_at(&core->tree, i)->mark_first; m != CAIRN_NONE;
             m = cairn_mark_at(&core->tree, m)->next) {
            held += cairn_mark_at(&core->tree, m)->state != CAIRN_NONE ? 1 : 0;
        }
    }
    return held;
}

/* Would giving up the state at the cursor leave a gap up to `next` that law 12 does not allow? */
static bool must_take(const cairn_core *core, uint32_t node, uint32_t position, uint32_t next)
{
    uint32_t gap = next - cairn_placement_before(core, node, position);
    uint32_t held = held_on_path(core, node);
    return gap > 512 && held > 0 && gap > 2 * (uint64_t)next / held;
}

/* Take, dropping what is worth less; or say that there was no room. `next`: where the next state could be. */
static void take(cairn_core *core, cairn_request *request, uint32_t slot, double gain_ns, uint32_t next)
{
    cairn_cursor at = core->tree.cursors[slot];
    uint32_t m = cairn_tree_mark(&core->tree, at.node, at.position, false);
    bool means = m != CAIRN_NONE &&
                 (cairn_mark_at(&core->tree, m)->kinds != 0 || cairn_mark_at(&core->tree, m)->hits > 0);
    double density = (means ? CAIRN_LIVE_WORTH : 1) *
                     cairn_value_density(core, at.node, gain_ns, core->now_ns, core->options.state_bytes_max);
    if (cairn_plan_take(core, slot, request, density) ||
        (must_take(core, at.node, at.position, next) && cairn_plan_take(core, slot, request, INFINITY))) {
        request->decision.states_taken++;
        uint32_t mark = cairn_tree_mark(&core->tree, at.node, at.position, false);
        if (request->prompt->pin && mark != CAIRN_NONE &&
            (cairn_mark_at(&core->tree, mark)->kinds & CAIRN_BOUNDARY_SYSTEM_END) != 0) {
            cairn_state_at(&core->tree, cairn_mark_at(&core->tree, mark)->state)->anchor_pin = true;
        }
        return;
    }
    request->decision.states_skipped++;
    core->takes_skipped++;
    note_tomb(core, at.node, at.position, CAIRN_REASON_NO_ROOM);
}

/* A text ends here behind which requests parted elsewhere: as if some had parted here. */
static void expect_parting(cairn_core *core, uint32_t node, uint32_t position, double chance)
{
    uint32_t m = cairn_tree_mark(&core->tree, node, position, true);
    if (m != CAIRN_NONE && cairn_mark_at(&core->tree, m)->hits < 1.0f) {
        cairn_mark_at(&core->tree, m)->hits = (float)(2.0 * chance);
    }
}

/* What this place means; a state here serves what begins a few tokens later, too, at no cost of a cut. */
static cairn_boundary meaning_at(const cairn_prompt *prompt, uint32_t position)
{
    cairn_boundary at = cairn_boundary_at(prompt, position);
    uint32_t follows = cairn_boundary_after(prompt, position);
    if (follows < prompt->count_boundaries && prompt->boundaries[follows].position - position < NEAR) {
        at.kinds |= prompt->boundaries[follows].kinds;
    }
    return at;
}

/* The request parted here from what was known: the place is a branch point. */
static void note_branch(cairn_core *core, uint32_t node, uint32_t position)
{
    uint32_t m = cairn_tree_mark(&core->tree, node, position, true);
    if (m != CAIRN_NONE) {
        cairn_mark_at(&core->tree, m)->kinds |= CAIRN_BOUNDARY_BRANCH;
        cairn_mark_at(&core->tree, m)->hits += 1;
    }
}

void cairn_placement_reached(cairn_core *core, cairn_request *request, uint32_t slot)
{
    cairn_tree *tree = &core->tree;
    cairn_cursor at = tree->cursors[slot];
    uint32_t position = request->position;
    if (!takes_states(core, request) || at.node == CAIRN_NONE || at.position != position || position == 0) {
        return;
    }
    cairn_value_dirty(core, at.node); /* the path is longer: the gap after its last state is wider */
    if (position == request->branch) {
        note_branch(core, at.node, position);
    }
    uint32_t mark = cairn_tree_mark(tree, at.node, position, false);
    if (there_already(core, request, slot, mark)) {
        return;
    }
    uint32_t before = cairn_placement_before(core, at.node, position);
    uint32_t index = request->boundary;
    uint32_t next = position < request->prompt->count
                        ? cairn_boundary_cut(&core->options, request->prompt, position, &index)
                        : request->prompt->count;
    cairn_boundary means = meaning_at(request->prompt, position);
    cairn_outlook outlook = cairn_chance_outlook(core, request);
    double chance =
        cairn_chance_at(core, request, &outlook,
                        &(cairn_chance_place){.mark = mark, .before = before, .next = next, .means = means});
    if (position == request->post) {
        expect_parting(core, at.node, position, request->post_chance);
    }
    double reading = cairn_costs_read(&core->costs, before, position);
    double gain = chance * reading;
    bool starts = cairn_boundary_message(means.kinds); /* edits start where messages do */
    double lasting = starts ? cairn_chance_start(request, &outlook, means) : 0;
    bool pays = (lasting > chance ? lasting : chance) * reading > worth * core->costs.take_ns;
    bool insured = core->costs.take_ns <= insurance * cairn_divergence_unforeseen(&outlook) * reading;
    /* Rather at the message start that comes next, as long as the gap stays under the bound of law 12. */
    bool better = !starts && next - before <= 512 &&
                  cairn_boundary_message(cairn_boundary_at(request->prompt, next).kinds);
    bool needed = position == request->branch || (position == request->tail && tail_due(request, before));
    if (position - before < NEAR && before > 0 && !needed) {
        return;
    }
    if (pays || (insured && !better)) {
        take(core, request, slot, gain, next);
    } else {
        request->decision.states_skipped++;
        core->takes_skipped++;
    }
}

/* The signpost that these tokens of the answer end with, or NULL. */
static cairn_signpost *post_in_answer(cairn_core *core, cairn_request *request, const cairn_token *tokens,
                                      uint32_t count)
{
    cairn_signposts *posts = cairn_space_at(&core->tree, request->space)->posts;
    if (posts == NULL) {
        return NULL;
    }
    uint32_t begin = request->position - count;
    if (request->walked != begin) {
        cairn_signpost_start(&request->walk, request->prompt->tokens, request->prompt->count);
    }
    cairn_signpost *post = NULL;
    for (uint32_t i = 0; i < count; i++) {
        post = cairn_signpost_step(posts, &request->walk, tokens[i]);
        if (post != NULL) {
            post->passed += 1.0f;
        }
    }
    request->walked = request->position;
    return post;
}

void cairn_placement_answered(cairn_core *core, cairn_request *request, uint32_t slot,
                              const cairn_token *tokens, uint32_t count)
{
    cairn_cursor at = core->tree.cursors[slot];
    if (!takes_states(core, request) || at.node == CAIRN_NONE || at.position != request->position ||
        request->prompt->mode != CAIRN_RESUME_FAST) {
        return;
    }
    const cairn_signpost *post = post_in_answer(core, request, tokens, count);
    bool due = request->position - request->answer_state >= core->options.grid_tokens;
    if (!due && post == NULL) {
        return;
    }
    uint32_t mark = cairn_tree_mark(&core->tree, at.node, at.position, false);
    if (mark != CAIRN_NONE && cairn_mark_at(&core->tree, mark)->state != CAIRN_NONE) {
        return;
    }
    uint32_t before = cairn_placement_before(core, at.node, at.position);
    double reading = cairn_costs_read(&core->costs, before, at.position);
    double chance = post != NULL ? cairn_signpost_chance(post) : 0;
    chance = due && chance < 0.05 ? 0.05 : chance;
    double gain = chance * reading;
    bool insured = due && core->costs.take_ns <= insurance * reading;
    request->answer_state = due ? request->position : request->answer_state;
    if (gain > core->costs.take_ns || insured) {
        if (post != NULL) {
            expect_parting(core, at.node, at.position, chance);
        }
        take(core, request, slot, gain, at.position + core->options.grid_tokens);
    }
}

/* --- rows -------------------------------------------------------------------------------------------------------------- */

uint32_t cairn_placement_segment_end(const cairn_core *core, uint32_t node, uint32_t begin, uint32_t end,
                                     uint32_t tokens)
{
    uint32_t stop = end - begin > tokens + tokens / 2 ? begin + tokens : end;
    for (uint32_t i = node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        if (cairn_node_at(&core->tree, i)->end <= begin) {
            break;
        }
        for (uint32_t m = cairn_node_at(&core->tree, i)->mark_first; m != CAIRN_NONE;
             m = cairn_mark_at(&core->tree, m)->next) {
            const cairn_mark *mark = cairn_mark_at(&core->tree, m);
            if ((mark->kinds & CAIRN_BOUNDARY_SYSTEM_END) != 0 && mark->position > begin &&
                mark->position < stop) {
                stop = mark->position;
            }
        }
        uint32_t node_end = cairn_node_at(&core->tree, i)->end;
        if (i != node && node_end > begin && node_end < stop && node_end - begin >= tokens / 8) {
            stop = node_end; /* where another path branches off */
        }
    }
    return stop;
}
