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

void cairn_core_slot_tokens(const cairn_core *core, uint32_t slot, cairn_token *out)
{
    const cairn_cursor *cursor = &core->tree.cursors[slot];
    uint32_t end = cursor->position;
    for (uint32_t i = cursor->node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        const cairn_node *node = cairn_node_at(&core->tree, i);
        if (end > node->begin) {
            memcpy(out + node->begin, cairn_tree_tokens(&core->tree, node),
                   (size_t)(end - node->begin) * sizeof *out);
        }
        end = node->begin;
    }
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
