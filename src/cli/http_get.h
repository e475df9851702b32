/*
 * http_get - one GET over a connection of its own, for commands that watch a server.
 *
 * Units    bytes
 * Owner    the text is appended to the caller's buffer
 * Thread   any
 */
#ifndef CAIRN_CLI_HTTP_GET_H
#define CAIRN_CLI_HTTP_GET_H

#include "base/buf.h"

typedef struct cairn_http_get {
    const char *host, *port;
    const char *key; /* API key; NULL: none                                                          */
    int timeout_ms;  /* of each wait                                                                 */
} cairn_http_get;

/*
 * Ask for a path.
 *
 *   ret_status [out]  200, 401, ...
 *   body       [out]  appended
 *
 * Errors   CAIRN_NOTFOUND (no such host), CAIRN_IO (no connection, cut off, too slow), CAIRN_INVALID (no HTTP answer),
 *          CAIRN_NOMEM, CAIRN_LIMIT
 */
CAIRN_MUST_CHECK cairn_status cairn_http_get_text(const cairn_http_get *from, const char *path,
                                                  int *ret_status, cairn_buf *body, cairn_error *reterr);

#endif
