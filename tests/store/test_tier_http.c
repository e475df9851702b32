/*
 * The HTTP driver against a real nginx with dav, and signed against a store that checks every signature.
 */
#include "base/clock.h"
#include "store/server_support.h"
#include "store/tier_http.h"

#define SECOND_NS UINT64_C(1000000000)

static cairn_kv *kv_open(const server *s, const char *path, const char *user, const char *password,
                         const char *sign)
{
    char base[128];
    cairn_kv *kv = NULL;
    (void)snprintf(base, sizeof base, "http://127.0.0.1:%d/%s", s->port, path);
    cairn_http_options options = {.base = base, .user = user, .password = password, .sign = sign};
    assert_ok(cairn_http_open(cairn_mem_default(), &options, &kv, NULL));
    return kv;
}

static void nginx_with_dav_keeps_values(void **state)
{
    (void)state;
    server s;
    nginx_start(&s);
    cairn_kv *kv = kv_open(&s, "store/cairn", NULL, NULL, NULL);
    kv_values_go_round(kv);

    /* Larger than it takes: of that value alone. */
    enum { LARGE = 6 << 20 };
    uint8_t *bytes = test_malloc(LARGE);
    memset(bytes, 1, LARGE);
    cairn_kv_item items[2] = {kv_item_of(1, "0", bytes, LARGE), kv_item_of(2, "0", bytes, 100)};
    assert_ok(kv->ops->put(kv, items, 2, 60, kv_soon(20), NULL));
    assert_status(items[0].status, CAIRN_NOSPACE);
    assert_ok(items[1].status);
    test_free(bytes);
    uint64_t room = 0;
    items[1] = kv_item_of(2, "0", &room, sizeof room);

    /* Gone, back, and silent. */
    server_kill(&s);
    assert_status(kv->ops->get(kv, &items[1], 1, kv_soon(5), NULL), CAIRN_IO);
    server_start(&s);
    kv_values_go_round(kv);
    server_freeze(&s, true);
    uint64_t begin = kv_soon(0);
    assert_status(kv->ops->get(kv, &items[1], 1, kv_soon(0.1), NULL), CAIRN_TIMEOUT);
    assert_true(kv_soon(0) - begin < 5 * SECOND_NS);
    server_freeze(&s, false);
    kv_values_go_round(kv);
    kv->ops->close(kv);

    /* Where nothing may be put. */
    cairn_error error = {0};
    kv = kv_open(&s, "elsewhere", NULL, NULL, NULL);
    assert_status(kv->ops->put(kv, &items[1], 1, 60, kv_soon(5), &error), CAIRN_IO);
    assert_non_null(strstr(error.detail, "405"));
    kv->ops->close(kv);
    server_end(&s);
}

static void signed_requests_are_accepted_and_others_are_not(void **state)
{
    (void)state;
    server s;
    s3_start(&s, "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-central-1");
    cairn_kv *kv = kv_open(&s, "bucket/a-prefix", "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                           "eu-central-1");
    kv_values_go_round(kv);
    kv->ops->close(kv);
    const struct {
        const char *id, *secret, *region;
    } wrong[] = {{"AKIDEXAMPLE", "another", "eu-central-1"},
                 {"AKIDOTHER", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-central-1"},
                 {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1"},
                 {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cairn_error error = {0};
        uint8_t byte = 7;
        cairn_kv_item item = kv_item_of(1, "p", &byte, 1);
        kv = kv_open(&s, "bucket", wrong[i].id, wrong[i].secret, wrong[i].region);
        assert_status(kv->ops->put(kv, &item, 1, 60, kv_soon(5), &error), CAIRN_INVALID);
        assert_non_null(strstr(error.detail, "403"));
        kv->ops->close(kv);
    }
    server_end(&s);
}

int main(void)
{
    (void)setenv("no_proxy", "127.0.0.1", 1); /* whatever the machine's settings are */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nginx_with_dav_keeps_values),
        cmocka_unit_test(signed_requests_are_accepted_and_others_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
