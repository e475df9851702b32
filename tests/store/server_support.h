/*
 * server_support - starts real servers for tests on free loopback ports, and stops them.
 *
 * A server has a folder of its own under the build folder's tests, which is removed at the end. When the program isn't
 * installed the test fails and says which package is missing: a test that skips itself tests nothing.
 */
#ifndef CAIRN_TESTS_SERVER_SUPPORT_H
#define CAIRN_TESTS_SERVER_SUPPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "store/kv.h"
#include "test_support.h"

enum { SERVER_ARGS_MAX = 48 };

typedef struct server {
    pid_t pid;     /* 0: not running                                                                    */
    int port;      /* of 127.0.0.1                                                                      */
    char dir[512]; /* its folder                                                                        */
    const char *argv[SERVER_ARGS_MAX];
    char texts[SERVER_ARGS_MAX][512];
} server;

/* A port that nobody listens on now. */
int server_free_port(void);

/* Make the folder and choose a port. */
void server_init(server *s, const char *name);
/* Start argv (after server_init) and wait until the port answers. */
void server_start(server *s);
/* Kill it; its folder stays. It may be started again. */
void server_kill(server *s);
/* Stop and continue it: it is there and doesn't answer. */
void server_freeze(server *s, bool frozen);
/* Kill it and remove its folder. */
void server_end(server *s);

/* A redis-server that keeps nothing on disk; `more` are further arguments, ended by NULL, or NULL. */
void redis_start(server *s, const char *const *more);
/* A cluster of three, each with a third of the slots; all of them agree on that. */
void redis_cluster_start(server nodes[3]);
/* The URL of it. */
const char *redis_url(const server *s);
/* A command through a connection of its own; gives an integer reply, or 0 for a status. Fails the test on an error. */
long long redis_do(const server *s, const char *format, ...);
/* Does the answer of a command, a text, hold this? */
bool redis_says(const server *s, const char *command, const char *text);

/* An nginx that takes PUT, GET, HEAD and DELETE under /store/, with bodies up to 5 MiB. */
void nginx_start(server *s);
/* A store that speaks S3 and checks signatures; needs node. */
void s3_start(server *s, const char *id, const char *secret, const char *region);

/* --- any store ---------------------------------------------------------------------------------------------------- */

/* So many seconds from now, as calls of a store want it. */
uint64_t kv_soon(double seconds);
/* An item named by a number and a part; `bytes` is its value and its room. */
cairn_kv_item kv_item_of(uint32_t id, const char *part, void *bytes, uint64_t size);
/* Put, get, ask for and drop many small values in batches, one that isn't there among them, and a piece of 4 MiB. */
void kv_values_go_round(cairn_kv *kv);

/* --- looking into a Redis server ---------------------------------------------------------------------------------- */

/* All keys of database 0. */
typedef struct redis_names {
    char **keys;
    uint32_t count;
} redis_names;
void redis_names_get(const server *s, redis_names *ret_names);
void redis_names_release(redis_names *names);

/* A value: bytes of its own. */
typedef struct redis_value {
    uint8_t *bytes;
    size_t count;
} redis_value;
redis_value redis_value_get(const server *s, const char *key);
void redis_value_set(const server *s, const char *key, const redis_value *value);
void redis_value_release(redis_value *value);

/* What the server counted so far. */
typedef struct redis_traffic {
    uint64_t commands, received_bytes;
} redis_traffic;
redis_traffic redis_traffic_get(const server *s);

/*
 * A line to a port of this machine: it may hang up for good when so many bytes have come back over it; what comes back may be some
 * time on its way, as over a long line, all of it equally late; and it may be a narrow one.
 */
typedef struct proxy {
    int port, to_port, listener;
    uint64_t bytes_max, delay_ns;
    uint64_t bytes_second; /* of all that comes back; 0: as much as there is                                */
    uint64_t free_ns; /* when what was taken so far has passed                                          */
    atomic_uint_fast64_t passed_bytes;
    pthread_t thread;
    int stop[2]; /* a pipe */
} proxy;
void proxy_start(proxy *line, int to_port, uint64_t bytes_max);
void proxy_start_late(proxy *line, int to_port, uint64_t delay_ns);
void proxy_start_narrow(proxy *line, int to_port, uint64_t bytes_second);
void proxy_end(proxy *line);

/* A program on the PATH or in the system's folders; fails the test and names the Debian package when it is missing. */
const char *server_program(const char *name, const char *package);

#endif
