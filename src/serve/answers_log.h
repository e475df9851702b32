/*
 * answers_log - the answers that were generated, on disk: after a restart they are known as before.
 *
 *   keep ---> queue ---> own thread ---> store/note_log      never on the path of a token
 *   load <--- the first question about a namespace           once a run and namespace
 *
 * Sealed for their namespace; bounded in bytes on disk and in the queue. What a kill takes is what was still in the queue.
 *
 * Units    bytes
 * Owner    the caller owns the log; it outlives the answers that are attached to it
 * Thread   any
 * Errors   none reaches a request: an answer that could not be written or read is not known after a restart
 * See      answers.h, store/note_log.h, docs/format/answers.md
 * Test     tests/serve/test_answers_log.c
 */
#ifndef CAIRN_ANSWERS_LOG_H
#define CAIRN_ANSWERS_LOG_H

#include "serve/answers.h"
#include "store/note_log.h"

/* Of one namespace and run; of all files; of what waits to be written. */
#define CAIRN_ANSWERS_LOG_FILE_BYTES  (UINT64_C(8) << 20)
#define CAIRN_ANSWERS_LOG_BYTES       (UINT64_C(128) << 20)
#define CAIRN_ANSWERS_LOG_QUEUE_BYTES ((size_t)4 << 20)

/*
 * Start it on the disk tier's directory.
 *
 *   io   [in]  outlives the log
 *   dir  [in]  copied
 *   key  [in]  uint8_t[32] of --cache-key, or NULL; copied
 *
 * Errors   CAIRN_NOMEM, CAIRN_INVALID
 */
CAIRN_MUST_CHECK cairn_status cairn_answers_log_new(const cairn_mem *mem, cairn_io *io, const char *dir,
                                                    const uint8_t *key, cairn_answers_log **ret_log,
                                                    cairn_error *reterr);
/* Write what waits, and end. NULL is allowed. */
void cairn_answers_log_free(cairn_answers_log *log);

/* Hand an answer over, copied. What does not fit into the queue is not written. */
void cairn_answers_log_keep(cairn_answers_log *log, const cairn_namespace *space, cairn_hash128 conversation,
                            const cairn_answer_kept *answer);

/* Called for each answer of a namespace; everything is borrowed for the call. */
typedef void (*cairn_answers_log_fn)(void *ctx, const cairn_namespace *space, cairn_hash128 conversation,
                                     const cairn_answer_kept *answer);

/* The namespace's answers, when it is asked for the first time; else nothing. */
void cairn_answers_log_load(cairn_answers_log *log, const cairn_namespace *space, cairn_answers_log_fn each,
                            void *ctx);

/* Forget a namespace, also what waits; NULL: all. */
void cairn_answers_log_forget(cairn_answers_log *log, const cairn_namespace *space);

/* Wait until nothing waits to be written: for tests. */
void cairn_answers_log_settle(cairn_answers_log *log);

#endif
