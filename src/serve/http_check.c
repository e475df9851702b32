/*
 * http_check - see the header.
 */
#include "serve/http_check.h"

#include <string.h>
#include <strings.h>

static void refuse(cairn_http_check *check, const char *text)
{
    cairn_api_error_bad(&check->error, NULL, "%s", text);
    check->error.close = true;
}

/* RFC 9110: a field name is a token; anything else in it may be read in two ways. */
static bool is_token(const char *name)
{
    if (*name == '\0')
        return false;
    for (const char *c = name; *c != '\0'; c++) {
        if (*c <= ' ' || *c >= 127 || strchr("()<>@,;:\\\"/[]?={}", *c) != NULL)
            return false;
    }
    return true;
}

static void check_length(cairn_http_check *check, const char *value)
{
    uint64_t length = 0;
    size_t digits = 0;
    for (const char *c = value; *c >= '0' && *c <= '9'; c++, digits++)
        length = length * 10 + (uint64_t)(*c - '0');
    if (digits == 0 || digits > 18 || value[digits] != '\0') {
        refuse(check, "Content-Length is not a number.");
    } else if (check->count_content_length > 0 && check->content_length != length) {
        refuse(check, "The request has two different Content-Lengths.");
    }
    check->content_length = length;
    check->count_content_length++;
}

void cairn_http_check_header(cairn_http_check *check, const char *name, const char *value)
{
    if (value == NULL)
        value = "";
    if (!is_token(name)) {
        refuse(check, "A header's name has a character that must not be there (a blank before the colon?).");
        return;
    }
    if (strcasecmp(name, "content-length") == 0) {
        check_length(check, value);
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        check->count_transfer_encoding++;
        if (strcasecmp(value, "chunked") != 0 || check->count_transfer_encoding > 1)
            refuse(check, "Transfer-Encoding must be chunked, given once.");
    } else if (strcasecmp(name, "host") == 0) {
        check->count_host++;
    }
}

void cairn_http_check_end(cairn_http_check *check, const char *version)
{
    if (check->count_content_length > 0 && check->count_transfer_encoding > 0)
        refuse(check, "The request has both Content-Length and Transfer-Encoding.");
    if (check->count_content_length > 1)
        refuse(check, "The request has several Content-Lengths.");
    if (check->count_host > 1 || (check->count_host == 0 && strcmp(version, "HTTP/1.1") == 0))
        refuse(check, "The request must have exactly one Host header.");
}
