/*
 * The fields of a request.
 */
#include "test_support.h"

#include <math.h>

#include "serve/json_fields.h"
#include "serve/params.h"

static cairn_params params;
static cairn_api_error error;

static json_t *read(const char *text)
{
    memset(&error, 0, sizeof error);
    cairn_params_init(&params);
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    cairn_params_read(&params, value, &error);
    return value;
}

static void absent_fields_have_defaults(void **state)
{
    (void)state;
    json_decref(read("{\"model\":\"x\",\"user\":{\"any\":1},\"unknown\":[]}"));
    assert_int_equal(error.http, 0);
    assert_true(params.temperature == 0.8 && params.top_k == 40);
    assert_int_equal(params.answer_tokens_max, -1);
    assert_int_equal(params.seed, CAIRN_PARAMS_SEED_RANDOM);
    assert_int_equal(params.resume, -1);
    assert_false(params.stream);
}

static void the_newer_name_of_a_limit_wins(void **state)
{
    (void)state;
    json_decref(read("{\"n_predict\":5,\"max_tokens\":6,\"max_completion_tokens\":7}"));
    assert_int_equal(params.answer_tokens_max, 7);
    json_decref(read("{\"n_predict\":5,\"max_tokens\":6}"));
    assert_int_equal(params.answer_tokens_max, 6);
    json_decref(read("{\"n_predict\":-2,\"max_tokens\":null}"));
    assert_int_equal(params.answer_tokens_max, -1);
}

static void stops_may_be_one_text_or_a_list(void **state)
{
    (void)state;
    json_t *value = read("{\"stop\":\"END\"}");
    assert_int_equal(params.count_stops, 1);
    assert_memory_equal(params.stops[0].bytes, "END", 3);
    json_decref(value);
    value = read("{\"stop\":[\"a\",\"\",\"bc\"]}");
    assert_int_equal(params.count_stops, 2);
    assert_int_equal(params.stops[1].len_bytes, 2);
    json_decref(value);
    json_decref(read("{\"stop\":[\"a\",7]}"));
    assert_int_equal(error.http, 400);
    assert_string_equal(error.param, "stop[1]");
}

static void both_shapes_of_logit_bias_are_read(void **state)
{
    (void)state;
    json_t *value = read("{\"logit_bias\":{\"15\":-100,\" word\":1.5}}");
    assert_int_equal(params.count_bias, 2);
    assert_int_equal(params.bias[0].token, 15);
    assert_string_equal(params.bias[1].text, " word");
    json_decref(value);
    value = read("{\"logit_bias\":[[3,false],[\"x\",2]]}");
    assert_int_equal(params.count_bias, 2);
    assert_true(isinf(params.bias[0].bias) && params.bias[0].bias < 0);
    json_decref(value);
    json_decref(read("{\"logit_bias\":[[3]]}"));
    assert_string_equal(error.param, "logit_bias[0]");
    json_decref(read("{\"logit_bias\":{\"3\":\"much\"}}"));
    assert_string_equal(error.param, "logit_bias.3");
}

static void choices_and_probabilities_are_read(void **state)
{
    (void)state;
    json_decref(read("{\"n\":3,\"best_of\":2,\"return_tokens\":true,\"id_slot\":1}"));
    assert_int_equal(error.http, 0);
    assert_int_equal(params.choices, 3);
    assert_int_equal(params.slot, 1);
    assert_true(params.return_tokens && !params.logprobs);
    json_decref(read("{\"logprobs\":true,\"top_logprobs\":4}"));
    assert_true(params.logprobs);
    assert_int_equal(params.top_logprobs, 4);
    json_decref(read("{\"logprobs\":3}"));
    assert_true(params.logprobs);
    assert_int_equal(params.top_logprobs, 3);
    json_decref(read("{\"n_probs\":2}"));
    assert_true(params.logprobs);
    assert_int_equal(params.top_logprobs, 2);
    json_decref(read("{\"logprobs\":false,\"n_probs\":0}"));
    assert_false(params.logprobs);
    static const char *const wrong[][2] = {{"{\"n\":0}", "n"},
                                           {"{\"n\":129}", "n"},
                                           {"{\"n\":2,\"best_of\":3}", "best_of"},
                                           {"{\"top_logprobs\":2}", "top_logprobs"},
                                           {"{\"logprobs\":21}", "logprobs"},
                                           {"{\"logprobs\":1,\"echo\":true}", "logprobs"},
                                           {"{\"n_probs\":-1}", "n_probs"},
                                           {"{\"id_slot\":-2}", "id_slot"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        json_decref(read(wrong[i][0]));
        assert_int_equal(error.http, 400);
        assert_string_equal(error.param, wrong[i][1]);
    }
}

static void own_fields_are_read(void **state)
{
    (void)state;
    json_t *value = read(
        "{\"cairn\":{\"explain\":true,\"cache_salt\":\"s\",\"resume\":\"exact\",\"pin\":true,\"now\":5}}");
    assert_int_equal(error.http, 0);
    assert_true(params.explain && params.pin);
    assert_string_equal(params.cache_salt, "s");
    assert_int_equal(params.resume, CAIRN_RESUME_EXACT);
    assert_int_equal(params.now_s, 5);
    json_decref(value);
    json_decref(read("{\"cairn\":{\"resume\":\"quick\"}}"));
    assert_string_equal(error.param, "cairn.resume");
    json_decref(read("{\"cairn\":3}"));
    assert_string_equal(error.param, "cairn");
    static const char *const wrong[][2] = {
        {"{\"cairn\":{\"explain\":1}}", "cairn.explain"},
        {"{\"cairn\":{\"no_store\":\"x\"}}", "cairn.no_store"},
        {"{\"cairn\":{\"pin\":[]}}", "cairn.pin"},
        {"{\"cairn\":{\"cache_salt\":1}}", "cairn.cache_salt"},
        {"{\"cairn\":{\"now\":-1}}", "cairn.now"},
        {"{\"cairn\":{\"resume\":true}}", "cairn.resume"},
        {"{\"stream_options\":{\"include_usage\":1}}", "stream_options.include_usage"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        json_decref(read(wrong[i][0]));
        assert_int_equal(error.http, 400);
        assert_string_equal(error.param, wrong[i][1]);
    }
}

static void cache_prompt_false_switches_the_cache_off(void **state)
{
    (void)state;
    json_decref(read("{\"cache_prompt\":false}"));
    assert_int_equal(params.resume, CAIRN_RESUME_OFF);
}

static void wrong_types_of_every_field_are_refused(void **state)
{
    (void)state;
    static const char *const fields[] = {"temperature",
                                         "top_p",
                                         "min_p",
                                         "top_k",
                                         "seed",
                                         "repeat_penalty",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "stream",
                                         "stream_options",
                                         "max_tokens",
                                         "max_completion_tokens",
                                         "n_predict",
                                         "n",
                                         "best_of",
                                         "logprobs",
                                         "top_logprobs",
                                         "n_probs",
                                         "return_tokens",
                                         "id_slot",
                                         "logit_bias",
                                         "ignore_eos",
                                         "cache_prompt",
                                         "typical_p",
                                         "repeat_last_n"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char text[80];
        (void)snprintf(text, sizeof text, "{\"%s\":\"wrong\"}", fields[i]);
        json_decref(read(text));
        assert_int_equal(error.http, 400);
        assert_string_equal(error.param, fields[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_fields_have_defaults),
        cmocka_unit_test(the_newer_name_of_a_limit_wins),
        cmocka_unit_test(stops_may_be_one_text_or_a_list),
        cmocka_unit_test(both_shapes_of_logit_bias_are_read),
        cmocka_unit_test(choices_and_probabilities_are_read),
        cmocka_unit_test(own_fields_are_read),
        cmocka_unit_test(cache_prompt_false_switches_the_cache_off),
        cmocka_unit_test(wrong_types_of_every_field_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
