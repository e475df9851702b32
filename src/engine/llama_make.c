/*
 * Making and freeing a llama engine: options, contexts, and what has to be measured on a few tokens, because libllama
 * does not tell it: how states are split, and how large states and rows are.
 */
#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "engine/llama_fingerprint.h"
#include "engine/llama_inside.h"
#include "engine/llama_plan.h"
#include "engine/llama_share.h"
#include "engine/llama_threads.h"
#include "ggml-backend.h"
#include "ggml.h"

enum { TOKENS_DEFAULT = 32768, BATCH_DEFAULT = 512, LOGITS_BYTES_DEFAULT = 64 << 20, PROBE_TOKENS = 4 };

static const enum ggml_type kv_types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,    GGML_TYPE_BF16,
                                          GGML_TYPE_Q8_0, GGML_TYPE_Q5_1,   GGML_TYPE_Q5_0,
                                          GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q4_0};

void cairn_llama_defaults(cairn_llama_options *ret_options)
{
    *ret_options = (cairn_llama_options){
        .model = {.gpu_layers = -1, .mmap = true},
        .slots = 1,
        .flash = CAIRN_LLAMA_FLASH_AUTO,
    };
}

const char *cairn_llama_kv_types(void)
{
    return "f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, iq4_nl, q4_0";
}

static cairn_status kv_type(const char *name, enum ggml_type *ret_type, cairn_error *reterr)
{
    for (size_t i = 0; i < sizeof kv_types / sizeof *kv_types; i++) {
        if (strcmp(name, ggml_type_name(kv_types[i])) == 0) {
            *ret_type = kv_types[i];
            return CAIRN_OK;
        }
    }
    return cairn_error_set(reterr, CAIRN_INVALID, "engine/new", "unknown K/V type \"%s\"; there are %s", name,
                           cairn_llama_kv_types());
}

/* --- options ------------------------------------------------------------------------------------------- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void resolve_sizes(llama_engine *e)
{
    cairn_llama_options *o = &e->options;
    int32_t trained = llama_model_n_ctx_train(e->model);
    if (o->slot_tokens_max == 0)
        o->slot_tokens_max = trained > 0 ? smaller((uint32_t)trained, TOKENS_DEFAULT) : TOKENS_DEFAULT;
    if (o->batch_tokens_max == 0)
        o->batch_tokens_max = BATCH_DEFAULT;
    o->batch_tokens_max = smaller(o->batch_tokens_max, o->slot_tokens_max);
    if (o->ubatch_tokens_max == 0)
        o->ubatch_tokens_max = o->batch_tokens_max;
    o->ubatch_tokens_max = smaller(o->ubatch_tokens_max, o->batch_tokens_max);
    if (o->logits_rows_max == 0)
        o->logits_rows_max = (uint32_t)(LOGITS_BYTES_DEFAULT / sizeof(float)) / e->head.info.vocab_size;
    o->logits_rows_max = smaller(o->logits_rows_max, o->batch_tokens_max);
    if (o->logits_rows_max < LLAMA_SEQS)
        o->logits_rows_max = LLAMA_SEQS; /* libllama reserves one for each sequence */
    if (o->threads == 0)
        o->threads = cairn_machine_processors();
    if (o->threads_batch == 0)
        o->threads_batch = o->threads;
    o->threads = smaller(o->threads, GGML_MAX_N_THREADS);
    o->threads_batch = smaller(o->threads_batch, GGML_MAX_N_THREADS);
}

static cairn_status resolve_options(llama_engine *e, cairn_error *reterr)
{
    const char *where = "engine/new";
    cairn_llama_options *o = &e->options;
    if (!llama_model_has_decoder(e->model) || llama_model_has_encoder(e->model) ||
        llama_model_is_diffusion(e->model))
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, where, "%s is not a model that continues text",
                               o->model.path);
    e->slots_room = o->slots;
    if (o->slots > 1024)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "%u slots; 1 to 1024 are possible", o->slots);
    if (o->slot_tokens_max > INT32_MAX / 2)
        return cairn_error_set(reterr, CAIRN_INVALID, where, "a context of %u tokens", o->slot_tokens_max);
    int32_t words = llama_vocab_n_tokens(llama_model_get_vocab(e->model));
    if (words < 2)
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, where, "%s has no vocabulary", o->model.path);
    e->head.info.vocab_size = (uint32_t)words;
    o->type_k = o->type_k ? o->type_k : "f16";
    o->type_v = o->type_v ? o->type_v : "f16";
    resolve_sizes(e);
    int32_t window = llama_model_n_swa(e->model);
    e->window_tokens = window > 0 ? (uint32_t)window : 0;
    return CAIRN_OK;
}

/* --- contexts ------------------------------------------------------------------------------------------ */

static bool on_abort(void *data)
{
    llama_engine *e = data;
    return atomic_load_explicit(&e->interrupted, memory_order_relaxed);
}

static cairn_status context_params(llama_engine *e, cairn_error *reterr)
{
    const cairn_llama_options *o = &e->options;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = o->slot_tokens_max;
    params.n_batch = o->batch_tokens_max;
    params.n_ubatch = o->ubatch_tokens_max;
    params.n_seq_max = LLAMA_SEQS;
    params.n_outputs_max = o->logits_rows_max;
    params.n_threads = (int32_t)o->threads;
    params.n_threads_batch = (int32_t)o->threads_batch;
    params.flash_attn_type = (enum llama_flash_attn_type)o->flash;
    params.abort_callback = on_abort;
    params.abort_callback_data = e;
    params.no_perf = true;
    params.swa_full = o->swa_full;
    params.kv_unified = true;
    cairn_status status = kv_type(o->type_k, &params.type_k, reterr);
    if (status == CAIRN_OK)
        status = kv_type(o->type_v, &params.type_v, reterr);
    e->params = params;
    return status;
}

cairn_status cairn_llama_make_context(llama_engine *e, llama_slot *slot, uint32_t index, cairn_error *reterr)
{
    const char *where = "engine/new: context";
    char message[128];
    cairn_llama_last_error(message, sizeof message);
    slot->live = LLAMA_SEQ_LIVE;
    slot->context = llama_init_from_model(e->model, e->params);
    if (!slot->context) {
        cairn_llama_last_error(message, sizeof message);
        bool room = strstr(message, "alloc") != NULL || strstr(message, "memory") != NULL;
        return cairn_error_set(reterr, room ? CAIRN_NOMEM : CAIRN_INVALID, where,
                               "slot %u of %u with %u tokens: %s", index + 1, e->options.slots,
                               e->options.slot_tokens_max, message[0] ? message : "libllama gave no reason");
    }
    slot->memory = llama_get_memory(slot->context);
    if (!slot->memory)
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, where, "this model keeps no sequence");
    cairn_llama_threads_attach(e, slot->context);
    cairn_llama_slot_reset(e, slot);
    return CAIRN_OK;
}

static void release_batch(llama_engine *e)
{
    uint32_t room = e->batch_room;
    cairn_mem_array_release(e->mem, e->tokens, room, sizeof *e->tokens);
    cairn_mem_array_release(e->mem, e->positions, room, sizeof *e->positions);
    cairn_mem_array_release(e->mem, e->seq_counts, room, sizeof *e->seq_counts);
    cairn_mem_array_release(e->mem, e->seq_ids, room, sizeof *e->seq_ids);
    cairn_mem_array_release(e->mem, e->wanted, room, sizeof *e->wanted);
}

cairn_status cairn_llama_make_batch(llama_engine *e, uint32_t count, cairn_error *reterr)
{
    release_batch(e);
    e->batch_room = count;
    e->tokens = cairn_mem_array(e->mem, count, sizeof *e->tokens);
    e->positions = cairn_mem_array(e->mem, count, sizeof *e->positions);
    e->seq_counts = cairn_mem_array(e->mem, count, sizeof *e->seq_counts);
    e->seq_ids = cairn_mem_array(e->mem, count, sizeof *e->seq_ids);
    e->wanted = cairn_mem_array(e->mem, count, sizeof *e->wanted);
    if (!e->tokens || !e->positions || !e->seq_counts || !e->seq_ids || !e->wanted)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/new", NULL);
    for (uint32_t i = 0; i < count; i++)
        e->seq_counts[i] = 1;
    return CAIRN_OK;
}

static cairn_status make_arrays(llama_engine *e, cairn_error *reterr)
{
    e->slots = cairn_mem_array(e->mem, e->slots_room, sizeof *e->slots);
    e->answers = cairn_mem_array(e->mem, e->slots_room, sizeof *e->answers);
    if (!e->slots || !e->answers)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/new", NULL);
    return cairn_llama_make_batch(e, e->options.batch_tokens_max, reterr);
}

static void release_arrays(llama_engine *e)
{
    cairn_mem_array_release(e->mem, e->slots, e->slots_room, sizeof *e->slots);
    cairn_mem_array_release(e->mem, e->answers, e->slots_room, sizeof *e->answers);
    release_batch(e);
    cairn_mem_release(e->mem, e->hollow_state, (size_t)e->hollow_bytes);
    cairn_mem_release(e->mem, e->sound_state, (size_t)e->sound_bytes);
    cairn_mem_release(e->mem, e->settle_buffer, (size_t)e->settle_bytes);
}

void cairn_llama_unmake(llama_engine *e)
{
    if (!e)
        return;
    for (uint32_t i = 0; e->slots && i < e->slots_room; i++)
        if (e->slots[i].context && e->slots[i].context != e->shared)
            llama_free(e->slots[i].context);
    if (e->shared) {
        llama_free(e->shared);
        llama_free(e->carrier.context);
    }
    cairn_llama_threads_release(e);
    cairn_llama_model_free(e->model);
    release_arrays(e);
    cairn_mem_release(e->mem, e, sizeof *e);
}

/* --- measuring ----------------------------------------------------------------------------------------- */

static size_t live_size(const llama_slot *slot, llama_state_seq_flags flags)
{
    return llama_state_seq_get_size_ext(slot->context, LLAMA_SEQ_LIVE, flags);
}

/* The partial state of a sequence without tokens: what sets "no recurrent cell" or "no window rows". */
static cairn_status take_hollow(llama_engine *e, cairn_error *reterr)
{
    llama_slot *slot = &e->slots[0];
    e->hollow_bytes = live_size(slot, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    e->hollow_state = cairn_mem_alloc(e->mem, (size_t)e->hollow_bytes);
    if (!e->hollow_state) {
        e->hollow_bytes = 0;
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/new", NULL);
    }
    if (llama_state_seq_get_data_ext(slot->context, e->hollow_state, (size_t)e->hollow_bytes, LLAMA_SEQ_LIVE,
                                     LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) != e->hollow_bytes)
        return cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/new: empty state");
    return CAIRN_OK;
}

static llama_split choose_split(const llama_engine *e, const llama_slot *slot)
{
    bool hybrid = llama_model_is_hybrid(e->model), recurrent = llama_model_is_recurrent(e->model);
    bool parts = live_size(slot, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) < live_size(slot, 0);
    bool windows = e->window_tokens > 0 && parts;
    if (!hybrid && !recurrent && !windows)
        return LLAMA_SPLIT_ROWS_ONLY;
    if (e->options.whole_states)
        return LLAMA_SPLIT_WHOLE;
    if (hybrid)
        return parts ? LLAMA_SPLIT_CELL : LLAMA_SPLIT_WHOLE;
    return recurrent ? LLAMA_SPLIT_CELL_ONLY : LLAMA_SPLIT_WINDOW;
}

static cairn_status probe_decode(llama_engine *e, uint32_t begin, uint32_t count, cairn_error *reterr)
{
    cairn_token tokens[PROBE_TOKENS] = {0, 1, 0, 1};
    cairn_piece piece = {0, begin, tokens, count, CAIRN_LOGITS_LAST, true};
    return cairn_llama_engine_ops.decode(&e->head, &piece, 1, reterr);
}

static void measure_states(llama_engine *e, const uint64_t partial[2], const uint64_t full[2])
{
    cairn_engine_info *info = &e->head.info;
    uint64_t length = info->slot_tokens_max, window = e->window_tokens < length ? e->window_tokens : length;
    switch (e->split) {
    case LLAMA_SPLIT_ROWS_ONLY:
        break;
    case LLAMA_SPLIT_CELL:
    case LLAMA_SPLIT_CELL_ONLY:
        info->state_bytes_max = e->cell_bytes = partial[1];
        break;
    case LLAMA_SPLIT_WINDOW:
        info->state_bytes_max = partial[1] + (partial[1] - partial[0]) * (window + 1);
        break;
    case LLAMA_SPLIT_WHOLE:
        info->state_bytes_max = full[1] + (full[1] - full[0]) * length;
        break;
    }
    info->trim = e->split == LLAMA_SPLIT_ROWS_ONLY ? CAIRN_TRIM_ANYWHERE
                 : e->split == LLAMA_SPLIT_WINDOW  ? CAIRN_TRIM_WINDOW
                                                   : CAIRN_TRIM_NEVER;
}

/* Keep the state of the few tokens in slot 0, for resets. */
static cairn_status take_sound(llama_engine *e, cairn_error *reterr)
{
    llama_slot *slot = &e->slots[0];
    if (e->split == LLAMA_SPLIT_ROWS_ONLY || e->split == LLAMA_SPLIT_WINDOW)
        return CAIRN_OK;
    llama_state_seq_flags flags = e->split == LLAMA_SPLIT_WHOLE ? 0 : LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;
    cairn_mem_release(e->mem, e->sound_state, (size_t)e->sound_bytes);
    e->sound_bytes = live_size(slot, flags);
    e->sound_state = cairn_mem_alloc(e->mem, (size_t)e->sound_bytes);
    if (!e->sound_state)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/new", NULL);
    if (llama_state_seq_get_data_ext(slot->context, e->sound_state, (size_t)e->sound_bytes, LLAMA_SEQ_LIVE,
                                     flags) != e->sound_bytes)
        return cairn_llama_refused(reterr, CAIRN_ENGINE, "engine/new: state");
    return CAIRN_OK;
}

/* Room for one window on its way out and back in (see settle in engine_llama.c). */
static cairn_status make_settle(llama_engine *e, cairn_error *reterr)
{
    cairn_mem_release(e->mem, e->settle_buffer, (size_t)e->settle_bytes);
    e->settle_buffer = NULL;
    e->settle_bytes = 0;
    if (e->split != LLAMA_SPLIT_WINDOW || e->options.swa_full ||
        e->window_tokens >= e->head.info.slot_tokens_max)
        return CAIRN_OK;
    e->settle_buffer = cairn_mem_alloc(e->mem, (size_t)e->head.info.state_bytes_max);
    if (!e->settle_buffer)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/new", "a window of %llu bytes",
                               (unsigned long long)e->head.info.state_bytes_max);
    e->settle_bytes = e->head.info.state_bytes_max;
    return CAIRN_OK;
}

/* Decode a few tokens in slot 0, look at sizes, and leave the slot empty. */
static cairn_status measure(llama_engine *e, cairn_error *reterr)
{
    llama_slot *slot = &e->slots[0];
    uint64_t partial[2], full[2];
    uint32_t lengths[2] = {3, PROBE_TOKENS};
    cairn_status status = e->hollow_state ? CAIRN_OK : take_hollow(e, reterr);
    for (uint32_t i = 0; i < 2 && status == CAIRN_OK; i++) {
        status = probe_decode(e, slot->length, lengths[i] - slot->length, reterr);
        partial[i] = live_size(slot, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
        full[i] = live_size(slot, 0);
    }
    if (status != CAIRN_OK)
        return status;
    e->split = choose_split(e, slot);
    measure_states(e, partial, full);
    status = take_sound(e, reterr);
    if (status == CAIRN_OK)
        status = make_settle(e, reterr);
    if (status != CAIRN_OK)
        return status;
    status = cairn_llama_rows_measure(e, reterr);
    e->head.info.rows_move = status == CAIRN_OK;
    e->head.info.row_bytes = e->rows.row_bytes;
    cairn_llama_slot_reset(e, slot);
    e->tokens_decoded = 0;
    return status == CAIRN_UNSUPPORTED ? CAIRN_OK : status;
}

cairn_status cairn_llama_use_whole_states(llama_engine *e, cairn_error *reterr)
{
    CAIRN_ASSERT(!e->shared);
    for (uint32_t i = 0; i < e->options.slots; i++)
        cairn_llama_slot_reset(e, &e->slots[i]);
    e->options.whole_states = true;
    e->cell_bytes = 0;
    e->split = LLAMA_SPLIT_ROWS_ONLY; /* no cell is taken off while this is measured */
    cairn_status status = measure(e, reterr);
    return status == CAIRN_OK ? cairn_llama_fingerprint(e, reterr) : status;
}

/* --- all together -------------------------------------------------------------------------------------- */

static void describe_build(llama_engine *e)
{
    size_t used = (size_t)snprintf(e->build_text, sizeof e->build_text, "%s", cairn_llama_build());
    for (size_t i = 0; i < ggml_backend_dev_count() && used < sizeof e->build_text; i++)
        used += (size_t)snprintf(e->build_text + used, sizeof e->build_text - used, "%s%s",
                                 i == 0 ? ", " : "+", ggml_backend_dev_name(ggml_backend_dev_get(i)));
    e->head.info.build = e->build_text;
}

/* Before minutes are spent on loading: with a model that has no weights. */
static cairn_status plan(llama_engine *e, cairn_error *reterr)
{
    cairn_llama_model_options model = e->options.model;
    model.sizes_only = true;
    model.mmap = model.mlock = false;
    model.progress = NULL;
    cairn_status status = cairn_llama_model_load(&model, &e->model, reterr);
    if (status == CAIRN_OK)
        status = resolve_options(e, reterr);
    if (status == CAIRN_OK)
        status = context_params(e, reterr);
    if (status == CAIRN_OK)
        status = cairn_llama_plan_slots(e, reterr);
    cairn_llama_model_free(e->model);
    e->model = NULL;
    return status;
}

static cairn_status make(llama_engine *e, cairn_error *reterr)
{
    cairn_status status = e->options.memory_bytes_max > 0 ? plan(e, reterr) : CAIRN_OK;
    if (e->options.slots == 0)
        e->options.slots = 1;
    if (status == CAIRN_OK)
        status = cairn_llama_model_load(&e->options.model, &e->model, reterr);
    if (status == CAIRN_OK)
        status = resolve_options(e, reterr);
    if (status == CAIRN_OK)
        status = context_params(e, reterr);
    if (status == CAIRN_OK)
        status = make_arrays(e, reterr);
    if (status != CAIRN_OK)
        return status;
    cairn_engine_info *info = &e->head.info;
    info->name = "llama";
    info->slots = e->options.slots;
    info->slot_tokens_max = e->options.slot_tokens_max;
    info->batch_tokens_max = e->options.batch_tokens_max;
    describe_build(e);
    cairn_llama_threads_make(e);
    status = cairn_llama_make_context(e, &e->slots[0], 0, reterr);
    if (status == CAIRN_OK)
        status = measure(e, reterr);
    if (status == CAIRN_OK && cairn_llama_share_wanted(e, e->options.slots))
        status = cairn_llama_share_make(e, reterr);
    for (uint32_t i = 1; !e->shared && i < e->options.slots && status == CAIRN_OK; i++)
        status = cairn_llama_make_context(e, &e->slots[i], i, reterr);
    if (status == CAIRN_OK)
        status = cairn_llama_fingerprint(e, reterr);
    return status;
}

cairn_status cairn_llama_new(const cairn_llama_options *options, cairn_mem *mem, cairn_engine **ret_engine,
                             cairn_error *reterr)
{
    llama_engine *e = cairn_mem_zalloc(mem, sizeof *e);
    if (!e)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/new", NULL);
    e->mem = mem;
    e->options = *options;
    e->head.ops = &cairn_llama_engine_ops;
    atomic_init(&e->interrupted, false);
    cairn_status status = make(e, reterr);
    if (status != CAIRN_OK) {
        cairn_llama_unmake(e);
        return status;
    }
    *ret_engine = &e->head;
    return CAIRN_OK;
}

struct llama_model *cairn_llama_model_get(cairn_engine *engine)
{
    return llama_engine_of(engine)->model;
}

void cairn_llama_memory_get(cairn_engine *engine, cairn_llama_memory *ret_memory)
{
    const llama_engine *e = llama_engine_of(engine);
    cairn_llama_plan_memory(e, ret_memory);
}

void cairn_llama_counts_get(const cairn_engine *engine, uint64_t *ret_decoded, uint64_t *ret_discarded)
{
    const llama_engine *e = (const llama_engine *)(const void *)engine;
    *ret_decoded = e->tokens_decoded;
    *ret_discarded = e->tokens_discarded;
}
