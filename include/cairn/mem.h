/*
 * mem - where memory comes from, as a table of three functions.
 *
 * Every module that allocates takes a `cairn_mem *` and keeps it. Release is told the size again, so that a table can
 * count without a header in front of each block. Pass cairn_mem_default() unless you want to count or limit.
 *
 * Units    bytes
 * Owner    the table is borrowed; it must outlive everything that was allocated with it
 * Thread   cairn_mem_default: any. Another table: as its author says
 * Errors   NULL: no room. Nothing else is reported
 * Caveats  0 bytes give a pointer that may be released but not read
 * See      src/base/mem_test.h for the counting and failing table of the tests
 */
#ifndef CAIRN_MEM_H
#define CAIRN_MEM_H

#include <stddef.h>

#include "cairn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_mem cairn_mem;

struct cairn_mem {
    /* NULL when there is no room. The bytes are not set. Alignment as malloc's. */
    void *(*alloc)(void *ctx, size_t size_bytes);
    /* As realloc: on NULL the old block stays as it was. `ptr` is never NULL. */
    void *(*resize)(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes);
    /* `ptr` is never NULL; `size_bytes` is what was asked for last. */
    void (*release)(void *ctx, void *ptr, size_t size_bytes);
    void *ctx;
};

/* The ordinary table (malloc, realloc, free). Never NULL; lives forever. */
cairn_mem *cairn_mem_default(void);

/* uint8_t[size_bytes], not set; NULL when there is no room. */
CAIRN_MUST_CHECK void *cairn_mem_alloc(const cairn_mem *mem, size_t size_bytes);

/* uint8_t[size_bytes], all zero; NULL when there is no room. */
CAIRN_MUST_CHECK void *cairn_mem_zalloc(const cairn_mem *mem, size_t size_bytes);

/* Change a block's size; `ptr` may be NULL (then old_bytes is 0). On NULL the old block is untouched. */
CAIRN_MUST_CHECK void *cairn_mem_resize(const cairn_mem *mem, void *ptr, size_t old_bytes, size_t new_bytes);

/* Give a block back; NULL is allowed. `size_bytes` is the size last asked for. */
void cairn_mem_release(const cairn_mem *mem, void *ptr, size_t size_bytes);

/* item[count] of item_bytes each, all zero; NULL when there is no room or the product overflows. */
CAIRN_MUST_CHECK void *cairn_mem_array(const cairn_mem *mem, size_t count, size_t item_bytes);

/*
 * Change an array's length; new items are zero. `ptr` may be NULL (then old_count is 0).
 *
 * After    NULL: no room or the product overflows; the old array is untouched
 */
CAIRN_MUST_CHECK void *cairn_mem_array_resize(const cairn_mem *mem, void *ptr, size_t old_count,
                                              size_t new_count, size_t item_bytes);

/* Give an array back; NULL is allowed. */
void cairn_mem_array_release(const cairn_mem *mem, void *ptr, size_t count, size_t item_bytes);

/* A copy of uint8_t[size_bytes]; NULL when there is no room. */
CAIRN_MUST_CHECK void *cairn_mem_dup(const cairn_mem *mem, const void *bytes, size_t size_bytes);

/* A copy of a C string; give it back with cairn_mem_str_release, which finds its length again. */
CAIRN_MUST_CHECK char *cairn_mem_str_dup(const cairn_mem *mem, const char *text);

/* Give back what cairn_mem_str_dup made; NULL is allowed. The text must have its length still. */
void cairn_mem_str_release(const cairn_mem *mem, char *text);

#ifdef __cplusplus
}
#endif

#endif
