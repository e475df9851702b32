/*
 * stops - finds the texts at which an answer ends, in a stream, without ever showing a part of one.
 *
 *   text so far   "Once upon a ti|"         stop "time"
 *                  ^ safe ......^ held        "ti" may be the beginning of "time": it waits
 *
 * Text goes in as it is generated; what comes out is a length: how much of everything given so far may be shown.
 *
 * Units    bytes
 * Owner    the caller keeps the stop texts and the generated text; this module keeps numbers only
 * Thread   one at a time
 * Cost     O(new bytes x stops x longest stop)
 */
#ifndef CAIRN_STOPS_H
#define CAIRN_STOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CAIRN_STOPS_MAX = 64, CAIRN_STOP_BYTES_MAX = 4096 };

typedef struct cairn_stop_text {
    const char *bytes; /* not empty */
    size_t len_bytes;
} cairn_stop_text;

typedef struct cairn_stops_result {
    size_t safe_bytes; /* text[0, safe) may be shown                                         */
    int32_t found;     /* index of the stop that was found, whose text begins at `safe`; -1: none */
} cairn_stops_result;

/*
 * Look at the text after it grew.
 *
 *   stops       [in]  cairn_stop_text[count]
 *   text        [in]  char[len_bytes], everything generated so far
 *   from_bytes  [in]  the `safe_bytes` of the last call (0 at first): what was shown is not looked at again
 *   whole       [in]  no more text will come: nothing is held back
 */
cairn_stops_result cairn_stops_find(const cairn_stop_text *stops, size_t count, const char *text,
                                    size_t len_bytes, size_t from_bytes, bool whole);

#endif
