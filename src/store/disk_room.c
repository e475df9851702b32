/*
 * disk_room - what may be written: bytes held, bytes a day, and what goes to make room. Part of tier_disk.h.
 *
 *   bytes_max >= files in the index + reserved for files being written      at every instant
 *
 * It must not know why a blob is worth keeping: its rank is a number.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/tier_disk_internal.h"

#include "base/lock.h"

/* Where a put says no by itself. */
static const char put_where[] = "store/disk: budget";

enum { EVICT_AT_ONCE = 64 };

void cairn_disk_pin(cairn_disk *disk, const char *name)
{
    cairn_lock(&disk->lock);
    if (disk->count_pins < CAIRN_DISK_PINS_MAX) {
        (void)snprintf(disk->pins[disk->count_pins++], CAIRN_BLOB_NAME_BYTES, "%s", name);
    }
    cairn_unlock(&disk->lock);
}

void cairn_disk_unpin(cairn_disk *disk, const char *name)
{
    cairn_lock(&disk->lock);
    for (uint32_t i = 0; i < disk->count_pins; i++) {
        if (strcmp(disk->pins[i], name) == 0) {
            memcpy(disk->pins[i], disk->pins[--disk->count_pins], CAIRN_BLOB_NAME_BYTES);
            break;
        }
    }
    cairn_unlock(&disk->lock);
}

static bool pinned(cairn_disk *disk, const char *name)
{
    bool found = false;
    cairn_lock(&disk->lock);
    for (uint32_t i = 0; i < disk->count_pins && !found; i++) {
        found = strcmp(disk->pins[i], name) == 0;
    }
    cairn_unlock(&disk->lock);
    return found;
}

/* The least valuable blobs, enough to make room. */
typedef struct evict_gather {
    cairn_disk *disk;
    double below; /* only those ranked lower than this */
    uint64_t wanted_bytes, gathered_bytes;
    char names[EVICT_AT_ONCE][CAIRN_BLOB_NAME_BYTES];
    uint32_t count;
} evict_gather;

static bool evict_note(void *ctx, const cairn_disk_row *row)
{
    evict_gather *gather = ctx;
    if (row->value >= gather->below) {
        return false;
    }
    if (!pinned(gather->disk, row->name)) {
        memcpy(gather->names[gather->count++], row->name, CAIRN_BLOB_NAME_BYTES);
        gather->gathered_bytes += row->file_bytes;
    }
    return gather->count < EVICT_AT_ONCE && gather->gathered_bytes < gather->wanted_bytes;
}

/* Bytes above the cap if `more` came in; reserves `more` when there are none. */
static uint64_t reserve(cairn_disk *disk, uint64_t more)
{
    cairn_disk_total total;
    cairn_disk_index_total(disk->index, &total);
    cairn_lock(&disk->lock);
    uint64_t sum = total.file_bytes + disk->reserved_bytes + more;
    uint64_t over = sum > disk->bytes_max ? sum - disk->bytes_max : 0;
    if (over == 0) {
        disk->reserved_bytes += more;
    }
    cairn_unlock(&disk->lock);
    return over;
}

void cairn_disk_room_release(cairn_disk *disk, uint64_t bytes)
{
    cairn_lock(&disk->lock);
    CAIRN_ASSERT(disk->reserved_bytes >= bytes);
    disk->reserved_bytes -= bytes;
    cairn_unlock(&disk->lock);
}

cairn_status cairn_disk_room_make(cairn_disk *disk, uint64_t file_bytes, double rank, cairn_error *reterr)
{
    if (file_bytes > disk->bytes_max) {
        return cairn_error_set(reterr, CAIRN_NOSPACE, put_where, "larger than the whole budget");
    }
    uint64_t over = 0;
    while ((over = reserve(disk, file_bytes)) != 0) {
        evict_gather gather = {.disk = disk, .below = rank, .wanted_bytes = over};
        cairn_status status = cairn_disk_index_each(disk->index, false, evict_note, &gather, reterr);
        if (status != CAIRN_OK) {
            return status;
        }
        uint64_t from_the_future = 0;
        if (gather.count == 0) { /* perhaps a clock that was ahead made them worth so much */
            status = cairn_disk_index_clock(disk->index, cairn_disk_now_s(disk), &from_the_future, reterr);
            if (status != CAIRN_OK) {
                return status;
            }
        }
        if (gather.count == 0 && from_the_future == 0) {
            return cairn_error_set(reterr, CAIRN_NOSPACE, put_where, "what is there is worth more");
        }
        for (uint32_t i = 0; i < gather.count; i++) {
            status = cairn_disk_drop(disk, gather.names[i], reterr);
            if (status != CAIRN_OK) {
                return status;
            }
        }
        cairn_disk_count(disk, &disk->stats.evicted, gather.count);
    }
    return CAIRN_OK;
}

void cairn_disk_room_trim(cairn_disk *disk)
{
    uint64_t over = disk->read_only ? 0 : reserve(disk, 0);
    while (over != 0) {
        evict_gather gather = {.disk = disk, .below = INFINITY, .wanted_bytes = over};
        if (cairn_disk_index_each(disk->index, false, evict_note, &gather, NULL) != CAIRN_OK ||
            gather.count == 0) {
            return;
        }
        for (uint32_t i = 0; i < gather.count; i++) {
            if (cairn_disk_drop(disk, gather.names[i], NULL) != CAIRN_OK) {
                return; /* can't be removed now: the next look tries again */
            }
        }
        cairn_disk_count(disk, &disk->stats.evicted, gather.count);
        over = reserve(disk, 0);
    }
}

cairn_status cairn_disk_day_add(cairn_disk *disk, uint64_t now_s, uint64_t bytes, cairn_error *reterr)
{
    uint64_t day = now_s / DISK_DAY_S, sum = 0;
    cairn_status status = CAIRN_OK;
    if (bytes > 0) {
        status = cairn_disk_index_written_add(disk->index, day, bytes, reterr);
    }
    if (status == CAIRN_OK) {
        status = cairn_disk_index_written(disk->index, day, &sum, reterr);
    }
    if (status == CAIRN_OK) {
        cairn_lock(&disk->lock);
        disk->day = day;
        disk->day_bytes = sum;
        cairn_unlock(&disk->lock);
    }
    return status;
}

uint64_t cairn_disk_day_bytes(cairn_disk *disk)
{
    uint64_t day = cairn_disk_now_s(disk) / DISK_DAY_S;
    cairn_lock(&disk->lock);
    uint64_t bytes = disk->day == day ? disk->day_bytes : 0;
    cairn_unlock(&disk->lock);
    return bytes;
}

cairn_status cairn_disk_day_allows(cairn_disk *disk, uint64_t now_s, uint64_t file_bytes, cairn_error *reterr)
{
    cairn_status status = cairn_disk_day_add(disk, now_s, 0, reterr); /* the clock may have jumped */
    if (status == CAIRN_OK && disk->written_day_bytes != 0 &&
        cairn_disk_day_bytes(disk) + file_bytes > disk->written_day_bytes) {
        status = cairn_error_set(reterr, CAIRN_LIMIT, "store/disk: put", "today's %llu bytes are used up",
                                 (unsigned long long)disk->written_day_bytes);
    }
    return status;
}

bool cairn_disk_declined(const cairn_error *error)
{
    return error->status == CAIRN_NOSPACE && error->where != NULL && strcmp(error->where, put_where) == 0;
}
