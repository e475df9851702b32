/*
 * The service manager's socket gets the text, and without one nothing happens.
 */
#include "test_support.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/notify.h"

/* A datagram socket of the name in `address`, and the variable that tells of it. */
static int listen_at(const struct sockaddr_un *address, size_t name_bytes, const char *variable)
{
    int sock = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_true(sock >= 0);
    assert_int_equal(bind(sock, (const struct sockaddr *)address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_bytes)),
                     0);
    assert_int_equal(setenv("NOTIFY_SOCKET", variable, 1), 0);
    return sock;
}

static void heard(int sock, const char *expected)
{
    char text[256] = "";
    assert_int_equal(recv(sock, text, sizeof text - 1, 0), (ssize_t)strlen(expected));
    assert_string_equal(text, expected);
}

static void the_text_arrives_at_a_path(void **state)
{
    (void)state;
    char folder[] = "/tmp/cairn-notify-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    int sock = listen_at(&address, (size_t)n, address.sun_path);
    assert_true(cairn_notify("READY=1\nSTATUS=at work"));
    heard(sock, "READY=1\nSTATUS=at work");
    close(sock);
    assert_int_equal(unlink(address.sun_path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_false(cairn_notify("READY=1")); /* nobody is there any more */
}

static void the_text_arrives_at_an_abstract_name(void **state)
{
    (void)state;
    char name[64];
    int n = snprintf(name, sizeof name, "@cairn-notify-%ld", (long)getpid());
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, name + 1, (size_t)n - 1);
    int sock = listen_at(&address, (size_t)n, name);
    assert_true(cairn_notify("STOPPING=1"));
    heard(sock, "STOPPING=1");
    close(sock);
}

static void without_a_manager_nothing_is_sent(void **state)
{
    (void)state;
    char wide[200];
    memset(wide, 'x', sizeof wide - 1);
    wide[0] = '/';
    wide[sizeof wide - 1] = '\0';
    const char *const values[] = {"", "relative/path", wide};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", values[i], 1), 0);
        assert_false(cairn_notify("READY=1"));
    }
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_false(cairn_notify("READY=1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_arrives_at_a_path),
        cmocka_unit_test(the_text_arrives_at_an_abstract_name),
        cmocka_unit_test(without_a_manager_nothing_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
