/*
 * Answers, streamed: cut anywhere they give the same message, the deltas add up to it, and what does not fit the
 * format is content.
 */
#include "chat_support.h"

#include <jansson.h>
#include <time.h>

#define WEATHER_TOOL                                                                                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\"," \
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}},\"required\":["     \
    "\"city\"]}}}"

/* The sum of deltas, as a client makes it. */
typedef struct sum {
    char content[1 << 16], reasoning[1 << 16];
    struct {
        char id[64], name[64], arguments[4096];
    } calls[8];
    size_t count_calls;
} sum;

static void add(char *to, size_t room, const json_t *text)
{
    if (text != NULL) {
        size_t size = strlen(to);
        assert_true(size + json_string_length(text) < room);
        memcpy(to + size, json_string_value(text), json_string_length(text) + 1);
    }
}

static void sum_add(sum *s, cairn_chat_text deltas)
{
    json_error_t error;
    json_t *list = json_loadb(deltas.text, deltas.bytes, 0, &error);
    if (list == NULL) {
        fail_msg("%s: %s", error.text, deltas.text);
    }
    size_t i;
    json_t *delta;
    json_array_foreach(list, i, delta)
    {
        add(s->content, sizeof s->content, json_object_get(delta, "content"));
        add(s->reasoning, sizeof s->reasoning, json_object_get(delta, "reasoning_content"));
        json_t *call = json_array_get(json_object_get(delta, "tool_calls"), 0);
        if (call != NULL) {
            size_t index = (size_t)json_integer_value(json_object_get(call, "index"));
            assert_true(index < 8 && index <= s->count_calls);
            json_t *function = json_object_get(call, "function");
            if (index == s->count_calls) { /* the first piece says who it is */
                s->count_calls++;
                assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
                assert_non_null(json_object_get(call, "id"));
                assert_non_null(json_object_get(function, "name"));
                add(s->calls[index].id, 64, json_object_get(call, "id"));
                add(s->calls[index].name, 64, json_object_get(function, "name"));
            } else {
                assert_null(json_object_get(function, "name"));
            }
            add(s->calls[index].arguments, 4096, json_object_get(function, "arguments"));
        }
    }
    json_decref(list);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void sum_is_message(const sum *s, const char *text)
{
    json_t *message = json_loads(text, 0, NULL);
    assert_non_null(message);
    assert_string_equal(text_of(message, "role"), "assistant");
    assert_string_equal(s->content, text_of(message, "content"));
    assert_string_equal(s->reasoning, text_of(message, "reasoning_content"));
    json_t *calls = json_object_get(message, "tool_calls");
    assert_int_equal(s->count_calls, json_array_size(calls));
    for (size_t i = 0; i < s->count_calls; i++) {
        json_t *call = json_array_get(calls, i);
        json_t *function = json_object_get(call, "function");
        assert_string_equal(s->calls[i].id, text_of(call, "id"));
        assert_string_equal(s->calls[i].name, text_of(function, "name"));
        assert_string_equal(s->calls[i].arguments, text_of(function, "arguments"));
    }
    json_decref(message);
}

static cairn_chat_stream *stream_new(const cairn_chat_prompt *prompt, bool whole)
{
    cairn_chat_stream_options options = {.call_id_prefix = "call_t", .whole = whole};
    cairn_chat_stream *stream = NULL;
    cairn_error error;
    const char *format = prompt != NULL ? prompt->format : NULL;
    size_t bytes = prompt != NULL ? prompt->format_bytes : 0;
    assert_int_equal(cairn_chat_stream_new(format, bytes, &options, &stream, &error), CAIRN_OK);
    return stream;
}

/* Feed in pieces of `step` bytes after a first one of `first`; gives the message, the caller's to free. */
static char *run(const cairn_chat_prompt *prompt, const char *answer, size_t size, size_t first, size_t step,
                 bool whole, bool *ret_broken)
{
    static sum s;
    memset(&s, 0, sizeof s);
    cairn_chat_stream *stream = stream_new(prompt, whole);
    cairn_error error;
    cairn_chat_text deltas, message;
    for (size_t at = 0; at < size;) {
        size_t piece = at == 0 && first != 0 ? first : step;
        piece = piece < size - at ? piece : size - at;
        assert_int_equal(cairn_chat_stream_feed(stream, answer + at, piece, &deltas, &error), CAIRN_OK);
        sum_add(&s, deltas);
        at += piece;
    }
    assert_int_equal(cairn_chat_stream_finish(stream, &deltas, &message, &error), CAIRN_OK);
    sum_add(&s, deltas);
    sum_is_message(&s, message.text);
    assert_int_equal(s.count_calls, cairn_chat_stream_count_calls(stream));
    if (ret_broken != NULL) {
        *ret_broken = cairn_chat_stream_is_broken(stream);
    }
    char *copy = strdup(message.text);
    assert_non_null(copy);
    cairn_chat_stream_free(stream);
    return copy;
}

/* The same message for each cut into two, for pieces of 1 to 7 bytes, and without deltas; it contains `wanted`. */
static void check_cuts(const cairn_chat_prompt *prompt, const char *answer, size_t size, const char *wanted,
                       bool broken)
{
    bool got_broken = false;
    char *whole = run(prompt, answer, size, 0, size, false, &got_broken);
    if (strcmp(whole, wanted) != 0) {
        fail_msg("answer %s\nwanted %s\ngot    %s", answer, wanted, whole);
    }
    assert_int_equal(got_broken, broken);
    for (size_t first = 1; first < size; first += size < 100 ? 1 : 1 + size / 67) {
        char *cut = run(prompt, answer, size, first, size, false, NULL);
        assert_string_equal(cut, whole);
        free(cut);
    }
    for (size_t step = 1; step <= 7; step += 3) {
        char *cut = run(prompt, answer, size, 0, step, false, NULL);
        assert_string_equal(cut, whole);
        free(cut);
    }
    char *plain = run(prompt, answer, size, 0, 5, true, NULL);
    assert_string_equal(plain, whole);
    free(plain);
    free(whole);
}

static void check(const cairn_chat_prompt *prompt, const char *answer, const char *wanted, bool broken)
{
    check_cuts(prompt, answer, strlen(answer), wanted, broken);
}

static cairn_chat_prompt *with_tools, *without_tools;

static int set_up(void **state)
{
    (void)open_qwen(state);
    with_tools = test_render(qwen, "{\"tools\":[" WEATHER_TOOL
                                   "],\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}");
    without_tools = test_render(qwen, "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}");
    return 0;
}

static int tear_down(void **state)
{
    cairn_chat_prompt_free(with_tools);
    cairn_chat_prompt_free(without_tools);
    return close_qwen(state);
}

static void reasoning_and_content_come_apart_wherever_the_text_is_cut(void **state)
{
    (void)state;
    check(without_tools, "I think.\n</think>\n\nHello world",
          "{\"role\":\"assistant\",\"content\":\"Hello world\",\"reasoning_content\":\"I think.\\n\"}",
          false);
    check(with_tools, "I think.\n</think>\n\nHello world",
          "{\"role\":\"assistant\",\"content\":\"Hello world\",\"reasoning_content\":\"I think.\\n\"}",
          false);
    check(without_tools, "never stops",
          "{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"never stops\"}", false);
    check(without_tools, "", "{\"role\":\"assistant\",\"content\":\"\"}", false);
    check(NULL, "I think.\n</think>\n\nHello",
          "{\"role\":\"assistant\",\"content\":\"I think.\\n</think>\\n\\nHello\"}", false);
}

#define CALL(city)                                                                                   \
    "<tool_call>\n<function=get_weather>\n<parameter=city>\n" city "\n</parameter>\n</function>\n</" \
    "tool_call>"

static void tool_calls_come_out_whole_wherever_the_text_is_cut(void **state)
{
    (void)state;
    check(with_tools, "Look.\n</think>\n\n" CALL("Paris"),
          "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"Look.\\n\",\"tool_calls\":[{"
          "\"id\":\"call_t0\",\"type\":\"function\","
          "\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"Paris\\\"}\"}}]}",
          false);
    check(with_tools, "Look.\n</think>\n\nOne moment.\n\n" CALL("S\xc3\xa3o \"P\"\nx") "\n" CALL("Rome"),
          "{\"role\":\"assistant\",\"content\":\"One "
          "moment.\\n\\n\",\"reasoning_content\":\"Look.\\n\",\"tool_calls\":[{\"id\":\"call_t0\",\"type\":"
          "\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"S\xc3\xa3o "
          "\\\\\\\"P\\\\\\\"\\\\nx\\\"}\"}},"
          "{\"id\":\"call_t1\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{"
          "\\\"city\\\":\\\"Rome\\\"}\"}}]}",
          false);
}

static void output_that_leaves_the_format_is_content(void **state)
{
    (void)state;
    check(with_tools, "Hm.\n</think>\n\nLook: <tool_call>\n<function=unknown>\n</function>\n</tool_call> bye",
          "{\"role\":\"assistant\",\"content\":\"Look: "
          "<tool_call>\\n<function=unknown>\\n</function>\\n</tool_call> "
          "bye\",\"reasoning_content\":\"Hm.\\n\"}",
          true);
    check(with_tools, "Hm.</think>A<tool_call>{\"name\": \"get_weather\"}</tool_call>B",
          "{\"role\":\"assistant\",\"content\":\"A<tool_call>{\\\"name\\\": "
          "\\\"get_weather\\\"}</tool_call>B\",\"reasoning_content\":\"Hm.\"}",
          true);
    /* a call that was sent stays, what follows is content */
    check(with_tools, "Hm.</think>" CALL("Rome") "\nand more",
          "{\"role\":\"assistant\",\"content\":\"and "
          "more\",\"reasoning_content\":\"Hm.\",\"tool_calls\":[{\"id\":\"call_t0\",\"type\":\"function\","
          "\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"Rome\\\"}\"}}]}",
          true);
}

static void long_broken_output_is_streamed_before_its_end(void **state)
{
    (void)state;
    static sum s;
    memset(&s, 0, sizeof s);
    cairn_chat_stream *stream = stream_new(with_tools, false);
    cairn_chat_text deltas;
    cairn_error error;
    const char *head = "Hm.</think>A<tool_call>oops ";
    assert_int_equal(cairn_chat_stream_feed(stream, head, strlen(head), &deltas, &error), CAIRN_OK);
    sum_add(&s, deltas);
    assert_string_equal(s.content, "A");
    for (int i = 0; i < 300; i++) {
        assert_int_equal(cairn_chat_stream_feed(stream, "blah ", 5, &deltas, &error), CAIRN_OK);
        sum_add(&s, deltas);
    }
    assert_true(cairn_chat_stream_is_broken(stream));
    assert_memory_equal(s.content, "A<tool_call>oops blah blah", 26);
    assert_true(strlen(s.content) > 1400);
    cairn_chat_text message;
    assert_int_equal(cairn_chat_stream_finish(stream, &deltas, &message, &error), CAIRN_OK);
    sum_add(&s, deltas);
    sum_is_message(&s, message.text);
    cairn_chat_stream_free(stream);
}

static void bytes_that_are_not_utf8_become_replacement_characters(void **state)
{
    (void)state;
    static const char answer[] = "a</think>b\xff"
                                 "c\xe2\x82\xac\xe2\x82"
                                 "d\xf0\x9f\x98\x80\xc0\x80\xed\xa0\x80\xf0\x9f";
    check_cuts(without_tools, answer, sizeof answer - 1,
               "{\"role\":\"assistant\",\"content\":\"b\xef\xbf\xbd"
               "c\xe2\x82\xac\xef\xbf\xbd"
               "d\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
               "\",\"reasoning_content\":\"a\"}",
               false);
}

static void characters_are_never_sent_in_halves(void **state)
{
    (void)state;
    cairn_chat_stream *stream = stream_new(NULL, false);
    cairn_chat_text deltas;
    cairn_error error;
    assert_int_equal(cairn_chat_stream_feed(stream, "x\xe2", 2, &deltas, &error), CAIRN_OK);
    assert_string_equal(deltas.text, "[{\"content\":\"x\"}]");
    assert_int_equal(cairn_chat_stream_feed(stream, "\x82", 1, &deltas, &error), CAIRN_OK);
    assert_string_equal(deltas.text, "[]");
    assert_int_equal(cairn_chat_stream_feed(stream, "\xac", 1, &deltas, &error), CAIRN_OK);
    assert_string_equal(deltas.text, "[{\"content\":\"\xe2\x82\xac\"}]");
    cairn_chat_stream_free(stream);
}

static void a_continued_message_is_not_repeated(void **state)
{
    (void)state;
    cairn_chat_prompt *prompt = test_render(qwen, "{\"messages\":[{\"role\":\"user\",\"content\":\"Count.\"},"
                                                  "{\"role\":\"assistant\",\"content\":\"one, two,\"}]}");
    check(prompt, " three, four", "{\"role\":\"assistant\",\"content\":\" three, four\"}", false);
    cairn_chat_prompt_free(prompt);
}

static void a_finished_stream_takes_nothing_more(void **state)
{
    (void)state;
    cairn_chat_stream_options options = {.text_bytes_max = 4};
    cairn_chat_stream *stream = NULL;
    cairn_chat_text message;
    cairn_error error;
    assert_int_equal(cairn_chat_stream_new("{\"v\":9}", 7, NULL, &stream, &error), CAIRN_INVALID);
    assert_int_equal(cairn_chat_stream_new("nonsense", 8, NULL, &stream, &error), CAIRN_INVALID);
    assert_int_equal(cairn_chat_stream_new(NULL, 0, &options, &stream, &error), CAIRN_OK);
    assert_int_equal(cairn_chat_stream_feed(stream, "abcde", 5, NULL, &error), CAIRN_LIMIT);
    assert_int_equal(cairn_chat_stream_feed(stream, "abcd", 4, NULL, &error), CAIRN_OK);
    assert_int_equal(cairn_chat_stream_feed(stream, "e", 1, NULL, &error), CAIRN_LIMIT);
    assert_int_equal(cairn_chat_stream_finish(stream, NULL, &message, &error), CAIRN_OK);
    assert_string_equal(message.text, "{\"role\":\"assistant\",\"content\":\"abcd\"}");
    assert_int_equal(cairn_chat_stream_feed(stream, "", 0, NULL, &error), CAIRN_INVALID);
    cairn_chat_text deltas;
    assert_int_equal(cairn_chat_stream_finish(stream, &deltas, &message, &error), CAIRN_OK);
    assert_string_equal(deltas.text, "[]");
    assert_string_equal(message.text, "{\"role\":\"assistant\",\"content\":\"abcd\"}");
    cairn_chat_stream_free(stream);
}

/* Pieces of what models write, in any order. */
static const char *const shards[] = {
    "<tool_call>",
    "</tool_call>",
    "\n<function=get_weather>\n",
    "<parameter=city>\n",
    "\n</parameter>\n",
    "</function>\n",
    "<think>",
    "</think>",
    "\n",
    "{\"city\": \"x\"}",
    "word ",
    "<|im_end|>",
    "\xe2\x82\xac",
    "\xff",
    "<",
    "<|channel|>final<|message|>",
    "[TOOL_CALLS]",
    "get_weather",
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>"};

static void random_output_of_any_template_never_fails_and_adds_up(void **state)
{
    (void)state;
    const char *given = getenv("CAIRN_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20260102;
    print_message("seed %llu\n", (unsigned long long)seed);
    static const char *const names[] = {"Qwen3.5-4B",
                                        "Qwen-Qwen3-0.6B",
                                        "openai-gpt-oss-120b",
                                        "meta-llama-Llama-3.1-8B-Instruct",
                                        "Kimi-K2-Thinking",
                                        "google-gemma-4-31B-it",
                                        "MiniMax-M3",
                                        "ibm-granite-granite-4.0",
                                        "Mistral-Small-3.2-24B-Instruct-2506",
                                        "LFM2-8B-A1B"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        cairn_chat *chat = test_open_template(names[n]);
        cairn_chat_prompt *prompt = test_render(
            chat, "{\"tools\":[" WEATHER_TOOL "],\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}");
        for (int round = 0; round < 12; round++) {
            test_text text = {0};
            uint64_t pieces = 1 + (seed >> 33) % 12;
            for (uint64_t k = 0; k < pieces; k++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                test_text_add(&text, "%s", shards[(seed >> 33) % (sizeof shards / sizeof shards[0])]);
            }
            const char *answer = text.text;
            size_t size = text.size;
            char *whole = run(prompt, answer, size, 0, size, false, NULL);
            for (size_t step = 1; step <= 9; step += 4) {
                char *cut = run(prompt, answer, size, (seed >> 40) % (size + 1), step, false, NULL);
                assert_string_equal(cut, whole);
                free(cut);
            }
            free(whole);
            free(text.text);
        }
        cairn_chat_prompt_free(prompt);
        cairn_chat_close(chat);
    }
}

static void a_long_answer_costs_about_the_same_for_each_byte(void **state)
{
    (void)state;
    for (size_t size = 8192; size <= 32768; size *= 2) {
        cairn_chat_stream *stream = stream_new(with_tools, false);
        cairn_error error;
        cairn_chat_text deltas, message;
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (size_t at = 0; at < size; at += 4) {
            assert_int_equal(cairn_chat_stream_feed(stream,
                                                    at == 64   ? "k>\nx"
                                                    : at == 60 ? "thin"
                                                    : at == 56 ? "ab</"
                                                               : "wor ",
                                                    4, &deltas, &error),
                             CAIRN_OK);
        }
        assert_int_equal(cairn_chat_stream_finish(stream, &deltas, &message, &error), CAIRN_OK);
        clock_gettime(CLOCK_MONOTONIC, &end);
        double us = (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
        print_message("%zu bytes: %.1f us a token of 4 bytes\n", size, us / ((double)size / 4));
        assert_true(message.bytes > size - 128);
        cairn_chat_stream_free(stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning_and_content_come_apart_wherever_the_text_is_cut),
        cmocka_unit_test(tool_calls_come_out_whole_wherever_the_text_is_cut),
        cmocka_unit_test(output_that_leaves_the_format_is_content),
        cmocka_unit_test(long_broken_output_is_streamed_before_its_end),
        cmocka_unit_test(bytes_that_are_not_utf8_become_replacement_characters),
        cmocka_unit_test(characters_are_never_sent_in_halves),
        cmocka_unit_test(a_continued_message_is_not_repeated),
        cmocka_unit_test(a_finished_stream_takes_nothing_more),
        cmocka_unit_test(random_output_of_any_template_never_fails_and_adds_up),
        cmocka_unit_test(a_long_answer_costs_about_the_same_for_each_byte),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
