/*
 * report - text out of results.
 */
#include "report.h"

#include <string.h>

#include "base/units.h"

cairn_status cairn_report_table(const cairn_replay_result *results, uint32_t count, cairn_buf *out)
{
    cairn_status status = cairn_buf_printf(out, "%-18s %-16s %9s %10s %8s %8s %9s %9s %9s %9s %9s\n",
                                           "traffic", "policy", "budget", "read/least", "hit", "of best",
                                           "p50", "p95", "held", "snapshots", "their cost");
    for (uint32_t i = 0; status == CAIRN_OK && i < count; i++) {
        const cairn_replay_result *r = &results[i];
        char budget[CAIRN_UNITS_TEXT];
        char p50[CAIRN_UNITS_TEXT];
        char p95[CAIRN_UNITS_TEXT];
        char held[CAIRN_UNITS_TEXT];
        char cost[CAIRN_UNITS_TEXT];
        cairn_units_print_bytes(r->budget_bytes, budget);
        cairn_units_print_duration(r->ttft_p50_ns, p50);
        cairn_units_print_duration(r->ttft_p95_ns, p95);
        cairn_units_print_bytes(r->held_peak, held);
        cairn_units_print_duration(r->snapshot_ns, cost);
        status = cairn_buf_printf(out, "%-18.18s %-16.16s %9s %10.4f %7.2f%% %7.2f%% %9s %9s %9s %9llu %9s\n",
                                  r->workload, r->policy, budget, cairn_replay_waste(r),
                                  100 * cairn_replay_hit_rate(r), 100 * cairn_replay_of_perfect(r), p50, p95,
                                  held, (unsigned long long)r->snapshots, cost);
    }
    return status;
}

static cairn_status json_text(cairn_buf *out, const char *key, const char *text)
{
    cairn_status status = cairn_buf_printf(out, "\"%s\":\"", key);
    for (const char *c = text; status == CAIRN_OK && *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            status = cairn_buf_append_byte(out, '\\');
        }
        if (status == CAIRN_OK && (unsigned char)*c >= 0x20) {
            status = cairn_buf_append_byte(out, (uint8_t)*c);
        }
    }
    return status == CAIRN_OK ? cairn_buf_append_str(out, "\",") : status;
}

static cairn_status json_numbers(cairn_buf *out, const cairn_replay_result *r)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"budget_bytes", r->budget_bytes},   {"requests", r->requests},
        {"tokens_prompt", r->tokens_prompt}, {"tokens_read", r->tokens_read},
        {"tokens_least", r->tokens_least},   {"ttft_p50_ns", r->ttft_p50_ns},
        {"ttft_p95_ns", r->ttft_p95_ns},     {"first_token_ns", r->read_ns},
        {"held_bytes", r->held_end},         {"held_bytes_peak", r->held_peak},
        {"snapshots", r->snapshots},         {"snapshot_ns", r->snapshot_ns},
        {"moved_bytes", r->moved_bytes},
    };
    cairn_status status = CAIRN_OK;
    for (size_t i = 0; status == CAIRN_OK && i < sizeof numbers / sizeof numbers[0]; i++) {
        status = cairn_buf_printf(out, "\"%s\":%llu,", numbers[i].key, (unsigned long long)numbers[i].value);
    }
    return status;
}

cairn_status cairn_report_json(const cairn_replay_result *results, uint32_t count, cairn_buf *out)
{
    cairn_status status = cairn_buf_append_str(out, "{\"results\":[");
    for (uint32_t i = 0; status == CAIRN_OK && i < count; i++) {
        const cairn_replay_result *r = &results[i];
        status = cairn_buf_append_str(out, i > 0 ? ",\n{" : "\n{");
        if (status == CAIRN_OK) {
            status = json_text(out, "traffic", r->workload);
        }
        if (status == CAIRN_OK) {
            status = json_text(out, "policy", r->policy);
        }
        if (status == CAIRN_OK) {
            status = json_text(out, "profile", r->profile);
        }
        if (status == CAIRN_OK) {
            status = json_numbers(out, r);
        }
        if (status == CAIRN_OK) {
            status = cairn_buf_printf(out,
                                      "\"recorded\":%s,\"read_to_least\":%.6f,\"hit_rate\":%.6f,"
                                      "\"of_perfect\":%.6f,\"digest\":\"%016llx\"}",
                                      r->recorded ? "true" : "false", cairn_replay_waste(r),
                                      cairn_replay_hit_rate(r), cairn_replay_of_perfect(r),
                                      (unsigned long long)r->digest);
        }
    }
    return status == CAIRN_OK ? cairn_buf_append_str(out, "\n]}\n") : status;
}

cairn_replay_result cairn_report_join(const cairn_replay_result *results, uint32_t count)
{
    cairn_replay_result sum = {0};
    for (uint32_t i = 0; i < count; i++) {
        const cairn_replay_result *r = &results[i];
        if (i == 0) {
            sum.policy = r->policy;
            sum.workload = r->workload;
            sum.profile = r->profile;
            sum.budget_bytes = r->budget_bytes;
        }
        sum.requests += r->requests;
        sum.tokens_prompt += r->tokens_prompt;
        sum.tokens_read += r->tokens_read;
        sum.tokens_least += r->tokens_least;
        sum.read_ns += r->read_ns;
        sum.snapshots += r->snapshots;
        sum.snapshot_ns += r->snapshot_ns;
        sum.moved_bytes += r->moved_bytes;
        sum.held_peak = r->held_peak > sum.held_peak ? r->held_peak : sum.held_peak;
        sum.digest ^= r->digest + (uint64_t)i * 0x9e3779b97f4a7c15u;
    }
    return sum;
}

/* --- plot of results ---------------------------------------------------------------------------------------------- */

static const char *budget_text(double x, char text[32])
{
    char units[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes((uint64_t)x, units);
    memcpy(text, units, 31);
    text[31] = '\0';
    return text;
}

typedef struct plot_data {
    cairn_plot_line lines[32];
    double x[32][64], y[32][64];
    uint32_t count;
} plot_data;

static uint32_t line_of(plot_data *data, const char *policy)
{
    for (uint32_t i = 0; i < data->count; i++) {
        if (strcmp(data->lines[i].name, policy) == 0) {
            return i;
        }
    }
    if (data->count < 32) {
        data->lines[data->count] = (cairn_plot_line){
            .name = policy, .x = data->x[data->count], .y = data->y[data->count], .count = 0};
        data->count++;
    }
    return data->count - 1;
}

/* One point for each rule and budget, over all traffic; points come in ascending budgets. */
static void add_points(plot_data *data, const cairn_replay_result *results, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const cairn_replay_result *r = &results[i];
        uint64_t read = 0;
        uint64_t least = 0;
        bool first = !r->fleet;
        for (uint32_t k = 0; k < count; k++) {
            const cairn_replay_result *s = &results[k];
            bool same = !s->fleet && s->budget_bytes == r->budget_bytes && strcmp(s->policy, r->policy) == 0;
            first = first && !(same && k < i);
            read += same ? s->tokens_read : 0;
            least += same ? s->tokens_least : 0;
        }
        if (!first || least == 0 || r->budget_bytes == 0) {
            continue;
        }
        uint32_t line = line_of(data, r->policy);
        uint32_t at = data->lines[line].count;
        if (at == 64) {
            continue;
        }
        double x = (double)r->budget_bytes;
        double y = (double)read / (double)least;
        while (at > 0 && data->x[line][at - 1] > x) {
            data->x[line][at] = data->x[line][at - 1];
            data->y[line][at] = data->y[line][at - 1];
            at--;
        }
        data->x[line][at] = x;
        data->y[line][at] = y;
        data->lines[line].count++;
    }
}

cairn_status cairn_report_plot(const cairn_mem *mem, const cairn_replay_result *results, uint32_t count,
                               cairn_buf *out)
{
    plot_data *data = cairn_mem_zalloc(mem, sizeof *data);
    if (data == NULL) {
        return CAIRN_NOMEM;
    }
    add_points(data, results, count);
    double high = 1.1;
    for (uint32_t i = 0; i < data->count; i++) {
        for (uint32_t k = 0; k < data->lines[i].count; k++) {
            high = data->y[i][k] > high ? data->y[i][k] : high;
        }
    }
    cairn_plot plot = {.title = "Prompt tokens read, divided by what a perfect cache reads",
                       .x_label = "budget for states and rows outside the slots",
                       .y_label = "read / least",
                       .lines = data->lines,
                       .count_lines = data->count,
                       .y_low = 1.0,
                       .y_high = high < 3 ? high : 3,
                       .x_text = budget_text};
    cairn_status status = cairn_plot_svg(&plot, out);
    cairn_mem_release(mem, data, sizeof *data);
    return status;
}
