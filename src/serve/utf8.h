/*
 * utf8 - keeps text whole on its way to a client: characters are not cut in two, and bytes that are no text are replaced.
 *
 * A token may end in the middle of a character, and a model may produce bytes that are no UTF-8 at all.
 *
 * Units    bytes
 * Thread   any
 */
#ifndef CAIRN_UTF8_H
#define CAIRN_UTF8_H

#include <stddef.h>

/*
 * Length of the prefix that doesn't end inside a character: text[0, n) with n >= len_bytes - 3. Bytes that can't become
 * a character count as whole, so that they are never waited for.
 */
size_t cairn_utf8_whole(const char *text, size_t len_bytes);

/* Length of the prefix that is valid UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). */
size_t cairn_utf8_valid(const char *text, size_t len_bytes);

/*
 * Copy with every invalid byte replaced by U+FFFD.
 *
 *   out  [out]  char[3 * len_bytes] at most is written; NULL: only count
 *
 * Gives the length of the copy.
 */
size_t cairn_utf8_repair(const char *text, size_t len_bytes, char *out);

#endif
