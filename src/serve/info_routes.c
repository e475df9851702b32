/*
 * info_routes - what the server says about itself.
 */
#include <string.h>

#include "engine/llama_load.h"
#include "serve/disk_watch.h"
#include "serve/json_answer.h"
#include "serve/serve_inside.h"

static json_t *name_json(const cairn_serve *serve)
{
    return cairn_json_string(serve->options.model_name, strlen(serve->options.model_name));
}

void cairn_route_health(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    if (atomic_load(&serve->stopping)) {
        cairn_api_error_set(&reply->error, 503, "unavailable_error", "stopping", "The server is stopping.");
    } else {
        cairn_reply_json(reply, json_pack("{s:s}", "status", "ok"));
    }
}

void cairn_route_models(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    cairn_llama_facts facts;
    cairn_llama_facts_get(serve->options.vocab, &facts);
    const cairn_engine_info *info = &serve->options.engine->info;
    json_t *meta =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "n_vocab", (json_int_t)info->vocab_size, "n_ctx",
                  (json_int_t)info->slot_tokens_max, "n_ctx_train", (json_int_t)facts.train_tokens, "n_embd",
                  (json_int_t)facts.embedding, "n_params", (json_int_t)facts.parameters, "size",
                  (json_int_t)facts.weight_bytes);
    json_t *model = json_pack("{s:o, s:s, s:I, s:s, s:o}", "id", name_json(serve), "object", "model",
                              "created", (json_int_t)serve->started_s, "owned_by", "cairn", "meta", meta);
    cairn_reply_json(reply, json_pack("{s:s, s:[o]}", "object", "list", "data", model));
}

void cairn_route_metrics(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (cairn_metrics_print(&serve->metrics, &reply->bytes) != CAIRN_OK)
        cairn_api_error_set(&reply->error, 503, "unavailable_error", NULL, "out of memory");
}

void cairn_route_props(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    const cairn_engine_info *info = &serve->options.engine->info;
    const char *template_text = cairn_chat_get_template(serve->options.chat);
    json_t *settings = json_pack("{s:I}", "n_ctx", (json_int_t)info->slot_tokens_max);
    json_t *props = json_pack("{s:o, s:I, s:o, s:o, s:s, s:s}", "default_generation_settings", settings,
                              "total_slots", (json_int_t)info->slots, "model_alias", name_json(serve),
                              "chat_template", cairn_json_string(template_text, strlen(template_text)),
                              "build_info", cairn_llama_build(), "cairn", cairn_version());
    cairn_reply_json(reply, props);
}

void cairn_route_slots(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    const cairn_engine_info *info = &serve->options.engine->info;
    cairn_scheduler_slot active[CAIRN_SLOTS_MAX];
    uint32_t count = cairn_scheduler_list(serve->scheduler, active);
    json_t *list = json_array();
    for (uint32_t slot = 0; slot < info->slots; slot++) {
        json_t *item = json_pack("{s:I, s:I, s:b}", "id", (json_int_t)slot, "n_ctx",
                                 (json_int_t)info->slot_tokens_max, "is_processing", 0);
        for (uint32_t i = 0; i < count; i++) {
            if (active[i].slot != slot)
                continue;
            json_object_set_new(item, "is_processing", json_true());
            json_object_set_new(item, "id_task", json_integer((json_int_t)active[i].job));
            json_object_set_new(item, "n_prompt_tokens", json_integer(active[i].prompt_tokens));
            json_object_set_new(item, "n_prompt_tokens_processed", json_integer(active[i].done_tokens));
            json_object_set_new(item, "n_decoded", json_integer(active[i].answer_tokens));
        }
        json_array_append_new(list, item);
    }
    cairn_reply_json(reply, list);
}

void cairn_route_cache(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    CAIRN_ASSERT(pthread_mutex_lock(&serve->metrics.lock) == 0);
    cairn_cache_stats c = serve->metrics.cache;
    cairn_cache_disk_stats disk = serve->metrics.disk;
    CAIRN_ASSERT(pthread_mutex_unlock(&serve->metrics.lock) == 0);
    json_t *bytes = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "now", (json_int_t)c.ram_bytes, "peak",
                              (json_int_t)c.ram_bytes_peak, "limit", (json_int_t)c.ram_bytes_max, "index",
                              (json_int_t)c.index_bytes, "states", (json_int_t)c.state_bytes, "rows",
                              (json_int_t)c.row_bytes);
    json_t *counts = json_pack("{s:I, s:I, s:I, s:I, s:I}", "states", (json_int_t)c.states, "segments",
                               (json_int_t)c.segments, "namespaces", (json_int_t)c.namespaces, "paths",
                               (json_int_t)c.paths, "tokens", (json_int_t)c.tokens_known);
    json_t *since =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "requests", (json_int_t)c.requests,
                  "tokens_prompt", (json_int_t)c.tokens_prompt, "tokens_read", (json_int_t)c.tokens_read,
                  "tokens_least", (json_int_t)c.tokens_least, "tokens_answer", (json_int_t)c.tokens_answer,
                  "states_taken", (json_int_t)c.states_taken, "states_skipped", (json_int_t)c.states_skipped,
                  "states_dropped", (json_int_t)c.states_dropped, "restores", (json_int_t)c.restores,
                  "restores_failed", (json_int_t)c.restores_failed);
    cairn_reply_json(reply, json_pack("{s:o, s:o, s:o, s:o}", "bytes", bytes, "held", counts, "since_start",
                                      since, "disk", cairn_disk_watch_json(&disk)));
}

void cairn_route_requests(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    cairn_reply_json(reply, cairn_history_json(&serve->history));
}
