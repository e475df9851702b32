/*
 * answers - see the header. Entries stand in two hash tables (by conversation, by call ids) and in one list by use.
 * The bytes of an entry that is still held by a request count until it is given back.
 */
#include "serve/answers.h"

#include <pthread.h>
#include <string.h>

#include "base/lock.h"
#include "serve/answer_form.h"
#include "serve/answers_log.h"

enum {
    BY_CONVERSATION = 0,
    BY_IDS = 1,
    TABLES = 2,
    BUCKETS_MIN = 64,
    BUCKETS_MAX = 1 << 16,
    BUCKET_BYTES = 4096
};

typedef struct entry {
    cairn_answer_kept kept; /* first: a found answer is its entry */
    cairn_namespace space;
    cairn_hash128 keys[TABLES];
    bool listed[TABLES];
    struct entry *chain[TABLES];
    struct entry *newer, *older; /* by use */
    uint64_t bytes;
    uint32_t refs; /* the list's one included */
    char *form;
    size_t form_bytes;
} entry;

struct cairn_answers {
    const cairn_mem *mem;
    cairn_answers_log *log; /* NULL: in memory only */
    pthread_mutex_t lock;
    uint64_t bytes, bytes_max, kept, evicted;
    entry *newest, *oldest;
    size_t count_buckets; /* a power of two */
    entry **buckets[TABLES];
};

static void lock(cairn_answers *a)
{
    cairn_lock(&a->lock);
}

static void unlock(cairn_answers *a)
{
    cairn_unlock(&a->lock);
}

/* --- entries ----------------------------------------------------------------------------------------------------- */

static void entry_free(const cairn_mem *mem, entry *e)
{
    if (e == NULL)
        return;
    cairn_mem_release(mem, (void *)(uintptr_t)e->kept.message, e->kept.message_bytes);
    cairn_mem_array_release(mem, (void *)(uintptr_t)e->kept.tokens, e->kept.count_tokens,
                            sizeof *e->kept.tokens);
    cairn_mem_release(mem, e->form, e->form_bytes);
    cairn_mem_release(mem, e, sizeof *e);
}

static entry **bucket_of(cairn_answers *a, int table, cairn_hash128 key)
{
    return &a->buckets[table][cairn_hash_mix(key.low) & (a->count_buckets - 1)];
}

static void unref_locked(cairn_answers *a, entry *e)
{
    CAIRN_ASSERT(e->refs > 0);
    if (--e->refs > 0)
        return;
    CAIRN_ASSERT(a->bytes >= e->bytes);
    a->bytes -= e->bytes;
    entry_free(a->mem, e);
}

static void list_remove(cairn_answers *a, entry *e)
{
    *(e->newer != NULL ? &e->newer->older : &a->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &a->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void list_add(cairn_answers *a, entry *e)
{
    e->older = a->newest;
    *(a->newest != NULL ? &a->newest->newer : &a->oldest) = e;
    a->newest = e;
}

static void drop(cairn_answers *a, entry *e)
{
    for (int t = 0; t < TABLES; t++) {
        if (!e->listed[t])
            continue;
        entry **at = bucket_of(a, t, e->keys[t]);
        while (*at != e)
            at = &(*at)->chain[t];
        *at = e->chain[t];
        e->listed[t] = false;
    }
    list_remove(a, e);
    a->kept--;
    unref_locked(a, e);
}

static bool same_space(const entry *e, const cairn_namespace *space)
{
    return memcmp(e->space.bytes, space->bytes, sizeof space->bytes) == 0;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

cairn_status cairn_answers_new(const cairn_mem *mem, uint64_t bytes_max, cairn_answers **ret_answers)
{
    cairn_answers *a = cairn_mem_zalloc(mem, sizeof *a);
    if (a == NULL)
        return CAIRN_NOMEM;
    a->mem = mem;
    a->bytes_max = bytes_max;
    a->count_buckets = BUCKETS_MIN;
    while (a->count_buckets < BUCKETS_MAX && a->count_buckets < bytes_max / BUCKET_BYTES)
        a->count_buckets *= 2;
    cairn_lock_init(&a->lock);
    for (int t = 0; t < TABLES; t++) {
        a->buckets[t] = cairn_mem_zalloc(mem, a->count_buckets * sizeof(entry *));
        if (a->buckets[t] == NULL) {
            cairn_answers_free(a);
            return CAIRN_NOMEM;
        }
        a->bytes += a->count_buckets * sizeof(entry *);
    }
    *ret_answers = a;
    return CAIRN_OK;
}

void cairn_answers_free(cairn_answers *a)
{
    if (a == NULL)
        return;
    while (a->oldest != NULL) {
        CAIRN_ASSERT(a->oldest->refs == 1);
        drop(a, a->oldest);
    }
    for (int t = 0; t < TABLES; t++)
        cairn_mem_release(a->mem, a->buckets[t], a->count_buckets * sizeof(entry *));
    (void)pthread_mutex_destroy(&a->lock);
    cairn_mem_release(a->mem, a, sizeof *a);
}

/* --- conversations ----------------------------------------------------------------------------------------------- */

cairn_status cairn_answers_follow(const cairn_mem *mem, cairn_hash128 *conversation, const json_t *message)
{
    cairn_buf text;
    cairn_buf_init(&text, mem, SIZE_MAX / 4);
    cairn_status status = cairn_buf_append(&text, conversation, sizeof *conversation);
    if (status == CAIRN_OK)
        status = cairn_answer_form(message, &text);
    if (status == CAIRN_OK)
        *conversation = cairn_hash_bytes(text.bytes, text.len_bytes);
    cairn_buf_release(&text);
    return status;
}

/* The form, and the key of the call ids. false: no memory. */
static bool describe(const cairn_mem *mem, const json_t *message, cairn_buf *form, bool *ret_ids,
                     cairn_hash128 *ret_key)
{
    cairn_buf ids;
    cairn_buf_init(&ids, mem, SIZE_MAX / 4);
    cairn_buf_init(form, mem, SIZE_MAX / 4);
    bool good =
        cairn_answer_form(message, form) == CAIRN_OK && cairn_answer_call_ids(message, &ids) == CAIRN_OK;
    *ret_ids = good && ids.len_bytes > 0;
    if (*ret_ids)
        *ret_key = cairn_hash_bytes(ids.bytes, ids.len_bytes);
    cairn_buf_release(&ids);
    return good;
}

/* --- keep -------------------------------------------------------------------------------------------------------- */

static entry *entry_new(const cairn_mem *mem, const cairn_namespace *space, cairn_hash128 conversation,
                        const cairn_answer_kept *answer)
{
    entry *e = cairn_mem_zalloc(mem, sizeof *e);
    json_t *message = json_loadb(answer->message, answer->message_bytes, JSON_ALLOW_NUL, NULL);
    cairn_buf form;
    cairn_buf_init(&form, mem, 0);
    bool good = e != NULL && message != NULL && answer->count_tokens > 0 &&
                describe(mem, message, &form, &e->listed[BY_IDS], &e->keys[BY_IDS]) &&
                cairn_answers_follow(mem, &conversation, message) == CAIRN_OK;
    if (good) {
        e->kept = *answer;
        e->kept.message = cairn_mem_dup(mem, answer->message, answer->message_bytes);
        e->kept.tokens = cairn_mem_dup(mem, answer->tokens, answer->count_tokens * sizeof *answer->tokens);
        e->form = cairn_mem_dup(mem, form.bytes, form.len_bytes);
        e->form_bytes = form.len_bytes;
        e->space = *space;
        e->keys[BY_CONVERSATION] = conversation;
        e->listed[BY_CONVERSATION] = true;
        e->refs = 1;
        e->bytes =
            sizeof *e + e->kept.message_bytes + e->form_bytes + e->kept.count_tokens * sizeof *e->kept.tokens;
        good = e->kept.message != NULL && e->kept.tokens != NULL && e->form != NULL;
    }
    cairn_buf_release(&form);
    json_decref(message);
    if (good)
        return e;
    entry_free(mem, e);
    return NULL;
}

static void insert(cairn_answers *a, const cairn_namespace *space, cairn_hash128 conversation,
                   const cairn_answer_kept *answer)
{
    uint64_t least = sizeof(entry) + answer->message_bytes + answer->count_tokens * sizeof(cairn_token);
    uint64_t fixed = TABLES * a->count_buckets * sizeof(entry *);
    if (least + fixed > a->bytes_max)
        return;
    entry *e = entry_new(a->mem, space, conversation, answer);
    if (e == NULL)
        return;
    lock(a);
    for (entry *old = *bucket_of(a, BY_CONVERSATION, e->keys[BY_CONVERSATION]), *next; old != NULL;
         old = next) {
        next = old->chain[BY_CONVERSATION];
        if (same_space(old, space) &&
            cairn_hash128_equal(old->keys[BY_CONVERSATION], e->keys[BY_CONVERSATION]) &&
            cairn_hash128_equal(old->kept.origin.text, e->kept.origin.text))
            drop(a, old);
    }
    while (a->oldest != NULL && a->bytes + e->bytes > a->bytes_max) {
        drop(a, a->oldest);
        a->evicted++;
    }
    if (a->bytes + e->bytes > a->bytes_max) { /* what requests hold at the moment leaves no room */
        unlock(a);
        entry_free(a->mem, e);
        return;
    }
    for (int t = 0; t < TABLES; t++) {
        if (!e->listed[t])
            continue;
        entry **bucket = bucket_of(a, t, e->keys[t]);
        e->chain[t] = *bucket;
        *bucket = e;
    }
    list_add(a, e);
    a->bytes += e->bytes;
    a->kept++;
    unlock(a);
}

void cairn_answers_keep(cairn_answers *a, const cairn_namespace *space, cairn_hash128 conversation,
                        const cairn_answer_kept *answer)
{
    insert(a, space, conversation, answer);
    if (a->log != NULL)
        cairn_answers_log_keep(a->log, space, conversation, answer);
}

void cairn_answers_attach(cairn_answers *a, cairn_answers_log *log)
{
    a->log = log;
}

static void insert_loaded(void *ctx, const cairn_namespace *space, cairn_hash128 conversation,
                          const cairn_answer_kept *answer)
{
    insert(ctx, space, conversation, answer);
}

/* --- find -------------------------------------------------------------------------------------------------------- */

const cairn_answer_kept *cairn_answers_find(cairn_answers *a, const cairn_namespace *space,
                                            cairn_hash128 conversation, const json_t *message)
{
    cairn_buf form;
    bool with_ids = false;
    cairn_hash128 keys[TABLES] = {conversation, conversation};
    entry *found = NULL;
    if (a->log != NULL)
        cairn_answers_log_load(a->log, space, insert_loaded, a);
    if (!describe(a->mem, message, &form, &with_ids, &keys[BY_IDS])) {
        cairn_buf_release(&form);
        return NULL;
    }
    lock(a);
    for (int t = with_ids ? BY_IDS : BY_CONVERSATION; t >= BY_CONVERSATION && found == NULL; t--) {
        for (entry *e = *bucket_of(a, t, keys[t]); e != NULL && found == NULL; e = e->chain[t]) {
            if (same_space(e, space) && cairn_hash128_equal(e->keys[t], keys[t]) &&
                e->form_bytes == form.len_bytes && memcmp(e->form, form.bytes, form.len_bytes) == 0)
                found = e;
        }
    }
    if (found != NULL)
        found->refs++;
    unlock(a);
    cairn_buf_release(&form);
    return found != NULL ? &found->kept : NULL;
}

void cairn_answers_unref(cairn_answers *a, const cairn_answer_kept *answer)
{
    if (answer == NULL)
        return;
    lock(a);
    unref_locked(a, (entry *)(uintptr_t)answer);
    unlock(a);
}

void cairn_answers_touch(cairn_answers *a, const cairn_answer_kept *answer)
{
    entry *e = (entry *)(uintptr_t)answer;
    lock(a);
    if (e->listed[BY_CONVERSATION]) {
        list_remove(a, e);
        list_add(a, e);
    }
    unlock(a);
}

void cairn_answers_forget(cairn_answers *a, const cairn_namespace *space)
{
    if (a->log != NULL) /* first: what is being loaded from there is here by then */
        cairn_answers_log_forget(a->log, space);
    lock(a);
    for (entry *e = a->oldest, *next; e != NULL; e = next) {
        next = e->newer;
        if (space == NULL || same_space(e, space))
            drop(a, e);
    }
    unlock(a);
}

void cairn_answers_stats_get(cairn_answers *a, cairn_answers_stats *ret_stats)
{
    lock(a);
    *ret_stats = (cairn_answers_stats){
        .kept = a->kept, .bytes = a->bytes, .bytes_max = a->bytes_max, .evicted = a->evicted};
    unlock(a);
}
