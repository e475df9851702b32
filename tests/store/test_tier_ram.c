/* The memory tier against a plain array of copies, its ceiling, its checks and its failures. */
#include "base/mem_test.h"
#include "base/rng.h"
#include "store/tier_ram.h"
#include "test_support.h"

typedef struct fixture {
    cairn_mem_test memory;
    cairn_heap heap;
    cairn_tier_ram *ram;
} fixture;

static void begin(fixture *f, uint64_t bytes_max, uint64_t map_bytes_min)
{
    cairn_mem_test_init(&f->memory, 0);
    cairn_heap_init(&f->heap, &f->memory.mem, bytes_max, map_bytes_min);
    assert_ok(cairn_tier_ram_new(&f->heap, &f->ram, NULL));
}

static void end(fixture *f)
{
    cairn_tier_ram_free(f->ram);
    cairn_heap_release(&f->heap);
    assert_int_equal(cairn_mem_test_leaked(&f->memory), 0);
    cairn_mem_test_release(&f->memory);
}

static uint8_t *fill(uint8_t *bytes, uint64_t size, uint64_t seed)
{
    cairn_rng rng;
    cairn_rng_init(&rng, seed);
    for (uint64_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)cairn_rng_u64(&rng);
    }
    return bytes;
}

static void put(fixture *f, cairn_tier_id id, uint64_t room, uint64_t size)
{
    uint8_t *bytes;
    assert_ok(cairn_tier_ram_reserve(f->ram, id, room, &bytes, NULL));
    fill(bytes, size, id);
    uint64_t held = cairn_tier_ram_settle(f->ram, id, size);
    assert_true(held >= size && held <= size + cairn_tier_ram_overhead(f->ram, room));
}

static void check(fixture *f, cairn_tier_id id, uint64_t size)
{
    const uint8_t *bytes;
    uint64_t got;
    uint8_t *expected = test_malloc(size);
    assert_ok(cairn_tier_ram_pin(f->ram, id, &bytes, &got, NULL));
    assert_int_equal(got, size);
    assert_memory_equal(bytes, fill(expected, size, id), size);
    cairn_tier_ram_unpin(f->ram, id);
    test_free(expected);
}

static void what_was_put_comes_back_byte_for_byte(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 64 << 20, 0);
    const uint64_t sizes[] = {1, 63, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5000000};
    for (uint64_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        put(&f, i + 1, sizes[i] + 777, sizes[i]);
    }
    for (uint64_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check(&f, i + 1, sizes[i]);
        check(&f, i + 1, sizes[i]); /* using is not consuming */
    }
    assert_ok(cairn_tier_ram_verify(f.ram, NULL));
    end(&f);
}

static void blob_is_invisible_until_it_is_settled(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 1 << 20, UINT64_MAX);
    uint8_t *bytes;
    const uint8_t *seen;
    uint64_t size;
    assert_ok(cairn_tier_ram_reserve(f.ram, 7, 100, &bytes, NULL));
    assert_false(cairn_tier_ram_has(f.ram, 7, NULL));
    assert_status(cairn_tier_ram_pin(f.ram, 7, &seen, &size, NULL), CAIRN_NOTFOUND);
    uint8_t *again;
    assert_status(cairn_tier_ram_reserve(f.ram, 7, 100, &again, NULL), CAIRN_EXISTS);
    memset(bytes, 3, 40);
    (void)cairn_tier_ram_settle(f.ram, 7, 40);
    assert_true(cairn_tier_ram_has(f.ram, 7, &size));
    assert_int_equal(size, 40);
    /* A reservation that was never filled goes as quietly. */
    assert_ok(cairn_tier_ram_reserve(f.ram, 8, 100, &bytes, NULL));
    cairn_tier_ram_drop(f.ram, 8);
    assert_ok(cairn_tier_ram_verify(f.ram, NULL));
    end(&f);
}

static void any_flipped_bit_is_found_by_tending_and_not_served(void **state)
{
    (void)state;
    for (uint32_t bit = 0; bit < 300 * 8; bit++) {
        fixture f;
        begin(&f, 1 << 20, UINT64_MAX);
        put(&f, 1, 300, 300);
        put(&f, 2, 300, 300);
        assert_true(cairn_tier_ram_tend(f.ram, 1) && cairn_tier_ram_tend(f.ram, 1));
        assert_false(cairn_tier_ram_tend(f.ram, 1));
        const uint8_t *seen;
        uint64_t size;
        assert_ok(cairn_tier_ram_pin(f.ram, 1, &seen, &size, NULL));
        cairn_tier_ram_unpin(f.ram, 1);
        uint8_t *target = (uint8_t *)(uintptr_t)seen + bit / 8;
        *target = (uint8_t)(*target ^ (1u << bit % 8));
        assert_status(cairn_tier_ram_verify(f.ram, NULL), CAIRN_CORRUPT);
        assert_false(cairn_tier_ram_tend(f.ram, 1)); /* not before the next round */
        assert_true(cairn_tier_ram_tend(f.ram, 2) && cairn_tier_ram_tend(f.ram, 2));
        assert_false(cairn_tier_ram_tend(f.ram, 2));
        *target = (uint8_t)(*target ^ (1u << bit % 8)); /* once damaged, never given out */
        assert_status(cairn_tier_ram_pin(f.ram, 1, &seen, &size, NULL), CAIRN_CORRUPT);
        check(&f, 2, 300);
        end(&f);
    }
}

static void a_new_blob_is_tended_in_the_round_it_came_in(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 1 << 20, UINT64_MAX);
    put(&f, 1, 300, 300);
    assert_true(cairn_tier_ram_tend(f.ram, 7));
    assert_false(cairn_tier_ram_tend(f.ram, 7));
    put(&f, 2, 300, 200);
    assert_true(cairn_tier_ram_tend(f.ram, 7));
    assert_false(cairn_tier_ram_tend(f.ram, 7));
    const uint8_t *bytes;
    uint64_t size, digest = 0;
    put(&f, 3, 300, 100);
    assert_ok(cairn_tier_ram_pin_unread(f.ram, 3, &bytes, &size, &digest, NULL));
    assert_true(digest == cairn_tier_ram_digest(bytes, size));
    cairn_tier_ram_unpin(f.ram, 3);
    assert_false(cairn_tier_ram_tend(f.ram, 7));
    end(&f);
}

static void dropped_while_pinned_stays_readable_and_counted_until_unpinned(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 10000, UINT64_MAX);
    put(&f, 1, 6000, 6000);
    const uint8_t *bytes;
    uint64_t size;
    assert_ok(cairn_tier_ram_pin(f.ram, 1, &bytes, &size, NULL));
    cairn_tier_ram_drop(f.ram, 1);
    assert_false(cairn_tier_ram_has(f.ram, 1, NULL));
    uint8_t *room;
    assert_status(cairn_tier_ram_reserve(f.ram, 2, 6000, &room, NULL), CAIRN_NOSPACE);
    uint8_t expected[6000];
    assert_memory_equal(bytes, fill(expected, size, 1), size);
    assert_ok(cairn_tier_ram_verify(f.ram, NULL));
    cairn_tier_ram_unpin(f.ram, 1);
    put(&f, 2, 6000, 6000);
    cairn_tier_ram_drop(f.ram, 99); /* absent: nothing happens */
    end(&f);
}

static void table_form_copies_in_and_out(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 10000, UINT64_MAX);
    cairn_tier *tier = cairn_tier_ram_as_tier(f.ram);
    uint8_t in[500];
    uint8_t out[500];
    uint64_t size = 0;
    fill(in, sizeof in, 5);
    assert_ok(tier->ops->put(tier, 5, in, sizeof in, NULL));
    assert_status(tier->ops->put(tier, 5, in, sizeof in, NULL), CAIRN_EXISTS);
    assert_status(tier->ops->put(tier, 0, in, sizeof in, NULL), CAIRN_INVALID);
    assert_status(tier->ops->put(tier, 6, in, 0, NULL), CAIRN_INVALID);
    assert_status(tier->ops->get(tier, 5, out, 499, &size, NULL), CAIRN_LIMIT);
    assert_int_equal(size, 0);
    assert_ok(tier->ops->get(tier, 5, out, 500, &size, NULL));
    assert_int_equal(size, 500);
    assert_memory_equal(in, out, 500);
    assert_status(tier->ops->get(tier, 6, out, 500, &size, NULL), CAIRN_NOTFOUND);
    assert_true(tier->ops->has(tier, 5, &size));
    cairn_tier_stats stats;
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.blobs, 1);
    assert_int_equal(stats.blob_bytes, 500);
    assert_int_equal(stats.held_bytes, f.heap.bytes);
    tier->ops->drop(tier, 5);
    assert_false(tier->ops->has(tier, 5, NULL));
    assert_ok(tier->ops->verify(tier, NULL));
    end(&f);
}

static void every_failing_allocation_leaves_the_tier_whole(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        fixture f;
        begin(&f, 1 << 20, UINT64_MAX);
        f.memory.fail_at = f.memory.calls + n;
        for (cairn_tier_id id = 1; id <= 40; id++) {
            uint8_t *bytes;
            if (cairn_tier_ram_reserve(f.ram, id, 50, &bytes, NULL) == CAIRN_OK) {
                fill(bytes, 30, id);
                assert_true(cairn_tier_ram_settle(f.ram, id, 30) >= 30);
            }
            assert_ok(cairn_tier_ram_verify(f.ram, NULL));
        }
        for (cairn_tier_id id = 1; id <= 40; id++) {
            if (cairn_tier_ram_has(f.ram, id, NULL)) {
                check(&f, id, 30);
            }
            cairn_tier_ram_drop(f.ram, id);
        }
        assert_ok(cairn_tier_ram_verify(f.ram, NULL));
        bool failed = f.memory.fails > 0;
        end(&f);
        if (!failed) {
            assert_true(n > 80);
            break;
        }
    }
    fixture f;
    cairn_mem_test_init(&f.memory, 0);
    for (uint64_t n = 1; n <= 2; n++) {
        f.memory.fail_at = f.memory.calls + n;
        cairn_heap_init(&f.heap, &f.memory.mem, 100, 0);
        assert_status(cairn_tier_ram_new(&f.heap, &f.ram, NULL), CAIRN_NOMEM);
        cairn_heap_release(&f.heap);
        assert_int_equal(cairn_mem_test_leaked(&f.memory), 0);
    }
    cairn_mem_test_release(&f.memory);
}

enum { MODEL_BLOBS = 400, MODEL_PINS = 8 };

typedef struct model {
    uint64_t size[MODEL_BLOBS]; /* 0: absent */
    uint32_t pins[MODEL_BLOBS];
    bool dropped[MODEL_BLOBS];
} model;

/* Everything that is counted, worked out anew: must never pass the ceiling, and never be less than is held. */
static void model_compare(fixture *f, const model *m)
{
    uint64_t bytes = 0;
    uint64_t bound = 0;
    uint64_t blobs = 0;
    for (uint32_t i = 0; i < MODEL_BLOBS; i++) {
        bool there = m->size[i] > 0 && !m->dropped[i];
        assert_int_equal(cairn_tier_ram_has(f->ram, i + 1, NULL), there);
        if (m->size[i] > 0) {
            blobs += there ? 1 : 0; /* one that is dropped while pinned is held, but nobody's any more */
            bytes += m->size[i];
            bound += m->size[i] + cairn_tier_ram_overhead(f->ram, m->size[i] + 100);
        }
    }
    cairn_tier_stats stats;
    cairn_tier_ram_stats_get(f->ram, &stats);
    assert_int_equal(stats.blobs, blobs);
    assert_int_equal(stats.blob_bytes, bytes);
    assert_int_equal(stats.held_bytes, f->heap.bytes);
    assert_true(f->heap.bytes <= bound + 1024);
    assert_true(f->heap.bytes_peak <= f->heap.bytes_max + 8192); /* tables are counted, not refused */
}

static void random_operations_equal_a_plain_array(void **state)
{
    (void)state;
    uint64_t seed = cairn_test_seed("tier_ram", 20260101);
    cairn_rng rng;
    cairn_rng_init(&rng, seed);
    fixture f;
    begin(&f, 300000, 2500); /* the larger ones have pages of their own */
    model *m = test_calloc(1, sizeof *m);
    for (int step = 0; step < 40000; step++) {
        uint32_t i = (uint32_t)cairn_rng_below(&rng, MODEL_BLOBS);
        uint64_t size = 1 + cairn_rng_below(&rng, cairn_rng_chance(&rng, 0.1) ? 9000 : 900);
        switch (cairn_rng_below(&rng, 4)) {
        case 0: {
            uint8_t *bytes;
            uint64_t before = f.heap.bytes;
            cairn_status status = cairn_tier_ram_reserve(f.ram, i + 1, size + 100, &bytes, NULL);
            if (m->size[i] > 0) {
                assert_status(status, CAIRN_EXISTS);
            } else if (before + cairn_heap_room(&f.heap, size + 100) > f.heap.bytes_max) {
                assert_status(status, CAIRN_NOSPACE);
                assert_int_equal(f.heap.bytes, before);
            } else {
                assert_ok(status);
                fill(bytes, size, i + 1);
                (void)cairn_tier_ram_settle(f.ram, i + 1, size);
                m->size[i] = size;
            }
            break;
        }
        case 1:
            cairn_tier_ram_drop(f.ram, i + 1);
            m->dropped[i] = m->size[i] > 0 && m->pins[i] > 0;
            m->size[i] = m->pins[i] > 0 ? m->size[i] : 0;
            break;
        case 2:
            if (m->size[i] > 0 && !m->dropped[i]) {
                check(&f, i + 1, m->size[i]);
                if (m->pins[i] < MODEL_PINS && cairn_rng_chance(&rng, 0.2)) {
                    const uint8_t *bytes;
                    assert_ok(cairn_tier_ram_pin(f.ram, i + 1, &bytes, &size, NULL));
                    m->pins[i]++;
                }
            }
            break;
        default:
            if (m->pins[i] > 0) {
                cairn_tier_ram_unpin(f.ram, i + 1);
                m->pins[i]--;
                if (m->dropped[i] && m->pins[i] == 0) {
                    m->dropped[i] = false;
                    m->size[i] = 0;
                }
            }
        }
        if (step % 500 == 0) {
            model_compare(&f, m);
            assert_ok(cairn_tier_ram_verify(f.ram, NULL));
        }
    }
    for (uint32_t i = 0; i < MODEL_BLOBS; i++) {
        for (; m->pins[i] > 0; m->pins[i]--) {
            cairn_tier_ram_unpin(f.ram, i + 1);
        }
    }
    test_free(m);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_comes_back_byte_for_byte),
        cmocka_unit_test(blob_is_invisible_until_it_is_settled),
        cmocka_unit_test(any_flipped_bit_is_found_by_tending_and_not_served),
        cmocka_unit_test(a_new_blob_is_tended_in_the_round_it_came_in),
        cmocka_unit_test(dropped_while_pinned_stays_readable_and_counted_until_unpinned),
        cmocka_unit_test(table_form_copies_in_and_out),
        cmocka_unit_test(every_failing_allocation_leaves_the_tier_whole),
        cmocka_unit_test(random_operations_equal_a_plain_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
