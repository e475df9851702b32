/*
 * answer_inside - what answer.c and answer_wire.c share. Private to these two.
 *
 *   answer.c       text goes in: stops, the chat parser, what was noted
 *   answer_wire.c  bytes come out: events and objects in the form of each surface
 */
#ifndef CAIRN_ANSWER_INSIDE_H
#define CAIRN_ANSWER_INSIDE_H

#include "serve/answer.h"

/* A token that was noted: its text begins at begin_bytes. */
typedef struct cairn_answer_noted {
    size_t begin_bytes;
    cairn_token token;
} cairn_answer_noted;

struct cairn_answer {
    const cairn_mem *mem;
    cairn_answer_options options;
    cairn_chat_stream *stream; /* chat only */
    cairn_buf text;            /* everything generated */
    size_t shown_bytes;        /* text[0, shown) went through */
    int32_t stop_found;
    cairn_buf begins; /* size_t[]: where the text of each token begins */
    cairn_buf noted;  /* cairn_answer_noted[] */
    json_t *entries;  /* their probabilities; the first `told` of both are with the client */
    size_t told;
};

/* What the end of an answer is written from. */
typedef struct cairn_answer_ending {
    cairn_finish finish;
    const cairn_record *record;
    const cairn_request_times *times;
    uint32_t reasoning_tokens;
} cairn_answer_ending;

/* The first event of a stream. */
CAIRN_MUST_CHECK cairn_status cairn_answer_wire_begin(cairn_answer *a, const cairn_record *record,
                                                      cairn_buf *out);
/* A chunk of a stream that carries plain text, and the tokens that begin before upto_bytes of the whole text. */
CAIRN_MUST_CHECK cairn_status cairn_answer_wire_text(cairn_answer *a, const char *text, size_t len_bytes,
                                                     size_t upto_bytes, cairn_buf *out);
/* The bridge's deltas, one event each; the probabilities of the tokens in them go with the first. */
CAIRN_MUST_CHECK cairn_status cairn_answer_wire_deltas(cairn_answer *a, const cairn_chat_text *deltas,
                                                       cairn_buf *out);
/*
 * All that is left of the answer.
 *
 *   message  [in]  of a chat, parsed; JSON null otherwise
 */
CAIRN_MUST_CHECK cairn_status cairn_answer_wire_end(cairn_answer *a, const cairn_answer_ending *own,
                                                    json_t *message, cairn_buf *out);
/* The event of a stream that can't go on. */
CAIRN_MUST_CHECK cairn_status cairn_answer_wire_fail(cairn_answer *a, const cairn_api_error *error,
                                                     const cairn_record *record, cairn_buf *out);

#endif
