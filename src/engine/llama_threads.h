/*
 * llama_threads - one pool of computing threads for all slots of an engine.
 *
 * Without it libllama starts and ends its threads at every decode. The pool comes from the CPU back end, found by name
 * at run time, because that library is chosen by the CPU; where it has none, decodes work all the same.
 *
 * Thread   as engine_llama.h: slots take turns, so they can share
 */
#ifndef CAIRN_ENGINE_LLAMA_THREADS_H
#define CAIRN_ENGINE_LLAMA_THREADS_H

struct llama_engine;
struct llama_context;

/* Make the pools of threads, and let contexts use them. When they can't be made, contexts use their own. */
void cairn_llama_threads_make(struct llama_engine *e);
void cairn_llama_threads_attach(struct llama_engine *e, struct llama_context *context);
/* After all contexts were freed. */
void cairn_llama_threads_release(struct llama_engine *e);

#endif
