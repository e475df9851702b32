/*
 * "llama_model_init_from_user + llama_model_save_to_file write a GGUF of any architecture": which of them, and how.
 *
 * For each architecture of `cairn model synth`: a model is made of a file's metadata, its tensors are filled from outside,
 * it is saved, loaded again, and must then give the bits that the first file gives. Each in a process of its own, as the
 * saver ends the process for what it doesn't know. Two limits were measured, and are asked for, so that an upgrade that
 * lifts one says so:
 *   - the saver ends the process for a list of architectures (of ours gemma3 and cohere2), and for arwkv7
 *   - it reads weights in the file's layout only: models are loaded without repacking (on CPUs with AMX it would end)
 *
 * Relies llama.h@v0.4.0
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/contract_support.h"
#include "engine/llama_load.h"
#include "engine/synth.h"
#include "ggml-backend.h"
#include "gguf.h"
#include "test_support.h"

enum { CHOICES = 128, TOKENS = 24, EXIT_SAME = 0, EXIT_OTHER = 3 };

typedef struct source {
    FILE *file;
    struct gguf_context *gguf;
} source;

static void fill(struct ggml_tensor *tensor, void *ctx)
{
    source *from = ctx;
    size_t size = ggml_nbytes(tensor);
    uint8_t *bytes = calloc(1, size);
    int64_t at = gguf_find_tensor(from->gguf, ggml_get_name(tensor));
    if (at >= 0 && gguf_get_tensor_size(from->gguf, at) == size) {
        long offset = (long)(gguf_get_data_offset(from->gguf) + gguf_get_tensor_offset(from->gguf, at));
        if (fseek(from->file, offset, SEEK_SET) != 0 || fread(bytes, 1, size, from->file) != size)
            _exit(EXIT_OTHER);
    }
    ggml_backend_tensor_set(tensor, bytes, 0, size);
    free(bytes);
}

static struct llama_model_params plain_params(void)
{
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.use_extra_bufts = false;
    return params;
}

static float *answer_of(struct llama_model *model)
{
    llama_token tokens[TOKENS];
    contract_tokens(model, 1, tokens, TOKENS);
    struct llama_context *context = contract_context(model, 1, true);
    float *kept = contract_keep(context, contract_read(context, 0, tokens, 0, TOKENS));
    llama_free(context);
    return kept;
}

/* In a child: make, save, load, compare. */
static void save_and_compare(const char *path, const char *saved)
{
    source from = {.file = fopen(path, "rb"),
                   .gguf = gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true})};
    if (from.file == NULL || from.gguf == NULL)
        _exit(EXIT_OTHER);
    struct llama_model *made = llama_model_init_from_user(from.gguf, fill, &from, plain_params());
    if (made == NULL)
        _exit(EXIT_OTHER);
    llama_model_save_to_file(made, saved);
    struct llama_model *first = llama_model_load_from_file(path, plain_params()),
                       *again = llama_model_load_from_file(saved, plain_params());
    if (first == NULL || again == NULL)
        _exit(EXIT_OTHER);
    int32_t words = llama_vocab_n_tokens(llama_model_get_vocab(first));
    float *a = answer_of(first), *b = answer_of(again);
    bool same = memcmp(a, b, (size_t)words * sizeof *a) == 0;
    _exit(same ? EXIT_SAME : EXIT_OTHER);
}

static bool refuses(const char *arch)
{
    return strcmp(arch, "gemma3") == 0 || strcmp(arch, "cohere2") == 0 || strcmp(arch, "arwkv7") == 0;
}

static void each_architecture_is_saved_and_loaded_or_refused_as_known(void **state)
{
    (void)state;
    cairn_synth_choice choices[CHOICES];
    size_t count = cairn_synth_list(choices, CHOICES);
    assert_true(count > 0 && count <= CHOICES);
    for (size_t i = 0; i < count; i++) {
        char saved[1024];
        if (strcmp(choices[i].size, "tiny") != 0)
            continue;
        const char *path = contract_model_path(choices[i].arch, "tiny");
        snprintf(saved, sizeof saved, "%s/models/saved-%s.gguf", CAIRN_BUILD_DIR, choices[i].arch);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            int nowhere = open("/dev/null", O_WRONLY);
            if (nowhere < 0 || dup2(nowhere, 2) < 0 || setenv("GGML_NO_BACKTRACE", "1", 1) != 0 ||
                cairn_llama_backends_load(NULL) != CAIRN_OK)
                _exit(EXIT_OTHER);
            cairn_llama_log_set(NULL, NULL);
            save_and_compare(path, saved);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        bool same = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SAME;
        bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        printf("%s: %s\n", choices[i].arch,
               same    ? "saved and loaded, same bits"
               : ended ? "refused"
                       : "OTHER");
        if (refuses(choices[i].arch) ? !ended : !same)
            fail_msg("%s: status %#x", choices[i].arch, (unsigned)status);
        remove(saved);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_architecture_is_saved_and_loaded_or_refused_as_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
