/* Recorded traces: all committed files are read, shapes render alike, bad lines are refused with file and number. */
#include "sim_support.h"

#include <unistd.h>

#include "sim/trace_file.h"

static char path[256];

static void write_lines(const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static cairn_status read_lines(const char *text, cairn_workload *w, cairn_error *error)
{
    write_lines(text);
    return cairn_trace_file_read(cairn_mem_default(), path, w, error);
}

static void refused(const char *text, const char *message)
{
    cairn_workload w;
    cairn_error error = {0};
    assert_status(read_lines(text, &w, &error), CAIRN_INVALID);
    if (strstr(error.detail, message) == NULL) {
        fail_msg("\"%s\" does not contain \"%s\"", error.detail, message);
    }
    cairn_workload_release(&w);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "%s/trace_test_%ld.jsonl", CAIRN_BUILD_DIR, (long)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)remove(path);
    return 0;
}

static void every_committed_trace_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t requests; /* lines less count_tokens and errors */
    } files[] = {{"claude", 120}, {"codex", 68}, {"mixed", 60}, {"opencode", 78}, {"qwen", 89}, {"sdk", 96}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char name[256];
        (void)snprintf(name, sizeof name, "%s/traces/%s.jsonl.zst", CAIRN_SOURCE_DIR, files[i].name);
        cairn_workload w;
        cairn_error error = {0};
        assert_ok(cairn_trace_file_read(cairn_mem_default(), name, &w, &error));
        assert_string_equal(w.name, files[i].name);
        assert_true(w.recorded);
        assert_int_equal(w.count_requests, files[i].requests);
        assert_ok(cairn_workload_verify(&w, &error));
        cairn_workload_release(&w);
    }
}

/* The same conversation in the three shapes is the same prompt. */
static void the_three_apis_render_alike(void **state)
{
    (void)state;
    const char *text =
        "{\"t\":0,\"path\":\"/v1/chat/"
        "completions\",\"session\":\"a\",\"body\":{\"messages\":[{\"role\":\"system\","
        "\"content\":\"Be brief\"},{\"role\":\"user\",\"content\":\"hello "
        "there\"},{\"role\":\"assistant\",\"content\":"
        "\"hi\",\"reasoning_content\":\"well\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"more\"}]}]}}\n"
        "{\"t\":1,\"path\":\"/v1/messages\",\"session\":\"b\",\"body\":{\"system\":\"Be "
        "brief\",\"messages\":[{\"role\":"
        "\"user\",\"content\":\"hello "
        "there\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
        "\"well\",\"signature\":\"x\"},{\"type\":\"text\",\"text\":\"hi\"}]},{\"role\":\"user\",\"content\":"
        "\"more\"}]}}\n"
        "{\"t\":2,\"path\":\"/v1/responses\",\"session\":\"c\",\"body\":{\"instructions\":\"Be "
        "brief\",\"input\":[{\"type\":"
        "\"message\",\"role\":\"user\",\"content\":\"hello "
        "there\"},{\"type\":\"reasoning\",\"id\":\"r1\",\"summary\":[{"
        "\"type\":\"summary_text\",\"text\":\"well\"}],\"content\":null},{\"type\":\"message\",\"role\":"
        "\"assistant\","
        "\"content\":[{\"type\":\"output_text\",\"text\":\"hi\"}]},{\"role\":\"user\",\"content\":\"more\"}]}"
        "}\n";
    cairn_workload w;
    cairn_error error = {0};
    assert_ok(read_lines(text, &w, &error));
    assert_int_equal(w.count_requests, 3);
    assert_int_equal(w.requests[1].node_prompt, w.requests[0].node_prompt);
    assert_int_equal(w.requests[2].node_prompt, w.requests[0].node_prompt);
    assert_int_equal(w.count_sessions, 3);
    cairn_workload_release(&w);
}

static void an_answer_that_comes_back_as_it_was_extends_the_path(void **state)
{
    (void)state;
    const char *text =
        "{\"t\":0,\"path\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"one\"}]},"
        "\"resp\":{\"role\":\"assistant\",\"content\":\"two\",\"reasoning_content\":\"hm\"}}\n"
        "{\"t\":1,\"path\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"one\"},{"
        "\"role\":\"assistant\",\"content\":\"two\",\"reasoning_content\":\"hm\"},{\"role\":\"user\","
        "\"content\":\"three\"}]}}\n"
        "{\"t\":2,\"path\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"one\"},{"
        "\"role\":\"assistant\",\"content\":\"two\"},{\"role\":\"user\",\"content\":\"three\"}]}}\n";
    cairn_workload w;
    cairn_error error = {0};
    assert_ok(read_lines(text, &w, &error));
    const cairn_workload_request *first = &w.requests[0];
    uint32_t whole = first->prompt_tokens + first->answer_tokens;
    assert_int_equal(cairn_workload_common(&w, first->node_answer, w.requests[1].node_prompt), whole);
    /* Without its reasoning it parts right behind the opener. */
    assert_int_equal(cairn_workload_common(&w, first->node_answer, w.requests[2].node_prompt),
                     first->prompt_tokens);
    cairn_workload_release(&w);
}

static void a_response_continues_the_one_it_names(void **state)
{
    (void)state;
    const char *text =
        "{\"t\":0,\"path\":\"/v1/"
        "responses\",\"session\":\"s\",\"body\":{\"input\":\"one\"},\"resp\":[{\"type\":\"message\","
        "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"two\"}]}]}\n"
        "{\"t\":1,\"path\":\"/v1/"
        "responses\",\"session\":\"s\",\"body\":{\"input\":\"three\",\"previous_response_id\":\"r\"}}\n";
    cairn_workload w;
    cairn_error error = {0};
    assert_ok(read_lines(text, &w, &error));
    const cairn_workload_request *first = &w.requests[0];
    assert_int_equal(cairn_workload_common(&w, first->node_answer, w.requests[1].node_prompt),
                     first->prompt_tokens + first->answer_tokens);
    cairn_workload_release(&w);
}

static void requests_that_no_server_would_read_are_left_out(void **state)
{
    (void)state;
    const char *text =
        "{\"t\":0,\"path\":\"/v1/"
        "messages\",\"kind\":\"count\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}}\n"
        "{\"t\":0,\"path\":\"/v1/"
        "messages\",\"status\":429,\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}}\n"
        "{\"t\":0,\"path\":\"/v1/"
        "messages\",\"status\":200,\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}}\n";
    cairn_workload w;
    assert_ok(read_lines(text, &w, NULL));
    assert_int_equal(w.count_requests, 1);
    cairn_workload_release(&w);
}

static void a_server_s_own_trace_is_read(void **state)
{
    (void)state;
    const char *text = "{\"t\":0.5,\"ns\":\"a\",\"session\":\"x\",\"tokens\":[1,2,3,4,5],\"boundaries\":[{"
                       "\"p\":0,\"k\":[\"message\"],\"r\":"
                       "\"system\",\"m\":0},{\"p\":2,\"k\":[\"message\",\"system_end\",\"last_user\"],\"r\":"
                       "\"user\",\"m\":1},{\"p\":4,\"k\":"
                       "[\"opener\"],\"m\":2}],\"answer\":[6,7]}\n"
                       "\n"
                       "{\"t\":1,\"ns\":\"b\",\"session\":\"x\",\"tokens\":[1,2,3]}\n"
                       "{\"t\":2,\"ns\":\"a\",\"hashes\":[9,10,11],\"block\":16,\"count\":40}\n"
                       "{\"t\":3,\"ns\":\"a\",\"hashes\":[9,10,12],\"block\":16}\n";
    cairn_workload w;
    cairn_error error = {0};
    assert_ok(read_lines(text, &w, &error));
    assert_int_equal(w.count_requests, 4);
    assert_int_equal(w.count_spaces, 2);
    assert_int_equal(w.requests[0].time_ns, 500000000);
    assert_int_equal(w.requests[0].answer_tokens, 2);
    assert_int_equal(w.requests[0].count_boundaries, 3);
    const cairn_boundary *b = &w.boundaries[w.requests[0].boundaries_begin + 1];
    assert_int_equal(b->kinds,
                     CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_LAST_USER);
    assert_int_equal(b->role, CAIRN_ROLE_USER);
    assert_int_equal(w.requests[2].prompt_tokens, 40);
    assert_int_equal(cairn_workload_common(&w, w.requests[2].node_prompt, w.requests[3].node_prompt), 32);
    cairn_workload_release(&w);
}

static void bad_lines_are_refused_with_file_and_line(void **state)
{
    (void)state;
    const char *good = "{\"t\":0,\"tokens\":[1,2,3]}\n";
    char text[1024];
    (void)snprintf(text, sizeof text, "%s%s{\"t\":0,\"tokens\":[1,2,\n", good, good);
    refused(text, ".jsonl:3: not JSON");
    (void)snprintf(text, sizeof text, "%s[1]\n", good);
    refused(text, ".jsonl:2: not an object");
    refused("{\"t\":0}\n", ":1: has neither");
    refused("{\"t\":-1,\"tokens\":[1]}\n", "\"t\" is not a time");
    refused("{\"t\":0,\"tokens\":[]}\n", "no tokens");
    refused("{\"t\":0,\"tokens\":[-1]}\n", "\"tokens\"[0] is not a token id");
    refused("{\"t\":0,\"tokens\":[1,2,3],\"boundaries\":[{\"p\":9,\"k\":[\"message\"]}]}\n",
            "\"boundaries\"[0]");
    refused("{\"t\":0,\"tokens\":[1,2,3],\"boundaries\":[{\"p\":1,\"k\":[\"nonsense\"]}]}\n", "unknown kind");
    refused("{\"t\":0,\"hashes\":[1,2],\"block\":0}\n", "\"block\"");
    refused("{\"t\":0,\"hashes\":[1,2],\"block\":16,\"count\":3}\n", "\"count\"");
    refused("{\"t\":0,\"path\":\"/v1/embeddings\",\"body\":{}}\n", "no known API");
    refused("{\"t\":0,\"path\":\"/v1/messages\",\"body\":{}}\n", "no list \"messages\"");
    refused(
        "{\"t\":0,\"path\":\"/v1/messages\",\"body\":{\"messages\":[{\"role\":\"x\",\"content\":\"a\"}]}}\n",
        "message 0 has no known role");
    refused("\n\n", "holds no request");
}

static void a_damaged_file_is_an_error(void **state)
{
    (void)state;
    cairn_workload w;
    cairn_error error = {0};
    assert_status(cairn_trace_file_read(cairn_mem_default(), "/nonexistent/file.jsonl", &w, &error),
                  CAIRN_NOTFOUND);
    cairn_workload_release(&w);
    /* A whole trace cut in the middle. */
    char name[256];
    (void)snprintf(name, sizeof name, "%s/traces/sdk.jsonl.zst", CAIRN_SOURCE_DIR);
    FILE *in = fopen(name, "rb");
    assert_non_null(in);
    static char bytes[20000];
    size_t got = fread(bytes, 1, sizeof bytes, in);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(got, sizeof bytes);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, got, out), got);
    assert_int_equal(fclose(out), 0);
    assert_status(cairn_trace_file_read(cairn_mem_default(), path, &w, &error), CAIRN_CORRUPT);
    cairn_workload_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_committed_trace_is_read),
        cmocka_unit_test(the_three_apis_render_alike),
        cmocka_unit_test(an_answer_that_comes_back_as_it_was_extends_the_path),
        cmocka_unit_test(a_response_continues_the_one_it_names),
        cmocka_unit_test(requests_that_no_server_would_read_are_left_out),
        cmocka_unit_test(a_server_s_own_trace_is_read),
        cmocka_unit_test(bad_lines_are_refused_with_file_and_line),
        cmocka_unit_test(a_damaged_file_is_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
