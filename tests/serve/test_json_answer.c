/*
 * JSON and events going out.
 */
#include "test_support.h"

#include "serve/json_answer.h"

static void an_event_is_one_line_with_an_empty_line_behind(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 1000);
    assert_ok(cairn_sse_write(&buf, NULL, json_pack("{s:s, s:i}", "text", "a\nb", "n", 1)));
    assert_string_equal(cairn_buf_str(&buf), "data: {\"text\":\"a\\nb\",\"n\":1}\n\n");
    cairn_buf_reset(&buf);
    assert_ok(cairn_sse_write(&buf, "delta", json_pack("[i]", 1)));
    assert_string_equal(cairn_buf_str(&buf), "event: delta\ndata: [1]\n\n");
    cairn_buf_reset(&buf);
    assert_ok(cairn_sse_done(&buf));
    assert_string_equal(cairn_buf_str(&buf), "data: [DONE]\n\n");
    cairn_buf_release(&buf);
}

static void an_event_that_does_not_fit_writes_nothing(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 12);
    assert_ok(cairn_buf_append_str(&buf, "x"));
    assert_status(cairn_sse_write(&buf, NULL, json_pack("{s:s}", "text", "too long for it")), CAIRN_LIMIT);
    assert_string_equal(cairn_buf_str(&buf), "x");
    cairn_buf_release(&buf);
}

static void a_value_that_could_not_be_built_is_no_memory(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 100);
    assert_status(cairn_json_write(&buf, NULL), CAIRN_NOMEM);
    assert_status(cairn_sse_write(&buf, NULL, NULL), CAIRN_NOMEM);
    assert_int_equal(buf.len_bytes, 0);
    cairn_buf_release(&buf);
}

static void strings_of_any_bytes_become_text(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 100);
    assert_ok(cairn_json_write(&buf, cairn_json_string("a\xff\0b", 4)));
    assert_string_equal(cairn_buf_str(&buf), "\"a\xef\xbf\xbd\\u0000b\"");
    cairn_buf_release(&buf);
}

static void errors_have_the_shape_that_clients_know(void **state)
{
    (void)state;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 2000);
    cairn_api_error error = {0};
    cairn_api_error_bad(&error, "messages[0].role", "unknown role \"%s\"", "x");
    assert_ok(cairn_json_write(&buf, cairn_json_error(&error)));
    assert_string_equal(cairn_buf_str(&buf),
                        "{\"error\":{\"message\":\"unknown role \\\"x\\\"\",\"type\":\"invalid_request_"
                        "error\",\"param\":\"messages[0].role\",\"code\":null}}");
    cairn_buf_reset(&buf);
    memset(&error, 0, sizeof error);
    cairn_api_error_context(&error, "messages", 5000, 4096);
    assert_ok(cairn_json_write(&buf, cairn_json_error(&error)));
    assert_non_null(strstr(cairn_buf_str(&buf), "maximum context length is 4096 tokens"));
    assert_non_null(strstr(cairn_buf_str(&buf), "\"code\":\"context_length_exceeded\""));
    assert_non_null(strstr(cairn_buf_str(&buf), "\"n_prompt_tokens\":5000,\"n_ctx\":4096"));
    cairn_buf_release(&buf);
}

static void a_status_becomes_its_http_status(void **state)
{
    (void)state;
    cairn_error cause;
    cairn_api_error error = {0};
    (void)cairn_error_set(&cause, CAIRN_NOMEM, "here", "of %d bytes", 7);
    cairn_api_error_from(&error, &cause);
    assert_int_equal(error.http, 503);
    assert_string_equal(error.type, "unavailable_error");
    assert_string_equal(error.message, "out of memory: of 7 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_one_line_with_an_empty_line_behind),
        cmocka_unit_test(an_event_that_does_not_fit_writes_nothing),
        cmocka_unit_test(a_value_that_could_not_be_built_is_no_memory),
        cmocka_unit_test(strings_of_any_bytes_become_text),
        cmocka_unit_test(errors_have_the_shape_that_clients_know),
        cmocka_unit_test(a_status_becomes_its_http_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
