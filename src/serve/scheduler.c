/*
 * scheduler - see the header. The lock guards the queue and the flags only; the active jobs belong to the thread.
 * What is done with one job (begin, sample, end) is in turn.c.
 */
#include "serve/scheduler.h"

#include <string.h>
#include <time.h>

#include "base/lock.h"
#include "serve/disk_watch.h"
#include "serve/job_queue.h"
#include "serve/pace.h"
#include "serve/shared_watch.h"
#include "serve/turn.h"

/* The disk's numbers and troubles are looked at this often while requests run; paused readers this often. */
enum { DISK_LOOK_ROUNDS = 64, READER_LOOK_NS = 100000000 };

struct cairn_scheduler {
    cairn_scheduler_options options;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping, abandon, nudged;
    bool closed;               /* the thread answers no more                                        */
    cairn_scheduler_ask *asks; /* newest first */
    cairn_job_queue queue;
    uint32_t count_active; /* written by the thread with the lock held */
    cairn_job *active[CAIRN_SLOTS_MAX];
    cairn_scheduler_slot shown[CAIRN_SLOTS_MAX]; /* guarded by the lock */
    uint32_t count_shown;
    cairn_pace pace;       /* the thread's own */
    cairn_disk_watch disk; /* the thread's own */
    cairn_shared_watch shared;
    uint64_t rounds; /* the thread's own */
};

static void lock(cairn_scheduler *s)
{
    cairn_lock(&s->lock);
}

static void unlock(cairn_scheduler *s)
{
    cairn_unlock(&s->lock);
}

static uint64_t now_ns(const cairn_scheduler *s)
{
    return cairn_clock_now_ns(s->options.clock);
}

/* Is there more of its answer to come? One that has been given keeps nobody waiting. */
static bool goes_on(cairn_job *job)
{
    return !cairn_outbox_is_ended(&job->outbox);
}

/* Active requests that go on. The lock is held. */
static uint32_t count_going(const cairn_scheduler *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count_active; i++)
        count += goes_on(s->active[i]) ? 1 : 0;
    return count;
}

static void report_load(cairn_scheduler *s)
{
    cairn_metrics_load(s->options.metrics, s->queue.count, s->count_active);
}

/* --- queue ------------------------------------------------------------------------------------------------------- */

/* It has been at it longer than --request-timeout says. */
static bool is_late(const cairn_scheduler *s, const cairn_job *job)
{
    return s->options.request_ns > 0 && now_ns(s) - job->work.arrived_ns > s->options.request_ns;
}

/* Does a waiting job leave the queue? */
static bool leaves(void *scheduler, cairn_job *job)
{
    cairn_scheduler *s = scheduler;
    job->work.late = job->work.late || is_late(s, job);
    return s->abandon || job->work.late || cairn_outbox_is_cancelled(&job->outbox);
}

static void nudge(void *scheduler)
{
    cairn_scheduler_nudge(scheduler);
}

static void queue_full(cairn_api_error *error, uint32_t waiting)
{
    cairn_api_error_set(error, 429, "rate_limit_error", "queue_full",
                        "%u requests are waiting already; try again shortly.", waiting);
    error->retry_after_s = 2;
}

void cairn_scheduler_submit(cairn_scheduler *s, cairn_job *job, cairn_api_error *error)
{
    job->work.arrived_ns = now_ns(s);
    job->work.spoken_ns = job->work.arrived_ns;
    job->outbox.clock = s->options.clock;
    job->outbox.drained = nudge;
    job->outbox.writer = s;
    cairn_job *away = NULL;
    lock(s);
    /* Those that a free slot is about to take do not wait. */
    bool full = s->queue.count >= s->options.queue_max + (s->options.slots - count_going(s));
    if (full && !s->stopping)
        away = cairn_job_queue_make_way(&s->queue, job);
    if (s->stopping) {
        cairn_api_error_set(error, 503, "unavailable_error", "stopping", "The server is stopping.");
        error->retry_after_s = 5;
    } else if (full && away == NULL) {
        queue_full(error, s->queue.count);
    } else {
        cairn_job_ref(job);
        cairn_job_queue_push(&s->queue, job);
        s->nudged = true;
        cairn_cond_signal(&s->wake);
    }
    report_load(s);
    unlock(s);
    if (away != NULL) {
        cairn_api_error api = {0};
        queue_full(&api, s->options.queue_max);
        cairn_outbox_fail(&away->outbox, &api);
        cairn_job_unref(away);
    }
}

void cairn_scheduler_nudge(cairn_scheduler *s)
{
    lock(s);
    s->nudged = true;
    cairn_cond_signal(&s->wake);
    unlock(s);
}

void cairn_scheduler_ask_cache(cairn_scheduler *s, cairn_scheduler_ask *ask)
{
    lock(s);
    bool closed = s->closed;
    if (!closed) {
        ask->next = s->asks;
        s->asks = ask;
        s->nudged = true;
        cairn_cond_signal(&s->wake);
    }
    unlock(s);
    if (closed)
        ask->answer(ask, NULL);
}

/* `last`: nothing is answered any more after this. */
static void answer_asks(cairn_scheduler *s, bool last)
{
    lock(s);
    cairn_scheduler_ask *ask = s->asks;
    s->asks = NULL;
    s->closed = last;
    unlock(s);
    while (ask != NULL) {
        cairn_scheduler_ask *next = ask->next;
        ask->answer(ask, last ? NULL : s->options.cache);
        ask = next;
    }
}

void cairn_scheduler_counts(cairn_scheduler *s, uint32_t *ret_queued, uint32_t *ret_active)
{
    lock(s);
    *ret_queued = s->queue.count;
    *ret_active = count_going(s);
    unlock(s);
}

/* Is the job still active, and does it go on? The lock is held. */
static bool is_going(const cairn_scheduler *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->count_active; i++) {
        if (s->active[i]->id == id)
            return goes_on(s->active[i]);
    }
    return false;
}

uint32_t cairn_scheduler_list(cairn_scheduler *s, cairn_scheduler_slot slots[CAIRN_SLOTS_MAX])
{
    uint32_t count = 0;
    lock(s);
    for (uint32_t i = 0; i < s->count_shown; i++) {
        if (is_going(s, s->shown[i].job))
            slots[count++] = s->shown[i];
    }
    unlock(s);
    return count;
}

/* --- rounds ------------------------------------------------------------------------------------------------------ */

static void show_active(cairn_scheduler *s)
{
    lock(s);
    for (uint32_t i = 0; i < s->count_active; i++) {
        const cairn_job *job = s->active[i];
        const cairn_record *r = cairn_request_record(job->work.request);
        s->shown[i] = (cairn_scheduler_slot){.job = job->id,
                                             .owner = job->owner,
                                             .slot = r->slot,
                                             .prompt_tokens = r->prompt_tokens,
                                             .done_tokens = r->resume + r->read,
                                             .answer_tokens = job->work.answer_tokens,
                                             .begun_ns = job->work.begun_ns,
                                             .first_ns = job->work.first_ns,
                                             .reused_tokens = r->resume};
    }
    s->count_shown = s->count_active;
    unlock(s);
}

/* The job leaves its place; the last one moves into it. `waits`: it has more answers to give, and waits for a slot. */
static void remove_active(cairn_scheduler *s, uint32_t index, bool waits)
{
    cairn_job *job = s->active[index];
    lock(s);
    s->active[index] = s->active[s->count_active - 1];
    s->count_active--;
    if (waits)
        cairn_job_queue_push_front(&s->queue, job);
    report_load(s);
    unlock(s);
    if (!waits)
        cairn_job_unref(job);
}

/* Is a running request about to read what this one needs? Then the work is done once. */
static bool waits_to_join(cairn_scheduler *s, cairn_job *job)
{
    uint64_t now = now_ns(s), step_ns = 20000000u;
    if (s->count_active == 0 ||
        (job->work.held_ns != 0 && now - job->work.held_ns > (uint64_t)CAIRN_SCHEDULER_JOIN_S * 1000000000u))
        return false;
    if (job->work.held_ns != 0 && now - job->work.looked_ns < step_ns)
        return true;
    job->work.looked_ns = now;
    if (cairn_cache_awaits(s->options.cache, &job->prompt) < CAIRN_SCHEDULER_JOIN_TOKENS)
        return false;
    if (job->work.held_ns == 0)
        job->work.held_ns = now;
    return true;
}

/* Those that wait to join return to the front of the queue, in their order. */
static void put_back(cairn_scheduler *s, cairn_job *held)
{
    cairn_job *reversed = NULL;
    while (held != NULL) {
        cairn_job *next = held->next;
        held->next = reversed;
        reversed = held;
        held = next;
    }
    lock(s);
    while (reversed != NULL) {
        cairn_job *next = reversed->next;
        cairn_job_queue_push_front(&s->queue, reversed);
        reversed = next;
    }
    unlock(s);
}

static void admit(cairn_scheduler *s)
{
    bool busy = false;
    lock(s);
    cairn_job *gone = cairn_job_queue_sweep(&s->queue, leaves, s);
    unlock(s);
    while (gone != NULL) {
        cairn_job *next = gone->next;
        cairn_turn_abandon(&s->options, gone);
        cairn_job_unref(gone);
        gone = next;
    }
    cairn_job *held = NULL, **held_end = &held;
    while (!busy && s->count_active < s->options.slots) {
        lock(s);
        cairn_job *job = cairn_job_queue_take(&s->queue);
        unlock(s);
        if (job == NULL)
            break;
        if (waits_to_join(s, job)) {
            job->next = NULL;
            *held_end = job;
            held_end = &job->next;
            continue;
        }
        switch (cairn_turn_begin(&s->options, job)) {
        case CAIRN_TURN_GOES_ON:
            lock(s);
            s->active[s->count_active++] = job;
            cairn_job_queue_begun(&s->queue, job);
            report_load(s);
            unlock(s);
            break;
        case CAIRN_TURN_WAITS:
            lock(s);
            cairn_job_queue_push_front(&s->queue, job);
            unlock(s);
            busy = true;
            break;
        case CAIRN_TURN_OVER:
            cairn_job_unref(job);
            break;
        }
    }
    put_back(s, held);
}

/* Cancel and pause; gather what is to be stepped. */
static uint32_t gather(cairn_scheduler *s, bool abandon, cairn_request **requests)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count_active;) {
        cairn_job *job = s->active[i];
        job->work.late = job->work.late || is_late(s, job);
        if (abandon || job->work.late || cairn_outbox_is_cancelled(&job->outbox) ||
            cairn_turn_is_stalled(&s->options, job)) {
            cairn_turn_end(&s->options, job, CAIRN_END_STOPPED, CAIRN_FINISH_LENGTH);
            remove_active(s, i, false);
            show_active(s);
            continue;
        }
        if (job->work.paused_ns == 0)
            requests[count++] = job->work.request;
        i++;
    }
    return count;
}

/* How many of them read a prompt in the next step, and how many write an answer. */
static void count_phases(cairn_request *const *requests, uint32_t count, uint32_t *ret_reading,
                         uint32_t *ret_answering)
{
    *ret_reading = *ret_answering = 0;
    for (uint32_t i = 0; i < count; i++) {
        cairn_phase phase = cairn_request_phase(requests[i]);
        *ret_reading += phase == CAIRN_PHASE_READ || phase == CAIRN_PHASE_RESTORE;
        *ret_answering += phase == CAIRN_PHASE_DECODE;
    }
}

/* Prompt tokens that were read so far, of all of them. */
static uint64_t tokens_read(cairn_request *const *requests, uint32_t count)
{
    uint64_t read = 0;
    for (uint32_t i = 0; i < count; i++)
        read += cairn_request_record(requests[i])->read;
    return read;
}

/* Is an answer being written? Then prompts are read in small pieces. */
static void set_pace(cairn_scheduler *s)
{
    bool answering = false;
    for (uint32_t i = 0; i < s->count_active; i++)
        answering = answering || (s->active[i]->work.answering && s->active[i]->work.paused_ns == 0);
    cairn_cache_pace(s->options.cache, answering ? s->pace.tokens : 0);
}

/* What the lower tiers say. Gives ns until one of them is to be tended again; 0: none is. */
static uint64_t tiers_look(cairn_scheduler *s)
{
    uint64_t disk_ns = cairn_disk_watch_look(&s->disk, &s->options);
    uint64_t shared_ns = cairn_shared_watch_look(&s->shared, &s->options);
    return disk_ns == 0 || (shared_ns != 0 && shared_ns < disk_ns) ? shared_ns : disk_ns;
}

static void work_round(cairn_scheduler *s, cairn_request *const *requests, uint32_t count)
{
    cairn_error error;
    uint32_t reading, answering;
    set_pace(s);
    count_phases(requests, count, &reading, &answering);
    uint64_t begin_ns = now_ns(s), read_before = tokens_read(requests, count);
    /* Which request failed, if any, is told by its phase. */
    cairn_status status = cairn_cache_step(s->options.cache, requests, count, &error);
    if (status != CAIRN_OK)
        cairn_log_error(s->options.log, CAIRN_LOG_LEVEL_ERROR, "step", &error);
    cairn_pace_round round = {.round_ns = now_ns(s) - begin_ns,
                              .reading = reading,
                              .answering = answering,
                              .read_tokens = tokens_read(requests, count) - read_before};
    cairn_pace_note(&s->pace, &round);
    for (uint32_t i = 0; i < s->count_active;) {
        cairn_job *job = s->active[i];
        cairn_turn turn =
            job->work.paused_ns == 0 ? cairn_turn_after_step(&s->options, job) : CAIRN_TURN_GOES_ON;
        if (turn == CAIRN_TURN_GOES_ON) {
            i++;
        } else {
            remove_active(s, i, turn == CAIRN_TURN_WAITS);
        }
    }
    cairn_cache_stats stats;
    cairn_cache_stats_get(s->options.cache, &stats);
    cairn_metrics_cache(s->options.metrics, &stats);
    if (s->rounds++ % DISK_LOOK_ROUNDS == 0)
        (void)tiers_look(s);
    show_active(s);
}

static bool nothing_to_do(const cairn_scheduler *s)
{
    return !s->nudged && s->count_active == 0 && s->queue.first == NULL && !s->stopping;
}

/* Nobody waits: hand what the slots hold to the disk, piece by piece, until somebody comes. The lock is held. */
static void work_for_disk(cairn_scheduler *s)
{
    uint64_t due_ns = 0;
    while (nothing_to_do(s)) {
        unlock(s);
        bool more = cairn_cache_idle(s->options.cache);
        if (!more)
            due_ns = tiers_look(s);
        lock(s);
        if (more)
            continue;
        if (due_ns == 0)
            return;
        if (nothing_to_do(s))
            (void)cairn_cond_wait_for(&s->wake, &s->lock, due_ns);
    }
}

/* Sleep until there is something to do. */
static bool wait_for_work(cairn_scheduler *s, bool *ret_abandon)
{
    lock(s);
    work_for_disk(s);
    while (nothing_to_do(s))
        cairn_cond_wait(&s->wake, &s->lock);
    s->nudged = false;
    *ret_abandon = s->abandon;
    bool over = s->stopping && s->count_active == 0 && s->queue.first == NULL;
    unlock(s);
    return !over;
}

/* All active requests are paused: wait until a reader has taken something, or until one may have stalled. */
static void wait_for_reader(cairn_scheduler *s)
{
    lock(s);
    while (!s->nudged && !s->abandon && cairn_cond_wait_for(&s->wake, &s->lock, READER_LOOK_NS)) {
    }
    unlock(s);
}

static void *scheduler_main(void *arg)
{
    cairn_scheduler *s = arg;
    cairn_request *requests[CAIRN_SLOTS_MAX];
    bool abandon = false;
    while (wait_for_work(s, &abandon)) {
        answer_asks(s, false);
        admit(s);
        uint32_t count = gather(s, abandon, requests);
        if (count > 0) {
            work_round(s, requests, count);
        } else if (s->count_active > 0) {
            wait_for_reader(s);
        }
    }
    answer_asks(s, true);
    cairn_disk_watch_flush(&s->disk, &s->options);
    return NULL;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

cairn_status cairn_scheduler_start(const cairn_scheduler_options *options, cairn_scheduler **ret_scheduler,
                                   cairn_error *reterr)
{
    CAIRN_ASSERT(options->slots >= 1 && options->slots <= CAIRN_SLOTS_MAX);
    cairn_scheduler *s = cairn_mem_zalloc(options->mem, sizeof *s);
    if (s == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "scheduler/start", NULL);
    s->options = *options;
    cairn_pace_init(&s->pace, options->batch_tokens);
    cairn_lock_init(&s->lock);
    cairn_cond_init(&s->wake);
    int code = pthread_create(&s->thread, NULL, scheduler_main, s);
    if (code != 0) {
        cairn_scheduler_free(s);
        return cairn_error_set_os(reterr, code, "scheduler/start", NULL);
    }
    s->running = true;
    *ret_scheduler = s;
    return CAIRN_OK;
}

void cairn_scheduler_stop(cairn_scheduler *s, uint64_t drain_ns)
{
    if (s == NULL || !s->running)
        return;
    lock(s);
    s->stopping = true;
    cairn_cond_signal(&s->wake);
    unlock(s);
    uint64_t until = now_ns(s) + drain_ns;
    for (;;) {
        uint32_t queued, active;
        cairn_scheduler_counts(s, &queued, &active);
        if ((queued == 0 && active == 0) || now_ns(s) >= until)
            break;
        struct timespec tick = {.tv_nsec = 10000000L};
        (void)nanosleep(&tick, NULL);
    }
    lock(s);
    s->abandon = true;
    s->nudged = true;
    cairn_cond_signal(&s->wake);
    unlock(s);
    cairn_join(s->thread);
    s->running = false;
}

void cairn_scheduler_free(cairn_scheduler *s)
{
    if (s == NULL)
        return;
    CAIRN_ASSERT(!s->running && s->queue.first == NULL && s->count_active == 0);
    (void)pthread_cond_destroy(&s->wake);
    (void)pthread_mutex_destroy(&s->lock);
    cairn_mem_release(s->options.mem, s, sizeof *s);
}
