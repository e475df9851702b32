/*
 * model_options - the options of how a model is loaded, one list for all commands that load one.
 *
 * Thread   the main thread
 */
#ifndef CAIRN_CLI_MODEL_OPTIONS_H
#define CAIRN_CLI_MODEL_OPTIONS_H

#include "cli/options.h"

/*
 * Entries of a cairn_option array. `s` points to a struct with const char *model, *type_k, *type_v; int64_t threads, batch;
 * int flash; bool swa_full, no_repack.
 */
#define CAIRN_MODEL_OPTIONS(s)                                                                         \
    {.kind = CAIRN_OPTION_TEXT,                                                                        \
     .name = "model",                                                                                  \
     .letter = 'm',                                                                                    \
     .value = &(s)->model,                                                                             \
     .arg = "FILE",                                                                                    \
     .help = "the model, a GGUF file (required)"},                                                     \
        {.kind = CAIRN_OPTION_INT,                                                                     \
         .name = "threads",                                                                            \
         .letter = 't',                                                                                \
         .value = &(s)->threads,                                                                       \
         .arg = "N",                                                                                   \
         .min = 0,                                                                                     \
         .max = 1024,                                                                                  \
         .help = "threads that compute; 0: one for each core (0)"},                                    \
        {.kind = CAIRN_OPTION_INT,                                                                     \
         .name = "batch-size",                                                                         \
         .letter = 'b',                                                                                \
         .value = &(s)->batch,                                                                         \
         .arg = "TOKENS",                                                                              \
         .min = 0,                                                                                     \
         .max = 1 << 16,                                                                               \
         .help = "most prompt tokens read at once; 0: 512 (0)"},                                       \
        {.kind = CAIRN_OPTION_TEXT,                                                                    \
         .name = "cache-type-k",                                                                       \
         .value = &(s)->type_k,                                                                        \
         .arg = "TYPE",                                                                                \
         .help = "number format of attention keys: f16, q8_0, ... (f16)"},                             \
        {.kind = CAIRN_OPTION_TEXT,                                                                    \
         .name = "cache-type-v",                                                                       \
         .value = &(s)->type_v,                                                                        \
         .arg = "TYPE",                                                                                \
         .help = "the same for attention values (f16)"},                                               \
        {.kind = CAIRN_OPTION_WORD,                                                                    \
         .name = "flash-attn",                                                                         \
         .value = &(s)->flash,                                                                         \
         .arg = "auto|on|off",                                                                         \
         .words = "auto|on|off",                                                                       \
         .help = "flash attention; a value type other than f16 needs it (auto)"},                      \
        {.kind = CAIRN_OPTION_FLAG,                                                                    \
         .name = "swa-full",                                                                           \
         .value = &(s)->swa_full,                                                                      \
         .help = "sliding windows keep all rows: more memory, cut anywhere"},                          \
    {                                                                                                  \
        .kind = CAIRN_OPTION_FLAG, .name = "no-repack", .value = &(s)->no_repack,                      \
        .help = "use the weights as they are in the file. On CPUs with AMX that is\nslower, but lets " \
                "several slots compute their tokens at once"                                           \
    }

#endif
