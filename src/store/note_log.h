/*
 * note_log - small records of a namespace that outlive the process: appended, sealed, bounded.
 *
 *   DIR/answers/<name of the namespace, 32 digits>.<run, 16 digits>
 *     | 256 bytes header | record | record | ...            docs/format/answers.md
 *
 * Each process appends to a file of its own for each namespace, so that servers may share DIR without locks; who reads a
 * namespace reads all of its files. Records are sealed with a key that is made from the namespace's secret (and the store's
 * key): the directory alone does not give them. What a kill leaves at a file's end is cut off.
 *
 * Units    bytes
 * Owner    the caller owns the log; io is borrowed and outlives it
 * Thread   any; one lock inside, held while files are written and read
 * Errors   a record that can't be read is left out: nothing depends on one
 * Cost     add: one write and one sync. each: reads the namespace's files
 * Test     tests/store/test_note_log.c
 */
#ifndef CAIRN_STORE_NOTE_LOG_H
#define CAIRN_STORE_NOTE_LOG_H

#include "base/clock.h"
#include "base/io.h"
#include "cairn/mem.h"
#include "cairn/prompt.h"

#define CAIRN_NOTE_FOLDER "answers"

enum { CAIRN_NOTE_BYTES_MAX = 1 << 20, CAIRN_NOTE_FILES_MAX = 1 << 16 };

typedef struct cairn_note_log cairn_note_log;

typedef struct cairn_note_log_options {
    const char *dir;          /* of the disk tier                                                          */
    const uint8_t *key;       /* uint8_t[32] of the store, or NULL. Copied                                 */
    uint64_t file_bytes_max;  /* of one namespace and run: the older half goes when it is reached          */
    uint64_t bytes_max;       /* of all files: the oldest go                                               */
    const cairn_clock *clock; /* NULL: the system's                                                      */
} cairn_note_log_options;

/* Touches nothing on disk. Errors: CAIRN_NOMEM, CAIRN_INVALID (the directory's name is too long). */
CAIRN_MUST_CHECK cairn_status cairn_note_log_new(const cairn_mem *mem, cairn_io *io,
                                                 const cairn_note_log_options *options,
                                                 cairn_note_log **ret_log, cairn_error *reterr);
/* NULL is allowed. */
void cairn_note_log_free(cairn_note_log *log);

/*
 * Append a record, durably.
 *
 *   note  [in]  uint8_t[count], 0 < count <= CAIRN_NOTE_BYTES_MAX
 *
 * After   not CAIRN_OK: it is not there, and the file is as it was
 * Errors  CAIRN_LIMIT (too large), CAIRN_NOSPACE, CAIRN_IO, CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_note_log_add(cairn_note_log *log, const cairn_namespace *space,
                                                 const void *note, size_t count, cairn_error *reterr);

/* Called for each record, oldest file first. Must not call the log. */
typedef void (*cairn_note_fn)(void *ctx, const uint8_t *note, size_t count);

/* All records of a namespace. Gives how many there were; those that fail their checks, or have another key, are left out. */
uint64_t cairn_note_log_each(cairn_note_log *log, const cairn_namespace *space, cairn_note_fn each,
                             void *ctx);

/* Remove a namespace's files; NULL: all. */
void cairn_note_log_forget(cairn_note_log *log, const cairn_namespace *space);

#endif
