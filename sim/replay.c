/*
 * replay - drives a policy through traffic and adds up what it did.
 */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

typedef struct replay_state {
    const cairn_mem *mem;
    const cairn_replay_options *options;
    uint8_t *seen;  /* by node: an earlier request went through it */
    uint32_t *path; /* uint32_t[room_path]                         */
    uint32_t room_path;
    uint64_t *ttft; /* uint64_t[requests]                          */
    uint64_t free_ns;
} replay_state;

static void replay_release(replay_state *r)
{
    const cairn_workload *w = r->options->workload;
    cairn_mem_array_release(r->mem, r->seen, w->count_nodes + 1, 1);
    cairn_mem_array_release(r->mem, r->path, r->room_path, sizeof *r->path);
    cairn_mem_array_release(r->mem, r->ttft, w->count_requests + 1, sizeof *r->ttft);
}

static cairn_status replay_init(replay_state *r, const cairn_mem *mem, const cairn_replay_options *options)
{
    const cairn_workload *w = options->workload;
    memset(r, 0, sizeof *r);
    r->mem = mem;
    r->options = options;
    r->room_path = 1024;
    r->seen = cairn_mem_array(mem, w->count_nodes + 1, 1);
    r->path = cairn_mem_array(mem, r->room_path, sizeof *r->path);
    r->ttft = cairn_mem_array(mem, w->count_requests + 1, sizeof *r->ttft);
    return r->seen != NULL && r->path != NULL && r->ttft != NULL ? CAIRN_OK : CAIRN_NOMEM;
}

/* The request as a rule sees it: its path and how much of it is known. */
static cairn_status look(replay_state *r, uint32_t index, cairn_policy_view *view)
{
    const cairn_workload *w = r->options->workload;
    uint32_t prompt = 0;
    uint32_t count = cairn_workload_path(w, index, r->path, r->room_path, &prompt);
    if (count > r->room_path) {
        void *bigger = cairn_mem_array_resize(r->mem, r->path, r->room_path, count, sizeof *r->path);
        if (bigger == NULL) {
            return CAIRN_NOMEM;
        }
        r->path = bigger;
        r->room_path = count;
        count = cairn_workload_path(w, index, r->path, r->room_path, &prompt);
    }
    const cairn_workload_request *request = &w->requests[index];
    *view = (cairn_policy_view){.index = index,
                                .request = request,
                                .boundaries =
                                    w->boundaries != NULL ? w->boundaries + request->boundaries_begin : NULL,
                                .path = r->path,
                                .count_path = count,
                                .count_prompt = prompt};
    for (uint32_t i = 0; i < prompt && r->seen[r->path[i]]; i++) {
        view->divergence = w->nodes[r->path[i]].end;
    }
    view->now_ns = request->time_ns > r->free_ns ? request->time_ns : r->free_ns;
    return CAIRN_OK;
}

static cairn_status check(const replay_state *r, const cairn_policy_view *view,
                          const cairn_policy_outcome *out, cairn_error *reterr)
{
    const char *name = r->options->policy->name;
    if (out->reused > cairn_policy_most(view)) {
        return cairn_error_set(reterr, CAIRN_INTERNAL, "sim/replay",
                               "%s reused %u tokens of request %u; %u are known", name, out->reused,
                               view->index, cairn_policy_most(view));
    }
    if (out->held_peak > r->options->budget_bytes) {
        return cairn_error_set(
            reterr, CAIRN_INTERNAL, "sim/replay", "%s held %llu bytes at request %u; the cap is %llu", name,
            (unsigned long long)out->held_peak, view->index, (unsigned long long)r->options->budget_bytes);
    }
    return CAIRN_OK;
}

static uint64_t first_token_ns(const cairn_profile *profile, const cairn_policy_view *view,
                               const cairn_policy_outcome *out)
{
    double early = (double)(out->snapshots - out->snapshots_late) * cairn_profile_take_ns(profile);
    double moved = (double)(out->restored_bytes + out->saved_bytes) * profile->move_ns_byte;
    return (
        uint64_t)(early + moved +
                  cairn_profile_read_ns(profile, out->reused, view->request->prompt_tokens, out->batches));
}

static void add_up(replay_state *r, const cairn_policy_view *view, const cairn_policy_outcome *out,
                   cairn_replay_result *sum)
{
    const cairn_profile *profile = r->options->profile;
    uint32_t prompt = view->request->prompt_tokens;
    uint64_t first = first_token_ns(profile, view, out);
    r->ttft[sum->requests++] = first;
    r->free_ns = view->now_ns + first;
    sum->tokens_prompt += prompt;
    sum->tokens_read += prompt - out->reused;
    sum->tokens_least += prompt - cairn_policy_most(view);
    sum->read_ns += first;
    sum->held_end = out->held_bytes;
    sum->held_peak = out->held_peak;
    sum->snapshots += out->snapshots;
    sum->snapshot_ns += (uint64_t)(out->snapshots * cairn_profile_take_ns(profile));
    sum->moved_bytes += out->restored_bytes + out->saved_bytes;
    uint64_t numbers[7] = {out->reused,      out->batches,    out->snapshots, out->restored_bytes,
                           out->saved_bytes, out->held_bytes, out->digest};
    sum->digest = cairn_hash_bytes64(numbers, sizeof numbers, sum->digest);
    for (uint32_t i = 0; i < view->count_path; i++) {
        r->seen[view->path[i]] = 1;
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

cairn_status cairn_replay(const cairn_mem *mem, const cairn_replay_options *options,
                          cairn_replay_result *ret_result, cairn_error *reterr)
{
    const cairn_workload *w = options->workload;
    cairn_policy_setup setup = {.mem = mem,
                                .w = w,
                                .profile = options->profile,
                                .budget_bytes = options->budget_bytes,
                                .slots = options->slots > 0 ? options->slots : w->slots};
    replay_state r;
    void *self = NULL;
    cairn_replay_result sum = {.policy = options->policy->name,
                               .workload = w->name,
                               .profile = options->profile->name,
                               .recorded = w->recorded,
                               .fleet = w->fleet,
                               .budget_bytes = options->budget_bytes};
    cairn_status status = replay_init(&r, mem, options);
    if (status != CAIRN_OK) {
        status = cairn_error_set(reterr, status, "sim/replay", NULL);
    } else {
        status = options->policy->make(&setup, &self, reterr);
    }
    for (uint32_t i = 0; status == CAIRN_OK && i < w->count_requests; i++) {
        cairn_policy_view view;
        cairn_policy_outcome out = {0};
        status = look(&r, i, &view);
        if (status != CAIRN_OK) {
            status = cairn_error_set(reterr, status, "sim/replay", NULL);
            break;
        }
        status = options->policy->request(self, &view, &out, reterr);
        if (status == CAIRN_OK) {
            status = check(&r, &view, &out, reterr);
        }
        if (status == CAIRN_OK) {
            if (options->watch != NULL) {
                options->watch(options->watch_ctx, &view, &out);
            }
            add_up(&r, &view, &out, &sum);
        }
    }
    if (self != NULL) {
        options->policy->free(self);
    }
    if (status == CAIRN_OK && sum.requests > 0) {
        qsort(r.ttft, sum.requests, sizeof *r.ttft, by_value);
        sum.ttft_p50_ns = r.ttft[(sum.requests - 1) / 2];
        sum.ttft_p95_ns = r.ttft[(sum.requests - 1) * 95 / 100];
    }
    if (status == CAIRN_OK) {
        *ret_result = sum;
    }
    replay_release(&r);
    return status;
}

double cairn_replay_waste(const cairn_replay_result *result)
{
    return result->tokens_least > 0 ? (double)result->tokens_read / (double)result->tokens_least : 0;
}

double cairn_replay_hit_rate(const cairn_replay_result *result)
{
    return result->tokens_prompt > 0 ? 1 - (double)result->tokens_read / (double)result->tokens_prompt : 0;
}

double cairn_replay_of_perfect(const cairn_replay_result *result)
{
    uint64_t most = result->tokens_prompt - result->tokens_least;
    return most > 0 ? (double)(result->tokens_prompt - result->tokens_read) / (double)most : 0;
}

uint64_t cairn_replay_whole_bytes(const cairn_workload *w, const cairn_profile *profile)
{
    return w->count_tokens * profile->row_bytes + w->count_sessions * profile->state_bytes;
}
