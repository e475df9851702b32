/*
 * tier_disk_internal - what tier_disk.c and the disk_*.c beside it share. Nobody else includes it.
 */
#ifndef CAIRN_STORE_TIER_DISK_INTERNAL_H
#define CAIRN_STORE_TIER_DISK_INTERNAL_H

#include <pthread.h>

#include "store/disk_file.h"
#include "store/tier_disk.h"

enum { DISK_PATH_BYTES = 4096, DISK_FOLDERS = 256, DISK_DAY_S = 86400 };

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
    uint8_t secret[CAIRN_DISK_KEY_BYTES];
    bool has_secret;
    cairn_error trouble; /* of opening */
    bool encrypted;
    bool read_only;
    int table; /* index.<table>.db is ours alone; -1: none. Names of our temporary files begin with it */
    pthread_mutex_t lock;    /* over what follows; never held while a blob file is read or written */
    uint64_t reserved_bytes; /* of files being written */
    char (*pins)[CAIRN_BLOB_NAME_BYTES];
    uint32_t count_pins;
    uint64_t day, day_bytes; /* written on that day (since 1970)                                          */
    cairn_disk_stats stats;
};

/* DIR/folder, DIR/folder/name: false when too long. folder or name may be NULL. */
bool cairn_disk_path(const cairn_disk *disk, const char *folder, const char *name,
                     char ret_path[DISK_PATH_BYTES]);
/* DIR/ab/abcd....blob */
bool cairn_disk_blob_path(const cairn_disk *disk, const char *name, char ret_path[DISK_PATH_BYTES]);

/* Move a damaged blob to bad/ and take it out of the index. Best effort: what can't be moved is only forgotten. */
void cairn_disk_set_aside(cairn_disk *disk, const char *name, cairn_status why);

/* Keep the folder of damaged files small: the oldest go. */
void cairn_disk_bad_trim(cairn_disk *disk);

/* Remove what a writer that is gone left in tmp/: of ours all, of others what is old. */
void cairn_disk_tmp_clean(cairn_disk *disk);

/* A namespace as files show it, and the root of its path digests. */
typedef struct cairn_disk_faces {
    cairn_namespace shown;
    cairn_path_root root;
} cairn_disk_faces;

/* disk_find.c. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_disk_faces_get(const cairn_disk *disk, const cairn_namespace *space,
                                                   cairn_disk_faces *ret_faces, cairn_error *reterr);

/* disk_find.c: the index has no checks of its own. Can a file be what this row says? */
bool cairn_disk_row_sound(const cairn_disk_row *row);

/*
 * disk_room.c: reserve room for a file under the cap, removing what is ranked lower than it. Give it back with
 * cairn_disk_room_release when the file is in the index, or won't be.
 * Errors  CAIRN_NOSPACE: what is there is worth more, or the file is larger than the cap; CAIRN_IO
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_room_make(cairn_disk *disk, uint64_t file_bytes, double rank,
                                                   cairn_error *reterr);
void cairn_disk_room_release(cairn_disk *disk, uint64_t bytes);

/*
 * disk_room.c: remove the least valuable until what is there fits: after a look that found more than was known (removed
 * files that a loss of power brought back, another server's), or with a smaller budget.
 */
void cairn_disk_room_trim(cairn_disk *disk);

/* disk_room.c: may so many more bytes be written today (else CAIRN_LIMIT)? So many were. How many were, from memory? */
CAIRN_MUST_CHECK cairn_status cairn_disk_day_allows(cairn_disk *disk, uint64_t now_s, uint64_t file_bytes,
                                                    cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_disk_day_add(cairn_disk *disk, uint64_t now_s, uint64_t bytes,
                                                 cairn_error *reterr);
uint64_t cairn_disk_day_bytes(cairn_disk *disk);

/* disk_open.c: make one folder whose parent is there, and its name durable. One that is there already costs one call. */
CAIRN_MUST_CHECK cairn_status cairn_disk_folder_make(cairn_disk *disk, const char *folder,
                                                     cairn_error *reterr);
/* disk_open.c: make DIR and the folders that it always has. */
CAIRN_MUST_CHECK cairn_status cairn_disk_folders_make(cairn_disk *disk, cairn_error *reterr);

/* disk_open.c: write namespace.key again when it is gone and DIR is there. */
void cairn_disk_secret_keep(cairn_disk *disk);

/* Add to one of disk->stats. */
void cairn_disk_count(cairn_disk *disk, uint64_t *counter, uint64_t by);

/* Order of eviction: lowest goes first. Halves a value for each day without use. */
double cairn_disk_rank(double value, uint64_t used_s);

/* Seconds since 1970, never negative. */
uint64_t cairn_disk_now_s(const cairn_disk *disk);

#endif
