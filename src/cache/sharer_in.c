/*
 * sharer_in - a request's way: which points to ask for, and what the core makes of the answer.
 *
 * What may be in the store is not known here, and is not listed there. But a state can only be where a server of the
 * same kind would have cut this prompt's reading, or where an answer ended: those positions are asked for, each
 * by a key that follows from the prompt's own tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "cache/sharer_internal.h"

#define MS_NS UINT64_C(1000000)

enum { WAIT_MS = 2, ANSWER_FRAME_TOKENS = 4, GRACE_MS = 50, FETCH_FACTOR = 4 };

/* --- candidates ----------------------------------------------------------------------------------------------- */

/* A position, and whether only an answer can have ended there. */
typedef struct sharer_place {
    uint32_t position;
    bool answer_only;
} sharer_place;

static int deepest_first(const void *a, const void *b)
{
    const sharer_place *x = a, *y = b;
    if (x->position != y->position) {
        return x->position > y->position ? -1 : 1;
    }
    return (int)x->answer_only - (int)y->answer_only;
}

static void place_add(sharer_place *places, uint32_t room, uint32_t *count, uint32_t position,
                      bool answer_only)
{
    if (*count < room) {
        places[(*count)++] = (sharer_place){.position = position, .answer_only = answer_only};
    }
}

/* Boundaries, canonical cuts, and just before a message that follows an answer: its last tokens are the template's. */
static uint32_t places_list(const cairn_sharer *sharer, const cairn_prompt *prompt, const uint32_t *cuts,
                            uint32_t count_cuts, sharer_place *places, uint32_t room)
{
    uint32_t count = 0;
    bool fast = prompt->mode == CAIRN_RESUME_FAST;
    uint8_t role = CAIRN_ROLE_NONE;
    (void)sharer;
    for (uint32_t i = 0; i < count_cuts; i++) {
        place_add(places, room, &count, cuts[i], false);
    }
    for (uint32_t i = 0; i < prompt->count_boundaries && fast; i++) {
        const cairn_boundary *boundary = &prompt->boundaries[i];
        place_add(places, room, &count, boundary->position, false);
        if ((boundary->kinds & CAIRN_BOUNDARY_MESSAGE_START) == 0) {
            continue;
        }
        for (uint32_t back = 1; role == CAIRN_ROLE_ASSISTANT && back <= ANSWER_FRAME_TOKENS; back++) {
            if (boundary->position > back) {
                place_add(places, room, &count, boundary->position - back, true);
            }
        }
        role = boundary->role;
    }
    return count;
}

/* Fill the ask's candidates, deepest first, each position once. */
static void candidates_choose(cairn_sharer *sharer, const cairn_prompt *prompt, sharer_place *places,
                              uint32_t count, sharer_ask *ask)
{
    bool exact = prompt->mode == CAIRN_RESUME_EXACT;
    ask->count = 0;
    qsort(places, count, sizeof *places, deepest_first);
    for (uint32_t i = 0; i < count && ask->count + 2 <= SHARER_KEYS_MAX; i++) {
        const sharer_place *place = &places[i];
        bool twice = i > 0 && places[i - 1].position == place->position;
        if (twice || place->position >= prompt->count || place->position < ask->resume + SHARER_GAIN_TOKENS) {
            continue;
        }
        sharer_candidate candidate = {.position = place->position};
        if (exact) {
            candidate.cut_digest = cairn_core_cut_digest(sharer->cache->core, prompt, place->position);
            if (candidate.cut_digest == 0) {
                continue;
            }
        }
        if (!place->answer_only) {
            ask->candidates[ask->count++] = candidate;
        }
        if (!exact) {
            candidate.provenance = 1;
            ask->candidates[ask->count++] = candidate;
        }
    }
}

/* No more than the store answers quickly: the deepest, and for a conversation that is new the shallowest. */
static void candidates_limit(const cairn_sharer *sharer, sharer_ask *ask)
{
    uint32_t most = cairn_shared_keys_max(sharer->shared), last = most / 4;
    if (ask->count > most) {
        memmove(&ask->candidates[most - last], &ask->candidates[ask->count - last],
                last * sizeof *ask->candidates);
        ask->count = most;
    }
}

/* Digests and keys of the candidates: one pass over the prompt. */
static bool candidates_name(cairn_sharer *sharer, const cairn_prompt *prompt, sharer_ask *ask)
{
    uint32_t at[SHARER_KEYS_MAX];
    cairn_path_digest digests[SHARER_KEYS_MAX];
    uint32_t count = ask->count;
    for (uint32_t i = 0; i < count; i++) {
        at[i] = ask->candidates[count - 1 - i].position;
    }
    if (cairn_shared_space_get(sharer->shared, &prompt->space, &ask->space, NULL) != CAIRN_OK ||
        cairn_path_digests(&ask->space.root, prompt->tokens, prompt->count, at, count, digests, NULL) !=
            CAIRN_OK) {
        return false;
    }
    if (cairn_shared_marker_key(&ask->space, ask->keys[count]) != CAIRN_OK) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        sharer_candidate *candidate = &ask->candidates[i];
        candidate->path = digests[count - 1 - i];
        if (cairn_shared_point_key(&ask->space, &candidate->path, candidate->position, candidate->provenance,
                                   ask->keys[i]) != CAIRN_OK) {
            return false;
        }
    }
    return true;
}

static bool candidates_fill(cairn_sharer *sharer, const cairn_prompt *prompt, sharer_ask *ask)
{
    cairn_mem *mem = cairn_mem_default();
    const cairn_core_options *options = &sharer->cache->core_options;
    uint32_t count_cuts = cairn_core_cuts(options, prompt, NULL, 0);
    uint32_t room = count_cuts + prompt->count_boundaries * (1 + ANSWER_FRAME_TOKENS);
    uint32_t *cuts = cairn_mem_array(mem, count_cuts, sizeof *cuts);
    sharer_place *places = cairn_mem_array(mem, room, sizeof *places);
    ask->count = 0;
    if (cuts != NULL && places != NULL) {
        (void)cairn_core_cuts(options, prompt, cuts, count_cuts);
        uint32_t count = places_list(sharer, prompt, cuts, count_cuts, places, room);
        candidates_choose(sharer, prompt, places, count, ask);
        candidates_limit(sharer, ask);
    }
    cairn_mem_array_release(mem, places, room, sizeof *places);
    cairn_mem_array_release(mem, cuts, count_cuts, sizeof *cuts);
    return ask->count > 0 && candidates_name(sharer, prompt, ask);
}

static sharer_ask *ask_take(cairn_sharer *sharer)
{
    sharer_ask *found = NULL;
    cairn_lock(&sharer->lock);
    for (uint32_t i = 0; i < sharer->count_asks && found == NULL; i++) {
        found = sharer->asks[i].phase == SHARER_FREE ? &sharer->asks[i] : NULL;
    }
    cairn_unlock(&sharer->lock);
    return found;
}

bool cairn_sharer_seek(cairn_sharer *sharer, const cairn_prompt *prompt, uint32_t resume,
                       cairn_share *ret_share)
{
    *ret_share = (cairn_share){0};
    sharer_ask *ask = ask_take(sharer);
    if (prompt->mode == CAIRN_RESUME_OFF || prompt->count <= resume + SHARER_GAIN_TOKENS || ask == NULL) {
        return false;
    }
    ask->resume = resume;
    ask->read_ns_token = sharer->read_ns_token;
    if (!candidates_fill(sharer, prompt, ask)) {
        return false;
    }
    ask->until_ns = cairn_clock_now_ns(cairn_clock_system()) + sharer->deadline_ns;
    ret_share->ask = ask;
    ret_share->until_ns = ask->until_ns + GRACE_MS * MS_NS;
    cairn_lock(&sharer->lock);
    ask->phase = SHARER_READY;
    sharer->stats.asked++;
    cairn_cond_signal(&sharer->wake_receiver);
    cairn_unlock(&sharer->lock);
    return true;
}

/* --- adopting ------------------------------------------------------------------------------------------------- */

/* How much of a blob is on the prompt's path, proved by the head's own digests. 0: nothing. */
static uint32_t head_use_end(const sharer_ask *ask, const cairn_prompt *prompt, const cairn_shared_head *head)
{
    const cairn_blob_meta *meta = &head->meta;
    uint32_t position = ask->point.position, use_end = meta->end < position ? meta->end : position;
    uint32_t at[2] = {meta->begin, use_end};
    cairn_path_digest digests[2];
    if (meta->begin > use_end || cairn_path_digests(&ask->space.root, prompt->tokens, prompt->count, at, 2,
                                                    digests, NULL) != CAIRN_OK) {
        return 0;
    }
    bool begins = cairn_path_digest_equal(&digests[0], &meta->path_begin);
    if (meta->end == use_end) {
        return begins && cairn_path_digest_equal(&digests[1], &meta->path_end) ? use_end : 0;
    }
    const uint8_t *mark = meta->kind == CAIRN_BLOB_ROWS && use_end > meta->begin
                              ? cairn_blob_header_mark(head->bytes, &head->layout, use_end - meta->begin - 1)
                              : NULL;
    return begins && mark != NULL && memcmp(mark, digests[1].bytes, CAIRN_BLOB_MARK_BYTES) == 0 ? use_end : 0;
}

/* Describe one blob to the core. False: it isn't what the point promised, or no memory. */
static bool adopt_one(cairn_sharer *sharer, const sharer_ask *ask, const cairn_prompt *prompt, uint32_t index,
                      cairn_adopt *adopt)
{
    const cairn_shared_head *head = &ask->heads[index];
    const cairn_blob_meta *meta = &head->meta;
    bool rows = meta->kind == CAIRN_BLOB_ROWS;
    uint32_t use_end = head_use_end(ask, prompt, head);
    if (use_end == 0 || rows != (ask->head_parts[index] > 0) || meta->payload_bytes > sharer->payload_room ||
        (!rows && (meta->end != ask->point.position || meta->provenance != ask->point.provenance ||
                   meta->cut_digest != ask->point.cut_digest))) {
        return false;
    }
    *adopt = (cairn_adopt){.rows = rows,
                           .decoded = meta->provenance != 0,
                           .begin = meta->begin,
                           .end = use_end,
                           .stored_end = meta->end,
                           .bytes = meta->payload_bytes +
                                    cairn_tier_ram_overhead(sharer->cache->ram, meta->payload_bytes),
                           .digest = meta->cut_digest,
                           .boundary = meta->boundary};
    if (!rows) {
        return true;
    }
    uint32_t count = meta->count_runs > 0 ? meta->count_runs : 1;
    cairn_run *runs = cairn_mem_array(cairn_mem_default(), count, sizeof *runs);
    adopt->runs = runs;
    adopt->count_runs = count;
    if (runs == NULL) {
        return false;
    }
    runs[0] = (cairn_run){.rows_end = meta->end, .cut = meta->end};
    for (uint32_t i = 0; i < meta->count_runs; i++) {
        cairn_blob_run run = cairn_blob_header_run(head->bytes, &head->layout, i);
        runs[i] = (cairn_run){.rows_end = run.rows_end, .cut = run.cut, .digest = run.digest};
    }
    return true;
}

/* The answer has come: offer what was found to the core. False: nothing is to be fetched. */
static bool adopt(cairn_sharer *sharer, const cairn_prompt *prompt, cairn_share *share)
{
    sharer_ask *ask = share->ask;
    cairn_mem *mem = cairn_mem_default();
    share->count = ask->count_heads;
    share->blobs = cairn_mem_array(mem, share->count, sizeof *share->blobs);
    cairn_adopt *adopts = cairn_mem_array(mem, share->count, sizeof *adopts);
    bool fine = share->blobs != NULL && adopts != NULL, wanted = false;
    for (uint32_t i = 0; i < share->count && fine; i++) {
        fine = adopt_one(sharer, ask, prompt, i, &adopts[i]);
    }
    if (fine) {
        cairn_cache_adopt(sharer->cache, prompt, adopts, share->count, share->blobs);
    } else {
        cairn_sharer_count(sharer, &sharer->stats.fetch_failures, 1);
    }
    for (uint32_t i = 0; i < share->count && adopts != NULL; i++) {
        cairn_mem_array_release(mem, (cairn_run *)adopts[i].runs, adopts[i].count_runs,
                                sizeof *adopts[i].runs);
        wanted = wanted || (share->blobs != NULL && share->blobs[i] != 0);
    }
    cairn_mem_array_release(mem, adopts, share->count, sizeof *adopts);
    return wanted;
}

/* --- fetching ----------------------------------------------------------------------------------------------------- */

/* All of it is here: what the point names need not be sent from here. */
static void point_learn(cairn_sharer *sharer, const sharer_ask *ask)
{
    cairn_sharer_learn(sharer, cairn_blob_name_number(ask->keys[ask->found]));
    for (uint32_t i = 0; i < ask->point.count_parts; i++) {
        cairn_sharer_learn(sharer, cairn_blob_name_number(ask->point.parts[i].name));
    }
}

/* The question is answered, or it is too late for that. */
static bool answer_take(cairn_sharer *sharer, const cairn_prompt *prompt, cairn_share *share)
{
    sharer_ask *ask = share->ask;
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    if (ask->dearer) {
        cairn_sharer_count(sharer, &sharer->stats.dearer, 1);
        share->reason = CAIRN_REASON_DEARER;
        share->reason_position = ask->point.position;
        return false;
    }
    if (ask->status != CAIRN_OK) {
        share->reason = ask->status == CAIRN_NOTFOUND ? CAIRN_REASON_NONE : CAIRN_REASON_LATE;
        return false;
    }
    cairn_sharer_count(sharer, &sharer->stats.found, 1);
    if (!adopt(sharer, prompt, share)) {
        return false;
    }
    double reading_ns = ask->read_ns_token * (ask->point.position - ask->resume);
    double wait_ns = FETCH_FACTOR * (double)ask->expected_ns + (double)sharer->deadline_ns;
    share->until_ns = now_ns + (uint64_t)(wait_ns < reading_ns ? wait_ns : reading_ns);
    share->fetching = true;
    return true;
}

/* Gives false: nothing more is waited for. */
static bool too_late(cairn_sharer *sharer, cairn_share *share, uint32_t position)
{
    cairn_sharer_count(sharer, &sharer->stats.late, 1);
    share->reason = CAIRN_REASON_LATE;
    share->reason_position = position;
    return false;
}

/* Take what has come, and have more brought. Gives false when there is no more, or it is no use. */
static bool fetch_step(cairn_sharer *sharer, cairn_share *share, uint64_t now_ns, uint64_t *ret_bytes)
{
    uint32_t position = share->ask->point.position;
    cairn_status status = cairn_sharer_loads_take(sharer, share, ret_bytes);
    if (status == CAIRN_OK && now_ns <= share->until_ns) {
        status = cairn_sharer_loads_start(sharer, share);
    }
    if (status != CAIRN_OK) {
        share->reason = status == CAIRN_CORRUPT    ? CAIRN_REASON_DAMAGED
                        : status == CAIRN_NOTFOUND ? CAIRN_REASON_EVICTED
                                                   : CAIRN_REASON_LATE;
        share->reason_position = position;
        return false;
    }
    if (share->waiting == 0 && share->next == share->count) {
        point_learn(sharer, share->ask);
        return false;
    }
    return now_ns <= share->until_ns || too_late(sharer, share, position);
}

bool cairn_sharer_step(cairn_sharer *sharer, const cairn_prompt *prompt, cairn_share *share, bool wait,
                       uint64_t *ret_bytes)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_sharer_loads_settle(sharer);
    if (wait) {
        cairn_sharer_wait(sharer, now_ns + WAIT_MS * MS_NS);
    }
    if (share->fetching) {
        return fetch_step(sharer, share, now_ns, ret_bytes);
    }
    cairn_lock(&sharer->lock);
    bool answered = share->ask->phase == SHARER_DONE;
    cairn_unlock(&sharer->lock);
    if (!answered) {
        return now_ns <= share->until_ns || too_late(sharer, share, 0);
    }
    return answer_take(sharer, prompt, share) && fetch_step(sharer, share, now_ns, ret_bytes);
}

void cairn_sharer_end(cairn_sharer *sharer, cairn_share *share)
{
    sharer_ask *ask = share->ask;
    if (ask == NULL) {
        return;
    }
    cairn_sharer_loads_leave(sharer, share);
    cairn_lock(&sharer->lock);
    bool worked_on = ask->phase == SHARER_RUNNING || ask->running > 0;
    ask->left = worked_on;
    if (!worked_on) {
        cairn_sharer_ask_clear(sharer, ask);
        ask->phase = SHARER_FREE;
    }
    cairn_unlock(&sharer->lock);
    cairn_mem_array_release(cairn_mem_default(), share->blobs, share->count, sizeof *share->blobs);
    *share = (cairn_share){0};
}
