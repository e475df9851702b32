/*
 * lineage - which batches made the rows: what `exact` compares.
 *
 * The last bits of a row or a state depend on where the reading was cut. A digest over the cut
 * positions up to a cut stands for all of them:
 *
 *   digest(0) = SEED,  digest(next cut) = step(digest(last cut), next cut),  0 = decoded token by token
 *
 * Rows [a, b) of one batch (cut c to cut e) all carry e and digest(e). A list of runs describes any
 * range of rows; it can be sliced, joined and trimmed, as the rows themselves:
 *
 *   rows     0 ........... 512 ............. 700        a slot that was trimmed to 700
 *   runs     {512, 512, d1}    {700, 1024, d2}          the second batch went on to 1024
 *
 * Two rows at the same position of equal tokens are equal bit for bit when their runs name the same
 * cut and digest. That compares positions of cuts, not tokens: the tree compares those.
 *
 * Units    positions in tokens
 * Owner    a list owns its runs, counted as index bytes
 */
#ifndef CAIRN_CORE_LINEAGE_H
#define CAIRN_CORE_LINEAGE_H

#include "cairn/mem.h"
#include "core/core.h"
#include "core/ledger.h"

typedef struct cairn_lineage {
    cairn_run *runs;
    uint32_t count, room;
} cairn_lineage;

#define CAIRN_LINEAGE_SEED UINT64_C(0x6c696e65616765)

/* The digest after one more cut; 0 stays 0. Never 0 otherwise. */
uint64_t cairn_lineage_step(uint64_t digest, uint32_t cut);

void cairn_lineage_release(cairn_lineage *list, const cairn_mem *mem, cairn_ledger *ledger);

/* Append rows up to rows_end. Adjacent runs of one batch become one. False: no room, nothing changed. */
CAIRN_MUST_CHECK bool cairn_lineage_add(cairn_lineage *list, const cairn_mem *mem, cairn_ledger *ledger,
                                        cairn_run run);

/* Keep the runs of rows [0, end). */
void cairn_lineage_trim(cairn_lineage *list, uint32_t end);

/* Append the runs of rows [begin, end) of `from`, which has them. False: no room. */
CAIRN_MUST_CHECK bool cairn_lineage_copy(cairn_lineage *list, const cairn_mem *mem, cairn_ledger *ledger,
                                         const cairn_lineage *from, uint32_t begin, uint32_t end);

/* First run whose rows_end is past `position`: its index, or count. */
uint32_t cairn_lineage_find(const cairn_lineage *list, uint32_t position);

/*
 * Do the runs of rows [0, end) describe one unbroken reading that arrives at `digest` at `end`? Then a
 * state with that digest and these rows belong together bit for bit.
 */
bool cairn_lineage_whole(const cairn_lineage *list, uint32_t end, uint64_t digest);

#endif
