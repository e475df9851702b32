/*
 * boundary_map - one walk over tokens and boundaries side by side.
 *
 * A token that the tokenizer added (0 bytes) lies before a boundary at its edge; one that starts the text is token 0,
 * and a boundary at offset 0 would stand at position 1: bridge.h gives none at 0.
 */
#include "chat/boundary_map.h"

static void put(cairn_boundary *out, size_t *count, const cairn_chat_boundary *boundary, uint32_t position)
{
    if (position == 0) {
        return;
    }
    if (*count != 0 && out[*count - 1].position == position) {
        cairn_boundary *last = &out[*count - 1];
        last->kinds = (uint16_t)(last->kinds | boundary->kinds);
        last->message = boundary->message;
        last->role = boundary->role;
        return;
    }
    out[(*count)++] = (cairn_boundary){
        .position = position,
        .message = boundary->message,
        .kinds = boundary->kinds,
        .role = boundary->role,
    };
}

/* three arrays and their lengths: a struct would be made for one call */
cairn_status cairn_chat_boundaries_map( // NOLINT(readability-function-size)
    const uint32_t *token_bytes, size_t count_tokens, uint64_t text_bytes,
    const cairn_chat_boundary *boundaries, size_t count_boundaries, cairn_boundary *out, size_t *ret_count)
{
    *ret_count = 0;
    if (count_tokens > UINT32_MAX) {
        return CAIRN_INVALID;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < count_tokens; i++) {
        sum += token_bytes[i];
    }
    if (sum != text_bytes) {
        return CAIRN_INVALID;
    }
    uint64_t before = 0;
    for (size_t i = 0; i < count_boundaries; i++) {
        if (boundaries[i].offset_bytes > text_bytes || boundaries[i].offset_bytes < before) {
            return CAIRN_INVALID;
        }
        before = boundaries[i].offset_bytes;
    }

    size_t count = 0;
    size_t token = 0;
    uint64_t end = 0; /* bytes of tokens [0, token) */
    for (size_t i = 0; i < count_boundaries; i++) {
        while (token < count_tokens && end + token_bytes[token] <= boundaries[i].offset_bytes) {
            end += token_bytes[token++];
        }
        put(out, &count, &boundaries[i], (uint32_t)token);
    }
    *ret_count = count;
    return CAIRN_OK;
}
