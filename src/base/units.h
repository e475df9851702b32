/*
 * units - sizes, numbers and durations as people write and read them.
 *
 *   "512M" "512MiB" = 512 x 1024^2     "512MB" = 512 x 1000^2     "1.5G"     "10%" of a given whole     "4096"
 *
 * Units    bytes; ns
 * Thread   any
 */
#ifndef CAIRN_BASE_UNITS_H
#define CAIRN_BASE_UNITS_H

#include <stdint.h>

#include "cairn/status.h"

#define CAIRN_UNITS_TEXT 32

/*
 * Read a size in bytes. Letters in either case, K M G T with or without iB or B; blanks between number and unit.
 *
 *   whole_bytes  [in]  what a percentage is of; 0: percentages are refused
 *
 * Errors   CAIRN_INVALID  not a size, negative, more than 100 %, or too large for 64 bits; the detail says which
 */
CAIRN_MUST_CHECK cairn_status cairn_units_parse_bytes(const char *text, uint64_t whole_bytes,
                                                      uint64_t *ret_bytes, cairn_error *reterr);

/* Read a whole decimal number in [min, max]. Errors: CAIRN_INVALID; the detail names the range. */
CAIRN_MUST_CHECK cairn_status cairn_units_parse_int(const char *text, int64_t min, int64_t max,
                                                    int64_t *ret_value, cairn_error *reterr);

/* Read a finite decimal number in [min, max]; the point is '.' in every locale. Errors: CAIRN_INVALID. */
CAIRN_MUST_CHECK cairn_status cairn_units_parse_real(const char *text, double min, double max,
                                                     double *ret_value, cairn_error *reterr);

/* "96 MiB", "1.5 GiB", "12 B": three digits at most before the unit. */
void cairn_units_print_bytes(uint64_t bytes, char text[CAIRN_UNITS_TEXT]);

/* "640 us", "12.3 ms", "4.56 s", "3 min 20 s". */
void cairn_units_print_duration(uint64_t duration_ns, char text[CAIRN_UNITS_TEXT]);

/* "10,839". */
void cairn_units_print_count(uint64_t count, char text[CAIRN_UNITS_TEXT]);

#endif
