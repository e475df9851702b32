/*
 * core_driver - see core_driver.h.
 */
#include "core_driver.h"

#include "base/hash.h"

bool driver_planted_fault;

static const uint64_t seed_pure = 0x1234567;

/* --- the engine of hashes --------------------------------------------------------------------------------- */

static uint64_t chain(uint64_t pure, cairn_token token)
{
    return cairn_hash_mix(pure ^ cairn_hash_mix((uint64_t)(uint32_t)token + 77));
}

static uint64_t rows_sum(const driver_slot *s, uint32_t end)
{
    uint64_t sum = 5;
    for (uint32_t i = 0; i < end; i++) {
        sum = cairn_hash_mix(sum ^ s->rows_low[i]);
    }
    return sum;
}

static void decode(driver_slot *s, const cairn_token *tokens, uint32_t count)
{
    uint32_t begin = s->length;
    uint32_t end = begin + count;
    assert_true(end <= DRIVER_TOKENS);
    assert_true(s->state_set || begin == 0);
    if (begin == 0) {
        s->pure = seed_pure;
        s->low = 3;
    }
    uint64_t batch = cairn_hash_mix(((uint64_t)begin << 32) | end);
    for (uint32_t i = begin; i < end; i++) {
        s->pure = chain(s->pure, tokens[i - begin]);
        s->rows_pure[i] = s->pure;
        s->rows_low[i] = cairn_hash_mix(s->low ^ batch ^ i);
    }
    s->low = cairn_hash_mix(s->low ^ batch ^ rows_sum(s, begin));
    s->length = end;
    s->state_set = true;
}

/* What a cold reading of the prompt, cut where it has to be, arrives at. */
static void cold(const driver *d, const cairn_prompt *prompt, driver_slot *ret_slot)
{
    static uint32_t cuts[DRIVER_TOKENS];
    static uint64_t pure[DRIVER_TOKENS];
    static uint64_t low[DRIVER_TOKENS];
    *ret_slot = (driver_slot){.rows_pure = pure, .rows_low = low};
    uint32_t count = cairn_core_cuts(&d->options, prompt, cuts, DRIVER_TOKENS);
    uint32_t begin = 0;
    for (uint32_t i = 0; i < count; i++) {
        decode(ret_slot, prompt->tokens + begin, cuts[i] - begin);
        begin = cuts[i];
    }
    assert_int_equal(begin, prompt->count);
}

/* --- blobs ---------------------------------------------------------------------------------------------------- */

static driver_blob *blob_find(driver *d, cairn_blob_id id)
{
    for (uint32_t i = 0; i < d->count_blobs; i++) {
        if (d->blobs[i].id == id) {
            return &d->blobs[i];
        }
    }
    return NULL;
}

static void blob_remove(driver *d, cairn_blob_id id)
{
    driver_blob *b = blob_find(d, id);
    if (b != NULL) {
        d->held_bytes -= b->bytes;
        free(b->rows_pure);
        free(b->rows_low);
        *b = d->blobs[--d->count_blobs];
    }
}

static driver_blob *blob_add(driver *d, const cairn_action *a, uint64_t bytes)
{
    assert_null(blob_find(d, a->blob));
    if (d->count_blobs == d->room_blobs) {
        d->room_blobs = d->room_blobs * 2 + 64;
        d->blobs = realloc(d->blobs, d->room_blobs * sizeof *d->blobs);
        assert_non_null(d->blobs);
    }
    driver_blob *b = &d->blobs[d->count_blobs++];
    *b = (driver_blob){.id = a->blob, .begin = a->begin, .end = a->end, .bytes = bytes};
    d->held_bytes += bytes;
    return b;
}

static void check_room(const driver *d, uint64_t more)
{
    cairn_core_stats stats;
    cairn_core_stats_get(d->core, &stats);
    if (d->held_bytes + more + stats.index_bytes > d->cap_bytes) {
        fail_msg("after event %d: held %llu and %llu more and an index of %llu, cap %llu; the core says %llu "
                 "and %llu reserved",
                 (int)d->last_event, (unsigned long long)d->held_bytes, (unsigned long long)more,
                 (unsigned long long)stats.index_bytes, (unsigned long long)d->cap_bytes,
                 (unsigned long long)(stats.state_bytes + stats.row_bytes),
                 (unsigned long long)stats.reserved_bytes);
    }
}

/* --- carrying out ------------------------------------------------------------------------------------------------ */

static void check_core(driver *d)
{
    cairn_error error = {0};
    if (d->verify && cairn_core_verify(d->core, &error) != CAIRN_OK) {
        char text[256];
        cairn_error_print(&error, text, sizeof text);
        fail_msg("after event %d: %s", (int)d->last_event, text);
    }
    cairn_core_stats stats;
    cairn_core_stats_get(d->core, &stats);
    assert_true(stats.ram_bytes <= d->cap_bytes);
}

/* Send an event and take a copy of its list. */
static cairn_status send(driver *d, cairn_event *event, cairn_action **ret_list, uint32_t *ret_count)
{
    const cairn_action *list;
    event->now_ns = d->now_ns;
    d->last_event = event->kind;
    cairn_status status = cairn_core_step(d->core, event, &list, ret_count, NULL);
    *ret_list = NULL;
    if (*ret_count > 0) {
        *ret_list = malloc(*ret_count * sizeof **ret_list);
        assert_non_null(*ret_list);
        memcpy(*ret_list, list, *ret_count * sizeof **ret_list);
    }
    d->actions += *ret_count;
    check_core(d);
    return status;
}

static bool failing(driver *d)
{
    return d->fail_chance > 0 && cairn_rng_chance(&d->rng, d->fail_chance);
}

static void report(driver *d, const cairn_action *a, bool stored, uint64_t bytes)
{
    cairn_action *list;
    uint32_t count;
    cairn_event event = {.kind = stored ? CAIRN_EVENT_STORED : CAIRN_EVENT_FAILED,
                         .request = a->request,
                         .blob = a->blob,
                         .bytes = bytes,
                         .status = CAIRN_NOSPACE,
                         .cost_ns = a->kind == CAIRN_ACTION_TAKE ? d->take_ns : 0};
    assert_ok(send(d, &event, &list, &count));
    assert_int_equal(count, 0);
    free(list);
}

static void do_take(driver *d, const cairn_action *a)
{
    driver_slot *s = &d->slots[a->slot];
    assert_int_equal(s->length, a->begin);
    assert_true(s->state_set);
    check_room(d, a->bytes);
    if (failing(d)) {
        report(d, a, false, 0);
        return;
    }
    uint64_t bytes = d->even ? a->bytes : a->bytes - cairn_rng_below(&d->rng, a->bytes / 4 + 1);
    driver_blob *b = blob_add(d, a, bytes);
    b->pure = s->pure;
    b->low = s->low;
    d->now_ns += d->take_ns;
    report(d, a, true, bytes);
}

static void do_save(driver *d, const cairn_action *a)
{
    driver_slot *s = &d->slots[a->slot];
    assert_true(a->begin < a->end && a->end <= s->length);
    check_room(d, a->bytes + d->options.rows_extra_bytes);
    if (failing(d)) {
        report(d, a, false, 0);
        return;
    }
    driver_blob *b = blob_add(d, a, a->bytes);
    b->rows = true;
    b->rows_pure = malloc((a->end - a->begin) * sizeof(uint64_t));
    b->rows_low = malloc((a->end - a->begin) * sizeof(uint64_t));
    assert_true(b->rows_pure != NULL && b->rows_low != NULL);
    memcpy(b->rows_pure, s->rows_pure + a->begin, (a->end - a->begin) * sizeof(uint64_t));
    memcpy(b->rows_low, s->rows_low + a->begin, (a->end - a->begin) * sizeof(uint64_t));
    report(d, a, true, a->bytes);
}

static void copy_rows(driver_blob *b, const uint64_t *pure, const uint64_t *low)
{
    size_t bytes = (b->end - b->begin) * sizeof(uint64_t);
    b->rows = true;
    b->rows_pure = malloc(bytes);
    b->rows_low = malloc(bytes);
    assert_true(b->rows_pure != NULL && b->rows_low != NULL);
    memcpy(b->rows_pure, pure, bytes);
    memcpy(b->rows_low, low, bytes);
}

static void do_fetch(driver *d, const cairn_action *a)
{
    assert_non_null(d->offers); /* only an ADOPT asks for it */
    const driver_blob *offer = &d->offers[a->use_begin];
    check_room(d, a->bytes);
    if (cairn_rng_chance(&d->rng, 0.1)) {
        report(d, a, false, 0);
        return;
    }
    driver_blob *b = blob_add(d, a, offer->bytes);
    b->begin = offer->begin;
    b->end = offer->end;
    b->pure = offer->pure;
    b->low = offer->low;
    if (offer->rows) {
        copy_rows(b, offer->rows_pure, offer->rows_low);
    }
    report(d, a, true, offer->bytes);
}

static bool do_load(driver *d, const cairn_action *a)
{
    driver_slot *s = &d->slots[a->slot];
    const driver_blob *b = blob_find(d, a->blob);
    if (b == NULL) {
        return false; /* its SAVE_ROWS failed before */
    }
    assert_true(b->rows && b->begin == a->begin && b->end == a->end);
    assert_true(a->begin <= a->use_begin && a->use_begin < a->use_end && a->use_end <= a->end);
    assert_int_equal(s->length, a->use_begin);
    for (uint32_t i = a->use_begin; i < a->use_end; i++) {
        s->rows_pure[i] = b->rows_pure[i - b->begin];
        s->rows_low[i] = b->rows_low[i - b->begin];
    }
    s->length = a->use_end;
    s->state_set = false;
    return true;
}

static bool do_restore(driver *d, const cairn_action *a)
{
    driver_slot *s = &d->slots[a->slot];
    const driver_blob *b = blob_find(d, a->blob);
    const driver_request *r = &d->requests[a->slot];
    if (b == NULL) {
        return false;
    }
    assert_true(!b->rows && b->begin == a->begin);
    assert_int_equal(s->length, a->begin); /* both or neither */
    assert_true(a->begin < r->prompt.count);
    uint64_t pure = seed_pure;
    for (uint32_t i = 0; i < a->begin; i++) {
        pure = chain(pure, r->prompt.tokens[i]);
        assert_true(s->rows_pure[i] == pure); /* whole path */
    }
    assert_true(b->pure == pure);
    s->pure = b->pure;
    s->low = b->low;
    s->state_set = true;
    return true;
}

static void carry_out(driver *d, const cairn_action *list, uint32_t count);

static void action_failed(driver *d, const cairn_action *a, uint32_t index)
{
    static const cairn_status kinds[] = {CAIRN_CORRUPT, CAIRN_ENGINE, CAIRN_NOTFOUND, CAIRN_FOREIGN,
                                         CAIRN_NOMEM};
    driver_slot *s = &d->slots[a->slot];
    s->length = 0;
    s->state_set = false;
    cairn_event event = {.kind = CAIRN_EVENT_FAILED,
                         .request = a->request,
                         .action = index,
                         .status = kinds[cairn_rng_below(&d->rng, 5)]};
    if (a->blob != 0 && blob_find(d, a->blob) == NULL) {
        event.status = CAIRN_NOTFOUND;
    }
    cairn_action *again;
    uint32_t count;
    d->requests[a->slot].resumed = false;
    d->requests[a->slot].read = 0;
    assert_ok(send(d, &event, &again, &count));
    assert_true(count > 0);
    carry_out(d, again, count);
    free(again);
}

/* Everything up to the READ or READY, which is noted. */
static void carry_out(driver *d, const cairn_action *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const cairn_action *a = &list[i];
        driver_slot *s = a->slot < DRIVER_SLOTS ? &d->slots[a->slot] : NULL;
        bool fine = true;
        switch (a->kind) {
        case CAIRN_ACTION_DROP:
            blob_remove(d, a->blob);
            break;
        case CAIRN_ACTION_TAKE:
            do_take(d, a);
            break;
        case CAIRN_ACTION_SAVE_ROWS:
            do_save(d, a);
            break;
        case CAIRN_ACTION_RESET:
            s->length = 0;
            s->state_set = false;
            break;
        case CAIRN_ACTION_TRIM:
            assert_true(a->begin <= s->length && a->begin > 0);
            if (driver_planted_fault) {
                break;
            }
            s->state_set = s->state_set && s->length == a->begin;
            s->length = a->begin;
            fine = !failing(d);
            break;
        case CAIRN_ACTION_LOAD_ROWS:
            fine = do_load(d, a) && !failing(d);
            break;
        case CAIRN_ACTION_RESTORE:
            fine = do_restore(d, a) && !failing(d);
            break;
        case CAIRN_ACTION_FETCH:
            do_fetch(d, a);
            break;
        case CAIRN_ACTION_READ:
        case CAIRN_ACTION_READY:
            assert_int_equal(i, count - 1);
            d->requests[a->slot].ready = a->kind == CAIRN_ACTION_READY;
            d->requests[a->slot].reading_end = a->kind == CAIRN_ACTION_READ ? a->end : 0;
            d->requests[a->slot].position = a->begin;
            d->requests[a->slot].read_index = i;
            if (d->options.trim == CAIRN_TRIM_ANYWHERE && s->length == a->begin && !s->state_set &&
                a->begin > 0) {
                s->state_set = true; /* rows are all there is */
                s->pure = s->rows_pure[a->begin - 1];
                s->low = 0;
            }
            assert_int_equal(s->length, a->begin);
            assert_true(a->kind == CAIRN_ACTION_READY || a->end - a->begin <= d->options.batch_tokens_max);
            break;
        }
        if (!fine) {
            action_failed(d, a, i);
            return;
        }
    }
}

typedef struct offered {
    cairn_adopt adopts[8];
    driver_blob blobs[8];
    uint32_t count;
} offered;

/* Runs of rows [begin, end) of a cold reading with these cuts. */
static uint32_t cold_runs(const uint32_t *cuts, const uint64_t *digests, uint32_t begin, uint32_t end,
                          cairn_run *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; count == 0 || out[count - 1].rows_end < end; i++) {
        if (cuts[i] > begin) {
            out[count++] =
                (cairn_run){.rows_end = cuts[i] < end ? cuts[i] : end, .cut = cuts[i], .digest = digests[i]};
        }
    }
    return count;
}

void driver_adopt(driver *d, const cairn_prompt *prompt)
{
    static uint32_t cuts[DRIVER_TOKENS];
    static uint64_t digests[DRIVER_TOKENS], pure[DRIVER_TOKENS], low[DRIVER_TOKENS];
    static cairn_run runs[8][DRIVER_TOKENS];
    driver_slot s = {.rows_pure = pure, .rows_low = low};
    offered o = {.count = 0};
    uint32_t count = cairn_core_cuts(&d->options, prompt, cuts, DRIVER_TOKENS);
    uint32_t deepest = (uint32_t)cairn_rng_below(&d->rng, count);
    uint32_t begin = 0;
    for (uint32_t i = 0; i <= deepest; i++) {
        digests[i] = cairn_core_cut_digest(d->core, prompt, cuts[i]);
        decode(&s, prompt->tokens + begin, cuts[i] - begin);
        begin = cuts[i];
        bool taken = d->options.state_bytes_max > 0 && (i == deepest || cairn_rng_chance(&d->rng, 0.2));
        if (taken && (o.count < 3 || i == deepest)) {
            o.blobs[o.count] = (driver_blob){.begin = begin, .end = begin, .pure = s.pure, .low = s.low};
            o.adopts[o.count++] = (cairn_adopt){.end = begin, .digest = digests[i]};
        }
    }
    uint32_t hole = (uint32_t)cairn_rng_below(&d->rng, 12);
    for (uint32_t at = 0, piece = 0; at < begin; piece++) {
        uint32_t end = piece == 2 ? begin : at + 1 + (uint32_t)cairn_rng_below(&d->rng, begin - at);
        if (piece != hole) {
            cairn_adopt *item = &o.adopts[o.count];
            *item = (cairn_adopt){
                .rows = true, .begin = at, .end = end, .stored_end = end, .runs = runs[o.count]};
            item->count_runs = cold_runs(cuts, digests, at, end, runs[o.count]);
            o.blobs[o.count++] = (driver_blob){
                .rows = true, .begin = at, .end = end, .rows_pure = pure + at, .rows_low = low + at};
        }
        at = end;
    }
    for (uint32_t i = 0; i < o.count; i++) {
        o.adopts[i].bytes = o.adopts[i].rows
                                ? (uint64_t)(o.adopts[i].end - o.adopts[i].begin) * d->options.row_bytes
                                : d->options.state_bytes_max;
        o.blobs[i].bytes = o.adopts[i].bytes;
    }
    cairn_event event = {.kind = CAIRN_EVENT_ADOPT, .prompt = prompt, .adopts = o.adopts, .count = o.count};
    d->offers = o.blobs;
    if (o.count > 0) {
        assert_ok(driver_event(d, &event));
    }
    d->offers = NULL;
}

cairn_status driver_event(driver *d, const cairn_event *event)
{
    cairn_event copy = *event;
    cairn_action *list;
    uint32_t count;
    if (event->kind == CAIRN_EVENT_BUDGET) {
        d->cap_bytes = UINT64_MAX; /* until the list is carried out */
    }
    if (event->kind == CAIRN_EVENT_LOST) {
        blob_remove(d, event->blob);
    }
    cairn_status status = send(d, &copy, &list, &count);
    carry_out(d, list, count);
    free(list);
    if (event->kind == CAIRN_EVENT_BUDGET) {
        cairn_core_stats stats;
        cairn_core_stats_get(d->core, &stats);
        d->cap_bytes = event->bytes > stats.ram_bytes ? event->bytes : stats.ram_bytes;
    }
    return status;
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

cairn_core_options driver_options(void)
{
    return (cairn_core_options){.ram_bytes_max = 1 << 20,
                                .index_bytes_max = 1 << 18,
                                .slots = 2,
                                .slot_tokens_max = 4096,
                                .batch_tokens_max = 64,
                                .cut_tokens_min = 8,
                                .trim = CAIRN_TRIM_NEVER,
                                .rows_move = true,
                                .state_bytes_max = 100,
                                .row_bytes = 10,
                                .rows_extra_bytes = 30,
                                .read_ns_token = 1e6,
                                .take_ns = 1e6,
                                .restore_ns = 1e6,
                                .move_ns_byte = 1};
}

cairn_status driver_init_mem(driver *d, const cairn_core_options *options, uint64_t seed, cairn_mem *mem)
{
    memset(d, 0, sizeof *d);
    d->options = *options;
    d->cap_bytes = options->ram_bytes_max;
    d->verify = true;
    cairn_rng_init(&d->rng, seed);
    assert_true(options->slots <= DRIVER_SLOTS);
    for (uint32_t i = 0; i < options->slots; i++) {
        d->slots[i].rows_pure = calloc(DRIVER_TOKENS, sizeof(uint64_t));
        d->slots[i].rows_low = calloc(DRIVER_TOKENS, sizeof(uint64_t));
        assert_true(d->slots[i].rows_pure != NULL && d->slots[i].rows_low != NULL);
    }
    return cairn_core_new(mem, options, &d->core, NULL);
}

void driver_init(driver *d, const cairn_core_options *options, uint64_t seed)
{
    assert_ok(driver_init_mem(d, options, seed, cairn_mem_default()));
}

static void request_clear(driver_request *r)
{
    free(r->tokens);
    free(r->boundaries);
    memset(r, 0, sizeof *r);
}

void driver_release(driver *d)
{
    for (uint32_t i = 0; i < d->options.slots; i++) {
        free(d->slots[i].rows_pure);
        free(d->slots[i].rows_low);
        request_clear(&d->requests[i]);
        free(d->lasting[i]);
    }
    while (d->count_blobs > 0) {
        blob_remove(d, d->blobs[0].id);
    }
    free(d->blobs);
    cairn_core_free(d->core);
}

uint32_t driver_begin(driver *d, const cairn_prompt *prompt, uint32_t slot, cairn_status *ret_status)
{
    driver_request fresh = {.id = ++d->next_id, .prompt = *prompt};
    fresh.tokens = malloc(prompt->count * sizeof(cairn_token));
    fresh.boundaries = malloc((prompt->count_boundaries + 1) * sizeof(cairn_boundary));
    assert_true(fresh.tokens != NULL && fresh.boundaries != NULL);
    memcpy(fresh.tokens, prompt->tokens, prompt->count * sizeof(cairn_token));
    if (prompt->count_boundaries > 0) {
        memcpy(fresh.boundaries, prompt->boundaries, prompt->count_boundaries * sizeof(cairn_boundary));
    }
    fresh.prompt.tokens = fresh.tokens;
    fresh.prompt.boundaries = fresh.boundaries;
    cairn_event event = {
        .kind = CAIRN_EVENT_REQUEST, .request = fresh.id, .prompt = &fresh.prompt, .slot = slot};
    /* The core borrows the prompt: it must already be where it will live. */
    cairn_prompt *lasting = malloc(sizeof *lasting);
    assert_non_null(lasting);
    *lasting = fresh.prompt;
    event.prompt = lasting;
    cairn_action *list;
    uint32_t count;
    cairn_status status = send(d, &event, &list, &count);
    if (ret_status != NULL) {
        *ret_status = status;
    }
    if (status != CAIRN_OK) {
        free(list);
        free(lasting);
        request_clear(&fresh);
        return CAIRN_SLOT_ANY;
    }
    const cairn_decision *decision = cairn_core_decision(d->core, fresh.id);
    assert_non_null(decision);
    uint32_t at = decision->slot;
    assert_true(at < d->options.slots && d->requests[at].id == 0);
    assert_true(slot == CAIRN_SLOT_ANY || slot == at);
    fresh.slot = at;
    d->requests[at] = fresh;
    d->requests[at].prompt = *lasting;
    d->lasting[at] = lasting;
    carry_out(d, list, count);
    free(list);
    decision = cairn_core_decision(d->core, fresh.id);
    assert_int_equal(d->requests[at].position, decision->resume);
    assert_true(decision->resume <= decision->divergence && decision->resume < prompt->count);
    d->reasons[decision->reason]++;
    d->prompt_tokens += prompt->count;
    d->least_tokens += decision->least;
    return at;
}

static void resumed(driver *d, driver_request *r)
{
    if (!r->resumed) {
        cairn_event event = {.kind = CAIRN_EVENT_RESUMED, .request = r->id, .cost_ns = d->restore_ns};
        cairn_action *list;
        uint32_t count;
        assert_ok(send(d, &event, &list, &count));
        assert_int_equal(count, 0);
        free(list);
        r->resumed = true;
    }
}

static void check_read(driver *d, const driver_request *r)
{
    const driver_slot *s = &d->slots[r->slot];
    driver_slot reference;
    cold(d, &r->prompt, &reference);
    assert_true(s->pure == reference.pure); /* the cache can't be seen in the answer */
    for (uint32_t i = 0; i < r->prompt.count; i++) {
        assert_true(s->rows_pure[i] == reference.rows_pure[i]);
    }
    if (r->prompt.mode != CAIRN_RESUME_FAST && d->options.trim != CAIRN_TRIM_ANYWHERE) {
        assert_true(s->low == reference.low);
        assert_memory_equal(s->rows_low, reference.rows_low, r->prompt.count * sizeof(uint64_t));
    }
    assert_int_equal(r->read + cairn_core_decision(d->core, r->id)->resume,
                     r->prompt.count); /* reported is decoded */
}

void driver_read(driver *d, uint32_t slot)
{
    driver_request *r = &d->requests[slot];
    resumed(d, r);
    uint32_t begin = r->position;
    uint32_t end = r->reading_end;
    assert_true(end > begin && end <= r->prompt.count);
    if (failing(d)) {
        cairn_action failed = {.kind = CAIRN_ACTION_READ, .slot = slot, .request = r->id};
        action_failed(d, &failed, r->read_index);
        return;
    }
    decode(&d->slots[slot], r->prompt.tokens + begin, end - begin);
    uint64_t cost = (uint64_t)(end - begin) * 1000000;
    d->now_ns += cost;
    d->read_tokens += end - begin;
    r->read += end - begin;
    cairn_event event = {.kind = CAIRN_EVENT_READ, .request = r->id, .position = end, .cost_ns = cost};
    cairn_action *list;
    uint32_t count;
    assert_ok(send(d, &event, &list, &count));
    carry_out(d, list, count);
    free(list);
    if (r->ready) {
        check_read(d, r);
    }
}

void driver_answer(driver *d, uint32_t slot, const cairn_token *tokens, uint32_t count)
{
    driver_request *r = &d->requests[slot];
    for (uint32_t i = 0; i < count; i++) {
        decode(&d->slots[slot], tokens + i, 1);
    }
    r->position += count;
    d->now_ns += (uint64_t)count * 20000000;
    cairn_event event = {
        .kind = CAIRN_EVENT_ANSWERED, .request = r->id, .tokens = tokens, .count = count, .cost_ns = 1};
    (void)driver_event(d, &event);
}

void driver_finish(driver *d, uint32_t slot, cairn_ending ending)
{
    driver_request *r = &d->requests[slot];
    const cairn_decision *decision = cairn_core_decision(d->core, r->id);
    assert_non_null(decision);
    r->decision = *decision;
    cairn_event event = {.kind = CAIRN_EVENT_FINISH, .request = r->id, .ending = ending};
    assert_ok(driver_event(d, &event));
    assert_null(cairn_core_decision(d->core, r->id));
    request_clear(r);
    free(d->lasting[slot]);
    d->lasting[slot] = NULL;
}

cairn_decision driver_ask(driver *d, const cairn_prompt *prompt, const cairn_token *answer,
                          uint32_t count_answer)
{
    cairn_status status;
    uint32_t slot = driver_begin(d, prompt, CAIRN_SLOT_ANY, &status);
    assert_ok(status);
    while (!d->requests[slot].ready) {
        driver_read(d, slot);
    }
    if (count_answer > 0) {
        driver_answer(d, slot, answer, count_answer);
    }
    cairn_decision decision = *cairn_core_decision(d->core, d->requests[slot].id);
    driver_finish(d, slot, CAIRN_END_DONE);
    d->now_ns += 1000000000;
    return decision;
}

/* --- prompts -------------------------------------------------------------------------------------------------------- */

void talk_add(talk *t, cairn_role role, uint32_t seed, uint32_t count)
{
    assert_true(t->count < TALK_MAX);
    t->messages[t->count++] = (talk_message){.role = role, .seed = seed, .count = count};
}

void talk_words(uint32_t seed, cairn_token *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (cairn_token)(cairn_hash_mix(((uint64_t)seed << 32) | i) % 50);
    }
}

void talk_render(const talk *t, cairn_resume_mode mode, talk_prompt *out)
{
    uint32_t count = 0;
    uint32_t bounds = 0;
    uint32_t last_user = UINT32_MAX;
    for (uint32_t i = 0; i < t->count; i++) {
        last_user = t->messages[i].role == CAIRN_ROLE_USER ? i : last_user;
    }
    for (uint32_t i = 0; i < t->count; i++) {
        const talk_message *m = &t->messages[i];
        assert_true(count + m->count + 8 < DRIVER_TOKENS);
        uint16_t kinds = CAIRN_BOUNDARY_MESSAGE_START;
        kinds |= i > 0 && t->messages[i - 1].role == CAIRN_ROLE_SYSTEM ? CAIRN_BOUNDARY_SYSTEM_END : 0;
        kinds |= i == last_user ? CAIRN_BOUNDARY_LAST_USER : 0;
        kinds |= i > 0 && t->messages[i - 1].mark ? CAIRN_BOUNDARY_MARK : 0;
        out->boundaries[bounds++] =
            (cairn_boundary){.position = count, .message = i, .kinds = kinds, .role = (uint8_t)m->role};
        out->starts[i] = count;
        out->tokens[count++] = 100;
        out->tokens[count++] = 101 + (cairn_token)m->role;
        talk_words(m->seed, out->tokens + count, m->count);
        count += m->count;
    }
    out->boundaries[bounds++] = (cairn_boundary){
        .position = count, .message = t->count, .kinds = CAIRN_BOUNDARY_OPENER, .role = CAIRN_ROLE_ASSISTANT};
    out->starts[t->count] = count;
    out->tokens[count++] = 100;
    out->tokens[count++] = 101 + CAIRN_ROLE_ASSISTANT;
    out->prompt = (cairn_prompt){.tokens = out->tokens,
                                 .count = count,
                                 .boundaries = out->boundaries,
                                 .count_boundaries = bounds,
                                 .mode = mode};
}

void talk_plain(const cairn_token *tokens, uint32_t count, cairn_resume_mode mode, talk_prompt *out)
{
    memcpy(out->tokens, tokens, count * sizeof *tokens);
    out->prompt = (cairn_prompt){.tokens = out->tokens, .count = count, .mode = mode};
}
