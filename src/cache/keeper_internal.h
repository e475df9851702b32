/*
 * keeper_internal - shared by the keeper's files. Nobody else includes it.
 */
#ifndef CAIRN_CACHE_KEEPER_INTERNAL_H
#define CAIRN_CACHE_KEEPER_INTERNAL_H

#include <pthread.h>

#include "cache/cache_internal.h"
#include "cache/keeper.h"

enum {
    KEEPER_JOBS = 2,
    KEEPER_WRITES = 256, /* of the last writes it is known when they were made                          */
    KEEPER_STATES_MAX = 64,
    KEEPER_RESCAN_S = 5,
    KEEPER_LIST_S =
        600, /* all folders are listed, whatever their times say: clocks of file servers are coarse */
    KEEPER_SWEEP_AT_ONCE = 8,
    KEEPER_KNOWN = 8192,        /* names of blobs that need not be handed over again            */
    KEEPER_COVERED_MAX = 1024,  /* blobs of one path that the writer looks through              */
    KEEPER_READERS_MAX = 3,     /* threads that read, one fewer than there are processors       */
    KEEPER_READ_AHEAD = 8,      /* blobs of one request that are on their way at a time         */
    KEEPER_GROWN_TOKENS = 64,   /* an active slot is looked at again when it grew by so many    */
    KEEPER_PART_READING = 10,   /* of the time that passes beside requests, at most this part   */
    KEEPER_PART_ANSWERING = 50, /* goes into copying; the second where an answer is written     */
    KEEPER_FRONT_S = 10         /* so much reading of one slot may be lost to kill -9           */
};

/* A write that is over, for time lines. */
typedef struct keeper_write {
    cairn_namespace space;
    cairn_span span;
} keeper_write;

/* Where a blob comes from when it is in memory and on no slot's path. */
#define KEEPER_NO_SLOT UINT32_MAX

/* DONE, FAILED: the engine's thread looks at it, and then sets it free. */
typedef enum job_phase { JOB_FREE, JOB_READY, JOB_WRITING, JOB_DONE, JOB_FAILED } job_phase;

/* One blob on its way to disk. Filled by the engine's thread while FREE, read by the writer after. */
typedef struct keeper_job {
    job_phase phase;
    uint64_t order;     /* jobs are written in the order in which they were handed over                 */
    uint32_t slot;      /* whose path it is on; KEEPER_NO_SLOT: a blob of memory, with the next two      */
    uint32_t item;      /* what the core calls it                                                      */
    cairn_blob_id blob; /* pinned in memory until the engine's thread sets the job free; 0: none       */
    uint64_t digest;    /* of the pinned blob: what its bytes must have                                */
    bool covered;       /* rows of memory: not written where the disk has them in other pieces         */
    cairn_blob_meta meta;
    char name[CAIRN_BLOB_NAME_BYTES]; /* of the file; empty: the writer finds out                        */
    double value;
    cairn_token *tokens; /* cairn_token[slot_tokens_max], the path up to meta.end */
    cairn_blob_run runs[CAIRN_KEEPER_BLOCK_TOKENS];
    uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES]; /* uint8_t[slot_tokens_max][8] */
    uint8_t *payload;                        /* uint8_t[payload_room] */
    const uint8_t *bytes;                    /* what is written: payload, or the pinned blob's */
    char replaces[CAIRN_BLOB_NAME_BYTES];    /* a shorter last block of the same path; empty: none */
} keeper_job;

/* How far a slot's path is kept. */
typedef struct keeper_slot {
    bool noted;          /* look at it */
    uint32_t next_block; /* first block that was not looked at since it was noted */
    bool rows_done;
    uint32_t tail_end; /* the last block as it was kept last: its end, name and path there */
    char tail_name[CAIRN_BLOB_NAME_BYTES];
    cairn_path_digest tail_path;
    uint32_t looked_end; /* active: how long it was when there was nothing more to hand over              */
    uint32_t front_end;  /* the state that was kept only because much was read since the one before       */
    char front_name[CAIRN_BLOB_NAME_BYTES];
    cairn_path_digest front_path;
} keeper_slot;

struct cairn_keeper {
    cairn_cache *cache;
    cairn_mem *mem;
    cairn_disk *disk;
    cairn_read_pool *pool;
    double fetch_ns_byte; /* what fetching cost, as last measured                                           */
    uint64_t payload_room;
    keeper_slot *slots;
    cairn_token *tokens;        /* cairn_token[tokens_room]: the path in hand */
    uint32_t *positions;        /* uint32_t[digests_room] */
    cairn_path_root root;       /* of the namespace of the path in hand */
    cairn_path_digest *digests; /* at multiples of BLOCK, and at the path's end */
    cairn_disk_found *found;    /* cairn_disk_found[CAIRN_KEEPER_FOUND_MAX] */
    uint32_t tokens_room, digests_room;
    uint64_t *known;      /* uint64_t[KEEPER_KNOWN]: heads of names, each where its value says             */
    bool behind;          /* beside requests: no look at the index, which may wait for the disk            */
    uint64_t copies;      /* pieces that were copied out of the engine so far                               */
    uint64_t behind_ns;   /* beside requests nothing is done before; by the cache's clock                  */
    uint64_t retry_ns;    /* nothing is written before */
    double read_ns_token; /* what reading costs, as last measured */
    uint32_t sweep;       /* blobs of memory are to be looked at, after this one ... */
    bool sweeping;        /* ... when set */
    bool scanned;         /* the directory was looked at before the writer began */
    bool writer_runs;
    bool stop; /* guarded by the lock */

    pthread_t writer;
    pthread_mutex_t lock; /* over jobs' phases and what follows */
    pthread_cond_t wake;  /* a job is ready, or stop */
    pthread_cond_t done;  /* a job is free */
    keeper_job jobs[KEEPER_JOBS];
    uint64_t started; /* jobs so far */
    uint64_t written; /* writes so far; write k stands at k % KEEPER_WRITES */
    keeper_write writes[KEEPER_WRITES];
    uint64_t kept, failures, fetched, fetched_bytes, fetch_failures;
    uint64_t pause_ns; /* how long to wait after the last failure; taken by the engine's thread */
    cairn_error last_error;
    cairn_disk_found
        *covered;        /* cairn_disk_found[KEEPER_COVERED_MAX]: the writer's                         */
    uint64_t scanned_ns; /* when the writer looked through the directory last                          */
    uint64_t listed_ns;  /* when all of it was listed last; 0: never                                   */
    uint8_t *page;       /* uint8_t[page_bytes], a small file that waits to be written; NULL: none */
    size_t page_bytes;
    cairn_io *page_io;
    const char *page_path;
    bool page_writing;
    bool locked; /* files in the directory were written with another key */
    bool lost;   /* it found files gone: what is known is to be looked at anew */
};

/* keeper.c: nothing is known any more to be on disk; every slot is looked at again. */
void cairn_keeper_look_again(cairn_keeper *keeper);

/* keeper_sweep.c: hand over the next blob that memory holds and the disk doesn't. True: there is more to look at. */
bool cairn_keeper_sweep(cairn_keeper *keeper, keeper_job *job);

/*
 * keeper_slots.c: hand over the next piece of what a slot holds. Of one that a request uses only what won't change: whole
 * blocks, and states. False: there is none.
 */
bool cairn_keeper_slot_keep(cairn_keeper *keeper, uint32_t slot, keeper_job *job);

/* --- keeper_writer.c ---------------------------------------------------------------------------------------- */

/* The writer's thread; ctx is the keeper. */
void *cairn_keeper_writer(void *ctx);
/* Is the blob on disk already, or on its way there? Beside requests what is known in memory has to do. */
bool cairn_keeper_has(cairn_keeper *keeper, const cairn_blob_meta *meta,
                      char ret_name[CAIRN_BLOB_NAME_BYTES]);
/* A job that may be filled; NULL: all are in use, or the disk is given a rest after a failure. */
keeper_job *cairn_keeper_job_take(cairn_keeper *keeper);
/* Note that a blob is on disk. */
void cairn_keeper_know(cairn_keeper *keeper, const char *name);
/* Give a filled job to the writer, with the tokens of the path in hand. */
void cairn_keeper_start(cairn_keeper *keeper, keeper_job *job);
/* Take back what the writer is done with. */
void cairn_keeper_settle(cairn_keeper *keeper);
/* Nothing is borrowed for the job any more. The engine's thread, with the lock or after the writer. */
void cairn_keeper_job_free(cairn_keeper *keeper, keeper_job *job);
/* The writer has nothing to do, and nothing is to be looked at by the engine's thread. The lock is held. */
bool cairn_keeper_jobs_idle(cairn_keeper *keeper);

#endif
