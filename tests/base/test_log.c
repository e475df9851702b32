/* Log lines and trace lines: base/log and base/trace. */
#include "test_support.h"

#include <pthread.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem_test.h"
#include "base/trace.h"

static void collect(void *ctx, const char *line, size_t len_bytes)
{
    assert_ok(cairn_buf_append((cairn_buf *)ctx, line, len_bytes));
}

static void lines_carry_time_level_and_event(void **state)
{
    (void)state;
    cairn_clock_virtual clock;
    cairn_clock_virtual_init(&clock, 0);
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 10000);
    cairn_log log;
    cairn_log_init(&log, CAIRN_LOG_LEVEL_INFO, CAIRN_FIELD_FORMAT_TEXT, &clock.clock, collect, &out);
    CAIRN_LOG(&log, INFO, "request", CAIRN_FIELD_UINT("prompt", 3841), CAIRN_FIELD_STR("tier", "ram"));
    cairn_clock_virtual_advance(&clock, 1500000000);
    CAIRN_LOG(&log, WARN, "tier_full", CAIRN_FIELD_BOOL("ok", false));
    CAIRN_LOG(&log, DEBUG, "hidden", CAIRN_FIELD_INT("x", 1));
    assert_string_equal(cairn_buf_str(&out), "1970-01-01T00:00:00.000Z info request prompt=3841 tier=ram\n"
                                             "1970-01-01T00:00:01.500Z warn tier_full ok=false\n");
    cairn_buf_reset(&out);
    cairn_log_set_level(&log, CAIRN_LOG_LEVEL_OFF);
    CAIRN_LOG(&log, ERROR, "hidden", CAIRN_FIELD_INT("x", 1));
    assert_string_equal(cairn_buf_str(&out), "");
    cairn_log_release(&log);
    cairn_buf_release(&out);
}

static void missing_log_is_silent(void **state)
{
    (void)state;
    CAIRN_LOG((cairn_log *)NULL, ERROR, "nowhere", CAIRN_FIELD_INT("x", 1));
    cairn_log_event(NULL, CAIRN_LOG_LEVEL_ERROR, "nowhere", NULL, 0);
    CAIRN_TRACE((cairn_trace *)NULL, "nowhere", CAIRN_FIELD_INT("x", 1));
    assert_false(cairn_log_wants(NULL, CAIRN_LOG_LEVEL_ERROR));
}

static void errors_become_lines(void **state)
{
    (void)state;
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 10000);
    cairn_log log;
    cairn_log_init(&log, CAIRN_LOG_LEVEL_DEBUG, CAIRN_FIELD_FORMAT_JSON, NULL, collect, &out);
    cairn_error error;
    assert_status(cairn_error_set_at(&error, CAIRN_CORRUPT, 12, "store/read", "magic"), CAIRN_CORRUPT);
    cairn_log_error(&log, CAIRN_LOG_LEVEL_ERROR, "blob", &error);
    assert_string_equal(
        cairn_buf_str(&out),
        "{\"level\":\"error\",\"event\":\"blob\",\"status\":\"CORRUPT\",\"where\":\"store/read\","
        "\"message\":\"stored bytes fail checks\",\"detail\":\"magic\",\"offset\":12}\n");
    cairn_log_release(&log);
    cairn_buf_release(&out);
}

static void levels_are_read_by_name(void **state)
{
    (void)state;
    for (int i = CAIRN_LOG_LEVEL_DEBUG; i <= CAIRN_LOG_LEVEL_OFF; i++) {
        cairn_log_level level = CAIRN_LOG_LEVEL_OFF;
        assert_ok(cairn_log_level_parse(cairn_log_level_name((cairn_log_level)i), &level));
        assert_int_equal(level, i);
    }
    cairn_log_level level;
    assert_status(cairn_log_level_parse("loud", &level), CAIRN_INVALID);
}

static void *write_many(void *ctx)
{
    for (int i = 0; i < 500; i++) {
        CAIRN_LOG((cairn_log *)ctx, INFO, "line",
                  CAIRN_FIELD_STR("text", "0123456789012345678901234567890123456789"));
    }
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
    cairn_log log;
    cairn_log_init(&log, CAIRN_LOG_LEVEL_INFO, CAIRN_FIELD_FORMAT_TEXT, NULL, collect, &out);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &log), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    static const char line[] = "info line text=0123456789012345678901234567890123456789\n";
    assert_int_equal(out.len_bytes, 4 * 500 * (sizeof line - 1));
    for (size_t at = 0; at < out.len_bytes; at += sizeof line - 1) {
        assert_memory_equal(out.bytes + at, line, sizeof line - 1);
    }
    cairn_log_release(&log);
    cairn_buf_release(&out);
}

static cairn_status collect_trace(void *ctx, const char *line, size_t len_bytes)
{
    return cairn_buf_append((cairn_buf *)ctx, line, len_bytes);
}

static void same_events_give_the_same_digest(void **state)
{
    (void)state;
    uint64_t digests[3];
    for (int run = 0; run < 3; run++) {
        cairn_buf out;
        cairn_buf_init(&out, cairn_mem_default(), 1000);
        cairn_trace trace;
        assert_ok(cairn_trace_init(&trace, cairn_mem_default(), collect_trace, &out));
        CAIRN_TRACE(&trace, "plan", CAIRN_FIELD_UINT("resume", 512), CAIRN_FIELD_STR("tier", "slot"));
        CAIRN_TRACE(&trace, "plan", CAIRN_FIELD_UINT("resume", run == 2 ? 1 : 0));
        assert_int_equal(trace.events, 2);
        if (run == 0) {
            assert_string_equal(cairn_buf_str(&out), "{\"event\":\"plan\",\"resume\":512,\"tier\":\"slot\"}\n"
                                                     "{\"event\":\"plan\",\"resume\":0}\n");
        }
        digests[run] = trace.digest;
        cairn_trace_release(&trace);
        cairn_buf_release(&out);
    }
    assert_true(digests[0] == digests[1]);
    assert_true(digests[0] != digests[2]);
}

static void failing_trace_keeps_the_digest_going(void **state)
{
    (void)state;
    cairn_buf full;
    cairn_buf_init(&full, cairn_mem_default(), 1);
    cairn_trace trace;
    assert_ok(cairn_trace_init(&trace, cairn_mem_default(), collect_trace, &full));
    CAIRN_TRACE(&trace, "a", CAIRN_FIELD_INT("x", 1));
    assert_status(trace.failed, CAIRN_LIMIT);
    uint64_t before = trace.digest;
    CAIRN_TRACE(&trace, "b", CAIRN_FIELD_INT("x", 1));
    assert_true(trace.digest != before);
    cairn_trace_release(&trace);
    cairn_buf_release(&full);
    cairn_mem_test heap;
    cairn_mem_test_init(&heap, 1);
    assert_status(cairn_trace_init(&trace, &heap.mem, NULL, NULL), CAIRN_NOMEM);
    cairn_mem_test_release(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_carry_time_level_and_event),
        cmocka_unit_test(missing_log_is_silent),
        cmocka_unit_test(errors_become_lines),
        cmocka_unit_test(levels_are_read_by_name),
        cmocka_unit_test(lines_of_threads_do_not_mix),
        cmocka_unit_test(same_events_give_the_same_digest),
        cmocka_unit_test(failing_trace_keeps_the_digest_going),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
