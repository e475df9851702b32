/*
 * metrics - see the header. The text is written by hand: a few kinds of lines don't need a library.
 */
#include "serve/metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"

static const double bounds_s[CAIRN_METRICS_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                      0.25,  0.5,    1,     2.5,  10,    60,   300};

void cairn_metrics_init(cairn_metrics *m)
{
    memset(m, 0, sizeof *m);
    cairn_lock_init(&m->lock);
}

void cairn_metrics_release(cairn_metrics *m)
{
    (void)pthread_mutex_destroy(&m->lock);
}

static void lock(cairn_metrics *m)
{
    cairn_lock(&m->lock);
}

static void unlock(cairn_metrics *m)
{
    cairn_unlock(&m->lock);
}

static void observe(cairn_histogram *h, uint64_t ns, uint64_t times)
{
    size_t i = 0;
    while (i < CAIRN_METRICS_BOUNDS && (double)ns > bounds_s[i] * 1e9)
        i++;
    h->buckets[i] += times;
    h->sum_ns += ns * times;
}

void cairn_metrics_request(cairn_metrics *m, cairn_ending ending, const cairn_record *r,
                           const cairn_request_times *t)
{
    lock(m);
    m->requests[ending]++;
    if ((size_t)r->source < CAIRN_METRICS_SOURCES && (size_t)r->reason < CAIRN_REASON_COUNT)
        m->resumes[r->source][r->reason]++;
    m->tokens_prompt += r->prompt_tokens;
    m->tokens_read += r->read;
    m->tokens_reused += r->resume;
    m->tokens_least += r->least;
    m->tokens_answer += t->answer_tokens;
    m->states_taken += r->states_taken;
    m->states_skipped += r->states_skipped;
    m->moved_bytes += r->moved_bytes;
    m->disk.waiting = m->disk_on; /* what it read is to be looked at, in the next idle moment */
    m->shared.waiting = m->shared.on;
    observe(&m->queue, t->queue_ns, 1);
    if (t->answer_tokens > 0) {
        observe(&m->prompt, t->prompt_ns, 1);
        observe(&m->first_token, t->queue_ns + t->prompt_ns, 1);
    }
    if (t->answer_tokens > 1)
        observe(&m->token, t->answer_ns / (t->answer_tokens - 1), t->answer_tokens - 1);
    unlock(m);
}

void cairn_metrics_response(cairn_metrics *m, int http_status)
{
    lock(m);
    if (http_status > 0 && http_status < CAIRN_METRICS_CODES)
        m->responses[http_status]++;
    unlock(m);
}

void cairn_metrics_disconnect(cairn_metrics *m)
{
    lock(m);
    m->disconnects++;
    unlock(m);
}

void cairn_metrics_load(cairn_metrics *m, uint64_t queued, uint64_t active)
{
    lock(m);
    m->queued = queued;
    m->active = active;
    unlock(m);
}

void cairn_metrics_answers(cairn_metrics *m, uint64_t recalled, const cairn_answers_stats *stats)
{
    lock(m);
    m->recalled += recalled;
    m->answers = *stats;
    unlock(m);
}

void cairn_metrics_replies(cairn_metrics *m, const cairn_replies_stats *stats)
{
    lock(m);
    m->replies = *stats;
    unlock(m);
}

void cairn_metrics_cache(cairn_metrics *m, const cairn_cache_stats *stats)
{
    lock(m);
    m->cache = *stats;
    unlock(m);
}

void cairn_metrics_disk(cairn_metrics *m, const cairn_cache_disk_stats *stats)
{
    lock(m);
    m->disk = *stats;
    m->disk_on = stats->bytes_max > 0;
    unlock(m);
}

void cairn_metrics_shared(cairn_metrics *m, const cairn_cache_shared_stats *stats)
{
    lock(m);
    m->shared = *stats;
    unlock(m);
}

/* --- text -------------------------------------------------------------------------------------------------------- */

/* The first failure is kept, and later lines do nothing. */
typedef struct sheet {
    cairn_buf *out;
    cairn_status status;
} sheet;

static void head(sheet *s, const char *name, const char *kind, const char *help)
{
    if (s->status == CAIRN_OK) {
        s->status =
            cairn_buf_printf(s->out, "# HELP cairn_%s %s\n# TYPE cairn_%s %s\n", name, help, name, kind);
    }
}

/* One line; `labels` is "" or {a="b"}. */
static void line(sheet *s, const char *name, const char *labels, uint64_t value)
{
    if (s->status == CAIRN_OK)
        s->status = cairn_buf_printf(s->out, "cairn_%s%s %llu\n", name, labels, (unsigned long long)value);
}

static void simple(sheet *s, const char *name, const char *kind, const char *help, uint64_t value)
{
    head(s, name, kind, help);
    line(s, name, "", value);
}

static void histogram(sheet *s, const char *name, const char *help, const cairn_histogram *h)
{
    uint64_t total = 0;
    head(s, name, "histogram", help);
    for (size_t i = 0; i <= CAIRN_METRICS_BOUNDS && s->status == CAIRN_OK; i++) {
        total += h->buckets[i];
        if (i < CAIRN_METRICS_BOUNDS) {
            s->status = cairn_buf_printf(s->out, "cairn_%s_bucket{le=\"%g\"} %llu\n", name, bounds_s[i],
                                         (unsigned long long)total);
        } else {
            s->status = cairn_buf_printf(s->out, "cairn_%s_bucket{le=\"+Inf\"} %llu\n", name,
                                         (unsigned long long)total);
        }
    }
    if (s->status == CAIRN_OK) {
        s->status = cairn_buf_printf(s->out, "cairn_%s_sum %.9g\ncairn_%s_count %llu\n", name,
                                     (double)h->sum_ns / 1e9, name, (unsigned long long)total);
    }
}

/* A label's value: quotes, backslashes and line ends are escaped. */
static void label(sheet *s, const char *name, const char *value, const char *before)
{
    if (s->status == CAIRN_OK)
        s->status = cairn_buf_printf(s->out, "%s%s=\"", before, name);
    for (const char *c = value; *c != '\0' && s->status == CAIRN_OK; c++) {
        if (*c == '"' || *c == '\\')
            s->status = cairn_buf_append_byte(s->out, '\\');
        if (s->status == CAIRN_OK)
            s->status = cairn_buf_append_byte(s->out, *c == '\n' ? (uint8_t)' ' : (uint8_t)*c);
    }
    if (s->status == CAIRN_OK)
        s->status = cairn_buf_append_byte(s->out, '"');
}

static void print_info(sheet *s, const cairn_metrics *m)
{
    head(s, "build_info", "gauge", "What is running; the value is always 1.");
    if (s->status == CAIRN_OK)
        s->status = cairn_buf_append_str(s->out, "cairn_build_info{");
    label(s, "version", m->version != NULL ? m->version : "", "");
    label(s, "engine", m->build != NULL ? m->build : "", ",");
    label(s, "model", m->model != NULL ? m->model : "", ",");
    if (s->status == CAIRN_OK)
        s->status = cairn_buf_append_str(s->out, "} 1\n");
}

static void print_requests(sheet *s, const cairn_metrics *m)
{
    static const char *const endings[3] = {"{ending=\"done\"}", "{ending=\"stopped\"}",
                                           "{ending=\"broken\"}"};
    char labels[96];
    head(s, "requests_total", "counter", "Generation requests that took a slot, by how they ended.");
    for (size_t i = 0; i < 3; i++)
        line(s, "requests_total", endings[i], m->requests[i]);
    head(s, "resumes_total", "counter",
         "Requests by the tier that served them and the reason for not reusing more.");
    for (size_t source = 0; source < CAIRN_METRICS_SOURCES; source++) {
        for (size_t reason = 0; reason < CAIRN_REASON_COUNT; reason++) {
            if (m->resumes[source][reason] == 0)
                continue;
            (void)snprintf(labels, sizeof labels, "{tier=\"%s\",reason=\"%s\"}",
                           cairn_source_word((cairn_source)source), cairn_reason_word((cairn_reason)reason));
            line(s, "resumes_total", labels, m->resumes[source][reason]);
        }
    }
    head(s, "http_responses_total", "counter", "Answers by HTTP status.");
    for (size_t code = 0; code < CAIRN_METRICS_CODES; code++) {
        if (m->responses[code] == 0)
            continue;
        (void)snprintf(labels, sizeof labels, "{code=\"%zu\"}", code);
        line(s, "http_responses_total", labels, m->responses[code]);
    }
    simple(s, "disconnects_total", "counter", "Clients that went away before their answer was whole.",
           m->disconnects);
}

static void print_cache(sheet *s, const cairn_cache_stats *c)
{
    simple(s, "cache_bytes", "gauge", "Memory that the cache holds now.", c->ram_bytes);
    simple(s, "cache_peak_bytes", "gauge", "The most memory that the cache ever held.", c->ram_bytes_peak);
    simple(s, "cache_limit_bytes", "gauge", "The cache's memory budget.", c->ram_bytes_max);
    simple(s, "cache_index_bytes", "gauge", "Memory of the token paths.", c->index_bytes);
    simple(s, "cache_states", "gauge", "Saved states.", c->states);
    simple(s, "cache_state_bytes", "gauge", "Memory of saved states.", c->state_bytes);
    simple(s, "cache_segments", "gauge", "Saved runs of attention rows.", c->segments);
    simple(s, "cache_row_bytes", "gauge", "Memory of saved attention rows.", c->row_bytes);
    simple(s, "cache_namespaces", "gauge", "Namespaces with known paths.", c->namespaces);
    simple(s, "cache_paths", "gauge", "Known paths that end.", c->paths);
    simple(s, "cache_tokens", "gauge", "Tokens of known paths.", c->tokens_known);
    simple(s, "cache_states_dropped_total", "counter", "States given up for the budget or for better ones.",
           c->states_dropped);
    simple(s, "cache_restores_total", "counter", "States put back.", c->restores);
    simple(s, "cache_restores_failed_total", "counter", "States that could not be put back.",
           c->restores_failed);
}

static void print_answers(sheet *s, const cairn_metrics *m)
{
    simple(s, "answers_recalled_total", "counter",
           "Answers that came back changed and stood in the prompt as they were generated.", m->recalled);
    simple(s, "answers_kept", "gauge", "Answers that are remembered.", m->answers.kept);
    simple(s, "answers_bytes", "gauge", "Memory of remembered answers.", m->answers.bytes);
    simple(s, "answers_limit_bytes", "gauge", "The most that they may take; 0: off.", m->answers.bytes_max);
    simple(s, "answers_evicted_total", "counter", "Answers forgotten for newer ones.", m->answers.evicted);
}

static void print_replies(sheet *s, const cairn_metrics *m)
{
    simple(s, "responses_kept", "gauge", "Responses that are kept by their id.", m->replies.kept);
    simple(s, "responses_bytes", "gauge", "Memory of kept responses.", m->replies.bytes);
    simple(s, "responses_limit_bytes", "gauge", "The most that they may take; 0: none is kept.",
           m->replies.bytes_max);
    simple(s, "responses_evicted_total", "counter", "Responses forgotten for newer ones.",
           m->replies.evicted);
}

static void print_disk(sheet *s, const cairn_cache_disk_stats *d)
{
    simple(s, "disk_bytes", "gauge", "Bytes of blob files in the disk tier's directory.", d->bytes);
    simple(s, "disk_limit_bytes", "gauge", "The disk tier's budget.", d->bytes_max);
    simple(s, "disk_blobs", "gauge", "Blob files in the disk tier's directory.", d->blobs);
    simple(s, "disk_states", "gauge", "Those of them that are states; the others are attention rows.",
           d->states);
    simple(s, "disk_written_today_bytes", "gauge", "Bytes written since midnight UTC.",
           d->written_today_bytes);
    simple(s, "disk_written_limit_bytes", "gauge", "Bytes that may be written in a day; 0: no limit.",
           d->written_day_bytes);
    simple(s, "disk_kept_total", "counter", "Blobs that were written, or were there already.", d->kept);
    simple(s, "disk_fetched_total", "counter", "Blobs that were read for requests.", d->fetched);
    simple(s, "disk_fetched_bytes_total", "counter", "Bytes of them.", d->fetched_bytes);
    simple(s, "disk_fetch_failures_total", "counter", "Blobs that were wanted and could not be read.",
           d->fetch_failures);
    simple(s, "disk_failures_total", "counter", "Writes that did not work.", d->failures);
    simple(s, "disk_set_aside_total", "counter", "Damaged files that were set aside.", d->set_aside);
    simple(s, "disk_evicted_total", "counter", "Blobs that were removed to make room.", d->evicted);
    simple(s, "disk_waiting", "gauge", "1 while something is on its way to disk.", d->waiting ? 1 : 0);
}

static void print_shared(sheet *s, const cairn_cache_shared_stats *d)
{
    simple(s, "shared_works", "gauge", "1 while the shared store's last use worked.", d->works ? 1 : 0);
    simple(s, "shared_asked_total", "counter", "Requests that the shared store was asked for.", d->asked);
    simple(s, "shared_found_total", "counter", "Those that it had something for.", d->found);
    simple(s, "shared_dearer_total", "counter", "Those for which reading was faster than fetching.",
           d->dearer);
    simple(s, "shared_late_total", "counter", "Those that did not wait longer for it.", d->late);
    simple(s, "shared_fetched_total", "counter", "Blobs that came from it.", d->fetched);
    simple(s, "shared_fetched_bytes_total", "counter", "Bytes of them.", d->fetched_bytes);
    simple(s, "shared_fetch_failures_total", "counter", "Blobs that were wanted and did not come.",
           d->fetch_failures);
    simple(s, "shared_sent_total", "counter", "Blobs that were sent to it.", d->sent);
    simple(s, "shared_sent_bytes_total", "counter", "Bytes of them.", d->sent_bytes);
    simple(s, "shared_points_total", "counter", "Resume points that were sent to it.", d->sent_points);
    simple(s, "shared_known_total", "counter", "Blobs that were not sent because it had them.", d->known);
    simple(s, "shared_dropped_total", "counter", "Paths that were gone before all of them was sent.",
           d->dropped);
    simple(s, "shared_failures_total", "counter", "Calls of the store that failed.", d->failures);
    simple(s, "shared_timeouts_total", "counter", "Those of them that took too long.", d->timeouts);
    simple(s, "shared_damaged_total", "counter", "Values that failed their checks.", d->damaged);
    simple(s, "shared_full_total", "counter", "Values that the store had no room for.", d->full);
    simple(s, "shared_spared_total", "counter", "Calls that were not made, soon after a failure.", d->spared);
    simple(s, "shared_bytes_per_second", "gauge", "What the store gives, as measured.",
           (uint64_t)d->bytes_second);
    simple(s, "shared_waiting", "gauge", "1 while something is on its way to it.", d->waiting ? 1 : 0);
}

cairn_status cairn_metrics_print(cairn_metrics *m, cairn_buf *out)
{
    sheet s = {.out = out, .status = CAIRN_OK};
    lock(m);
    print_info(&s, m);
    print_requests(&s, m);
    simple(&s, "prompt_tokens_total", "counter", "Prompt tokens asked for.", m->tokens_prompt);
    simple(&s, "prompt_tokens_read_total", "counter", "Prompt tokens that the engine decoded.",
           m->tokens_read);
    simple(&s, "prompt_tokens_reused_total", "counter", "Prompt tokens that were not decoded.",
           m->tokens_reused);
    simple(&s, "prompt_tokens_least_total", "counter", "Prompt tokens that any cache would have had to read.",
           m->tokens_least);
    simple(&s, "answer_tokens_total", "counter", "Tokens generated.", m->tokens_answer);
    simple(&s, "states_taken_total", "counter", "States saved while reading.", m->states_taken);
    simple(&s, "states_skipped_total", "counter", "States wanted but not saved.", m->states_skipped);
    simple(&s, "moved_bytes_total", "counter", "Bytes copied between engine and cache.", m->moved_bytes);
    simple(&s, "slots", "gauge", "Requests that can be worked on at once.", m->slots);
    simple(&s, "slots_busy", "gauge", "Requests being worked on.", m->active);
    simple(&s, "queue_requests", "gauge", "Requests waiting for a slot.", m->queued);
    simple(&s, "queue_limit_requests", "gauge", "Requests that may wait; more are refused.", m->queue_max);
    histogram(&s, "queue_seconds", "Time a request waited for a slot.", &m->queue);
    histogram(&s, "prompt_seconds", "Time from slot to first token.", &m->prompt);
    histogram(&s, "time_to_first_token_seconds", "Time from arrival to first token.", &m->first_token);
    histogram(&s, "token_seconds", "Time between two tokens of an answer.", &m->token);
    print_cache(&s, &m->cache);
    print_answers(&s, m);
    print_replies(&s, m);
    if (m->disk_on)
        print_disk(&s, &m->disk);
    if (m->shared.on)
        print_shared(&s, &m->shared);
    simple(&s, "expectations_failed_total", "counter", "Internal checks that failed and were survived.",
           cairn_expect_failures());
    unlock(m);
    return s.status;
}
