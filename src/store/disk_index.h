/*
 * disk_index - which blob files a directory holds, so that no request has to look at the directory.
 *
 * A SQLite table that is only a cache: every row can be made again from its file's header, and deleting the table
 * loses nothing but the order of use. A row without a file is found when the file is opened; a file without a row
 * when its folder is scanned.
 *
 *   blobs    name | space, fingerprint, base | kind, begin, end, ... | file bytes | used_s, value
 *   folders  name | modified_ms when it was last scanned and quiet
 *
 * Units    bytes; seconds since 1970
 * Owner    one per directory and process; each process has a table of its own, so that a directory may be shared
 *          by servers on several hosts without sharing a SQLite file
 * Thread   any; one lock inside
 * Errors   a damaged table is set aside and started anew (ret_renewed says so), never an error to requests
 */
#ifndef CAIRN_STORE_DISK_INDEX_H
#define CAIRN_STORE_DISK_INDEX_H

#include "cairn/mem.h"
#include "store/blob_format.h"

typedef struct cairn_disk_index cairn_disk_index;

typedef struct cairn_disk_row {
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_blob_meta meta; /* without nonce and flags beyond what the table keeps */
    uint64_t file_bytes;
    uint64_t used_s;
    double value; /* milliseconds saved per byte when it was written or used last */
} cairn_disk_row;

/* Called for each row found. Return false to stop. */
typedef bool (*cairn_disk_row_fn)(void *ctx, const cairn_disk_row *row);

/*
 * Open a table.
 *
 *   path         [in]   of the SQLite file; NULL: in memory
 *   ret_renewed  [out]  the table was new, damaged or of another version: scan everything
 *
 * Errors  CAIRN_NOMEM; CAIRN_BUSY: another process has this table; CAIRN_IO
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_open(const cairn_mem *mem, const char *path,
                                                    cairn_disk_index **ret_index, bool *ret_renewed,
                                                    cairn_error *reterr);
/* NULL is allowed. */
void cairn_disk_index_close(cairn_disk_index *index);

/* Insert or replace a row. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_put(cairn_disk_index *index, const cairn_disk_row *row,
                                                   cairn_error *reterr);
/* Remove a row; one that is not there is fine. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_drop(cairn_disk_index *index, const char *name,
                                                    cairn_error *reterr);
/* Is the name known? */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_has(cairn_disk_index *index, const char *name, bool *ret_has,
                                                   cairn_error *reterr);
/* Note a use. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_use(cairn_disk_index *index, const char *name, uint64_t used_s,
                                                   double value, cairn_error *reterr);

/* The clock went back: uses later than now_s become uses of now. Gives how many there were. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_clock(cairn_disk_index *index, uint64_t now_s,
                                                     uint64_t *ret_changed, cairn_error *reterr);

/* All rows of a namespace and fingerprint whose path_base is `base`. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_find(cairn_disk_index *index, const cairn_namespace *space,
                                                    const uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES],
                                                    const cairn_path_digest *base, cairn_disk_row_fn each,
                                                    void *ctx, cairn_error *reterr);
/* All rows: least valuable first (value, then oldest use), or by name when by_name. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_each(cairn_disk_index *index, bool by_name,
                                                    cairn_disk_row_fn each, void *ctx, cairn_error *reterr);

typedef struct cairn_disk_total {
    uint64_t blobs, states, file_bytes;
} cairn_disk_total;
/* Sums, kept up to date: O(1), and never waits for the disk. */
void cairn_disk_index_total(cairn_disk_index *index, cairn_disk_total *ret_total);

/* When a folder was last scanned: its modification time then, or -1. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_folder(cairn_disk_index *index, const char *folder,
                                                      int64_t *ret_modified_ms, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_disk_index_folder_set(cairn_disk_index *index, const char *folder,
                                                          int64_t modified_ms, cairn_error *reterr);
/* Names of a folder's rows (their first two digits), for finding rows whose file is gone. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_names(cairn_disk_index *index, const char *folder,
                                                     cairn_disk_row_fn each, void *ctx, cairn_error *reterr);

/* Bytes written on a day (days since 1970), for the wear budget. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_written(cairn_disk_index *index, uint64_t day,
                                                       uint64_t *ret_bytes, cairn_error *reterr);
CAIRN_MUST_CHECK cairn_status cairn_disk_index_written_add(cairn_disk_index *index, uint64_t day,
                                                           uint64_t bytes, cairn_error *reterr);

/* Group many puts: between begin and end nothing is written to the file. */
CAIRN_MUST_CHECK cairn_status cairn_disk_index_batch(cairn_disk_index *index, bool begin,
                                                     cairn_error *reterr);

#endif
