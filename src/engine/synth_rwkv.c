/*
 * synth_rwkv - rwkv6, rwkv7 and arwkv7: a matrix state for each head, with a decay for each channel.
 *
 * The decay is exp(-exp(d)) in version 6 and exp(-0.607 sigmoid(w)) in version 7; both are drawn for memories of some
 * to a thousand tokens. Version 7 also erases along its keys; the learning rate that governs it is drawn low, or
 * the state would forget within a hundred tokens whatever the decay is. Token shift keeps one token for each half of a
 * layer.
 */
#include <stdbool.h>

#include "engine/synth_arch.h"
#include "ggml.h"
#include "gguf.h"

enum { HEAD = 64 };

/* Low-rank corrections by the token: small, as trained ones are beside their constant parts. */
static const cairn_synth_how low_rank = {CAIRN_SYNTH_MATRIX, 0.3, 0, CAIRN_SYNTH_F32};
static const cairn_synth_how mix = {CAIRN_SYNTH_UNIFORM, 0.1, 0.9, CAIRN_SYNTH_F32};

static void rwkv_common(struct gguf_context *kv, const char *arch, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, arch, size);
    cairn_synth_set_f32(kv, arch, "attention.layer_norm_epsilon", 1e-5f);
    cairn_synth_set_u32(kv, arch, "wkv.head_size", HEAD);
}

static void rwkv6_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    rwkv_common(kv, "rwkv6", size);
    cairn_synth_set_u32(kv, "rwkv6", "time_mix_extra_dim", size->low_rank);
    cairn_synth_set_u32(kv, "rwkv6", "time_decay_extra_dim", size->low_rank);
}

static void version7(struct gguf_context *kv, const char *arch, const cairn_synth_size *size,
                     uint32_t gate_rank)
{
    rwkv_common(kv, arch, size);
    cairn_synth_set_u32(kv, arch, "attention.decay_lora_rank", size->low_rank);
    cairn_synth_set_u32(kv, arch, "attention.iclr_lora_rank", size->low_rank);
    cairn_synth_set_u32(kv, arch, "attention.value_residual_mix_lora_rank", size->low_rank);
    cairn_synth_set_u32(kv, arch, "attention.gate_lora_rank", gate_rank);
}

static void rwkv7_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    version7(kv, "rwkv7", size, size->low_rank);
}

static void arwkv7_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    version7(kv, "arwkv7", size, 0);
    cairn_synth_set_u32(kv, "arwkv7", "token_shift_count", 1);
}

static void layer_norm(cairn_synth_plan *plan, int layer, const char *weight, const char *bias)
{
    cairn_synth_add1(plan, layer, weight, cairn_synth_norm(1.0), plan->size->embd);
    cairn_synth_add1(plan, layer, bias, cairn_synth_bias(0.02), plan->size->embd);
}

static void ends(cairn_synth_plan *plan)
{
    cairn_synth_add_untied(plan);
    layer_norm(plan, -1, "token_embd_norm.weight", "token_embd_norm.bias");
    cairn_synth_add1(plan, -1, "output_norm.bias", cairn_synth_bias(0.02), plan->size->embd);
}

static void fused_mix(cairn_synth_plan *plan, int layer, int64_t kinds)
{
    const int64_t dims[4] = {plan->size->embd, 1, 1, kinds};
    cairn_synth_add4(plan, layer, "time_mix_lerp_fused.weight", mix, dims);
}

/* Squared ReLU has a mean; drawn small, so that it does not drown what depends on the context. */
static void channel_mix(cairn_synth_plan *plan, int layer, double gain)
{
    const cairn_synth_size *size = plan->size;

    cairn_synth_add1(plan, layer, "channel_mix_lerp_k.weight", mix, size->embd);
    cairn_synth_add2(plan, layer, "channel_mix_key.weight", cairn_synth_matrix(1.0), size->embd, size->ff);
    cairn_synth_add2(plan, layer, "channel_mix_value.weight", cairn_synth_matrix(gain), size->ff, size->embd);
}

static void rwkv6_time_mix(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;
    const cairn_synth_how first = {CAIRN_SYNTH_NORMAL, 0.3, 0.1, CAIRN_SYNTH_F32};
    const cairn_synth_how decay = {CAIRN_SYNTH_UNIFORM, -7.0, -2.0, CAIRN_SYNTH_F32}; /* log of the rate */
    const uint32_t embd = size->embd, rank = size->low_rank;

    cairn_synth_add2(plan, layer, "time_mix_w1.weight", low_rank, embd, rank * 5);
    cairn_synth_add3(plan, layer, "time_mix_w2.weight", low_rank, rank, embd, 5);
    cairn_synth_add1(plan, layer, "time_mix_lerp_x.weight", mix, embd);
    fused_mix(plan, layer, 5);
    cairn_synth_add2(plan, layer, "time_mix_first.weight", first, HEAD, embd / HEAD);
    cairn_synth_add1(plan, layer, "time_mix_decay.weight", decay, embd);
    cairn_synth_add2(plan, layer, "time_mix_decay_w1.weight", low_rank, embd, rank);
    cairn_synth_add2(plan, layer, "time_mix_decay_w2.weight", low_rank, rank, embd);
    cairn_synth_add2(plan, layer, "time_mix_key.weight", cairn_synth_matrix(1.0), embd, embd);
    cairn_synth_add2(plan, layer, "time_mix_value.weight", cairn_synth_matrix(1.0), embd, embd);
    cairn_synth_add2(plan, layer, "time_mix_receptance.weight", cairn_synth_matrix(1.0), embd, embd);
    cairn_synth_add2(plan, layer, "time_mix_gate.weight", cairn_synth_matrix(1.0), embd, embd);
    layer_norm(plan, layer, "time_mix_ln.weight", "time_mix_ln.bias");
    cairn_synth_add2(plan, layer, "time_mix_output.weight", cairn_synth_matrix(1.5), embd, embd);
}

static void rwkv6_layer(cairn_synth_plan *plan, int layer)
{
    const uint32_t embd = plan->size->embd;

    layer_norm(plan, layer, "attn_norm.weight", "attn_norm.bias");
    rwkv6_time_mix(plan, layer);
    layer_norm(plan, layer, "attn_norm_2.weight", "attn_norm_2.bias");
    channel_mix(plan, layer, 0.8);
    cairn_synth_add1(plan, layer, "channel_mix_lerp_r.weight", mix, embd);
    cairn_synth_add2(plan, layer, "channel_mix_receptance.weight", cairn_synth_matrix(1.0), embd, embd);
}

/* `alone`: RWKV itself, with gate and group norm; else put into a transformer, without either. */
static void rwkv7_time_mix(cairn_synth_plan *plan, int layer, bool alone)
{
    static const char *const names[3][3] = {
        {"time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight"},
        {"time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight"},
        {"time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight"}};
    const cairn_synth_how constants[3] = {
        {CAIRN_SYNTH_UNIFORM, -7.0, -1.5, CAIRN_SYNTH_F32}, /* decay */
        {CAIRN_SYNTH_NORMAL, -2.0, 0.3, CAIRN_SYNTH_F32},   /* learning rate in context */
        {CAIRN_SYNTH_NORMAL, 0.0, 0.3, CAIRN_SYNTH_F32},    /* share of the first layer's values */
    };
    const cairn_synth_how key_scale = {CAIRN_SYNTH_NORMAL, 0.85, 0.05, CAIRN_SYNTH_F32};
    const cairn_synth_how rate_share = {CAIRN_SYNTH_NORMAL, 0.5, 0.05, CAIRN_SYNTH_F32};
    const double gain = alone ? 1.0 : 0.4; /* without the group norm the state's scale shows */
    const uint32_t embd = plan->size->embd, rank = plan->size->low_rank;

    for (int i = 0; i < 3; i++) {
        cairn_synth_add1(plan, layer, names[i][0], constants[i], embd);
        cairn_synth_add2(plan, layer, names[i][1], low_rank, embd, rank);
        cairn_synth_add2(plan, layer, names[i][2], low_rank, rank, embd);
    }
    if (alone) {
        cairn_synth_add2(plan, layer, "time_mix_g1.weight", cairn_synth_matrix32(1.0), embd, rank);
        cairn_synth_add2(plan, layer, "time_mix_g2.weight", cairn_synth_matrix32(1.5), rank, embd);
        layer_norm(plan, layer, "time_mix_ln.weight", "time_mix_ln.bias");
    }
    fused_mix(plan, layer, alone ? 6 : 5);
    cairn_synth_add1(plan, layer, "time_mix_k_k.weight", key_scale, embd);
    cairn_synth_add1(plan, layer, "time_mix_k_a.weight", rate_share, embd);
    cairn_synth_add1(plan, layer, "time_mix_r_k.weight", cairn_synth_bias(0.05), embd);
    cairn_synth_add2(plan, layer, "time_mix_key.weight", cairn_synth_matrix(gain), embd, embd);
    cairn_synth_add2(plan, layer, "time_mix_value.weight", cairn_synth_matrix(1.0), embd, embd);
    cairn_synth_add2(plan, layer, "time_mix_receptance.weight", cairn_synth_matrix(gain), embd, embd);
    cairn_synth_add2(plan, layer, "time_mix_output.weight", cairn_synth_matrix(1.5), embd, embd);
}

static void rwkv7_layer(cairn_synth_plan *plan, int layer)
{
    layer_norm(plan, layer, "attn_norm.weight", "attn_norm.bias");
    rwkv7_time_mix(plan, layer, true);
    layer_norm(plan, layer, "attn_norm_2.weight", "attn_norm_2.bias");
    channel_mix(plan, layer, 0.4);
}

static void arwkv7_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    rwkv7_time_mix(plan, layer, false);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    cairn_synth_add_ffn(plan, layer, 1.0);
}

/* ---- the rows ------------------------------------------------------------------------------------ */

static const cairn_synth_size rwkv_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 1048576,
    .layers = 8,
    .embd = 256,
    .ff = 768,
    .low_rank = 32,
};

static const cairn_synth_chat rwkv_chat = {
    .template_file = "llama-cpp-rwkv-world.jinja",
    .end_of_turn = "<|endoftext|>",
};

const cairn_synth_arch cairn_synth_rwkv6 = {
    .name = "rwkv6",
    .about = "RWKV version 6",
    .chat = &rwkv_chat,
    .sizes = &rwkv_tiny,
    .sizes_count = 1,
    .metadata = rwkv6_metadata,
    .ends = ends,
    .layer = rwkv6_layer,
};

const cairn_synth_arch cairn_synth_rwkv7 = {
    .name = "rwkv7",
    .about = "RWKV version 7",
    .chat = &rwkv_chat,
    .sizes = &rwkv_tiny,
    .sizes_count = 1,
    .metadata = rwkv7_metadata,
    .ends = ends,
    .layer = rwkv7_layer,
};

const cairn_synth_arch cairn_synth_arwkv7 = {
    .name = "arwkv7",
    .about = "RWKV version 7 in the place of a transformer's attention (ARWKV)",
    .chat = &cairn_synth_chat_qwen25,
    .sizes = &rwkv_tiny,
    .sizes_count = 1,
    .metadata = arwkv7_metadata,
    .ends = cairn_synth_add_untied,
    .layer = arwkv7_layer,
};
