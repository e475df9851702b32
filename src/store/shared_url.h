/*
 * shared_url - takes the URL of a shared store apart.
 *
 * Owner    the struct holds copies of all texts
 * Errors   CAIRN_INVALID: a sentence that says what is wrong; never the password
 */
#ifndef CAIRN_STORE_SHARED_URL_H
#define CAIRN_STORE_SHARED_URL_H

#include "cairn/status.h"

enum { CAIRN_SHARED_URL_BYTES = 1024 };

typedef enum cairn_shared_scheme {
    CAIRN_SHARED_REDIS,
    CAIRN_SHARED_HTTP,
    CAIRN_SHARED_HTTPS,
    CAIRN_SHARED_S3,
    CAIRN_SHARED_FILE
} cairn_shared_scheme;

typedef struct cairn_shared_url {
    cairn_shared_scheme scheme;
    char user[CAIRN_SHARED_URL_BYTES], password[CAIRN_SHARED_URL_BYTES]; /* decoded; empty: none       */
    char host[CAIRN_SHARED_URL_BYTES]; /* s3: the bucket; file: empty. Without the brackets of IPv6     */
    int port;                          /* 0: not given                                                  */
    char path[CAIRN_SHARED_URL_BYTES]; /* without the slashes at its ends; file: with the first          */
    char endpoint[CAIRN_SHARED_URL_BYTES]; /* s3: of ?endpoint=, without a slash at its end; empty: none  */
    char region[64];                       /* s3: of &region=; empty: none                              */
    int database;                          /* redis                                                     */
} cairn_shared_url;

/* Take it apart. */
CAIRN_MUST_CHECK cairn_status cairn_shared_url_parse(const char *text, cairn_shared_url *ret_url,
                                                     cairn_error *reterr);

/* The URL for people: without user, password and query. Gives text. */
const char *cairn_shared_url_show(const char *url, char *text, unsigned room);

#endif
