/*
 * token_routes - text to tokens and back, and the template alone, with llama-server's fields.
 */
#include <stdio.h>
#include <string.h>

#include "serve/json_answer.h"
#include "serve/json_fields.h"
#include "serve/serve_inside.h"
#include "serve/tokens.h"
#include "serve/utf8.h"

/* A token's text as a string; bytes that are no whole characters as a list of numbers, as llama-server does. */
static json_t *piece_json(const cairn_llama_vocab *vocab, cairn_token token)
{
    char text[CAIRN_PIECE_BYTES_MAX];
    uint32_t len = 0;
    if (cairn_llama_piece(vocab, token, true, text, sizeof text, &len) != CAIRN_OK)
        return json_string("");
    if (cairn_utf8_valid(text, len) == len)
        return json_stringn(text, len);
    json_t *bytes = json_array();
    for (uint32_t i = 0; i < len; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    return bytes;
}

void cairn_route_tokenize(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_api_error *error = &reply->error;
    const cairn_llama_vocab *vocab = serve->options.vocab;
    const char *content = NULL;
    bool add_special = false, parse_special = true, with_pieces = false;
    json_t *body = cairn_json_parse(request->body, request->body_bytes, error);
    if (body == NULL)
        return;
    cairn_json_text(body, "content", &content, error);
    cairn_json_boolean(body, "add_special", &add_special, error);
    cairn_json_boolean(body, "parse_special", &parse_special, error);
    cairn_json_boolean(body, "with_pieces", &with_pieces, error);
    if (error->http == 0 && content == NULL)
        cairn_api_error_bad(error, "content", "content is missing.");
    unsigned flags =
        (add_special ? CAIRN_TOKENS_ADD_SPECIAL : 0u) | (parse_special ? CAIRN_TOKENS_PARSE_SPECIAL : 0u);
    cairn_tokens tokens = {0};
    if (error->http == 0 && content != NULL &&
        cairn_tokens_of(serve->options.mem, vocab, content, strlen(content), flags, &tokens) != CAIRN_OK)
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "The text could not be tokenized.");
    if (error->http == 0) {
        json_t *list = json_array();
        for (uint32_t i = 0; i < tokens.count; i++) {
            cairn_token token = tokens.items[i];
            json_array_append_new(
                list, with_pieces ? json_pack("{s:i, s:o}", "id", token, "piece", piece_json(vocab, token))
                                  : json_integer(token));
        }
        cairn_reply_json(reply, json_pack("{s:o}", "tokens", list));
    }
    cairn_tokens_release(serve->options.mem, &tokens);
    json_decref(body);
}

/* Read token ids; NULL with an error set. cairn_token[json_array_size(list)], one at least. */
static cairn_token *read_ids(cairn_serve *serve, const json_t *list, cairn_api_error *error)
{
    size_t count = json_array_size(list);
    uint32_t vocab_size = cairn_llama_vocab_size(serve->options.vocab);
    cairn_token *tokens = cairn_mem_array(serve->options.mem, count, sizeof *tokens);
    if (tokens == NULL)
        cairn_api_error_set(error, 503, "unavailable_error", NULL, "out of memory");
    for (size_t i = 0; i < count && tokens != NULL && error->http == 0; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= (json_int_t)vocab_size) {
            cairn_api_error_bad(error, "tokens", "tokens[%zu] must be a token id between 0 and %u.", i,
                                vocab_size - 1);
        } else {
            tokens[i] = (cairn_token)id;
        }
    }
    if (error->http != 0 && tokens != NULL) {
        cairn_mem_array_release(serve->options.mem, tokens, count, sizeof *tokens);
        tokens = NULL;
    }
    return tokens;
}

/* The text of tokens; NULL when there is no memory. */
static json_t *detokenized(cairn_serve *serve, const cairn_token *tokens, uint32_t count)
{
    uint32_t len = 0;
    cairn_status status = cairn_llama_detokenize(serve->options.vocab, tokens, count, true, NULL, 0, &len);
    if (status != CAIRN_LIMIT) /* nothing to say, or a failure */
        return status == CAIRN_OK ? json_string("") : NULL;
    uint32_t room = len;
    char *text = cairn_mem_alloc(serve->options.mem, room);
    if (text == NULL)
        return NULL;
    json_t *value = NULL;
    if (cairn_llama_detokenize(serve->options.vocab, tokens, count, true, text, room, &len) == CAIRN_OK)
        value = cairn_json_string(text, len);
    cairn_mem_release(serve->options.mem, text, room);
    return value;
}

void cairn_route_detokenize(cairn_serve *serve, const cairn_http_request *request, cairn_http_reply *reply)
{
    cairn_api_error *error = &reply->error;
    const json_t *list = NULL;
    json_t *body = cairn_json_parse(request->body, request->body_bytes, error);
    if (body == NULL)
        return;
    cairn_json_array(body, "tokens", &list, error);
    if (error->http == 0 && list == NULL)
        cairn_api_error_bad(error, "tokens", "tokens is missing.");
    cairn_token *tokens = error->http == 0 ? read_ids(serve, list, error) : NULL;
    if (tokens != NULL) {
        cairn_reply_json(reply, json_pack("{s:o}", "content",
                                          detokenized(serve, tokens, (uint32_t)json_array_size(list))));
        cairn_mem_array_release(serve->options.mem, tokens, json_array_size(list), sizeof *tokens);
    }
    json_decref(body);
}

void cairn_route_apply_template(cairn_serve *serve, const cairn_http_request *request,
                                cairn_http_reply *reply)
{
    cairn_api_error *error = &reply->error;
    json_t *body = cairn_json_parse(request->body, request->body_bytes, error);
    if (body == NULL)
        return;
    const json_t *messages = NULL;
    cairn_json_array(body, "messages", &messages, error);
    if (error->http == 0 && json_array_size(messages) == 0)
        cairn_api_error_bad(error, "messages", "messages is missing or empty.");
    json_decref(body);
    if (error->http != 0)
        return;
    cairn_chat_options options = {.now_s = cairn_clock_wall_seconds(serve->options.clock),
                                  .thinking_off = serve->options.thinking_off,
                                  .kwargs_json = serve->options.template_kwargs_json,
                                  .request_bytes_max = serve->options.body_bytes_max};
    cairn_chat_prompt *prompt = NULL;
    cairn_error cause = {0};
    if (cairn_chat_render(serve->options.chat, request->body, request->body_bytes, &options, &prompt,
                          &cause) != CAIRN_OK) {
        cairn_render_error(error, &cause);
        return;
    }
    cairn_reply_json(reply,
                     json_pack("{s:o}", "prompt", cairn_json_string(prompt->text, prompt->text_bytes)));
    cairn_chat_prompt_free(prompt);
}
