/*
 * trace_file - recorded traffic: files of JSON lines, plain or compressed with zstd.
 *
 * Two kinds of lines, told apart by their keys, and a file may hold both:
 *
 *   {"t":..,"path":..,"session":..,"body":{..},"resp":{..}}   what a client sent (the files in traces/): the body is
 *       rendered as a chat template does, system text first, then tools, then messages (trace_client.c)
 *   {"t":..,"ns":..,"tokens":[..],"boundaries":[..],"answer":[..]}   what a cairn server recorded, or block hashes in
 *       place of tokens (trace_native.c). Format: docs/format/trace.md
 *
 * Requests that a server would not have read are left out: count_tokens, and those that got an error.
 *
 * Errors   a line that is not valid stops the reading: CAIRN_INVALID, and the detail begins with "FILE:LINE: "
 * Thread   one at a time
 */
#ifndef CAIRN_SIM_TRACE_FILE_H
#define CAIRN_SIM_TRACE_FILE_H

#include "workload.h"

/*
 * Read a file to its end.
 *
 *   w  [out]  initialised by this call, named after the file; release it in any case
 *
 * Errors   CAIRN_NOTFOUND, CAIRN_IO, CAIRN_CORRUPT, CAIRN_LIMIT, CAIRN_INVALID (also when no request is left),
 *          CAIRN_NOMEM
 * Cost     about 30 MB of JSON a second
 */
CAIRN_MUST_CHECK cairn_status cairn_trace_file_read(const cairn_mem *mem, const char *path, cairn_workload *w,
                                                    cairn_error *reterr);

#endif
