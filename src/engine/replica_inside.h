/*
 * replica_inside - what the two files of the replica engine share; nobody else includes it.
 *
 * Everything is kept as hashes. A slot is an array with one record per position:
 *
 *   at[i]   after i tokens:  rows, rows_low   running hash over rows [0, i)
 *                            chain, chain_low the recurrent state (windows: kept per position)
 *   at[i]   the i-th token:  row, row_low     its row
 *
 * Thread   as engine_replica.h
 */
#ifndef CAIRN_ENGINE_REPLICA_INSIDE_H
#define CAIRN_ENGINE_REPLICA_INSIDE_H

#include <stdatomic.h>
#include <string.h>

#include "engine/engine_replica.h"

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

/* The engine behind the table's argument. */
static inline replica *self(cairn_engine *engine)
{
    return (replica *)(void *)engine;
}

/* The same for questions. */
static inline const replica *self_const(const cairn_engine *engine)
{
    return (const replica *)(const void *)engine;
}

/* Two numbers into one; every input bit reaches every output bit. */
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

/* An error that was planned or is the caller's right to get. */
static inline cairn_status fail(cairn_error *reterr, cairn_status status, const char *where, uint64_t offset)
{
    return cairn_error_set_at(reterr, status, offset, where, NULL);
}

/* The caller broke the contract. Counted, so that a test of the caller can insist on none. */
static inline cairn_status violate(replica *r, cairn_error *reterr, cairn_status status, const char *where)
{
    r->counters.violations++;
    return fail(reterr, status, where, CAIRN_OFFSET_NONE);
}

/* Count a call; true if the fault plan says that this one fails. */
static inline bool faulty(replica *r, cairn_replica_call call, cairn_status *ret_status)
{
    fault *f = &r->faults[call];
    r->counters.calls[call]++;
    if (f->countdown == 0 || --f->countdown > 0)
        return false;
    r->counters.failures[call]++;
    *ret_status = f->status;
    return true;
}

/* Let virtual time pass. */
static inline void spend(replica *r, uint64_t ns)
{
    if (r->options.clock_ns)
        *r->options.clock_ns += ns;
}

/* ... for a call and what it moves. */
static inline void spend_bytes(replica *r, uint64_t call_ns, uint64_t kib_ns, uint64_t bytes)
{
    spend(r, call_ns + (bytes * kib_ns) / 1024u);
}

/* Are there states? Plain attention has none. */
static inline bool has_chain(const replica *r)
{
    return r->options.trim != CAIRN_TRIM_ANYWHERE;
}

/* Rows are hashed per position (not with `light`). */
static inline bool has_places(const replica *r)
{
    return !r->options.light;
}

/* The chain of the empty path: other seeds are other models. */
static inline uint64_t chain_start(const cairn_replica_options *o)
{
    return mix(o->seed, salt_chain ^ o->vocab_size);
}

/* Empty a slot. */
static inline void slot_reset(replica *r, slot *s)
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

/* How many positions a window's ring holds. */
static inline uint32_t ring_tokens(const replica *r)
{
    return r->options.window_tokens + r->options.batch_tokens_max;
}
static inline void append_row(place *at, uint64_t row, uint64_t row_low, bool low)
{
    at[0].row = row;
    at[0].row_low = row_low;
    at[1].rows = mix(at[0].rows ^ salt_rows, row);
    at[1].rows_low = low ? mix(at[0].rows_low ^ salt_low, row_low) : 0;
}

/* Bytes made from a seed: uint8_t[size]. */
void cairn_replica_fill_bytes(uint8_t *out, uint64_t size, uint64_t seed);

/* Functions of the table that put things in and out: replica_move.c. */
uint64_t cairn_replica_state_size(cairn_engine *engine, uint32_t slot_index);
cairn_status cairn_replica_state_get(cairn_engine *engine, uint32_t slot_index, uint8_t *out, uint64_t size,
                                     cairn_error *reterr);
cairn_status cairn_replica_state_set(cairn_engine *engine, uint32_t slot_index, uint32_t length,
                                     const uint8_t *bytes, uint64_t size, cairn_error *reterr);
bool cairn_replica_can_trim(cairn_engine *engine, uint32_t slot_index, uint32_t length);
cairn_status cairn_replica_trim(cairn_engine *engine, uint32_t slot_index, uint32_t length,
                                cairn_error *reterr);
cairn_rows_size cairn_replica_rows_size(cairn_engine *engine, uint32_t begin, uint32_t end);
cairn_status cairn_replica_rows_export(cairn_engine *engine, uint32_t slot_index, uint32_t begin,
                                       uint32_t end, uint8_t *out, uint64_t out_size, uint64_t *ret_size,
                                       cairn_error *reterr);
cairn_status cairn_replica_rows_import(cairn_engine *engine, uint32_t slot_index, uint32_t begin,
                                       uint32_t end, uint32_t begin_use, uint32_t use_end,
                                       const uint8_t *bytes, uint64_t size, cairn_error *reterr);

#endif
