/*
 * script - answers from a file, so that a client's whole session can be played against a real server.
 *
 *   request --render, tokens, cache, read--> [ a line of the file chooses the tokens ] --decode, parse--> answer
 *
 * Only the choice of the tokens is not the model's: the prompt is read, the answer's tokens are decoded and stored, the
 * chat parser makes the message of them. What a line says (text, reasoning, calls) is brought into the template's own
 * syntax by rendering it as an assistant message behind the template's opener.
 *
 * A file has one JSON object a line; empty lines and lines that begin with # are skipped. The first line whose
 * conditions hold answers: docs/script.md.
 *
 * Units    tokens
 * Owner    a script belongs to the caller; answers' tokens are the caller's
 * Thread   answers from any number of threads at once
 * Caveats  for tests: no sampling field and no grammar has an effect on a scripted answer
 * See      docs/script.md
 */
#ifndef CAIRN_SCRIPT_H
#define CAIRN_SCRIPT_H

#include <jansson.h>

#include "chat/bridge.h"
#include "serve/api_error.h"
#include "serve/tokens.h"

typedef struct cairn_script cairn_script;

enum { CAIRN_SCRIPT_LINES_MAX = 100000 };

/*
 * Read a script.
 *
 *   text  [in]  char[len_bytes], copied
 *
 * Errors   CAIRN_INVALID with the line's number in `detail`; CAIRN_LIMIT, CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_script_new(const cairn_mem *mem, const char *text, size_t len_bytes,
                                               cairn_script **ret_script, cairn_error *reterr);
/* NULL is allowed. */
void cairn_script_free(cairn_script *script);
/* How many lines it has. */
size_t cairn_script_count(const cairn_script *script);

/* What makes tokens of an answer; borrowed. */
typedef struct cairn_script_source {
    const cairn_llama_vocab *vocab;
    const cairn_chat *chat;
    const cairn_chat_options *options;
    const json_t *request; /* a chat completion's body, or a completion's                               */
    bool is_chat;
} cairn_script_source;

/*
 * The answer to a request. It ends with the first token that ends an answer (there may be some behind it, of the
 * template), else with the last.
 *
 * After    error->http == 0: *ret_tokens are the caller's
 * Errors   400 no line answers this request, or the template does not write the answer behind its opener; 503 no memory
 * Cost     two renders of a conversation of one message
 */
void cairn_script_answer(cairn_script *script, const cairn_mem *mem, const cairn_script_source *source,
                         cairn_tokens *ret_tokens, cairn_api_error *error);

#endif
