/*
 * Keys let in, and namespaces are walls.
 */
#include "test_support.h"

#include "serve/namespace.h"

static void without_keys_everyone_comes_in_and_shares(void **state)
{
    (void)state;
    cairn_keys *keys = NULL;
    assert_ok(cairn_keys_new(cairn_mem_default(), NULL, NULL, 0, &keys, NULL));
    assert_true(cairn_keys_allow(keys, NULL));
    assert_true(cairn_keys_allow(keys, "Bearer any"));
    cairn_namespace a, b, c;
    assert_ok(cairn_keys_namespace(keys, NULL, NULL, &a));
    assert_ok(cairn_keys_namespace(keys, "Bearer any", NULL, &b));
    assert_ok(cairn_keys_namespace(keys, NULL, "salt", &c));
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &c, sizeof a);
    cairn_keys_free(keys);
}

static void with_keys_only_they_come_in_and_share_nothing(void **state)
{
    (void)state;
    const char *const list[] = {"first-key", "second-key"};
    cairn_keys *keys = NULL;
    assert_ok(cairn_keys_new(cairn_mem_default(), NULL, list, 2, &keys, NULL));
    assert_true(cairn_keys_allow(keys, "Bearer first-key"));
    assert_true(cairn_keys_allow(keys, "bearer  second-key"));
    assert_false(cairn_keys_allow(keys, "Bearer first-ke"));
    assert_false(cairn_keys_allow(keys, "Bearer "));
    assert_false(cairn_keys_allow(keys, "Basic first-key"));
    assert_false(cairn_keys_allow(keys, NULL));
    cairn_namespace a, b, c, d;
    assert_ok(cairn_keys_namespace(keys, "Bearer first-key", NULL, &a));
    assert_ok(cairn_keys_namespace(keys, "Bearer second-key", NULL, &b));
    assert_ok(cairn_keys_namespace(keys, "Bearer first-key", "s", &c));
    assert_ok(cairn_keys_namespace(keys, "Bearer second-key", "s", &d));
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&c, &d, sizeof c);
    assert_memory_not_equal(&a, &c, sizeof a);
    cairn_keys_free(keys);
}

static void empty_keys_are_refused(void **state)
{
    (void)state;
    const char *const list[] = {""};
    cairn_keys *keys = NULL;
    assert_status(cairn_keys_new(cairn_mem_default(), NULL, list, 1, &keys, NULL), CAIRN_INVALID);
    assert_null(keys);
}

static void namespaces_are_the_same_under_the_same_secret_only(void **state)
{
    (void)state;
    const uint8_t one[CAIRN_KEYS_SECRET_BYTES] = {1}, two[CAIRN_KEYS_SECRET_BYTES] = {2};
    const uint8_t *const secrets[] = {one, one, two};
    const char *const list[] = {"first-key"};
    cairn_namespace spaces[3];
    for (int i = 0; i < 3; i++) {
        cairn_keys *keys = NULL;
        assert_ok(cairn_keys_new(cairn_mem_default(), secrets[i], list, 1, &keys, NULL));
        assert_ok(cairn_keys_namespace(keys, "Bearer first-key", "salt", &spaces[i]));
        cairn_keys_free(keys);
    }
    assert_memory_equal(&spaces[0], &spaces[1], sizeof spaces[0]);
    assert_memory_not_equal(&spaces[0], &spaces[2], sizeof spaces[0]);
}

static void replaced_keys_let_in_and_one_that_stays_keeps_its_namespace(void **state)
{
    (void)state;
    const char *const first[] = {"stays", "goes"}, *const second[] = {"comes", "stays"},
                      *const wrong[] = {""};
    cairn_keys *keys = NULL;
    assert_ok(cairn_keys_new(cairn_mem_default(), NULL, first, 2, &keys, NULL));
    cairn_namespace before, after;
    assert_ok(cairn_keys_namespace(keys, "Bearer stays", NULL, &before));
    assert_ok(cairn_keys_replace(keys, second, 2, NULL));
    assert_true(cairn_keys_allow(keys, "Bearer comes"));
    assert_true(cairn_keys_allow(keys, "Bearer stays"));
    assert_false(cairn_keys_allow(keys, "Bearer goes"));
    assert_ok(cairn_keys_namespace(keys, "Bearer stays", NULL, &after));
    assert_memory_equal(&before, &after, sizeof before);
    assert_status(cairn_keys_replace(keys, wrong, 1, NULL), CAIRN_INVALID);
    assert_true(cairn_keys_allow(keys, "Bearer comes")); /* as before */
    cairn_keys_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keys_everyone_comes_in_and_shares),
        cmocka_unit_test(with_keys_only_they_come_in_and_share_nothing),
        cmocka_unit_test(replaced_keys_let_in_and_one_that_stays_keeps_its_namespace),
        cmocka_unit_test(empty_keys_are_refused),
        cmocka_unit_test(namespaces_are_the_same_under_the_same_secret_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
