/*
 * buf - growth by half, so that appending n bytes costs O(n) in sum; never past the limit.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#define ROOM_MIN 64u

void cairn_buf_init(cairn_buf *buf, const cairn_mem *mem, size_t bytes_max)
{
    CAIRN_ASSERT(mem != NULL);
    CAIRN_ASSERT(bytes_max < SIZE_MAX);
    *buf = (cairn_buf){.mem = mem, .bytes = NULL, .len_bytes = 0, .room_bytes = 0, .bytes_max = bytes_max};
}

void cairn_buf_release(cairn_buf *buf)
{
    cairn_mem_release(buf->mem, buf->bytes, buf->room_bytes);
    buf->bytes = NULL;
    buf->len_bytes = 0;
    buf->room_bytes = 0;
}

void cairn_buf_reset(cairn_buf *buf)
{
    buf->len_bytes = 0;
    if (buf->bytes != NULL) {
        buf->bytes[0] = 0;
    }
}

cairn_status cairn_buf_reserve(cairn_buf *buf, size_t more_bytes)
{
    CAIRN_ASSERT(buf->len_bytes <= buf->bytes_max);
    if (more_bytes > buf->bytes_max - buf->len_bytes) {
        return CAIRN_LIMIT;
    }
    size_t need = buf->len_bytes + more_bytes + 1; /* the NUL */
    if (need <= buf->room_bytes) {
        return CAIRN_OK;
    }
    size_t room = buf->room_bytes + buf->room_bytes / 2;
    if (room < ROOM_MIN) {
        room = ROOM_MIN;
    }
    if (room > buf->bytes_max + 1) {
        room = buf->bytes_max + 1;
    }
    if (room < need) {
        room = need;
    }
    uint8_t *grown = cairn_mem_resize(buf->mem, buf->bytes, buf->room_bytes, room);
    if (grown == NULL) {
        return CAIRN_NOMEM;
    }
    buf->bytes = grown;
    buf->room_bytes = room;
    buf->bytes[buf->len_bytes] = 0;
    return CAIRN_OK;
}

cairn_status cairn_buf_append(cairn_buf *buf, const void *bytes, size_t len_bytes)
{
    cairn_status status = cairn_buf_reserve(buf, len_bytes);
    if (status != CAIRN_OK) {
        return status;
    }
    if (len_bytes > 0) {
        memcpy(buf->bytes + buf->len_bytes, bytes, len_bytes);
    }
    buf->len_bytes += len_bytes;
    buf->bytes[buf->len_bytes] = 0;
    return CAIRN_OK;
}

cairn_status cairn_buf_append_str(cairn_buf *buf, const char *text)
{
    return cairn_buf_append(buf, text, strlen(text));
}

cairn_status cairn_buf_append_byte(cairn_buf *buf, uint8_t byte)
{
    return cairn_buf_append(buf, &byte, 1);
}

cairn_status cairn_buf_printf(cairn_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    cairn_status status = len < 0 ? CAIRN_INVALID : cairn_buf_reserve(buf, (size_t)len);
    if (status == CAIRN_OK) {
        int written = vsnprintf((char *)buf->bytes + buf->len_bytes, (size_t)len + 1, format, again);
        CAIRN_ASSERT(written == len);
        buf->len_bytes += (size_t)len;
    }
    va_end(again);
    return status;
}

cairn_status cairn_buf_append_u16(cairn_buf *buf, uint16_t value)
{
    uint8_t bytes[2];
    cairn_put16(bytes, value);
    return cairn_buf_append(buf, bytes, sizeof bytes);
}

cairn_status cairn_buf_append_u32(cairn_buf *buf, uint32_t value)
{
    uint8_t bytes[4];
    cairn_put32(bytes, value);
    return cairn_buf_append(buf, bytes, sizeof bytes);
}

cairn_status cairn_buf_append_u64(cairn_buf *buf, uint64_t value)
{
    uint8_t bytes[8];
    cairn_put64(bytes, value);
    return cairn_buf_append(buf, bytes, sizeof bytes);
}

void cairn_buf_consume(cairn_buf *buf, size_t len_bytes)
{
    CAIRN_ASSERT(len_bytes <= buf->len_bytes);
    if (len_bytes == 0) {
        return;
    }
    buf->len_bytes -= len_bytes;
    memmove(buf->bytes, buf->bytes + len_bytes, buf->len_bytes);
    buf->bytes[buf->len_bytes] = 0;
}

const char *cairn_buf_str(const cairn_buf *buf)
{
    return buf->bytes != NULL ? (const char *)buf->bytes : "";
}

uint8_t *cairn_buf_take(cairn_buf *buf, size_t *ret_len_bytes, size_t *ret_room_bytes)
{
    uint8_t *bytes = buf->bytes;
    *ret_len_bytes = buf->len_bytes;
    *ret_room_bytes = buf->room_bytes;
    buf->bytes = NULL;
    buf->len_bytes = 0;
    buf->room_bytes = 0;
    return bytes;
}
