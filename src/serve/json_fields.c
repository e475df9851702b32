/*
 * json_fields - see the header. The only place that parses JSON of a client besides the chat bridge, which gets the
 * same bytes after this file has accepted them.
 */
#include "serve/json_fields.h"

#include <math.h>
#include <string.h>

const char *cairn_json_type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

/* Is the text nested deeper than the limit? Looked at before parsing, so that the parser never goes that deep. */
static bool too_deep(const char *body, size_t len_bytes, size_t *ret_at)
{
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len_bytes; i++) {
        char c = body[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > CAIRN_JSON_DEPTH_MAX) {
                *ret_at = i;
                return true;
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

json_t *cairn_json_parse(const char *body, size_t len_bytes, cairn_api_error *error)
{
    size_t at = 0;
    if (len_bytes == 0) {
        cairn_api_error_bad(error, NULL, "The body is empty; a JSON object is expected.");
        return NULL;
    }
    if (too_deep(body, len_bytes, &at)) {
        cairn_api_error_bad(error, NULL, "The body is nested more than %d levels deep (at byte %zu).",
                            (int)CAIRN_JSON_DEPTH_MAX, at);
        return NULL;
    }
    json_error_t where;
    json_t *root = json_loadb(body, len_bytes, 0, &where);
    if (root == NULL && json_error_code(&where) == json_error_numeric_overflow)
        root = json_loadb(body, len_bytes, JSON_DECODE_INT_AS_REAL, &where);
    if (root == NULL) {
        cairn_api_error_bad(error, NULL, "The body is not valid JSON: line %d, column %d: %s.", where.line,
                            where.column, where.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        cairn_api_error_bad(error, NULL, "The body must be a JSON object, not %s.",
                            cairn_json_type_name(root));
        json_decref(root);
        return NULL;
    }
    return root;
}

/* The field's value, or NULL when it is absent or null. */
static const json_t *present(const json_t *object, const char *field)
{
    const json_t *value = json_object_get(object, field);
    return value == NULL || json_is_null(value) ? NULL : value;
}

static void wrong_type(const char *field, const char *expected, const json_t *value, cairn_api_error *error)
{
    cairn_api_error_bad(error, field, "%s must be %s, not %s.", field, expected, cairn_json_type_name(value));
}

void cairn_json_number(const json_t *object, const char *field, double min, double max, double *ret_value,
                       cairn_api_error *error)
{
    const json_t *value = present(object, field);
    if (value == NULL)
        return;
    if (!json_is_number(value)) {
        wrong_type(field, "a number", value, error);
        return;
    }
    double number = json_number_value(value);
    if (!(number >= min && number <= max)) {
        cairn_api_error_bad(error, field, "%s must be between %g and %g, not %g.", field, min, max, number);
        return;
    }
    *ret_value = number;
}

void cairn_json_integer(const json_t *object, const char *field, int64_t min, int64_t max, int64_t *ret_value,
                        cairn_api_error *error)
{
    const json_t *value = present(object, field);
    if (value == NULL)
        return;
    if (!json_is_number(value)) {
        wrong_type(field, "a whole number", value, error);
        return;
    }
    double number = json_number_value(value);
    if (json_is_real(value) && number != floor(number)) {
        cairn_api_error_bad(error, field, "%s must be a whole number, not %g.", field, number);
        return;
    }
    bool inside = json_is_integer(value)
                      ? json_integer_value(value) >= min && json_integer_value(value) <= max
                      : number >= (double)min && number <= (double)max && number < 9.2e18 && number > -9.2e18;
    if (!inside) {
        cairn_api_error_bad(error, field, "%s must be between %lld and %lld, not %.17g.", field,
                            (long long)min, (long long)max, number);
        return;
    }
    *ret_value = json_is_integer(value) ? (int64_t)json_integer_value(value) : (int64_t)number;
}

void cairn_json_boolean(const json_t *object, const char *field, bool *ret_value, cairn_api_error *error)
{
    const json_t *value = present(object, field);
    if (value == NULL)
        return;
    if (!json_is_boolean(value)) {
        wrong_type(field, "true or false", value, error);
        return;
    }
    *ret_value = json_is_true(value);
}

void cairn_json_text(const json_t *object, const char *field, const char **ret_value, cairn_api_error *error)
{
    const json_t *value = present(object, field);
    if (value == NULL)
        return;
    if (!json_is_string(value)) {
        wrong_type(field, "a string", value, error);
        return;
    }
    *ret_value = json_string_value(value);
}

void cairn_json_object(const json_t *object, const char *field, const json_t **ret_value,
                       cairn_api_error *error)
{
    const json_t *value = present(object, field);
    if (value == NULL)
        return;
    if (!json_is_object(value)) {
        wrong_type(field, "an object", value, error);
        return;
    }
    *ret_value = value;
}

void cairn_json_array(const json_t *object, const char *field, const json_t **ret_value,
                      cairn_api_error *error)
{
    const json_t *value = present(object, field);
    if (value == NULL)
        return;
    if (!json_is_array(value)) {
        wrong_type(field, "an array", value, error);
        return;
    }
    *ret_value = value;
}
