/*
 * sim_support - what the tests of sim share: traffic out of plain integers.
 */
#ifndef CAIRN_TESTS_SIM_SUPPORT_H
#define CAIRN_TESTS_SIM_SUPPORT_H

#include "test_support.h"

#include "base/rng.h"
#include "sim/replay.h"
#include "sim/workload.h"

/* Add a request of these tokens: prompt, then answer; message starts of users at `starts`, 0-terminated. */
static inline void sim_add(cairn_workload *w, uint32_t session, const cairn_token *tokens, uint32_t prompt,
                           uint32_t answer, const uint32_t *starts)
{
    cairn_boundary boundaries[16];
    uint32_t count = 0;
    for (; starts != NULL && starts[count] != 0; count++) {
        boundaries[count] = (cairn_boundary){.position = starts[count],
                                             .message = count,
                                             .kinds = CAIRN_BOUNDARY_MESSAGE_START,
                                             .role = CAIRN_ROLE_USER};
    }
    if (count > 0) {
        boundaries[0].kinds |= CAIRN_BOUNDARY_SYSTEM_END;
        boundaries[count - 1].kinds |= CAIRN_BOUNDARY_LAST_USER;
    }
    cairn_workload_entry entry = {.time_ns = (uint64_t)w->count_requests * 1000000000u,
                                  .session = session,
                                  .tokens = tokens,
                                  .prompt_tokens = prompt,
                                  .answer_tokens = answer,
                                  .boundaries = boundaries,
                                  .count_boundaries = count};
    assert_ok(cairn_workload_add(w, &entry, NULL));
}

/* Tokens 0 .. count - 1 of a text named by `seed`. */
static inline void sim_fill(cairn_token *tokens, uint32_t count, cairn_token seed)
{
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = seed * 100003 + (cairn_token)i;
    }
}

/* Random traffic: each request keeps a random prefix of an earlier one and goes on with something new. */
static inline void sim_random(cairn_workload *w, cairn_rng *rng, uint32_t requests, uint32_t longest)
{
    cairn_token *all = calloc((size_t)requests * longest, sizeof *all);
    uint32_t *lengths = calloc(requests, sizeof *lengths);
    assert_non_null(all);
    assert_non_null(lengths);
    for (uint32_t i = 0; i < requests; i++) {
        cairn_token *tokens = all + (size_t)i * longest;
        uint32_t kept = 0;
        if (i > 0) {
            uint32_t from = (uint32_t)cairn_rng_below(rng, i);
            kept = (uint32_t)cairn_rng_below(rng, lengths[from] + 1);
            memcpy(tokens, all + (size_t)from * longest, kept * sizeof *tokens);
        }
        uint32_t length = kept;
        uint32_t more = 2 + (uint32_t)cairn_rng_below(rng, longest / 4);
        while (length < longest && more-- > 0) {
            tokens[length++] = (cairn_token)cairn_rng_below(rng, 1000000);
        }
        length = length < 2 ? 2 : length;
        lengths[i] = length;
        uint32_t answer = (uint32_t)cairn_rng_below(rng, length / 4 + 1);
        const uint32_t starts[] = {length / 3 > 0 ? length / 3 : 0, 0};
        sim_add(w, (uint32_t)cairn_rng_below(rng, 3), tokens, length - answer, answer, starts);
    }
    free(all);
    free(lengths);
}

#endif
