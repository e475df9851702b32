/*
 * mem_test - counts each block in a header before it and guards the bytes behind it.
 *
 *   | size | mark | pad to 16 | the block ... | guard |
 *                              ^ what the caller gets
 */
#include "base/mem_test.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES  16u
#define GUARD_BYTES 8u
#define MARK_LIVE   0x6c697665u
#define MARK_DEAD   0x64656164u

typedef struct block_head {
    uint64_t size_bytes;
    uint32_t mark;
    uint32_t unused;
} block_head;

_Static_assert(sizeof(block_head) == HEAD_BYTES, "the block after the head keeps malloc's alignment");

static const unsigned char guard[GUARD_BYTES] = {0xc5, 0x3a, 0x96, 0x69, 0x5c, 0xa3, 0x0f, 0xf0};

/* Called with the lock held. */
static bool refuse(cairn_mem_test *heap, uint64_t more_bytes)
{
    heap->calls++;
    bool fail = heap->fail_at != 0 &&
                (heap->calls == heap->fail_at || (heap->fail_after && heap->calls > heap->fail_at));
    if (heap->bytes_max != 0 && more_bytes > heap->bytes_max - heap->live_bytes) {
        fail = true;
    }
    heap->fails += fail ? 1 : 0;
    return fail;
}

/* Called with the lock held. */
static void count(cairn_mem_test *heap, uint64_t bytes)
{
    heap->live_bytes += bytes;
    if (heap->live_bytes > heap->peak_bytes) {
        heap->peak_bytes = heap->live_bytes;
    }
}

static void *seal(unsigned char *raw, size_t size_bytes)
{
    block_head head = {.size_bytes = size_bytes, .mark = MARK_LIVE, .unused = 0};
    memcpy(raw, &head, sizeof head);
    memcpy(raw + HEAD_BYTES + size_bytes, guard, sizeof guard);
    return raw + HEAD_BYTES;
}

static unsigned char *unseal(void *ptr, size_t size_bytes)
{
    unsigned char *raw = (unsigned char *)ptr - HEAD_BYTES;
    block_head head;
    memcpy(&head, raw, sizeof head);
    CAIRN_ASSERT(head.mark == MARK_LIVE);
    CAIRN_ASSERT(head.size_bytes == size_bytes);
    CAIRN_ASSERT(memcmp(raw + HEAD_BYTES + size_bytes, guard, sizeof guard) == 0);
    return raw;
}

static void *test_alloc(void *ctx, size_t size_bytes)
{
    cairn_mem_test *heap = ctx;
    pthread_mutex_lock(&heap->lock);
    unsigned char *raw = NULL;
    if (!refuse(heap, size_bytes)) {
        raw = malloc(HEAD_BYTES + size_bytes + GUARD_BYTES);
    }
    if (raw != NULL) {
        heap->live_blocks++;
        count(heap, size_bytes);
        memset(raw + HEAD_BYTES, 0xa5, size_bytes);
    }
    pthread_mutex_unlock(&heap->lock);
    return raw != NULL ? seal(raw, size_bytes) : NULL;
}

static void test_release(void *ctx, void *ptr, size_t size_bytes)
{
    cairn_mem_test *heap = ctx;
    unsigned char *raw = unseal(ptr, size_bytes);
    block_head head = {.size_bytes = size_bytes, .mark = MARK_DEAD, .unused = 0};
    memcpy(raw, &head, sizeof head);
    pthread_mutex_lock(&heap->lock);
    CAIRN_ASSERT(heap->live_blocks > 0 && heap->live_bytes >= size_bytes);
    heap->live_blocks--;
    heap->live_bytes -= size_bytes;
    pthread_mutex_unlock(&heap->lock);
    free(raw);
}

static void *test_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes)
{
    cairn_mem_test *heap = ctx;
    unsigned char *raw = unseal(ptr, old_bytes);
    pthread_mutex_lock(&heap->lock);
    unsigned char *grown = NULL;
    if (!refuse(heap, new_bytes > old_bytes ? new_bytes - old_bytes : 0)) {
        grown = realloc(raw, HEAD_BYTES + new_bytes + GUARD_BYTES);
    }
    if (grown != NULL) {
        heap->live_bytes -= old_bytes;
        count(heap, new_bytes);
        if (new_bytes > old_bytes) {
            memset(grown + HEAD_BYTES + old_bytes, 0xa5, new_bytes - old_bytes);
        }
    }
    pthread_mutex_unlock(&heap->lock);
    return grown != NULL ? seal(grown, new_bytes) : NULL;
}

void cairn_mem_test_init(cairn_mem_test *heap, uint64_t fail_at)
{
    memset(heap, 0, sizeof *heap);
    heap->mem = (cairn_mem){.alloc = test_alloc, .resize = test_resize, .release = test_release, .ctx = heap};
    heap->fail_at = fail_at;
    pthread_mutex_init(&heap->lock, NULL);
}

uint64_t cairn_mem_test_leaked(cairn_mem_test *heap)
{
    pthread_mutex_lock(&heap->lock);
    uint64_t blocks = heap->live_blocks;
    pthread_mutex_unlock(&heap->lock);
    return blocks;
}

void cairn_mem_test_release(cairn_mem_test *heap)
{
    pthread_mutex_destroy(&heap->lock);
}
