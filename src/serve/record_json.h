/*
 * record_json - what a request reused and why not more, as JSON: for the `cairn` object of an answer, for
 * GET /cairn/requests, and for the `timings` that llama.cpp's clients know.
 *
 * Owner    values are the caller's; NULL when there is no memory
 * Thread   any
 * See      docs/api.md (the cairn object)
 */
#ifndef CAIRN_RECORD_JSON_H
#define CAIRN_RECORD_JSON_H

#include <jansson.h>

#include "cairn/record.h"
#include "serve/excerpt.h"

/* Times of one request as a client sees them. */
typedef struct cairn_request_times {
    uint64_t queue_ns;      /* waiting for a slot                                                    */
    uint64_t prompt_ns;     /* from the slot to the first token: restoring and reading               */
    uint64_t answer_ns;     /* from the first token to the last                                      */
    uint64_t first_byte_ns; /* from the prompt's last token decoded to the first byte for the client; */
                            /* 0: the answer isn't streamed                                          */
    uint32_t answer_tokens; /* tokens sampled, the closing one included                              */
} cairn_request_times;

/* "system", "user", "assistant", "tool"; "none" for what is no cairn_role. Constant. */
const char *cairn_role_word(uint8_t role);

/* Everything the record says, with words for its enums. */
json_t *cairn_record_json(const cairn_record *record);
/*
 * The same with what is known besides.
 *
 *   notes    [in]  {"notes":[..]}, what was found in the request; NULL: without
 *   excerpt  [in]  {"excerpt":{..},"hint":".."}, the texts at the divergence; NULL: without
 */
json_t *cairn_record_noted_json(const cairn_record *record, json_t *notes, const cairn_excerpt *excerpt);

/* {"cache_n":..,"prompt_n":..,"prompt_ms":..,"predicted_n":..,...} */
json_t *cairn_timings_json(const cairn_record *record, const cairn_request_times *times);

/*
 * {"prompt_tokens":..,"completion_tokens":..,"total_tokens":..,"prompt_tokens_details":{"cached_tokens":..},
 *  "completion_tokens_details":{"reasoning_tokens":..}}
 */
json_t *cairn_usage_json(const cairn_record *record, const cairn_request_times *times,
                         uint32_t reasoning_tokens);

#endif
