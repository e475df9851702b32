/*
 * replies - see the header. A ring in the order of arrival: the oldest is evicted first.
 */
#include "serve/replies.h"

#include <pthread.h>
#include <string.h>

#include "base/lock.h"

typedef struct reply {
    cairn_namespace space;
    char id[CAIRN_REPLY_ID_BYTES_MAX + 1];
    char *text; /* char[len_bytes]: the conversation, then the response; NULL: evicted */
    size_t len_bytes, conversation_bytes;
} reply;

struct cairn_replies {
    const cairn_mem *mem;
    pthread_mutex_t lock;
    size_t count_max, bytes_max;
    size_t first, count, bytes; /* entries[(first + i) % count_max], i < count */
    uint64_t evicted;
    reply *entries;
};

cairn_status cairn_replies_new(const cairn_mem *mem, size_t count_max, size_t bytes_max,
                               cairn_replies **ret_replies)
{
    CAIRN_ASSERT(count_max > 0);
    cairn_replies *r = cairn_mem_zalloc(mem, sizeof *r);
    if (r == NULL)
        return CAIRN_NOMEM;
    r->mem = mem;
    r->count_max = count_max;
    r->bytes_max = bytes_max;
    r->entries = cairn_mem_array(mem, count_max, sizeof *r->entries);
    if (r->entries == NULL) {
        cairn_mem_release(mem, r, sizeof *r);
        return CAIRN_NOMEM;
    }
    cairn_lock_init(&r->lock);
    *ret_replies = r;
    return CAIRN_OK;
}

static void evict_first(cairn_replies *r)
{
    reply *entry = &r->entries[r->first];
    cairn_mem_release(r->mem, entry->text, entry->len_bytes);
    r->bytes -= entry->len_bytes;
    memset(entry, 0, sizeof *entry);
    r->first = (r->first + 1) % r->count_max;
    r->count--;
}

void cairn_replies_free(cairn_replies *r)
{
    if (r == NULL)
        return;
    while (r->count > 0)
        evict_first(r);
    (void)pthread_mutex_destroy(&r->lock);
    cairn_mem_array_release(r->mem, r->entries, r->count_max, sizeof *r->entries);
    cairn_mem_release(r->mem, r, sizeof *r);
}

void cairn_replies_put(cairn_replies *r, const cairn_namespace *space, const char *id,
                       const cairn_reply *reply_in)
{
    size_t len_bytes = reply_in->conversation_bytes + reply_in->response_bytes;
    if (len_bytes == 0 || len_bytes > r->bytes_max / 4 || strlen(id) > CAIRN_REPLY_ID_BYTES_MAX)
        return;
    cairn_lock(&r->lock);
    while (r->count == r->count_max || r->bytes + len_bytes > r->bytes_max) {
        evict_first(r);
        r->evicted++;
    }
    char *text = cairn_mem_alloc(r->mem, len_bytes);
    if (text != NULL) {
        reply *entry = &r->entries[(r->first + r->count) % r->count_max];
        if (reply_in->conversation_bytes > 0)
            memcpy(text, reply_in->conversation, reply_in->conversation_bytes);
        if (reply_in->response_bytes > 0)
            memcpy(text + reply_in->conversation_bytes, reply_in->response, reply_in->response_bytes);
        entry->space = *space;
        memcpy(entry->id, id, strlen(id) + 1);
        entry->text = text;
        entry->len_bytes = len_bytes;
        entry->conversation_bytes = reply_in->conversation_bytes;
        r->count++;
        r->bytes += len_bytes;
    }
    CAIRN_ASSERT(r->bytes <= r->bytes_max);
    cairn_unlock(&r->lock);
}

static bool in_space(const reply *entry, const cairn_namespace *space)
{
    return space == NULL || memcmp(entry->space.bytes, space->bytes, sizeof space->bytes) == 0;
}

cairn_status cairn_replies_get(cairn_replies *r, const cairn_namespace *space, const char *id,
                               cairn_reply_part part, cairn_buf *out)
{
    cairn_status status = CAIRN_NOTFOUND;
    cairn_lock(&r->lock);
    for (size_t i = r->count; i-- > 0 && status == CAIRN_NOTFOUND;) {
        const reply *entry = &r->entries[(r->first + i) % r->count_max];
        size_t begin = part == CAIRN_REPLY_RESPONSE ? entry->conversation_bytes : 0;
        size_t end = part == CAIRN_REPLY_RESPONSE ? entry->len_bytes : entry->conversation_bytes;
        if (strcmp(entry->id, id) == 0 && in_space(entry, space))
            status = cairn_buf_append(out, entry->text + begin, end - begin);
    }
    cairn_unlock(&r->lock);
    return status;
}

/* Forget those of a namespace (NULL: all) with this id (NULL: any); the others move up. Gives how many there were. */
static size_t drop(cairn_replies *r, const cairn_namespace *space, const char *id)
{
    cairn_lock(&r->lock);
    size_t kept = 0, count = r->count;
    for (size_t i = 0; i < count; i++) {
        reply *entry = &r->entries[(r->first + i) % r->count_max];
        if (in_space(entry, space) && (id == NULL || strcmp(entry->id, id) == 0)) {
            cairn_mem_release(r->mem, entry->text, entry->len_bytes);
            r->bytes -= entry->len_bytes;
            memset(entry, 0, sizeof *entry);
        } else if (kept++ < i) { /* it moves up into the gap */
            r->entries[(r->first + kept - 1) % r->count_max] = *entry;
            memset(entry, 0, sizeof *entry);
        }
    }
    r->count = kept;
    cairn_unlock(&r->lock);
    return count - kept;
}

bool cairn_replies_remove(cairn_replies *r, const cairn_namespace *space, const char *id)
{
    return drop(r, space, id) > 0;
}

void cairn_replies_forget(cairn_replies *r, const cairn_namespace *space)
{
    (void)drop(r, space, NULL);
}

void cairn_replies_stats_get(cairn_replies *r, cairn_replies_stats *ret_stats)
{
    cairn_lock(&r->lock);
    *ret_stats = (cairn_replies_stats){
        .kept = r->count, .bytes = r->bytes, .bytes_max = r->bytes_max, .evicted = r->evicted};
    cairn_unlock(&r->lock);
}
