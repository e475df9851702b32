/* The check at start. The first part knows only the engine table; the last function knows libllama's fallback. */
#include "engine/llama_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/llama_inside.h"
#include "engine/llama_share.h"

enum { PATH = 16, TAIL = 4, JOIN = 6, ROWS_KEPT = 2 };

/* Design: a wrong state must change logits by more than this, and by so many times what right ones differ by. */
static const float clear_distance = 0.01f;
static const float clear_ratio = 100.0f;

typedef struct bench {
    cairn_engine *engine;
    cairn_mem *mem;
    cairn_check *check;
    cairn_token path[PATH], other[PATH], tail[TAIL];
    uint32_t vocab_size;
    float *cold, *now; /* float[ROWS_KEPT][vocab_size] */
    uint8_t *state, *state_other;
    uint64_t state_size, state_other_size;
    uint8_t *rows[2];
    uint64_t rows_size[2], rows_room[2];
} bench;

static void choose_tokens(bench *b)
{
    uint32_t n = b->vocab_size;
    for (uint32_t i = 0; i < PATH; i++) {
        b->path[i] = (cairn_token)((i * 7919u + 17u) % n);
        b->other[i] = (cairn_token)((i * 104729u + n / 2 + 29u) % n);
        if (b->other[i] == b->path[i])
            b->other[i] = (b->path[i] + 1) % (cairn_token)n;
    }
    for (uint32_t i = 0; i < TAIL; i++)
        b->tail[i] = (cairn_token)((i * 15485863u + 41u) % n);
}

/* Read tokens behind what the slot has, in pieces that an engine of any batch size takes. */
static cairn_status read_tokens(bench *b, uint32_t slot, const cairn_token *tokens, uint32_t count,
                                cairn_error *reterr)
{
    uint32_t batch = b->engine->info.batch_tokens_max, done = 0;
    while (done < count) {
        uint32_t take = count - done < batch ? count - done : batch;
        cairn_piece piece = {
            slot, b->engine->ops->length(b->engine, slot), tokens + done, take, CAIRN_LOGITS_LAST, true};
        cairn_status status = b->engine->ops->decode(b->engine, &piece, 1, reterr);
        if (status != CAIRN_OK)
            return status;
        b->check->tokens += take;
        done += take;
    }
    return CAIRN_OK;
}

static cairn_status keep_logits(bench *b, float *out, cairn_error *reterr)
{
    const float *row = NULL;
    for (uint32_t i = 0; i < b->engine->info.batch_tokens_max && !row; i++)
        row = b->engine->ops->logits(b->engine, 0, i);
    if (!row)
        return cairn_error_set(reterr, CAIRN_ENGINE, "engine/check", "no logits");
    memcpy(out, row, b->vocab_size * sizeof *out);
    return CAIRN_OK;
}

/* The tail as three tokens and one, so that both ways of decoding are seen; logits after each. */
static cairn_status read_tail(bench *b, uint32_t slot, float *out, cairn_error *reterr)
{
    cairn_status status = read_tokens(b, slot, b->tail, TAIL - 1, reterr);
    if (status == CAIRN_OK)
        status = keep_logits(b, out, reterr);
    if (status == CAIRN_OK)
        status = read_tokens(b, slot, b->tail + TAIL - 1, 1, reterr);
    if (status == CAIRN_OK)
        status = keep_logits(b, out + b->vocab_size, reterr);
    return status;
}

static void compare(const bench *b, cairn_check_way *way)
{
    size_t count = (size_t)b->vocab_size * ROWS_KEPT;
    way->done = true;
    way->same = memcmp(b->cold, b->now, count * sizeof *b->cold) == 0;
    way->distance = 0;
    for (size_t i = 0; i < count; i++) {
        float distance = fabsf(b->cold[i] - b->now[i]);
        if (distance > way->distance)
            way->distance = distance;
    }
}

/* The tail in `slot`, whose contents were just put back (or not: `ready`), against the cold answer. */
static void try_way(bench *b, uint32_t slot, cairn_status ready, cairn_check_way *way)
{
    way->tried = true;
    if (ready == CAIRN_OK && read_tail(b, slot, b->now, NULL) == CAIRN_OK)
        compare(b, way);
}

static cairn_status take_state(bench *b, uint8_t **ret_state, uint64_t *ret_size, cairn_error *reterr)
{
    uint64_t size = b->engine->ops->state_size(b->engine, 0);
    if (size == 0)
        return CAIRN_OK;
    *ret_state = cairn_mem_alloc(b->mem, (size_t)size);
    if (!*ret_state)
        return cairn_error_set(reterr, CAIRN_NOMEM, "engine/check", NULL);
    *ret_size = size;
    return b->engine->ops->state_get(b->engine, 0, *ret_state, size, reterr);
}

static cairn_status put_state(bench *b, uint32_t slot, const uint8_t *state, uint64_t size)
{
    if (b->engine->info.trim == CAIRN_TRIM_ANYWHERE)
        return CAIRN_OK;
    if (size == 0)
        return CAIRN_ENGINE;
    return b->engine->ops->state_set(b->engine, slot, PATH, state, size, NULL);
}

static cairn_status cut_and_set(bench *b, const uint8_t *state, uint64_t size)
{
    cairn_status status = b->engine->ops->trim(b->engine, 0, PATH, NULL);
    return status == CAIRN_OK ? put_state(b, 0, state, size) : status;
}

/* Both parts of the path's rows out of slot 0. */
static cairn_status take_rows(bench *b)
{
    uint32_t ends[3] = {0, JOIN, PATH};
    for (uint32_t i = 0; i < 2; i++) {
        cairn_status status = b->engine->ops->rows_export(b->engine, 0, ends[i], ends[i + 1], b->rows[i],
                                                          b->rows_room[i], &b->rows_size[i], NULL);
        if (status != CAIRN_OK)
            return status;
    }
    return CAIRN_OK;
}

static cairn_status put_rows(bench *b, uint32_t slot, const uint8_t *state, uint64_t size)
{
    uint32_t ends[3] = {0, JOIN, PATH};
    b->engine->ops->reset(b->engine, slot);
    for (uint32_t i = 0; i < 2; i++) {
        cairn_status status = b->engine->ops->rows_import(b->engine, slot, ends[i], ends[i + 1], ends[i],
                                                          ends[i + 1], b->rows[i], b->rows_size[i], NULL);
        if (status != CAIRN_OK)
            return status;
    }
    return put_state(b, slot, state, size);
}

/* The tail in slots 0 and 1, the last token of both in one decode. */
static void try_together(bench *b, cairn_check_way *way)
{
    const cairn_engine_ops *ops = b->engine->ops;
    cairn_piece pieces[2];
    way->tried = true;
    for (uint32_t i = 0; i < 2; i++) {
        ops->reset(b->engine, i);
        if (read_tokens(b, i, b->path, PATH, NULL) != CAIRN_OK ||
            read_tokens(b, i, b->tail, TAIL - 1, NULL) != CAIRN_OK)
            return;
        pieces[i] = (cairn_piece){i, PATH + TAIL - 1, b->tail + TAIL - 1, 1, CAIRN_LOGITS_LAST, false};
    }
    memcpy(b->now, b->cold, (size_t)b->vocab_size * sizeof *b->now); /* row 0 is not asked for here */
    if (ops->decode(b->engine, pieces, 2, NULL) != CAIRN_OK)
        return;
    b->check->tokens += 2;
    cairn_check_way ways[2] = {*way, *way};
    for (uint32_t i = 0; i < 2; i++) {
        const float *row = ops->logits(b->engine, i, 0);
        if (!row)
            return;
        memcpy(b->now + b->vocab_size, row, b->vocab_size * sizeof *row);
        compare(b, &ways[i]);
    }
    *way = ways[0].distance > ways[1].distance ? ways[0] : ways[1];
    way->same = ways[0].same && ways[1].same;
}

/* Plain attention has no state to be wrong: rows of the other path take its part. */
static cairn_status control_by_rows(bench *b)
{
    b->engine->ops->reset(b->engine, 0);
    return read_tokens(b, 0, b->other, PATH, NULL);
}

static cairn_status run(bench *b, cairn_error *reterr)
{
    cairn_check *c = b->check;
    const cairn_engine_ops *ops = b->engine->ops;
    uint32_t last_slot = b->engine->info.slots - 1;
    bool stateless = b->engine->info.trim == CAIRN_TRIM_ANYWHERE;
    ops->reset(b->engine, 0);
    cairn_status status = read_tokens(b, 0, b->other, PATH, reterr);
    if (status == CAIRN_OK)
        status = take_state(b, &b->state_other, &b->state_other_size, reterr);
    ops->reset(b->engine, 0);
    if (status == CAIRN_OK)
        status = read_tokens(b, 0, b->path, PATH, reterr);
    if (status == CAIRN_OK)
        status = take_state(b, &b->state, &b->state_size, reterr);
    if (status == CAIRN_OK)
        status = read_tail(b, 0, b->cold, reterr);
    if (status != CAIRN_OK)
        return status;
    try_way(b, 0, cut_and_set(b, b->state, b->state_size), &c->trimmed);
    cairn_status moving =
        b->engine->info.rows_move && ops->length(b->engine, 0) >= PATH ? take_rows(b) : CAIRN_ENGINE;
    if (stateless)
        try_way(b, 0, control_by_rows(b), &c->control);
    else
        try_way(b, 0, cut_and_set(b, b->state_other, b->state_other_size), &c->control);
    if (b->engine->info.rows_move)
        try_way(b, 0, moving == CAIRN_OK ? put_rows(b, 0, b->state, b->state_size) : moving, &c->moved);
    if (b->engine->info.rows_move && last_slot > 0)
        try_way(b, last_slot, moving == CAIRN_OK ? put_rows(b, last_slot, b->state, b->state_size) : moving,
                &c->elsewhere);
    ops->reset(b->engine, last_slot);
    try_way(b, last_slot, read_tokens(b, last_slot, b->path, PATH, NULL), &c->again);
    if (last_slot > 0)
        try_together(b, &c->together);
    for (uint32_t i = 0; i < b->engine->info.slots && i < 2; i++)
        ops->reset(b->engine, i);
    ops->reset(b->engine, last_slot);
    return CAIRN_OK;
}

/* --- what it means ------------------------------------------------------------------------------------- */

/* Close enough to be right, given what a wrong state does? */
static bool right(const cairn_check *c, const cairn_check_way *way)
{
    return way->done && way->distance * clear_ratio < c->control.distance;
}

CAIRN_PRINTF(2, 3) static void explain(cairn_check *c, const char *format, ...)
{
    if (c->reason[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(c->reason, sizeof c->reason, format, args);
    va_end(args);
}

static void judge(cairn_check *c)
{
    bool clear = c->control.done && c->control.distance > clear_distance;
    bool trimmed = right(c, &c->trimmed), moved = right(c, &c->moved);
    bool elsewhere = !c->elsewhere.tried || right(c, &c->elsewhere);
    c->rows_move = clear && moved && elsewhere;
    bool together = !c->together.tried || right(c, &c->together);
    c->usable = clear && trimmed && right(c, &c->again) && together;
    c->exact = c->usable && c->trimmed.same && c->again.same &&
               (!c->rows_move || (c->moved.same && (!c->elsewhere.tried || c->elsewhere.same)));
    if (!c->trimmed.done || !c->control.done)
        explain(c, "the engine refused to cut a sequence and set its state");
    else if (!clear)
        explain(
            c,
            "the state of other tokens changes the answer by %g only, so nothing can be proved about states",
            (double)c->control.distance);
    else if (!trimmed)
        explain(c, "a sequence that was cut and got its state back answers differently, by %g",
                (double)c->trimmed.distance);
    else if (!right(c, &c->again))
        explain(c, "the same tokens read twice give different answers, by %g", (double)c->again.distance);
    else if (!together)
        explain(c, "tokens that are computed beside another slot's give different answers, by %g",
                (double)c->together.distance);
    else if (c->moved.tried && (!c->moved.done || (c->elsewhere.tried && !c->elsewhere.done)))
        explain(c, "the engine refused to move rows");
    else if (c->moved.tried && !c->rows_move)
        explain(c, "rows that were moved give different answers, by %g",
                (double)fmaxf(c->moved.distance, c->elsewhere.distance));
    else if (!c->exact)
        explain(c, "what is put back is right, but not bit for bit: logits differ by %g",
                (double)fmaxf(fmaxf(c->again.distance, c->trimmed.distance),
                              fmaxf(c->moved.distance, c->elsewhere.distance)));
}

static bool allocate(bench *b)
{
    b->rows_room[0] = b->engine->ops->rows_size(b->engine, 0, JOIN).buffer_bytes;
    b->rows_room[1] = b->engine->ops->rows_size(b->engine, JOIN, PATH).buffer_bytes;
    b->cold = cairn_mem_array(b->mem, (size_t)b->vocab_size * ROWS_KEPT, sizeof *b->cold);
    b->now = cairn_mem_array(b->mem, (size_t)b->vocab_size * ROWS_KEPT, sizeof *b->now);
    for (uint32_t i = 0; i < 2; i++)
        b->rows[i] = cairn_mem_alloc(b->mem, (size_t)b->rows_room[i]);
    return b->cold && b->now && b->rows[0] && b->rows[1];
}

static void release(bench *b)
{
    cairn_mem_array_release(b->mem, b->cold, (size_t)b->vocab_size * ROWS_KEPT, sizeof *b->cold);
    cairn_mem_array_release(b->mem, b->now, (size_t)b->vocab_size * ROWS_KEPT, sizeof *b->now);
    cairn_mem_release(b->mem, b->state, (size_t)b->state_size);
    cairn_mem_release(b->mem, b->state_other, (size_t)b->state_other_size);
    for (uint32_t i = 0; i < 2; i++)
        cairn_mem_release(b->mem, b->rows[i], (size_t)b->rows_room[i]);
}

cairn_status cairn_check_run(cairn_engine *engine, cairn_mem *mem, cairn_check *ret_check,
                             cairn_error *reterr)
{
    bench b = {.engine = engine, .mem = mem, .check = ret_check, .vocab_size = engine->info.vocab_size};
    memset(ret_check, 0, sizeof *ret_check);
    if (engine->info.slot_tokens_max < PATH + TAIL) {
        explain(ret_check, "a slot is too small to check anything");
        return CAIRN_OK;
    }
    choose_tokens(&b);
    cairn_status status =
        allocate(&b) ? CAIRN_OK : cairn_error_set(reterr, CAIRN_NOMEM, "engine/check", NULL);
    if (status == CAIRN_OK)
        status = run(&b, reterr);
    if (status == CAIRN_OK)
        judge(ret_check);
    release(&b);
    return status;
}

cairn_status cairn_llama_check(cairn_engine *engine, cairn_mem *mem, cairn_check *ret_check,
                               cairn_error *reterr)
{
    llama_engine *e = llama_engine_of(engine);
    cairn_engine_info *info = &engine->info;
    info->exact = false;
    cairn_status status = cairn_check_run(engine, mem, ret_check, reterr);
    if (status == CAIRN_OK && e->shared && !(ret_check->usable && ret_check->exact && ret_check->rows_move)) {
        status = cairn_llama_share_leave(e, reterr);
        if (status == CAIRN_OK)
            status = cairn_check_run(engine, mem, ret_check, reterr);
    }
    bool parts =
        e->split == LLAMA_SPLIT_CELL || e->split == LLAMA_SPLIT_CELL_ONLY || e->split == LLAMA_SPLIT_WINDOW;
    if (status == CAIRN_OK && parts && ret_check->control.distance > clear_distance &&
        (!ret_check->usable || !ret_check->rows_move)) {
        cairn_check whole;
        uint32_t tokens = ret_check->tokens;
        status = cairn_llama_use_whole_states(e, reterr);
        if (status == CAIRN_OK)
            status = cairn_check_run(engine, mem, &whole, reterr);
        if (status == CAIRN_OK) {
            *ret_check = whole;
            ret_check->tokens += tokens;
            ret_check->whole_states = true;
        }
    }
    if (status != CAIRN_OK)
        return status;
    /* Once a window wraps, its cells are in another order than in a cold run; the few tokens here don't show it. */
    bool wraps = e->window_tokens > 0 && e->window_tokens < info->slot_tokens_max;
    if (ret_check->exact && wraps && e->split != LLAMA_SPLIT_ROWS_ONLY && !e->settle_buffer) {
        ret_check->exact = false;
        explain(ret_check,
                "sliding windows of %g tokens are put back in another order of cells than reading "
                "leaves%s: right, but not bit for bit",
                (double)e->window_tokens, e->options.swa_full ? " with full-size windows" : "");
    }
    info->exact = ret_check->exact;
    info->rows_move = ret_check->rows_move;
    e->tokens_decoded = 0;
    return CAIRN_OK;
}
