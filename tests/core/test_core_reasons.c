/*
 * test_core_reasons - each reason of the closed list, reached on purpose.
 */
#include "core_driver.h"

static talk_prompt p, q;

static talk base_talk(void)
{
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 120);
    talk_add(&t, CAIRN_ROLE_USER, 2, 120);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 3, 120);
    talk_add(&t, CAIRN_ROLE_USER, 4, 120);
    return t;
}

static cairn_decision ask(driver *d, const talk *t, cairn_resume_mode mode)
{
    talk_render(t, mode, &p);
    return driver_ask(d, &p.prompt, NULL, 0);
}

static void start(driver *d, uint64_t ram_bytes_max, uint32_t slots)
{
    cairn_core_options o = driver_options();
    o.slots = slots;
    o.ram_bytes_max = ram_bytes_max;
    driver_init(d, &o, 1);
}

static cairn_blob_id find_blob(const driver *d, bool rows, uint32_t end)
{
    for (uint32_t i = 0; i < d->count_blobs; i++) {
        if (d->blobs[i].rows == rows && (end == 0 || d->blobs[i].end == end)) {
            return d->blobs[i].id;
        }
    }
    return 0;
}

static void new_none_off_never_taken(void **state)
{
    (void)state;
    driver d;
    start(&d, 1 << 20, 1);
    talk t = base_talk();
    assert_int_equal(ask(&d, &t, CAIRN_RESUME_FAST).reason, CAIRN_REASON_NEW);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    cairn_token answer[3] = {5, 6, 7};
    (void)driver_ask(&d, &p.prompt, answer, 3);
    memcpy(q.tokens, p.tokens, p.prompt.count * sizeof(cairn_token));
    memcpy(q.tokens + p.prompt.count, answer, sizeof answer);
    q.tokens[p.prompt.count + 3] = 8;
    q.prompt = p.prompt;
    q.prompt.tokens = q.tokens;
    q.prompt.count = p.prompt.count + 4;
    cairn_decision decision = driver_ask(&d, &q.prompt, NULL, 0);
    assert_int_equal(decision.reason, CAIRN_REASON_NONE);
    assert_int_equal(decision.source, CAIRN_SOURCE_SLOT);
    decision = ask(&d, &t, CAIRN_RESUME_OFF);
    assert_int_equal(decision.reason, CAIRN_REASON_OFF);
    assert_int_equal(decision.resume, 0);
    q.tokens[200] = 999; /* inside a message, between two cuts */
    decision = driver_ask(&d, &q.prompt, NULL, 0);
    assert_int_equal(decision.reason, CAIRN_REASON_NEVER_TAKEN);
    assert_int_equal(decision.reason_position, 200);
    assert_int_equal(decision.divergence_message, 1);
    assert_int_equal(decision.divergence_role, CAIRN_ROLE_USER);
    driver_release(&d);
}

static void thinned_and_no_room_name_the_bytes(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.state_bytes_max = 1 << 16;
    o.index_bytes_max = 1 << 16;
    o.ram_bytes_max = ((uint64_t)3 * (1 << 16) + (1 << 16)) * 17 / 16;
    o.take_ns = 1000;
    driver d;
    driver_init(&d, &o, 1);
    talk t = base_talk();
    for (uint32_t i = 0; i < 6; i++) {
        talk_add(&t, i % 2 ? CAIRN_ROLE_USER : CAIRN_ROLE_ASSISTANT, 20 + i, 100);
    }
    (void)ask(&d, &t, CAIRN_RESUME_FAST);
    bool thinned = false;
    for (uint32_t at = 60; at < p.prompt.count && !thinned; at += 9) {
        talk_render(&t, CAIRN_RESUME_FAST, &q);
        q.tokens[at] = 999;
        cairn_decision probe;
        assert_ok(cairn_core_probe(d.core, &q.prompt, d.now_ns, &probe, NULL));
        thinned = probe.reason == CAIRN_REASON_THINNED && probe.reason_bytes > o.ram_bytes_max &&
                  probe.reason_position > probe.resume;
    }
    assert_true(thinned);
    driver_release(&d);

    o.ram_bytes_max = 60000; /* less than a state */
    driver_init(&d, &o, 1);
    (void)ask(&d, &t, CAIRN_RESUME_FAST);
    cairn_decision decision = ask(&d, &t, CAIRN_RESUME_FAST);
    assert_int_equal(decision.reason, CAIRN_REASON_NO_ROOM);
    assert_true(decision.reason_bytes >= 60000 + (1 << 16));
    driver_release(&d);
}

static void evicted_by_a_smaller_budget(void **state)
{
    (void)state;
    driver d;
    start(&d, 1 << 20, 1);
    talk t = base_talk();
    talk other = base_talk();
    other.messages[0].seed = 70;
    (void)ask(&d, &t, CAIRN_RESUME_FAST);
    (void)ask(&d, &other, CAIRN_RESUME_FAST);
    cairn_core_stats stats;
    cairn_core_stats_get(d.core, &stats);
    assert_ok(driver_event(&d, &(cairn_event){.kind = CAIRN_EVENT_BUDGET, .bytes = stats.index_bytes + 200}));
    cairn_decision decision = ask(&d, &t, CAIRN_RESUME_FAST);
    assert_int_equal(decision.resume, 0);
    assert_int_equal(decision.reason, CAIRN_REASON_EVICTED);
    assert_true(decision.reason_bytes > 0);
    driver_release(&d);
}

static void damaged_foreign_and_engine(void **state)
{
    (void)state;
    static const struct {
        cairn_status status;
        cairn_reason reason;
    } cases[] = {{CAIRN_CORRUPT, CAIRN_REASON_DAMAGED}, {CAIRN_FOREIGN, CAIRN_REASON_FOREIGN}};
    for (uint32_t i = 0; i < 2; i++) {
        driver d;
        start(&d, 1 << 20, 1);
        talk t = base_talk();
        (void)ask(&d, &t, CAIRN_RESUME_FAST);
        uint32_t opener = p.starts[4];
        cairn_blob_id blob = find_blob(&d, false, opener);
        assert_true(blob != 0);
        cairn_event lost = {.kind = CAIRN_EVENT_LOST, .blob = blob, .status = cases[i].status};
        assert_ok(driver_event(&d, &lost));
        cairn_decision decision = ask(&d, &t, CAIRN_RESUME_FAST);
        assert_int_equal(decision.reason, cases[i].reason);
        assert_int_equal(decision.reason_position, opener);
        assert_true(decision.resume < opener && decision.resume > 0);
        driver_release(&d);
    }
    /* The engine refuses a state that memory has: it stays for others, and a nearer one serves this request. */
    uint64_t refused = 0;
    for (uint32_t i = 0; i < 200 && refused == 0; i++) {
        driver d;
        start(&d, 1 << 20, 1);
        cairn_rng_init(&d.rng, i);
        talk t = base_talk();
        talk other = base_talk();
        other.messages[0].seed = 70;
        (void)ask(&d, &t, CAIRN_RESUME_FAST);
        (void)ask(&d, &other, CAIRN_RESUME_FAST);
        d.fail_chance = 0.3;
        (void)ask(&d, &t, CAIRN_RESUME_FAST);
        refused = d.reasons[CAIRN_REASON_ENGINE];
        driver_release(&d);
    }
    assert_true(refused > 0);
}

static void rows_gone(void **state)
{
    (void)state;
    driver d;
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.rows_move = false; /* what leaves its slot is gone */
    driver_init(&d, &o, 1);
    talk t = base_talk();
    talk other = base_talk();
    other.messages[0].seed = 70;
    (void)ask(&d, &t, CAIRN_RESUME_FAST);
    (void)ask(&d, &other, CAIRN_RESUME_FAST);
    cairn_decision decision = ask(&d, &t, CAIRN_RESUME_FAST);
    assert_int_equal(decision.resume, 0);
    assert_int_equal(decision.reason, CAIRN_REASON_ROWS_GONE);
    driver_release(&d);
}

static void provenance_and_cuts(void **state)
{
    (void)state;
    driver d;
    start(&d, 1 << 20, 1);
    talk t = base_talk();
    cairn_token answer[200];
    talk_words(50, answer, 200);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    uint32_t slot = driver_begin(&d, &p.prompt, CAIRN_SLOT_ANY, NULL);
    while (!d.requests[slot].ready) {
        driver_read(&d, slot);
    }
    for (uint32_t i = 0; i < 200; i += 50) {
        driver_answer(&d, slot, answer + i, 50);
    }
    driver_finish(&d, slot, CAIRN_END_DONE);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 50, 200);
    talk_add(&t, CAIRN_ROLE_USER, 60, 30);
    assert_int_equal(ask(&d, &t, CAIRN_RESUME_EXACT).reason, CAIRN_REASON_PROVENANCE);
    driver_release(&d);

    start(&d, 1 << 20, 1);
    cairn_token tokens[300];
    talk_words(3, tokens, 300);
    for (uint32_t i = 0; i < 3; i++) { /* fast makes a cut of its own at 150 */
        tokens[150] = (cairn_token)(900 + i);
        talk_plain(tokens, 300, CAIRN_RESUME_FAST, &p);
        (void)driver_ask(&d, &p.prompt, NULL, 0);
    }
    talk_plain(tokens, 300, CAIRN_RESUME_EXACT, &p);
    assert_int_equal(driver_ask(&d, &p.prompt, NULL, 0).reason, CAIRN_REASON_CUTS);
    driver_release(&d);
}

static void pending(void **state)
{
    (void)state;
    driver d;
    start(&d, 1 << 20, 2);
    talk t = base_talk();
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    uint32_t slot = driver_begin(&d, &p.prompt, CAIRN_SLOT_ANY, NULL);
    driver_read(&d, slot);
    talk_render(&t, CAIRN_RESUME_FAST, &q);
    uint32_t second = driver_begin(&d, &q.prompt, CAIRN_SLOT_ANY, NULL);
    const cairn_decision *decision = cairn_core_decision(d.core, d.requests[second].id);
    assert_int_equal(decision->reason, CAIRN_REASON_PENDING);
    driver_finish(&d, slot, CAIRN_END_STOPPED);
    driver_finish(&d, second, CAIRN_END_STOPPED);
    driver_release(&d);
}

static void gate(void **state)
{
    (void)state;
    driver d;
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.trim = CAIRN_TRIM_WINDOW;
    o.rows_move = false;
    o.take_ns = 1e12; /* no states at all */
    driver_init(&d, &o, 1);
    talk t = base_talk();
    (void)ask(&d, &t, CAIRN_RESUME_FAST);
    t.messages[3].seed = 88;
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    for (uint32_t wide = 0; wide < 2; wide++) {
        uint32_t floors[] = {wide ? 100 : p.prompt.count - 20};
        cairn_event event = {.kind = CAIRN_EVENT_REQUEST,
                             .request = 1000 + wide,
                             .prompt = &p.prompt,
                             .slot = 0,
                             .trim_floors = floors};
        const cairn_action *list;
        uint32_t count;
        assert_ok(cairn_core_step(d.core, &event, &list, &count, NULL));
        const cairn_decision *decision = cairn_core_decision(d.core, 1000 + wide);
        if (wide) { /* the window has not been overwritten: cut in place */
            assert_int_equal(decision->resume, decision->divergence);
            assert_int_equal(decision->source, CAIRN_SOURCE_SLOT);
            assert_int_equal(list[0].kind, CAIRN_ACTION_TRIM);
        } else {
            assert_int_equal(decision->reason, CAIRN_REASON_GATE);
            assert_int_equal(decision->resume, 0);
        }
        cairn_event finish = {.kind = CAIRN_EVENT_FINISH, .request = 1000 + wide};
        assert_ok(cairn_core_step(d.core, &finish, &list, &count, NULL));
        if (!wide) { /* it ended unprepared: fill the slot again */
            t.messages[3].seed = 4;
            d.slots[0].length = 0;
            (void)ask(&d, &t, CAIRN_RESUME_FAST);
            t.messages[3].seed = 88;
            talk_render(&t, CAIRN_RESUME_FAST, &p);
        }
    }
    driver_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_none_off_never_taken),
        cmocka_unit_test(thinned_and_no_room_name_the_bytes),
        cmocka_unit_test(evicted_by_a_smaller_budget),
        cmocka_unit_test(damaged_foreign_and_engine),
        cmocka_unit_test(rows_gone),
        cmocka_unit_test(provenance_and_cuts),
        cmocka_unit_test(pending),
        cmocka_unit_test(gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
