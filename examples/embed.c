/*
 * embed - libcairn in a program with an engine of its own: everything that an engine's author has to write.
 *
 * The engine is a toy. Its recurrent state is one number, its rows are one number per token, and its logits
 * are made of both. It behaves as a hybrid model does: it can't go back unless it is given a state that was
 * saved at exactly that position.
 *
 * The program asks three times: a conversation, the same with its last message edited, the first again. It
 * prints how much of each prompt had to be read, and compares the answers with those of a cache that is off.
 *
 *   cc embed.c $(pkg-config --cflags --libs cairn) -o embed && ./embed
 */
#include <cairn/cairn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_TOKENS = 4096, BATCH_TOKENS = 256, VOCAB = 256 };

/* --- the engine ------------------------------------------------------------------------------------------- */

typedef struct toy {
    cairn_engine head; /* first: libcairn sees this part */
    uint32_t length;
    bool state_set; /* the state is that of `length` tokens */
    uint64_t state;
    uint64_t rows[SLOT_TOKENS];
    float logits[VOCAB];
} toy;

static uint64_t stir(uint64_t a, uint64_t b)
{
    a = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
    return a ^ a >> 29;
}

static cairn_status toy_decode(cairn_engine *engine, const cairn_piece *pieces, uint32_t count,
                               cairn_error *reterr)
{
    toy *t = (toy *)engine; /* one slot, so there is one piece */
    if (count != 1 || pieces[0].begin != t->length || pieces[0].count > SLOT_TOKENS - t->length) {
        return cairn_error_set(reterr, CAIRN_LIMIT, "toy: decode", NULL);
    }
    if (t->length > 0 && !t->state_set) { /* the cache never does that; a mistake of ours would show here */
        return cairn_error_set(reterr, CAIRN_ENGINE, "toy: decode", "no state");
    }
    for (uint32_t i = 0; i < pieces[0].count; i++) {
        uint64_t before = t->length > 0 ? t->rows[t->length - 1] : 0;
        t->state = stir(t->state, (uint64_t)pieces[0].tokens[i]);
        t->rows[t->length++] = stir(before, t->state);
    }
    t->state_set = true;
    uint64_t x = stir(t->state, t->rows[t->length - 1]);
    for (int i = 0; i < VOCAB; i++) {
        x = stir(x, (uint64_t)i);
        t->logits[i] = (float)(x >> 40);
    }
    return CAIRN_OK;
}

static const float *toy_logits(cairn_engine *engine, uint32_t piece, uint32_t index)
{
    (void)piece;
    (void)index;
    return ((toy *)engine)->logits;
}

static uint32_t toy_length(cairn_engine *engine, uint32_t slot)
{
    (void)slot;
    return ((toy *)engine)->length;
}

/* A recurrent state can't be made shorter. */
static bool toy_can_trim(cairn_engine *engine, uint32_t slot, uint32_t length)
{
    (void)slot;
    return length == 0 || length == ((toy *)engine)->length;
}

static void toy_reset(cairn_engine *engine, uint32_t slot)
{
    (void)slot;
    ((toy *)engine)->length = 0;
    ((toy *)engine)->state = 0;
    ((toy *)engine)->state_set = false;
}

/* Rows are cut; the state that belongs to the new length is set by the call that follows. */
static cairn_status toy_trim(cairn_engine *engine, uint32_t slot, uint32_t length, cairn_error *reterr)
{
    toy *t = (toy *)engine;
    (void)reterr;
    if (length == 0) {
        toy_reset(engine, slot);
    }
    t->state_set = t->state_set && length == t->length;
    t->length = length;
    return CAIRN_OK;
}

/* 0 while there is none: by that the cache tells whether the slot can go on as it is. */
static uint64_t toy_state_size(cairn_engine *engine, uint32_t slot)
{
    (void)slot;
    return ((toy *)engine)->state_set ? sizeof(uint64_t) : 0;
}

static cairn_status toy_state_get(cairn_engine *engine, uint32_t slot, uint8_t *out, uint64_t size,
                                  cairn_error *reterr)
{
    (void)slot;
    (void)reterr;
    memcpy(out, &((toy *)engine)->state, (size_t)size);
    return CAIRN_OK;
}

static cairn_status toy_state_set(cairn_engine *engine, uint32_t slot, uint32_t length, const uint8_t *bytes,
                                  uint64_t size, cairn_error *reterr)
{
    toy *t = (toy *)engine;
    if (length != t->length || size != sizeof t->state) {
        toy_reset(engine, slot); /* after an error the slot is empty */
        return cairn_error_set(reterr, CAIRN_CORRUPT, "toy: state", NULL);
    }
    memcpy(&t->state, bytes, sizeof t->state);
    t->state_set = true;
    return CAIRN_OK;
}

static cairn_rows_size toy_rows_size(cairn_engine *engine, uint32_t begin, uint32_t end)
{
    (void)engine;
    uint64_t bytes = (uint64_t)(end - begin) * sizeof(uint64_t);
    return (cairn_rows_size){.bytes = bytes, .buffer_bytes = bytes};
}

static cairn_status toy_rows_export(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                    uint8_t *out, uint64_t out_size, uint64_t *ret_size, cairn_error *reterr)
{
    (void)slot;
    uint64_t size = toy_rows_size(engine, begin, end).bytes;
    if (out_size < size) {
        return cairn_error_set(reterr, CAIRN_INVALID, "toy: rows", NULL);
    }
    memcpy(out, &((toy *)engine)->rows[begin], (size_t)size);
    *ret_size = size;
    return CAIRN_OK;
}

static cairn_status toy_rows_import(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                    uint32_t begin_use, uint32_t use_end, const uint8_t *bytes, uint64_t size,
                                    cairn_error *reterr)
{
    toy *t = (toy *)engine;
    if (size != (uint64_t)(end - begin) * sizeof(uint64_t) || begin_use != t->length) {
        toy_reset(engine, slot);
        return cairn_error_set(reterr, CAIRN_CORRUPT, "toy: rows", NULL);
    }
    memcpy(&t->rows[begin_use], bytes + (begin_use - begin) * sizeof(uint64_t),
           (use_end - begin_use) * sizeof(uint64_t));
    t->length = use_end;
    t->state_set = false; /* until toy_state_set */
    return CAIRN_OK;
}

static void toy_interrupt(cairn_engine *engine)
{
    (void)engine; /* a decode takes microseconds: nothing to stop */
}

static void toy_free(cairn_engine *engine)
{
    free(engine);
}

static const cairn_engine_ops toy_ops = {
    .decode = toy_decode,
    .logits = toy_logits,
    .length = toy_length,
    .can_trim = toy_can_trim,
    .trim = toy_trim,
    .reset = toy_reset,
    .state_size = toy_state_size,
    .state_get = toy_state_get,
    .state_set = toy_state_set,
    .rows_size = toy_rows_size,
    .rows_export = toy_rows_export,
    .rows_import = toy_rows_import,
    .interrupt = toy_interrupt,
    .resume_work = toy_interrupt,
    .free = toy_free,
};

static cairn_engine *toy_new(void)
{
    toy *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->head.ops = &toy_ops;
    t->head.info = (cairn_engine_info){.name = "toy",
                                       .build = "toy 1",
                                       .fingerprint = {1},
                                       .slots = 1,
                                       .slot_tokens_max = SLOT_TOKENS,
                                       .batch_tokens_max = BATCH_TOKENS,
                                       .vocab_size = VOCAB,
                                       .trim = CAIRN_TRIM_NEVER,
                                       .rows_move = true,
                                       .exact = true,
                                       .state_bytes_max = sizeof(uint64_t),
                                       .row_bytes = sizeof(uint64_t)};
    return &t->head;
}

/* --- the program ------------------------------------------------------------------------------------------ */

enum { ANSWER_TOKENS = 16 };

static cairn_token likeliest(const float *logits)
{
    cairn_token best = 0;
    for (cairn_token i = 1; i < VOCAB; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* Ask, and answer with the likeliest tokens. */
static cairn_status ask(cairn_cache *cache, const cairn_prompt *prompt, cairn_token *answer,
                        cairn_record *ret_record, cairn_error *reterr)
{
    cairn_request *request;
    cairn_status status = cairn_cache_begin(cache, prompt, &request, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    for (int i = 0; status == CAIRN_OK;) {
        if (cairn_request_phase(request) != CAIRN_PHASE_READY) {
            status = cairn_cache_step(cache, &request, 1, reterr);
        } else if (i < ANSWER_TOKENS) {
            answer[i] = likeliest(cairn_request_logits(request));
            status = cairn_request_push(request, answer[i++]);
        } else {
            break;
        }
    }
    cairn_cache_end(cache, request, status == CAIRN_OK ? CAIRN_END_DONE : CAIRN_END_BROKEN);
    *ret_record = *cairn_request_record(request);
    cairn_request_free(request);
    return status;
}

/* A system text, an old exchange, and a question whose words depend on `edit`. */
static void write_prompt(cairn_token *tokens, cairn_boundary *boundaries, int edit, cairn_prompt *ret_prompt)
{
    enum { SYSTEM = 1200, EXCHANGE = 700, QUESTION = 100 };
    for (int i = 0; i < SYSTEM + EXCHANGE + QUESTION; i++) {
        tokens[i] = (i * 7 + i / 13 + (i < SYSTEM + EXCHANGE ? 0 : edit)) % VOCAB;
    }
    boundaries[0] = (cairn_boundary){.position = SYSTEM,
                                     .message = 1,
                                     .kinds = CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_MESSAGE_START,
                                     .role = CAIRN_ROLE_USER};
    boundaries[1] = (cairn_boundary){.position = SYSTEM + EXCHANGE,
                                     .message = 2,
                                     .kinds = CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_LAST_USER,
                                     .role = CAIRN_ROLE_USER};
    *ret_prompt = (cairn_prompt){.tokens = tokens,
                                 .count = SYSTEM + EXCHANGE + QUESTION,
                                 .boundaries = boundaries,
                                 .count_boundaries = 2,
                                 .mode = CAIRN_RESUME_EXACT};
}

/* Run the three prompts; gives the number of tokens read, or -1. */
static long run(bool off, cairn_token answers[3][ANSWER_TOKENS])
{
    static const int edits[3] = {1, 2, 1};
    cairn_cache_options options = {.ram_bytes_max = 1 << 20, .off = off};
    cairn_error error = {0};
    cairn_cache *cache = NULL;
    cairn_engine *engine = toy_new();
    long read = 0;
    cairn_status status =
        engine == NULL ? CAIRN_NOMEM : cairn_cache_new(cairn_mem_default(), engine, &options, &cache, &error);
    for (int i = 0; i < 3 && status == CAIRN_OK; i++) {
        cairn_token tokens[SLOT_TOKENS];
        cairn_boundary boundaries[2];
        cairn_prompt prompt;
        cairn_record record;
        write_prompt(tokens, boundaries, edits[i], &prompt);
        status = ask(cache, &prompt, answers[i], &record, &error);
        if (status == CAIRN_OK) {
            printf("%s request %d: %u tokens, %u reused, %u read (%u at least); %s\n",
                   off ? "cold  " : "cached", i + 1, record.prompt_tokens, record.resume, record.read,
                   record.least, cairn_reason_sentence(record.reason));
            read += record.read;
        }
    }
    if (status != CAIRN_OK) {
        fprintf(stderr, "embed: %s: %s\n", error.where != NULL ? error.where : "",
                cairn_status_message(status));
    }
    cairn_cache_free(cache);
    if (engine != NULL) {
        engine->ops->free(engine);
    }
    return status == CAIRN_OK ? read : -1;
}

int main(void)
{
    cairn_token cached[3][ANSWER_TOKENS];
    cairn_token cold[3][ANSWER_TOKENS];
    long read_cached = run(false, cached);
    long read_cold = run(true, cold);
    if (read_cached < 0 || read_cold < 0) {
        return 1;
    }
    if (memcmp(cached, cold, sizeof cold) != 0) {
        fprintf(stderr, "embed: the answers differ\n");
        return 1;
    }
    printf("libcairn %s: %ld tokens read in place of %ld, equal answers\n", cairn_version(), read_cached,
           read_cold);
    return read_cached < read_cold / 2 ? 0 : 1;
}
