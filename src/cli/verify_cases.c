/*
 * verify_cases - see the header.
 */
#include "cli/verify_cases.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/term.h"

/* --- prompts ----------------------------------------------------------------------------------------------------- */

cairn_token cairn_verify_token(const cairn_llama_vocab *vocab, uint32_t vocab_size, cairn_rng *rng)
{
    for (;;) {
        cairn_token token = (cairn_token)cairn_rng_below(rng, vocab_size);
        if (!cairn_llama_is_control(vocab, token) && !cairn_llama_is_eog(vocab, token))
            return token;
    }
}

static void fill_random(cairn_verify_bench *b, cairn_token *tokens, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        tokens[i] = cairn_verify_token(&b->open->vocab, b->open->engine->info.vocab_size, &b->rng);
}

/* The first `count` tokens of `tokens` with the boundaries of A that lie before `shared`. */
static cairn_prompt prompt_of(const cairn_verify_bench *b, const cairn_token *tokens, uint32_t count,
                              uint32_t shared, cairn_resume_mode mode)
{
    cairn_prompt prompt = {.tokens = tokens, .count = count, .boundaries = b->boundaries, .mode = mode};
    while (prompt.count_boundaries < CAIRN_VERIFY_MESSAGES &&
           b->boundaries[prompt.count_boundaries].position <= shared &&
           b->boundaries[prompt.count_boundaries].position < count)
        prompt.count_boundaries++;
    return prompt;
}

/* System, then users and answers by turns, of uneven lengths. */
static void make_boundaries(cairn_verify_bench *b)
{
    static const uint32_t shares[CAIRN_VERIFY_MESSAGES] = {12, 41, 47,
                                                           73, 78, 97}; /* ends in hundredths of the prompt */
    static const uint8_t roles[CAIRN_VERIFY_MESSAGES] = {CAIRN_ROLE_USER, CAIRN_ROLE_ASSISTANT,
                                                         CAIRN_ROLE_USER, CAIRN_ROLE_ASSISTANT,
                                                         CAIRN_ROLE_USER, CAIRN_ROLE_ASSISTANT};
    for (uint32_t i = 0; i < CAIRN_VERIFY_MESSAGES; i++) {
        uint16_t kinds = CAIRN_BOUNDARY_MESSAGE_START;
        if (i == 0)
            kinds |= CAIRN_BOUNDARY_SYSTEM_END;
        if (i == CAIRN_VERIFY_MESSAGES - 2)
            kinds |= CAIRN_BOUNDARY_LAST_USER;
        if (i == CAIRN_VERIFY_MESSAGES - 1)
            kinds |= CAIRN_BOUNDARY_OPENER;
        b->boundaries[i] = (cairn_boundary){
            .position = b->length * shares[i] / 100 + i, .message = i + 1, .kinds = kinds, .role = roles[i]};
    }
}

/* --- cases ------------------------------------------------------------------------------------------------------- */

/* `grid_tokens` 0: prompts are cut where they always are. */
static cairn_status new_cache(cairn_verify_bench *b, bool off, uint32_t grid_tokens, cairn_cache **ret_cache,
                              cairn_error *reterr)
{
    cairn_cache_options options = {
        .ram_bytes_max = UINT64_C(2) << 30, .grid_tokens = grid_tokens, .off = off};
    return cairn_cache_new(cairn_mem_default(), b->open->engine, &options, ret_cache, reterr);
}

/* The same prompt on a server that has just been started: what everything is compared with. */
static cairn_status run_cold(cairn_verify_bench *b, const cairn_prompt *prompt, uint32_t grid_tokens,
                             const cairn_token *force, cairn_verify_trace *trace, cairn_error *reterr)
{
    cairn_cache *cache = NULL;
    for (uint32_t slot = 0; slot < b->open->engine->info.slots; slot++)
        b->open->engine->ops->reset(b->open->engine, slot);
    cairn_status status = new_cache(b, true, grid_tokens, &cache, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_run(cache, prompt, force, trace, reterr);
    cairn_cache_free(cache);
    return status;
}

static void add_result(cairn_verify_bench *b, const char *name, cairn_resume_mode mode,
                       const cairn_verify_trace *trace, cairn_verify_kind kind)
{
    CAIRN_ASSERT(b->count < CAIRN_VERIFY_CASES_MAX);
    cairn_verify_result *r = &b->results[b->count++];
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    r->mode = mode;
    r->kind = kind;
    r->record = trace->record;
    r->difference = cairn_verify_compare(&b->cold, trace);
    /* What is claimed to be exact must be. Elsewhere differences are told; a wrong state would make one of 1e-1. */
    bool claimed = b->open->exact || b->require_exact;
    if (kind == CAIRN_VERIFY_CONTROL) {
        r->passed = r->difference.largest > 1e-2 * r->difference.magnitude;
    } else {
        r->passed =
            kind == CAIRN_VERIFY_NOISE || mode == CAIRN_RESUME_FAST || r->difference.equal || !claimed;
    }
    cairn_term_progress("verify: %zu comparisons done", b->count);
}

/* Prepare a cache that knows A and its answer, run `prompt` on it, compare with the cold run. */
static cairn_status run_case(cairn_verify_bench *b, const char *name, const cairn_prompt *before,
                             const cairn_prompt *prompt, bool busy, cairn_error *reterr)
{
    cairn_cache *cache = NULL;
    cairn_request *blocker = NULL;
    cairn_prompt a = prompt_of(b, b->tokens, b->length, b->length, prompt->mode);
    /* The cold run first: the warm one writes the same tokens, so that all of its logits can be compared. */
    cairn_status status = run_cold(b, prompt, 0, NULL, &b->cold, reterr);
    if (status == CAIRN_OK)
        status = new_cache(b, false, 0, &cache, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_run(cache, &a, NULL, &b->first, reterr);
    if (status == CAIRN_OK && before != NULL)
        status = cairn_verify_run(cache, before, NULL, &b->first, reterr);
    if (status == CAIRN_OK && busy)
        status = cairn_cache_begin(cache, &a, &blocker, reterr);
    while (status == CAIRN_OK && busy && cairn_request_phase(blocker) != CAIRN_PHASE_READY)
        status = cairn_cache_step(cache, &blocker, 1, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_run(cache, prompt, b->cold.answer, &b->warm, reterr);
    if (blocker != NULL) {
        cairn_cache_end(cache, blocker, CAIRN_END_STOPPED);
        cairn_request_free(blocker);
    }
    cairn_cache_free(cache);
    if (status == CAIRN_OK)
        add_result(b, name, prompt->mode, &b->warm, CAIRN_VERIFY_COMPARED);
    return status;
}

static cairn_status run_edits(cairn_verify_bench *b, cairn_resume_mode mode, bool few, cairn_error *reterr)
{
    static const uint32_t places[] = {15, 45, 60, 90, 99}; /* hundredths of A */
    cairn_status status = CAIRN_OK;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && status == CAIRN_OK; i += few ? 2 : 1) {
        uint32_t at = b->length * places[i] / 100;
        char name[32];
        memcpy(b->other, b->tokens, at * sizeof *b->other);
        fill_random(b, b->other, at, at + CAIRN_VERIFY_TAIL * 4);
        cairn_prompt prompt = prompt_of(b, b->other, at + CAIRN_VERIFY_TAIL * 4, at, mode);
        (void)snprintf(name, sizeof name, "edit at %" PRIu32, at);
        status = run_case(b, name, NULL, &prompt, false, reterr);
    }
    return status;
}

cairn_status cairn_verify_cases(cairn_verify_bench *b, cairn_resume_mode mode, bool few, cairn_error *reterr)
{
    uint32_t n = b->length;
    cairn_status status = run_edits(b, mode, few, reterr);
    if (status != CAIRN_OK || few)
        return status;
    /* branch and back */
    cairn_token branch[CAIRN_VERIFY_TAIL * 8];
    fill_random(b, branch, 0, CAIRN_VERIFY_TAIL * 8);
    uint32_t at = n / 2;
    memcpy(b->other, b->tokens, n * sizeof *b->other);
    fill_random(b, b->other, n, n + CAIRN_VERIFY_TAIL);
    cairn_token *side = cairn_mem_array(cairn_mem_default(), at + CAIRN_VERIFY_TAIL * 8, sizeof *side);
    if (side == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "verify", NULL);
    memcpy(side, b->tokens, at * sizeof *side);
    memcpy(side + at, branch, sizeof branch);
    cairn_prompt away = prompt_of(b, side, at + CAIRN_VERIFY_TAIL * 8, at, mode);
    cairn_prompt back = prompt_of(b, b->other, n + CAIRN_VERIFY_TAIL, n, mode);
    if (status == CAIRN_OK)
        status = run_case(b, "branch and back", &away, &back, false, reterr);
    cairn_mem_array_release(cairn_mem_default(), side, at + CAIRN_VERIFY_TAIL * 8, sizeof *side);
    if (status == CAIRN_OK && b->open->engine->info.slots > 1)
        status = run_case(b, "into another slot", NULL, &back, true, reterr);
    /* continue behind the answer that was written token by token */
    uint32_t answered = b->first.answer_tokens;
    if (status == CAIRN_OK) {
        cairn_prompt a = prompt_of(b, b->tokens, n, n, mode);
        status = run_cold(b, &a, 0, NULL, &b->first, reterr);
        memcpy(b->other + n, b->first.answer, answered * sizeof *b->other);
        fill_random(b, b->other, n + answered, n + answered + CAIRN_VERIFY_TAIL);
    }
    cairn_prompt next = prompt_of(b, b->other, n + answered + CAIRN_VERIFY_TAIL, n, mode);
    if (status == CAIRN_OK)
        status = run_case(b, "continue an answer", NULL, &next, false, reterr);
    return status;
}

/* --- the control ------------------------------------------------------------------------------------------------- */

static cairn_status read_all(cairn_engine *e, uint32_t slot, const cairn_token *tokens, uint32_t count,
                             cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    for (uint32_t at = 0; at < count && status == CAIRN_OK;) {
        uint32_t n = count - at < e->info.batch_tokens_max ? count - at : e->info.batch_tokens_max;
        cairn_piece piece = {.slot = slot,
                             .begin = at,
                             .tokens = tokens + at,
                             .count = n,
                             .logits = CAIRN_LOGITS_LAST,
                             .settle = true};
        status = e->ops->decode(e, &piece, 1, reterr);
        at += n;
    }
    return status;
}

/* Decode the probe tokens one by one behind `length` in the first of `slots` slots, and keep their logits. */
static cairn_status probe_beside(cairn_verify_bench *b, uint32_t length, const cairn_token *tokens,
                                 uint32_t slots, cairn_verify_trace *t, cairn_error *reterr)
{
    cairn_engine *e = b->open->engine;
    cairn_status status = CAIRN_OK;
    CAIRN_ASSERT(slots >= 1 && slots <= 2);
    memset(&t->record, 0, sizeof t->record);
    t->record.prompt_tokens = length;
    t->record.read = t->record.least = 1;
    for (uint32_t i = 0; i <= t->answer_tokens && status == CAIRN_OK; i++) {
        cairn_piece pieces[2];
        for (uint32_t s = 0; s < slots; s++)
            pieces[s] = (cairn_piece){.slot = s,
                                      .begin = e->ops->length(e, s),
                                      .tokens = &tokens[i],
                                      .count = 1,
                                      .logits = CAIRN_LOGITS_LAST};
        status = e->ops->decode(e, pieces, slots, reterr);
        if (status != CAIRN_OK)
            break;
        memcpy(t->logits + (size_t)i * t->vocab_size, e->ops->logits(e, 0, 0), t->vocab_size * sizeof(float));
        if (i < t->answer_tokens)
            t->answer[i] = 0;
    }
    return status;
}

static cairn_status probe(cairn_verify_bench *b, uint32_t length, const cairn_token *tokens,
                          cairn_verify_trace *t, cairn_error *reterr)
{
    return probe_beside(b, length, tokens, 1, t, reterr);
}

/* A's answer alone, and with another slot's tokens in each decode. */
cairn_status cairn_verify_beside(cairn_verify_bench *b, cairn_error *reterr)
{
    cairn_engine *e = b->open->engine;
    uint32_t n = b->length / 2;
    if (e->info.slots < 2)
        return CAIRN_OK;
    fill_random(b, b->other, 0, n);
    e->ops->reset(e, 0);
    cairn_status status = read_all(e, 0, b->tokens, n, reterr);
    if (status == CAIRN_OK)
        status = probe(b, n, b->tokens + n, &b->cold, reterr);
    e->ops->reset(e, 0);
    e->ops->reset(e, 1);
    if (status == CAIRN_OK)
        status = read_all(e, 0, b->tokens, n, reterr);
    if (status == CAIRN_OK)
        status = read_all(e, 1, b->other, n / 2, reterr);
    if (status == CAIRN_OK)
        status = probe_beside(b, n, b->tokens + n, 2, &b->warm, reterr);
    if (status == CAIRN_OK)
        add_result(b, "beside another slot", CAIRN_RESUME_FAST, &b->warm, CAIRN_VERIFY_COMPARED);
    e->ops->reset(e, 0);
    e->ops->reset(e, 1);
    return status;
}

/*
 * The rows of A with the state of other tokens: the logits must differ clearly from those of A. An engine without
 * states (plain attention) gets the rows of other tokens instead.
 */
cairn_status cairn_verify_control(cairn_verify_bench *b, cairn_error *reterr)
{
    cairn_engine *e = b->open->engine;
    uint32_t n = b->length / 2, probes = b->cold.answer_tokens + 1;
    memcpy(b->other, b->tokens, n * sizeof *b->other);
    fill_random(b, b->other, n, n + probes); /* the probes */
    cairn_token *foreign = cairn_mem_array(cairn_mem_default(), n, sizeof *foreign);
    uint8_t *state = NULL, *right = NULL;
    uint64_t size = 0, right_size = 0;
    cairn_status status =
        foreign != NULL ? CAIRN_OK : cairn_error_set(reterr, CAIRN_NOMEM, "verify/control", NULL);
    if (status == CAIRN_OK) {
        fill_random(b, foreign, 0, n);
        e->ops->reset(e, 0);
        status = read_all(e, 0, foreign, n, reterr);
    }
    size = status == CAIRN_OK ? e->ops->state_size(e, 0) : 0;
    if (size > 0) {
        state = cairn_mem_alloc(cairn_mem_default(), size);
        status = state != NULL ? e->ops->state_get(e, 0, state, size, reterr)
                               : cairn_error_set(reterr, CAIRN_NOMEM, "verify/control", NULL);
    } else if (status == CAIRN_OK) {
        status = probe(b, n, b->other + n, &b->warm, reterr);
    }
    if (status == CAIRN_OK) {
        e->ops->reset(e, 0);
        status = read_all(e, 0, b->other, n, reterr);
    }
    right_size = status == CAIRN_OK && size > 0 ? e->ops->state_size(e, 0) : 0;
    if (right_size > 0) {
        right = cairn_mem_alloc(cairn_mem_default(), right_size);
        status = right != NULL ? e->ops->state_get(e, 0, right, right_size, reterr)
                               : cairn_error_set(reterr, CAIRN_NOMEM, "verify/control", NULL);
    }
    if (status == CAIRN_OK)
        status = probe(b, n, b->other + n, &b->cold, reterr);
    if (status == CAIRN_OK && size > 0) {
        status = e->ops->trim(e, 0, n, reterr);
        if (status == CAIRN_OK)
            status = e->ops->state_set(e, 0, n, right, right_size, reterr);
        if (status == CAIRN_OK)
            status = probe(b, n, b->other + n, &b->warm, reterr);
        if (status == CAIRN_OK)
            add_result(b, "own state put back", CAIRN_RESUME_EXACT, &b->warm, CAIRN_VERIFY_COMPARED);
        if (status == CAIRN_OK)
            status = e->ops->trim(e, 0, n, reterr);
        if (status == CAIRN_OK)
            status = e->ops->state_set(e, 0, n, state, size, reterr);
        if (status == CAIRN_OK)
            status = probe(b, n, b->other + n, &b->warm, reterr);
    }
    if (status == CAIRN_OK) {
        add_result(b, size > 0 ? "other tokens' state" : "other tokens' rows", CAIRN_RESUME_EXACT, &b->warm,
                   CAIRN_VERIFY_CONTROL);
    }
    e->ops->reset(e, 0);
    cairn_mem_release(cairn_mem_default(), state, size);
    cairn_mem_release(cairn_mem_default(), right, right_size);
    cairn_mem_array_release(cairn_mem_default(), foreign, n, sizeof *foreign);
    return status;
}

/* --- the gate ---------------------------------------------------------------------------------------------------- */

/* Read tokens [begin, end) of A as prompts are, in whole batches from `begin` on. */
static cairn_status read_range(cairn_verify_bench *b, uint32_t begin, uint32_t end, cairn_error *reterr)
{
    cairn_engine *e = b->open->engine;
    cairn_status status = CAIRN_OK;
    for (uint32_t at = begin, n = 0; at < end && status == CAIRN_OK; at += n) {
        n = end - at < e->info.batch_tokens_max ? end - at : e->info.batch_tokens_max;
        cairn_piece piece = {.slot = 0, .begin = at, .tokens = b->tokens + at, .count = n, .settle = true};
        status = e->ops->decode(e, &piece, 1, reterr);
    }
    return status;
}

/*
 * The gate about one place, after A (cut in its middle) and a few tokens of an answer: what it allows must be exact,
 * and from what it forbids nothing may be decoded.
 */
static cairn_status gate_at(cairn_verify_bench *b, uint32_t at, const char *place, bool *ret_open,
                            cairn_error *reterr)
{
    cairn_engine *e = b->open->engine;
    uint32_t middle = b->length / 2;
    char name[32];
    fill_random(b, b->other, 0, b->cold.answer_tokens + CAIRN_VERIFY_TAIL);
    e->ops->reset(e, 0); /* cold */
    cairn_status status = read_range(b, 0, middle, reterr);
    if (status == CAIRN_OK && at > middle)
        status = read_range(b, middle, at, reterr);
    if (status == CAIRN_OK)
        status = probe(b, at, b->other, &b->cold, reterr);
    e->ops->reset(e, 0);
    if (status == CAIRN_OK)
        status = read_range(b, 0, middle, reterr);
    if (status == CAIRN_OK)
        status = read_range(b, middle, b->length, reterr);
    if (status == CAIRN_OK)
        status = probe(b, b->length, b->tokens, &b->warm, reterr); /* an answer */
    if (status != CAIRN_OK)
        return status;
    *ret_open = e->ops->can_trim(e, 0, at);
    (void)snprintf(name, sizeof name, "%s cut to the %s", *ret_open ? "allowed" : "forbidden", place);
    status = e->ops->trim(e, 0, at, reterr);
    if (status == CAIRN_OK && *ret_open) {
        status = probe(b, at, b->other, &b->warm, reterr);
        b->warm.record.resume = at;
        if (status == CAIRN_OK)
            add_result(b, name, CAIRN_RESUME_EXACT, &b->warm, CAIRN_VERIFY_COMPARED);
    } else if (status == CAIRN_OK) {
        cairn_piece piece = {.slot = 0, .begin = at, .tokens = b->other, .count = 1};
        if (e->ops->decode(e, &piece, 1, NULL) == CAIRN_OK)
            status = cairn_error_set(
                reterr, CAIRN_ENGINE, "verify/gate",
                "the gate forbids a cut to %" PRIu32 ", but the engine goes on from there", at);
    }
    e->ops->reset(e, 0);
    return status;
}

cairn_status cairn_verify_gate_check(cairn_verify_bench *b, cairn_verify_gate *ret_gate, cairn_error *reterr)
{
    cairn_status status = gate_at(b, b->length, "end", &ret_gate->answer, reterr);
    if (status == CAIRN_OK)
        status = gate_at(b, b->length / 2, "middle", &ret_gate->middle, reterr);
    return status;
}

/* --- edges and noise --------------------------------------------------------------------------------------------- */

/*
 * Prompts that end around a batch's edge, and one of one token. Each is read after A, which holds all of them, so that
 * what is left to read is short.
 */
cairn_status cairn_verify_edges(cairn_verify_bench *b, cairn_error *reterr)
{
    uint32_t batch = b->open->engine->info.batch_tokens_max;
    uint32_t edge = b->length / batch * batch; /* the last edge inside A */
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 0; i < 5 && edge > 2 && status == CAIRN_OK; i++) {
        uint32_t n = edge + i - 2;
        char name[32];
        (void)snprintf(name, sizeof name, "ends at edge %+d", (int)i - 2);
        if (n > b->length)
            break;
        cairn_prompt prompt = prompt_of(b, b->tokens, n, n, CAIRN_RESUME_EXACT);
        status = run_case(b, name, NULL, &prompt, false, reterr);
    }
    if (status == CAIRN_OK) {
        cairn_prompt one = prompt_of(b, b->tokens, 1, 1, CAIRN_RESUME_EXACT);
        status = run_case(b, "one token", NULL, &one, false, reterr);
    }
    return status;
}

/* A read cold with other cuts. */
cairn_status cairn_verify_noise(cairn_verify_bench *b, cairn_error *reterr)
{
    uint32_t batch = b->open->engine->info.batch_tokens_max, grid = batch > 37 ? 37 : batch;
    cairn_prompt a = prompt_of(b, b->tokens, b->length, b->length, CAIRN_RESUME_EXACT);
    char name[32];
    (void)snprintf(name, sizeof name, "cold, batches of %" PRIu32, grid);
    cairn_status status = run_cold(b, &a, 0, NULL, &b->cold, reterr);
    if (status == CAIRN_OK)
        status = run_cold(b, &a, grid, b->cold.answer, &b->warm, reterr);
    if (status == CAIRN_OK)
        add_result(b, name, CAIRN_RESUME_EXACT, &b->warm, CAIRN_VERIFY_NOISE);
    return status;
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

cairn_status cairn_verify_bench_init(cairn_verify_bench *b, cairn_engine_open *open, uint32_t tokens,
                                     uint32_t answer, bool require_exact, cairn_error *reterr)
{
    memset(b, 0, sizeof *b);
    b->open = open;
    b->require_exact = require_exact;
    b->length = tokens;
    b->room = b->length + answer + CAIRN_VERIFY_TAIL * 8;
    cairn_rng_init(&b->rng, 20260301);
    b->tokens = cairn_mem_array(cairn_mem_default(), b->room, sizeof *b->tokens);
    b->other = cairn_mem_array(cairn_mem_default(), b->room, sizeof *b->other);
    uint32_t vocab_size = open->engine->info.vocab_size;
    if (b->tokens == NULL || b->other == NULL ||
        cairn_verify_trace_init(&b->cold, vocab_size, answer) != CAIRN_OK ||
        cairn_verify_trace_init(&b->warm, vocab_size, answer) != CAIRN_OK ||
        cairn_verify_trace_init(&b->first, vocab_size, answer) != CAIRN_OK)
        return cairn_error_set(reterr, CAIRN_NOMEM, "verify", NULL);
    fill_random(b, b->tokens, 0, b->length);
    make_boundaries(b);
    return CAIRN_OK;
}

void cairn_verify_bench_release(cairn_verify_bench *b)
{
    cairn_verify_trace_release(&b->cold);
    cairn_verify_trace_release(&b->warm);
    cairn_verify_trace_release(&b->first);
    cairn_mem_array_release(cairn_mem_default(), b->tokens, b->room, sizeof *b->tokens);
    cairn_mem_array_release(cairn_mem_default(), b->other, b->room, sizeof *b->other);
    b->tokens = b->other = NULL;
}

static double larger(double a, double b)
{
    return a >= b ? a : b; /* not-a-number in b wins */
}

void cairn_verify_summarize(const cairn_verify_bench *b, cairn_verify_summary *ret_summary)
{
    cairn_verify_summary s = {.passed = true, .control = -1};
    for (size_t i = 0; i < b->count; i++) {
        const cairn_verify_result *r = &b->results[i];
        const cairn_verify_difference *d = &r->difference;
        s.passed = s.passed && r->passed;
        if (r->kind == CAIRN_VERIFY_CONTROL) {
            s.control = s.control < 0 || d->largest < s.control ? d->largest : s.control;
        } else if (r->kind == CAIRN_VERIFY_NOISE) {
            s.noise_largest = larger(s.noise_largest, d->largest);
            s.noise_kl = larger(s.noise_kl, d->kl);
        } else if (r->mode == CAIRN_RESUME_FAST) {
            s.fast_largest = larger(s.fast_largest, d->largest);
            s.fast_kl = larger(s.fast_kl, d->kl);
        } else {
            s.exact++;
            s.equal += d->equal ? 1 : 0;
            s.exact_largest = larger(s.exact_largest, d->largest);
        }
        s.resumed += r->kind == CAIRN_VERIFY_COMPARED && r->record.resume > 0 ? 1 : 0;
    }
    s.passed = s.passed && s.resumed > 0; /* comparing cold runs with cold runs would prove nothing */
    *ret_summary = s;
}
