/*
 * answer_form - see the header. A message becomes a JSON value in which equal things are written equally; its text with
 * sorted keys is the form.
 */
#include "serve/answer_form.h"

#include <math.h>
#include <string.h>

/* Defaults that clients add to arguments before they send a call back: they change nothing. */
static const struct {
    const char *tool, *key;
    bool value;
} added[] = {
    {"Edit", "replace_all", false}, /* Claude Code */
};

/* --- values ------------------------------------------------------------------------------------------------------ */

static json_t *normal_value(const json_t *value);

static json_t *normal_object(const json_t *value)
{
    json_t *out = json_object();
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        if (json_object_set_new_nocheck(out, key, normal_value(item)) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* 1.0 is 1: a client in JavaScript can't tell them apart. Beyond 2^53 a number may stand for several: it stays. */
static json_t *normal_number(double value)
{
    if (floor(value) == value && fabs(value) <= 9007199254740992.0)
        return json_integer((json_int_t)value);
    return json_real(value);
}

/* The same value, with numbers of equal value written equally; a new reference. */
static json_t *normal_value(const json_t *value)
{
    if (json_is_object(value))
        return normal_object(value);
    if (json_is_real(value))
        return normal_number(json_real_value(value));
    if (!json_is_array(value))
        return json_incref((json_t *)(uintptr_t)value);
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (json_array_append_new(out, normal_value(json_array_get(value, i))) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* --- parts of a message ------------------------------------------------------------------------------------------ */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t trimmed(const char *text, size_t len)
{
    while (len > 0 && is_blank(text[len - 1]))
        len--;
    return len;
}

static json_t *copy_without_marks(const json_t *part)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)part);
    json_object_del(copy, "cache_control");
    return copy;
}

/* Text parts are joined; others stay as they are, behind the text. */
static cairn_status add_content(json_t *out, const json_t *content, const cairn_buf *like)
{
    if (json_is_string(content)) {
        const char *text = json_string_value(content);
        json_object_set_new(out, "content",
                            json_stringn_nocheck(text, trimmed(text, json_string_length(content))));
        return CAIRN_OK;
    }
    cairn_buf joined;
    cairn_buf_init(&joined, like->mem, SIZE_MAX / 4);
    json_t *others = NULL;
    cairn_status status = CAIRN_OK;
    for (size_t i = 0; i < json_array_size(content) && status == CAIRN_OK; i++) {
        const json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
        if (json_is_string(text)) {
            status = cairn_buf_append(&joined, json_string_value(text), json_string_length(text));
        } else {
            others = others != NULL ? others : json_array();
            json_array_append_new(others, copy_without_marks(part));
        }
    }
    const char *text = cairn_buf_str(&joined);
    json_object_set_new(out, "content", json_stringn_nocheck(text, trimmed(text, joined.len_bytes)));
    if (others != NULL)
        json_object_set_new(out, "parts", others);
    cairn_buf_release(&joined);
    return status;
}

/* Arguments are JSON in a string, or the object itself; what does not parse is compared as it stands. */
static json_t *normal_arguments(const char *tool, const json_t *arguments)
{
    json_t *parsed = NULL;
    if (json_is_string(arguments)) {
        const char *text = json_string_value(arguments);
        size_t len = trimmed(text, json_string_length(arguments));
        if (len == 0)
            return json_object();
        parsed = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (parsed == NULL)
            return json_incref((json_t *)(uintptr_t)arguments);
    } else if (arguments == NULL || json_is_null(arguments)) {
        return json_object();
    }
    json_t *out = normal_value(parsed != NULL ? parsed : arguments);
    json_decref(parsed);
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        const json_t *value = json_object_get(out, added[i].key);
        if (tool != NULL && strcmp(tool, added[i].tool) == 0 && json_is_boolean(value) &&
            json_is_true(value) == added[i].value)
            json_object_del(out, added[i].key);
    }
    return out;
}

static void add_calls(json_t *out, const json_t *calls)
{
    if (json_array_size(calls) == 0)
        return;
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *name = json_object_get(function, "name");
        json_t *call = json_object();
        json_object_set(call, "name", (json_t *)(uintptr_t)name);
        json_object_set_new(
            call, "arguments",
            normal_arguments(json_string_value(name), json_object_get(function, "arguments")));
        json_array_append_new(list, call);
    }
    json_object_set_new(out, "calls", list);
}

static const char *role_of(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    if (role == NULL)
        return "";
    if (strcmp(role, "developer") == 0)
        return "system";
    return strcmp(role, "function") == 0 ? "tool" : role;
}

/* All digits of a number, unlike cairn_json_write: what differs must not look alike. */
static cairn_status write_value(cairn_buf *out, const json_t *value, size_t flags)
{
    flags |= JSON_COMPACT | JSON_ENCODE_ANY;
    size_t size = json_dumpb(value, NULL, 0, flags);
    cairn_status status = size == 0 ? CAIRN_NOMEM : cairn_buf_reserve(out, size);
    if (status == CAIRN_OK) {
        (void)json_dumpb(value, (char *)out->bytes + out->len_bytes, size, flags);
        out->len_bytes += size;
        out->bytes[out->len_bytes] = 0;
    }
    return status;
}

/* --- interface --------------------------------------------------------------------------------------------------- */

cairn_status cairn_answer_form(const json_t *message, cairn_buf *out)
{
    json_t *value = json_object();
    json_object_set_new(value, "role", json_string_nocheck(role_of(message)));
    cairn_status status = add_content(value, json_object_get(message, "content"), out);
    add_calls(value, json_object_get(message, "tool_calls"));
    if (status == CAIRN_OK)
        status = write_value(out, value, JSON_SORT_KEYS);
    json_decref(value);
    return status;
}

cairn_status cairn_answer_call_ids(const json_t *message, cairn_buf *out)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    size_t before = out->len_bytes;
    cairn_status status = CAIRN_OK;
    for (size_t i = 0; i < json_array_size(calls) && status == CAIRN_OK; i++) {
        const json_t *id = json_object_get(json_array_get(calls, i), "id");
        if (json_string_length(id) == 0) {
            out->len_bytes = before; /* ids of some of them prove nothing */
            return CAIRN_OK;
        }
        status = cairn_buf_append(out, json_string_value(id), json_string_length(id));
        if (status == CAIRN_OK)
            status = cairn_buf_append_byte(out, '\n');
    }
    return status;
}

static const json_t *reasoning_of(const json_t *message)
{
    const json_t *reasoning = json_object_get(message, "reasoning_content");
    return json_is_string(reasoning) ? reasoning : json_object_get(message, "reasoning");
}

bool cairn_answer_reasoning_fits(const json_t *message, const json_t *answer)
{
    const json_t *theirs = reasoning_of(message), *own = json_object_get(answer, "reasoning_content");
    const char *a = json_is_string(theirs) ? json_string_value(theirs) : "";
    const char *b = json_is_string(own) ? json_string_value(own) : "";
    size_t a_len = trimmed(a, json_is_string(theirs) ? json_string_length(theirs) : 0);
    size_t b_len = trimmed(b, json_is_string(own) ? json_string_length(own) : 0);
    for (; a_len > 0 && is_blank(*a); a_len--)
        a++;
    for (; b_len > 0 && is_blank(*b); b_len--)
        b++;
    return a_len == 0 || (a_len == b_len && memcmp(a, b, a_len) == 0);
}

cairn_status cairn_answer_request(const json_t *request, cairn_buf *out)
{
    return write_value(out, request, 0);
}

json_t *cairn_answer_put_back(const json_t *message, const json_t *answer, bool *ret_changed)
{
    json_t *out = json_deep_copy(message);
    json_t *content = json_object_get(answer, "content");
    const json_t *reasoning = json_object_get(answer, "reasoning_content");
    if (out == NULL)
        return NULL;
    json_object_set(out, "content", content);
    if (json_is_string(reasoning))
        json_object_set(out, "reasoning_content", (json_t *)(uintptr_t)reasoning);
    const json_t *calls = json_object_get(out, "tool_calls"), *own = json_object_get(answer, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *own_function = json_object_get(json_array_get(own, i), "function");
        json_object_set(function, "arguments", json_object_get(own_function, "arguments"));
    }
    *ret_changed = !json_equal((json_t *)(uintptr_t)message, out);
    return out;
}
