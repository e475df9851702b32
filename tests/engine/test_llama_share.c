/*
 * Slots that share one context: what one of them does is never seen in another, prompts have the bits that a context of
 * their own gives them, and failures stay where they are. What all slots promise is in test_engine_llama (`shared`).
 */
#include <math.h>

#include "base/mem_test.h"
#include "contract/contract_support.h"
#include "engine/engine_llama.h"
#include "engine/engine_support.h"
#include "engine/llama_check.h"
#include "engine/synth_support.h"
#include "test_support.h"

enum { SLOTS = 4, CONTEXT = 512, BATCH = 64, READ = 100, TOKENS = 200 };

static cairn_engine *alone, *shared; /* one slot with a context of its own; four in one */
static cairn_mem_test heap;
static uint32_t vocab;
static cairn_token tokens[SLOTS][TOKENS];

static cairn_engine *start(const char *path, uint32_t slots, cairn_mem *mem)
{
    cairn_llama_options o;
    cairn_engine *engine = NULL;
    cairn_error error;
    cairn_llama_defaults(&o);
    o.model.path = path;
    o.slots = slots;
    o.slot_tokens_max = CONTEXT;
    o.batch_tokens_max = BATCH;
    o.threads = 1;
    o.shared = o.model.no_repack = true;
    if (cairn_llama_new(&o, mem, &engine, &error) != CAIRN_OK)
        fail_msg("%s: %s", error.where, error.detail);
    return engine;
}

static int set_up(void **state)
{
    (void)state;
    cairn_llama_log_set(quiet, NULL);
    cairn_mem_test_init(&heap, 0);
    alone = start(contract_model_path("qwen35", "tiny"), 1, cairn_mem_default());
    shared = start(contract_model_path("qwen35", "tiny"), SLOTS, &heap.mem);
    assert_false(alone->info.batch_alone);
    assert_true(shared->info.batch_alone);
    vocab = shared->info.vocab_size;
    for (uint32_t s = 0; s < SLOTS; s++)
        for (uint32_t i = 0; i < TOKENS; i++)
            tokens[s][i] = (cairn_token)(((i + 1) * 7919u + s * 104729u + i * i * 31u) % vocab);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    alone->ops->free(alone);
    shared->ops->free(shared);
    assert_int_equal(cairn_mem_test_leaked(&heap), 0);
    cairn_mem_test_release(&heap);
    synth_test_folder_remove();
    return 0;
}

static const float *read_to(cairn_engine *e, uint32_t slot, const cairn_token *path, uint32_t end)
{
    return read_cut(e, slot, path, end, BATCH, true);
}

/* Logits behind `end` tokens of a path, read cold with a cut at READ in a context of its own; malloc'ed. */
static float *cold(const cairn_token *path, uint32_t end)
{
    float *kept = malloc(vocab * sizeof *kept);
    alone->ops->reset(alone, 0);
    read_to(alone, 0, path, READ);
    memcpy(kept, read_to(alone, 0, path, end), vocab * sizeof *kept);
    return kept;
}

/* The shared slot, which has READ tokens, goes on as a cold run does. */
static void expect_cold(uint32_t slot, const cairn_token *path, uint32_t end)
{
    float *right = cold(path, end);
    assert_memory_equal(right, read_to(shared, slot, path, end), vocab * sizeof *right);
    free(right);
}

static float distance(const float *a, const float *b)
{
    float most = 0;
    for (uint32_t i = 0; i < vocab; i++)
        most = fabsf(a[i] - b[i]) > most ? fabsf(a[i] - b[i]) : most;
    return most;
}

static void read_all(uint32_t end)
{
    for (uint32_t s = 0; s < SLOTS; s++) {
        shared->ops->reset(shared, s);
        read_to(shared, s, tokens[s], end);
    }
}

/* One more token in each of the slots named, all in one decode. */
static cairn_status step(const uint32_t *slots, uint32_t count, cairn_error *reterr)
{
    cairn_piece pieces[SLOTS];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = shared->ops->length(shared, slots[i]);
        pieces[i] = (cairn_piece){slots[i], at, &tokens[slots[i]][at], 1, CAIRN_LOGITS_LAST, false};
    }
    return shared->ops->decode(shared, pieces, count, reterr);
}

static void a_prompt_has_the_bits_of_a_context_of_its_own(void **unused)
{
    (void)unused;
    read_all(READ);
    for (uint32_t s = 0; s < SLOTS; s++)
        expect_cold(s, tokens[s], READ + 30);
}

static void states_and_rows_go_from_one_kind_of_context_to_the_other(void **unused)
{
    (void)unused;
    assert_memory_equal(alone->info.fingerprint, shared->info.fingerprint, CAIRN_FINGERPRINT_BYTES);
    alone->ops->reset(alone, 0);
    read_to(alone, 0, tokens[0], READ);
    bytes state = take_state(alone, 0), rows = take_rows(alone, 0, 0, READ);
    read_all(READ / 2);
    for (uint32_t s = 0; s < SLOTS; s++) {
        shared->ops->reset(shared, s);
        assert_ok(put_rows(shared, s, 0, READ, rows));
        assert_ok(shared->ops->state_set(shared, s, READ, state.at, state.size, NULL));
        bytes again = take_rows(shared, s, 0, READ);
        assert_int_equal(again.size, rows.size);
        free(again.at);
        expect_cold(s, tokens[0], READ + 40);
    }
    free(state.at);
    free(rows.at);
}

/* Any wrong token, row or state changes logits by more than 1 (see test_engine_llama); the company does by far less. */
static void answers_decoded_together_are_those_decoded_alone(void **unused)
{
    (void)unused;
    uint64_t seed = cairn_test_seed("answers_decoded_together_are_those_decoded_alone", 3);
    float most = 0;
    read_all(READ);
    for (uint32_t round = 0; round < 40; round++) {
        uint32_t slots[SLOTS], count = 0;
        for (uint32_t s = 0; s < SLOTS; s++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (seed >> 63 != 0 && shared->ops->length(shared, s) < TOKENS)
                slots[count++] = s;
        }
        if (count > 0)
            assert_ok(step(slots, count, NULL));
    }
    for (uint32_t s = 0; s < SLOTS; s++) {
        uint32_t end = shared->ops->length(shared, s);
        assert_true(end > READ + 5);
        cairn_piece piece = {s, end, &tokens[s][end], 1, CAIRN_LOGITS_LAST, false};
        assert_ok(shared->ops->decode(shared, &piece, 1, NULL));
        float *together = malloc(vocab * sizeof *together);
        memcpy(together, shared->ops->logits(shared, 0, 0), vocab * sizeof *together);
        alone->ops->reset(alone, 0);
        read_to(alone, 0, tokens[s], READ);
        for (piece.slot = 0, piece.begin = READ; piece.begin <= end; piece.begin++) {
            piece.tokens = &tokens[s][piece.begin];
            assert_ok(alone->ops->decode(alone, &piece, 1, NULL));
        }
        float d = distance(together, alone->ops->logits(alone, 0, 0));
        most = d > most ? d : most;
        free(together);
    }
    printf("together and alone differ by at most %g\n", (double)most);
    assert_true(most < 0.5f);
}

static void what_one_slot_does_leaves_the_others_bytes_alone(void **unused)
{
    (void)unused;
    bytes states[SLOTS], rows[SLOTS];
    read_all(READ);
    for (uint32_t s = 1; s < SLOTS; s++) {
        states[s] = take_state(shared, s);
        rows[s] = take_rows(shared, s, 10, READ);
    }
    bytes state = take_state(shared, 0), part = take_rows(shared, 0, 0, 40);
    uint8_t junk[64] = {0};
    for (uint32_t what = 0; what < 6; what++) {
        if (what == 0)
            read_to(shared, 0, tokens[0], TOKENS);
        if (what == 1)
            assert_ok(shared->ops->trim(shared, 0, READ, NULL));
        if (what == 2)
            assert_ok(shared->ops->state_set(shared, 0, READ, state.at, state.size, NULL));
        if (what == 3)
            assert_status(shared->ops->state_set(shared, 0, READ, junk, sizeof junk, NULL), CAIRN_CORRUPT);
        if (what == 4)
            assert_ok(put_rows(shared, 0, 0, 40, part));
        if (what == 5)
            shared->ops->reset(shared, 0);
        for (uint32_t s = 1; s < SLOTS; s++) {
            bytes now = take_state(shared, s), now_rows = take_rows(shared, s, 10, READ);
            assert_int_equal(now.size, states[s].size);
            assert_memory_equal(now.at, states[s].at, now.size);
            assert_int_equal(now_rows.size, rows[s].size);
            assert_memory_equal(now_rows.at, rows[s].at, now_rows.size);
            free(now.at);
            free(now_rows.at);
        }
    }
    for (uint32_t s = 1; s < SLOTS; s++) {
        free(states[s].at);
        free(rows[s].at);
    }
    free(state.at);
    free(part.at);
}

static void rows_of_two_slots_may_come_in_turns(void **unused)
{
    (void)unused;
    bytes states[2], rows[2][2];
    read_all(READ);
    for (uint32_t s = 0; s < 2; s++) {
        states[s] = take_state(shared, s);
        rows[s][0] = take_rows(shared, s, 0, 33);
        rows[s][1] = take_rows(shared, s, 33, READ);
    }
    shared->ops->reset(shared, 2);
    shared->ops->reset(shared, 3);
    for (uint32_t part = 0; part < 2; part++)
        for (uint32_t s = 0; s < 2; s++)
            assert_ok(put_rows(shared, 2 + s, part ? 33 : 0, part ? READ : 33, rows[s][part]));
    for (uint32_t s = 0; s < 2; s++) {
        assert_ok(shared->ops->state_set(shared, 2 + s, READ, states[s].at, states[s].size, NULL));
        expect_cold(2 + s, tokens[s], READ + 20);
        free(states[s].at);
        free(rows[s][0].at);
        free(rows[s][1].at);
    }
}

/* --- failures -------------------------------------------------------------------------------------------- */

static void nan_in_one_answer_is_an_error_of_that_slot(void **unused)
{
    (void)unused;
    static const uint32_t both[2] = {0, 1};
    cairn_error error;
    read_all(READ);
    bytes poisoned = take_state(shared, 0), sound = take_state(shared, 1);
    memset(poisoned.at + poisoned.size - 256, 0xff, 256); /* the end of the last layer's cell */
    assert_ok(shared->ops->state_set(shared, 0, READ, poisoned.at, poisoned.size, NULL));
    assert_status(step(both, 2, &error), CAIRN_ENGINE);
    assert_non_null(strstr(error.detail, "NaN"));
    assert_int_equal(shared->ops->length(shared, 0), 0);
    assert_int_equal(shared->ops->length(shared, 1), READ); /* rows without a state */
    assert_int_equal(shared->ops->state_size(shared, 1), 0);
    shared->ops->reset(shared, 0);
    read_to(shared, 0, tokens[0], READ);
    assert_ok(shared->ops->state_set(shared, 1, READ, sound.at, sound.size, NULL));
    /* Nothing of it is left, neither here nor beside. */
    for (uint32_t s = 0; s < SLOTS; s++)
        expect_cold(s, tokens[s], READ + 30);
    free(poisoned.at);
    free(sound.at);
}

static void no_memory(bool fail)
{
    heap.fail_at = fail ? heap.calls + 1 : 0;
    heap.fail_after = fail;
}

static void without_memory_for_moving_rows_the_slots_stay_as_they_are(void **unused)
{
    (void)unused;
    read_all(READ);
    bytes rows = take_rows(shared, 0, 0, READ), state = take_state(shared, 0);
    uint8_t *room = malloc(rows.size);
    uint64_t size = 0;
    no_memory(true);
    assert_status(shared->ops->rows_export(shared, 1, 0, READ, room, rows.size, &size, NULL), CAIRN_NOMEM);
    no_memory(false);
    assert_int_equal(shared->ops->length(shared, 1), READ);
    shared->ops->reset(shared, 2);
    assert_ok(put_rows(shared, 2, 0, READ, rows));
    no_memory(true); /* on their way from the carrier into the slot */
    assert_status(shared->ops->state_set(shared, 2, READ, state.at, state.size, NULL), CAIRN_NOMEM);
    no_memory(false);
    assert_int_equal(shared->ops->length(shared, 2), 0);
    shared->ops->reset(shared, 2);
    read_to(shared, 2, tokens[2], READ);
    read_to(shared, 1, tokens[1], READ + 10);
    free(rows.at);
    free(state.at);
    free(room);
}

/* --- memory ---------------------------------------------------------------------------------------------- */

static bool count_progress(void *ctx, float part)
{
    (void)part;
    ++*(uint32_t *)ctx;
    return true;
}

static void what_does_not_fit_is_refused_before_weights_are_loaded(void **unused)
{
    (void)unused;
    uint32_t loaded = 0;
    cairn_llama_options o;
    cairn_engine *engine = NULL;
    cairn_error error;
    cairn_llama_memory all, one;
    cairn_llama_memory_get(shared, &all);
    cairn_llama_memory_get(alone, &one);
    assert_true(all.weight_bytes > 0 && all.cell_bytes > 0 && all.buffer_bytes > 0);
    assert_int_equal(all.slot_bytes, all.row_bytes + all.cell_bytes);
    assert_int_equal(all.row_bytes, (SLOTS + 1) * one.row_bytes); /* the carrier is one more */
    uint64_t need = all.weight_bytes + all.slot_bytes + all.buffer_bytes;
    cairn_llama_defaults(&o);
    o.model = (cairn_llama_model_options){.path = contract_model_path("qwen35", "tiny"), .no_repack = true};
    o.model.progress = count_progress;
    o.model.progress_ctx = &loaded;
    o.slots = SLOTS;
    o.slot_tokens_max = CONTEXT;
    o.batch_tokens_max = BATCH;
    o.threads = 1;
    o.shared = true;
    o.memory_bytes_max = need - (need >> 3);
    assert_status(cairn_llama_new(&o, cairn_mem_default(), &engine, &error), CAIRN_NOMEM);
    assert_int_equal(loaded, 0);
    char number[32];
    snprintf(number, sizeof number, "room for %llu MiB", (unsigned long long)(o.memory_bytes_max >> 20));
    assert_non_null(strstr(error.detail, number));
    assert_non_null(strstr(error.detail, "4 slots of 512 tokens need "));
    o.slots = 0; /* as many as there is room for */
    assert_ok(cairn_llama_new(&o, cairn_mem_default(), &engine, &error));
    assert_true(engine->info.slots >= 1 && engine->info.slots < SLOTS);
    engine->ops->free(engine);
    o.slots = SLOTS;
    o.memory_bytes_max = need + (need >> 3);
    assert_ok(cairn_llama_new(&o, cairn_mem_default(), &engine, &error));
    assert_int_equal(engine->info.slots, SLOTS);
    engine->ops->free(engine);
}

/* --- who shares ------------------------------------------------------------------------------------------ */

static void the_check_proves_the_shared_context(void **unused)
{
    (void)unused;
    cairn_check check;
    assert_ok(cairn_llama_check(shared, cairn_mem_default(), &check, NULL));
    assert_true(check.usable && check.exact && check.rows_move);
    assert_true(check.together.done && check.together.distance * 20 < check.control.distance);
    assert_true(shared->info.batch_alone && shared->info.exact);
    assert_string_equal(check.reason, "");
}

static void windows_have_contexts_of_their_own(void **unused)
{
    (void)unused;
    cairn_engine *e = start(synth_test_make("gemma3", "tiny", 1, "gemma3.gguf"), 2, cairn_mem_default());
    assert_int_equal(e->info.trim, CAIRN_TRIM_WINDOW);
    assert_false(e->info.batch_alone);
    e->ops->free(e);
}

static void recurrent_and_attention_models_share_too(void **unused)
{
    (void)unused;
    static const char *const archs[] = {"mamba2", "llama"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        cairn_check check;
        cairn_engine *e = start(synth_test_make(archs[i], "tiny", 1, archs[i]), 3, cairn_mem_default());
        assert_true(e->info.batch_alone);
        assert_ok(cairn_llama_check(e, cairn_mem_default(), &check, NULL));
        if (!check.exact || !e->info.batch_alone)
            fail_msg("%s: %s", archs[i], check.reason);
        e->ops->free(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_has_the_bits_of_a_context_of_its_own),
        cmocka_unit_test(states_and_rows_go_from_one_kind_of_context_to_the_other),
        cmocka_unit_test(answers_decoded_together_are_those_decoded_alone),
        cmocka_unit_test(what_one_slot_does_leaves_the_others_bytes_alone),
        cmocka_unit_test(rows_of_two_slots_may_come_in_turns),
        cmocka_unit_test(nan_in_one_answer_is_an_error_of_that_slot),
        cmocka_unit_test(without_memory_for_moving_rows_the_slots_stay_as_they_are),
        cmocka_unit_test(what_does_not_fit_is_refused_before_weights_are_loaded),
        cmocka_unit_test(the_check_proves_the_shared_context),
        cmocka_unit_test(windows_have_contexts_of_their_own),
        cmocka_unit_test(recurrent_and_attention_models_share_too),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
