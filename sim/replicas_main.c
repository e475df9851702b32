/*
 * replicas_main - cairn-replicas [SCENARIO]: eight servers behind a balancer, with a shared store and without, as a table.
 */
#include <stdio.h>

#include "generate.h"
#include "replicas.h"

enum { REPLICAS = 8, SEED = 1 };

#define BUDGET_BYTES (UINT64_C(4) << 30)
#define GIGABIT      125e6
#define TRIP_NS      0.5e6

static int fail(const cairn_error *error)
{
    char text[512];
    cairn_error_print(error, text, sizeof text);
    (void)fprintf(stderr, "%s\n", text);
    return 1;
}

static cairn_status row(const char *what, const cairn_workload *w, const cairn_profile *profile,
                        cairn_fleet fleet, cairn_error *reterr)
{
    cairn_replay_result r;
    cairn_status status =
        cairn_replicas_replay(cairn_mem_default(), w, profile, BUDGET_BYTES, &fleet, &r, reterr);
    if (status == CAIRN_OK) {
        printf("| %s | %.3f | %.1f %% | %.0f ms | %.0f ms | %llu |\n", what, cairn_replay_waste(&r),
               100 * cairn_replay_hit_rate(&r), (double)r.ttft_p50_ns / 1e6, (double)r.ttft_p95_ns / 1e6,
               (unsigned long long)fleet.fetches);
    }
    return status;
}

int main(int argc, char **argv)
{
    const cairn_scenario *scenario = cairn_scenario_get(argc > 1 ? argv[1] : "fleet");
    const cairn_profile *profile = &cairn_profile_list(&(uint32_t){0})[0];
    cairn_error error = {0};
    cairn_workload w;
    if (scenario == NULL || argc > 2) {
        (void)fputs("usage: cairn-replicas [SCENARIO]     (fleet; cairn simulate --help lists them)\n",
                    stderr);
        return 2;
    }
    cairn_status status = cairn_scenario_make(scenario, cairn_mem_default(), SEED, &w, &error);
    const struct {
        const char *what;
        cairn_fleet fleet;
    } rows[] = {
        {"one server", {.replicas = 1}},
        {"8 servers, sessions stay", {.replicas = REPLICAS, .sticky = true}},
        {"8 servers, dice", {.replicas = REPLICAS}},
        {"8 servers, dice, store at 1 Gbit/s",
         {.replicas = REPLICAS, .bytes_second = GIGABIT, .trip_ns = TRIP_NS}},
        {"8 servers, dice, store at 10 Gbit/s",
         {.replicas = REPLICAS, .bytes_second = 10 * GIGABIT, .trip_ns = TRIP_NS}},
        {"8 servers, dice, store at 100 Gbit/s",
         {.replicas = REPLICAS, .bytes_second = 100 * GIGABIT, .trip_ns = TRIP_NS}},
    };
    if (status == CAIRN_OK) {
        printf("%s, %u requests; %s; 4 GiB and one slot a server\n\n", scenario->name, w.count_requests,
               profile->name);
        printf("| fleet | read / least | not read | first token, median | 95 %% | fetched |\n"
               "|---|---:|---:|---:|---:|---:|\n");
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == CAIRN_OK; i++) {
        status = row(rows[i].what, &w, profile, rows[i].fleet, &error);
    }
    cairn_workload_release(&w);
    return status == CAIRN_OK ? 0 : fail(&error);
}
