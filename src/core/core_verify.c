/*
 * core_verify - the core's invariants, checked the slow way: the ledger's sums, that every state's rows
 * are somewhere, that slots and histories agree, that pins are those of living preparations.
 */
#include "core/core_state.h"

static cairn_status wrong(cairn_error *reterr, const char *what, uint64_t item)
{
    return cairn_error_set(reterr, CAIRN_INVALID, "core/verify", "%s (item %llu)", what,
                           (unsigned long long)item);
}

#define CHECK(condition, item)                        \
    do {                                              \
        if (!(condition)) {                           \
            return wrong(reterr, #condition, (item)); \
        }                                             \
    } while (0)

static cairn_status verify_ledger(const cairn_core *core, cairn_error *reterr)
{
    const cairn_tree *tree = &core->tree;
    uint64_t held_states = 0;
    uint64_t held_rows = 0;
    uint64_t reserved = 0;
    uint32_t writing_rows = 0;
    for (uint32_t i = 0; i < tree->states.high; i++) {
        const cairn_state *state = cairn_state_at(tree, i);
        if (state->alive) {
            held_states += state->pending ? 0 : state->bytes;
            reserved += state->pending ? state->bytes : 0;
            CHECK(!state->chosen, i);
        }
    }
    for (uint32_t i = 0; i < tree->segments.high; i++) {
        const cairn_segment *segment = cairn_segment_at(tree, i);
        if (segment->alive) {
            held_rows += segment->pending ? 0 : segment->bytes;
            reserved += segment->pending ? segment->bytes : 0;
            writing_rows += segment->pending && !segment->fetching ? 1 : 0;
            CHECK(!segment->chosen, i);
            CHECK(segment->count_covers > 0 || segment->doomed, i);
        }
    }
    const cairn_ledger *ledger = &core->ledger;
    CHECK(ledger->held_state_bytes == held_states, held_states);
    CHECK(ledger->held_row_bytes == held_rows, held_rows);
    CHECK(ledger->reserved_bytes == reserved, reserved);
    CHECK(ledger->buffer_users == writing_rows, writing_rows);
    return CAIRN_OK;
}

static cairn_status verify_states(const cairn_core *core, cairn_error *reterr)
{
    const cairn_tree *tree = &core->tree;
    for (uint32_t i = 0; i < tree->states.high; i++) {
        const cairn_state *state = cairn_state_at(tree, i);
        if (!state->alive || state->doomed) {
            continue;
        }
        CHECK(state->node != CAIRN_NONE, i);
        CHECK(state->blob != 0 && state->bytes > 0, i);
        uint32_t end = state->position;
        for (uint32_t n = state->node; n != CAIRN_NONE; n = cairn_node_at(tree, n)->parent) {
            uint32_t begin = cairn_node_at(tree, n)->begin;
            CHECK(cairn_tree_missing(tree, n, begin, end) == end, i);
            end = begin;
        }
    }
    return CAIRN_OK;
}

static cairn_status verify_slots(const cairn_core *core, cairn_error *reterr)
{
    for (uint32_t i = 0; i < core->options.slots; i++) {
        const cairn_slot *slot = &core->slots[i];
        const cairn_cursor *cursor = &core->tree.cursors[i];
        const cairn_request *request = &core->requests[i];
        uint32_t rows = slot->lineage.count > 0 ? slot->lineage.runs[slot->lineage.count - 1].rows_end : 0;
        CHECK(rows == cursor->position, i);
        for (uint32_t j = 0; j < slot->lineage.count; j++) {
            const cairn_run *run = &slot->lineage.runs[j];
            CHECK(run->cut >= run->rows_end, i);
            CHECK(j == 0 || slot->lineage.runs[j - 1].rows_end < run->rows_end, i);
        }
        CHECK(request->id != 0 || (!slot->settling && request->count_pins == 0), i);
        if (request->id != 0 && request->keep && cursor->node != CAIRN_NONE) {
            CHECK(cursor->position == request->position, i);
        }
    }
    return CAIRN_OK;
}

static cairn_status verify_pins(const cairn_core *core, cairn_error *reterr)
{
    uint64_t named = 0;
    uint64_t counted = 0;
    for (uint32_t i = 0; i < core->options.slots; i++) {
        named += core->requests[i].count_pins;
    }
    for (uint32_t i = 0; i < core->tree.states.high; i++) {
        const cairn_state *state = cairn_state_at(&core->tree, i);
        counted += state->alive ? state->pins : 0;
    }
    for (uint32_t i = 0; i < core->tree.segments.high; i++) {
        const cairn_segment *segment = cairn_segment_at(&core->tree, i);
        counted += segment->alive ? segment->pins : 0;
    }
    CHECK(named == counted, named);
    return CAIRN_OK;
}

cairn_status cairn_core_verify(const cairn_core *core, cairn_error *reterr)
{
    cairn_status status = cairn_tree_verify(&core->tree, reterr);
    status = status == CAIRN_OK ? verify_ledger(core, reterr) : status;
    status = status == CAIRN_OK ? verify_states(core, reterr) : status;
    status = status == CAIRN_OK ? verify_slots(core, reterr) : status;
    return status == CAIRN_OK ? verify_pins(core, reterr) : status;
}
