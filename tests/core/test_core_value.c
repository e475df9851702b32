/*
 * test_core_value - what is kept when not everything can be: bounded waste, floods, dear states, thinning.
 */
#include "core_driver.h"

static talk_prompt prompt;

static void plain_prompt(uint32_t seed, uint32_t count)
{
    static cairn_token tokens[DRIVER_TOKENS];
    talk_words(seed, tokens, count);
    talk_plain(tokens, count, CAIRN_RESUME_FAST, &prompt);
}

/* Where a prompt that parts at `at` would resume. */
static uint32_t resume_after(driver *d, uint32_t count, uint32_t at)
{
    static talk_prompt edited;
    cairn_decision decision;
    edited = prompt;
    edited.prompt.tokens = edited.tokens;
    edited.prompt.count = count;
    edited.tokens[at] = 999;
    assert_ok(cairn_core_probe(d->core, &edited.prompt, d->now_ns, &decision, NULL));
    assert_int_equal(decision.divergence, at);
    return decision.resume;
}

/* Law 12: k states on n tokens: at most max(512, 2 n / k) read beyond least, whatever the divergence. */
static void check_waste(driver *d, const char *what)
{
    uint32_t n = prompt.prompt.count;
    cairn_core_stats stats;
    cairn_core_stats_get(d->core, &stats);
    assert_true(stats.states > 0);
    uint32_t worst = 0;
    for (uint32_t at = 1; at < n; at += 7) {
        uint32_t waste = at - resume_after(d, n, at);
        worst = waste > worst ? waste : worst;
    }
    uint32_t bound = 2 * n / (uint32_t)stats.states > 512 ? 2 * n / (uint32_t)stats.states : 512;
    if (worst > bound || getenv("CAIRN_VERBOSE") != NULL) {
        printf("%s: %u states on %u tokens: worst %u, bound %u\n", what, (uint32_t)stats.states, n, worst,
               bound);
    }
    assert_true(worst <= bound);
}

static cairn_core_options budget_of(uint32_t k)
{
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.slot_tokens_max = DRIVER_TOKENS;
    o.batch_tokens_max = 128;
    o.state_bytes_max = 1 << 20;
    o.index_bytes_max = 1 << 20;
    /* k states, the index, and the headroom of a sixteenth */
    o.ram_bytes_max = ((uint64_t)k * (1 << 20) + (1 << 20)) * 17 / 16;
    return o;
}

static void bounded_waste(void **state)
{
    (void)state;
    static const uint32_t budgets[] = {1, 2, 3, 4, 8, 16, 40};
    uint64_t seed = cairn_test_seed("bounded_waste", 12);
    for (uint32_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
        cairn_core_options o = budget_of(budgets[b]);
        driver d;
        driver_init(&d, &o, seed + b);
        d.verify = false;
        d.even = true;
        d.take_ns = 1000;
        plain_prompt(b, 12000);
        (void)driver_ask(&d, &prompt.prompt, NULL, 0);
        check_waste(&d, "plain");
        driver_release(&d);
    }
}

/* The same with messages, whose protected positions must not undo it, grown turn by turn. */
static void bounded_waste_of_conversations(void **state)
{
    (void)state;
    uint64_t seed = cairn_test_seed("bounded_waste_of_conversations", 13);
    cairn_rng rng;
    cairn_rng_init(&rng, seed);
    for (uint32_t round = 0; round < 12; round++) {
        cairn_core_options o = budget_of(2 + (uint32_t)cairn_rng_below(&rng, 20));
        driver d;
        driver_init(&d, &o, seed + round);
        d.verify = false;
        d.even = true;
        d.take_ns = 1000;
        talk t = {0};
        talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 1 + (uint32_t)cairn_rng_below(&rng, 3000));
        talk_add(&t, CAIRN_ROLE_USER, 2, 10);
        for (uint32_t turn = 0; turn < 12; turn++) {
            talk_add(&t, CAIRN_ROLE_ASSISTANT, 100 + turn, 1 + (uint32_t)cairn_rng_below(&rng, 200));
            talk_add(&t, CAIRN_ROLE_TOOL, 200 + turn, 1 + (uint32_t)cairn_rng_below(&rng, 1500));
            talk_render(&t, CAIRN_RESUME_FAST, &prompt);
            (void)driver_ask(&d, &prompt.prompt, NULL, 0);
        }
        check_waste(&d, "talk");
        driver_release(&d);
    }
}

static void a_flood_of_single_prompts_leaves_the_conversation(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.slot_tokens_max = 16384;
    o.batch_tokens_max = 512;
    o.row_bytes = 64;
    o.state_bytes_max = 8 << 10;
    o.ram_bytes_max = 1200 << 10;
    o.index_bytes_max = 0;
    o.take_ns = 2e6;
    driver d;
    driver_init(&d, &o, 3);
    d.verify = false;
    d.take_ns = 2000000;
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 2000);
    talk_add(&t, CAIRN_ROLE_USER, 2, 500);
    uint64_t known = 0;
    uint64_t reused = 0;
    uint32_t whole = 0;
    cairn_token answer[20];
    for (uint32_t i = 0; i < 300; i++) {
        if (i < 5 || i % 10 == 9) {
            talk_render(&t, CAIRN_RESUME_FAST, &prompt);
            talk_words(2000 + i, answer, 20);
            cairn_decision decision = driver_ask(&d, &prompt.prompt, answer, 20);
            if (getenv("CAIRN_VERBOSE") != NULL) {
                printf("%u: prompt %u divergence %u resume %u %s at %u\n", i, decision.prompt_tokens,
                       decision.divergence, decision.resume, cairn_reason_word(decision.reason),
                       decision.reason_position);
            }
            known += whole;
            reused += decision.resume;
            whole = prompt.prompt.count;
            talk_add(&t, CAIRN_ROLE_ASSISTANT, 2000 + i, 20);
            talk_add(&t, CAIRN_ROLE_USER, 5000 + i, 20);
        } else {
            talk once = {0};
            talk_add(&once, CAIRN_ROLE_USER, 100000 + i, 1100);
            talk_render(&once, CAIRN_RESUME_FAST, &prompt);
            (void)driver_ask(&d, &prompt.prompt, NULL, 0);
        }
    }
    printf("reused %llu of %llu\n", (unsigned long long)reused, (unsigned long long)known);
    assert_true(reused >= known / 10 * 9);
    driver_release(&d);
}

static uint64_t states_of(double take_ns, uint32_t n)
{
    cairn_core_options o = driver_options();
    o.slots = 1;
    o.slot_tokens_max = DRIVER_TOKENS;
    o.batch_tokens_max = 512;
    o.read_ns_token = 333333;
    o.take_ns = take_ns;
    driver d;
    driver_init(&d, &o, 4);
    d.verify = false;
    d.take_ns = (uint64_t)take_ns;
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 2000);
    while (t.count < 40) {
        talk_add(&t, t.count % 2 ? CAIRN_ROLE_USER : CAIRN_ROLE_ASSISTANT, 10 + t.count, n / 40);
    }
    talk_render(&t, CAIRN_RESUME_FAST, &prompt);
    (void)driver_ask(&d, &prompt.prompt, NULL, 0);
    cairn_core_stats stats;
    cairn_core_stats_get(d.core, &stats);
    driver_release(&d);
    return stats.states;
}

static void dear_states_are_few_and_cheap_ones_many(void **state)
{
    (void)state;
    uint64_t cheap = states_of(2e6, 20000);
    uint64_t dear = states_of(5e8, 20000);
    printf("2 ms: %llu states, 500 ms: %llu\n", (unsigned long long)cheap, (unsigned long long)dear);
    assert_true(cheap >= 35);
    assert_true(dear <= 6 && dear >= 1);
}

/* Among more blobs than are looked at each time, a conversation that goes on outlives a flood of prompts. */
static void a_conversation_outlives_a_flood_among_thousands_of_states(void **state)
{
    (void)state;
    cairn_core_options o = driver_options();
    o.ram_bytes_max = 6 << 20;
    o.index_bytes_max = 4 << 20;
    o.state_bytes_max = 200;
    o.row_bytes = 1;
    driver d;
    driver_init(&d, &o, cairn_test_seed("a_conversation_outlives_a_flood_among_thousands_of_states", 5));
    d.verify = false;
    static cairn_token own[DRIVER_TOKENS];
    static cairn_token shot[300];
    static talk_prompt p;
    cairn_core_stats stats = {0};
    talk_words(1, own, 900);
    uint32_t count = 600;
    for (uint32_t i = 0; i < 2600; i++) {
        talk_words(10 + i, shot, 300);
        talk_plain(shot, 300, CAIRN_RESUME_FAST, &p);
        (void)driver_ask(&d, &p.prompt, shot, 1);
        if (i % 10 == 9) {
            talk_plain(own, count, CAIRN_RESUME_FAST, &p);
            cairn_decision decision = driver_ask(&d, &p.prompt, own + count, 1);
            assert_true(i == 9 || decision.resume >= 500);
            count += count < 890 ? 1 : 0;
        }
        if (i % 400 == 399) {
            assert_ok(cairn_core_verify(d.core, NULL));
        }
    }
    cairn_core_stats_get(d.core, &stats);
    assert_true(stats.states + stats.segments > 4096);
    assert_true(stats.drops_states + stats.drops_segments > 100);
    assert_true(stats.ram_bytes_peak <= o.ram_bytes_max);
    driver_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_outlives_a_flood_among_thousands_of_states),
        cmocka_unit_test(bounded_waste),
        cmocka_unit_test(bounded_waste_of_conversations),
        cmocka_unit_test(a_flood_of_single_prompts_leaves_the_conversation),
        cmocka_unit_test(dear_states_are_few_and_cheap_ones_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
