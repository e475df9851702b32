/*
 * serve - the server: an engine, a cache and a chat template, reached over HTTP.
 *
 *   http threads:  parse, check, render, tokenize --> queue --> scheduler thread: cache, engine, sampling
 *                  send bytes <------------------------ outbox <-----
 *
 * Units    tokens, bytes, ns
 * Owner    options and what they point to are borrowed and must outlive the server. Between start and stop the engine
 *          and the cache belong to the server's scheduler thread
 * Thread   start, stop and free from one thread
 * See      docs/api.md, docs/ARCHITECTURE.md
 */
#ifndef CAIRN_SERVE_H
#define CAIRN_SERVE_H

#include "base/clock.h"
#include "base/log.h"
#include "cairn/cairn.h"
#include "chat/bridge.h"
#include "engine/llama_vocab.h"
#include "serve/recorder.h"
#include "serve/script.h"

typedef struct cairn_serve cairn_serve;
struct cairn_http;

typedef struct cairn_serve_options {
    cairn_mem *mem;
    cairn_log *log;
    const cairn_clock *clock;
    cairn_engine *engine;
    cairn_cache *cache;
    const cairn_llama_vocab *vocab;
    const cairn_chat *chat;
    struct cairn_http
        *http; /* listens already: see cairn_serve_listen; taken over. NULL: it is started       */
    const char *model_name; /* what clients see                                                     */
    const char *host;
    uint16_t port;    /* 0: a free one                                                                 */
    uint32_t threads; /* of HTTP                                                            */
    uint32_t connections_max; /* open at once                                                       */
    uint32_t queue_max;       /* requests that wait for a slot                                      */
    uint64_t request_ns;      /* a request that takes longer is ended; 0: however long it takes         */
    size_t body_bytes_max;
    cairn_resume_mode resume; /* for requests that don't say                                        */
    const char *not_exact; /* why exact mode is not bit for bit here, as measured at start; NULL, "": it is */
    bool thinking_off;
    bool normalize; /* take known volatile text out of the prompt's head: see normalize.h             */
    uint64_t answers_bytes_max; /* memory for answers that may come back: see recall.h; 0: off          */
    const cairn_cache_disk *answers_disk; /* where they outlive the process; NULL: nowhere              */
    size_t replies_bytes_max; /* memory for responses that are kept by their id; 0: none              */
    bool no_excerpts; /* records of requests hold no text of prompts                                 */
    cairn_recorder *recorder; /* --trace; NULL: nothing is recorded. Used by the scheduler's thread     */
    const char *template_kwargs_json; /* NULL: none                                                 */
    const char *const *api_keys;      /* char *[count_api_keys]; none: no key is asked for          */
    size_t count_api_keys;
    const uint8_t *namespace_secret; /* uint8_t[32]: the same namespaces after a restart; NULL: drawn    */
    cairn_script *script;            /* answers come from it: for tests; NULL: from the model             */
    uint64_t flush_ns;               /* at the end: how long what is on its way to disk may take        */
    /* Called while a long prompt is read, on the scheduler's thread; NULL: not. */
    void (*progress)(void *ctx, uint64_t job, uint32_t done_tokens, uint32_t prompt_tokens);
    void *progress_ctx;
} cairn_serve_options;

/*
 * Listen before there is a model: clients get 503 until cairn_serve_start, which takes it over in options->http. Of the
 * options mem, log, host, port, threads, connections_max and body_bytes_max count. Given up: cairn_http_stop.
 *
 * Errors   CAIRN_BUSY (the port is taken), CAIRN_NOTFOUND (no such host), CAIRN_IO, CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_serve_listen(const cairn_serve_options *options,
                                                 struct cairn_http **ret_http, cairn_error *reterr);
/*
 * Start serving.
 * Errors   CAIRN_BUSY (the port is taken), CAIRN_NOTFOUND (no such host), CAIRN_INVALID (an API key), CAIRN_IO,
 *          CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_serve_start(const cairn_serve_options *options, cairn_serve **ret_serve,
                                                cairn_error *reterr);
/* What it is linked with: "libmicrohttpd 0.9.75, jansson 2.14". */
const char *cairn_serve_libraries(void);
/*
 * Replace the API keys: see cairn_keys_replace. Only where keys were given at start.
 * Errors   CAIRN_INVALID, CAIRN_NOMEM; the keys are then as before
 */
CAIRN_MUST_CHECK cairn_status cairn_serve_replace_keys(cairn_serve *serve, const char *const *api_keys,
                                                       size_t count, cairn_error *reterr);
/* The port that is listened on. */
uint16_t cairn_serve_port(const cairn_serve *serve);
/* Stop: no new connections, requests may finish for drain_ns, the rest is cancelled; frees. NULL is allowed. */
void cairn_serve_stop(cairn_serve *serve, uint64_t drain_ns);

#endif
