/*
 * The replica engine: see engine_replica.h for what it is for and the recurrence it computes.
 *
 * Everything is kept as hashes; bytes are expanded from them when something is taken out and checked
 * against them when something is put back. A slot is an array with one record per position:
 *
 *   at[i]   after i tokens:  rows, rows_low   running hash over rows [0, i)
 *                            chain, chain_low the recurrent state (windows: kept per position)
 *   at[i]   the i-th token:  row, row_low     its row
 *
 * It must not know who calls it: no cache, no clock, no randomness.
 */
#include "engine/engine_replica.h"

#include <stdatomic.h>
#include <string.h>

enum { STATE_BYTES_MIN = 32, ROW_BYTES_MIN = 16, STATE_VERSION = 1 };

static const uint64_t state_magic = 0x3165746174536d43u; /* "CmState1" */
static const uint64_t salt_chain = 0x9e3779b97f4a7c15u;
static const uint64_t salt_row = 0xc2b2ae3d27d4eb4fu;
static const uint64_t salt_rows = 0x165667b19e3779f9u;
static const uint64_t salt_low = 0x27d4eb2f165667c5u;
static const uint64_t salt_damage = 0x94d049bb133111ebu;

typedef struct place {
    uint64_t row, row_low;
    uint64_t rows, rows_low;
    uint64_t chain, chain_low;
} place;

typedef struct slot {
    place *at; /* place[slot_tokens_max + 1]; place[1] with `light` */
    uint64_t chain, chain_low;
    uint32_t length;
    uint32_t ring_low;  /* windows: rows before this one were overwritten in the window's ring */
    uint32_t chain_min; /* windows: at[].chain is known from here on */
    bool state_set;
    bool broken; /* a decode failed: only reset helps */
} slot;

typedef struct answer {
    uint64_t pure, low;
    bool filled;
} answer;

typedef struct answer_rows {
    uint32_t first, count, piece_count;
} answer_rows;

typedef struct fault {
    uint64_t countdown;
    cairn_status status;
} fault;

typedef struct replica {
    cairn_engine head;
    cairn_mem *mem;
    cairn_replica_options options;
    slot *slots;
    answer *answers;         /* answer[answers_max] */
    float *logits;           /* float[answers_max][vocab_size] */
    answer_rows *piece_rows; /* answer_rows[slots] */
    uint32_t answers_max, answers_used, pieces_used;
    bool refuse_trim;
    atomic_bool interrupted;
    fault faults[CAIRN_REPLICA_CALLS];
    cairn_replica_counters counters;
} replica;

static replica *self(cairn_engine *engine)
{
    return (replica *)(void *)engine;
}

static const replica *self_const(const cairn_engine *engine)
{
    return (const replica *)(const void *)engine;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a + salt_chain) ^ (b * 0xff51afd7ed558ccdu);
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 29;
    x *= 0xc4ceb9fe1a85ec53u;
    x ^= x >> 32;
    return x;
}

static cairn_status fail(cairn_error *reterr, cairn_status status, const char *where, uint64_t offset)
{
    return cairn_error_set_at(reterr, status, offset, where, NULL);
}

/* The caller broke the contract. Counted, so that a test of the caller can insist on none. */
static cairn_status violate(replica *r, cairn_error *reterr, cairn_status status, const char *where)
{
    r->counters.violations++;
    return fail(reterr, status, where, CAIRN_OFFSET_NONE);
}

/* Count a call; true if the fault plan says that this one fails. */
static bool faulty(replica *r, cairn_replica_call call, cairn_status *ret_status)
{
    fault *f = &r->faults[call];
    r->counters.calls[call]++;
    if (f->countdown == 0 || --f->countdown > 0)
        return false;
    r->counters.failures[call]++;
    *ret_status = f->status;
    return true;
}

static void spend(replica *r, uint64_t ns)
{
    if (r->options.clock_ns)
        *r->options.clock_ns += ns;
}

static void spend_bytes(replica *r, uint64_t call_ns, uint64_t kib_ns, uint64_t bytes)
{
    spend(r, call_ns + (bytes * kib_ns) / 1024u);
}

static bool has_chain(const replica *r)
{
    return r->options.trim != CAIRN_TRIM_ANYWHERE;
}

/* Rows are hashed per position (not with `light`). */
static bool has_places(const replica *r)
{
    return !r->options.light;
}

static uint64_t chain_start(const cairn_replica_options *o)
{
    return mix(o->seed, salt_chain ^ o->vocab_size);
}

static void slot_reset(replica *r, slot *s)
{
    s->length = 0;
    s->chain = chain_start(&r->options);
    s->chain_low = 0;
    s->ring_low = 0;
    s->chain_min = 0;
    s->state_set = true;
    s->broken = false;
    s->at[0].rows = mix(r->options.seed, salt_rows);
    s->at[0].rows_low = 0;
    s->at[0].chain = s->chain;
    s->at[0].chain_low = 0;
}

static uint32_t ring_tokens(const replica *r)
{
    return r->options.window_tokens + r->options.batch_tokens_max;
}

/* --- decode ---------------------------------------------------------------------------------------- */

static inline void append_row(place *at, uint64_t row, uint64_t row_low, bool low)
{
    at[0].row = row;
    at[0].row_low = row_low;
    at[1].rows = mix(at[0].rows ^ salt_rows, row);
    at[1].rows_low = low ? mix(at[0].rows_low ^ salt_low, row_low) : 0;
}

static void keep_answer(replica *r, const slot *s)
{
    answer *a = &r->answers[r->answers_used++];
    uint64_t rows = has_places(r) ? s->at[s->length].rows : 0;
    uint64_t rows_low = has_places(r) ? s->at[s->length].rows_low : 0;
    a->pure = mix(has_chain(r) ? s->chain : 0, rows);
    a->low = r->options.cut_sensitive ? mix(s->chain_low, rows_low ^ salt_low) : 0;
    a->filled = false;
}

/* What a cut leaves in the last bits: where the piece began, how long it was, who shared the decode. */
static uint64_t piece_low(const replica *r, const slot *s, const cairn_piece *piece, uint32_t count_pieces)
{
    uint64_t rows_low = has_places(r) ? s->at[s->length].rows_low : 0;
    uint64_t low = mix(mix(rows_low, piece->begin), (uint64_t)piece->count << 1 | (piece->count == 1));
    return r->options.batch_sensitive ? mix(low, count_pieces) : low;
}

static void read_piece(replica *r, const cairn_piece *piece, uint32_t count_pieces)
{
    slot *s = &r->slots[piece->slot];
    bool low = r->options.cut_sensitive, places = has_places(r), chained = has_chain(r);
    bool window = r->options.trim == CAIRN_TRIM_WINDOW;
    uint64_t cut = low ? piece_low(r, s, piece, count_pieces) : 0;
    for (uint32_t i = 0; i < piece->count; i++) {
        uint32_t position = s->length;
        uint64_t token = (uint32_t)piece->tokens[i] | (uint64_t)position << 32;
        place *at = places ? &s->at[position] : NULL;
        uint64_t before = mix(chained ? s->chain : 0, token);
        uint64_t chain = places ? mix(before, at->rows) : before;
        uint64_t chain_low = low ? mix(s->chain_low ^ cut, position) : 0;
        if (places)
            append_row(at, mix(chain, salt_row ^ position), low ? mix(chain_low, salt_low ^ position) : 0,
                       low);
        if (chained) {
            s->chain = chain;
            s->chain_low = chain_low;
        } else if (low) {
            s->chain_low = 0; /* rows carry the low part too */
        }
        if (window) {
            at[1].chain = s->chain;
            at[1].chain_low = s->chain_low;
        }
        s->length++;
        if (piece->logits == CAIRN_LOGITS_ALL ||
            (piece->logits == CAIRN_LOGITS_LAST && i + 1 == piece->count))
            keep_answer(r, s);
    }
    if (window && s->length > ring_tokens(r) && s->ring_low < s->length - ring_tokens(r))
        s->ring_low = s->length - ring_tokens(r);
}

static cairn_status check_piece(replica *r, const cairn_piece *piece, cairn_error *reterr)
{
    if (piece->slot >= r->options.slots)
        return violate(r, reterr, CAIRN_INVALID, "replica/decode: no such slot");
    const slot *s = &r->slots[piece->slot];
    if (piece->count < 1 || piece->count > r->options.batch_tokens_max)
        return violate(r, reterr, CAIRN_INVALID, "replica/decode: piece empty or longer than a batch");
    if (s->broken)
        return violate(r, reterr, CAIRN_ENGINE, "replica/decode: slot not reset after a failure");
    if (piece->begin != s->length)
        return violate(r, reterr, CAIRN_INVALID, "replica/decode: piece does not begin at the slot's length");
    if (!s->state_set)
        return violate(r, reterr, CAIRN_ENGINE, "replica/decode: rows without a state");
    if (piece->count > r->options.slot_tokens_max - piece->begin)
        return fail(reterr, CAIRN_LIMIT, "replica/decode: longer than a slot", piece->begin);
    for (uint32_t i = 0; i < piece->count; i++)
        if (piece->tokens[i] < 0 || (uint32_t)piece->tokens[i] >= r->options.vocab_size)
            return violate(r, reterr, CAIRN_INVALID, "replica/decode: token outside the vocabulary");
    return CAIRN_OK;
}

static cairn_status check_pieces(replica *r, const cairn_piece *pieces, uint32_t count, cairn_error *reterr)
{
    uint64_t wanted = 0, held = 0;
    if (count < 1 || count > r->options.slots)
        return violate(r, reterr, CAIRN_INVALID, "replica/decode: number of pieces");
    for (uint32_t i = 0; i < count; i++) {
        cairn_status status = check_piece(r, &pieces[i], reterr);
        if (status != CAIRN_OK)
            return status;
        for (uint32_t j = 0; j < i; j++)
            if (pieces[j].slot == pieces[i].slot)
                return violate(r, reterr, CAIRN_INVALID, "replica/decode: two pieces of one slot");
        if (pieces[i].logits != CAIRN_LOGITS_NONE)
            wanted += pieces[i].logits == CAIRN_LOGITS_ALL ? pieces[i].count : 1;
        held += pieces[i].count;
    }
    if (wanted > r->answers_max)
        return fail(reterr, CAIRN_LIMIT, "replica/decode: more logits than logits_rows_max", wanted);
    for (uint32_t i = 0; i < r->options.slots; i++)
        held += r->slots[i].length;
    if (r->options.room_tokens_max && held > r->options.room_tokens_max)
        return fail(reterr, CAIRN_NOMEM, "replica/decode: out of room", held);
    return CAIRN_OK;
}

/* Rows [0, begin) stay; what was being read is gone, and the state with it. */
static void roll_back(replica *r, const cairn_piece *pieces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        slot *s = &r->slots[pieces[i].slot];
        if (has_chain(r) && s->length > 0) {
            s->state_set = false;
            s->chain = s->chain_low = 0;
        }
        r->counters.tokens_discarded += pieces[i].count;
    }
}

static void break_slots(replica *r, const cairn_piece *pieces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        slot_reset(r, &r->slots[pieces[i].slot]);
        r->slots[pieces[i].slot].broken = true;
        r->counters.tokens_discarded += pieces[i].count;
    }
}

static void spend_decode(replica *r, const cairn_piece *pieces, uint32_t count)
{
    const cairn_replica_cost *cost = &r->options.cost;
    uint64_t ns = cost->decode_call_ns;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t middle = (uint64_t)pieces[i].begin + pieces[i].count / 2;
        ns += pieces[i].count * (cost->token_ns + (cost->token_kilopos_ns * middle) / 1024u);
    }
    spend(r, ns);
}

static cairn_status replica_decode(cairn_engine *engine, const cairn_piece *pieces, uint32_t count,
                                   cairn_error *reterr)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    bool failing = faulty(r, CAIRN_REPLICA_DECODE, &planned);
    r->answers_used = r->pieces_used = 0;
    cairn_status status = check_pieces(r, pieces, count, reterr);
    if (status == CAIRN_NOMEM)
        roll_back(r, pieces, count);
    if (status != CAIRN_OK)
        return status;
    if (atomic_load_explicit(&r->interrupted, memory_order_acquire)) {
        planned = CAIRN_CANCELLED;
        failing = true;
    }
    spend_decode(r, pieces, count);
    if (failing) {
        if (planned == CAIRN_CANCELLED || planned == CAIRN_NOMEM)
            roll_back(r, pieces, count);
        else
            break_slots(r, pieces, count);
        return fail(reterr, planned, "replica/decode: failed as planned", CAIRN_OFFSET_NONE);
    }
    for (uint32_t i = 0; i < count; i++) {
        r->piece_rows[i].first = r->answers_used;
        read_piece(r, &pieces[i], count);
        r->piece_rows[i].count = r->answers_used - r->piece_rows[i].first;
        r->piece_rows[i].piece_count = pieces[i].count;
        r->counters.tokens_decoded += pieces[i].count;
        r->counters.pieces++;
        r->counters.pieces_of_one += pieces[i].count == 1;
    }
    r->pieces_used = count;
    return CAIRN_OK;
}

/* --- logits ---------------------------------------------------------------------------------------- */

static uint32_t find_answer(const replica *r, uint32_t piece, uint32_t index)
{
    if (piece >= r->pieces_used)
        return UINT32_MAX;
    const answer_rows *rows = &r->piece_rows[piece];
    if (rows->count == 0 || index >= rows->piece_count)
        return UINT32_MAX;
    if (rows->count == rows->piece_count)
        return rows->first + index;
    return index + 1 == rows->piece_count ? rows->first : UINT32_MAX;
}

static cairn_token greedy_of(uint64_t pure, uint32_t vocab_size)
{
    return (cairn_token)(((pure >> 32) * vocab_size) >> 32);
}

/*
 * 16 bits of the pure part in steps of 2^-11 over [-16, 16), 7 bits of the low part in steps of 2^-19:
 * both are exact in a float, and the greedy token's 16.5 stays above all others.
 */
static void fill_logits(const replica *r, const answer *a, float *out)
{
    cairn_token greedy = greedy_of(a->pure, r->options.vocab_size);
    for (uint32_t i = 0; i < r->options.vocab_size; i++) {
        uint32_t coarse = (uint32_t)(mix(a->pure, i) >> 48);
        out[i] = (float)coarse * (1.0f / 2048.0f) - 16.0f;
        if ((cairn_token)i == greedy)
            out[i] = 16.5f;
        if (r->options.cut_sensitive)
            out[i] += (float)(mix(a->low, i) >> 57) * (1.0f / 524288.0f);
    }
}

static const float *replica_logits(cairn_engine *engine, uint32_t piece, uint32_t index)
{
    replica *r = self(engine);
    uint32_t found = find_answer(r, piece, index);
    if (found == UINT32_MAX)
        return NULL;
    float *out = r->logits + (size_t)found * r->options.vocab_size;
    if (!r->answers[found].filled) {
        fill_logits(r, &r->answers[found], out);
        r->answers[found].filled = true;
    }
    return out;
}

cairn_token cairn_replica_greedy(const cairn_engine *engine, uint32_t piece, uint32_t index)
{
    const replica *r = self_const(engine);
    uint32_t found = find_answer(r, piece, index);
    CAIRN_ASSERT(found != UINT32_MAX);
    return greedy_of(r->answers[found].pure, r->options.vocab_size);
}

uint64_t cairn_replica_pure(const cairn_engine *engine, uint32_t piece, uint32_t index)
{
    const replica *r = self_const(engine);
    uint32_t found = find_answer(r, piece, index);
    CAIRN_ASSERT(found != UINT32_MAX);
    return r->answers[found].pure;
}

uint64_t cairn_replica_digest(const cairn_engine *engine, uint32_t piece, uint32_t index)
{
    const replica *r = self_const(engine);
    uint32_t found = find_answer(r, piece, index);
    CAIRN_ASSERT(found != UINT32_MAX);
    return mix(r->answers[found].pure, r->answers[found].low);
}

uint64_t cairn_replica_cold(const cairn_replica_options *options, const cairn_token *tokens, uint32_t count,
                            cairn_token *ret_greedy)
{
    bool chained = options->trim != CAIRN_TRIM_ANYWHERE, places = !options->light;
    uint64_t chain = chain_start(options), rows = mix(options->seed, salt_rows);
    CAIRN_ASSERT(count >= 1);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t before = mix(chained ? chain : 0, (uint32_t)tokens[i] | (uint64_t)i << 32);
        chain = places ? mix(before, rows) : before;
        if (places)
            rows = mix(rows ^ salt_rows, mix(chain, salt_row ^ i));
    }
    uint64_t pure = mix(chained ? chain : 0, places ? rows : 0);
    if (ret_greedy)
        *ret_greedy = greedy_of(pure, options->vocab_size);
    return pure;
}

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

static void fill_bytes(uint8_t *out, uint64_t size, uint64_t seed)
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

static uint64_t replica_state_size(cairn_engine *engine, uint32_t slot_index)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    CAIRN_ASSERT(slot_index < r->options.slots);
    const slot *s = &r->slots[slot_index];
    if (faulty(r, CAIRN_REPLICA_STATE_SIZE, &planned))
        return 0;
    return has_chain(r) && s->state_set && !s->broken && s->length > 0 ? r->options.state_bytes : 0;
}

static cairn_status replica_state_get(cairn_engine *engine, uint32_t slot_index, uint8_t *out, uint64_t size,
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
    fill_bytes(out + 24, size - 24, mix(s->chain, s->chain_low));
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

static cairn_status replica_state_set(cairn_engine *engine, uint32_t slot_index, uint32_t length,
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

static bool replica_can_trim(cairn_engine *engine, uint32_t slot_index, uint32_t length)
{
    replica *r = self(engine);
    cairn_status planned = CAIRN_OK;
    CAIRN_ASSERT(slot_index < r->options.slots);
    if (faulty(r, CAIRN_REPLICA_CAN_TRIM, &planned))
        return false;
    return trim_exact(r, &r->slots[slot_index], length);
}

static cairn_status replica_trim(cairn_engine *engine, uint32_t slot_index, uint32_t length,
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

static cairn_rows_size replica_rows_size(cairn_engine *engine, uint32_t begin, uint32_t end)
{
    const replica *r = self(engine);
    CAIRN_ASSERT(begin <= end);
    uint64_t bytes = (uint64_t)(end - begin) * r->options.row_bytes;
    return (cairn_rows_size){.bytes = bytes, .buffer_bytes = bytes + r->options.tail_bytes};
}

static cairn_status replica_rows_export(cairn_engine *engine, uint32_t slot_index, uint32_t begin,
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
    cairn_rows_size size = replica_rows_size(engine, begin, end);
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
        fill_bytes(row + 16, row_bytes - 16, mix(s->at[i].row, s->at[i].row_low));
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

static cairn_status replica_rows_import(cairn_engine *engine, uint32_t slot_index, uint32_t begin,
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
    import_rows(r, s, bytes + (size_t)(begin_use - begin) * row_bytes, use_end - begin_use);
    if (has_chain(r)) {
        s->state_set = false;
        s->chain = s->chain_low = 0;
    }
    r->counters.row_bytes_in += used;
    return CAIRN_OK;
}

/* --- the rest of the table --------------------------------------------------------------------------- */

static uint32_t replica_length(cairn_engine *engine, uint32_t slot_index)
{
    CAIRN_ASSERT(slot_index < self(engine)->options.slots);
    return self(engine)->slots[slot_index].length;
}

static void replica_reset(cairn_engine *engine, uint32_t slot_index)
{
    replica *r = self(engine);
    CAIRN_ASSERT(slot_index < r->options.slots);
    r->counters.resets++;
    slot_reset(r, &r->slots[slot_index]);
}

static void replica_interrupt(cairn_engine *engine)
{
    atomic_store_explicit(&self(engine)->interrupted, true, memory_order_release);
}

static void replica_resume_work(cairn_engine *engine)
{
    atomic_store_explicit(&self(engine)->interrupted, false, memory_order_release);
}

static size_t places_count(const replica *r)
{
    return r->options.light ? 1 : (size_t)r->options.slot_tokens_max + 1;
}

static size_t logits_count(const replica *r)
{
    return (size_t)r->answers_max * r->options.vocab_size;
}

static void replica_free(cairn_engine *engine)
{
    if (!engine)
        return;
    replica *r = self(engine);
    cairn_mem *mem = r->mem;
    for (uint32_t i = 0; r->slots && i < r->options.slots; i++)
        cairn_mem_array_release(mem, r->slots[i].at, places_count(r), sizeof *r->slots[i].at);
    cairn_mem_array_release(mem, r->slots, r->options.slots, sizeof *r->slots);
    cairn_mem_array_release(mem, r->answers, r->answers_max, sizeof *r->answers);
    cairn_mem_array_release(mem, r->logits, logits_count(r), sizeof *r->logits);
    cairn_mem_array_release(mem, r->piece_rows, r->options.slots, sizeof *r->piece_rows);
    cairn_mem_release(mem, r, sizeof *r);
}

static const cairn_engine_ops replica_ops = {
    .decode = replica_decode,
    .logits = replica_logits,
    .length = replica_length,
    .can_trim = replica_can_trim,
    .trim = replica_trim,
    .reset = replica_reset,
    .state_size = replica_state_size,
    .state_get = replica_state_get,
    .state_set = replica_state_set,
    .rows_size = replica_rows_size,
    .rows_export = replica_rows_export,
    .rows_import = replica_rows_import,
    .interrupt = replica_interrupt,
    .resume_work = replica_resume_work,
    .free = replica_free,
};

/* --- making one --------------------------------------------------------------------------------------- */

void cairn_replica_defaults(cairn_replica_options *ret_options)
{
    *ret_options = (cairn_replica_options){
        .slots = 2,
        .slot_tokens_max = 4096,
        .batch_tokens_max = 64,
        .vocab_size = 256,
        .seed = 1,
        .trim = CAIRN_TRIM_NEVER,
        .window_tokens = 128,
        .state_bytes = 64,
        .row_bytes = 16,
        .rows_move = true,
    };
}

static bool options_valid(const cairn_replica_options *o)
{
    bool chained = o->trim != CAIRN_TRIM_ANYWHERE;
    if (o->slots < 1 || o->slot_tokens_max < 1 || o->batch_tokens_max < 1 || o->vocab_size < 2)
        return false;
    if (o->slot_tokens_max > INT32_MAX / 2 || o->vocab_size > INT32_MAX ||
        o->batch_tokens_max > INT32_MAX / 2)
        return false;
    if (o->row_bytes < ROW_BYTES_MIN || (chained && o->state_bytes < STATE_BYTES_MIN))
        return false;
    if (o->trim == CAIRN_TRIM_WINDOW && o->window_tokens < 1)
        return false;
    return !o->light || o->trim == CAIRN_TRIM_NEVER;
}

static void fill_info(replica *r)
{
    const cairn_replica_options *o = &r->options;
    uint64_t seed = mix(o->seed, STATE_VERSION);
    seed = mix(seed, (uint64_t)o->vocab_size << 32 | o->state_bytes);
    seed = mix(seed, (uint64_t)o->row_bytes << 32 | o->window_tokens);
    seed = mix(seed, (uint64_t)o->trim << 3 | (uint64_t)o->cut_sensitive << 2 |
                         (uint64_t)o->batch_sensitive << 1 | (uint64_t)o->light);
    r->head.ops = &replica_ops;
    r->head.info = (cairn_engine_info){
        .name = "replica",
        .build = "replica engine, exact hashes",
        .slots = o->slots,
        .slot_tokens_max = o->slot_tokens_max,
        .batch_tokens_max = o->batch_tokens_max,
        .vocab_size = o->vocab_size,
        .trim = o->trim,
        .rows_move = o->rows_move,
        .exact = true,
        .batch_alone = o->cut_sensitive && o->batch_sensitive,
        .state_bytes_max = has_chain(r) ? o->state_bytes : 0,
        .row_bytes = o->row_bytes,
    };
    fill_bytes(r->head.info.fingerprint, sizeof r->head.info.fingerprint, seed);
}

static bool allocate(replica *r)
{
    const cairn_replica_options *o = &r->options;
    r->slots = cairn_mem_array(r->mem, o->slots, sizeof *r->slots);
    r->answers = cairn_mem_array(r->mem, r->answers_max, sizeof *r->answers);
    r->logits = cairn_mem_array(r->mem, logits_count(r), sizeof *r->logits);
    r->piece_rows = cairn_mem_array(r->mem, o->slots, sizeof *r->piece_rows);
    if (!r->slots || !r->answers || !r->logits || !r->piece_rows)
        return false;
    for (uint32_t i = 0; i < o->slots; i++) {
        r->slots[i].at = cairn_mem_array(r->mem, places_count(r), sizeof *r->slots[i].at);
        if (!r->slots[i].at)
            return false;
        slot_reset(r, &r->slots[i]);
    }
    return true;
}

cairn_status cairn_replica_new(const cairn_replica_options *options, cairn_mem *mem,
                               cairn_engine **ret_engine, cairn_error *reterr)
{
    if (!options_valid(options))
        return fail(reterr, CAIRN_INVALID, "replica/new: options", CAIRN_OFFSET_NONE);
    replica *r = cairn_mem_zalloc(mem, sizeof *r);
    if (!r)
        return fail(reterr, CAIRN_NOMEM, "replica/new", sizeof *r);
    r->mem = mem;
    r->options = *options;
    uint64_t rows = options->logits_rows_max;
    if (rows == 0)
        rows = (uint64_t)options->slots * options->batch_tokens_max;
    r->answers_max = rows > UINT32_MAX ? UINT32_MAX : (uint32_t)rows;
    atomic_init(&r->interrupted, false);
    if (!allocate(r)) {
        replica_free(&r->head);
        return fail(reterr, CAIRN_NOMEM, "replica/new", CAIRN_OFFSET_NONE);
    }
    fill_info(r);
    *ret_engine = &r->head;
    return CAIRN_OK;
}

void cairn_replica_fail(cairn_engine *engine, cairn_replica_call call, uint64_t nth, cairn_status status)
{
    CAIRN_ASSERT(call < CAIRN_REPLICA_CALLS);
    self(engine)->faults[call] = (fault){.countdown = nth, .status = status};
}

void cairn_replica_refuse_trim(cairn_engine *engine, bool refuse)
{
    self(engine)->refuse_trim = refuse;
}

const cairn_replica_counters *cairn_replica_counters_get(const cairn_engine *engine)
{
    return &self_const(engine)->counters;
}

void cairn_replica_counters_clear(cairn_engine *engine)
{
    memset(&self(engine)->counters, 0, sizeof self(engine)->counters);
}
