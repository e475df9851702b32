/*
 * perfetto - one request's time line in the Chrome trace format, which ui.perfetto.dev and chrome://tracing open.
 *
 *   track "request"  waits | reads the prompt | writes the answer
 *   track "work"     lookup fetch restore  read save read save ...  write
 *   track "disk"     what was written to disk of the request's namespace since it came (its own path as a rule)
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

enum { CAIRN_PERFETTO_WRITES_MAX = 64 };

/*
 * {"traceEvents":[..],"displayTimeUnit":"ms"}
 *
 *   writes  [in]  cairn_span[count]: see cairn_cache_disk_writes
 */
json_t *cairn_perfetto_json(const cairn_history_entry *entry, const cairn_span *writes, uint32_t count);

#endif
