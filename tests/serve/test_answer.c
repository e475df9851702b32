/*
 * Generated text becomes events and objects, whatever is in it and wherever it is cut.
 */
#include "test_support.h"

#include <jansson.h>

#include "serve/answer.h"

static const cairn_record record = {.prompt_tokens = 50, .resume = 30, .read = 20, .least = 10};
static const cairn_request_times times = {.answer_tokens = 4, .prompt_ns = 2000000, .answer_ns = 4000000};

static cairn_answer *make(cairn_surface surface, bool stream, const cairn_stop_text *stops, size_t count)
{
    cairn_answer_options options = {.surface = surface,
                                    .stream = stream,
                                    .include_usage = true,
                                    .explain = true,
                                    .id = "chatcmpl-1",
                                    .model = "m",
                                    .fingerprint = "f",
                                    .stops = stops,
                                    .count_stops = count,
                                    .text_bytes_max = 1 << 20};
    cairn_answer *answer = NULL;
    assert_ok(cairn_answer_new(cairn_mem_default(), &options, &answer, NULL));
    return answer;
}

/* All text of a stream's chunks, joined; finish reasons and usage are looked at. */
static char *joined(const char *events, char *out, size_t room, const char **finish, bool *usage)
{
    static char reason[32];
    size_t used = 0;
    *finish = NULL;
    *usage = false;
    out[0] = '\0';
    for (const char *at = events; *at != '\0';) {
        assert_memory_equal(at, "data: ", 6);
        const char *end = strstr(at, "\n\n");
        assert_non_null(end);
        if (strncmp(at + 6, "[DONE]", 6) == 0)
            return out;
        json_t *chunk = json_loadb(at + 6, (size_t)(end - at) - 6, 0, NULL);
        assert_non_null(chunk);
        json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
        const char *piece = json_string_value(json_object_get(choice, "text"));
        if (piece == NULL)
            piece = json_string_value(json_object_get(json_object_get(choice, "delta"), "content"));
        if (piece == NULL)
            piece = json_string_value(json_object_get(chunk, "content"));
        used += (size_t)snprintf(out + used, room - used, "%s", piece != NULL ? piece : "");
        if (json_is_string(json_object_get(choice, "finish_reason"))) {
            (void)snprintf(reason, sizeof reason, "%s",
                           json_string_value(json_object_get(choice, "finish_reason")));
            *finish = reason;
        }
        if (json_is_object(json_object_get(chunk, "usage"))) {
            json_t *details = json_object_get(json_object_get(chunk, "usage"), "prompt_tokens_details");
            assert_int_equal(json_integer_value(json_object_get(details, "cached_tokens")), 30);
            *usage = true;
        }
        json_decref(chunk);
        at = end + 2;
    }
    return out;
}

static void streamed_text_is_the_generated_text_without_the_stop(void **state)
{
    (void)state;
    const cairn_stop_text stops[] = {{"<end>", 5}};
    static const char text[] = "Gr\xc3\xbc\xc3\x9f <e> \xe2\x82\xac<end> never shown";
    for (int surface = 0; surface < 2; surface++) {
        for (size_t step = 1; step < 9; step++) {
            cairn_answer *answer = make((cairn_surface)surface, true, stops, 1);
            cairn_buf out;
            char shown[200];
            const char *finish = NULL;
            bool stopped = false, usage = false;
            cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
            assert_ok(cairn_answer_begin(answer, &record, &out));
            for (size_t at = 0; at < sizeof text - 1 && !stopped; at += step) {
                size_t n = sizeof text - 1 - at < step ? sizeof text - 1 - at : step;
                assert_ok(cairn_answer_text(answer, text + at, n, &out, &stopped));
                assert_null(strstr(cairn_buf_str(&out), "<end"));
            }
            assert_true(stopped);
            assert_ok(cairn_answer_end(answer, CAIRN_FINISH_STOP_TEXT, &record, &times, &out));
            assert_string_equal(joined(cairn_buf_str(&out), shown, sizeof shown, &finish, &usage),
                                "Gr\xc3\xbc\xc3\x9f <e> \xe2\x82\xac");
            assert_string_equal(finish, "stop");
            assert_true(usage);
            cairn_buf_release(&out);
            cairn_answer_free(answer);
        }
    }
}

static void a_nul_that_was_generated_ends_no_answer(void **state)
{
    (void)state;
    static const char text[] = "a\0b\0";
    for (int surface = 0; surface < 2; surface++) {
        for (int stream = 0; stream < 2; stream++) {
            cairn_answer *answer = make((cairn_surface)surface, stream == 1, NULL, 0);
            cairn_buf out;
            bool stopped = false;
            cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
            assert_ok(cairn_answer_begin(answer, &record, &out));
            for (size_t at = 0; at < 4; at++)
                assert_ok(cairn_answer_text(answer, text + at, 1, &out, &stopped));
            assert_ok(cairn_answer_end(answer, CAIRN_FINISH_STOP, &record, &times, &out));
            if (stream == 1) {
                char shown[100];
                const char *finish = NULL;
                bool usage = false;
                assert_string_equal(joined(cairn_buf_str(&out), shown, sizeof shown, &finish, &usage),
                                    "a\xEF\xBF\xBD"
                                    "b\xEF\xBF\xBD");
            } else {
                assert_non_null(strstr(cairn_buf_str(&out), "\"a\xEF\xBF\xBD"
                                                            "b\xEF\xBF\xBD\""));
            }
            cairn_buf_release(&out);
            cairn_answer_free(answer);
        }
    }
}

static void a_partial_stop_at_the_end_is_shown(void **state)
{
    (void)state;
    const cairn_stop_text stops[] = {{"<end>", 5}};
    cairn_answer *answer = make(CAIRN_SURFACE_TEXT, true, stops, 1);
    cairn_buf out;
    char shown[100];
    const char *finish = NULL;
    bool stopped = false, usage = false;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_answer_text(answer, "abc<en", 6, &out, &stopped));
    assert_null(strstr(cairn_buf_str(&out), "<en"));
    assert_ok(cairn_answer_end(answer, CAIRN_FINISH_LENGTH, &record, &times, &out));
    assert_string_equal(joined(cairn_buf_str(&out), shown, sizeof shown, &finish, &usage), "abc<en");
    assert_string_equal(finish, "length");
    cairn_buf_release(&out);
    cairn_answer_free(answer);
}

static void a_whole_answer_is_one_object(void **state)
{
    (void)state;
    cairn_answer *answer = make(CAIRN_SURFACE_CHAT, false, NULL, 0);
    cairn_buf out;
    bool stopped = false;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_answer_begin(answer, &record, &out));
    assert_ok(cairn_answer_text(answer, "bad \xff byte", 10, &out, &stopped));
    assert_int_equal(out.len_bytes, 0);
    assert_ok(cairn_answer_end(answer, CAIRN_FINISH_STOP, &record, &times, &out));
    json_t *value = json_loadb((const char *)out.bytes, out.len_bytes, 0, NULL);
    assert_non_null(value);
    assert_string_equal(json_string_value(json_object_get(value, "object")), "chat.completion");
    json_t *choice = json_array_get(json_object_get(value, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(choice, "message"), "content")),
                        "bad \xef\xbf\xbd byte");
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "stop");
    json_t *timings = json_object_get(value, "timings");
    assert_int_equal(json_integer_value(json_object_get(timings, "prompt_n")), 20);
    assert_int_equal(json_integer_value(json_object_get(timings, "cache_n")), 30);
    assert_int_equal(json_integer_value(json_object_get(timings, "predicted_n")), 4);
    assert_non_null(json_object_get(timings, "prompt_ms"));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(value, "cairn"), "least")), 10);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(value, "usage"), "total_tokens")),
                     54);
    json_decref(value);
    cairn_buf_release(&out);
    cairn_answer_free(answer);
}

static void llama_s_own_shape_is_kept(void **state)
{
    (void)state;
    cairn_answer *answer = make(CAIRN_SURFACE_LLAMA, false, NULL, 0);
    cairn_buf out;
    bool stopped = false;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_answer_text(answer, "hello", 5, &out, &stopped));
    assert_ok(cairn_answer_end(answer, CAIRN_FINISH_LENGTH, &record, &times, &out));
    json_t *value = json_loadb((const char *)out.bytes, out.len_bytes, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(value, "content")), "hello");
    assert_string_equal(json_string_value(json_object_get(value, "stop_type")), "limit");
    assert_true(json_is_true(json_object_get(value, "stop")));
    json_decref(value);
    cairn_buf_release(&out);
    cairn_answer_free(answer);
}

static void more_text_than_allowed_is_a_limit(void **state)
{
    (void)state;
    cairn_answer_options options = {
        .surface = CAIRN_SURFACE_TEXT, .model = "m", .fingerprint = "f", .text_bytes_max = 8};
    cairn_answer *answer = NULL;
    cairn_buf out;
    bool stopped = false;
    cairn_buf_init(&out, cairn_mem_default(), 1000);
    assert_ok(cairn_answer_new(cairn_mem_default(), &options, &answer, NULL));
    assert_ok(cairn_answer_text(answer, "12345678", 8, &out, &stopped));
    assert_status(cairn_answer_text(answer, "9", 1, &out, &stopped), CAIRN_LIMIT);
    cairn_buf_release(&out);
    cairn_answer_free(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_text_is_the_generated_text_without_the_stop),
        cmocka_unit_test(a_nul_that_was_generated_ends_no_answer),
        cmocka_unit_test(a_partial_stop_at_the_end_is_shown),
        cmocka_unit_test(a_whole_answer_is_one_object),
        cmocka_unit_test(llama_s_own_shape_is_kept),
        cmocka_unit_test(more_text_than_allowed_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
