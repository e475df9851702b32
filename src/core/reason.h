/*
 * reason - words for why a prompt was not resumed further, and the search for the reason.
 *
 * The list itself is CAIRN_REASON_MAP in cairn/record.h.
 */
#ifndef CAIRN_CORE_REASON_H
#define CAIRN_CORE_REASON_H

#include "cairn/record.h"

#endif
