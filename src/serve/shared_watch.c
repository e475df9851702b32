/*
 * shared_watch - see the header.
 */
#include "serve/shared_watch.h"

enum { LOOK_NS_MAX = 1000000000 };

uint64_t cairn_shared_watch_look(cairn_shared_watch *watch, const cairn_scheduler_options *o)
{
    cairn_cache_shared_stats stats;
    cairn_cache_shared_stats_get(o->cache, &stats);
    if (!stats.on)
        return 0;
    cairn_metrics_shared(o->metrics, &stats);
    uint64_t worked = stats.asked - stats.late + stats.fetched + stats.sent + stats.known;
    bool troubled =
        stats.failures > watch->failures || stats.full > watch->full || stats.damaged > watch->damaged;
    if (troubled && !watch->failing) {
        watch->failing = true;
        cairn_log_error(o->log, CAIRN_LOG_LEVEL_WARN, "shared", &stats.last_error);
    } else if (!troubled && watch->failing && stats.works && worked > watch->worked) {
        watch->failing = false;
        CAIRN_LOG(o->log, INFO, "shared", CAIRN_FIELD_STR("message", "the shared store works again"));
    }
    watch->failures = stats.failures;
    watch->damaged = stats.damaged;
    watch->full = stats.full;
    watch->worked = worked;
    return stats.due_ns < LOOK_NS_MAX ? stats.due_ns : LOOK_NS_MAX;
}

json_t *cairn_shared_watch_json(const cairn_cache_shared_stats *s)
{
    json_t *json = json_object();
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"asked", s->asked},
                   {"found", s->found},
                   {"dearer", s->dearer},
                   {"late", s->late},
                   {"fetched", s->fetched},
                   {"fetched_bytes", s->fetched_bytes},
                   {"fetch_failures", s->fetch_failures},
                   {"sent", s->sent},
                   {"sent_bytes", s->sent_bytes},
                   {"points", s->sent_points},
                   {"known", s->known},
                   {"dropped", s->dropped},
                   {"failures", s->failures},
                   {"timeouts", s->timeouts},
                   {"damaged", s->damaged},
                   {"full", s->full},
                   {"spared", s->spared},
                   {"bytes_second", s->on ? (uint64_t)s->bytes_second : 0}};
    (void)json_object_set_new(json, "on", json_boolean(s->on));
    (void)json_object_set_new(json, "works", json_boolean(s->works));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)json_object_set_new(json, numbers[i].name, json_integer((json_int_t)numbers[i].value));
    (void)json_object_set_new(json, "waiting", json_boolean(s->waiting));
    return json;
}
