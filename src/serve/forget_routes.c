/*
 * forget_routes - DELETE /cairn/cache: what is known of a namespace, or of all, goes: states, rows and paths in memory
 * and on disk, answers that may come back, responses that may be continued, texts in records.
 *
 *   connection ----- ask ----> scheduler's thread: forget, count
 *       ^  (sleeps)                 |
 *       +------- outbox <-----------+
 *
 * Two hold a `forget`: the connection and, until it has answered, the scheduler; the last one frees it.
 */
#include <string.h>

#include "serve/json_answer.h"
#include "serve/json_fields.h"
#include "serve/serve_inside.h"

enum { REPLY_BYTES_MAX = 4096 };

typedef struct forget {
    cairn_scheduler_ask ask; /* first member: the ask's address is this one's */
    cairn_serve *serve;
    atomic_uint refs;
    cairn_outbox outbox;
    cairn_namespace space;
    bool all;
} forget;

static void unref(void *ptr)
{
    forget *f = ptr;
    if (atomic_fetch_sub(&f->refs, 1) != 1)
        return;
    cairn_outbox_release(&f->outbox);
    cairn_mem_release(f->serve->options.mem, f, sizeof *f);
}

/* What there was more before than after. */
static json_t *difference(const cairn_cache_stats *before, const cairn_cache_stats *after,
                          uint64_t disk_before, uint64_t disk_after)
{
    return json_pack("{s:s, s:I, s:I, s:I}", "object", "cairn.forgotten", "states",
                     (json_int_t)(before->states - after->states), "ram_bytes",
                     (json_int_t)(before->state_bytes + before->row_bytes) -
                         (json_int_t)(after->state_bytes + after->row_bytes),
                     "disk_bytes", disk_before > disk_after ? (json_int_t)(disk_before - disk_after) : 0);
}

/* Forget, and say in `text` how much that was. On the scheduler's thread, between two rounds. */
static void carry_out(forget *f, cairn_cache *cache, cairn_buf *text, cairn_api_error *error)
{
    cairn_serve *serve = f->serve;
    const cairn_namespace *space = f->all ? NULL : &f->space;
    cairn_error cause = {0};
    cairn_cache_stats before, after;
    cairn_cache_disk_stats disk_before, disk_after;
    cairn_answers_stats answers;
    cairn_cache_stats_get(cache, &before);
    cairn_cache_disk_stats_get(cache, &disk_before);
    if (cairn_cache_forget(cache, space, &cause) != CAIRN_OK)
        cairn_api_error_from(error, &cause);
    cairn_answers_forget(serve->answers, space);
    cairn_replies_forget(serve->replies, space);
    cairn_history_forget(&serve->history, space);
    cairn_cache_stats_get(cache, &after);
    cairn_cache_disk_stats_get(cache, &disk_after);
    cairn_answers_stats_get(serve->answers, &answers);
    cairn_metrics_cache(&serve->metrics, &after);
    cairn_metrics_answers(&serve->metrics, 0, &answers);
    json_t *said = difference(&before, &after, disk_before.bytes, disk_after.bytes);
    if (cairn_json_write(text, said) != CAIRN_OK)
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
}

static void answer(cairn_scheduler_ask *ask, cairn_cache *cache)
{
    forget *f = (forget *)ask;
    cairn_api_error error = {0};
    cairn_buf text;
    cairn_buf_init(&text, f->serve->options.mem, REPLY_BYTES_MAX);
    if (cache != NULL) {
        carry_out(f, cache, &text, &error);
    } else {
        cairn_api_error_set(&error, 503, "unavailable_error", "stopping", "The server is stopping.");
    }
    if (error.http == 0 && cairn_outbox_put(&f->outbox, &text) == CAIRN_OK) {
        cairn_outbox_end(&f->outbox);
    } else {
        cairn_api_error_set(&error, 503, "unavailable_error", NULL, "out of memory");
        cairn_outbox_fail(&f->outbox, &error);
    }
    cairn_buf_release(&text);
    unref(f);
}

/* {} or no body: the caller's namespace; {"cache_salt":".."}: that one; {"all":true}: all, where there are no keys. */
static bool read_body(cairn_serve *serve, const cairn_http_request *request, cairn_namespace *ret_space,
                      bool *ret_all, cairn_api_error *error)
{
    bool empty = request->body_bytes == 0;
    json_t *body = empty ? json_object() : cairn_json_parse(request->body, request->body_bytes, error);
    if (body == NULL)
        return false;
    cairn_json_boolean(body, "all", ret_all, error);
    bool good = cairn_read_namespace(serve, request, body, ret_space, error);
    json_decref(body);
    if (good && *ret_all && serve->options.count_api_keys > 0) {
        cairn_api_error_set(error, 403, "permission_error", "permission_denied",
                            "With API keys each key can forget its own namespaces only; leave \"all\" out.");
        memcpy(error->param, "all", sizeof "all");
        return false;
    }
    return good;
}

void cairn_route_forget(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_namespace space;
    bool all = false;
    if (!read_body(serve, request, &space, &all, &reply->error))
        return;
    forget *f = cairn_mem_zalloc(serve->options.mem, sizeof *f);
    if (f == NULL) {
        cairn_api_error_set(&reply->error, 503, "unavailable_error", NULL, "out of memory");
        return;
    }
    f->ask.answer = answer;
    f->serve = serve;
    f->space = space;
    f->all = all;
    atomic_init(&f->refs, 2);
    cairn_outbox_init(&f->outbox, serve->options.mem, REPLY_BYTES_MAX);
    reply->outbox = &f->outbox;
    reply->job = f;
    reply->release = unref;
    cairn_scheduler_ask_cache(serve->scheduler, &f->ask);
}
