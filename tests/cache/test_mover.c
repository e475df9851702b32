/* The mover alone: whole moves or nothing that is kept. */
#include "cache_support.h"

typedef struct fixture {
    cairn_replica_options options;
    cairn_engine *engine;
    cairn_heap heap;
    cairn_tier_ram *ram;
    cairn_mover mover;
} fixture;

static void begin(fixture *f)
{
    cairn_replica_defaults(&f->options);
    f->options.tail_bytes = 300;
    assert_ok(cairn_replica_new(&f->options, cairn_mem_default(), &f->engine, NULL));
    cairn_heap_init(&f->heap, cairn_mem_default(), 1 << 20, UINT64_MAX);
    assert_ok(cairn_tier_ram_new(&f->heap, &f->ram, NULL));
    f->mover = (cairn_mover){.engine = f->engine, .ram = f->ram};
}

static void end(fixture *f)
{
    cairn_tier_ram_free(f->ram);
    cairn_heap_release(&f->heap);
    assert_int_equal(cairn_replica_counters_get(f->engine)->violations, 0);
    f->engine->ops->free(f->engine);
}

static uint64_t blobs(const fixture *f)
{
    cairn_tier_stats stats;
    cairn_tier_ram_stats_get(f->ram, &stats);
    return stats.blobs;
}

/* Read `count` tokens into a slot. */
static void read_tokens(fixture *f, uint32_t slot, uint32_t count)
{
    cairn_token tokens[64];
    for (uint32_t i = 0; i < 64; i++) {
        tokens[i] = (cairn_token)i;
    }
    cairn_piece piece = {.slot = slot,
                         .begin = f->engine->ops->length(f->engine, slot),
                         .tokens = tokens,
                         .count = count,
                         .logits = CAIRN_LOGITS_LAST};
    assert_ok(f->engine->ops->decode(f->engine, &piece, 1, NULL));
}

static cairn_status take(fixture *f, uint32_t slot, uint32_t length, cairn_tier_id blob, uint64_t bytes_max,
                         cairn_moved *ret_moved)
{
    cairn_mover_state state = {.slot = slot, .length = length, .blob = blob};
    return cairn_mover_take(&f->mover, &state, bytes_max, ret_moved, NULL);
}

static cairn_status restore(fixture *f, uint32_t slot, uint32_t length, cairn_tier_id blob,
                            cairn_moved *ret_moved)
{
    cairn_mover_state state = {.slot = slot, .length = length, .blob = blob};
    return cairn_mover_restore(&f->mover, &state, ret_moved, NULL);
}

static void state_and_rows_move_to_another_slot(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    cairn_moved moved;
    read_tokens(&f, 0, 40);
    assert_ok(take(&f, 0, 40, 1, 10000, &moved));
    assert_int_equal(moved.bytes, 64);
    assert_true(moved.held_bytes > 64 && moved.held_bytes <= 10000);
    cairn_mover_rows all = {.slot = 0, .blob = 2, .begin = 0, .end = 40};
    assert_ok(cairn_mover_save_rows(&f.mover, &all, 10000, &moved, NULL));
    assert_int_equal(moved.bytes, 40 * 16);
    cairn_mover_rows first = {.slot = 1, .blob = 2, .begin = 0, .end = 40, .use_begin = 0, .use_end = 25};
    cairn_mover_rows rest = {.slot = 1, .blob = 2, .begin = 0, .end = 40, .use_begin = 25, .use_end = 40};
    assert_ok(cairn_mover_load_rows(&f.mover, &first, &moved, NULL));
    assert_ok(cairn_mover_load_rows(&f.mover, &rest, &moved, NULL));
    assert_ok(restore(&f, 1, 40, 1, &moved));
    read_tokens(&f, 0, 3);
    uint64_t expected = cairn_replica_digest(f.engine, 0, 2);
    read_tokens(&f, 1, 3);
    assert_true(cairn_replica_digest(f.engine, 0, 2) == expected);
    end(&f);
}

static void save_without_room_leaves_nothing_behind(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    cairn_moved moved;
    assert_status(take(&f, 0, 0, 1, 10000, &moved), CAIRN_UNSUPPORTED);
    read_tokens(&f, 0, 10);
    assert_status(take(&f, 0, 10, 1, 64, &moved), CAIRN_NOSPACE);
    cairn_mover_rows rows = {.slot = 0, .blob = 2, .begin = 0, .end = 10};
    assert_status(cairn_mover_save_rows(&f.mover, &rows, 459, &moved, NULL), CAIRN_NOSPACE);
    f.heap.bytes_max = f.heap.bytes;
    assert_status(take(&f, 0, 10, 1, 10000, &moved), CAIRN_NOSPACE);
    f.heap.bytes_max = 1 << 20;
    cairn_replica_fail(f.engine, CAIRN_REPLICA_STATE_GET, 1, CAIRN_ENGINE);
    assert_status(take(&f, 0, 10, 1, 10000, &moved), CAIRN_ENGINE);
    cairn_replica_fail(f.engine, CAIRN_REPLICA_ROWS_EXPORT, 1, CAIRN_ENGINE);
    assert_status(cairn_mover_save_rows(&f.mover, &rows, 10000, &moved, NULL), CAIRN_ENGINE);
    assert_int_equal(blobs(&f), 0);
    assert_ok(take(&f, 0, 10, 1, 10000, &moved)); /* the slot is as it was */
    end(&f);
}

static void damaged_or_missing_bytes_never_reach_the_engine(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    cairn_moved moved;
    read_tokens(&f, 0, 10);
    assert_ok(take(&f, 0, 10, 1, 10000, &moved));
    cairn_mover_rows rows = {.slot = 0, .blob = 2, .begin = 0, .end = 10};
    assert_ok(cairn_mover_save_rows(&f.mover, &rows, 10000, &moved, NULL));
    while (cairn_tier_ram_tend(f.ram, 1)) {
    }
    for (cairn_tier_id id = 1; id <= 2; id++) {
        const uint8_t *bytes;
        uint64_t size;
        assert_ok(cairn_tier_ram_pin(f.ram, id, &bytes, &size, NULL));
        ((uint8_t *)(uintptr_t)bytes)[size - 1] ^= 1;
        cairn_tier_ram_unpin(f.ram, id);
    }
    while (cairn_tier_ram_tend(f.ram, 2)) {
    }
    rows.slot = 1;
    rows.use_end = 10;
    assert_status(cairn_mover_load_rows(&f.mover, &rows, &moved, NULL), CAIRN_CORRUPT);
    assert_status(restore(&f, 0, 10, 1, &moved), CAIRN_CORRUPT);
    assert_status(restore(&f, 0, 10, 3, &moved), CAIRN_NOTFOUND);
    const cairn_replica_counters *counters = cairn_replica_counters_get(f.engine);
    assert_int_equal(counters->calls[CAIRN_REPLICA_ROWS_IMPORT] + counters->calls[CAIRN_REPLICA_STATE_SET],
                     0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_and_rows_move_to_another_slot),
        cmocka_unit_test(save_without_room_leaves_nothing_behind),
        cmocka_unit_test(damaged_or_missing_bytes_never_reach_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
