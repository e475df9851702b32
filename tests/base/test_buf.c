/* Growing buffers: base/buf. */
#include "test_support.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/mem_test.h"
#include "base/rng.h"

static void empty_buffer_is_an_empty_string(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 10);
    assert_string_equal(cairn_buf_str(&buf), "");
    size_t len;
    size_t room;
    assert_null(cairn_buf_take(&buf, &len, &room));
    assert_int_equal(len + room, 0);
    cairn_buf_release(&buf);
}

static void appended_text_is_terminated(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 1000);
    assert_ok(cairn_buf_append_str(&buf, "read "));
    assert_ok(cairn_buf_printf(&buf, "%d of %s", 12, "3841"));
    assert_ok(cairn_buf_append_byte(&buf, '!'));
    assert_string_equal(cairn_buf_str(&buf), "read 12 of 3841!");
    cairn_buf_consume(&buf, 5);
    assert_string_equal(cairn_buf_str(&buf), "12 of 3841!");
    cairn_buf_reset(&buf);
    assert_string_equal(cairn_buf_str(&buf), "");
    cairn_buf_release(&buf);
}

static void limit_is_exact_and_leaves_the_contents(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 8);
    assert_ok(cairn_buf_append(&buf, "12345678", 8));
    assert_status(cairn_buf_append_byte(&buf, '9'), CAIRN_LIMIT);
    assert_status(cairn_buf_printf(&buf, "%s", "9"), CAIRN_LIMIT);
    assert_status(cairn_buf_reserve(&buf, SIZE_MAX), CAIRN_LIMIT);
    assert_string_equal(cairn_buf_str(&buf), "12345678");
    cairn_buf_release(&buf);
}

static void numbers_are_little_endian(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 100);
    assert_ok(cairn_buf_append_u16(&buf, 0x0102));
    assert_ok(cairn_buf_append_u32(&buf, 0x03040506));
    assert_ok(cairn_buf_append_u64(&buf, UINT64_C(0xf708090a0b0c0d0e)));
    const uint8_t expected[] = {2, 1, 6, 5, 4, 3, 14, 13, 12, 11, 10, 9, 8, 0xf7};
    assert_int_equal(buf.len_bytes, sizeof expected);
    assert_memory_equal(buf.bytes, expected, sizeof expected);
    assert_int_equal(cairn_get16(buf.bytes), 0x0102);
    assert_int_equal(cairn_get32(buf.bytes + 2), 0x03040506);
    assert_true(cairn_get64(buf.bytes + 6) == UINT64_C(0xf708090a0b0c0d0e));
    cairn_buf_release(&buf);
}

static void taken_bytes_belong_to_the_caller(void **state)
{
    (void)state;
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 0);
    cairn_buf buf;
    cairn_buf_init(&buf, &heap.mem, 100);
    assert_ok(cairn_buf_append_str(&buf, "mine"));
    size_t len;
    size_t room;
    uint8_t *bytes = cairn_buf_take(&buf, &len, &room);
    cairn_buf_release(&buf);
    assert_int_equal(len, 4);
    assert_memory_equal(bytes, "mine", 5);
    cairn_mem_release(&heap.mem, bytes, room);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    cairn_mem_test_release(&heap);
}

static void failing_growth_leaves_the_contents(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        cairn_mem_test heap;
        cairn_mem_test_init(&heap, n);
        cairn_buf buf;
        cairn_buf_init(&buf, &heap.mem, 10000);
        size_t appended = 0;
        cairn_status status = CAIRN_OK;
        for (; appended < 1000 && status == CAIRN_OK; appended++) {
            status = cairn_buf_append_byte(&buf, (uint8_t)('a' + appended % 26));
        }
        if (status != CAIRN_OK) {
            assert_status(status, CAIRN_NOMEM);
            appended--;
        }
        assert_int_equal(buf.len_bytes, appended);
        for (size_t i = 0; i < appended; i++) {
            assert_int_equal(buf.bytes[i], 'a' + i % 26);
        }
        cairn_buf_release(&buf);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
        if (heap.fails == 0) {
            assert_true(n > 5);
            break;
        }
    }
}

static void random_appends_equal_a_plain_array(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("random_appends_equal_a_plain_array", 1));
    static uint8_t model[4000];
    size_t len = 0;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), sizeof model);
    for (int i = 0; i < 2000; i++) {
        if (cairn_rng_chance(&rng, 0.3)) {
            size_t drop = (size_t)cairn_rng_below(&rng, len + 1);
            cairn_buf_consume(&buf, drop);
            len -= drop;
            memmove(model, model + drop, len);
        } else {
            uint8_t piece[300];
            size_t piece_len = (size_t)cairn_rng_below(&rng, sizeof piece);
            for (size_t j = 0; j < piece_len; j++) {
                piece[j] = (uint8_t)cairn_rng_u64(&rng);
            }
            bool fits = piece_len <= sizeof model - len;
            assert_status(cairn_buf_append(&buf, piece, piece_len), fits ? CAIRN_OK : CAIRN_LIMIT);
            if (fits) {
                memcpy(model + len, piece, piece_len);
                len += piece_len;
            }
        }
        assert_int_equal(buf.len_bytes, len);
        if (len > 0) {
            assert_memory_equal(buf.bytes, model, len);
        }
    }
    cairn_buf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_buffer_is_an_empty_string),
        cmocka_unit_test(appended_text_is_terminated),
        cmocka_unit_test(limit_is_exact_and_leaves_the_contents),
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(taken_bytes_belong_to_the_caller),
        cmocka_unit_test(failing_growth_leaves_the_contents),
        cmocka_unit_test(random_appends_equal_a_plain_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
