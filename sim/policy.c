/*
 * policy - the list of rules and what they share.
 */
#include "policy.h"

#include <string.h>

static const cairn_policy *const policies[] = {
    &cairn_policy_perfect,     &cairn_policy_perfect_exact,   &cairn_policy_cairn,
    &cairn_policy_cairn_exact, &cairn_policy_llama,           &cairn_policy_llama_tuned,
    &cairn_policy_ik,          &cairn_policy_swiftlm,         &cairn_policy_grid,
    &cairn_policy_marconi,     &cairn_policy_marconi_recency, &cairn_policy_lru,
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
