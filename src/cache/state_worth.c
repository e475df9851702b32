/*
 * state_worth - see the header.
 */
#include "cache/state_worth.h"

#include "cairn/cairn.h"

#define SAVING_MS 100.0

bool cairn_state_anchors(uint16_t kinds, bool last)
{
    const uint16_t always = CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_LAST_USER | CAIRN_BOUNDARY_OPENER |
                            CAIRN_BOUNDARY_MARK | CAIRN_BOUNDARY_BRANCH;
    return (kinds & (always | (last ? CAIRN_BOUNDARY_ANSWER_END : 0))) != 0;
}

bool cairn_state_worth(uint16_t kinds, double saving_ms, bool last)
{
    return saving_ms >= SAVING_MS || cairn_state_anchors(kinds, last);
}
