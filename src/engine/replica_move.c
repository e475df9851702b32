/*
 * The replica engine's states and rows, out and in: bytes are expanded from hashes when something is taken out, and
 * every one is checked against them when it is put back. What does not fit is not refused, as a real engine would not
 * know either: it becomes another hash, so that the answer shows it.
 */
#include "engine/replica_inside.h"

/* --- bytes made from hashes, and checked against them ------------------------------------------------ */

static void put_word(uint8_t *out, uint64_t word)
{
    memcpy(out, &word, sizeof word);
}

static uint64_t get_word(const uint8_t *in)
{
    uint64_t word;
    memcpy(&word, in, sizeof word);
    return word;
}

void cairn_replica_fill_bytes(uint8_t *out, uint64_t size, uint64_t seed)
{
    uint64_t i = 0;
    for (; i + 8 <= size; i += 8)
        put_word(out + i, mix(seed, i));
    if (i < size) {
        uint64_t word = mix(seed, i);
        memcpy(out + i, &word, (size_t)(size - i));
    }
}

/* 0 when all bytes are what fill_bytes wrote, else a hash of the differences. */
static uint64_t filler_damage(const uint8_t *in, uint64_t size, uint64_t seed)
{
    uint64_t damage = 0;
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t word = mix(seed, i), found = 0;
        size_t take = size - i < 8 ? (size_t)(size - i) : 8;
        memcpy(&found, in + i, take);
        if (take < 8) {
            uint64_t cut = 0;
            memcpy(&cut, &word, take);
            word = cut;
        }
        if (found != word)
            damage = mix(damage ^ salt_damage, mix(found ^ word, i));
    }
    return damage;
}

/* --- state ----------------------------------------------------------------------------------------- */

uint64_t cairn_replica_state_size(cairn_engine *engine, uint32_t slot_index)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    CAIRN_ASSERT(slot_index < r->options.slots);
    const slot *s = &r->slots[slot_index];
    if (faulty(r, CAIRN_REPLICA_STATE_SIZE, &planned))
        return 0;
    return has_chain(r) && s->state_set && !s->broken && s->length > 0 ? r->options.state_bytes : 0;
}

cairn_status cairn_replica_state_get(cairn_engine *engine, uint32_t slot_index, uint8_t *out, uint64_t size,
                                     cairn_error *reterr)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    bool failing = faulty(r, CAIRN_REPLICA_STATE_GET, &planned);
    CAIRN_ASSERT(slot_index < r->options.slots);
    const slot *s = &r->slots[slot_index];
    if (!has_chain(r) || s->broken || !s->state_set || s->length == 0)
        return violate(r, reterr, CAIRN_ENGINE, "replica/state_get: the slot has no state");
    if (size != r->options.state_bytes)
        return violate(r, reterr, CAIRN_INVALID, "replica/state_get: size");
    if (failing)
        return fail(reterr, planned, "replica/state_get: failed as planned", CAIRN_OFFSET_NONE);
    spend_bytes(r, r->options.cost.state_call_ns, r->options.cost.state_kib_ns, size);
    put_word(out, state_magic);
    put_word(out + 8, s->chain);
    put_word(out + 16, s->chain_low);
    cairn_replica_fill_bytes(out + 24, size - 24, mix(s->chain, s->chain_low));
    r->counters.state_bytes_out += size;
    return CAIRN_OK;
}

/* Wrong bytes are taken as they are, like a real engine does: the answer is what shows them. */
static void state_load(replica *r, slot *s, const uint8_t *bytes, uint64_t size)
{
    s->chain = get_word(bytes + 8);
    s->chain_low = get_word(bytes + 16);
    uint64_t damage = filler_damage(bytes + 24, size - 24, mix(s->chain, s->chain_low));
    if (damage)
        s->chain = mix(s->chain ^ damage, salt_damage);
    if (!r->options.cut_sensitive && s->chain_low) {
        s->chain = mix(s->chain ^ s->chain_low, salt_damage);
        s->chain_low = 0;
    }
    s->state_set = true;
    s->chain_min = s->length;
    if (r->options.trim == CAIRN_TRIM_WINDOW) {
        uint32_t window = r->options.window_tokens;
        s->ring_low = s->length > window ? s->length - window : 0;
        s->at[s->length].chain = s->chain;
        s->at[s->length].chain_low = s->chain_low;
    }
}

cairn_status cairn_replica_state_set(cairn_engine *engine, uint32_t slot_index, uint32_t length,
                                     const uint8_t *bytes, uint64_t size, cairn_error *reterr)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    bool failing = faulty(r, CAIRN_REPLICA_STATE_SET, &planned);
    CAIRN_ASSERT(slot_index < r->options.slots);
    slot *s = &r->slots[slot_index];
    cairn_status status = CAIRN_OK;
    spend_bytes(r, r->options.cost.state_call_ns, r->options.cost.state_kib_ns, size);
    if (s->broken)
        status = violate(r, reterr, CAIRN_ENGINE, "replica/state_set: slot not reset after a failure");
    else if (!has_chain(r))
        status = violate(r, reterr, CAIRN_INVALID, "replica/state_set: this engine has no states");
    else if (length != s->length || length == 0)
        status = violate(r, reterr, CAIRN_INVALID, "replica/state_set: the slot's rows end elsewhere");
    else if (size != r->options.state_bytes || get_word(bytes) != state_magic)
        status = fail(reterr, CAIRN_CORRUPT, "replica/state_set: not a state of this engine", 0);
    else if (failing)
        status = fail(reterr, planned, "replica/state_set: failed as planned", CAIRN_OFFSET_NONE);
    if (status != CAIRN_OK) {
        slot_reset(r, s);
        return status;
    }
    state_load(r, s, bytes, size);
    r->counters.state_bytes_in += size;
    return CAIRN_OK;
}

/* --- trim ------------------------------------------------------------------------------------------ */

static bool trim_exact(const replica *r, const slot *s, uint32_t length)
{
    if (s->broken || length > s->length)
        return false;
    if (length == 0)
        return true;
    if (!s->state_set)
        return false;
    if (length == s->length)
        return true;
    if (r->refuse_trim)
        return false;
    if (r->options.trim == CAIRN_TRIM_ANYWHERE)
        return true;
    if (r->options.trim == CAIRN_TRIM_NEVER)
        return false;
    uint32_t window = r->options.window_tokens;
    uint32_t needed = length > window ? length - window : 0;
    return needed >= s->ring_low && length >= s->chain_min;
}

bool cairn_replica_can_trim(cairn_engine *engine, uint32_t slot_index, uint32_t length)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    CAIRN_ASSERT(slot_index < r->options.slots);
    if (faulty(r, CAIRN_REPLICA_CAN_TRIM, &planned))
        return false;
    return trim_exact(r, &r->slots[slot_index], length);
}

cairn_status cairn_replica_trim(cairn_engine *engine, uint32_t slot_index, uint32_t length,
                                cairn_error *reterr)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    bool failing = faulty(r, CAIRN_REPLICA_TRIM, &planned);
    CAIRN_ASSERT(slot_index < r->options.slots);
    slot *s = &r->slots[slot_index];
    cairn_status status = CAIRN_OK;
    spend(r, r->options.cost.rows_call_ns);
    if (s->broken)
        status = violate(r, reterr, CAIRN_ENGINE, "replica/trim: slot not reset after a failure");
    else if (length > s->length)
        status = violate(r, reterr, CAIRN_INVALID, "replica/trim: longer than the slot");
    else if (failing || (r->refuse_trim && length < s->length))
        status = fail(reterr, failing ? planned : CAIRN_ENGINE, "replica/trim: failed as planned",
                      CAIRN_OFFSET_NONE);
    if (status != CAIRN_OK || length == 0) {
        slot_reset(r, s);
        return status;
    }
    bool exact = trim_exact(r, s, length);
    s->length = length;
    if (!has_chain(r))
        return CAIRN_OK;
    if (!exact) {
        s->state_set = false;
        s->chain = s->chain_low = 0;
    } else if (r->options.trim == CAIRN_TRIM_WINDOW) {
        s->chain = s->at[length].chain;
        s->chain_low = s->at[length].chain_low;
    }
    return CAIRN_OK;
}

/* --- rows ------------------------------------------------------------------------------------------ */

cairn_rows_size cairn_replica_rows_size(cairn_engine *engine, uint32_t begin, uint32_t end)
{
    const replica *r = self(engine);
    CAIRN_ASSERT(begin <= end);
    uint64_t bytes = (uint64_t)(end - begin) * r->options.row_bytes;
    return (cairn_rows_size){.bytes = bytes, .buffer_bytes = bytes + r->options.tail_bytes};
}

cairn_status cairn_replica_rows_export(cairn_engine *engine, uint32_t slot_index, uint32_t begin,
                                       uint32_t end, uint8_t *out, uint64_t out_size, uint64_t *ret_size,
                                       cairn_error *reterr)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    bool failing = faulty(r, CAIRN_REPLICA_ROWS_EXPORT, &planned);
    CAIRN_ASSERT(slot_index < r->options.slots);
    const slot *s = &r->slots[slot_index];
    if (s->broken || begin >= end || end > s->length)
        return violate(r, reterr, CAIRN_INVALID, "replica/rows_export: no such rows");
    if (!r->options.rows_move)
        return violate(r, reterr, CAIRN_INVALID, "replica/rows_export: rows don't move");
    cairn_rows_size size = cairn_replica_rows_size(engine, begin, end);
    if (out_size < size.buffer_bytes)
        return violate(r, reterr, CAIRN_INVALID, "replica/rows_export: buffer too small");
    if (failing)
        return fail(reterr, planned, "replica/rows_export: failed as planned", CAIRN_OFFSET_NONE);
    spend_bytes(r, r->options.cost.rows_call_ns, r->options.cost.rows_kib_ns, size.bytes);
    uint32_t row_bytes = r->options.row_bytes;
    if (!has_places(r))
        memset(out, 0, (size_t)size.bytes);
    for (uint32_t i = begin; has_places(r) && i < end; i++) {
        uint8_t *row = out + (size_t)(i - begin) * row_bytes;
        put_word(row, s->at[i].row);
        put_word(row + 8, s->at[i].row_low);
        cairn_replica_fill_bytes(row + 16, row_bytes - 16, mix(s->at[i].row, s->at[i].row_low));
    }
    if (r->options.tail_bytes)
        memset(out + size.bytes, 0xA5, r->options.tail_bytes);
    r->counters.row_bytes_out += size.bytes;
    *ret_size = size.bytes;
    return CAIRN_OK;
}

static void import_rows(replica *r, slot *s, const uint8_t *bytes, uint32_t count)
{
    uint32_t row_bytes = r->options.row_bytes;
    bool low = r->options.cut_sensitive;
    for (uint32_t i = 0; i < count; i++, bytes += row_bytes, s->length++) {
        if (!has_places(r))
            continue;
        uint64_t row = get_word(bytes), row_low = get_word(bytes + 8);
        uint64_t damage = filler_damage(bytes + 16, row_bytes - 16, mix(row, row_low));
        if (!low)
            damage ^= row_low;
        if (damage)
            row = mix(row ^ damage, salt_damage);
        append_row(&s->at[s->length], row, low ? row_low : 0, low);
    }
}

cairn_status cairn_replica_rows_import(cairn_engine *engine, uint32_t slot_index, uint32_t begin,
                                       uint32_t end, uint32_t begin_use, uint32_t use_end,
                                       const uint8_t *bytes, uint64_t size, cairn_error *reterr)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    bool failing = faulty(r, CAIRN_REPLICA_ROWS_IMPORT, &planned);
    CAIRN_ASSERT(slot_index < r->options.slots);
    slot *s = &r->slots[slot_index];
    cairn_status status = CAIRN_OK;
    if (s->broken)
        status = violate(r, reterr, CAIRN_ENGINE, "replica/rows_import: slot not reset after a failure");
    else if (!r->options.rows_move)
        status = violate(r, reterr, CAIRN_INVALID, "replica/rows_import: rows don't move");
    else if (begin > begin_use || begin_use >= use_end || use_end > end || begin_use != s->length)
        status = violate(r, reterr, CAIRN_INVALID, "replica/rows_import: ranges");
    else if (use_end > r->options.slot_tokens_max)
        status = fail(reterr, CAIRN_LIMIT, "replica/rows_import: longer than a slot", use_end);
    else if (size != (uint64_t)(end - begin) * r->options.row_bytes)
        status = fail(reterr, CAIRN_CORRUPT, "replica/rows_import: not rows of this engine", 0);
    else if (failing)
        status = fail(reterr, planned, "replica/rows_import: failed as planned", CAIRN_OFFSET_NONE);
    if (status != CAIRN_OK) {
        slot_reset(r, s);
        return status;
    }
    uint32_t row_bytes = r->options.row_bytes;
    uint64_t used = (uint64_t)(use_end - begin_use) * row_bytes;
    spend_bytes(r, r->options.cost.rows_call_ns, r->options.cost.rows_kib_ns, used);
    s->length = begin; /* as an engine may, and llama does: the head of the block replaces the slot's rows */
    import_rows(r, s, bytes, use_end - begin);
    if (has_chain(r)) {
        s->state_set = false;
        s->chain = s->chain_low = 0;
    }
    r->counters.row_bytes_in += used;
    return CAIRN_OK;
}
