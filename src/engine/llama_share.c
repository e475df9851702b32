/* One context for all slots: see llama_share.h for the layout and for how rows move. */
#include "engine/llama_share.h"

#include <string.h>

#include "engine/llama_inside.h"
#include "engine/llama_threads.h"

/* libllama's mark and the sequence's number; then how many streams follow; then each stream's count of rows. */
enum { HEAD_BYTES = 8, COUNT_BYTES = 4, CELLS_PAD = 256 };

static bool is_shared(const llama_engine *e, const llama_slot *slot)
{
    return e->shared && slot->context == e->shared;
}

static bool has_rows(const llama_engine *e)
{
    return e->split == LLAMA_SPLIT_CELL || e->split == LLAMA_SPLIT_ROWS_ONLY;
}

/* What says "no recurrent cell" at the end of a whole state. */
static size_t hollow_tail(const llama_engine *e)
{
    return e->split == LLAMA_SPLIT_CELL ? (size_t)e->hollow_bytes - HEAD_BYTES : 0;
}

/* --- making ---------------------------------------------------------------------------------------------- */

/* See the header: a product with weights in this layout is right for the first sequence of a decode only. */
static bool has_broken_layout(const llama_engine *e)
{
    return !e->options.model.no_repack && strstr(llama_print_system_info(), "AMX_INT8 = 1") != NULL;
}

bool cairn_llama_share_wanted(const llama_engine *e, uint32_t slots)
{
    return e->options.shared && !has_broken_layout(e) && slots > 1 && slots <= CAIRN_LLAMA_SHARE_SLOTS_MAX &&
           e->window_tokens == 0 && e->split != LLAMA_SPLIT_WHOLE;
}

void cairn_llama_share_params(const llama_engine *e, uint32_t slots, struct llama_context_params *ret_params)
{
    const cairn_llama_options *o = &e->options;
    *ret_params = e->params;
    ret_params->n_seq_max = slots;
    ret_params->n_ctx = (o->slot_tokens_max + CELLS_PAD - 1) / CELLS_PAD * CELLS_PAD * slots;
    ret_params->n_batch = o->batch_tokens_max * slots;
    ret_params->n_outputs_max = o->logits_rows_max + slots;
    ret_params->kv_unified = false;
}

cairn_status cairn_llama_share_make(llama_engine *e, cairn_error *reterr)
{
    const cairn_llama_options *o = &e->options;
    struct llama_context_params params;
    cairn_llama_share_params(e, o->slots, &params);
    cairn_status status = cairn_llama_make_batch(e, params.n_batch, reterr);
    if (status != CAIRN_OK)
        return status;
    struct llama_context *context = llama_init_from_model(e->model, params);
    if (!context)
        return cairn_llama_refused(reterr, CAIRN_NOMEM, "engine/new: shared context");
    cairn_llama_threads_attach(e, context);
    e->carrier = e->slots[0];
    e->carried = NULL;
    e->shared = context;
    for (uint32_t i = 0; i < o->slots; i++) {
        e->slots[i] =
            (llama_slot){.context = context, .memory = llama_get_memory(context), .live = (llama_seq_id)i};
        cairn_llama_slot_forget(&e->slots[i]);
    }
    e->head.info.batch_alone = true;
    return CAIRN_OK;
}

cairn_status cairn_llama_share_leave(llama_engine *e, cairn_error *reterr)
{
    if (!e->shared)
        return CAIRN_OK;
    llama_free(e->shared);
    e->shared = NULL;
    e->head.info.batch_alone = false;
    e->options.shared = false;
    for (uint32_t i = 0; i < e->options.slots; i++)
        e->slots[i] = (llama_slot){0};
    e->slots[0] = e->carrier;
    e->carrier = (llama_slot){0};
    e->carried = NULL;
    cairn_llama_slot_reset(e, &e->slots[0]);
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 1; i < e->options.slots && status == CAIRN_OK; i++)
        status = cairn_llama_make_context(e, &e->slots[i], i, reterr);
    return status;
}

/* --- emptying -------------------------------------------------------------------------------------------- */

static bool has_cell(const llama_engine *e, const llama_slot *slot)
{
    return e->split != LLAMA_SPLIT_ROWS_ONLY && (slot->broken || (slot->length > 0 && slot->state_set));
}

/*
 * A new sequence starts from what its cell held, times 0, which is not 0 where there is NaN; and which cell it gets
 * can't be told. There are as many cells as sequences: so each sequence that has none is given a sound one for a moment.
 */
static void make_cells_sound(llama_engine *e)
{
    for (uint32_t i = 0; e->sound_state && i < e->options.slots; i++) {
        if (!has_cell(e, &e->slots[i]))
            (void)llama_state_seq_set_data_ext(e->shared, e->sound_state, (size_t)e->sound_bytes,
                                               e->slots[i].live, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    }
    for (uint32_t i = 0; e->sound_state && i < e->options.slots; i++) {
        if (!has_cell(e, &e->slots[i]) &&
            cairn_llama_slot_detach(e, &e->slots[i], e->slots[i].live, NULL) != CAIRN_OK)
            e->slots[i].broken = true;
    }
}

typedef struct kept_slot {
    uint8_t *bytes;
    size_t size;
} kept_slot;

static bool keep_slot(const llama_engine *e, const llama_slot *slot, kept_slot *ret_kept)
{
    size_t size = llama_state_seq_get_size_ext(e->shared, slot->live, 0);
    ret_kept->bytes = cairn_mem_alloc(e->mem, size);
    if (!ret_kept->bytes)
        return false;
    ret_kept->size = size;
    return llama_state_seq_get_data_ext(e->shared, ret_kept->bytes, size, slot->live, 0) == size;
}

static bool worth_keeping(const llama_slot *slot)
{
    return slot->length > 0 && !slot->broken && !slot->staged;
}

/* NaN in cells spreads even when masked: clear all cells' contents, with the other slots out of the way. */
static bool clear_contents(llama_engine *e)
{
    kept_slot kept[CAIRN_LLAMA_SHARE_SLOTS_MAX] = {{0}};
    bool safe = true;
    for (uint32_t i = 0; i < e->options.slots && safe; i++) {
        if (worth_keeping(&e->slots[i]))
            safe = keep_slot(e, &e->slots[i], &kept[i]);
    }
    if (safe)
        llama_memory_clear(llama_get_memory(e->shared), true);
    for (uint32_t i = 0; i < e->options.slots; i++) {
        llama_slot *slot = &e->slots[i];
        if (safe && kept[i].size > 0 &&
            llama_state_seq_set_data_ext(e->shared, kept[i].bytes, kept[i].size, slot->live, 0) !=
                kept[i].size)
            slot->broken = true;
        cairn_mem_release(e->mem, kept[i].bytes, kept[i].size);
    }
    return safe;
}

void cairn_llama_share_reset(llama_engine *e, llama_slot *slot)
{
    bool contents = slot->broken, used = slot->used;
    cairn_llama_share_changed(e, slot, 0);
    /* Whole sequences can always be removed. */
    bool removed = llama_memory_seq_rm(slot->memory, slot->live, -1, -1);
    CAIRN_ASSERT(removed);
    cairn_llama_slot_forget(slot);
    if (contents && !clear_contents(e)) {
        slot->broken = slot->used = true; /* the next reset tries again */
    } else if (used) {
        make_cells_sound(e);
    }
}

/* --- rows through the carrier ---------------------------------------------------------------------------- */

/* Does the carrier have the slot's first `length` rows? */
static bool is_carried(const llama_engine *e, const llama_slot *slot, uint32_t length)
{
    return e->carried == slot && e->carried_rows >= length;
}

/* The carrier is about to be used for another slot, or anew. */
static cairn_status empty_carrier(llama_engine *e, llama_slot *next, cairn_error *reterr)
{
    cairn_status status =
        e->carried && e->carried != next ? cairn_llama_share_unload(e, e->carried, reterr) : CAIRN_OK;
    if (status != CAIRN_OK)
        return status;
    e->carried = NULL;
    e->carried_rows = 0;
    llama_memory_clear(e->carrier.memory, false);
    return CAIRN_OK;
}

/* Are these the counts of streams without rows? */
static bool are_empty_counts(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count * COUNT_BYTES; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* In place: a state of the shared context becomes one of the carrier, without a cell. *ret_at: where it begins. */
static bool to_carrier(const llama_engine *e, const llama_slot *slot, uint8_t *bytes, size_t size,
                       size_t cell_bytes, uint8_t **ret_at, size_t *ret_size)
{
    size_t before = (size_t)slot->live, after = e->options.slots - 1 - before, counts = before + after;
    uint32_t streams = 0, one = 1;
    if (size < HEAD_BYTES + COUNT_BYTES * (counts + 2) + cell_bytes)
        return false;
    memcpy(&streams, bytes + HEAD_BYTES, COUNT_BYTES);
    uint8_t *end = bytes + size - cell_bytes - after * COUNT_BYTES; /* of the rows */
    if (streams != e->options.slots || !are_empty_counts(bytes + HEAD_BYTES + COUNT_BYTES, before) ||
        !are_empty_counts(end, after))
        return false;
    memmove(bytes + before * COUNT_BYTES, bytes, HEAD_BYTES);
    memcpy(bytes + before * COUNT_BYTES + HEAD_BYTES, &one, COUNT_BYTES);
    memcpy(end, e->hollow_state + HEAD_BYTES, hollow_tail(e));
    *ret_at = bytes + before * COUNT_BYTES;
    *ret_size = (size_t)(end - *ret_at) + hollow_tail(e);
    return true;
}

/* The bytes of a state in the shared context that are its recurrent cell, or say that there is none. */
static size_t cell_part(const llama_engine *e, const llama_slot *slot)
{
    return e->split == LLAMA_SPLIT_CELL
               ? llama_state_seq_get_size_ext(slot->context, slot->live, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) -
                     HEAD_BYTES
               : 0;
}

cairn_status cairn_llama_share_carry(llama_engine *e, llama_slot *slot, uint32_t length,
                                     llama_slot **ret_from, cairn_error *reterr)
{
    const char *where = "engine/share: carry";
    *ret_from = slot;
    if (!is_shared(e, slot) || !has_rows(e))
        return CAIRN_OK;
    *ret_from = &e->carrier;
    if (is_carried(e, slot, length))
        return CAIRN_OK;
    CAIRN_ASSERT(!slot->staged);
    cairn_status status = empty_carrier(e, slot, reterr);
    if (status != CAIRN_OK)
        return status;
    size_t size = llama_state_seq_get_size_ext(slot->context, slot->live, 0), room = size + hollow_tail(e),
           carried = 0;
    uint8_t *bytes = cairn_mem_alloc(e->mem, room), *at = NULL;
    if (!bytes)
        return cairn_error_set(reterr, CAIRN_NOMEM, where, "%zu bytes", room);
    if (llama_state_seq_get_data_ext(slot->context, bytes, size, slot->live, 0) != size)
        status = cairn_llama_refused(reterr, CAIRN_ENGINE, where);
    else if (!to_carrier(e, slot, bytes, size, cell_part(e, slot), &at, &carried))
        status = cairn_error_set(reterr, CAIRN_ENGINE, where, "libllama's states are not laid out as known");
    else if (llama_state_seq_set_data_ext(e->carrier.context, at, carried, LLAMA_SEQ_LIVE, 0) != carried)
        status = cairn_llama_refused(reterr, CAIRN_ENGINE, where);
    cairn_mem_release(e->mem, bytes, room);
    if (status == CAIRN_OK) {
        e->carried = slot;
        e->carried_rows = slot->length;
    }
    return status;
}

cairn_status cairn_llama_share_stage(llama_engine *e, llama_slot *slot, uint32_t length,
                                     llama_slot **ret_into, cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    *ret_into = slot;
    if (!is_shared(e, slot) || !has_rows(e))
        return CAIRN_OK;
    if (length == 0)
        status = empty_carrier(e, slot, reterr);
    else
        status = cairn_llama_share_carry(e, slot, length, ret_into, reterr);
    *ret_into = &e->carrier;
    /* what the carrier has behind `length` is of no use any more */
    if (status == CAIRN_OK && length > 0 &&
        !llama_memory_seq_rm(e->carrier.memory, LLAMA_SEQ_LIVE, (llama_pos)length, -1))
        status = cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/share: stage");
    return status;
}

void cairn_llama_share_staged(llama_engine *e, llama_slot *slot, uint32_t length)
{
    slot->staged = true;
    e->carried = slot;
    e->carried_rows = length;
}

/* As to_carrier, the other way round. The carrier's state begins `before` counts into the buffer. */
static size_t to_shared(const llama_engine *e, const llama_slot *slot, uint8_t *bytes, size_t size)
{
    size_t before = (size_t)slot->live, after = e->options.slots - 1 - before;
    uint32_t streams = e->options.slots;
    memmove(bytes, bytes + before * COUNT_BYTES, HEAD_BYTES);
    memcpy(bytes + HEAD_BYTES, &streams, COUNT_BYTES);
    memset(bytes + HEAD_BYTES + COUNT_BYTES, 0, before * COUNT_BYTES);
    uint8_t *end = bytes + before * COUNT_BYTES + size - hollow_tail(e);
    memset(end, 0, after * COUNT_BYTES);
    memcpy(end + after * COUNT_BYTES, e->hollow_state + HEAD_BYTES, hollow_tail(e));
    return size + (before + after) * COUNT_BYTES;
}

cairn_status cairn_llama_share_unload(llama_engine *e, llama_slot *slot, cairn_error *reterr)
{
    const char *where = "engine/share: unload";
    if (!slot->staged)
        return CAIRN_OK;
    CAIRN_ASSERT(e->carried == slot);
    size_t size = (size_t)cairn_llama_rows_size(e, 0, e->carried_rows).bytes,
           room = size + e->options.slots * COUNT_BYTES;
    uint8_t *bytes = cairn_mem_alloc(e->mem, room);
    if (!bytes)
        return cairn_error_set(reterr, CAIRN_NOMEM, where, "%zu bytes", room);
    uint8_t *at = bytes + (size_t)slot->live * COUNT_BYTES;
    cairn_status status = CAIRN_OK;
    if (llama_state_seq_get_data_ext(e->carrier.context, at, size, LLAMA_SEQ_LIVE, 0) != size) {
        status = cairn_llama_refused(reterr, CAIRN_ENGINE, where);
    } else {
        size_t whole = to_shared(e, slot, bytes, size);
        if (llama_state_seq_set_data_ext(slot->context, bytes, whole, slot->live, 0) != whole)
            status = cairn_llama_refused(reterr, CAIRN_ENGINE, where);
    }
    cairn_mem_release(e->mem, bytes, room);
    slot->staged = false;
    slot->broken = slot->broken || status != CAIRN_OK;
    return status;
}

void cairn_llama_share_changed(llama_engine *e, const llama_slot *slot, uint32_t length)
{
    if (e->carried != slot)
        return;
    if (e->carried_rows > length)
        e->carried_rows = length;
    if (length == 0)
        e->carried = NULL;
}
