/*
 * verify_matrix - the comparisons of verify_cases, repeated with every setting that changes how rows and states are
 * kept or in which pieces tokens are computed.
 *
 * Thread   the main thread
 */
#ifndef CAIRN_CLI_VERIFY_MATRIX_H
#define CAIRN_CLI_VERIFY_MATRIX_H

#include "cli/verify_cases.h"

enum { CAIRN_VERIFY_MATRIX_MAX = 16 };

typedef struct cairn_verify_matrix_row {
    const char *name; /* "keys and values q8_0"; constant                                            */
    bool refused;     /* this model or libllama can't do that: nothing was compared                   */
    bool usable;      /* the check at start passed                                                  */
    bool claimed;     /* the engine says that it is exact                                           */
    char why[240];    /* why not exact, or why refused                                              */
    cairn_verify_summary summary;
} cairn_verify_matrix_row;

/*
 * Run all settings; each opens the model anew.
 *
 *   options  [in]  path, threads; the rest is varied
 *   tokens   [in]  length of the prompts, >= 200
 *
 * Errors   those of an engine while it compares; a setting that can't be opened is a row with `refused`
 */
CAIRN_MUST_CHECK cairn_status cairn_verify_matrix_run(const cairn_llama_options *options, uint32_t tokens,
                                                      uint32_t answer, bool require_exact,
                                                      cairn_verify_matrix_row rows[CAIRN_VERIFY_MATRIX_MAX],
                                                      size_t *ret_count, cairn_error *reterr);

#endif
