/*
 * core_state - the core's own struct, shared by its rooms. Only files of src/core include it.
 *
 *   core.c       events in, lists out          resume.c     candidates, and the best of them
 *   plan.c       a resume as actions           placement.c  where to cut, which states to take
 *   eviction.c   what to drop for what         value.c      milliseconds saved, costs measured
 *
 * One request lives in one slot, so requests are kept by slot. Blobs are named by ids that carry the
 * index of their item: serial << 25 | rows << 24 | index.
 */
#ifndef CAIRN_CORE_STATE_H
#define CAIRN_CORE_STATE_H

#include "core/core.h"
#include "core/path.h"
#include "core/signpost.h"
#include "core/value.h"

enum { CAIRN_AVOID_MAX = 8 };

typedef enum cairn_phase {
    CAIRN_PHASE_PREPARING, /* until RESUMED                                                         */
    CAIRN_PHASE_READING,
    CAIRN_PHASE_ANSWERING
} cairn_phase;

typedef struct cairn_slot {
    bool state_set;
    bool dirty;      /* the engine's slot may hold more than its cursor's path: trim before use        */
    bool settling;   /* a preparation is under way: its rows are not there yet                        */
    bool decoded;    /* the live state was made while decoding                                        */
    bool exact;      /* last read by a request in exact mode                                          */
    uint64_t digest; /* of the live state's cuts; 0: decoded or mixed                               */
    uint64_t used_ns;
    cairn_lineage lineage; /* runs of the rows [0, cursor)                                          */
} cairn_slot;

typedef struct cairn_pin {
    uint32_t index;
    bool rows;
} cairn_pin;

typedef struct cairn_request {
    cairn_request_id id; /* 0: none */
    const cairn_prompt *prompt;
    cairn_phase phase;
    uint32_t space;
    bool live;      /* it went on in its slot: nothing was prepared                               */
    bool keep;      /* what it reads goes into the tree                                           */
    uint32_t floor; /* trim floor of its slot; UINT32_MAX: none                                   */
    uint32_t position;
    uint32_t boundary;        /* index for cairn_boundary_cut                                              */
    uint32_t branch;          /* where it parted from what was known, if worth a cut; 0: nowhere           */
    uint32_t shared_end;      /* past it the prompt is one conversation's own                          */
    uint32_t pace_ms;         /* of the same; 0: not known                                                 */
    uint32_t turns;           /* of the conversation that it goes on, as far as is known               */
    uint8_t habit;            /* how it parted from its conversation: CAIRN_HABIT_*                        */
    uint32_t tail;            /* a cut near the end: before the opener, else a few tokens; 0: none         */
    uint32_t post;            /* a signpost where a cut pays; 0: none                                      */
    double post_chance;       /* that a request parts there                                                */
    cairn_signpost_walk walk; /* of its tokens, up to where signposts were looked for                   */
    uint32_t walked;
    uint32_t answer_state; /* position of the last state considered while answering                 */
    uint32_t count_pending;
    uint32_t count_failures;
    uint64_t avoid[CAIRN_AVOID_MAX];
    uint32_t count_avoid;
    cairn_reason avoid_reason;
    cairn_action *list; /* what was returned last for it                                            */
    uint32_t count_list, room_list;
    cairn_pin *pins;
    uint32_t count_pins, room_pins;
    cairn_decision decision;
} cairn_request;

/* One stored state on the path of a prompt. */
typedef struct cairn_candidate {
    uint32_t position, state;
    cairn_reason refusal; /* CAIRN_REASON_NONE: it may serve                                        */
} cairn_candidate;

/* Stored rows on the path of a prompt, ascending, without overlap. */
typedef struct cairn_piece_rows {
    uint32_t segment, begin, end;
    uint32_t donor; /* slot to export from first, when segment is CAIRN_NONE                        */
} cairn_piece_rows;

/* Everything found for one prompt; arrays are reused from request to request. */
typedef struct cairn_lookup {
    uint32_t space, root, node; /* node: edge of the divergence                                     */
    uint32_t divergence;        /* tokens known                                                     */
    uint32_t limit;             /* min(divergence, count - 1)                                       */
    uint32_t *nodes;            /* edges from the root to `node`                                    */
    uint32_t count_nodes, room_nodes;
    cairn_candidate *candidates;
    uint32_t count_candidates, room_candidates;
    cairn_piece_rows *pieces;
    uint32_t count_pieces, room_pieces;
    cairn_run *canon; /* canonical cuts up to the first at or past the divergence (exact mode)      */
    uint32_t count_canon, room_canon;
    uint32_t *common; /* uint32_t[slots]: tokens that slot and prompt share                         */
    uint32_t pending; /* furthest token that an active request is about to read for us              */
} cairn_lookup;

/* What was chosen. */
typedef struct cairn_choice {
    uint32_t slot, resume, keep; /* keep: rows of the slot that stay                                */
    uint32_t state;              /* CAIRN_NONE: none is restored                                    */
    bool live;                   /* the slot goes on as it is                                       */
    double cost_ns;
} cairn_choice;

/* The least valuable blobs at the last look at all of them; see eviction.c. */
typedef struct cairn_short_list {
    struct {
        uint32_t index;
        bool rows;
        uint64_t blob;
        double density;
    } items[64]; /* the most valuable first while it is made: a heap                              */
    uint32_t count;
    double limit; /* no blob that is not listed was worth less                                      */
    uint64_t made_ns;
} cairn_short_list;

struct cairn_core {
    cairn_mem *mem;
    cairn_core_options options;
    cairn_ledger ledger;
    cairn_tree tree;
    cairn_costs costs;
    cairn_slot *slots;       /* cairn_slot[options.slots]                                           */
    cairn_request *requests; /* cairn_request[options.slots], by slot                               */
    cairn_action *actions;
    uint32_t count_actions, room_actions;
    const cairn_action *returned; /* the list of this step, when a request took it over             */
    bool deferring;               /* this event returns no DROPs: what goes is doomed for now       */
    cairn_lookup lookup;
    cairn_short_list short_list;
    cairn_path_scratch scratch;
    struct cairn_counts_kept *kept; /* loaded counts of namespaces to come: [count_kept]              */
    uint32_t count_kept;
    uint32_t count_doomed; /* items that wait to be dropped (an upper bound)                            */
    uint64_t serial;
    uint64_t now_ns;
    cairn_pauses pauses;
    uint64_t digest;
    uint64_t count_requests, drops_states, drops_segments, takes_skipped;
};

/* Append an action to the list of this step. False: no memory (and the step knows). */
bool cairn_core_emit(cairn_core *core, cairn_action action);

static inline cairn_blob_id cairn_blob_make(cairn_core *core, uint32_t index, bool rows)
{
    return ++core->serial << 25 | (uint64_t)rows << 24 | index;
}

#endif
