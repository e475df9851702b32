/*
 * The llama engine: the table's functions over llama_context. How a slot is laid out is in engine_llama.h, how rows
 * move in llama_rows.c, how one is made in llama_make.c.
 *
 * Two rules keep answers right. A slot whose recurrent cell does not belong to its rows is marked (state_set false)
 * and refuses to decode. And every answer of libllama is checked; what can't be put right empties the slot.
 */
#include <string.h>

#include "engine/llama_inside.h"
#include "engine/llama_share.h"

cairn_status cairn_llama_refused(cairn_error *reterr, cairn_status status, const char *where)
{
    char message[128];
    cairn_llama_last_error(message, sizeof message);
    return cairn_error_set(reterr, status, where, "%s", message[0] ? message : "libllama gave no reason");
}

static llama_slot *slot_at(cairn_engine *engine, uint32_t slot)
{
    llama_engine *e = llama_engine_of(engine);
    CAIRN_ASSERT(slot < e->options.slots);
    return &e->slots[slot];
}

static llama_state_seq_flags state_flags(const llama_engine *e)
{
    return e->split == LLAMA_SPLIT_WHOLE ? 0 : LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;
}

void cairn_llama_slot_forget(llama_slot *slot)
{
    slot->used = false;
    slot->length = 0;
    slot->window_low = 0;
    slot->window_base = 0;
    slot->state_set = true;
    slot->hollow = false;
    slot->broken = false;
    slot->staged = false;
}

void cairn_llama_slot_reset(llama_engine *e, llama_slot *slot)
{
    if (slot->context == e->shared) {
        cairn_llama_share_reset(e, slot);
        return;
    }
    bool contents = slot->broken;
    llama_memory_clear(slot->memory, false);
    if (slot->used && !contents && e->sound_state) {
        /* the first cell is where it goes, and where the next sequence starts */
        size_t taken = llama_state_seq_set_data_ext(slot->context, e->sound_state, (size_t)e->sound_bytes,
                                                    slot->live, state_flags(e));
        contents = taken != e->sound_bytes;
    }
    llama_memory_clear(slot->memory, contents);
    cairn_llama_slot_forget(slot);
}

cairn_status cairn_llama_slot_detach(llama_engine *e, llama_slot *slot, llama_seq_id seq, cairn_error *reterr)
{
    if (e->split != LLAMA_SPLIT_CELL && e->split != LLAMA_SPLIT_CELL_ONLY)
        return CAIRN_OK;
    size_t taken = llama_state_seq_set_data_ext(slot->context, e->hollow_state, (size_t)e->hollow_bytes, seq,
                                                LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    return taken == e->hollow_bytes ? CAIRN_OK : cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/detach");
}

/* --- cutting ----------------------------------------------------------------------------------------- */

/* Windows: are all rows still there that a sequence of this length looks at? */
static bool window_holds(const llama_engine *e, const llama_slot *slot, uint32_t length)
{
    uint32_t needed = length > e->window_tokens ? length - e->window_tokens : 0;
    llama_pos lowest = llama_memory_seq_pos_min(slot->memory, slot->live);
    /* Once the ring has come round, rows that are cut off leave holes at its beginning, which are filled first. */
    uint32_t before = slot->window_base < e->window_tokens ? slot->window_base : e->window_tokens;
    bool round =
        slot->length - slot->window_base + before > 2 * e->window_tokens + e->options.ubatch_tokens_max;
    if (round && !e->options.swa_full)
        return false;
    return lowest >= 0 && (uint32_t)lowest <= needed && slot->window_low <= needed;
}

/* May it be cut and go on without a state? */
static bool cut_exact(const llama_engine *e, const llama_slot *slot, uint32_t length)
{
    if (slot->broken || length > slot->length)
        return false;
    if (length == 0)
        return true;
    if (!slot->state_set)
        return false;
    if (length == slot->length || e->split == LLAMA_SPLIT_ROWS_ONLY)
        return true;
    return e->split == LLAMA_SPLIT_WINDOW && window_holds(e, slot, length);
}

/* Drop rows [length, end). On error the slot is broken. */
static cairn_status cut(llama_engine *e, llama_slot *slot, uint32_t length, cairn_error *reterr)
{
    if (length == 0) {
        cairn_llama_slot_reset(e, slot);
        return CAIRN_OK;
    }
    bool exact = cut_exact(e, slot, length);
    cairn_status status = cairn_llama_share_unload(e, slot, reterr);
    cairn_llama_share_changed(e, slot, length);
    if (status != CAIRN_OK) {
        /* the rows never came back into the slot */
    } else if (e->split == LLAMA_SPLIT_WHOLE) {
        llama_memory_clear(slot->memory, false);
        slot->hollow = true;
    } else {
        status = cairn_llama_slot_detach(e, slot, slot->live, reterr);
        if (status == CAIRN_OK && !llama_memory_seq_rm(slot->memory, slot->live, (llama_pos)length, -1))
            status = cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/trim");
    }
    slot->length = length;
    if (slot->window_base > length)
        slot->window_base = length;
    slot->state_set = exact;
    slot->broken = status != CAIRN_OK;
    return status;
}

static bool llama_can_trim(cairn_engine *engine, uint32_t slot, uint32_t length)
{
    return cut_exact(llama_engine_of(engine), slot_at(engine, slot), length);
}

static cairn_status llama_trim(cairn_engine *engine, uint32_t slot_index, uint32_t length,
                               cairn_error *reterr)
{
    llama_engine *e = llama_engine_of(engine);
    llama_slot *slot = slot_at(engine, slot_index);
    cairn_status status = CAIRN_OK;
    if (slot->broken)
        status =
            cairn_error_set(reterr, CAIRN_ENGINE, "engine/trim", "the slot was not reset after a failure");
    else if (length > slot->length)
        status = cairn_error_set(reterr, CAIRN_INVALID, "engine/trim",
                                 "%u is longer than the slot's %u tokens", length, slot->length);
    else if (length < slot->length)
        status = cut(e, slot, length, reterr);
    if (status != CAIRN_OK)
        cairn_llama_slot_reset(e, slot);
    return status;
}

static uint32_t llama_length(cairn_engine *engine, uint32_t slot)
{
    return slot_at(engine, slot)->length;
}

static void llama_reset(cairn_engine *engine, uint32_t slot)
{
    cairn_llama_slot_reset(llama_engine_of(engine), slot_at(engine, slot));
}

/* --- decode ------------------------------------------------------------------------------------------ */

static cairn_status check_piece(llama_engine *e, const cairn_piece *piece, cairn_error *reterr)
{
    const char *where = "engine/decode";
    if (piece->slot >= e->options.slots)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "there is no slot %u", piece->slot);
    const llama_slot *slot = &e->slots[piece->slot];
    if (piece->count < 1 || piece->count > e->head.info.batch_tokens_max)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "%u tokens; a batch holds 1 to %u", piece->count,
                               e->head.info.batch_tokens_max);
    if (slot->broken)
        return cairn_error_set(reterr, CAIRN_ENGINE, where, "the slot was not reset after a failure");
    if (piece->begin != slot->length)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "begins at %u; the slot has %u tokens",
                               piece->begin, slot->length);
    if (!slot->state_set)
        return cairn_error_set(reterr, CAIRN_ENGINE, where, "the slot has rows but no state");
    if (piece->count > e->head.info.slot_tokens_max - piece->begin)
        return cairn_error_set(reterr, CAIRN_LIMIT, where, "%u tokens are more than a slot's %u",
                               piece->begin + piece->count, e->head.info.slot_tokens_max);
    if (piece->logits == CAIRN_LOGITS_ALL && piece->count > e->options.logits_rows_max)
        return cairn_error_set(reterr, CAIRN_LIMIT, where, "logits of %u tokens; at most %u at once",
                               piece->count, e->options.logits_rows_max);
    for (uint32_t i = 0; i < piece->count; i++)
        if (piece->tokens[i] < 0 || (uint32_t)piece->tokens[i] >= e->head.info.vocab_size)
            return cairn_error_set(reterr, CAIRN_INVALID, where, "token %d is not in the vocabulary",
                                   piece->tokens[i]);
    return CAIRN_OK;
}

static cairn_status check_pieces(llama_engine *e, const cairn_piece *pieces, uint32_t count,
                                 cairn_error *reterr)
{
    if (count < 1 || count > e->options.slots)
        return cairn_error_set(reterr, CAIRN_INVALID, "engine/decode", "%u pieces for %u slots", count,
                               e->options.slots);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        cairn_status status = check_piece(e, &pieces[i], reterr);
        if (status != CAIRN_OK)
            return status;
        rows +=
            pieces[i].logits == CAIRN_LOGITS_ALL ? pieces[i].count : pieces[i].logits != CAIRN_LOGITS_NONE;
        if (e->shared && rows > e->options.logits_rows_max + e->options.slots)
            return cairn_error_set(reterr, CAIRN_LIMIT, "engine/decode",
                                   "logits of %u tokens; at most %u at once", rows,
                                   e->options.logits_rows_max + e->options.slots);
        for (uint32_t j = 0; j < i; j++)
            if (pieces[j].slot == pieces[i].slot)
                return cairn_error_set(reterr, CAIRN_INVALID, "engine/decode", "two pieces of slot %u",
                                       pieces[i].slot);
    }
    return CAIRN_OK;
}

/* No NaN in this row? Written so that it becomes vector instructions: x == x is false for NaN only. */
static bool row_is_sound(const float *row, uint32_t count)
{
    uint32_t sound = 0;
    for (uint32_t i = 0; i < count; i++)
        sound += row[i] == row[i];
    return sound == count;
}

static cairn_status check_answer(llama_engine *e, const cairn_piece *piece, llama_answer *answer,
                                 cairn_error *reterr)
{
    uint32_t first = piece->logits == CAIRN_LOGITS_ALL ? 0 : piece->count - 1;
    for (uint32_t i = first; piece->logits != CAIRN_LOGITS_NONE && i < piece->count; i++) {
        const float *row = llama_get_logits_ith(e->slots[piece->slot].context, (int32_t)(answer->first + i));
        if (!row)
            return cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/decode: logits");
        answer->nan = !row_is_sound(row, e->head.info.vocab_size);
        if (answer->nan)
            return cairn_error_set(reterr, CAIRN_ENGINE, "engine/decode",
                                   "the model computed NaN at position %u (damaged weights?)",
                                   piece->begin + i);
    }
    return CAIRN_OK;
}

/* Put a piece behind the batch's `first` tokens. */
static void fill_batch(llama_engine *e, const cairn_piece *piece, uint32_t first)
{
    llama_slot *slot = &e->slots[piece->slot];
    slot->used = true;
    memcpy(&e->tokens[first], piece->tokens, piece->count * sizeof *e->tokens);
    for (uint32_t i = 0; i < piece->count; i++) {
        e->positions[first + i] = (llama_pos)(piece->begin + i);
        e->wanted[first + i] = piece->logits == CAIRN_LOGITS_ALL;
        e->seq_ids[first + i] = &slot->live;
    }
    if (piece->logits == CAIRN_LOGITS_LAST)
        e->wanted[first + piece->count - 1] = 1;
}

/* One call of libllama. All pieces belong to slots of one context. */
static cairn_status decode_batch(llama_engine *e, const cairn_piece *pieces, llama_answer *answers,
                                 uint32_t count, cairn_error *reterr)
{
    uint32_t tokens = 0;
    if (atomic_load_explicit(&e->interrupted, memory_order_acquire))
        return cairn_error_set(reterr, CAIRN_CANCELLED, "engine/decode", NULL);
    /* By number: libllama computes only neighbours at once. */
    for (uint32_t slot = 0; slot < e->options.slots; slot++) {
        for (uint32_t i = 0; i < count; i++) {
            if (pieces[i].slot != slot)
                continue;
            fill_batch(e, &pieces[i], tokens);
            answers[i] = (llama_answer){slot, tokens, pieces[i].count, pieces[i].logits, false};
            tokens += pieces[i].count;
        }
    }
    struct llama_context *context = e->slots[pieces[0].slot].context;
    struct llama_batch batch = {
        .n_tokens = (int32_t)tokens,
        .token = e->tokens,
        .pos = e->positions,
        .n_seq_id = e->seq_counts,
        .seq_id = e->seq_ids,
        .logits = e->wanted,
    };
    int32_t result = llama_decode(context, batch);
    if (result == 0)
        llama_synchronize(context);
    if (result == 2)
        return cairn_error_set(reterr, CAIRN_CANCELLED, "engine/decode", NULL);
    if (result == 1 || result == -2)
        return cairn_llama_refused(reterr, CAIRN_NOMEM, "engine/decode");
    if (result != 0)
        return cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/decode");
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 0; i < count; i++) {
        cairn_status one = check_answer(e, &pieces[i], &answers[i], status == CAIRN_OK ? reterr : NULL);
        status = status == CAIRN_OK ? one : status;
    }
    return status;
}

/*
 * Windows: reading fills a ring of cells one after the other, setting a state fills it from the first cell on, and sums
 * run in the order of cells. So where prompts are cut the window goes out and in again: then what follows is computed
 * in one order, whether the tokens before were read or put back. libllama frees all cells of the sequence before it
 * reads a state, and searches from the lowest one freed, which is the first.
 */
static cairn_status settle(llama_engine *e, llama_slot *slot, cairn_error *reterr)
{
    const char *where = "engine/settle";
    if (!e->settle_buffer || slot->length <= e->window_tokens)
        return CAIRN_OK;
    size_t size = llama_state_seq_get_size_ext(slot->context, slot->live, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    if (size > e->settle_bytes)
        return cairn_error_set(reterr, CAIRN_ENGINE, where, "a window of %zu bytes; %llu were expected", size,
                               (unsigned long long)e->settle_bytes);
    if (llama_state_seq_get_data_ext(slot->context, e->settle_buffer, size, slot->live,
                                     LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) != size ||
        llama_state_seq_set_data_ext(slot->context, e->settle_buffer, size, slot->live,
                                     LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) != size)
        return cairn_llama_refused(reterr, CAIRN_ENGINE, where);
    slot->window_low = slot->length - e->window_tokens;
    slot->window_base = slot->length;
    return CAIRN_OK;
}

/*
 * After a failure: rows [0, begin) stay where they are worth something, else the slots are broken. Where one piece of a
 * shared batch became NaN, those beside it did not.
 */
static void take_back(llama_engine *e, const cairn_piece *pieces, uint32_t count, cairn_status status)
{
    bool keep = status == CAIRN_CANCELLED || status == CAIRN_NOMEM, nan = false;
    for (uint32_t i = 0; i < count; i++)
        nan = nan || (e->shared && e->answers[i].nan);
    for (uint32_t i = 0; i < count; i++) {
        llama_slot *slot = &e->slots[pieces[i].slot];
        e->tokens_discarded += pieces[i].count;
        slot->length =
            pieces[i].begin + 1; /* something follows that is to go, how much of it was read or not */
        if (e->split != LLAMA_SPLIT_ROWS_ONLY && e->split != LLAMA_SPLIT_WINDOW)
            slot->state_set = false;
        bool whole = keep || (nan && !e->answers[i].nan);
        if (!whole || cut(e, slot, pieces[i].begin, NULL) != CAIRN_OK) {
            slot->length = 0;
            slot->broken = true;
        }
    }
}

static void note_length(llama_engine *e, llama_slot *slot, uint32_t length)
{
    uint32_t ring = e->window_tokens + e->options.ubatch_tokens_max;
    slot->length = length;
    if (e->split == LLAMA_SPLIT_WINDOW && !e->options.swa_full && length > ring &&
        slot->window_low < length - ring)
        slot->window_low = length - ring;
}

static cairn_status llama_decode_pieces(cairn_engine *engine, const cairn_piece *pieces, uint32_t count,
                                        cairn_error *reterr)
{
    llama_engine *e = llama_engine_of(engine);
    e->answers_used = 0;
    cairn_status status = check_pieces(e, pieces, count, reterr);
    if (status != CAIRN_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        e->answers[i].nan = false;
        if (status == CAIRN_OK)
            status = cairn_llama_share_unload(e, &e->slots[pieces[i].slot], reterr);
    }
    if (e->shared && status == CAIRN_OK)
        status = decode_batch(e, pieces, e->answers, count, reterr);
    for (uint32_t i = 0; !e->shared && i < count && status == CAIRN_OK; i++)
        status = decode_batch(e, &pieces[i], &e->answers[i], 1, reterr);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++) {
        llama_slot *slot = &e->slots[pieces[i].slot];
        note_length(e, slot, pieces[i].begin + pieces[i].count);
        if (pieces[i].settle)
            status = settle(e, slot, reterr);
    }
    if (status != CAIRN_OK) {
        take_back(e, pieces, count, status);
        return status;
    }
    for (uint32_t i = 0; i < count; i++)
        e->tokens_decoded += pieces[i].count;
    e->answers_used = count;
    return CAIRN_OK;
}

static const float *llama_logits(cairn_engine *engine, uint32_t piece, uint32_t index)
{
    llama_engine *e = llama_engine_of(engine);
    if (piece >= e->answers_used)
        return NULL;
    const llama_answer *answer = &e->answers[piece];
    if (index >= answer->count || answer->logits == CAIRN_LOGITS_NONE ||
        (answer->logits == CAIRN_LOGITS_LAST && index + 1 != answer->count))
        return NULL;
    return llama_get_logits_ith(e->slots[answer->slot].context, (int32_t)(answer->first + index));
}

/* --- state ------------------------------------------------------------------------------------------- */

static uint64_t state_size_now(const llama_engine *e, const llama_slot *slot)
{
    if (e->split == LLAMA_SPLIT_ROWS_ONLY || slot->broken || !slot->state_set || slot->length == 0)
        return 0;
    if (e->cell_bytes)
        return e->cell_bytes;
    return llama_state_seq_get_size_ext(slot->context, slot->live, state_flags(e));
}

static uint64_t llama_state_size(cairn_engine *engine, uint32_t slot)
{
    return state_size_now(llama_engine_of(engine), slot_at(engine, slot));
}

static cairn_status llama_state_get(cairn_engine *engine, uint32_t slot_index, uint8_t *out, uint64_t size,
                                    cairn_error *reterr)
{
    const char *where = "engine/state_get";
    llama_engine *e = llama_engine_of(engine);
    llama_slot *slot = slot_at(engine, slot_index);
    uint64_t expected = state_size_now(e, slot);
    if (expected == 0)
        return cairn_error_set(reterr, CAIRN_ENGINE, where, "the slot has no state");
    if (size != expected)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "%llu bytes given, %llu needed",
                               (unsigned long long)size, (unsigned long long)expected);
    if (llama_state_seq_get_data_ext(slot->context, out, (size_t)size, slot->live, state_flags(e)) != size)
        return cairn_llama_refused(reterr, CAIRN_ENGINE, where);
    return CAIRN_OK;
}

/* Does what libllama now holds end at `length`? Its positions tell whose state it was given. */
static bool state_fits(const llama_engine *e, const llama_slot *slot, uint32_t length)
{
    llama_pos last = (llama_pos)length - 1;
    if (llama_memory_seq_pos_max(slot->memory, slot->live) != last)
        return false;
    return e->split != LLAMA_SPLIT_CELL || llama_memory_seq_pos_min(slot->memory, slot->live) == last;
}

static cairn_status state_put(llama_engine *e, llama_slot *slot, uint32_t length, const uint8_t *bytes,
                              uint64_t size, cairn_error *reterr)
{
    const char *where = "engine/state_set";
    if (slot->broken)
        return cairn_error_set(reterr, CAIRN_ENGINE, where, "the slot was not reset after a failure");
    if (e->split == LLAMA_SPLIT_ROWS_ONLY)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "this model has no states");
    if (length != slot->length || length == 0)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "a state for %u tokens; the slot has %u", length,
                               slot->length);
    if ((e->cell_bytes && size != e->cell_bytes) || size > e->head.info.state_bytes_max)
        return cairn_error_set(reterr, CAIRN_CORRUPT, where, "%llu bytes are not a state of this model",
                               (unsigned long long)size);
    cairn_status status = cairn_llama_share_unload(e, slot, reterr);
    if (status != CAIRN_OK)
        return status;
    if (llama_state_seq_set_data_ext(slot->context, bytes, (size_t)size, slot->live, state_flags(e)) != size)
        return cairn_llama_refused(reterr, CAIRN_CORRUPT, where);
    if (!state_fits(e, slot, length))
        return cairn_error_set(reterr, CAIRN_CORRUPT, where, "the state was saved at another length than %u",
                               length);
    return CAIRN_OK;
}

static cairn_status llama_state_set(cairn_engine *engine, uint32_t slot_index, uint32_t length,
                                    const uint8_t *bytes, uint64_t size, cairn_error *reterr)
{
    llama_engine *e = llama_engine_of(engine);
    llama_slot *slot = slot_at(engine, slot_index);
    slot->used = true;
    cairn_status status = state_put(e, slot, length, bytes, size, reterr);
    if (status != CAIRN_OK) {
        slot->broken = true; /* half a state may have been written: clear the cells, too */
        cairn_llama_slot_reset(e, slot);
        return status;
    }
    slot->state_set = true;
    slot->hollow = false;
    slot->window_low = length > e->window_tokens ? length - e->window_tokens : 0;
    slot->window_base = length;
    return CAIRN_OK;
}

/* --- rows -------------------------------------------------------------------------------------------- */

static cairn_rows_size llama_rows_size_of(cairn_engine *engine, uint32_t begin, uint32_t end)
{
    return cairn_llama_rows_size(llama_engine_of(engine), begin, end);
}

static cairn_status llama_rows_out(cairn_engine *engine, uint32_t slot_index, uint32_t begin, uint32_t end,
                                   uint8_t *out, uint64_t out_size, uint64_t *ret_size, cairn_error *reterr)
{
    llama_engine *e = llama_engine_of(engine);
    llama_slot *slot = slot_at(engine, slot_index);
    if (slot->broken || begin >= end || end > slot->length)
        return cairn_error_set(reterr, CAIRN_INVALID, "engine/rows: export", "rows [%u, %u) of %u", begin,
                               end, slot->length);
    llama_slot *from = slot;
    cairn_status status = cairn_llama_share_carry(e, slot, end, &from, reterr);
    return status == CAIRN_OK ? cairn_llama_rows_export(e, from, begin, end, out, out_size, ret_size, reterr)
                              : status;
}

/* Into the slot, or into the carrier, from where they go on before the slot is used. */
static cairn_status rows_import(llama_engine *e, llama_slot *slot, uint32_t begin, uint32_t begin_use,
                                uint32_t use_end, const uint8_t *bytes, uint64_t size, cairn_error *reterr)
{
    llama_slot *into = slot;
    cairn_status status = cairn_llama_share_stage(e, slot, begin_use, &into, reterr);
    if (status == CAIRN_OK)
        status = cairn_llama_rows_import(e, into, begin, begin_use, use_end, bytes, size, reterr);
    if (status == CAIRN_OK && into != slot)
        cairn_llama_share_staged(e, slot, use_end);
    return status;
}

static cairn_status llama_rows_in(cairn_engine *engine, uint32_t slot_index, uint32_t begin, uint32_t end,
                                  uint32_t begin_use, uint32_t use_end, const uint8_t *bytes, uint64_t size,
                                  cairn_error *reterr)
{
    const char *where = "engine/rows: import";
    llama_engine *e = llama_engine_of(engine);
    llama_slot *slot = slot_at(engine, slot_index);
    cairn_status status;
    if (slot->broken)
        status = cairn_error_set(reterr, CAIRN_ENGINE, where, "the slot was not reset after a failure");
    else if (begin > begin_use || begin_use >= use_end || use_end > end || begin_use != slot->length)
        status = cairn_error_set(reterr, CAIRN_INVALID, where, "rows [%u, %u) of [%u, %u) after %u tokens",
                                 begin_use, use_end, begin, end, slot->length);
    else if (end > e->head.info.slot_tokens_max)
        status = cairn_error_set(reterr, CAIRN_LIMIT, where, "rows up to %u; a slot holds %u", end,
                                 e->head.info.slot_tokens_max);
    else if (size != cairn_llama_rows_size(e, begin, end).bytes)
        status = cairn_error_set(reterr, CAIRN_CORRUPT, where, "%llu bytes are not rows [%u, %u)",
                                 (unsigned long long)size, begin, end);
    else
        status = rows_import(e, slot, begin, begin_use, use_end, bytes, size, reterr);
    if (status != CAIRN_OK) {
        slot->broken = true;
        cairn_llama_slot_reset(e, slot);
        return status;
    }
    note_length(e, slot, use_end);
    if (e->split == LLAMA_SPLIT_WHOLE)
        slot->hollow = true;
    slot->state_set = e->split == LLAMA_SPLIT_ROWS_ONLY;
    return CAIRN_OK;
}

/* --- the table ----------------------------------------------------------------------------------------- */

static void llama_interrupt(cairn_engine *engine)
{
    atomic_store_explicit(&llama_engine_of(engine)->interrupted, true, memory_order_release);
}

static void llama_resume_work(cairn_engine *engine)
{
    atomic_store_explicit(&llama_engine_of(engine)->interrupted, false, memory_order_release);
}

static void llama_engine_free(cairn_engine *engine)
{
    cairn_llama_unmake(engine ? llama_engine_of(engine) : NULL);
}

const cairn_engine_ops cairn_llama_engine_ops = {
    .decode = llama_decode_pieces,
    .logits = llama_logits,
    .length = llama_length,
    .can_trim = llama_can_trim,
    .trim = llama_trim,
    .reset = llama_reset,
    .state_size = llama_state_size,
    .state_get = llama_state_get,
    .state_set = llama_state_set,
    .rows_size = llama_rows_size_of,
    .rows_export = llama_rows_out,
    .rows_import = llama_rows_in,
    .interrupt = llama_interrupt,
    .resume_work = llama_resume_work,
    .free = llama_engine_free,
};
