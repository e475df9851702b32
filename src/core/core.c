/*
 * core - events in, lists out; see core.h. Each event checks that it fits the state before it changes
 * anything, then calls the rooms. Probing, walking and verifying are in core_look.c.
 */
#include "core/core.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "core/adopt.h"
#include "core/boundary.h"
#include "core/counts.h"
#include "core/divergence.h"
#include "core/drop.h"
#include "core/eviction.h"
#include "core/learning.h"
#include "core/lookup.h"
#include "core/placement.h"
#include "core/plan.h"
#include "core/resume.h"
#include "core/step.h"

/* Every list has room for LIST_LEAST from the start, and the last few are kept for what must be said. */
enum { LIST_LEAST = 64, LIST_KEPT = 4 };

/* --- making ---------------------------------------------------------------------------------------------- */

static bool lists_new(cairn_core *core)
{
    core->actions = cairn_mem_array(core->mem, LIST_LEAST, sizeof(cairn_action));
    core->room_actions = core->actions != NULL ? LIST_LEAST : 0;
    bool fine = core->actions != NULL;
    for (uint32_t i = 0; i < core->options.slots && fine; i++) {
        core->slots[i].dirty = true; /* what the engine holds at first is not known */
        core->requests[i].list = cairn_mem_array(core->mem, LIST_LEAST, sizeof(cairn_action));
        fine = core->requests[i].list != NULL;
        core->requests[i].room_list = fine ? LIST_LEAST : 0;
    }
    return fine;
}

cairn_status cairn_core_new(cairn_mem *mem, const cairn_core_options *options, cairn_core **ret_core,
                            cairn_error *reterr)
{
    if (options->slots == 0 || options->slot_tokens_max < 2 || options->batch_tokens_max == 0 ||
        options->slots >= (1u << 16)) {
        return cairn_error_set(reterr, CAIRN_INVALID, "core/new",
                               "slots, slot_tokens_max or batch_tokens_max");
    }
    cairn_core *core = cairn_mem_zalloc(mem, sizeof *core);
    if (core == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "core/new", NULL);
    }
    core->mem = mem;
    core->options = cairn_boundary_options(options);
    core->digest = CAIRN_HASH_CHAIN_SEED;
    cairn_ledger_init(&core->ledger, options->ram_bytes_max, options->index_bytes_max);
    cairn_costs_init(&core->costs, options);
    core->slots = cairn_mem_array(mem, options->slots, sizeof *core->slots);
    core->requests = cairn_mem_array(mem, options->slots, sizeof *core->requests);
    core->lookup.common = cairn_mem_array(mem, options->slots, sizeof *core->lookup.common);
    cairn_status status =
        cairn_tree_init(&core->tree, mem, &core->ledger, options->slots + 1); /* and a visitor: adopt.c */
    if (status != CAIRN_OK || core->slots == NULL || core->requests == NULL || core->lookup.common == NULL) {
        cairn_core_free(core);
        return cairn_error_set(reterr, CAIRN_NOMEM, "core/new", NULL);
    }
    bool lists = lists_new(core);
    if (!lists) {
        cairn_core_free(core);
        return cairn_error_set(reterr, CAIRN_NOMEM, "core/new", NULL);
    }
    *ret_core = core;
    return CAIRN_OK;
}

void cairn_core_free(cairn_core *core)
{
    if (core == NULL) {
        return;
    }
    cairn_mem *mem = core->mem;
    uint32_t slots = core->options.slots;
    for (uint32_t i = 0; i < slots; i++) {
        if (core->slots != NULL) {
            cairn_lineage_release(&core->slots[i].lineage, mem, &core->ledger);
        }
        if (core->requests != NULL) {
            cairn_mem_array_release(mem, core->requests[i].list, core->requests[i].room_list,
                                    sizeof(cairn_action));
            cairn_mem_array_release(mem, core->requests[i].pins, core->requests[i].room_pins,
                                    sizeof(cairn_pin));
        }
    }
    for (uint32_t i = 0; i < core->tree.spaces.high; i++) {
        cairn_learning_forget(core, i);
    }
    cairn_counts_release(core);
    cairn_lookup_release(core, &core->lookup);
    cairn_path_scratch_release(&core->scratch, mem);
    cairn_tree_release(&core->tree);
    cairn_mem_array_release(mem, core->slots, slots, sizeof *core->slots);
    cairn_mem_array_release(mem, core->requests, slots, sizeof *core->requests);
    cairn_mem_array_release(mem, core->actions, core->room_actions, sizeof(cairn_action));
    cairn_mem_release(mem, core, sizeof *core);
}

/* --- lists ------------------------------------------------------------------------------------------------- */

bool cairn_core_emit(cairn_core *core, cairn_action action)
{
    bool must = action.kind == CAIRN_ACTION_RESET || action.kind == CAIRN_ACTION_READ ||
                action.kind == CAIRN_ACTION_READY;
    if (core->count_actions + LIST_KEPT >= core->room_actions) {
        uint32_t more = core->room_actions + core->room_actions / 2 + LIST_LEAST;
        void *fresh =
            cairn_mem_array_resize(core->mem, core->actions, core->room_actions, more, sizeof(cairn_action));
        if (fresh == NULL) {
            if (!must) {
                return false;
            }
        } else {
            core->actions = fresh;
            core->room_actions = more;
        }
    }
    CAIRN_ASSERT(core->count_actions < core->room_actions);
    core->actions[core->count_actions++] = action;
    return true;
}

static void digest_actions(cairn_core *core, const cairn_action *list)
{
    for (uint32_t i = 0; i < core->count_actions; i++) {
        const cairn_action *a = &list[i];
        const uint64_t words[] = {
            (uint64_t)a->kind << 32 | a->slot,         a->request, a->blob, (uint64_t)a->begin << 32 | a->end,
            (uint64_t)a->use_begin << 32 | a->use_end, a->bytes};
        for (unsigned j = 0; j < sizeof words / sizeof words[0]; j++) {
            core->digest = cairn_hash_mix(core->digest ^ words[j]) + j;
        }
    }
}

cairn_request *cairn_step_request(const cairn_core *core, cairn_request_id id, uint32_t *ret_slot)
{
    *ret_slot = 0;
    for (uint32_t i = 0; i < core->options.slots && id != 0; i++) {
        if (core->requests[i].id == id) {
            *ret_slot = i;
            return &core->requests[i];
        }
    }
    return NULL;
}

/* The list becomes the request's own, so that later reports can name its items by index. */
cairn_status cairn_step_keep_list(cairn_core *core, cairn_request *request)
{
    cairn_action *list = request->list;
    uint32_t room = request->room_list;
    request->list = core->actions;
    request->room_list = core->room_actions;
    request->count_list = core->count_actions;
    core->returned = request->list;
    core->actions = list;
    core->room_actions = room;
    return CAIRN_OK;
}

/* The event is valid: its list begins with what was due to be dropped. */
void cairn_step_start_list(cairn_core *core)
{
    cairn_drop_doomed(core);
    if (!cairn_ledger_fits(&core->ledger, cairn_ledger_headroom(&core->ledger) / 4)) {
        (void)cairn_evict_for(core, 0, INFINITY); /* room for the index */
    }
}

/* --- the step ------------------------------------------------------------------------------------------------------ */

static cairn_status dispatch(cairn_core *core, const cairn_event *event, cairn_error *reterr)
{
    switch (event->kind) {
    case CAIRN_EVENT_REQUEST:
        return cairn_on_request(core, event, reterr);
    case CAIRN_EVENT_RESUMED:
        return cairn_on_resumed(core, event, reterr);
    case CAIRN_EVENT_READ:
        return cairn_on_read(core, event, reterr);
    case CAIRN_EVENT_ANSWERED:
        return cairn_on_answered(core, event, reterr);
    case CAIRN_EVENT_FINISH:
        return cairn_on_finish(core, event, reterr);
    case CAIRN_EVENT_STORED:
        return cairn_on_stored(core, event, reterr);
    case CAIRN_EVENT_FAILED:
        return cairn_on_failed(core, event, reterr);
    case CAIRN_EVENT_LOST:
        return cairn_on_lost(core, event, reterr);
    case CAIRN_EVENT_SLOT_LOST:
        return cairn_on_slot_lost(core, event, reterr);
    case CAIRN_EVENT_BUDGET:
        return cairn_on_budget(core, event);
    case CAIRN_EVENT_FORGET:
        return cairn_on_forget(core, event);
    case CAIRN_EVENT_ADOPT:
        return cairn_adopt_all(core, event, reterr);
    }
    return cairn_error_set(reterr, CAIRN_INVALID, "core/step", "no such event");
}

cairn_status cairn_core_step(cairn_core *core, const cairn_event *event, const cairn_action **ret_actions,
                             uint32_t *ret_count, cairn_error *reterr)
{
    *ret_actions = NULL;
    *ret_count = 0;
    core->count_actions = 0;
    cairn_value_pause(&core->pauses, core->now_ns, event->now_ns);
    core->now_ns = event->now_ns > core->now_ns ? event->now_ns : core->now_ns;
    core->returned = NULL;
    cairn_ledger_step(&core->ledger);
    core->deferring = event->kind == CAIRN_EVENT_STORED || event->kind == CAIRN_EVENT_RESUMED;
    cairn_status status = dispatch(core, event, reterr);
    *ret_actions = core->returned != NULL ? core->returned : core->actions;
    *ret_count = core->count_actions;
    digest_actions(core, *ret_actions);
    return status;
}

const cairn_decision *cairn_core_decision(const cairn_core *core, cairn_request_id request)
{
    uint32_t slot;
    const cairn_request *found = cairn_step_request(core, request, &slot);
    return found != NULL ? &found->decision : NULL;
}

uint64_t cairn_core_digest(const cairn_core *core)
{
    return core->digest;
}
