/*
 * Many requests at once, through the whole server. On the replica engine, where an answer is a hash of everything that was
 * read: a token, a row or a state of another conversation changes it always. So each answer is compared with the one that
 * was given when nobody else was there. Meant for the thread sanitizer, too. A shorter run is on libllama.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "contract/contract_support.h"
#include "engine/engine_llama.h"
#include "engine/engine_replica.h"
#include "engine/llama_check.h"
#include "engine/llama_vocab.h"
#include "serve/serve_inside.h"
#include "test_support.h"

enum { CLIENTS = 8, TALKS = 24, PROMPT_MAX = 1024, REPLY = 1 << 15, BODY = 1 << 14, QUEUE = 256 };

typedef struct rig {
    cairn_engine *engine;
    struct llama_model *words; /* the replica has no vocabulary of its own */
    cairn_llama_vocab vocab;
    cairn_cache *cache;
    cairn_chat *chat;
    cairn_serve *serve;
    cairn_log log;
    uint16_t port;
    atomic_uint together; /* the first of so many goes on when all of them are there; 0: it doesn't wait */
} rig;

/* On the scheduler's thread, while a prompt is read. */
static void wait_for_all(void *ctx, uint64_t job, uint32_t done_tokens, uint32_t prompt_tokens)
{
    rig *r = ctx;
    (void)job;
    (void)done_tokens;
    (void)prompt_tokens;
    for (uint32_t queued = 0, active = 0; queued + active < atomic_load(&r->together); (void)sched_yield())
        cairn_scheduler_counts(r->serve->scheduler, &queued, &active);
    atomic_store(&r->together, 0);
}

static void quiet(void *ctx, const char *line, size_t len_bytes)
{
    (void)ctx;
    (void)line;
    (void)len_bytes;
}

static void start_server(rig *r, cairn_resume_mode resume)
{
    cairn_error error = {0};
    cairn_cache_options cache = {.ram_bytes_max = 64u << 20};
    assert_ok(cairn_cache_new(cairn_mem_default(), r->engine, &cache, &r->cache, &error));
    cairn_chat_source source = {.model = (struct llama_model *)(uintptr_t)r->vocab.model};
    assert_ok(cairn_chat_open(&source, &r->chat, &error));
    cairn_log_init(&r->log, CAIRN_LOG_LEVEL_ERROR, CAIRN_FIELD_FORMAT_TEXT, cairn_clock_system(), quiet,
                   NULL);
    cairn_serve_options serve = {.mem = cairn_mem_default(),
                                 .log = &r->log,
                                 .clock = cairn_clock_system(),
                                 .engine = r->engine,
                                 .cache = r->cache,
                                 .vocab = &r->vocab,
                                 .chat = r->chat,
                                 .model_name = "many",
                                 .host = "127.0.0.1",
                                 .threads = 4,
                                 .connections_max = 64,
                                 .queue_max = QUEUE,
                                 .body_bytes_max = 1 << 20,
                                 .resume = resume,
                                 .progress = wait_for_all,
                                 .progress_ctx = r};
    assert_ok(cairn_serve_start(&serve, &r->serve, &error));
    r->port = cairn_serve_port(r->serve);
}

static void start_replica(rig *r, uint32_t slots, cairn_resume_mode resume)
{
    cairn_error error = {0};
    cairn_replica_options o;
    cairn_llama_model_options words = {.path = contract_model_path("qwen35", "tiny"), .vocab_only = true};
    memset(r, 0, sizeof *r);
    cairn_llama_log_set(NULL, NULL);
    assert_ok(cairn_llama_model_load(&words, &r->words, &error));
    cairn_llama_vocab_init(&r->vocab, r->words);
    cairn_replica_defaults(&o);
    o.slots = slots;
    o.vocab_size = cairn_llama_vocab_size(&r->vocab);
    o.logits_rows_max = slots;
    o.cut_sensitive = o.near_ties = true; /* the last bits choose the tokens */
    assert_ok(cairn_replica_new(&o, cairn_mem_default(), &r->engine, &error));
    start_server(r, resume);
}

static void start_llama(rig *r, uint32_t slots, bool in_one_context, cairn_resume_mode resume)
{
    cairn_llama_options o;
    cairn_check check;
    cairn_error error = {0};
    memset(r, 0, sizeof *r);
    cairn_llama_log_set(NULL, NULL);
    cairn_llama_defaults(&o);
    o.model.path = contract_model_path("qwen35", "tiny");
    o.model.no_repack = o.shared = in_one_context;
    o.slots = slots;
    o.slot_tokens_max = 1024;
    o.batch_tokens_max = 128;
    o.threads = 1;
    assert_ok(cairn_llama_new(&o, cairn_mem_default(), &r->engine, &error));
    assert_ok(cairn_llama_check(r->engine, cairn_mem_default(), &check, &error));
    assert_true(check.usable && r->engine->info.batch_alone == in_one_context);
    cairn_llama_vocab_init(&r->vocab, cairn_llama_model_get(r->engine));
    start_server(r, resume);
}

static void stop(rig *r)
{
    cairn_serve_stop(r->serve, 0);
    cairn_chat_close(r->chat);
    cairn_cache_free(r->cache);
    r->engine->ops->free(r->engine);
    cairn_llama_model_free(r->words);
    cairn_log_release(&r->log);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

/* Send `body`, wait for the answer; the status, and the answer's text as it stands in the JSON. */
static int ask(const rig *r, const char *body, char *text, size_t room)
{
    char head[256];
    char *reply = malloc(REPLY);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(r->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), status = -1;
    int size = snprintf(head, sizeof head,
                        "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                        "Connection: close\r\nContent-Length: %zu\r\n\r\n",
                        strlen(body));
    text[0] = '\0';
    if (fd >= 0 && reply != NULL && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, head, (size_t)size, MSG_NOSIGNAL) == size &&
        send(fd, body, strlen(body), MSG_NOSIGNAL) == (ssize_t)strlen(body)) {
        size_t used = 0;
        for (ssize_t got; (got = recv(fd, reply + used, REPLY - 1 - used, 0)) > 0;)
            used += (size_t)got;
        reply[used] = '\0';
        if (sscanf(reply, "HTTP/1.1 %d", &status) != 1)
            status = -1;
        const char *at = strstr(reply, "\"text\":");
        if (at != NULL) {
            (void)snprintf(text, room, "%s", at);
            char *end = strstr(text, "\",\"");
            if (end != NULL)
                *end = '\0';
        }
    }
    if (fd >= 0)
        (void)close(fd);
    free(reply);
    return status;
}

/* A greedy request for the tokens of a talk: `same` of them are those of all talks, then its own (its codeword). */
static void write_body(const rig *r, char *body, uint32_t talk, uint32_t same, uint32_t own, uint32_t answer)
{
    uint32_t words = cairn_llama_vocab_size(&r->vocab);
    size_t n = (size_t)snprintf(body, BODY, "{\"prompt\":[");
    for (uint32_t i = 0; i < same + own; i++) {
        uint32_t token = i < same ? i * 7919u + 11u : i * 104729u + (talk + 1) * 15485863u;
        n += (size_t)snprintf(body + n, BODY - n, "%s%u", i > 0 ? "," : "", 1000u + token % (words / 2));
    }
    (void)snprintf(body + n, BODY - n, "],\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":%u}", answer);
}

typedef struct client {
    const rig *r;
    uint32_t index, requests, talks;
    const char *const *bodies;
    const char (*expected)[512]; /* NULL: nothing is compared */
    uint32_t wrong, refused;
    char text[512];
} client;

static void *run_client(void *arg)
{
    client *c = arg;
    uint64_t state = c->index + 1;
    for (uint32_t i = 0; i < c->requests; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t talk = (uint32_t)(state >> 33) % c->talks;
        int status = ask(c->r, c->bodies[talk], c->text, sizeof c->text);
        c->refused += status != 200;
        c->wrong += status == 200 && c->expected != NULL && strcmp(c->text, c->expected[talk]) != 0;
    }
    return NULL;
}

/* All clients at once; gives nothing back that is not counted in them. */
static void run_clients(client *clients, uint32_t count)
{
    pthread_t threads[32];
    assert_true(count <= 32);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_client, &clients[i]), 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Each talk alone first, then `requests` of each client in any order; `compare`: answers must be those given alone. */
static void many(rig *r, uint32_t requests, uint32_t own, uint32_t answer, bool compare)
{
    static char bodies[TALKS][BODY];
    static char expected[TALKS][512];
    const char *list[TALKS];
    client clients[CLIENTS];
    uint32_t wrong = 0, refused = 0;
    for (uint32_t t = 0; t < TALKS; t++) {
        write_body(r, bodies[t], t, 30 + t % 4 * 20, own + t, answer);
        list[t] = bodies[t];
        assert_int_equal(ask(r, bodies[t], expected[t], sizeof expected[t]), 200);
        for (uint32_t before = 0; before < t; before++)
            assert_string_not_equal(expected[t], expected[before]);
    }
    for (uint32_t i = 0; i < CLIENTS; i++)
        clients[i] = (client){.r = r,
                              .index = i,
                              .requests = requests,
                              .talks = TALKS,
                              .bodies = list,
                              .expected = compare ? (const char(*)[512])expected : NULL};
    run_clients(clients, CLIENTS);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        wrong += clients[i].wrong;
        refused += clients[i].refused;
    }
    assert_int_equal(refused, 0);
    assert_int_equal(wrong, 0);
}

/* --- tests ------------------------------------------------------------------------------------------------------- */

static void a_codeword_of_one_of_thousands_on_four_slots_never_shows_in_another(void **state)
{
    (void)state;
    rig r;
    start_replica(&r, 4, CAIRN_RESUME_EXACT);
    many(&r, 250, 12, 3, true);
    stop(&r);
}

static void a_codeword_of_one_of_thousands_on_eight_slots_never_shows_in_another(void **state)
{
    (void)state;
    rig r;
    start_replica(&r, 8, CAIRN_RESUME_EXACT);
    many(&r, 250, 12, 3, true);
    stop(&r);
}

static void a_codeword_of_one_of_hundreds_on_libllama_never_shows_in_another(void **state)
{
    (void)state;
    rig r;
    for (int in_one_context = 0; in_one_context < 2; in_one_context++) {
        start_llama(&r, 4, in_one_context != 0, CAIRN_RESUME_EXACT);
        many(&r, 12, 12, 3, true);
        stop(&r);
    }
    start_llama(&r, 4, true,
                CAIRN_RESUME_FAST); /* tokens of several answers in one computation: last bits may differ */
    many(&r, 12, 12, 6, false);
    stop(&r);
}

static void identical_at_once(rig *r, uint32_t same, uint32_t answer)
{
    static char body[BODY];
    const char *list[1] = {body};
    client clients[16];
    write_body(r, body, 1, 0, same, answer);
    atomic_store(&r->together, 16);
    for (uint32_t i = 0; i < 16; i++)
        clients[i] = (client){.r = r, .index = i, .requests = 1, .talks = 1, .bodies = list};
    run_clients(clients, 16);
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(clients[i].refused, 0);
        assert_true(strlen(clients[i].text) > 10);
        assert_string_equal(clients[i].text, clients[0].text);
    }
}

static void identical_greedy_requests_at_once_give_one_answer(void **state)
{
    (void)state;
    rig r;
    /* In fast mode each is cut where it suits: with the replica's near ties any other cut is another answer. */
    const cairn_resume_mode modes[] = {CAIRN_RESUME_EXACT, CAIRN_RESUME_FAST};
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t round = 0; round < 5; round++) {
            start_replica(&r, 8, modes[i]);
            identical_at_once(&r, 700, 24);
            stop(&r);
        }
        for (int in_one_context = 0; in_one_context < 2; in_one_context++) {
            start_llama(&r, 4, in_one_context != 0, modes[i]);
            identical_at_once(&r, 300, 12);
            stop(&r);
        }
    }
}

/* Sub-agents: one cold beginning, told at once by eight; it is read once. */
static void one_cold_beginning_of_many_is_read_once(void **state)
{
    (void)state;
    enum { AGENTS = 8, BEGINNING = 800, OWN = 6, ANSWER = 4 };
    static char bodies[AGENTS][BODY];
    const char *lists[AGENTS][1];
    client clients[AGENTS];
    rig r;
    start_replica(&r, AGENTS, CAIRN_RESUME_EXACT);
    for (uint32_t i = 0; i < AGENTS; i++) {
        write_body(&r, bodies[i], i, BEGINNING, OWN, ANSWER);
        lists[i][0] = bodies[i];
        clients[i] = (client){.r = &r, .index = i, .requests = 1, .talks = 1, .bodies = lists[i]};
    }
    run_clients(clients, AGENTS);
    cairn_serve_stop(r.serve, 0); /* the engine is ours now */
    r.serve = NULL;
    uint64_t decoded = cairn_replica_counters_get(r.engine)->tokens_decoded;
    printf("%llu tokens decoded for %d prompts of %d\n", (unsigned long long)decoded, AGENTS,
           BEGINNING + OWN);
    for (uint32_t i = 0; i < AGENTS; i++)
        assert_int_equal(clients[i].refused, 0);
    /* Each reads what its nearest state leaves, at most a batch, and its own. */
    assert_true(decoded < BEGINNING + AGENTS * (64 + OWN + ANSWER));
    assert_int_equal(cairn_replica_counters_get(r.engine)->violations, 0);
    stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_codeword_of_one_of_thousands_on_four_slots_never_shows_in_another),
        cmocka_unit_test(a_codeword_of_one_of_thousands_on_eight_slots_never_shows_in_another),
        cmocka_unit_test(a_codeword_of_one_of_hundreds_on_libllama_never_shows_in_another),
        cmocka_unit_test(identical_greedy_requests_at_once_give_one_answer),
        cmocka_unit_test(one_cold_beginning_of_many_is_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
