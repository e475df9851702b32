/*
 * core_play - one random world: conversations with edits, branches, cancels, faults, budgets and several
 * slots, played on the driver. The dice are a seeded generator, or the bytes of a fuzzer.
 */
#include "core_play.h"

enum { TALKS = 6, STEPS = 120 };

typedef struct world {
    driver d;
    cairn_rng rng;
    talk talks[TALKS];
    uint32_t next_seed;
    const uint8_t *bytes; /* the fuzzer's dice, or NULL */
    size_t count_bytes;
} world;

static uint32_t below(world *w, uint32_t bound)
{
    if (w->bytes == NULL) {
        return (uint32_t)cairn_rng_below(&w->rng, bound);
    }
    if (w->count_bytes == 0) {
        return 0;
    }
    w->count_bytes--;
    return *w->bytes++ % bound;
}

static cairn_core_options choose_options(world *w)
{
    static const uint64_t caps[] = {0, 2000, 8000, 20000, 50000, 200000, 1 << 20};
    static const cairn_trim trims[] = {CAIRN_TRIM_NEVER, CAIRN_TRIM_NEVER, CAIRN_TRIM_ANYWHERE,
                                       CAIRN_TRIM_WINDOW};
    cairn_core_options o = driver_options();
    o.slots = 1 + below(w, DRIVER_SLOTS);
    o.slot_tokens_max = 300 + below(w, 700);
    o.batch_tokens_max = 8u << below(w, 4);
    o.grid_tokens = below(w, 2) * (8 + below(w, 60));
    o.cut_tokens_min = below(w, 2) * (1 + below(w, 20));
    o.trim = trims[below(w, 4)];
    o.rows_move = below(w, 5) > 0;
    o.state_bytes_max = o.trim == CAIRN_TRIM_ANYWHERE ? 0 : 50 + below(w, 500);
    o.row_bytes = 1 + below(w, 20);
    o.rows_extra_bytes = below(w, 2) * below(w, 600);
    o.ram_bytes_max = caps[below(w, 7)];
    o.index_bytes_max = 0;
    o.take_ns = below(w, 4) == 0 ? 1e8 : 1e5;
    o.restore_ns = below(w, 6) == 0 ? 1e9 : 1e5;
    return o;
}

static void new_talk(world *w, talk *t)
{
    t->count = 0;
    if (below(w, 3) > 0) {
        talk_add(t, CAIRN_ROLE_SYSTEM, below(w, 2), 20 + 20 * below(w, 2));
    }
    talk_add(t, CAIRN_ROLE_USER, 10 + below(w, 4), 1 + below(w, 60));
}

static void change_talk(world *w, talk *t)
{
    uint32_t dice = below(w, 100);
    uint32_t last = t->count - 1;
    if (t->count > 12 || dice < 6) {
        new_talk(w, t);
    } else if (dice < 55) { /* goes on */
        talk_add(t, CAIRN_ROLE_ASSISTANT, 1000 + below(w, 3), 1 + below(w, 30));
        talk_add(t, below(w, 2) ? CAIRN_ROLE_USER : CAIRN_ROLE_TOOL, ++w->next_seed, 1 + below(w, 50));
    } else if (dice < 70) { /* an edit anywhere */
        t->messages[below(w, t->count)].seed = ++w->next_seed;
    } else if (dice < 78) { /* another end */
        t->messages[last].count = 1 + below(w, 50);
    } else if (dice < 86 && t->count > 2) { /* undo */
        t->count -= 1 + below(w, 2);
    } else if (dice < 92 && t->count > 3) { /* compaction */
        uint32_t gone = 1 + below(w, t->count - 2);
        memmove(&t->messages[gone], &t->messages[gone + 1], (t->count - gone - 1) * sizeof t->messages[0]);
        t->count--;
    } else if (dice < 96) {
        t->messages[below(w, t->count)].mark = true;
    } /* else: the same again */
}

static cairn_resume_mode choose_mode(world *w)
{
    uint32_t dice = below(w, 20);
    return dice == 0 ? CAIRN_RESUME_OFF : dice < 8 ? CAIRN_RESUME_EXACT : CAIRN_RESUME_FAST;
}

static void begin(world *w)
{
    static talk_prompt p;
    talk *t = &w->talks[below(w, TALKS)];
    if (below(w, 12) == 0) { /* tokens without boundaries */
        cairn_token tokens[80];
        talk_words(below(w, 3), tokens, 80);
        talk_plain(tokens, 1 + below(w, 80), choose_mode(w), &p);
    } else {
        change_talk(w, t);
        talk_render(t, choose_mode(w), &p);
    }
    p.prompt.no_store = below(w, 15) == 0;
    p.prompt.pin = below(w, 15) == 0;
    p.prompt.space.bytes[0] = (uint8_t)(below(w, 8) == 0);
    if (below(w, 10) == 0 && p.prompt.count < w->d.options.slot_tokens_max - 1) {
        driver_adopt(&w->d, &p.prompt);
    }
    cairn_status status;
    (void)driver_begin(&w->d, &p.prompt, below(w, 4) == 0 ? below(w, w->d.options.slots) : CAIRN_SLOT_ANY,
                       &status);
    if (p.prompt.count > w->d.options.slot_tokens_max - 1) {
        assert_status(status, CAIRN_LIMIT);
    } else {
        assert_true(status == CAIRN_OK || status == CAIRN_BUSY);
    }
}

static void go_on(world *w, uint32_t slot)
{
    driver_request *r = &w->d.requests[slot];
    uint32_t dice = below(w, 100);
    if (dice < 4) {
        driver_finish(&w->d, slot, CAIRN_END_STOPPED);
    } else if (!r->ready) {
        driver_read(&w->d, slot);
    } else if (dice < 50 && r->position + 40 < w->d.options.slot_tokens_max) {
        cairn_token answer[30];
        talk_words(1000 + below(w, 3), answer, 30);
        driver_answer(&w->d, slot, answer, 1 + below(w, 30));
    } else {
        driver_finish(&w->d, slot, CAIRN_END_DONE);
    }
}

static void disturb(world *w)
{
    static const uint64_t caps[] = {0, 3000, 10000, 50000, 1 << 20};
    uint32_t dice = below(w, 4);
    cairn_event event = {.kind = CAIRN_EVENT_BUDGET, .bytes = caps[below(w, 5)]};
    if (dice == 1 && w->d.count_blobs > 0) {
        event = (cairn_event){.kind = CAIRN_EVENT_LOST,
                              .blob = w->d.blobs[below(w, w->d.count_blobs)].id,
                              .status = below(w, 2) ? CAIRN_CORRUPT : CAIRN_OK};
        /* A blob that is doomed but not yet dropped may be refused or not: both are fine. */
    } else if (dice == 2) {
        event = (cairn_event){.kind = CAIRN_EVENT_FORGET, .all = below(w, 2) == 0};
    } else if (dice == 3) {
        uint32_t slot = below(w, w->d.options.slots);
        if (w->d.requests[slot].id != 0) {
            return;
        }
        driver_slot *s = &w->d.slots[slot];
        s->length = s->length > 0 ? below(w, s->length + 1) : 0;
        s->state_set = false;
        event = (cairn_event){.kind = CAIRN_EVENT_SLOT_LOST, .slot = slot, .position = s->length};
    }
    assert_ok(driver_event(&w->d, &event));
}

static uint64_t play(world *w, uint64_t number, core_totals *totals)
{
    cairn_core_options options = choose_options(w);
    driver_init(&w->d, &options, number);
    w->next_seed = 10000;
    w->d.fail_chance = below(w, 3) == 0 ? 0.05 : 0;
    w->d.take_ns = (uint64_t)options.take_ns;
    w->d.restore_ns = (uint64_t)options.restore_ns;
    for (uint32_t i = 0; i < TALKS; i++) {
        new_talk(w, &w->talks[i]);
    }
    bool rough = below(w, 3) == 0;
    for (uint32_t i = 0; i < STEPS && (w->bytes == NULL || w->count_bytes > 0); i++) {
        uint32_t slot = below(w, options.slots);
        if (rough && below(w, 30) == 0) {
            disturb(w);
        } else if (w->d.requests[slot].id == 0) {
            begin(w);
        } else {
            for (uint32_t j = below(w, 6); j < 6 && w->d.requests[slot].id != 0; j++) {
                go_on(w, slot);
            }
        }
        w->d.now_ns += (uint64_t)below(w, 200) * 15000000u;
    }
    for (uint32_t i = 0; i < CAIRN_REASON_COUNT; i++) {
        totals->reasons[i] += w->d.reasons[i];
    }
    totals->prompt += w->d.prompt_tokens;
    totals->read += w->d.read_tokens;
    totals->least += w->d.least_tokens;
    uint64_t digest = cairn_core_digest(w->d.core);
    driver_release(&w->d);
    free(w);
    return digest;
}

uint64_t core_play(uint64_t seed, uint64_t number, core_totals *totals)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    cairn_rng_init_stream(&w->rng, seed, number);
    return play(w, number, totals);
}

uint64_t core_play_bytes(const uint8_t *bytes, size_t count, core_totals *totals)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->bytes = bytes;
    w->count_bytes = count;
    return play(w, count, totals);
}
