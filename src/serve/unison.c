/*
 * unison - see the header.
 */
#include "serve/unison.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/lock.h"

struct cairn_unison {
    cairn_unisons *home;
    cairn_unison *next; /* in the list: guarded by its lock, as `members` is */
    uint32_t members;
    cairn_digest key;
    cairn_buf chosen; /* cairn_token[] */
};

void cairn_unisons_init(cairn_unisons *list, const cairn_mem *mem, uint32_t answer_tokens_max)
{
    memset(list, 0, sizeof *list);
    list->mem = mem;
    list->answer_tokens_max = answer_tokens_max;
    cairn_lock_init(&list->lock);
}

void cairn_unisons_release(cairn_unisons *list)
{
    CAIRN_ASSERT(list->first == NULL);
    (void)pthread_mutex_destroy(&list->lock);
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

/* A length goes first, so that no two lists of parts are the same bytes. */
static void take_in(cairn_digest_stream *stream, const void *bytes, size_t len_bytes)
{
    uint64_t length = len_bytes;
    cairn_digest_stream_update(stream, &length, sizeof length);
    cairn_digest_stream_update(stream, bytes, len_bytes);
}

static void take_text(cairn_digest_stream *stream, const char *text)
{
    take_in(stream, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

/* A grammar's text, when it begins, and what it takes as given. */
static void take_grammar(cairn_digest_stream *stream, const cairn_sampler_settings *settings)
{
    const cairn_chat_prompt *prompt = settings->prompt;
    if (prompt == NULL) {
        take_text(stream, settings->grammar);
        return;
    }
    const uint8_t kinds[] = {prompt->grammar_lazy, prompt->grammar_from_user};
    take_text(stream, prompt->grammar);
    take_in(stream, kinds, sizeof kinds);
    take_text(stream, prompt->opener);
    for (size_t i = 0; i < prompt->count_triggers; i++) {
        const int32_t kind = (int32_t)prompt->triggers[i].kind;
        take_in(stream, &kind, sizeof kind);
        take_text(stream, prompt->triggers[i].text);
    }
}

cairn_status cairn_unison_key(const cairn_mem *mem, const cairn_prompt *prompt,
                              const cairn_sampler_settings *settings, cairn_digest *ret_key)
{
    static_assert(sizeof(cairn_sampler_bias) == sizeof(cairn_token) + sizeof(float), "has no gaps");
    const float numbers[] = {settings->repeat_penalty, settings->presence_penalty,
                             settings->frequency_penalty};
    const int32_t choices[] = {settings->repeat_last_n, settings->ignore_eos, (int32_t)prompt->mode};
    cairn_digest_stream *stream = cairn_digest_stream_new(mem);
    if (stream == NULL)
        return CAIRN_NOMEM;
    take_in(stream, prompt->space.bytes, sizeof prompt->space.bytes);
    take_in(stream, prompt->tokens, prompt->count * sizeof prompt->tokens[0]);
    take_in(stream, numbers, sizeof numbers);
    take_in(stream, choices, sizeof choices);
    take_in(stream, settings->bias, settings->count_bias * sizeof settings->bias[0]);
    take_grammar(stream, settings);
    cairn_status status = cairn_digest_stream_finish(stream, ret_key);
    cairn_digest_stream_free(stream);
    return status;
}

/* --- members ----------------------------------------------------------------------------------------------------- */

/* The lock is held. */
static cairn_unison *find(const cairn_unisons *list, const cairn_digest *key)
{
    cairn_unison *u = list->first;
    while (u != NULL && memcmp(&u->key, key, sizeof *key) != 0)
        u = u->next;
    return u;
}

cairn_unison *cairn_unison_join(cairn_unisons *list, const cairn_digest *key)
{
    cairn_lock(&list->lock);
    cairn_unison *u = find(list, key);
    if (u == NULL)
        u = cairn_mem_zalloc(list->mem, sizeof *u);
    if (u != NULL && u->members++ == 0) {
        u->home = list;
        u->key = *key;
        cairn_buf_init(&u->chosen, list->mem, list->answer_tokens_max * sizeof(cairn_token));
        u->next = list->first;
        list->first = u;
    }
    cairn_unlock(&list->lock);
    return u;
}

void cairn_unison_leave(cairn_unison *unison)
{
    if (unison == NULL)
        return;
    cairn_unisons *list = unison->home;
    cairn_lock(&list->lock);
    CAIRN_ASSERT(unison->members > 0);
    bool last = --unison->members == 0;
    for (cairn_unison **at = &list->first; last && *at != NULL;) {
        if (*at == unison)
            *at = unison->next;
        else
            at = &(*at)->next;
    }
    cairn_unlock(&list->lock);
    if (last) {
        cairn_buf_release(&unison->chosen);
        cairn_mem_release(list->mem, unison, sizeof *unison);
    }
}

/* --- tokens ------------------------------------------------------------------------------------------------------ */

static uint32_t count_chosen(const cairn_unison *unison)
{
    return (uint32_t)(unison->chosen.len_bytes / sizeof(cairn_token));
}

bool cairn_unison_get(const cairn_unison *unison, uint32_t index, cairn_token *ret_token)
{
    if (unison == NULL || index >= count_chosen(unison))
        return false;
    memcpy(ret_token, unison->chosen.bytes + (size_t)index * sizeof *ret_token, sizeof *ret_token);
    return true;
}

void cairn_unison_note(cairn_unison *unison, uint32_t index, cairn_token token)
{
    if (unison == NULL || index != count_chosen(unison))
        return;
    /* no room: the tokens from here on stay each request's own */
    (void)!cairn_buf_append(&unison->chosen, &token, sizeof token);
}
