/*
 * disk_watch - see the header.
 */
#include "serve/disk_watch.h"

enum { LOOK_NS_MAX = 1000000000 };

uint64_t cairn_disk_watch_look(cairn_disk_watch *watch, const cairn_scheduler_options *o)
{
    cairn_cache_disk_stats stats;
    cairn_cache_disk_stats_get(o->cache, &stats);
    if (stats.bytes_max == 0)
        return 0; /* no disk */
    cairn_metrics_disk(o->metrics, &stats);
    if (stats.failures > watch->failures && !watch->failing) {
        watch->failing = true;
        cairn_log_error(o->log, CAIRN_LOG_LEVEL_WARN, "disk", &stats.last_error);
    } else if (stats.kept > watch->kept && stats.failures == watch->failures && watch->failing) {
        watch->failing = false;
        CAIRN_LOG(o->log, INFO, "disk", CAIRN_FIELD_STR("message", "the cache's disk works again"));
    }
    watch->kept = stats.kept;
    watch->failures = stats.failures;
    return stats.due_ns < LOOK_NS_MAX ? stats.due_ns : LOOK_NS_MAX;
}

void cairn_disk_watch_flush(cairn_disk_watch *watch, const cairn_scheduler_options *o)
{
    cairn_cache_disk_stats stats;
    cairn_cache_disk_stats_get(o->cache, &stats);
    cairn_cache_shared_stats shared;
    cairn_cache_shared_stats_get(o->cache, &shared);
    if (stats.bytes_max == 0 && !shared.on)
        return;
    uint64_t begin_ns = cairn_clock_now_ns(o->clock), kept = stats.kept;
    bool all = cairn_cache_flush(o->cache, o->flush_ns);
    (void)cairn_disk_watch_look(watch, o);
    cairn_cache_disk_stats_get(o->cache, &stats);
    CAIRN_LOG(o->log, INFO, "flushed", CAIRN_FIELD_BOOL("all", all),
              CAIRN_FIELD_UINT("kept", stats.kept - kept), CAIRN_FIELD_UINT("blobs", stats.blobs),
              CAIRN_FIELD_UINT("ms", (cairn_clock_now_ns(o->clock) - begin_ns) / 1000000));
}

json_t *cairn_disk_watch_json(const cairn_cache_disk_stats *d)
{
    json_t *json = json_object();
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"now", d->bytes},
                   {"limit", d->bytes_max},
                   {"blobs", d->blobs},
                   {"states", d->states},
                   {"written_today", d->written_today_bytes},
                   {"written_limit", d->written_day_bytes},
                   {"failures", d->failures},
                   {"kept", d->kept},
                   {"fetched", d->fetched},
                   {"fetched_bytes", d->fetched_bytes},
                   {"fetch_failures", d->fetch_failures},
                   {"set_aside", d->set_aside},
                   {"evicted", d->evicted}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)json_object_set_new(json, numbers[i].name, json_integer((json_int_t)numbers[i].value));
    (void)json_object_set_new(json, "waiting", json_boolean(d->waiting));
    return json;
}
