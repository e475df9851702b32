/* See cache_support.h. */
#include "cache_support.h"

#include "base/hash.h"

/* --- conversations ---------------------------------------------------------------------------------------- */

void talk_release(talk *t)
{
    talk_cut(t, 0);
}

void talk_cut(talk *t, uint32_t count)
{
    while (t->count > count) {
        t->count--;
        test_free(t->messages[t->count].answer);
        t->messages[t->count].answer = NULL;
    }
}

void talk_copy(talk *to, const talk *from)
{
    *to = *from;
    for (uint32_t i = 0; i < to->count; i++) {
        message *m = &to->messages[i];
        if (m->answer != NULL) {
            m->answer = test_malloc((size_t)m->count * sizeof *m->answer + 1);
            memcpy(m->answer, from->messages[i].answer, (size_t)m->count * sizeof *m->answer);
        }
    }
}

void talk_add(talk *t, cairn_role role, uint64_t seed, uint32_t count)
{
    assert_true(t->count < TALK_MESSAGES_MAX);
    t->messages[t->count++] = (message){.role = role, .seed = seed, .count = count};
}

void talk_add_answer(talk *t, const cairn_token *tokens, uint32_t count)
{
    talk_add(t, CAIRN_ROLE_ASSISTANT, 0, count);
    cairn_token *copy = test_malloc((size_t)count * sizeof *copy + 1);
    memcpy(copy, tokens, (size_t)count * sizeof *copy);
    t->messages[t->count - 1].answer = copy;
}

void talk_remove(talk *t, uint32_t index)
{
    test_free(t->messages[index].answer);
    memmove(&t->messages[index], &t->messages[index + 1], (t->count - index - 1) * sizeof t->messages[0]);
    t->count--;
    t->messages[t->count].answer = NULL;
}

void talk_long(talk *t, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    talk_add(t, CAIRN_ROLE_SYSTEM, seed, 900);
    talk_add(t, CAIRN_ROLE_USER, seed + 1, 700);
    talk_add(t, CAIRN_ROLE_ASSISTANT, seed + 2, 120);
    talk_add(t, CAIRN_ROLE_USER, seed + 3, 1400);
}

/* Tokens 0 to 15 are framing; the replica's vocabulary has at least 64. */
static void frame(rendered *r, cairn_role role)
{
    cairn_token *out = &r->tokens[r->prompt.count];
    out[0] = 1;
    out[1] = 2 + (cairn_token)role;
    out[2] = 9;
    r->prompt.count += OPENER_TOKENS;
}

static void boundary(rendered *r, uint32_t message_index, cairn_role role, uint16_t kinds)
{
    cairn_boundary *last =
        r->prompt.count_boundaries > 0 ? &r->boundaries[r->prompt.count_boundaries - 1] : NULL;
    if (last != NULL && last->position == r->prompt.count) {
        last->kinds = (uint16_t)(last->kinds | kinds);
        last->message = message_index;
        last->role = (uint8_t)role;
        return;
    }
    r->boundaries[r->prompt.count_boundaries++] = (cairn_boundary){
        .position = r->prompt.count, .message = message_index, .kinds = kinds, .role = (uint8_t)role};
}

static void words(rendered *r, const message *m)
{
    cairn_rng rng;
    cairn_rng_init(&rng, m->seed);
    for (uint32_t i = 0; i < m->count; i++) {
        r->tokens[r->prompt.count++] =
            m->answer != NULL ? m->answer[i] : (cairn_token)(16 + cairn_rng_below(&rng, 48));
    }
    r->tokens[r->prompt.count++] = 10;
}

void render(rendered *r, const talk *t, cairn_resume_mode mode)
{
    size_t room = OPENER_TOKENS;
    uint32_t last_user = UINT32_MAX;
    for (uint32_t i = 0; i < t->count; i++) {
        room += t->messages[i].count + FRAME_TOKENS;
        last_user = t->messages[i].role == CAIRN_ROLE_USER ? i : last_user;
    }
    memset(r, 0, sizeof *r);
    r->tokens = test_malloc(room * sizeof *r->tokens);
    r->boundaries = test_malloc((t->count * 2 + 2) * sizeof *r->boundaries);
    for (uint32_t i = 0; i < t->count; i++) {
        const message *m = &t->messages[i];
        unsigned kinds = CAIRN_BOUNDARY_MESSAGE_START | (i == last_user ? CAIRN_BOUNDARY_LAST_USER : 0u);
        boundary(r, i, m->role, (uint16_t)kinds);
        frame(r, m->role);
        words(r, m);
        r->ends[i] = r->prompt.count;
        if (m->role == CAIRN_ROLE_SYSTEM) {
            boundary(r, i, m->role, CAIRN_BOUNDARY_SYSTEM_END);
        }
        if (m->mark) {
            boundary(r, i, m->role, CAIRN_BOUNDARY_MARK);
        }
    }
    boundary(r, t->count, CAIRN_ROLE_ASSISTANT, CAIRN_BOUNDARY_OPENER);
    frame(r, CAIRN_ROLE_ASSISTANT);
    r->prompt.tokens = r->tokens;
    r->prompt.boundaries = r->boundaries;
    r->prompt.mode = mode;
}

void render_plain(rendered *r, const cairn_token *tokens, uint32_t count, cairn_resume_mode mode)
{
    memset(r, 0, sizeof *r);
    r->tokens = test_malloc(count * sizeof *tokens);
    memcpy(r->tokens, tokens, count * sizeof *tokens);
    r->prompt.tokens = r->tokens;
    r->prompt.count = count;
    r->prompt.mode = mode;
}

void rendered_release(rendered *r)
{
    test_free(r->tokens);
    test_free(r->boundaries);
    memset(r, 0, sizeof *r);
}

uint32_t common(const cairn_token *a, uint32_t count_a, const cairn_token *b, uint32_t count_b)
{
    uint32_t n = 0;
    while (n < count_a && n < count_b && a[n] == b[n]) {
        n++;
    }
    return n;
}

/* --- worlds ----------------------------------------------------------------------------------------------- */

static uint64_t world_now(void *ctx)
{
    return ((world *)ctx)->clock_ns;
}

void world_init(world *w)
{
    memset(w, 0, sizeof *w);
    cairn_replica_defaults(&w->replica);
    w->replica.vocab_size = 64;
    w->replica.slots = 1;
    w->replica.slot_tokens_max = 16384;
    w->replica.batch_tokens_max = 512;
    w->replica.logits_rows_max = 16;
    /* A thousand tokens a second; a state costs half a token, as measured on real ones. */
    w->replica.cost = (cairn_replica_cost){.decode_call_ns = 100000,
                                           .token_ns = 1000000,
                                           .state_call_ns = 500000,
                                           .rows_call_ns = 10000,
                                           .rows_kib_ns = 100};
    w->options.ram_bytes_max = 64u << 20;
    w->options.map_bytes_min = UINT64_MAX;
    w->check_every = 1;
}

void world_open(world *w)
{
    cairn_error error = {0};
    cairn_mem_test_init(&w->memory, 0);
    w->replica.clock_ns = &w->clock_ns;
    w->clock_ns = 1000000000;
    assert_ok(cairn_replica_new(&w->replica, cairn_mem_default(), &w->engine, &error));
    w->options.now_ns = world_now;
    w->options.now_ctx = w;
    assert_ok(cairn_cache_new(&w->memory.mem, w->engine, &w->options, &w->cache, &error));
    w->cap_bytes = w->cache->heap.bytes_peak;
    w->cap_bytes = w->options.ram_bytes_max > w->cap_bytes ? w->options.ram_bytes_max : w->cap_bytes;

    cairn_replica_options cold = w->replica;
    cold.slots = 1;
    cold.clock_ns = NULL;
    cairn_cache_options off = w->options;
    off.off = true;
    assert_ok(cairn_replica_new(&cold, cairn_mem_default(), &w->cold_engine, &error));
    assert_ok(cairn_cache_new(cairn_mem_default(), w->cold_engine, &off, &w->cold, &error));
}

void world_close(world *w)
{
    assert_int_equal(cairn_replica_counters_get(w->engine)->violations, 0);
    cairn_cache_free(w->cache);
    cairn_cache_free(w->cold);
    w->engine->ops->free(w->engine);
    w->cold_engine->ops->free(w->cold_engine);
    assert_int_equal(cairn_mem_test_leaked(&w->memory), 0);
    cairn_mem_test_release(&w->memory);
}

void world_check(world *w)
{
    cairn_error error = {0};
    if (!w->damaged && cairn_cache_verify(w->cache, &error) != CAIRN_OK) {
        char text[256];
        cairn_error_print(&error, text, sizeof text);
        fail_msg("%s", text);
    }
    /* Under a small cap the core's working arrays, which are set apart as they grow, may come first. */
    uint64_t slack = w->cap_bytes < 2 << 20 ? 16384 : 0;
    if (w->cache->heap.bytes_peak > w->cap_bytes + slack) {
        fail_msg("held %llu of %llu bytes", (unsigned long long)w->cache->heap.bytes_peak,
                 (unsigned long long)w->cap_bytes);
    }
}

void world_budget(world *w, uint64_t ram_bytes_max)
{
    assert_ok(cairn_cache_budget(w->cache, ram_bytes_max, NULL));
    world_check(w);
    /* From now on the new cap holds; the peak is measured anew. */
    assert_true(w->cache->heap.bytes <= ram_bytes_max || ram_bytes_max < w->cap_bytes);
    w->cap_bytes = w->cache->heap.bytes > ram_bytes_max ? w->cache->heap.bytes : ram_bytes_max;
    w->cache->heap.bytes_peak = w->cache->heap.bytes;
}

uint64_t world_decoded(const world *w)
{
    return cairn_replica_counters_get(w->engine)->tokens_decoded;
}

/* --- requests --------------------------------------------------------------------------------------------- */

uint64_t logits_bits(const float *logits, uint32_t vocab_size)
{
    assert_non_null(logits);
    return cairn_hash_bytes64(logits, vocab_size * sizeof *logits, 1);
}

cairn_token logits_greedy(const float *logits, uint32_t vocab_size)
{
    cairn_token best = 0;
    for (uint32_t i = 1; i < vocab_size; i++) {
        best = logits[i] > logits[best] ? (cairn_token)i : best;
    }
    return best;
}

static void step_until_ready(world *w, cairn_cache *cache, cairn_request *request, outcome *o)
{
    while (cairn_request_phase(request) != CAIRN_PHASE_READY) {
        cairn_error error = {0};
        if (cairn_cache_step(cache, &request, 1, &error) != CAIRN_OK) {
            char text[256];
            cairn_error_print(&error, text, sizeof text);
            fail_msg("%s", text);
        }
        if (cache == w->cache && o->steps % w->check_every == 0) {
            world_check(w);
        }
        o->steps++;
    }
}

void ask(world *w, const rendered *r, uint32_t count_answer, outcome *ret_outcome)
{
    outcome *o = ret_outcome;
    cairn_request *request;
    uint32_t vocab_size = w->replica.vocab_size;
    assert_true(count_answer <= ANSWER_MAX);
    memset(o, 0, sizeof *o);
    uint64_t before = world_decoded(w);
    assert_ok(cairn_cache_begin(w->cache, &r->prompt, &request, NULL));
    world_check(w);
    step_until_ready(w, w->cache, request, o);
    for (;; o->count_answer++) {
        const float *logits = cairn_request_logits(request);
        o->bits[o->count_answer] = logits_bits(logits, vocab_size);
        if (o->count_answer == count_answer) {
            break;
        }
        o->answer[o->count_answer] = logits_greedy(logits, vocab_size);
        assert_ok(cairn_request_push(request, o->answer[o->count_answer]));
        step_until_ready(w, w->cache, request, o);
    }
    cairn_cache_end(w->cache, request, CAIRN_END_DONE);
    world_check(w);
    o->record = *cairn_request_record(request);
    o->decoded = world_decoded(w) - before;
    cairn_request_free(request);
    assert_int_equal(o->record.prompt_tokens, r->prompt.count);
    assert_int_equal(o->record.resume + o->record.read, r->prompt.count);
    assert_int_equal(o->record.read + count_answer, o->decoded);
    assert_true(o->record.resume <= o->record.divergence);
    assert_true(o->record.resume < r->prompt.count);
    assert_int_equal(o->record.answer_tokens, count_answer);
}

void cold_bits(world *w, const cairn_prompt *prompt, const cairn_token *answer, uint32_t count_answer,
               uint64_t *ret_bits, cairn_token *ret_greedy)
{
    cairn_request *request;
    outcome unused = {0};
    assert_ok(cairn_cache_begin(w->cold, prompt, &request, NULL));
    for (uint32_t i = 0;; i++) {
        step_until_ready(w, w->cold, request, &unused);
        const float *logits = cairn_request_logits(request);
        ret_bits[i] = logits_bits(logits, w->replica.vocab_size);
        if (ret_greedy != NULL) {
            ret_greedy[i] = logits_greedy(logits, w->replica.vocab_size);
        }
        if (i == count_answer) {
            break;
        }
        assert_ok(cairn_request_push(request, answer[i]));
    }
    assert_int_equal(cairn_request_record(request)->resume, 0);
    cairn_cache_end(w->cold, request, CAIRN_END_DONE);
    cairn_request_free(request);
}

void ask_and_compare(world *w, const rendered *r, uint32_t count_answer, outcome *ret_outcome)
{
    static uint64_t bits[ANSWER_MAX + 1];
    ask(w, r, count_answer, ret_outcome);
    cold_bits(w, &r->prompt, ret_outcome->answer, count_answer, bits, NULL);
    assert_memory_equal(ret_outcome->bits, bits, (count_answer + 1) * sizeof bits[0]);
}

uint32_t ask_and_stop(world *w, const rendered *r, uint32_t steps)
{
    cairn_request *request;
    assert_ok(cairn_cache_begin(w->cache, &r->prompt, &request, NULL));
    for (uint32_t i = 0; i < steps; i++) {
        assert_ok(cairn_cache_step(w->cache, &request, 1, NULL));
        world_check(w);
    }
    cairn_cache_end(w->cache, request, CAIRN_END_STOPPED);
    world_check(w);
    uint32_t reached = cairn_request_record(request)->resume + cairn_request_record(request)->read;
    cairn_request_free(request);
    return reached;
}

void turn(world *w, talk *t, cairn_resume_mode mode, uint32_t count_answer, outcome *ret_outcome)
{
    rendered r;
    render(&r, t, mode);
    ask_and_compare(w, &r, count_answer, ret_outcome);
    talk_add_answer(t, ret_outcome->answer, count_answer);
    rendered_release(&r);
}
