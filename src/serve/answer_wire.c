/*
 * answer_wire - what a client gets of an answer: see answer_inside.h. The surfaces differ only in how a delta and the closing
 * object look.
 */
#include "serve/answer_inside.h"

#include <string.h>

#include "serve/json_answer.h"
#include "serve/logprobs.h"

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

/* One choice of a chat chunk; `delta` and `logprobs` are taken over; logprobs NULL: without; finish NULL: null. */
static json_t *chat_choice(const cairn_answer *a, json_t *delta, json_t *logprobs, const char *finish)
{
    json_t *choice = json_pack("{s:I, s:o, s:o}", "index", (json_int_t)a->options.index, "delta", delta,
                               "finish_reason", finish != NULL ? json_string(finish) : json_null());
    if (logprobs != NULL)
        json_object_set_new(choice, "logprobs", logprobs);
    return json_pack("[o]", choice);
}

static json_t *text_choice(const cairn_answer *a, json_t *text, json_t *logprobs, const char *finish)
{
    return json_pack("{s:o, s:I, s:o, s:o}", "text", text, "index", (json_int_t)a->options.index, "logprobs",
                     logprobs != NULL ? logprobs : json_null(), "finish_reason",
                     finish != NULL ? json_string(finish) : json_null());
}

/* --- noted tokens ------------------------------------------------------------------------------------------------ */

static const cairn_answer_noted *noted_list(const cairn_answer *a, size_t *ret_count)
{
    *ret_count = a->noted.len_bytes / sizeof(cairn_answer_noted);
    return (const cairn_answer_noted *)(const void *)a->noted.bytes;
}

/* Those that the client has not heard of and whose text begins before `upto_bytes`. */
static size_t count_new(const cairn_answer *a, size_t upto_bytes)
{
    size_t count, n = 0;
    const cairn_answer_noted *list = noted_list(a, &count);
    while (a->told + n < count && list[a->told + n].begin_bytes < upto_bytes)
        n++;
    return n;
}

/* Their probabilities in the surface's form; NULL: nothing was asked for, or (and this is noticed later) no memory. */
static json_t *new_logprobs(const cairn_answer *a, size_t n)
{
    if (!a->options.logprobs)
        return NULL;
    json_t *entries = json_array(), *value;
    for (size_t i = a->told; i < a->told + n; i++)
        json_array_append(entries, json_array_get(a->entries, i));
    if (a->options.surface == CAIRN_SURFACE_LLAMA)
        return entries;
    if (a->options.surface == CAIRN_SURFACE_CHAT) {
        value = n > 0 ? cairn_logprobs_chat(entries) : json_null();
    } else {
        size_t count, offset = 0;
        const cairn_answer_noted *list = noted_list(a, &count);
        if (a->options.echo != NULL)
            offset = cairn_logprobs_characters(a->options.echo, a->options.echo_bytes);
        if (n > 0)
            offset += cairn_logprobs_characters(cairn_buf_str(&a->text), list[a->told].begin_bytes);
        value = n > 0 ? cairn_logprobs_text(entries, offset) : json_null();
    }
    json_decref(entries);
    return value;
}

static json_t *new_tokens(const cairn_answer *a, size_t n)
{
    json_t *ids = json_array();
    size_t count;
    const cairn_answer_noted *list = noted_list(a, &count);
    for (size_t i = a->told; a->options.return_tokens && i < a->told + n; i++)
        json_array_append_new(ids, json_integer(list[i].token));
    return ids;
}

/* Add llama.cpp's fields for the noted tokens. */
static void add_llama_tokens(const cairn_answer *a, json_t *value, size_t n)
{
    json_object_set_new(value, "tokens", new_tokens(a, n));
    if (a->options.logprobs)
        json_object_set_new(value, "completion_probabilities", new_logprobs(a, n));
}

/* --- events of a stream ------------------------------------------------------------------------------------------ */

cairn_status cairn_answer_wire_text(cairn_answer *a, const char *text, size_t len_bytes, size_t upto_bytes,
                                    cairn_buf *out)
{
    size_t n = count_new(a, upto_bytes);
    json_t *value = cairn_json_string(text, len_bytes);
    cairn_status status;
    if (a->options.surface == CAIRN_SURFACE_TEXT) {
        json_t *choice = text_choice(a, value, new_logprobs(a, n), NULL);
        status = cairn_sse_write(out, NULL, envelope(a, json_pack("[o]", choice)));
    } else {
        json_t *chunk =
            json_pack("{s:I, s:o, s:b}", "index", (json_int_t)a->options.index, "content", value, "stop", 0);
        add_llama_tokens(a, chunk, n);
        status = cairn_sse_write(out, NULL, chunk);
    }
    a->told += n;
    return status;
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

cairn_status cairn_answer_wire_deltas(cairn_answer *a, const cairn_chat_text *deltas, cairn_buf *out)
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
        if (shape != NULL) {
            status = shape->delta(shape->ctx, &answer, delta, out);
            continue;
        }
        size_t n = count_new(a, a->shown_bytes);
        json_t *choice = chat_choice(a, json_incref(delta), new_logprobs(a, n), NULL);
        status = cairn_sse_write(out, NULL, envelope(a, choice));
        a->told += n;
    }
    json_decref(list);
    return status;
}

cairn_status cairn_answer_wire_begin(cairn_answer *a, const cairn_record *record, cairn_buf *out)
{
    if (a->options.shape != NULL) {
        cairn_shape_answer answer = shape_answer(a, record);
        return a->options.shape->begin(a->options.shape->ctx, &answer, out);
    }
    if (a->options.surface == CAIRN_SURFACE_CHAT) {
        json_t *delta = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
        return cairn_sse_write(out, NULL, envelope(a, chat_choice(a, delta, NULL, NULL)));
    }
    if (a->options.echo != NULL && a->options.echo_bytes > 0)
        return cairn_answer_wire_text(a, a->options.echo, a->options.echo_bytes, 0, out);
    return CAIRN_OK;
}

/* --- end -------------------------------------------------------------------------------------------------------- */

/* Tokens that the client has not heard of; those behind a stop text it never will. */
static size_t count_left(const cairn_answer *a)
{
    return count_new(a, a->stop_found >= 0 ? a->text.len_bytes : SIZE_MAX);
}

/* Add this answer to those of its request; gives the end of all of them. */
static cairn_answer_ending add_up(cairn_answer *a, const cairn_answer_ending *own)
{
    cairn_answer_sum *sum = a->options.sum;
    if (sum == NULL)
        return *own;
    if (sum->ended++ == 0) {
        sum->record = *own->record;
        sum->times = *own->times;
        sum->reasoning_tokens = own->reasoning_tokens;
    } else {
        if (!a->options.same_prompt) {
            sum->record.prompt_tokens += own->record->prompt_tokens;
            sum->record.resume += own->record->resume;
            sum->record.read += own->record->read;
            sum->record.least += own->record->least;
        }
        sum->times.prompt_ns += own->times->prompt_ns;
        sum->times.answer_ns += own->times->answer_ns;
        sum->times.answer_tokens += own->times->answer_tokens;
        sum->reasoning_tokens += own->reasoning_tokens;
    }
    if (a->options.explain) {
        if (sum->records == NULL)
            sum->records = json_array();
        json_array_append_new(sum->records, cairn_record_json(own->record));
    }
    return (cairn_answer_ending){.finish = own->finish,
                                 .record = &sum->record,
                                 .times = &sum->times,
                                 .reasoning_tokens = sum->reasoning_tokens};
}

static bool is_last(const cairn_answer *a)
{
    return a->options.sum == NULL || a->options.sum->ended == a->options.sum->count;
}

/* Keep the choice of a whole answer for the end, or give all of them; takes `choice` over. */
static json_t *gather(cairn_answer *a, json_t *choice)
{
    cairn_answer_sum *sum = a->options.sum;
    if (sum == NULL)
        return json_pack("[o]", choice);
    if (sum->list == NULL)
        sum->list = json_array();
    json_array_append_new(sum->list, choice);
    return json_array_size(sum->list) == sum->ended ? json_incref(sum->list) : NULL;
}

static void add_extras(const cairn_answer *a, json_t *value, const cairn_answer_ending *all)
{
    json_object_set_new(value, "timings", cairn_timings_json(all->record, all->times));
    if (!a->options.explain)
        return;
    json_t *own = cairn_record_noted_json(all->record, a->options.notes, a->options.excerpt);
    if (a->options.sum != NULL && own != NULL)
        json_object_set(own, "choices", a->options.sum->records);
    json_object_set_new(value, "cairn", own);
}

static cairn_status end_llama(cairn_answer *a, const cairn_answer_ending *own, cairn_buf *out)
{
    const char *type = own->finish == CAIRN_FINISH_STOP        ? "eos"
                       : own->finish == CAIRN_FINISH_STOP_TEXT ? "word"
                                                               : "limit";
    json_t *content =
        a->options.stream ? json_string("") : cairn_json_string(cairn_buf_str(&a->text), a->text.len_bytes);
    json_t *word = a->stop_found >= 0 ? cairn_json_string(a->options.stops[a->stop_found].bytes,
                                                          a->options.stops[a->stop_found].len_bytes)
                                      : json_string("");
    json_t *value = json_pack(
        "{s:I, s:o, s:b, s:I, s:I, s:I, s:I, s:s, s:o, s:b, s:b}", "index", (json_int_t)a->options.index,
        "content", content, "stop", 1, "id_slot", (json_int_t)own->record->slot, "tokens_predicted",
        (json_int_t)own->times->answer_tokens, "tokens_evaluated", (json_int_t)own->record->prompt_tokens,
        "tokens_cached", (json_int_t)own->record->prompt_tokens + (json_int_t)own->record->answer_tokens,
        "stop_type", type, "stopping_word", word, "truncated", 0, "has_new_line",
        a->text.len_bytes > 0 && memchr(a->text.bytes, '\n', a->text.len_bytes) != NULL);
    json_object_set_new(value, "model", cairn_json_string(a->options.model, strlen(a->options.model)));
    add_llama_tokens(a, value, count_left(a));
    if (a->options.extras != NULL)
        json_object_update_missing(value, (json_t *)(uintptr_t)a->options.extras);
    add_extras(a, value, own);
    (void)add_up(a, own);
    if (a->options.stream)
        return cairn_sse_write(out, NULL, value);
    json_t *all = gather(a, value);
    if (a->options.sum == NULL) { /* one: itself, not a list */
        json_t *first = json_incref(json_array_get(all, 0));
        json_decref(all);
        return cairn_json_write(out, first);
    }
    if (all == NULL)
        return CAIRN_NOMEM;
    if (is_last(a))
        return cairn_json_write(out, all);
    json_decref(all);
    return CAIRN_OK;
}

static cairn_status end_stream(cairn_answer *a, const cairn_answer_ending *own, cairn_buf *out)
{
    const char *word = cairn_answer_finish_word(a, own->finish);
    json_t *logprobs = new_logprobs(a, count_left(a));
    json_t *choice = a->options.surface == CAIRN_SURFACE_CHAT
                         ? chat_choice(a, json_object(), logprobs, word)
                         : json_pack("[o]", text_choice(a, json_string(""), logprobs, word));
    json_t *last = envelope(a, choice);
    cairn_answer_ending all = add_up(a, own);
    if (is_last(a))
        add_extras(a, last, &all);
    cairn_status status = cairn_sse_write(out, NULL, last);
    if (status != CAIRN_OK || !is_last(a))
        return status;
    if (a->options.include_usage) {
        json_t *usage = envelope(a, json_array());
        json_object_set_new(usage, "usage", cairn_usage_json(all.record, all.times, all.reasoning_tokens));
        json_object_set_new(usage, "timings", cairn_timings_json(all.record, all.times));
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

static cairn_status end_whole(cairn_answer *a, const cairn_answer_ending *own, json_t *message,
                              cairn_buf *out)
{
    const char *word = cairn_answer_finish_word(a, own->finish);
    json_t *choice, *logprobs = new_logprobs(a, count_left(a));
    if (a->options.surface == CAIRN_SURFACE_CHAT) {
        choice = json_pack("{s:I, s:O, s:o, s:s}", "index", (json_int_t)a->options.index, "message", message,
                           "logprobs", logprobs != NULL ? logprobs : json_null(), "finish_reason", word);
    } else {
        choice = text_choice(a, whole_text(a), logprobs, word);
    }
    cairn_answer_ending all = add_up(a, own);
    json_t *choices = gather(a, choice);
    if (choices == NULL)
        return CAIRN_NOMEM;
    if (!is_last(a)) {
        json_decref(choices);
        return CAIRN_OK;
    }
    json_t *value = envelope(a, choices);
    json_object_set_new(value, "usage", cairn_usage_json(all.record, all.times, all.reasoning_tokens));
    add_extras(a, value, &all);
    return cairn_json_write(out, value);
}

static cairn_status end_shape(const cairn_answer *a, const cairn_answer_ending *own, const json_t *message,
                              cairn_buf *out)
{
    cairn_shape_answer answer = shape_answer(a, own->record);
    cairn_shape_end end = {.finish = own->finish,
                           .count_calls = cairn_answer_count_calls(a),
                           .message = message,
                           .times = own->times,
                           .reasoning_tokens = own->reasoning_tokens};
    if (own->finish == CAIRN_FINISH_STOP_TEXT && a->stop_found >= 0 &&
        (size_t)a->stop_found < a->options.count_client_stops) {
        end.stop_text = a->options.stops[a->stop_found].bytes;
        end.stop_bytes = a->options.stops[a->stop_found].len_bytes;
    }
    return a->options.shape->end(a->options.shape->ctx, &answer, &end, out);
}

cairn_status cairn_answer_wire_end(cairn_answer *a, const cairn_answer_ending *own, json_t *message,
                                   cairn_buf *out)
{
    if (a->options.shape != NULL)
        return end_shape(a, own, message, out);
    if (a->options.surface == CAIRN_SURFACE_LLAMA)
        return end_llama(a, own, out);
    return a->options.stream ? end_stream(a, own, out) : end_whole(a, own, message, out);
}

cairn_status cairn_answer_wire_fail(cairn_answer *a, const cairn_api_error *error, const cairn_record *record,
                                    cairn_buf *out)
{
    if (a->options.shape != NULL) {
        cairn_shape_answer answer = shape_answer(a, record);
        return a->options.shape->fail(a->options.shape->ctx, &answer, error, out);
    }
    return cairn_sse_write(out, NULL, cairn_json_error(error));
}
