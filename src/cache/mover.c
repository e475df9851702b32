/*
 * mover - see mover.h. Knows the engine's table and the tier, not the core.
 */
#include "cache/mover.h"

/* Reserve room for a save, unless it would take more than was set aside for it. */
static cairn_status reserve(const cairn_mover *mover, cairn_tier_id blob, uint64_t room_bytes,
                            uint64_t bytes_max, uint8_t **ret_room, cairn_error *reterr)
{
    uint64_t held_bytes = room_bytes + cairn_tier_ram_overhead(mover->ram, room_bytes);
    if (held_bytes > bytes_max) {
        return cairn_error_set(reterr, CAIRN_NOSPACE, "cache/mover: save", "%llu bytes into %llu",
                               (unsigned long long)held_bytes, (unsigned long long)bytes_max);
    }
    return cairn_tier_ram_reserve(mover->ram, blob, room_bytes, ret_room, reterr);
}

cairn_status cairn_mover_take(const cairn_mover *mover, const cairn_mover_state *state, uint64_t bytes_max,
                              cairn_moved *ret_moved, cairn_error *reterr)
{
    cairn_engine *engine = mover->engine;
    if (!CAIRN_EXPECT(engine->ops->length(engine, state->slot) == state->length)) {
        return cairn_error_set(reterr, CAIRN_INTERNAL, "cache/mover: take", "slot %u isn't at %u",
                               state->slot, state->length);
    }
    uint64_t size = engine->ops->state_size(engine, state->slot);
    if (size == 0) {
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, "cache/mover: take", "no state at %u",
                               state->length);
    }
    uint8_t *room = NULL;
    cairn_status status = reserve(mover, state->blob, size, bytes_max, &room, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = engine->ops->state_get(engine, state->slot, room, size, reterr);
    if (status != CAIRN_OK) {
        cairn_tier_ram_drop(mover->ram, state->blob);
        return status;
    }
    ret_moved->bytes = size;
    ret_moved->held_bytes = cairn_tier_ram_settle(mover->ram, state->blob, size);
    return CAIRN_OK;
}

/* --- rows ------------------------------------------------------------------------------------------------- */

/* Rows of no bytes stand as this many, all 0. */
enum { HOLLOW_BYTES = 1 };

static bool hollow(cairn_engine *engine, uint32_t begin, uint32_t end)
{
    return engine->ops->rows_size(engine, begin, end).buffer_bytes == 0;
}

cairn_rows_size cairn_mover_rows_size(cairn_engine *engine, uint32_t begin, uint32_t end)
{
    cairn_rows_size size = engine->ops->rows_size(engine, begin, end);
    return size.buffer_bytes > 0 ? size
                                 : (cairn_rows_size){.bytes = HOLLOW_BYTES, .buffer_bytes = HOLLOW_BYTES};
}

// NOLINTNEXTLINE(readability-function-size): as the engine's table has it
cairn_status cairn_mover_rows_export(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                     uint8_t *out, uint64_t out_size, uint64_t *ret_size)
{
    if (hollow(engine, begin, end)) {
        CAIRN_ASSERT(out_size >= HOLLOW_BYTES);
        out[0] = 0;
        *ret_size = HOLLOW_BYTES;
        return CAIRN_OK;
    }
    uint64_t got = 0;
    cairn_status status = engine->ops->rows_export(engine, slot, begin, end, out, out_size, &got, NULL);
    if (status == CAIRN_OK && (got == 0 || got > out_size)) {
        return CAIRN_ENGINE;
    }
    *ret_size = got;
    return status;
}

cairn_status cairn_mover_save_rows(const cairn_mover *mover, const cairn_mover_rows *rows, uint64_t bytes_max,
                                   cairn_moved *ret_moved, cairn_error *reterr)
{
    cairn_engine *engine = mover->engine;
    if (!CAIRN_EXPECT(engine->ops->length(engine, rows->slot) >= rows->end)) {
        return cairn_error_set(reterr, CAIRN_INTERNAL, "cache/mover: save rows", "slot %u is shorter than %u",
                               rows->slot, rows->end);
    }
    cairn_rows_size size = cairn_mover_rows_size(engine, rows->begin, rows->end);
    uint8_t *room = NULL;
    cairn_status status = reserve(mover, rows->blob, size.buffer_bytes, bytes_max, &room, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    uint64_t got = 0;
    status =
        cairn_mover_rows_export(engine, rows->slot, rows->begin, rows->end, room, size.buffer_bytes, &got);
    if (status != CAIRN_OK) {
        cairn_tier_ram_drop(mover->ram, rows->blob);
        return cairn_error_set(reterr, status, "cache/mover: save rows", "[%u, %u)", rows->begin, rows->end);
    }
    ret_moved->bytes = got;
    ret_moved->held_bytes = cairn_tier_ram_settle(mover->ram, rows->blob, got);
    return CAIRN_OK;
}

cairn_status cairn_mover_load_rows(const cairn_mover *mover, const cairn_mover_rows *rows,
                                   cairn_moved *ret_moved, cairn_error *reterr)
{
    cairn_engine *engine = mover->engine;
    if (!CAIRN_EXPECT(engine->ops->length(engine, rows->slot) == rows->use_begin)) {
        return cairn_error_set(reterr, CAIRN_INTERNAL, "cache/mover: load rows", "slot %u isn't at %u",
                               rows->slot, rows->use_begin);
    }
    const uint8_t *bytes = NULL;
    uint64_t size = 0;
    cairn_status status = cairn_tier_ram_pin(mover->ram, rows->blob, &bytes, &size, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    bool empty = hollow(engine, rows->begin, rows->end);
    status = engine->ops->rows_import(engine, rows->slot, rows->begin, rows->end, rows->use_begin,
                                      rows->use_end, bytes, empty ? 0 : size, reterr);
    cairn_tier_ram_unpin(mover->ram, rows->blob);
    ret_moved->bytes = size;
    ret_moved->held_bytes = 0;
    return status;
}

cairn_status cairn_mover_restore(const cairn_mover *mover, const cairn_mover_state *state,
                                 cairn_moved *ret_moved, cairn_error *reterr)
{
    cairn_engine *engine = mover->engine;
    if (!CAIRN_EXPECT(engine->ops->length(engine, state->slot) == state->length)) {
        return cairn_error_set(reterr, CAIRN_INTERNAL, "cache/mover: restore", "slot %u isn't at %u",
                               state->slot, state->length);
    }
    const uint8_t *bytes = NULL;
    uint64_t size = 0;
    cairn_status status = cairn_tier_ram_pin(mover->ram, state->blob, &bytes, &size, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = engine->ops->state_set(engine, state->slot, state->length, bytes, size, reterr);
    cairn_tier_ram_unpin(mover->ram, state->blob);
    ret_moved->bytes = size;
    ret_moved->held_bytes = 0;
    return status;
}
