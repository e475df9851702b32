/*
 * store_list - what is in a disk tier's directory, file by file, also when some of it is damaged. Changes nothing.
 *
 * The directory is listed, not its index: a table may be missing, old or another server's.
 *
 * Units    bytes; seconds since 1970
 * Owner    the list owns its items; release it
 * Thread   the main thread
 * See      docs/format/blob.md
 */
#ifndef CAIRN_CLI_STORE_LIST_H
#define CAIRN_CLI_STORE_LIST_H

#include <jansson.h>

#include "store/disk_file.h"

enum { CAIRN_STORE_PATH = 4096, CAIRN_STORE_WHY = 160 };

/* One blob file. */
typedef struct cairn_store_item {
    char name[CAIRN_BLOB_NAME_BYTES];
    cairn_status status; /* CAIRN_OK: the header is sound; else why not                                 */
    char why[CAIRN_STORE_WHY];
    cairn_blob_meta meta; /* with a sound header                                                      */
    cairn_blob_layout layout;
    uint64_t file_bytes;
    int64_t modified_ms;
} cairn_store_item;

typedef struct cairn_store_list {
    const char *dir;
    cairn_store_item *items; /* cairn_store_item[count], by name                                        */
    size_t count, room;
    uint64_t file_bytes;
    size_t damaged, unreadable; /* headers that fail; folders that can't be listed                      */
    bool failed;                /* out of memory                                                        */
} cairn_store_list;

/*
 * List a directory. Files that can't be read are in the list, with why.
 * Errors  CAIRN_NOTFOUND, CAIRN_IO (the directory itself), CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_store_list_fill(const char *dir, cairn_store_list *ret_list,
                                                    cairn_error *reterr);
void cairn_store_list_release(cairn_store_list *list);

/* DIR/ab/abcd....blob */
void cairn_store_path(const cairn_store_list *list, const char *name, char ret_path[CAIRN_STORE_PATH]);

/*
 * Read all of a file's bytes.
 *
 *   key  [in]  NULL: what is stored is checked, not whether it can be decrypted
 */
CAIRN_MUST_CHECK cairn_status cairn_store_check(const cairn_store_list *list, const cairn_store_item *item,
                                                const uint8_t *key, cairn_error *reterr);

/*
 * Does the path of rows go through this digest at a position inside them? By the marks in the file's header.
 *
 *   rows      [in]  of kind rows, its header sound
 *   position  [in]  inside (begin, end)
 */
bool cairn_store_passes(const cairn_store_list *list, const cairn_store_item *rows, uint32_t position,
                        const cairn_path_digest *digest);

/* Lower-case hexadecimal with NUL of bytes[count]; text has 2 x count + 1 characters. */
void cairn_store_hex(const uint8_t *bytes, size_t count, char *text);

/* What is known of it. The caller owns the value. */
json_t *cairn_store_json(const cairn_store_item *item);

#endif
