/*
 * policy_cairn - cairn's own core, driven as a conductor drives it: events in, actions carried out on a minimal model
 * of slots and blobs. Nothing of the rule is here.
 *
 * The model knows of each slot which path it holds, to what length, and whether its state is set; of each blob, which
 * path it was made from. So every action is checked against the core's promises (a state only of a prefix of the
 * prompt, rows in order, both or neither, the cap at every instant); a broken one stops the replay.
 */
#include <string.h>

#include "base/hash.h"
#include "core/core.h"
#include "policy.h"

enum { ANSWER_STEP_TOKENS = 1, SLOT_ROOM = 64 };

typedef struct model_slot {
    uint32_t node;   /* the rows are those of the path to this node */
    uint32_t length; /* rows held                                   */
    bool state_set;
} model_slot;

typedef struct model_blob {
    cairn_blob_id id; /* 0: free */
    uint32_t node, begin, end;
    bool rows, used;
} model_blob;

typedef struct cairn_policy_self {
    cairn_policy_setup setup;
    cairn_resume_mode mode;
    cairn_core *core;
    cairn_core_options options;
    model_slot *slots;
    model_blob *blobs; /* open hash table by id: model_blob[room_blobs], a power of two */
    uint32_t count_blobs, room_blobs;
    cairn_token *tokens; /* cairn_token[w->tokens_longest] */
    cairn_action *list;  /* a copy of the list that is being carried out */
    uint32_t room_list;
    cairn_request_id next_request;
} cairn_policy_self;

/* One request while it is carried out. */
typedef struct cairn_run_state {
    cairn_policy_self *p;
    const cairn_policy_view *view;
    cairn_policy_outcome out;
    cairn_prompt prompt;
    cairn_request_id id;
    uint32_t slot;
    double restore_ns;
    bool resumed, ready, reading_done;
    uint32_t first_read;
    cairn_error *reterr;
} run_state;

static const char *const where = "sim/policy_cairn";

static void cairn_free(void *self)
{
    cairn_policy_self *p = self;
    if (p == NULL) {
        return;
    }
    const cairn_mem *mem = p->setup.mem;
    cairn_core_free(p->core);
    cairn_mem_array_release(mem, p->slots, p->setup.slots, sizeof *p->slots);
    cairn_mem_array_release(mem, p->blobs, p->room_blobs, sizeof *p->blobs);
    cairn_mem_array_release(mem, p->tokens, p->setup.w->tokens_longest, sizeof *p->tokens);
    cairn_mem_array_release(mem, p->list, p->room_list, sizeof *p->list);
    cairn_mem_release(mem, p, sizeof *p);
}

static cairn_core_options core_options(const cairn_policy_setup *setup)
{
    const cairn_profile *profile = setup->profile;
    return (cairn_core_options){
        .ram_bytes_max = setup->budget_bytes,
        .slots = setup->slots,
        .slot_tokens_max = setup->w->tokens_longest + SLOT_ROOM,
        .batch_tokens_max = profile->batch_tokens,
        .trim = profile->state_bytes > 0 ? CAIRN_TRIM_NEVER : CAIRN_TRIM_ANYWHERE,
        .rows_move = true,
        .state_bytes_max = profile->state_bytes,
        .row_bytes = profile->row_bytes,
        .read_ns_token = profile->read_ns_token,
        .read_ns_token2 = profile->read_ns_token2,
        .call_ns = profile->call_ns,
        .take_ns = cairn_profile_take_ns(profile),
        .restore_ns = cairn_profile_take_ns(profile),
        .move_ns_byte = profile->move_ns_byte,
    };
}

static cairn_status cairn_new(const cairn_policy_setup *setup, cairn_resume_mode mode, void **ret_self,
                              cairn_error *reterr)
{
    cairn_policy_self *p = cairn_mem_zalloc(setup->mem, sizeof *p);
    if (p == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    p->setup = *setup;
    p->mode = mode;
    p->next_request = 1;
    p->room_blobs = 1024;
    p->slots = cairn_mem_array(setup->mem, setup->slots, sizeof *p->slots);
    p->blobs = cairn_mem_array(setup->mem, p->room_blobs, sizeof *p->blobs);
    p->tokens = cairn_mem_array(setup->mem, setup->w->tokens_longest, sizeof *p->tokens);
    cairn_status status = CAIRN_OK;
    if (p->slots == NULL || p->blobs == NULL || p->tokens == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    p->options = core_options(setup);
    if (status == CAIRN_OK) {
        /* The core keeps a plain pointer; the table behind it is const in use. */
        status = cairn_core_new((cairn_mem *)(uintptr_t)setup->mem, &p->options, &p->core, reterr);
    }
    if (status != CAIRN_OK) {
        cairn_free(p);
        return status;
    }
    *ret_self = p;
    return CAIRN_OK;
}

/* --- blobs -------------------------------------------------------------------------------------------------------- */

static model_blob *blob_find(const cairn_policy_self *p, cairn_blob_id id)
{
    uint32_t mask = p->room_blobs - 1;
    uint32_t at = (uint32_t)cairn_hash_mix(id) & mask;
    while (p->blobs[at].id != 0 && p->blobs[at].id != id) {
        at = (at + 1) & mask;
    }
    return &p->blobs[at];
}

static cairn_status blob_put(cairn_policy_self *p, const model_blob *blob)
{
    if ((p->count_blobs + 1) * 2 > p->room_blobs) {
        model_blob *old = p->blobs;
        uint32_t old_room = p->room_blobs;
        model_blob *bigger = cairn_mem_array(p->setup.mem, (size_t)old_room * 2, sizeof *bigger);
        if (bigger == NULL) {
            return CAIRN_NOMEM;
        }
        p->blobs = bigger;
        p->room_blobs = old_room * 2;
        for (uint32_t i = 0; i < old_room; i++) {
            if (old[i].id != 0) {
                *blob_find(p, old[i].id) = old[i];
            }
        }
        cairn_mem_array_release(p->setup.mem, old, old_room, sizeof *old);
    }
    *blob_find(p, blob->id) = *blob;
    p->count_blobs++;
    return CAIRN_OK;
}

static void blob_remove(cairn_policy_self *p, model_blob *blob)
{
    uint32_t mask = p->room_blobs - 1;
    uint32_t hole = (uint32_t)(blob - p->blobs);
    p->blobs[hole].id = 0;
    p->count_blobs--;
    for (uint32_t at = (hole + 1) & mask; p->blobs[at].id != 0; at = (at + 1) & mask) {
        model_blob moved = p->blobs[at];
        p->blobs[at].id = 0;
        *blob_find(p, moved.id) = moved;
    }
}

/* --- actions ------------------------------------------------------------------------------------------------------- */

static cairn_status broken(run_state *run, const cairn_action *action, const char *promise)
{
    return cairn_error_set(run->reterr, CAIRN_INTERNAL, where, "request %u, action %d at %u: %s",
                           run->view->index, (int)action->kind, action->begin, promise);
}

/* Is [0, length) of the path to `node` a prefix of this request's path? */
static bool on_path(const run_state *run, uint32_t node, uint32_t length)
{
    return length == 0 ||
           cairn_workload_common(run->p->setup.w, node, run->view->request->node_answer) >= length;
}

static cairn_status tell(run_state *run, cairn_event *event, const cairn_action **ret_list,
                         uint32_t *ret_count)
{
    event->request = run->id;
    event->now_ns = run->view->now_ns;
    cairn_status status = cairn_core_step(run->p->core, event, ret_list, ret_count, run->reterr);
    cairn_core_stats stats;
    cairn_core_stats_get(run->p->core, &stats);
    if (status == CAIRN_OK && stats.ram_bytes_peak > run->p->setup.budget_bytes) {
        return cairn_error_set(run->reterr, CAIRN_INTERNAL, where,
                               "request %u: %llu bytes held, the cap is %llu", run->view->index,
                               (unsigned long long)stats.ram_bytes_peak,
                               (unsigned long long)run->p->setup.budget_bytes);
    }
    return status;
}

static cairn_status stored(run_state *run, const cairn_action *action, uint32_t index)
{
    cairn_policy_self *p = run->p;
    const cairn_profile *profile = p->setup.profile;
    model_slot *slot = &p->slots[action->slot];
    bool rows = action->kind == CAIRN_ACTION_SAVE_ROWS;
    uint32_t end = rows ? action->end : action->begin;
    if (end > slot->length || (!rows && (end != slot->length || !slot->state_set))) {
        return broken(run, action, "saves what the slot does not hold");
    }
    uint64_t bytes = rows ? (action->end - action->begin) * profile->row_bytes : profile->state_bytes;
    model_blob blob = {
        .id = action->blob, .node = slot->node, .begin = action->begin, .end = end, .rows = rows};
    if (blob_put(p, &blob) != CAIRN_OK) {
        return cairn_error_set(run->reterr, CAIRN_NOMEM, where, NULL);
    }
    if (rows) {
        run->out.saved_bytes += run->ready ? 0 : bytes;
    } else {
        run->out.snapshots++;
        run->out.snapshots_late += run->ready ? 1 : 0;
    }
    double cost = rows ? (double)bytes * profile->move_ns_byte : cairn_profile_take_ns(profile);
    cairn_event event = {.kind = CAIRN_EVENT_STORED,
                         .action = index,
                         .blob = action->blob,
                         .bytes = bytes,
                         .cost_ns = (uint64_t)cost};
    const cairn_action *none = NULL;
    uint32_t count = 0;
    return tell(run, &event, &none, &count);
}

static cairn_status restore(run_state *run, const cairn_action *action)
{
    cairn_policy_self *p = run->p;
    model_slot *slot = &p->slots[action->slot];
    model_blob *blob = blob_find(p, action->blob);
    bool rows = action->kind == CAIRN_ACTION_LOAD_ROWS;
    uint32_t end = rows ? action->use_end : action->begin;
    if (blob->id != action->blob || blob->rows != rows) {
        return broken(run, action, "names a blob that is not there");
    }
    if (!on_path(run, blob->node, end) || !on_path(run, slot->node, slot->length)) {
        return broken(run, action, "restores what belongs to another path");
    }
    if (rows) {
        if (slot->length != action->use_begin || blob->begin > action->use_begin ||
            blob->end < action->use_end) {
            return broken(run, action, "rows do not join");
        }
        slot->length = action->use_end;
        slot->node = run->view->request->node_answer;
        slot->state_set = p->setup.profile->state_bytes == 0;
        run->out.restored_bytes += (action->use_end - action->use_begin) * p->setup.profile->row_bytes;
        return CAIRN_OK;
    }
    if (slot->length != action->begin || blob->end != action->begin || action->begin >= run->prompt.count) {
        return broken(run, action, "a state of another length");
    }
    slot->state_set = true;
    run->out.first_uses += blob->used ? 0 : 1;
    blob->used = true;
    run->out.restored_bytes += p->setup.profile->state_bytes;
    run->restore_ns += p->setup.profile->take_ns;
    return CAIRN_OK;
}

static cairn_status shorten(run_state *run, const cairn_action *action)
{
    model_slot *slot = &run->p->slots[action->slot];
    uint32_t length = action->kind == CAIRN_ACTION_RESET ? 0 : action->begin;
    if (length > slot->length) {
        return broken(run, action, "trims to more than there is");
    }
    if (length < slot->length || length == 0) {
        slot->state_set = length == 0 || run->p->setup.profile->state_bytes == 0;
    }
    slot->length = length;
    return CAIRN_OK;
}

/* Carry out one READ and tell of it; the answer is the next list. */
static cairn_status read_tokens(run_state *run, const cairn_action *action, const cairn_action **ret_list,
                                uint32_t *ret_count)
{
    cairn_policy_self *p = run->p;
    const cairn_profile *profile = p->setup.profile;
    model_slot *slot = &p->slots[action->slot];
    if (slot->length != action->begin || !slot->state_set || !on_path(run, slot->node, slot->length)) {
        return broken(run, action, "reads behind what the slot holds");
    }
    if (action->end <= action->begin || action->end > run->prompt.count ||
        action->end - action->begin > profile->batch_tokens) {
        return broken(run, action, "reads too much or nothing");
    }
    if (!run->resumed) {
        run->resumed = true;
        run->first_read = action->begin;
        double moved = (double)run->out.restored_bytes * profile->move_ns_byte;
        cairn_event event = {.kind = CAIRN_EVENT_RESUMED, .cost_ns = (uint64_t)(run->restore_ns + moved)};
        cairn_status status = tell(run, &event, ret_list, ret_count);
        if (status != CAIRN_OK) {
            return status;
        }
    }
    slot->node = run->view->request->node_answer;
    slot->length = action->end;
    run->out.batches++;
    cairn_event event = {.kind = CAIRN_EVENT_READ,
                         .position = action->end,
                         .cost_ns = (uint64_t)cairn_profile_read_ns(profile, action->begin, action->end, 1)};
    return tell(run, &event, ret_list, ret_count);
}

static cairn_status carry_out_one(run_state *run, const cairn_action *action, uint32_t index,
                                  const cairn_action **ret_list, uint32_t *ret_count)
{
    switch (action->kind) {
    case CAIRN_ACTION_DROP: {
        model_blob *blob = blob_find(run->p, action->blob);
        if (blob->id != action->blob) {
            return broken(run, action, "drops a blob that is not there");
        }
        blob_remove(run->p, blob);
        return CAIRN_OK;
    }
    case CAIRN_ACTION_TAKE:
    case CAIRN_ACTION_SAVE_ROWS:
        return stored(run, action, index);
    case CAIRN_ACTION_RESET:
    case CAIRN_ACTION_TRIM:
        return shorten(run, action);
    case CAIRN_ACTION_LOAD_ROWS:
    case CAIRN_ACTION_RESTORE:
        return restore(run, action);
    case CAIRN_ACTION_READ:
        return read_tokens(run, action, ret_list, ret_count);
    case CAIRN_ACTION_READY:
        run->ready = true;
        return CAIRN_OK;
    default:
        return broken(run, action, "is of no known kind");
    }
}

/* Carry out a list, and the lists that follow from its READs, until nothing is left. */
static cairn_status carry_out(run_state *run, const cairn_action *list, uint32_t count)
{
    cairn_policy_self *p = run->p;
    while (count > 0) {
        if (count > p->room_list) {
            void *bigger =
                cairn_mem_array_resize(p->setup.mem, p->list, p->room_list, count, sizeof *p->list);
            if (bigger == NULL) {
                return cairn_error_set(run->reterr, CAIRN_NOMEM, where, NULL);
            }
            p->list = bigger;
            p->room_list = count;
        }
        /* Telling of what was stored ends the loan of the core's list. */
        memcpy(p->list, list, count * sizeof *list);
        const cairn_action *next = NULL;
        uint32_t count_next = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (p->list[i].kind == CAIRN_ACTION_READ && i + 1 != count) {
                return broken(run, &p->list[i], "reads before the end of a list");
            }
            cairn_status status = carry_out_one(run, &p->list[i], i, &next, &count_next);
            if (status != CAIRN_OK) {
                return status;
            }
        }
        list = next;
        count = count_next;
    }
    return CAIRN_OK;
}

/* --- one request ------------------------------------------------------------------------------------------------- */

static cairn_status ask(run_state *run)
{
    const cairn_workload_request *request = run->view->request;
    cairn_event event = {.kind = CAIRN_EVENT_REQUEST, .prompt = &run->prompt, .slot = CAIRN_SLOT_ANY};
    const cairn_action *list = NULL;
    uint32_t count = 0;
    cairn_status status = tell(run, &event, &list, &count);
    if (status == CAIRN_OK) {
        status = carry_out(run, list, count);
    }
    if (status == CAIRN_OK && !run->ready) {
        status = cairn_error_set(run->reterr, CAIRN_INTERNAL, where, "request %u never became ready",
                                 run->view->index);
    }
    const cairn_decision *decision = status == CAIRN_OK ? cairn_core_decision(run->p->core, run->id) : NULL;
    if (status == CAIRN_OK && (decision == NULL || decision->resume != run->first_read)) {
        status =
            cairn_error_set(run->reterr, CAIRN_INTERNAL, where, "request %u: %u tokens reported, %u reused",
                            run->view->index, decision != NULL ? decision->resume : 0, run->first_read);
    }
    if (status != CAIRN_OK) {
        return status;
    }
    run->slot = decision->slot;
    run->out.reused = run->first_read;
    run->out.reason = decision->reason;
    run->out.reason_position = decision->reason_position;
    for (uint32_t done = 0; status == CAIRN_OK && done < request->answer_tokens;) {
        uint32_t left = request->answer_tokens - done;
        uint32_t n = left < ANSWER_STEP_TOKENS ? left : ANSWER_STEP_TOKENS;
        const cairn_profile *profile = run->p->setup.profile;
        model_slot *slot = &run->p->slots[run->slot];
        slot->length += n;
        cairn_event answered = {.kind = CAIRN_EVENT_ANSWERED,
                                .tokens = run->prompt.tokens + request->prompt_tokens + done,
                                .count = n,
                                .cost_ns = (uint64_t)(n * (profile->call_ns + profile->read_ns_token))};
        status = tell(run, &answered, &list, &count);
        if (status == CAIRN_OK) {
            status = carry_out(run, list, count);
        }
        done += n;
    }
    if (status == CAIRN_OK) {
        cairn_event finish = {.kind = CAIRN_EVENT_FINISH, .ending = CAIRN_END_DONE};
        status = tell(run, &finish, &list, &count);
    }
    return status == CAIRN_OK ? carry_out(run, list, count) : status;
}

static cairn_status cairn_policy_ask(void *self, const cairn_policy_view *view,
                                     cairn_policy_outcome *ret_outcome, cairn_error *reterr)
{
    cairn_policy_self *p = self;
    const cairn_workload_request *request = view->request;
    run_state run = {.p = p, .view = view, .id = p->next_request++, .reterr = reterr};
    cairn_workload_tokens(p->setup.w, view->index, p->tokens);
    run.prompt = (cairn_prompt){.tokens = p->tokens,
                                .count = request->prompt_tokens,
                                .boundaries = view->boundaries,
                                .count_boundaries = request->count_boundaries,
                                .mode = p->mode,
                                .no_store = request->no_store};
    for (uint32_t i = 0; i < CAIRN_NAMESPACE_BYTES; i++) {
        run.prompt.space.bytes[i] = (uint8_t)(cairn_hash_mix(request->space + 1) >> (i % 8 * 8));
    }
    cairn_status status = ask(&run);
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_core_stats stats;
    cairn_core_stats_get(p->core, &stats);
    run.out.held_bytes = stats.ram_bytes;
    run.out.held_peak = stats.ram_bytes_peak;
    run.out.digest = cairn_core_digest(p->core);
    *ret_outcome = run.out;
    return CAIRN_OK;
}

static cairn_status cairn_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return cairn_new(setup, CAIRN_RESUME_FAST, ret_self, reterr);
}

static cairn_status cairn_exact_make(const cairn_policy_setup *setup, void **ret_self, cairn_error *reterr)
{
    return cairn_new(setup, CAIRN_RESUME_EXACT, ret_self, reterr);
}

const cairn_policy cairn_policy_cairn = {
    .name = "cairn",
    .about = "cairn's core, --resume fast",
    .make = cairn_make,
    .request = cairn_policy_ask,
    .free = cairn_free,
};

const cairn_policy cairn_policy_cairn_exact = {
    .name = "cairn-exact",
    .about = "cairn's core, --resume exact",
    .make = cairn_exact_make,
    .request = cairn_policy_ask,
    .free = cairn_free,
};
