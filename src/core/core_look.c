/*
 * core_look - the core seen from outside: probing, numbers, the walk and the picture for people. Nothing
 * here changes what the core will do.
 */
#include <stdio.h>
#include <string.h>

#include "core/boundary.h"
#include "core/core.h"
#include "core/lookup.h"
#include "core/resume.h"

void cairn_core_stats_get(const cairn_core *core, cairn_core_stats *ret_stats)
{
    const cairn_tree *tree = &core->tree;
    cairn_core_stats s = {.ram_bytes = cairn_ledger_sum(&core->ledger)};
    s.ram_bytes_peak = core->ledger.peak_bytes;
    s.ram_bytes_max = core->ledger.bytes_max;
    s.index_bytes = core->ledger.index_bytes;
    s.state_bytes = core->ledger.held_state_bytes;
    s.row_bytes = core->ledger.held_row_bytes;
    s.reserved_bytes = core->ledger.reserved_bytes + core->ledger.buffer_bytes;
    s.states = tree->states.count;
    s.segments = tree->segments.count;
    s.namespaces = tree->spaces.count;
    s.nodes = tree->nodes.count;
    s.tokens = tree->count_tokens;
    s.requests = core->count_requests;
    s.drops_states = core->drops_states;
    s.drops_segments = core->drops_segments;
    s.takes_skipped = core->takes_skipped;
    *ret_stats = s;
}

cairn_status cairn_core_probe(cairn_core *core, const cairn_prompt *prompt, uint64_t now_ns,
                              cairn_decision *ret_decision, cairn_error *reterr)
{
    if (prompt == NULL || prompt->count == 0 || prompt->tokens == NULL) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/probe", "no prompt");
    }
    uint64_t before_ns = core->now_ns;
    core->now_ns = now_ns > before_ns ? now_ns : before_ns;
    cairn_choice choice = {.slot = CAIRN_NONE, .state = CAIRN_NONE};
    bool found = cairn_lookup_fill(core, prompt, NULL);
    if (found && !cairn_resume_choose(core, prompt, CAIRN_SLOT_ANY, NULL, &choice)) {
        cairn_request_id id = core->requests[0].id; /* all are busy: what would an empty slot get? */
        uint32_t common = core->lookup.common[0];
        core->requests[0].id = 0;
        core->lookup.common[0] = 0;
        (void)cairn_resume_choose(core, prompt, 0, NULL, &choice);
        core->requests[0].id = id;
        core->lookup.common[0] = common;
    }
    if (found) {
        *ret_decision = (cairn_decision){0};
        cairn_resume_explain(core, prompt, &choice, NULL, ret_decision);
    }
    core->now_ns = before_ns;
    return found ? CAIRN_OK : cairn_error_set(reterr, CAIRN_NOMEM, "core/probe", NULL);
}

/* --- walking --------------------------------------------------------------------------------------------- */

static cairn_core_node describe(const cairn_core *core, uint32_t index, uint32_t depth)
{
    const cairn_tree *tree = &core->tree;
    const cairn_node *node = cairn_node_at(tree, index);
    cairn_core_node out = {.depth = depth, .begin = node->begin, .end = node->end, .slot = CAIRN_SLOT_ANY};
    for (uint32_t m = node->mark_first; m != CAIRN_NONE; m = cairn_mark_at(tree, m)->next) {
        uint32_t state = cairn_mark_at(tree, m)->state;
        if (state != CAIRN_NONE) {
            const cairn_state *item = cairn_state_at(tree, state);
            if (out.count_states < sizeof out.states / sizeof out.states[0]) {
                out.states[out.count_states] = item->position;
                out.states_ms[out.count_states] = (float)(item->gain_ns * 1e-6);
            }
            out.count_states++;
            out.state_bytes += item->bytes;
            out.value_ms += item->gain_ns * 1e-6;
        }
    }
    uint32_t at = node->begin;
    uint32_t live_to = node->begin;
    for (uint32_t i = 0; i < tree->count_cursors; i++) {
        if (tree->cursors[i].node == index) {
            out.slot = i;
            live_to = tree->cursors[i].position > live_to ? tree->cursors[i].position : live_to;
        }
    }
    if (cairn_tree_live(tree, index, node->end)) {
        live_to = node->end;
    }
    out.rows_covered = live_to - at;
    for (uint32_t c = node->cover_first; c != CAIRN_NONE; c = cairn_cover_at(tree, c)->next) {
        const cairn_cover *cover = cairn_cover_at(tree, c);
        const cairn_segment *segment = cairn_segment_at(tree, cover->segment);
        uint32_t from = cover->begin > live_to ? cover->begin : live_to;
        out.rows_covered += cover->end > from ? cover->end - from : 0;
        out.row_bytes += segment->bytes * (cover->end - cover->begin) / (segment->end - segment->begin);
    }
    out.used_ns = node->used_ns;
    return out;
}

void cairn_core_walk(const cairn_core *core, const cairn_namespace *space, cairn_core_visit visit, void *ctx)
{
    const cairn_tree *tree = &core->tree;
    uint32_t index = cairn_tree_space((cairn_tree *)tree, space, false);
    if (index == CAIRN_NONE) {
        return;
    }
    uint32_t root = cairn_space_at(tree, index)->root;
    uint32_t depth = 0;
    for (uint32_t at = root; at != CAIRN_NONE; at = cairn_tree_next(tree, root, at, true, &depth)) {
        cairn_core_node node = describe(core, at, depth);
        if (!visit(ctx, &node)) {
            return;
        }
    }
}

uint32_t cairn_core_beside(const cairn_core *core, const cairn_namespace *space, const cairn_token *tokens,
                           uint32_t count, uint32_t *ret_position, cairn_token *out, uint32_t room)
{
    const cairn_tree *tree = &core->tree;
    uint32_t index = cairn_tree_space((cairn_tree *)tree, space, false);
    *ret_position = 0;
    if (index == CAIRN_NONE) {
        return 0;
    }
    uint32_t at = CAIRN_NONE;
    uint32_t position = cairn_tree_match(tree, cairn_space_at(tree, index)->root, tokens, count, &at);
    *ret_position = position;
    uint32_t written = 0;
    while (at != CAIRN_NONE && written < room) {
        const cairn_node *node = cairn_node_at(tree, at);
        uint32_t left = node->end - position;
        uint32_t take = left < room - written ? left : room - written;
        if (take > 0) {
            memcpy(out + written, cairn_tree_tokens(tree, node) + (position - node->begin),
                   (size_t)take * sizeof *out);
        }
        written += take;
        position += take;
        at = node->child_recent != CAIRN_NONE ? node->child_recent : node->child_first;
    }
    return written;
}

static bool draw(void *ctx, const cairn_core_node *node)
{
    FILE *file = ctx;
    (void)fprintf(file, "%*s[%u, %u)", (int)(node->depth * 2), "", node->begin, node->end);
    if (node->count_states > 0) {
        (void)fprintf(file, "  states");
        for (uint32_t i = 0; i < node->count_states && i < sizeof node->states / sizeof node->states[0];
             i++) {
            (void)fprintf(file, " %u", node->states[i]);
        }
    }
    if (node->rows_covered > 0) {
        (void)fprintf(file, "  rows %u", node->rows_covered);
    }
    if (node->slot != CAIRN_SLOT_ANY) {
        (void)fprintf(file, "  slot %u", node->slot);
    }
    (void)fprintf(file, "\n");
    return true;
}

void cairn_core_dump(const cairn_core *core, void *file)
{
    for (uint32_t i = 0; i < core->tree.spaces.high; i++) {
        if (cairn_space_at(&core->tree, i)->alive) {
            (void)fprintf(file, "namespace %u\n", i);
            cairn_core_walk(core, &cairn_space_at(&core->tree, i)->name, draw, file);
        }
    }
}
