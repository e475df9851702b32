/* See llama_sizes.h. */
#include "engine/llama_sizes.h"

#include "ggml-backend.h"
#include <src/llama-ext.h>

static bool is_main_memory(ggml_backend_buffer_type_t type)
{
    ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    return device == nullptr || ggml_backend_buft_is_host(type) ||
           ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU;
}

extern "C" void cairn_llama_sizes_get(const struct llama_context *context, llama_sizes *ret_sizes)
{
    *ret_sizes = llama_sizes{};
    for (const auto &[type, data] : llama_get_memory_breakdown(context)) {
        if (!is_main_memory(type))
            continue;
        ret_sizes->weight_bytes += data.model;
        ret_sizes->context_bytes += data.context;
        ret_sizes->compute_bytes += data.compute;
    }
}
