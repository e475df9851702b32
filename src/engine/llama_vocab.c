/* The vocabulary and metadata of a model, over libllama's own calls. Nothing here keeps state. */
#include "engine/llama_vocab.h"

#include <stdio.h>
#include <string.h>

#include "llama.h"

enum { TEXT_BYTES_MAX = 1 << 30, DESCRIPTION_BYTES = 256 };

static const struct llama_vocab *words(const cairn_llama_vocab *vocab)
{
    return vocab->vocab;
}

void cairn_llama_vocab_init(cairn_llama_vocab *vocab, const struct llama_model *model)
{
    vocab->model = model;
    vocab->vocab = llama_model_get_vocab(model);
}

uint32_t cairn_llama_vocab_size(const cairn_llama_vocab *vocab)
{
    return (uint32_t)llama_vocab_n_tokens(words(vocab));
}

static cairn_status counted(int32_t n, uint32_t *ret_count)
{
    if (n == INT32_MIN)
        return CAIRN_INVALID;
    *ret_count = (uint32_t)(n < 0 ? -n : n);
    return n < 0 ? CAIRN_LIMIT : CAIRN_OK;
}

static int32_t room_of(uint32_t room)
{
    return room > INT32_MAX ? INT32_MAX : (int32_t)room;
}

cairn_status cairn_llama_tokenize(const cairn_llama_vocab *vocab, const char *text, size_t len_bytes,
                                  bool add_special, bool parse_special, cairn_token *tokens, uint32_t room,
                                  uint32_t *ret_count)
{
    if (len_bytes > TEXT_BYTES_MAX)
        return CAIRN_INVALID;
    return counted(llama_tokenize(words(vocab), text, (int32_t)len_bytes, tokens, room_of(room), add_special,
                                  parse_special),
                   ret_count);
}

static bool token_valid(const cairn_llama_vocab *vocab, cairn_token token)
{
    return token >= 0 && token < llama_vocab_n_tokens(words(vocab));
}

cairn_status cairn_llama_detokenize(const cairn_llama_vocab *vocab, const cairn_token *tokens, uint32_t count,
                                    bool unparse_special, char *text, uint32_t room, uint32_t *ret_bytes)
{
    if (count > INT32_MAX)
        return CAIRN_INVALID;
    for (uint32_t i = 0; i < count; i++)
        if (!token_valid(vocab, tokens[i]))
            return CAIRN_INVALID;
    if (count == 0) {
        *ret_bytes = 0;
        return CAIRN_OK;
    }
    return counted(
        llama_detokenize(words(vocab), tokens, (int32_t)count, text, room_of(room), false, unparse_special),
        ret_bytes);
}

cairn_status cairn_llama_piece(const cairn_llama_vocab *vocab, cairn_token token, bool special, char *text,
                               uint32_t room, uint32_t *ret_bytes)
{
    if (!token_valid(vocab, token))
        return CAIRN_INVALID;
    return counted(llama_token_to_piece(words(vocab), token, text, room_of(room), 0, special), ret_bytes);
}

bool cairn_llama_is_eog(const cairn_llama_vocab *vocab, cairn_token token)
{
    return token_valid(vocab, token) && llama_vocab_is_eog(words(vocab), token);
}

bool cairn_llama_is_control(const cairn_llama_vocab *vocab, cairn_token token)
{
    return token_valid(vocab, token) && llama_vocab_is_control(words(vocab), token);
}

static cairn_token or_none(llama_token token)
{
    return token < 0 ? CAIRN_TOKEN_NONE : token;
}

cairn_token cairn_llama_bos(const cairn_llama_vocab *vocab)
{
    return or_none(llama_vocab_bos(words(vocab)));
}

cairn_token cairn_llama_eos(const cairn_llama_vocab *vocab)
{
    return or_none(llama_vocab_eos(words(vocab)));
}

cairn_token cairn_llama_eot(const cairn_llama_vocab *vocab)
{
    return or_none(llama_vocab_eot(words(vocab)));
}

cairn_llama_fim cairn_llama_fim_get(const cairn_llama_vocab *vocab)
{
    return (cairn_llama_fim){.prefix = or_none(llama_vocab_fim_pre(words(vocab))),
                             .suffix = or_none(llama_vocab_fim_suf(words(vocab))),
                             .middle = or_none(llama_vocab_fim_mid(words(vocab))),
                             .repository = or_none(llama_vocab_fim_rep(words(vocab))),
                             .file = or_none(llama_vocab_fim_sep(words(vocab)))};
}

bool cairn_llama_adds_bos(const cairn_llama_vocab *vocab)
{
    return llama_vocab_get_add_bos(words(vocab));
}

bool cairn_llama_adds_eos(const cairn_llama_vocab *vocab)
{
    return llama_vocab_get_add_eos(words(vocab));
}

const char *cairn_llama_chat_template(const cairn_llama_vocab *vocab, const char *name)
{
    return llama_model_chat_template(vocab->model, name);
}

const char *cairn_llama_describe(const cairn_llama_vocab *vocab, char *text, size_t room)
{
    static const char unknown[] = " ?B"; /* libllama names the sizes of published models only */
    char whole[DESCRIPTION_BYTES] = "";
    if (llama_model_desc(vocab->model, whole, sizeof whole) < 0)
        whole[0] = '\0';
    const char *size = strstr(whole, unknown);
    double parameters = (double)llama_model_n_params(vocab->model);
    if (size == NULL)
        (void)snprintf(text, room, "%s", whole);
    else
        (void)snprintf(text, room, "%.*s %.1f%s%s", (int)(size - whole), whole,
                       parameters >= 1e9 ? parameters * 1e-9 : parameters * 1e-6,
                       parameters >= 1e9 ? "B" : "M", size + sizeof unknown - 1);
    return text;
}

bool cairn_llama_meta(const cairn_llama_vocab *vocab, const char *key, char *text, size_t room)
{
    return llama_model_meta_val_str(vocab->model, key, text, room) >= 0;
}

void cairn_llama_facts_get(const cairn_llama_vocab *vocab, cairn_llama_facts *ret_facts)
{
    const struct llama_model *model = vocab->model;
    int32_t window = llama_model_n_swa(model), train = llama_model_n_ctx_train(model);
    *ret_facts = (cairn_llama_facts){
        .parameters = llama_model_n_params(model),
        .weight_bytes = llama_model_size(model),
        .train_tokens = train > 0 ? (uint32_t)train : 0,
        .layers = (uint32_t)llama_model_n_layer(model),
        .embedding = (uint32_t)llama_model_n_embd(model),
        .window_tokens = window > 0 ? (uint32_t)window : 0,
        .recurrent = llama_model_is_recurrent(model) && !llama_model_is_hybrid(model),
        .hybrid = llama_model_is_hybrid(model),
    };
}
