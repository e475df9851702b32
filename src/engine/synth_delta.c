/*
 * synth_delta - architectures of the gated delta rule (qwen35).
 *
 * Three layers of four carry a matrix state S of each head, updated by S <- exp(g) S + beta (v - S k) k', where
 * g = -A softplus(alpha x + dt). Keys and values go through a short convolution and SiLU first. What keeps such a layer
 * alive with random weights:
 *
 *  - A softplus(dt) spreads over 1/2000 to 1/8: memories of tens to thousands of tokens, as in trained files;
 *  - the convolution's gain is small, so that SiLU stays near its linear part: its mean would otherwise be common to
 *    all keys, and old content would drown in it;
 *  - queries and keys are normalized by the graph, values by the gated norm, so scales elsewhere do not matter.
 */
#include <stdbool.h>

#include "engine/synth_arch.h"

#include "ggml.h"
#include "gguf.h"

static void delta_metadata(struct gguf_context *kv, const char *arch, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, arch, size);
    cairn_synth_set_u32(kv, arch, "rope.dimension_count",
                        size->head_dim / 4); /* a quarter, as in real files */
    cairn_synth_set_f32(kv, arch, "rope.freq_base", 1e7f);
    cairn_synth_set_u32(kv, arch, "full_attention_interval", size->attention_every);
    cairn_synth_set_ssm(kv, arch, size);
}

static void set_sections(struct gguf_context *kv, const char *key, const cairn_synth_size *size)
{
    const int32_t pairs = (int32_t)size->head_dim / 8;
    const int32_t sections[4] = {pairs - 2 * (pairs / 3), pairs / 3, pairs / 3, 0};

    gguf_set_arr_data(kv, key, GGUF_TYPE_INT32, sections, 4);
}

static void qwen35_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    delta_metadata(kv, "qwen35", size);
    set_sections(kv, "qwen35.rope.dimension_sections", size);
}

static void qwen35moe_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    delta_metadata(kv, "qwen35moe", size);
    set_sections(kv, "qwen35moe.rope.dimension_sections", size);
    cairn_synth_set_experts(kv, "qwen35moe", size);
    cairn_synth_set_u32(kv, "qwen35moe", "expert_shared_feed_forward_length", size->expert_ff);
}

static void qwen3next_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    delta_metadata(kv, "qwen3next", size);
    cairn_synth_set_experts(kv, "qwen3next", size);
    cairn_synth_set_u32(kv, "qwen3next", "expert_shared_feed_forward_length", size->expert_ff);
}

/* Attention whose query projection also makes a gate for its output. */
static void gated_attention(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t q = size->heads * size->head_dim;

    cairn_synth_add_qkv(plan, layer, 1.0, 2 * q);
    cairn_synth_add_head_norms(plan, layer, 1.5);
    cairn_synth_add2(plan, layer, "attn_output.weight", cairn_synth_matrix(2.0), q, size->embd);
}

/* `fused`: beta and alpha come from one projection, as in Qwen3-Next. */
static void gated_delta(cairn_synth_plan *plan, int layer, bool fused)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t channels = 2 * size->groups * size->state + size->inner;

    cairn_synth_add2(plan, layer, "attn_qkv.weight", cairn_synth_matrix(1.0), size->embd, channels);
    cairn_synth_add2(plan, layer, "attn_gate.weight", cairn_synth_matrix(1.0), size->embd, size->inner);
    cairn_synth_add2(plan, layer, "ssm_conv1d.weight", cairn_synth_convolution, 4, channels);
    cairn_synth_add1(plan, layer, "ssm_dt.bias", cairn_synth_delta_time_steps, size->ranks);
    cairn_synth_add1(plan, layer, "ssm_a", cairn_synth_delta_rates, size->ranks);
    if (fused) {
        cairn_synth_add2(plan, layer, "ssm_ba.weight", cairn_synth_matrix(0.7), size->embd, 2 * size->ranks);
    } else {
        cairn_synth_add2(plan, layer, "ssm_beta.weight", cairn_synth_matrix(1.0), size->embd, size->ranks);
        cairn_synth_add2(plan, layer, "ssm_alpha.weight", cairn_synth_matrix(0.5), size->embd, size->ranks);
    }
    cairn_synth_add1(plan, layer, "ssm_norm.weight", cairn_synth_norm(1.0), size->inner / size->ranks);
    cairn_synth_add2(plan, layer, "ssm_out.weight", cairn_synth_matrix(1.2), size->inner, size->embd);
}

static void mixer(cairn_synth_plan *plan, int layer, bool fused)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    if (cairn_synth_is_attention(plan->size, (uint32_t)layer))
        gated_attention(plan, layer);
    else
        gated_delta(plan, layer, fused);
    cairn_synth_add_norm(plan, layer, "post_attention_norm");
}

static void qwen35_layer(cairn_synth_plan *plan, int layer)
{
    mixer(plan, layer, false);
    cairn_synth_add_ffn(plan, layer, 1.0);
}

static void experts_layer(cairn_synth_plan *plan, int layer, bool fused)
{
    const cairn_synth_size *size = plan->size;

    mixer(plan, layer, fused);
    cairn_synth_add_experts(plan, layer, 1.5);
    cairn_synth_add1(plan, layer, "ffn_gate_inp_shexp.weight", cairn_synth_matrix32(1.0), size->embd);
    cairn_synth_add_shared_expert(plan, layer, size->expert_ff, 1.0);
}

static void qwen35moe_layer(cairn_synth_plan *plan, int layer)
{
    experts_layer(plan, layer, false);
}

static void qwen3next_layer(cairn_synth_plan *plan, int layer)
{
    experts_layer(plan, layer, true);
}

static const cairn_synth_size qwen35_sizes[] = {
    {.name = "tiny",
     .weight_type = GGML_TYPE_F16,
     .vocab_merges = 12000,
     .context = 262144,
     .layers = 8,
     .embd = 256,
     .ff = 512,
     .heads = 4,
     .heads_kv = 2,
     .head_dim = 64,
     .attention_every = 4,
     .state = 64,
     .groups = 4,
     .ranks = 4,
     .inner = 256},
    {.name = "small",
     .weight_type = GGML_TYPE_Q8_0,
     .vocab_merges = 40000,
     .context = 262144,
     .layers = 12,
     .embd = 512,
     .ff = 1536,
     .heads = 8,
     .heads_kv = 2,
     .head_dim = 128,
     .attention_every = 4,
     .state = 128,
     .groups = 4,
     .ranks = 4,
     .inner = 512},
    {.name = "0.8b",
     .weight_type = GGML_TYPE_Q8_0,
     .vocab_size = 248320,
     .context = 262144,
     .layers = 24,
     .embd = 1024,
     .ff = 3584,
     .heads = 8,
     .heads_kv = 2,
     .head_dim = 256,
     .attention_every = 4,
     .state = 128,
     .groups = 16,
     .ranks = 16,
     .inner = 2048},
};

static const cairn_synth_size experts_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 5000,
    .context = 262144,
    .layers = 8,
    .embd = 256,
    .ff = 512,
    .heads = 4,
    .heads_kv = 2,
    .head_dim = 64,
    .attention_every = 4,
    .state = 64,
    .groups = 2,
    .ranks = 4,
    .inner = 256,
    .experts = 8,
    .experts_used = 2,
    .expert_ff = 128,
};

static const cairn_synth_chat qwen35_chat = {
    .specials = cairn_synth_qwen_specials,
    .template_file = "Qwen3.5-4B.jinja",
    .end_of_turn = "<|im_end|>",
};

const cairn_synth_arch cairn_synth_qwen35 = {
    .name = "qwen35",
    .about = "gated delta rule and attention, three to one (Qwen3.5, Qwen3.6)",
    .vocab_pre = "qwen35",
    .chat = &qwen35_chat,
    .sizes = qwen35_sizes,
    .sizes_count = sizeof(qwen35_sizes) / sizeof(qwen35_sizes[0]),
    .metadata = qwen35_metadata,
    .ends = cairn_synth_add_tied,
    .layer = qwen35_layer,
};

const cairn_synth_arch cairn_synth_qwen35moe = {
    .name = "qwen35moe",
    .about = "gated delta rule and attention, three to one, with experts (Qwen3.5-35B-A3B)",
    .vocab_pre = "qwen35",
    .chat = &qwen35_chat,
    .sizes = &experts_tiny,
    .sizes_count = 1,
    .metadata = qwen35moe_metadata,
    .ends = cairn_synth_add_untied,
    .layer = qwen35moe_layer,
};

const cairn_synth_arch cairn_synth_qwen3next = {
    .name = "qwen3next",
    .about = "gated delta rule and attention, three to one, with experts (Qwen3-Next)",
    .chat = &cairn_synth_chat_qwen3,
    .sizes = &experts_tiny,
    .sizes_count = 1,
    .metadata = qwen3next_metadata,
    .ends = cairn_synth_add_untied,
    .layer = qwen3next_layer,
};
