/*
 * shared_format - what a shared store holds: heads and pieces of blobs, and the points from which they are found.
 *
 *   point   "a prompt can be resumed here, from these blobs"    found by the prompt's own digest at that position
 *     |
 *     +--> head    a blob's header, as in a file               found by the blob's name
 *            |
 *            +--> pieces    4 MiB each                         found by the head's checks of them
 *
 * Everything but points says by its key what it holds, so that two writers never mix what they write. A reader who
 * sees a point may rely on nothing but that its heads and pieces were there when it was written. docs/format/shared.md
 * is the same in words.
 *
 * Units    bytes; positions in tokens
 * Owner    nothing is allocated; the caller provides all buffers
 * Thread   any
 * Errors   CAIRN_CORRUPT (damaged, or of another key), CAIRN_UNSUPPORTED (another version)
 */
#ifndef CAIRN_STORE_SHARED_FORMAT_H
#define CAIRN_STORE_SHARED_FORMAT_H

#include "store/blob_format.h"
#include "store/kv.h"

enum {
    CAIRN_SHARED_VERSION = 1,
    CAIRN_SHARED_TAG_BYTES = 16,   /* behind a head, and behind a point                                */
    CAIRN_SHARED_PARTS_MAX = 4096, /* of one point: the state, and two million tokens of rows          */
    CAIRN_SHARED_POINT_FIXED_BYTES = 112,
    CAIRN_SHARED_PART_BYTES = 48,
    CAIRN_SHARED_MARKER_BYTES = 8 + CAIRN_SHARED_TAG_BYTES
};

/* Whose paths: the store's key and what the namespace looks like under it. */
typedef struct cairn_shared_space {
    uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES];
    cairn_namespace shown;
    cairn_path_root root;
} cairn_shared_space;

/* One blob of a point. */
typedef struct cairn_shared_part {
    char name[CAIRN_BLOB_NAME_BYTES];
    uint32_t begin, end; /* rows; a state's are equal                                                  */
    uint64_t payload_bytes;
} cairn_shared_part;

/* Where prompts can be resumed. parts[0] is the state, the others are its rows in ascending order. */
typedef struct cairn_shared_point {
    cairn_path_digest path; /* at `position`                                                          */
    uint32_t position;
    uint8_t provenance; /* 0 prefill, 1 decode                                                    */
    uint64_t cut_digest;
    uint64_t created_s;
    uint32_t count_parts;
    cairn_shared_part *parts; /* cairn_shared_part[count_parts]                                        */
} cairn_shared_point;

/* Keys. Errors of the first: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_shared_point_key(const cairn_shared_space *space,
                                                     const cairn_path_digest *path, uint32_t position,
                                                     uint8_t provenance, char ret_key[CAIRN_KV_KEY_BYTES]);
CAIRN_MUST_CHECK cairn_status cairn_shared_marker_key(const cairn_shared_space *space,
                                                      char ret_key[CAIRN_KV_KEY_BYTES]);
void cairn_shared_head_key(const char *name, char ret_key[CAIRN_KV_KEY_BYTES]);
/* check is the head's check of the piece, uint8_t[16]. */
void cairn_shared_piece_key(const char *name, uint32_t index, const uint8_t *check,
                            char ret_key[CAIRN_KV_KEY_BYTES]);

/*
 * The tag of uint8_t[count]: HMAC-SHA-256 under the store's key (NULL: 32 zero bytes), its first bytes.
 * Errors  CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_tag(const uint8_t *key, const uint8_t *bytes, size_t count,
                                               uint8_t ret_tag[CAIRN_SHARED_TAG_BYTES]);

/* Does the tag behind uint8_t[count - CAIRN_SHARED_TAG_BYTES] fit? Takes the same time wherever it differs. */
bool cairn_shared_tag_fits(const uint8_t *key, const uint8_t *bytes, size_t count);

/* What a head can need at most, tag included. */
uint64_t cairn_shared_head_room(const cairn_shared_part *part);

/* Bytes of a point with so many parts. */
size_t cairn_shared_point_bytes(uint32_t count_parts);

/* Write a point into uint8_t[cairn_shared_point_bytes(count_parts)]. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_shared_point_write(const cairn_shared_space *space, const uint8_t *key,
                                                       const cairn_shared_point *point, uint8_t *out);

/* A marker: points of the space written at or before that second are forgotten. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_shared_marker_write(const cairn_shared_space *space, const uint8_t *key,
                                                        uint64_t forgotten_s,
                                                        uint8_t out[CAIRN_SHARED_MARKER_BYTES]);
/* Errors: CAIRN_CORRUPT. */
CAIRN_MUST_CHECK cairn_status cairn_shared_marker_read(const cairn_shared_space *space, const uint8_t *key,
                                                       const uint8_t *bytes, size_t count,
                                                       uint64_t *ret_forgotten_s);

/*
 * Read a point, checking every field.
 *
 *   ret_point  [inout]  its parts are cairn_shared_part[parts_room]
 *
 * Errors  CAIRN_CORRUPT, CAIRN_UNSUPPORTED, CAIRN_FOREIGN (of another space), CAIRN_LIMIT (more parts than room)
 */
CAIRN_MUST_CHECK cairn_status cairn_shared_point_read(const cairn_shared_space *space, const uint8_t *key,
                                                      const uint8_t *bytes, size_t count, uint32_t parts_room,
                                                      cairn_shared_point *ret_point, cairn_error *reterr);

#endif
