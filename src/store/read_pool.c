/*
 * read_pool - see the header. It must not know what is read, nor from where.
 */
#include "store/read_pool.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/lock.h"

struct cairn_read_pool {
    const cairn_mem *mem;
    pthread_mutex_t lock; /* over what follows and the phases of all reads */
    pthread_cond_t work;  /* one waits, or stop */
    pthread_cond_t done;  /* one is done */
    cairn_read *first, *last;
    bool stop;
    unsigned count_threads;
    pthread_t threads[CAIRN_READ_THREADS_MAX];
};

/* The first that waits, or NULL. The lock is held. */
static cairn_read *pop(cairn_read_pool *pool)
{
    cairn_read *read = pool->first;
    if (read != NULL) {
        pool->first = read->next;
        pool->last = pool->first != NULL ? pool->last : NULL;
        read->next = NULL;
        read->phase = CAIRN_READ_RUNS;
    }
    return read;
}

/* Read one that was taken out. The lock is held before and after, not meanwhile. */
static void carry_out(cairn_read_pool *pool, cairn_read *read)
{
    cairn_unlock(&pool->lock);
    uint64_t begin_ns = cairn_clock_now_ns(cairn_clock_system());
    uint64_t digest = 0;
    cairn_status status = read->get(read, &digest);
    uint64_t took_ns = cairn_clock_now_ns(cairn_clock_system()) - begin_ns;
    cairn_lock(&pool->lock);
    read->status = status;
    read->digest = digest;
    read->took_ns = took_ns;
    read->phase = CAIRN_READ_DONE;
    cairn_cond_broadcast(&pool->done);
}

static void *reader_main(void *ctx)
{
    cairn_read_pool *pool = ctx;
    cairn_lock(&pool->lock);
    while (!pool->stop) {
        cairn_read *read = pop(pool);
        if (read != NULL) {
            carry_out(pool, read);
        } else {
            cairn_cond_wait(&pool->work, &pool->lock);
        }
    }
    cairn_unlock(&pool->lock);
    return NULL;
}

cairn_status cairn_read_pool_new(const cairn_mem *mem, unsigned threads, cairn_read_pool **ret_pool,
                                 cairn_error *reterr)
{
    cairn_read_pool *pool = cairn_mem_zalloc(mem, sizeof *pool);
    if (pool == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/read_pool: new", NULL);
    }
    pool->mem = mem;
    cairn_lock_init(&pool->lock);
    cairn_cond_init(&pool->work);
    cairn_cond_init(&pool->done);
    CAIRN_ASSERT(threads <= CAIRN_READ_THREADS_MAX);
    while (pool->count_threads < threads &&
           pthread_create(&pool->threads[pool->count_threads], NULL, reader_main, pool) == 0) {
        pool->count_threads++;
    }
    *ret_pool = pool;
    return CAIRN_OK;
}

void cairn_read_pool_free(cairn_read_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    cairn_lock(&pool->lock);
    CAIRN_ASSERT(pool->first == NULL);
    pool->stop = true;
    cairn_cond_broadcast(&pool->work);
    cairn_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->count_threads; i++) {
        cairn_join(pool->threads[i]);
    }
    (void)pthread_cond_destroy(&pool->done);
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_mutex_destroy(&pool->lock);
    cairn_mem_release(pool->mem, pool, sizeof *pool);
}

void cairn_read_start(cairn_read_pool *pool, cairn_read *read)
{
    cairn_lock(&pool->lock);
    CAIRN_ASSERT(read->phase == CAIRN_READ_NEW);
    read->phase = CAIRN_READ_WAITS;
    read->next = NULL;
    if (pool->last != NULL) {
        pool->last->next = read;
    } else {
        pool->first = read;
    }
    pool->last = read;
    cairn_cond_signal(&pool->work);
    cairn_unlock(&pool->lock);
}

bool cairn_read_done(cairn_read_pool *pool, const cairn_read *read)
{
    cairn_lock(&pool->lock);
    bool done = read->phase == CAIRN_READ_DONE;
    cairn_unlock(&pool->lock);
    return done;
}

void cairn_read_help(cairn_read_pool *pool, cairn_read *read)
{
    cairn_lock(&pool->lock);
    CAIRN_ASSERT(read->phase != CAIRN_READ_NEW);
    while (read->phase != CAIRN_READ_DONE) {
        cairn_read *other = pop(pool); /* never empty while `read` itself waits */
        if (other != NULL) {
            carry_out(pool, other);
        } else {
            cairn_cond_wait(&pool->done, &pool->lock);
        }
    }
    cairn_unlock(&pool->lock);
}

void cairn_read_cancel(cairn_read_pool *pool, cairn_read *read)
{
    cairn_lock(&pool->lock);
    if (read->phase == CAIRN_READ_WAITS) {
        cairn_read **link = &pool->first, *before = NULL;
        while (*link != read) {
            before = *link;
            link = &before->next;
        }
        *link = read->next;
        pool->last = pool->last == read ? before : pool->last;
        read->next = NULL;
        read->status = CAIRN_CANCELLED;
        read->phase = CAIRN_READ_DONE;
    }
    while (read->phase == CAIRN_READ_RUNS) {
        cairn_cond_wait(&pool->done, &pool->lock);
    }
    cairn_unlock(&pool->lock);
}
