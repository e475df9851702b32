/*
 * test_core_counts - the learned counts outlive the process, and damaged ones are refused.
 */
#include "core_driver.h"

#include "core/core_state.h"
#include "core/divergence.h"

static uint8_t bytes[1 << 16];

static cairn_decision ask(driver *d, uint8_t space, uint32_t seed)
{
    static talk t;
    static talk_prompt p;
    t = (talk){0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 200);
    talk_add(&t, CAIRN_ROLE_USER, 2, 100);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 3, 60);
    talk_add(&t, CAIRN_ROLE_USER, seed, 80);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    p.prompt.space.bytes[0] = space;
    cairn_token answer[8];
    talk_words(seed + 1, answer, 8);
    return driver_ask(d, &p.prompt, answer, 8);
}

static const float *counts_of(const driver *d, uint8_t space)
{
    for (uint32_t i = 0; i < d->core->tree.spaces.high; i++) {
        const cairn_space *item = cairn_space_at(&d->core->tree, i);
        if (item->alive && item->name.bytes[0] == space) {
            return item->counts;
        }
    }
    return NULL;
}

/* A core that has learned in two namespaces; its bytes. */
static size_t learn_and_save(float *ret_counts)
{
    cairn_core_options o = driver_options();
    driver d;
    driver_init(&d, &o, 1);
    for (uint32_t i = 0; i < 12; i++) {
        (void)ask(&d, 1, 100 + i);
        (void)ask(&d, 2, 300 + i / 4);
    }
    assert_non_null(counts_of(&d, 1));
    memcpy(ret_counts, counts_of(&d, 1), CAIRN_DIVERGENCE_COUNTS * sizeof(float));
    size_t need = cairn_core_counts_save(d.core, NULL, 0);
    size_t len_bytes = cairn_core_counts_save(d.core, bytes, sizeof bytes);
    assert_true(len_bytes > 0 && len_bytes <= need && len_bytes <= sizeof bytes);
    assert_ok(cairn_core_verify(d.core, NULL));
    driver_release(&d);
    return len_bytes;
}

static void counts_come_back_when_their_namespace_is_used(void **state)
{
    (void)state;
    float learned[CAIRN_DIVERGENCE_COUNTS];
    size_t len_bytes = learn_and_save(learned);
    assert_true(learned[CAIRN_DIVERGENCE_SUM] > 5);
    cairn_core_options o = driver_options();
    driver d;
    driver_init(&d, &o, 2);
    assert_ok(cairn_core_counts_load(d.core, bytes, len_bytes, NULL));
    assert_ok(cairn_core_verify(d.core, NULL));
    (void)ask(&d, 3, 500); /* a namespace that nothing is known of */
    (void)ask(&d, 1, 100);
    const float *now = counts_of(&d, 1);
    assert_non_null(now);
    /* The first request finds no path to part from: the divergences are the loaded ones. */
    assert_memory_equal(now, learned, (CAIRN_DIVERGENCE_SUM + 1) * sizeof(float));
    const float *other = counts_of(&d, 3);
    assert_true(other == NULL || other[CAIRN_DIVERGENCE_SUM] == 0.0f);
    driver_release(&d);
}

static void what_no_request_asked_for_is_saved_again(void **state)
{
    (void)state;
    static uint8_t again[1 << 16];
    float learned[CAIRN_DIVERGENCE_COUNTS];
    size_t len_bytes = learn_and_save(learned);
    cairn_core_options o = driver_options();
    driver d;
    driver_init(&d, &o, 3);
    assert_ok(cairn_core_counts_load(d.core, bytes, len_bytes, NULL));
    assert_int_equal(cairn_core_counts_save(d.core, again, sizeof again), len_bytes);
    assert_memory_equal(again, bytes, len_bytes);
    (void)ask(&d, 1, 100);
    assert_int_equal(cairn_core_counts_save(d.core, again, sizeof again), len_bytes); /* no record twice */
    cairn_event forget = {.kind = CAIRN_EVENT_FORGET, .now_ns = d.now_ns, .space.bytes = {2}};
    assert_ok(driver_event(&d, &forget));
    assert_true(cairn_core_counts_save(d.core, again, sizeof again) < len_bytes);
    forget = (cairn_event){.kind = CAIRN_EVENT_FORGET, .now_ns = d.now_ns, .all = true};
    assert_ok(driver_event(&d, &forget));
    assert_ok(cairn_core_verify(d.core, NULL));
    size_t empty = cairn_core_counts_save(d.core, again, sizeof again);
    assert_ok(cairn_core_counts_load(d.core, again, empty, NULL));
    driver_release(&d);
}

static void every_flipped_byte_and_every_cut_is_refused(void **state)
{
    (void)state;
    float learned[CAIRN_DIVERGENCE_COUNTS];
    size_t len_bytes = learn_and_save(learned);
    cairn_core_options o = driver_options();
    driver d;
    driver_init(&d, &o, 4);
    for (size_t i = 0; i < len_bytes; i++) {
        bytes[i] ^= 0x10;
        cairn_status status = cairn_core_counts_load(d.core, bytes, len_bytes, NULL);
        assert_true(status == CAIRN_CORRUPT || status == CAIRN_FOREIGN);
        bytes[i] ^= 0x10;
        assert_int_not_equal(cairn_core_counts_load(d.core, bytes, i, NULL), CAIRN_OK);
    }
    bytes[8]++; /* the version */
    assert_int_equal(cairn_core_counts_load(d.core, bytes, len_bytes, NULL), CAIRN_FOREIGN);
    bytes[8]--;
    assert_int_equal(d.core->count_kept, 0);
    assert_ok(cairn_core_counts_load(d.core, bytes, len_bytes, NULL));
    assert_ok(cairn_core_verify(d.core, NULL));
    driver_release(&d);
}

static void names_of_namespaces_are_not_in_the_bytes(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    driver d;
    driver_init(&d, &o, 5);
    static talk t;
    static talk_prompt p;
    talk_add(&t, CAIRN_ROLE_USER, 2, 100);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    for (uint32_t i = 0; i < CAIRN_NAMESPACE_BYTES; i++) {
        p.prompt.space.bytes[i] = (uint8_t)(0xa0 + i);
    }
    cairn_token answer[4] = {1, 2, 3, 4};
    (void)driver_ask(&d, &p.prompt, answer, 4);
    size_t len_bytes = cairn_core_counts_save(d.core, bytes, sizeof bytes);
    assert_true(len_bytes > 100);
    for (size_t i = 0; i + 8 <= len_bytes; i++) {
        assert_memory_not_equal(bytes + i, p.prompt.space.bytes, 8);
    }
    driver_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_come_back_when_their_namespace_is_used),
        cmocka_unit_test(what_no_request_asked_for_is_saved_again),
        cmocka_unit_test(every_flipped_byte_and_every_cut_is_refused),
        cmocka_unit_test(names_of_namespaces_are_not_in_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
