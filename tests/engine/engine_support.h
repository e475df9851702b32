/*
 * engine_support - what the tests of libllama engines share: states and rows out and in, reading cut at a grid.
 *
 * Everything goes through the table of calls (cairn/engine.h); what must not fail is asserted here.
 *
 * Owner    `bytes` are malloc'ed; the caller frees `at`
 * Thread   one
 */
#ifndef CAIRN_ENGINE_SUPPORT_H
#define CAIRN_ENGINE_SUPPORT_H

#include "engine/engine_llama.h"
#include "test_support.h"

typedef struct bytes {
    uint8_t *at;
    uint64_t size;
} bytes;

/* For cairn_llama_log_set: nothing is said. */
static inline void quiet(void *ctx, cairn_llama_level level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)text;
}

/* Of a slot that holds something; empty where the engine has no states. */
static inline bytes take_state(cairn_engine *engine, uint32_t slot)
{
    bytes state = {.size = engine->ops->state_size(engine, slot)};
    assert_true(state.size <= engine->info.state_bytes_max);
    assert_int_equal(state.size > 0, engine->info.state_bytes_max > 0);
    state.at = malloc(state.size > 0 ? state.size : 1);
    assert_non_null(state.at);
    if (state.size > 0)
        assert_ok(engine->ops->state_get(engine, slot, state.at, state.size, NULL));
    return state;
}

static inline bytes take_rows(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end)
{
    cairn_rows_size size = engine->ops->rows_size(engine, begin, end);
    bytes rows = {.at = malloc(size.buffer_bytes + 1)};
    assert_non_null(rows.at);
    assert_ok(
        engine->ops->rows_export(engine, slot, begin, end, rows.at, size.buffer_bytes, &rows.size, NULL));
    assert_int_equal(rows.size, size.bytes);
    return rows;
}

static inline cairn_status put_state(cairn_engine *engine, uint32_t slot, uint32_t length, bytes state)
{
    return engine->ops->state_set(engine, slot, length, state.at, state.size, NULL);
}

static inline cairn_status put_rows(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                    bytes rows)
{
    return engine->ops->rows_import(engine, slot, begin, end, begin, end, rows.at, rows.size, NULL);
}

/*
 * Read tokens up to `end` with cuts at multiples of `batch`, as prompts are (`settle`) or as nothing should be (not).
 *
 * Gives    logits of the last one, borrowed; NULL when nothing was read
 */
static inline const float *read_cut(cairn_engine *engine, uint32_t slot, const cairn_token *tokens,
                                    uint32_t end, uint32_t batch, bool settle)
{
    uint32_t count = 0;
    for (uint32_t at = engine->ops->length(engine, slot); at < end; at += count) {
        count = batch - at % batch < end - at ? batch - at % batch : end - at;
        cairn_piece piece = {slot, at, tokens + at, count, CAIRN_LOGITS_LAST, settle};
        assert_ok(engine->ops->decode(engine, &piece, 1, NULL));
    }
    return count > 0 ? engine->ops->logits(engine, 0, count - 1) : NULL;
}

#endif
