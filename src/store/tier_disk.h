/*
 * tier_disk - blobs in a directory: whole or absent, checked, bounded in bytes held and in bytes written a day.
 *
 *   DIR/                 0700
 *     ab/abcd....blob    one file each, named by what it is (docs/format/blob.md)
 *     tmp/               being written; older leftovers are removed at open
 *     bad/               set aside: damaged, truncated, of another format version
 *     index.N.db         a cache of all that, one for each process that uses DIR
 *     namespace.key      written again when it is gone while a server runs that knows it
 *
 * A file is found by the digests of a prompt's path: no token is stored. Several processes, also on several
 * hosts, may share DIR: files are written under a temporary name and renamed, equal blobs have equal names, and a
 * file that another process removed is a miss.
 *
 * Units    bytes; seconds since 1970; positions in tokens
 * Owner    the caller owns the tier; io is borrowed and outlives it
 * Thread   any: find, get, put, drop and scan may run side by side. put and scan take as long as the disk does
 * Errors   CAIRN_CORRUPT (set aside), CAIRN_FOREIGN, CAIRN_LOCKED, CAIRN_NOTFOUND: a miss. CAIRN_NOSPACE, CAIRN_IO: the disk can't
 *          take it now; the caller tries again later. CAIRN_LIMIT: today's bytes are used up
 */
#ifndef CAIRN_STORE_TIER_DISK_H
#define CAIRN_STORE_TIER_DISK_H

#include "base/clock.h"
#include "base/io.h"
#include "store/blob_format.h"
#include "store/disk_index.h"

typedef struct cairn_disk cairn_disk;

enum { CAIRN_DISK_KEY_BYTES = 32 };

typedef struct cairn_disk_options {
    const char *dir;
    uint64_t bytes_max;         /* of all blob files                                                 */
    uint64_t written_day_bytes; /* 0: no limit                                                       */
    uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES];
    const uint8_t *key; /* uint8_t[CAIRN_DISK_KEY_BYTES]: encrypt; NULL: don't. Copied       */
    const uint8_t
        *secret; /* uint8_t[CAIRN_DISK_KEY_BYTES] that dir/namespace.key is to hold; NULL: none. Copied */
    bool index_in_memory;     /* no SQLite file: scan everything at open                           */
    bool read_only;           /* find and get only: nothing in DIR is changed                      */
    const cairn_clock *clock; /* NULL: the system's                                             */
} cairn_disk_options;

/* One blob on the path of a prompt. */
typedef struct cairn_disk_found {
    cairn_disk_row row;
    uint32_t use_end; /* rows: they serve [row.meta.begin, use_end) of the prompt. State: row.meta.end */
} cairn_disk_found;

typedef struct cairn_disk_stats {
    uint64_t blobs, states, file_bytes, bytes_max;
    uint64_t written_today_bytes, written_day_bytes;
    uint64_t puts, gets, hits_failed, evicted, set_aside;
    uint64_t lookups; /* of prompts in the index */
} cairn_disk_stats;

/*
 * Open a directory, making it if it is not there. Does not scan it (cairn_disk_scan does). One that can't be written or
 * made now (read-only, full, not mounted yet) is opened all the same, see cairn_disk_trouble: what it holds is read, and
 * puts fail until they don't.
 * Errors  CAIRN_IO (it is no directory), CAIRN_NOMEM; the caller goes on without a disk tier
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_open(const cairn_mem *mem, cairn_io *io,
                                              const cairn_disk_options *options, cairn_disk **ret_disk,
                                              cairn_error *reterr);
/* Why the directory could not be made ready for writing when it was opened; CAIRN_OK: it could. */
cairn_status cairn_disk_trouble(const cairn_disk *disk, cairn_error *reterr);

/* NULL is allowed. Nothing else may be running. */
void cairn_disk_close(cairn_disk *disk);

/*
 * The blobs on a prompt's path, in no order.
 *
 *   ret_found [out]  cairn_disk_found[max]
 *
 * Cost    one index look-up for each 256 tokens; a file's header is read only for rows that the prompt leaves
 *         in the middle
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_find(cairn_disk *disk, const cairn_namespace *space,
                                              const cairn_token *tokens, uint32_t count,
                                              cairn_disk_found *ret_found, uint32_t max, uint32_t *ret_count,
                                              cairn_error *reterr);

/*
 * Read a blob and check every byte of it.
 *
 *   meta  [in]   as found; the file must say the same
 *   out   [out]  uint8_t[meta->payload_bytes]
 *   ret_digest [out]  cairn_tier_ram_digest of it; may be NULL
 *
 * After   anything but CAIRN_OK: out is undefined and the blob is not offered again: a damaged file is set aside, one that
 *         can't be read now is found again by the next scan that can
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_get(cairn_disk *disk, const char *name, const cairn_blob_meta *meta,
                                             uint8_t *out, uint64_t *ret_digest, cairn_error *reterr);

/*
 * Write a blob, durably. One that is there already costs a look-up.
 *
 *   meta    [in]  space is the namespace itself, and the digests are made from its root (cairn_disk_root);
 *                 fingerprint, flags, nonce, created_s and the shown name of the space are filled in here
 *   marks   [in]  rows: uint8_t[end - begin - 1][8]; state: NULL
 *   runs    [in]  rows: cairn_blob_run[meta->count_runs]; state: NULL
 *   payload [in]  uint8_t[meta->payload_bytes]
 *   value   [in]  milliseconds saved per byte, for eviction
 *
 * After   CAIRN_OK: ret_name names it, and it survives a loss of power
 * Errors  CAIRN_NOSPACE (bytes_max, or the disk), CAIRN_LIMIT (today's bytes), CAIRN_IO, CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_put(cairn_disk *disk, const cairn_blob_meta *meta,
                                             const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES],
                                             const cairn_blob_run *runs, const uint8_t *payload, double value,
                                             char ret_name[CAIRN_BLOB_NAME_BYTES], cairn_error *reterr);

/* Was a put refused only because what is there is worth more, or the blob is larger than the budget? No trouble. */
bool cairn_disk_declined(const cairn_error *error);

/*
 * Was the directory written with the same key? One file is tried.
 * Errors  CAIRN_LOCKED: another key, or encrypted and there is none, or not encrypted
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_key_check(cairn_disk *disk, cairn_error *reterr);

/* What a blob like this one is called here; meta is as for put. Touches nothing. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_disk_name(cairn_disk *disk, const cairn_blob_meta *meta,
                                              char ret_name[CAIRN_BLOB_NAME_BYTES], cairn_error *reterr);

/* Is a blob like this one here? meta is as for put. One look-up in the index. */
bool cairn_disk_has(cairn_disk *disk, const cairn_blob_meta *meta, char ret_name[CAIRN_BLOB_NAME_BYTES]);

/*
 * Which batches made a file's rows.
 *
 *   ret_runs [out]  cairn_blob_run[meta->count_runs]
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_runs(cairn_disk *disk, const char *name, const cairn_blob_meta *meta,
                                              cairn_blob_run *ret_runs, cairn_error *reterr);

/* Remove a blob; one that is not there is fine. */
CAIRN_MUST_CHECK cairn_status cairn_disk_drop(cairn_disk *disk, const char *name, cairn_error *reterr);

/* Pinned blobs are not evicted. At most CAIRN_DISK_PINS_MAX at a time; more are not protected. */
enum { CAIRN_DISK_PINS_MAX = 4096 };
void cairn_disk_pin(cairn_disk *disk, const char *name);
void cairn_disk_unpin(cairn_disk *disk, const char *name);

/* Note a use, with its present value. */
void cairn_disk_use(cairn_disk *disk, const char *name, double value);

/*
 * Make the index agree with the directory: folders whose modification time is another than when they were scanned are
 * listed. Cheap when nothing changed (one stat for each of 256 folders).
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_scan(cairn_disk *disk, bool all, cairn_error *reterr);

/* What path digests of a namespace begin with here. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_disk_root(cairn_disk *disk, const cairn_namespace *space,
                                              cairn_path_root *ret_root, cairn_error *reterr);

/* Remove what files show as this namespace; NULL: everything. */
CAIRN_MUST_CHECK cairn_status cairn_disk_forget_shown(cairn_disk *disk, const cairn_namespace *shown,
                                                      cairn_error *reterr);

/* Remove what a namespace has here; NULL: what all have. */
CAIRN_MUST_CHECK cairn_status cairn_disk_forget(cairn_disk *disk, const cairn_namespace *space,
                                                cairn_error *reterr);

/* Each blob by name, for `cairn store`. */
CAIRN_MUST_CHECK cairn_status cairn_disk_each(cairn_disk *disk, cairn_disk_row_fn each, void *ctx,
                                              cairn_error *reterr);

/*
 * disk_look.c: each blob of a namespace and this model, in no order. Thread: any; touches no file.
 * Cost    O(blobs of all), under the index's lock
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_each_of(cairn_disk *disk, const cairn_namespace *space,
                                                 cairn_disk_row_fn each, void *ctx, cairn_error *reterr);

/* Read one file and check every byte; changes nothing. Errors as get. */
CAIRN_MUST_CHECK cairn_status cairn_disk_verify(cairn_disk *disk, const char *name, cairn_error *reterr);

/* From memory: never waits for the disk. */
void cairn_disk_stats_get(cairn_disk *disk, cairn_disk_stats *ret_stats);

#endif
