/* Allocator tables: base/mem and base/mem_test. */
#include "test_support.h"

#include "base/mem_test.h"

static void zalloc_and_array_are_zero(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 0);
    uint8_t *bytes = cairn_mem_zalloc(&heap.mem, 100);
    uint32_t *items = cairn_mem_array(&heap.mem, 25, sizeof *items);
    assert_non_null(bytes);
    assert_non_null(items);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(bytes[i], 0);
    }
    items[24] = 7;
    items = cairn_mem_array_resize(&heap.mem, items, 25, 50, sizeof *items);
    assert_non_null(items);
    assert_int_equal(items[24], 7);
    for (size_t i = 25; i < 50; i++) {
        assert_int_equal(items[i], 0);
    }
    assert_int_equal(heap.live_bytes, 300);
    cairn_mem_array_release(&heap.mem, items, 50, sizeof *items);
    cairn_mem_release(&heap.mem, bytes, 100);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    assert_int_equal(heap.live_bytes, 0);
    assert_int_equal(heap.peak_bytes, 300);
    cairn_mem_test_release(&heap);
}

static void overflowing_sizes_give_null(void **state)
{
    (void)state;
    cairn_mem *mem = cairn_mem_default();
    assert_null(cairn_mem_array(mem, SIZE_MAX / 2, 3));
    assert_null(cairn_mem_alloc(mem, SIZE_MAX));
    char *text = cairn_mem_str_dup(mem, "kept");
    assert_non_null(text);
    assert_null(cairn_mem_array_resize(mem, text, 5, SIZE_MAX, 2));
    assert_null(cairn_mem_resize(mem, text, 5, (size_t)PTRDIFF_MAX + 1));
    assert_string_equal(text, "kept");
    cairn_mem_str_release(mem, text);
}

static void zero_bytes_are_a_block(void **state)
{
    (void)state;
    void *nothing = cairn_mem_alloc(cairn_mem_default(), 0);
    assert_non_null(nothing);
    nothing = cairn_mem_resize(cairn_mem_default(), nothing, 0, 0);
    assert_non_null(nothing);
    cairn_mem_release(cairn_mem_default(), nothing, 0);
    cairn_mem_release(cairn_mem_default(), NULL, 0);
    cairn_mem_str_release(cairn_mem_default(), NULL);
}

/* Three allocations and a growth; gives everything back in any case. */
static bool use_four(const cairn_mem *mem)
{
    char *text = cairn_mem_str_dup(mem, "text");
    uint8_t *copy = cairn_mem_dup(mem, "bytes", 5);
    uint8_t *array = cairn_mem_array(mem, 4, 4);
    uint8_t *grown = array != NULL ? cairn_mem_array_resize(mem, array, 4, 8, 4) : NULL;
    bool good = text != NULL && copy != NULL && grown != NULL;
    cairn_mem_array_release(mem, grown != NULL ? grown : array, grown != NULL ? 8 : 4, 4);
    cairn_mem_release(mem, copy, 5);
    cairn_mem_str_release(mem, text);
    return good;
}

static void nth_call_fails_and_nothing_leaks(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 5; n++) {
        cairn_mem_test heap;
        cairn_mem_test_init(&heap, n);
        assert_int_equal(use_four(&heap.mem), n == 5);
        assert_int_equal(heap.fails, n == 5 ? 0 : 1);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
    }
}

static void fail_after_refuses_all_later_calls(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 2);
    heap.fail_after = true;
    assert_false(use_four(&heap.mem));
    assert_int_equal(heap.fails, 2);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    cairn_mem_test_release(&heap);
}

static void byte_limit_holds(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 0);
    heap.bytes_max = 100;
    void *first = cairn_mem_alloc(&heap.mem, 60);
    assert_non_null(first);
    assert_null(cairn_mem_alloc(&heap.mem, 41));
    void *second = cairn_mem_alloc(&heap.mem, 40);
    assert_non_null(second);
    assert_null(cairn_mem_resize(&heap.mem, second, 40, 41));
    cairn_mem_release(&heap.mem, second, 40);
    cairn_mem_release(&heap.mem, first, 60);
    assert_true(heap.peak_bytes <= 100);
    cairn_mem_test_release(&heap);
}

static void forgotten_block_is_seen(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 0);
    void *forgotten = cairn_mem_alloc(&heap.mem, 10);
    assert_non_null(forgotten);
    assert_int_equal(cairn_mem_test_leaked(&heap), 1);
    cairn_mem_release(&heap.mem, forgotten, 10);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    cairn_mem_test_release(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zalloc_and_array_are_zero),
        cmocka_unit_test(overflowing_sizes_give_null),
        cmocka_unit_test(zero_bytes_are_a_block),
        cmocka_unit_test(nth_call_fails_and_nothing_leaks),
        cmocka_unit_test(fail_after_refuses_all_later_calls),
        cmocka_unit_test(byte_limit_holds),
        cmocka_unit_test(forgotten_block_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
