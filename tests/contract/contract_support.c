/* See contract_support.h. */
#include "contract/contract_support.h"

#include <math.h>
#include <sys/stat.h>

#include "engine/llama_load.h"
#include "engine/synth.h"
#include "test_support.h"

static void on_log(void *ctx, cairn_llama_level level, const char *text)
{
    (void)ctx;
    if (level >= CAIRN_LLAMA_ERROR)
        fputs(text, stderr);
}

const char *contract_model_path(const char *arch, const char *size)
{
    static char path[1024];
    struct stat st;
    cairn_error error;
    mkdir(CAIRN_BUILD_DIR "/models", 0777);
    snprintf(path, sizeof path, "%s/models/%s-%s.gguf", CAIRN_BUILD_DIR, arch, size);
    cairn_synth_options options = {.arch = arch, .size = size, .seed = 1};
    if (stat(path, &st) != 0 && cairn_synth_write(&options, path, NULL, NULL, &error) != CAIRN_OK)
        fail_msg("can't make %s: %s", path, error.detail);
    return path;
}

struct llama_model *contract_model(void)
{
    cairn_error error;
    struct llama_model *model = NULL;
    cairn_llama_log_set(on_log, NULL);
    cairn_llama_model_options options = {.path = contract_model_path("qwen35", "tiny"), .mmap = true};
    if (cairn_llama_model_load(&options, &model, &error) != CAIRN_OK)
        fail_msg("can't load %s: %s", options.path, error.detail);
    return model;
}

struct llama_context *contract_context(struct llama_model *model, uint32_t sequences, bool unified)
{
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = unified ? CONTRACT_CONTEXT : CONTRACT_CONTEXT * sequences;
    params.n_batch = params.n_ubatch = CONTRACT_BATCH;
    params.n_seq_max = sequences;
    params.kv_unified = unified;
    params.n_threads = params.n_threads_batch = 1;
    params.no_perf = true;
    struct llama_context *context = llama_init_from_model(model, params);
    assert_non_null(context);
    return context;
}

static uint32_t vocab_size(struct llama_context *context)
{
    return (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
}

void contract_tokens(struct llama_model *model, uint32_t path, llama_token *out, uint32_t count)
{
    uint32_t words = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (uint32_t i = 0; i < count; i++)
        out[i] = (llama_token)((i * 7919u + path * 104729u + i * i * 31u + 7u) % words);
}

const float *contract_read(struct llama_context *context, llama_seq_id seq, const llama_token *tokens,
                           uint32_t begin, uint32_t end)
{
    struct llama_batch batch = llama_batch_init((int32_t)(end - begin), 0, 1);
    for (uint32_t i = begin; i < end; i++) {
        uint32_t at = i - begin;
        batch.token[at] = tokens[i];
        batch.pos[at] = (llama_pos)i;
        batch.n_seq_id[at] = 1;
        batch.seq_id[at][0] = seq;
        batch.logits[at] = i + 1 == end;
    }
    batch.n_tokens = (int32_t)(end - begin);
    assert_int_equal(llama_decode(context, batch), 0);
    llama_batch_free(batch);
    const float *logits = llama_get_logits_ith(context, -1);
    assert_non_null(logits);
    return logits;
}

const float *contract_read_cut(struct llama_context *context, llama_seq_id seq, const llama_token *tokens,
                               uint32_t begin, uint32_t end, uint32_t cut)
{
    const float *logits = NULL;
    while (begin < end) {
        uint32_t next = (begin / cut + 1) * cut;
        next = next < end ? next : end;
        logits = contract_read(context, seq, tokens, begin, next);
        begin = next;
    }
    return logits;
}

float *contract_keep(struct llama_context *context, const float *logits)
{
    size_t size = vocab_size(context) * sizeof(float);
    float *kept = malloc(size);
    assert_non_null(kept);
    memcpy(kept, logits, size);
    return kept;
}

float contract_distance(struct llama_context *context, const float *a, const float *b)
{
    float most = 0;
    for (uint32_t i = 0; i < vocab_size(context); i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

bool contract_same(struct llama_context *context, const float *a, const float *b)
{
    return memcmp(a, b, vocab_size(context) * sizeof *a) == 0;
}

contract_state contract_take(struct llama_context *context, llama_seq_id seq, llama_state_seq_flags flags)
{
    contract_state state = {.size = llama_state_seq_get_size_ext(context, seq, flags)};
    assert_true(state.size > 0);
    state.bytes = malloc(state.size);
    assert_non_null(state.bytes);
    assert_int_equal(llama_state_seq_get_data_ext(context, state.bytes, state.size, seq, flags), state.size);
    return state;
}

void contract_set(struct llama_context *context, llama_seq_id seq, contract_state state,
                  llama_state_seq_flags flags)
{
    assert_int_equal(llama_state_seq_set_data_ext(context, state.bytes, state.size, seq, flags), state.size);
}

void contract_control(const char *what, float wrong, float noise)
{
    printf("%s: a wrong state changes logits by %g, right ones differ by %g\n", what, (double)wrong,
           (double)noise);
    assert_true(wrong > 0.01f);
    assert_true(wrong > 10000.0f * noise);
}
