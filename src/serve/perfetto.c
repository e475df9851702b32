/*
 * perfetto - see the header.
 */
#include "serve/perfetto.h"

enum { TRACK_REQUEST = 1, TRACK_WORK = 2, TRACK_DISK = 3 };

static double us(uint64_t ns)
{
    return (double)ns / 1000.0;
}

static void name_track(json_t *events, int track, const char *kind, const char *name)
{
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", kind, "ph", "M", "pid",
                                            1, "tid", track, "args", "name", name));
}

/* A stretch of time; `args` is taken over. */
static void add_stretch(json_t *events, int track, const char *name, double from_us, double took_us,
                        json_t *args)
{
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "name", name, "ph", "X",
                                            "pid", 1, "tid", track, "ts", from_us, "dur", took_us, "args",
                                            args != NULL ? args : json_object()));
}

static void add_phases(json_t *events, const cairn_history_entry *entry)
{
    const cairn_request_times *t = &entry->times;
    const cairn_record *r = &entry->record;
    double at = 0;
    add_stretch(events, TRACK_REQUEST, "waits for a slot", at, us(t->queue_ns), NULL);
    at += us(t->queue_ns);
    add_stretch(events, TRACK_REQUEST, "reads the prompt", at, us(t->prompt_ns),
                json_pack("{s:I, s:I, s:I, s:I, s:s, s:s}", "prompt_tokens", (json_int_t)r->prompt_tokens,
                          "reused", (json_int_t)r->resume, "read", (json_int_t)r->read, "least",
                          (json_int_t)r->least, "tier", cairn_source_word(r->source), "reason",
                          cairn_reason_word(r->reason)));
    at += us(t->prompt_ns);
    add_stretch(events, TRACK_REQUEST, "writes the answer", at, us(t->answer_ns),
                json_pack("{s:I}", "tokens", (json_int_t)t->answer_tokens));
}

static void add_span(json_t *events, int track, const cairn_span *span, uint64_t zero_ns)
{
    json_t *args = json_object();
    if (span->end > span->begin) {
        json_object_set_new(args, "begin", json_integer((json_int_t)span->begin));
        json_object_set_new(args, "end", json_integer((json_int_t)span->end));
    }
    if (span->bytes > 0)
        json_object_set_new(args, "bytes", json_integer((json_int_t)span->bytes));
    if (span->count > 1)
        json_object_set_new(args, "pieces", json_integer((json_int_t)span->count));
    uint64_t begin_ns = span->begin_ns > zero_ns ? span->begin_ns - zero_ns : 0;
    add_stretch(events, track, cairn_span_word((cairn_span_kind)span->kind), us(begin_ns),
                us(span->end_ns - span->begin_ns), args);
}

json_t *cairn_perfetto_json(const cairn_history_entry *entry, const cairn_span *writes, uint32_t count)
{
    char title[48];
    json_t *events = json_array();
    (void)snprintf(title, sizeof title, "request %llu", (unsigned long long)entry->id);
    name_track(events, TRACK_REQUEST, "process_name", title);
    name_track(events, TRACK_REQUEST, "thread_name", "request");
    name_track(events, TRACK_WORK, "thread_name", "work");
    add_phases(events, entry);
    for (uint32_t i = 0; i < entry->timeline.count; i++)
        add_span(events, TRACK_WORK, &entry->timeline.spans[i], entry->arrived_ns);
    if (count > 0)
        name_track(events, TRACK_DISK, "thread_name", "disk");
    for (uint32_t i = 0; i < count; i++)
        add_span(events, TRACK_DISK, &writes[i], entry->arrived_ns);
    return json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
}
