/*
 * trace - events out, one JSON line each: the record of a run that the simulator reads again.
 *
 * A trace has no times of its own: an event that has one carries it as a field. So the same events give the same
 * bytes, and the digest of a trace tells whether two runs made the same plans.
 *
 * Thread   one at a time
 */
#ifndef CAIRN_BASE_TRACE_H
#define CAIRN_BASE_TRACE_H

#include "base/field.h"
#include "base/hash.h"

#define CAIRN_TRACE_LINE_BYTES 65536

typedef struct cairn_trace {
    const cairn_mem *mem;
    /* Takes one whole line, newline included; NULL: only the digest is kept. A failure is kept as trace->failed. */
    cairn_status (*write)(void *ctx, const char *line, size_t len_bytes);
    void *ctx;
    char *line; /* char[CAIRN_TRACE_LINE_BYTES] */
    uint64_t events;
    uint64_t digest;     /* of all lines so far */
    cairn_status failed; /* the first failure of write; later lines are still digested, but not written */
} cairn_trace;

/* Set up. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_trace_init(cairn_trace *trace, const cairn_mem *mem,
                                               cairn_status (*write)(void *ctx, const char *line,
                                                                     size_t len_bytes),
                                               void *ctx);

/* Free the contents. */
void cairn_trace_release(cairn_trace *trace);

/* Write one event with cairn_field[count]. `trace` may be NULL: then nothing happens. */
void cairn_trace_event(cairn_trace *trace, const char *event, const cairn_field *fields, size_t count);

#define CAIRN_TRACE(trace, event, ...)                                                   \
    do {                                                                                 \
        if ((trace) != NULL) {                                                           \
            const cairn_field cairn_trace_fields[] = {__VA_ARGS__};                      \
            cairn_trace_event((trace), (event), cairn_trace_fields,                      \
                              sizeof cairn_trace_fields / sizeof cairn_trace_fields[0]); \
        }                                                                                \
    } while (0)

#endif
