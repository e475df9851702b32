/*
 * What the engine relies on when slots share a context, one test a sentence, on the tiny qwen35 model.
 *
 * Relies llama.h@v0.4.0, K/V cache with a part for each sequence. See src/engine/llama_share.h.
 */
#include <fcntl.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/contract_support.h"
#include "engine/llama_load.h"
#include "test_support.h"

enum { SEQS = 3, READ = 37, PATH = 60 };

static struct llama_model *plain; /* weights as they are in the file */
static llama_token paths[SEQS][PATH];

static struct llama_model *load(bool repack)
{
    struct llama_model *model = NULL;
    cairn_error error;
    cairn_llama_model_options options = {
        .path = contract_model_path("qwen35", "tiny"), .mmap = true, .no_repack = !repack};
    if (cairn_llama_model_load(&options, &model, &error) != CAIRN_OK)
        fail_msg("%s", error.detail);
    return model;
}

static int set_up(void **state)
{
    (void)state;
    plain = load(false);
    for (uint32_t s = 0; s < SEQS; s++)
        contract_tokens(plain, s + 1, paths[s], PATH);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    llama_model_free(plain);
    return 0;
}

/* One more token of each sequence, in one decode. */
static void step_all(struct llama_context *context, uint32_t at)
{
    struct llama_batch batch = llama_batch_init(SEQS, 0, 1);
    for (uint32_t s = 0; s < SEQS; s++) {
        batch.token[s] = paths[s][at];
        batch.pos[s] = (llama_pos)at;
        batch.n_seq_id[s] = 1;
        batch.seq_id[s][0] = (llama_seq_id)s;
        batch.logits[s] = 1;
    }
    batch.n_tokens = SEQS;
    assert_int_equal(llama_decode(context, batch), 0);
    llama_batch_free(batch);
}

/* The largest difference that company makes, over sequences read alone and then continued together. */
static float company(struct llama_model *model, bool *ret_first_same)
{
    float most = 0;
    struct llama_context *context = contract_context(model, SEQS, false);
    for (uint32_t s = 0; s < SEQS; s++)
        contract_read(context, (llama_seq_id)s, paths[s], 0, READ);
    step_all(context, READ);
    for (uint32_t s = 0; s < SEQS; s++) {
        struct llama_context *own = contract_context(model, 1, true);
        contract_read(own, 0, paths[s], 0, READ);
        const float *right = contract_read(own, 0, paths[s], READ, READ + 1),
                    *now = llama_get_logits_ith(context, (int32_t)s);
        float distance = contract_distance(own, right, now);
        if (s == 0)
            *ret_first_same = distance < 0.1f;
        most = distance > most || isnan(distance) ? distance : most;
        llama_free(own);
    }
    llama_free(context);
    return most;
}

static void a_sequence_decoded_alone_has_the_bits_of_a_context_of_its_own(void **state)
{
    (void)state;
    struct llama_context *context = contract_context(plain, SEQS, false);
    for (uint32_t s = 0; s < SEQS; s++)
        contract_read(context, (llama_seq_id)s, paths[s], 0, READ);
    for (uint32_t s = 0; s < SEQS; s++) {
        struct llama_context *own = contract_context(plain, 1, true);
        contract_read(own, 0, paths[s], 0, READ);
        float *right = contract_keep(own, contract_read(own, 0, paths[s], READ, PATH));
        assert_true(contract_same(own, right, contract_read(context, (llama_seq_id)s, paths[s], READ, PATH)));
        free(right);
        llama_free(own);
    }
    llama_free(context);
}

static void sequences_decoded_together_are_right_with_weights_as_they_are(void **state)
{
    (void)state;
    bool first = false;
    float distance = company(plain, &first);
    printf("company changes logits by %g\n", (double)distance);
    assert_true(distance < 0.1f);
}

/* In a process of its own: what is read behind the weights may not be there. */
static void with_weights_in_amx_layout_only_the_first_sequence_is_right(void **state)
{
    (void)state;
    if (strstr(llama_print_system_info(), "AMX_INT8 = 1") == NULL) {
        printf("no AMX here\n");
        return;
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool first = false;
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0)
            (void)dup2(nowhere, 2);
        float distance = company(load(true), &first);
        _exit(distance < 0.1f ? 1 : first ? 0 : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
        fail_msg("libllama multiplies rightly now: the exception in llama_share.c can go");
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}

static uint32_t number_at(contract_state state, size_t at)
{
    uint32_t number = 0;
    assert_true(at + sizeof number <= state.size);
    memcpy(&number, state.bytes + at, sizeof number);
    return number;
}

static void a_state_says_how_many_parts_the_cache_has_and_that_the_others_are_empty(void **state)
{
    (void)state;
    struct llama_context *split = contract_context(plain, SEQS, false),
                         *own = contract_context(plain, 1, true);
    contract_read(own, 0, paths[1], 0, READ);
    contract_read(split, 0, paths[0], 0, READ);
    contract_read(split, 1, paths[1], 0, READ);
    contract_state alone = contract_take(own, 0, 0), one_of_three = contract_take(split, 1, 0);
    size_t counts = sizeof(uint32_t) * (SEQS - 1), cell;
    contract_state part = contract_take(own, 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    cell = part.size - 8;
    assert_int_equal(one_of_three.size, alone.size + counts);
    assert_int_equal(number_at(alone, 8), 1);
    assert_int_equal(number_at(one_of_three, 8), SEQS);
    assert_int_equal(number_at(one_of_three, 12), 0);
    assert_int_equal(number_at(alone, 12), READ);
    assert_int_equal(number_at(one_of_three, 16), READ);
    assert_int_equal(number_at(one_of_three, one_of_three.size - cell - sizeof(uint32_t)), 0);
    free(part.bytes);
    free(alone.bytes);
    free(one_of_three.bytes);
    llama_free(split);
    llama_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_decoded_alone_has_the_bits_of_a_context_of_its_own),
        cmocka_unit_test(sequences_decoded_together_are_right_with_weights_as_they_are),
        cmocka_unit_test(with_weights_in_amx_layout_only_the_first_sequence_is_right),
        cmocka_unit_test(a_state_says_how_many_parts_the_cache_has_and_that_the_others_are_empty),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
