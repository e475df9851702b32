/*
 * tier_http - see the header. libcurl's multi interface does the work; each line has an easy handle of its own.
 */
#include "store/tier_http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"

enum { LINES = 16, SLICE_MS = 100, TEXT_BYTES = 2048, HEADERS_MAX = 6, HEADER_BYTES = 2176 };

static const char where_http[] = "store/http: ask";

typedef enum http_verb { VERB_GET, VERB_PUT, VERB_EXISTS, VERB_DROP } http_verb;

/* One request under way. */
typedef struct http_line {
    CURL *easy;
    cairn_kv_item *item; /* NULL: free                                                                    */
    uint64_t done_bytes; /* of the value, sent or received                                               */
    bool too_long;
    struct curl_slist headers[HEADERS_MAX]; /* libcurl only reads the list                              */
    char texts[HEADERS_MAX][HEADER_BYTES];
    uint32_t count_headers;
} http_line;

typedef struct http_kv {
    cairn_kv kv;
    const cairn_mem *mem;
    char base[TEXT_BYTES], login[TEXT_BYTES], token[TEXT_BYTES];
    char sign[128]; /* "aws:amz:<region>:s3"; empty: no                                                  */
    CURLM *multi;
    http_line lines[LINES];
} http_kv;

/* One batch on its way. */
typedef struct http_batch {
    http_kv *http;
    http_verb verb;
    cairn_kv_item *items;
    uint32_t count, next, running;
    uint64_t until_ns;
    cairn_status status; /* what is wrong with the whole store                                           */
    char why[128];
} http_batch;

static void fail(http_batch *batch, cairn_status status, const char *why, long code)
{
    if (batch->status == CAIRN_OK) {
        batch->status = status;
        (void)snprintf(batch->why, sizeof batch->why, code > 0 ? "%s %ld" : "%s", why, code);
    }
}

/* --- values in and out ---------------------------------------------------------------------------------------- */

static size_t take_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    http_line *line = ctx;
    cairn_kv_item *item = line->item;
    long code = 0;
    size_t got = size * count;
    (void)curl_easy_getinfo(line->easy, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200 || item->bytes == NULL) {
        return got; /* a page about an error */
    }
    if (got > item->room_bytes - line->done_bytes) {
        line->too_long = true;
        return 0;
    }
    memcpy(item->bytes + line->done_bytes, bytes, got);
    line->done_bytes += got;
    return got;
}

static size_t give_bytes(char *room, size_t size, size_t count, void *ctx)
{
    http_line *line = ctx;
    uint64_t left = line->item->size_bytes - line->done_bytes;
    size_t give = size * count < left ? size * count : (size_t)left;
    memcpy(room, line->item->bytes + line->done_bytes, give);
    line->done_bytes += give;
    return give;
}

/* libcurl sends a value again from its beginning when a line that was kept open turns out to be closed. */
static int begin_again(void *ctx, curl_off_t offset, int origin)
{
    http_line *line = ctx;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > line->item->size_bytes) {
        return CURL_SEEKFUNC_FAIL;
    }
    line->done_bytes = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* --- requests ------------------------------------------------------------------------------------------------- */

static void header_add(http_line *line, const char *name, const char *value)
{
    CAIRN_ASSERT(line->count_headers < HEADERS_MAX);
    uint32_t i = line->count_headers++;
    (void)snprintf(line->texts[i], HEADER_BYTES, "%s%s", name, value);
    line->headers[i] = (struct curl_slist){.data = line->texts[i]};
    if (i > 0) {
        line->headers[i - 1].next = &line->headers[i];
    }
}

/* What S3 wants to see and to be signed: the digest of what is sent. */
static bool headers_sign(const http_kv *http, http_line *line, http_verb verb)
{
    cairn_digest digest;
    char hex[CAIRN_DIGEST_HEX];
    const cairn_kv_item *item = line->item;
    if (cairn_digest_of(verb == VERB_PUT ? item->bytes : (const uint8_t *)"",
                        verb == VERB_PUT ? item->size_bytes : 0, &digest) != CAIRN_OK) {
        return false;
    }
    cairn_digest_hex(&digest, hex);
    header_add(line, "x-amz-content-sha256: ", hex);
    if (http->token[0] != '\0') {
        header_add(line, "x-amz-security-token: ", http->token);
    }
    return true;
}

static bool verb_set(CURL *easy, http_line *line, http_verb verb)
{
    switch (verb) {
    case VERB_PUT:
        return curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_bytes) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_READDATA, line) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, begin_again) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_SEEKDATA, line) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)line->item->size_bytes) ==
                   CURLE_OK;
    case VERB_EXISTS:
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    case VERB_DROP:
        return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE") == CURLE_OK;
    case VERB_GET:
        break;
    }
    return curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK;
}

static bool line_prepare(const http_batch *batch, http_line *line, long left_ms)
{
    const http_kv *http = batch->http;
    CURL *easy = line->easy;
    char url[TEXT_BYTES + CAIRN_KV_KEY_BYTES];
    (void)snprintf(url, sizeof url, "%s/%s", http->base, line->item->key);
    curl_easy_reset(easy);
    line->count_headers = 0;
    line->done_bytes = 0;
    line->too_long = false;
    header_add(line, "Expect:", "");
    header_add(line, "Content-Type: ", "application/octet-stream");
    bool fine = (http->sign[0] == '\0' || headers_sign(http, line, batch->verb)) &&
                curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK && verb_set(easy, line, batch->verb) &&
                curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_HTTPHEADER, line->headers) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_WRITEDATA, line) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_PRIVATE, line) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, left_ms) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    if (fine && http->login[0] != '\0') {
        fine = curl_easy_setopt(easy, CURLOPT_USERPWD, http->login) == CURLE_OK;
    }
    if (fine && http->sign[0] != '\0') {
        fine = curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, http->sign) == CURLE_OK;
    }
    return fine;
}

/* --- answers -------------------------------------------------------------------------------------------------- */

/* What an answer means for its item, or for the whole store. */
static void answer_code(http_batch *batch, const http_line *line, long code)
{
    cairn_kv_item *item = line->item;
    bool put = batch->verb == VERB_PUT;
    if (code == 200 || (put && (code == 201 || code == 204)) || (batch->verb == VERB_DROP && code == 204)) {
        item->status = CAIRN_OK;
        item->size_bytes = batch->verb == VERB_GET ? line->done_bytes : item->size_bytes;
    } else if (!put && (code == 404 || code == 410)) {
        item->status = batch->verb == VERB_DROP ? CAIRN_OK : CAIRN_NOTFOUND;
    } else if (put && (code == 413 || code == 507)) {
        item->status = CAIRN_NOSPACE;
    } else if (code == 401 || code == 403) {
        fail(batch, CAIRN_INVALID, "refused with", code);
    } else {
        fail(batch, CAIRN_IO, "answered with", code);
    }
}

static void answer(http_batch *batch, const http_line *line, CURLcode result)
{
    long code = 0;
    (void)curl_easy_getinfo(line->easy, CURLINFO_RESPONSE_CODE, &code);
    if (line->too_long) {
        line->item->status = CAIRN_LIMIT;
    } else if (result == CURLE_OK) {
        answer_code(batch, line, code);
    } else if (result == CURLE_OPERATION_TIMEDOUT) {
        fail(batch, CAIRN_TIMEOUT, "no answer in time", 0);
    } else if (result == CURLE_OUT_OF_MEMORY) {
        fail(batch, CAIRN_NOMEM, curl_easy_strerror(result), 0);
    } else {
        fail(batch, CAIRN_IO, curl_easy_strerror(result), 0);
    }
}

/* --- batches -------------------------------------------------------------------------------------------------- */

static long left_ms(const http_batch *batch)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    return now_ns < batch->until_ns && !atomic_load(&batch->http->kv.stop)
               ? (long)((batch->until_ns - now_ns) / 1000000 + 1)
               : 0;
}

/* Give free lines the next items. */
static void lines_start(http_batch *batch)
{
    http_kv *http = batch->http;
    for (int i = 0; i < LINES && batch->next < batch->count && batch->status == CAIRN_OK; i++) {
        http_line *line = &http->lines[i];
        if (line->item != NULL) {
            continue;
        }
        long ms = left_ms(batch);
        if (ms == 0) {
            fail(batch, CAIRN_TIMEOUT, "no answer in time", 0);
            return;
        }
        line->item = &batch->items[batch->next++];
        if (!line_prepare(batch, line, ms) || curl_multi_add_handle(http->multi, line->easy) != CURLM_OK) {
            line->item = NULL;
            fail(batch, CAIRN_NOMEM, "libcurl has no room", 0);
            return;
        }
        batch->running++;
    }
}

static void lines_finish(http_batch *batch)
{
    CURLMsg *message;
    int left = 0;
    while ((message = curl_multi_info_read(batch->http->multi, &left)) != NULL) {
        char *owner = NULL;
        if (message->msg != CURLMSG_DONE ||
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner) != CURLE_OK || owner == NULL) {
            continue;
        }
        http_line *line = (http_line *)(void *)owner;
        answer(batch, line, message->data.result);
        (void)curl_multi_remove_handle(batch->http->multi, line->easy);
        line->item = NULL;
        batch->running--;
    }
}

/* Hang up on what is still under way. */
static void lines_stop(http_batch *batch)
{
    for (int i = 0; i < LINES; i++) {
        http_line *line = &batch->http->lines[i];
        if (line->item != NULL) {
            (void)curl_multi_remove_handle(batch->http->multi, line->easy);
            line->item = NULL;
        }
    }
}

static cairn_status ask(cairn_kv *kv, http_verb verb, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                        cairn_error *reterr)
{
    http_batch batch = {
        .http = (http_kv *)kv, .verb = verb, .items = items, .count = count, .until_ns = until_ns};
    for (uint32_t i = 0; i < count; i++) {
        items[i].status = CAIRN_CANCELLED;
    }
    lines_start(&batch);
    while (batch.running > 0 && batch.status == CAIRN_OK) {
        int running = 0;
        long ms = left_ms(&batch);
        if (ms == 0) {
            fail(&batch, CAIRN_TIMEOUT, "no answer in time", 0);
        } else if (curl_multi_perform(batch.http->multi, &running) != CURLM_OK ||
                   (running == (int)batch.running &&
                    curl_multi_poll(batch.http->multi, NULL, 0, ms < SLICE_MS ? (int)ms : SLICE_MS, NULL) !=
                        CURLM_OK)) {
            fail(&batch, CAIRN_NOMEM, "libcurl can't go on", 0);
        }
        lines_finish(&batch);
        lines_start(&batch);
    }
    lines_stop(&batch);
    return batch.status == CAIRN_OK ? CAIRN_OK
                                    : cairn_error_set(reterr, batch.status, where_http, "%s", batch.why);
}

/* --- the table ------------------------------------------------------------------------------------------------ */

static cairn_status http_get(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                             cairn_error *reterr)
{
    return ask(kv, VERB_GET, items, count, until_ns, reterr);
}

static cairn_status http_put(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint32_t ttl_s,
                             uint64_t until_ns, cairn_error *reterr)
{
    (void)ttl_s;
    return ask(kv, VERB_PUT, items, count, until_ns, reterr);
}

static cairn_status http_exists(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                                cairn_error *reterr)
{
    return ask(kv, VERB_EXISTS, items, count, until_ns, reterr);
}

static cairn_status http_drop(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                              cairn_error *reterr)
{
    return ask(kv, VERB_DROP, items, count, until_ns, reterr);
}

static void http_close(cairn_kv *kv)
{
    http_kv *http = (http_kv *)kv;
    for (int i = 0; i < LINES; i++) {
        curl_easy_cleanup(http->lines[i].easy);
    }
    if (http->multi != NULL) {
        (void)curl_multi_cleanup(http->multi);
    }
    memset(http->login, 0, sizeof http->login);
    cairn_mem_release(http->mem, http, sizeof *http);
}

static const cairn_kv_ops http_ops = {.name = "http",
                                      .keys_max = 64,
                                      .get = http_get,
                                      .put = http_put,
                                      .exists = http_exists,
                                      .drop = http_drop,
                                      .close = http_close};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static bool curl_ready;

static void curl_begin(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static bool texts_copy(http_kv *http, const cairn_http_options *options)
{
    bool fits = snprintf(http->base, sizeof http->base, "%s", options->base) < (int)sizeof http->base;
    if (options->user != NULL) {
        fits = fits && snprintf(http->login, sizeof http->login, "%s:%s", options->user,
                                options->password != NULL ? options->password : "") < (int)sizeof http->login;
    }
    if (options->sign != NULL) {
        fits = fits && snprintf(http->sign, sizeof http->sign, "aws:amz:%s:s3", options->sign) <
                           (int)sizeof http->sign;
    }
    return fits && (options->token == NULL || snprintf(http->token, sizeof http->token, "%s",
                                                       options->token) < (int)sizeof http->token);
}

cairn_status cairn_http_open(const cairn_mem *mem, const cairn_http_options *options, cairn_kv **ret_kv,
                             cairn_error *reterr)
{
    (void)pthread_once(&curl_once, curl_begin);
    http_kv *http = cairn_mem_zalloc(mem, sizeof *http);
    if (http == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/http: open", NULL);
    }
    http->kv.ops = &http_ops;
    http->mem = mem;
    http->multi = curl_ready ? curl_multi_init() : NULL;
    bool fine = http->multi != NULL;
    for (int i = 0; i < LINES && fine; i++) {
        http->lines[i].easy = curl_easy_init();
        fine = http->lines[i].easy != NULL;
    }
    bool fits = texts_copy(http, options);
    if (!fine || !fits) {
        http_close(&http->kv);
        return cairn_error_set(reterr, fits ? CAIRN_NOMEM : CAIRN_INVALID, "store/http: open",
                               fits ? NULL : "a name is too long");
    }
    *ret_kv = &http->kv;
    return CAIRN_OK;
}
