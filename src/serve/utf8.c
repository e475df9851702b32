/*
 * utf8 - see the header. One function knows what a character looks like; the others walk with it.
 */
#include "serve/utf8.h"

#include <stdint.h>
#include <string.h>

/* Length that the first byte promises; 0 when it can't begin a character. */
static size_t promised(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    if (first >= 0xf0 && first <= 0xf4)
        return 4;
    return 0;
}

/* How many of the bytes at hand fit the character that begins with s[0], whose promised length is n >= 2. */
static size_t fitting(const uint8_t *s, size_t left, size_t n)
{
    uint8_t low = 0x80, high = 0xbf;
    if (s[0] == 0xe0) {
        low = 0xa0; /* overlong */
    } else if (s[0] == 0xed) {
        high = 0x9f; /* surrogates */
    } else if (s[0] == 0xf0) {
        low = 0x90;
    } else if (s[0] == 0xf4) {
        high = 0x8f; /* beyond U+10FFFF */
    }
    size_t i = 1;
    while (i < n && i < left && s[i] >= low && s[i] <= high) {
        i++;
        low = 0x80;
        high = 0xbf;
    }
    return i;
}

size_t cairn_utf8_whole(const char *text, size_t len_bytes)
{
    for (size_t back = 1; back <= 3 && back <= len_bytes; back++) {
        const uint8_t *s = (const uint8_t *)text + (len_bytes - back);
        size_t n = promised(*s);
        if (n > back && fitting(s, back, n) == back)
            return len_bytes - back;
        if (n != 0)
            break;
    }
    return len_bytes;
}

size_t cairn_utf8_valid(const char *text, size_t len_bytes)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t at = 0;
    while (at < len_bytes) {
        size_t n = promised(s[at]);
        if (n == 0 || n > len_bytes - at || (n > 1 && fitting(s + at, len_bytes - at, n) != n))
            break;
        at += n;
    }
    return at;
}

size_t cairn_utf8_repair(const char *text, size_t len_bytes, char *out)
{
    static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */
    size_t written = 0, at = 0;
    while (at < len_bytes) {
        size_t good = cairn_utf8_valid(text + at, len_bytes - at);
        if (out != NULL)
            memcpy(out + written, text + at, good);
        written += good;
        at += good;
        if (at < len_bytes) {
            if (out != NULL)
                memcpy(out + written, replacement, sizeof replacement);
            written += sizeof replacement;
            at++;
        }
    }
    return written;
}
