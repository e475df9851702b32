/*
 * keeper - keeps on disk what the slots hold, and brings it back for a prompt that wants it.
 *
 *   out   a slot's path in blocks of rows, then its states --> writer thread --> tier_disk
 *         (a block at a time: in idle moments, and at a bounded pace beside requests; a block that is on disk already
 *         is a look-up)
 *   in    a prompt comes --> blobs on its path --> ADOPT --> FETCH, read by several threads --> the core plans with them
 *
 * The rows of a path are kept in blocks that begin at multiples of BLOCK tokens, so that the same path gives the same
 * files whichever way it was read; the last block is as long as the path. When the path has grown, a longer last
 * block takes its place.
 *
 * Units    tokens, bytes, ns
 * Owner    belongs to its cache; the disk tier is the keeper's
 * Thread   the engine's thread calls; one thread of the keeper's own writes files, a few read them
 * Errors   none reaches a request: what can't be written or read is a miss. The last is told by keeper_stats
 * See      store/tier_disk.h, docs/format/blob.md
 */
#ifndef CAIRN_CACHE_KEEPER_H
#define CAIRN_CACHE_KEEPER_H

#include "cairn/cairn.h"
#include "core/core.h"
#include "store/read_pool.h"
#include "store/tier_disk.h"

enum { CAIRN_KEEPER_BLOCK_TOKENS = 512, CAIRN_KEEPER_FOUND_MAX = 2048 };

typedef struct cairn_keeper cairn_keeper;

/* Blobs that were found for one request and are to be fetched before it is planned. */
typedef struct cairn_fetch {
    cairn_disk_found *found; /* cairn_disk_found[count] */
    cairn_blob_id *blobs;    /* cairn_blob_id[count]: what the core calls them; 0: not wanted */
    cairn_read *reads;       /* cairn_read[count]: on their way into memory                    */
    uint32_t count, room;
    uint32_t next;    /* the first that the core was not told of                            */
    uint32_t started; /* those before it were begun, or are not wanted                      */
} cairn_fetch;

/*
 * Open the directory and start the writer.
 *
 *   cache  [in]  borrowed; its core, tier and engine are there already
 *
 * Errors   as cairn_disk_open: the cache goes on without a disk
 */
CAIRN_MUST_CHECK cairn_status cairn_keeper_new(cairn_cache *cache, const cairn_cache_disk *options,
                                               cairn_keeper **ret_keeper, cairn_error *reterr);
/* Stop the writer: what it has in hand is finished, what waits is not. NULL is allowed. */
void cairn_keeper_free(cairn_keeper *keeper);

/* What one job needs beyond the cap's blobs: room for a state or a block of rows, twice. */
uint64_t cairn_keeper_buffer_bytes(cairn_engine *engine);

/* The slot's path may have grown: look at it in idle moments. */
void cairn_keeper_note(cairn_keeper *keeper, uint32_t slot);

/* What reading cost: values and the choice to fetch at all are by it. */
void cairn_keeper_saw_read(cairn_keeper *keeper, uint32_t tokens, uint64_t cost_ns);

/*
 * Do one bounded piece of work: hand one block or state to the writer.
 * Gives    true: there is more to do now; false: all is kept, or the writer has its hands full
 */
bool cairn_keeper_work(cairn_keeper *keeper);

/*
 * The same between two decodes of a server that has no idle moment, one piece at most. All that is done here is copying
 * out of the engine and pointers: no file, no index, no digest of a blob. It is done so seldom that it takes at most a tenth
 * of the time that passes, a fiftieth where an answer is being written.
 */
void cairn_keeper_behind(cairn_keeper *keeper);

/* Is there a slot whose path was not looked at to its end? Is the writer busy? */
bool cairn_keeper_noted(const cairn_keeper *keeper);
bool cairn_keeper_writing(cairn_keeper *keeper);

/* Wait until the writer has finished something, at most until then (ns of the system's clock). */
void cairn_keeper_wait(cairn_keeper *keeper, uint64_t until_ns);

/*
 * What does the disk hold for this prompt beyond `resume`? Tells the core; the request's fetch is then to be carried
 * out step by step.
 *
 * After    ret_fetch->count 0: nothing worth fetching, or no room
 */
void cairn_keeper_seek(cairn_keeper *keeper, const cairn_prompt *prompt, uint32_t resume,
                       cairn_fetch *ret_fetch);

/*
 * Take the next blob that has come, and see that more are on their way.
 *
 *   wait       [in]      nobody else has anything to do: help reading it, or wait for it
 *   ret_bytes  [in,out]  bytes that came are added
 *
 * Gives    true while there is more
 */
bool cairn_keeper_fetch(cairn_keeper *keeper, cairn_fetch *fetch, bool wait, uint64_t *ret_bytes);

/* Give up what was not fetched, and release the lists. */
void cairn_keeper_fetch_end(cairn_keeper *keeper, cairn_fetch *fetch);

/* Does the directory hold files of another key? Then that is why a prompt found nothing there. */
bool cairn_keeper_locked(cairn_keeper *keeper);

/* The directory. Borrowed; has locks of its own. */
cairn_disk *cairn_keeper_disk(const cairn_keeper *keeper);

/* As cairn_cache_disk_writes. Thread: any. */
uint32_t cairn_keeper_writes(cairn_keeper *keeper, const cairn_namespace *space, uint64_t since_ns,
                             cairn_span *out, uint32_t room);

/*
 * Have the writer put a small file in the place of what `path` names, whole or not at all. One that still waits is replaced
 * by it; NULL: only that, and one that is being written is waited for.
 *
 *   io, path  [in]  outlive the keeper
 *   bytes     [in]  uint8_t[count] of the default memory table; the keeper's from now on
 */
void cairn_keeper_page_put(cairn_keeper *keeper, cairn_io *io, const char *path, uint8_t *bytes,
                           size_t count);

/* Forget a namespace on disk, too. NULL: all of them. */
void cairn_keeper_forget(cairn_keeper *keeper, const cairn_namespace *space);

/* Bytes, counts, and the last thing that went wrong. */
void cairn_keeper_stats_get(cairn_keeper *keeper, cairn_cache_disk_stats *ret_stats);

#endif
