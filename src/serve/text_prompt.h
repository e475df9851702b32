/*
 * text_prompt - the prompts of completions: texts, token ids, both mixed, several of them, and texts with a gap.
 *
 *   "prompt": "text" · [1, 2, 3] · [1, "text", 2]       one prompt
 *             ["text", "text"] · [[1, 2], "text"]       several, answered one after the other
 *   "prompt" and "suffix", or /infill's fields          <prefix> .. <suffix> .. <middle>, where the vocabulary has these
 *
 * Owner    the job owns what it is given
 * Thread   the connection's
 * See      docs/api.md
 */
#ifndef CAIRN_TEXT_PROMPT_H
#define CAIRN_TEXT_PROMPT_H

#include "engine/llama_vocab.h"
#include "serve/api_error.h"
#include "serve/job.h"

enum { CAIRN_TEXT_PROMPTS_MAX = 128 };

/*
 * Read `prompt` and `suffix` of job->json into job->texts.
 * Errors   in `error`: 400 with the field's place, 503
 */
void cairn_text_prompts_read(const cairn_llama_vocab *vocab, cairn_job *job, cairn_api_error *error);

/* The same for /infill: input_prefix, input_suffix, input_extra, prompt. 400 where the vocabulary can't. */
void cairn_infill_read(const cairn_llama_vocab *vocab, cairn_job *job, cairn_api_error *error);

#endif
