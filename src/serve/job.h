/*
 * job - one generation request, from the connection's thread through the queue to the engine's thread and back.
 *
 *   connection thread: new -> fill -> submit ........................ take bytes ... unref
 *   engine thread:               begin -> read -> sample, answer -> outbox ... end -> unref
 *
 * Everything up to `engine` is fixed when the job is submitted; after that the engine's thread alone touches the
 * sampler, the answer and `engine`. The outbox is the only place that both sides use.
 *
 * Owner    references: one for the connection, one for the scheduler; the last one frees it
 * Thread   as said; ref and unref from any
 */
#ifndef CAIRN_JOB_H
#define CAIRN_JOB_H

#include <jansson.h>
#include <stdatomic.h>

#include "cairn/cairn.h"
#include "chat/sampler_bridge.h"
#include "serve/answer.h"
#include "serve/excerpt.h"
#include "serve/outbox.h"
#include "serve/params.h"
#include "serve/recall.h"
#include "serve/tokens.h"
#include "serve/unison.h"

typedef struct cairn_job cairn_job;

/* One of several prompts of a request, until its turn comes. */
typedef struct cairn_job_text {
    cairn_tokens tokens;
    char *echo; /* char[echo_bytes]: see cairn_job.echo                                              */
    size_t echo_bytes;
} cairn_job_text;

/* One of several answers of a request, until its turn comes. */
typedef struct cairn_job_choice {
    cairn_sampler *sampler;
    cairn_answer *answer;
    uint32_t text; /* the prompt                                                                     */
} cairn_job_choice;

/* What the engine's thread keeps of a job. */
typedef struct cairn_job_work {
    cairn_request *request; /* of the cache; NULL before it has a slot                                */
    cairn_buf out;          /* bytes on their way to the outbox                                       */
    bool answering;         /* the prompt was read                                                    */
    cairn_token next;       /* sampled, to be pushed                                                  */
    uint64_t arrived_ns, begun_ns, first_ns, last_ns; /* submitted, slot, first token, last token       */
    uint64_t spoken_ns;     /* when the client last got anything                                      */
    uint64_t held_ns;       /* since when it waits for another request to read what both need; 0: not */
    uint64_t looked_ns;     /* when that was last looked at                                           */
    uint64_t paused_ns;     /* since when a slow reader holds it up; 0: not                           */
    uint32_t answer_tokens; /* sampled so far                                                         */
    cairn_buf sampled;      /* cairn_token[]: of the answer, while it is worth remembering: see recall.h */
    bool late;              /* --request-timeout has passed                                           */
    bool hidden;            /* a special token among them has no text: not to be remembered            */
    cairn_error error;      /* why it failed, when the cache doesn't know                             */
} cairn_job_work;

struct cairn_job {
    const cairn_mem *mem;
    atomic_uint refs;
    uint64_t id;
    cairn_outbox outbox;
    /* input */
    json_t *json; /* the request: texts are borrowed from it                         */
    cairn_params params;
    char *schema_grammar; /* completions: params.grammar, where it was made of json_schema                */
    cairn_chat_prompt *chat_prompt; /* chat only                                                       */
    cairn_tokens tokens;
    cairn_recall recall;        /* answers that came back among the messages                                */
    cairn_boundary *boundaries; /* cairn_boundary[room_boundaries], prompt.count_boundaries of them used */
    uint32_t room_boundaries;
    cairn_prompt prompt;
    cairn_namespace owner; /* the API key's namespace, whatever the salt: who may see its record       */
    uint64_t session;      /* hash of what the client calls its session; 0: it says nothing             */
    cairn_excerpt excerpt; /* engine thread: where it parts from what was known                         */
    cairn_token *visible;  /* cairn_token[count_visible]: special tokens whose text is shown           */
    uint32_t count_visible;
    char *echo; /* completions with echo: the prompt's text                                           */
    size_t echo_bytes;
    cairn_surface surface;
    cairn_answer_shape shape;    /* zero: that of the surface                                              */
    uint32_t count_client_stops; /* of params.stops; the rest are the template's                        */
    cairn_tokens script;         /* --script: the answer's tokens, in place of sampled ones                */
    bool scripted;
    json_t *extras;              /* (llama.cpp) the request as it was understood; NULL: none              */
    json_t *notes;               /* what was found in the request; NULL: nothing                           */
    int64_t answer_tokens_asked; /* params.answer_tokens_max as it came; there it is cut to the room     */
    uint32_t context_tokens;     /* of a slot                                                            */
    /* The answers are written one after the other; the present one, and its prompt, stand outside the lists. */
    cairn_job_text *texts; /* cairn_job_text[count_texts]                                           */
    uint32_t count_texts;
    cairn_job_choice *choices; /* cairn_job_choice[count_choices]                                       */
    uint32_t count_choices, choice;
    cairn_answer_sum sum;
    cairn_sampler *sampler;
    cairn_answer *answer;
    cairn_unison *unison; /* with equal requests that are there; NULL: it chooses by itself            */
    /* engine thread */
    cairn_job_work work;
    cairn_job *next; /* in the queue */
};

/* A job with one reference. NULL when there is no room. */
cairn_job *cairn_job_new(const cairn_mem *mem, uint64_t id, size_t outbox_bytes_max);
void cairn_job_ref(cairn_job *job);
/* NULL is allowed. */
void cairn_job_unref(cairn_job *job);

/*
 * Go on to the first, then to the next of the answers. false: there is none left. The work begins anew; what is in
 * `work.out` stays.
 */
bool cairn_job_next(cairn_job *job);
/* Is there one left? */
bool cairn_job_has_next(const cairn_job *job);

/* Is the special token shown in the answer? */
bool cairn_job_shows(const cairn_job *job, cairn_token token);

#endif
