/*
 * policy - one rule of what to keep, behind an interface that all share: a request comes, the rule says how much of
 * it was reused and what it did. cairn's own core is one of them; the others are public rules of other servers,
 * written from their descriptions (policy_*.c name them), so that all are judged on the same traffic.
 *
 * What counts against the budget, for every rule: saved states, and rows and whole prompts outside the engine's slots.
 * The rows that a slot holds at the moment are free, as they are in the engine whatever the rule is.
 *
 * Rules that never look at tokens work on the workload's tree: a position is a node and a length, and two requests
 * share a prefix if and only if they share its nodes.
 *
 * Units    tokens; bytes; ns of virtual time
 * Owner    setup and view are borrowed for the call, the workload and profile for the policy's life
 * Thread   one at a time
 */
#ifndef CAIRN_SIM_POLICY_H
#define CAIRN_SIM_POLICY_H

#include "cairn/record.h"
#include "profiles.h"
#include "workload.h"

typedef struct cairn_policy_setup {
    const cairn_mem *mem;
    const cairn_workload *w;
    const cairn_profile *profile;
    uint64_t budget_bytes;
    uint32_t slots;
} cairn_policy_setup;

/* One request as a rule sees it. */
typedef struct cairn_policy_view {
    uint32_t index;
    const cairn_workload_request *request;
    const cairn_boundary *boundaries;  /* cairn_boundary[request->count_boundaries]                  */
    const uint32_t *path;              /* uint32_t[count_path]: nodes from the root down             */
    uint32_t count_path, count_prompt; /* the first count_prompt nodes cover the prompt             */
    uint32_t divergence;               /* longest prefix that any earlier request had                */
    uint64_t now_ns;
} cairn_policy_view;

typedef struct cairn_policy_outcome {
    uint32_t reused;         /* prompt tokens not read                                              */
    uint32_t batches;        /* decodes in which the rest was read                                  */
    uint32_t snapshots;      /* states taken                                                        */
    uint32_t snapshots_late; /* of these, after the first token of the answer                       */
    uint32_t first_uses;     /* cairn: states put back that had never been; others: 0               */
    uint64_t restored_bytes; /* put back into the engine before reading                             */
    uint64_t saved_bytes;    /* copied out of the engine before reading                             */
    uint64_t held_bytes;     /* against the budget, when the request has ended                      */
    uint64_t held_peak;      /* the most since the start                                            */
    uint64_t digest;         /* cairn: of all actions so far; others: 0                             */
    cairn_reason reason;     /* cairn: why not reused further; others: NONE                         */
    uint32_t reason_position;
} cairn_policy_outcome;

typedef struct cairn_policy {
    const char *name;
    const char *about; /* one line, with what was assumed where the description is silent */
    cairn_status (*make)(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr);
    cairn_status (*request)(void *self, const cairn_policy_view *view, cairn_policy_outcome *ret_outcome,
                            cairn_error *reterr);
    void (*free)(void *self);
} cairn_policy;

/* All rules in the order in which reports show them; const cairn_policy *const[*ret_count]. */
const cairn_policy *const *cairn_policy_list(uint32_t *ret_count);
/* By name; NULL when there is none. */
const cairn_policy *cairn_policy_get(const char *name);

/* The most that can be reused of a prompt: its divergence, but at least one token is always read. */
uint32_t cairn_policy_most(const cairn_policy_view *view);
/* Index in view->path of the node that holds position - 1, position >= 1; count_path when it is longer. */
uint32_t cairn_policy_node_at(const cairn_workload *w, const cairn_policy_view *view, uint32_t position);
/* Decodes for reading [begin, end) with `cuts` extra ends inside. */
uint32_t cairn_policy_batches(const cairn_profile *profile, uint32_t begin, uint32_t end, uint32_t cuts);

extern const cairn_policy cairn_policy_perfect, cairn_policy_perfect_exact, cairn_policy_cairn,
    cairn_policy_cairn_exact, cairn_policy_swiftlm, cairn_policy_llama, cairn_policy_llama_tuned,
    cairn_policy_ik, cairn_policy_grid, cairn_policy_marconi, cairn_policy_marconi_recency, cairn_policy_lru;

#endif
