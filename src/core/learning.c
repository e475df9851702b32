/*
 * learning - see learning.h.
 */
#include "core/learning.h"

#include "core/boundary.h"
#include "core/counts.h"
#include "core/divergence.h"
#include "core/signpost.h"

static float *space_counts(cairn_core *core, uint32_t space)
{
    cairn_space *item = cairn_space_at(&core->tree, space);
    if (item->counts == NULL &&
        cairn_ledger_index_grow(&core->ledger, CAIRN_DIVERGENCE_COUNTS * sizeof(float))) {
        item->counts = cairn_mem_array(core->mem, CAIRN_DIVERGENCE_COUNTS, sizeof(float));
        if (item->counts == NULL) {
            cairn_ledger_index_shrink(&core->ledger, CAIRN_DIVERGENCE_COUNTS * sizeof(float));
        } else {
            (void)cairn_counts_known(core, &item->name, item->counts);
        }
    }
    return item->counts;
}

static cairn_signposts *space_posts(cairn_core *core, uint32_t space)
{
    cairn_space *item = cairn_space_at(&core->tree, space);
    if (item->posts == NULL && cairn_ledger_index_grow(&core->ledger, sizeof *item->posts)) {
        item->posts = cairn_mem_zalloc(core->mem, sizeof *item->posts);
        if (item->posts == NULL) {
            cairn_ledger_index_shrink(&core->ledger, sizeof *item->posts);
        }
    }
    return item->posts;
}

void cairn_learning_forget(cairn_core *core, uint32_t space)
{
    cairn_space *item = cairn_space_at(&core->tree, space);
    if (item->counts != NULL) {
        cairn_mem_array_release(core->mem, item->counts, CAIRN_DIVERGENCE_COUNTS, sizeof(float));
        cairn_ledger_index_shrink(&core->ledger, CAIRN_DIVERGENCE_COUNTS * sizeof(float));
        item->counts = NULL;
    }
    if (item->posts != NULL) {
        cairn_mem_release(core->mem, item->posts, sizeof *item->posts);
        cairn_ledger_index_shrink(&core->ledger, sizeof *item->posts);
        item->posts = NULL;
    }
}

void cairn_learning_recall(cairn_core *core, uint32_t space)
{
    if (core->count_kept > 0 && cairn_counts_known(core, &cairn_space_at(&core->tree, space)->name, NULL)) {
        (void)space_counts(core, space);
    }
}

uint32_t cairn_learning_shared_end(const cairn_prompt *prompt)
{
    for (uint32_t i = 0; i < prompt->count_boundaries; i++) {
        if ((prompt->boundaries[i].kinds & CAIRN_BOUNDARY_SYSTEM_END) != 0) {
            return prompt->boundaries[i].position + 16;
        }
    }
    return prompt->count / 2;
}

void cairn_learning_left(cairn_core *core, const cairn_request *request, uint32_t node)
{
    float *counts = space_counts(core, request->space);
    if (counts != NULL) {
        cairn_divergence_turn(counts, cairn_node_at(&core->tree, node)->turns, false);
    }
}

/* Where no boundary announces the place, the text before it may, the next time. */
static void learn_post(cairn_core *core, const cairn_request *request)
{
    const cairn_prompt *prompt = request->prompt;
    uint32_t place = core->lookup.divergence;
    if (place < CAIRN_SIGNPOST_TOKENS || place >= prompt->count) {
        return;
    }
    uint32_t index = cairn_boundary_after(prompt, place);
    if (index > 0 && place - prompt->boundaries[index - 1].position < CAIRN_SIGNPOST_TOKENS) {
        return;
    }
    cairn_signposts *posts = space_posts(core, request->space);
    if (posts != NULL) {
        cairn_signpost_parted(posts, prompt->tokens, place);
    }
}

/* The conversation goes on here: what it had read beyond is left, and more seldom taken up than a path that ended. */
static void supersede(cairn_core *core, const cairn_request *request, float *counts, uint32_t tip)
{
    cairn_tree *tree = &core->tree;
    uint32_t place = core->lookup.divergence;
    if (place < request->shared_end || cairn_node_at(tree, tip)->end <= place ||
        cairn_node_at(tree, tip)->superseded || place >= request->prompt->count) {
        return;
    }
    if (counts != NULL) {
        cairn_divergence_turn(counts, CAIRN_TURNS_SUPERSEDED, false);
    }
    for (uint32_t i = tip; i != CAIRN_NONE && cairn_node_at(tree, i)->end > place;
         i = cairn_node_at(tree, i)->parent) {
        cairn_node_at(tree, i)->superseded = true;
        cairn_value_dirty(core, i);
    }
}

/*
 * Count where the request parted from the path that ended in `tip`, and whether its conversation parts as it did the turn
 * before.
 */
static void count_parting(const cairn_core *core, cairn_request *request, const cairn_node *tip,
                          float *counts, const cairn_mark *mark)
{
    uint32_t place = core->lookup.divergence;
    cairn_class class = mark != NULL ? cairn_boundary_class(mark->kinds, mark->role) : CAIRN_CLASS_TIP;
    bool inside = mark != NULL && place - mark->position >= CAIRN_SIGNPOST_TOKENS;
    uint32_t distance = mark != NULL ? cairn_boundary_distance(tip->messages, mark->message) : 0;
    cairn_divergence_count(counts, class, distance, inside);
    if (place >= request->shared_end) { /* else it is another conversation on the same beginning */
        request->habit = inside ? CAIRN_HABIT_NONE : cairn_divergence_habit(class, distance);
        cairn_divergence_habit_count(counts, tip->habit, request->habit == tip->habit);
    }
}

void cairn_learning_parted(cairn_core *core, cairn_request *request)
{
    const cairn_lookup *look = &core->lookup;
    cairn_tree *tree = &core->tree;
    if (!request->keep || look->node == CAIRN_NONE || look->divergence == 0) {
        return;
    }
    float *counts = space_counts(core, request->space);
    if (counts != NULL && look->divergence >= request->shared_end) {
        cairn_divergence_turn(counts, cairn_value_turns(cairn_node_at(tree, look->node)), true);
    }
    uint32_t tip_index = cairn_value_tip(tree, look->node);
    const cairn_node *tip = cairn_node_at(tree, tip_index);
    supersede(core, request, counts, tip_index);
    if (counts == NULL) {
        return;
    }
    if (look->divergence == tip->end && look->divergence < request->prompt->count) {
        count_parting(core, request, tip, counts, NULL);
        return;
    }
    learn_post(core, request);
    bool hit = false;
    for (uint32_t i = look->count_nodes; i > 0; i--) {
        for (uint32_t m = cairn_node_at(tree, look->nodes[i - 1])->mark_last; m != CAIRN_NONE;
             m = cairn_mark_at(tree, m)->prev) {
            cairn_mark *mark = cairn_mark_at(tree, m);
            if (mark->position > look->divergence) {
                continue;
            }
            if (!hit && look->divergence - mark->position < CAIRN_SIGNPOST_TOKENS) {
                mark->hits = mark->hits * 0.95f + 1.0f; /* a few tokens behind a place is at it */
                hit = true;
            }
            if (cairn_boundary_class(mark->kinds, mark->role) != CAIRN_CLASS_NONE) {
                count_parting(core, request, tip, counts, mark);
                return;
            }
        }
    }
    cairn_divergence_count(counts, CAIRN_CLASS_NONE, 0, true);
}
