/*
 * shared_url - see the header.
 */
#include "store/shared_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char where_url[] = "shared store";

static const struct {
    const char *text;
    cairn_shared_scheme scheme;
} schemes[] = {{"redis://", CAIRN_SHARED_REDIS},
               {"http://", CAIRN_SHARED_HTTP},
               {"https://", CAIRN_SHARED_HTTPS},
               {"s3://", CAIRN_SHARED_S3},
               {"file://", CAIRN_SHARED_FILE}};

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Copy text[count], with %41 as A. False: a bad escape, a NUL, or too long. */
static bool decode(const char *text, size_t count, char *out, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < count ? hex(text[i + 1]) : -1, low = i + 2 < count ? hex(text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || used + 1 >= room) {
            return false;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

/* A number that is all of text[count], at most `most`; -1: not that. */
static long number(const char *text, size_t count, long most)
{
    long value = 0;
    for (size_t i = 0; i < count && value <= most; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return count > 0 && value <= most ? value : -1;
}

/* "user:password@host:port"; nothing of it may be missing but what may. */
static const char *authority(const char *text, size_t count, cairn_shared_url *url)
{
    const char *at = NULL;
    for (size_t i = 0; i < count; i++) {
        at = text[i] == '@' ? text + i : at;
    }
    if (at != NULL) {
        size_t length = (size_t)(at - text);
        const char *colon = memchr(text, ':', length);
        size_t user = colon != NULL ? (size_t)(colon - text) : length;
        if (!decode(text, user, url->user, sizeof url->user) ||
            (colon != NULL && !decode(colon + 1, length - user - 1, url->password, sizeof url->password))) {
            return "user or password can't be read: write what is special as %XX";
        }
        text = at + 1;
        count -= length + 1;
    }
    const char *port = NULL;
    size_t host = count;
    if (count > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', count);
        if (close == NULL) {
            return "[ without ]";
        }
        host = (size_t)(close - text) + 1;
        port = host < count ? close + 1 : NULL;
    } else if ((port = memchr(text, ':', count)) != NULL) {
        host = (size_t)(port - text);
    }
    if (port != NULL) {
        long value = *port == ':' ? number(port + 1, count - host - 1, 65535) : -1;
        if (value <= 0) {
            return "the port is not a number from 1 to 65535";
        }
        url->port = (int)value;
    }
    bool brackets = host >= 2 && text[0] == '[';
    return decode(brackets ? text + 1 : text, brackets ? host - 2 : host, url->host, sizeof url->host)
               ? NULL
               : "the host's name can't be read";
}

/* "endpoint=...&region=..." */
static const char *query(const char *text, cairn_shared_url *url)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "&");
        if (url->scheme == CAIRN_SHARED_S3 && strncmp(text, "endpoint=", 9) == 0) {
            if (!decode(text + 9, length - 9, url->endpoint, sizeof url->endpoint)) {
                return "the endpoint can't be read";
            }
        } else if (url->scheme == CAIRN_SHARED_S3 && strncmp(text, "region=", 7) == 0) {
            if (!decode(text + 7, length - 7, url->region, sizeof url->region)) {
                return "the region can't be read";
            }
        } else {
            return "what stands behind ? is not known: s3:// takes endpoint= and region=";
        }
        text += length + (text[length] == '&' ? 1 : 0);
    }
    size_t length = strlen(url->endpoint);
    if (length > 0 && url->endpoint[length - 1] == '/') {
        url->endpoint[length - 1] = '\0';
    }
    return NULL;
}

/* What each scheme asks for. */
static const char *complete(cairn_shared_url *url)
{
    if (url->scheme == CAIRN_SHARED_FILE) {
        return url->host[0] != '\0' || url->path[0] != '/' || url->path[1] == '\0'
                   ? "file:// is followed by a directory from the root on: file:///srv/cairn"
                   : NULL;
    }
    if (url->host[0] == '\0') {
        return url->scheme == CAIRN_SHARED_S3 ? "the bucket is missing: s3://bucket/prefix"
                                              : "the host is missing";
    }
    const char *plain_characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    if (url->path[strspn(url->path, plain_characters)] != '\0' ||
        (url->scheme == CAIRN_SHARED_S3 && url->host[strspn(url->host, plain_characters)] != '\0')) {
        return "only letters, digits and -._~/ may be in bucket and path";
    }
    if (url->scheme == CAIRN_SHARED_REDIS && url->path[0] != '\0') {
        long database = number(url->path, strlen(url->path), 1 << 20);
        url->database = (int)database;
        return database < 0 ? "what follows the host is the database's number: redis://host:6379/0" : NULL;
    }
    bool plain = strncmp(url->endpoint, "http://", 7) == 0 || strncmp(url->endpoint, "https://", 8) == 0;
    return url->endpoint[0] != '\0' && !plain ? "the endpoint begins with http:// or https://" : NULL;
}

static const char *parse(const char *text, cairn_shared_url *url)
{
    size_t i = 0, count = sizeof schemes / sizeof schemes[0];
    while (i < count && strncmp(text, schemes[i].text, strlen(schemes[i].text)) != 0) {
        i++;
    }
    if (i == count) {
        return "a URL is expected that begins with redis://, http://, https://, s3:// or file://";
    }
    url->scheme = schemes[i].scheme;
    text += strlen(schemes[i].text);
    size_t length = strcspn(text, "/?#");
    const char *problem = authority(text, length, url);
    if (problem != NULL) {
        return problem;
    }
    text += length;
    length = strcspn(text, "?#");
    bool file = url->scheme == CAIRN_SHARED_FILE;
    size_t end = length;
    while (end > 1 && text[end - 1] == '/') {
        end--;
    }
    size_t begin = !file && end > 0 ? 1 : 0;
    if (!decode(text + begin, end - begin, url->path, sizeof url->path)) {
        return "the path can't be read";
    }
    text += length;
    if (*text == '#') {
        return "# has no meaning here";
    }
    problem = *text == '?' ? query(text + 1, url) : NULL;
    return problem != NULL ? problem : complete(url);
}

cairn_status cairn_shared_url_parse(const char *text, cairn_shared_url *ret_url, cairn_error *reterr)
{
    memset(ret_url, 0, sizeof *ret_url);
    const char *problem =
        strlen(text) < CAIRN_SHARED_URL_BYTES ? parse(text, ret_url) : "the URL is too long";
    return problem == NULL ? CAIRN_OK : cairn_error_set(reterr, CAIRN_INVALID, where_url, "%s", problem);
}

const char *cairn_shared_url_show(const char *url, char *text, unsigned room)
{
    const char *rest = strstr(url, "://");
    size_t scheme = rest != NULL ? (size_t)(rest - url) + 3 : 0;
    const char *host = url + scheme;
    size_t length = strcspn(host, "/?#");
    for (size_t i = 0; i < length; i++) {
        if (host[i] == '@') {
            host += i + 1;
            break;
        }
    }
    (void)snprintf(text, room, "%.*s%.*s", (int)scheme, url, (int)strcspn(host, "?#"), host);
    return text;
}
