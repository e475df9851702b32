/*
 * serve_inside - what the routes share. Private to src/serve.
 *
 * Everything here is fixed after start, or has its own lock.
 */
#ifndef CAIRN_SERVE_INSIDE_H
#define CAIRN_SERVE_INSIDE_H

#include <stdatomic.h>

#include "serve/answers.h"
#include "serve/clock_table.h"
#include "serve/events.h"
#include "serve/history.h"
#include "serve/http.h"
#include "serve/namespace.h"
#include "serve/replies.h"
#include "serve/responses.h"
#include "serve/scheduler.h"
#include "serve/serve.h"
#include "serve/unison.h"

enum { CAIRN_ANSWER_TEXT_BYTES_MAX = 16 * 1024 * 1024, CAIRN_OUTBOX_BYTES_MAX = 64 * 1024 * 1024 };

struct cairn_serve {
    cairn_serve_options options;
    cairn_http *http;
    cairn_scheduler *scheduler;
    cairn_metrics metrics;
    cairn_history history;
    cairn_unisons unisons;
    cairn_clock_table *clocks;
    cairn_answers *answers; /* what was generated                                                      */
    cairn_answers_log *answers_log; /* the same on disk; NULL: not                                      */
    cairn_keys *keys;
    cairn_events *events;
    cairn_replies *replies; /* responses that may be continued by id                                    */
    atomic_uint_fast64_t next_id;
    uint64_t sessions[CAIRN_SLOTS_MAX]; /* see cairn_job.session; the scheduler's thread                 */
    uint64_t id_salt; /* makes ids of this run differ from those of others                              */
    int64_t started_s;
    atomic_bool stopping;
};

/* A route's function: fills the reply, or its error. On an HTTP thread, several at once. */
typedef void (*cairn_route_fn)(cairn_serve *serve, const cairn_http_request *request,
                               cairn_http_reply *reply);

/* generation.c */
void cairn_route_chat(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_completions(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_completion(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_infill(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);

/* A request of another API that was brought into chat completions' form. */
typedef struct cairn_converted {
    json_t *body;             /* {"messages":[..],..}                                                   */
    cairn_answer_shape shape; /* how the answer looks                                                   */
    bool text; /* it is a completion: {"prompt":..}                                                    */
    bool warm; /* read the prompt only; without a user's message, up to where one would begin            */
} cairn_converted;

/* Answer it as a chat completion in its shape. What `converted` holds is taken over. */
void cairn_generate_converted(cairn_serve *serve, const cairn_http_request *request,
                              cairn_converted *converted, cairn_http_reply *reply);
/* Render and count its tokens. What `converted` holds is taken over. */
void cairn_count_converted(cairn_serve *serve, const cairn_http_request *request, cairn_converted *converted,
                           uint32_t *ret_tokens, cairn_api_error *error);

/* warm_routes.c */
void cairn_route_warm(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);

/* forget_routes.c */
void cairn_route_forget(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);

/* surface_routes.c */
/* A body of /v1/responses, with the conversation that it continues. false: an error, nothing to give back. */
bool cairn_read_response(cairn_serve *serve, const json_t *body, const cairn_namespace *space,
                         cairn_responses_request *ret_request, cairn_api_error *error);
/* The namespace of a body: that of the caller's key, and of its cache_salt. */
bool cairn_read_namespace(cairn_serve *serve, const cairn_http_request *request, const json_t *body,
                          cairn_namespace *ret_space, cairn_api_error *error);
void cairn_route_messages(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_count_tokens(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_responses(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
/* Count the prompt of a Responses body. */
void cairn_route_response_tokens(cairn_serve *serve, const cairn_http_request *request,
                                 cairn_http_reply *reply);
/* This server gives no embeddings, and says so. */
void cairn_route_embeddings(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
/* HEAD of a path that has no GET: it exists. */
void cairn_route_head(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);

/* reply_routes.c */
void cairn_route_one_response(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_delete_response(cairn_serve *serve, const cairn_http_request *request,
                                 cairn_http_reply *reply);
void cairn_route_cancel_response(cairn_serve *serve, const cairn_http_request *request,
                                 cairn_http_reply *reply);

/* token_routes.c */
void cairn_route_tokenize(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_detokenize(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_apply_template(cairn_serve *serve, const cairn_http_request *request,
                                cairn_http_reply *reply);

/* info_routes.c */
void cairn_route_health(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_ready(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_models(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_one_model(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_metrics(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_props(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_slots(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);

/* page.c */
void cairn_route_page(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_events(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_cache(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_cache_disk(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_requests(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_one_request(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);
void cairn_route_perfetto(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply);

/* The chat bridge's or the sampler's complaint about a request, as the client sees it: the field becomes `param`. */
void cairn_render_error(cairn_api_error *error, const cairn_error *cause);

/* Write a JSON value as the reply; takes it over. */
void cairn_reply_json(cairn_http_reply *reply, json_t *value);

#endif
