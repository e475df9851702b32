/*
 * tier_shared - blobs in a store that several servers use, so that each resumes what another has read.
 *
 *   a state and its rows go out     put, put, ... then point_put: nobody sees a point whose blobs aren't there
 *   a prompt comes in               ask (which of these points are there?), point_get, heads_get, load
 *
 * No call lists anything: every key follows from the prompt, or from what was found by it (store/shared_format.h).
 *
 * The store may be slow, down, full, emptied or wrong at any time. Each call ends at the moment it is given. After a
 * failure the store is left alone for a while, first half a second, then longer, at most a minute: calls in that
 * time fail at once with CAIRN_BUSY.
 *
 *   redis://[user:password@]host[:port][/database]        https://host[:port]/path      http://...
 *   s3://bucket[/prefix]?endpoint=https://host[:port]     file:///directory
 *
 * Units    bytes; ns of the system's monotonic clock; positions in tokens
 * Owner    the caller owns the tier; buffers are the caller's
 * Thread   writing: one at a time. Reading: one at a time for each reader. stats_get: any
 * Errors   CAIRN_BUSY (left alone), CAIRN_IO, CAIRN_TIMEOUT, CAIRN_NOSPACE, CAIRN_NOTFOUND, CAIRN_CORRUPT, CAIRN_FOREIGN (another
 *          key), CAIRN_NOMEM: for a request each is a miss
 */
#ifndef CAIRN_STORE_TIER_SHARED_H
#define CAIRN_STORE_TIER_SHARED_H

#include "store/shared_format.h"

typedef struct cairn_shared cairn_shared;

/* A way in: connections of its own, made when they are used first. */
typedef struct cairn_shared_reader cairn_shared_reader;

enum { CAIRN_SHARED_READERS = 4 };

typedef struct cairn_shared_options {
    const char *url;
    const uint8_t *key; /* uint8_t[32]: encrypt; NULL: don't. Copied                                  */
    uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES];
    uint32_t ttl_s;     /* what is older is not used, and forgotten where the store can forget         */
    uint64_t bytes_max; /* file:// only: of the whole directory                                        */
    const char *s3_id, *s3_secret, *s3_token, *s3_region; /* NULL: not given                            */
    /* With a key: rooms for pieces on their way, taken by open and given back by close. */
    const cairn_mem *room_mem;
    uint64_t blob_bytes_max; /* of the largest blob that is read or written                              */
} cairn_shared_options;

/* What those rooms take. */
uint64_t cairn_shared_room_bytes(uint64_t blob_bytes_max);

/* A blob's header, checked. */
typedef struct cairn_shared_head {
    cairn_blob_meta meta;
    cairn_blob_layout layout;
    uint8_t *bytes; /* uint8_t[room]                                                                    */
    uint64_t room;
} cairn_shared_head;

typedef struct cairn_shared_stats {
    uint64_t asks, points, heads, loads; /* that worked                                       */
    uint64_t loaded_bytes;
    uint32_t
        loads_at_once; /* at most, so far                                                               */
    uint64_t puts, put_bytes, points_put, puts_known; /* known: the store had the blob already             */
    uint64_t failures, timeouts, damaged, full, refused_while_open;
    uint64_t reconnects; /* of the writing side: when it grows, the store may have been emptied             */
    uint32_t broken;     /* failures in a row: 0 when the store works                                  */
    cairn_error last_error;
} cairn_shared_stats;

/*
 * Make a tier; the store is not asked for anything yet.
 * Errors  CAIRN_INVALID (the URL, with what is wrong in it), CAIRN_UNSUPPORTED (built without that), CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_open(const cairn_mem *mem, const cairn_shared_options *options,
                                                cairn_shared **ret_shared, cairn_error *reterr);
/* NULL is allowed. Nothing else may be running. */
void cairn_shared_close(cairn_shared *shared);

/* Calls that are under way end soon, and later ones at once: before the threads that make them are joined. Any thread. */
void cairn_shared_stop(cairn_shared *shared);

/* What a namespace is in this store. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_shared_space_get(const cairn_shared *shared, const cairn_namespace *space,
                                                     cairn_shared_space *ret_space, cairn_error *reterr);

/* How many points may be asked for at once. */
uint32_t cairn_shared_keys_max(const cairn_shared *shared);

/* The reader of that number, below CAIRN_SHARED_READERS; it is the tier's. */
cairn_shared_reader *cairn_shared_reader_get(cairn_shared *shared, uint32_t index);

/*
 * Throughput of loading with all readers, bytes per ns, round trips not counted: what was measured, the older the less; a guess
 * at first.
 */
double cairn_shared_speed(cairn_shared *shared);
/*
 * How many blobs of that size are best loaded side by side: one, or as many as there are readers where a round trip takes half of
 * the time that the bytes take, or more. Several fill a long line; over a short one they cost more than they win.
 */
uint32_t cairn_shared_at_once(cairn_shared *shared, uint64_t blob_bytes);
/* How long so many blobs of so many bytes together will take: with that speed, and round trips, side by side. */
uint64_t cairn_shared_expected_ns(cairn_shared *shared, uint64_t bytes, uint32_t count);

/* --- reading -------------------------------------------------------------------------------------------------- */

/*
 * Which of these points are there? One round trip.
 *
 *   keys       [in]   of cairn_shared_point_key, char[count][CAIRN_KV_KEY_BYTES]
 *   ret_there  [out]  bool[count]
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_ask(cairn_shared_reader *reader,
                                               const char (*keys)[CAIRN_KV_KEY_BYTES], uint32_t count,
                                               uint64_t until_ns, bool *ret_there, cairn_error *reterr);

/*
 * Read one point.
 *
 *   ret_point  [inout]  its parts are cairn_shared_part[parts_room]
 *
 * Errors  CAIRN_NOTFOUND: also one that is too old
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_point_get(cairn_shared_reader *reader,
                                                     const cairn_shared_space *space, const char *key,
                                                     uint32_t parts_room, uint64_t until_ns,
                                                     cairn_shared_point *ret_point, cairn_error *reterr);

/*
 * When was the space forgotten last? After a damaged marker nothing is believed: UINT64_MAX.
 * Errors  CAIRN_NOTFOUND: never
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_forgotten(cairn_shared_reader *reader,
                                                     const cairn_shared_space *space, uint64_t until_ns,
                                                     uint64_t *ret_forgotten_s, cairn_error *reterr);

/* Remove a point that names what isn't there any more. Best effort. */
void cairn_shared_point_drop(cairn_shared_reader *reader, const char *key, uint64_t until_ns);

/*
 * Read the heads of some parts, in one round trip, and check each: its tag, its check, that it is what its name says, and
 * that it is of this space.
 *
 *   ret_heads  [out]  cairn_shared_head[count]; release them when CAIRN_OK came back
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_heads_get(cairn_shared_reader *reader,
                                                     const cairn_shared_space *space,
                                                     const cairn_shared_part *parts, uint32_t count,
                                                     uint64_t until_ns, cairn_shared_head *ret_heads,
                                                     cairn_error *reterr);
void cairn_shared_heads_release(cairn_shared *shared, cairn_shared_head *heads, uint32_t count);

/*
 * Read a blob's bytes, and check every one of them.
 *
 *   out  [out]  uint8_t[head->meta.payload_bytes]
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_load(cairn_shared_reader *reader, const cairn_shared_head *head,
                                                uint64_t until_ns, uint8_t *out, cairn_error *reterr);

/* --- writing -------------------------------------------------------------------------------------------------- */

/*
 * Write a blob: pieces, then its head. One whose head is there already is not written again unless `anew`.
 *
 *   meta  [in]  as for cairn_disk_put, with digests from the space's root; fingerprint, space, flags, nonce and
 *               created_s are filled in here
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_put(cairn_shared *shared, const cairn_shared_space *space,
                                               const cairn_blob_meta *meta,
                                               const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES],
                                               const cairn_blob_run *runs, const uint8_t *payload, bool anew,
                                               uint64_t until_ns, cairn_error *reterr);

/* Write a point, when all of its parts are there. created_s is filled in. */
CAIRN_MUST_CHECK cairn_status cairn_shared_point_put(cairn_shared *shared, const cairn_shared_space *space,
                                                     const cairn_shared_point *point, uint64_t until_ns,
                                                     cairn_error *reterr);

/* From now on nobody uses the points that a space has so far. Their bytes go when their time has come. */
CAIRN_MUST_CHECK cairn_status cairn_shared_forget(cairn_shared *shared, const cairn_shared_space *space,
                                                  uint64_t until_ns, cairn_error *reterr);

void cairn_shared_stats_get(cairn_shared *shared, cairn_shared_stats *ret_stats);

/* The part of a point that stands for a blob as cairn_shared_put writes it. */
void cairn_shared_part_of(const cairn_shared_space *space, const cairn_blob_meta *meta,
                          cairn_shared_part *ret_part);

#endif
