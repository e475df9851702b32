/*
 * The pace of prompts beside answers, with costs that are made up: rounds settle below the promised limit quickly, and pieces
 * are no smaller than they have to be.
 */
#include "serve/pace.h"

#include "test_support.h"

/* What a machine costs: a round of answers, and a piece: so much whatever its size, so much a token. */
typedef struct machine {
    double answer_ns, shared_part; /* of further answers in a round: 1 = as the first one, 0 = free */
    double piece_ns, token_ns;
} machine;

static uint64_t noise_state = 1;

static double noise(double part)
{
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return 1.0 + part * ((double)(noise_state >> 40) / (double)(1u << 24) - 0.5) * 2.0;
}

static double alone_of(const machine *m, uint32_t answering)
{
    return m->answer_ns * (1.0 + m->shared_part * (answering - 1));
}

static void rounds_alone(cairn_pace *pace, const machine *m, uint32_t answering, double wobble)
{
    for (uint32_t i = 0; i < 20; i++) {
        cairn_pace_round round = {.round_ns = (uint64_t)(alone_of(m, answering) * noise(wobble)),
                                  .answering = answering};
        cairn_pace_note(pace, &round);
    }
}

/* A round with prompts; gives how many times one alone it took. */
static double round_beside(cairn_pace *pace, const machine *m, uint32_t reading, uint32_t answering,
                           double wobble)
{
    double alone = alone_of(m, answering),
           ns = (alone + reading * (m->piece_ns + m->token_ns * pace->tokens)) * noise(wobble);
    cairn_pace_round round = {.round_ns = (uint64_t)ns,
                              .reading = reading,
                              .answering = answering,
                              .read_tokens = (uint64_t)reading * pace->tokens};
    cairn_pace_note(pace, &round);
    return ns / alone;
}

static const machine machines[] = {
    {1e6, 1.0, 1e5, 1e4},        {1e6, 0.2, 5e5, 1e5}, {60e6, 0.3, 10e6, 7e6},
    {0.7e6, 1.0, 0.3e6, 0.13e6}, {5e6, 0.0, 0, 1e5},
};

static void rounds_with_prompts_stay_below_the_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        for (uint32_t reading = 1; reading <= 3; reading++) {
            cairn_pace pace;
            cairn_pace_init(&pace, 512);
            rounds_alone(&pace, &machines[i], 2, 0.1);
            for (uint32_t round = 0; round < 200; round++) {
                double times = round_beside(&pace, &machines[i], reading, 2, 0.1);
                bool smallest = pace.tokens == CAIRN_PACE_TOKENS_MIN;
                if (round >= 5 && times > CAIRN_PACE_LIMIT && !smallest)
                    fail_msg("machine %zu, %u prompts, round %u: %.2f times as long as alone", i, reading,
                             round, times);
            }
        }
    }
}

static void pieces_use_the_time_that_there_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const machine *m = &machines[i];
        cairn_pace pace;
        cairn_pace_init(&pace, 512);
        rounds_alone(&pace, m, 1, 0);
        double times = 0;
        for (uint32_t round = 0; round < 100; round++)
            times = round_beside(&pace, m, 1, 1, 0);
        bool widest = pace.tokens == 512, smallest = pace.tokens == CAIRN_PACE_TOKENS_MIN;
        if (!widest && !smallest && (times < 1.7 || times > 2.3))
            fail_msg("machine %zu settles at %.2f with pieces of %u", i, times, pace.tokens);
    }
}

/* A machine that becomes four times slower at reading (attention behind a long prompt) is followed within three rounds. */
static void dearer_reading_is_followed(void **state)
{
    (void)state;
    machine m = {1e6, 1.0, 1e4, 1e4};
    cairn_pace pace;
    cairn_pace_init(&pace, 512);
    rounds_alone(&pace, &m, 1, 0);
    for (uint32_t round = 0; round < 50; round++)
        (void)round_beside(&pace, &m, 1, 1, 0);
    m.token_ns *= 4;
    double times = 0;
    for (uint32_t round = 0; round < 4; round++)
        times = round_beside(&pace, &m, 1, 1, 0);
    assert_true(times < CAIRN_PACE_LIMIT);
}

static void without_answers_and_before_any_answer_nothing_changes(void **state)
{
    (void)state;
    cairn_pace pace, before;
    cairn_pace_init(&pace, 512);
    before = pace;
    cairn_pace_note(&pace, &(cairn_pace_round){.round_ns = 1000, .reading = 1, .read_tokens = 512});
    cairn_pace_note(&pace,
                    &(cairn_pace_round){.round_ns = 1000, .reading = 1, .answering = 1, .read_tokens = 16});
    assert_memory_equal(&pace, &before, sizeof pace);
    cairn_pace_init(&pace, 1);
    assert_int_equal(pace.tokens, 1);
    rounds_alone(&pace, &machines[0], 1, 0);
    (void)round_beside(&pace, &machines[0], 1, 1, 0);
    assert_int_equal(pace.tokens, 1);
}

/* More answers than were seen alone: the limit is kept although each one more is dear or free. */
static void a_new_number_of_answers_is_guessed_on_the_short_side(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        cairn_pace pace;
        cairn_pace_init(&pace, 512);
        rounds_alone(&pace, &machines[i], 1, 0);
        double times = 0;
        for (uint32_t round = 0; round < 10; round++)
            times = round_beside(&pace, &machines[i], 1, 4, 0);
        assert_true(times < CAIRN_PACE_LIMIT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_with_prompts_stay_below_the_limit),
        cmocka_unit_test(pieces_use_the_time_that_there_is),
        cmocka_unit_test(dearer_reading_is_followed),
        cmocka_unit_test(without_answers_and_before_any_answer_nothing_changes),
        cmocka_unit_test(a_new_number_of_answers_is_guessed_on_the_short_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
