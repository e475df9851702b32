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
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    int fd = socket_at(0, &address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
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

/* --- a line that is cut ------------------------------------------------------------------------------------------ */

/* Pass on what is there. False: hung up, or too much came back. */
static bool proxy_pass(proxy *line, int from, int to, bool back)
{
    uint8_t bytes[4096];
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0) {
        return false;
    }
    uint64_t left = back ? line->bytes_max - line->passed_bytes : UINT64_MAX;
    size_t count = (uint64_t)got < left ? (size_t)got : (size_t)left;
    line->passed_bytes += back ? count : 0;
    return write(to, bytes, count) == (ssize_t)count && line->passed_bytes < line->bytes_max;
}

static void *proxy_main(void *ctx)
{
    proxy *line = ctx;
    struct pollfd fds[2 + 2 * PROXY_LINKS];
    int count = 2;
    fds[0] = (struct pollfd){.fd = line->stop[0], .events = POLLIN};
    fds[1] = (struct pollfd){.fd = line->listener, .events = POLLIN};
    while (poll(fds, (nfds_t)count, -1) >= 0 && fds[0].revents == 0) {
        if ((fds[1].revents & POLLIN) != 0 && count + 2 <= 2 + 2 * PROXY_LINKS) {
            int in = accept(line->listener, NULL, NULL);
            struct sockaddr_in address;
            int out = socket_at(line->to_port, &address);
            if (line->passed_bytes >= line->bytes_max ||
                connect(out, (struct sockaddr *)&address, sizeof address) != 0) {
                (void)close(in);
                (void)close(out);
            } else {
                int on = 1; /* what is passed on isn't held back */
                (void)setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                (void)setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                fds[count++] = (struct pollfd){.fd = in, .events = POLLIN};
                fds[count++] = (struct pollfd){.fd = out, .events = POLLIN};
            }
            continue; /* the new ones have no events yet */
        }
        for (int i = 2; i < count; i++) {
            int other = i % 2 == 0 ? i + 1 : i - 1;
            if (fds[i].fd >= 0 && fds[i].revents != 0 &&
                !proxy_pass(line, fds[i].fd, fds[other].fd, i % 2 == 1)) {
                (void)close(fds[i].fd);
                (void)close(fds[other].fd);
                fds[i].fd = fds[other].fd = -1;
            }
        }
    }
    for (int i = 2; i < count; i++) {
        if (fds[i].fd >= 0) {
            (void)close(fds[i].fd);
        }
    }
    return NULL;
}

void proxy_start(proxy *line, int to_port, uint64_t bytes_max)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    *line = (proxy){.to_port = to_port, .bytes_max = bytes_max, .listener = socket_at(0, &address)};
    assert_int_equal(bind(line->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(line->listener, 16), 0);
    assert_int_equal(getsockname(line->listener, (struct sockaddr *)&address, &size), 0);
    line->port = ntohs(address.sin_port);
    assert_int_equal(pipe(line->stop), 0);
    assert_int_equal(pthread_create(&line->thread, NULL, proxy_main, line), 0);
}

void proxy_end(proxy *line)
{
    assert_int_equal(write(line->stop[1], "", 1), 1);
    assert_int_equal(pthread_join(line->thread, NULL), 0);
    (void)close(line->stop[0]);
    (void)close(line->stop[1]);
    (void)close(line->listener);
}
