/*
 * synth_kimi - kimi-linear: delta attention whose decay differs by channel, with latent attention in every fourth
 * layer, and experts.
 *
 * The same care as in synth_delta: decays over tens to thousands of tokens, and convolutions small enough for SiLU to
 * stay near its linear part.
 */
#include "engine/synth_arch.h"
#include "ggml.h"
#include "gguf.h"

enum { LATENT = 128, ROTATED = 32, DENSE_LAYERS = 1, SIGMOID_GATES = 2 };

static void kimi_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    const char *arch = "kimi-linear";

    cairn_synth_set_common(kv, arch, size);
    cairn_synth_set_hybrid(kv, arch, size, 1); /* one latent head, shared */
    cairn_synth_set_u32(kv, arch, "attention.kv_lora_rank", LATENT);
    cairn_synth_set_u32(kv, arch, "attention.key_length", LATENT + ROTATED);
    cairn_synth_set_u32(kv, arch, "attention.value_length", LATENT);
    cairn_synth_set_u32(kv, arch, "attention.key_length_mla", size->head_dim + ROTATED);
    cairn_synth_set_u32(kv, arch, "attention.value_length_mla", size->head_dim);
    cairn_synth_set_u32(kv, arch, "rope.dimension_count", ROTATED);
    cairn_synth_set_u32(kv, arch, "ssm.conv_kernel", 4);
    cairn_synth_set_u32(kv, arch, "kda.head_dim", size->head_dim);
    cairn_synth_set_experts(kv, arch, size);
    cairn_synth_set_u32(kv, arch, "expert_shared_count", 1);
    cairn_synth_set_u32(kv, arch, "leading_dense_block_count", DENSE_LAYERS);
    cairn_synth_set_f32(kv, arch, "expert_weights_scale", 2.446f);
    cairn_synth_set_u32(kv, arch, "expert_gating_func", SIGMOID_GATES);
}

static void delta_layer(cairn_synth_plan *plan, int layer)
{
    static const char *const convolutions[] = {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
                                               "ssm_conv1d_v.weight"};
    static const char *const projections[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight"};
    const cairn_synth_size *size = plan->size;
    const uint32_t head = size->head_dim, width = head * size->heads;

    for (int i = 0; i < 3; i++) {
        cairn_synth_add2(plan, layer, projections[i], cairn_synth_matrix(1.0), size->embd, width);
        cairn_synth_add3(plan, layer, convolutions[i], cairn_synth_convolution, 4, 1, width);
    }
    cairn_synth_add2(plan, layer, "ssm_f_a.weight", cairn_synth_matrix(1.0), size->embd, head);
    cairn_synth_add2(plan, layer, "ssm_f_b.weight", cairn_synth_matrix(0.5), head, width);
    cairn_synth_add2(plan, layer, "ssm_beta.weight", cairn_synth_matrix(1.0), size->embd, size->heads);
    cairn_synth_add2(plan, layer, "ssm_a", cairn_synth_delta_rates, 1, size->heads);
    cairn_synth_add1(plan, layer, "ssm_dt.bias", cairn_synth_delta_time_steps, width);
    cairn_synth_add2(plan, layer, "ssm_g_a.weight", cairn_synth_matrix(1.0), size->embd, head);
    cairn_synth_add2(plan, layer, "ssm_g_b.weight", cairn_synth_matrix(1.0), head, width);
    cairn_synth_add1(plan, layer, "ssm_norm.weight", cairn_synth_norm(1.0), head);
    cairn_synth_add2(plan, layer, "attn_output.weight", cairn_synth_matrix(1.5), width, size->embd);
}

/*
 * Queries are as wide as keys; the latent vector is expanded to keys and values of each head. The two expansions stay
 * 32-bit: on CPUs with AMX, libllama v0.4.0 puts quantized ones where it then can't multiply them.
 */
static void latent_layer(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t head = size->head_dim;

    cairn_synth_add2(plan, layer, "attn_q.weight", cairn_synth_matrix(1.9), size->embd,
                     size->heads * (head + ROTATED));
    cairn_synth_add2(plan, layer, "attn_kv_a_mqa.weight", cairn_synth_matrix(1.9), size->embd,
                     LATENT + ROTATED);
    cairn_synth_add1(plan, layer, "attn_kv_a_norm.weight", cairn_synth_norm(1.0), LATENT);
    cairn_synth_add3(plan, layer, "attn_k_b.weight", cairn_synth_matrix32(1.9), head, LATENT, size->heads);
    cairn_synth_add3(plan, layer, "attn_v_b.weight", cairn_synth_matrix32(1.0), LATENT, head, size->heads);
    cairn_synth_add2(plan, layer, "attn_output.weight", cairn_synth_matrix(1.5), size->heads * head,
                     size->embd);
}

static void kimi_layer(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;

    cairn_synth_add_norm(plan, layer, "attn_norm");
    if (cairn_synth_is_attention(size, (uint32_t)layer))
        latent_layer(plan, layer);
    else
        delta_layer(plan, layer);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    if (layer < DENSE_LAYERS) {
        cairn_synth_add_ffn(plan, layer, 1.0);
        return;
    }
    cairn_synth_add_experts(plan, layer, 0.6);
    cairn_synth_add1(plan, layer, "exp_probs_b.bias", cairn_synth_bias(0.05), size->experts);
    cairn_synth_add_shared_expert(plan, layer, size->expert_ff, 1.0);
}

/* ---- the rows ------------------------------------------------------------------------------------ */

static const cairn_synth_size kimi_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 5000,
    .context = 1048576,
    .layers = 8,
    .embd = 256,
    .ff = 512,
    .heads = 4,
    .heads_kv = 4,
    .head_dim = 64,
    .attention_every = 4,
    .experts = 8,
    .experts_used = 2,
    .expert_ff = 128,
};

static const char *const kimi_specials[] = {"<|im_user|>",
                                            "<|im_assistant|>",
                                            "<|im_system|>",
                                            "<|im_middle|>",
                                            "<|tool_calls_section_begin|>",
                                            "<|tool_calls_section_end|>",
                                            "<|tool_call_begin|>",
                                            "<|tool_call_argument_begin|>",
                                            "<|tool_call_end|>",
                                            NULL};

static const cairn_synth_chat kimi_chat = {
    .specials = kimi_specials,
    .template_file = "moonshotai-Kimi-K2.jinja",
    .end_of_turn = "<|im_end|>",
};

const cairn_synth_arch cairn_synth_kimi_linear = {
    .name = "kimi-linear",
    .about = "delta attention with a decay for each channel and latent attention, three to one (Kimi Linear)",
    .chat = &kimi_chat,
    .sizes = &kimi_tiny,
    .sizes_count = 1,
    .metadata = kimi_metadata,
    .ends = cairn_synth_add_untied,
    .layer = kimi_layer,
};
