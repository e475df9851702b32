/*
 * anthropic_answer - an answer as a message of content blocks, or as the events that make one.
 *
 * One block is open at a time: thinking, text or tool_use. A delta of another kind closes it and opens the next. A whole
 * message goes the same way at its end, without events, so that both have the same blocks.
 */
#include <string.h>

#include "serve/anthropic.h"
#include "serve/json_answer.h"

/* Clients send thinking back only with a signature; nothing here needs it. */
static const char signature[] = "Y2Fpcm4=";

typedef enum kind { NOTHING = 0, THINKING, TEXT, TOOL } kind;

typedef struct message {
    const cairn_mem *mem;
    kind open;
    json_int_t index;   /* of the open block, or of the next                                         */
    json_int_t call;    /* the tool call that the open block is                                      */
    cairn_buf text;     /* of the open block; arguments for a tool                                   */
    json_t *head;       /* the open block as it will be, without its text                            */
    json_t *content;    /* blocks that are complete; whole answers only                              */
    bool omit_thinking; /* thinking blocks have no text                                            */
} message;

/* `out` NULL: no events are wanted. */
static cairn_status event(cairn_buf *out, const char *name, json_t *value)
{
    if (out == NULL) {
        json_decref(value);
        return CAIRN_OK;
    }
    return cairn_sse_write(out, name, value);
}

/* --- blocks ------------------------------------------------------------------------------------------------------ */

/* The arguments as an object. Text that is none (cut off by the limit) is kept under "input". */
static json_t *input_of(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return text[0] == '\0' ? json_object()
                           : json_pack("{s:o}", "input", cairn_json_string(text, strlen(text)));
}

static cairn_status close_block(message *m, cairn_buf *out)
{
    if (m->open == NOTHING)
        return CAIRN_OK;
    cairn_status status = CAIRN_OK;
    if (m->open == THINKING) {
        status = event(out, "content_block_delta",
                       json_pack("{s:s, s:I, s:{s:s, s:s}}", "type", "content_block_delta", "index", m->index,
                                 "delta", "type", "signature_delta", "signature", signature));
    }
    if (status == CAIRN_OK) {
        status = event(out, "content_block_stop",
                       json_pack("{s:s, s:I}", "type", "content_block_stop", "index", m->index));
    }
    if (out == NULL) {
        json_t *text = cairn_json_string(cairn_buf_str(&m->text), m->text.len_bytes);
        if (m->open == THINKING) {
            json_object_set_new(m->head, "thinking", text);
            json_object_set_new(m->head, "signature", json_string(signature));
        } else if (m->open == TEXT) {
            json_object_set_new(m->head, "text", text);
        } else {
            json_object_set_new(m->head, "input", input_of(cairn_buf_str(&m->text)));
            json_decref(text);
        }
        if (json_array_append(m->content, m->head) != 0)
            status = CAIRN_NOMEM;
    }
    json_decref(m->head);
    m->head = NULL;
    m->open = NOTHING;
    m->index++;
    return status;
}

/* Close what is open and begin a block; `head` is taken over. */
static cairn_status open_block(message *m, kind next, json_t *head, cairn_buf *out)
{
    cairn_status status = close_block(m, out);
    if (status != CAIRN_OK || head == NULL) {
        json_decref(head);
        return status == CAIRN_OK ? CAIRN_NOMEM : status;
    }
    m->open = next;
    m->head = head;
    cairn_buf_reset(&m->text);
    return event(out, "content_block_start",
                 json_pack("{s:s, s:I, s:O}", "type", "content_block_start", "index", m->index,
                           "content_block", head));
}

/* More of the open block; `text` is a JSON string. */
static cairn_status add(message *m, const char *type, const char *field, const json_t *text, cairn_buf *out)
{
    if (json_string_length(text) == 0)
        return CAIRN_OK;
    if (out == NULL)
        return cairn_buf_append(&m->text, json_string_value(text), json_string_length(text));
    return event(out, "content_block_delta",
                 json_pack("{s:s, s:I, s:{s:s, s:O}}", "type", "content_block_delta", "index", m->index,
                           "delta", "type", type, field, text));
}

static cairn_status add_call(message *m, const json_t *call, cairn_buf *out)
{
    const json_t *function = json_object_get(call, "function"), *name = json_object_get(function, "name");
    json_int_t index = json_integer_value(json_object_get(call, "index"));
    cairn_status status = CAIRN_OK;
    if (m->open != TOOL || index != m->call) {
        const json_t *id = json_object_get(call, "id");
        m->call = index;
        status = open_block(m, TOOL,
                            json_pack("{s:s, s:s, s:s, s:{}}", "type", "tool_use", "id",
                                      json_is_string(id) ? json_string_value(id) : "", "name",
                                      json_is_string(name) ? json_string_value(name) : "", "input"),
                            out);
    }
    if (status == CAIRN_OK)
        status = add(m, "input_json_delta", "partial_json", json_object_get(function, "arguments"), out);
    return status;
}

/* A delta in chat completions' form; also a whole message, which has the same fields. */
static cairn_status take(message *m, const json_t *delta, cairn_buf *out)
{
    const json_t *reasoning = json_object_get(delta, "reasoning_content"),
                 *content = json_object_get(delta, "content"), *calls = json_object_get(delta, "tool_calls");
    cairn_status status = CAIRN_OK;
    if (json_string_length(reasoning) > 0) {
        if (m->open != THINKING) {
            status = open_block(
                m, THINKING,
                json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""), out);
        }
        if (status == CAIRN_OK && !m->omit_thinking)
            status = add(m, "thinking_delta", "thinking", reasoning, out);
    }
    if (status == CAIRN_OK && json_string_length(content) > 0) {
        if (m->open != TEXT)
            status = open_block(m, TEXT, json_pack("{s:s, s:s}", "type", "text", "text", ""), out);
        if (status == CAIRN_OK)
            status = add(m, "text_delta", "text", content, out);
    }
    for (size_t i = 0; i < json_array_size(calls) && status == CAIRN_OK; i++) {
        json_t *call = json_copy(json_array_get(calls, i));
        if (json_object_get(call, "index") == NULL)
            json_object_set_new(call, "index", json_integer((json_int_t)i));
        status = call == NULL ? CAIRN_NOMEM : add_call(m, call, out);
        json_decref(call);
    }
    return status;
}

/* --- the message ------------------------------------------------------------------------------------------------- */

/*
 * Three numbers that add up to the prompt: what the engine did not read (cache_read), what it read up to the client's
 * last mark (cache_creation), and the rest.
 */
static json_t *usage_json(const cairn_shape_answer *answer, uint32_t answer_tokens)
{
    const cairn_record *r = answer->record;
    uint32_t created = answer->mark_position > r->resume ? answer->mark_position - r->resume : 0;
    uint32_t rest = r->prompt_tokens - r->resume - created;
    return json_pack("{s:I, s:I, s:I, s:{s:I, s:i}, s:I}", "input_tokens", (json_int_t)rest,
                     "cache_creation_input_tokens", (json_int_t)created, "cache_read_input_tokens",
                     (json_int_t)r->resume, "cache_creation", "ephemeral_5m_input_tokens",
                     (json_int_t)created, "ephemeral_1h_input_tokens", 0, "output_tokens",
                     (json_int_t)answer_tokens);
}

static json_t *message_json(const cairn_shape_answer *answer, json_t *content, json_t *reason, json_t *stop,
                            json_t *usage)
{
    json_t *model = cairn_json_string(answer->model, strlen(answer->model));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "id", answer->id, "type", "message", "role",
                     "assistant", "model", model, "content", content, "stop_reason", reason, "stop_sequence",
                     stop, "usage", usage);
}

static cairn_status begin(void *ctx, const cairn_shape_answer *answer, cairn_buf *out)
{
    (void)ctx;
    json_t *start = message_json(answer, json_array(), json_null(), json_null(), usage_json(answer, 0));
    return cairn_sse_write(out, "message_start",
                           json_pack("{s:s, s:o}", "type", "message_start", "message", start));
}

static cairn_status delta(void *ctx, const cairn_shape_answer *answer, const json_t *value, cairn_buf *out)
{
    (void)answer;
    return take(ctx, value, out);
}

static const char *stop_reason(const cairn_shape_end *end)
{
    if (end->finish == CAIRN_FINISH_LENGTH)
        return "max_tokens";
    if (end->count_calls > 0)
        return "tool_use";
    return end->stop_text != NULL ? "stop_sequence" : "end_turn";
}

static void add_extras(json_t *value, const cairn_shape_answer *answer, const cairn_shape_end *end)
{
    json_object_set_new(value, "timings", cairn_timings_json(answer->record, end->times));
    if (answer->explain) {
        json_object_set_new(value, "cairn",
                            cairn_record_noted_json(answer->record, answer->notes, answer->excerpt));
    }
}

static cairn_status end(void *ctx, const cairn_shape_answer *answer, const cairn_shape_end *end,
                        cairn_buf *out)
{
    message *m = ctx;
    json_t *reason = json_string(stop_reason(end));
    json_t *stop = end->stop_text != NULL ? cairn_json_string(end->stop_text, end->stop_bytes) : json_null();
    json_t *usage = usage_json(answer, end->times->answer_tokens);
    if (!answer->stream) {
        m->content = json_array();
        cairn_status status = take(m, end->message, NULL);
        if (status == CAIRN_OK)
            status = close_block(m, NULL);
        json_t *value = message_json(answer, json_incref(m->content), reason, stop, usage);
        add_extras(value, answer, end);
        if (status == CAIRN_OK)
            return cairn_json_write(out, value);
        json_decref(value);
        return status;
    }
    cairn_status status = close_block(m, out);
    json_t *last = json_pack("{s:s, s:{s:o, s:o}, s:o}", "type", "message_delta", "delta", "stop_reason",
                             reason, "stop_sequence", stop, "usage", usage);
    add_extras(last, answer, end);
    if (status == CAIRN_OK) {
        status = cairn_sse_write(out, "message_delta", last);
    } else {
        json_decref(last);
    }
    if (status == CAIRN_OK)
        status = cairn_sse_write(out, "message_stop", json_pack("{s:s}", "type", "message_stop"));
    return status;
}

static cairn_status fail(void *ctx, const cairn_shape_answer *answer, const cairn_api_error *error,
                         cairn_buf *out)
{
    (void)ctx;
    (void)answer;
    cairn_api_error shaped = *error;
    shaped.anthropic = true;
    return cairn_sse_write(out, "error", cairn_json_error(&shaped));
}

static void release(void *ctx)
{
    message *m = ctx;
    if (m == NULL)
        return;
    json_decref(m->head);
    json_decref(m->content);
    cairn_buf_release(&m->text);
    cairn_mem_release(m->mem, m, sizeof *m);
}

cairn_status cairn_anthropic_shape(bool omit_thinking, cairn_answer_shape *ret_shape)
{
    const cairn_mem *mem = cairn_mem_default();
    message *m = cairn_mem_zalloc(mem, sizeof *m);
    if (m == NULL)
        return CAIRN_NOMEM;
    m->mem = mem;
    m->omit_thinking = omit_thinking;
    cairn_buf_init(&m->text, mem, SIZE_MAX / 4);
    *ret_shape = (cairn_answer_shape){.id_prefix = "msg_",
                                      .call_prefix = "toolu_",
                                      .begin = begin,
                                      .delta = delta,
                                      .end = end,
                                      .fail = fail,
                                      .free = release,
                                      .ctx = m};
    return CAIRN_OK;
}
