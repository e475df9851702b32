/*
 * cache_timeline - spans of one request's time line: added as work ends, joined when there are many.
 */
#include "cache/cache_internal.h"

const char *cairn_span_word(cairn_span_kind kind)
{
    static const char *const words[] = {
#define CAIRN_SPAN_WORD(name, word) [CAIRN_SPAN_##name] = (word),
        CAIRN_SPAN_MAP(CAIRN_SPAN_WORD)
#undef CAIRN_SPAN_WORD
    };
    return (unsigned)kind < CAIRN_SPAN_COUNT ? words[kind] : "unknown";
}

const cairn_timeline *cairn_request_timeline(const cairn_request *request)
{
    return &request->timeline;
}

/* Tokens of an answer come one by one: they are one span until something else is done. */
static cairn_span *span_to_join(cairn_timeline *t, cairn_span_kind kind)
{
    if (t->count > 0 && kind == CAIRN_SPAN_WRITE && t->spans[t->count - 1].kind == CAIRN_SPAN_WRITE) {
        return &t->spans[t->count - 1];
    }
    for (uint32_t i = t->count; t->count == CAIRN_SPANS_MAX && i-- > 0;) {
        if (t->spans[i].kind == kind) {
            return &t->spans[i];
        }
    }
    return NULL;
}

void cairn_timeline_add(cairn_request *request, const cairn_span *work)
{
    cairn_timeline *t = &request->timeline;
    cairn_span *span = span_to_join(t, (cairn_span_kind)work->kind);
    if (span != NULL) {
        span->count++;
        span->end_ns = work->end_ns;
        span->bytes += work->bytes;
        span->end = work->end > span->end ? work->end : span->end;
    } else if (t->count < CAIRN_SPANS_MAX) {
        t->spans[t->count] = *work;
        t->spans[t->count++].count = 1;
    }
}

void cairn_timeline_ended(cairn_request *request, cairn_span_kind kind, uint64_t cost_ns, uint64_t bytes)
{
    uint64_t now_ns = cairn_cache_now_ns(request->cache);
    cairn_timeline_add(
        request,
        &(cairn_span){.kind = (uint8_t)kind, .bytes = bytes, .begin_ns = now_ns - cost_ns, .end_ns = now_ns});
}
