/*
 * marks - see the header.
 */
#define _GNU_SOURCE /* memmem */
#include "serve/marks.h"

#include <string.h>

enum { TEXT_BYTES_MIN = 16 }; /* a shorter text may stand anywhere */

typedef struct region {
    size_t begin, end;
} region;

static bool is_marked(const json_t *part)
{
    const json_t *mark = json_object_get(part, "cache_control");
    return mark != NULL && !json_is_null(mark);
}

/* Marks that are not at the end of their message. */
static size_t count_inner(const json_t *messages)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        for (size_t k = 0; k + 1 < json_array_size(content); k++)
            count += is_marked(json_array_get(content, k)) ? 1 : 0;
    }
    return count;
}

/* Where message `index` stands, as far as the boundaries tell. */
static region region_of(const cairn_chat_prompt *prompt, size_t index)
{
    region r = {.begin = 0, .end = prompt->text_bytes};
    for (size_t i = 0; i < prompt->count_boundaries; i++) {
        const cairn_chat_boundary *b = &prompt->boundaries[i];
        if ((b->kinds & (CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_OPENER)) == 0)
            continue;
        if (b->message <= index) {
            r.begin = b->offset_bytes;
        } else {
            r.end = b->offset_bytes;
            break;
        }
    }
    return r;
}

/* Where `text` ends in the region; 0: it is not there. Templates trim: so does this. */
static size_t find_end(const cairn_chat_prompt *prompt, region where, const char *text, size_t len)
{
    while (len > 0 && strchr(" \t\r\n", text[0]) != NULL) {
        text++;
        len--;
    }
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
        len--;
    if (len < TEXT_BYTES_MIN || where.begin >= where.end)
        return 0;
    const char *found = memmem(prompt->text + where.begin, where.end - where.begin, text, len);
    return found != NULL ? (size_t)(found - prompt->text) + len : 0;
}

/* Keep the list ascending and each offset once. */
static void insert(cairn_chat_boundary *list, size_t *count, const cairn_chat_boundary *boundary)
{
    size_t at = *count;
    while (at > 0 && list[at - 1].offset_bytes >= boundary->offset_bytes)
        at--;
    if (at < *count && list[at].offset_bytes == boundary->offset_bytes) {
        list[at].kinds |= boundary->kinds;
        return;
    }
    memmove(&list[at + 1], &list[at], (*count - at) * sizeof list[0]);
    list[at] = *boundary;
    (*count)++;
}

cairn_status cairn_marks_add(const cairn_mem *mem, const json_t *messages, const cairn_chat_prompt *prompt,
                             cairn_chat_boundary **ret_list, size_t *ret_count, size_t *ret_room)
{
    size_t room = prompt->count_boundaries + count_inner(messages);
    cairn_chat_boundary *list = cairn_mem_array(mem, room, sizeof *list);
    if (list == NULL)
        return CAIRN_NOMEM;
    size_t count = prompt->count_boundaries;
    if (count > 0)
        memcpy(list, prompt->boundaries, count * sizeof *list);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        region where = region_of(prompt, i);
        for (size_t k = 0; k + 1 < json_array_size(content); k++) {
            const json_t *part = json_array_get(content, k), *text = json_object_get(part, "text");
            if (!json_is_string(text) || !is_marked(part))
                continue;
            size_t end = find_end(prompt, where, json_string_value(text), json_string_length(text));
            if (end == 0)
                continue;
            const cairn_chat_boundary boundary = {
                .offset_bytes = end, .message = (uint32_t)i, .kinds = CAIRN_BOUNDARY_MARK};
            insert(list, &count, &boundary);
            where.begin = end;
        }
    }
    *ret_list = list;
    *ret_count = count;
    *ret_room = room;
    return CAIRN_OK;
}
