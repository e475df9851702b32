/*
 * answer - see the header. Text flows through `show`, which hands the part that is safe to show to answer_wire.c.
 */
#include "serve/answer_inside.h"

#include <stdio.h>
#include <string.h>

#include "serve/utf8.h"

/* --- life -------------------------------------------------------------------------------------------------------- */

static cairn_status open_stream(cairn_answer *a, cairn_error *reterr)
{
    const cairn_answer_options *o = &a->options;
    char prefix[sizeof o->id + 24];
    const char *dash = strpbrk(o->id, "-_");
    int used = snprintf(prefix, sizeof prefix, "%s%s_", o->shape != NULL ? o->shape->call_prefix : "call_",
                        dash != NULL ? dash + 1 : o->id);
    if (o->index > 0)
        (void)snprintf(prefix + used, sizeof prefix - (size_t)used, "%u_", o->index);
    cairn_chat_stream_options stream = {
        .call_id_prefix = prefix, .whole = !o->stream, .text_bytes_max = o->text_bytes_max};
    return cairn_chat_stream_new(o->format, o->format_bytes, &stream, &a->stream, reterr);
}

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
    cairn_buf_init(&a->begins, mem, SIZE_MAX / 4);
    cairn_buf_init(&a->noted, mem, SIZE_MAX / 4);
    a->entries = json_array();
    cairn_status status = CAIRN_OK;
    if (options->surface == CAIRN_SURFACE_CHAT)
        status = open_stream(a, reterr);
    if (status != CAIRN_OK) {
        cairn_answer_free(a);
        return status;
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
    cairn_buf_release(&a->begins);
    cairn_buf_release(&a->noted);
    json_decref(a->entries);
    cairn_mem_release(a->mem, a, sizeof *a);
}

void cairn_answer_sum_release(cairn_answer_sum *sum)
{
    json_decref(sum->list);
    json_decref(sum->records);
    sum->list = sum->records = NULL;
}

cairn_status cairn_answer_begin(cairn_answer *a, const cairn_record *record, cairn_buf *out)
{
    return a->options.stream ? cairn_answer_wire_begin(a, record, out) : CAIRN_OK;
}

cairn_status cairn_answer_note(cairn_answer *a, cairn_token token, json_t *entry)
{
    cairn_answer_noted one = {.begin_bytes = a->text.len_bytes, .token = token};
    bool wanted = a->options.logprobs || a->options.return_tokens;
    if (a->options.logprobs && (entry == NULL || json_array_append(a->entries, entry) != 0))
        wanted = false;
    json_decref(entry);
    if (a->options.logprobs && !wanted)
        return CAIRN_NOMEM;
    return wanted ? cairn_buf_append(&a->noted, &one, sizeof one) : CAIRN_OK;
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
    a->shown_bytes += n;
    if (a->stream != NULL) {
        cairn_chat_text deltas = {.text = "[]", .bytes = 2};
        status = cairn_chat_stream_feed(a->stream, from, n, a->options.stream ? &deltas : NULL, NULL);
        if (status == CAIRN_OK)
            status = cairn_answer_wire_deltas(a, &deltas, out);
    } else if (a->options.stream) {
        status = cairn_answer_wire_text(a, from, n, a->shown_bytes, out);
    }
    return status;
}

/* Append, with U+FFFD for each NUL: clients send the text back, and no JSON with a NUL is taken from them. */
static cairn_status append_text(cairn_buf *buf, const char *text, size_t len_bytes)
{
    cairn_status status = CAIRN_OK;
    for (size_t at = 0; at < len_bytes && status == CAIRN_OK;) {
        const char *nul = memchr(text + at, '\0', len_bytes - at);
        size_t end = nul != NULL ? (size_t)(nul - text) : len_bytes;
        status = cairn_buf_append(buf, text + at, end - at);
        if (status == CAIRN_OK && nul != NULL)
            status = cairn_buf_append_str(buf, "\xEF\xBF\xBD");
        at = nul != NULL ? end + 1 : end;
    }
    return status;
}

cairn_status cairn_answer_text(cairn_answer *a, const char *text, size_t len_bytes, cairn_buf *out,
                               bool *ret_stopped)
{
    CAIRN_ASSERT(a->stop_found < 0);
    *ret_stopped = false;
    size_t begin = a->text.len_bytes;
    cairn_status status = append_text(&a->text, text, len_bytes);
    if (status == CAIRN_OK && a->stream != NULL)
        status = cairn_buf_append(&a->begins, &begin, sizeof begin);
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

/* --- end -------------------------------------------------------------------------------------------------------- */

const char *cairn_answer_finish_word(const cairn_answer *a, cairn_finish finish)
{
    if (finish == CAIRN_FINISH_LENGTH)
        return "length";
    if (a->stream != NULL && cairn_chat_stream_count_calls(a->stream) > 0)
        return "tool_calls";
    return "stop";
}

/* How many tokens the reasoning has: those whose text begins in it, where it stands in what was written. */
static uint32_t count_reasoning(const cairn_answer *a, const json_t *message)
{
    const json_t *reasoning = json_object_get(message, "reasoning_content");
    size_t len = json_string_length(reasoning), count = a->begins.len_bytes / sizeof(size_t);
    const size_t *begins = (const size_t *)(const void *)a->begins.bytes;
    const char *text = cairn_buf_str(&a->text),
               *at = len > 0 ? strstr(text, json_string_value(reasoning)) : NULL;
    uint32_t n = 0;
    for (size_t i = 0; at != NULL && i < count; i++)
        n += begins[i] >= (size_t)(at - text) && begins[i] < (size_t)(at - text) + len;
    return n;
}

cairn_status cairn_answer_end(cairn_answer *a, cairn_finish finish, const cairn_record *record,
                              const cairn_request_times *times, cairn_buf *out)
{
    cairn_answer_ending own = {.finish = finish, .record = record, .times = times};
    cairn_status status = show(a, a->text.len_bytes, true, out);
    cairn_chat_text deltas = {.text = "[]", .bytes = 2}, message = {.text = "null", .bytes = 4};
    if (status == CAIRN_OK && a->stream != NULL) {
        status = cairn_chat_stream_finish(a->stream, &deltas, &message, NULL);
        if (status == CAIRN_OK)
            status = cairn_answer_wire_deltas(a, &deltas, out);
    }
    if (status != CAIRN_OK)
        return status;
    json_t *parsed = json_loadb(message.text, message.bytes, JSON_DECODE_ANY, NULL);
    if (parsed == NULL)
        return CAIRN_NOMEM;
    own.reasoning_tokens = count_reasoning(a, parsed);
    status = cairn_answer_wire_end(a, &own, parsed, out);
    json_decref(parsed);
    return status;
}

cairn_status cairn_answer_fail(cairn_answer *a, const cairn_api_error *error, const cairn_record *record,
                               cairn_buf *out)
{
    return a->options.stream ? cairn_answer_wire_fail(a, error, record, out) : CAIRN_OK;
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
