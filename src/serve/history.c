/*
 * history - see the header.
 */
#include "serve/history.h"

#include <string.h>

#include "base/clock.h"

void cairn_history_init(cairn_history *h)
{
    memset(h, 0, sizeof *h);
    CAIRN_ASSERT(pthread_mutex_init(&h->lock, NULL) == 0);
}

void cairn_history_release(cairn_history *h)
{
    (void)pthread_mutex_destroy(&h->lock);
}

void cairn_history_add(cairn_history *h, const cairn_history_entry *entry)
{
    CAIRN_ASSERT(pthread_mutex_lock(&h->lock) == 0);
    h->entries[h->count % CAIRN_HISTORY_MAX] = *entry;
    h->count++;
    CAIRN_ASSERT(pthread_mutex_unlock(&h->lock) == 0);
}

static json_t *entry_json(const cairn_history_entry *entry)
{
    static const char *const endings[] = {"done", "stopped", "broken"};
    char time[CAIRN_CLOCK_TEXT];
    cairn_clock_print(entry->ended_wall_ms, time);
    return json_pack("{s:I, s:s, s:s, s:o, s:o}", "id", (json_int_t)entry->id, "ended", time, "ending",
                     endings[entry->ending], "cairn", cairn_record_json(&entry->record), "timings",
                     cairn_timings_json(&entry->record, &entry->times));
}

json_t *cairn_history_json(cairn_history *h)
{
    json_t *list = json_array();
    CAIRN_ASSERT(pthread_mutex_lock(&h->lock) == 0);
    uint64_t n = h->count < CAIRN_HISTORY_MAX ? h->count : CAIRN_HISTORY_MAX;
    for (uint64_t i = 1; i <= n; i++)
        json_array_append_new(list, entry_json(&h->entries[(h->count - i) % CAIRN_HISTORY_MAX]));
    CAIRN_ASSERT(pthread_mutex_unlock(&h->lock) == 0);
    return json_pack("{s:o}", "requests", list);
}
