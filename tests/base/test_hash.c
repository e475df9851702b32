/* Chains, checksums and digests: base/hash. Known values from the published test vectors. */
#include "test_support.h"

#include "base/hash.h"
#include "base/mem_test.h"

static void chain_depends_on_order_and_length(void **state)
{
    (void)state;
    const int32_t ab[] = {1, 2};
    const int32_t ba[] = {2, 1};
    const int32_t zeros[] = {0, 0, 0};
    uint64_t seed = CAIRN_HASH_CHAIN_SEED;
    assert_true(cairn_hash_chain_tokens(seed, ab, 2) != cairn_hash_chain_tokens(seed, ba, 2));
    assert_true(cairn_hash_chain_tokens(seed, zeros, 2) != cairn_hash_chain_tokens(seed, zeros, 3));
    assert_true(cairn_hash_chain_tokens(seed, ab, 0) == seed);
    assert_true(cairn_hash_chain(cairn_hash_chain(seed, 1), 2) == cairn_hash_chain_tokens(seed, ab, 2));
    assert_true(cairn_hash_chain(seed, -1) != cairn_hash_chain(seed, 0));
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void short_paths_do_not_collide(void **state)
{
    (void)state;
    enum { SIDE = 300 };
    static uint64_t chains[SIDE * SIDE];
    for (int32_t a = 0; a < SIDE; a++) {
        for (int32_t b = 0; b < SIDE; b++) {
            chains[a * SIDE + b] = cairn_hash_chain(cairn_hash_chain(CAIRN_HASH_CHAIN_SEED, a), b);
        }
    }
    qsort(chains, (size_t)SIDE * SIDE, sizeof chains[0], compare_u64);
    for (size_t i = 1; i < (size_t)SIDE * SIDE; i++) {
        assert_true(chains[i - 1] != chains[i]);
    }
}

static void chain_values_never_change(void **state)
{
    (void)state;
    /* Stored formats hold these: a new value is a new format version. */
    assert_true(cairn_hash_chain(CAIRN_HASH_CHAIN_SEED, 0) == UINT64_C(0xa8ac350571988a20));
    const int32_t path[] = {151644, 8948, 198, -5};
    assert_true(cairn_hash_chain_tokens(CAIRN_HASH_CHAIN_SEED, path, 4) == UINT64_C(0xb3d0faf23029bf50));
}

static void checksum_equals_the_known_value(void **state)
{
    (void)state;
    /* XXH3-128 of nothing, with seed 0. */
    cairn_hash128 nothing = cairn_hash_bytes("", 0);
    assert_true(nothing.high == UINT64_C(0x99aa06d3014798d8) && nothing.low == UINT64_C(0x6001c324468d497f));
}

static void streamed_checksum_equals_the_whole(void **state)
{
    (void)state;
    static uint8_t bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    }
    cairn_hash128 whole = cairn_hash_bytes(bytes, sizeof bytes);
    cairn_hash_stream *stream = cairn_hash_stream_new(cairn_mem_default());
    assert_non_null(stream);
    for (size_t piece = 1; piece < 1500; piece += 97) {
        cairn_hash_stream_reset(stream);
        for (size_t at = 0; at < sizeof bytes; at += piece) {
            size_t len = sizeof bytes - at < piece ? sizeof bytes - at : piece;
            cairn_hash_stream_update(stream, bytes + at, len);
        }
        assert_true(cairn_hash128_equal(cairn_hash_stream_value(stream), whole));
    }
    cairn_hash_stream_free(stream);
}

static void flipped_bit_changes_the_checksum(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    cairn_hash128 before = cairn_hash_bytes(bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(cairn_hash128_equal(cairn_hash_bytes(bytes, sizeof bytes), before));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void digests_equal_the_known_values(void **state)
{
    (void)state;
    cairn_digest digest;
    char text[CAIRN_DIGEST_HEX];
    assert_ok(cairn_digest_of("abc", 3, &digest));
    cairn_digest_hex(&digest, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    /* RFC 4231, test case 2. */
    assert_ok(cairn_digest_keyed("Jefe", 4, "what do ya want for nothing?", 28, &digest));
    cairn_digest_hex(&digest, text);
    assert_string_equal(text, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void keys_and_contents_may_be_empty(void **state)
{
    (void)state;
    cairn_digest a;
    cairn_digest b;
    assert_ok(cairn_digest_keyed("", 0, "", 0, &a));
    char text[CAIRN_DIGEST_HEX];
    cairn_digest_hex(&a, text);
    assert_string_equal(text, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
    assert_ok(cairn_digest_keyed("k", 1, "", 0, &b));
    assert_false(cairn_digest_equal(&a, &b));
}

static void streamed_digest_equals_the_whole(void **state)
{
    (void)state;
    cairn_digest_stream *stream = cairn_digest_stream_new(cairn_mem_default());
    assert_non_null(stream);
    cairn_digest whole;
    cairn_digest streamed;
    assert_ok(cairn_digest_of("conversation", 12, &whole));
    for (int again = 0; again < 2; again++) {
        cairn_digest_stream_update(stream, "conver", 6);
        cairn_digest_stream_update(stream, "", 0);
        cairn_digest_stream_update(stream, "sation", 6);
        assert_ok(cairn_digest_stream_finish(stream, &streamed));
        assert_true(cairn_digest_equal(&whole, &streamed));
    }
    cairn_digest_stream_free(stream);
    cairn_digest_stream_free(NULL);
}

static void digest_text_is_read_back_or_refused(void **state)
{
    (void)state;
    cairn_digest digest;
    cairn_digest back;
    char text[CAIRN_DIGEST_HEX];
    assert_ok(cairn_digest_of("x", 1, &digest));
    cairn_digest_hex(&digest, text);
    assert_ok(cairn_digest_parse(text, &back));
    assert_true(cairn_digest_equal(&digest, &back));
    assert_status(cairn_digest_parse("", &back), CAIRN_INVALID);
    assert_status(cairn_digest_parse("abc", &back), CAIRN_INVALID);
    text[10] = 'g';
    assert_status(cairn_digest_parse(text, &back), CAIRN_INVALID);
    char longer[CAIRN_DIGEST_HEX + 1];
    cairn_digest_hex(&digest, longer);
    longer[64] = '0';
    longer[65] = '\0';
    assert_status(cairn_digest_parse(longer, &back), CAIRN_INVALID);
    assert_true(cairn_digest_equal(&digest, &back));
}

static void streams_survive_failing_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        cairn_mem_test heap;
        cairn_mem_test_init(&heap, n);
        cairn_hash_stream *hash = cairn_hash_stream_new(&heap.mem);
        assert_int_equal(hash != NULL, n == 3);
        cairn_hash_stream_free(hash);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
        cairn_mem_test_init(&heap, n);
        cairn_digest_stream *digest = cairn_digest_stream_new(&heap.mem);
        assert_int_equal(digest != NULL, n != 1);
        cairn_digest_stream_free(digest);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
    }
}

static void veiled_paths_part_where_the_tokens_part(void **state)
{
    (void)state;
    enum { COUNT = 700, PART = 300 }; /* more than one round of the cipher */
    uint8_t key[CAIRN_DIGEST_BYTES] = {1, 2, 3};
    int32_t a[COUNT], b[COUNT], veiled_a[COUNT], veiled_b[COUNT], again[COUNT];
    for (int32_t i = 0; i < COUNT; i++) {
        a[i] = i % 7;
        b[i] = i == PART ? 99 : i % 7;
    }
    assert_ok(cairn_hash_veil(key, a, COUNT, veiled_a));
    assert_ok(cairn_hash_veil(key, b, COUNT, veiled_b));
    unsigned equal = 0, plain = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(veiled_a[i] >= 0);
        if (i < PART) {
            assert_int_equal(veiled_a[i], veiled_b[i]);
        } else {
            equal += veiled_a[i] == veiled_b[i];
        }
        plain += veiled_a[i] == a[i];
        for (int k = 0; k < i && k < 20; k++) {
            assert_int_not_equal(veiled_a[i],
                                 veiled_a[k]); /* equal tokens at other places have other names */
        }
    }
    assert_true(equal <= 1 && plain <= 1);
    key[31] ^= 1;
    memcpy(again, a, sizeof again);
    assert_ok(cairn_hash_veil(key, again, COUNT, again));
    assert_int_not_equal(again[0], veiled_a[0]);
    assert_int_not_equal(again[COUNT - 1], veiled_a[COUNT - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_depends_on_order_and_length),
        cmocka_unit_test(short_paths_do_not_collide),
        cmocka_unit_test(chain_values_never_change),
        cmocka_unit_test(checksum_equals_the_known_value),
        cmocka_unit_test(streamed_checksum_equals_the_whole),
        cmocka_unit_test(flipped_bit_changes_the_checksum),
        cmocka_unit_test(digests_equal_the_known_values),
        cmocka_unit_test(keys_and_contents_may_be_empty),
        cmocka_unit_test(streamed_digest_equals_the_whole),
        cmocka_unit_test(digest_text_is_read_back_or_refused),
        cmocka_unit_test(streams_survive_failing_memory),
        cmocka_unit_test(veiled_paths_part_where_the_tokens_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
