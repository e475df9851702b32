/*
 * synth - model files with random weights, made here, for tests, demos and benchmarks.
 *
 * A synthetic model is a complete GGUF file of a real architecture: the tensors that converted models have and
 * no others, the real models' tokenizer (cut to size) and chat template; every server of the llama.cpp family
 * loads it. Its answers are nonsense, but they depend on every token of their context as a trained
 * model's do: a recurrent state of other tokens changes the logits clearly. That is what makes it fit to prove that
 * resuming is exact.
 *
 *   options --> vocabulary, metadata, tensors --> file.part --> libllama opens it --> file
 *
 * Units    sizes in bytes
 * Owner    options and their strings are borrowed for the call
 * Thread   any, but see Caveats of cairn_synth_write; not two at once with the same path
 * See      docs/internals/synth.md, src/engine/synth_arch.h for the table
 */
#ifndef CAIRN_ENGINE_SYNTH_H
#define CAIRN_ENGINE_SYNTH_H

#include <stddef.h>
#include <stdint.h>

#include "cairn/mem.h"
#include "cairn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_synth_options {
    const char *arch; /* "qwen35"; see cairn_synth_list */
    const char *size; /* "tiny", "small", "0.8b"; see cairn_synth_list */
    uint64_t seed;    /* other seeds give other weights, all else equal */
    /* The llama.cpp source's models/, with vocabularies and templates; NULL: the one cairn was built with. */
    const char *models_dir;
    const char *vocab_path;    /* GGUF file with a byte-pair vocabulary; NULL: the architecture's own */
    const char *template_path; /* chat template; NULL: the architecture's own */
    cairn_mem *mem;            /* NULL: cairn_mem_default() */
} cairn_synth_options;

/* One architecture and one size that can be made. All strings are constants. */
typedef struct cairn_synth_choice {
    const char *arch;
    const char *size;
    const char *about; /* one line about the architecture */
} cairn_synth_choice;

/*
 * Called now and then while a file is written.
 *
 * After    true: go on. false: stop; the call returns CAIRN_CANCELLED and leaves no file.
 */
typedef bool (*cairn_synth_progress)(uint64_t done_bytes, uint64_t total_bytes, void *ctx);

/*
 * What can be made: fill choices[0, min(room, count)).
 *
 *   choices  [out]  cairn_synth_choice[room]; NULL is allowed with room 0
 *
 * After    gives the count of all choices, which may be larger than room
 */
size_t cairn_synth_list(cairn_synth_choice *choices, size_t room);

/*
 * Write a model file. The same options give the same bytes, on any machine and build of the same libllama.
 *
 *   options   [in]  arch and size are required
 *   path      [in]  the file to make; a file of that name is replaced only when the new one is complete
 *   progress  [in]  may be NULL
 *
 * After    CAIRN_OK: `path` is the model. Otherwise: nothing is left behind, what was there before is untouched.
 * Errors   CAIRN_INVALID   unknown architecture or size; the detail names what exists, as far as it fits
 *          CAIRN_NOTFOUND, CAIRN_IO, CAIRN_NOSPACE  vocabulary, template or output file
 *          CAIRN_CORRUPT   the vocabulary file is no GGUF file with a byte-pair vocabulary
 *          CAIRN_ENGINE    this build of libllama refuses the file (it does not know the architecture)
 *          CAIRN_CANCELLED, CAIRN_NOMEM
 * Cost     tiny: about a tenth of a second; 0.8b: some seconds and 0.8 GB on disk. Memory: the vocabulary
 *          and 8 MB
 * Caveats  loads libllama's back ends (llama_load.h); its messages go where cairn_llama_log_set says
 * Test     tests/engine/test_synth.c
 */
CAIRN_MUST_CHECK cairn_status cairn_synth_write(const cairn_synth_options *options, const char *path,
                                                cairn_synth_progress progress, void *progress_ctx,
                                                cairn_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
