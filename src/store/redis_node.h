/*
 * redis_node - one connection to one Redis or Valkey server: opened late, never waiting past a given moment.
 *
 * hiredis speaks the protocol; it is used without its blocking calls, because a time limit on each read is none on
 * the whole.
 *
 * Units    ns of the system's monotonic clock
 * Owner    the node is the caller's struct; its connection is the node's
 * Thread   one
 * Errors   CAIRN_IO, CAIRN_TIMEOUT, CAIRN_CORRUPT (not the protocol), CAIRN_INVALID (password or database refused),
 *          CAIRN_NOMEM: the connection is closed then, the next use opens another
 * Caveats  a name is looked up by the system's resolver, which has time limits of its own
 */
#ifndef CAIRN_STORE_REDIS_NODE_H
#define CAIRN_STORE_REDIS_NODE_H

#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdint.h>

#include "cairn/mem.h"

enum { CAIRN_REDIS_HOST_BYTES = 256 };

/* What a server asks for before it answers. Borrowed by its nodes. */
typedef struct cairn_redis_login {
    const char *user;     /* NULL: the default user                                                     */
    const char *password; /* NULL: none                                                                 */
    int database;
    const atomic_bool *stop;  /* set: nothing is waited for any more                                    */
    uint64_t reply_bytes_max; /* an answer larger than this is not the protocol                         */
} cairn_redis_login;

typedef struct cairn_redis_node {
    char host[CAIRN_REDIS_HOST_BYTES];
    int port;
    redisContext *link; /* NULL: not connected                                                           */
    uint32_t awaited;   /* answers that are still to come                                                */
    bool used;          /* it was connected before                                                     */
    bool flushed;       /* nothing is to be sent                                                         */
} cairn_redis_node;

/* Connect and log in, where that isn't done. */
CAIRN_MUST_CHECK cairn_status cairn_redis_node_open(cairn_redis_node *node, const cairn_redis_login *login,
                                                    uint64_t until_ns, cairn_error *reterr);
/* Hang up. Answers that are to come are not waited for. */
void cairn_redis_node_close(cairn_redis_node *node);

/* Queue a command of argv[count]; its answer is awaited. The node is open. */
CAIRN_MUST_CHECK cairn_status cairn_redis_node_queue(cairn_redis_node *node, int count, const char **argv,
                                                     const size_t *sizes, cairn_error *reterr);

/*
 * Send what is queued and take in answers, at most until then, from several nodes at once.
 *
 *   answer  [in]  called for each in the order of the node's commands; the reply is freed afterwards
 *
 * After    CAIRN_OK: nothing is awaited. Otherwise *ret_broken is the node that failed, or count when time was up; nodes that
 *          still awaited something are closed
 */
typedef void (*cairn_redis_answer)(void *ctx, uint32_t node, const redisReply *reply);
CAIRN_MUST_CHECK cairn_status cairn_redis_nodes_exchange(cairn_redis_node *nodes, uint32_t count,
                                                         const cairn_redis_login *login, uint64_t until_ns,
                                                         cairn_redis_answer answer, void *ctx,
                                                         uint32_t *ret_broken, cairn_error *reterr);

#endif
