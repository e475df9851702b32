/*
 * timeline - what was done for one request, and when: each piece of its prompt, each state saved or put back.
 *
 *   lookup  fetch  restore | read  save  read  save ... read | write ...
 *
 * A fixed number of spans is kept. When they are used up, the newest span of a kind is made longer instead: its `count`
 * then says how many pieces of work are in it, and other work may lie between them.
 *
 * Units    tokens; bytes; nanoseconds by the cache's clock
 * Owner    the request; borrowed until cairn_request_free, or copied: it is a value
 */
#ifndef CAIRN_TIMELINE_H
#define CAIRN_TIMELINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, word) */
#define CAIRN_SPAN_MAP(X)                                                                              \
    X(LOOKUP, "lookup")   /* what is known of the prompt, and the plan                              */ \
    X(FETCH, "fetch")     /* from disk or from other servers into memory                            */ \
    X(RESTORE, "restore") /* rows and states into the slot                                          */ \
    X(READ, "read")       /* prompt tokens [begin, end), decoded                                    */ \
    X(SAVE, "save")       /* a state or rows out of a slot                                          */ \
    X(WRITE, "write")     /* tokens of the answer, decoded                                          */ \
    X(BEHIND, "keep")     /* rows or a state to disk, after or beside the request                   */

typedef enum cairn_span_kind {
#define CAIRN_SPAN_ENUM(name, word) CAIRN_SPAN_##name,
    CAIRN_SPAN_MAP(CAIRN_SPAN_ENUM)
#undef CAIRN_SPAN_ENUM
        CAIRN_SPAN_COUNT
} cairn_span_kind;

typedef struct cairn_span {
    uint8_t kind;        /* cairn_span_kind                                                          */
    uint32_t count;      /* pieces of work in it; 1 unless they were joined                          */
    uint32_t begin, end; /* tokens; both 0 where none are meant                                      */
    uint64_t bytes;      /* moved                                                                    */
    uint64_t begin_ns, end_ns;
} cairn_span;

enum { CAIRN_SPANS_MAX = 160 };

/* In the order in which the work ended. */
typedef struct cairn_timeline {
    uint32_t count; /* of spans                                                                     */
    cairn_span spans[CAIRN_SPANS_MAX];
} cairn_timeline;

/* "read"; constant. Unknown values give "unknown". */
const char *cairn_span_word(cairn_span_kind kind);

#ifdef __cplusplus
}
#endif
#endif
