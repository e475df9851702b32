/*
 * losses - see losses.h.
 */
#include "losses.h"

#include <string.h>

#include "core/boundary.h"

/* A state this near before the place would have been taken for it. */
enum { NEAR = 8 };

enum { FIRST, START, AGAIN };

static const char *const causes[CAIRN_LOSS_CAUSES] = {"first", "start", "again"};

cairn_status cairn_losses_init(cairn_losses *losses, const cairn_mem *mem, const cairn_workload *w,
                               cairn_buf *out, uint32_t least)
{
    *losses = (cairn_losses){.mem = mem, .w = w, .out = out, .least = least};
    losses->parted = cairn_mem_array(mem, (size_t)w->count_nodes + 1, sizeof *losses->parted);
    cairn_status status = losses->parted != NULL ? CAIRN_OK : CAIRN_NOMEM;
    if (status == CAIRN_OK && out != NULL && out->len_bytes == 0) {
        status = cairn_buf_printf(out, "%-17s %5s %-8s %7s %7s %7s %6s  %-10s %-7s %-6s %4s  %-11s %7s\n",
                                  "traffic", "no", "kind", "prompt", "parted", "reused", "lost", "in", "at",
                                  "cause", "seen", "reason", "speaks of");
    }
    return status;
}

void cairn_losses_release(cairn_losses *losses)
{
    if (losses->w != NULL) {
        cairn_mem_array_release(losses->mem, losses->parted, (size_t)losses->w->count_nodes + 1,
                                sizeof *losses->parted);
    }
    *losses = (cairn_losses){0};
}

/* Index of the node that ends at the divergence; the workload's count when there is none. */
static uint32_t place_of(const cairn_losses *losses, const cairn_policy_view *view)
{
    for (uint32_t i = 0; i < view->count_path; i++) {
        if (losses->w->nodes[view->path[i]].end == view->divergence) {
            return view->path[i];
        }
    }
    return losses->w->count_nodes;
}

void cairn_losses_watch(void *ctx, const cairn_policy_view *view, const cairn_policy_outcome *outcome)
{
    cairn_losses *losses = ctx;
    const cairn_workload_request *request = view->request;
    uint32_t place = place_of(losses, view);
    uint32_t before = losses->parted[place]++;
    uint32_t most = cairn_policy_most(view);
    losses->taken += outcome->snapshots;
    losses->used += outcome->first_uses;
    if (outcome->reused >= most) {
        return;
    }
    uint32_t lost = most - outcome->reused;
    cairn_prompt prompt = {.count = request->prompt_tokens,
                           .boundaries = view->boundaries,
                           .count_boundaries = request->count_boundaries};
    cairn_boundary in = cairn_boundary_message_of(&prompt, most);
    bool starts = in.kinds != 0 && most - in.position < NEAR;
    uint32_t cause = before > 0 ? AGAIN : starts ? START : FIRST;
    uint32_t reason = (uint32_t)outcome->reason < CAIRN_LOSS_REASONS ? (uint32_t)outcome->reason : 0;
    losses->tokens[cause][reason] += lost;
    losses->requests[cause][reason]++;
    if (losses->out == NULL || lost < losses->least) {
        return;
    }
    cairn_status status = cairn_buf_printf(
        losses->out, "%-17s %5u %-8s %7u %7u %7u %6u  %-10s +%-6u %-6s %4u  %-11s %7u\n", losses->w->name,
        view->index, request->kind, request->prompt_tokens, most, outcome->reused, lost,
        in.kinds != 0 ? cairn_boundary_class_word(cairn_boundary_class(in.kinds, in.role)) : "none",
        most - in.position, causes[cause], before, cairn_reason_word(outcome->reason),
        outcome->reason_position);
    losses->failed = losses->failed || status != CAIRN_OK;
}

cairn_status cairn_losses_sums(const cairn_losses *losses, cairn_buf *out)
{
    for (uint32_t cause = 0; cause < CAIRN_LOSS_CAUSES; cause++) {
        for (uint32_t reason = 0; reason < CAIRN_LOSS_REASONS; reason++) {
            if (losses->requests[cause][reason] == 0) {
                continue;
            }
            cairn_status status = cairn_buf_printf(
                out, "%-17s %-6s %-12s %6llu requests %10llu tokens\n", losses->w->name, causes[cause],
                cairn_reason_word((cairn_reason)reason), (unsigned long long)losses->requests[cause][reason],
                (unsigned long long)losses->tokens[cause][reason]);
            if (status != CAIRN_OK) {
                return status;
            }
        }
    }
    cairn_status status = CAIRN_OK;
    if (losses->used > 0) { /* the rule tells */
        status = cairn_buf_printf(out, "%-17s states %10llu taken, %llu of them used\n", losses->w->name,
                                  (unsigned long long)losses->taken, (unsigned long long)losses->used);
    }
    return losses->failed ? CAIRN_NOMEM : status;
}
