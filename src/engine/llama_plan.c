/* Memory: see llama_plan.h. */
#include "engine/llama_plan.h"

#include "engine/llama_inside.h"
#include "engine/llama_share.h"
#include "engine/llama_sizes.h"

enum { SLOTS_AUTO_MAX = 8 };

static cairn_status sizes_of(llama_engine *e, struct llama_context_params params, llama_sizes *ret_sizes,
                             cairn_error *reterr)
{
    struct llama_context *context = llama_init_from_model(e->model, params);
    if (!context)
        return cairn_llama_refused(reterr, CAIRN_INVALID, "engine/new: plan");
    cairn_llama_sizes_get(context, ret_sizes);
    llama_free(context);
    return CAIRN_OK;
}

/* Rows on their way to or from the carrier are held once more. */
static cairn_status need_of(llama_engine *e, uint32_t slots, const llama_sizes *one, llama_sizes *ret_need,
                            cairn_error *reterr)
{
    *ret_need = *one;
    if (!cairn_llama_share_wanted(e, slots)) {
        ret_need->context_bytes *= slots;
        ret_need->compute_bytes *= slots;
        return CAIRN_OK;
    }
    struct llama_context_params params;
    llama_sizes all;
    cairn_llama_share_params(e, slots, &params);
    cairn_status status = sizes_of(e, params, &all, reterr);
    ret_need->context_bytes += all.context_bytes;
    ret_need->compute_bytes += all.compute_bytes + one->context_bytes;
    return status;
}

static uint64_t sum(const llama_sizes *sizes)
{
    return sizes->weight_bytes + sizes->context_bytes + sizes->compute_bytes;
}

cairn_status cairn_llama_plan_slots(llama_engine *e, cairn_error *reterr)
{
    uint64_t room = e->options.memory_bytes_max;
    uint32_t asked = e->options.slots, slots = asked > 0 ? asked : room > 0 ? SLOTS_AUTO_MAX : 1;
    llama_sizes one, need;
    cairn_status status = sizes_of(e, e->params, &one, reterr);
    for (; status == CAIRN_OK; slots--) {
        status = need_of(e, slots, &one, &need, reterr);
        if (status != CAIRN_OK || room == 0 || sum(&need) <= room)
            break;
        if (asked > 0 || slots == 1)
            return cairn_error_set(
                reterr, CAIRN_NOMEM, "engine/new",
                "%u slot%s of %u tokens need%s %llu MiB (weights %llu, K/V and states %llu, computing %llu); "
                "there is room for %llu MiB",
                slots, slots == 1 ? "" : "s", e->options.slot_tokens_max, slots == 1 ? "s" : "",
                (unsigned long long)(sum(&need) >> 20), (unsigned long long)(need.weight_bytes >> 20),
                (unsigned long long)(need.context_bytes >> 20),
                (unsigned long long)(need.compute_bytes >> 20), (unsigned long long)(room >> 20));
    }
    e->options.slots = slots;
    return status;
}

void cairn_llama_plan_memory(const llama_engine *e, cairn_llama_memory *ret_memory)
{
    llama_sizes all = {0}, one;
    uint64_t rows = e->rows.row_bytes * e->options.slot_tokens_max * e->options.slots;
    if (e->shared) {
        cairn_llama_sizes_get(e->shared, &all);
        cairn_llama_sizes_get(e->carrier.context, &one);
        rows += e->rows.row_bytes * e->options.slot_tokens_max;
        all.context_bytes += one.context_bytes;
        all.compute_bytes += one.compute_bytes + one.context_bytes;
    }
    for (uint32_t i = 0; !e->shared && i < e->options.slots; i++) {
        cairn_llama_sizes_get(e->slots[i].context, &one);
        all.weight_bytes = one.weight_bytes;
        all.context_bytes += one.context_bytes;
        all.compute_bytes += one.compute_bytes;
    }
    rows = rows < all.context_bytes ? rows : all.context_bytes;
    *ret_memory = (cairn_llama_memory){.weight_bytes = all.weight_bytes,
                                       .slot_bytes = all.context_bytes,
                                       .row_bytes = rows,
                                       .cell_bytes = all.context_bytes - rows,
                                       .buffer_bytes = all.compute_bytes};
}
