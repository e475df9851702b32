/*
 * policy - the list of rules, what they share, and the perfect cache.
 */
#include "policy.h"

#include <string.h>

static const cairn_policy *const policies[] = {
    &cairn_policy_perfect,         &cairn_policy_cairn,       &cairn_policy_cairn_exact,
    &cairn_policy_llama,           &cairn_policy_llama_tuned, &cairn_policy_ik,
    &cairn_policy_swiftlm,         &cairn_policy_grid,        &cairn_policy_marconi,
    &cairn_policy_marconi_recency, &cairn_policy_lru,
};

const cairn_policy *const *cairn_policy_list(uint32_t *ret_count)
{
    *ret_count = sizeof policies / sizeof policies[0];
    return policies;
}

const cairn_policy *cairn_policy_get(const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        if (strcmp(policies[i]->name, name) == 0) {
            return policies[i];
        }
    }
    return NULL;
}

uint32_t cairn_policy_most(const cairn_policy_view *view)
{
    uint32_t limit = view->request->prompt_tokens - 1;
    return view->divergence < limit ? view->divergence : limit;
}

uint32_t cairn_policy_node_at(const cairn_workload *w, const cairn_policy_view *view, uint32_t position)
{
    uint32_t low = 0;
    uint32_t high = view->count_path;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (w->nodes[view->path[mid]].end < position) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

uint32_t cairn_policy_batches(const cairn_profile *profile, uint32_t begin, uint32_t end, uint32_t cuts)
{
    return (end - begin + profile->batch_tokens - 1) / profile->batch_tokens + cuts;
}

/* --- perfect ----------------------------------------------------------------------------------------------------- */

static cairn_status perfect_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    (void)reterr;
    *ret_self = (void *)(uintptr_t)setup->profile;
    return CAIRN_OK;
}

static cairn_status perfect_request(void *self, const cairn_policy_view *view,
                                    cairn_policy_outcome *ret_outcome, cairn_error *reterr)
{
    const cairn_profile *profile = self;
    (void)reterr;
    *ret_outcome = (cairn_policy_outcome){.reused = cairn_policy_most(view)};
    ret_outcome->batches =
        cairn_policy_batches(profile, ret_outcome->reused, view->request->prompt_tokens, 0);
    return CAIRN_OK;
}

static void perfect_free(void *self)
{
    (void)self;
}

const cairn_policy cairn_policy_perfect = {
    .name = "perfect",
    .about = "a state at every token, no cap, nothing costs anything but reading",
    .make = perfect_make,
    .request = perfect_request,
    .free = perfect_free,
};
