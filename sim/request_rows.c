/*
 * request_rows - see the header.
 */
#include "request_rows.h"

#include <stdio.h>

static void table_row(cairn_request_rows *r, const cairn_policy_view *view, const cairn_policy_outcome *o)
{
    const cairn_workload_request *request = view->request;
    char recorded[16] = "-";
    if (request->has_reused) {
        (void)snprintf(recorded, sizeof recorded, "%u", request->reused);
    }
    if (r->count == 0) {
        r->status = cairn_buf_printf(r->out, "%-12s %-12s %9s %8s %8s %8s %8s  %s\n", "traffic", "rule", "s",
                                     "prompt", "least", "reused", "recorded", "why not more");
    }
    if (r->status == CAIRN_OK) {
        r->status = cairn_buf_printf(r->out, "%-12s %-12s %9.3f %8u %8u %8u %8s  %s\n", r->workload,
                                     r->policy, (double)request->time_ns / 1e9, request->prompt_tokens,
                                     request->prompt_tokens - cairn_policy_most(view), o->reused, recorded,
                                     cairn_reason_word(o->reason));
    }
}

static void json_row(cairn_request_rows *r, const cairn_policy_view *view, const cairn_policy_outcome *o)
{
    const cairn_workload_request *request = view->request;
    r->status = cairn_buf_printf(
        r->out,
        "%s{\"workload\":\"%s\",\"policy\":\"%s\",\"t\":%.6f,\"prompt\":%u,\"least\":%u,\"reused\":%u,",
        r->count == 0 ? "{\"requests\":[" : ",\n", r->workload, r->policy, (double)request->time_ns / 1e9,
        request->prompt_tokens, request->prompt_tokens - cairn_policy_most(view), o->reused);
    if (r->status == CAIRN_OK && request->has_reused) {
        r->status = cairn_buf_printf(r->out, "\"recorded\":%u,", request->reused);
    }
    if (r->status == CAIRN_OK) {
        r->status = cairn_buf_printf(r->out, "\"reason\":\"%s\"}", cairn_reason_word(o->reason));
    }
}

void cairn_request_rows_watch(void *ctx, const cairn_policy_view *view, const cairn_policy_outcome *outcome)
{
    cairn_request_rows *r = ctx;
    if (r->status != CAIRN_OK) {
        return;
    }
    if (r->json) {
        json_row(r, view, outcome);
    } else {
        table_row(r, view, outcome);
    }
    r->count++;
    r->differ += view->request->has_reused && view->request->reused != outcome->reused;
}

cairn_status cairn_request_rows_end(cairn_request_rows *r)
{
    if (r->status == CAIRN_OK && r->json) {
        r->status = cairn_buf_printf(r->out, "%s],\"count\":%llu,\"differ\":%llu}\n",
                                     r->count == 0 ? "{\"requests\":[" : "", (unsigned long long)r->count,
                                     (unsigned long long)r->differ);
    } else if (r->status == CAIRN_OK) {
        r->status =
            cairn_buf_printf(r->out, "%llu requests; %llu reused another number of tokens than recorded\n",
                             (unsigned long long)r->count, (unsigned long long)r->differ);
    }
    return r->status;
}
