/*
 * What is counted is what is printed, in the shape that Prometheus reads.
 */
#include "test_support.h"

#include <ctype.h>

#include "serve/metrics.h"

static cairn_metrics metrics;
static cairn_buf text;

static void print(void)
{
    cairn_buf_init(&text, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_metrics_print(&metrics, &text));
}

static void has(const char *line)
{
    if (strstr(cairn_buf_str(&text), line) == NULL)
        fail_msg("missing: %s", line);
}

static void requests_and_tokens_are_counted(void **state)
{
    (void)state;
    cairn_metrics_init(&metrics);
    cairn_record record = {.prompt_tokens = 100,
                           .resume = 60,
                           .read = 40,
                           .least = 30,
                           .source = CAIRN_SOURCE_RAM,
                           .reason = CAIRN_REASON_EVICTED,
                           .states_taken = 2};
    cairn_request_times times = {
        .queue_ns = 1000000, .prompt_ns = 30000000, .answer_ns = 90000000, .answer_tokens = 10};
    cairn_metrics_request(&metrics, CAIRN_END_DONE, &record, &times);
    cairn_metrics_request(&metrics, CAIRN_END_STOPPED, &record, &times);
    cairn_metrics_response(&metrics, 200);
    cairn_metrics_disconnect(&metrics);
    cairn_metrics_load(&metrics, 3, 1);
    const cairn_answers_stats answers = {.kept = 4, .bytes = 5000, .bytes_max = 9000, .evicted = 6};
    cairn_metrics_answers(&metrics, 2, &answers);
    cairn_metrics_answers(&metrics, 1, &answers);
    cairn_metrics_replies(&metrics,
                          &(cairn_replies_stats){.kept = 2, .bytes = 700, .bytes_max = 800, .evicted = 5});
    print();
    has("cairn_responses_kept 2\n");
    has("cairn_responses_bytes 700\n");
    has("cairn_responses_limit_bytes 800\n");
    has("cairn_responses_evicted_total 5\n");
    has("cairn_answers_recalled_total 3\n");
    has("cairn_answers_kept 4\n");
    has("cairn_answers_bytes 5000\n");
    has("cairn_answers_limit_bytes 9000\n");
    has("cairn_answers_evicted_total 6\n");
    has("cairn_requests_total{ending=\"done\"} 1\n");
    has("cairn_requests_total{ending=\"stopped\"} 1\n");
    has("cairn_resumes_total{tier=\"ram\",reason=\"evicted\"} 2\n");
    has("cairn_prompt_tokens_total 200\n");
    has("cairn_prompt_tokens_read_total 80\n");
    has("cairn_prompt_tokens_reused_total 120\n");
    has("cairn_prompt_tokens_least_total 60\n");
    has("cairn_http_responses_total{code=\"200\"} 1\n");
    has("cairn_queue_requests 3\n");
    has("cairn_prompt_seconds_bucket{le=\"0.025\"} 0\n");
    has("cairn_prompt_seconds_bucket{le=\"0.05\"} 2\n");
    has("cairn_prompt_seconds_bucket{le=\"+Inf\"} 2\n");
    has("cairn_prompt_seconds_count 2\n");
    has("cairn_token_seconds_count 18\n");
    cairn_buf_release(&text);
    cairn_metrics_release(&metrics);
}

/* Every line is a comment or a sample of a family that was announced just before, with help and type. */
static void every_sample_belongs_to_an_announced_family(void **state)
{
    (void)state;
    cairn_metrics_init(&metrics);
    metrics.version = "1";
    metrics.build = "with \"quotes\" and \\ and \n line";
    metrics.model = "m";
    cairn_metrics_response(&metrics, 404);
    print();
    has("engine=\"with \\\"quotes\\\" and \\\\ and   line\"");
    char family[128] = "", kind[16] = "";
    char *save = NULL;
    for (char *line = strtok_r((char *)text.bytes, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char name[128];
        if (sscanf(line, "# HELP %127s", name) == 1) {
            assert_string_not_equal(name, family);
            (void)snprintf(family, sizeof family, "%s", name);
            assert_true(strlen(line) > strlen("# HELP ") + strlen(name) + 5);
            kind[0] = '\0';
        } else if (sscanf(line, "# TYPE %127s %15s", name, kind) == 2) {
            assert_string_equal(name, family);
            size_t n = strlen(name);
            bool total = n > 6 && strcmp(name + n - 6, "_total") == 0;
            assert_int_equal(strcmp(kind, "counter") == 0, total);
        } else {
            assert_true(kind[0] != '\0');
            assert_memory_equal(line, family, strlen(family));
            assert_true(isdigit((unsigned char)line[strlen(line) - 1]) != 0);
        }
    }
    cairn_buf_release(&text);
    cairn_metrics_release(&metrics);
}

static void what_a_request_leaves_to_be_written_waits_from_its_end_on(void **state)
{
    (void)state;
    const cairn_cache_disk_stats disk = {.bytes_max = 1000};
    const cairn_cache_shared_stats shared = {.on = true};
    const cairn_record record = {.prompt_tokens = 100, .read = 100};
    const cairn_request_times times = {.answer_tokens = 1};
    cairn_metrics_init(&metrics);
    for (int there = 0; there < 2; there++) {
        print();
        assert_null(
            strstr(cairn_buf_str(&text), "_waiting 1\n")); /* without lower tiers nothing ever waits */
        cairn_buf_release(&text);
        if (there == 1) {
            cairn_metrics_disk(&metrics, &disk);
            cairn_metrics_shared(&metrics, &shared);
        }
        cairn_metrics_request(&metrics, CAIRN_END_DONE, &record, &times);
    }
    print();
    has("cairn_disk_waiting 1\n");
    has("cairn_shared_waiting 1\n");
    cairn_buf_release(&text);
    cairn_metrics_release(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_and_tokens_are_counted),
        cmocka_unit_test(every_sample_belongs_to_an_announced_family),
        cmocka_unit_test(what_a_request_leaves_to_be_written_waits_from_its_end_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
