/*
 * routes - see the header.
 */
#include "serve/routes.h"

#include <stdio.h>
#include <string.h>

static const cairn_route table[] = {
    {"GET", "/health", cairn_route_health, true},
    {"GET", "/v1/health", cairn_route_health, true},
    {"GET", "/ready", cairn_route_ready, true},
    {"GET", "/v1/models", cairn_route_models, false},
    {"GET", "/v1/models/*", cairn_route_one_model, false},
    {"GET", "/models", cairn_route_models, false},
    {"POST", "/v1/chat/completions", cairn_route_chat, false},
    {"POST", "/chat/completions", cairn_route_chat, false},
    {"POST", "/v1/completions", cairn_route_completions, false},
    {"POST", "/completions", cairn_route_completions, false},
    {"POST", "/completion", cairn_route_completion, false},
    {"POST", "/infill", cairn_route_infill, false},
    {"POST", "/v1/embeddings", cairn_route_embeddings, false},
    {"POST", "/embeddings", cairn_route_embeddings, false},
    {"POST", "/v1/responses", cairn_route_responses, false},
    {"POST", "/responses", cairn_route_responses, false},
    {"POST", "/v1/responses/input_tokens", cairn_route_response_tokens, false},
    {"GET", "/v1/responses/*", cairn_route_one_response, false},
    {"DELETE", "/v1/responses/*", cairn_route_delete_response, false},
    {"POST", "/v1/responses/*/cancel", cairn_route_cancel_response, false},
    {"POST", "/responses/input_tokens", cairn_route_response_tokens, false},
    {"GET", "/responses/*", cairn_route_one_response, false},
    {"DELETE", "/responses/*", cairn_route_delete_response, false},
    {"POST", "/responses/*/cancel", cairn_route_cancel_response, false},
    {"POST", "/v1/messages", cairn_route_messages, false},
    {"POST", "/v1/messages/count_tokens", cairn_route_count_tokens, false},
    {"POST", "/tokenize", cairn_route_tokenize, false},
    {"POST", "/detokenize", cairn_route_detokenize, false},
    {"POST", "/apply-template", cairn_route_apply_template, false},
    {"GET", "/metrics", cairn_route_metrics, false},
    {"GET", "/props", cairn_route_props, false},
    {"GET", "/slots", cairn_route_slots, false},
    {"GET", "/cairn/cache", cairn_route_cache, false},
    {"GET", "/cairn/cache/disk", cairn_route_cache_disk, false},
    {"DELETE", "/cairn/cache", cairn_route_forget, false},
    {"POST", "/cairn/warm", cairn_route_warm, false},
    {"POST", "/cairn/warm/*", cairn_route_warm, false},
    {"GET", "/cairn/requests", cairn_route_requests, false},
    {"GET", "/cairn/requests/*", cairn_route_one_request, false},
    {"GET", "/cairn/requests/*/perfetto", cairn_route_perfetto, false},
    {"GET", "/cairn/events", cairn_route_events, false},
    {"GET", "/", cairn_route_page, true},
};

static const cairn_route head_route = {"HEAD", "", cairn_route_head, true};

/* A '*' stands for one name: "/cairn/requests/" followed by it. A '/' at the end makes no difference, but behind a name. */
static bool same_path(const char *route, const char *path)
{
    bool named = false;
    for (; *route != '\0'; route++) {
        if (*route == '*') {
            size_t n = strcspn(path, "/");
            if (n == 0)
                return false;
            path += n;
            named = true;
        } else if (*route != *path++) {
            return false;
        }
    }
    return *path == '\0' || (!named && path[0] == '/' && path[1] == '\0');
}

const cairn_route *cairn_routes_find(const char *method, const char *path, cairn_api_error *error)
{
    const char *asked = strcmp(method, "HEAD") == 0 ? "GET" : method;
    char allow[sizeof error->allow] = "";
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (!same_path(table[i].path, path))
            continue;
        if (strcmp(table[i].method, asked) == 0)
            return &table[i];
        size_t used = strlen(allow);
        (void)snprintf(allow + used, sizeof allow - used, "%s%s", used > 0 ? ", " : "",
                       strcmp(table[i].method, "GET") == 0 ? "GET, HEAD" : table[i].method);
    }
    if (allow[0] != '\0' && strcmp(method, "HEAD") == 0)
        return &head_route;
    if (allow[0] == '\0') {
        cairn_api_error_set(
            error, 404, "not_found_error", "not_found",
            "There is no %.100s here. Chats are at /v1/chat/completions, /v1/responses and /v1/messages; "
            "docs/api.md lists all paths.",
            path);
        return NULL;
    }
    cairn_api_error_set(error, 405, "invalid_request_error", "method_not_allowed",
                        "%.16s is not possible for %.100s; use %s.", method, path, allow);
    memcpy(error->allow, allow, sizeof allow);
    return NULL;
}
