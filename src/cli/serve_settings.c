/*
 * serve_settings - see the header.
 */
#include "cli/serve_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "cli/model_options.h"
#include "cli/term.h"

enum { TRACE_MAX_LEAST = 64 * 1024 };

static void defaults(cairn_serve_settings *s)
{
    memset(s, 0, sizeof *s);
    s->host = "127.0.0.1";
    s->port = 8080;
    s->slots = 1;
    s->gpu_layers = -1;
    s->queue = 64;
    s->http_threads = 4;
    s->connections = 512;
    s->drain = 10;
    s->flush = 5;
    s->cache_shared_ttl = 86400;
    s->cache_shared_deadline = 250;
    s->cache_ram = cairn_machine_memory_bytes() / 4;
    s->body_max = 32u << 20;
    s->answers_max = 64u << 20;
    s->replies_max = 64u << 20;
    s->trace_max = 1u << 30;
}

/* "auto" is 0. */
static bool read_slots(const char *text, int64_t *ret_slots)
{
    if (strcmp(text, "auto") == 0) {
        *ret_slots = 0;
        return true;
    }
    int64_t slots = 0;
    for (const char *at = text; *at >= '0' && *at <= '9' && slots <= 256; at++) {
        slots = slots * 10 + (*at - '0');
        if (at[1] == '\0' && slots >= 1 && slots <= 256) {
            *ret_slots = slots;
            return true;
        }
    }
    return false;
}

static int unexpected(const char *argument)
{
    char problem[200];
    (void)snprintf(problem, sizeof problem, "unexpected argument \"%.100s\"; the model is given with -m FILE",
                   argument);
    return cairn_term_usage("serve", problem);
}

// NOLINTNEXTLINE(readability-function-size): a table
int cairn_serve_settings_read(cairn_serve_settings *s, int argc, const char **argv)
{
    defaults(s);
    const cairn_option options[] = {
        {.kind = CAIRN_OPTION_HEAD, .name = "model"},
        CAIRN_MODEL_OPTIONS(s),
        {.kind = CAIRN_OPTION_TEXT,
         .name = "alias",
         .value = &s->alias,
         .arg = "NAME",
         .help = "what clients see as the model's name (the file's name)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "ctx-size",
         .letter = 'c',
         .value = &s->context,
         .arg = "TOKENS",
         .min = 0,
         .max = 1 << 24,
         .help = "longest conversation of a slot, answer included; 0: what the\nmodel was trained for, at "
                 "most 32,768 (0)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "threads-batch",
         .value = &s->threads_batch,
         .arg = "N",
         .min = 0,
         .max = 1024,
         .help = "threads while prompts are read; 0: as --threads (0)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "gpu-layers",
         .value = &s->gpu_layers,
         .arg = "N",
         .min = -1,
         .max = 10000,
         .help = "layers to put on GPUs; -1: all that fit (-1)"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "no-mmap",
         .value = &s->no_mmap,
         .help = "read the model file instead of mapping it"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "mlock",
         .value = &s->mlock,
         .help = "keep the weights from being swapped out"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "force",
         .value = &s->force,
         .help = "start even if the estimate says that memory is too small"},
        {.kind = CAIRN_OPTION_HEAD, .name = "cache"},
        {.kind = CAIRN_OPTION_BYTES,
         .name = "cache-ram",
         .value = &s->cache_ram,
         .arg = "SIZE",
         .whole = cairn_machine_memory_bytes(),
         .help = "memory for saved states and rows: 512M, 4G, 10% (25%)"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "no-cache",
         .value = &s->no_cache,
         .help = "keep nothing: every prompt is read from its first token"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "cache-disk",
         .value = &s->cache_disk,
         .arg = "DIR[:SIZE]",
         .help = "where conversations survive a restart, and how much it may hold (the\nuser's cache "
                 "directory, 20 "
                 "GiB or 10% of the free space,\nwhichever is less)"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "no-cache-disk",
         .value = &s->no_cache_disk,
         .help = "keep nothing on disk"},
        {.kind = CAIRN_OPTION_BYTES,
         .name = "cache-disk-daily",
         .value = &s->cache_disk_daily,
         .arg = "SIZE",
         .help = "most bytes written to disk in a day; 0: five times the size,\nat least 64 GiB (0)"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "cache-key",
         .value = &s->cache_key,
         .arg = "FILE",
         .help =
             "encrypt what is on disk and in the shared store; FILE has 32 bytes\nor 64 hexadecimal digits"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "cache-shared",
         .value = &s->cache_shared,
         .arg = "URL",
         .help =
             "a store that several servers share, so that each resumes what others\nhave read: redis://HOST, "
             "http(s)://HOST/PATH, s3://BUCKET, file:///DIR"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "cache-shared-key",
         .value = &s->cache_shared_key,
         .arg = "FILE",
         .help = "the secret that all servers of that store have, in a file like that of\n--cache-key, from "
                 "which "
                 "it is derived if only that is given"},
        {.kind = CAIRN_OPTION_INT,
         .name = "cache-shared-ttl",
         .value = &s->cache_shared_ttl,
         .arg = "SECONDS",
         .min = 60,
         .max = 365 * 86400,
         .help = "how long what is shared is kept (86400)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "cache-shared-deadline",
         .value = &s->cache_shared_deadline,
         .arg = "MS",
         .min = 1,
         .max = 60000,
         .help = "how long a request waits for the store's answer before it reads (250)"},
        {.kind = CAIRN_OPTION_BYTES,
         .name = "cache-shared-max",
         .value = &s->cache_shared_max,
         .arg = "SIZE",
         .help = "file:// only: how much the whole directory may hold; 0: 20G (0)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "flush",
         .value = &s->flush,
         .arg = "SECONDS",
         .min = 0,
         .max = 86400,
         .help = "after SIGTERM, once requests have ended: how long to write what is\nnot on disk yet (5)"},
        {.kind = CAIRN_OPTION_WORD,
         .name = "resume",
         .value = &s->resume,
         .arg = "fast|exact",
         .words = "fast|exact",
         .help = "exact: answers are bit for bit those of a server just started;\nfast: states from written "
                 "answers may serve, too (fast)"},
        {.kind = CAIRN_OPTION_BYTES,
         .name = "answers-max",
         .value = &s->answers_max,
         .arg = "SIZE",
         .help =
             "memory for answers, to recognise those that clients send back in\nother words; 0: off (64M)"},
        {.kind = CAIRN_OPTION_BYTES,
         .name = "responses-max",
         .value = &s->replies_max,
         .arg = "SIZE",
         .help = "memory for responses of /v1/responses, which later requests may name\nby their id; 0: none "
                 "(64M)"},
        {.kind = CAIRN_OPTION_HEAD, .name = "server"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "host",
         .value = &s->host,
         .arg = "ADDRESS",
         .help = "address to listen on; 0.0.0.0 for all (127.0.0.1)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "port",
         .letter = 'p',
         .value = &s->port,
         .arg = "PORT",
         .min = 0,
         .max = 65535,
         .help = "port to listen on; 0: any free one, which is printed (8080)"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "port-file",
         .value = &s->port_file,
         .arg = "FILE",
         .help = "write the port's number there when the server is ready"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "slots",
         .letter = 'n',
         .value = &s->slots_text,
         .arg = "N|auto",
         .help = "requests worked on at once, 1 to 256; each has a context of -c\ntokens. auto: as many as "
                 "memory has room for, at most 8 (1)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "queue",
         .value = &s->queue,
         .arg = "N",
         .min = 0,
         .max = 100000,
         .help = "requests that may wait for a slot; more get 429 (64)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "request-timeout",
         .value = &s->request_timeout,
         .arg = "SECONDS",
         .min = 0,
         .max = 86400,
         .help = "end a request that takes longer, waiting included, with 504;\n0: never (0)"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "api-key-file",
         .value = &s->api_key_file,
         .arg = "FILE",
         .help = "require an API key; the file has one per line. Keys share nothing"},
        {.kind = CAIRN_OPTION_BYTES,
         .name = "body-max",
         .value = &s->body_max,
         .arg = "SIZE",
         .help = "largest request body (32M)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "connections",
         .value = &s->connections,
         .arg = "N",
         .min = 1,
         .max = 100000,
         .help = "connections open at once (512)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "http-threads",
         .value = &s->http_threads,
         .arg = "N",
         .min = 1,
         .max = 256,
         .help = "threads for HTTP, JSON, templates (4)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "drain",
         .value = &s->drain,
         .arg = "SECONDS",
         .min = 0,
         .max = 86400,
         .help = "how long running requests may go on after SIGTERM (10)"},
        {.kind = CAIRN_OPTION_HEAD, .name = "chat template"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "chat-template-file",
         .value = &s->template_file,
         .arg = "FILE",
         .help = "a Jinja template in place of the model's own"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "chat-template-kwargs",
         .value = &s->template_kwargs,
         .arg = "JSON",
         .help = "template arguments: '{\"enable_thinking\":false}'"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "no-thinking",
         .value = &s->no_thinking,
         .help = "switch reasoning off where the template can, unless a request\nsays otherwise"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "normalize",
         .value = &s->normalize,
         .help = "keep known volatile lines (clocks, Claude Code's billing line)\n"
                 "out of the prompt's head: docs/api.md says which"},
        {.kind = CAIRN_OPTION_HEAD, .name = "log"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "no-excerpts",
         .value = &s->no_excerpts,
         .help = "records of requests hold no words of the prompts"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "trace",
         .value = &s->trace,
         .arg = "FILE",
         .help = "record requests (tokens, no text) for `cairn simulate FILE`"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "trace-private",
         .value = &s->trace_private,
         .help = "record salted names in place of tokens: such a file can be passed on"},
        {.kind = CAIRN_OPTION_BYTES,
         .name = "trace-max",
         .value = &s->trace_max,
         .arg = "SIZE",
         .help = "how large FILE and its predecessor FILE.1 may be together (1G)"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "verbose",
         .letter = 'v',
         .value = &s->verbose,
         .help = "say more, libllama's own messages included"},
        {.kind = CAIRN_OPTION_WORD,
         .name = "log-format",
         .value = &s->log_format,
         .arg = "text|json",
         .words = "text|json",
         .help = "how log lines look (text)"},
        {.kind = CAIRN_OPTION_HEAD, .name = "debug"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "script",
         .value = &s->script,
         .arg = "FILE",
         .help = "for tests: answers come from this file, everything else is real\n(docs/script.md)"},
    };
    const cairn_option_set set = {
        .usage = "cairn serve -m FILE [options]",
        .about =
            "Serves a model over HTTP with OpenAI's, Anthropic's and llama.cpp's APIs. A prompt that begins\n"
            "like something seen before is resumed from there, not read again.",
        .options = options,
        .count = sizeof options / sizeof options[0],
        .tail = "examples:\n"
                "  cairn serve -m model.gguf\n"
                "  cairn serve -m model.gguf -c 65536 --slots 2 --cache-ram 8G --port 8081\n"
                "  cairn model synth -o tiny.gguf && cairn serve -m tiny.gguf      (nothing to download)\n"};
    const char *rest[2];
    int code = cairn_options_take(&set, "serve", argc, argv, rest, 2);
    if (code >= 0)
        return code;
    if (rest[0] != NULL)
        return unexpected(rest[0]);
    if (s->model == NULL)
        return cairn_term_usage(
            "serve",
            "the model is missing: -m FILE\nTo try it without one: cairn model synth -o tiny.gguf && "
            "cairn serve -m tiny.gguf");
    if (s->trace_max < TRACE_MAX_LEAST)
        return cairn_term_usage("serve", "--trace-max must be at least 64K");
    if (s->slots_text != NULL && !read_slots(s->slots_text, &s->slots))
        return cairn_term_usage("serve", "--slots takes a number from 1 to 256, or auto");
    return -1;
}
