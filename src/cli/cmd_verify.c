/*
 * verify - `cairn verify`: proves on this machine and this model that a resumed conversation's logits are those of a
 * cold run. And that the proof can fail: the state of other tokens, put back on purpose, must change the logits.
 *
 *   A   system | user | answer | user | answer | user          read first, with its answer
 *   E_k A cut at k, then other tokens                          resumes from a checkpoint at or before k
 *   B   A, then other tokens; then A again with a tail         branch and back
 *   S   A with a tail, while slot 0 is busy                    restore into another slot
 *   C   A, its answer, then a user message                     exact: may not use what was written token by token
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "cli/commands.h"
#include "cli/engine_open.h"
#include "cli/options.h"
#include "cli/term.h"
#include "cli/verify_run.h"

enum { MESSAGES = 6, CASES_MAX = 32, TAIL = 24 };

typedef struct settings {
    const char *model;
    int64_t tokens, answer, threads, batch;
    bool json, verbose;
} settings;

typedef struct result {
    char name[32];
    cairn_resume_mode mode;
    bool control; /* must differ */
    cairn_record record;
    cairn_verify_difference difference;
    bool passed;
} result;

typedef struct bench {
    const settings *settings;
    cairn_log log;
    cairn_engine_open open;
    cairn_rng rng;
    cairn_token *tokens; /* cairn_token[room]: prompt A, and room behind it */
    cairn_token *other;  /* cairn_token[room]: the prompt of the case at hand */
    uint32_t room, length;
    cairn_boundary boundaries[MESSAGES + 1];
    cairn_verify_trace cold, warm, first;
    result results[CASES_MAX];
    size_t count;
} bench;

/* --- prompts ----------------------------------------------------------------------------------------------------- */

static cairn_token random_token(bench *b)
{
    uint32_t vocab_size = b->open.engine->info.vocab_size;
    for (;;) {
        cairn_token token = (cairn_token)cairn_rng_below(&b->rng, vocab_size);
        if (!cairn_llama_is_control(&b->open.vocab, token) && !cairn_llama_is_eog(&b->open.vocab, token))
            return token;
    }
}

static void fill_random(bench *b, cairn_token *tokens, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        tokens[i] = random_token(b);
}

/* The first `count` tokens of `tokens` with the boundaries of A that lie before `shared`. */
static cairn_prompt prompt_of(const bench *b, const cairn_token *tokens, uint32_t count, uint32_t shared,
                              cairn_resume_mode mode)
{
    cairn_prompt prompt = {.tokens = tokens, .count = count, .boundaries = b->boundaries, .mode = mode};
    while (prompt.count_boundaries < MESSAGES && b->boundaries[prompt.count_boundaries].position <= shared &&
           b->boundaries[prompt.count_boundaries].position < count)
        prompt.count_boundaries++;
    return prompt;
}

/* System, then users and answers by turns, of uneven lengths. */
static void make_boundaries(bench *b)
{
    static const uint32_t shares[MESSAGES] = {12, 41, 47, 73, 78, 97}; /* ends in hundredths of the prompt */
    static const uint8_t roles[MESSAGES] = {CAIRN_ROLE_USER,      CAIRN_ROLE_ASSISTANT, CAIRN_ROLE_USER,
                                            CAIRN_ROLE_ASSISTANT, CAIRN_ROLE_USER,      CAIRN_ROLE_ASSISTANT};
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint16_t kinds = CAIRN_BOUNDARY_MESSAGE_START;
        if (i == 0)
            kinds |= CAIRN_BOUNDARY_SYSTEM_END;
        if (i == MESSAGES - 2)
            kinds |= CAIRN_BOUNDARY_LAST_USER;
        if (i == MESSAGES - 1)
            kinds |= CAIRN_BOUNDARY_OPENER;
        b->boundaries[i] = (cairn_boundary){
            .position = b->length * shares[i] / 100 + i, .message = i + 1, .kinds = kinds, .role = roles[i]};
    }
}

/* --- cases ------------------------------------------------------------------------------------------------------- */

static cairn_status new_cache(bench *b, bool off, cairn_cache **ret_cache, cairn_error *reterr)
{
    cairn_cache_options options = {.ram_bytes_max = UINT64_C(2) << 30, .off = off};
    return cairn_cache_new(cairn_mem_default(), b->open.engine, &options, ret_cache, reterr);
}

/* The same prompt on a server that has just been started: what everything is compared with. */
static cairn_status run_cold(bench *b, const cairn_prompt *prompt, cairn_verify_trace *trace,
                             cairn_error *reterr)
{
    cairn_cache *cache = NULL;
    for (uint32_t slot = 0; slot < b->open.engine->info.slots; slot++)
        b->open.engine->ops->reset(b->open.engine, slot);
    cairn_status status = new_cache(b, true, &cache, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_run(cache, prompt, NULL, trace, reterr);
    cairn_cache_free(cache);
    return status;
}

static void add_result(bench *b, const char *name, cairn_resume_mode mode, const cairn_verify_trace *trace,
                       bool control)
{
    CAIRN_ASSERT(b->count < CASES_MAX);
    result *r = &b->results[b->count++];
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    r->mode = mode;
    r->control = control;
    r->record = trace->record;
    r->difference = cairn_verify_compare(&b->cold, trace);
    /* A control passes when it differs clearly; fast promises greedy agreement nowhere, so it always passes. */
    if (control) {
        r->passed = r->difference.largest > 1e-3 * r->difference.magnitude && r->difference.largest > 0;
    } else {
        r->passed = mode == CAIRN_RESUME_FAST || r->difference.equal;
    }
    cairn_term_progress("verify: %zu comparisons done", b->count);
}

/* Prepare a cache that knows A and its answer, run `prompt` on it, compare with the cold run. */
static cairn_status run_case(bench *b, const char *name, const cairn_prompt *before,
                             const cairn_prompt *prompt, bool busy, cairn_error *reterr)
{
    cairn_cache *cache = NULL;
    cairn_request *blocker = NULL;
    cairn_prompt a = prompt_of(b, b->tokens, b->length, b->length, prompt->mode);
    cairn_status status = new_cache(b, false, &cache, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_run(cache, &a, NULL, &b->first, reterr);
    if (status == CAIRN_OK && before != NULL)
        status = cairn_verify_run(cache, before, NULL, &b->first, reterr);
    if (status == CAIRN_OK && busy)
        status = cairn_cache_begin(cache, &a, &blocker, reterr);
    while (status == CAIRN_OK && busy && cairn_request_phase(blocker) != CAIRN_PHASE_READY)
        status = cairn_cache_step(cache, &blocker, 1, reterr);
    if (status == CAIRN_OK)
        status = cairn_verify_run(cache, prompt, NULL, &b->warm, reterr);
    if (blocker != NULL) {
        cairn_cache_end(cache, blocker, CAIRN_END_STOPPED);
        cairn_request_free(blocker);
    }
    cairn_cache_free(cache);
    if (status == CAIRN_OK)
        status = run_cold(b, prompt, &b->cold, reterr);
    if (status == CAIRN_OK)
        add_result(b, name, prompt->mode, &b->warm, false);
    return status;
}

static cairn_status run_edits(bench *b, cairn_resume_mode mode, cairn_error *reterr)
{
    static const uint32_t places[] = {15, 45, 60, 90, 99}; /* hundredths of A */
    cairn_status status = CAIRN_OK;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && status == CAIRN_OK; i++) {
        uint32_t at = b->length * places[i] / 100;
        char name[32];
        memcpy(b->other, b->tokens, at * sizeof *b->other);
        fill_random(b, b->other, at, at + TAIL * 4);
        cairn_prompt prompt = prompt_of(b, b->other, at + TAIL * 4, at, mode);
        (void)snprintf(name, sizeof name, "edit at %" PRIu32, at);
        status = run_case(b, name, NULL, &prompt, false, reterr);
    }
    return status;
}

static cairn_status run_mode(bench *b, cairn_resume_mode mode, cairn_error *reterr)
{
    uint32_t n = b->length;
    cairn_status status = run_edits(b, mode, reterr);
    /* branch and back */
    cairn_token branch[TAIL * 8];
    fill_random(b, branch, 0, TAIL * 8);
    uint32_t at = n / 2;
    memcpy(b->other, b->tokens, n * sizeof *b->other);
    fill_random(b, b->other, n, n + TAIL);
    cairn_token *side = cairn_mem_array(cairn_mem_default(), at + TAIL * 8, sizeof *side);
    if (side == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "verify", NULL);
    memcpy(side, b->tokens, at * sizeof *side);
    memcpy(side + at, branch, sizeof branch);
    cairn_prompt away = prompt_of(b, side, at + TAIL * 8, at, mode);
    cairn_prompt back = prompt_of(b, b->other, n + TAIL, n, mode);
    if (status == CAIRN_OK)
        status = run_case(b, "branch and back", &away, &back, false, reterr);
    cairn_mem_array_release(cairn_mem_default(), side, at + TAIL * 8, sizeof *side);
    if (status == CAIRN_OK && b->open.engine->info.slots > 1)
        status = run_case(b, "into another slot", NULL, &back, true, reterr);
    /* continue behind the answer that was written token by token */
    uint32_t answered = b->first.answer_tokens;
    if (status == CAIRN_OK) {
        cairn_prompt a = prompt_of(b, b->tokens, n, n, mode);
        status = run_cold(b, &a, &b->first, reterr);
        memcpy(b->other + n, b->first.answer, answered * sizeof *b->other);
        fill_random(b, b->other, n + answered, n + answered + TAIL);
    }
    cairn_prompt next = prompt_of(b, b->other, n + answered + TAIL, n, mode);
    if (status == CAIRN_OK)
        status = run_case(b, "continue an answer", NULL, &next, false, reterr);
    return status;
}

/* --- the control ------------------------------------------------------------------------------------------------- */

static cairn_status read_all(cairn_engine *e, uint32_t slot, const cairn_token *tokens, uint32_t count,
                             cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    for (uint32_t at = 0; at < count && status == CAIRN_OK;) {
        uint32_t n = count - at < e->info.batch_tokens_max ? count - at : e->info.batch_tokens_max;
        cairn_piece piece = {
            .slot = slot, .begin = at, .tokens = tokens + at, .count = n, .logits = CAIRN_LOGITS_LAST};
        status = e->ops->decode(e, &piece, 1, reterr);
        at += n;
    }
    return status;
}

/* Decode the probe tokens one by one behind `length` and keep their logits. */
static cairn_status probe(bench *b, uint32_t length, const cairn_token *tokens, cairn_verify_trace *t,
                          cairn_error *reterr)
{
    cairn_engine *e = b->open.engine;
    cairn_status status = CAIRN_OK;
    memset(&t->record, 0, sizeof t->record);
    t->record.prompt_tokens = length;
    for (uint32_t i = 0; i <= t->answer_tokens && status == CAIRN_OK; i++) {
        cairn_piece piece = {
            .slot = 0, .begin = length + i, .tokens = &tokens[i], .count = 1, .logits = CAIRN_LOGITS_LAST};
        status = e->ops->decode(e, &piece, 1, reterr);
        if (status != CAIRN_OK)
            break;
        memcpy(t->logits + (size_t)i * t->vocab_size, e->ops->logits(e, 0, 0), t->vocab_size * sizeof(float));
        if (i < t->answer_tokens)
            t->answer[i] = 0;
    }
    return status;
}

/*
 * The rows of A with the state of other tokens: the logits must differ clearly from those of A. An engine without
 * states (plain attention) gets the rows of other tokens instead.
 */
static cairn_status run_control(bench *b, cairn_error *reterr)
{
    cairn_engine *e = b->open.engine;
    uint32_t n = b->length / 2, probes = b->cold.answer_tokens + 1;
    memcpy(b->other, b->tokens, n * sizeof *b->other);
    fill_random(b, b->other, n, n + probes); /* the probes */
    cairn_token *foreign = cairn_mem_array(cairn_mem_default(), n, sizeof *foreign);
    uint8_t *state = NULL, *right = NULL;
    uint64_t size = 0, right_size = 0;
    cairn_status status =
        foreign != NULL ? CAIRN_OK : cairn_error_set(reterr, CAIRN_NOMEM, "verify/control", NULL);
    if (status == CAIRN_OK) {
        fill_random(b, foreign, 0, n);
        e->ops->reset(e, 0);
        status = read_all(e, 0, foreign, n, reterr);
    }
    size = status == CAIRN_OK ? e->ops->state_size(e, 0) : 0;
    if (size > 0) {
        state = cairn_mem_alloc(cairn_mem_default(), size);
        status = state != NULL ? e->ops->state_get(e, 0, state, size, reterr)
                               : cairn_error_set(reterr, CAIRN_NOMEM, "verify/control", NULL);
    } else if (status == CAIRN_OK) {
        status = probe(b, n, b->other + n, &b->warm, reterr);
    }
    if (status == CAIRN_OK) {
        e->ops->reset(e, 0);
        status = read_all(e, 0, b->other, n, reterr);
    }
    right_size = status == CAIRN_OK && size > 0 ? e->ops->state_size(e, 0) : 0;
    if (right_size > 0) {
        right = cairn_mem_alloc(cairn_mem_default(), right_size);
        status = right != NULL ? e->ops->state_get(e, 0, right, right_size, reterr)
                               : cairn_error_set(reterr, CAIRN_NOMEM, "verify/control", NULL);
    }
    if (status == CAIRN_OK)
        status = probe(b, n, b->other + n, &b->cold, reterr);
    if (status == CAIRN_OK && size > 0) {
        status = e->ops->trim(e, 0, n, reterr);
        if (status == CAIRN_OK)
            status = e->ops->state_set(e, 0, n, right, right_size, reterr);
        if (status == CAIRN_OK)
            status = probe(b, n, b->other + n, &b->warm, reterr);
        if (status == CAIRN_OK)
            add_result(b, "own state put back", CAIRN_RESUME_EXACT, &b->warm, false);
        if (status == CAIRN_OK)
            status = e->ops->trim(e, 0, n, reterr);
        if (status == CAIRN_OK)
            status = e->ops->state_set(e, 0, n, state, size, reterr);
        if (status == CAIRN_OK)
            status = probe(b, n, b->other + n, &b->warm, reterr);
    }
    if (status == CAIRN_OK) {
        add_result(b, size > 0 ? "other tokens' state" : "other tokens' rows", CAIRN_RESUME_EXACT, &b->warm,
                   true);
    }
    e->ops->reset(e, 0);
    cairn_mem_release(cairn_mem_default(), state, size);
    cairn_mem_release(cairn_mem_default(), right, right_size);
    cairn_mem_array_release(cairn_mem_default(), foreign, n, sizeof *foreign);
    return status;
}

/* --- reports ----------------------------------------------------------------------------------------------------- */

static const char *verdict(const result *r)
{
    if (r->control)
        return r->passed ? "differs, as it must" : "DOES NOT DIFFER";
    if (r->difference.equal)
        return "equal, bit for bit";
    return r->mode == CAIRN_RESUME_FAST ? "close" : "DIFFERS";
}

static void print_table(const bench *b)
{
    cairn_term_table *table = cairn_mem_zalloc(cairn_mem_default(), sizeof *table);
    if (table == NULL)
        return;
    static const char *const heads[] = {
        "mode", "case", ">prompt", ">reused", ">read", ">least", ">largest difference", "greedy", "verdict"};
    cairn_term_row(table);
    for (size_t c = 0; c < sizeof heads / sizeof heads[0]; c++)
        cairn_term_cell(table, c, "%s", heads[c]);
    for (size_t i = 0; i < b->count; i++) {
        const result *r = &b->results[i];
        cairn_term_row(table);
        cairn_term_cell(table, 0, "%s",
                        r->control                     ? "control"
                        : r->mode == CAIRN_RESUME_FAST ? "fast"
                                                       : "exact");
        cairn_term_cell(table, 1, "%s", r->name);
        cairn_term_cell(table, 2, "%u", r->record.prompt_tokens);
        cairn_term_cell(table, 3, "%u", r->record.resume);
        cairn_term_cell(table, 4, "%u", r->record.read);
        cairn_term_cell(table, 5, "%u", r->record.least);
        cairn_term_cell(table, 6, "%.3g of %.3g", r->difference.largest, r->difference.magnitude);
        cairn_term_cell(table, 7, "%s", r->difference.greedy ? "same" : "other");
        cairn_term_cell(table, 8, "%s", verdict(r));
    }
    cairn_term_print(table, stdout);
    cairn_mem_release(cairn_mem_default(), table, sizeof *table);
}

static void print_json(const bench *b, bool passed)
{
    json_t *list = json_array();
    for (size_t i = 0; i < b->count; i++) {
        const result *r = &b->results[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:b, s:b}",
                                              "mode", r->mode == CAIRN_RESUME_FAST ? "fast" : "exact", "case",
                                              r->name, "control", r->control, "prompt",
                                              (int)r->record.prompt_tokens, "reused", (int)r->record.resume,
                                              "read", (int)r->record.read, "least", (int)r->record.least,
                                              "largest_difference", r->difference.largest, "magnitude",
                                              r->difference.magnitude, "greedy_same", r->difference.greedy,
                                              "bit_equal", r->difference.equal, "passed", r->passed));
    }
    json_t *root =
        json_pack("{s:s, s:b, s:o}", "engine", b->open.engine->info.build, "passed", passed, "cases", list);
    if (root != NULL)
        (void)json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("\n");
    json_decref(root);
}

/* --- command ----------------------------------------------------------------------------------------------------- */

static int read_settings(settings *s, int argc, const char **argv)
{
    const cairn_option options[] = {
        {.kind = CAIRN_OPTION_TEXT,
         .name = "model",
         .letter = 'm',
         .value = &s->model,
         .arg = "FILE",
         .help = "the model, a GGUF file (required)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "tokens",
         .value = &s->tokens,
         .arg = "N",
         .min = 200,
         .max = 100000,
         .help = "length of the prompt that is edited (1500)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "answer",
         .value = &s->answer,
         .arg = "N",
         .min = 1,
         .max = 256,
         .help = "tokens written and compared behind each prompt (8)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "threads",
         .letter = 't',
         .value = &s->threads,
         .arg = "N",
         .min = 0,
         .max = 1024,
         .help = "threads that compute; 0: one for each core (0)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "batch-size",
         .letter = 'b',
         .value = &s->batch,
         .arg = "N",
         .min = 0,
         .max = 1 << 16,
         .help = "most prompt tokens read at once; 0: 512 (0)"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "json",
         .value = &s->json,
         .help = "print JSON instead of a table"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "verbose",
         .letter = 'v',
         .value = &s->verbose,
         .help = "show libllama's messages"},
    };
    const cairn_option_set set = {
        .usage = "cairn verify -m FILE [options]",
        .about = "Compares the logits of resumed conversations with those of cold runs, on this machine and\n"
                 "with this model. In exact mode all of them must be equal bit for bit; in fast mode the\n"
                 "largest difference is printed. As a control, the state of other tokens is put back on\n"
                 "purpose: that must change the logits. Ends with 0 only if all of this holds.",
        .options = options,
        .count = sizeof options / sizeof options[0]};
    char problem[256];
    const char *rest[2];
    switch (cairn_options_read(&set, argc, argv, rest, 2, problem)) {
    case CAIRN_OPTIONS_HELP:
        cairn_options_help(&set);
        return 0;
    case CAIRN_OPTIONS_WRONG:
        return cairn_term_usage("verify", problem);
    case CAIRN_OPTIONS_OK:
        break;
    }
    if (rest[0] != NULL || s->model == NULL)
        return cairn_term_usage("verify", "the model is given with -m FILE");
    return -1;
}

static cairn_status prepare(bench *b, cairn_error *reterr)
{
    const settings *s = b->settings;
    b->length = (uint32_t)s->tokens;
    b->room = b->length + (uint32_t)s->answer + TAIL * 8;
    cairn_rng_init(&b->rng, 20260301);
    b->tokens = cairn_mem_array(cairn_mem_default(), b->room, sizeof *b->tokens);
    b->other = cairn_mem_array(cairn_mem_default(), b->room, sizeof *b->other);
    uint32_t vocab_size = b->open.engine->info.vocab_size, answer = (uint32_t)s->answer;
    if (b->tokens == NULL || b->other == NULL ||
        cairn_verify_trace_init(&b->cold, vocab_size, answer) != CAIRN_OK ||
        cairn_verify_trace_init(&b->warm, vocab_size, answer) != CAIRN_OK ||
        cairn_verify_trace_init(&b->first, vocab_size, answer) != CAIRN_OK)
        return cairn_error_set(reterr, CAIRN_NOMEM, "verify", NULL);
    fill_random(b, b->tokens, 0, b->length);
    make_boundaries(b);
    return CAIRN_OK;
}

static void cleanup(bench *b)
{
    cairn_verify_trace_release(&b->cold);
    cairn_verify_trace_release(&b->warm);
    cairn_verify_trace_release(&b->first);
    cairn_mem_array_release(cairn_mem_default(), b->tokens, b->room, sizeof *b->tokens);
    cairn_mem_array_release(cairn_mem_default(), b->other, b->room, sizeof *b->other);
    cairn_engine_close(&b->open);
    cairn_log_release(&b->log);
}

int cairn_cmd_verify(int argc, const char **argv)
{
    static bench b;
    settings s = {.tokens = 1500, .answer = 8};
    int code = read_settings(&s, argc, argv);
    if (code >= 0)
        return code;
    b.settings = &s;
    cairn_log_init(&b.log, s.verbose ? CAIRN_LOG_LEVEL_DEBUG : CAIRN_LOG_LEVEL_WARN, CAIRN_FIELD_FORMAT_TEXT,
                   NULL, cairn_log_write_fd, (void *)(intptr_t)2); // NOLINT(performance-no-int-to-ptr)
    cairn_llama_options options;
    cairn_llama_defaults(&options);
    options.model.path = s.model;
    options.slots = 2;
    options.slot_tokens_max = (uint32_t)(s.tokens + s.answer * 2 + (int64_t)TAIL * 16);
    options.threads = (uint32_t)s.threads;
    options.batch_tokens_max = (uint32_t)s.batch;
    code = cairn_engine_open_file(&options, 0, &b.log, &b.open);
    if (code != 0) {
        cleanup(&b);
        return code;
    }
    cairn_error error = {0};
    cairn_status status = prepare(&b, &error);
    if (status == CAIRN_OK)
        status = run_mode(&b, CAIRN_RESUME_EXACT, &error);
    if (status == CAIRN_OK)
        status = run_mode(&b, CAIRN_RESUME_FAST, &error);
    if (status == CAIRN_OK)
        status = run_control(&b, &error);
    cairn_term_progress("%s", "");
    bool passed = status == CAIRN_OK;
    size_t resumed = 0;
    for (size_t i = 0; i < b.count; i++) {
        passed = passed && b.results[i].passed;
        resumed += b.results[i].record.resume > 0 ? 1 : 0;
    }
    passed = passed && resumed > 0; /* comparing cold runs with cold runs would prove nothing */
    if (s.json) {
        print_json(&b, passed);
    } else {
        print_table(&b);
    }
    if (status != CAIRN_OK)
        cairn_term_fail("the engine failed", &error, NULL);
    if (!s.json) {
        printf("%s\n", passed ? "passed: resuming is exact here, and a wrong state would have been noticed"
                              : "FAILED: see the verdicts above");
    }
    cleanup(&b);
    return passed ? 0 : 1;
}
