/*
 * Sampling over plain arrays of logits, with the Qwen3.5 vocabulary for grammars.
 */
#include "chat_support.h"

#include <math.h>

#include "chat/sampler_bridge.h"
#include "vocab_support.h"

static struct llama_model *model;
static uint32_t n_vocab;
static float *logits;

static int open_vocabulary(void **state)
{
    (void)state;
    model = test_vocabulary_open();
    n_vocab = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    logits = calloc(n_vocab, sizeof *logits);
    assert_non_null(logits);
    return 0;
}

static int close_vocabulary(void **state)
{
    (void)state;
    free(logits);
    llama_model_free(model);
    return 0;
}

static cairn_sampler *sampler_new(const cairn_sampler_settings *settings)
{
    cairn_sampler *sampler = NULL;
    cairn_error error;
    if (cairn_sampler_new(model, settings, &sampler, &error) != CAIRN_OK) {
        fail_msg("refused: %s", error.detail);
    }
    return sampler;
}

static cairn_token sample(cairn_sampler *sampler)
{
    cairn_token token = -1;
    cairn_error error;
    assert_int_equal(cairn_sampler_sample(sampler, logits, &token, &error), CAIRN_OK);
    assert_true(token >= 0 && (uint32_t)token < n_vocab);
    return token;
}

static void reset_logits(void)
{
    for (uint32_t i = 0; i < n_vocab; i++) {
        logits[i] = -1.0f - (float)(i % 97) * 0.01f;
    }
}

static cairn_token token_of(const char *text)
{
    llama_token tokens[8];
    int32_t count =
        llama_tokenize(llama_model_get_vocab(model), text, (int32_t)strlen(text), tokens, 8, false, true);
    assert_int_equal(count, 1);
    return tokens[0];
}

/* This vocabulary spells most tags in several tokens. */
static void accept_text(cairn_sampler *sampler, const char *text)
{
    llama_token tokens[16];
    int32_t count =
        llama_tokenize(llama_model_get_vocab(model), text, (int32_t)strlen(text), tokens, 16, false, true);
    assert_true(count > 0);
    for (int32_t i = 0; i < count; i++) {
        cairn_error error;
        assert_int_equal(cairn_sampler_accept(sampler, tokens[i], true, &error), CAIRN_OK);
    }
}

static void the_largest_logit_wins_and_the_lowest_id_among_equals(void **state)
{
    (void)state;
    const float some[] = {1.0f, 3.0f, NAN, 3.0f, -INFINITY};
    assert_int_equal(cairn_sampler_argmax(some, 5), 1);
    const float odd[] = {NAN, NAN, -2.0f};
    assert_int_equal(cairn_sampler_argmax(odd, 3), 2);
    reset_logits();
    logits[500] = logits[300] = 4.0f;
    cairn_sampler_settings settings = cairn_sampler_settings_default();
    settings.temperature = 0.0f;
    cairn_sampler *sampler = sampler_new(&settings);
    assert_true(cairn_sampler_is_greedy(sampler));
    assert_int_equal(sample(sampler), 300);
    cairn_sampler_free(sampler);
    /* other tokens lowered, and the slow way (one raised), give the same; the largest lowered itself does not */
    const cairn_sampler_bias bias[] = {
        {.token = 7, .bias = -1.0f}, {.token = 7, .bias = 0.5f}, {.token = 300, .bias = -0.5f}};
    const cairn_token expected[] = {300, 300, 500};
    for (int i = 0; i < 3; i++) {
        settings.bias = &bias[i];
        settings.count_bias = 1;
        sampler = sampler_new(&settings);
        assert_false(cairn_sampler_is_greedy(sampler));
        assert_int_equal(sample(sampler), expected[i]);
        cairn_sampler_free(sampler);
    }
}

static void no_possible_token_is_an_error(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_vocab; i++) {
        logits[i] = i % 2 == 0 ? -INFINITY : NAN;
    }
    for (int round = 0; round < 2; round++) {
        cairn_sampler_settings settings = cairn_sampler_settings_default();
        settings.temperature = round == 0 ? 0.0f : 1.0f;
        cairn_sampler *sampler = sampler_new(&settings);
        cairn_token token = 0;
        cairn_error error;
        assert_int_equal(cairn_sampler_sample(sampler, logits, &token, &error), CAIRN_ENGINE);
        assert_string_equal(error.detail, "no token is possible");
        cairn_sampler_free(sampler);
    }
}

static void biases_and_penalties_change_the_choice(void **state)
{
    (void)state;
    reset_logits();
    logits[10] = 5.0f;
    logits[20] = 4.5f;
    cairn_sampler_settings settings = cairn_sampler_settings_default();
    settings.temperature = 0.0f;
    const cairn_sampler_bias bias[] = {{.token = 10, .bias = -INFINITY}, {.token = 30, .bias = 100.0f}};
    settings.bias = bias;
    settings.count_bias = 1;
    cairn_sampler *sampler = sampler_new(&settings);
    assert_int_equal(sample(sampler), 20);
    cairn_sampler_free(sampler);
    settings.count_bias = 2;
    sampler = sampler_new(&settings);
    assert_int_equal(sample(sampler), 30);
    cairn_sampler_free(sampler);
    settings.count_bias = 0;
    settings.presence_penalty = 1.0f;
    sampler = sampler_new(&settings);
    assert_int_equal(sample(sampler), 10);
    cairn_error error;
    assert_int_equal(cairn_sampler_accept(sampler, 10, false, &error), CAIRN_OK);
    assert_int_equal(sample(sampler), 20);
    cairn_sampler_free(sampler);
}

static void a_seed_repeats_the_same_tokens_within_top_k(void **state)
{
    (void)state;
    reset_logits();
    for (int i = 0; i < 4; i++) {
        logits[1000 + i] = 8.0f;
    }
    cairn_sampler_settings settings = cairn_sampler_settings_default();
    settings.temperature = 1.0f;
    settings.top_k = 4;
    settings.seed = 42;
    cairn_sampler *one = sampler_new(&settings);
    cairn_sampler *two = sampler_new(&settings);
    unsigned seen = 0;
    for (int i = 0; i < 64; i++) {
        cairn_token token = sample(one);
        assert_int_equal(token, sample(two));
        assert_true(token >= 1000 && token < 1004);
        seen |= 1u << (token - 1000);
    }
    assert_int_equal(seen, 15);
    cairn_sampler_free(one);
    cairn_sampler_free(two);
}

static void a_grammar_allows_only_what_it_says(void **state)
{
    (void)state;
    reset_logits();
    cairn_token yes = token_of("yes");
    cairn_token no = token_of("no");
    logits[token_of("maybe")] = 9.0f;
    logits[no] = 5.0f;
    logits[yes] = 4.0f;
    for (int round = 0; round < 2; round++) {
        cairn_sampler_settings settings = cairn_sampler_settings_default();
        settings.temperature = round == 0 ? 0.0f : 0.1f;
        settings.grammar = "root ::= \"yes\" | \"no\"";
        cairn_sampler *sampler = sampler_new(&settings);
        assert_false(cairn_sampler_is_greedy(sampler));
        cairn_token token = sample(sampler);
        assert_int_equal(token, no);
        cairn_error error;
        assert_int_equal(cairn_sampler_accept(sampler, token, true, &error), CAIRN_OK);
        token = sample(sampler); /* nothing but an end may follow */
        assert_true(llama_vocab_is_eog(llama_model_get_vocab(model), token));
        assert_int_equal(cairn_sampler_accept(sampler, yes, true, &error), CAIRN_INVALID);
        cairn_sampler_free(sampler);
    }
}

static void a_lazy_grammar_waits_for_its_trigger_outside_of_reasoning(void **state)
{
    (void)state;
    cairn_chat *chat = test_open_template("Qwen-QwQ-32B");
    cairn_chat_prompt *prompt =
        test_render(chat, "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
                          "\"type\":\"object\",\"properties\":{}}}}],"
                          "\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}");
    assert_true(prompt->grammar_lazy);
    cairn_sampler_settings settings = cairn_sampler_settings_default();
    settings.temperature = 0.0f;
    settings.prompt = prompt;
    cairn_sampler *sampler = sampler_new(&settings);
    reset_logits();
    cairn_token word = token_of(" word");
    logits[word] = 9.0f;
    /* the opener opened the reasoning: free text */
    assert_int_equal(sample(sampler), word);
    accept_text(sampler, "thinking of <tool_call>\n here");
    assert_int_equal(sample(sampler), word);
    accept_text(sampler, "\n</think>\n\n");
    assert_int_equal(sample(sampler), word);
    accept_text(sampler, "<tool_call>\n");
    /* now only the call's text may follow */
    assert_int_not_equal(sample(sampler), word);
    cairn_error error;
    assert_int_equal(cairn_sampler_accept(sampler, word, true, &error), CAIRN_INVALID);
    cairn_sampler_free(sampler);
    cairn_chat_prompt_free(prompt);
    cairn_chat_close(chat);
}

static void the_grammar_of_a_format_starts_behind_the_opener(void **state)
{
    (void)state;
    cairn_chat *chat = test_open_template("Qwen3.5-4B");
    cairn_chat_prompt *prompt = test_render(chat, "{\"response_format\":{\"type\":\"json_object\"},\"chat_"
                                                  "template_kwargs\":{\"enable_thinking\":false},"
                                                  "\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}");
    cairn_sampler_settings settings = cairn_sampler_settings_default();
    settings.temperature = 0.0f;
    settings.prompt = prompt;
    cairn_sampler *sampler = sampler_new(&settings);
    reset_logits();
    logits[token_of(" word")] = 9.0f;
    logits[token_of("{")] = 5.0f;
    assert_int_equal(sample(sampler), token_of("{"));
    cairn_sampler_free(sampler);
    cairn_chat_prompt_free(prompt);
    cairn_chat_close(chat);
}

static void bad_settings_are_named(void **state)
{
    (void)state;
    static const cairn_sampler_bias far = {.token = 1 << 30, .bias = 1.0f};
    static const cairn_sampler_bias odd = {.token = 1, .bias = INFINITY};
    for (int i = 0; i < 10; i++) {
        cairn_sampler_settings s = cairn_sampler_settings_default();
        static const char *const fields[] = {"temperature", "top_p",          "top_p",         "min_p",
                                             "typical_p",   "repeat_penalty", "repeat_last_n", "logit_bias",
                                             "logit_bias",  "grammar"};
        s.temperature = i == 0 ? NAN : s.temperature;
        s.top_p = i == 1 ? 0.0f : i == 2 ? 1.5f : s.top_p;
        s.min_p = i == 3 ? -1.0f : s.min_p;
        s.typical_p = i == 4 ? 0.0f : s.typical_p;
        s.repeat_penalty = i == 5 ? 0.0f : s.repeat_penalty;
        s.repeat_last_n = i == 6 ? -2 : s.repeat_last_n;
        s.bias = i == 7 ? &far : i == 8 ? &odd : NULL;
        s.count_bias = s.bias != NULL;
        s.grammar = i == 9 ? "root ::= (" : NULL;
        cairn_sampler *sampler = NULL;
        cairn_error error = {0};
        assert_int_equal(cairn_sampler_new(model, &s, &sampler, &error), CAIRN_INVALID);
        assert_null(sampler);
        if (strncmp(error.detail, fields[i], strlen(fields[i])) != 0) {
            fail_msg("wanted %s, got %s", fields[i], error.detail);
        }
    }
    static const char *const grammars[] = {
        "",           "x ::= \"a\"",   "root ::= root \"a\"", "root ::= missing",

        "root ::= [", "%llguidance {}"};
    for (size_t i = 1; i < sizeof grammars / sizeof grammars[0]; i++) {
        cairn_sampler_settings s = cairn_sampler_settings_default();
        s.grammar = grammars[i];
        cairn_sampler *sampler = NULL;
        cairn_error error = {0};
        if (cairn_sampler_new(model, &s, &sampler, &error) != CAIRN_INVALID) {
            fail_msg("taken: %s", grammars[i]);
        }
    }
}

static void log_probabilities_are_sorted_and_add_up(void **state)
{
    (void)state;
    const float few[] = {0.0f, 2.0f, 1.0f, 2.0f, -INFINITY, NAN};
    cairn_sampler_logprob top[6];
    float own = 0.0f;
    cairn_sampler_logprobs(few, 6, 2, &own, top, 3);
    assert_int_equal(top[0].token, 1);
    assert_int_equal(top[1].token, 3);
    assert_int_equal(top[2].token, 2);
    assert_true(fabsf(top[2].logprob - own) < 1e-6f);
    cairn_sampler_logprobs(few, 6, 0, &own, top, 6);
    double sum = 0.0;
    for (int i = 0; i < 6; i++) {
        sum += exp((double)top[i].logprob);
    }
    assert_true(fabs(sum - 1.0) < 1e-5);
    cairn_sampler_logprobs(few, 6, 0, &own, NULL, 0);
    assert_true(own < top[0].logprob);
}

static void a_model_s_own_texts_are_used_or_chatml(void **state)
{
    (void)state;
    const char *own = llama_model_chat_template(model, NULL);
    cairn_chat_source source = {.model = model};
    cairn_chat *chat = NULL;
    cairn_error error;
    assert_int_equal(cairn_chat_open(&source, &chat, &error), CAIRN_OK);
    assert_int_equal(cairn_chat_get_caps(chat)->is_fallback, own == NULL);
    if (own != NULL) {
        assert_string_equal(cairn_chat_get_template(chat), own);
    }
    cairn_chat_close(chat);
    /* the begin and end tokens come from the vocabulary, whatever is said */
    source.template_text = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
    source.eos_text = "wrong";
    assert_int_equal(cairn_chat_open(&source, &chat, &error), CAIRN_OK);
    cairn_chat_prompt *prompt = test_render(chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}");
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    assert_string_equal(prompt->text + 1, llama_vocab_get_text(vocab, llama_vocab_eos(vocab)));
    cairn_chat_prompt_free(prompt);
    cairn_chat_close(chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_logit_wins_and_the_lowest_id_among_equals),
        cmocka_unit_test(no_possible_token_is_an_error),
        cmocka_unit_test(biases_and_penalties_change_the_choice),
        cmocka_unit_test(a_seed_repeats_the_same_tokens_within_top_k),
        cmocka_unit_test(a_grammar_allows_only_what_it_says),
        cmocka_unit_test(a_lazy_grammar_waits_for_its_trigger_outside_of_reasoning),
        cmocka_unit_test(the_grammar_of_a_format_starts_behind_the_opener),
        cmocka_unit_test(a_model_s_own_texts_are_used_or_chatml),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(log_probabilities_are_sorted_and_add_up),
    };
    return cmocka_run_group_tests(tests, open_vocabulary, close_vocabulary);
}
