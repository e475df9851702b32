/*
 * synth_arch - the table itself and what its rows share. See the header.
 */
#include "engine/synth_arch.h"

#include <stdio.h>
#include <string.h>

#include "gguf.h"

static const cairn_synth_arch *const archs[] = {
    /* recurrent and attention */
    &cairn_synth_qwen35,
    &cairn_synth_qwen35moe,
    &cairn_synth_qwen3next,
    &cairn_synth_jamba,
    &cairn_synth_falcon_h1,
    &cairn_synth_granitehybrid,
    &cairn_synth_nemotron_h,
    &cairn_synth_nemotron_h_moe,
    &cairn_synth_lfm2,
    &cairn_synth_lfm2moe,
    &cairn_synth_kimi_linear,
    &cairn_synth_plamo2,
    /* recurrent alone */
    &cairn_synth_mamba,
    &cairn_synth_mamba2,
    &cairn_synth_rwkv6,
    &cairn_synth_rwkv7,
    &cairn_synth_arwkv7,
    /* sliding windows */
    &cairn_synth_gemma3,
    &cairn_synth_gpt_oss,
    &cairn_synth_cohere2,
    /* attention alone */
    &cairn_synth_llama,
    &cairn_synth_qwen3,
};

/*
 * Ids 151646 and up of the Qwen2.5 and Qwen3 vocabularies, in order. The vocabulary file of the llama.cpp source has
 * placeholders there. "+" marks those that are text to a tokenizer user (tool calls, thoughts), not control.
 */
const char *const cairn_synth_qwen_specials[] = {
    "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",    "<|box_end|>",
    "<|quad_start|>",       "<|quad_end|>",       "<|vision_start|>", "<|vision_end|>",
    "<|vision_pad|>",       "<|image_pad|>",      "<|video_pad|>",    "+<tool_call>",
    "+</tool_call>",        "<|fim_prefix|>",     "<|fim_middle|>",   "<|fim_suffix|>",
    "<|fim_pad|>",          "<|repo_name|>",      "<|file_sep|>",     "+<tool_response>",
    "+</tool_response>",    "+<think>",           "+</think>",        NULL,
};

const cairn_synth_chat cairn_synth_chat_qwen25 = {
    .specials = cairn_synth_qwen_specials,
    .template_file = "Qwen-Qwen2.5-7B-Instruct.jinja",
    .end_of_turn = "<|im_end|>",
};
const cairn_synth_chat cairn_synth_chat_qwen3 = {
    .specials = cairn_synth_qwen_specials,
    .template_file = "Qwen-Qwen3-0.6B.jinja",
    .end_of_turn = "<|im_end|>",
};

const cairn_synth_how cairn_synth_convolution = {CAIRN_SYNTH_MATRIX, 0.4, 0, CAIRN_SYNTH_F32};
const cairn_synth_how cairn_synth_delta_time_steps = {CAIRN_SYNTH_SOFTPLUS_INV, 0.001, 0.03, CAIRN_SYNTH_F32};
const cairn_synth_how cairn_synth_delta_rates = {CAIRN_SYNTH_LOG_SPREAD, -0.5, -4.0, CAIRN_SYNTH_F32};

const cairn_synth_arch *cairn_synth_arch_at(size_t index)
{
    return index < sizeof(archs) / sizeof(archs[0]) ? archs[index] : NULL;
}

const cairn_synth_arch *cairn_synth_arch_get(const char *name)
{
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        if (strcmp(archs[i]->name, name) == 0)
            return archs[i];
    }
    return NULL;
}

const cairn_synth_size *cairn_synth_size_get(const cairn_synth_arch *arch, const char *name)
{
    for (size_t i = 0; i < arch->sizes_count; i++) {
        if (strcmp(arch->sizes[i].name, name) == 0)
            return &arch->sizes[i];
    }
    return NULL;
}

cairn_synth_how cairn_synth_matrix(double gain)
{
    return (cairn_synth_how){.fill = CAIRN_SYNTH_MATRIX, .a = gain, .type = CAIRN_SYNTH_WEIGHT};
}

cairn_synth_how cairn_synth_matrix32(double gain)
{
    return (cairn_synth_how){.fill = CAIRN_SYNTH_MATRIX, .a = gain, .type = CAIRN_SYNTH_F32};
}

cairn_synth_how cairn_synth_norm(double mean)
{
    return (cairn_synth_how){.fill = CAIRN_SYNTH_NORMAL, .a = mean, .b = 0.1 * mean, .type = CAIRN_SYNTH_F32};
}

void cairn_synth_add4(cairn_synth_plan *plan, int layer, const char *name, cairn_synth_how how,
                      const int64_t dims[4])
{
    CAIRN_ASSERT(plan->entries_count < CAIRN_SYNTH_TENSORS_MAX);
    cairn_synth_entry *entry = &plan->entries[plan->entries_count++];
    const int len = layer < 0 ? snprintf(entry->name, sizeof(entry->name), "%s", name)
                              : snprintf(entry->name, sizeof(entry->name), "blk.%d.%s", layer, name);

    CAIRN_ASSERT(len > 0 && (size_t)len < sizeof(entry->name));
    entry->how = how;
    for (int i = 0; i < 4; i++) {
        CAIRN_ASSERT(dims[i] > 0);
        entry->dims[i] = dims[i];
    }
}

void cairn_synth_add3(cairn_synth_plan *plan, int layer, const char *name, cairn_synth_how how,
                      uint32_t length, uint32_t rows, uint32_t count)
{
    const int64_t dims[4] = {length, rows, count, 1};
    cairn_synth_add4(plan, layer, name, how, dims);
}

void cairn_synth_add2(cairn_synth_plan *plan, int layer, const char *name, cairn_synth_how how,
                      uint32_t length, uint32_t rows)
{
    cairn_synth_add3(plan, layer, name, how, length, rows, 1);
}

void cairn_synth_add1(cairn_synth_plan *plan, int layer, const char *name, cairn_synth_how how,
                      uint32_t length)
{
    cairn_synth_add3(plan, layer, name, how, length, 1, 1);
}

cairn_synth_how cairn_synth_bias(double deviation)
{
    return (cairn_synth_how){.fill = CAIRN_SYNTH_NORMAL, .a = 0, .b = deviation, .type = CAIRN_SYNTH_F32};
}

void cairn_synth_add_embedding(cairn_synth_plan *plan, double deviation, double output_norm)
{
    const cairn_synth_how rows = {.fill = CAIRN_SYNTH_ROWS, .a = deviation, .type = CAIRN_SYNTH_WEIGHT};

    cairn_synth_add2(plan, -1, "token_embd.weight", rows, plan->size->embd, plan->vocab);
    cairn_synth_add1(plan, -1, "output_norm.weight", cairn_synth_norm(output_norm), plan->size->embd);
}

void cairn_synth_add_tied(cairn_synth_plan *plan)
{
    cairn_synth_add_embedding(plan, 0.08, 1.5);
}

void cairn_synth_add_untied(cairn_synth_plan *plan)
{
    const cairn_synth_how head = {.fill = CAIRN_SYNTH_ROWS, .a = 0.15, .type = CAIRN_SYNTH_WEIGHT};
    const cairn_synth_how embedding = {.fill = CAIRN_SYNTH_NORMAL, .b = 1.0, .type = CAIRN_SYNTH_WEIGHT};

    cairn_synth_add2(plan, -1, "token_embd.weight", embedding, plan->size->embd, plan->vocab);
    cairn_synth_add2(plan, -1, "output.weight", head, plan->size->embd, plan->vocab);
    cairn_synth_add1(plan, -1, "output_norm.weight", cairn_synth_norm(1.0), plan->size->embd);
}

void cairn_synth_add_norm(cairn_synth_plan *plan, int layer, const char *name)
{
    char full[CAIRN_SYNTH_NAME_BYTES];

    snprintf(full, sizeof(full), "%s.weight", name);
    cairn_synth_add1(plan, layer, full, cairn_synth_norm(1.0), plan->size->embd);
}

void cairn_synth_add_qkv(cairn_synth_plan *plan, int layer, double gain, uint32_t q)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t kv = size->heads_kv * size->head_dim;

    cairn_synth_add2(plan, layer, "attn_q.weight", cairn_synth_matrix(gain), size->embd, q);
    cairn_synth_add2(plan, layer, "attn_k.weight", cairn_synth_matrix(gain), size->embd, kv);
    cairn_synth_add2(plan, layer, "attn_v.weight", cairn_synth_matrix(1.0), size->embd, kv);
}

void cairn_synth_add_attention(cairn_synth_plan *plan, int layer, double gain)
{
    const uint32_t q = plan->size->heads * plan->size->head_dim;

    cairn_synth_add_qkv(plan, layer, gain, q);
    cairn_synth_add2(plan, layer, "attn_output.weight", cairn_synth_matrix(1.5), q, plan->size->embd);
}

void cairn_synth_add_head_norms(cairn_synth_plan *plan, int layer, double mean)
{
    cairn_synth_add1(plan, layer, "attn_q_norm.weight", cairn_synth_norm(mean), plan->size->head_dim);
    cairn_synth_add1(plan, layer, "attn_k_norm.weight", cairn_synth_norm(mean), plan->size->head_dim);
}

void cairn_synth_add_ffn(cairn_synth_plan *plan, int layer, double gain)
{
    const cairn_synth_size *size = plan->size;

    cairn_synth_add2(plan, layer, "ffn_gate.weight", cairn_synth_matrix(1.0), size->embd, size->ff);
    cairn_synth_add2(plan, layer, "ffn_up.weight", cairn_synth_matrix(1.0), size->embd, size->ff);
    cairn_synth_add2(plan, layer, "ffn_down.weight", cairn_synth_matrix(gain), size->ff, size->embd);
}

void cairn_synth_add_experts(cairn_synth_plan *plan, int layer, double gain)
{
    const cairn_synth_size *size = plan->size;
    const uint32_t ff = size->expert_ff, count = size->experts;

    cairn_synth_add2(plan, layer, "ffn_gate_inp.weight", cairn_synth_matrix32(1.0), size->embd, count);
    cairn_synth_add3(plan, layer, "ffn_gate_exps.weight", cairn_synth_matrix(1.0), size->embd, ff, count);
    cairn_synth_add3(plan, layer, "ffn_up_exps.weight", cairn_synth_matrix(1.0), size->embd, ff, count);
    cairn_synth_add3(plan, layer, "ffn_down_exps.weight", cairn_synth_matrix(gain), ff, size->embd, count);
}

void cairn_synth_add_shared_expert(cairn_synth_plan *plan, int layer, uint32_t ff, double gain)
{
    const uint32_t embd = plan->size->embd;

    cairn_synth_add2(plan, layer, "ffn_gate_shexp.weight", cairn_synth_matrix(1.0), embd, ff);
    cairn_synth_add2(plan, layer, "ffn_up_shexp.weight", cairn_synth_matrix(1.0), embd, ff);
    cairn_synth_add2(plan, layer, "ffn_down_shexp.weight", cairn_synth_matrix(gain), ff, embd);
}

bool cairn_synth_is_attention(const cairn_synth_size *size, uint32_t layer)
{
    return size->attention_every > 0 && (layer + 1) % size->attention_every == 0;
}

/* "<arch>.<key>"; every key here is a constant far shorter than the buffer. */
static const char *full_key(char buffer[128], const char *arch, const char *key)
{
    snprintf(buffer, 128, "%s.%s", arch, key);
    return buffer;
}

void cairn_synth_set_u32(struct gguf_context *kv, const char *arch, const char *key, uint32_t value)
{
    char buffer[128];
    gguf_set_val_u32(kv, full_key(buffer, arch, key), value);
}

void cairn_synth_set_f32(struct gguf_context *kv, const char *arch, const char *key, float value)
{
    char buffer[128];
    gguf_set_val_f32(kv, full_key(buffer, arch, key), value);
}

void cairn_synth_set_bool(struct gguf_context *kv, const char *arch, const char *key, bool value)
{
    char buffer[128];
    gguf_set_val_bool(kv, full_key(buffer, arch, key), value);
}

void cairn_synth_set_u32s(struct gguf_context *kv, const char *arch, const char *key, const uint32_t *values,
                          size_t count)
{
    char buffer[128];
    gguf_set_arr_data(kv, full_key(buffer, arch, key), GGUF_TYPE_UINT32, values, count);
}

void cairn_synth_set_common(struct gguf_context *kv, const char *arch, const cairn_synth_size *size)
{
    cairn_synth_set_u32(kv, arch, "context_length", size->context);
    cairn_synth_set_u32(kv, arch, "block_count", size->layers);
    cairn_synth_set_u32(kv, arch, "embedding_length", size->embd);
    cairn_synth_set_u32(kv, arch, "feed_forward_length", size->ff);
    if (size->heads > 0) {
        cairn_synth_set_u32(kv, arch, "attention.head_count", size->heads);
        cairn_synth_set_u32(kv, arch, "attention.head_count_kv", size->heads_kv);
        cairn_synth_set_u32(kv, arch, "attention.key_length", size->head_dim);
        cairn_synth_set_u32(kv, arch, "attention.value_length", size->head_dim);
    } else {
        cairn_synth_set_u32(kv, arch, "attention.head_count", 0);
    }
    cairn_synth_set_f32(kv, arch, "attention.layer_norm_rms_epsilon", 1e-6f);
}

void cairn_synth_set_hybrid(struct gguf_context *kv, const char *arch, const cairn_synth_size *size,
                            uint32_t heads_kv)
{
    uint32_t heads[CAIRN_SYNTH_LAYERS_MAX];

    CAIRN_ASSERT(size->layers <= CAIRN_SYNTH_LAYERS_MAX);
    for (uint32_t layer = 0; layer < size->layers; layer++)
        heads[layer] = cairn_synth_is_attention(size, layer) ? heads_kv : 0;
    cairn_synth_set_u32s(kv, arch, "attention.head_count_kv", heads, size->layers);
}

void cairn_synth_set_ssm(struct gguf_context *kv, const char *arch, const cairn_synth_size *size)
{
    cairn_synth_set_u32(kv, arch, "ssm.conv_kernel", 4);
    cairn_synth_set_u32(kv, arch, "ssm.state_size", size->state);
    if (size->groups > 0)
        cairn_synth_set_u32(kv, arch, "ssm.group_count", size->groups);
    cairn_synth_set_u32(kv, arch, "ssm.time_step_rank", size->ranks);
    cairn_synth_set_u32(kv, arch, "ssm.inner_size", size->inner);
}

void cairn_synth_set_experts(struct gguf_context *kv, const char *arch, const cairn_synth_size *size)
{
    cairn_synth_set_u32(kv, arch, "expert_count", size->experts);
    cairn_synth_set_u32(kv, arch, "expert_used_count", size->experts_used);
    cairn_synth_set_u32(kv, arch, "expert_feed_forward_length", size->expert_ff);
}
