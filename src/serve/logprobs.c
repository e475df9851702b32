/*
 * logprobs - see the header.
 */
#include "serve/logprobs.h"

#include <math.h>
#include <string.h>

#include "chat/sampler_bridge.h"
#include "serve/json_answer.h"

/* What no probability is left for: JSON has no infinity, and clients know this number for it. */
static const double NEVER = -9999.0;

/* {"id":..,"token":..,"bytes":[..],"logprob":..} */
static json_t *token_json(const cairn_llama_vocab *vocab, cairn_token token, float logprob)
{
    char text[CAIRN_PIECE_BYTES_MAX];
    uint32_t len = 0;
    if (cairn_llama_piece(vocab, token, true, text, sizeof text, &len) != CAIRN_OK)
        len = 0;
    json_t *bytes = json_array();
    for (uint32_t i = 0; i < len; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    return json_pack("{s:i, s:o, s:o, s:f}", "id", (int)token, "token", cairn_json_string(text, len), "bytes",
                     bytes, "logprob", isfinite(logprob) ? (double)logprob : NEVER);
}

json_t *cairn_logprobs_entry(const cairn_llama_vocab *vocab, const float *logits, cairn_token token,
                             uint32_t top)
{
    cairn_sampler_logprob best[CAIRN_LOGPROBS_TOP_MAX];
    float own = 0;
    uint32_t size = cairn_llama_vocab_size(vocab);
    top = top > CAIRN_LOGPROBS_TOP_MAX ? CAIRN_LOGPROBS_TOP_MAX : top;
    top = top > size ? size : top;
    cairn_sampler_logprobs(logits, size, token, &own, best, top);
    json_t *list = json_array(), *entry = token_json(vocab, token, own);
    for (uint32_t i = 0; i < top; i++)
        json_array_append_new(list, token_json(vocab, best[i].token, best[i].logprob));
    if (entry == NULL || json_object_set_new(entry, "top_logprobs", list) != 0) {
        json_decref(entry);
        return NULL;
    }
    return entry;
}

json_t *cairn_logprobs_chat(json_t *entries)
{
    return json_pack("{s:O, s:n}", "content", entries, "refusal");
}

size_t cairn_logprobs_characters(const char *text, size_t len_bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < len_bytes; i++)
        count += ((unsigned char)text[i] & 0xc0u) != 0x80u;
    return count;
}

/* {" river":-0.1,..}: where two tokens have one text, the more probable one counts. */
static json_t *top_json(const json_t *top)
{
    json_t *value = json_object();
    for (size_t i = 0; i < json_array_size(top); i++) {
        const json_t *item = json_array_get(top, i);
        const char *text = json_string_value(json_object_get(item, "token"));
        if (text != NULL && json_object_get(value, text) == NULL)
            json_object_set(value, text, json_object_get(item, "logprob"));
    }
    return value;
}

/* Characters that begin in the token; the bytes tell, its text may hold replacements of halves. */
static size_t width(const json_t *entry)
{
    const json_t *bytes = json_object_get(entry, "bytes");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(bytes); i++)
        count += ((unsigned)json_integer_value(json_array_get(bytes, i)) & 0xc0u) != 0x80u;
    return count;
}

json_t *cairn_logprobs_text(const json_t *entries, size_t offset)
{
    json_t *tokens = json_array(), *own = json_array(), *tops = json_array(), *offsets = json_array();
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        json_array_append(tokens, json_object_get(entry, "token"));
        json_array_append(own, json_object_get(entry, "logprob"));
        json_array_append_new(tops, top_json(json_object_get(entry, "top_logprobs")));
        json_array_append_new(offsets, json_integer((json_int_t)offset));
        offset += width(entry);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", own, "top_logprobs", tops,
                     "text_offset", offsets);
}
