/*
 * simulate - reads the arguments, makes or reads the traffic, replays it under each rule and budget, prints.
 */
#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "generate.h"
#include "losses.h"
#include "report.h"
#include "request_rows.h"
#include "trace_file.h"

enum { ITEMS_MAX = 64, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define OUTPUT_BYTES_MAX ((size_t)256 << 20)

typedef struct simulate_args {
    const char *traces[ITEMS_MAX];
    uint32_t count_traces;
    const cairn_scenario *scenarios[ITEMS_MAX];
    uint32_t count_scenarios;
    const cairn_policy *policies[ITEMS_MAX];
    uint32_t count_policies;
    cairn_budget budgets[ITEMS_MAX];
    uint32_t count_budgets;
    const cairn_profile *profile;
    int64_t slots, seed, losses;
    bool json, help, requests;
    const char *plot, *report;
} simulate_args;

typedef struct simulate_run {
    const cairn_mem *mem;
    simulate_args args;
    cairn_workload *workloads; /* cairn_workload[count_workloads] */
    uint32_t count_workloads, room_workloads;
    cairn_replay_result *results;
    uint32_t count_results, room_results;
    cairn_profile *recorded; /* cairn_profile[room_workloads]: of servers that recorded their traffic */
    cairn_request_rows rows; /* --requests */
    cairn_buf losses;        /* text for --losses */
} simulate_run;

static const char *const usage =
    "usage: cairn simulate [TRACE...] [options]\n"
    "\n"
    "Replays traffic, recorded or generated, under several caching rules and budgets.\n"
    "\n"
    "  TRACE                  a recorded trace (JSON lines, plain or zstd)\n"
    "  --scenario NAME,...    generated traffic; all: every scenario\n"
    "  --policy NAME,...      rules; default: all\n"
    "  --budget SIZE,...      memory for the cache: 4G, 64states, or 10% of what all traffic would take\n"
    "  --model-profile NAME   default: what a server recorded, else qwen3.5-35b-a3b\n"
    "  --slots N              slots of the server; default: what the traffic is meant for\n"
    "  --seed N               of generated traffic; default: 1\n"
    "  --losses N             where at least N known tokens were read again, and all losses by cause\n"
    "  --requests             each request by itself, beside what was recorded\n"
    "  --json                 JSON instead of a table\n"
    "  --plot FILE.svg        also draw read / least against the budget\n"
    "  --report FOLDER        write policies.md and policies.svg into FOLDER instead\n"
    "  --help                 this text, and the names of scenarios, rules and profiles\n";

/* --- budgets ------------------------------------------------------------------------------------------------------ */

cairn_status cairn_budget_parse(const char *text, cairn_budget *ret_budget, cairn_error *reterr)
{
    size_t length = strlen(text);
    const char *states = strstr(text, "states");
    if (states != NULL && states[6] == '\0' && states != text) {
        char number[32];
        int64_t value = 0;
        (void)snprintf(number, sizeof number, "%.*s", (int)(states - text), text);
        cairn_status status = cairn_units_parse_int(number, 0, 1000000, &value, reterr);
        if (status == CAIRN_OK) {
            *ret_budget = (cairn_budget){.kind = CAIRN_BUDGET_STATES, .value = (double)value};
        }
        return status;
    }
    if (length > 1 && text[length - 1] == '%') {
        char number[32];
        double value = 0;
        (void)snprintf(number, sizeof number, "%.*s", (int)length - 1, text);
        cairn_status status = cairn_units_parse_real(number, 0, 100, &value, reterr);
        if (status == CAIRN_OK) {
            *ret_budget = (cairn_budget){.kind = CAIRN_BUDGET_PART, .value = value / 100};
        }
        return status;
    }
    uint64_t bytes = 0;
    cairn_status status = cairn_units_parse_bytes(text, 0, &bytes, reterr);
    if (status == CAIRN_OK) {
        *ret_budget = (cairn_budget){.kind = CAIRN_BUDGET_BYTES, .value = (double)bytes};
    }
    return status;
}

uint64_t cairn_budget_bytes(const cairn_budget *budget, const cairn_workload *w, const cairn_profile *profile)
{
    const uint64_t unit = profile->state_bytes > 0 ? profile->state_bytes : (uint64_t)64 << 20;
    switch (budget->kind) {
    case CAIRN_BUDGET_STATES:
        return (uint64_t)budget->value * unit;
    case CAIRN_BUDGET_PART:
        return (uint64_t)(budget->value * (double)cairn_replay_whole_bytes(w, profile));
    case CAIRN_BUDGET_BYTES:
    default:
        return (uint64_t)budget->value;
    }
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

static cairn_status bad(cairn_error *reterr, const char *what, const char *text)
{
    return cairn_error_set(reterr, CAIRN_INVALID, "cairn simulate", "%s: %.80s", what, text);
}

typedef cairn_status (*take_item)(simulate_args *args, const char *text, cairn_error *reterr);

/* Each item of a comma-separated list. */
static cairn_status each(simulate_args *args, const char *list, take_item take, cairn_error *reterr)
{
    char item[128];
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        if (length == 0 || length >= sizeof item) {
            return bad(reterr, "an empty or too long item in a list", list);
        }
        memcpy(item, list, length);
        item[length] = '\0';
        cairn_status status = take(args, item, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        list += length + (list[length] == ',' ? 1 : 0);
    }
    return CAIRN_OK;
}

static cairn_status take_scenario(simulate_args *args, const char *text, cairn_error *reterr)
{
    uint32_t count = 0;
    const cairn_scenario *list = cairn_scenario_list(&count);
    bool all = strcmp(text, "all") == 0;
    bool found = false;
    for (uint32_t i = 0; i < count && args->count_scenarios < ITEMS_MAX; i++) {
        if (all || strcmp(list[i].name, text) == 0) {
            args->scenarios[args->count_scenarios++] = &list[i];
            found = true;
        }
    }
    return found ? CAIRN_OK : bad(reterr, "no such scenario", text);
}

static cairn_status take_policy(simulate_args *args, const char *text, cairn_error *reterr)
{
    uint32_t count = 0;
    const cairn_policy *const *list = cairn_policy_list(&count);
    bool all = strcmp(text, "all") == 0;
    bool found = false;
    for (uint32_t i = 0; i < count && args->count_policies < ITEMS_MAX; i++) {
        if (all || strcmp(list[i]->name, text) == 0) {
            args->policies[args->count_policies++] = list[i];
            found = true;
        }
    }
    return found ? CAIRN_OK : bad(reterr, "no such policy", text);
}

static cairn_status take_budget(simulate_args *args, const char *text, cairn_error *reterr)
{
    if (args->count_budgets == ITEMS_MAX) {
        return bad(reterr, "too many budgets", text);
    }
    return cairn_budget_parse(text, &args->budgets[args->count_budgets++], reterr);
}

static cairn_status take_option(simulate_args *args, const char *name, const char *value, cairn_error *reterr)
{
    if (strcmp(name, "--scenario") == 0) {
        return each(args, value, take_scenario, reterr);
    }
    if (strcmp(name, "--policy") == 0) {
        return each(args, value, take_policy, reterr);
    }
    if (strcmp(name, "--budget") == 0) {
        return each(args, value, take_budget, reterr);
    }
    if (strcmp(name, "--model-profile") == 0) {
        args->profile = cairn_profile_get(value);
        return args->profile != NULL ? CAIRN_OK : bad(reterr, "no such model profile", value);
    }
    if (strcmp(name, "--slots") == 0) {
        return cairn_units_parse_int(value, 1, 1024, &args->slots, reterr);
    }
    if (strcmp(name, "--seed") == 0) {
        return cairn_units_parse_int(value, 0, INT64_MAX, &args->seed, reterr);
    }
    if (strcmp(name, "--losses") == 0) {
        return cairn_units_parse_int(value, 1, INT32_MAX, &args->losses, reterr);
    }
    if (strcmp(name, "--plot") == 0) {
        args->plot = value;
        return CAIRN_OK;
    }
    if (strcmp(name, "--report") == 0) {
        args->report = value;
        return CAIRN_OK;
    }
    return bad(reterr, "no such option", name);
}

static cairn_status parse(simulate_args *args, int argc, char *const *argv, cairn_error *reterr)
{
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (text[0] != '-' || text[1] == '\0') {
            if (args->count_traces == ITEMS_MAX) {
                return bad(reterr, "too many traces", text);
            }
            args->traces[args->count_traces++] = text;
            continue;
        }
        if (strcmp(text, "--json") == 0) {
            args->json = true;
            continue;
        }
        if (strcmp(text, "--requests") == 0) {
            args->requests = true;
            continue;
        }
        if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
            args->help = true;
            continue;
        }
        char name[64];
        size_t length = strcspn(text, "=");
        const char *value = text[length] == '=' ? text + length + 1 : NULL;
        if (length >= sizeof name) {
            return bad(reterr, "no such option", text);
        }
        memcpy(name, text, length);
        name[length] = '\0';
        if (value == NULL) {
            if (i + 1 == argc) {
                return bad(reterr, "the option is unknown or needs a value", text);
            }
            value = argv[++i];
        }
        cairn_status status = take_option(args, name, value, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
    }
    if (!args->help && args->count_traces == 0 && args->count_scenarios == 0) {
        return bad(reterr, "nothing to replay", "give a TRACE or --scenario NAME");
    }
    if (args->losses > 0 && (args->requests || args->report != NULL || args->json)) {
        return bad(reterr, "one at a time", "--losses beside --requests, --report or --json");
    }
    return CAIRN_OK;
}

static void print_names(FILE *out)
{
    uint32_t count = 0;
    const cairn_scenario *scenarios = cairn_scenario_list(&count);
    (void)fputs("\nscenarios:\n", out);
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(out, "  %-18s %s\n", scenarios[i].name, scenarios[i].about);
    }
    const cairn_policy *const *policies = cairn_policy_list(&count);
    (void)fputs("\npolicies:\n", out);
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(out, "  %-18s %s\n", policies[i]->name, policies[i]->about);
    }
    const cairn_profile *profiles = cairn_profile_list(&count);
    (void)fputs("\nmodel profiles:\n", out);
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(out, "  %-18s a state %llu bytes, a row %llu; %s\n", profiles[i].name,
                      (unsigned long long)profiles[i].state_bytes, (unsigned long long)profiles[i].row_bytes,
                      profiles[i].source);
    }
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static cairn_status load(simulate_run *run, cairn_error *reterr)
{
    const simulate_args *args = &run->args;
    run->room_workloads = args->count_traces + args->count_scenarios;
    run->workloads = cairn_mem_array(run->mem, run->room_workloads, sizeof *run->workloads);
    run->recorded = cairn_mem_array(run->mem, run->room_workloads, sizeof *run->recorded);
    if (run->workloads == NULL || run->recorded == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "cairn simulate", NULL);
    }
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 0; status == CAIRN_OK && i < args->count_traces; i++) {
        status =
            cairn_trace_file_read(run->mem, args->traces[i], &run->workloads[run->count_workloads++], reterr);
    }
    for (uint32_t i = 0; status == CAIRN_OK && i < args->count_scenarios; i++) {
        status = cairn_scenario_make(args->scenarios[i], run->mem, (uint64_t)args->seed,
                                     &run->workloads[run->count_workloads++], reterr);
    }
    return status;
}

static cairn_status one(simulate_run *run, cairn_replay_options *options, cairn_error *reterr)
{
    if (run->count_results == run->room_results) {
        uint32_t room = run->room_results * 2 + 64;
        void *bigger =
            cairn_mem_array_resize(run->mem, run->results, run->room_results, room, sizeof *run->results);
        if (bigger == NULL) {
            return cairn_error_set(reterr, CAIRN_NOMEM, "cairn simulate", NULL);
        }
        run->results = bigger;
        run->room_results = room;
    }
    options->slots = (uint32_t)run->args.slots;
    if (run->args.requests) {
        run->rows.workload = options->workload->name;
        run->rows.policy = options->policy->name;
        options->watch = cairn_request_rows_watch;
        options->watch_ctx = &run->rows;
    }
    cairn_losses losses = {0};
    cairn_status status = CAIRN_OK;
    if (run->args.losses > 0) {
        status =
            cairn_losses_init(&losses, run->mem, options->workload, &run->losses, (uint32_t)run->args.losses);
        options->watch = cairn_losses_watch;
        options->watch_ctx = &losses;
    }
    if (status == CAIRN_OK) {
        status = cairn_replay(run->mem, options, &run->results[run->count_results], reterr);
        run->count_results += status == CAIRN_OK ? 1 : 0;
    }
    if (status == CAIRN_OK && run->args.losses > 0) {
        status = cairn_losses_sums(&losses, &run->losses);
    }
    options->watch = NULL; /* what it watched with is gone */
    options->watch_ctx = NULL;
    cairn_losses_release(&losses);
    return status;
}

/* The budgets to replay with: those asked for, the recorded one, or the usual ones. */
static const cairn_budget *budgets_of(const simulate_args *args, const cairn_workload *w, cairn_budget *own,
                                      uint32_t *ret_count)
{
    static const cairn_budget usual[] = {{CAIRN_BUDGET_STATES, 8},
                                         {CAIRN_BUDGET_STATES, 16},
                                         {CAIRN_BUDGET_STATES, 32},
                                         {CAIRN_BUDGET_STATES, 64},
                                         {CAIRN_BUDGET_STATES, 128}};
    static const cairn_budget parts[] = {{CAIRN_BUDGET_PART, 0.0125},
                                         {CAIRN_BUDGET_PART, 0.025},
                                         {CAIRN_BUDGET_PART, 0.05},
                                         {CAIRN_BUDGET_PART, 0.1}};
    if (args->count_budgets > 0) {
        *ret_count = args->count_budgets;
        return args->budgets;
    }
    if (w->server.batch_tokens > 0) {
        *own = (cairn_budget){CAIRN_BUDGET_BYTES, (double)w->server.ram_bytes};
        *ret_count = 1;
        return own;
    }
    *ret_count =
        w->fleet ? (uint32_t)(sizeof parts / sizeof parts[0]) : (uint32_t)(sizeof usual / sizeof usual[0]);
    return w->fleet ? parts : usual;
}

/* The rules to replay with: those asked for, the recording server's, or all. */
static const cairn_policy *const *policies_of(const simulate_args *args, const cairn_workload *w,
                                              uint32_t *ret_count)
{
    static const cairn_policy *const fast[] = {&cairn_policy_cairn}, *const exact[] = {
                                                                         &cairn_policy_cairn_exact};
    if (args->count_policies > 0) {
        *ret_count = args->count_policies;
        return args->policies;
    }
    if (w->server.batch_tokens > 0) {
        *ret_count = 1;
        return w->server.exact ? exact : fast;
    }
    return cairn_policy_list(ret_count);
}

static cairn_status replay_one(simulate_run *run, uint32_t index, cairn_error *reterr)
{
    const simulate_args *args = &run->args;
    const cairn_workload *w = &run->workloads[index];
    cairn_budget own;
    uint32_t count_budgets = 0, count_policies = 0, count = 0;
    const cairn_budget *budgets = budgets_of(args, w, &own, &count_budgets);
    const cairn_policy *const *policies = policies_of(args, w, &count_policies);
    const cairn_profile *profile = args->profile;
    if (profile == NULL && w->server.batch_tokens > 0) {
        run->recorded[index] = cairn_profile_recorded(&w->server);
        profile = &run->recorded[index];
    } else if (profile == NULL) {
        profile = cairn_profile_list(&count);
    }
    cairn_status status = CAIRN_OK;
    for (uint32_t b = 0; b < count_budgets; b++) {
        uint64_t bytes = cairn_budget_bytes(&budgets[b], w, profile);
        for (uint32_t k = 0; status == CAIRN_OK && k < count_policies; k++) {
            cairn_replay_options options = {
                .policy = policies[k], .workload = w, .profile = profile, .budget_bytes = bytes};
            status = one(run, &options, reterr);
        }
    }
    return status;
}

static cairn_status replay_all(simulate_run *run, cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 0; i < run->count_workloads && status == CAIRN_OK; i++) {
        status = replay_one(run, i, reterr);
    }
    return status;
}

static cairn_status write_file(const char *path, const cairn_buf *buf, cairn_error *reterr)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(cairn_buf_str(buf), 1, buf->len_bytes, file) == buf->len_bytes;
    if (file != NULL && fclose(file) != 0) {
        good = false;
    }
    return good ? CAIRN_OK
                : cairn_error_set(reterr, CAIRN_IO, "cairn simulate", "%.120s could not be written", path);
}

static cairn_status print_results(simulate_run *run, FILE *out, cairn_error *reterr)
{
    cairn_buf buf;
    cairn_buf_init(&buf, run->mem, OUTPUT_BYTES_MAX);
    const cairn_buf *shown = run->args.requests ? run->rows.out : run->args.losses > 0 ? &run->losses : &buf;
    cairn_status status = run->args.losses > 0 ? CAIRN_OK
                          : run->args.requests ? cairn_request_rows_end(&run->rows)
                          : run->args.json     ? cairn_report_json(run->results, run->count_results, &buf)
                                               : cairn_report_table(run->results, run->count_results, &buf);
    if (status == CAIRN_OK && fwrite(cairn_buf_str(shown), 1, shown->len_bytes, out) != shown->len_bytes) {
        status = CAIRN_IO;
    }
    if (status != CAIRN_OK) {
        (void)cairn_error_set(reterr, status, "cairn simulate", "output");
    }
    if (status == CAIRN_OK && run->args.plot != NULL) {
        cairn_buf_reset(&buf);
        status = cairn_report_plot(run->mem, run->results, run->count_results, &buf);
        status = status == CAIRN_OK
                     ? write_file(run->args.plot, &buf, reterr)
                     : cairn_error_set(reterr, status, "cairn simulate", "nothing to plot in these results");
    }
    cairn_buf_release(&buf);
    return status;
}

static void run_release(simulate_run *run)
{
    for (uint32_t i = 0; i < run->count_workloads; i++) {
        cairn_workload_release(&run->workloads[i]);
    }
    cairn_mem_array_release(run->mem, run->recorded, run->room_workloads, sizeof *run->recorded);
    cairn_mem_array_release(run->mem, run->workloads, run->room_workloads, sizeof *run->workloads);
    cairn_mem_array_release(run->mem, run->results, run->room_results, sizeof *run->results);
    cairn_buf_release(&run->losses);
}

/* In the form of the program's other commands. */
static int fail(FILE *err, const cairn_error *error, int code)
{
    (void)fprintf(err, "cairn: %s\n",
                  error->detail[0] != '\0' ? error->detail : cairn_status_message(error->status));
    if (code == EXIT_USAGE && error->status == CAIRN_INVALID) {
        (void)fprintf(err, "Try `cairn simulate --help`.\n");
    }
    return code;
}

static void command_line(int argc, char *const *argv, char *text, size_t room)
{
    size_t at = (size_t)snprintf(text, room, "cairn simulate");
    for (int i = 1; i < argc && at < room; i++) {
        at += (size_t)snprintf(text + at, room - at, " %s", argv[i]);
    }
}

int cairn_simulate_main(int argc, char *const *argv, FILE *out, FILE *err)
{
    simulate_run run = {.mem = cairn_mem_default()};
    cairn_error error = {0};
    run.args.seed = 1;
    cairn_buf_init(&run.losses, run.mem, OUTPUT_BYTES_MAX);
    if (parse(&run.args, argc, argv, &error) != CAIRN_OK) {
        return fail(err, &error, EXIT_USAGE);
    }
    if (run.args.help) {
        (void)fputs(usage, out);
        print_names(out);
        return 0;
    }
    int code = 0;
    cairn_buf rows;
    cairn_buf_init(&rows, run.mem, OUTPUT_BYTES_MAX);
    run.rows = (cairn_request_rows){.out = &rows, .json = run.args.json};
    if (load(&run, &error) != CAIRN_OK) {
        code = fail(err, &error, error.status == CAIRN_NOMEM ? EXIT_FAILED : EXIT_USAGE);
    } else if (run.args.report != NULL) {
        char command[1024];
        command_line(argc, argv, command, sizeof command);
        if (cairn_results_write(run.mem, run.workloads, run.count_workloads, (uint64_t)run.args.seed, command,
                                run.args.report, err, &error) != CAIRN_OK) {
            code = fail(err, &error, EXIT_FAILED);
        }
    } else if (replay_all(&run, &error) != CAIRN_OK || print_results(&run, out, &error) != CAIRN_OK) {
        code = fail(err, &error, EXIT_FAILED);
    }
    run_release(&run);
    cairn_buf_release(&rows);
    return code;
}
