/*
 * Every request body of the recorded traces is accepted by its endpoint's checks and rendered, for all clients.
 *
 * No model: the conversion, the parameters and the chat bridge with one of llama.cpp's templates.
 */
#include "test_support.h"

#include <jansson.h>

#include "chat/bridge.h"
#include "serve/anthropic.h"
#include "serve/json_fields.h"
#include "serve/marks.h"
#include "serve/normalize.h"
#include "serve/params.h"
#include "serve/responses.h"
#include "sim/line_file.h"

typedef struct tally {
    unsigned requests, rendered, continued, marks, notes, refused;
} tally;

static cairn_chat *open_chat(void)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/models/templates/Qwen3.5-4B.jinja", CAIRN_LLAMA_DATA_DIR_DEFAULT);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("can't open %s", path);
    static char text[1 << 18];
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    cairn_chat_source source = {.template_text = text, .bos_text = "", .eos_text = "<|im_end|>"};
    cairn_chat *chat = NULL;
    cairn_error error;
    if (cairn_chat_open(&source, &chat, &error) != CAIRN_OK)
        fail_msg("%s", error.detail);
    return chat;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The body in chat completions' form. */
static json_t *to_chat(const char *path, const json_t *body, tally *t, cairn_api_error *error)
{
    if (begins(path, "/v1/messages"))
        return cairn_anthropic_to_chat(
            body, begins(path, "/v1/messages/count_tokens") ? CAIRN_ANTHROPIC_COUNT : CAIRN_ANTHROPIC_ANSWER,
            error);
    if (!begins(path, "/v1/responses"))
        return json_incref((json_t *)body);
    cairn_responses_request made;
    /* which response it was can't be told from the trace: a conversation of one turn stands for it */
    json_t *previous = json_is_string(json_object_get(body, "previous_response_id"))
                           ? json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "before",
                                       "role", "assistant", "content", "after")
                           : NULL;
    t->continued += previous != NULL ? 1 : 0;
    bool good = cairn_responses_to_chat(body, previous, &made, error);
    json_decref(previous);
    if (!good)
        return NULL;
    json_t *chat = json_incref(made.chat);
    cairn_responses_release(&made);
    return chat;
}

static void render(const cairn_chat *chat, json_t *body, tally *t, const char *where)
{
    bool changed = false;
    json_t *notes = cairn_normalize(body, true, &changed);
    t->notes += (unsigned)json_array_size(notes);
    json_decref(notes);
    char *text = json_dumps(body, JSON_COMPACT);
    cairn_chat_prompt *prompt = NULL;
    cairn_error cause;
    if (cairn_chat_render(chat, text, strlen(text), NULL, &prompt, &cause) != CAIRN_OK)
        fail_msg("%s: %s", where, cause.detail);
    assert_true(prompt->text_bytes > 0);
    cairn_chat_boundary *list = NULL;
    size_t count = 0, room = 0;
    assert_ok(cairn_marks_add(cairn_mem_default(), json_object_get(body, "messages"), prompt, &list, &count,
                              &room));
    for (size_t i = 0; i < count; i++) {
        t->marks += (list[i].kinds & CAIRN_BOUNDARY_MARK) != 0 ? 1 : 0;
        assert_true(list[i].offset_bytes > 0 && list[i].offset_bytes <= prompt->text_bytes);
        assert_true(i == 0 || list[i - 1].offset_bytes < list[i].offset_bytes);
    }
    cairn_mem_array_release(cairn_mem_default(), list, room, sizeof *list);
    cairn_chat_prompt_free(prompt);
    free(text);
    t->rendered++;
}

static void one(const cairn_chat *chat, const json_t *line, unsigned every, tally *t, const char *where)
{
    const char *path = json_string_value(json_object_get(line, "path"));
    const json_t *body = json_object_get(line, "body");
    cairn_api_error error = {0};
    assert_true(path != NULL && json_is_object(body));
    t->requests++;
    json_t *chat_body = to_chat(path, body, t, &error);
    if (chat_body == NULL)
        fail_msg("%s: %s", where, error.message);
    cairn_params *params = calloc(1, sizeof *params);
    cairn_params_init(params);
    cairn_params_read(params, chat_body, &error);
    free(params);
    if (error.http != 0)
        fail_msg("%s: %s: %s", where, error.param, error.message);
    if ((t->requests - 1) % every == 0)
        render(chat, chat_body, t, where);
    json_decref(chat_body);
}

/* All bodies are converted and checked; one in `every` is rendered, which takes the time. */
static tally replay(const char *name, unsigned every)
{
    char path[1024], where[64];
    (void)snprintf(path, sizeof path, "%s/traces/%s.jsonl.zst", CAIRN_SOURCE_DIR, name);
    tally t = {0};
    cairn_chat *chat = open_chat();
    cairn_line_file *file = NULL;
    assert_ok(cairn_line_file_open(cairn_mem_default(), path, (size_t)64 << 20, &file, NULL));
    for (;;) {
        const char *text = NULL;
        size_t size = 0;
        assert_ok(cairn_line_file_next(file, &text, &size, NULL));
        if (text == NULL)
            break;
        (void)snprintf(where, sizeof where, "%s:%u", name, t.requests + 1);
        json_t *line = json_loadb(text, size, 0, NULL);
        assert_non_null(line);
        one(chat, line, every, &t, where);
        json_decref(line);
    }
    cairn_line_file_close(file);
    cairn_chat_close(chat);
    printf("%s: %u requests, %u rendered, %u marks, %u notes\n", name, t.requests, t.rendered, t.marks,
           t.notes);
    return t;
}

static void claude_code_is_understood(void **state)
{
    (void)state;
    tally t = replay("claude", 1);
    assert_int_equal(t.requests, 136);
    assert_int_equal(t.rendered, 136);
    assert_true(t.marks >= 123); /* each request has marks at its end and in its system text */
}

static void codex_is_understood(void **state)
{
    (void)state;
    tally t = replay("codex", 1);
    assert_int_equal(t.rendered, 71);
}

static void opencode_is_understood(void **state)
{
    (void)state;
    tally t = replay("opencode", 1);
    assert_int_equal(t.rendered, 81);
}

static void qwen_code_is_understood(void **state)
{
    (void)state;
    tally t = replay("qwen", 1);
    assert_int_equal(t.rendered, 92);
}

static void the_sdks_are_understood(void **state)
{
    (void)state;
    tally t = replay("sdk", 1);
    assert_int_equal(t.rendered, 100);
    assert_int_equal(t.continued, 5);
}

static void clients_in_one_folder_are_understood(void **state)
{
    (void)state;
    tally t = replay("mixed", 1);
    assert_int_equal(t.rendered, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claude_code_is_understood), cmocka_unit_test(codex_is_understood),
        cmocka_unit_test(opencode_is_understood),    cmocka_unit_test(qwen_code_is_understood),
        cmocka_unit_test(the_sdks_are_understood),   cmocka_unit_test(clients_in_one_folder_are_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
