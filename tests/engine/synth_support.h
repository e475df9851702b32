/*
 * synth_support - what the tests of synthetic models share: a folder to write into, and libllama kept quiet.
 *
 * Thread   one
 */
#ifndef CAIRN_SYNTH_SUPPORT_H
#define CAIRN_SYNTH_SUPPORT_H

#include <stdint.h>

#include "engine/synth.h"

struct llama_model;
struct llama_context;

/* A fresh folder under the build folder; removed, with what is in it, by the second. */
const char *synth_test_folder(void);
void synth_test_folder_remove(void);

/* "<folder>/<name>"; the text is valid until the next but three calls. */
const char *synth_test_path(const char *name);

/* Make a model in the test's folder; fails the test when that fails. Gives its path, as synth_test_path does. */
const char *synth_test_make(const char *arch, const char *size, uint64_t seed, const char *name);

/* Load it with the CPU alone; fails the test on error. The caller frees. */
struct llama_model *synth_test_load(const char *path);

/* A context of one sequence. `batch` tokens at most in one decode. */
struct llama_context *synth_test_context(struct llama_model *model, uint32_t tokens, uint32_t batch);

/* The whole file; the caller frees it with free. */
uint8_t *synth_test_read(const char *path, size_t *ret_len);

/* Silence libllama but for errors; `all` false: errors too. */
void synth_test_quiet(bool errors);

#endif
