/* The ceiling, and memory that really goes back. */
#include <unistd.h>

#include "base/mem_test.h"
#include "store/heap.h"
#include "test_support.h"

static void ceiling_refuses_a_block_before_it_is_allocated(void **state)
{
    (void)state;
    cairn_mem_test memory;
    cairn_mem_test_init(&memory, 0);
    cairn_heap heap;
    cairn_heap_init(&heap, &memory.mem, 1000, UINT64_MAX);
    cairn_block a = {0};
    cairn_block b = {0};
    cairn_error error;
    assert_ok(cairn_heap_alloc(&heap, 600, &a, &error));
    uint64_t calls = memory.calls;
    assert_status(cairn_heap_alloc(&heap, 401, &b, &error), CAIRN_NOSPACE);
    assert_int_equal(memory.calls, calls);
    assert_null(b.bytes);
    assert_ok(cairn_heap_alloc(&heap, 400, &b, &error));
    assert_int_equal(heap.bytes, 1000);
    assert_int_equal(heap.bytes_peak, 1000);
    assert_int_equal(heap.refusals, 1);
    cairn_heap_free(&heap, &a);
    cairn_heap_free(&heap, &b);
    cairn_heap_free(&heap, &b);
    cairn_heap_release(&heap);
    assert_int_equal(cairn_mem_test_leaked(&memory), 0);
    cairn_mem_test_release(&memory);
}

static void tables_are_counted_with_the_blocks(void **state)
{
    (void)state;
    cairn_heap heap;
    cairn_heap_init(&heap, cairn_mem_default(), 1000, UINT64_MAX);
    void *table = cairn_mem_alloc(&heap.mem, 300);
    assert_non_null(table);
    cairn_block block = {0};
    assert_status(cairn_heap_alloc(&heap, 701, &block, NULL), CAIRN_NOSPACE);
    table = cairn_mem_resize(&heap.mem, table, 300, 500);
    assert_non_null(table);
    assert_int_equal(heap.bytes, 500);
    assert_status(cairn_heap_alloc(&heap, 501, &block, NULL), CAIRN_NOSPACE);
    table = cairn_mem_resize(&heap.mem, table, 500, 100);
    assert_non_null(table);
    assert_int_equal(heap.bytes, 100);
    assert_ok(cairn_heap_alloc(&heap, 900, &block, NULL));
    cairn_mem_release(&heap.mem, table, 100);
    cairn_heap_free(&heap, &block);
    cairn_heap_release(&heap);
}

static void block_larger_than_any_memory_is_refused(void **state)
{
    (void)state;
    cairn_heap heap;
    cairn_heap_init(&heap, cairn_mem_default(), UINT64_MAX, 0);
    cairn_block block = {0};
    assert_status(cairn_heap_alloc(&heap, UINT64_MAX, &block, NULL), CAIRN_NOSPACE);
    assert_status(cairn_heap_alloc(&heap, (uint64_t)PTRDIFF_MAX / 2, &block, NULL), CAIRN_NOMEM);
    assert_int_equal(heap.bytes, 0);
    cairn_heap_release(&heap);
}

static void heap_that_refuses_costs_nothing(void **state)
{
    (void)state;
    cairn_mem_test memory;
    cairn_mem_test_init(&memory, 1);
    cairn_heap heap;
    cairn_heap_init(&heap, &memory.mem, 1000, UINT64_MAX);
    cairn_block block = {0};
    assert_status(cairn_heap_alloc(&heap, 10, &block, NULL), CAIRN_NOMEM);
    assert_int_equal(heap.bytes, 0);
    assert_ok(cairn_heap_alloc(&heap, 10, &block, NULL));
    memory.fail_at = memory.calls + 1;
    cairn_heap_shrink(&heap, &block, 5); /* refused: the block stays as it is, and is counted so */
    assert_int_equal(block.room_bytes, 10);
    assert_int_equal(heap.bytes, 10);
    cairn_heap_shrink(&heap, &block, 5);
    assert_int_equal(heap.bytes, 5);
    cairn_heap_free(&heap, &block);
    assert_null(cairn_mem_alloc(&heap.mem, SIZE_MAX));
    assert_int_equal(heap.bytes, 0);
    cairn_heap_release(&heap);
    assert_int_equal(cairn_mem_test_leaked(&memory), 0);
    cairn_mem_test_release(&memory);
}

/* Resident bytes of this process; 0 where the system doesn't tell. */
static uint64_t resident_bytes(void)
{
    unsigned long long all = 0;
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) {
        return 0;
    }
    int got = fscanf(file, "%llu %llu", &all, &resident);
    (void)fclose(file);
    return got == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void shrinking_and_freeing_a_large_block_gives_pages_back(void **state)
{
    (void)state;
    const uint64_t mib = 1u << 20;
    cairn_heap heap;
    cairn_heap_init(&heap, cairn_mem_default(), 256 * mib, 0);
    uint64_t before = resident_bytes();
    if (before == 0) {
        skip();
    }
    cairn_block block = {0};
    assert_ok(cairn_heap_alloc(&heap, 64 * mib, &block, NULL));
    assert_true(block.mapped);
    memset(block.bytes, 1, 64 * mib);
    assert_true(resident_bytes() >= before + 60 * mib);
    cairn_heap_shrink(&heap, &block, 8 * mib + 1);
    assert_int_equal(block.room_bytes, 8 * mib + heap.page_bytes);
    assert_int_equal(heap.bytes, block.room_bytes);
    assert_int_equal(block.bytes[8 * mib], 1);
    assert_true(resident_bytes() < before + 16 * mib);
    cairn_heap_free(&heap, &block);
    assert_true(resident_bytes() < before + 4 * mib);
    cairn_heap_release(&heap);
}

static void a_few_blocks_stay_for_the_next_and_go_when_the_room_is_wanted(void **state)
{
    (void)state;
    const uint64_t mib = 1u << 20;
    cairn_heap heap;
    cairn_heap_init(&heap, cairn_mem_default(), 10 * mib, 0);
    cairn_heap_spare(&heap, 2 * mib, 2);
    assert_true(cairn_heap_warm(&heap) && cairn_heap_warm(&heap));
    assert_false(cairn_heap_warm(&heap));
    assert_int_equal(heap.bytes, 4 * mib);
    assert_int_equal(heap.spare_bytes, 4 * mib);
    cairn_block a = {0}, b = {0}, c = {0};
    assert_ok(cairn_heap_alloc(&heap, 2 * mib, &a, NULL));
    assert_ok(cairn_heap_alloc(&heap, 2 * mib, &b, NULL));
    assert_ok(cairn_heap_alloc(&heap, 2 * mib, &c, NULL));
    assert_int_equal(heap.bytes, 6 * mib);
    assert_int_equal(heap.block_bytes, 6 * mib);
    uint8_t *before = b.bytes;
    cairn_heap_free(&heap, &b);
    assert_null(b.bytes);
    assert_int_equal(heap.bytes, 6 * mib); /* counted all the same */
    assert_int_equal(heap.block_bytes, 4 * mib);
    assert_ok(cairn_heap_alloc(&heap, 2 * mib, &b, NULL));
    assert_ptr_equal(b.bytes, before);
    cairn_heap_free(&heap, &a);
    cairn_heap_free(&heap, &b);
    cairn_heap_free(&heap, &c); /* two are kept, not three */
    assert_int_equal(heap.bytes, 4 * mib);
    assert_ok(cairn_heap_alloc(&heap, 7 * mib, &a, NULL)); /* one of them has to go */
    assert_int_equal(heap.spare_bytes, 2 * mib);
    assert_int_equal(heap.bytes, 9 * mib);
    assert_false(cairn_heap_warm(&heap));
    cairn_heap_limit(&heap, 7 * mib);
    assert_int_equal(heap.spare_bytes, 0);
    assert_status(cairn_heap_alloc(&heap, 1, &b, NULL), CAIRN_NOSPACE);
    cairn_heap_free(&heap, &a);
    assert_true(heap.bytes_peak <= 10 * mib);
    assert_true(cairn_heap_warm(&heap)); /* what is left goes with the heap */
    cairn_heap_release(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ceiling_refuses_a_block_before_it_is_allocated),
        cmocka_unit_test(tables_are_counted_with_the_blocks),
        cmocka_unit_test(block_larger_than_any_memory_is_refused),
        cmocka_unit_test(heap_that_refuses_costs_nothing),
        cmocka_unit_test(a_few_blocks_stay_for_the_next_and_go_when_the_room_is_wanted),
        cmocka_unit_test(shrinking_and_freeing_a_large_block_gives_pages_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
