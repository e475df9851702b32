/* What --trace writes: serve/recorder. That `cairn simulate` replays it is tested end to end (tests/e2e/trace.test.mjs). */
#include "test_support.h"

#include <jansson.h>

#include "base/io_faulty.h"
#include "base/io_memory.h"
#include "base/mem_test.h"
#include "serve/recorder.h"

enum { TOKENS = 40, ANSWER = 3 };

typedef struct desk {
    cairn_io_memory *disk;
    cairn_io *io;
    cairn_log log;
    char said[4096];
    cairn_engine_info engine;
    cairn_recorder *recorder;
    cairn_token tokens[TOKENS], answer[ANSWER];
    cairn_boundary boundaries[3];
    cairn_prompt prompt;
    cairn_record record;
} desk;

static void hear(void *ctx, const char *line, size_t len_bytes)
{
    desk *d = ctx;
    size_t at = strlen(d->said);
    (void)snprintf(d->said + at, sizeof d->said - at, "%.*s", (int)len_bytes, line);
}

static void desk_init(desk *d)
{
    memset(d, 0, sizeof *d);
    d->disk = cairn_io_memory_new(cairn_mem_default(), 1 << 20);
    assert_non_null(d->disk);
    d->io = cairn_io_memory_io(d->disk);
    cairn_log_init(&d->log, CAIRN_LOG_LEVEL_INFO, CAIRN_FIELD_FORMAT_TEXT, NULL, hear, d);
    d->engine = (cairn_engine_info){
        .slots = 2, .slot_tokens_max = 100, .batch_tokens_max = 32, .state_bytes_max = 5000, .row_bytes = 8};
    for (int i = 0; i < TOKENS; i++)
        d->tokens[i] = 1000 + i;
    for (int i = 0; i < ANSWER; i++)
        d->answer[i] = 7000 + i;
    d->boundaries[0] = (cairn_boundary){.position = 10, .kinds = CAIRN_BOUNDARY_SYSTEM_END};
    d->boundaries[1] = (cairn_boundary){
        .position = 10, .kinds = CAIRN_BOUNDARY_MESSAGE_START, .role = CAIRN_ROLE_USER, .message = 1};
    d->boundaries[2] = (cairn_boundary){
        .position = 36, .kinds = CAIRN_BOUNDARY_OPENER, .role = CAIRN_ROLE_ASSISTANT, .message = 2};
    d->prompt = (cairn_prompt){
        .tokens = d->tokens, .count = TOKENS, .boundaries = d->boundaries, .count_boundaries = 3};
    d->record = (cairn_record){.prompt_tokens = TOKENS, .resume = 8, .read = 32, .least = 30};
}

static void desk_release(desk *d)
{
    cairn_recorder_close(d->recorder);
    cairn_log_release(&d->log);
    cairn_io_memory_free(d->disk);
}

static cairn_status begin(desk *d, const cairn_mem *mem, uint64_t bytes_max, const uint8_t *veil)
{
    cairn_recorder_options options = {.mem = mem,
                                      .io = d->io,
                                      .log = &d->log,
                                      .path = "/t",
                                      .bytes_max = bytes_max,
                                      .veil = veil,
                                      .engine = &d->engine,
                                      .ram_bytes_max = 77,
                                      .start_ns = 1000000000};
    return cairn_recorder_open(&options, &d->recorder, NULL);
}

static void add(desk *d, cairn_ending ending)
{
    cairn_recorder_entry entry = {.id = 5,
                                  .begun_ns = 3500000000,
                                  .prompt = &d->prompt,
                                  .answer = d->answer,
                                  .count_answer = ANSWER,
                                  .record = &d->record,
                                  .ending = ending};
    cairn_recorder_add(d->recorder, &entry);
}

/* The lines of a file as a JSON array; each must be whole. */
static json_t *lines_of(desk *d, const char *path)
{
    cairn_buf text;
    cairn_buf_init(&text, cairn_mem_default(), 1 << 20);
    json_t *list = json_array();
    if (cairn_io_read_file(cairn_io_memory_io(d->disk), path, &text, NULL) == CAIRN_OK) {
        const char *at = cairn_buf_str(&text);
        while (*at != '\0') {
            size_t n = strcspn(at, "\n");
            json_t *line = json_loadb(at, n, JSON_REJECT_DUPLICATES, NULL);
            assert_non_null(line);
            assert_int_equal(at[n], '\n');
            json_array_append_new(list, line);
            at += n + 1;
        }
    }
    cairn_buf_release(&text);
    return list;
}

static json_int_t number(const json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key));
}

static void a_request_is_one_line_with_all_that_a_replay_needs(void **state)
{
    (void)state;
    desk d;
    desk_init(&d);
    assert_ok(begin(&d, cairn_mem_default(), 1 << 20, NULL));
    add(&d, CAIRN_END_DONE);
    json_t *lines = lines_of(&d, "/t");
    assert_int_equal(json_array_size(lines), 2);
    const json_t *head = json_array_get(lines, 0), *line = json_array_get(lines, 1);
    assert_int_equal(number(head, "cairn"), 1);
    assert_int_equal(number(head, "state_bytes"), 5000);
    assert_int_equal(number(head, "slots"), 2);
    assert_int_equal(number(head, "ram_bytes"), 77);
    assert_true(json_real_value(json_object_get(line, "t")) == 2.5);
    const json_t *tokens = json_object_get(line, "tokens"), *answer = json_object_get(line, "answer");
    assert_int_equal(json_array_size(tokens), TOKENS);
    assert_int_equal(json_integer_value(json_array_get(tokens, 39)), 1039);
    assert_int_equal(json_array_size(answer), ANSWER);
    assert_int_equal(json_integer_value(json_array_get(answer, 0)), 7000);
    assert_int_equal(number(line, "reused"), 8);
    /* Two boundaries of one place are one entry. */
    char *text = json_dumps(json_object_get(line, "boundaries"), JSON_COMPACT);
    assert_string_equal(text, "[{\"p\":10,\"k\":[\"message\",\"system_end\"],\"r\":\"user\",\"m\":1},"
                              "{\"p\":36,\"k\":[\"opener\"],\"r\":\"assistant\",\"m\":2}]");
    free(text);
    json_decref(lines);
    desk_release(&d);
}

static void a_prompt_that_was_left_is_recorded_as_far_as_it_was_read(void **state)
{
    (void)state;
    desk d;
    desk_init(&d);
    assert_ok(begin(&d, cairn_mem_default(), 1 << 20, NULL));
    d.record.read = 12; /* 20 of 40 */
    add(&d, CAIRN_END_STOPPED);
    d.record.read = d.record.resume = 0;
    add(&d, CAIRN_END_STOPPED); /* nothing was seen of it */
    d.record.read = TOKENS;
    d.prompt.mode = CAIRN_RESUME_OFF;
    add(&d, CAIRN_END_DONE); /* the cache had nothing to do with it */
    json_t *lines = lines_of(&d, "/t");
    assert_int_equal(json_array_size(lines), 2);
    const json_t *line = json_array_get(lines, 1);
    assert_int_equal(json_array_size(json_object_get(line, "tokens")), 20);
    assert_int_equal(json_array_size(json_object_get(line, "answer")), 0);
    assert_int_equal(json_array_size(json_object_get(line, "boundaries")), 1);
    assert_string_equal(json_string_value(json_object_get(line, "end")), "stopped");
    json_decref(lines);
    desk_release(&d);
}

static void veiled_lines_hold_no_token_and_no_namespace(void **state)
{
    (void)state;
    desk d;
    uint8_t veil[CAIRN_RECORDER_KEY_BYTES] = {9};
    desk_init(&d);
    memset(d.prompt.space.bytes, 0xab, sizeof d.prompt.space.bytes);
    assert_ok(begin(&d, cairn_mem_default(), 1 << 20, veil));
    memset(veil, 0, sizeof veil); /* it was copied */
    add(&d, CAIRN_END_DONE);
    json_t *lines = lines_of(&d, "/t");
    const json_t *line = json_array_get(lines, 1);
    size_t i;
    json_t *token;
    json_array_foreach(json_object_get(line, "tokens"), i, token)
        assert_int_not_equal(json_integer_value(token), d.tokens[i]);
    json_array_foreach(json_object_get(line, "answer"), i, token)
        assert_int_not_equal(json_integer_value(token), d.answer[i]);
    assert_null(strstr(json_string_value(json_object_get(line, "ns")), "abab"));
    json_decref(lines);
    desk_release(&d);
}

static uint64_t size_of(desk *d, const char *path)
{
    cairn_io_stat stat = {0};
    return cairn_io_stat_path(d->io, path, &stat, NULL) == CAIRN_OK ? stat.size_bytes : 0;
}

static void files_turn_over_and_stay_within_the_bound(void **state)
{
    (void)state;
    enum { BOUND = 4096 };
    desk d;
    desk_init(&d);
    assert_ok(cairn_io_write_file(d.io, "/t", "old\n", 4, NULL));
    assert_ok(begin(&d, cairn_mem_default(), BOUND, NULL));
    assert_int_equal(size_of(&d, "/t.1"), 4); /* what was there is the older file now */
    for (int i = 0; i < 50; i++) {
        add(&d, CAIRN_END_DONE);
        assert_true(size_of(&d, "/t") + size_of(&d, "/t.1") <= BOUND);
    }
    json_t *one = lines_of(&d, "/t"), *two = lines_of(&d, "/t.1");
    assert_true(json_array_size(two) > 2);
    assert_int_equal(number(json_array_get(one, 0), "cairn"), 1);
    assert_int_equal(number(json_array_get(two, 0), "cairn"), 1);
    assert_int_equal(strlen(d.said), 0);
    /* One that doesn't fit is left out and told once; the next ones are recorded. */
    size_t before = json_array_size(one);
    cairn_token *large = calloc(2000, sizeof *large);
    assert_non_null(large);
    d.prompt.tokens = large;
    d.prompt.count = d.record.read = 2000;
    add(&d, CAIRN_END_DONE);
    add(&d, CAIRN_END_DONE);
    assert_non_null(strstr(d.said, "too large"));
    assert_null(strstr(strstr(d.said, "too large") + 1, "too large"));
    json_decref(one);
    one = lines_of(&d, "/t");
    assert_int_equal(json_array_size(one), before);
    free(large);
    json_decref(one);
    json_decref(two);
    desk_release(&d);
}

static void any_failing_call_ends_the_recording_and_nothing_else(void **state)
{
    (void)state;
    unsigned hits = 0;
    for (uint64_t n = 1;; n++) {
        desk d;
        desk_init(&d);
        cairn_io_faulty faulty;
        cairn_io_faulty_init(&faulty, d.io, n % 2 == 0 ? CAIRN_IO_FAULT_TORN : CAIRN_IO_FAULT_FAIL,
                             (n + 1) / 2);
        d.io = cairn_io_faulty_io(&faulty);
        cairn_status status = begin(&d, cairn_mem_default(), 4096, NULL);
        for (int i = 0; i < 20 && status == CAIRN_OK; i++)
            add(&d, CAIRN_END_DONE);
        cairn_recorder_close(d.recorder);
        d.recorder = NULL;
        json_decref(lines_of(&d, "/t")); /* lines are whole */
        json_decref(lines_of(&d, "/t.1"));
        bool hit = faulty.hits > 0;
        cairn_io_faulty_release(&faulty);
        d.io = cairn_io_memory_io(d.disk);
        desk_release(&d);
        if (!hit && n % 2 == 1)
            break;
        hits += hit;
    }
    assert_true(hits > 20);
}

static void memory_may_fail_at_any_time(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        desk d;
        desk_init(&d);
        uint8_t veil[CAIRN_RECORDER_KEY_BYTES] = {1};
        cairn_mem_test heap;
        cairn_mem_test_init(&heap, n);
        if (begin(&d, &heap.mem, 4096, veil) == CAIRN_OK)
            add(&d, CAIRN_END_DONE);
        cairn_recorder_close(d.recorder);
        d.recorder = NULL;
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        uint64_t fails = heap.fails;
        cairn_mem_test_release(&heap);
        desk_release(&d);
        if (fails == 0)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_one_line_with_all_that_a_replay_needs),
        cmocka_unit_test(a_prompt_that_was_left_is_recorded_as_far_as_it_was_read),
        cmocka_unit_test(veiled_lines_hold_no_token_and_no_namespace),
        cmocka_unit_test(files_turn_over_and_stay_within_the_bound),
        cmocka_unit_test(any_failing_call_ends_the_recording_and_nothing_else),
        cmocka_unit_test(memory_may_fail_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
