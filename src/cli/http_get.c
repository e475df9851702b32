/*
 * http_get - see the header. HTTP/1.0 is asked for, so that the answer ends where the connection does.
 */
#include "cli/http_get.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int open_socket(const cairn_http_get *from, cairn_error *reterr)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int code = getaddrinfo(from->host, from->port, &hints, &found);
    if (code != 0) {
        (void)cairn_error_set(reterr, CAIRN_NOTFOUND, "http/get", "%s: %s", from->host, gai_strerror(code));
        return -1;
    }
    int sock = -1, last = ECONNREFUSED;
    for (const struct addrinfo *a = found; a != NULL && sock < 0; a = a->ai_next) {
        sock = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (sock >= 0 && connect(sock, a->ai_addr, a->ai_addrlen) != 0) {
            last = errno;
            (void)close(sock);
            sock = -1;
        }
    }
    freeaddrinfo(found);
    if (sock < 0) {
        (void)cairn_error_set_os(reterr, last, "http/get", "no connection to %s, port %s", from->host,
                                 from->port);
    }
    return sock;
}

static cairn_status send_all(int sock, const char *text, size_t len_bytes, cairn_error *reterr)
{
    while (len_bytes > 0) {
        ssize_t n = send(sock, text, len_bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cairn_error_set_os(reterr, errno, "http/get", "the request could not be sent");
        text += n;
        len_bytes -= (size_t)n;
    }
    return CAIRN_OK;
}

static cairn_status receive_all(int sock, int timeout_ms, cairn_buf *out, cairn_error *reterr)
{
    char piece[16384];
    for (;;) {
        struct pollfd wait = {.fd = sock, .events = POLLIN};
        int ready = poll(&wait, 1, timeout_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return cairn_error_set(reterr, CAIRN_IO, "http/get", "no answer in %d ms", timeout_ms);
        ssize_t n = recv(sock, piece, sizeof piece, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cairn_error_set_os(reterr, errno, "http/get", "the answer was cut off");
        if (n == 0)
            return CAIRN_OK;
        cairn_status status = cairn_buf_append(out, piece, (size_t)n);
        if (status != CAIRN_OK)
            return cairn_error_set(reterr, status, "http/get", "the answer is too large");
    }
}

cairn_status cairn_http_get_text(const cairn_http_get *from, const char *path, int *ret_status,
                                 cairn_buf *body, cairn_error *reterr)
{
    cairn_buf text;
    cairn_buf_init(&text, body->mem, body->bytes_max);
    cairn_status status =
        cairn_buf_printf(&text, "GET %s HTTP/1.0\r\nHost: %s\r\n%s%s%s\r\n", path, from->host,
                         from->key != NULL ? "Authorization: Bearer " : "",
                         from->key != NULL ? from->key : "", from->key != NULL ? "\r\n" : "");
    int sock = -1;
    if (status == CAIRN_OK && (sock = open_socket(from, reterr)) < 0)
        status = reterr != NULL ? reterr->status : CAIRN_IO;
    if (status == CAIRN_OK)
        status = send_all(sock, cairn_buf_str(&text), text.len_bytes, reterr);
    cairn_buf_reset(&text);
    if (status == CAIRN_OK)
        status = receive_all(sock, from->timeout_ms, &text, reterr);
    if (sock >= 0)
        (void)close(sock);
    if (status == CAIRN_OK) {
        const char *all = cairn_buf_str(&text), *end = strstr(all, "\r\n\r\n");
        if (strncmp(all, "HTTP/1.", 7) != 0 || end == NULL || text.len_bytes < 12) {
            status = cairn_error_set(reterr, CAIRN_INVALID, "http/get", "that is no HTTP server");
        } else {
            *ret_status = (int)strtol(all + 9, NULL, 10);
            size_t head = (size_t)(end + 4 - all);
            status = cairn_buf_append(body, all + head, text.len_bytes - head);
        }
    }
    cairn_buf_release(&text);
    return status;
}
