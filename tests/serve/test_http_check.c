/*
 * Requests whose framing could be read in two ways are refused.
 */
#include "test_support.h"

#include "serve/http_check.h"

typedef struct header {
    const char *name, *value;
} header;

static cairn_http_check check(const header *headers, size_t count, const char *version)
{
    cairn_http_check c = {0};
    for (size_t i = 0; i < count; i++)
        cairn_http_check_header(&c, headers[i].name, headers[i].value);
    cairn_http_check_end(&c, version);
    return c;
}

#define CHECK(...) \
    check((const header[]){__VA_ARGS__}, sizeof((const header[]){__VA_ARGS__}) / sizeof(header), "HTTP/1.1")

static void ordinary_requests_pass(void **state)
{
    (void)state;
    cairn_http_check c = CHECK({"Host", "x"}, {"Content-Length", "12"}, {"X-Any", "a b: c"});
    assert_int_equal(c.error.http, 0);
    assert_int_equal(c.content_length, 12);
    assert_int_equal(CHECK({"Host", "x"}, {"Transfer-Encoding", "Chunked"}).error.http, 0);
    assert_int_equal(check(NULL, 0, "HTTP/1.0").error.http, 0);
}

static void doubtful_framing_is_refused_and_the_connection_closed(void **state)
{
    (void)state;
    const cairn_http_check bad[] = {
        CHECK({"Host", "x"}, {"Content-Length", "2"}, {"Transfer-Encoding", "chunked"}),
        CHECK({"Host", "x"}, {"Content-Length", "2"}, {"Content-Length", "3"}),
        CHECK({"Host", "x"}, {"Content-Length", "2"}, {"content-length", "2"}),
        CHECK({"Host", "x"}, {"Content-Length ", "2"}),
        CHECK({"Host", "x"}, {"Content-Length", "+2"}),
        CHECK({"Host", "x"}, {"Content-Length", "-2"}),
        CHECK({"Host", "x"}, {"Content-Length", "2, 2"}),
        CHECK({"Host", "x"}, {"Content-Length", ""}),
        CHECK({"Host", "x"}, {"Content-Length", "99999999999999999999"}),
        CHECK({"Host", "x"}, {"Transfer-Encoding", "gzip, chunked"}),
        CHECK({"Host", "x"}, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}),
        CHECK({"Host", "x"}, {"Transfer-Encoding\t", "chunked"}),
        CHECK({"Host", "x"}, {"Host", "y"}),
        CHECK({"Content-Length", "2"}),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(bad[i].error.http, 400);
        assert_true(bad[i].error.close);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_requests_pass),
        cmocka_unit_test(doubtful_framing_is_refused_and_the_connection_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
