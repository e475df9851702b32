/* The pool of computing threads. See llama_threads.h. */
#include "engine/llama_threads.h"

#include <string.h>

#include "engine/llama_inside.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

typedef struct ggml_threadpool *(*pool_new_fn)(struct ggml_threadpool_params *params);
typedef void (*pool_free_fn)(struct ggml_threadpool *pool);

/* How long an idle thread spins before it sleeps, 0 to 100. Little: others want the cores between two tokens. */
enum { SPIN = 1 };

/* A function of the CPU back end. ISO C has no cast from an object pointer to a function: the bytes are copied. */
static void cpu_function(const char *name, void *ret_function, size_t size)
{
    memset(ret_function, 0, size);
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!cpu)
        return;
    void *found = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), name);
    memcpy(ret_function, &found, size);
}

static void *make_pool(pool_new_fn pool_new, uint32_t threads)
{
    struct ggml_threadpool_params params;
    memset(&params, 0, sizeof params);
    params.n_threads = (int)threads;
    params.prio = GGML_SCHED_PRIO_NORMAL;
    params.poll = SPIN;
    return pool_new(&params);
}

void cairn_llama_threads_make(llama_engine *e)
{
    pool_new_fn pool_new;
    cpu_function("ggml_threadpool_new", &pool_new, sizeof pool_new);
    if (!pool_new || (e->options.threads < 2 && e->options.threads_batch < 2))
        return;
    e->threads_pool = make_pool(pool_new, e->options.threads);
    if (e->options.threads_batch != e->options.threads)
        e->threads_pool_batch = make_pool(pool_new, e->options.threads_batch);
}

void cairn_llama_threads_attach(llama_engine *e, struct llama_context *context)
{
    if (e->threads_pool)
        llama_attach_threadpool(context, e->threads_pool,
                                e->threads_pool_batch ? e->threads_pool_batch : e->threads_pool);
}

void cairn_llama_threads_release(llama_engine *e)
{
    pool_free_fn pool_free;
    cpu_function("ggml_threadpool_free", &pool_free, sizeof pool_free);
    if (pool_free && e->threads_pool)
        pool_free(e->threads_pool);
    if (pool_free && e->threads_pool_batch)
        pool_free(e->threads_pool_batch);
    e->threads_pool = e->threads_pool_batch = NULL;
}
