/*
 * answer - what becomes of generated text: stops, the chat parser, and the shape a client expects.
 *
 *   token text --> stops --> chat stream --> deltas --> SSE events       (stream)
 *                  (held back)                     \--> one JSON object  (whole)
 *
 * Three surfaces share it: OpenAI chat, OpenAI completions, llama.cpp's completion; others give a shape, which turns
 * what the chat surface would send into their form. It knows no threads, no sockets and no engine: text goes in, bytes
 * come out in the caller's buffer.
 *
 * A request with several choices has one answer for each, written one after the other, and a sum that they share:
 *
 *   answer 0 --end--> sum ... answer n-1 --end--> the object with all choices, or the stream's usage and its end
 *
 * Units    bytes; ns
 * Owner    the answer owns what it keeps; options and their texts are borrowed for its life
 * Thread   one at a time
 * Errors   CAIRN_NOMEM, CAIRN_LIMIT (longer than text_bytes_max); text that fits no format is content, never an error
 * See      docs/api.md
 */
#ifndef CAIRN_ANSWER_H
#define CAIRN_ANSWER_H

#include "base/buf.h"
#include "cairn/engine.h"
#include "chat/bridge.h"
#include "serve/record_json.h"
#include "serve/shape.h"
#include "serve/stops.h"

typedef enum cairn_surface {
    CAIRN_SURFACE_CHAT = 0, /* /v1/chat/completions                                                 */
    CAIRN_SURFACE_TEXT = 1, /* /v1/completions                                                      */
    CAIRN_SURFACE_LLAMA = 2 /* /completion                                                          */
} cairn_surface;

/* What the choices of one request add up to. Zero but for `count` at first. */
typedef struct cairn_answer_sum {
    uint32_t count;      /* choices of the request                                                       */
    uint32_t ended;      /* of them                                                                      */
    json_t *list;        /* of whole answers: those that have ended                                      */
    json_t *records;     /* with explain: what each choice reused                            */
    cairn_record record; /* of the first, with the counts of all prompts                       */
    cairn_request_times times; /* of all                                                            */
    uint32_t reasoning_tokens;
} cairn_answer_sum;
void cairn_answer_sum_release(cairn_answer_sum *sum);

typedef struct cairn_answer_options {
    cairn_surface surface;
    bool stream;
    bool include_usage; /* a last chunk with usage                                              */
    bool explain;       /* the cairn object                                                     */
    char id[40];        /* "chatcmpl-0123..."; calls get ids from it                             */
    const char *model;
    const char *fingerprint; /* system_fingerprint                                               */
    int64_t created_s;
    const char *format; /* of the chat bridge; NULL: all text is content                         */
    size_t format_bytes;
    const cairn_stop_text *stops; /* cairn_stop_text[count_stops]                                */
    size_t count_stops;
    const char *echo; /* text put before the answer (completions with echo); NULL: none             */
    size_t echo_bytes;
    size_t text_bytes_max;
    const cairn_answer_shape *shape; /* borrowed; without chat it may have `end` only. NULL: the surface's */
    size_t count_client_stops;       /* stops[0, count) are the client's; the rest the template's         */
    uint32_t mark_position;          /* tokens up to the client's last mark; 0: none                    */
    json_t *notes;                   /* borrowed: what was found in the request; NULL: nothing          */
    const cairn_excerpt *excerpt;    /* borrowed: the texts at the divergence; NULL: none               */
    uint32_t index;                  /* of the choice                                                   */
    bool same_prompt;                /* as the choice before it: its tokens are counted once             */
    cairn_answer_sum *sum;           /* borrowed; NULL: there is one choice                              */
    bool logprobs;                   /* every token is noted with its probabilities                      */
    bool return_tokens;              /* (llama.cpp) every token is noted, and its id is told               */
    const json_t *extras;            /* borrowed; (llama.cpp) further fields at the end; NULL: none       */
} cairn_answer_options;

typedef struct cairn_answer cairn_answer;

CAIRN_MUST_CHECK cairn_status cairn_answer_new(const cairn_mem *mem, const cairn_answer_options *options,
                                               cairn_answer **ret_answer, cairn_error *reterr);
/* NULL is allowed. */
void cairn_answer_free(cairn_answer *answer);

/*
 * The prompt has been read. Appends the first event of a stream to `out`.
 *
 *   record  [in]  what was read and reused so far; borrowed for the call
 */
CAIRN_MUST_CHECK cairn_status cairn_answer_begin(cairn_answer *answer, const cairn_record *record,
                                                 cairn_buf *out);

/*
 * Note the token whose text comes next, where options ask for it.
 *
 *   entry  [in]  see cairn_logprobs_entry; taken over; NULL: none
 *
 * Errors  CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_answer_note(cairn_answer *answer, cairn_token token, json_t *entry);

/*
 * Take the text of one token, char[len_bytes], cut anywhere. A NUL becomes U+FFFD.
 *
 *   ret_stopped [out]  a stop text is complete: generate no more
 */
CAIRN_MUST_CHECK cairn_status cairn_answer_text(cairn_answer *answer, const char *text, size_t len_bytes,
                                                cairn_buf *out, bool *ret_stopped);

/*
 * End it: appends all that is left, the finish reason, usage and timings; in a whole answer, the one object.
 *
 *   record, times [in]  of the request, final
 */
CAIRN_MUST_CHECK cairn_status cairn_answer_end(cairn_answer *answer, cairn_finish finish,
                                               const cairn_record *record, const cairn_request_times *times,
                                               cairn_buf *out);

/*
 * It can't go on. Appends the event that says so to a stream that has begun, in its API's shape; nothing to a whole
 * answer. Instead of cairn_answer_end.
 */
CAIRN_MUST_CHECK cairn_status cairn_answer_fail(cairn_answer *answer, const cairn_api_error *error,
                                                const cairn_record *record, cairn_buf *out);

/*
 * What the client was given, as a chat message in JSON; after cairn_answer_end, borrowed until the answer is freed.
 * Without chat: no bytes.
 */
cairn_chat_text cairn_answer_message(cairn_answer *answer);
/* Tool calls in it. */
uint32_t cairn_answer_count_calls(const cairn_answer *answer);

/* The reason that `end` will give or gave: "stop", "length", "tool_calls". */
const char *cairn_answer_finish_word(const cairn_answer *answer, cairn_finish finish);

#endif
