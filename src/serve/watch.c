/*
 * watch - see the header. The table is guarded by one lock, which is held during `gone`: so remove can promise that no
 * call is under way. An event that was fetched just before its entry was removed is recognised by the generation.
 */
#include "serve/watch.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/lock.h"

typedef struct entry {
    int socket; /* -1: free */
    uint32_t generation;
    void (*gone)(void *ctx);
    void *ctx;
} entry;

struct cairn_watch {
    const cairn_mem *mem;
    pthread_mutex_t lock;
    pthread_t thread;
    int epoll, stop_event;
    uint32_t count, next;
    entry *entries; /* entry[count] */
};

enum { EVENTS_MAX = 64 };
#define STOP_KEY UINT64_MAX

static void fire(cairn_watch *watch, uint64_t key)
{
    uint32_t index = (uint32_t)key, generation = (uint32_t)(key >> 32);
    cairn_lock(&watch->lock);
    entry *e = &watch->entries[index];
    if (e->socket >= 0 && e->generation == generation && e->gone != NULL) {
        e->gone(e->ctx);
        e->gone = NULL;
    }
    cairn_unlock(&watch->lock);
}

static void *watch_main(void *arg)
{
    cairn_watch *watch = arg;
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(watch->epoll, events, EVENTS_MAX, -1);
        if (n < 0 && errno != EINTR)
            return NULL;
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == STOP_KEY)
                return NULL;
            fire(watch, events[i].data.u64);
        }
    }
}

static void release(cairn_watch *watch)
{
    if (watch->epoll >= 0)
        (void)close(watch->epoll);
    if (watch->stop_event >= 0)
        (void)close(watch->stop_event);
    cairn_mem_array_release(watch->mem, watch->entries, watch->count, sizeof *watch->entries);
    (void)pthread_mutex_destroy(&watch->lock);
    cairn_mem_release(watch->mem, watch, sizeof *watch);
}

cairn_status cairn_watch_new(const cairn_mem *mem, size_t sockets_max, cairn_watch **ret_watch,
                             cairn_error *reterr)
{
    CAIRN_ASSERT(sockets_max > 0 && sockets_max < UINT32_MAX);
    cairn_watch *watch = cairn_mem_zalloc(mem, sizeof *watch);
    if (watch == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "watch/new", NULL);
    watch->mem = mem;
    cairn_lock_init(&watch->lock);
    watch->entries = cairn_mem_array(mem, sockets_max, sizeof *watch->entries);
    if (watch->entries != NULL)
        watch->count = (uint32_t)sockets_max;
    for (uint32_t i = 0; watch->entries != NULL && i < watch->count; i++)
        watch->entries[i].socket = -1;
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch->stop_event = eventfd(0, EFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = STOP_KEY};
    if (watch->entries == NULL || watch->epoll < 0 || watch->stop_event < 0 ||
        epoll_ctl(watch->epoll, EPOLL_CTL_ADD, watch->stop_event, &event) != 0 ||
        pthread_create(&watch->thread, NULL, watch_main, watch) != 0) {
        cairn_status status = watch->entries == NULL ? cairn_error_set(reterr, CAIRN_NOMEM, "watch/new", NULL)
                                                     : cairn_error_set_os(reterr, errno, "watch/new", NULL);
        release(watch);
        return status;
    }
    *ret_watch = watch;
    return CAIRN_OK;
}

void cairn_watch_free(cairn_watch *watch)
{
    if (watch == NULL)
        return;
    uint64_t one = 1;
    ssize_t written;
    do {
        written = write(watch->stop_event, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
    cairn_join(watch->thread);
    release(watch);
}

cairn_status cairn_watch_add(cairn_watch *watch, int socket, void (*gone)(void *ctx), void *ctx,
                             uint32_t *ret_id)
{
    cairn_status status = CAIRN_LIMIT;
    cairn_lock(&watch->lock);
    for (uint32_t tries = 0; tries < watch->count && status == CAIRN_LIMIT; tries++) {
        uint32_t index = watch->next;
        watch->next = (watch->next + 1) % watch->count;
        entry *e = &watch->entries[index];
        if (e->socket >= 0)
            continue;
        e->generation++;
        struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT,
                                    .data.u64 = (uint64_t)e->generation << 32 | index};
        if (epoll_ctl(watch->epoll, EPOLL_CTL_ADD, socket, &event) != 0) {
            status = CAIRN_IO;
            break;
        }
        e->socket = socket;
        e->gone = gone;
        e->ctx = ctx;
        *ret_id = index;
        status = CAIRN_OK;
    }
    cairn_unlock(&watch->lock);
    return status;
}

void cairn_watch_remove(cairn_watch *watch, uint32_t id)
{
    CAIRN_ASSERT(id < watch->count);
    cairn_lock(&watch->lock);
    entry *e = &watch->entries[id];
    CAIRN_ASSERT(e->socket >= 0);
    (void)epoll_ctl(watch->epoll, EPOLL_CTL_DEL, e->socket, NULL);
    e->socket = -1;
    e->gone = NULL;
    cairn_unlock(&watch->lock);
}
