/*
 * verify - `cairn verify`: proves on this machine and this model that a resumed conversation's logits are those of a
 * cold run. And that the proof can fail: the state of other tokens, put back on purpose, must change the logits.
 * What is compared is in verify_cases, verify_history and verify_matrix.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/term.h"
#include "cli/verify_cases.h"
#include "cli/verify_history.h"
#include "cli/verify_matrix.h"

typedef struct settings {
    const char *model, *type_k, *type_v;
    int64_t tokens, answer, threads, batch, history, seed;
    int flash;
    bool json, verbose, matrix, swa_full, no_repack, require_exact;
} settings;

/* --- reports ----------------------------------------------------------------------------------------------------- */

static const char *kind_word(const cairn_verify_result *r)
{
    static const char *const words[] = {NULL, "noise", "control"};
    if (r->kind != CAIRN_VERIFY_COMPARED)
        return words[r->kind];
    return r->mode == CAIRN_RESUME_FAST ? "fast" : "exact";
}

static const char *verdict(const cairn_verify_result *r, bool claimed)
{
    switch (r->kind) {
    case CAIRN_VERIFY_CONTROL:
        return r->passed ? "differs, as it must" : "DOES NOT DIFFER";
    case CAIRN_VERIFY_NOISE:
        return "cold against cold";
    case CAIRN_VERIFY_COMPARED:
        break;
    }
    if (r->difference.equal)
        return "equal, bit for bit";
    if (r->mode == CAIRN_RESUME_FAST)
        return r->difference.greedy ? "same words" : "other words";
    return claimed ? "DIFFERS" : r->passed ? "not exact here" : "NOT EXACT HERE";
}

static void print_cases(const cairn_verify_bench *b)
{
    static const char *const heads[] = {
        "mode", "case",   ">prompt", ">reused", ">read", ">least", ">largest difference",
        ">KL",  "greedy", "verdict"};
    cairn_term_table *table = cairn_mem_zalloc(cairn_mem_default(), sizeof *table);
    if (table == NULL)
        return;
    cairn_term_head(table, heads, sizeof heads / sizeof heads[0]);
    for (size_t i = 0; i < b->count; i++) {
        const cairn_verify_result *r = &b->results[i];
        cairn_term_row(table);
        cairn_term_cell(table, 0, "%s", kind_word(r));
        cairn_term_cell(table, 1, "%s", r->name);
        cairn_term_cell(table, 2, "%u", r->record.prompt_tokens);
        cairn_term_cell(table, 3, "%u", r->record.resume);
        cairn_term_cell(table, 4, "%u", r->record.read);
        cairn_term_cell(table, 5, "%u", r->record.least);
        cairn_term_cell(table, 6, "%.3g of %.3g", r->difference.largest, r->difference.magnitude);
        cairn_term_cell(table, 7, "%.2g", r->difference.kl);
        cairn_term_cell(table, 8, "%s", r->difference.greedy ? "same" : "other");
        cairn_term_cell(table, 9, "%s", verdict(r, b->open->exact));
    }
    cairn_term_print(table, stdout);
    cairn_mem_release(cairn_mem_default(), table, sizeof *table);
}

static json_t *summary_json(const cairn_verify_summary *s)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "passed", s->passed, "exact_cases",
                     (json_int_t)s->exact, "exact_equal", (json_int_t)s->equal, "resumed",
                     (json_int_t)s->resumed, "exact_largest_difference", s->exact_largest,
                     "fast_largest_difference", s->fast_largest, "fast_kl", s->fast_kl,
                     "noise_largest_difference", s->noise_largest, "noise_kl", s->noise_kl,
                     "control_difference", s->control);
}

static json_t *layers_json(const cairn_engine_open *open, const cairn_verify_gate *gate)
{
    static const char *const trims[] = {"anywhere", "window", "never"};
    const cairn_engine_info *info = &open->engine->info;
    return json_pack("{s:s, s:b, s:I, s:I, s:b, s:b, s:b}", "trim", trims[info->trim], "rows_move",
                     info->rows_move, "state_bytes_max", (json_int_t)info->state_bytes_max, "row_bytes",
                     (json_int_t)info->row_bytes, "cut_to_end", gate->answer, "cut_to_middle", gate->middle,
                     "slots_share", info->batch_alone);
}

static json_t *cases_json(const cairn_verify_bench *b)
{
    json_t *list = json_array();
    for (size_t i = 0; i < b->count; i++) {
        const cairn_verify_result *r = &b->results[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:b, s:b, s:b}", "mode",
                            kind_word(r), "case", r->name, "control", r->kind == CAIRN_VERIFY_CONTROL,
                            "prompt", (int)r->record.prompt_tokens, "reused", (int)r->record.resume, "read",
                            (int)r->record.read, "least", (int)r->record.least, "largest_difference",
                            r->difference.largest, "magnitude", r->difference.magnitude, "kl",
                            r->difference.kl, "greedy_same", r->difference.greedy, "bit_equal",
                            r->difference.equal, "passed", r->passed));
    }
    return list;
}

/* Takes `root`. */
static void print_json(json_t *root)
{
    if (root != NULL)
        (void)json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("\n");
    json_decref(root);
}

/* --- command ----------------------------------------------------------------------------------------------------- */

static int read_settings(settings *s, int argc, const char **argv)
{
    const cairn_option options[] = {
        CAIRN_MODEL_OPTIONS(s),
        {.kind = CAIRN_OPTION_INT,
         .name = "tokens",
         .value = &s->tokens,
         .arg = "N",
         .min = 200,
         .max = 100000,
         .help = "length of the prompt that is edited (600)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "answer",
         .value = &s->answer,
         .arg = "N",
         .min = 1,
         .max = 256,
         .help = "tokens written and compared after each prompt (4)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "history",
         .value = &s->history,
         .arg = "N",
         .min = 0,
         .max = 1000000,
         .help = "instead: a random history of N requests (edits, branches, eviction,\ncancels, other slots "
                 "busy); exact ones are compared with cold runs (0)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "seed",
         .value = &s->seed,
         .arg = "N",
         .min = 0,
         .max = INT64_MAX,
         .help = "of the history (1)"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "matrix",
         .value = &s->matrix,
         .help = "instead: shorter comparisons with many settings: number formats of\nK/V, flash attention, "
                 "batch sizes, full-size windows, prompts that\nend near a batch's edge"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "require-exact",
         .value = &s->require_exact,
         .help = "also fail where the engine itself says that it can't be exact"},
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
        .about =
            "Compares the logits of resumed conversations with those of cold runs, on this machine and\n"
            "with this model. If the engine claims to be exact, all of them must be equal bit for bit.\n"
            "If not, and in fast mode, it prints the largest difference and the divergence (KL, in nats)\n"
            "beside the noise floor: a cold run against a cold run with other batches. As a control it\n"
            "puts the state of other tokens back on purpose: that must change the logits. Ends with 1 if\n"
            "something that claims to be exact is not, or if the control makes no difference.",
        .options = options,
        .count = sizeof options / sizeof options[0]};
    const char *rest[1];
    int code = cairn_options_take(&set, "verify", argc, argv, rest, 1);
    if (code >= 0)
        return code;
    if (s->model == NULL)
        return cairn_term_usage("verify", "the model is missing: -m FILE");
    return -1;
}

static void engine_options(const settings *s, cairn_llama_options *ret_options)
{
    static const cairn_llama_flash flash[] = {CAIRN_LLAMA_FLASH_AUTO, CAIRN_LLAMA_FLASH_ON,
                                              CAIRN_LLAMA_FLASH_OFF};
    cairn_llama_defaults(ret_options);
    ret_options->model.path = s->model;
    ret_options->slots = 2;
    ret_options->slot_tokens_max = (uint32_t)(s->tokens + s->answer * 2 + (int64_t)CAIRN_VERIFY_TAIL * 16);
    ret_options->threads = (uint32_t)s->threads;
    ret_options->batch_tokens_max = (uint32_t)s->batch;
    ret_options->type_k = s->type_k;
    ret_options->type_v = s->type_v;
    ret_options->flash = flash[s->flash];
    ret_options->swa_full = s->swa_full;
    ret_options->model.no_repack = s->no_repack;
    ret_options->shared = true; /* as `cairn serve` has it with several slots */
}

/* The usual comparisons. */
static int run_cases(const settings *s, cairn_log *log)
{
    static cairn_verify_bench b;
    static cairn_engine_open open;
    cairn_llama_options options;
    engine_options(s, &options);
    int code = cairn_engine_open_file(&options, 0, log, &open);
    if (code != 0)
        return code;
    cairn_error error = {0};
    cairn_status status = cairn_verify_bench_init(&b, &open, (uint32_t)s->tokens, (uint32_t)s->answer,
                                                  s->require_exact, &error);
    if (status == CAIRN_OK)
        status = cairn_verify_cases(&b, CAIRN_RESUME_EXACT, false, &error);
    if (status == CAIRN_OK)
        status = cairn_verify_cases(&b, CAIRN_RESUME_FAST, false, &error);
    if (status == CAIRN_OK)
        status = cairn_verify_beside(&b, &error);
    cairn_verify_gate gate = {0};
    if (status == CAIRN_OK)
        status = cairn_verify_gate_check(&b, &gate, &error);
    if (status == CAIRN_OK)
        status = cairn_verify_noise(&b, &error);
    if (status == CAIRN_OK)
        status = cairn_verify_control(&b, &error);
    cairn_term_progress("%s", "");
    cairn_verify_summary sum;
    cairn_verify_summarize(&b, &sum);
    bool passed = status == CAIRN_OK && sum.passed && open.proved;
    if (s->json) {
        print_json(json_pack("{s:s, s:b, s:b, s:b, s:s, s:o, s:o, s:o}", "engine", open.engine->info.build,
                             "passed", passed, "usable", open.proved, "exact", open.exact, "why_not",
                             open.refused, "layers", layers_json(&open, &gate), "summary", summary_json(&sum),
                             "cases", cases_json(&b)));
    } else {
        print_cases(&b);
    }
    if (status != CAIRN_OK)
        cairn_term_fail("the engine failed", &error, NULL);
    if (!s->json) {
        if (!open.exact)
            printf("not exact on this model: %s; measured up to %.3g in exact mode (noise floor %.3g)\n",
                   open.refused, sum.exact_largest, sum.noise_largest);
        printf(
            "fast: up to %.3g, KL %.2g; noise floor, cold against cold: %.3g, KL %.2g; a wrong state: %.3g\n",
            sum.fast_largest, sum.fast_kl, sum.noise_largest, sum.noise_kl, sum.control);
        printf("slots: %s\n", cairn_engine_sharing(open.engine));
        printf("%s\n", !passed ? "FAILED: see the verdicts above"
                       : open.exact
                           ? "passed: resuming is exact here, and a wrong state would have been noticed"
                           : "passed: resuming is right here but not exact, and nothing claims that it is");
    }
    cairn_verify_bench_release(&b);
    cairn_engine_close(&open);
    return passed ? 0 : 1;
}

static void print_history(const settings *s, const cairn_verify_history *f, bool exact)
{
    printf("seed %" PRId64
           ": %u requests (%u continued, %u edited, %u branched, %u repeated, %u new; %u cancelled, "
           "%u beside a busy slot, %u fast, %u changes of the budget)\n",
           s->seed, f->requests, f->continued, f->edited, f->branched, f->repeated, f->begun, f->cancelled,
           f->beside, f->fast, f->budgets);
    printf("%u resumed, %" PRIu64 " of %" PRIu64 " prompt tokens not read again, %" PRIu64
           " states dropped\n",
           f->resumed, f->tokens_resumed, f->tokens_prompt, f->states_dropped);
    printf("%u of %u exact answers equal to cold runs, bit for bit\n", f->equal, f->compared);
    if (f->differs_step != UINT32_MAX)
        printf("%s: seed %" PRId64 ", step %u (%s); largest difference %.3g\n",
               exact ? "DIFFERS" : "not exact here", s->seed, f->differs_step, f->differs, f->largest);
}

/* Random histories. */
static int run_history(const settings *s, cairn_log *log)
{
    static cairn_engine_open warm, cold;
    static cairn_verify_history found;
    cairn_llama_options options;
    engine_options(s, &options);
    options.slots = 3;
    options.batch_tokens_max = s->batch > 0 ? (uint32_t)s->batch : 64;
    options.slot_tokens_max = (uint32_t)s->tokens + 64;
    int code = cairn_engine_open_file(&options, 0, log, &warm);
    options.slots = 1;
    if (code == 0)
        code = cairn_engine_open_file(&options, 0, log, &cold);
    if (code != 0) {
        cairn_engine_close(&warm);
        return code;
    }
    cairn_error error = {0};
    cairn_verify_history_options ways = {
        .requests = (uint32_t)s->history, .seed = (uint64_t)s->seed, .tokens_max = (uint32_t)s->tokens};
    cairn_status status = cairn_verify_history_run(&warm, &cold, &ways, &found, &error);
    cairn_term_progress("%s", "");
    bool claimed = warm.exact || s->require_exact;
    bool passed = status == CAIRN_OK && found.resumed > 0 && (found.equal == found.compared || !claimed);
    if (s->json) {
        json_t *root = json_pack(
            "{s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s}", "engine",
            warm.engine->info.build, "passed", passed, "exact", warm.exact, "seed", (json_int_t)s->seed,
            "requests", (json_int_t)found.requests, "compared", (json_int_t)found.compared, "equal",
            (json_int_t)found.equal, "resumed", (json_int_t)found.resumed, "prompt_tokens",
            (json_int_t)found.tokens_prompt, "resumed_tokens", (json_int_t)found.tokens_resumed,
            "states_dropped", (json_int_t)found.states_dropped, "largest_difference", found.largest,
            "differs", found.differs);
        if (found.differs_step != UINT32_MAX)
            json_object_set_new(root, "differs_step", json_integer(found.differs_step));
        print_json(root);
    } else {
        print_history(s, &found, warm.exact);
        printf("%s\n", passed ? "passed" : "FAILED");
    }
    if (status != CAIRN_OK) {
        cairn_term_fail("the engine failed", &error, NULL);
        (void)fprintf(stderr, "seed %" PRId64 ", step %u\n", s->seed, found.requests);
    }
    cairn_engine_close(&warm);
    cairn_engine_close(&cold);
    return passed ? 0 : 1;
}

static const char *row_verdict(const cairn_verify_matrix_row *r, bool require_exact)
{
    if (r->refused)
        return "not possible with this model";
    if (!r->usable)
        return "UNUSABLE: the cache stays off";
    if (!r->summary.passed)
        return r->claimed || require_exact ? "FAILED" : "FAILED: the control does not differ";
    return r->claimed ? "exact" : "not exact on this model";
}

static void print_matrix(const settings *s, const cairn_verify_matrix_row *rows, size_t count)
{
    static const char *const heads[] = {
        "setting", ">equal",          ">of", ">exact: largest", ">fast: largest",
        ">KL",     ">noise: largest", ">KL", ">control",        "verdict"};
    cairn_term_table *table = cairn_mem_zalloc(cairn_mem_default(), sizeof *table);
    if (table == NULL)
        return;
    cairn_term_head(table, heads, sizeof heads / sizeof heads[0]);
    for (size_t i = 0; i < count; i++) {
        const cairn_verify_summary *m = &rows[i].summary;
        cairn_term_row(table);
        cairn_term_cell(table, 0, "%s", rows[i].name);
        cairn_term_cell(table, 1, "%zu", m->equal);
        cairn_term_cell(table, 2, "%zu", m->exact);
        cairn_term_cell(table, 3, "%.3g", m->exact_largest);
        cairn_term_cell(table, 4, "%.3g", m->fast_largest);
        cairn_term_cell(table, 5, "%.2g", m->fast_kl);
        cairn_term_cell(table, 6, "%.3g", m->noise_largest);
        cairn_term_cell(table, 7, "%.2g", m->noise_kl);
        cairn_term_cell(table, 8, "%.3g", m->control);
        cairn_term_cell(table, 9, "%s", row_verdict(&rows[i], s->require_exact));
    }
    cairn_term_print(table, stdout);
    cairn_mem_release(cairn_mem_default(), table, sizeof *table);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].why[0] != '\0')
            printf("%s: %s\n", rows[i].name, rows[i].why);
    }
}

static json_t *matrix_json(const cairn_verify_matrix_row *rows, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list,
                              json_pack("{s:s, s:b, s:b, s:b, s:s, s:o}", "setting", rows[i].name, "refused",
                                        rows[i].refused, "usable", rows[i].usable, "exact", rows[i].claimed,
                                        "why_not", rows[i].why, "summary", summary_json(&rows[i].summary)));
    }
    return list;
}

static int run_matrix(const settings *s)
{
    static cairn_verify_matrix_row rows[CAIRN_VERIFY_MATRIX_MAX];
    cairn_llama_options options;
    cairn_error error = {0};
    size_t count = 0;
    engine_options(s, &options);
    cairn_status status = cairn_verify_matrix_run(&options, (uint32_t)s->tokens, (uint32_t)s->answer,
                                                  s->require_exact, rows, &count, &error);
    bool passed = status == CAIRN_OK && !rows[0].refused;
    for (size_t i = 0; i < count; i++)
        passed = passed && (rows[i].refused || (rows[i].usable && rows[i].summary.passed));
    if (s->json) {
        print_json(json_pack("{s:b, s:o}", "passed", passed, "matrix", matrix_json(rows, count)));
    } else {
        print_matrix(s, rows, count);
        printf("%s\n", passed ? "passed" : "FAILED: see the verdicts above");
    }
    if (status != CAIRN_OK)
        cairn_term_fail("the engine failed", &error, NULL);
    return passed ? 0 : 1;
}

int cairn_cmd_verify(int argc, const char **argv)
{
    static cairn_log log;
    settings s = {.tokens = 600, .answer = 4, .seed = 1};
    int code = read_settings(&s, argc, argv);
    if (code >= 0)
        return code;
    cairn_log_init(&log, s.verbose ? CAIRN_LOG_LEVEL_DEBUG : CAIRN_LOG_LEVEL_ERROR, CAIRN_FIELD_FORMAT_TEXT,
                   NULL, cairn_log_write_fd, (void *)(intptr_t)2); // NOLINT(performance-no-int-to-ptr)
    if (s.history > 0) {
        code = run_history(&s, &log);
    } else if (s.matrix) {
        code = run_matrix(&s);
    } else {
        code = run_cases(&s, &log);
    }
    cairn_log_release(&log);
    return code;
}
