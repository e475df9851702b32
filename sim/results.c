/*
 * results - runs everything that the results page shows, then writes the page and its plot.
 */
#include "results.h"

#include <string.h>

#include "optimum.h"

#define PAGE_BYTES_MAX ((size_t)16 << 20)

const uint32_t cairn_results_states[CAIRN_RESULTS_BUDGETS] = {8, 16, 32, 64, 128};
const double cairn_results_parts[CAIRN_RESULTS_PARTS] = {0.0125, 0.025, 0.05, 0.1};
const uint32_t cairn_results_counts[CAIRN_RESULTS_COUNTS] = {4, 8, 16, 32, 64};

uint32_t cairn_results_policy(const cairn_results *results, const char *name)
{
    uint32_t i = 0;
    while (i < results->count_policies && strcmp(results->policies[i]->name, name) != 0) {
        i++;
    }
    return i;
}

cairn_replay_result cairn_results_join(const cairn_results *results, uint32_t budget, uint32_t policy,
                                       cairn_results_part part)
{
    cairn_replay_result some[CAIRN_RESULTS_TRAFFIC_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < results->count_single; i++) {
        bool recorded = results->single[i]->recorded;
        if (part == CAIRN_RESULTS_ALL || recorded == (part == CAIRN_RESULTS_RECORDED)) {
            some[count++] = results->grid[budget][i][policy];
        }
    }
    return cairn_report_join(some, count);
}

static cairn_status run(const cairn_results *r, const cairn_workload *w, const cairn_policy *policy,
                        const cairn_profile *profile, uint64_t bytes, cairn_replay_result *ret,
                        cairn_error *reterr)
{
    cairn_replay_options options = {
        .policy = policy, .workload = w, .profile = profile, .budget_bytes = bytes};
    return cairn_replay(r->mem, &options, ret, reterr);
}

static cairn_status run_grid(cairn_results *r, cairn_error *reterr)
{
    for (uint32_t b = 0; b < CAIRN_RESULTS_BUDGETS; b++) {
        uint64_t bytes = cairn_results_states[b] * r->profile->state_bytes;
        for (uint32_t i = 0; i < r->count_single; i++) {
            for (uint32_t k = 0; k < r->count_policies; k++) {
                cairn_status status =
                    run(r, r->single[i], r->policies[k], r->profile, bytes, &r->grid[b][i][k], reterr);
                if (status != CAIRN_OK) {
                    return status;
                }
            }
        }
    }
    return CAIRN_OK;
}

static cairn_status run_fleet(cairn_results *r, cairn_error *reterr)
{
    if (r->fleet == NULL) {
        return CAIRN_OK;
    }
    uint64_t whole = cairn_replay_whole_bytes(r->fleet, r->profile);
    for (uint32_t b = 0; b < CAIRN_RESULTS_PARTS; b++) {
        uint64_t bytes = (uint64_t)(cairn_results_parts[b] * (double)whole);
        for (uint32_t k = 0; k < r->count_policies; k++) {
            cairn_status status =
                run(r, r->fleet, r->policies[k], r->profile, bytes, &r->fleets[b][k], reterr);
            if (status != CAIRN_OK) {
                return status;
            }
        }
    }
    return CAIRN_OK;
}

/* Rows cost nothing here, so that a budget is a number of states; half a state more is for the index. */
static cairn_status run_optimum(cairn_results *r, cairn_error *reterr)
{
    cairn_profile bare = *r->profile;
    bare.row_bytes = 1;
    for (uint32_t i = 0; i < r->count_single; i++) {
        if (!r->single[i]->recorded) {
            continue;
        }
        cairn_results_optimum *o = &r->optimum[r->count_optimum++];
        o->w = r->single[i];
        cairn_status status =
            cairn_optimum(o->w, cairn_results_counts, CAIRN_RESULTS_COUNTS, o->best, reterr);
        for (uint32_t k = 0; status == CAIRN_OK && k < CAIRN_RESULTS_COUNTS; k++) {
            uint64_t bytes = cairn_results_counts[k] * bare.state_bytes + bare.state_bytes / 2;
            cairn_replay_result result;
            status = run(r, o->w, &cairn_policy_cairn, &bare, bytes, &result, reterr);
            o->online[k] = result.tokens_read;
            o->least = result.tokens_least;
        }
        if (status != CAIRN_OK) {
            return status;
        }
    }
    return CAIRN_OK;
}

static cairn_status run_profiles(cairn_results *r, cairn_error *reterr)
{
    const cairn_profile *profiles = cairn_profile_list(&r->count_profiles);
    if (r->count_profiles > CAIRN_RESULTS_PROFILES_MAX) {
        r->count_profiles = CAIRN_RESULTS_PROFILES_MAX;
    }
    const cairn_budget budget = {.kind = CAIRN_BUDGET_STATES, .value = 64};
    for (uint32_t p = 0; p < r->count_profiles; p++) {
        for (uint32_t k = 0; k < r->count_policies; k++) {
            const char *name = r->policies[k]->name;
            if (strcmp(name, "cairn") != 0 && strcmp(name, "llama.cpp") != 0 &&
                strcmp(name, "perfect") != 0) {
                continue;
            }
            cairn_replay_result some[CAIRN_RESULTS_TRAFFIC_MAX];
            for (uint32_t i = 0; i < r->count_single; i++) {
                uint64_t bytes = cairn_budget_bytes(&budget, r->single[i], &profiles[p]);
                cairn_status status =
                    run(r, r->single[i], r->policies[k], &profiles[p], bytes, &some[i], reterr);
                if (status != CAIRN_OK) {
                    return status;
                }
            }
            r->profiles[p][k] = cairn_report_join(some, r->count_single);
        }
    }
    return CAIRN_OK;
}

static cairn_status write_text(const char *folder, const char *name, const cairn_buf *buf,
                               cairn_error *reterr)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(cairn_buf_str(buf), 1, buf->len_bytes, file) == buf->len_bytes;
    if (file != NULL && fclose(file) != 0) {
        good = false;
    }
    return good ? CAIRN_OK
                : cairn_error_set(reterr, CAIRN_IO, "sim/results", "%.120s could not be written", path);
}

static cairn_status write_plot(cairn_results *r, const char *folder, cairn_error *reterr)
{
    uint32_t count = CAIRN_RESULTS_BUDGETS * r->count_single * r->count_policies;
    cairn_replay_result *flat = cairn_mem_array(r->mem, count, sizeof *flat);
    if (flat == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/results", NULL);
    }
    uint32_t at = 0;
    for (uint32_t b = 0; b < CAIRN_RESULTS_BUDGETS; b++) {
        for (uint32_t i = 0; i < r->count_single; i++) {
            memcpy(flat + at, r->grid[b][i], r->count_policies * sizeof *flat);
            at += r->count_policies;
        }
    }
    cairn_buf buf;
    cairn_buf_init(&buf, r->mem, PAGE_BYTES_MAX);
    cairn_status status = cairn_report_plot(r->mem, flat, count, &buf);
    if (status == CAIRN_OK) {
        status = write_text(folder, "policies.svg", &buf, reterr);
    } else {
        (void)cairn_error_set(reterr, status, "sim/results", "plot");
    }
    cairn_buf_release(&buf);
    cairn_mem_array_release(r->mem, flat, count, sizeof *flat);
    return status;
}

static cairn_status sort_traffic(cairn_results *r, const cairn_workload *workloads, uint32_t count,
                                 cairn_error *reterr)
{
    for (int recorded = 1; recorded >= 0; recorded--) {
        for (uint32_t i = 0; i < count; i++) {
            if (workloads[i].fleet && recorded == 0) {
                r->fleet = &workloads[i];
            }
            if (workloads[i].fleet || workloads[i].recorded != (recorded == 1)) {
                continue;
            }
            if (r->count_single == CAIRN_RESULTS_TRAFFIC_MAX) {
                return cairn_error_set(reterr, CAIRN_LIMIT, "sim/results", "more than %d kinds of traffic",
                                       CAIRN_RESULTS_TRAFFIC_MAX);
            }
            r->single[r->count_single++] = &workloads[i];
        }
    }
    if (r->count_single == 0) {
        return cairn_error_set(reterr, CAIRN_INVALID, "sim/results", "no single-user traffic was given");
    }
    return CAIRN_OK;
}

cairn_status cairn_results_write(const cairn_mem *mem, const cairn_workload *workloads, uint32_t count,
                                 uint64_t seed, const char *command, const char *folder, FILE *progress,
                                 cairn_error *reterr)
{
    cairn_results *r = cairn_mem_zalloc(mem, sizeof *r);
    if (r == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/results", NULL);
    }
    r->mem = mem;
    r->seed = seed;
    r->command = command;
    uint32_t count_profiles = 0;
    r->profile = cairn_profile_list(&count_profiles);
    r->policies = cairn_policy_list(&r->count_policies);
    CAIRN_ASSERT(r->count_policies <= CAIRN_RESULTS_POLICIES_MAX);
    const struct {
        const char *what;
        cairn_status (*step)(cairn_results *r, cairn_error *reterr);
    } steps[] = {
        {"single users, all budgets", run_grid},
        {"the fleet", run_fleet},
        {"the offline optimum", run_optimum},
        {"other models", run_profiles},
    };
    cairn_status status = sort_traffic(r, workloads, count, reterr);
    for (size_t i = 0; status == CAIRN_OK && i < sizeof steps / sizeof steps[0]; i++) {
        (void)fprintf(progress, "%s\n", steps[i].what);
        status = steps[i].step(r, reterr);
    }
    if (status == CAIRN_OK) {
        cairn_buf page;
        cairn_buf_init(&page, mem, PAGE_BYTES_MAX);
        status = cairn_results_page(r, &page);
        status = status == CAIRN_OK ? write_text(folder, "policies.md", &page, reterr)
                                    : cairn_error_set(reterr, status, "sim/results", "page");
        cairn_buf_release(&page);
    }
    if (status == CAIRN_OK) {
        status = write_plot(r, folder, reterr);
    }
    cairn_mem_release(mem, r, sizeof *r);
    return status;
}
