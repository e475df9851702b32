/*
 * synth_lfm2 - lfm2 and lfm2moe: gated short convolutions, with attention in every third layer.
 *
 * The state is what a convolution of three needs: the last two tokens of each such layer. It holds more than those two
 * tokens only through what the layers below put into them, so attention is drawn sharp.
 */
#include "engine/synth_arch.h"
#include "ggml.h"
#include "gguf.h"

enum { CONVOLUTION = 3, DENSE_LAYERS = 2, SIGMOID_GATES = 2 };

static void lfm2_common(struct gguf_context *kv, const char *arch, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, arch, size);
    cairn_synth_set_hybrid(kv, arch, size, size->heads_kv);
    cairn_synth_set_u32(kv, arch, "shortconv.l_cache", CONVOLUTION);
    cairn_synth_set_f32(kv, arch, "rope.freq_base", 1e6f);
}

static void lfm2_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    lfm2_common(kv, "lfm2", size);
}

static void lfm2moe_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    lfm2_common(kv, "lfm2moe", size);
    cairn_synth_set_experts(kv, "lfm2moe", size);
    cairn_synth_set_u32(kv, "lfm2moe", "leading_dense_block_count", DENSE_LAYERS);
    cairn_synth_set_u32(kv, "lfm2moe", "expert_gating_func", SIGMOID_GATES);
}

static void mixer(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;

    cairn_synth_add_norm(plan, layer, "attn_norm");
    if (cairn_synth_is_attention(size, (uint32_t)layer)) {
        cairn_synth_add_attention(plan, layer, 1.0);
        cairn_synth_add_head_norms(plan, layer, 1.9);
        return;
    }
    cairn_synth_add2(plan, layer, "shortconv.conv.weight", cairn_synth_matrix32(1.0), CONVOLUTION,
                     size->embd);
    cairn_synth_add2(plan, layer, "shortconv.in_proj.weight", cairn_synth_matrix(1.0), size->embd,
                     3 * size->embd);
    cairn_synth_add2(plan, layer, "shortconv.out_proj.weight", cairn_synth_matrix(1.0), size->embd,
                     size->embd);
}

/* The last norm has another name than elsewhere. */
static void ends(cairn_synth_plan *plan)
{
    const cairn_synth_how rows = {CAIRN_SYNTH_ROWS, 0.08, 0, CAIRN_SYNTH_WEIGHT};

    cairn_synth_add2(plan, -1, "token_embd.weight", rows, plan->size->embd, plan->vocab);
    cairn_synth_add1(plan, -1, "token_embd_norm.weight", cairn_synth_norm(1.5), plan->size->embd);
}

static void lfm2_layer(cairn_synth_plan *plan, int layer)
{
    mixer(plan, layer);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    cairn_synth_add_ffn(plan, layer, 1.0);
}

static void lfm2moe_layer(cairn_synth_plan *plan, int layer)
{
    mixer(plan, layer);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    if (layer < DENSE_LAYERS) {
        cairn_synth_add_ffn(plan, layer, 1.0);
    } else {
        cairn_synth_add_experts(plan, layer, 1.5);
        cairn_synth_add1(plan, layer, "exp_probs_b.bias", cairn_synth_bias(0.05), plan->size->experts);
    }
}

/* ---- the rows ------------------------------------------------------------------------------------ */

static const cairn_synth_size lfm2_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 128000,
    .layers = 9,
    .embd = 256,
    .ff = 512,
    .heads = 4,
    .heads_kv = 2,
    .head_dim = 64,
    .attention_every = 3,
    .experts = 8,
    .experts_used = 2,
    .expert_ff = 128,
};

static const char *const lfm2_specials[] = {
    "<|startoftext|>",   "<|tool_list_start|>",     "<|tool_list_end|>",     "<|tool_call_start|>",
    "<|tool_call_end|>", "<|tool_response_start|>", "<|tool_response_end|>", NULL};

static const cairn_synth_chat lfm2_chat = {
    .specials = lfm2_specials,
    .template_file = "LFM2.5-Instruct.jinja",
    .begin = "<|startoftext|>",
    .end_of_turn = "<|im_end|>",
};
static const cairn_synth_chat lfm2moe_chat = {
    .specials = lfm2_specials,
    .template_file = "LFM2-8B-A1B.jinja",
    .begin = "<|startoftext|>",
    .end_of_turn = "<|im_end|>",
};

const cairn_synth_arch cairn_synth_lfm2 = {
    .name = "lfm2",
    .about = "gated short convolutions and attention, two to one (LFM2)",
    .chat = &lfm2_chat,
    .sizes = &lfm2_tiny,
    .sizes_count = 1,
    .metadata = lfm2_metadata,
    .ends = ends,
    .layer = lfm2_layer,
};

const cairn_synth_arch cairn_synth_lfm2moe = {
    .name = "lfm2moe",
    .about = "gated short convolutions and attention, two to one, with experts (LFM2-8B-A1B)",
    .chat = &lfm2moe_chat,
    .sizes = &lfm2_tiny,
    .sizes_count = 1,
    .metadata = lfm2moe_metadata,
    .ends = ends,
    .layer = lfm2moe_layer,
};
