/*
 * cache_look - the tree of known paths, seen from outside. Changes nothing.
 */
#include <string.h>

#include "cache/cache_internal.h"

typedef struct walk {
    bool (*visit)(void *ctx, const cairn_cache_node *node);
    void *ctx;
} walk;

static bool pass_on(void *ctx, const cairn_core_node *node)
{
    const walk *w = ctx;
    cairn_cache_node out = {.depth = node->depth,
                            .begin = node->begin,
                            .end = node->end,
                            .count_states = node->count_states,
                            .state_bytes = node->state_bytes,
                            .row_bytes = node->row_bytes,
                            .rows_covered = node->rows_covered,
                            .slot = node->slot == CAIRN_SLOT_ANY ? UINT32_MAX : node->slot,
                            .used_ns = node->used_ns};
    memcpy(out.states, node->states, sizeof out.states);
    memcpy(out.states_ms, node->states_ms, sizeof out.states_ms);
    return w->visit(w->ctx, &out);
}

void cairn_cache_walk(const cairn_cache *cache, const cairn_namespace *space,
                      bool (*visit)(void *ctx, const cairn_cache_node *node), void *ctx)
{
    walk w = {.visit = visit, .ctx = ctx};
    cairn_core_walk(cache->core, space, pass_on, &w);
}

uint32_t cairn_cache_beside(const cairn_cache *cache, const cairn_prompt *prompt, uint32_t *ret_position,
                            cairn_token *out, uint32_t room)
{
    return cairn_core_beside(cache->core, &prompt->space, prompt->tokens, prompt->count, ret_position, out,
                             room);
}

uint32_t cairn_cache_awaits(cairn_cache *cache, const cairn_prompt *prompt)
{
    cairn_decision decision = {0};
    if (cache->options.off || prompt->count == 0 || prompt->mode == CAIRN_RESUME_OFF ||
        cairn_core_probe(cache->core, prompt, cairn_cache_now_ns(cache), &decision, NULL) != CAIRN_OK ||
        decision.reason != CAIRN_REASON_PENDING || decision.reason_position <= decision.resume) {
        return 0;
    }
    return decision.reason_position - decision.resume;
}

void cairn_cache_pace(cairn_cache *cache, uint32_t piece_tokens)
{
    cache->pace_tokens = piece_tokens;
}

uint64_t cairn_cache_clock_ns(const cairn_cache *cache)
{
    return cairn_cache_now_ns(cache);
}
