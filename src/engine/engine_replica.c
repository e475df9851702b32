/*
 * The replica engine: see engine_replica.h for what it is for and the recurrence it computes. Here it reads tokens and
 * answers; replica_move.c takes states and rows out and puts them in.
 *
 * It must not know who calls it: no cache, no clock, no randomness.
 */
#include "engine/replica_inside.h"

/* --- decode ---------------------------------------------------------------------------------------- */

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
 * both are exact in a float, and the greedy token's 16.5 stays above all others. With near ties its neighbour has the
 * same, and the low part decides.
 */
static void fill_logits(const replica *r, const answer *a, float *out)
{
    cairn_token greedy = greedy_of(a->pure, r->options.vocab_size);
    cairn_token next = (cairn_token)(((uint32_t)greedy + 1) % r->options.vocab_size);
    for (uint32_t i = 0; i < r->options.vocab_size; i++) {
        uint32_t coarse = (uint32_t)(mix(a->pure, i) >> 48);
        out[i] = (float)coarse * (1.0f / 2048.0f) - 16.0f;
        if ((cairn_token)i == greedy || (r->options.near_ties && (cairn_token)i == next))
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
    .can_trim = cairn_replica_can_trim,
    .trim = cairn_replica_trim,
    .reset = replica_reset,
    .state_size = cairn_replica_state_size,
    .state_get = cairn_replica_state_get,
    .state_set = cairn_replica_state_set,
    .rows_size = cairn_replica_rows_size,
    .rows_export = cairn_replica_rows_export,
    .rows_import = cairn_replica_rows_import,
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
    cairn_replica_fill_bytes(r->head.info.fingerprint, sizeof r->head.info.fingerprint, seed);
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
