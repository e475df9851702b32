/*
 * events - see the header.
 *
 * A watcher has up to three holders: its connection, the events' thread (while it is in the list), and the scheduler
 * (while it is asked); the last one frees it. The picture in it belongs to the scheduler while `phase` is ASKED.
 */
#include "serve/events.h"

#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "serve/cache_view.h"
#include "serve/json_answer.h"

enum { OUTBOX_BYTES_MAX = 16 * 1024 * 1024, BEHIND_BYTES = 256 * 1024, EAGER_MS = 5 };

enum { IDLE, ASKED, READY, OVER };

typedef struct watcher {
    cairn_scheduler_ask ask; /* first member: the ask's address is the watcher's */
    const cairn_mem *mem;
    atomic_uint refs;
    atomic_int phase;
    cairn_outbox outbox;
    cairn_namespace owner;
    cairn_cache_view view;
    bool once, greeted;
    uint64_t seen_requests;       /* see cairn_history_json */
    uint64_t seen_state;          /* digest of the state that was sent last */
    uint64_t seen_tree;           /* digest of the numbers that tell of a change in the tree */
    uint64_t spoken_ns, drawn_ns; /* when anything, when the tree was sent last */
    struct watcher *next;
} watcher;

struct cairn_events {
    cairn_events_options options;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    watcher *first;
    uint32_t count;
    cairn_buf text; /* the thread's */
};

static void lock(cairn_events *e)
{
    cairn_lock(&e->lock);
}

static void unlock(cairn_events *e)
{
    cairn_unlock(&e->lock);
}

static void unref(void *ptr)
{
    watcher *w = ptr;
    if (atomic_fetch_sub(&w->refs, 1) != 1)
        return;
    cairn_outbox_release(&w->outbox);
    cairn_cache_view_release(&w->view);
    cairn_mem_release(w->mem, w, sizeof *w);
}

/* --- the picture ------------------------------------------------------------------------------------------------- */

/* On the scheduler's thread. */
static void answer(cairn_scheduler_ask *ask, cairn_cache *cache)
{
    watcher *w = (watcher *)ask;
    if (cache != NULL)
        cairn_cache_view_fill(&w->view, cache);
    atomic_store(&w->phase, cache != NULL ? READY : OVER);
    unref(w);
}

static void ask_for_tree(cairn_events *e, watcher *w)
{
    (void)atomic_fetch_add(&w->refs, 1);
    atomic_store(&w->phase, ASKED);
    cairn_scheduler_ask_cache(e->options.scheduler, &w->ask);
}

/* --- events ------------------------------------------------------------------------------------------------------ */

static bool may_see(const cairn_events *e, const watcher *w, const cairn_namespace *owner)
{
    return !e->options.keyed || memcmp(w->owner.bytes, owner->bytes, sizeof owner->bytes) == 0;
}

static const cairn_namespace *filter_of(const cairn_events *e, const watcher *w)
{
    return e->options.keyed ? &w->owner : NULL;
}

static json_t *slots_json(cairn_events *e, const watcher *w, uint64_t now_ns)
{
    cairn_scheduler_slot slots[CAIRN_SLOTS_MAX];
    uint32_t count = cairn_scheduler_list(e->options.scheduler, slots);
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const cairn_scheduler_slot *s = &slots[i];
        if (!may_see(e, w, &s->owner)) {
            json_array_append_new(list, json_pack("{s:I, s:b}", "slot", (json_int_t)s->slot, "others", 1));
            continue;
        }
        uint64_t from_ns = s->first_ns != 0 ? s->first_ns : s->begun_ns;
        json_array_append_new(
            list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "slot", (json_int_t)s->slot, "request",
                            (json_int_t)s->job, "prompt_tokens", (json_int_t)s->prompt_tokens, "reused",
                            (json_int_t)s->reused_tokens, "done", (json_int_t)s->done_tokens, "answer_tokens",
                            (json_int_t)s->answer_tokens, "phase_ms",
                            now_ns > from_ns ? (double)(now_ns - from_ns) / 1e6 : 0.0));
    }
    return list;
}

/* What changes all the time. `*ret_tree` changes when the tree may have. */
static json_t *state_json(cairn_events *e, const watcher *w, uint64_t now_ns, uint64_t *ret_tree)
{
    cairn_metrics *m = e->options.metrics;
    uint32_t queued = 0, active = 0;
    cairn_scheduler_counts(e->options.scheduler, &queued, &active);
    cairn_lock(&m->lock);
    cairn_cache_stats c = m->cache;
    uint64_t prompt = m->tokens_prompt, read = m->tokens_read, least = m->tokens_least,
             answered = m->tokens_answer;
    cairn_unlock(&m->lock);
    const uint64_t marks[] = {c.requests,       c.tokens_read, c.tokens_answer,  c.states,
                              c.states_dropped, c.segments,    c.states_skipped, c.paths};
    *ret_tree = cairn_hash_bytes64(marks, sizeof marks, 1);
    json_t *state =
        json_pack("{s:{s:I, s:I}, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I}}", "queue", "waiting",
                  (json_int_t)queued, "active", (json_int_t)active, "slots", slots_json(e, w, now_ns),
                  "bytes", "now", (json_int_t)c.ram_bytes, "peak", (json_int_t)c.ram_bytes_peak, "limit",
                  (json_int_t)c.ram_bytes_max, "index", (json_int_t)c.index_bytes, "states",
                  (json_int_t)c.state_bytes, "rows", (json_int_t)c.row_bytes);
    if (!e->options.keyed && state != NULL) {
        json_object_set_new(state, "tokens",
                            json_pack("{s:I, s:I, s:I, s:I}", "prompt", (json_int_t)prompt, "read",
                                      (json_int_t)read, "least", (json_int_t)least, "answer",
                                      (json_int_t)answered));
    }
    return state;
}

/* Hand over what is in the text; a watcher that can't take it misses it. */
static bool speak(cairn_events *e, watcher *w, uint64_t now_ns)
{
    w->spoken_ns = now_ns;
    return cairn_outbox_put(&w->outbox, &e->text) == CAIRN_OK;
}

static bool send_event(cairn_events *e, watcher *w, const char *name, json_t *value, uint64_t now_ns)
{
    cairn_buf_reset(&e->text);
    return cairn_sse_write(&e->text, name, value) == CAIRN_OK && speak(e, w, now_ns);
}

static void send_hello(cairn_events *e, watcher *w, uint64_t now_ns)
{
    w->greeted = send_event(e, w, "hello",
                            json_pack("{s:s, s:s, s:I, s:I, s:b}", "version", cairn_version(), "model",
                                      e->options.model_name, "slots", (json_int_t)e->options.metrics->slots,
                                      "slot_tokens_max", (json_int_t)e->options.slot_tokens_max, "keyed",
                                      e->options.keyed ? 1 : 0),
                            now_ns);
}

static void send_state(cairn_events *e, watcher *w, uint64_t now_ns)
{
    uint64_t tree = 0;
    cairn_buf_reset(&e->text);
    if (cairn_sse_write(&e->text, "state", state_json(e, w, now_ns, &tree)) != CAIRN_OK)
        return;
    uint64_t digest = cairn_hash_bytes64(e->text.bytes, e->text.len_bytes, 1);
    if (digest != w->seen_state && speak(e, w, now_ns))
        w->seen_state = digest;
    bool due = now_ns - w->drawn_ns >= (uint64_t)CAIRN_EVENTS_TREE_MS * 1000000u || w->drawn_ns == 0;
    if (tree != w->seen_tree && due && atomic_load(&w->phase) == IDLE) {
        w->seen_tree = tree;
        w->drawn_ns = now_ns;
        ask_for_tree(e, w);
    }
}

static void send_requests(cairn_events *e, watcher *w, uint64_t now_ns)
{
    json_t *news = cairn_history_json(e->options.history, filter_of(e, w), &w->seen_requests);
    if (news == NULL || json_array_size(json_object_get(news, "requests")) == 0) {
        json_decref(news);
        return;
    }
    (void)send_event(e, w, "requests", news, now_ns);
}

static void send_tree(cairn_events *e, watcher *w, uint64_t now_ns)
{
    atomic_store(&w->phase, IDLE);
    cairn_buf_reset(&e->text);
    cairn_status status = w->once ? CAIRN_OK : cairn_buf_append_str(&e->text, "event: cache\ndata: ");
    if (status == CAIRN_OK)
        status = cairn_cache_view_print(&w->view, !e->options.keyed, &e->text);
    if (status == CAIRN_OK && !w->once)
        status = cairn_buf_append_str(&e->text, "\n\n");
    if (status == CAIRN_OK) {
        (void)speak(e, w, now_ns);
    } else if (w->once) {
        cairn_api_error error = {0};
        cairn_api_error_set(&error, 503, "unavailable_error", NULL, "out of memory");
        cairn_outbox_fail(&w->outbox, &error);
    }
}

static bool is_behind(watcher *w)
{
    cairn_lock(&w->outbox.lock);
    bool behind = w->outbox.bytes.len_bytes > BEHIND_BYTES;
    cairn_unlock(&w->outbox.lock);
    return behind;
}

/* Gives false when the watcher is through. */
static bool serve_watcher(cairn_events *e, watcher *w, uint64_t now_ns)
{
    int phase = atomic_load(&w->phase);
    if (phase == OVER || cairn_outbox_is_cancelled(&w->outbox))
        return false;
    if (w->once) {
        if (phase == IDLE)
            ask_for_tree(e, w);
        if (phase != READY)
            return true;
        send_tree(e, w, now_ns);
        return false;
    }
    if (is_behind(w))
        return true;
    if (!w->greeted)
        send_hello(e, w, now_ns);
    send_state(e, w, now_ns);
    send_requests(e, w, now_ns);
    if (phase == READY)
        send_tree(e, w, now_ns);
    if (now_ns - w->spoken_ns >= (uint64_t)CAIRN_EVENTS_PING_MS * 1000000u &&
        cairn_buf_append_str(&e->text, ": here\n\n") == CAIRN_OK)
        (void)speak(e, w, now_ns);
    return true;
}

/* --- the thread -------------------------------------------------------------------------------------------------- */

/* Wait for the next tick, or for the first watcher. A picture that was asked for comes soon: look again early. */
static uint32_t wait_for_tick(cairn_events *e, bool eager, watcher *list[CAIRN_EVENTS_WATCHERS_MAX],
                              bool *ret_stop)
{
    uint64_t tick_ms = eager ? EAGER_MS : CAIRN_EVENTS_TICK_MS;
    lock(e);
    if (!e->stopping && e->count > 0)
        (void)cairn_cond_wait_for(&e->wake, &e->lock, tick_ms * 1000000u);
    while (!e->stopping && e->count == 0)
        cairn_cond_wait(&e->wake, &e->lock);
    uint32_t n = 0;
    for (watcher *w = e->first; w != NULL; w = w->next)
        list[n++] = w;
    *ret_stop = e->stopping;
    unlock(e);
    return n;
}

static void remove_watcher(cairn_events *e, watcher *gone)
{
    lock(e);
    for (watcher **at = &e->first; *at != NULL; at = &(*at)->next) {
        if (*at == gone) {
            *at = gone->next;
            e->count--;
            break;
        }
    }
    unlock(e);
    cairn_outbox_end(&gone->outbox);
    unref(gone);
}

static void *events_main(void *arg)
{
    cairn_events *e = arg;
    watcher *list[CAIRN_EVENTS_WATCHERS_MAX];
    bool stop = false, eager = false;
    while (!stop) {
        uint32_t count = wait_for_tick(e, eager, list, &stop);
        uint64_t now_ns = cairn_clock_now_ns(e->options.clock);
        eager = false;
        for (uint32_t i = 0; i < count; i++) {
            if (stop || !serve_watcher(e, list[i], now_ns)) {
                remove_watcher(e, list[i]);
            } else {
                eager |= list[i]->once;
            }
        }
    }
    return NULL;
}

/* --- watching ---------------------------------------------------------------------------------------------------- */

void cairn_events_watch(cairn_events *e, const cairn_namespace *owner, bool once, cairn_http_reply *reply)
{
    watcher *w = cairn_mem_zalloc(e->options.mem, sizeof *w);
    if (w == NULL) {
        cairn_api_error_set(&reply->error, 503, "unavailable_error", NULL, "out of memory");
        return;
    }
    w->ask.answer = answer;
    w->mem = e->options.mem;
    w->owner = *owner;
    w->once = once;
    w->spoken_ns = cairn_clock_now_ns(e->options.clock);
    atomic_init(&w->refs, 2);
    atomic_init(&w->phase, IDLE);
    cairn_outbox_init(&w->outbox, w->mem, OUTBOX_BYTES_MAX);
    cairn_cache_view_init(&w->view, w->mem, owner);
    lock(e);
    bool refused = e->stopping || e->count >= CAIRN_EVENTS_WATCHERS_MAX;
    if (!refused) {
        w->next = e->first;
        e->first = w;
        e->count++;
        cairn_cond_signal(&e->wake);
    }
    unlock(e);
    if (refused) {
        cairn_api_error_set(&reply->error, 503, "unavailable_error", "busy",
                            "%d already watch this server; close one of them.", CAIRN_EVENTS_WATCHERS_MAX);
        reply->error.retry_after_s = 5;
        atomic_store(&w->refs, 1);
        unref(w);
        return;
    }
    reply->outbox = &w->outbox;
    reply->stream = !once;
    reply->job = w;
    reply->release = unref;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

cairn_status cairn_events_start(const cairn_events_options *options, cairn_events **ret_events,
                                cairn_error *reterr)
{
    cairn_events *e = cairn_mem_zalloc(options->mem, sizeof *e);
    if (e == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "events/start", NULL);
    e->options = *options;
    cairn_buf_init(&e->text, options->mem, OUTBOX_BYTES_MAX);
    cairn_lock_init(&e->lock);
    cairn_cond_init(&e->wake);
    int code = pthread_create(&e->thread, NULL, events_main, e);
    if (code != 0) {
        cairn_events_free(e);
        return cairn_error_set_os(reterr, code, "events/start", NULL);
    }
    e->running = true;
    *ret_events = e;
    return CAIRN_OK;
}

void cairn_events_stop(cairn_events *e)
{
    if (e == NULL || !e->running)
        return;
    lock(e);
    e->stopping = true;
    cairn_cond_signal(&e->wake);
    unlock(e);
    cairn_join(e->thread);
    e->running = false;
}

void cairn_events_free(cairn_events *e)
{
    if (e == NULL)
        return;
    CAIRN_ASSERT(!e->running && e->count == 0);
    cairn_buf_release(&e->text);
    (void)pthread_cond_destroy(&e->wake);
    (void)pthread_mutex_destroy(&e->lock);
    cairn_mem_release(e->options.mem, e, sizeof *e);
}
