/*
 * stops - see the header. A stop can begin only at or after what was shown already, because whatever could have been
 * the beginning of one was held back; so each call looks at the unshown tail only.
 */
#include "serve/stops.h"

#include <string.h>

#include "cairn/status.h"

/* How many bytes of `stop` are found at text[at..len): all of it, or all that is left of the text; else 0. */
static size_t match_at(const cairn_stop_text *stop, const char *text, size_t len_bytes, size_t at)
{
    size_t left = len_bytes - at;
    size_t compare = left < stop->len_bytes ? left : stop->len_bytes;
    return memcmp(text + at, stop->bytes, compare) == 0 ? compare : 0;
}

cairn_stops_result cairn_stops_find(const cairn_stop_text *stops, size_t count, const char *text,
                                    size_t len_bytes, size_t from_bytes, bool whole)
{
    CAIRN_ASSERT(from_bytes <= len_bytes);
    cairn_stops_result result = {.safe_bytes = len_bytes, .found = -1};
    for (size_t at = from_bytes; at < len_bytes; at++) {
        bool held = false;
        for (size_t i = 0; i < count; i++) {
            size_t matched = match_at(&stops[i], text, len_bytes, at);
            if (matched == 0)
                continue;
            if (matched == stops[i].len_bytes) {
                result.safe_bytes = at;
                result.found = (int32_t)i;
                return result;
            }
            held = true;
        }
        if (held && !whole) {
            result.safe_bytes = at;
            /* A shorter stop may still be complete further on; the earliest complete one wins then. */
            for (size_t later = at + 1; later < len_bytes; later++) {
                for (size_t i = 0; i < count; i++) {
                    if (match_at(&stops[i], text, len_bytes, later) == stops[i].len_bytes) {
                        result.safe_bytes = later;
                        result.found = (int32_t)i;
                        return result;
                    }
                }
            }
            return result;
        }
    }
    return result;
}
