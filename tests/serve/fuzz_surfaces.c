/*
 * fuzz_surfaces - any bytes as a body of any API: it is refused with a reason, or converted into a chat request whose
 * fields are then read; nothing else happens. The first byte chooses the API.
 */
#include <stdint.h>
#include <string.h>

#include "serve/anthropic.h"
#include "serve/json_answer.h"
#include "serve/json_fields.h"
#include "serve/marks.h"
#include "serve/normalize.h"
#include "serve/params.h"
#include "serve/responses.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHAT, MESSAGES, COUNT, RESPONSES, WARM };

static json_t *to_chat(uint8_t api, json_t *body, cairn_api_error *error)
{
    cairn_responses_request made;
    json_t *chat = NULL;
    if (api == CHAT)
        return json_incref(body);
    if (api != RESPONSES) {
        return cairn_anthropic_to_chat(body,
                                       api == COUNT  ? CAIRN_ANTHROPIC_COUNT
                                       : api == WARM ? CAIRN_ANTHROPIC_WARM
                                                     : CAIRN_ANTHROPIC_ANSWER,
                                       error);
    }
    if (cairn_responses_to_chat(body, json_object_get(body, "previous"), &made, error)) {
        chat = json_incref(made.chat);
        cairn_responses_release(&made);
    }
    return chat;
}

/* What is said of a request is valid JSON in both shapes. */
static void check_error(const cairn_api_error *cause)
{
    cairn_api_error error = *cause;
    CAIRN_ASSERT(error.http >= 400 && error.message[0] != '\0');
    for (int shape = 0; shape < 2; shape++) {
        error.anthropic = shape == 1;
        cairn_buf text;
        cairn_buf_init(&text, cairn_mem_default(), 1 << 16);
        CAIRN_ASSERT(cairn_json_write(&text, cairn_json_error(&error)) == CAIRN_OK);
        json_t *value = json_loads(cairn_buf_str(&text), 0, NULL);
        CAIRN_ASSERT(value != NULL);
        json_decref(value);
        cairn_buf_release(&text);
    }
}

/* A converted request is read as every chat request is. */
static void read_chat(json_t *chat, uint8_t api)
{
    static cairn_params params;
    static const cairn_chat_prompt prompt = {.text = "some text of a prompt", .text_bytes = 21};
    cairn_api_error error = {0};
    bool changed = false;
    cairn_params_init(&params);
    cairn_params_read(&params, chat, &error);
    json_t *notes = cairn_normalize(chat, true, &changed);
    CAIRN_ASSERT(json_array_size(notes) <= CAIRN_NORMALIZE_NOTES_MAX && (notes != NULL || !changed));
    json_decref(notes);
    if (api != CHAT && api != WARM)
        CAIRN_ASSERT(json_array_size(json_object_get(chat, "messages")) > 0);
    cairn_chat_boundary *list = NULL;
    size_t count = 0, room = 0;
    CAIRN_ASSERT(cairn_marks_add(cairn_mem_default(), json_object_get(chat, "messages"), &prompt, &list,
                                 &count, &room) == CAIRN_OK);
    for (size_t i = 0; i < count; i++)
        CAIRN_ASSERT(list[i].offset_bytes > 0 && list[i].offset_bytes <= prompt.text_bytes);
    cairn_mem_array_release(cairn_mem_default(), list, room, sizeof *list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    cairn_api_error error = {0};
    uint8_t api = (uint8_t)(data[0] - (uint8_t)'0') % 5;
    json_t *body = cairn_json_parse((const char *)data + 1, size - 1, &error);
    json_t *chat = body != NULL ? to_chat(api, body, &error) : NULL;
    CAIRN_ASSERT((chat == NULL) == (error.http != 0));
    if (chat != NULL)
        read_chat(chat, api);
    else
        check_error(&error);
    json_decref(chat);
    json_decref(body);
    return 0;
}
