/*
 * answer - see the header. Text flows through `show`, which hands the part that is safe to show to the surface; the
 * surfaces differ only in how a delta and the closing object look.
 */
#include "serve/answer.h"

#include <stdio.h>
#include <string.h>

#include "serve/json_answer.h"
#include "serve/utf8.h"

struct cairn_answer {
    const cairn_mem *mem;
    cairn_answer_options options;
    cairn_chat_stream *stream; /* chat only */
    cairn_buf text;            /* everything generated */
    size_t shown_bytes;        /* text[0, shown) went through */
    int32_t stop_found;
};

/* --- shapes ------------------------------------------------------------------------------------------------------ */

static const char *object_name(const cairn_answer *a)
{
    if (a->options.surface == CAIRN_SURFACE_TEXT)
        return "text_completion";
    return a->options.stream ? "chat.completion.chunk" : "chat.completion";
}

/* The head that chunks and whole answers share; `choices` is taken over. */
static json_t *envelope(const cairn_answer *a, json_t *choices)
{
    json_t *value = json_pack("{s:s, s:s, s:I, s:o}", "id", a->options.id, "object", object_name(a),
                              "created", (json_int_t)a->options.created_s, "choices", choices);
    json_object_set_new(value, "model", cairn_json_string(a->options.model, strlen(a->options.model)));
    json_object_set_new(value, "system_fingerprint", json_string(a->options.fingerprint));
    return value;
}

/* One choice of a chat chunk; `delta` is taken over, `finish` NULL: null. */
static json_t *chat_choice(json_t *delta, const char *finish)
{
    return json_pack("[{s:i, s:o, s:o}]", "index", 0, "delta", delta, "finish_reason",
                     finish != NULL ? json_string(finish) : json_null());
}

static json_t *text_choice(json_t *text, const char *finish)
{
    return json_pack("[{s:o, s:i, s:n, s:o}]", "text", text, "index", 0, "logprobs", "finish_reason",
                     finish != NULL ? json_string(finish) : json_null());
}

/* A chunk of a stream that carries plain text. */
static cairn_status write_text(const cairn_answer *a, const char *text, size_t len_bytes, cairn_buf *out)
{
    json_t *value = cairn_json_string(text, len_bytes);
    if (a->options.surface == CAIRN_SURFACE_TEXT)
        return cairn_sse_write(out, NULL, envelope(a, text_choice(value, NULL)));
    if (a->options.surface == CAIRN_SURFACE_LLAMA) {
        return cairn_sse_write(out, NULL,
                               json_pack("{s:i, s:o, s:b}", "index", 0, "content", value, "stop", 0));
    }
    return cairn_sse_write(out, NULL, envelope(a, chat_choice(json_pack("{s:o}", "content", value), NULL)));
}

/* What a shape may look at. */
static cairn_shape_answer shape_answer(const cairn_answer *a, const cairn_record *record)
{
    return (cairn_shape_answer){.id = a->options.id,
                                .model = a->options.model,
                                .created_s = a->options.created_s,
                                .stream = a->options.stream,
                                .explain = a->options.explain,
                                .record = record,
                                .mark_position = a->options.mark_position,
                                .notes = a->options.notes,
                                .excerpt = a->options.excerpt};
}

/* The bridge's deltas, one event each. */
static cairn_status write_deltas(const cairn_answer *a, const cairn_chat_text *deltas, cairn_buf *out)
{
    if (!a->options.stream || deltas->bytes <= 2)
        return CAIRN_OK;
    json_t *list = json_loadb(deltas->text, deltas->bytes, 0, NULL);
    if (list == NULL)
        return CAIRN_NOMEM;
    const cairn_answer_shape *shape = a->options.shape;
    cairn_shape_answer answer = shape_answer(a, NULL);
    cairn_status status = CAIRN_OK;
    for (size_t i = 0; i < json_array_size(list) && status == CAIRN_OK; i++) {
        json_t *delta = json_array_get(list, i);
        status = shape != NULL
                     ? shape->delta(shape->ctx, &answer, delta, out)
                     : cairn_sse_write(out, NULL, envelope(a, chat_choice(json_incref(delta), NULL)));
    }
    json_decref(list);
    return status;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

cairn_status cairn_answer_new(const cairn_mem *mem, const cairn_answer_options *options,
                              cairn_answer **ret_answer, cairn_error *reterr)
{
    cairn_answer *a = cairn_mem_zalloc(mem, sizeof *a);
    if (a == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "answer/new", NULL);
    a->mem = mem;
    a->options = *options;
    a->stop_found = -1;
    cairn_buf_init(&a->text, mem, options->text_bytes_max);
    if (options->surface == CAIRN_SURFACE_CHAT) {
        char prefix[sizeof options->id + 8];
        const char *dash = strpbrk(options->id, "-_");
        (void)snprintf(prefix, sizeof prefix, "%s%s_",
                       options->shape != NULL ? options->shape->call_prefix : "call_",
                       dash != NULL ? dash + 1 : options->id);
        cairn_chat_stream_options stream = {
            .call_id_prefix = prefix, .whole = !options->stream, .text_bytes_max = options->text_bytes_max};
        cairn_status status =
            cairn_chat_stream_new(options->format, options->format_bytes, &stream, &a->stream, reterr);
        if (status != CAIRN_OK) {
            cairn_answer_free(a);
            return status;
        }
    }
    *ret_answer = a;
    return CAIRN_OK;
}

void cairn_answer_free(cairn_answer *a)
{
    if (a == NULL)
        return;
    cairn_chat_stream_free(a->stream);
    cairn_buf_release(&a->text);
    cairn_mem_release(a->mem, a, sizeof *a);
}

cairn_status cairn_answer_begin(cairn_answer *a, const cairn_record *record, cairn_buf *out)
{
    if (!a->options.stream)
        return CAIRN_OK;
    if (a->options.shape != NULL) {
        cairn_shape_answer answer = shape_answer(a, record);
        return a->options.shape->begin(a->options.shape->ctx, &answer, out);
    }
    if (a->options.surface == CAIRN_SURFACE_CHAT) {
        return cairn_sse_write(
            out, NULL,
            envelope(a, chat_choice(json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL)));
    }
    if (a->options.echo != NULL && a->options.echo_bytes > 0)
        return write_text(a, a->options.echo, a->options.echo_bytes, out);
    return CAIRN_OK;
}

/* --- text -------------------------------------------------------------------------------------------------------- */

/* Let text[shown, safe) through. Plain surfaces hold a character's half back until `whole`; the bridge does it alone. */
static cairn_status show(cairn_answer *a, size_t safe_bytes, bool whole, cairn_buf *out)
{
    const char *from = cairn_buf_str(&a->text) + a->shown_bytes;
    size_t n = safe_bytes - a->shown_bytes;
    if (a->options.surface != CAIRN_SURFACE_CHAT && !whole)
        n = cairn_utf8_whole(from, n);
    if (n == 0)
        return CAIRN_OK;
    cairn_status status = CAIRN_OK;
    if (a->stream != NULL) {
        cairn_chat_text deltas = {.text = "[]", .bytes = 2};
        status = cairn_chat_stream_feed(a->stream, from, n, a->options.stream ? &deltas : NULL, NULL);
        if (status == CAIRN_OK)
            status = write_deltas(a, &deltas, out);
    } else if (a->options.stream) {
        status = write_text(a, from, n, out);
    }
    a->shown_bytes += n;
    return status;
}

cairn_status cairn_answer_text(cairn_answer *a, const char *text, size_t len_bytes, cairn_buf *out,
                               bool *ret_stopped)
{
    CAIRN_ASSERT(a->stop_found < 0);
    *ret_stopped = false;
    cairn_status status = cairn_buf_append(&a->text, text, len_bytes);
    if (status != CAIRN_OK)
        return status;
    cairn_stops_result stops =
        cairn_stops_find(a->options.stops, a->options.count_stops, cairn_buf_str(&a->text), a->text.len_bytes,
                         a->shown_bytes, false);
    a->stop_found = stops.found;
    *ret_stopped = stops.found >= 0;
    if (stops.found >= 0)
        a->text.len_bytes = stops.safe_bytes; /* the stop itself and what follows are never shown */
    return show(a, stops.safe_bytes, stops.found >= 0, out);
}

/* --- end --------------------------------------------------------------------------------------------------------- */

const char *cairn_answer_finish_word(const cairn_answer *a, cairn_finish finish)
{
    if (finish == CAIRN_FINISH_LENGTH)
        return "length";
    if (a->stream != NULL && cairn_chat_stream_count_calls(a->stream) > 0)
        return "tool_calls";
    return "stop";
}

static void add_extras(const cairn_answer *a, json_t *value, const cairn_record *record,
                       const cairn_request_times *times)
{
    json_object_set_new(value, "timings", cairn_timings_json(record, times));
    if (a->options.explain) {
        json_object_set_new(value, "cairn",
                            cairn_record_noted_json(record, a->options.notes, a->options.excerpt));
    }
}

static cairn_status end_llama(const cairn_answer *a, cairn_finish finish, const cairn_record *record,
                              const cairn_request_times *times, cairn_buf *out)
{
    const char *type = finish == CAIRN_FINISH_STOP        ? "eos"
                       : finish == CAIRN_FINISH_STOP_TEXT ? "word"
                                                          : "limit";
    json_t *content =
        a->options.stream ? json_string("") : cairn_json_string(cairn_buf_str(&a->text), a->text.len_bytes);
    json_t *word = a->stop_found >= 0 ? cairn_json_string(a->options.stops[a->stop_found].bytes,
                                                          a->options.stops[a->stop_found].len_bytes)
                                      : json_string("");
    json_t *value = json_pack("{s:i, s:o, s:b, s:I, s:I, s:I, s:s, s:o, s:b}", "index", 0, "content", content,
                              "stop", 1, "tokens_predicted", (json_int_t)times->answer_tokens,
                              "tokens_evaluated", (json_int_t)record->prompt_tokens, "tokens_cached",
                              (json_int_t)record->prompt_tokens + (json_int_t)record->answer_tokens,
                              "stop_type", type, "stopping_word", word, "truncated", 0);
    json_object_set_new(value, "model", cairn_json_string(a->options.model, strlen(a->options.model)));
    add_extras(a, value, record, times);
    return a->options.stream ? cairn_sse_write(out, NULL, value) : cairn_json_write(out, value);
}

static cairn_status end_stream(const cairn_answer *a, const char *word, const cairn_record *record,
                               const cairn_request_times *times, cairn_buf *out)
{
    bool chat = a->options.surface == CAIRN_SURFACE_CHAT;
    json_t *last = envelope(a, chat ? chat_choice(json_object(), word) : text_choice(json_string(""), word));
    add_extras(a, last, record, times);
    cairn_status status = cairn_sse_write(out, NULL, last);
    if (status == CAIRN_OK && a->options.include_usage) {
        json_t *usage = envelope(a, json_array());
        json_object_set_new(usage, "usage", cairn_usage_json(record, times));
        json_object_set_new(usage, "timings", cairn_timings_json(record, times));
        status = cairn_sse_write(out, NULL, usage);
    }
    return status == CAIRN_OK ? cairn_sse_done(out) : status;
}

/* The text of a whole completion: the echo, if any, and the answer. */
static json_t *whole_text(const cairn_answer *a)
{
    if (a->options.echo == NULL)
        return cairn_json_string(cairn_buf_str(&a->text), a->text.len_bytes);
    cairn_buf joined;
    cairn_buf_init(&joined, a->mem, a->options.echo_bytes + a->text.len_bytes);
    json_t *value = NULL;
    if (cairn_buf_append(&joined, a->options.echo, a->options.echo_bytes) == CAIRN_OK &&
        cairn_buf_append(&joined, cairn_buf_str(&a->text), a->text.len_bytes) == CAIRN_OK)
        value = cairn_json_string(cairn_buf_str(&joined), joined.len_bytes);
    cairn_buf_release(&joined);
    return value;
}

static cairn_status end_whole(const cairn_answer *a, const char *word, const cairn_chat_text *message,
                              const cairn_record *record, const cairn_request_times *times, cairn_buf *out)
{
    json_t *choices;
    if (a->options.surface == CAIRN_SURFACE_CHAT) {
        json_t *parsed = json_loadb(message->text, message->bytes, 0, NULL);
        choices = json_pack("[{s:i, s:o, s:n, s:s}]", "index", 0, "message", parsed, "logprobs",
                            "finish_reason", word);
    } else {
        choices = text_choice(whole_text(a), word);
    }
    if (choices == NULL)
        return CAIRN_NOMEM;
    json_t *value = envelope(a, choices);
    json_object_set_new(value, "usage", cairn_usage_json(record, times));
    add_extras(a, value, record, times);
    return cairn_json_write(out, value);
}

static cairn_status end_shape(const cairn_answer *a, cairn_finish finish, const cairn_chat_text *message,
                              const cairn_record *record, const cairn_request_times *times, cairn_buf *out)
{
    json_t *parsed = json_loadb(message->text, message->bytes, 0, NULL);
    if (parsed == NULL)
        return CAIRN_NOMEM;
    cairn_shape_answer answer = shape_answer(a, record);
    cairn_shape_end end = {.finish = finish,
                           .count_calls = cairn_chat_stream_count_calls(a->stream),
                           .message = parsed,
                           .times = times};
    if (finish == CAIRN_FINISH_STOP_TEXT && a->stop_found >= 0 &&
        (size_t)a->stop_found < a->options.count_client_stops) {
        end.stop_text = a->options.stops[a->stop_found].bytes;
        end.stop_bytes = a->options.stops[a->stop_found].len_bytes;
    }
    cairn_status status = a->options.shape->end(a->options.shape->ctx, &answer, &end, out);
    json_decref(parsed);
    return status;
}

cairn_status cairn_answer_end(cairn_answer *a, cairn_finish finish, const cairn_record *record,
                              const cairn_request_times *times, cairn_buf *out)
{
    cairn_status status = show(a, a->text.len_bytes, true, out);
    cairn_chat_text deltas = {.text = "[]", .bytes = 2}, message = {.text = "null", .bytes = 4};
    if (status == CAIRN_OK && a->stream != NULL) {
        status = cairn_chat_stream_finish(a->stream, &deltas, &message, NULL);
        if (status == CAIRN_OK)
            status = write_deltas(a, &deltas, out);
    }
    if (status != CAIRN_OK)
        return status;
    if (a->options.surface == CAIRN_SURFACE_LLAMA)
        return end_llama(a, finish, record, times, out);
    if (a->options.shape != NULL)
        return end_shape(a, finish, &message, record, times, out);
    const char *word = cairn_answer_finish_word(a, finish);
    if (a->options.stream)
        return end_stream(a, word, record, times, out);
    return end_whole(a, word, &message, record, times, out);
}

cairn_chat_text cairn_answer_message(cairn_answer *a)
{
    cairn_chat_text message = {.text = "", .bytes = 0};
    if (a->stream != NULL && cairn_chat_stream_finish(a->stream, NULL, &message, NULL) != CAIRN_OK)
        message = (cairn_chat_text){.text = "", .bytes = 0};
    return message;
}

uint32_t cairn_answer_count_calls(const cairn_answer *a)
{
    return a->stream != NULL ? cairn_chat_stream_count_calls(a->stream) : 0;
}
