/*
 * engine_open - from a model file to an engine that has proved itself, with words for everything that can go wrong.
 *
 * Owner    the caller closes what was opened; close takes half-open ones
 * Thread   the main thread
 */
#ifndef CAIRN_CLI_ENGINE_OPEN_H
#define CAIRN_CLI_ENGINE_OPEN_H

#include "base/log.h"
#include "cairn/cairn.h"
#include "engine/engine_llama.h"
#include "engine/llama_vocab.h"

typedef struct cairn_engine_open {
    cairn_engine *engine;
    cairn_llama_vocab vocab;
    bool proved; /* the check at start passed: states may be used                                      */
    bool exact;  /* ... and answers are those of a cold run, bit for bit                            */
    char refused[240]; /* why not, in plain words; "" when all is well                                   */
} cairn_engine_open;

/*
 * Load and check a model. What fails is told on stderr, with advice.
 *
 *   cache_bytes  [in]  what the cache will take besides: the estimate before loading counts it
 *
 * Gives    0, or the exit code
 */
int cairn_engine_open_file(const cairn_llama_options *options, uint64_t cache_bytes, cairn_log *log,
                           cairn_engine_open *ret_open);
/* Is a SIGTERM or SIGINT waiting that the program has blocked? Loading ends by it, without a word. */
bool cairn_engine_stop_asked(void);
void cairn_engine_close(cairn_engine_open *open);

/* How slots compute, in words: a constant. */
const char *cairn_engine_sharing(const cairn_engine *engine);

/* "models/Qwen3.5-0.8B-Q8_0.gguf" -> "Qwen3.5-0.8B-Q8_0". Cut to room. */
void cairn_engine_name(const char *path, char *name, size_t room);

#endif
