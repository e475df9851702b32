/*
 * core - decides what to keep, what to put back and what to drop. Events in, actions out.
 *
 * The core is a pure state machine. It is told what happened (cairn_event) and answers with what to
 * do (cairn_action). It never reads a clock, a file, a random device or an engine: time and costs
 * come with the events. The same events give the same actions, byte for byte, so the server, the
 * simulator, the fuzzers and a replayed trace all run this code.
 *
 *   conductor                                   core
 *   ---------                                   ----
 *   EVENT_REQUEST(prompt, now)            -->   decision; actions: what to save before it is
 *                                               displaced, what to drop for it, what to restore,
 *                                               then the first READ
 *     executes in order; for each TAKE and
 *     SAVE_ROWS: EVENT_STORED or _FAILED  -->   (no new actions)
 *     when a RESET..RESTORE fails: _FAILED -->  a new list that replaces the rest of the old one
 *   EVENT_RESUMED(cost)                   -->   (no new actions) sent just before the first READ
 *   EVENT_READ(position, cost)            -->   [DROP..] [TAKE], then the next READ, or READY
 *   EVENT_ANSWERED(tokens, cost)          -->   [DROP..] [TAKE]; only the tokens decoded since the
 *                                               last ANSWERED, all of them in the slot by now
 *   EVENT_ADOPT(prompt, blobs)            -->   [DROP..] [FETCH..]: as many as memory lacks and has
 *                                               room for; each is reported as STORED or FAILED,
 *                                               with `blob`, before the REQUEST that wants them
 *   EVENT_FINISH(ending)                  -->   [DROP..]; the slot is idle and keeps its contents
 *
 * Lists are carried out in the order in which they were returned, each up to its READ or READY before
 * the next event is sent (so bytes freed by a DROP are free before a later list reserves them). Any
 * list, of any event, may begin with DROPs. READs may wait and interleave as the scheduler likes.
 *
 * What the core knows: for each namespace a tree of token paths; on each path the blobs that are
 * held (states at exact positions, row segments), for each slot the path it holds and whether its
 * state is set. What it promises, for every event, in every order (the laws of ARCHITECTURE.md):
 *
 *   - RESTORE names a state whose whole path is a prefix of the prompt, at most count - 1 long;
 *   - before RESTORE at n the slot holds, by the actions before it, rows [0, n) of that path;
 *   - the sum of reserved and held bytes is never above ram_bytes_max, at any point of the list;
 *   - blobs that an active request's list still names are never dropped by another's;
 *   - in CAIRN_RESUME_EXACT only states and rows read with this prompt's own cuts are used.
 *
 * Units    positions in tokens; sizes in bytes; time in ns, monotonic, from the event
 * Owner    the core owns its tree; actions and the decision are borrowed until the next step
 * Thread   one thread at a time
 * Errors   bad events (unknown slot, wrong order) give CAIRN_INVALID and change nothing; failing
 *          allocation inside the core loses cached knowledge, never correctness
 * See      docs/internals/core.md
 */
#ifndef CAIRN_CORE_H
#define CAIRN_CORE_H

#include "cairn/mem.h"
#include "cairn/prompt.h"
#include "cairn/record.h"

typedef struct cairn_core cairn_core;
typedef uint64_t cairn_blob_id;    /* names one state or one row segment; 0 is none; never reused   */
typedef uint64_t cairn_request_id; /* chosen by the caller, unique while the request lives, not 0   */

#define CAIRN_SLOT_ANY UINT32_MAX

typedef struct cairn_core_options {
    uint64_t ram_bytes_max; /* cap over blobs, index and the transfer buffers below              */
    uint64_t
        index_bytes_max; /* cap of the tree itself inside ram_bytes_max; 0: an eighth of it, of small caps up to a half */
    uint32_t slots;
    uint32_t slot_tokens_max;
    uint32_t batch_tokens_max; /* longest READ                                                      */
    uint32_t grid_tokens;      /* cut at least this often inside long messages; 0: batch_tokens_max */
    uint32_t cut_tokens_min; /* canonical cuts are at least this far apart; 0: 64. At most batch_tokens_max */
    cairn_trim trim;
    bool rows_move;
    uint64_t state_bytes_max;
    uint64_t row_bytes;        /* estimate of one stored row                                        */
    uint64_t rows_extra_bytes; /* transfer buffer beyond the rows themselves during SAVE_ROWS       */
    /* First guesses of the costs, replaced by what the events measure. */
    double read_ns_token;  /* a of a*n + b*n*n                                                  */
    double read_ns_token2; /* b                                                                 */
    double call_ns;        /* one more decode, however little it reads: what a cut costs; 0: as 8 tokens */
    double take_ns, restore_ns, move_ns_byte;
} cairn_core_options;

typedef enum cairn_action_kind {
    CAIRN_ACTION_DROP,      /* free `blob`                                                          */
    CAIRN_ACTION_TAKE,      /* save the state of `slot` at its present length `begin` as `blob`     */
    CAIRN_ACTION_SAVE_ROWS, /* save rows [begin, end) of `slot` as `blob`                           */
    CAIRN_ACTION_RESET,     /* empty `slot`                                                         */
    CAIRN_ACTION_TRIM,      /* cut `slot` to `begin` rows                                           */
    CAIRN_ACTION_LOAD_ROWS, /* append rows [use_begin, use_end) to `slot` from `blob` [begin, end)  */
    CAIRN_ACTION_RESTORE,   /* set the state of `slot` at `begin` from `blob`                       */
    CAIRN_ACTION_READ,      /* decode prompt tokens [begin, end), at most batch_tokens_max          */
    CAIRN_ACTION_FETCH,     /* fill `blob` from another tier: item `use_begin` of the ADOPT            */
    CAIRN_ACTION_READY      /* the whole prompt is read: the answer may begin                       */
} cairn_action_kind;

typedef struct cairn_action {
    cairn_action_kind kind;
    uint32_t slot;
    cairn_request_id request; /* 0 when it belongs to none                                          */
    cairn_blob_id blob;
    uint32_t begin, end;
    uint32_t use_begin, use_end;
    uint64_t bytes; /* TAKE, SAVE_ROWS: reserved for the blob; the real size may be less  */
} cairn_action;

typedef enum cairn_event_kind {
    CAIRN_EVENT_REQUEST,
    CAIRN_EVENT_RESUMED,
    CAIRN_EVENT_READ,
    CAIRN_EVENT_ANSWERED,
    CAIRN_EVENT_FINISH,
    CAIRN_EVENT_STORED,    /* a TAKE or SAVE_ROWS worked                                            */
    CAIRN_EVENT_FAILED,    /* an action did not work                                                */
    CAIRN_EVENT_LOST,      /* `blob` is gone from the store or was found damaged                    */
    CAIRN_EVENT_SLOT_LOST, /* the engine lost the slot's state; rows [0, position) are still there  */
    CAIRN_EVENT_BUDGET,    /* ram_bytes_max becomes `bytes`                                         */
    CAIRN_EVENT_ADOPT,     /* another tier holds `adopts` for the path of `prompt`                */
    CAIRN_EVENT_FORGET     /* drop all of a namespace, or of all when `all`                         */
} cairn_event_kind;

/* Which batch made rows up to rows_end; see lineage.h. */
typedef struct cairn_run {
    uint32_t rows_end; /* rows from the run before up to here                                       */
    uint32_t cut;      /* end of the batch that made them, >= rows_end                              */
    uint64_t digest;   /* of all cuts up to `cut`; 0: unknown or decoded                            */
} cairn_run;

/* A blob that another tier holds: rows [begin, end) of the prompt's path, or the state at `end`. */
typedef struct cairn_adopt {
    bool rows;
    bool decoded;          /* state: made while decoding                                              */
    uint32_t begin, end;   /* state: begin is ignored                                                 */
    uint32_t stored_end;   /* rows: the blob holds [begin, stored_end); past `end` of another path    */
    uint64_t bytes;        /* what memory will hold for it                                            */
    uint64_t digest;       /* state: of its cuts; 0: none                                             */
    const cairn_run *runs; /* rows: cairn_run[count_runs], up to stored_end                         */
    uint32_t count_runs;
    cairn_boundary boundary; /* state: what its position is                                         */
} cairn_adopt;

typedef struct cairn_event {
    cairn_event_kind kind;
    uint64_t now_ns;
    cairn_request_id request;
    /* REQUEST: borrowed until FINISH. slot: CAIRN_SLOT_ANY, or the only slot to be used. */
    const cairn_prompt *prompt;
    uint32_t slot;
    /* REQUEST, CAIRN_TRIM_WINDOW engines: uint32_t[slots], the shortest length to which each slot can be
     * cut now without a state (its exactness gate); NULL: to none. Borrowed for the call. */
    const uint32_t *trim_floors;
    /* READ, SLOT_LOST: position reached or left. */
    uint32_t position;
    /* ANSWERED: tokens decoded after the prompt, cairn_token[count], copied. */
    const cairn_token *tokens;
    uint32_t count;
    /* STORED, FAILED, LOST. action: index in the list last returned for this request. When `blob` is
     * not 0 it names the TAKE or SAVE_ROWS instead, so that a report may come later. */
    uint32_t action;
    cairn_blob_id blob;
    uint64_t bytes;      /* STORED: real size. BUDGET: the new cap                                 */
    cairn_status status; /* FAILED, LOST: CAIRN_CORRUPT means damaged                              */
    /* RESUMED, READ, ANSWERED, STORED: measured time of what was done */
    uint64_t cost_ns;
    cairn_ending ending;       /* FINISH                                                                */
    const cairn_adopt *adopts; /* ADOPT: cairn_adopt[count], borrowed for the call; `prompt` too         */
    cairn_namespace space;     /* FORGET                                                                */
    bool all;                  /* FORGET                                                                */
} cairn_event;

/* What was decided for a request; final after RESUMED, counts grow until FINISH. */
typedef struct cairn_decision {
    uint32_t slot;
    uint32_t prompt_tokens, divergence, least, resume;
    cairn_source source;
    cairn_reason reason;
    uint32_t reason_position;
    uint64_t reason_bytes;
    uint32_t divergence_message;
    uint8_t divergence_role;
    uint64_t state_age_ns;
    uint32_t states_taken, states_skipped;
} cairn_decision;

typedef struct cairn_core_stats {
    uint64_t ram_bytes, ram_bytes_peak, ram_bytes_max;
    uint64_t index_bytes;
    uint64_t states, state_bytes, segments, row_bytes, reserved_bytes;
    uint64_t namespaces, nodes, tokens;
    uint64_t requests, drops_states, drops_segments, takes_skipped;
} cairn_core_stats;

CAIRN_MUST_CHECK cairn_status cairn_core_new(cairn_mem *mem, const cairn_core_options *options,
                                             cairn_core **ret_core, cairn_error *reterr);
void cairn_core_free(cairn_core *core);

/*
 * Tell the core what happened; learn what to do.
 *
 *   event       [in]   see above
 *   ret_actions [out]  const cairn_action[*ret_count], borrowed until the next call; may be empty
 *
 * Errors  CAIRN_BUSY     REQUEST: no idle slot (or not the one named)
 *         CAIRN_LIMIT    REQUEST: the prompt is longer than slot_tokens_max - 1
 *         CAIRN_INVALID  the event does not fit the state; nothing changed
 * Cost    REQUEST: O(count + known blobs on the path); others O(log) except when room must be made
 */
CAIRN_MUST_CHECK cairn_status cairn_core_step(cairn_core *core, const cairn_event *event,
                                              const cairn_action **ret_actions, uint32_t *ret_count,
                                              cairn_error *reterr);

/* The decision of a living request, or NULL. Borrowed until the next step. */
const cairn_decision *cairn_core_decision(const cairn_core *core, cairn_request_id request);
void cairn_core_stats_get(const cairn_core *core, cairn_core_stats *ret_stats);

/*
 * Ask without asking for anything: what would this prompt get? Changes nothing.
 */
CAIRN_MUST_CHECK cairn_status cairn_core_probe(cairn_core *core, const cairn_prompt *prompt, uint64_t now_ns,
                                               cairn_decision *ret_decision, cairn_error *reterr);

/* Walk the tree of one namespace in depth-first order, for the page and `cairn top`. */
typedef struct cairn_core_node {
    uint32_t depth, begin, end; /* the node's edge covers tokens [begin, end)                       */
    uint32_t count_states;
    uint32_t states[16]; /* positions of (at most 16 of) its states                          */
    float states_ms[16]; /* what each of them is expected to save the next request           */
    uint64_t row_bytes, state_bytes;
    uint32_t rows_covered; /* tokens of the edge whose rows are stored or live                 */
    uint32_t slot;         /* slot that ends on this edge, or CAIRN_SLOT_ANY                   */
    uint64_t used_ns;
    double value_ms;
} cairn_core_node;
typedef bool (*cairn_core_visit)(void *ctx, const cairn_core_node *node); /* false stops */
void cairn_core_walk(const cairn_core *core, const cairn_namespace *space, cairn_core_visit visit, void *ctx);

/*
 * How does the known path go on where a prompt parts from it? For showing the two side by side. Where several paths
 * go on, the one that was used last is taken.
 *
 *   position    [out]  where tokens[0, count) part from everything known
 *   out         [out]  cairn_token[room]: the known tokens from that position on
 *
 * Gives    how many were written; 0: nothing known goes on there
 * Cost     O(count), changes nothing
 */
uint32_t cairn_core_beside(const cairn_core *core, const cairn_namespace *space, const cairn_token *tokens,
                           uint32_t count, uint32_t *ret_position, cairn_token *out, uint32_t room);

/*
 * Check every invariant, slowly: tree shape, paths, blob positions, coverage, the ledger's sums,
 * slots. For tests and the simulator. CAIRN_OK, or CAIRN_INVALID with `detail` in the error.
 */
CAIRN_MUST_CHECK cairn_status cairn_core_verify(const cairn_core *core, cairn_error *reterr);

/* Draw the tree for people. Never parsed by code. */
void cairn_core_dump(const cairn_core *core, void *file);

/* --- for a tier that keeps blobs elsewhere, too ---------------------------------------------------------- */

/* The path that a slot holds. */
typedef struct cairn_core_slot_path {
    cairn_namespace space;
    uint32_t length; /* tokens whose rows are in the slot                                           */
    bool state_set;  /* the slot's state is that of `length`                                        */
    bool decoded;    /* that state was made while decoding                                          */
    uint64_t digest; /* of its cuts; 0: none                                                        */
} cairn_core_slot_path;

/* A stored state on that path. */
typedef struct cairn_core_path_state {
    cairn_blob_id blob;
    uint32_t position;
    bool decoded;
    uint64_t digest;
    uint64_t bytes;          /* as memory holds it                                                  */
    double saving_ms;        /* expected                                                            */
    cairn_boundary boundary; /* what its position is                                                */
} cairn_core_path_state;

/* False: the slot is empty, or what it holds is not known. */
bool cairn_core_slot_path_get(const cairn_core *core, uint32_t slot, cairn_core_slot_path *ret_path);
/* Copy the path's tokens: cairn_token[length]. */
void cairn_core_slot_tokens(const cairn_core *core, uint32_t slot, cairn_token *out);
/* Which batches made rows [begin, end) of the slot: fill runs[0, min(room, count)); gives the count. */
uint32_t cairn_core_slot_runs(const cairn_core *core, uint32_t slot, uint32_t begin, uint32_t end,
                              cairn_run *runs, uint32_t room);
/* The path's states, deepest first: fill states[0, min(room, count)); gives the count. */
uint32_t cairn_core_slot_states(cairn_core *core, uint32_t slot, cairn_core_path_state *states,
                                uint32_t room);

/* A blob that memory holds, wherever it is in the tree. */
typedef struct cairn_core_stored {
    cairn_namespace space;
    cairn_blob_id blob;
    bool rows;           /* rows [begin, end) of a path; else the state at `end`                        */
    bool decoded;        /* state                                                                   */
    uint32_t begin, end; /* state: begin is end                                                     */
    uint64_t digest;     /* of a state's cuts; 0: none                                              */
    double saving_ms;    /* of a state, expected                                                    */
    cairn_boundary boundary;
} cairn_core_stored;

/*
 * Go through what memory holds and the other tier has not, rows first.
 *
 *   after  [in]  0, then what was given last
 *
 * Gives    the item, for the calls below until the next step; 0: no more
 */
uint32_t cairn_core_stored_next(cairn_core *core, uint32_t after, cairn_core_stored *ret_stored);
/* The tokens of its path up to its end: cairn_token[end]. */
void cairn_core_stored_tokens(const cairn_core *core, uint32_t item, cairn_token *out);
/* Which batches made the rows: fill runs[0, min(room, count)); gives the count. */
uint32_t cairn_core_stored_runs(const cairn_core *core, uint32_t item, cairn_run *runs, uint32_t room);
/* The other tier has it, or hasn't after all. Nothing happens when the item is another blob by now. */
void cairn_core_stored_kept(cairn_core *core, uint32_t item, cairn_blob_id blob, bool kept);

/* Digest of the prompt's own canonical cuts up to `position`; 0: it is none of them (or no memory). */
uint64_t cairn_core_cut_digest(const cairn_core *core, const cairn_prompt *prompt, uint32_t position);

/*
 * What was learned of where requests part, as bytes, and back: so that it outlives the process.
 *
 * save   out [out]  uint8_t[room], or NULL: how many are needed at most. Versioned, with a checksum. Names of namespaces are not
 *                   in it, only digests of them; at most CAIRN_COUNTS_MAX namespaces
 *        gives the number of bytes; when it is more than `room` the contents are not to be used
 * load   replaces what was loaded before; counts of namespaces that are already in use stay
 *
 * Errors  CAIRN_CORRUPT  damaged: set the file aside; CAIRN_FOREIGN  of another version; CAIRN_NOMEM. Nothing changed,
 *                        the built-in prior is used
 */
enum { CAIRN_COUNTS_MAX = 256 };
size_t cairn_core_counts_save(const cairn_core *core, uint8_t *out, size_t room);
CAIRN_MUST_CHECK cairn_status cairn_core_counts_load(cairn_core *core, const uint8_t *bytes, size_t len_bytes,
                                                     cairn_error *reterr);

/* Digest over all actions so far: equal event streams give equal digests. */
uint64_t cairn_core_digest(const cairn_core *core);

/*
 * The canonical cuts of a prompt: positions where its reading is cut in exact mode, a function of
 * count and boundaries alone (fast mode leaves out some and adds others, by what they save). Writes
 * at most max positions, ascending, the last being `count`; returns how many there are. The rule:
 * from the last cut c, the next is the nearest of
 *   - the first message start, end of system and tools, or opener, at least cut_tokens_min after c;
 *   - the first multiple of grid_tokens (absolute) at least cut_tokens_min after c;
 *   - c + batch_tokens_max;
 *   - the end.
 */
uint32_t cairn_core_cuts(const cairn_core_options *options, const cairn_prompt *prompt, uint32_t *out,
                         uint32_t max);

#endif
