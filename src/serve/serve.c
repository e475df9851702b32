/*
 * serve - see the header. Puts the parts together and takes them apart in the opposite order.
 */
#include "serve/serve.h"

#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/io.h"
#include "serve/answers_log.h"
#include "serve/json_answer.h"
#include "serve/routes.h"

enum { CLOCKS_MAX = 8192, BODIES_FACTOR = 8, REPLIES_MAX = 4096 };

void cairn_reply_json(cairn_http_reply *reply, json_t *value)
{
    if (cairn_json_write(&reply->bytes, value) != CAIRN_OK)
        cairn_api_error_set(&reply->error, 503, "unavailable_error", NULL, "out of memory");
}

static void handle(void *ctx, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_serve *serve = ctx;
    const cairn_route *route = cairn_routes_find(request->method, request->path, &reply->error);
    if (route == NULL)
        return;
    if (!route->open && !cairn_keys_allow(serve->keys, request->authorization)) {
        cairn_api_error_set(&reply->error, 401, "authentication_error", "invalid_api_key",
                            "This server asks for an API key: send it as \"Authorization: Bearer <key>\" "
                            "or \"x-api-key: <key>\".");
        return;
    }
    route->fn(serve, request, reply);
}

cairn_status cairn_serve_listen(const cairn_serve_options *options, cairn_http **ret_http,
                                cairn_error *reterr)
{
    const cairn_http_options http = {.mem = options->mem,
                                     .log = options->log,
                                     .host = options->host,
                                     .port = options->port,
                                     .threads = options->threads,
                                     .connections_max = options->connections_max,
                                     .body_bytes_max = options->body_bytes_max,
                                     .bodies_bytes_max = options->body_bytes_max * BODIES_FACTOR};
    return cairn_http_start(&http, ret_http, reterr);
}

static cairn_status start_parts(cairn_serve *serve, cairn_error *reterr)
{
    const cairn_serve_options *o = &serve->options;
    if (getrandom(&serve->id_salt, sizeof serve->id_salt, 0) != (ssize_t)sizeof serve->id_salt)
        return cairn_error_set_os(reterr, errno, "serve/start: random bytes", NULL);
    cairn_status status =
        cairn_keys_new(o->mem, o->namespace_secret, o->api_keys, o->count_api_keys, &serve->keys, reterr);
    if (status != CAIRN_OK)
        return status;
    status = cairn_clock_table_new(o->mem, CLOCKS_MAX, &serve->clocks);
    if (status == CAIRN_OK)
        status = cairn_answers_new(o->mem, o->answers_bytes_max, &serve->answers);
    if (status == CAIRN_OK && o->answers_disk != NULL && o->answers_bytes_max > 0) {
        const cairn_cache_disk *disk = o->answers_disk;
        if (cairn_answers_log_new(o->mem, disk->io != NULL ? disk->io : cairn_io_posix(), disk->dir,
                                  disk->key, &serve->answers_log, NULL) == CAIRN_OK) /* else in memory only */
            cairn_answers_attach(serve->answers, serve->answers_log);
    }
    if (status == CAIRN_OK)
        status = cairn_replies_new(o->mem, REPLIES_MAX, o->replies_bytes_max, &serve->replies);
    if (status != CAIRN_OK)
        return cairn_error_set(reterr, status, "serve/start", NULL);
    serve->metrics.slots = o->engine->info.slots;
    serve->metrics.queue_max = o->queue_max;
    serve->metrics.version = cairn_version();
    serve->metrics.build = o->engine->info.build;
    serve->metrics.model = o->model_name;
    cairn_cache_stats stats;
    cairn_cache_stats_get(o->cache, &stats);
    cairn_metrics_cache(&serve->metrics, &stats);
    cairn_scheduler_options scheduler = {.mem = o->mem,
                                         .cache = o->cache,
                                         .vocab = o->vocab,
                                         .log = o->log,
                                         .metrics = &serve->metrics,
                                         .history = &serve->history,
                                         .clock = o->clock,
                                         .slots = o->engine->info.slots,
                                         .slot_tokens_max = o->engine->info.slot_tokens_max,
                                         .batch_tokens = o->engine->info.batch_tokens_max,
                                         .queue_max = o->queue_max,
                                         .request_ns = o->request_ns,
                                         .sessions = serve->sessions,
                                         .no_excerpts = o->no_excerpts,
                                         .recorder = o->recorder,
                                         .flush_ns = o->flush_ns,
                                         .progress = o->progress,
                                         .progress_ctx = o->progress_ctx};
    status = cairn_scheduler_start(&scheduler, &serve->scheduler, reterr);
    if (status != CAIRN_OK)
        return status;
    cairn_events_options events = {.mem = o->mem,
                                   .scheduler = serve->scheduler,
                                   .metrics = &serve->metrics,
                                   .history = &serve->history,
                                   .clock = o->clock,
                                   .model_name = o->model_name,
                                   .slot_tokens_max = o->engine->info.slot_tokens_max,
                                   .keyed = o->count_api_keys > 0};
    status = cairn_events_start(&events, &serve->events, reterr);
    if (status != CAIRN_OK)
        return status;
    if (serve->http == NULL)
        status = cairn_serve_listen(o, &serve->http, reterr);
    if (status == CAIRN_OK) {
        const cairn_http_handler handler = {.handle = handle, .ctx = serve, .metrics = &serve->metrics};
        cairn_http_serve(serve->http, &handler);
    }
    return status;
}

cairn_status cairn_serve_start(const cairn_serve_options *options, cairn_serve **ret_serve,
                               cairn_error *reterr)
{
    cairn_serve *serve = cairn_mem_zalloc(options->mem, sizeof *serve);
    if (serve == NULL)
        cairn_http_stop(options->http);
    if (serve == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "serve/start", NULL);
    serve->options = *options;
    serve->http = options->http;
    serve->started_s = cairn_clock_wall_seconds(options->clock);
    cairn_metrics_init(&serve->metrics);
    cairn_history_init(&serve->history);
    cairn_unisons_init(&serve->unisons, options->mem, options->engine->info.slot_tokens_max);
    cairn_status status = start_parts(serve, reterr);
    if (status != CAIRN_OK) {
        cairn_serve_stop(serve, 0);
        return status;
    }
    *ret_serve = serve;
    return CAIRN_OK;
}

const char *cairn_serve_libraries(void)
{
    static char text[64]; /* the same bytes each time */
    (void)snprintf(text, sizeof text, "libmicrohttpd %s, jansson %s", MHD_get_version(), JANSSON_VERSION);
    return text;
}

cairn_status cairn_serve_replace_keys(cairn_serve *serve, const char *const *api_keys, size_t count,
                                      cairn_error *reterr)
{
    return cairn_keys_replace(serve->keys, api_keys, count, reterr);
}

uint16_t cairn_serve_port(const cairn_serve *serve)
{
    return cairn_http_port(serve->http);
}

void cairn_serve_stop(cairn_serve *serve, uint64_t drain_ns)
{
    if (serve == NULL)
        return;
    atomic_store(&serve->stopping, true);
    if (serve->http != NULL)
        cairn_http_quiesce(serve->http);
    cairn_scheduler_stop(serve->scheduler, drain_ns);
    cairn_events_stop(serve->events);
    cairn_http_stop(serve->http);
    cairn_events_free(serve->events);
    cairn_scheduler_free(serve->scheduler);
    cairn_replies_free(serve->replies);
    cairn_answers_free(serve->answers);
    cairn_answers_log_free(serve->answers_log);
    cairn_keys_free(serve->keys);
    cairn_clock_table_free(serve->clocks);
    cairn_unisons_release(&serve->unisons);
    cairn_history_release(&serve->history);
    cairn_metrics_release(&serve->metrics);
    cairn_mem_release(serve->options.mem, serve, sizeof *serve);
}
