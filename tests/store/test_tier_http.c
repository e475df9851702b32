/*
 * The HTTP driver against a real nginx with dav, and signed against a store that checks every signature.
 */
#include "base/clock.h"
#include "store/server_support.h"
#include "store/tier_http.h"

#define SECOND_NS UINT64_C(1000000000)

static uint64_t soon(double seconds)
{
    return cairn_clock_now_ns(cairn_clock_system()) + (uint64_t)(seconds * 1e9);
}

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

static cairn_kv_item item_of(uint32_t id, const char *part, void *bytes, uint64_t size)
{
    cairn_kv_item item = {.bytes = bytes, .size_bytes = size, .room_bytes = size};
    (void)snprintf(item.key, sizeof item.key, "%08x%056u/%s", id * 2654435761u, 0, part);
    return item;
}

static void values_go_round(cairn_kv *kv)
{
    enum { COUNT = 40, LARGE = 4 << 20 };
    static uint64_t values[COUNT], got[COUNT];
    static cairn_kv_item items[COUNT + 1];
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = i * UINT64_C(0x9e3779b97f4a7c15);
        items[i] = item_of(i, "h", &values[i], sizeof values[i]);
    }
    assert_ok(kv->ops->put(kv, items, COUNT, 60, soon(20), NULL));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(items[i].status);
        items[i] = item_of(i, "h", &got[i], sizeof got[i]);
    }
    items[COUNT] = item_of(COUNT, "h", got, sizeof got);
    assert_ok(kv->ops->get(kv, items, COUNT + 1, soon(20), NULL));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(items[i].status);
        assert_int_equal(items[i].size_bytes, 8);
    }
    assert_memory_equal(values, got, sizeof values);
    assert_status(items[COUNT].status, CAIRN_NOTFOUND);
    assert_ok(kv->ops->exists(kv, items, COUNT + 1, soon(20), NULL));
    assert_ok(items[7].status);
    assert_status(items[COUNT].status, CAIRN_NOTFOUND);

    /* A piece, over lines that were used before; and into a room that is too small for it. */
    uint8_t *piece = test_malloc(LARGE), *back = test_malloc(LARGE);
    for (uint32_t i = 0; i < LARGE; i++) {
        piece[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    cairn_kv_item large = item_of(99, "0-aa", piece, LARGE);
    assert_ok(kv->ops->put(kv, &large, 1, 60, soon(20), NULL));
    assert_ok(large.status);
    large.bytes = back;
    assert_ok(kv->ops->get(kv, &large, 1, soon(20), NULL));
    assert_ok(large.status);
    assert_memory_equal(piece, back, LARGE);
    large.room_bytes = LARGE - 1;
    assert_ok(kv->ops->get(kv, &large, 1, soon(20), NULL));
    assert_status(large.status, CAIRN_LIMIT);
    test_free(back);
    test_free(piece);

    assert_ok(kv->ops->drop(kv, items, COUNT + 1, soon(20), NULL));
    assert_ok(kv->ops->exists(kv, items, COUNT + 1, soon(20), NULL));
    assert_status(items[7].status, CAIRN_NOTFOUND);
}

static void nginx_with_dav_keeps_values(void **state)
{
    (void)state;
    server s;
    nginx_start(&s);
    cairn_kv *kv = kv_open(&s, "store/cairn", NULL, NULL, NULL);
    values_go_round(kv);

    /* Larger than it takes: of that value alone. */
    enum { LARGE = 6 << 20 };
    uint8_t *bytes = test_malloc(LARGE);
    memset(bytes, 1, LARGE);
    cairn_kv_item items[2] = {item_of(1, "0", bytes, LARGE), item_of(2, "0", bytes, 100)};
    assert_ok(kv->ops->put(kv, items, 2, 60, soon(20), NULL));
    assert_status(items[0].status, CAIRN_NOSPACE);
    assert_ok(items[1].status);
    test_free(bytes);
    uint64_t room = 0;
    items[1] = item_of(2, "0", &room, sizeof room);

    /* Gone, back, and silent. */
    server_kill(&s);
    assert_status(kv->ops->get(kv, &items[1], 1, soon(5), NULL), CAIRN_IO);
    server_start(&s);
    values_go_round(kv);
    server_freeze(&s, true);
    uint64_t begin = soon(0);
    assert_status(kv->ops->get(kv, &items[1], 1, soon(0.1), NULL), CAIRN_TIMEOUT);
    assert_true(soon(0) - begin < 5 * SECOND_NS);
    server_freeze(&s, false);
    values_go_round(kv);
    kv->ops->close(kv);

    /* Where nothing may be put. */
    cairn_error error = {0};
    kv = kv_open(&s, "elsewhere", NULL, NULL, NULL);
    assert_status(kv->ops->put(kv, &items[1], 1, 60, soon(5), &error), CAIRN_IO);
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
    values_go_round(kv);
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
        cairn_kv_item item = item_of(1, "p", &byte, 1);
        kv = kv_open(&s, "bucket", wrong[i].id, wrong[i].secret, wrong[i].region);
        assert_status(kv->ops->put(kv, &item, 1, 60, soon(5), &error), CAIRN_INVALID);
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
