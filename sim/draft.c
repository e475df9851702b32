/*
 * draft - writes requests token by token. It knows the frame of a chat template, and no client.
 */
#include "draft.h"

#include <string.h>

#include "base/hash.h"

#define TOKEN_SEED UINT64_C(0x6361697264726166)

void cairn_draft_init(cairn_draft *draft, const cairn_mem *mem)
{
    memset(draft, 0, sizeof *draft);
    draft->mem = mem;
    draft->last_user = CAIRN_WORKLOAD_NONE;
}

void cairn_draft_release(cairn_draft *draft)
{
    if (draft->mem == NULL) {
        return;
    }
    cairn_mem_array_release(draft->mem, draft->tokens, draft->room, sizeof *draft->tokens);
    cairn_mem_array_release(draft->mem, draft->boundaries, draft->room_boundaries, sizeof *draft->boundaries);
    memset(draft, 0, sizeof *draft);
}

void cairn_draft_clear(cairn_draft *draft)
{
    draft->count = 0;
    draft->count_boundaries = 0;
    draft->messages = 0;
    draft->last_user = CAIRN_WORKLOAD_NONE;
    draft->prompt_tokens = 0;
    draft->role = CAIRN_ROLE_NONE;
    draft->status = CAIRN_OK;
}

static bool room_for(cairn_draft *draft, uint32_t more)
{
    if (draft->status != CAIRN_OK) {
        return false;
    }
    uint64_t need = (uint64_t)draft->count + more;
    if (need <= draft->room) {
        return true;
    }
    uint64_t room = need + need / 2 + 1024;
    if (room > INT32_MAX) {
        draft->status = CAIRN_LIMIT;
        return false;
    }
    void *bigger =
        cairn_mem_array_resize(draft->mem, draft->tokens, draft->room, (size_t)room, sizeof *draft->tokens);
    if (bigger == NULL) {
        draft->status = CAIRN_NOMEM;
        return false;
    }
    draft->tokens = bigger;
    draft->room = (uint32_t)room;
    return true;
}

static void push(cairn_draft *draft, cairn_token token)
{
    if (room_for(draft, 1)) {
        draft->tokens[draft->count++] = token;
    }
}

static cairn_token token_of(const char *bytes, size_t len_bytes)
{
    return (cairn_token)(cairn_hash_bytes64(bytes, len_bytes, TOKEN_SEED) & INT32_MAX);
}

static bool is_letter(char c)
{
    unsigned char u = (unsigned char)c;
    return (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bytes of the token that begins at text[0]; len_bytes >= 1. */
static size_t token_length(const char *text, size_t len_bytes)
{
    size_t n = 1;
    if (is_letter(text[0]) || (text[0] == ' ' && len_bytes > 1 && is_letter(text[1]))) {
        while (n < len_bytes && is_letter(text[n])) {
            n++;
        }
    } else if (is_digit(text[0])) {
        while (n < len_bytes && n < 3 && is_digit(text[n])) {
            n++;
        }
    } else if (text[0] == '\n' || text[0] == '\r') {
        while (n < len_bytes && (text[n] == '\n' || text[n] == '\r')) {
            n++;
        }
    } else if (text[0] == ' ' || text[0] == '\t') {
        while (n < len_bytes && (text[n] == ' ' || text[n] == '\t')) {
            n++;
        }
        /* The last blank belongs to the word behind it. */
        if (n > 1 && n < len_bytes && text[n - 1] == ' ' && is_letter(text[n])) {
            n--;
        }
    }
    return n;
}

void cairn_draft_text(cairn_draft *draft, const char *text, size_t len_bytes)
{
    size_t at = 0;
    while (at < len_bytes) {
        size_t n = token_length(text + at, len_bytes - at);
        push(draft, token_of(text + at, n));
        at += n;
    }
}

void cairn_draft_str(cairn_draft *draft, const char *text)
{
    cairn_draft_text(draft, text, strlen(text));
}

void cairn_draft_mark(cairn_draft *draft, const char *mark)
{
    push(draft, token_of(mark, strlen(mark)));
}

void cairn_draft_tokens(cairn_draft *draft, const cairn_token *tokens, uint32_t count)
{
    if (count > 0 && room_for(draft, count)) {
        memcpy(draft->tokens + draft->count, tokens, (size_t)count * sizeof *tokens);
        draft->count += count;
    }
}

cairn_token cairn_draft_fill_token(uint64_t seed, uint32_t index)
{
    return (cairn_token)(cairn_hash_mix(seed * UINT64_C(0x9e3779b97f4a7c15) + index) & INT32_MAX);
}

void cairn_draft_fill(cairn_draft *draft, uint64_t seed, uint32_t count)
{
    if (!room_for(draft, count)) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        draft->tokens[draft->count++] = cairn_draft_fill_token(seed, i);
    }
}

void cairn_draft_boundary(cairn_draft *draft, uint16_t kinds)
{
    if (draft->status != CAIRN_OK) {
        return;
    }
    cairn_boundary *last =
        draft->count_boundaries > 0 ? &draft->boundaries[draft->count_boundaries - 1] : NULL;
    if (last != NULL && last->position == draft->count) {
        last->kinds |= kinds;
        if ((kinds & CAIRN_BOUNDARY_MESSAGE_START) != 0) {
            last->role = (uint8_t)draft->role;
            last->message = draft->messages;
        }
        return;
    }
    if (draft->count_boundaries == draft->room_boundaries) {
        uint32_t room = draft->room_boundaries + draft->room_boundaries / 2 + 64;
        void *bigger = cairn_mem_array_resize(draft->mem, draft->boundaries, draft->room_boundaries, room,
                                              sizeof *draft->boundaries);
        if (bigger == NULL) {
            draft->status = CAIRN_NOMEM;
            return;
        }
        draft->boundaries = bigger;
        draft->room_boundaries = room;
    }
    draft->boundaries[draft->count_boundaries++] = (cairn_boundary){
        .position = draft->count, .message = draft->messages, .kinds = kinds, .role = (uint8_t)draft->role};
}

static const char *role_name(cairn_role role)
{
    switch (role) {
    case CAIRN_ROLE_SYSTEM:
        return "system";
    case CAIRN_ROLE_ASSISTANT:
        return "assistant";
    case CAIRN_ROLE_TOOL:
        return "tool";
    case CAIRN_ROLE_USER:
    case CAIRN_ROLE_NONE:
    default:
        return "user";
    }
}

static void frame(cairn_draft *draft, cairn_role role)
{
    cairn_draft_mark(draft, "<|im_start|>");
    cairn_draft_str(draft, role_name(role));
    cairn_draft_str(draft, "\n");
}

void cairn_draft_open(cairn_draft *draft, cairn_role role)
{
    draft->role = role;
    if (role == CAIRN_ROLE_USER) {
        draft->last_user = draft->count;
    }
    cairn_draft_boundary(draft, CAIRN_BOUNDARY_MESSAGE_START);
    frame(draft, role);
}

void cairn_draft_close(cairn_draft *draft)
{
    cairn_draft_mark(draft, "<|im_end|>");
    cairn_draft_str(draft, "\n");
    draft->messages++;
}

void cairn_draft_message(cairn_draft *draft, cairn_role role, uint64_t seed, uint32_t count)
{
    cairn_draft_open(draft, role);
    cairn_draft_fill(draft, seed, count);
    cairn_draft_close(draft);
}

void cairn_draft_think_open(cairn_draft *draft)
{
    if (draft->prompt_tokens == 0) {
        cairn_draft_boundary(draft, CAIRN_BOUNDARY_THINK_START);
    }
    cairn_draft_mark(draft, "<think>");
}

void cairn_draft_think_close(cairn_draft *draft)
{
    cairn_draft_mark(draft, "</think>");
    cairn_draft_str(draft, "\n\n");
}

void cairn_draft_system_end(cairn_draft *draft)
{
    cairn_draft_boundary(draft, CAIRN_BOUNDARY_SYSTEM_END);
}

void cairn_draft_opener(cairn_draft *draft)
{
    draft->role = CAIRN_ROLE_ASSISTANT;
    cairn_draft_boundary(draft, CAIRN_BOUNDARY_OPENER);
    frame(draft, CAIRN_ROLE_ASSISTANT);
    draft->prompt_tokens = draft->count;
}

cairn_status cairn_draft_finish(cairn_draft *draft, cairn_workload_entry *ret_entry, cairn_error *reterr)
{
    const char *where = "sim/draft: finish";
    if (draft->status != CAIRN_OK) {
        return cairn_error_set(reterr, draft->status, where, NULL);
    }
    if (draft->prompt_tokens == 0) {
        return cairn_error_set(reterr, CAIRN_INVALID, where, "the request has no assistant opener");
    }
    for (uint32_t i = 0; i < draft->count_boundaries; i++) {
        if (draft->boundaries[i].position == draft->last_user) {
            draft->boundaries[i].kinds |= CAIRN_BOUNDARY_LAST_USER;
        }
    }
    memset(ret_entry, 0, sizeof *ret_entry);
    ret_entry->tokens = draft->tokens;
    ret_entry->prompt_tokens = draft->prompt_tokens;
    ret_entry->answer_tokens = draft->count - draft->prompt_tokens;
    ret_entry->boundaries = draft->boundaries;
    ret_entry->count_boundaries = draft->count_boundaries;
    return CAIRN_OK;
}
