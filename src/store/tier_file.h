/*
 * tier_file - values in a directory that several servers see: NFS, CephFS, or one machine's disk.
 *
 *   file:///srv/cairn     "3f5a...c0/h"  -->  /srv/cairn/3f/3f5a...c0.h
 *
 * A value is written under a name of its own in tmp/ and renamed, so that it is whole or not there; nothing is synced: a
 * value that a crash has damaged fails its check. What is older than its time is removed by whoever writes, and of
 * the rest the oldest when there is too much of it.
 *
 * Owner    as kv.h
 * Thread   one for each cairn_kv
 * Errors   as kv.h, but that nothing is given up at until_ns once it has begun: who waits for a directory that hangs
 *          is the caller's thread, which nobody waits for
 */
#ifndef CAIRN_STORE_TIER_FILE_H
#define CAIRN_STORE_TIER_FILE_H

#include "base/io.h"
#include "store/kv.h"

typedef struct cairn_file_options {
    const char *dir;
    uint64_t bytes_max; /* of all values; 0: 20 GiB                                                        */
} cairn_file_options;

/* Does not look at the directory: the first put makes it. Errors: CAIRN_NOMEM, CAIRN_INVALID. */
CAIRN_MUST_CHECK cairn_status cairn_file_store_open(const cairn_mem *mem, cairn_io *io,
                                                    const cairn_file_options *options, cairn_kv **ret_kv,
                                                    cairn_error *reterr);

/* Remove what is too old or too much, now. Errors: CAIRN_IO. */
CAIRN_MUST_CHECK cairn_status cairn_file_store_sweep(cairn_kv *kv, uint32_t ttl_s, cairn_error *reterr);

#endif
