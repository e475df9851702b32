/* The command: tables, JSON, plots; bad arguments and bad input end with exit code 2 and a reason. */
#include "sim_support.h"

#include <jansson.h>
#include <unistd.h>

#include "sim/report.h"
#include "sim/simulate.h"

static char folder[200];
static char text_out[1 << 16];
static char text_err[4096];

static void slurp(FILE *file, char *text, size_t room)
{
    rewind(file);
    size_t got = fread(text, 1, room - 1, file);
    text[got] = '\0';
    assert_int_equal(fclose(file), 0);
}

static int command(const char *const *args)
{
    char *argv[16] = {(char *)(uintptr_t) "simulate"};
    int argc = 1;
    for (; args[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
    }
    FILE *out = tmpfile();
    FILE *err = tmpfile();
    assert_non_null(out);
    assert_non_null(err);
    int code = cairn_simulate_main(argc, argv, out, err);
    slurp(out, text_out, sizeof text_out);
    slurp(err, text_err, sizeof text_err);
    return code;
}

#define COMMAND(...) command((const char *const[]){__VA_ARGS__, NULL})

static void losses_are_listed_with_their_cause_and_summed(void **state)
{
    (void)state;
    assert_int_equal(
        COMMAND("--scenario", "clock", "--policy", "cairn", "--budget", "64states", "--losses", "1"), 0);
    uint64_t listed = 0;
    uint64_t summed = 0;
    unsigned long long taken = 0, used = 0;
    for (const char *line = text_out; *line != '\0'; line = strchr(line, '\n') + 1) {
        char name[32], kind[32], word[32];
        unsigned long long no, prompt, parted, reused, lost;
        if (sscanf(line, "%31s %llu %31s %llu %llu %llu %llu", name, &no, kind, &prompt, &parted, &reused,
                   &lost) == 7) {
            assert_int_equal(parted - reused, lost);
            listed += lost;
        } else if (sscanf(line, "%31s %31s %31s %llu requests %llu tokens", name, kind, word, &no, &lost) ==
                   5) {
            summed += lost;
        } else {
            (void)sscanf(line, "%31s states %llu taken, %llu of them used", name, &taken, &used);
        }
    }
    assert_true(used > 0 && used <= taken);
    assert_true(listed > 0);
    assert_int_equal(listed, summed);
    assert_int_equal(COMMAND("--scenario", "clock", "--losses", "1", "--json"), 2);
    assert_int_equal(COMMAND("--scenario", "clock", "--losses", "0"), 2);
}

static void bad_arguments_end_with_2_and_a_reason(void **state)
{
    (void)state;
    assert_int_equal(command((const char *const[]){NULL}), 2);
    assert_non_null(strstr(text_err, "cairn: nothing to replay"));
    assert_non_null(strstr(text_err, "cairn simulate --help"));
    assert_int_equal(COMMAND("--scenario", "nonsense"), 2);
    assert_non_null(strstr(text_err, "no such scenario: nonsense"));
    assert_int_equal(COMMAND("--scenario", "reviewer", "--policy", "magic"), 2);
    assert_non_null(strstr(text_err, "no such policy: magic"));
    assert_int_equal(COMMAND("--scenario", "reviewer", "--budget", "12parsecs"), 2);
    assert_int_equal(COMMAND("--scenario", "reviewer", "--budget", "120%"), 2);
    assert_int_equal(COMMAND("--scenario", "reviewer", "--model-profile", "x"), 2);
    assert_int_equal(COMMAND("--scenario", "reviewer", "--slots", "0"), 2);
    assert_int_equal(COMMAND("--scenario", "reviewer", "--seed"), 2);
    assert_int_equal(COMMAND("--frobnicate=1"), 2);
    assert_int_equal(COMMAND("/nonexistent.jsonl"), 2);
    assert_non_null(strstr(text_err, "cairn: /nonexistent.jsonl: "));
    assert_int_equal(strlen(text_out), 0);
}

static void a_bad_trace_line_ends_with_2_and_its_number(void **state)
{
    (void)state;
    char path[256];
    (void)snprintf(path, sizeof path, "%s/bad.jsonl", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs("{\"t\":0,\"tokens\":[1,2]}\n{\"t\":1,\"tokens\":[1,-2]}\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(COMMAND(path), 2);
    assert_non_null(strstr(text_err, "bad.jsonl:2: "));
    (void)remove(path);
}

static void a_table_has_a_line_for_each_run(void **state)
{
    (void)state;
    assert_int_equal(
        COMMAND("--scenario", "reviewer,clock", "--policy", "perfect,swiftlm", "--budget", "8states,1G"), 0);
    uint32_t lines = 0;
    for (const char *c = text_out; *c != '\0'; c++) {
        lines += *c == '\n' ? 1 : 0;
    }
    assert_int_equal(lines, 1 + 8);
    assert_non_null(strstr(text_out, "reviewer"));
    assert_non_null(strstr(text_out, "1 GiB"));
}

static void json_holds_what_the_table_says(void **state)
{
    (void)state;
    assert_int_equal(COMMAND("--scenario=reviewer", "--policy=swiftlm", "--budget=64states", "--json"), 0);
    json_error_t at;
    json_t *root = json_loads(text_out, 0, &at);
    assert_non_null(root);
    const json_t *result = json_array_get(json_object_get(root, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(result, "traffic")), "reviewer");
    assert_int_equal(json_integer_value(json_object_get(result, "tokens_prompt")), 2 * 6273);
    assert_int_equal(json_integer_value(json_object_get(result, "tokens_read")), 2 * 6273 - 3148);
    assert_int_equal(json_integer_value(json_object_get(result, "budget_bytes")), 64 * 65863680LL);
    json_decref(root);
}

static void a_plot_is_an_svg_with_a_line_for_each_rule(void **state)
{
    (void)state;
    char path[256];
    (void)snprintf(path, sizeof path, "%s/plot.svg", folder);
    assert_int_equal(COMMAND("--scenario", "reviewer", "--policy", "perfect,swiftlm,lru", "--budget",
                             "8states,16states", "--plot", path),
                     0);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char svg[1 << 16];
    slurp(file, svg, sizeof svg);
    assert_memory_equal(svg, "<svg ", 5);
    uint32_t curves = 0;
    for (const char *c = svg; (c = strstr(c, "<polyline")) != NULL; c++) {
        curves++;
    }
    assert_int_equal(curves, 3);
    assert_non_null(strstr(svg, "</svg>"));
    (void)remove(path);
    assert_int_equal(COMMAND("--scenario", "reviewer", "--policy", "lru", "--plot", "/nonexistent/plot.svg"),
                     1);
}

static void help_names_everything(void **state)
{
    (void)state;
    assert_int_equal(COMMAND("--help"), 0);
    assert_non_null(strstr(text_out, "five-observations"));
    assert_non_null(strstr(text_out, "llama.cpp-tuned"));
    assert_non_null(strstr(text_out, "nemotron-3-nano"));
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/simulate_test_XXXXXX", CAIRN_BUILD_DIR);
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_arguments_end_with_2_and_a_reason),
        cmocka_unit_test(losses_are_listed_with_their_cause_and_summed),
        cmocka_unit_test(a_bad_trace_line_ends_with_2_and_its_number),
        cmocka_unit_test(a_table_has_a_line_for_each_run),
        cmocka_unit_test(json_holds_what_the_table_says),
        cmocka_unit_test(a_plot_is_an_svg_with_a_line_for_each_rule),
        cmocka_unit_test(help_names_everything),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
