/*
 * buf - a byte buffer that grows up to a limit given at the start.
 *
 * Always NUL-terminated one byte past its length, so that text in it can be read as a C string.
 *
 * Units    bytes
 * Owner    the caller owns the struct; `bytes` belongs to it until cairn_buf_take
 * Thread   one at a time
 * Errors   every append: CAIRN_NOMEM no room, CAIRN_LIMIT would pass bytes_max. The buffer is then as it was before.
 */
#ifndef CAIRN_BASE_BUF_H
#define CAIRN_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "cairn/mem.h"

typedef struct cairn_buf {
    const cairn_mem *mem;
    uint8_t *bytes;    /* uint8_t[room_bytes]; NULL while room_bytes is 0 */
    size_t len_bytes;  /* len_bytes < room_bytes when bytes is not NULL */
    size_t room_bytes; /* allocated */
    size_t bytes_max;  /* len_bytes never passes it */
} cairn_buf;

/* Set up an empty buffer; allocates nothing yet. */
void cairn_buf_init(cairn_buf *buf, const cairn_mem *mem, size_t bytes_max);

/* Free the contents; the struct may be initialised again. */
void cairn_buf_release(cairn_buf *buf);

/* Empty it, keeping the memory for the next use. */
void cairn_buf_reset(cairn_buf *buf);

/* Make room for `more_bytes` beyond the length, so that the next appends of that much cannot fail. */
CAIRN_MUST_CHECK cairn_status cairn_buf_reserve(cairn_buf *buf, size_t more_bytes);

/* Append uint8_t[len_bytes]. */
CAIRN_MUST_CHECK cairn_status cairn_buf_append(cairn_buf *buf, const void *bytes, size_t len_bytes);

/* Append a C string without its NUL. */
CAIRN_MUST_CHECK cairn_status cairn_buf_append_str(cairn_buf *buf, const char *text);

/* Append one byte. */
CAIRN_MUST_CHECK cairn_status cairn_buf_append_byte(cairn_buf *buf, uint8_t byte);

/* Append formatted text. CAIRN_INVALID when the format itself fails. */
CAIRN_MUST_CHECK cairn_status cairn_buf_printf(cairn_buf *buf, const char *format, ...) CAIRN_PRINTF(2, 3);

/* Append numbers in little-endian order, as all stored formats here have them. */
CAIRN_MUST_CHECK cairn_status cairn_buf_append_u16(cairn_buf *buf, uint16_t value);
CAIRN_MUST_CHECK cairn_status cairn_buf_append_u32(cairn_buf *buf, uint32_t value);
CAIRN_MUST_CHECK cairn_status cairn_buf_append_u64(cairn_buf *buf, uint64_t value);

/* Drop the first `len_bytes` bytes, moving the rest down. `len_bytes` <= buf->len_bytes. */
void cairn_buf_consume(cairn_buf *buf, size_t len_bytes);

/* The text so far as a C string; never NULL. Borrowed until the buffer changes. */
const char *cairn_buf_str(const cairn_buf *buf);

/*
 * Hand the bytes over to the caller, who gives them back with cairn_mem_release(mem, bytes, *ret_room_bytes).
 *
 * After    the buffer is empty. NULL with room 0 when nothing was ever appended.
 */
uint8_t *cairn_buf_take(cairn_buf *buf, size_t *ret_len_bytes, size_t *ret_room_bytes);

#endif
