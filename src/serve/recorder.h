/*
 * recorder - --trace FILE: the requests of a server as lines that `cairn simulate FILE` replays.
 *
 *   {"cairn":1,"state_bytes":..,...}     head: what the server is like
 *   {"t":0.52,"tokens":[..],...}         a request, written when it has ended
 *
 * Nothing of the texts is written. With `veiled` not even the tokens are: each is replaced by a name that depends on the
 * tokens before it and on a secret that is drawn at the start and never written (base/hash.h, cairn_hash_veil). Such a
 * file says how prompts relate, which is all that a cache sees, and can be given away.
 *
 *   FILE    lines up to bytes_max / 2; then it becomes FILE.1 (the one before is dropped) and begins anew with a head.
 *   FILE.1  So the two never hold more than bytes_max. A FILE that is there at the start becomes FILE.1, too.
 *
 * Owner    borrows mem, io, log
 * Thread   one: the scheduler's
 * Errors   a write that fails is logged once; the server goes on without recording
 * Cost     a write of about 7 bytes a token, on the scheduler's thread, after the request has ended
 * See      docs/format/trace.md
 */
#ifndef CAIRN_RECORDER_H
#define CAIRN_RECORDER_H

#include "base/io.h"
#include "base/log.h"
#include "cairn/cairn.h"

enum { CAIRN_RECORDER_KEY_BYTES = 32 };

typedef struct cairn_recorder cairn_recorder;

typedef struct cairn_recorder_options {
    const cairn_mem *mem;
    cairn_io *io;
    cairn_log *log;
    const char *path;
    uint64_t bytes_max;  /* of FILE and FILE.1 together                                              */
    const uint8_t *veil; /* uint8_t[CAIRN_RECORDER_KEY_BYTES]: veil the tokens with it; NULL: don't. Copied */
    const cairn_engine_info *engine;
    uint64_t ram_bytes_max; /* of the cache                                                         */
    cairn_resume_mode mode; /* of requests that don't say                                           */
    uint64_t start_ns;      /* the clock's, from which `t` counts                                   */
} cairn_recorder_options;

/* What is known of a request that has ended. */
typedef struct cairn_recorder_entry {
    uint64_t id;
    uint64_t begun_ns; /* when it was planned                                                       */
    const cairn_prompt *prompt;
    const cairn_token *answer; /* cairn_token[count_answer]: decoded after the prompt               */
    uint32_t count_answer;
    const cairn_record *record;
    cairn_ending ending;
} cairn_recorder_entry;

/* Begin a file. Errors: CAIRN_IO, CAIRN_NOSPACE, CAIRN_NOTFOUND (no such folder), CAIRN_LIMIT (path), CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_recorder_open(const cairn_recorder_options *options,
                                                  cairn_recorder **ret_recorder, cairn_error *reterr);

/* Write one request. One that read nothing, or for which the cache was off, is left out. NULL is allowed. */
void cairn_recorder_add(cairn_recorder *recorder, const cairn_recorder_entry *entry);

/* NULL is allowed. */
void cairn_recorder_close(cairn_recorder *recorder);

#endif
