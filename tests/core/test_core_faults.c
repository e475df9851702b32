/*
 * test_core_faults - failing allocations, and events that do not fit: nothing breaks, nothing changes.
 */
#include "base/mem_test.h"
#include "core_driver.h"

static talk_prompt p;

/* A request during which memory may be short: it is answered, or refused as a whole. */
static void try_ask(driver *d, const talk *t)
{
    talk_render(t, CAIRN_RESUME_FAST, &p);
    cairn_status status;
    uint32_t slot = driver_begin(d, &p.prompt, CAIRN_SLOT_ANY, &status);
    assert_true(status == CAIRN_OK || status == CAIRN_NOMEM);
    if (status != CAIRN_OK) {
        return;
    }
    while (!d->requests[slot].ready) {
        driver_read(d, slot);
    }
    cairn_token answer[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    driver_answer(d, slot, answer, 9);
    driver_finish(d, slot, CAIRN_END_DONE);
}

static void one_failed_allocation_still_an_answer(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        uint64_t n = 1;
        for (;; n++) {
            cairn_mem_test heap;
            cairn_mem_test_init(&heap, n);
            heap.fail_after = after == 1;
            cairn_core_options o = driver_options();
            driver d;
            if (driver_init_mem(&d, &o, n, &heap.mem) == CAIRN_OK) {
                talk t = {0};
                talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 100);
                talk_add(&t, CAIRN_ROLE_USER, 2, 80);
                for (uint32_t i = 0; i < 5; i++) {
                    t.messages[1].seed = i % 3;
                    try_ask(&d, &t);
                }
            }
            driver_release(&d);
            assert_int_equal(cairn_mem_test_leaked(&heap), 0);
            uint64_t fails = heap.fails;
            cairn_mem_test_release(&heap);
            if (fails == 0) {
                break;
            }
        }
        assert_true(n > 10);
        printf("%llu allocations\n", (unsigned long long)n - 1);
    }
}

static cairn_status step(driver *d, cairn_event event)
{
    const cairn_action *list;
    uint32_t count;
    return cairn_core_step(d->core, &event, &list, &count, NULL);
}

static void events_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    driver d;
    cairn_core_options o = driver_options();
    o.slots = 1;
    driver_init(&d, &o, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_USER, 2, 150);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_READ, .request = 1, .position = 5}),
                  CAIRN_INVALID);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_FINISH, .request = 1}), CAIRN_INVALID);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_STORED, .blob = 77, .bytes = 1}), CAIRN_INVALID);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_LOST, .blob = 77}), CAIRN_INVALID);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_SLOT_LOST, .slot = 9}), CAIRN_INVALID);
    assert_status(step(&d, (cairn_event){.kind = (cairn_event_kind)99}), CAIRN_INVALID);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_REQUEST, .request = 5, .slot = CAIRN_SLOT_ANY}),
                  CAIRN_INVALID);
    assert_status(
        step(&d, (cairn_event){.kind = CAIRN_EVENT_REQUEST, .request = 5, .slot = 4, .prompt = &p.prompt}),
        CAIRN_INVALID);
    cairn_prompt wrong = p.prompt;
    cairn_boundary backwards[] = {{.position = 9}, {.position = 3}};
    wrong.boundaries = backwards;
    wrong.count_boundaries = 2;
    assert_status(
        step(&d, (cairn_event){.kind = CAIRN_EVENT_REQUEST, .request = 5, .slot = 0, .prompt = &wrong}),
        CAIRN_INVALID);
    wrong.count_boundaries = 0;
    wrong.count = o.slot_tokens_max;
    assert_status(
        step(&d, (cairn_event){.kind = CAIRN_EVENT_REQUEST, .request = 5, .slot = 0, .prompt = &wrong}),
        CAIRN_LIMIT);
    uint32_t slot = driver_begin(&d, &p.prompt, CAIRN_SLOT_ANY, NULL);
    cairn_request_id id = d.requests[slot].id;
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_READ, .request = id, .position = 20}),
                  CAIRN_INVALID);
    cairn_status status;
    (void)driver_begin(&d, &p.prompt, CAIRN_SLOT_ANY, &status);
    assert_status(status, CAIRN_BUSY);
    driver_read(&d, slot);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_READ, .request = id, .position = 5000}),
                  CAIRN_INVALID);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_RESUMED, .request = id}), CAIRN_INVALID);
    assert_status(step(&d, (cairn_event){.kind = CAIRN_EVENT_ANSWERED, .request = id, .count = 1}),
                  CAIRN_INVALID);
    assert_ok(cairn_core_verify(d.core, NULL));
    while (!d.requests[slot].ready) {
        driver_read(&d, slot);
    }
    driver_finish(&d, slot, CAIRN_END_DONE);
    driver_release(&d);
}

static void wrong_options_make_no_core(void **state)
{
    (void)state;
    cairn_core *core;
    cairn_core_options o = driver_options();
    o.slots = 0;
    assert_status(cairn_core_new(cairn_mem_default(), &o, &core, NULL), CAIRN_INVALID);
    o = driver_options();
    o.batch_tokens_max = 0;
    assert_status(cairn_core_new(cairn_mem_default(), &o, &core, NULL), CAIRN_INVALID);
    o = driver_options();
    o.slot_tokens_max = 1;
    assert_status(cairn_core_new(cairn_mem_default(), &o, &core, NULL), CAIRN_INVALID);
    cairn_core_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failed_allocation_still_an_answer),
        cmocka_unit_test(events_that_do_not_fit_are_refused),
        cmocka_unit_test(wrong_options_make_no_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
