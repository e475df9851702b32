/*
 * sharer_internal - shared by the sharer's files. Nobody else includes it.
 *
 *   sharer.c          life, counting, what is known to be in the store
 *   sharer_out.c      what slots hold, piece by piece, into jobs (engine's thread)
 *   sharer_send.c     jobs to the store (sender thread)
 *   sharer_in.c       a request's way: candidates, adopting (engine's thread)
 *   sharer_load.c     its blobs: room for them, taking what has come (engine's thread)
 *   sharer_receive.c  asks and loads (receivers' threads)
 */
#ifndef CAIRN_CACHE_SHARER_INTERNAL_H
#define CAIRN_CACHE_SHARER_INTERNAL_H

#include <pthread.h>

#include "cache/cache_internal.h"
#include "cache/sharer.h"
#include "store/tier_shared.h"

enum {
    SHARER_JOBS = 3,   /* copies on their way out                                               */
    SHARER_POINTS = 8, /* points on their way out: they need no room for bytes                  */
    SHARER_OUT = SHARER_JOBS + SHARER_POINTS,
    SHARER_LOADS = 32,       /* blobs on their way in: their room is memory's                         */
    SHARER_AHEAD = 8,        /* of one request                                                        */
    SHARER_MARGIN_S = 60,    /* clocks of servers may differ by so much                                 */
    SHARER_KEYS_MAX = 512,   /* points that one request asks for                                      */
    SHARER_ASKS_MORE = 2,    /* questions beyond one a slot: of requests that are gone                 */
    SHARER_FORGETS = 64,     /* namespaces that are to be forgotten in the store                        */
    SHARER_TRIES = 3,        /* points that are looked at before the store has nothing                 */
    SHARER_STATES_MAX = 64,  /* of one path                                                           */
    SHARER_KNOWN = 8192,     /* names that are known to be in the store                               */
    SHARER_PART_BESIDE = 10, /* beside requests one part in so many goes into copying                 */
    SHARER_GAIN_TOKENS = 64  /* less isn't worth a question                                           */
};

/* Phases of all that is handed from thread to thread. */
typedef enum sharer_phase { SHARER_FREE, SHARER_READY, SHARER_RUNNING, SHARER_DONE } sharer_phase;

/* One blob or point on its way out. Filled by the engine's thread while FREE. */
typedef struct sharer_job {
    sharer_phase phase;
    uint64_t order; /* jobs are sent in the order in which they were handed over                         */
    uint32_t slot;
    bool is_point;
    uint64_t since; /* point: no job handed over since this one may have failed                          */
    bool anew; /* the store had it, and will have forgotten it before long                                */
    cairn_status status;
    uint64_t name; /* of blob or point, for what is known                                                 */
    cairn_shared_space space;
    cairn_blob_meta meta;
    cairn_token *tokens; /* cairn_token[slot_tokens_max], the path up to meta.end                          */
    cairn_blob_run runs[CAIRN_SHARER_BLOCK_TOKENS];
    uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES]; /* uint8_t[BLOCK][8]                                         */
    uint8_t *payload;                        /* uint8_t[payload_room]                                    */
    cairn_shared_point point; /* its parts are cairn_shared_part[parts_room], the job's                     */
} sharer_job;

/* One point that a request might resume from. */
typedef struct sharer_candidate {
    uint32_t position;
    uint8_t provenance;
    uint64_t cut_digest; /* that it must have; 0: any                                                     */
    cairn_path_digest path;
} sharer_candidate;

/* One request's question. Filled by the engine's thread while FREE, then a receiver's until DONE. */
typedef struct sharer_ask {
    sharer_phase phase;
    bool left;        /* the request is gone: free it when nobody works on it                             */
    uint32_t running; /* loads of it that the receivers have in hand, or will                             */
    uint64_t until_ns;
    uint32_t resume;
    double read_ns_token;
    cairn_shared_space space;
    uint32_t count; /* candidates, deepest first                                                          */
    sharer_candidate candidates[SHARER_KEYS_MAX];
    char keys[SHARER_KEYS_MAX + 1][CAIRN_KV_KEY_BYTES]; /* behind the candidates': that of the marker   */
    /* The answer. */
    cairn_status status;
    uint32_t found;           /* its candidate                                                          */
    cairn_shared_point point; /* its parts are cairn_shared_part[parts_room], the ask's                   */
    uint32_t count_heads;     /* of the state, and of the rows beyond `resume`                          */
    uint32_t *head_parts;     /* uint32_t[parts_room]: whose they are                                   */
    cairn_shared_head *heads; /* cairn_shared_head[parts_room], the first count_heads are the receiver's   */
    uint64_t expected_ns;     /* that their bytes will take                                             */
    bool dearer;              /* there was something, and reading is faster                            */
} sharer_ask;

/* One blob on its way in. Filled by the engine's thread while FREE, then a receiver's until DONE. */
typedef struct sharer_load {
    sharer_phase phase;
    bool left; /* the request is gone: taken when it is done                                              */
    sharer_ask *ask; /* until it is done                                                                  */
    uint32_t head;
    uint64_t order, until_ns;
    cairn_status status;
    cairn_blob_id blob;
    uint64_t bytes;
    uint64_t name; /* for what is known                                                                   */
    uint8_t *out;  /* uint8_t[bytes], memory's, reserved                                                  */
} sharer_load;

/* A thread that asks and loads, with connections of its own. */
typedef struct sharer_receiver {
    cairn_sharer *sharer;
    cairn_shared_reader *reader;
    pthread_t thread;
    bool runs;
} sharer_receiver;

/* How far a slot's path is handed over. */
typedef struct sharer_slot {
    bool noted;
    uint32_t next_block;
    uint32_t looked_end; /* active: how long it was when all of it was handed over                         */
    uint32_t seen_end; /* of the path that is not handed over to its end; 0: none                          */
    cairn_path_digest seen_path;
} sharer_slot;

/* A name that is in the store, and since when we know. */
typedef struct sharer_known {
    uint64_t name;
    uint64_t since_s;
} sharer_known;

typedef enum sharer_knows { SHARER_UNKNOWN, SHARER_KNOWN_NOW, SHARER_KNOWN_OLD } sharer_knows;

struct cairn_sharer {
    cairn_cache *cache;
    cairn_mem *mem;
    cairn_shared *shared;
    uint64_t deadline_ns; /* of one question                                                             */
    uint32_t ttl_s;
    uint64_t payload_room;
    uint32_t tokens_room, parts_room, slots, count_asks;
    double read_ns_token;
    /* The engine's thread's own. */
    sharer_slot *slot;   /* sharer_slot[slots]                                                              */
    cairn_token *tokens; /* cairn_token[tokens_room]: the path in hand                                     */
    uint32_t *positions; /* uint32_t[digests_room]                                                        */
    cairn_path_digest *digests;
    uint32_t digests_room;
    cairn_shared_space space;
    sharer_known *known; /* sharer_known[SHARER_KNOWN]                                                    */
    uint64_t behind_ns;  /* beside requests nothing is done before; by the cache's clock                 */
    uint64_t retry_ns;   /* nothing is sent before                                                       */
    uint64_t reconnects; /* of the store, as seen last                                                   */
    uint64_t orders;     /* jobs and loads so far                                                        */

    pthread_t sender;
    bool sender_runs;
    sharer_receiver receivers[CAIRN_SHARED_READERS];
    pthread_mutex_t lock; /* over phases and what follows                                                */
    pthread_cond_t wake_sender, wake_receiver;
    pthread_cond_t done;
    bool stop;
    sharer_job jobs[SHARER_OUT]; /* the first SHARER_JOBS have room for bytes                          */
    uint64_t failed;             /* order of the last job that failed; the sender's                     */
    sharer_load loads[SHARER_LOADS];
    sharer_ask
        *asks; /* sharer_ask[count_asks]                                                               */
    cairn_namespace forgets[SHARER_FORGETS];
    uint32_t count_forgets;
    cairn_cache_shared_stats stats;
};

/* sharer.c: is a blob or point with this name in the store? The engine's thread asks and learns. */
sharer_knows cairn_sharer_knows(const cairn_sharer *sharer, uint64_t name);
void cairn_sharer_learn(cairn_sharer *sharer, uint64_t name);
/* Add to a counter of stats. */
void cairn_sharer_count(cairn_sharer *sharer, uint64_t *counter, uint64_t by);

/* sharer_out.c: take back what the sender is done with. */
void cairn_sharer_settle(cairn_sharer *sharer);

/* sharer.c: signals are the program's other threads' business; a store that hangs up is no reason to die of SIGPIPE. */
void cairn_sharer_signals_block(void);

/* The threads; ctx is the sharer, and the receiver. */
void *cairn_sharer_sender(void *ctx);
void *cairn_sharer_receiver(void *ctx);

/* sharer_load.c: hand blobs to the receivers, as many as may be ahead. Otherwise memory has no room for one. */
CAIRN_MUST_CHECK cairn_status cairn_sharer_loads_start(cairn_sharer *sharer, cairn_share *share);
/* Take what has come into memory. Gives the first failure. */
CAIRN_MUST_CHECK cairn_status cairn_sharer_loads_take(cairn_sharer *sharer, cairn_share *share,
                                                      uint64_t *ret_bytes);
/* The request goes: give up what was not begun. */
void cairn_sharer_loads_leave(cairn_sharer *sharer, cairn_share *share);
/* Take what came for requests that are gone. */
void cairn_sharer_loads_settle(cairn_sharer *sharer);
/* Is anything still on its way for them? */
bool cairn_sharer_loads_left(cairn_sharer *sharer);

/* sharer_receive.c: give back what an ask's answer holds. The lock isn't needed: nobody works on it. */
void cairn_sharer_ask_clear(cairn_sharer *sharer, sharer_ask *ask);

#endif
