/*
 * workload - traffic: requests in time order, each a token path with boundaries, as the simulator replays it.
 *
 * All requests live in one tree of token paths (a radix tree), built while they are added. A request keeps only the
 * node at which its prompt ends and the node at which its answer ends; its tokens are the edges from the root to
 * there. Because the tree holds the whole traffic before the first replay, every place where two requests part is the
 * end of a node, and "is this prefix known?" is one flag a node. Rules that never look at tokens (all policies but
 * cairn's own core) replay thousands of requests a second this way, with no token compared twice.
 *
 *   root -- system ------+-- user 1 -- answer 1 -- user 2      each edge is a node; [begin, end) in tokens
 *                        +-- other session ...
 *
 * Units    positions in tokens; time in ns since the start of the traffic
 * Owner    the caller owns the struct; everything it points to belongs to it
 * Thread   one at a time while it is filled, then any number of readers
 * Caveats  a namespace is a root of its own: paths are never shared across namespaces
 * See      docs/internals/simulator.md, docs/format/trace.md
 */
#ifndef CAIRN_SIM_WORKLOAD_H
#define CAIRN_SIM_WORKLOAD_H

#include "cairn/mem.h"
#include "cairn/prompt.h"

#define CAIRN_WORKLOAD_NONE UINT32_MAX
enum { CAIRN_WORKLOAD_LABEL = 48 };

typedef struct cairn_workload_node {
    uint32_t parent; /* CAIRN_WORKLOAD_NONE for a root                                              */
    uint32_t child, sibling;
    uint32_t begin, end;   /* the edge's tokens, as positions of the path                           */
    uint64_t tokens_begin; /* the edge's first token in `tokens`                                    */
} cairn_workload_node;

/* The server that recorded the traffic; batch_tokens 0: no server did. */
typedef struct cairn_workload_server {
    uint64_t state_bytes, row_bytes, ram_bytes;
    uint32_t batch_tokens;
    bool exact;                                          /* --resume exact                            */
    uint64_t read_tokens, read_us, moved_bytes, move_us; /* of all its requests                       */
} cairn_workload_server;

typedef struct cairn_workload_request {
    uint64_t time_ns;
    uint32_t session; /* numbered from 0 in order of appearance                                     */
    uint32_t space;   /* numbered from 0; its root is node `space_roots[space]`                     */
    uint32_t prompt_tokens;
    uint32_t answer_tokens;
    uint32_t node_prompt, node_answer; /* nodes that end at the prompt's and the answer's end       */
    uint32_t boundaries_begin, count_boundaries;
    bool no_store;   /* served from the cache, but nothing of it is kept                            */
    bool has_reused; /* `reused` tokens were reused when it was recorded                            */
    uint32_t reused;
    char kind[12]; /* main, sub, title, compact, ...                                                */
} cairn_workload_request;

typedef struct cairn_workload {
    const cairn_mem *mem;
    char name[CAIRN_WORKLOAD_LABEL];
    bool recorded;  /* from real clients, not generated                                              */
    bool fleet;     /* many users: budgets are parts of what all of it would take                   */
    uint32_t slots; /* slots of the server that this traffic is meant for                           */
    cairn_workload_server server;

    cairn_token *tokens; /* cairn_token[count_tokens]: all edges                                    */
    uint64_t count_tokens, room_tokens;
    cairn_workload_node *nodes;
    uint32_t count_nodes, room_nodes;
    cairn_workload_request *requests;
    uint32_t count_requests, room_requests;
    cairn_boundary *boundaries;
    uint32_t count_boundaries, room_boundaries;
    uint32_t *space_roots;
    uint32_t count_spaces, room_spaces;
    uint32_t count_sessions;
    uint32_t tokens_longest; /* longest prompt + answer                                             */
} cairn_workload;

/* What is told about a request besides its tokens. */
typedef struct cairn_workload_entry {
    uint64_t time_ns;
    uint32_t session, space;
    const cairn_token *tokens; /* cairn_token[prompt_tokens + answer_tokens], borrowed for the call  */
    uint32_t prompt_tokens, answer_tokens;
    const cairn_boundary *boundaries; /* cairn_boundary[count_boundaries], ascending, <= prompt_tokens */
    uint32_t count_boundaries;
    bool no_store, has_reused; /* as in cairn_workload_request                                       */
    uint32_t reused;
    const char *kind;
} cairn_workload_entry;

/* Empty traffic with this name (cut to CAIRN_WORKLOAD_LABEL - 1 characters). */
void cairn_workload_init(cairn_workload *w, const cairn_mem *mem, const char *name);
void cairn_workload_release(cairn_workload *w);

/*
 * Add one request.
 *
 * After    requests stay in the order in which they were added
 * Errors   CAIRN_INVALID  no prompt token, boundaries not ascending or behind the prompt
 *          CAIRN_NOMEM    nothing was added
 * Cost     O(tokens)
 */
CAIRN_MUST_CHECK cairn_status cairn_workload_add(cairn_workload *w, const cairn_workload_entry *entry,
                                                 cairn_error *reterr);

/* Requests in the order of their times; those of one time stay in theirs. */
void cairn_workload_sort(cairn_workload *w);

/* The tokens of request `index`, prompt then answer, into cairn_token[prompt_tokens + answer_tokens]. */
void cairn_workload_tokens(const cairn_workload *w, uint32_t index, cairn_token *out);

/*
 * Nodes of request `index` from the root's child to the answer's end, into uint32_t[max]; returns how many there are
 * (which may be more than max: then only the count is right). *ret_prompt of them cover the prompt.
 */
uint32_t cairn_workload_path(const cairn_workload *w, uint32_t index, uint32_t *out, uint32_t max,
                             uint32_t *ret_prompt);

/* Length of the common prefix of two paths given by the nodes at which they end. */
uint32_t cairn_workload_common(const cairn_workload *w, uint32_t node_a, uint32_t node_b);

/* All tokens of prompts; tokens of different paths. */
uint64_t cairn_workload_prompt_tokens(const cairn_workload *w);

/* Depends on everything that a replay sees: equal traffic gives equal digests. */
uint64_t cairn_workload_digest(const cairn_workload *w);

/* Check the tree: edges join, parents cover, siblings differ in their first token. For tests. */
CAIRN_MUST_CHECK cairn_status cairn_workload_verify(const cairn_workload *w, cairn_error *reterr);

#endif
