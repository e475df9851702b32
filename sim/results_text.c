/*
 * results_text - the results page. Every number and every "reached" is computed from the runs.
 */
#include <string.h>

#include "base/units.h"
#include "results.h"

/* The page is built line by line; the first failure stops it. */
typedef struct page {
    cairn_buf *out;
    cairn_status status;
} page;

#define PUT(p, ...)                                                \
    do {                                                           \
        if ((p)->status == CAIRN_OK) {                             \
            (p)->status = cairn_buf_printf((p)->out, __VA_ARGS__); \
        }                                                          \
    } while (0)

static void put_intro(page *p, const cairn_results *r)
{
    char bytes[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes(r->profile->state_bytes, bytes);
    PUT(p, "# Caching rules against each other and against a perfect cache\n\n");
    PUT(p, "Made by `%s`. Do not edit: run `make results` again.\n\n", r->command);
    PUT(p, "The simulator replays traffic through the core that the server runs, and through the public "
           "rules of other "
           "servers, reimplemented from their descriptions. *Least* is what even a perfect cache must read: "
           "the prompt "
           "minus its longest prefix that was seen before (at least one token). **read / least** is 1 for a "
           "perfect "
           "cache.\n\n");
    PUT(p, "Model profile: %s, a state takes %s, a row %llu bytes (%s). Seed of generated traffic: %llu.\n\n",
        r->profile->name, bytes, (unsigned long long)r->profile->row_bytes, r->profile->source,
        (unsigned long long)r->seed);
    PUT(p, "A budget counts saved states, and rows and whole prompts outside the engine's slots (and cairn's "
           "index). "
           "The rows in a slot are free for every rule. Single-user traffic runs on one slot.\n\n");
}

/* --- goals -------------------------------------------------------------------------------------------------------- */

static void put_goal(page *p, const char *goal, const char *measured, bool reached)
{
    PUT(p, "| %s | %s | %s |\n", goal, measured, reached ? "reached" : "**missed**");
}

static void goal_waste(page *p, const cairn_results *r, uint32_t cairn)
{
    char text[160];
    cairn_replay_result all = cairn_results_join(r, CAIRN_RESULTS_GOAL, cairn, CAIRN_RESULTS_ALL);
    (void)snprintf(text, sizeof text, "%.4f", cairn_replay_waste(&all));
    put_goal(p, "read / least at 64 states, all single-user traffic together: at most 1.02", text,
             cairn_replay_waste(&all) <= 1.02);
    double worst = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < r->count_single; i++) {
        double waste = cairn_replay_waste(&r->grid[CAIRN_RESULTS_GOAL][i][cairn]);
        at = waste > worst ? i : at;
        worst = waste > worst ? waste : worst;
    }
    (void)snprintf(text, sizeof text, "worst: %s, %.4f", r->single[at]->name, worst);
    put_goal(p, "the same in each scenario: at most 1.05", text, worst <= 1.05);
}

static void goal_fleet(page *p, const cairn_results *r, uint32_t cairn)
{
    char text[160];
    if (r->fleet == NULL) {
        return;
    }
    double gap = 1;
    const char *who = "";
    uint32_t where = 0;
    for (uint32_t b = 0; b < CAIRN_RESULTS_PARTS; b++) {
        double mine = cairn_replay_hit_rate(&r->fleets[b][cairn]);
        for (uint32_t k = 0; k < r->count_policies; k++) {
            const char *name = r->policies[k]->name;
            double lead = mine - cairn_replay_hit_rate(&r->fleets[b][k]);
            if (strncmp(name, "cairn", 5) != 0 && strncmp(name, "perfect", 7) != 0 && lead < gap) {
                gap = lead;
                who = name;
                where = b;
            }
        }
    }
    (void)snprintf(text, sizeof text, "smallest lead %+.2f points, over %s at %.4g %%", 100 * gap, who,
                   100 * cairn_results_parts[where]);
    put_goal(p, "fleet: token hit rate at least each other rule's at every budget", text, gap >= 0);
    double part = cairn_replay_of_perfect(&r->fleets[CAIRN_RESULTS_PARTS - 1][cairn]);
    (void)snprintf(text, sizeof text, "%.1f %%", 100 * part);
    put_goal(p, "fleet: at least 90 % of the perfect cache's hits at the largest budget", text, part >= 0.9);
}

static void goal_observations(page *p, const cairn_results *r, uint32_t cairn)
{
    char text[160];
    for (uint32_t i = 0; i < r->count_single; i++) {
        if (strcmp(r->single[i]->name, "five-observations") != 0) {
            continue;
        }
        const cairn_replay_result *result = &r->grid[CAIRN_RESULTS_GOAL][i][cairn];
        double part = cairn_replay_of_perfect(result);
        double each = result->requests > 0 ? (double)result->snapshots / (double)result->requests : 0;
        (void)snprintf(text, sizeof text, "%.1f %%, %.2f states a request", 100 * part, each);
        put_goal(p,
                 "five observations: at least 95 % of the perfect cache's hits, at most two states a request",
                 text, part >= 0.95 && each <= 2);
    }
}

static void goal_optimum(page *p, const cairn_results *r)
{
    char text[160];
    double worst = 0;
    const char *who = "";
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->count_optimum; i++) {
        for (uint32_t k = 0; k < CAIRN_RESULTS_COUNTS; k++) {
            double ratio = (double)r->optimum[i].online[k] / (double)r->optimum[i].best[k];
            if (ratio > worst) {
                worst = ratio;
                who = r->optimum[i].w->name;
                count = cairn_results_counts[k];
            }
        }
    }
    if (r->count_optimum > 0) {
        (void)snprintf(text, sizeof text, "worst: %s with %u states, %.4f of the optimum's tokens", who,
                       count, worst);
        put_goal(p, "recorded traces: tokens read within 5 % of the offline optimum with as many states",
                 text, worst <= 1.05);
    }
}

static void put_goals(page *p, const cairn_results *r)
{
    uint32_t cairn = cairn_results_policy(r, "cairn");
    PUT(p, "## Goals\n\n| goal | measured | |\n|---|---|---|\n");
    goal_waste(p, r, cairn);
    goal_fleet(p, r, cairn);
    goal_observations(p, r, cairn);
    goal_optimum(p, r);
    PUT(p, "\n");
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static void put_heads(page *p, const cairn_results *r, const char *first)
{
    PUT(p, "| %s |", first);
    for (uint32_t k = 0; k < r->count_policies; k++) {
        PUT(p, " %s |", r->policies[k]->name);
    }
    PUT(p, "\n|---|");
    for (uint32_t k = 0; k < r->count_policies; k++) {
        PUT(p, "--:|");
    }
    PUT(p, "\n");
}

static void put_waste(page *p, const cairn_results *r)
{
    PUT(p, "## read / least at 64 states\n\n");
    put_heads(p, r, "traffic");
    for (uint32_t i = 0; i < r->count_single; i++) {
        PUT(p, "| %s |", r->single[i]->name);
        for (uint32_t k = 0; k < r->count_policies; k++) {
            PUT(p, " %.3f |", cairn_replay_waste(&r->grid[CAIRN_RESULTS_GOAL][i][k]));
        }
        PUT(p, "\n");
    }
    static const struct {
        const char *name;
        cairn_results_part part;
    } sums[] = {{"recorded", CAIRN_RESULTS_RECORDED},
                {"generated", CAIRN_RESULTS_GENERATED},
                {"together", CAIRN_RESULTS_ALL}};
    for (size_t s = 0; s < sizeof sums / sizeof sums[0]; s++) {
        PUT(p, "| **%s** |", sums[s].name);
        for (uint32_t k = 0; k < r->count_policies; k++) {
            cairn_replay_result sum = cairn_results_join(r, CAIRN_RESULTS_GOAL, k, sums[s].part);
            PUT(p, " **%.3f** |", cairn_replay_waste(&sum));
        }
        PUT(p, "\n");
    }
    PUT(p, "\n");
}

static void put_budgets(page *p, const cairn_results *r)
{
    PUT(p, "## read / least against the budget\n\nAll single-user traffic together.\n\n![read / least "
           "against the "
           "budget](policies.svg)\n\n");
    put_heads(p, r, "states");
    for (uint32_t b = 0; b < CAIRN_RESULTS_BUDGETS; b++) {
        PUT(p, "| %u |", cairn_results_states[b]);
        for (uint32_t k = 0; k < r->count_policies; k++) {
            cairn_replay_result sum = cairn_results_join(r, b, k, CAIRN_RESULTS_ALL);
            PUT(p, " %.3f |", cairn_replay_waste(&sum));
        }
        PUT(p, "\n");
    }
    PUT(p, "\n");
}

static void put_times(page *p, const cairn_results *r)
{
    PUT(p, "## Time, bytes and states at 64 states\n\nAll single-user traffic together; time to first token "
           "summed "
           "over all requests, without waiting for others.\n\n");
    PUT(p, "| rule | first token, sum | token hit rate | of the perfect cache's | most bytes held | states "
           "taken | their "
           "cost | bytes moved |\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for (uint32_t k = 0; k < r->count_policies; k++) {
        cairn_replay_result sum = cairn_results_join(r, CAIRN_RESULTS_GOAL, k, CAIRN_RESULTS_ALL);
        char first[CAIRN_UNITS_TEXT];
        char held[CAIRN_UNITS_TEXT];
        char cost[CAIRN_UNITS_TEXT];
        char moved[CAIRN_UNITS_TEXT];
        cairn_units_print_duration(sum.read_ns, first);
        cairn_units_print_bytes(sum.held_peak, held);
        cairn_units_print_duration(sum.snapshot_ns, cost);
        cairn_units_print_bytes(sum.moved_bytes, moved);
        PUT(p, "| %s | %s | %.2f %% | %.2f %% | %s | %llu | %s | %s |\n", r->policies[k]->name, first,
            100 * cairn_replay_hit_rate(&sum), 100 * cairn_replay_of_perfect(&sum), held,
            (unsigned long long)sum.snapshots, cost, moved);
    }
    PUT(p, "\n");
}

static void put_fleet(page *p, const cairn_results *r)
{
    if (r->fleet == NULL) {
        return;
    }
    char whole[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes(cairn_replay_whole_bytes(r->fleet, r->profile), whole);
    PUT(p,
        "## Fleet\n\n1,000 sessions on eight slots: %llu requests, %llu prompt tokens. Everything (all "
        "different "
        "rows, one state a session) would take %s; a budget is a part of that.\n\nToken hit rate:\n\n",
        (unsigned long long)r->fleets[0][0].requests, (unsigned long long)r->fleets[0][0].tokens_prompt,
        whole);
    put_heads(p, r, "budget");
    for (uint32_t b = 0; b < CAIRN_RESULTS_PARTS; b++) {
        char bytes[CAIRN_UNITS_TEXT];
        cairn_units_print_bytes(r->fleets[b][0].budget_bytes, bytes);
        PUT(p, "| %.4g %%, %s |", 100 * cairn_results_parts[b], bytes);
        for (uint32_t k = 0; k < r->count_policies; k++) {
            PUT(p, " %.2f %% |", 100 * cairn_replay_hit_rate(&r->fleets[b][k]));
        }
        PUT(p, "\n");
    }
    PUT(p, "\nTime to first token at the largest budget, without waiting (p50 / p95):\n\n| rule | p50 | p95 "
           "| states "
           "taken |\n|---|--:|--:|--:|\n");
    for (uint32_t k = 0; k < r->count_policies; k++) {
        const cairn_replay_result *result = &r->fleets[CAIRN_RESULTS_PARTS - 1][k];
        char p50[CAIRN_UNITS_TEXT];
        char p95[CAIRN_UNITS_TEXT];
        cairn_units_print_duration(result->ttft_p50_ns, p50);
        cairn_units_print_duration(result->ttft_p95_ns, p95);
        PUT(p, "| %s | %s | %s | %llu |\n", result->policy, p50, p95, (unsigned long long)result->snapshots);
    }
    PUT(p, "\n");
}

static void put_optimum(page *p, const cairn_results *r)
{
    if (r->count_optimum == 0) {
        return;
    }
    PUT(p, "## The online rule against the offline optimum\n\nTokens read by cairn's rule, divided by those "
           "read with "
           "the best fixed places for as many states, chosen by dynamic programming with the whole trace "
           "known. Rows "
           "cost nothing here. The optimum holds its places for the whole trace, while the online rule may "
           "use one "
           "state's room for several places in turn, so a figure below 1 is possible.\n\n| trace |");
    for (uint32_t k = 0; k < CAIRN_RESULTS_COUNTS; k++) {
        PUT(p, " %u states |", cairn_results_counts[k]);
    }
    PUT(p, "\n|---|--:|--:|--:|--:|--:|\n");
    for (uint32_t i = 0; i < r->count_optimum; i++) {
        PUT(p, "| %s |", r->optimum[i].w->name);
        for (uint32_t k = 0; k < CAIRN_RESULTS_COUNTS; k++) {
            PUT(p, " %.4f |", (double)r->optimum[i].online[k] / (double)r->optimum[i].best[k]);
        }
        PUT(p, "\n");
    }
    PUT(p, "\n");
}

static void put_profiles(page *p, const cairn_results *r)
{
    uint32_t count = 0;
    const cairn_profile *profiles = cairn_profile_list(&count);
    uint32_t cairn = cairn_results_policy(r, "cairn");
    uint32_t llama = cairn_results_policy(r, "llama.cpp");
    PUT(p, "## Other models\n\nAll single-user traffic with a budget of 64 of the model's own states (4 GiB "
           "for pure "
           "attention), read / least:\n\n| model | state | row | cairn | llama.cpp | dimensions | speed |\n"
           "|---|--:|--:|--:|--:|---|---|\n");
    for (uint32_t i = 0; i < r->count_profiles; i++) {
        char bytes[CAIRN_UNITS_TEXT];
        cairn_units_print_bytes(profiles[i].state_bytes, bytes);
        PUT(p, "| %s | %s | %llu B | %.3f | %.3f | %s | %s |\n", profiles[i].name, bytes,
            (unsigned long long)profiles[i].row_bytes, cairn_replay_waste(&r->profiles[i][cairn]),
            cairn_replay_waste(&r->profiles[i][llama]), profiles[i].source, profiles[i].speed);
    }
    PUT(p, "\n");
}

static void put_notes(page *p, const cairn_results *r)
{
    PUT(p, "## The rules\n\n");
    for (uint32_t k = 0; k < r->count_policies; k++) {
        PUT(p, "- **%s**: %s.\n", r->policies[k]->name, r->policies[k]->about);
    }
    PUT(p,
        "\n## How cairn's constants were chosen\n\n"
        "On this very traffic: the generated scenarios with seed 1, the fleet and the recorded traces, from "
        "which the "
        "table of chances is made, too. So these figures alone could flatter it. [tuning.md](tuning.md) "
        "has the figures on traffic that nothing was chosen on (other seeds; each trace with the table made "
        "from "
        "the others), what was tried and not kept, and the reason for each goal that is missed.\n"
        "\n## What is not in these numbers\n\n"
        "- The traffic of real clients is recorded from driven sessions with a scripted model: what clients "
        "send is "
        "real, how often each thing happens is not (traces/README.md).\n"
        "- Tokens are those of a simple tokenizer on mapped words, not of a real vocabulary.\n"
        "- Times are from a cost model; waiting for other requests, and the time of answers, are left out.\n"
        "- The other rules are written from public descriptions. Where these are silent, the choice is named "
        "above "
        "and is the one that helps the rule.\n"
        "- Prompts are rendered with the system text first, then the tools. Templates that put tools first "
        "move "
        "some divergences.\n");
}

cairn_status cairn_results_page(const cairn_results *results, cairn_buf *out)
{
    page p = {.out = out, .status = CAIRN_OK};
    put_intro(&p, results);
    put_goals(&p, results);
    put_waste(&p, results);
    put_budgets(&p, results);
    put_times(&p, results);
    put_fleet(&p, results);
    put_optimum(&p, results);
    put_profiles(&p, results);
    put_notes(&p, results);
    return p.status;
}
