/*
 * clock_table - what time it is for a conversation: fixed when its beginning is first seen.
 *
 * Templates that print the date or time would change a prompt's head while a conversation goes on, and everything
 * behind it would be read again. So the template's clock depends on the conversation: its namespace and the messages up
 * to the first user message. The time is rounded down to the hour, so that conversations that begin together still
 * share their system prompt.
 *
 * Bounded: the conversation that was asked for longest ago is forgotten for a new one.
 *
 * Units    seconds since 1970 UTC
 * Thread   any; one lock
 * See      docs/decisions/0004-template-clock.md
 */
#ifndef CAIRN_CLOCK_TABLE_H
#define CAIRN_CLOCK_TABLE_H

#include <stddef.h>

#include "cairn/mem.h"
#include "cairn/prompt.h"

enum { CAIRN_CLOCK_TABLE_ROUND_S = 3600 };

typedef struct cairn_clock_table cairn_clock_table;

CAIRN_MUST_CHECK cairn_status cairn_clock_table_new(const cairn_mem *mem, size_t entries_max,
                                                    cairn_clock_table **ret_table);
/* NULL is allowed. */
void cairn_clock_table_free(cairn_clock_table *table);

/*
 * The conversation's time.
 *
 *   head   [in]  uint8_t[len_bytes], what the conversation begins with
 *   now_s  [in]  the time at which it begins, if it is not known
 *
 * Cost     O(len_bytes)
 */
int64_t cairn_clock_table_get(cairn_clock_table *table, const cairn_namespace *space, const void *head,
                              size_t len_bytes, int64_t now_s);

#endif
