#include "chat_support.h"

#include <dirent.h>

char *test_read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("can't open %s", path);
    }
    size_t size = 0;
    size_t room = 1 << 16;
    char *text = malloc(room + 1);
    assert_non_null(text);
    size_t got = 0;
    while ((got = fread(text + size, 1, room - size, file)) > 0) {
        size += got;
        if (size == room) {
            room *= 2;
            text = realloc(text, room + 1);
            assert_non_null(text);
        }
    }
    fclose(file);
    text[size] = '\0';
    return text;
}

cairn_chat *test_open_template(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/models/templates/%s.jinja", CAIRN_LLAMA_DATA_DIR_DEFAULT, name);
    char *text = test_read_file(path);
    cairn_chat_source source = {.template_text = text, .bos_text = "<s>", .eos_text = "</s>"};
    cairn_chat *chat = NULL;
    cairn_error error;
    if (cairn_chat_open(&source, &chat, &error) != CAIRN_OK) {
        fail_msg("%s: %s", name, error.detail);
    }
    free(text);
    return chat;
}

cairn_chat *qwen;

int open_qwen(void **state)
{
    (void)state;
    qwen = test_open_template("Qwen3.5-4B");
    return 0;
}

int close_qwen(void **state)
{
    (void)state;
    cairn_chat_close(qwen);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **test_template_names(size_t *ret_count)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/models/templates", CAIRN_LLAMA_DATA_DIR_DEFAULT);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    size_t room = 256;
    char **names = calloc(room, sizeof *names);
    assert_non_null(names);
    size_t count = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL && count < room; entry = readdir(dir)) {
        char *dot = strstr(entry->d_name, ".jinja");
        if (dot != NULL) {
            names[count] = strdup(entry->d_name);
            assert_non_null(names[count]);
            *strstr(names[count++], ".jinja") = '\0';
        }
    }
    closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    *ret_count = count;
    return names;
}

void test_free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

cairn_chat_prompt *test_render(const cairn_chat *chat, const char *request)
{
    cairn_chat_options options = {.now_s = TEST_NOW};
    cairn_chat_prompt *prompt = NULL;
    cairn_error error;
    if (cairn_chat_render(chat, request, strlen(request), &options, &prompt, &error) != CAIRN_OK) {
        fail_msg("refused: %s\n%s", error.detail, request);
    }
    return prompt;
}

void test_refused(const cairn_chat *chat, const char *request, cairn_status status, const char *detail)
{
    cairn_chat_prompt *prompt = NULL;
    cairn_error error = {0};
    cairn_status got = cairn_chat_render(chat, request, strlen(request), NULL, &prompt, &error);
    if (got != status || strstr(error.detail, detail) == NULL) {
        fail_msg("wanted %s \"%s\"\ngot %s \"%s\"\nfor %s", cairn_status_name(status), detail,
                 cairn_status_name(got), error.detail, request);
    }
    assert_null(prompt);
}

const cairn_chat_boundary *test_boundary(const cairn_chat_prompt *prompt, unsigned kinds, uint32_t message)
{
    for (size_t i = 0; i < prompt->count_boundaries; i++) {
        const cairn_chat_boundary *boundary = &prompt->boundaries[i];
        if ((boundary->kinds & kinds) == kinds && (message == UINT32_MAX || boundary->message == message)) {
            return boundary;
        }
    }
    return NULL;
}

void test_text_add(test_text *text, const char *format, ...)
{
    for (int round = 0; round < 2; round++) {
        va_list arguments;
        va_start(arguments, format);
        int size = vsnprintf(text->room != 0 ? text->text + text->size : NULL, text->room - text->size,
                             format, arguments);
        va_end(arguments);
        assert_true(size >= 0);
        if ((size_t)size < text->room - text->size) {
            text->size += (size_t)size;
            return;
        }
        text->room = 2 * text->room + (size_t)size + 256;
        text->text = realloc(text->text, text->room);
        assert_non_null(text->text);
    }
    fail_msg("test_text_add");
}
