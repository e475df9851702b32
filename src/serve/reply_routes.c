/*
 * reply_routes - a response by its id: GET and DELETE /v1/responses/ID, and POST .../ID/cancel.
 *
 * What is kept is in replies.h. Responses that were made under a cache_salt are in a namespace that these routes, which have
 * no body, can't name: they are not found.
 */
#include <string.h>

#include "serve/json_answer.h"
#include "serve/serve_inside.h"

/* The name behind "responses/". */
static void id_of(const cairn_http_request *request, char id[CAIRN_REPLY_ID_BYTES_MAX + 1])
{
    static const char parent[] = "responses/";
    const char *at = strstr(request->path, parent);
    size_t n = at != NULL ? strcspn(at + sizeof parent - 1, "/") : 0;
    n = n <= CAIRN_REPLY_ID_BYTES_MAX ? n : 0;
    if (n > 0)
        memcpy(id, at + sizeof parent - 1, n);
    id[n] = '\0';
}

static void not_found(cairn_api_error *error, const char *id)
{
    cairn_api_error_set(
        error, 404, "invalid_request_error", NULL,
        "Response with id '%.64s' not found. It is here when it is complete, unless it was made with store: "
        "false or a cache_salt, or newer ones took its place: this server keeps the newest ones, in memory.",
        id);
    memcpy(error->param, "id", sizeof "id");
}

static bool find(cairn_serve *serve, const cairn_http_request *request, cairn_namespace *ret_space,
                 char id[CAIRN_REPLY_ID_BYTES_MAX + 1], cairn_api_error *error)
{
    id_of(request, id);
    if (cairn_keys_namespace(serve->keys, request->authorization, NULL, ret_space) == CAIRN_OK)
        return true;
    cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    return false;
}

/* The response as it was told; NULL with an error. */
static json_t *read_reply(cairn_serve *serve, const cairn_http_request *request, cairn_api_error *error)
{
    cairn_namespace space;
    char id[CAIRN_REPLY_ID_BYTES_MAX + 1];
    if (!find(serve, request, &space, id, error))
        return NULL;
    cairn_buf text;
    cairn_buf_init(&text, serve->options.mem, SIZE_MAX / 4);
    cairn_status status = cairn_replies_get(serve->replies, &space, id, CAIRN_REPLY_RESPONSE, &text);
    json_t *value = status == CAIRN_OK ? json_loadb(cairn_buf_str(&text), text.len_bytes, 0, NULL) : NULL;
    if (status == CAIRN_NOTFOUND) {
        not_found(error, id);
    } else if (value == NULL) {
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    }
    cairn_buf_release(&text);
    return value;
}

void cairn_route_one_response(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    json_t *value = read_reply(serve, request, &reply->error);
    if (value != NULL)
        cairn_reply_json(reply, value);
}

void cairn_route_delete_response(cairn_serve *serve, const cairn_http_request *request,
                                 cairn_http_reply *reply)
{
    cairn_namespace space;
    char id[CAIRN_REPLY_ID_BYTES_MAX + 1];
    if (!find(serve, request, &space, id, &reply->error))
        return;
    if (cairn_replies_remove(serve->replies, &space, id)) {
        cairn_reply_json(reply, json_pack("{s:s, s:s, s:b}", "id", id, "object", "response", "deleted", 1));
    } else {
        not_found(&reply->error, id);
    }
}

void cairn_route_cancel_response(cairn_serve *serve, const cairn_http_request *request,
                                 cairn_http_reply *reply)
{
    json_t *value = read_reply(serve, request, &reply->error);
    if (value == NULL)
        return;
    json_decref(value);
    cairn_api_error_bad(
        &reply->error, "id",
        "A response that is complete can't be cancelled. One that is being written ends when its "
        "connection is closed.");
}
