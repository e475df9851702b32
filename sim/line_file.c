/*
 * line_file - lines out of a file that may be compressed. One buffer holds the present line and what was read of the
 * next ones.
 */
#include "line_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zstd.h>

enum { INPUT_BYTES = 1 << 17, MAGIC_BYTES = 4 };

struct cairn_line_file {
    const cairn_mem *mem;
    FILE *stream;
    ZSTD_DStream *zstd; /* NULL: a plain file */
    uint8_t *input;
    size_t input_at, input_end;
    char *text;
    size_t room, begin, end; /* text[begin, end) is read and not yet returned */
    size_t line_bytes_max;
    uint64_t number;
    bool ended;     /* nothing more will come */
    bool mid_frame; /* zstd wants more input */
};

static const char *const where = "sim/line_file";

void cairn_line_file_close(cairn_line_file *file)
{
    if (file == NULL) {
        return;
    }
    if (file->stream != NULL) {
        (void)fclose(file->stream);
    }
    ZSTD_freeDStream(file->zstd);
    cairn_mem_release(file->mem, file->input, INPUT_BYTES);
    cairn_mem_release(file->mem, file->text, file->room);
    cairn_mem_release(file->mem, file, sizeof *file);
}

static cairn_status refill(cairn_line_file *file, cairn_error *reterr)
{
    size_t n = fread(file->input, 1, INPUT_BYTES, file->stream);
    if (n == 0 && ferror(file->stream)) {
        return cairn_error_set_os(reterr, errno, where, "read");
    }
    file->input_at = 0;
    file->input_end = n;
    return CAIRN_OK;
}

cairn_status cairn_line_file_open(const cairn_mem *mem, const char *path, size_t line_bytes_max,
                                  cairn_line_file **ret_file, cairn_error *reterr)
{
    static const uint8_t magic[MAGIC_BYTES] = {0x28, 0xb5, 0x2f, 0xfd};
    cairn_line_file *file = cairn_mem_zalloc(mem, sizeof *file);
    if (file == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    file->mem = mem;
    file->line_bytes_max = line_bytes_max;
    cairn_status status = CAIRN_OK;
    file->input = cairn_mem_alloc(mem, INPUT_BYTES);
    if (file->input == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
        goto out;
    }
    file->stream = fopen(path, "rb");
    if (file->stream == NULL) {
        status = cairn_error_set_os(reterr, errno, where, "%s", path);
        goto out;
    }
    status = refill(file, reterr);
    if (status != CAIRN_OK) {
        goto out;
    }
    if (file->input_end >= MAGIC_BYTES && memcmp(file->input, magic, MAGIC_BYTES) == 0) {
        file->zstd = ZSTD_createDStream();
        if (file->zstd == NULL) {
            status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
            goto out;
        }
    }
    *ret_file = file;
    return CAIRN_OK;
out:
    cairn_line_file_close(file);
    return status;
}

/* Room for at least one more byte and the NUL, moving what is there to the front. */
static cairn_status make_room(cairn_line_file *file, cairn_error *reterr)
{
    if (file->begin > 0) {
        memmove(file->text, file->text + file->begin, file->end - file->begin);
        file->end -= file->begin;
        file->begin = 0;
    }
    if (file->end + INPUT_BYTES < file->room) {
        return CAIRN_OK;
    }
    if (file->end > file->line_bytes_max) {
        return cairn_error_set(reterr, CAIRN_LIMIT, where, "line %llu is longer than %zu bytes",
                               (unsigned long long)file->number + 1, file->line_bytes_max);
    }
    size_t room = file->room * 2 + (size_t)2 * INPUT_BYTES;
    char *bigger = cairn_mem_resize(file->mem, file->text, file->room, room);
    if (bigger == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    file->text = bigger;
    file->room = room;
    return CAIRN_OK;
}

/* Bring in more text, or find that there is none. */
static cairn_status more_text(cairn_line_file *file, cairn_error *reterr)
{
    cairn_status status = make_room(file, reterr);
    if (status == CAIRN_OK && file->input_at == file->input_end) {
        status = refill(file, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    if (file->input_at == file->input_end) {
        if (file->mid_frame) {
            return cairn_error_set(reterr, CAIRN_CORRUPT, where, "the compressed file ends early");
        }
        file->ended = true;
        return CAIRN_OK;
    }
    if (file->zstd == NULL) {
        size_t n = file->input_end - file->input_at;
        if (n > file->room - file->end - 1) {
            n = file->room - file->end - 1;
        }
        memcpy(file->text + file->end, file->input + file->input_at, n);
        file->input_at += n;
        file->end += n;
        return CAIRN_OK;
    }
    ZSTD_inBuffer in = {file->input, file->input_end, file->input_at};
    ZSTD_outBuffer out = {file->text, file->room - 1, file->end};
    size_t hint = ZSTD_decompressStream(file->zstd, &out, &in);
    if (ZSTD_isError(hint)) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, where, "zstd: %s", ZSTD_getErrorName(hint));
    }
    file->mid_frame = hint != 0;
    file->input_at = in.pos;
    file->end = out.pos;
    return CAIRN_OK;
}

cairn_status cairn_line_file_next(cairn_line_file *file, const char **ret_text, size_t *ret_bytes,
                                  cairn_error *reterr)
{
    size_t searched = 0;
    for (;;) {
        size_t have = file->end - file->begin;
        char *newline =
            have > searched ? memchr(file->text + file->begin + searched, '\n', have - searched) : NULL;
        if (newline == NULL && !file->ended) {
            searched = have;
            cairn_status status = more_text(file, reterr);
            if (status != CAIRN_OK) {
                return status;
            }
            continue;
        }
        if (newline == NULL && have == 0) {
            *ret_text = NULL;
            *ret_bytes = 0;
            return CAIRN_OK;
        }
        char *text = file->text + file->begin;
        size_t bytes = newline != NULL ? (size_t)(newline - text) : have;
        file->begin += bytes + (newline != NULL ? 1 : 0);
        text[bytes] = '\0';
        if (bytes > 0 && text[bytes - 1] == '\r') {
            text[--bytes] = '\0';
        }
        file->number++;
        *ret_text = text;
        *ret_bytes = bytes;
        return CAIRN_OK;
    }
}

uint64_t cairn_line_file_number(const cairn_line_file *file)
{
    return file->number;
}
