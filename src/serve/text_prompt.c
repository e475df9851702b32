/*
 * text_prompt - see the header. A prompt is gathered piece by piece in a `gather`: token ids as they are, texts
 * tokenized, the model's begin token before a text that stands first.
 */
#include "serve/text_prompt.h"

#include <stdio.h>
#include <string.h>

#include "serve/json_fields.h"

typedef struct gather {
    const cairn_llama_vocab *vocab;
    cairn_job *job;
    cairn_api_error *error;
    cairn_buf tokens; /* cairn_token[] */
} gather;

static void no_memory(cairn_api_error *error)
{
    cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
}

static bool failed(const gather *g)
{
    return g->error->http != 0;
}

static void add_token(gather *g, cairn_token token)
{
    if (cairn_buf_append(&g->tokens, &token, sizeof token) != CAIRN_OK)
        no_memory(g->error);
}

static void add_text(gather *g, const char *text, size_t len_bytes, bool special)
{
    cairn_tokens tokens = {0};
    unsigned flags = special ? CAIRN_TOKENS_PARSE_SPECIAL : 0;
    if (g->tokens.len_bytes == 0 && special)
        flags |= CAIRN_TOKENS_ADD_SPECIAL;
    if (len_bytes == 0 && flags == 0)
        return;
    cairn_status status = cairn_tokens_of(g->job->mem, g->vocab, text, len_bytes, flags, &tokens);
    if (status == CAIRN_OK && tokens.count > 0)
        status = cairn_buf_append(&g->tokens, tokens.items, tokens.count * sizeof *tokens.items);
    cairn_tokens_release(g->job->mem, &tokens);
    if (status != CAIRN_OK)
        cairn_api_error_set(g->error, 503, "unavailable_error", NULL, "The prompt could not be tokenized.");
}

/* With echo the prompt's text stands before its answer. */
static void keep_echo(gather *g, cairn_job_text *text, const json_t *value)
{
    if (!g->job->params.echo || failed(g))
        return;
    uint32_t len = 0;
    if (json_is_string(value)) {
        text->echo_bytes = json_string_length(value);
        text->echo = cairn_mem_dup(g->job->mem, json_string_value(value), text->echo_bytes);
    } else if (cairn_llama_detokenize(g->vocab, text->tokens.items, text->tokens.count, true, NULL, 0,
                                      &len) == CAIRN_LIMIT) {
        text->echo_bytes = len;
        text->echo = cairn_mem_alloc(g->job->mem, len);
        if (text->echo != NULL && cairn_llama_detokenize(g->vocab, text->tokens.items, text->tokens.count,
                                                         true, text->echo, len, &len) != CAIRN_OK)
            no_memory(g->error);
    }
    if (text->echo_bytes > 0 && text->echo == NULL) {
        text->echo_bytes = 0;
        no_memory(g->error);
    }
}

/* What was gathered becomes a prompt; `field` names it. */
static void take(gather *g, cairn_job_text *text, const char *field)
{
    if (!failed(g) && g->tokens.len_bytes == 0)
        cairn_api_error_bad(g->error, field, "%s is empty.", field);
    if (!failed(g)) {
        text->tokens.count = (uint32_t)(g->tokens.len_bytes / sizeof(cairn_token));
        text->tokens.items = cairn_mem_array(g->job->mem, text->tokens.count, sizeof(cairn_token));
        if (text->tokens.items != NULL) {
            memcpy(text->tokens.items, g->tokens.bytes, g->tokens.len_bytes);
        } else {
            text->tokens.count = 0;
            no_memory(g->error);
        }
    }
    cairn_buf_reset(&g->tokens);
}

/* Token ids, with texts between them if need be. */
static void add_list(gather *g, const json_t *list, const char *field)
{
    uint32_t vocab_size = cairn_llama_vocab_size(g->vocab);
    for (size_t i = 0; i < json_array_size(list) && !failed(g); i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t id = json_integer_value(item);
        char place[64];
        if (json_is_string(item)) {
            add_text(g, json_string_value(item), json_string_length(item), true);
        } else if (json_is_integer(item) && id >= 0 && id < (json_int_t)vocab_size) {
            add_token(g, (cairn_token)id);
        } else {
            (void)snprintf(place, sizeof place, "%s[%zu]", field, i);
            cairn_api_error_bad(g->error, place, "%s must be a token id between 0 and %u, or a text.", place,
                                vocab_size - 1);
        }
    }
}

static void read_one(gather *g, const json_t *value, cairn_job_text *text, const char *field)
{
    if (json_is_string(value)) {
        add_text(g, json_string_value(value), json_string_length(value), true);
    } else if (json_is_array(value)) {
        add_list(g, value, field);
    } else {
        cairn_api_error_bad(g->error, field, "%s must be a string or a list of token ids, not %s.", field,
                            cairn_json_type_name(value));
    }
    take(g, text, field);
    keep_echo(g, text, value);
}

/* A list of prompts, not a list of tokens? Ids make it one prompt. */
static bool is_several(const json_t *prompt)
{
    for (size_t i = 0; i < json_array_size(prompt); i++) {
        if (json_is_number(json_array_get(prompt, i)))
            return false;
    }
    return json_array_size(prompt) > 0;
}

static bool make_room(gather *g, size_t count)
{
    if (count > CAIRN_TEXT_PROMPTS_MAX) {
        cairn_api_error_bad(g->error, "prompt",
                            "prompt has %zu prompts; at most %d are answered in a request.", count,
                            (int)CAIRN_TEXT_PROMPTS_MAX);
        return false;
    }
    g->job->texts = cairn_mem_array(g->job->mem, count, sizeof *g->job->texts);
    if (g->job->texts == NULL) {
        no_memory(g->error);
        return false;
    }
    g->job->count_texts = (uint32_t)count;
    return true;
}

/* --- a gap ------------------------------------------------------------------------------------------------------- */

static bool has_fim(gather *g, const char *field, cairn_llama_fim *ret_fim)
{
    *ret_fim = cairn_llama_fim_get(g->vocab);
    if (ret_fim->prefix >= 0 && ret_fim->suffix >= 0 && ret_fim->middle >= 0)
        return true;
    cairn_api_error_bad(g->error, field,
                        "This model can't fill gaps: its vocabulary has no tokens for prefix, suffix and "
                        "middle.");
    return false;
}

/* The model's begin token, where it wants one before every prompt. */
static void add_begin(gather *g)
{
    if (cairn_llama_adds_bos(g->vocab) && cairn_llama_bos(g->vocab) >= 0)
        add_token(g, cairn_llama_bos(g->vocab));
}

static void add_string(gather *g, const json_t *text)
{
    if (json_is_string(text))
        add_text(g, json_string_value(text), json_string_length(text), false);
}

static void read_suffix(gather *g, const json_t *prompt, const json_t *suffix)
{
    cairn_llama_fim fim;
    if (!json_is_string(suffix)) {
        cairn_api_error_bad(g->error, "suffix", "suffix must be a string, not %s.",
                            cairn_json_type_name(suffix));
    } else if (!json_is_string(prompt)) {
        cairn_api_error_bad(g->error, "suffix", "suffix needs a prompt that is one string.");
    } else if (has_fim(g, "suffix", &fim) && make_room(g, 1)) {
        add_begin(g);
        add_token(g, fim.prefix);
        add_string(g, prompt);
        add_token(g, fim.suffix);
        add_string(g, suffix);
        add_token(g, fim.middle);
        take(g, &g->job->texts[0], "prompt");
        keep_echo(g, &g->job->texts[0], prompt);
    }
}

/* Other files, so that the model knows them: {"filename":..,"text":..}. */
static void add_files(gather *g, const json_t *files, const cairn_llama_fim *fim)
{
    if (json_array_size(files) > 0 && fim->repository >= 0) {
        add_token(g, fim->repository);
        add_text(g, "project\n", 8, false);
    }
    for (size_t i = 0; i < json_array_size(files) && !failed(g); i++) {
        const json_t *file = json_array_get(files, i), *text = json_object_get(file, "text"),
                     *name = json_object_get(file, "filename");
        char place[48];
        if (!json_is_string(text) || (name != NULL && !json_is_string(name))) {
            (void)snprintf(place, sizeof place, "input_extra[%zu]", i);
            cairn_api_error_bad(g->error, place, "%s needs a text, and may have a filename: both strings.",
                                place);
            return;
        }
        if (fim->file >= 0)
            add_token(g, fim->file);
        add_string(g, name);
        add_text(g, "\n", 1, false);
        add_string(g, text);
        add_text(g, "\n", 1, false);
    }
}

void cairn_infill_read(const cairn_llama_vocab *vocab, cairn_job *job, cairn_api_error *error)
{
    gather g = {.vocab = vocab, .job = job, .error = error};
    cairn_llama_fim fim;
    const char *prefix = NULL, *suffix = NULL, *prompt = NULL;
    const json_t *files = NULL;
    cairn_buf_init(&g.tokens, job->mem, SIZE_MAX / 4);
    cairn_json_text(job->json, "input_prefix", &prefix, error);
    cairn_json_text(job->json, "input_suffix", &suffix, error);
    cairn_json_text(job->json, "prompt", &prompt, error);
    cairn_json_array(job->json, "input_extra", &files, error);
    if (!failed(&g) && prefix == NULL)
        cairn_api_error_bad(error, "input_prefix", "input_prefix is missing.");
    if (!failed(&g) && suffix == NULL)
        cairn_api_error_bad(error, "input_suffix", "input_suffix is missing.");
    if (!failed(&g) && has_fim(&g, "input_prefix", &fim) && make_room(&g, 1)) {
        add_begin(&g);
        add_files(&g, files, &fim);
        add_token(&g, fim.prefix);
        add_string(&g, json_object_get(job->json, "input_prefix"));
        add_string(&g, json_object_get(job->json, "prompt"));
        add_token(&g, fim.suffix);
        add_string(&g, json_object_get(job->json, "input_suffix"));
        add_token(&g, fim.middle);
        take(&g, &job->texts[0], "input_prefix");
    }
    cairn_buf_release(&g.tokens);
}

/* --- all --------------------------------------------------------------------------------------------------------- */

void cairn_text_prompts_read(const cairn_llama_vocab *vocab, cairn_job *job, cairn_api_error *error)
{
    gather g = {.vocab = vocab, .job = job, .error = error};
    const json_t *prompt = json_object_get(job->json, "prompt"),
                 *suffix = json_object_get(job->json, "suffix");
    bool gap = suffix != NULL && !json_is_null(suffix) &&
               !(json_is_string(suffix) && json_string_length(suffix) == 0);
    cairn_buf_init(&g.tokens, job->mem, SIZE_MAX / 4);
    if (prompt == NULL || json_is_null(prompt)) {
        cairn_api_error_bad(error, "prompt", "prompt is missing.");
    } else if (gap) {
        read_suffix(&g, prompt, suffix);
    } else if (is_several(prompt)) {
        size_t count = json_array_size(prompt);
        bool good = make_room(&g, count);
        for (size_t i = 0; good && i < count && !failed(&g); i++) {
            char field[32];
            (void)snprintf(field, sizeof field, "prompt[%zu]", i);
            read_one(&g, json_array_get(prompt, i), &job->texts[i], field);
        }
    } else if (make_room(&g, 1)) {
        read_one(&g, prompt, &job->texts[0], "prompt");
    }
    cairn_buf_release(&g.tokens);
}
