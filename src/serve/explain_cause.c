/*
 * explain_cause - which habit of a client makes two requests differ; see explain.h. Looks at JSON only.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "serve/explain.h"

enum { LOOK_BACK_BYTES = 48 };

static const struct {
    const char *word, *text, *advice;
} causes[] = {
#define CAIRN_CAUSE_ENTRY(name, word, text, advice) {word, text, advice},
    CAIRN_CAUSE_MAP(CAIRN_CAUSE_ENTRY)
#undef CAIRN_CAUSE_ENTRY
};

const char *cairn_cause_word(cairn_cause cause)
{
    return causes[cause].word;
}

const char *cairn_cause_text(cairn_cause cause)
{
    return causes[cause].text;
}

const char *cairn_cause_advice(cairn_cause cause)
{
    return causes[cause].advice;
}

/* --- texts ------------------------------------------------------------------------------------------------------- */

static const char *text_field(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

/* A message's text, or its first text part that differs from the other's. */
static void texts_of(const json_t *a, const json_t *b, const char **ret_a, const char **ret_b)
{
    const json_t *ca = json_object_get(a, "content"), *cb = json_object_get(b, "content");
    *ret_a = json_is_string(ca) ? json_string_value(ca) : "";
    *ret_b = json_is_string(cb) ? json_string_value(cb) : "";
    if (!json_is_array(ca) && !json_is_array(cb))
        return;
    size_t na = json_is_array(ca) ? json_array_size(ca) : 1, nb = json_is_array(cb) ? json_array_size(cb) : 1;
    for (size_t i = 0; i < na || i < nb; i++) {
        const char *ta = json_is_array(ca) ? text_field(json_array_get(ca, i), "text") : i == 0 ? *ret_a : "";
        const char *tb = json_is_array(cb) ? text_field(json_array_get(cb, i), "text") : i == 0 ? *ret_b : "";
        if (strcmp(ta, tb) != 0) {
            *ret_a = ta;
            *ret_b = tb;
            return;
        }
    }
}

static bool only_blanks_differ(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        if (isspace((unsigned char)*a)) {
            a++;
        } else if (isspace((unsigned char)*b)) {
            b++;
        } else if (*a == *b) {
            a++, b++;
        } else {
            return false;
        }
    }
    return true;
}

/* Does one of the words stand in text[from, to)? Words are in lower case. */
static bool has_word(const char *text, size_t from, size_t to, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        size_t n = strlen(words[i]);
        for (size_t at = from; at + n <= to; at++) {
            if (strncasecmp(text + at, words[i], n) == 0)
                return true;
        }
    }
    return false;
}

/* "12:30", "2026-01", "1.2.2026" around `at`. */
static bool looks_like_time(const char *text, size_t from, size_t to)
{
    for (size_t i = from; i + 2 < to; i++) {
        if (isdigit((unsigned char)text[i]) && (text[i + 1] == ':' || text[i + 1] == '-') &&
            isdigit((unsigned char)text[i + 2]))
            return true;
    }
    return false;
}

/* Are the texts equal but for one line? */
static bool one_line_differs(const char *a, const char *b)
{
    size_t same = 0;
    while (a[same] != '\0' && a[same] == b[same])
        same++;
    const char *rest_a = strchr(a + same, '\n'), *rest_b = strchr(b + same, '\n');
    return rest_a != NULL && rest_b != NULL && strcmp(rest_a, rest_b) == 0;
}

static cairn_cause system_cause(const char *a, const char *b)
{
    static const char *const times[] = {"date",      "time",     "today",  "clock",    "monday", "tuesday",
                                        "wednesday", "thursday", "friday", "saturday", "sunday", NULL};
    if (only_blanks_differ(a, b))
        return CAIRN_CAUSE_BLANKS;
    size_t same = 0;
    while (a[same] != '\0' && a[same] == b[same])
        same++;
    size_t from = same > LOOK_BACK_BYTES ? same - LOOK_BACK_BYTES : 0;
    size_t end_a = same + strcspn(a + same, "\n"), end_b = same + strcspn(b + same, "\n");
    size_t to_a = end_a < same + LOOK_BACK_BYTES ? end_a : same + LOOK_BACK_BYTES;
    size_t number = same;
    while (number > 0 && isalnum((unsigned char)a[number - 1]))
        number--; /* the word that changed begins here */
    bool digits = strcspn(a + number, "0123456789") < 24 && strcspn(b + number, "0123456789") < 24 &&
                  a[number] != '\0' && b[number] != '\0';
    bool number_there = digits && (isdigit((unsigned char)a[same]) || isdigit((unsigned char)b[same]) ||
                                   (same > 0 && isdigit((unsigned char)a[same - 1])));
    if (looks_like_time(a, from, to_a) || looks_like_time(b, from, end_b < to_a ? end_b : to_a) ||
        (has_word(a, from, to_a, times) && one_line_differs(a, b)) ||
        (has_word(a, from, to_a, times) && number_there))
        return CAIRN_CAUSE_CLOCK;
    if (number_there)
        return CAIRN_CAUSE_NUMBER;
    return one_line_differs(a, b) ? CAIRN_CAUSE_LINE : CAIRN_CAUSE_SYSTEM;
}

/* --- tools ------------------------------------------------------------------------------------------------------- */

static const char *tool_name(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function");
    return text_field(function != NULL ? function : tool, "name");
}

static const json_t *find_tool(const json_t *tools, const char *name)
{
    size_t i;
    json_t *tool;
    json_array_foreach((json_t *)tools, i, tool)
    {
        if (strcmp(tool_name(tool), name) == 0)
            return tool;
    }
    return NULL;
}

/* Compact text of both is the same: order of keys included, which a template prints. */
static bool same_text(const json_t *a, const json_t *b)
{
    char *ta = json_dumps(a, JSON_COMPACT | JSON_ENCODE_ANY),
         *tb = json_dumps(b, JSON_COMPACT | JSON_ENCODE_ANY);
    bool same = ta != NULL && tb != NULL && strcmp(ta, tb) == 0;
    json_free_t give_back;
    json_get_alloc_funcs(NULL, &give_back);
    give_back(ta);
    give_back(tb);
    return same;
}

/* *ret_cause is set when they differ. */
static bool tools_differ(const json_t *a, const json_t *b, cairn_cause *ret_cause)
{
    size_t na = json_array_size(a), nb = json_array_size(b), i;
    json_t *tool;
    *ret_cause = CAIRN_CAUSE_TOOLS_SET;
    if (na != nb)
        return true;
    bool order = false, text = false;
    json_array_foreach((json_t *)a, i, tool)
    {
        const json_t *other = find_tool(b, tool_name(tool));
        if (other == NULL)
            return true;
        order |= strcmp(tool_name(tool), tool_name(json_array_get(b, i))) != 0;
        text |= !same_text(tool, other);
    }
    *ret_cause = order ? CAIRN_CAUSE_TOOLS_ORDER : CAIRN_CAUSE_TOOL_TEXT;
    return order || text;
}

/* --- messages ---------------------------------------------------------------------------------------------------- */

static cairn_cause calls_cause(const json_t *a, const json_t *b)
{
    if (json_array_size(a) != json_array_size(b))
        return CAIRN_CAUSE_ANSWER;
    size_t i;
    json_t *call;
    cairn_cause found = CAIRN_CAUSE_SAME;
    json_array_foreach((json_t *)a, i, call)
    {
        const json_t *other = json_array_get(b, i);
        const json_t *fa = json_object_get(call, "function"), *fb = json_object_get(other, "function");
        if (strcmp(text_field(fa, "name"), text_field(fb, "name")) != 0)
            return CAIRN_CAUSE_ANSWER;
        if (!same_text(json_object_get(fa, "arguments"), json_object_get(fb, "arguments"))) {
            json_t *va = json_loads(text_field(fa, "arguments"), JSON_DECODE_ANY, NULL);
            json_t *vb = json_loads(text_field(fb, "arguments"), JSON_DECODE_ANY, NULL);
            bool equal = va != NULL && vb != NULL && json_equal(va, vb) == 1;
            json_decref(va);
            json_decref(vb);
            if (!equal)
                return CAIRN_CAUSE_ANSWER;
            found = CAIRN_CAUSE_ARGUMENTS;
        } else if (strcmp(text_field(call, "id"), text_field(other, "id")) != 0 &&
                   found == CAIRN_CAUSE_SAME) {
            found = CAIRN_CAUSE_CALL_IDS;
        }
    }
    return found;
}

static cairn_cause assistant_cause(const json_t *a, const json_t *b, const char *ta, const char *tb)
{
    const char *const names[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(text_field(a, names[i]), text_field(b, names[i])) != 0)
            return CAIRN_CAUSE_REASONING;
    }
    cairn_cause calls = calls_cause(json_object_get(a, "tool_calls"), json_object_get(b, "tool_calls"));
    if (calls != CAIRN_CAUSE_SAME)
        return calls;
    if ((strstr(ta, "</think>") != NULL) != (strstr(tb, "</think>") != NULL))
        return CAIRN_CAUSE_REASONING;
    return only_blanks_differ(ta, tb) ? CAIRN_CAUSE_BLANKS : CAIRN_CAUSE_ANSWER;
}

static cairn_cause tool_cause(const char *a, const char *b)
{
    static const char *const words[] = {"cleared", "omitted", "removed", "truncated", "elided", NULL};
    if (only_blanks_differ(a, b))
        return CAIRN_CAUSE_BLANKS;
    if (strlen(b) < strlen(a) && (strlen(b) * 4 < strlen(a) || has_word(b, 0, strlen(b), words)))
        return CAIRN_CAUSE_TOOL_CLEARED;
    return CAIRN_CAUSE_TOOL_RESULT;
}

/* Does `message` stand in the list behind `from`? */
static bool comes_later(const json_t *list, size_t from, const json_t *message)
{
    for (size_t i = from + 1; i < json_array_size(list); i++) {
        if (json_equal(json_array_get(list, i), message) == 1)
            return true;
    }
    return false;
}

static cairn_cause message_cause(const json_t *la, const json_t *lb, size_t i)
{
    const json_t *a = json_array_get(la, i), *b = json_array_get(lb, i);
    const char *role = text_field(a, "role"), *ta, *tb;
    bool later_a = comes_later(la, i, b), later_b = comes_later(lb, i, a);
    if (later_a && !later_b)
        return CAIRN_CAUSE_DROPPED;
    if (later_b && !later_a)
        return CAIRN_CAUSE_INSERTED;
    /* What follows is a later part of the first: the messages between became a summary. */
    const json_t *next_b = json_array_get(lb, i + 1);
    if (json_array_size(la) > json_array_size(lb) && next_b != NULL && comes_later(la, i + 1, next_b))
        return CAIRN_CAUSE_DROPPED;
    texts_of(a, b, &ta, &tb);
    if (strcmp(role, text_field(b, "role")) != 0)
        return i == 0 ? CAIRN_CAUSE_OTHER : CAIRN_CAUSE_DROPPED;
    if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0)
        return system_cause(ta, tb);
    if (strcmp(role, "assistant") == 0)
        return assistant_cause(a, b, ta, tb);
    if (strcmp(role, "tool") == 0)
        return tool_cause(ta, tb);
    return only_blanks_differ(ta, tb) ? CAIRN_CAUSE_BLANKS : CAIRN_CAUSE_USER;
}

cairn_cause cairn_explain_cause(const json_t *a, const json_t *b, bool in_system, bool in_opener,
                                int *ret_message)
{
    const json_t *la = json_object_get(a, "messages"), *lb = json_object_get(b, "messages");
    size_t na = json_array_size(la), nb = json_array_size(lb), shorter = na < nb ? na : nb, i = 0;
    cairn_cause cause = CAIRN_CAUSE_SAME;
    *ret_message = -1;
    bool tools = tools_differ(json_object_get(a, "tools"), json_object_get(b, "tools"), &cause);
    while (i < shorter && json_equal(json_array_get(la, i), json_array_get(lb, i)) == 1)
        i++;
    if (tools && in_system)
        return cause;
    if (i < shorter) {
        *ret_message = (int)i;
        return message_cause(la, lb, i);
    }
    if (na == nb)
        return tools ? cause : CAIRN_CAUSE_SETTINGS;
    if (nb < na)
        return CAIRN_CAUSE_EARLIER;
    return in_opener ? CAIRN_CAUSE_EXTENDED : CAIRN_CAUSE_TEMPLATE;
}
