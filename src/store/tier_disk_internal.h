/*
 * tier_disk_internal - what tier_disk.c and disk_scan.c share. Nobody else includes it.
 */
#ifndef CAIRN_STORE_TIER_DISK_INTERNAL_H
#define CAIRN_STORE_TIER_DISK_INTERNAL_H

#include <pthread.h>

#include "store/disk_file.h"
#include "store/tier_disk.h"

enum { DISK_PATH_BYTES = 4096, DISK_FOLDERS = 256 };

struct cairn_disk {
    const cairn_mem *mem;
    cairn_io *io;
    const cairn_clock *clock;
    cairn_disk_index *index;
    char *dir;
    uint64_t bytes_max;
    uint64_t written_day_bytes;
    uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES];
    uint8_t key[CAIRN_DISK_KEY_BYTES];
    bool encrypted;
    bool read_only;
    int table; /* index.<table>.db is ours alone; -1: none. Names of our temporary files begin with it */
    pthread_mutex_t lock;    /* over what follows; never held while a blob file is read or written */
    uint64_t reserved_bytes; /* of files being written */
    char (*pins)[CAIRN_BLOB_NAME_BYTES];
    uint32_t count_pins;
    cairn_disk_stats stats;
};

/* DIR/folder, DIR/folder/name: false when too long. folder or name may be NULL. */
bool cairn_disk_path(const cairn_disk *disk, const char *folder, const char *name,
                     char ret_path[DISK_PATH_BYTES]);
/* DIR/ab/abcd....blob */
bool cairn_disk_blob_path(const cairn_disk *disk, const char *name, char ret_path[DISK_PATH_BYTES]);

/* Is `file` ("<64 hexadecimal digits>.blob") a blob's name? Writes the digits. */
bool cairn_disk_name_parse(const char *file, char ret_name[CAIRN_BLOB_NAME_BYTES]);

/* Move a damaged blob to bad/ and take it out of the index. Best effort: what can't be moved is only forgotten. */
void cairn_disk_set_aside(cairn_disk *disk, const char *name, cairn_status why);

/* Keep the folder of damaged files small: the oldest go. */
void cairn_disk_bad_trim(cairn_disk *disk);

/* Remove what a writer that is gone left in tmp/: of ours all, of others what is old. */
void cairn_disk_tmp_clean(cairn_disk *disk);

/* Order of eviction: lowest goes first. Halves a value for each day without use. */
double cairn_disk_rank(double value, uint64_t used_s);

/* Seconds since 1970, never negative. */
uint64_t cairn_disk_now_s(const cairn_disk *disk);

#endif
