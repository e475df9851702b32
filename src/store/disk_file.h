/*
 * disk_file - one blob file: written whole, read with every byte checked.
 *
 * Knows the format and one file; knows nothing of directories, budgets or the index.
 *
 * Owner    buffers are the caller's
 * Thread   any; one file at a time per call
 * Errors   CAIRN_CORRUPT (damaged), CAIRN_UNSUPPORTED (another format version), CAIRN_FOREIGN (not what was
 *          expected), CAIRN_LOCKED (another key, or none), CAIRN_NOTFOUND, CAIRN_IO, CAIRN_NOSPACE, CAIRN_NOMEM
 */
#ifndef CAIRN_STORE_DISK_FILE_H
#define CAIRN_STORE_DISK_FILE_H

#include "base/io.h"
#include "store/blob_format.h"

/* Header of a file in memory. */
typedef struct cairn_disk_header {
    cairn_blob_meta meta;
    cairn_blob_layout layout;
    uint8_t *bytes; /* uint8_t[room], of which layout.header_bytes are the header */
    uint64_t room;
} cairn_disk_header;

/* Read and check a file's header. Release it in any case where CAIRN_OK came back. */
CAIRN_MUST_CHECK cairn_status cairn_disk_header_load(const cairn_mem *mem, cairn_file *file,
                                                     cairn_disk_header *ret_header, cairn_error *reterr);
void cairn_disk_header_release(const cairn_mem *mem, cairn_disk_header *header);

/*
 * Read a blob's bytes.
 *
 *   header  [in]   as loaded from this file
 *   key     [in]   uint8_t[32], or NULL when the blob is not encrypted
 *   out     [out]  uint8_t[payload_bytes]; NULL: check only
 *   ret_digest [out]  cairn_tier_ram_digest of the payload, which costs nothing here; may be NULL
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_payload_read(const cairn_mem *mem, cairn_file *file,
                                                      const cairn_disk_header *header, const uint8_t *key,
                                                      uint8_t *out, uint64_t *ret_digest,
                                                      cairn_error *reterr);

/* Test the checks of all pieces as they are stored: no key is needed. Errors: CAIRN_CORRUPT, CAIRN_IO, CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_disk_stored_check(const cairn_mem *mem, cairn_file *file,
                                                      const cairn_disk_header *header, cairn_error *reterr);

/*
 * Write a blob into an empty file and sync it. With a key, meta->nonce must be random and meta->flags have
 * CAIRN_BLOB_ENCRYPTED.
 */
CAIRN_MUST_CHECK cairn_status cairn_disk_file_write(const cairn_mem *mem, cairn_file *file,
                                                    const cairn_blob_meta *meta,
                                                    const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES],
                                                    const cairn_blob_run *runs, const uint8_t *payload,
                                                    const uint8_t *key, cairn_error *reterr);

#endif
