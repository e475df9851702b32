/*
 * record_json - see the header.
 */
#include "serve/record_json.h"

#include "base/units.h"

static double ms(uint64_t ns)
{
    uint64_t us = ns / 1000; /* whole microseconds print shortly */
    return (double)us / 1000.0;
}

const char *cairn_role_word(uint8_t role)
{
    switch (role) {
    case CAIRN_ROLE_SYSTEM:
        return "system";
    case CAIRN_ROLE_USER:
        return "user";
    case CAIRN_ROLE_ASSISTANT:
        return "assistant";
    case CAIRN_ROLE_TOOL:
        return "tool";
    default:
        return "none";
    }
}

/* What would have kept the nearer state, where that is a matter of room. */
static void add_help(json_t *reason, const cairn_record *r)
{
    if (reason == NULL || r->reason_bytes == 0)
        return;
    char bytes[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes(r->reason_bytes, bytes);
    json_object_set_new(reason, "help",
                        json_sprintf("With %s more memory (--cache-ram) %u tokens would have been reused.",
                                     bytes, r->reason_position));
}

json_t *cairn_record_json(const cairn_record *r)
{
    json_t *divergence =
        json_pack("{s:I, s:I, s:s}", "position", (json_int_t)r->divergence, "message",
                  (json_int_t)r->divergence_message, "role", cairn_role_word(r->divergence_role));
    json_t *reason = json_pack("{s:s, s:s, s:I, s:I}", "word", cairn_reason_word(r->reason), "text",
                               cairn_reason_sentence(r->reason), "position", (json_int_t)r->reason_position,
                               "bytes", (json_int_t)r->reason_bytes);
    add_help(reason, r);
    json_t *times = json_pack("{s:f, s:f, s:f, s:f}", "restore_ms", ms(r->restore_ns), "save_ms",
                              ms(r->save_ns), "read_ms", ms(r->read_ns), "answer_ms", ms(r->answer_ns));
    return json_pack("{s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:o, s:I, s:I, s:f, s:I, s:o}", "prompt_tokens",
                     (json_int_t)r->prompt_tokens, "reused", (json_int_t)r->resume, "read",
                     (json_int_t)r->read, "least", (json_int_t)r->least, "tier", cairn_source_word(r->source),
                     "slot", (json_int_t)r->slot, "divergence", divergence, "reason", reason, "states_taken",
                     (json_int_t)r->states_taken, "states_skipped", (json_int_t)r->states_skipped,
                     "state_age_ms", ms(r->state_age_ns), "moved_bytes", (json_int_t)r->moved_bytes, "times",
                     times);
}

json_t *cairn_record_noted_json(const cairn_record *r, json_t *notes, const cairn_excerpt *excerpt)
{
    json_t *value = cairn_record_json(r);
    if (notes != NULL)
        json_object_set(value, "notes", notes);
    if (excerpt != NULL && value != NULL)
        json_object_update_new(value, cairn_excerpt_json(excerpt, r));
    return value;
}

json_t *cairn_timings_json(const cairn_record *r, const cairn_request_times *t)
{
    double prompt_ms = ms(t->prompt_ns), answer_ms = ms(t->answer_ns);
    double read = r->read, answered = t->answer_tokens;
    json_t *value = json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "cache_n",
                              (json_int_t)r->resume, "prompt_n", (json_int_t)r->read, "prompt_ms", prompt_ms,
                              "prompt_per_token_ms", read > 0 ? prompt_ms / read : 0.0, "prompt_per_second",
                              prompt_ms > 0 ? 1000.0 * read / prompt_ms : 0.0, "predicted_n",
                              (json_int_t)t->answer_tokens, "predicted_ms", answer_ms,
                              "predicted_per_token_ms", answered > 0 ? answer_ms / answered : 0.0,
                              "predicted_per_second", answer_ms > 0 ? 1000.0 * answered / answer_ms : 0.0);
    if (t->first_byte_ns > 0)
        json_object_set_new(value, "first_byte_ms", json_real(ms(t->first_byte_ns)));
    return value;
}

json_t *cairn_usage_json(const cairn_record *r, const cairn_request_times *t, uint32_t reasoning_tokens)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", (json_int_t)r->prompt_tokens,
                     "completion_tokens", (json_int_t)t->answer_tokens, "total_tokens",
                     (json_int_t)r->prompt_tokens + (json_int_t)t->answer_tokens, "prompt_tokens_details",
                     "cached_tokens", (json_int_t)r->resume, "completion_tokens_details", "reasoning_tokens",
                     (json_int_t)reasoning_tokens);
}
