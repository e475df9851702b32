/*
 * trace_file - opens a trace, hands each line to the reader of its kind, and says where a bad one is.
 */
#include "trace_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "line_file.h"
#include "trace_read.h"

#define LINE_BYTES_MAX ((size_t)256 << 20)

cairn_status cairn_trace_refuse(cairn_trace_read *read, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(read->reason, sizeof read->reason, format, args);
    va_end(args);
    return CAIRN_INVALID;
}

cairn_trace_name *cairn_trace_name_of(cairn_trace_read *read, cairn_trace_names *names, const char *text)
{
    for (uint32_t i = names->count; i-- > 0;) {
        if (strcmp(names->items[i].text, text) == 0) {
            return &names->items[i];
        }
    }
    if (names->count == names->room) {
        uint32_t room = names->room * 2 + 16;
        void *bigger =
            cairn_mem_array_resize(read->mem, names->items, names->room, room, sizeof *names->items);
        if (bigger == NULL) {
            return NULL;
        }
        names->items = bigger;
        names->room = room;
    }
    char *copy = cairn_mem_str_dup(read->mem, text);
    if (copy == NULL) {
        return NULL;
    }
    cairn_trace_name *name = &names->items[names->count];
    *name = (cairn_trace_name){.text = copy, .number = names->count, .history = NULL};
    names->count++;
    return name;
}

static void names_release(cairn_trace_read *read, cairn_trace_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        json_decref(names->items[i].history);
        cairn_mem_str_release(read->mem, names->items[i].text);
    }
    cairn_mem_array_release(read->mem, names->items, names->room, sizeof *names->items);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* "claude.jsonl.zst" -> "claude" */
static void name_after(const char *path, char *name, size_t room)
{
    (void)snprintf(name, room, "%s", base_name(path));
    char *dot = strchr(name, '.');
    if (dot != NULL && dot != name) {
        *dot = '\0';
    }
}

static cairn_status read_line(cairn_trace_read *read, const char *text, size_t bytes, cairn_error *reterr)
{
    json_error_t at;
    json_t *line = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &at);
    if (line == NULL) {
        return cairn_trace_refuse(read, "not JSON at byte %d: %s", at.position, at.text);
    }
    cairn_status status = CAIRN_OK;
    if (!json_is_object(line)) {
        status = cairn_trace_refuse(read, "not an object");
    } else if (json_object_get(line, "body") != NULL) {
        status = cairn_trace_client_line(read, line, reterr);
    } else if (json_object_get(line, "cairn") != NULL) {
        status = cairn_trace_native_head(read, line);
    } else if (json_object_get(line, "tokens") != NULL || json_object_get(line, "hashes") != NULL) {
        status = cairn_trace_native_line(read, line, reterr);
    } else {
        status = cairn_trace_refuse(read, "has neither \"body\" nor \"tokens\" nor \"hashes\"");
    }
    json_decref(line);
    return status;
}

static cairn_status read_lines(cairn_trace_read *read, cairn_line_file *file, const char *path,
                               cairn_error *reterr)
{
    for (;;) {
        const char *text = NULL;
        size_t bytes = 0;
        cairn_status status = cairn_line_file_next(file, &text, &bytes, reterr);
        if (status != CAIRN_OK || text == NULL) {
            return status;
        }
        if (bytes == 0) {
            continue;
        }
        read->reason[0] = '\0';
        status = read_line(read, text, bytes, reterr);
        if (status == CAIRN_INVALID && read->reason[0] != '\0') {
            return cairn_error_set(reterr, status, "sim/trace_file", "%.40s:%llu: %s", base_name(path),
                                   (unsigned long long)cairn_line_file_number(file), read->reason);
        }
        if (status != CAIRN_OK) {
            return status;
        }
    }
}

cairn_status cairn_trace_file_read(const cairn_mem *mem, const char *path, cairn_workload *w,
                                   cairn_error *reterr)
{
    char name[CAIRN_WORKLOAD_LABEL];
    name_after(path, name, sizeof name);
    cairn_workload_init(w, mem, name);
    w->recorded = true;
    cairn_line_file *file = NULL;
    cairn_status status = cairn_line_file_open(mem, path, LINE_BYTES_MAX, &file, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_trace_read read = {.mem = mem, .w = w};
    cairn_draft_init(&read.draft, mem);
    status = read_lines(&read, file, path, reterr);
    if (status == CAIRN_OK && w->count_requests == 0) {
        status = cairn_error_set(reterr, CAIRN_INVALID, "sim/trace_file", "%.40s holds no request",
                                 base_name(path));
    }
    if (status == CAIRN_OK && w->server.batch_tokens > 0) {
        cairn_workload_sort(w); /* a server writes a request when it has ended */
    }
    names_release(&read, &read.sessions);
    names_release(&read, &read.spaces);
    names_release(&read, &read.responses);
    names_release(&read, &read.open);
    cairn_draft_release(&read.draft);
    cairn_line_file_close(file);
    return status;
}
