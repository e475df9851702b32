/* The vocabulary of the tiny qwen35 model: text to tokens and back, special tokens, what the file says about itself. */
#include "contract/contract_support.h"
#include "engine/llama_vocab.h"
#include "test_support.h"

static struct llama_model *model;
static cairn_llama_vocab vocab;

static int set_up(void **state)
{
    (void)state;
    model = contract_model();
    cairn_llama_vocab_init(&vocab, model);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    llama_model_free(model);
    return 0;
}

static uint32_t tokenize(const char *text, size_t len, bool parse_special, cairn_token *out, uint32_t room)
{
    uint32_t count = 0;
    assert_ok(cairn_llama_tokenize(&vocab, text, len, false, parse_special, out, room, &count));
    return count;
}

static void text_comes_back_byte_for_byte(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"",
                                        " ",
                                        "Hello, world!",
                                        "  two  spaces\n\n\ttab",
                                        "gr\xc3\xbc\xc3\x9f dich, \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x91\x8b",
                                        "1234567890 == x[0];",
                                        "broken \xff\xfe bytes"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cairn_token tokens[256];
        char text[1024];
        uint32_t bytes = 0, count = tokenize(texts[i], strlen(texts[i]), false, tokens, 256);
        assert_ok(cairn_llama_detokenize(&vocab, tokens, count, false, text, sizeof text, &bytes));
        if (i + 1 < sizeof texts / sizeof *texts) { /* bytes that are no UTF-8 may be replaced */
            assert_int_equal(bytes, strlen(texts[i]));
            assert_memory_equal(text, texts[i], bytes);
        }
    }
}

static void pieces_joined_are_the_text(void **unused)
{
    (void)unused;
    const char *text = "One piece after another, \xe2\x82\xac 5.";
    cairn_token tokens[64];
    char joined[256];
    uint32_t used = 0, count = tokenize(text, strlen(text), false, tokens, 64);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bytes = 0;
        assert_ok(cairn_llama_piece(&vocab, tokens[i], true, joined + used,
                                    CAIRN_PIECE_BYTES_MAX > 256 - used ? 256 - used : CAIRN_PIECE_BYTES_MAX,
                                    &bytes));
        used += bytes;
    }
    assert_int_equal(used, strlen(text));
    assert_memory_equal(joined, text, used);
}

static void special_tokens_are_read_only_when_asked_for(void **unused)
{
    (void)unused;
    const char *text = "<|im_start|>user";
    cairn_token special[32], plain[32];
    char shown[64];
    uint32_t bytes, count_special = tokenize(text, strlen(text), true, special, 32),
                    count_plain = tokenize(text, strlen(text), false, plain, 32);
    assert_true(count_special < count_plain);
    assert_true(cairn_llama_is_control(&vocab, special[0]));
    assert_false(cairn_llama_is_control(&vocab, plain[0]));
    assert_ok(cairn_llama_piece(&vocab, special[0], true, shown, sizeof shown, &bytes));
    assert_int_equal(bytes, strlen("<|im_start|>"));
    assert_ok(cairn_llama_piece(&vocab, special[0], false, shown, sizeof shown, &bytes));
    assert_int_equal(bytes, 0);
}

static void too_little_room_says_how_much_is_needed(void **unused)
{
    (void)unused;
    const char *text = "some words that are several tokens";
    cairn_token tokens[64];
    uint32_t need = 0, bytes = 0, count = tokenize(text, strlen(text), false, tokens, 64);
    assert_status(cairn_llama_tokenize(&vocab, text, strlen(text), false, false, NULL, 0, &need),
                  CAIRN_LIMIT);
    assert_int_equal(need, count);
    assert_status(cairn_llama_detokenize(&vocab, tokens, count, false, NULL, 0, &bytes), CAIRN_LIMIT);
    assert_int_equal(bytes, strlen(text));
}

static void tokens_that_do_not_exist_are_refused(void **unused)
{
    (void)unused;
    char text[64];
    uint32_t bytes;
    cairn_token wrong[2] = {-1, (cairn_token)cairn_llama_vocab_size(&vocab)};
    for (int i = 0; i < 2; i++) {
        assert_status(cairn_llama_piece(&vocab, wrong[i], true, text, sizeof text, &bytes), CAIRN_INVALID);
        assert_status(cairn_llama_detokenize(&vocab, &wrong[i], 1, true, text, sizeof text, &bytes),
                      CAIRN_INVALID);
        assert_false(cairn_llama_is_eog(&vocab, wrong[i]));
        assert_false(cairn_llama_is_control(&vocab, wrong[i]));
    }
}

static void the_end_of_a_turn_ends_an_answer(void **unused)
{
    (void)unused;
    cairn_token end[4];
    assert_int_equal(tokenize("<|im_end|>", 10, true, end, 4), 1);
    assert_true(cairn_llama_is_eog(&vocab, end[0]));
    assert_int_equal(cairn_llama_eos(&vocab), end[0]);
    assert_false(cairn_llama_is_eog(&vocab, 0));
}

static void the_file_says_what_it_is(void **unused)
{
    (void)unused;
    char text[128];
    cairn_llama_facts facts;
    cairn_llama_facts_get(&vocab, &facts);
    assert_true(facts.hybrid);
    assert_false(facts.recurrent);
    assert_true(facts.parameters > 0 && facts.layers > 0 && facts.train_tokens > 0);
    assert_int_equal(facts.window_tokens, 0);
    assert_non_null(strstr(cairn_llama_describe(&vocab, text, sizeof text), "qwen35"));
    assert_null(strchr(text, '?')); /* a size that no published model has is counted */
    assert_non_null(strchr(text, 'M'));
    assert_true(cairn_llama_meta(&vocab, "general.architecture", text, sizeof text));
    assert_string_equal(text, "qwen35");
    assert_false(cairn_llama_meta(&vocab, "no.such.key", text, sizeof text));
    assert_non_null(strstr(cairn_llama_chat_template(&vocab, NULL), "im_start"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_comes_back_byte_for_byte),
        cmocka_unit_test(pieces_joined_are_the_text),
        cmocka_unit_test(special_tokens_are_read_only_when_asked_for),
        cmocka_unit_test(too_little_room_says_how_much_is_needed),
        cmocka_unit_test(tokens_that_do_not_exist_are_refused),
        cmocka_unit_test(the_end_of_a_turn_ends_an_answer),
        cmocka_unit_test(the_file_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
