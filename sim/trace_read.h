/*
 * trace_read - inside of trace_file: what the two line formats share. For trace_*.c only.
 */
#ifndef CAIRN_SIM_TRACE_READ_H
#define CAIRN_SIM_TRACE_READ_H

#include <jansson.h>

#include "draft.h"

enum { CAIRN_TRACE_REASON = 120 };

/* A name that was seen: a session, a response id or a namespace. */
typedef struct cairn_trace_name {
    char *text;
    uint32_t number;
    json_t *history; /* response ids: the items up to and with that response */
} cairn_trace_name;

typedef struct cairn_trace_names {
    cairn_trace_name *items;
    uint32_t count, room;
} cairn_trace_names;

typedef struct cairn_trace_read {
    const cairn_mem *mem;
    cairn_workload *w;
    cairn_draft draft;
    cairn_trace_names sessions, spaces, responses;
    cairn_trace_names open;          /* last response of a session that no later request has named yet */
    char reason[CAIRN_TRACE_REASON]; /* why the line is refused */
} cairn_trace_read;

/* The entry for this name, made when new; NULL when there is no room. */
cairn_trace_name *cairn_trace_name_of(cairn_trace_read *read, cairn_trace_names *names, const char *text);

/* Keep why this line is refused; gives CAIRN_INVALID. */
cairn_status cairn_trace_refuse(cairn_trace_read *read, const char *format, ...) CAIRN_PRINTF(2, 3);

/* One line of either kind becomes one request, or none. CAIRN_INVALID: see reason. */
CAIRN_MUST_CHECK cairn_status cairn_trace_client_line(cairn_trace_read *read, const json_t *line,
                                                      cairn_error *reterr);
/* What a recording server says of itself: sets read->w->server and slots. */
CAIRN_MUST_CHECK cairn_status cairn_trace_native_head(cairn_trace_read *read, const json_t *line);
CAIRN_MUST_CHECK cairn_status cairn_trace_native_line(cairn_trace_read *read, const json_t *line,
                                                      cairn_error *reterr);

#endif
