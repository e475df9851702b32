/*
 * prior - counts where recorded requests really parted from the path before them, and writes the core's built-in
 * table of chances (src/core/divergence_prior.inc).
 *
 * For each request whose beginning is known, the earlier path is that of the latest request that went through the last
 * known token. The place is told by the class of the last meaningful position of that path at or before it, and the
 * distance of its message from that path's end; a request that extends the whole path, answer included, parts at its
 * tip. Requests that share nothing are not counted.
 *
 * Thread   one
 * See      src/core/divergence.h
 */
#ifndef CAIRN_SIM_PRIOR_H
#define CAIRN_SIM_PRIOR_H

#include "base/buf.h"
#include "core/divergence.h"
#include "workload.h"

typedef struct cairn_prior {
    uint64_t counts[CAIRN_CLASS_COUNT][CAIRN_DISTANCES];
    uint64_t total;
} cairn_prior;

/* Add the requests of one traffic. Errors: CAIRN_NOMEM. */
CAIRN_MUST_CHECK cairn_status cairn_prior_count(cairn_prior *prior, const cairn_workload *w,
                                                cairn_error *reterr);

/*
 * The table as the core includes it: one line a class, chances in units of 1/10000, smoothed so that nothing seen
 * rarely is impossible. The same counts give the same bytes.
 */
CAIRN_MUST_CHECK cairn_status cairn_prior_write(const cairn_prior *prior, cairn_buf *out);

#endif
