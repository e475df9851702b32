/*
 * What the engine promises, on every architecture that `cairn model synth` knows: the check at start passes, what is
 * resumed in place or in another slot goes on with a cold run's bits, rows move in parts, the gate is the strictest of
 * the layers, a wrong state changes the answer clearly, and slots in one context keep to themselves. The qwen35 model is
 * asked much more in test_engine_llama, windows that came round in test_engine_windows.
 */
#include <math.h>

#include "contract/contract_support.h"
#include "engine/engine_llama.h"
#include "engine/engine_support.h"
#include "engine/llama_check.h"
#include "engine/synth.h"
#include "test_support.h"

enum { CHOICES = 128, CONTEXT = 256, BATCH = 64, AT = 80, JOIN = 33, END = 120, COLD = 1 };

typedef struct rig {
    const char *arch;
    cairn_engine *engine;
    const cairn_engine_ops *ops;
    uint32_t vocab;
    cairn_token tokens[END], other[END];
    float *cold;
} rig;

static void start(rig *r, const char *arch, bool shared)
{
    cairn_llama_options o;
    cairn_error error;
    cairn_check check;
    cairn_llama_defaults(&o);
    o.model.path = contract_model_path(arch, "tiny");
    o.slots = 2;
    o.slot_tokens_max = CONTEXT;
    o.batch_tokens_max = BATCH;
    o.threads = 1;
    o.shared = o.model.no_repack = shared;
    r->arch = arch;
    if (cairn_llama_new(&o, cairn_mem_default(), &r->engine, &error) != CAIRN_OK)
        fail_msg("%s: %s", arch, error.detail);
    r->ops = r->engine->ops;
    r->vocab = r->engine->info.vocab_size;
    r->cold = malloc(r->vocab * sizeof *r->cold);
    for (uint32_t i = 0; i < END; i++) {
        r->tokens[i] = (cairn_token)((i * 7919u + i * i * 31u + 7u) % r->vocab);
        r->other[i] = (cairn_token)((i * 104729u + i * i * 17u + 3u) % r->vocab);
    }
    assert_ok(cairn_llama_check(r->engine, cairn_mem_default(), &check, NULL));
    if (!check.usable || !check.exact || !r->engine->info.exact || check.whole_states)
        fail_msg("%s: %s", arch, check.reason);
}

static void stop(rig *r)
{
    free(r->cold);
    r->ops->free(r->engine);
}

static const float *read_to(rig *r, uint32_t slot, const cairn_token *tokens, uint32_t end)
{
    return read_cut(r->engine, slot, tokens, end, BATCH, true);
}

static void read_cold(rig *r)
{
    r->ops->reset(r->engine, COLD);
    (void)read_to(r, COLD, r->tokens, AT);
    memcpy(r->cold, read_to(r, COLD, r->tokens, END), r->vocab * sizeof *r->cold);
}

static void expect_cold(const rig *r, const float *logits, const char *what)
{
    if (memcmp(r->cold, logits, r->vocab * sizeof *logits) != 0)
        fail_msg("%s: %s differs from a cold run", r->arch, what);
}

static float distance(const rig *r, const float *logits)
{
    float most = 0;
    for (uint32_t i = 0; i < r->vocab; i++)
        most = fabsf(r->cold[i] - logits[i]) > most ? fabsf(r->cold[i] - logits[i]) : most;
    return most;
}

static void put_state_back(rig *r, uint32_t slot, bytes state)
{
    if (state.size > 0)
        assert_ok(put_state(r->engine, slot, AT, state));
}

static void put_rows_back(rig *r, uint32_t slot, const bytes rows[2])
{
    static const uint32_t ends[3] = {0, JOIN, AT};
    r->ops->reset(r->engine, slot);
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(put_rows(r->engine, slot, ends[i], ends[i + 1], rows[i]));
}

/* The gate: plain attention anywhere, windows of 128 while nothing is gone (here), recurrent layers never. */
static void ask_the_gate(rig *r)
{
    bool open = r->engine->info.trim != CAIRN_TRIM_NEVER;
    assert_int_equal(r->ops->can_trim(r->engine, 0, AT), open);
    assert_int_equal(r->ops->can_trim(r->engine, 0, 1), open);
    assert_true(r->ops->can_trim(r->engine, 0, 0));
    assert_true(r->ops->can_trim(r->engine, 0, r->ops->length(r->engine, 0)));
    assert_false(r->ops->can_trim(r->engine, 0, r->ops->length(r->engine, 0) + 1));
    assert_int_equal(r->engine->info.state_bytes_max > 0, r->engine->info.trim != CAIRN_TRIM_ANYWHERE);
}

static void ask_everything(rig *r)
{
    read_cold(r);
    r->ops->reset(r->engine, 0);
    (void)read_to(r, 0, r->other, AT);
    bytes foreign = take_state(r->engine, 0),
          foreign_rows[2] = {take_rows(r->engine, 0, 0, JOIN), take_rows(r->engine, 0, JOIN, AT)};
    r->ops->reset(r->engine, 0);
    (void)read_to(r, 0, r->tokens, AT);
    bytes state = take_state(r->engine, 0),
          rows[2] = {take_rows(r->engine, 0, 0, JOIN), take_rows(r->engine, 0, JOIN, AT)};
    (void)read_to(r, 0, r->other, END); /* other tokens than the path has there */
    ask_the_gate(r);
    bool alone = r->ops->can_trim(r->engine, 0, AT);
    assert_ok(r->ops->trim(r->engine, 0, AT, NULL));
    if (!alone) {
        cairn_piece piece = {0, AT, r->tokens + AT, 1, CAIRN_LOGITS_NONE, false};
        assert_status(r->ops->decode(r->engine, &piece, 1, NULL), CAIRN_ENGINE); /* rows without a state */
        put_state_back(r, 0, state);
    }
    expect_cold(r, read_to(r, 0, r->tokens, END), "resuming in place");
    put_rows_back(r, 1, rows);
    put_state_back(r, 1, state);
    expect_cold(r, read_to(r, 1, r->tokens, END), "resuming in another slot from rows in two parts");
    put_rows_back(r, 0, foreign.size > 0 ? rows : foreign_rows);
    put_state_back(r, 0, foreign);
    float wrong = distance(r, read_to(r, 0, r->tokens, END));
    print_message("%s: a wrong %s changes logits by %g\n", r->arch, foreign.size > 0 ? "state" : "row",
                  (double)wrong);
    assert_true(wrong > 0.5f);
    for (uint32_t i = 0; i < 2; i++) {
        free(rows[i].at);
        free(foreign_rows[i].at);
    }
    free(foreign.at);
    free(state.at);
}

/* In one context: a prompt beside another has the bits of a cold run, a token beside another's is close to one alone. */
static void ask_neighbours(rig *r)
{
    cairn_piece pieces[2] = {{0, AT, r->tokens, 1, CAIRN_LOGITS_LAST, false},
                             {1, END, r->other, 1, CAIRN_LOGITS_LAST, false}};
    read_cold(r);
    r->ops->reset(r->engine, 0);
    (void)read_to(r, 0, r->other, AT);
    bytes state = take_state(r->engine, 0);
    r->ops->reset(r->engine, 1);
    (void)read_to(r, 1, r->tokens, AT);
    expect_cold(r, read_to(r, 1, r->tokens, END), "reading beside another slot");
    bytes now = take_state(r->engine, 0);
    assert_int_equal(now.size, state.size);
    assert_memory_equal(now.at, state.at, state.size);
    free(state.at);
    free(now.at);
    bytes last = take_state(r->engine, 1);
    assert_ok(r->ops->decode(r->engine, &pieces[1], 1, NULL));
    memcpy(r->cold, r->ops->logits(r->engine, 0, 0), r->vocab * sizeof *r->cold);
    assert_ok(r->ops->trim(r->engine, 1, END, NULL));
    if (last.size > 0)
        assert_ok(r->ops->state_set(r->engine, 1, END, last.at, last.size, NULL));
    assert_ok(r->ops->decode(r->engine, pieces, 2, NULL));
    float company = distance(r, r->ops->logits(r->engine, 1, 0));
    print_message("%s: company changes logits by %g\n", r->arch, (double)company);
    assert_true(company < 0.1f);
    free(last.at);
}

static void promises_hold(void **state)
{
    rig r;
    start(&r, *state, false);
    ask_everything(&r);
    stop(&r);
    start(&r, *state, true);
    assert_int_equal(r.engine->info.batch_alone, r.engine->info.trim != CAIRN_TRIM_WINDOW);
    ask_everything(&r);
    if (r.engine->info.batch_alone)
        ask_neighbours(&r);
    stop(&r);
}

int main(int argc, char **argv)
{
    static cairn_synth_choice choices[CHOICES];
    static struct CMUnitTest tests[CHOICES];
    static char names[CHOICES][96];
    size_t count = 0, listed = cairn_synth_list(choices, CHOICES);
    cairn_llama_log_set(quiet, NULL);
    for (size_t i = 0; i < listed && i < CHOICES; i++) {
        if (strcmp(choices[i].size, "tiny") != 0 || (argc > 1 && strcmp(choices[i].arch, argv[1]) != 0))
            continue;
        snprintf(names[count], sizeof names[count], "promises_hold_on_%s", choices[i].arch);
        tests[count] = (struct CMUnitTest){.name = names[count], .test_func = promises_hold};
        tests[count++].initial_state = (void *)(uintptr_t)choices[i].arch;
    }
    return _cmocka_run_group_tests("engine_archs", tests, count, NULL, NULL);
}
