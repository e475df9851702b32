/*
 * Equal greedy requests: who is equal, and who chooses.
 */
#include "test_support.h"

#include "base/mem_test.h"
#include "serve/unison.h"

static const cairn_token talk[] = {5, 6, 7, 8};

static cairn_prompt prompt_of(uint32_t count)
{
    return (cairn_prompt){.tokens = talk, .count = count, .space = {{1}}};
}

static cairn_sampler_settings greedy(void)
{
    cairn_sampler_settings s = cairn_sampler_settings_default();
    s.temperature = 0;
    return s;
}

static cairn_digest key_of(const cairn_prompt *prompt, const cairn_sampler_settings *settings)
{
    cairn_digest key;
    assert_ok(cairn_unison_key(cairn_mem_default(), prompt, settings, &key));
    return key;
}

static void only_what_chooses_tokens_is_in_the_key(void **state)
{
    (void)state;
    cairn_prompt prompt = prompt_of(4), other = prompt;
    cairn_sampler_settings settings = greedy(), changed = settings;
    cairn_digest key = key_of(&prompt, &settings);
    changed.seed = 77; /* nothing is drawn */
    other.slot_hint = 2;
    other.answer_tokens_max = 9;
    other.no_store = true;
    cairn_digest same = key_of(&other, &changed);
    assert_true(cairn_digest_equal(&key, &same));
}

static void whatever_chooses_tokens_makes_another_key(void **state)
{
    (void)state;
    enum { KEYS = 14 };
    cairn_prompt prompt = prompt_of(4), shorter = prompt_of(3), foreign = prompt, off = prompt;
    const cairn_token last[] = {5, 6, 7, 9};
    cairn_prompt ends_otherwise = {.tokens = last, .count = 4, .space = {{1}}};
    const cairn_sampler_bias bias[] = {{1, 0.5f}, {2, 0.5f}};
    const cairn_chat_trigger trigger = {CAIRN_CHAT_TRIGGER_WORD, "<tool>"};
    cairn_chat_prompt plain = {.grammar = "root ::= \"a\"", .opener = ""}, lazy = plain, opened = plain;
    cairn_sampler_settings settings = greedy(), s[8];
    foreign.space.bytes[0] = 2;
    off.mode = CAIRN_RESUME_OFF;
    lazy.grammar_lazy = true;
    lazy.triggers = &trigger;
    lazy.count_triggers = 1;
    opened.opener = "<|im_start|>";
    for (int i = 0; i < 8; i++)
        s[i] = settings;
    s[0].repeat_penalty = 1.1f;
    s[1].repeat_last_n = 8;
    s[2].ignore_eos = true;
    s[3].bias = s[4].bias = bias;
    s[3].count_bias = 1;
    s[4].count_bias = 2;
    s[5].grammar = "root ::= \"a\"";
    s[6].prompt = &lazy;
    s[7].prompt = &opened;
    cairn_digest keys[KEYS] = {key_of(&prompt, &settings), key_of(&shorter, &settings),
                               key_of(&foreign, &settings), key_of(&off, &settings),
                               key_of(&ends_otherwise, &settings)};
    for (size_t i = 0; i < 8; i++)
        keys[5 + i] = key_of(&prompt, &s[i]);
    settings.prompt = &plain;
    keys[13] = key_of(&prompt, &settings);
    for (size_t i = 0; i < KEYS; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(cairn_digest_equal(&keys[i], &keys[j]));
}

static void the_first_at_a_place_chooses_for_all(void **state)
{
    (void)state;
    cairn_unisons list;
    cairn_token token = 0;
    cairn_digest key = {{1}}, other_key = {{2}};
    cairn_unisons_init(&list, cairn_mem_default(), 100);
    cairn_unison *a = cairn_unison_join(&list, &key), *b = cairn_unison_join(&list, &key);
    cairn_unison *other = cairn_unison_join(&list, &other_key);
    assert_non_null(a);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, other);
    assert_false(cairn_unison_get(b, 0, &token));
    cairn_unison_note(a, 0, 41);
    cairn_unison_note(b, 1, 42);
    cairn_unison_note(a, 1, 43); /* too late */
    cairn_unison_note(a, 3, 44); /* nobody was at 2 */
    assert_true(cairn_unison_get(b, 0, &token));
    assert_int_equal(token, 41);
    assert_true(cairn_unison_get(a, 1, &token));
    assert_int_equal(token, 42);
    assert_false(cairn_unison_get(a, 2, &token));
    assert_false(cairn_unison_get(a, 3, &token));
    assert_false(cairn_unison_get(other, 0, &token));
    cairn_unison_leave(a);
    cairn_unison *late = cairn_unison_join(&list, &key); /* b is still there */
    assert_true(cairn_unison_get(late, 1, &token));
    cairn_unison_leave(b);
    cairn_unison_leave(late);
    cairn_unison *after = cairn_unison_join(&list, &key); /* nobody is: it begins anew */
    assert_false(cairn_unison_get(after, 0, &token));
    cairn_unison_leave(after);
    cairn_unison_leave(other);
    cairn_unisons_release(&list);
}

static void what_goes_beyond_the_room_is_each_ones_own(void **state)
{
    (void)state;
    cairn_unisons list;
    cairn_token token;
    cairn_digest key = {{1}};
    cairn_unisons_init(&list, cairn_mem_default(), 2);
    cairn_unison *a = cairn_unison_join(&list, &key);
    for (uint32_t i = 0; i < 4; i++)
        cairn_unison_note(a, i, (cairn_token)i);
    assert_true(cairn_unison_get(a, 1, &token));
    assert_false(cairn_unison_get(a, 2, &token));
    cairn_unison_leave(a);
    cairn_unison_leave(NULL);
    cairn_unison_note(NULL, 0, 1);
    assert_false(cairn_unison_get(NULL, 0, &token));
    cairn_unisons_release(&list);
}

static void without_memory_a_request_chooses_by_itself(void **state)
{
    (void)state;
    cairn_prompt prompt = prompt_of(4);
    cairn_sampler_settings settings = greedy();
    for (uint64_t n = 1;; n++) {
        cairn_mem_test heap;
        cairn_unisons list;
        cairn_token token;
        cairn_digest key = {{1}};
        cairn_mem_test_init(&heap, n);
        cairn_unisons_init(&list, &heap.mem, 1000);
        cairn_status status = cairn_unison_key(&heap.mem, &prompt, &settings, &key);
        assert_true(status == CAIRN_OK || status == CAIRN_NOMEM);
        cairn_unison *a = cairn_unison_join(&list, &key);
        for (uint32_t i = 0; i < 200; i++)
            cairn_unison_note(a, i, 1);
        for (uint32_t i = 200; i > 0 && !cairn_unison_get(a, i - 1, &token); i--)
            assert_true(heap.fails > 0);
        cairn_unison_leave(a);
        cairn_unisons_release(&list);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        uint64_t fails = heap.fails;
        cairn_mem_test_release(&heap);
        if (fails == 0)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_chooses_tokens_is_in_the_key),
        cmocka_unit_test(whatever_chooses_tokens_makes_another_key),
        cmocka_unit_test(the_first_at_a_place_chooses_for_all),
        cmocka_unit_test(what_goes_beyond_the_room_is_each_ones_own),
        cmocka_unit_test(without_memory_a_request_chooses_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
