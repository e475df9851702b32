/*
 * test_core_placement - where cuts are made and states taken: short prompts, texts that announce a parting, what a call
 * costs, where messages are edited again and again.
 */
#include <string.h>

#include "core/core_state.h"
#include "core/divergence.h"
#include "core/signpost.h"
#include "core/value.h"
#include "core_driver.h"

static talk_prompt p;

static void start(driver *d, double call_ns, uint64_t take_ns)
{
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.slot_tokens_max = DRIVER_TOKENS;
    o.batch_tokens_max = 512;
    o.ram_bytes_max = 1 << 24;
    o.call_ns = call_ns;
    o.take_ns = o.restore_ns = (double)take_ns;
    driver_init(d, &o, 1);
    d->verify = false;
    d->take_ns = d->restore_ns = take_ns;
}

/* --- short prompts ------------------------------------------------------------------------------------------ */

static void a_short_prompt_again_resumes_within_eight_tokens(void **state)
{
    (void)state;
    for (uint32_t words = 5; words < 100; words++) {
        driver d;
        start(&d, 15e6, 20000);
        talk t = {0};
        talk_add(&t, CAIRN_ROLE_USER, words, words);
        for (int i = 0; i < 3; i++) {
            talk_render(&t, CAIRN_RESUME_FAST, &p);
            const cairn_token answer[] = {1, 2, 3};
            cairn_decision decision = driver_ask(&d, &p.prompt, answer, 3);
            assert_true(decision.resume < p.prompt.count);
            assert_true(i == 0 || decision.resume + 8 >= p.prompt.count);
        }
        driver_release(&d);
    }
}

static void a_short_text_without_messages_again_resumes_within_eight_tokens(void **state)
{
    (void)state;
    static cairn_token words[100];
    talk_words(7, words, 100);
    for (uint32_t count = 9; count < 100; count++) {
        driver d;
        start(&d, 15e6, 20000);
        for (int i = 0; i < 3; i++) {
            talk_plain(words, count, CAIRN_RESUME_FAST, &p);
            cairn_decision decision = driver_ask(&d, &p.prompt, words, 2);
            assert_true(i == 0 || (decision.resume + 8 >= count && decision.resume < count));
        }
        driver_release(&d);
    }
}

/* What was asked before parts from it in the middle: the cut there is no reason against the one at the end. */
static void a_short_prompt_like_another_again_resumes_within_eight_tokens(void **state)
{
    (void)state;
    static cairn_token words[64];
    talk_words(7, words, 64);
    for (uint32_t shared = 1; shared < 30; shared++) {
        driver d;
        start(&d, 15e6, 20000);
        talk_plain(words, 40, CAIRN_RESUME_FAST, &p);
        (void)driver_ask(&d, &p.prompt, NULL, 0);
        for (int i = 0; i < 3; i++) {
            talk_plain(words, 30, CAIRN_RESUME_FAST, &p);
            for (uint32_t k = shared; k < 30; k++) {
                p.tokens[k] += 1;
            }
            cairn_decision decision = driver_ask(&d, &p.prompt, words, 1);
            assert_true(i == 0 || decision.resume + 8 >= 30);
        }
        driver_release(&d);
    }
}

/* --- signposts ------------------------------------------------------------------------------------------------ */

/* A system text of its own, then a preamble that all share, then the user's own words: one message, no boundary inside. */
static void preamble_prompt(uint32_t system, uint32_t user)
{
    static cairn_token tokens[3000];
    talk_words(1000 + system, tokens, 1300);
    talk_words(1, tokens + 1300, 777);
    talk_words(2000 + user, tokens + 2077, 400);
    talk_plain(tokens, 2477, CAIRN_RESUME_FAST, &p);
}

/* The second request of a new path parts where the preamble ends, as others did on another path: what is lost by it? */
static uint32_t lost_on_a_new_path(double call_ns)
{
    driver d;
    start(&d, call_ns, 1000000);
    for (uint32_t user = 0; user < 3; user++) {
        preamble_prompt(0, user);
        (void)driver_ask(&d, &p.prompt, NULL, 0);
    }
    preamble_prompt(1, 10);
    (void)driver_ask(&d, &p.prompt, NULL, 0);
    preamble_prompt(1, 11);
    cairn_decision decision = driver_ask(&d, &p.prompt, NULL, 0);
    assert_int_equal(decision.divergence, 2077);
    uint32_t lost = decision.divergence - decision.resume;
    driver_release(&d);
    return lost;
}

static void a_text_that_announced_a_parting_is_cut_after_in_another_path(void **state)
{
    (void)state;
    assert_int_equal(lost_on_a_new_path(1e6), 0);
}

static void no_cut_is_made_that_costs_more_than_it_saves(void **state)
{
    (void)state;
    assert_true(lost_on_a_new_path(1e12) > 8);
}

/* How many calls read a conversation of 24 messages of 100 tokens? */
static uint32_t calls_for_short_messages(double call_ns)
{
    driver d;
    start(&d, call_ns, 20000);
    talk t = {0};
    for (uint32_t i = 0; i < 24; i++) {
        talk_add(&t, i % 2 == 0 ? CAIRN_ROLE_USER : CAIRN_ROLE_ASSISTANT, i, 100);
    }
    talk_render(&t, CAIRN_RESUME_FAST, &p);
    uint32_t slot = driver_begin(&d, &p.prompt, CAIRN_SLOT_ANY, NULL);
    uint32_t calls = 0;
    for (; d.requests[slot].reading_end != 0; calls++) {
        driver_read(&d, slot);
    }
    driver_release(&d);
    return calls;
}

static void short_messages_are_read_together_where_a_call_costs_a_lot(void **state)
{
    (void)state;
    assert_true(calls_for_short_messages(1e3) >= 20);
    uint32_t batches = (p.prompt.count + 511) / 512;
    assert_true(calls_for_short_messages(1e12) <=
                batches + 4); /* the last user's message, the opener, what follows it */
}

static void in_exact_mode_cuts_stay_a_function_of_the_prompt(void **state)
{
    (void)state;
    driver d;
    start(&d, 1e6, 1000000);
    for (uint32_t i = 0; i < 6; i++) {
        preamble_prompt(i / 3, i);
        p.prompt.mode = CAIRN_RESUME_EXACT;
        uint32_t cuts[16];
        uint32_t count = cairn_core_cuts(&d.options, &p.prompt, cuts, 16);
        cairn_decision decision = driver_ask(&d, &p.prompt, NULL, 0);
        bool is_cut = decision.resume == 0;
        for (uint32_t k = 0; k < count; k++) {
            is_cut = is_cut || cuts[k] == decision.resume;
        }
        assert_true(is_cut);
    }
    driver_release(&d);
}

/* A client sends each answer back changed behind the same words. */
static void a_place_in_answers_behind_which_they_change_gets_a_state(void **state)
{
    (void)state;
    driver d;
    start(&d, 1e6, 1000000);
    static cairn_token tokens[4000];
    talk_words(3, tokens, 600);
    uint32_t count = 600;
    uint32_t lost = 0;
    for (uint32_t turn = 0; turn < 8; turn++) {
        talk_plain(tokens, count, CAIRN_RESUME_FAST, &p);
        cairn_token answer[130];
        talk_words(100 + turn, answer, 90);
        talk_words(5, answer + 90, 20); /* the words before the change */
        talk_words(200 + turn, answer + 110, 20);
        uint32_t slot = driver_begin(&d, &p.prompt, CAIRN_SLOT_ANY, NULL);
        while (d.requests[slot].reading_end != 0) {
            driver_read(&d, slot);
        }
        for (uint32_t i = 0; i < 130; i++) {
            driver_answer(&d, slot, &answer[i], 1);
        }
        driver_finish(&d, slot, CAIRN_END_DONE);
        cairn_decision decision = d.requests[slot].decision;
        lost = turn > 0 ? decision.divergence - decision.resume : 0;
        memcpy(tokens + count, answer, 110 * sizeof *answer);
        talk_words(300 + turn, tokens + count + 110, 40);
        count += 150;
    }
    assert_int_equal(lost, 0);
    driver_release(&d);
}

static void signposts_are_found_where_their_text_ends(void **state)
{
    (void)state;
    static cairn_signposts posts;
    cairn_token text[64];
    talk_words(1, text, 64);
    memset(&posts, 0, sizeof posts);
    cairn_signpost_parted(&posts, text, 20);
    cairn_signpost_parted(&posts, text, 40);
    assert_int_equal(posts.count, 2);
    for (uint32_t from = 0; from < 40; from++) { /* wherever the walk begins */
        cairn_signpost_walk walk;
        cairn_signpost_start(&walk, text, from);
        for (uint32_t i = from; i < 64; i++) {
            bool found = cairn_signpost_step(&posts, &walk, text[i]) != NULL;
            assert_int_equal(found, i + 1 == 20 || i + 1 == 40);
        }
    }
}

static void a_signpost_is_worth_what_it_proved(void **state)
{
    (void)state;
    cairn_signpost often = {.parted = 9, .passed = 9};
    cairn_signpost seldom = {.parted = 1, .passed = 50};
    cairn_signpost fresh = {.parted = 1, .passed = 0};
    assert_true(cairn_signpost_chance(&often) > 0.7);
    assert_true(cairn_signpost_chance(&seldom) < 0.03);
    assert_true(cairn_signpost_chance(&fresh) < 0.5);
    static cairn_signposts posts;
    memset(&posts, 0, sizeof posts);
    cairn_token text[4096];
    talk_words(9, text, 4096);
    for (int i = 0; i < 5; i++) {
        cairn_signpost_parted(&posts, text, 100);
    }
    for (uint32_t i = 0; i < 3 * CAIRN_SIGNPOSTS; i++) { /* the table is full: what parted once goes first */
        cairn_signpost_parted(&posts, text, 200 + 10 * i);
    }
    assert_int_equal(posts.count, CAIRN_SIGNPOSTS);
    cairn_signpost_walk walk;
    cairn_signpost_start(&walk, text, 99);
    assert_non_null(cairn_signpost_step(&posts, &walk, text[99]));
}

/* --- chances --------------------------------------------------------------------------------------------------- */

static void a_distance_at_which_all_part_is_learned(void **state)
{
    (void)state;
    float counts[CAIRN_DIVERGENCE_COUNTS] = {0};
    for (int i = 0; i < 60; i++) {
        cairn_divergence_count(counts, CAIRN_CLASS_TOOL, 11, false);
    }
    const cairn_outlook outlook = {.counts = counts};
    assert_true(cairn_divergence_message(&outlook, CAIRN_CLASS_TOOL, 11, 4) > 0.6);
    assert_true(cairn_divergence_message(&outlook, CAIRN_CLASS_TOOL, 13, 4) < 0.3);
    /* What is nearer to the end is read again before it gets there. */
    assert_true(cairn_divergence_lasting(&outlook, CAIRN_CLASS_TOOL, 3) < 0.1);
    assert_true(cairn_divergence_lasting(&outlook, CAIRN_CLASS_TOOL, 11) > 0.6);
    assert_true(cairn_divergence_unforeseen(&outlook) < 0.3);
    for (int i = 0; i < 300; i++) {
        cairn_divergence_count(counts, CAIRN_CLASS_TOOL, 11, true);
    }
    assert_true(cairn_divergence_unforeseen(&outlook) == 1);
}

/* Half of all conversations go on at their end, the others part at one distance each turn. */
static void what_a_conversation_did_the_turn_before_is_expected_again(void **state)
{
    (void)state;
    float counts[CAIRN_DIVERGENCE_COUNTS] = {0};
    const uint8_t nine = cairn_divergence_habit(CAIRN_CLASS_TOOL, 9);
    for (int i = 0; i < 40; i++) {
        cairn_divergence_count(counts, CAIRN_CLASS_TOOL, 9, false);
        cairn_divergence_habit_count(counts, nine, true);
        cairn_divergence_count(counts, CAIRN_CLASS_TIP, 0, false);
        cairn_divergence_habit_count(counts, CAIRN_HABIT_TIP, true);
    }
    cairn_outlook all = cairn_divergence_outlook(counts, CAIRN_HABIT_NONE);
    cairn_outlook parts = cairn_divergence_outlook(counts, nine);
    cairn_outlook goes_on = cairn_divergence_outlook(counts, CAIRN_HABIT_TIP);
    assert_true(all.weight == 0);
    assert_true(cairn_divergence_tip(&parts) < 0.05 && cairn_divergence_tip(&goes_on) > 0.95);
    assert_true(cairn_divergence_message(&parts, CAIRN_CLASS_TOOL, 9, 4) > 0.9);
    assert_true(cairn_divergence_message(&goes_on, CAIRN_CLASS_TOOL, 9, 4) < 0.05);
    assert_true(cairn_divergence_unforeseen(&parts) < cairn_divergence_unforeseen(&all) / 8);
    /* What is nearer to the end is read again each turn, unless the conversation goes on at its end. */
    assert_true(cairn_divergence_lasting(&parts, CAIRN_CLASS_TOOL, 5) < 0.05);
    for (int i = 0; i < 200; i++) { /* habits that don't last say nothing */
        cairn_divergence_habit_count(counts, nine, false);
    }
    assert_true(cairn_divergence_outlook(counts, nine).weight == 0);
    assert_int_equal(cairn_divergence_habit(CAIRN_CLASS_TOOL, CAIRN_DISTANCES_EXACT), CAIRN_HABIT_NONE);
}

static void superseded_paths_are_worth_what_they_proved(void **state)
{
    (void)state;
    float counts[CAIRN_DIVERGENCE_COUNTS] = {0};
    double before = cairn_divergence_goes_on(counts, CAIRN_TURNS_SUPERSEDED);
    assert_true(before < cairn_divergence_goes_on(counts, 1));
    for (int i = 0; i < 20; i++) {
        cairn_divergence_turn(counts, CAIRN_TURNS_SUPERSEDED, false);
        cairn_divergence_turn(counts, CAIRN_TURNS_SUPERSEDED, true);
    }
    assert_true(cairn_divergence_goes_on(counts, CAIRN_TURNS_SUPERSEDED) > 0.7);
    for (int i = 0; i < 200; i++) {
        cairn_divergence_turn(counts, CAIRN_TURNS_SUPERSEDED, false);
    }
    assert_true(cairn_divergence_goes_on(counts, CAIRN_TURNS_SUPERSEDED) < 0.3);
}

/*
 * An agent that keeps its last five observations whole: each request parts from the one before where the first that was kept
 * stands, five rounds back. Once that is known, one state there and one before the opener serve, and no more are taken.
 */
static void a_conversation_that_parts_alike_each_turn_needs_two_states_a_request(void **state)
{
    (void)state;
    enum { ROUNDS = 110, KNOWN = 60 };
    driver d;
    start(&d, 5e6, 20000000);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 600);
    talk_add(&t, CAIRN_ROLE_USER, 2, 3000);
    uint32_t taken = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        cairn_token answer[60];
        talk_words(1000 + round, answer, 60);
        talk_render(&t, CAIRN_RESUME_FAST, &p);
        cairn_decision decision = driver_ask(&d, &p.prompt, answer, 60);
        if (round >= KNOWN) {
            taken += decision.states_taken;
            assert_true(decision.resume + 64 >= decision.divergence);
        }
        talk_add(&t, CAIRN_ROLE_ASSISTANT, 1000 + round, 60);
        talk_add(&t, CAIRN_ROLE_TOOL, 2000 + round, 300 + round % 7 * 100);
        uint32_t gone = round - 1; /* of rounds 1 to round - 5 the answers are left */
        if (round >= 6) {
            memmove(t.messages + gone, t.messages + gone + 1, (t.count - gone - 1) * sizeof t.messages[0]);
            t.count--;
        }
    }
    assert_true(taken <= 2 * (ROUNDS - KNOWN));
    driver_release(&d);
}

/* --- costs ----------------------------------------------------------------------------------------------------- */

static void saw(cairn_costs *costs, double call, uint32_t begin, uint32_t n)
{
    double end = (double)begin + n;
    double ns = call + 2e5 * n + 3.0 * (end * end - (double)begin * begin);
    cairn_costs_saw_read(costs, begin, begin + n, (uint64_t)ns);
}

static void what_a_call_costs_is_told_from_batches_of_different_length(void **state)
{
    (void)state;
    cairn_core_options o = {.read_ns_token = 1e6, .batch_tokens_max = 512};
    cairn_costs costs;
    cairn_costs_init(&costs, &o);
    assert_true(costs.call_ns == 8e6); /* not known: as 8 tokens */
    for (uint32_t i = 0; i < 100; i++) {
        saw(&costs, 7e6, (i % 10) * 512, 512);
        saw(&costs, 7e6, 5120, 20 + i % 50);
        saw(&costs, 7e6, 5200, 3);
    }
    assert_true(costs.call_ns > 6.3e6 && costs.call_ns < 7.7e6);
    assert_true(costs.read_ns_token > 1.8e5 && costs.read_ns_token < 2.2e5);
    assert_true(costs.read_ns_token2 > 2.4 && costs.read_ns_token2 < 3.6);
    double whole = cairn_costs_read(&costs, 0, 5120);
    assert_true(whole > 0.95 * (10 * 7e6 + 5120 * 2e5 + 3.0 * 5120 * 5120) &&
                whole < 1.05 * (10 * 7e6 + 5120 * 2e5 + 3.0 * 5120 * 5120));
    for (uint32_t i = 0; i < 600; i++) { /* calls that cost nothing: never negative */
        saw(&costs, 0, (i % 10) * 512, 1 + i % 512);
    }
    assert_true(costs.call_ns >= 0 && costs.call_ns < 3e5);
}

static void a_pause_of_all_traffic_ages_nothing(void **state)
{
    (void)state;
    driver d;
    start(&d, 1e6, 1000000);
    cairn_core *core = d.core;
    const uint64_t second = UINT64_C(1000000000);
    core->now_ns = 100 * second;
    cairn_value_pause(&core->pauses, 100 * second, 105 * second);
    core->now_ns = 105 * second;
    assert_true(cairn_value_age(core, 100 * second) == 5 * second);
    cairn_value_pause(&core->pauses, 105 * second, 4000 * second);
    core->now_ns = 4000 * second;
    assert_true(cairn_value_age(core, 100 * second) == 35 * second);
    assert_true(cairn_value_age(core, 4000 * second) == 0);
    uint64_t at = 4000 * second;
    for (int i = 0; i < 200;
         i++) { /* more pauses than are remembered: an age is never less than what counts of them */
        cairn_value_pause(&core->pauses, at, at + 100 * second);
        at += 100 * second;
        core->now_ns = at;
        assert_true(cairn_value_age(core, at - 100 * second) == 30 * second);
        assert_true(cairn_value_age(core, at - 250 * second) <= 250 * second);
    }
    driver_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_prompt_again_resumes_within_eight_tokens),
        cmocka_unit_test(a_short_text_without_messages_again_resumes_within_eight_tokens),
        cmocka_unit_test(a_short_prompt_like_another_again_resumes_within_eight_tokens),
        cmocka_unit_test(a_text_that_announced_a_parting_is_cut_after_in_another_path),
        cmocka_unit_test(no_cut_is_made_that_costs_more_than_it_saves),
        cmocka_unit_test(short_messages_are_read_together_where_a_call_costs_a_lot),
        cmocka_unit_test(in_exact_mode_cuts_stay_a_function_of_the_prompt),
        cmocka_unit_test(a_place_in_answers_behind_which_they_change_gets_a_state),
        cmocka_unit_test(signposts_are_found_where_their_text_ends),
        cmocka_unit_test(a_signpost_is_worth_what_it_proved),
        cmocka_unit_test(a_distance_at_which_all_part_is_learned),
        cmocka_unit_test(what_a_conversation_did_the_turn_before_is_expected_again),
        cmocka_unit_test(superseded_paths_are_worth_what_they_proved),
        cmocka_unit_test(a_conversation_that_parts_alike_each_turn_needs_two_states_a_request),
        cmocka_unit_test(what_a_call_costs_is_told_from_batches_of_different_length),
        cmocka_unit_test(a_pause_of_all_traffic_ages_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
