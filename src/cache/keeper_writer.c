/*
 * keeper_writer - the jobs between the engine's thread and the writer's, and the writer.
 *
 *   engine's thread   FREE --fill--> READY                          DONE, FAILED --settle--> FREE
 *   writer                           READY --> WRITING --file--> DONE, FAILED
 *
 * The writer alone computes digests, marks and checks and waits for the disk.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "cache/keeper_internal.h"

#define SECOND_NS UINT64_C(1000000000)

enum { PAUSE_S = 10, PAUSE_DAY_S = 600 };

/* --- the writer ------------------------------------------------------------------------------------------- */

static cairn_status job_digests(cairn_keeper *keeper, keeper_job *job, cairn_error *reterr)
{
    cairn_blob_meta *meta = &job->meta;
    cairn_path_root root;
    uint32_t at[3] = {cairn_blob_base(meta->kind, meta->begin, meta->end), meta->begin, meta->end};
    cairn_path_digest digests[3];
    cairn_status status = cairn_disk_root(keeper->disk, &meta->space, &root, reterr);
    if (status == CAIRN_OK) {
        status = cairn_path_digests(&root, job->tokens, meta->end, at, 3, digests, reterr);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    meta->path_base = digests[0];
    meta->path_begin = digests[1];
    meta->path_end = digests[2];
    if (meta->kind == CAIRN_BLOB_ROWS) {
        status = cairn_path_marks(&root, job->tokens, meta->begin, meta->end, job->marks, reterr);
    }
    return status;
}

/* Do blobs on disk cover the job's rows already? */
static bool rows_covered(cairn_keeper *keeper, const keeper_job *job)
{
    uint32_t count = 0, at = job->meta.begin;
    if (cairn_disk_find(keeper->disk, &job->meta.space, job->tokens, job->meta.end, keeper->covered,
                        KEEPER_COVERED_MAX, &count, NULL) != CAIRN_OK) {
        return false;
    }
    for (uint32_t before = at + 1; at != before && at < job->meta.end;) {
        before = at;
        for (uint32_t i = 0; i < count; i++) {
            const cairn_disk_found *item = &keeper->covered[i];
            if (item->row.meta.kind == CAIRN_BLOB_ROWS && item->row.meta.begin <= at && item->use_end > at) {
                at = item->use_end;
            }
        }
    }
    return at >= job->meta.end;
}

/* Is there nothing to write? Rows are there in other pieces, or the blob was damaged in memory. */
static bool job_void(cairn_keeper *keeper, const keeper_job *job)
{
    return (job->covered && rows_covered(keeper, job)) ||
           (job->blob != 0 && cairn_tier_ram_digest(job->bytes, job->meta.payload_bytes) != job->digest);
}

static cairn_status job_put(cairn_keeper *keeper, keeper_job *job, char ret_name[CAIRN_BLOB_NAME_BYTES],
                            cairn_error *reterr)
{
    bool rows = job->meta.kind == CAIRN_BLOB_ROWS;
    cairn_status status = job_digests(keeper, job, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    status = cairn_disk_put(keeper->disk, &job->meta,
                            rows ? (const uint8_t(*)[CAIRN_BLOB_MARK_BYTES])job->marks : NULL,
                            rows ? job->runs : NULL, job->bytes, job->value, ret_name, reterr);
    if (status == CAIRN_OK && job->replaces[0] != '\0' && strcmp(job->replaces, ret_name) != 0) {
        (void)!cairn_disk_drop(keeper->disk, job->replaces, NULL);
    }
    return status;
}

/* The lock is held. */
static void note_write(cairn_keeper *keeper, const cairn_blob_meta *meta, uint64_t begin_ns)
{
    keeper->writes[keeper->written++ % KEEPER_WRITES] =
        (keeper_write){.space = meta->space,
                       .span = {.kind = CAIRN_SPAN_BEHIND,
                                .count = 1,
                                .begin = meta->kind == CAIRN_BLOB_ROWS ? meta->begin : 0,
                                .end = meta->kind == CAIRN_BLOB_ROWS ? meta->end : 0,
                                .bytes = meta->payload_bytes,
                                .begin_ns = begin_ns,
                                .end_ns = cairn_clock_now_ns(cairn_clock_system())}};
}

uint32_t cairn_keeper_writes(cairn_keeper *keeper, const cairn_namespace *space, uint64_t since_ns,
                             cairn_span *out, uint32_t room)
{
    uint32_t count = 0;
    cairn_lock(&keeper->lock);
    uint64_t first = keeper->written > KEEPER_WRITES ? keeper->written - KEEPER_WRITES : 0;
    for (uint64_t i = first; i < keeper->written && count < room; i++) {
        const keeper_write *write = &keeper->writes[i % KEEPER_WRITES];
        if (write->span.begin_ns >= since_ns && memcmp(&write->space, space, sizeof *space) == 0) {
            out[count++] = write->span;
        }
    }
    cairn_unlock(&keeper->lock);
    return count;
}

static void job_write(cairn_keeper *keeper, keeper_job *job)
{
    cairn_error error = {0};
    char name[CAIRN_BLOB_NAME_BYTES] = "";
    bool nothing = job_void(keeper, job), again = false;
    uint64_t begin_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_status status = nothing ? CAIRN_OK : job_put(keeper, job, name, &error);
    cairn_lock(&keeper->lock);
    if (name[0] != '\0') { /* the engine's thread compares names, under the lock */
        memcpy(job->name, name, sizeof job->name);
    }
    if (status == CAIRN_OK) {
        keeper->kept += nothing ? 0 : 1;
        note_write(keeper, &job->meta, begin_ns);
    } else if (!cairn_disk_declined(&error)) {
        keeper->failures++;
        keeper->last_error = error;
        keeper->pause_ns = (status == CAIRN_LIMIT ? PAUSE_DAY_S : PAUSE_S) * SECOND_NS;
        again = true;
    }
    job->phase = again ? JOB_FAILED : JOB_DONE;
    cairn_cond_broadcast(&keeper->done);
    cairn_unlock(&keeper->lock);
}

static keeper_job *job_in(cairn_keeper *keeper, job_phase phase)
{
    keeper_job *first = NULL;
    for (int i = 0; i < KEEPER_JOBS; i++) {
        keeper_job *job = &keeper->jobs[i];
        if (job->phase == phase && (first == NULL || job->order < first->order)) {
            first = job;
        }
    }
    return first;
}

/* Now and then the directory is looked at, however busy it is: what another server wrote there is found, too. The lock is
   held, but not while looking. */
static void rescan(cairn_keeper *keeper)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    if (now_ns - keeper->scanned_ns < KEEPER_RESCAN_S * SECOND_NS) {
        return;
    }
    cairn_disk_stats before, after;
    bool all = keeper->listed_ns == 0 || now_ns - keeper->listed_ns >= KEEPER_LIST_S * SECOND_NS;
    keeper->listed_ns = all ? now_ns : keeper->listed_ns;
    cairn_unlock(&keeper->lock);
    cairn_disk_stats_get(keeper->disk, &before);
    (void)!cairn_disk_scan(keeper->disk, all, NULL);
    cairn_disk_stats_get(keeper->disk, &after);
    cairn_lock(&keeper->lock);
    keeper->lost = keeper->lost || after.blobs < before.blobs;
    keeper->scanned_ns = cairn_clock_now_ns(cairn_clock_system());
}

/* Write the page that waits. The lock is held, but not while writing. */
static void page_write(cairn_keeper *keeper)
{
    uint8_t *bytes = keeper->page;
    size_t count = keeper->page_bytes;
    keeper->page = NULL;
    keeper->page_writing = true;
    cairn_unlock(&keeper->lock);
    (void)!cairn_io_write_file(keeper->page_io, keeper->page_path, bytes, count,
                               NULL); /* the next one tries again */
    cairn_mem_release(cairn_mem_default(), bytes, count);
    cairn_lock(&keeper->lock);
    keeper->page_writing = false;
    cairn_cond_broadcast(&keeper->done);
}

void cairn_keeper_page_put(cairn_keeper *keeper, cairn_io *io, const char *path, uint8_t *bytes, size_t count)
{
    cairn_lock(&keeper->lock);
    while (bytes == NULL && keeper->page_writing) {
        cairn_cond_wait(&keeper->done, &keeper->lock);
    }
    cairn_mem_release(cairn_mem_default(), keeper->page, keeper->page_bytes);
    keeper->page = bytes;
    keeper->page_bytes = count;
    if (bytes != NULL && !keeper->page_writing) { /* it is one file: nothing changes while it is written */
        keeper->page_io = io;
        keeper->page_path = path;
    }
    cairn_cond_signal(&keeper->wake);
    cairn_unlock(&keeper->lock);
}

/* Wait for a job, or for the time to look at the directory. The lock is held. */
static void rest(cairn_keeper *keeper)
{
    (void)cairn_cond_wait_for(&keeper->wake, &keeper->lock, KEEPER_RESCAN_S * SECOND_NS);
}

/* Files of another key, or none, are not found by any prompt; the operator is told once, after the first look, and each
   request that finds nothing. */
static void key_check(cairn_keeper *keeper)
{
    cairn_error error = {0};
    if (cairn_disk_key_check(keeper->disk, &error) == CAIRN_LOCKED) {
        cairn_lock(&keeper->lock);
        keeper->locked = true;
        keeper->failures++;
        keeper->last_error = error;
        cairn_unlock(&keeper->lock);
    }
}

void *cairn_keeper_writer(void *ctx)
{
    cairn_keeper *keeper = ctx;
    if (!keeper->scanned) { /* set before this thread began */
        (void)!cairn_disk_scan(keeper->disk, false, NULL);
    }
    key_check(keeper);
    cairn_lock(&keeper->lock);
    keeper->scanned_ns = cairn_clock_now_ns(cairn_clock_system());
    while (!keeper->stop) {
        rescan(keeper);
        if (keeper->stop) {
            break;
        }
        if (keeper->page != NULL) {
            page_write(keeper);
            continue;
        }
        keeper_job *job = job_in(keeper, JOB_READY);
        if (job == NULL) {
            rest(keeper);
            continue;
        }
        job->phase = JOB_WRITING;
        cairn_unlock(&keeper->lock);
        job_write(keeper, job);
        cairn_lock(&keeper->lock);
    }
    cairn_unlock(&keeper->lock);
    return NULL;
}

/* --- the engine's side ------------------------------------------------------------------------------------------------- */

void cairn_keeper_job_free(cairn_keeper *keeper, keeper_job *job)
{
    if (job->blob != 0) {
        cairn_tier_ram_unpin(keeper->cache->ram, job->blob);
        job->blob = 0;
    }
    job->phase = JOB_FREE;
}

/* A file that was replaced is not there any more. An empty name is none. */
static void unknow(cairn_keeper *keeper, const char *name)
{
    if (name[0] == '\0') {
        return;
    }
    uint64_t head = cairn_blob_name_number(name);
    if (keeper->known[head % KEEPER_KNOWN] == head) {
        keeper->known[head % KEEPER_KNOWN] = 0;
    }
}

/* What failed is looked at again, after a rest. The lock is held. */
static void job_again(cairn_keeper *keeper, const keeper_job *job)
{
    if (job->slot == KEEPER_NO_SLOT) {
        cairn_core_stored_kept(keeper->cache->core, job->item, job->blob, false);
        keeper->sweeping = true;
        keeper->sweep = 0;
    } else {
        keeper->slots[job->slot].tail_end = 0; /* it may not be there to be replaced */
        cairn_keeper_note(keeper, job->slot);
    }
}

void cairn_keeper_settle(cairn_keeper *keeper)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_lock(&keeper->lock);
    for (int i = 0; i < KEEPER_JOBS; i++) {
        keeper_job *job = &keeper->jobs[i];
        if (job->phase == JOB_FAILED) {
            job_again(keeper, job);
        } else if (job->phase == JOB_DONE && job->name[0] != '\0') {
            cairn_keeper_know(keeper, job->name);
            unknow(keeper, job->replaces);
        }
        if (job->phase == JOB_FAILED || job->phase == JOB_DONE) {
            cairn_keeper_job_free(keeper, job);
        }
    }
    bool lost = keeper->lost;
    keeper->lost = false;
    if (keeper->pause_ns != 0) {
        keeper->retry_ns = now_ns + keeper->pause_ns;
        keeper->pause_ns = 0;
    }
    cairn_unlock(&keeper->lock);
    if (lost) {
        cairn_keeper_look_again(keeper);
    }
}

keeper_job *cairn_keeper_job_take(cairn_keeper *keeper)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_lock(&keeper->lock);
    keeper_job *job = now_ns >= keeper->retry_ns ? job_in(keeper, JOB_FREE) : NULL;
    cairn_unlock(&keeper->lock);
    return job;
}

void cairn_keeper_start(cairn_keeper *keeper, keeper_job *job)
{
    memcpy(job->tokens, keeper->tokens, (size_t)job->meta.end * sizeof *job->tokens);
    cairn_lock(&keeper->lock);
    job->order = keeper->started++;
    job->phase = JOB_READY;
    cairn_cond_signal(&keeper->wake);
    cairn_unlock(&keeper->lock);
}

void cairn_keeper_know(cairn_keeper *keeper, const char *name)
{
    uint64_t head = cairn_blob_name_number(name);
    keeper->known[head % KEEPER_KNOWN] = head;
}

bool cairn_keeper_has(cairn_keeper *keeper, const cairn_blob_meta *meta, char ret_name[CAIRN_BLOB_NAME_BYTES])
{
    bool kept = false;
    if (!keeper->behind) {
        kept = cairn_disk_has(keeper->disk, meta, ret_name);
    } else if (cairn_disk_name(keeper->disk, meta, ret_name, NULL) == CAIRN_OK) {
        uint64_t head = cairn_blob_name_number(ret_name);
        kept = keeper->known[head % KEEPER_KNOWN] == head;
    }
    if (kept) {
        cairn_keeper_know(keeper, ret_name);
    }
    cairn_lock(&keeper->lock);
    for (int i = 0; i < KEEPER_JOBS && !kept; i++) {
        const keeper_job *job = &keeper->jobs[i];
        kept = (job->phase == JOB_READY || job->phase == JOB_WRITING) && strcmp(job->name, ret_name) == 0;
    }
    cairn_unlock(&keeper->lock);
    return kept;
}

/* The writer has something to do. The lock is held. */
static bool writer_busy(cairn_keeper *keeper)
{
    return job_in(keeper, JOB_READY) != NULL || job_in(keeper, JOB_WRITING) != NULL;
}

bool cairn_keeper_jobs_idle(cairn_keeper *keeper)
{
    return !writer_busy(keeper) && job_in(keeper, JOB_DONE) == NULL && job_in(keeper, JOB_FAILED) == NULL;
}

bool cairn_keeper_writing(cairn_keeper *keeper)
{
    cairn_lock(&keeper->lock);
    bool writing = !cairn_keeper_jobs_idle(keeper);
    cairn_unlock(&keeper->lock);
    return writing;
}

void cairn_keeper_wait(cairn_keeper *keeper, uint64_t until_ns)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    if (now_ns >= until_ns) {
        return;
    }
    cairn_lock(&keeper->lock);
    if (writer_busy(keeper)) {
        (void)cairn_cond_wait_for(&keeper->done, &keeper->lock, until_ns - now_ns);
    }
    cairn_unlock(&keeper->lock);
}
