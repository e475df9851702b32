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
    if (stats.bytes_max == 0)
        return;
    uint64_t begin_ns = cairn_clock_now_ns(o->clock), kept = stats.kept;
    bool all = cairn_cache_flush(o->cache, o->flush_ns);
    (void)cairn_disk_watch_look(watch, o);
    cairn_cache_disk_stats_get(o->cache, &stats);
    CAIRN_LOG(o->log, INFO, "flushed", CAIRN_FIELD_BOOL("all", all),
              CAIRN_FIELD_UINT("kept", stats.kept - kept), CAIRN_FIELD_UINT("blobs", stats.blobs),
              CAIRN_FIELD_UINT("ms", (cairn_clock_now_ns(o->clock) - begin_ns) / 1000000));
}

struct timespec cairn_disk_watch_until(uint64_t due_ns)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = due_ns + (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    return until;
}

json_t *cairn_disk_watch_json(const cairn_cache_disk_stats *d)
{
    if (d->bytes_max == 0)
        return json_pack("{s:b}", "on", 0);
    json_t *bytes = json_pack("{s:I, s:I, s:I, s:I}", "now", (json_int_t)d->bytes, "limit",
                              (json_int_t)d->bytes_max, "written_today", (json_int_t)d->written_today_bytes,
                              "written_limit", (json_int_t)d->written_day_bytes);
    json_t *held = json_pack("{s:I, s:I}", "blobs", (json_int_t)d->blobs, "states", (json_int_t)d->states);
    json_t *since =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "kept", (json_int_t)d->kept, "fetched",
                  (json_int_t)d->fetched, "fetched_bytes", (json_int_t)d->fetched_bytes, "fetch_failures",
                  (json_int_t)d->fetch_failures, "failures", (json_int_t)d->failures, "set_aside",
                  (json_int_t)d->set_aside, "evicted", (json_int_t)d->evicted);
    return json_pack("{s:b, s:b, s:o, s:o, s:o}", "on", 1, "waiting", d->waiting ? 1 : 0, "bytes", bytes,
                     "held", held, "since_start", since);
}
