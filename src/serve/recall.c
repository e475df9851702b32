/*
 * recall - see the header. The prompt is built piece by piece: text up to an answer, the answer's tokens, text up to
 * the next one. A piece of text behind an answer begins with the template's closer, so that its tokens are those that
 * it has in the whole.
 */
#define _GNU_SOURCE /* memmem */
#include "serve/recall.h"

#include <string.h>

#include "serve/answer_form.h"

enum { TAIL_BYTES = 12 };

void cairn_recall_init(cairn_recall *r, const cairn_mem *mem, cairn_answers *answers)
{
    *r = (cairn_recall){.mem = mem, .answers = answers};
}

static void item_release(cairn_recall *r, cairn_recalled *item)
{
    cairn_answers_unref(r->answers, item->answer);
    json_decref(item->parsed);
    cairn_mem_release(r->mem, item->text, item->text_bytes);
    *item = (cairn_recalled){0};
}

static void give_up(cairn_recall *r)
{
    while (r->count > 0)
        item_release(r, &r->items[--r->count]);
    r->count_in_place = 0;
    cairn_mem_release(r->mem, r->text, r->text_bytes);
    r->text = NULL;
    r->text_bytes = 0;
}

void cairn_recall_release(cairn_recall *r)
{
    give_up(r);
    cairn_mem_array_release(r->mem, r->items, r->room, sizeof *r->items);
    *r = (cairn_recall){0};
}

/* --- find -------------------------------------------------------------------------------------------------------- */

static bool is_assistant(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role != NULL && strcmp(role, "assistant") == 0;
}

static size_t count_assistants(const json_t *messages)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(messages); i++)
        count += is_assistant(json_array_get(messages, i)) ? 1 : 0;
    return count;
}

/* Is message `index` an answer that is known? Then it becomes an item. */
static void look_at(cairn_recall *r, const cairn_namespace *space, const json_t *message, size_t index)
{
    const cairn_answer_kept *answer = cairn_answers_find(r->answers, space, r->conversation, message);
    if (answer == NULL)
        return;
    cairn_recalled item = {.message = (uint32_t)index, .answer = answer};
    item.parsed = json_loadb(answer->message, answer->message_bytes, JSON_ALLOW_NUL, NULL);
    json_t *written = item.parsed != NULL && cairn_answer_reasoning_fits(message, item.parsed)
                          ? cairn_answer_put_back(message, item.parsed, &item.rewritten)
                          : NULL;
    if (written == NULL || r->count == r->room)
        item_release(r, &item);
    else
        r->items[r->count++] = item;
    json_decref(written);
}

cairn_status cairn_recall_find(cairn_recall *r, const cairn_namespace *space, const json_t *messages)
{
    if (r->answers == NULL)
        return CAIRN_OK;
    size_t room = count_assistants(messages), size = json_array_size(messages);
    if (room > 0) {
        r->items = cairn_mem_array(r->mem, room, sizeof *r->items);
        if (r->items == NULL)
            return CAIRN_NOMEM;
        r->room = room;
    }
    for (size_t i = 0; i < size; i++) {
        const json_t *message = json_array_get(messages, i);
        cairn_status status = cairn_answers_follow(r->mem, &r->conversation, message);
        if (status != CAIRN_OK) {
            give_up(r);
            return status;
        }
        /* The last one, if it is an answer, is being continued: its text is the prompt. */
        if (is_assistant(message) && i + 1 < size)
            look_at(r, space, message, i);
    }
    return CAIRN_OK;
}

static cairn_status write_request(const cairn_recall *r, const json_t *request, cairn_buf *out)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)request);
    json_t *messages = json_copy(json_object_get(request, "messages"));
    bool good = copy != NULL && messages != NULL, changed = false;
    for (size_t i = 0; i < r->count && good; i++) {
        const cairn_recalled *item = &r->items[i];
        good = json_array_set_new(messages, item->message,
                                  cairn_answer_put_back(json_array_get(messages, item->message), item->parsed,
                                                        &changed)) == 0;
    }
    good = good && json_object_set(copy, "messages", messages) == 0;
    cairn_status status = good ? cairn_answer_request(copy, out) : CAIRN_NOMEM;
    json_decref(messages);
    json_decref(copy);
    return status;
}

/* --- where an answer ends in the prompt -------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Append the tokens' bytes, special ones written out. */
static cairn_status append_pieces(const cairn_llama_vocab *vocab, const cairn_token *tokens, uint32_t count,
                                  cairn_buf *out)
{
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++) {
        char piece[CAIRN_PIECE_BYTES_MAX];
        uint32_t len = 0;
        status = cairn_llama_piece(vocab, tokens[i], true, piece, sizeof piece, &len);
        if (status == CAIRN_OK)
            status = cairn_buf_append(out, piece, len);
    }
    return status;
}

/* The text that the answer's tokens stand for. */
static cairn_status read_text(const cairn_mem *mem, const cairn_llama_vocab *vocab, cairn_recalled *item)
{
    if (item->text != NULL)
        return CAIRN_OK;
    cairn_buf text;
    cairn_buf_init(&text, mem, SIZE_MAX / 4);
    cairn_status status = append_pieces(vocab, item->answer->tokens, item->answer->count_tokens, &text);
    if (status == CAIRN_OK && text.len_bytes > 0) {
        item->text = cairn_mem_dup(mem, text.bytes, text.len_bytes);
        item->text_bytes = text.len_bytes;
        status = item->text == NULL ? CAIRN_NOMEM : CAIRN_OK;
    }
    cairn_buf_release(&text);
    return status;
}

/* The answer as it was generated, but for white space at its end. 0: that is not what stands there. */
static size_t end_as_generated(const cairn_chat_prompt *p, const cairn_recalled *item)
{
    size_t len = item->text_bytes, room = p->text_bytes - item->begin;
    while (len > 0 && is_blank(item->text[len - 1]))
        len--;
    if (len == 0 || len > room || memcmp(p->text + item->begin, item->text, len) != 0)
        return 0;
    size_t end = item->begin + len;
    for (; len < item->text_bytes && end < p->text_bytes && p->text[end] == item->text[len]; len++)
        end++;
    return end;
}

static bool holds(const char *text, size_t len, const json_t *part)
{
    if (!json_is_string(part))
        return true;
    const char *sought = json_string_value(part);
    size_t sought_len = json_string_length(part);
    while (sought_len > 0 && is_blank(*sought)) {
        sought++;
        sought_len--;
    }
    while (sought_len > 0 && is_blank(sought[sought_len - 1]))
        sought_len--;
    return sought_len == 0 || memmem(text, len, sought, sought_len) != NULL;
}

/* Does the rendered text hold all parts of the answer, in the template's own way of writing them? */
static bool holds_answer(const char *text, size_t len, const char *closer, const json_t *answer)
{
    const json_t *calls = json_object_get(answer, "tool_calls");
    if (!holds(text, len, json_object_get(answer, "content")) ||
        !holds(text, len, json_object_get(answer, "reasoning_content")))
        return false;
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        const char *arguments = json_string_value(json_object_get(function, "arguments"));
        if (!holds(text, len, json_object_get(function, "name")) ||
            (closer != NULL && arguments != NULL && strstr(arguments, closer) != NULL))
            return false;
    }
    return true;
}

/* Where the next message begins, or the opener; 0: not known. */
static size_t next_message(const cairn_chat_prompt *p, const cairn_recalled *item)
{
    for (size_t i = 0; i < p->count_boundaries; i++) {
        const cairn_chat_boundary *b = &p->boundaries[i];
        if (b->offset_bytes > item->begin &&
            (b->kinds & (CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_OPENER)) != 0)
            return b->message == item->message + 1 ? b->offset_bytes : 0;
    }
    return 0;
}

/* The template writes the answer in another way than the model did: it ends at the token that ends a turn. */
static size_t end_as_rendered(const cairn_llama_vocab *vocab, const cairn_chat_prompt *p,
                              const cairn_recalled *item)
{
    size_t limit = next_message(p, item), best = 0;
    const cairn_token ends[] = {cairn_llama_eot(vocab), cairn_llama_eos(vocab)};
    for (size_t i = 0; i < 2 && limit > item->begin; i++) {
        char closer[CAIRN_PIECE_BYTES_MAX + 1];
        uint32_t len = 0;
        if (ends[i] == CAIRN_TOKEN_NONE ||
            cairn_llama_piece(vocab, ends[i], true, closer, CAIRN_PIECE_BYTES_MAX, &len) != CAIRN_OK ||
            len == 0)
            continue;
        closer[len] = '\0';
        const char *begin = p->text + item->begin, *at = memmem(begin, limit - item->begin, closer, len);
        if (at != NULL && holds_answer(begin, (size_t)(at - begin), closer, item->parsed) &&
            (best == 0 || (size_t)(at - p->text) < best))
            best = (size_t)(at - p->text);
    }
    return best;
}

/* Nor does the vocabulary tell: the answer ends where the last bytes of the generated one stand, before the next message. */
static size_t end_by_tail(const cairn_chat_prompt *p, const cairn_recalled *item)
{
    size_t limit = next_message(p, item), len = item->text_bytes;
    while (len > 0 && is_blank(item->text[len - 1]))
        len--;
    if (limit == 0 || len < TAIL_BYTES)
        return 0;
    const char *tail = item->text + len - TAIL_BYTES, *begin = p->text + item->begin;
    for (size_t end = limit; end >= item->begin + TAIL_BYTES; end--) {
        if (memcmp(p->text + end - TAIL_BYTES, tail, TAIL_BYTES) == 0)
            return holds_answer(begin, end - item->begin, NULL, item->parsed) ? end : 0;
    }
    return 0;
}

/* --- splice ------------------------------------------------------------------------------------------------------ */

typedef struct splice {
    cairn_recall *recall;
    const cairn_llama_vocab *vocab;
    const cairn_chat_prompt *prompt;
    cairn_hash_stream *stream; /* of the text up to `hashed` */
    size_t hashed;
    size_t done;     /* text that is in `out` */
    cairn_buf out;   /* cairn_token[] */
    uint64_t chain;  /* of `out` */
    bool other_text; /* some answer's text differs from the rendered one */
} splice;

static uint32_t count_of(const cairn_buf *tokens)
{
    return (uint32_t)(tokens->len_bytes / sizeof(cairn_token));
}

static cairn_status append_tokens(splice *s, const cairn_token *tokens, uint32_t count)
{
    s->chain = cairn_hash_chain_tokens(s->chain, tokens, count);
    return cairn_buf_append(&s->out, tokens, count * sizeof *tokens);
}

/* Are these tokens the text, and nothing more? A tokenizer may put a blank in front of a piece. */
static bool are_text(const splice *s, const cairn_tokens *tokens, const char *text, size_t len)
{
    cairn_buf pieces;
    cairn_buf_init(&pieces, s->recall->mem, SIZE_MAX / 4);
    bool same = append_pieces(s->vocab, tokens->items, tokens->count, &pieces) == CAIRN_OK &&
                pieces.len_bytes == len && memcmp(cairn_buf_str(&pieces), text, len) == 0;
    cairn_buf_release(&pieces);
    return same;
}

/* Text up to `end` becomes tokens. CAIRN_NOTFOUND: the piece alone has other tokens than in the whole. */
static cairn_status append_text(splice *s, size_t end)
{
    const char *text = s->prompt->text + s->done;
    size_t len = end - s->done;
    bool first = s->done == 0;
    cairn_tokens tokens = {0};
    if (len == 0)
        return CAIRN_OK;
    unsigned flags = CAIRN_TOKENS_PARSE_SPECIAL | (first ? (unsigned)CAIRN_TOKENS_ADD_SPECIAL : 0u);
    cairn_status status = cairn_tokens_of(s->recall->mem, s->vocab, text, len, flags, &tokens);
    if (status == CAIRN_OK && !first && !are_text(s, &tokens, text, len))
        status = CAIRN_NOTFOUND;
    if (status == CAIRN_OK)
        status = append_tokens(s, tokens.items, tokens.count);
    cairn_tokens_release(s->recall->mem, &tokens);
    if (status == CAIRN_OK)
        s->done = end;
    return status;
}

static bool text_is_origin(splice *s, const cairn_answer_origin *origin)
{
    if (origin->text_bytes < s->hashed || origin->text_bytes < s->done ||
        origin->text_bytes >= s->prompt->text_bytes)
        return false;
    cairn_hash_stream_update(s->stream, s->prompt->text + s->hashed, origin->text_bytes - s->hashed);
    s->hashed = origin->text_bytes;
    return cairn_hash128_equal(cairn_hash_stream_value(s->stream), origin->text);
}

/* Would the same text have had other tokens? */
static bool other_tokens(const splice *s, const cairn_recalled *item)
{
    cairn_tokens tokens = {0};
    if (cairn_tokens_of(s->recall->mem, s->vocab, s->prompt->text + item->begin, item->end - item->begin,
                        CAIRN_TOKENS_PARSE_SPECIAL, &tokens) != CAIRN_OK)
        return true;
    bool same = tokens.count == item->answer->count_tokens &&
                memcmp(tokens.items, item->answer->tokens, tokens.count * sizeof *tokens.items) == 0;
    cairn_tokens_release(s->recall->mem, &tokens);
    return !same;
}

/* Put one answer in place. CAIRN_NOTFOUND: it can't be, and nothing was appended. */
static cairn_status put(splice *s, cairn_recalled *item)
{
    const cairn_answer_origin *origin = &item->answer->origin;
    if (!text_is_origin(s, origin))
        return CAIRN_NOTFOUND;
    item->begin = origin->text_bytes;
    cairn_status status = read_text(s->recall->mem, s->vocab, item);
    if (status != CAIRN_OK)
        return status;
    item->end = item->text_bytes > 0 ? end_as_generated(s->prompt, item) : 0;
    if (item->end == 0)
        item->end = end_as_rendered(s->vocab, s->prompt, item);
    if (item->end == 0 && item->text_bytes > 0)
        item->end = end_by_tail(s->prompt, item);
    if (item->end == 0)
        return CAIRN_NOTFOUND;
    size_t bytes_before = s->out.len_bytes, done_before = s->done;
    uint64_t chain_before = s->chain;
    status = append_text(s, item->begin);
    if (status == CAIRN_OK && (s->chain != origin->chain || count_of(&s->out) != origin->count_tokens))
        status = CAIRN_NOTFOUND;
    if (status == CAIRN_OK) {
        item->first_token = count_of(&s->out);
        status = append_tokens(s, item->answer->tokens, item->answer->count_tokens);
    }
    if (status != CAIRN_OK) {
        s->out.len_bytes = bytes_before;
        s->done = done_before;
        s->chain = chain_before;
        return status;
    }
    bool same_text = item->end - item->begin == item->text_bytes &&
                     memcmp(s->prompt->text + item->begin, item->text, item->text_bytes) == 0;
    s->other_text = s->other_text || !same_text;
    item->retokenized = other_tokens(s, item);
    item->in_place = true;
    s->done = item->end;
    return CAIRN_OK;
}

/* Forget the items that are not in place. true: the words of one of them differ from the client's. */
static bool sweep(cairn_recall *r)
{
    bool rewritten = false;
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].in_place) {
            r->items[kept++] = r->items[i];
            continue;
        }
        rewritten = rewritten || r->items[i].rewritten;
        item_release(r, &r->items[i]);
    }
    r->count = kept;
    return rewritten;
}

/* The prompt's text as its tokens say it. */
static cairn_status write_text(splice *s)
{
    cairn_recall *r = s->recall;
    const char *text = s->prompt->text;
    size_t bytes = s->prompt->text_bytes, from = 0;
    for (size_t i = 0; i < r->count; i++)
        bytes = bytes - (r->items[i].end - r->items[i].begin) + r->items[i].text_bytes;
    char *out = cairn_mem_alloc(r->mem, bytes), *at = out;
    if (out == NULL)
        return CAIRN_NOMEM;
    for (size_t i = 0; i < r->count; i++) {
        const cairn_recalled *item = &r->items[i];
        memcpy(at, text + from, item->begin - from);
        at += item->begin - from;
        if (item->text_bytes > 0)
            memcpy(at, item->text, item->text_bytes);
        at += item->text_bytes;
        from = item->end;
    }
    memcpy(at, text + from, s->prompt->text_bytes - from);
    r->text = out;
    r->text_bytes = bytes;
    return CAIRN_OK;
}

static cairn_status take_tokens(splice *s, cairn_tokens *ret_tokens)
{
    cairn_recall *r = s->recall;
    uint32_t count = count_of(&s->out);
    cairn_token *items = cairn_mem_dup(r->mem, s->out.bytes, s->out.len_bytes);
    if (items == NULL)
        return CAIRN_NOMEM;
    *ret_tokens = (cairn_tokens){items, count};
    for (size_t i = 0; i < r->count; i++) {
        cairn_answers_touch(r->answers, r->items[i].answer);
        r->count_in_place += r->items[i].rewritten || r->items[i].retokenized ? 1 : 0;
    }
    return CAIRN_OK;
}

/* Nothing of it can be used: the tokens that the prompt has without any of this. */
static cairn_status splice_plainly(splice *s, cairn_tokens *ret_tokens)
{
    return cairn_tokens_of(s->recall->mem, s->vocab, s->prompt->text, s->prompt->text_bytes,
                           CAIRN_TOKENS_ADD_SPECIAL | CAIRN_TOKENS_PARSE_SPECIAL, ret_tokens);
}

static cairn_status splice_prompt(cairn_recall *r, const cairn_llama_vocab *vocab,
                                  const cairn_chat_prompt *prompt, cairn_tokens *ret_tokens, bool *ret_again)
{
    splice s = {.recall = r, .vocab = vocab, .prompt = prompt, .chain = CAIRN_HASH_CHAIN_SEED};
    cairn_status status = CAIRN_OK;
    *ret_again = false;
    if (r->count == 0)
        return splice_plainly(&s, ret_tokens);
    s.stream = cairn_hash_stream_new(r->mem);
    if (s.stream == NULL)
        return CAIRN_NOMEM;
    cairn_hash_stream_reset(s.stream);
    cairn_buf_init(&s.out, r->mem, SIZE_MAX / 4);
    for (size_t i = 0; i < r->count && status == CAIRN_OK; i++) {
        r->items[i].in_place = false;
        if (cairn_llama_adds_eos(vocab))
            continue; /* a piece of a prompt can't be tokenized alone */
        status = put(&s, &r->items[i]);
        if (status == CAIRN_NOTFOUND)
            status = CAIRN_OK;
    }
    if (status == CAIRN_OK && sweep(r)) {
        *ret_again = true;
    } else if (status == CAIRN_OK) {
        status = append_text(&s, prompt->text_bytes);
        if (status == CAIRN_NOTFOUND) {
            bool rewritten = false;
            for (size_t i = 0; i < r->count; i++)
                rewritten = rewritten || r->items[i].rewritten;
            give_up(r);
            *ret_again = rewritten;
            status = rewritten ? CAIRN_OK : splice_plainly(&s, ret_tokens);
        } else if (status == CAIRN_OK) {
            status = s.other_text ? write_text(&s) : CAIRN_OK;
            if (status == CAIRN_OK)
                status = take_tokens(&s, ret_tokens);
        }
    }
    cairn_buf_release(&s.out);
    cairn_hash_stream_free(s.stream);
    return status;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

/* One render. *ret_again: it has to be done again, with fewer answers in place. */
static cairn_status render_once(cairn_recall *r, const cairn_recall_source *source,
                                cairn_chat_prompt **ret_prompt, cairn_tokens *ret_tokens, bool *ret_again,
                                cairn_error *reterr)
{
    cairn_buf text;
    cairn_buf_init(&text, r->mem, SIZE_MAX / 4);
    if (r->count > 0 && write_request(r, source->request, &text) != CAIRN_OK)
        give_up(r);
    bool own = r->count > 0;
    *ret_again = false;
    cairn_status status =
        cairn_chat_render(source->chat, own ? cairn_buf_str(&text) : source->body,
                          own ? text.len_bytes : source->body_bytes, source->options, ret_prompt, reterr);
    cairn_buf_release(&text);
    if (status != CAIRN_OK) {
        *ret_again = own; /* what the template says of the client's own words counts */
        give_up(r);
        return own ? CAIRN_OK : status;
    }
    status = splice_prompt(r, source->vocab, *ret_prompt, ret_tokens, ret_again);
    if (status != CAIRN_OK || *ret_again) {
        cairn_chat_prompt_free(*ret_prompt);
        *ret_prompt = NULL;
    }
    return status == CAIRN_OK
               ? CAIRN_OK
               : cairn_error_set(reterr, status, "recall/render", "the prompt could not be tokenized");
}

cairn_status cairn_recall_render(cairn_recall *r, const cairn_recall_source *source,
                                 cairn_chat_prompt **ret_prompt, cairn_tokens *ret_tokens,
                                 cairn_error *reterr)
{
    bool again = true;
    for (int tries = 0; again; tries++) {
        if (tries == CAIRN_RECALL_RENDERS_MAX)
            give_up(r);
        cairn_status status = render_once(r, source, ret_prompt, ret_tokens, &again, reterr);
        if (status != CAIRN_OK)
            return status;
    }
    return CAIRN_OK;
}

/* --- afterwards -------------------------------------------------------------------------------------------------- */

void cairn_recall_boundaries(const cairn_recall *r, cairn_chat_boundary *list, size_t count)
{
    if (r->text == NULL)
        return;
    size_t next = 0;
    int64_t shift = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t offset = list[i].offset_bytes;
        while (next < r->count && r->items[next].end <= offset) {
            const cairn_recalled *item = &r->items[next++];
            shift += (int64_t)item->text_bytes - (int64_t)(item->end - item->begin);
        }
        if (next < r->count && offset > r->items[next].begin)
            offset = r->items[next].begin; /* inside an answer that is written otherwise: at its start */
        list[i].offset_bytes = (uint64_t)((int64_t)offset + shift);
    }
}

void cairn_recall_notes(const cairn_recall *r, json_t **notes)
{
    size_t said = 0;
    for (size_t i = 0; i < r->count && said < CAIRN_RECALL_NOTES_MAX; i++) {
        const cairn_recalled *item = &r->items[r->count - 1 - i]; /* the newest first */
        if (!item->rewritten && !item->retokenized)
            continue;
        if (*notes == NULL)
            *notes = json_array();
        json_array_append_new(*notes,
                              json_pack("{s:s, s:I, s:I, s:I, s:s, s:s}", "rule", "answer", "message",
                                        (json_int_t)item->message, "position", (json_int_t)item->first_token,
                                        "tokens", (json_int_t)item->answer->count_tokens, "differed",
                                        item->rewritten ? "text" : "tokens", "done", "generated tokens"));
        said++;
    }
}

void cairn_recall_keep(cairn_recall *r, const cairn_namespace *space, const cairn_chat_prompt *prompt,
                       const cairn_tokens *prompt_tokens, const cairn_chat_text *message,
                       const cairn_token *tokens, uint32_t count)
{
    if (r->answers == NULL)
        return;
    const cairn_answer_kept kept = {
        .origin = {.text = cairn_hash_bytes(prompt->text, prompt->text_bytes),
                   .text_bytes = prompt->text_bytes,
                   .chain = cairn_hash_chain_tokens(CAIRN_HASH_CHAIN_SEED, prompt_tokens->items,
                                                    prompt_tokens->count),
                   .count_tokens = prompt_tokens->count},
        .message = message->text,
        .message_bytes = message->bytes,
        .tokens = tokens,
        .count_tokens = count};
    cairn_answers_keep(r->answers, space, r->conversation, &kept);
}
