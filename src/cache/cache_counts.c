/*
 * cache_counts - the core's learned counts on disk, beside the blobs: read when the cache is made, written once a minute by
 * the keeper's writer and when the cache is flushed. One small file, whole or not at all; a damaged one is set aside and the built-in prior is used.
 *
 *   DIR/counts       of the last server that was flushed
 *   DIR/bad/counts   set aside
 *
 * With a key nothing is written here: the counts say how clients use the server, and only blobs are encrypted.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "cache/cache_internal.h"

enum { BYTES_MAX = 1 << 18 };

#define COUNTS_EVERY_NS UINT64_C(60000000000)

void cairn_counts_open(cairn_cache *cache, const cairn_cache_disk *disk)
{
    if (disk->key != NULL || strlen(disk->dir) + sizeof "/counts" > sizeof cache->counts_path) {
        return;
    }
    (void)snprintf(cache->counts_path, sizeof cache->counts_path, "%s/counts", disk->dir);
    cache->counts_io = disk->io != NULL ? disk->io : cairn_io_posix();
}

void cairn_counts_read(cairn_cache *cache)
{
    if (cache->counts_io == NULL) {
        return;
    }
    cairn_buf buf;
    cairn_buf_init(&buf, cache->mem, BYTES_MAX);
    cairn_status status = cairn_io_read_file(cache->counts_io, cache->counts_path, &buf, NULL);
    if (status == CAIRN_OK) {
        status = cairn_core_counts_load(cache->core, buf.bytes, buf.len_bytes, NULL);
    }
    if (status == CAIRN_CORRUPT || status == CAIRN_FOREIGN || status == CAIRN_LIMIT) {
        char aside[sizeof cache->counts_path + sizeof "bad/"];
        size_t folder = strlen(cache->counts_path) - strlen("counts");
        (void)snprintf(aside, sizeof aside, "%.*sbad/counts", (int)folder, cache->counts_path);
        status = cairn_io_rename(cache->counts_io, cache->counts_path, aside, NULL);
    }
    (void)status; /* a file that can't be moved is overwritten at the next flush */
    cairn_buf_release(&buf);
}

/* The counts as bytes; the caller gives them back to the default table. False: no memory. */
static bool counts_bytes(const cairn_cache *cache, uint8_t **ret_bytes, size_t *ret_room)
{
    size_t room = cairn_core_counts_save(cache->core, NULL, 0);
    uint8_t *bytes = cairn_mem_alloc(cairn_mem_default(), room);
    if (bytes == NULL) {
        return false;
    }
    if (cairn_core_counts_save(cache->core, bytes, room) != room) {
        cairn_mem_release(cairn_mem_default(), bytes, room);
        return false;
    }
    *ret_bytes = bytes;
    *ret_room = room;
    return true;
}

void cairn_counts_keep(cairn_cache *cache)
{
    uint64_t now_ns = cairn_cache_now_ns(cache);
    uint8_t *bytes;
    size_t count;
    if (cache->counts_io == NULL || cache->keeper == NULL || now_ns < cache->counts_due_ns ||
        !counts_bytes(cache, &bytes, &count)) {
        return;
    }
    cache->counts_due_ns = now_ns + COUNTS_EVERY_NS;
    cairn_keeper_page_put(cache->keeper, cache->counts_io, cache->counts_path, bytes, count);
}

void cairn_counts_forgotten(cairn_cache *cache)
{
    cache->counts_due_ns = 0;
    cache->counts_requests =
        UINT64_MAX; /* at the latest with the next flush, whether or not something was learned */
    cairn_counts_keep(cache);
}

void cairn_counts_write(cairn_cache *cache)
{
    uint8_t *bytes;
    size_t count;
    if (cache->counts_io == NULL || cache->totals.requests == cache->counts_requests ||
        !counts_bytes(cache, &bytes, &count)) {
        return; /* nothing was learned since */
    }
    cairn_keeper_page_put(cache->keeper, NULL, NULL, NULL, 0); /* or an older one could come after it */
    if (cairn_io_write_file(cache->counts_io, cache->counts_path, bytes, count, NULL) == CAIRN_OK) {
        cache->counts_requests = cache->totals.requests;
    }
    cairn_mem_release(cairn_mem_default(), bytes, count);
}
