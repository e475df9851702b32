/*
 * replicas - see the header. To the replay a fleet is a rule like any other.
 */
#include "replicas.h"

#include <string.h>

#include "base/rng.h"

enum {
    POINTS_A_NODE = 8,
    TRIPS = 3
}; /* which points, one of them, its heads                                */

/* Resume points on one node of the workload's tree, the last ones when there are more. */
typedef struct fleet_points {
    uint32_t count;
    uint32_t positions[POINTS_A_NODE];
} fleet_points;

typedef struct fleet_self {
    cairn_policy_setup setup;
    cairn_fleet *fleet;
    cairn_rng dice;
    void *replicas[CAIRN_REPLICAS_MAX];
    fleet_points *points; /* fleet_points[w->count_nodes]                                                 */
} fleet_self;

/* The fleet of the replay that begins: a rule's make is given traffic and budget alone. */
static _Thread_local cairn_fleet *fleet_now;

static void fleet_free(void *self)
{
    fleet_self *p = self;
    for (uint32_t i = 0; i < CAIRN_REPLICAS_MAX; i++) {
        if (p->replicas[i] != NULL) {
            cairn_policy_cairn.free(p->replicas[i]);
        }
    }
    cairn_mem_array_release(p->setup.mem, p->points, p->setup.w->count_nodes, sizeof *p->points);
    cairn_mem_release(p->setup.mem, p, sizeof *p);
}

static cairn_status fleet_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    fleet_self *p = cairn_mem_zalloc(setup->mem, sizeof *p);
    if (p == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "sim/replicas", NULL);
    }
    p->setup = *setup;
    p->fleet = fleet_now;
    cairn_rng_init_stream(&p->dice, p->fleet->seed, 8);
    p->points = cairn_mem_array(setup->mem, setup->w->count_nodes, sizeof *p->points);
    cairn_status status =
        p->points != NULL ? CAIRN_OK : cairn_error_set(reterr, CAIRN_NOMEM, "sim/replicas", NULL);
    for (uint32_t i = 0; i < p->fleet->replicas && status == CAIRN_OK; i++) {
        status = cairn_policy_cairn.make(setup, &p->replicas[i], reterr);
    }
    if (status != CAIRN_OK) {
        fleet_free(p);
        return status;
    }
    *ret_self = p;
    return CAIRN_OK;
}

/* --- the store ---------------------------------------------------------------------------------------------------- */

static void publish(fleet_self *p, const cairn_policy_view *view, uint32_t position)
{
    uint32_t at = cairn_policy_node_at(p->setup.w, view, position);
    if (position == 0 || at >= view->count_path) {
        return;
    }
    fleet_points *points = &p->points[view->path[at]];
    for (uint32_t i = 0; i < points->count && i < POINTS_A_NODE; i++) {
        if (points->positions[i] == position) {
            return;
        }
    }
    points->positions[points->count++ % POINTS_A_NODE] = position;
}

static void publish_all(fleet_self *p, const cairn_policy_view *view)
{
    const uint16_t kinds =
        CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_LAST_USER | CAIRN_BOUNDARY_OPENER | CAIRN_BOUNDARY_MARK;
    for (uint32_t i = 0; i < view->request->count_boundaries; i++) {
        if ((view->boundaries[i].kinds & kinds) != 0) {
            publish(p, view, view->boundaries[i].position);
        }
    }
    publish(p, view, view->request->prompt_tokens + view->request->answer_tokens);
}

/* The deepest point on the prompt's path that leaves a token to read; 0: none. */
static uint32_t deepest(const fleet_self *p, const cairn_policy_view *view)
{
    uint32_t most = cairn_policy_most(view);
    for (uint32_t i = view->count_prompt; i > 0; i--) {
        const fleet_points *points = &p->points[view->path[i - 1]];
        uint32_t best = 0;
        for (uint32_t j = 0; j < points->count && j < POINTS_A_NODE; j++) {
            uint32_t position = points->positions[j];
            best = position <= most && position > best ? position : best;
        }
        if (best > 0) {
            return best;
        }
    }
    return 0;
}

/* Resume from the store where that is quicker than reading from where the replica would. */
static void fetch(fleet_self *p, const cairn_policy_view *view, cairn_policy_outcome *out)
{
    const cairn_profile *profile = p->setup.profile;
    uint32_t position = deepest(p, view), prompt = view->request->prompt_tokens;
    if (position <= out->reused) {
        return;
    }
    uint64_t bytes = profile->state_bytes + (position - out->reused) * profile->row_bytes;
    uint32_t batches = cairn_policy_batches(profile, position, prompt, 0);
    double fetch_ns = (double)bytes / p->fleet->bytes_second * 1e9 + TRIPS * p->fleet->trip_ns;
    double saved_ns = cairn_profile_read_ns(profile, out->reused, prompt, out->batches) -
                      cairn_profile_read_ns(profile, position, prompt, batches);
    if (fetch_ns >= saved_ns) {
        p->fleet->dearer++;
        return;
    }
    p->fleet->fetches++;
    p->fleet->fetched_tokens += position - out->reused;
    out->reused = position;
    out->batches = batches;
    /* The replay counts time for bytes: as many as take as long as the fetch and the copy into the engine. */
    out->restored_bytes += bytes + (uint64_t)(fetch_ns / profile->move_ns_byte);
}

static cairn_status fleet_request(void *self, const cairn_policy_view *view,
                                  cairn_policy_outcome *ret_outcome, cairn_error *reterr)
{
    fleet_self *p = self;
    uint32_t thrown = (uint32_t)cairn_rng_below(&p->dice, p->fleet->replicas);
    uint32_t chosen = p->fleet->sticky ? view->request->session % p->fleet->replicas : thrown;
    cairn_status status = cairn_policy_cairn.request(p->replicas[chosen], view, ret_outcome, reterr);
    if (status == CAIRN_OK && p->fleet->bytes_second > 0) {
        fetch(p, view, ret_outcome);
        if (!view->request->no_store) {
            publish_all(p, view);
        }
    }
    return status;
}

cairn_status cairn_replicas_replay(const cairn_mem *mem, const cairn_workload *w,
                                   const cairn_profile *profile, uint64_t budget_bytes, cairn_fleet *fleet,
                                   cairn_replay_result *ret_result, cairn_error *reterr)
{
    static const cairn_policy policy = {.name = "fleet",
                                        .about = "several servers, each with cairn's core",
                                        .make = fleet_make,
                                        .request = fleet_request,
                                        .free = fleet_free};
    if (fleet->replicas < 1 || fleet->replicas > CAIRN_REPLICAS_MAX) {
        return cairn_error_set(reterr, CAIRN_INVALID, "sim/replicas", "%u replicas", fleet->replicas);
    }
    cairn_replay_options options = {
        .policy = &policy, .workload = w, .profile = profile, .budget_bytes = budget_bytes, .slots = 1};
    fleet->fetches = fleet->fetched_tokens = fleet->dearer = 0;
    fleet_now = fleet;
    return cairn_replay(mem, &options, ret_result, reterr);
}
