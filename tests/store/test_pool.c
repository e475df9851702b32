/* The pool's ceiling, and memory that really goes back. */
#include <unistd.h>

#include "base/mem_test.h"
#include "store/pool.h"
#include "test_support.h"

static void ceiling_refuses_a_block_before_it_is_allocated(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 0);
    cairn_pool pool;
    cairn_pool_init(&pool, &heap.mem, 1000, UINT64_MAX);
    cairn_block a = {0};
    cairn_block b = {0};
    cairn_error error;
    assert_ok(cairn_pool_alloc(&pool, 600, &a, &error));
    uint64_t calls = heap.calls;
    assert_status(cairn_pool_alloc(&pool, 401, &b, &error), CAIRN_NOSPACE);
    assert_int_equal(heap.calls, calls);
    assert_null(b.bytes);
    assert_ok(cairn_pool_alloc(&pool, 400, &b, &error));
    assert_int_equal(pool.bytes, 1000);
    assert_int_equal(pool.bytes_peak, 1000);
    assert_int_equal(pool.refusals, 1);
    cairn_pool_free(&pool, &a);
    cairn_pool_free(&pool, &b);
    cairn_pool_free(&pool, &b);
    cairn_pool_release(&pool);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    cairn_mem_test_release(&heap);
}

static void tables_are_counted_with_the_blocks(void **state)
{
    (void)state;
    cairn_pool pool;
    cairn_pool_init(&pool, cairn_mem_default(), 1000, UINT64_MAX);
    void *table = cairn_mem_alloc(&pool.mem, 300);
    assert_non_null(table);
    cairn_block block = {0};
    assert_status(cairn_pool_alloc(&pool, 701, &block, NULL), CAIRN_NOSPACE);
    table = cairn_mem_resize(&pool.mem, table, 300, 500);
    assert_non_null(table);
    assert_int_equal(pool.bytes, 500);
    assert_status(cairn_pool_alloc(&pool, 501, &block, NULL), CAIRN_NOSPACE);
    table = cairn_mem_resize(&pool.mem, table, 500, 100);
    assert_non_null(table);
    assert_int_equal(pool.bytes, 100);
    assert_ok(cairn_pool_alloc(&pool, 900, &block, NULL));
    cairn_mem_release(&pool.mem, table, 100);
    cairn_pool_free(&pool, &block);
    cairn_pool_release(&pool);
}

static void block_larger_than_any_memory_is_refused(void **state)
{
    (void)state;
    cairn_pool pool;
    cairn_pool_init(&pool, cairn_mem_default(), UINT64_MAX, 0);
    cairn_block block = {0};
    assert_status(cairn_pool_alloc(&pool, UINT64_MAX, &block, NULL), CAIRN_NOSPACE);
    assert_status(cairn_pool_alloc(&pool, (uint64_t)PTRDIFF_MAX / 2, &block, NULL), CAIRN_NOMEM);
    assert_int_equal(pool.bytes, 0);
    cairn_pool_release(&pool);
}

static void heap_that_refuses_costs_nothing(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 1);
    cairn_pool pool;
    cairn_pool_init(&pool, &heap.mem, 1000, UINT64_MAX);
    cairn_block block = {0};
    assert_status(cairn_pool_alloc(&pool, 10, &block, NULL), CAIRN_NOMEM);
    assert_int_equal(pool.bytes, 0);
    assert_ok(cairn_pool_alloc(&pool, 10, &block, NULL));
    heap.fail_at = heap.calls + 1;
    cairn_pool_shrink(&pool, &block, 5); /* refused: the block stays as it is, and is counted so */
    assert_int_equal(block.room_bytes, 10);
    assert_int_equal(pool.bytes, 10);
    cairn_pool_shrink(&pool, &block, 5);
    assert_int_equal(pool.bytes, 5);
    cairn_pool_free(&pool, &block);
    assert_null(cairn_mem_alloc(&pool.mem, SIZE_MAX));
    assert_int_equal(pool.bytes, 0);
    cairn_pool_release(&pool);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    cairn_mem_test_release(&heap);
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
    cairn_pool pool;
    cairn_pool_init(&pool, cairn_mem_default(), 256 * mib, 0);
    uint64_t before = resident_bytes();
    if (before == 0) {
        skip();
    }
    cairn_block block = {0};
    assert_ok(cairn_pool_alloc(&pool, 64 * mib, &block, NULL));
    assert_true(block.mapped);
    memset(block.bytes, 1, 64 * mib);
    assert_true(resident_bytes() >= before + 60 * mib);
    cairn_pool_shrink(&pool, &block, 8 * mib + 1);
    assert_int_equal(block.room_bytes, 8 * mib + pool.page_bytes);
    assert_int_equal(pool.bytes, block.room_bytes);
    assert_int_equal(block.bytes[8 * mib], 1);
    assert_true(resident_bytes() < before + 16 * mib);
    cairn_pool_free(&pool, &block);
    assert_true(resident_bytes() < before + 4 * mib);
    cairn_pool_release(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ceiling_refuses_a_block_before_it_is_allocated),
        cmocka_unit_test(tables_are_counted_with_the_blocks),
        cmocka_unit_test(block_larger_than_any_memory_is_refused),
        cmocka_unit_test(heap_that_refuses_costs_nothing),
        cmocka_unit_test(shrinking_and_freeing_a_large_block_gives_pages_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
