/*
 * http - requests in, answers out, over libmicrohttpd; with the limits and checks that keep a hostile or broken client
 * from harming others.
 *
 *   socket -> headers checked -> body collected -> handler -> reply: bytes | an outbox that is filled later
 *                                                                         (the connection sleeps meanwhile)
 *
 * What is refused here, before a handler sees it: header names with blanks, several Content-Lengths or one that is no
 * number, Content-Length with Transfer-Encoding, encodings other than chunked, bodies over the limit (413), and bodies
 * when all of them together would take too much memory (503).
 *
 * Units    bytes
 * Owner    the handler fills a reply; what it puts there is taken over
 * Thread   the handler runs on one of `threads` threads, several at once
 * See      docs/decisions/0005-http-with-libmicrohttpd.md
 */
#ifndef CAIRN_HTTP_H
#define CAIRN_HTTP_H

#include "base/log.h"
#include "serve/metrics.h"
#include "serve/outbox.h"

typedef struct cairn_http cairn_http;

typedef struct cairn_http_request {
    const char *method; /* "POST"                                                                  */
    const char *path;   /* "/v1/models", without the query                                         */
    const char *body;   /* uint8_t[body_bytes], NUL-terminated                                     */
    size_t body_bytes;
    const char *authorization; /* the header's value; NULL: none                                   */
    const char *session;       /* whatever header names the client's session; NULL: none              */
} cairn_http_request;

typedef struct cairn_http_reply {
    /* Either bytes ... */
    int status;               /* 200                                                                 */
    const char *content_type; /* a constant; NULL: application/json                                 */
    cairn_buf bytes;          /* initialised by http; given back by http                            */
    /* ... or an error ... */
    cairn_api_error error; /* error.http != 0: this is the answer                                   */
    /* ... or an outbox, when it is not NULL. */
    cairn_outbox *outbox;
    bool stream; /* text/event-stream as it comes; else one JSON object when it is whole          */
    void *job;
    void (*release)(void *job); /* called once, when the connection is through with it              */
    void (*gone)(void *job);    /* the client went away, or the connection broke; any thread       */
} cairn_http_reply;

typedef struct cairn_http_options {
    const cairn_mem *mem;
    cairn_log *log;
    const char *host;
    uint16_t port; /* 0: a free one                                                                 */
    uint32_t threads;
    uint32_t connections_max;
    size_t body_bytes_max;
    size_t bodies_bytes_max; /* all bodies together                                                 */
} cairn_http_options;

/* Who answers. */
typedef struct cairn_http_handler {
    void (*handle)(void *ctx, const cairn_http_request *request, cairn_http_reply *reply);
    void *ctx;
    cairn_metrics *metrics;
} cairn_http_handler;

/*
 * Listen. Until there is a handler every request gets 503 with Retry-After: the model is being loaded.
 *
 * Errors   CAIRN_BUSY  the port is taken; CAIRN_NOTFOUND  no such host; CAIRN_IO; CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_http_start(const cairn_http_options *options, cairn_http **ret_http,
                                               cairn_error *reterr);
/* From now on `handler`, which is copied, answers. Once. */
void cairn_http_serve(cairn_http *http, const cairn_http_handler *handler);
/* The port that is listened on. */
uint16_t cairn_http_port(const cairn_http *http);
/* Accept no new connections; those there are go on. */
void cairn_http_quiesce(cairn_http *http);
/* Stop. Every outbox must have ended or been cancelled. NULL is allowed. */
void cairn_http_stop(cairn_http *http);

#endif
