/*
 * describe - what a slot's path is made of, told to a tier that keeps it elsewhere; see core.h. Changes nothing
 * but freshly computed values.
 */
#include <string.h>

#include "core/boundary.h"
#include "core/core_state.h"

bool cairn_core_slot_path_get(const cairn_core *core, uint32_t slot, cairn_core_slot_path *ret_path)
{
    const cairn_slot *item = &core->slots[slot];
    const cairn_cursor *cursor = &core->tree.cursors[slot];
    if (cursor->node == CAIRN_NONE || cursor->position == 0 || item->dirty || item->settling) {
        return false;
    }
    uint32_t space = cairn_node_at(&core->tree, cursor->node)->space;
    *ret_path = (cairn_core_slot_path){.space = cairn_space_at(&core->tree, space)->name,
                                       .length = cursor->position,
                                       .state_set = item->state_set,
                                       .decoded = item->decoded,
                                       .digest = item->digest};
    return true;
}

/* The tokens of the path [0, end) that ends on the edge `from`. */
static void tokens_up(const cairn_core *core, uint32_t from, uint32_t end, cairn_token *out)
{
    for (uint32_t i = from; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        const cairn_node *node = cairn_node_at(&core->tree, i);
        if (end > node->begin) {
            memcpy(out + node->begin, cairn_tree_tokens(&core->tree, node),
                   (size_t)(end - node->begin) * sizeof *out);
        }
        end = node->begin;
    }
}

void cairn_core_slot_tokens(const cairn_core *core, uint32_t slot, cairn_token *out)
{
    const cairn_cursor *cursor = &core->tree.cursors[slot];
    tokens_up(core, cursor->node, cursor->position, out);
}

uint32_t cairn_core_slot_runs(const cairn_core *core, uint32_t slot, uint32_t begin, uint32_t end,
                              cairn_run *runs, uint32_t room)
{
    const cairn_lineage *lineage = &core->slots[slot].lineage;
    uint32_t count = 0;
    for (uint32_t i = cairn_lineage_find(lineage, begin); i < lineage->count && begin < end; i++) {
        cairn_run run = lineage->runs[i];
        run.rows_end = run.rows_end < end ? run.rows_end : end;
        begin = run.rows_end;
        if (count < room) {
            runs[count] = run;
        }
        count++;
    }
    return count;
}

uint32_t cairn_core_slot_states(cairn_core *core, uint32_t slot, cairn_core_path_state *states, uint32_t room)
{
    const cairn_cursor *cursor = &core->tree.cursors[slot];
    uint32_t count = 0;
    for (uint32_t i = cursor->node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        uint32_t m = cairn_node_at(&core->tree, i)->mark_last;
        for (; m != CAIRN_NONE; m = cairn_mark_at(&core->tree, m)->prev) {
            const cairn_mark *mark = cairn_mark_at(&core->tree, m);
            const cairn_state *state =
                mark->state != CAIRN_NONE ? cairn_state_at(&core->tree, mark->state) : NULL;
            if (state == NULL || state->pending || state->doomed || mark->position > cursor->position) {
                continue;
            }
            if (count < room) {
                states[count] =
                    (cairn_core_path_state){.blob = state->blob,
                                            .position = state->position,
                                            .decoded = state->decoded,
                                            .digest = state->digest,
                                            .bytes = state->bytes,
                                            .saving_ms = cairn_value_gain(core, mark->state) * 1e-6,
                                            .boundary = {.position = mark->position,
                                                         .message = mark->message,
                                                         .kinds = mark->kinds,
                                                         .role = mark->role}};
            }
            count++;
        }
    }
    return count;
}

/* Items are numbered from 1: the segments, then, from STATES_FROM on, the states. */
#define STATES_FROM (UINT32_C(1) << 31)

static bool segment_described(const cairn_core *core, uint32_t index, cairn_core_stored *ret_stored,
                              uint32_t *ret_node)
{
    const cairn_segment *segment = cairn_segment_at(&core->tree, index);
    if (!segment->alive || segment->pending || segment->doomed || segment->kept || segment->stored_end != 0) {
        return false;
    }
    uint32_t node = CAIRN_NONE;
    for (uint32_t i = segment->cover_first; i != CAIRN_NONE;
         i = cairn_cover_at(&core->tree, i)->segment_next) {
        const cairn_cover *cover = cairn_cover_at(&core->tree, i);
        node = cover->end == segment->end ? cover->node : node;
    }
    if (node == CAIRN_NONE) { /* the end of its path is not known any more */
        return false;
    }
    *ret_stored = (cairn_core_stored){
        .blob = segment->blob, .rows = true, .begin = segment->begin, .end = segment->end};
    *ret_node = node;
    return true;
}

static bool state_described(cairn_core *core, uint32_t index, cairn_core_stored *ret_stored,
                            uint32_t *ret_node)
{
    const cairn_state *state = cairn_state_at(&core->tree, index);
    if (!state->alive || state->pending || state->doomed || state->kept || state->node == CAIRN_NONE) {
        return false;
    }
    const cairn_mark *mark = cairn_mark_at(&core->tree, state->mark);
    *ret_stored = (cairn_core_stored){
        .blob = state->blob,
        .decoded = state->decoded,
        .begin = state->position,
        .end = state->position,
        .digest = state->digest,
        .saving_ms = cairn_value_gain(core, index) * 1e-6,
        .boundary = {
            .position = mark->position, .message = mark->message, .kinds = mark->kinds, .role = mark->role}};
    *ret_node = state->node;
    return true;
}

uint32_t cairn_core_stored_next(cairn_core *core, uint32_t after, cairn_core_stored *ret_stored)
{
    uint32_t node = CAIRN_NONE, item = 0;
    uint32_t index = after < STATES_FROM ? after : core->tree.segments.high;
    for (; index < core->tree.segments.high && item == 0; index++) {
        item = segment_described(core, index, ret_stored, &node) ? index + 1 : 0;
    }
    index = after > STATES_FROM ? after - STATES_FROM : 0;
    for (; index < core->tree.states.high && item == 0; index++) {
        item = state_described(core, index, ret_stored, &node) ? STATES_FROM + index + 1 : 0;
    }
    if (item != 0) {
        ret_stored->space = cairn_space_at(&core->tree, cairn_node_at(&core->tree, node)->space)->name;
    }
    return item;
}

void cairn_core_stored_tokens(const cairn_core *core, uint32_t item, cairn_token *out)
{
    if (item > STATES_FROM) {
        const cairn_state *state = cairn_state_at(&core->tree, item - STATES_FROM - 1);
        tokens_up(core, state->node, state->position, out);
        return;
    }
    const cairn_segment *segment = cairn_segment_at(&core->tree, item - 1);
    for (uint32_t i = segment->cover_first; i != CAIRN_NONE;
         i = cairn_cover_at(&core->tree, i)->segment_next) {
        const cairn_cover *cover = cairn_cover_at(&core->tree, i);
        if (cover->end == segment->end) {
            tokens_up(core, cover->node, cover->end, out);
            return;
        }
    }
}

uint32_t cairn_core_stored_runs(const cairn_core *core, uint32_t item, cairn_run *runs, uint32_t room)
{
    const cairn_lineage *lineage = &cairn_segment_at(&core->tree, item - 1)->lineage;
    for (uint32_t i = 0; i < lineage->count && i < room; i++) {
        runs[i] = lineage->runs[i];
    }
    return lineage->count;
}

void cairn_core_stored_kept(cairn_core *core, uint32_t item, cairn_blob_id blob, bool kept)
{
    if (item > STATES_FROM) {
        uint32_t index = item - STATES_FROM - 1;
        cairn_state *state = index < core->tree.states.high ? cairn_state_at(&core->tree, index) : NULL;
        if (state != NULL && state->alive && state->blob == blob) {
            state->kept = kept;
        }
    } else if (item > 0 && item - 1 < core->tree.segments.high) {
        cairn_segment *segment = cairn_segment_at(&core->tree, item - 1);
        if (segment->alive && segment->blob == blob) {
            segment->kept = kept;
        }
    }
}

uint64_t cairn_core_cut_digest(const cairn_core *core, const cairn_prompt *prompt, uint32_t position)
{
    uint64_t digest = CAIRN_LINEAGE_SEED;
    uint32_t index = 0;
    uint32_t cut = 0;
    while (cut < position) {
        cut = cairn_boundary_cut(&core->options, prompt, cut, &index);
        digest = cairn_lineage_step(digest, cut);
    }
    return cut == position ? digest : 0;
}
