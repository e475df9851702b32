/*
 * verify_run - see the header.
 */
#include "cli/verify_run.h"

#include <math.h>
#include <string.h>

cairn_status cairn_verify_trace_init(cairn_verify_trace *t, uint32_t vocab_size, uint32_t answer_tokens)
{
    memset(t, 0, sizeof *t);
    t->vocab_size = vocab_size;
    t->answer_tokens = answer_tokens;
    t->logits =
        cairn_mem_array(cairn_mem_default(), (size_t)(answer_tokens + 1) * vocab_size, sizeof *t->logits);
    t->answer = cairn_mem_array(cairn_mem_default(), answer_tokens, sizeof *t->answer);
    return t->logits == NULL || t->answer == NULL ? CAIRN_NOMEM : CAIRN_OK;
}

void cairn_verify_trace_release(cairn_verify_trace *t)
{
    cairn_mem_array_release(cairn_mem_default(), t->logits, (size_t)(t->answer_tokens + 1) * t->vocab_size,
                            sizeof *t->logits);
    cairn_mem_array_release(cairn_mem_default(), t->answer, t->answer_tokens, sizeof *t->answer);
}

/* The largest logit's token, the lowest among equals. */
static cairn_token largest(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    return (cairn_token)best;
}

/* Step until the logits are ready. */
static cairn_status run_to_ready(cairn_cache *cache, cairn_request *request, cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    while (status == CAIRN_OK && cairn_request_phase(request) != CAIRN_PHASE_READY)
        status = cairn_cache_step(cache, &request, 1, reterr);
    return status;
}

cairn_status cairn_verify_run(cairn_cache *cache, const cairn_prompt *prompt, const cairn_token *force,
                              cairn_verify_trace *t, cairn_error *reterr)
{
    cairn_request *request = NULL;
    cairn_status status = cairn_cache_begin(cache, prompt, &request, reterr);
    if (status != CAIRN_OK)
        return status;
    for (uint32_t i = 0; i <= t->answer_tokens && status == CAIRN_OK; i++) {
        status = run_to_ready(cache, request, reterr);
        if (status != CAIRN_OK)
            break;
        const float *logits = cairn_request_logits(request);
        memcpy(t->logits + (size_t)i * t->vocab_size, logits, t->vocab_size * sizeof *logits);
        if (i == t->answer_tokens)
            break;
        t->answer[i] = largest(logits, t->vocab_size);
        status = cairn_request_push(request, force != NULL ? force[i] : t->answer[i]);
    }
    cairn_cache_end(cache, request, status == CAIRN_OK ? CAIRN_END_DONE : CAIRN_END_BROKEN);
    t->record = *cairn_request_record(request);
    cairn_request_free(request);
    return status;
}

/* log(sum(exp(logits))) */
static double log_sum(const float *logits, uint32_t count)
{
    double top = (double)logits[largest(logits, count)], sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - top);
    return top + log(sum);
}

/* How far b's distribution of the next token is from a's. */
static double divergence(const float *a, const float *b, uint32_t count)
{
    double log_a = log_sum(a, count), log_b = log_sum(b, count), sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        double p = (double)a[i] - log_a, q = (double)b[i] - log_b;
        sum += exp(p) * (p - q);
    }
    return sum > 0 ? sum : 0; /* rounding may make it a little negative */
}

cairn_verify_difference cairn_verify_compare(const cairn_verify_trace *a, const cairn_verify_trace *b)
{
    CAIRN_ASSERT(a->vocab_size == b->vocab_size && a->answer_tokens == b->answer_tokens);
    size_t n = (size_t)(a->answer_tokens + 1) * a->vocab_size;
    cairn_verify_difference d = {.equal = memcmp(a->logits, b->logits, n * sizeof *a->logits) == 0,
                                 .greedy = true};
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)a->logits[i] - (double)b->logits[i]),
               size = fabs((double)a->logits[i]);
        if (!(difference <= d.largest)) /* also takes not-a-number */
            d.largest = difference;
        if (size > d.magnitude)
            d.magnitude = size;
    }
    for (uint32_t i = 0; i <= a->answer_tokens && !d.equal; i++) {
        size_t at = (size_t)i * a->vocab_size;
        double kl = divergence(a->logits + at, b->logits + at, a->vocab_size);
        d.kl = kl > d.kl ? kl : d.kl;
    }
    for (uint32_t i = 0; i < a->answer_tokens; i++)
        d.greedy = d.greedy && a->answer[i] == b->answer[i];
    return d;
}
