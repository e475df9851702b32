/*
 * contract_support - what the contract tests share: the tiny model, and libllama by hand, without cairn's engine.
 *
 * The tests ask one question each: does libllama still do what the engine relies on? So they call it directly.
 *
 * Thread   one
 */
#ifndef CAIRN_CONTRACT_SUPPORT_H
#define CAIRN_CONTRACT_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "llama.h"

enum { CONTRACT_CONTEXT = 512, CONTRACT_BATCH = 128 };

/* Path of a synthetic model in the build folder; made when it is not there. Fails the test on error. */
const char *contract_model_path(const char *arch, const char *size);

/* Load the tiny qwen35 model; the caller frees. libllama is kept quiet but for errors. */
struct llama_model *contract_model(void);

/* A context of one computing thread, with `sequences` sequences in a unified cache or not. The caller frees. */
struct llama_context *contract_context(struct llama_model *model, uint32_t sequences, bool unified);

/* Deterministic tokens of a path: paths of different numbers differ everywhere. */
void contract_tokens(struct llama_model *model, uint32_t path, llama_token *out, uint32_t count);

/*
 * Decode tokens[begin, end) of a path into a sequence in one batch, and give the logits of the last one:
 * float[vocabulary], borrowed until the next decode. Fails the test on error.
 */
const float *contract_read(struct llama_context *context, llama_seq_id seq, const llama_token *tokens,
                           uint32_t begin, uint32_t end);

/* contract_read with cuts at multiples of `cut` between. */
const float *contract_read_cut(struct llama_context *context, llama_seq_id seq, const llama_token *tokens,
                               uint32_t begin, uint32_t end, uint32_t cut);

/* A row of logits that stays: malloc'ed copy. */
float *contract_keep(struct llama_context *context, const float *logits);

/* Largest difference of two rows. */
float contract_distance(struct llama_context *context, const float *a, const float *b);

/* Bit for bit? */
bool contract_same(struct llama_context *context, const float *a, const float *b);

/* A state's bytes; malloc'ed. */
typedef struct contract_state {
    uint8_t *bytes;
    size_t size;
} contract_state;

contract_state contract_take(struct llama_context *context, llama_seq_id seq, llama_state_seq_flags flags);

/* Set it; fails the test when libllama refuses. */
void contract_set(struct llama_context *context, llama_seq_id seq, contract_state state,
                  llama_state_seq_flags flags);

/*
 * The negative control of every exactness test: a wrong state changed the answer clearly, by more than 0.01 and by more
 * than 10,000 times what right ones differed by (`noise`, 0 when they were equal bit for bit).
 */
void contract_control(const char *what, float wrong, float noise);

#endif
