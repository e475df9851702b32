/*
 * ledger - see ledger.h. Plain sums; each function keeps `sum <= cap` for growth that it grants, and
 * asserts that nothing is given back twice.
 */
#include "core/ledger.h"

#include "cairn/status.h"

uint64_t cairn_ledger_index_share(uint64_t bytes_max)
{
    const uint64_t small = 256 << 10;
    uint64_t half = bytes_max / 2;
    uint64_t least = half < small ? half : small;
    return bytes_max / 8 > least ? bytes_max / 8 : least;
}

void cairn_ledger_init(cairn_ledger *ledger, uint64_t bytes_max, uint64_t index_bytes_max)
{
    *ledger = (cairn_ledger){0};
    ledger->bytes_max = bytes_max;
    ledger->index_bytes_max = index_bytes_max != 0 ? index_bytes_max : cairn_ledger_index_share(bytes_max);
}

uint64_t cairn_ledger_sum(const cairn_ledger *ledger)
{
    return ledger->held_state_bytes + ledger->held_row_bytes + ledger->reserved_bytes + ledger->buffer_bytes +
           ledger->index_bytes;
}

bool cairn_ledger_fits(const cairn_ledger *ledger, uint64_t bytes)
{
    uint64_t sum = cairn_ledger_sum(ledger);
    return sum <= ledger->bytes_max && bytes <= ledger->bytes_max - sum;
}

uint64_t cairn_ledger_over(const cairn_ledger *ledger)
{
    uint64_t sum = cairn_ledger_sum(ledger);
    return sum > ledger->bytes_max ? sum - ledger->bytes_max : 0;
}

uint64_t cairn_ledger_headroom(const cairn_ledger *ledger)
{
    const uint64_t large = 1 << 20;
    return ledger->bytes_max / 16 < large ? ledger->bytes_max / 16 : large;
}

void cairn_ledger_step(cairn_ledger *ledger)
{
    ledger->dropping_bytes = 0;
    ledger->reserving_bytes = 0;
}

static void note_peak(cairn_ledger *ledger)
{
    uint64_t sum = cairn_ledger_sum(ledger);
    if (sum > ledger->peak_bytes) {
        ledger->peak_bytes = sum;
    }
}

bool cairn_ledger_reserve(cairn_ledger *ledger, uint64_t bytes)
{
    if (!cairn_ledger_fits(ledger, bytes)) {
        return false;
    }
    ledger->reserved_bytes += bytes;
    ledger->reserving_bytes += bytes;
    note_peak(ledger);
    return true;
}

void cairn_ledger_unreserve(cairn_ledger *ledger, uint64_t bytes)
{
    CAIRN_ASSERT(ledger->reserved_bytes >= bytes);
    ledger->reserved_bytes -= bytes;
    ledger->reserving_bytes -= bytes < ledger->reserving_bytes ? bytes : ledger->reserving_bytes;
}

void cairn_ledger_settle(cairn_ledger *ledger, uint64_t reserved, uint64_t held, bool rows)
{
    cairn_ledger_unreserve(ledger, reserved);
    if (rows) {
        ledger->held_row_bytes += held;
    } else {
        ledger->held_state_bytes += held;
    }
    note_peak(ledger);
}

void cairn_ledger_release(cairn_ledger *ledger, uint64_t held, bool rows)
{
    uint64_t *sum = rows ? &ledger->held_row_bytes : &ledger->held_state_bytes;
    CAIRN_ASSERT(*sum >= held);
    *sum -= held;
    ledger->dropping_bytes += held;
}

bool cairn_ledger_buffer_hold(cairn_ledger *ledger, uint64_t bytes)
{
    if (ledger->buffer_users == 0) {
        if (!cairn_ledger_fits(ledger, bytes)) {
            return false;
        }
        ledger->buffer_bytes = bytes;
        note_peak(ledger);
    }
    ledger->buffer_users++;
    return true;
}

void cairn_ledger_buffer_release(cairn_ledger *ledger)
{
    CAIRN_ASSERT(ledger->buffer_users > 0);
    if (--ledger->buffer_users == 0) {
        ledger->buffer_bytes = 0;
    }
}

bool cairn_ledger_index_grow(cairn_ledger *ledger, uint64_t bytes)
{
    /* The index grows now. What is dropped in this step is freed later, but before what is reserved takes its place. */
    uint64_t still_there = ledger->dropping_bytes > ledger->reserving_bytes
                               ? ledger->dropping_bytes - ledger->reserving_bytes
                               : 0;
    if (bytes > ledger->index_bytes_max || ledger->index_bytes > ledger->index_bytes_max - bytes ||
        !cairn_ledger_fits(ledger, bytes + still_there)) {
        return false;
    }
    ledger->index_bytes += bytes;
    note_peak(ledger);
    return true;
}

void cairn_ledger_index_shrink(cairn_ledger *ledger, uint64_t bytes)
{
    CAIRN_ASSERT(ledger->index_bytes >= bytes);
    ledger->index_bytes -= bytes;
}

bool cairn_ledger_pool_grow(cairn_ledger *ledger, uint64_t bytes)
{
    uint64_t most = ledger->index_bytes_max / 4 * 3;
    if (bytes > most || ledger->pool_bytes > most - bytes || !cairn_ledger_index_grow(ledger, bytes)) {
        return false;
    }
    ledger->pool_bytes += bytes;
    return true;
}

void cairn_ledger_pool_shrink(cairn_ledger *ledger, uint64_t bytes)
{
    CAIRN_ASSERT(ledger->pool_bytes >= bytes);
    ledger->pool_bytes -= bytes;
    cairn_ledger_index_shrink(ledger, bytes);
}

uint64_t cairn_ledger_index_loose(const cairn_ledger *ledger)
{
    return ledger->index_bytes - ledger->pool_bytes;
}
