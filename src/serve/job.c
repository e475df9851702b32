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

void cairn_job_unref(cairn_job *job)
{
    if (job == NULL || atomic_fetch_sub(&job->refs, 1) != 1)
        return;
    CAIRN_ASSERT(job->work.request == NULL);
    cairn_answer_free(job->answer);
    if (job->shape.free != NULL)
        job->shape.free(job->shape.ctx);
    json_decref(job->notes);
    cairn_sampler_free(job->sampler);
    cairn_chat_prompt_free(job->chat_prompt);
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

bool cairn_job_shows(const cairn_job *job, cairn_token token)
{
    for (uint32_t i = 0; i < job->count_visible; i++) {
        if (job->visible[i] == token)
            return true;
    }
    return false;
}
