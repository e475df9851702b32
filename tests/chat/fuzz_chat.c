/*
 * fuzz_chat - any bytes as the body of a chat request, and as what a model wrote in answer: the body is refused with a
 * reason, or becomes a prompt whose boundaries lie inside its text; the answer becomes a message, the same however it is
 * cut. The first byte chooses the template; the bytes behind the first NUL are the answer.
 */
#include <stdlib.h>

#include "cairn/status.h"
#include "chat_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"Qwen3.5-4B", "openai-gpt-oss-120b", "Kimi-K2-Thinking",
                                    "llama-cpp-deepseek-r1"};
static cairn_chat *chats[sizeof names / sizeof names[0]];

static cairn_chat *chat_of(uint8_t choice)
{
    size_t i = choice % (sizeof names / sizeof names[0]);
    if (chats[i] == NULL)
        chats[i] = test_open_template(names[i]);
    return chats[i];
}

static void check_prompt(const cairn_chat_prompt *prompt)
{
    uint64_t before = 0;
    CAIRN_ASSERT(prompt->opener_bytes <= prompt->text_bytes);
    for (size_t i = 0; i < prompt->count_boundaries; i++) {
        uint64_t at = prompt->boundaries[i].offset_bytes;
        CAIRN_ASSERT(at > before && at <= prompt->text_bytes && prompt->boundaries[i].kinds != 0);
        before = at;
    }
}

/* The message that the text is parsed into, fed in pieces of `step` bytes; the caller's. */
static char *message_of(const cairn_chat_prompt *prompt, const char *text, size_t bytes, size_t step)
{
    const cairn_chat_stream_options options = {.call_id_prefix = "call_", .text_bytes_max = 1 << 16};
    cairn_chat_stream *stream = NULL;
    cairn_chat_text deltas, message;
    CAIRN_ASSERT(cairn_chat_stream_new(prompt->format, prompt->format_bytes, &options, &stream, NULL) ==
                 CAIRN_OK);
    for (size_t at = 0; at < bytes; at += step) {
        size_t n = bytes - at < step ? bytes - at : step;
        CAIRN_ASSERT(cairn_chat_stream_feed(stream, text + at, n, &deltas, NULL) == CAIRN_OK);
        CAIRN_ASSERT(deltas.bytes >= 2 && deltas.text[0] == '[');
    }
    CAIRN_ASSERT(cairn_chat_stream_finish(stream, &deltas, &message, NULL) == CAIRN_OK);
    CAIRN_ASSERT(message.bytes >= 2 && message.text[0] == '{');
    char *copy = strdup(message.text);
    CAIRN_ASSERT(copy != NULL);
    cairn_chat_stream_free(stream);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const cairn_chat_options options = {
        .now_s = TEST_NOW, .request_bytes_max = 1 << 16, .messages_max = 64, .tools_max = 16};
    if (size < 2 || size > 4096)
        return 0;
    const char *body = (const char *)data + 1, *end = memchr(body, 0, size - 1);
    size_t body_bytes = end != NULL ? (size_t)(end - body) : size - 1;
    cairn_chat_prompt *prompt = NULL;
    cairn_error error = {0};
    cairn_status status = cairn_chat_render(chat_of((uint8_t)(data[0] - (uint8_t)'0')), body, body_bytes,
                                            &options, &prompt, &error);
    if (status != CAIRN_OK) {
        CAIRN_ASSERT(prompt == NULL && error.status == status);
        CAIRN_ASSERT(status != CAIRN_INVALID || error.detail[0] != '\0');
        return 0;
    }
    check_prompt(prompt);
    if (end != NULL) {
        const char *answer = end + 1;
        size_t bytes = size - 2 - body_bytes;
        char *whole = message_of(prompt, answer, bytes, bytes + 1),
             *cut = message_of(prompt, answer, bytes, 3);
        CAIRN_ASSERT(strcmp(whole, cut) == 0);
        free(whole);
        free(cut);
    }
    cairn_chat_prompt_free(prompt);
    return 0;
}
