/*
 * heap - the ceiling over blobs and tables. Knows sizes, not contents.
 */
#include "store/heap.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The table's context is the heap itself: a heap must not be moved once tables use it. */

/* Let spares go until `bytes` more fit, or none is left. */
static void drop_spares(cairn_heap *heap, uint64_t bytes)
{
    while (heap->count_spares > 0 &&
           (heap->bytes > heap->bytes_max || bytes > heap->bytes_max - heap->bytes)) {
        CAIRN_ASSERT(munmap(heap->spares[--heap->count_spares], (size_t)heap->spare_room_bytes) == 0);
        heap->bytes -= heap->spare_room_bytes;
        heap->spare_bytes -= heap->spare_room_bytes;
    }
}

static void count(cairn_heap *heap, uint64_t bytes)
{
    drop_spares(heap, bytes);
    heap->bytes += bytes;
    if (heap->bytes > heap->bytes_peak) {
        heap->bytes_peak = heap->bytes;
    }
}

static void uncount(cairn_heap *heap, uint64_t bytes)
{
    CAIRN_ASSERT(heap->bytes >= bytes);
    heap->bytes -= bytes;
}

static void *table_alloc(void *ctx, size_t size_bytes)
{
    cairn_heap *heap = ctx;
    count(heap, size_bytes);
    void *ptr = cairn_mem_alloc(heap->under, size_bytes);
    if (ptr == NULL) {
        uncount(heap, size_bytes);
    }
    return ptr;
}

static void *table_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes)
{
    cairn_heap *heap = ctx;
    uint64_t more = new_bytes > old_bytes ? new_bytes - old_bytes : 0;
    count(heap, more);
    void *moved = cairn_mem_resize(heap->under, ptr, old_bytes, new_bytes);
    if (moved == NULL) {
        uncount(heap, more);
    } else if (old_bytes > new_bytes) {
        uncount(heap, old_bytes - new_bytes);
    }
    return moved;
}

static void table_release(void *ctx, void *ptr, size_t size_bytes)
{
    cairn_heap *heap = ctx;
    cairn_mem_release(heap->under, ptr, size_bytes);
    uncount(heap, size_bytes);
}

void cairn_heap_init(cairn_heap *heap, cairn_mem *under, uint64_t bytes_max, uint64_t map_bytes_min)
{
    long page = sysconf(_SC_PAGESIZE);
    memset(heap, 0, sizeof *heap);
    heap->mem =
        (cairn_mem){.alloc = table_alloc, .resize = table_resize, .release = table_release, .ctx = heap};
    heap->under = under;
    heap->bytes_max = bytes_max;
    heap->map_bytes_min = map_bytes_min != 0 ? map_bytes_min : CAIRN_HEAP_MAP_BYTES_MIN;
    heap->page_bytes = page > 0 ? (uint64_t)page : 4096;
}

void cairn_heap_release(cairn_heap *heap)
{
    cairn_heap_spare(heap, 0, 0);
    CAIRN_ASSERT(heap->block_bytes == 0);
    CAIRN_ASSERT(heap->bytes == 0);
}

static uint64_t whole_pages(const cairn_heap *heap, uint64_t size_bytes)
{
    return (size_bytes + heap->page_bytes - 1) / heap->page_bytes * heap->page_bytes;
}

void cairn_heap_limit(cairn_heap *heap, uint64_t bytes_max)
{
    heap->bytes_max = bytes_max;
    drop_spares(heap, 0);
}

uint64_t cairn_heap_room(const cairn_heap *heap, uint64_t size_bytes)
{
    return size_bytes >= heap->map_bytes_min ? whole_pages(heap, size_bytes) : size_bytes;
}

/*
 * Fresh pages are zeroed one by one when they are first written: for 20 MiB that takes several times as long
 * as the copy. Large pages, where the system has them, take most of that away; the hint may be refused.
 */
static uint8_t *map_pages(uint64_t room_bytes)
{
    void *pages = mmap(NULL, (size_t)room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(pages, (size_t)room_bytes, MADV_HUGEPAGE);
#endif
    return pages;
}

void cairn_heap_spare(cairn_heap *heap, uint64_t size_bytes, uint32_t count_max)
{
    drop_spares(heap, UINT64_MAX);
    bool mapped = size_bytes >= heap->map_bytes_min && size_bytes <= PTRDIFF_MAX / 2;
    heap->spare_room_bytes = mapped ? whole_pages(heap, size_bytes) : 0;
    heap->count_spares_max = count_max < CAIRN_HEAP_SPARES_MAX ? count_max : CAIRN_HEAP_SPARES_MAX;
}

bool cairn_heap_warm(cairn_heap *heap)
{
    uint64_t room = heap->spare_room_bytes;
    if (room == 0 || heap->count_spares >= heap->count_spares_max || heap->bytes > heap->bytes_max ||
        room > heap->bytes_max - heap->bytes) {
        return false;
    }
    uint8_t *pages = map_pages(room);
    if (pages == NULL) {
        return false;
    }
    count(heap, room);
    heap->spare_bytes += room;
    memset(pages, 0, (size_t)room);
    heap->spares[heap->count_spares++] = pages;
    return true;
}

/* A block out of a spare: it is counted already. */
static bool take_spare(cairn_heap *heap, cairn_block *block)
{
    if (!block->mapped || block->room_bytes != heap->spare_room_bytes || heap->count_spares == 0 ||
        heap->bytes > heap->bytes_max) {
        return false;
    }
    block->bytes = heap->spares[--heap->count_spares];
    heap->spare_bytes -= block->room_bytes;
    heap->block_bytes += block->room_bytes;
    return true;
}

cairn_status cairn_heap_alloc(cairn_heap *heap, uint64_t size_bytes, cairn_block *ret_block,
                              cairn_error *reterr)
{
    CAIRN_ASSERT(size_bytes > 0);
    if (size_bytes > PTRDIFF_MAX - heap->page_bytes) {
        return cairn_error_set(reterr, CAIRN_NOSPACE, "store/heap: alloc", "%llu bytes",
                               (unsigned long long)size_bytes);
    }
    cairn_block block = {.room_bytes = cairn_heap_room(heap, size_bytes),
                         .mapped = size_bytes >= heap->map_bytes_min};
    if (take_spare(heap, &block)) {
        *ret_block = block;
        return CAIRN_OK;
    }
    drop_spares(heap, block.room_bytes);
    if (heap->bytes > heap->bytes_max || block.room_bytes > heap->bytes_max - heap->bytes) {
        heap->refusals++;
        return cairn_error_set(reterr, CAIRN_NOSPACE, "store/heap: alloc",
                               "%llu bytes asked, %llu of %llu held", (unsigned long long)size_bytes,
                               (unsigned long long)heap->bytes, (unsigned long long)heap->bytes_max);
    }
    count(heap, block.room_bytes);
    if (block.mapped) {
        block.bytes = map_pages(block.room_bytes);
    } else {
        block.bytes = cairn_mem_alloc(heap->under, (size_t)block.room_bytes);
    }
    if (block.bytes == NULL) {
        uncount(heap, block.room_bytes);
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/heap: alloc", "%llu bytes",
                               (unsigned long long)size_bytes);
    }
    heap->block_bytes += block.room_bytes;
    *ret_block = block;
    return CAIRN_OK;
}

static void block_smaller(cairn_heap *heap, cairn_block *block, uint64_t room_bytes)
{
    uncount(heap, block->room_bytes - room_bytes);
    CAIRN_ASSERT(heap->block_bytes >= block->room_bytes - room_bytes);
    heap->block_bytes -= block->room_bytes - room_bytes;
    block->room_bytes = room_bytes;
}

void cairn_heap_shrink(cairn_heap *heap, cairn_block *block, uint64_t size_bytes)
{
    CAIRN_ASSERT(block->bytes != NULL && size_bytes > 0 && size_bytes <= block->room_bytes);
    uint64_t room = block->mapped ? whole_pages(heap, size_bytes) : size_bytes;
    if (room == block->room_bytes) {
        return;
    }
    if (block->mapped) {
        if (munmap(block->bytes + room, (size_t)(block->room_bytes - room)) != 0) {
            return;
        }
    } else {
        uint8_t *moved = cairn_mem_resize(heap->under, block->bytes, (size_t)block->room_bytes, (size_t)room);
        if (moved == NULL) {
            return;
        }
        block->bytes = moved;
    }
    block_smaller(heap, block, room);
}

void cairn_heap_free(cairn_heap *heap, cairn_block *block)
{
    if (block->bytes == NULL) {
        return;
    }
    if (block->mapped && block->room_bytes == heap->spare_room_bytes &&
        heap->count_spares < heap->count_spares_max && heap->bytes <= heap->bytes_max) {
        heap->spares[heap->count_spares++] = block->bytes;
        heap->spare_bytes += block->room_bytes;
        heap->block_bytes -= block->room_bytes;
        *block = (cairn_block){0};
        return;
    }
    if (block->mapped) {
        CAIRN_ASSERT(munmap(block->bytes, (size_t)block->room_bytes) == 0);
    } else {
        cairn_mem_release(heap->under, block->bytes, (size_t)block->room_bytes);
    }
    block_smaller(heap, block, 0);
    block->bytes = NULL;
}
