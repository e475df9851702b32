/*
 * choices - the answers that a request asks for: `n` for each of its prompts, each with a sampler and a form of its own.
 *
 *   prompts x n --make--> job->choices, written one after the other (cairn_job_next)
 *
 * A prompt is read for the first of its answers; the others resume at its end.
 *
 * Thread   the connection's, before the job is submitted
 * See      docs/api.md (n)
 */
#ifndef CAIRN_CHOICES_H
#define CAIRN_CHOICES_H

#include "serve/serve_inside.h"

/*
 * Make a sampler and an answer for each choice, and begin with the first (cairn_job_next).
 * Errors   in `error`: a wrong sampling field, grammar or count; 503
 */
void cairn_choices_make(cairn_serve *serve, cairn_job *job, cairn_api_error *error);

#endif
