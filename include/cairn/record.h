/*
 * record - what one request reused, and why not more.
 *
 * Every request has a record. `reason` is from a closed list and answers one question: why was the
 * prompt not resumed further than `resume`? It is CAIRN_REASON_NONE if no cache could have done so.
 *
 *   0 ............ resume ............ divergence ................ prompt_tokens
 *   |-- reused ----|- read beyond least -|----------- least -----------|
 *
 * Units    tokens; nanoseconds; bytes
 * Owner    the request; borrowed until cairn_request_free, or copied: it is a value
 */
#ifndef CAIRN_RECORD_H
#define CAIRN_RECORD_H

#include "cairn/prompt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, word for logs and the API, sentence for people) */
#define CAIRN_REASON_MAP(X)                                                                      \
    X(NONE, "none", "resumed as far as any cache could")                                         \
    X(NEW, "new", "nothing of this prompt was known")                                            \
    X(NEVER_TAKEN, "never-taken", "no state was saved nearer to the divergence")                 \
    X(THINNED, "thinned", "the nearer state was given up to keep better ones")                   \
    X(EVICTED, "evicted", "the nearer state was dropped to stay within the memory budget")       \
    X(ROWS_GONE, "rows-gone", "the nearer state is there but its attention rows are not")        \
    X(NO_ROOM, "no-room", "the nearer state did not fit into the memory budget")                 \
    X(PROVENANCE, "provenance", "the nearer state was made while decoding, and exact was asked") \
    X(CUTS, "cuts", "the nearer state was read with other cuts, and exact was asked")            \
    X(GATE, "gate", "the engine can't be shortened to the nearer position without a state")      \
    X(DEARER, "dearer", "restoring the nearer state would take longer than reading")             \
    X(DAMAGED, "damaged", "the nearer state was stored but its bytes fail the checks")           \
    X(FOREIGN, "foreign", "the nearer state belongs to another model, build or setting")         \
    X(PENDING, "pending", "the nearer state is still being written or read by another request")  \
    X(ENGINE, "engine", "the engine refused to restore the nearer state")                        \
    X(OFF, "off", "the cache is off for this request")                                           \
    X(KEY, "key", "what is stored was written with another key, or without one")                 \
    X(UNREADABLE, "unreadable", "the nearer state is stored but can't be read")                  \
    X(LATE, "late", "the shared store did not answer in time, or did not bring the nearer state in time")

typedef enum cairn_reason {
#define CAIRN_REASON_ENUM(name, word, sentence) CAIRN_REASON_##name,
    CAIRN_REASON_MAP(CAIRN_REASON_ENUM)
#undef CAIRN_REASON_ENUM
        CAIRN_REASON_COUNT
} cairn_reason;

/* "evicted"; constant. Unknown values give "unknown". */
const char *cairn_reason_word(cairn_reason reason);
/* "the nearer state was dropped to stay within the memory budget"; constant. */
const char *cairn_reason_sentence(cairn_reason reason);

/* Where the resume point came from. */
typedef enum cairn_source {
    CAIRN_SOURCE_NONE = 0,  /* read from the first token                                           */
    CAIRN_SOURCE_SLOT = 1,  /* live in the engine: nothing was moved, or only trimmed              */
    CAIRN_SOURCE_RAM = 2,   /* state (and rows where needed) from memory                           */
    CAIRN_SOURCE_DISK = 3,  /* fetched from the directory of cairn_cache_disk                        */
    CAIRN_SOURCE_SHARED = 4 /* fetched from the store of cairn_cache_shared                         */
} cairn_source;

/* "none", "slot", "ram", "disk", "shared"; constant. */
const char *cairn_source_word(cairn_source source);

/* How a request ended. What it read is kept in each case. */
typedef enum cairn_ending {
    CAIRN_END_DONE = 0,    /* the answer is whole                                                   */
    CAIRN_END_STOPPED = 1, /* cancelled or timed out                                                */
    CAIRN_END_BROKEN = 2   /* failed                                                                */
} cairn_ending;

typedef struct cairn_record {
    uint32_t prompt_tokens;
    uint32_t divergence; /* longest common prefix with anything known in this namespace        */
    uint32_t least;      /* prompt_tokens - divergence, at least 1                             */
    uint32_t resume;     /* tokens not decoded for this prompt: the API's cached_tokens        */
    uint32_t read;       /* prompt tokens that the engine decoded, counted at the engine       */
    cairn_source source;
    uint32_t slot;               /* the engine's slot that it ran in                                   */
    cairn_reason reason;         /* why not further than `resume`                                      */
    uint32_t reason_position;    /* the position the reason speaks of; 0 when it speaks of none        */
    uint64_t reason_bytes;       /* budget that would have kept it, when the reason is about room      */
    uint32_t divergence_message; /* message (index) that the divergence falls into                  */
    uint8_t divergence_role;     /* cairn_role of that message                                      */
    uint64_t state_age_ns;       /* age of the state that served                                       */
    uint32_t states_taken;       /* checkpoints taken by this request                                  */
    uint32_t states_skipped;     /* wanted, but without room or not worth it                           */
    uint32_t answer_tokens;      /* tokens decoded after the prompt                                    */
    uint64_t restore_ns;         /* time in trim, rows in, state in                                    */
    uint64_t save_ns;            /* time in state out, rows out                                        */
    uint64_t read_ns;            /* time decoding the prompt                                           */
    uint64_t decoded_ns;         /* when the prompt's last token had been decoded; 0: not yet          */
    uint64_t answer_ns;          /* time decoding the answer                                           */
    uint64_t moved_bytes;        /* copied between engine and store for this request                   */
} cairn_record;

#ifdef __cplusplus
}
#endif
#endif
