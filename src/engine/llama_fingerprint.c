/* The fingerprint: see its header for what goes in, and why not more. */
#include "engine/llama_fingerprint.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "engine/llama_inside.h"
#include "ggml-backend.h"
#include "gguf.h"

enum { FINGERPRINT_VERSION = 1, SAMPLES = 8, SAMPLE_BYTES = 1 << 20, PARTS_MAX = 1024, PATH_ROOM = 4096 };

static void add(cairn_digest_stream *digest, const void *bytes, uint64_t len_bytes)
{
    cairn_digest_stream_update(digest, &len_bytes, sizeof len_bytes);
    cairn_digest_stream_update(digest, bytes, (size_t)len_bytes);
}

static void add_text(cairn_digest_stream *digest, const char *text)
{
    add(digest, text, strlen(text));
}

static void add_number(cairn_digest_stream *digest, uint64_t number)
{
    cairn_digest_stream_update(digest, &number, sizeof number);
}

static void add_build(const llama_engine *e, cairn_digest_stream *digest)
{
    add_number(digest, FINGERPRINT_VERSION);
    add_text(digest, cairn_llama_build());
    add_text(digest, llama_version());
    add_text(digest, llama_print_system_info());
    add_number(digest, ggml_backend_dev_count());
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        add_text(digest, ggml_backend_dev_name(ggml_backend_dev_get(i)));
        add_text(digest, ggml_backend_dev_description(ggml_backend_dev_get(i)));
    }
    add_number(digest, (uint64_t)(int64_t)e->options.model.gpu_layers);
    if (e->options.model.no_repack)
        add_text(digest, "no repack");
}

static void add_settings(const llama_engine *e, cairn_digest_stream *digest)
{
    const cairn_llama_options *o = &e->options;
    add_text(digest, o->type_k);
    add_text(digest, o->type_v);
    add_number(digest, (uint64_t)(int64_t)o->flash);
    add_number(digest, o->batch_tokens_max);
    add_number(digest, o->ubatch_tokens_max);
    add_number(digest, o->slot_tokens_max);
    add_number(digest, o->swa_full);
    add_number(digest, e->split);
    add_number(digest, e->cell_bytes);
    add_number(digest, e->rows.base_bytes);
    add_number(digest, e->rows.row_bytes);
}

static cairn_status add_range(cairn_file *file, uint64_t begin, uint64_t end, uint8_t *room,
                              cairn_digest_stream *digest, cairn_error *reterr)
{
    while (begin < end) {
        size_t take = end - begin < SAMPLE_BYTES ? (size_t)(end - begin) : SAMPLE_BYTES;
        cairn_status status = cairn_io_pread(file, room, take, begin, reterr);
        if (status != CAIRN_OK)
            return status;
        add(digest, room, take);
        begin += take;
    }
    return CAIRN_OK;
}

/* Where the tensor data begins, and of how many parts the model is (*ret_parts is left alone where it isn't said). */
static cairn_status read_head(const char *path, uint64_t *ret_data_offset, uint32_t *ret_parts,
                              cairn_error *reterr)
{
    struct gguf_context *gguf = gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true});
    if (!gguf)
        return cairn_llama_refused(reterr, CAIRN_CORRUPT, "engine/fingerprint");
    *ret_data_offset = gguf_get_data_offset(gguf);
    int64_t key = gguf_find_key(gguf, "split.count");
    if (key >= 0 && gguf_get_kv_type(gguf, key) == GGUF_TYPE_UINT16)
        *ret_parts = gguf_get_val_u16(gguf, key);
    gguf_free(gguf);
    return CAIRN_OK;
}

static cairn_status add_part(const char *path, uint8_t *room, uint32_t *ret_parts,
                             cairn_digest_stream *digest, cairn_error *reterr)
{
    cairn_file *file = NULL;
    cairn_io_stat stat;
    uint64_t data = 0;
    cairn_status status = read_head(path, &data, ret_parts, reterr);
    if (status == CAIRN_OK)
        status = cairn_io_open(cairn_io_posix(), path, CAIRN_IO_READ, &file, reterr);
    if (status != CAIRN_OK)
        return status;
    status = cairn_io_file_stat(file, &stat, reterr);
    if (status == CAIRN_OK) {
        add_number(digest, stat.size_bytes);
        data = data < stat.size_bytes ? data : stat.size_bytes;
        status = add_range(file, 0, data, room, digest, reterr);
    }
    uint64_t rest = status == CAIRN_OK ? stat.size_bytes - data : 0;
    for (uint64_t i = 0; i < SAMPLES && status == CAIRN_OK; i++) {
        uint64_t begin = data + rest / SAMPLES * i,
                 end = i + 1 == SAMPLES ? data + rest : data + rest / SAMPLES * (i + 1);
        if (end - begin > SAMPLE_BYTES && i + 1 == SAMPLES)
            begin = end - SAMPLE_BYTES; /* the very end is one of the places */
        status = add_range(file, begin, end - begin > SAMPLE_BYTES ? begin + SAMPLE_BYTES : end, room, digest,
                           reterr);
    }
    cairn_io_discard(file);
    return status;
}

static cairn_status add_model(llama_engine *e, cairn_digest_stream *digest, cairn_error *reterr)
{
    const char *path = e->options.model.path;
    char prefix[PATH_ROOM], part[PATH_ROOM];
    uint32_t parts = 1, unused = 1;
    uint8_t *room = cairn_mem_alloc(e->mem, SAMPLE_BYTES);
    if (!room)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/fingerprint", NULL);
    cairn_status status = add_part(path, room, &parts, digest, reterr);
    bool split = status == CAIRN_OK && parts > 1 && parts <= PARTS_MAX &&
                 llama_split_prefix(prefix, sizeof prefix, path, 0, (int32_t)parts) > 0;
    for (uint32_t i = 1; split && i < parts && status == CAIRN_OK; i++) {
        if (llama_split_path(part, sizeof part, prefix, (int32_t)i, (int32_t)parts) <= 0)
            break;
        status = add_part(part, room, &unused, digest, reterr);
    }
    cairn_mem_release(e->mem, room, SAMPLE_BYTES);
    return status;
}

cairn_status cairn_llama_fingerprint(llama_engine *e, cairn_error *reterr)
{
    cairn_digest value;
    cairn_digest_stream *digest = cairn_digest_stream_new(e->mem);
    if (!digest)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/fingerprint", NULL);
    add_build(e, digest);
    cairn_status status = add_model(e, digest, reterr);
    add_settings(e, digest);
    if (status == CAIRN_OK && cairn_digest_stream_finish(digest, &value) != CAIRN_OK)
        status = cairn_error_set(reterr, CAIRN_NOMEM, "engine/fingerprint", NULL);
    cairn_digest_stream_free(digest);
    if (status == CAIRN_OK)
        memcpy(e->head.info.fingerprint, value.bytes, sizeof e->head.info.fingerprint);
    return status;
}
