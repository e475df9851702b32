/*
 * llama_load - libllama itself: its back ends, its log, and model files, with errors that a person understands.
 *
 * The back ends (one library for each kind of CPU, and GPUs) are loaded once per process, from the first of these
 * folders that has any: the environment variable CAIRN_LLAMA_LIB_DIR, the folder `cairn` of the running program's
 * ../lib (an installed cairn), the folder known when cairn was built.
 *
 * Owner    a model is freed by cairn_llama_model_free, after everything that uses it
 * Thread   the log callback may be called from any thread, one at a time; everything else: one thread
 * See      include/llama.h of the build, engine_llama.h
 */
#ifndef CAIRN_ENGINE_LLAMA_LOAD_H
#define CAIRN_ENGINE_LLAMA_LOAD_H

#include <stddef.h>

#include "cairn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct llama_model;

typedef enum cairn_llama_level {
    CAIRN_LLAMA_DEBUG = 0,
    CAIRN_LLAMA_INFO = 1,
    CAIRN_LLAMA_WARN = 2,
    CAIRN_LLAMA_ERROR = 3
} cairn_llama_level;

/* `text` ends with a newline as a rule; continued lines come in pieces. Borrowed for the call. */
typedef void (*cairn_llama_log_fn)(void *ctx, cairn_llama_level level, const char *text);

/* `part` in [0, 1]. Return false to stop loading. */
typedef bool (*cairn_llama_progress_fn)(void *ctx, float part);

/* Where libllama's and ggml's messages go from now on, for the whole process. NULL: nowhere (the default). */
void cairn_llama_log_set(cairn_llama_log_fn log, void *ctx);

/* Load the back ends; later calls do nothing. Errors: CAIRN_NOTFOUND no usable back end in any of the folders. */
CAIRN_MUST_CHECK cairn_status cairn_llama_backends_load(cairn_error *reterr);

/* "libllama v0.4.0 (npm)". A constant. */
const char *cairn_llama_build(void);

typedef struct cairn_llama_model_options {
    const char *path;
    int gpu_layers; /* layers to put on GPUs; negative: all. Without a GPU it means nothing */
    bool mmap;      /* map the file instead of reading it                                   */
    bool mlock;     /* keep the weights from being swapped out                              */
    bool no_repack; /* weights stay as they are in the file: slower on most CPUs, mapped, and free of what */
                    /* libllama's own layouts get wrong (see llama_share.h)                             */
    bool vocab_only;
    bool sizes_only; /* weights and contexts are only counted, not allocated; without mmap, mlock    */
    cairn_llama_progress_fn progress; /* NULL: none */
    void *progress_ctx;
} cairn_llama_model_options;

/*
 * Load a model file (the first of several parts is enough).
 *
 * Errors   CAIRN_NOTFOUND, CAIRN_IO   the file can't be opened
 *          CAIRN_CORRUPT       not a GGUF file, or damaged, or cut short
 *          CAIRN_UNSUPPORTED   an architecture that this build of libllama doesn't know
 *          CAIRN_NOMEM         no room for the weights
 *          CAIRN_CANCELLED     `progress` said so
 *          CAIRN_ENGINE        anything else; the detail is libllama's own message
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_model_load(const cairn_llama_model_options *options,
                                                     struct llama_model **ret_model, cairn_error *reterr);

/* NULL is allowed. */
void cairn_llama_model_free(struct llama_model *model);

/* The last error message that libllama logged since the last call of this, without newline; "" for none. */
void cairn_llama_last_error(char *text, unsigned room_bytes);

#ifdef __cplusplus
}
#endif
#endif
