/*
 * blob_format - the bytes of a blob file: its header, its name, its checks.
 *
 * Pure arithmetic on bytes: no file is touched here. docs/format/blob.md is the same in words, and a
 * second reader in another language is written from that page alone.
 *
 *   | 256 bytes fixed | marks | runs | piece checks | check | zeros to 4096 | piece 0 | piece 1 | ... |
 *   |<------------------ header_bytes ------------------->|
 *
 * Units    bytes; positions in tokens
 * Owner    nothing is allocated; the caller provides all buffers
 * Thread   any
 * Errors   CAIRN_CORRUPT (damaged or truncated), CAIRN_UNSUPPORTED (another version), both with the
 *          offset at which it went wrong
 */
#ifndef CAIRN_STORE_BLOB_FORMAT_H
#define CAIRN_STORE_BLOB_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cairn/prompt.h"
#include "cairn/status.h"

enum {
    CAIRN_BLOB_VERSION = 1,
    CAIRN_BLOB_FIXED_BYTES = 256,
    CAIRN_BLOB_ALIGN_BYTES = 4096,
    CAIRN_BLOB_PIECE_BYTES = 4 << 20,
    CAIRN_BLOB_TAG_BYTES = 16,
    CAIRN_BLOB_MARK_BYTES = 8, /* one mark a token: the head of its path digest */
    CAIRN_BLOB_BASE_TOKENS = 256,
    CAIRN_BLOB_NAME_BYTES = 64 + 1, /* hexadecimal, with NUL */
    CAIRN_PATH_DIGEST_BYTES = 16
};

/*
 * What the path digests of a namespace begin with. It is not in any file: with it and a guess of the tokens, digests
 * could be tried one token after the other.
 */
typedef struct cairn_path_root {
    uint8_t bytes[16];
} cairn_path_root;

/* First 16 bytes of SHA-256(root, tokens [0, n)). Proves a whole path; reveals none. */
typedef struct cairn_path_digest {
    uint8_t bytes[CAIRN_PATH_DIGEST_BYTES];
} cairn_path_digest;

/* Do both prove the same path? */
static inline bool cairn_path_digest_equal(const cairn_path_digest *a, const cairn_path_digest *b)
{
    return memcmp(a->bytes, b->bytes, CAIRN_PATH_DIGEST_BYTES) == 0;
}

/* Which batch made rows up to rows_end: needed to resume to the last bit. */
typedef struct cairn_blob_run {
    uint32_t rows_end, cut;
    uint64_t digest; /* 0: decoded, or not known */
} cairn_blob_run;

typedef enum cairn_blob_kind { CAIRN_BLOB_STATE = 1, CAIRN_BLOB_ROWS = 2 } cairn_blob_kind;

enum { CAIRN_BLOB_ENCRYPTED = 1u << 0 };

/* What a blob is. Everything that identifies it and what a resume must know about it. */
typedef struct cairn_blob_meta {
    uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES];
    cairn_namespace space; /* its public name: cairn_blob_space */
    cairn_blob_kind kind;
    uint8_t provenance; /* 0 prefill, 1 decode */
    uint16_t flags;
    uint32_t begin, end;
    uint32_t count_runs; /* rows: entries of its table of runs */
    uint64_t cut_digest;
    uint64_t payload_bytes;
    uint64_t created_s;
    cairn_path_digest path_begin, path_end;
    cairn_path_digest path_base; /* at cairn_blob_base(): the blobs of a prompt are found by it */
    uint8_t nonce[12];
    cairn_boundary boundary; /* at `end`: kinds, role, message; position is `end` */
} cairn_blob_meta;

/* How the file of a blob is laid out; follows from its meta alone. */
typedef struct cairn_blob_layout {
    uint32_t count_marks, count_runs;
    uint32_t count_pieces;
    uint32_t header_bytes; /* fixed part, marks and piece checks */
    uint64_t data_begin;   /* where piece 0 starts */
    uint64_t file_bytes;
} cairn_blob_layout;

/*
 * Work out the layout.
 * Errors  CAIRN_INVALID: no payload, begin > end, or a size beyond what the format can hold
 */
CAIRN_MUST_CHECK cairn_status cairn_blob_layout_get(const cairn_blob_meta *meta,
                                                    cairn_blob_layout *ret_layout, cairn_error *reterr);

/* Stored bytes of piece `index` (tag included), and where it starts in the file. */
uint32_t cairn_blob_piece_bytes(const cairn_blob_meta *meta, const cairn_blob_layout *layout, uint32_t index);
uint64_t cairn_blob_piece_begin(const cairn_blob_meta *meta, const cairn_blob_layout *layout, uint32_t index);

/*
 * Write the header.
 *
 *   marks   [in]   uint8_t[layout->count_marks][8], as cairn_path_marks makes them
 *   runs    [in]   cairn_blob_run[meta->count_runs]
 *   checks  [in]   uint8_t[layout->count_pieces][16]: cairn_blob_check of each stored piece
 *   out     [out]  uint8_t[layout->data_begin]; all of it is written
 */
void cairn_blob_header_write(const cairn_blob_meta *meta, const cairn_blob_layout *layout,
                             const uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES], const cairn_blob_run *runs,
                             const uint8_t (*checks)[16], uint8_t *out);

/* For a header that came without its pieces. */
#define CAIRN_BLOB_SIZE_UNKNOWN UINT64_MAX

/*
 * Read and check the fixed part, without the tables: enough to index a file cheaply.
 *
 *   bytes       [in]  uint8_t[CAIRN_BLOB_FIXED_BYTES]
 *   file_bytes  [in]  size of the file, or CAIRN_BLOB_SIZE_UNKNOWN
 *
 * The header check is not tested here (it covers the tables); call cairn_blob_header_check with all of it.
 */
CAIRN_MUST_CHECK cairn_status cairn_blob_header_read(const uint8_t *bytes, uint64_t file_bytes,
                                                     cairn_blob_meta *ret_meta, cairn_blob_layout *ret_layout,
                                                     cairn_error *reterr);

/* Test the check over uint8_t[layout->header_bytes]. */
CAIRN_MUST_CHECK cairn_status cairn_blob_header_check(const uint8_t *bytes, const cairn_blob_layout *layout,
                                                      cairn_error *reterr);

/* Entries of the tables inside header bytes; borrowed. Mark `index` is that of position begin + 1 + index. */
const uint8_t *cairn_blob_header_mark(const uint8_t *bytes, const cairn_blob_layout *layout, uint32_t index);
cairn_blob_run cairn_blob_header_run(const uint8_t *bytes, const cairn_blob_layout *layout, uint32_t index);
const uint8_t *cairn_blob_header_piece_check(const uint8_t *bytes, const cairn_blob_layout *layout,
                                             uint32_t index);

/* XXH3-128 of bytes, low half first. */
void cairn_blob_check(const void *bytes, size_t count, uint8_t ret_check[16]);

/* Position that path_base belongs to: the last multiple of 256 at or before begin (rows) or end (state). */
uint32_t cairn_blob_base(cairn_blob_kind kind, uint32_t begin, uint32_t end);

/* The file's name: 64 hexadecimal digits. */
void cairn_blob_name(const cairn_blob_meta *meta, char ret_name[CAIRN_BLOB_NAME_BYTES]);

/* Is `file` ("<64 hexadecimal digits>.blob") a blob's file? Writes its name. */
bool cairn_blob_file_parse(const char *file, char ret_name[CAIRN_BLOB_NAME_BYTES]);

/* A name as a number, from the first 16 of its hexadecimal digits; never 0. */
uint64_t cairn_blob_name_number(const char *name);

/*
 * The two faces of a namespace: the name that files show, and the root of its path digests. Neither gives the other.
 *
 *   key  [in]  uint8_t[32] of the store, or NULL when it is not encrypted
 *
 * Errors  CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_blob_space(const cairn_namespace *space, const uint8_t *key,
                                               cairn_namespace *ret_shown, cairn_path_root *ret_root,
                                               cairn_error *reterr);

/*
 * Path digests of one prompt at many positions in one pass.
 *
 *   at          [in]   uint32_t[count_at], ascending, each <= count
 *   ret_digests [out]  cairn_path_digest[count_at]
 *
 * Errors  CAIRN_NOMEM; CAIRN_INVALID: not ascending
 * Cost    SHA-256 over 4 x at[count_at - 1] bytes and one copy of its state for each position
 */
CAIRN_MUST_CHECK cairn_status cairn_path_digests(const cairn_path_root *root, const cairn_token *tokens,
                                                 uint32_t count, const uint32_t *at, uint32_t count_at,
                                                 cairn_path_digest *ret_digests, cairn_error *reterr);

/*
 * The marks of rows [begin, end): for each position inside (begin, end) the head of its path digest.
 *
 *   ret_marks [out]  uint8_t[end - begin - 1][8]
 *
 * Errors  CAIRN_NOMEM
 * Cost    about 0.4 us a token; do it where rows are written, off the engine's thread
 */
CAIRN_MUST_CHECK cairn_status cairn_path_marks(const cairn_path_root *root, const cairn_token *tokens,
                                               uint32_t begin, uint32_t end,
                                               uint8_t (*ret_marks)[CAIRN_BLOB_MARK_BYTES],
                                               cairn_error *reterr);

#endif
