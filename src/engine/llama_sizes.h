/*
 * llama_sizes - what libllama holds in main memory for a context. In C++, as libllama tells it in a std::map only.
 *
 * It also tells it of a model that was loaded with `no_alloc`: then what it would hold.
 *
 * Thread   as the context
 * Relies   llama-ext.h@v0.4.0: llama_get_memory_breakdown
 */
#ifndef CAIRN_ENGINE_LLAMA_SIZES_H
#define CAIRN_ENGINE_LLAMA_SIZES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct llama_context;

typedef struct llama_sizes {
    uint64_t weight_bytes;  /* of the model: the same for each of its contexts */
    uint64_t context_bytes; /* K/V, recurrent cells                            */
    uint64_t compute_bytes; /* buffers for computing                           */
} llama_sizes;

/* What GPUs hold is not counted. */
void cairn_llama_sizes_get(const struct llama_context *context, llama_sizes *ret_sizes);

#ifdef __cplusplus
}
#endif
#endif
