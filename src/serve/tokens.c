/*
 * tokens - see the header.
 */
#include "serve/tokens.h"

#include <string.h>

#include "chat/boundary_map.h"

enum { SHORT_OPENER_TOKENS = 8 };

void cairn_tokens_release(const cairn_mem *mem, cairn_tokens *tokens)
{
    cairn_mem_array_release(mem, tokens->items, tokens->count, sizeof *tokens->items);
    *tokens = (cairn_tokens){0};
}

cairn_status cairn_tokens_of(const cairn_mem *mem, const cairn_llama_vocab *vocab, const char *text,
                             size_t len_bytes, unsigned flags, cairn_tokens *ret_tokens)
{
    *ret_tokens = (cairn_tokens){0};
    uint32_t room = (uint32_t)(len_bytes / 3) + 16, count = 0;
    for (int tries = 0; tries < 2; tries++) {
        cairn_token *items = cairn_mem_array(mem, room, sizeof *items);
        if (items == NULL)
            return CAIRN_NOMEM;
        cairn_status status =
            cairn_llama_tokenize(vocab, text, len_bytes, (flags & CAIRN_TOKENS_ADD_SPECIAL) != 0,
                                 (flags & CAIRN_TOKENS_PARSE_SPECIAL) != 0, items, room, &count);
        if (status == CAIRN_OK && count > 0) {
            /* The array is shrunk to its count, by which it will be released. */
            cairn_token *exact = cairn_mem_array_resize(mem, items, room, count, sizeof *items);
            if (exact != NULL) {
                *ret_tokens = (cairn_tokens){exact, count};
                return CAIRN_OK;
            }
            status = CAIRN_NOMEM;
        }
        cairn_mem_array_release(mem, items, room, sizeof *items);
        if (status != CAIRN_LIMIT)
            return status;
        room = count;
    }
    return CAIRN_INTERNAL;
}

/* Bytes of the text that a token stands for; `at` is where it begins. */
static uint32_t covered_bytes(const cairn_llama_vocab *vocab, cairn_token token, const char *text, size_t at,
                              size_t text_bytes, bool first)
{
    char piece[CAIRN_PIECE_BYTES_MAX];
    uint32_t len = 0;
    if (cairn_llama_piece(vocab, token, true, piece, sizeof piece, &len) != CAIRN_OK)
        return UINT32_MAX;
    bool fits = len <= text_bytes - at && memcmp(piece, text + at, len) == 0;
    if (fits)
        return len;
    if (first && token == cairn_llama_bos(vocab))
        return 0; /* added by the tokenizer, not in the text */
    if (len > 0 && piece[0] == ' ' && len - 1 <= text_bytes - at &&
        memcmp(piece + 1, text + at, len - 1) == 0)
        return len - 1; /* the blank that some vocabularies put in front */
    return UINT32_MAX;
}

static void remove_boundary(cairn_boundary *list, uint32_t *count, uint32_t index)
{
    memmove(&list[index], &list[index + 1], (*count - index - 1) * sizeof *list);
    (*count)--;
}

/*
 * The place inside the assistant opener where a longer conversation parts (a THINK_START of the message to come): where
 * the opener is long it is worth as much as the opener's start; where it is short it is left out.
 */
static void settle_opener(cairn_boundary *list, uint32_t *count, uint32_t count_tokens)
{
    uint32_t opener = *count;
    while (opener > 0 && (list[opener - 1].kinds & CAIRN_BOUNDARY_OPENER) == 0)
        opener--;
    if (opener == 0)
        return;
    cairn_boundary *start = &list[opener - 1];
    start->kinds &= (uint16_t)~CAIRN_BOUNDARY_THINK_START;
    for (uint32_t i = *count; i > 0; i--) {
        cairn_boundary *place = &list[i - 1];
        if (place == start || place->message != start->message || place->kinds != CAIRN_BOUNDARY_THINK_START)
            continue;
        if (start->position >= count_tokens) { /* no opener was found: its end is of no use */
            place->kinds |= CAIRN_BOUNDARY_OPENER;
            remove_boundary(list, count, opener - 1);
        } else if (place > start && count_tokens - start->position > SHORT_OPENER_TOKENS) {
            place->kinds |= CAIRN_BOUNDARY_OPENER;
        } else {
            remove_boundary(list, count, i - 1);
        }
        return;
    }
}

cairn_status cairn_tokens_boundaries(const cairn_mem *mem, const cairn_llama_vocab *vocab,
                                     const cairn_chat_prompt *prompt, const cairn_tokens *tokens,
                                     cairn_boundary *out, uint32_t *ret_count)
{
    *ret_count = 0;
    uint32_t count = tokens->count;
    if (prompt->count_boundaries == 0 || count == 0)
        return CAIRN_OK;
    uint32_t *lengths = cairn_mem_array(mem, count, sizeof *lengths);
    if (lengths == NULL)
        return CAIRN_NOMEM;
    size_t at = 0, mapped = 0;
    bool good = true;
    for (uint32_t i = 0; i < count && good; i++) {
        lengths[i] = covered_bytes(vocab, tokens->items[i], prompt->text, at, prompt->text_bytes, i == 0);
        good = lengths[i] != UINT32_MAX;
        at += good ? lengths[i] : 0;
    }
    /* Text that can't be laid over its tokens byte by byte (a normalizing vocabulary) has no boundaries. */
    if (good && cairn_chat_boundaries_map(lengths, count, prompt->text_bytes, prompt->boundaries,
                                          prompt->count_boundaries, out, &mapped) == CAIRN_OK)
        *ret_count = (uint32_t)mapped;
    settle_opener(out, ret_count, count);
    cairn_mem_array_release(mem, lengths, count, sizeof *lengths);
    return CAIRN_OK;
}
