/*
 * Options from the command line and the environment.
 */
#include "test_support.h"

#include "cli/options.h"

static const char *file;
static int64_t port;
static uint64_t room;
static bool quiet;
static int mode;

static const cairn_option table[] = {
    {.kind = CAIRN_OPTION_HEAD, .name = "things"},
    {.kind = CAIRN_OPTION_TEXT,
     .name = "test-file",
     .letter = 'f',
     .value = &file,
     .arg = "FILE",
     .help = "a file"},
    {.kind = CAIRN_OPTION_INT,
     .name = "test-port",
     .value = &port,
     .arg = "N",
     .min = 0,
     .max = 100,
     .help = "a port"},
    {.kind = CAIRN_OPTION_BYTES,
     .name = "test-room",
     .value = &room,
     .arg = "SIZE",
     .whole = 1000,
     .help = "room"},
    {.kind = CAIRN_OPTION_FLAG, .name = "test-quiet", .letter = 'q', .value = &quiet, .help = "say less"},
    {.kind = CAIRN_OPTION_WORD,
     .name = "test-mode",
     .value = &mode,
     .arg = "a|bc",
     .words = "a|bc",
     .help = "one of two"},
};
static const cairn_option_set set = {
    .usage = "test", .about = "about", .options = table, .count = sizeof table / sizeof table[0]};

static char problem[256];
static const char *rest[3];

#define READ(...) read_list((const char *[]){"test", __VA_ARGS__, NULL})

static cairn_options_result read_list(const char **argv)
{
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    file = NULL;
    port = -1;
    room = 0;
    quiet = false;
    mode = -1;
    problem[0] = '\0';
    return cairn_options_read(&set, argc, argv, rest, 3, problem);
}

static int clean(void **state)
{
    (void)state;
    unsetenv("CAIRN_TEST_PORT");
    unsetenv("CAIRN_TEST_QUIET");
    unsetenv("CAIRN_TEST_MODE");
    return 0;
}

static void every_kind_is_read(void **state)
{
    (void)state;
    assert_int_equal(
        READ("-f", "x.gguf", "--test-port", "7", "--test-room=25%", "-q", "--test-mode", "bc", "more"),
        CAIRN_OPTIONS_OK);
    assert_string_equal(file, "x.gguf");
    assert_int_equal(port, 7);
    assert_int_equal(room, 250);
    assert_true(quiet);
    assert_int_equal(mode, 1);
    assert_string_equal(rest[0], "more");
    assert_null(rest[1]);
}

static void the_environment_counts_and_the_command_line_wins(void **state)
{
    (void)state;
    setenv("CAIRN_TEST_PORT", "5", 1);
    setenv("CAIRN_TEST_QUIET", "1", 1);
    assert_int_equal(READ("-f", "x"), CAIRN_OPTIONS_OK);
    assert_int_equal(port, 5);
    assert_true(quiet);
    assert_int_equal(READ("-f", "x", "--test-port", "6"), CAIRN_OPTIONS_OK);
    assert_int_equal(port, 6);
    setenv("CAIRN_TEST_QUIET", "0", 1);
    assert_int_equal(READ("-f", "x"), CAIRN_OPTIONS_OK);
    assert_false(quiet);
    setenv("CAIRN_TEST_PORT", "", 1); /* as if it were not set */
    assert_int_equal(READ("-f", "x"), CAIRN_OPTIONS_OK);
    assert_int_equal(port, -1);
}

static void mistakes_name_the_option_as_it_was_written(void **state)
{
    (void)state;
    assert_int_equal(READ("--test-port", "101"), CAIRN_OPTIONS_WRONG);
    assert_non_null(strstr(problem, "--test-port 101"));
    assert_int_equal(READ("--test-port", "x"), CAIRN_OPTIONS_WRONG);
    assert_int_equal(READ("--test-room", "many"), CAIRN_OPTIONS_WRONG);
    assert_non_null(strstr(problem, "512M"));
    assert_int_equal(READ("--test-mode", "b"), CAIRN_OPTIONS_WRONG);
    assert_non_null(strstr(problem, "a|bc"));
    assert_int_equal(READ("--test-colour"), CAIRN_OPTIONS_WRONG);
    assert_non_null(strstr(problem, "--test-colour"));
    assert_int_equal(READ("--test-port"), CAIRN_OPTIONS_WRONG);
    assert_int_equal(READ("a", "b", "c"), CAIRN_OPTIONS_WRONG);
    setenv("CAIRN_TEST_MODE", "z", 1);
    assert_int_equal(READ("-q"), CAIRN_OPTIONS_WRONG);
    assert_non_null(strstr(problem, "CAIRN_TEST_MODE z"));
}

static void help_wins_over_a_broken_environment(void **state)
{
    (void)state;
    setenv("CAIRN_TEST_MODE", "z", 1);
    assert_int_equal(READ("--help"), CAIRN_OPTIONS_HELP);
    assert_int_equal(READ("-h"), CAIRN_OPTIONS_HELP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_kind_is_read, clean),
        cmocka_unit_test_setup(the_environment_counts_and_the_command_line_wins, clean),
        cmocka_unit_test_setup(mistakes_name_the_option_as_it_was_written, clean),
        cmocka_unit_test_setup(help_wins_over_a_broken_environment, clean),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
