/*
 * Byte offsets to token positions: on borders, inside tokens, with added tokens, against a naive search.
 */
#include "chat_support.h"

#include "chat/boundary_map.h"

static cairn_chat_boundary at(uint64_t offset, unsigned kinds, uint32_t message)
{
    cairn_chat_boundary boundary = {
        .offset_bytes = offset, .kinds = (uint16_t)kinds, .message = message, .role = CAIRN_ROLE_USER};
    return boundary;
}

/* Map all of `in`, which must be possible; gives how many positions came out. */
static size_t map(const uint32_t *bytes, size_t tokens, uint64_t total, const cairn_chat_boundary *in,
                  size_t boundaries, cairn_boundary *out)
{
    size_t count = 0;
    assert_int_equal(cairn_chat_boundaries_map(bytes, tokens, total, in, boundaries, out, &count), CAIRN_OK);
    return count;
}

static void offsets_on_borders_become_positions(void **state)
{
    (void)state;
    const uint32_t bytes[] = {3, 2, 5, 1};
    const cairn_chat_boundary in[] = {at(3, 1, 1), at(5, 2, 2), at(11, 8, 3)};
    cairn_boundary out[3];
    assert_int_equal(map(bytes, 4, 11, in, 3, out), 3);
    assert_int_equal(out[0].position, 1);
    assert_int_equal(out[1].position, 2);
    assert_int_equal(out[2].position, 4);
    assert_int_equal(out[1].kinds, 2);
    assert_int_equal(out[1].message, 2);
    assert_int_equal(out[1].role, CAIRN_ROLE_USER);
}

static void an_offset_inside_a_token_goes_down_and_position_0_is_dropped(void **state)
{
    (void)state;
    const uint32_t bytes[] = {3, 2, 5, 1};
    const cairn_chat_boundary in[] = {at(2, 1, 1), at(4, 2, 2), at(9, 1, 3), at(10, 4, 4)};
    cairn_boundary out[4];
    assert_int_equal(map(bytes, 4, 11, in, 4, out), 3);
    assert_int_equal(out[0].position, 1);
    assert_int_equal(out[1].position, 2);
    assert_int_equal(out[2].position, 3);
}

static void boundaries_that_fall_together_are_one_with_all_kinds(void **state)
{
    (void)state;
    const uint32_t bytes[] = {3, 8};
    const cairn_chat_boundary in[] = {at(3, 1, 1), at(5, 2, 2), at(9, 4, 3)};
    cairn_boundary out[3];
    assert_int_equal(map(bytes, 2, 11, in, 3, out), 1);
    assert_int_equal(out[0].position, 1);
    assert_int_equal(out[0].kinds, 7);
    assert_int_equal(out[0].message, 3);
}

static void an_added_begin_token_counts_as_a_position(void **state)
{
    (void)state;
    const uint32_t bytes[] = {0, 3, 2};
    const cairn_chat_boundary in[] = {at(3, 1, 1)};
    cairn_boundary out[1];
    assert_int_equal(map(bytes, 3, 5, in, 1, out), 1);
    assert_int_equal(out[0].position, 2);
}

static void tokens_of_another_text_give_no_boundaries(void **state)
{
    (void)state;
    const uint32_t bytes[] = {3, 2};
    const cairn_chat_boundary in[] = {at(3, 1, 1), at(6, 1, 1)};
    cairn_boundary out[2];
    size_t count = 9;
    assert_int_equal(cairn_chat_boundaries_map(bytes, 2, 6, in, 1, out, &count), CAIRN_INVALID);
    assert_int_equal(count, 0);
    assert_int_equal(cairn_chat_boundaries_map(bytes, 2, 5, in, 2, out, &count), CAIRN_INVALID);
    assert_int_equal(cairn_chat_boundaries_map(bytes, 2, 5, NULL, 0, out, &count), CAIRN_OK);
    assert_int_equal(count, 0);
}

static void random_texts_agree_with_a_naive_search(void **state)
{
    (void)state;
    const char *given = getenv("CAIRN_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 7;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 2000; round++) {
        uint32_t bytes[40];
        uint64_t total = 0;
        size_t tokens = 1 + (size_t)round % 40;
        for (size_t i = 0; i < tokens; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[i] = (uint32_t)(seed >> 33) % 6;
            total += bytes[i];
        }
        cairn_chat_boundary in[60];
        size_t boundaries = 0;
        for (uint64_t offset = 1; offset <= total && boundaries < 60; offset++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if ((seed >> 33) % 3 == 0) {
                in[boundaries] = at(offset, 1u << (boundaries % 8), (uint32_t)offset);
                boundaries++;
            }
        }
        cairn_boundary out[60];
        size_t count = map(bytes, tokens, total, in, boundaries, out);
        size_t found = 0;
        unsigned kinds_in = 0;
        unsigned kinds_out = 0;
        for (size_t b = 0; b < boundaries; b++) {
            uint64_t end = 0;
            uint32_t position = 0;
            for (size_t i = 0; i < tokens; i++) {
                end += bytes[i];
                if (end <= in[b].offset_bytes) {
                    position = (uint32_t)i + 1;
                }
            }
            kinds_in |= position != 0 ? in[b].kinds : 0u;
            for (size_t o = 0; o < count; o++) {
                found += out[o].position == position;
            }
            found += position == 0;
        }
        for (size_t o = 0; o < count; o++) {
            kinds_out |= out[o].kinds;
            assert_true(o == 0 || out[o].position > out[o - 1].position);
        }
        assert_int_equal(found, boundaries);
        assert_int_equal(kinds_in, kinds_out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_on_borders_become_positions),
        cmocka_unit_test(an_offset_inside_a_token_goes_down_and_position_0_is_dropped),
        cmocka_unit_test(boundaries_that_fall_together_are_one_with_all_kinds),
        cmocka_unit_test(an_added_begin_token_counts_as_a_position),
        cmocka_unit_test(tokens_of_another_text_give_no_boundaries),
        cmocka_unit_test(random_texts_agree_with_a_naive_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
