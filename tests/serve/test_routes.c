/*
 * Which path and method lead where.
 */
#include "test_support.h"

#include "serve/routes.h"

static void known_routes_are_found(void **state)
{
    (void)state;
    cairn_api_error error = {0};
    assert_non_null(cairn_routes_find("POST", "/v1/chat/completions", &error));
    assert_non_null(cairn_routes_find("POST", "/v1/chat/completions/", &error));
    assert_non_null(cairn_routes_find("HEAD", "/v1/models", &error));
    assert_true(cairn_routes_find("GET", "/health", &error)->open);
    assert_false(cairn_routes_find("GET", "/metrics", &error)->open);
    assert_non_null(cairn_routes_find("GET", "/cairn/requests", &error));
    assert_non_null(cairn_routes_find("GET", "/cairn/requests/", &error));
    assert_string_equal(cairn_routes_find("GET", "/cairn/requests/12", &error)->path, "/cairn/requests/*");
    assert_string_equal(cairn_routes_find("GET", "/cairn/requests/12/perfetto", &error)->path,
                        "/cairn/requests/*/perfetto");
    assert_int_equal(error.http, 0);
}

static void unknown_routes_are_404(void **state)
{
    (void)state;
    static const char *const paths[] = {"/nothing",
                                        "/v1",
                                        "/v1/chat",
                                        "/v1/chat/completionsx",
                                        "/v1/models//",
                                        "/cairn/requests/1/",
                                        "/cairn/requests//perfetto",
                                        "/cairn/requests/1/2/perfetto",
                                        ""};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        cairn_api_error error = {0};
        assert_null(cairn_routes_find("GET", paths[i], &error));
        assert_int_equal(error.http, 404);
    }
}

static void wrong_methods_are_405_and_name_the_right_ones(void **state)
{
    (void)state;
    cairn_api_error error = {0};
    assert_null(cairn_routes_find("GET", "/v1/chat/completions", &error));
    assert_int_equal(error.http, 405);
    assert_string_equal(error.allow, "POST");
    memset(&error, 0, sizeof error);
    assert_null(cairn_routes_find("DELETE", "/v1/models", &error));
    assert_int_equal(error.http, 405);
    assert_string_equal(error.allow, "GET, HEAD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_routes_are_found),
        cmocka_unit_test(unknown_routes_are_404),
        cmocka_unit_test(wrong_methods_are_405_and_name_the_right_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
