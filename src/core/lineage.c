/*
 * lineage - see lineage.h. Runs are few (one a batch, one for a whole decoded answer), so lists are
 * plain arrays that grow by half.
 */
#include "core/lineage.h"

#include <string.h>

#include "base/hash.h"

uint64_t cairn_lineage_step(uint64_t digest, uint32_t cut)
{
    if (digest == 0) {
        return 0;
    }
    uint64_t next = cairn_hash_mix(digest ^ cairn_hash_mix((uint64_t)cut + 1));
    return next != 0 ? next : 1;
}

void cairn_lineage_release(cairn_lineage *list, const cairn_mem *mem, cairn_ledger *ledger)
{
    cairn_mem_array_release(mem, list->runs, list->room, sizeof(cairn_run));
    cairn_ledger_index_shrink(ledger, list->room * sizeof(cairn_run));
    *list = (cairn_lineage){0};
}

static bool make_room(cairn_lineage *list, const cairn_mem *mem, cairn_ledger *ledger, uint32_t more)
{
    if (list->room - list->count >= more) {
        return true;
    }
    uint32_t room = list->count + (more > list->count / 2 ? more : list->count / 2);
    if (!cairn_ledger_index_grow(ledger, room * sizeof(cairn_run))) {
        return false;
    }
    cairn_run *runs = cairn_mem_array(mem, room, sizeof(cairn_run));
    if (runs == NULL) {
        cairn_ledger_index_shrink(ledger, room * sizeof(cairn_run));
        return false;
    }
    if (list->count != 0) {
        memcpy(runs, list->runs, list->count * sizeof(cairn_run));
    }
    cairn_mem_array_release(mem, list->runs, list->room, sizeof(cairn_run));
    cairn_ledger_index_shrink(ledger, list->room * sizeof(cairn_run));
    list->runs = runs;
    list->room = room;
    return true;
}

/* Rows of one decoded stretch have no cuts worth telling apart. */
static bool same_batch(const cairn_run *last, const cairn_run *run)
{
    return last->digest == run->digest && (run->digest == 0 || last->cut == run->cut);
}

bool cairn_lineage_add(cairn_lineage *list, const cairn_mem *mem, cairn_ledger *ledger, cairn_run run)
{
    CAIRN_ASSERT(list->count == 0 || list->runs[list->count - 1].rows_end < run.rows_end);
    if (list->count != 0 && same_batch(&list->runs[list->count - 1], &run)) {
        list->runs[list->count - 1].rows_end = run.rows_end;
        list->runs[list->count - 1].cut = run.cut;
        return true;
    }
    if (!make_room(list, mem, ledger, 1)) {
        return false;
    }
    list->runs[list->count++] = run;
    return true;
}

uint32_t cairn_lineage_find(const cairn_lineage *list, uint32_t position)
{
    uint32_t low = 0;
    uint32_t high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->runs[middle].rows_end > position) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void cairn_lineage_trim(cairn_lineage *list, uint32_t end)
{
    if (end == 0) {
        list->count = 0;
        return;
    }
    uint32_t at = cairn_lineage_find(list, end - 1);
    if (at < list->count) {
        list->runs[at].rows_end = end;
        list->count = at + 1;
    }
}

bool cairn_lineage_copy(cairn_lineage *list, const cairn_mem *mem, cairn_ledger *ledger,
                        const cairn_lineage *from, uint32_t begin, uint32_t end)
{
    if (begin >= end) {
        return true;
    }
    uint32_t first = cairn_lineage_find(from, begin);
    uint32_t last = cairn_lineage_find(from, end - 1);
    if (!CAIRN_EXPECT(last < from->count) || !make_room(list, mem, ledger, last - first + 1)) {
        return false;
    }
    for (uint32_t i = first; i <= last; i++) {
        cairn_run run = from->runs[i];
        run.rows_end = i == last ? end : run.rows_end;
        if (!cairn_lineage_add(list, mem, ledger, run)) {
            return false;
        }
    }
    return true;
}

bool cairn_lineage_whole(const cairn_lineage *list, uint32_t end, uint64_t digest)
{
    uint64_t expected = CAIRN_LINEAGE_SEED;
    uint32_t begin = 0;
    if (digest == 0) {
        return false;
    }
    for (uint32_t i = 0; i < list->count && begin < end; i++) {
        const cairn_run *run = &list->runs[i];
        expected = cairn_lineage_step(expected, run->cut);
        if (run->digest == 0 || run->digest != expected ||
            (run->rows_end < run->cut && run->rows_end < end)) {
            return false;
        }
        begin = run->rows_end;
        if (begin >= end) {
            return begin == end && run->cut == end && run->digest == digest;
        }
    }
    return end == 0 && digest == CAIRN_LINEAGE_SEED;
}
