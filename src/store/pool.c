/*
 * pool - the ceiling over blobs and tables. Knows sizes, not contents.
 */
#include "store/pool.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The table's context is the pool itself: a pool must not be moved once tables use it. */

static void count(cairn_pool *pool, uint64_t bytes)
{
    pool->bytes += bytes;
    if (pool->bytes > pool->bytes_peak) {
        pool->bytes_peak = pool->bytes;
    }
}

static void uncount(cairn_pool *pool, uint64_t bytes)
{
    CAIRN_ASSERT(pool->bytes >= bytes);
    pool->bytes -= bytes;
}

static void *table_alloc(void *ctx, size_t size_bytes)
{
    cairn_pool *pool = ctx;
    count(pool, size_bytes);
    void *ptr = cairn_mem_alloc(pool->under, size_bytes);
    if (ptr == NULL) {
        uncount(pool, size_bytes);
    }
    return ptr;
}

static void *table_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes)
{
    cairn_pool *pool = ctx;
    uint64_t more = new_bytes > old_bytes ? new_bytes - old_bytes : 0;
    count(pool, more);
    void *moved = cairn_mem_resize(pool->under, ptr, old_bytes, new_bytes);
    if (moved == NULL) {
        uncount(pool, more);
    } else if (old_bytes > new_bytes) {
        uncount(pool, old_bytes - new_bytes);
    }
    return moved;
}

static void table_release(void *ctx, void *ptr, size_t size_bytes)
{
    cairn_pool *pool = ctx;
    cairn_mem_release(pool->under, ptr, size_bytes);
    uncount(pool, size_bytes);
}

void cairn_pool_init(cairn_pool *pool, cairn_mem *under, uint64_t bytes_max, uint64_t map_bytes_min)
{
    long page = sysconf(_SC_PAGESIZE);
    memset(pool, 0, sizeof *pool);
    pool->mem =
        (cairn_mem){.alloc = table_alloc, .resize = table_resize, .release = table_release, .ctx = pool};
    pool->under = under;
    pool->bytes_max = bytes_max;
    pool->map_bytes_min = map_bytes_min != 0 ? map_bytes_min : CAIRN_POOL_MAP_BYTES_MIN;
    pool->page_bytes = page > 0 ? (uint64_t)page : 4096;
}

void cairn_pool_release(cairn_pool *pool)
{
    CAIRN_ASSERT(pool->block_bytes == 0);
    CAIRN_ASSERT(pool->bytes == 0);
}

static uint64_t whole_pages(const cairn_pool *pool, uint64_t size_bytes)
{
    return (size_bytes + pool->page_bytes - 1) / pool->page_bytes * pool->page_bytes;
}

uint64_t cairn_pool_room(const cairn_pool *pool, uint64_t size_bytes)
{
    return size_bytes >= pool->map_bytes_min ? whole_pages(pool, size_bytes) : size_bytes;
}

cairn_status cairn_pool_alloc(cairn_pool *pool, uint64_t size_bytes, cairn_block *ret_block,
                              cairn_error *reterr)
{
    CAIRN_ASSERT(size_bytes > 0);
    if (size_bytes > PTRDIFF_MAX - pool->page_bytes) {
        return cairn_error_set(reterr, CAIRN_NOSPACE, "store/pool: alloc", "%llu bytes",
                               (unsigned long long)size_bytes);
    }
    cairn_block block = {.room_bytes = cairn_pool_room(pool, size_bytes),
                         .mapped = size_bytes >= pool->map_bytes_min};
    if (pool->bytes > pool->bytes_max || block.room_bytes > pool->bytes_max - pool->bytes) {
        pool->refusals++;
        return cairn_error_set(reterr, CAIRN_NOSPACE, "store/pool: alloc",
                               "%llu bytes asked, %llu of %llu held", (unsigned long long)size_bytes,
                               (unsigned long long)pool->bytes, (unsigned long long)pool->bytes_max);
    }
    count(pool, block.room_bytes);
    if (block.mapped) {
        void *pages =
            mmap(NULL, (size_t)block.room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        block.bytes = pages != MAP_FAILED ? pages : NULL;
    } else {
        block.bytes = cairn_mem_alloc(pool->under, (size_t)block.room_bytes);
    }
    if (block.bytes == NULL) {
        uncount(pool, block.room_bytes);
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/pool: alloc", "%llu bytes",
                               (unsigned long long)size_bytes);
    }
    pool->block_bytes += block.room_bytes;
    *ret_block = block;
    return CAIRN_OK;
}

static void block_smaller(cairn_pool *pool, cairn_block *block, uint64_t room_bytes)
{
    uncount(pool, block->room_bytes - room_bytes);
    CAIRN_ASSERT(pool->block_bytes >= block->room_bytes - room_bytes);
    pool->block_bytes -= block->room_bytes - room_bytes;
    block->room_bytes = room_bytes;
}

void cairn_pool_shrink(cairn_pool *pool, cairn_block *block, uint64_t size_bytes)
{
    CAIRN_ASSERT(block->bytes != NULL && size_bytes > 0 && size_bytes <= block->room_bytes);
    uint64_t room = block->mapped ? whole_pages(pool, size_bytes) : size_bytes;
    if (room == block->room_bytes) {
        return;
    }
    if (block->mapped) {
        if (munmap(block->bytes + room, (size_t)(block->room_bytes - room)) != 0) {
            return;
        }
    } else {
        uint8_t *moved = cairn_mem_resize(pool->under, block->bytes, (size_t)block->room_bytes, (size_t)room);
        if (moved == NULL) {
            return;
        }
        block->bytes = moved;
    }
    block_smaller(pool, block, room);
}

void cairn_pool_free(cairn_pool *pool, cairn_block *block)
{
    if (block->bytes == NULL) {
        return;
    }
    if (block->mapped) {
        CAIRN_ASSERT(munmap(block->bytes, (size_t)block->room_bytes) == 0);
    } else {
        cairn_mem_release(pool->under, block->bytes, (size_t)block->room_bytes);
    }
    block_smaller(pool, block, 0);
    block->bytes = NULL;
}
