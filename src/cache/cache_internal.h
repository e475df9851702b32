/*
 * cache_internal - the conductor's own structs, shared by the files of src/cache and by its tests.
 *
 *   begin --REQUEST--> core --actions--> request: list and cursor
 *   step  = one transfer of the list, or one piece in a decode that others share
 *   end   --FINISH-->  core
 *
 *   cache.c          new, free, stats, verify
 *   cache_request.c  begin, step, push, end
 *   cache_disk.c     the disk tier: before a request is planned, and when there is nothing to do
 *   cache_shared.c   the same for the store that servers share
 *   cache_adopt.c    blobs that come from either
 *   cache_actions.c  carries a request's list out, up to its next READ or READY
 *   cache_batch.c    the pieces of one step, decoded together; what to do when that fails
 *   cache_look.c     the tree of known paths, for those who watch; cache_disk_look.c: of what is on disk
 *   cache_record.c   what a request reused and why, counted where it happens
 *   cache_timeline.c when what was done for it
 *   mover.c          bytes between engine and tier
 *   keeper.c         what slots hold, to disk; keeper_fetch.c: back, before a request is planned
 *   sharer.c         the same with the shared store
 *   state_worth.c    which states are worth their bytes there
 *
 * Owner    a request belongs to its cache until it is ended, then to the caller
 * Thread   the thread that owns the engine
 * Caveats  requests (about 8 KB, their list of actions, four bytes a token of answer) are the
 *          caller's handles and lie outside of ram_bytes_max
 */
#ifndef CAIRN_CACHE_INTERNAL_H
#define CAIRN_CACHE_INTERNAL_H

#include "cache/keeper.h"
#include "cache/mover.h"
#include "cache/sharer.h"
#include "cairn/cairn.h"
#include "core/core.h"
#include "store/heap.h"
#include "store/tier_ram.h"

enum {
    CAIRN_CACHE_ACTIONS_MIN = 8, /* room in the request itself: what follows a decode always fits        */
    CAIRN_CACHE_RECOVERIES_MAX = 4
};

/* Told of every event that the core is given and of what it answered; `actions` may be empty. */
typedef struct cairn_cache_sink {
    void (*event)(void *ctx, const cairn_event *event, cairn_status status, const cairn_action *actions,
                  uint32_t count);
    void *ctx;
} cairn_cache_sink;

struct cairn_cache {
    uint32_t pace_tokens; /* most tokens of a piece of a prompt that isn't exact; 0: a batch        */
    cairn_mem *mem;
    cairn_engine *engine;
    cairn_cache_options options;
    cairn_core_options core_options;
    uint64_t own_bytes;      /* of the heap, our own arrays                                              */
    uint64_t fixed_bytes;    /* and the tier's, empty                                                    */
    uint64_t work_bytes_max; /* set apart for the core's working arrays                                  */
    cairn_heap heap;
    cairn_tier_ram *ram;
    cairn_core *core;
    cairn_mover mover;
    cairn_keeper *keeper;   /* NULL: no disk tier                                                          */
    void *counts_io;        /* cairn_io of the learned counts' file; NULL: they are not kept               */
    char counts_path[1024]; /* its name                                                                */
    uint64_t counts_requests; /* totals.requests when it was written last                                */
    uint64_t counts_due_ns;   /* the writer is given them again then                                     */
    cairn_sharer *sharer;     /* NULL: nothing is shared                                             */
    cairn_error sharer_error; /* why there is none although one was asked for                       */
    cairn_error keeper_error; /* why there is none although one was asked for                            */
    uint32_t fetching; /* requests that wait for blobs from disk, and have no slot yet                */
    cairn_cache_sink sink;
    cairn_request **active; /* cairn_request *[slots], by slot; NULL: idle                               */
    cairn_piece *pieces;    /* cairn_piece[slots]: of the decode in hand                                 */
    cairn_request **owners; /* cairn_request *[slots]: whose they are                                    */
    cairn_request **step;   /* cairn_request *[slots]: those that decode in this step                    */
    uint32_t *floors;       /* uint32_t[slots]: see trim_floors in core.h; NULL where there are none     */
    uint64_t decodes;       /* calls of the engine's decode so far: tells whether logits are still there */
    uint64_t steps;         /* calls of step so far                                                      */
    cairn_request_id last_id;
    cairn_cache_stats totals; /* requests and tokens; the rest is asked for when it is wanted            */
};

/* One action that is still to be done, and its place in the list that the core gave. */
typedef struct cairn_todo {
    cairn_action action;
    uint32_t index;
} cairn_todo;

struct cairn_request {
    cairn_cache *cache;
    cairn_request_id id; /* 0: unknown to the core                                                       */
    cairn_mem *mem;
    cairn_prompt prompt; /* mode OFF when the cache is off                                               */
    bool exact;          /* asked for exact, whether the cache is on or off                              */
    cairn_phase phase;
    uint32_t vocab_size;
    uint64_t step_seen; /* the cache's step that has it in hand                                          */
    cairn_record record;
    cairn_timeline timeline;
    cairn_error error;

    cairn_todo few[CAIRN_CACHE_ACTIONS_MIN];
    cairn_todo *todo; /* few, or allocated                                                               */
    uint32_t todo_room, todo_count, todo_next;
    bool touched; /* an action changed the slot, and its state is not set yet                            */
    bool resumed; /* the core knows that the plan to resume was carried out                              */

    uint32_t slot;
    uint32_t length;    /* tokens in the slot, by our count; valid from the first decode on           */
    uint32_t read_end;  /* highest prompt position that was decoded                                   */
    uint64_t resume_ns; /* spent on the actions between RESET and RESTORE                             */
    uint32_t failures;  /* of those actions                                                           */

    cairn_fetch fetch; /* blobs from disk that its plan waits for                                       */
    cairn_share share; /* what the shared store is asked for                                            */
    uint64_t share_ns; /* when that began                                                               */
    cairn_reason shared_reason; /* why nothing came from there although there may have been something   */
    uint32_t shared_position;
    bool fetches, shares; /* it is one of cache->fetching for the one or the other                        */
    bool from_disk;       /* some came: what it resumes from memory was on disk                           */
    bool from_shared;     /* or in the shared store                                                       */

    cairn_token *answer; /* tokens pushed so far: replayed when the slot is lost by another's fault      */
    uint32_t answer_room, answer_count;
    uint32_t answer_next; /* the next of them to decode                                                  */
    uint32_t recoveries;  /* plans made anew after another request's failure                             */
    uint32_t cancels;     /* plans made anew after an interrupt                                          */
    uint32_t states_taken_before, states_skipped_before; /* by those earlier plans                       */
    bool lost;  /* the decode in hand failed and cost it its slot's state */
    bool alone; /* decode its pieces by themselves                                             */

    bool logits_there; /* of the last token decoded: the engine's, until its next decode, or kept  */
    uint32_t logits_piece, logits_index; /* where in that decode                                         */
    uint64_t logits_decode; /* which decode it was; 0: they are in logits_kept                           */
    float *logits_kept;     /* float[vocab_size], made when one step needs several decodes               */
};

/* --- cache.c ---------------------------------------------------------------------------------------------- */

/* Now, by the clock that the cache was given, else by the system's. */
uint64_t cairn_cache_now_ns(const cairn_cache *cache);

/* Tell the core; the request's id and the time are filled in. Actions are borrowed until the next call. */
CAIRN_MUST_CHECK cairn_status cairn_cache_tell(cairn_cache *cache, cairn_event *event,
                                               const cairn_action **ret_actions, uint32_t *ret_count,
                                               cairn_error *reterr);

/* The same for an event whose answer is at most drops, which are done. */
cairn_status cairn_cache_tell_drops(cairn_cache *cache, cairn_event *event, cairn_error *reterr);

/* Do the drops of a list. */
void cairn_cache_drop(cairn_cache *cache, const cairn_action *actions, uint32_t count);

/* The slot's state, or all of it, is gone: tell the core what is left. */
void cairn_cache_slot_lost(cairn_request *request, uint32_t length);

/* Be told of all events from now on; for traces and tests. The sink is copied. */
void cairn_cache_sink_set(cairn_cache *cache, const cairn_cache_sink *sink);

/* --- cache_request.c -------------------------------------------------------------------------------------- */

/* Give a request to the core, again when it was known before. Not ended on failure. */
CAIRN_MUST_CHECK cairn_status cairn_request_plan(cairn_request *request, uint32_t slot, cairn_error *reterr);

/* --- cache_disk.c ----------------------------------------------------------------------------------------- */

/* Does the disk hold more of this prompt than memory? Then the request fetches before it is planned. */
bool cairn_request_seek(cairn_request *request);
/* Take a blob that has come; `wait` for it. Gives false when there is nothing more to fetch: it can be planned. */
bool cairn_request_fetch(cairn_request *request, bool wait);
/* Give up what is not fetched yet. */
void cairn_request_fetch_end(cairn_request *request);

/* --- cache_adopt.c ---------------------------------------------------------------------------------------- */

/*
 * Another tier holds these blobs of the prompt's path.
 *
 *   ret_blobs  [inout]  cairn_blob_id[count]: set for those that are to be fetched
 */
void cairn_cache_adopt(cairn_cache *cache, const cairn_prompt *prompt, const cairn_adopt *adopts,
                       uint32_t count, cairn_blob_id *ret_blobs);
/* One of them has come, is settled in memory and takes so much there; or it won't come: its room in memory is given back. */
void cairn_cache_fetched(cairn_cache *cache, cairn_blob_id blob, cairn_status status, uint64_t held_bytes);
/* The largest blob that other tiers get: a state, or a block of rows. */
uint64_t cairn_cache_blob_bytes_max(cairn_engine *engine, uint32_t block_tokens);

/* --- cache_shared.c --------------------------------------------------------------------------------------- */

/* Ask the shared store for more than memory and disk have. True: it is under way, see cairn_request_share_step. */
bool cairn_request_share(cairn_request *request);
/* See what has come; with `wait` a moment is waited. Gives false when it can be planned. */
bool cairn_request_share_step(cairn_request *request, bool wait);
/* Give up what has not come. */
void cairn_request_share_end(cairn_request *request);

/* --- cache_actions.c -------------------------------------------------------------------------------------- */

/*
 * Take over a list: what it drops is dropped at once, the rest becomes the request's list.
 * Errors  CAIRN_NOMEM: the drops are done, the list is empty
 */
CAIRN_MUST_CHECK cairn_status cairn_request_take_list(cairn_request *request, const cairn_action *actions,
                                                      uint32_t count, cairn_error *reterr);

typedef enum cairn_extent {
    CAIRN_EXTENT_SAVES, /* what has to be done before another event is sent                             */
    CAIRN_EXTENT_ONE,   /* and one transfer into the slot, with what needs no time                      */
    CAIRN_EXTENT_ALL
} cairn_extent;

/*
 * Carry the list out, up to the next READ or READY or as far as `extent` says.
 * After   the phase says what is next
 */
CAIRN_MUST_CHECK cairn_status cairn_request_advance(cairn_request *request, cairn_extent extent,
                                                    cairn_error *reterr);

/* --- cache_batch.c ---------------------------------------------------------------------------------------- */

/* Decode one piece of each request in cache->step[0, count). */
CAIRN_MUST_CHECK cairn_status cairn_cache_decode(cairn_cache *cache, uint32_t count, cairn_error *reterr);

/* The row of logits, asked from the engine when it is wanted; NULL: not there any more. */
const float *cairn_request_logits_row(const cairn_request *request);

/* The request can't go on. */
cairn_status cairn_request_fail(cairn_request *request, const cairn_error *error, cairn_error *reterr);

/* --- cache_record.c --------------------------------------------------------------------------------------- */

/* Copy what the core has decided so far. */
void cairn_record_decision(cairn_request *request);
/* Prompt tokens [begin, end) were decoded in cost_ns. */
void cairn_record_read(cairn_request *request, uint32_t begin, uint32_t end, uint64_t cost_ns);
void cairn_record_answered(cairn_request *request, uint64_t cost_ns);
void cairn_record_restored(cairn_request *request, uint64_t bytes, uint64_t cost_ns);
void cairn_record_saved(cairn_request *request, uint64_t bytes, uint64_t cost_ns);

/* --- cache_timeline.c ------------------------------------------------------------------------------------- */

/* Work has ended. `count` is filled in. */
void cairn_timeline_add(cairn_request *request, const cairn_span *work);
/* The same for work that ends now and took cost_ns. */
void cairn_timeline_ended(cairn_request *request, cairn_span_kind kind, uint64_t cost_ns, uint64_t bytes);

/* cache_counts.c: what was learned of divergences, on disk. None of them can fail: without the file the prior is used. */
void cairn_counts_open(cairn_cache *cache, const cairn_cache_disk *disk);
void cairn_counts_read(cairn_cache *cache);
void cairn_counts_write(cairn_cache *cache);
/* Hand them to the writer, once a minute at most. */
void cairn_counts_keep(cairn_cache *cache);
/* A namespace was forgotten: what the file says of it goes, too. */
void cairn_counts_forgotten(cairn_cache *cache);

#endif
