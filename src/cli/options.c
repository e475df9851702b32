/*
 * options - see the header. popt splits the command line; values are read here, so that the same rules hold for the
 * environment and the messages name the option as it was written.
 */
#include "cli/options.h"

#include <ctype.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/term.h"

enum { OPTIONS_MAX = 64, HELP_VALUE = 1000, KEPT_MAX = 256 };

/* Texts from popt that values point to: they live as long as the program. */
static char *kept[KEPT_MAX];
static size_t count_kept;

/* "cache-ram" -> "CAIRN_CACHE_RAM" */
static void variable_of(const char *name, char out[64])
{
    size_t n = (size_t)snprintf(out, 64, "CAIRN_%s", name);
    for (size_t i = 0; i < n && i < 63; i++)
        out[i] = (char)(out[i] == '-' ? '_' : toupper((unsigned char)out[i]));
}

/* Index of the word in "a|b|c"; -1: none of them. */
static int word_index(const char *words, const char *text)
{
    size_t len = strlen(text);
    int index = 0;
    for (const char *word = words;; index++) {
        size_t n = strcspn(word, "|");
        if (n == len && memcmp(word, text, n) == 0)
            return index;
        if (word[n] == '\0')
            return -1;
        word += n + 1;
    }
}

/* `shown` is how the user wrote it: "--port" or "CAIRN_PORT". */
static bool set_value(const cairn_option *o, const char *shown, const char *text, char problem[256])
{
    cairn_error error = {0};
    switch (o->kind) {
    case CAIRN_OPTION_HEAD:
        break;
    case CAIRN_OPTION_FLAG:
        *(bool *)o->value =
            text == NULL || (strcmp(text, "0") != 0 && strcmp(text, "") != 0 && strcmp(text, "no") != 0);
        break;
    case CAIRN_OPTION_TEXT:
        *(const char **)o->value = text;
        break;
    case CAIRN_OPTION_INT:
        if (cairn_units_parse_int(text, o->min, o->max, o->value, &error) != CAIRN_OK) {
            (void)snprintf(problem, 256, "%s %.60s: %.120s", shown, text, error.detail);
            return false;
        }
        break;
    case CAIRN_OPTION_BYTES:
        if (cairn_units_parse_bytes(text, o->whole, o->value, &error) != CAIRN_OK) {
            (void)snprintf(problem, 256, "%s %.60s: %.120s (examples: 512M, 4G, 25%%)", shown, text,
                           error.detail);
            return false;
        }
        break;
    case CAIRN_OPTION_WORD: {
        int index = word_index(o->words, text);
        if (index < 0) {
            (void)snprintf(problem, 256, "%s %.60s: it must be one of %s", shown, text, o->words);
            return false;
        }
        *(int *)o->value = index;
        break;
    }
    }
    return true;
}

static bool read_environment(const cairn_option_set *set, char problem[256])
{
    for (size_t i = 0; i < set->count; i++) {
        const cairn_option *o = &set->options[i];
        if (o->kind == CAIRN_OPTION_HEAD)
            continue;
        char variable[64];
        variable_of(o->name, variable);
        const char *text = getenv(variable);
        if (text != NULL && text[0] != '\0' && !set_value(o, variable, text, problem))
            return false;
    }
    return true;
}

static void make_table(const cairn_option_set *set, struct poptOption *table)
{
    size_t n = 0;
    for (size_t i = 0; i < set->count; i++) {
        const cairn_option *o = &set->options[i];
        if (o->kind == CAIRN_OPTION_HEAD)
            continue;
        table[n++] =
            (struct poptOption){.longName = o->name,
                                .shortName = o->letter,
                                .argInfo = o->kind == CAIRN_OPTION_FLAG ? POPT_ARG_NONE : POPT_ARG_STRING,
                                .val = (int)i + 1};
    }
    table[n++] = (struct poptOption){
        .longName = "help", .shortName = 'h', .argInfo = POPT_ARG_NONE, .val = HELP_VALUE};
    table[n] = (struct poptOption){.longName = NULL};
}

/* Arguments that are no options, copied as pointers into argv. */
static cairn_options_result take_rest(poptContext context, int argc, const char **argv, const char **rest,
                                      size_t rest_max, char problem[256])
{
    size_t n = 0;
    const char *item;
    while ((item = poptGetArg(context)) != NULL) {
        if (n + 1 >= rest_max) {
            (void)snprintf(problem, 256, "unexpected argument \"%.100s\"", item);
            return CAIRN_OPTIONS_WRONG;
        }
        /* popt's copy dies with its context; the same text is in argv. */
        for (int i = 1; i < argc; i++) {
            if (strcmp(argv[i], item) == 0) {
                rest[n++] = argv[i];
                break;
            }
        }
    }
    rest[n] = NULL;
    return CAIRN_OPTIONS_OK;
}

cairn_options_result cairn_options_read(const cairn_option_set *set, int argc, const char **argv,
                                        const char **rest, size_t rest_max, char problem[256])
{
    struct poptOption table[OPTIONS_MAX + 2];
    CAIRN_ASSERT(set->count <= OPTIONS_MAX && rest_max >= 1);
    make_table(set, table);
    poptContext context = poptGetContext("cairn", argc, argv, table, 0);
    if (context == NULL) {
        (void)snprintf(problem, 256, "out of memory");
        return CAIRN_OPTIONS_WRONG;
    }
    cairn_options_result result = CAIRN_OPTIONS_OK;
    bool help = false, environment_read = false;
    int code;
    while (result == CAIRN_OPTIONS_OK && (code = poptGetNextOpt(context)) >= 0) {
        if (code == HELP_VALUE) {
            help = true;
            break;
        }
        /* Only now, so that --help works whatever the environment says. */
        if (!environment_read && !read_environment(set, problem))
            result = CAIRN_OPTIONS_WRONG;
        environment_read = true;
        const cairn_option *o = &set->options[code - 1];
        char shown[64];
        (void)snprintf(shown, sizeof shown, "--%s", o->name);
        char *text = poptGetOptArg(context);
        if (result == CAIRN_OPTIONS_OK && !set_value(o, shown, text, problem))
            result = CAIRN_OPTIONS_WRONG;
        if (o->kind == CAIRN_OPTION_TEXT && count_kept < KEPT_MAX) {
            kept[count_kept++] = text;
        } else if (o->kind == CAIRN_OPTION_TEXT) {
            result = CAIRN_OPTIONS_WRONG;
        } else {
            free(text);
        }
    }
    if (help) {
        result = CAIRN_OPTIONS_HELP;
    } else if (result == CAIRN_OPTIONS_OK && code < -1) {
        (void)snprintf(problem, 256, "%.100s: %s", poptBadOption(context, POPT_BADOPTION_NOALIAS),
                       poptStrerror(code));
        result = CAIRN_OPTIONS_WRONG;
    } else if (result == CAIRN_OPTIONS_OK) {
        if (!environment_read && !read_environment(set, problem)) {
            result = CAIRN_OPTIONS_WRONG;
        } else {
            result = take_rest(context, argc, argv, rest, rest_max, problem);
        }
    }
    (void)poptFreeContext(context);
    return result;
}

/* --- help -------------------------------------------------------------------------------------------------------- */

static void print_help_lines(const char *help, int indent)
{
    bool first = true;
    while (*help != '\0') {
        int n = (int)strcspn(help, "\n");
        printf("%*s%.*s\n", first ? 0 : indent, "", n, help);
        first = false;
        help += n;
        if (*help == '\n')
            help++;
    }
}

void cairn_options_help(const cairn_option_set *set)
{
    enum { INDENT = 30 };
    bool headed = set->count > 0 && set->options[0].kind == CAIRN_OPTION_HEAD; /* begins with an empty line */
    printf("usage: %s\n\n%s\n%s", set->usage, set->about, headed ? "" : "\n");
    for (size_t i = 0; i < set->count; i++) {
        const cairn_option *o = &set->options[i];
        if (o->kind == CAIRN_OPTION_HEAD) {
            printf("\n%s\n", o->name);
            continue;
        }
        char left[80], letter[8] = "    ";
        if (o->letter != 0)
            (void)snprintf(letter, sizeof letter, "-%c, ", o->letter);
        (void)snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, o->arg != NULL ? " " : "",
                       o->arg != NULL ? o->arg : "");
        if (strlen(left) >= INDENT - 1) {
            printf("%s\n%*s", left, INDENT, "");
        } else {
            printf("%-*s", INDENT, left);
        }
        print_help_lines(o->help, INDENT);
    }
    printf("\n  -h, --help                  this text\n");
    printf("\nEvery option can also be given as an environment variable: CAIRN_ and its name in\n"
           "capitals, with _ for - (CAIRN_CACHE_RAM=4G). The command line wins.\n");
    if (set->tail != NULL)
        printf("\n%s", set->tail);
}

int cairn_options_take(const cairn_option_set *set, const char *command, int argc, const char **argv,
                       const char **rest, size_t rest_max)
{
    char problem[256];
    switch (cairn_options_read(set, argc, argv, rest, rest_max, problem)) {
    case CAIRN_OPTIONS_HELP:
        cairn_options_help(set);
        return 0;
    case CAIRN_OPTIONS_WRONG:
        return cairn_term_usage(command, problem);
    default:
        return -1;
    }
}
