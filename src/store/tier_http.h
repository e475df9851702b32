/*
 * tier_http - values in a store that knows PUT, GET, HEAD and DELETE: nginx with dav, any web server with such a module, and
 * with signed requests S3 and what speaks like it.
 *
 *   https://[user:password@]host[:port]/path     "3f5a...c0/h"  -->  PUT /path/3f5a...c0/h
 *   s3://bucket/prefix?endpoint=https://host     "3f5a...c0/h"  -->  PUT /bucket/prefix/3f5a...c0/h, signed (SigV4)
 *
 * The values of a batch travel side by side over connections that stay open. Redirections are not followed: what a
 * store says must not lead a server elsewhere.
 *
 * Owner    as kv.h
 * Thread   one for each cairn_kv
 * Errors   as kv.h. 401, 403: CAIRN_INVALID. 413, 507: that value has CAIRN_NOSPACE. Other answers: CAIRN_IO
 * Caveats  such a store forgets nothing by itself: readers don't use what is too old, and the operator removes it
 *          (an S3 lifecycle rule, a cron job)
 */
#ifndef CAIRN_STORE_TIER_HTTP_H
#define CAIRN_STORE_TIER_HTTP_H

#include "store/kv.h"

typedef struct cairn_http_options {
    const char *base; /* "https://host:port/path", without a slash at its end                           */
    const char *user, *password; /* NULL: none. With `sign`: key id and secret                           */
    const char *sign;            /* S3: the region, "us-east-1"; NULL: requests aren't signed            */
    const char *token;           /* S3: of a session; NULL: none                                         */
} cairn_http_options;

/* Does not connect: the first call does. Texts are copied. Errors: CAIRN_NOMEM, CAIRN_INVALID. */
CAIRN_MUST_CHECK cairn_status cairn_http_open(const cairn_mem *mem, const cairn_http_options *options,
                                              cairn_kv **ret_kv, cairn_error *reterr);

#endif
