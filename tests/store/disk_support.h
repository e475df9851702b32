/*
 * disk_support - what the tests of the disk tier share: a disk in memory, blobs and paths made from numbers.
 */
#ifndef CAIRN_TEST_DISK_SUPPORT_H
#define CAIRN_TEST_DISK_SUPPORT_H

#include "base/io_memory.h"
#include "base/rng.h"
#include "store/tier_disk.h"
#include "test_support.h"

enum { SUPPORT_TOKENS_MAX = 4096 };

extern const cairn_namespace space_a, space_b;

/* Two paths whose first 700 tokens are the same. */
extern cairn_token path_one[SUPPORT_TOKENS_MAX], path_two[SUPPORT_TOKENS_MAX];
/* A group's set-up: make them. */
int support_paths(void **state);

/* Tokens of path `path`: those before `shared` are the same for all paths. */
void support_tokens(uint64_t path, uint32_t shared, cairn_token *tokens, uint32_t count);

/* What a blob is, without the bytes. */
cairn_blob_meta support_meta(cairn_disk *disk, const cairn_namespace *space, cairn_blob_kind kind,
                             const cairn_token *tokens, uint32_t begin, uint32_t end, uint64_t payload_bytes);

void support_payload(const cairn_blob_meta *meta, uint8_t *payload);

/* Write the blob that belongs to this range of the path. */
cairn_status support_put(cairn_disk *disk, const cairn_namespace *space, cairn_blob_kind kind,
                         const cairn_token *tokens, uint32_t begin, uint32_t end, uint64_t payload_bytes,
                         double value, char name[CAIRN_BLOB_NAME_BYTES]);

/* Read it again and compare every byte. CAIRN_OK only when they are right; wrong bytes fail the test. */
cairn_status support_get(cairn_disk *disk, const cairn_disk_row *row);

/* A tier over this table, in /store. */
cairn_status support_open(cairn_io *io, uint64_t bytes_max, const uint8_t *key, const cairn_clock *clock,
                          cairn_disk **ret_disk);

/* What is found of a prompt; looking must not fail. */
uint32_t support_find(cairn_disk *disk, const cairn_namespace *space, const cairn_token *tokens,
                      uint32_t count, cairn_disk_found *found, uint32_t max);

/*
 * A disk tier over a disk in memory, and what a test asks it: a test puts states and rows of path_one into space_a, opens
 * and closes as often as it likes, and looks at what is found.
 */
typedef struct shelf {
    cairn_io_memory *memory;
    cairn_io *io;                     /* of the memory */
    cairn_disk *disk;                 /* NULL while it is closed */
    cairn_disk_found found[64];       /* by the last look */
    char name[CAIRN_BLOB_NAME_BYTES]; /* of what was put last */
} shelf;

/* A disk of that many bytes, with nothing open; free closes what is open. */
shelf shelf_new(uint64_t room_bytes);
void shelf_free(shelf *s);

void shelf_open(shelf *s, uint64_t bytes_max);
void shelf_close(shelf *s);

/* Put the state at `end`, or the rows of a range; put_state must succeed, try_state may be refused. */
void shelf_put_state(shelf *s, uint32_t end, uint64_t payload_bytes, double value);
void shelf_put_rows(shelf *s, uint32_t begin, uint32_t end, uint64_t payload_bytes);
cairn_status shelf_try_state(shelf *s, uint32_t end, uint64_t payload_bytes, double value);

/* How many blobs of space_a are found of `count` tokens; they are in s->found. */
uint32_t shelf_find(shelf *s, const cairn_token *tokens, uint32_t count);

cairn_disk_stats shelf_stats(shelf *s);

/* Names in a folder, counted: 0 where there is none. */
uint32_t support_names(cairn_io *io, const char *folder);

#endif
