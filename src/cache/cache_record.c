/*
 * cache_record - what a request reused and why not more: counted where it happens, explained by the core.
 *
 * `resume` and `read` come from the pieces that were given to the engine, not from the plan: a request
 * whose slot was lost and that resumed a second time counts each prompt position once.
 */
#include "cache/cache_internal.h"

void cairn_record_decision(cairn_request *request)
{
    const cairn_decision *decision = cairn_core_decision(request->cache->core, request->id);
    if (decision == NULL) {
        return;
    }
    cairn_record *record = &request->record;
    record->states_taken = request->states_taken_before + decision->states_taken;
    record->states_skipped = request->states_skipped_before + decision->states_skipped;
    if (record->read > 0 && (request->recoveries > 0 || request->cancels > 0)) {
        return; /* the rest is about the plan that the first token was read by */
    }
    record->prompt_tokens = decision->prompt_tokens;
    record->divergence = decision->divergence;
    record->least = decision->least;
    record->source = decision->source;
    if (decision->source == CAIRN_SOURCE_RAM && (request->from_shared || request->from_disk)) {
        record->source = request->from_shared ? CAIRN_SOURCE_SHARED : CAIRN_SOURCE_DISK;
    }
    record->slot = decision->slot;
    record->reason = decision->reason;
    if (decision->reason == CAIRN_REASON_NEW && request->cache->keeper != NULL &&
        cairn_keeper_locked(request->cache->keeper)) {
        record->reason = CAIRN_REASON_KEY;
    }
    record->reason_position = decision->reason_position;
    /* Here nothing nearer is known; the store that servers share may have had something. */
    bool unknown = decision->reason == CAIRN_REASON_NEW || decision->reason == CAIRN_REASON_NEVER_TAKEN ||
                   (decision->reason == CAIRN_REASON_NONE && request->shared_position > decision->resume);
    if (unknown && request->shared_reason != CAIRN_REASON_NONE) {
        record->reason = request->shared_reason;
        record->reason_position = request->shared_position;
    }
    record->reason_bytes = decision->reason_bytes;
    record->divergence_message = decision->divergence_message;
    record->divergence_role = decision->divergence_role;
    record->state_age_ns = decision->state_age_ns;
}

void cairn_record_read(cairn_request *request, uint32_t begin, uint32_t end, uint64_t cost_ns)
{
    cairn_record *record = &request->record;
    uint64_t now_ns = cairn_cache_now_ns(request->cache);
    record->read_ns += cost_ns;
    cairn_timeline_add(request, &(cairn_span){.kind = CAIRN_SPAN_READ,
                                              .begin = begin,
                                              .end = end,
                                              .begin_ns = now_ns - cost_ns,
                                              .end_ns = now_ns});
    if (record->read == 0 || begin < record->resume) {
        record->resume = begin;
    }
    request->read_end = end > request->read_end ? end : request->read_end;
    record->read = request->read_end - record->resume;
    request->cache->totals.tokens_read += end - begin;
}

void cairn_record_answered(cairn_request *request, uint64_t cost_ns)
{
    uint64_t now_ns = cairn_cache_now_ns(request->cache);
    request->record.answer_ns += cost_ns;
    cairn_timeline_add(request, &(cairn_span){.kind = CAIRN_SPAN_WRITE,
                                              .begin = request->length - 1,
                                              .end = request->length,
                                              .begin_ns = now_ns - cost_ns,
                                              .end_ns = now_ns});
    if (request->answer_next > request->record.answer_tokens) {
        request->record.answer_tokens = request->answer_next;
        request->cache->totals.tokens_answer++;
    }
}

void cairn_record_restored(cairn_request *request, uint64_t bytes, uint64_t cost_ns)
{
    request->record.restore_ns += cost_ns;
    request->record.moved_bytes += bytes;
    cairn_timeline_ended(request, request->fetches ? CAIRN_SPAN_FETCH : CAIRN_SPAN_RESTORE, cost_ns, bytes);
}

void cairn_record_saved(cairn_request *request, uint64_t bytes, uint64_t cost_ns)
{
    request->record.save_ns += cost_ns;
    request->record.moved_bytes += bytes;
    cairn_timeline_ended(request, CAIRN_SPAN_SAVE, cost_ns, bytes);
}
