/*
 * vocab_support - the Qwen3.5 vocabulary of the llama.cpp checkout, for tests that need tokens and no weights.
 */
#ifndef CAIRN_TEST_VOCAB_SUPPORT_H
#define CAIRN_TEST_VOCAB_SUPPORT_H

#include <stdio.h>

#include "cairn/status.h"
#include "llama.h"

static inline void test_vocabulary_quiet(enum ggml_log_level level, const char *text, void *context)
{
    (void)level;
    (void)text;
    (void)context;
}

/* Stops the program when the file isn't there; the caller's to free. libllama logs nothing from then on. */
static inline struct llama_model *test_vocabulary_open(void)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/models/ggml-vocab-qwen35.gguf", CAIRN_LLAMA_DATA_DIR_DEFAULT);
    struct llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    llama_log_set(test_vocabulary_quiet, NULL);
    struct llama_model *model = llama_model_load_from_file(path, params);
    CAIRN_ASSERT(model != NULL);
    return model;
}

#endif
