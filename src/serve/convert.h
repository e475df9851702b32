/*
 * convert - the pieces from which requests of other APIs become chat completions.
 *
 * A conversion walks the client's messages in order and appends to `messages`. What it appends depends on what came
 * before only, so that a longer conversation keeps the prompt of the shorter one. The first mistake is recorded with
 * its place; no memory is a 503.
 *
 * Owner    values of the client's request are shared (json_incref), never changed
 * Thread   one at a time
 */
#ifndef CAIRN_CONVERT_H
#define CAIRN_CONVERT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "serve/api_error.h"

typedef struct cairn_convert {
    json_t *messages;
    cairn_api_error *error;
    /* the assistant message that is being gathered; all NULL or empty: none */
    json_t *parts;
    json_t *calls;
    cairn_buf reasoning;
    bool assistant_open;
    json_t *mark; /* cache_control of the whole message, borrowed                                       */
} cairn_convert;

void cairn_convert_init(cairn_convert *convert, cairn_api_error *error);
/* Gives up what was not taken. */
void cairn_convert_release(cairn_convert *convert);

/* Has anything gone wrong? */
bool cairn_convert_failed(const cairn_convert *convert);
/* Record that there is no memory. */
void cairn_convert_nomem(cairn_convert *convert);

/* Append a finished message; takes it over. */
void cairn_convert_push(cairn_convert *convert, json_t *message);

/* A text part {"type":"text","text":..}; with a mark when `from` has cache_control. NULL: no memory. */
json_t *cairn_convert_part(json_t *text, const json_t *from);

/* The assistant's message: pieces are gathered until flush. Text parts are taken over. */
void cairn_convert_say(cairn_convert *convert, json_t *part);
void cairn_convert_think(cairn_convert *convert, const char *text);
/* `arguments` is JSON text. */
void cairn_convert_call(cairn_convert *convert, const char *id, const char *name, const char *arguments);
/* Append the gathered message, if there is one. */
void cairn_convert_flush(cairn_convert *convert);

/* Copy fields that mean the same here and there: cairn's own, sampling that the other API lacks, template arguments. */
void cairn_convert_extras(json_t *body, const json_t *request);

/* A value as compact JSON text in `out`. Errors: CAIRN_NOMEM, CAIRN_LIMIT. */
CAIRN_MUST_CHECK cairn_status cairn_convert_dump(const json_t *value, cairn_buf *out);

#endif
