/*
 * serve_settings - the options of `cairn serve`: their names, defaults and help.
 *
 * Thread   the main thread
 * See      README.md (table of options)
 */
#ifndef CAIRN_CLI_SERVE_SETTINGS_H
#define CAIRN_CLI_SERVE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* The values of the options, as they were given. */
typedef struct cairn_serve_settings {
    const char *cache_shared, *cache_shared_key;
    int64_t cache_shared_ttl, cache_shared_deadline;
    uint64_t cache_shared_max;
    const char *cache_disk, *cache_key, *script;
    const char *model, *alias, *host, *api_key_file, *port_file, *template_file, *template_kwargs, *type_k,
        *type_v;
    const char *trace;
    const char *slots_text; /* "auto" or a number */
    int64_t port, context, threads, threads_batch, slots, batch, gpu_layers, queue, http_threads, connections,
        drain, flush, request_timeout;
    uint64_t cache_ram, cache_disk_daily, answers_max, replies_max, body_max, trace_max;
    int resume, log_format, flash;
    bool no_cache, no_cache_disk, verbose, no_mmap, mlock, no_repack, swa_full, no_thinking, normalize,
        no_excerpts, force, trace_private;
} cairn_serve_settings;

/* Defaults, then the environment, then argv. Gives -1 to go on, else the exit code (help, or a mistake told). */
int cairn_serve_settings_read(cairn_serve_settings *settings, int argc, const char **argv);

#endif
