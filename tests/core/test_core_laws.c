/*
 * test_core_laws - the laws by name, and the integer cases that went wrong in other systems.
 */
#include "core_driver.h"

static talk_prompt p, q;

/* system, user, answer, user, answer, user: 6 messages of about `size` tokens. */
static talk long_talk(uint32_t size)
{
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, size);
    for (uint32_t i = 1; i < 6; i++) {
        talk_add(&t, i % 2 ? CAIRN_ROLE_USER : CAIRN_ROLE_ASSISTANT, 1 + i, size);
    }
    return t;
}

static cairn_decision ask_talk(driver *d, const talk *t, cairn_resume_mode mode)
{
    talk_render(t, mode, &p);
    return driver_ask(d, &p.prompt, NULL, 0);
}

static void start(driver *d, uint32_t slots)
{
    cairn_core_options o = driver_options();
    o.slots = slots;
    driver_init(d, &o, 1);
    d->take_ns = 1000000;
}

static void whole_path(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(100);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    t.messages[1].seed = 99; /* the same lengths, other words: nothing behind it may serve */
    cairn_decision decision = ask_talk(&d, &t, CAIRN_RESUME_FAST);
    assert_true(decision.resume <= p.starts[1] + 2 && decision.resume >= p.starts[1]);
    driver_release(&d);
}

static void at_least_one_token_is_read(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(60);
    for (int i = 0; i < 4; i++) {
        cairn_decision decision = ask_talk(&d, &t, CAIRN_RESUME_FAST);
        assert_true(decision.resume < p.prompt.count);
        assert_true(i == 0 || decision.resume + 8 >= p.prompt.count);
        assert_true(decision.least >= 1);
    }
    const cairn_token one[] = {7};
    talk_plain(one, 1, CAIRN_RESUME_FAST, &p);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(driver_ask(&d, &p.prompt, NULL, 0).resume, 0);
    }
    driver_release(&d);
}

static void edits_destroy_nothing(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk a = long_talk(100);
    talk b = a;
    b.messages[3].seed = 77;
    (void)ask_talk(&d, &a, CAIRN_RESUME_FAST);
    uint32_t edit = p.starts[3];
    cairn_decision decision = ask_talk(&d, &b, CAIRN_RESUME_FAST);
    assert_true(decision.resume >= edit);
    for (int i = 0; i < 3; i++) { /* A, B, A, B: each finds its own end */
        assert_true(ask_talk(&d, &a, CAIRN_RESUME_FAST).resume + 8 >= p.prompt.count);
        assert_true(ask_talk(&d, &b, CAIRN_RESUME_FAST).resume + 8 >= p.prompt.count);
    }
    driver_release(&d);
}

static void using_is_not_consuming(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(100);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    for (uint32_t i = 0; i < 10; i++) { /* one document, many questions */
        t.messages[5].seed = 500 + i;
        assert_true(ask_talk(&d, &t, CAIRN_RESUME_FAST).resume >= p.starts[5]);
    }
    driver_release(&d);
}

static void work_done_is_kept(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(150);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    uint32_t slot = driver_begin(&d, &p.prompt, CAIRN_SLOT_ANY, NULL);
    while (d.requests[slot].position < p.prompt.count * 9 / 10) {
        driver_read(&d, slot);
    }
    uint32_t read = d.requests[slot].position;
    driver_finish(&d, slot, CAIRN_END_STOPPED);
    t.messages[5].count += 3; /* its end is another one */
    assert_true(ask_talk(&d, &t, CAIRN_RESUME_FAST).resume + 64 >= read);
    driver_release(&d);
}

static void nothing_is_forgotten_by_idling(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(100);
    talk other = long_talk(90);
    for (uint32_t i = 0; i < other.count; i++) {
        other.messages[i].seed += 1000;
    }
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    uint32_t whole = p.prompt.count;
    (void)ask_talk(&d, &other, CAIRN_RESUME_FAST); /* displaces it from its slot */
    d.now_ns += UINT64_C(1000000000) * 3600 * 24;
    talk_add(&t, CAIRN_ROLE_USER, 50, 20);
    assert_true(ask_talk(&d, &t, CAIRN_RESUME_FAST).resume + 4 >= whole);
    driver_release(&d);
}

static void namespaces_are_walls(void **state)
{
    (void)state;
    driver d;
    start(&d, 2);
    talk t = long_talk(100);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    p.prompt.space.bytes[5] = 1;
    cairn_decision decision = driver_ask(&d, &p.prompt, NULL, 0);
    assert_int_equal(decision.divergence, 0);
    assert_int_equal(decision.resume, 0);
    assert_int_equal(decision.reason, CAIRN_REASON_NEW);
    driver_release(&d);
}

static void what_is_not_to_be_stored_leaves_nothing(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(100);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    cairn_core_stats before, after;
    cairn_core_stats_get(d.core, &before);
    t.messages[5].seed = 4242;
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    p.prompt.no_store = true;
    assert_true(driver_ask(&d, &p.prompt, NULL, 0).resume >= p.starts[5]); /* it may use */
    cairn_core_stats_get(d.core, &after);
    assert_int_equal(before.tokens, after.tokens);
    assert_true(ask_talk(&d, &t, CAIRN_RESUME_FAST).divergence < p.starts[5] + 4);
    driver_release(&d);
}

static void exact_never_uses_decoded_states(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(100);
    cairn_token answer[40];
    talk_words(900, answer, 40);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    (void)driver_ask(&d, &p.prompt, answer, 40);
    uint32_t opener = p.starts[6];
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 900, 40);
    talk_add(&t, CAIRN_ROLE_USER, 901, 40);
    cairn_decision decision = ask_talk(&d, &t, CAIRN_RESUME_EXACT);
    assert_int_equal(decision.resume, opener); /* the driver compares every bit with the cold run */
    decision = ask_talk(&d, &t, CAIRN_RESUME_EXACT);
    assert_int_equal(decision.resume, p.starts[8]);
    driver_release(&d);
}

static void the_third_request_is_served_to_the_token(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    cairn_token tokens[400];
    talk_words(3, tokens, 400);
    for (uint32_t i = 0; i < 4; i++) { /* they part at 237, where nothing is */
        tokens[237] = (cairn_token)(1000 + i);
        talk_plain(tokens, 400, CAIRN_RESUME_FAST, &p);
        cairn_decision decision = driver_ask(&d, &p.prompt, NULL, 0);
        assert_true(i == 0 || decision.divergence == 237);
        assert_true(i < 2 || decision.resume == 237);
    }
    driver_release(&d);
}

static void a_boundary_is_a_hit_at_the_second_request(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(100);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    for (uint32_t i = 5; i > 0; i--) {
        t.messages[i].role = i % 2 ? CAIRN_ROLE_USER : CAIRN_ROLE_ASSISTANT;
        t.messages[i].seed += 3000;
        cairn_decision decision = ask_talk(&d, &t, CAIRN_RESUME_FAST);
        assert_true(decision.resume >= p.starts[i]);
    }
    driver_release(&d);
}

static void branches_share_their_rows(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.row_bytes = 100;
    driver d;
    driver_init(&d, &o, 1);
    d.take_ns = 1000000;
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 1500);
    talk_add(&t, CAIRN_ROLE_USER, 2, 40);
    for (uint32_t i = 0; i < 10; i++) {
        t.messages[1].seed = 10 + i;
        (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    }
    cairn_core_stats stats;
    cairn_core_stats_get(d.core, &stats);
    assert_true(stats.row_bytes < 100 * (1500 + 10 * 60 + 100)); /* not ten times 1500 */
    driver_release(&d);
}

static void plain_attention_needs_no_states(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.trim = CAIRN_TRIM_ANYWHERE;
    o.state_bytes_max = 0;
    driver d;
    driver_init(&d, &o, 1);
    talk t = long_talk(100);
    talk other = long_talk(80);
    other.messages[0].seed = 600;
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    (void)ask_talk(&d, &other, CAIRN_RESUME_FAST);
    t.messages[4].seed = 601;
    cairn_decision decision = ask_talk(&d, &t, CAIRN_RESUME_FAST);
    assert_int_equal(decision.resume, decision.divergence);
    assert_int_equal(decision.source, CAIRN_SOURCE_RAM);
    cairn_core_stats stats;
    cairn_core_stats_get(d.core, &stats);
    assert_int_equal(stats.states, 0);
    driver_release(&d);
}

/* T11: the prefix is in a slot that is busy; another slot gets its rows. */
static void a_busy_slot_gives_its_rows(void **state)
{
    (void)state;
    driver d;
    start(&d, 2);
    talk t = long_talk(100);
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    uint32_t slot = driver_begin(&d, &p.prompt, 0, NULL);
    while (!d.requests[slot].ready) {
        driver_read(&d, slot);
    }
    t.messages[5].seed = 321;
    talk_render(&t, CAIRN_RESUME_FAST, &q);
    cairn_decision decision = driver_ask(&d, &q.prompt, NULL, 0);
    assert_int_equal(decision.slot, 1);
    assert_true(decision.resume >= q.starts[5]);
    cairn_token answer[5] = {1, 2, 3, 4, 5};
    driver_answer(&d, slot, answer, 5);
    driver_finish(&d, slot, CAIRN_END_DONE);
    driver_release(&d);
}

/* SwiftLM's three requests: system, then turns of 3.8 k with short answers; edits from the end to the start. */
static void edit_by_depth(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.slot_tokens_max = DRIVER_TOKENS;
    o.batch_tokens_max = 512;
    o.ram_bytes_max = 1 << 24;
    driver d;
    driver_init(&d, &o, 1);
    d.verify = false;
    d.take_ns = 2000000;
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 200);
    talk_add(&t, CAIRN_ROLE_USER, 2, 3800);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 3, 60);
    talk_add(&t, CAIRN_ROLE_USER, 4, 3800);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 5, 60);
    talk_add(&t, CAIRN_ROLE_USER, 6, 3800);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    static const uint32_t edited[] = {5, 3, 0};
    for (uint32_t i = 0; i < 3; i++) {
        talk again = t;
        again.messages[edited[i]].seed += 100;
        cairn_decision decision = ask_talk(&d, &again, CAIRN_RESUME_FAST);
        assert_true(decision.resume >= p.starts[edited[i]]);
        assert_true(decision.resume <= p.starts[edited[i]] + 2);
    }
    driver_release(&d);
}

/* Two conversations share their beginning: the states of the one that the prompt goes on serve, and the deepest of them. */
static void the_longest_resume_wins(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk one = long_talk(100);
    talk other = one;
    other.messages[3].seed = 77;
    (void)ask_talk(&d, &one, CAIRN_RESUME_FAST);
    (void)ask_talk(&d, &other, CAIRN_RESUME_FAST);
    talk_add(&one, CAIRN_ROLE_ASSISTANT, 50, 100);
    talk_add(&one, CAIRN_ROLE_USER, 51, 100);
    cairn_decision decision = ask_talk(&d, &one, CAIRN_RESUME_FAST);
    assert_true(decision.resume >= p.starts[6] && decision.resume + 8 >= decision.divergence);
    decision = ask_talk(&d, &other, CAIRN_RESUME_FAST);
    assert_true(decision.resume + 8 >= p.prompt.count);
    driver_release(&d);
}

/*
 * One slot holds exactly what the prompt goes on from, the other a longer path that would have to be cut: the exact prefix
 * is preferred, whichever was used last, and the longer one stays whole.
 */
static void an_exact_prefix_is_preferred_to_a_longer_path(void **state)
{
    (void)state;
    for (uint32_t exact = 0; exact < 2; exact++) {
        driver d;
        start(&d, 2);
        cairn_token answer[100];
        talk_words(50, answer, 100);
        talk t = long_talk(100);
        talk longer = t;
        talk_add(&longer, CAIRN_ROLE_ASSISTANT, 50, 100);
        talk next = longer;
        talk_add(&longer, CAIRN_ROLE_USER, 61, 300);
        talk_add(&next, CAIRN_ROLE_USER, 62, 100);
        for (uint32_t turn = 0; turn < 2; turn++) { /* the one that is used last goes second */
            bool whole = turn == exact;
            talk_render(whole ? &t : &longer, CAIRN_RESUME_FAST, &p);
            uint32_t slot = driver_begin(&d, &p.prompt, whole ? 0 : 1, NULL);
            while (!d.requests[slot].ready) {
                driver_read(&d, slot);
            }
            driver_answer(&d, slot, answer, 100);
            driver_finish(&d, slot, CAIRN_END_DONE);
        }
        uint32_t known = d.slots[0].length, beyond = d.slots[1].length;
        cairn_decision decision = ask_talk(&d, &next, CAIRN_RESUME_FAST);
        assert_true(decision.divergence >= known && beyond > known);
        assert_int_equal(decision.slot, 0);
        assert_int_equal(decision.source, CAIRN_SOURCE_SLOT);
        assert_int_equal(decision.resume, known);
        assert_int_equal(d.slots[1].length, beyond);
        driver_release(&d);
    }
}

/* A state taken in the first request serves after the conversation was extended, displaced and put back. */
static void states_carry_over_an_extension_and_a_restore(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(100);
    talk aside = {0};
    talk_add(&aside, CAIRN_ROLE_USER, 900, 300);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 50, 100);
    talk_add(&t, CAIRN_ROLE_USER, 51, 100);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    (void)ask_talk(&d, &aside, CAIRN_RESUME_FAST);
    cairn_decision decision = ask_talk(&d, &t, CAIRN_RESUME_FAST);
    assert_true(decision.resume + 8 >= p.prompt.count);
    t.messages[3].seed = 99;
    decision = ask_talk(&d, &t, CAIRN_RESUME_FAST);
    assert_true(decision.resume >= p.starts[3] && decision.resume <= p.starts[3] + 2);
    driver_release(&d);
}

static void an_equal_state_is_not_taken_twice(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    talk t = long_talk(100);
    cairn_core_stats first, later;
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    cairn_core_stats_get(d.core, &first);
    for (int i = 0; i < 5; i++) {
        cairn_decision decision = ask_talk(&d, &t, CAIRN_RESUME_FAST);
        assert_int_equal(decision.states_taken, 0);
    }
    cairn_core_stats_get(d.core, &later);
    assert_int_equal(first.states, later.states);
    driver_release(&d);
}

/* SwiftLM's suite: states at 3 and 12, then 14; the newest before the edit serves, none after it does. */
static void the_newest_state_before_the_edit_serves(void **state)
{
    (void)state;
    driver d;
    start(&d, 1);
    cairn_token tokens[16];
    talk_words(8, tokens, 16);
    static const cairn_boundary bounds[] = {
        {.position = 3, .message = 1, .kinds = CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_SYSTEM_END},
        {.position = 12, .message = 2, .kinds = CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_LAST_USER}};
    cairn_core_options o = driver_options();
    o.cut_tokens_min = 1;
    o.slots = 1;
    o.take_ns = 1;
    driver_release(&d);
    driver_init(&d, &o, 1);
    cairn_prompt prompt = {.tokens = tokens, .count = 16, .boundaries = bounds, .count_boundaries = 2};
    (void)driver_ask(&d, &prompt, NULL, 0);
    tokens[13] = 777;
    assert_int_equal(driver_ask(&d, &prompt, NULL, 0).resume, 12);
    tokens[12] = 778;
    assert_int_equal(driver_ask(&d, &prompt, NULL, 0).resume, 12);
    tokens[8] = 779;
    assert_int_equal(driver_ask(&d, &prompt, NULL, 0).resume, 3);
    tokens[2] = 780;
    assert_int_equal(driver_ask(&d, &prompt, NULL, 0).resume, 0);
    driver_release(&d);
}

/* A budget of nothing, or of less than a state: everything works, nothing is kept. */
static void small_budgets_work(void **state)
{
    (void)state;
    static const uint64_t caps[] = {0, 1, 99, 1000};
    for (uint32_t i = 0; i < 4; i++) {
        cairn_core_options o = driver_options();
        o.ram_bytes_max = caps[i];
        o.index_bytes_max = 0;
        driver d;
        driver_init(&d, &o, 1);
        talk t = long_talk(50);
        for (uint32_t j = 0; j < 3; j++) {
            (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
        }
        cairn_core_stats stats;
        cairn_core_stats_get(d.core, &stats);
        assert_true(stats.ram_bytes_peak <= caps[i]);
        driver_release(&d);
    }
}

static void restore_or_read(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.restore_ns = 1e12;
    driver d;
    driver_init(&d, &o, 1);
    talk t = long_talk(100);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    t.messages[5].seed = 55;
    cairn_decision decision = ask_talk(&d, &t, CAIRN_RESUME_FAST);
    assert_int_equal(decision.resume, 0);
    assert_int_equal(decision.reason, CAIRN_REASON_DEARER);
    assert_true(decision.reason_position > 0);
    driver_release(&d);
}

static void probing_changes_nothing(void **state)
{
    (void)state;
    driver d;
    start(&d, 2);
    talk t = long_talk(100);
    (void)ask_talk(&d, &t, CAIRN_RESUME_FAST);
    t.messages[5].seed = 66;
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    cairn_decision probe;
    uint64_t digest = cairn_core_digest(d.core);
    assert_ok(cairn_core_probe(d.core, &p.prompt, d.now_ns, &probe, NULL));
    assert_ok(cairn_core_verify(d.core, NULL));
    assert_true(digest == cairn_core_digest(d.core));
    cairn_decision decision = driver_ask(&d, &p.prompt, NULL, 0);
    assert_int_equal(decision.resume, probe.resume);
    assert_int_equal(decision.reason, probe.reason);
    driver_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_path),
        cmocka_unit_test(at_least_one_token_is_read),
        cmocka_unit_test(edits_destroy_nothing),
        cmocka_unit_test(using_is_not_consuming),
        cmocka_unit_test(work_done_is_kept),
        cmocka_unit_test(nothing_is_forgotten_by_idling),
        cmocka_unit_test(namespaces_are_walls),
        cmocka_unit_test(what_is_not_to_be_stored_leaves_nothing),
        cmocka_unit_test(exact_never_uses_decoded_states),
        cmocka_unit_test(the_third_request_is_served_to_the_token),
        cmocka_unit_test(a_boundary_is_a_hit_at_the_second_request),
        cmocka_unit_test(branches_share_their_rows),
        cmocka_unit_test(plain_attention_needs_no_states),
        cmocka_unit_test(a_busy_slot_gives_its_rows),
        cmocka_unit_test(edit_by_depth),
        cmocka_unit_test(the_newest_state_before_the_edit_serves),
        cmocka_unit_test(the_longest_resume_wins),
        cmocka_unit_test(an_exact_prefix_is_preferred_to_a_longer_path),
        cmocka_unit_test(states_carry_over_an_extension_and_a_restore),
        cmocka_unit_test(an_equal_state_is_not_taken_twice),
        cmocka_unit_test(small_budgets_work),
        cmocka_unit_test(restore_or_read),
        cmocka_unit_test(probing_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
