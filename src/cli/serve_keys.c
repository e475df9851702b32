/*
 * serve_keys - see the header. The text's lines are cut in place.
 */
#include "cli/serve_keys.h"

#include <string.h>

#include "base/io.h"

static const char blanks[] = " \t";

void cairn_serve_keys_init(cairn_serve_keys *keys)
{
    memset(keys, 0, sizeof *keys);
    cairn_buf_init(&keys->text, cairn_mem_default(), CAIRN_SERVE_KEYS_BYTES_MAX);
}

void cairn_serve_keys_release(cairn_serve_keys *keys)
{
    if (keys->text.bytes != NULL)
        explicit_bzero(keys->text.bytes, keys->text.len_bytes);
    cairn_buf_release(&keys->text);
    keys->count = 0;
}

cairn_status cairn_serve_keys_read(cairn_serve_keys *keys, const char *path, cairn_error *reterr)
{
    CAIRN_ASSERT(keys->count == 0);
    cairn_status status = cairn_io_read_file(cairn_io_posix(), path, &keys->text, reterr);
    if (status != CAIRN_OK)
        return status;
    char *save = NULL;
    for (char *line = strtok_r((char *)keys->text.bytes, "\r\n", &save); line != NULL;
         line = strtok_r(NULL, "\r\n", &save)) {
        line += strspn(line, blanks);
        size_t len = strlen(line);
        while (len > 0 && strchr(blanks, line[len - 1]) != NULL)
            line[--len] = '\0';
        if (len == 0 || line[0] == '#')
            continue;
        if (keys->count == CAIRN_SERVE_KEYS_MAX) {
            return cairn_error_set(reterr, CAIRN_LIMIT, "keys", "%s holds more than %d keys", path,
                                   CAIRN_SERVE_KEYS_MAX);
        }
        keys->items[keys->count++] = line;
    }
    return keys->count > 0 ? CAIRN_OK
                           : cairn_error_set(reterr, CAIRN_INVALID, "keys", "%s has no key in it", path);
}
