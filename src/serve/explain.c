/*
 * explain - see the header.
 */
#include "serve/explain.h"

#include <string.h>

#include "core/core.h"
#include "serve/anthropic.h"
#include "serve/json_answer.h"
#include "serve/responses.h"
#include "serve/tokens.h"

enum { CUTS_MAX = 65536 };

/* --- one side ---------------------------------------------------------------------------------------------------- */

typedef struct side {
    json_t *body; /* in chat completions' form */
    cairn_chat_prompt *prompt;
    cairn_tokens tokens;
    cairn_boundary *boundaries;
    uint32_t room, count;
} side;

static void side_release(const cairn_mem *mem, side *s)
{
    json_decref(s->body);
    cairn_mem_array_release(mem, s->boundaries, s->room, sizeof *s->boundaries);
    cairn_tokens_release(mem, &s->tokens);
    cairn_chat_prompt_free(s->prompt);
}

/* Does a message have a part that only the Messages API has? */
static bool is_anthropic(const json_t *body)
{
    if (json_object_get(body, "system") != NULL || json_object_get(body, "anthropic_version") != NULL)
        return true;
    size_t i, k;
    json_t *message, *part;
    json_array_foreach(json_object_get(body, "messages"), i, message)
    {
        json_array_foreach(json_object_get(message, "content"), k, part)
        {
            const char *type = json_string_value(json_object_get(part, "type"));
            if (type != NULL && (strcmp(type, "tool_use") == 0 || strcmp(type, "tool_result") == 0 ||
                                 strcmp(type, "thinking") == 0))
                return true;
        }
    }
    return false;
}

static json_t *to_chat(const json_t *body, cairn_api_error *error)
{
    if (!json_is_object(body)) {
        cairn_api_error_bad(error, "", "The body must be a JSON object.");
        return NULL;
    }
    if (json_object_get(body, "messages") == NULL && json_object_get(body, "input") != NULL) {
        cairn_responses_request made;
        if (!cairn_responses_to_chat(body, NULL, &made, error))
            return NULL;
        json_t *chat = json_incref(made.chat);
        cairn_responses_release(&made);
        return chat;
    }
    if (is_anthropic(body))
        return cairn_anthropic_to_chat(body, CAIRN_ANTHROPIC_COUNT, error);
    if (!json_is_array(json_object_get(body, "messages"))) {
        cairn_api_error_bad(error, "messages", "messages is missing: a request of a chat is needed.");
        return NULL;
    }
    return json_incref((json_t *)body);
}

static void render(const cairn_explain_options *o, side *s, cairn_api_error *error)
{
    cairn_chat_options options = {
        .now_s = o->now_s, .thinking_off = o->thinking_off, .request_bytes_max = SIZE_MAX / 2};
    cairn_error cause = {0};
    cairn_buf text;
    cairn_buf_init(&text, o->mem, SIZE_MAX / 4);
    cairn_status status = cairn_json_write(&text, json_incref(s->body));
    if (status == CAIRN_OK) {
        status =
            cairn_chat_render(o->chat, cairn_buf_str(&text), text.len_bytes, &options, &s->prompt, &cause);
    }
    cairn_buf_release(&text);
    if (status == CAIRN_OK) {
        status = cairn_tokens_of(o->mem, o->vocab, s->prompt->text, s->prompt->text_bytes,
                                 CAIRN_TOKENS_ADD_SPECIAL | CAIRN_TOKENS_PARSE_SPECIAL, &s->tokens);
    }
    if (status == CAIRN_OK && s->prompt->count_boundaries > 0) {
        s->room = (uint32_t)s->prompt->count_boundaries;
        s->boundaries = cairn_mem_array(o->mem, s->room, sizeof *s->boundaries);
        status = s->boundaries == NULL ? CAIRN_NOMEM
                                       : cairn_tokens_boundaries(o->mem, o->vocab, s->prompt, &s->tokens,
                                                                 s->boundaries, &s->count);
    }
    if (status != CAIRN_OK && cause.detail[0] != '\0') {
        cairn_api_error_bad(error, "", "%s", cause.detail);
    } else if (status != CAIRN_OK) {
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "%s", cairn_status_message(status));
    }
}

/* --- the comparison ---------------------------------------------------------------------------------------------- */

/* The newest canonical cut of A's reading that B can be resumed from. */
static uint32_t resume_of(const cairn_explain_options *o, const side *a, uint32_t common, uint32_t tokens_b)
{
    uint32_t limit = common < tokens_b ? common : tokens_b - 1;
    if (common >= a->tokens.count && a->tokens.count < tokens_b)
        return a->tokens.count; /* the slot itself */
    cairn_core_options options = {.batch_tokens_max = o->batch_tokens_max,
                                  .grid_tokens = o->batch_tokens_max,
                                  .cut_tokens_min = o->batch_tokens_max < 32 ? o->batch_tokens_max : 32};
    cairn_prompt prompt = {.tokens = a->tokens.items,
                           .count = a->tokens.count,
                           .boundaries = a->boundaries,
                           .count_boundaries = a->count};
    uint32_t *cuts = cairn_mem_array(o->mem, CUTS_MAX, sizeof *cuts);
    if (cuts == NULL)
        return 0;
    uint32_t count = cairn_core_cuts(&options, &prompt, cuts, CUTS_MAX), found = 0;
    for (uint32_t i = 0; i < count && i < CUTS_MAX && cuts[i] <= limit; i++)
        found = cuts[i];
    cairn_mem_array_release(o->mem, cuts, CUTS_MAX, sizeof *cuts);
    return found;
}

static void find_place(const side *s, cairn_explanation *e)
{
    /* A start at 0 is no boundary: before the first one it is the first message. */
    const char *first =
        json_string_value(json_object_get(json_array_get(json_object_get(s->body, "messages"), 0), "role"));
    bool system = first != NULL && (strcmp(first, "system") == 0 || strcmp(first, "developer") == 0);
    e->role = system                                        ? CAIRN_ROLE_SYSTEM
              : first != NULL && strcmp(first, "user") == 0 ? CAIRN_ROLE_USER
                                                            : CAIRN_ROLE_NONE;
    for (uint32_t i = 0; i < s->count && s->boundaries[i].position <= e->common; i++) {
        if ((s->boundaries[i].kinds & (CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_OPENER)) == 0)
            continue;
        e->message = s->boundaries[i].message;
        e->role = s->boundaries[i].role;
    }
}

bool cairn_explain(const cairn_explain_options *o, const json_t *a, const json_t *b, cairn_explanation *ret,
                   cairn_api_error *error, int *ret_which)
{
    const json_t *bodies[] = {a, b};
    side sides[2] = {0};
    memset(ret, 0, sizeof *ret);
    ret->cause_message = -1;
    for (int i = 0; i < 2 && error->http == 0; i++) {
        *ret_which = i;
        sides[i].body = to_chat(bodies[i], error);
        if (sides[i].body != NULL)
            render(o, &sides[i], error);
        ret->system_apart = ret->system_apart || json_object_get(bodies[i], "system") != NULL ||
                            json_object_get(bodies[i], "instructions") != NULL;
    }
    if (error->http == 0) {
        const cairn_tokens *ta = &sides[0].tokens, *tb = &sides[1].tokens;
        uint32_t shorter = ta->count < tb->count ? ta->count : tb->count;
        while (ret->common < shorter && ta->items[ret->common] == tb->items[ret->common])
            ret->common++;
        ret->tokens[0] = ta->count;
        ret->tokens[1] = tb->count;
        ret->least = ret->common < tb->count ? tb->count - ret->common : 1;
        ret->extends = ret->common == ta->count && tb->count > ta->count;
        ret->resume = resume_of(o, &sides[0], ret->common, tb->count);
        find_place(&sides[0], ret);
        uint32_t first_user = 0;
        bool in_opener = ret->common >= ta->count;
        for (uint32_t i = 0; i < sides[0].count; i++) {
            const cairn_boundary *at = &sides[0].boundaries[i];
            if (first_user == 0 && at->role == CAIRN_ROLE_USER)
                first_user = at->position;
            if ((at->kinds & CAIRN_BOUNDARY_OPENER) != 0 && at->position <= ret->common)
                in_opener = true;
        }
        ret->cause = ta->count == tb->count && ret->common == ta->count
                         ? CAIRN_CAUSE_SAME
                         : cairn_explain_cause(sides[0].body, sides[1].body, ret->common < first_user,
                                               in_opener, &ret->cause_message);
        const cairn_excerpt_side known = {ta->items, ta->count}, given = {tb->items, tb->count};
        cairn_excerpt_sides(&ret->excerpt, o->vocab, &known, &given, ret->common);
    }
    for (int i = 0; i < 2; i++)
        side_release(o->mem, &sides[i]);
    return error->http == 0;
}
