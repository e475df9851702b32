/*
 * http - see the header. One `exchange` stands for one request on a connection; libmicrohttpd calls `on_request` for
 * it several times: at the headers, for each piece of the body, at its end, and after each sleep.
 */
#include "serve/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "serve/http_check.h"
#include "serve/json_answer.h"
#include "serve/watch.h"

enum {
    CHUNK_BYTES = 16 * 1024,
    DRAIN_FACTOR = 4,
    CONNECTION_BYTES = 64 * 1024,
    IDLE_SECONDS = 120,
    LAST_WORDS_MS = 1000,
    LOADING_RETRY_S = 2
};

struct cairn_http {
    cairn_http_options options;
    struct MHD_Daemon *daemon;
    cairn_watch *watch;
    int socket;
    uint16_t port;
    cairn_http_handler handler; /* valid once `open` is set                                              */
    atomic_bool open;
    atomic_uint_fast64_t bodies_bytes;
    atomic_uint open_exchanges; /* requests that have no answer yet, or whose answer is being sent */
};

typedef struct exchange {
    cairn_http *http;
    struct MHD_Connection *connection;
    cairn_buf body;
    uint64_t body_seen, body_counted;
    cairn_buf key; /* "Bearer <key>", made of x-api-key                                             */
    bool too_large, too_busy, watched, responded;
    bool anthropic; /* errors have Anthropic's shape                                               */
    uint32_t watch_id;
    cairn_http_reply reply;
} exchange;

/* --- answers ----------------------------------------------------------------------------------------------------- */

static enum MHD_Result send_response(exchange *x, int status, struct MHD_Response *response)
{
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    x->responded = result == MHD_YES;
    if (x->responded && atomic_load(&x->http->open))
        cairn_metrics_response(x->http->handler.metrics, status);
    return result;
}

static struct MHD_Response *buffer_response(const cairn_buf *bytes, const char *content_type)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        bytes->len_bytes,
        (void *)(uintptr_t)cairn_buf_str(bytes) /* NOLINT(performance-no-int-to-ptr): copied, not written */,
        MHD_RESPMEM_MUST_COPY);
    if (response != NULL)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    return response;
}

static enum MHD_Result send_error(exchange *x, const cairn_api_error *cause)
{
    cairn_api_error shaped = *cause;
    const cairn_api_error *error = &shaped;
    shaped.anthropic = x->anthropic;
    cairn_buf text;
    cairn_buf_init(&text, x->http->options.mem, (size_t)64 * 1024);
    struct MHD_Response *response = NULL;
    if (cairn_json_write(&text, cairn_json_error(error)) == CAIRN_OK)
        response = buffer_response(&text, "application/json");
    cairn_buf_release(&text);
    if (response == NULL)
        return MHD_NO;
    char number[16];
    if (error->allow[0] != '\0')
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, error->allow);
    if (error->retry_after_s > 0) {
        (void)snprintf(number, sizeof number, "%u", error->retry_after_s);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, number);
    }
    if (error->http == 401)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (error->close)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    CAIRN_LOG(x->http->options.log, DEBUG, "refused", CAIRN_FIELD_INT("status", error->http),
              CAIRN_FIELD_STR("message", error->message));
    return send_response(x, error->http, response);
}

/* --- outbox as a body -------------------------------------------------------------------------------------------- */

/* Called with the outbox's lock held, on the connection's thread. */
static void put_to_sleep(void *reader)
{
    exchange *x = reader;
    MHD_suspend_connection(x->connection);
}

/* Called with the outbox's lock held, on any thread. */
static void wake_up(void *reader)
{
    exchange *x = reader;
    MHD_resume_connection(x->connection);
}

static void on_gone(void *ctx)
{
    exchange *x = ctx;
    if (!cairn_outbox_cancel(x->reply.outbox))
        return;
    cairn_metrics_disconnect(x->http->handler.metrics);
    if (x->reply.gone != NULL)
        x->reply.gone(x->reply.job);
}

static ssize_t read_outbox(void *ctx, uint64_t position, char *out, size_t room_bytes)
{
    (void)position;
    exchange *x = ctx;
    size_t n = 0;
    switch (cairn_outbox_take(x->reply.outbox, out, room_bytes, &n, put_to_sleep)) {
    case CAIRN_OUTBOX_BYTES:
        return (ssize_t)n;
    case CAIRN_OUTBOX_SLEEP:
        return 0;
    case CAIRN_OUTBOX_END:
        return MHD_CONTENT_READER_END_OF_STREAM;
    default:
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
}

static enum MHD_Result send_outbox(exchange *x, size_t ready_bytes)
{
    uint64_t size = x->reply.stream ? MHD_SIZE_UNKNOWN : ready_bytes;
    struct MHD_Response *response =
        MHD_create_response_from_callback(size, CHUNK_BYTES, read_outbox, x, NULL);
    if (response == NULL)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  x->reply.stream ? "text/event-stream" : "application/json");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    if (x->reply.stream)
        (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
    return send_response(x, 200, response);
}

static enum MHD_Result continue_outbox(exchange *x)
{
    size_t ready = 0;
    switch (cairn_outbox_wait(x->reply.outbox, !x->reply.stream, put_to_sleep, &ready)) {
    case CAIRN_OUTBOX_SLEEP:
        return MHD_YES;
    case CAIRN_OUTBOX_READY:
        return send_outbox(x, ready);
    case CAIRN_OUTBOX_FAILED:
        return send_error(x, &x->reply.outbox->error);
    default:
        return MHD_NO;
    }
}

/* --- a request --------------------------------------------------------------------------------------------------- */

static enum MHD_Result check_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    cairn_http_check_header(ctx, name, value);
    return MHD_YES;
}

/* The headers are there: may the body come? */
static enum MHD_Result begin_exchange(exchange *x, const char *version)
{
    const cairn_http_options *options = &x->http->options;
    cairn_http_check check = {0};
    (void)MHD_get_connection_values(x->connection, MHD_HEADER_KIND, check_header, &check);
    cairn_http_check_end(&check, version);
    if (check.error.http != 0)
        return send_error(x, &check.error);
    if (check.count_content_length > 0 && check.content_length > options->body_bytes_max) {
        /* A little too large is read and thrown away, so that the client sees the answer; else the line is cut. */
        x->too_large = true;
        if (check.content_length > (uint64_t)options->body_bytes_max * DRAIN_FACTOR) {
            cairn_api_error error = {.close = true};
            cairn_api_error_set(&error, 413, "invalid_request_error", "request_too_large",
                                "The body has %llu bytes; the limit is %zu (--body-max).",
                                (unsigned long long)check.content_length, options->body_bytes_max);
            return send_error(x, &error);
        }
    }
    return MHD_YES;
}

static void drop_body(exchange *x)
{
    cairn_buf_release(&x->body);
    (void)atomic_fetch_sub(&x->http->bodies_bytes, x->body_counted);
    x->body_counted = 0;
}

static enum MHD_Result take_body(exchange *x, const char *bytes, size_t len_bytes)
{
    cairn_http *http = x->http;
    x->body_seen += len_bytes;
    if (x->body_seen > http->options.body_bytes_max)
        x->too_large = true;
    if (x->body_seen > (uint64_t)http->options.body_bytes_max * DRAIN_FACTOR)
        return MHD_NO;
    if (!x->too_large && !x->too_busy) {
        uint64_t all = atomic_fetch_add(&http->bodies_bytes, len_bytes) + len_bytes;
        x->body_counted += len_bytes;
        if (all > http->options.bodies_bytes_max || cairn_buf_append(&x->body, bytes, len_bytes) != CAIRN_OK)
            x->too_busy = true;
    }
    if (x->too_large || x->too_busy)
        drop_body(x);
    return MHD_YES;
}

static enum MHD_Result refuse_body(exchange *x)
{
    cairn_api_error error = {0};
    if (x->too_large) {
        cairn_api_error_set(&error, 413, "invalid_request_error", "request_too_large",
                            "The body is larger than the limit of %zu bytes (--body-max).",
                            x->http->options.body_bytes_max);
    } else {
        cairn_api_error_set(&error, 503, "unavailable_error", "busy",
                            "The server holds as many request bodies as it may; try again shortly.");
        error.retry_after_s = 1;
    }
    return send_error(x, &error);
}

/* The Authorization header, or one made of Anthropic's x-api-key; NULL: neither, or no memory for it. */
static const char *authorization_of(exchange *x)
{
    const char *value =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *key = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "x-api-key");
    if (value != NULL || key == NULL)
        return value;
    return cairn_buf_printf(&x->key, "Bearer %s", key) == CAIRN_OK ? cairn_buf_str(&x->key) : NULL;
}

/* The headers by which clients name their conversation. */
static const char *session_of(exchange *x)
{
    static const char *const names[] = {"x-session-id",   "x-session-affinity", "x-claude-code-session-id",
                                        "session-id",     "session_id",         "thread-id",
                                        "conversation_id"};
    const char *value = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && value == NULL; i++)
        value = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, names[i]);
    return value;
}

static enum MHD_Result call_handler(exchange *x, const char *method, const char *path)
{
    cairn_http *http = x->http;
    cairn_http_request request = {.method = method,
                                  .path = path,
                                  .body = cairn_buf_str(&x->body),
                                  .body_bytes = x->body.len_bytes,
                                  .authorization = authorization_of(x),
                                  .session = session_of(x)};
    x->reply.status = 200;
    if (atomic_load(&http->open)) {
        http->handler.handle(http->handler.ctx, &request, &x->reply);
    } else {
        cairn_api_error_set(&x->reply.error, 503, "unavailable_error", "loading",
                            "The model is being loaded; try again shortly.");
        x->reply.error.retry_after_s = LOADING_RETRY_S;
    }
    drop_body(x);
    if (x->reply.error.http != 0)
        return send_error(x, &x->reply.error);
    if (x->reply.outbox == NULL) {
        const char *type = x->reply.content_type != NULL ? x->reply.content_type : "application/json";
        return send_response(x, x->reply.status, buffer_response(&x->reply.bytes, type));
    }
    x->reply.outbox->reader = x;
    x->reply.outbox->wake = wake_up;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != NULL && cairn_watch_add(http->watch, info->connect_fd, on_gone, x, &x->watch_id) == CAIRN_OK)
        x->watched = true;
    return continue_outbox(x);
}

// NOLINTNEXTLINE(readability-function-size): libmicrohttpd's signature
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **state)
{
    cairn_http *http = ctx;
    exchange *x = *state;
    if (x == NULL) {
        x = cairn_mem_zalloc(http->options.mem, sizeof *x);
        if (x == NULL)
            return MHD_NO;
        x->http = http;
        x->connection = connection;
        cairn_buf_init(&x->body, http->options.mem, http->options.body_bytes_max);
        cairn_buf_init(&x->reply.bytes, http->options.mem, SIZE_MAX / 4);
        cairn_buf_init(&x->key, http->options.mem, CONNECTION_BYTES);
        x->anthropic = cairn_api_error_is_anthropic(path);
        *state = x;
        (void)atomic_fetch_add(&http->open_exchanges, 1);
        return begin_exchange(x, version);
    }
    if (*upload_bytes > 0) {
        size_t n = *upload_bytes;
        *upload_bytes = 0;
        return take_body(x, upload, n);
    }
    if (x->responded)
        return MHD_YES;
    if (x->reply.outbox != NULL)
        return continue_outbox(x);
    if (x->too_large || x->too_busy)
        return refuse_body(x);
    return call_handler(x, method, path);
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)connection;
    cairn_http *http = ctx;
    exchange *x = *state;
    if (x == NULL)
        return;
    *state = NULL;
    (void)atomic_fetch_sub(&http->open_exchanges, 1);
    if (x->watched)
        cairn_watch_remove(http->watch, x->watch_id);
    drop_body(x);
    cairn_buf_release(&x->reply.bytes);
    cairn_buf_release(&x->key);
    if (x->reply.outbox != NULL) {
        if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
            on_gone(x);
        (void)cairn_outbox_cancel(x->reply.outbox); /* from here on nobody reads */
        if (x->reply.release != NULL)
            x->reply.release(x->reply.job);
    }
    cairn_mem_release(http->options.mem, x, sizeof *x);
}

static void on_log(void *ctx, const char *format, va_list args) CAIRN_PRINTF(2, 0);
static void on_log(void *ctx, const char *format, va_list args)
{
    cairn_http *http = ctx;
    char text[256];
    (void)vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = '\0';
    CAIRN_LOG(http->options.log, DEBUG, "http", CAIRN_FIELD_STR("message", text));
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static cairn_status listen_on(const char *host, uint16_t port, int *ret_socket, uint16_t *ret_port,
                              cairn_error *reterr)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char service[8];
    (void)snprintf(service, sizeof service, "%u", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0) {
        return cairn_error_set(reterr, CAIRN_NOTFOUND, "http/listen", "no such address: %s (%s)", host,
                               gai_strerror(code));
    }
    int last = 0, sock = -1, one = 1;
    for (const struct addrinfo *a = found; a != NULL && sock < 0; a = a->ai_next) {
        sock = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (sock < 0) {
            last = errno;
            continue;
        }
        (void)setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(sock, a->ai_addr, a->ai_addrlen) != 0 || listen(sock, 511) != 0) {
            last = errno;
            (void)close(sock);
            sock = -1;
        }
    }
    freeaddrinfo(found);
    if (sock < 0 && last == EADDRINUSE)
        return cairn_error_set(reterr, CAIRN_BUSY, "http/listen", "port %u of %s is taken", port, host);
    if (sock < 0)
        return cairn_error_set_os(reterr, last, "http/listen", "can't listen on %s, port %u", host, port);
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char number[NI_MAXSERV] = "0";
    if (getsockname(sock, (struct sockaddr *)&address, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&address, len, NULL, 0, number, sizeof number, NI_NUMERICSERV);
    *ret_port = (uint16_t)strtoul(number, NULL, 10);
    *ret_socket = sock;
    return CAIRN_OK;
}

cairn_status cairn_http_start(const cairn_http_options *options, cairn_http **ret_http, cairn_error *reterr)
{
    cairn_http *http = cairn_mem_zalloc(options->mem, sizeof *http);
    if (http == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "http/start", NULL);
    http->options = *options;
    http->socket = -1;
    cairn_status status = cairn_watch_new(options->mem, options->connections_max, &http->watch, reterr);
    if (status == CAIRN_OK)
        status = listen_on(options->host, options->port, &http->socket, &http->port, reterr);
    if (status == CAIRN_OK) {
        http->daemon = MHD_start_daemon(
            MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_ITC, 0,
            NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, http, MHD_OPTION_LISTEN_SOCKET,
            http->socket, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_THREAD_POOL_SIZE,
            (unsigned)options->threads, MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->connections_max,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
            (unsigned)IDLE_SECONDS, MHD_OPTION_END);
        if (http->daemon == NULL) {
            status = cairn_error_set_os(reterr, errno, "http/start", "the HTTP library did not start");
        } else {
            http->socket = -1; /* the library closes it */
        }
    }
    if (status != CAIRN_OK) {
        cairn_http_stop(http);
        return status;
    }
    *ret_http = http;
    return CAIRN_OK;
}

void cairn_http_serve(cairn_http *http, const cairn_http_handler *handler)
{
    CAIRN_ASSERT(!atomic_load(&http->open));
    http->handler = *handler;
    atomic_store(&http->open, true);
}

uint16_t cairn_http_port(const cairn_http *http)
{
    return http->port;
}

void cairn_http_quiesce(cairn_http *http)
{
    http->socket = MHD_quiesce_daemon(http->daemon);
}

void cairn_http_stop(cairn_http *http)
{
    if (http == NULL)
        return;
    if (http->daemon != NULL) {
        /* What was answered is also sent, to those who take it. */
        for (int i = 0; i < LAST_WORDS_MS && atomic_load(&http->open_exchanges) > 0; i += 5) {
            struct timespec tick = {.tv_nsec = 5000000};
            (void)nanosleep(&tick, NULL);
        }
        MHD_stop_daemon(http->daemon);
    }
    if (http->socket >= 0)
        (void)close(http->socket);
    cairn_watch_free(http->watch);
    cairn_mem_release(http->options.mem, http, sizeof *http);
}
