/*
 * counts - the learned counts of divergences as bytes, for a tier that outlives the process.
 *
 *   8 bytes  "cairncnt"            4  version, 3
 *   4        values a record       4  records           4  zero
 *   records: 32 bytes that stand for a namespace, then the values as 32-bit floats
 *   16       XXH3-128 of all before
 *
 * All little-endian. A namespace's own bytes begin the digests of its paths and are secret: only their SHA-256 is
 * written. Records of namespaces that nobody has asked for yet are kept as they came, and written again.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "core/core_state.h"
#include "core/counts.h"
#include "core/divergence.h"

enum {
    HEAD_BYTES = 24,
    SUM_BYTES = 16,
    RECORD_BYTES = CAIRN_DIGEST_BYTES + CAIRN_DIVERGENCE_COUNTS * 4,
    VERSION = 3
};

_Static_assert(RECORD_BYTES == 32 + 158 * 4, "another table is another version of the format");

static const char magic[8] = {'c', 'a', 'i', 'r', 'n', 'c', 'n', 't'};

/* What the counts of one namespace were when they were saved. */
struct cairn_counts_kept {
    cairn_digest name;
    float counts[CAIRN_DIVERGENCE_COUNTS];
};

static void put_sum(uint8_t *out, const uint8_t *bytes, size_t len_bytes)
{
    cairn_hash128 sum = cairn_hash_bytes(bytes, len_bytes);
    cairn_put64(out, sum.low);
    cairn_put64(out + 8, sum.high);
}

/* --- kept for namespaces to come ----------------------------------------------------------------------- */

void cairn_counts_release(cairn_core *core)
{
    cairn_mem_array_release(core->mem, core->kept, core->count_kept, sizeof *core->kept);
    cairn_ledger_index_shrink(&core->ledger, core->count_kept * sizeof *core->kept);
    core->kept = NULL;
    core->count_kept = 0;
}

/* The record of a namespace, or count_kept. */
static uint32_t find_kept(const cairn_core *core, const cairn_namespace *space)
{
    cairn_digest name;
    if (core->count_kept == 0 || cairn_digest_of(space->bytes, sizeof space->bytes, &name) != CAIRN_OK) {
        return core->count_kept;
    }
    uint32_t i = 0;
    while (i < core->count_kept && memcmp(&core->kept[i].name, &name, sizeof name) != 0) {
        i++;
    }
    return i;
}

bool cairn_counts_known(const cairn_core *core, const cairn_namespace *space, float *counts)
{
    uint32_t i = find_kept(core, space);
    if (i == core->count_kept) {
        return false;
    }
    if (counts != NULL) {
        memcpy(counts, core->kept[i].counts, sizeof core->kept[i].counts);
    }
    return true;
}

void cairn_counts_forget(cairn_core *core, const cairn_namespace *space)
{
    uint32_t i = find_kept(core, space);
    if (i < core->count_kept) {
        memset(&core->kept[i], 0, sizeof core->kept[i]); /* no namespace's digest is zero; never written */
    }
}

/* --- saving ---------------------------------------------------------------------------------------------- */

static void put_record(uint8_t *out, const cairn_digest *name, const float *counts)
{
    memcpy(out, name->bytes, CAIRN_DIGEST_BYTES);
    for (uint32_t i = 0; i < CAIRN_DIVERGENCE_COUNTS; i++) {
        uint32_t bits;
        memcpy(&bits, &counts[i], sizeof bits);
        cairn_put32(out + CAIRN_DIGEST_BYTES + 4 * i, bits);
    }
}

size_t cairn_core_counts_save(const cairn_core *core, uint8_t *out, size_t room)
{
    static const cairn_digest none = {{0}};
    uint32_t records = 0;
    size_t at = HEAD_BYTES;
    for (uint32_t i = 0; i < core->tree.spaces.high && records < CAIRN_COUNTS_MAX; i++) {
        const cairn_space *space = cairn_space_at(&core->tree, i);
        cairn_digest name;
        if (!space->alive || space->counts == NULL ||
            cairn_digest_of(space->name.bytes, sizeof space->name.bytes, &name) != CAIRN_OK) {
            continue;
        }
        if (out != NULL && at + RECORD_BYTES <= room) {
            put_record(out + at, &name, space->counts);
        }
        at += RECORD_BYTES;
        records++;
    }
    uint32_t living = records;
    for (uint32_t i = 0; i < core->count_kept && records < CAIRN_COUNTS_MAX; i++) {
        const struct cairn_counts_kept *kept = &core->kept[i];
        bool lives = memcmp(&kept->name, &none, sizeof none) == 0;
        for (uint32_t k = 0; !lives && out != NULL && k < living; k++) {
            size_t begin = HEAD_BYTES + (size_t)k * RECORD_BYTES;
            lives = begin + RECORD_BYTES <= room && memcmp(out + begin, &kept->name, sizeof none) == 0;
        }
        if (lives) {
            continue;
        }
        if (out != NULL && at + RECORD_BYTES <= room) {
            put_record(out + at, &kept->name, kept->counts);
        }
        at += RECORD_BYTES;
        records++;
    }
    if (out != NULL && at + SUM_BYTES <= room) {
        memcpy(out, magic, sizeof magic);
        cairn_put32(out + 8, VERSION);
        cairn_put32(out + 12, CAIRN_DIVERGENCE_COUNTS);
        cairn_put32(out + 16, records);
        cairn_put32(out + 20, 0);
        put_sum(out + at, out, at);
    }
    return at + SUM_BYTES;
}

/* --- loading --------------------------------------------------------------------------------------------- */

static cairn_status check(const uint8_t *bytes, size_t len_bytes, uint32_t *ret_records, cairn_error *reterr)
{
    const char *where = "core/counts";
    uint8_t sum[SUM_BYTES];
    if (len_bytes < HEAD_BYTES + SUM_BYTES || memcmp(bytes, magic, sizeof magic) != 0) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, where, "not a table of counts");
    }
    if (cairn_get32(bytes + 8) != VERSION || cairn_get32(bytes + 12) != CAIRN_DIVERGENCE_COUNTS) {
        return cairn_error_set(reterr, CAIRN_FOREIGN, where, "version %u with %u values",
                               cairn_get32(bytes + 8), cairn_get32(bytes + 12));
    }
    uint32_t records = cairn_get32(bytes + 16);
    put_sum(sum, bytes, len_bytes - SUM_BYTES);
    if (records > CAIRN_COUNTS_MAX || len_bytes != HEAD_BYTES + (size_t)records * RECORD_BYTES + SUM_BYTES ||
        memcmp(sum, bytes + len_bytes - SUM_BYTES, SUM_BYTES) != 0) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, where, "damaged");
    }
    for (uint32_t i = 0; i < records; i++) {
        for (uint32_t k = 0; k < CAIRN_DIVERGENCE_COUNTS; k++) {
            uint32_t bits =
                cairn_get32(bytes + HEAD_BYTES + (size_t)i * RECORD_BYTES + CAIRN_DIGEST_BYTES + 4 * k);
            float value;
            memcpy(&value, &bits, sizeof value);
            if (!(value >= 0 && value <= 1e6f)) {
                return cairn_error_set(reterr, CAIRN_CORRUPT, where, "no count: record %u, value %u", i, k);
            }
        }
    }
    *ret_records = records;
    return CAIRN_OK;
}

cairn_status cairn_core_counts_load(cairn_core *core, const uint8_t *bytes, size_t len_bytes,
                                    cairn_error *reterr)
{
    uint32_t records = 0;
    cairn_status status = check(bytes, len_bytes, &records, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    struct cairn_counts_kept *kept = NULL;
    size_t table_bytes = records * sizeof *kept;
    if (records > 0) {
        if (!cairn_ledger_index_grow(&core->ledger, table_bytes)) {
            return cairn_error_set(reterr, CAIRN_NOMEM, "core/counts", "no room in the index");
        }
        kept = cairn_mem_array(core->mem, records, sizeof *kept);
        if (kept == NULL) {
            cairn_ledger_index_shrink(&core->ledger, table_bytes);
            return cairn_error_set(reterr, CAIRN_NOMEM, "core/counts", NULL);
        }
    }
    for (uint32_t i = 0; i < records; i++) {
        const uint8_t *in = bytes + HEAD_BYTES + (size_t)i * RECORD_BYTES;
        memcpy(kept[i].name.bytes, in, CAIRN_DIGEST_BYTES);
        for (uint32_t k = 0; k < CAIRN_DIVERGENCE_COUNTS; k++) {
            uint32_t bits = cairn_get32(in + CAIRN_DIGEST_BYTES + 4 * k);
            memcpy(&kept[i].counts[k], &bits, sizeof bits);
        }
    }
    cairn_counts_release(core);
    core->kept = kept;
    core->count_kept = records;
    return CAIRN_OK;
}
