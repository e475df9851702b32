/*
 * profiles - the table of models. Each state and row size is an expression over the model's published dimensions, so
 * that a reader can check it; none is copied from elsewhere.
 *
 * Gated delta net (Qwen3.5), a layer:   heads_v x width_k x width_v  +  (kernel - 1) x (2 heads_k width_k + heads_v width_v)
 * Mamba-2 (Granite, Nemotron), a layer: heads x width x state        +  (kernel - 1) x (heads width + 2 groups state)
 * both in 32-bit floats. Rows: 16-bit keys and values.
 *
 * Check: the first gives 20,201,472 bytes for Qwen3.5-0.8B; libllama's partial state of a model with these dimensions
 * was measured at 20.2 MB, and 65,863,680 bytes (62.8 MiB) for 35B-A3B, which others report as 63 MiB.
 */
#include "profiles.h"

#include <stddef.h>
#include <string.h>

#define DELTA_NET(layers, heads_k, heads_v, width, kernel)             \
    ((uint64_t)(layers)*4 * ((uint64_t)(heads_v) * (width) * (width) + \
                             (uint64_t)((kernel)-1) * (2 * (heads_k) + (heads_v)) * (width)))
#define MAMBA2(layers, heads, width, state, groups, kernel) \
    ((uint64_t)(layers)*4 *                                 \
     ((uint64_t)(heads) * (width) * (state) +               \
      (uint64_t)((kernel)-1) * ((uint64_t)(heads) * (width) + 2 * (uint64_t)(groups) * (state))))
#define KV_ROW(layers, heads, width) ((uint64_t)(layers) * (heads) * (width)*2 * 2)

/* Copying between engine and memory: 10 GB/s, an ordinary memcpy. A state of 20.2 MB took 1 to 8 ms. */
#define MOVE_NS_BYTE 0.1
#define TAKE_NS      1e6

static const cairn_profile profiles[] = {
    {
        .name = "qwen3.5-35b-a3b",
        .source = "config.json of Qwen/Qwen3.5-35B-A3B: 40 layers, 30 gated delta net (16 key and 32 value "
                  "heads of "
                  "128, kernel 4), 10 attention (2 KV heads of 256)",
        .speed = "2,757 tokens/s, Apple M5 Max, 4 bit (magicnight/Mac-MLX issue 24); quadratic part assumed",
        .state_bytes = DELTA_NET(30, 16, 32, 128, 4),
        .row_bytes = KV_ROW(10, 2, 256),
        .batch_tokens = 512,
        .call_ns = 5e6,
        .read_ns_token = 3.5e5,
        .read_ns_token2 = 3.0,
        .move_ns_byte = MOVE_NS_BYTE,
        .take_ns = TAKE_NS,
    },
    {
        .name = "qwen3.5-0.8b",
        .source = "config.json of Qwen/Qwen3.5-0.8B: 24 layers, 18 gated delta net (16 key and 16 value "
                  "heads of 128, "
                  "kernel 4), 6 attention (2 KV heads of 256)",
        .speed = "assumed: 2,000 tokens/s, a laptop's CPU",
        .state_bytes = DELTA_NET(18, 16, 16, 128, 4),
        .row_bytes = KV_ROW(6, 2, 256),
        .batch_tokens = 512,
        .call_ns = 2e6,
        .read_ns_token = 5e5,
        .read_ns_token2 = 3.0,
        .move_ns_byte = MOVE_NS_BYTE,
        .take_ns = TAKE_NS,
    },
    {
        .name = "qwen3.5-9b",
        .source = "config.json of Qwen/Qwen3.5-9B: 32 layers, 24 gated delta net (16 key and 32 value heads "
                  "of 128, "
                  "kernel 4), 8 attention (4 KV heads of 256)",
        .speed = "assumed: 900 tokens/s, a laptop's GPU",
        .state_bytes = DELTA_NET(24, 16, 32, 128, 4),
        .row_bytes = KV_ROW(8, 4, 256),
        .batch_tokens = 512,
        .call_ns = 5e6,
        .read_ns_token = 1.1e6,
        .read_ns_token2 = 6.0,
        .move_ns_byte = MOVE_NS_BYTE,
        .take_ns = TAKE_NS,
    },
    {
        .name = "granite-4-h-small",
        .source = "config.json of ibm-granite/granite-4.0-h-small: 40 layers, 36 Mamba-2 (128 heads of 64, "
                  "state 128, "
                  "1 group, kernel 4), 4 attention (8 KV heads of 128)",
        .speed = "assumed: 700 tokens/s, a laptop's GPU",
        .state_bytes = MAMBA2(36, 128, 64, 128, 1, 4),
        .row_bytes = KV_ROW(4, 8, 128),
        .batch_tokens = 512,
        .call_ns = 5e6,
        .read_ns_token = 1.4e6,
        .read_ns_token2 = 3.0,
        .move_ns_byte = MOVE_NS_BYTE,
        .take_ns = TAKE_NS,
    },
    {
        .name = "nemotron-3-nano",
        .source = "config.json of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16: 52 layers, 23 Mamba-2 (64 "
                  "heads of 64, "
                  "state 128, 8 groups, kernel 4), 6 attention (2 KV heads of 128)",
        .speed = "assumed: 2,500 tokens/s, a laptop's GPU",
        .state_bytes = MAMBA2(23, 64, 64, 128, 8, 4),
        .row_bytes = KV_ROW(6, 2, 128),
        .batch_tokens = 512,
        .call_ns = 5e6,
        .read_ns_token = 3.8e5,
        .read_ns_token2 = 2.0,
        .move_ns_byte = MOVE_NS_BYTE,
        .take_ns = TAKE_NS,
    },
    {
        .name = "qwen3-8b",
        .source = "config.json of Qwen/Qwen3-8B, pure attention: 36 layers (8 KV heads of 128)",
        .speed = "assumed: 1,000 tokens/s, a laptop's GPU",
        .state_bytes = 0,
        .row_bytes = KV_ROW(36, 8, 128),
        .batch_tokens = 512,
        .call_ns = 5e6,
        .read_ns_token = 1.0e6,
        .read_ns_token2 = 15.0,
        .move_ns_byte = MOVE_NS_BYTE,
        .take_ns = TAKE_NS,
    },
};

const cairn_profile *cairn_profile_list(uint32_t *ret_count)
{
    *ret_count = sizeof profiles / sizeof profiles[0];
    return profiles;
}

const cairn_profile *cairn_profile_get(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        if (strcmp(profiles[i].name, name) == 0) {
            return &profiles[i];
        }
    }
    return NULL;
}

cairn_profile cairn_profile_recorded(const cairn_workload_server *server)
{
    cairn_profile profile = profiles[0];
    profile.name = "recorded";
    profile.source = profile.speed = "the trace";
    profile.state_bytes = server->state_bytes;
    profile.row_bytes = server->row_bytes;
    profile.batch_tokens = server->batch_tokens;
    if (server->read_tokens > 0 && server->read_us > 0) {
        profile.call_ns = 0;
        profile.read_ns_token = 1000.0 * (double)server->read_us / (double)server->read_tokens;
        profile.read_ns_token2 = 0;
    }
    if (server->moved_bytes > 0 && server->move_us > 0) {
        profile.take_ns = 0;
        profile.move_ns_byte = 1000.0 * (double)server->move_us / (double)server->moved_bytes;
    }
    return profile;
}

double cairn_profile_take_ns(const cairn_profile *profile)
{
    return profile->take_ns + (double)profile->state_bytes * profile->move_ns_byte;
}

double cairn_profile_read_ns(const cairn_profile *profile, uint32_t begin, uint32_t end, uint32_t batches)
{
    double n = (double)end - (double)begin;
    double square = (double)end * (double)end - (double)begin * (double)begin;
    return batches * profile->call_ns + n * profile->read_ns_token + square * profile->read_ns_token2;
}
