/*
 * http_check - is this request's framing beyond doubt? Pure: headers in, an error or none out.
 *
 * Two servers in a row that read a request's length differently can be made to see different requests ("smuggling").
 * So whatever could be read in two ways is refused and the connection closed, although the library would take it.
 *
 * Thread   any
 */
#ifndef CAIRN_HTTP_CHECK_H
#define CAIRN_HTTP_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "serve/api_error.h"

typedef struct cairn_http_check {
    uint64_t content_length;
    uint32_t count_content_length, count_transfer_encoding, count_host;
    cairn_api_error error;
} cairn_http_check;

/* Look at one header; `value` may be NULL. The struct starts as zeros. */
void cairn_http_check_header(cairn_http_check *check, const char *name, const char *value);

/* All headers were seen. `version` is "HTTP/1.1". */
void cairn_http_check_end(cairn_http_check *check, const char *version);

#endif
