/*
 * A client that goes away is noticed without reading or writing.
 */
#include "test_support.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/watch.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int calls;

static void on_gone(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&lock);
    calls++;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&lock);
}

static void wait_for_calls(int n)
{
    pthread_mutex_lock(&lock);
    while (calls < n)
        pthread_cond_wait(&cond, &lock);
    pthread_mutex_unlock(&lock);
}

static void a_closed_socket_calls_once(void **state)
{
    (void)state;
    cairn_watch *watch = NULL;
    int pair[2];
    uint32_t id = 0;
    calls = 0;
    assert_ok(cairn_watch_new(cairn_mem_default(), 4, &watch, NULL));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_ok(cairn_watch_add(watch, pair[0], on_gone, NULL, &id));
    close(pair[1]);
    wait_for_calls(1);
    cairn_watch_remove(watch, id);
    close(pair[0]);
    cairn_watch_free(watch);
    assert_int_equal(calls, 1);
}

static void a_removed_socket_never_calls(void **state)
{
    (void)state;
    cairn_watch *watch = NULL;
    calls = 0;
    assert_ok(cairn_watch_new(cairn_mem_default(), 4, &watch, NULL));
    for (int round = 0; round < 500; round++) {
        int pair[2];
        uint32_t id = 0;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        assert_ok(cairn_watch_add(watch, pair[0], on_gone, NULL, &id));
        cairn_watch_remove(watch, id);
        int before = calls;
        close(pair[1]);
        close(pair[0]);
        assert_int_equal(calls, before);
    }
    cairn_watch_free(watch);
    assert_int_equal(calls, 0);
}

static void more_than_the_limit_are_refused(void **state)
{
    (void)state;
    cairn_watch *watch = NULL;
    int a[2], b[2];
    uint32_t id = 0, other = 0;
    assert_ok(cairn_watch_new(cairn_mem_default(), 1, &watch, NULL));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    assert_ok(cairn_watch_add(watch, a[0], on_gone, NULL, &id));
    assert_status(cairn_watch_add(watch, b[0], on_gone, NULL, &other), CAIRN_LIMIT);
    cairn_watch_remove(watch, id);
    assert_ok(cairn_watch_add(watch, b[0], on_gone, NULL, &other));
    cairn_watch_remove(watch, other);
    cairn_watch_free(watch);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_socket_calls_once),
        cmocka_unit_test(a_removed_socket_never_calls),
        cmocka_unit_test(more_than_the_limit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
