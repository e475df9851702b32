/*
 * metrics - what the server counts, and its text for Prometheus.
 *
 * Counters only grow; a histogram has fixed bounds. The cache's own numbers are copied in by the engine's thread after
 * each round, because only that thread may ask the cache.
 *
 * Units    tokens, bytes; ns inside, seconds in the text
 * Owner    the struct is the caller's; it owns nothing
 * Thread   any; one lock
 * See      docs/api.md (metrics); the text passes `promtool check metrics`
 */
#ifndef CAIRN_METRICS_H
#define CAIRN_METRICS_H

#include <pthread.h>

#include "base/buf.h"
#include "cairn/cairn.h"
#include "serve/answers.h"
#include "serve/record_json.h"
#include "serve/replies.h"

enum { CAIRN_METRICS_BOUNDS = 14, CAIRN_METRICS_SOURCES = 5, CAIRN_METRICS_CODES = 600 };

typedef struct cairn_histogram {
    uint64_t buckets[CAIRN_METRICS_BOUNDS + 1]; /* the last: beyond all bounds; not cumulative here  */
    uint64_t sum_ns;
} cairn_histogram;

typedef struct cairn_metrics {
    pthread_mutex_t lock;
    uint64_t requests[3]; /* by cairn_ending                                                       */
    uint64_t resumes[CAIRN_METRICS_SOURCES][CAIRN_REASON_COUNT];
    uint64_t tokens_prompt, tokens_read, tokens_reused, tokens_least, tokens_answer;
    uint64_t states_taken, states_skipped, moved_bytes;
    uint64_t responses[CAIRN_METRICS_CODES]; /* by HTTP status                                          */
    uint64_t disconnects;                    /* clients that went away before the end               */
    cairn_histogram queue, first_token, prompt, token;
    uint64_t recalled; /* answers put in place                                                   */
    cairn_answers_stats answers;
    cairn_replies_stats replies;
    uint64_t queued, active; /* now                                                                    */
    uint32_t slots, queue_max;
    cairn_cache_stats cache;
    cairn_cache_disk_stats disk;
    bool disk_on;
    cairn_cache_shared_stats shared;
    const char *version, *build, *model; /* labels of cairn_build_info; borrowed                        */
} cairn_metrics;

void cairn_metrics_init(cairn_metrics *metrics);
void cairn_metrics_release(cairn_metrics *metrics);

/* A request ended; its record and times are final. */
void cairn_metrics_request(cairn_metrics *metrics, cairn_ending ending, const cairn_record *record,
                           const cairn_request_times *times);
void cairn_metrics_response(cairn_metrics *metrics, int http_status);
void cairn_metrics_disconnect(cairn_metrics *metrics);
/* Answers that stood in a prompt as they were generated, and what is remembered now. */
void cairn_metrics_answers(cairn_metrics *metrics, uint64_t recalled, const cairn_answers_stats *stats);
/* Responses that are kept by their id. */
void cairn_metrics_replies(cairn_metrics *metrics, const cairn_replies_stats *stats);
void cairn_metrics_load(cairn_metrics *metrics, uint64_t queued, uint64_t active);
void cairn_metrics_cache(cairn_metrics *metrics, const cairn_cache_stats *stats);
void cairn_metrics_disk(cairn_metrics *metrics, const cairn_cache_disk_stats *stats);
void cairn_metrics_shared(cairn_metrics *metrics, const cairn_cache_shared_stats *stats);

/* Append the whole text. Errors: CAIRN_NOMEM, CAIRN_LIMIT. */
CAIRN_MUST_CHECK cairn_status cairn_metrics_print(cairn_metrics *metrics, cairn_buf *out);

#endif
