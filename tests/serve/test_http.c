/*
 * Requests over a real socket: limits, framing, keep-alive, sleeping connections and clients that go away.
 */
#include "test_support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/http.h"

enum { BODY_MAX = 1000 };

/* A job of the test: an outbox that the test's own thread fills. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    cairn_outbox box;
    int opened, gone, released;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static cairn_metrics metrics;
static cairn_http *http;

static void count(int *what)
{
    pthread_mutex_lock(&job.lock);
    (*what)++;
    pthread_cond_broadcast(&job.cond);
    pthread_mutex_unlock(&job.lock);
}

static void wait_for(const int *what, int n)
{
    pthread_mutex_lock(&job.lock);
    while (*what < n)
        pthread_cond_wait(&job.cond, &job.lock);
    pthread_mutex_unlock(&job.lock);
}

static void on_release(void *ctx)
{
    (void)ctx;
    count(&job.released);
}

static void on_gone(void *ctx)
{
    (void)ctx;
    count(&job.gone);
}

static void handle(void *ctx, const cairn_http_request *request, cairn_http_reply *reply)
{
    (void)ctx;
    if (strcmp(request->path, "/stream") == 0 || strcmp(request->path, "/whole") == 0) {
        cairn_outbox_init(&job.box, cairn_mem_default(), 1 << 20);
        reply->outbox = &job.box;
        reply->stream = request->path[1] == 's';
        reply->release = on_release;
        reply->gone = on_gone;
        count(&job.opened);
        return;
    }
    assert_ok(cairn_buf_printf(&reply->bytes, "{\"method\":\"%s\",\"bytes\":%zu}", request->method,
                               request->body_bytes));
}

static int setup(void **state)
{
    (void)state;
    cairn_metrics_init(&metrics);
    cairn_http_options options = {.mem = cairn_mem_default(),
                                  .host = "127.0.0.1",
                                  .threads = 2,
                                  .connections_max = 64,
                                  .body_bytes_max = BODY_MAX,
                                  .bodies_bytes_max = 10 * BODY_MAX};
    const cairn_http_handler handler = {.handle = handle, .metrics = &metrics};
    if (cairn_http_start(&options, &http, NULL) != CAIRN_OK)
        return -1;
    cairn_http_serve(http, &handler);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cairn_http_stop(http);
    cairn_metrics_release(&metrics);
    return 0;
}

static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(cairn_http_port(http))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int sock = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(sock >= 0);
    struct timeval limit = {.tv_sec = 20};
    assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(connect(sock, (struct sockaddr *)&address, sizeof address), 0);
    return sock;
}

static void say(int sock, const char *text)
{
    size_t len = strlen(text);
    assert_int_equal(send(sock, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Read until the text is there, or the other side closes; gives what was read. */
static const char *hear(int sock, const char *until)
{
    static char text[8192];
    size_t used = 0;
    text[0] = '\0';
    while (until == NULL || strstr(text, until) == NULL) {
        ssize_t n = recv(sock, text + used, sizeof text - 1 - used, 0);
        if (n <= 0)
            break;
        used += (size_t)n;
        text[used] = '\0';
    }
    return text;
}

/* One request on a connection of its own; everything until the server closes. */
static const char *once(const char *request)
{
    int sock = dial();
    say(sock, request);
    const char *text = hear(sock, NULL);
    close(sock);
    return text;
}

static void a_connection_serves_several_requests(void **state)
{
    (void)state;
    int sock = dial();
    for (int i = 0; i < 3; i++) {
        say(sock, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        assert_non_null(strstr(hear(sock, "}"), "\"bytes\":5"));
        say(sock, "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                  "chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
        assert_non_null(strstr(hear(sock, "}"), "\"bytes\":7"));
    }
    close(sock);
}

static void doubtful_framing_gets_400_and_a_close(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\nabcd",
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const char *text = once(requests[i]);
        assert_memory_equal(text, "HTTP/1.1 400", 12);
        assert_non_null(strstr(text, "Connection: close"));
        assert_non_null(strstr(text, "\"invalid_request_error\""));
    }
}

static void a_large_body_gets_413_and_the_server_goes_on(void **state)
{
    (void)state;
    char request[4096];
    int n = snprintf(request, sizeof request, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n",
                     BODY_MAX + 1);
    memset(request + n, 'x', BODY_MAX + 1);
    request[n + BODY_MAX + 1] = '\0';
    int sock = dial();
    say(sock, request);
    assert_memory_equal(hear(sock, "}}"), "HTTP/1.1 413", 12);
    /* The same connection still works: the body was read to its end. */
    say(sock, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_memory_equal(hear(sock, "}"), "HTTP/1.1 200", 12);
    close(sock);
    assert_memory_equal(once("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"),
                        "HTTP/1.1 413", 12);
}

static void put(const char *text)
{
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 1000);
    assert_ok(cairn_buf_append_str(&buf, text));
    assert_ok(cairn_outbox_put(&job.box, &buf));
    cairn_buf_release(&buf);
}

static void a_stream_arrives_piece_by_piece(void **state)
{
    (void)state;
    job.opened = job.released = job.gone = 0;
    int sock = dial();
    say(sock, "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    wait_for(&job.opened, 1);
    put("data: one\n\n");
    const char *text = hear(sock, "one");
    assert_non_null(strstr(text, "text/event-stream"));
    put("data: two\n\n");
    assert_non_null(strstr(hear(sock, "two"), "two"));
    cairn_outbox_end(&job.box);
    assert_non_null(strstr(hear(sock, "0\r\n\r\n"), "0\r\n\r\n"));
    wait_for(&job.released, 1);
    close(sock);
    cairn_outbox_release(&job.box);
    assert_int_equal(job.gone, 0);
}

static void a_whole_answer_comes_with_its_length(void **state)
{
    (void)state;
    job.opened = job.released = job.gone = 0;
    int sock = dial();
    say(sock, "POST /whole HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    wait_for(&job.opened, 1);
    put("{\"x\":1}");
    cairn_outbox_end(&job.box);
    assert_non_null(strstr(hear(sock, "{\"x\":1}"), "Content-Length: 7"));
    wait_for(&job.released, 1);
    close(sock);
    cairn_outbox_release(&job.box);
}

static void a_client_that_goes_away_is_noticed_while_nothing_is_sent(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        job.opened = job.released = job.gone = 0;
        int sock = dial();
        say(sock, whole ? "POST /whole HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
                        : "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        wait_for(&job.opened, 1);
        close(sock);
        wait_for(&job.gone, 1);
        wait_for(&job.released, 1);
        assert_true(cairn_outbox_is_cancelled(&job.box));
        cairn_outbox_release(&job.box);
        assert_int_equal(job.gone, 1);
    }
}

static void a_failure_before_the_first_byte_is_a_status(void **state)
{
    (void)state;
    job.opened = job.released = job.gone = 0;
    int sock = dial();
    say(sock, "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    wait_for(&job.opened, 1);
    cairn_api_error error = {0};
    cairn_api_error_set(&error, 429, "rate_limit_error", "queue_full", "later");
    error.retry_after_s = 3;
    cairn_outbox_fail(&job.box, &error);
    const char *text = hear(sock, "}}");
    assert_memory_equal(text, "HTTP/1.1 429", 12);
    assert_non_null(strstr(text, "Retry-After: 3"));
    wait_for(&job.released, 1);
    close(sock);
    cairn_outbox_release(&job.box);
}

static void a_port_that_is_taken_is_told(void **state)
{
    (void)state;
    cairn_http_options options = {.mem = cairn_mem_default(),
                                  .host = "127.0.0.1",
                                  .port = cairn_http_port(http),
                                  .threads = 1,
                                  .connections_max = 4,
                                  .body_bytes_max = 10,
                                  .bodies_bytes_max = 10};
    cairn_http *second = NULL;
    cairn_error error = {0};
    assert_status(cairn_http_start(&options, &second, &error), CAIRN_BUSY);
    assert_non_null(strstr(error.detail, "is taken"));
    options.host = "no.such.host.invalid";
    assert_status(cairn_http_start(&options, &second, &error), CAIRN_NOTFOUND);
}

static void until_there_is_a_handler_clients_are_told_to_come_back(void **state)
{
    (void)state;
    cairn_http_options options = {.mem = cairn_mem_default(),
                                  .host = "127.0.0.1",
                                  .threads = 1,
                                  .connections_max = 4,
                                  .body_bytes_max = 1000,
                                  .bodies_bytes_max = 1000};
    cairn_http *loading = NULL, *usual = http;
    assert_ok(cairn_http_start(&options, &loading, NULL));
    http = loading; /* what the helpers talk to */
    const char *answer = once("GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(answer, " 503 "));
    assert_non_null(strstr(answer, "Retry-After: 2"));
    assert_non_null(strstr(answer, "\"loading\""));
    answer = once("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
    assert_non_null(strstr(answer, " 503 "));
    const cairn_http_handler handler = {.handle = handle, .metrics = &metrics};
    cairn_http_serve(loading, &handler);
    answer = once("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(answer, " 200 "));
    cairn_http_stop(loading);
    http = usual;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_serves_several_requests),
        cmocka_unit_test(doubtful_framing_gets_400_and_a_close),
        cmocka_unit_test(until_there_is_a_handler_clients_are_told_to_come_back),
        cmocka_unit_test(a_large_body_gets_413_and_the_server_goes_on),
        cmocka_unit_test(a_stream_arrives_piece_by_piece),
        cmocka_unit_test(a_whole_answer_comes_with_its_length),
        cmocka_unit_test(a_client_that_goes_away_is_noticed_while_nothing_is_sent),
        cmocka_unit_test(a_failure_before_the_first_byte_is_a_status),
        cmocka_unit_test(a_port_that_is_taken_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
