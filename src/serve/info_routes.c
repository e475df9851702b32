/*
 * info_routes - what the server says about itself.
 */
#include <string.h>

#include "engine/llama_load.h"
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

/* Should new requests be sent here? Apart from /health, which says that the server lives. */
void cairn_route_ready(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    uint32_t queued, active;
    cairn_scheduler_counts(serve->scheduler, &queued, &active);
    if (atomic_load(&serve->stopping)) {
        cairn_api_error_set(&reply->error, 503, "unavailable_error", "stopping", "The server is stopping.");
    } else if (queued >= serve->options.queue_max + (serve->options.engine->info.slots - active)) {
        cairn_api_error_set(&reply->error, 503, "unavailable_error", "queue_full",
                            "%u requests are waiting already.", queued);
        reply->error.retry_after_s = 2;
    } else {
        cairn_reply_json(reply, json_pack("{s:s, s:I, s:I}", "status", "ready", "queued", (json_int_t)queued,
                                          "active", (json_int_t)active));
    }
}

/* The model with the fields of both OpenAI's and Anthropic's clients. */
static json_t *model_json(const cairn_serve *serve)
{
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
    char time[CAIRN_CLOCK_TEXT];
    cairn_clock_print(serve->started_s * 1000, time);
    json_object_set_new(model, "type", json_string("model"));
    json_object_set_new(model, "display_name", name_json(serve));
    json_object_set_new(model, "created_at", json_string(time));
    return model;
}

void cairn_route_models(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    cairn_reply_json(reply,
                     json_pack("{s:s, s:[o], s:b, s:o, s:o}", "object", "list", "data", model_json(serve),
                               "has_more", 0, "first_id", name_json(serve), "last_id", name_json(serve)));
}

void cairn_route_one_model(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    const char *name = strrchr(request->path, '/') + 1;
    if (strcmp(name, serve->options.model_name) == 0) {
        cairn_reply_json(reply, model_json(serve));
        return;
    }
    cairn_api_error_set(&reply->error, 404, "not_found_error", "model_not_found",
                        "There is no model %.64s here; GET /v1/models tells which there is.", name);
}

void cairn_route_metrics(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    cairn_replies_stats replies;
    cairn_replies_stats_get(serve->replies, &replies);
    cairn_metrics_replies(&serve->metrics, &replies);
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (cairn_metrics_print(&serve->metrics, &reply->bytes) != CAIRN_OK)
        cairn_api_error_set(&reply->error, 503, "unavailable_error", NULL, "out of memory");
}

/* The sampling of a request that says nothing. */
static json_t *default_params(void)
{
    cairn_params *params = cairn_mem_zalloc(cairn_mem_default(), sizeof *params);
    if (params == NULL)
        return NULL;
    cairn_params_init(params);
    json_t *value = cairn_params_json(params);
    cairn_mem_release(cairn_mem_default(), params, sizeof *params);
    return value;
}

/* A token's text; "" where the model has none. */
static json_t *token_json(const cairn_serve *serve, cairn_token token)
{
    char text[CAIRN_PIECE_BYTES_MAX];
    uint32_t len = 0;
    if (token < 0 ||
        cairn_llama_piece(serve->options.vocab, token, true, text, sizeof text, &len) != CAIRN_OK)
        len = 0;
    return cairn_json_string(text, len);
}

void cairn_route_props(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)request;
    const cairn_engine_info *info = &serve->options.engine->info;
    const char *template_text = cairn_chat_get_template(serve->options.chat);
    json_t *settings =
        json_pack("{s:I, s:o}", "n_ctx", (json_int_t)info->slot_tokens_max, "params", default_params());
    static const char *const trims[] = {"anywhere", "window", "never"};
    const char *why = serve->options.not_exact != NULL ? serve->options.not_exact : "";
    json_t *engine =
        json_pack("{s:s, s:s, s:b, s:s, s:s, s:b, s:b, s:s}", "name", info->name, "build", info->build,
                  "exact", info->exact, "exact_why_not", info->exact ? "" : why, "trim", trims[info->trim],
                  "rows_move", info->rows_move, "slots_share", info->batch_alone, "resume",
                  serve->options.resume == CAIRN_RESUME_EXACT ? "exact" : "fast");
    json_t *props =
        json_pack("{s:o, s:I, s:o, s:o, s:s, s:s, s:o}", "default_generation_settings", settings,
                  "total_slots", (json_int_t)info->slots, "model_alias", name_json(serve), "chat_template",
                  cairn_json_string(template_text, strlen(template_text)), "build_info", cairn_llama_build(),
                  "cairn", cairn_version(), "cairn_engine", engine);
    if (serve->options.script != NULL) /* a debug option: see script.h */
        json_object_set_new(props, "cairn_script",
                            json_integer((json_int_t)cairn_script_count(serve->options.script)));
    json_object_set_new(props, "bos_token", token_json(serve, cairn_llama_bos(serve->options.vocab)));
    json_object_set_new(props, "eos_token", token_json(serve, cairn_llama_eos(serve->options.vocab)));
    json_object_set_new(props, "modalities", json_pack("{s:b, s:b}", "vision", 0, "audio", 0));
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
        json_t *item = json_pack("{s:I, s:I, s:b, s:b}", "id", (json_int_t)slot, "n_ctx",
                                 (json_int_t)info->slot_tokens_max, "is_processing", 0, "speculative", 0);
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
