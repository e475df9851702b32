/* The prior: counts land where a person would put them, and the committed table is what the committed traces give. */
#include "sim_support.h"

#include "sim/prior.h"
#include "sim/trace_file.h"

static void a_parting_is_told_by_class_and_distance(void **state)
{
    (void)state;
    cairn_token tokens[200];
    const uint32_t starts[] = {50, 100, 150, 0};
    cairn_workload w;
    cairn_workload_init(&w, cairn_mem_default(), "prior");
    sim_fill(tokens, 200, 1);
    sim_add(&w, 0, tokens, 190, 0, starts);
    sim_add(&w, 0, tokens, 200, 0, starts); /* extends all of it: at its tip */
    tokens[120] = 5;
    sim_add(&w, 0, tokens, 200, 0, starts); /* in the second of three messages */
    tokens[60] = 5;
    sim_add(&w, 0, tokens, 200, 0, starts); /* right behind the system text */
    tokens[0] = 5;
    sim_add(&w, 0, tokens, 200, 0, starts); /* shares nothing */
    cairn_prior prior = {0};
    assert_ok(cairn_prior_count(&prior, &w, NULL));
    assert_int_equal(prior.total, 3);
    assert_int_equal(prior.counts[CAIRN_CLASS_TIP][0], 1);
    assert_int_equal(prior.counts[CAIRN_CLASS_USER][1], 1);
    assert_int_equal(prior.counts[CAIRN_CLASS_ANCHOR][2], 1);
    cairn_workload_release(&w);
}

static void the_committed_table_is_made_from_the_committed_traces(void **state)
{
    (void)state;
    /* In the order of the shell's traces/ *.jsonl.zst; sums don't depend on it. */
    const char *const names[] = {"claude", "codex", "mixed", "opencode", "qwen", "sdk"};
    cairn_prior prior = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/traces/%s.jsonl.zst", CAIRN_SOURCE_DIR, names[i]);
        cairn_workload w;
        assert_ok(cairn_trace_file_read(cairn_mem_default(), path, &w, NULL));
        assert_ok(cairn_prior_count(&prior, &w, NULL));
        cairn_workload_release(&w);
    }
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_prior_write(&prior, &out));
    FILE *file = fopen(CAIRN_SOURCE_DIR "/src/core/divergence_prior.inc", "rb");
    assert_non_null(file);
    static char text[8192];
    size_t got = fread(text, 1, sizeof text - 1, file);
    text[got] = '\0';
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, cairn_buf_str(&out));
    cairn_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parting_is_told_by_class_and_distance),
        cmocka_unit_test(the_committed_table_is_made_from_the_committed_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
