/*
 * The Redis driver and the shared tier above it, against a real redis-server: one, and a cluster of three.
 */
#include <hiredis/hiredis.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "store/server_support.h"
#include "store/tier_redis.h"
#include "store/tier_shared.h"

#define SECOND_NS UINT64_C(1000000000)

static cairn_kv *kv_open(const server *s, const char *password, int database)
{
    cairn_kv *kv = NULL;
    cairn_redis_options options = {
        .host = "127.0.0.1", .port = s->port, .password = password, .database = database};
    assert_ok(cairn_redis_open(cairn_mem_default(), &options, &kv, NULL));
    return kv;
}

static void one_server_keeps_values_until_their_time(void **state)
{
    (void)state;
    server s;
    redis_start(&s, NULL);
    cairn_kv *kv = kv_open(&s, NULL, 3);
    kv_values_go_round(kv);
    uint8_t byte = 7;
    cairn_kv_item item = kv_item_of(1, "p", &byte, 1);
    assert_ok(kv->ops->put(kv, &item, 1, 60, kv_soon(5), NULL));
    assert_int_equal(redis_do(&s, "DBSIZE"), 0); /* it went to database 3 */
    redis_do(&s, "SWAPDB 0 3");
    char key[200];
    (void)snprintf(key, sizeof key, "cairn:{%.64s}:p", item.key);
    long long ttl = redis_do(&s, "TTL %s", key);
    assert_true(ttl > 50 && ttl <= 60);
    kv->ops->close(kv);
    server_end(&s);
}

static void password_is_given_and_a_wrong_one_is_said(void **state)
{
    (void)state;
    server s;
    const char *const more[] = {"--requirepass", "open sesame", NULL};
    redis_start(&s, more);
    cairn_kv *kv = kv_open(&s, "open sesame", 0);
    kv_values_go_round(kv);
    kv->ops->close(kv);
    const char *wrong[] = {NULL, "sesame"};
    for (int i = 0; i < 2; i++) {
        cairn_error error = {0};
        kv = kv_open(&s, wrong[i], 0);
        uint8_t byte = 7;
        cairn_kv_item item = kv_item_of(1, "p", &byte, 1);
        assert_status(kv->ops->put(kv, &item, 1, 60, kv_soon(5), &error), CAIRN_INVALID);
        assert_non_null(strstr(error.detail, wrong[i] == NULL ? "NOAUTH" : "WRONGPASS"));
        kv->ops->close(kv);
    }
    server_end(&s);
}

static void server_that_went_away_and_came_back_is_used_again(void **state)
{
    (void)state;
    server s;
    redis_start(&s, NULL);
    cairn_kv *kv = kv_open(&s, NULL, 0);
    kv_values_go_round(kv);
    server_kill(&s);
    uint8_t byte = 7;
    cairn_kv_item item = kv_item_of(1, "p", &byte, 1);
    assert_status(kv->ops->get(kv, &item, 1, kv_soon(5), NULL), CAIRN_IO);
    server_start(&s);
    kv_values_go_round(kv);
    /* A restart between two calls is not even noticed. */
    server_kill(&s);
    server_start(&s);
    kv_values_go_round(kv);
    kv->ops->close(kv);
    server_end(&s);
}

static void server_that_does_not_answer_is_waited_for_until_then(void **state)
{
    (void)state;
    server s;
    redis_start(&s, NULL);
    cairn_kv *kv = kv_open(&s, NULL, 0);
    kv_values_go_round(kv);
    server_freeze(&s, true);
    uint8_t byte = 7;
    cairn_kv_item item = kv_item_of(1, "p", &byte, 1);
    uint64_t begin = kv_soon(0);
    assert_status(kv->ops->get(kv, &item, 1, kv_soon(0.1), NULL), CAIRN_TIMEOUT);
    assert_true(kv_soon(0) - begin >= SECOND_NS / 10);
    assert_status(item.status, CAIRN_CANCELLED);
    server_freeze(&s, false);
    kv_values_go_round(kv); /* and no answer of then is taken for one of now */
    kv->ops->close(kv);
    server_end(&s);
}

static void value_that_is_larger_than_its_room_is_not_taken(void **state)
{
    (void)state;
    server s;
    redis_start(&s, NULL);
    cairn_kv *kv = kv_open(&s, NULL, 0);
    uint8_t bytes[100] = {1, 2, 3};
    cairn_kv_item item = kv_item_of(1, "p", bytes, sizeof bytes);
    assert_ok(kv->ops->put(kv, &item, 1, 60, kv_soon(5), NULL));
    item.room_bytes = 99;
    assert_ok(kv->ops->get(kv, &item, 1, kv_soon(5), NULL));
    assert_status(item.status, CAIRN_LIMIT);
    kv->ops->close(kv);
    server_end(&s);
}

static void full_server_says_so_item_by_item(void **state)
{
    (void)state;
    server s;
    const char *const more[] = {"--maxmemory", "3mb", "--maxmemory-policy", "noeviction", NULL};
    redis_start(&s, more);
    cairn_kv *kv = kv_open(&s, NULL, 0);
    static uint8_t bytes[4 << 20];
    cairn_kv_item items[2] = {kv_item_of(1, "0", bytes, sizeof bytes),
                              kv_item_of(2, "0", bytes, sizeof bytes)};
    assert_ok(kv->ops->put(kv, items, 2, 60, kv_soon(20), NULL));
    assert_status(items[1].status, CAIRN_NOSPACE);
    kv->ops->close(kv);
    server_end(&s);
}

/* --- a cluster of three ----------------------------------------------------------------------------------------- */

static void cluster_of_three_keeps_each_key_where_it_belongs(void **state)
{
    (void)state;
    server nodes[3];
    redis_cluster_start(nodes);
    cairn_kv *kv = kv_open(&nodes[0], NULL, 0);
    uint8_t byte = 7;
    kv_values_go_round(kv);
    enum { COUNT = 60 };
    cairn_kv_item items[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i] = kv_item_of(i, "h", &byte, 1);
    }
    assert_ok(kv->ops->put(kv, items, COUNT, 60, kv_soon(5), NULL));
    long long sum = 0;
    for (int i = 0; i < 3; i++) {
        long long here = redis_do(&nodes[i], "DBSIZE");
        assert_true(here > 0 && here < COUNT);
        sum += here;
    }
    assert_int_equal(sum, COUNT);

    /* A slot that moves to another node while it is used: ASK, then MOVED. */
    char key[200];
    (void)snprintf(key, sizeof key, "cairn:{%.64s}:h", items[0].key);
    int slot = (int)cairn_redis_slot(key),
        from = slot <= 5460    ? 0
               : slot <= 10921 ? 1
                               : 2,
        to = (from + 1) % 3;
    redisContext *link = redisConnect("127.0.0.1", nodes[from].port);
    redisReply *from_id = redisCommand(link, "CLUSTER MYID");
    redisContext *link_to = redisConnect("127.0.0.1", nodes[to].port);
    redisReply *to_id = redisCommand(link_to, "CLUSTER MYID");
    redis_do(&nodes[to], "CLUSTER SETSLOT %d IMPORTING %s", slot, from_id->str);
    redis_do(&nodes[from], "CLUSTER SETSLOT %d MIGRATING %s", slot, to_id->str);
    redis_do(&nodes[from], "MIGRATE 127.0.0.1 %d %s 0 5000", nodes[to].port, key);
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i] = kv_item_of(i, "h", &byte, 1);
    }
    assert_ok(kv->ops->get(kv, items, COUNT, kv_soon(5), NULL));
    assert_ok(items[0].status);
    for (int i = 0; i < 2; i++) {
        redis_do(&nodes[i == 0 ? to : from], "CLUSTER SETSLOT %d NODE %s", slot, to_id->str);
    }
    assert_ok(kv->ops->get(kv, items, COUNT, kv_soon(5), NULL));
    assert_ok(items[0].status);
    freeReplyObject(from_id);
    freeReplyObject(to_id);
    redisFree(link);
    redisFree(link_to);

    /* The node that was named at first goes away: the others still know the way. */
    server_kill(&nodes[0]);
    int found = 0;
    for (int tries = 0; tries < 5 && found == 0; tries++) {
        for (uint32_t i = 0; i < COUNT && found == 0; i++) {
            items[i] = kv_item_of(i, "h", &byte, 1);
            found +=
                kv->ops->get(kv, &items[i], 1, kv_soon(2), NULL) == CAIRN_OK && items[i].status == CAIRN_OK;
        }
    }
    assert_true(found > 0);
    kv->ops->close(kv);
    for (int i = 0; i < 3; i++) {
        server_end(&nodes[i]);
    }
}

static void slots_are_those_of_the_cluster_specification(void **state)
{
    (void)state;
    assert_int_equal(cairn_redis_slot("123456789"), 0x31c3 % 16384);
    assert_int_equal(cairn_redis_slot("{user1000}.following"), cairn_redis_slot("{user1000}.followers"));
    assert_int_equal(cairn_redis_slot("foo{}{bar}"), cairn_redis_slot("foo{}{bar}"));
    assert_true(cairn_redis_slot("foo{}{bar}") != cairn_redis_slot("bar"));
    assert_int_equal(cairn_redis_slot("foo{{bar}}zap"), cairn_redis_slot("{bar"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_the_cluster_specification),
        cmocka_unit_test(one_server_keeps_values_until_their_time),
        cmocka_unit_test(password_is_given_and_a_wrong_one_is_said),
        cmocka_unit_test(server_that_went_away_and_came_back_is_used_again),
        cmocka_unit_test(server_that_does_not_answer_is_waited_for_until_then),
        cmocka_unit_test(value_that_is_larger_than_its_room_is_not_taken),
        cmocka_unit_test(full_server_says_so_item_by_item),
        cmocka_unit_test(cluster_of_three_keeps_each_key_where_it_belongs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
