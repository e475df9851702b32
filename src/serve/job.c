/*
 * job - see the header.
 */
#include "serve/job.h"

#include <string.h>

cairn_job *cairn_job_new(const cairn_mem *mem, uint64_t id, size_t outbox_bytes_max)
{
    cairn_job *job = cairn_mem_zalloc(mem, sizeof *job);
    if (job == NULL)
        return NULL;
    job->mem = mem;
    job->id = id;
    atomic_init(&job->refs, 1);
    cairn_outbox_init(&job->outbox, mem, outbox_bytes_max);
    cairn_buf_init(&job->work.out, mem, outbox_bytes_max);
    cairn_buf_init(&job->work.sampled, mem, SIZE_MAX / 4);
    cairn_recall_init(&job->recall, mem, NULL);
    cairn_params_init(&job->params);
    return job;
}

void cairn_job_ref(cairn_job *job)
{
    unsigned before = atomic_fetch_add(&job->refs, 1);
    CAIRN_ASSERT(before > 0);
}

static void text_release(const cairn_job *job, cairn_job_text *text)
{
    cairn_tokens_release(job->mem, &text->tokens);
    cairn_mem_release(job->mem, text->echo, text->echo_bytes);
    memset(text, 0, sizeof *text);
}

void cairn_job_unref(cairn_job *job)
{
    if (job == NULL || atomic_fetch_sub(&job->refs, 1) != 1)
        return;
    CAIRN_ASSERT(job->work.request == NULL);
    cairn_unison_leave(job->unison);
    cairn_answer_free(job->answer);
    for (uint32_t i = 0; i < job->count_choices; i++) {
        cairn_answer_free(job->choices[i].answer);
        cairn_sampler_free(job->choices[i].sampler);
    }
    for (uint32_t i = 0; i < job->count_texts; i++)
        text_release(job, &job->texts[i]);
    cairn_mem_array_release(job->mem, job->choices, job->count_choices, sizeof *job->choices);
    cairn_mem_array_release(job->mem, job->texts, job->count_texts, sizeof *job->texts);
    cairn_answer_sum_release(&job->sum);
    if (job->shape.free != NULL)
        job->shape.free(job->shape.ctx);
    json_decref(job->notes);
    json_decref(job->extras);
    cairn_sampler_free(job->sampler);
    cairn_chat_prompt_free(job->chat_prompt);
    cairn_chat_string_free(job->schema_grammar);
    cairn_tokens_release(job->mem, &job->tokens);
    cairn_tokens_release(job->mem, &job->script);
    cairn_recall_release(&job->recall);
    cairn_buf_release(&job->work.sampled);
    cairn_mem_array_release(job->mem, job->boundaries, job->room_boundaries, sizeof *job->boundaries);
    cairn_mem_array_release(job->mem, job->visible, job->count_visible, sizeof *job->visible);
    cairn_mem_release(job->mem, job->echo, job->echo_bytes);
    json_decref(job->json);
    cairn_buf_release(&job->work.out);
    cairn_outbox_release(&job->outbox);
    cairn_mem_release(job->mem, job, sizeof *job);
}

/* --- several answers --------------------------------------------------------------------------------------------- */

bool cairn_job_has_next(const cairn_job *job)
{
    return job->choice < job->count_choices;
}

/* The prompt `index` of the list becomes the present one. */
static void take_text(cairn_job *job, uint32_t index)
{
    cairn_job_text *text = &job->texts[index];
    if (text->tokens.count == 0)
        return; /* it is the present one */
    cairn_job_text old = {.tokens = job->tokens, .echo = job->echo, .echo_bytes = job->echo_bytes};
    text_release(job, &old);
    job->tokens = text->tokens;
    job->echo = text->echo;
    job->echo_bytes = text->echo_bytes;
    memset(text, 0, sizeof *text);
}

bool cairn_job_next(cairn_job *job)
{
    if (!cairn_job_has_next(job))
        return false;
    cairn_job_work *w = &job->work;
    cairn_job_choice *next = &job->choices[job->choice++];
    cairn_answer_free(job->answer);
    cairn_sampler_free(job->sampler);
    job->answer = next->answer;
    job->sampler = next->sampler;
    next->answer = NULL;
    next->sampler = NULL;
    if (job->count_texts > 0)
        take_text(job, next->text);
    int64_t room = (int64_t)job->context_tokens - job->tokens.count, asked = job->answer_tokens_asked;
    job->params.answer_tokens_max = asked < 0 || asked > room ? room : asked;
    job->prompt.tokens = job->tokens.items;
    job->prompt.count = job->tokens.count;
    job->prompt.answer_tokens_max = (uint32_t)job->params.answer_tokens_max;
    memset(&job->excerpt, 0, sizeof job->excerpt);
    w->answering = w->hidden = false;
    w->begun_ns = w->first_ns = w->last_ns = w->held_ns = w->looked_ns = w->paused_ns = 0;
    w->answer_tokens = 0;
    cairn_buf_reset(&w->sampled);
    memset(&w->error, 0, sizeof w->error);
    return true;
}

bool cairn_job_shows(const cairn_job *job, cairn_token token)
{
    for (uint32_t i = 0; i < job->count_visible; i++) {
        if (job->visible[i] == token)
            return true;
    }
    return false;
}
