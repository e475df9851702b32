/*
 * shared_format - see the header. It must not know stores, connections or threads.
 */
#include "store/shared_format.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

static const uint8_t point_magic[8] = {0x43, 0x41, 0x49, 0x52, 0x4e, 0x0d, 0x0a, 0x1b};
static const uint8_t point_label[8] = "pointkey";
static const uint8_t marker_label[8] = "forgets:";
#define PAYLOAD_BYTES_MAX (UINT64_C(1) << 40)

static const uint8_t no_key[CAIRN_DIGEST_BYTES];
static const char where_point[] = "store/shared: point";

/* Offsets of docs/format/shared.md. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_COUNT = 12,
    AT_FINGERPRINT = 16,
    AT_SPACE = 48,
    AT_PATH = 64,
    AT_POSITION = 80,
    AT_PROVENANCE = 84,
    AT_CUT_DIGEST = 88,
    AT_CREATED_S = 96,
    AT_ZERO = 104,
    PART_NAME = 0,
    PART_BEGIN = 32,
    PART_END = 36,
    PART_PAYLOAD_BYTES = 40
};

static_assert(AT_ZERO + 8 == CAIRN_SHARED_POINT_FIXED_BYTES, "fixed part");
static_assert(PART_PAYLOAD_BYTES + 8 == CAIRN_SHARED_PART_BYTES, "part");
static_assert(AT_SPACE == AT_FINGERPRINT + CAIRN_FINGERPRINT_BYTES, "fingerprint field");

/* --- keys ----------------------------------------------------------------------------------------------------- */

/* The digest of what a key stands for, in hex, with "/p" or "/f" behind it. */
static cairn_status key_of(const uint8_t *identity, size_t count, const char *kind,
                           char ret_key[CAIRN_KV_KEY_BYTES])
{
    cairn_digest digest;
    cairn_status status = cairn_digest_of(identity, count, &digest);
    if (status == CAIRN_OK) {
        cairn_digest_hex(&digest, ret_key);
        (void)snprintf(ret_key + CAIRN_DIGEST_HEX - 1, CAIRN_KV_KEY_BYTES - CAIRN_DIGEST_HEX + 1, "%s", kind);
    }
    return status;
}

cairn_status cairn_shared_point_key(const cairn_shared_space *space, const cairn_path_digest *path,
                                    uint32_t position, uint8_t provenance, char ret_key[CAIRN_KV_KEY_BYTES])
{
    uint8_t identity[sizeof point_label + CAIRN_FINGERPRINT_BYTES + CAIRN_NAMESPACE_BYTES +
                     CAIRN_PATH_DIGEST_BYTES + 4 + 1];
    uint8_t *at = identity;
    memcpy(at, point_label, sizeof point_label);
    at += sizeof point_label;
    memcpy(at, space->fingerprint, CAIRN_FINGERPRINT_BYTES);
    at += CAIRN_FINGERPRINT_BYTES;
    memcpy(at, space->shown.bytes, CAIRN_NAMESPACE_BYTES);
    at += CAIRN_NAMESPACE_BYTES;
    memcpy(at, path->bytes, CAIRN_PATH_DIGEST_BYTES);
    at += CAIRN_PATH_DIGEST_BYTES;
    cairn_put32(at, position);
    at[4] = provenance;
    return key_of(identity, sizeof identity, "/p", ret_key);
}

cairn_status cairn_shared_marker_key(const cairn_shared_space *space, char ret_key[CAIRN_KV_KEY_BYTES])
{
    uint8_t identity[sizeof marker_label + CAIRN_NAMESPACE_BYTES];
    memcpy(identity, marker_label, sizeof marker_label);
    memcpy(identity + sizeof marker_label, space->shown.bytes, CAIRN_NAMESPACE_BYTES);
    return key_of(identity, sizeof identity, "/f", ret_key);
}

void cairn_shared_head_key(const char *name, char ret_key[CAIRN_KV_KEY_BYTES])
{
    (void)snprintf(ret_key, CAIRN_KV_KEY_BYTES, "%.64s/h", name);
}

void cairn_shared_piece_key(const char *name, uint32_t index, const uint8_t *check,
                            char ret_key[CAIRN_KV_KEY_BYTES])
{
    (void)snprintf(ret_key, CAIRN_KV_KEY_BYTES, "%.64s/%u-%016llx", name, index,
                   (unsigned long long)cairn_get64(check));
}

/* --- tags ----------------------------------------------------------------------------------------------------- */

cairn_status cairn_shared_tag(const uint8_t *key, const uint8_t *bytes, size_t count,
                              uint8_t ret_tag[CAIRN_SHARED_TAG_BYTES])
{
    cairn_digest digest;
    cairn_status status =
        cairn_digest_keyed(key != NULL ? key : no_key, sizeof no_key, bytes, count, &digest);
    if (status == CAIRN_OK) {
        memcpy(ret_tag, digest.bytes, CAIRN_SHARED_TAG_BYTES);
    }
    return status;
}

bool cairn_shared_tag_fits(const uint8_t *key, const uint8_t *bytes, size_t count)
{
    uint8_t tag[CAIRN_SHARED_TAG_BYTES];
    uint8_t different = 0;
    if (count < CAIRN_SHARED_TAG_BYTES ||
        cairn_shared_tag(key, bytes, count - CAIRN_SHARED_TAG_BYTES, tag) != CAIRN_OK) {
        return false;
    }
    const uint8_t *stored = bytes + count - CAIRN_SHARED_TAG_BYTES;
    for (int i = 0; i < CAIRN_SHARED_TAG_BYTES; i++) {
        different |= (uint8_t)(tag[i] ^ stored[i]);
    }
    return different == 0;
}

/* --- points --------------------------------------------------------------------------------------------------- */

uint64_t cairn_shared_head_room(const cairn_shared_part *part)
{
    uint64_t pieces = (part->payload_bytes + CAIRN_BLOB_PIECE_BYTES - 1) / CAIRN_BLOB_PIECE_BYTES;
    uint64_t tokens = part->end - part->begin; /* a mark and a run each, at most */
    return CAIRN_BLOB_FIXED_BYTES + tokens * (CAIRN_BLOB_MARK_BYTES + sizeof(cairn_blob_run)) +
           16 * (pieces + 2) + CAIRN_SHARED_TAG_BYTES;
}

size_t cairn_shared_point_bytes(uint32_t count_parts)
{
    return CAIRN_SHARED_POINT_FIXED_BYTES + (size_t)count_parts * CAIRN_SHARED_PART_BYTES +
           CAIRN_SHARED_TAG_BYTES;
}

cairn_status cairn_shared_point_write(const cairn_shared_space *space, const uint8_t *key,
                                      const cairn_shared_point *point, uint8_t *out)
{
    size_t count = cairn_shared_point_bytes(point->count_parts) - CAIRN_SHARED_TAG_BYTES;
    CAIRN_ASSERT(point->count_parts >= 1 && point->count_parts <= CAIRN_SHARED_PARTS_MAX);
    memset(out, 0, count);
    memcpy(out + AT_MAGIC, point_magic, sizeof point_magic);
    cairn_put32(out + AT_VERSION, CAIRN_SHARED_VERSION);
    cairn_put32(out + AT_COUNT, point->count_parts);
    memcpy(out + AT_FINGERPRINT, space->fingerprint, CAIRN_FINGERPRINT_BYTES);
    memcpy(out + AT_SPACE, space->shown.bytes, CAIRN_NAMESPACE_BYTES);
    memcpy(out + AT_PATH, point->path.bytes, CAIRN_PATH_DIGEST_BYTES);
    cairn_put32(out + AT_POSITION, point->position);
    out[AT_PROVENANCE] = point->provenance;
    cairn_put64(out + AT_CUT_DIGEST, point->cut_digest);
    cairn_put64(out + AT_CREATED_S, point->created_s);
    for (uint32_t i = 0; i < point->count_parts; i++) {
        const cairn_shared_part *part = &point->parts[i];
        uint8_t *at = out + CAIRN_SHARED_POINT_FIXED_BYTES + (size_t)i * CAIRN_SHARED_PART_BYTES;
        cairn_digest name;
        cairn_status status = cairn_digest_parse(part->name, &name);
        CAIRN_ASSERT(status == CAIRN_OK);
        memcpy(at + PART_NAME, name.bytes, sizeof name.bytes);
        cairn_put32(at + PART_BEGIN, part->begin);
        cairn_put32(at + PART_END, part->end);
        cairn_put64(at + PART_PAYLOAD_BYTES, part->payload_bytes);
    }
    return cairn_shared_tag(key, out, count, out + count);
}

/* --- markers -------------------------------------------------------------------------------------------------- */

cairn_status cairn_shared_marker_write(const cairn_shared_space *space, const uint8_t *key,
                                       uint64_t forgotten_s, uint8_t out[CAIRN_SHARED_MARKER_BYTES])
{
    uint8_t signed_bytes[CAIRN_NAMESPACE_BYTES + 8]; /* so that one namespace's marker is not another's */
    memcpy(signed_bytes, space->shown.bytes, CAIRN_NAMESPACE_BYTES);
    cairn_put64(signed_bytes + CAIRN_NAMESPACE_BYTES, forgotten_s);
    cairn_put64(out, forgotten_s);
    return cairn_shared_tag(key, signed_bytes, sizeof signed_bytes, out + 8);
}

cairn_status cairn_shared_marker_read(const cairn_shared_space *space, const uint8_t *key,
                                      const uint8_t *bytes, size_t count, uint64_t *ret_forgotten_s)
{
    uint8_t expected[CAIRN_SHARED_MARKER_BYTES];
    if (count != sizeof expected ||
        cairn_shared_marker_write(space, key, cairn_get64(bytes), expected) != CAIRN_OK ||
        memcmp(expected, bytes, sizeof expected) != 0) {
        return CAIRN_CORRUPT;
    }
    *ret_forgotten_s = cairn_get64(bytes);
    return CAIRN_OK;
}

/* --- points, read --------------------------------------------------------------------------------------------- */

static void part_read(const uint8_t *at, cairn_shared_part *ret_part)
{
    cairn_digest name;
    memcpy(name.bytes, at + PART_NAME, sizeof name.bytes);
    cairn_digest_hex(&name, ret_part->name);
    ret_part->begin = cairn_get32(at + PART_BEGIN);
    ret_part->end = cairn_get32(at + PART_END);
    ret_part->payload_bytes = cairn_get64(at + PART_PAYLOAD_BYTES);
}

/* A state at the point, then rows without a gap from 0 up to it; or the state alone. */
static bool parts_fit(const cairn_shared_point *point)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < point->count_parts; i++) {
        const cairn_shared_part *part = &point->parts[i];
        bool fits = i == 0 ? part->begin == part->end && part->end == point->position
                           : part->begin == at && part->end > at && at < point->position;
        if (!fits || part->payload_bytes == 0 || part->payload_bytes > PAYLOAD_BYTES_MAX ||
            part->end > INT32_MAX) {
            return false;
        }
        at = i == 0 ? 0 : part->end;
    }
    return point->count_parts == 1 || at >= point->position;
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one point
cairn_status cairn_shared_point_read(const cairn_shared_space *space, const uint8_t *key,
                                     const uint8_t *bytes, size_t count, uint32_t parts_room,
                                     cairn_shared_point *ret_point, cairn_error *reterr)
{
    if (count < cairn_shared_point_bytes(1) || memcmp(bytes, point_magic, sizeof point_magic) != 0) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, where_point, "no point");
    }
    if (cairn_get32(bytes + AT_VERSION) != CAIRN_SHARED_VERSION) {
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, where_point, "version %u",
                               cairn_get32(bytes + AT_VERSION));
    }
    uint32_t count_parts = cairn_get32(bytes + AT_COUNT);
    if (count_parts < 1 || count_parts > CAIRN_SHARED_PARTS_MAX ||
        count != cairn_shared_point_bytes(count_parts) || !cairn_shared_tag_fits(key, bytes, count)) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, where_point, "damaged, or of another key");
    }
    if (memcmp(bytes + AT_FINGERPRINT, space->fingerprint, CAIRN_FINGERPRINT_BYTES) != 0 ||
        memcmp(bytes + AT_SPACE, space->shown.bytes, CAIRN_NAMESPACE_BYTES) != 0) {
        return cairn_error_set(reterr, CAIRN_FOREIGN, where_point, "of another model or namespace");
    }
    if (count_parts > parts_room) {
        return cairn_error_set(reterr, CAIRN_LIMIT, where_point, "%u parts", count_parts);
    }
    cairn_shared_part *parts = ret_point->parts;
    *ret_point = (cairn_shared_point){.position = cairn_get32(bytes + AT_POSITION),
                                      .provenance = bytes[AT_PROVENANCE],
                                      .cut_digest = cairn_get64(bytes + AT_CUT_DIGEST),
                                      .created_s = cairn_get64(bytes + AT_CREATED_S),
                                      .count_parts = count_parts,
                                      .parts = parts};
    memcpy(ret_point->path.bytes, bytes + AT_PATH, CAIRN_PATH_DIGEST_BYTES);
    for (uint32_t i = 0; i < count_parts; i++) {
        part_read(bytes + CAIRN_SHARED_POINT_FIXED_BYTES + (size_t)i * CAIRN_SHARED_PART_BYTES, &parts[i]);
    }
    return ret_point->provenance <= 1 && parts_fit(ret_point)
               ? CAIRN_OK
               : cairn_error_set(reterr, CAIRN_CORRUPT, where_point, "parts that don't follow each other");
}
