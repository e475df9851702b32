/*
 * disk_look - what a directory holds of one namespace, for those who look at it. Touches no file.
 */
#include <string.h>

#include "store/tier_disk_internal.h"

typedef struct sieve {
    const cairn_disk *disk;
    const cairn_namespace *shown;
    cairn_disk_row_fn each;
    void *ctx;
} sieve;

static bool pass(void *ctx, const cairn_disk_row *row)
{
    const sieve *s = ctx;
    if (memcmp(row->meta.space.bytes, s->shown->bytes, sizeof s->shown->bytes) != 0 ||
        memcmp(row->meta.fingerprint, s->disk->fingerprint, sizeof s->disk->fingerprint) != 0 ||
        !cairn_disk_row_sound(row)) {
        return true;
    }
    return s->each(s->ctx, row);
}

cairn_status cairn_disk_each_of(cairn_disk *disk, const cairn_namespace *space, cairn_disk_row_fn each,
                                void *ctx, cairn_error *reterr)
{
    cairn_disk_faces faces;
    cairn_status status = cairn_disk_faces_get(disk, space, &faces, reterr);
    sieve s = {.disk = disk, .shown = &faces.shown, .each = each, .ctx = ctx};
    return status == CAIRN_OK ? cairn_disk_index_each(disk->index, true, pass, &s, reterr) : status;
}
