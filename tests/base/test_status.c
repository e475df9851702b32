/* Statuses, errors, assertions: base/status. */
#include "test_support.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void every_status_has_name_message_and_http(void **state)
{
    (void)state;
#define CHECK(name, code, http, message)                              \
    assert_int_equal(CAIRN_##name, code);                             \
    assert_string_equal(cairn_status_name(CAIRN_##name), #name);      \
    assert_string_equal(cairn_status_message(CAIRN_##name), message); \
    assert_int_equal(cairn_status_http(CAIRN_##name), http);          \
    assert_true((code) <= 0);
    CAIRN_STATUS_MAP(CHECK)
#undef CHECK
}

static void unknown_status_is_named_so(void **state)
{
    (void)state;
    assert_string_equal(cairn_status_name((cairn_status)-1000), "UNKNOWN");
    assert_int_equal(cairn_status_http((cairn_status)-1000), 500);
}

static void error_is_filled_and_printed(void **state)
{
    (void)state;
    cairn_error error;
    errno = EPERM;
    assert_status(cairn_error_set(&error, CAIRN_CORRUPT, "store/read: header", "magic %d", 7), CAIRN_CORRUPT);
    assert_int_equal(errno, EPERM);
    assert_int_equal(error.os_errno, 0);
    assert_true(error.offset_bytes == CAIRN_OFFSET_NONE);
    char text[200];
    cairn_error_print(&error, text, sizeof text);
    assert_string_equal(text, "store/read: header: stored bytes fail checks: magic 7");
    assert_status(cairn_error_set_at(&error, CAIRN_CORRUPT, 96, "a", NULL), CAIRN_CORRUPT);
    cairn_error_print(&error, text, sizeof text);
    assert_string_equal(text, "a: stored bytes fail checks (at byte 96)");
    cairn_error_print(&error, text, 8);
    assert_string_equal(text, "a: stor");
}

static void missing_error_only_passes_the_status(void **state)
{
    (void)state;
    assert_status(cairn_error_set(NULL, CAIRN_BUSY, "x", "y"), CAIRN_BUSY);
    assert_status(cairn_error_set_os(NULL, ENOSPC, "x", "y"), CAIRN_NOSPACE);
}

static void os_errors_become_statuses(void **state)
{
    (void)state;
    cairn_error error;
    assert_status(cairn_error_set_os(&error, ENOENT, "io", "%s", "file"), CAIRN_NOTFOUND);
    assert_int_equal(error.os_errno, ENOENT);
    assert_string_equal(error.detail, "file: No such file or directory");
    assert_status(cairn_error_set_os(&error, EEXIST, "io", NULL), CAIRN_EXISTS);
    assert_string_equal(error.detail, "File exists");
    assert_status(cairn_error_set_os(&error, EDQUOT, "io", NULL), CAIRN_NOSPACE);
    assert_status(cairn_error_set_os(&error, ENOMEM, "io", NULL), CAIRN_NOMEM);
    assert_status(cairn_error_set_os(&error, EIO, "io", NULL), CAIRN_IO);
}

static void long_detail_is_cut_between_characters(void **state)
{
    (void)state;
    /* Each letter takes two bytes; the limit falls into the middle of one for one of the two starts. */
    char text[400];
    for (size_t start = 0; start < 2; start++) {
        text[0] = 'x';
        for (size_t i = 0; i < 150; i++) {
            memcpy(text + start + 2 * i, "\xc3\xa4", 2);
        }
        text[start + 300] = '\0';
        cairn_error error;
        assert_status(cairn_error_set(&error, CAIRN_IO, "a", "%s", text), CAIRN_IO);
        size_t len = strlen(error.detail);
        assert_true(len == CAIRN_ERROR_DETAIL_BYTES - 1 || len == CAIRN_ERROR_DETAIL_BYTES - 2);
        assert_int_equal((len - start) % 2, 0);
        assert_memory_equal(error.detail, text, len);
    }
}

static void false_expectation_is_counted_and_gives_false(void **state)
{
    (void)state;
    uint64_t before = cairn_expect_failures();
    assert_false(cairn_expect_failed("file.c", 1, "x", false));
    assert_int_equal(cairn_expect_failures(), before + 1);
    assert_true(CAIRN_EXPECT(before + 1 > 0));
    assert_int_equal(cairn_expect_failures(), before + 1);
}

/* Runs `what` in a child and gives the signal that ended it. */
static int signal_of(void (*what)(void))
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)freopen("/dev/null", "w", stderr);
        /* Not cmocka's handler: it would report the child's end as this test's. */
        struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)sigaction(SIGABRT, &usual, NULL);
        what();
        _exit(0);
    }
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void assert_false_thing(void)
{
    CAIRN_ASSERT(errno == -1);
}

static void assert_true_thing(void)
{
    CAIRN_ASSERT(errno != -1);
}

static void expect_false_thing(void)
{
    (void)cairn_expect_failed("file.c", 1, "x", true);
}

static void false_assertion_ends_the_process(void **state)
{
    (void)state;
    assert_int_equal(signal_of(assert_true_thing), 0);
    assert_int_equal(signal_of(assert_false_thing), SIGABRT);
    assert_int_equal(signal_of(expect_false_thing), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_name_message_and_http),
        cmocka_unit_test(unknown_status_is_named_so),
        cmocka_unit_test(error_is_filled_and_printed),
        cmocka_unit_test(missing_error_only_passes_the_status),
        cmocka_unit_test(os_errors_become_statuses),
        cmocka_unit_test(long_detail_is_cut_between_characters),
        cmocka_unit_test(false_expectation_is_counted_and_gives_false),
        cmocka_unit_test(false_assertion_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
