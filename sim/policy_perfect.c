/*
 * policy_perfect - what no cache can beat: in fast mode, and in exact mode.
 *
 * Exact mode reads more whatever the cache: a decoded answer does not serve (its rows differ in the last bits from rows
 * that were read), and only the cuts that the prompt's own cold reading makes are resume points. So its perfect cache
 * reuses up to the last such cut within what earlier prompts, not answers, had.
 */
#include "core/core.h"
#include "policy.h"

/* --- fast -------------------------------------------------------------------------------------------------------- */

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

/* --- exact ------------------------------------------------------------------------------------------------------- */

typedef struct exact_self {
    cairn_policy_setup setup;
    uint8_t *read; /* uint8_t[w->count_nodes]: an earlier prompt went through this node              */
    uint32_t *cuts;
    uint32_t room_cuts;
} exact_self;

static void exact_free(void *self)
{
    exact_self *p = self;
    if (p == NULL) {
        return;
    }
    const cairn_mem *mem = p->setup.mem;
    cairn_mem_array_release(mem, p->read, p->setup.w->count_nodes + 1, 1);
    cairn_mem_array_release(mem, p->cuts, p->room_cuts, sizeof *p->cuts);
    cairn_mem_release(mem, p, sizeof *p);
}

static cairn_status exact_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    exact_self *p = cairn_mem_zalloc(setup->mem, sizeof *p);
    if (p == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/policy_perfect", NULL);
    }
    p->setup = *setup;
    p->room_cuts = setup->w->tokens_longest + 1; /* no more cuts than tokens */
    p->read = cairn_mem_array(setup->mem, setup->w->count_nodes + 1, 1);
    p->cuts = cairn_mem_array(setup->mem, p->room_cuts, sizeof *p->cuts);
    if (p->read == NULL || p->cuts == NULL) {
        exact_free(p);
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/policy_perfect", NULL);
    }
    *ret_self = p;
    return CAIRN_OK;
}

static cairn_status exact_request(void *self, const cairn_policy_view *view,
                                  cairn_policy_outcome *ret_outcome, cairn_error *reterr)
{
    exact_self *p = self;
    const cairn_workload_request *request = view->request;
    const cairn_prompt prompt = {.count = request->prompt_tokens,
                                 .boundaries = view->boundaries,
                                 .count_boundaries = request->count_boundaries};
    const cairn_core_options options = {.batch_tokens_max = p->setup.profile->batch_tokens};
    (void)reterr;
    uint32_t known = 0;
    for (uint32_t i = 0; i < view->count_prompt && p->read[view->path[i]] != 0; i++) {
        known = p->setup.w->nodes[view->path[i]].end;
    }
    known = known < request->prompt_tokens ? known : request->prompt_tokens - 1;
    uint32_t count = cairn_core_cuts(&options, &prompt, p->cuts, p->room_cuts);
    uint32_t reused = 0;
    uint32_t cuts = 0;
    for (uint32_t i = 0; i < count; i++) {
        reused = p->cuts[i] <= known ? p->cuts[i] : reused;
        cuts += p->cuts[i] > known ? 1 : 0;
    }
    for (uint32_t i = 0; i < view->count_prompt; i++) {
        p->read[view->path[i]] = 1;
    }
    *ret_outcome = (cairn_policy_outcome){.reused = reused, .batches = cuts};
    return CAIRN_OK;
}

const cairn_policy cairn_policy_perfect = {
    .name = "perfect",
    .about = "a state at every token, no cap, nothing costs anything but reading",
    .make = perfect_make,
    .request = perfect_request,
    .free = perfect_free,
};

const cairn_policy cairn_policy_perfect_exact = {
    .name = "perfect-exact",
    .about = "the same for exact mode: canonical cuts only, and nothing that was decoded",
    .make = exact_make,
    .request = exact_request,
    .free = exact_free,
};
