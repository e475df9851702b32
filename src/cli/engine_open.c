/*
 * engine_open - see the header.
 */
#include "cli/engine_open.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/machine.h"
#include "base/units.h"
#include "cli/notify.h"
#include "cli/term.h"
#include "engine/llama_check.h"

enum { LOAD_STEP_US = 120 * 1000 * 1000 }; /* what a hundredth of a model may take */

bool cairn_engine_stop_asked(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* On the terminal, and to a service manager, which waits that much longer. */
static bool show_progress(void *ctx, float part)
{
    int *told = ctx, percent = (int)(part * 100.0f);
    cairn_term_progress("loading the model: %3d %%", percent);
    if (percent != *told) {
        char state[96];
        (void)snprintf(state, sizeof state, "STATUS=loading the model: %d %%\nEXTEND_TIMEOUT_USEC=%d",
                       percent, LOAD_STEP_US);
        (void)cairn_notify(state);
        *told = percent;
    }
    return !cairn_engine_stop_asked();
}

static void forward_log(void *ctx, cairn_llama_level level, const char *text)
{
    static const cairn_log_level levels[] = {CAIRN_LOG_LEVEL_DEBUG, CAIRN_LOG_LEVEL_DEBUG,
                                             CAIRN_LOG_LEVEL_WARN, CAIRN_LOG_LEVEL_WARN};
    char line[512];
    (void)snprintf(line, sizeof line, "%s", text);
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '\0' || strcmp(line, ".") == 0)
        return;
    const cairn_field fields[] = {CAIRN_FIELD_STR("message", line)};
    cairn_log_event(ctx, levels[level], "libllama", fields, 1);
}

/* Will it fit? An estimate from the file's size, before minutes are spent on loading. */
static cairn_status estimate(const cairn_llama_options *options, uint64_t cache_bytes, cairn_error *reterr)
{
    cairn_io_stat stat;
    cairn_status status = cairn_io_stat_path(cairn_io_posix(), options->model.path, &stat, reterr);
    if (status != CAIRN_OK)
        return status;
    if (stat.kind == CAIRN_IO_KIND_FOLDER)
        return cairn_error_set(reterr, CAIRN_INVALID, "model", "%s is a folder", options->model.path);
    uint64_t memory = cairn_machine_memory_bytes();
    if (memory == 0 || stat.size_bytes + cache_bytes <= memory)
        return CAIRN_OK;
    char file[CAIRN_UNITS_TEXT], cache[CAIRN_UNITS_TEXT], all[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes(stat.size_bytes, file);
    cairn_units_print_bytes(cache_bytes, cache);
    cairn_units_print_bytes(memory, all);
    return cairn_error_set(reterr, CAIRN_NOMEM, "model",
                           "the weights need %s and the cache may take %s, but the "
                           "machine has %s",
                           file, cache, all);
}

static const char *advice_for(cairn_status status)
{
    switch (status) {
    case CAIRN_NOTFOUND:
        return "Check the path given with -m. `cairn model synth` makes a small model to try.";
    case CAIRN_CORRUPT:
        return "A GGUF file is needed, whole; download or convert the model again.";
    case CAIRN_UNSUPPORTED:
        return "This build's libllama doesn't know the model's architecture; `cairn --version` names the "
               "build.";
    case CAIRN_NOMEM:
        return "Use a smaller context (-c), fewer slots (--slots), a smaller cache (--cache-ram), or a "
               "smaller model.";
    default:
        return NULL;
    }
}

/* The engine proves that what is put back gives right answers; else the cache must not be used. */
static int prove(cairn_engine_open *open, cairn_log *log)
{
    cairn_error error = {0};
    cairn_check check;
    cairn_term_progress("checking that states can be put back");
    cairn_status status = cairn_llama_check(open->engine, cairn_mem_default(), &check, &error);
    cairn_term_progress("%s", "");
    if (status != CAIRN_OK) {
        cairn_term_fail("the engine does not work", &error, NULL);
        cairn_engine_close(open);
        return 1;
    }
    open->proved = check.usable;
    open->exact = check.exact;
    (void)snprintf(open->refused, sizeof open->refused, "%s", check.reason);
    CAIRN_LOG(log, DEBUG, "check", CAIRN_FIELD_BOOL("usable", check.usable),
              CAIRN_FIELD_BOOL("exact", check.exact), CAIRN_FIELD_BOOL("rows_move", check.rows_move),
              CAIRN_FIELD_STR("reason", check.reason));
    return 0;
}

int cairn_engine_open_file(const cairn_llama_options *options, uint64_t cache_bytes, cairn_log *log,
                           cairn_engine_open *ret_open)
{
    memset(ret_open, 0, sizeof *ret_open);
    cairn_error error = {0};
    cairn_llama_log_set(forward_log, log);
    cairn_llama_options with_progress = *options;
    int told = -1;
    with_progress.model.progress = show_progress;
    with_progress.model.progress_ctx = &told;
    cairn_status status = estimate(options, cache_bytes, &error);
    if (status == CAIRN_OK)
        status = cairn_llama_new(&with_progress, cairn_mem_default(), &ret_open->engine, &error);
    cairn_term_progress("%s", "");
    if (status != CAIRN_OK) {
        cairn_llama_log_set(NULL, NULL);
        if (status == CAIRN_CANCELLED)
            return 1;
        cairn_term_fail("the model can't be used", &error, advice_for(status));
        return status == CAIRN_INVALID && strcmp(error.where, "model") != 0 ? 2 : 1;
    }
    cairn_llama_vocab_init(&ret_open->vocab, cairn_llama_model_get(ret_open->engine));
    return prove(ret_open, log);
}

void cairn_engine_close(cairn_engine_open *open)
{
    if (open->engine != NULL)
        open->engine->ops->free(open->engine);
    open->engine = NULL;
    cairn_llama_log_set(NULL, NULL);
}

const char *cairn_engine_sharing(const cairn_engine *engine)
{
    if (engine->info.slots == 1)
        return "one";
    return engine->info.batch_alone ? "in one context: tokens of fast answers are computed at once, prompts "
                                      "and exact answers alone"
                                    : "each with a context of its own, computed one after the other";
}

void cairn_engine_name(const char *path, char *name, size_t room)
{
    const char *slash = strrchr(path, '/');
    (void)snprintf(name, room, "%s", slash != NULL ? slash + 1 : path);
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0)
        name[n - 5] = '\0';
}
