/*
 * mem - the ordinary allocator table, and helpers that check sizes once for everybody.
 *
 * The only C file besides mem_test.c that calls malloc and free.
 */
#include "cairn/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *ctx, size_t size_bytes)
{
    (void)ctx;
    return malloc(size_bytes > 0 ? size_bytes : 1);
}

static void *default_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)ctx;
    (void)old_bytes;
    return realloc(ptr, new_bytes > 0 ? new_bytes : 1);
}

static void default_release(void *ctx, void *ptr, size_t size_bytes)
{
    (void)ctx;
    (void)size_bytes;
    free(ptr);
}

cairn_mem *cairn_mem_default(void)
{
    static cairn_mem table = {
        .alloc = default_alloc, .resize = default_resize, .release = default_release, .ctx = NULL};
    return &table;
}

void *cairn_mem_alloc(const cairn_mem *mem, size_t size_bytes)
{
    CAIRN_ASSERT(mem != NULL);
    /* No object may be larger: pointer differences inside it would overflow. */
    return size_bytes > PTRDIFF_MAX ? NULL : mem->alloc(mem->ctx, size_bytes);
}

void *cairn_mem_zalloc(const cairn_mem *mem, size_t size_bytes)
{
    void *ptr = cairn_mem_alloc(mem, size_bytes);
    if (ptr != NULL) {
        memset(ptr, 0, size_bytes);
    }
    return ptr;
}

void *cairn_mem_resize(const cairn_mem *mem, void *ptr, size_t old_bytes, size_t new_bytes)
{
    if (ptr == NULL) {
        CAIRN_ASSERT(old_bytes == 0);
        return cairn_mem_alloc(mem, new_bytes);
    }
    CAIRN_ASSERT(mem != NULL);
    return new_bytes > PTRDIFF_MAX ? NULL : mem->resize(mem->ctx, ptr, old_bytes, new_bytes);
}

void cairn_mem_release(const cairn_mem *mem, void *ptr, size_t size_bytes)
{
    CAIRN_ASSERT(mem != NULL);
    if (ptr != NULL) {
        mem->release(mem->ctx, ptr, size_bytes);
    }
}

static bool array_bytes(size_t count, size_t item_bytes, size_t *ret_bytes)
{
    if (item_bytes != 0 && count > SIZE_MAX / item_bytes) {
        return false;
    }
    *ret_bytes = count * item_bytes;
    return true;
}

void *cairn_mem_array(const cairn_mem *mem, size_t count, size_t item_bytes)
{
    size_t bytes;
    return array_bytes(count, item_bytes, &bytes) ? cairn_mem_zalloc(mem, bytes) : NULL;
}

void *cairn_mem_array_resize(const cairn_mem *mem, void *ptr, size_t old_count, size_t new_count,
                             size_t item_bytes)
{
    size_t old_bytes;
    size_t new_bytes;
    if (!array_bytes(old_count, item_bytes, &old_bytes) || !array_bytes(new_count, item_bytes, &new_bytes)) {
        return NULL;
    }
    unsigned char *grown = cairn_mem_resize(mem, ptr, old_bytes, new_bytes);
    if (grown != NULL && new_bytes > old_bytes) {
        memset(grown + old_bytes, 0, new_bytes - old_bytes);
    }
    return grown;
}

void cairn_mem_array_release(const cairn_mem *mem, void *ptr, size_t count, size_t item_bytes)
{
    cairn_mem_release(mem, ptr, count * item_bytes);
}

void *cairn_mem_dup(const cairn_mem *mem, const void *bytes, size_t size_bytes)
{
    void *copy = cairn_mem_alloc(mem, size_bytes);
    if (copy != NULL && size_bytes > 0) {
        memcpy(copy, bytes, size_bytes);
    }
    return copy;
}

char *cairn_mem_str_dup(const cairn_mem *mem, const char *text)
{
    return cairn_mem_dup(mem, text, strlen(text) + 1);
}

void cairn_mem_str_release(const cairn_mem *mem, char *text)
{
    if (text != NULL) {
        cairn_mem_release(mem, text, strlen(text) + 1);
    }
}
