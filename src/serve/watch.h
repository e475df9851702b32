/*
 * watch - notices clients that went away while their connection sleeps.
 *
 * libmicrohttpd doesn't look at a suspended connection, so a client that gives up during a long read would be noticed
 * only at the first write. One thread waits for the other side's end (EPOLLRDHUP) on the sockets of sleeping
 * connections.
 *
 * A client that closes only its sending half after the request counts as gone, as with most servers.
 *
 * Owner    the socket belongs to the caller, who removes it before closing it
 * Thread   add and remove from any; `gone` is called on the watcher's thread, never after remove has returned
 */
#ifndef CAIRN_WATCH_H
#define CAIRN_WATCH_H

#include "cairn/mem.h"

typedef struct cairn_watch cairn_watch;

CAIRN_MUST_CHECK cairn_status cairn_watch_new(const cairn_mem *mem, size_t sockets_max,
                                              cairn_watch **ret_watch, cairn_error *reterr);
/* Ends the thread. NULL is allowed. */
void cairn_watch_free(cairn_watch *watch);

/*
 * Watch a socket: gone(ctx) is called at most once.
 * Errors   CAIRN_LIMIT  too many; CAIRN_IO
 */
CAIRN_MUST_CHECK cairn_status cairn_watch_add(cairn_watch *watch, int socket, void (*gone)(void *ctx),
                                              void *ctx, uint32_t *ret_id);
/* No more calls for this id after the return. */
void cairn_watch_remove(cairn_watch *watch, uint32_t id);

#endif
