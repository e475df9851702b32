/*
 * server_support - see the header.
 */
#define _XOPEN_SOURCE 700 /* nftw */

#include "store/server_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_MS_MAX = 20000, PROXY_LINKS = 16 };
/* Below those that the system gives to connections and to port 0: nobody takes one by chance before its server has it. */
enum { PORT_FIRST = 20000, PORT_COUNT = 12000 };

static uint64_t now_ns(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int socket_at(int port, struct sockaddr_in *ret_address)
{
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    ret_address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

int server_free_port(void)
{
    static uint32_t asked;
    struct sockaddr_in address;
    for (;;) {
        uint32_t mixed = ((uint32_t)getpid() * 40503u + asked++) * 2654435761u;
        int port = (int)(PORT_FIRST + (mixed >> 8) % PORT_COUNT), fd = socket_at(port, &address);
        bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        (void)close(fd);
        if (is_free) {
            return port;
        }
    }
}

static bool port_answers(int port)
{
    struct sockaddr_in address;
    int fd = socket_at(port, &address);
    bool answers = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return answers;
}

const char *server_program(const char *name, const char *package)
{
    const char *node = getenv("CAIRN_TEST_NODE");
    if (strcmp(name, "node") == 0 && node != NULL) {
        return node;
    }
    static const char *const folders[] = {"/usr/bin", "/usr/sbin", "/usr/local/bin", "/bin"};
    static char path[128];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folders[i], name);
        if (access(path, X_OK) == 0) {
            return path;
        }
    }
    fail_msg("%s is not installed: tools/setup installs the package %s", name, package);
    return NULL;
}

void server_init(server *s, const char *name)
{
    memset(s, 0, sizeof *s);
    (void)snprintf(s->dir, sizeof s->dir, "%s/%s.XXXXXX", CAIRN_BUILD_DIR, name);
    assert_non_null(mkdtemp(s->dir));
    s->port = server_free_port();
}

void server_start(server *s)
{
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        char log[600];
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nothing behind */
        (void)snprintf(log, sizeof log, "%s/log", s->dir);
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(fd, 1);
        (void)dup2(fd, 2);
        (void)execv(s->argv[0], (char *const *)s->argv);
        _exit(127);
    }
    for (int ms = 0; !port_answers(s->port); ms += 5) {
        struct timespec tick = {.tv_nsec = 5000000};
        assert_int_equal(waitpid(s->pid, NULL, WNOHANG), 0); /* it ended: see the log in its folder */
        assert_true(ms < START_MS_MAX);
        (void)nanosleep(&tick, NULL);
    }
}

void server_kill(server *s)
{
    if (s->pid > 0) {
        (void)kill(s->pid, SIGKILL);
        (void)waitpid(s->pid, NULL, 0);
        s->pid = 0;
    }
}

void server_freeze(server *s, bool frozen)
{
    assert_int_equal(kill(s->pid, frozen ? SIGSTOP : SIGCONT), 0);
}

static int remove_one(const char *path, const struct stat *stat, int flag, struct FTW *where)
{
    (void)stat;
    (void)flag;
    (void)where;
    return remove(path);
}

void server_end(server *s)
{
    server_kill(s);
    (void)nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void redis_start(server *s, const char *const *more)
{
    server_init(s, "redis");
    int n = 0;
    (void)snprintf(s->texts[0], sizeof s->texts[0], "%s", server_program("redis-server", "redis-server"));
    s->argv[n++] = s->texts[0];
    (void)snprintf(s->texts[1], sizeof s->texts[1], "%d", s->port);
    const char *const usual[] = {"--port",       s->texts[1], "--bind", "127.0.0.1", "--save",     "",
                                 "--appendonly", "no",        "--dir",  s->dir,      "--loglevel", "warning"};
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        s->argv[n++] = usual[i];
    }
    for (; more != NULL && *more != NULL; more++) {
        s->argv[n++] = *more;
    }
    server_start(s);
}

const char *redis_url(const server *s)
{
    static char url[64];
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", s->port);
    return url;
}

long long redis_do(const server *s, const char *format, ...)
{
    va_list args;
    redisContext *link = redisConnect("127.0.0.1", s->port);
    assert_true(link != NULL && link->err == 0);
    va_start(args, format);
    redisReply *reply = redisvCommand(link, format, args);
    va_end(args);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", format, reply->str);
    }
    long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : (long long)reply->elements;
    freeReplyObject(reply);
    redisFree(link);
    return value;
}

bool redis_says(const server *s, const char *command, const char *text)
{
    redisContext *link = redisConnect("127.0.0.1", s->port);
    assert_true(link != NULL && link->err == 0);
    redisReply *reply = redisCommand(link, command);
    assert_true(reply != NULL && reply->type == REDIS_REPLY_STRING);
    bool says = strstr(reply->str, text) != NULL;
    freeReplyObject(reply);
    redisFree(link);
    return says;
}

void redis_cluster_start(server nodes[3])
{
    int bus[3]; /* usually the port and 10000: may be none of a port */
    for (int i = 0; i < 3; i++) {
        char port[16];
        bus[i] = server_free_port();
        (void)snprintf(port, sizeof port, "%d", bus[i]);
        const char *const more[] = {"--cluster-enabled", "yes", "--cluster-port", port, NULL};
        redis_start(&nodes[i], more);
        int first = i * 5461, last = i == 2 ? 16383 : first + 5460;
        redis_do(&nodes[i], "CLUSTER ADDSLOTSRANGE %d %d", first, last);
        redis_do(&nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    }
    for (int i = 1; i < 3; i++) {
        redis_do(&nodes[0], "CLUSTER MEET 127.0.0.1 %d %d", nodes[i].port, bus[i]);
    }
    for (int i = 0; i < 3; i++) { /* they find each other over a bus of their own */
        for (int ms = 0; !redis_says(&nodes[i], "CLUSTER INFO", "cluster_state:ok"); ms += 10) {
            struct timespec tick = {.tv_nsec = 10000000};
            assert_true(ms < 20000);
            (void)nanosleep(&tick, NULL);
        }
    }
}

/* --- other servers ----------------------------------------------------------------------------------------------- */

/* Make a folder inside the server's. */
static void folder_make(const server *s, const char *name)
{
    char path[640];
    (void)snprintf(path, sizeof path, "%s/%s", s->dir, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

void nginx_start(server *s)
{
    char path[640];
    server_init(s, "nginx");
    folder_make(s, "store");
    folder_make(s, "body");
    folder_make(s, "logs");
    (void)snprintf(path, sizeof path, "%s/nginx.conf", s->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "daemon off;\nmaster_process off;\npid %s/pid;\nerror_log %s/log;\nworker_processes 1;\n"
                  "events { worker_connections 64; }\n"
                  "http {\n access_log off;\n client_body_temp_path %s/body;\n client_max_body_size 5m;\n"
                  " proxy_temp_path %s/body;\n fastcgi_temp_path %s/body;\n uwsgi_temp_path %s/body;\n"
                  " scgi_temp_path %s/body;\n"
                  " server {\n  listen 127.0.0.1:%d;\n"
                  "  location /store/ { root %s; dav_methods PUT DELETE; create_full_put_path on; }\n }\n}\n",
                  s->dir, s->dir, s->dir, s->dir, s->dir, s->dir, s->dir, s->port, s->dir);
    (void)fclose(file);
    (void)snprintf(s->texts[0], sizeof s->texts[0], "%s", server_program("nginx", "nginx-light"));
    (void)snprintf(s->texts[1], sizeof s->texts[1], "%.500s", path);
    const char *const argv[] = {s->texts[0], "-c", s->texts[1], "-p", s->dir};
    memcpy(s->argv, argv, sizeof argv);
    server_start(s);
}

void s3_start(server *s, const char *id, const char *secret, const char *region)
{
    server_init(s, "s3");
    (void)snprintf(s->texts[0], sizeof s->texts[0], "%s", server_program("node", "nodejs"));
    (void)snprintf(s->texts[1], sizeof s->texts[1], "%s/tests/store/s3_server.mjs", CAIRN_SOURCE_DIR);
    (void)snprintf(s->texts[2], sizeof s->texts[2], "%d", s->port);
    const char *const argv[] = {s->texts[0], s->texts[1], s->texts[2], id, secret, region};
    memcpy(s->argv, argv, sizeof argv);
    server_start(s);
}

/* --- looking into a Redis server --------------------------------------------------------------------------------- */

static redisContext *redis_link(const server *s)
{
    redisContext *link = redisConnect("127.0.0.1", s->port);
    assert_true(link != NULL && link->err == 0);
    return link;
}

void redis_names_get(const server *s, redis_names *ret_names)
{
    redisContext *link = redis_link(s);
    redisReply *reply = redisCommand(link, "KEYS *");
    assert_true(reply != NULL && reply->type == REDIS_REPLY_ARRAY);
    ret_names->count = (uint32_t)reply->elements;
    ret_names->keys = test_malloc((reply->elements + 1) * sizeof *ret_names->keys);
    for (size_t i = 0; i < reply->elements; i++) {
        ret_names->keys[i] = test_malloc((size_t)reply->element[i]->len + 1);
        memcpy(ret_names->keys[i], reply->element[i]->str, (size_t)reply->element[i]->len + 1);
    }
    freeReplyObject(reply);
    redisFree(link);
}

void redis_names_release(redis_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        test_free(names->keys[i]);
    }
    test_free(names->keys);
}

redis_value redis_value_get(const server *s, const char *key)
{
    redisContext *link = redis_link(s);
    redisReply *reply = redisCommand(link, "GET %s", key);
    assert_true(reply != NULL && reply->type == REDIS_REPLY_STRING);
    redis_value value = {.bytes = test_malloc((size_t)reply->len + 1), .count = (size_t)reply->len};
    memcpy(value.bytes, reply->str, value.count);
    freeReplyObject(reply);
    redisFree(link);
    return value;
}

void redis_value_set(const server *s, const char *key, const redis_value *value)
{
    redis_do(s, "SET %s %b", key, value->bytes, value->count);
}

void redis_value_release(redis_value *value)
{
    test_free(value->bytes);
}

static uint64_t info_number(const char *info, const char *name)
{
    const char *at = strstr(info, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

redis_traffic redis_traffic_get(const server *s)
{
    redisContext *link = redis_link(s);
    redisReply *reply = redisCommand(link, "INFO stats");
    assert_true(reply != NULL && reply->type == REDIS_REPLY_STRING);
    redis_traffic traffic = {.commands = info_number(reply->str, "total_commands_processed:"),
                             .received_bytes = info_number(reply->str, "total_net_input_bytes:")};
    freeReplyObject(reply);
    redisFree(link);
    return traffic;
}

/* --- any store ---------------------------------------------------------------------------------------------------- */

uint64_t kv_soon(double seconds)
{
    return now_ns() + (uint64_t)(seconds * 1e9);
}

cairn_kv_item kv_item_of(uint32_t id, const char *part, void *bytes, uint64_t size)
{
    cairn_kv_item item = {.bytes = bytes, .size_bytes = size, .room_bytes = size};
    (void)snprintf(item.key, sizeof item.key, "%08x%056u/%s", id * 2654435761u, 0, part);
    return item;
}

void kv_values_go_round(cairn_kv *kv)
{
    enum { COUNT = 300, LARGE = 4 << 20 };
    static uint64_t values[COUNT], got[COUNT];
    static cairn_kv_item items[COUNT + 1];
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = i * UINT64_C(0x9e3779b97f4a7c15);
        items[i] = kv_item_of(i, "h", &values[i], sizeof values[i]);
    }
    assert_ok(kv->ops->put(kv, items, COUNT, 60, kv_soon(20), NULL));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(items[i].status);
        items[i] = kv_item_of(i, "h", &got[i], sizeof got[i]);
    }
    items[COUNT] = kv_item_of(COUNT, "h", got, sizeof got);
    assert_ok(kv->ops->get(kv, items, COUNT + 1, kv_soon(20), NULL));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(items[i].status);
        assert_int_equal(items[i].size_bytes, 8);
    }
    assert_memory_equal(values, got, sizeof values);
    assert_status(items[COUNT].status, CAIRN_NOTFOUND);
    assert_ok(kv->ops->exists(kv, items, COUNT + 1, kv_soon(20), NULL));
    assert_ok(items[7].status);
    assert_status(items[COUNT].status, CAIRN_NOTFOUND);

    /* A piece, over lines that were used before; and into a room that is too small for it. */
    uint8_t *piece = test_malloc(LARGE), *back = test_malloc(LARGE);
    for (uint32_t i = 0; i < LARGE; i++) {
        piece[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    cairn_kv_item large = kv_item_of(99, "0-aa", piece, LARGE);
    assert_ok(kv->ops->put(kv, &large, 1, 60, kv_soon(20), NULL));
    assert_ok(large.status);
    large.bytes = back;
    assert_ok(kv->ops->get(kv, &large, 1, kv_soon(20), NULL));
    assert_ok(large.status);
    assert_memory_equal(piece, back, LARGE);
    large.room_bytes = LARGE - 1;
    assert_ok(kv->ops->get(kv, &large, 1, kv_soon(20), NULL));
    assert_status(large.status, CAIRN_LIMIT);
    test_free(back);
    test_free(piece);

    assert_ok(kv->ops->drop(kv, &large, 1, kv_soon(20), NULL));
    assert_ok(kv->ops->drop(kv, items, COUNT + 1, kv_soon(20), NULL));
    assert_ok(kv->ops->exists(kv, items, COUNT + 1, kv_soon(20), NULL));
    assert_status(items[7].status, CAIRN_NOTFOUND);
}

/* --- a line that is cut, or long --------------------------------------------------------------------------------- */

/* Bytes on their way back. */
typedef struct parcel {
    struct parcel *next;
    uint64_t due_ns;
    size_t count;
    uint8_t bytes[64 << 10];
} parcel;

/* One connection: who asks, who answers, and what is on its way back. */
typedef struct proxy_link {
    int in, out; /* -1: closed                                                                             */
    parcel *first, *last;
} proxy_link;

static void link_close(proxy_link *link)
{
    if (link->in >= 0) {
        (void)close(link->in);
        (void)close(link->out);
        link->in = link->out = -1;
    }
    while (link->first != NULL) {
        parcel *gone = link->first;
        link->first = gone->next;
        free(gone);
    }
    link->last = NULL;
}

static bool write_all(int to, const uint8_t *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t wrote = send(to, bytes + done, count - done, MSG_NOSIGNAL);
        if (wrote <= 0) {
            return false;
        }
        done += (size_t)wrote;
    }
    return true;
}

/* Hand over what is due. False: hung up, or so much came back. */
static bool link_deliver(proxy *line, proxy_link *link)
{
    while (link->first != NULL && link->first->due_ns <= now_ns()) {
        parcel *item = link->first;
        uint64_t left = line->bytes_max - line->passed_bytes;
        size_t count = item->count < left ? item->count : (size_t)left;
        line->passed_bytes += count;
        if (!write_all(link->in, item->bytes, count) || line->passed_bytes >= line->bytes_max) {
            return false;
        }
        link->first = item->next;
        link->last = link->first != NULL ? link->last : NULL;
        free(item);
    }
    return true;
}

/* Take what is there, and pass it on or note when it is to be. False: hung up. */
static bool link_take(proxy *line, proxy_link *link, bool back)
{
    parcel *item = malloc(sizeof *item);
    assert_non_null(item);
    ssize_t got = read(back ? link->out : link->in, item->bytes, sizeof item->bytes);
    if (got <= 0 || !back) {
        bool fine = got > 0 && write_all(link->out, item->bytes, (size_t)got);
        free(item);
        return fine;
    }
    item->next = NULL;
    item->count = (size_t)got;
    uint64_t now = now_ns();
    line->free_ns = line->free_ns > now ? line->free_ns : now;
    line->free_ns += line->bytes_second > 0 ? item->count * UINT64_C(1000000000) / line->bytes_second : 0;
    item->due_ns = line->free_ns + line->delay_ns;
    *(link->last != NULL ? &link->last->next : &link->first) = item;
    link->last = item;
    return link_deliver(line, link);
}

static void link_accept(proxy *line, proxy_link *link)
{
    struct sockaddr_in address;
    int on = 1; /* what is passed on isn't held back */
    *link = (proxy_link){.in = accept(line->listener, NULL, NULL), .out = socket_at(line->to_port, &address)};
    if (line->passed_bytes >= line->bytes_max ||
        connect(link->out, (struct sockaddr *)&address, sizeof address) != 0) {
        link_close(link);
        return;
    }
    (void)setsockopt(link->in, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(link->out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Until when to wait for events, in ms. */
static int links_wait(const proxy_link *links, int count)
{
    uint64_t due_ns = UINT64_MAX, now = now_ns();
    for (int i = 0; i < count; i++) {
        due_ns = links[i].first != NULL && links[i].first->due_ns < due_ns ? links[i].first->due_ns : due_ns;
    }
    return due_ns == UINT64_MAX ? -1 : due_ns <= now ? 0 : (int)((due_ns - now) / 1000000 + 1);
}

static void *proxy_main(void *ctx)
{
    proxy *line = ctx;
    struct pollfd fds[2 + 2 * PROXY_LINKS];
    proxy_link links[PROXY_LINKS];
    int count = 0;
    fds[0] = (struct pollfd){.fd = line->stop[0], .events = POLLIN};
    fds[1] = (struct pollfd){.fd = line->listener, .events = POLLIN};
    while (poll(fds, (nfds_t)(2 + 2 * count), links_wait(links, count)) >= 0 && fds[0].revents == 0) {
        for (int i = 0; i < count; i++) {
            proxy_link *link = &links[i];
            if (link->in >= 0 && ((fds[2 + 2 * i].revents != 0 && !link_take(line, link, false)) ||
                                  (fds[3 + 2 * i].revents != 0 && !link_take(line, link, true)) ||
                                  !link_deliver(line, link))) {
                link_close(link);
                line->free_ns = 0; /* what it had on its way takes nobody's place any more */
            }
        }
        if ((fds[1].revents & POLLIN) != 0) {
            int at = 0;
            while (at < count && links[at].in >= 0) {
                at++;
            }
            assert_true(at < PROXY_LINKS);
            link_accept(line, &links[at]);
            count = at == count ? count + 1 : count;
        }
        for (int i = 0; i < count; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = links[i].in, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = links[i].out, .events = POLLIN};
        }
    }
    for (int i = 0; i < count; i++) {
        link_close(&links[i]);
    }
    return NULL;
}

static void line_start(proxy *line)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    line->listener = socket_at(0, &address);
    assert_int_equal(bind(line->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(line->listener, 16), 0);
    assert_int_equal(getsockname(line->listener, (struct sockaddr *)&address, &size), 0);
    line->port = ntohs(address.sin_port);
    assert_int_equal(pipe(line->stop), 0);
    assert_int_equal(pthread_create(&line->thread, NULL, proxy_main, line), 0);
}

void proxy_start(proxy *line, int to_port, uint64_t bytes_max)
{
    *line = (proxy){.to_port = to_port, .bytes_max = bytes_max};
    line_start(line);
}

void proxy_start_narrow(proxy *line, int to_port, uint64_t bytes_second)
{
    *line = (proxy){.to_port = to_port, .bytes_max = UINT64_MAX, .bytes_second = bytes_second};
    line_start(line);
}

void proxy_start_late(proxy *line, int to_port, uint64_t delay_ns)
{
    *line = (proxy){.to_port = to_port, .bytes_max = UINT64_MAX, .delay_ns = delay_ns};
    line_start(line);
}

void proxy_end(proxy *line)
{
    assert_int_equal(write(line->stop[1], "", 1), 1);
    assert_int_equal(pthread_join(line->thread, NULL), 0);
    (void)close(line->stop[0]);
    (void)close(line->stop[1]);
    (void)close(line->listener);
}
