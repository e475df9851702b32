/*
 * tier_redis - values in Redis or Valkey: one server, or a cluster of them.
 *
 *   redis://[user:password@]host[:port][/database]
 *
 * In a cluster a key's node follows from its id, so that all parts of one id lie on one node. The map of slots is
 * asked for when a server first says that a key is elsewhere (MOVED), and again when that happens again.
 *
 *   "3f5a...c0/h"  -->  cairn:{3f5a...c0}:h
 *
 * Owner    as kv.h
 * Thread   one for each cairn_kv
 * Errors   as kv.h. A value that the server has no room for has CAIRN_NOSPACE
 * See      store/redis_node.h; https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
 */
#ifndef CAIRN_STORE_TIER_REDIS_H
#define CAIRN_STORE_TIER_REDIS_H

#include "store/kv.h"

typedef struct cairn_redis_options {
    const char *host;
    int port;
    const char *user, *password; /* NULL: none                                                       */
    int database;
} cairn_redis_options;

/* Does not connect: the first call does. Texts are copied. Errors: CAIRN_NOMEM, CAIRN_INVALID. */
CAIRN_MUST_CHECK cairn_status cairn_redis_open(const cairn_mem *mem, const cairn_redis_options *options,
                                               cairn_kv **ret_kv, cairn_error *reterr);

/* The slot of a cluster that a key belongs to: CRC-16 of what is between its first { and }, modulo 16384. */
uint32_t cairn_redis_slot(const char *key);

#endif
