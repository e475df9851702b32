/*
 * Random conversations, edits, branches, cancels, faults and budgets against the cold run: law 9,
 * cache_cannot_be_seen_in_the_answer, with every other law checked after each step.
 *
 *   test_cache_model [WORLDS]      each world has its own engine, options and three thousand operations
 */
#include "cache_support.h"

enum { TALKS = 6, ACTORS = 4, ANSWER = 24, OPERATIONS = 3000 };

/* A request on its way, and what it said so far. */
typedef struct actor {
    bool active;
    cairn_request *request;
    rendered r;
    uint32_t from; /* the talk that it came from */
    uint32_t target;
    uint32_t count;
    bool seen; /* the logits after `count` tokens were noted */
    cairn_token answer[ANSWER];
    uint64_t bits[ANSWER + 1];
    cairn_token greedy[ANSWER + 1];
} actor;

typedef struct play {
    world w;
    cairn_rng rng;
    talk talks[TALKS];
    actor actors[ACTORS];
    uint64_t next_seed;
    bool faults;    /* engine calls may fail */
    bool shortages; /* allocations may fail */
    bool armed;     /* something may be failing now */
} play;

static uint64_t totals_requests, totals_resumed, totals_prompt, totals_failed, totals_compared,
    totals_recovered, totals_known;

static uint32_t below(play *p, uint64_t bound)
{
    return (uint32_t)cairn_rng_below(&p->rng, bound);
}

static bool chance(play *p, double likely)
{
    return cairn_rng_chance(&p->rng, likely);
}

/* --- conversations ---------------------------------------------------------------------------------------- */

static uint32_t talk_tokens(const talk *t)
{
    uint32_t count = OPENER_TOKENS;
    for (uint32_t i = 0; i < t->count; i++) {
        count += t->messages[i].count + FRAME_TOKENS;
    }
    return count;
}

static void talk_new(play *p, talk *t)
{
    talk_release(t);
    talk_add(t, CAIRN_ROLE_SYSTEM, 1 + below(p, 3), 20 + 40 * below(p, 3));
    talk_add(t, CAIRN_ROLE_USER, p->next_seed++, 1 + below(p, 90));
}

static void talk_grow(play *p, talk *t)
{
    if (talk_tokens(t) > p->w.replica.slot_tokens_max * 3 / 4 || t->count > 40) {
        talk_new(p, t);
        return;
    }
    if (t->messages[t->count - 1].role == CAIRN_ROLE_USER) {
        talk_add(t, CAIRN_ROLE_ASSISTANT, p->next_seed++, 1 + below(p, 60));
    }
    talk_add(t, chance(p, 0.7) ? CAIRN_ROLE_USER : CAIRN_ROLE_TOOL, p->next_seed++, 1 + below(p, 60));
}

static void talk_edit(play *p, talk *t)
{
    uint32_t i = below(p, t->count);
    message *m = &t->messages[i];
    switch (below(p, 5)) {
    case 0: /* other words, as many */
    case 1: /* other words, more or fewer */
        test_free(m->answer);
        m->answer = NULL;
        m->seed = p->next_seed++;
        m->count = below(p, 2) == 0 ? m->count : 1 + below(p, 100);
        break;
    case 2:
        if (t->count > 2 && i > 0) {
            talk_remove(t, i);
        }
        break;
    case 3:
        talk_cut(t, 1 + below(p, t->count));
        break;
    default:
        m->mark = !m->mark;
    }
}

static void talk_change(play *p, uint32_t index)
{
    talk *t = &p->talks[index];
    if (t->count == 0 || chance(p, 0.03)) {
        talk_new(p, t);
    } else if (chance(p, 0.45)) {
        talk_grow(p, t);
    } else if (chance(p, 0.4)) {
        talk_edit(p, t);
    } else if (chance(p, 0.3)) { /* a branch */
        uint32_t to = below(p, TALKS);
        if (to != index) {
            talk_release(&p->talks[to]);
            talk_copy(&p->talks[to], t);
        }
    } /* else: the same again */
}

/* --- one world -------------------------------------------------------------------------------------------- */

static void choose_engine(play *p)
{
    cairn_replica_options *o = &p->w.replica;
    o->slots = 1 + below(p, ACTORS);
    o->slot_tokens_max = 700 + below(p, 900);
    o->batch_tokens_max = 16u << below(p, 4);
    o->seed = cairn_rng_u64(&p->rng);
    o->trim = below(p, 4) > 0 ? CAIRN_TRIM_NEVER : below(p, 2) > 0 ? CAIRN_TRIM_ANYWHERE : CAIRN_TRIM_WINDOW;
    o->window_tokens = 20 + below(p, 200);
    o->state_bytes = 32 + below(p, 3) * 500;
    o->row_bytes = 16 + below(p, 2) * 5;
    o->tail_bytes = below(p, 2) * 700;
    o->rows_move = chance(p, 0.8);
    o->cut_sensitive = chance(p, 0.7);
    o->batch_sensitive = chance(p, 0.4);
    if (o->trim == CAIRN_TRIM_ANYWHERE) {
        o->state_bytes = 0;
    }
    if (chance(p, 0.15)) {
        o->room_tokens_max = o->slot_tokens_max + below(p, o->slot_tokens_max * o->slots);
    }
    if (chance(p, 0.3)) { /* states that are dear */
        o->cost.state_call_ns = 300000000;
    }
    p->w.options.grid_tokens = below(p, 2) * (8u << below(p, 5));
    p->w.options.cut_tokens_min = below(p, 2) * (1 + below(p, 40));
    static const uint64_t caps[] = {0, 9000, 40000, 100000, 200000, 400000, 1000000, 64 << 20};
    p->w.options.ram_bytes_max = caps[below(p, 8)];
    p->w.options.map_bytes_min = chance(p, 0.1) ? 2000 : UINT64_MAX;
}

static void note(play *p, actor *a)
{
    if (a->seen || cairn_request_phase(a->request) != CAIRN_PHASE_READY) {
        return;
    }
    const float *logits = cairn_request_logits(a->request);
    a->bits[a->count] = logits_bits(logits, p->w.replica.vocab_size);
    a->greedy[a->count] = logits_greedy(logits, p->w.replica.vocab_size);
    a->seen = true;
}

/* All that it said, against a cold run with the same tokens. */
static void compare(play *p, actor *a)
{
    static uint64_t bits[ANSWER + 1];
    static cairn_token greedy[ANSWER + 1];
    uint32_t points = a->count + (a->seen ? 1 : 0);
    if (points == 0) {
        return;
    }
    cold_bits(&p->w, &a->r.prompt, a->answer, points - 1, bits, greedy);
    assert_memory_equal(a->greedy, greedy, points * sizeof greedy[0]);
    if (a->r.prompt.mode == CAIRN_RESUME_EXACT || !p->w.replica.cut_sensitive) {
        assert_memory_equal(a->bits, bits, points * sizeof bits[0]);
    }
    totals_compared += points;
}

static void actor_end(play *p, actor *a, cairn_ending ending)
{
    cairn_phase phase = cairn_request_phase(a->request);
    cairn_cache_end(p->w.cache, a->request, ending);
    const cairn_record *record = cairn_request_record(a->request);
    if (phase == CAIRN_PHASE_READY || phase == CAIRN_PHASE_DECODE) {
        assert_int_equal(record->resume + record->read, a->r.prompt.count);
    }
    assert_true(record->resume + record->read <= a->r.prompt.count);
    assert_true(record->resume <= record->divergence);
    totals_resumed += record->resume;
    totals_prompt += record->prompt_tokens;
    totals_known += record->divergence;
    totals_recovered += a->request->recoveries + a->request->cancels;
    compare(p, a);
    talk *t = &p->talks[a->from];
    if (ending == CAIRN_END_DONE && chance(p, 0.5) && t->count > 0 && a->count > 0 &&
        t->count < TALK_MESSAGES_MAX - 4) {
        /* Only if the talk is still the one that was asked about. */
        rendered now;
        render(&now, t, CAIRN_RESUME_FAST);
        if (now.prompt.count == a->r.prompt.count &&
            common(now.tokens, now.prompt.count, a->r.tokens, a->r.prompt.count) == now.prompt.count) {
            talk_add_answer(t, a->answer, a->count);
        }
        rendered_release(&now);
    }
    cairn_request_free(a->request);
    rendered_release(&a->r);
    memset(a, 0, sizeof *a);
}

static void actor_begin(play *p, actor *a)
{
    uint32_t index = below(p, TALKS);
    talk_change(p, index);
    talk *t = &p->talks[index];
    if (t->count == 0) {
        return;
    }
    static const cairn_resume_mode modes[] = {CAIRN_RESUME_FAST,  CAIRN_RESUME_FAST,  CAIRN_RESUME_FAST,
                                              CAIRN_RESUME_EXACT, CAIRN_RESUME_EXACT, CAIRN_RESUME_EXACT,
                                              CAIRN_RESUME_EXACT, CAIRN_RESUME_OFF};
    render(&a->r, t, modes[below(p, 8)]);
    if (chance(p, 0.1)) { /* without boundaries, cut anywhere */
        a->r.prompt.count_boundaries = 0;
        a->r.prompt.count = 1 + below(p, a->r.prompt.count);
    }
    a->r.prompt.space.bytes[3] = chance(p, 0.15) ? 1 : 0;
    a->r.prompt.no_store = chance(p, 0.05);
    a->r.prompt.pin = chance(p, 0.05);
    a->from = index;
    a->target = below(p, ANSWER + 1);
    a->r.prompt.answer_tokens_max = below(p, 2) * a->target;
    cairn_error error = {0};
    cairn_status status = cairn_cache_begin(p->w.cache, &a->r.prompt, &a->request, &error);
    if (status != CAIRN_OK) {
        bool too_long = a->r.prompt.count >= p->w.replica.slot_tokens_max;
        assert_true((too_long && status == CAIRN_LIMIT) || (p->armed && status == CAIRN_NOMEM));
        rendered_release(&a->r);
        return;
    }
    totals_requests++;
    a->active = true;
}

/* What a step left: notes, the next tokens, endings. */
static void actor_after(play *p, actor *a)
{
    cairn_phase phase = cairn_request_phase(a->request);
    if (phase == CAIRN_PHASE_FAILED) {
        assert_true(p->armed || p->w.replica.room_tokens_max > 0);
        assert_int_not_equal(cairn_request_error(a->request)->status, CAIRN_OK);
        totals_failed++;
        actor_end(p, a, CAIRN_END_BROKEN);
        return;
    }
    if (phase != CAIRN_PHASE_READY) {
        return;
    }
    note(p, a);
    if (a->count == a->target) {
        actor_end(p, a, CAIRN_END_DONE);
        return;
    }
    cairn_token token = chance(p, 0.8) ? a->greedy[a->count] : (cairn_token)below(p, 64);
    cairn_status status = cairn_request_push(a->request, token);
    if (status == CAIRN_LIMIT || (status == CAIRN_NOMEM && p->armed)) {
        actor_end(p, a, CAIRN_END_STOPPED);
        return;
    }
    assert_ok(status);
    a->answer[a->count++] = token;
    a->seen = false;
}

static void step_some(play *p)
{
    cairn_request *list[ACTORS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < ACTORS; i++) {
        if (p->actors[i].active && chance(p, 0.85)) {
            list[count++] = p->actors[i].request;
        }
    }
    bool interrupt = p->faults && chance(p, 0.01);
    if (interrupt) {
        p->w.engine->ops->interrupt(p->w.engine);
    }
    cairn_error error = {0};
    cairn_status status = cairn_cache_step(p->w.cache, list, count, &error);
    if (status != CAIRN_OK && !interrupt && !p->armed && p->w.replica.room_tokens_max == 0) {
        char text[256];
        cairn_error_print(&error, text, sizeof text);
        fail_msg("step: %s", text);
    }
    p->w.engine->ops->resume_work(p->w.engine);
    for (uint32_t i = 0; i < ACTORS; i++) {
        if (p->actors[i].active) {
            actor_after(p, &p->actors[i]);
        }
    }
}

static void arm(play *p)
{
    static const cairn_status statuses[] = {CAIRN_ENGINE, CAIRN_NOMEM, CAIRN_CORRUPT, CAIRN_CANCELLED};
    if (p->shortages && chance(p, 0.5)) {
        p->w.memory.fail_at = p->w.memory.calls + 1 + below(p, 20);
        p->armed = true;
    } else if (p->faults) {
        cairn_replica_call call = (cairn_replica_call)below(p, CAIRN_REPLICA_CALLS);
        cairn_replica_fail(p->w.engine, call, 1 + below(p, 4),
                           call == CAIRN_REPLICA_DECODE ? statuses[below(p, 4)] : statuses[below(p, 3)]);
        p->armed = true;
    }
}

static void operate(play *p)
{
    uint32_t idle = ACTORS;
    uint32_t active = 0;
    for (uint32_t i = 0; i < ACTORS; i++) {
        active += p->actors[i].active;
        idle = p->actors[i].active ? idle : i;
    }
    uint32_t dice = below(p, 1000);
    if (dice < 2) {
        static const uint64_t caps[] = {0, 20000, 60000, 120000, 250000, 500000, 64 << 20};
        world_budget(&p->w, caps[below(p, 7)]);
    } else if (dice == 4 && chance(p, 0.3)) {
        cairn_namespace space = {{0}};
        space.bytes[3] = (uint8_t)below(p, 2);
        assert_ok(cairn_cache_forget(p->w.cache, chance(p, 0.5) ? &space : NULL, NULL));
    } else if (dice < 20) {
        p->w.clock_ns += cairn_rng_below(&p->rng, UINT64_C(100000000000));
    } else if (dice < 40) {
        arm(p);
    } else if (dice < 55) {
        uint32_t i = below(p, ACTORS);
        if (p->actors[i].active) {
            actor_end(p, &p->actors[i], chance(p, 0.8) ? CAIRN_END_STOPPED : CAIRN_END_BROKEN);
        }
    } else if (idle < ACTORS && active < p->w.replica.slots && (active == 0 || dice < 200)) {
        actor_begin(p, &p->actors[idle]);
    } else {
        step_some(p);
    }
    world_check(&p->w);
}

static void play_world(uint64_t seed, uint64_t number)
{
    play *p = test_calloc(1, sizeof *p);
    cairn_rng_init_stream(&p->rng, seed, number);
    world_init(&p->w);
    choose_engine(p);
    p->faults = chance(p, 0.4);
    p->shortages = chance(p, 0.2);
    p->next_seed = 1000;
    world_open(&p->w);
    for (uint32_t i = 0; i < TALKS / 2; i++) {
        talk_new(p, &p->talks[i]);
    }
    for (int i = 0; i < OPERATIONS; i++) {
        operate(p);
    }
    for (uint32_t i = 0; i < ACTORS; i++) {
        if (p->actors[i].active) {
            actor_end(p, &p->actors[i], CAIRN_END_STOPPED);
        }
    }
    for (uint32_t i = 0; i < TALKS; i++) {
        talk_release(&p->talks[i]);
    }
    world_check(&p->w);
    world_close(&p->w);
    test_free(p);
}

static uint64_t count_worlds = 40;

static void cache_cannot_be_seen_in_the_answer_of_random_work(void **state)
{
    (void)state;
    uint64_t seed = cairn_test_seed("cache_model", 20260601);
    const char *only = getenv("CAIRN_WORLD");
    if (only != NULL) {
        play_world(seed, strtoull(only, NULL, 0));
        return;
    }
    for (uint64_t i = 0; i < count_worlds; i++) {
        const char *verbose = getenv("CAIRN_VERBOSE");
        if (verbose != NULL) {
            printf("world %llu\n", (unsigned long long)i);
            (void)fflush(stdout);
        }
        play_world(seed, i);
    }
    printf("%llu requests, %.1f %% of their tokens known, %.1f %% resumed, %llu answers compared, %llu "
           "failed, %llu "
           "recovered\n",
           (unsigned long long)totals_requests, 100.0 * (double)totals_known / (double)totals_prompt,
           100.0 * (double)totals_resumed / (double)totals_prompt, (unsigned long long)totals_compared,
           (unsigned long long)totals_failed, (unsigned long long)totals_recovered);
    assert_true(totals_requests > 20 * count_worlds);
    assert_true(totals_resumed > totals_prompt / 10);
    assert_true(totals_failed > 0 && totals_recovered > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_cannot_be_seen_in_the_answer_of_random_work),
    };
    if (argc > 1) {
        count_worlds = strtoull(argv[1], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
