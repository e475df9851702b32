/*
 * replica_support - an engine that answers by hashes, random tokens, and the calls that its tests make: what goes wrong in one
 * fails the test, but for those that begin with try_.
 */
#ifndef CAIRN_TEST_REPLICA_SUPPORT_H
#define CAIRN_TEST_REPLICA_SUPPORT_H

#include "engine/engine_replica.h"
#include "test_support.h"

enum { TOKENS = 200, VOCAB = 256 };

typedef struct rig {
    cairn_replica_options options; /* of the engine, once it is started */
    cairn_engine *engine;
    cairn_token tokens[4096];
} rig;

/* The next of a sequence of random numbers. */
uint64_t next_random(uint64_t *state);

/* Random tokens and the default options, which a test may change before it starts the engine. */
rig prepared(void);
/* Make the engine. */
void start(rig *r);
/* Both, with nothing changed. */
rig started(void);
/* Free the engine. */
void stop(rig *r);

/* Read tokens behind what the slot holds; logits of the last. */
cairn_status decode(rig *r, uint32_t slot, const cairn_token *tokens, uint32_t count);
/* Read tokens [length, end) in batches that end at multiples of `batch`. */
void read_to(rig *r, uint32_t slot, const cairn_token *tokens, uint32_t end, uint32_t batch);

/* What the last decode of one token answered, low bits aside. */
uint64_t pure(rig *r);
/* The same of the last of `count` tokens. */
uint64_t pure_last(rig *r, uint32_t count);
/* What a cold run answers after the first `count` tokens. */
uint64_t cold(rig *r, uint32_t count);
/* The answer after one more token. */
uint64_t probe(rig *r, uint32_t slot, uint32_t position);
/* One more token gives the answer of a cold run. */
void expect_cold_answer(rig *r, uint32_t slot, uint32_t position);
/* One more token gives another answer than a cold run: what was put into the slot was wrong, and it shows. */
void expect_another_answer(rig *r, uint32_t slot, uint32_t position);

/* The slot's state, out: uint8_t[state_bytes]. */
void take_state(rig *r, uint32_t slot, uint8_t *out);
/* A state, in. */
cairn_status try_set_state(rig *r, uint32_t slot, uint32_t length, const uint8_t *bytes);
/* The same; it must work. */
void set_state(rig *r, uint32_t slot, uint32_t length, const uint8_t *bytes);
/* Rows [begin, end), out. */
cairn_status try_take_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, uint8_t *out);
/* The same; it must work. */
void take_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, uint8_t *out);
/* All of the rows that were taken as [begin, end), in. */
cairn_status try_put_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, const uint8_t *bytes);
/* The same; it must work. */
void put_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, const uint8_t *bytes);
/* Read `length` tokens and take what a resume there needs. */
void read_and_take(rig *r, uint32_t slot, uint32_t length, uint8_t *state, uint8_t *rows);
/* An empty slot gets the rows [0, length) and the state behind them. */
void restore(rig *r, uint32_t slot, uint32_t length, const uint8_t *state, const uint8_t *rows);

/* Cut the slot; it must work. */
void trim_to(rig *r, uint32_t slot, uint32_t length);
/* The engine's gate. */
bool can_trim(rig *r, uint32_t slot, uint32_t length);
/* Empty the slot. */
void reset(rig *r, uint32_t slot);
/* Calls so far that the contract doesn't allow. */
uint64_t violations(const rig *r);

#endif
