/*
 * perfetto - one request's time line in the Chrome trace format, which ui.perfetto.dev and chrome://tracing open.
 *
 *   track "request"  waits | reads the prompt | writes the answer
 *   track "work"     lookup fetch restore  read save read save ...  write
 *
 * Units    microseconds since the request arrived
 * Owner    the value is the caller's; NULL when there is no memory
 * Thread   any
 * See      docs/api.md
 */
#ifndef CAIRN_PERFETTO_H
#define CAIRN_PERFETTO_H

#include <jansson.h>

#include "serve/history.h"

/* {"traceEvents":[..],"displayTimeUnit":"ms"} */
json_t *cairn_perfetto_json(const cairn_history_entry *entry);

#endif
