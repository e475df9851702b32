/*
 * The negative control of design: in every synthetic architecture, the right state gives the logits of a cold run bit
 * for bit, and a state of other tokens changes them clearly, also when the tokens that differ are 300 tokens back.
 * Otherwise the exactness tests that use these models would prove nothing. Prints one row of results a model.
 */
#include <math.h>

#include "engine/synth_support.h"
#include "llama.h"
#include "test_support.h"

enum { HEAD = 256, TAIL = 300, AFTER = 16, CONTEXT = 1024, BATCH = 512, ANSWER = 24, MODELS_MAX = 64 };

static const llama_state_seq_flags partial_only = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;

typedef struct bench {
    struct llama_model *model;
    struct llama_context *context;
    llama_memory_t memory;
    const struct llama_vocab *vocab;
    size_t logits_count;
} bench;

typedef struct state_bytes {
    uint8_t *bytes;
    size_t len;
} state_bytes;

/* `count` tokens of ordinary words; other seeds give other texts. */
static void words(const bench *b, uint32_t seed, llama_token *tokens, int count)
{
    static const char *const list[] = {" the",    " house", " river", " function", " returns", " people",
                                       " value",  " and",   " water", " light",    " when",    " we",
                                       " can",    " not",   " time",  " of",       " list",    " into",
                                       " old",    ".",      ",",      " data",     " from",    " every",
                                       " system", " world", " list",  " new"};
    int used = 0;

    while (used < count) {
        seed = seed * 1664525u + 1013904223u;
        const char *word = list[(seed >> 16) % (sizeof(list) / sizeof(list[0]))];
        llama_token some[16];
        const int got = llama_tokenize(b->vocab, word, (int32_t)strlen(word), some, 16, false, false);
        assert_true(got > 0);
        for (int i = 0; i < got && used < count; i++)
            tokens[used++] = some[i];
    }
}

/*
 * Decode at `position`. The logits of the last `rows` tokens go to `logits`, float[rows * logits_count]; rows must be
 * 1, or count when that fits one batch.
 */
static void decode(const bench *b, const llama_token *tokens, int count, int position, int rows,
                   float *logits)
{
    struct llama_batch batch = llama_batch_init(BATCH, 0, 1);

    for (int begin = 0; begin < count; begin += BATCH) {
        batch.n_tokens = 0;
        for (int i = begin; i < count && i < begin + BATCH; i++) {
            const int k = batch.n_tokens++;
            batch.token[k] = tokens[i];
            batch.pos[k] = position + i;
            batch.n_seq_id[k] = 1;
            batch.seq_id[k][0] = 0;
            batch.logits[k] = i >= count - rows;
        }
        assert_int_equal(llama_decode(b->context, batch), 0);
    }
    llama_batch_free(batch);
    for (int row = 0; row < rows; row++) {
        const float *one = llama_get_logits_ith(b->context, row - rows);
        memcpy(logits + (size_t)row * b->logits_count, one, b->logits_count * sizeof(float));
    }
}

/* What can not be trimmed; in plain attention, that has no such thing, all rows. */
static state_bytes take(const bench *b)
{
    state_bytes state = {.len = llama_state_seq_get_size_ext(b->context, 0, partial_only)};
    state.bytes = malloc(state.len + 1);
    assert_non_null(state.bytes);
    assert_int_equal(llama_state_seq_get_data_ext(b->context, state.bytes, state.len, 0, partial_only),
                     state.len);
    return state;
}

static double difference(const float *a, const float *b, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        most = d > most || isnan(d) ? d : most;
    }
    return most;
}

static double deviation(const float *a, size_t count)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    sum /= (double)count;
    return sqrt(squares / (double)count - sum * sum);
}

/* Put a state back at n, drop what follows, read on. */
static void resume(const bench *b, state_bytes state, int n, const llama_token *after, float *logits)
{
    assert_int_equal(llama_state_seq_set_data_ext(b->context, state.bytes, state.len, 0, partial_only),
                     state.len);
    assert_true(llama_memory_seq_rm(b->memory, 0, n, -1));
    decode(b, after, AFTER, n, AFTER, logits);
}

/* Gives the largest differences over the tokens that follow: [0] right state, [1] foreign state, [2] another prompt as a whole. */
static void control(const bench *b, int tail, double differences[3], double *spread, size_t *state_len)
{
    const int n = HEAD + tail;
    llama_token own[HEAD + TAIL], other[HEAD + TAIL], after[AFTER];
    const size_t floats = AFTER * b->logits_count;
    float *cold = malloc(floats * sizeof(float)), *foreign_cold = malloc(floats * sizeof(float));
    float *logits = malloc(floats * sizeof(float));

    assert_true(cold != NULL && foreign_cold != NULL && logits != NULL);
    words(b, 7, own, HEAD);
    words(b, 99, other, HEAD);
    words(b, 5, own + HEAD, tail);
    words(b, 5, other + HEAD, tail);
    words(b, 3, after, AFTER);

    llama_memory_clear(b->memory, true);
    decode(b, other, n, 0, 0, NULL);
    const state_bytes foreign = take(b);
    decode(b, after, AFTER, n, AFTER, foreign_cold);

    llama_memory_clear(b->memory, true);
    decode(b, own, n, 0, 0, NULL);
    const state_bytes right = take(b);
    decode(b, after, AFTER, n, AFTER, cold);
    resume(b, right, n, after, logits);
    differences[0] = difference(cold, logits, floats);
    resume(b, foreign, n, after, logits);
    differences[1] = difference(cold, logits, floats);
    differences[2] = difference(cold, foreign_cold, floats);
    *spread = deviation(cold, floats);
    *state_len = right.len;
    free(right.bytes);
    free(foreign.bytes);
    free(cold);
    free(foreign_cold);
    free(logits);
}

/* Greedy answer to a prompt; gives how many tokens came before the end, at most ANSWER. */
static int answer(const bench *b, uint32_t seed, llama_token tokens[ANSWER])
{
    llama_token prompt[64];
    float *logits = malloc(b->logits_count * sizeof(float));
    int count = 0;

    assert_non_null(logits);
    words(b, seed, prompt, 64);
    llama_memory_clear(b->memory, true);
    decode(b, prompt, 64, 0, 1, logits);
    for (; count < ANSWER; count++) {
        size_t best = 0;
        for (size_t i = 1; i < b->logits_count; i++)
            best = logits[i] > logits[best] ? i : best;
        tokens[count] = (llama_token)best;
        if (llama_vocab_is_eog(b->vocab, tokens[count]))
            break;
        decode(b, &tokens[count], 1, 64 + count, 1, logits);
    }
    free(logits);
    return count;
}

static int distinct(const llama_token *tokens, int count)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++)
            seen = seen || tokens[k] == tokens[i];
        found += seen ? 0 : 1;
    }
    return found;
}

/* Over several prompts: answers are not cut at once, do not repeat one token, and differ from each other. */
static void check_answers(const bench *b, double *length, double *variety)
{
    enum { PROMPTS = 6 };
    llama_token answers[PROMPTS][ANSWER];
    int lengths[PROMPTS], tokens_sum = 0, distinct_sum = 0, equal = 0;

    for (int i = 0; i < PROMPTS; i++) {
        lengths[i] = answer(b, 1000u + (uint32_t)i, answers[i]);
        tokens_sum += lengths[i];
        distinct_sum += distinct(answers[i], lengths[i]);
        for (int k = 0; k < i; k++) {
            const int shorter = lengths[k] < lengths[i] ? lengths[k] : lengths[i];
            if (shorter == 0 || memcmp(answers[i], answers[k], (size_t)shorter * sizeof(llama_token)) == 0)
                equal++;
        }
    }
    *length = (double)tokens_sum / PROMPTS;
    *variety = tokens_sum > 0 ? (double)distinct_sum / tokens_sum : 0.0;
    printf("  answers: %.1f tokens of at most %d, %.0f %% of them distinct\n", *length, ANSWER,
           *variety * 100.0);
    assert_true(tokens_sum >= PROMPTS * ANSWER / 3);
    assert_true(distinct_sum * 2 > tokens_sum);
    assert_true(equal <= 2);
}

static void check_model(void **state)
{
    const char *arch = *state;
    const char *path = synth_test_make(arch, "tiny", 1, "model.gguf");
    bench b = {.model = synth_test_load(path)};
    double near[3], far[3], spread, length, variety;
    size_t state_len;

    b.context = synth_test_context(b.model, CONTEXT, BATCH);
    b.memory = llama_get_memory(b.context);
    b.vocab = llama_model_get_vocab(b.model);
    b.logits_count = (size_t)llama_vocab_n_tokens(b.vocab);
    control(&b, 0, near, &spread, &state_len);
    control(&b, TAIL, far, &spread, &state_len);
    printf("| %s | %.1f MB | %zu bytes | %.2f | %g / %g | %.2f | %.2f | %.2f |\n", arch,
           (double)llama_model_size(b.model) / 1e6, state_len, spread, near[0], far[0], near[1], far[1],
           far[2]);
    assert_true(spread > 0.5 && spread < 8.0);
    assert_true(near[0] == 0.0);
    assert_true(far[0] == 0.0);
    assert_true(near[1] > 0.5);
    assert_true(far[1] > 0.5);
    check_answers(&b, &length, &variety);
    llama_free(b.context);
    llama_model_free(b.model);
}

int main(int argc, char **argv)
{
    static cairn_synth_choice choices[MODELS_MAX * 4];
    static struct CMUnitTest tests[MODELS_MAX];
    static char names[MODELS_MAX][96];
    size_t count = 0;
    const size_t choices_count = cairn_synth_list(choices, MODELS_MAX * 4);

    synth_test_quiet(true);
    printf(
        "| model | weights | state | deviation of logits | right state (near / far) | foreign state, near | "
        "foreign state, 300 tokens back | other prompt |\n");
    for (size_t i = 0; i < choices_count && i < MODELS_MAX * 4 && count < MODELS_MAX; i++) {
        if (strcmp(choices[i].size, "tiny") != 0 || (argc > 1 && strcmp(choices[i].arch, argv[1]) != 0))
            continue;
        snprintf(names[count], sizeof(names[count]), "state_of_other_tokens_changes_the_logits_of_%s",
                 choices[i].arch);
        tests[count] = (struct CMUnitTest){.name = names[count], .test_func = check_model};
        tests[count++].initial_state = (void *)(uintptr_t)choices[i].arch;
    }
    const int failed = _cmocka_run_group_tests("synth_state", tests, count, NULL, NULL);
    synth_test_folder_remove();
    return failed;
}
