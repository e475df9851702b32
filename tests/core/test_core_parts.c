/*
 * test_core_parts - ledger, pool, lineage, boundaries, divergence counts and words, each on its own.
 */
#include "base/mem_test.h"
#include "core/boundary.h"
#include "core/divergence.h"
#include "core/lineage.h"
#include "core/pool.h"
#include "core/value.h"
#include "test_support.h"

static void ledger_counts_before_and_never_passes_its_cap(void **state)
{
    (void)state;
    cairn_ledger l;
    cairn_ledger_init(&l, 1000, 100);
    assert_true(cairn_ledger_reserve(&l, 600));
    assert_false(cairn_ledger_reserve(&l, 401));
    assert_true(cairn_ledger_buffer_hold(&l, 300));
    assert_true(cairn_ledger_buffer_hold(&l, 300)); /* one after another: they share it */
    assert_int_equal(cairn_ledger_sum(&l), 900);
    assert_false(cairn_ledger_index_grow(&l, 101));
    assert_true(cairn_ledger_index_grow(&l, 100));
    cairn_ledger_settle(&l, 600, 500, false);
    cairn_ledger_release(&l, 500, false);
    assert_true(cairn_ledger_fits(&l, 600));
    cairn_ledger_buffer_release(&l);
    cairn_ledger_buffer_release(&l);
    assert_int_equal(cairn_ledger_sum(&l), 100);
    assert_int_equal(l.peak_bytes, 1000);
    l.bytes_max = 50;
    assert_int_equal(cairn_ledger_over(&l), 50);
    assert_false(cairn_ledger_fits(&l, 0));
}

static void dropped_bytes_are_not_given_to_the_index_in_the_same_step(void **state)
{
    (void)state;
    cairn_ledger l;
    cairn_ledger_init(&l, 1000, 500);
    assert_true(cairn_ledger_reserve(&l, 1000));
    cairn_ledger_settle(&l, 1000, 1000, true);
    cairn_ledger_release(&l, 1000, true);
    assert_false(cairn_ledger_index_grow(&l, 1));
    cairn_ledger_step(&l);
    assert_true(cairn_ledger_index_grow(&l, 1));
}

static void pool_items_stay_where_they_are(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 0);
    cairn_ledger ledger;
    cairn_ledger_init(&ledger, 1 << 24, 1 << 24);
    cairn_pool pool;
    cairn_pool_init(&pool, &heap.mem, &ledger, 16);
    static uint32_t *where[20000];
    for (uint32_t i = 0; i < 20000; i++) {
        assert_int_equal(cairn_pool_take(&pool), i);
        where[i] = cairn_pool_at(&pool, i);
        assert_int_equal(where[i][0], 0);
        where[i][0] = where[i][3] = i;
    }
    for (uint32_t i = 0; i < 20000; i++) {
        assert_ptr_equal(where[i], cairn_pool_at(&pool, i));
        assert_int_equal(where[i][0], i);
    }
    cairn_pool_give(&pool, 7);
    cairn_pool_give(&pool, 15000);
    assert_int_equal(cairn_pool_take(&pool), 15000);
    assert_int_equal(cairn_pool_take(&pool), 7);
    assert_int_equal(where[7][3], 0);
    cairn_pool_release(&pool);
    assert_int_equal(ledger.index_bytes, 0);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    cairn_mem_test_release(&heap);
}

static cairn_lineage read_to(const uint32_t *cuts, uint32_t count, cairn_ledger *ledger)
{
    cairn_lineage list = {0};
    uint64_t digest = CAIRN_LINEAGE_SEED;
    for (uint32_t i = 0; i < count; i++) {
        digest = cairn_lineage_step(digest, cuts[i]);
        cairn_run run = {.rows_end = cuts[i], .cut = cuts[i], .digest = digest};
        assert_true(cairn_lineage_add(&list, cairn_mem_default(), ledger, run));
    }
    return list;
}

static void lineage_slices_join_again_and_other_cuts_do_not(void **state)
{
    (void)state;
    const cairn_mem *mem = cairn_mem_default();
    cairn_ledger ledger;
    cairn_ledger_init(&ledger, 1 << 20, 1 << 20);
    const uint32_t cuts[] = {100, 250, 400};
    const uint32_t others[] = {120, 250, 400};
    cairn_lineage whole = read_to(cuts, 3, &ledger);
    cairn_lineage other = read_to(others, 3, &ledger);
    uint64_t digest = whole.runs[2].digest;
    assert_true(cairn_lineage_whole(&whole, 400, digest));
    assert_true(cairn_lineage_whole(&whole, 250, whole.runs[1].digest));
    assert_false(cairn_lineage_whole(&whole, 300, digest));
    assert_false(cairn_lineage_whole(&whole, 400, whole.runs[1].digest));
    cairn_lineage joined = {0};
    assert_true(cairn_lineage_copy(&joined, mem, &ledger, &whole, 0, 180)); /* in the middle of a batch */
    assert_int_equal(joined.count, 2);
    assert_false(cairn_lineage_whole(&joined, 180, joined.runs[1].digest));
    assert_true(cairn_lineage_copy(&joined, mem, &ledger, &whole, 180, 400));
    assert_int_equal(joined.count, 3);
    assert_true(cairn_lineage_whole(&joined, 400, digest));
    cairn_lineage_trim(&joined, 250);
    assert_true(cairn_lineage_copy(&joined, mem, &ledger, &other, 250, 400));
    assert_false(cairn_lineage_whole(&joined, 400, digest)); /* rows of another reading */
    assert_int_equal(cairn_lineage_step(0, 5), 0);
    cairn_lineage_release(&whole, mem, &ledger);
    cairn_lineage_release(&other, mem, &ledger);
    cairn_lineage_release(&joined, mem, &ledger);
    assert_int_equal(ledger.index_bytes, 0);
}

static void cuts_are_a_function_of_count_and_boundaries(void **state)
{
    (void)state;
    cairn_core_options o = {.slots = 1,
                            .slot_tokens_max = 10000,
                            .batch_tokens_max = 512,
                            .grid_tokens = 512,
                            .cut_tokens_min = 32};
    static const cairn_boundary bounds[] = {
        {.position = 0, .kinds = CAIRN_BOUNDARY_MESSAGE_START},
        {.position = 40, .kinds = CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_SYSTEM_END},
        {.position = 60, .kinds = CAIRN_BOUNDARY_MESSAGE_START}, /* too near */
        {.position = 500, .kinds = CAIRN_BOUNDARY_MESSAGE_START},
        {.position = 700, .kinds = CAIRN_BOUNDARY_THINK_START}, /* not a cut */
        {.position = 1200, .kinds = CAIRN_BOUNDARY_OPENER},
    };
    cairn_prompt p = {.count = 1204, .boundaries = bounds, .count_boundaries = 6};
    uint32_t out[16];
    const uint32_t want[] = {40, 500, 1012, 1200, 1204};
    assert_int_equal(cairn_core_cuts(&o, &p, out, 16), 5);
    assert_memory_equal(out, want, sizeof want);
    assert_int_equal(cairn_core_cuts(&o, &p, out, 2), 5); /* counts what it doesn't write */
    p.count_boundaries = 0;
    assert_int_equal(cairn_core_cuts(&o, &p, out, 16), 3);
    assert_int_equal(out[0], 512);
    for (uint32_t batch = 1; batch < 70; batch++) { /* never longer than a batch, always forward */
        o = (cairn_core_options){.slots = 1,
                                 .slot_tokens_max = 9999,
                                 .batch_tokens_max = batch,
                                 .grid_tokens = 37,
                                 .cut_tokens_min = 20};
        static uint32_t cuts[2000];
        p.count_boundaries = 6;
        uint32_t count = cairn_core_cuts(&o, &p, cuts, 2000);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(cuts[i] > (i ? cuts[i - 1] : 0) && cuts[i] - (i ? cuts[i - 1] : 0) <= batch);
        }
        assert_int_equal(cuts[count - 1], 1204);
    }
}

static void boundaries_at_one_position_are_one(void **state)
{
    (void)state;
    static const cairn_boundary bounds[] = {
        {.position = 5, .message = 1, .kinds = CAIRN_BOUNDARY_ANSWER_END, .role = CAIRN_ROLE_ASSISTANT},
        {.position = 5, .message = 2, .kinds = CAIRN_BOUNDARY_MESSAGE_START, .role = CAIRN_ROLE_USER},
        {.position = 9, .message = 3, .kinds = CAIRN_BOUNDARY_OPENER, .role = CAIRN_ROLE_ASSISTANT},
    };
    cairn_prompt p = {.count = 12, .boundaries = bounds, .count_boundaries = 3};
    cairn_boundary at = cairn_boundary_at(&p, 5);
    assert_int_equal(at.kinds, CAIRN_BOUNDARY_ANSWER_END | CAIRN_BOUNDARY_MESSAGE_START);
    assert_int_equal(at.message, 2);
    assert_int_equal(at.role, CAIRN_ROLE_USER);
    assert_int_equal(cairn_boundary_message_of(&p, 8).message, 2);
    assert_int_equal(cairn_boundary_message_of(&p, 4).kinds, 0);
    assert_int_equal(cairn_boundary_messages(&p), 4);
    assert_int_equal(
        cairn_boundary_class(CAIRN_BOUNDARY_OPENER | CAIRN_BOUNDARY_MESSAGE_START, CAIRN_ROLE_ASSISTANT),
        CAIRN_CLASS_OPENER);
    assert_true(cairn_boundary_protected(CAIRN_BOUNDARY_SYSTEM_END));
    assert_false(cairn_boundary_protected(CAIRN_BOUNDARY_MESSAGE_START));
}

static void counted_divergences_move_the_prior(void **state)
{
    (void)state;
    float sum = 0;
    for (uint32_t c = 0; c < CAIRN_CLASS_COUNT; c++) {
        for (uint32_t b = 0; b < CAIRN_DISTANCES; b++) {
            sum += cairn_divergence_prior((cairn_class)c, b);
        }
    }
    assert_true(sum > 0.999f && sum < 1.001f);
    assert_int_equal(cairn_divergence_bucket(5), 4);
    assert_int_equal(cairn_divergence_bucket(8), 5);
    assert_int_equal(cairn_divergence_bucket(16), 6);
    assert_int_equal(cairn_divergence_bucket(1000), 7);
    float counts[CAIRN_DIVERGENCE_COUNTS] = {0};
    float before = cairn_divergence_chance(counts, CAIRN_CLASS_TOOL, 6);
    for (int i = 0; i < 100; i++) {
        cairn_divergence_count(counts, CAIRN_CLASS_TOOL, 12, false);
    }
    assert_true(cairn_divergence_chance(counts, CAIRN_CLASS_TOOL, 6) > 0.8f);
    assert_true(cairn_divergence_chance(NULL, CAIRN_CLASS_TOOL, 6) == before);
    for (int i = 0; i < 1000; i++) { /* it fades */
        cairn_divergence_count(counts, CAIRN_CLASS_OPENER, 0, false);
    }
    assert_true(cairn_divergence_chance(counts, CAIRN_CLASS_TOOL, 6) < 0.05f);
    assert_true(counts[CAIRN_DIVERGENCE_SUM] < 257.0f);
    for (int i = 0; i < 200; i++) {
        cairn_divergence_turn(counts, 1, false);
    }
    assert_true(cairn_divergence_goes_on(counts, 1) < 0.03 && cairn_divergence_goes_on(counts, 3) > 0.8);
}

static void reading_costs_are_fitted(void **state)
{
    (void)state;
    cairn_core_options o = {.read_ns_token = 5e6};
    cairn_costs costs;
    cairn_costs_init(&costs, &o);
    for (uint32_t i = 0; i < 200; i++) { /* 1 ms a token and 10 ns for each token before */
        uint32_t begin = (i % 20) * 512;
        double cost = 1e6 * 512 + 5.0 * ((double)(begin + 512) * (begin + 512) - (double)begin * begin);
        cairn_costs_saw_read(&costs, begin, begin + 512, (uint64_t)cost);
    }
    double seen = cairn_costs_read(&costs, 0, 10000);
    double want = 1e6 * 10000 + 5.0 * 1e8;
    assert_true(seen > want * 0.98 && seen < want * 1.02);
    assert_true(cairn_costs_read(&costs, 10, 10) == 0);
}

static void every_reason_has_words(void **state)
{
    (void)state;
    for (int i = 0; i < CAIRN_REASON_COUNT; i++) {
        assert_string_not_equal(cairn_reason_word((cairn_reason)i), "unknown");
        assert_string_not_equal(cairn_reason_sentence((cairn_reason)i), "unknown");
    }
    assert_string_equal(cairn_reason_word(CAIRN_REASON_NEVER_TAKEN), "never-taken");
    assert_string_equal(cairn_reason_word(CAIRN_REASON_COUNT), "unknown");
    assert_string_equal(cairn_source_word(CAIRN_SOURCE_RAM), "ram");
    assert_string_equal(cairn_source_word((cairn_source)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger_counts_before_and_never_passes_its_cap),
        cmocka_unit_test(dropped_bytes_are_not_given_to_the_index_in_the_same_step),
        cmocka_unit_test(pool_items_stay_where_they_are),
        cmocka_unit_test(lineage_slices_join_again_and_other_cuts_do_not),
        cmocka_unit_test(cuts_are_a_function_of_count_and_boundaries),
        cmocka_unit_test(boundaries_at_one_position_are_one),
        cmocka_unit_test(counted_divergences_move_the_prior),
        cmocka_unit_test(reading_costs_are_fitted),
        cmocka_unit_test(every_reason_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
