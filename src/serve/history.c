/*
 * history - see the header.
 */
#include "serve/history.h"

#include <string.h>

#include "base/clock.h"
#include "base/lock.h"

void cairn_history_init(cairn_history *h)
{
    memset(h, 0, sizeof *h);
    cairn_lock_init(&h->lock);
}

void cairn_history_release(cairn_history *h)
{
    (void)pthread_mutex_destroy(&h->lock);
}

void cairn_history_add(cairn_history *h, const cairn_history_entry *entry)
{
    cairn_lock(&h->lock);
    h->entries[h->count % CAIRN_HISTORY_MAX] = *entry;
    h->count++;
    cairn_unlock(&h->lock);
}

void cairn_history_forget(cairn_history *h, const cairn_namespace *space)
{
    cairn_lock(&h->lock);
    for (size_t i = 0; i < CAIRN_HISTORY_MAX; i++) {
        if (space == NULL || memcmp(h->entries[i].space.bytes, space->bytes, sizeof space->bytes) == 0)
            memset(&h->entries[i].excerpt, 0, sizeof h->entries[i].excerpt);
    }
    cairn_unlock(&h->lock);
}

json_t *cairn_history_entry_json(const cairn_history_entry *entry)
{
    static const char *const endings[] = {"done", "stopped", "broken"};
    char time[CAIRN_CLOCK_TEXT];
    cairn_clock_print(entry->ended_wall_ms, time);
    return json_pack("{s:I, s:s, s:s, s:I, s:o, s:o}", "id", (json_int_t)entry->id, "ended", time, "ending",
                     endings[entry->ending], "recalled", (json_int_t)entry->recalled, "cairn",
                     cairn_record_noted_json(&entry->record, NULL, &entry->excerpt), "timings",
                     cairn_timings_json(&entry->record, &entry->times));
}

static bool is_shown(const cairn_history_entry *entry, const cairn_namespace *owner)
{
    return owner == NULL || memcmp(owner->bytes, entry->owner.bytes, sizeof owner->bytes) == 0;
}

json_t *cairn_history_json(cairn_history *h, const cairn_namespace *owner, uint64_t *since)
{
    json_t *list = json_array();
    cairn_lock(&h->lock);
    uint64_t n = h->count < CAIRN_HISTORY_MAX ? h->count : CAIRN_HISTORY_MAX;
    if (since != NULL) {
        uint64_t later = h->count - *since;
        n = later < n ? later : n;
        *since = h->count;
    }
    for (uint64_t i = 1; i <= n; i++) {
        const cairn_history_entry *entry = &h->entries[(h->count - i) % CAIRN_HISTORY_MAX];
        if (is_shown(entry, owner))
            json_array_append_new(list, cairn_history_entry_json(entry));
    }
    cairn_unlock(&h->lock);
    return json_pack("{s:o}", "requests", list);
}

bool cairn_history_get(cairn_history *h, const cairn_namespace *owner, uint64_t id,
                       cairn_history_entry *ret_entry)
{
    bool found = false;
    cairn_lock(&h->lock);
    uint64_t n = h->count < CAIRN_HISTORY_MAX ? h->count : CAIRN_HISTORY_MAX;
    for (uint64_t i = 1; i <= n && !found; i++) {
        const cairn_history_entry *entry = &h->entries[(h->count - i) % CAIRN_HISTORY_MAX];
        found = entry->id == id && is_shown(entry, owner);
        if (found)
            *ret_entry = *entry;
    }
    cairn_unlock(&h->lock);
    return found;
}
