/*
 * normalize - see the header. A text is looked at line by line; a rule says whether a line is its own.
 */
#include "serve/normalize.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"

enum { LINE_BYTES_MAX = 200 }; /* a longer line is prose, not a stamp */

typedef struct head {
    json_t *notes;
    cairn_buf moved; /* lines for the last user message */
    bool apply, changed, broken;
} head;

/* --- rules ------------------------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A time of day with minutes: 9:41, 18:21:07. */
static bool holds_time(const char *line, size_t len)
{
    for (size_t i = 1; i + 2 < len; i++) {
        if (line[i] == ':' && is_digit(line[i - 1]) && is_digit(line[i + 1]) && is_digit(line[i + 2]) &&
            (i + 3 == len || !is_digit(line[i + 3])))
            return true;
    }
    return false;
}

static bool holds_word(const char *line, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= len; i++) {
        if (strncasecmp(line + i, word, n) == 0)
            return true;
    }
    return false;
}

static bool is_billing(const char *line, size_t len)
{
    static const char mark[] = "x-anthropic-billing-header:";
    return len >= sizeof mark - 1 && strncasecmp(line, mark, sizeof mark - 1) == 0;
}

static bool is_clock(const char *line, size_t len)
{
    if (len > LINE_BYTES_MAX || !holds_time(line, len))
        return false;
    return holds_word(line, len, "current time") || holds_word(line, len, "current date") ||
           holds_word(line, len, "time is") || holds_word(line, len, "time now") ||
           holds_word(line, len, "local time");
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

static void note(head *h, const char *rule, size_t message, size_t part, size_t at, size_t len)
{
    bool clock = strcmp(rule, "clock") == 0;
    const char *done = !h->apply ? "reported" : clock ? "moved" : "dropped";
    if (h->notes == NULL)
        h->notes = json_array();
    if (json_array_size(h->notes) < CAIRN_NORMALIZE_NOTES_MAX) {
        json_array_append_new(h->notes, json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "rule", rule, "message",
                                                  (json_int_t)message, "part", (json_int_t)part, "byte",
                                                  (json_int_t)at, "bytes", (json_int_t)len, "done", done));
    }
}

/* Look at a text; gives what is left of it (a new value) when lines were taken out, else NULL. */
static json_t *scan(head *h, const json_t *value, size_t message, size_t part)
{
    const char *text = json_string_value(value);
    size_t size = json_string_length(value), kept = 0;
    cairn_buf rest;
    cairn_buf_init(&rest, cairn_mem_default(), size + 1);
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t end = newline != NULL ? (size_t)(newline - text) : size, next = end < size ? end + 1 : size;
        const char *rule = at == 0 && is_billing(text, end) ? "claude-billing"
                           : is_clock(text + at, end - at)  ? "clock"
                                                            : NULL;
        if (rule != NULL) {
            note(h, rule, message, part, at, end - at);
            cairn_status status = cairn_buf_append(&rest, text + kept, at - kept);
            if (status == CAIRN_OK && h->apply && strcmp(rule, "clock") == 0)
                status = cairn_buf_append(&h->moved, text + at, end - at);
            if (status == CAIRN_OK && h->apply && strcmp(rule, "clock") == 0)
                status = cairn_buf_append_str(&h->moved, "\n");
            h->broken = h->broken || status != CAIRN_OK;
            kept = next;
        }
        at = next;
    }
    json_t *left = NULL;
    if (h->apply && kept > 0 && !h->broken && cairn_buf_append(&rest, text + kept, size - kept) == CAIRN_OK)
        left = json_stringn(cairn_buf_str(&rest), rest.len_bytes);
    h->changed = h->changed || left != NULL;
    cairn_buf_release(&rest);
    return left;
}

/* A text part that is left empty goes; its mark, if any, moves to the part before it. */
static void scan_parts(head *h, json_t *parts, size_t message)
{
    for (size_t i = 0; i < json_array_size(parts);) {
        json_t *part = json_array_get(parts, i);
        const json_t *text = json_object_get(part, "text");
        json_t *left = json_is_string(text) ? scan(h, text, message, i) : NULL;
        if (left == NULL) {
            i++;
            continue;
        }
        if (json_string_length(left) == 0 && json_array_size(parts) > 1) {
            json_t *mark = json_object_get(part, "cache_control");
            if (mark != NULL && i > 0)
                json_object_set(json_array_get(parts, i - 1), "cache_control", mark);
            json_decref(left);
            json_array_remove(parts, i);
            continue;
        }
        json_t *copy = json_copy(part); /* the part may be shared */
        json_object_set_new(copy, "text", left);
        json_array_set_new(parts, i, copy);
        i++;
    }
}

/* The lines that were moved come back at the end of the last user message. */
static void put_back(head *h, json_t *messages)
{
    size_t last = json_array_size(messages);
    while (last > 0) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, last - 1), "role"));
        if (role != NULL && strcmp(role, "user") == 0)
            break;
        last--;
    }
    json_t *text = json_sprintf("<system-reminder>\n%s</system-reminder>", cairn_buf_str(&h->moved));
    if (last == 0) {
        json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "user", "content", text));
        return;
    }
    json_t *message = json_array_get(messages, last - 1), *content = json_object_get(message, "content");
    json_t *part = json_pack("{s:s, s:o}", "type", "text", "text", text);
    if (json_is_array(content)) {
        json_array_append_new(content, part);
    } else {
        json_object_set_new(message, "content",
                            json_pack("[{s:s, s:O}, o]", "type", "text", "text", content, part));
    }
}

json_t *cairn_normalize(json_t *body, bool apply, bool *ret_changed)
{
    head h = {.apply = apply};
    json_t *messages = json_object_get(body, "messages");
    cairn_buf_init(&h.moved, cairn_mem_default(), (size_t)1 << 20);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i), *content = json_object_get(message, "content");
        const char *role = json_string_value(json_object_get(message, "role"));
        if (role == NULL || (strcmp(role, "system") != 0 && strcmp(role, "developer") != 0))
            break;
        json_t *left = json_is_string(content) ? scan(&h, content, i, 0) : NULL;
        if (left != NULL)
            json_object_set_new(message, "content", left);
        scan_parts(&h, content, i);
    }
    if (h.moved.len_bytes > 0 && !h.broken)
        put_back(&h, messages);
    cairn_buf_release(&h.moved);
    *ret_changed = h.changed;
    return h.notes;
}
