/*
 * A whole server over the llama engine with a table in between that fails on demand: each failure is an error to that
 * request in the API's shape, or costs it time; the request after it is answered as if nothing had been.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem_test.h"
#include "contract/contract_support.h"
#include "engine/engine_llama.h"
#include "engine/llama_check.h"
#include "engine/llama_vocab.h"
#include "gguf.h"
#include "serve/serve.h"
#include "test_support.h"

enum { ROOM = 1 << 20, WORDS = 260 };

typedef enum fault {
    FAULT_NONE,
    FAULT_DECODE,
    FAULT_ROOM,
    FAULT_NAN,
    FAULT_SIZE_0,
    FAULT_SET,
    FAULT_TRIM,
    FAULT_READING /* decodes that read prompts; answers go on */
} fault;

/* The table in between; its head comes first, as in every engine. */
typedef struct wrapped {
    cairn_engine head;
    cairn_engine *inner;
    cairn_engine_ops ops;
    atomic_int armed;
    atomic_uint hits;
    atomic_uint answering; /* decodes of answers' tokens so far                                        */
    atomic_int spared;     /* calls that still work                                                       */
    bool persistent;
} wrapped;

typedef struct rig {
    wrapped engine;
    cairn_llama_vocab vocab;
    cairn_cache *cache;
    cairn_chat *chat;
    cairn_serve *serve;
    cairn_log log;
    cairn_mem_test heap; /* of the server alone */
    uint16_t port;
    char *reply; /* char[ROOM] */
} rig;

static rig shared;

static wrapped *wrapped_of(cairn_engine *engine)
{
    return (wrapped *)(void *)engine;
}

static bool strikes(cairn_engine *engine, fault kind)
{
    wrapped *w = wrapped_of(engine);
    if (atomic_load(&w->armed) != (int)kind)
        return false;
    if (atomic_fetch_sub(&w->spared, 1) > 0)
        return false;
    atomic_store(&w->spared, 0);
    if (!w->persistent)
        atomic_store(&w->armed, FAULT_NONE);
    atomic_fetch_add(&w->hits, 1);
    return true;
}

static cairn_status decode(cairn_engine *engine, const cairn_piece *pieces, uint32_t count,
                           cairn_error *reterr)
{
    cairn_engine *inner = wrapped_of(engine)->inner;
    bool reading = false;
    for (uint32_t i = 0; i < count; i++)
        reading = reading || pieces[i].count > 1;
    if (!reading)
        atomic_fetch_add(&wrapped_of(engine)->answering, 1);
    if (strikes(engine, FAULT_DECODE) || (reading && strikes(engine, FAULT_READING)) ||
        strikes(engine, FAULT_NAN)) {
        for (uint32_t i = 0; i < count; i++)
            inner->ops->reset(inner, pieces[i].slot);
        return cairn_error_set(reterr, CAIRN_ENGINE, "test/decode", "the engine failed on purpose");
    }
    if (strikes(engine, FAULT_ROOM)) {
        for (uint32_t i = 0; i < count; i++)
            inner->ops->reset(inner, pieces[i].slot);
        return cairn_error_set(reterr, CAIRN_NOMEM, "test/decode", "no room on purpose");
    }
    return inner->ops->decode(inner, pieces, count, reterr);
}

static uint64_t state_size(cairn_engine *engine, uint32_t slot)
{
    cairn_engine *inner = wrapped_of(engine)->inner;
    return strikes(engine, FAULT_SIZE_0) ? 0 : inner->ops->state_size(inner, slot);
}

static cairn_status state_set(cairn_engine *engine, uint32_t slot, uint32_t length, const uint8_t *bytes,
                              uint64_t size, cairn_error *reterr)
{
    cairn_engine *inner = wrapped_of(engine)->inner;
    if (strikes(engine, FAULT_SET)) {
        inner->ops->reset(inner, slot);
        return cairn_error_set(reterr, CAIRN_ENGINE, "test/state_set", "refused on purpose");
    }
    return inner->ops->state_set(inner, slot, length, bytes, size, reterr);
}

static cairn_status trim(cairn_engine *engine, uint32_t slot, uint32_t length, cairn_error *reterr)
{
    cairn_engine *inner = wrapped_of(engine)->inner;
    if (strikes(engine, FAULT_TRIM)) {
        inner->ops->reset(inner, slot);
        return cairn_error_set(reterr, CAIRN_ENGINE, "test/trim", "refused on purpose");
    }
    return inner->ops->trim(inner, slot, length, reterr);
}

#define INNER wrapped_of(engine)->inner
static const float *logits(cairn_engine *engine, uint32_t piece, uint32_t index)
{
    return INNER->ops->logits(INNER, piece, index);
}
static uint32_t length_of(cairn_engine *engine, uint32_t slot)
{
    return INNER->ops->length(INNER, slot);
}
static bool can_trim(cairn_engine *engine, uint32_t slot, uint32_t length)
{
    return INNER->ops->can_trim(INNER, slot, length);
}
static void reset(cairn_engine *engine, uint32_t slot)
{
    INNER->ops->reset(INNER, slot);
}
static cairn_status state_get(cairn_engine *engine, uint32_t slot, uint8_t *out, uint64_t size,
                              cairn_error *reterr)
{
    return INNER->ops->state_get(INNER, slot, out, size, reterr);
}
static cairn_rows_size rows_size(cairn_engine *engine, uint32_t begin, uint32_t end)
{
    return INNER->ops->rows_size(INNER, begin, end);
}
static cairn_status rows_export(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                uint8_t *out, uint64_t out_size, uint64_t *ret_size, cairn_error *reterr)
{
    return INNER->ops->rows_export(INNER, slot, begin, end, out, out_size, ret_size, reterr);
}
static cairn_status rows_import(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                uint32_t begin_use, uint32_t use_end, const uint8_t *bytes, uint64_t size,
                                cairn_error *reterr)
{
    return INNER->ops->rows_import(INNER, slot, begin, end, begin_use, use_end, bytes, size, reterr);
}
static void interrupt(cairn_engine *engine)
{
    INNER->ops->interrupt(INNER);
}
static void resume_work(cairn_engine *engine)
{
    INNER->ops->resume_work(INNER);
}
#undef INNER

/* --- the server -------------------------------------------------------------------------------------- */

static void quiet(void *ctx, const char *line, size_t len_bytes)
{
    (void)ctx;
    (void)line;
    (void)len_bytes;
}

static int start_server(const char *path)
{
    rig *r = &shared;
    cairn_llama_options o;
    cairn_check check;
    cairn_error error = {0};
    cairn_llama_defaults(&o);
    o.model.path = path;
    o.slots = 2;
    o.slot_tokens_max = 2048;
    o.batch_tokens_max = 128;
    o.threads = 1;
    assert_ok(cairn_llama_new(&o, cairn_mem_default(), &r->engine.inner, &error));
    assert_ok(cairn_llama_check(r->engine.inner, cairn_mem_default(), &check, &error));
    r->engine.ops = (cairn_engine_ops){decode,      logits,      length_of, can_trim,    trim,
                                       reset,       state_size,  state_get, state_set,   rows_size,
                                       rows_export, rows_import, interrupt, resume_work, NULL};
    r->engine.head = (cairn_engine){.ops = &r->engine.ops, .info = r->engine.inner->info};
    cairn_llama_vocab_init(&r->vocab, cairn_llama_model_get(r->engine.inner));
    cairn_cache_options cache = {.ram_bytes_max = 256u << 20};
    assert_ok(cairn_cache_new(cairn_mem_default(), &r->engine.head, &cache, &r->cache, &error));
    cairn_chat_source source = {.model = cairn_llama_model_get(r->engine.inner)};
    assert_ok(cairn_chat_open(&source, &r->chat, &error));
    cairn_log_init(&r->log, CAIRN_LOG_LEVEL_ERROR, CAIRN_FIELD_FORMAT_TEXT, cairn_clock_system(), quiet,
                   NULL);
    cairn_mem_test_init(&r->heap, 0);
    cairn_serve_options serve = {.mem = &r->heap.mem,
                                 .log = &r->log,
                                 .clock = cairn_clock_system(),
                                 .engine = &r->engine.head,
                                 .cache = r->cache,
                                 .vocab = &r->vocab,
                                 .chat = r->chat,
                                 .model_name = "tiny",
                                 .host = "127.0.0.1",
                                 .threads = 2,
                                 .connections_max = 16,
                                 .queue_max = 16,
                                 .body_bytes_max = ROOM,
                                 .resume = CAIRN_RESUME_EXACT};
    assert_ok(cairn_serve_start(&serve, &r->serve, &error));
    r->port = cairn_serve_port(r->serve);
    r->reply = malloc(ROOM);
    return r->reply == NULL;
}

static int set_up(void **unused)
{
    (void)unused;
    return start_server(contract_model_path("qwen35", "tiny"));
}

static int tear_down(void **unused)
{
    (void)unused;
    rig *r = &shared;
    cairn_serve_stop(r->serve, 0);
    assert_int_equal(cairn_mem_test_leaked(&r->heap), 0);
    cairn_mem_test_release(&r->heap);
    cairn_chat_close(r->chat);
    cairn_cache_free(r->cache);
    r->engine.inner->ops->free(r->engine.inner);
    cairn_log_release(&r->log);
    free(r->reply);
    return 0;
}

/* Send a body and take all that comes. Gives the status. */
static int post_into(char *reply, const char *path, const char *body, size_t len_bytes)
{
    char *head = malloc(len_bytes + 512);
    assert_non_null(head);
    int size = snprintf(head, len_bytes + 512,
                        "POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                        "Connection: close\r\nContent-Length: %zu\r\n\r\n%.*s",
                        path, len_bytes, (int)len_bytes, body);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(shared.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, head, (size_t)size, 0), size);
    free(head);
    size_t used = 0;
    for (ssize_t got; (got = recv(fd, reply + used, ROOM - 1 - used, 0)) > 0;)
        used += (size_t)got;
    (void)close(fd);
    reply[used] = '\0';
    int status = 0;
    (void)sscanf(reply, "HTTP/1.1 %d", &status); /* 0: the connection was closed without an answer */
    return status;
}

/* The reply, its head included, is in shared.reply. */
static int post(const char *path, const char *body, size_t len_bytes)
{
    return post_into(shared.reply, path, body, len_bytes);
}

/* Ask for a greedy answer to `last` behind a long message. Gives the status; the body is in shared.reply. */
static int ask(const char *last, char *ret_text, size_t room)
{
    static char body[ROOM / 4];
    size_t n = (size_t)snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < WORDS; i++)
        n += (size_t)snprintf(body + n, sizeof body - n, "%s ",
                              i % 3 == 0   ? "river"
                              : i % 7 == 0 ? "light"
                                           : "house");
    n += (size_t)snprintf(
        body + n, sizeof body - n,
        "\"},{\"role\":\"assistant\",\"content\":\"yes\"},{\"role\":\"user\",\"content\":\"%s\"}],"
        "\"temperature\":0,\"max_tokens\":6}",
        last);
    int status = post("/v1/chat/completions", body, n);
    const char *at = strstr(shared.reply, "\"message\"");
    (void)snprintf(ret_text, room, "%s", at != NULL ? at : "");
    ret_text[strcspn(ret_text, "}")] = '\0';
    return status;
}

/* --- tests ------------------------------------------------------------------------------------------- */

static void arm(fault kind, bool persistent)
{
    shared.engine.persistent = persistent;
    atomic_store(&shared.engine.hits, 0);
    atomic_store(&shared.engine.spared, 0);
    atomic_store(&shared.engine.armed, (int)kind);
}

static void a_failing_decode_is_an_error_in_the_shape_of_the_api(void **unused)
{
    (void)unused;
    char before[512], text[512];
    assert_int_equal(ask("one", before, sizeof before), 200);
    static const fault kinds[] = {FAULT_DECODE, FAULT_NAN, FAULT_ROOM};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        arm(kinds[i], true);
        int status = ask("two", text, sizeof text);
        arm(FAULT_NONE, false);
        assert_true(status == 500 || status == 503);
        assert_non_null(strstr(shared.reply, "\"error\""));
        assert_non_null(strstr(shared.reply, "\"type\""));
        assert_non_null(strstr(shared.reply, "on purpose"));
        /* nobody else is harmed, and what was known still is */
        assert_int_equal(ask("one", text, sizeof text), 200);
        assert_string_equal(text, before);
    }
}

static void a_refused_state_or_cut_costs_time_and_no_answer(void **unused)
{
    (void)unused;
    char before[512], other[512], text[512];
    assert_int_equal(ask("one", before, sizeof before), 200);
    assert_int_equal(ask("three", other, sizeof other), 200);
    static const fault kinds[] = {FAULT_SET, FAULT_TRIM, FAULT_SIZE_0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        arm(kinds[i], false);
        assert_int_equal(ask("three", text, sizeof text), 200);
        assert_string_equal(text, other);
        assert_int_equal(ask("one", text, sizeof text), 200);
        assert_string_equal(text, before);
        arm(kinds[i], true); /* for ever: the cache can't help, the answers come all the same */
        static const char *const fresh[] = {"four", "five", "six"};
        char faulty[512];
        assert_int_equal(ask(fresh[i], faulty, sizeof faulty), 200);
        assert_int_equal(ask("three", text, sizeof text), 200);
        assert_string_equal(text, other);
        assert_int_equal(ask(fresh[i], text, sizeof text), 200);
        assert_string_equal(text, faulty);
        /* Whether a state is put back or a slot is used as it is depends on measured times: ask until it was. */
        for (uint32_t n = 0; n < 20 && atomic_load(&shared.engine.hits) == 0; n++) {
            static char last[4096]; /* long: a state behind it is worth taking */
            int used = snprintf(last, sizeof last, "%s %u", fresh[i], n / 2);
            for (uint32_t word = 0; word < 200; word++)
                used += snprintf(last + used, sizeof last - (size_t)used, " stone%u", word % (n + 3));
            assert_int_equal(ask(n % 2 == 0 ? last : "one", text, sizeof text), 200);
        }
        if (atomic_load(&shared.engine.hits) == 0)
            fail_msg("fault %d was never provoked", (int)kinds[i]);
        arm(FAULT_NONE, false);
    }
    assert_int_equal(ask("one", text, sizeof text), 200);
    assert_string_equal(text, before);
    assert_non_null(strstr(shared.reply, "\"cached_tokens\""));
    assert_null(strstr(shared.reply, "\"cached_tokens\":0"));
}

static void a_stream_that_breaks_says_so_in_the_shape_of_its_api(void **unused)
{
    (void)unused;
    static const struct {
        const char *path, *body, *begun, *said, *never;
    } apis[] = {
        {"/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stream\":true,\"max_tokens\":50}",
         "\"role\":\"assistant\"", "data: {\"error\":{\"message\":", "[DONE]"},
        {"/v1/completions", "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":50,\"ignore_eos\":true}",
         "\"text\":", "data: {\"error\":{\"message\":", "[DONE]"},
        {"/completion", "{\"prompt\":\"a\",\"stream\":true,\"n_predict\":50,\"ignore_eos\":true}",
         "\"content\":", "data: {\"error\":{\"message\":", "\"stop\":true"},
        {"/v1/messages",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stream\":true,\"max_tokens\":50}",
         "event: message_start", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"",
         "message_stop"},
        {"/v1/responses", "{\"input\":\"a\",\"stream\":true,\"max_output_tokens\":50}",
         "event: response.created", "event: response.failed\ndata: {\"type\":\"response.failed\"",
         "response.completed"},
        /* the second of two answers */
        {"/v1/completions", "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":2,\"ignore_eos\":true,\"n\":2}",
         "\"finish_reason\":\"length\"", "data: {\"error\":{\"message\":", "[DONE]"},
    };
    for (size_t i = 0; i < sizeof apis / sizeof apis[0]; i++) {
        char text[512];
        arm(FAULT_DECODE, true);
        atomic_store(&shared.engine.spared, 3);
        int status = post(apis[i].path, apis[i].body, strlen(apis[i].body));
        arm(FAULT_NONE, false);
        assert_int_equal(status, 200);
        assert_non_null(strstr(shared.reply, apis[i].begun));
        assert_non_null(strstr(shared.reply, apis[i].said));
        assert_non_null(strstr(shared.reply, "on purpose"));
        assert_null(strstr(shared.reply, apis[i].never));
        assert_non_null(strstr(shared.reply, "\r\n0\r\n\r\n")); /* the body came to its end */
        assert_int_equal(ask("one", text, sizeof text), 200);
    }
}

static void a_choice_that_fails_fails_the_whole_answer(void **unused)
{
    (void)unused;
    static const char body[] = "{\"prompt\":[\"a\",\"b\"],\"max_tokens\":2,\"ignore_eos\":true,\"n\":2}";
    arm(FAULT_DECODE, true);
    atomic_store(&shared.engine.spared, 3);
    int status = post("/v1/completions", body, sizeof body - 1);
    arm(FAULT_NONE, false);
    assert_int_equal(status, 500);
    assert_non_null(strstr(shared.reply, "{\"error\":{\"message\":"));
    assert_int_equal(post("/v1/completions", body, sizeof body - 1), 200);
    assert_non_null(strstr(shared.reply, "\"index\":3"));
}

static const char long_answer[] =
    "{\"prompt\":\"a\",\"max_tokens\":400,\"ignore_eos\":true,\"temperature\":0}";

static void *answer_at_length(void *reply)
{
    (void)post_into(reply, "/v1/completions", long_answer, sizeof long_answer - 1);
    return NULL;
}

/* The text of a completion, as it stands in the JSON. */
static void text_of(const char *reply, char *text, size_t room)
{
    const char *at = strstr(reply, "\"text\":");
    (void)snprintf(text, room, "%s", at != NULL ? at : "");
    char *end = strstr(text, "\",\"");
    if (end != NULL)
        *end = '\0';
}

static void those_beside_one_that_fails_are_unharmed(void **unused)
{
    (void)unused;
    static char alone[ROOM / 16], beside[ROOM / 16];
    char *reply = malloc(ROOM), text[512];
    uint32_t failed = 0;
    (void)answer_at_length(reply);
    text_of(reply, alone, sizeof alone);
    assert_true(strlen(alone) > 400);
    pthread_t thread;
    uint32_t begun = atomic_load(&shared.engine.answering);
    assert_int_equal(pthread_create(&thread, NULL, answer_at_length, reply), 0);
    while (atomic_load(&shared.engine.answering) < begun + 3) /* its own prompt is read */
        (void)sched_yield();
    arm(FAULT_READING, true);
    for (uint32_t i = 0; i < 4; i++) {
        char last[32];
        (void)snprintf(last, sizeof last, "beside %u", i);
        failed += ask(last, text, sizeof text) == 500;
    }
    arm(FAULT_NONE, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    text_of(reply, beside, sizeof beside);
    assert_int_equal(failed, 4);
    assert_string_equal(beside, alone);
    free(reply);
}

/* Every n-th allocation of the server fails once: an error in the API's shape, or an answer; and nothing stays behind. */
static void a_failing_allocation_is_an_error_to_one_request(void **unused)
{
    (void)unused;
    char before[512], text[512];
    uint32_t errors = 0;
    assert_int_equal(ask("one", before, sizeof before), 200);
    uint64_t calls = shared.heap.calls;
    assert_int_equal(ask("one", text, sizeof text), 200);
    calls = shared.heap.calls - calls;
    for (uint64_t nth = 1; nth <= calls; nth += 1 + calls / 60) {
        shared.heap.fail_at = shared.heap.calls + nth;
        int status = ask("one", text, sizeof text);
        shared.heap.fail_at = 0;
        if (status == 200) {
            assert_string_equal(text, before);
            continue;
        }
        errors++;
        /* The very first is what the connection is remembered by: without it nothing can be said, and it is closed. */
        bool closed = status == 0 && nth == 1;
        assert_true(closed || status == 500 || status == 503);
        assert_true(closed || strstr(shared.reply, "\"error\"") != NULL);
        assert_int_equal(ask("one", text, sizeof text), 200);
        assert_string_equal(text, before);
    }
    printf("%llu allocations a request; %u failures were told\n", (unsigned long long)calls, errors);
    assert_true(errors > 5);
}

/* A copy of the model without its chat template, and without tokens that end a turn. */
static void write_bare_model(const char *from, const char *to)
{
    struct gguf_context *file = gguf_init_from_file(from, (struct gguf_init_params){.no_alloc = true});
    assert_non_null(file);
    size_t weights = gguf_get_data_offset(file);
    int64_t tokens = gguf_find_key(file, "tokenizer.ggml.tokens");
    size_t count = gguf_get_arr_n(file, tokens);
    const char **texts = malloc(count * sizeof *texts);
    uint32_t renamed = 0;
    for (size_t i = 0; i < count; i++) {
        static const char *const names[] = {"[bare0]", "[bare1]", "[bare2]", "[bare3]"};
        const char *text = gguf_get_arr_str(file, tokens, i);
        bool ends = strcmp(text, "<|im_end|>") == 0 || strcmp(text, "<|endoftext|>") == 0;
        texts[i] = strdup(ends && renamed < 4 ? names[renamed++] : text);
    }
    assert_true(renamed > 0);
    gguf_set_arr_str(file, "tokenizer.ggml.tokens", texts, count);
    (void)gguf_remove_key(file, "tokenizer.chat_template");
    (void)gguf_remove_key(file, "tokenizer.ggml.eos_token_id");
    (void)gguf_remove_key(file, "tokenizer.ggml.eot_token_id");
    assert_true(gguf_write_to_file(file, to, true));
    /* The weights follow as they are. */
    FILE *in = fopen(from, "rb"), *out = fopen(to, "ab");
    static char piece[65536];
    assert_true(in != NULL && out != NULL && fseek(in, (long)weights, SEEK_SET) == 0);
    for (size_t got; (got = fread(piece, 1, sizeof piece, in)) > 0;)
        assert_int_equal(fwrite(piece, 1, got, out), got);
    assert_int_equal(fclose(in) + fclose(out), 0);
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)texts[i]);
    free(texts);
    gguf_free(file);
}

static void a_model_without_template_and_end_of_turn_answers(void **unused)
{
    char path[] = CAIRN_BUILD_DIR "/models/bare-XXXXXX", before[512], text[512];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(tear_down(unused), 0);
    write_bare_model(contract_model_path("qwen35", "tiny"), path);
    assert_int_equal(start_server(path), 0);
    (void)unlink(path);
    assert_true(cairn_chat_get_caps(shared.chat)->is_fallback);
    assert_int_equal(ask("one", before, sizeof before), 200);
    assert_non_null(strstr(shared.reply, "\"finish_reason\":\"length\""));
    assert_int_equal(ask("two", text, sizeof text), 200);
    assert_int_equal(ask("one", text, sizeof text), 200);
    assert_string_equal(text, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_decode_is_an_error_in_the_shape_of_the_api),
        cmocka_unit_test(a_refused_state_or_cut_costs_time_and_no_answer),
        cmocka_unit_test(a_stream_that_breaks_says_so_in_the_shape_of_its_api),
        cmocka_unit_test(a_choice_that_fails_fails_the_whole_answer),
        cmocka_unit_test(those_beside_one_that_fails_are_unharmed),
        cmocka_unit_test(a_failing_allocation_is_an_error_to_one_request),
        cmocka_unit_test(a_model_without_template_and_end_of_turn_answers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
