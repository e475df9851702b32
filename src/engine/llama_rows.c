/* Rows out and in: see llama_rows.h for how a range of rows is made into a sequence of its own. */
#include "engine/llama_rows.h"

#include <string.h>

#include "engine/llama_inside.h"

/* libllama's mark and the sequence's number, in front of every state. */
enum { STATE_HEAD_BYTES = 8 };

static bool rows_are_bytes(const llama_engine *e)
{
    return e->split != LLAMA_SPLIT_CELL_ONLY && e->split != LLAMA_SPLIT_WHOLE;
}

static size_t full_size(llama_slot *slot)
{
    return llama_state_seq_get_size_ext(slot->context, LLAMA_SEQ_SCRATCH, 0);
}

/* What follows the rows in scratch's full state and is not kept. */
static size_t loose_tail(const llama_engine *e, llama_slot *slot)
{
    if (e->split != LLAMA_SPLIT_WINDOW)
        return 0;
    size_t partial =
        llama_state_seq_get_size_ext(slot->context, LLAMA_SEQ_SCRATCH, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    return partial > STATE_HEAD_BYTES ? partial - STATE_HEAD_BYTES : 0;
}

/* Empty the scratch sequence. Whole sequences can always be removed. */
static void scratch_clear(llama_slot *slot)
{
    bool removed = llama_memory_seq_rm(slot->memory, LLAMA_SEQ_SCRATCH, -1, -1);
    CAIRN_ASSERT(removed);
}

/* Mark rows [begin, end) of live as scratch's, without a recurrent cell. */
static cairn_status scratch_mark(llama_engine *e, llama_slot *slot, uint32_t begin, uint32_t end,
                                 cairn_error *reterr)
{
    llama_memory_seq_cp(slot->memory, LLAMA_SEQ_LIVE, LLAMA_SEQ_SCRATCH, (llama_pos)begin, (llama_pos)end);
    return cairn_llama_slot_detach(e, slot, LLAMA_SEQ_SCRATCH, reterr);
}

cairn_status cairn_llama_rows_measure(llama_engine *e, cairn_error *reterr)
{
    uint64_t bytes[3];
    llama_slot *slot = &e->slots[0];
    e->rows = (llama_rows_shape){0, 0, 0};
    if (!rows_are_bytes(e))
        return CAIRN_OK;
    CAIRN_ASSERT(slot->length >= 3);
    for (uint32_t i = 0; i < 3; i++) {
        cairn_status status = scratch_mark(e, slot, 0, i + 1, reterr);
        bytes[i] = full_size(slot) - loose_tail(e, slot);
        scratch_clear(slot);
        if (status != CAIRN_OK)
            return status;
    }
    if (bytes[0] <= STATE_HEAD_BYTES || bytes[1] <= bytes[0] || bytes[2] - bytes[1] != bytes[1] - bytes[0])
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, "engine/rows: measure",
                               "the size of rows is not linear in their count");
    e->rows.row_bytes = bytes[1] - bytes[0];
    e->rows.base_bytes = bytes[0] - e->rows.row_bytes;
    e->rows.tail_bytes_max = e->split == LLAMA_SPLIT_WINDOW ? e->head.info.state_bytes_max : 0;
    return CAIRN_OK;
}

cairn_rows_size cairn_llama_rows_size(const llama_engine *e, uint32_t begin, uint32_t end)
{
    CAIRN_ASSERT(begin <= end);
    uint64_t bytes =
        begin == end || !rows_are_bytes(e) ? 0 : e->rows.base_bytes + (end - begin) * e->rows.row_bytes;
    return (cairn_rows_size){.bytes = bytes, .buffer_bytes = bytes ? bytes + e->rows.tail_bytes_max : 0};
}

cairn_status cairn_llama_rows_export(llama_engine *e, llama_slot *slot, uint32_t begin, uint32_t end,
                                     uint8_t *out, uint64_t out_size, uint64_t *ret_size, cairn_error *reterr)
{
    const char *where = "engine/rows: export";
    cairn_rows_size need = cairn_llama_rows_size(e, begin, end);
    if (out_size < need.buffer_bytes)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "the buffer is too small");
    if (!rows_are_bytes(e)) {
        *ret_size = 0;
        return CAIRN_OK;
    }
    cairn_status status = scratch_mark(e, slot, begin, end, reterr);
    if (status == CAIRN_OK) {
        /* A window part has no fixed size. Without one the size is known, and libllama would walk over all cells for it. */
        bool fixed = e->split != LLAMA_SPLIT_WINDOW;
        size_t full = fixed ? (size_t)need.bytes : full_size(slot), tail = loose_tail(e, slot);
        if (full - tail != need.bytes || full > out_size)
            status = cairn_error_set(reterr, CAIRN_ENGINE, where,
                                     "rows [%u, %u) have %zu bytes where %llu were expected", begin, end,
                                     full - tail, (unsigned long long)need.bytes);
        else if (llama_state_seq_get_data_ext(slot->context, out, full, LLAMA_SEQ_SCRATCH, 0) != full)
            status = cairn_llama_refused(reterr, CAIRN_ENGINE, where);
    }
    scratch_clear(slot);
    if (status == CAIRN_OK)
        *ret_size = need.bytes;
    return status;
}

/* Read the bytes into a sequence, in place of what it has. Windows: the "no cells" part is put behind them first. */
static cairn_status rows_read(llama_engine *e, llama_slot *slot, llama_seq_id seq, const uint8_t *bytes,
                              uint64_t size, cairn_error *reterr)
{
    const char *where = "engine/rows: import";
    uint8_t *joined = NULL;
    uint64_t joined_size = size;
    if (e->split == LLAMA_SPLIT_WINDOW) {
        joined_size = size + e->hollow_bytes - STATE_HEAD_BYTES;
        joined = cairn_mem_alloc(e->mem, (size_t)joined_size);
        if (!joined)
            return cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
        memcpy(joined, bytes, (size_t)size);
        memcpy(joined + size, e->hollow_state + STATE_HEAD_BYTES,
               (size_t)(e->hollow_bytes - STATE_HEAD_BYTES));
        bytes = joined;
    }
    size_t taken = llama_state_seq_set_data_ext(slot->context, bytes, (size_t)joined_size, seq, 0);
    if (joined)
        cairn_mem_release(e->mem, joined, (size_t)joined_size);
    return taken == joined_size ? CAIRN_OK : cairn_llama_refused(reterr, CAIRN_CORRUPT, where);
}

/* Rows [0, use_end) into live, which has none. */
static cairn_status read_first(llama_engine *e, llama_slot *slot, uint32_t use_end, const uint8_t *bytes,
                               uint64_t size, cairn_error *reterr)
{
    cairn_status status = rows_read(e, slot, LLAMA_SEQ_LIVE, bytes, size, reterr);
    if (status == CAIRN_OK && !llama_memory_seq_rm(slot->memory, LLAMA_SEQ_LIVE, (llama_pos)use_end, -1))
        status = cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/rows: cut off");
    return status;
}

/* Rows [begin, use_end) behind those that live has: cells right behind live's are scratch's first, then live's, too. */
static cairn_status read_behind(llama_engine *e, llama_slot *slot, uint32_t begin, uint32_t use_end,
                                const uint8_t *bytes, uint64_t size, cairn_error *reterr)
{
    cairn_status status = rows_read(e, slot, LLAMA_SEQ_SCRATCH, bytes, size, reterr);
    if (status == CAIRN_OK)
        llama_memory_seq_cp(slot->memory, LLAMA_SEQ_SCRATCH, LLAMA_SEQ_LIVE, (llama_pos)begin,
                            (llama_pos)use_end);
    scratch_clear(slot);
    return status;
}

cairn_status cairn_llama_rows_import(llama_engine *e, llama_slot *slot, uint32_t begin, uint32_t begin_use,
                                     uint32_t use_end, const uint8_t *bytes, uint64_t size,
                                     cairn_error *reterr)
{
    if (!rows_are_bytes(e))
        return CAIRN_OK;
    cairn_status status = cairn_llama_slot_detach(e, slot, LLAMA_SEQ_LIVE, reterr);
    /*
     * Rows that live has already are replaced rather than skipped: cells of skipped ones would be freed in front of
     * the new ones, the next tokens would fill that hole, and cells out of order sum in another order.
     */
    if (status == CAIRN_OK && begin < begin_use &&
        !llama_memory_seq_rm(slot->memory, LLAMA_SEQ_LIVE, (llama_pos)begin, -1))
        status = cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/rows: make room");
    if (status != CAIRN_OK)
        return status;
    return begin == 0 ? read_first(e, slot, use_end, bytes, size, reterr)
                      : read_behind(e, slot, begin, use_end, bytes, size, reterr);
}
