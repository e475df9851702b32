/*
 * Shapes of real traffic that once went wrong somewhere: T01 to T20 without images, drafts and disks.
 *
 * S system and tools, Uk user, Ak visible answer, Rk reasoning, Ck tool call, Tk tool result; end(X) is the
 * position after X's closing mark. Every request's answer is compared with a cold run, bit for bit, for 64
 * tokens; what is reused is counted at the engine.
 */
#include "cache_support.h"

enum { GREEDY = 64, FRAME = FRAME_TOKENS, NEAR = 8 };

static outcome o;

static void open_world(world *w, uint32_t slot_tokens_max, uint32_t slots)
{
    world_init(w);
    w->replica.slot_tokens_max = slot_tokens_max;
    w->replica.slots = slots;
    world_open(w);
    w->check_every = 25;
}

/* Ask with the talk as it stands; gives end(message) of each in `ends`. */
static uint32_t ask_talk(world *w, const talk *t, uint32_t count_answer, uint32_t *ends)
{
    rendered r;
    render(&r, t, CAIRN_RESUME_FAST);
    ask_and_compare(w, &r, count_answer, &o);
    if (ends != NULL) {
        memcpy(ends, r.ends, sizeof r.ends);
    }
    rendered_release(&r);
    return o.record.resume;
}

static uint32_t ends[TALK_MESSAGES_MAX];

static void t01_append_only(void **state)
{
    (void)state;
    world w;
    open_world(&w, 16384, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 2000);
    talk_add(&t, CAIRN_ROLE_USER, 2, 500);
    (void)ask_talk(&w, &t, 200, ends);
    uint32_t ideal = o.record.prompt_tokens + 200;
    talk_add_answer(&t, o.answer, 200);
    talk_add(&t, CAIRN_ROLE_USER, 3, 50);
    uint32_t reuse = ask_talk(&w, &t, GREEDY, NULL);
    assert_true(reuse >= ends[1]);
    assert_int_equal(reuse, ideal);
    talk_release(&t);
    world_close(&w);
}

static void t02_reasoning_stripped(void **state)
{
    (void)state;
    world w;
    open_world(&w, 16384, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 4000);
    talk_add(&t, CAIRN_ROLE_USER, 2, 300);
    (void)ask_talk(&w, &t, 1700, ends);
    talk_add_answer(&t, &o.answer[1500], 200);
    talk_add(&t, CAIRN_ROLE_USER, 3, 50);
    assert_true(ask_talk(&w, &t, GREEDY, NULL) >= ends[1] - NEAR);
    talk_release(&t);
    world_close(&w);
}

static void t03_tool_loop(bool keep_reasoning)
{
    world w;
    open_world(&w, 40960, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 8000);
    talk_add(&t, CAIRN_ROLE_USER, 2, 400);
    uint32_t previous = 0;
    for (uint64_t i = 0; i < 20; i++) {
        uint32_t reuse = ask_talk(&w, &t, 380, ends);
        if (i > 0) {
            assert_true(reuse >= previous - NEAR);
        }
        previous = ends[t.count - 1];
        talk_add_answer(&t, o.answer, 380);
        talk_add(&t, CAIRN_ROLE_TOOL, 100 + i, 700);
    }
    (void)ask_talk(&w, &t, 380, ends);
    uint32_t last_tool = ends[t.count - 1];
    talk_add_answer(&t, o.answer, 380);
    if (!keep_reasoning) {
        for (uint32_t i = 0; i < t.count; i++) {
            message *m = &t.messages[i];
            if (m->answer != NULL) {
                memmove(m->answer, m->answer + 300, 80 * sizeof *m->answer);
                m->count = 80;
            }
        }
    }
    talk_add(&t, CAIRN_ROLE_USER, 3, 30);
    uint32_t reuse = ask_talk(&w, &t, GREEDY, NULL);
    assert_true(reuse >= ends[1] - NEAR);
    if (keep_reasoning) {
        assert_true(reuse >= last_tool);
    }
    talk_release(&t);
    world_close(&w);
}

static void t03_tool_loop_then_user(void **state)
{
    (void)state;
    t03_tool_loop(false);
}

static void t03_tool_loop_with_preserved_thinking(void **state)
{
    (void)state;
    t03_tool_loop(true);
}

static void t04_edit_by_depth(void **state)
{
    (void)state;
    world w;
    open_world(&w, 16384, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 200);
    talk_add(&t, CAIRN_ROLE_USER, 2, 3800);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 3, 60);
    talk_add(&t, CAIRN_ROLE_USER, 4, 3800);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 5, 60);
    talk_add(&t, CAIRN_ROLE_USER, 6, 3800);
    (void)ask_talk(&w, &t, GREEDY, ends);
    t.messages[5].seed = 66;
    assert_true(ask_talk(&w, &t, GREEDY, NULL) >= ends[4] - FRAME);
    t.messages[5].seed = 6;
    t.messages[3].seed = 44;
    assert_true(ask_talk(&w, &t, GREEDY, NULL) >= ends[2] - FRAME);
    t.messages[3].seed = 4;
    t.messages[0].seed = 11;
    assert_true(ask_talk(&w, &t, GREEDY, NULL) <= OPENER_TOKENS);
    talk_release(&t);
    world_close(&w);
}

static void t04_two_long_turns_edited_inside(void **state)
{
    (void)state;
    world w;
    open_world(&w, 16384, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 700);
    talk_add(&t, CAIRN_ROLE_USER, 2, 7000);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 3, 60);
    talk_add(&t, CAIRN_ROLE_USER, 4, 7000);
    rendered r;
    render(&r, &t, CAIRN_RESUME_FAST);
    ask_and_compare(&w, &r, GREEDY, &o);
    uint32_t at = r.ends[2] + 3500;
    for (uint32_t i = at; i < at + 100; i++) {
        r.tokens[i] = 12;
    }
    ask_and_compare(&w, &r, GREEDY, &o);
    assert_true(o.record.resume >= at - 512);
    rendered_release(&r);
    talk_release(&t);
    world_close(&w);
}

/* Eight states' worth of memory over 138,000 tokens: a jump far back still finds something near. */
static void t05_jump_back_under_a_cap(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.replica.slot_tokens_max = 150000;
    w.replica.state_bytes = 2 << 20;
    w.options.ram_bytes_max = 8 * (2 << 20) + (5 << 19);
    world_open(&w);
    w.check_every = 25;
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 4000);
    for (uint64_t i = 0; i < 120; i++) {
        talk_add(&t, i % 2 == 0 ? CAIRN_ROLE_USER : CAIRN_ROLE_ASSISTANT, 10 + i, 1110);
        if (i % 2 == 0) {
            rendered r;
            render(&r, &t, CAIRN_RESUME_FAST);
            ask(&w, &r, 1, &o);
            rendered_release(&r);
        }
    }
    rendered r;
    render(&r, &t, CAIRN_RESUME_FAST);
    ask_and_compare(&w, &r, 1, &o);
    assert_true(r.prompt.count > 137000);
    r.tokens[30646] = 12;
    ask_and_compare(&w, &r, 1, &o);
    assert_true(o.record.resume >= 30646 - r.prompt.count / 6);
    assert_true(o.record.resume >= r.ends[0]);
    rendered_release(&r);
    talk_release(&t);
    world_close(&w);
}

static void t06_repeated_divergence(void **state)
{
    (void)state;
    world w;
    open_world(&w, 16384, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 9676 - FRAME);
    talk_add(&t, CAIRN_ROLE_USER, 2, 11718 - 9676 - FRAME);
    talk_add(&t, CAIRN_ROLE_USER, 3, 12000 - 11718 - FRAME - OPENER_TOKENS);
    rendered p;
    rendered q;
    render(&p, &t, CAIRN_RESUME_FAST);
    render(&q, &t, CAIRN_RESUME_FAST);
    assert_int_equal(p.prompt.count, 12000);
    for (uint32_t i = 11586; i < q.prompt.count; i++) {
        q.tokens[i] = 13;
    }
    ask_and_compare(&w, &p, GREEDY, &o);
    ask_and_compare(&w, &q, GREEDY, &o);
    assert_true(o.record.resume >= 9676);
    assert_int_equal(o.record.divergence, 11586);
    q.tokens[11590] = 14; /* another text with the same common prefix */
    ask_and_compare(&w, &q, GREEDY, &o);
    assert_true(o.record.resume >= 11586 - NEAR);
    ask_and_compare(&w, &p, GREEDY, &o);
    assert_true(o.record.resume >= 11718);
    rendered_release(&p);
    rendered_release(&q);
    talk_release(&t);
    world_close(&w);
}

static void t07_same_length_and_back(void **state)
{
    (void)state;
    world w;
    open_world(&w, 16384, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 1000);
    talk_add(&t, CAIRN_ROLE_USER, 2, 1500);
    talk_add(&t, CAIRN_ROLE_ASSISTANT, 3, 50);
    talk_add(&t, CAIRN_ROLE_USER, 4, 3000);
    (void)ask_talk(&w, &t, GREEDY, ends);
    cairn_token text[GREEDY];
    memcpy(text, o.answer, sizeof text);
    t.messages[1].seed = 22;
    uint32_t reuse = ask_talk(&w, &t, GREEDY, NULL);
    assert_true(reuse >= ends[0] - NEAR && reuse <= o.record.divergence);
    t.messages[1].seed = 2;
    reuse = ask_talk(&w, &t, GREEDY, NULL);
    assert_true(reuse >= ends[0] - NEAR);
    assert_memory_equal(text, o.answer, sizeof text);
    talk_release(&t);
    world_close(&w);
}

static void t08_regenerate_and_shorter(void **state)
{
    (void)state;
    world w;
    open_world(&w, 4096, 1);
    cairn_token tokens[20];
    for (int i = 0; i < 20; i++) {
        tokens[i] = 20 + i;
    }
    static const uint32_t counts[] = {9, 8, 9, 9, 20, 20, 1, 1, 2, 9, 20};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        rendered r;
        tokens[19] = i == 5 ? 50 : 39; /* the last token changed */
        render_plain(&r, tokens, counts[i], CAIRN_RESUME_FAST);
        ask_and_compare(&w, &r, GREEDY, &o);
        assert_true(o.record.resume <= counts[i] - 1);
        if (i == 2 || i == 3 || i == 5 || i >= 9) {
            assert_true(o.record.resume + NEAR >= counts[i]);
        }
        rendered_release(&r);
    }
    world_close(&w);
}

static void t09_new_chat_same_system(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{12000, 200}, {1500, 700}, {1600, 600}};
    for (size_t i = 0; i < 3; i++) {
        world w;
        open_world(&w, 16384, 1);
        talk t = {0};
        talk_add(&t, CAIRN_ROLE_SYSTEM, 1, sizes[i][0]);
        talk_add(&t, CAIRN_ROLE_USER, 2, sizes[i][1]);
        (void)ask_talk(&w, &t, GREEDY, ends);
        t.messages[1].seed = 3;
        t.messages[1].count += 100;
        assert_true(ask_talk(&w, &t, GREEDY, NULL) >= ends[0] - NEAR);
        t.messages[1].seed = 4;
        t.messages[1].count = 20;
        assert_true(ask_talk(&w, &t, GREEDY, NULL) >= ends[0] - NEAR);
        talk_release(&t);
        world_close(&w);
    }
}

static void t10_interleaved_and_side_request(void **state)
{
    (void)state;
    world w;
    open_world(&w, 16384, 1);
    talk a = {0};
    talk b = {0};
    talk side = {0};
    uint32_t previous_a;
    uint32_t previous_b;
    talk_add(&a, CAIRN_ROLE_SYSTEM, 1, 4000);
    talk_add(&b, CAIRN_ROLE_SYSTEM, 1, 4000);
    talk_add(&a, CAIRN_ROLE_USER, 2, 10195 - 4000);
    talk_add(&b, CAIRN_ROLE_USER, 3, 5377 - 4000);
    talk_add(&side, CAIRN_ROLE_USER, 4, 300);
    (void)ask_talk(&w, &a, GREEDY, NULL);
    previous_a = o.record.prompt_tokens;
    talk_add(&a, CAIRN_ROLE_USER, 5, 300);
    assert_true(ask_talk(&w, &a, GREEDY, NULL) + NEAR >= previous_a);
    previous_a = o.record.prompt_tokens;
    assert_true(ask_talk(&w, &b, GREEDY, NULL) + NEAR >= 4000 + FRAME);
    previous_b = o.record.prompt_tokens;
    talk_add(&a, CAIRN_ROLE_USER, 6, 600);
    assert_true(ask_talk(&w, &a, GREEDY, NULL) + NEAR >= previous_a);
    previous_a = o.record.prompt_tokens;
    talk_add(&b, CAIRN_ROLE_USER, 7, 200);
    assert_true(ask_talk(&w, &b, GREEDY, NULL) + NEAR >= previous_b);
    (void)ask_talk(&w, &side, GREEDY, NULL);
    talk_add(&a, CAIRN_ROLE_USER, 8, 900);
    assert_true(ask_talk(&w, &a, GREEDY, NULL) + NEAR >= previous_a);
    talk_release(&a);
    talk_release(&b);
    talk_release(&side);
    world_close(&w);
}

/* Four requests at once, stepped together to the end. */
static void run_together(world *w, rendered *r, uint32_t count, outcome *outcomes, uint32_t count_answer)
{
    cairn_request *requests[4];
    uint32_t vocab_size = w->replica.vocab_size;
    for (uint32_t i = 0; i < count; i++) {
        memset(&outcomes[i], 0, sizeof outcomes[i]);
        assert_ok(cairn_cache_begin(w->cache, &r[i].prompt, &requests[i], NULL));
    }
    for (uint32_t done = 0; done < count;) {
        assert_ok(cairn_cache_step(w->cache, requests, count, NULL));
        world_check(w);
        for (uint32_t i = 0; i < count; i++) {
            outcome *out = &outcomes[i];
            if (cairn_request_phase(requests[i]) != CAIRN_PHASE_READY) {
                continue;
            }
            const float *logits = cairn_request_logits(requests[i]);
            out->bits[out->count_answer] = logits_bits(logits, vocab_size);
            if (out->count_answer == count_answer) {
                cairn_cache_end(w->cache, requests[i], CAIRN_END_DONE);
                out->record = *cairn_request_record(requests[i]);
                done++;
                continue;
            }
            out->answer[out->count_answer] = logits_greedy(logits, vocab_size);
            assert_ok(cairn_request_push(requests[i], out->answer[out->count_answer]));
            out->count_answer++;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        cairn_request_free(requests[i]);
    }
}

static void t11_several_slots(void **state)
{
    (void)state;
    world w;
    open_world(&w, 4096, 4);
    static outcome outs[4];
    static uint64_t bits[ANSWER_MAX + 1];
    rendered r[4];
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 1900 - FRAME);
    talk_add(&t, CAIRN_ROLE_USER, 2, 100 - FRAME - OPENER_TOKENS);
    render(&r[0], &t, CAIRN_RESUME_FAST);
    assert_int_equal(r[0].prompt.count, 2000);
    /* While the first answers, another that shares 1,900 tokens comes. */
    cairn_request *first;
    assert_ok(cairn_cache_begin(w.cache, &r[0].prompt, &first, NULL));
    while (cairn_request_phase(first) != CAIRN_PHASE_READY) {
        assert_ok(cairn_cache_step(w.cache, &first, 1, NULL));
    }
    t.messages[1].seed = 3;
    (void)ask_talk(&w, &t, GREEDY, NULL);
    assert_true(o.record.resume + NEAR >= 1900);
    cairn_cache_end(w.cache, first, CAIRN_END_STOPPED);
    cairn_request_free(first);
    rendered_release(&r[0]);
    /* Four equal prompts at once give one answer; four with their own words only their own. */
    for (int distinct = 0; distinct < 2; distinct++) {
        for (uint32_t i = 0; i < 4; i++) {
            t.messages[1].seed = 40 + (distinct ? i : 0);
            render(&r[i], &t, CAIRN_RESUME_FAST);
        }
        run_together(&w, r, 4, outs, GREEDY);
        for (uint32_t i = 0; i < 4; i++) {
            cold_bits(&w, &r[i].prompt, outs[i].answer, GREEDY, bits, NULL);
            assert_memory_equal(bits, outs[i].bits, (GREEDY + 1) * sizeof bits[0]);
            rendered_release(&r[i]);
        }
    }
    talk_release(&t);
    world_close(&w);
}

static void t13_idle(void **state)
{
    (void)state;
    world w;
    open_world(&w, 32768, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_USER, 1, 26000);
    for (uint64_t i = 0; i < 3; i++) {
        (void)ask_talk(&w, &t, GREEDY, NULL);
        uint32_t whole = o.record.prompt_tokens + GREEDY;
        talk_add_answer(&t, o.answer, GREEDY);
        talk_add(&t, CAIRN_ROLE_USER, 2 + i, 50);
        w.clock_ns += UINT64_C(8) * 3600 * 1000000000;
        (void)ask_talk(&w, &t, 0, NULL);
        assert_int_equal(o.record.resume, whole);
    }
    talk_release(&t);
    world_close(&w);
}

static void t14_cancel(void **state)
{
    (void)state;
    world w;
    open_world(&w, 70000, 1);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_USER, 1, 65000 - FRAME - OPENER_TOKENS);
    rendered r;
    render(&r, &t, CAIRN_RESUME_FAST);
    uint64_t before = world_decoded(&w);
    cairn_request *request;
    assert_ok(cairn_cache_begin(w.cache, &r.prompt, &request, NULL));
    while (cairn_request_record(request)->read < 58500) {
        uint64_t at = world_decoded(&w);
        assert_ok(cairn_cache_step(w.cache, &request, 1, NULL));
        assert_true(world_decoded(&w) - at <= w.replica.batch_tokens_max);
    }
    cairn_cache_end(w.cache, request, CAIRN_END_STOPPED);
    cairn_request_free(request);
    assert_true(world_decoded(&w) - before < 58500 + w.replica.batch_tokens_max);
    r.tokens[r.prompt.count - 5] = 12; /* the last word */
    /* Stopped while it answers. */
    assert_ok(cairn_cache_begin(w.cache, &r.prompt, &request, NULL));
    cairn_token partial[20];
    for (uint32_t i = 0; i < 20; i++) {
        while (cairn_request_phase(request) != CAIRN_PHASE_READY) {
            assert_ok(cairn_cache_step(w.cache, &request, 1, NULL));
        }
        partial[i] = logits_greedy(cairn_request_logits(request), w.replica.vocab_size);
        assert_ok(cairn_request_push(request, partial[i]));
    }
    assert_true(cairn_request_record(request)->resume >= 58500 - 512);
    cairn_cache_end(w.cache, request, CAIRN_END_STOPPED);
    cairn_request_free(request);
    /* The client sends on what it has got. */
    rendered s;
    talk_add_answer(&t, partial, 20);
    talk_add(&t, CAIRN_ROLE_USER, 2, 50);
    render(&s, &t, CAIRN_RESUME_FAST);
    memcpy(s.tokens, r.tokens, r.prompt.count * sizeof *r.tokens);
    ask_and_compare(&w, &s, GREEDY, &o);
    assert_true(o.record.resume + NEAR >= r.prompt.count);
    rendered_release(&r);
    rendered_release(&s);
    talk_release(&t);
    world_close(&w);
}

static void t17_sliding_window(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.replica.slot_tokens_max = 24000;
    w.replica.trim = CAIRN_TRIM_WINDOW;
    w.replica.window_tokens = 1024;
    world_open(&w);
    w.check_every = 25;
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 100);
    talk_add(&t, CAIRN_ROLE_USER, 2, 50);
    talk first;
    talk_copy(&first, &t);
    (void)ask_talk(&w, &t, GREEDY, NULL);
    cairn_token text[GREEDY];
    memcpy(text, o.answer, sizeof text);
    for (uint64_t i = 0; i < 10; i++) {
        talk_add(&t, CAIRN_ROLE_ASSISTANT, 30 + i, 900);
        talk_add(&t, CAIRN_ROLE_USER, 60 + i, 1000);
        (void)ask_talk(&w, &t, GREEDY, NULL);
    }
    (void)ask_talk(&w, &first, GREEDY, NULL);
    assert_memory_equal(text, o.answer, sizeof text);
    (void)ask_talk(&w, &t, GREEDY, NULL);
    /* Regenerate. */
    assert_true(ask_talk(&w, &t, GREEDY, NULL) + NEAR >= o.record.prompt_tokens);
    /* Rewind less than the window, and edit at 30 %. */
    rendered r;
    render(&r, &t, CAIRN_RESUME_FAST);
    r.tokens[r.prompt.count - 500] = 12;
    ask_and_compare(&w, &r, GREEDY, &o);
    assert_true(o.record.resume + 512 >= r.prompt.count - 500);
    r.tokens[r.prompt.count * 3 / 10] = 12;
    ask_and_compare(&w, &r, GREEDY, &o);
    assert_true(o.record.resume + 512 >= r.prompt.count * 3 / 10);
    rendered_release(&r);
    talk_release(&t);
    talk_release(&first);
    world_close(&w);
}

/* 1,200 KiB stand for 1,200 MiB. */
static void t18_too_large_to_save(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.replica.row_bytes = 150;
    w.replica.slot_tokens_max = 20000;
    w.options.ram_bytes_max = 1200 << 10;
    world_open(&w);
    w.check_every = 25;
    talk a = {0};
    talk b = {0};
    talk_add(&a, CAIRN_ROLE_USER, 1, 16800); /* 2,460 KiB of rows */
    talk_add(&b, CAIRN_ROLE_USER, 2, 3000);
    (void)ask_talk(&w, &a, GREEDY, NULL);
    (void)ask_talk(&w, &b, GREEDY, NULL);
    (void)ask_talk(&w, &a, GREEDY, NULL); /* the right text, whatever could be kept */
    (void)ask_talk(&w, &b, GREEDY, NULL);
    talk_release(&a);
    talk_release(&b);
    world_close(&w);
}

static void t18_states_of_800(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.replica.state_bytes = 800 << 10;
    w.replica.slot_tokens_max = 20000;
    w.options.ram_bytes_max = 1200 << 10;
    world_open(&w);
    w.check_every = 25;
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 15000);
    for (uint64_t i = 0; i < 20; i++) {
        talk_cut(&t, 1);
        talk_add(&t, CAIRN_ROLE_USER, 10 + i, 1000);
        (void)ask_talk(&w, &t, 4, NULL);
    }
    talk_release(&t);
    world_close(&w);
}

static void t18_one_shot_flood(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.replica.row_bytes = 64;
    w.replica.state_bytes = 8 << 10;
    w.options.ram_bytes_max = 1200 << 10;
    world_open(&w);
    w.check_every = 25;
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 2000);
    talk_add(&t, CAIRN_ROLE_USER, 2, 500);
    uint32_t whole = 0;
    uint64_t reused = 0;
    uint64_t known = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        if (i < 5 || i % 10 == 9) { /* the conversation goes on meanwhile */
            uint32_t reuse = ask_talk(&w, &t, 8, NULL);
            reused += reuse;
            known += whole;
            whole = o.record.prompt_tokens;
            talk_add(&t, CAIRN_ROLE_ASSISTANT, 2000 + i, 4);
            talk_add(&t, CAIRN_ROLE_USER, 5000 + i, 4);
        }
        if (i < 5) {
            continue;
        }
        talk once = {0};
        talk_add(&once, CAIRN_ROLE_USER, 100000 + i, 1100);
        rendered r;
        render(&r, &once, CAIRN_RESUME_FAST);
        ask(&w, &r, 1, &o);
        rendered_release(&r);
        talk_release(&once);
    }
    print_message("reused %llu of %llu\n", (unsigned long long)reused, (unsigned long long)known);
    assert_true(reused >= known / 10 * 8);
    cairn_cache_stats stats;
    cairn_cache_stats_get(w.cache, &stats);
    assert_true(stats.states + stats.segments < 1200);
    talk_release(&t);
    world_close(&w);
}

static void t19_client_noise(void **state)
{
    (void)state;
    world w;
    open_world(&w, 32768, 1);
    talk t = {0};
    /* A volatile block before the last message, everything before it fixed. */
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 10800);
    for (uint64_t i = 0; i < 6; i++) {
        talk_add(&t, i % 2 == 0 ? CAIRN_ROLE_USER : CAIRN_ROLE_ASSISTANT, 2 + i, 300);
    }
    uint32_t history = t.count - 1;
    talk_add(&t, CAIRN_ROLE_USER, 100, 4000);
    talk_add(&t, CAIRN_ROLE_USER, 101, 200);
    (void)ask_talk(&w, &t, 8, ends);
    for (uint64_t i = 0; i < 5; i++) {
        t.messages[history + 1].seed = 200 + i;
        assert_true(ask_talk(&w, &t, 8, ends) + NEAR >= ends[history]);
    }
    /* A date at the end of the system prompt: at least a grid step before it, then to the token. */
    rendered r;
    render(&r, &t, CAIRN_RESUME_FAST);
    uint32_t date = r.ends[0] - 12;
    for (cairn_token day = 0; day < 4; day++) {
        r.tokens[date] = 20 + day;
        ask_and_compare(&w, &r, 8, &o);
        assert_true(o.record.resume + (day < 2 ? 512 : NEAR) >= date);
    }
    /* A header in the first line: nothing can be kept, and the record says where. */
    r.tokens[5] = 15;
    ask_and_compare(&w, &r, 8, &o);
    assert_int_equal(o.record.divergence, 5);
    rendered_release(&r);
    talk_release(&t);
    world_close(&w);
}

static void t20_cost_and_liveness(void **state)
{
    (void)state;
    world w;
    open_world(&w, 16384, 2);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 2000);
    for (uint64_t i = 0; i < 60; i++) {
        talk_add(&t, CAIRN_ROLE_USER, 10 + i, 190);
    }
    uint64_t before_ns = w.clock_ns;
    (void)ask_talk(&w, &t, 0, NULL);
    uint64_t with_ns = w.clock_ns - before_ns;
    uint64_t without_ns = (uint64_t)o.record.prompt_tokens * w.replica.cost.token_ns +
                          (o.record.prompt_tokens / 512 + 1) * w.replica.cost.decode_call_ns;
    assert_true(with_ns - without_ns < without_ns / 10);
    assert_true(o.record.states_taken <= 62 + 14000 / 512 + 2); /* each cut once */
    /* A warm repeat saves nothing again. */
    (void)ask_talk(&w, &t, 4, NULL);
    uint64_t bytes_out = cairn_replica_counters_get(w.engine)->state_bytes_out;
    (void)ask_talk(&w, &t, 4, NULL);
    (void)ask_talk(&w, &t, 4, NULL);
    uint64_t saved = cairn_replica_counters_get(w.engine)->state_bytes_out - bytes_out;
    assert_true(saved <= 2 * w.replica.state_bytes);
    talk_release(&t);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t01_append_only),
        cmocka_unit_test(t02_reasoning_stripped),
        cmocka_unit_test(t03_tool_loop_then_user),
        cmocka_unit_test(t03_tool_loop_with_preserved_thinking),
        cmocka_unit_test(t04_edit_by_depth),
        cmocka_unit_test(t04_two_long_turns_edited_inside),
        cmocka_unit_test(t05_jump_back_under_a_cap),
        cmocka_unit_test(t06_repeated_divergence),
        cmocka_unit_test(t07_same_length_and_back),
        cmocka_unit_test(t08_regenerate_and_shorter),
        cmocka_unit_test(t09_new_chat_same_system),
        cmocka_unit_test(t10_interleaved_and_side_request),
        cmocka_unit_test(t11_several_slots),
        cmocka_unit_test(t13_idle),
        cmocka_unit_test(t14_cancel),
        cmocka_unit_test(t17_sliding_window),
        cmocka_unit_test(t18_too_large_to_save),
        cmocka_unit_test(t18_states_of_800),
        cmocka_unit_test(t18_one_shot_flood),
        cmocka_unit_test(t19_client_noise),
        cmocka_unit_test(t20_cost_and_liveness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
