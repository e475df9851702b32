/*
 * line_file - a text file read line by line, plain or compressed with zstd (recognised by its first bytes).
 *
 * Units    bytes; lines are numbered from 1
 * Owner    a line is borrowed until the next call
 * Thread   one at a time
 * Errors   CAIRN_NOTFOUND, CAIRN_IO; CAIRN_CORRUPT damaged compression or it ends early; CAIRN_LIMIT a line longer
 *          than line_bytes_max
 */
#ifndef CAIRN_SIM_LINE_FILE_H
#define CAIRN_SIM_LINE_FILE_H

#include "cairn/mem.h"

typedef struct cairn_line_file cairn_line_file;

CAIRN_MUST_CHECK cairn_status cairn_line_file_open(const cairn_mem *mem, const char *path,
                                                   size_t line_bytes_max, cairn_line_file **ret_file,
                                                   cairn_error *reterr);
void cairn_line_file_close(cairn_line_file *file);

/*
 * The next line without its end; NULL text at the end of the file. The last line needs no line end.
 *
 *   ret_text  [out]  char[*ret_bytes], NUL-terminated
 */
CAIRN_MUST_CHECK cairn_status cairn_line_file_next(cairn_line_file *file, const char **ret_text,
                                                   size_t *ret_bytes, cairn_error *reterr);
/* Number of the line last returned; 0 before the first. */
uint64_t cairn_line_file_number(const cairn_line_file *file);

#endif
