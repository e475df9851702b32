/*
 * cairn - the program: finds the command and hands over.
 */
#include <locale.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/term.h"

static const struct command {
    const char *name;
    int (*run)(int argc, const char **argv);
    const char *about;
} commands[] = {
    {"serve", cairn_cmd_serve, "serve a model over HTTP (OpenAI's, Anthropic's and llama.cpp's API)"},
    {"verify", cairn_cmd_verify, "prove on this machine that resuming gives what reading would"},
    {"explain", cairn_cmd_explain, "where two requests part, what a cache can reuse, and why not more"},
    {"top", cairn_cmd_top, "watch a running server in a terminal"},
    {"model", cairn_cmd_model, "make small models with random weights, to try and to test"},
    {"store", cairn_cmd_store, "look into the directory of saved conversations; verify or clean it"},
    {"simulate", cairn_cmd_simulate, "replay traffic under several caching rules and budgets"},
    {"version", cairn_cmd_version, "name this build and its libllama"},
};

static void print_help(FILE *out)
{
    fprintf(
        out,
        "usage: cairn <command> [options]\n\n"
        "cairn serves language models. It resumes an edited conversation from where it was changed, instead\n"
        "of reading it again; also with hybrid and recurrent models.\n\ncommands:\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].about);
    fprintf(out,
            "\n`cairn <command> --help` says more. To begin:\n\n"
            "  cairn serve -m model.gguf                  (none at hand: cairn model synth -o model.gguf)\n"
            "  curl http://127.0.0.1:8080/v1/chat/completions -d "
            "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n");
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int no_command(const char *name)
{
    char problem[256];
    size_t n = (size_t)snprintf(problem, sizeof problem, "there is no command \"%.60s\"; there are", name);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0] && n < sizeof problem; i++)
        n += (size_t)snprintf(problem + n, sizeof problem - n, "%s %s", i > 0 ? "," : "", commands[i].name);
    return cairn_term_usage("", problem);
}

/*
 * A server frees blocks of all sizes for days: give large ones back to the system, and have fewer heaps in which holes
 * stay. See docs/decisions/0015-malloc.md.
 */
static void set_malloc(void)
{
#ifdef __GLIBC__
    enum { MAPPED_BYTES = 1024 * 1024, TRIM_BYTES = 1024 * 1024, HEAPS = 2 };
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    (void)mallopt(M_ARENA_MAX, HEAPS);
#endif
}

int main(int argc, char **argv)
{
    set_malloc();
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* numbers keep their point */
    const char *name = argc > 1 ? argv[1] : "", *help[] = {NULL, "--help"};
    bool asks = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
    if (asks && argc > 2) { /* cairn help serve */
        const struct command *command = find(argv[2]);
        help[0] = argv[2];
        return command != NULL ? command->run(2, help) : no_command(argv[2]);
    }
    if (asks) {
        print_help(stdout);
        return 0;
    }
    if (argc < 2) {
        fprintf(stderr, "cairn: a command is missing\n\n");
        print_help(stderr);
        return 2;
    }
    const struct command *command = find(strcmp(name, "--version") == 0 ? "version" : name);
    return command != NULL ? command->run(argc - 1, (const char **)argv + 1) : no_command(name);
}
