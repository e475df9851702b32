/*
 * convert_support - what the tests of the Messages and Responses APIs share: JSON compared with JSON, streams as lists.
 */
#ifndef CAIRN_TEST_CONVERT_SUPPORT_H
#define CAIRN_TEST_CONVERT_SUPPORT_H

#include "test_support.h"

#include <jansson.h>

#include "serve/answer.h"

/* Single quotes stand for double ones, so that JSON in C can be read. */
static inline json_t *test_json(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; *c != '\0'; c++) {
        if (*c == '\'')
            *c = '"';
    }
    json_error_t where;
    json_t *value = json_loads(copy, JSON_DECODE_ANY, &where);
    if (value == NULL)
        fail_msg("%s at %d in %s", where.text, where.position, copy);
    free(copy);
    return value;
}

/* Takes `value` over. */
static inline void test_same(json_t *value, const char *expected_text)
{
    json_t *expected = test_json(expected_text);
    if (!json_equal(value, expected))
        fail_msg("got      %s\nexpected %s", json_dumps(value, JSON_ENCODE_ANY),
                 json_dumps(expected, JSON_ENCODE_ANY));
    json_decref(expected);
    json_decref(value);
}

/* A stream's events, in order; each must be named as its type says. */
static inline json_t *test_events(const char *text)
{
    json_t *list = json_array();
    for (const char *at = text; *at != '\0';) {
        char name[64];
        const char *end = strstr(at, "\n\n");
        assert_non_null(end);
        assert_int_equal(sscanf(at, "event: %63s", name), 1);
        const char *data = strstr(at, "\ndata: ");
        assert_true(data != NULL && data < end);
        json_t *value = json_loadb(data + 7, (size_t)(end - data) - 7, 0, NULL);
        assert_non_null(value);
        assert_string_equal(json_string_value(json_object_get(value, "type")), name);
        json_array_append_new(list, value);
        at = end + 2;
    }
    return list;
}

static const cairn_record test_record = {.prompt_tokens = 50, .resume = 30, .read = 20, .least = 10};
static const cairn_request_times test_times = {.answer_tokens = 4};

/* A whole answer through a shape: text in pieces of `step` bytes. The events, or the one object. */
static inline json_t *test_answer_with(cairn_answer_shape *shape, const char *format, bool stream,
                                       const char *text, size_t step, cairn_finish finish)
{
    static const cairn_stop_text stops[] = {{"STOP", 4}};
    cairn_answer_options options = {.surface = CAIRN_SURFACE_CHAT,
                                    .stream = stream,
                                    .model = "m",
                                    .created_s = 7,
                                    .format = format,
                                    .format_bytes = format != NULL ? strlen(format) : 0,
                                    .shape = shape,
                                    .stops = stops,
                                    .count_stops = 1,
                                    .count_client_stops = 1,
                                    .mark_position = 35,
                                    .text_bytes_max = 1 << 20};
    (void)snprintf(options.id, sizeof options.id, "%s1", shape->id_prefix);
    cairn_answer *answer = NULL;
    assert_ok(cairn_answer_new(cairn_mem_default(), &options, &answer, NULL));
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_answer_begin(answer, &test_record, &out));
    bool stopped = false;
    size_t len = strlen(text);
    for (size_t at = 0; at < len && !stopped; at += step)
        assert_ok(cairn_answer_text(answer, text + at, len - at < step ? len - at : step, &out, &stopped));
    assert_ok(
        cairn_answer_end(answer, stopped ? CAIRN_FINISH_STOP_TEXT : finish, &test_record, &test_times, &out));
    json_t *value = stream ? test_events(cairn_buf_str(&out)) : json_loads(cairn_buf_str(&out), 0, NULL);
    assert_non_null(value);
    cairn_buf_release(&out);
    cairn_answer_free(answer);
    shape->free(shape->ctx);
    return value;
}

/* Deltas as the chat bridge gives them, straight to the shape, which is freed. The events, or the one object. */
static inline json_t *test_shaped(cairn_answer_shape *shape, const char *const *deltas, size_t count,
                                  const char *message, bool stream, uint32_t calls)
{
    char id[32];
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
    (void)snprintf(id, sizeof id, "%s1", shape->id_prefix);
    cairn_shape_answer info = {.id = id, .model = "m", .stream = stream, .record = &test_record};
    if (stream)
        assert_ok(shape->begin(shape->ctx, &info, &out));
    for (size_t i = 0; stream && i < count; i++) {
        json_t *delta = test_json(deltas[i]);
        assert_ok(shape->delta(shape->ctx, &info, delta, &out));
        json_decref(delta);
    }
    json_t *whole = test_json(message);
    cairn_shape_end end = {
        .finish = CAIRN_FINISH_STOP, .count_calls = calls, .message = whole, .times = &test_times};
    assert_ok(shape->end(shape->ctx, &info, &end, &out));
    json_decref(whole);
    json_t *value = stream ? test_events(cairn_buf_str(&out)) : json_loads(cairn_buf_str(&out), 0, NULL);
    cairn_buf_release(&out);
    shape->free(shape->ctx);
    return value;
}

/* The events' types, joined by blanks; the same one several times in a row counts once. */
static inline void test_order(const json_t *events, const char *expected)
{
    char out[2048] = "";
    const char *last = "";
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(events, i), "type"));
        if (strcmp(type, last) != 0) {
            strncat(out, i > 0 ? " " : "", sizeof out - strlen(out) - 1);
            strncat(out, type, sizeof out - strlen(out) - 1);
        }
        last = type;
    }
    assert_string_equal(out, expected);
}

#endif
