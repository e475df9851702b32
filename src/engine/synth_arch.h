/*
 * synth_arch - the table of architectures that synthetic models can be made of.
 *
 * A row says everything that is particular to one architecture: its metadata keys, its tensors as the conversion
 * scripts write them (no optional ones that real files lack), how each is drawn, and its sizes. Adding an
 * architecture is a metadata and a layer function in a file synth_<family>.c, and one line in synth_arch.c. libllama
 * checks the result: the written file is opened before it gets its name.
 *
 * What makes a good row: a wrong recurrent state must change the logits clearly (tests/engine/test_synth.c). So
 * matrices keep the variance of what goes through them, decays spread over memories of tens to thousands of tokens,
 * norms stay near 1, and embeddings are small beside what the layers add, so that an answer depends on its context
 * and not on its last token.
 *
 * Owner    constant data; a plan is owned by its maker
 * Thread   any
 * See      docs/internals/synth.md
 */
#ifndef CAIRN_ENGINE_SYNTH_ARCH_H
#define CAIRN_ENGINE_SYNTH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/mem.h"
#include "engine/synth_fill.h"

struct gguf_context;

enum { CAIRN_SYNTH_NAME_BYTES = 64, CAIRN_SYNTH_TENSORS_MAX = 4096, CAIRN_SYNTH_LAYERS_MAX = 128 };

/* Where a tensor's type comes from. */
typedef enum cairn_synth_type {
    CAIRN_SYNTH_F32 = 0, /* norms, biases, decays, short convolutions: as the conversion scripts keep them */
    CAIRN_SYNTH_WEIGHT   /* the size's weight type, where the row length allows it */
} cairn_synth_type;

/* How a tensor is drawn; a and b are explained at cairn_synth_fill. */
typedef struct cairn_synth_how {
    cairn_synth_fill fill;
    double a, b;
    cairn_synth_type type;
} cairn_synth_how;

/* Dimensions of one size. What an architecture does not have stays 0. */
typedef struct cairn_synth_size {
    const char *name;      /* "tiny", "small", "0.8b" */
    int weight_type;       /* enum ggml_type of CAIRN_SYNTH_WEIGHT tensors */
    uint32_t vocab_merges; /* most merges kept of the vocabulary; 0: all */
    uint32_t vocab_size;   /* tokens, filled up with unused ones; 0: as many as there are */
    uint32_t context;      /* tokens the file says it was trained for */
    uint32_t layers, embd, ff;
    uint32_t heads, heads_kv, head_dim;
    uint32_t attention_every; /* every n-th layer is attention, the others are recurrent (or windowed) */
    uint32_t state, groups, ranks, inner; /* ssm: state size, group count, time step rank, inner size */
    uint32_t experts, experts_used, expert_ff;
    uint32_t window;   /* tokens of a sliding window */
    uint32_t low_rank; /* width of low-rank projections */
} cairn_synth_size;

/* The tensors of one file, in the order in which they are written. */
typedef struct cairn_synth_entry {
    char name[CAIRN_SYNTH_NAME_BYTES];
    int64_t dims[4];
    cairn_synth_how how;
} cairn_synth_entry;

typedef struct cairn_synth_plan {
    const cairn_synth_size *size;
    uint32_t vocab;             /* tokens of the vocabulary */
    cairn_synth_entry *entries; /* cairn_synth_entry[CAIRN_SYNTH_TENSORS_MAX] */
    size_t entries_count;
} cairn_synth_plan;

/* How a model talks. */
typedef struct cairn_synth_chat {
    const char *const *specials; /* tokens that the template uses, NULL at the end; may be NULL */
    const char *template_file;   /* file in the llama.cpp source's models/templates/ */
    const char *begin;           /* text of the token that begins a text; NULL: "<|endoftext|>" */
    const char *end_of_turn;     /* text of the token that ends an answer */
} cairn_synth_chat;

typedef struct cairn_synth_arch {
    const char *name;      /* as libllama spells it */
    const char *about;     /* one line for people */
    const char *vocab_pre; /* tokenizer.ggml.pre; NULL: "qwen2" */
    const cairn_synth_chat *chat;
    const cairn_synth_size *sizes;
    size_t sizes_count;
    void (*metadata)(struct gguf_context *kv, const cairn_synth_size *size);
    void (*ends)(cairn_synth_plan *plan);             /* adds the tensors outside the layers */
    void (*layer)(cairn_synth_plan *plan, int layer); /* adds those of one layer */
} cairn_synth_arch;

/* The architecture of that name, or NULL. */
const cairn_synth_arch *cairn_synth_arch_get(const char *name);

/* The index-th architecture, or NULL past the last one. */
const cairn_synth_arch *cairn_synth_arch_at(size_t index);

/* The size of that name, or NULL. */
const cairn_synth_size *cairn_synth_size_get(const cairn_synth_arch *arch, const char *name);

/*
 * Add a tensor: a vector, a matrix (row length, rows) or a stack of matrices (row length, rows, count).
 *
 *   layer  [in]  -1 for tensors outside the layers; else the name gets "blk.<layer>." before it
 */
void cairn_synth_add1(cairn_synth_plan *plan, int layer, const char *name, cairn_synth_how how,
                      uint32_t length);
void cairn_synth_add2(cairn_synth_plan *plan, int layer, const char *name, cairn_synth_how how,
                      uint32_t length, uint32_t rows);
void cairn_synth_add3(cairn_synth_plan *plan, int layer, const char *name, cairn_synth_how how,
                      uint32_t length, uint32_t rows, uint32_t count);

/* The same with all four dimensions given. */
void cairn_synth_add4(cairn_synth_plan *plan, int layer, const char *name, cairn_synth_how how,
                      const int64_t dims[4]);

/* Common ways to draw. `gain` 1 keeps the variance of what goes through; matrix32 is one that files keep in 32 bits. */
cairn_synth_how cairn_synth_matrix(double gain);
cairn_synth_how cairn_synth_matrix32(double gain);
cairn_synth_how cairn_synth_norm(double mean);
cairn_synth_how cairn_synth_bias(double deviation);

/* A short convolution in front of SiLU, and what the decays of the delta rule are made of. */
extern const cairn_synth_how cairn_synth_convolution, cairn_synth_delta_time_steps, cairn_synth_delta_rates;

/* The embedding, which is the output head too, and the last norm; add_tied: drawn as nearly all are. */
void cairn_synth_add_embedding(cairn_synth_plan *plan, double deviation, double output_norm);
void cairn_synth_add_tied(cairn_synth_plan *plan);

/* An embedding and a head of its own, and the last norm. */
void cairn_synth_add_untied(cairn_synth_plan *plan);

/* "<name>.weight": a norm of the size's width. */
void cairn_synth_add_norm(cairn_synth_plan *plan, int layer, const char *name);

/* Query, key and value projections, with `q` rows of queries. `gain` is that of queries and keys: without norms on
 * them it decides how sharp attention is; their products have a deviation of gain * gain. */
void cairn_synth_add_qkv(cairn_synth_plan *plan, int layer, double gain, uint32_t q);

/* The same for the heads of the size, and the output projection. */
void cairn_synth_add_attention(cairn_synth_plan *plan, int layer, double gain);

/* Norms of queries and keys, which then set how sharp attention is. */
void cairn_synth_add_head_norms(cairn_synth_plan *plan, int layer, double mean);

/* Gate, up and down projections; the same for experts, with a router; one expert that is always used. */
void cairn_synth_add_ffn(cairn_synth_plan *plan, int layer, double gain);
void cairn_synth_add_experts(cairn_synth_plan *plan, int layer, double gain);
void cairn_synth_add_shared_expert(cairn_synth_plan *plan, int layer, uint32_t ff, double gain);

/* Is this layer attention, where every attention_every-th is? */
bool cairn_synth_is_attention(const cairn_synth_size *size, uint32_t layer);

/* Set "<arch>.<key>" in `kv`. */
void cairn_synth_set_u32(struct gguf_context *kv, const char *arch, const char *key, uint32_t value);
void cairn_synth_set_f32(struct gguf_context *kv, const char *arch, const char *key, float value);
void cairn_synth_set_bool(struct gguf_context *kv, const char *arch, const char *key, bool value);
void cairn_synth_set_u32s(struct gguf_context *kv, const char *arch, const char *key, const uint32_t *values,
                          size_t count);

/* The keys that nearly every architecture has: context, layers, embedding, feed-forward, heads. */
void cairn_synth_set_common(struct gguf_context *kv, const char *arch, const cairn_synth_size *size);

/* "attention.head_count_kv" for each layer, `heads_kv` or 0 where it is recurrent: how most hybrids name them. */
void cairn_synth_set_hybrid(struct gguf_context *kv, const char *arch, const cairn_synth_size *size,
                            uint32_t heads_kv);

/* "ssm.*": convolution of 4, state, groups, ranks, inner size. */
void cairn_synth_set_ssm(struct gguf_context *kv, const char *arch, const cairn_synth_size *size);

/* Expert count, experts used, their width. */
void cairn_synth_set_experts(struct gguf_context *kv, const char *arch, const cairn_synth_size *size);

/* Special tokens that chat templates of the Qwen family use, after the three that the vocabulary names itself. */
extern const char *const cairn_synth_qwen_specials[];

/* The chat of Qwen 2.5, which stands in for templates that the llama.cpp source does not have, and that of Qwen 3. */
extern const cairn_synth_chat cairn_synth_chat_qwen25, cairn_synth_chat_qwen3;

extern const cairn_synth_arch cairn_synth_qwen35, cairn_synth_qwen35moe, cairn_synth_qwen3next;
extern const cairn_synth_arch cairn_synth_llama, cairn_synth_qwen3, cairn_synth_gemma3, cairn_synth_gpt_oss,
    cairn_synth_cohere2;
extern const cairn_synth_arch cairn_synth_mamba, cairn_synth_mamba2, cairn_synth_jamba, cairn_synth_falcon_h1,
    cairn_synth_granitehybrid, cairn_synth_nemotron_h, cairn_synth_nemotron_h_moe, cairn_synth_plamo2;
extern const cairn_synth_arch cairn_synth_kimi_linear, cairn_synth_lfm2, cairn_synth_lfm2moe;
extern const cairn_synth_arch cairn_synth_rwkv6, cairn_synth_rwkv7, cairn_synth_arwkv7;

#endif
