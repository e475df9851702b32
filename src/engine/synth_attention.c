/*
 * synth_attention - architectures of attention alone: plain (llama, qwen3) and with sliding windows (gemma3, gpt-oss,
 * cohere2).
 *
 * With random weights attention is nearly uniform and averages its values away; queries and keys are drawn large
 * enough for it to be sharp (deviation 3.6 before the softmax), as trained heads are. Windows are 128 tokens, so that
 * they wrap in short tests.
 */
#include "engine/synth_arch.h"
#include "ggml.h"
#include "gguf.h"

/* ---- plain ----------------------------------------------------------------------------------------------- */

static void llama_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "llama", size);
    cairn_synth_set_u32(kv, "llama", "rope.dimension_count", size->head_dim);
    cairn_synth_set_f32(kv, "llama", "rope.freq_base", 500000.0f);
}

static void llama_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    cairn_synth_add_attention(plan, layer, 1.9);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    cairn_synth_add_ffn(plan, layer, 1.0);
}

static void qwen3_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "qwen3", size);
    cairn_synth_set_f32(kv, "qwen3", "rope.freq_base", 1e6f);
}

static void qwen3_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    cairn_synth_add_attention(plan, layer, 1.0);
    cairn_synth_add_head_norms(plan, layer, 1.9);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    cairn_synth_add_ffn(plan, layer, 1.0);
}

/* ---- sliding windows ------------------------------------------------------------------------------------------ */

static void gemma3_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "gemma3", size);
    cairn_synth_set_f32(kv, "gemma3", "rope.freq_base", 1e6f);
    cairn_synth_set_f32(kv, "gemma3", "rope.freq_base_swa", 10000.0f);
    cairn_synth_set_u32(kv, "gemma3", "attention.sliding_window", size->window);
}

/* The graph multiplies embeddings by sqrt(width); layers write through norms, so they add 1 each time. */
static void gemma3_ends(cairn_synth_plan *plan)
{
    cairn_synth_add_embedding(plan, 0.02, 6.0);
}

static void gemma3_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    cairn_synth_add_attention(plan, layer, 1.0);
    cairn_synth_add_head_norms(plan, layer, 1.9);
    cairn_synth_add1(plan, layer, "post_attention_norm.weight", cairn_synth_norm(2.0), plan->size->embd);
    cairn_synth_add_norm(plan, layer, "ffn_norm");
    cairn_synth_add_ffn(plan, layer, 1.0);
    cairn_synth_add1(plan, layer, "post_ffw_norm.weight", cairn_synth_norm(2.0), plan->size->embd);
}

static void gpt_oss_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "gpt-oss", size);
    cairn_synth_set_f32(kv, "gpt-oss", "rope.freq_base", 150000.0f);
    cairn_synth_set_u32(kv, "gpt-oss", "attention.sliding_window", size->window);
    cairn_synth_set_experts(kv, "gpt-oss", size);
}

static void gpt_oss_layer(cairn_synth_plan *plan, int layer)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t q = size->heads * size->head_dim, kv = size->heads_kv * size->head_dim;
    const cairn_synth_how bias = cairn_synth_bias(0.1);

    cairn_synth_add_norm(plan, layer, "attn_norm");
    cairn_synth_add_attention(plan, layer, 1.9);
    cairn_synth_add1(plan, layer, "attn_q.bias", bias, q);
    cairn_synth_add1(plan, layer, "attn_k.bias", bias, kv);
    cairn_synth_add1(plan, layer, "attn_v.bias", bias, kv);
    cairn_synth_add1(plan, layer, "attn_output.bias", bias, size->embd);
    cairn_synth_add1(plan, layer, "attn_sinks.weight", bias, size->heads);
    cairn_synth_add_norm(plan, layer, "post_attention_norm");
    cairn_synth_add_experts(plan, layer, 1.0);
    cairn_synth_add1(plan, layer, "ffn_gate_inp.bias", bias, size->experts);
    cairn_synth_add2(plan, layer, "ffn_gate_exps.bias", bias, size->expert_ff, size->experts);
    cairn_synth_add2(plan, layer, "ffn_up_exps.bias", bias, size->expert_ff, size->experts);
    cairn_synth_add2(plan, layer, "ffn_down_exps.bias", bias, size->embd, size->experts);
}

static void cohere2_metadata(struct gguf_context *kv, const cairn_synth_size *size)
{
    cairn_synth_set_common(kv, "cohere2", size);
    cairn_synth_set_f32(kv, "cohere2", "attention.layer_norm_epsilon", 1e-5f);
    cairn_synth_set_f32(kv, "cohere2", "rope.freq_base", 50000.0f);
    cairn_synth_set_u32(kv, "cohere2", "rope.dimension_count", size->head_dim);
    cairn_synth_set_u32(kv, "cohere2", "attention.sliding_window", size->window);
    cairn_synth_set_f32(kv, "cohere2", "logit_scale", 0.25f);
}

static void cohere2_ends(cairn_synth_plan *plan)
{
    cairn_synth_add_embedding(plan, 0.08, 6.0);
}

static void cohere2_layer(cairn_synth_plan *plan, int layer)
{
    cairn_synth_add_norm(plan, layer, "attn_norm");
    cairn_synth_add_attention(plan, layer, 1.9);
    cairn_synth_add_ffn(plan, layer, 1.0);
}

/* ---- the rows --------------------------------------------------------------------------------------------------- */

static const cairn_synth_size plain_tiny = {
    .name = "tiny",
    .weight_type = GGML_TYPE_F16,
    .vocab_merges = 8000,
    .context = 131072,
    .layers = 6,
    .embd = 256,
    .ff = 512,
    .heads = 4,
    .heads_kv = 2,
    .head_dim = 64,
};

static const cairn_synth_size window_tiny = {
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
    .experts = 8,
    .experts_used = 2,
    .expert_ff = 128,
    .window = 128,
};

static const char *const llama_specials[] = {"<|begin_of_text|>",
                                             "<|start_header_id|>",
                                             "<|end_header_id|>",
                                             "<|eot_id|>",
                                             "<|eom_id|>",
                                             "<|python_tag|>",
                                             NULL};
static const char *const gemma_specials[] = {"<bos>", "<start_of_turn>", "<end_of_turn>", NULL};
static const char *const gpt_oss_specials[] = {"<|start|>",  "<|end|>",       "<|message|>", "<|channel|>",
                                               "<|return|>", "<|constrain|>", "<|call|>",    NULL};
static const char *const cohere_specials[] = {
    "<BOS_TOKEN>",           "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
    "<|USER_TOKEN|>",        "<|CHATBOT_TOKEN|>",       "<|SYSTEM_TOKEN|>",
    "<|START_RESPONSE|>",    "<|END_RESPONSE|>",        "<|START_THINKING|>",
    "<|END_THINKING|>",      "<|START_ACTION|>",        "<|END_ACTION|>",
    "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>",     NULL};

static const cairn_synth_chat llama_chat = {
    .specials = llama_specials,
    .template_file = "meta-llama-Llama-3.2-3B-Instruct.jinja",
    .begin = "<|begin_of_text|>",
    .end_of_turn = "<|eot_id|>",
};
static const cairn_synth_chat gemma_chat = {
    .specials = gemma_specials,
    .template_file = "google-gemma-2-2b-it.jinja",
    .begin = "<bos>",
    .end_of_turn = "<end_of_turn>",
};
static const cairn_synth_chat gpt_oss_chat = {
    .specials = gpt_oss_specials,
    .template_file = "openai-gpt-oss-120b.jinja",
    .end_of_turn = "<|return|>",
};
static const cairn_synth_chat cohere_chat = {
    .specials = cohere_specials,
    .template_file = "CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
    .begin = "<BOS_TOKEN>",
    .end_of_turn = "<|END_OF_TURN_TOKEN|>",
};

const cairn_synth_arch cairn_synth_llama = {
    .name = "llama",
    .about = "attention (Llama, Mistral and most others)",
    .chat = &llama_chat,
    .sizes = &plain_tiny,
    .sizes_count = 1,
    .metadata = llama_metadata,
    .ends = cairn_synth_add_tied,
    .layer = llama_layer,
};

const cairn_synth_arch cairn_synth_qwen3 = {
    .name = "qwen3",
    .about = "attention with norms on queries and keys (Qwen3)",
    .chat = &cairn_synth_chat_qwen3,
    .sizes = &plain_tiny,
    .sizes_count = 1,
    .metadata = qwen3_metadata,
    .ends = cairn_synth_add_tied,
    .layer = qwen3_layer,
};

const cairn_synth_arch cairn_synth_gemma3 = {
    .name = "gemma3",
    .about = "attention, five of six layers with a sliding window (Gemma 3)",
    .chat = &gemma_chat,
    .sizes = &window_tiny,
    .sizes_count = 1,
    .metadata = gemma3_metadata,
    .ends = gemma3_ends,
    .layer = gemma3_layer,
};

const cairn_synth_arch cairn_synth_gpt_oss = {
    .name = "gpt-oss",
    .about = "attention with sinks, every other layer with a sliding window, and experts (gpt-oss)",
    .chat = &gpt_oss_chat,
    .sizes = &window_tiny,
    .sizes_count = 1,
    .metadata = gpt_oss_metadata,
    .ends = cairn_synth_add_untied,
    .layer = gpt_oss_layer,
};

const cairn_synth_arch cairn_synth_cohere2 = {
    .name = "cohere2",
    .about =
        "attention and feed-forward side by side, three of four layers with a sliding window (Command R7B)",
    .chat = &cohere_chat,
    .sizes = &window_tiny,
    .sizes_count = 1,
    .metadata = cohere2_metadata,
    .ends = cohere2_ends,
    .layer = cohere2_layer,
};
