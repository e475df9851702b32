/*
 * redis_node - see the header.
 */
#include "store/redis_node.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { READ_BYTES = 256 << 10, NODES_MAX = 64, ELEMENTS_MAX = 1 << 16, SLICE_MS = 100 };

static const char where_link[] = "store/redis: connection";

/* --- the reader: hiredis's own, that makes no lists beyond what a cluster's map needs ------------------------- */

static redisReplyObjectFunctions reader_functions;
static void *(*make_array)(const redisReadTask *task, int elements);
static pthread_once_t reader_once = PTHREAD_ONCE_INIT;

static void *array_of_bounded_length(const redisReadTask *task, int elements)
{
    return elements <= ELEMENTS_MAX ? make_array(task, elements) : NULL;
}

static void reader_prepare(void)
{
    redisReader *usual = redisReaderCreate();
    if (usual != NULL) {
        reader_functions = *usual->fn;
        make_array = usual->fn->createArray;
        reader_functions.createArray = array_of_bounded_length;
        redisReaderFree(usual);
    }
}

static void reader_limit(redisReader *reader)
{
    (void)pthread_once(&reader_once, reader_prepare);
    if (make_array != NULL) {
        reader->fn = &reader_functions;
    }
    reader->maxbuf = 0; /* keep the buffer: the next value is as large */
}

/* --- waiting -------------------------------------------------------------------------------------------------- */

/* Wait for events, until then or until nobody wants them any more. As poll: 0 means too late. */
static int wait_for(struct pollfd *fds, nfds_t count, const cairn_redis_login *login, uint64_t until_ns)
{
    for (;;) {
        uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
        if (now_ns >= until_ns || atomic_load(login->stop)) {
            return 0;
        }
        uint64_t ms = (until_ns - now_ns + 999999) / 1000000;
        int ready = poll(fds, count, ms < SLICE_MS ? (int)ms : SLICE_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return ready;
        }
    }
}

static cairn_status too_late(const cairn_redis_node *node, cairn_error *reterr)
{
    return cairn_error_set(reterr, CAIRN_TIMEOUT, where_link, "%.80s:%d", node->host, node->port);
}

static cairn_status link_error(cairn_redis_node *node, cairn_error *reterr)
{
    const redisContext *link = node->link;
    CAIRN_ASSERT(link != NULL);
    cairn_status status = link->err == REDIS_ERR_PROTOCOL ? CAIRN_CORRUPT
                          : link->err == REDIS_ERR_OOM    ? CAIRN_NOMEM
                                                          : CAIRN_IO;
    status = cairn_error_set(reterr, status, where_link, "%.60s:%d: %.80s", node->host, node->port,
                             link->errstr[0] != '\0' ? link->errstr : "closed");
    cairn_redis_node_close(node);
    return status;
}

void cairn_redis_node_close(cairn_redis_node *node)
{
    if (node->link != NULL) {
        redisFree(node->link);
        node->link = NULL;
    }
    node->awaited = 0;
    node->flushed = true;
}

/* --- sending and receiving ------------------------------------------------------------------------------------ */

/* Read what is there into the reader. */
static cairn_status link_read(cairn_redis_node *node, const cairn_redis_login *login, uint8_t *room,
                              cairn_error *reterr)
{
    ssize_t got = read(node->link->fd, room, READ_BYTES);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return CAIRN_OK;
    }
    if (got <= 0) {
        cairn_status status =
            got < 0
                ? cairn_error_set_os(reterr, errno, where_link, "%.80s:%d", node->host, node->port)
                : cairn_error_set(reterr, CAIRN_IO, where_link, "%.80s:%d hung up", node->host, node->port);
        cairn_redis_node_close(node);
        return status == CAIRN_NOTFOUND ? CAIRN_IO : status;
    }
    if (redisReaderFeed(node->link->reader, (const char *)room, (size_t)got) != REDIS_OK ||
        node->link->reader->len - node->link->reader->pos > login->reply_bytes_max + READ_BYTES) {
        cairn_redis_node_close(node);
        return cairn_error_set(reterr, CAIRN_CORRUPT, where_link, "%.80s:%d: an answer without end",
                               node->host, node->port);
    }
    return CAIRN_OK;
}

/* Hand over the answers that are complete. */
static cairn_status link_answers(cairn_redis_node *nodes, uint32_t index, cairn_redis_answer answer,
                                 void *ctx, cairn_error *reterr)
{
    cairn_redis_node *node = &nodes[index];
    while (node->awaited > 0) {
        void *reply = NULL;
        if (redisGetReplyFromReader(node->link, &reply) != REDIS_OK) {
            return link_error(node, reterr);
        }
        if (reply == NULL) {
            break;
        }
        node->awaited--;
        answer(ctx, index, reply);
        freeReplyObject(reply);
    }
    return CAIRN_OK;
}

/* One node is ready for something. */
// NOLINTNEXTLINE(readability-function-size): what one exchange is given
static cairn_status link_serve(cairn_redis_node *nodes, uint32_t index, short events,
                               const cairn_redis_login *login, uint8_t *room, cairn_redis_answer answer,
                               void *ctx, cairn_error *reterr)
{
    cairn_redis_node *node = &nodes[index];
    if ((events & POLLOUT) != 0) {
        int done = 0;
        if (redisBufferWrite(node->link, &done) != REDIS_OK) {
            return link_error(node, reterr);
        }
        node->flushed = done != 0;
    }
    if ((events & (POLLIN | POLLERR | POLLHUP)) != 0) {
        cairn_status status = link_read(node, login, room, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        return link_answers(nodes, index, answer, ctx, reterr);
    }
    return CAIRN_OK;
}

/* What all nodes wait for. Gives how many do. */
static uint32_t links_list(const cairn_redis_node *nodes, uint32_t count, struct pollfd *fds,
                           uint32_t *owners)
{
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (nodes[i].link == NULL || nodes[i].awaited == 0) {
            continue;
        }
        fds[listed] = (struct pollfd){.fd = nodes[i].link->fd,
                                      .events = (short)(POLLIN | (nodes[i].flushed ? 0 : POLLOUT))};
        owners[listed++] = i;
    }
    return listed;
}

// NOLINTNEXTLINE(readability-function-size): what one exchange is given
cairn_status cairn_redis_nodes_exchange(cairn_redis_node *nodes, uint32_t count,
                                        const cairn_redis_login *login, uint64_t until_ns,
                                        cairn_redis_answer answer, void *ctx, uint32_t *ret_broken,
                                        cairn_error *reterr)
{
    struct pollfd fds[NODES_MAX];
    uint32_t owners[NODES_MAX];
    uint32_t listed = 0;
    cairn_status status = CAIRN_OK;
    uint8_t *room = cairn_mem_alloc(cairn_mem_default(), READ_BYTES);
    if (room == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where_link, NULL);
    }
    *ret_broken = count;
    CAIRN_ASSERT(count <= NODES_MAX);
    while (status == CAIRN_OK && (listed = links_list(nodes, count, fds, owners)) > 0) {
        int ready = wait_for(fds, listed, login, until_ns);
        if (ready < 0) {
            status = cairn_error_set_os(reterr, errno, where_link, NULL);
        } else if (ready == 0) {
            status = too_late(&nodes[owners[0]], reterr);
        }
        for (uint32_t i = 0; i < listed && ready > 0 && status == CAIRN_OK; i++) {
            if (fds[i].revents != 0) {
                status = link_serve(nodes, owners[i], fds[i].revents, login, room, answer, ctx, reterr);
                *ret_broken = status != CAIRN_OK ? owners[i] : count;
            }
        }
    }
    cairn_mem_release(cairn_mem_default(), room, READ_BYTES);
    for (uint32_t i = 0; i < count && status != CAIRN_OK; i++) {
        if (nodes[i].awaited > 0) {
            cairn_redis_node_close(&nodes[i]);
        }
    }
    return status;
}

cairn_status cairn_redis_node_queue(cairn_redis_node *node, int count, const char **argv, const size_t *sizes,
                                    cairn_error *reterr)
{
    if (redisAppendCommandArgv(node->link, count, argv, sizes) != REDIS_OK) {
        return link_error(node, reterr);
    }
    node->awaited++;
    node->flushed = false;
    return CAIRN_OK;
}

/* --- opening -------------------------------------------------------------------------------------------------- */

static cairn_status link_connect(cairn_redis_node *node, const cairn_redis_login *login, uint64_t until_ns,
                                 cairn_error *reterr)
{
    node->link = redisConnectNonBlock(node->host, node->port);
    node->awaited = 0;
    node->flushed = true;
    if (node->link == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where_link, NULL);
    }
    if (node->link->err != 0) {
        return link_error(node, reterr);
    }
    struct pollfd fd = {.fd = node->link->fd, .events = POLLOUT};
    int ready = wait_for(&fd, 1, login, until_ns);
    int code = 0;
    socklen_t size = sizeof code;
    if (ready <= 0) {
        cairn_redis_node_close(node);
        return too_late(node, reterr);
    }
    if (getsockopt(node->link->fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0 || code != 0) {
        cairn_redis_node_close(node);
        return cairn_error_set(reterr, CAIRN_IO, where_link, "%.60s:%d: %.60s", node->host, node->port,
                               code != 0 ? strerror(code) : "no connection");
    }
    reader_limit(node->link->reader);
    return CAIRN_OK;
}

/* The first thing that was refused while logging in. */
typedef struct greeting {
    bool refused;
    char why[100];
} greeting;

static void greeted(void *ctx, uint32_t node, const redisReply *reply)
{
    greeting *hello = ctx;
    (void)node;
    if (reply->type == REDIS_REPLY_ERROR && !hello->refused) {
        hello->refused = true;
        (void)snprintf(hello->why, sizeof hello->why, "%s", reply->str);
    }
}

static cairn_status log_in(cairn_redis_node *node, const cairn_redis_login *login, uint64_t until_ns,
                           cairn_error *reterr)
{
    char database[16];
    (void)snprintf(database, sizeof database, "%d", login->database);
    const char *auth[] = {"AUTH", login->user != NULL ? login->user : login->password, login->password};
    const char *chosen[] = {"SELECT", database};
    cairn_status status = CAIRN_OK;
    if (login->password != NULL) {
        status = cairn_redis_node_queue(node, login->user != NULL ? 3 : 2, auth, NULL, reterr);
    }
    if (status == CAIRN_OK && login->database != 0) {
        status = cairn_redis_node_queue(node, 2, chosen, NULL, reterr);
    }
    greeting hello = {0};
    uint32_t broken;
    if (status == CAIRN_OK) {
        status = cairn_redis_nodes_exchange(node, 1, login, until_ns, greeted, &hello, &broken, reterr);
    }
    if (status == CAIRN_OK && hello.refused) {
        cairn_redis_node_close(node);
        status = cairn_error_set(reterr, CAIRN_INVALID, "store/redis: log in", "%.60s:%d: %.90s", node->host,
                                 node->port, hello.why);
    }
    return status;
}

cairn_status cairn_redis_node_open(cairn_redis_node *node, const cairn_redis_login *login, uint64_t until_ns,
                                   cairn_error *reterr)
{
    if (node->link != NULL) {
        return CAIRN_OK;
    }
    cairn_status status = link_connect(node, login, until_ns, reterr);
    if (status == CAIRN_OK && (login->password != NULL || login->database != 0)) {
        status = log_in(node, login, until_ns, reterr);
    }
    node->used = node->used || status == CAIRN_OK;
    return status;
}
