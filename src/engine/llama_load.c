/*
 * Loading libllama's back ends and model files. What libllama only logs is caught here and becomes an error's detail.
 */
#include "engine/llama_load.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"
#include "ggml-backend.h"
#include "llama.h"

enum { PATH_BYTES = 4096, MESSAGE_BYTES = 256 };

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static cairn_llama_log_fn log_sink;
static void *log_ctx;
static char last_error[MESSAGE_BYTES];
static enum ggml_log_level last_level;
static bool log_hooked, log_muted;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static bool backends_loaded;

static cairn_llama_level level_of(enum ggml_log_level level)
{
    switch (level) {
    case GGML_LOG_LEVEL_ERROR:
        return CAIRN_LLAMA_ERROR;
    case GGML_LOG_LEVEL_WARN:
        return CAIRN_LLAMA_WARN;
    case GGML_LOG_LEVEL_INFO:
        return CAIRN_LLAMA_INFO;
    default:
        return CAIRN_LLAMA_DEBUG;
    }
}

/* The first error says what went wrong, later ones only that it did: keep the first. */
static void keep_error(const char *text)
{
    if (last_error[0] != '\0')
        return;
    snprintf(last_error, sizeof last_error, "%s", text);
    for (size_t i = strlen(last_error); i > 0 && (last_error[i - 1] == '\n' || last_error[i - 1] == ' '); i--)
        last_error[i - 1] = '\0';
}

static void on_log(enum ggml_log_level level, const char *text, void *unused)
{
    (void)unused;
    pthread_mutex_lock(&log_lock);
    if (level == GGML_LOG_LEVEL_CONT)
        level = last_level;
    else
        last_level = level;
    if (level == GGML_LOG_LEVEL_ERROR)
        keep_error(text);
    if (log_sink && !log_muted)
        log_sink(log_ctx, level_of(level), text);
    pthread_mutex_unlock(&log_lock);
}

static void hook_log(void)
{
    if (log_hooked)
        return;
    log_hooked = true;
    llama_log_set(on_log, NULL);
}

void cairn_llama_log_set(cairn_llama_log_fn log, void *ctx)
{
    pthread_mutex_lock(&log_lock);
    log_sink = log;
    log_ctx = ctx;
    pthread_mutex_unlock(&log_lock);
    pthread_mutex_lock(&load_lock);
    hook_log();
    pthread_mutex_unlock(&load_lock);
}

static void mute_log(bool muted)
{
    pthread_mutex_lock(&log_lock);
    log_muted = muted;
    pthread_mutex_unlock(&log_lock);
}

void cairn_llama_last_error(char *text, unsigned room_bytes)
{
    pthread_mutex_lock(&log_lock);
    static const char loading[] = "error loading model: ";
    /* "llama_model_load: error loading model: ..." : the function's name helps nobody */
    const char *from = last_error, *colon = strstr(last_error, ": ");
    if (colon && memchr(last_error, ' ', (size_t)(colon - last_error)) == NULL)
        from = colon + 2;
    if (strncmp(from, loading, sizeof loading - 1) == 0)
        from += sizeof loading - 1;
    snprintf(text, room_bytes, "%s", from);
    last_error[0] = '\0';
    pthread_mutex_unlock(&log_lock);
}

const char *cairn_llama_build(void)
{
    return "libllama " CAIRN_LLAMA_BUILD " (" CAIRN_LLAMA_ORIGIN ")";
}

/* --- back ends --------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool try_backends(const char *dir)
{
    if (!dir || dir[0] == '\0' || !is_folder(dir))
        return false;
    ggml_backend_load_all_from_path(dir);
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) != NULL;
}

cairn_status cairn_llama_backends_load(cairn_error *reterr)
{
    char installed[PATH_BYTES];
    cairn_status status = CAIRN_OK;
    pthread_mutex_lock(&load_lock);
    if (!backends_loaded) {
        hook_log();
        llama_backend_init();
        if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) != NULL ||
            try_backends(getenv("CAIRN_LLAMA_LIB_DIR")) ||
            (cairn_machine_beside("../lib/cairn", installed, sizeof installed) && try_backends(installed)) ||
            try_backends(CAIRN_LLAMA_LIB_DIR_DEFAULT))
            backends_loaded = true;
        else
            status =
                cairn_error_set(reterr, CAIRN_NOTFOUND, "engine/backends",
                                "no usable ggml back end in %s; set CAIRN_LLAMA_LIB_DIR to the folder of "
                                "libggml-cpu-*.so",
                                CAIRN_LLAMA_LIB_DIR_DEFAULT);
    }
    pthread_mutex_unlock(&load_lock);
    return status;
}

/* --- model files --------------------------------------------------------------------------------------- */

/* What can be said about the file before libllama sees it. */
static cairn_status look_at_file(const char *path, cairn_error *reterr)
{
    const char *where = "engine/model";
    struct stat st;
    unsigned char magic[4] = {0};
    if (stat(path, &st) != 0)
        return cairn_error_set_os(reterr, errno, where, "can't open the model file %s", path);
    if (S_ISDIR(st.st_mode))
        return cairn_error_set(reterr, CAIRN_INVALID, where, "%s is a folder, not a model file", path);
    FILE *file = fopen(path, "rb");
    if (!file)
        return cairn_error_set_os(reterr, errno, where, "can't open the model file %s", path);
    size_t n = fread(magic, 1, sizeof magic, file);
    fclose(file);
    if (n != sizeof magic || memcmp(magic, "GGUF", 4) != 0)
        return cairn_error_set(reterr, CAIRN_CORRUPT, where,
                               "%s is not a GGUF model file (it does not begin with \"GGUF\")", path);
    return CAIRN_OK;
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Turn libllama's message into a status. Relies llama.cpp@v0.4.0 llama-model-loader.cpp, llama-model.cpp. */
static cairn_status explain(const char *path, cairn_error *reterr)
{
    const char *where = "engine/model";
    char message[MESSAGE_BYTES];
    cairn_llama_last_error(message, sizeof message);
    if (has(message, "unknown model architecture") || has(message, "unsupported model architecture"))
        return cairn_error_set(reterr, CAIRN_UNSUPPORTED, where, "%s: %s (of %s)", path, message,
                               cairn_llama_build());
    if (has(message, "alloc") || has(message, "out of memory") || has(message, "bad_alloc"))
        return cairn_error_set(reterr, CAIRN_NOMEM, where, "no room for the weights of %s: %s", path,
                               message);
    static const char *const damage[] = {"failed to read", "exceeds", "corrupt", "incomplete", "gguf", "GGUF",
                                         "tensor",         "key",     "invalid", "vocab",      "token"};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++)
        if (has(message, damage[i]))
            return cairn_error_set(reterr, CAIRN_CORRUPT, where, "%s is damaged or cut short: %s", path,
                                   message);
    return cairn_error_set(reterr, CAIRN_ENGINE, where, "%s: %s", path,
                           message[0] ? message : "libllama gave no reason");
}

typedef struct progress_call {
    cairn_llama_progress_fn fn;
    void *ctx;
    bool stopped;
} progress_call;

static bool on_progress(float part, void *data)
{
    progress_call *call = data;
    if (call->fn && !call->fn(call->ctx, part))
        call->stopped = true;
    return !call->stopped;
}

cairn_status cairn_llama_model_load(const cairn_llama_model_options *options, struct llama_model **ret_model,
                                    cairn_error *reterr)
{
    char old[MESSAGE_BYTES];
    cairn_status status = look_at_file(options->path, reterr);
    if (status == CAIRN_OK)
        status = cairn_llama_backends_load(reterr);
    if (status != CAIRN_OK)
        return status;
    progress_call call = {options->progress, options->progress_ctx, false};
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = options->gpu_layers;
    params.vocab_only = options->vocab_only;
    params.no_alloc = options->sizes_only;
    params.use_extra_bufts = !options->no_repack;
    if (options->mmap)
        params.load_mode = options->mlock ? LLAMA_LOAD_MODE_MMAP_MLOCK : LLAMA_LOAD_MODE_MMAP;
    else
        params.load_mode = options->mlock ? LLAMA_LOAD_MODE_MLOCK : LLAMA_LOAD_MODE_NONE;
    params.progress_callback = on_progress;
    params.progress_callback_user_data = &call;
    cairn_llama_last_error(old, sizeof old); /* forget what was logged before */
    mute_log(options->sizes_only);           /* all of it is said again when the model is loaded */
    struct llama_model *model = llama_model_load_from_file(options->path, params);
    mute_log(false);
    if (!model && call.stopped)
        return cairn_error_set(reterr, CAIRN_CANCELLED, "engine/model", "loading %s was stopped",
                               options->path);
    if (!model)
        return explain(options->path, reterr);
    *ret_model = model;
    return CAIRN_OK;
}

void cairn_llama_model_free(struct llama_model *model)
{
    if (model)
        llama_model_free(model);
}
