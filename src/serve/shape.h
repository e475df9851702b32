/*
 * shape - how an answer looks in another API than chat completions.
 *
 *   chat stream's deltas --delta--> events        (stream)
 *   the whole message    --end----> one object, or the closing events
 *   a mistake            --fail---> the event by which clients know that a stream broke
 *
 * answer.c finds stops and parses what the model writes; a shape turns the deltas and the message, which have chat
 * completions' form, into what its clients expect.
 *
 * Owner    `ctx` belongs to who holds the struct, who calls `free` once; a zero struct is no shape
 * Thread   one at a time; begin, delta and end on the scheduler's thread
 * See      anthropic.h, responses.h
 */
#ifndef CAIRN_SHAPE_H
#define CAIRN_SHAPE_H

#include <jansson.h>

#include "base/buf.h"
#include "serve/api_error.h"
#include "serve/record_json.h"

typedef enum cairn_finish {
    CAIRN_FINISH_STOP = 0,      /* the model ended it                                                  */
    CAIRN_FINISH_STOP_TEXT = 1, /* a stop text was found                                               */
    CAIRN_FINISH_LENGTH = 2     /* max_tokens, or the context is full                                  */
} cairn_finish;

/* What every call of a shape may look at; borrowed for the call. */
typedef struct cairn_shape_answer {
    const char *id; /* "msg_0123..."                                                                   */
    const char *model;
    int64_t created_s;
    bool stream;
    bool explain;
    const cairn_record *record;
    uint32_t mark_position; /* tokens up to the client's last mark; 0: none                            */
    json_t *notes;          /* what was found in the request; NULL: nothing                            */
    const cairn_excerpt *excerpt; /* the texts at the divergence; NULL: none                          */
} cairn_shape_answer;

/* What is known at the end only. */
typedef struct cairn_shape_end {
    cairn_finish finish;
    uint32_t count_calls;
    const char *stop_text; /* the client's stop that was found, char[stop_bytes]; NULL: none            */
    size_t stop_bytes;
    const json_t *message; /* {"role":..,"content":..,"reasoning_content":..,"tool_calls":[..]}         */
    const cairn_request_times *times;
    uint32_t reasoning_tokens; /* of the answer's                                                      */
} cairn_shape_end;

typedef struct cairn_answer_shape {
    const char *id_prefix;   /* "msg_"                                                                  */
    const char *call_prefix; /* "toolu_": ids of tool calls begin so                                    */
    /* The prompt was read. Streams only. */
    cairn_status (*begin)(void *ctx, const cairn_shape_answer *answer, cairn_buf *out);
    /* {"content":".."}, {"reasoning_content":".."} or {"tool_calls":[{"index":0,..}]}. Streams only. */
    cairn_status (*delta)(void *ctx, const cairn_shape_answer *answer, const json_t *delta, cairn_buf *out);
    cairn_status (*end)(void *ctx, const cairn_shape_answer *answer, const cairn_shape_end *end,
                        cairn_buf *out);
    /* It can't go on: the last event of a stream that has begun. Streams only. */
    cairn_status (*fail)(void *ctx, const cairn_shape_answer *answer, const cairn_api_error *error,
                         cairn_buf *out);
    void (*free)(void *ctx);
    void *ctx;
} cairn_answer_shape;

#endif
