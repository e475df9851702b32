/*
 * turn - see the header.
 */
#include "serve/turn.h"

#include <string.h>

#include "serve/json_answer.h"
#include "serve/logprobs.h"

static uint64_t now_ns(const cairn_scheduler_options *o)
{
    return cairn_clock_now_ns(o->clock);
}

/* Hand what is in `out` to the reader. */
static cairn_status speak(const cairn_scheduler_options *o, cairn_job *job)
{
    if (job->work.out.len_bytes == 0)
        return CAIRN_OK;
    job->work.spoken_ns = now_ns(o);
    return cairn_outbox_put(&job->outbox, &job->work.out);
}

/* It can't be answered: an error in place of the answer, or the last event of a stream that has begun. */
static void give_up(const cairn_scheduler_options *o, cairn_job *job, const cairn_api_error *api)
{
    bool begun = cairn_outbox_is_started(&job->outbox) && !cairn_outbox_is_cancelled(&job->outbox);
    const cairn_record *record = job->work.request != NULL ? cairn_request_record(job->work.request) : NULL;
    if (begun && job->params.stream &&
        cairn_answer_fail(job->answer, api, record, &job->work.out) == CAIRN_OK &&
        speak(o, job) == CAIRN_OK) {
        cairn_outbox_end(&job->outbox);
    } else {
        cairn_outbox_fail(&job->outbox, api);
    }
}

/* The slot that the client names, else the one that its session used last: a hint. */
static void prefer_slot(const cairn_scheduler_options *o, cairn_job *job)
{
    uint32_t preferred = 0;
    for (uint32_t i = 0; i < o->slots && job->session != 0; i++) {
        if (o->sessions[i] == job->session)
            preferred = i + 1;
    }
    if (job->params.slot >= 0 && job->params.slot < (int64_t)o->slots)
        preferred = (uint32_t)job->params.slot + 1;
    job->prompt.slot_hint = preferred;
}

cairn_turn cairn_turn_begin(const cairn_scheduler_options *o, cairn_job *job)
{
    cairn_error error = {0};
    prefer_slot(o, job);
    if (!o->no_excerpts && !job->excerpt.there)
        cairn_excerpt_take(&job->excerpt, o->cache, o->vocab, &job->prompt);
    cairn_status status = cairn_cache_begin(o->cache, &job->prompt, &job->work.request, &error);
    if (status == CAIRN_BUSY)
        return CAIRN_TURN_WAITS;
    if (status == CAIRN_OK) {
        job->work.begun_ns = now_ns(o);
        return CAIRN_TURN_GOES_ON;
    }
    cairn_api_error api = {0};
    if (status == CAIRN_LIMIT) {
        cairn_api_error_context(&api, job->surface == CAIRN_SURFACE_CHAT ? "messages" : "prompt",
                                job->prompt.count, o->slot_tokens_max);
    } else {
        cairn_api_error_from(&api, &error);
    }
    if (status != CAIRN_LIMIT)
        cairn_log_error(o->log, CAIRN_LOG_LEVEL_ERROR, "begin", &error);
    give_up(o, job, &api);
    return CAIRN_TURN_OVER;
}

/* --- end --------------------------------------------------------------------------------------------------------- */

/* A finished answer may come back with the next request. */
static void remember(cairn_job *job, cairn_finish finish)
{
    cairn_job_work *w = &job->work;
    if (job->recall.answers == NULL || job->chat_prompt == NULL || job->chat_prompt->continues ||
        job->prompt.no_store || w->hidden || finish == CAIRN_FINISH_STOP_TEXT)
        return;
    if (finish == CAIRN_FINISH_LENGTH && cairn_answer_count_calls(job->answer) > 0)
        return; /* the last call may be a part of one */
    const cairn_chat_text message = cairn_answer_message(job->answer);
    if (message.bytes > 0)
        cairn_recall_keep(&job->recall, &job->prompt.space, job->chat_prompt, &job->tokens, &message,
                          (const cairn_token *)(const void *)w->sampled.bytes,
                          (uint32_t)(w->sampled.len_bytes / sizeof(cairn_token)));
}

/* A token of the answer; without memory for it the answer is not remembered, and its record ends there. */
static void note_token(const cairn_scheduler_options *o, cairn_job *job, cairn_token token, bool shown)
{
    cairn_job_work *w = &job->work;
    if (job->recall.answers == NULL && o->recorder == NULL)
        return;
    w->hidden = w->hidden || !shown || cairn_buf_append(&w->sampled, &token, sizeof token) != CAIRN_OK;
}

static void tell_answers(const cairn_scheduler_options *o, const cairn_job *job)
{
    if (job->recall.answers == NULL)
        return;
    cairn_answers_stats stats;
    cairn_answers_stats_get(job->recall.answers, &stats);
    cairn_metrics_answers(o->metrics, job->recall.count_in_place, &stats);
}

/* For `cairn simulate`. The last token that was sampled may not have been decoded. */
static void record_trace(const cairn_scheduler_options *o, const cairn_job *job, const cairn_record *record,
                         cairn_ending ending)
{
    uint32_t sampled = (uint32_t)(job->work.sampled.len_bytes / sizeof(cairn_token));
    cairn_recorder_entry entry = {.id = job->id,
                                  .begun_ns = job->work.begun_ns,
                                  .prompt = &job->prompt,
                                  .answer = (const cairn_token *)(const void *)job->work.sampled.bytes,
                                  .count_answer =
                                      record->answer_tokens < sampled ? record->answer_tokens : sampled,
                                  .record = record,
                                  .ending = ending};
    cairn_recorder_add(o->recorder, &entry);
}

static const char *ending_word(cairn_ending ending)
{
    static const char *const words[] = {"done", "stopped", "broken"};
    return words[ending];
}

static void log_end(const cairn_scheduler_options *o, const cairn_job *job, cairn_ending ending,
                    const cairn_record *r, const cairn_request_times *t)
{
    CAIRN_LOG(o->log, INFO, "request", CAIRN_FIELD_UINT("id", job->id),
              CAIRN_FIELD_STR("end", ending_word(ending)), CAIRN_FIELD_UINT("prompt", r->prompt_tokens),
              CAIRN_FIELD_UINT("reused", r->resume), CAIRN_FIELD_UINT("read", r->read),
              CAIRN_FIELD_UINT("least", r->least), CAIRN_FIELD_STR("tier", cairn_source_word(r->source)),
              CAIRN_FIELD_STR("reason", cairn_reason_word(r->reason)),
              CAIRN_FIELD_UINT("parts_at", r->divergence), CAIRN_FIELD_UINT("message", r->divergence_message),
              CAIRN_FIELD_STR("role", cairn_role_word(r->divergence_role)),
              CAIRN_FIELD_UINT("answer", t->answer_tokens),
              CAIRN_FIELD_UINT("recalled", job->recall.count_in_place),
              CAIRN_FIELD_UINT("queue_ms", t->queue_ns / 1000000),
              CAIRN_FIELD_UINT("prompt_ms", t->prompt_ns / 1000000),
              CAIRN_FIELD_UINT("answer_ms", t->answer_ns / 1000000),
              CAIRN_FIELD_UINT("restore_ms", r->restore_ns / 1000000),
              CAIRN_FIELD_UINT("save_ms", r->save_ns / 1000000));
}

/* Before the first boundary lies the first message: its role stands in the request alone. */
static void name_first_role(const cairn_job *job, cairn_record *record)
{
    static const char *const words[] = {"system", "developer", "user", "assistant", "tool"};
    static const uint8_t roles[] = {CAIRN_ROLE_SYSTEM, CAIRN_ROLE_SYSTEM, CAIRN_ROLE_USER,
                                    CAIRN_ROLE_ASSISTANT, CAIRN_ROLE_TOOL};
    const json_t *first = json_array_get(json_object_get(job->json, "messages"), 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    if (role == NULL || record->divergence_message != 0 || record->divergence_role != CAIRN_ROLE_NONE)
        return;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(role, words[i]) == 0)
            record->divergence_role = roles[i];
    }
}

/* Why it was stopped, for a client that still listens. */
static void stopped_error(const cairn_job *job, cairn_api_error *api)
{
    if (job->work.late) {
        cairn_api_error_set(api, 504, "timeout_error", "request_timeout",
                            "The request took longer than this server allows (--request-timeout).");
    } else {
        cairn_api_error_set(api, 503, "unavailable_error", "stopped", "The request was stopped.");
    }
}

/* For GET /cairn/requests. */
static void note_history(const cairn_scheduler_options *o, const cairn_job *job, cairn_ending ending,
                         const cairn_record *record, const cairn_request_times *times)
{
    cairn_history_entry entry = {.id = job->id,
                                 .ended_wall_ms = cairn_clock_wall_ms(o->clock),
                                 .ending = ending,
                                 .record = *record,
                                 .times = *times,
                                 .owner = job->owner,
                                 .space = job->prompt.space,
                                 .recalled = job->recall.count_in_place,
                                 .excerpt = job->excerpt,
                                 .arrived_ns = job->work.arrived_ns,
                                 .timeline = *cairn_request_timeline(job->work.request)};
    cairn_history_add(o->history, &entry);
}

void cairn_turn_end(const cairn_scheduler_options *o, cairn_job *job, cairn_ending ending,
                    cairn_finish finish)
{
    cairn_job_work *w = &job->work;
    uint64_t now = now_ns(o), first = w->answering ? w->first_ns : now;
    cairn_api_error api = {0};
    if (ending == CAIRN_END_BROKEN) {
        if (w->error.status == CAIRN_OK && cairn_request_error(w->request) != NULL)
            w->error = *cairn_request_error(w->request);
        cairn_api_error_from(&api, &w->error);
        cairn_log_error(o->log, CAIRN_LOG_LEVEL_ERROR, "request", &w->error);
    }
    cairn_cache_end(o->cache, w->request, ending);
    cairn_record record = *cairn_request_record(w->request);
    name_first_role(job, &record);
    cairn_request_times times = {.queue_ns = w->begun_ns - w->arrived_ns,
                                 .prompt_ns = first - w->begun_ns,
                                 .answer_ns = w->answering ? w->last_ns - first : 0,
                                 .answer_tokens = w->answer_tokens};
    uint64_t taken_ns = cairn_outbox_taken_ns(&job->outbox);
    if (taken_ns > record.decoded_ns && record.decoded_ns > 0)
        times.first_byte_ns = taken_ns - record.decoded_ns;
    if (ending == CAIRN_END_DONE) {
        cairn_status status = cairn_answer_end(job->answer, finish, &record, &times, &w->out);
        if (status != CAIRN_OK) {
            ending = CAIRN_END_BROKEN;
            (void)cairn_error_set(&w->error, status, "turn/end", "the answer could not be written");
            cairn_api_error_from(&api, &w->error);
        }
        if (ending == CAIRN_END_DONE)
            remember(job, finish);
    } else if (ending == CAIRN_END_STOPPED) {
        stopped_error(job, &api);
    }
    /* Before the client hears of the end: who asks next does not ask at the same time, and finds this one in the counts. */
    if (ending != CAIRN_END_DONE || !cairn_job_has_next(job)) {
        cairn_unison_leave(job->unison);
        job->unison = NULL;
    }
    log_end(o, job, ending, &record, &times);
    cairn_metrics_request(o->metrics, ending, &record, &times);
    tell_answers(o, job);
    note_history(o, job, ending, &record, &times);
    o->sessions[record.slot] = job->session;
    record_trace(o, job, &record, ending);
    if (ending == CAIRN_END_DONE && speak(o, job) == CAIRN_OK) {
        if (!cairn_job_has_next(job))
            cairn_outbox_end(&job->outbox);
    } else {
        cairn_api_error_set(&api, 500, "server_error", NULL, "The answer could not be handed over.");
        give_up(o, job, &api);
    }
    cairn_request_free(w->request);
    w->request = NULL;
}

void cairn_turn_abandon(const cairn_scheduler_options *o, cairn_job *job)
{
    cairn_api_error api = {0};
    if (job->work.late) {
        stopped_error(job, &api);
    } else {
        cairn_api_error_set(&api, 503, "unavailable_error", "stopping", "The server is stopping.");
    }
    CAIRN_LOG(o->log, INFO, "request", CAIRN_FIELD_UINT("id", job->id), CAIRN_FIELD_STR("end", "stopped"),
              CAIRN_FIELD_UINT("prompt", job->prompt.count), CAIRN_FIELD_STR("reason", "left the queue"));
    give_up(o, job, &api);
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

bool cairn_turn_is_stalled(const cairn_scheduler_options *o, cairn_job *job)
{
    if (!cairn_outbox_is_full(&job->outbox)) {
        job->work.paused_ns = 0;
        return false;
    }
    uint64_t now = now_ns(o);
    if (job->work.paused_ns == 0)
        job->work.paused_ns = now;
    return now - job->work.paused_ns > (uint64_t)CAIRN_SCHEDULER_STALL_S * 1000000000u;
}

/* A long read: tell the operator, and keep a streaming client's connection from looking dead. */
static void tell_progress(const cairn_scheduler_options *o, cairn_job *job)
{
    const cairn_record *r = cairn_request_record(job->work.request);
    if (o->progress != NULL)
        o->progress(o->progress_ctx, job->id, r->resume + r->read, r->prompt_tokens);
    uint64_t now = now_ns(o);
    if (!job->params.stream || now - job->work.spoken_ns < (uint64_t)CAIRN_SCHEDULER_PING_S * 1000000000u)
        return;
    if (cairn_buf_append_str(&job->work.out, ": reading\n\n") == CAIRN_OK)
        (void)speak(o, job); /* a reader that is gone is noticed before the next round */
}

/* The text of a token; special ones only where the parser needs them. */
static cairn_status token_text(const cairn_scheduler_options *o, const cairn_job *job, cairn_token token,
                               char *text, uint32_t room, uint32_t *ret_bytes)
{
    *ret_bytes = 0;
    bool shown = !cairn_llama_is_control(o->vocab, token) || cairn_job_shows(job, token);
    return shown ? cairn_llama_piece(o->vocab, token, true, text, room, ret_bytes) : CAIRN_OK;
}

/* What the client wants to know of the token besides its text. */
static cairn_status note_probabilities(const cairn_scheduler_options *o, cairn_job *job, cairn_token token)
{
    const cairn_params *p = &job->params;
    if (!p->logprobs && !p->return_tokens)
        return CAIRN_OK;
    json_t *entry = NULL;
    if (p->logprobs) {
        entry = cairn_logprobs_entry(o->vocab, cairn_request_logits(job->work.request), token,
                                     (uint32_t)p->top_logprobs);
    }
    return cairn_answer_note(job->answer, token, entry);
}

/* The next token: sampled, or what an equal request sampled, or the script's, which may be over. */
static cairn_status choose(const cairn_scheduler_options *o, cairn_job *job, bool *ret_over)
{
    cairn_job_work *w = &job->work;
    if (job->scripted) {
        *ret_over = w->answer_tokens >= job->script.count;
        if (!*ret_over)
            w->next = job->script.items[w->answer_tokens];
    } else {
        cairn_status status = CAIRN_OK;
        uint32_t place = w->answer_tokens;
        if (!cairn_unison_get(job->unison, place, &w->next))
            status =
                cairn_sampler_sample(job->sampler, cairn_request_logits(w->request), &w->next, &w->error);
        if (status == CAIRN_OK)
            status = cairn_sampler_accept(job->sampler, w->next, true, &w->error);
        if (status != CAIRN_OK)
            return status;
        cairn_unison_note(job->unison, place, w->next);
    }
    *ret_over = *ret_over || cairn_llama_is_eog(o->vocab, w->next);
    return CAIRN_OK;
}

/* Sample one token and hand its text out. *ret_over: the answer ends here, for the reason *ret_finish. */
static cairn_status sample(const cairn_scheduler_options *o, cairn_job *job, bool *ret_over,
                           cairn_finish *ret_finish)
{
    cairn_job_work *w = &job->work;
    char text[CAIRN_PIECE_BYTES_MAX];
    uint32_t len_bytes = 0;
    cairn_status status = choose(o, job, ret_over);
    if (status != CAIRN_OK)
        return status;
    w->answer_tokens++;
    w->last_ns = now_ns(o);
    if (*ret_over) {
        *ret_finish = CAIRN_FINISH_STOP;
        return CAIRN_OK;
    }
    bool stopped = false;
    note_token(o, job, w->next, !cairn_llama_is_control(o->vocab, w->next) || cairn_job_shows(job, w->next));
    status = token_text(o, job, w->next, text, sizeof text, &len_bytes);
    if (status == CAIRN_OK)
        status = note_probabilities(o, job, w->next);
    if (status == CAIRN_OK && len_bytes > 0)
        status = cairn_answer_text(job->answer, text, len_bytes, &w->out, &stopped);
    if (status != CAIRN_OK)
        return status;
    if (stopped) {
        *ret_over = true;
        *ret_finish = CAIRN_FINISH_STOP_TEXT;
    } else if (job->params.answer_tokens_max >= 0 && w->answer_tokens >= job->params.answer_tokens_max) {
        *ret_over = true;
        *ret_finish = CAIRN_FINISH_LENGTH;
    }
    return CAIRN_OK;
}

cairn_turn cairn_turn_after_step(const cairn_scheduler_options *o, cairn_job *job)
{
    cairn_job_work *w = &job->work;
    cairn_phase phase = cairn_request_phase(w->request);
    if (phase == CAIRN_PHASE_FAILED) {
        cairn_turn_end(o, job, CAIRN_END_BROKEN, CAIRN_FINISH_STOP);
        return CAIRN_TURN_OVER;
    }
    if (phase != CAIRN_PHASE_READY) {
        tell_progress(o, job);
        return CAIRN_TURN_GOES_ON;
    }
    bool over = false;
    cairn_finish finish = CAIRN_FINISH_STOP;
    cairn_status status = CAIRN_OK;
    if (!w->answering) {
        w->answering = true;
        w->first_ns = w->last_ns = now_ns(o);
        status = cairn_answer_begin(job->answer, cairn_request_record(w->request), &w->out);
        over = job->params.answer_tokens_max == 0;
        finish = CAIRN_FINISH_LENGTH;
    }
    if (status == CAIRN_OK && !over)
        status = sample(o, job, &over, &finish);
    if (status == CAIRN_OK && !over) {
        status = cairn_request_push(w->request, w->next);
        if (status == CAIRN_LIMIT) {
            over = true;
            finish = CAIRN_FINISH_LENGTH;
            status = CAIRN_OK;
        }
    }
    if (status == CAIRN_OK && !over)
        status = speak(o, job);
    if (status != CAIRN_OK) {
        if (w->error.status == CAIRN_OK)
            (void)cairn_error_set(&w->error, status, "turn/step", "the answer could not be continued");
        cairn_turn_end(
            o, job, status == CAIRN_CANCELLED || status == CAIRN_LIMIT ? CAIRN_END_STOPPED : CAIRN_END_BROKEN,
            finish);
        return CAIRN_TURN_OVER;
    }
    if (!over)
        return CAIRN_TURN_GOES_ON;
    cairn_turn_end(o, job, CAIRN_END_DONE, finish);
    if (cairn_outbox_is_cancelled(&job->outbox) || !cairn_job_next(job))
        return CAIRN_TURN_OVER;
    w->arrived_ns = now_ns(o);
    return cairn_turn_begin(o, job); /* the next of several answers, in the place that has just become free */
}
