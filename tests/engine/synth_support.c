#include "engine/synth_support.h"

#include <dirent.h>
#include <unistd.h>

#include "ggml-backend.h"
#include "llama.h"
#include "test_support.h"

static char folder[512];
static bool show_errors = true;

static void log_line(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == GGML_LOG_LEVEL_ERROR && show_errors)
        fputs(text, stderr);
}

void synth_test_quiet(bool errors)
{
    show_errors = errors;
    llama_log_set(log_line, NULL);
}

const char *synth_test_folder(void)
{
    if (folder[0] == '\0') {
        snprintf(folder, sizeof(folder), "%s/synth-test-XXXXXX", CAIRN_BUILD_DIR);
        assert_non_null(mkdtemp(folder));
    }
    return folder;
}

void synth_test_folder_remove(void)
{
    char path[1024];
    struct dirent *entry;
    DIR *dir = folder[0] != '\0' ? opendir(folder) : NULL;

    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            remove(path);
    }
    closedir(dir);
    rmdir(folder);
    folder[0] = '\0';
}

const char *synth_test_path(const char *name)
{
    static char paths[4][1024];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, 1024, "%s/%s", synth_test_folder(), name);
    return path;
}

const char *synth_test_make(const char *arch, const char *size, uint64_t seed, const char *name)
{
    const cairn_synth_options options = {.arch = arch, .size = size, .seed = seed};
    const char *path = synth_test_path(name);
    cairn_error error = {0};

    if (cairn_synth_write(&options, path, NULL, NULL, &error) != CAIRN_OK)
        fail_msg("%s %s: %s: %s", arch, size, error.where, error.detail);
    return path;
}

struct llama_model *synth_test_load(const char *path)
{
    struct llama_model_params params = llama_model_default_params();
    ggml_backend_dev_t no_devices[1] = {NULL};

    params.n_gpu_layers = 0;
    params.devices = no_devices;
    struct llama_model *model = llama_model_load_from_file(path, params);
    assert_non_null(model);
    return model;
}

struct llama_context *synth_test_context(struct llama_model *model, uint32_t tokens, uint32_t batch)
{
    struct llama_context_params params = llama_context_default_params();

    params.n_ctx = tokens;
    params.n_batch = batch;
    params.n_ubatch = batch;
    params.n_seq_max = 1;
    params.n_threads = 1; /* spinning threads starve each other on a busy machine */
    params.n_threads_batch = 1;
    struct llama_context *context = llama_init_from_model(model, params);
    assert_non_null(context);
    return context;
}

uint8_t *synth_test_read(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long len = ftell(file);
    assert_true(len > 0);
    rewind(file);
    uint8_t *bytes = malloc((size_t)len);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)len, file), (size_t)len);
    fclose(file);
    *ret_len = (size_t)len;
    return bytes;
}
