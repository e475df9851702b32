/*
 * page - the page at `/` and what it asks for. The page is one file, made of web/ at build time and part of the program.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "serve/cache_view.h"
#include "serve/page_bytes.h"
#include "serve/perfetto.h"
#include "serve/serve_inside.h"

void cairn_route_page(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)serve;
    (void)request;
    reply->content_type = "text/html; charset=utf-8";
    if (cairn_buf_append(&reply->bytes, cairn_page_bytes, cairn_page_len_bytes) != CAIRN_OK)
        cairn_api_error_set(&reply->error, 503, "unavailable_error", NULL, "out of memory");
}

/* The caller's namespace, without a salt. */
static bool owner_of(cairn_serve *serve, const cairn_http_request *request, cairn_namespace *ret_owner,
                     cairn_api_error *error)
{
    if (cairn_keys_namespace(serve->keys, request->authorization, NULL, ret_owner) == CAIRN_OK)
        return true;
    cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    return false;
}

void cairn_route_events(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_namespace owner;
    if (owner_of(serve, request, &owner, &reply->error))
        cairn_events_watch(serve->events, &owner, false, reply);
}

void cairn_route_cache(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_namespace owner;
    if (owner_of(serve, request, &owner, &reply->error))
        cairn_events_watch(serve->events, &owner, true, reply);
}

void cairn_route_cache_disk(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_namespace owner;
    if (!owner_of(serve, request, &owner, &reply->error))
        return;
    cairn_cache_view view;
    cairn_error error = {0};
    cairn_cache_view_init(&view, serve->options.mem, &owner);
    cairn_status status = cairn_cache_view_fill_disk(&view, serve->options.cache,
                                                     cairn_clock_wall_ms(serve->options.clock), &error);
    if (status == CAIRN_OK)
        status = cairn_cache_view_print_tree(&view, &reply->bytes);
    cairn_cache_view_release(&view);
    if (status == CAIRN_OK)
        return;
    if (error.status == CAIRN_OK)
        (void)cairn_error_set(&error, status, "page/disk", NULL);
    cairn_api_error_from(&reply->error, &error);
}

void cairn_route_requests(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_namespace owner;
    if (owner_of(serve, request, &owner, &reply->error)) {
        cairn_reply_json(reply, cairn_history_json(&serve->history,
                                                   serve->options.count_api_keys > 0 ? &owner : NULL, NULL));
    }
}

/* The request whose number stands in the path. false: the reply says why not. */
static bool find_request(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply,
                         cairn_history_entry *ret_entry)
{
    static const char before[] = "/cairn/requests/";
    cairn_namespace owner;
    const char *text = request->path + sizeof before - 1;
    char *end = NULL;
    errno = 0;
    unsigned long long id = strtoull(text, &end, 10);
    if (!owner_of(serve, request, &owner, &reply->error))
        return false;
    bool number = errno == 0 && (*end == '\0' || *end == '/') && text[0] >= '0' && text[0] <= '9';
    if (number &&
        cairn_history_get(&serve->history, serve->options.count_api_keys > 0 ? &owner : NULL, id, ret_entry))
        return true;
    cairn_api_error_set(&reply->error, 404, "not_found_error", "not_found",
                        "There is no record of request %.*s; the last %d are kept.", (int)strcspn(text, "/"),
                        text, CAIRN_HISTORY_MAX);
    return false;
}

void cairn_route_one_request(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_history_entry entry;
    if (find_request(serve, request, reply, &entry))
        cairn_reply_json(reply, cairn_history_entry_json(&entry));
}

void cairn_route_perfetto(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_history_entry entry;
    cairn_span writes[CAIRN_PERFETTO_WRITES_MAX];
    if (!find_request(serve, request, reply, &entry))
        return;
    uint32_t count = cairn_cache_disk_writes(serve->options.cache, &entry.space, entry.arrived_ns, writes,
                                             CAIRN_PERFETTO_WRITES_MAX);
    cairn_reply_json(reply, cairn_perfetto_json(&entry, writes, count));
}
