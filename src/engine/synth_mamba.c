/*
 * synth_mamba - architectures of Mamba 1 and 2 layers, alone (mamba, mamba2) and with attention (jamba, falcon-h1,
 * granitehybrid, nemotron_h, nemotron_h_moe, plamo2).
 *
 * A layer's state decays by exp(A dt) and takes in B x dt at each token; y = C state + D x. What keeps it alive with
 * random weights:
 *
 *  - A dt spreads over memories of tens to thousands of tokens, with dt large enough for what is taken in to count;
 *  - D, which passes the token itself by, is small;
 *  - the convolution's gain is small, so that SiLU stays near its linear part and B, C and x have no common mean;
 *  - without norms on B and C (mamba), their projection makes up for the small scale of x.
 */
#include <stdbool.h>

#include "engine/synth_arch.h"
#include "ggml.h"
#include "gguf.h"

static const cairn_synth_how pass_by = {CAIRN_SYNTH_NORMAL, 0.2, 0.05, CAIRN_SYNTH_F32};

/* ---- layers --------------------------------------------------------------------------------------------- */

/*
 * Mamba 1: a diagonal A of `state` rates for each channel. `norms`: dt, B and C are normalized. The projection of dt
 * stays 32-bit: without norms its operand is a view, and libllama v0.4.0 can't multiply that by 16-bit weights on
 * CPUs with AMX.
 */
static void mamba1(cairn_synth_plan *plan, int layer, bool norms)
{
    const cairn_synth_size *size = plan->size;
    const cairn_synth_how rates = {CAIRN_SYNTH_STATE_RAMP, 0.1, 0, CAIRN_SYNTH_F32};
    const cairn_synth_how time_steps = {CAIRN_SYNTH_SOFTPLUS_INV, 0.01, 0.3, CAIRN_SYNTH_F32};

    cairn_synth_add2(plan, layer, "ssm_in.weight", cairn_synth_matrix(1.0), size->embd, 2 * size->inner);
    cairn_synth_add2(plan, layer, "ssm_conv1d.weight", cairn_synth_convolution, 4, size->inner);
    cairn_synth_add1(plan, layer, "ssm_conv1d.bias", cairn_synth_bias(0.02), size->inner);
    cairn_synth_add2(plan, layer, "ssm_x.weight", cairn_synth_matrix(norms ? 1.0 : 5.0), size->inner,
                     size->ranks + 2 * size->state);
    cairn_synth_add2(plan, layer, "ssm_dt.weight", cairn_synth_matrix32(0.5), size->ranks, size->inner);
    cairn_synth_add1(plan, layer, "ssm_dt.bias", time_steps, size->inner);
    if (norms) {
        cairn_synth_add1(plan, layer, "ssm_dt_norm.weight", cairn_synth_norm(1.0), size->ranks);
        cairn_synth_add1(plan, layer, "ssm_b_norm.weight", cairn_synth_norm(1.0), size->state);
        cairn_synth_add1(plan, layer, "ssm_c_norm.weight", cairn_synth_norm(1.0), size->state);
    }
    cairn_synth_add2(plan, layer, "ssm_a", rates, size->state, size->inner);
    cairn_synth_add1(plan, layer, "ssm_d", pass_by, size->inner);
    cairn_synth_add2(plan, layer, "ssm_out.weight", cairn_synth_matrix(4.0), size->inner, size->embd);
}

static const cairn_synth_how head_rates = {CAIRN_SYNTH_LOG_SPREAD, -0.02, -0.5, CAIRN_SYNTH_F32};
static const cairn_synth_how head_time_steps = {CAIRN_SYNTH_SOFTPLUS_INV, 0.02, 0.5, CAIRN_SYNTH_F32};

/* Mamba 2: one rate for each head; z, x, B, C and dt come from one projection; what comes out is normalized. */
static void mamba2(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t channels = size->inner + 2 * size->groups * size->state;

    cairn_synth_add2(plan, layer, "ssm_in.weight", cairn_synth_matrix(1.0), size->embd,
                     size->inner + channels + size->ranks);
    cairn_synth_add2(plan, layer, "ssm_conv1d.weight", cairn_synth_convolution, 4, channels);
    cairn_synth_add1(plan, layer, "ssm_conv1d.bias", cairn_synth_bias(0.02), channels);
    cairn_synth_add1(plan, layer, "ssm_dt.bias", head_time_steps, size->ranks);
    cairn_synth_add2(plan, layer, "ssm_a", head_rates, 1, size->ranks);
    cairn_synth_add2(plan, layer, "ssm_d", pass_by, 1, size->ranks);
    cairn_synth_add2(plan, layer, "ssm_norm.weight", cairn_synth_norm(1.0), size->inner / size->groups,
                     size->groups);
    cairn_synth_add2(plan, layer, "ssm_out.weight", cairn_synth_matrix(1.0), size->inner, size->embd);
}

/* Attention as PLaMo 2 has it: one projection for queries, keys and values, norms for each head. */
static void plamo2_attention(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t q = size->heads * size->head_dim, kv = size->heads_kv * size->head_dim;

    cairn_synth_add2(plan, layer, "attn_qkv.weight", cairn_synth_matrix(1.0), size->embd, q + 2 * kv);
    cairn_synth_add2(plan, layer, "attn_q_norm.weight", cairn_synth_norm(1.9), size->head_dim, size->heads);
    cairn_synth_add2(plan, layer, "attn_k_norm.weight", cairn_synth_norm(1.9), size->head_dim,
                     size->heads_kv);
    cairn_synth_add2(plan, layer, "attn_output.weight", cairn_synth_matrix(1.0), q, size->embd);
}

static void plamo2_mamba(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t time = size->embd / 16 > 64 ? size->embd / 16 : 64;

    cairn_synth_add2(plan, layer, "ssm_in.weight", cairn_synth_matrix(1.0), size->embd, 2 * size->inner);
    cairn_synth_add2(plan, layer, "ssm_conv1d.weight", cairn_synth_convolution, 4, size->inner);
    cairn_synth_add2(plan, layer, "ssm_x.weight", cairn_synth_matrix(1.0), size->inner,
                     time + 2 * size->state);
    cairn_synth_add2(plan, layer, "ssm_dt.weight", cairn_synth_matrix(0.5), time, size->ranks);
    cairn_synth_add1(plan, layer, "ssm_dt.bias", head_time_steps, size->ranks);
    cairn_synth_add1(plan, layer, "ssm_a", head_rates, size->ranks);
    cairn_synth_add1(plan, layer, "ssm_d", pass_by, size->ranks);
    cairn_synth_add2(plan, layer, "ssm_out.weight", cairn_synth_matrix(1.0), size->inner, size->embd);
    cairn_synth_add1(plan, layer, "ssm_dt_norm", cairn_synth_norm(1.0), time);
    cairn_synth_add1(plan, layer, "ssm_b_norm", cairn_synth_norm(1.0), size->state);
    cairn_synth_add1(plan, layer, "ssm_c_norm", cairn_synth_norm(1.0), size->state);
}

/* ---- models --------------------------------------------------------------------------------------------------- */

static void mamba_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "mamba", size);
    cairn_synth_set_ssm(kv, "mamba", size);
    cairn_synth_set_bool(kv, "mamba", "ssm.dt_b_c_rms", false);
}

static void mamba_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    mamba1(plan, layer, false);
}

static void mamba2_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "mamba2", size);
    cairn_synth_set_ssm(kv, "mamba2", size);
}

static void mamba2_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    mamba2(plan, layer);
}

static void jamba_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "jamba", size);
    cairn_synth_set_hybrid(kv, "jamba", size, size->heads_kv);
    cairn_synth_set_ssm(kv, "jamba", size);
    cairn_synth_set_u32(kv, "jamba", "expert_count", size->experts);
    cairn_synth_set_u32(kv, "jamba", "expert_used_count", size->experts_used);
}

/* Every second layer has experts. */
static void jamba_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    if (cairn_synth_is_attention(plan->size, (uint32_t)layer))
        cairn_synth_add_attention(plan, layer, 1.9);
    else
        mamba1(plan, layer, true);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    if (layer % 2 == 1)
        cairn_synth_add_experts(plan, layer, 1.5);
    else
        cairn_synth_add_ffn(plan, layer, 1.0);
}

static void falcon_h1_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "falcon-h1", size);
    cairn_synth_set_ssm(kv, "falcon-h1", size);
    cairn_synth_set_f32(kv, "falcon-h1", "rope.freq_base", 1e11f);
}

/* Attention and Mamba side by side in every layer. */
static void falcon_h1_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    cairn_synth_add_attention(plan, layer, 1.9);
    mamba2(plan, layer);
    cairn_synth_add1(plan, layer, "ffn_norm", cairn_synth_norm(1.0), plan->size->embd);
    cairn_synth_add_ffn(plan, layer, 1.0);
}

static void granitehybrid_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "granitehybrid", size);
    cairn_synth_set_hybrid(kv, "granitehybrid", size, size->heads_kv);
    cairn_synth_set_ssm(kv, "granitehybrid", size);
    cairn_synth_set_bool(kv, "granitehybrid", "rope.scaling.finetuned", false); /* no position encoding */
    cairn_synth_set_f32(kv, "granitehybrid", "embedding_scale", 12.0f);
    cairn_synth_set_f32(kv, "granitehybrid", "residual_scale", 0.5f);
    cairn_synth_set_f32(kv, "granitehybrid", "logit_scale", 2.0f);
    cairn_synth_set_f32(kv, "granitehybrid", "attention.scale", 0.125f);
}

static void granitehybrid_ends(cairn_synth_plan *plan)
{
    cairn_synth_add_embedding(plan, 0.006, 40.0);
}

static void granitehybrid_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    if (cairn_synth_is_attention(plan->size, (uint32_t)layer))
        cairn_synth_add_attention(plan, layer, 1.9);
    else
        mamba2(plan, layer);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    cairn_synth_add_ffn(plan, layer, 1.0);
}

/* Nemotron-H: a layer is one of the three. */
static char nemotron_kind(uint32_t layer)
{
    return "M-M*M-"[layer % 6];
}

static void nemotron_metadata(struct gguf_context *kv, const char *arch, const cairn_synth_size *size)
{
    uint32_t heads[CAIRN_SYNTH_LAYERS_MAX], ff[CAIRN_SYNTH_LAYERS_MAX];

    cairn_synth_set_common(kv, arch, size);
    for (uint32_t layer = 0; layer < size->layers; layer++) {
        heads[layer] = nemotron_kind(layer) == '*' ? size->heads_kv : 0;
        ff[layer] = nemotron_kind(layer) == '-' ? size->ff : 0;
    }
    cairn_synth_set_u32s(kv, arch, "attention.head_count_kv", heads, size->layers);
    cairn_synth_set_u32s(kv, arch, "feed_forward_length", ff, size->layers);
    cairn_synth_set_f32(kv, arch, "attention.layer_norm_epsilon", 1e-5f);
    cairn_synth_set_ssm(kv, arch, size);
}

static void nemotron_h_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    nemotron_metadata(kv, "nemotron_h", size);
}

static void nemotron_h_moe_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    nemotron_metadata(kv, "nemotron_h_moe", size);
    cairn_synth_set_experts(kv, "nemotron_h_moe", size);
    cairn_synth_set_u32(kv, "nemotron_h_moe", "expert_shared_feed_forward_length", size->expert_ff);
    cairn_synth_set_u32(kv, "nemotron_h_moe", "expert_shared_count", 1);
    cairn_synth_set_bool(kv, "nemotron_h_moe", "expert_weights_norm", true);
    cairn_synth_set_f32(kv, "nemotron_h_moe", "expert_weights_scale", 2.5f);
}

/* Feed-forward without a gate: squared ReLU. */
static void nemotron_ffn(cairn_synth_plan *plan, int layer, bool experts)
{
    const cairn_synth_size *size = plan->size;

    if (!experts) {
        cairn_synth_add2(plan, layer, "ffn_up.weight", cairn_synth_matrix(1.0), size->embd, size->ff);
        cairn_synth_add2(plan, layer, "ffn_down.weight", cairn_synth_matrix(0.6), size->ff, size->embd);
        return;
    }
    cairn_synth_add2(plan, layer, "ffn_gate_inp.weight", cairn_synth_matrix32(1.0), size->embd,
                     size->experts);
    cairn_synth_add1(plan, layer, "exp_probs_b.bias", cairn_synth_bias(0.05), size->experts);
    cairn_synth_add3(plan, layer, "ffn_up_exps.weight", cairn_synth_matrix(1.0), size->embd, size->expert_ff,
                     size->experts);
    cairn_synth_add3(plan, layer, "ffn_down_exps.weight", cairn_synth_matrix(0.3), size->expert_ff,
                     size->embd, size->experts);
    cairn_synth_add2(plan, layer, "ffn_up_shexp.weight", cairn_synth_matrix(1.0), size->embd,
                     size->expert_ff);
    cairn_synth_add2(plan, layer, "ffn_down_shexp.weight", cairn_synth_matrix(0.5), size->expert_ff,
                     size->embd);
}

static void nemotron_layer(cairn_synth_plan *plan, int layer, bool experts)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    if (nemotron_kind((uint32_t)layer) == '*')
        cairn_synth_add_attention(plan, layer, 1.9);
    else if (nemotron_kind((uint32_t)layer) == '-')
        nemotron_ffn(plan, layer, experts);
    else
        mamba2(plan, layer);
}

static void nemotron_h_layer(cairn_synth_plan *plan, int layer)
{
    nemotron_layer(plan, layer, false);
}

static void nemotron_h_moe_layer(cairn_synth_plan *plan, int layer)
{
    nemotron_layer(plan, layer, true);
}

/*
 * The first of four layers is attention here. In PLaMo 2 it is the third, but libllama v0.4.0 takes the rotated
 * width of all layers from layer 0, and its rope never returns for a width of 0.
 */
static bool plamo2_is_attention(const cairn_synth_size *size, int layer)
{
    return layer % (int)size->attention_every == 0;
}

static void plamo2_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    uint32_t heads[CAIRN_SYNTH_LAYERS_MAX], heads_kv[CAIRN_SYNTH_LAYERS_MAX];

    cairn_synth_set_common(kv, "plamo2", size);
    for (uint32_t layer = 0; layer < size->layers; layer++) {
        heads[layer] = plamo2_is_attention(size, (int)layer) ? size->heads : 0;
        heads_kv[layer] = plamo2_is_attention(size, (int)layer) ? size->heads_kv : 0;
    }
    cairn_synth_set_u32s(kv, "plamo2", "attention.head_count", heads, size->layers);
    cairn_synth_set_u32s(kv, "plamo2", "attention.head_count_kv", heads_kv, size->layers);
    cairn_synth_set_f32(kv, "plamo2", "rope.freq_base", 10000.0f);
    cairn_synth_set_ssm(kv, "plamo2", size);
    cairn_synth_set_u32(kv, "plamo2", "ssm.group_count", 0);
}

static void plamo2_layer(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;

    cairn_synth_add_norm(plan, layer, "attn_norm");
    if (plamo2_is_attention(size, layer))
        plamo2_attention(plan, layer);
    else
        plamo2_mamba(plan, layer);
    cairn_synth_add1(plan, layer, "post_attention_norm", cairn_synth_norm(1.0), size->embd);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    cairn_synth_add2(plan, layer, "ffn_down.weight", cairn_synth_matrix(1.0), size->ff, size->embd);
    cairn_synth_add2(plan, layer, "ffn_up.weight", cairn_synth_matrix(1.0), size->embd, 2 * size->ff);
    cairn_synth_add1(plan, layer, "post_ffw_norm", cairn_synth_norm(1.0), size->embd);
}

/* ---- the rows ------------------------------------------------------------------------------------ */

static const cairn_synth_size mamba_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 1048576,
    .layers = 12,
    .embd = 256,
    .state = 16,
    .ranks = 16,
    .inner = 512,
};

static const cairn_synth_size mamba2_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 1048576,
    .layers = 10,
    .embd = 256,
    .state = 64,
    .groups = 1,
    .ranks = 8,
    .inner = 512,
};

static const cairn_synth_size jamba_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 262144,
    .layers = 8,
    .embd = 256,
    .ff = 256,
    .heads = 4,
    .heads_kv = 2,
    .head_dim = 64,
    .attention_every = 4,
    .state = 16,
    .ranks = 16,
    .inner = 512,
    .experts = 4,
    .experts_used = 2,
    .expert_ff = 256,
};

static const cairn_synth_size hybrid_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 131072,
    .layers = 8,
    .embd = 256,
    .ff = 512,
    .heads = 4,
    .heads_kv = 2,
    .head_dim = 64,
    .attention_every = 4,
    .state = 64,
    .groups = 1,
    .ranks = 8,
    .inner = 512,
};

static const cairn_synth_size nemotron_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 131072,
    .layers = 12,
    .embd = 256,
    .ff = 768,
    .heads = 4,
    .heads_kv = 2,
    .head_dim = 64,
    .state = 64,
    .groups = 2,
    .ranks = 8,
    .inner = 512,
    .experts = 8,
    .experts_used = 2,
    .expert_ff = 256,
};

static const cairn_synth_size plamo2_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 131072,
    .layers = 8,
    .embd = 256,
    .ff = 512,
    .heads = 4,
    .heads_kv = 2,
    .head_dim = 64,
    .attention_every = 4,
    .state = 64,
    .ranks = 8,
    .inner = 512,
};

static const char *const granite_specials[] = {"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>",
                                               NULL};
static const char *const nemotron_specials[] = {"<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>",
                                                "+<think>",     "+</think>",    NULL};

static const cairn_synth_chat granite_chat = {
    .specials = granite_specials,
    .template_file = "ibm-granite-granite-4.0.jinja",
    .end_of_turn = "<|end_of_text|>",
};
static const cairn_synth_chat nemotron_chat = {
    .specials = nemotron_specials,
    .template_file = "NVIDIA-Nemotron-Nano-v2.jinja",
    .end_of_turn = "<SPECIAL_12>",
};
static const cairn_synth_chat nemotron3_chat = {
    .specials = cairn_synth_qwen_specials,
    .template_file = "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja",
    .end_of_turn = "<|im_end|>",
};

const cairn_synth_arch cairn_synth_mamba = {
    .name = "mamba",
    .about = "Mamba layers alone",
    .chat = &cairn_synth_chat_qwen25,
    .sizes = &mamba_tiny,
    .sizes_count = 1,
    .metadata = mamba_metadata,
    .ends = cairn_synth_add_tied,
    .layer = mamba_layer,
};

const cairn_synth_arch cairn_synth_mamba2 = {
    .name = "mamba2",
    .about = "Mamba 2 layers alone",
    .chat = &cairn_synth_chat_qwen25,
    .sizes = &mamba2_tiny,
    .sizes_count = 1,
    .metadata = mamba2_metadata,
    .ends = cairn_synth_add_tied,
    .layer = mamba2_layer,
};

const cairn_synth_arch cairn_synth_jamba = {
    .name = "jamba",
    .about = "Mamba and attention, three to one, every second layer with experts (Jamba)",
    .chat = &cairn_synth_chat_qwen25,
    .sizes = &jamba_tiny,
    .sizes_count = 1,
    .metadata = jamba_metadata,
    .ends = cairn_synth_add_tied,
    .layer = jamba_layer,
};

const cairn_synth_arch cairn_synth_falcon_h1 = {
    .name = "falcon-h1",
    .about = "Mamba 2 and attention side by side in every layer (Falcon-H1)",
    .chat = &cairn_synth_chat_qwen25,
    .sizes = &hybrid_tiny,
    .sizes_count = 1,
    .metadata = falcon_h1_metadata,
    .ends = cairn_synth_add_tied,
    .layer = falcon_h1_layer,
};

const cairn_synth_arch cairn_synth_granitehybrid = {
    .name = "granitehybrid",
    .about = "Mamba 2 and attention, three to one (Granite 4 H)",
    .chat = &granite_chat,
    .sizes = &hybrid_tiny,
    .sizes_count = 1,
    .metadata = granitehybrid_metadata,
    .ends = granitehybrid_ends,
    .layer = granitehybrid_layer,
};

const cairn_synth_arch cairn_synth_nemotron_h = {
    .name = "nemotron_h",
    .about = "Mamba 2, attention or feed-forward in each layer (Nemotron-H)",
    .chat = &nemotron_chat,
    .sizes = &nemotron_tiny,
    .sizes_count = 1,
    .metadata = nemotron_h_metadata,
    .ends = cairn_synth_add_untied,
    .layer = nemotron_h_layer,
};

const cairn_synth_arch cairn_synth_nemotron_h_moe = {
    .name = "nemotron_h_moe",
    .about = "Mamba 2, attention or experts in each layer (Nemotron 3 Nano)",
    .chat = &nemotron3_chat,
    .sizes = &nemotron_tiny,
    .sizes_count = 1,
    .metadata = nemotron_h_moe_metadata,
    .ends = cairn_synth_add_untied,
    .layer = nemotron_h_moe_layer,
};

const cairn_synth_arch cairn_synth_plamo2 = {
    .name = "plamo2",
    .about = "Mamba 2 and attention, three to one, with norms after each (PLaMo 2)",
    .chat = &cairn_synth_chat_qwen25,
    .sizes = &plamo2_tiny,
    .sizes_count = 1,
    .metadata = plamo2_metadata,
    .ends = cairn_synth_add_tied,
    .layer = plamo2_layer,
};
