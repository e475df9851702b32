/*
 * recall - a prompt in which answers that came back stand with the tokens that were generated.
 *
 *   turn 1    [ prompt .......... opener ][ {"a": 1, "b": 2} ]            the answer, as it was sampled
 *   turn 2    [ prompt .......... opener ][ {"a":1,"b":2} ][ closer, tool result, opener ]      as the client has it
 *   recalled  [ prompt .......... opener ][ {"a": 1, "b": 2} ][ closer, tool result, opener ]   extends what was read
 *
 * Three steps, each a proof:
 *   1. find    the message says what an answer said (answers.h). It is written back as it was generated
 *   2. splice  the text before it is the prompt that the answer was generated from, byte for byte and token for token,
 *              and the template renders what the answer holds, reasoning included. Else it is given up: the prompt is
 *              rendered again with the client's own words
 *   3.         the answer's tokens take the place of its text; everything else is tokenized as ever
 *
 * So nothing is put in place of reasoning that the template drops, or after an edit further up: there the text differs,
 * and the divergence is where it differs.
 *
 * Units    bytes of the rendered text, tokens
 * Owner    the struct is the caller's, one a request; it holds references to answers until release
 * Thread   one at a time
 * See      docs/internals/answers.md
 * Test     tests/serve/test_recall.c
 */
#ifndef CAIRN_RECALL_H
#define CAIRN_RECALL_H

#include "base/buf.h"
#include "serve/answers.h"
#include "serve/tokens.h"

enum { CAIRN_RECALL_RENDERS_MAX = 4, CAIRN_RECALL_NOTES_MAX = 16 };

/* One answer that came back. */
typedef struct cairn_recalled {
    uint32_t message;                /* index in the request's messages                              */
    const cairn_answer_kept *answer; /* a reference                                                  */
    json_t *parsed;                  /* its message                                                  */
    bool rewritten;                  /* the client's words were others                               */
    bool retokenized;                /* the same words would have had other tokens                     */
    bool in_place;
    size_t begin, end;    /* of the rendered text                                                   */
    uint32_t first_token; /* where its tokens stand in the prompt                                    */
    char *text;           /* char[text_bytes]: of its tokens                                        */
    size_t text_bytes;
} cairn_recalled;

typedef struct cairn_recall {
    const cairn_mem *mem;
    cairn_answers *answers;     /* NULL: nothing is recalled or kept for this request                  */
    cairn_hash128 conversation; /* with all of the request's messages                                  */
    cairn_recalled *items;      /* cairn_recalled[room], ascending messages, the first `count` in use   */
    size_t count, room;
    uint32_t count_in_place; /* that changed the prompt's tokens                                       */
    char *text;              /* char[text_bytes]: the prompt as its tokens say it; NULL: as it was rendered */
    size_t text_bytes;
} cairn_recall;

/* `answers` NULL: off. */
void cairn_recall_init(cairn_recall *recall, const cairn_mem *mem, cairn_answers *answers);
void cairn_recall_release(cairn_recall *recall);

/*
 * Look for answers among a request's messages.
 * Errors  CAIRN_NOMEM; nothing is recalled then
 */
CAIRN_MUST_CHECK cairn_status cairn_recall_find(cairn_recall *recall, const cairn_namespace *space,
                                                const json_t *messages);

/* A chat request, and what makes a prompt of it. */
typedef struct cairn_recall_source {
    const cairn_llama_vocab *vocab;
    const cairn_chat *chat;
    const cairn_chat_options *options;
    const json_t *request; /* the body, parsed                                                         */
    const char *body;      /* char[body_bytes]: rendered as it is when nothing is recalled                */
    size_t body_bytes;
} cairn_recall_source;

/*
 * The prompt of a request with the answers found in it as they were generated. What can't be put in place stands as
 * the client wrote it.
 *
 * After    CAIRN_OK: prompt and tokens are the caller's
 * Errors   those of cairn_chat_render for the client's own words; CAIRN_NOMEM, CAIRN_INVALID
 * Cost     one render; a second one when an answer was found and could not be put in place, at most
 *          CAIRN_RECALL_RENDERS_MAX + 1
 */
CAIRN_MUST_CHECK cairn_status cairn_recall_render(cairn_recall *recall, const cairn_recall_source *source,
                                                  cairn_chat_prompt **ret_prompt, cairn_tokens *ret_tokens,
                                                  cairn_error *reterr);

/* Move boundaries of the rendered text to where they stand in recall->text. Without one: nothing. */
void cairn_recall_boundaries(const cairn_recall *recall, cairn_chat_boundary *list, size_t count);

/* Say what was put in place: objects are appended to the list *notes, which is made when needed. */
void cairn_recall_notes(const cairn_recall *recall, json_t **notes);

/*
 * Remember the answer to this request.
 *
 *   message  [in]  JSON, what the client was given
 *   tokens   [in]  cairn_token[count], what was generated
 */
void cairn_recall_keep(cairn_recall *recall, const cairn_namespace *space, const cairn_chat_prompt *prompt,
                       const cairn_tokens *prompt_tokens, const cairn_chat_text *message,
                       const cairn_token *tokens, uint32_t count);

#endif
