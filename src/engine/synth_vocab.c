/*
 * synth_vocab - see the header. The file's strings are never copied: every text points into its metadata.
 */
#include "engine/synth_vocab.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"
#include "llama.h"

enum { WORD_BYTES_MAX = 1024, TOKENS_STEP = 64 };

/* How strongly the row of the token that ends an answer is drawn: decides how long greedy answers are. */
static const float END_FACTOR = 1.6f;

/* A name for every token's text, sorted, so that merges can be looked up. */
typedef struct name {
    const char *text;
    uint32_t id;
} name;

typedef struct cut {
    int64_t tokens_key, types_key, merges_key;
    uint32_t tokens_count, merges_count;
    name *names;   /* name[tokens_count], by text */
    uint8_t *kept; /* uint8_t[tokens_count] */
} cut;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const name *)a)->text, ((const name *)b)->text);
}

static uint32_t id_of(const cut *c, const char *text)
{
    const name key = {.text = text};
    const name *found = bsearch(&key, c->names, c->tokens_count, sizeof(*c->names), by_text);
    return found != NULL ? found->id : UINT32_MAX;
}

static bool is_array(const struct gguf_context *file, int64_t key, enum gguf_type type)
{
    return key >= 0 && gguf_get_kv_type(file, key) == GGUF_TYPE_ARRAY && gguf_get_arr_type(file, key) == type;
}

/* Byte-pair alphabets write each byte as one code point, so one code point is one byte. */
static bool is_byte(const char *text)
{
    size_t points = 0;
    for (; *text != '\0'; text++)
        points += ((uint8_t)*text & 0xc0) != 0x80;
    return points == 1;
}

static bool is_placeholder(const char *text)
{
    return strncmp(text, "[PAD", 4) == 0;
}

/* Both parts of "first second" and what they make, as ids; false if one of them is not a token. */
static bool parts_of(const cut *c, const char *merge, uint32_t *first, uint32_t *second, uint32_t *whole)
{
    char word[WORD_BYTES_MAX];
    const char *space = merge[0] != '\0' ? strchr(merge + 1, ' ') : NULL;
    const size_t len = strlen(merge);

    if (space == NULL || len >= sizeof(word))
        return false;
    const size_t head = (size_t)(space - merge);
    memcpy(word, merge, head);
    word[head] = '\0';
    *first = id_of(c, word);
    *second = id_of(c, space + 1);
    memcpy(word + head, space + 1, len - head);
    *whole = id_of(c, word);
    return *first != UINT32_MAX && *second != UINT32_MAX && *whole != UINT32_MAX;
}

/* Keep bytes and specials, then as many first merges as asked for, with what they make. */
static void keep(cairn_synth_vocab *vocab, cut *c, uint32_t merges_max)
{
    const int32_t *types = gguf_get_arr_data(vocab->file, c->types_key);

    for (uint32_t id = 0; id < c->tokens_count; id++) {
        const char *text = gguf_get_arr_str(vocab->file, c->tokens_key, id);
        c->kept[id] =
            types[id] == LLAMA_TOKEN_TYPE_NORMAL ? merges_max == 0 || is_byte(text) : !is_placeholder(text);
    }
    for (uint32_t i = 0; i < c->merges_count; i++) {
        const char *merge = gguf_get_arr_str(vocab->file, c->merges_key, i);
        uint32_t first, second, whole;
        if (merges_max > 0 && vocab->merges_count == merges_max)
            break;
        if (!parts_of(c, merge, &first, &second, &whole) || !c->kept[first] || !c->kept[second])
            continue;
        c->kept[whole] = 1;
        vocab->merges[vocab->merges_count++] = merge;
    }
}

/*
 * Lay out kept tokens in their old order, placeholders as specials of the architecture, then fill up: to the size
 * asked for, and to a multiple that matrix kernels like, as real models do.
 */
static void lay_out(cairn_synth_vocab *vocab, const cut *c, const cairn_synth_arch *arch, uint32_t fill_to)
{
    const int32_t *types = gguf_get_arr_data(vocab->file, c->types_key);
    const char *const *special = arch->chat->specials;
    uint32_t count = 0;

    for (uint32_t id = 0; id < c->tokens_count; id++) {
        if (!c->kept[id])
            continue;
        vocab->tokens[count] = gguf_get_arr_str(vocab->file, c->tokens_key, id);
        vocab->types[count++] = types[id];
    }
    for (; special != NULL && *special != NULL; special++) {
        const bool text = (*special)[0] == '+';
        const char *token = *special + (text ? 1 : 0);
        if (id_of(c, token) != UINT32_MAX)
            continue;
        vocab->tokens[count] = token;
        vocab->types[count++] = text ? LLAMA_TOKEN_TYPE_USER_DEFINED : LLAMA_TOKEN_TYPE_CONTROL;
    }
    for (; count < fill_to || count % TOKENS_STEP != 0; count++) {
        char *filler = vocab->fillers + (size_t)count * CAIRN_SYNTH_FILLER_BYTES;
        snprintf(filler, CAIRN_SYNTH_FILLER_BYTES, "[PAD%u]", (unsigned)count);
        vocab->tokens[count] = filler;
        vocab->types[count] = LLAMA_TOKEN_TYPE_UNUSED;
    }
    vocab->tokens_count = count;
}

static cairn_status open_file(cairn_synth_vocab *vocab, cut *c, const char *path, cairn_error *reterr)
{
    const struct gguf_init_params params = {.no_alloc = true, .ctx = NULL};
    FILE *probe = fopen(path, "rb");

    if (probe == NULL)
        return cairn_error_set_os(reterr, errno, "engine/synth: vocabulary", "%s", path);
    fclose(probe);
    vocab->file = gguf_init_from_file(path, params);
    if (vocab->file == NULL)
        return cairn_error_set(reterr, CAIRN_CORRUPT, "engine/synth: vocabulary", "%s is not a GGUF file",
                               path);
    c->tokens_key = gguf_find_key(vocab->file, "tokenizer.ggml.tokens");
    c->types_key = gguf_find_key(vocab->file, "tokenizer.ggml.token_type");
    c->merges_key = gguf_find_key(vocab->file, "tokenizer.ggml.merges");
    if (!is_array(vocab->file, c->tokens_key, GGUF_TYPE_STRING) ||
        !is_array(vocab->file, c->types_key, GGUF_TYPE_INT32) ||
        !is_array(vocab->file, c->merges_key, GGUF_TYPE_STRING) ||
        gguf_get_arr_n(vocab->file, c->tokens_key) != gguf_get_arr_n(vocab->file, c->types_key) ||
        gguf_get_arr_n(vocab->file, c->tokens_key) == 0)
        return cairn_error_set(reterr, CAIRN_CORRUPT, "engine/synth: vocabulary",
                               "%s has no byte-pair vocabulary", path);
    c->tokens_count = (uint32_t)gguf_get_arr_n(vocab->file, c->tokens_key);
    c->merges_count = (uint32_t)gguf_get_arr_n(vocab->file, c->merges_key);
    return CAIRN_OK;
}

static size_t specials_count(const cairn_synth_arch *arch)
{
    size_t count = 0;
    while (arch->chat->specials != NULL && arch->chat->specials[count] != NULL)
        count++;
    return count;
}

cairn_status cairn_synth_vocab_init(cairn_synth_vocab *ret_vocab, cairn_mem *mem, const char *path,
                                    const cairn_synth_arch *arch, const cairn_synth_size *size,
                                    cairn_error *reterr)
{
    cairn_synth_vocab vocab = {.mem = mem};
    cut c = {0};
    cairn_status status = open_file(&vocab, &c, path, reterr);
    if (status != CAIRN_OK)
        goto out;

    vocab.tokens_room = c.tokens_count + (uint32_t)specials_count(arch);
    if (vocab.tokens_room < size->vocab_size)
        vocab.tokens_room = size->vocab_size;
    vocab.tokens_room += TOKENS_STEP;
    vocab.merges_room = c.merges_count;
    c.names = cairn_mem_array(mem, c.tokens_count, sizeof(*c.names));
    c.kept = cairn_mem_array(mem, c.tokens_count, 1);
    vocab.tokens = cairn_mem_array(mem, vocab.tokens_room, sizeof(*vocab.tokens));
    vocab.types = cairn_mem_array(mem, vocab.tokens_room, sizeof(*vocab.types));
    vocab.merges = cairn_mem_array(mem, vocab.merges_room, sizeof(*vocab.merges));
    vocab.fillers = cairn_mem_array(mem, vocab.tokens_room, CAIRN_SYNTH_FILLER_BYTES);
    if (c.names == NULL || c.kept == NULL || vocab.tokens == NULL || vocab.types == NULL ||
        vocab.merges == NULL || vocab.fillers == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "engine/synth: vocabulary", NULL);
        goto out;
    }
    for (uint32_t id = 0; id < c.tokens_count; id++)
        c.names[id] = (name){.text = gguf_get_arr_str(vocab.file, c.tokens_key, id), .id = id};
    qsort(c.names, c.tokens_count, sizeof(*c.names), by_text);
    keep(&vocab, &c, size->vocab_merges);
    lay_out(&vocab, &c, arch, size->vocab_size);
    *ret_vocab = vocab;
out:
    cairn_mem_array_release(mem, c.names, c.tokens_count, sizeof(*c.names));
    cairn_mem_array_release(mem, c.kept, c.tokens_count, 1);
    if (status != CAIRN_OK)
        cairn_synth_vocab_release(&vocab);
    return status;
}

void cairn_synth_vocab_release(cairn_synth_vocab *vocab)
{
    cairn_mem_array_release(vocab->mem, vocab->tokens, vocab->tokens_room, sizeof(*vocab->tokens));
    cairn_mem_array_release(vocab->mem, vocab->types, vocab->tokens_room, sizeof(*vocab->types));
    cairn_mem_array_release(vocab->mem, vocab->merges, vocab->merges_room, sizeof(*vocab->merges));
    cairn_mem_array_release(vocab->mem, vocab->fillers, vocab->tokens_room, CAIRN_SYNTH_FILLER_BYTES);
    gguf_free(vocab->file);
    *vocab = (cairn_synth_vocab){.mem = vocab->mem};
}

uint32_t cairn_synth_vocab_find(const cairn_synth_vocab *vocab, const char *text)
{
    for (uint32_t id = vocab->tokens_count; id-- > 0;) {
        if (strcmp(vocab->tokens[id], text) == 0)
            return id;
    }
    return UINT32_MAX;
}

void cairn_synth_vocab_metadata(const cairn_synth_vocab *vocab, const cairn_synth_arch *arch,
                                struct gguf_context *kv)
{
    const uint32_t end = cairn_synth_vocab_find(vocab, arch->chat->end_of_turn);
    const uint32_t pad = cairn_synth_vocab_find(vocab, "<|endoftext|>");
    const uint32_t begin = arch->chat->begin != NULL ? cairn_synth_vocab_find(vocab, arch->chat->begin) : pad;

    gguf_set_val_str(kv, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(kv, "tokenizer.ggml.pre", arch->vocab_pre != NULL ? arch->vocab_pre : "qwen2");
    gguf_set_arr_str(kv, "tokenizer.ggml.tokens", vocab->tokens, vocab->tokens_count);
    gguf_set_arr_data(kv, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocab->types, vocab->tokens_count);
    gguf_set_arr_str(kv, "tokenizer.ggml.merges", vocab->merges, vocab->merges_count);
    if (end != UINT32_MAX)
        gguf_set_val_u32(kv, "tokenizer.ggml.eos_token_id", end);
    if (pad != UINT32_MAX)
        gguf_set_val_u32(kv, "tokenizer.ggml.padding_token_id", pad);
    if (begin != UINT32_MAX)
        gguf_set_val_u32(kv, "tokenizer.ggml.bos_token_id",
                         begin); /* the templates write it, not the tokenizer */
    gguf_set_val_bool(kv, "tokenizer.ggml.add_bos_token", false);
}

void cairn_synth_vocab_factors(const cairn_synth_vocab *vocab, const cairn_synth_arch *arch, float *factors)
{
    const uint32_t end = cairn_synth_vocab_find(vocab, arch->chat->end_of_turn);

    for (uint32_t id = 0; id < vocab->tokens_count; id++)
        factors[id] = vocab->types[id] == LLAMA_TOKEN_TYPE_NORMAL ? 1.0f : 0.05f;
    if (end != UINT32_MAX)
        factors[end] = END_FACTOR;
}
