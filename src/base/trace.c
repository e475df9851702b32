/*
 * trace - one line buffer, made at the start, so that recording an event never allocates.
 */
#include "base/trace.h"

cairn_status cairn_trace_init(cairn_trace *trace, const cairn_mem *mem,
                              cairn_status (*write)(void *ctx, const char *line, size_t len_bytes), void *ctx)
{
    char *line = cairn_mem_alloc(mem, CAIRN_TRACE_LINE_BYTES);
    if (line == NULL) {
        return CAIRN_NOMEM;
    }
    *trace = (cairn_trace){.mem = mem,
                           .write = write,
                           .ctx = ctx,
                           .line = line,
                           .events = 0,
                           .digest = CAIRN_HASH_CHAIN_SEED,
                           .failed = CAIRN_OK};
    return CAIRN_OK;
}

void cairn_trace_release(cairn_trace *trace)
{
    cairn_mem_release(trace->mem, trace->line, CAIRN_TRACE_LINE_BYTES);
    trace->line = NULL;
}

void cairn_trace_event(cairn_trace *trace, const char *event, const cairn_field *fields, size_t count)
{
    if (trace == NULL) {
        return;
    }
    const cairn_field_head head = {.time = NULL, .level = NULL, .event = event};
    size_t len =
        cairn_field_print(CAIRN_FIELD_FORMAT_JSON, &head, fields, count, trace->line, CAIRN_TRACE_LINE_BYTES);
    trace->events++;
    trace->digest = cairn_hash_mix(trace->digest ^ cairn_hash_bytes64(trace->line, len, trace->events));
    if (trace->write != NULL && trace->failed == CAIRN_OK) {
        trace->failed = trace->write(trace->ctx, trace->line, len);
    }
}
