/*
 * cache_counts - the core's learned counts on disk, beside the blobs: read when the cache is made, written when it is
 * flushed. One small file, whole or not at all; a damaged one is set aside and the built-in prior is used.
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

void cairn_counts_write(cairn_cache *cache)
{
    if (cache->counts_io == NULL || cache->totals.requests == cache->counts_requests) {
        return; /* nothing was learned since */
    }
    size_t room = cairn_core_counts_save(cache->core, NULL, 0);
    uint8_t *bytes = cairn_mem_alloc(cache->mem, room);
    if (bytes == NULL) {
        return;
    }
    size_t len_bytes = cairn_core_counts_save(cache->core, bytes, room);
    if (len_bytes <= room &&
        cairn_io_write_file(cache->counts_io, cache->counts_path, bytes, len_bytes, NULL) == CAIRN_OK) {
        cache->counts_requests = cache->totals.requests;
    }
    cairn_mem_release(cache->mem, bytes, room);
}
