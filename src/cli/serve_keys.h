/*
 * serve_keys - the API keys of `cairn serve`, read from a file at start and again on SIGHUP.
 *
 * One key a line; blank lines, blanks around a key and lines that begin with # are skipped.
 *
 * Owner    the list owns its texts; init, read, release
 * Thread   the main thread
 */
#ifndef CAIRN_CLI_SERVE_KEYS_H
#define CAIRN_CLI_SERVE_KEYS_H

#include "base/buf.h"
#include "cairn/status.h"

enum { CAIRN_SERVE_KEYS_MAX = 4096, CAIRN_SERVE_KEYS_BYTES_MAX = 1 << 20 };

typedef struct cairn_serve_keys {
    cairn_buf text;
    const char *items[CAIRN_SERVE_KEYS_MAX]; /* char *[count], in text */
    size_t count;
} cairn_serve_keys;

void cairn_serve_keys_init(cairn_serve_keys *keys);
/* Overwrites the keys before they are given back. */
void cairn_serve_keys_release(cairn_serve_keys *keys);

/*
 * Read the file into an empty list.
 *
 * Errors   CAIRN_INVALID  no key in it; CAIRN_LIMIT  too many keys, or too large a file; CAIRN_NOTFOUND, CAIRN_IO
 */
CAIRN_MUST_CHECK cairn_status cairn_serve_keys_read(cairn_serve_keys *keys, const char *path,
                                                    cairn_error *reterr);

#endif
