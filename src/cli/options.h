/*
 * options - a command's options as a table: the command line, the environment and --help from one place.
 *
 *   environment CAIRN_PORT=8081   <   command line --port 8082          (the command line wins)
 *
 * Owner    texts are borrowed from argv and the environment; values belong to the caller
 * Thread   the main thread
 * Errors   a sentence in `problem`, for people; the program then ends with 2
 */
#ifndef CAIRN_CLI_OPTIONS_H
#define CAIRN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/status.h"

typedef enum cairn_option_kind {
    CAIRN_OPTION_HEAD,  /* no option: a heading in --help                                             */
    CAIRN_OPTION_FLAG,  /* bool: set to true                                                          */
    CAIRN_OPTION_TEXT,  /* const char *                                                               */
    CAIRN_OPTION_INT,   /* int64_t in [min, max]                                                      */
    CAIRN_OPTION_BYTES, /* uint64_t: "512M", "10%" of `whole`                                         */
    CAIRN_OPTION_WORD   /* int: index of the word in `words`, which are separated by '|'              */
} cairn_option_kind;

typedef struct cairn_option {
    cairn_option_kind kind;
    char letter;       /* 'p'; 0: none                                                                */
    const char *name;  /* "port": --port and CAIRN_PORT; a heading's text                              */
    void *value;       /* see kind                                                                    */
    const char *arg;   /* "PORT" in --help; NULL for flags                                            */
    const char *help;  /* may hold line ends                                                          */
    int64_t min, max;  /* INT                                                                         */
    uint64_t whole;    /* BYTES: what a percentage is of; 0: none                                     */
    const char *words; /* WORD: "fast|exact"                                                          */
} cairn_option;

typedef struct cairn_option_set {
    const char *usage; /* "cairn serve -m FILE [options]"                                             */
    const char *about; /* a few lines                                                                 */
    const cairn_option *options; /* cairn_option[count]                                               */
    size_t count;
    const char *tail; /* examples; NULL: none                                                         */
} cairn_option_set;

typedef enum cairn_options_result {
    CAIRN_OPTIONS_OK = 0,
    CAIRN_OPTIONS_HELP, /* --help was given                                                           */
    CAIRN_OPTIONS_WRONG /* see problem                                                                */
} cairn_options_result;

/*
 * Read the environment, then argv[1..argc).
 *
 *   rest     [out]  const char *[rest_max]: the arguments that are no options, borrowed from argv, then NULL. More than
 *                   rest_max - 1 of them are a mistake
 *   problem  [out]  char[256]
 */
cairn_options_result cairn_options_read(const cairn_option_set *set, int argc, const char **argv,
                                        const char **rest, size_t rest_max, char problem[256]);

/*
 * The same for a command: prints its help when that was asked for, or tells what is wrong. Gives -1 to go on, else the exit
 * code.
 *
 *   command  [in]  its name, for the hint to --help
 */
int cairn_options_take(const cairn_option_set *set, const char *command, int argc, const char **argv,
                       const char **rest, size_t rest_max);

/* Print usage, options and their variables on stdout. */
void cairn_options_help(const cairn_option_set *set);

#endif
