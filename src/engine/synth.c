/*
 * synth - writes the file; what goes into it is decided in the table (synth_arch), the vocabulary (synth_vocab)
 * and the fillers (synth_fill). See the header.
 *
 * The file is streamed tensor by tensor through ggml's own GGUF and quantization functions, and opened by
 * libllama, without its weights, before it gets its name. llama_model_init_from_user with
 * llama_model_save_to_file could make such a file too, but they write every optional tensor, refuse several
 * architectures, behave otherwise in patched builds, and hold the whole model as 32-bit floats.
 */
#include "engine/synth.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/llama_load.h"
#include "engine/synth_arch.h"
#include "engine/synth_vocab.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "gguf.h"
#include "llama.h"

/* In the llama.cpp source's models/: every architecture has this vocabulary, cut to its size. */
#define VOCAB_FILE "ggml-vocab-qwen35.gguf"

enum { PATH_BYTES_MAX = 4096, TEMPLATE_BYTES_MAX = 1 << 20, CHUNK_FLOATS = 1 << 20 };

/* Everything about one file while it is made. */
typedef struct making {
    cairn_mem *mem;
    const cairn_synth_arch *arch;
    const cairn_synth_size *size;
    uint64_t seed;
    cairn_synth_vocab vocab;
    float *row_factors; /* float[vocab.tokens_count] */
    cairn_synth_plan plan;
    struct gguf_context *out; /* metadata and the tensors of the plan, in its order */
    float *floats;            /* float[CHUNK_FLOATS]: rows before and after they get their type */
    uint8_t *bytes;
    cairn_synth_progress progress;
    void *progress_ctx;
} making;

/* ---- what exists --------------------------------------------------------------------------------------- */

size_t cairn_synth_list(cairn_synth_choice *choices, size_t room)
{
    const cairn_synth_arch *arch;
    size_t count = 0;

    for (size_t i = 0; (arch = cairn_synth_arch_at(i)) != NULL; i++) {
        for (size_t s = 0; s < arch->sizes_count; s++, count++) {
            if (count < room)
                choices[count] = (cairn_synth_choice){
                    .arch = arch->name, .size = arch->sizes[s].name, .about = arch->about};
        }
    }
    return count;
}

/* "a, b, c" of all architectures, or of one architecture's sizes; "..." ends a list that does not fit. */
static void names_of(const cairn_synth_arch *of, char *text, size_t room)
{
    static const char more[] = ", ...";
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0;; i++) {
        const cairn_synth_arch *arch = of == NULL ? cairn_synth_arch_at(i) : NULL;
        const char *name = arch != NULL ? arch->name : NULL;
        if (of != NULL && i < of->sizes_count)
            name = of->sizes[i].name;
        if (name == NULL)
            return;
        if (used + strlen(name) + sizeof(more) + 2 > room) {
            snprintf(text + used, room - used, "%s", more);
            return;
        }
        used += (size_t)snprintf(text + used, room - used, "%s%s", i > 0 ? ", " : "", name);
    }
}

static cairn_status choose(making *m, const cairn_synth_options *options, cairn_error *reterr)
{
    char names[CAIRN_ERROR_DETAIL_BYTES - 48]; /* what the sentences below leave */

    if (options->arch == NULL || options->size == NULL)
        return cairn_error_set(reterr, CAIRN_INVALID, "engine/synth: options", "no architecture or no size");
    m->arch = cairn_synth_arch_get(options->arch);
    if (m->arch == NULL) {
        names_of(NULL, names, sizeof(names));
        return cairn_error_set(reterr, CAIRN_INVALID, "engine/synth: architecture",
                               "no '%.20s'; there is: %s", options->arch, names);
    }
    m->size = cairn_synth_size_get(m->arch, options->size);
    if (m->size == NULL) {
        names_of(m->arch, names, sizeof(names));
        return cairn_error_set(reterr, CAIRN_INVALID, "engine/synth: size", "no '%.16s' of %s; there is: %s",
                               options->size, m->arch->name, names);
    }
    return CAIRN_OK;
}

/* ---- metadata ------------------------------------------------------------------------------------------ */

static cairn_status join(char path[PATH_BYTES_MAX], const char *dir, const char *middle, const char *file,
                         cairn_error *reterr)
{
    const int len = snprintf(path, PATH_BYTES_MAX, "%s/%s%s", dir, middle, file);
    if (len < 0 || len >= PATH_BYTES_MAX)
        return cairn_error_set(reterr, CAIRN_INVALID, "engine/synth: path", "too long");
    return CAIRN_OK;
}

static cairn_status read_template(making *m, const char *path, cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    char *text = NULL;
    FILE *file = fopen(path, "rb");

    if (file == NULL)
        return cairn_error_set_os(reterr, errno, "engine/synth: template", "%s", path);
    text = cairn_mem_alloc(m->mem, TEMPLATE_BYTES_MAX + 1);
    if (text == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "engine/synth: template", NULL);
        goto out;
    }
    const size_t len = fread(text, 1, TEMPLATE_BYTES_MAX + 1, file);
    if (ferror(file)) {
        status = cairn_error_set_os(reterr, errno, "engine/synth: template", "%s", path);
        goto out;
    }
    if (len > TEMPLATE_BYTES_MAX || len == 0 || memchr(text, '\0', len) != NULL) {
        status = cairn_error_set(reterr, CAIRN_CORRUPT, "engine/synth: template",
                                 "%s is not a text of 1 to %d bytes", path, TEMPLATE_BYTES_MAX);
        goto out;
    }
    text[len] = '\0';
    gguf_set_val_str(m->out, "tokenizer.chat_template", text);
out:
    cairn_mem_release(m->mem, text, TEMPLATE_BYTES_MAX + 1);
    fclose(file);
    return status;
}

static uint32_t file_type(int weight_type)
{
    switch (weight_type) {
    case GGML_TYPE_F32:
        return LLAMA_FTYPE_ALL_F32;
    case GGML_TYPE_F16:
        return LLAMA_FTYPE_MOSTLY_F16;
    case GGML_TYPE_BF16:
        return LLAMA_FTYPE_MOSTLY_BF16;
    case GGML_TYPE_Q4_0:
        return LLAMA_FTYPE_MOSTLY_Q4_0;
    case GGML_TYPE_Q4_K:
        return LLAMA_FTYPE_MOSTLY_Q4_K_S;
    default:
        return LLAMA_FTYPE_MOSTLY_Q8_0;
    }
}

static cairn_status describe(making *m, const cairn_synth_options *options, cairn_error *reterr)
{
    char path[PATH_BYTES_MAX];
    char name[CAIRN_SYNTH_NAME_BYTES];
    const char *dir =
        options->models_dir != NULL ? options->models_dir : CAIRN_LLAMA_DATA_DIR_DEFAULT "/models";
    const char *vocab_path = options->vocab_path;
    const char *template_path = options->template_path;
    cairn_status status = CAIRN_OK;

    if (vocab_path == NULL) {
        status = join(path, dir, "", VOCAB_FILE, reterr);
        vocab_path = path;
    }
    if (status == CAIRN_OK)
        status = cairn_synth_vocab_init(&m->vocab, m->mem, vocab_path, m->arch, m->size, reterr);
    if (status != CAIRN_OK)
        return status;

    m->row_factors = cairn_mem_array(m->mem, m->vocab.tokens_count, sizeof(float));
    m->out = gguf_init_empty();
    if (m->row_factors == NULL || m->out == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/synth: metadata", NULL);
    cairn_synth_vocab_factors(&m->vocab, m->arch, m->row_factors);

    snprintf(name, sizeof(name), "cairn synthetic %s %s", m->arch->name, m->size->name);
    gguf_set_val_str(m->out, "general.architecture", m->arch->name);
    gguf_set_val_str(m->out, "general.type", "model");
    gguf_set_val_str(m->out, "general.name", name);
    gguf_set_val_str(m->out, "general.description",
                     "Random weights. For tests and benchmarks; it knows nothing.");
    gguf_set_val_u32(m->out, "general.file_type", file_type(m->size->weight_type));
    gguf_set_val_u32(m->out, "general.quantization_version", GGML_QNT_VERSION);
    gguf_set_val_u64(m->out, "cairn.synth.seed", m->seed);
    m->arch->metadata(m->out, m->size);
    cairn_synth_set_u32(m->out, m->arch->name, "vocab_size", m->vocab.tokens_count);
    cairn_synth_vocab_metadata(&m->vocab, m->arch, m->out);

    if (template_path == NULL) {
        status = join(path, dir, "templates/", m->arch->chat->template_file, reterr);
        template_path = path;
    }
    return status == CAIRN_OK ? read_template(m, template_path, reterr) : status;
}

/* ---- tensors ----------------------------------------------------------------------------------------- */

static enum ggml_type type_of(const making *m, const cairn_synth_entry *entry)
{
    const enum ggml_type type = (enum ggml_type)m->size->weight_type;
    if (entry->how.type == CAIRN_SYNTH_F32)
        return GGML_TYPE_F32;
    return entry->dims[0] % ggml_blck_size(type) == 0 ? type : GGML_TYPE_F16;
}

static cairn_status lay_out_tensors(making *m, cairn_error *reterr)
{
    m->plan = (cairn_synth_plan){.size = m->size, .vocab = m->vocab.tokens_count};
    m->plan.entries = cairn_mem_array(m->mem, CAIRN_SYNTH_TENSORS_MAX, sizeof(*m->plan.entries));
    m->floats = cairn_mem_alloc(m->mem, CHUNK_FLOATS * sizeof(float));
    m->bytes = cairn_mem_alloc(m->mem, CHUNK_FLOATS * sizeof(float));
    if (m->plan.entries == NULL || m->floats == NULL || m->bytes == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/synth: tensors", NULL);
    m->arch->ends(&m->plan);
    for (int layer = 0; layer < (int)m->size->layers; layer++)
        m->arch->layer(&m->plan, layer);

    const struct ggml_init_params params = {.mem_size = (m->plan.entries_count + 1) * ggml_tensor_overhead(),
                                            .mem_buffer = NULL,
                                            .no_alloc = true};
    struct ggml_context *shapes = ggml_init(params);
    if (shapes == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/synth: tensors", NULL);
    for (size_t i = 0; i < m->plan.entries_count; i++) {
        const cairn_synth_entry *entry = &m->plan.entries[i];
        int dims_count = 4;
        while (dims_count > 1 && entry->dims[dims_count - 1] == 1)
            dims_count--;
        struct ggml_tensor *tensor = ggml_new_tensor(shapes, type_of(m, entry), dims_count, entry->dims);
        ggml_set_name(tensor, entry->name);
        gguf_add_tensor(m->out, tensor);
    }
    ggml_free(shapes);
    return CAIRN_OK;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static cairn_synth_tensor tensor_at(const making *m, int64_t index)
{
    const cairn_synth_entry *entry = &m->plan.entries[index];

    return (cairn_synth_tensor){
        .key = cairn_synth_key(m->seed, entry->name),
        .row_length = entry->dims[0],
        .rows = entry->dims[1] * entry->dims[2] * entry->dims[3],
        .fill = entry->how.fill,
        .a = entry->how.a,
        .b = entry->how.b,
        .row_factors = m->row_factors,
    };
}

/* Make and append one tensor, with the padding that follows it. */
static cairn_status write_tensor(making *m, FILE *file, int64_t index, uint64_t *done, cairn_error *reterr)
{
    static const uint8_t zeros[64] = {0};
    const cairn_synth_tensor tensor = tensor_at(m, index);
    const enum ggml_type type = gguf_get_tensor_type(m->out, index);
    const size_t row_bytes = ggml_row_size(type, tensor.row_length);
    const int64_t step = CHUNK_FLOATS / tensor.row_length;
    const int64_t last = gguf_get_n_tensors(m->out) - 1;
    const uint64_t total = gguf_get_tensor_offset(m->out, last) + gguf_get_tensor_size(m->out, last);
    const size_t alignment = gguf_get_alignment(m->out);
    const size_t padding = (alignment - gguf_get_tensor_size(m->out, index) % alignment) % alignment;

    CAIRN_ASSERT(step > 0 && row_bytes <= (size_t)tensor.row_length * sizeof(float));
    CAIRN_ASSERT(padding <= sizeof(zeros));
    for (int64_t row = 0; row < tensor.rows; row += step) {
        const int64_t count = tensor.rows - row < step ? tensor.rows - row : step;
        const size_t len = (size_t)count * row_bytes;
        cairn_synth_rows(&tensor, row, count, m->floats);
        ggml_quantize_chunk(type, m->floats, m->bytes, 0, count, tensor.row_length, NULL);
        if (fwrite(m->bytes, 1, len, file) != len)
            return cairn_error_set_os(reterr, errno, "engine/synth: write", NULL);
        *done += len;
        if (m->progress != NULL && !m->progress(*done, total, m->progress_ctx))
            return cairn_error_set(reterr, CAIRN_CANCELLED, "engine/synth: write", NULL);
    }
    *done += padding;
    if (fwrite(zeros, 1, padding, file) != padding)
        return cairn_error_set_os(reterr, errno, "engine/synth: write", NULL);
    return CAIRN_OK;
}

static cairn_status write_head(making *m, FILE *file, cairn_error *reterr)
{
    const size_t len = gguf_get_meta_size(m->out);
    uint8_t *head = cairn_mem_alloc(m->mem, len);
    cairn_status status = CAIRN_OK;

    if (head == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/synth: metadata", NULL);
    gguf_get_meta_data(m->out, head);
    if (fwrite(head, 1, len, file) != len)
        status = cairn_error_set_os(reterr, errno, "engine/synth: write", NULL);
    cairn_mem_release(m->mem, head, len);
    return status;
}

/* Let libllama read everything but the weights: it checks that each tensor it needs is there in its shape. */
static cairn_status check_file(const making *m, const char *path, cairn_error *reterr)
{
    struct llama_model_params params = llama_model_default_params();
    ggml_backend_dev_t no_devices[1] = {NULL};

    const cairn_status loaded = cairn_llama_backends_load(reterr);
    if (loaded != CAIRN_OK)
        return loaded;
    params.devices = no_devices;
    params.n_gpu_layers = 0;
    params.load_mode = LLAMA_LOAD_MODE_NONE; /* no_alloc excludes mapping */
    params.no_alloc = true;
    struct llama_model *model = llama_model_load_from_file(path, params);
    if (model == NULL) {
        char why[CAIRN_ERROR_DETAIL_BYTES];
        cairn_llama_last_error(why, sizeof(why));
        return cairn_error_set(reterr, CAIRN_ENGINE, "engine/synth: check",
                               "this libllama refuses a file of %s: %s", m->arch->name, why);
    }
    llama_model_free(model);
    return CAIRN_OK;
}

/* Beside the target first, then renamed onto it, so that a half-written model is never seen under its name. */
static cairn_status write_file(making *m, const char *path, cairn_error *reterr)
{
    char part[PATH_BYTES_MAX];
    uint64_t done = 0;
    const int len = snprintf(part, sizeof(part), "%s.part", path);

    if (len < 0 || len >= PATH_BYTES_MAX)
        return cairn_error_set(reterr, CAIRN_INVALID, "engine/synth: path", "too long");
    FILE *file = fopen(part, "wb");
    if (file == NULL)
        return cairn_error_set_os(reterr, errno, "engine/synth: write", "%s", path);
    cairn_status status = write_head(m, file, reterr);
    for (int64_t i = 0; i < gguf_get_n_tensors(m->out) && status == CAIRN_OK; i++)
        status = write_tensor(m, file, i, &done, reterr);
    if (status == CAIRN_OK && (fflush(file) != 0 || fsync(fileno(file)) != 0))
        status = cairn_error_set_os(reterr, errno, "engine/synth: write", "%s", path);
    if (fclose(file) != 0 && status == CAIRN_OK)
        status = cairn_error_set_os(reterr, errno, "engine/synth: write", "%s", path);
    if (status == CAIRN_OK)
        status = check_file(m, part, reterr);
    if (status == CAIRN_OK && rename(part, path) != 0)
        status = cairn_error_set_os(reterr, errno, "engine/synth: write", "%s", path);
    if (status != CAIRN_OK)
        remove(part);
    return status;
}

cairn_status cairn_synth_write(const cairn_synth_options *options, const char *path,
                               cairn_synth_progress progress, void *progress_ctx, cairn_error *reterr)
{
    making m = {
        .mem = options->mem != NULL ? options->mem : cairn_mem_default(),
        .seed = options->seed,
        .progress = progress,
        .progress_ctx = progress_ctx,
    };
    cairn_status status = choose(&m, options, reterr);
    if (status != CAIRN_OK)
        return status;
    m.vocab.mem = m.mem;
    status = describe(&m, options, reterr);
    if (status == CAIRN_OK)
        status = lay_out_tensors(&m, reterr);
    if (status == CAIRN_OK)
        status = write_file(&m, path, reterr);

    cairn_mem_array_release(m.mem, m.row_factors, m.vocab.tokens_count, sizeof(float));
    cairn_mem_array_release(m.mem, m.plan.entries, CAIRN_SYNTH_TENSORS_MAX, sizeof(*m.plan.entries));
    cairn_mem_release(m.mem, m.floats, CHUNK_FLOATS * sizeof(float));
    cairn_mem_release(m.mem, m.bytes, CHUNK_FLOATS * sizeof(float));
    gguf_free(m.out);
    cairn_synth_vocab_release(&m.vocab);
    return status;
}
