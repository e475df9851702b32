/*
 * llama_plan - how much memory an engine takes: before its weights are loaded, and as it is.
 *
 * libllama can make a model and contexts that allocate nothing and tell their sizes. So what does not fit is refused in
 * the time that it takes to read the file's head and vocabulary.
 *
 * Units    bytes of main memory; what GPUs hold is not counted
 * Thread   as engine_llama.h
 */
#ifndef CAIRN_ENGINE_LLAMA_PLAN_H
#define CAIRN_ENGINE_LLAMA_PLAN_H

#include "engine/engine_llama.h"

struct llama_engine;

/*
 * Decide on options.slots (0: as many as there is room for) within options.memory_bytes_max. e->model is a model
 * without weights, e->params are a slot's.
 * Errors  CAIRN_NOMEM too much, with both numbers and what it is made of; else as for making a context
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_plan_slots(struct llama_engine *e, cairn_error *reterr);

/* What the engine holds. */
void cairn_llama_plan_memory(const struct llama_engine *e, cairn_llama_memory *ret_memory);

#endif
