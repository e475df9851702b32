/*
 * excerpt - see the header.
 */
#include "serve/excerpt.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "serve/json_answer.h"

/* Tokens as text, cut to the room at a token's end. Begins of characters that were cut become U+FFFD later. */
static void write_text(const cairn_llama_vocab *vocab, const cairn_token *tokens, uint32_t count,
                       char text[CAIRN_EXCERPT_BYTES])
{
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        char piece[CAIRN_PIECE_BYTES_MAX];
        uint32_t n = 0;
        if (cairn_llama_piece(vocab, tokens[i], true, piece, sizeof piece, &n) != CAIRN_OK)
            continue;
        if (used + n >= CAIRN_EXCERPT_BYTES)
            break;
        memcpy(text + used, piece, n);
        used += n;
    }
    text[used] = '\0';
}

static uint32_t at_most(uint32_t count)
{
    return count < CAIRN_EXCERPT_TOKENS ? count : CAIRN_EXCERPT_TOKENS;
}

void cairn_excerpt_sides(cairn_excerpt *excerpt, const cairn_llama_vocab *vocab,
                         const cairn_excerpt_side *known, const cairn_excerpt_side *given, uint32_t position)
{
    uint32_t back = at_most(position);
    excerpt->there = true;
    excerpt->position = position;
    write_text(vocab, given->tokens + (position - back), back, excerpt->before);
    write_text(vocab, known->tokens + position, at_most(known->count - position), excerpt->known);
    write_text(vocab, given->tokens + position, at_most(given->count - position), excerpt->given);
}

void cairn_excerpt_take(cairn_excerpt *excerpt, const cairn_cache *cache, const cairn_llama_vocab *vocab,
                        const cairn_prompt *prompt)
{
    cairn_token known[CAIRN_EXCERPT_TOKENS];
    uint32_t position = 0;
    uint32_t count = cairn_cache_beside(cache, prompt, &position, known, CAIRN_EXCERPT_TOKENS);
    if (count == 0 || position >= prompt->count)
        return;
    uint32_t back = at_most(position);
    excerpt->there = true;
    excerpt->position = position;
    write_text(vocab, prompt->tokens + (position - back), back, excerpt->before);
    write_text(vocab, known, count, excerpt->known);
    write_text(vocab, prompt->tokens + position, at_most(prompt->count - position), excerpt->given);
}

/* --- what it suggests -------------------------------------------------------------------------------------------- */

/* The number that the text begins with, up to three characters on: "4:07" -> true. */
static bool begins_with_digit(const char *text)
{
    for (int i = 0; i < 3 && text[i] != '\0'; i++) {
        if (isdigit((unsigned char)text[i]))
            return true;
        if (text[i] != ' ' && text[i] != ':' && text[i] != '-')
            return false;
    }
    return false;
}

/* Words are in lower case. */
static bool contains_any(const char *text, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        size_t n = strlen(words[i]);
        for (const char *at = text; *at != '\0'; at++) {
            if (strncasecmp(at, words[i], n) == 0)
                return true;
        }
    }
    return false;
}

static bool only_blanks_differ(const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return false;
    size_t same = 0;
    while (*a != '\0' && *b != '\0') {
        if (isspace((unsigned char)*a)) {
            a++;
        } else if (isspace((unsigned char)*b)) {
            b++;
        } else if (*a == *b) {
            a++;
            b++;
            same++;
        } else {
            return false;
        }
    }
    return same >= 8;
}

const char *cairn_excerpt_hint(const char *before, const char *known, const char *given, uint8_t role)
{
    static const char *const times[] = {"date",     "time",    "today",     "now",      "clock",
                                        "monday",   "tuesday", "wednesday", "thursday", "friday",
                                        "saturday", "sunday",  "202",       NULL};
    static const char *const tools[] = {"\"function\"", "\"parameters\"", "\"description\"",
                                        "<tools>",      "\"properties\"", NULL};
    if (only_blanks_differ(known, given)) {
        return "The two texts differ in blanks or line ends only. Send earlier messages back as they were, "
               "without "
               "trimming or formatting them.";
    }
    if (role == CAIRN_ROLE_SYSTEM || role == CAIRN_ROLE_NONE) {
        if (contains_any(before, tools) || (contains_any(known, tools) && contains_any(given, tools))) {
            return "The list of tools changed or came in another order. Keep tools and their order the same "
                   "for the "
                   "whole conversation; everything after them is read again otherwise.";
        }
        if (contains_any(before, times) && (begins_with_digit(known) || begins_with_digit(given))) {
            return "The system prompt holds a date or time that changes. Put it into the last user message, "
                   "or keep "
                   "it fixed for the conversation.";
        }
        if (begins_with_digit(known) && begins_with_digit(given)) {
            return "The system prompt holds a number that changes from request to request (a counter, an id, "
                   "a "
                   "time). Put it into the last user message, or leave it out.";
        }
        /* Another conversation begins differently at once; that is nobody's mistake. */
        if (strlen(before) < 64)
            return NULL;
        return "The system prompt changed, so that everything after the change is read. Keep it the same for "
               "the "
               "whole conversation, and put what changes into the last user message.";
    }
    if (role == CAIRN_ROLE_ASSISTANT) {
        if (strstr(known, "<think") != NULL && strstr(given, "<think") == NULL) {
            return "Reasoning of an earlier answer was left out. Send it back as it came "
                   "(reasoning_content), or let "
                   "the server's template drop it in the same way each time.";
        }
        if (strstr(known, "tool_call") != NULL || strchr(known, '{') != NULL) {
            return "The arguments of an earlier tool call were written anew (blanks, order of fields, "
                   "numbers). Send "
                   "them back as the text that came.";
        }
    }
    if (role == CAIRN_ROLE_TOOL) {
        return "An earlier tool result was changed or cleared. What comes after it is read again; clear many "
               "results "
               "at once rather than one a turn.";
    }
    return NULL;
}

json_t *cairn_excerpt_json(const cairn_excerpt *excerpt, const cairn_record *record)
{
    json_t *out = json_object();
    if (!excerpt->there || out == NULL)
        return out;
    json_object_set_new(out, "excerpt",
                        json_pack("{s:I, s:o, s:o, s:o}", "position", (json_int_t)excerpt->position, "before",
                                  cairn_json_string(excerpt->before, strlen(excerpt->before)), "known",
                                  cairn_json_string(excerpt->known, strlen(excerpt->known)), "given",
                                  cairn_json_string(excerpt->given, strlen(excerpt->given))));
    const char *hint =
        cairn_excerpt_hint(excerpt->before, excerpt->known, excerpt->given, record->divergence_role);
    if (hint != NULL)
        json_object_set_new(out, "hint", json_string(hint));
    return out;
}
