/*
 * answers_log - see the header. A record is the answer's origin, its tokens and its message, as docs/format/answers.md says.
 */
#include "serve/answers_log.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/bytes.h"
#include "base/lock.h"

enum { FIXED_BYTES = 64, LOADED_MAX = 1024 };

/* Offsets of docs/format/answers.md. */
enum {
    AT_CONVERSATION = 0,
    AT_TEXT = 16,
    AT_TEXT_BYTES = 32,
    AT_CHAIN = 40,
    AT_PROMPT_TOKENS = 48,
    AT_TOKENS = 52,
    AT_MESSAGE = 56
};

typedef struct waiting {
    struct waiting *next;
    cairn_namespace space;
    size_t count;
    uint8_t note[]; /* uint8_t[count] */
} waiting;

struct cairn_answers_log {
    const cairn_mem *mem;
    cairn_note_log *notes;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* over the queue */
    pthread_cond_t wake, settled;
    waiting *first, *last;
    size_t queued_bytes;
    bool stop, writing;
    pthread_mutex_t load_lock; /* over what follows; held while a namespace is loaded */
    cairn_namespace *loaded;   /* cairn_namespace[LOADED_MAX] */
    uint32_t count_loaded;
};

/* --- records ----------------------------------------------------------------------------------------------------- */

static size_t record_bytes(const cairn_answer_kept *answer)
{
    return FIXED_BYTES + answer->count_tokens * sizeof(cairn_token) + answer->message_bytes;
}

static void record_write(uint8_t *out, cairn_hash128 conversation, const cairn_answer_kept *answer)
{
    memset(out, 0, FIXED_BYTES);
    cairn_put64(out + AT_CONVERSATION, conversation.low);
    cairn_put64(out + AT_CONVERSATION + 8, conversation.high);
    cairn_put64(out + AT_TEXT, answer->origin.text.low);
    cairn_put64(out + AT_TEXT + 8, answer->origin.text.high);
    cairn_put64(out + AT_TEXT_BYTES, answer->origin.text_bytes);
    cairn_put64(out + AT_CHAIN, answer->origin.chain);
    cairn_put32(out + AT_PROMPT_TOKENS, answer->origin.count_tokens);
    cairn_put32(out + AT_TOKENS, answer->count_tokens);
    cairn_put32(out + AT_MESSAGE, (uint32_t)answer->message_bytes);
    uint8_t *to = out + FIXED_BYTES;
    for (uint32_t i = 0; i < answer->count_tokens; i++, to += 4)
        cairn_put32(to, (uint32_t)answer->tokens[i]);
    memcpy(to, answer->message, answer->message_bytes);
}

typedef struct loading {
    const cairn_answers_log *log;
    const cairn_namespace *space;
    cairn_answers_log_fn each;
    void *ctx;
} loading;

/* One record becomes an answer again. One of other lengths than it says is left out. */
static void record_read(void *ctx, const uint8_t *note, size_t count)
{
    const loading *load = ctx;
    if (count < FIXED_BYTES)
        return;
    uint64_t tokens = cairn_get32(note + AT_TOKENS), message = cairn_get32(note + AT_MESSAGE);
    if (tokens == 0 || message == 0 || FIXED_BYTES + tokens * sizeof(cairn_token) + message != count)
        return;
    cairn_token *list = cairn_mem_array(load->log->mem, (size_t)tokens, sizeof *list);
    if (list == NULL)
        return;
    for (size_t i = 0; i < tokens; i++)
        list[i] = (cairn_token)cairn_get32(note + FIXED_BYTES + 4 * i);
    const cairn_answer_kept answer = {
        .origin = {.text = {.low = cairn_get64(note + AT_TEXT), .high = cairn_get64(note + AT_TEXT + 8)},
                   .text_bytes = (size_t)cairn_get64(note + AT_TEXT_BYTES),
                   .chain = cairn_get64(note + AT_CHAIN),
                   .count_tokens = cairn_get32(note + AT_PROMPT_TOKENS)},
        .message = (const char *)note + FIXED_BYTES + tokens * sizeof(cairn_token),
        .message_bytes = (size_t)message,
        .tokens = list,
        .count_tokens = (uint32_t)tokens};
    const cairn_hash128 conversation = {.low = cairn_get64(note + AT_CONVERSATION),
                                        .high = cairn_get64(note + AT_CONVERSATION + 8)};
    load->each(load->ctx, load->space, conversation, &answer);
    cairn_mem_array_release(load->log->mem, list, (size_t)tokens, sizeof *list);
}

/* --- the queue --------------------------------------------------------------------------------------------------- */

static void lock(cairn_answers_log *log)
{
    cairn_lock(&log->lock);
}

static void unlock(cairn_answers_log *log)
{
    cairn_unlock(&log->lock);
}

static void waiting_free(const cairn_mem *mem, waiting *item)
{
    cairn_mem_release(mem, item, sizeof *item + item->count);
}

/* Take the first out. The lock is held. */
static waiting *pop(cairn_answers_log *log)
{
    waiting *item = log->first;
    if (item != NULL) {
        log->first = item->next;
        log->last = log->first != NULL ? log->last : NULL;
        log->queued_bytes -= item->count;
    }
    return item;
}

static void *writer_main(void *ctx)
{
    cairn_answers_log *log = ctx;
    lock(log);
    for (;;) {
        waiting *item = pop(log);
        if (item == NULL && log->stop)
            break;
        if (item == NULL) {
            cairn_cond_broadcast(&log->settled);
            cairn_cond_wait(&log->wake, &log->lock);
            continue;
        }
        log->writing = true;
        unlock(log);
        (void)!cairn_note_log_add(log->notes, &item->space, item->note, item->count, NULL);
        waiting_free(log->mem, item);
        lock(log);
        log->writing = false;
    }
    unlock(log);
    return NULL;
}

void cairn_answers_log_keep(cairn_answers_log *log, const cairn_namespace *space, cairn_hash128 conversation,
                            const cairn_answer_kept *answer)
{
    size_t count = record_bytes(answer);
    if (count > CAIRN_NOTE_BYTES_MAX || answer->count_tokens == 0 || answer->message_bytes == 0)
        return;
    waiting *item = cairn_mem_alloc(log->mem, sizeof *item + count);
    if (item == NULL)
        return;
    *item = (waiting){.space = *space, .count = count};
    record_write(item->note, conversation, answer);
    lock(log);
    bool fits = log->queued_bytes + count <= CAIRN_ANSWERS_LOG_QUEUE_BYTES;
    if (fits) {
        *(log->last != NULL ? &log->last->next : &log->first) = item;
        log->last = item;
        log->queued_bytes += count;
        cairn_cond_signal(&log->wake);
    }
    unlock(log);
    if (!fits)
        waiting_free(log->mem, item);
}

void cairn_answers_log_settle(cairn_answers_log *log)
{
    lock(log);
    while (log->first != NULL || log->writing)
        cairn_cond_wait(&log->settled, &log->lock);
    unlock(log);
}

/* --- life -------------------------------------------------------------------------------------------------------- */

cairn_status cairn_answers_log_new(const cairn_mem *mem, cairn_io *io, const char *dir, const uint8_t *key,
                                   cairn_answers_log **ret_log, cairn_error *reterr)
{
    const cairn_note_log_options options = {.dir = dir,
                                            .key = key,
                                            .file_bytes_max = CAIRN_ANSWERS_LOG_FILE_BYTES,
                                            .bytes_max = CAIRN_ANSWERS_LOG_BYTES};
    cairn_answers_log *log = cairn_mem_zalloc(mem, sizeof *log);
    if (log == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "answers_log/new", NULL);
    log->mem = mem;
    cairn_lock_init(&log->lock);
    cairn_lock_init(&log->load_lock);
    cairn_cond_init(&log->wake);
    cairn_cond_init(&log->settled);
    log->loaded = cairn_mem_array(mem, LOADED_MAX, sizeof *log->loaded);
    cairn_status status = log->loaded != NULL ? CAIRN_OK : CAIRN_NOMEM;
    if (status == CAIRN_OK)
        status = cairn_note_log_new(mem, io, &options, &log->notes, reterr);
    if (status == CAIRN_OK) {
        log->runs = pthread_create(&log->thread, NULL, writer_main, log) == 0;
        status = log->runs ? CAIRN_OK : CAIRN_NOMEM;
    }
    if (status != CAIRN_OK) {
        cairn_answers_log_free(log);
        return cairn_error_set(reterr, status, "answers_log/new", NULL);
    }
    *ret_log = log;
    return CAIRN_OK;
}

void cairn_answers_log_free(cairn_answers_log *log)
{
    if (log == NULL)
        return;
    if (log->runs) {
        lock(log);
        log->stop = true;
        cairn_cond_signal(&log->wake);
        unlock(log);
        cairn_join(log->thread);
    }
    cairn_note_log_free(log->notes);
    cairn_mem_array_release(log->mem, log->loaded, LOADED_MAX, sizeof *log->loaded);
    (void)pthread_cond_destroy(&log->settled);
    (void)pthread_cond_destroy(&log->wake);
    (void)pthread_mutex_destroy(&log->load_lock);
    (void)pthread_mutex_destroy(&log->lock);
    cairn_mem_release(log->mem, log, sizeof *log);
}

/* --- load and forget --------------------------------------------------------------------------------------------- */

void cairn_answers_log_load(cairn_answers_log *log, const cairn_namespace *space, cairn_answers_log_fn each,
                            void *ctx)
{
    loading load = {.log = log, .space = space, .each = each, .ctx = ctx};
    bool known = false;
    cairn_lock(&log->load_lock);
    for (uint32_t i = 0; i < log->count_loaded && !known; i++)
        known = memcmp(log->loaded[i].bytes, space->bytes, sizeof space->bytes) == 0;
    if (!known) {
        (void)cairn_note_log_each(log->notes, space, record_read, &load);
        if (log->count_loaded == LOADED_MAX)
            log->count_loaded = 0; /* they are read again when they are asked for: nothing is kept twice */
        log->loaded[log->count_loaded++] = *space;
    }
    cairn_unlock(&log->load_lock);
}

void cairn_answers_log_forget(cairn_answers_log *log, const cairn_namespace *space)
{
    lock(log);
    waiting *kept = NULL, **end = &kept;
    for (waiting *item; (item = pop(log)) != NULL;) {
        if (space == NULL || memcmp(item->space.bytes, space->bytes, sizeof space->bytes) == 0) {
            waiting_free(log->mem, item);
        } else {
            item->next = NULL;
            *end = item;
            end = &item->next;
        }
    }
    log->first = kept;
    for (waiting *item = kept; item != NULL; item = item->next) {
        log->last = item;
        log->queued_bytes += item->count;
    }
    while (log->writing) { /* what is on its way must not arrive afterwards */
        unlock(log);
        (void)sched_yield();
        lock(log);
    }
    unlock(log);
    cairn_lock(&log->load_lock); /* who loads is through, and has given all of it */
    cairn_note_log_forget(log->notes, space);
    cairn_unlock(&log->load_lock);
}
