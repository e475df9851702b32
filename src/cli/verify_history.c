/*
 * verify_history - see the header.
 */
#include "cli/verify_history.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "cli/term.h"
#include "cli/verify_cases.h"

enum { TALKS = 6, MARKS = 64, BESIDE_STEPS = 6 };

typedef struct talk {
    cairn_token *tokens; /* cairn_token[room]                                                        */
    uint32_t count;
    cairn_boundary marks[MARKS];
    uint32_t count_marks;
    cairn_token answer[CAIRN_VERIFY_HISTORY_ANSWER];
    bool answered;
} talk;

typedef struct history {
    cairn_engine_open *warm, *cold;
    const cairn_verify_history_options *options;
    cairn_verify_history *found;
    cairn_cache *cache, *cache_cold;
    uint64_t budget_bytes;
    cairn_rng rng;
    talk talks[TALKS];
    uint32_t room, count_talks;
    cairn_verify_trace trace, trace_cold;
} history;

static uint32_t below(history *h, uint32_t bound)
{
    return (uint32_t)cairn_rng_below(&h->rng, bound);
}

/* --- conversations ----------------------------------------------------------------------------------------------- */

/* Another message of random tokens; false: the conversation is full. */
static bool say(history *h, talk *t, uint32_t count, cairn_role role, uint16_t kinds)
{
    if (t->count + count > h->options->tokens_max || t->count_marks + 2 > MARKS)
        return false;
    t->marks[t->count_marks] = (cairn_boundary){
        .position = t->count, .message = t->count_marks, .kinds = kinds, .role = (uint8_t)role};
    t->count_marks++;
    for (uint32_t i = 0; i < count; i++)
        t->tokens[t->count++] =
            cairn_verify_token(&h->warm->vocab, h->warm->engine->info.vocab_size, &h->rng);
    return true;
}

/* System and first question. The system text is one of two: conversations share it. */
static void begin_talk(history *h, talk *t)
{
    uint32_t which = below(h, 2);
    cairn_rng kept = h->rng;
    cairn_rng_init_stream(&h->rng, h->options->seed, 1000 + which);
    t->count = t->count_marks = 0;
    t->answered = false;
    (void)say(h, t, 40 + which * 37, CAIRN_ROLE_SYSTEM, CAIRN_BOUNDARY_MESSAGE_START);
    h->rng = kept;
    (void)say(h, t, 1 + below(h, 60), CAIRN_ROLE_USER,
              CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_SYSTEM_END);
}

static void copy_talk(talk *to, const talk *from)
{
    cairn_token *tokens = to->tokens;
    *to = *from;
    to->tokens = tokens;
    memcpy(to->tokens, from->tokens, from->count * sizeof *tokens);
}

/* Cut it at a message and go on otherwise. */
static void edit(history *h, talk *t)
{
    uint32_t keep = 1 + below(h, t->count_marks);
    if (keep < t->count_marks) {
        t->count = t->marks[keep].position;
        t->count_marks = keep;
    }
    if (t->count > 8 && cairn_rng_chance(&h->rng, 0.3)) /* in the middle of a message */
        t->count -= 1 + below(h, 6);
    while (t->count_marks > 0 && t->marks[t->count_marks - 1].position >= t->count)
        t->count_marks--;
    t->answered = false;
    if (!say(h, t, 1 + below(h, 40), CAIRN_ROLE_USER, CAIRN_BOUNDARY_MESSAGE_START))
        begin_talk(h, t);
}

/* The answer, then another question. */
static void go_on(history *h, talk *t)
{
    if (t->answered && t->count + CAIRN_VERIFY_HISTORY_ANSWER + 80 < h->options->tokens_max &&
        t->count_marks + 3 < MARKS) {
        t->marks[t->count_marks] = (cairn_boundary){.position = t->count,
                                                    .message = t->count_marks,
                                                    .kinds = CAIRN_BOUNDARY_MESSAGE_START,
                                                    .role = CAIRN_ROLE_ASSISTANT};
        t->count_marks++;
        memcpy(t->tokens + t->count, t->answer, sizeof t->answer);
        t->count += CAIRN_VERIFY_HISTORY_ANSWER;
    }
    t->answered = false;
    if (!say(h, t, 1 + below(h, 70), CAIRN_ROLE_USER, CAIRN_BOUNDARY_MESSAGE_START))
        begin_talk(h, t);
}

/* One of the conversations, changed by one move. */
static talk *move(history *h)
{
    uint32_t dice = below(h, 100);
    if (h->count_talks == 0 || (dice < 10 && h->count_talks < TALKS)) {
        talk *t = &h->talks[h->count_talks++];
        begin_talk(h, t);
        h->found->begun++;
        return t;
    }
    talk *t = &h->talks[below(h, h->count_talks)];
    if (dice < 45) {
        go_on(h, t);
        h->found->continued++;
    } else if (dice < 65) {
        edit(h, t);
        h->found->edited++;
    } else if (dice < 80) {
        talk *to = &h->talks[below(h, h->count_talks)];
        if (to != t)
            copy_talk(to, t);
        edit(h, to);
        t = to;
        h->found->branched++;
    } else if (dice < 90) {
        h->found->repeated++;
    } else {
        begin_talk(h, t);
        h->found->begun++;
    }
    return t;
}

static cairn_prompt prompt_of(const talk *t, cairn_resume_mode mode)
{
    return (cairn_prompt){.tokens = t->tokens,
                          .count = t->count,
                          .boundaries = t->marks,
                          .count_boundaries = t->count_marks,
                          .mode = mode};
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

/* Some steps of a request, then its end: cancelled, or left with what it had. */
static cairn_status cancel_early(history *h, const cairn_prompt *prompt, cairn_error *reterr)
{
    cairn_request *request = NULL;
    cairn_status status = cairn_cache_begin(h->cache, prompt, &request, reterr);
    for (uint32_t i = below(h, BESIDE_STEPS); i > 0 && status == CAIRN_OK; i--)
        status = cairn_cache_step(h->cache, &request, 1, reterr);
    if (request != NULL) {
        cairn_cache_end(h->cache, request, CAIRN_END_STOPPED);
        cairn_request_free(request);
    }
    h->found->cancelled++;
    return status;
}

/* Another conversation takes a slot, reads and writes a little, and keeps the slot while this one runs. */
static cairn_status begin_beside(history *h, const talk *t, cairn_request **ret_beside, cairn_error *reterr)
{
    const talk *other = &h->talks[below(h, h->count_talks)];
    if (other == t || h->warm->engine->info.slots < 2)
        return CAIRN_OK;
    cairn_prompt prompt =
        prompt_of(other, cairn_rng_chance(&h->rng, 0.5) ? CAIRN_RESUME_EXACT : CAIRN_RESUME_FAST);
    cairn_status status = cairn_cache_begin(h->cache, &prompt, ret_beside, reterr);
    for (uint32_t i = below(h, BESIDE_STEPS); i > 0 && status == CAIRN_OK; i--) {
        status = cairn_cache_step(h->cache, ret_beside, 1, reterr);
        if (status == CAIRN_OK && cairn_request_phase(*ret_beside) == CAIRN_PHASE_READY)
            status = cairn_request_push(*ret_beside, other->tokens[i]);
    }
    h->found->beside++;
    return status;
}

static cairn_status change_budget(history *h, cairn_error *reterr)
{
    h->found->budgets++;
    cairn_status status = cairn_cache_budget(h->cache, h->budget_bytes * (1 + below(h, 3)) / 2, reterr);
    return status == CAIRN_NOSPACE || status == CAIRN_LIMIT || status == CAIRN_INVALID ? CAIRN_OK : status;
}

static void compare(history *h, uint32_t step, const talk *t)
{
    cairn_verify_history *f = h->found;
    cairn_verify_difference d = cairn_verify_compare(&h->trace_cold, &h->trace);
    f->compared++;
    f->equal += d.equal ? 1 : 0;
    f->largest = d.largest > f->largest ? d.largest : f->largest;
    if (d.equal || f->differs_step != UINT32_MAX)
        return;
    f->differs_step = step;
    (void)snprintf(f->differs, sizeof f->differs,
                   "prompt of %" PRIu32 " tokens, resumed at %" PRIu32 " from %s, by %g", t->count,
                   h->trace.record.resume, cairn_source_word(h->trace.record.source), d.largest);
}

static cairn_status step(history *h, uint32_t index, cairn_error *reterr)
{
    cairn_verify_history *f = h->found;
    cairn_request *beside = NULL;
    cairn_status status = CAIRN_OK;
    talk *t = move(h);
    bool fast = cairn_rng_chance(&h->rng, 0.15), cancel = cairn_rng_chance(&h->rng, 0.1);
    cairn_prompt prompt = prompt_of(t, fast ? CAIRN_RESUME_FAST : CAIRN_RESUME_EXACT);
    f->requests++;
    if (cairn_rng_chance(&h->rng, 0.05))
        status = change_budget(h, reterr);
    if (status == CAIRN_OK && cancel)
        return cancel_early(h, &prompt, reterr);
    if (status == CAIRN_OK && cairn_rng_chance(&h->rng, 0.25))
        status = begin_beside(h, t, &beside, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_run(h->cache, &prompt, NULL, &h->trace, reterr);
    if (beside != NULL) {
        cairn_cache_end(h->cache, beside, CAIRN_END_STOPPED);
        cairn_request_free(beside);
    }
    if (status != CAIRN_OK)
        return status;
    f->resumed += h->trace.record.resume > 0 ? 1 : 0;
    f->tokens_prompt += h->trace.record.prompt_tokens;
    f->tokens_resumed += h->trace.record.resume;
    memcpy(t->answer, h->trace.answer, sizeof t->answer);
    t->answered = true;
    f->fast += fast ? 1 : 0;
    if (fast)
        return CAIRN_OK;
    prompt.mode = CAIRN_RESUME_EXACT;
    h->cold->engine->ops->reset(h->cold->engine, 0);
    status = cairn_verify_run(h->cache_cold, &prompt, h->trace.answer, &h->trace_cold, reterr);
    if (status == CAIRN_OK)
        compare(h, index, t);
    return status;
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

static cairn_status prepare(history *h, cairn_error *reterr)
{
    const cairn_engine_info *info = &h->warm->engine->info;
    h->room = h->options->tokens_max + 256;
    for (uint32_t i = 0; i < TALKS; i++) {
        h->talks[i].tokens = cairn_mem_array(cairn_mem_default(), h->room, sizeof(cairn_token));
        if (h->talks[i].tokens == NULL)
            return cairn_error_set(reterr, CAIRN_NOMEM, "verify/history", NULL);
    }
    if (cairn_verify_trace_init(&h->trace, info->vocab_size, CAIRN_VERIFY_HISTORY_ANSWER) != CAIRN_OK ||
        cairn_verify_trace_init(&h->trace_cold, info->vocab_size, CAIRN_VERIFY_HISTORY_ANSWER) != CAIRN_OK)
        return cairn_error_set(reterr, CAIRN_NOMEM, "verify/history", NULL);
    /* A dozen states, and the rows of three conversations: what six of them want is several times that. */
    h->budget_bytes =
        12 * info->state_bytes_max + 3 * (uint64_t)h->options->tokens_max * info->row_bytes + (1 << 20);
    cairn_cache_options warm = {.ram_bytes_max = h->budget_bytes},
                        cold = {.ram_bytes_max = UINT64_C(1) << 30, .off = true};
    cairn_status status = cairn_cache_new(cairn_mem_default(), h->warm->engine, &warm, &h->cache, reterr);
    if (status == CAIRN_OK)
        status = cairn_cache_new(cairn_mem_default(), h->cold->engine, &cold, &h->cache_cold, reterr);
    return status;
}

static void release(history *h)
{
    cairn_cache_free(h->cache);
    cairn_cache_free(h->cache_cold);
    for (uint32_t i = 0; i < TALKS; i++)
        cairn_mem_array_release(cairn_mem_default(), h->talks[i].tokens, h->room, sizeof(cairn_token));
    cairn_verify_trace_release(&h->trace);
    cairn_verify_trace_release(&h->trace_cold);
}

cairn_status cairn_verify_history_run(cairn_engine_open *warm, cairn_engine_open *cold,
                                      const cairn_verify_history_options *options,
                                      cairn_verify_history *ret_history, cairn_error *reterr)
{
    static history h;
    memset(&h, 0, sizeof h);
    memset(ret_history, 0, sizeof *ret_history);
    ret_history->differs_step = UINT32_MAX;
    h.warm = warm;
    h.cold = cold;
    h.options = options;
    h.found = ret_history;
    cairn_rng_init(&h.rng, options->seed);
    for (uint32_t slot = 0; slot < warm->engine->info.slots; slot++)
        warm->engine->ops->reset(warm->engine, slot);
    cairn_status status = prepare(&h, reterr);
    for (uint32_t i = 0; i < options->requests && status == CAIRN_OK; i++) {
        status = step(&h, i, reterr);
        if (status == CAIRN_OK && i % 32 == 31)
            status = cairn_cache_verify(h.cache, reterr);
        cairn_term_progress("verify: request %" PRIu32 " of %" PRIu32, i + 1, options->requests);
    }
    if (h.cache != NULL) {
        cairn_cache_stats stats;
        cairn_cache_stats_get(h.cache, &stats);
        ret_history->states_dropped = stats.states_dropped;
    }
    release(&h);
    return status;
}
