/* See replica_support.h. */
#include "replica_support.h"

uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

rig prepared(void)
{
    rig r = {.engine = NULL};
    uint64_t random = 42;
    cairn_replica_defaults(&r.options);
    for (size_t i = 0; i < sizeof r.tokens / sizeof *r.tokens; i++)
        r.tokens[i] = (cairn_token)(next_random(&random) % VOCAB);
    return r;
}

void start(rig *r)
{
    assert_int_equal(cairn_replica_new(&r->options, cairn_mem_default(), &r->engine, NULL), CAIRN_OK);
}

rig started(void)
{
    rig r = prepared();
    start(&r);
    return r;
}

void stop(rig *r)
{
    r->engine->ops->free(r->engine);
    r->engine = NULL;
}

cairn_status decode(rig *r, uint32_t slot, const cairn_token *tokens, uint32_t count)
{
    cairn_piece piece = {slot, r->engine->ops->length(r->engine, slot), tokens, count, CAIRN_LOGITS_LAST,
                         false};
    return r->engine->ops->decode(r->engine, &piece, 1, NULL);
}

void read_to(rig *r, uint32_t slot, const cairn_token *tokens, uint32_t end, uint32_t batch)
{
    for (uint32_t at = r->engine->ops->length(r->engine, slot); at < end;) {
        uint32_t next = (at / batch + 1) * batch;
        next = next < end ? next : end;
        assert_int_equal(decode(r, slot, tokens + at, next - at), CAIRN_OK);
        at = next;
    }
}

uint64_t pure(rig *r)
{
    return cairn_replica_pure(r->engine, 0, 0);
}

uint64_t pure_last(rig *r, uint32_t count)
{
    return cairn_replica_pure(r->engine, 0, count - 1);
}

uint64_t cold(rig *r, uint32_t count)
{
    return cairn_replica_cold(&r->options, r->tokens, count, NULL);
}

uint64_t probe(rig *r, uint32_t slot, uint32_t position)
{
    assert_int_equal(decode(r, slot, r->tokens + position, 1), CAIRN_OK);
    return pure(r);
}

void take_state(rig *r, uint32_t slot, uint8_t *out)
{
    uint64_t size = r->engine->ops->state_size(r->engine, slot);
    assert_int_equal(size, r->options.state_bytes);
    assert_int_equal(r->engine->ops->state_get(r->engine, slot, out, size, NULL), CAIRN_OK);
}

cairn_status try_set_state(rig *r, uint32_t slot, uint32_t length, const uint8_t *bytes)
{
    return r->engine->ops->state_set(r->engine, slot, length, bytes, r->options.state_bytes, NULL);
}

void set_state(rig *r, uint32_t slot, uint32_t length, const uint8_t *bytes)
{
    assert_int_equal(try_set_state(r, slot, length, bytes), CAIRN_OK);
}

cairn_status try_take_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, uint8_t *out)
{
    uint64_t size = 0;
    cairn_rows_size need = r->engine->ops->rows_size(r->engine, begin, end);
    cairn_status status =
        r->engine->ops->rows_export(r->engine, slot, begin, end, out, need.buffer_bytes, &size, NULL);
    if (status == CAIRN_OK)
        assert_int_equal(size, need.bytes);
    return status;
}

void take_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, uint8_t *out)
{
    assert_int_equal(try_take_rows(r, slot, begin, end, out), CAIRN_OK);
}

cairn_status try_put_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, const uint8_t *bytes)
{
    uint64_t size = r->engine->ops->rows_size(r->engine, begin, end).bytes;
    return r->engine->ops->rows_import(r->engine, slot, begin, end, begin, end, bytes, size, NULL);
}

void put_rows(rig *r, uint32_t slot, uint32_t begin, uint32_t end, const uint8_t *bytes)
{
    assert_int_equal(try_put_rows(r, slot, begin, end, bytes), CAIRN_OK);
}

void trim_to(rig *r, uint32_t slot, uint32_t length)
{
    assert_int_equal(r->engine->ops->trim(r->engine, slot, length, NULL), CAIRN_OK);
}

bool can_trim(rig *r, uint32_t slot, uint32_t length)
{
    return r->engine->ops->can_trim(r->engine, slot, length);
}

void reset(rig *r, uint32_t slot)
{
    r->engine->ops->reset(r->engine, slot);
}

void read_and_take(rig *r, uint32_t slot, uint32_t length, uint8_t *state, uint8_t *rows)
{
    read_to(r, slot, r->tokens, length, 64);
    take_state(r, slot, state);
    take_rows(r, slot, 0, length, rows);
}

void restore(rig *r, uint32_t slot, uint32_t length, const uint8_t *state, const uint8_t *rows)
{
    reset(r, slot);
    put_rows(r, slot, 0, length, rows);
    set_state(r, slot, length, state);
}

void expect_cold_answer(rig *r, uint32_t slot, uint32_t position)
{
    assert_int_equal(probe(r, slot, position), cold(r, position + 1));
}

void expect_another_answer(rig *r, uint32_t slot, uint32_t position)
{
    assert_int_not_equal(probe(r, slot, position), cold(r, position + 1));
}

uint64_t violations(const rig *r)
{
    return cairn_replica_counters_get(r->engine)->violations;
}
