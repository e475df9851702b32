/*
 * An engine whose state holds everything: its rows take no bytes. What lost its slot is resumed all the same, from memory and
 * from disk, and answers are those of a cold run.
 */
#include "base/hash.h"
#include "base/io_memory.h"
#include "cairn/cairn.h"
#include "test_support.h"

#define SECOND_NS UINT64_C(1000000000)

enum { SLOT_TOKENS = 8192, VOCAB = 64, STATE_BYTES = 4096, PROMPT = 3000, ANSWER = 8 };

/* --- the engine: a hash of all tokens, and nothing else ----------------------------------------------------- */

typedef struct plain {
    cairn_engine head;
    uint32_t length;
    bool set; /* the state is that of `length` */
    uint64_t state;
    float logits[VOCAB];
} plain;

/* A thousand tokens a second. */
static uint64_t clock_ns = SECOND_NS;

static uint64_t clock_now(void *ctx)
{
    (void)ctx;
    return clock_ns;
}

static cairn_status plain_decode(cairn_engine *engine, const cairn_piece *pieces, uint32_t count,
                                 cairn_error *reterr)
{
    plain *p = (plain *)engine;
    assert_int_equal(count, 1);
    assert_int_equal(pieces[0].begin, p->length);
    if (!p->set && p->length > 0) {
        return cairn_error_set(reterr, CAIRN_ENGINE, "plain", "no state");
    }
    for (uint32_t i = 0; i < pieces[0].count; i++) {
        p->state = cairn_hash_mix(p->state ^ (uint64_t)pieces[0].tokens[i]) + 1;
    }
    p->length += pieces[0].count;
    clock_ns += pieces[0].count * UINT64_C(1000000);
    p->set = true;
    for (uint32_t i = 0; i < VOCAB; i++) {
        p->logits[i] = (float)(cairn_hash_mix(p->state + i) >> 40);
    }
    return CAIRN_OK;
}

static const float *plain_logits(cairn_engine *engine, uint32_t piece, uint32_t index)
{
    (void)piece;
    (void)index;
    return ((plain *)engine)->logits;
}

static uint32_t plain_length(cairn_engine *engine, uint32_t slot)
{
    (void)slot;
    return ((plain *)engine)->length;
}

static bool plain_can_trim(cairn_engine *engine, uint32_t slot, uint32_t length)
{
    (void)slot;
    return length == 0 || length == ((plain *)engine)->length;
}

static void plain_reset(cairn_engine *engine, uint32_t slot)
{
    plain *p = (plain *)engine;
    (void)slot;
    p->length = 0;
    p->state = 0;
    p->set = false;
}

static cairn_status plain_trim(cairn_engine *engine, uint32_t slot, uint32_t length, cairn_error *reterr)
{
    plain *p = (plain *)engine;
    (void)reterr;
    if (length == 0) {
        plain_reset(engine, slot);
    }
    p->set = p->set && length == p->length;
    p->length = length;
    return CAIRN_OK;
}

static uint64_t plain_state_size(cairn_engine *engine, uint32_t slot)
{
    (void)slot;
    return ((plain *)engine)->set ? STATE_BYTES : 0;
}

static cairn_status plain_state_get(cairn_engine *engine, uint32_t slot, uint8_t *out, uint64_t size,
                                    cairn_error *reterr)
{
    (void)slot;
    (void)reterr;
    assert_int_equal(size, STATE_BYTES);
    memset(out, 0, size);
    memcpy(out, &((plain *)engine)->state, sizeof(uint64_t));
    return CAIRN_OK;
}

static cairn_status plain_state_set(cairn_engine *engine, uint32_t slot, uint32_t length,
                                    const uint8_t *bytes, uint64_t size, cairn_error *reterr)
{
    plain *p = (plain *)engine;
    (void)slot;
    (void)reterr;
    assert_int_equal(size, STATE_BYTES);
    assert_int_equal(length, p->length);
    memcpy(&p->state, bytes, sizeof p->state);
    p->set = true;
    return CAIRN_OK;
}

static cairn_rows_size plain_rows_size(cairn_engine *engine, uint32_t begin, uint32_t end)
{
    (void)engine;
    (void)begin;
    (void)end;
    return (cairn_rows_size){0, 0};
}

static cairn_status plain_rows_export(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                      uint8_t *out, uint64_t out_size, uint64_t *ret_size,
                                      cairn_error *reterr)
{
    (void)engine;
    (void)slot;
    (void)begin;
    (void)end;
    (void)out;
    (void)out_size;
    *ret_size = 0;
    return cairn_error_set(reterr, CAIRN_UNSUPPORTED, "plain", "there are none");
}

static cairn_status plain_rows_import(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                      uint32_t begin_use, uint32_t use_end, const uint8_t *bytes,
                                      uint64_t size, cairn_error *reterr)
{
    plain *p = (plain *)engine;
    (void)slot;
    (void)bytes;
    (void)reterr;
    assert_int_equal(size, 0);
    assert_int_equal(begin_use, p->length);
    assert_true(begin <= begin_use && begin_use < use_end && use_end <= end);
    p->length = use_end;
    p->set = false;
    return CAIRN_OK;
}

static void plain_interrupt(cairn_engine *engine)
{
    (void)engine;
}

static const cairn_engine_ops plain_ops = {.decode = plain_decode,
                                           .logits = plain_logits,
                                           .length = plain_length,
                                           .can_trim = plain_can_trim,
                                           .trim = plain_trim,
                                           .reset = plain_reset,
                                           .state_size = plain_state_size,
                                           .state_get = plain_state_get,
                                           .state_set = plain_state_set,
                                           .rows_size = plain_rows_size,
                                           .rows_export = plain_rows_export,
                                           .rows_import = plain_rows_import,
                                           .interrupt = plain_interrupt,
                                           .resume_work = plain_interrupt};

static void plain_init(plain *p)
{
    *p = (plain){.head = {.ops = &plain_ops,
                          .info = {.name = "plain",
                                   .build = "plain 1",
                                   .fingerprint = {7},
                                   .slots = 1,
                                   .slot_tokens_max = SLOT_TOKENS,
                                   .batch_tokens_max = 256,
                                   .vocab_size = VOCAB,
                                   .trim = CAIRN_TRIM_NEVER,
                                   .rows_move = true,
                                   .exact = true,
                                   .state_bytes_max = STATE_BYTES}}};
}

/* --- conversations -------------------------------------------------------------------------------------------- */

typedef struct talk {
    cairn_token tokens[SLOT_TOKENS];
    uint32_t count;
} talk;

static void talk_add(talk *t, uint64_t seed, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        t->tokens[t->count++] = (cairn_token)(cairn_hash_mix(seed * 100000 + i) % VOCAB);
    }
}

/* Ask and answer; the answer becomes part of the talk. Gives the record, and the digest of the logits on the way. */
static cairn_record ask(cairn_cache *cache, talk *t, cairn_resume_mode mode, uint64_t *ret_bits)
{
    cairn_request *request;
    uint64_t bits = 0;
    const cairn_boundary opener = {
        .position = t->count - 4, .kinds = CAIRN_BOUNDARY_OPENER, .role = CAIRN_ROLE_ASSISTANT};
    const cairn_prompt prompt = {
        .tokens = t->tokens, .count = t->count, .boundaries = &opener, .count_boundaries = 1, .mode = mode};
    cairn_token answer[ANSWER];
    assert_ok(cairn_cache_begin(cache, &prompt, &request, NULL));
    for (uint32_t i = 0;;) {
        if (cairn_request_phase(request) != CAIRN_PHASE_READY) {
            assert_ok(cairn_cache_step(cache, &request, 1, NULL));
            continue;
        }
        const float *logits = cairn_request_logits(request);
        bits = cairn_hash_bytes64(logits, VOCAB * sizeof *logits, bits);
        if (i == ANSWER) {
            break;
        }
        answer[i] = (cairn_token)(bits % VOCAB);
        assert_ok(cairn_request_push(request, answer[i++]));
    }
    cairn_cache_end(cache, request, CAIRN_END_DONE);
    cairn_record record = *cairn_request_record(request);
    cairn_request_free(request);
    assert_ok(cairn_cache_verify(cache, NULL));
    memcpy(t->tokens + t->count, answer, sizeof answer);
    t->count += ANSWER;
    *ret_bits = bits;
    return record;
}

/* The same, and compare with a cache that is off. */
static cairn_record ask_and_compare(cairn_cache *cache, cairn_cache *off, talk *t, cairn_resume_mode mode)
{
    static talk copy;
    uint64_t bits, cold;
    copy = *t;
    cairn_record record = ask(cache, t, mode, &bits);
    (void)ask(off, &copy, mode, &cold);
    assert_true(bits == cold);
    return record;
}

static void what_lost_its_slot_is_resumed_without_rows(void **state)
{
    (void)state;
    static talk talks[3];
    for (int mode = CAIRN_RESUME_FAST; mode <= CAIRN_RESUME_EXACT; mode++) {
        plain engine, other;
        cairn_cache *cache, *off;
        cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 64u << 20);
        const cairn_cache_disk disk = {
            .dir = "/store", .bytes_max = 32u << 20, .io = cairn_io_memory_io(memory)};
        const cairn_cache_options options = {.ram_bytes_max = 32u << 20, .disk = &disk, .now_ns = clock_now};
        const cairn_cache_options cold = {.ram_bytes_max = 1u << 20, .off = true, .now_ns = clock_now};
        plain_init(&engine);
        plain_init(&other);
        assert_ok(cairn_cache_new(cairn_mem_default(), &engine.head, &options, &cache, NULL));
        assert_ok(cairn_cache_new(cairn_mem_default(), &other.head, &cold, &off, NULL));
        for (uint32_t i = 0; i < 3; i++) {
            talks[i].count = 0;
            talk_add(&talks[i], i + 1, PROMPT);
            (void)ask_and_compare(cache, off, &talks[i], (cairn_resume_mode)mode);
        }
        for (uint32_t i = 0; i < 3; i++) { /* each after two others had the slot */
            uint32_t before = talks[i].count;
            talk_add(&talks[i], 10 + i, 100);
            cairn_record record = ask_and_compare(cache, off, &talks[i], (cairn_resume_mode)mode);
            assert_int_equal(record.source, CAIRN_SOURCE_RAM);
            assert_true(record.resume + 512 >= before);
        }
        assert_true(cairn_cache_flush(cache, 60 * SECOND_NS));
        cairn_cache_free(cache);
        plain_init(&engine);
        assert_ok(cairn_cache_new(cairn_mem_default(), &engine.head, &options, &cache, NULL));
        /* Each after a restart; exactly, the one that had the slot: the others' last states weren't worth keeping. */
        for (uint32_t i = mode == CAIRN_RESUME_EXACT ? 2 : 0; i < 3; i++) {
            uint32_t before = talks[i].count;
            talk_add(&talks[i], 20 + i, 100);
            cairn_record record = ask_and_compare(cache, off, &talks[i], (cairn_resume_mode)mode);
            assert_int_equal(record.source, CAIRN_SOURCE_DISK);
            assert_true(record.resume + 512 >= before);
        }
        cairn_cache_free(cache);
        cairn_cache_free(off);
        cairn_io_memory_free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lost_its_slot_is_resumed_without_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
