/*
 * json_fields - a request's JSON: parsed with a place for every mistake, and read field by field.
 *
 *   cairn_json_parse(body, ...)           -> json_t, or 400 "line 3, column 14: ..."
 *   cairn_json_number(object, "temperature", 0, 100, &t, &error)
 *
 * A getter leaves *ret_value alone when the field is absent or null, and records the first mistake of a request in the
 * error: a validator calls all of them in a row and looks at `error.http` once.
 *
 * Owner    the json_t belongs to the caller (json_decref); strings are borrowed from it
 * Thread   any; a json_t belongs to one thread at a time
 * See      docs/api.md
 */
#ifndef CAIRN_JSON_FIELDS_H
#define CAIRN_JSON_FIELDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/api_error.h"

/* Deeper nesting than this is refused. */
enum { CAIRN_JSON_DEPTH_MAX = 128 };

/*
 * Parse a body, which must be a JSON object.
 *
 * After    the object; or NULL with a 400 that names line and column
 * Cost     about 12 ms a MB; memory up to about 60 times the body for the worst bodies
 */
CAIRN_MUST_CHECK json_t *cairn_json_parse(const char *body, size_t len_bytes, cairn_api_error *error);

/* A number in [min, max]; integers count as numbers. */
void cairn_json_number(const json_t *object, const char *field, double min, double max, double *ret_value,
                       cairn_api_error *error);

/* A whole number in [min, max]; 3.0 counts as 3. */
void cairn_json_integer(const json_t *object, const char *field, int64_t min, int64_t max, int64_t *ret_value,
                        cairn_api_error *error);

/* true or false. */
void cairn_json_boolean(const json_t *object, const char *field, bool *ret_value, cairn_api_error *error);

/* A string; NUL-terminated and without NUL inside. */
void cairn_json_text(const json_t *object, const char *field, const char **ret_value, cairn_api_error *error);

/* An object or an array, borrowed. */
void cairn_json_object(const json_t *object, const char *field, const json_t **ret_value,
                       cairn_api_error *error);
void cairn_json_array(const json_t *object, const char *field, const json_t **ret_value,
                      cairn_api_error *error);

/* "a string", "an object": for messages. */
const char *cairn_json_type_name(const json_t *value);

#endif
