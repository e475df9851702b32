/*
 * serve - `cairn serve`: reads the options, puts engine, cache, template and server together, and waits for a signal.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/io.h"
#include "base/machine.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/disk_plan.h"
#include "cli/engine_open.h"
#include "cli/notify.h"
#include "cli/serve_keys.h"
#include "cli/serve_settings.h"
#include "cli/shared_plan.h"
#include "cli/term.h"
#include "serve/http.h"
#include "serve/serve.h"

enum { SCRIPT_BYTES_MAX = 256 * 1024 * 1024 };

/* Everything that is made, in the order of making. */
typedef struct parts {
    cairn_log log;
    cairn_engine_open engine;
    cairn_cache *cache;
    cairn_chat *chat;
    cairn_recorder *recorder;
    cairn_serve *serve;
    cairn_disk_plan disk;
    cairn_shared_plan shared;
    cairn_script *script;
    cairn_http *http; /* listens while the model is loaded; then the server's */
    cairn_serve_keys keys;
    cairn_buf template_text;
    char name[128];
} parts;

/* --- parts ------------------------------------------------------------------------------------------------------- */

static int read_keys(const cairn_serve_settings *s, parts *p)
{
    cairn_error error = {0};
    if (s->api_key_file == NULL || cairn_serve_keys_read(&p->keys, s->api_key_file, &error) == CAIRN_OK)
        return 0;
    cairn_term_fail("the API keys can't be read", &error,
                    "Write one key a line, or leave --api-key-file out.");
    return 1;
}

static int open_chat(const cairn_serve_settings *s, parts *p)
{
    cairn_error error = {0};
    if (s->template_file != NULL &&
        cairn_io_read_file(cairn_io_posix(), s->template_file, &p->template_text, &error) != CAIRN_OK) {
        cairn_term_fail("the chat template can't be read", &error, NULL);
        return 1;
    }
    cairn_chat_source source = {.model = cairn_llama_model_get(p->engine.engine),
                                .template_text =
                                    s->template_file != NULL ? cairn_buf_str(&p->template_text) : NULL};
    if (cairn_chat_open(&source, &p->chat, &error) != CAIRN_OK) {
        cairn_term_fail("the chat template can't be used", &error,
                        "Give another one with --chat-template-file FILE.");
        return 1;
    }
    if (cairn_chat_get_caps(p->chat)->is_fallback) {
        CAIRN_LOG(&p->log, WARN, "template",
                  CAIRN_FIELD_STR("message", "the model has no chat template; ChatML is used"));
    }
    return 0;
}

/* Answers from a file: told loudly, so that nobody takes them for the model's. */
static int open_script(const cairn_serve_settings *s, parts *p)
{
    if (s->script == NULL)
        return 0;
    cairn_error error = {0};
    cairn_buf text;
    cairn_buf_init(&text, cairn_mem_default(), SCRIPT_BYTES_MAX);
    cairn_status status = cairn_io_read_file(cairn_io_posix(), s->script, &text, &error);
    if (status == CAIRN_OK)
        status =
            cairn_script_new(cairn_mem_default(), cairn_buf_str(&text), text.len_bytes, &p->script, &error);
    cairn_buf_release(&text);
    if (status != CAIRN_OK) {
        cairn_term_fail("the script can't be used", &error, "docs/script.md says how it looks.");
        return 1;
    }
    CAIRN_LOG(&p->log, WARN, "script",
              CAIRN_FIELD_STR("message", "answers come from a script, not from the model"),
              CAIRN_FIELD_UINT("lines", cairn_script_count(p->script)));
    return 0;
}

/* Where the disk tier is. A mistake is told before the model is loaded. */
static int plan_disk(const cairn_serve_settings *s, parts *p)
{
    if (s->no_cache || s->no_cache_disk)
        return 0;
    int code = cairn_disk_plan_read(s->cache_disk, s->cache_key, s->cache_disk_daily, &p->log, &p->disk);
    if (code == 0 && p->disk.off_why != NULL) {
        CAIRN_LOG(&p->log, WARN, "disk", CAIRN_FIELD_STR("message", "nothing is kept on disk"),
                  CAIRN_FIELD_STR("why", p->disk.off_why));
    }
    return code;
}

/* The disk tier is used, or it is said once why not. */
static void check_disk(parts *p)
{
    cairn_cache_disk_stats stats;
    cairn_cache_disk_stats_get(p->cache, &stats);
    if (!p->disk.on || stats.bytes_max > 0)
        return;
    p->disk.on = false;
    if (stats.last_error.status != CAIRN_OK)
        cairn_log_error(&p->log, CAIRN_LOG_LEVEL_WARN, "disk", &stats.last_error);
}

/* The same of the shared tier. */
static void check_shared(parts *p)
{
    cairn_cache_shared_stats stats;
    cairn_cache_shared_stats_get(p->cache, &stats);
    if (!p->shared.on || stats.on)
        return;
    p->shared.on = false;
    if (stats.last_error.status != CAIRN_OK)
        cairn_log_error(&p->log, CAIRN_LOG_LEVEL_WARN, "shared", &stats.last_error);
}

/* A budget that holds no state of this model is no mistake: requests are answered, and it is said once what that means. */
static void check_room(const cairn_serve_settings *s, parts *p)
{
    uint64_t state_bytes = p->engine.engine->info.state_bytes_max;
    if (s->cache_ram > 0 && s->cache_ram >= state_bytes)
        return;
    CAIRN_LOG(&p->log, WARN, "cache",
              CAIRN_FIELD_STR("message", "--cache-ram holds no state of this model: nothing is cached beyond "
                                         "what the slots hold"),
              CAIRN_FIELD_UINT("bytes", s->cache_ram), CAIRN_FIELD_UINT("state_bytes", state_bytes));
}

static int open_engine(const cairn_serve_settings *s, parts *p)
{
    static const cairn_llama_flash flash[] = {CAIRN_LLAMA_FLASH_AUTO, CAIRN_LLAMA_FLASH_ON,
                                              CAIRN_LLAMA_FLASH_OFF};
    cairn_llama_options options;
    cairn_llama_defaults(&options);
    options.model.path = s->model;
    options.model.gpu_layers = (int)s->gpu_layers;
    options.model.mmap = !s->no_mmap;
    options.model.mlock = s->mlock;
    options.model.no_repack = s->no_repack;
    options.slots = (uint32_t)s->slots;
    options.slot_tokens_max = (uint32_t)s->context;
    options.batch_tokens_max = (uint32_t)s->batch;
    options.logits_rows_max =
        1; /* a server looks at the last token's only; room for a batch costs a tenth of the speed */
    options.threads = (uint32_t)s->threads;
    options.threads_batch = (uint32_t)s->threads_batch;
    options.type_k = s->type_k;
    options.type_v = s->type_v;
    options.flash = flash[s->flash];
    options.swa_full = s->swa_full;
    options.shared = s->resume != 1; /* exact answers are computed alone: nothing to share */
    uint64_t counted = s->force || s->no_cache ? 0 : s->cache_ram, machine = cairn_machine_memory_bytes();
    if (!s->force && machine > counted)
        options.memory_bytes_max = machine - counted;
    int code = cairn_engine_open_file(&options, counted, &p->log, &p->engine);
    if (code != 0)
        return code;
    cairn_cache_options cache = {.ram_bytes_max = s->cache_ram, .off = s->no_cache || !p->engine.proved};
    cairn_cache_disk disk = {.dir = p->disk.dir,
                             .bytes_max = p->disk.bytes_max,
                             .written_day_bytes = p->disk.daily_bytes,
                             .key = p->disk.encrypted ? p->disk.key : NULL};
    p->disk.on = p->disk.on && !cache.off;
    cairn_disk_plan_secret(&p->disk, &p->log);
    disk.secret = p->disk.has_secret ? p->disk.secret : NULL;
    if (p->disk.on)
        cache.disk = &disk;
    p->shared.on = p->shared.on && !cache.off;
    if (p->shared.on)
        cache.shared = &p->shared.shared;
    cairn_error error = {0};
    if (cairn_cache_new(cairn_mem_default(), p->engine.engine, &cache, &p->cache, &error) != CAIRN_OK) {
        cairn_term_fail("the cache can't be made", &error,
                        error.status == CAIRN_NOMEM ? "Give it more room with --cache-ram, or use --no-cache."
                                                    : NULL);
        return 1;
    }
    check_disk(p);
    check_shared(p);
    if (!s->no_cache && !p->engine.proved) {
        CAIRN_LOG(&p->log, WARN, "cache",
                  CAIRN_FIELD_STR("message", "this model did not pass the check at start; the cache is off"),
                  CAIRN_FIELD_STR("why", p->engine.refused));
    } else if (s->resume == 1 && !p->engine.exact) {
        CAIRN_LOG(&p->log, WARN, "cache",
                  CAIRN_FIELD_STR("message",
                                  "this engine repeats itself only closely, so `exact` is not bit for bit"),
                  CAIRN_FIELD_STR("why", p->engine.refused));
    }
    if (!cache.off)
        check_room(s, p);
    return 0;
}

/* --trace. With --trace-private the secret is drawn here and forgotten with the process. */
static int open_recorder(const cairn_serve_settings *s, parts *p)
{
    uint8_t veil[CAIRN_RECORDER_KEY_BYTES];
    cairn_error error = {0};
    if (s->trace == NULL)
        return 0;
    if (s->trace_private && getrandom(veil, sizeof veil, 0) != (ssize_t)sizeof veil) {
        cairn_term_fail("the trace can't be made private", NULL, "The system gives no random numbers.");
        return 1;
    }
    cairn_recorder_options options = {.mem = cairn_mem_default(),
                                      .io = cairn_io_posix(),
                                      .log = &p->log,
                                      .path = s->trace,
                                      .bytes_max = s->trace_max,
                                      .veil = s->trace_private ? veil : NULL,
                                      .engine = &p->engine.engine->info,
                                      .ram_bytes_max = s->no_cache ? 0 : s->cache_ram,
                                      .mode = s->resume == 1 ? CAIRN_RESUME_EXACT : CAIRN_RESUME_FAST,
                                      .start_ns = cairn_clock_now_ns(cairn_clock_system())};
    if (cairn_recorder_open(&options, &p->recorder, &error) == CAIRN_OK)
        return 0;
    cairn_term_fail("the trace can't be written", &error, NULL);
    return 1;
}

/* --- running ----------------------------------------------------------------------------------------------------- */

static void show_prefill(void *ctx, uint64_t job, uint32_t done_tokens, uint32_t prompt_tokens)
{
    (void)ctx;
    if (done_tokens < prompt_tokens) {
        cairn_term_progress("request %llu: reading %u of %u tokens", (unsigned long long)job, done_tokens,
                            prompt_tokens);
    } else {
        cairn_term_progress("%s", "");
    }
}

static void write_log(void *ctx, const char *line, size_t len_bytes)
{
    cairn_term_progress("%s", "");
    cairn_log_write_fd(ctx, line, len_bytes);
}

/* Before the model is loaded: a port that is taken is told at once, and clients are told to wait. */
static int start_listening(const cairn_serve_settings *s, parts *p)
{
    const cairn_serve_options options = {.mem = cairn_mem_default(),
                                         .log = &p->log,
                                         .host = s->host,
                                         .port = (uint16_t)s->port,
                                         .threads = (uint32_t)s->http_threads,
                                         .connections_max = (uint32_t)s->connections,
                                         .body_bytes_max = (size_t)s->body_max};
    cairn_error error = {0};
    cairn_status status = cairn_serve_listen(&options, &p->http, &error);
    if (status == CAIRN_OK)
        return 0;
    cairn_term_fail("the server can't start", &error,
                    status == CAIRN_BUSY ? "Choose another with --port N; --port 0 takes a free one." : NULL);
    return 1;
}

static int start_server(const cairn_serve_settings *s, parts *p)
{
    cairn_engine_name(s->model, p->name, sizeof p->name);
    const cairn_cache_disk disk = {.dir = p->disk.dir, .key = p->disk.encrypted ? p->disk.key : NULL};
    cairn_serve_options options = {.mem = cairn_mem_default(),
                                   .log = &p->log,
                                   .clock = cairn_clock_system(),
                                   .engine = p->engine.engine,
                                   .cache = p->cache,
                                   .vocab = &p->engine.vocab,
                                   .chat = p->chat,
                                   .model_name = s->alias != NULL ? s->alias : p->name,
                                   .http = p->http,
                                   .queue_max = (uint32_t)s->queue,
                                   .request_ns = (uint64_t)s->request_timeout * 1000000000u,
                                   .body_bytes_max = (size_t)s->body_max,
                                   .resume = s->resume == 1 ? CAIRN_RESUME_EXACT : CAIRN_RESUME_FAST,
                                   .not_exact = p->engine.refused,
                                   .thinking_off = s->no_thinking,
                                   .normalize = s->normalize,
                                   .answers_bytes_max = s->no_cache ? 0 : s->answers_max,
                                   .replies_bytes_max = (size_t)s->replies_max,
                                   .answers_disk = p->disk.on ? &disk : NULL,
                                   .no_excerpts = s->no_excerpts,
                                   .recorder = p->recorder,
                                   .template_kwargs_json = s->template_kwargs,
                                   .api_keys = p->keys.items,
                                   .count_api_keys = p->keys.count,
                                   /* Servers of one store have one secret, for all tiers. */
                                   .namespace_secret = p->shared.on         ? p->shared.secret
                                                       : p->disk.has_secret ? p->disk.secret
                                                                            : NULL,
                                   .script = p->script,
                                   .flush_ns = (uint64_t)s->flush * 1000000000u,
                                   .progress = show_prefill};
    cairn_error error = {0};
    p->http = NULL; /* the server's from here on */
    if (cairn_serve_start(&options, &p->serve, &error) == CAIRN_OK)
        return 0;
    cairn_term_fail("the server can't start", &error, NULL);
    return 1;
}

/* The memory plan: the sum of the limits. */
static void print_plan(const cairn_serve_settings *s, const parts *p)
{
    const cairn_engine_info *info = &p->engine.engine->info;
    char weights[CAIRN_UNITS_TEXT], slots[CAIRN_UNITS_TEXT], cache[CAIRN_UNITS_TEXT], sum[CAIRN_UNITS_TEXT],
        bodies[CAIRN_UNITS_TEXT], answers[CAIRN_UNITS_TEXT], replies[CAIRN_UNITS_TEXT], about[128];
    cairn_llama_memory memory;
    cairn_llama_memory_get(p->engine.engine, &memory);
    uint64_t cache_bytes = s->no_cache ? 0 : s->cache_ram, bodies_bytes = s->body_max * 8,
             answers_bytes = s->no_cache ? 0 : s->answers_max;
    cairn_units_print_bytes(memory.weight_bytes, weights);
    char rows[CAIRN_UNITS_TEXT], cells[CAIRN_UNITS_TEXT], buffers[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes(memory.slot_bytes + memory.buffer_bytes, slots);
    cairn_units_print_bytes(memory.row_bytes, rows);
    cairn_units_print_bytes(memory.cell_bytes, cells);
    cairn_units_print_bytes(memory.buffer_bytes, buffers);
    cairn_units_print_bytes(cache_bytes, cache);
    cairn_units_print_bytes(bodies_bytes, bodies);
    cairn_units_print_bytes(answers_bytes, answers);
    cairn_units_print_bytes(s->replies_max, replies);
    cairn_units_print_bytes(memory.weight_bytes + memory.slot_bytes + memory.buffer_bytes + cache_bytes +
                                bodies_bytes + answers_bytes + s->replies_max,
                            sum);
    printf("model     %s\n", cairn_llama_describe(&p->engine.vocab, about, sizeof about));
    printf("engine    %s\n", info->build);
    char tokens[CAIRN_UNITS_TEXT];
    cairn_units_print_count(info->slot_tokens_max, tokens);
    printf("context   %s tokens", tokens);
    if (info->slots > 1)
        printf(" in each of %u slots\nslots     %s", info->slots, cairn_engine_sharing(p->engine.engine));
    printf("\n");
    printf("memory    at most %s: weights %s, slots %s, cache %s, bodies %s, answers %s, responses %s\n", sum,
           weights, slots, cache, bodies, answers, replies);
    printf("          of the slots: K/V %s, %s %s, buffers %s\n", rows,
           info->trim == CAIRN_TRIM_WINDOW ? "windows" : "recurrent cells", cells, buffers);
    char disk[CAIRN_DISK_PLAN_DIR];
    printf("disk      %s\n", cairn_disk_plan_text(&p->disk, disk, sizeof disk));
    printf("shared    %s\n", cairn_shared_plan_text(&p->shared, disk, sizeof disk));
    bool close_only = s->resume == 1 && !p->engine.exact;
    printf("cache     %s%s\n",
           s->no_cache || !p->engine.proved ? "off"
           : close_only                     ? "on, exact was asked for, but this engine is only close: "
           : s->resume == 1                 ? "on, exact"
                                            : "on, fast",
           !s->no_cache && p->engine.proved && close_only ? p->engine.refused : "");
}

static int write_port_file(const cairn_serve_settings *s, const parts *p)
{
    if (s->port_file == NULL)
        return 0;
    char text[16];
    int n = snprintf(text, sizeof text, "%u\n", cairn_serve_port(p->serve));
    cairn_error error = {0};
    if (cairn_io_write_file(cairn_io_posix(), s->port_file, text, (size_t)n, &error) == CAIRN_OK)
        return 0;
    cairn_term_fail("the port file can't be written", &error, NULL);
    return 1;
}

/* The signals that are waited for; before any thread, so that all of them inherit it. */
static void block_signals(const cairn_serve_settings *s, sigset_t *signals)
{
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGINT);
    if (s->api_key_file != NULL) /* else it ends the program, as it does when its terminal is closed */
        (void)sigaddset(signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

/* SIGHUP: read the API keys anew. If they can't be read, those that are there stay. */
static void reload_keys(const cairn_serve_settings *s, parts *p)
{
    cairn_error error = {0};
    cairn_serve_keys *fresh = cairn_mem_zalloc(cairn_mem_default(), sizeof *fresh);
    if (fresh == NULL)
        return;
    cairn_serve_keys_init(fresh);
    cairn_status status = cairn_serve_keys_read(fresh, s->api_key_file, &error);
    if (status == CAIRN_OK)
        status = cairn_serve_replace_keys(p->serve, fresh->items, fresh->count, &error);
    if (status == CAIRN_OK) {
        CAIRN_LOG(&p->log, INFO, "keys", CAIRN_FIELD_STR("message", "the API keys were read again"),
                  CAIRN_FIELD_UINT("count", fresh->count));
    } else {
        cairn_log_error(&p->log, CAIRN_LOG_LEVEL_ERROR, "keys", &error);
    }
    cairn_serve_keys_release(fresh);
    cairn_mem_release(cairn_mem_default(), fresh, sizeof *fresh);
}

/* Wait for SIGTERM or SIGINT. After the first one, a second ends the program at once. */
static void wait_for_end(const cairn_serve_settings *s, parts *p, const sigset_t *signals)
{
    int got = 0;
    while (sigwait(signals, &got) != 0 || got == SIGHUP) {
        if (got == SIGHUP)
            reload_keys(s, p);
        got = 0;
    }
    (void)pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    (void)signal(SIGHUP, SIG_IGN);
}

/* Ready: say so on the terminal and to the service manager, and serve until a signal. */
static void serve_until_signal(const cairn_serve_settings *s, parts *p, const sigset_t *signals)
{
    char state[128];
    print_plan(s, p);
    printf("cairn is ready: http://%s:%u\n", s->host, cairn_serve_port(p->serve));
    (void)fflush(stdout);
    (void)snprintf(state, sizeof state, "READY=1\nSTATUS=serving on port %u", cairn_serve_port(p->serve));
    (void)cairn_notify(state);
    wait_for_end(s, p, signals);
    (void)cairn_notify("STOPPING=1\nSTATUS=running requests may finish");
    CAIRN_LOG(&p->log, INFO, "stopping", CAIRN_FIELD_INT("drain_s", s->drain));
}

static void release(parts *p, const cairn_serve_settings *s)
{
    cairn_http_stop(p->http);
    cairn_serve_stop(p->serve, (uint64_t)s->drain * 1000000000u);
    cairn_recorder_close(p->recorder);
    cairn_script_free(p->script);
    cairn_chat_close(p->chat);
    cairn_cache_free(p->cache);
    cairn_engine_close(&p->engine);
    cairn_serve_keys_release(&p->keys);
    cairn_buf_release(&p->template_text);
    cairn_log_release(&p->log);
}

int cairn_cmd_serve(int argc, const char **argv)
{
    static parts p; /* the log must not move, and keys are many */
    cairn_serve_settings s;
    int code = cairn_serve_settings_read(&s, argc, argv);
    if (code >= 0)
        return code;
    sigset_t signals;
    block_signals(&s, &signals);
    cairn_log_init(&p.log, s.verbose ? CAIRN_LOG_LEVEL_DEBUG : CAIRN_LOG_LEVEL_INFO,
                   s.log_format == 1 ? CAIRN_FIELD_FORMAT_JSON : CAIRN_FIELD_FORMAT_TEXT,
                   cairn_clock_system(), write_log, (void *)(intptr_t)2); // NOLINT(performance-no-int-to-ptr)
    cairn_serve_keys_init(&p.keys);
    cairn_buf_init(&p.template_text, cairn_mem_default(), 4 << 20);
    code = read_keys(&s, &p);
    if (code == 0)
        code = open_script(&s, &p);
    if (code == 0)
        code = plan_disk(&s, &p);
    if (code == 0)
        code = cairn_shared_plan_read(&s, &p.log, &p.shared);
    if (code == 0)
        code = start_listening(&s, &p);
    if (code == 0)
        code = open_engine(&s, &p);
    if (code == 0)
        code = open_chat(&s, &p);
    if (code == 0)
        code = open_recorder(&s, &p);
    if (code == 0)
        code = start_server(&s, &p);
    if (code == 0)
        code = write_port_file(&s, &p);
    if (code == 0)
        serve_until_signal(&s, &p, &signals);
    if (code != 0 && cairn_engine_stop_asked())
        code = 0; /* a signal while the model was being loaded */
    release(&p, &s);
    if (code == 0)
        printf("cairn has stopped.\n");
    return code;
}
